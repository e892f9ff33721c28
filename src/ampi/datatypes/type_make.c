/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that make datatypes: each is a list of blocks. MPI-3.1, 4.1. */
#include <string.h>

#include "ampi/attribute.h"
#include "ampi/type.h"
#include "base/alloc.h"

/* A call's arguments as MPI_Type_get_contents() tells them, gathered in one array of integers. */
struct making {
    struct tp_ampi_block *blocks;
    int *integers;
    int integer_count, error;
};

static bool
begin(struct making *m, int64_t blocks, int64_t integers)
{
    *m = (struct making){.error = MPI_ERR_COUNT};
    if (blocks < 0 || integers < 0) {
        return false;
    }
    m->blocks = tp_alloc_array(TP_MAX((size_t)blocks, 1u), sizeof(m->blocks[0]),
                               "MPI datatype");
    m->integers =
        tp_alloc_array(TP_MAX((size_t)integers, 1u), sizeof(int), "MPI datatype");
    m->error = m->blocks != NULL && m->integers != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    return m->error == MPI_SUCCESS;
}

static void
add_integer(struct making *m, int value)
{
    m->integers[m->integer_count++] = value;
}

static void
set_block(struct making *m, int64_t at, MPI_Aint offset, int length,
          const struct tp_ampi_type *type)
{
    if (length < 0) {
        m->error = MPI_ERR_ARG;
        length = 0;
    }
    m->blocks[at] = (struct tp_ampi_block){offset, (size_t)length, type};
}

static int
finish(struct making *m, int64_t blocks, int combiner, const MPI_Aint *addresses,
       int address_count, const MPI_Datatype *types, int type_count, MPI_Datatype *ret)
{
    const struct tp_ampi_contents contents = {
        combiner,      m->integers, m->integer_count, addresses,
        address_count, types,       type_count};
    struct tp_ampi_type *made = NULL;
    int error = m->error;

    if (error == MPI_SUCCESS) {
        error =
            tp_ampi_type_make(m->blocks, (size_t)TP_MAX(blocks, 0), &contents, &made);
    }
    tp_free(m->blocks);
    tp_free(m->integers);
    return tp_ampi_type_give(made, error, ret);
}

static MPI_Aint
extent_of(const struct tp_ampi_type *type)
{
    return type->ub - type->lb;
}

/* ---- regular ones ---- */

int
PMPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(old);
    struct making m;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (begin(&m, 1, 1)) {
        add_integer(&m, count);
        set_block(&m, 0, 0, count, type);
    }
    return finish(&m, 1, MPI_COMBINER_CONTIGUOUS, NULL, 0, &old, 1, ret);
}
TP_MPI_NAME(Type_contiguous);

/* @return count * extent [bytes]; 0, and an error of the type, if that is no MPI_Aint */
static MPI_Aint
multiply(struct making *m, MPI_Aint count, MPI_Aint extent)
{
    MPI_Aint bytes;

    if (__builtin_mul_overflow(count, extent, &bytes)) {
        m->error = MPI_ERR_ARG;
        bytes = 0;
    }
    return bytes;
}

/* @param stride [bytes]; one block if the parts touch */
static void
set_vector(struct making *m, int count, int length, MPI_Aint stride,
           const struct tp_ampi_type *type)
{
    for (int i = 0; i < count; i++) {
        set_block(m, i, multiply(m, i, stride), length, type);
    }
}

int
PMPI_Type_vector(int count, int length, int stride, MPI_Datatype old, MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(old);
    struct making m;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (begin(&m, count, 3)) {
        add_integer(&m, count);
        add_integer(&m, length);
        add_integer(&m, stride);
        set_vector(&m, count, length, multiply(&m, stride, extent_of(type)), type);
    }
    return finish(&m, count, MPI_COMBINER_VECTOR, NULL, 0, &old, 1, ret);
}
TP_MPI_NAME(Type_vector);

int
PMPI_Type_create_hvector(int count, int length, MPI_Aint stride, MPI_Datatype old,
                         MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(old);
    struct making m;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (begin(&m, count, 2)) {
        add_integer(&m, count);
        add_integer(&m, length);
        set_vector(&m, count, length, stride, type);
    }
    return finish(&m, count, MPI_COMBINER_HVECTOR, &stride, 1, &old, 1, ret);
}
TP_MPI_NAME(Type_create_hvector);

/* ---- indexed ones ---- */

