/* SPDX-License-Identifier: Apache-2.0 */
/* Receives: messages meet posted receives, or are kept until one is posted. */
#include <string.h>

#include "ampi/move/copies.h"
#include "ampi/process.h"
#include "ampi/window.h"
#include "base/alloc.h"
#include "base/trace/log.h"

int
tp_ampi_request_layout(struct tp_ampi_request *req, bool pack)
{
    ptrdiff_t offset;

    req->packed = NULL;
    if (tp_unlikely(req->comm->routes != NULL) && tp_ampi_is_device(req->buf)) {
        return MPI_ERR_BUFFER; /* other jobs' contexts do not know it */
    }
    if (tp_ampi_type_span(req->type, req->count, &offset, &req->cap) &&
        req->mode != TP_AMPI_BUFFERED) {
        req->data = (char *)req->buf + offset;
        return MPI_SUCCESS;
    }
    req->packed = tp_malloc(req->cap, "packed MPI data");
    if (req->packed == NULL) {
        return MPI_ERR_NO_MEM;
    }
    if (pack) {
        tp_ampi_type_pack(req->buf, req->count, req->type, req->packed);
    }
    req->data = req->packed;
    return MPI_SUCCESS;
}

static void
set_got(struct tp_ampi_request *req, int source, int tag, size_t len)
{
    req->source = source;
    req->got_tag = tag;
    req->got = TP_MIN(len, req->cap);
}

static int
class_of_len(const struct tp_ampi_request *req, size_t len)
{
    return len > req->cap ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

/* Only logs an error: the call that completes the receive reports it. */
static int
copy_device(void *dst, const void *src, size_t len, int source)
{
    telpher_status status = tp_ampi_mem_copy(dst, src, len);

    if (status != TELPHER_OK) {
        tp_error("ampi",
                 "message of rank %d: cannot copy %zu bytes of device memory: %s",
                 source, len, telpher_status_text(status));
    }
    return tp_ampi_class_of(status);
}

static inline int
copy(void *dst, const void *src, size_t len, bool from_device, int source)
{
    if (len == 0) {
        return MPI_SUCCESS;
    }
    if (tp_unlikely(from_device || tp_ampi_is_device(dst))) {
        return copy_device(dst, src, len, source);
    }
    if (len == sizeof(uint64_t)) { /* without a call of memcpy() */
        memcpy(dst, src, sizeof(uint64_t));
    } else {
        memcpy(dst, src, len);
    }
    return MPI_SUCCESS;
}

static inline void
take(struct tp_ampi_request *req, const struct tp_ampi_envelope *env, const void *data,
     bool from_device)
{
    size_t len = (size_t)env->len;
    int error = MPI_SUCCESS;

    set_got(req, env->source, env->tag, len);
    if (req->packed != NULL) {
        tp_ampi_type_unpack(data, req->got, req->buf, req->count, req->type);
    } else {
        error = copy(req->data, data, req->got, from_device, env->source);
    }
    tp_ampi_request_complete(req,
                             error == MPI_SUCCESS ? class_of_len(req, len) : error);
}

void
tp_ampi_take_eager(struct tp_ampi_request *req, const struct tp_ampi_envelope *env,
                   const void *data)
{
    take(req, env, data, false);
}

void
tp_ampi_take_local(struct tp_ampi_request *req, struct tp_ampi_request *sender,
                   int source)
{
    const struct tp_ampi_envelope env = {
        .source = source, .tag = sender->tag, .len = sender->cap};

    take(req, &env, sender->data, sender->cap != 0 && tp_ampi_is_device(sender->data));
    tp_ampi_request_part(sender, MPI_SUCCESS);
}

/* ---- long data ---- */

static void
end_long(struct tp_ampi_request *req, telpher_status status, size_t len)
{
    int error = status == TELPHER_OK ? MPI_SUCCESS : tp_ampi_class_of(status);

    req->got = TP_MIN(len, req->cap);
    if (req->packed != NULL) {
        tp_ampi_type_unpack(req->packed, req->got, req->buf, req->count, req->type);
    }
    tp_ampi_request_complete(req, error);
}

static void
received(void *user, telpher_status status, size_t len)
{
    tp_ampi.receiving--;
    end_long(user, status, len);
}

static void
take_long(struct tp_ampi_request *req, const struct tp_ampi_envelope *env,
          uint32_t process)
{
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = received, .user = req};
    telpher_channel *channel = tp_ampi_channel_get(process, env->id);
    telpher_status status = TELPHER_ERR_NO_MEMORY;
    struct tp_ampi_heap *heap;
    size_t len = 0;

    set_got(req, env->source, env->tag, (size_t)env->len);
    if (channel != NULL) {
        /* the channel is in order, so it may be named to the sender before data is here */
        heap = tp_ampi_heap_use(NULL);
        status = telpher_channel_recv(channel, req->data, req->cap, &xfer, NULL, &len);
        (void)tp_ampi_heap_use(heap);
        tp_ampi_channel_release(process, env->id, (env->flags & TP_AMPI_SYNC) != 0);
    }
    if (status != TELPHER_IN_PROGRESS) {
        end_long(req, status, len);
    } else {
        tp_ampi.receiving++;
    }
}

