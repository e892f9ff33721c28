/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: losses WORKER WORKERS memory PLUGIN | meeting | queues | loss
 * A failure in one parent reaches all parents, and none waits forever. The library is linked
 * into this program, so that its allocations and messages can be made to fail.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"
#include "check.h"

enum { ROWS = 10, TAG_GO = 90, TAG_RUNS = 91, TAG_GROUPS = 16 };

static MPI_Comm comm, inter;
static int rank, parents, workers;
static telpher_array *array;
static const char *plugin;

static int refuse_launches;
static char launch_prefix = 0; /* of what is refused */

/* In front of the MPI's. */
int
PMPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag,
           MPI_Comm over, MPI_Request *request)
{
    static int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                       MPI_Request *);

    if (refuse_launches && tag >= TAG_GROUPS && count > 0) {
        launch_prefix = *(const char *)data;
        return MPI_ERR_OTHER;
    }
    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "PMPI_Isend");

        memcpy(&next, &found, sizeof(next));
    }
    return next(data, count, type, to, tag, over, request);
}

static MPI_Comm
start(int wanted)
{
    MPI_Comm made;

    MPI_Comm_spawn("worker", MPI_ARGV_NULL, wanted, MPI_INFO_NULL, 0, comm, &made,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

static telpher_status
launch(const char *name, int argcount, void *args[], int root, MPI_Comm to,
       MPIX_Kernel_request *request)
{
    const uint64_t sizes[] = {sizeof(int), sizeof(int)};
    telpher_launch one = {sizeof(one), (uint32_t)argcount, name, args, sizes, NULL};

    return telpher_offload_launch(1, &one, root, comm, to, request, NULL);
}

static telpher_status
wait_for(MPIX_Kernel_request *request)
{
    telpher_status status;

    do {
        status = telpher_offload_test(request, NULL);
    } while (status == TELPHER_IN_PROGRESS);
    return status;
}

/* Calls that all parents make: one's failure is that of all. */
static telpher_status
creates(telpher_error *err)
{
    telpher_array *made = NULL;
    telpher_status status =
        telpher_array_create(ROWS, sizeof(int), parents - 1, comm, inter, &made, err);

    check((status == TELPHER_OK) == (made != NULL));
    if (status == TELPHER_OK) {
        tp_alloc_fail_nth(0);
        check(telpher_array_free(&made, err) == TELPHER_OK);
    }
    return status;
}

static int block[ROWS];

static telpher_status
puts_rows(telpher_error *err)
{
    for (int i = 0; i < ROWS; i++) {
        block[i] = i + 1;
    }
    return telpher_array_put(array, block, err);
}

static telpher_status
gets_rows(telpher_error *err)
{
    telpher_status status;
    uint64_t mine = telpher_block_first(ROWS, parents, rank + 1) -
                    telpher_block_first(ROWS, parents, rank);

    memset(block, 0, sizeof(block));
    status = telpher_array_get(array, block, err);
    for (uint64_t i = 0; status == TELPHER_OK && i < mine; i++) {
        check(block[i] == (int)i + 1);
    }
    return status;
}

static telpher_status
frees(telpher_error *err)
{
    telpher_status status = telpher_array_free(&array, err);

    check((status == TELPHER_OK) == (array == NULL));
    if (status == TELPHER_OK) {
        tp_alloc_fail_nth(0);
        check(telpher_array_create(ROWS, sizeof(int), 0, comm, inter, &array, err) ==
                  TELPHER_OK &&
              puts_rows(err) == TELPHER_OK);
    }
    return status;
}

static telpher_status
loads(telpher_error *err)
{
    return telpher_offload_load(plugin, 0, comm, inter, err);
}

static telpher_status
asks(telpher_error *err)
{
    MPIX_Kernel_request request = MPIX_KERNEL_REQUEST_NULL;
    telpher_status status = launch("nothing", 0, NULL, 0, inter, &request);

    (void)err;
    return status == TELPHER_OK ? wait_for(&request) : status;
}

/* Whether all have seen the same. What was refused at the root is refused to the others. */
static int
is_alike(telpher_status status)
{
    int least, most;

    MPI_Allreduce(&status, &least, 1, MPI_INT, MPI_MIN, comm);
    MPI_Allreduce(&status, &most, 1, MPI_INT, MPI_MAX, comm);
    return least == most;
}

/* The nth allocation fails, in one parent, until there are no more. */
static void
without_memory(const char *what, telpher_status (*run)(telpher_error *), int who,
               int are_alike)
{
    int failed = 1;

    for (uint64_t nth = 1; failed; nth++) {
        telpher_error err = {0};
        telpher_status status;

        check(nth < 100);
        if (rank == who) {
            tp_alloc_fail_nth(nth);
        }
        status = run(&err);
        failed = tp_alloc_failed();
        tp_alloc_fail_nth(0);
        MPI_Bcast(&failed, 1, MPI_INT, who, comm);
        check(!are_alike || is_alike(status));
        check(failed || status == TELPHER_OK);
        check(status == TELPHER_OK || status == TELPHER_ERR_NO_MEMORY ||
              (!are_alike && status == TELPHER_ERR_REFUSED));
        check(status == TELPHER_OK || !are_alike || err.text[0] != '\0');
        check(puts_rows(&err) == TELPHER_OK && gets_rows(&err) == TELPHER_OK);
        if (!failed && rank == who) {
            printf("%s in parent %d: allocations %d\n", what, who, (int)nth - 1);
        }
    }
}

static void
memory(void)
{
    telpher_error err = {0};

    for (int i = 0; i < 600; i++) { /* buffers for messages are there */
        check(launch("nothing", 0, NULL, i % parents, inter, NULL) == TELPHER_OK);
        if (i % 50 == 0) {
            check(asks(&err) == TELPHER_OK);
        }
    }
    check(telpher_array_create(ROWS, sizeof(int), 0, comm, inter, &array, &err) ==
          TELPHER_OK);
    check(puts_rows(&err) == TELPHER_OK);
    for (int who = 0; who < parents; who++) {
        without_memory("put", puts_rows, who, 1);
        without_memory("get", gets_rows, who, 1);
        without_memory("create", creates, who, 1);
        without_memory("free", frees, who, 1);
        without_memory("kernel", asks, who, 0);
        without_memory("load", loads, who, 1);
    }
    check(telpher_array_free(&array, &err) == TELPHER_OK);
}

/* The nth allocation of a group's first call fails. Its workers end all the same, and serve the next. */
static int
meets(int who, uint64_t nth)
{
    MPI_Comm met = start(1);
    telpher_status status;
    int failed;

    if (rank == who) {
        tp_alloc_fail_nth(nth);
    }
    status = launch("nothing", 0, NULL, 0, met, NULL);
    failed = tp_alloc_failed();
    tp_alloc_fail_nth(0);
    MPI_Bcast(&failed, 1, MPI_INT, who, comm);
    check(status == TELPHER_OK || (failed && status == TELPHER_ERR_NO_MEMORY));
    check(failed || status == TELPHER_OK);
    MPI_Comm_disconnect(&met);
    check(met == MPI_COMM_NULL);
    return failed;
}

static void
meeting(void)
{
    for (int who = 0; who < parents; who++) {
        uint64_t nth =
            who == 0 ? 2 : 1; /* without the root's first the job ends, with words */

        while (meets(who, nth)) {
            nth++;
        }
        if (rank == who) {
            printf("first call in parent %d: allocations %d\n", who, (int)nth - 1);
        }
    }
}

/* Kernels of parent 0 that wait in its memory, and after them one that parent 1 waits for.
 * Nothing moves them but parent 0's next call, which waits for parent 1. */
static void
fill_queue(int tag)
{
    int go = TAG_GO, to = parents - 1;
    void *wait_args[] = {&go}, *tell_args[] = {&to, &tag};

    check(launch("waits_for", 1, wait_args, 0, inter, NULL) == TELPHER_OK);
    for (int i = 0; i < 1000; i++) {
        check(launch("nothing", 0, NULL, 0, inter, NULL) == TELPHER_OK);
    }
    check(launch("tells", 2, tell_args, 0, inter, NULL) == TELPHER_OK);
    for (int i = 0; rank == 0 && i < workers; i++) {
        MPI_Send(&tag, 1, MPI_INT, i, TAG_GO, inter);
    }
    for (int i = 0; rank == to && i < workers; i++) {
        MPI_Recv(&tag, 1, MPI_INT, i, tag, inter, MPI_STATUS_IGNORE);
    }
}

static void
queues(void)
{
    telpher_error err = {0};
    MPI_Comm other;

    check(parents > 1);
    fill_queue(TAG_RUNS);
    check(telpher_array_create(ROWS, sizeof(int), 0, comm, inter, &array, &err) ==
          TELPHER_OK);
    fill_queue(TAG_RUNS + 1);
    check(puts_rows(&err) == TELPHER_OK);
    fill_queue(TAG_RUNS + 2);
    other = start(1);
    check(launch("nothing", 0, NULL, 0, other, NULL) == TELPHER_OK);
    fill_queue(TAG_RUNS + 3);
    MPI_Comm_disconnect(&other);
    fill_queue(TAG_RUNS + 4);
    check(telpher_array_free(&array, &err) == TELPHER_OK);
    fill_queue(TAG_RUNS + 5);
    MPI_Comm_disconnect(&inter);
}

/* The message of a get cannot leave parent 0; a group waits for the one that is lost. */
static void
loss(void)
{
    MPIX_Kernel_request early, gated;
    telpher_error err = {0};
    MPI_Comm other = start(1);
    int go = TAG_GO;
    void *args[] = {&go};

    check(telpher_array_create(ROWS, sizeof(int), 0, comm, inter, &array, &err) ==
          TELPHER_OK);
    check(launch("waits_for", 1, args, 0, inter, &early) == TELPHER_OK);
    check(MPIX_Kernel_after(1, &early, comm, other) == MPI_SUCCESS);
    check(launch("nothing", 0, NULL, 0, other, &gated) == TELPHER_OK);
    refuse_launches = rank == 0;
    check(gets_rows(&err) == TELPHER_ERR_PEER_LOST && err.text[0] != '\0');
    check(rank != 0 || launch_prefix != 0);
    refuse_launches = 0;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    check(MPIX_Kernel_wait(&early, NULL) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    check(wait_for(&gated) == TELPHER_ERR_PEER_LOST);
    check(puts_rows(&err) == TELPHER_ERR_PEER_LOST);
    check(telpher_offload_load("nothing.so", 0, comm, inter, &err) ==
          TELPHER_ERR_PEER_LOST);
    check(launch("nothing", 0, NULL, 0, inter, NULL) == TELPHER_ERR_PEER_LOST);
    check(telpher_array_free(&array, &err) == TELPHER_ERR_PEER_LOST && array == NULL);
    MPI_Comm_disconnect(&inter);
    check(inter == MPI_COMM_NULL);
    /* MPI_Finalize() ends the job with words: the workers know nothing */
}

int
main(int argc, char **argv)
{
    const char *what;

    check(argc > 3);
    what = argv[3];
    if (strcmp(what, "loss") == 0) {
        setenv("TELPHER_OFFLOAD_SHARED", "no", 1); /* or there is nothing to refuse */
    }
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    plugin = argc > 4 ? argv[4] : NULL;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &parents);
    workers = atoi(argv[2]) - (strcmp(what, "memory") != 0);
    inter = start(workers);
    if (parents > 1) { /* not the parents' */
        telpher_launch one = {sizeof(one), 0, "nothing", NULL, NULL, NULL};

        check(telpher_offload_launch(1, &one, 0, MPI_COMM_SELF, inter, NULL, NULL) ==
              TELPHER_ERR_INVALID);
        check(telpher_offload_launch(1, &one, 0, inter, inter, NULL, NULL) ==
              TELPHER_ERR_INVALID);
        check(telpher_offload_launch(1, &one, 0, MPI_COMM_NULL, inter, NULL, NULL) ==
              TELPHER_ERR_INVALID);
    }
    if (strcmp(what, "memory") == 0) {
        memory();
    } else if (strcmp(what, "meeting") == 0) {
        meeting();
    } else if (strcmp(what, "queues") == 0) {
        queues();
    } else {
        loss();
    }
    if (rank == 0) {
        printf("losses, %s: good\n", what);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
