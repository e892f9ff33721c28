/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls, datatypes and operations against results that each rank computes itself.
 * Any MPI runs it. usage: telpher launch -n N -- ampi_collectives [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 70000

static int rank, size, failures;

static void
expect(int ok, const char *name, int at)
{
    if (!ok && failures++ < 10) {
        fprintf(stderr, "rank %d of %d: %s, element %d: FAILED\n", rank, size, name,
                at);
    }
}

/* The value of rank r at i. */
static int
value(int r, int i)
{
    return (r + 1) * 1000003 + i * 7;
}

static int *out, *in;

static void
fill(int count)
{
    for (int i = 0; i < count; i++) {
        out[i] = value(rank, i);
        in[i] = -1;
    }
}

static void
equal(const int *got, int count, int (*want)(int i), const char *name)
{
    for (int i = 0; i < count; i++) {
        if (got[i] != want(i)) {
            expect(0, name, i);
            return;
        }
    }
}

static int block; /* elements for each rank */

static int
want_bcast(int i)
{
    return value(size - 1, i);
}

static int
want_sum(int i)
{
    unsigned sum = 0;

    for (int r = 0; r < size; r++) {
        sum += (unsigned)value(r, i);
    }
    return (int)sum;
}

static int
want_prefix(int i)
{
    unsigned sum = 0;

    for (int r = 0; r <= rank; r++) {
        sum += (unsigned)value(r, i);
    }
    return (int)sum;
}

static int
want_before(int i)
{
    return rank == 0 ? -1 : (int)((unsigned)want_prefix(i) - (unsigned)value(rank, i));
}

static int
want_gathered(int i)
{
    return value(i / block, i % block);
}

static int
want_scattered(int i)
{
    return value(0, rank * block + i);
}

static int
want_exchanged(int i)
{
    return value(i / block, rank * block + i % block);
}

static int
want_part(int i)
{
    return want_sum(rank * block + i);
}

static void
regular(int n)
{
    int all = n * size;

    block = n;
    fill(all);
    memcpy(in, out, (size_t)n * sizeof(int));
    MPI_Bcast(in, n, MPI_INT, size - 1, MPI_COMM_WORLD);
    equal(in, n, want_bcast, "bcast");
    for (int root = 0; root<size; root += size> 1 ? size - 1 : 1) {
        fill(all);
        MPI_Reduce(out, in, n, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        if (rank == root) {
            equal(in, n, want_sum, "reduce");
        }
        MPI_Gather(out, n, MPI_INT, in, n, MPI_INT, root, MPI_COMM_WORLD);
        if (rank == root) {
            equal(in, all, want_gathered, "gather");
        }
    }
    MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    equal(in, n, want_sum, "allreduce");
    memcpy(in, out, (size_t)n * sizeof(int));
    MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    equal(in, n, want_sum, "allreduce in place");
    MPI_Scan(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    equal(in, n, want_prefix, "scan");
    fill(all);
    MPI_Exscan(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    equal(in, n, want_before, "exscan");
    MPI_Scatter(out, n, MPI_INT, in, n, MPI_INT, 0, MPI_COMM_WORLD);
    equal(in, n, want_scattered, "scatter");
    MPI_Allgather(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
    equal(in, all, want_gathered, "allgather");
    MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
    equal(in, all, want_exchanged, "alltoall");
    memcpy(in, out, (size_t)all * sizeof(int));
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, MPI_COMM_WORLD);
    equal(in, all, want_exchanged, "alltoall in place");
    MPI_Reduce_scatter_block(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    equal(in, n, want_part, "reduce_scatter_block");
}

/* Blocks of unequal sizes, with gaps between them. */
static void
irregular(void)
{
    int counts[64], displs[64], next = 0, mine[64], mine_at[64];

    for (int r = 0; r < size; r++) {
        counts[r] = r % 3 + 1;
        displs[r] = next;
        next += counts[r] + 1;
        mine[r] = rank % 3 + 1;
        mine_at[r] = r * 4;
    }
    fill(size * 4);
    MPI_Allgatherv(out, counts[rank], MPI_INT, in, counts, displs, MPI_INT,
                   MPI_COMM_WORLD);
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < counts[r]; i++) {
            expect(in[displs[r] + i] == value(r, i), "allgatherv", displs[r] + i);
        }
        expect(in[displs[r] + counts[r]] == -1, "allgatherv's gap", r);
    }
    fill(size * 5);
    MPI_Alltoallv(out, counts, displs, MPI_INT, in, mine, mine_at, MPI_INT,
                  MPI_COMM_WORLD);
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < mine[r]; i++) {
            expect(in[mine_at[r] + i] == value(r, displs[rank] + i), "alltoallv", r);
        }
    }
    fill(size * 4);
    MPI_Scatterv(out, counts, displs, MPI_INT, in, counts[rank], MPI_INT, size - 1,
                 MPI_COMM_WORLD);
    for (int i = 0; i < counts[rank]; i++) {
        expect(in[i] == value(size - 1, displs[rank] + i), "scatterv", i);
    }
    MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0, at = 0; i < counts[rank]; i++) {
        for (int r = at = 0; r < rank; r++) {
            at += counts[r];
        }
        expect(in[i] == want_sum(at + i), "reduce_scatter", i);
    }
}

