/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers with a device of our own, whose copies complete when and in the order that the
 * test says: order of content, gates, credit, errors, and clients that break the rules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/thread.h"
#include "core/session/stream.h"
#include "daemon/executor/transfer/transfer_int.h"

enum { MEM_SIZE = 40 << 20, COPIES_MAX = 512, ERROR = -5 };

#define WAIT (30 * TP_CLOCK_S)

/* A device whose memory is host memory. */
struct fake {
    struct tp_device device;
    uint8_t *mem;
    struct tp_mutex lock; /* all that follows */
    struct tp_cond changed;
    struct tp_device_copy *waiting[COPIES_MAX];
    bool is_read[COPIES_MAX];
    size_t count;
    size_t started;
    pthread_t starter; /* of the last copy */
    bool at_once; /* complete inside the call that starts */
};

/* Results reported by the transfers, and the client's side. */
struct world {
    struct fake fake;
    struct tp_exec_transfers *transfers;
    struct tp_stream *client;
    struct tp_mutex lock; /* all that follows */
    struct tp_cond changed;
    int finished;
    int32_t error;
    uint64_t credit;
    telpher_status lost;
    uint8_t *got; /* client: content received */
    uint64_t got_len;
};

/* ---- the device ---- */

static void
copy_row(struct fake *f, const struct tp_device_copy *c, bool is_read, uint64_t z,
         uint64_t y)
{
    const struct tp_device_box *box = &c->box;
    uint8_t *mem = f->mem + box->origin[0] + (box->origin[1] + y) * box->row_pitch +
                   (box->origin[2] + z) * box->slice_pitch;
    uint8_t *host = (uint8_t *)c->host + (z * box->region[1] + y) * box->region[0];

    memcpy(is_read ? host : mem, is_read ? mem : host, box->region[0]);
}

static void
do_copy(struct fake *f, struct tp_device_copy *c, bool is_read, int32_t error)
{
    for (uint64_t z = 0; error == 0 && z < c->box.region[2]; z++) {
        for (uint64_t y = 0; y < c->box.region[1]; y++) {
            copy_row(f, c, is_read, z, y);
        }
    }
    c->start_ns = 10;
    c->end_ns = 20;
    c->done(c, error);
}

static int32_t
start(struct tp_device *d, struct tp_device_copy *copy, bool is_read)
{
    struct fake *f = tp_container_of(d, struct fake, device);
    bool at_once;

    tp_mutex_lock(&f->lock);
    f->started++;
    f->starter = pthread_self();
    at_once = f->at_once;
    if (!at_once) {
        assert_true(f->count < COPIES_MAX);
        f->is_read[f->count] = is_read;
        f->waiting[f->count++] = copy;
    }
    tp_cond_broadcast(&f->changed);
    tp_mutex_unlock(&f->lock);
    if (at_once) {
        do_copy(f, copy, is_read, 0);
    }
    return 0;
}

static int32_t
fake_read(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, true);
}

static int32_t
fake_write(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, false);
}

static void
fake_nothing(struct tp_device *d)
{
    (void)d;
}

static const struct tp_device_ops fake_ops = {.name = "fake",
                                              .read = fake_read,
                                              .write = fake_write,
                                              .flush = fake_nothing,
                                              .destroy = fake_nothing};

/* Waits until @p count copies wait, then completes the one at @p index. */
static void
complete(struct fake *f, size_t count, size_t index, int32_t error)
{
    tp_ns deadline = tp_clock_deadline(WAIT);
    struct tp_device_copy *copy;
    bool is_read;

    tp_mutex_lock(&f->lock);
    while (f->count < count) {
        assert_int_equal(tp_cond_wait(&f->changed, &f->lock, deadline), TELPHER_OK);
    }
    copy = f->waiting[index];
    is_read = f->is_read[index];
    f->count--;
    for (size_t i = index; i < f->count; i++) {
        f->waiting[i] = f->waiting[i + 1];
        f->is_read[i] = f->is_read[i + 1];
    }
    tp_mutex_unlock(&f->lock);
    do_copy(f, copy, is_read, error);
}

