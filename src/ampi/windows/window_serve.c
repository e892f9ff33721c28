/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of windows: the target executes accesses, the origin takes what it gets. */
#include "ampi/window.h"

#include <string.h>

#include "ampi/op.h"
#include "base/alloc.h"
#include "base/trace/log.h"

bool
tp_ampi_win_is_local(const struct tp_ampi_win *win, int rank)
{
    return tp_ampi.places[win->comm->group->world[rank]].process == tp_ampi.process;
}

struct tp_ampi_win *
tp_ampi_win_of(const struct tp_ampi_win *win, int rank)
{
    const struct tp_ampi_place *place = &tp_ampi.places[win->comm->group->world[rank]];
    const struct tp_ampi_mail *mail =
        tp_ampi_mail_of(tp_ampi.ranks[place->local], win->comm->context);

    return mail != NULL ? mail->window : NULL;
}

static void serve(struct tp_ampi_win *win, uint32_t process,
                  const struct tp_ampi_envelope *env, const void *body);

/* Sends to a member of another process. */
static void
transmit(struct tp_ampi_win *win, struct tp_ampi_envelope *env, int rank,
         const void *body, size_t len)
{
    const struct tp_ampi_place *place = &tp_ampi.places[win->comm->group->world[rank]];

    env->kind = TP_AMPI_ONE_SIDED;
    env->to = place->local;
    env->context = win->comm->context;
    env->source = win->comm->rank;
    env->len = len;
    if (tp_ampi_transmit(place->process, env, body, len) < 0) {
        tp_error("ampi", "cannot send to rank %d of a window: %s", rank,
                 telpher_last_error(tp_ampi.ctx));
        tp_ampi_abort(MPI_ERR_OTHER);
    }
}

void
tp_ampi_win_tell(struct tp_ampi_win *win, int rank, enum tp_ampi_wish wish, int tag)
{
    struct tp_ampi_envelope env = {
        .flags = (uint8_t)wish, .source = win->comm->rank, .tag = tag};

    if (tp_ampi_win_is_local(win, rank)) {
        serve(tp_ampi_win_of(win, rank), tp_ampi.process, &env, NULL);
    } else {
        transmit(win, &env, rank, NULL, 0);
    }
}

/* ---- the target ---- */

/* An operation on device memory, in copies in host memory. */
static telpher_status
execute_staged(enum tp_ampi_wish wish, MPI_Op op, MPI_Datatype type, void *at,
               size_t len, const void *data, void *before)
{
    size_t sent = data == NULL ? 0 : wish == TP_AMPI_SWAP ? 2 * len : len;
    char *copy = tp_malloc(2 * len + sent, "access to device memory");
    char *given = data != NULL ? copy + len : NULL, *found = copy + len + sent;
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (copy != NULL) {
        status = tp_ampi_mem_copy(copy, at, len);
    }
    if (status == TELPHER_OK && data != NULL) {
        status = tp_ampi_mem_copy(given, data, sent);
    }
    if (status == TELPHER_OK) {
        tp_ampi_win_execute(false, wish, op, type, copy, len, given,
                            before != NULL ? found : NULL);
        if (op != MPI_NO_OP || wish == TP_AMPI_SWAP) {
            status = tp_ampi_mem_copy(at, copy, len);
        }
    }
    if (status == TELPHER_OK && before != NULL) {
        status = tp_ampi_mem_copy(before, found, len);
    }
    tp_free(copy);
    return status;
}

static void
execute_on_device(enum tp_ampi_wish wish, MPI_Op op, MPI_Datatype type, void *at,
                  size_t len, const void *data, void *before)
{
    telpher_status status = wish == TP_AMPI_PUT ? tp_ampi_mem_copy(at, data, len)
                            : wish == TP_AMPI_GET
                                ? tp_ampi_mem_copy(before, at, len)
                                : execute_staged(wish, op, type, at, len, data, before);

    if (status != TELPHER_OK) {
        tp_ampi_access_failed("access to device memory", status);
    }
}

void
tp_ampi_win_execute(bool device, enum tp_ampi_wish wish, MPI_Op op, MPI_Datatype type,
                    void *at, size_t len, const void *data, void *before)
{
    const struct tp_ampi_type *element;

    if (tp_unlikely(device)) {
        execute_on_device(wish, op, type, at, len, data, before);
        return;
    }
    if (before != NULL) {
        memcpy(before, at, len);
    }
    if (op == MPI_REPLACE) { /* also a put */
        memcpy(at, data, len);
    } else if (wish == TP_AMPI_SWAP) { /* data: to compare with, new */
        if (memcmp(at, data, len) == 0) {
            memcpy(at, (const char *)data + len, len);
        }
    } else if (op != MPI_NO_OP) { /* as for a get */
        element = tp_ampi_type_get(type);
        tp_ampi_op_apply(op, data, at, len / (size_t)(element->ub - element->lb), type);
    }
}