static void
tell_matched(const struct tp_ampi_envelope *env, uint32_t process)
{
    const struct tp_ampi_envelope answer = {.kind = TP_AMPI_MATCHED, .id = env->id};

    if ((env->flags & TP_AMPI_SYNC) != 0) {
        (void)tp_ampi_transmit(process, &answer, NULL, 0);
    }
}

/* ---- meeting ---- */

void
tp_ampi_take_unexpected(struct tp_ampi_request *req, struct tp_ampi_unexpected *u)
{
    switch (u->env.kind) {
    case TP_AMPI_EAGER:
        tell_matched(&u->env, u->process);
        tp_ampi_take_eager(req, &u->env, u->data);
        break;
    case TP_AMPI_LONG:
        take_long(req, &u->env, u->process);
        break;
    default:
        tp_ampi_take_local(req, u->sender, u->env.source);
        break;
    }
    tp_ampi_unexpected_destroy(u);
}

void
tp_ampi_post(struct tp_ampi_request *req)
{
    struct tp_ampi_mail *mail = req->comm->mail[req->lane];
    struct tp_ampi_unexpected *u;
    int error = tp_ampi_request_layout(req, false);

    if (error != MPI_SUCCESS) {
        tp_ampi_request_complete(req, error);
        return;
    }
    u = tp_ampi_match_unexpected(mail, req->peer, req->tag);
    if (u != NULL) {
        tp_ampi_take_unexpected(req, u);
    } else {
        tp_list_push_back(&mail->posted, &req->link);
    }
}

static void
on_data(const struct tp_ampi_envelope *env, uint32_t process, const void *data)
{
    struct tp_ampi_mail *mail = tp_ampi_mail_of(tp_ampi.ranks[env->to], env->context);
    struct tp_ampi_request *req = mail != NULL ? tp_ampi_match_posted(mail, env) : NULL;

    if (req == NULL) {
        if (env->kind == TP_AMPI_LONG) { /* the channel must be open before its data */
            (void)tp_ampi_channel_get(process, env->id);
        }
        if (mail == NULL || tp_ampi_keep(mail, env, process, data) == NULL) {
            tp_error("ampi", "no memory for a message of %zu bytes", (size_t)env->len);
            tp_ampi_abort(MPI_ERR_NO_MEM);
        }
    } else if (env->kind == TP_AMPI_LONG) {
        take_long(req, env, process);
    } else {
        tell_matched(env, process);
        tp_ampi_take_eager(req, env, data);
    }
}

static bool
take_small(const telpher_msg *msg, uint32_t process)
{
    const struct tp_ampi_small *small = msg->params;
    const struct tp_ampi_envelope env = {.kind = TP_AMPI_EAGER,
                                         .to = small->to,
                                         .context = small->context,
                                         .source = small->source,
                                         .tag = small->tag,
                                         .len = small->len};

    if (msg->params_len != sizeof(*small) + (size_t)env.len ||
        env.to >= tp_ampi.rank_count) {
        return false;
    }
    tp_ampi.received += process < tp_ampi.processes;
    on_data(&env, process, small + 1);
    return true;
}

