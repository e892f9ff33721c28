/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels, windows, messages and collectives between real processes, over each transport
 * that works here and each kind of memory: `comm TRANSPORT`.
 */
#include "memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/mem.h>
#include <telpher/msg.h>
#include <telpher/win.h>

static const char *transport;

/* Sizes at which ways change, odd ones, and one that needs many pieces. */
static const size_t sizes[] = {0,     1,     7,     8,     63,      64,      1000,
                               4096,  4097,  8160,  8161,  8192,    8193,    16384,
                               65535, 65536, 65537, 99999, 1 << 20, 3000001, 4 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), BIGGEST = 4 << 20 };

static const enum telpher_mem_kind kinds[] = {TELPHER_MEM_HOST, TELPHER_MEM_SIM,
                                              TELPHER_MEM_OPENCL, TELPHER_MEM_CUDA};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- start and collectives ---- */

static void
ranks_know_themselves(telpher_context *ctx)
{
    uint32_t size = telpher_context_size(ctx);

    MUST(telpher_context_rank(ctx) == (uint32_t)atoi(getenv("TELPHER_RANK")));
    MUST(telpher_context_local_size(ctx) == size);
    MUST(telpher_context_local_rank(ctx) == telpher_context_rank(ctx));
    MUST(strcmp(telpher_context_transport(ctx, (telpher_context_rank(ctx) + 1) % size),
                transport) == 0);
    MUST(telpher_peer_status(ctx, size) == TELPHER_ERR_RANGE);
    for (int i = 0; i < 20; i++) {
        OK(telpher_barrier(ctx, RANKS_TIME));
    }
}

static void
test_start(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 7; size += size == 2 ? 1 : 2) {
        assert_true(ranks_run(size, transport, UINT32_MAX, ranks_know_themselves));
    }
}

/* ---- channels ---- */

static void
send_all(telpher_context *ctx, telpher_channel *ch, enum telpher_mem_kind kind)
{
    uint8_t *mem = memory_alloc(ctx, kind, BIGGEST + 8);

    for (unsigned i = 0; i < SIZES; i++) {
        telpher_request *req = NULL;

        memory_fill(ctx, mem + i % 4, sizes[i], i);
        OK(ranks_finish(telpher_channel_send(ch, mem + i % 4, sizes[i], NULL, &req),
                        &req));
    }
    OK(telpher_mem_free(ctx, mem));
}

static void
recv_all(telpher_context *ctx, telpher_channel *ch, enum telpher_mem_kind kind)
{
    uint8_t *mem = memory_alloc(ctx, kind, BIGGEST + 8);

    for (unsigned i = 0; i < SIZES; i++) {
        telpher_request *req = NULL;
        size_t len = SIZE_MAX;
        telpher_status status;

        if (i % 3 == 0) { /* data is there, or announced, before it is asked for */
            telpher_progress_wait(ctx, 2000000);
        }
        status =
            telpher_channel_recv(ch, mem + i % 5, sizes[i] + i % 2, NULL, &req, &len);
        if (status == TELPHER_IN_PROGRESS) {
            status = telpher_request_wait(req, RANKS_TIME, &len);
        }
        OK(status);
        MUST(len == sizes[i]);
        memory_check(ctx, mem + i % 5, sizes[i], i);
    }
    OK(telpher_mem_free(ctx, mem));
}