/* A long put on its way into this rank's part, or a long answer on its way out. */
struct long_put {
    struct tp_ampi_win *win;
    int origin;
};

static void
count_arrived(struct tp_ampi_win *win, int origin)
{
    struct tp_ampi_part *part = &win->parts[origin];

    if (--part->incoming == 0 && part->flush_waits) {
        part->flush_waits = false;
        tp_ampi_win_tell(win, origin, TP_AMPI_FLUSHED, 0);
    }
}

_Noreturn void
tp_ampi_access_failed(const char *what, telpher_status status)
{
    tp_error("ampi", "%s: %s", what, telpher_status_text(status));
    tp_ampi_abort(MPI_ERR_OTHER);
}

static void
put_arrived(void *user, telpher_status status, size_t len)
{
    struct long_put *put = user;

    (void)len;
    if (status != TELPHER_OK) {
        tp_ampi_access_failed("long put", status);
    }
    tp_ampi.receiving--;
    count_arrived(put->win, put->origin);
    tp_free(put);
}

static void
take_long_put(struct tp_ampi_win *win, uint32_t process, int origin,
              uint32_t channel_id, const struct tp_ampi_segment *segment)
{
    struct long_put *put = tp_malloc(sizeof(*put), "long put");
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = put_arrived, .user = put};
    telpher_channel *channel = tp_ampi_channel_get(process, channel_id);
    telpher_status status = TELPHER_ERR_NO_MEMORY;
    size_t len = 0;

    if (put != NULL && channel != NULL) {
        *put = (struct long_put){win, origin};
        win->parts[origin].incoming++;
        tp_ampi.receiving++;
        status = telpher_channel_recv(channel, (void *)(uintptr_t)segment->at,
                                      (size_t)segment->len, &xfer, NULL, &len);
        tp_ampi_channel_release(process, channel_id, false);
    }
    if (status == TELPHER_OK) {
        put_arrived(put, status, len);
    } else if (status != TELPHER_IN_PROGRESS) {
        tp_ampi_access_failed("long put", status);
    }
}

static void
answer_sent(void *user, telpher_status status, size_t len)
{
    (void)user;
    (void)len;
    if (status != TELPHER_OK) {
        tp_ampi_access_failed("answer to a long get", status);
    }
}

/* Sends a run of bytes to its origin on a channel. */
static void
answer_long(struct tp_ampi_win *win, uint32_t process,
            const struct tp_ampi_envelope *env, struct tp_ampi_access_head *head,
            const struct tp_ampi_segment *segment)
{
    const telpher_xfer_params xfer = {.struct_size = sizeof(xfer),
                                      .on_done = answer_sent};
    struct {
        struct tp_ampi_access_head head;
        struct tp_ampi_segment segment;
    } body = {*head, *segment};
    struct tp_ampi_envelope answer = {.flags = TP_AMPI_GOT_LONG, .id = env->id};
    telpher_channel *channel;
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    body.head.segments = 1;
    body.head.channel = tp_ampi_channel_take(process, NULL);
    channel = body.head.channel != UINT32_MAX
                  ? tp_ampi_channel_get(process, body.head.channel)
                  : NULL;
    if (channel != NULL) {
        transmit(win, &answer, env->source, &body, sizeof(body));
        status = telpher_channel_send(channel, (void *)(uintptr_t)segment->at,
                                      (size_t)segment->len, &xfer, NULL);
    }
    if (status < 0) {
        tp_ampi_access_failed("answer to a long get", status);
    }
}

