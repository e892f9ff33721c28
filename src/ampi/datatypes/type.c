/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes: the predefined ones, making, packing. MPI-3.1, chapter 4. */
#include "ampi/type.h"

#include <string.h>

#include "base/alloc.h"

/* ---- predefined ---- */

/* Types with a gap, or of two values: handle, alignment, the second value's offset and size. */
#define PAIRS(X)                                                                       \
    X(MPI_FLOAT_INT, 4, 4, 4)                                                          \
    X(MPI_DOUBLE_INT, 8, 8, 4)                                                         \
    X(MPI_LONG_INT, 8, 8, 4)                                                           \
    X(MPI_SHORT_INT, 4, 4, 4)                                                          \
    X(MPI_2INT, 4, 4, 4)                                                               \
    X(MPI_LONG_DOUBLE_INT, 16, 16, 4)                                                  \
    X(MPI_2INTEGER, 4, 4, 4)                                                           \
    X(MPI_2REAL, 4, 4, 4)                                                              \
    X(MPI_2DOUBLE_PRECISION, 8, 8, 8)

/* Others: name and alignment. */
#define BASICS(X)                                                                      \
    X(MPI_CHAR, 1)                                                                     \
    X(MPI_BYTE, 1)                                                                     \
    X(MPI_INT, 4)                                                                      \
    X(MPI_DOUBLE, 8)                                                                   \
    X(MPI_SIGNED_CHAR, 1)                                                              \
    X(MPI_UNSIGNED_CHAR, 1)                                                            \
    X(MPI_SHORT, 2)                                                                    \
    X(MPI_UNSIGNED_SHORT, 2)                                                           \
    X(MPI_UNSIGNED, 4)                                                                 \
    X(MPI_LONG, 8)                                                                     \
    X(MPI_UNSIGNED_LONG, 8)                                                            \
    X(MPI_LONG_LONG_INT, 8)                                                            \
    X(MPI_UNSIGNED_LONG_LONG, 8)                                                       \
    X(MPI_FLOAT, 4)                                                                    \
    X(MPI_LONG_DOUBLE, 16)                                                             \
    X(MPI_WCHAR, 4)                                                                    \
    X(MPI_C_BOOL, 1)                                                                   \
    X(MPI_INT8_T, 1)                                                                   \
    X(MPI_INT16_T, 2)                                                                  \
    X(MPI_INT32_T, 4)                                                                  \
    X(MPI_INT64_T, 8)                                                                  \
    X(MPI_UINT8_T, 1)                                                                  \
    X(MPI_UINT16_T, 2)                                                                 \
    X(MPI_UINT32_T, 4)                                                                 \
    X(MPI_UINT64_T, 8)                                                                 \
    X(MPI_AINT, 8)                                                                     \
    X(MPI_COUNT, 8)                                                                    \
    X(MPI_OFFSET, 8)                                                                   \
    X(MPI_C_COMPLEX, 4)                                                                \
    X(MPI_C_DOUBLE_COMPLEX, 8)                                                         \
    X(MPI_C_LONG_DOUBLE_COMPLEX, 16)                                                   \
    X(MPI_PACKED, 1)                                                                   \
    X(MPI_CXX_BOOL, 1)                                                                 \
    X(MPI_CXX_FLOAT_COMPLEX, 4)                                                        \
    X(MPI_CXX_DOUBLE_COMPLEX, 8)                                                       \
    X(MPI_CXX_LONG_DOUBLE_COMPLEX, 16)                                                 \
    X(MPI_INTEGER, 4)                                                                  \
    X(MPI_REAL, 4)                                                                     \
    X(MPI_DOUBLE_PRECISION, 8)                                                         \
    X(MPI_COMPLEX, 4)                                                                  \
    X(MPI_DOUBLE_COMPLEX, 8)                                                           \
    X(MPI_LOGICAL, 4)                                                                  \
    X(MPI_CHARACTER, 1)                                                                \
    X(MPI_INTEGER1, 1)                                                                 \
    X(MPI_INTEGER2, 2)                                                                 \
    X(MPI_INTEGER4, 4)                                                                 \
    X(MPI_INTEGER8, 8)                                                                 \
    X(MPI_REAL4, 4)                                                                    \
    X(MPI_REAL8, 8)                                                                    \
    X(MPI_COMPLEX8, 4)                                                                 \
    X(MPI_COMPLEX16, 8)                                                                \
    X(MPI_INTEGER16, 16)

#define SIZE_OF(handle) ((size_t)(((uint32_t)(handle) >> 8) & 0xff))
#define NUMBER_OF(handle) ((uint32_t)(handle)&0xff)

