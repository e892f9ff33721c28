/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided accesses of this rank. The target's bytes are walked as runs. Runs in memory of this
 * process are accessed directly; others travel in messages of several runs and their data, or,
 * a long run of a put or a get, on a channel.
 */
#include "ampi/window.h"

#include <string.h>

#include "ampi/op.h"
#include "base/alloc.h"

enum { SEGMENTS_MAX = 64 };

/* ---- runs of the target's bytes ---- */

struct cursor {
    uint64_t at; /* of the element */
    const struct tp_ampi_run *runs;
    struct tp_ampi_run whole; /* of elements without gaps */
    uint32_t run_count, run;
    size_t count, element, used; /* used: bytes of the run */
    MPI_Aint extent;
};

static void
cursor_init(struct cursor *c, uint64_t at, const struct tp_ampi_type *type,
            size_t count)
{
    bool is_plain = type->dense || tp_ampi_is_predefined(type->handle);

    *c = (struct cursor){.at = at, .extent = type->ub - type->lb, .count = count};
    if (is_plain) { /* gaps of predefined types travel too */
        c->whole.len = count * (size_t)c->extent;
        c->runs = &c->whole;
        c->run_count = 1;
        c->count = c->whole.len != 0;
    } else {
        c->runs = type->runs;
        c->run_count = type->run_count;
    }
    if (c->run_count == 0) {
        c->count = 0;
    }
}

static bool
is_at_end(const struct cursor *c)
{
    return c->element == c->count;
}

/* [bytes] left of the run. */
static size_t
run_left(const struct cursor *c)
{
    return c->runs[c->run].len - c->used;
}

/* Takes at most @p max bytes of a run. */
static struct tp_ampi_segment
take(struct cursor *c, size_t max)
{
    size_t len = TP_MIN(max, run_left(c));
    struct tp_ampi_segment segment = {
        c->at + (uint64_t)(c->runs[c->run].at + (MPI_Aint)c->used), len};

    c->used += len;
    if (run_left(c) == 0) {
        c->used = 0;
        if (++c->run == c->run_count) {
            c->run = 0;
            c->element++;
            c->at += (uint64_t)c->extent;
        }
    }
    return segment;
}

/* ---- an access ---- */

struct job {
    enum tp_ampi_wish wish;
    struct tp_ampi_win *win;
    int target;
    MPI_Op op;
    MPI_Datatype element;
    size_t unit; /* [bytes] of an element, which is not split */
    const char *out; /* the next byte that is sent; NULL: none is */
    bool out_stays; /* the memory of `out` is the program's */
    bool device; /* memory of this rank is a device's */
    struct tp_ampi_access *access; /* what comes back; NULL: nothing */
    size_t offset; /* in what comes back */
    struct tp_ampi_request *request;
    struct cursor cursor;
};

/* Runs in memory of this process. @param shift  from the target's addresses */
static void
access_direct(struct job *job, ptrdiff_t shift, bool device)
{
    while (!is_at_end(&job->cursor)) {
        struct tp_ampi_segment s = take(&job->cursor, SIZE_MAX);
        char *at = (char *)(uintptr_t)s.at + shift;

        tp_ampi_win_execute(
            device, job->wish, job->op, job->element, at, (size_t)s.len, job->out,
            job->access != NULL ? job->access->data + job->offset : NULL);
        job->out += job->out != NULL ? s.len : 0;
        job->offset += s.len;
    }
    if (job->access != NULL && job->offset != 0) {
        tp_ampi_access_got(job->access, job->offset);
    }
}

static telpher_status
post(struct job *job, enum tp_ampi_wish wish, const void *body, size_t len)
{
    struct tp_ampi_win *win = job->win;
    const struct tp_ampi_place *place =
        &tp_ampi.places[win->comm->group->world[job->target]];
    const struct tp_ampi_envelope env = {
        .kind = TP_AMPI_ONE_SIDED,
        .flags = (uint8_t)wish,
        .to = place->local,
        .context = win->comm->context,
        .source = win->comm->rank,
        .id = job->access != NULL ? (uint32_t)job->access->handle : 0,
        .len = len};

    return tp_ampi_transmit(place->process, &env, body, len);
}