static void
every_size_and_kind(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    telpher_channel *ch;

    OK(telpher_channel_open(ctx, 1 - rank, 5, &ch));
    IS(telpher_channel_open(ctx, 1 - rank, 5, &ch), TELPHER_ERR_EXISTS);
    for (unsigned from = 0; from < KINDS; from++) {
        for (unsigned to = 0; to < KINDS; to++) {
            if (!ranks_have_memory(ctx, kinds[from]) ||
                !ranks_have_memory(ctx, kinds[to])) {
                continue;
            }
            if (rank == 0) {
                send_all(ctx, ch, kinds[from]);
            } else {
                recv_all(ctx, ch, kinds[to]);
            }
        }
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
    telpher_channel_close(ch);
}

enum { FLOOD = 2000 };

struct tally {
    unsigned done;
    telpher_status worst;
};

static void
count_done(void *user, telpher_status status, size_t len)
{
    struct tally *t = user;

    (void)len;
    t->done++;
    t->worst = status != TELPHER_OK ? status : t->worst;
}

/* Many sends before any receive: what does not fit must wait with the sender, in order. */
static void
flood(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    static uint32_t values[FLOOD];
    struct tally tally = {0};
    telpher_xfer_params params = TELPHER_XFER_PARAMS_INIT;
    telpher_channel *ch;
    unsigned begun = 0;

    params.on_done = count_done;
    params.user = &tally;
    OK(telpher_channel_open(ctx, 1 - rank, 1, &ch));
    for (uint32_t i = 0; rank == 0 && i < FLOOD; i++) {
        telpher_status status;

        values[i] = i * 3;
        status = telpher_channel_send(ch, &values[i], i % 5, &params, NULL);
        MUST(status >= 0);
        begun += status == TELPHER_IN_PROGRESS;
    }
    if (rank == 1) {
        for (int i = 0; i < 20; i++) {
            telpher_progress_wait(ctx, 1000000);
        }
    }
    for (uint32_t i = 0; rank == 1 && i < FLOOD; i++) {
        uint32_t value = 0, mask = i % 5 == 4 ? UINT32_MAX : (1u << 8 * (i % 5)) - 1;
        telpher_request *req = NULL;
        size_t len = 9;
        telpher_status status = telpher_channel_recv(ch, &value, 4, NULL, &req, &len);

        if (status == TELPHER_IN_PROGRESS) {
            status = telpher_request_wait(req, RANKS_TIME, &len);
        }
        OK(status);
        MUST(len == i % 5 && value == ((i * 3) & mask));
    }
    while (tally.done < begun) {
        OK(telpher_progress_wait(ctx, RANKS_TIME));
    }
    OK(tally.worst);
    OK(telpher_barrier(ctx, RANKS_TIME));
}

static void
cut_canceled_closed(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    static uint8_t big[200000], small[100];
    telpher_request *req = NULL, *other = NULL;
    telpher_channel *ch;
    size_t len = 0;

    OK(telpher_channel_open(ctx, 1 - rank, 77, &ch));
    if (rank == 0) {
        OK(ranks_finish(telpher_channel_send(ch, small, sizeof(small), NULL, &req),
                        &req));
        OK(ranks_finish(telpher_channel_send(ch, big, sizeof(big), NULL, &req), &req));
        OK(telpher_barrier(ctx, RANKS_TIME)); /* nobody receives the next */
        IS(ranks_finish(telpher_channel_send(ch, big, sizeof(big), NULL, &req), &req),
           TELPHER_ERR_CANCELED);
    } else {
        for (int i = 0; i < 2; i++) {
            IS(telpher_channel_recv(ch, big, 10, NULL, &req, &len) ==
                       TELPHER_IN_PROGRESS
                   ? telpher_request_wait(req, RANKS_TIME, &len)
                   : TELPHER_ERR_TRUNCATED,
               TELPHER_ERR_TRUNCATED);
        }
        IS(telpher_channel_recv(ch, big, 10, NULL, &req, &len), TELPHER_IN_PROGRESS);
        IS(telpher_channel_recv(ch, big, 10, NULL, &other, &len), TELPHER_IN_PROGRESS);
        OK(telpher_request_cancel(req));
        IS(telpher_request_test(req, &len), TELPHER_ERR_CANCELED);
        telpher_channel_close(ch);
        IS(telpher_request_wait(other, RANKS_TIME, &len), TELPHER_ERR_CANCELED);
        OK(telpher_barrier(ctx, RANKS_TIME));
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
}

/* Messages sent before a rank leaves arrive, even if the receiver made no progress before. */
static void
send_and_leave(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx);
    struct timespec nap = {.tv_nsec = 500000000}; /* it stays for 1 s */
    telpher_channel *ch = NULL;
    telpher_request *req = NULL;
    uint64_t value = 4711 * rank;
    size_t len = 0;

    OK(telpher_channel_open(ctx, 1 - rank, 3, &ch));
    if (rank == 1) {
        OK(ranks_finish(telpher_channel_send(ch, &value, sizeof(value), NULL, &req),
                        &req));
        return;
    }
    nanosleep(&nap, NULL);
    OK(ranks_finish(telpher_channel_recv(ch, &value, sizeof(value), NULL, &req, &len),
                    &req));
    MUST(value == 4711);
}

static void
test_channels(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, every_size_and_kind));
    assert_true(ranks_run(2, transport, UINT32_MAX, flood));
    assert_true(ranks_run(2, transport, UINT32_MAX, cut_canceled_closed));
    assert_true(ranks_run(2, transport, UINT32_MAX, send_and_leave));
}

