/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of reductions, MPI-3.1, 5.9: a function for each operation and C type. */
#include "ampi/op.h"
#include "ampi/collective.h"

#include <complex.h>
#include <limits.h>

#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"

/* out[i] = lower[i] op higher[i]; out may be one of the others. */
typedef void (*kernel_fn)(const void *lower, const void *higher, void *out,
                          size_t count);

/* C types by what may be done with them: X(op, name, C type). */
#define INTEGERS(X, op)                                                                \
    X(op, i8, int8_t)                                                                  \
    X(op, u8, uint8_t)                                                                 \
    X(op, i16, int16_t)                                                                \
    X(op, u16, uint16_t)                                                               \
    X(op, i32, int32_t)                                                                \
    X(op, u32, uint32_t)                                                               \
    X(op, i64, int64_t)                                                                \
    X(op, u64, uint64_t)
#define REALS(X, op)                                                                   \
    X(op, f32, float)                                                                  \
    X(op, f64, double)                                                                 \
    X(op, fld, long double)
#define COMPLEXES(X, op)                                                               \
    X(op, c32, float _Complex)                                                         \
    X(op, c64, double _Complex)                                                        \
    X(op, cld, long double _Complex)
#define PAIRS(X, op)                                                                   \
    X(op, pf, struct pair_float)                                                       \
    X(op, pd, struct pair_double)                                                      \
    X(op, pl, struct pair_long)                                                        \
    X(op, ps, struct pair_short)                                                       \
    X(op, pi, struct pair_int)                                                         \
    X(op, pld, struct pair_long_double)                                                \
    X(op, p2f, struct pair_2float)                                                     \
    X(op, p2d, struct pair_2double)

/* clang-format off */
struct pair_float { float value; int at; };
struct pair_double { double value; int at; };
struct pair_long { long value; int at; };
struct pair_short { short value; int at; };
struct pair_int { int value; int at; };
struct pair_long_double { long double value; int at; };
struct pair_2float { float value; float at; };
struct pair_2double { double value; double at; };
/* clang-format on */

#define CLASSES(X, op)                                                                 \
    INTEGERS(X, op) REALS(X, op) COMPLEXES(X, op) PAIRS(X, op) X(op, no, char)

#define NAME_OF(op, name, type) CLASS_##name,
enum class { CLASSES(NAME_OF, none) CLASS_COUNT };

/* ---- the functions ---- */

#define DO_max(a, b) ((a) > (b) ? (a) : (b))
#define DO_min(a, b) ((a) < (b) ? (a) : (b))
#define DO_sum(a, b) ((a) + (b))
#define DO_prod(a, b) ((a) * (b))
#define DO_land(a, b) ((a) && (b))
#define DO_band(a, b) ((a) & (b))
#define DO_lor(a, b) ((a) || (b))
#define DO_bor(a, b) ((a) | (b))
#define DO_lxor(a, b) (!(a) != !(b))
#define DO_bxor(a, b) ((a) ^ (b))
/* equal values: the lower index */
#define DO_minloc(a, b)                                                                \
    ((a).value < (b).value || ((a).value == (b).value && (a).at < (b).at) ? (a) : (b))
#define DO_maxloc(a, b)                                                                \
    ((a).value > (b).value || ((a).value == (b).value && (a).at < (b).at) ? (a) : (b))

/* The loader takes the variant for the machine; loops with AVX2 are up to twice as fast. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) &&              \
    !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                           \
    !defined(__SANITIZE_THREAD__)
#define VARIANTS __attribute__((target_clones("avx2", "default")))
#else
#define VARIANTS
#endif

/* For MPI_MINLOC and MPI_MAXLOC the cast is none: structures are not cast. */
#define LOOP(op, name, type, cast)                                                     \
    VARIANTS static void op##_##name(const void *lower, const void *higher, void *out, \
                                     size_t count)                                     \
    {                                                                                  \
        const type *a = lower, *b = higher;                                            \
        type *c = out;                                                                 \
                                                                                       \
        for (size_t i = 0; i < count; i++) {                                           \
            c[i] = cast DO_##op(a[i], b[i]);                                           \
        }                                                                              \
    }
