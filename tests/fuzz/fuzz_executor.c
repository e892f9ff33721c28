/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's side of a session, in process: frames of the input, well formed or not,
 * go through the stream to the real dispatch, which works with a driver of our own. What
 * the executor answers must be whole frames that decode; after the client has let go of
 * everything and what was under way has failed, nothing may be left.
 *
 * A step is a type of message, two bytes of length, and the body. DATA goes by the bulk
 * stream, or that of another server (STEP_PEER), filled up with zeros. Types that are no message do what STEP_... says.
 */
#include "support/driver.h"
#include "support/input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "daemon/control.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/transfer/shared_memory.h"
#include "daemon/executor/transfer/transfer_int.h"
#include "transport/loop/test/loop.h"
#include "transport/tcp/tcp.h"

enum {
    STEP_OTHER_TYPE = 0xf0, /* the first two bytes of the body are the type */
    STEP_SHARE = 0xf1, /* SHARE of that body with a file that fits */
    STEP_SETTLE = 0xf2, /* builds come to an end, commands probably */
    STEP_SHARE_BAD = 0xf3, /* SHARE with a file that can shrink */
    STEP_JOIN = 0xf5, /* another server connects; the body names the pair */
    STEP_PEER = 0xf6, /* a frame of that server: type and body */
    STEP_SHORT =
        0xf4, /* the first byte of the body is the type, the header a short one */
    STEPS_MAX = 300,
    END_MS = 10000, /* for all that is under way to end */
    MEMORY = 8 << 20, /* [bytes] of buffers */
};

static struct tp_exec x;
static pthread_t reader;
static int client = -1; /* the client's end of the command stream */
static uint64_t sent, received; /* numbers of frames on it */
static struct tp_conn *bulk; /* the client's end of the bulk stream */
static uint64_t bulk_sent;
static int peer = -1; /* the other server's end of its stream */
static uint64_t peer_sent;
static struct tp_buf answers;

const char *__asan_default_options(void);

/* A thread of the driver that has told of a command's end may still hold memory of its own
 * when the next input begins. What the executor leaves behind, its counts show. */
const char *
__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* ---- in the place of what a process has once ------------------------------------------- */

_Noreturn void __wrap_tp_exec_die(struct tp_exec *exec, telpher_status status,
                                  const char *text);
telpher_status __wrap_tp_exec_printf_create(struct tp_exec *exec,
                                            struct tp_exec_printf **ret);
telpher_status __wrap_tp_exec_watchdog_create(struct tp_exec *exec,
                                              struct tp_exec_watchdog **ret);
void __wrap_tp_exec_watchdog_arm(struct tp_exec_watchdog *w);
void __wrap_tp_exec_watchdog_enter(struct tp_exec *exec);
void __wrap_tp_exec_watchdog_leave(struct tp_exec *exec);
size_t __wrap_tp_exec_watchdog_build_begin(struct tp_exec_watchdog *w);
void __wrap_tp_exec_watchdog_build_end(struct tp_exec_watchdog *w, size_t build);

/* A bulk stream that breaks the protocol ends the process. Here only its thread. */
_Noreturn void
__wrap_tp_exec_die(struct tp_exec *exec, telpher_status status, const char *text)
{
    (void)exec, (void)text;
    require(!pthread_equal(pthread_self(), reader) &&
            (status == TELPHER_ERR_PROTO || status == TELPHER_ERR_PEER_LOST));
    pthread_exit(NULL);
}

/* Standard output stays where it is. */
telpher_status
__wrap_tp_exec_printf_create(struct tp_exec *exec, struct tp_exec_printf **ret)
{
    (void)exec;
    *ret = NULL;
    return TELPHER_OK;
}

/* No watchdog: the end of an input ends the executor. */
telpher_status
__wrap_tp_exec_watchdog_create(struct tp_exec *exec, struct tp_exec_watchdog **ret)
{
    (void)exec;
    *ret = NULL;
    return TELPHER_OK;
}

void
__wrap_tp_exec_watchdog_arm(struct tp_exec_watchdog *w)
{
    (void)w;
}

void
__wrap_tp_exec_watchdog_enter(struct tp_exec *exec)
{
    (void)exec;
}

void
__wrap_tp_exec_watchdog_leave(struct tp_exec *exec)
{
    (void)exec;
}