/* ---- windows ---- */

/* Data first, then its notification, whatever the size: each put is seen complete. */
static void
puts_of_kind(telpher_context *ctx, enum telpher_mem_kind from, enum telpher_mem_kind to)
{
    uint32_t rank = telpher_context_rank(ctx), size = telpher_context_size(ctx);
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint8_t *src = memory_alloc(ctx, from, BIGGEST),
            *dst = memory_alloc(ctx, to, BIGGEST + 16);
    telpher_win *win;

    OK(telpher_win_create(ctx, dst, BIGGEST + 16 - rank, RANKS_TIME, &win));
    MUST(telpher_win_size(win, next) == BIGGEST + 16 - next);
    for (unsigned i = 0; i < SIZES; i++) {
        telpher_request *req = NULL;

        memory_fill(ctx, src, sizes[i], i + rank);
        OK(ranks_finish(
            telpher_put_notify(win, next, i % 8, src, sizes[i], i, NULL, &req), &req));
        OK(telpher_notify(win, next, 1000));
        OK(telpher_notify_wait(win, before, 1000, 1, RANKS_TIME));
        OK(telpher_notify_test(win, i, 1)); /* was counted before the later one */
        IS(telpher_notify_test(win, i, 1), TELPHER_ERR_AGAIN);
        memory_check(ctx, dst + i % 8, sizes[i], i + before);
        OK(telpher_barrier(ctx, RANKS_TIME));
    }
    telpher_win_destroy(win);
    OK(telpher_mem_free(ctx, src));
    OK(telpher_mem_free(ctx, dst));
}

static unsigned
    from_kind; /* of this run: all kinds in one take a minute when sanitized */

static void
puts_and_notifications(telpher_context *ctx)
{
    for (unsigned to = 0; to < KINDS; to++) {
        if (ranks_have_memory(ctx, kinds[from_kind]) &&
            ranks_have_memory(ctx, kinds[to])) {
            puts_of_kind(ctx, kinds[from_kind], kinds[to]);
        }
    }
}

static void
flush_get_bounds(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx), size = telpher_context_size(ctx);
    uint32_t next = (rank + 1) % size, tag = 9;
    const uint32_t tags[] = {3, 4, TELPHER_TAGS - 1};
    static uint8_t mine[300000], src[300000], back[300000];
    telpher_request *req = NULL;
    telpher_win *win;

    OK(telpher_win_create(ctx, mine, sizeof(mine), RANKS_TIME, &win));
    for (unsigned i = 0; i < 30; i++) {
        size_t len = i % 3 == 0 ? sizeof(src) : 100 * i;

        memset(src, (int)(i + rank + 1), len);
        OK(ranks_finish(telpher_put(win, next, 0, src, len, NULL, &req), &req));
        OK(ranks_finish(telpher_get(win, next, 0, back, len, NULL, &req), &req));
        MUST(memcmp(src, back, len) == 0); /* a get sees the puts before it */
        OK(telpher_win_flush(win, i % 2 ? next : TELPHER_ANY_RANK, RANKS_TIME));
    }
    IS(telpher_put(win, next, sizeof(mine) - 3, src, 4, NULL, &req), TELPHER_ERR_RANGE);
    IS(telpher_put(win, next, UINT64_MAX, src, 4, NULL, &req), TELPHER_ERR_RANGE);
    IS(telpher_put(win, size, 0, src, 4, NULL, &req), TELPHER_ERR_RANGE);
    IS(telpher_notify(win, next, TELPHER_TAGS), TELPHER_ERR_RANGE);
    IS(telpher_put(win, next, 0, src, 4, NULL, NULL), TELPHER_ERR_INVALID);
    OK(telpher_notify(win, next, TELPHER_TAGS - 1));
    OK(telpher_notify_wait_any(win, TELPHER_ANY_RANK, tags, 3, RANKS_TIME, &tag));
    MUST(tag == TELPHER_TAGS - 1);
    IS(telpher_notify_wait(win, TELPHER_ANY_RANK, 3, 1, 1000000), TELPHER_ERR_TIMEOUT);
    OK(telpher_barrier(ctx, RANKS_TIME));
    telpher_win_destroy(win);
}