#define KERNEL(op, name, type) LOOP(op, name, type, (type))
#define PAIR_KERNEL(op, name, type) LOOP(op, name, type, )

INTEGERS(KERNEL, max)
INTEGERS(KERNEL, min)
INTEGERS(KERNEL, sum)
INTEGERS(KERNEL, prod)
INTEGERS(KERNEL, land)
INTEGERS(KERNEL, band)
INTEGERS(KERNEL, lor)
INTEGERS(KERNEL, bor)
INTEGERS(KERNEL, lxor)
INTEGERS(KERNEL, bxor)
REALS(KERNEL, max)
REALS(KERNEL, min)
REALS(KERNEL, sum)
REALS(KERNEL, prod)
COMPLEXES(KERNEL, sum)
COMPLEXES(KERNEL, prod)
PAIRS(PAIR_KERNEL, minloc)
PAIRS(PAIR_KERNEL, maxloc)

#define ROW(op, name, type) [CLASS_##name] = op##_##name,
#define NUMBER(op) ((op)&0xff)
static const kernel_fn kernels[16][CLASS_COUNT] = {
    [NUMBER(MPI_MAX)] = {INTEGERS(ROW, max) REALS(ROW, max)},
    [NUMBER(MPI_MIN)] = {INTEGERS(ROW, min) REALS(ROW, min)},
    [NUMBER(MPI_SUM)] = {INTEGERS(ROW, sum) REALS(ROW, sum) COMPLEXES(ROW, sum)},
    [NUMBER(MPI_PROD)] = {INTEGERS(ROW, prod) REALS(ROW, prod) COMPLEXES(ROW, prod)},
    [NUMBER(MPI_LAND)] = {INTEGERS(ROW, land)},
    [NUMBER(MPI_BAND)] = {INTEGERS(ROW, band)},
    [NUMBER(MPI_LOR)] = {INTEGERS(ROW, lor)},
    [NUMBER(MPI_BOR)] = {INTEGERS(ROW, bor)},
    [NUMBER(MPI_LXOR)] = {INTEGERS(ROW, lxor)},
    [NUMBER(MPI_BXOR)] = {INTEGERS(ROW, bxor)},
    [NUMBER(MPI_MINLOC)] = {PAIRS(ROW, minloc)},
    [NUMBER(MPI_MAXLOC)] = {PAIRS(ROW, maxloc)},
};

/* ---- which function ---- */