size_t
__wrap_tp_exec_watchdog_build_begin(struct tp_exec_watchdog *w)
{
    (void)w;
    return 0;
}

void
__wrap_tp_exec_watchdog_build_end(struct tp_exec_watchdog *w, size_t build)
{
    (void)w, (void)build;
}

telpher_status __wrap_tp_control_send(int fd, const struct tp_control *msg,
                                      int fd_sent);
telpher_status __wrap_tp_exec_on_peer_connect(struct tp_exec *exec,
                                              const struct tp_wire_peer_connect *m);

/* There is no broker. */
telpher_status
__wrap_tp_control_send(int fd, const struct tp_control *msg, int fd_sent)
{
    (void)fd, (void)msg, (void)fd_sent;
    return TELPHER_OK;
}

/* Nothing leaves this process. */
telpher_status
__wrap_tp_exec_on_peer_connect(struct tp_exec *exec,
                               const struct tp_wire_peer_connect *m)
{
    (void)exec, (void)m;
    return TELPHER_OK;
}

/* ---- a session --------------------------------------------------------------------------- */

static void
prepare_once(void)
{
    const char *level = getenv("TELPHER_LOG"); /* who writes seeds wants to know */
    static bool is_ready;

    if (is_ready) {
        return;
    }
    is_ready = true;
    reader = pthread_self();
    (void)tp_log_configure(level != NULL ? level : "none", NULL);
    fuzz_driver_fill(&x.cl);
    require(tp_opencl_inventory_init(&x.cl, NULL, 0, &x.inventory, NULL) == TELPHER_OK);
    require(x.inventory.device_count > 0);
    tp_daemon_limits_none(&x.limits);
    x.limits.memory_bytes = MEMORY;
    x.limits.host_bytes = 4 * MEMORY;
    x.limits.program_bytes = MEMORY;
    x.limits.kernels = x.limits.programs = x.limits.queues = 20;
    require(tp_exec_prepare(&x) == TELPHER_OK);
    tp_exec_transfers_destroy(x.transfers);
    x.transfers = NULL;
    tp_buf_init(&answers, 0);
}

static void lost(void *arg, telpher_status status);

/* As in exec_session.c, but that a broken stream is nobody's end. */
static void
piece_done(void *arg, uint64_t transfer, uint64_t offset, uint64_t len)
{
    (void)arg;
    tp_exec_put(&x, TP_WIRE_PIECE_DONE,
                &(struct tp_wire_piece_done){transfer, offset, len});
}

static void
release_piece(void *arg, void *hold)
{
    (void)arg;
    tp_exec_region_unref(hold);
}

static void
credit(void *arg, uint64_t transfer, uint64_t limit)
{
    (void)arg;
    tp_exec_put(&x, TP_WIRE_CREDIT, &(struct tp_wire_credit){transfer, limit});
}

static void
lost(void *arg, telpher_status status)
{
    (void)arg, (void)status;
}

static void
begin_session(void)
{
    static const struct tp_exec_transfers_handler handler = {.piece_done = piece_done,
                                                             .release = release_piece,
                                                             .credit = credit,
                                                             .lost = lost};
    struct tp_conn *conn, *far;
    int pair[2];

    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    require(tp_tcp_transport.adopt(pair[1], &conn) == TELPHER_OK);
    require(tp_stream_create(conn, NULL, x.limits.unread_bytes, &x.stream) ==
            TELPHER_OK);
    tp_stream_accept_fds(x.stream);
    tp_stream_accept_short(x.stream);
    client = pair[0];
    require(tp_exec_transfers_create(&handler, &x, &x.transfers) == TELPHER_OK);
    tp_exec_transfers_set_budget(x.transfers, &x.host);
    require(tp_loop_pair(&bulk, &far) == TELPHER_OK);
    tp_loop_set_capacity(bulk, 16 * MEMORY);
    tp_loop_set_capacity(far, 16 * MEMORY);
    require(tp_exec_transfers_add_stream(x.transfers, far, 0, false) == TELPHER_OK);
    sent = received = bulk_sent = 0;
    x.ended = false;
}

