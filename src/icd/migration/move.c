/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks where the content of a buffer is valid, and moves it to the session of a command.
 *
 * A context of one session tracks only whether the first content has arrived. In a context
 * of several sessions, every buffer without parent has a directory: for each range of bytes,
 * the places whose copy is current (or will be after a move in progress). Places are the
 * sessions, and this process for content given at creation. For each copy it also has the
 * commands that write it, the moves that read it and the moves that fill it, with their
 * ranges. All decisions are made at enqueue, in the order of the calls, without waiting for a
 * reply. Only ranges that are not current move, each from a place that has it. A move goes
 * from server to server (push.c), or is a READ from one session and a WRITE to another whose
 * content passes through a stage (staged_copy.c). The command that needs the content waits
 * for the second half.
 *
 * Ordering rules, for ranges that meet:
 *  - a move out of a session waits for all commands that write that copy;
 *  - a command that writes a copy waits for the moves out of it;
 *  - a move into a session waits for the writers and the moves of the old copy there;
 *  - the program orders all other commands, by events and queues.
 * A move need not wait for commands that only read a copy: the program orders the command
 * that overwrites it after them.
 */
#include "icd/commands/enqueue.h"
#include "icd/copies/copies.h"
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/migration/migration.h"
#include "icd/migration/range_events.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/container/ranges.h"

enum { WRITERS_MAX = 16 }; /* of one copy, before one marker replaces them */

/* Values of ranges beside the bits of sessions. */
#define HOST ((uint64_t)1 << 62) /* current in the stage `first` */
#define UNDEFINED ((uint64_t)1 << 63) /* there is no content: any copy will do */

/** The copy of a buffer in one session. */
struct copy {
    struct tp_icd_span_events writers; /**< commands that change it */
    struct tp_icd_span_events leaving; /**< moves that read it */
    struct tp_icd_span_events arriving; /**< moves that fill it */
};

struct tp_icd_directory {
    struct tp_ranges where; /**< places whose copy is current, or will be on arrival */
    struct tp_icd_stage *first; /**< content given at creation, until overwritten */
    struct copy copies[];
};

static uint64_t
bit_of(uint32_t session_index)
{
    return (uint64_t)1 << session_index;
}

/** The bytes of the buffer without parent that a command may touch. */
static struct tp_icd_span
span_of(const struct tp_icd_use *use)
{
    const struct _cl_mem *root = tp_icd_mem_root(use->mem);

    if (use->mem->image != NULL) { /* its rows may lie apart */
        return (struct tp_icd_span){0, root->size};
    }
    return (struct tp_icd_span){use->mem->origin + use->offset,
                                use->mem->origin + use->offset +
                                    (use->size != 0 ? use->size : use->mem->size)};
}

/* ---- wait lists of internal commands --------------------------------------------------- */

/** Ids for the wait list of an internal command in the events' own session. */
struct ids {
    uint64_t *list;
    uint16_t count;
};

static void
ids_add(struct ids *ids, struct tp_icd_session *session, struct tp_icd_span_events *set,
        struct tp_icd_span span)
{
    for (size_t i = 0; i < set->count; i++) {
        struct _cl_event *ev = set->list[i].ev;

        if (!ev->ended && tp_icd_spans_meet(set->list[i].span, span)) {
            tp_icd_wait_id(session, ev->ctx, ev, ids->list, &ids->count);
        }
    }
}

/** Collects what an internal command on a copy waits for. @return false: no memory. */
static bool
copy_ids(struct ids *ids, struct tp_icd_session *session, struct copy *copy,
         struct tp_icd_span span, bool writes)
{
    size_t room;

    tp_icd_span_events_prune(&copy->writers);
    tp_icd_span_events_prune(&copy->leaving);
    tp_icd_span_events_prune(&copy->arriving);
    room = copy->writers.count + copy->leaving.count + copy->arriving.count + 1;
    ids->count = 0;
    ids->list = tp_alloc_array(room, sizeof(*ids->list), "wait list");
    if (ids->list == NULL) {
        return false;
    }
    ids_add(ids, session, &copy->writers, span);
    ids_add(ids, session, &copy->arriving, span);
    if (writes) {
        ids_add(ids, session, &copy->leaving, span);
    }
    return true;
}

