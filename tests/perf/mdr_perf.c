/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 2 -- mdr_perf [ROUNDS]
 *
 * One way of an invocation between two objects of two processes, beside one way of a bare
 * message (telpher/msg.h) of the same bytes in the same run. Medians of blocks, in turns. Small
 * sizes are parameters, sizes from 4096 bytes a buffer.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <telpher/mdr.h>

enum { HANDLER = 5, BUFFER_FROM = 4096, BIGGEST = 1 << 20, BLOCKS = 21 };

static const size_t sizes[] = {8, 64, 512, 4096, 65536, 1 << 20};
static uint8_t memory[BIGGEST];
static int rounds = 1000;
static int messages_left; /* of the bare ping-pong */

static void
must(telpher_status status, const char *what)
{
    if (status < TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", what, telpher_status_name(status));
        exit(EXIT_FAILURE);
    }
}

static double
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void
ignore(void *user, telpher_status status, size_t len)
{
    (void)user, (void)len;
    must(status, "send");
}

static const telpher_xfer_params ignored = {.struct_size = sizeof(ignored),
                                            .on_done = ignore};

/* ---- objects ---- */

enum { PLAYER_BALL, PLAYER_PARAMS, PLAYER_ENTRIES };

struct ball {
    telpher_mdr_future done;
    uint64_t size;
    int32_t left, with_buffer;
};

static void
throw_ball(telpher_mdr_call *call, const telpher_mdr_array *array, int to,
           const struct ball *ball)
{
    const telpher_mdr_index index = {{to, 0, 0}};
    const telpher_msg_buffer buffer = {memory, ball->size};
    _Alignas(16) static uint8_t params[sizeof(*ball) + 512];

    if (ball->with_buffer) {
        must(telpher_mdr_invoke(call->mdr, array, index, PLAYER_BALL, ball,
                                sizeof(*ball), &buffer, 1, &ignored),
             "invoke");
        return;
    }
    *(struct ball *)(void *)params = *ball;
    must(telpher_mdr_invoke(call->mdr, array, index, PLAYER_PARAMS, params,
                            sizeof(*ball) + (ball->size > 8 ? ball->size : 0), NULL, 0,
                            NULL),
         "invoke");
}

static void
post_ball(telpher_mdr_call *call)
{
    call->buffers[0].data = memory;
}

static void
take_ball(telpher_mdr_call *call)
{
    struct ball ball = *(const struct ball *)call->params;

    if (--ball.left == 0) {
        must(telpher_mdr_future_set(call->mdr, ball.done, NULL, 0), "future");
    } else {
        throw_ball(call, &call->array, 1 - call->index.at[0], &ball);
    }
}

static const telpher_mdr_entry entries[PLAYER_ENTRIES] = {
    [PLAYER_BALL] = TELPHER_MDR_ENTRY_POST(take_ball, post_ball, struct ball),
    [PLAYER_PARAMS] = TELPHER_MDR_ENTRY_BYTES(take_ball),
};
static const telpher_mdr_class player = {
    sizeof(player), PLAYER_ENTRIES, "player", 0, NULL, NULL, entries, NULL};

static double
objects_us(telpher_mdr_call *call, const telpher_mdr_array *players, size_t size)
{
    struct ball ball = {
        .size = size, .left = 2 * rounds, .with_buffer = size >= BUFFER_FROM};
    double begin;

    must(telpher_mdr_future_create(call->mdr, &ball.done), "future");
    begin = now_us();
    throw_ball(call, players, 1, &ball);
    must(telpher_mdr_await(call->mdr, ball.done, NULL, 0, NULL), "await");
    return (now_us() - begin) / (2 * rounds);
}

/* ---- bare messages: process 1 answers each ---- */

static void
send_bare(telpher_context *ctx, size_t size)
{
    const telpher_msg_buffer buffer = {memory, size};
    bool with_buffer = size >= BUFFER_FROM;

    must(telpher_msg_send(ctx, 1 - telpher_context_rank(ctx), HANDLER, memory,
                          with_buffer ? 8 : size, &buffer, with_buffer, &ignored, NULL),
         "message");
}

static void
post_bare(telpher_context *ctx, telpher_msg *msg, void *user)
{
    (void)ctx, (void)user;
    msg->buffers[0].data = memory;
}

static void
take_bare(telpher_context *ctx, telpher_msg *msg, void *user)
{
    (void)user;
    if (telpher_context_rank(ctx) == 1 || --messages_left > 0) {
        send_bare(ctx, msg->buffer_count != 0 ? msg->buffers[0].len : msg->params_len);
    }
}

static double
bare_us(telpher_mdr_call *call, size_t size)
{
    telpher_context *ctx = telpher_mdr_context(call->mdr);
    double begin = now_us();

    messages_left = rounds;
    send_bare(ctx, size);
    while (messages_left > 0) {
        must(telpher_mdr_yield(call->mdr), "yield");
    }
    return (now_us() - begin) / (2 * rounds);
}

/* ---- all sizes ---- */

static int
compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void
main_entry(telpher_mdr_call *call)
{
    telpher_mdr_array players;
    double objects[BLOCKS], bare[BLOCKS];

    must(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &players), "group");
    printf("# %10s %14s %14s %8s\n", "Bytes", "object (us)", "message (us)", "ratio");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int b = -2; b < BLOCKS; b++) { /* two blocks to warm up */
            objects[b < 0 ? 0 : b] = objects_us(call, &players, sizes[s]);
            bare[b < 0 ? 0 : b] = bare_us(call, sizes[s]);
        }
        qsort(objects, BLOCKS, sizeof(double), compare);
        qsort(bare, BLOCKS, sizeof(double), compare);
        printf("%12zu %14.2f %14.2f %8.2f\n", sizes[s], objects[BLOCKS / 2],
               bare[BLOCKS / 2], objects[BLOCKS / 2] / bare[BLOCKS / 2]);
    }
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    telpher_mdr *mdr = NULL;
    telpher_error err = {0};
    uint32_t number;

    rounds = argc > 1 ? atoi(argv[1]) : rounds;
    if (rounds < 1 || telpher_mdr_create(NULL, &mdr, &err) != TELPHER_OK ||
        telpher_mdr_size(mdr) != 2) {
        fprintf(stderr, "mdr_perf: two processes are needed %s\n", err.text);
        return EXIT_FAILURE;
    }
    must(telpher_msg_handler(telpher_mdr_context(mdr), HANDLER, post_bare, take_bare,
                             NULL),
         "handler");
    must(telpher_mdr_class_register(mdr, &player, &number), "class");
    must(telpher_mdr_run(mdr, main_entry, NULL), "run");
    telpher_mdr_destroy(mdr);
    return EXIT_SUCCESS;
}