/* A transfer that waits for nothing but the client; 0: there is none. */
static uint64_t
find_waiting_transfer(void)
{
    size_t cursor = 0;
    uint64_t id, found = 0;
    void *value;

    tp_mutex_lock(&x.transfers->lock);
    while (tp_map_next(&x.transfers->map, &cursor, &id, &value)) {
        const struct tp_exec_transfer *t = value;

        if (t->known && t->open && !t->finished && t->error == 0) {
            found = id;
        }
    }
    tp_mutex_unlock(&x.transfers->lock);
    return found;
}

static void
fail_transfers(void)
{
    uint64_t id;

    while ((id = find_waiting_transfer()) != 0) {
        tp_exec_transfers_open(x.transfers, id, CL_OUT_OF_RESOURCES);
    }
}

/* Content for a bulk stream that broke, which is the end of a process, goes nowhere. */
static void
drop_unsent(struct tp_exec_bulk *b)
{
    struct tp_list *first;

    tp_mutex_lock(&b->all->lock);
    while (tp_stream_status(b->stream) != TELPHER_OK &&
           (first = tp_list_pop_front(&b->sends)) != NULL) {
        struct tp_exec_chunk *c = tp_list_entry(first, struct tp_exec_chunk, link);
        struct tp_exec_transfer *t = c->transfer;

        b->send_bytes -= c->len;
        t->sent += c->len;
        t->holding--;
        tp_exec_chunk_ended(b->all);
        tp_exec_chunk_free(c);
        tp_exec_transfer_poke(t);
        tp_exec_transfers_drive(b->all);
    }
    tp_mutex_unlock(&b->all->lock);
}

/* Makes all fail that is under way. Again and again: one end may begin another. */
static void
fail_all(void)
{
    size_t cursor = 0;
    uint64_t id;
    void *value;

    tp_exec_flush_queues(&x);
    while (tp_map_next(&x.objects, &cursor, &id, &value)) {
        const struct tp_exec_event *ev = value;

        if (tp_wire_id_kind(id) == TP_WIRE_KIND_EVENT && ev->queue == NULL) {
            (void)tp_exec_on_user_event_set(&x,
                                            &(struct tp_wire_user_event_set){id, -5});
        }
    }
    fail_transfers();
    drop_unsent(x.transfers->streams[0]);
    (void)tp_exec_transfers_expire(x.transfers, tp_clock_ns(), 1, CL_OUT_OF_RESOURCES);
    tp_exec_sweep_failures(&x);
    (void)tp_exec_sweep_holds(&x); /* as the watchdog would */
}

static void
check_answers(void)
{
    for (;;) {
        const uint8_t *at = tp_buf_data(&answers);
        const struct tp_wire_message *row;
        _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX];
        struct tp_wire_header h;

        if (tp_buf_len(&answers) < TP_WIRE_HEADER_BYTES) {
            return;
        }
        require(tp_wire_get_header(at, &h) == TELPHER_OK);
        require(h.seq == received + 1 && h.ack <= sent);
        if (h.len > tp_buf_len(&answers)) {
            return;
        }
        row = tp_wire_message(h.type);
        require(row != NULL && row->get(at + TP_WIRE_HEADER_BYTES, at + h.len, m));
        received = h.seq;
        tp_buf_consume(&answers, h.len);
    }
}

static void
take_answers(void)
{
    ssize_t got;
    uint8_t *tail;

    (void)tp_stream_flush(x.stream);
    do {
        require(tp_buf_reserve(&answers, 65536, &tail) == TELPHER_OK);
        got = recv(client, tail, 65536, MSG_DONTWAIT);
        if (got > 0) {
            tp_buf_commit(&answers, (size_t)got);
            check_answers();
        }
        (void)tp_stream_flush(x.stream);
    } while (got > 0);
}

