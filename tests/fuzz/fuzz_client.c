/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library against a server that says what the input says. The input is flags, a
 * short program of OpenCL calls, and the server's frames; whoever reads a stream, waiting
 * or not, gets the next frame, and at their end the server is gone. One thread does all:
 * threads that the library would start are run when the program says so or at the end, and
 * callbacks between two calls. Every call must return, every callback come exactly once,
 * and every event end when the session does.
 *
 * A frame is its type, a number that chooses an id of the client's to begin with (0 =
 * none), two bytes of length, and the body. DATA goes by the bulk stream, filled up with zeros.
 */
#include "support/fuzz_client.h"
#include "base/container/map.h"

#include "support/input.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/container/buf.h"
#include "base/os/thread.h"
#include "base/trace/log.h"
#include "icd/icd_int.h"
#include "icd/session/session_int.h"

enum {
    IDS = 64,
    CALLBACKS_MAX = 1024,
    THREADS_MAX = 16,
    CONNECTS_MAX = 8,
    STALLS_MAX = 1000,
};

static struct {
    const uint8_t *frames, *end; /* of the server */
    bool live; /* one of our inputs runs, no set-up */
    bool closing; /* no further session */
    bool shared; /* the server offers shared memory */
    unsigned connects;
    unsigned stalls; /* waits that nothing would end */
    uint64_t ids[IDS]; /* that the client used, a ring */
    size_t id_count;
    struct {
        void (*fn)(void *arg);
        void *arg;
    } callbacks[CALLBACKS_MAX];
    size_t callback_count;
    struct {
        void *(*run)(void *arg);
        void *arg;
    } threads[THREADS_MAX];
    size_t thread_count;
} world;

/* ---- what the library believes to be threads ---------------------------------------------- */

telpher_status __real_tp_thread_create(pthread_t *ret_thread, const char *name,
                                       void *(*run)(void *arg), void *arg);
telpher_status __wrap_tp_thread_create(pthread_t *ret_thread, const char *name,
                                       void *(*run)(void *arg), void *arg);
telpher_status __wrap_tp_icd_thread_start(const char *name, void *(*run)(void *arg),
                                          void *arg);
telpher_status __wrap_tp_icd_callbacks_start(void);
telpher_status __wrap_tp_icd_callback(void (*fn)(void *arg), void *arg);
void __wrap_tp_icd_callback_post(struct tp_pool_job *job, void (*fn)(void *arg),
                                 void *arg);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);

telpher_status
__wrap_tp_thread_create(pthread_t *ret_thread, const char *name,
                        void *(*run)(void *arg), void *arg)
{
    return world.live ? TELPHER_ERR_LIMIT
                      : __real_tp_thread_create(ret_thread, name, run, arg);
}

telpher_status
__wrap_tp_icd_thread_start(const char *name, void *(*run)(void *arg), void *arg)
{
    (void)name;
    if (world.thread_count == THREADS_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    world.threads[world.thread_count].run = run;
    world.threads[world.thread_count++].arg = arg;
    return TELPHER_OK;
}

telpher_status
__wrap_tp_icd_callback(void (*fn)(void *arg), void *arg)
{
    require(world.callback_count < CALLBACKS_MAX);
    world.callbacks[world.callback_count].fn = fn;
    world.callbacks[world.callback_count++].arg = arg;
    return TELPHER_OK;
}

telpher_status
__wrap_tp_icd_callbacks_start(void)
{
    return TELPHER_OK;
}

void
__wrap_tp_icd_callback_post(struct tp_pool_job *job, void (*fn)(void *arg), void *arg)
{
    (void)job;
    (void)__wrap_tp_icd_callback(fn, arg);
}

/* Nobody else would wake us: time passes at once. */
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                              const struct timespec *until)
{
    (void)cond, (void)mutex, (void)until;
    return ETIMEDOUT;
}

/* Nor here: the session breaks and user events fail, which ends every wait. */
int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    (void)cond;
    require(world.live && mutex == &tp_icd.lock && ++world.stalls < STALLS_MAX);
    tp_icd_unlock();
    fuzz_client_run_callbacks();
    fuzz_client_lose();
    fuzz_client_run_threads();
    fuzz_client_set_user_events();
    tp_icd_lock();
    return 0;
}

