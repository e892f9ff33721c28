/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that a worker offers to the programs that offload to it (offload.h). A kernel is a C
 * function of up to 16 arguments by value that returns void or int:
 *
 *     void kernel0(double a, int b, char c) { ... }
 *     TELPHER_KERNEL(kernel0, double, int, char)
 *
 * The second line, at file scope and after a declaration of the function, registers it with its
 * signature. It needs no -rdynamic, works in static programs and, for functions that are extern
 * "C", in C++. In a static library it takes effect if the object is linked in.
 */
#ifndef TELPHER_KERNEL_H
#define TELPHER_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TELPHER_KERNEL_ARGS_MAX 16 /**< arguments of one kernel */
#define TELPHER_KERNEL_NAME_MAX 255 /**< [bytes] of its name */

/**
 * An argument of any size. The caller gives the number of bytes. The kernel receives a copy,
 * aligned to 16, which is freed when the kernel returns.
 */
typedef struct telpher_bytes {
    const void *data;
    uint64_t len; /**< [bytes] */
} telpher_bytes;

/**
 * This worker's rows of an array that stays with the workers (telpher_array_create() in
 * offload.h). The caller passes the telpher_array; the memory is the kernel's to read and
 * write until it returns.
 */
typedef struct telpher_block {
    void *data; /**< aligned to 64; not NULL */
    uint64_t rows; /**< of this worker; it may have none */
    uint64_t row_bytes; /**< [bytes] of each */
    uint64_t first; /**< number of its first row in the array */
    uint64_t all_rows; /**< of all workers */
} telpher_block;

/** Description of one argument's type, filled by TELPHER_KERNEL(). */
typedef struct telpher_kernel_arg {
    char code; /**< a letter of the list at telpher_kernel.signature, or T */
    uint32_t size, align; /**< [bytes] */
} telpher_kernel_arg;

/** One kernel. Zero means "none" in every field after struct_size. */
typedef struct telpher_kernel {
    uint32_t struct_size;
    uint32_t argcount;
    const char *name;
    const telpher_kernel_arg *args; /**< argcount of them; NULL = look at signature */
    /** Calls the kernel with the arguments that args[i] point to; NULL = by libffi. */
    int (*invoke)(void *const *args);
    void (*function)(void); /**< for libffi; ignored if invoke is set */
    /**
     * Types as text, a letter an argument: o bool, c C 8 bits, s S 16, i I 32, l L 64
     * (capitals are unsigned), f float, d double, g long double, x z complex of f and d,
     * B telpher_bytes, A telpher_block, {..} a struct of the others. A kernel that returns int ends in ">i".
     */
    const char *signature;
    int returns_int; /**< for kernels with args; a signature contains it */
    struct telpher_kernel *next; /**< the library's */
} telpher_kernel;

/**
 * Registers a kernel. TELPHER_KERNEL() calls it before main, or when a plugin is loaded. @p
 * kernel is kept for the life of the process. Of two kernels with one name the first is used. An
 * invalid description is ignored, with a warning.
 */
TELPHER_CALL void telpher_kernel_register(telpher_kernel *kernel);

/**
 * Registers kernels that telpher-worker-cc finds in a program's debug information. They are
 * searched last.
 */
TELPHER_CALL void telpher_kernel_register_derived(telpher_kernel *kernel);

/**
 * In a kernel: sets the text for a result that is not 0, cut at 255 bytes. The caller's wait
 * returns the highest result of all workers, the first worker that had it, and that worker's
 * text.
 */
TELPHER_CALL void telpher_kernel_error(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

#ifdef __cplusplus
}
#endif

/**
 * First row of block @p i of @p parts blocks. Block i ends before the first row of block i + 1,
 * so that blocks differ by one row at most.
 */
TELPHER_CALL uint64_t telpher_block_first(uint64_t rows, int parts, int i);

/* The implementation of TELPHER_KERNEL(). Its names are not part of the interface. */
/* clang-format off */
#ifdef __cplusplus
template <typename T> struct telpher_p_type {
    static constexpr char code = __is_enum(T) ? (sizeof(T) == 4 ? 'I' : '?')
                               : __is_class(T) || __is_union(T) ? 'T' : 'p';
};
#define TELPHER_P_TYPE(T, c) \
    template <> struct telpher_p_type<T> { static constexpr char code = c; };
