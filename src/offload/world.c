/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the role of this process: a parent or a worker, of a launch that has both or of
 * one that spawns. All processes of a launch determine it together, in MPI_Init().
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

MPI_Comm tp_offload_world_comm = MPI_COMM_WORLD;
struct tp_offload_world tp_offload_world = {
    .world = MPI_COMM_WORLD, .base = MPI_COMM_NULL, .parent = MPI_COMM_NULL};

void
tp_offload_world_declare_worker(void)
{
    tp_offload_world.is_worker = true;
}

/* Time for the launcher to read the error text: some end the job with unread output. */
#define WORDS_TAKE (50 * TP_CLOCK_MS)

void
tp_offload_world_abort(const char *words)
{
    int initialized = 0;

    fprintf(stderr, "telpher[%d]: %s\n", (int)getpid(), words);
    tp_clock_sleep(WORDS_TAKE);
    PMPI_Initialized(&initialized);
    if (initialized) {
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    _exit(1);
}

/* True if the launch may contain other programs. Only some launchers say so. */
static bool
is_one_program(void)
{
    const char *programs = getenv("OMPI_NUM_APP_CTX");

    return programs != NULL && atoi(programs) == 1;
}

bool
tp_offload_world_may_wait(void)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");

    size = size != NULL ? size : getenv("PMI_SIZE");
    return size != NULL && atoi(size) > 1 && !is_one_program();
}

/* Exchanges the roles of all processes. Processes without this library do not
 * answer. */
static int *
ask_roles(int size)
{
    int *roles = tp_alloc_array((size_t)size, sizeof(*roles), "roles");
    int mine = tp_offload_world.is_worker;
    tp_ns timeout = tp_offload_settings()->timeout_ns;
    MPI_Request request;
    telpher_status status;

    if (roles == NULL) {
        tp_offload_world_abort("out of memory");
    }
    PMPI_Iallgather(&mine, 1, MPI_INT, roles, 1, MPI_INT, MPI_COMM_WORLD, &request);
    status = tp_offload_mpi_wait(&request, tp_clock_deadline(timeout));
    if (status != TELPHER_OK) {
        tp_offload_world_abort(
            "start: not all processes of this launch said whether they "
            "are workers; link all of them with libtelpher-offload, or set "
            "TELPHER_OFFLOAD=spawn");
    }
    return roles;
}

static void
note_pool(const int *roles, int size)
{
    int count = 0;

    for (int i = 0; i < size; i++) {
        count += roles[i];
    }
    tp_offload_world.pool = tp_alloc_array((size_t)count + 1, sizeof(int), "pool");
    tp_offload_world.busy = tp_alloc_array((size_t)count + 1, sizeof(bool), "pool");
    if (tp_offload_world.pool == NULL || tp_offload_world.busy == NULL) {
        tp_offload_world_abort("out of memory");
    }
    for (int i = 0; i < size; i++) {
        if (roles[i]) {
            tp_offload_world.pool[tp_offload_world.pool_count++] = i;
        }
    }
}

/* For a launch with workers: creates a communicator of the parents, which replaces
 * MPI_COMM_WORLD. */
static void
split(int rank)
{
    MPI_Comm mine;

    PMPI_Comm_dup(MPI_COMM_WORLD, &tp_offload_world.base);
    PMPI_Comm_split(tp_offload_world.base, tp_offload_world.is_worker, rank, &mine);
    PMPI_Comm_set_errhandler(tp_offload_world.base, MPI_ERRORS_RETURN);
    PMPI_Comm_set_name(mine, "MPI_COMM_WORLD");
    tp_offload_world.world = mine;
    tp_offload_world_comm = mine;
}

static void
find_role(int rank, int size)
{
    const struct tp_offload_settings *s = tp_offload_settings();
    int *roles;

    if (s->workers > 0 && rank >= size - s->workers) {
        tp_offload_world.is_worker = true;
    }
    if (size == 1 || s->mode == TELPHER_OFFLOAD_SPAWN ||
        (is_one_program() && s->workers == 0)) {
        return;
    }
    roles = ask_roles(size);
    note_pool(roles, size);
    tp_free(roles);
    if (tp_offload_world.pool_count == size) {
        tp_offload_world_abort(
            "start: all processes of this launch are workers; who calls "
            "kernels? (mpirun -np 1 ./program : -np N telpher-worker)");
    }
    if (tp_offload_world.pool_count > 0) {
        split(rank);
        tp_info("offload", "this process is a %s; processes %d, workers %d",
                tp_offload_world.is_worker ? "worker" : "parent", size,
                tp_offload_world.pool_count);
    }
}

void
tp_offload_world_init(int provided)
{
    MPI_Comm parent = MPI_COMM_NULL;
    bool linked_as_worker = tp_offload_world.is_worker;
    int rank, size;

    tp_settings_start();
    tp_trace_start_env();
    tp_offload_world.has_threads = provided == MPI_THREAD_MULTIPLE;
    PMPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return; /* spawned workers have an MPI_COMM_WORLD of their own */
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    find_role(rank, size);
    if (tp_offload_world.is_worker && !linked_as_worker &&
        tp_offload_world.base != MPI_COMM_NULL) {
        /* the program's main function does not run in workers */
        tp_offload_worker_catch_faults();
        tp_offload_pool_serve();
        PMPI_Finalize();
        exit(0);
    }
}

void
tp_offload_world_fini(void)
{
    if (!tp_offload_world.is_worker) {
        tp_offload_group_finish_all();
        tp_offload_pool_end();
    }
    tp_offload_progress_thread_stop();
    if (tp_offload_world.base != MPI_COMM_NULL) {
        tp_offload_world_comm = MPI_COMM_WORLD;
        PMPI_Comm_free(&tp_offload_world.world);
        PMPI_Comm_free(&tp_offload_world.base);
    }
}
