/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported buffers: a token names a part of a buffer at its server, and programs that have it put
 * content there and get content from there. Of a put or get by another OpenCL program this
 * process sees the end only: the content goes from its server to the exporting one.
 */
#include <telpher/interop/opencl.h>

#include "icd/commands/entry.h"
#include "icd/commands/geometry.h"
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/migration/migration.h"
#include "icd/migration/range_events.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/random.h"
#include "base/trace/log.h"

_Static_assert((int)TELPHER_OPENCL_TOKEN_BYTES == (int)TP_BUFFER_TOKEN_BYTES,
               "the public size is that of the text");
_Static_assert((int)TELPHER_OPENCL_GET == (int)TP_WIRE_EXPORT_READ &&
                   (int)TELPHER_OPENCL_PUT == (int)TP_WIRE_EXPORT_WRITE,
               "the public rights are those of the wire");

/* ---- what this program exports ------------------------------------------------------------ */

static cl_int
check_export(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size,
             cl_uint rights, const char *token)
{
    const cl_uint all = TELPHER_OPENCL_GET | TELPHER_OPENCL_PUT;
    cl_int err;

    if (tp_icd_check(queue, TP_ICD_QUEUE) == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    err = tp_icd_buffer_check(queue, buffer);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (token == NULL || size == 0 || !tp_icd_range_fits(offset, size, buffer->size) ||
        (rights & all) == 0 || (rights & ~all) != 0) {
        return CL_INVALID_VALUE;
    }
    if (tp_icd_mem_root(buffer)->svm != NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    return tp_icd_session_exports(queue->session) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

/** Makes the content valid at the queue's server, and waits for that. */
static cl_int
settle_content(cl_command_queue queue, cl_mem buffer)
{
    cl_event ev;
    cl_int err = tp_clEnqueueMigrateMemObjects(queue, 1, &buffer, 0, 0, NULL, &ev);

    if (err == CL_SUCCESS) {
        err = tp_clWaitForEvents(1, &ev);
        (void)tp_clReleaseEvent(ev);
    }
    return err;
}

/** Has the server export, and learns its address. */
static cl_int
request_export(const struct _cl_command_queue *queue, const struct _cl_mem *buffer,
               size_t offset, cl_ulong lifetime_ms, uint64_t id,
               struct tp_buffer_token *token)
{
    const struct tp_wire_export msg = {.request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
                                       .id = id,
                                       .queue = queue->obj.id,
                                       .mem = buffer->obj.id,
                                       .rights = token->rights,
                                       .offset = offset,
                                       .size = token->size,
                                       .lifetime_ms = lifetime_ms,
                                       .name = {sizeof(token->name), token->name},
                                       .key = {sizeof(token->key), token->key}};
    char text[256] = "";
    telpher_status status =
        tp_icd_peer_request(queue->session, TP_WIRE_EXPORT, msg.request, &msg, text);

    if (status == TELPHER_OK) {
        tp_icd_peer_address(queue->session, NULL, text, token->address,
                            sizeof(token->address));
        status = tp_icd_peer_open_route(queue->session, text, token->address,
                                        token->name, token->key, text);
        if (status != TELPHER_OK) {
            tp_icd_lock();
            tp_icd_put_release(queue->session, id);
            tp_icd_unlock();
        }
    }
    if (status != TELPHER_OK) {
        tp_warn("icd", "%s: a buffer of %llu bytes cannot be exported: %s: %s",
                queue->dev->server->address, (unsigned long long)token->size,
                telpher_status_text(status), text);
    }
    return status == TELPHER_OK ? CL_SUCCESS : tp_icd_cl_error(status);
}

static cl_int
export_buffer(cl_command_queue queue, cl_mem buffer, size_t offset,
              cl_ulong lifetime_ms, struct tp_buffer_token *token)
{
    struct _cl_mem *root = tp_icd_mem_root(buffer);
    struct tp_icd_export *e = tp_zalloc(sizeof(*e), "export");
    cl_int err = e == NULL ? CL_OUT_OF_HOST_MEMORY : settle_content(queue, buffer);

    if (err == CL_SUCCESS &&
        (tp_random_bytes(token->name, sizeof(token->name)) != TELPHER_OK ||
         tp_random_bytes(token->key, sizeof(token->key)) != TELPHER_OK)) {
        err = CL_OUT_OF_RESOURCES;
    }
    if (err == CL_SUCCESS) {
        e->id = tp_icd_new_id(TP_WIRE_KIND_EXPORT);
        e->session_index = queue->session_index;
        e->rights = token->rights;
        e->span.from = buffer->origin + offset;
        e->span.to = e->span.from + token->size;
        memcpy(e->name, token->name, sizeof(e->name));
        err = request_export(queue, buffer, offset, lifetime_ms, e->id, token);
    }
    if (err != CL_SUCCESS) {
        tp_free(e);
        return err;
    }
    tp_icd_lock();
    err = tp_icd_mem_open(root, e);
    if (err != CL_SUCCESS) {
        tp_icd_put_release(queue->session, e->id);
        tp_free(e);
    }
    tp_icd_unlock();
    return err;
}

cl_int CL_API_CALL
tp_clExportBufferTELPHER(cl_command_queue queue, cl_mem buffer, size_t offset,
                         size_t size, cl_uint rights, cl_ulong lifetime_ms, char *token)
{
    struct tp_buffer_token t = {.rights = (uint8_t)rights, .size = size};
    cl_int err = check_export(queue, buffer, offset, size, rights, token);

    if (err == CL_SUCCESS) {
        err = export_buffer(queue, buffer, offset, lifetime_ms, &t);
    }
    if (err == CL_SUCCESS) {
        t.expiry_s = lifetime_ms == 0
                         ? 0
                         : tp_clock_realtime_ns() / TP_CLOCK_S + lifetime_ms / 1000;
        (void)tp_buffer_token_write(&t, token); /* the address fits */
    }
    explicit_bzero(t.key, sizeof(t.key));
    return err;
}

cl_int CL_API_CALL
tp_clRevokeBufferTELPHER(cl_mem buffer, const char *token)
{
    struct tp_buffer_token t;
    struct _cl_mem *root;
    struct tp_icd_session *session = NULL;

    if (tp_icd_check(buffer, TP_ICD_MEM) == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (token == NULL || !tp_buffer_token_read(token, &t)) {
        return CL_INVALID_VALUE;
    }
    explicit_bzero(t.key, sizeof(t.key));
    root = tp_icd_mem_root(buffer);
    tp_icd_lock();
    for (struct tp_icd_export **at = &root->exports; *at != NULL; at = &(*at)->next) {
        struct tp_icd_export *e = *at;

        if (memcmp(e->name, t.name, sizeof(t.name)) == 0) {
            *at = e->next;
            session = root->ctx->sessions[e->session_index];
            tp_icd_put_release(session, e->id);
            tp_free(e);
            break;
        }
    }
    tp_icd_unlock();
    if (session == NULL) {
        return CL_INVALID_VALUE;
    }
    tp_icd_flush(session);
    return CL_SUCCESS;
}

/* ---- what others have exported -------------------------------------------------------------- */

/** A put or a get. */
struct access {
    struct _cl_mem *mem;
    size_t offset, size;
    uint64_t token_offset;
    uint32_t peer; /**< the stream to the exporting server */
};

static struct tp_wire_endpoint
endpoint_of(const struct access *a, uint8_t how, uint64_t event)
{
    return (struct tp_wire_endpoint){.peer = a->peer,
                                     .access = how,
                                     .transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER),
                                     .event = event,
                                     .offset = a->token_offset,
                                     .size = a->size};
}

/** A put has ended when the exporting server says so, by an event that a marker waits for. */
static cl_int
put_put(struct tp_icd_op *op, void *arg)
{
    const struct access *a = arg;
    struct tp_icd_session *session = op->q->session;
    uint64_t pushed = tp_icd_new_id(TP_WIRE_KIND_EVENT),
             ended = tp_icd_new_id(TP_WIRE_KIND_EVENT);
    struct tp_wire_endpoint endpoint = endpoint_of(a, TP_WIRE_EXPORT_WRITE, ended);

    if ((endpoint.transfer & TP_WIRE_ENDPOINT_NAMES) != 0) {
        return CL_OUT_OF_RESOURCES;
    }
    tp_icd_put(session, TP_WIRE_ENDPOINT, &endpoint);
    tp_icd_put(session, TP_WIRE_PEER_EVENT,
               &(struct tp_wire_peer_event){ended, op->q->ctx->obj.id, a->peer});
    tp_icd_put(session, TP_WIRE_PUSH,
               &(struct tp_wire_push){.event = pushed,
                                      .queue = op->q->obj.id,
                                      .mem = a->mem->obj.id,
                                      .peer = a->peer,
                                      .offset = a->offset,
                                      .size = a->size,
                                      .transfer = endpoint.transfer,
                                      .wait = tp_icd_op_ids(op)});
    tp_icd_put(session, TP_WIRE_MARKER,
               &(struct tp_wire_marker){.event = tp_icd_op_event_id(op),
                                        .queue = op->q->obj.id,
                                        .flags = op->flags,
                                        .wait = {1, &ended}});
    tp_icd_put_release(session, pushed);
    tp_icd_put_release(session, ended);
    return CL_SUCCESS;
}

static cl_int
put_get(struct tp_icd_op *op, void *arg)
{
    const struct access *a = arg;
    struct tp_wire_endpoint endpoint = endpoint_of(a, TP_WIRE_EXPORT_READ, 0);

    if ((endpoint.transfer & TP_WIRE_ENDPOINT_NAMES) != 0) {
        return CL_OUT_OF_RESOURCES;
    }
    tp_icd_put(op->q->session, TP_WIRE_ENDPOINT, &endpoint);
    tp_icd_put(op->q->session, TP_WIRE_PULL,
               &(struct tp_wire_pull){.event = tp_icd_op_event_id(op),
                                      .queue = op->q->obj.id,
                                      .mem = a->mem->obj.id,
                                      .flags = op->flags,
                                      .peer = a->peer,
                                      .offset = a->offset,
                                      .size = a->size,
                                      .transfer = endpoint.transfer,
                                      .wait = tp_icd_op_ids(op)});
    return CL_SUCCESS;
}

static cl_int
check_access(const struct tp_icd_op *op, const struct access *a, const char *text,
             uint8_t how, struct tp_buffer_token *ret_token)
{
    cl_int err = tp_icd_buffer_check(op->q, a->mem);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (a->size == 0 || !tp_icd_range_fits(a->offset, a->size, a->mem->size) ||
        text == NULL || !tp_buffer_token_read(text, ret_token) ||
        a->size > ret_token->size || a->token_offset > ret_token->size - a->size) {
        return CL_INVALID_VALUE;
    }
    return (ret_token->rights & how) != 0 && tp_icd_session_exports(op->q->session)
               ? CL_SUCCESS
               : CL_INVALID_OPERATION;
}

static cl_int
run_access(struct tp_icd_op *op, struct access *a, const char *text, uint8_t how)
{
    bool reads = how == TP_WIRE_EXPORT_READ;
    struct tp_icd_use use = {
        a->mem, reads ? TP_ICD_USE_WRITE | TP_ICD_USE_WHOLE : TP_ICD_USE_READ,
        a->offset, a->size};
    struct tp_buffer_token token;
    cl_int err = check_access(op, a, text, how, &token);

    if (err != CL_SUCCESS) {
        return err;
    }
    a->peer = tp_icd_peer_import(op->q->session, &token);
    explicit_bzero(token.key, sizeof(token.key));
    if (a->peer == 0) {
        return CL_DEVICE_NOT_AVAILABLE;
    }
    op->need_event = true;
    op->uses = &use;
    op->use_count = 1;
    return tp_icd_op_run(op, reads ? put_get : put_put, a);
}

TP_ICD_ENQUEUE(PutTELPHER, COPY_BUFFER,
               (cl_mem buffer, size_t offset, size_t size, const char *token,
                cl_ulong token_offset),
               run_access(op, &(struct access){buffer, offset, size, token_offset, 0},
                          token, TP_WIRE_EXPORT_WRITE))
TP_ICD_ENQUEUE(GetTELPHER, COPY_BUFFER,
               (cl_mem buffer, size_t offset, size_t size, const char *token,
                cl_ulong token_offset),
               run_access(op, &(struct access){buffer, offset, size, token_offset, 0},
                          token, TP_WIRE_EXPORT_READ))