struct tp_ampi_type tp_ampi_predefined[TP_AMPI_PREDEFINED];
static struct tp_ampi_run runs_of[TP_AMPI_PREDEFINED][2];

static void
define(MPI_Datatype handle, const char *name, size_t align)
{
    struct tp_ampi_type *type = &tp_ampi_predefined[NUMBER_OF(handle)];
    struct tp_ampi_run *runs = runs_of[NUMBER_OF(handle)];

    runs[0].len = SIZE_OF(handle);
    *type = (struct tp_ampi_type){.handle = handle,
                                  .refs = 1,
                                  .committed = true,
                                  .dense = true,
                                  .size = SIZE_OF(handle),
                                  .align = align,
                                  .elements = 1,
                                  .ub = (MPI_Aint)SIZE_OF(handle),
                                  .true_ub = (MPI_Aint)SIZE_OF(handle),
                                  .element = handle,
                                  .run_count = 1,
                                  .runs = runs,
                                  .combiner = MPI_COMBINER_NAMED};
    (void)strncpy(type->name, name, sizeof(type->name) - 1);
}

static void
define_pair(MPI_Datatype handle, const char *name, size_t align, size_t at,
            size_t second)
{
    struct tp_ampi_type *type = &tp_ampi_predefined[NUMBER_OF(handle)];
    struct tp_ampi_run *runs = runs_of[NUMBER_OF(handle)];
    size_t end = at + second, first = SIZE_OF(handle) - second;

    define(handle, name, align);
    if (first != at) {
        runs[0].len = first;
        runs[1] = (struct tp_ampi_run){(MPI_Aint)at, second};
        type->run_count = 2;
    }
    type->elements = 2;
    type->true_ub = (MPI_Aint)end;
    type->ub = (MPI_Aint)((end + align - 1) / align * align);
    type->dense = type->ub == (MPI_Aint)type->size;
}

/* A bound: a type without bytes. */
static void
define_bound(MPI_Datatype handle, const char *name)
{
    struct tp_ampi_type *type = &tp_ampi_predefined[NUMBER_OF(handle)];

    define(handle, name, 1);
    type->run_count = 0;
    type->elements = 0;
    type->element = MPI_DATATYPE_NULL;
    type->lb_set = handle == MPI_LB;
    type->ub_set = handle == MPI_UB;
}

static void
define_all(void)
{
#define DEFINE(name, align) define(name, #name, align);
#define DEFINE_PAIR(name, align, at, second)                                           \
    define_pair(name, #name, align, at, second);
    BASICS(DEFINE)
    PAIRS(DEFINE_PAIR)
    define_bound(MPI_LB, "MPI_LB");
    define_bound(MPI_UB, "MPI_UB");
}

struct tp_ampi_type *
tp_ampi_type_get_made(MPI_Datatype handle)
{
    if (!tp_ampi_is_predefined(handle)) {
        return tp_ampi_handle_get(handle, TP_AMPI_TYPE);
    }
    if (tp_ampi_predefined[NUMBER_OF(MPI_BYTE)].handle != 0) {
        return NULL;
    }
    define_all();
    return tp_ampi_type_get(handle);
}

struct tp_ampi_type *
tp_ampi_type_find(MPI_Datatype handle)
{
    struct tp_ampi_type *type = tp_ampi_type_get(handle);

    if (type == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_TYPE, "%#x is no datatype", handle);
    }
    return type;
}

/* ---- making ---- */

static void
add_run(struct tp_ampi_type *type, MPI_Aint at, size_t len)
{
    struct tp_ampi_run *last =
        type->run_count > 0 ? &type->runs[type->run_count - 1] : NULL;

    if (len == 0) {
        return;
    }
    if (last != NULL && last->at + (MPI_Aint)last->len == at) {
        last->len += len;
        return;
    }
    type->runs[type->run_count++] = (struct tp_ampi_run){at, len};
}

static size_t
count_runs(const struct tp_ampi_block *blocks, size_t count)
{
    size_t runs = 0;

    for (size_t i = 0; i < count; i++) {
        runs +=
            blocks[i].type->dense ? 1 : blocks[i].length * blocks[i].type->run_count;
    }
    return runs;
}

static void
add_block(struct tp_ampi_type *type, const struct tp_ampi_block *block)
{
    const struct tp_ampi_type *old = block->type;
    MPI_Aint extent = old->ub - old->lb;

    if (old->dense) {
        add_run(type, block->at, block->length * old->size);
        return;
    }
    for (size_t i = 0; i < block->length; i++) {
        for (uint32_t r = 0; r < old->run_count; r++) {
            add_run(type, block->at + (MPI_Aint)i * extent + old->runs[r].at,
                    old->runs[r].len);
        }
    }
}