static void
test_windows(void **state)
{
    (void)state;
    for (from_kind = 0; from_kind < KINDS; from_kind++) {
        assert_true(ranks_run(3, transport, UINT32_MAX, puts_and_notifications));
    }
    assert_true(ranks_run(2, transport, UINT32_MAX, flush_get_bounds));
}

/* ---- messages ---- */

struct inbox {
    uint8_t *places[TELPHER_MSG_BUFFERS];
    unsigned posts, entries;
    size_t lens[TELPHER_MSG_BUFFERS];
    uint32_t count;
    unsigned seed;
};

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct inbox *box = user;

    (void)ctx;
    box->posts++;
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        msg->buffers[i].data = box->places[i];
    }
    msg->cookie = box;
}

static void
entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct inbox *box = user;

    (void)ctx;
    OK(msg->status);
    MUST((uintptr_t)msg->params % 16 == 0);
    MUST(msg->params_len % 97 == 0);
    MUST(pattern_matches(msg->params, msg->params_len, 1));
    MUST(msg->buffer_count == 0 || msg->cookie == box);
    box->count = msg->buffer_count;
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        box->lens[i] = msg->buffers[i].len;
    }
    box->entries++;
}

static void
send_messages(telpher_context *ctx, uint8_t **src)
{
    uint8_t params[97 * 3];
    unsigned n = 0;

    pattern_fill(params, sizeof(params), 1);
    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned count = 0; count <= 3; count++, n++) {
            telpher_msg_buffer buffers[3] = {{src[0], sizes[i]},
                                             {src[1], sizes[i] / 2},
                                             {src[2], sizes[SIZES - 1 - i]}};
            telpher_request *req = NULL;

            for (unsigned b = 0; b < count; b++) {
                memory_fill(ctx, src[b], buffers[b].len, n + b);
            }
            OK(ranks_finish(telpher_msg_send(ctx, 1, 12, params, 97 * (n % 4), buffers,
                                             count, NULL, &req),
                            &req));
            OK(telpher_barrier(ctx, RANKS_TIME));
        }
    }
}

static void
take_messages(telpher_context *ctx, struct inbox *box)
{
    unsigned n = 0;

    telpher_progress_wait(ctx, 5000000); /* the first waits for its handler */
    OK(telpher_msg_handler(ctx, 12, post, entry, box));
    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned count = 0; count <= 3; count++, n++) {
            while (box->entries <= n) {
                OK(telpher_progress_wait(ctx, RANKS_TIME));
            }
            MUST(box->count == count);
            for (unsigned b = 0; b < count; b++) {
                memory_check(ctx, box->places[b], box->lens[b], n + b);
            }
            OK(telpher_barrier(ctx, RANKS_TIME));
        }
    }
}

static void
messages(telpher_context *ctx)
{
    struct inbox box = {0};
    const enum telpher_mem_kind mixed[] = {TELPHER_MEM_SIM, TELPHER_MEM_HOST,
                                           TELPHER_MEM_HOST};

    for (unsigned b = 0; b < 3; b++) {
        box.places[b] = memory_alloc(ctx, mixed[b], BIGGEST);
    }
    if (telpher_context_rank(ctx) == 0) {
        send_messages(ctx, box.places);
    } else {
        take_messages(ctx, &box);
    }
    for (unsigned b = 0; b < 3; b++) {
        OK(telpher_mem_free(ctx, box.places[b]));
    }
}

struct room {
    uint8_t more[64], less[64];
    telpher_status status;
    bool entered;
};

/* Says other lengths than the message, which a handler is not meant to. */
static void
post_other_lens(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct room *room = user;

    (void)ctx;
    msg->buffers[0].data = room->more;
    msg->buffers[0].len = sizeof(room->more);
    msg->buffers[1].data = room->less;
    msg->buffers[1].len = 8;
}

static void
enter_room(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct room *room = user;

    (void)ctx;
    room->status = msg->status;
    room->entered = true;
}