/* @param lengths  NULL: @p length for each. @param displs  in extents, or @p addresses in bytes */
static int
make_indexed(int combiner, int count, const int *lengths, int length, const int *displs,
             const MPI_Aint *addresses, MPI_Datatype old, MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(old);
    struct making m;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (begin(&m, count, 2 + 2 * (int64_t)count)) {
        add_integer(&m, count);
        if (lengths == NULL) {
            add_integer(&m, length);
        }
        for (int i = 0; i < count; i++) {
            if (lengths != NULL) {
                add_integer(&m, lengths[i]);
            }
            set_block(&m, i,
                      displs != NULL ? multiply(&m, displs[i], extent_of(type))
                                     : addresses[i],
                      lengths != NULL ? lengths[i] : length, type);
        }
        for (int i = 0; displs != NULL && i < count; i++) {
            add_integer(&m, displs[i]);
        }
    }
    return finish(&m, count, combiner, addresses, displs != NULL ? 0 : count, &old, 1,
                  ret);
}

int
PMPI_Type_indexed(int count, const int lengths[], const int displs[], MPI_Datatype old,
                  MPI_Datatype *ret)
{
    return make_indexed(MPI_COMBINER_INDEXED, count, lengths, 0, displs, NULL, old,
                        ret);
}
TP_MPI_NAME(Type_indexed);

int
PMPI_Type_create_hindexed(int count, const int lengths[], const MPI_Aint displs[],
                          MPI_Datatype old, MPI_Datatype *ret)
{
    return make_indexed(MPI_COMBINER_HINDEXED, count, lengths, 0, NULL, displs, old,
                        ret);
}
TP_MPI_NAME(Type_create_hindexed);

int
PMPI_Type_create_indexed_block(int count, int length, const int displs[],
                               MPI_Datatype old, MPI_Datatype *ret)
{
    return make_indexed(MPI_COMBINER_INDEXED_BLOCK, count, NULL, length, displs, NULL,
                        old, ret);
}
TP_MPI_NAME(Type_create_indexed_block);

int
PMPI_Type_create_hindexed_block(int count, int length, const MPI_Aint displs[],
                                MPI_Datatype old, MPI_Datatype *ret)
{
    return make_indexed(MPI_COMBINER_HINDEXED_BLOCK, count, NULL, length, NULL, displs,
                        old, ret);
}
TP_MPI_NAME(Type_create_hindexed_block);

int
PMPI_Type_create_struct(int count, const int lengths[], const MPI_Aint displs[],
                        const MPI_Datatype types[], MPI_Datatype *ret)
{
    struct making m;

    if (begin(&m, count, 1 + (int64_t)count)) {
        add_integer(&m, count);
        for (int i = 0; i < count; i++) {
            const struct tp_ampi_type *type = tp_ampi_type_get(types[i]);

            add_integer(&m, lengths[i]);
            m.error = type == NULL ? MPI_ERR_TYPE : m.error;
            set_block(&m, i, displs[i], type == NULL ? 0 : lengths[i], type);
            m.blocks[i].type = type != NULL ? type : tp_ampi_type_get(MPI_BYTE);
        }
    }
    return finish(&m, count, MPI_COMBINER_STRUCT, displs, count, types, count, ret);
}
TP_MPI_NAME(Type_create_struct);

/* ---- others ---- */

/* Sets bounds that the runs do not give. */
static int
set_bounds(MPI_Datatype made, MPI_Aint lb, MPI_Aint ub)
{
    struct tp_ampi_type *type = tp_ampi_type_get(made);

    if (type != NULL) {
        type->lb = lb;
        type->ub = ub;
        type->lb_set = type->ub_set = true;
        type->dense = lb == 0 && ub == (MPI_Aint)type->size && type->true_lb == 0 &&
                      type->run_count == 1;
    }
    return MPI_SUCCESS;
}

int
PMPI_Type_create_resized(MPI_Datatype old, MPI_Aint lb, MPI_Aint extent,
                         MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(old);
    const MPI_Aint addresses[2] = {lb, extent};
    struct making m;
    MPI_Aint ub = 0;
    int error;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (begin(&m, 1, 0)) {
        set_block(&m, 0, 0, 1, type);
        m.error = __builtin_add_overflow(lb, extent, &ub) ? MPI_ERR_ARG : MPI_SUCCESS;
    }
    error = finish(&m, 1, MPI_COMBINER_RESIZED, addresses, 2, &old, 1, ret);
    return error != MPI_SUCCESS ? error : set_bounds(*ret, lb, ub);
}
TP_MPI_NAME(Type_create_resized);

