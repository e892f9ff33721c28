/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- rma_room [MESSAGES [ROUNDS]]
 *
 * Many ranks of process 0 put at once, more than there is room for: each gets its turn, also
 * when others have filled the room again before it looks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

enum { WORLD = TELPHER_RMA_WORLD, RANKS = 26, BYTES = 2000, CAME = 2, READ = 3 };

static uint8_t in[RANKS][BYTES], out[RANKS][BYTES];
static int messages = 64, rounds = 30;

static void
send(telpher_rma *rma, telpher_rma_win win, int round)
{
    uint32_t me = telpher_rma_rank(rma, WORLD);

    memset(out[me], (int)me + round, BYTES);
    for (int i = 1; i < messages; i++) {
        telpher_rma_put(rma, win, me + RANKS, 0, out[me], BYTES);
    }
    telpher_rma_put_notify(rma, win, me + RANKS, 0, out[me], BYTES, CAME);
}

static void
receive(telpher_rma *rma, int round)
{
    uint32_t from = telpher_rma_rank(rma, WORLD) - RANKS;

    telpher_rma_wait(rma, CAME, 1);
    for (int i = 0; i < BYTES; i++) {
        if (in[from][i] != (uint8_t)((int)from + round)) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
            return;
        }
    }
    telpher_rma_notify(rma, WORLD, 0, READ);
}

TELPHER_RMA_KERNEL(crowd)
{
    uint32_t me = telpher_rma_rank(rma, WORLD);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, in[me % RANKS], BYTES, &win);
    for (int round = 0; round < rounds; round++) {
        telpher_rma_barrier(rma, WORLD);
        if (me < RANKS) {
            send(rma, win, round);
        } else {
            receive(rma, round);
        }
        if (me == 0) {
            telpher_rma_wait(rma, READ, RANKS);
        }
    }
    telpher_rma_win_free(rma, win);
}

int
main(int argc, char **argv)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_status status;
    telpher_error err = {0};
    telpher_rma_job *job;

    messages = argc > 1 ? atoi(argv[1]) : messages;
    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    params.ranks = RANKS;
    status = telpher_rma_create(&params, &job, &err);
    if (status == TELPHER_OK) {
        status = telpher_rma_run(job, &crowd, NULL, &err);
        telpher_rma_destroy(job);
    }
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    return status != TELPHER_OK;
}