/* One message: runs, and their data. */
static telpher_status
access_batch(struct job *job, size_t max)
{
    _Alignas(16) char body[TP_AMPI_OUT_BYTES];
    struct tp_ampi_access_head *head = (void *)body;
    struct tp_ampi_segment *segments = (void *)(head + 1);
    uint32_t limit = (uint32_t)TP_MIN(max / 64, (size_t)SEGMENTS_MAX);
    size_t room =
        (max - sizeof(*head) - limit * sizeof(*segments)) / job->unit * job->unit;
    size_t total = 0, len;

    *head = (struct tp_ampi_access_head){
        .type = job->element, .op = job->op, .offset = job->offset};
    while (head->segments < limit && total < room && !is_at_end(&job->cursor)) {
        segments[head->segments] = take(&job->cursor, room - total);
        total += (size_t)segments[head->segments++].len;
    }
    len = (size_t)((char *)(segments + head->segments) - body);
    if (job->out != NULL) {
        size_t sent = job->wish == TP_AMPI_SWAP ? 2 * total : total;

        if (tp_unlikely(job->device)) {
            telpher_status status = tp_ampi_mem_copy(body + len, job->out, sent);

            if (status != TELPHER_OK) {
                return status;
            }
        } else {
            memcpy(body + len, job->out, sent);
        }
        job->out += total;
        len += sent;
    }
    job->offset += total;
    return post(job, job->wish, body, len);
}

/* Of a put or a get of one run, whose data travels on a channel. */
struct long_body {
    struct tp_ampi_access_head head;
    struct tp_ampi_segment segment;
};

/* The target knows of the put and waits for its data, so an error ends the job. */
static void
long_sent(void *user, telpher_status status, size_t len)
{
    (void)len;
    if (status != TELPHER_OK) {
        tp_ampi_access_failed("long put", status);
    }
    tp_ampi_access_got(user, 0);
}

/* An access object: memory that the target fills, or that a long put reads. */
static struct tp_ampi_access *
take_access(struct job *job, size_t total)
{
    struct tp_ampi_access *a = tp_zalloc(sizeof(*a), "one-sided access");

    if (a != NULL) {
        a->handle = tp_ampi_handle_create(TP_AMPI_ACCESS, a);
    }
    if (a == NULL || a->handle == 0) {
        tp_free(a);
        return NULL;
    }
    a->win = job->win;
    a->target = job->target;
    a->total = total;
    a->type = MPI_DATATYPE_NULL;
    a->request = job->request;
    if (a->request != NULL) {
        a->request->parts++;
    }
    job->win->parts[job->target].pending++;
    return a;
}

/* Takes a channel, which is named to the target only if the rest of the put was made. */
static telpher_channel *
take_channel(uint32_t process, uint32_t *ret_id)
{
    telpher_channel *channel = NULL;

    *ret_id = tp_ampi_channel_take(process, NULL);
    if (*ret_id != UINT32_MAX) {
        channel = tp_ampi_channel_get(process, *ret_id);
        if (channel == NULL) {
            (void)tp_ampi_channel_released(process, *ret_id);
        }
    }
    return channel;
}

/* Names the put to the target, then sends its data. Takes @p access. */
static telpher_status
send_long(struct job *job, telpher_channel *channel, struct tp_ampi_access *access,
          const struct long_body *body)
{
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = long_sent, .user = access};
    telpher_status status = post(job, TP_AMPI_PUT_LONG, body, sizeof(*body));

    if (status < 0) {
        tp_ampi_access_got(access, 0); /* a later flush does not wait for it */
        return status;
    }
    status =
        telpher_channel_send(channel, job->out, (size_t)body->segment.len, &xfer, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        long_sent(access, status, 0);
    }
    return status;
}

