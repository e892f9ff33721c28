/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: their making and end. MPI-3.1, chapter 11. */
#include "ampi/window.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ampi/errhandler.h"
#include "base/alloc.h"
#include "base/os/memfd.h"

enum { TAG_WINDOW = TP_AMPI_TAG_OWN + 0x100, ALIGNMENT = 64 };

struct tp_ampi_win *
tp_ampi_win_find(MPI_Win handle)
{
    struct tp_ampi_win *win = tp_ampi_handle_get(handle, TP_AMPI_WIN);

    if (win == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_WIN, "%#x is no window", handle);
    }
    return win;
}

int
tp_ampi_win_error(struct tp_ampi_win *win, int code, const char *fmt, ...)
{
    va_list args;

    if (code != MPI_SUCCESS) {
        va_start(args, fmt);
        code = tp_ampi_raise(win->errhandler, win->handle, code, fmt, args);
        va_end(args);
    }
    return code;
}

/* [bytes] that are attached from @p at on, in one range. */
static uint64_t
attached_after(const struct tp_ampi_win *win, uint64_t at)
{
    tp_list_for_each_entry(const struct tp_ampi_attached, a, &win->attached, link) {
        if (at >= a->base && at - a->base < a->size) {
            return a->size - (at - a->base);
        }
    }
    return 0;
}

bool
tp_ampi_win_has(const struct tp_ampi_win *win, uint64_t at, uint64_t len)
{
    const struct tp_ampi_part *own = &win->parts[win->comm->rank];

    if (win->flavor != MPI_WIN_FLAVOR_DYNAMIC) { /* device memory may have been freed */
        return at >= own->base && at - own->base <= own->size &&
               len <= own->size - (at - own->base) &&
               (!win->device || len == 0 || tp_ampi_is_device((void *)(uintptr_t)at));
    }
    while (len != 0) { /* accesses may reach over several attached ranges */
        uint64_t left = attached_after(win, at);

        if (left == 0) {
            return false;
        }
        left = TP_MIN(left, len);
        at += left;
        len -= left;
    }
    return true;
}

/* ---- events ---- */

void
tp_ampi_win_signal(struct tp_ampi_win *win)
{
    tp_ampi_signal(&win->waits);
}

void
tp_ampi_win_wait(struct tp_ampi_win *win,
                 bool (*done)(const struct tp_ampi_win *win, const void *arg),
                 const void *arg)
{
    struct tp_ampi_waiter waiter;

    while (!done(win, arg)) {
        tp_ampi_await_signal(&win->waits, &waiter);
    }
}

/* ---- memory ---- */

/* A member's part of the window, exchanged once or twice. */
struct part {
    uint64_t base, size;
    int32_t unit, error;
    struct tp_memfd_name file;
};

/* Tells all members, and learns from all. */
static int
exchange(struct tp_ampi_win *win, const struct part *own, struct part *all)
{
    return tp_ampi_comm_gather(win->comm, win->comm->group, TAG_WINDOW, own,
                               sizeof(*own), all);
}

static int
allocate(struct tp_ampi_win *win)
{
    win->memory = tp_alloc_aligned(ALIGNMENT, (size_t)win->size, "MPI window");
    if (win->memory == NULL) {
        return MPI_ERR_NO_MEM;
    }
    win->base = win->memory;
    memset(win->base, 0, (size_t)win->size);
    return MPI_SUCCESS;
}

