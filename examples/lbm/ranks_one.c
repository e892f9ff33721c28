/* SPDX-License-Identifier: Apache-2.0 */
/* One process has all strips: nothing to exchange. */
#include "ranks.h"

struct lbm_ranks
lbm_ranks_start(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return (struct lbm_ranks){0, 1};
}

void
lbm_ranks_exchange(float *const out[2], float *const in[2], int count)
{
    (void)out;
    (void)in;
    (void)count;
}

double
lbm_ranks_mean(double value)
{
    return value;
}

void
lbm_ranks_gather(struct lbm_field *field)
{
    (void)field;
}

void
lbm_ranks_stop(void)
{
}