/* clang-format off */
static const struct { MPI_Datatype type; enum class class; } classes[] = {
    {MPI_CHAR, CLASS_i8}, {MPI_SIGNED_CHAR, CLASS_i8}, {MPI_INT8_T, CLASS_i8},
    {MPI_INTEGER1, CLASS_i8}, {MPI_UNSIGNED_CHAR, CLASS_u8}, {MPI_UINT8_T, CLASS_u8},
    {MPI_BYTE, CLASS_u8}, {MPI_C_BOOL, CLASS_u8}, {MPI_CXX_BOOL, CLASS_u8},
    {MPI_CHARACTER, CLASS_u8}, {MPI_SHORT, CLASS_i16}, {MPI_INT16_T, CLASS_i16},
    {MPI_INTEGER2, CLASS_i16}, {MPI_UNSIGNED_SHORT, CLASS_u16}, {MPI_UINT16_T, CLASS_u16},
    {MPI_INT, CLASS_i32}, {MPI_INT32_T, CLASS_i32}, {MPI_INTEGER, CLASS_i32},
    {MPI_INTEGER4, CLASS_i32}, {MPI_LOGICAL, CLASS_i32}, {MPI_WCHAR, CLASS_i32},
    {MPI_UNSIGNED, CLASS_u32}, {MPI_UINT32_T, CLASS_u32}, {MPI_LONG, CLASS_i64},
    {MPI_LONG_LONG_INT, CLASS_i64}, {MPI_INT64_T, CLASS_i64}, {MPI_INTEGER8, CLASS_i64},
    {MPI_AINT, CLASS_i64}, {MPI_COUNT, CLASS_i64}, {MPI_OFFSET, CLASS_i64},
    {MPI_UNSIGNED_LONG, CLASS_u64}, {MPI_UNSIGNED_LONG_LONG, CLASS_u64}, {MPI_UINT64_T, CLASS_u64},
    {MPI_FLOAT, CLASS_f32}, {MPI_REAL, CLASS_f32}, {MPI_REAL4, CLASS_f32}, {MPI_DOUBLE, CLASS_f64},
    {MPI_DOUBLE_PRECISION, CLASS_f64}, {MPI_REAL8, CLASS_f64}, {MPI_LONG_DOUBLE, CLASS_fld},
    {MPI_C_FLOAT_COMPLEX, CLASS_c32}, {MPI_CXX_FLOAT_COMPLEX, CLASS_c32}, {MPI_COMPLEX, CLASS_c32},
    {MPI_COMPLEX8, CLASS_c32}, {MPI_C_DOUBLE_COMPLEX, CLASS_c64},
    {MPI_CXX_DOUBLE_COMPLEX, CLASS_c64}, {MPI_DOUBLE_COMPLEX, CLASS_c64},
    {MPI_COMPLEX16, CLASS_c64}, {MPI_C_LONG_DOUBLE_COMPLEX, CLASS_cld},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, CLASS_cld}, {MPI_FLOAT_INT, CLASS_pf}, {MPI_DOUBLE_INT, CLASS_pd},
    {MPI_LONG_INT, CLASS_pl}, {MPI_SHORT_INT, CLASS_ps}, {MPI_2INT, CLASS_pi},
    {MPI_2INTEGER, CLASS_pi}, {MPI_LONG_DOUBLE_INT, CLASS_pld}, {MPI_2REAL, CLASS_p2f},
    {MPI_2DOUBLE_PRECISION, CLASS_p2d},
};
/* clang-format on */

static enum class class_of(MPI_Datatype type) {
    static uint8_t found[256]; /* class + 1 by a type's number */

    if (found[type & 0xff] == 0){
        enum class class = CLASS_no;

        for (size_t i = 0; i < TP_ARRAY_LEN(classes);
             i++){class = classes[i].type == type ? classes[i].class : class;}
found[type & 0xff] = (uint8_t)(class + 1);
}
return (enum class)(found[type & 0xff] - 1);
}

/* @return NULL: a user's operation, or one that does not take the type */
static kernel_fn
find(MPI_Op op, const struct tp_ampi_type *type)
{
    return tp_ampi_is_predefined(op) && (op & 0xff) < 16 && type != NULL &&
                   type->element != MPI_DATATYPE_NULL
               ? kernels[op & 0xff][class_of(type->element)]
               : NULL;
}

bool
tp_ampi_op_fits(MPI_Op op, MPI_Datatype handle)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);

    if (!tp_ampi_is_predefined(op)) {
        return tp_ampi_handle_get(op, TP_AMPI_OP) != NULL;
    }
    return op == MPI_REPLACE || op == MPI_NO_OP ||
           (find(op, type) != NULL && (type->dense || type->handle == type->element));
}

bool
tp_ampi_op_reduces(MPI_Op op, MPI_Datatype handle)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    bool bitwise = op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR;

    return tp_ampi_op_fits(op, handle) &&
           (bitwise || !tp_ampi_is_predefined(op) || type->element != MPI_BYTE);
}

