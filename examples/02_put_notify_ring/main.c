/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of ranks: each puts a block into the window of the next and notifies it, round
 * after round. What arrives has been through all ranks before.
 *
 *     telpher launch -n 4 -- 02_put_notify_ring
 */
#include <stdio.h>
#include <stdlib.h>

#include <telpher/win.h>

enum { COUNT = 1000, TAG = 1 };
#define LIMIT UINT64_C(30000000000) /* [ns] */

static telpher_context *job;

static void
must(telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", what, telpher_last_error(job));
        exit(EXIT_FAILURE);
    }
}

/* [put] */
/* Round @p round: adds one to all numbers and hands them on. */
static void
hand_on(telpher_win *win, uint32_t next, const uint32_t *in, uint32_t *out)
{
    telpher_request *req = NULL;
    telpher_status status;

    for (int i = 0; i < COUNT; i++) {
        out[i] = in[i] + 1;
    }
    status =
        telpher_put_notify(win, next, 0, out, COUNT * sizeof(*out), TAG, NULL, &req);
    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(req, LIMIT, NULL);
    }
    must(status, "put");
}
/* [end of put] */

int
main(void)
{
    static uint32_t in[COUNT], out[COUNT];
    telpher_error err = {0};
    telpher_win *win;
    uint32_t rank, size, rounds = 10;

    if (telpher_context_create(NULL, &job, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    rank = telpher_context_rank(job);
    size = telpher_context_size(job);
    /* [window] */
    must(telpher_win_create(job, in, sizeof(in), LIMIT, &win), "window");
    /* [end of window] */
    /* [ring] */
    for (uint32_t round = 0; round < rounds; round++) {
        if (rank == 0) {
            hand_on(win, 1 % size, in, out);
        }
        must(telpher_notify_wait(win, (rank + size - 1) % size, TAG, 1, LIMIT), "wait");
        if (rank != 0) {
            hand_on(win, (rank + 1) % size, in, out);
        }
    }
    /* [end of ring] */
    if (rank == 0) {
        for (int i = 0; i < COUNT; i++) {
            if (in[i] != rounds * size) {
                fprintf(stderr, "number %d is %u, not %u\n", i, in[i], rounds * size);
                return EXIT_FAILURE;
            }
        }
        printf("%u ranks, %u rounds: every number is %u\n", size, rounds, in[0]);
    }
    must(telpher_barrier(job, LIMIT), "barrier");
    telpher_win_destroy(win);
    telpher_context_destroy(job);
    return EXIT_SUCCESS;
}