/* Executes an access whose data is in the message, and answers. */
static void
execute_all(struct tp_ampi_win *win, const struct tp_ampi_envelope *env,
            const struct tp_ampi_access_head *head, const char *data)
{
    const struct tp_ampi_segment *segments = (const void *)(head + 1);
    enum tp_ampi_wish wish = env->flags;
    bool answers = wish == TP_AMPI_GET || wish == TP_AMPI_FETCH || wish == TP_AMPI_SWAP;
    struct tp_ampi_envelope answer = {.flags = TP_AMPI_GOT, .id = env->id};
    _Alignas(16) char body[TP_AMPI_OUT_BYTES];
    char *before = body + sizeof(*head);

    for (uint32_t i = 0; i < head->segments; i++) {
        size_t len = (size_t)segments[i].len;

        tp_ampi_win_execute(win->device, wish, head->op, head->type,
                            (void *)(uintptr_t)segments[i].at, len, data,
                            answers ? before : NULL);
        data += wish == TP_AMPI_GET ? 0 : len;
        before += answers ? len : 0;
    }
    if (answers) {
        struct tp_ampi_access_head *own = (void *)body;

        *own = *head;
        own->segments = 0;
        transmit(win, &answer, env->source, body, (size_t)(before - body));
    }
}

/* Checks an access against its message and the window. @return bytes of all segments,
 * UINT64_MAX: it is not sound */
static uint64_t
check(const struct tp_ampi_win *win, const struct tp_ampi_envelope *env,
      const struct tp_ampi_access_head *head)
{
    const struct tp_ampi_segment *segments = (const void *)(head + 1);
    const struct tp_ampi_type *type;
    enum tp_ampi_wish wish = env->flags;
    bool operates = wish == TP_AMPI_ACCUMULATE || wish == TP_AMPI_FETCH;
    uint64_t total = 0, after = env->len - sizeof(*head);

    if (head->segments > after / sizeof(*segments)) {
        return UINT64_MAX;
    }
    after -= head->segments * sizeof(*segments);
    type = operates ? tp_ampi_type_get(head->type) : NULL;
    if (operates &&
        (type == NULL || !tp_ampi_is_predefined(head->type) ||
         !tp_ampi_is_predefined(head->op) || !tp_ampi_op_fits(head->op, head->type))) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < head->segments; i++) {
        if (!tp_ampi_win_has(win, segments[i].at, segments[i].len)) {
            return UINT64_MAX;
        }
        total += segments[i].len;
    }
    if ((wish == TP_AMPI_PUT || operates) &&
        after != (head->op == MPI_NO_OP ? 0 : total)) {
        return UINT64_MAX;
    }
    if (wish == TP_AMPI_SWAP && (head->segments != 1 || after != 2 * total)) {
        return UINT64_MAX;
    }
    return wish == TP_AMPI_PUT_LONG && head->segments != 1 ? UINT64_MAX : total;
}

static void
serve_access(struct tp_ampi_win *win, uint32_t process,
             const struct tp_ampi_envelope *env, const void *body)
{
    struct tp_ampi_access_head head;
    const struct tp_ampi_segment *segments = (const void *)((const char *)body + 32);
    uint64_t total = check(win, env, body);

    if (total == UINT64_MAX) {
        tp_error("ampi",
                 "rank %d accesses memory that is not in the window of rank %u, or was "
                 "freed, or with an unknown operation",
                 env->source, win->comm->owner->world);
        tp_ampi_abort(MPI_ERR_RMA_RANGE);
    }
    memcpy(&head, body, sizeof(head));
    if (env->flags == TP_AMPI_PUT_LONG) {
        take_long_put(win, process, env->source, head.channel, segments);
    } else if (env->flags == TP_AMPI_GET &&
               total > tp_ampi_eager_max(process) - sizeof(head)) {
        if (head.segments != 1) {
            tp_ampi_access_failed("get of too many runs", TELPHER_ERR_PROTO);
        }
        answer_long(win, process, env, &head, segments);
    } else {
        execute_all(win, env, body, (const char *)(segments + head.segments));
    }
}

/* ---- the origin ---- */

void
tp_ampi_access_got(struct tp_ampi_access *access, size_t len)
{
    struct tp_ampi_win *win = access->win;

    access->got += len;
    if (access->got < access->total) {
        return;
    }
    if (access->packed != NULL) {
        if (access->type != MPI_DATATYPE_NULL) {
            tp_ampi_type_unpack(access->packed, access->total, access->buf,
                                access->count, access->type);
        }
        tp_free(access->packed);
    }
    if (access->type != MPI_DATATYPE_NULL) {
        tp_ampi_type_unref(access->type);
    }
    if (access->request != NULL) {
        tp_ampi_request_part(access->request, MPI_SUCCESS);
    }
    win->parts[access->target].pending--;
    tp_ampi_handle_destroy(access->handle);
    tp_free(access);
    tp_ampi_win_signal(win);
}

