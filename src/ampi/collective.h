/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls: one description for blocking, non-blocking and persistent forms. */
#ifndef TELPHER_AMPI_COLLECTIVE_H
#define TELPHER_AMPI_COLLECTIVE_H

#include "ampi/type.h"

/** Buffers of one side of an exchange, sent to or received from each rank. */
struct tp_ampi_side {
    char *at;
    size_t count; /**< without counts */
    MPI_Datatype type;
    const int *counts; /**< by rank; NULL: count for each */
    const int
        *displs; /**< in extents, or in bytes with types; NULL: one after the other */
    const MPI_Aint *addresses; /**< instead of displs: in bytes */
    const MPI_Datatype *types; /**< by rank; NULL: type */
    int ranks; /**< length of the arrays, in a non-blocking call */
};

struct tp_ampi_call {
    int (*run)(const struct tp_ampi_call *call);
    const char *name;
    struct tp_ampi_comm *comm;
    struct tp_ampi_side out, in; /**< out.at may be MPI_IN_PLACE */
    MPI_Op op;
    int root, tag;
    bool device; /**< a side is in device memory */
    uint32_t kind; /**< of the device memory that a reduction is computed in; 0: host */
};

/* The algorithms; return an error class that has been reported. */
int tp_ampi_run_barrier(const struct tp_ampi_call *call);
int tp_ampi_run_bcast(const struct tp_ampi_call *call);
int tp_ampi_run_gather(const struct tp_ampi_call *call);
int tp_ampi_run_scatter(const struct tp_ampi_call *call);
int tp_ampi_run_allgather(const struct tp_ampi_call *call);
int tp_ampi_run_alltoall(const struct tp_ampi_call *call);
int tp_ampi_run_reduce(const struct tp_ampi_call *call);
int tp_ampi_run_allreduce(const struct tp_ampi_call *call);
int tp_ampi_run_reduce_scatter(const struct tp_ampi_call *call);
int tp_ampi_run_scan(const struct tp_ampi_call *call);
int tp_ampi_run_exscan(const struct tp_ampi_call *call);
int tp_ampi_run_neighbor_allgather(const struct tp_ampi_call *call);
int tp_ampi_run_neighbor_alltoall(const struct tp_ampi_call *call);

/** Neighbours of the calling rank; 0 without a topology. */
int tp_ampi_source_count(const struct tp_ampi_comm *comm);
int tp_ampi_destination_count(const struct tp_ampi_comm *comm);
/** A reduction of device memory: by the device's kernels, or in copies in host memory. */
int tp_ampi_run_on_device(const struct tp_ampi_call *call);
/** out[i] = lower[i] op higher[i], where the call is computed. @return an error class */
int tp_ampi_combine(const struct tp_ampi_call *call, const void *lower,
                    const void *higher, void *out, size_t count);
/** Copies elements of a call, whose memory may be a device's. @return an error class */
int tp_ampi_copy_in_call(const struct tp_ampi_call *call, const void *from,
                         size_t from_count, MPI_Datatype from_type, void *to,
                         size_t to_count, MPI_Datatype to_type);

/** Does a call go on after this error? Other ranks wait for one whose length differs. Messages
 *  to these have no elements then, so that they get the error, too. */
static inline bool
tp_ampi_goes_on(int error)
{
    return error == MPI_SUCCESS || error == MPI_ERR_TRUNCATE;
}
/** The first error of two. */
static inline int
tp_ampi_first_error(int first, int second)
{
    return first != MPI_SUCCESS ? first : second;
}

/** Where the block of a rank begins, its number of elements, and their type. */
static inline char *
tp_ampi_side_at(const struct tp_ampi_side *side, int rank)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(side->type);

    if (side->types != NULL) {
        return side->at +
               (side->displs != NULL ? side->displs[rank] : side->addresses[rank]);
    }
    return side->at + (type->ub - type->lb) * (side->displs != NULL
                                                   ? (MPI_Aint)side->displs[rank]
                                                   : (MPI_Aint)side->count * rank);
}
static inline size_t
tp_ampi_side_count(const struct tp_ampi_side *side, int rank)
{
    return side->counts != NULL ? (size_t)side->counts[rank] : side->count;
}
static inline MPI_Datatype
tp_ampi_side_type(const struct tp_ampi_side *side, int rank)
{
    return side->types != NULL ? side->types[rank] : side->type;
}
/** The rank @p step further around the ring of a communicator, |step| < its size. */
static inline int
tp_ampi_around(const struct tp_ampi_comm *comm, int step)
{
    int rank = comm->rank + step; /* a division takes as long as 20 instructions */

    return rank >= comm->size ? rank - comm->size : rank < 0 ? rank + comm->size : rank;
}
/** Waits for all requests, also after an error. @return the first error */
int tp_ampi_wait_all(struct tp_ampi_request **requests, int count, int error);
/** Memory for elements of a call. @return the address that stands for element 0; NULL: no
 *  memory */
char *tp_ampi_take_elements(const struct tp_ampi_call *call, size_t count,
                            void **ret_block);
/** @param block  NULL: none was taken */
void tp_ampi_give_elements(const struct tp_ampi_call *call, void *block);
/** Device memory that is kept for the next call. @return NULL: no memory */
void *tp_ampi_room_take(uint32_t kind, size_t bytes);
void tp_ampi_room_give(void *room);
/** Copies elements inside of this process. @return MPI_SUCCESS, MPI_ERR_NO_MEM */
int tp_ampi_copy(const void *from, size_t from_count, MPI_Datatype from_type, void *to,
                 size_t to_count, MPI_Datatype to_type);

#endif
