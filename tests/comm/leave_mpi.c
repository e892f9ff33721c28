/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving a job over MPI's own messages, under mpirun with two ranks. Who leaves before the
 * other ends its duplicate of the communicator; who leaves while the other hears nothing
 * keeps it, with the memory of what has not left.
 */
#include "shared_mpi.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <telpher/msg.h>

enum { MESSAGES = 24, HANDLER = 1 };

static int rank, key;
static unsigned ended; /* duplicates */
static size_t most; /* [bytes] of parameters */

/** Memory shared by both ranks, without MPI. */
struct shared {
    _Atomic bool left;
};

static int
on_end(MPI_Comm comm, int which, void *value, void *extra)
{
    (void)comm, (void)which, (void)value, (void)extra;
    ended++;
    return MPI_SUCCESS;
}

static telpher_context *
start(MPI_Comm *ret_comm)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;

    MPI_Comm_dup(MPI_COMM_WORLD, ret_comm);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_end, &key, NULL);
    MPI_Comm_set_attr(*ret_comm, key, &key);
    params.transports = "mpi";
    params.timeout_ns = RANKS_TIME;
    OK(telpher_context_create_mpi(*ret_comm, &params, &ctx, NULL));
    most = telpher_msg_params_max(ctx, (uint32_t)!rank);
    ended = 0;
    return ctx;
}

static void
finish(MPI_Comm *comm)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(comm);
    MPI_Comm_free_keyval(&key);
}

/* A message's parameters are its number, over and over. */
static void
on_message(telpher_context *ctx, telpher_msg *msg, void *user)
{
    unsigned *came = user;
    const uint8_t *params = msg->params;

    (void)ctx;
    MUST(msg->params_len == most);
    for (size_t i = 0; i < most; i++) {
        MUST(params[i] == *came);
    }
    (*came)++;
}

static void
send_all(telpher_context *ctx)
{
    uint8_t *params = malloc(most);

    MUST(params != NULL);
    for (unsigned i = 0; i < MESSAGES; i++) {
        memset(params, (int)i, most);
        OK(telpher_msg_send(ctx, 1, HANDLER, params, most, NULL, 0, NULL, NULL));
    }
    free(params);
}

static void
hear_all(telpher_context *ctx)
{
    unsigned came = 0;

    OK(telpher_msg_handler(ctx, HANDLER, NULL, on_message, &came));
    while (telpher_peer_status(ctx, 0) == TELPHER_OK) {
        telpher_progress(ctx);
    }
    MUST(came == MESSAGES);
}

static void
early(void)
{
    MPI_Comm comm;
    telpher_context *ctx = start(&comm);

    if (rank == 0) {
        send_all(ctx);
    } else {
        hear_all(ctx);
    }
    telpher_context_destroy(ctx);
    MUST(ended == 1);
    finish(&comm);
}

static void
deaf(void)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct shared *shared = ranks_share(sizeof(struct shared));
    MPI_Comm comm;
    telpher_context *ctx = start(&comm);

    if (rank == 0) {
        send_all(ctx);
    }
    while (rank == 1 && !atomic_load(&shared->left)) { /* no call of MPI's */
        nanosleep(&nap, NULL);
    }
    if (rank == 1) {
        hear_all(ctx);
    }
    telpher_context_destroy(ctx);
    atomic_store(&shared->left, true);
    MUST(ended == (unsigned)rank);
    finish(&comm);
    munmap(shared, sizeof(*shared));
}

/* Parameters without a size are refused on every rank; the next context is not disturbed. */
static void
without_params(void)
{
    const telpher_context_params params = {0};
    telpher_context *ctx = NULL;

    MUST(telpher_context_create_mpi(MPI_COMM_WORLD, &params, &ctx, NULL) ==
         TELPHER_ERR_INVALID);
    MUST(ctx == NULL);
    OK(telpher_context_create_mpi(MPI_COMM_WORLD, NULL, &ctx, NULL));
    MUST(telpher_context_size(ctx) == 2 && telpher_context_rank(ctx) == (uint32_t)rank);
    telpher_context_destroy(ctx);
    MPI_Barrier(MPI_COMM_WORLD);
}

int
main(int argc, char **argv)
{
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    setenv("TELPHER_RANK", rank == 0 ? "0" : "1", 1); /* for MUST */
    MUST(size == 2);
    early();
    setenv("TELPHER_LEAVE_TIMEOUT", "1s", 1); /* the other hears nothing at all */
    deaf();
    without_params();
    MPI_Finalize();
    return EXIT_SUCCESS;
}
