/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, starts and ends sessions. A session without an executor ends with its command
 * stream. A started session ends with its executor. Of its command stream the broker has a
 * copy of the socket, which it does not read: an executor that a signal has stopped does not
 * see that its client has gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/os/random.h"
#include "base/text/hex.h"
#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/reload/handover.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/broker/session/shares.h"

#define STOPPED_GRACE (5 * TP_CLOCK_S) /* for a stopped one whose client has gone */
#define END_GRACE (1 * TP_CLOCK_S) /* for executors to end by themselves */

/* True if the peer may have one more session. @p peer NULL counts all sessions. */
static bool
has_room(struct tp_broker *b, const struct tp_broker_peer *peer, size_t max)
{
    struct tp_broker_session *over = NULL;
    size_t count = 0;

    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (!s->dismissed && (peer == NULL || tp_broker_peer_equal(&s->peer, peer))) {
            over = over == NULL && (s->over || s->away) && s->pid != 0 ? s : over;
            count++;
        }
    }
    if (count < max) {
        return true;
    }
    if (over == NULL || kill(over->pid, SIGKILL) != 0) {
        return false;
    }
    over->dismissed = true;
    return count - 1 < max;
}

const char *
tp_broker_session_refusal(struct tp_broker *b, const struct tp_broker_peer *peer)
{
    if (!has_room(b, NULL, b->options->max_sessions)) {
        return "too many sessions; see --max-sessions";
    }
    return has_room(b, peer, b->options->max_user_sessions)
               ? NULL
               : "too many sessions of yours; see --max-user-sessions";
}

telpher_status
tp_broker_session_open(struct tp_broker *b, const struct tp_broker_peer *peer,
                       struct tp_broker_session **ret_session)
{
    struct tp_broker_session *s;
    telpher_status status;

    s = tp_zalloc(sizeof(*s), "session");
    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = tp_random_bytes(s->id, sizeof(s->id));
    if (status != TELPHER_OK) {
        tp_free(s);
        return status;
    }
    s->control.fd = s->client.fd = -1;
    s->share_slot = UINT32_MAX;
    s->peer = *peer;
    s->opened = tp_clock_ns();
    tp_list_init(&s->link);
    tp_list_init(&s->pairs);
    tp_list_push_back(&b->sessions, &s->link);
    b->session_count++;
    *ret_session = s;
    return TELPHER_OK;
}

static void
free_pair(struct tp_broker_session *s, struct tp_broker_pair *pair)
{
    tp_list_remove(&pair->link);
    s->pair_count--;
    explicit_bzero(pair->key, sizeof(pair->key));
    tp_free(pair);
}

void
tp_broker_session_close(struct tp_broker *b, struct tp_broker_session *s)
{
    tp_broker_conns_forget(b, s);
    tp_list_for_each_entry_safe(struct tp_broker_pair, pair, &s->pairs, link) {
        free_pair(s, pair);
    }
    tp_broker_share_free(b, s);
    tp_broker_watch_close(b, &s->control);
    tp_broker_watch_close(b, &s->client);
    tp_list_remove(&s->link);
    b->session_count--;
    explicit_bzero(s->key, sizeof(s->key));
    tp_free(s);
}

struct tp_broker_session *
tp_broker_session_find(struct tp_broker *b, const uint8_t *id)
{
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (tp_random_equal(s->id, id, sizeof(s->id))) {
            return s;
        }
    }
    return NULL;
}

