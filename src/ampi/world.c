/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of start, end, time and names. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <telpher/telpher.h>

#include "ampi/attribute.h"
#include "ampi/dynamic/dynamic.h"
#include "ampi/process.h"
#include "api/opencl_calls.h"
#include "base/os/clock.h"

void
tp_ampi_set_threads(int level)
{
    pthread_mutexattr_t attr;

    tp_ampi.thread_level = level;
    if (tp_ampi.virtual_ranks && level > MPI_THREAD_SERIALIZED) {
        tp_ampi.thread_level = MPI_THREAD_SERIALIZED;
    }
    if (tp_ampi.thread_level == MPI_THREAD_MULTIPLE && !tp_ampi.multiple) {
        (void)pthread_mutexattr_init(&attr);
        (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
        (void)pthread_mutex_init(&tp_ampi.lock, &attr);
        (void)pthread_mutexattr_destroy(&attr);
        tp_ampi.multiple = true;
    }
}

static int
start(int required)
{
    struct tp_ampi_rank *rank;
    int error;

    if (tp_ampi.ctx == NULL && !tp_ampi.over && !tp_ampi_process_start(0)) {
        tp_ampi_abort(1);
    }
    rank = tp_ampi.over ? NULL : tp_ampi_current();
    if (rank == NULL || rank->initialized) {
        return tp_ampi_error(NULL, MPI_ERR_OTHER,
                             "a rank calls it once, and this one called it before");
    }
    rank->initialized = true;
    tp_ampi_set_threads(required);
    tp_ampi_enter();
    error = tp_ampi_meet_parent(rank);
    tp_ampi_leave();
    return error;
}

int
PMPI_Init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return start(MPI_THREAD_SINGLE);
}
TP_MPI_NAME(Init);

int
PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int error = start(required);

    (void)argc;
    (void)argv;
    *provided = tp_ampi.thread_level;
    return error;
}
TP_MPI_NAME(Init_thread);

int
PMPI_Initialized(int *flag)
{
    *flag = tp_ampi.over || (tp_ampi.ctx != NULL && tp_ampi_current()->initialized);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Initialized);

int
PMPI_Finalized(int *flag)
{
    *flag = tp_ampi.over || (tp_ampi.ctx != NULL && tp_ampi_current()->finalized);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Finalized);

int
PMPI_Finalize(void)
{
    struct tp_ampi_rank *rank;

    if (tp_ampi.ctx == NULL || tp_ampi_current()->finalized) {
        return tp_ampi_error(NULL, MPI_ERR_OTHER,
                             "a rank calls it once, after MPI_Init");
    }
    tp_ampi_enter();
    rank = tp_ampi_current();
    (void)tp_ampi_attributes_delete(&rank->comm_self->attributes, MPI_COMM_SELF);
    rank->finalized = true;
    (void)tp_ampi_comm_meet(rank->comm_world);
    tp_ampi_leave();
    if (!tp_ampi.virtual_ranks && !tp_ampi.has_sessions) {
        tp_ampi_process_stop();
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Finalize);

int
PMPI_Query_thread(int *provided)
{
    *provided = tp_ampi.thread_level;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Query_thread);

int
PMPI_Is_thread_main(int *flag)
{
    *flag = pthread_equal(pthread_self(), tp_ampi.main_thread) != 0;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Is_thread_main);

int
PMPI_Abort(MPI_Comm comm, int code)
{
    (void)comm;
    (void)fprintf(stderr, "telpher-ampi: rank %u called MPI_Abort with code %d\n",
                  tp_ampi.ctx != NULL ? tp_ampi_current()->world : 0, code);
    tp_ampi_abort(code);
}
TP_MPI_NAME(Abort);

void *
tp_opencl_calls_begin(void)
{
    return tp_ampi_heap_use(NULL);
}

void
tp_opencl_calls_end(void *begun)
{
    (void)tp_ampi_heap_use(begun);
}

struct telpher_context *
AMPI_Context(void)
{
    return tp_ampi.ctx;
}

double
PMPI_Wtime(void)
{
    return (double)tp_clock_ns() * 1e-9;
}
TP_MPI_NAME(Wtime);

double
PMPI_Wtick(void)
{
    return 1e-9;
}
TP_MPI_NAME(Wtick);

int
PMPI_Get_processor_name(char *name, int *length)
{
    if (gethostname(name, MPI_MAX_PROCESSOR_NAME) != 0) {
        (void)snprintf(name, MPI_MAX_PROCESSOR_NAME, "unknown");
    }
    name[MPI_MAX_PROCESSOR_NAME - 1] = '\0';
    *length = 0;
    while (name[*length] != '\0') {
        (*length)++;
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Get_processor_name);

int
PMPI_Get_version(int *version, int *subversion)
{
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Get_version);

int
PMPI_Get_library_version(char *version, int *length)
{
    *length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING,
                       "Telpher adaptive MPI %s", TELPHER_VERSION_STRING);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Get_library_version);

int
PMPI_Pcontrol(const int level, ...)
{
    (void)level;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Pcontrol);
