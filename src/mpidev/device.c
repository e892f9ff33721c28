/* SPDX-License-Identifier: Apache-2.0 */
/* The context of the process: a job of the ranks of MPI_COMM_WORLD, or of the process alone. */
#include "mpidev/mpidev_int.h"

#include <pthread.h>
#include <stdlib.h>

#include <telpher/mem.h>

/* This library's own messages go past it. */
#define MPI_Cancel PMPI_Cancel
#define MPI_Irecv PMPI_Irecv
#define MPI_Isend PMPI_Isend
#define MPI_Issend PMPI_Issend
#define MPI_Test PMPI_Test
#include <telpher/interop/mpi.h>
#include <telpher/interop/mpi_device.h>

#include "api/opencl_calls.h"
#include "base/compiler.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "base/trace/log.h"

#define SETTINGS_OF struct tp_mpidev_settings

telpher_context *tp_mpidev_context;
struct tp_mpidev_settings tp_mpidev_settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool threads_may_call;
static unsigned users; /* MPI_Init() and sessions that were not finalized */
#if MPI_VERSION >= 4
static MPI_Session own_session = MPI_SESSION_NULL;
#endif

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/mpidev.def"
#undef SETTING
};

void
tp_mpidev_lock(void)
{
    if (threads_may_call) {
        (void)pthread_mutex_lock(&lock);
    }
}

void
tp_mpidev_unlock(void)
{
    if (threads_may_call) {
        (void)pthread_mutex_unlock(&lock);
    }
}

bool
tp_mpidev_settings_load(void)
{
    const struct tp_config_room rooms[] = {
        {"mpidev", entries, TP_ARRAY_LEN(entries), &tp_mpidev_settings}};
    struct tp_config *config;
    struct tp_error wrong = {0};
    telpher_status status = tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config);

    if (status == TELPHER_OK) {
        status = tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &wrong);
        tp_config_destroy(config);
    }
    if (status != TELPHER_OK) {
        tp_error("mpidev", "%s", tp_error_text(&wrong));
    }
    return status == TELPHER_OK;
}

static bool
begin(MPI_Comm comm)
{
    telpher_error err = {0};

    if (tp_mpidev_settings_load() && tp_mpidev_settings.on &&
        telpher_context_create_mpi(comm, NULL, &tp_mpidev_context, &err) !=
            TELPHER_OK) {
        tp_warn("mpidev", "device memory in MPI calls is off: %s", err.text);
    }
    return tp_mpidev_context != NULL;
}

static void
end(void)
{
    telpher_context *context = tp_mpidev_context;

    tp_mpidev_lock();
    tp_mpidev_context = NULL;
    tp_mpidev_stage_fini();
    tp_mpidev_unlock();
    if (context != NULL) {
        telpher_context_destroy(context);
    }
#if MPI_VERSION >= 4
    if (own_session != MPI_SESSION_NULL) {
        (void)PMPI_Session_finalize(&own_session);
    }
#endif
}

/* A session of this library has the communicator: those of the program end before the last. */
static void
begin_alone(void)
{
#if MPI_VERSION >= 4
    MPI_Group self = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;

    if (PMPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &own_session) ==
            MPI_SUCCESS &&
        PMPI_Group_from_session_pset(own_session, "mpi://SELF", &self) == MPI_SUCCESS &&
        PMPI_Comm_create_from_group(self, "telpher-mpi-device", MPI_INFO_NULL,
                                    MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS) {
        (void)begin(comm);
        (void)PMPI_Comm_free(&comm);
    }
    if (self != MPI_GROUP_NULL) {
        (void)PMPI_Group_free(&self);
    }
#endif
    tp_mpidev_settings.content_min = INT64_MAX; /* no other process is reached */
}

/* All ranks have a context of the job, or none has; a process with sessions keeps its own. */
void
tp_mpidev_start(int threads)
{
    int mine = tp_mpidev_context == NULL, all = 0;

    threads_may_call |= threads == MPI_THREAD_MULTIPLE;
    users++;
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) !=
            MPI_SUCCESS ||
        all == 0) {
        if (mine != 0) {
            begin_alone();
        }
        return;
    }
    mine = begin(MPI_COMM_WORLD) && tp_mpidev_content_init() == TELPHER_OK;
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) !=
            MPI_SUCCESS ||
        all == 0) {
        end();
    }
}

void
tp_mpidev_start_session(void)
{
    threads_may_call = true;
    users++;
    if (tp_mpidev_context == NULL) {
        begin_alone();
    }
}

void
tp_mpidev_stop(void)
{
    if (--users == 0) {
        end();
    }
}

void *
tp_opencl_calls_begin(void)
{
    return NULL; /* all memory is the process's */
}

void
tp_opencl_calls_end(void *begun)
{
    (void)begun;
}

telpher_context *
telpher_mpi_device_context(void)
{
    return tp_mpidev_context;
}

bool
tp_mpidev_is_device(const void *pointer)
{
    telpher_mem_info info = {.struct_size = sizeof(info)};

    return tp_mpidev_context != NULL && pointer != NULL && pointer != MPI_IN_PLACE &&
           pointer != MPI_BOTTOM &&
           telpher_mem_query(tp_mpidev_context, pointer, &info) == TELPHER_OK &&
           info.kind != TELPHER_MEM_HOST;
}

int
tp_mpidev_copy(void *dst, const void *src, size_t len)
{
    telpher_status status = telpher_mem_copy(tp_mpidev_context, dst, src, len);

    if (status != TELPHER_OK) {
        tp_error("mpidev", "copying %zu bytes between host and device: %s", len,
                 telpher_last_error(tp_mpidev_context));
    }
    return status == TELPHER_OK ? MPI_SUCCESS : MPI_ERR_OTHER;
}

int
tp_mpidev_world_rank(MPI_Comm comm, int rank)
{
    MPI_Group group, world;
    int inter = 0, found = MPI_UNDEFINED;

    if (comm == MPI_COMM_WORLD) {
        return rank;
    }
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS ||
        (inter ? PMPI_Comm_remote_group(comm, &group)
               : PMPI_Comm_group(comm, &group)) != MPI_SUCCESS) {
        return MPI_UNDEFINED;
    }
    if (PMPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
        (void)PMPI_Group_translate_ranks(group, 1, &rank, world, &found);
        (void)PMPI_Group_free(&world);
    }
    (void)PMPI_Group_free(&group);
    return found;
}
