/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker with its clients, executors and handshakes played by the input: prefaces and
 * frames whole, in pieces and malformed, on eight connections at once; control messages;
 * processes that end; time that passes. No process is started, and nothing is killed:
 * those calls end here. What the broker sends must be whole frames with right numbers,
 * and when all have gone it must hold nothing.
 *
 * A step is a byte for what, low 4 bits, and for which connection or session, high 4 bits,
 * and what follows it.
 */
#include "support/input.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/handshake.h"
#include "transport/tls/record.h"

enum {
    CONNS = 8,
    CHILDREN = 16,
    SESSIONS_MAX = 6,
    STEPS_MAX = 200,
    FIRST_PID = 1 << 24, /* above what the system gives */
    TURNS_MAX = 100000,
};

/** The client's side of a connection. */
struct client {
    int fd; /* -1 = none */
    uint64_t seq; /* of the last frame sent */
    bool replied; /* the reply to the preface came */
    bool prefaced; /* has sent the preface that a challenge answers */
    bool knows; /* the cookie: proves it when it is asked to */
    struct tp_proof_input proof_input;
    bool garbled; /* answers are sealed: not looked at */
    struct tp_tls_direction sealed; /* as a handshake gives it */
    uint64_t got_seq;
    uint8_t in[4096]; /* start of an answer that is not whole */
    size_t in_len, skip;
};

/** A process that the broker believes in. */
struct child {
    pid_t pid; /* 0 = none */
    int control; /* its end of the pair; -1 = closed */
    int status;
    bool ended, killed, is_handshake;
};

static struct tp_broker broker;
static struct tp_daemon_options options;
static char *relay_to[] = {"inner"};
static struct client clients[CONNS];
static struct child children[CHILDREN];
static pid_t next_pid;
static tp_ns passed; /* of time, by steps */

/* ---- in the place of system calls --------------------------------------------------- */

pid_t __wrap_waitpid(pid_t pid, int *status, int flags);
int __wrap_kill(pid_t pid, int signal);
telpher_status __wrap_tp_broker_spawn(struct tp_broker *b,
                                      const struct tp_broker_session *s, int fd,
                                      pid_t *ret_pid, struct tp_error *err);
telpher_status __wrap_tp_broker_spawn_handshake(struct tp_broker *b, int fd,
                                                pid_t *ret_pid, struct tp_error *err);
telpher_status __wrap_tp_broker_spawn_relay(struct tp_broker *b, int fd, pid_t *ret_pid,
                                            struct tp_error *err);

static struct child *
find_child(pid_t pid)
{
    for (size_t i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0 && children[i].pid == pid) {
            return &children[i];
        }
    }
    return NULL;
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int flags)
{
    struct child *c = find_child(pid);

    require(c != NULL); /* each is collected once */
    if (!c->ended && !c->killed && (flags & WNOHANG) != 0) {
        return 0;
    }
    if (status != NULL) {
        *status = c->status;
    }
    if (c->control >= 0) {
        close(c->control);
    }
    c->pid = 0;
    return pid;
}

int
__wrap_kill(pid_t pid, int signal)
{
    struct child *c = find_child(pid);

    require(c != NULL && signal == SIGKILL);
    c->killed = true;
    c->status = SIGKILL;
    return 0;
}

static telpher_status
spawn(int fd, bool is_handshake, pid_t *ret_pid, struct tp_error *err)
{
    for (size_t i = 0; i < CHILDREN; i++) {
        if (children[i].pid == 0) {
            *ret_pid = next_pid++;
            children[i] = (struct child){
                .pid = *ret_pid, .control = dup(fd), .is_handshake = is_handshake};
            return TELPHER_OK;
        }
    }
    return tp_error_set(err, TELPHER_ERR_LIMIT, "no process left");
}

telpher_status
__wrap_tp_broker_spawn(struct tp_broker *b, const struct tp_broker_session *s, int fd,
                       pid_t *ret_pid, struct tp_error *err)
{
    (void)b;
    require(s != NULL); /* drivers were asked before */
    return spawn(fd, false, ret_pid, err);
}

telpher_status
__wrap_tp_broker_spawn_handshake(struct tp_broker *b, int fd, pid_t *ret_pid,
                                 struct tp_error *err)
{
    (void)b;
    return spawn(fd, true, ret_pid, err);
}

