/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective calls. With device memory, each is MPI's non-blocking form on host memory in the
 * place of the device's, and this library's progress copies the results.
 */
#include "mpidev/collective.h"

/* ---- what a process reads and writes ---- */

/* A receive buffer that MPI_IN_PLACE makes a send buffer as well. */
#define OUT_OF(sent) ((sent) == MPI_IN_PLACE ? TP_MPIDEV_IN_OUT : TP_MPIDEV_OUT)

/* Processes that a collective call exchanges blocks with. */
static int
peers(MPI_Comm comm)
{
    int inter = 0, size = 0;

    (void)PMPI_Comm_test_inter(comm, &inter);
    (void)(inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size));
    return size;
}

static int
own_size(MPI_Comm comm)
{
    int size = 0;

    (void)PMPI_Comm_size(comm, &size);
    return size;
}

static int
own_rank(MPI_Comm comm)
{
    int rank = 0;

    (void)PMPI_Comm_rank(comm, &rank);
    return rank;
}

static bool
is_root(int root, MPI_Comm comm)
{
    return root == MPI_ROOT || (root >= 0 && root == own_rank(comm));
}

static int64_t
sum(const int *counts, MPI_Comm comm)
{
    int64_t all = 0;

    for (int i = 0, n = own_size(comm); i < n; i++) {
        all += counts[i];
    }
    return all;
}

#define BLOCKS(i, buffer, counts, displs, type, use)                                   \
    BLOCKS_OF(i, peers(comm), buffer, counts, displs, type, use)
#define TYPED(i, buffer, counts, displs, types, use)                                   \
    TYPED_OF(i, peers(comm), buffer, counts, displs, NULL, types, use)
/* Only the root's buffer counts: elsewhere it goes on as it is. */
#define AT_ROOT(i, buffer, stage)                                                      \
    (is_root(root, comm) ? (stage)                                                     \
                         : (op->stages[i].mpi = (void *)(uintptr_t)(buffer), NONE))

/* clang-format off */
COLLECTIVE(Barrier, Ibarrier, (MPI_Comm comm), NULL, NULL, NONE, NONE, (comm), (comm))
COLLECTIVE(Bcast, Ibcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
    buffer, buffer, BUFFER(0, buffer, count, type, is_root(root, comm) ? IN : OUT), NONE,
    (buffer, count, type, root, comm), (A, count, type, root, comm))
COLLECTIVE(Reduce, Ireduce,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op_code, int root, MPI_Comm comm),
    out, in, BUFFER(0, out, count, type, IN), AT_ROOT(1, in, BUFFER(1, in, count, type, OUT_OF(out))),
    (out, in, count, type, op_code, root, comm), (A, B, count, type, op_code, root, comm))
COLLECTIVE(Allreduce, Iallreduce,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op_code, MPI_Comm comm),
    out, in, BUFFER(0, out, count, type, IN), BUFFER(1, in, count, type, OUT_OF(out)),
    (out, in, count, type, op_code, comm), (A, B, count, type, op_code, comm))
COLLECTIVE(Scan, Iscan,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op_code, MPI_Comm comm),
    out, in, BUFFER(0, out, count, type, IN), BUFFER(1, in, count, type, OUT_OF(out)),
    (out, in, count, type, op_code, comm), (A, B, count, type, op_code, comm))
COLLECTIVE(Exscan, Iexscan, /* process 0 keeps what it has */
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op_code, MPI_Comm comm),
    out, in, BUFFER(0, out, count, type, IN), BUFFER(1, in, count, type, TP_MPIDEV_IN_OUT),
    (out, in, count, type, op_code, comm), (A, B, count, type, op_code, comm))
COLLECTIVE(Reduce_scatter, Ireduce_scatter,
    (const void *out, void *in, const int *counts, MPI_Datatype type, MPI_Op op_code, MPI_Comm comm),
    out, in, BUFFER(0, out, sum(counts, comm), type, IN),
    BUFFER(1, in, out == MPI_IN_PLACE ? sum(counts, comm) : counts[own_rank(comm)], type, OUT_OF(out)),
    (out, in, counts, type, op_code, comm), (A, B, counts, type, op_code, comm))
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block,
    (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op_code, MPI_Comm comm),
    out, in, BUFFER(0, out, (int64_t)count * own_size(comm), type, IN),
    BUFFER(1, in, out == MPI_IN_PLACE ? (int64_t)count * own_size(comm) : count, type, OUT_OF(out)),
    (out, in, count, type, op_code, comm), (A, B, count, type, op_code, comm))