static size_t
copies_started(struct fake *f)
{
    size_t started;

    tp_mutex_lock(&f->lock);
    started = f->started;
    tp_mutex_unlock(&f->lock);
    return started;
}

/* ---- the world ---- */

static void
on_credit(void *arg, uint64_t transfer, uint64_t limit)
{
    struct world *w = arg;

    (void)transfer;
    tp_mutex_lock(&w->lock);
    assert_true(limit > w->credit);
    w->credit = limit;
    tp_cond_broadcast(&w->changed);
    tp_mutex_unlock(&w->lock);
}

static void
on_lost(void *arg, telpher_status status)
{
    struct world *w = arg;

    tp_mutex_lock(&w->lock);
    w->lost = status;
    tp_cond_broadcast(&w->changed);
    tp_mutex_unlock(&w->lock);
}

static void
on_finished(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct world *w = arg;

    (void)start_ns;
    (void)end_ns;
    tp_mutex_lock(&w->lock);
    w->finished++;
    w->error = error;
    tp_cond_broadcast(&w->changed);
    tp_mutex_unlock(&w->lock);
}

static const struct tp_exec_transfers_handler handler = {.credit = on_credit,
                                                         .lost = on_lost};

static struct tp_conn *
adopt(int fd)
{
    struct tp_conn *conn;

    assert_int_equal(tp_builtin_transports[0]->adopt(fd, &conn), TELPHER_OK);
    return conn;
}

static void
add_stream(struct world *w)
{
    int pair[2];

    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(tp_stream_create(adopt(pair[0]), NULL, 0, &w->client), TELPHER_OK);
    assert_int_equal(
        tp_exec_transfers_add_stream(w->transfers, adopt(pair[1]), 0, false),
        TELPHER_OK);
}

static int
set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    w->fake.device.ops = &fake_ops;
    w->fake.mem = calloc(1, MEM_SIZE);
    tp_mutex_init(&w->fake.lock);
    tp_cond_init(&w->fake.changed);
    tp_mutex_init(&w->lock);
    tp_cond_init(&w->changed);
    assert_int_equal(tp_exec_transfers_create(&handler, w, &w->transfers), TELPHER_OK);
    add_stream(w);
    *state = w;
    return 0;
}

static int
tear_down(void **state)
{
    struct world *w = *state;

    tp_stream_destroy(w->client);
    tp_exec_transfers_destroy(w->transfers);
    assert_int_equal(tp_alloc_live(), 0);
    free(w->fake.mem);
    free(w->got);
    free(w);
    return 0;
}

/* Waits for a condition on reported results. */
#define WAIT_FOR(w, cond)                                                              \
    do {                                                                               \
        tp_ns deadline_ = tp_clock_deadline(WAIT);                                     \
        tp_mutex_lock(&(w)->lock);                                                     \
        while (!(cond)) {                                                              \
            assert_int_equal(tp_cond_wait(&(w)->changed, &(w)->lock, deadline_),       \
                             TELPHER_OK);                                              \
        }                                                                              \
        tp_mutex_unlock(&(w)->lock);                                                   \
    } while (0)

static uint64_t
transfer_id(uint64_t counter)
{
    return tp_wire_id(TP_WIRE_KIND_TRANSFER, counter);
}

static void
start_transfer(struct world *w, uint64_t id, uint64_t size, bool to_client, bool gated)
{
    const struct tp_exec_transfer_params params = {.id = id,
                                                   .size = size,
                                                   .to_client = to_client,
                                                   .gated = gated,
                                                   .device = &w->fake.device,
                                                   .box = tp_device_range(0, size),
                                                   .finished = on_finished,
                                                   .arg = w};

    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
}

static uint8_t
byte_at(uint64_t pos)
{
    return (uint8_t)(pos * 31 + (pos >> 13));
}