static void
long_got(void *user, telpher_status status, size_t len)
{
    if (status != TELPHER_OK) {
        tp_ampi_access_failed("long get", status);
    }
    tp_ampi.receiving--;
    tp_ampi_access_got(user, len);
}

static void
take_answer(uint32_t process, const struct tp_ampi_envelope *env, const void *body)
{
    const struct tp_ampi_access_head *head = body;
    const struct tp_ampi_segment *segment = (const void *)(head + 1);
    struct tp_ampi_access *access = tp_ampi_handle_get((int)env->id, TP_AMPI_ACCESS);
    bool is_long = env->flags == TP_AMPI_GOT_LONG;
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = long_got, .user = access};
    size_t len = (size_t)env->len - sizeof(*head);
    telpher_channel *channel;
    telpher_status status;

    if (is_long) {
        len = len == sizeof(*segment) ? (size_t)segment->len : SIZE_MAX;
    }
    if (access == NULL || head->offset > access->total ||
        len > access->total - head->offset) {
        tp_ampi_access_failed("answer to a get", TELPHER_ERR_PROTO);
    }
    if (!is_long) {
        tp_ampi_win_execute(access->device, TP_AMPI_PUT, MPI_REPLACE, MPI_BYTE,
                            access->data + head->offset, len, head + 1, NULL);
        tp_ampi_access_got(access, len);
        return;
    }
    channel = tp_ampi_channel_get(process, head->channel);
    tp_ampi.receiving++;
    status = channel == NULL
                 ? TELPHER_ERR_NO_MEMORY
                 : telpher_channel_recv(channel, access->data + head->offset, len,
                                        &xfer, NULL, &len);
    if (channel != NULL) {
        tp_ampi_channel_release(process, head->channel, false);
    }
    if (status != TELPHER_IN_PROGRESS) {
        long_got(access, status, len);
    }
}

/* ---- messages ---- */

static void
serve_flush(struct tp_ampi_win *win, int origin)
{
    struct tp_ampi_part *part = &win->parts[origin];

    if (part->incoming != 0) {
        part->flush_waits = true;
    } else {
        tp_ampi_win_tell(win, origin, TP_AMPI_FLUSHED, 0);
    }
}

/* Messages without data. */
static void
serve_event(struct tp_ampi_win *win, const struct tp_ampi_envelope *env)
{
    struct tp_ampi_part *part = &win->parts[env->source];

    switch (env->flags) {
    case TP_AMPI_FLUSH:
        serve_flush(win, env->source);
        return;
    case TP_AMPI_LOCK:
        tp_ampi_win_on_lock(win, env->source, env->tag);
        return;
    case TP_AMPI_UNLOCK:
        tp_ampi_win_on_unlock(win, env->source);
        return;
    case TP_AMPI_FLUSHED:
        part->flushing = false;
        break;
    case TP_AMPI_GRANT:
        part->granted = true;
        break;
    case TP_AMPI_POST:
        part->posted++;
        break;
    default:
        part->completed++;
        break;
    }
    tp_ampi_win_signal(win);
}

static void
serve(struct tp_ampi_win *win, uint32_t process, const struct tp_ampi_envelope *env,
      const void *body)
{
    switch (env->flags) {
    case TP_AMPI_PUT:
    case TP_AMPI_PUT_LONG:
    case TP_AMPI_GET:
    case TP_AMPI_ACCUMULATE:
    case TP_AMPI_FETCH:
    case TP_AMPI_SWAP:
        serve_access(win, process, env, body);
        break;
    case TP_AMPI_GOT:
    case TP_AMPI_GOT_LONG:
        take_answer(process, env, body);
        break;
    default:
        serve_event(win, env);
        break;
    }
}

void
tp_ampi_on_one_sided(uint32_t process, const struct tp_ampi_envelope *env,
                     const void *body)
{
    struct tp_ampi_mail *mail = tp_ampi_mail_of(tp_ampi.ranks[env->to], env->context);
    struct tp_ampi_win *win = mail != NULL ? mail->window : NULL;

    if (win == NULL || env->flags >= TP_AMPI_WISHES || env->source < 0 ||
        env->source >= win->comm->size ||
        (env->flags < TP_AMPI_FLUSH ? env->len < sizeof(struct tp_ampi_access_head)
                                    : env->len != 0)) {
        tp_error("ampi",
                 "ignored a malformed access of process %u to a window: operation %u "
                 "of rank %d, %llu bytes",
                 process, (unsigned)env->flags, env->source,
                 (unsigned long long)env->len);
        return;
    }
    serve(win, process, env, body);
}
