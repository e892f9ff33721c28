/* SPDX-License-Identifier: Apache-2.0 */
/* Names, groups, hints, attributes and error handlers of windows; memory of the program. */
#include <string.h>

#include "ampi/errhandler.h"
#include "ampi/window.h"
#include "base/alloc.h"

int
PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *ret)
{
    void *memory = size >= 0 ? tp_alloc_aligned(64, (size_t)size, "MPI memory") : NULL;

    (void)info;
    if (memory == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for %zd bytes", size);
    }
    memcpy(ret, &memory, sizeof(memory));
    return MPI_SUCCESS;
}
TP_MPI_NAME(Alloc_mem);

int
PMPI_Free_mem(void *base)
{
    tp_free(base);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Free_mem);

int
PMPI_Win_get_group(MPI_Win handle, MPI_Group *group)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    win->comm->group->refs++;
    return tp_ampi_win_error(win, tp_ampi_group_give(win->comm->group, group),
                             "no memory for a group");
}
TP_MPI_NAME(Win_get_group);

int
PMPI_Win_set_name(MPI_Win handle, const char *name)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    (void)strncpy(win->name, name, sizeof(win->name) - 1);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_set_name);

int
PMPI_Win_get_name(MPI_Win handle, char *name, int *length)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    (void)strcpy(name, win->name);
    *length = (int)strlen(name);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_get_name);

int
PMPI_Win_set_info(MPI_Win handle, MPI_Info info)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    return win == NULL ? MPI_ERR_WIN
                       : tp_ampi_win_error(win, tp_ampi_info_replace(&win->info, info),
                                           "no memory for hints");
}
TP_MPI_NAME(Win_set_info);

int
PMPI_Win_get_info(MPI_Win handle, MPI_Info *ret)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    return win == NULL ? MPI_ERR_WIN : tp_ampi_info_give_copy(win->info, ret);
}
TP_MPI_NAME(Win_get_info);

/* ---- attributes ---- */

int
PMPI_Win_create_keyval(MPI_Win_copy_attr_function *copy,
                       MPI_Win_delete_attr_function *del, int *keyval, void *extra)
{
    return tp_ampi_keyval_create(TP_AMPI_WIN, copy, del, keyval, extra);
}
TP_MPI_NAME(Win_create_keyval);

int
PMPI_Win_free_keyval(int *keyval)
{
    return tp_ampi_keyval_free(TP_AMPI_WIN, keyval);
}
TP_MPI_NAME(Win_free_keyval);

/* Attributes that every window has. */
static bool
get_predefined(struct tp_ampi_win *win, int keyval, void **ret)
{
    switch (keyval) {
    case MPI_WIN_BASE:
        *ret = win->base;
        return true;
    case MPI_WIN_SIZE:
        *ret = &win->size;
        return true;
    case MPI_WIN_DISP_UNIT:
        *ret = &win->unit;
        return true;
    case MPI_WIN_CREATE_FLAVOR:
        *ret = &win->flavor;
        return true;
    case MPI_WIN_MODEL:
        *ret = &win->model;
        return true;
    default:
        return false;
    }
}

TP_AMPI_ATTRIBUTES(TP_AMPI_WIN, Win, MPI_ERR_WIN, tp_ampi_win_find, struct tp_ampi_win,
                   get_predefined);

/* ---- error handlers ---- */

int
PMPI_Win_create_errhandler(MPI_Win_errhandler_function *fn, MPI_Errhandler *ret)
{
    return PMPI_Comm_create_errhandler(fn, ret);
}
TP_MPI_NAME(Win_create_errhandler);

int
PMPI_Win_set_errhandler(MPI_Win handle, MPI_Errhandler handler)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    return win == NULL ? MPI_ERR_WIN
                       : tp_ampi_errhandler_set(&win->errhandler, handler);
}
TP_MPI_NAME(Win_set_errhandler);

int
PMPI_Win_get_errhandler(MPI_Win handle, MPI_Errhandler *ret)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    tp_ampi_errhandler_ref(win->errhandler);
    *ret = win->errhandler;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_get_errhandler);

int
PMPI_Win_call_errhandler(MPI_Win handle, int code)
{
    struct tp_ampi_win *win = tp_ampi_win_find(handle);

    if (win == NULL) {
        return MPI_ERR_WIN;
    }
    (void)tp_ampi_win_error(win, code, "the program reports error %d", code);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Win_call_errhandler);