/* Neither is more written than came, nor more than there is room for. */
static void
other_lens(telpher_context *ctx)
{
    struct room room = {.status = TELPHER_OK};
    telpher_msg_buffer buffers[2] = {{room.more, 16}, {room.less, 16}};
    telpher_request *req = NULL;

    OK(telpher_msg_handler(ctx, 13, post_other_lens, enter_room, &room));
    OK(telpher_barrier(ctx, RANKS_TIME));
    if (telpher_context_rank(ctx) == 0) {
        memset(room.more, 1, sizeof(room.more));
        memset(room.less, 1, sizeof(room.less));
        OK(ranks_finish(telpher_msg_send(ctx, 1, 13, NULL, 0, buffers, 2, NULL, &req),
                        &req));
    } else {
        while (!room.entered) {
            OK(telpher_progress_wait(ctx, RANKS_TIME));
        }
        IS(room.status, TELPHER_ERR_TRUNCATED);
        MUST(room.more[15] == 1 && room.more[16] == 0 && room.more[63] == 0);
        MUST(room.less[7] == 1 && room.less[8] == 0);
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
}

/* ---- eager buffers ---- */

enum {
    EAGER_SIZES = 7,
    BURST =
        300, /* more messages than any transport accepts while the receiver does nothing */
    IN_PLACE = 14, /* handlers: without a post handler */
    IN_PLACE_ORDERED,
    NAMED, /* with one */
    LONG, /* ordered; its buffer is long */
};
static const size_t eager_sizes[EAGER_SIZES] = {0, 1, 8, 100, 456, 457, 2000};

struct eager {
    unsigned entries[LONG + 1];
    uint8_t *room;
};

/* Message @p n has parameters of which a short header takes some, and one or two buffers. */
static void
send_eager(telpher_context *ctx, uint32_t handler, unsigned n)
{
    static const size_t params_lens[] = {1, 16, 120, 121};
    size_t len = eager_sizes[n % EAGER_SIZES], params_len = params_lens[n % 4];
    uint8_t params[121], bytes[2][2000];
    const telpher_msg_buffer buffers[2] = {{bytes[0], len}, {bytes[1], len / 2}};
    telpher_request *req = NULL;

    pattern_fill(params, params_len, n);
    pattern_fill(bytes[0], len, n + 1);
    pattern_fill(bytes[1], len / 2, n + 2);
    IS(telpher_msg_send(ctx, 1, handler, params, params_len, buffers, 1 + (n % 3 == 2),
                        NULL, &req),
       TELPHER_OK); /* the memory may be reused */
}

static void
post_eager(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct eager *e = user;

    (void)ctx;
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        msg->buffers[i].data = e->room + i * BIGGEST;
    }
}

static void
enter_eager(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct eager *e = user;
    unsigned n = e->entries[msg->handler]++;

    (void)ctx;
    OK(msg->status);
    if (msg->handler == LONG) {
        return;
    }
    MUST((uintptr_t)msg->params % 16 == 0);
    MUST(pattern_matches(msg->params, msg->params_len, n));
    MUST(msg->buffer_count == 1 + (n % 3 == 2));
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        MUST(msg->buffers[i].len == eager_sizes[n % EAGER_SIZES] / (1 + i));
        MUST(pattern_matches(msg->buffers[i].data, msg->buffers[i].len, n + 1 + i));
    }
    MUST(msg->handler != IN_PLACE_ORDERED || e->entries[LONG] == 1);
}

static void
send_eager_messages(telpher_context *ctx, struct eager *e)
{
    telpher_msg_buffer buffer = {e->room, BIGGEST};
    telpher_request *req = NULL;

    for (unsigned n = 0; n < BURST; n++) {
        send_eager(ctx, IN_PLACE, n);
        send_eager(ctx, NAMED, n);
    }
    OK(telpher_barrier(ctx, RANKS_TIME)); /* the ordered handlers are registered */
    IS(telpher_msg_send(ctx, 1, LONG, NULL, 0, &buffer, 1, NULL, &req),
       TELPHER_IN_PROGRESS);
    for (unsigned n = 0; n < BURST; n++) {
        send_eager(ctx, IN_PLACE_ORDERED, n);
    }
    OK(ranks_finish(TELPHER_IN_PROGRESS, &req));
}

