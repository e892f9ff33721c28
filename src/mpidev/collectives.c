/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective calls. With device memory, each is MPI's non-blocking form on host memory in the
 * place of the device's, and this library's progress copies the results.
 */
#include "mpidev/calls.h"
#include "mpidev/mpidev_int.h"

/* ---- what a process reads and writes ---- */

#define IN TP_MPIDEV_IN
#define OUT TP_MPIDEV_OUT
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

/* ---- stages; the names of their buffers are A and B in the calls below ---- */

#define A op->stages[0].mpi
#define B op->stages[1].mpi
#define NONE MPI_SUCCESS
#define BUFFER(i, buffer, count, type, use)                                            \
    tp_mpidev_stage_open(&op->stages[i], buffer, count, type, use)
#define BLOCKS(i, buffer, counts, displs, type, use)                                   \
    tp_mpidev_stage_open_blocks(&op->stages[i], buffer, peers(comm), counts, displs,   \
                                type, use)
#define TYPED(i, buffer, counts, displs, types, use)                                   \
    tp_mpidev_stage_open_typed(&op->stages[i], buffer, peers(comm), counts, displs,    \
                               types, use)
/* Only the root's buffer counts: elsewhere it goes on as it is. */
#define AT_ROOT(i, buffer, stage)                                                      \
    (is_root(root, comm) ? (stage)                                                     \
                         : (op->stages[i].mpi = (void *)(uintptr_t)(buffer), NONE))

/*
 * COLLECTIVE(name, its non-blocking form, parameters, buffers (two, or one twice), the first
 * stage, the second, arguments as the program gives them, arguments with A and B)
 */
#define UNPACK(...) __VA_ARGS__
#define COLLECTIVE(name, iname, params, first, second, stage_a, stage_b, plain,        \
                   staged)                                                             \
    static int begin_##name(struct tp_mpidev_op *op, UNPACK params)                    \
    {                                                                                  \
        int error = stage_a;                                                           \
                                                                                       \
        error = error == MPI_SUCCESS ? stage_b : error;                                \
        return error == MPI_SUCCESS ? PMPI_##iname(UNPACK staged, &op->inner) : error; \
    }                                                                                  \
    int MPI_##name(UNPACK params)                                                      \
    {                                                                                  \
        struct tp_mpidev_op *op;                                                       \
        int error;                                                                     \
                                                                                       \
        if (tp_mpidev_is_plain(first) && tp_mpidev_is_plain(second)) {                 \
            return PMPI_##name(UNPACK plain);                                          \
        }                                                                              \
        op = tp_mpidev_op_new(comm);                                                   \
        if (op == NULL) {                                                              \
            return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);                               \
        }                                                                              \
        tp_mpidev_lock();                                                              \
        error =                                                                        \
            tp_mpidev_op_wait(op, begin_##name(op, UNPACK plain), MPI_STATUS_IGNORE);  \
        tp_mpidev_unlock();                                                            \
        return error;                                                                  \
    }                                                                                  \
    int MPI_##iname(UNPACK params, MPI_Request *request)                               \
    {                                                                                  \
        struct tp_mpidev_op *op;                                                       \
        int error;                                                                     \
                                                                                       \
        if (!tp_mpidev_is_device(first) && !tp_mpidev_is_device(second)) {             \
            return PMPI_##iname(UNPACK plain, request);                                \
        }                                                                              \
        op = tp_mpidev_op_new(comm);                                                   \
        if (op == NULL) {                                                              \
            return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);                               \
        }                                                                              \
        tp_mpidev_lock();                                                              \
        error = tp_mpidev_op_start(op, begin_##name(op, UNPACK plain), request);       \
        tp_mpidev_unlock();                                                            \
        return error;                                                                  \
    }

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
