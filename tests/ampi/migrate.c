/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that move: a Jacobi iteration on a ring whose ranks go to random processes, with stack,
 * heap, globals, communicators, datatypes, persistent requests and messages on the way. The
 * result is that of one loop over the whole field, to the bit.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, me,            \
                    #condition);                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
        }                                                                              \
    } while (0)

enum { CELLS = 64, KEEP = 16 };

static int me, ranks; /* each rank has its own */
static double *field; /* CELLS, with one more at each end */
static int moves;
static char table[100000]; /* in .bss */
static const char *folder; /* of checkpoints, NULL: ranks move */

static void
fill(double *cells, int rank)
{
    for (int i = 0; i < CELLS; i++) {
        cells[i] = (rank * CELLS + i) * 37 % 101;
    }
}

/* The same sums in the same order as the ranks' */
static double
whole(int steps, int at)
{
    size_t count = (size_t)ranks * CELLS;
    double *now = malloc(count * sizeof(*now)), *next = malloc(count * sizeof(*next));
    double result;

    for (int r = 0; r < ranks; r++) {
        fill(now + r * CELLS, r);
    }
    for (int s = 0; s < steps; s++) {
        double *old = now;

        for (size_t i = 0; i < count; i++) {
            next[i] =
                (now[(i + count - 1) % count] + now[i] + now[(i + 1) % count]) / 3;
        }
        now = next;
        next = old;
    }
    result = now[at];
    free(now);
    free(next);
    return result;
}

static void
step(MPI_Comm ring, MPI_Datatype cell, double *next)
{
    int left = (me + ranks - 1) % ranks, right = (me + 1) % ranks;

    MPI_Sendrecv(field + 1, 1, cell, left, 1, field + CELLS + 1, 1, cell, right, 1,
                 ring, MPI_STATUS_IGNORE);
    MPI_Sendrecv(field + CELLS, 1, cell, right, 2, field, 1, cell, left, 2, ring,
                 MPI_STATUS_IGNORE);
    for (int i = 1; i <= CELLS; i++) {
        next[i] = (field[i - 1] + field[i] + field[i + 1]) / 3;
    }
    memcpy(field + 1, next + 1, CELLS * sizeof(double));
}

static unsigned
next_random(unsigned *state)
{
    return *state = *state * 1103515245u + 12345u, *state >> 16;
}

/* Blocks of all sizes come and go, and keep their content. */
static void
stir(unsigned char *blocks[KEEP], size_t sizes[KEEP], unsigned *state)
{
    unsigned i = next_random(state) % KEEP;

    for (size_t k = 0; blocks[i] != NULL && k < sizes[i]; k += 61) {
        EXPECT(blocks[i][k] == (unsigned char)(i + k));
    }
    free(blocks[i]);
    sizes[i] = 1 + next_random(state) % (i == 0 ? 300000 : 1000);
    blocks[i] = malloc(sizes[i]);
    for (size_t k = 0; k < sizes[i]; k++) {
        blocks[i][k] = (unsigned char)(i + k);
    }
}

/* A message that is sent before ranks move and received afterwards. */
static void
move_with_message(MPI_Comm ring, int processes, unsigned *state)
{
    int sent[100], got[100], pid = (int)getpid();
    MPI_Request request;

    for (int i = 0; i < 100; i++) {
        sent[i] = me * 1000 + i;
    }
    MPI_Irecv(got, 50, MPI_INT, (me + ranks - 1) % ranks, 4, ring, &request);
    MPI_Send(sent, 50, MPI_INT, (me + 1) % ranks, 3, ring);
    EXPECT(AMPI_Migrate_to_pe((int)(next_random(state) % (unsigned)processes)) ==
           MPI_SUCCESS);
    moves += pid != (int)getpid();
    MPI_Send(sent, 50, MPI_INT, (me + 1) % ranks, 4, ring);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT(got[49] == (me + ranks - 1) % ranks * 1000 + 49);
    MPI_Recv(got, 100, MPI_INT, MPI_ANY_SOURCE, 3, ring, MPI_STATUS_IGNORE);
    EXPECT(got[49] == (me + ranks - 1) % ranks * 1000 + 49);
}

