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
    MPI_Aint lb, ub, true_lb, true_ub;
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

/** The type of a handle. NULL: there is none. */
struct tp_ampi_type *tp_ampi_type_get(MPI_Datatype handle);
/** The same for a call, which reports the error. */
struct tp_ampi_type *tp_ampi_type_find(MPI_Datatype handle);

/** Part of a new type: @p length elements of a type at @p at [bytes]. */
struct tp_ampi_block {
    MPI_Aint at;
    size_t length;
    const struct tp_ampi_type *type;
};

/** What MPI_Type_get_contents() tells. */
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
/** The handle, an error that was reported, or no memory. */
int tp_ampi_type_give(struct tp_ampi_type *type, int error, MPI_Datatype *ret);

#endif
