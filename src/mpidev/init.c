/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of MPI; how calls refuse device memory by name instead of crashing in MPI. */
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
    tp_mpidev_drain();
    tp_mpidev_stop();
    return PMPI_Finalize();
}

#if MPI_VERSION >= 4
int
MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session)
{
    int error = PMPI_Session_init(info, handler, session);

    if (error == MPI_SUCCESS) {
        tp_mpidev_start_session();
    }
    return error;
}

int
MPI_Session_finalize(MPI_Session *session)
{
    tp_mpidev_stop();
    return PMPI_Session_finalize(session);
}
#endif

/* ---- not with device memory: refuse.py writes the calls ---- */

static void
report(const char *call)
{
    tp_error(
        "mpidev",
        "%s: its buffer is device memory, which libtelpher-mpi-device carries in the "
        "calls of docs/guide/mpi-device.md only; copy it to host memory",
        call);
}

int
tp_mpidev_refuse(const char *call)
{
    report(call);
    return tp_mpidev_fail_local(MPI_ERR_BUFFER);
}

int
tp_mpidev_refuse_comm(const char *call, MPI_Comm comm)
{
    report(call);
    return tp_mpidev_fail(comm, MPI_ERR_BUFFER);
}

int
tp_mpidev_refuse_win(const char *call, MPI_Win win)
{
    report(call);
    (void)PMPI_Win_call_errhandler(win, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}

int
tp_mpidev_refuse_file(const char *call, MPI_File file)
{
    report(call);
    (void)PMPI_File_call_errhandler(file, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}
