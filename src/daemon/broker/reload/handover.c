/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that a broker passes on: records of a type, a length and bytes. Records are
 * structs of the broker; one that this version knows longer is filled with zeros. Other changes
 * of these structs, of struct tp_control or of the page of device time raise STATE_VERSION.
 */
#include "daemon/broker/reload/handover.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/memfd.h"
#include "base/trace/log.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/broker/session/shares.h"
#include "telpher/version.h"

#ifndef TP_BROKER_STATE_VERSION /* fault_reload has a broker with another one */
#define TP_BROKER_STATE_VERSION 1
#endif
enum { STATE_VERSION = TP_BROKER_STATE_VERSION };

enum record_type {
    RECORD_HEAD = 1, /* the first one */
    RECORD_LISTENER,
    RECORD_FACTS, /* of the devices */
    RECORD_SESSION,
    RECORD_PAIR, /* of the session before */
    RECORD_CONN,
    RECORD_RELAY,
    RECORD_ENDINGS,
};

struct record {
    uint32_t type, len;
};

/* Layout sizes that both programs must agree on, and single values. */
struct head {
    char magic[8];
    uint32_t version, control_bytes, slot_bytes;
    int32_t share_fd, cookie_fd;
    uint32_t slot_count, platform_count, device_count;
    uint64_t ending_count;
    char devices[2048]; /* settings on which the facts depend */
};

struct saved_conn {
    struct tp_broker_conn conn;
    uint8_t session[TP_WIRE_SESSION_BYTES];
    struct tp_tls_state tls;
    uint32_t rest_len; /* bytes received already; they follow */
};

static const char magic[8] = "TELPHERD";

/* Names the settings on which the facts depend. */
static void
describe_devices(const struct tp_broker *b, char dst[2048])
{
    const struct tp_config_list *list = &b->options->device;
    size_t len = (size_t)snprintf(dst, 2048, "%s", b->executor);

    for (size_t i = 0; i < list->count && len < 2048; i++) {
        len += (size_t)snprintf(dst + len, 2048 - len, "\n%s", list->items[i]);
    }
}

/* ---- saving ---- */

static bool
put(struct tp_buf *out, uint32_t type, const void *src, size_t len, const void *rest,
    size_t rest_len)
{
    const struct record r = {type, (uint32_t)(len + rest_len)};

    return tp_buf_append(out, &r, sizeof(r)) == TELPHER_OK &&
           tp_buf_append(out, src, len) == TELPHER_OK &&
           tp_buf_append(out, rest, rest_len) == TELPHER_OK;
}

static bool
put_head(const struct tp_broker *b, struct tp_buf *out)
{
    struct head h = {.version = STATE_VERSION,
                     .control_bytes = sizeof(struct tp_control),
                     .slot_bytes = sizeof(struct tp_share_slot),
                     .share_fd = b->share_fd,
                     .cookie_fd = b->cookie_fd,
                     .slot_count = b->share.slot_count,
                     .platform_count = b->platform_count,
                     .device_count = b->device_count,
                     .ending_count = b->ending_count};

    memcpy(h.magic, magic, sizeof(h.magic));
    describe_devices(b, h.devices);
    return put(out, RECORD_HEAD, &h, sizeof(h), NULL, 0);
}

static bool
put_session(const struct tp_broker_session *s, struct tp_buf *out)
{
    bool ok = put(out, RECORD_SESSION, s, sizeof(*s), NULL, 0);

    tp_list_for_each_entry(struct tp_broker_pair, pair, &s->pairs, link) {
        ok = ok && put(out, RECORD_PAIR, pair, sizeof(*pair), NULL, 0);
    }
    return ok;
}

bool
tp_broker_handover_is_idle(const struct tp_broker_conn *c)
{
    bool between = c->state == TP_BROKER_HEADER && c->in_have == 0 &&
                   !c->start_pending && c->asks_end_of == NULL;

    return (between || (c->state == TP_BROKER_HELD && c->session->pid == 0)) &&
           tp_buf_len(&c->out) == 0;
}

static bool
put_conn(const struct tp_broker_conn *c, struct tp_buf *out)
{
    struct saved_conn saved = {.conn = *c};
    const void *rest = NULL;
    bool ok;

    memcpy(saved.session, c->session->id, sizeof(saved.session));
    if (c->tls != NULL) {
        saved.rest_len = (uint32_t)tp_tls_export(c->tls, &saved.tls, &rest);
    }
    ok = put(out, RECORD_CONN, &saved, sizeof(saved), rest, saved.rest_len);
    explicit_bzero(&saved, sizeof(saved));
    return ok;
}