int
PMPI_Type_dup(MPI_Datatype old, MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(old);
    struct making m;
    int error;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (begin(&m, 1, 0)) {
        set_block(&m, 0, 0, 1, type);
    }
    error = finish(&m, 1, MPI_COMBINER_DUP, NULL, 0, &old, 1, ret);
    if (error == MPI_SUCCESS) {
        (void)set_bounds(*ret, type->lb, type->ub);
        tp_ampi_type_get(*ret)->lb_set = type->lb_set;
        tp_ampi_type_get(*ret)->ub_set = type->ub_set;
        tp_ampi_type_get(*ret)->committed = type->committed;
        error = tp_ampi_attributes_copy(&type->attributes, old,
                                        &tp_ampi_type_get(*ret)->attributes);
        if (error != MPI_SUCCESS) {
            (void)tp_ampi_attributes_delete(&tp_ampi_type_get(*ret)->attributes, *ret);
            tp_ampi_type_unref(*ret);
            *ret = MPI_DATATYPE_NULL;
            error = tp_ampi_error(NULL, error, "an attribute of %s cannot be copied",
                                  type->name);
        }
    }
    return error;
}
TP_MPI_NAME(Type_dup);

/* ---- parts of arrays ---- */

/* The indices of a part along a dimension: `count`, in blocks whose starts are `stride` apart. */
struct axis {
    int64_t size, start, block, stride, count;
};

static bool
set_part(struct axis *axis, int size, int subsize, int start)
{
    *axis = (struct axis){size, start, TP_MAX(subsize, 1), size, subsize};
    return size >= 1 && subsize >= 0 && start >= 0 && start <= size - subsize;
}

/* The indices of one of several processes. */
static bool
set_share(struct axis *axis, int size, int distribution, int argument, int processes,
          int at)
{
    bool all = distribution == MPI_DISTRIBUTE_NONE,
         cyclic = distribution == MPI_DISTRIBUTE_CYCLIC;
    int64_t block = argument, rest;

    if (size < 1 || processes < 1 || (all && processes != 1) ||
        (!all && !cyclic && distribution != MPI_DISTRIBUTE_BLOCK)) {
        return false;
    }
    if (all) {
        block = size;
    } else if (argument == MPI_DISTRIBUTE_DFLT_DARG) {
        block = cyclic ? 1 : ((int64_t)size + processes - 1) / processes;
    }
    if (block < 1 || (!cyclic && block * processes < size)) {
        return false;
    }
    *axis = (struct axis){size, block * at, block, block * processes, 0};
    rest = size % axis->stride - axis->start;
    axis->count = size / axis->stride * block + TP_MAX((int64_t)0, TP_MIN(rest, block));
    return true;
}

static int64_t
index_at(const struct axis *axis, int64_t i)
{
    return axis->start + i / axis->block * axis->stride + i % axis->block;
}

/* The blocks of each row, whose elements are neighbours. */
static void
set_rows(struct making *m, int dims, const struct axis *axes, bool c_order,
         const struct tp_ampi_type *type, int64_t rows)
{
    const struct axis *fast = &axes[c_order ? dims - 1 : 0];
    int64_t done = 0;

    for (int64_t row = 0; row < rows; row++) {
        int64_t left = row, offset = 0, stride = fast->size;

        for (int k = 1; k < dims; k++) {
            const struct axis *axis = &axes[c_order ? dims - 1 - k : k];

            offset += index_at(axis, left % axis->count) * stride;
            left /= axis->count;
            stride *= axis->size;
        }
        for (int64_t i = 0; i < fast->count; i += fast->block) {
            set_block(m, done++, (offset + index_at(fast, i)) * extent_of(type),
                      (int)TP_MIN(fast->block, fast->count - i), type);
        }
    }
}

/* The contents of the call: numbers, arrays of a number for each dimension, the order. */
static void
add_contents(struct making *m, const int *numbers, int count, const int *const *arrays,
             int array_count, int dims, int order)
{
    for (int i = 0; i < count; i++) {
        add_integer(m, numbers[i]);
    }
    for (int i = 0; i < array_count; i++) {
        for (int d = 0; d < dims; d++) {
            add_integer(m, arrays[i][d]);
        }
    }
    add_integer(m, order);
}

/* Computes the bytes of the whole array; no part is larger. @return false: more than MPI_Aint
 * holds */
static bool
measure(const struct axis *axes, int dims, MPI_Aint extent, MPI_Aint *ret)
{
    bool fits = true;

    *ret = 1;
    for (int i = 0; i < dims; i++) {
        fits = fits && !__builtin_mul_overflow(*ret, axes[i].size, ret);
    }
    return fits && !__builtin_mul_overflow(*ret, extent, ret);
}