telpher_status
__wrap_tp_broker_spawn_relay(struct tp_broker *b, int fd, pid_t *ret_pid,
                             struct tp_error *err)
{
    (void)b;
    return spawn(fd, true, ret_pid, err);
}

/* ---- the broker ---------------------------------------------------------------------- */

static void
begin_broker(void)
{
    struct tp_broker *b = &broker;
    static uint8_t facts[64];

    memset(b, 0, sizeof(*b));
    options = (struct tp_daemon_options){.relay_to = {relay_to, 1},
                                         .max_relays = 2,
                                         .max_sessions = SESSIONS_MAX,
                                         .max_user_sessions = SESSIONS_MAX - 1,
                                         .max_half_open = 3,
                                         .max_handshakes = 2,
                                         .preface_timeout_ns = TP_CLOCK_S,
                                         .handshake_timeout_ns = TP_CLOCK_S,
                                         .stall_timeout_ns = TP_CLOCK_S};
    b->options = &options;
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    require(b->epoll_fd >= 0);
    b->signals.fd = b->probe.out.fd = -1;
    b->platform_count = 2;
    b->device_count = 3;
    tp_list_init(&b->conns);
    tp_list_init(&b->sessions);
    tp_list_init(&b->helpers);
    tp_buf_init(&b->facts, 0);
    require(tp_buf_append(&b->facts, facts, sizeof(facts)) == TELPHER_OK);
    memset(b->cookie, 7, sizeof(b->cookie));
    next_pid = FIRST_PID;
    passed = 0;
    for (size_t i = 0; i < CONNS; i++) {
        clients[i] = (struct client){.fd = -1};
    }
}

/* Lets the broker do all it can do now. It must come to rest. */
static void
run_broker(void)
{
    struct epoll_event ev;
    unsigned turns = 0;

    (void)tp_broker_conns_tick(&broker, tp_clock_ns() + passed);
    while (epoll_wait(broker.epoll_fd, &ev, 1, 0) == 1) {
        struct tp_broker_watch *w = ev.data.ptr;

        w->ready(&broker, w, ev.events);
        require(++turns < TURNS_MAX);
    }
}

static void
end_broker(void)
{
    for (size_t i = 0; i < CONNS; i++) {
        if (clients[i].fd >= 0) {
            close(clients[i].fd);
        }
    }
    run_broker();
    while (!tp_list_is_empty(&broker.conns)) { /* bulk streams of live executors */
        tp_broker_conn_close(&broker, tp_list_entry(tp_list_first(&broker.conns),
                                                    struct tp_broker_conn, link));
    }
    for (size_t i = 0; i < CHILDREN; i++) {
        children[i].ended = true;
    }
    tp_broker_helpers_end(&broker, true);
    tp_broker_sessions_end(&broker);
    for (size_t i = 0; i < CHILDREN; i++) {
        require(children[i].pid == 0);
    }
    require(broker.session_count == 0 && broker.unauthenticated_count == 0);
    require(broker.shaking_count == 0);
    tp_buf_fini(&broker.facts);
    close(broker.epoll_fd);
}

/* ---- what it answers ------------------------------------------------------------------ */