/* x -> a x + b: composition does not commute. */
static void
compose(void *first, void *then, int *count, MPI_Datatype *type)
{
    unsigned *f = first, *g = then;

    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        g[i + 1] = g[i] * f[i + 1] + g[i + 1];
        g[i] = g[i] * f[i];
    }
}

static void
ordered(void)
{
    unsigned own[2] = {(unsigned)rank * 2 + 3, (unsigned)rank + 5}, got[2] = {0, 0};
    unsigned want[2] = {1, 0}, up_to_own[2] = {1, 0};
    MPI_Datatype map;
    MPI_Op op;

    MPI_Type_contiguous(2, MPI_UNSIGNED, &map);
    MPI_Type_commit(&map);
    MPI_Op_create(compose, 0, &op);
    for (int r = 0; r < size; r++) {
        unsigned a = (unsigned)r * 2 + 3, b = (unsigned)r + 5;

        want[1] = a * want[1] + b;
        want[0] = a * want[0];
        if (r == rank) {
            memcpy(up_to_own, want, sizeof(want));
        }
    }
    MPI_Allreduce(own, got, 1, map, op, MPI_COMM_WORLD);
    expect(memcmp(got, want, sizeof(want)) == 0, "allreduce in order", 0);
    MPI_Scan(own, got, 1, map, op, MPI_COMM_WORLD);
    expect(memcmp(got, up_to_own, sizeof(want)) == 0, "scan in order", 0);
    MPI_Reduce(own, got, 1, map, op, size / 2, MPI_COMM_WORLD);
    expect(rank != size / 2 || memcmp(got, want, sizeof(want)) == 0, "reduce in order",
           0);
    MPI_Op_free(&op);
    MPI_Type_free(&map);
}

/* Adds the first of two integers; the second is no part of the type. */
static void
add_first(void *in_at, void *inout_at, int *count, MPI_Datatype *type)
{
    const int *f = in_at;
    int *g = inout_at;

    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        g[i] = (int)((unsigned)g[i] + (unsigned)f[i]);
    }
}

/* An operation and elements of the program's own: operands and gaps stay as they are. */
static void
own_operation(int n)
{
    int *mine = malloc((size_t)n * 2 * sizeof(int)),
        *sums = malloc((size_t)n * 2 * sizeof(int));
    MPI_Datatype spread;
    MPI_Op op;

    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
    MPI_Type_commit(&spread);
    MPI_Op_create(add_first, 1, &op);
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int i = 0; i < n; i++) {
            mine[2 * i] = value(rank, i);
            sums[2 * i] = in_place ? value(rank, i) : -1;
            mine[2 * i + 1] = sums[2 * i + 1] = -i;
        }
        MPI_Allreduce(in_place ? MPI_IN_PLACE : mine, sums, n, spread, op,
                      MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) {
            expect(sums[2 * i] == want_sum(i), "own operation", i);
            expect(mine[2 * i] == value(rank, i), "operand", i);
            expect(sums[2 * i + 1] == -i && mine[2 * i + 1] == -i, "gap", i);
        }
    }
    MPI_Op_free(&op);
    MPI_Type_free(&spread);
    free(mine);
    free(sums);
}

