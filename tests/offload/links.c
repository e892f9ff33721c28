/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the kernels of links.sh by sizes alone, and says whether all were right. */
#include <string.h>

#include "check.h"

struct pair {
    double d;
    long l;
};

int
main(int argc, char **argv)
{
    double a = 1.5;
    int b = 42;
    char c = 'x';
    struct pair p = {2.5, -3};
    float f = 0.5f;
    char text[] = "abcdefghijk";
    telpher_array *array;
    void *args[] = {&a, &b, &c}, *pair_args[] = {&p, &f}, *part_args[] = {text, &array};
    int sizes[] = {sizeof(a), sizeof(b), sizeof(c)},
        pair_sizes[] = {sizeof(p), sizeof(f)},
        part_sizes[] = {sizeof(text), sizeof(array)};
    MPI_Comm inter;
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_spawn("worker", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                   MPI_ERRCODES_IGNORE);
    check(MPIX_Kernel_call("dic", 3, args, sizes, 0, MPI_COMM_WORLD, inter) ==
          MPI_SUCCESS);
    check(MPIX_Kernel_icall("pair", 2, pair_args, pair_sizes, 0, MPI_COMM_WORLD, inter,
                            &request) == MPI_SUCCESS);
    check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS);
    check(status.result == 0);
    check(telpher_array_create(3, sizeof(text) / 3, 0, MPI_COMM_WORLD, inter, &array,
                               NULL) == TELPHER_OK);
    check(telpher_array_put(array, text, NULL) == TELPHER_OK);
    check(MPIX_Kernel_icall("part", 2, part_args, part_sizes, 0, MPI_COMM_WORLD, inter,
                            &request) == MPI_SUCCESS);
    check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS);
    check(status.result == 0);
    puts("all kernels");
    check(MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter) == MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}