/* For who looks for the reason. */
static void
say_what_is_left(void)
{
    size_t cursor = 0;
    uint64_t id;
    void *value;

    fprintf(stderr, "left: %llu objects, %zu transfers, %zu builds\n",
            (unsigned long long)x.object_count, tp_exec_transfers_active(x.transfers),
            tp_pool_pending(x.pool));
    while (tp_map_next(&x.transfers->map, &cursor, &id, &value)) {
        const struct tp_exec_transfer *t = value;

        fprintf(stderr,
                "transfer 0x%llx size %llu known %d open %d receiving %d finished %d "
                "error %d received %llu moved %llu sent %llu flying %u holding %u\n",
                (unsigned long long)id, (unsigned long long)t->p.size, t->known,
                t->open, t->receiving, t->finished, t->error,
                (unsigned long long)t->received, (unsigned long long)t->moved,
                (unsigned long long)t->sent, t->flying, t->holding);
    }
    tp_list_for_each(pos, &x.queues) {
        struct tp_exec_queue *q = tp_list_entry(pos, struct tp_exec_queue, link);

        fprintf(stderr, "queue 0x%llx failed %d\n", (unsigned long long)q->obj.id,
                q->failed);
        tp_list_for_each(at, &q->pending) {
            struct tp_exec_event *ev = tp_list_entry(at, struct tp_exec_event, link);

            fprintf(stderr, "event 0x%llx %s status %d move %d notify %d hooked %d\n",
                    (unsigned long long)ev->obj.id, ev->call, tp_exec_event_status(ev),
                    ev->is_move, ev->notify, ev->hooked);
        }
    }
}

/* The other server is lost, and with it what the executor expects of it. */
static void
leave_peer(void)
{
    if (peer >= 0) {
        close(peer);
        peer = -1;
    }
}

static void
end_session(void)
{
    static struct tp_exec_transfers *old_transfers; /* a thread may be on its way out */
    static struct tp_stream *old_stream;
    tp_ns deadline = tp_clock_deadline(END_MS * TP_CLOCK_MS);
    size_t cursor = 0;
    void *region;

    leave_peer();
    fail_all();
    tp_pool_drain(x.pool);
    fail_all();
    tp_exec_release_all(&x);
    while (tp_exec_endpoints_reap(&x) != 0 || x.object_count != 0 ||
           tp_exec_transfers_active(x.transfers) != 0 || tp_pool_pending(x.pool) != 0) {
        if (tp_clock_passed(deadline)) {
            say_what_is_left();
            require(!"all ends");
        }
        fail_all();
        take_answers();
        tp_clock_sleep(50 * TP_CLOCK_US);
    }
    take_answers();
    tp_exec_region_unref(x.stash.hold);
    x.stash = (struct tp_exec_transfer_piece){0};
    while (tp_map_next(&x.regions, &cursor, NULL, &region)) {
        tp_exec_region_unref(region);
    }
    tp_map_fini(&x.regions);
    tp_map_init(&x.regions);
    require(tp_map_count(&x.objects) == 0 && tp_list_is_empty(&x.queues));
    require(tp_list_is_empty(&x.gates));
    require(tp_list_is_empty(&x.user_events) && x.user_events_open == 0);
    tp_exec_transfers_end_streams(x.transfers);
    tp_exec_peers_fini(&x);
    tp_exec_peers_init(&x);
    tp_conn_destroy(bulk);
    tp_exec_transfers_destroy(old_transfers);
    tp_stream_destroy(old_stream);
    old_transfers = x.transfers;
    old_stream = x.stream;
    close(client);
    tp_buf_consume(&answers, tp_buf_len(&answers));
}

/* ---- steps --------------------------------------------------------------------------------- */

/* Sends a frame by the command stream, perhaps with a descriptor. */
static void
send_frame(uint16_t type, const uint8_t *body, size_t len, int fd)
{
    uint8_t raw[TP_WIRE_HEADER_BYTES];
    struct tp_wire_header h = {
        .len = (uint32_t)(sizeof(raw) + len), .type = type, .seq = ++sent};
    struct iovec iov[2] = {{raw, sizeof(raw)}, {(void *)(uintptr_t)body, len}};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS,
                          .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    tp_wire_put_header(raw, &h);
    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control.room);
    }
    require(sendmsg(client, &msg, MSG_NOSIGNAL) == (ssize_t)h.len);
}

