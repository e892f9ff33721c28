/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- ampi_hostile: rank 1 sends messages that no rank sends. Rank 0
 * ignores them, and receives what follows.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "ampi/process.h"

enum { LONG = 100000, AFTER = 1 };

static void
ended(void *user, telpher_status status, size_t len)
{
    (void)status, (void)len;
    *(int *)user = 1;
}

/* @param len  [bytes] of the buffer */
static void
send_to_rank_0(const void *params, size_t params_len, size_t len)
{
    const telpher_msg_buffer buffer = {calloc(1, LONG), len};
    int over = 0;
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = ended, .user = &over};
    telpher_status status =
        telpher_msg_send(tp_ampi.ctx, 0, TP_AMPI_HANDLER, params, params_len, &buffer,
                         len != 0, &xfer, NULL);

    while (status == TELPHER_IN_PROGRESS && !over) {
        (void)telpher_progress(tp_ampi.ctx);
    }
    free(buffer.data);
}

static void
send_malformed(void)
{
    struct tp_ampi_envelope env = {
        .kind = TP_AMPI_EAGER, .source = 1, .tag = AFTER, .len = LONG};
    struct tp_ampi_small small = {
        .kind = TP_AMPI_SMALL, .len = 8, .source = 1, .tag = AFTER};

    send_to_rank_0(&env, sizeof(env), LONG); /* dropped: it is not eager */
    send_to_rank_0(&env, sizeof(env), 100); /* less data than the envelope says */
    send_to_rank_0(&env, sizeof(env), 0); /* none */
    send_to_rank_0(&env, sizeof(small), 100); /* half an envelope */
    env.len = 100;
    env.to = 1; /* there is no such rank in the process */
    send_to_rank_0(&env, sizeof(env), 100);
    send_to_rank_0(&small, sizeof(small), 0); /* without its data */
}

/* The library finds it by its name. */
__attribute__((visibility("default"))) int
main(int argc, char **argv)
{
    int rank, value = 42;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        send_malformed();
        MPI_Send(&value, 1, MPI_INT, 0, AFTER, MPI_COMM_WORLD);
    } else {
        value = 0;
        MPI_Recv(&value, 1, MPI_INT, 1, AFTER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return value != 42;
}
