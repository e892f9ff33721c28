/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_THREAD_MULTIPLE: threads of one rank exchange messages; a thread that waits lets others
 * have the processor. usage: telpher launch -n 2 -- ampi_threads */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 200 };

static int rank, size, failures;

static void *
exchange(void *arg)
{
    int tag = *(int *)arg, got, next = (rank + 1) % size;

    for (int i = 0; i < ROUNDS; i++) {
        int sent = tag * ROUNDS + i;

        MPI_Sendrecv(&sent, 1, MPI_INT, next, tag, &got, 1, MPI_INT, MPI_ANY_SOURCE,
                     tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != sent) {
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static double
cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* The others wait for rank 0 for two seconds, which may cost them a fourth of that. */
static void
wait_idle(void)
{
    double before = cpu_seconds();
    int word = 0;

    if (rank == 0) {
        sleep(2);
        for (int i = 1; i < size; i++) {
            MPI_Send(&word, 1, MPI_INT, i, THREADS, MPI_COMM_WORLD);
        }
        return;
    }
    MPI_Recv(&word, 1, MPI_INT, 0, THREADS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (cpu_seconds() - before > 0.5) {
        fprintf(stderr, "rank %d used %.2f s while it waited\n", rank,
                cpu_seconds() - before);
        failures++;
    }
}

struct spawn {
    char *program;
    MPI_Comm children;
};

static void *
spawn(void *arg)
{
    struct spawn *s = arg;

    MPI_Comm_spawn(s->program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                   &s->children, MPI_ERRCODES_IGNORE);
    return NULL;
}

/* A job that a thread has started goes on after the thread's end. */
static void
test_spawn(char *program)
{
    struct spawn s = {program, MPI_COMM_NULL};
    int answer = 0;
    pthread_t thread;

    pthread_create(&thread, NULL, spawn, &s);
    pthread_join(thread, NULL);
    (void)usleep(100000); /* the launcher would end the job meanwhile */
    MPI_Send(&rank, 1, MPI_INT, 0, 0, s.children);
    MPI_Recv(&answer, 1, MPI_INT, 0, 0, s.children, MPI_STATUS_IGNORE);
    failures += answer != rank + 1;
    MPI_Comm_disconnect(&s.children);
}

static int
answer_parent(MPI_Comm parent)
{
    int value = 0;

    MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    value++;
    MPI_Send(&value, 1, MPI_INT, 0, 0, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int
main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int tags[THREADS], level, all = 0;
    MPI_Comm parent;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    failures += level != MPI_THREAD_MULTIPLE;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return answer_parent(parent);
    }
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        pthread_create(&threads[i], NULL, exchange, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    wait_idle();
    test_spawn(argv[0]);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}
