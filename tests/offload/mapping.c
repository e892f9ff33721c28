/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mapping WORKER WORKERS DEVICES
 * Says which of DEVICES each worker takes, "0:1:0" for example: tests/offload/mapping.sh.
 */
#include "check.h"

int
main(int argc, char **argv)
{
    int devices = argc > 3 ? atoi(argv[3]) : 1, workers, sizes[2];
    telpher_array *taken = NULL;
    void *args[] = {&taken, &devices};
    MPI_Comm inter;
    int *numbers;

    MPI_Init(&argc, &argv);
    check(argc > 3);
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, atoi(argv[2]), MPI_INFO_NULL, 0,
                   MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &workers);
    numbers = calloc((size_t)workers, sizeof(*numbers));
    sizes[0] = sizeof(taken);
    sizes[1] = sizeof(devices);
    check(telpher_array_create((uint64_t)workers, sizeof(int), 0, MPI_COMM_WORLD, inter,
                               &taken, NULL) == TELPHER_OK);
    check(MPIX_Kernel_call("take_device", 2, args, sizes, 0, MPI_COMM_WORLD, inter) ==
          MPI_SUCCESS);
    check(telpher_array_get(taken, numbers, NULL) == TELPHER_OK);
    printf("devices ");
    for (int i = 0; i < workers; i++) {
        printf("%d%s", numbers[i], i + 1 < workers ? ":" : "\n");
    }
    free(numbers);
    MPI_Finalize();
    return 0;
}