/* Sends [from, to) of the test's content in frames of @p step bytes. */
static void
send_range(struct world *w, uint64_t id, uint64_t from, uint64_t to, uint32_t step)
{
    uint8_t *buf = malloc(step);

    while (from < to) {
        uint32_t len = (uint32_t)TP_MIN(to - from, (uint64_t)step);

        for (uint32_t i = 0; i < len; i++) {
            buf[i] = byte_at(from + i);
        }
        if (tp_stream_send_data(w->client, id, from, buf, len) != TELPHER_OK) {
            break; /* the other side has had enough; the test sees why */
        }
        from += len;
    }
    free(buf);
}

static void
check_mem(const struct world *w, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        if (w->fake.mem[i] != byte_at(i)) {
            fail_msg("byte %llu is wrong", (unsigned long long)i);
        }
    }
}

/* ---- the client's receiving side ---- */

static void *
content_begin(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct world *w = arg;

    (void)transfer;
    (void)len;
    assert_int_equal(offset, w->got_len);
    return w->got + offset;
}

static void
content_end(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct world *w = arg;

    (void)transfer;
    (void)offset;
    w->got_len += len;
}

static telpher_status
no_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    (void)arg;
    (void)type;
    (void)body;
    (void)end;
    return TELPHER_ERR_PROTO;
}

static void
receive(struct world *w, uint64_t size)
{
    static const struct tp_stream_handler content = {
        .frame = no_frame, .data_begin = content_begin, .data_end = content_end};
    tp_ns deadline = tp_clock_deadline(WAIT);

    while (w->got_len < size) {
        telpher_status status = tp_stream_receive(w->client, &content, w);

        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(w->client, deadline);
        }
        assert_int_equal(status, TELPHER_OK);
    }
}

/* ---- the tests ---- */

static void
test_write(void **state)
{
    enum { SIZE = (3 << 20) + 5 };
    struct world *w = *state;

    w->fake.at_once = true;
    start_transfer(w, transfer_id(1), SIZE, false, false);
    send_range(w, transfer_id(1), 0, SIZE, 100000);
    WAIT_FOR(w, w->finished == 1);
    assert_int_equal(w->error, 0);
    assert_int_equal(tp_exec_transfers_active(w->transfers), 0);
    check_mem(w, SIZE);
}

static void
test_content_before_command(void **state)
{
    enum { SIZE = (1 << 20) + 77 };
    struct world *w = *state;

    w->fake.at_once = true;
    send_range(w, transfer_id(1), 0, SIZE - 1000, 50000);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(copies_started(&w->fake), 0);
    start_transfer(w, transfer_id(1), SIZE, false, false);
    send_range(w, transfer_id(1), SIZE - 1000, SIZE, 50000);
    WAIT_FOR(w, w->finished == 1);
    check_mem(w, SIZE);
}

static void
test_host_memory(void **state)
{
    enum { SIZE = 700000 };
    struct world *w = *state;
    struct tp_exec_transfer_params params = {.id = transfer_id(1),
                                             .size = SIZE,
                                             .memory = w->fake.mem,
                                             .finished = on_finished,
                                             .arg = w};

    send_range(w, transfer_id(1), 0, 300000, 60000);
    tp_clock_sleep(20 * TP_CLOCK_MS);
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
    send_range(w, transfer_id(1), 300000, SIZE, 60000);
    WAIT_FOR(w, w->finished == 1);
    check_mem(w, SIZE);
    /* and the other way */
    w->got = malloc(SIZE);
    params.id = transfer_id((uint64_t)1 << 55 | 1);
    params.to_client = true;
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
    receive(w, SIZE);
    assert_memory_equal(w->got, w->fake.mem, SIZE);
    WAIT_FOR(w, w->finished == 2);
}

