/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of MPI; calls that refuse device memory by name instead of crashing in MPI. */
#include "base/trace/log.h"
#include "mpidev/mpidev_int.h"

int
MPI_Init(int *argc, char ***argv)
{
    int error = PMPI_Init(argc, argv);

    if (error == MPI_SUCCESS) {
        tp_mpidev_start(MPI_THREAD_SINGLE);
    }
    return error;
}

int
MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int error = PMPI_Init_thread(argc, argv, required, provided);

    if (error == MPI_SUCCESS) {
        tp_mpidev_start(*provided);
    }
    return error;
}

int
MPI_Finalize(void)
{
    tp_mpidev_stop();
    return PMPI_Finalize();
}

/* ---- not with device memory ---- */

static int
refuse(const char *call, MPI_Comm comm)
{
    tp_error("mpidev",
             "%s: its buffer is device memory, which libtelpher-mpi-device carries in "
             "messages and "
             "collective calls only; copy it to host memory",
             call);
    return tp_mpidev_fail(comm, MPI_ERR_BUFFER);
}

#define REFUSE(name, params, buffer, comm, plain)                                      \
    int MPI_##name params                                                              \
    {                                                                                  \
        return tp_mpidev_is_device(buffer) ? refuse("MPI_" #name, comm)                \
                                           : PMPI_##name plain;                        \
    }

/* clang-format off */
#define SEND_INIT(name)                                                                          \
    REFUSE(name, (const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, \
                  MPI_Request *request), buffer, comm, (buffer, count, type, dest, tag, comm, request))
SEND_INIT(Send_init)
SEND_INIT(Ssend_init)
SEND_INIT(Rsend_init)
SEND_INIT(Bsend_init)
REFUSE(Recv_init, (void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                   MPI_Request *request), buffer, comm, (buffer, count, type, source, tag, comm, request))
REFUSE(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
       base, comm, (base, size, unit, info, comm, win))
REFUSE(Win_attach, (MPI_Win win, void *base, MPI_Aint size), base, MPI_COMM_WORLD, (win, base, size))
REFUSE(Put, (const void *origin, int count, MPI_Datatype type, int rank, MPI_Aint displ, int target_count,
             MPI_Datatype target_type, MPI_Win win), origin, MPI_COMM_WORLD,
       (origin, count, type, rank, displ, target_count, target_type, win))
REFUSE(Get, (void *origin, int count, MPI_Datatype type, int rank, MPI_Aint displ, int target_count,
             MPI_Datatype target_type, MPI_Win win), origin, MPI_COMM_WORLD,
       (origin, count, type, rank, displ, target_count, target_type, win))
REFUSE(Accumulate, (const void *origin, int count, MPI_Datatype type, int rank, MPI_Aint displ, int target_count,
                    MPI_Datatype target_type, MPI_Op op, MPI_Win win), origin, MPI_COMM_WORLD,
       (origin, count, type, rank, displ, target_count, target_type, op, win))
REFUSE(Pack, (const void *in, int count, MPI_Datatype type, void *out, int size, int *position, MPI_Comm comm),
       in, comm, (in, count, type, out, size, position, comm))
REFUSE(Unpack, (const void *in, int size, int *position, void *out, int count, MPI_Datatype type, MPI_Comm comm),
       out, comm, (in, size, position, out, count, type, comm))
REFUSE(Neighbor_allgather, (const void *out, int n, MPI_Datatype type, void *in, int m, MPI_Datatype in_type,
                            MPI_Comm comm), out, comm, (out, n, type, in, m, in_type, comm))
REFUSE(Neighbor_alltoall, (const void *out, int n, MPI_Datatype type, void *in, int m, MPI_Datatype in_type,
                           MPI_Comm comm), out, comm, (out, n, type, in, m, in_type, comm))
/* clang-format on */
