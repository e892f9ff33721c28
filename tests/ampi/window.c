/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided access against results that each rank computes itself. Any MPI runs it.
 * usage: telpher launch -n N -- ampi_window [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 80000, ROUNDS = 20 };

static int rank, size, before, after, failures;

static void
expect(int ok, const char *what, int at)
{
    if (!ok && failures++ < 10) {
        fprintf(stderr, "rank %d of %d: %s, %d: FAILED\n", rank, size, what, at);
    }
}

static int
value(int r, int i)
{
    return (r + 1) * 1000003 + i * 7;
}

static void
expect_values(const int *at, int count, int r, const char *what)
{
    for (int i = 0; i < count; i++) {
        if (at[i] != value(r, i)) {
            expect(0, what, i);
            return;
        }
    }
}

/* Puts and gets of @p count integers to the next rank and from it. */
static void
test_fence(int count)
{
    int *part = calloc((size_t)count, sizeof(int));
    int *out = malloc(sizeof(int) * (size_t)count);
    int *in = calloc((size_t)count, sizeof(int));
    MPI_Win win;

    for (int i = 0; i < count; i++) {
        out[i] = value(rank, i);
    }
    MPI_Win_create(part, (MPI_Aint)sizeof(int) * count, sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, count / 2, MPI_INT, after, 0, count / 2, MPI_INT, win);
    MPI_Put(out + count / 2, count - count / 2, MPI_INT, after, count / 2,
            count - count / 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    expect_values(part, count, before, "put");
    MPI_Get(in, count, MPI_INT, after, 0, count, MPI_INT, win);
    MPI_Win_fence(0, win);
    expect_values(in, count, rank, "get of what was put");
    MPI_Win_free(&win);
    expect(win == MPI_WIN_NULL, "freed window", 0);
    free(part);
    free(out);
    free(in);
}

/* Every second integer of the target, from every third of the origin. */
static void
test_types(int count)
{
    int *part = calloc(2 * (size_t)count, sizeof(int));
    int *out = calloc(3 * (size_t)count, sizeof(int));
    int *in = calloc((size_t)count, sizeof(int));
    int ok = 1;
    MPI_Datatype second, third;
    MPI_Win win;

    MPI_Type_vector(count, 1, 2, MPI_INT, &second);
    MPI_Type_vector(count, 1, 3, MPI_INT, &third);
    MPI_Type_commit(&second);
    MPI_Type_commit(&third);
    for (int i = 0; i < count; i++) {
        out[3 * i] = value(rank, i);
        part[2 * i + 1] = -7;
    }
    MPI_Win_create(part, 2 * (MPI_Aint)sizeof(int) * count, 1, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, 1, third, after, 0, 1, second, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < count; i++) {
        ok = ok && part[2 * i] == value(before, i) && part[2 * i + 1] == -7;
    }
    expect(ok, "put with gaps", count);
    memset(out, 0, sizeof(int) * 3 * (size_t)count);
    MPI_Get(in, count, MPI_INT, after, 0, 1, second, win);
    MPI_Get(out, 1, third, after, 0, 1, second, win);
    MPI_Win_fence(0, win);
    expect_values(in, count, rank, "get of every second");
    for (int i = 0; i < count; i++) {
        ok = ok && out[3 * i] == value(rank, i) && out[3 * i + 1] == 0;
    }
    expect(ok, "get with gaps", count);
    MPI_Accumulate(in, count, MPI_INT, after, 0, 1, second, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < count; i++) {
        ok = ok && part[2 * i] == 2 * value(before, i) && part[2 * i + 1] == -7;
    }
    expect(ok, "accumulate with gaps", count);
    MPI_Win_free(&win);
    MPI_Type_free(&second);
    MPI_Type_free(&third);
    free(part);
    free(out);
    free(in);
}

struct place {
    double value;
    int rank;
};

/* All ranks operate on the memory of rank 0. */
static void
test_accumulate(int count)
{
    double *part, *out = malloc(sizeof(double) * (size_t)count);
    struct place mine = {(double)((rank * 7) % size), rank}, *places;
    int wrong = 0;
    MPI_Win win, place_win;

    MPI_Win_allocate((MPI_Aint)sizeof(double) * count, sizeof(double), MPI_INFO_NULL,
                     MPI_COMM_WORLD, &part, &win);
    MPI_Win_allocate(sizeof(*places), sizeof(*places), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &places, &place_win);
    for (int i = 0; i < count; i++) {
        out[i] = (double)(i % 100 + rank);
        part[i] = 0;
    }
    *places = (struct place){-1, -1};
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, place_win);
    MPI_Accumulate(out, count, MPI_DOUBLE, 0, 0, count, MPI_DOUBLE, MPI_SUM, win);
    MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, 0, 1, MPI_DOUBLE_INT, MPI_MAXLOC,
                   place_win);
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, place_win);
    for (int i = 0; rank == 0 && i < count; i++) {
        double want = (double)(i % 100) * size + (double)size * (size - 1) / 2;

        wrong += part[i] != want;
    }
    expect(wrong == 0, "accumulate", wrong);
    if (rank == 0) {
        int best = 0;

        for (int r = 0; r < size; r++) {
            best = (r * 7) % size > (best * 7) % size ? r : best;
        }
        expect(places->rank == best, "maximum and its place", places->rank);
    }
    MPI_Win_free(&win);
    MPI_Win_free(&place_win);
    free(out);
}

