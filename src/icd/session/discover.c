/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests the devices of all servers of TELPHER_SERVERS, in parallel and within one time
 * limit. A server that does not answer is left out, with one warning.
 */
#include "icd/icd_int.h"
#include "icd/objects/platform.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/os/netchange.h"
#include "base/os/thread.h"
#include "base/trace/log.h"

#define RECOGNIZE_TIME (10 * TP_CLOCK_S)
#define RETRY_PAUSE (20 * TP_CLOCK_MS)
#define LOOK_PAUSE                                                                     \
    (100 * TP_CLOCK_MS) /* between looks whether the server's machine answers */

enum { TRIES_MAX = 5 };

/** One request to a server, in its own thread or in a thread that opens a session. */
struct inquiry {
    struct tp_icd_server *server;
    struct tp_icd_facts *facts; /**< the server's reply */
    tp_ns deadline;
    int change_fd; /**< readable after a change of this machine's network; -1: not supported */
    pthread_t thread;
    bool threaded;
    bool answered;
    telpher_status status; /**< the server's status for the request itself */
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
    return tp_icd_facts_create(msg.facts.data, msg.facts.len, &q->facts);
}

static telpher_status
on_close(struct inquiry *q, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_close msg;

    if (!tp_wire_get_close(body, end, &msg)) {
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
    case TP_WIRE_CLOSE:
        return on_close(arg, body, end);
    case TP_WIRE_ACK:
        return TELPHER_OK;
    default:
        return TELPHER_ERR_PROTO;
    }
}

/** Waits for more of the reply. Ends a connection whose route is gone, or whose server's machine is
 *  silent, so that the request can go on another one. */
static telpher_status
wait_watching(struct inquiry *q, struct tp_stream *stream)
{
    telpher_status status;

    do {
        status =
            tp_stream_wait(stream, TP_MIN(q->deadline, tp_clock_deadline(LOOK_PAUSE)));
        if (status != TELPHER_ERR_TIMEOUT || tp_clock_passed(q->deadline)) {
            return status;
        }
    } while (!tp_stream_look(stream, tp_netchange_take(q->change_fd)));
    return TELPHER_ERR_PEER_LOST;
}

/** Sends the request and receives until the reply is complete. */
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
        status = wait_watching(q, stream);
        if (status == TELPHER_OK) {
            status = tp_stream_receive(stream, &handler, q);
            status = status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
        }
    }
    return status == TELPHER_OK ? q->status : status;
}

static void
request_once(struct inquiry *q)
{
    const struct tp_client_params params = {
        .address = q->server->address,
        .cookie_path =
            tp_icd_settings.cookie[0] != '\0' ? tp_icd_settings.cookie : NULL,
        .security = &tp_icd_settings.security,
        .stream = TP_WIRE_STREAM_COMMAND,
        .resumes = (enum tp_client_resume)tp_icd_settings.on_loss,
        .deadline_ns = q->deadline,
    };
    struct tp_wire_preface_reply reply;
    struct tp_stream *stream;
    telpher_status status = tp_client_connect(&params, &stream, &reply, &q->err);

    if (status != TELPHER_OK) {
        q->err.code = status;
        return;
    }
    (void)tp_stream_watch(stream, tp_icd_settings.silence_ns);
    status = exchange(q, stream);
    if (status == TELPHER_ERR_TIMEOUT) {
        tp_error_set(&q->err, status, "it did not list its devices in time");
    }
    if (status != TELPHER_OK) {
        q->err.code = status;
        tp_stream_destroy(stream);
        tp_icd_facts_destroy(q->facts);
        return;
    }
    q->err.code = TELPHER_OK;
    q->server->facts = q->facts;
    q->server->idle = stream;
    memcpy(q->server->idle_session, reply.session, sizeof(q->server->idle_session));
    q->server->idle_features = reply.features;
}

/** A connection that is lost meanwhile is no reason to leave a server out. */
static void
request_facts(struct inquiry *q)
{
    q->change_fd = tp_netchange_open();
    for (int i = 0; i < TRIES_MAX; i++) {
        q->err = (struct tp_error){0};
        q->facts = NULL;
        q->answered = false;
        request_once(q);
        if (q->err.code != TELPHER_ERR_PEER_LOST ||
            tp_icd_settings.on_loss != TP_CLIENT_RESUMES ||
            tp_clock_passed(q->deadline)) {
            break;
        }
        tp_clock_sleep(RETRY_PAUSE);
    }
    tp_descriptor_close(q->change_fd);
}

