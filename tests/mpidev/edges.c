/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rare uses of MPI with memory that the CPU cannot touch: absolute addresses, nested datatypes,
 * requests that are null, freed early or cancelled, other calls while messages are under way.
 * usage: mpirun -n N mpidev_edges, N >= 2
 */
#include <mpi.h>
#include <unistd.h>

#include <telpher/interop/mpi_device.h>

#include "support.h"

enum { SMALL = 600, LARGE = 1 << 20 };

static int right, left;

static void
put_pattern(int at, size_t bytes, unsigned seed)
{
    fill(result, bytes, seed);
    copy(device[at], result, bytes);
}

static void
expect_pattern(int at, size_t bytes, unsigned seed, const char *name)
{
    copy(host[0], device[at], bytes);
    fill(result, bytes, seed);
    expect(memcmp(host[0], result, bytes) == 0, name, (long)bytes);
}

/* ---- MPI_BOTTOM ---- */

static MPI_Datatype
absolute(const void *at, int bytes)
{
    MPI_Aint address;
    MPI_Datatype type;

    MPI_Get_address(at, &address);
    MPI_Type_create_hindexed(1, &bytes, &address, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void
test_bottom(int bytes)
{
    MPI_Datatype from = absolute(device[0], bytes), to = absolute(device[1], bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int position = 0;

    put_pattern(0, (size_t)bytes, (unsigned)rank);
    MPI_Sendrecv(MPI_BOTTOM, 1, from, right, 0, MPI_BOTTOM, 1, to, left, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect_pattern(1, (size_t)bytes, (unsigned)left, "MPI_BOTTOM");
    put_pattern(0, (size_t)bytes, 40u + (unsigned)rank);
    MPI_Irecv(MPI_BOTTOM, 1, to, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(MPI_BOTTOM, 1, from, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    expect_pattern(1, (size_t)bytes, 40u + (unsigned)left, "MPI_BOTTOM, non-blocking");
    put_pattern(0, (size_t)bytes, 70u + (unsigned)rank);
    MPI_Recv_init(MPI_BOTTOM, 1, to, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(MPI_BOTTOM, 1, from, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, statuses);
    expect_pattern(1, (size_t)bytes, 70u + (unsigned)left, "MPI_BOTTOM, persistent");
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Pack(MPI_BOTTOM, 1, from, host[1], bytes, &position, MPI_COMM_WORLD);
    fill(result, (size_t)bytes, 70u + (unsigned)rank);
    expect(position == bytes && memcmp(host[1], result, (size_t)bytes) == 0,
           "packed MPI_BOTTOM", bytes);
    MPI_Type_free(&from);
    MPI_Type_free(&to);
}

/* ---- datatypes in datatypes ---- */

static MPI_Datatype nested;

static void
exchange_nested(void)
{
    MPI_Sendrecv(out + 4096, 3, nested, right, 1, in + 4096, 3, nested, left, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void
gather_nested(void)
{
    MPI_Allgather(out + 4096, 1, nested, in + 4096, 1, nested, MPI_COMM_WORLD);
}

/* @param blocks  of the inner vector: its size */
static void
test_nested(int blocks)
{
    const int lengths[3] = {1, 2, 1};
    const MPI_Aint displs[3] = {-64, 0, 32 + 40 * (MPI_Aint)blocks};
    MPI_Datatype vector, pair, types[3], record, resized;

    MPI_Type_vector(blocks, 2, 5, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, 16 + 20 * (MPI_Aint)blocks, &pair);
    types[0] = MPI_DOUBLE;
    types[1] = pair;
    types[2] = MPI_SHORT;
    MPI_Type_create_struct(3, lengths, displs, types, &record);
    MPI_Type_create_resized(record, -64, 256 + 60 * (MPI_Aint)blocks, &resized);
    MPI_Type_contiguous(2, resized, &nested);
    MPI_Type_commit(&nested);
    MPI_Type_free(&vector);
    MPI_Type_free(&pair);
    MPI_Type_free(&record);
    MPI_Type_free(&resized);
    compare("nested datatypes", exchange_nested, (size_t)blocks * 600 + 16384);
    compare("nested datatypes gathered", gather_nested,
            (size_t)blocks * 200 * (size_t)size + 65536);
    MPI_Type_free(&nested);
}

/* ---- requests ---- */

static void
test_null_requests(void)
{
    MPI_Request requests[5] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                               MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[5];
    int index, flag, done, indices[5];

    put_pattern(0, SMALL, (unsigned)rank);
    MPI_Send_init(device[2], SMALL, MPI_BYTE, right, 8, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(device[1], SMALL, MPI_BYTE, left, 7, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(device[0], SMALL, MPI_BYTE, right, 7, MPI_COMM_WORLD, &requests[4]);
    MPI_Waitall(5, requests, statuses);
    expect(statuses[2].MPI_SOURCE == left && statuses[2].MPI_TAG == 7,
           "status among null requests", 0);
    expect_pattern(1, SMALL, (unsigned)left, "among null requests");
    MPI_Waitany(5, requests, &index, statuses);
    expect(index == MPI_UNDEFINED, "nothing is active", index);
    MPI_Testsome(5, requests, &done, indices, statuses);
    expect(done == MPI_UNDEFINED, "nothing is active, some", done);
    MPI_Testall(5, requests, &flag, statuses);
    expect(flag, "all null requests are complete", 0);
    MPI_Request_free(&requests[1]);
    expect(requests[1] == MPI_REQUEST_NULL, "a freed request is null", 0);
}

/* The receiver waits for messages whose requests were freed before their end. */
static void
test_freed_early(int bytes)
{
    MPI_Request requests[2];

    put_pattern(0, (size_t)bytes, (unsigned)rank);
    MPI_Isend(device[0], bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Send_init(device[0], bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Start(&requests[1]);
    MPI_Request_free(&requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        MPI_Recv(device[1 + i], bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        expect_pattern(1 + i, (size_t)bytes, (unsigned)left, "a request freed early");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void
test_cancelled(void)
{
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;

    MPI_Irecv(device[1], SMALL, MPI_BYTE, left, 99, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    expect(cancelled, "a receive is cancelled", 0);
    MPI_Recv_init(device[1], SMALL, MPI_BYTE, left, 99, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    expect(cancelled, "a persistent receive is cancelled", 0);
    MPI_Request_free(&request);
}

static void
test_wrong_counts(void)
{
    MPI_Request request;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Sendrecv_replace(device[0], -1, MPI_BYTE, right, 0, left, 0,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "a negative count to replace", 0);
    expect(MPI_Send(device[0], -1, MPI_BYTE, right, 0, MPI_COMM_WORLD) != MPI_SUCCESS,
           "a negative count to send", 0);
    expect(MPI_Irecv(device[0], 1, MPI_DATATYPE_NULL, left, 0, MPI_COMM_WORLD,
                     &request) != MPI_SUCCESS,
           "no datatype to receive", 0);
    expect(MPI_Allreduce(device[0], device[1], 1, MPI_DATATYPE_NULL, MPI_SUM,
                         MPI_COMM_WORLD) != MPI_SUCCESS,
           "no datatype to reduce", 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- calls that refuse device memory take host memory, also while messages are under way ---- */

static void
test_windows_of_host_memory(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Win win;
    int value = rank, *shared = (int *)(void *)host[1];

    *shared = -1;
    put_pattern(0, LARGE, (unsigned)rank);
    MPI_Irecv(device[1], LARGE, MPI_BYTE, left, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(device[0], LARGE, MPI_BYTE, right, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Win_create(shared, sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    expect(*shared == left, "a put of host memory", *shared);
    MPI_Win_free(&win);
    MPI_Waitall(2, requests, statuses);
    expect_pattern(1, LARGE, (unsigned)left, "a message beside a window");
}

/* A receive ends although its sender is in another call. */
static void
test_busy_sender(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm copy_of_world;

    if (rank == 0) {
        put_pattern(0, LARGE, 9);
        MPI_Isend(device[0], LARGE, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request);
    } else if (rank == 1) {
        MPI_Recv(device[1], LARGE, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_pattern(1, LARGE, 9, "a message of a sender that is in another call");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &copy_of_world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy_of_world);
}

/* ---- in place ---- */

static void
reduce_in_place(void)
{
    MPI_Allreduce(MPI_IN_PLACE, in, 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : in, rank == 0 ? in : NULL, 100, MPI_INT,
               MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void
move_in_place(void)
{
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : in, 10, MPI_INT, in, 10, MPI_INT, 0,
               MPI_COMM_WORLD);
    MPI_Scatter(in, 10, MPI_INT, rank == 0 ? MPI_IN_PLACE : in, 10, MPI_INT, 0,
                MPI_COMM_WORLD);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 10, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 10, MPI_INT, MPI_COMM_WORLD);
}

/* ---- host memory in some processes, device memory in the others ---- */

static void
test_mixed(void)
{
    int *values = (int *)(void *)host[1];
    int is_host = rank == 0;
    char *here = is_host ? host[2] : device[2];

    put_pattern(0, SMALL, (unsigned)rank);
    MPI_Gather(device[0], SMALL, MPI_BYTE, host[1], SMALL, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int r = 0; r < size && rank == 0; r++) {
        fill(result, SMALL, (unsigned)r);
        expect(memcmp(host[1] + (size_t)r * SMALL, result, SMALL) == 0,
               "gathered into host memory", r);
    }
    fill(host[2], SMALL, 77);
    MPI_Bcast(here, SMALL, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!is_host) {
        expect_pattern(2, SMALL, 77, "broadcast from host memory");
    }
    *values = rank + 1;
    copy(device[3], values, sizeof(int));
    MPI_Allreduce(is_host ? (char *)values : device[3], here, 1, MPI_INT, MPI_SUM,
                  MPI_COMM_WORLD);
    copy(values, here, sizeof(int));
    expect(*values == size * (size + 1) / 2, "a sum of both kinds of memory", *values);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- begin and end ---- */

static void
run(const char *only)
{
#define RUN(name, call)                                                                \
    if (only == NULL || strcmp(only, name) == 0) {                                     \
        call;                                                                          \
    }
    RUN("bottom", (test_bottom(SMALL), test_bottom(LARGE)))
    RUN("nested", (test_nested(5), test_nested(6000)))
    RUN("null", test_null_requests())
    RUN("freed", (test_freed_early(SMALL), test_freed_early(LARGE)))
    RUN("cancelled", test_cancelled())
    RUN("counts", test_wrong_counts())
    RUN("windows", test_windows_of_host_memory())
    RUN("busy", test_busy_sender())
    RUN("mixed", test_mixed())
    RUN("place", (compare("reductions in place", reduce_in_place, 400),
                  compare("moves in place", move_in_place, 40 * (size_t)size)))
}

int
main(int argc, char **argv)
{
    (void)alarm(100); /* a call that does not end */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (allocate_simulated() != 0 || size < 2) {
        fprintf(stderr, "no context, no memory, or a wrong number of ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    run(argc > 1 ? argv[1] : NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    release();
    MPI_Finalize();
    if (rank == 0 && failures == 0) {
        printf("mpidev: good\n");
    }
    return failures;
}
