/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channel ping-pong of two ranks, in memory of the kind that the argument names.
 *
 *     telpher launch -n 2 -- 05_channel_pingpong cuda
 */
/* [headers] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <telpher/channel.h>
#include <telpher/context.h>
#include <telpher/mem.h>

enum { CHANNEL = 7, BYTES = 4096, ROUNDS = 1000 };
#define LIMIT UINT64_C(30000000000) /* [ns] of every wait */
/* [end of headers] */

/* [check] */
static void
check(telpher_context *ctx, telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, telpher_status_text(status),
                telpher_last_error(ctx));
        exit(EXIT_FAILURE);
    }
}
/* [end of check] */

/* [send] */
static void
send_block(telpher_context *ctx, telpher_channel *channel, const void *block)
{
    telpher_request *request = NULL;
    telpher_status status = telpher_channel_send(channel, block, BYTES, NULL, &request);

    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(request, LIMIT, NULL);
    }
    check(ctx, status, "send");
}
/* [end of send] */

/* [receive] */
static void
receive_block(telpher_context *ctx, telpher_channel *channel, void *block)
{
    telpher_request *request = NULL;
    size_t len = 0;
    telpher_status status =
        telpher_channel_recv(channel, block, BYTES, NULL, &request, &len);

    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(request, LIMIT, &len);
    }
    check(ctx, status, "receive");
    if (len != BYTES) {
        fprintf(stderr, "received %zu bytes, not %d\n", len, BYTES);
        exit(EXIT_FAILURE);
    }
}
/* [end of receive] */

/* [pingpong] */
static void
pingpong(telpher_context *ctx, telpher_channel *channel, void *block)
{
    uint32_t rank = telpher_context_rank(ctx);

    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            send_block(ctx, channel, block);
            receive_block(ctx, channel, block);
        } else {
            receive_block(ctx, channel, block);
            send_block(ctx, channel, block);
        }
    }
}
/* [end of pingpong] */

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

static double
seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* [memory] */
/* A block of memory of a kind, with a copy of @p content. */
static void *
make_block(telpher_context *ctx, uint32_t kind, const void *content)
{
    void *block;

    check(ctx, telpher_mem_alloc(ctx, kind, BYTES, &block), "memory");
    check(ctx, telpher_mem_copy(ctx, block, content, BYTES), "copy to the block");
    return block;
}
/* [end of memory] */

/* [run] */
/* After the rounds the block of rank 0 must hold the bytes that rank 0 sent. */
static void
run(telpher_context *ctx, telpher_channel *channel, uint32_t kind)
{
    unsigned char before[BYTES] = {0}, after[BYTES];
    uint32_t rank = telpher_context_rank(ctx);
    double begin;
    void *block;

    for (int i = 0; rank == 0 && i < BYTES; i++) {
        before[i] = (unsigned char)(i * 7);
    }
    block = make_block(ctx, kind, before);
    begin = seconds();
    pingpong(ctx, channel, block);
    if (rank == 0) {
        printf("%d bytes, half a round trip: %.2f us\n", BYTES,
               (seconds() - begin) / ROUNDS / 2 * 1e6);
        check(ctx, telpher_mem_copy(ctx, after, block, BYTES), "copy from the block");
        if (memcmp(before, after, BYTES) != 0) {
            fprintf(stderr, "the block came back changed\n");
            exit(EXIT_FAILURE);
        }
    }
    check(ctx, telpher_mem_free(ctx, block), "memory");
}
/* [end of run] */

/* [main] */
int
main(int argc, char **argv)
{
    uint32_t kind = kind_of(argc > 1 ? argv[1] : "host");
    telpher_channel *channel;
    telpher_context *ctx;
    telpher_error error = {0};

    if (telpher_context_create(NULL, &ctx, &error) != TELPHER_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_FAILURE;
    }
    if (telpher_context_size(ctx) != 2) {
        fprintf(stderr, "start two ranks: telpher launch -n 2 -- %s\n", argv[0]);
        telpher_context_destroy(ctx);
        return 2;
    }
    check(ctx,
          telpher_channel_open(ctx, 1 - telpher_context_rank(ctx), CHANNEL, &channel),
          "channel");
    run(ctx, channel, kind);
    telpher_channel_close(channel);
    telpher_context_destroy(ctx);
    return EXIT_SUCCESS;
}
/* [end of main] */