/* A run whose data follows on a channel, straight from the program's memory. */
static telpher_status
put_long(struct job *job, uint32_t process)
{
    struct long_body body = {.head = {.segments = 1},
                             .segment = take(&job->cursor, SIZE_MAX)};
    telpher_channel *channel = take_channel(process, &body.head.channel);
    struct tp_ampi_access *access = channel != NULL ? take_access(job, 0) : NULL;
    telpher_status status =
        access != NULL ? send_long(job, channel, access, &body) : TELPHER_ERR_NO_MEMORY;

    if (status < 0 && channel != NULL) {
        (void)tp_ampi_channel_released(process, body.head.channel);
    }
    job->out += body.segment.len;
    return status;
}

/* A get whose data follows on a channel. */
static telpher_status
get_long(struct job *job)
{
    struct long_body body = {.head = {.segments = 1, .offset = job->offset},
                             .segment = take(&job->cursor, SIZE_MAX)};

    job->offset += body.segment.len;
    return post(job, TP_AMPI_GET, &body, sizeof(body));
}

static telpher_status
access_remote(struct job *job)
{
    uint32_t process =
        tp_ampi.places[job->win->comm->group->world[job->target]].process;
    size_t max = tp_ampi_eager_max(process), asked = 0;
    telpher_status status = TELPHER_OK;

    job->win->parts[job->target].dirty |=
        job->wish == TP_AMPI_PUT || job->wish == TP_AMPI_ACCUMULATE;
    while (!is_at_end(&job->cursor) && status >= 0) {
        bool is_long =
            run_left(&job->cursor) > max - sizeof(struct tp_ampi_access_head);

        asked = job->offset;
        if (is_long && job->wish == TP_AMPI_PUT && job->out_stays) {
            status = put_long(job, process);
        } else if (is_long && job->wish == TP_AMPI_GET) {
            status = get_long(job);
        } else {
            status = access_batch(job, max);
        }
    }
    if (status < 0 && job->access != NULL) {
        job->access->total = asked; /* nothing answers the rest */
        tp_ampi_access_got(job->access, 0);
    }
    return status;
}

/* Are all runs memory of the target's window? */
static bool
has_runs(const struct tp_ampi_win *there, struct cursor cursor)
{
    while (!is_at_end(&cursor)) {
        struct tp_ampi_segment s = take(&cursor, SIZE_MAX);

        if (!tp_ampi_win_has(there, s.at, s.len)) {
            return false;
        }
    }
    return true;
}

/* At a rank of this process. @return an error class, which was reported */
static int
access_local(struct job *job)
{
    const struct tp_ampi_win *there = tp_ampi_win_of(job->win, job->target);

    if (there == NULL || ((there->flavor == MPI_WIN_FLAVOR_DYNAMIC || there->device) &&
                          !has_runs(there, job->cursor))) {
        if (job->access != NULL) {
            job->access->total = 0;
            tp_ampi_access_got(job->access, 0);
        }
        return tp_ampi_win_error(job->win, MPI_ERR_RMA_RANGE,
                                 "the memory of rank %d is not attached to the "
                                 "window, or was freed",
                                 job->target);
    }
    access_direct(job, 0, job->device || there->device);
    return MPI_SUCCESS;
}

static int
run(struct job *job)
{
    struct tp_ampi_part *part = &job->win->parts[job->target];
    bool moves = job->wish == TP_AMPI_PUT || job->wish == TP_AMPI_GET;
    telpher_status status = TELPHER_OK;

    if (tp_ampi_win_is_local(job->win, job->target)) {
        return access_local(job);
    }
    if (part->mapped != NULL && moves) {
        access_direct(job, part->mapped - (char *)(uintptr_t)part->base, job->device);
    } else {
        status = access_remote(job);
    }
    return tp_ampi_win_error(job->win,
                             status >= 0 ? MPI_SUCCESS : tp_ampi_class_of(status),
                             "access to rank %d of a window: %s", job->target,
                             status >= 0 ? "" : telpher_last_error(tp_ampi.ctx));
}

/* ---- arguments ---- */

struct side {
    void *at;
    int count;
    MPI_Datatype type;
};

