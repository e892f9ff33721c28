/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the servers of TELPHER_SERVERS for their devices, all at once and within one time
 * limit. A server that does not answer is left out, with one warning.
 */
#include "icd/icd_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/** One server being asked, by a thread of its own. */
struct inquiry {
    struct tp_icd_server *server;
    tp_ns deadline;
    pthread_t thread;
    bool threaded;
    bool answered;
    telpher_status status; /**< what the server said of the request itself */
    struct tp_error err;
};

static telpher_status
on_devices_reply(struct inquiry *q, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_devices_reply msg;

    if (q->answered || !tp_wire_get_devices_reply(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    q->answered = true;
    q->status = msg.status;
    if (msg.status != TELPHER_OK) {
        return TELPHER_OK;
    }
    return tp_icd_facts_create(msg.facts.data, msg.facts.len, &q->server->facts);
}

static telpher_status
on_goodbye(struct inquiry *q, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_goodbye msg;

    if (!tp_wire_get_goodbye(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    return tp_error_set(&q->err, TELPHER_ERR_REFUSED, "it says: %.*s",
                        (int)msg.text.len, (const char *)msg.text.data);
}

static telpher_status
on_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    switch (type) {
    case TP_WIRE_DEVICES_REPLY:
        return on_devices_reply(arg, body, end);
    case TP_WIRE_GOODBYE:
        return on_goodbye(arg, body, end);
    case TP_WIRE_ACK:
        return TELPHER_OK;
    default:
        return TELPHER_ERR_PROTO;
    }
}

/** Sends the request and receives until the answer is there. */
static telpher_status
exchange(struct inquiry *q, struct tp_stream *stream)
{
    static const struct tp_stream_handler handler = {.frame = on_frame};
    const struct tp_wire_devices msg = {.request = tp_wire_id(TP_WIRE_KIND_REQUEST, 1)};
    telpher_status status = tp_stream_put(stream, TP_WIRE_DEVICES, &msg);

    if (status == TELPHER_OK) {
        status = tp_stream_flush_wait(stream, q->deadline);
    }
    while (status == TELPHER_OK && !q->answered) {
        status = tp_stream_wait(stream, q->deadline);
        if (status == TELPHER_OK) {
            status = tp_stream_receive(stream, &handler, q);
            status = status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
        }
    }
    return status == TELPHER_OK ? q->status : status;
}

static void
ask(struct inquiry *q)
{
    const struct tp_client_params params = {
        .address = q->server->address,
        .cookie_path =
            tp_icd_settings.cookie[0] != '\0' ? tp_icd_settings.cookie : NULL,
        .security = &tp_icd_settings.security,
        .stream = TP_WIRE_STREAM_COMMAND,
        .deadline_ns = q->deadline,
    };
    struct tp_wire_preface_reply reply;
    struct tp_stream *stream;
    telpher_status status = tp_client_connect(&params, &stream, &reply, &q->err);

    if (status != TELPHER_OK) {
        q->err.code = status;
        return;
    }
    status = exchange(q, stream);
    if (status == TELPHER_ERR_TIMEOUT) {
        tp_error_set(&q->err, status, "it did not tell its devices in time");
    }
    if (status != TELPHER_OK) {
        q->err.code = status;
        tp_stream_destroy(stream);
        return;
    }
    q->err.code = TELPHER_OK;
    q->server->idle = stream;
    memcpy(q->server->idle_session, reply.session, sizeof(q->server->idle_session));
    q->server->idle_features = reply.features;
}

static void *
ask_main(void *arg)
{
    ask(arg);
    return NULL;
}

/** One warning for a server that is left out: what is wrong, and what to do. */
static void
warn(const struct inquiry *q)
{
    if (q->err.code != TELPHER_OK) {
        tp_warn("icd", "server %s is left out: %s; try: telpher ping %s",
                q->server->address, tp_error_text(&q->err), q->server->address);
    }
}

telpher_status
tp_icd_discover(struct tp_icd_server *servers, size_t count)
{
    struct inquiry *list = tp_alloc_array(count, sizeof(*list), "inquiries");
    tp_ns deadline = tp_clock_deadline(tp_icd_settings.connect_timeout_ns);

    if (list == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct inquiry){.server = &servers[i], .deadline = deadline};
        /* The last one is asked by this thread. */
        list[i].threaded =
            i + 1 < count && tp_thread_create(&list[i].thread, "telpher-ask", ask_main,
                                              &list[i]) == TELPHER_OK;
    }
    for (size_t i = count; i-- > 0;) {
        if (!list[i].threaded) {
            ask(&list[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i].threaded) {
            tp_thread_join(list[i].thread);
        }
        warn(&list[i]);
    }
    tp_free(list);
    return TELPHER_OK;
}
