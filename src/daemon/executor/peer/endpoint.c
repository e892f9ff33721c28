/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported buffers. The client gives a token to other programs: the address of this server,
 * the name and the key of an export. A holder of the token that proves the key gets a stream
 * of its own, as another server does, and reads and writes the exported bytes by ENDPOINT.
 * Both are transfers without a command: they use no queue of the client, so that a holder
 * that stops in the middle delays only itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/peer/peer_int.h"

enum { COUNTER_MAX = 1 << 23 }; /* streams to exports of a session, ever */

/* ---- what the client exports ---- */

/* Checks an EXPORT and finds its objects. @return 0 or the CL error */
static int32_t
check_export(struct tp_exec *x, const struct tp_wire_export *m,
             struct tp_exec_queue **ret_queue, struct tp_exec_mem **ret_mem)
{
    const uint8_t all = TP_WIRE_EXPORT_READ | TP_WIRE_EXPORT_WRITE;
    int32_t error = tp_exec_find(x, m->queue, TP_WIRE_KIND_QUEUE, ret_queue);

    if (error == 0) {
        error = tp_exec_find_buffer(x, m->mem, ret_mem);
    }
    if (error != 0) {
        return error;
    }
    if ((*ret_mem)->svm != NULL || (*ret_mem)->context != (*ret_queue)->context) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (m->size == 0 || m->size > (*ret_mem)->size ||
        m->offset > (*ret_mem)->size - m->size || (m->rights & all) == 0 ||
        (m->rights & ~all) != 0) {
        return CL_INVALID_VALUE;
    }
    return 0;
}

/* @return 0 or the CL error */
static int32_t
fill_export(struct tp_exec_export *e, const struct tp_wire_export *m)
{
    struct tp_exec_queue *q;
    struct tp_exec_mem *mem;
    int32_t error = check_export(e->obj.x, m, &q, &mem);

    if (error == 0) {
        error = tp_exec_domain(q, &e->device);
    }
    if (error != 0) {
        return error;
    }
    memcpy(e->name, m->name.data, sizeof(e->name));
    e->context = q->context;
    tp_exec_ref(&e->context->obj);
    e->is_pinned = tp_exec_is_pinned(e->context);
    e->mem = mem->native;
    e->obj.x->cl.RetainMemObject(e->mem);
    e->offset = m->offset;
    e->size = m->size;
    e->rights = m->rights;
    e->until = m->lifetime_ms == 0 || m->lifetime_ms > UINT64_MAX / TP_CLOCK_MS / 2
                   ? TP_CLOCK_FOREVER
                   : tp_clock_deadline(m->lifetime_ms * TP_CLOCK_MS);
    return 0;
}

telpher_status
tp_exec_on_export(struct tp_exec *x, const struct tp_wire_export *m)
{
    struct tp_exec_export *e;
    telpher_status status;
    int32_t error;

    if (m->name.len != TP_WIRE_SESSION_BYTES || m->key.len != TP_WIRE_PEER_KEY_BYTES) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_create(x, m->id, TP_WIRE_KIND_EXPORT, sizeof(*e), &e);
    if (status != TELPHER_OK) {
        return status;
    }
    error = fill_export(e, m);
    if (error != 0) {
        tp_exec_peer_reply(x, m->request, TELPHER_ERR_INVALID,
                           tp_opencl_error_name(error));
        tp_exec_release(x, m->id);
        return TELPHER_OK;
    }
    (void)tp_exec_endpoints_reap(x);
    x->peers.exports++;
    status = x->peers.exports > TP_EXEC_EXPORTS_MAX
                 ? TELPHER_ERR_LIMIT
                 : tp_exec_peer_expect(m->name.data, m->key.data, false);
    tp_exec_peer_reply(
        x, m->request, status,
        status == TELPHER_OK && x->peers.address != NULL ? x->peers.address : "");
    if (status != TELPHER_OK) {
        tp_exec_release(x, m->id);
    }
    return TELPHER_OK;
}

void
tp_exec_export_on_release(struct tp_exec_object *o)
{
    const struct tp_exec_export *e = tp_container_of(o, struct tp_exec_export, obj);
    struct tp_exec *x = o->x;
    size_t cursor = 0;
    void *value;

    if (e->context != NULL) {
        tp_exec_peer_stop_expecting(e->name);
        x->peers.exports--;
    }
    while (tp_map_next(&x->peers.map, &cursor, NULL, &value)) {
        struct tp_exec_peer *p = value;

        if (p->export != NULL && &p->export->obj == o && p->stream != NULL) {
            tp_exec_bulk_break(p->stream, TELPHER_ERR_CANCELED);
        }
    }
}