static void
operations(void)
{
    struct {
        double value;
        int at;
    } mine = {(double)((rank * 5) % 7), rank}, low, high;
    double number = 1.5 * (rank + 1), product = 1, got;
    int bits = 1 << (rank % 20), all = 0, best = 0, worst = 0;

    for (int r = 0; r < size; r++) {
        product *= 1.5 * (r + 1);
        all |= 1 << (r % 20);
        best = (r * 5) % 7 > (best * 5) % 7 ? r : best;
        worst = (r * 5) % 7 < (worst * 5) % 7 ? r : worst;
    }
    MPI_Allreduce(&number, &got, 1, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
    expect(got > product * 0.999999 && got < product * 1.000001, "prod", 0);
    MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    expect(bits == all, "bor", bits);
    MPI_Allreduce(&mine, &high, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &low, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    expect(high.at == best, "maxloc", high.at);
    expect(low.at == worst, "minloc", low.at);
}

/* Several at the same time, waited for in another order. */
static void
at_once(int n)
{
    MPI_Request requests[4];
    int *sums = malloc((size_t)n * sizeof(int)),
        *again = malloc((size_t)n * sizeof(int));

    block = n;
    fill(n * size);
    for (int i = 0; i < n; i++) {
        again[i] = out[i];
    }
    MPI_Iallreduce(out, sums, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(again, n, MPI_INT, size - 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Ialltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD, &requests[2]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
    MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    equal(sums, n, want_sum, "iallreduce");
    equal(again, n, want_bcast, "ibcast");
    equal(in, n * size, want_exchanged, "ialltoall");
    free(sums);
    free(again);
}

/* ---- datatypes ---- */

struct particle {
    char kind;
    double position[3];
    int id;
};

/* Sends to the next rank with one type, receives with another; @return elements */
static int
to_next(const void *from, MPI_Datatype sent, void *to, int count, MPI_Datatype received)
{
    MPI_Status status;
    int got;

    MPI_Sendrecv(from, 1, sent, (rank + 1) % size, 3, to, count, received,
                 (rank + size - 1) % size, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, received, &got);
    return got;
}

static void
types(void)
{
    const int lengths[3] = {1, 3, 1}, sizes[3] = {5, 6, 7}, part[3] = {2, 3, 4};
    const int starts[3] = {1, 2, 3}, indices[3] = {4, 0, 9};
    const MPI_Aint at[3] = {offsetof(struct particle, kind),
                            offsetof(struct particle, position),
                            offsetof(struct particle, id)};
    const MPI_Datatype kinds[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    int before = (rank + size - 1) % size, position = 0, packed[8];
    struct particle mine[3], other[3];
    MPI_Datatype column, one, cube, scattered;
    MPI_Aint lb, extent;

    fill(210);
    MPI_Type_vector(10, 2, 5, MPI_INT, &column);
    MPI_Type_commit(&column);
    expect(to_next(out, column, in, 20, MPI_INT) == 20, "vector's count", 0);
    for (int i = 0; i < 20; i++) {
        expect(in[i] == value(before, i / 2 * 5 + i % 2), "vector", i);
    }
    MPI_Type_create_struct(3, lengths, at, kinds, &one);
    MPI_Type_get_extent(one, &lb, &extent);
    expect(lb == 0 && extent == (MPI_Aint)sizeof(struct particle), "extent of a struct",
           (int)extent);
    MPI_Type_commit(&one);
    for (int i = 0; i < 3; i++) {
        memset(&mine[i], 9, sizeof(mine[i]));
        mine[i] = (struct particle){(char)rank, {i, i + 0.5, i + 0.25}, rank * 10 + i};
        memset(&other[i], 0, sizeof(other[i]));
    }
    MPI_Sendrecv(mine, 3, one, (rank + 1) % size, 4, other, 3, one, before, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++) {
        expect(other[i].kind == (char)before && other[i].position[1] == i + 0.5 &&
                   other[i].id == before * 10 + i,
               "struct", i);
    }
    MPI_Type_create_subarray(3, sizes, part, starts, MPI_ORDER_C, MPI_INT, &cube);
    MPI_Type_commit(&cube);
    expect(to_next(out, cube, in, 24, MPI_INT) == 24, "subarray's count", 0);
    for (int i = 0; i < 24; i++) {
        int z = 1 + i / 12, y = 2 + i / 4 % 3, x = 3 + i % 4;

        expect(in[i] == value(before, (z * 6 + y) * 7 + x), "subarray", i);
    }
    MPI_Type_create_indexed_block(3, 2, indices, MPI_INT, &scattered);
    MPI_Type_commit(&scattered);
    MPI_Pack(out, 1, scattered, packed, sizeof(packed), &position, MPI_COMM_WORLD);
    expect(position == 24 && packed[0] == out[4] && packed[3] == out[1] &&
               packed[5] == out[10],
           "pack", position);
    position = 0;
    memset(in, 255, 64);
    MPI_Unpack(packed, sizeof(packed), &position, in, 1, scattered, MPI_COMM_WORLD);
    expect(in[4] == out[4] && in[1] == out[1] && in[10] == out[10] && in[2] == -1,
           "unpack", 0);
    memset(in, 255, 210 * sizeof(int));
    MPI_Bcast(rank == 0 ? out : in, 1, cube, 0, MPI_COMM_WORLD);
    expect(rank == 0 || (in[66] == value(0, 66) && in[65] == -1), "bcast of a subarray",
           0);
    MPI_Type_free(&column);
    MPI_Type_free(&one);
    MPI_Type_free(&cube);
    MPI_Type_free(&scattered);
}

/* Persistent calls, started again with other operands. */
static void
persistent(void)
{
    MPI_Request requests[3];
    int number = 0, sum = 0, root_number = 0;

    MPI_Allreduce_init(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(&root_number, 1, MPI_INT, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    MPI_Alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &requests[2]);
    for (int i = 0; i < 4; i++) {
        number = rank + i;
        root_number = rank == size - 1 ? 100 + i : -1;
        for (int r = 0; r < size; r++) {
            out[r] = value(rank, r) + i;
        }
        MPI_Startall(3, requests);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        expect(sum == size * (size - 1) / 2 + i * size, "MPI_Allreduce_init", i);
        expect(root_number == 100 + i, "MPI_Bcast_init", i);
        for (int r = 0; r < size; r++) {
            expect(in[r] == value(r, rank) + i, "MPI_Alltoall_init", r);
        }
    }
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&requests[i]);
    }
}

/* More at the same time than there are light threads; communicators must not be mixed up. */
static void
duplicates_at_once(void)
{
    enum { COUNT = 40 };
    MPI_Comm copies[COUNT];
    MPI_Request requests[2 * COUNT];
    int sums[COUNT];

    for (int i = 0; i < COUNT; i++) {
        MPI_Comm_idup(MPI_COMM_WORLD, &copies[i], &requests[2 * i]);
        MPI_Iallreduce(&rank, &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        int number = rank == 0 ? i : -1;

        expect(sums[i] == size * (size - 1) / 2, "sum beside MPI_Comm_idup", i);
        MPI_Bcast(&number, 1, MPI_INT, 0, copies[i]);
        expect(number == i, "MPI_Comm_idup", i);
        MPI_Comm_free(&copies[i]);
    }
}

/* Ranks that start duplications in different orders must not mix up their communicators. */
static void
duplicates_in_any_order(void)
{
    MPI_Comm parents[2], copies[2];
    MPI_Request requests[2];
    int values[2] = {100, 101}, got[2] = {-1, -1}, next = (rank + 1) % size;

    MPI_Comm_dup(MPI_COMM_WORLD, &parents[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &parents[1]);
    for (int i = 0; i < 2; i++) {
        int at = rank % 2 == 0 ? i : 1 - i;

        MPI_Comm_idup(parents[at], &copies[at], &requests[at]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        MPI_Isend(&values[i], 1, MPI_INT, next, 0, copies[i], &requests[i]);
    }
    for (int i = 1; i >= 0; i--) {
        MPI_Recv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, 0, copies[i], MPI_STATUS_IGNORE);
        expect(got[i] == values[i], "MPI_Comm_idup in another order", i);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_free(&copies[i]);
        MPI_Comm_free(&parents[i]);
    }
}

/* MPI wants one order in all ranks. Programs such as mpi4py's tests rely on MPIs that keep blocking
 * and non-blocking calls apart. */
static void
barrier_and_reduction(void)
{
    int one = 1, sum = 0;
    MPI_Request request;

    for (int first = 0; first < size; first++) {
        if (rank != first) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        if (rank == first) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(sum == size, "a reduction that begins before a barrier", first);
    }
}

/* A program may give back its arrays and types as soon as a non-blocking call returns. */
static void
arrays_given_back(void)
{
    int *counts = malloc((size_t)size * sizeof(int));
    MPI_Datatype *types = malloc((size_t)size * sizeof(MPI_Datatype));
    int *zeros = calloc((size_t)size, sizeof(int)), *displs = malloc((size_t)size * 4);
    MPI_Request requests[2];
    MPI_Datatype pair;
    int sum[3] = {-1, -1, -1};

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        displs[i] = 8 * i;
        types[i] = pair;
        out[i] = rank + i;
        out[size + 2 * i] = out[size + 2 * i + 1] = rank;
        in[2 * i] = in[2 * i + 1] = -1;
    }
    MPI_Ireduce_scatter(out, sum, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                        &requests[0]);
    MPI_Ialltoallw(out + size, counts, zeros, types, in, counts, displs, types,
                   MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&pair);
    memset(counts, 0x55, (size_t)size * sizeof(int));
    memset(displs, 0x55, (size_t)size * sizeof(int));
    memset(types, 0x55, (size_t)size * sizeof(MPI_Datatype));
    free(counts);
    free(displs);
    free(types);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    free(zeros);
    expect(sum[0] == size * (size - 1) / 2 + size * rank, "MPI_Ireduce_scatter", 0);
    for (int i = 0; i < 2 * size; i++) {
        expect(in[i] == i / 2, "MPI_Ialltoallw", i);
    }
}

/* The one of @p processes that owns an index, by MPI's definition. */
static int
owner(int index, int elements, int distribution, int argument, int processes)
{
    if (distribution == MPI_DISTRIBUTE_NONE) {
        return 0;
    }
    if (argument == MPI_DISTRIBUTE_DFLT_DARG) {
        argument = distribution == MPI_DISTRIBUTE_CYCLIC
                       ? 1
                       : (elements + processes - 1) / processes;
    }
    return index / argument % processes;
}

/* Each element of an array is in the part of its owner, in order, and in no other. */
static void
distributed(int order)
{
    enum { Z = 5, Y = 7, X = 11, ALL = Z * Y * X, DFLT = MPI_DISTRIBUTE_DFLT_DARG };
    int sizes[] = {Z, Y, X}, grid[] = {2, 3, 1}, cyclic[] = {DFLT, 2, DFLT},
        block[] = {4, DFLT, DFLT}, kinds[] = {0, 0, MPI_DISTRIBUTE_NONE};
    static int all[ALL], part[ALL];
    MPI_Datatype type;

    for (int i = 0; i < ALL; i++) {
        all[i] = i;
    }
    for (int k = 0; k < 12; k++) {
        int is_cyclic = k % 2, process = k / 2, position = 0, found = 0, bytes,
            *arguments = is_cyclic ? cyclic : block, integers, addresses, types, kind;
        MPI_Aint lb, extent;

        kinds[0] = kinds[1] = is_cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
        MPI_Type_create_darray(6, process, 3, sizes, kinds, arguments, grid, order,
                               MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Type_get_extent(type, &lb, &extent);
        MPI_Type_get_envelope(type, &integers, &addresses, &types, &kind);
        expect(lb == 0 && extent == (MPI_Aint)sizeof(all) && integers == 16 &&
                   kind == MPI_COMBINER_DARRAY,
               "darray's bounds and contents", k);
        MPI_Pack(all, 1, type, part, sizeof(part), &position, MPI_COMM_WORLD);
        for (int i = 0; i < ALL; i++) {
            int z = order == MPI_ORDER_C ? i / X / Y : i % Z,
                y = order == MPI_ORDER_C ? i / X % Y : i / Z % Y;

            if (owner(z, Z, kinds[0], arguments[0], 2) == process / 3 &&
                owner(y, Y, kinds[1], arguments[1], 3) == process % 3) {
                expect(part[found++] == i, "darray", i);
            }
        }
        MPI_Type_size(type, &bytes);
        expect(position == bytes && bytes == found * (int)sizeof(int), "darray's size",
               found);
        MPI_Type_free(&type);
    }
}

int
main(int argc, char **argv)
{
    MPI_Comm half;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = malloc((size_t)MAX * (size_t)size * sizeof(int));
    in = malloc((size_t)MAX * (size_t)size * sizeof(int));
    regular(1);
    regular(100);
    regular(1031);
    regular(MAX);
    irregular();
    ordered();
    own_operation(3);
    own_operation(1031);
    own_operation(20000);
    operations();
    at_once(10);
    at_once(20000);
    types();
    distributed(MPI_ORDER_C);
    distributed(MPI_ORDER_FORTRAN);
    persistent();
    duplicates_at_once();
    duplicates_in_any_order();
    barrier_and_reduction();
    arrays_given_back();
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Barrier(half);
    MPI_Comm_free(&half);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && failures == 0) {
        printf("collectives: good\n");
    }
    free(out);
    free(in);
    MPI_Finalize();
    return failures != 0;
}