static struct tp_wire_u64s
ids_wire(const struct ids *ids)
{
    return (struct tp_wire_u64s){.count = ids->count, .data = ids->list};
}

/* ---- the directory ----------------------------------------------------------------------- */

bool
tp_icd_context_spans(const struct _cl_context *ctx)
{
    return ctx->session_count > 1;
}

struct tp_icd_directory *
tp_icd_directory_create(const struct _cl_context *ctx, size_t size)
{
    struct tp_icd_directory *dir;

    dir = tp_zalloc(sizeof(*dir) + ctx->session_count * sizeof(dir->copies[0]),
                    "directory");
    if (dir != NULL && tp_ranges_init(&dir->where, size, UNDEFINED) != TELPHER_OK) {
        tp_free(dir);
        return NULL;
    }
    return dir;
}

void
tp_icd_directory_destroy(struct tp_icd_directory *dir, uint32_t session_count)
{
    if (dir == NULL) {
        return;
    }
    tp_icd_lock();
    for (uint32_t i = 0; i < session_count; i++) {
        tp_icd_span_events_fini(&dir->copies[i].writers);
        tp_icd_span_events_fini(&dir->copies[i].leaving);
        tp_icd_span_events_fini(&dir->copies[i].arriving);
    }
    tp_icd_stage_unref(dir->first);
    tp_icd_unlock();
    tp_ranges_fini(&dir->where);
    tp_free(dir);
}

/* ---- moving ---------------------------------------------------------------------------------- */

/** A range that moves to a session, from a session or (-1) from `first`. */
struct move {
    struct _cl_mem *root;
    struct tp_icd_span span;
    uint32_t to;
    int from;
};

/** Handles the end of a move into a session. If it failed, its ranges are marked
 *  stale, except those that a later command wrote: there this copy is the only current
 *  one. */
static void
move_ended(struct _cl_mem *root, uint32_t session_index, struct _cl_event *ev)
{
    struct tp_icd_directory *dir = root->directory;
    struct tp_icd_span span;

    if (!tp_icd_span_events_take(&dir->copies[session_index].arriving, ev, &span) ||
        ev->status >= 0) {
        return;
    }
    while (span.from < span.to) {
        uint64_t end, where = tp_ranges_at(&dir->where, span.from, &end);

        end = TP_MIN(end, span.to);
        if (where != bit_of(session_index) &&
            tp_ranges_reserve(&dir->where, 1) == TELPHER_OK) {
            tp_ranges_change(&dir->where, span.from, end, ~bit_of(session_index), 0);
        }
        span.from = end;
    }
}

/** True if moves fill some of a span. */
static bool
is_arriving(const struct copy *copy, struct tp_icd_span span)
{
    for (size_t i = 0; i < copy->arriving.count; i++) {
        if (tp_icd_spans_meet(copy->arriving.list[i].span, span)) {
            return true;
        }
    }
    return false;
}

/**
 * Chooses where content comes from: a server that reaches the target, preferably one that no
 * move has to fill first; else the content given at creation; else any server.
 * @return session index; -1: `first`; -2: all are lost
 */
static int
find_source(const struct _cl_mem *root, uint64_t where, struct tp_icd_span span,
            uint32_t to)
{
    const struct _cl_context *ctx = root->ctx;
    int found = -2, best = -1;

    for (uint32_t i = 0; i < ctx->session_count; i++) {
        int score;

        if ((where & bit_of(i)) == 0 || tp_icd_session_lost(ctx->sessions[i])) {
            continue;
        }
        score = 2 * (tp_icd_peer_number(ctx->sessions[to], ctx->sessions[i]) != 0) +
                !is_arriving(&root->directory->copies[i], span);
        if (score > best) {
            found = (int)i;
            best = score;
        }
    }
    return best < 2 && (where & HOST) != 0 ? -1 : found;
}

