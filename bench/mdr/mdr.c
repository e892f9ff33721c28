/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `telpher-bench mdr`: half round trips of entry methods beside messages and channels, in blocks by
 * turns, between two processes of one job.
 */
#include "bench/mdr/mdr.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <telpher/channel.h>
#include <telpher/mdr.h>
#include <telpher/msg.h>

#include "bench/stats.h"
#include "tools/cli.h"

enum { BLOCKS_MAX = 1000, HANDLER = 7, SIZES = 4, WAYS = 3, SMALL = 256 };

static const size_t sizes[SIZES] = {8, 256, 65536, 1048576};

static int blocks = 15, small_count = 2000;
static bool validation;
static int
    flips; /* of tests: the way whose content has a wrong byte, from 1 on; 0: none */

/* This process's side. */
static struct {
    telpher_context *ctx;
    telpher_mdr *mdr;
    telpher_channel *channel;
    telpher_mdr_array group;
    bool ready;
    uint32_t rank;
    size_t len;
    uint64_t arrived; /* messages of this block */
    unsigned sending; /* whose buffers are under way */
    uint8_t *out, *in;
} my;

static void
must(telpher_status status, const char *what)
{
    if (status != TELPHER_OK && status != TELPHER_IN_PROGRESS) {
        fprintf(stderr, "telpher-bench: %s: %s\n", what, telpher_status_name(status));
        exit(EXIT_FAILURE);
    }
}

/* ---- content ---- */

static uint8_t
byte_at(size_t i, uint32_t from)
{
    return (uint8_t)(i * 31 + my.len + 7 * from + 1);
}

/* Other bytes in what is received, so that old content does not pass for new. */
static void
fill(int way)
{
    for (size_t i = 0; validation && i < my.len; i++) {
        my.out[i] = byte_at(i, my.rank);
        my.in[i] = 0;
    }
    if (flips == way + 1) {
        my.out[my.len / 2] ^= 0x40;
    }
}

static void
check(const void *received, size_t len)
{
    const uint8_t *bytes = received;

    for (size_t i = 0; validation && i < my.len; i++) {
        if (len != my.len || bytes[i] != byte_at(i, !my.rank)) {
            fprintf(
                stderr,
                "telpher-bench: mdr: rank %u: %zu of %zu bytes, byte %zu is wrong\n",
                my.rank, len, my.len, i);
            exit(EXIT_FAILURE);
        }
    }
}

static void
arrive(const void *received, size_t len)
{
    check(received, len);
    my.arrived++;
}

/* ---- completions ---- */

static void
note_sent(void *user, telpher_status status, size_t len)
{
    must(status, "sending");
    my.sending--;
}

static void
note_received(void *user, telpher_status status, size_t len)
{
    must(status, "receiving");
    arrive(my.in, len);
}

static const telpher_xfer_params sent_params = {.struct_size = sizeof(sent_params),
                                                .on_done = note_sent};
static const telpher_xfer_params received_params = {
    .struct_size = sizeof(received_params), .on_done = note_received};

/* ---- the three ways ---- */

static void
send_channel(void)
{
    my.sending += telpher_channel_send(my.channel, my.out, my.len, &sent_params,
                                       NULL) == TELPHER_IN_PROGRESS;
}

static void
want_channel(void)
{
    telpher_status status =
        telpher_channel_recv(my.channel, my.in, my.len, &received_params, NULL, NULL);

    must(status, "telpher_channel_recv");
    if (status == TELPHER_OK) {
        arrive(my.in, my.len);
    }
}

static void
send_msg(void)
{
    const telpher_msg_buffer buffer = {my.out, my.len};
    bool small = my.len <= SMALL;
    telpher_status status =
        telpher_msg_send(my.ctx, !my.rank, HANDLER, my.out, small ? my.len : 8, &buffer,
                         !small, &sent_params, NULL);

    must(status, "telpher_msg_send");
    my.sending += status == TELPHER_IN_PROGRESS;
}

static void
post_msg(telpher_context *ctx, telpher_msg *msg, void *user)
{
    msg->buffers[0].data = my.in;
}

static void
take_msg(telpher_context *ctx, telpher_msg *msg, void *user)
{
    must(msg->status, "a message");
    arrive(msg->buffer_count != 0 ? my.in : msg->params,
           msg->buffer_count != 0 ? msg->buffers[0].len : msg->params_len);
}

enum { READY, SMALL_ITEM, LARGE_ITEM, ENTRIES };

static void
send_entry(void)
{
    const telpher_msg_buffer buffer = {my.out, my.len};
    const telpher_mdr_index to = {{!my.rank, 0, 0}};
    bool small = my.len <= SMALL;

    my.sending += !small;
    must(telpher_mdr_invoke(my.mdr, &my.group, to, small ? SMALL_ITEM : LARGE_ITEM,
                            my.out, small ? my.len : 8, &buffer, !small,
                            small ? NULL : &sent_params),
         "telpher_mdr_invoke");
}

static void
object_ready(telpher_mdr_call *call)
{
    my.group = call->array;
    my.ready = true;
}

static void
object_take(telpher_mdr_call *call)
{
    must(call->status, "an entry");
    arrive(call->buffer_count != 0 ? my.in : call->params,
           call->buffer_count != 0 ? call->buffers[0].len : call->params_len);
}

static void
object_post(telpher_mdr_call *call)
{
    call->buffers[0].data = my.in;
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [READY] = TELPHER_MDR_ENTRY_VOID(object_ready),
    [SMALL_ITEM] = TELPHER_MDR_ENTRY_BYTES(object_take),
    [LARGE_ITEM] = TELPHER_MDR_ENTRY_POST(object_take, object_post, uint64_t),
};
static const telpher_mdr_class objects = {.struct_size = sizeof(objects),
                                          .entry_count = ENTRIES,
                                          .name = "object",
                                          .object_size = 8,
                                          .entries = entries};

