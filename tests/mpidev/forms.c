/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls beside those of calls.c, with memory that the CPU cannot touch: neighbours, persistent
 * requests, local calls; and all that refuse such memory, as refuse.py lists them.
 * usage: mpirun -n N mpidev_forms [session]
 * session: MPI is initialized by MPI_Session_init() alone; 77 where the MPI has none.
 */
#include <mpi.h>

#include <telpher/interop/mpi_device.h>

#include "support.h"

static int count;
static MPI_Comm comm; /* with the topology of the calls below */

/* ---- neighbours: two sources and one or two targets ---- */

static int counts[2], displs[2];
static MPI_Aint wide[2];
static MPI_Datatype types[2];

#define NEIGHBORS(X)                                                                   \
    X(allgather, out, count, MPI_INT, in, count, MPI_INT, comm)                        \
    X(allgatherv, out, count, MPI_INT, in, counts, displs, MPI_INT, comm)              \
    X(alltoall, out, count, MPI_INT, in, count, MPI_INT, comm)                         \
    X(alltoallv, out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, comm)      \
    X(alltoallw, out, counts, wide, types, in, counts, wide, types, comm)
#define NEIGHBOR_FORMS(name, ...)                                                      \
    static void blocking_##name(void) { MPI_Neighbor_##name(__VA_ARGS__); }            \
    static void starting_##name(void)                                                  \
    {                                                                                  \
        MPI_Request request;                                                           \
                                                                                       \
        MPI_Ineighbor_##name(__VA_ARGS__, &request);                                   \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                         \
    }
NEIGHBORS(NEIGHBOR_FORMS)
#define NEIGHBOR_COMPARE(name, ...)                                                    \
    compare("neighbor_" #name, blocking_##name, bytes);                                \
    compare("ineighbor_" #name, starting_##name, bytes);

static void
test_neighbors(int n)
{
    size_t bytes = (size_t)n * 16 + 64;

    count = n;
    for (int i = 0; i < 2; i++) {
        counts[i] = n;
        displs[i] = i * (n + 3); /* with a gap */
        wide[i] = displs[i] * 4;
        types[i] = MPI_INT;
    }
    NEIGHBORS(NEIGHBOR_COMPARE)
}

static void
test_topologies(void)
{
    int period = 1, left = (rank + size - 1) % size, right = (rank + 1) % size;
    int both[2] = {left, right}; /* weights as well, which nothing reads */
    int ends[16], edges[32];

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &comm);
    test_neighbors(3);
    test_neighbors(100000);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, both, both, 2, both, both,
                                   MPI_INFO_NULL, 0, &comm);
    test_neighbors(5);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank == 0 ? 0 : 1, &left, both,
                                   rank == size - 1 ? 0 : 1, &right, both,
                                   MPI_INFO_NULL, 0, &comm);
    test_neighbors(5);
    MPI_Comm_free(&comm);
    for (int i = 0; i < size && i < 16; i++) {
        ends[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, ends, edges, 0, &comm);
    test_neighbors(7);
    MPI_Comm_free(&comm);
}

/* ---- persistent messages ---- */

typedef int (*send_init_fn)(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                            MPI_Request *);

/* Completes an array of two requests, in the way of a round. */
static void
complete(MPI_Request *requests, int way, MPI_Status *statuses)
{
    int flag = 0, done = 0, index, indices[2];

    if (way == 0) {
        MPI_Waitall(2, requests, statuses);
    } else if (way == 1) {
        for (int i = 0; i < 2; i++) {
            MPI_Status status;

            MPI_Waitany(2, requests, &index, &status);
            statuses[index] = status;
        }
    } else if (way == 2) {
        while (flag == 0) {
            MPI_Testall(2, requests, &flag, statuses);
        }
    } else {
        for (int all = 0; all < 2; all += done) {
            MPI_Status some[2];

            MPI_Waitsome(2, requests, &done, indices, some);
            for (int i = 0; i < done; i++) {
                statuses[indices[i]] = some[i];
            }
        }
    }
}

