/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arranges streams between servers. Both get a fresh key over their sessions with this
 * process; one of them expects a stream, the other connects. If it does not reach it, they
 * change roles. If that fails, too, this process carries what passes between them.
 */
#include "icd/session/peers.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/gateways.h"
#include "icd/session/session_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "waist/address.h"

enum {
    ADDRESS_BYTES = 320,
    TEXT_BYTES = 1024, /**< of a pair: an address and its gateway, or two reasons */
};

/** A pair of sessions; both have it in their map. Never freed, as they are not. */
struct tp_icd_pair {
    uint32_t number; /**< of its stream; 0: there is none */
    bool had_stream;
    char text[]; /**< its stream's route, or why there is none */
};

/** Serializes arrangements; taken before tp_icd.lock. */
static pthread_mutex_t arranging = PTHREAD_MUTEX_INITIALIZER;
static uint32_t last_number; /* under `arranging` */

/** A stream of a session's server to a buffer that was exported elsewhere. Never freed. */
struct import {
    struct tp_list link;
    const struct tp_icd_session *session;
    uint8_t name[TP_WIRE_SESSION_BYTES];
    uint32_t number; /**< of the stream; 0: it is lost; lock */
};
static struct tp_list imports = {&imports, &imports}; /* lock */

static struct tp_icd_pair *
find_pair(const struct tp_icd_session *a, const struct tp_icd_session *b)
{
    return tp_map_get(&a->peers, (uint64_t)(uintptr_t)b);
}

uint32_t
tp_icd_peer_number(const struct tp_icd_session *a, const struct tp_icd_session *b)
{
    const struct tp_icd_pair *pair = find_pair(a, b);

    return pair == NULL || a->lost || b->lost ? 0 : pair->number;
}

bool
tp_icd_peer_tried(const struct tp_icd_session *a, const struct tp_icd_session *b)
{
    return tp_icd_settings.peer == TP_ICD_PEER_OFF || !a->has_peers || !b->has_peers ||
           find_pair(a, b) != NULL;
}

void
tp_icd_peer_on_lost(struct tp_icd_session *session, uint32_t number)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;

    tp_list_for_each_entry(struct import, i, &imports, link) {
        i->number = i->session == session && i->number == number ? 0 : i->number;
    }
    while (tp_map_next(&session->peers, &cursor, &key, &value)) {
        struct tp_icd_pair *pair = value;
        const struct tp_icd_session *other = (const void *)(uintptr_t)key;

        if (pair->number != number) {
            continue;
        }
        pair->number = 0;
        if (!session->lost && !other->lost) {
            tp_warn("icd",
                    "server %s lost its stream to another server; content between them "
                    "goes through this program",
                    session->server->address);
        }
    }
}

void
tp_icd_peer_tell_lost(struct tp_icd_session *lost)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;

    while (tp_map_next(&lost->peers, &cursor, &key, &value)) {
        struct tp_icd_session *other = (void *)(uintptr_t)key;
        struct tp_wire_peer_lost m = {.peer =
                                          ((const struct tp_icd_pair *)value)->number,
                                      .status = TELPHER_ERR_PEER_LOST,
                                      .text = {0, ""}};

        if (m.peer != 0 && !other->lost && other->resumes) {
            tp_icd_put(other, TP_WIRE_PEER_LOST, &m);
            tp_icd_session_set_dirty(other);
        }
    }
}

/* ---- requests ---------------------------------------------------------------------------- */

/** PEER_ACCEPT or PEER_CONNECT in progress. */
struct ask {
    struct tp_icd_request req;
    struct tp_icd_session *session;
    telpher_status status;
    char text[256]; /**< an address, or why not */
};

static void
on_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct ask *ask = req->user;
    struct tp_wire_peer_reply msg;

    ask->status = type == 0 ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_PROTO;
    if (type == TP_WIRE_PEER_REPLY && tp_wire_get_peer_reply(body, end, &msg)) {
        ask->status = msg.status;
        (void)snprintf(ask->text, sizeof(ask->text), "%.*s", (int)msg.text.len,
                       (const char *)msg.text.data);
    }
    tp_icd_settle(ask->session, req);
}

telpher_status
tp_icd_peer_request(struct tp_icd_session *session, uint16_t type, uint64_t id,
                    const void *msg, char ret_text[256])
{
    struct ask ask = {.session = session};
    telpher_status status;

    ask.req = (struct tp_icd_request){.id = id, .reply = on_reply, .user = &ask};
    status = tp_icd_request_run(session, &ask.req, type, msg, -1);
    memcpy(ret_text, ask.text, sizeof(ask.text));
    return status == TELPHER_OK ? ask.status : status;
}

static bool
is_unix(const char *address)
{
    return address[0] == '/' || strncmp(address, "unix:", 5) == 0;
}