static bool
has_no_gaps(const struct side *side)
{
    ptrdiff_t offset;
    size_t len;

    return tp_ampi_is_predefined(side->type) ||
           tp_ampi_type_span(side->type, (size_t)side->count, &offset, &len);
}

static const struct tp_ampi_type *
check_type(struct job *job, const struct side *side, int *error)
{
    struct tp_ampi_win *win = job->win;
    const struct tp_ampi_type *type = tp_ampi_type_get(side->type);

    if (type == NULL || !type->committed) {
        *error = tp_ampi_win_error(win, MPI_ERR_TYPE,
                                   "%#x is no datatype, or not committed", side->type);
    } else if (side->count < 0) {
        *error = tp_ampi_win_error(win, MPI_ERR_COUNT, "a count of %d is negative",
                                   side->count);
    } else if (!tp_ampi_type_fits(side->type, (size_t)side->count)) {
        *error = tp_ampi_win_error(
            win, MPI_ERR_COUNT, "%d elements are longer than any memory", side->count);
    } else if (side->count > 0 && side->at != NULL && tp_ampi_is_device(side->at)) {
        job->device = true;
        if (!has_no_gaps(side)) {
            *error = tp_ampi_win_error(win, MPI_ERR_BUFFER,
                                       "elements with gaps in device memory: copy them "
                                       "to host memory");
        }
    }
    return type;
}

/* Where the target's bytes begin, if they are in its part. */
static int
locate(struct tp_ampi_win *win, int target, MPI_Aint disp,
       const struct tp_ampi_type *type, size_t count, uint64_t *ret)
{
    const struct tp_ampi_part *part = &win->parts[target];
    MPI_Aint start, span, first, end;

    *ret = part->base + (uint64_t)disp * (uint64_t)part->unit;
    if (win->flavor == MPI_WIN_FLAVOR_DYNAMIC || count == 0) {
        return MPI_SUCCESS; /* the target checks */
    }
    if (__builtin_mul_overflow(disp, part->unit, &start) ||
        __builtin_mul_overflow(count - 1, type->ub - type->lb, &span) ||
        __builtin_add_overflow(start, type->true_lb + TP_MIN(span, (MPI_Aint)0),
                               &first) ||
        __builtin_add_overflow(start, type->true_ub + TP_MAX(span, (MPI_Aint)0),
                               &end) ||
        first < 0 || (uint64_t)end > part->size) {
        return tp_ampi_win_error(win, MPI_ERR_RMA_RANGE,
                                 "%zu elements at %zd are not in the part of rank %d, "
                                 "which has %zu bytes",
                                 count, disp, target, (size_t)part->size);
    }
    return MPI_SUCCESS;
}

/* The data that is sent: in the program's memory, or packed. */
static int
set_out(struct job *job, const struct side *out, void **ret_packed)
{
    ptrdiff_t offset = 0;
    size_t len;

    if (tp_ampi_is_predefined(out->type) ||
        tp_ampi_type_span(out->type, (size_t)out->count, &offset, &len)) {
        job->out = (const char *)out->at + offset;
        job->out_stays = true;
        return MPI_SUCCESS;
    }
    *ret_packed = tp_malloc(len, "one-sided access");
    if (*ret_packed == NULL) {
        return MPI_ERR_NO_MEM;
    }
    tp_ampi_type_pack(out->at, (size_t)out->count, out->type, *ret_packed);
    job->out = *ret_packed;
    return MPI_SUCCESS;
}

/* The memory that is filled. */
static int
set_in(struct job *job, const struct side *in, size_t total)
{
    struct tp_ampi_access *access = take_access(job, total);
    ptrdiff_t offset = 0;
    size_t len;

    if (access == NULL) {
        return MPI_ERR_NO_MEM;
    }
    job->access = access;
    access->buf = in->at;
    access->count = (size_t)in->count;
    access->type = in->type;
    access->device = job->device;
    tp_ampi_type_ref(in->type);
    if (tp_ampi_is_predefined(in->type) ||
        tp_ampi_type_span(in->type, access->count, &offset, &len)) {
        access->data = (char *)in->at + offset;
        return MPI_SUCCESS;
    }
    access->packed = tp_malloc(total, "one-sided access");
    access->data = access->packed;
    if (access->packed == NULL) {
        access->total = 0;
        tp_ampi_access_got(access, 0);
        return MPI_ERR_NO_MEM;
    }
    return MPI_SUCCESS;
}

