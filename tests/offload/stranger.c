/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program that knows nothing of kernel offload, as another program of a launch. */
#include <mpi.h>

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