bool
tp_ampi_op_commutes(MPI_Op op)
{
    const struct tp_ampi_op *own =
        tp_ampi_is_predefined(op) ? NULL : tp_ampi_handle_get(op, TP_AMPI_OP);

    return own != NULL ? own->commutes : op != MPI_REPLACE && op != MPI_NO_OP;
}

/* A function of the program computes in place. */
static void
call_own(struct tp_ampi_op *own, const void *lower, const void *higher, void *out,
         size_t count, MPI_Datatype handle)
{
    int length = (int)TP_MIN(count, (size_t)INT_MAX);
    MPI_Count large = (MPI_Count)count;
    void *inout = out != lower ? out : (void *)(uintptr_t)higher;

    if (inout != higher) {
        (void)tp_ampi_copy(higher, count, handle, inout, count, handle);
    }
    if (own->fn != NULL) {
        own->fn((void *)(uintptr_t)lower, inout, &length, &handle);
    } else {
        own->large_fn((void *)(uintptr_t)lower, inout, &large, &handle);
    }
    if (inout != out) {
        (void)tp_ampi_copy(inout, count, handle, out, count, handle);
    }
}

void
tp_ampi_op_combine(MPI_Op op, const void *lower, const void *higher, void *out,
                   size_t count, MPI_Datatype handle)
{
    struct tp_ampi_op *own =
        tp_ampi_is_predefined(op) ? NULL : tp_ampi_handle_get(op, TP_AMPI_OP);
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    kernel_fn kernel = find(op, type);

    if (own != NULL) {
        call_own(own, lower, higher, out, count, handle);
    } else if (op == MPI_REPLACE) {
        (void)tp_ampi_copy(lower, count, handle, out, count, handle);
    } else if (kernel != NULL) {
        kernel(lower, higher, out,
               type->handle == type->element
                   ? count
                   : count * type->size / tp_ampi_type_size(type->element));
    }
}

void
tp_ampi_op_apply(MPI_Op op, const void *in, void *inout, size_t count,
                 MPI_Datatype handle)
{
    tp_ampi_op_combine(op, in, inout, inout, count, handle);
}

bool
tp_ampi_op_of_device(MPI_Op op, MPI_Datatype handle, size_t count, uint32_t *ret_op,
                     uint32_t *ret_type, size_t *ret_elements)
{
    /* number + 1; 0: none */
    static const uint8_t operations[16] = {[NUMBER(MPI_SUM)] = TELPHER_MEM_SUM + 1,
                                           [NUMBER(MPI_PROD)] = TELPHER_MEM_PROD + 1,
                                           [NUMBER(MPI_MAX)] = TELPHER_MEM_MAX + 1,
                                           [NUMBER(MPI_MIN)] = TELPHER_MEM_MIN + 1,
                                           [NUMBER(MPI_BAND)] = TELPHER_MEM_AND + 1,
                                           [NUMBER(MPI_BOR)] = TELPHER_MEM_OR + 1,
                                           [NUMBER(MPI_BXOR)] = TELPHER_MEM_XOR + 1};
    static const uint8_t elements[CLASS_COUNT] = {
        [CLASS_i32] = TELPHER_MEM_INT32 + 1, [CLASS_u32] = TELPHER_MEM_UINT32 + 1,
        [CLASS_i64] = TELPHER_MEM_INT64 + 1, [CLASS_u64] = TELPHER_MEM_UINT64 + 1,
        [CLASS_f32] = TELPHER_MEM_FLOAT + 1, [CLASS_f64] = TELPHER_MEM_DOUBLE + 1};
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    enum class class;

    if (find(op, type) == NULL || !type->dense) {
        return false;
    }
    class = class_of(type->element);
    if (operations[NUMBER(op)] == 0 || elements[class] == 0) {
        return false;
    }
    *ret_op = operations[NUMBER(op)] - 1u;
    *ret_type = elements[class] - 1u;
    *ret_elements = count * type->size / tp_ampi_type_size(type->element);
    return true;
}

/* ---- calls ---- */

