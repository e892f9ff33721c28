/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and one-sided access of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_WINDOW_H
#define TELPHER_AMPI_MPI_WINDOW_H

#include "mpi_objects.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_LOCK_EXCLUSIVE 1
#define MPI_LOCK_SHARED 2
#define MPI_MODE_NOCHECK 1024
#define MPI_MODE_NOSTORE 2048
#define MPI_MODE_NOPUT 4096
#define MPI_MODE_NOPRECEDE 8192
#define MPI_MODE_NOSUCCEED 16384

enum telpher_mpi_win_flavor {
    MPI_WIN_FLAVOR_CREATE = 1,
    MPI_WIN_FLAVOR_ALLOCATE = 2,
    MPI_WIN_FLAVOR_DYNAMIC = 3,
    MPI_WIN_FLAVOR_SHARED = 4
};
enum telpher_mpi_win_model { MPI_WIN_SEPARATE = 1, MPI_WIN_UNIFIED = 2 };

/* Attributes that every window has. */
#define MPI_WIN_BASE 0x09000011 /* the address */
#define MPI_WIN_SIZE 0x09000012 /* to an MPI_Aint */
#define MPI_WIN_DISP_UNIT 0x09000013 /* to an int, as the next */
#define MPI_WIN_CREATE_FLAVOR 0x09000014
#define MPI_WIN_MODEL 0x09000015

TELPHER_MPI_CALL(int, Alloc_mem, (MPI_Aint size, MPI_Info info, void *ret));
TELPHER_MPI_CALL(int, Free_mem, (void *base));

TELPHER_MPI_CALL(int, Win_create,
                 (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                  MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_allocate,
                 (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                  MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_allocate_shared,
                 (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                  MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_shared_query,
                 (MPI_Win win, int rank, MPI_Aint *size, int *unit, void *base));
TELPHER_MPI_CALL(int, Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_attach, (MPI_Win win, void *base, MPI_Aint size));
TELPHER_MPI_CALL(int, Win_detach, (MPI_Win win, const void *base));
TELPHER_MPI_CALL(int, Win_free, (MPI_Win * win));
TELPHER_MPI_CALL(int, Win_get_group, (MPI_Win win, MPI_Group *group));
TELPHER_MPI_CALL(int, Win_set_name, (MPI_Win win, const char *name));
TELPHER_MPI_CALL(int, Win_get_name, (MPI_Win win, char *name, int *length));
TELPHER_MPI_CALL(int, Win_set_info, (MPI_Win win, MPI_Info info));
TELPHER_MPI_CALL(int, Win_get_info, (MPI_Win win, MPI_Info *ret));
TELPHER_MPI_CALL(int, Win_create_keyval,
                 (MPI_Win_copy_attr_function * copy, MPI_Win_delete_attr_function *del,
                  int *keyval, void *extra));
TELPHER_MPI_CALL(int, Win_free_keyval, (int *keyval));
TELPHER_MPI_CALL(int, Win_set_attr, (MPI_Win win, int keyval, void *value));
TELPHER_MPI_CALL(int, Win_get_attr, (MPI_Win win, int keyval, void *value, int *flag));
TELPHER_MPI_CALL(int, Win_delete_attr, (MPI_Win win, int keyval));
TELPHER_MPI_CALL(int, Win_create_errhandler,
                 (MPI_Win_errhandler_function * fn, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Win_set_errhandler, (MPI_Win win, MPI_Errhandler handler));
TELPHER_MPI_CALL(int, Win_get_errhandler, (MPI_Win win, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Win_call_errhandler, (MPI_Win win, int code));

TELPHER_MPI_CALL(int, Put,
                 (const void *out, int out_count, MPI_Datatype out_type, int target,
                  MPI_Aint disp, int count, MPI_Datatype type, MPI_Win win));
TELPHER_MPI_CALL(int, Get,
                 (void *in, int in_count, MPI_Datatype in_type, int target,
                  MPI_Aint disp, int count, MPI_Datatype type, MPI_Win win));
TELPHER_MPI_CALL(int, Accumulate,
                 (const void *out, int out_count, MPI_Datatype out_type, int target,
                  MPI_Aint disp, int count, MPI_Datatype type, MPI_Op op, MPI_Win win));
TELPHER_MPI_CALL(int, Get_accumulate,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int target, MPI_Aint disp,
                  int count, MPI_Datatype type, MPI_Op op, MPI_Win win));
TELPHER_MPI_CALL(int, Rput,
                 (const void *out, int out_count, MPI_Datatype out_type, int target,
                  MPI_Aint disp, int count, MPI_Datatype type, MPI_Win win,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Rget,
                 (void *in, int in_count, MPI_Datatype in_type, int target,
                  MPI_Aint disp, int count, MPI_Datatype type, MPI_Win win,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Raccumulate,
                 (const void *out, int out_count, MPI_Datatype out_type, int target,
                  MPI_Aint disp, int count, MPI_Datatype type, MPI_Op op, MPI_Win win,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Rget_accumulate,
                 (const void *out, int out_count, MPI_Datatype out_type, void *in,
                  int in_count, MPI_Datatype in_type, int target, MPI_Aint disp,
                  int count, MPI_Datatype type, MPI_Op op, MPI_Win win,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Fetch_and_op,
                 (const void *out, void *in, MPI_Datatype type, int target,
                  MPI_Aint disp, MPI_Op op, MPI_Win win));
TELPHER_MPI_CALL(int, Compare_and_swap,
                 (const void *out, const void *compare, void *in, MPI_Datatype type,
                  int target, MPI_Aint disp, MPI_Win win));

TELPHER_MPI_CALL(int, Win_fence, (int assertion, MPI_Win win));
TELPHER_MPI_CALL(int, Win_start, (MPI_Group group, int assertion, MPI_Win win));
TELPHER_MPI_CALL(int, Win_complete, (MPI_Win win));
TELPHER_MPI_CALL(int, Win_post, (MPI_Group group, int assertion, MPI_Win win));
TELPHER_MPI_CALL(int, Win_wait, (MPI_Win win));
TELPHER_MPI_CALL(int, Win_test, (MPI_Win win, int *flag));
TELPHER_MPI_CALL(int, Win_lock, (int type, int target, int assertion, MPI_Win win));
TELPHER_MPI_CALL(int, Win_unlock, (int target, MPI_Win win));
TELPHER_MPI_CALL(int, Win_lock_all, (int assertion, MPI_Win win));
TELPHER_MPI_CALL(int, Win_unlock_all, (MPI_Win win));
TELPHER_MPI_CALL(int, Win_flush, (int target, MPI_Win win));
TELPHER_MPI_CALL(int, Win_flush_all, (MPI_Win win));
TELPHER_MPI_CALL(int, Win_flush_local, (int target, MPI_Win win));
TELPHER_MPI_CALL(int, Win_flush_local_all, (MPI_Win win));
TELPHER_MPI_CALL(int, Win_sync, (MPI_Win win));

#ifdef __cplusplus
}
#endif

#endif
