/* SPDX-License-Identifier: Apache-2.0 */
/* Start, end, time and communicators of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_WORLD_H
#define TELPHER_AMPI_MPI_WORLD_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Init, (int *argc, char ***argv));
TELPHER_MPI_CALL(int, Init_thread,
                 (int *argc, char ***argv, int required, int *provided));
TELPHER_MPI_CALL(int, Initialized, (int *flag));
TELPHER_MPI_CALL(int, Finalize, (void));
TELPHER_MPI_CALL(int, Finalized, (int *flag));
TELPHER_MPI_CALL(int, Query_thread, (int *provided));
TELPHER_MPI_CALL(int, Is_thread_main, (int *flag));
TELPHER_MPI_CALL(int, Abort, (MPI_Comm comm, int code));
TELPHER_MPI_CALL(double, Wtime, (void));
TELPHER_MPI_CALL(double, Wtick, (void));
TELPHER_MPI_CALL(int, Get_processor_name, (char *name, int *length));
TELPHER_MPI_CALL(int, Get_version, (int *version, int *subversion));
TELPHER_MPI_CALL(int, Get_library_version, (char *version, int *length));
TELPHER_MPI_CALL(int, Pcontrol, (const int level, ...));

TELPHER_MPI_CALL(int, Comm_rank, (MPI_Comm comm, int *rank));
TELPHER_MPI_CALL(int, Comm_size, (MPI_Comm comm, int *size));
TELPHER_MPI_CALL(int, Comm_compare, (MPI_Comm one, MPI_Comm other, int *result));
TELPHER_MPI_CALL(int, Comm_dup, (MPI_Comm comm, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_idup, (MPI_Comm comm, MPI_Comm *ret, MPI_Request *request));
TELPHER_MPI_CALL(int, Comm_dup_with_info,
                 (MPI_Comm comm, MPI_Info info, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_idup_with_info,
                 (MPI_Comm comm, MPI_Info info, MPI_Comm *ret, MPI_Request *request));
TELPHER_MPI_CALL(int, Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_create_group,
                 (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_split_type,
                 (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_free, (MPI_Comm * comm));
TELPHER_MPI_CALL(int, Comm_disconnect, (MPI_Comm * comm));
TELPHER_MPI_CALL(int, Comm_group, (MPI_Comm comm, MPI_Group *group));
TELPHER_MPI_CALL(int, Comm_test_inter, (MPI_Comm comm, int *flag));
TELPHER_MPI_CALL(int, Comm_remote_size, (MPI_Comm comm, int *size));
TELPHER_MPI_CALL(int, Comm_remote_group, (MPI_Comm comm, MPI_Group *group));
TELPHER_MPI_CALL(int, Intercomm_create,
                 (MPI_Comm local, int leader, MPI_Comm peer, int remote_leader, int tag,
                  MPI_Comm *ret));
TELPHER_MPI_CALL(int, Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Comm_set_name, (MPI_Comm comm, const char *name));
TELPHER_MPI_CALL(int, Comm_get_name, (MPI_Comm comm, char *name, int *length));

/** This rank's process as a rank of Telpher: for device memory, with <telpher/mem.h> and
 *  <telpher/opencl.h>. Valid from MPI_Init() to MPI_Finalize(), NULL otherwise; borrowed. */
struct telpher_context;
__attribute__((visibility("default"))) struct telpher_context *AMPI_Context(void);

/**
 * All ranks of the world call it, in the same order: a place where ranks may move or be saved.
 * Where TELPHER_AMPI_MIGRATE is not set, no rank moves. A rank with a window, or with a send or a
 * collective that is not complete, stays.
 *
 * @param info  ampi_load_balance=sync: spreads ranks over processes by the time that they took
 *              since the last call; MPI_INFO_NULL: nothing
 */
__attribute__((visibility("default"))) int AMPI_Migrate(MPI_Info info);
/** As AMPI_Migrate(); the calling rank goes to process @p process. One rank stays in each process. */
__attribute__((visibility("default"))) int AMPI_Migrate_to_pe(int process);

#ifdef __cplusplus
}
#endif

#endif
