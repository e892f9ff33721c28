/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to a handler: every rank sends a vector, from memory of the kind it was started with,
 * to rank 0. The post handler there chooses each vector's destination; the entry handler adds
 * the vector up after its arrival.
 *
 *     telpher launch -n 3 -- 03_message_handler sim
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/mem.h>
#include <telpher/msg.h>

enum { VECTOR = 5, COUNT = 10000, RANKS_MAX = 64 };
#define LIMIT UINT64_C(30000000000) /* [ns] */

struct sums {
    double *vectors[RANKS_MAX]; /* where the vector of each rank goes */
    double total;
    uint32_t came;
};

static telpher_context *job;

static void
must(telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", what, telpher_last_error(job));
        exit(EXIT_FAILURE);
    }
}

/* [handlers] */
static void
on_post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct sums *sums = user;

    (void)ctx;
    if (msg->buffers[0].len == COUNT * sizeof(double) && msg->from < RANKS_MAX) {
        msg->buffers[0].data = sums->vectors[msg->from];
    }
}

static void
on_entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct sums *sums = user;
    const double *vector = msg->buffers[0].data;
    double scale;

    (void)ctx;
    must(msg->status, "message");
    memcpy(&scale, msg->params, sizeof(scale));
    for (int i = 0; i < COUNT; i++) {
        sums->total += scale * vector[i];
    }
    sums->came++;
}
/* [end of handlers] */

/* Sends this rank's number, COUNT times, from memory of a kind. */
static void
send_vector(telpher_context *ctx, uint32_t kind)
{
    static double values[COUNT];
    double scale = 0.5;
    telpher_msg_buffer buffer = {NULL, sizeof(values)};
    telpher_request *req = NULL;
    telpher_status status;

    for (int i = 0; i < COUNT; i++) {
        values[i] = telpher_context_rank(ctx);
    }
    must(telpher_mem_alloc(ctx, kind, sizeof(values), &buffer.data), "memory");
    must(telpher_mem_copy(ctx, buffer.data, values, sizeof(values)), "copy");
    status =
        telpher_msg_send(ctx, 0, VECTOR, &scale, sizeof(scale), &buffer, 1, NULL, &req);
    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(req, LIMIT, NULL);
    }
    must(status, "send");
    must(telpher_mem_free(ctx, buffer.data), "memory");
}

static uint32_t
kind_of(const char *name)
{
    static const char *const names[] = {"host", "opencl", "cuda", "sim"};

    for (uint32_t kind = 0; kind < TELPHER_MEM_KINDS; kind++) {
        if (strcmp(names[kind], name) == 0) {
            return kind;
        }
    }
    fprintf(stderr, "memory is host, opencl, cuda or sim, not %s\n", name);
    exit(2);
}

int
main(int argc, char **argv)
{
    static struct sums sums;
    telpher_error err = {0};
    uint32_t rank, size, kind = kind_of(argc > 1 ? argv[1] : "host");
    double expected;

    if (telpher_context_create(NULL, &job, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    rank = telpher_context_rank(job);
    size = telpher_context_size(job);
    for (uint32_t r = 0; rank == 0 && r < size && r < RANKS_MAX; r++) {
        sums.vectors[r] = malloc(COUNT * sizeof(double));
    }
    must(telpher_msg_handler(job, VECTOR, on_post, on_entry, &sums), "handler");
    send_vector(job, kind);
    while (rank == 0 && sums.came < size) {
        must(telpher_progress_wait(job, LIMIT), "messages");
    }
    must(telpher_barrier(job, LIMIT), "barrier");
    expected = 0.5 * COUNT * size * (size - 1) / 2;
    if (rank == 0) {
        printf("%u vectors, their sum is %g\n", sums.came, sums.total);
    }
    telpher_context_destroy(job);
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        free(sums.vectors[r]);
    }
    return rank != 0 || sums.total == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