/* Parts follow each other; those of MPI_Win_allocate do not share cache lines. */
static uint64_t
stride_of(const struct tp_ampi_win *win, uint64_t size)
{
    return win->flavor == MPI_WIN_FLAVOR_SHARED
               ? size
               : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* @return false: longer than any memory */
static bool
total_of(const struct tp_ampi_win *win, const struct part *all, uint64_t *ret)
{
    uint64_t total = 0;

    for (int i = 0; i < win->comm->size; i++) {
        if (__builtin_add_overflow(total, stride_of(win, all[i].size), &total)) {
            return false;
        }
    }
    *ret = TP_MAX(total, 1u);
    return total <= PTRDIFF_MAX;
}

static telpher_status
map_file(struct tp_ampi_win *win, const struct tp_memfd_name *file)
{
    int fd;
    telpher_status status = tp_memfd_open(file, &fd);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_memfd_map(fd, file->size, &win->memory);
    (void)close(fd);
    if (status == TELPHER_OK) {
        win->mapped_bytes = (size_t)file->size;
    }
    return status;
}

static void
place_parts(struct tp_ampi_win *win, const struct part *all)
{
    char *at = win->memory;

    for (int i = 0; i < win->comm->size; i++) {
        win->parts[i].mapped = at;
        at += stride_of(win, all[i].size);
    }
    win->base = win->parts[win->comm->rank].mapped;
}

/* Member 0 makes a file that all map. @return MPI_ERR_RMA_SHARED: some member cannot */
static int
share(struct tp_ampi_win *win, struct part *own, struct part *all)
{
    int fd = -1, error = exchange(win, own, all);
    uint64_t total;

    if (error == MPI_SUCCESS && !total_of(win, all, &total)) {
        return MPI_ERR_NO_MEM; /* all find the same */
    }
    if (error == MPI_SUCCESS && win->comm->rank == 0) {
        (void)(tp_memfd_create("telpher-window", total, &fd) == TELPHER_OK &&
               tp_memfd_describe(fd, &own->file) == TELPHER_OK);
    }
    if (error == MPI_SUCCESS) {
        error = exchange(win, own, all);
    }
    if (error == MPI_SUCCESS) {
        own->error = map_file(win, &all[0].file) == TELPHER_OK ? MPI_SUCCESS
                                                               : MPI_ERR_RMA_SHARED;
        error = exchange(win, own, all);
    }
    for (int i = 0; i < win->comm->size && error == MPI_SUCCESS; i++) {
        error = all[i].error;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    own->error = MPI_SUCCESS;
    if (error == MPI_SUCCESS) {
        place_parts(win, all);
    } else if (win->mapped_bytes != 0) {
        (void)munmap(win->memory, win->mapped_bytes);
        win->mapped_bytes = 0;
        win->memory = NULL;
    }
    return error;
}

/* Memory of a window that has none of the program's. */
static int
take_memory(struct tp_ampi_win *win, struct part *own, struct part *all)
{
    int error = MPI_ERR_RMA_SHARED;

    if (win->flavor == MPI_WIN_FLAVOR_CREATE || win->flavor == MPI_WIN_FLAVOR_DYNAMIC) {
        return MPI_SUCCESS;
    }
    if (win->flavor == MPI_WIN_FLAVOR_SHARED || tp_ampi.processes > 1) {
        error = share(win, own, all);
    }
    return error == MPI_ERR_RMA_SHARED && win->flavor == MPI_WIN_FLAVOR_ALLOCATE
               ? allocate(win)
               : error;
}

/* ---- make and free ---- */

static void
destroy(struct tp_ampi_win *win)
{
    if (win->mapped_bytes != 0) {
        (void)munmap(win->memory, win->mapped_bytes);
    } else {
        tp_free(win->memory);
    }
    tp_list_for_each_entry_safe(struct tp_ampi_attached, a, &win->attached, link) {
        tp_free(a);
    }
    if (win->handle != 0) {
        tp_ampi_handle_destroy(win->handle);
    }
    if (win->comm != NULL) {
        win->comm->mail[0]->window = NULL;
        tp_ampi_handle_destroy(win->comm->handle);
        tp_ampi_comm_unref(win->comm);
    }
    tp_ampi_errhandler_unref(win->errhandler);
    tp_ampi_info_destroy(win->info);
    tp_free(win->parts);
    tp_free(win);
}

/* A window without memory and parts, which messages find from now on. */
static int
prepare(struct tp_ampi_comm *comm, struct tp_ampi_win *win, MPI_Info info)
{
    int error;

    tp_list_init(&win->attached);
    tp_list_init(&win->waits);
    tp_list_init(&win->lock_queue);
    win->model = MPI_WIN_UNIFIED;
    win->errhandler = MPI_ERRORS_ARE_FATAL;
    error = tp_ampi_comm_dup(comm, &win->comm);
    if (error != MPI_SUCCESS) {
        win->comm = NULL;
        return error;
    }
    (void)strcpy(win->comm->name, "a window");
    win->handle = tp_ampi_handle_create(TP_AMPI_WIN, win);
    win->parts = tp_alloc_array((size_t)comm->size, sizeof(*win->parts), "MPI window");
    (void)tp_ampi_info_replace(&win->info, info);
    win->comm->mail[0]->window = win;
    return win->handle != 0 && win->parts != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static void
set_part(struct tp_ampi_part *to, const struct part *from)
{
    to->base = from->base;
    to->size = from->size;
    to->unit = from->unit;
}

static int
fill(struct tp_ampi_win *win)
{
    struct part own = {.size = (uint64_t)win->size, .unit = win->unit};
    struct part *all =
        tp_alloc_array((size_t)win->comm->size, sizeof(*all), "MPI window");
    int error = MPI_ERR_NO_MEM;

    if (all != NULL) {
        error = take_memory(win, &own, all);
    }
    if (error == MPI_SUCCESS) {
        own.base = (uint64_t)(uintptr_t)win->base;
        set_part(&win->parts[win->comm->rank], &own); /* others may access it at once */
        error = exchange(win, &own, all);
    }
    for (int i = 0; error == MPI_SUCCESS && i < win->comm->size; i++) {
        set_part(&win->parts[i], &all[i]);
    }
    tp_free(all);
    return error;
}

static int
make(struct tp_ampi_comm *comm, int flavor, void *base, MPI_Aint size, int unit,
     MPI_Info info, struct tp_ampi_win **ret)
{
    struct tp_ampi_win *win;
    int error;

    if (size < 0 || unit <= 0) {
        return size < 0 ? MPI_ERR_SIZE : MPI_ERR_DISP;
    }
    win = tp_zalloc(sizeof(*win), "MPI window");
    if (win == NULL) {
        return MPI_ERR_NO_MEM;
    }
    win->flavor = flavor;
    win->base = base;
    win->device = base != NULL && tp_ampi_is_device(base);
    win->size = size;
    win->unit = unit;
    error = prepare(comm, win, info);
    if (error == MPI_SUCCESS) {
        error = fill(win);
    }
    if (error != MPI_SUCCESS) {
        destroy(win);
        return error;
    }
    *ret = win;
    return MPI_SUCCESS;
}

static int
create(MPI_Comm handle, int flavor, void *base, MPI_Aint size, int unit, MPI_Info info,
       void **ret_base, MPI_Win *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_win *win = NULL;
    int error = MPI_ERR_COMM;

    tp_ampi_enter();
    *ret = MPI_WIN_NULL;
    comm = tp_ampi_comm_find(handle);
    if (comm != NULL && comm->routes != NULL) {
        error = tp_ampi_error(comm, MPI_ERR_COMM,
                              "%s has ranks of several jobs, which have no windows",
                              comm->name);
    } else if (comm != NULL) {
        error = make(comm, flavor, base, size, unit, info, &win);
        (void)tp_ampi_error(
            comm, error, "cannot make a window of %zd bytes, unit %d: %s", size, unit,
            error == MPI_ERR_RMA_SHARED ? "its ranks do not share memory"
                                        : "wrong argument, or no memory");
    }
    if (error == MPI_SUCCESS) {
        *ret = win->handle;
        if (ret_base != NULL) {
            memcpy(ret_base, &win->base, sizeof(win->base));
        }
    }
    tp_ampi_leave();
    return error;
}

int
PMPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                MPI_Win *ret)
{
    return create(comm, MPI_WIN_FLAVOR_CREATE, base, size, unit, info, NULL, ret);
}
TP_MPI_NAME(Win_create);

int
PMPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                  MPI_Win *ret)
{
    return create(comm, MPI_WIN_FLAVOR_ALLOCATE, NULL, size, unit, info, base, ret);
}
TP_MPI_NAME(Win_allocate);

int
PMPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                         void *base, MPI_Win *ret)
{
    return create(comm, MPI_WIN_FLAVOR_SHARED, NULL, size, unit, info, base, ret);
}
TP_MPI_NAME(Win_allocate_shared);