/* @return false: size or bounds of a block are no MPI_Aint */
static bool
find_bounds(const struct tp_ampi_block *block, MPI_Aint *lb, MPI_Aint *ub)
{
    const struct tp_ampi_type *old = block->type;
    MPI_Aint size, last;

    return !__builtin_mul_overflow(block->length, old->size, &size) &&
           !__builtin_mul_overflow(block->length - 1, old->ub - old->lb, &last) &&
           !__builtin_add_overflow(block->at, old->lb, lb) &&
           !__builtin_add_overflow(*lb, TP_MIN(last, (MPI_Aint)0), lb) &&
           !__builtin_add_overflow(block->at, old->ub, ub) &&
           !__builtin_add_overflow(*ub, TP_MAX(last, (MPI_Aint)0), ub);
}

static bool
are_sound(const struct tp_ampi_block *blocks, size_t count)
{
    MPI_Aint lb, ub, low = 0, high = 0, extent;
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        if (blocks[i].length > 0 && !find_bounds(&blocks[i], &lb, &ub)) {
            return false;
        }
        if (blocks[i].length > 0) {
            low = TP_MIN(low, lb);
            high = TP_MAX(high, ub);
            size += blocks[i].length * blocks[i].type->size;
        }
        if (size > PTRDIFF_MAX || __builtin_sub_overflow(high, low, &extent)) {
            return false;
        }
    }
    return true;
}

/* Bounds and element that earlier blocks have given. */
struct found {
    bool lb, ub, element;
};

/* Adds the bound of a block. A bound that the program has set (@p is_set) replaces those that were
 * computed, and computed ones do not change it: MPI-3.1, 4.1.6. */
static void
add_bound(MPI_Aint *bound, bool *set, bool *found, MPI_Aint value, bool is_set,
          bool lower)
{
    if (*set && !is_set) {
        return;
    }
    if (!*found || (is_set && !*set)) {
        *bound = value;
    } else {
        *bound = lower ? TP_MIN(*bound, value) : TP_MAX(*bound, value);
    }
    *found = true;
    *set |= is_set;
}

/* Lower and upper bound, alignment and element of a block's type. */
static void
add_bounds(struct tp_ampi_type *type, const struct tp_ampi_block *block,
           struct found *found)
{
    const struct tp_ampi_type *old = block->type;
    MPI_Aint lb, ub;

    (void)find_bounds(block, &lb, &ub); /* which succeeds */
    if (old->handle != MPI_UB) {
        add_bound(&type->lb, &type->lb_set, &found->lb, lb, old->lb_set, true);
    }
    if (old->handle != MPI_LB) {
        add_bound(&type->ub, &type->ub_set, &found->ub, ub, old->ub_set, false);
    }
    if (old->handle == MPI_LB || old->handle == MPI_UB) {
        return;
    }
    type->align = TP_MAX(type->align, old->align);
    type->size += block->length * old->size;
    type->elements += block->length * old->elements;
    type->element = !found->element || type->element == old->element
                        ? old->element
                        : MPI_DATATYPE_NULL;
    found->element = true;
}

static void
measure(struct tp_ampi_type *type)
{
    for (uint32_t i = 0; i < type->run_count; i++) {
        MPI_Aint begin = type->runs[i].at, end = begin + (MPI_Aint)type->runs[i].len;

        type->true_lb = i == 0 ? begin : TP_MIN(type->true_lb, begin);
        type->true_ub = i == 0 ? end : TP_MAX(type->true_ub, end);
    }
    type->dense = type->lb == 0 && type->ub == (MPI_Aint)type->size &&
                  (type->size == 0 || (type->run_count == 1 && type->runs[0].at == 0));
}

static void
destroy(struct tp_ampi_type *type)
{
    for (int i = 0; type->types != NULL && i < type->type_count; i++) {
        tp_ampi_type_unref(type->types[i]);
    }
    tp_free(type->runs);
    tp_free(type->integers);
    tp_free(type->addresses);
    tp_free(type->types);
    tp_free(type);
}

static void *
copy_of(const void *array, int count, size_t size)
{
    return tp_memdup(count > 0 ? array : "", count > 0 ? (size_t)count * size : 1,
                     "MPI datatype");
}