/* ---- again, after a loss ---- */

/* True if both have the same answer, or neither has one. */
static bool
same_fact(const struct tp_icd_facts *a, const struct tp_icd_facts *b, uint16_t kind,
          uint32_t index, uint32_t sub, uint32_t param)
{
    struct tp_wire_fact of_a, of_b;
    bool in_a = tp_icd_facts_get(a, kind, index, sub, param, &of_a);
    bool in_b = tp_icd_facts_get(b, kind, index, sub, param, &of_b);

    if (!in_a || !in_b) {
        return in_a == in_b;
    }
    return of_a.error == of_b.error && of_a.len == of_b.len &&
           memcmp(of_a.data, of_b.data, of_a.len) == 0;
}

/* True if the device numbers refer to the same devices, as far as the facts tell. */
static bool
same_devices(const struct tp_icd_facts *a, const struct tp_icd_facts *b)
{
    static const uint32_t params[] = {CL_DEVICE_NAME,      CL_DEVICE_VENDOR,
                                      CL_DEVICE_TYPE,      CL_DEVICE_VERSION,
                                      CL_DRIVER_VERSION,   CL_DEVICE_MAX_COMPUTE_UNITS,
                                      CL_DEVICE_EXTENSIONS};
    uint32_t platforms = tp_icd_facts_count(a, TP_WIRE_FACT_PLATFORM);
    uint32_t devices = tp_icd_facts_count(a, TP_WIRE_FACT_DEVICE);
    bool same = platforms == tp_icd_facts_count(b, TP_WIRE_FACT_PLATFORM) &&
                devices == tp_icd_facts_count(b, TP_WIRE_FACT_DEVICE);

    for (uint32_t p = 0; same && p < platforms; p++) {
        same = same_fact(a, b, TP_WIRE_FACT_PLATFORM, p, 0, CL_PLATFORM_NAME);
        for (uint32_t d = 0; same && d < devices; d++) {
            for (size_t i = 0; same && i < TP_ARRAY_LEN(params); i++) {
                same = same_fact(a, b, TP_WIRE_FACT_DEVICE, d, p, params[i]);
            }
        }
    }
    return same;
}

telpher_status
tp_icd_request_devices(struct tp_icd_server *server, struct tp_stream *stream,
                       struct tp_icd_facts **ret_facts, struct tp_error *err)
{
    struct inquiry q = {.server = server,
                        .deadline = tp_clock_deadline(RECOGNIZE_TIME),
                        .change_fd = -1};
    telpher_status status = exchange(&q, stream);

    if (q.err.code != TELPHER_OK) {
        *err = q.err;
    }
    if (status == TELPHER_OK) {
        *ret_facts = q.facts;
    } else {
        tp_icd_facts_destroy(q.facts);
    }
    return status;
}

telpher_status
tp_icd_recognize(struct tp_icd_server *server, struct tp_stream *stream,
                 struct tp_error *err)
{
    struct tp_icd_facts *facts;
    telpher_status status = tp_icd_request_devices(server, stream, &facts, err);

    if (status != TELPHER_OK) {
        return status;
    }
    if (server->facts == NULL || !same_devices(server->facts, facts)) {
        status = tp_error_set(err, TELPHER_ERR_DEVICE_LOST,
                              "it has other devices than when this program asked; "
                              "start the program again to use them");
    }
    tp_icd_facts_destroy(facts);
    return status;
}

/* ---- all servers ---- */

static void *
request_facts_main(void *arg)
{
    request_facts(arg);
    return NULL;
}

/** Logs one warning for a server that is left out: the error, and what to do. */
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
        /* This thread sends the last request itself. */
        list[i].threaded = i + 1 < count &&
                           tp_thread_create(&list[i].thread, "telpher-ask",
                                            request_facts_main, &list[i]) == TELPHER_OK;
    }
    for (size_t i = count; i-- > 0;) {
        if (!list[i].threaded) {
            request_facts(&list[i]);
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
