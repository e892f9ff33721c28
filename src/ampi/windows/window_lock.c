/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronization of windows: fences, groups, locks, flushes. */
#include <stdatomic.h>

#include "ampi/window.h"
#include "base/alloc.h"

/* ---- locks of this part ---- */

struct lock_wish {
    struct tp_list link;
    int origin, kind;
};

static void
grant(struct tp_ampi_win *win, int origin, int kind)
{
    win->exclusive += kind == MPI_LOCK_EXCLUSIVE;
    win->shared += kind == MPI_LOCK_SHARED;
    tp_ampi_win_tell(win, origin, TP_AMPI_GRANT, kind);
}

static bool
is_free(const struct tp_ampi_win *win, int kind)
{
    return win->exclusive == 0 && (kind == MPI_LOCK_SHARED || win->shared == 0);
}

void
tp_ampi_win_on_lock(struct tp_ampi_win *win, int origin, int kind)
{
    struct lock_wish *wish;

    if (tp_list_is_empty(&win->lock_queue) && is_free(win, kind)) {
        grant(win, origin, kind);
        return;
    }
    wish = tp_zalloc(sizeof(*wish), "lock of a window");
    if (wish == NULL) {
        tp_ampi_abort(MPI_ERR_NO_MEM);
    }
    wish->origin = origin;
    wish->kind = kind;
    tp_list_init(&wish->link);
    tp_list_push_back(&win->lock_queue, &wish->link);
}

/* In the order in which they were asked for. */
void
tp_ampi_win_on_unlock(struct tp_ampi_win *win, int origin)
{
    struct tp_list *link;

    (void)origin; /* an exclusive lock is the only one */
    if (win->exclusive != 0) {
        win->exclusive = 0;
    } else {
        win->shared--;
    }
    while ((link = tp_list_first(&win->lock_queue)) != NULL) {
        struct lock_wish *wish = tp_list_entry(link, struct lock_wish, link);

        if (!is_free(win, wish->kind)) {
            return;
        }
        tp_list_remove(link);
        grant(win, wish->origin, wish->kind);
        tp_free(wish);
    }
}

/* ---- flush ---- */

struct range {
    int first, end;
};

static bool
is_complete(const struct tp_ampi_win *win, const void *arg)
{
    const struct range *range = arg;

    for (int i = range->first; i < range->end; i++) {
        if (win->parts[i].pending != 0 || win->parts[i].flushing) {
            return false;
        }
    }
    return true;
}

void
tp_ampi_win_flush(struct tp_ampi_win *win, int first, int end, bool remote)
{
    const struct range range = {first, end};

    atomic_thread_fence(memory_order_seq_cst); /* stores into shared windows */
    for (int i = first; remote && i < end; i++) {
        if (win->parts[i].dirty) {
            win->parts[i].dirty = false;
            win->parts[i].flushing = true;
            tp_ampi_win_tell(win, i, TP_AMPI_FLUSH, 0);
        }
    }
    if (is_complete(win, &range)) {
        tp_ampi_yield(); /* a program may poll with accesses that are direct */
    }
    tp_ampi_win_wait(win, is_complete, &range);
}

/* Flushes one member, or all: @p target -1. */
static int
flush(MPI_Win handle, int target, bool remote)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);
    int error = MPI_SUCCESS;

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    if (target < -1 || target >= win->comm->size) {
        return tp_ampi_win_error(win, MPI_ERR_RANK, "there is no rank %d in the window",
                                 target);
    }
    tp_ampi_enter();
    tp_ampi_win_flush(win, target < 0 ? 0 : target,
                      target < 0 ? win->comm->size : target + 1, remote);
    tp_ampi_leave();
    return error;
}

int
PMPI_Win_flush(int target, MPI_Win win)
{
    return target == MPI_PROC_NULL ? MPI_SUCCESS : flush(win, target, true);
}
TP_MPI_NAME(Win_flush);

int
PMPI_Win_flush_all(MPI_Win win)
{
    return flush(win, -1, true);
}
TP_MPI_NAME(Win_flush_all);

int
PMPI_Win_flush_local(int target, MPI_Win win)
{
    return target == MPI_PROC_NULL ? MPI_SUCCESS : flush(win, target, false);
}
TP_MPI_NAME(Win_flush_local);

int
PMPI_Win_flush_local_all(MPI_Win win)
{
    return flush(win, -1, false);
}
TP_MPI_NAME(Win_flush_local_all);

