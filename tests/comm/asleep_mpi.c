/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Over MPI's own messages, under mpirun with three ranks: rank 1 sends much to rank 0 and then
 * makes no call of MPI's for as long as it takes rank 0 to hear rank 2. An MPI that keeps what
 * has not been received with its sender would let rank 1 hold up rank 2.
 */
#include "shared_mpi.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <telpher/channel.h>
#include <telpher/msg.h>

enum { LISTENER, SLEEPER, TALKER, RANKS, MESSAGES = 100, HANDLER = 1, BIG = 200000 };

static unsigned came[RANKS];
static size_t most; /* [bytes] of parameters */
static uint8_t big[BIG];

/** Memory shared by all ranks, without MPI. */
struct shared {
    _Atomic bool asleep, heard;
};

static void
on_message(telpher_context *ctx, telpher_msg *msg, void *user)
{
    const uint8_t *params = msg->params;

    (void)ctx;
    (void)user;
    MUST(msg->params_len == most);
    MUST(params[0] == came[msg->from] && params[most - 1] == came[msg->from]);
    came[msg->from]++;
}

static void
send_all(telpher_context *ctx)
{
    uint8_t *params = malloc(most);

    MUST(params != NULL);
    for (unsigned i = 0; i < MESSAGES; i++) {
        memset(params, (int)i, most);
        OK(telpher_msg_send(ctx, LISTENER, HANDLER, params, most, NULL, 0, NULL, NULL));
    }
    free(params);
}

static void
listen_to_both(telpher_context *ctx, telpher_channel *ch, struct shared *shared)
{
    telpher_request *req = NULL;

    OK(ranks_finish(telpher_channel_recv(ch, big, BIG, NULL, &req, NULL), &req));
    MUST(big[0] == TALKER && big[BIG - 1] == TALKER);
    while (came[TALKER] < MESSAGES) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
    atomic_store(&shared->heard, true);
    while (came[SLEEPER] < MESSAGES) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
}

static void
sleep_soundly(telpher_context *ctx, struct shared *shared)
{
    const struct timespec nap = {.tv_nsec = 1000000};

    send_all(ctx);
    atomic_store(&shared->asleep, true);
    while (!atomic_load(&shared->heard)) { /* no call of MPI's */
        nanosleep(&nap, NULL);
    }
}

static void
talk(telpher_context *ctx, telpher_channel *ch, struct shared *shared)
{
    telpher_request *req = NULL;

    while (!atomic_load(&shared->asleep)) {
        (void)telpher_progress(ctx);
    }
    memset(big, TALKER, BIG);
    send_all(ctx);
    OK(ranks_finish(telpher_channel_send(ch, big, BIG, NULL, &req), &req));
}

static void
run(telpher_context *ctx, struct shared *shared, uint32_t rank)
{
    telpher_channel *ch = NULL;

    most = telpher_msg_params_max(ctx, rank == LISTENER ? SLEEPER : LISTENER);
    OK(telpher_msg_handler(ctx, HANDLER, NULL, on_message, NULL));
    OK(telpher_barrier(ctx, RANKS_TIME));
    if (rank == SLEEPER) {
        sleep_soundly(ctx, shared);
    } else {
        OK(telpher_channel_open(ctx, LISTENER + TALKER - rank, 1, &ch));
        if (rank == LISTENER) {
            listen_to_both(ctx, ch, shared);
        } else {
            talk(ctx, ch, shared);
        }
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
}

int
main(int argc, char **argv)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    struct shared *shared;
    char number[12];
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(number, sizeof(number), "%d", rank);
    setenv("TELPHER_RANK", number, 1); /* for MUST */
    MUST(size == RANKS);
    shared = ranks_share(sizeof(struct shared));
    params.transports = "mpi";
    params.timeout_ns = RANKS_TIME;
    OK(telpher_context_create_mpi(MPI_COMM_WORLD, &params, &ctx, NULL));
    run(ctx, shared, (uint32_t)rank);
    telpher_context_destroy(ctx);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