static void
send_bytes(struct client *c, const void *data, size_t len)
{
    if (c->fd >= 0 && len > 0) {
        (void)!send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Checks the broker's proof and sends the client's: a right one if it knows the cookie. */
static size_t
answer_challenge(struct client *c, const struct tp_wire_challenge *challenge)
{
    uint8_t proof[TP_WIRE_PROOF_BYTES] = {0};
    struct tp_proof_input *input = &c->proof_input;

    memcpy(input->server_nonce, challenge->nonce, sizeof(input->server_nonce));
    require(tp_proof_check(TP_PROOF_SERVER, broker.cookie, input, challenge->proof,
                           NULL) == TELPHER_OK);
    if (c->knows) {
        require(tp_proof_make(TP_PROOF_CLIENT, broker.cookie, input, proof, NULL) ==
                TELPHER_OK);
    }
    send_bytes(c, proof, sizeof(proof));
    return TP_WIRE_CHALLENGE_BYTES;
}

/* Looks at a whole answer at the front. @return its bytes, 0: it is not whole yet */
static size_t
look_at_answer(struct client *c)
{
    const struct tp_wire_message *row;
    struct tp_wire_preface_reply reply;
    struct tp_wire_challenge challenge;
    struct tp_wire_header h;
    _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX];

    if (!c->replied && c->in_len >= TP_WIRE_CHALLENGE_BYTES &&
        tp_wire_get_challenge(c->in, &challenge) == TELPHER_OK) {
        return answer_challenge(c, &challenge);
    }
    if (!c->replied) {
        if (c->in_len < TP_WIRE_PREFACE_REPLY_BYTES) {
            return 0;
        }
        require(tp_wire_get_preface_reply(c->in, &reply) == TELPHER_OK);
        c->replied = true;
        return TP_WIRE_PREFACE_REPLY_BYTES;
    }
    if (c->in_len < TP_WIRE_HEADER_BYTES) {
        return 0;
    }
    require(tp_wire_get_header(c->in, &h) == TELPHER_OK);
    row = tp_wire_message(h.type);
    require(row != NULL && h.seq == c->got_seq + 1 && h.ack <= c->seq);
    if (h.len > c->in_len && h.len <= sizeof(c->in)) {
        return 0;
    }
    c->got_seq = h.seq;
    if (h.len <= sizeof(c->in)) {
        require(row->get(c->in + TP_WIRE_HEADER_BYTES, c->in + h.len, m));
        return h.len;
    }
    require(h.type == TP_WIRE_PONG); /* as long as its PING */
    c->skip = h.len - c->in_len;
    return c->in_len;
}

static void
take_answers(struct client *c)
{
    uint8_t junk[4096];

    for (;;) {
        bool skips = c->skip > 0;
        ssize_t got =
            skips ? recv(c->fd, junk, TP_MIN(c->skip, sizeof(junk)), MSG_DONTWAIT)
                  : recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len,
                         MSG_DONTWAIT);
        size_t used;

        if (got <= 0) {
            return;
        }
        if (skips || c->garbled) {
            c->skip -= skips ? (size_t)got : 0;
            continue;
        }
        c->in_len += (size_t)got;
        while ((used = look_at_answer(c)) > 0) {
            memmove(c->in, c->in + used, c->in_len - used);
            c->in_len -= used;
        }
    }
}

/* ---- steps ---------------------------------------------------------------------------- */

static void
step_open(struct input *in, struct client *c)
{
    uint8_t how = input_u8(in);
    const struct tp_broker_listener l = {.wants_cookie = (how & 1) != 0,
                                         .wants_tls = (how & 2) != 0};
    int pair[2];

    if (c->fd >= 0) {
        close(c->fd);
    }
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    *c = (struct client){.fd = pair[0], .sealed.secret = {1}};
    tp_broker_conn_open(&broker, pair[1], &l);
}

static struct tp_broker_session *
session_at(unsigned index)
{
    tp_list_for_each(pos, &broker.sessions) {
        if (index-- == 0) {
            return tp_list_entry(pos, struct tp_broker_session, link);
        }
    }
    return NULL;
}

/* A preface that is right, but for what the two bytes say. */
static void
step_preface(struct input *in, struct client *c)
{
    uint8_t how = input_u8(in), more = input_u8(in);
    uint8_t raw[TP_WIRE_PREFACE_BYTES + TP_WIRE_NONCE_BYTES];
    const struct tp_broker_session *s = session_at(how >> 5);
    struct tp_wire_preface p = {.version_min = 1,
                                .version_max = 1,
                                .stream = (how & 16) != 0  ? TP_WIRE_STREAM_PEER
                                          : (how & 1) != 0 ? TP_WIRE_STREAM_BULK
                                                           : TP_WIRE_STREAM_COMMAND,
                                .features = ((how & 2) != 0 ? TP_WIRE_FEATURE_TLS : 0) |
                                            TP_WIRE_FEATURE_SHARED,
                                .auth_len = (how & 4) != 0 ? TP_WIRE_NONCE_BYTES : 0,
                                .index = more & 7,
                                .route = (more & 8) != 0 ? 1u + (more >> 4) : 0};

    if ((how & 16) != 0) {
        memset(p.session, more & 7, sizeof(p.session));
    } else if (s != NULL && ((how & 1) != 0 || (more & 16) != 0)) {
        memcpy(p.session, s->id, sizeof(p.session));
    }
    tp_wire_put_preface(raw, &p);
    memset(raw + TP_WIRE_PREFACE_BYTES, more, TP_WIRE_NONCE_BYTES);
    if (!c->prefaced) { /* a second one is read as a proof */
        memcpy(&c->proof_input, raw, sizeof(raw));
        c->knows = (how & 8) != 0;
        c->prefaced = true;
    }
    send_bytes(c, raw, TP_WIRE_PREFACE_BYTES + p.auth_len);
}