static bool
keep_contents(struct tp_ampi_type *type, const struct tp_ampi_contents *contents)
{
    type->combiner = contents->combiner;
    type->integer_count = contents->integer_count;
    type->address_count = contents->address_count;
    type->type_count = contents->type_count;
    type->integers = copy_of(contents->integers, contents->integer_count, sizeof(int));
    type->addresses =
        copy_of(contents->addresses, contents->address_count, sizeof(MPI_Aint));
    type->types = copy_of(contents->types, contents->type_count, sizeof(MPI_Datatype));
    for (int i = 0; type->types != NULL && i < type->type_count; i++) {
        tp_ampi_type_ref(type->types[i]);
    }
    return type->integers != NULL && type->addresses != NULL && type->types != NULL;
}

/* Rounds the extent up as C does. @return false: the upper bound is no MPI_Aint */
static bool
pad(struct tp_ampi_type *type)
{
    MPI_Aint align = (MPI_Aint)type->align, rest = (type->ub - type->lb) % align;

    return rest == 0 || !__builtin_add_overflow(type->ub, align - rest, &type->ub);
}

int
tp_ampi_type_make(const struct tp_ampi_block *blocks, size_t count,
                  const struct tp_ampi_contents *contents, struct tp_ampi_type **ret)
{
    struct tp_ampi_type *type;
    size_t runs = count_runs(blocks, count);
    struct found found = {0};

    if (!are_sound(blocks, count)) {
        return MPI_ERR_ARG;
    }
    type = tp_zalloc(sizeof(*type), "MPI datatype");
    if (type == NULL) {
        return MPI_ERR_NO_MEM;
    }
    type->refs = type->align = 1;
    type->runs =
        tp_alloc_array(TP_MAX(runs, 1u), sizeof(type->runs[0]), "MPI datatype");
    if (runs > UINT32_MAX || type->runs == NULL || !keep_contents(type, contents)) {
        destroy(type);
        return MPI_ERR_NO_MEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].length > 0) {
            add_block(type, &blocks[i]);
            add_bounds(type, &blocks[i], &found);
        }
    }
    if (contents->combiner == MPI_COMBINER_STRUCT && !type->ub_set && !pad(type)) {
        destroy(type);
        return MPI_ERR_ARG;
    }
    measure(type);
    *ret = type;
    return MPI_SUCCESS;
}

int
tp_ampi_type_give(struct tp_ampi_type *type, int error, MPI_Datatype *ret)
{
    if (ret == NULL) {
        if (error == MPI_SUCCESS) {
            destroy(type);
        }
        return tp_ampi_refuse_null();
    }
    if (error == MPI_SUCCESS) {
        type->handle = tp_ampi_handle_create(TP_AMPI_TYPE, type);
        error = type->handle != 0 ? MPI_SUCCESS : MPI_ERR_NO_MEM;
        if (error != MPI_SUCCESS) {
            destroy(type);
        }
    }
    *ret = error == MPI_SUCCESS ? type->handle : MPI_DATATYPE_NULL;
    return tp_ampi_error(NULL, error, "cannot make a datatype: %s",
                         error == MPI_ERR_NO_MEM ? "no memory" : "wrong argument");
}

/* ---- what messages need ---- */

void
tp_ampi_type_ref(MPI_Datatype handle)
{
    if (!tp_ampi_is_predefined(handle)) {
        struct tp_ampi_type *type = tp_ampi_type_get(handle);

        if (type != NULL) {
            type->refs++;
        }
    }
}

void
tp_ampi_type_unref(MPI_Datatype handle)
{
    struct tp_ampi_type *type =
        tp_ampi_is_predefined(handle) ? NULL : tp_ampi_type_get(handle);

    if (type != NULL && --type->refs == 0) {
        tp_ampi_handle_destroy(handle);
        destroy(type);
    }
}

void
tp_ampi_type_pack(const void *buf, size_t count, MPI_Datatype handle, void *dst)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    const char *from = buf;
    char *to = dst;

    if (type->dense) {
        memcpy(to, from, count * type->size);
        return;
    }
    for (size_t i = 0; i < count; i++, from += type->ub - type->lb) {
        for (uint32_t r = 0; r < type->run_count; r++) {
            memcpy(to, from + type->runs[r].at, type->runs[r].len);
            to += type->runs[r].len;
        }
    }
}

void
tp_ampi_type_unpack(const void *src, size_t len, void *buf, size_t count,
                    MPI_Datatype handle)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    const char *from = src;
    char *to = buf;

    if (type->dense) {
        memcpy(to, from, len);
        return;
    }
    for (size_t i = 0; i < count && len > 0; i++, to += type->ub - type->lb) {
        for (uint32_t r = 0; r < type->run_count && len > 0; r++) {
            size_t part = TP_MIN(len, type->runs[r].len);

            memcpy(to + type->runs[r].at, from, part);
            from += part;
            len -= part;
        }
    }
}