/* ---- blocks ---- */

static void
progress(int way)
{
    if (way == 2) {
        must(telpher_mdr_turn(my.mdr), "telpher_mdr_turn");
    } else {
        (void)telpher_progress(my.ctx);
    }
}

static void
await(int way, uint64_t arrived)
{
    while (my.arrived < arrived || my.sending != 0) {
        progress(way);
    }
}

static void
send_one(int way)
{
    static void (*const sends[WAYS])(void) = {send_channel, send_msg, send_entry};

    sends[way]();
}

static double
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* @return [us] of half a round trip */
static double
run_block(int way, size_t len, uint64_t count)
{
    double begin;

    my.len = len;
    my.arrived = 0;
    fill(way);
    must(telpher_barrier(my.ctx, UINT64_C(60000000000)), "telpher_barrier");
    begin = now_us();
    for (uint64_t i = 0; i < count; i++) {
        if (way == 0) {
            want_channel();
        }
        if (my.rank == 0) {
            send_one(way);
        }
        await(way, i + 1);
        if (my.rank != 0) {
            send_one(way);
        }
    }
    await(way, count);
    return (now_us() - begin) / (double)count / 2;
}

static void
measure_size(size_t len)
{
    static double samples[WAYS][BLOCKS_MAX];
    int part = len <= SMALL ? 1 : len <= 65536 ? 10 : 66;
    uint64_t count = (uint64_t)(small_count / part + 1);
    double us[WAYS];

    for (int block = -1; block < blocks; block++) {
        for (int way = 0; way < WAYS; way++) {
            double one = run_block(way, len, count);

            if (block >= 0) {
                samples[way][block] = one;
            }
        }
    }
    for (int way = 0; way < WAYS; way++) {
        (void)bench_stats_of(samples[way], (size_t)blocks); /* sorts them */
        us[way] = bench_quantile(samples[way], (size_t)blocks, 0.25);
    }
    if (my.rank == 0) {
        printf("%8zu %10.2f %10.2f %10.2f %9.2f %9.2f\n", len, us[0], us[1], us[2],
               us[2] / us[1], us[2] / us[0]);
    }
}

/* Process 0: all know the group before the first block. */
static void
run_main(telpher_mdr_call *call)
{
    telpher_mdr_array group;

    must(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &group), "a group");
    must(telpher_mdr_broadcast(call->mdr, &group, READY, NULL, 0), "a broadcast");
}

static void
open_all(void)
{
    telpher_error err;
    uint32_t number;

    if (telpher_context_create(NULL, &my.ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: %s\n", err.text);
        exit(EXIT_FAILURE);
    }
    if (telpher_context_size(my.ctx) != 2) {
        fprintf(stderr, "telpher-bench: mdr needs two processes: "
                        "telpher launch -n 2 -- telpher-bench mdr\n");
        exit(2);
    }
    my.rank = telpher_context_rank(my.ctx);
    my.out = calloc(1, sizes[SIZES - 1]);
    my.in = calloc(1, sizes[SIZES - 1]);
    must(my.out != NULL && my.in != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY,
         "memory");
    /* Pages that were never written are one page of zeros, which stays in the cache. */
    memset(my.out, 1, sizes[SIZES - 1]);
    must(telpher_channel_open(my.ctx, !my.rank, 1, &my.channel), "a channel");
    must(telpher_msg_handler(my.ctx, HANDLER, post_msg, take_msg, NULL), "a handler");
    must(telpher_mdr_create(my.ctx, &my.mdr, &err), "telpher_mdr_create");
    must(telpher_mdr_class_register(my.mdr, &objects, &number), "a class");
    must(telpher_mdr_begin(my.mdr, run_main, NULL), "telpher_mdr_begin");
    while (!my.ready) {
        progress(2);
    }
}

static void
close_all(void)
{
    must(telpher_barrier(my.ctx, UINT64_C(60000000000)), "telpher_barrier");
    telpher_mdr_exit(my.mdr, TELPHER_OK);
    (void)telpher_mdr_turn(my.mdr);
    telpher_mdr_destroy(my.mdr);
    telpher_channel_close(my.channel);
    telpher_context_destroy(my.ctx);
    free(my.out);
    free(my.in);
}

int
mdr_main(int argc, char **argv)
{
    const struct cli_option options[] = {
        CLI_INT('b', "blocks", "N", "of each way", &blocks, 1, BLOCKS_MAX),
        CLI_INT('n', "count", "N",
                "round trips of 8 bytes in a block; fewer of large ones", &small_count,
                1, 1000000),
        CLI_FLAG('c', "validation",
                 "check every byte that arrives, in the measured time", &validation),
        CLI_INT(0, "flip", "N", NULL, &flips, 1, WAYS), /* of tests */
    };
    int code = cli_read(argc, argv,
                        "usage: telpher launch -n 2 -- telpher-bench mdr\n\n"
                        "Half round trips [us] of entry methods, beside messages and "
                        "channels in turns:\nthe first quartile of the blocks, since "
                        "other programs only add time.\n\n",
                        "", options, sizeof(options) / sizeof(options[0]));

    if (code >= 0) {
        return code;
    }
    open_all();
    if (my.rank == 0) {
        printf("   bytes    channel        msg      entry entry/msg entry/channel\n");
    }
    for (int s = 0; s < SIZES; s++) {
        measure_size(sizes[s]);
    }
    close_all();
    return EXIT_SUCCESS;
}