static void
step_bytes(struct input *in, struct client *c)
{
    const uint8_t *bytes;
    size_t len = input_bytes(in, input_u8(in), &bytes);

    send_bytes(c, bytes, len);
}

/* A frame with the right number and length; the body is the input's. */
static void
step_frame(struct input *in, struct client *c)
{
    struct tp_wire_header h = {.type = input_u8(in), .seq = ++c->seq};
    uint8_t raw[TP_WIRE_HEADER_BYTES + 255];
    const uint8_t *body;
    size_t len = input_bytes(in, input_u8(in), &body);

    h.len = (uint32_t)(TP_WIRE_HEADER_BYTES + len);
    tp_wire_put_header(raw, &h);
    memcpy(raw + TP_WIRE_HEADER_BYTES, body, len);
    send_bytes(c, raw, h.len);
}

static void
put_frame(struct client *c, uint16_t type, const void *msg)
{
    static uint8_t raw[TP_WIRE_FRAME_MAX];
    const struct tp_wire_message *row = tp_wire_message(type);
    struct tp_wire_header h = {.type = type, .seq = ++c->seq};

    h.len = (uint32_t)(TP_WIRE_HEADER_BYTES + row->size(msg));
    tp_wire_put_header(raw, &h);
    row->put(raw + TP_WIRE_HEADER_BYTES, msg);
    send_bytes(c, raw, h.len);
}

/* Asks how a session ended, or how one runs. */
static void
step_end_reason(struct input *in, struct client *c)
{
    uint8_t which = input_u8(in);
    const struct tp_broker_session *s = session_at(which & 7);
    const uint8_t *id =
        s != NULL && (which & 8) == 0
            ? s->id
            : broker.endings[(which >> 4) % TP_BROKER_ENDINGS_MAX].session;
    const struct tp_wire_end_reason m = {.request = 5,
                                         .session = {TP_WIRE_SESSION_BYTES, id}};

    put_frame(c, TP_WIRE_END_REASON, &m);
}

/* Lets another server pass; it has the cookie as its key. */
static void
step_route_accept(struct input *in, struct client *c)
{
    uint8_t which = input_u8(in);
    uint8_t name[TP_WIRE_SESSION_BYTES], route[TP_WIRE_ROUTE_MAX + 1];
    const struct tp_wire_route_accept m = {
        .request = 6,
        .name = {(which & 8) != 0 ? 3 : sizeof(name), name},
        .key = {(which & 16) != 0 ? 3 : TP_WIRE_PEER_KEY_BYTES, broker.cookie},
        .route = {(which & 32) != 0 ? sizeof(route) : 1u + (which >> 6), route}};

    memset(name, which & 7, sizeof(name));
    memset(route, which, sizeof(route));
    put_frame(c, TP_WIRE_ROUTE_ACCEPT, &m);
}

static void
step_long_ping(struct input *in, struct client *c)
{
    static uint8_t content[100000];
    const struct tp_wire_ping m = {
        .request = 1, .data = {(uint32_t)(input_u16(in) + 10000u), content}};

    put_frame(c, TP_WIRE_PING, &m);
}