/* Tickets are given once each; a counter under an exclusive lock loses nothing. */
/* Pairs that have a gap, in a type that has more: every second of six. */
static void
test_pairs(MPI_Datatype pair, size_t step, size_t index_at)
{
    char *part = calloc(6, step), *out = calloc(6, step), *old = calloc(6, step);
    int one = 1, low = 7;
    MPI_Datatype second, none;
    MPI_Win win;

    MPI_Type_contiguous(0, pair, &none);
    MPI_Type_commit(&none);
    MPI_Type_vector(3, 1, 2, pair, &second);
    MPI_Type_commit(&second);
    for (size_t i = 0; i < 6; i++) {
        memcpy(out + i * step + index_at, &one, sizeof(one)); /* values are 0 */
        memcpy(part + i * step + index_at, &low, sizeof(low));
    }
    MPI_Win_create(part, (MPI_Aint)(6 * step), (int)step, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Get_accumulate(out, 1, second, old, 1, second, after, 0, 1, second,
                           MPI_MINLOC, win);
    }
    MPI_Accumulate(out, 2, none, after, 0, 1, none, MPI_MINLOC, win);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < 6; i++) {
        int changed = before == 0 && i % 2 == 0;

        memcpy(&one, part + i * step + index_at, sizeof(one));
        memcpy(&low, old + i * step + index_at, sizeof(low));
        expect(one == (changed ? 1 : 7), "accumulate of pairs with gaps", (int)i);
        expect(low == (rank == 0 && i % 2 == 0 ? 7 : 0), "pairs before", (int)i);
    }
    MPI_Win_free(&win);
    MPI_Type_free(&second);
    MPI_Type_free(&none);
    free(old);
    free(out);
    free(part);
}

static void
test_locks(void)
{
    long *part, one = 1, ticket, last = -1, read, expected;
    long *seen = calloc((size_t)size * ROUNDS, sizeof(long));
    MPI_Win win;

    MPI_Win_allocate(3 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &part, &win);
    part[0] = part[1] = part[2] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        expect(ticket > last && ticket < (long)size * ROUNDS, "ticket", (int)ticket);
        last = ticket;
        seen[ticket] = 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        ticket = 0;
        do { /* an increment by comparing and swapping */
            expected = ticket;
            read = expected + 1;
            MPI_Compare_and_swap(&read, &expected, &ticket, MPI_LONG, size - 1, 1, win);
            MPI_Win_flush(size - 1, win);
        } while (ticket != expected);
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(MPI_IN_PLACE, seen, size * ROUNDS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < size * ROUNDS; i++) {
        expect(seen[i] == 1, "tickets given", i);
    }
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&read, 1, MPI_LONG, 0, 2, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        read++;
        MPI_Put(&read, 1, MPI_LONG, 0, 2, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&read, 1, MPI_LONG, 0, 2, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    expect(read == (long)size * ROUNDS, "counter under a lock", (int)read);
    MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, win);
    MPI_Get(&read, 1, MPI_LONG, size - 1, 1, 1, MPI_LONG, win);
    MPI_Win_unlock(size - 1, win);
    expect(read == (long)size * ROUNDS, "counter of swaps", (int)read);
    MPI_Win_free(&win);
    free(seen);
}

/* Each rank puts to the next, and is put to by the one before. */
static void
test_groups(void)
{
    int *part = calloc(LONG, sizeof(int)), *out = malloc(sizeof(int) * LONG), flag = 0;
    MPI_Group world, to, from;
    MPI_Win win;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &after, &to);
    MPI_Group_incl(world, 1, &before, &from);
    MPI_Win_create(part, sizeof(int) * LONG, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < LONG; i++) {
            out[i] = value(rank + round, i);
        }
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(out, LONG, MPI_INT, after, 0, LONG, MPI_INT, win);
        MPI_Win_complete(win);
        flag = 0;
        while (round % 2 != 0 && !flag) {
            MPI_Win_test(win, &flag);
        }
        if (round % 2 == 0) {
            MPI_Win_wait(win);
        }
        expect_values(part, LONG, before + round, "put in a group");
    }
    MPI_Win_free(&win);
    MPI_Group_free(&world);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    free(part);
    free(out);
}