/** Starts a READ of the range. NULL: *ret_err gives the error. */
static struct tp_icd_stage *
fetch(const struct move *m, cl_int *ret_err)
{
    struct copy *copy = &m->root->directory->copies[m->from];
    struct tp_icd_session *session = m->root->ctx->sessions[m->from];
    struct tp_icd_stage *stage = NULL;
    struct _cl_event *ev = NULL;
    struct ids ids;

    *ret_err = CL_OUT_OF_HOST_MEMORY;
    if (tp_icd_span_events_reserve(&copy->leaving) != CL_SUCCESS ||
        !copy_ids(&ids, session, copy, m->span, false)) {
        return NULL;
    }
    stage = tp_icd_stage_create(m->span.from, m->span.to - m->span.from);
    if (stage != NULL) {
        struct tp_wire_u64s wait = ids_wire(&ids);

        ev = tp_icd_stage_fetch(stage, m->root, (uint32_t)m->from, &wait, ret_err);
    }
    tp_free(ids.list);
    if (ev == NULL) {
        tp_icd_stage_unref(stage);
        return NULL;
    }
    tp_icd_span_events_add(&copy->leaving, ev, m->span);
    tp_icd_drop_locked(&ev->obj);
    return stage;
}

/** Records the second half of a move. Takes the caller's hold on @p ev. */
static void
note_arrival(const struct move *m, struct _cl_event *ev)
{
    struct copy *copy = &m->root->directory->copies[m->to];

    tp_icd_span_events_drop(&copy->leaving, m->span); /* the move waits for them */
    tp_icd_span_events_add(&copy->arriving, ev, m->span);
    tp_icd_drop_locked(&ev->obj);
}

/** Moves a range through this process. */
static cl_int
carry(const struct move *m)
{
    struct tp_icd_directory *dir = m->root->directory;
    struct copy *copy = &dir->copies[m->to];
    struct tp_icd_stage *stage = dir->first;
    struct _cl_event *ev = NULL;
    struct tp_wire_u64s wait;
    struct ids ids;
    cl_int err = CL_OUT_OF_HOST_MEMORY;

    if (tp_icd_span_events_reserve(&copy->arriving) != CL_SUCCESS) {
        return err;
    }
    if (m->from >= 0) {
        stage = fetch(m, &err);
    } else {
        tp_icd_stage_ref(stage);
    }
    if (stage == NULL) {
        return err;
    }
    if (copy_ids(&ids, m->root->ctx->sessions[m->to], copy, m->span, true)) {
        wait = ids_wire(&ids);
        ev = tp_icd_stage_feed(stage, m->root, m->to, m->span.from,
                               m->span.to - m->span.from, &wait, move_ended, &err);
        tp_free(ids.list);
    }
    tp_icd_stage_unref(stage);
    if (ev == NULL) {
        return err;
    }
    note_arrival(m, ev);
    return CL_SUCCESS;
}

/** Moves a range past this process, by the stream @p peer between the servers. */
static cl_int
push(const struct move *m, uint32_t peer)
{
    struct tp_icd_directory *dir = m->root->directory;
    struct copy *source = &dir->copies[m->from], *target = &dir->copies[m->to];
    struct tp_icd_haul haul = {.session_index = (uint32_t)m->from,
                               .peer = peer,
                               .transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER),
                               .offset = m->span.from,
                               .size = m->span.to - m->span.from};
    struct _cl_event *out = NULL, *in = NULL;
    struct tp_wire_u64s wait;
    struct ids out_ids = {0}, in_ids = {0};

    if (tp_icd_span_events_reserve(&source->leaving) == CL_SUCCESS &&
        tp_icd_span_events_reserve(&target->arriving) == CL_SUCCESS &&
        copy_ids(&out_ids, m->root->ctx->sessions[m->from], source, m->span, false) &&
        copy_ids(&in_ids, m->root->ctx->sessions[m->to], target, m->span, true)) {
        wait = ids_wire(&out_ids);
        out = tp_icd_push(m->root, &haul, &wait);
    }
    if (out != NULL) {
        tp_icd_span_events_add(&source->leaving, out, m->span);
        tp_icd_drop_locked(&out->obj);
        haul.session_index = m->to;
        wait = ids_wire(&in_ids);
        in = tp_icd_pull(m->root, &haul, &wait, move_ended);
    }
    if (in != NULL) {
        note_arrival(m, in);
    }
    tp_free(out_ids.list);
    tp_free(in_ids.list);
    return in != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

static cl_int
move_span(struct tp_icd_op *op, const struct move *m)
{
    const struct _cl_context *ctx = m->root->ctx;
    uint32_t peer =
        m->from < 0 ? 0
                    : tp_icd_peer_number(ctx->sessions[m->to], ctx->sessions[m->from]);

    if (m->from == -2) {
        return tp_icd_cl_error(TELPHER_ERR_PEER_LOST); /* the only copy is lost */
    }
    if (m->from >= 0) {
        tp_icd_op_touch(op, ctx->sessions[m->from]);
    }
    op->flush = true;
    return peer != 0 ? push(m, peer) : carry(m);
}