int
PMPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *ret)
{
    return create(comm, MPI_WIN_FLAVOR_DYNAMIC, NULL, 0, 1, info, NULL, ret);
}
TP_MPI_NAME(Win_create_dynamic);

static bool
is_in_epoch(const struct tp_ampi_win *win)
{
    bool locked = false;

    for (int i = 0; i < win->comm->size; i++) {
        locked |= win->parts[i].lock != 0;
    }
    return locked || win->started != NULL || win->exposed != NULL;
}

int
PMPI_Win_free(MPI_Win *handle)
{
    struct tp_ampi_win *win;
    int error = MPI_ERR_WIN;

    tp_ampi_enter();
    win = tp_ampi_win_find(*handle);
    if (win != NULL && is_in_epoch(win)) {
        error = tp_ampi_win_error(win, MPI_ERR_RMA_SYNC,
                                  "the window is locked, or in an epoch of "
                                  "MPI_Win_start or MPI_Win_post");
    } else if (win != NULL) {
        tp_ampi_win_flush(win, 0, win->comm->size, true);
        error = tp_ampi_attributes_delete(&win->attributes, win->handle);
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_comm_meet(win->comm);
    }
    if (error == MPI_SUCCESS) {
        destroy(win);
        *handle = MPI_WIN_NULL;
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Win_free);

int
PMPI_Win_shared_query(MPI_Win handle, int rank, MPI_Aint *size, int *unit, void *base)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);
    void *at = NULL;

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    for (int i = 0; rank == MPI_PROC_NULL && i < win->comm->size; i++) {
        rank = win->parts[i].size > 0 ? i : rank; /* the first that has memory */
    }
    rank = rank == MPI_PROC_NULL ? 0 : rank;
    if (rank < 0 || rank >= win->comm->size) {
        return tp_ampi_win_error(win, MPI_ERR_RANK, "there is no rank %d in the window",
                                 rank);
    }
    if (win->parts[rank].size !=
        0) { /* memory that is not shared has no address here */
        at = win->parts[rank].mapped;
    }
    *size = at != NULL ? (MPI_Aint)win->parts[rank].size : 0;
    *unit = win->parts[rank].unit;
    memcpy(base, &at, sizeof(at));
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_shared_query);