static void
test_gate(void **state)
{
    struct world *w = *state;

    w->fake.at_once = true;
    start_transfer(w, transfer_id(1), 100000, false, true);
    send_range(w, transfer_id(1), 0, 100000, 100000);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(copies_started(&w->fake), 0);
    assert_int_equal(w->finished, 0);
    tp_exec_transfers_open(w->transfers, transfer_id(1), 0);
    WAIT_FOR(w, w->finished == 1);
    check_mem(w, 100000);
    /* a gate that fails ends the transfer with that, and nothing touches the device */
    start_transfer(w, transfer_id(2), 100000, false, true);
    send_range(w, transfer_id(2), 0, 100000, 100000);
    tp_exec_transfers_open(w->transfers, transfer_id(2), ERROR);
    WAIT_FOR(w, w->finished == 2);
    assert_int_equal(w->error, ERROR);
    assert_int_equal(copies_started(&w->fake), 1);
}

/* Content behind a gate that fills the staging memory does not hold up the rest. */
static void
test_full_behind_gate(void **state)
{
    enum { GATED = 8 << 20, SIZE = 1 << 20 };
    struct world *w = *state;

    w->fake.at_once = true;
    w->transfers->staging_max = 1 << 20;
    start_transfer(w, transfer_id(1), GATED, false, true);
    send_range(w, transfer_id(1), 0, GATED, TP_WIRE_CHUNK_MAX);
    start_transfer(w, transfer_id(2), SIZE, false, false);
    send_range(w, transfer_id(2), 0, SIZE, TP_WIRE_CHUNK_MAX);
    WAIT_FOR(w, w->finished == 1);
    tp_exec_transfers_open(w->transfers, transfer_id(1), 0);
    WAIT_FOR(w, w->finished == 2);
    assert_int_equal(w->error, 0);
    check_mem(w, GATED);
}

/* Chunks that the device reads in any order arrive in that of the content. */
static void
test_read_out_of_order(void **state)
{
    enum { SIZE = (4 << 20) + 9 };
    struct world *w = *state;

    for (uint64_t i = 0; i < SIZE; i++) {
        w->fake.mem[i] = byte_at(i);
    }
    w->got = malloc(SIZE);
    start_transfer(w, transfer_id(1), SIZE, true, false);
    complete(&w->fake, 5, 4, 0); /* the last of five chunks first */
    complete(&w->fake, 4, 2, 0);
    complete(&w->fake, 3, 1, 0);
    complete(&w->fake, 2, 0, 0);
    complete(&w->fake, 1, 0, 0);
    receive(w, SIZE);
    assert_memory_equal(w->got, w->fake.mem, SIZE);
    WAIT_FOR(w, w->finished == 1);
    assert_int_equal(w->error, 0);
}

/* Little content, and the first of much, is copied in small chunks. */
static void
test_eager(void **state)
{
    enum { LITTLE = (1 << 20) + 5, MUCH = 3 << 20 };
    struct world *w = *state;
    struct tp_exec_transfer_params params = {.id = transfer_id(1),
                                             .size = LITTLE,
                                             .eager = true,
                                             .device = &w->fake.device,
                                             .box = tp_device_range(0, LITTLE),
                                             .finished = on_finished,
                                             .arg = w};

    w->fake.at_once = true;
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
    send_range(w, transfer_id(1), 0, LITTLE, TP_WIRE_CHUNK_MAX);
    WAIT_FOR(w, w->finished == 1);
    check_mem(w, LITTLE);
    assert_int_equal(copies_started(&w->fake), 5);
    w->got = malloc(MUCH);
    params.id = transfer_id(2);
    params.to_client = true;
    params.size = MUCH;
    params.box = tp_device_range(0, MUCH);
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
    receive(w, MUCH);
    assert_memory_equal(w->got, w->fake.mem, MUCH);
    WAIT_FOR(w, w->finished == 2);
    assert_int_equal(copies_started(&w->fake), 5 + 4 + 2);
}

