/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mapping WORKER WORKERS DEVICES...
 * Says which of so many devices each worker takes, "taken 0:1:0" for example:
 * tests/offload/mapping.sh.
 */
#include <string.h>

#include "check.h"

static char line[1024]; /* said at once: workers have words, too */

static void
take(MPI_Comm inter, int workers, int devices)
{
    telpher_array *taken = NULL;
    void *args[] = {&taken, &devices};
    int sizes[] = {sizeof(taken), sizeof(devices)};
    int *numbers = calloc((size_t)workers, sizeof(*numbers));

    check(numbers != NULL);
    check(telpher_array_create((uint64_t)workers, sizeof(int), 0, MPI_COMM_WORLD, inter,
                               &taken, NULL) == TELPHER_OK);
    check(MPIX_Kernel_call("take_device", 2, args, sizes, 0, MPI_COMM_WORLD, inter) ==
          MPI_SUCCESS);
    check(telpher_array_get(taken, numbers, NULL) == TELPHER_OK);
    for (int i = 0; i < workers; i++) {
        size_t len = strlen(line);

        snprintf(line + len, sizeof(line) - len, "%c%d", i == 0 ? ' ' : ':',
                 numbers[i]);
    }
    free(numbers);
}

int
main(int argc, char **argv)
{
    MPI_Comm inter;
    int workers;

    MPI_Init(&argc, &argv);
    check(argc > 3);
    MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, atoi(argv[2]), MPI_INFO_NULL, 0,
                   MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &workers);
    for (int i = 3; i < argc; i++) {
        take(inter, workers, atoi(argv[i]));
    }
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    printf("taken%s\n", line);
    MPI_Finalize();
    return 0;
}