/* Sessions come before the connections that refer to them. */
static bool
put_all(struct tp_broker *b, struct tp_buf *out)
{
    bool ok = put(out, RECORD_FACTS, tp_buf_data(&b->facts), tp_buf_len(&b->facts),
                  NULL, 0) &&
              put(out, RECORD_ENDINGS, b->endings, sizeof(b->endings), NULL, 0);

    for (size_t i = 0; ok && i < b->listener_count; i++) {
        ok = put(out, RECORD_LISTENER, &b->listeners[i], sizeof(b->listeners[i]), NULL,
                 0);
    }
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        ok = ok && put_session(s, out);
    }
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        ok = ok && put_conn(c, out);
    }
    tp_list_for_each_entry(struct tp_broker_helper, h, &b->helpers, link) {
        ok = ok && put(out, RECORD_RELAY, &h->pid, sizeof(h->pid), NULL, 0);
    }
    return ok;
}

telpher_status
tp_broker_handover_save(struct tp_broker *b, bool all, int *ret_fd)
{
    telpher_status status = TELPHER_ERR_NO_MEMORY;
    struct tp_buf out;
    void *memory;
    size_t len;
    int fd = -1;

    tp_buf_init(&out, 0);
    if (put_head(b, &out) && (!all || put_all(b, &out))) {
        len = tp_buf_len(&out);
        status = tp_memfd_create("telpherd-state", len, &fd);
        if (status == TELPHER_OK) {
            status = tp_memfd_map(fd, len, &memory);
        }
        if (status == TELPHER_OK) {
            memcpy(memory, tp_buf_data(&out), len);
            (void)munmap(memory, len);
            *ret_fd = fd;
        } else if (fd >= 0) {
            (void)close(fd);
        }
    }
    explicit_bzero((void *)(uintptr_t)tp_buf_data(&out), tp_buf_len(&out));
    tp_buf_fini(&out);
    return status;
}

static void
set_inherited(int fd, bool inherited)
{
    if (fd > 0) {
        (void)fcntl(fd, F_SETFD, inherited ? 0 : FD_CLOEXEC);
    }
}

void
tp_broker_handover_inherit(const struct tp_broker *b, bool inherited)
{
    set_inherited(b->share_fd, inherited);
    set_inherited(b->cookie_fd, inherited);
    for (size_t i = 0; i < b->listener_count; i++) {
        set_inherited(b->listeners[i].watch.fd, inherited);
    }
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        set_inherited(s->control.fd, inherited);
        set_inherited(s->client.fd, inherited);
    }
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        set_inherited(c->watch.fd, inherited);
    }
}

/* ---- loading ---- */

/* The state under way from a file to a broker. */
struct loader {
    struct tp_broker *b;
    const uint8_t *src, *end;
    struct tp_broker_session *session; /* the one before */
    struct head head;
};

/* Takes the next record. @return false: the end, or not a record */
static bool
take(struct loader *l, struct record *ret_r, const uint8_t **ret_body)
{
    if ((size_t)(l->end - l->src) < sizeof(*ret_r)) {
        return false;
    }
    memcpy(ret_r, l->src, sizeof(*ret_r));
    *ret_body = l->src + sizeof(*ret_r);
    if ((size_t)(l->end - *ret_body) < ret_r->len) {
        return false;
    }
    l->src = *ret_body + ret_r->len;
    return true;
}

static void
copy(void *dst, size_t size, const uint8_t *body, uint32_t len)
{
    memset(dst, 0, size);
    memcpy(dst, body, TP_MIN(size, (size_t)len));
}

static telpher_status
check_head(const struct loader *l, struct tp_error *err)
{
    const struct head *h = &l->head;

    if (memcmp(h->magic, magic, sizeof(h->magic)) != 0 || h->version != STATE_VERSION ||
        h->control_bytes != sizeof(struct tp_control) ||
        h->slot_bytes != sizeof(struct tp_share_slot)) {
        return tp_error_set(
            err, TELPHER_ERR_VERSION,
            "this version cannot take over the sessions of the one that "
            "runs; stop that one and start this one");
    }
    return TELPHER_OK;
}

/* Maps the file and reads its head. */
static telpher_status
open_state(int fd, struct loader *l, struct tp_error *err)
{
    struct record r;
    const uint8_t *body;
    struct stat st;
    void *memory;

    if (fstat(fd, &st) != 0 || st.st_size == 0 ||
        tp_memfd_map(fd, (uint64_t)st.st_size, &memory) != TELPHER_OK) {
        return tp_error_set(err, TELPHER_ERR_IO,
                            "--handover: descriptor %d holds no state of a broker; "
                            "telpherd sets this option itself, at a reload",
                            fd);
    }
    l->src = memory;
    l->end = l->src + st.st_size;
    if (take(l, &r, &body) && r.type == RECORD_HEAD) {
        copy(&l->head, sizeof(l->head), body, r.len);
    }
    return check_head(l, err);
}

telpher_status
tp_broker_handover_check(int fd, struct tp_error *err)
{
    struct loader l = {.b = NULL};

    return open_state(fd, &l, err); /* the process ends */
}

static void
load_facts(struct loader *l, const uint8_t *body, uint32_t len)
{
    struct tp_broker *b = l->b;
    char devices[2048];

    describe_devices(b, devices);
    if (strcmp(devices, l->head.devices) == 0 &&
        tp_buf_append(&b->facts, body, len) == TELPHER_OK) {
        b->platform_count = l->head.platform_count;
        b->device_count = l->head.device_count;
    }
}

