/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with large counts: results as with small ones, and what does not fit into an int.
 * usage: telpher launch -n N -- ampi_large [+vp M] */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const MPI_Count huge = 3000000000;
static int rank, size, failures;

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "rank %d, line %d: " #what ": FAILED\n", rank, __LINE__);  \
            failures++;                                                                \
        }                                                                              \
    } while (0)

static void
test_messages(void)
{
    MPI_Count count = 0;
    MPI_Status status;
    int out[3] = {rank, rank + 1, rank + 2}, in[3] = {0};
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;

    MPI_Sendrecv_c(out, 3, MPI_INT, next, 1, in, 3, MPI_INT, previous, 1,
                   MPI_COMM_WORLD, &status);
    CHECK(in[0] == previous && in[2] == previous + 2);
    MPI_Get_count_c(&status, MPI_INT, &count);
    CHECK(count == 3);
}

/* More elements than an int counts: none of them has a byte. */
static void
test_huge_message(void)
{
    MPI_Datatype empty;
    MPI_Request request;
    MPI_Status status;
    MPI_Count count = -1;
    int value = 7;

    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    MPI_Irecv_c(&value, huge, empty, rank, 2, MPI_COMM_WORLD, &request);
    MPI_Send_c(&value, huge, empty, rank, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK(count == 0 && value == 7);
    MPI_Bcast_c(&value, huge, empty, 0, MPI_COMM_WORLD);
    MPI_Type_free(&empty);
}

static void
test_types(void)
{
    MPI_Count size_bytes, lb, extent, lengths[] = {1, 2}, displs[] = {8, 0};
    MPI_Datatype type;
    MPI_Status status;
    MPI_Count count = 0;

    MPI_Type_contiguous_c(huge, MPI_INT, &type);
    MPI_Type_size_c(type, &size_bytes);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK(size_bytes == 4 * huge && lb == 0 && extent == 4 * huge);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_c(2, lengths, displs, MPI_INT, &type);
    MPI_Type_get_true_extent_c(type, &lb, &extent);
    CHECK(lb == 0 && extent == 12);
    MPI_Type_free(&type);
    MPI_Status_set_elements_c(&status, MPI_BYTE, huge);
    MPI_Get_elements_c(&status, MPI_BYTE, &count);
    CHECK(count == huge);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK(count == huge);
    CHECK(MPI_Pack_size_c(huge, MPI_INT, MPI_COMM_WORLD, &count) == MPI_SUCCESS);
    CHECK(count == 4 * huge);
}

static void
add(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    (void)type;
    for (MPI_Count i = 0; i < *count; i++) {
        ((int *)inout)[i] += ((int *)in)[i];
    }
}

static void
test_reductions(void)
{
    MPI_Count *ones = malloc((size_t)size * sizeof(*ones));
    int *values = calloc((size_t)size, sizeof(*values));
    int mine = rank, sum = 0, part = -1;
    MPI_Request request;
    MPI_Op op;

    for (int i = 0; i < size; i++) {
        ones[i] = 1;
        values[i] = i;
    }
    MPI_Op_create_c(add, 1, &op);
    MPI_Iallreduce_c(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Reduce_scatter_c(values, &part, ones, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(part == rank * size);
    MPI_Op_free(&op);
    free(values);
    free(ones);
}

/* Counts of a root alone, of all, and in place. */
static void
test_vectors(void)
{
    MPI_Count *counts = malloc((size_t)size * sizeof(*counts));
    MPI_Aint *displs = malloc((size_t)size * sizeof(*displs));
    int *in = calloc((size_t)size, sizeof(*in)), mine = 10 + rank;
    MPI_Request request;

    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        displs[i] = size - 1 - i;
    }
    MPI_Gatherv_c(&mine, 1, MPI_INT, in, rank == 0 ? counts : NULL,
                  rank == 0 ? displs : NULL, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(rank != 0 || (in[0] == 9 + size && in[size - 1] == 10));
    MPI_Iallgatherv_c(&mine, 1, MPI_INT, in, counts, displs, MPI_INT, MPI_COMM_WORLD,
                      &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in[size - 1 - rank] == mine);
    for (int i = 0; i < size; i++) {
        in[i] = 100 * rank + i;
        displs[i] = i;
    }
    MPI_Alltoallv_c(MPI_IN_PLACE, NULL, NULL, MPI_INT, in, counts, displs, MPI_INT,
                    MPI_COMM_WORLD);
    CHECK(in[size - 1] == 100 * (size - 1) + rank);
    free(in);
    free(displs);
    free(counts);
}

/* Numbers that no call of this library takes get an error. */
static void
test_refusals(void)
{
    int value = 0, sum = 0;
    MPI_Datatype type;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Allreduce_c(&value, &sum, huge, MPI_INT, MPI_SUM, MPI_COMM_WORLD) ==
          MPI_ERR_COUNT);
    CHECK(MPI_Type_vector_c(huge, 1, 1, MPI_INT, &type) == MPI_ERR_COUNT);
    CHECK(MPI_Type_indexed_c(huge, NULL, NULL, MPI_INT, &type) == MPI_ERR_COUNT);
    CHECK(MPI_Send_c(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD) == MPI_ERR_COUNT);
    CHECK(MPI_Send_c(&value, huge, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD) ==
          MPI_ERR_TYPE);
    CHECK(MPI_Send_c(&value, INT64_MAX, MPI_INT, 0, 0, MPI_COMM_WORLD) ==
          MPI_ERR_COUNT);
}

/* Eight elements of a type have 2^64 bytes, which no size_t counts. */
static void
test_overflow(void)
{
    int value = 0, position = 0, bytes = 0, sizes[] = {INT_MAX, INT_MAX, INT_MAX},
        ones[] = {1, 1, 1}, zeros[] = {0, 0, 0};
    MPI_Datatype type, made;
    MPI_Aint room = 0;

    MPI_Type_contiguous_c(1LL << 61, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    CHECK(MPI_Send(&value, 8, type, rank, 0, MPI_COMM_WORLD) == MPI_ERR_COUNT);
    CHECK(MPI_Bcast(&value, 8, type, 0, MPI_COMM_WORLD) == MPI_ERR_COUNT);
    CHECK(MPI_Pack(&value, 8, type, &bytes, 4, &position, MPI_COMM_WORLD) ==
          MPI_ERR_TRUNCATE);
    CHECK(MPI_Unpack(&bytes, 4, &position, &value, 8, type, MPI_COMM_WORLD) ==
          MPI_ERR_TRUNCATE);
    CHECK(MPI_Pack_size(8, type, MPI_COMM_WORLD, &bytes) == MPI_ERR_COUNT);
    CHECK(MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &bytes) == MPI_ERR_COUNT);
    CHECK(MPI_Pack_external_size("external32", -1, MPI_INT, &room) == MPI_ERR_COUNT);
    CHECK(MPI_Type_vector(2, 1, INT_MAX, type, &made) == MPI_ERR_ARG);
    CHECK(MPI_Type_create_subarray(3, sizes, ones, zeros, MPI_ORDER_C, MPI_INT,
                                   &made) == MPI_ERR_ARG);
    CHECK(MPI_Type_create_struct(2, ones, (MPI_Aint[]){0, PTRDIFF_MAX - 1},
                                 (MPI_Datatype[]){MPI_INT, MPI_CHAR},
                                 &made) == MPI_ERR_ARG); /* C pads it */
    MPI_Type_free(&type);
}

/* Statuses of types without bytes, and counts that no message has. */
static void
test_statuses(void)
{
    MPI_Datatype empty;
    MPI_Status status;
    int count = 0;

    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Status_set_elements(&status, MPI_INT, 1);
    MPI_Get_count(&status, empty, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_Status_set_elements(&status, MPI_INT, 0);
    MPI_Get_count(&status, empty, &count);
    CHECK(count == 0);
    CHECK(MPI_Status_set_elements(&status, MPI_INT, -1) == MPI_ERR_COUNT);
    CHECK(MPI_Status_set_elements_c(&status, MPI_INT, 1LL << 62) == MPI_ERR_COUNT);
    MPI_Type_free(&empty);
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    test_messages();
    test_huge_message();
    test_types();
    test_reductions();
    test_vectors();
    test_refusals();
    test_overflow();
    test_statuses();
    MPI_Finalize();
    return failures != 0;
}
