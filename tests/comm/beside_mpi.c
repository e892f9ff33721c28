/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts by the launcher's PMI beside an MPI that uses it, too: before MPI_Init() they join,
 * afterwards only a communicator makes them, and MPI is not disturbed. For mpiexec of MPICH.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include <telpher/interop/mpi.h>
#include <telpher/telpher.h>

static void
must(int good, const char *what, const telpher_error *err)
{
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, err->text);
        exit(EXIT_FAILURE);
    }
}

int
main(int argc, char **argv)
{
    telpher_context *ctx = NULL;
    telpher_error err = {0};
    int sum = 0, one = 1;

    for (int i = 0; i < 2; i++) { /* the launcher ends a session only once */
        must(telpher_context_create(NULL, &ctx, &err) == TELPHER_OK, "by PMI", &err);
        must(telpher_context_size(ctx) == 2, "not a job of two ranks", &err);
        telpher_context_destroy(ctx);
    }
    MPI_Init(&argc, &argv);
    must(telpher_context_create(NULL, &ctx, &err) == TELPHER_ERR_BUSY,
         "a context without a communicator", &err);
    must(strstr(telpher_last_error(NULL), "telpher_context_create_mpi") != NULL,
         "does not say what to do", &err);
    must(telpher_context_create_mpi(MPI_COMM_WORLD, NULL, &ctx, &err) == TELPHER_OK,
         "by a communicator", &err);
    must(telpher_context_size(ctx) == 2, "not a job of two ranks", &err);
    telpher_context_destroy(ctx);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    must(sum == 2, "MPI is disturbed", &err);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