/* A record that has the right keys, as the step of a handshake gave them. */
static void
step_record(struct input *in, struct client *c)
{
    static uint8_t record[TP_TLS_RECORD_MAX];
    uint8_t type = input_u8(in);
    struct tp_tls_half half;
    const uint8_t *bytes;
    struct iovec iov = {.iov_len = input_bytes(in, input_u8(in), &bytes)};

    iov.iov_base = (void *)(uintptr_t)bytes;
    require(tp_tls_half_init(&half, tp_openssl(NULL), TP_TLS_CHACHA, &c->sealed,
                             true) == TELPHER_OK);
    if (tp_tls_seal(&half, type, &iov, 0, iov.iov_len, record) == TELPHER_OK) {
        send_bytes(c, record, TP_TLS_HEADER_BYTES + iov.iov_len + TP_TLS_EXTRA_BYTES);
    }
    c->sealed = half.d;
    tp_tls_half_fini(&half);
    c->garbled = true;
}

/* A process says something: the right thing, or bytes. */
static void
step_child_speaks(struct input *in, struct child *child)
{
    uint8_t how = input_u8(in);
    struct tp_control words = {.type = how & 3};
    struct tp_daemon_handshake_answer answer = {
        .status = (how & 4) != 0 ? TELPHER_OK : TELPHER_ERR_AUTH,
        .tls = {.suite = (how & 8) != 0 ? TP_TLS_CHACHA : how,
                .rx.secret = {1},
                .tx.secret = {2}}};
    const uint8_t *bytes;
    size_t len = input_bytes(in, how >> 4, &bytes);

    memcpy(words.text, bytes, len);
    memcpy(answer.who, bytes, len);
    if (child->pid == 0 || child->control < 0) {
        return;
    }
    if ((how & 3) == 3 && len > 0) {
        (void)!send(child->control, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (child->is_handshake) {
        (void)!send(child->control, &answer, sizeof(answer),
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
        (void)tp_control_send(child->control, &words, -1);
    }
}

static void
step_child_ends(struct input *in, struct child *child)
{
    uint8_t how = input_u8(in);

    if (child->pid == 0) {
        return;
    }
    if (child->control >= 0) {
        close(child->control);
        child->control = -1;
    }
    if ((how & 1) == 0) { /* else its sockets close a moment before */
        child->ended = true;
        child->status = how & 0x7e;
        tp_broker_reap(&broker);
    }
}

static void
step_close(struct client *c, bool half)
{
    if (c->fd >= 0 && half) {
        shutdown(c->fd, SHUT_WR);
    } else if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

static void
step(struct input *in)
{
    uint8_t what = input_u8(in);
    struct client *c = &clients[(what >> 4) % CONNS];
    struct child *child = &children[(what >> 4) % CHILDREN];
    uint32_t platform;

    switch (what & 15) {
    case 0:
        step_open(in, c);
        break;
    case 1:
        step_bytes(in, c);
        break;
    case 2:
        step_preface(in, c);
        break;
    case 3:
        step_frame(in, c);
        break;
    case 4:
        platform = input_u8(in) % 4;
        put_frame(c, TP_WIRE_START, &(struct tp_wire_start){platform});
        break;
    case 5:
        put_frame(c, TP_WIRE_DEVICES, &(struct tp_wire_devices){1});
        break;
    case 6:
        step_end_reason(in, c);
        break;
    case 7:
        step_child_speaks(in, child);
        break;
    case 8:
        step_child_ends(in, child);
        break;
    case 9:
        step_close(c, input_u8(in) % 2 != 0);
        break;
    case 10:
        passed += (tp_ns)input_u8(in) * 20 * TP_CLOCK_MS;
        break;
    case 11:
        step_record(in, c);
        break;
    case 12:
        step_long_ping(in, c);
        break;
    case 13:
        if (c->fd >= 0) {
            take_answers(c);
        }
        break;
    case 14:
        step_route_accept(in, c);
        break;
    default: /* several steps at once for the broker */
        if (input_left(in) > 0) {
            step(in);
        }
        return;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, data + len};
    static bool is_silent;

    if (!is_silent) {
        is_silent = tp_log_configure("none", NULL) == TELPHER_OK;
    }
    begin_broker();
    for (int i = 0; i < STEPS_MAX && input_left(&in) > 0; i++) {
        bool together = (*in.at & 14) == 14;

        step(&in);
        if (!together) {
            run_broker();
        }
    }
    for (size_t i = 0; i < CONNS; i++) {
        if (clients[i].fd >= 0) {
            take_answers(&clients[i]);
        }
    }
    end_broker();
    return 0;
}
