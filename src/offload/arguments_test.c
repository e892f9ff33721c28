/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scalar type, 0 to 16 arguments, floating-point numbers mixed with integers, and
 * structs by value where registers are left and where not: by the compiler's call and by
 * libffi's. Values say which argument they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <complex.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "offload/worker/registry.h"

static struct tp_offload_table table;
static double seen; /* what the kernel made of its arguments */

/* Puts the arguments into bytes, finds them there and calls @p name with them. */
static int
launch(const char *name, uint32_t count, void *const *args, const uint64_t *sizes)
{
    int64_t index = tp_offload_table_find(&table, name);
    _Alignas(TP_OFFLOAD_ALIGN) uint8_t raw[1024];
    void *found[TELPHER_KERNEL_ARGS_MAX];
    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX];
    const struct tp_offload_signature *sig;
    struct tp_error err = {0};
    uint64_t len;

    if (index < 0) {
        fail_msg("no kernel %s", name);
    }
    sig = &table.kernels[index].sig;
    assert_int_equal(tp_offload_check(name, sig, count, sizes, NULL, &err), TELPHER_OK);
    assert_int_equal(
        tp_offload_check(name, sig, count + 1, (const uint64_t[17]){0}, NULL, &err),
        TELPHER_ERR_INVALID);
    len = tp_offload_args_len(sig, sizes);
    assert_in_range(len, 0, sizeof(raw));
    memset(raw, 0xa5, sizeof(raw));
    tp_offload_args_put(sig, args, sizes, raw);
    assert_int_equal(tp_offload_args_get(sig, raw, len, found, bytes), TELPHER_OK);
    assert_int_equal(
        tp_offload_args_get(sig, raw, len + TP_OFFLOAD_ALIGN, found, bytes),
        TELPHER_ERR_PROTO);
    seen = -1;
    return tp_offload_kernel_invoke(&table.kernels[index], found);
}

/* ---- every scalar type, in front of and behind a double ---- */

/* clang-format off */
#define FOR_SCALARS(X)                                                                 \
    X(boolean, _Bool, "o") X(plain_char, char, "c") X(signed_char, signed char, "c")   \
    X(unsigned_char, unsigned char, "C") X(short_int, short, "s")                      \
    X(unsigned_short, unsigned short, "S") X(plain_int, int, "i")                      \
    X(unsigned_int, unsigned int, "I") X(long_int, long, "l")                          \
    X(unsigned_long, unsigned long, "L") X(long_long, long long, "l")                  \
    X(unsigned_long_long, unsigned long long, "L") X(plain_float, float, "f")          \
    X(plain_double, double, "d") X(long_double, long double, "g")                      \
    X(float_complex, float _Complex, "x") X(double_complex, double _Complex, "z")

