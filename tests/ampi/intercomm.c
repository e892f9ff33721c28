/* SPDX-License-Identifier: Apache-2.0 */
/* Intercommunicators against results that each rank computes itself. Any MPI runs it.
 * usage: telpher launch -n N -- ampi_intercomm [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 64 };

static int world, world_size, failures;
static int is_low, rank, size, other_size; /* of the own group, and the other */
static MPI_Comm group, inter;

static void
expect(int ok, const char *what, int at)
{
    if (!ok && failures++ < 10) {
        fprintf(stderr, "rank %d of %d: %s, %d: FAILED\n", world, world_size, what, at);
    }
}

/* Even ranks of the world are the low group. */
static int
world_of(int low, int r)
{
    return 2 * r + !low;
}

static void
make(void)
{
    int flag, n;

    is_low = world % 2 == 0;
    MPI_Comm_split(MPI_COMM_WORLD, is_low, world, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_low, 12, &inter);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &other_size);
    MPI_Comm_test_inter(inter, &flag);
    expect(flag, "inter", flag);
    MPI_Comm_test_inter(group, &flag);
    expect(!flag, "intra", flag);
    expect(size + other_size == world_size && world_of(is_low, rank) == world, "sizes",
           size);
    MPI_Group remote;
    MPI_Comm_remote_group(inter, &remote);
    MPI_Group_size(remote, &n);
    expect(n == other_size, "remote group", n);
    MPI_Group_free(&remote);
}

/* Each rank of the low group sends to the one of the high group with its number. */
static void
test_messages(MPI_Comm comm)
{
    int got = -1;
    MPI_Status status;

    if (rank < other_size) {
        MPI_Sendrecv(&world, 1, MPI_INT, rank, 3, &got, 1, MPI_INT, MPI_ANY_SOURCE, 3,
                     comm, &status);
        expect(got == world_of(!is_low, rank) && status.MPI_SOURCE == rank, "messages",
               got);
    }
}

/* The root is the last rank of the low group. */
static void
test_rooted(MPI_Comm comm)
{
    int last = is_low ? size - 1 : other_size - 1, got[MAX], sum = 0;
    int root = !is_low ? last : rank == last ? MPI_ROOT : MPI_PROC_NULL;
    int value = is_low ? 1000 + rank : -1;

    MPI_Bcast(&value, 1, MPI_INT, root, comm);
    expect(is_low || value == 1000 + last, "bcast", value);
    MPI_Gather(&world, 1, MPI_INT, got, 1, MPI_INT, root, comm);
    for (int i = 0; root == MPI_ROOT && i < other_size; i++) {
        expect(got[i] == world_of(0, i), "gather", i);
        got[i] = i * 3;
    }
    value = -1;
    MPI_Scatter(got, 1, MPI_INT, &value, 1, MPI_INT, root, comm);
    expect(is_low || value == rank * 3, "scatter", value);
    MPI_Reduce(&world, &sum, 1, MPI_INT, MPI_SUM, root, comm);
    for (int i = 0; i < other_size; i++) {
        sum -= world_of(0, i);
    }
    expect(root != MPI_ROOT || sum == 0, "reduce", sum);
}

static void
test_all(MPI_Comm comm)
{
    int out[MAX], in[MAX], counts[MAX], sum = -1, want = 0;
    MPI_Request request;

    MPI_Barrier(comm);
    MPI_Allgather(&world, 1, MPI_INT, in, 1, MPI_INT, comm);
    for (int i = 0; i < other_size; i++) {
        expect(in[i] == world_of(!is_low, i), "allgather", i);
        out[i] = world * 100 + i;
        want += world_of(!is_low, i);
    }
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
    for (int i = 0; i < other_size; i++) {
        expect(in[i] == world_of(!is_low, i) * 100 + rank, "alltoall", i);
    }
    MPI_Iallreduce(&world, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum == want, "allreduce", sum);
    for (int i = 0; i < size * other_size; i++) { /* as many in both groups */
        out[i % MAX] = world;
    }
    for (int i = 0; i < size; i++) {
        counts[i] = other_size;
    }
    if (size * other_size <= MAX) {
        MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < other_size; i++) {
            expect(in[i] == want, "reduce_scatter", i);
        }
    }
}

static void
test_derived(void)
{
    MPI_Comm copy, merged, part;
    int result, n, r;

    MPI_Comm_dup(inter, &copy);
    MPI_Comm_compare(inter, copy, &result);
    expect(result == MPI_CONGRUENT, "compare", result);
    test_messages(copy);
    test_all(copy);
    MPI_Intercomm_merge(copy, !is_low, &merged);
    MPI_Comm_size(merged, &n);
    MPI_Comm_rank(merged, &r);
    expect(n == world_size && r == (is_low ? rank : other_size + rank), "merge", r);
    MPI_Barrier(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&copy);
    MPI_Comm_split(inter, rank == 0 ? 7 : MPI_UNDEFINED, 0, &part);
    expect((part != MPI_COMM_NULL) == (rank == 0), "split", rank);
    if (part != MPI_COMM_NULL) {
        MPI_Comm_remote_size(part, &n);
        expect(n == 1, "part of the other group", n);
        MPI_Barrier(part);
        MPI_Comm_free(&part);
    }
}

int
main(int argc, char **argv)
{
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    make();
    test_messages(inter);
    test_rooted(inter);
    test_all(inter);
    test_derived();
    MPI_Comm_free(&inter);
    MPI_Comm_free(&group);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world == 0) {
        printf("%d failures\n", all);
    }
    MPI_Finalize();
    return all != 0;
}