/** Moves what is not current of a span to the session of a command. Neighbouring ranges from
 *  one place move together. @param needed content that is lost is an error */
static cl_int
bring(struct tp_icd_op *op, struct _cl_mem *root, struct tp_icd_span span, bool needed)
{
    const struct tp_ranges *where = &root->directory->where;
    uint32_t to = op->q->session_index;
    struct move m = {.root = root, .to = to, .span = {span.from, span.from}};
    cl_int err = CL_SUCCESS;

    for (uint64_t at = span.from; at < span.to && err == CL_SUCCESS;) {
        uint64_t end, value = tp_ranges_at(where, at, &end);
        struct tp_icd_span run = {at, TP_MIN(end, span.to)};
        bool stale = (value & (bit_of(to) | UNDEFINED)) == 0;
        int from = stale ? find_source(root, value, run, to) : -2;

        stale = stale && (from != -2 || needed);
        if (m.span.from < m.span.to && (!stale || from != m.from)) {
            err = move_span(op, &m);
            m.span.from = m.span.to;
        }
        if (stale) {
            m.span.from = m.span.from < m.span.to ? m.span.from : run.from;
            m.span.to = run.to;
            m.from = from;
        }
        at = run.to;
    }
    return err == CL_SUCCESS && m.span.from < m.span.to ? move_span(op, &m) : err;
}

/* ---- many writers -------------------------------------------------------------------------- */