/* Staging is bounded: no more chunks are read than may be under way. */
static void
test_read_depth(void **state)
{
    struct world *w = *state;

    w->got = malloc(MEM_SIZE);
    start_transfer(w, transfer_id(1), MEM_SIZE, true, false);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(copies_started(&w->fake), TP_EXEC_TRANSFER_DEPTH);
    for (int i = 0; i < MEM_SIZE / TP_EXEC_TRANSFER_CHUNK; i++) {
        complete(&w->fake, 1, 0, 0);
        receive(w, (uint64_t)i * TP_EXEC_TRANSFER_CHUNK); /* one behind */
        assert_true(copies_started(&w->fake) <=
                    (size_t)(i + 1 + TP_EXEC_TRANSFER_DEPTH));
    }
    receive(w, MEM_SIZE);
    WAIT_FOR(w, w->finished == 1);
}

static void
test_credit(void **state)
{
    struct world *w = *state;
    const uint64_t size = TP_WIRE_WINDOW + (8 << 20);

    w->fake.at_once = true;
    start_transfer(w, transfer_id(1), size, false, true);
    send_range(w, transfer_id(1), 0, TP_WIRE_WINDOW, TP_WIRE_CHUNK_MAX);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(w->credit, 0); /* nothing has moved */
    tp_exec_transfers_open(w->transfers, transfer_id(1), 0);
    WAIT_FOR(w, w->credit == size);
    send_range(w, transfer_id(1), TP_WIRE_WINDOW, size, TP_WIRE_CHUNK_MAX);
    WAIT_FOR(w, w->finished == 1);
    check_mem(w, size);
}

/* Content that waits for credit gets it when the gate opens, however little it is. */
static void
test_credit_first(void **state)
{
    struct world *w = *state;
    struct tp_exec_transfer_params params = {.size = 1000,
                                             .gated = true,
                                             .credit_first = true,
                                             .device = &w->fake.device,
                                             .box = tp_device_range(0, 1000),
                                             .finished = on_finished,
                                             .arg = w};

    w->fake.at_once = true;
    for (int i = 1; i <= 2; i++) {
        params.id = transfer_id((unsigned)i);
        params.gated = i == 1;
        w->credit = 0;
        assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
        if (params.gated) {
            assert_int_equal(w->credit, 0);
            assert_int_equal(
                tp_exec_transfers_expire(w->transfers, UINT64_MAX / 2, 1, ERROR), 0);
            tp_exec_transfers_open(w->transfers, params.id, 0);
        }
        assert_int_equal(w->credit, params.size);
        send_range(w, params.id, 0, params.size, 400);
        WAIT_FOR(w, w->finished == i);
        check_mem(w, params.size);
    }
    params.id = transfer_id(3); /* content that came all the same */
    w->credit = 0;
    params.gated = true;
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_OK);
    send_range(w, params.id, 0, 1, 1);
    WAIT_FOR(w, w->lost == TELPHER_ERR_PROTO);
    tp_exec_transfers_open(w->transfers, params.id, ERROR);
}

/* After a copy has failed the rest is let through and dropped. */
static void
test_device_error(void **state)
{
    struct world *w = *state;
    const uint64_t size = TP_WIRE_WINDOW + (4 << 20);

    start_transfer(w, transfer_id(1), size, false, false);
    send_range(w, transfer_id(1), 0, 2 << 20, TP_WIRE_CHUNK_MAX);
    complete(&w->fake, 2, 1, ERROR);
    assert_int_equal(w->finished, 0); /* a copy is still under way */
    complete(&w->fake, 1, 0, 0);
    WAIT_FOR(w, w->finished == 1);
    assert_int_equal(w->error, ERROR);
    WAIT_FOR(w, w->credit == size);
    send_range(w, transfer_id(1), 2 << 20, size, TP_WIRE_CHUNK_MAX);
    w->fake.at_once = true; /* and the stream is as good as before */
    start_transfer(w, transfer_id(2), 1000, false, false);
    send_range(w, transfer_id(2), 0, 1000, 1000);
    WAIT_FOR(w, w->finished == 2);
    assert_int_equal(w->lost, TELPHER_OK);
}