static int
create(MPI_User_function *fn, MPI_User_function_c *large_fn, int commutes, MPI_Op *ret)
{
    struct tp_ampi_op *op = tp_zalloc(sizeof(*op), "MPI operation");

    *ret = MPI_OP_NULL;
    if (op != NULL) {
        op->refs = 1;
        op->fn = fn;
        op->large_fn = large_fn;
        op->commutes = commutes != 0;
        op->handle = tp_ampi_handle_create(TP_AMPI_OP, op);
    }
    if (op == NULL || op->handle == 0) {
        tp_free(op);
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for an operation");
    }
    *ret = op->handle;
    return MPI_SUCCESS;
}

int
PMPI_Op_create(MPI_User_function *fn, int commutes, MPI_Op *ret)
{
    return create(fn, NULL, commutes, ret);
}
TP_MPI_NAME(Op_create);

int
PMPI_Op_create_c(MPI_User_function_c *fn, int commutes, MPI_Op *ret)
{
    return create(NULL, fn, commutes, ret);
}
TP_MPI_NAME(Op_create_c);

void
tp_ampi_op_ref(MPI_Op handle)
{
    struct tp_ampi_op *op =
        tp_ampi_is_predefined(handle) ? NULL : tp_ampi_handle_get(handle, TP_AMPI_OP);

    if (op != NULL) {
        op->refs++;
    }
}

void
tp_ampi_op_unref(MPI_Op handle)
{
    struct tp_ampi_op *op =
        tp_ampi_is_predefined(handle) ? NULL : tp_ampi_handle_get(handle, TP_AMPI_OP);

    if (op != NULL && --op->refs == 0) {
        tp_ampi_handle_destroy(handle);
        tp_free(op);
    }
}

int
PMPI_Op_free(MPI_Op *handle)
{
    struct tp_ampi_op *op = tp_ampi_handle_get(*handle, TP_AMPI_OP);

    if (op == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_OP, "%#x is no operation that can be freed",
                             *handle);
    }
    tp_ampi_op_unref(*handle);
    *handle = MPI_OP_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Op_free);

int
PMPI_Op_commutative(MPI_Op op, int *commutes)
{
    *commutes = tp_ampi_op_commutes(op);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Op_commutative);

int
PMPI_Reduce_local(const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op)
{
    struct tp_ampi_stage operand = {0}, result = {0};
    ptrdiff_t low = 0;
    size_t len = 0;
    int error;

    if (count < 0 || !tp_ampi_op_reduces(op, type)) {
        return tp_ampi_error(NULL, MPI_ERR_OP,
                             "operation %#x does not take datatype %#x", op, type);
    }
    if (!tp_ampi_type_fits(type, (size_t)count)) {
        return tp_ampi_error(NULL, MPI_ERR_COUNT,
                             "%d elements are longer than any memory", count);
    }
    if (in == MPI_IN_PLACE || inout == MPI_IN_PLACE || (in == inout && count > 0)) {
        return tp_ampi_error(NULL, MPI_ERR_BUFFER,
                             "the operands are one buffer, or MPI_IN_PLACE");
    }
    if (count > 0 && tp_ampi_is_device(inout) &&
        tp_ampi_combine_by_kernel(op, type, in, inout, inout, (size_t)count) ==
            TELPHER_OK) {
        return MPI_SUCCESS;
    }
    if (count > 0) {
        tp_ampi_type_reach(type, (size_t)count, &low, &len);
    }
    error = tp_ampi_stage_open(&operand, NULL, in, low, len, true);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_stage_open(&result, NULL, inout, low, len, true);
    }
    if (error == MPI_SUCCESS) {
        tp_ampi_op_apply(op, operand.at, result.at, (size_t)count, type);
    }
    error = tp_ampi_stage_close(&operand, NULL, false, error);
    return tp_ampi_stage_close(&result, NULL, true, error);
}
TP_MPI_NAME(Reduce_local);