/* @param numbers [count], arrays [array_count]  of the call, as MPI_Type_get_contents() has them */
static int
make_part(int combiner, const int *numbers, int count, const int *const *arrays,
          int array_count, int dims, int order, const struct axis *axes,
          MPI_Datatype old, MPI_Datatype *ret)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(old);
    const struct axis *fast = &axes[order == MPI_ORDER_C ? dims - 1 : 0];
    int64_t rows = 1, pieces = (fast->count + fast->block - 1) / fast->block;
    struct making m;
    MPI_Aint bytes;
    int error;

    if (!measure(axes, dims, extent_of(type), &bytes)) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "the array is longer than any memory");
    }
    for (int i = 0; i < dims; i++) {
        rows *= &axes[i] == fast ? 1 : axes[i].count;
    }
    if (begin(&m, rows * pieces, count + 1 + array_count * (int64_t)dims)) {
        add_contents(&m, numbers, count, arrays, array_count, dims, order);
        set_rows(&m, dims, axes, order == MPI_ORDER_C, type, rows);
    }
    error = finish(&m, rows * pieces, combiner, NULL, 0, &old, 1, ret);
    return error != MPI_SUCCESS ? error : set_bounds(*ret, 0, bytes);
}

/* @return the axes, not set yet. NULL: an error, which was reported */
static struct axis *
begin_part(int dims, int order, MPI_Datatype old, MPI_Datatype *ret, int *ret_error)
{
    struct axis *axes = NULL;

    *ret = MPI_DATATYPE_NULL;
    *ret_error = MPI_ERR_TYPE;
    if (tp_ampi_type_find(old) == NULL) {
        return NULL;
    }
    if (dims < 1 || (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)) {
        *ret_error = tp_ampi_error(NULL, MPI_ERR_ARG,
                                   "no part of an array: "
                                   "%d dimensions, order %d",
                                   dims, order);
        return NULL;
    }
    axes = tp_alloc_array((size_t)dims, sizeof(axes[0]), "MPI datatype");
    *ret_error = axes != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    return axes;
}

int
PMPI_Type_create_subarray(int dims, const int sizes[], const int subsizes[],
                          const int starts[], int order, MPI_Datatype old,
                          MPI_Datatype *ret)
{
    const int *const arrays[] = {sizes, subsizes, starts};
    int error;
    struct axis *axes = begin_part(dims, order, old, ret, &error);

    for (int i = 0; axes != NULL && i < dims && error == MPI_SUCCESS; i++) {
        if (!set_part(&axes[i], sizes[i], subsizes[i], starts[i])) {
            error = tp_ampi_error(NULL, MPI_ERR_ARG,
                                  "no part of an array: %d from %d "
                                  "on, of %d",
                                  subsizes[i], starts[i], sizes[i]);
        }
    }
    if (error == MPI_SUCCESS) {
        error = make_part(MPI_COMBINER_SUBARRAY, &dims, 1, arrays, 3, dims, order, axes,
                          old, ret);
    }
    tp_free(axes);
    return error;
}
TP_MPI_NAME(Type_create_subarray);

int
PMPI_Type_create_darray(int size, int rank, int dims, const int sizes[],
                        const int distributions[], const int arguments[],
                        const int processes[], int order, MPI_Datatype old,
                        MPI_Datatype *ret)
{
    const int *const arrays[] = {sizes, distributions, arguments, processes};
    const int numbers[] = {size, rank, dims};
    int error, left = rank;
    struct axis *axes = begin_part(dims, order, old, ret, &error);

    /* the last dimension's place changes fastest, in both orders */
    for (int i = dims - 1; axes != NULL && i >= 0 && error == MPI_SUCCESS; i--) {
        int count = TP_MAX(processes[i], 1);

        if (rank < 0 || !set_share(&axes[i], sizes[i], distributions[i], arguments[i],
                                   processes[i], left % count)) {
            error = tp_ampi_error(NULL, MPI_ERR_ARG,
                                  "dimension %d of %d elements is "
                                  "not distributed to %d processes",
                                  i, sizes[i], processes[i]);
        }
        left /= count;
        size /= count;
    }
    if (error == MPI_SUCCESS && (left != 0 || size != 1)) {
        error =
            tp_ampi_error(NULL, MPI_ERR_ARG, "rank %d of %d has no place in the grid",
                          rank, numbers[0]);
    }
    if (error == MPI_SUCCESS) {
        error = make_part(MPI_COMBINER_DARRAY, numbers, 3, arrays, 4, dims, order, axes,
                          old, ret);
    }
    tp_free(axes);
    return error;
}
TP_MPI_NAME(Type_create_darray);