/** Bounds the list of writers of a copy: one marker, which waits for all of them, replaces them. */
static cl_int
join_writers(struct _cl_mem *root, uint32_t session_index)
{
    const struct tp_icd_span all = {0, root->size};
    struct copy *copy = &root->directory->copies[session_index];
    struct _cl_command_queue *mover = tp_icd_mover(root->ctx, session_index);
    struct _cl_event *ev;
    struct ids ids;

    if (mover == NULL || !copy_ids(&ids, mover->session, copy, all, false)) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    ev = tp_icd_event_create(mover, CL_COMMAND_MARKER);
    if (ev != NULL) {
        tp_icd_put(mover->session, TP_WIRE_MARKER,
                   &(struct tp_wire_marker){.event = ev->obj.id,
                                            .queue = mover->obj.id,
                                            .flags = TP_WIRE_NOTIFY,
                                            .wait = ids_wire(&ids)});
        tp_icd_event_set_told(ev);
        tp_icd_span_events_drop(&copy->writers, all);
        tp_icd_span_events_add(&copy->writers, ev, all);
        tp_icd_event_give(ev, NULL);
    }
    tp_free(ids.list);
    return ev != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

/** Reserves memory for one more writer, so that tp_icd_mem_used() cannot fail. */
static cl_int
reserve_writer(struct _cl_mem *root, uint32_t session_index)
{
    struct copy *copy = &root->directory->copies[session_index];
    cl_int err = CL_SUCCESS;

    tp_icd_span_events_prune(&copy->writers);
    if (copy->writers.count >= WRITERS_MAX) {
        err = join_writers(root, session_index);
    }
    return err == CL_SUCCESS ? tp_icd_span_events_reserve(&copy->writers) : err;
}

/* ---- content that is stale or undefined --------------------------------------------------- */

uint64_t
tp_icd_mem_stale(const struct tp_icd_op *op, size_t use)
{
    struct tp_icd_span span = span_of(&op->uses[use]);
    const struct tp_icd_directory *dir = tp_icd_mem_root(op->uses[use].mem)->directory;
    uint64_t bytes = 0;

    if (dir == NULL || op->uses[use].how == 0) {
        return 0;
    }
    while (span.from < span.to) {
        uint64_t end, value = tp_ranges_at(&dir->where, span.from, &end);

        end = TP_MIN(end, span.to);
        if ((value & (bit_of(op->q->session_index) | UNDEFINED)) == 0) {
            bytes += end - span.from;
        }
        span.from = end;
    }
    return bytes;
}

void
tp_icd_mem_forget(struct _cl_mem *root, uint64_t from)
{
    struct tp_icd_directory *dir = root->directory;

    if (from < root->size && tp_ranges_reserve(&dir->where, 1) == TELPHER_OK) {
        tp_ranges_change(&dir->where, from, root->size, 0, UNDEFINED);
    }
}

/* ---- streams between servers ----------------------------------------------------------------- */

/** True if the command may need something of a session. Under the lock. */
static bool
needs_session(const struct tp_icd_op *op, uint32_t index)
{
    const struct tp_icd_session *session = op->q->ctx->sessions[index];

    for (cl_uint i = 0; i < op->wait_count; i++) {
        if (op->wait_list[i]->session == session && !op->wait_list[i]->ended) {
            return true;
        }
    }
    for (size_t i = 0; i < op->use_count; i++) {
        struct tp_icd_span span = span_of(&op->uses[i]);
        const struct tp_icd_directory *dir =
            tp_icd_mem_root(op->uses[i].mem)->directory;

        while (dir != NULL && span.from < span.to) {
            uint64_t value = tp_ranges_at(&dir->where, span.from, &span.from);

            if ((value & (bit_of(op->q->session_index) | UNDEFINED)) == 0 &&
                (value & bit_of(index)) != 0) {
                return true;
            }
        }
    }
    return false;
}

void
tp_icd_mem_arrange(const struct tp_icd_op *op)
{
    const struct _cl_context *ctx = op->q->ctx;

    for (uint32_t i = 0; i < ctx->session_count; i++) {
        bool wanted;

        tp_icd_lock();
        /* with copies on a second server, all content passes through this process, which logs it */
        wanted = i != op->q->session_index && !tp_icd_copies_are_kept(op->q->session) &&
                 !tp_icd_copies_are_kept(ctx->sessions[i]) &&
                 !tp_icd_session_lost(op->q->session) &&
                 !tp_icd_session_lost(ctx->sessions[i]) &&
                 !tp_icd_peer_tried(op->q->session, ctx->sessions[i]) &&
                 needs_session(op, i);
        tp_icd_unlock();
        if (wanted) {
            tp_icd_peer_arrange(op->q->session, ctx->sessions[i]);
        }
    }
}

/* ---- exported parts -------------------------------------------------------------------------- */

cl_int
tp_icd_mem_open(struct _cl_mem *root, struct tp_icd_export *e)
{
    struct tp_icd_directory *dir = root->directory;

    if (dir != NULL && (e->rights & TP_WIRE_EXPORT_WRITE) != 0) {
        if (tp_ranges_reserve(&dir->where, 1) != TELPHER_OK) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        tp_ranges_change(&dir->where, e->span.from, e->span.to, 0,
                         bit_of(e->session_index));
    }
    e->next = root->exports;
    root->exports = e;
    return CL_SUCCESS;
}

void
tp_icd_mem_close(struct _cl_mem *root)
{
    struct tp_icd_export *e;

    while ((e = root->exports) != NULL) {
        root->exports = e->next;
        tp_icd_put_release(root->ctx->sessions[e->session_index], e->id);
        tp_free(e);
    }
}

/** True if servers that hold an export's token may write to the span through another session. */
static bool
changes_elsewhere(const struct _cl_mem *root, uint32_t here, struct tp_icd_span span)
{
    for (const struct tp_icd_export *e = root->exports; e != NULL; e = e->next) {
        if ((e->rights & TP_WIRE_EXPORT_WRITE) != 0 && e->session_index != here &&
            tp_icd_spans_meet(e->span, span)) {
            return true;
        }
    }
    return false;
}

/* ---- what commands call -------------------------------------------------------------------- */

/** Handles the end of the first upload, in a context of one session. */
static void
upload_ended(struct _cl_mem *mem, uint32_t session_index, struct _cl_event *ev)
{
    if (mem->upload != NULL && ev->status == CL_COMPLETE) {
        tp_icd_drop_locked(&mem->upload->obj);
        mem->upload = NULL;
    }
}

cl_int
tp_icd_mem_first(struct _cl_mem *mem, struct tp_icd_stage *stage)
{
    struct tp_wire_u64s none = {0, NULL};
    cl_int err = CL_SUCCESS;

    if (mem->directory != NULL) {
        mem->directory->first = stage;
        tp_ranges_change(&mem->directory->where, 0, mem->size, 0, HOST);
        return CL_SUCCESS;
    }
    if (tp_icd_session_lost(mem->ctx->sessions[0])) {
        err = tp_icd_cl_error(TELPHER_ERR_PEER_LOST);
    } else {
        mem->upload =
            tp_icd_stage_feed(stage, mem, 0, 0, mem->size, &none, upload_ended, &err);
    }
    tp_icd_stage_unref(stage);
    return err;
}

/** Adds a wait for the first content, or fails if the upload failed. */
static cl_int
use_upload(struct tp_icd_op *op, const struct _cl_mem *root)
{
    if (root->upload == NULL) {
        return CL_SUCCESS;
    }
    if (root->upload->ended) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    return tp_icd_op_wait(op, root->upload);
}

/** Waits for the events of a set whose spans meet that of the command. */
static cl_int
wait_for(struct tp_icd_op *op, struct tp_icd_span_events *set, struct tp_icd_span span)
{
    cl_int err = CL_SUCCESS;

    tp_icd_span_events_prune(set);
    for (size_t i = 0; i < set->count && err == CL_SUCCESS; i++) {
        if (tp_icd_spans_meet(set->list[i].span, span)) {
            err = tp_icd_op_wait(op, set->list[i].ev);
        }
    }
    return err;
}

/** True if the old content is not needed. It stays if the command fails, which it may do with
 *  any user event that is not set, or after a failure. */
static bool
is_overwritten(const struct tp_icd_op *op, const struct tp_icd_use *use)
{
    const struct _cl_context *ctx = op->q->ctx;

    return (use->how & TP_ICD_USE_WHOLE) != 0 && ctx->user_events == 0 &&
           !ctx->has_failed;
}

cl_int
tp_icd_mem_use(struct tp_icd_op *op, const struct tp_icd_use *use)
{
    struct _cl_mem *root = tp_icd_mem_root(use->mem);
    struct tp_icd_directory *dir = root->directory;
    uint32_t here = op->q->session_index;
    bool needs_content = use->how != 0 && !is_overwritten(op, use);
    struct tp_icd_span span = span_of(use);
    cl_int err;

    if (tp_icd_mem_is_pipe(root)) {
        err = tp_icd_pipe_use(root, here);
        if (err != CL_SUCCESS) {
            return err;
        }
    }
    tp_icd_mem_ensure(use->mem, root->ctx, here);
    if (dir == NULL) {
        return use_upload(op, root);
    }
    if (tp_ranges_reserve(&dir->where, 2) != TELPHER_OK) { /* here, and in mem_used */
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (needs_content) {
        err = bring(op, root, span, (use->how & TP_ICD_USE_WHOLE) == 0);
        if (err != CL_SUCCESS) {
            return err;
        }
        if (!changes_elsewhere(root, here, span)) {
            tp_ranges_change(&dir->where, span.from, span.to, UINT64_MAX, bit_of(here));
        }
    }
    err = wait_for(op, &dir->copies[here].arriving, span);
    if (err != CL_SUCCESS || (use->how & TP_ICD_USE_WRITE) == 0) {
        return err;
    }
    err = reserve_writer(root, here);
    if (err != CL_SUCCESS) {
        return err;
    }
    return wait_for(op, &dir->copies[here].leaving, span);
}

void
tp_icd_mem_used(struct tp_icd_op *op, const struct tp_icd_use *use)
{
    struct tp_icd_directory *dir = tp_icd_mem_root(use->mem)->directory;
    uint32_t here = op->q->session_index;
    struct tp_icd_span span = span_of(use);
    struct copy *copy;

    if (dir == NULL || (use->how & TP_ICD_USE_WRITE) == 0) {
        return;
    }
    copy = &dir->copies[here];
    tp_ranges_change(&dir->where, span.from, span.to, 0, bit_of(here));
    if (dir->first != NULL && !tp_ranges_have(&dir->where, HOST)) {
        tp_icd_stage_unref(dir->first);
        dir->first = NULL;
    }
    if (is_overwritten(op, use)) {
        /* else other parts may be used before the command has ended */
        tp_icd_span_events_drop(&copy->arriving, span);
    }
    tp_icd_span_events_drop(&copy->leaving, span); /* the command waits for them */
    tp_icd_span_events_add(&copy->writers, op->ev, span);
}