static void
test_abort(void **state)
{
    struct world *w = *state;

    w->fake.at_once = true;
    start_transfer(w, transfer_id(1), 1 << 20, false, true);
    send_range(w, transfer_id(1), 0, 1000, 1000);
    tp_exec_transfers_abort(w->transfers, transfer_id(1), ERROR);
    tp_clock_sleep(20 * TP_CLOCK_MS);
    assert_int_equal(w->finished, 0); /* it keeps its place until the gate */
    tp_exec_transfers_open(w->transfers, transfer_id(1), 0);
    WAIT_FOR(w, w->finished == 1);
    assert_int_equal(w->error, ERROR);
    assert_int_equal(copies_started(&w->fake), 0);
    tp_exec_transfers_abort(w->transfers, transfer_id(77), ERROR); /* an unknown id */
}

static void
test_discard(void **state)
{
    struct world *w = *state;
    const uint64_t size = TP_WIRE_WINDOW * 2;

    send_range(w, transfer_id(1), 0, 5000, 1000);
    assert_int_equal(
        tp_exec_transfers_discard(w->transfers, transfer_id(1), size, false, NULL),
        TELPHER_OK);
    WAIT_FOR(w, w->credit == size);
    send_range(w, transfer_id(1), 5000, size, TP_WIRE_CHUNK_MAX);
    w->fake.at_once = true;
    start_transfer(w, transfer_id(2), 1000, false, false);
    send_range(w, transfer_id(2), 0, 1000, 1000);
    WAIT_FOR(w, w->finished == 1);
    assert_int_equal(copies_started(&w->fake), 1);
}

/* READs that come before the first bulk stream wait for it. The thread that adds it, which may
 * hold a lock, does not call the driver. */
static void
test_stream_comes_late(void **state)
{
    struct world *w = *state;

    tp_stream_destroy(w->client);
    tp_exec_transfers_destroy(w->transfers);
    assert_int_equal(tp_exec_transfers_create(&handler, w, &w->transfers), TELPHER_OK);
    w->client = NULL;
    w->fake.at_once = true;
    w->got = malloc(50000);
    start_transfer(w, transfer_id(1), 50000, true, false);
    assert_int_equal(copies_started(&w->fake), 0);
    add_stream(w);
    receive(w, 50000);
    WAIT_FOR(w, w->finished == 1);
    assert_false(pthread_equal(w->fake.starter, pthread_self()));
}

/* ---- clients that break the rules ---- */

static void
expect_broken(struct world *w)
{
    WAIT_FOR(w, w->lost != TELPHER_OK);
    assert_int_equal(w->lost, TELPHER_ERR_PROTO);
}

static void
test_beyond_window(void **state)
{
    struct world *w = *state;

    send_range(w, transfer_id(1), 0, TP_WIRE_WINDOW + 1, TP_WIRE_CHUNK_MAX);
    expect_broken(w);
}

static void
test_beyond_size(void **state)
{
    struct world *w = *state;

    w->fake.at_once = true;
    start_transfer(w, transfer_id(1), 1000, false, false);
    send_range(w, transfer_id(1), 0, 1001, 1001);
    expect_broken(w);
}

static void
test_gap(void **state)
{
    struct world *w = *state;

    send_range(w, transfer_id(1), 1000, 2000, 1000);
    expect_broken(w);
}

static void
test_foreign_id(void **state)
{
    struct world *w = *state;

    send_range(w, transfer_id((uint64_t)1 << 55 | 3), 0, 10, 10);
    expect_broken(w);
}

static void
test_wrong_kind(void **state)
{
    struct world *w = *state;

    send_range(w, tp_wire_id(TP_WIRE_KIND_MEM, 1), 0, 10, 10);
    expect_broken(w);
}