void
tp_exec_export_free(struct tp_exec_object *o)
{
    struct tp_exec_export *e = tp_container_of(o, struct tp_exec_export, obj);

    if (e->context != NULL) {
        o->x->cl.ReleaseMemObject(e->mem);
        tp_exec_unref(&e->context->obj);
    }
    tp_free(e);
}

/* ---- streams of holders ---- */

/* True if an export can be used: it was neither released nor has it expired. Any thread. */
static bool
is_valid(const struct tp_exec_export *e)
{
    return !e->obj.released && !tp_clock_passed(e->until);
}

static struct tp_exec_export *
find_export(struct tp_exec *x, const uint8_t name[TP_WIRE_SESSION_BYTES])
{
    size_t cursor = 0;
    uint64_t id;
    void *value;

    while (tp_map_next(&x->objects, &cursor, &id, &value)) {
        struct tp_exec_export *e = value;

        if (tp_wire_id_kind(id) == TP_WIRE_KIND_EXPORT && e->context != NULL &&
            tp_random_equal(e->name, name, sizeof(e->name))) {
            return is_valid(e) ? e : NULL;
        }
    }
    return NULL;
}

/* Frees a peer whose stream never began, or has ended and is in no use. @return false: it
 * stays */
static bool
reap(struct tp_exec_peer *p)
{
    enum tp_exec_peer_step step;

    tp_mutex_lock(&p->x->peers.lock);
    step = p->step;
    tp_mutex_unlock(&p->x->peers.lock);
    if (p->stream != NULL &&
        (step != TP_EXEC_PEER_LOST || atomic_load(&p->operations) > 0 ||
         !tp_exec_transfers_remove_peer(p->x->transfers, p->stream))) {
        return false;
    }
    tp_exec_peer_remove(p);
    return true;
}

static size_t
count_endpoints(struct tp_exec *x)
{
    size_t cursor = 0, count = 0;
    void *value;

    while (tp_map_next(&x->peers.map, &cursor, NULL, &value)) {
        count += ((const struct tp_exec_peer *)value)->export != NULL;
    }
    return count;
}

size_t
tp_exec_endpoints_reap(struct tp_exec *x)
{
    size_t cursor = 0, left = 0;
    void *value;

    while (tp_map_next(&x->peers.map, &cursor, NULL, &value)) {
        struct tp_exec_peer *p = value;

        left += p->export != NULL && !reap(p);
    }
    return left;
}

struct tp_exec_peer *
tp_exec_endpoint_new(struct tp_exec *x, const uint8_t name[TP_WIRE_SESSION_BYTES])
{
    struct tp_exec_export *e = find_export(x, name);
    struct tp_exec_peer *p;

    if (e == NULL || count_endpoints(x) >= TP_EXEC_ENDPOINTS_MAX ||
        x->peers.endpoints >= COUNTER_MAX ||
        tp_exec_peer_add(x, (COUNTER_MAX | x->peers.endpoints) << 32, &p) !=
            TELPHER_OK) {
        tp_info("executor", "a stream to an exported buffer is refused");
        return NULL;
    }
    x->peers.endpoints++;
    p->accepts = true;
    p->export = e;
    tp_exec_ref(&e->obj);
    return p;
}

/* ---- operations of holders ---- */

/* A read or a write that the holder of an endpoint has started. */
struct operation {
    struct tp_exec_peer *peer;
    uint64_t event; /* user event of the holder, set when the operation ends; 0: none */
};

/* Sets the event of an operation and uncounts it, after which the peer may be freed. */
static void
end_operation(struct tp_exec_peer *p, uint64_t event, int32_t error)
{
    if (event != 0) {
        tp_exec_bulk_put(p->stream, TP_WIRE_USER_EVENT_SET,
                         &(struct tp_wire_user_event_set){event, TP_MIN(error, 0)});
        tp_exec_bulk_kick(p->stream);
    }
    atomic_fetch_sub(&p->operations, 1);
}

/* Any thread, without locks. */
static void
finished(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct operation *o = arg;

    end_operation(o->peer, o->event, error);
    tp_free(o);
}