TELPHER_P_TYPE(bool, 'o') TELPHER_P_TYPE(char, 'c') TELPHER_P_TYPE(signed char, 'c')
TELPHER_P_TYPE(unsigned char, 'C') TELPHER_P_TYPE(short, 's') TELPHER_P_TYPE(unsigned short, 'S')
TELPHER_P_TYPE(int, 'i') TELPHER_P_TYPE(unsigned int, 'I')
TELPHER_P_TYPE(long, sizeof(long) == 8 ? 'l' : 'i')
TELPHER_P_TYPE(unsigned long, sizeof(long) == 8 ? 'L' : 'I')
TELPHER_P_TYPE(long long, 'l') TELPHER_P_TYPE(unsigned long long, 'L')
TELPHER_P_TYPE(float, 'f') TELPHER_P_TYPE(double, 'd') TELPHER_P_TYPE(long double, 'g')
TELPHER_P_TYPE(telpher_bytes, 'B') TELPHER_P_TYPE(telpher_block, 'A')
template <typename T> struct telpher_p_type<const T> : telpher_p_type<T> {};
/* (kernel(...), telpher_p_zero()) is 0 for void and the result for int. */
struct telpher_p_zero { operator int() const { return 0; } };
inline int operator,(int result, telpher_p_zero) { return result; }
#define TELPHER_P_CODE(T) telpher_p_type<T>::code
#define TELPHER_P_ALIGN(T) alignof(T)
#define TELPHER_P_RESULT(call) (call, telpher_p_zero())
#define TELPHER_P_RETURNS(call) (sizeof(telpher_p_is_int((call, telpher_p_mark()))) == 1)
struct telpher_p_mark {};
struct telpher_p_int {};
inline telpher_p_int operator,(int, telpher_p_mark) { return telpher_p_int(); }
char telpher_p_is_int(telpher_p_int);
char (&telpher_p_is_int(telpher_p_mark))[2];
#else
#define TELPHER_P_CODE(T)                                                              \
    _Generic(*(T *)0, _Bool: 'o', char: 'c', signed char: 'c', unsigned char: 'C',     \
        short: 's', unsigned short: 'S', int: 'i', unsigned int: 'I',                  \
        long: sizeof(long) == 8 ? 'l' : 'i', unsigned long: sizeof(long) == 8 ? 'L' : 'I', \
        long long: 'l', unsigned long long: 'L', float: 'f', double: 'd',              \
        long double: 'g', float _Complex: 'x', double _Complex: 'z',                   \
        telpher_bytes: 'B', telpher_block: 'A',                                        \
        default: __builtin_classify_type(*(T *)0) == 5 ? 'p' : 'T')
#define TELPHER_P_ALIGN(T) __alignof__(T)
#define TELPHER_P_IS_VOID(call) __builtin_types_compatible_p(__typeof__(call), void)
#define TELPHER_P_RESULT(call) \
    __builtin_choose_expr(TELPHER_P_IS_VOID(call), ((call), 0), (call))
#define TELPHER_P_RETURNS(call) (!TELPHER_P_IS_VOID(call))
#endif
#define TELPHER_P_ARG(T) {TELPHER_P_CODE(T), (uint32_t)sizeof(T), (uint32_t)TELPHER_P_ALIGN(T)},
/* the argument that has `left` arguments from it to the last, itself included */
#define TELPHER_P_GET(T, left) *(T *)args[telpher_count - (left)]
#define TELPHER_P_STRIP(...) __VA_ARGS__
#define TELPHER_P_CAT(a, b) TELPHER_P_CAT2(a, b)
#define TELPHER_P_CAT2(a, b) a##b

#define TELPHER_P_KERNEL(kernel, count, types, values)                                 \
    static const telpher_kernel_arg telpher_args_##kernel[] = {                        \
        TELPHER_P_STRIP types {0, 0, 0}};                                              \
    static int telpher_invoke_##kernel(void *const *args)                              \
    {                                                                                  \
        enum { telpher_count = (count) };                                              \
        (void)args;                                                                    \
        return TELPHER_P_RESULT(kernel values);                                        \
    }                                                                                  \
    __attribute__((constructor)) static void telpher_register_##kernel(void)           \
    {                                                                                  \
        static telpher_kernel telpher_self;                                            \
        enum { telpher_count = (count) };                                              \
        void *const *args = NULL;                                                      \
        (void)args;                                                                    \
        telpher_self.struct_size = (uint32_t)sizeof(telpher_self);                     \
        telpher_self.argcount = (count);                                               \
        telpher_self.name = #kernel;                                                   \
        telpher_self.args = telpher_args_##kernel;                                     \
        telpher_self.invoke = telpher_invoke_##kernel;                                 \
        telpher_self.returns_int = TELPHER_P_RETURNS(kernel values);                   \
        telpher_kernel_register(&telpher_self);                                        \
    }

