/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrappers of the MPI functions that do more than translate their communicator; pmpi.py
 * generates the others. A program launched beside its workers sees the communicators
 * that it would see after spawning them.
 */
#include "offload/pmpi.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/trace/log.h"
#include "offload/offload_int.h"

/* Threads let launches go on while the program computes, and cost some 0.1 us a call. */
static int
start(int *argc, char ***argv, int required, int *ret_provided)
{
    int wanted = tp_offload_settings()->thread ? MPI_THREAD_MULTIPLE : required;
    int rc;

    if (tp_offload_world_may_wait()) {
        tp_offload_watch_phase(
            "MPI_Init(): a program of this launch does not call it, or "
            "could not be started",
            tp_offload_settings()->timeout_ns);
    }
    rc = PMPI_Init_thread(argc, argv, wanted > required ? wanted : required,
                          ret_provided);
    tp_offload_watch_phase_end();
    if (rc == MPI_SUCCESS) {
        tp_offload_world_init(*ret_provided);
    }
    return rc;
}

int
MPI_Init(int *argc, char ***argv)
{
    int provided;

    return start(argc, argv, MPI_THREAD_SINGLE, &provided);
}

int
MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return start(argc, argv, required, provided);
}

int
MPI_Finalize(void)
{
    tp_offload_world_fini();
    return PMPI_Finalize();
}

int
MPI_Comm_get_parent(MPI_Comm *parent)
{
    if (tp_offload_world.parent == MPI_COMM_NULL) {
        return PMPI_Comm_get_parent(parent);
    }
    *parent = tp_offload_world.parent;
    return MPI_SUCCESS;
}

/* Predefined attributes of MPI_COMM_WORLD exist on the MPI's own communicator only. */
static MPI_Comm
attribute_comm(MPI_Comm comm, int key)
{
    switch (key) {
    case MPI_TAG_UB:
    case MPI_HOST:
    case MPI_IO:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_UNIVERSE_SIZE:
    case MPI_LASTUSEDCODE:
    case MPI_APPNUM:
        return comm;
    default:
        return tp_offload_comm(comm);
    }
}

int
MPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *flag)
{
    return PMPI_Comm_get_attr(attribute_comm(comm, key), key, value, flag);
}

/* Gone from the standard, still there in libraries. */
int MPI_Attr_get(MPI_Comm comm, int key, void *value, int *flag);

int
MPI_Attr_get(MPI_Comm comm, int key, void *value, int *flag)
{
    return MPI_Comm_get_attr(comm, key, value, flag);
}

/* Errors of calls without a communicator go to the handler of the real MPI_COMM_WORLD. */
int
MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    int rc = MPI_SUCCESS;

    if (comm == MPI_COMM_WORLD && tp_offload_comm(comm) != comm) {
        rc = PMPI_Comm_set_errhandler(comm, handler);
    }
    return rc == MPI_SUCCESS ? PMPI_Comm_set_errhandler(tp_offload_comm(comm), handler)
                             : rc;
}

/* Intercommunicators that MPIX_Kernel_call("") disconnected, which programs may do again. */
enum { GONE_MAX = 64 };
static MPI_Comm gone[GONE_MAX];
static int gone_count;

void
tp_offload_comm_gone(MPI_Comm comm)
{
    if (gone_count < GONE_MAX) {
        gone[gone_count++] = comm;
    }
}

static bool
forget_gone(MPI_Comm comm)
{
    for (int i = 0; i < gone_count; i++) {
        if (gone[i] == comm) {
            gone[i] = gone[--gone_count];
            return true;
        }
    }
    return false;
}

int
tp_offload_comm_made(int rc, const MPI_Comm *comm)
{
    if (gone_count != 0 && rc == MPI_SUCCESS) {
        (void)forget_gone(*comm);
    }
    return rc;
}

/* The workers behind it end first. */
static bool
is_gone(MPI_Comm *comm)
{
    tp_offload_group_leave(*comm);
    if (gone_count != 0 && forget_gone(*comm)) {
        *comm = MPI_COMM_NULL;
        return true;
    }
    return false;
}

int
MPI_Comm_free(MPI_Comm *comm)
{
    return is_gone(comm) ? MPI_SUCCESS : PMPI_Comm_free(comm);
}

int
MPI_Comm_disconnect(MPI_Comm *comm)
{
    return is_gone(comm) ? MPI_SUCCESS : PMPI_Comm_disconnect(comm);
}

/* From the pool while that has enough, else by the MPI. */
int
MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root,
               MPI_Comm comm, MPI_Comm *intercomm, int errcodes[])
{
    MPI_Comm real = tp_offload_comm(comm);
    struct tp_error err = {0};
    telpher_status status;

    if (tp_offload_world.base == MPI_COMM_NULL ||
        tp_offload_settings()->mode == TELPHER_OFFLOAD_SPAWN) {
        return PMPI_Comm_spawn(command, argv, maxprocs, info, root, real, intercomm,
                               errcodes);
    }
    status = tp_offload_pool_take(maxprocs, root, real, intercomm, &err);
    if (status != TELPHER_OK) {
        return tp_offload_mpi_error(real, status, &err);
    }
    for (int i = 0; errcodes != MPI_ERRCODES_IGNORE && i < maxprocs; i++) {
        errcodes[i] = MPI_SUCCESS;
    }
    return MPI_SUCCESS;
}
