/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat in a plate: a two-dimensional array of blocks. The entry of a block waits: in each step it
 * sends its four edges through channels to its neighbours, receives theirs, and computes. That is
 * what a loop with `when` does in Charm++'s Structured Dagger.
 *
 *     telpher launch -n 3 -- 10_stencil 40
 */
#include <stdio.h>
#include <string.h>

#include "tutorial.h"

enum { STENCIL_RUN, SIDE = 4, CELLS = 10, ROW = CELLS + 2, SIDES = 4 };

struct block {
    double cells[ROW][ROW]; /* with an edge of each neighbour; the plate's rim is 0 */
};

struct start {
    telpher_mdr_target result;
    int64_t steps;
};

static const int32_t hop[SIDES][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};

static double
first_value(int32_t row, int32_t column)
{
    return row == 0 ? 100.0 : column % 7;
}

static void
create(telpher_mdr_call *call)
{
    struct block *b = call->self;

    for (int32_t i = 1; i <= CELLS; i++) {
        for (int32_t j = 1; j <= CELLS; j++) {
            b->cells[i][j] = first_value(call->index.at[0] * CELLS + i - 1,
                                         call->index.at[1] * CELLS + j - 1);
        }
    }
}

/* Cell @p i of the edge towards a side: of the block, or beyond it. */
static double *
edge_cell(struct block *b, int side, int i, int beyond)
{
    const int near = 1 - beyond, far = CELLS + beyond;

    switch (side) {
    case 0:
        return &b->cells[near][i];
    case 1:
        return &b->cells[far][i];
    case 2:
        return &b->cells[i][near];
    default:
        return &b->cells[i][far];
    }
}

/* @return false: the plate ends there */
static bool
channel_to(const telpher_mdr_call *call, int side, telpher_mdr_channel *ret_channel)
{
    *ret_channel = (telpher_mdr_channel){.array = call->array, .index = call->index};
    ret_channel->index.at[0] += hop[side][0];
    ret_channel->index.at[1] += hop[side][1];
    return ret_channel->index.at[0] >= 0 && ret_channel->index.at[0] < SIDE &&
           ret_channel->index.at[1] >= 0 && ret_channel->index.at[1] < SIDE;
}

/* [exchange] */
static void
exchange(telpher_mdr_call *call)
{
    struct block *b = call->self;
    telpher_mdr_channel to;
    double edge[CELLS];

    for (int side = 0; side < SIDES; side++) {
        for (int i = 0; i < CELLS; i++) {
            edge[i] = *edge_cell(b, side, i + 1, 0);
        }
        if (channel_to(call, side, &to)) {
            MUST(
                telpher_mdr_channel_send(call, &to, edge, sizeof(edge), NULL, 0, NULL));
        }
    }
    for (int side = 0; side < SIDES; side++) {
        if (channel_to(call, side, &to)) {
            MUST(telpher_mdr_channel_await(call, &to, edge, sizeof(edge), NULL, NULL,
                                           0));
            for (int i = 0; i < CELLS; i++) {
                *edge_cell(b, side, i + 1, 1) = edge[i];
            }
        }
    }
}
/* [end of exchange] */

/* One step of @p rows rows, each between two cells that stay. */
static void
compute(double *cells, double *next, int rows)
{
    const int row = rows + 2;

    memcpy(next, cells, (size_t)row * (size_t)row * sizeof(*cells));
    for (int i = row; i < row * (rows + 1); i += row) {
        for (int c = i + 1; c <= i + rows; c++) {
            next[c] = 0.2 * (cells[c] + cells[c - row] + cells[c + row] + cells[c - 1] +
                             cells[c + 1]);
        }
    }
    memcpy(cells, next, (size_t)row * (size_t)row * sizeof(*cells));
}

static void
run_block(telpher_mdr_call *call)
{
    const struct start s = *TELPHER_MDR_PARAMS(call, struct start);
    struct block *b = call->self;
    double next[ROW * ROW], sum = 0;

    for (int64_t step = 0; step < s.steps; step++) {
        exchange(call);
        compute(&b->cells[0][0], next, CELLS);
    }
    for (int i = 1; i <= CELLS; i++) {
        for (int j = 1; j <= CELLS; j++) {
            sum += b->cells[i][j] * b->cells[i][j];
        }
    }
    MUST(telpher_mdr_contribute(call, &sum, sizeof(sum), TELPHER_MDR_SUM_F64,
                                &s.result));
}

static const telpher_mdr_entry entries[] = {
    [STENCIL_RUN] = TELPHER_MDR_ENTRY_WAITS(run_block, struct start),
};
static const telpher_mdr_class block = {
    sizeof(block), 1, "block", sizeof(struct block), create, NULL, entries, NULL};

static double
compute_alone(int64_t steps)
{
    enum { ALL = SIDE * CELLS };
    static double cells[ALL + 2][ALL + 2], next[(ALL + 2) * (ALL + 2)];
    double sum = 0;

    for (int i = 0; i < ALL; i++) {
        for (int j = 0; j < ALL; j++) {
            cells[i + 1][j + 1] = first_value(i, j);
        }
    }
    for (int64_t step = 0; step < steps; step++) {
        compute(&cells[0][0], next, ALL);
    }
    for (int i = 1; i <= ALL; i++) {
        for (int j = 1; j <= ALL; j++) {
            sum += cells[i][j] * cells[i][j];
        }
    }
    return sum;
}

static void
run(telpher_mdr_call *call)
{
    static const int32_t extent[] = {SIDE, SIDE};
    struct start s = {.result = {.kind = TELPHER_MDR_TO_FUTURE},
                      .steps = tutorial_argument(call, 40)};
    telpher_mdr_array plate;
    double sum = 0, alone = compute_alone(s.steps), off;

    MUST(telpher_mdr_array_create(call->mdr, 0, 2, extent, NULL, 0, &plate));
    MUST(telpher_mdr_future_create(call->mdr, &s.result.future));
    MUST(telpher_mdr_broadcast(call->mdr, &plate, STENCIL_RUN, &s, sizeof(s)));
    MUST(telpher_mdr_await(call->mdr, s.result.future, &sum, sizeof(sum), NULL));
    off = sum > alone ? sum - alone : alone - sum; /* sums in another order */
    printf("%d blocks, %lld steps: %.6f: %s\n", SIDE * SIDE, (long long)s.steps, sum,
           off <= 1e-12 * alone ? "equal" : "DIFFERENT");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    return tutorial_main(argc, argv, &block, run);
}