COLLECTIVE(Gather, Igather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     int root, MPI_Comm comm),
    out, in, BUFFER(0, out, out_count, out_type, IN),
    AT_ROOT(1, in, BUFFER(1, in, (int64_t)in_count * peers(comm), in_type, OUT_OF(out))),
    (out, out_count, out_type, in, in_count, in_type, root, comm),
    (A, out_count, out_type, B, in_count, in_type, root, comm))
COLLECTIVE(Gatherv, Igatherv,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, const int *in_counts,
     const int *displs, MPI_Datatype in_type, int root, MPI_Comm comm),
    out, in, BUFFER(0, out, out_count, out_type, IN),
    AT_ROOT(1, in, BLOCKS(1, in, in_counts, displs, in_type, OUT_OF(out))),
    (out, out_count, out_type, in, in_counts, displs, in_type, root, comm),
    (A, out_count, out_type, B, in_counts, displs, in_type, root, comm))
COLLECTIVE(Scatter, Iscatter,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     int root, MPI_Comm comm),
    out, in, AT_ROOT(0, out, BUFFER(0, out, (int64_t)out_count * peers(comm), out_type, IN)),
    BUFFER(1, in, in_count, in_type, OUT),
    (out, out_count, out_type, in, in_count, in_type, root, comm),
    (A, out_count, out_type, B, in_count, in_type, root, comm))
COLLECTIVE(Scatterv, Iscatterv,
    (const void *out, const int *out_counts, const int *displs, MPI_Datatype out_type, void *in,
     int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
    out, in, AT_ROOT(0, out, BLOCKS(0, out, out_counts, displs, out_type, IN)),
    BUFFER(1, in, in_count, in_type, OUT),
    (out, out_counts, displs, out_type, in, in_count, in_type, root, comm),
    (A, out_counts, displs, out_type, B, in_count, in_type, root, comm))
COLLECTIVE(Allgather, Iallgather,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm),
    out, in, BUFFER(0, out, out_count, out_type, IN),
    BUFFER(1, in, (int64_t)in_count * peers(comm), in_type, OUT_OF(out)),
    (out, out_count, out_type, in, in_count, in_type, comm),
    (A, out_count, out_type, B, in_count, in_type, comm))
COLLECTIVE(Allgatherv, Iallgatherv,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, const int *in_counts,
     const int *displs, MPI_Datatype in_type, MPI_Comm comm),
    out, in, BUFFER(0, out, out_count, out_type, IN), BLOCKS(1, in, in_counts, displs, in_type, OUT_OF(out)),
    (out, out_count, out_type, in, in_counts, displs, in_type, comm),
    (A, out_count, out_type, B, in_counts, displs, in_type, comm))
COLLECTIVE(Alltoall, Ialltoall,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
     MPI_Comm comm),
    out, in, BUFFER(0, out, (int64_t)out_count * peers(comm), out_type, IN),
    BUFFER(1, in, (int64_t)in_count * peers(comm), in_type, OUT_OF(out)),
    (out, out_count, out_type, in, in_count, in_type, comm),
    (A, out_count, out_type, B, in_count, in_type, comm))
COLLECTIVE(Alltoallv, Ialltoallv,
    (const void *out, const int *out_counts, const int *out_displs, MPI_Datatype out_type, void *in,
     const int *in_counts, const int *in_displs, MPI_Datatype in_type, MPI_Comm comm),
    out, in, BLOCKS(0, out, out_counts, out_displs, out_type, IN),
    BLOCKS(1, in, in_counts, in_displs, in_type, OUT_OF(out)),
    (out, out_counts, out_displs, out_type, in, in_counts, in_displs, in_type, comm),
    (A, out_counts, out_displs, out_type, B, in_counts, in_displs, in_type, comm))
COLLECTIVE(Alltoallw, Ialltoallw,
    (const void *out, const int *out_counts, const int *out_displs, const MPI_Datatype *out_types, void *in,
     const int *in_counts, const int *in_displs, const MPI_Datatype *in_types, MPI_Comm comm),
    out, in, TYPED(0, out, out_counts, out_displs, out_types, IN),
    TYPED(1, in, in_counts, in_displs, in_types, OUT_OF(out)),
    (out, out_counts, out_displs, out_types, in, in_counts, in_displs, in_types, comm),
    (A, out_counts, out_displs, out_types, B, in_counts, in_displs, in_types, comm))
/* clang-format on */