#define DEFINE_SCALAR(name, T, code)                                                   \
    static int name(T a, double d, T b)                                                \
    {                                                                                  \
        seen = d;                                                                      \
        return a == (T)1 && b == (T)37;                                                \
    }                                                                                  \
    TELPHER_KERNEL(name, T, double, T)                                                 \
    TELPHER_KERNEL_TEXT(name, "t_" #name, code "d" code ">i")
FOR_SCALARS(DEFINE_SCALAR)

#define CALL_SCALAR(name, T, code)                                                     \
    do {                                                                               \
        T a = (T)1, b = (T)37;                                                         \
        void *args[] = {&a, &d, &b};                                                   \
        const uint64_t sizes[] = {sizeof(T), sizeof(d), sizeof(T)};                    \
        assert_int_equal(launch(#name, 3, args, sizes), 1);                            \
        assert_true(seen == d);                                                        \
        assert_int_equal(launch("t_" #name, 3, args, sizes), 1);                       \
        assert_true(seen == d);                                                        \
        calls++;                                                                       \
    } while (0);
/* clang-format on */

static void
every_scalar_type(void **state)
{
    double d = 2.5;
    int calls = 0;

    (void)state;
    FOR_SCALARS(CALL_SCALAR)
    assert_int_equal(calls, 17);
}

/* ---- 0 to 16 arguments ---- */

/* clang-format off */
/* argument i has type T or U in turns, and the kernel sums i times its value */
#define P1(T, U) T a1
#define P2(T, U) P1(T, U), U a2
#define P3(T, U) P2(T, U), T a3
#define P4(T, U) P3(T, U), U a4
#define P5(T, U) P4(T, U), T a5
#define P6(T, U) P5(T, U), U a6
#define P7(T, U) P6(T, U), T a7
#define P8(T, U) P7(T, U), U a8
#define P9(T, U) P8(T, U), T a9
#define P10(T, U) P9(T, U), U a10
#define P11(T, U) P10(T, U), T a11
#define P12(T, U) P11(T, U), U a12
#define P13(T, U) P12(T, U), T a13
#define P14(T, U) P13(T, U), U a14
#define P15(T, U) P14(T, U), T a15
#define P16(T, U) P15(T, U), U a16
#define L1(T, U) T
#define L2(T, U) L1(T, U), U
#define L3(T, U) L2(T, U), T
#define L4(T, U) L3(T, U), U
#define L5(T, U) L4(T, U), T
#define L6(T, U) L5(T, U), U
#define L7(T, U) L6(T, U), T
#define L8(T, U) L7(T, U), U
#define L9(T, U) L8(T, U), T
#define L10(T, U) L9(T, U), U
#define L11(T, U) L10(T, U), T
#define L12(T, U) L11(T, U), U
#define L13(T, U) L12(T, U), T
#define L14(T, U) L13(T, U), U
#define L15(T, U) L14(T, U), T
#define L16(T, U) L15(T, U), U
#define S1 (double)a1
#define S2 S1 + 2 * (double)a2
#define S3 S2 + 3 * (double)a3
#define S4 S3 + 4 * (double)a4
#define S5 S4 + 5 * (double)a5
#define S6 S5 + 6 * (double)a6
#define S7 S6 + 7 * (double)a7
#define S8 S7 + 8 * (double)a8
#define S9 S8 + 9 * (double)a9
#define S10 S9 + 10 * (double)a10
#define S11 S10 + 11 * (double)a11
#define S12 S11 + 12 * (double)a12
#define S13 S12 + 13 * (double)a13
#define S14 S13 + 14 * (double)a14
#define S15 S14 + 15 * (double)a15
#define S16 S15 + 16 * (double)a16

#define DEFINE_COUNT(kind, n, T, U)                                                    \
    static int kind##_##n(P##n(T, U)) { seen = S##n; return n; }                       \
    TELPHER_KERNEL(kind##_##n, L##n(T, U))
#define DEFINE_COUNTS(kind, T, U)                                                      \
    static int kind##_0(void) { seen = 0; return 0; }                                  \
    TELPHER_KERNEL(kind##_0)                                                           \
    DEFINE_COUNT(kind, 1, T, U) DEFINE_COUNT(kind, 2, T, U)                            \
    DEFINE_COUNT(kind, 3, T, U) DEFINE_COUNT(kind, 4, T, U)                            \
    DEFINE_COUNT(kind, 5, T, U) DEFINE_COUNT(kind, 6, T, U)                            \
    DEFINE_COUNT(kind, 7, T, U) DEFINE_COUNT(kind, 8, T, U)                            \
    DEFINE_COUNT(kind, 9, T, U) DEFINE_COUNT(kind, 10, T, U)                           \
    DEFINE_COUNT(kind, 11, T, U) DEFINE_COUNT(kind, 12, T, U)                          \
    DEFINE_COUNT(kind, 13, T, U) DEFINE_COUNT(kind, 14, T, U)                          \
    DEFINE_COUNT(kind, 15, T, U) DEFINE_COUNT(kind, 16, T, U)
DEFINE_COUNTS(doubles, double, double)
DEFINE_COUNTS(longs, long, long)
DEFINE_COUNTS(floats, float, float)
DEFINE_COUNTS(mixed, int, double)
DEFINE_COUNTS(narrow, char, float)
/* clang-format on */

/* One value in each of the types, by letter. */
union value {
    double d;
    long l;
    float f;
    int i;
    char c;
};

static uint64_t
set_value(union value *v, char type, int value)
{
    switch (type) {
    case 'd':
        v->d = value;
        return sizeof(double);
    case 'l':
        v->l = value;
        return sizeof(long);
    case 'f':
        v->f = (float)value;
        return sizeof(float);
    case 'i':
        v->i = value;
        return sizeof(int);
    default:
        v->c = (char)value;
        return sizeof(char);
    }
}

/* The kernel @p kind of @p count arguments; by text, too, as the same function. */
static void
check_count(const char *kind, const char types[2], int count)
{
    union value values[TELPHER_KERNEL_ARGS_MAX];
    void *args[TELPHER_KERNEL_ARGS_MAX + 1];
    uint64_t sizes[TELPHER_KERNEL_ARGS_MAX + 1];
    char name[32];
    double sum = 0;

    for (int i = 0; i < count; i++) {
        int value = 100 - 7 * i; /* some are negative */

        args[i] = &values[i];
        sizes[i] = set_value(&values[i], types[i % 2], value);
        sum += (i + 1) * value;
    }
    snprintf(name, sizeof(name), "%s_%d", kind, count);
    assert_int_equal(launch(name, (uint32_t)count, args, sizes), count);
    assert_true(seen == sum);
}

static void
every_count_of_arguments(void **state)
{
    (void)state;
    for (int count = 0; count <= TELPHER_KERNEL_ARGS_MAX; count++) {
        check_count("doubles", "dd", count);
        check_count("longs", "ll", count);
        check_count("floats", "ff", count);
        check_count("mixed", "id", count);
        check_count("narrow", "cf", count);
    }
}

/* The same functions by libffi: signatures as telpher-worker-cc writes them. */
TELPHER_KERNEL_TEXT(doubles_16, "t_doubles_16", "dddddddddddddddd>i")
TELPHER_KERNEL_TEXT(doubles_8, "t_doubles_8", "dddddddd>i")
TELPHER_KERNEL_TEXT(doubles_5, "t_doubles_5", "ddddd>i")
TELPHER_KERNEL_TEXT(doubles_0, "t_doubles_0", ">i")
TELPHER_KERNEL_TEXT(longs_16, "t_longs_16", "llllllllllllllll>i")
TELPHER_KERNEL_TEXT(longs_8, "t_longs_8", "llllllll>i")
TELPHER_KERNEL_TEXT(floats_2, "t_floats_2", "ff>i")
TELPHER_KERNEL_TEXT(floats_16, "t_floats_16", "ffffffffffffffff>i")
TELPHER_KERNEL_TEXT(mixed_2, "t_mixed_2", "id>i")
TELPHER_KERNEL_TEXT(mixed_15, "t_mixed_15", "idididididididi>i")
TELPHER_KERNEL_TEXT(narrow_13, "t_narrow_13", "cfcfcfcfcfcfc>i")

static void
counts_by_libffi(void **state)
{
    (void)state;
    check_count("t_doubles", "dd", 16);
    check_count("t_doubles", "dd", 8);
    check_count("t_doubles", "dd", 5);
    check_count("t_doubles", "dd", 0);
    check_count("t_longs", "ll", 16);
    check_count("t_longs", "ll", 8);
    check_count("t_floats", "ff", 2);
    check_count("t_floats", "ff", 16);
    check_count("t_mixed", "id", 2);
    check_count("t_mixed", "id", 15);
    check_count("t_narrow", "cf", 13);
}

/* ---- structs by value ---- */

struct two_doubles {
    double a, b;
};
struct double_long {
    double a;
    long b;
};
struct four_floats {
    float v[4];
};
struct three_doubles {
    double a, b, c;
};
struct two_floats {
    float a, b;
};
struct small {
    char a;
    short b;
    int c;
};
struct nested {
    char a;
    struct small b;
    struct two_floats c;
};

/* in registers, then, where those are used up, on the stack; large ones always there */
static int
in_registers(struct two_doubles a, int b, struct double_long c, struct two_floats d)
{
    return a.a == 1 && a.b == 2 && b == 3 && c.a == 4 && c.b == -5 && d.a == 6 &&
           d.b == 7;
}

static int
on_the_stack(long a, long b, long c, long d, long e, long f, struct double_long g,
             double h, struct three_doubles i, struct small j, struct four_floats k)
{
    return a + b + c + d + e + f == 21 && g.a == 4 && g.b == -5 && h == 8 && i.a == 9 &&
           i.b == 10 && i.c == 11 && j.a == 'j' && j.b == -12 && j.c == 13 &&
           k.v[0] == 14 && k.v[3] == 17;
}

static int
one_in_another(struct nested a, char b)
{
    return a.a == 'n' && a.b.a == 'j' && a.b.b == -12 && a.b.c == 13 && a.c.a == 6 &&
           a.c.b == 7 && b == 'b';
}

TELPHER_KERNEL(in_registers, struct two_doubles, int, struct double_long,
               struct two_floats)
TELPHER_KERNEL_TEXT(in_registers, "t_in_registers", "{dd}i{dl}{ff}>i")
TELPHER_KERNEL(on_the_stack, long, long, long, long, long, long, struct double_long,
               double, struct three_doubles, struct small, struct four_floats)
TELPHER_KERNEL_TEXT(on_the_stack, "t_on_the_stack", "llllll{dl}d{ddd}{csi}{ffff}>i")
TELPHER_KERNEL(one_in_another, struct nested, char)
TELPHER_KERNEL_TEXT(one_in_another, "t_one_in_another", "{c{csi}{ff}}c>i")

#define ARG(value)                                                                     \
    {                                                                                  \
        &(value), sizeof(value)                                                        \
    }
struct arg {
    void *value;
    uint64_t size;
};

static void
check_structs(const char *name, const struct arg *all, uint32_t count)
{
    void *args[TELPHER_KERNEL_ARGS_MAX];
    uint64_t sizes[TELPHER_KERNEL_ARGS_MAX];

    for (uint32_t i = 0; i < count; i++) {
        args[i] = all[i].value;
        sizes[i] = all[i].size;
    }
    assert_int_equal(launch(name, count, args, sizes), 1);
    assert_int_equal(launch(name + 2, count, args, sizes), 1);
}

static void
structs_by_value(void **state)
{
    struct two_doubles dd = {1, 2};
    struct double_long dl = {4, -5};
    struct two_floats ff = {6, 7};
    struct three_doubles ddd = {9, 10, 11};
    struct small small = {'j', -12, 13};
    struct four_floats ffff = {{14, 15, 16, 17}};
    struct nested nested = {'n', {'j', -12, 13}, {6, 7}};
    long l[6] = {1, 2, 3, 4, 5, 6};
    double d = 8;
    int i = 3;
    char b = 'b';
    const struct arg registers[] = {ARG(dd), ARG(i), ARG(dl), ARG(ff)};
    const struct arg stack[] = {ARG(l[0]), ARG(l[1]),  ARG(l[2]), ARG(l[3]),
                                ARG(l[4]), ARG(l[5]),  ARG(dl),   ARG(d),
                                ARG(ddd),  ARG(small), ARG(ffff)};
    const struct arg another[] = {ARG(nested), ARG(b)};

    (void)state;
    check_structs("t_in_registers", registers, TP_ARRAY_LEN(registers));
    check_structs("t_on_the_stack", stack, TP_ARRAY_LEN(stack));
    check_structs("t_one_in_another", another, TP_ARRAY_LEN(another));
}

/* ---- declarations that cannot be ---- */

static void
expect_refused(telpher_kernel_arg arg, telpher_status status, const char *words)
{
    const telpher_kernel_arg args[] = {{'i', sizeof(int), _Alignof(int)}, arg};
    const telpher_kernel kernel = {
        .struct_size = sizeof(kernel), .argcount = 2, .name = "refused", .args = args};
    struct tp_offload_signature sig;
    struct tp_error err = {0};

    assert_int_equal(tp_offload_signature_of(&kernel, &sig, &err), status);
    assert_string_equal(err.text, words);
}

/* The error names the argument, and no empty name is between the number and the cause. */
static void
refused_arguments_are_named(void **state)
{
    (void)state;
    expect_refused((telpher_kernel_arg){'p', sizeof(void *), _Alignof(void *)},
                   TELPHER_ERR_UNSUPPORTED,
                   "argument 2: a pointer means nothing in another process; pass "
                   "telpher_bytes");
    expect_refused((telpher_kernel_arg){'?', 1, 1}, TELPHER_ERR_INVALID,
                   "argument 2: no type has the letter \"?\"");
    expect_refused((telpher_kernel_arg){'d', 4, 4}, TELPHER_ERR_INVALID,
                   "argument 2: a double of 4 bytes");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_type),
        cmocka_unit_test(every_count_of_arguments),
        cmocka_unit_test(counts_by_libffi),
        cmocka_unit_test(structs_by_value),
        cmocka_unit_test(refused_arguments_are_named),
    };
    int failed;

    if (tp_offload_table_create(&table) != TELPHER_OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    tp_offload_table_destroy(&table);
    return failed;
}
