/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Comm_spawn() with checks before it, because with some MPIs it aborts or hangs
 * where it should fail.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/trace/log.h"
#include "build_config.h"
#include "offload/offload_int.h"

enum { PATH_SIZE = 4096 };

/* Finds the worker program from the library's folder, in a build and in an installation. */
static bool
find_worker(char path[PATH_SIZE])
{
    static const char *const ways[] = {"../bin", TP_BUILD_LIB_TO_BIN};
    Dl_info self;
    const char *slash;

    if (dladdr((const void *)(uintptr_t)find_worker, &self) == 0 ||
        (slash = strrchr(self.dli_fname, '/')) == NULL) {
        return false;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(ways); i++) {
        snprintf(path, PATH_SIZE, "%.*s/%s/telpher-worker.%s",
                 (int)(slash - self.dli_fname), self.dli_fname, ways[i],
                 TP_OFFLOAD_MPI);
        if (access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* A name without a slash is looked up in PATH. */
static bool
in_path(const char *program)
{
    const char *at = getenv("PATH");
    char path[PATH_SIZE];

    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");

        snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, program);
        if (access(path, X_OK) == 0) {
            return true;
        }
        at += len + (at[len] == ':');
    }
    return false;
}

static telpher_status
check_program(const char *program, struct tp_error *err)
{
    bool found =
        strchr(program, '/') != NULL ? access(program, X_OK) == 0 : in_path(program);

    return found ? TELPHER_OK
                 : tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                                "spawn: %s cannot be executed here: %s", program,
                                strerror(errno));
}

/*
 * Open MPI publishes the number of slots; with too few, spawn fails and MPI_Finalize()
 * hangs. MPICH would start another program to answer the question, and hang.
 */
static telpher_status
check_slots(int workers, struct tp_error *err)
{
    const char *more = getenv("OMPI_MCA_rmaps_base_oversubscribe");
    int *slots, found = 0, size;

    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL || (more != NULL && atoi(more) != 0)) {
        return TELPHER_OK;
    }
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &slots, &found);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    if (found && *slots - size < workers) {
        return tp_error_set(
            err, TELPHER_ERR_LIMIT,
            "spawn: workers wanted %d, free slots %d of %d; give mpirun "
            "more, or --oversubscribe",
            workers, TP_MAX(*slots - size, 0), *slots);
    }
    return TELPHER_OK;
}

/* MPI's error text. */
static telpher_status
spawn_failed(int rc, struct tp_error *err)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    PMPI_Error_string(rc, words, &len);
    words[strcspn(words, "\n")] = '\0';
    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                        "this MPI cannot spawn here (%.80s); start workers with the "
                        "job: mpirun -np P ./program : -np C telpher-worker.%s",
                        words, TP_OFFLOAD_MPI);
}

static telpher_status
do_spawn(const char *program, const telpher_offload_params *p, int root, MPI_Comm comm,
         MPI_Comm *ret_inter, struct tp_error *err)
{
    MPI_Comm quiet;
    int rc, workers = p->workers > 0 ? p->workers : 1;

    PMPI_Comm_dup(comm, &quiet);
    PMPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
    tp_offload_watch_phase("MPI_Comm_spawn; does what is spawned call MPI_Init?",
                           tp_offload_settings()->timeout_ns);
    rc = PMPI_Comm_spawn(program, p->argv != NULL ? p->argv : MPI_ARGV_NULL, workers,
                         p->info != NULL ? *p->info : MPI_INFO_NULL, root, quiet,
                         ret_inter, MPI_ERRCODES_IGNORE);
    tp_offload_watch_phase_end();
    PMPI_Comm_free(&quiet);
    if (rc != MPI_SUCCESS) {
        return spawn_failed(rc, err);
    }
    PMPI_Comm_set_errhandler(*ret_inter, MPI_ERRORS_ARE_FATAL);
    return TELPHER_OK;
}

telpher_status
tp_offload_spawn(const telpher_offload_params *params, int root, MPI_Comm comm,
                 MPI_Comm *ret_inter, struct tp_error *err)
{
    char path[PATH_SIZE] = "";
    const char *program = params->program;
    int rank;

    tp_offload_agree(comm);
    PMPI_Comm_rank(comm, &rank);
    if (rank == root) {
        if (program == NULL) {
            (void)find_worker(path);
            program = path;
        }
        if (check_program(program, err) == TELPHER_OK) {
            (void)check_slots(params->workers > 0 ? params->workers : 1, err);
        }
    }
    PMPI_Bcast(err, sizeof(*err), MPI_BYTE, root, comm);
    if (err->code != TELPHER_OK) {
        return err->code;
    }
    return do_spawn(program != NULL ? program : "", params, root, comm, ret_inter, err);
}