/* Both requests are used in four rounds, each with other content; the datatype ends at once. */
static void
persistent(send_init_fn init, size_t bytes, int out_is_device, int in_is_device)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, got = 0;
    char *from = out_is_device ? device[OUT] : host[OUT];
    char *to = in_is_device ? device[IN] : host[IN];
    MPI_Request requests[2], names[2];
    MPI_Status statuses[2];
    MPI_Datatype type;

    MPI_Type_contiguous(1, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Recv_init(to, (int)bytes, type, left, 3, MPI_COMM_WORLD, &requests[0]);
    init(from, (int)bytes, type, right, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&type);
    memcpy(names, requests, sizeof(names));
    for (int round = 0; round < 4; round++) {
        fill(host[2], bytes, (unsigned)(left + 10 * round));
        fill(result, bytes, (unsigned)(rank + 10 * round));
        copy(from, result, bytes);
        MPI_Start(&requests[0]);
        MPI_Barrier(MPI_COMM_WORLD); /* a ready send finds its receive */
        MPI_Startall(1, &requests[1]);
        complete(requests, round, statuses);
        MPI_Get_count(&statuses[0], MPI_BYTE, &got);
        copy(result, to, bytes);
        expect(got == (int)bytes && statuses[0].MPI_SOURCE == left, "status", got);
        expect(memcmp(names, requests, sizeof(names)) == 0, "names", round);
        expect(memcmp(result, host[2], bytes) == 0, "persistent", round);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    expect(requests[0] == MPI_REQUEST_NULL, "freed", 0);
}

static void
test_persistent(size_t bytes)
{
    static char room[1 << 20];
    int size_of_room = sizeof(room);
    void *base;

    persistent(MPI_Send_init, bytes, 1, 1);
    persistent(MPI_Send_init, bytes, 1, 0);
    persistent(MPI_Send_init, bytes, 0, 1);
    persistent(MPI_Ssend_init, bytes, 1, 1);
    persistent(MPI_Rsend_init, bytes, 1, 1);
    MPI_Buffer_attach(room, size_of_room);
    persistent(MPI_Bsend_init, bytes, 1, 1);
    MPI_Buffer_detach(&base, &size_of_room);
}

/* An inactive request is complete, with an empty status; one that is active can be cancelled. */
static void
test_inactive(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0, index = 0;

    MPI_Recv_init(device[0], 8, MPI_BYTE, rank, 99, MPI_COMM_SELF, &request);
    MPI_Test(&request, &flag, &status);
    expect(flag == 1 && request != MPI_REQUEST_NULL, "inactive", flag);
    MPI_Waitany(1, &request, &index, &status);
    expect(index == MPI_UNDEFINED, "inactive index", index);
    MPI_Request_free(&request);
    MPI_Recv_init(device[0], 8, MPI_BYTE, 0, 99, MPI_COMM_SELF, &request);
    MPI_Start(&request);
    MPI_Request_get_status(request, &flag, &status);
    expect(flag == 0, "active", flag);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    expect(flag == 1, "cancelled", flag);
    MPI_Request_free(&request);
}

/* ---- persistent collective calls ---- */

#if MPI_VERSION >= 4
#define PERSISTENT(X)                                                                  \
    X(Bcast, in, count, MPI_INT, size - 1, comm)                                       \
    X(Reduce, out, in, count, MPI_INT, MPI_SUM, 0, comm)                               \
    X(Allreduce, out, in, count, MPI_INT, MPI_SUM, comm)                               \
    X(Scan, out, in, count, MPI_INT, MPI_SUM, comm)                                    \
    X(Exscan, out, in, count, MPI_INT, MPI_SUM, comm)                                  \
    X(Reduce_scatter, out, in, each, MPI_INT, MPI_SUM, comm)                           \
    X(Reduce_scatter_block, out, in, count, MPI_INT, MPI_SUM, comm)                    \
    X(Gather, out, count, MPI_INT, in, count, MPI_INT, 0, comm)                        \
    X(Gatherv, out, count, MPI_INT, in, each, places, MPI_INT, 0, comm)                \
    X(Scatter, out, count, MPI_INT, in, count, MPI_INT, 0, comm)                       \
    X(Scatterv, out, each, places, MPI_INT, in, count, MPI_INT, 0, comm)               \
    X(Allgather, out, count, MPI_INT, in, count, MPI_INT, comm)                        \
    X(Allgatherv, out, count, MPI_INT, in, each, places, MPI_INT, comm)                \
    X(Alltoall, out, count, MPI_INT, in, count, MPI_INT, comm)                         \
    X(Alltoallv, out, each, places, MPI_INT, in, each, places, MPI_INT, comm)          \
    X(Alltoallw, out, each, offsets, all_types, in, each, offsets, all_types, comm)    \
    X(Neighbor_allgather, out, count, MPI_INT, in, count, MPI_INT, comm)               \
    X(Neighbor_allgatherv, out, count, MPI_INT, in, counts, displs, MPI_INT, comm)     \
    X(Neighbor_alltoall, out, count, MPI_INT, in, count, MPI_INT, comm)                \
    X(Neighbor_alltoallv, out, counts, displs, MPI_INT, in, counts, displs, MPI_INT,   \
      comm)                                                                            \
    X(Neighbor_alltoallw, out, counts, wide, types, in, counts, wide, types, comm)

static int each[16], places[16], offsets[16];
static MPI_Datatype all_types[16];

/* The second start sends what the first left. MPICH 4.0 fails in that of a scatter, with host memory
 * and without this library as well. */
#define PERSISTENT_FORM(name, ...)                                                     \
    static void persistent_##name(void)                                                \
    {                                                                                  \
        MPI_Request request;                                                           \
                                                                                       \
        MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request);                       \
        for (int i = strcmp(#name, "Scatter") == 0; i < 2; i++) {                      \
            MPI_Start(&request);                                                       \
            MPI_Wait(&request, MPI_STATUS_IGNORE);                                     \
            copy(out, in, 64);                                                         \
        }                                                                              \
        MPI_Request_free(&request);                                                    \
    }
PERSISTENT(PERSISTENT_FORM)
#define PERSISTENT_COMPARE(name, ...)                                                  \
    compare(#name "_init", persistent_##name, (size_t)n * 4 * ((size_t)size + 3));

static void
test_persistent_collectives(int n)
{
    int period = 1;

    count = n;
    for (int i = 0; i < size && i < 16; i++) {
        each[i] = n;
        places[i] = i * n;
        offsets[i] = 4 * places[i];
        all_types[i] = MPI_INT;
    }
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &comm);
    PERSISTENT(PERSISTENT_COMPARE)
    MPI_Comm_free(&comm);
}
#endif

/* ---- calls of one process ---- */

static int places_are_device; /* bit 0: elements; bit 1: packed bytes */

static void
reduce_local(void)
{
    int host_only = in == host[IN];

    MPI_Reduce_local(host_only || (places_are_device & 1) != 0 ? out : host[OUT],
                     host_only || (places_are_device & 2) != 0 ? in : result, 100,
                     MPI_INT, MPI_SUM);
}

/* Packs columns behind other bytes, unpacks them elsewhere, with device memory in one or both places. */
static void
pack(int external)
{
    char *elements = (places_are_device & 1) != 0 ? device[OUT] : host[OUT];
    char *packed = (places_are_device & 2) != 0 ? device[IN] : host[IN];
    const int bytes = 8000;
    MPI_Aint at = 12, back = 12;
    int position = 12, behind = 12;
    MPI_Datatype column;

    MPI_Type_vector(100, 2, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    fill(host[2], 8000, 5);
    fill(result, 8000, 7);
    copy(elements, host[2], 8000);
    copy(packed, result, 8000);
    if (external) {
        MPI_Pack_external("external32", elements, 1, column, packed, bytes, &at);
        MPI_Unpack_external("external32", packed, bytes, &back, elements + 16, 1,
                            column);
    } else {
        MPI_Pack(elements, 1, column, packed, bytes, &position, MPI_COMM_SELF);
        MPI_Unpack(packed, bytes, &behind, elements + 16, 1, column, MPI_COMM_SELF);
        at = position;
        back = behind;
    }
    expect(at == 812 && back == 812, "position", (long)at);
    copy(host[3], elements, 3200);
    for (int i = 0; i < 100; i++) {
        memcpy(host[2] + 32 * i + 16, host[2] + 32 * i, 8);
    }
    expect(memcmp(host[3], host[2], 3200) == 0, "unpacked", places_are_device);
    copy(host[3], packed, 8000);
    expect(memcmp(host[3], result, 12) == 0 &&
               memcmp(host[3] + 812, result + 812, 8000 - 812) == 0,
           "beside what was packed", places_are_device);
    expect(memcmp(host[3] + 12, result + 12, 800) != 0, "packed", external);
    MPI_Type_free(&column);
}

static void
test_local(void)
{
    for (places_are_device = 1; places_are_device < 4; places_are_device++) {
        pack(0);
        pack(1);
    }
    places_are_device = 3;
    compare("reduce_local", reduce_local, 400);
    places_are_device = 1;
    fill(host[OUT], 400, 1);
    fill(result, 400, 2);
    copy(device[OUT], host[OUT], 400);
    MPI_Reduce_local(device[OUT], result, 100, MPI_INT, MPI_SUM);
    fill(host[IN], 400, 2);
    copy(device[IN], host[IN], 400);
    MPI_Reduce_local(host[OUT], device[IN], 100, MPI_INT, MPI_SUM);
    copy(host[2], device[IN], 400);
    expect(memcmp(result, host[2], 400) == 0, "reduce_local of both", 0);
}

/* ---- calls that refuse device memory ---- */

static void
expect_refused(int error, const char *name)
{
    int kind = MPI_SUCCESS;

    MPI_Error_class(error, &kind);
    expect(kind == MPI_ERR_BUFFER, name, kind);
}

#define REFUSED(name, arguments) expect_refused(name arguments, #name);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnonnull"
static void
call_refused(char *refused, MPI_Win refused_win, MPI_File refused_file)
{
#include "refused.h"
}
#pragma GCC diagnostic pop

static void
test_refused(void)
{
    MPI_Win win;
    MPI_File file;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Win_create(host[0], 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    call_refused(device[0], win, file);
    MPI_File_close(&file);
    MPI_Win_free(&win);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- begin and end ---- */

#if MPI_VERSION >= 4
/* Without MPI_COMM_WORLD: messages and reductions in a communicator of a session. */
static int
run_session(void)
{
    MPI_Session session, other;
    MPI_Group group;
    MPI_Comm world;
    int right, left;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &other);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_finalize(&other);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "mpidev_forms", MPI_INFO_NULL,
                               MPI_ERRORS_ARE_FATAL, &world);
    MPI_Group_free(&group);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    expect(allocate_simulated() == 0, "memory in a session", 0);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    for (size_t bytes = 59; failures == 0 && bytes < 4000000; bytes *= 100) {
        fill(result, bytes, (unsigned)rank);
        copy(device[0], result, bytes);
        MPI_Sendrecv(device[0], (int)bytes, MPI_BYTE, right, 0, device[1], (int)bytes,
                     MPI_BYTE, left, 0, world, MPI_STATUS_IGNORE);
        copy(host[0], device[1], bytes);
        fill(result, bytes, (unsigned)left);
        expect(memcmp(host[0], result, bytes) == 0, "session", (long)bytes);
    }
    if (failures == 0) {
        expect_refused(MPI_Buffer_attach(device[0], 8), "refused in a session");
    }
    release();
    MPI_Comm_free(&world);
    MPI_Session_finalize(&session);
    return failures;
}
#else
static int
run_session(void)
{
    return 77;
}
#endif

static void
run(void)
{
    test_topologies();
    test_persistent(1000);
    test_persistent(300000);
    test_inactive();
#if MPI_VERSION >= 4
    test_persistent_collectives(20);
    test_persistent_collectives(50000);
#endif
    test_local();
    test_refused();
}

int
main(int argc, char **argv)
{
    int failed;

    if (argc > 1 && strcmp(argv[1], "session") == 0) {
        failed = run_session();
    } else {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (allocate_simulated() != 0 || size < 2 || size > 16) {
            fprintf(stderr, "no context, no memory, or a wrong number of ranks\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        run();
        MPI_Barrier(MPI_COMM_WORLD);
        release();
        MPI_Finalize();
        failed = failures;
    }
    if (rank == 0 && failed == 0) {
        printf("mpidev: good\n");
    }
    return failed;
}
