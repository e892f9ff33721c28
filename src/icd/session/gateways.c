/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens routes through gateways for streams between servers. A gateway admits this process by its
 * own keys and cookie, which no other server gets: for each stream it gets a fresh key. It
 * keeps the connection to each gateway that it used.
 */
#include "icd/session/gateways.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/container/list.h"
#include "base/os/clock.h"
#include "core/session/client.h"
#include "core/session/proof.h"
#include "icd/icd.h"
#include "icd/settings.h"
#include "waist/address.h"

#define ANSWER_TIME (2 * TP_CLOCK_S)

/** A connection to a gateway. Never freed while it works. */
struct gateway {
    struct tp_list link;
    struct tp_stream *stream;
    struct tp_wire_peer_reply reply;
    bool answered;
    char address[];
};

static struct tp_list gateways = {&gateways, &gateways}; /* lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/** One hop of a route: what a gateway is asked to open. */
struct hop {
    const uint8_t *name;
    uint8_t key[TP_WIRE_PEER_KEY_BYTES];
    const char *gateway; /**< its address for this process */
    const char *next; /**< the server after it */
};

static telpher_status
connect_gateway(const char *address, struct gateway **ret_gateway, struct tp_error *err)
{
    const struct tp_client_params params = {
        .address = address,
        .cookie_path =
            tp_icd_settings.cookie[0] != '\0' ? tp_icd_settings.cookie : NULL,
        .security = &tp_icd_settings.security};
    const size_t len = strlen(address) + 1;
    struct gateway *g = tp_zalloc(sizeof(*g) + len, "gateway");
    struct tp_wire_preface_reply reply;
    telpher_status status;

    if (g == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = tp_client_connect(&params, &g->stream, &reply, err);
    if (status == TELPHER_OK && (reply.features & TP_WIRE_FEATURE_ROUTE) == 0) {
        status =
            tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                         "the gateway %s lets no server pass: it is too old", address);
        tp_stream_destroy(g->stream);
    }
    if (status != TELPHER_OK) {
        tp_free(g);
        return status;
    }
    memcpy(g->address, address, len);
    tp_list_init(&g->link);
    tp_list_push_back(&gateways, &g->link);
    *ret_gateway = g;
    return TELPHER_OK;
}

static struct gateway *
find_gateway(const char *address)
{
    tp_list_for_each_entry(struct gateway, g, &gateways, link) {
        if (strcmp(g->address, address) == 0) {
            return g;
        }
    }
    return NULL;
}

static telpher_status
on_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct gateway *g = arg;

    if (type == TP_WIRE_ACK) {
        return TELPHER_OK;
    }
    g->answered =
        type == TP_WIRE_PEER_REPLY && tp_wire_get_peer_reply(body, end, &g->reply);
    return g->answered ? TELPHER_OK : TELPHER_ERR_PEER_LOST;
}

/* Requests a hop. @return the gateway's answer; PEER_LOST, TIMEOUT: there is none */
static telpher_status
request_hop(struct gateway *g, const struct hop *hop)
{
    static const struct tp_stream_handler handler = {.frame = on_frame};
    const uint64_t deadline = tp_clock_deadline(ANSWER_TIME);
    const struct tp_wire_route_accept msg = {
        .request = tp_wire_id(TP_WIRE_KIND_REQUEST, 1),
        .name = {TP_WIRE_SESSION_BYTES, hop->name},
        .key = {sizeof(hop->key), hop->key},
        .route = {(uint32_t)strlen(hop->next), hop->next}};
    telpher_status status = tp_stream_put(g->stream, TP_WIRE_ROUTE_ACCEPT, &msg);

    g->answered = false;
    if (status == TELPHER_OK) {
        status = tp_stream_flush_wait(g->stream, deadline);
    }
    while (status == TELPHER_OK && !g->answered) {
        status = tp_clock_passed(deadline) /* it may send ACKs without end */
                     ? TELPHER_ERR_TIMEOUT
                     : tp_stream_wait(g->stream, deadline);
        if (status == TELPHER_OK) {
            status = tp_stream_receive(g->stream, &handler, g);
            status = status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
        }
    }
    return status == TELPHER_OK ? g->reply.status : status;
}

/* Requests a hop on the open connection to the gateway, or on a new one if there is none or it is
 * lost. */
static telpher_status
open_hop(const struct hop *hop, struct tp_error *err)
{
    struct gateway *g = find_gateway(hop->gateway);
    telpher_status status = g != NULL ? request_hop(g, hop) : TELPHER_ERR_PEER_LOST;

    if (status == TELPHER_OK) {
        return status;
    }
    if (g != NULL) {
        tp_list_remove(&g->link);
        tp_stream_destroy(g->stream);
        tp_free(g);
    }
    status = connect_gateway(hop->gateway, &g, err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = request_hop(g, hop);
    return status == TELPHER_OK
               ? status
               : tp_error_set(err, status, "gateway %s: %s", hop->gateway,
                              telpher_status_text(status));
}

telpher_status
tp_icd_gateways_open(const char *address, const char *own,
                     const uint8_t name[TP_WIRE_SESSION_BYTES],
                     const uint8_t key[TP_WIRE_PEER_KEY_BYTES], struct tp_error *err)
{
    char first[TP_ADDRESS_HOP_BYTES], next[TP_ADDRESS_HOP_BYTES];
    telpher_status status = TELPHER_OK;
    const char *rest;

    while (status == TELPHER_OK && (rest = tp_address_route(address, first)) != NULL) {
        const size_t before = strlen(own) - strlen(rest) - 1;
        char *gateway = tp_asprintf("gateway", "%.*s", (int)before, own);
        struct hop hop = {
            .name = name, .gateway = gateway, .next = tp_client_next_hop(rest, next)};

        if (gateway == NULL || hop.next == NULL) {
            status = TELPHER_ERR_INVALID;
        } else {
            status = tp_proof_route_key(key, address, hop.key, err);
        }
        if (status == TELPHER_OK) {
            pthread_mutex_lock(&lock);
            status = open_hop(&hop, err);
            pthread_mutex_unlock(&lock);
        }
        explicit_bzero(&hop, sizeof(hop));
        tp_free(gateway);
        address = rest;
    }
    return status;
}