void
tp_icd_peer_address(const struct tp_icd_session *session,
                    const struct tp_icd_session *from, const char *own, char *dst,
                    size_t cap)
{
    const char *address = own;
    enum tp_address_scheme scheme = TP_ADDRESS_ANY;

    if (own[0] == '\0') {
        address = from == NULL ? session->server->address
                               : tp_address_seen_from(from->server->address,
                                                      session->server->address);
    }
    (void)tp_address_scheme(address, &scheme);
    (void)snprintf(dst, cap, "%s%s",
                   tp_icd_settings.insecure && scheme == TP_ADDRESS_ANY &&
                           !is_unix(address)
                       ? "tcp://"
                       : "",
                   address);
}

/** Has a server connect to one that expects it. @return OK, or why not in @p text */
static telpher_status
connect_to(struct tp_icd_session *from, uint32_t number,
           const uint8_t name[TP_WIRE_SESSION_BYTES],
           const uint8_t key[TP_WIRE_PEER_KEY_BYTES], const char *address,
           char text[256])
{
    struct tp_wire_peer_connect connect = {
        .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
        .peer = number,
        .name = {TP_WIRE_SESSION_BYTES, name},
        .key = {TP_WIRE_PEER_KEY_BYTES, key},
        .address = {(uint32_t)strlen(address), address}};

    return tp_icd_peer_request(from, TP_WIRE_PEER_CONNECT, connect.request, &connect,
                               text);
}

telpher_status
tp_icd_peer_open_route(const struct tp_icd_session *to, const char *own,
                       const char *address, const uint8_t name[TP_WIRE_SESSION_BYTES],
                       const uint8_t key[TP_WIRE_PEER_KEY_BYTES], char text[256])
{
    struct tp_error err = {0};
    telpher_status status = tp_icd_gateways_open(
        address, own[0] != '\0' ? address : to->server->address, name, key, &err);

    if (status != TELPHER_OK) {
        (void)snprintf(text, 256, "%.255s",
                       err.text[0] != '\0' ? err.text : telpher_status_text(status));
    }
    return status;
}

/** Has one session's server connect to the other's, at @p ret_address. @return OK, or why not
 *  in @p text */
static telpher_status
connect_one(struct tp_icd_session *from, struct tp_icd_session *to, uint32_t number,
            char text[256], char ret_address[ADDRESS_BYTES])
{
    uint8_t name[TP_WIRE_SESSION_BYTES], key[TP_WIRE_PEER_KEY_BYTES];
    struct tp_wire_peer_accept accept = {.request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
                                         .peer = number,
                                         .name = {sizeof(name), name},
                                         .key = {sizeof(key), key}};
    telpher_status status = tp_random_bytes(key, sizeof(key));

    if (status != TELPHER_OK) {
        goto wipe_key;
    }
    status = tp_random_bytes(name, sizeof(name));
    if (status != TELPHER_OK) {
        goto wipe_key;
    }
    status =
        tp_icd_peer_request(to, TP_WIRE_PEER_ACCEPT, accept.request, &accept, text);
    if (status != TELPHER_OK) {
        goto wipe_key;
    }
    tp_icd_peer_address(to, from, text, ret_address, ADDRESS_BYTES);
    if (tp_icd_settings.peer == TP_ICD_PEER_TCP && is_unix(ret_address)) {
        (void)snprintf(text, 256, "%.200s is not a TCP address", ret_address);
        status = TELPHER_ERR_UNREACHABLE;
        goto wipe_key;
    }
    status = tp_icd_peer_open_route(to, text, ret_address, name, key, text);
    if (status != TELPHER_OK) {
        goto wipe_key;
    }
    status = connect_to(from, number, name, key, ret_address, text);

wipe_key:
    explicit_bzero(key, sizeof(key));
    return status;
}

/* ---- pairs ---------------------------------------------------------------------------- */

/** Adds a pair to both maps. Lock held. @return false: no memory; nothing passes */
static bool
add_pair(struct tp_icd_session *a, struct tp_icd_session *b, uint32_t number,
         const char *text)
{
    const size_t len = strlen(text) + 1;
    struct tp_icd_pair *pair = tp_zalloc(sizeof(*pair) + len, "pair of servers");

    if (pair == NULL || tp_map_reserve(&a->peers, 1) != TELPHER_OK ||
        tp_map_reserve(&b->peers, 1) != TELPHER_OK) {
        tp_free(pair);
        return false;
    }
    pair->number = number;
    pair->had_stream = number != 0;
    memcpy(pair->text, text, len);
    (void)tp_map_put(&a->peers, (uint64_t)(uintptr_t)b, pair);
    (void)tp_map_put(&b->peers, (uint64_t)(uintptr_t)a, pair);
    return true;
}

