/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends: to a rank of this process by one copy, to others eagerly or by a channel. Small
 * contiguous data needs neither a request nor an allocation.
 */
#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

/* Passes a message to the core, which allocates from the process's heap. */
static inline telpher_status
send_msg(uint32_t process, const void *params, size_t params_len,
         const telpher_msg_buffer *buffer, const telpher_xfer_params *xfer)
{
    const struct tp_ampi_end *end = &tp_ampi.ends[process];
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    telpher_status status =
        telpher_msg_send(end->ctx, end->rank, TP_AMPI_HANDLER, params, params_len,
                         buffer, buffer != NULL, xfer, NULL);

    (void)tp_ampi_heap_use(heap);
    return status;
}

telpher_status
tp_ampi_transmit(uint32_t process, const struct tp_ampi_envelope *env, const void *data,
                 size_t len)
{
    tp_ampi.sent += env->kind < TP_AMPI_ABORT && process < tp_ampi.processes;
    memcpy(tp_ampi.out, env, sizeof(*env));
    if (len != 0) {
        memcpy(tp_ampi.out + sizeof(*env), data, len);
    }
    return send_msg(process, tp_ampi.out, sizeof(*env) + len, NULL, NULL);
}

/* Eager data is always copied when the call returns. */
static void
sent_at_once(void *user, telpher_status status, size_t len)
{
    (void)user, (void)status, (void)len;
}

/* An eager message, whose data the transport copies from the program's memory. */
static telpher_status
transmit_eager(uint32_t process, const struct tp_ampi_envelope *env, const void *data)
{
    static const telpher_xfer_params xfer = {.struct_size = sizeof(xfer),
                                             .on_done = sent_at_once};
    const telpher_msg_buffer buffer = {(void *)(uintptr_t)data, (size_t)env->len};

    tp_ampi.sent += process < tp_ampi.processes;
    return send_msg(process, env, sizeof(*env), &buffer, &xfer);
}

static inline bool
is_small(const struct tp_ampi_place *place, size_t len)
{
    return len <= UINT8_MAX && place->local <= UINT16_MAX;
}

size_t
tp_ampi_eager_max(uint32_t process)
{
    struct tp_ampi_end *end = &tp_ampi.ends[process];

    if (tp_unlikely(end->eager_max == 0)) {
        struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
        size_t params = telpher_msg_params_max(end->ctx, end->rank);

        (void)tp_ampi_heap_use(heap);
        end->eager_max = TP_MIN(params, (size_t)TP_AMPI_OUT_BYTES) -
                         TP_MIN(params, sizeof(struct tp_ampi_envelope));
    }
    return end->eager_max;
}

static inline const struct tp_ampi_place *
place_of(const struct tp_ampi_comm *comm, int rank)
{
    return tp_unlikely(comm->routes != NULL)
               ? &comm->routes[rank].place
               : &tp_ampi.places[comm->peers->world[rank]];
}

static inline uint32_t
context_of(const struct tp_ampi_comm *comm, unsigned lane, int to)
{
    return lane + (tp_unlikely(comm->routes != NULL) ? comm->routes[to].context
                                                     : comm->context);
}

static inline struct tp_ampi_envelope
envelope(const struct tp_ampi_comm *comm, unsigned lane, int to, int tag, size_t len)
{
    return (struct tp_ampi_envelope){.kind = TP_AMPI_EAGER,
                                     .to = place_of(comm, to)->local,
                                     .context = context_of(comm, lane, to),
                                     .source = comm->rank,
                                     .tag = tag,
                                     .len = len};
}