/* Counts the processes of the job, and this one's number, by their ids. */
static int
count_processes(void)
{
    int mine = (int)getpid(), *all = malloc((size_t)ranks * sizeof(*all)), count = 0;

    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        int seen = 0;

        for (int k = 0; k < i; k++) {
            seen |= all[k] == all[i];
        }
        count += !seen;
    }
    free(all);
    return count;
}

/* Leaves a test time to lose a host. */
static void
pause_for_test(void)
{
    const char *pause_ms = getenv("MIGRATE_PAUSE_MS");

    if (pause_ms != NULL) {
        usleep((unsigned)atoi(pause_ms) * 1000);
    }
}

static void
save(int number)
{
    char value[200];
    MPI_Info info;
    int pid = (int)getpid();

    snprintf(value, sizeof(value), "%s%s",
             strcmp(folder, "in_memory") != 0 ? "to_file=" : "", folder);
    MPI_Info_create(&info);
    MPI_Info_set(info, "ampi_checkpoint", value);
    EXPECT(AMPI_Migrate(info) == MPI_SUCCESS);
    moves += pid != (int)getpid(); /* restarted */
    pause_for_test();
    MPI_Info_free(&info);
    if (me == 0 && number == 3 && getenv("MIGRATE_KILL") != NULL &&
        access(getenv("MIGRATE_KILL"), F_OK) != 0) {
        fclose(fopen(getenv("MIGRATE_KILL"), "w"));
        raise(9);
    }
}

static void
run(int steps, int processes)
{
    double *next = malloc((CELLS + 2) * sizeof(*next)), sum = 0, expected = 0;
    unsigned char *blocks[KEEP] = {NULL};
    size_t sizes[KEEP] = {0};
    unsigned state = (unsigned)me + 7;
    MPI_Comm ring;
    MPI_Datatype cell;
    MPI_Request token[2];
    int out = 0, in = -1;

    MPI_Comm_split(MPI_COMM_WORLD, 0, me, &ring);
    MPI_Type_contiguous(1, MPI_DOUBLE, &cell);
    MPI_Type_commit(&cell);
    MPI_Send_init(&out, 1, MPI_INT, (me + 1) % ranks, 5, ring, &token[0]);
    MPI_Recv_init(&in, 1, MPI_INT, (me + ranks - 1) % ranks, 5, ring, &token[1]);
    for (int s = 0; s < steps; s++) {
        step(ring, cell, next);
        stir(blocks, sizes, &state);
        memset(table + s % 90000, s, 10);
        if (folder == NULL) {
            move_with_message(ring, processes, &state);
        } else if (s % 5 == 2) {
            save(s / 5);
        }
        EXPECT(table[s % 90000] == (char)s);
        out = s * ranks + me;
        MPI_Startall(2, token);
        MPI_Waitall(2, token, MPI_STATUSES_IGNORE);
        EXPECT(in == s * ranks + (me + ranks - 1) % ranks);
    }
    for (int i = 0; i < CELLS; i += 21) {
        EXPECT(field[i + 1] == whole(steps, me * CELLS + i));
        sum += field[i + 1];
    }
    MPI_Allreduce(&sum, &expected, 1, MPI_DOUBLE, MPI_SUM, ring);
    MPI_Request_free(&token[0]);
    MPI_Request_free(&token[1]);
    MPI_Type_free(&cell);
    MPI_Comm_free(&ring);
    free(next);
}

int
main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60, processes, all = 0;

    folder = argc > 2 ? argv[2] : NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    processes = count_processes();
    field = calloc(CELLS + 2, sizeof(*field));
    fill(field + 1, me);
    run(steps, processes);
    MPI_Reduce(&moves, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0) {
        EXPECT(folder != NULL || processes == 1 || all > steps / 4);
        printf("%d ranks, %d processes, %d steps, %d moves: exact\n", ranks, processes,
               steps, all);
    }
    MPI_Finalize();
    return 0;
}
