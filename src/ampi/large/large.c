/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with large counts, MPI-4.1, 2.5.8: their arguments become those of the calls with counts of
 * type int. Elements of a buffer may be more than an int counts; other numbers may not.
 */
#include "ampi/large/large.h"

#include <limits.h>

#include "ampi/collective.h"
#include "ampi/match.h"
#include "ampi/type.h"
#include "base/alloc.h"

/* ---- arguments ---- */

int
tp_ampi_large_ranks(MPI_Comm handle, enum tp_ampi_large_ranks which, int root)
{
    const struct tp_ampi_comm *comm = tp_ampi_comm_get(handle);

    if (comm == NULL) {
        return 0; /* the call reports it */
    }
    switch (which) {
    case TP_AMPI_LARGE_OWN:
        return comm->size;
    case TP_AMPI_LARGE_ROOT:
        return root == (comm->local != NULL ? MPI_ROOT : comm->rank) ? comm->peers->size
                                                                     : 0;
    case TP_AMPI_LARGE_SOURCES:
        return tp_ampi_source_count(comm);
    case TP_AMPI_LARGE_DESTINATIONS:
        return tp_ampi_destination_count(comm);
    default:
        return comm->peers->size;
    }
}

int
tp_ampi_large_int(struct tp_ampi_large *call, MPI_Count number)
{
    if (number > INT_MAX || number < INT_MIN) {
        call->error = tp_ampi_error(NULL, MPI_ERR_COUNT,
                                    "%lld is too large: this number is at most %d",
                                    (long long)number, INT_MAX);
    }
    return (int)number;
}

int
tp_ampi_large_elements(struct tp_ampi_large *call, MPI_Count count, MPI_Datatype *type)
{
    const struct tp_ampi_contents contents = {
        .combiner = MPI_COMBINER_CONTIGUOUS, .types = type, .type_count = 1};
    const struct tp_ampi_block block = {.length = (size_t)count,
                                        .type = tp_ampi_type_get(*type)};
    struct tp_ampi_type *made = NULL;
    MPI_Datatype handle;
    int error;

    /* the call reports a wrong one */
    if (count <= INT_MAX || block.type == NULL || !block.type->committed) {
        return (int)TP_MAX(TP_MIN(count, (MPI_Count)INT_MAX), (MPI_Count)INT_MIN);
    }
    if (!tp_ampi_type_fits(*type, block.length)) {
        call->error =
            tp_ampi_error(NULL, MPI_ERR_COUNT,
                          "%lld elements are longer than any memory", (long long)count);
        return 0;
    }
    error = tp_ampi_type_make(&block, 1, &contents, &made);
    error = tp_ampi_type_give(made, error, &handle);
    if (error != MPI_SUCCESS) {
        call->error = error;
        return 0;
    }
    tp_ampi_type_get(handle)->committed = true;
    call->types[call->type_count++] = *type = handle;
    return 1;
}

int *
tp_ampi_large_array(struct tp_ampi_large *call, const MPI_Count *numbers, int len)
{
    int *array;

    if (len <= 0 || numbers == NULL || call->error != MPI_SUCCESS) {
        return NULL;
    }
    array = tp_alloc_array((size_t)len, sizeof(array[0]), "MPI counts");
    if (array == NULL) {
        call->error =
            tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for %d counts", len);
        return NULL;
    }
    for (int i = 0; i < len; i++) {
        array[i] = tp_ampi_large_int(call, numbers[i]);
    }
    return call->arrays[call->array_count++] = array;
}

int
tp_ampi_large_end(struct tp_ampi_large *call)
{
    for (int i = 0; i < call->type_count; i++) {
        tp_ampi_type_unref(call->types[i]); /* an operation under way has its own use */
    }
    for (int i = 0; i < call->array_count; i++) {
        tp_free(call->arrays[i]);
    }
    return call->error;
}

/* ---- calls whose results are no int ---- */

/* Types are made of numbers of type int: none is a large count. */
int
PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
                         MPI_Count *large_counts, MPI_Count *types, int *combiner)
{
    int counts[3] = {0};
    int error =
        PMPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[2], combiner);

    *integers = counts[0];
    *addresses = counts[1];
    *large_counts = 0;
    *types = counts[2];
    return error;
}
TP_MPI_NAME(Type_get_envelope_c);

int
PMPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers,
                         MPI_Count max_addresses, MPI_Count max_large_counts,
                         MPI_Count max_types, int integers[], MPI_Aint addresses[],
                         MPI_Count large_counts[], MPI_Datatype types[])
{
    (void)max_large_counts;
    (void)large_counts;
    return PMPI_Type_get_contents(type, (int)TP_MIN(max_integers, (MPI_Count)INT_MAX),
                                  (int)TP_MIN(max_addresses, (MPI_Count)INT_MAX),
                                  (int)TP_MIN(max_types, (MPI_Count)INT_MAX), integers,
                                  addresses, types);
}
TP_MPI_NAME(Type_get_contents_c);
