/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a user of libtelpher-offload, and its worker ("offload worker"). */
#include <stdio.h>
#include <string.h>
#include <telpher/offload.h>

static int
triple(int number)
{
    return 3 * number;
}

TELPHER_KERNEL(triple, int)

int
main(int argc, char **argv)
{
    int number = 14, sizes[] = {sizeof(number)};
    void *args[] = {&number};
    MPI_Comm inter;
    MPIX_Kernel_request request;
    MPIX_Kernel_status status = {0};

    if (argc > 1 && strcmp(argv[1], "worker") == 0) {
        return telpher_worker_main(1, argv); /* other arguments are plugins */
    }
    MPI_Init(&argc, &argv);
    if (telpher_offload_start(NULL, 0, MPI_COMM_WORLD, &inter, NULL) != TELPHER_OK) {
        return 1;
    }
    MPIX_Kernel_icall("triple", 1, args, sizes, 0, MPI_COMM_WORLD, inter, &request);
    MPIX_Kernel_wait(&request, &status);
    printf("triple: %d\n", status.result);
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    MPI_Finalize();
    return status.result == 42 ? 0 : 1;
}
