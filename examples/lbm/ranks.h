/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that share the channel, a strip each: ranks of MPI (ranks_mpi.c), or this process alone, which then
 * has all strips (ranks_one.c). */
#ifndef LBM_RANKS_H
#define LBM_RANKS_H

#include "lbm.h"

struct lbm_ranks {
    int rank;
    int count;
};

struct lbm_ranks lbm_ranks_start(int *argc, char ***argv);

/** Passes @p count floats to the neighbour on each side, and gets as many of it. */
void lbm_ranks_exchange(float *const out[2], float *const in[2], int count);

double lbm_ranks_mean(double value);

/** Brings all strips to rank 0; each process has its own in the right place. */
void lbm_ranks_gather(struct lbm_field *field);

void lbm_ranks_stop(void);

/** The first column of the strip @p index of @p count. */
static inline int
lbm_first_column(const struct lbm_flow *flow, int index, int count)
{
    return flow->width * index / count;
}

#endif