static void
test_requests(void)
{
    int *part, *out = malloc(sizeof(int) * LONG), *in = calloc(LONG, sizeof(int));
    int one = 5, old = -1;
    MPI_Request requests[2];
    MPI_Win win;

    MPI_Win_allocate(sizeof(int) * LONG, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &part, &win);
    for (int i = 0; i < LONG; i++) {
        out[i] = value(rank, i);
    }
    MPI_Win_lock_all(0, win);
    MPI_Rput(out, LONG, MPI_INT, after, 0, LONG, MPI_INT, win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_flush(after, win);
    MPI_Rget(in, LONG, MPI_INT, after, 0, LONG, MPI_INT, win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    expect_values(in, LONG, rank, "get with a request");
    MPI_Raccumulate(&one, 1, MPI_INT, after, 0, 1, MPI_INT, MPI_SUM, win, &requests[0]);
    MPI_Rget_accumulate(&one, 1, MPI_INT, &old, 1, MPI_INT, after, 0, 1, MPI_INT,
                        MPI_REPLACE, win, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(old == value(rank, 0) + 5, "replaced", old);
    MPI_Get_accumulate(NULL, 0, MPI_INT, &old, 1, MPI_INT, after, 0, 1, MPI_INT,
                       MPI_NO_OP, win);
    MPI_Win_flush_all(win);
    expect(old == 5, "read by no operation", old);
    MPI_Put(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(out);
    free(in);
}

static void
test_dynamic(void)
{
    int part[4] = {rank, 0, 0, 0}, got = -1;
    MPI_Aint own, *all = malloc(sizeof(MPI_Aint) * (size_t)size);
    MPI_Win win;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, part, sizeof(part));
    MPI_Get_address(part, &own);
    MPI_Allgather(&own, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    MPI_Get(&got, 1, MPI_INT, after, all[after], 1, MPI_INT, win);
    MPI_Put(&rank, 1, MPI_INT, after, all[after] + 2 * (MPI_Aint)sizeof(int), 1,
            MPI_INT, win);
    MPI_Win_fence(0, win);
    expect(got == after && part[2] == before && part[1] == 0, "attached", got);
    MPI_Win_detach(win, part);
    MPI_Win_free(&win);
    free(all);
}

/* Ranks of one machine: stores into the memory of others. */
static void
test_shared(void)
{
    int *part, *next, unit, local_rank, local_size, to;
    MPI_Aint bytes;
    MPI_Comm machine;
    MPI_Win win;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &machine);
    MPI_Comm_rank(machine, &local_rank);
    MPI_Comm_size(machine, &local_size);
    MPI_Win_allocate_shared((MPI_Aint)sizeof(int) * (local_rank + 1), sizeof(int),
                            MPI_INFO_NULL, machine, &part, &win);
    to = (local_rank + 1) % local_size;
    MPI_Win_shared_query(win, to, &bytes, &unit, &next);
    expect(bytes == (MPI_Aint)sizeof(int) * (to + 1) && unit == sizeof(int),
           "shared query", (int)bytes);
    MPI_Win_fence(0, win);
    next[to] = value(local_rank, 1);
    MPI_Win_fence(0, win);
    expect(part[local_rank] == value((local_rank + local_size - 1) % local_size, 1),
           "stored by another rank", part[local_rank]);
    MPI_Win_free(&win);
    MPI_Comm_free(&machine);
}

/* A rank may access others as soon as it has the window. */
static void
test_begin(void)
{
    int part = rank, got;
    MPI_Win win;

    for (int i = 0; i < ROUNDS; i++) {
        got = -1;
        MPI_Win_create(&part, sizeof(part), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        MPI_Get(&got, 1, MPI_INT, after, 0, 1, MPI_INT, win);
        MPI_Win_unlock_all(win);
        expect(got == after, "got at once", got);
        MPI_Win_free(&win);
    }
}

static void
test_attributes(void)
{
    int part[2], *flavor, *unit, flag = 0, length, key, stored = 3;
    void *got;
    MPI_Aint *bytes;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Win win;

    MPI_Win_create(part, sizeof(part), 2, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_get_attr(win, MPI_WIN_BASE, &got, &flag);
    expect(flag && got == part, "base", flag);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag);
    expect(flag && *bytes == sizeof(part), "size", flag);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
    expect(flag && *unit == 2, "unit", flag);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    expect(flag && *flavor == MPI_WIN_FLAVOR_CREATE, "flavor", flag);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
    MPI_Win_set_attr(win, key, &stored);
    MPI_Win_get_attr(win, key, &got, &flag);
    expect(flag && got == &stored, "attribute", flag);
    MPI_Win_free_keyval(&key);
    MPI_Win_set_name(win, "a part");
    MPI_Win_get_name(win, name, &length);
    expect(length == 6 && strcmp(name, "a part") == 0, "name", length);
#ifdef TELPHER_AMPI /* others need not check */
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    expect(MPI_Put(part, 1, MPI_INT, 0, 3, 1, MPI_INT, win) != MPI_SUCCESS,
           "put outside the window", 0);
    MPI_Win_fence(0, win);
#endif
    MPI_Win_free(&win);
}

int
main(int argc, char **argv)
{
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;
    test_fence(2);
    test_fence(3000);
    test_fence(LONG);
    test_types(5);
    test_types(7001);
    test_accumulate(1);
    test_accumulate(9001);
    test_pairs(MPI_DOUBLE_INT, 16, 8);
    test_pairs(MPI_SHORT_INT, 8, 4);
    test_pairs(MPI_LONG_DOUBLE_INT, 32, 16);
    test_locks();
    test_groups();
    test_requests();
    test_dynamic();
    test_shared();
    test_begin();
    test_attributes();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d failures\n", all);
    }
    MPI_Finalize();
    return all != 0;
}