static void
load_listener(struct tp_broker *b, const uint8_t *body, uint32_t len)
{
    if (b->inherited_count < TP_BROKER_LISTENERS_MAX) {
        struct tp_broker_listener *l = &b->inherited[b->inherited_count++];

        copy(l, sizeof(*l), body, len);
        set_inherited(l->watch.fd, false);
    }
}

static telpher_status
load_session(struct loader *l, const uint8_t *body, uint32_t len)
{
    struct tp_broker_session *s = tp_zalloc(sizeof(*s), "session");

    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    copy(s, sizeof(*s), body, len);
    tp_list_init(&s->link);
    tp_list_init(&s->pairs);
    s->pair_count = 0;
    tp_list_push_back(&l->b->sessions, &s->link);
    l->b->session_count++;
    l->session = s;
    tp_broker_share_restore(l->b, s);
    return tp_broker_session_watch(l->b, s);
}

static telpher_status
load_pair(struct loader *l, const uint8_t *body, uint32_t len)
{
    struct tp_broker_pair *pair = tp_zalloc(sizeof(*pair), "pair");

    if (pair == NULL || l->session == NULL) {
        tp_free(pair);
        return TELPHER_ERR_NO_MEMORY;
    }
    copy(pair, sizeof(*pair), body, len);
    tp_list_init(&pair->link);
    tp_list_push_back(&l->session->pairs, &pair->link);
    l->session->pair_count++;
    return TELPHER_OK;
}

static telpher_status
load_conn(struct loader *l, const uint8_t *body, uint32_t len)
{
    struct saved_conn saved;
    struct tp_broker_session *s;
    telpher_status status;

    if (len < sizeof(saved)) {
        return TELPHER_ERR_VERSION;
    }
    memcpy(&saved, body, sizeof(saved));
    s = tp_broker_session_find(l->b, saved.session);
    status = s == NULL ? TELPHER_ERR_NOT_FOUND
                       : tp_broker_conn_restore(l->b, &saved.conn, s, &saved.tls,
                                                body + sizeof(saved), saved.rest_len);
    if (status != TELPHER_OK) {
        (void)close(saved.conn.watch.fd);
    }
    explicit_bzero(&saved, sizeof(saved));
    return status;
}

static telpher_status
load_record(struct loader *l, const struct record *r, const uint8_t *body)
{
    pid_t pid;

    switch (r->type) {
    case RECORD_FACTS:
        load_facts(l, body, r->len);
        return TELPHER_OK;
    case RECORD_ENDINGS:
        copy(l->b->endings, sizeof(l->b->endings), body, r->len);
        return TELPHER_OK;
    case RECORD_LISTENER:
        load_listener(l->b, body, r->len);
        return TELPHER_OK;
    case RECORD_SESSION:
        return load_session(l, body, r->len);
    case RECORD_PAIR:
        return load_pair(l, body, r->len);
    case RECORD_CONN:
        return load_conn(l, body, r->len);
    case RECORD_RELAY:
        copy(&pid, sizeof(pid), body, r->len);
        return tp_broker_relay_restore(l->b, pid);
    default:
        return TELPHER_OK; /* a record type of a later version: ignored */
    }
}

telpher_status
tp_broker_handover_load(struct tp_broker *b, int fd, struct tp_error *err)
{
    struct loader l = {.b = b};
    telpher_status status = open_state(fd, &l, err);
    struct record r;
    const uint8_t *body;

    if (status != TELPHER_OK) {
        return status;
    }
    b->cookie_fd = l.head.cookie_fd;
    b->ending_count = l.head.ending_count;
    status = tp_broker_shares_restore(b, l.head.share_fd, l.head.slot_count, err);
    while (status == TELPHER_OK && take(&l, &r, &body)) {
        /* a record that cannot be read loses its own connection or session only */
        if (load_record(&l, &r, body) != TELPHER_OK) {
            tp_warn("broker",
                    "reload: a record of type %u of the state cannot be read: that "
                    "connection or session is lost",
                    r.type);
        }
    }
    tp_broker_handover_inherit(b, false);
    (void)close(fd);
    tp_info("broker", "telpherd %s has taken over %zu sessions", TELPHER_VERSION_STRING,
            b->session_count);
    return status;
}

int
tp_broker_handover_listener(struct tp_broker *b, const char *address)
{
    for (size_t i = 0; i < b->inherited_count; i++) {
        int fd = b->inherited[i].watch.fd;

        if (fd >= 0 && strcmp(b->inherited[i].address, address) == 0) {
            b->inherited[i].watch.fd = -1;
            return fd;
        }
    }
    return -1;
}

void
tp_broker_handover_finish(struct tp_broker *b)
{
    for (size_t i = 0; i < b->inherited_count; i++) {
        struct tp_broker_listener *l = &b->inherited[i];

        if (l->watch.fd >= 0) {
            (void)close(l->watch.fd);
            l->watch.fd = -1;
            if (l->path[0] != '\0') {
                (void)unlink(l->path);
            }
        }
    }
}