int
PMPI_Win_sync(MPI_Win handle)
{
    if (tp_ampi_win_find(handle) == NULL) {
        return MPI_ERR_WIN;
    }
    atomic_thread_fence(memory_order_seq_cst);
    tp_ampi_enter();
    tp_ampi_yield(); /* a loop of MPI_Win_sync waits for other ranks */
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_sync);

int
PMPI_Win_fence(int assertion, MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);
    int error;

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    tp_ampi_enter();
    win->fenced = (assertion & MPI_MODE_NOSUCCEED) == 0;
    tp_ampi_win_flush(win, 0, win->comm->size, true);
    error = tp_ampi_comm_meet(win->comm);
    atomic_thread_fence(memory_order_seq_cst);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Win_fence);

/* ---- post, start, complete, wait ---- */

static bool
all_posted(const struct tp_ampi_win *win, const void *arg)
{
    const struct tp_ampi_group *group = arg;

    for (int i = 0; i < group->size; i++) {
        if (win->parts[tp_ampi_comm_rank_of(win->comm, group->world[i])].posted == 0) {
            return false;
        }
    }
    return true;
}

static bool
all_completed(const struct tp_ampi_win *win, const void *arg)
{
    const struct tp_ampi_group *group = arg;

    for (int i = 0; i < group->size; i++) {
        if (win->parts[tp_ampi_comm_rank_of(win->comm, group->world[i])].completed ==
            0) {
            return false;
        }
    }
    return true;
}

/* Finds window and group; the group is in no epoch of this kind yet. Takes a use of it. */
static int
begin_epoch(MPI_Win handle, MPI_Group group_handle, bool starts,
            struct tp_ampi_win **ret, struct tp_ampi_group **ret_group)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);
    struct tp_ampi_group *group = tp_ampi_group_get(group_handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    if (group == NULL) {
        return tp_ampi_win_error(win, MPI_ERR_GROUP, "%#x is no group", group_handle);
    }
    if ((starts ? win->started : win->exposed) != NULL) {
        return tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                 "the window is in such an epoch already");
    }
    for (int i = 0; i < group->size; i++) {
        if (tp_ampi_comm_rank_of(win->comm, group->world[i]) == MPI_UNDEFINED) {
            return tp_ampi_win_error(win, MPI_ERR_GROUP,
                                     "rank %u of the world is not in the window",
                                     group->world[i]);
        }
    }
    group->refs++;
    *ret = win;
    *ret_group = group;
    return MPI_SUCCESS;
}

int
PMPI_Win_post(MPI_Group group_handle, int assertion, MPI_Win handle)
{
    struct tp_ampi_win *win;
    struct tp_ampi_group *group;
    int error = begin_epoch(handle, group_handle, false, &win, &group);

    (void)assertion;
    if (error != MPI_SUCCESS) {
        return error;
    }
    tp_ampi_enter();
    atomic_thread_fence(memory_order_seq_cst);
    win->exposed = group;
    for (int i = 0; i < group->size; i++) {
        tp_ampi_win_tell(win, tp_ampi_comm_rank_of(win->comm, group->world[i]),
                         TP_AMPI_POST, 0);
    }
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_post);

int
PMPI_Win_start(MPI_Group group_handle, int assertion, MPI_Win handle)
{
    struct tp_ampi_win *win;
    struct tp_ampi_group *group;
    int error = begin_epoch(handle, group_handle, true, &win, &group);

    (void)assertion;
    if (error != MPI_SUCCESS) {
        return error;
    }
    tp_ampi_enter();
    win->started = group;
    win->fenced = false;
    tp_ampi_win_wait(win, all_posted, group);
    for (int i = 0; i < group->size; i++) {
        win->parts[tp_ampi_comm_rank_of(win->comm, group->world[i])].posted--;
    }
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_start);

int
PMPI_Win_complete(MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);
    struct tp_ampi_group *group = win != NULL ? win->started : NULL;

    if (group == NULL) {
        return win == NULL ? MPI_ERR_WIN
                           : tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                               "no MPI_Win_start came before");
    }
    tp_ampi_enter();
    tp_ampi_win_flush(win, 0, win->comm->size, true);
    for (int i = 0; i < group->size; i++) {
        tp_ampi_win_tell(win, tp_ampi_comm_rank_of(win->comm, group->world[i]),
                         TP_AMPI_COMPLETE, 0);
    }
    win->started = NULL;
    tp_ampi_group_unref(group);
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_complete);

/* Ends the exposure. */
static void
end_exposure(struct tp_ampi_win *win)
{
    struct tp_ampi_group *group = win->exposed;

    for (int i = 0; i < group->size; i++) {
        win->parts[tp_ampi_comm_rank_of(win->comm, group->world[i])].completed--;
    }
    win->exposed = NULL;
    tp_ampi_group_unref(group);
    atomic_thread_fence(memory_order_seq_cst);
}