#define TELPHER_P_ARGS_1(T) TELPHER_P_ARG(T)
#define TELPHER_P_ARGS_2(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_1(__VA_ARGS__)
#define TELPHER_P_ARGS_3(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_2(__VA_ARGS__)
#define TELPHER_P_ARGS_4(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_3(__VA_ARGS__)
#define TELPHER_P_ARGS_5(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_4(__VA_ARGS__)
#define TELPHER_P_ARGS_6(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_5(__VA_ARGS__)
#define TELPHER_P_ARGS_7(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_6(__VA_ARGS__)
#define TELPHER_P_ARGS_8(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_7(__VA_ARGS__)
#define TELPHER_P_ARGS_9(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_8(__VA_ARGS__)
#define TELPHER_P_ARGS_10(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_9(__VA_ARGS__)
#define TELPHER_P_ARGS_11(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_10(__VA_ARGS__)
#define TELPHER_P_ARGS_12(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_11(__VA_ARGS__)
#define TELPHER_P_ARGS_13(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_12(__VA_ARGS__)
#define TELPHER_P_ARGS_14(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_13(__VA_ARGS__)
#define TELPHER_P_ARGS_15(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_14(__VA_ARGS__)
#define TELPHER_P_ARGS_16(T, ...) TELPHER_P_ARG(T) TELPHER_P_ARGS_15(__VA_ARGS__)
#define TELPHER_P_VALS_1(T) TELPHER_P_GET(T, 1)
#define TELPHER_P_VALS_2(T, ...) TELPHER_P_GET(T, 2), TELPHER_P_VALS_1(__VA_ARGS__)
#define TELPHER_P_VALS_3(T, ...) TELPHER_P_GET(T, 3), TELPHER_P_VALS_2(__VA_ARGS__)
#define TELPHER_P_VALS_4(T, ...) TELPHER_P_GET(T, 4), TELPHER_P_VALS_3(__VA_ARGS__)
#define TELPHER_P_VALS_5(T, ...) TELPHER_P_GET(T, 5), TELPHER_P_VALS_4(__VA_ARGS__)
#define TELPHER_P_VALS_6(T, ...) TELPHER_P_GET(T, 6), TELPHER_P_VALS_5(__VA_ARGS__)
#define TELPHER_P_VALS_7(T, ...) TELPHER_P_GET(T, 7), TELPHER_P_VALS_6(__VA_ARGS__)
#define TELPHER_P_VALS_8(T, ...) TELPHER_P_GET(T, 8), TELPHER_P_VALS_7(__VA_ARGS__)
#define TELPHER_P_VALS_9(T, ...) TELPHER_P_GET(T, 9), TELPHER_P_VALS_8(__VA_ARGS__)
#define TELPHER_P_VALS_10(T, ...) TELPHER_P_GET(T, 10), TELPHER_P_VALS_9(__VA_ARGS__)
#define TELPHER_P_VALS_11(T, ...) TELPHER_P_GET(T, 11), TELPHER_P_VALS_10(__VA_ARGS__)
#define TELPHER_P_VALS_12(T, ...) TELPHER_P_GET(T, 12), TELPHER_P_VALS_11(__VA_ARGS__)
#define TELPHER_P_VALS_13(T, ...) TELPHER_P_GET(T, 13), TELPHER_P_VALS_12(__VA_ARGS__)
#define TELPHER_P_VALS_14(T, ...) TELPHER_P_GET(T, 14), TELPHER_P_VALS_13(__VA_ARGS__)
#define TELPHER_P_VALS_15(T, ...) TELPHER_P_GET(T, 15), TELPHER_P_VALS_14(__VA_ARGS__)
#define TELPHER_P_VALS_16(T, ...) TELPHER_P_GET(T, 16), TELPHER_P_VALS_15(__VA_ARGS__)
#define TELPHER_P_KERNEL_0(fn) TELPHER_P_KERNEL(fn, 0, (), ())
#define TELPHER_P_KERNEL_1(fn, ...) \
    TELPHER_P_KERNEL(fn, 1, (TELPHER_P_ARGS_1(__VA_ARGS__)), (TELPHER_P_VALS_1(__VA_ARGS__)))
#define TELPHER_P_KERNEL_2(fn, ...) \
    TELPHER_P_KERNEL(fn, 2, (TELPHER_P_ARGS_2(__VA_ARGS__)), (TELPHER_P_VALS_2(__VA_ARGS__)))
#define TELPHER_P_KERNEL_3(fn, ...) \
    TELPHER_P_KERNEL(fn, 3, (TELPHER_P_ARGS_3(__VA_ARGS__)), (TELPHER_P_VALS_3(__VA_ARGS__)))
