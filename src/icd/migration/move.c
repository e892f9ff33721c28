/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks where the content of a buffer is valid, and moves it to the session of a command.
 *
 * A context of one session tracks only whether the first content has arrived. In a context
 * of several sessions, every buffer without parent has a directory. For each copy it records
 * whether it is current (or will be after a move in progress), the commands that write it,
 * and the moves that read it. All decisions are made at enqueue, in the order of the calls,
 * without waiting for a reply. A move is a READ from one session and a WRITE to another;
 * the content passes through a stage (staged_copy.c). The command that needs the content
 * waits for the WRITE.
 *
 * Ordering rules:
 *  - a move out of a session waits for all commands that write that copy;
 *  - a command that writes a copy waits for the moves out of it;
 *  - a move into a session waits for the writers and the moves of the old copy there;
 *  - the program orders all other commands, by events and queues.
 * A move need not wait for commands that only read a copy: the program orders the command
 * that overwrites it after them.
 */
#include "icd/commands/enqueue.h"
#include "icd/icd.h"
#include "icd/migration/migration.h"
#include "icd/objects/callback.h"
#include "icd/objects/context.h"
#include "icd/objects/event.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"

#define NO_STREAM 1 /* not an error of OpenCL: content must pass through this process */

enum { WRITERS_MAX = 8 }; /* of one copy, before one marker replaces them */

/** Events in progress; ended ones are dropped when the list is used. */
struct events {
    struct _cl_event **list; /* held */
    size_t count, room;
};

/** The copy of a buffer in one session. */
struct copy {
    struct events writers; /**< commands that change it */
    struct events leaving; /**< moves that read it */
    struct _cl_event *arriving; /**< held; the move into it, NULL when complete */
};

struct tp_icd_directory {
    uint32_t
        valid; /**< mask of sessions whose copy is current, or will be on arrival */
    bool defined; /**< there is content: if not, any copy is valid */
    struct tp_icd_stage *first; /**< content given at creation, until overwritten */
    struct tp_icd_stage *moving; /**< current content in a move, for further moves */
    struct copy copies[];
};

/* ---- sets of events ------------------------------------------------------------------- */

static void
events_drop_at(struct events *set, size_t i)
{
    tp_icd_drop_locked(&set->list[i]->obj);
    set->list[i] = set->list[--set->count];
}

static void
events_prune(struct events *set)
{
    for (size_t i = set->count; i-- != 0;) {
        if (set->list[i]->ended) {
            events_drop_at(set, i);
        }
    }
}

static void
events_clear(struct events *set)
{
    while (set->count != 0) {
        events_drop_at(set, set->count - 1);
    }
}

static cl_int
events_reserve(struct events *set, size_t more)
{
    struct _cl_event **list;

    if (set->count + more <= set->room) {
        return CL_SUCCESS;
    }
    list = tp_realloc_array(set->list, set->count + more + 4, sizeof(*list), "events");
    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    set->list = list;
    set->room = set->count + more + 4;
    return CL_SUCCESS;
}

/**
 * Adds an event once; there must be room. An event of an in-order queue replaces the earlier
 * ones of that queue.
 */
static void
events_add(struct events *set, struct _cl_event *ev)
{
    bool in_order = tp_icd_queue_in_order(ev->queue);

    for (size_t i = set->count; i-- != 0;) {
        if (set->list[i] == ev) {
            return;
        }
        if (in_order && set->list[i]->queue == ev->queue) {
            events_drop_at(set, i);
        }
    }
    tp_icd_hold(&ev->obj);
    set->list[set->count++] = ev;
}

/** Ids for the wait list of an internal command in the events' own session. */
struct ids {
    uint64_t *list;
    uint16_t count;
};

static void
ids_add(struct ids *ids, struct tp_icd_session *session, struct _cl_event *ev)
{
    if (ev != NULL && !ev->ended) {
        tp_icd_wait_id(session, ev->ctx, ev, ids->list, &ids->count);
    }
}

static void
ids_add_all(struct ids *ids, struct tp_icd_session *session, const struct events *set)
{
    for (size_t i = 0; i < set->count; i++) {
        ids_add(ids, session, set->list[i]);
    }
}

