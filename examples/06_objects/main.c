/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message-driven objects: heat in a rod. The rod is an array of blocks, more than processes. A
 * block computes a step as soon as the values of both neighbours have arrived; a reduction adds
 * up the result, which process 0 compares with its own computation.
 *
 *     telpher launch -n 3 -- 06_objects
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <telpher/mdr.h>

enum { BLOCKS = 24, CELLS = 50, STEPS = 200, LEFT = 0, RIGHT = 1 };

/* [class] */
enum { BLOCK_START, BLOCK_TAKE }; /* entries */

struct block {
    double cells[CELLS + 2]; /* with a value of each neighbour */
    double early[2]; /* values of the next step: a neighbour may be one step ahead */
    int32_t step, have[2]; /* have: step of the newest value of each side */
    telpher_mdr_target result;
};

struct edge { /* a neighbour's value for a step */
    double value;
    int32_t step, side;
};

static double
first_value(int cell)
{
    return cell < CELLS ? 100.0 : 0.0; /* the left end is hot */
}

static void
create(telpher_mdr_call *call)
{
    struct block *b = call->self;

    for (int i = 1; i <= CELLS; i++) {
        b->cells[i] = first_value(call->index.at[0] * CELLS + i - 1);
    }
    b->have[LEFT] = b->have[RIGHT] = -1;
}
/* [end of class] */

/* [invoke] */
static void
send_edge(telpher_mdr_call *call, int to, int side, double value)
{
    const struct block *b = call->self;
    const struct edge e = {.value = value, .step = b->step, .side = side};
    const telpher_mdr_index index = {{to, 0, 0}};

    if (telpher_mdr_invoke(call->mdr, &call->array, index, BLOCK_TAKE, &e, sizeof(e),
                           NULL, 0, NULL) != TELPHER_OK) {
        telpher_mdr_exit(call->mdr, TELPHER_ERR_PROTO);
    }
}
/* [end of invoke] */

/* Sends the values of this step; the ends of the rod have one neighbour. */
static void
send_edges(telpher_mdr_call *call)
{
    struct block *b = call->self;
    int me = call->index.at[0];

    if (me > 0) {
        send_edge(call, me - 1, RIGHT, b->cells[1]);
    } else {
        b->cells[0] = b->cells[1];
        b->have[LEFT] = b->step;
    }
    if (me < BLOCKS - 1) {
        send_edge(call, me + 1, LEFT, b->cells[CELLS]);
    } else {
        b->cells[CELLS + 1] = b->cells[CELLS];
        b->have[RIGHT] = b->step;
    }
}

static void
compute(double *cells, int count)
{
    double before = cells[0];

    for (int i = 1; i <= count; i++) {
        double now = cells[i];

        cells[i] = now + 0.25 * (before - 2 * now + cells[i + 1]);
        before = now;
    }
}

/* Computes all steps for which the values are there. */
static void
advance(telpher_mdr_call *call)
{
    struct block *b = call->self;
    double sum[2] = {0, 0};

    while (b->step < STEPS && b->have[LEFT] >= b->step && b->have[RIGHT] >= b->step) {
        compute(b->cells, CELLS);
        b->step++;
        b->cells[0] = b->early[LEFT];
        b->cells[CELLS + 1] = b->early[RIGHT];
        if (b->step < STEPS) {
            send_edges(call);
        }
    }
    if (b->step == STEPS) {
        for (int i = 1; i <= CELLS; i++) {
            sum[0] += b->cells[i];
            sum[1] += b->cells[i] * (call->index.at[0] * CELLS + i);
        }
        b->step++;
        (void)telpher_mdr_contribute(call, sum, sizeof(sum), TELPHER_MDR_SUM_F64,
                                     &b->result);
    }
}

/* [entries] */
static void
start(telpher_mdr_call *call)
{
    struct block *b = call->self;

    b->result = *TELPHER_MDR_PARAMS(call, telpher_mdr_target);
    send_edges(call);
    advance(call);
}

static void
take(telpher_mdr_call *call)
{
    const struct edge *e = TELPHER_MDR_PARAMS(call, struct edge);
    struct block *b = call->self;

    if (e->step == b->step) {
        b->cells[e->side == LEFT ? 0 : CELLS + 1] = e->value;
    } else { /* the neighbour is one step ahead */
        b->early[e->side] = e->value;
    }
    b->have[e->side] = e->step;
    advance(call);
}

static const telpher_mdr_entry entries[] = {
    [BLOCK_START] = TELPHER_MDR_ENTRY(start, telpher_mdr_target),
    [BLOCK_TAKE] = TELPHER_MDR_ENTRY(take, struct edge),
};
static const telpher_mdr_class block = {
    sizeof(block), 2, "block", sizeof(struct block), create, NULL, entries, NULL};
/* [end of entries] */

static void
compute_alone(double sum[2])
{
    static double cells[BLOCKS * CELLS + 2];

    for (int i = 1; i <= BLOCKS * CELLS; i++) {
        cells[i] = first_value(i - 1);
    }
    for (int step = 0; step < STEPS; step++) {
        cells[0] = cells[1];
        cells[BLOCKS * CELLS + 1] = cells[BLOCKS * CELLS];
        compute(cells, BLOCKS * CELLS);
    }
    for (int i = 1; i <= BLOCKS * CELLS; i++) {
        sum[0] += cells[i];
        sum[1] += cells[i] * i;
    }
}

/* [main] */
static void
run_rod(telpher_mdr_call *call)
{
    enum { CLASS = 0, DIMS = 1 }; /* the class that main() registers first */
    static const int32_t extent[] = {BLOCKS};
    telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    telpher_mdr_array rod;
    double sum[2], alone[2] = {0, 0};
    telpher_status status =
        telpher_mdr_array_create(call->mdr, CLASS, DIMS, extent, NULL, 0, &rod);

    if (status == TELPHER_OK) {
        status = telpher_mdr_future_create(call->mdr, &target.future);
    }
    if (status == TELPHER_OK) {
        status = telpher_mdr_broadcast(call->mdr, &rod, BLOCK_START, &target,
                                       sizeof(target));
    }
    if (status == TELPHER_OK) {
        status = telpher_mdr_await(call->mdr, target.future, sum, sizeof(sum), NULL);
    }
    if (status == TELPHER_OK) {
        compute_alone(alone);
        printf("%d blocks on %u processes: heat %.6f, first moment %.3f, alone %.3f\n",
               BLOCKS, telpher_mdr_size(call->mdr), sum[0], sum[1], alone[1]);
        if (fabs(sum[0] - alone[0]) > 1e-6 || fabs(sum[1] - alone[1]) > 1e-3) {
            status = TELPHER_ERR_PROTO;
        }
    }
    telpher_mdr_exit(call->mdr, status);
}
/* [end of main] */

/* [program] */
int
main(void)
{
    telpher_mdr *mdr = NULL;
    telpher_error err = {0};
    telpher_status status = telpher_mdr_create(NULL, &mdr, &err);
    uint32_t number;

    if (status != TELPHER_OK) {
        fprintf(stderr, "telpher_mdr_create: %s\n", err.text);
        return EXIT_FAILURE;
    }
    status = telpher_mdr_class_register(mdr, &block, &number);
    if (status == TELPHER_OK) {
        status = telpher_mdr_run(mdr, run_rod, NULL);
    }
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", telpher_status_name(status),
                telpher_mdr_last_error(mdr));
    }
    telpher_mdr_destroy(mdr);
    return status == TELPHER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
/* [end of program] */
