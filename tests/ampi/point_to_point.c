/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: point_to_point [+vp N]
 *
 * An MPI program: all ways to send and receive, between all pairs of ranks, with every size at
 * which the protocol changes. Each rank checks what it sees, and its global variables.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            (void)fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__,    \
                          #condition);                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
        }                                                                              \
    } while (0)

enum { LONGEST = 300000, MANY = 200 };

/* Of each rank its own, though ranks share a process. */
static int rank = -1, size;
static int counter;

static const int sizes[] = {0,    1,    8,    191,  192,   193,   1000,  1025,
                            4095, 4096, 4097, 8000, 16300, 16384, 70000, LONGEST};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void
fill(unsigned char *bytes, int len, int from, int to)
{
    for (int i = 0; i < len; i++) {
        bytes[i] = (unsigned char)(i * 7 + from * 31 + to);
    }
}

static int
is_filled(const unsigned char *bytes, int len, int from, int to)
{
    for (int i = 0; i < len; i++) {
        if (bytes[i] != (unsigned char)(i * 7 + from * 31 + to)) {
            return 0;
        }
    }
    return 1;
}

static unsigned char out[LONGEST], in[LONGEST];

/* Every pair, every size; the receiver posts before or after the message arrives. */
static void
test_sizes(MPI_Comm comm)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Status status;
    MPI_Request request;

    for (int s = 0; s < SIZES; s++) {
        fill(out, sizes[s], rank, right);
        memset(in, 0, sizeof(in));
        MPI_Irecv(in, LONGEST, MPI_BYTE, left, s, comm, &request);
        MPI_Send(out, sizes[s], MPI_BYTE, right, s, comm);
        MPI_Wait(&request, &status);
        CHECK(request == MPI_REQUEST_NULL);
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == s);
        CHECK(is_filled(in, sizes[s], left, rank));
        CHECK(sizes[s] == LONGEST || in[sizes[s]] == 0);
        memset(in, 0, sizeof(in));
        MPI_Isend(out, sizes[s], MPI_BYTE, right, 100 + s, comm, &request);
        MPI_Recv(in, sizes[s], MPI_BYTE, MPI_ANY_SOURCE, 100 + s, comm, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(status.MPI_SOURCE == left && is_filled(in, sizes[s], left, rank));
        counter++;
    }
}

