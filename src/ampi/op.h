/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of reductions. */
#ifndef TELPHER_AMPI_OP_H
#define TELPHER_AMPI_OP_H

#include <telpher/mem.h>

#include "ampi/ampi_int.h"

struct tp_ampi_op {
    int handle;
    unsigned refs; /**< the program's, and those of calls under way */
    MPI_User_function *fn; /**< NULL: large_fn */
    MPI_User_function_c *large_fn;
    bool commutes;
};

/** @return whether the operation exists, and takes elements of this type */
bool tp_ampi_op_fits(MPI_Op op, MPI_Datatype type);
/** The same for a reduction, to which a byte is no number. */
bool tp_ampi_op_reduces(MPI_Op op, MPI_Datatype type);
bool tp_ampi_op_commutes(MPI_Op op);
/** Calls under way use an operation that the program may free. */
void tp_ampi_op_ref(MPI_Op op);
void tp_ampi_op_unref(MPI_Op op);
/** out[i] = lower[i] op higher[i]. @p out may be one of the others; if it is @p lower, a function
 *  of the program changes @p higher. */
void tp_ampi_op_combine(MPI_Op op, const void *lower, const void *higher, void *out,
                        size_t count, MPI_Datatype type);
/**
 * The operation and the type of telpher_mem_combine() for those of MPI.
 * @param count  of @p type; *ret_elements are those of its elements
 * @return false: no device has a kernel for them
 */
bool tp_ampi_op_of_device(MPI_Op op, MPI_Datatype type, size_t count, uint32_t *ret_op,
                          uint32_t *ret_type, size_t *ret_elements);
/** Combines device memory there. @return TELPHER_ERR_UNSUPPORTED: not possible */
telpher_status tp_ampi_combine_by_kernel(MPI_Op op, MPI_Datatype type,
                                         const void *lower, const void *higher,
                                         void *out, size_t count);
/** inout[i] = in[i] op inout[i]: @p in comes from lower ranks. */
void tp_ampi_op_apply(MPI_Op op, const void *in, void *inout, size_t count,
                      MPI_Datatype type);

#endif
