/* SPDX-License-Identifier: Apache-2.0 */
/* telpher-worker, and the main function of programs that link kernels of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "offload/offload_int.h"

static int
usage(FILE *out)
{
    fputs("usage: mpirun -np P PROGRAM : -np C telpher-worker [PLUGIN]...\n"
          "Runs kernels that PROGRAM calls (MPIX_Kernel_call). Also started by its "
          "MPI_Comm_spawn.\n"
          "Each PLUGIN is a shared library with kernels.\n"
          "  --help\n",
          out);
    return out == stdout ? 0 : 2;
}

static int
serve(void)
{
    MPI_Comm parent;
    struct tp_error err = {0};
    telpher_status status;

    if (tp_offload_world.base != MPI_COMM_NULL) {
        tp_offload_pool_serve();
        return 0;
    }
    PMPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        fputs("telpher-worker: this worker was not spawned, and its launch has no "
              "parents: mpirun -np 1 PROGRAM : -np N telpher-worker\n",
              stderr);
        return 1;
    }
    status =
        tp_offload_worker_serve(parent, MPI_COMM_WORLD, TP_OFFLOAD_TAG_LAUNCH, &err);
    if (status != TELPHER_OK) {
        tp_offload_world_abort(tp_error_text(&err));
    }
    PMPI_Comm_disconnect(&parent);
    return 0;
}

int
telpher_worker_main(int argc, char **argv)
{
    struct tp_error err = {0};
    int rc;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            return usage(stdout);
        }
        if (argv[i][0] == '-') {
            return usage(stderr);
        }
        if (tp_offload_load(argv[i], &err) != TELPHER_OK) {
            fprintf(stderr, "telpher-worker: %s\n", tp_error_text(&err));
            return 1;
        }
    }
    tp_offload_world_declare_worker();
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return 1;
    }
    tp_offload_worker_catch_faults();
    rc = serve();
    MPI_Finalize();
    return rc;
}