void
fuzz_client_run_callbacks(void)
{
    for (size_t i = 0; i < world.callback_count; i++) {
        world.callbacks[i].fn(world.callbacks[i].arg);
    }
    world.callback_count = 0;
}

void
fuzz_client_run_threads(void)
{
    while (world.thread_count > 0) {
        world.thread_count--;
        (void)world.threads[world.thread_count].run(
            world.threads[world.thread_count].arg);
    }
}

void
fuzz_client_lose(void)
{
    const struct tp_icd_server *server = &tp_icd.platform->servers[0];

    world.closing = true;
    for (struct tp_icd_session *p = server->sessions[0]; p != NULL; p = p->older) {
        tp_icd_session_lose(p, TELPHER_ERR_PEER_LOST, "the end");
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

struct conn {
    struct tp_conn base;
    const uint8_t *at; /* where its frames go on in the input */
    struct tp_buf out; /* of the server */
    struct tp_buf in; /* what the client sends, up to whole frames */
    uint64_t seq;
    uint64_t received; /* highest number of the client */
    bool prefaced, is_bulk, down;
    int fd; /* always readable */
};

/* Keeps the ids that a frame of the client begins with, and those of its transfers. */
static void
note_ids(uint16_t type, const uint8_t *body, size_t len)
{
    for (size_t i = 0; i < 2 && (i + 1) * 8 <= len; i++) {
        size_t at = i == 0 ? 0 : 8;
        uint64_t id;

        for (; at + 8 <= len && at < 64; at++) {
            memcpy(&id, body + at, sizeof(id));
            id = type == TP_WIRE_SHARE ? (uint32_t)id : id; /* a number of 4 bytes */
            if (i == 0 || tp_wire_id_kind(id) == TP_WIRE_KIND_TRANSFER) {
                world.ids[world.id_count++ % IDS] = id;
                break;
            }
        }
    }
}

static void
answer_discovery(struct conn *c, uint16_t type)
{
    static uint8_t raw[TP_WIRE_HEADER_BYTES + 8192];
    struct tp_wire_devices_reply reply = {.request =
                                              tp_wire_id(TP_WIRE_KIND_REQUEST, 1)};
    struct tp_wire_header h = {.type = TP_WIRE_DEVICES_REPLY, .seq = ++c->seq};

    require(type == TP_WIRE_DEVICES);
    reply.facts.data = fuzz_client_facts(&reply.facts.len);
    h.len = (uint32_t)(TP_WIRE_HEADER_BYTES + tp_wire_size_devices_reply(&reply));
    require(h.len <= sizeof(raw));
    tp_wire_put_header(raw, &h);
    tp_wire_put_devices_reply(raw + TP_WIRE_HEADER_BYTES, &reply);
    require(tp_buf_append(&c->out, raw, h.len) == TELPHER_OK);
}

/* The client's frames must be complete and valid, whatever the server sent. */
static void
take_frames(struct conn *c)
{
    struct tp_wire_header h;

    if (!c->prefaced && tp_buf_len(&c->in) >= TP_WIRE_PREFACE_BYTES) {
        uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
        struct tp_wire_preface p;
        const struct tp_wire_preface_reply r = {
            .version = TP_WIRE_VERSION,
            .features = world.shared ? TP_WIRE_FEATURE_SHARED : 0,
            .window = TP_WIRE_WINDOW,
            .bulk_max = 1,
            .frame_max = TP_WIRE_FRAME_MAX};

        require(tp_wire_get_preface(tp_buf_data(&c->in), &p) == TELPHER_OK);
        c->is_bulk = p.stream == TP_WIRE_STREAM_BULK;
        c->prefaced = true;
        tp_wire_put_preface_reply(raw, &r);
        require(tp_buf_append(&c->out, raw, sizeof(raw)) == TELPHER_OK);
        tp_buf_consume(&c->in, TP_WIRE_PREFACE_BYTES + p.auth_len);
    }
    while (c->prefaced && tp_buf_len(&c->in) >= TP_WIRE_HEADER_BYTES) {
        const uint8_t *frame = tp_buf_data(&c->in);
        const struct tp_wire_message *row;
        _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX];

        require(tp_wire_get_header(frame, &h) == TELPHER_OK);
        if (tp_buf_len(&c->in) < h.len) {
            return;
        }
        row = tp_wire_message(h.type);
        require(row != NULL && h.seq == ++c->received && h.ack <= c->seq);
        require(row->get(frame + TP_WIRE_HEADER_BYTES, frame + h.len, m));
        if (world.live) {
            note_ids(h.type, frame + TP_WIRE_HEADER_BYTES,
                     h.len - TP_WIRE_HEADER_BYTES);
        } else {
            answer_discovery(c, h.type);
        }
        tp_buf_consume(&c->in, h.len);
    }
}

static telpher_status
conn_send(struct tp_conn *base, const struct iovec *iov, int count, size_t *ret_sent)
{
    struct conn *c = tp_container_of(base, struct conn, base);

    if (c->down) {
        return TELPHER_ERR_PEER_LOST;
    }
    *ret_sent = 0;
    for (int i = 0; i < count; i++) {
        require(tp_buf_append(&c->in, iov[i].iov_base, iov[i].iov_len) == TELPHER_OK);
        *ret_sent += iov[i].iov_len;
    }
    take_frames(c);
    return TELPHER_OK;
}

static telpher_status
conn_send_fd(struct tp_conn *base, const struct iovec *iov, int count, int fd,
             size_t *ret_sent)
{
    require(fd >= 0);
    return conn_send(base, iov, count, ret_sent);
}

/* Puts a frame: header, perhaps an id of the client's, the rest of the body. */
static void
put_frame(struct conn *c, uint16_t type, uint8_t back, uint8_t *body, size_t len)
{
    uint8_t raw[TP_WIRE_HEADER_BYTES];
    const struct tp_wire_header h = {
        .type = type, .seq = ++c->seq, .len = (uint32_t)(sizeof(raw) + len)};

    if (back != 0 && len >= sizeof(uint64_t) && world.id_count != 0) {
        memcpy(body, &world.ids[(world.id_count - back) % IDS], sizeof(uint64_t));
    }
    tp_wire_put_header(raw, &h);
    require(tp_buf_append(&c->out, raw, sizeof(raw)) == TELPHER_OK);
    require(tp_buf_append(&c->out, body, len) == TELPHER_OK);
}

/* Draws the next frame of the input that is for this stream. @return false: none is left */
static bool
draw_frame(struct conn *c)
{
    struct input in = {c->at, world.end};

    while (input_left(&in) >= 4) {
        uint8_t type = input_u8(&in), back = input_u8(&in);
        const uint8_t *body;
        size_t len = input_bytes(&in, input_u16(&in), &body);
        uint8_t *full;

        c->at = in.at;
        if ((type == TP_WIRE_DATA) == c->is_bulk) {
            full = type == TP_WIRE_DATA ? input_data_body(body, len, &len)
                                        : exact_copy(body, len);
            put_frame(c, type, back, full, len);
            free(full);
            return true;
        }
    }
    return false;
}

static telpher_status
conn_recv(struct tp_conn *base, void *buf, size_t cap, size_t *ret_got)
{
    struct conn *c = tp_container_of(base, struct conn, base);

    if (c->down) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (tp_buf_len(&c->out) == 0 && (!world.live || !c->prefaced || !draw_frame(c))) {
        return world.live ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_AGAIN;
    }
    *ret_got = TP_MIN(cap, tp_buf_len(&c->out));
    memcpy(buf, tp_buf_data(&c->out), *ret_got);
    tp_buf_consume(&c->out, *ret_got);
    return TELPHER_OK;
}

static telpher_status
conn_wait(struct tp_conn *base, unsigned events, uint64_t deadline_ns)
{
    (void)base, (void)events, (void)deadline_ns;
    return TELPHER_OK;
}

static int
conn_fd(struct tp_conn *base)
{
    return tp_container_of(base, struct conn, base)->fd;
}

static void
conn_nothing(struct tp_conn *base)
{
    (void)base;
}

static int
conn_take_fd(struct tp_conn *base)
{
    (void)base;
    return -1;
}

static void
conn_shutdown(struct tp_conn *base)
{
    tp_container_of(base, struct conn, base)->down = true;
}

static void
conn_close(struct tp_conn *base)
{
    struct conn *c = tp_container_of(base, struct conn, base);

    c->down = true;
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

static void
conn_destroy(struct tp_conn *base)
{
    struct conn *c = tp_container_of(base, struct conn, base);

    conn_close(base);
    tp_buf_fini(&c->in);
    tp_buf_fini(&c->out);
    tp_free(c);
}

static const struct tp_conn_ops conn_ops = {
    .send = conn_send,
    .recv = conn_recv,
    .wait = conn_wait,
    .fd = conn_fd,
    .send_fd = conn_send_fd,
    .accept_fds = conn_nothing,
    .take_fd = conn_take_fd,
    .shutdown = conn_shutdown,
    .close = conn_close,
    .destroy = conn_destroy,
};

static telpher_status
connect_world(const char *address, uint64_t deadline_ns, struct tp_conn **ret_conn,
              struct tp_error *err)
{
    struct conn *c;

    (void)address, (void)deadline_ns;
    if (world.closing || world.connects++ >= CONNECTS_MAX) {
        return tp_error_set(err, TELPHER_ERR_UNREACHABLE, "nobody");
    }
    c = tp_zalloc(sizeof(*c), "connection");
    require(c != NULL);
    c->base.ops = &conn_ops;
    c->fd = eventfd(1, EFD_CLOEXEC);
    c->at = world.frames;
    tp_buf_init(&c->in, 0);
    tp_buf_init(&c->out, 0);
    *ret_conn = &c->base;
    return TELPHER_OK;
}

static const struct tp_transport transport = {
    .name = "world", .caps = TP_TRANSPORT_STREAM, .connect = connect_world};
const struct tp_transport *const tp_builtin_transports[] = {&transport, NULL};
const struct tp_secure *const tp_builtin_secure = NULL;

/* ---- an input ----------------------------------------------------------------------------------- */

/* The platform is made once, as every program has one. */
static void
prepare_once(void)
{
    if (tp_icd.platform != NULL) {
        return;
    }
    (void)setenv("TELPHER_SERVERS", "unix:/fuzz", 1);
    (void)setenv("TELPHER_LOG", "none", 0);
    (void)setenv("TELPHER_INSECURE", "yes", 1);
    require(tp_icd_platform() != NULL);
    tp_stream_destroy(tp_icd.platform->servers[0].idle);
    tp_icd.platform->servers[0].idle = NULL;
}

/* Frees the parts of a lost session that live until a process ends. */
static void
free_sessions(void)
{
    struct tp_icd_server *server = &tp_icd.platform->servers[0];
    struct tp_icd_session *session = server->sessions[0];

    server->sessions[0] = NULL;
    while (session != NULL) {
        struct tp_icd_session *older = session->older;

        require(session->closed && session->inside == 0 && session->users == 0);
        require(tp_map_count(&session->events) == 0 &&
                tp_map_count(&session->requests) == 0);
        require(tp_map_count(&session->bulk.sinks) == 0 &&
                tp_map_count(&session->bulk.sources) == 0);
        tp_map_fini(&session->events);
        tp_map_fini(&session->requests);
        tp_map_fini(&session->queues);
        tp_map_fini(&session->bulk.sinks);
        tp_map_fini(&session->bulk.sources);
        tp_stream_destroy(session->stream);
        tp_stream_destroy(session->bulk.stream);
        fuzz_client_free_share(session);
        tp_free(session);
        session = older;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, data + len};
    uint8_t flags;
    const uint8_t *program;
    size_t program_len;

    prepare_once();
    memset(&world, 0, sizeof(world));
    flags = input_u8(&in);
    program_len = input_bytes(&in, input_u8(&in), &program);
    world.frames = in.at;
    world.end = in.end;
    world.shared = (flags & 1) != 0;
    world.live = true;
    tp_icd_settings.shared_memory = world.shared;
    tp_icd.next_id = 0;
    tp_icd.platform->devices[0]->available = CL_TRUE;
    fuzz_client_run(program, program_len);
    fuzz_client_lose();
    fuzz_client_run_threads();
    fuzz_client_run_callbacks();
    fuzz_client_end();
    tp_icd_flush_dirty();
    fuzz_client_run_callbacks();
    free_sessions();
    return 0;
}