/* Bytes that an access moves. @return SIZE_MAX: the types of both sides do not match */
static size_t
total_of(const struct tp_ampi_type *type, size_t count, const struct side *side)
{
    const struct tp_ampi_type *own = tp_ampi_type_get(side->type);

    if (tp_ampi_is_predefined(type->handle) && !type->dense) { /* as C has them */
        return own == type && (size_t)side->count == count
                   ? count * (size_t)(type->ub - type->lb)
                   : SIZE_MAX;
    }
    return (tp_ampi_is_predefined(own->handle) && !own->dense) ||
                   own->size * (size_t)side->count < type->size * count
               ? SIZE_MAX
               : type->size * count;
}

/* Sets the element of an operation. @return an error class, which was reported */
static int
set_element(struct job *job, const struct tp_ampi_type *type)
{
    const struct tp_ampi_type *element = tp_ampi_type_get(type->element);

    if (job->unit != 0) {
        return MPI_SUCCESS; /* widen() has set it */
    }
    job->unit = 1;
    if (job->wish == TP_AMPI_PUT || job->wish == TP_AMPI_GET || type->size == 0) {
        return MPI_SUCCESS;
    }
    if (element == NULL || (!element->dense && type != element)) {
        return tp_ampi_win_error(job->win, MPI_ERR_TYPE,
                                 "%s does not consist of one predefined type without "
                                 "gaps",
                                 type->name[0] != '\0' ? type->name : "the datatype");
    }
    if (job->wish != TP_AMPI_SWAP && (!tp_ampi_is_predefined(job->op) ||
                                      !tp_ampi_op_fits(job->op, element->handle))) {
        return tp_ampi_win_error(job->win, MPI_ERR_OP, "operation %#x does not take %s",
                                 job->op, element->name);
    }
    job->element = element->handle;
    job->unit = (size_t)(element->ub - element->lb);
    return MPI_SUCCESS;
}

/* Checks that both sides agree. @return an error class, which was reported */
static int
prepare(struct job *job, const struct side *out, const struct side *in,
        const struct side *there, MPI_Aint disp, size_t *ret_total)
{
    const struct side *sides[3] = {there, out, in};
    const struct tp_ampi_type *type = NULL;
    int error = MPI_SUCCESS;
    uint64_t at;

    for (int i = 2; i >= 0 && error == MPI_SUCCESS; i--) {
        if (sides[i] != NULL) {
            type = check_type(job, sides[i], &error);
        }
        if (error == MPI_SUCCESS && i > 0 && sides[i] != NULL && sides[i]->count > 0 &&
            tp_ampi_is_missing(sides[i]->at, sides[i]->type)) {
            error =
                tp_ampi_win_error(job->win, MPI_ERR_BUFFER,
                                  "the buffer of %d elements is NULL", sides[i]->count);
        }
    }
    if (error == MPI_SUCCESS) {
        error = locate(job->win, job->target, disp, type, (size_t)there->count, &at);
    }
    if (error == MPI_SUCCESS) {
        error = set_element(job, type);
    }
    if (error != MPI_SUCCESS) {
        return error;
    }
    cursor_init(&job->cursor, at, type, (size_t)there->count);
    *ret_total = out != NULL ? total_of(type, (size_t)there->count, out) : 0;
    if (in != NULL && *ret_total != SIZE_MAX) {
        *ret_total = total_of(type, (size_t)there->count, in);
    }
    return *ret_total != SIZE_MAX
               ? MPI_SUCCESS
               : tp_ampi_win_error(job->win, MPI_ERR_TYPE,
                                   "the data of origin and target do not match");
}

/* ---- operations on pairs with gaps ---- */