/* Any transport takes so little data eagerly. */
static telpher_status
transmit_small(const struct tp_ampi_place *place, const struct tp_ampi_small *small,
               const void *data)
{
    const struct tp_ampi_end *end = &tp_ampi.ends[place->process];
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    telpher_status status;

    tp_ampi.sent += place->process < tp_ampi.processes;
    *(struct tp_ampi_small *)(void *)tp_ampi.out = *small;
    if (small->len == sizeof(uint64_t)) { /* without a call of memcpy() */
        memcpy(tp_ampi.out + sizeof(*small), data, sizeof(uint64_t));
    } else if (small->len != 0) {
        memcpy(tp_ampi.out + sizeof(*small), data, small->len);
    }
    status = telpher_msg_send(end->ctx, end->rank, TP_AMPI_HANDLER, tp_ampi.out,
                              sizeof(*small) + small->len, NULL, 0, NULL, NULL);
    (void)tp_ampi_heap_use(heap);
    return status;
}

static int
send_failed(const struct tp_ampi_comm *comm, telpher_status status, int to)
{
    return tp_ampi_error(
        (struct tp_ampi_comm *)comm, tp_ampi_class_of(status),
        "sending to rank %d of %s: %s", to, comm->name,
        telpher_last_error(tp_ampi.ends[place_of(comm, to)->process].ctx));
}

/* To a rank of this process: into its receive, or into a copy. @return false: too long */
static bool
send_local(const struct tp_ampi_envelope *env, const void *data, int *ret_error)
{
    struct tp_ampi_mail *mail = tp_ampi_mail_of(tp_ampi.ranks[env->to], env->context);
    struct tp_ampi_request *req = mail != NULL ? tp_ampi_match_posted(mail, env) : NULL;

    *ret_error = mail != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    if (req != NULL) {
        tp_ampi_take_eager(req, env, data);
        return true;
    }
    if (mail == NULL || env->len > TP_AMPI_LOCAL_EAGER) {
        return mail == NULL;
    }
    if (tp_ampi_keep(mail, env, tp_ampi.process, data) == NULL) {
        *ret_error = MPI_ERR_NO_MEM;
    }
    return true;
}

bool
tp_ampi_send_now(struct tp_ampi_comm *comm, unsigned lane, const void *buf,
                 size_t count, MPI_Datatype type, int to, int tag, int *ret_error)
{
    const struct tp_ampi_place *place = place_of(comm, to);
    struct tp_ampi_envelope env;
    ptrdiff_t offset;
    size_t len;
    telpher_status status;

    if (!tp_ampi_type_span(type, count, &offset, &len) ||
        (len != 0 && tp_ampi_is_device((const char *)buf + offset))) {
        return false;
    }
    if (place->process != tp_ampi.process && is_small(place, len)) {
        const struct tp_ampi_small small = {.kind = TP_AMPI_SMALL,
                                            .len = (uint8_t)len,
                                            .to = (uint16_t)place->local,
                                            .context = context_of(comm, lane, to),
                                            .source = comm->rank,
                                            .tag = tag};

        status = transmit_small(place, &small, (const char *)buf + offset);
        *ret_error = status >= 0 ? MPI_SUCCESS : send_failed(comm, status, to);
        return true;
    }
    env = envelope(comm, lane, to, tag, len);
    if (place->process == tp_ampi.process) {
        return send_local(&env, (const char *)buf + offset, ret_error);
    }
    if (len > tp_ampi_eager_max(place->process)) {
        return false;
    }
    status = transmit_eager(place->process, &env, (const char *)buf + offset);
    *ret_error = status >= 0 ? MPI_SUCCESS : send_failed(comm, status, to);
    return true;
}

/* ---- sends with a request ---- */

static void
sent(void *user, telpher_status status, size_t len)
{
    (void)len;
    tp_ampi_request_part(user, tp_ampi_class_of(status));
}

static int
start_local(struct tp_ampi_request *req, struct tp_ampi_envelope *env)
{
    struct tp_ampi_mail *mail = tp_ampi_mail_of(tp_ampi.ranks[env->to], env->context);
    struct tp_ampi_request *receive =
        mail != NULL ? tp_ampi_match_posted(mail, env) : NULL;
    struct tp_ampi_unexpected *u;

    if (receive != NULL) {
        tp_ampi_take_local(receive, req, env->source);
        return MPI_SUCCESS;
    }
    env->kind = TP_AMPI_LOCAL;
    u = mail != NULL ? tp_ampi_keep(mail, env, tp_ampi.process, NULL) : NULL;
    if (u == NULL) {
        return MPI_ERR_NO_MEM;
    }
    u->sender = req;
    return MPI_SUCCESS;
}

