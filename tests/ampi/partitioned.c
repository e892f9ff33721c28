/* SPDX-License-Identifier: Apache-2.0 */
/* Partitioned sends and receives: all pairs of partitions, types with gaps, orders, errors. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            (void)fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank,    \
                          #condition);                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
        }                                                                              \
    } while (0)

enum { TOTAL = 720720, ROUNDS = 3 };

static int
value(int from, int round, int i)
{
    return from * 1000003 + round * 7919 + i;
}

/* Every rank sends to the next one, `sent` partitions, and receives `taken` ones of the one before. */
static void
exchange(int total, int sent, int taken, bool backwards)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, flag;
    int *out = malloc((size_t)total * sizeof(int)),
        *in = malloc((size_t)total * sizeof(int));
    MPI_Request requests[2];
    MPI_Status statuses[2];

    CHECK(out != NULL && in != NULL);
    MPI_Precv_init(in, taken, total / taken, MPI_INT, from, 5, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(out, sent, total / sent, MPI_INT, to, 5, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < ROUNDS; round++) {
        int count;

        for (int i = 0; i < total; i++) {
            out[i] = value(rank, round, i);
            in[i] = -1;
        }
        MPI_Startall(2, requests);
        for (int i = 0; i < sent; i++) {
            MPI_Pready(backwards ? sent - 1 - i : i, requests[1]);
        }
        for (int p = 0; p < taken; p++) {
            do {
                MPI_Parrived(requests[0], p, &flag);
            } while (!flag);
            CHECK(in[(p + 1) * (total / taken) - 1] ==
                  value(from, round, (p + 1) * (total / taken) - 1));
            CHECK(in[p * (total / taken)] == value(from, round, p * (total / taken)));
        }
        MPI_Waitall(2, requests, statuses);
        MPI_Get_count(&statuses[0], MPI_INT, &count);
        CHECK(count == total && statuses[0].MPI_SOURCE == from &&
              statuses[0].MPI_TAG == 5);
        for (int i = 0; i < total; i++) {
            CHECK(in[i] == value(from, round, i));
        }
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
}

/* Columns of a matrix, which are neither sent nor received in one piece. */
static void
exchange_columns(void)
{
    enum { ROWS = 6, COLUMNS = 12 };
    int out[ROWS][COLUMNS], in[ROWS][COLUMNS], to = (rank + 1) % size;
    int from = (rank + size - 1) % size;
    MPI_Datatype vector, column;
    MPI_Request requests[2];

    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, sizeof(int), &column);
    MPI_Type_commit(&column);
    MPI_Precv_init(in, 4, 3, column, from, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Psend_init(out, 6, 2, column, to, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    MPI_Type_free(&column); /* requests keep it */
    MPI_Type_free(&vector);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            out[i / COLUMNS][i % COLUMNS] = value(rank, round, i);
        }
        MPI_Startall(2, requests);
        MPI_Pready_range(2, 4, requests[1]);
        MPI_Pready_list(3, (int[]){5, 0, 1}, requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            CHECK(in[i / COLUMNS][i % COLUMNS] == value(from, round, i));
        }
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Several requests of one tag meet in their order; messages with the tag meet none of them. */
static void
keep_order(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int out[3] = {rank, rank + 100, rank + 200}, in[3] = {-1, -1, -1}, plain = -1;
    MPI_Request requests[7];

    for (int i = 0; i < 3; i++) {
        MPI_Psend_init(&out[i], 1, 1, MPI_INT, to, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[i]);
    }
    MPI_Isend(&out[2], 1, MPI_INT, to, 9, MPI_COMM_WORLD, &requests[6]);
    for (int i = 0; i < 3; i++) {
        MPI_Precv_init(&in[i], 1, 1, MPI_INT, from, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[3 + i]);
    }
    MPI_Startall(6, requests);
    for (int i = 2; i >= 0; i--) {
        MPI_Pready(0, requests[i]);
    }
    MPI_Recv(&plain, 1, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(7, requests, MPI_STATUSES_IGNORE);
    CHECK(plain == from + 200);
    for (int i = 0; i < 3; i++) {
        CHECK(in[i] == from + 100 * i);
    }
    for (int i = 0; i < 6; i++) {
        MPI_Request_free(&requests[i]);
    }
}

/* A request that is freed before it ends, or before it meets another; the null process. */
static void
free_early(void)
{
    /* The freed request may be sent after this function has returned. */
    static const int out[4] = {1, 2, 3, 4};
    int to = (rank + 1) % size, from = (rank + size - 1) % size, in[4];
    int flag = 0;
    MPI_Request send, receive, lonely;

    MPI_Precv_init(in, 2, 2, MPI_INT, from, 77, MPI_COMM_WORLD, MPI_INFO_NULL, &lonely);
    MPI_Request_free(&lonely);
    MPI_Precv_init(in, 2, 2, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    MPI_Psend_init(out, 4, 1, MPI_INT, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Start(&receive);
    MPI_Start(&send);
    MPI_Pready_range(0, 3, send);
    MPI_Request_free(&send);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    CHECK(in[0] == 1 && in[3] == 4);
    MPI_Parrived(receive, 1, &flag);
    CHECK(flag);
    MPI_Request_free(&receive);
    MPI_Parrived(MPI_REQUEST_NULL, 0, &flag);
    CHECK(flag);
    MPI_Psend_init(out, 4, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &send);
    MPI_Start(&send);
    CHECK(MPI_Pready(3, send) == MPI_SUCCESS);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
}

static bool
has_arrived(MPI_Request receive, int partition)
{
    int flag;

    MPI_Parrived(receive, partition, &flag);
    return flag != 0;
}

/* Partitions of no bytes arrive in the same way: after the sender's first half, the first of three. */
static void
exchange_nothing(void)
{
    MPI_Request requests[2];

    MPI_Precv_init(NULL, 3, 0, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Psend_init(NULL, 2, 0, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Startall(2, requests);
        CHECK(!has_arrived(requests[0], 0) && !has_arrived(requests[0], 2));
        MPI_Pready(0, requests[1]);
        while (!has_arrived(requests[0], 0)) {
        }
        CHECK(!has_arrived(requests[0], 1) && !has_arrived(requests[0], 2));
        MPI_Pready(1, requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void
refuse(void)
{
    int out[2] = {0, 0}, code, class;
    MPI_Request send, receive;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code =
        MPI_Psend_init(out, -1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_ARG);
    CHECK(MPI_Psend_init(out, 1, -1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL,
                         &send) == MPI_ERR_COUNT);
    CHECK(MPI_Precv_init(out, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_SELF,
                         MPI_INFO_NULL, &receive) == MPI_ERR_RANK);
    MPI_Psend_init(out, 2, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send);
    MPI_Precv_init(out, 1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive);
    CHECK(MPI_Pready(0, send) == MPI_ERR_REQUEST);
    CHECK(MPI_Pready(0, receive) == MPI_ERR_REQUEST);
    MPI_Start(&send);
    CHECK(MPI_Pready(2, send) == MPI_ERR_ARG);
    CHECK(MPI_Pready(0, send) == MPI_SUCCESS && MPI_Pready(0, send) == MPI_ERR_ARG);
    CHECK(MPI_Pready_range(1, 0, send) == MPI_ERR_ARG);
    MPI_Pready(1, send);
    MPI_Start(&receive);
    CHECK(MPI_Wait(&receive, MPI_STATUS_IGNORE) == MPI_ERR_TRUNCATE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
}

/* Partitions of no bytes meet data, which is too long for them; lengths that overflow. */
static void
refuse_lengths(void)
{
    int out[2] = {1, 2}, in = -1, flag = 0;
    const MPI_Count huge = (MPI_Count)1 << 61;
    MPI_Request send, receive;

    CHECK(MPI_Psend_init(out, 4, huge, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL,
                         &send) == MPI_ERR_COUNT);
    CHECK(MPI_Precv_init(out, 2, huge / 2, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL,
                         &receive) == MPI_ERR_COUNT);
    MPI_Psend_init(out, 1, 2, MPI_INT, 0, 4, MPI_COMM_SELF, MPI_INFO_NULL, &send);
    MPI_Precv_init(&in, 3, 0, MPI_INT, 0, 4, MPI_COMM_SELF, MPI_INFO_NULL, &receive);
    MPI_Start(&receive);
    CHECK(MPI_Start(&receive) == MPI_ERR_REQUEST);
    MPI_Start(&send);
    MPI_Pready(0, send);
    CHECK(MPI_Parrived(receive, 3, &flag) == MPI_ERR_ARG);
    CHECK(MPI_Wait(&receive, MPI_STATUS_IGNORE) == MPI_ERR_TRUNCATE && in == -1);
    MPI_Cancel(&send); /* a partitioned send goes on */
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
}

int
main(int argc, char **argv)
{
    static const int cuts[][2] = {{1, 1},   {8, 8},   {1, 16}, {16, 1},
                                  {13, 11}, {11, 13}, {720, 5}};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 7; i++) {
        exchange(TOTAL, cuts[i][0], cuts[i][1], i % 2 == 1);
        exchange(TOTAL / 77, cuts[i][0] % 7 == 0 ? 10 : cuts[i][0] % 8 + 1, 9,
                 i % 2 == 0);
    }
    exchange_columns();
    keep_order();
    free_early();
    exchange_nothing();
    refuse();
    refuse_lengths();
    MPI_Finalize();
    return 0;
}
