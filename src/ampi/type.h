/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes as this room sees them: flattened to the runs of bytes of one element. */
#ifndef TELPHER_AMPI_TYPE_H
#define TELPHER_AMPI_TYPE_H

#include "ampi/ampi_int.h"

struct tp_ampi_run {
    MPI_Aint at; /**< [bytes] from the element's address */
    size_t len;
};

struct tp_ampi_type {
    int handle;
    unsigned
        refs; /**< the handle's, those of types made of it and of operations under way */
    bool committed;
    bool dense; /**< elements lie one after the other, without gaps, from offset 0 */
    size_t size, align;
    size_t elements; /**< basic ones in an element: a pair has two */
    MPI_Aint lb, ub, true_lb, true_ub;
    bool lb_set, ub_set; /**< by the program: parts of a struct do not move them */
    MPI_Datatype
        element; /**< the predefined type it consists of; MPI_DATATYPE_NULL: several */
    uint32_t run_count;
    struct tp_ampi_run *runs;
    int combiner, integer_count, address_count, type_count;
    int *integers;
    MPI_Aint *addresses;
    MPI_Datatype *types;
    struct tp_ampi_attribute *attributes;
    char name[MPI_MAX_OBJECT_NAME];
};

enum { TP_AMPI_PREDEFINED = 64 };
extern struct tp_ampi_type tp_ampi_predefined[TP_AMPI_PREDEFINED];
struct tp_ampi_type *tp_ampi_type_get_made(MPI_Datatype handle);

/** The type of a handle. NULL: there is none. */
static inline struct tp_ampi_type *
tp_ampi_type_get(MPI_Datatype handle)
{
    struct tp_ampi_type *type =
        &tp_ampi_predefined[(uint32_t)handle % TP_AMPI_PREDEFINED];

    return tp_likely(type->handle == handle) ? type : tp_ampi_type_get_made(handle);
}

/** [bytes] of one element, SIZE_MAX: there is no such type. */
static inline size_t
tp_ampi_type_size(MPI_Datatype handle)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);

    return type != NULL && type->committed ? type->size : SIZE_MAX;
}

/** Are @p count elements, packed and from the first to the last, no longer than any memory? */
static inline bool
tp_ampi_type_fits(MPI_Datatype handle, size_t count)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    ptrdiff_t len;

    return count <= 1 || (!__builtin_mul_overflow(count, type->size, &len) &&
                          !__builtin_mul_overflow(count, type->ub - type->lb, &len) &&
                          !__builtin_add_overflow(len < 0 ? -(len + 1) : len,
                                                  type->true_ub - type->true_lb, &len));
}

/**
 * The bytes of @p count elements, if they lie one after the other.
 * @param ret_offset, ret_len  where they begin, from the buffer's address, and their number
 * @return false: they have to be packed; only ret_len is set
 */
static inline bool
tp_ampi_type_span(MPI_Datatype handle, size_t count, ptrdiff_t *ret_offset,
                  size_t *ret_len)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);

    *ret_len = type->size * count;
    *ret_offset = type->run_count > 0 ? type->runs[0].at : 0;
    return *ret_len == 0 || type->dense ||
           (type->run_count == 1 &&
            (count == 1 || type->ub - type->lb == (MPI_Aint)type->size));
}

/** The bytes from the first to the last of @p count elements, which are more than none, with gaps:
 *  @p ret_len bytes from the buffer's address + @p ret_low. */
static inline void
tp_ampi_type_reach(MPI_Datatype handle, size_t count, ptrdiff_t *ret_low,
                   size_t *ret_len)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    ptrdiff_t last = (ptrdiff_t)(count - 1) * (type->ub - type->lb);

    *ret_low = type->true_lb + (last < 0 ? last : 0);
    *ret_len = (size_t)(type->true_ub - type->true_lb + (last < 0 ? -last : last));
}

/** @return false: enough */
typedef bool tp_ampi_basic_fn(void *arg, MPI_Datatype basic, size_t count);
/**
 * Calls fn(arg) for the basic types of @p count elements, in their order; several of one kind that
 * follow each other in one call. @return false: a call said so
 */
bool tp_ampi_type_visit(MPI_Datatype handle, size_t count, tp_ampi_basic_fn *fn,
                        void *arg);
/** [bytes] of an element in representation external32. */
size_t tp_ampi_external_size(MPI_Datatype handle);
/* Between the bytes of tp_ampi_type_pack() and external32. */
void tp_ampi_external_write(const void *native, size_t count, MPI_Datatype handle,
                            void *external);
void tp_ampi_external_read(const void *external, size_t count, MPI_Datatype handle,
                           void *native);
/** At a rank's end: types of its MPI_Type_create_f90_... */
void tp_ampi_f90_types_fini(struct tp_ampi_rank *rank);

/** tp_ampi_type_get() for a call, which reports the error. */
struct tp_ampi_type *tp_ampi_type_find(MPI_Datatype handle);

/** Part of a new type: @p length elements of a type at @p at [bytes]. */
struct tp_ampi_block {
    MPI_Aint at;
    size_t length;
    const struct tp_ampi_type *type;
};

/** Results of MPI_Type_get_contents(). */
struct tp_ampi_contents {
    int combiner;
    const int *integers;
    int integer_count;
    const MPI_Aint *addresses;
    int address_count;
    const MPI_Datatype *types;
    int type_count;
};

/** Makes a type of blocks. @return an error class */
int tp_ampi_type_make(const struct tp_ampi_block *blocks, size_t count,
                      const struct tp_ampi_contents *contents,
                      struct tp_ampi_type **ret);
/**
 * Makes *@p ret a handle, which owns @p type, or reports @p error. Without memory frees @p type.
 * @return an error class
 */
int tp_ampi_type_give(struct tp_ampi_type *type, int error, MPI_Datatype *ret);

#endif