telpher_status
tp_broker_pair_expect(struct tp_broker_session *s, const struct tp_broker_pair *pair)
{
    struct tp_broker_pair *copy;

    if (s->pair_count == TP_BROKER_PAIRS_MAX) {
        free_pair(s,
                  tp_list_entry(tp_list_first(&s->pairs), struct tp_broker_pair, link));
    }
    copy = tp_memdup(pair, sizeof(*pair), "pair");
    if (copy == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_list_init(&copy->link);
    tp_list_push_back(&s->pairs, &copy->link);
    s->pair_count++;
    return TELPHER_OK;
}

/* An executor expects a stream. Without memory, the other server is refused. */
static void
expect_pair(struct tp_broker_session *s, struct tp_control *msg)
{
    struct tp_broker_pair pair = {.resumes = msg->resumes};

    memcpy(pair.id, msg->session, sizeof(pair.id));
    memcpy(pair.key, msg->key, sizeof(pair.key));
    (void)tp_broker_pair_expect(s, &pair);
    explicit_bzero(&pair, sizeof(pair));
    explicit_bzero(msg->key, sizeof(msg->key));
}

static void
forget_pair(struct tp_broker_session *s, const uint8_t id[TP_WIRE_SESSION_BYTES])
{
    tp_list_for_each_entry_safe(struct tp_broker_pair, pair, &s->pairs, link) {
        if (memcmp(pair->id, id, sizeof(pair->id)) == 0) {
            free_pair(s, pair);
        }
    }
}

/* Reads what the executor sent. @return false when its end of the pair is closed */
static bool
read_control(struct tp_broker *b, struct tp_broker_session *s)
{
    struct tp_control msg;
    telpher_status status = TELPHER_ERR_AGAIN;
    int fd;

    for (int i = 0; i < TP_BROKER_MESSAGES_MAX; i++) {
        status = tp_control_receive(s->control.fd, &msg, &fd);
        if (status != TELPHER_OK) {
            break;
        }
        tp_descriptor_close(fd);
        if (msg.type == TP_CONTROL_TEXTS) {
            memcpy(s->text, msg.text, sizeof(s->text));
            tp_broker_conns_report_end(b, s, s->text);
        } else if (msg.type == TP_CONTROL_AWAY) {
            s->away = msg.index != 0;
        } else if (msg.type == TP_CONTROL_OVER) {
            s->over = true;
        } else if (msg.type == TP_CONTROL_PEER) {
            expect_pair(s, &msg);
        } else if (msg.type == TP_CONTROL_PEER_OVER) {
            forget_pair(s, msg.session);
        }
    }
    return status != TELPHER_ERR_PEER_LOST;
}

static void
control_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_session *s = tp_container_of(w, struct tp_broker_session, control);

    if (!read_control(b, s)) {
        tp_broker_watch_close(b, w); /* SIGCHLD completes the end */
    }
}

static struct tp_broker_session *
find_pair(struct tp_broker *b, const uint8_t *id, struct tp_broker_pair **ret_pair)
{
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        tp_list_for_each_entry(struct tp_broker_pair, pair, &s->pairs, link) {
            if (tp_random_equal(pair->id, id, sizeof(pair->id))) {
                *ret_pair = pair;
                return s;
            }
        }
    }
    return NULL;
}

/* The executor named the pair before its client arranged the stream, but this thread
 * may see the stream first. */
struct tp_broker_session *
tp_broker_pair_find(struct tp_broker *b, const uint8_t *id,
                    struct tp_broker_pair **ret_pair)
{
    struct tp_broker_session *s = find_pair(b, id, ret_pair);

    if (s != NULL) {
        return s;
    }
    tp_list_for_each_entry(struct tp_broker_session, other, &b->sessions, link) {
        if (other->control.fd >= 0) {
            (void)read_control(b, other);
        }
    }
    return find_pair(b, id, ret_pair);
}

/* Makes a cache folder name that is unique to the client's key or certificate. */
static void
name_cache_of_key(const char *who, char *dst, size_t size)
{
    enum { HEX_MAX = 100 }; /* [bytes]; a file name has at most 255 characters */
    size_t len = strlen(who);
    const char *tail =
        len > HEX_MAX ? who + len - HEX_MAX : who; /* where names differ */
    char hex[TP_HEX_SIZE(HEX_MAX)];

    tp_hex_encode(hex, tail, strlen(tail));
    (void)snprintf(dst, size, "tls-%s", hex);
}

/* Names the cache folder of a session. Only sessions of the same user share builds. */
static void
name_cache(const struct tp_broker_session *s, char *dst, size_t size)
{
    uint32_t user;

    if (s->peer.kind == AF_UNIX) {
        memcpy(&user, s->peer.name, sizeof(user));
        (void)snprintf(dst, size, "user-%lu", (unsigned long)user);
    } else if (s->secured) {
        name_cache_of_key(s->who, dst, size);
    } else {
        (void)snprintf(dst, size, "network");
    }
}

telpher_status
tp_broker_conn_send(int fd, struct tp_control *msg, struct tp_broker_conn *c)
{
    const void *rest = NULL;
    telpher_status status;

    msg->numbers = c->numbers;
    if (c->tls != NULL) {
        msg->rest_len = (uint32_t)tp_tls_export(c->tls, &msg->tls, &rest);
    }
    status = tp_control_send_rest(fd, msg, rest, c->watch.fd);
    explicit_bzero(&msg->tls, sizeof(msg->tls));
    return status;
}

/* Sends the session and its connection to a new executor. */
static telpher_status
send_session(struct tp_broker *b, struct tp_broker_session *s, struct tp_broker_conn *c,
             int fd)
{
    struct tp_control msg = {.type = TP_CONTROL_SESSION,
                             .platform = c->platform,
                             .device_count = b->device_count,
                             .resumes = s->resumes,
                             .drains = s->drains};

    memcpy(msg.session, s->id, sizeof(msg.session));
    name_cache(s, msg.text, sizeof(msg.text));
    return tp_broker_conn_send(fd, &msg, c);
}

