/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: globals -n NUMBER -v
 * Each rank has its own variables of the program and its own parsing of options.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int shared_number = 7;
static int *address_of = &shared_number; /* relocated in each copy */
static char text[32] = "initial";
static int rank, size;

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition);     \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
        }                                                                              \
    } while (0)

static int
count_calls(void)
{
    static int calls;

    return ++calls;
}

static void
parse_options(int argc, char **argv)
{
    int number = 0, verbose = 0, option;

    while ((option = getopt(argc, argv, "n:v")) != -1) {
        number = option == 'n' ? atoi(optarg) : number;
        verbose |= option == 'v';
    }
    CHECK(number == 42);
    CHECK(verbose);
    CHECK(optind == argc);
}

static void
end(void)
{
    if (rank == 0) {
        printf("globals: good\n");
    }
    exit(0); /* of this rank; the others go on */
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    parse_options(argc, argv);
    CHECK(shared_number == 7);
    CHECK(strcmp(text, "initial") == 0);
    for (int i = 0; i < 3; i++) {
        shared_number = 1000 * i + rank;
        snprintf(text, sizeof(text), "rank %d", rank);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(*address_of == 1000 * i + rank);
        CHECK(atoi(text + 5) == rank);
        CHECK(count_calls() == i + 1);
    }
    MPI_Finalize();
    end();
    return 1;
}