/* Checks what the rest of this file relies on. */
static bool
is_sound(const telpher_msg *msg, const struct tp_ampi_envelope *env)
{
    size_t len = msg->params_len - sizeof(*env);

    switch (env->kind) {
    case TP_AMPI_EAGER:
        return len == 0 && msg->buffer_count == 1 && env->len == msg->buffers->len &&
               (env->len == 0 || msg->buffers->data != NULL) && /* else dropped */
               env->to < tp_ampi.rank_count;
    case TP_AMPI_ONE_SIDED:
        return env->len == len && env->to < tp_ampi.rank_count;
    case TP_AMPI_LONG:
        return len == 0 && env->to < tp_ampi.rank_count;
    case TP_AMPI_RELEASED:
        return len % sizeof(uint32_t) == 0 && env->len == len / sizeof(uint32_t);
    case TP_AMPI_TABLE:
        return env->len == len;
    case TP_AMPI_IDLE:
        return len == 2 * sizeof(uint64_t);
    case TP_AMPI_REPORT:
        return env->len == len && len == sizeof(struct tp_ampi_report);
    case TP_AMPI_FOUND:
        return env->len == len && len == sizeof(struct tp_mdr_found);
    case TP_AMPI_MOVE:
    case TP_AMPI_COPY:
        return env->len == len && len >= 2 * sizeof(uint64_t);
    default:
        return len == 0 && env->kind < TP_AMPI_LOCAL;
    }
}

/* A message whose envelope is sound. */
static void
take_message(uint32_t from, const struct tp_ampi_envelope *env, const void *data)
{
    tp_ampi.received += env->kind < TP_AMPI_ABORT && from < tp_ampi.processes;
    switch (env->kind) {
    case TP_AMPI_MATCHED:
        tp_ampi_on_matched(env->id);
        break;
    case TP_AMPI_RELEASED:
        tp_ampi_on_released(from, data, (size_t)env->len);
        break;
    case TP_AMPI_ONE_SIDED:
        tp_ampi_on_one_sided(from, env, data);
        break;
    case TP_AMPI_ABORT:
        tp_ampi_exit(env->tag);
    case TP_AMPI_MEET:
    case TP_AMPI_REFUSE:
    case TP_AMPI_REPORT:
    case TP_AMPI_MOVE:
    case TP_AMPI_FOUND:
    case TP_AMPI_COPY:
        tp_ampi_on_quiet(from, env, data);
        break;
    case TP_AMPI_IDLE:
    case TP_AMPI_ASK:
    case TP_AMPI_STUCK:
    case TP_AMPI_TABLE:
        tp_ampi_on_idle(from, env, data);
        break;
    default:
        on_data(env, from, data);
        break;
    }
}

/* The envelope may lie in memory that the sender can still write, so only a copy is used. */
void
tp_ampi_on_message(telpher_context *ctx, telpher_msg *msg, void *user)
{
    const struct tp_ampi_envelope *sent = msg->params;
    struct tp_ampi_envelope env = {.kind = TP_AMPI_LOCAL};
    uint32_t process = msg->from + (uint32_t)(uintptr_t)user;

    (void)ctx;
    if (tp_likely(msg->status == TELPHER_OK &&
                  msg->params_len >= sizeof(struct tp_ampi_small) &&
                  sent->kind == TP_AMPI_SMALL && take_small(msg, process))) {
        return;
    }
    if (msg->status == TELPHER_OK && msg->params_len >= sizeof(env)) {
        env = *sent;
    }
    if (msg->params_len < sizeof(env) || !is_sound(msg, &env)) {
        tp_error("ampi",
                 "ignored a malformed message of process %u: kind %d, %zu bytes (%s)",
                 process, (int)env.kind, msg->params_len,
                 telpher_status_text(msg->status));
        return;
    }
    take_message(process, &env,
                 env.kind == TP_AMPI_EAGER ? msg->buffers->data
                                           : (const void *)(sent + 1));
}