/* Content far ahead of its commands waits for them. */
static void
test_many_unknown(void **state)
{
    enum { COUNT = 2 * TP_EXEC_TRANSFER_UNKNOWN_MAX };
    struct world *w = *state;

    w->fake.at_once = true;
    for (uint64_t i = 0; i < COUNT; i++) {
        send_range(w, transfer_id(i + 1), 0, 10, 10);
    }
    tp_clock_sleep(50 * TP_CLOCK_MS); /* for as many as may to land */
    for (uint64_t i = 0; i < COUNT; i++) {
        start_transfer(w, transfer_id(i + 1), 10, false, false);
    }
    WAIT_FOR(w, w->finished == COUNT);
    assert_int_equal(w->error, 0);
    assert_int_equal(w->lost, TELPHER_OK);
}

static void
test_same_id_twice(void **state)
{
    struct world *w = *state;
    const struct tp_exec_transfer_params params = {.id = transfer_id(1),
                                                   .size = 10,
                                                   .memory = w->fake.mem,
                                                   .finished = on_finished,
                                                   .arg = w};

    start_transfer(w, transfer_id(1), 1000, false, false);
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_ERR_PROTO);
}

/* More content than the command that follows says. */
static void
test_early_content_too_long(void **state)
{
    struct world *w = *state;
    const struct tp_exec_transfer_params params = {.id = transfer_id(1),
                                                   .size = 10,
                                                   .memory = w->fake.mem,
                                                   .finished = on_finished,
                                                   .arg = w};

    send_range(w, transfer_id(1), 0, 11, 11);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_ERR_PROTO);
}

/* The same, while a frame of it is still arriving. */
static void
test_arriving_content_too_long(void **state)
{
    struct world *w = *state;
    const struct tp_exec_transfer_params params = {.id = transfer_id(1),
                                                   .size = 10,
                                                   .memory = w->fake.mem,
                                                   .finished = on_finished,
                                                   .arg = w};
    const uint32_t len = TP_WIRE_CHUNK_MAX;
    struct tp_wire_data data = {.transfer = params.id};
    struct tp_wire_header header = {.type = TP_WIRE_DATA, .seq = 1};
    uint8_t front[TP_WIRE_HEADER_BYTES + 20 + 1000] = {0};

    header.len = TP_WIRE_HEADER_BYTES + 20 + len;
    tp_wire_put_header(front, &header);
    tp_wire_put_data(front + TP_WIRE_HEADER_BYTES, &data);
    memcpy(front + TP_WIRE_HEADER_BYTES + 16, &len, sizeof(len));
    assert_int_equal(send(tp_stream_fd(w->client), front, sizeof(front), MSG_NOSIGNAL),
                     sizeof(front));
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(tp_exec_transfers_start(w->transfers, &params), TELPHER_ERR_PROTO);
}

static void
test_client_gone(void **state)
{
    struct world *w = *state;

    start_transfer(w, transfer_id(1), 1 << 20, false, false);
    send_range(w, transfer_id(1), 0, 1000, 1000);
    tp_stream_break(w->client, TELPHER_ERR_CANCELED);
    WAIT_FOR(w, w->lost == TELPHER_ERR_PEER_LOST);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_write),
        TEST(test_content_before_command),
        TEST(test_host_memory),
        TEST(test_gate),
        TEST(test_full_behind_gate),
        TEST(test_read_out_of_order),
        TEST(test_eager),
        TEST(test_read_depth),
        TEST(test_credit),
        TEST(test_credit_first),
        TEST(test_device_error),
        TEST(test_abort),
        TEST(test_discard),
        TEST(test_stream_comes_late),
        TEST(test_beyond_window),
        TEST(test_beyond_size),
        TEST(test_gap),
        TEST(test_foreign_id),
        TEST(test_wrong_kind),
        TEST(test_many_unknown),
        TEST(test_same_id_twice),
        TEST(test_early_content_too_long),
        TEST(test_arriving_content_too_long),
        TEST(test_client_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
