/* SPDX-License-Identifier: Apache-2.0 */
/* rma_processes under mpirun, with MPI's own messages. */
#include <stdio.h>
#include <telpher/interop/mpi.h>

#include "processes.h"

int
main(int argc, char **argv)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_error err = {0};
    int provided, bad;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) !=
            MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED) {
        fprintf(stderr, "this MPI lets one thread alone call it\n");
        return 77;
    }
    params.transports = "mpi";
    if (telpher_context_create_mpi(MPI_COMM_WORLD, &params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    bad = processes_main(argc, argv, ctx);
    telpher_context_destroy(ctx);
    MPI_Finalize();
    return bad;
}