/* Buffers that arrive with their message are read in place, also from a kept message. */
static void
eager_buffers(telpher_context *ctx)
{
    struct eager e = {.room = calloc(2, BIGGEST)};

    MUST(e.room != NULL);
    if (telpher_context_rank(ctx) == 0) {
        send_eager_messages(ctx, &e);
    } else {
        telpher_progress_wait(ctx, 5000000); /* the first wait for their handler */
        OK(telpher_msg_handler(ctx, IN_PLACE, NULL, enter_eager, &e));
        OK(telpher_msg_handler(ctx, NAMED, post_eager, enter_eager, &e));
        OK(telpher_msg_handler_ordered(ctx, LONG, 0, post_eager, enter_eager, &e));
        OK(telpher_msg_handler_ordered(ctx, IN_PLACE_ORDERED, 0, NULL, enter_eager,
                                       &e));
        OK(telpher_barrier(ctx, RANKS_TIME));
        while (e.entries[IN_PLACE] + e.entries[NAMED] + e.entries[IN_PLACE_ORDERED] <
               3 * BURST) {
            OK(telpher_progress_wait(ctx, RANKS_TIME));
        }
    }
    OK(telpher_barrier(ctx, RANKS_TIME));
    free(e.room);
}

static void
test_messages(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, messages));
    assert_true(ranks_run(2, transport, UINT32_MAX, other_lens));
    assert_true(ranks_run(2, transport, UINT32_MAX, eager_buffers));
}

/* ---- a rank dies ---- */

static uint64_t
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Rank 1 dies; what needs it ends with PEER_LOST in time, once, and the rest goes on. */
static void
one_dies(telpher_context *ctx)
{
    static uint8_t mine[1 << 20], big[8 << 20];
    uint32_t rank = telpher_context_rank(ctx);
    telpher_request *recv = NULL, *send = NULL, *req = NULL;
    telpher_channel *to_dead = NULL, *to_alive = NULL;
    telpher_win *win;
    uint64_t died;
    size_t len;

    OK(telpher_win_create(ctx, mine, sizeof(mine), RANKS_TIME, &win));
    if (rank == 1) {
        OK(telpher_notify_wait(win, TELPHER_ANY_RANK, 5, 2, RANKS_TIME));
        raise(SIGKILL);
    }
    OK(telpher_channel_open(ctx, 1, 0, &to_dead));
    OK(telpher_channel_open(ctx, rank == 0 ? 2 : 0, 1, &to_alive));
    IS(telpher_channel_recv(to_dead, mine, sizeof(mine), NULL, &recv, &len),
       TELPHER_IN_PROGRESS);
    IS(telpher_channel_send(to_dead, big, sizeof(big), NULL, &send),
       TELPHER_IN_PROGRESS);
    OK(telpher_notify(win, 1, 5)); /* now it may die */
    died = now_ns();
    IS(telpher_request_wait(recv, RANKS_TIME, &len), TELPHER_ERR_PEER_LOST);
    IS(telpher_request_wait(send, RANKS_TIME, &len), TELPHER_ERR_PEER_LOST);
    MUST(now_ns() - died <
         UINT64_C(3000000000)); /* noticed in 1 s; the machine is slow */
    IS(telpher_peer_status(ctx, 1), TELPHER_ERR_PEER_LOST);
    IS(telpher_channel_recv(to_dead, mine, 1, NULL, &recv, &len),
       TELPHER_ERR_PEER_LOST);
    IS(telpher_put(win, 1, 0, big, 8, NULL, &req), TELPHER_ERR_PEER_LOST);
    IS(telpher_notify_wait(win, 1, 0, 1, RANKS_TIME), TELPHER_ERR_PEER_LOST);
    IS(telpher_win_flush(win, 1, RANKS_TIME), TELPHER_ERR_PEER_LOST);
    if (rank == 0) {
        OK(ranks_finish(telpher_channel_send(to_alive, big, sizeof(mine), NULL, &req),
                        &req));
    } else {
        telpher_status status =
            telpher_channel_recv(to_alive, mine, sizeof(mine), NULL, &req, &len);

        OK(ranks_finish(status, &req));
    }
    IS(telpher_barrier(ctx, RANKS_TIME), TELPHER_ERR_PEER_LOST);
    telpher_win_destroy(win);
}

static void
test_death(void **state)
{
    (void)state;
    assert_true(ranks_run(3, transport, 1, one_dies));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),   cmocka_unit_test(test_channels),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_messages),
        cmocka_unit_test(test_death),
    };

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
