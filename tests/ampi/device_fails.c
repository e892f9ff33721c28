/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive whose copy into device memory fails ends with an error.
 * usage: TELPHER_SIM=fail=1 telpher launch -n N -- ampi_device_fails [+vp M], two ranks
 */
#include <mpi.h>
#include <stdio.h>

#include <telpher/mem.h>

enum { COUNT = 64 };

static int
receive(void)
{
    void *device = NULL;
    int error;

    if (telpher_mem_alloc(AMPI_Context(), TELPHER_MEM_SIM, COUNT, &device) !=
        TELPHER_OK) {
        fprintf(stderr, "no simulated memory: FAILED\n");
        return 1;
    }
    error = MPI_Recv(device, COUNT, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (error != MPI_ERR_OTHER) {
        fprintf(stderr, "the copy failed, and MPI_Recv returned %d: FAILED\n", error);
    }
    telpher_mem_free(AMPI_Context(), device);
    return error != MPI_ERR_OTHER;
}

int
main(int argc, char **argv)
{
    char host[COUNT] = "content";
    int rank, failed = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        failed = MPI_Send(host, COUNT, MPI_CHAR, 1, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
    } else if (rank == 1) {
        failed = receive();
    }
    MPI_Finalize();
    return failed;
}