/* Messages of one sender stay in order, short and long ones mixed. */
static void
test_order(void)
{
    MPI_Request requests[MANY];
    MPI_Status status;
    static int values[MANY][3000];

    for (int i = 0; i < MANY; i++) {
        values[i][0] = i;
        MPI_Isend(values[i], i % 3 == 0 ? 3000 : 1, MPI_INT, (rank + 1) % size, 5,
                  MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < MANY; i++) {
        static int got[3000];

        MPI_Recv(got, 3000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
        CHECK(got[0] == i && status.MPI_TAG == 5);
    }
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
}

/* Messages are received in another order than they were sent, by their tags. */
static void
test_tags(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request requests[SIZES];

    fill(out, LONGEST, rank, right);
    for (int s = 0; s < SIZES; s++) {
        MPI_Isend(out, sizes[s], MPI_BYTE, right, s, MPI_COMM_WORLD, &requests[s]);
    }
    for (int s = SIZES - 1; s >= 0; s--) {
        memset(in, 0, sizeof(in));
        MPI_Recv(in, LONGEST, MPI_BYTE, left, s, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(is_filled(in, sizes[s], left, rank));
    }
    MPI_Waitall(SIZES, requests, MPI_STATUSES_IGNORE);
}

static void
test_modes(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, size_of = 0;
    static char buffer[2 * (LONGEST + MPI_BSEND_OVERHEAD)];
    void *detached;
    MPI_Request requests[3];

    for (int s = 0; s < SIZES; s++) {
        fill(out, sizes[s], rank, right);
        MPI_Issend(out, sizes[s], MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[0]);
        memset(in, 0, sizeof(in));
        MPI_Recv(in, LONGEST, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(is_filled(in, sizes[s], left, rank));
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Buffer_attach(buffer, (int)sizeof(buffer));
    MPI_Bsend(out, LONGEST, MPI_BYTE, right, 2, MPI_COMM_WORLD);
    memset(out, 0, LONGEST);
    MPI_Recv(in, LONGEST, MPI_BYTE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(is_filled(in, LONGEST, left, rank));
    MPI_Buffer_detach(&detached, &size_of);
    CHECK(detached == buffer && size_of == (int)sizeof(buffer));
    if (size > 1) {
        if (rank % 2 == 0 && rank + 1 < size) {
            MPI_Ssend(&rank, 1, MPI_INT, rank + 1, 3, MPI_COMM_WORLD);
        } else if (rank % 2 == 1) {
            int got;

            MPI_Recv(&got, 1, MPI_INT, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(got == rank - 1);
        }
    }
}

/* A synchronous send is not complete before its receive. */
static void
test_synchronous(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, flag = 1, got = 0;
    MPI_Request request;

    MPI_Issend(&rank, 1, MPI_INT, right, 9, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 50; i++) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
    }
    /* all have tested, before any receives */
    for (int step = 1; step < size; step *= 2) {
        MPI_Sendrecv(NULL, 0, MPI_INT, (rank + step) % size, 8, NULL, 0, MPI_INT,
                     (rank - step + size) % size, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Recv(&got, 1, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == left);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void
test_probes(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, flag = 0;
    MPI_Status status;
    MPI_Message message;
    MPI_Request request, sends[SIZES];

    fill(out, LONGEST, rank, right);
    for (int s = 0; s < SIZES; s++) {
        MPI_Isend(out, sizes[s], MPI_BYTE, right, 40 + s, MPI_COMM_WORLD, &sends[s]);
    }
    MPI_Probe(MPI_ANY_SOURCE, 41, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 41);
    while (!flag) {
        MPI_Iprobe(left, 40, MPI_COMM_WORLD, &flag, &status);
    }
    for (int s = 0; s < SIZES; s++) {
        MPI_Mprobe(left, 40 + s, MPI_COMM_WORLD, &message, &status);
        memset(in, 0, sizeof(in));
        if (s % 2 == 0) {
            MPI_Mrecv(in, LONGEST, MPI_BYTE, &message, &status);
        } else {
            MPI_Imrecv(in, LONGEST, MPI_BYTE, &message, &request);
            MPI_Wait(&request, &status);
        }
        CHECK(message == MPI_MESSAGE_NULL && status.MPI_TAG == 40 + s);
        CHECK(is_filled(in, sizes[s], left, rank));
    }
    MPI_Waitall(SIZES, sends, MPI_STATUSES_IGNORE);
    MPI_Iprobe(MPI_ANY_SOURCE, 39, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag);
}

static void
test_persistent(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, value, got;
    MPI_Request requests[2];

    MPI_Send_init(&value, 1, MPI_INT, right, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&got, 1, MPI_INT, left, 6, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 20; i++) {
        value = rank * 1000 + i;
        got = -1;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(got == left * 1000 + i && requests[0] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

/* Rank 0 receives from all others with the calls that wait for some. */
static void
test_any(void)
{
    MPI_Request requests[64];
    int values[64], indices[64], index, count, left = 0, flag;

    if (rank != 0) {
        for (int i = 0; i < 3; i++) {
            MPI_Send(&rank, 1, MPI_INT, 0, 10 + i, MPI_COMM_WORLD);
        }
        return;
    }
    for (int round = 0; round < 3; round++) {
        for (int r = 1; r < size && r < 64; r++, left++) {
            MPI_Irecv(&values[r - 1], 1, MPI_INT, r, 10 + round, MPI_COMM_WORLD,
                      &requests[r - 1]);
        }
        while (left > 0) {
            if (round == 0) {
                MPI_Waitany(size - 1, requests, &index, MPI_STATUS_IGNORE);
                indices[0] = index;
                count = 1;
            } else if (round == 1) {
                MPI_Waitsome(size - 1, requests, &count, indices, MPI_STATUSES_IGNORE);
            } else {
                MPI_Testany(size - 1, requests, &index, &flag, MPI_STATUS_IGNORE);
                indices[0] = index;
                count = flag;
            }
            for (int i = 0; i < count; i++) {
                CHECK(values[indices[i]] == indices[i] + 1);
            }
            left -= count;
        }
        MPI_Waitany(size - 1, requests, &index, MPI_STATUS_IGNORE);
        CHECK(index == MPI_UNDEFINED);
    }
}

static void
test_cancel(void)
{
    MPI_Request request;
    MPI_Status status;
    int value = 0, flag;

    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
}

static void
test_communicators(void)
{
    MPI_Comm copy, half, one;
    int result, half_rank, half_size;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_compare(copy, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_CONGRUENT);
    test_sizes(copy);
    MPI_Comm_split(copy, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm_size(half, &half_size);
    CHECK(half_size == (size + 1 - rank % 2) / 2);
    CHECK(half_rank == half_size - 1 - rank / 2);
    MPI_Sendrecv_replace(&half_rank, 1, MPI_INT, (half_rank + 1) % half_size, 1,
                         (half_rank + half_size - 1) % half_size, 1, half,
                         MPI_STATUS_IGNORE);
    MPI_Comm_split(copy, rank == 0 ? 0 : MPI_UNDEFINED, 0, &one);
    CHECK((one == MPI_COMM_NULL) == (rank != 0));
    if (one != MPI_COMM_NULL) {
        MPI_Comm_free(&one);
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL);
}

/* ---- an operation of the program ---- */

static int queried, freed;

static int
query(void *extra, MPI_Status *status)
{
    queried += *(int *)extra;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = 9;
    return MPI_SUCCESS;
}

static int
forget(void *extra)
{
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int
cancel(void *extra, int complete)
{
    return *(int *)extra == complete ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static void
test_general(void)
{
    int extra = 1, flag = -1, count;
    MPI_Request request, copy;
    MPI_Status status;

    MPI_Grequest_start(query, forget, cancel, &extra, &request);
    copy = request;
    MPI_Test(&request, &flag, &status);
    CHECK(!flag && queried == 0);
    MPI_Grequest_complete(copy);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(request == MPI_REQUEST_NULL && count == 3 && status.MPI_SOURCE == 9);
    CHECK(queried == 1 && freed == 1);
}

static int
refuse(void *extra, MPI_Status *status)
{
    (void)extra;
    (void)status;
    return MPI_ERR_IO;
}

/* Errors of the program's own functions come back from the call that used them. */
static void
test_general_errors(void)
{
    int extra = 1;
    MPI_Request request;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Grequest_start(refuse, forget, cancel, &extra, &request);
    CHECK(MPI_Cancel(&request) == MPI_ERR_OTHER);
    MPI_Grequest_complete(request);
    freed = 0;
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_ERR_IO);
    CHECK(request == MPI_REQUEST_NULL && freed == 1);
    CHECK(MPI_Cancel(&request) == MPI_ERR_REQUEST);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* A send to nobody uses nothing of the attached buffer. */
static void
test_buffered_to_null(void)
{
    char buffer[MPI_BSEND_OVERHEAD + 8], *back;
    int length = 0;
    MPI_Request request;

    MPI_Buffer_attach(buffer, sizeof(buffer));
    MPI_Bsend_init(buffer, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Buffer_detach(&back, &length);
    CHECK(back == buffer && length == (int)sizeof(buffer));
}

/* Both at once, on one buffer and on two; the receive or the send ends first, or is none. */
static void
test_isendrecv(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, done = 0;
    static unsigned char both[LONGEST];
    MPI_Request requests[3];
    MPI_Status statuses[3];

    for (int s = 0; s < SIZES; s++) {
        fill(out, sizes[s], rank, right);
        fill(both, sizes[s], rank, right + 1);
        memset(in, 0, sizeof(in));
        MPI_Isendrecv(out, sizes[s], MPI_BYTE, right, s, in, LONGEST, MPI_BYTE,
                      MPI_ANY_SOURCE, s, MPI_COMM_WORLD, &requests[0]);
        MPI_Isendrecv_replace(both, sizes[s], MPI_BYTE, right, 100 + s, left, 100 + s,
                              MPI_COMM_WORLD, &requests[1]);
        MPI_Isendrecv(out, 1, MPI_BYTE, MPI_PROC_NULL, s, in, 1, MPI_BYTE,
                      MPI_PROC_NULL, s, MPI_COMM_WORLD, &requests[2]);
        MPI_Waitall(3, requests, statuses);
        CHECK(requests[0] == MPI_REQUEST_NULL && statuses[0].MPI_SOURCE == left &&
              statuses[0].MPI_TAG == s && is_filled(in, sizes[s], left, rank));
        CHECK(statuses[1].MPI_TAG == 100 + s &&
              is_filled(both, sizes[s], left, rank + 1));
        CHECK(statuses[2].MPI_SOURCE == MPI_PROC_NULL);
    }
    /* one half is complete, the other is not */
    MPI_Isendrecv(out, LONGEST, MPI_BYTE, rank, 7, in, 0, MPI_BYTE, MPI_PROC_NULL, 7,
                  MPI_COMM_WORLD, &requests[0]);
    MPI_Isendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 8, in, 1, MPI_BYTE, rank, 8,
                  MPI_COMM_WORLD, &requests[1]);
    MPI_Test(&requests[1], &done, MPI_STATUS_IGNORE);
    CHECK(!done);
    MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
    CHECK(!done);
    MPI_Recv(both, LONGEST, MPI_BYTE, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(out, 1, MPI_BYTE, rank, 8, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, statuses);
    CHECK(memcmp(both, out, LONGEST) == 0 && in[0] == out[0]);
}

/* Statuses of the null process; a call with one status does not write its error. */
static void
test_null_process(void)
{
    MPI_Status status = {.MPI_ERROR = MPI_ERR_DIMS};
    MPI_Message message;
    MPI_Request request;
    MPI_Comm parent;

    MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_ERROR == MPI_ERR_DIMS);
    status.MPI_SOURCE = 0;
    MPI_Imrecv(NULL, 0, MPI_INT, &message, &request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_ERROR == MPI_ERR_DIMS);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    CHECK(argc == 1 && rank == -1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    test_sizes(MPI_COMM_WORLD);
    test_order();
    test_tags();
    test_modes();
    test_synchronous();
    test_probes();
    test_persistent();
    test_any();
    test_cancel();
    test_communicators();
    test_general();
    test_general_errors();
    test_buffered_to_null();
    test_isendrecv();
    test_null_process();
    CHECK(counter == 2 * SIZES);
    MPI_Finalize();
    if (rank == 0) {
        exit(0);
    }
    return 0;
}