static int32_t
check_access(const struct tp_exec_export *e, const struct tp_wire_endpoint *m)
{
    if (!is_valid(e)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if ((e->rights & m->access) == 0) {
        return CL_INVALID_OPERATION;
    }
    return m->size <= e->size && m->offset <= e->size - m->size ? 0 : CL_INVALID_VALUE;
}

/* Answers an operation that is not allowed. Its content, which may come already, is
 * dropped. */
static telpher_status
refuse_operation(struct tp_exec_peer *p, const struct tp_wire_endpoint *m,
                 int32_t error)
{
    telpher_status status = TELPHER_OK;

    if (m->access == TP_WIRE_EXPORT_READ) {
        tp_exec_peer_abort(p->stream, m->transfer, error);
    } else {
        status = tp_exec_transfers_discard(p->x->transfers, m->transfer | p->number,
                                           m->size, false, p->stream);
    }
    end_operation(p, m->event, error);
    return status;
}

static telpher_status
start_operation(struct tp_exec_peer *p, const struct tp_wire_endpoint *m)
{
    struct tp_exec_export *e = p->export;
    int32_t error = check_access(e, m);
    struct operation *o =
        error == 0 ? tp_malloc(sizeof(*o), "operation on an export") : NULL;
    struct tp_exec_transfer_params params = {
        .id = m->transfer | p->number,
        .size = m->size,
        .to_client = m->access == TP_WIRE_EXPORT_READ,
        .eager = e->is_pinned,
        .peer = p->stream,
        .device = e->device,
        .mem = e->mem,
        .box = tp_device_range(e->offset + m->offset, m->size),
        .finished = finished,
        .arg = o};
    telpher_status status;

    if (o == NULL) {
        return refuse_operation(p, m, error != 0 ? error : CL_OUT_OF_HOST_MEMORY);
    }
    *o = (struct operation){p, m->event};
    status = tp_exec_transfers_start(p->x->transfers, &params);
    if (status != TELPHER_OK) {
        tp_free(o);
        end_operation(p, m->event, CL_OUT_OF_HOST_MEMORY);
    }
    return status;
}

static bool
is_proper(const struct tp_wire_endpoint *m)
{
    return m->peer == 0 && tp_wire_id_kind(m->transfer) == TP_WIRE_KIND_TRANSFER &&
           (m->transfer & TP_WIRE_ENDPOINT_NAMES) == 0 &&
           (m->event == 0 || tp_wire_id_kind(m->event) == TP_WIRE_KIND_EVENT) &&
           m->size > 0 && m->size < TP_WIRE_TRANSFER_MAX &&
           (m->access == TP_WIRE_EXPORT_READ || m->access == TP_WIRE_EXPORT_WRITE);
}

static telpher_status
on_holder_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct tp_exec_peer *p = arg;
    struct tp_wire_endpoint m;

    if (type != TP_WIRE_ENDPOINT || !tp_wire_get_endpoint(body, end, &m) ||
        !is_proper(&m)) {
        return TELPHER_ERR_PROTO;
    }
    if (atomic_fetch_add(&p->operations, 1) >= TP_EXEC_ENDPOINT_OPERATIONS_MAX) {
        atomic_fetch_sub(&p->operations, 1);
        return TELPHER_ERR_LIMIT;
    }
    return start_operation(p, &m);
}

static void
on_holder_lost(void *arg, telpher_status status)
{
    struct tp_exec_peer *p = arg;

    tp_exec_bulk_break(p->stream, status); /* so that the holder sees the end */
    (void)tp_exec_peer_set_step(p, TP_EXEC_PEER_LOST);
}

const struct tp_exec_peer_handler tp_exec_endpoint_handler = {.frame = on_holder_frame,
                                                              .lost = on_holder_lost};

/* ---- what the client asks of another server ---- */

telpher_status
tp_exec_on_endpoint(struct tp_exec *x, const struct tp_wire_endpoint *m)
{
    struct tp_exec_bulk *stream = tp_exec_peer_stream(x, m->peer, NULL);
    struct tp_wire_endpoint copy = *m;

    if (stream != NULL) { /* else the commands on its content fail */
        copy.peer = 0;
        tp_exec_bulk_put(stream, TP_WIRE_ENDPOINT, &copy);
        atomic_store(&x->peers.dirty, true);
    }
    return TELPHER_OK;
}