#define TELPHER_P_KERNEL_4(fn, ...) \
    TELPHER_P_KERNEL(fn, 4, (TELPHER_P_ARGS_4(__VA_ARGS__)), (TELPHER_P_VALS_4(__VA_ARGS__)))
#define TELPHER_P_KERNEL_5(fn, ...) \
    TELPHER_P_KERNEL(fn, 5, (TELPHER_P_ARGS_5(__VA_ARGS__)), (TELPHER_P_VALS_5(__VA_ARGS__)))
#define TELPHER_P_KERNEL_6(fn, ...) \
    TELPHER_P_KERNEL(fn, 6, (TELPHER_P_ARGS_6(__VA_ARGS__)), (TELPHER_P_VALS_6(__VA_ARGS__)))
#define TELPHER_P_KERNEL_7(fn, ...) \
    TELPHER_P_KERNEL(fn, 7, (TELPHER_P_ARGS_7(__VA_ARGS__)), (TELPHER_P_VALS_7(__VA_ARGS__)))
#define TELPHER_P_KERNEL_8(fn, ...) \
    TELPHER_P_KERNEL(fn, 8, (TELPHER_P_ARGS_8(__VA_ARGS__)), (TELPHER_P_VALS_8(__VA_ARGS__)))
#define TELPHER_P_KERNEL_9(fn, ...) \
    TELPHER_P_KERNEL(fn, 9, (TELPHER_P_ARGS_9(__VA_ARGS__)), (TELPHER_P_VALS_9(__VA_ARGS__)))
#define TELPHER_P_KERNEL_10(fn, ...) \
    TELPHER_P_KERNEL(fn, 10, (TELPHER_P_ARGS_10(__VA_ARGS__)), (TELPHER_P_VALS_10(__VA_ARGS__)))
#define TELPHER_P_KERNEL_11(fn, ...) \
    TELPHER_P_KERNEL(fn, 11, (TELPHER_P_ARGS_11(__VA_ARGS__)), (TELPHER_P_VALS_11(__VA_ARGS__)))
#define TELPHER_P_KERNEL_12(fn, ...) \
    TELPHER_P_KERNEL(fn, 12, (TELPHER_P_ARGS_12(__VA_ARGS__)), (TELPHER_P_VALS_12(__VA_ARGS__)))
#define TELPHER_P_KERNEL_13(fn, ...) \
    TELPHER_P_KERNEL(fn, 13, (TELPHER_P_ARGS_13(__VA_ARGS__)), (TELPHER_P_VALS_13(__VA_ARGS__)))
#define TELPHER_P_KERNEL_14(fn, ...) \
    TELPHER_P_KERNEL(fn, 14, (TELPHER_P_ARGS_14(__VA_ARGS__)), (TELPHER_P_VALS_14(__VA_ARGS__)))
#define TELPHER_P_KERNEL_15(fn, ...) \
    TELPHER_P_KERNEL(fn, 15, (TELPHER_P_ARGS_15(__VA_ARGS__)), (TELPHER_P_VALS_15(__VA_ARGS__)))
#define TELPHER_P_KERNEL_16(fn, ...) \
    TELPHER_P_KERNEL(fn, 16, (TELPHER_P_ARGS_16(__VA_ARGS__)), (TELPHER_P_VALS_16(__VA_ARGS__)))
#define TELPHER_P_17TH(n, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, count, ...) count
#define TELPHER_P_COUNT(...) \
    TELPHER_P_17TH(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)

/** TELPHER_KERNEL(name, types...): without a semicolon. */
#define TELPHER_KERNEL(...) \
    TELPHER_P_CAT(TELPHER_P_KERNEL_, TELPHER_P_COUNT(__VA_ARGS__))(__VA_ARGS__)

/**
 * TELPHER_KERNEL_TEXT(function, "name", "signature"): for functions whose types the compiler
 * does not know, such as Fortran's. libffi calls it by the signature.
 */
#define TELPHER_KERNEL_TEXT(kernel, kernel_name, text)                                 \
    __attribute__((constructor)) static void telpher_register_text_##kernel(void)      \
    {                                                                                  \
        static telpher_kernel telpher_self;                                            \
        telpher_self.struct_size = (uint32_t)sizeof(telpher_self);                     \
        telpher_self.name = kernel_name;                                               \
        telpher_self.function = (void (*)(void))kernel;                                \
        telpher_self.signature = text;                                                 \
        telpher_kernel_register(&telpher_self);                                        \
    }
/* clang-format on */

#endif