/** Logs a stream between two servers, and writes how the one reaches the other at @p address. */
static void
report_stream(const struct tp_icd_session *from, const struct tp_icd_session *to,
              uint32_t number, const char *address, char text[TEXT_BYTES])
{
    char gateway[TP_ADDRESS_HOP_BYTES];

    if (is_unix(address)) {
        (void)snprintf(text, TEXT_BYTES, "Unix socket, %s", address);
        tp_trace_instant("icd", "peer by unix socket", TP_ARG("number", number));
    } else if (tp_address_route(address, gateway) != NULL) {
        (void)snprintf(text, TEXT_BYTES, "TCP through the server %s, to %s", gateway,
                       address);
        tp_trace_instant("icd", "peer through server", TP_ARG("number", number));
    } else {
        (void)snprintf(text, TEXT_BYTES, "TCP, to %s", address);
        tp_trace_instant("icd", "peer by tcp", TP_ARG("number", number));
    }
    tp_info("icd", "server %s is connected to %s by stream %u: %s",
            from->server->address, to->server->address, number, text);
}

/** The same where no stream is possible, for @p first and @p second reasons. */
static void
report_none(const struct tp_icd_session *a, const struct tp_icd_session *b,
            const char *first, const char *second, char text[TEXT_BYTES])
{
    (void)snprintf(text, TEXT_BYTES, "%s; %s", first, second);
    tp_trace_instant("icd", "peer through client");
    if (!a->lost && !b->lost) {
        tp_warn("icd",
                "servers %s and %s do not reach each other (%s): what passes "
                "between them goes through this program; see telpherd "
                "--peer-address",
                a->server->address, b->server->address, text);
    }
}

static void
arrange(struct tp_icd_session *a, struct tp_icd_session *b)
{
    char first[256] = "", second[256] = "", address[ADDRESS_BYTES], text[TEXT_BYTES];
    uint32_t number = ++last_number;

    if (connect_one(a, b, number, first, address) == TELPHER_OK) {
        report_stream(a, b, number, address, text);
    } else if (connect_one(b, a, ++last_number, second, address) == TELPHER_OK) {
        number = last_number;
        report_stream(b, a, number, address, text);
    } else {
        number = 0;
        report_none(a, b, first, second, text);
    }
    tp_icd_lock();
    (void)add_pair(a, b, number, text);
    tp_icd_unlock();
}

void
tp_icd_peer_route(const struct tp_icd_session *a, const struct tp_icd_session *b,
                  char *dst, size_t cap)
{
    const struct tp_icd_pair *pair = find_pair(a, b);
    const char *why = pair != NULL                              ? pair->text
                      : tp_icd_settings.peer == TP_ICD_PEER_OFF ? "TELPHER_PEER=off"
                      : a->has_peers && b->has_peers            ? "no memory"
                                                                : "a server is too old";

    if (tp_icd_peer_number(a, b) != 0) {
        (void)snprintf(dst, cap, "%s", why);
        return;
    }
    if (a->lost || b->lost) {
        why = "the session is lost";
    } else if (pair != NULL && pair->had_stream) {
        why = "the stream is lost";
    }
    (void)snprintf(dst, cap, "through this program: %s", why);
}

void
tp_icd_peer_arrange(struct tp_icd_session *a, struct tp_icd_session *b)
{
    bool tried;

    pthread_mutex_lock(&arranging);
    tp_icd_lock();
    tried = tp_icd_peer_tried(a, b);
    tp_icd_unlock();
    if (!tried) {
        arrange(a, b);
    }
    pthread_mutex_unlock(&arranging);
}

/* ---- exported buffers ------------------------------------------------------------------- */

/** Finds the entry of an exported buffer, or adds one. Lock held. NULL: no memory */
static struct import *
find_import(const struct tp_icd_session *session,
            const uint8_t name[TP_WIRE_SESSION_BYTES])
{
    struct import *added;

    tp_list_for_each_entry(struct import, i, &imports, link) {
        if (i->session == session && memcmp(i->name, name, sizeof(i->name)) == 0) {
            return i;
        }
    }
    added = tp_zalloc(sizeof(*added), "exported buffer");
    if (added != NULL) {
        added->session = session;
        memcpy(added->name, name, sizeof(added->name));
        tp_list_init(&added->link);
        tp_list_push_back(&imports, &added->link);
    }
    return added;
}

uint32_t
tp_icd_peer_import(struct tp_icd_session *session, const struct tp_buffer_token *token)
{
    char text[256] = "";
    struct import *i;
    uint32_t number = 0;
    bool is_new = false;

    pthread_mutex_lock(&arranging);
    tp_icd_lock();
    i = find_import(session, token->name);
    if (i != NULL) {
        is_new = i->number == 0;
        i->number = is_new ? ++last_number : i->number; /* it may be lost at once */
        number = i->number;
    }
    tp_icd_unlock();
    if (is_new && connect_to(session, number, token->name, token->key, token->address,
                             text) != TELPHER_OK) {
        tp_warn("icd", "server %s does not reach a buffer exported at %s: %s",
                session->server->address, token->address, text);
        tp_icd_lock();
        tp_icd_peer_on_lost(session, number);
        tp_icd_unlock();
        number = 0;
    }
    pthread_mutex_unlock(&arranging);
    return number;
}
