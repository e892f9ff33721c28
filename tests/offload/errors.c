/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: errors WORKER WORKERS
 * Wrong calls return an error with MPI_ERRORS_RETURN, and later calls succeed.
 */
#include "check.h"

static MPI_Comm inter;

static int
run(MPI_Comm comm)
{
    MPIX_Kernel_request request = MPIX_KERNEL_REQUEST_NULL;
    int rc = MPIX_Kernel_icall("nothing", 0, NULL, NULL, 0, comm, inter, &request);

    if (rc == MPI_SUCCESS) {
        rc = MPIX_Kernel_wait(&request, NULL);
    }
    return rc;
}

/* Other processes than the parents, and none: also after the first call. */
static void
wrong_communicators(int parents)
{
    telpher_array *array = NULL;
    telpher_error err;

    for (int i = 0; i < 3; i++) {
        check(run(MPI_COMM_NULL) != MPI_SUCCESS);
        check(run(inter) != MPI_SUCCESS);
        if (parents > 1) {
            check(run(MPI_COMM_SELF) != MPI_SUCCESS);
            check(telpher_array_create(8, 8, 0, MPI_COMM_SELF, inter, &array, &err) ==
                  TELPHER_ERR_INVALID);
            check(telpher_offload_load("none.so", 0, MPI_COMM_SELF, inter, &err) ==
                  TELPHER_ERR_INVALID);
            check(MPIX_Kernel_after(0, NULL, MPI_COMM_SELF, inter) != MPI_SUCCESS);
        }
        check(run(MPI_COMM_WORLD) == MPI_SUCCESS);
    }
    check(telpher_array_create(8, 8, 0, MPI_COMM_WORLD, inter, &array, &err) ==
          TELPHER_OK);
    check(telpher_array_free(&array, &err) == TELPHER_OK);
}

int
main(int argc, char **argv)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    MPI_Errhandler handler;
    int rank, parents;

    check(argc > 2);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    check(handler == MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &parents);
    /* an error without a communicator of its own is MPI_COMM_WORLD's */
    check(MPI_Barrier(MPI_COMM_NULL) != MPI_SUCCESS);
    params.program = argv[1];
    params.workers = atoi(argv[2]);
    check(telpher_offload_start(&params, 0, MPI_COMM_WORLD, &inter, NULL) ==
          TELPHER_OK);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    wrong_communicators(parents);
    check(MPIX_Kernel_call("no_such_kernel", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter) !=
              MPI_SUCCESS ||
          rank != 0);
    check(run(MPI_COMM_WORLD) == MPI_SUCCESS);
    check(MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter) == MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}