/* The client has closed the command stream, or it is lost. */
static void
client_gone(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_session *s = tp_container_of(w, struct tp_broker_session, client);

    tp_broker_watch_close(b, w);
    s->gone_since = tp_clock_ns();
}

/* Watches a copy of the socket of the command stream, in place of the one before. */
static void
watch_client(struct tp_broker *b, struct tp_broker_session *s, int fd)
{
    tp_broker_watch_close(b, &s->client);
    s->gone_since = 0;
    s->client = (struct tp_broker_watch){fcntl(fd, F_DUPFD_CLOEXEC, 0), client_gone};
    if (s->client.fd >= 0 &&
        tp_broker_watch_add(b, &s->client, EPOLLRDHUP) != TELPHER_OK) {
        tp_broker_watch_close(b, &s->client);
    }
}

telpher_status
tp_broker_session_watch(struct tp_broker *b, struct tp_broker_session *s)
{
    telpher_status status = TELPHER_OK;

    s->control.ready = control_ready;
    s->client.ready = client_gone;
    if (s->control.fd >= 0) {
        status = tp_broker_watch_add(b, &s->control, EPOLLIN);
    }
    if (s->client.fd >= 0 && status == TELPHER_OK) {
        status = tp_broker_watch_add(b, &s->client, EPOLLRDHUP);
    }
    return status;
}

tp_ns
tp_broker_sessions_tick(struct tp_broker *b, tp_ns now)
{
    tp_ns next = TP_CLOCK_FOREVER;

    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        tp_ns grace =
            s->resumes ? (tp_ns)b->options->limits.keep_session_ns : STOPPED_GRACE;

        if (!s->stopped || s->gone_since == 0 || s->pid == 0) {
            continue;
        }
        if (tp_clock_between(s->gone_since, now) < grace) {
            next = TP_MIN(next, s->gone_since + grace);
            continue;
        }
        tp_warn("broker", "executor %ld is stopped and its client has gone: killed",
                (long)s->pid);
        (void)kill(s->pid, SIGKILL);
        s->stopped = false;
    }
    return next;
}

telpher_status
tp_broker_session_start(struct tp_broker *b, struct tp_broker_conn *c,
                        struct tp_error *err)
{
    struct tp_broker_session *s = c->session;
    telpher_status status;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return tp_error_set_errno(err, errno,
                                  "cannot make a socket pair for an executor");
    }
    status = send_session(b, s, c, pair[0]);
    tp_broker_share_take(b, s);
    tp_broker_program_of(c->watch.fd, s->program, sizeof(s->program));
    if (status == TELPHER_OK) {
        status = tp_broker_spawn(b, s, pair[1], &s->pid, err);
    }
    (void)close(pair[1]);
    if (status != TELPHER_OK) {
        (void)close(pair[0]);
        s->pid = 0;
        tp_error("broker", "a session cannot start: %s", tp_error_text(err));
        return status;
    }
    s->control = (struct tp_broker_watch){pair[0], control_ready};
    (void)tp_broker_watch_add(b, &s->control, EPOLLIN);
    watch_client(b, s, c->watch.fd);
    tp_info("broker", "executor %ld serves a session on platform %u", (long)s->pid,
            c->platform);
    c->session = NULL; /* the session now ends with its executor */
    tp_broker_conns_started(b, s);
    return TELPHER_OK;
}

telpher_status
tp_broker_session_bulk(struct tp_broker_session *s, struct tp_broker_conn *c)
{
    bool from_peer = c->preface.stream == TP_WIRE_STREAM_PEER;
    struct tp_control msg = {.type = from_peer ? TP_CONTROL_PEER : TP_CONTROL_BULK,
                             .index = c->preface.index,
                             .resumes = from_peer && c->resumes};

    memcpy(msg.session, from_peer ? c->preface.session : s->id, sizeof(msg.session));
    return s->control.fd < 0 ? TELPHER_ERR_PEER_LOST
                             : tp_broker_conn_send(s->control.fd, &msg, c);
}