static bool
is_of_pairs(const struct side *side)
{
    const struct tp_ampi_type *type =
                                  side != NULL ? tp_ampi_type_get(side->type) : NULL,
                              *element;

    element = type != NULL && type->size != 0 ? tp_ampi_type_get(type->element) : NULL;
    return element != NULL && type != element && !element->dense;
}

/* A type of the same elements, each of which has all bytes of its extent. */
static int
make_wide(const struct tp_ampi_type *type, const struct tp_ampi_type *element,
          MPI_Datatype *ret)
{
    const MPI_Datatype byte = MPI_BYTE;
    const struct tp_ampi_contents contents = {
        .combiner = MPI_COMBINER_CONTIGUOUS, .types = &byte, .type_count = 1};
    size_t count = type->size / element->size, used = 0;
    struct tp_ampi_block *blocks = tp_alloc_array(count, sizeof(blocks[0]), "MPI type");
    struct tp_ampi_type *made = NULL;
    const struct tp_ampi_run *run = type->runs;
    int error = MPI_ERR_NO_MEM;

    for (size_t i = 0; blocks != NULL && i < count; i++) {
        blocks[i] = (struct tp_ampi_block){
            run->at + (MPI_Aint)used - element->runs[0].at,
            (size_t)(element->ub - element->lb), tp_ampi_type_get(byte)};
        used += element->size;
        while (run < type->runs + type->run_count && used >= run->len) {
            used -= run->len;
            run++;
        }
    }
    if (blocks != NULL) {
        error = tp_ampi_type_make(blocks, count, &contents, &made);
    }
    tp_free(blocks);
    error = tp_ampi_type_give(made, error, ret);
    if (error == MPI_SUCCESS) {
        made->committed = true;
        made->dense = false;
        made->lb = type->lb;
        made->ub = type->ub;
    }
    return error;
}

/*
 * An operation takes pairs as C has them. Where types of pairs with gaps leave these out, both sides
 * get types with them. @param made  to be dropped; MPI_DATATYPE_NULL: none
 */
static int
widen(struct job *job, struct side *sides[3], MPI_Datatype made[3])
{
    const struct tp_ampi_type *element;
    int error = MPI_SUCCESS;

    element = tp_ampi_type_get(sides[0]->type);
    element = element != NULL ? tp_ampi_type_get(element->element) : NULL;
    for (int i = 0; i < 3 && error == MPI_SUCCESS; i++) {
        const struct tp_ampi_type *type =
            sides[i] != NULL ? tp_ampi_type_get(sides[i]->type) : NULL;

        if (sides[i] == NULL) {
            continue;
        }
        if (type == NULL || !type->committed || element == NULL ||
            type->element != element->handle ||
            !tp_ampi_op_fits(job->op, element->handle)) {
            return tp_ampi_win_error(
                job->win, MPI_ERR_TYPE,
                "the types are of different elements, or operation "
                "%#x does not take them",
                job->op);
        }
        error = make_wide(type, element, &made[i]);
        sides[i]->type = made[i];
    }
    if (error == MPI_SUCCESS) {
        job->element = element->handle;
        job->unit = (size_t)(element->ub - element->lb);
    }
    return error;
}

static int
execute(struct job *job, const struct side *out, const struct side *in,
        const struct side *there, MPI_Aint disp)
{
    void *packed = NULL;
    size_t total;
    int error = prepare(job, out, in, there, disp, &total);

    if (error != MPI_SUCCESS || total == 0) {
        return error;
    }
    if (out != NULL) {
        error = set_out(job, out, &packed);
    }
    if (error == MPI_SUCCESS && in != NULL) {
        error = set_in(job, in, total);
    }
    error =
        error == MPI_SUCCESS
            ? run(job)
            : tp_ampi_win_error(job->win, error, "no memory for a one-sided access");
    tp_free(packed);
    return error;
}

/* ---- calls ---- */