int
PMPI_Win_wait(MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL || win->exposed == NULL) {
        return win == NULL ? MPI_ERR_WIN
                           : tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                               "no MPI_Win_post came before");
    }
    tp_ampi_enter();
    tp_ampi_win_wait(win, all_completed, win->exposed);
    end_exposure(win);
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_wait);

int
PMPI_Win_test(MPI_Win handle, int *flag)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    *flag = 0;
    if (win == NULL || win->exposed == NULL) {
        return win == NULL ? MPI_ERR_WIN
                           : tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                               "no MPI_Win_post came before");
    }
    tp_ampi_enter();
    if (!all_completed(win, win->exposed)) {
        tp_ampi_yield();
    }
    *flag = all_completed(win, win->exposed);
    if (*flag) {
        end_exposure(win);
    }
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_test);

/* ---- lock, unlock ---- */

static bool
is_granted(const struct tp_ampi_win *win, const void *arg)
{
    const struct range *range = arg;

    for (int i = range->first; i < range->end; i++) {
        if (!win->parts[i].granted) {
            return false;
        }
    }
    return true;
}

/* Locks members, all at once. */
static void
lock(struct tp_ampi_win *win, struct range range, int kind, int assertion)
{
    win->fenced = false;
    for (int i = range.first; i < range.end; i++) {
        win->parts[i].lock = kind;
        win->parts[i].granted = (assertion & MPI_MODE_NOCHECK) != 0;
        if (!win->parts[i].granted) {
            tp_ampi_win_tell(win, i, TP_AMPI_LOCK, kind);
        } else {
            win->parts[i].lock |= MPI_MODE_NOCHECK; /* no UNLOCK either */
        }
    }
    tp_ampi_win_wait(win, is_granted, &range);
    atomic_thread_fence(memory_order_seq_cst);
}

static void
unlock(struct tp_ampi_win *win, struct range range)
{
    tp_ampi_win_flush(win, range.first, range.end, true);
    for (int i = range.first; i < range.end; i++) {
        int kind = win->parts[i].lock;

        win->parts[i].lock = 0;
        win->parts[i].granted = false;
        if ((kind & MPI_MODE_NOCHECK) == 0) {
            tp_ampi_win_tell(win, i, TP_AMPI_UNLOCK, 0);
        }
    }
}

int
PMPI_Win_lock(int kind, int target, int assertion, MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL || target == MPI_PROC_NULL) {
        return win == NULL ? MPI_ERR_WIN : MPI_SUCCESS;
    }
    if (target < 0 || target >= win->comm->size ||
        (kind != MPI_LOCK_EXCLUSIVE && kind != MPI_LOCK_SHARED)) {
        return tp_ampi_win_error(win, target < 0 ? MPI_ERR_RANK : MPI_ERR_LOCKTYPE,
                                 "there is no lock of kind %d, or no rank %d", kind,
                                 target);
    }
    if (win->parts[target].lock != 0 || win->started != NULL) {
        return tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                 "rank %d is locked already, or MPI_Win_complete has "
                                 "not been called",
                                 target);
    }
    tp_ampi_enter();
    lock(win, (struct range){target, target + 1}, kind, assertion);
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_lock);

int
PMPI_Win_unlock(int target, MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL || target == MPI_PROC_NULL) {
        return win == NULL ? MPI_ERR_WIN : MPI_SUCCESS;
    }
    if (target < 0 || target >= win->comm->size || win->parts[target].lock == 0) {
        return tp_ampi_win_error(win, MPI_ERR_RMA_SYNC, "rank %d is not locked",
                                 target);
    }
    tp_ampi_enter();
    unlock(win, (struct range){target, target + 1});
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_unlock);

int
PMPI_Win_lock_all(int assertion, MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL || win->all_locked) {
        return win == NULL ? MPI_ERR_WIN
                           : tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                               "the window is locked already");
    }
    tp_ampi_enter();
    win->all_locked = true;
    lock(win, (struct range){0, win->comm->size}, MPI_LOCK_SHARED, assertion);
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_lock_all);

int
PMPI_Win_unlock_all(MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL || !win->all_locked) {
        return win == NULL ? MPI_ERR_WIN
                           : tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                               "the window is not locked");
    }
    tp_ampi_enter();
    win->all_locked = false;
    unlock(win, (struct range){0, win->comm->size});
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_unlock_all);