/* The envelope, and then the data on a channel. */
static telpher_status
start_long(struct tp_ampi_request *req, uint32_t process, struct tp_ampi_envelope *env)
{
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = sent, .user = req};
    bool sync = (env->flags & TP_AMPI_SYNC) != 0;
    telpher_channel *channel;
    struct tp_ampi_heap *heap;
    telpher_status status;

    env->kind = TP_AMPI_LONG;
    env->id = tp_ampi_channel_take(process, sync ? req : NULL);
    channel = env->id != UINT32_MAX ? tp_ampi_channel_get(process, env->id) : NULL;
    if (channel == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    req->parts = 1 + sync;
    status = tp_ampi_transmit(process, env, NULL, 0);
    if (status < 0) {
        return status;
    }
    heap = tp_ampi_heap_use(NULL);
    status = telpher_channel_send(channel, req->data, req->cap, &xfer, NULL);
    (void)tp_ampi_heap_use(heap);
    if (status == TELPHER_OK) {
        tp_ampi_request_part(req, MPI_SUCCESS);
    }
    return status;
}

static telpher_status
start_eager(struct tp_ampi_request *req, uint32_t process, struct tp_ampi_envelope *env)
{
    bool sync = (env->flags & TP_AMPI_SYNC) != 0;
    telpher_status status;

    if (sync && req->handle == 0) { /* MATCHED names it */
        req->handle = tp_ampi_handle_create(TP_AMPI_REQUEST, req);
        if (req->handle == 0) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    env->id = (uint32_t)req->handle;
    req->parts = 1 + sync;
    status = transmit_eager(process, env, req->data);
    if (status >= 0) {
        tp_ampi_request_part(req, MPI_SUCCESS);
    }
    return status;
}

int
tp_ampi_start_send(struct tp_ampi_request *req)
{
    struct tp_ampi_comm *comm = req->comm;
    const struct tp_ampi_place *place = place_of(comm, req->peer);
    struct tp_ampi_envelope env;
    telpher_status status;
    int error = tp_ampi_request_layout(req, true);

    req->parts = 1;
    tp_list_push_back(&tp_ampi.sending, &req->link);
    if (error != MPI_SUCCESS) {
        tp_ampi_request_complete(req, error);
        return error;
    }
    env = envelope(comm, req->lane, req->peer, req->tag, req->cap);
    env.flags = req->mode == TP_AMPI_SYNCHRONOUS ? TP_AMPI_SYNC : 0;
    if (place->process == tp_ampi.process) {
        error = start_local(req, &env);
    } else {
        status = req->cap <= tp_ampi_eager_max(place->process) &&
                         (req->cap == 0 || !tp_ampi_is_device(req->data))
                     ? start_eager(req, place->process, &env)
                     : start_long(req, place->process, &env);
        error = status >= 0 ? MPI_SUCCESS : send_failed(comm, status, req->peer);
    }
    if (error != MPI_SUCCESS && !req->complete) {
        tp_ampi_request_complete(req, error);
    }
    return error;
}

void
tp_ampi_on_matched(uint32_t id)
{
    struct tp_ampi_request *req = tp_ampi_handle_get((int)id, TP_AMPI_REQUEST);

    if (req != NULL && req->kind == TP_AMPI_SEND_REQUEST && req->parts != 0) {
        tp_ampi_request_part(req, MPI_SUCCESS);
    }
}

void
tp_ampi_on_released(uint32_t process, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tp_ampi_request *req = tp_ampi_channel_released(process, ids[i]);

        if (req != NULL) {
            tp_ampi_request_part(req, MPI_SUCCESS);
        }
    }
}