/* ---- dynamic windows ---- */

int
PMPI_Win_attach(MPI_Win handle, void *base, MPI_Aint size)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);
    struct tp_ampi_attached *a;

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    if (win->flavor != MPI_WIN_FLAVOR_DYNAMIC) {
        return tp_ampi_win_error(win, MPI_ERR_RMA_FLAVOR, "the window is not dynamic");
    }
    if (size < 0) {
        return tp_ampi_win_error(win, MPI_ERR_SIZE, "a size of %td bytes is negative",
                                 size);
    }
    a = tp_zalloc(sizeof(*a), "MPI window");
    if (a == NULL) {
        return tp_ampi_win_error(win, MPI_ERR_NO_MEM, "no memory");
    }
    a->base = (uint64_t)(uintptr_t)base;
    a->size = (uint64_t)size;
    tp_list_init(&a->link);
    tp_ampi_enter();
    win->device |= tp_ampi_is_device(base);
    tp_list_push_back(&win->attached, &a->link);
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_attach);

int
PMPI_Win_detach(MPI_Win handle, const void *base)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    tp_list_for_each_entry_safe(struct tp_ampi_attached, a, &win->attached, link) {
        if (a->base == (uint64_t)(uintptr_t)base) {
            tp_list_remove(&a->link);
            tp_free(a);
            return MPI_SUCCESS;
        }
    }
    return tp_ampi_win_error(win, MPI_ERR_BASE, "%p is not attached", base);
}
TP_MPI_NAME(Win_detach);