static void
send_short(const uint8_t *body, size_t len)
{
    uint8_t raw[TP_WIRE_SHORT_BYTES];
    struct iovec iov[2] = {{raw, sizeof(raw)}, {(void *)(uintptr_t)body, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    if (len > 0) {
        tp_wire_put_short(raw, body[0], (uint16_t)(len - 1));
        iov[1] = (struct iovec){(void *)(uintptr_t)(body + 1), len - 1};
        sent++;
        require(sendmsg(client, &msg, MSG_NOSIGNAL) ==
                (ssize_t)(sizeof(raw) + len - 1));
    }
}

static void
send_bulk(const uint8_t *body, size_t len)
{
    uint8_t raw[TP_WIRE_HEADER_BYTES];
    struct tp_wire_header h = {
        .len = (uint32_t)(sizeof(raw) + len), .type = TP_WIRE_DATA, .seq = ++bulk_sent};
    const struct iovec iov[2] = {{raw, sizeof(raw)}, {(void *)(uintptr_t)body, len}};
    size_t taken;

    tp_wire_put_header(raw, &h);
    (void)bulk->ops->send(bulk, iov, 2, &taken);
}

/* A server proved that it knows the pair: the broker hands its socket over. */
static void
join_peer(const uint8_t *name, size_t len)
{
    struct tp_control msg = {.type = TP_CONTROL_PEER};
    int pair[2];

    if (len != sizeof(msg.session) || peer >= 0) {
        return;
    }
    memcpy(msg.session, name, len);
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    peer = pair[0];
    peer_sent = 0;
    tp_exec_peer_adopt(&x, &msg, NULL, pair[1]);
}

/* Frames of the executor to the peer are dropped, so that no sender waits for ever. */
static void
send_peer(const uint8_t *body, size_t len)
{
    uint8_t raw[TP_WIRE_HEADER_BYTES], drop[4096];
    struct tp_wire_header h = {.seq = ++peer_sent};
    uint8_t *data = NULL;

    if (peer < 0 || len == 0) {
        return;
    }
    h.type = body[0];
    body++;
    len--;
    if (h.type == TP_WIRE_DATA) {
        data = input_data_body(body, len, &len);
        body = data;
    }
    h.len = (uint32_t)(sizeof(raw) + len);
    tp_wire_put_header(raw, &h);
    if (send(peer, raw, sizeof(raw), MSG_NOSIGNAL) == (ssize_t)sizeof(raw)) {
        (void)send(peer, body, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    while (recv(peer, drop, sizeof(drop), MSG_DONTWAIT) > 0) {
    }
    free(data);
}

static void
send_share(const uint8_t *body, size_t len, bool sealed)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct tp_wire_share m;
    bool proper = tp_wire_get_share(body, body + len, &m) && m.size <= MEMORY;

    require(fd >= 0);
    require(ftruncate(fd, proper ? (off_t)m.size : 4096) == 0);
    if (sealed) {
        require(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    }
    send_frame(TP_WIRE_SHARE, body, len, fd);
    close(fd);
}

/* One step. @return what the stream says of it */
static telpher_status
step(struct input *in)
{
    uint8_t what = input_u8(in);
    const uint8_t *body;
    size_t len = input_bytes(in, input_u16(in), &body);
    telpher_status status;
    uint8_t *data;

    switch (what) {
    case TP_WIRE_DATA:
        data = input_data_body(body, len, &len);
        send_bulk(data, len);
        free(data);
        return TELPHER_OK;
    case STEP_SETTLE:
        tp_exec_flush_queues(&x);
        tp_pool_drain(x.pool);
        tp_clock_sleep(100 * TP_CLOCK_US);
        take_answers();
        return TELPHER_OK;
    case STEP_OTHER_TYPE:
        send_frame(len >= 2 ? (uint16_t)(body[0] | body[1] << 8) : 0, body, len, -1);
        break;
    case STEP_SHARE:
    case STEP_SHARE_BAD:
        send_share(body, len, what == STEP_SHARE);
        break;
    case STEP_SHORT:
        send_short(body, len);
        break;
    case STEP_JOIN:
        join_peer(body, len);
        return TELPHER_OK;
    case STEP_PEER:
        send_peer(body, len);
        return TELPHER_OK;
    default:
        send_frame(what, body, len, -1);
        break;
    }
    do {
        status = tp_stream_receive(x.stream, &tp_exec_handler, &x);
    } while (status == TELPHER_OK);
    return status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, data + len};
    telpher_status status = TELPHER_OK;

    prepare_once();
    begin_session();
    for (int i = 0; i < STEPS_MAX && input_left(&in) > 0 && status == TELPHER_OK; i++) {
        status = step(&in);
        tp_exec_flush_queues(&x);
        take_answers();
    }
    end_session();
    return 0;
}
