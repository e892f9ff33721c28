/* SPDX-License-Identifier: Apache-2.0 */
/* A strip for each rank of MPI, beside the form that has one context for all devices. */
#include "ranks.h"

#include <mpi.h>
#include <stdlib.h>

static struct lbm_ranks ranks;

struct lbm_ranks
lbm_ranks_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
    return ranks;
}

void
lbm_ranks_exchange(float *const out[2], float *const in[2], int count)
{
    const int neighbours[2] = {ranks.rank > 0 ? ranks.rank - 1 : MPI_PROC_NULL,
                               ranks.rank + 1 < ranks.count ? ranks.rank + 1
                                                            : MPI_PROC_NULL};
    MPI_Request requests[4];

    for (int side = 0; side < 2; side++) {
        MPI_Irecv(in[side], count, MPI_FLOAT, neighbours[side], 0, MPI_COMM_WORLD,
                  &requests[side]);
        MPI_Isend(out[side], count, MPI_FLOAT, neighbours[side], 0, MPI_COMM_WORLD,
                  &requests[2 + side]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

double
lbm_ranks_mean(double value)
{
    double sum;

    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / ranks.count;
}

void
lbm_ranks_gather(struct lbm_field *field)
{
    const struct lbm_flow flow = {.width = field->width};
    const int column = 2 * field->height;

    for (int from = 1; from < ranks.count; from++) {
        const int first = lbm_first_column(&flow, from, ranks.count);
        const int count =
            column * (lbm_first_column(&flow, from + 1, ranks.count) - first);
        float *strip = field->u + (size_t)column * (size_t)first;

        if (ranks.rank == from) {
            MPI_Send(strip, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
        } else if (ranks.rank == 0) {
            MPI_Recv(strip, count, MPI_FLOAT, from, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
}

void
lbm_ranks_stop(void)
{
    MPI_Finalize();
}
