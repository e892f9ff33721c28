/* SPDX-License-Identifier: Apache-2.0 */
/* The part to offload, as a kernel that workers run. */
#include <mpi.h>
#include <stdlib.h>
#include <telpher/kernel.h>

static int
smooth(int count, double factor)
{
    double *part = malloc((size_t)count * sizeof(double));
    MPI_Comm parents;

    MPI_Comm_get_parent(&parents);
    MPI_Scatter(NULL, 0, MPI_DOUBLE, part, count, MPI_DOUBLE, 0, parents);
    for (int i = 0; i < count; i++) {
        part[i] *= factor;
    }
    MPI_Gather(part, count, MPI_DOUBLE, NULL, 0, MPI_DOUBLE, 0, parents);
    free(part);
    return 0; /* anything else is an error that the program receives */
}
TELPHER_KERNEL(smooth, int, double)