/* A request that accesses take parts of, and this call another. */
static struct tp_ampi_request *
make_request(MPI_Request *ret)
{
    struct tp_ampi_request *req = tp_ampi_request_take(TP_AMPI_LIGHT_REQUEST);

    if (req != NULL) {
        req->handle = tp_ampi_handle_create(TP_AMPI_REQUEST, req);
        if (req->handle == 0) {
            tp_ampi_request_give(req);
            return NULL;
        }
        req->owner = tp_ampi_current();
        req->active = true;
        req->parts = 1;
        *ret = req->handle;
    }
    return req;
}

/* Is this rank in an epoch in which it may access the target? */
static bool
may_access(const struct tp_ampi_win *win, int target)
{
    return win->fenced || win->parts[target].lock != 0 ||
           (win->started != NULL &&
            tp_ampi_group_rank_of(win->started, win->comm->group->world[target]) !=
                MPI_UNDEFINED);
}

/* Executes with wide types, where there are some. */
static int
execute_wide(struct job *job, const struct side *out, const struct side *in,
             const struct side *there, MPI_Aint disp)
{
    bool combines = job->wish == TP_AMPI_ACCUMULATE || job->wish == TP_AMPI_FETCH;
    struct side copies[3] = {*there};
    struct side *sides[3] = {&copies[0], NULL, NULL};
    MPI_Datatype made[3] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    int error;

    if (!combines || !(is_of_pairs(out) || is_of_pairs(in) || is_of_pairs(there))) {
        return execute(job, out, in, there, disp);
    }
    if (out != NULL) {
        copies[1] = *out;
        sides[1] = &copies[1];
    }
    if (in != NULL) {
        copies[2] = *in;
        sides[2] = &copies[2];
    }
    error = widen(job, sides, made);
    if (error == MPI_SUCCESS) {
        error = execute(job, sides[1], sides[2], sides[0], disp);
    }
    for (int i = 0; i < 3; i++) {
        if (made[i] != MPI_DATATYPE_NULL) {
            tp_ampi_type_unref(made[i]);
        }
    }
    return error;
}

/* Starts an access. @param out, in  what the origin sends and receives, or NULL */
static int
begin(MPI_Win handle, enum tp_ampi_wish wish, const struct side *out,
      const struct side *in, int target, MPI_Aint disp, int count, MPI_Datatype type,
      MPI_Op op, MPI_Request *request)
{
    const struct side there = {NULL, count, type};
    struct job job = {.wish = wish, .target = target, .op = op};
    int error = MPI_SUCCESS;

    tp_ampi_enter();
    job.win = tp_ampi_win_find(handle);
    if (job.win == NULL) {
        error = MPI_ERR_WIN;
    } else if (target != MPI_PROC_NULL &&
               (target < 0 || target >= job.win->comm->size)) {
        error = tp_ampi_win_error(job.win, MPI_ERR_RANK,
                                  "there is no rank %d: the window has %d", target,
                                  job.win->comm->size);
    } else if (target != MPI_PROC_NULL && !may_access(job.win, target)) {
        error = tp_ampi_win_error(job.win, MPI_ERR_RMA_SYNC,
                                  "no fence, lock or start has begun an access to "
                                  "rank %d",
                                  target);
    } else if (request != NULL) {
        job.request = make_request(request);
        error = tp_ampi_win_error(job.win,
                                  job.request != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM,
                                  "no memory for a request");
    }
    if (error == MPI_SUCCESS && target != MPI_PROC_NULL &&
        !(wish == TP_AMPI_ACCUMULATE && op == MPI_NO_OP)) {
        error = execute_wide(&job, out, in, &there, disp);
    }
    if (job.request != NULL) {
        tp_ampi_request_part(job.request, error);
    }
    tp_ampi_leave();
    return error;
}

#define SIDE(at, count, type)                                                          \
    &(const struct side) { (void *)(uintptr_t)(at), count, type }

/*
 * ACCESS(name, name with a request, parameters, arguments, window, wish, out side, in side,
 * target and its bytes, operation)
 */