/** Collects what an internal command on a copy waits for. @return false: no memory. */
static bool
copy_ids(struct ids *ids, struct tp_icd_session *session, const struct copy *copy,
         bool writes)
{
    size_t room = copy->writers.count + copy->leaving.count + 1;

    ids->count = 0;
    ids->list = tp_alloc_array(room, sizeof(*ids->list), "wait list");
    if (ids->list == NULL) {
        return false;
    }
    ids_add_all(ids, session, &copy->writers);
    ids_add(ids, session, copy->arriving);
    if (writes) {
        ids_add_all(ids, session, &copy->leaving);
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
tp_icd_directory_create(const struct _cl_context *ctx)
{
    struct tp_icd_directory *dir;

    dir = tp_zalloc(sizeof(*dir) + ctx->session_count * sizeof(dir->copies[0]),
                    "directory");
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
        struct copy *copy = &dir->copies[i];

        events_clear(&copy->writers);
        events_clear(&copy->leaving);
        if (copy->arriving != NULL) {
            tp_icd_drop_locked(&copy->arriving->obj);
        }
        tp_free(copy->writers.list);
        tp_free(copy->leaving.list);
    }
    tp_icd_stage_unref(dir->first);
    tp_icd_stage_unref(dir->moving);
    tp_icd_unlock();
    tp_free(dir);
}

static void
set_stage(struct tp_icd_stage **slot, struct tp_icd_stage *stage)
{
    if (stage != NULL) {
        tp_icd_stage_ref(stage);
    }
    tp_icd_stage_unref(*slot);
    *slot = stage;
}

static void
set_arriving(struct copy *copy, struct _cl_event *ev)
{
    if (copy->arriving != NULL) {
        tp_icd_drop_locked(&copy->arriving->obj);
    }
    copy->arriving = ev;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/** True if no transfer is in progress. */
static bool
all_arrived(const struct _cl_mem *root)
{
    for (uint32_t i = 0; i < root->ctx->session_count; i++) {
        if (root->directory->copies[i].arriving != NULL) {
            return false;
        }
    }
    return true;
}

/** Handles the end of a move's WRITE. If it failed, the copy is invalid. */
static void
move_ended(struct _cl_mem *root, uint32_t session_index, struct _cl_event *ev)
{
    struct tp_icd_directory *dir = root->directory;
    struct copy *copy = &dir->copies[session_index];

    if (copy->arriving == ev) {
        if (ev->status < 0) {
            dir->valid &= ~(1U << session_index);
        }
        set_arriving(copy, NULL);
    }
    if (all_arrived(root)) {
        set_stage(&dir->moving, NULL);
    }
}

/** Finds a session with a valid copy, preferably one that no move has to fill first. */
static int
find_source(const struct _cl_mem *root)
{
    const struct tp_icd_directory *dir = root->directory;
    int found = -1;

    for (uint32_t i = 0; i < root->ctx->session_count; i++) {
        if ((dir->valid & (1U << i)) == 0 ||
            tp_icd_session_lost(root->ctx->sessions[i])) {
            continue;
        }
        if (dir->copies[i].arriving == NULL) {
            return (int)i;
        }
        found = (int)i;
    }
    return found;
}

/** Starts a READ from a session with a valid copy. NULL: *ret_err gives the error. */
static struct tp_icd_stage *
fetch(struct tp_icd_op *op, struct _cl_mem *root, cl_int *ret_err)
{
    struct tp_icd_directory *dir = root->directory;
    int from = find_source(root);
    struct tp_icd_session *session = from < 0 ? NULL : root->ctx->sessions[from];
    struct copy *copy = &dir->copies[from < 0 ? 0 : from];
    struct tp_icd_stage *stage = NULL;
    struct _cl_event *ev = NULL;
    struct ids ids;

    if (session == NULL) {
        *ret_err = tp_icd_cl_error(TELPHER_ERR_PEER_LOST); /* the only copy is lost */
        return NULL;
    }
    *ret_err = CL_OUT_OF_HOST_MEMORY;
    events_prune(&copy->writers);
    events_prune(&copy->leaving);
    if (events_reserve(&copy->leaving, 1) != CL_SUCCESS ||
        !copy_ids(&ids, session, copy, false)) {
        return NULL;
    }
    stage = tp_icd_stage_create(root->size);
    if (stage != NULL) {
        struct tp_wire_u64s wait = ids_wire(&ids);

        ev = tp_icd_stage_fetch(stage, root, (uint32_t)from, &wait, ret_err);
    }
    tp_free(ids.list);
    if (ev == NULL) {
        tp_icd_stage_unref(stage);
        return NULL;
    }
    events_add(&copy->leaving, ev);
    tp_icd_drop_locked(&ev->obj);
    tp_icd_op_touch(op, session);
    return stage;
}

/** Appends the WRITE of a move to a session. */
static cl_int
start_write(struct _cl_mem *root, uint32_t to, struct tp_icd_stage *stage)
{
    struct tp_icd_directory *dir = root->directory;
    struct copy *copy = &dir->copies[to];
    struct tp_wire_u64s wait;
    struct _cl_event *ev;
    struct ids ids;
    cl_int err;

    events_prune(&copy->writers);
    events_prune(&copy->leaving);
    if (!copy_ids(&ids, root->ctx->sessions[to], copy, true)) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    wait = ids_wire(&ids);
    ev = tp_icd_stage_feed(stage, root, to, &wait, move_ended, &err);
    tp_free(ids.list);
    if (ev == NULL) {
        return err;
    }
    dir->valid |= 1U << to;
    set_arriving(copy, ev);
    return CL_SUCCESS;
}

/** @return the stage of a move in progress, if its content is still current. */
static struct tp_icd_stage *
stage_at_hand(struct tp_icd_directory *dir)
{
    if (dir->first != NULL) {
        return dir->first;
    }
    if (dir->moving != NULL && tp_icd_stage_usable(dir->moving)) {
        return dir->moving;
    }
    return NULL;
}

/** Moves the content past this process. @return NO_STREAM: the servers have no stream */
static cl_int
push(struct tp_icd_op *op, struct _cl_mem *root)
{
    struct tp_icd_directory *dir = root->directory;
    uint32_t to = op->q->session_index;
    int from = find_source(root);
    struct copy *source = &dir->copies[from < 0 ? 0 : from], *target = &dir->copies[to];
    struct tp_icd_haul haul = {.session_index = from < 0 ? 0 : (uint32_t)from,
                               .offset = 0,
                               .size = root->size};
    struct _cl_event *out = NULL, *in = NULL;
    struct tp_wire_u64s wait;
    struct ids ids;

    haul.peer =
        from < 0 ? 0 : tp_icd_peer_number(op->q->session, root->ctx->sessions[from]);
    if (haul.peer == 0) {
        return NO_STREAM;
    }
    haul.transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER);
    events_prune(&source->writers);
    events_prune(&source->leaving);
    events_prune(&target->writers);
    events_prune(&target->leaving);
    if (events_reserve(&source->leaving, 1) != CL_SUCCESS ||
        !copy_ids(&ids, root->ctx->sessions[from], source, false)) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    wait = ids_wire(&ids);
    out = tp_icd_push(root, &haul, &wait);
    tp_free(ids.list);
    if (out != NULL && copy_ids(&ids, op->q->session, target, true)) {
        haul.session_index = to;
        wait = ids_wire(&ids);
        in = tp_icd_pull(root, &haul, &wait, move_ended);
        tp_free(ids.list);
    }
    if (out != NULL) {
        events_add(&source->leaving, out);
        tp_icd_drop_locked(&out->obj);
        tp_icd_op_touch(op, root->ctx->sessions[from]);
    }
    if (in == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    dir->valid |= 1U << to;
    set_arriving(target, in);
    events_clear(&target->leaving); /* the move waits for them */
    op->flush = true;
    return CL_SUCCESS;
}

/** Moves the content to the session of a command. */
static cl_int
bring(struct tp_icd_op *op, struct _cl_mem *root)
{
    struct tp_icd_directory *dir = root->directory;
    cl_int pushed = dir->first == NULL ? push(op, root) : NO_STREAM;
    struct tp_icd_stage *stage = stage_at_hand(dir);
    cl_int err = CL_SUCCESS;

    if (pushed != NO_STREAM) {
        return pushed;
    }
    if (stage != NULL) {
        tp_icd_stage_ref(stage);
    } else {
        stage = fetch(op, root, &err);
    }
    if (stage == NULL) {
        return err;
    }
    if (stage != dir->first) {
        set_stage(&dir->moving, stage);
    }
    err = start_write(root, op->q->session_index, stage);
    tp_icd_stage_unref(stage);
    op->flush = true;
    return err;
}

/* ---- many writers -------------------------------------------------------------------------- */

/** Replaces the writers of a copy by one marker that waits for them all. */
static cl_int
join_writers(struct _cl_mem *root, uint32_t session_index)
{
    struct copy *copy = &root->directory->copies[session_index];
    struct _cl_command_queue *mover = tp_icd_mover(root->ctx, session_index);
    struct _cl_event *ev;
    struct ids ids;

    if (mover == NULL || !copy_ids(&ids, mover->session, copy, false)) {
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
        events_clear(&copy->writers);
        events_add(&copy->writers, ev);
        tp_icd_event_give(ev, NULL);
    }
    tp_free(ids.list);
    return ev != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

/** Reserves memory, so that tp_icd_mem_used can record a writer. */
static cl_int
reserve_writer(struct _cl_mem *root, uint32_t session_index)
{
    struct copy *copy = &root->directory->copies[session_index];
    cl_int err = CL_SUCCESS;

    events_prune(&copy->writers);
    if (copy->writers.count >= WRITERS_MAX) {
        err = join_writers(root, session_index);
    }
    return err == CL_SUCCESS ? events_reserve(&copy->writers, 1) : err;
}

/* ---- streams between servers ----------------------------------------------------------------- */

/** True if the command may need something of a session. Under the lock. */
static bool
needs_session(const struct tp_icd_op *op, uint32_t index)
{
    const struct tp_icd_session *session = op->q->ctx->sessions[index];
    uint32_t here = 1U << op->q->session_index;

    for (cl_uint i = 0; i < op->wait_count; i++) {
        if (op->wait_list[i]->session == session && !op->wait_list[i]->ended) {
            return true;
        }
    }
    for (size_t i = 0; i < op->use_count; i++) {
        const struct tp_icd_directory *dir =
            tp_icd_mem_root(op->uses[i].mem)->directory;

        if (dir != NULL && dir->defined && dir->first == NULL &&
            (dir->valid & here) == 0 && (dir->valid & 1U << index) != 0) {
            return true;
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
        wanted = i != op->q->session_index && !tp_icd_session_lost(op->q->session) &&
                 !tp_icd_session_lost(ctx->sessions[i]) &&
                 !tp_icd_peer_tried(op->q->session, ctx->sessions[i]) &&
                 needs_session(op, i);
        tp_icd_unlock();
        if (wanted) {
            tp_icd_peer_arrange(op->q->session, ctx->sessions[i]);
        }
    }
}

/* ---- what commands call -------------------------------------------------------------------- */

/** Handles the end of the first upload, in a context of one session. */
static void
upload_ended(struct _cl_mem *mem, uint32_t session_index, struct _cl_event *ev)
{
    (void)session_index;
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
        mem->directory->defined = true;
        return CL_SUCCESS;
    }
    if (tp_icd_session_lost(mem->ctx->sessions[0])) {
        err = tp_icd_cl_error(TELPHER_ERR_PEER_LOST);
    } else {
        mem->upload = tp_icd_stage_feed(stage, mem, 0, &none, upload_ended, &err);
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

/** Prepares a write: waits for moves that read the copy; reserves room for the writer. */
static cl_int
use_for_write(struct tp_icd_op *op, struct _cl_mem *root)
{
    uint32_t session_index = op->q->session_index;
    struct copy *copy = &root->directory->copies[session_index];
    cl_int err = reserve_writer(root, session_index);

    events_prune(&copy->leaving);
    for (size_t i = 0; i < copy->leaving.count && err == CL_SUCCESS; i++) {
        err = tp_icd_op_wait(op, copy->leaving.list[i]);
    }
    return err;
}

cl_int
tp_icd_mem_use(struct tp_icd_op *op, const struct tp_icd_use *use)
{
    struct _cl_mem *root = tp_icd_mem_root(use->mem);
    struct tp_icd_directory *dir = root->directory;
    uint32_t session_index = op->q->session_index;
    bool needs_content = use->how != 0 && (use->how & TP_ICD_USE_WHOLE) == 0;
    struct copy *copy;
    cl_int err;

    tp_icd_mem_ensure(use->mem, root->ctx, session_index);
    if (dir == NULL) {
        return use_upload(op, root);
    }
    copy = &dir->copies[session_index];
    if (needs_content && dir->defined && (dir->valid & (1U << session_index)) == 0) {
        err = bring(op, root);
        if (err != CL_SUCCESS) {
            return err;
        }
    }
    err = copy->arriving == NULL ? CL_SUCCESS : tp_icd_op_wait(op, copy->arriving);
    if (err == CL_SUCCESS && (use->how & TP_ICD_USE_WRITE) != 0) {
        err = use_for_write(op, root);
    }
    return err;
}

void
tp_icd_mem_used(struct tp_icd_op *op, const struct tp_icd_use *use)
{
    struct _cl_mem *root = tp_icd_mem_root(use->mem);
    struct tp_icd_directory *dir = root->directory;
    struct copy *copy;

    if (dir == NULL || (use->how & TP_ICD_USE_WRITE) == 0) {
        return;
    }
    copy = &dir->copies[op->q->session_index];
    dir->valid = 1U << op->q->session_index;
    dir->defined = true;
    set_stage(&dir->first, NULL);
    set_stage(&dir->moving, NULL);
    if ((use->how & TP_ICD_USE_WHOLE) != 0) {
        set_arriving(copy, NULL); /* else other parts may be used before op has ended */
    }
    events_clear(&copy->leaving); /* it waits for them */
    events_add(&copy->writers, op->ev);
}