telpher_status
tp_broker_session_resume(struct tp_broker *b, struct tp_broker_session *s,
                         struct tp_broker_conn *c,
                         const struct tp_wire_preface_reply *reply)
{
    struct tp_control msg = {.type = TP_CONTROL_RESUME,
                             .stream = c->preface.stream,
                             .index = c->preface.index,
                             .received = c->preface.received};
    bool checked = (reply->features & TP_WIRE_FEATURE_CHECKSUM) != 0;

    msg.tls.suite = checked ? TP_TLS_CHECKSUM : 0; /* after the reply */
    memcpy(msg.session, reply->session, sizeof(msg.session));
    tp_wire_put_preface_reply(msg.reply, reply);
    if (msg.stream == TP_WIRE_STREAM_COMMAND) {
        watch_client(b, s, c->watch.fd);
    }
    return s->control.fd < 0 ? TELPHER_ERR_PEER_LOST
                             : tp_broker_conn_send(s->control.fd, &msg, c);
}

const struct tp_broker_ending *
tp_broker_ending_find(struct tp_broker *b, const uint8_t *id)
{
    size_t kept = TP_MIN(b->ending_count, (size_t)TP_BROKER_ENDINGS_MAX);

    for (size_t i = 0; i < kept; i++) {
        if (tp_random_equal(b->endings[i].session, id, TP_WIRE_SESSION_BYTES)) {
            return &b->endings[i];
        }
    }
    return NULL;
}

/* Stores the end text of a session: from its executor, else from the wait status. */
static const char *
note_ending(struct tp_broker *b, struct tp_broker_session *s, int wait_status)
{
    struct tp_broker_ending *w = &b->endings[b->ending_count++ % TP_BROKER_ENDINGS_MAX];

    memcpy(w->session, s->id, sizeof(w->session));
    if (s->text[0] != '\0') {
        memcpy(w->text, s->text, sizeof(w->text));
    } else {
        tp_broker_describe_end(wait_status, w->text, sizeof(w->text));
    }
    if (s->dismissed ||
        (s->over && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGALRM)) {
        tp_info("broker", "executor %ld was stopped while it wrote to the build cache",
                (long)s->pid);
    } else if (w->text[0] != '\0') {
        tp_warn("broker", "session of executor %ld ended: %s", (long)s->pid, w->text);
    } else {
        tp_info("broker", "session of executor %ld ended", (long)s->pid);
    }
    return w->text;
}

static void
session_ended(struct tp_broker *b, struct tp_broker_session *s, int wait_status)
{
    if (s->control.fd >= 0) {
        (void)read_control(b, s);
    }
    tp_broker_conns_report_end(b, s, note_ending(b, s, wait_status));
    s->pid = 0;
    tp_broker_session_close(b, s);
}

/* @return true if a signal has stopped or continued the executor; false: it has ended */
static bool
note_stop(struct tp_broker_session *s, int wait_status)
{
    if (WIFSTOPPED(wait_status)) {
        tp_warn("broker", "executor %ld is stopped by signal %d; its session waits",
                (long)s->pid, WSTOPSIG(wait_status));
    } else if (WIFCONTINUED(wait_status)) {
        tp_info("broker", "executor %ld continues", (long)s->pid);
    } else {
        return false;
    }
    s->stopped = WIFSTOPPED(wait_status);
    return true;
}

void
tp_broker_reap(struct tp_broker *b)
{
    int wait_status;

    if (b->probe.pid != 0 && waitpid(b->probe.pid, &wait_status, WNOHANG) > 0) {
        tp_broker_probe_ended(b, wait_status);
    }
    tp_broker_reload_reap(b);
    tp_broker_helpers_reap(b);
    tp_list_for_each_entry_safe(struct tp_broker_session, s, &b->sessions, link) {
        while (s->pid != 0 &&
               waitpid(s->pid, &wait_status, WNOHANG | WUNTRACED | WCONTINUED) > 0) {
            if (!note_stop(s, wait_status)) {
                session_ended(b, s, wait_status);
                break;
            }
        }
    }
}

static bool
any_executor(struct tp_broker *b)
{
    tp_list_for_each(pos, &b->sessions) {
        if (tp_list_entry(pos, struct tp_broker_session, link)->pid != 0) {
            return true;
        }
    }
    return false;
}

void
tp_broker_sessions_end(struct tp_broker *b)
{
    tp_ns deadline = tp_clock_deadline(END_GRACE);

    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        tp_broker_watch_close(b, &s->control); /* executors then send CLOSE */
    }
    while (any_executor(b) && !tp_clock_passed(deadline)) {
        tp_clock_sleep(5 * TP_CLOCK_MS);
        tp_broker_reap(b);
    }
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (s->pid != 0) {
            (void)kill(s->pid, SIGKILL);
            (void)waitpid(s->pid, NULL, 0);
            s->pid = 0;
        }
    }
    while (!tp_list_is_empty(&b->sessions)) {
        struct tp_list *first = tp_list_first(&b->sessions);

        tp_broker_session_close(b,
                                tp_list_entry(first, struct tp_broker_session, link));
    }
}