#define UNPACK(...) __VA_ARGS__
#define ACCESS(Name, Rname, params, args, wish, out_side, in_side, op)                 \
    static int start_##Name(UNPACK params, MPI_Request *request)                       \
    {                                                                                  \
        return begin(win, wish, out_side, in_side, target, disp, count, type, op,      \
                     request);                                                         \
    }                                                                                  \
    int PMPI_##Name(UNPACK params) { return start_##Name(UNPACK args, NULL); }         \
    TP_MPI_NAME(Name);                                                                 \
    int PMPI_##Rname(UNPACK params, MPI_Request *request)                              \
    {                                                                                  \
        return start_##Name(UNPACK args, request);                                     \
    }                                                                                  \
    TP_MPI_NAME(Rname)

/* clang-format off */
ACCESS(Put, Rput,
    (const void *out, int out_count, MPI_Datatype out_type, int target, MPI_Aint disp, int count, MPI_Datatype type,
     MPI_Win win),
    (out, out_count, out_type, target, disp, count, type, win),
    TP_AMPI_PUT, SIDE(out, out_count, out_type), NULL, MPI_REPLACE);
ACCESS(Get, Rget,
    (void *in, int in_count, MPI_Datatype in_type, int target, MPI_Aint disp, int count, MPI_Datatype type,
     MPI_Win win),
    (in, in_count, in_type, target, disp, count, type, win),
    TP_AMPI_GET, NULL, SIDE(in, in_count, in_type), MPI_NO_OP);
ACCESS(Accumulate, Raccumulate,
    (const void *out, int out_count, MPI_Datatype out_type, int target, MPI_Aint disp, int count, MPI_Datatype type,
     MPI_Op op, MPI_Win win),
    (out, out_count, out_type, target, disp, count, type, op, win),
    TP_AMPI_ACCUMULATE, SIDE(out, out_count, out_type), NULL, op);
ACCESS(Get_accumulate, Rget_accumulate,
    (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int target,
     MPI_Aint disp, int count, MPI_Datatype type, MPI_Op op, MPI_Win win),
    (out, out_count, out_type, in, in_count, in_type, target, disp, count, type, op, win),
    TP_AMPI_FETCH, op == MPI_NO_OP ? NULL : SIDE(out, out_count, out_type), SIDE(in, in_count, in_type), op);
/* clang-format on */

int
PMPI_Fetch_and_op(const void *out, void *in, MPI_Datatype type, int target,
                  MPI_Aint disp, MPI_Op op, MPI_Win win)
{
    return begin(win, TP_AMPI_FETCH, op == MPI_NO_OP ? NULL : SIDE(out, 1, type),
                 SIDE(in, 1, type), target, disp, 1, type, op, NULL);
}
TP_MPI_NAME(Fetch_and_op);

/* @return an error class, which was reported */
static int
copy_value(void *to, const void *from, size_t len)
{
    if (tp_unlikely(tp_ampi_is_device(from))) {
        return tp_ampi_copy_memory(NULL, to, from, len);
    }
    memcpy(to, from, len);
    return MPI_SUCCESS;
}

int
PMPI_Compare_and_swap(const void *out, const void *compare, void *in, MPI_Datatype type,
                      int target, MPI_Aint disp, MPI_Win win)
{
    size_t size = tp_ampi_type_size(type);
    char both[2 * 32];
    int error;

    if (!tp_ampi_op_fits(MPI_BAND, type) || !tp_ampi_is_predefined(type)) {
        struct tp_ampi_win *at = tp_ampi_win_find(win);

        return at == NULL ? MPI_ERR_WIN
                          : tp_ampi_win_error(at, MPI_ERR_TYPE,
                                              "datatype %#x is no integer, logical or "
                                              "byte of the standard",
                                              type);
    }
    tp_ampi_enter();
    error = copy_value(both, compare, size);
    if (error == MPI_SUCCESS) {
        error = copy_value(both + size, out, size);
    }
    tp_ampi_leave();
    if (error != MPI_SUCCESS) {
        return error;
    }
    return begin(win, TP_AMPI_SWAP, SIDE(both, 2, type), SIDE(in, 1, type), target,
                 disp, 1, type, MPI_NO_OP, NULL);
}
TP_MPI_NAME(Compare_and_swap);
