/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n PROCESSES -- cuda_processes WHAT RANKS [LANES]
 *
 * Kernels on GPUs whose ranks lie in several processes: good (those of the tests, with
 * poisoned memory), few (some of them), bad (what fails, and who is told), litmus (whether
 * data is there when its notification is, and for a few ranks steps by chance), latency (beside a flag's way to the host and back),
 * dies (the last process is killed while the others wait: add -k to the launch), strays (its
 * kernel writes where nothing is, which ends its GPU's work: on GPUs only).
 * Compiled with -DWITH_MPI it is started by mpirun and has MPI's own messages.
 * scripts/gpu/rma.sh runs it on GPUs, the tests on processors that play GPUs.
 */
#ifdef WITH_MPI
#include <telpher/interop/mpi.h>
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/host.h>
#include <time.h>
#include <unistd.h>

#include "join.h"
#include "processes.h"
#include "rma/gpu/test/cuda_chance.h"
#include "rma/gpu/test/cuda_litmus.h"
#include "rma/test/test_kernels.h"

enum { WORLD = TELPHER_RMA_WORLD };

/* ---- kernels ---- */

/* A word between the first rank and the last, there and back, in three ways. */
TELPHER_RMA_KERNEL(kernel_ping)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), last = telpher_rma_size(rma, WORLD) - 1;
    const uint32_t to = me == 0 ? last : 0;
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->own[me % RANKS], sizeof(d->own[0]), &win);
    for (uint32_t way = 0; way < 4; way++) {
        uint64_t begin = telpher_rma_now(rma);

        telpher_rma_barrier(rma, WORLD);
        for (uint32_t i = 0; (me == 0 || me == last) && i < d->n + 10; i++) {
            if (i == 10) {
                begin = telpher_rma_now(rma);
            }
            for (uint32_t turn = 0; turn < 2; turn++) {
                if ((turn == 0) != (me == 0)) {
                    telpher_rma_wait(rma, way, 1);
                } else if (way == 0) {
                    telpher_rma_notify(rma, WORLD, to, way);
                } else if (way == 1) {
                    telpher_rma_put_notify(rma, win, to, 0, d->cells, 4, way);
                } else if (way == 2) {
                    telpher_rma_put_value_notify(rma, win, to, 0, i, way);
                } else {
                    telpher_rma_put_notify(rma, win, to, 0, d->cells, 512, way);
                }
            }
        }
        if (me == 0 && telpher_rma_lane(rma) == 0) {
            d->reals[way] = (double)(telpher_rma_now(rma) - begin) / 2.0 / d->n;
        }
    }
    telpher_rma_win_free(rma, win);
}

/* Windows of different sizes, also none; more of them than there is room for at once; of a
 * device's ranks alone, too. */
TELPHER_RMA_KERNEL(kernel_sizes)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint64_t *own = d->own[me % RANKS];
    telpher_rma_win win, near;
    telpher_status status = TELPHER_OK;

    for (uint32_t n = 0; n < 300 && status == TELPHER_OK; n++) {
        uint32_t to = (me + n) % size, from = (me + size - n % size) % size;

        status = telpher_rma_win_create(rma, WORLD, me != 0 ? own : NULL,
                                        (uint64_t)me % 16 * 8, &win);
        telpher_rma_win_create(rma, TELPHER_RMA_DEVICE, own, 8, &near);
        if (telpher_rma_win_size(rma, win, to) != (uint64_t)to % 16 * 8 ||
            telpher_rma_win_size(rma, win, size) != 0 ||
            telpher_rma_win_size(rma, near, rma->device_size - 1) != 8) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
        }
        if (to % 16 != 0) {
            telpher_rma_put_value_notify(rma, win, to, (uint64_t)(to % 16 - 1) * 8, n,
                                         1);
        }
        if (me % 16 != 0) {
            telpher_rma_wait_from(rma, WORLD, from, 1, 1);
            if (own[me % 16 - 1] != n) {
                telpher_rma_fail(rma, TELPHER_ERR_PROTO);
            }
        }
        telpher_rma_win_free(rma, near);
        telpher_rma_win_free(rma, win);
    }
}

/* Ways to wait for a process that is killed. */
TELPHER_RMA_FN static telpher_status
wait_for_the_dead(telpher_rma *rma, uint32_t how, telpher_rma_win win, uint32_t last)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    telpher_status status;

    if (how == 1) {
        return telpher_rma_barrier(rma, WORLD);
    }
    if (how == 2) { /* puts into opened memory do not wait: tests say when it is over */
        do {
            status = telpher_rma_put_value_notify(rma, win, last, 0, 1, 1);
        } while (status == TELPHER_OK &&
                 (status = telpher_rma_test(rma, 8, 1)) == TELPHER_ERR_AGAIN);
        return status;
    }
    if (how == 3) {
        do {
            status = telpher_rma_get(rma, win, last, 0, &d->cells[100], 8);
        } while (status == TELPHER_OK &&
                 (status = telpher_rma_test(rma, 8, 1)) == TELPHER_ERR_AGAIN);
        return status;
    }
    return telpher_rma_wait_from(rma, WORLD, last, 3, 1);
}

/* n has the way, and a process's ranks. It may be killed before there is a window, too. */
TELPHER_RMA_KERNEL(kernel_dying)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), last = telpher_rma_size(rma, WORLD) - 1;
    const uint32_t how = d->n & 255, each = d->n >> 8;
    telpher_rma_win win;
    telpher_status status =
        telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);

    if (status == TELPHER_OK) {
        status = me / each == last / each ? telpher_rma_wait(rma, 9, 1)
                                          : wait_for_the_dead(rma, how, win, last);
    }
    if (telpher_rma_lane(rma) == 0) {
        d->statuses[me % RANKS] = status;
    }
}

/* n is an address where nothing is. */
TELPHER_RMA_KERNEL(kernel_strays)
{
    const struct test_data *d = (const struct test_data *)telpher_rma_data(rma);

    if (telpher_rma_rank(rma, WORLD) == telpher_rma_size(rma, WORLD) - 1) {
        *(volatile uint32_t *)(uintptr_t)d->n = 1;
    }
    telpher_rma_wait(rma, 0, 1);
}

/* ---- the host ---- */

static uint32_t ranks, lanes = 1;
static int failures;
static telpher_context *mpi_context; /* NULL: the launcher's */
static struct test_data *data; /* a GPU's */
static struct test_data host; /* what it was, or shall be */

static void
failed(const char *kernel, telpher_status status, const char *report)
{
    failures++;
    printf("FAILED process %u, %s: %s\n%s", process, kernel,
           telpher_status_name(status), report);
    fflush(stdout);
}

static telpher_rma_job *
make_job(uint64_t timeout_ns)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.context = mpi_context;
    p.timeout_ns = timeout_ns;
    return join(&p);
}

/* Launches it on what `host` has. @return the status, `host` what is there then */
static telpher_status
launch(telpher_rma_job *job, const telpher_rma_kernel *kernel)
{
    telpher_status status;

    if (cudaMemcpy(data, &host, sizeof(host), cudaMemcpyHostToDevice) != cudaSuccess) {
        failures++;
    }
    status = telpher_rma_run(job, kernel, data, NULL);
    if (cudaMemcpy(&host, data, sizeof(host), cudaMemcpyDeviceToHost) != cudaSuccess) {
        failures++;
    }
    return status;
}

static void
run(telpher_rma_job *job, const telpher_rma_kernel *kernel)
{
    telpher_status status = launch(job, kernel);

    if (status != TELPHER_OK) {
        failed(kernel->name, status, telpher_rma_report(job));
    }
}

static void
must(int good, const char *what)
{
    if (!good) {
        failed(what, TELPHER_ERR_PROTO, "\n");
    }
}

/* Poison, but for what a kernel counts on. */
static void
poison(uint32_t n)
{
    memset(&host, rand(), sizeof(host));
    memset(host.cells, 0, sizeof(host.cells));
    memset(host.statuses, 0, sizeof(host.statuses));
    host.n = n;
}

static void
good_kernels(telpher_rma_job *job)
{
    poison(20);
    run(job, &kernel_ring);
    must(process != 0 || host.cells[0] == (uint64_t)20 * world * (world + 1) / 2,
         "the ring's number");
    poison(0);
    run(job, &kernel_collectives);
    run(job, &kernel_folds);
    must(host.cells[first] == 1 && host.cells[first + ranks - 1] == 1, "collectives");
    poison(0);
    run(job, &kernel_tags);
    poison(0);
    run(job, &kernel_polls);
}

/* Kernels with many steps. */
static void
long_kernels(telpher_rma_job *job)
{
    poison(0);
    run(job, &kernel_flood);
    poison(0);
    run(job, &kernel_sizes);
}

static void
good_groups(telpher_rma_job *job)
{
    uint64_t sums[2] = {0, 0};

    poison(0);
    run(job, &kernel_groups);
    for (uint32_t r = 0; r < world; r++) {
        sums[r % 2] += r;
    }
    for (uint32_t r = first; r < first + ranks; r++) {
        must(host.cells[r] == sums[r % 2], "a half's sum");
    }
}

/* Pointers to rooms of @p each bytes for ranks of this process, in one block of a GPU's. */
static uint8_t **
make_rooms(size_t each, uint8_t **ret_block)
{
    uint8_t **on_gpu = NULL, **rooms = (uint8_t **)calloc(world, sizeof(*rooms));

    *ret_block = NULL;
    if (rooms == NULL || cudaMalloc(&on_gpu, world * sizeof(*rooms)) != cudaSuccess ||
        cudaMalloc(ret_block, each * ranks) != cudaSuccess ||
        cudaMemset(*ret_block, rand(), each * ranks) != cudaSuccess) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        rooms[first + r] = *ret_block + each * r;
    }
    cudaMemcpy(on_gpu, rooms, world * sizeof(*rooms), cudaMemcpyHostToDevice);
    free(rooms);
    return on_gpu;
}

static void
accesses(telpher_rma_job *job, uint64_t most)
{
    for (uint64_t size = 8; size <= most; size *= 5) {
        uint8_t *blocks[2];
        struct processes_data d = {size, make_rooms(size * world, &blocks[0]),
                                   make_rooms(size, &blocks[1])};
        struct processes_data *on_gpu = NULL;
        telpher_status status = TELPHER_ERR_NO_MEMORY;

        if (size % 3 == 1) { /* the others are reached by the proxies at first */
            telpher_rma_cuda_share(blocks[0]);
        }
        if (cudaMalloc(&on_gpu, sizeof(d)) == cudaSuccess &&
            cudaMemcpy(on_gpu, &d, sizeof(d), cudaMemcpyHostToDevice) == cudaSuccess) {
            status = telpher_rma_run(job, &kernel_everybody, on_gpu, NULL);
            status = status == TELPHER_OK
                         ? telpher_rma_run(job, &kernel_order, on_gpu, NULL)
                         : status;
        }
        if (status != TELPHER_OK) {
            failed("accesses", status, telpher_rma_report(job));
        }
        cudaFree(on_gpu);
        cudaFree(d.parts);
        cudaFree(d.sources);
        cudaFree(blocks[0]);
        cudaFree(blocks[1]);
    }
}

static void
must_fail(telpher_rma_job *job, const telpher_rma_kernel *kernel, telpher_status right,
          const char *words)
{
    telpher_status status;

    memset(&host, 0, sizeof(host));
    status = launch(job, kernel);
    if (status != right || strstr(telpher_rma_report(job), words) == NULL) {
        failed(kernel->name, status, telpher_rma_report(job));
    }
}

/* Invalid calls, one kind a launch. */
static void
refused(telpher_rma_job *job)
{
    for (uint32_t n = 0; n < REFUSED; n++) {
        telpher_status status;

        memset(&host, 0, sizeof(host));
        host.n = n;
        status = launch(job, &kernel_refused);
        if (status != refused_status(n) ||
            strstr(telpher_rma_report(job), "test_kernels.c:") == NULL) {
            printf("refused %u\n", n);
            failed("kernel_refused", status, telpher_rma_report(job));
        }
    }
}

static void
bad_kernels(void)
{
    telpher_rma_job *job = make_job(0), *hasty = make_job(1000000000);

    must_fail(job, &kernel_first_fails, TELPHER_ERR_DEVICE, "rank 0, fail at");
    must_fail(job, &kernel_mismatch, TELPHER_ERR_INVALID, "do not do the same");
    must_fail(hasty, &kernel_last_waits, TELPHER_ERR_TIMEOUT,
              "waits for tag 5: 1 of 2");
    must_fail(hasty, &kernel_deadlock, TELPHER_ERR_TIMEOUT, "waits for tag 9: 1 of 2");
    must_fail(hasty, &kernel_early, TELPHER_ERR_TIMEOUT,
              "has returned from the kernel");
    must_fail(hasty, &kernel_slow, TELPHER_ERR_TIMEOUT, "waits for tag 1: 0 of 1");
    must_fail(job, &kernel_returned, TELPHER_ERR_PEER_LOST, "waits for tag 5: 0 of 1");
    refused(hasty);
    memset(&host, 0, sizeof(host));
    run(job, &kernel_polls); /* the next launch is as good as the first */
    telpher_rma_destroy(hasty);
    telpher_rma_destroy(job);
}

/* Memory that the others open, and memory that the proxies alone reach at first. */
static void
chances(telpher_rma_job *job)
{
    for (int shared = 0; shared < 2; shared++) {
        uint8_t *block, **rooms = make_rooms((size_t)CHANCE_RANKS * CHANCE_ROOM, &block);
        telpher_status status;

        if (shared) {
            telpher_rma_cuda_share(block);
        }
        status = telpher_rma_run(job, &kernel_chances, rooms, NULL);
        if (status != TELPHER_OK) {
            failed("chances", status, telpher_rma_report(job));
        }
        cudaFree(rooms);
        cudaFree(block);
    }
}

static void
litmus(telpher_rma_job *job, uint32_t rounds)
{
    const size_t each = 2 * LITMUS_BYTES;
    struct litmus *t;
    uint8_t *block = NULL;

    if (world > LITMUS_RANKS ||
        cudaHostAlloc((void **)&t, sizeof(*t),
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess ||
        cudaMalloc(&block, each * ranks) != cudaSuccess) {
        failures++;
        return;
    }
    memset((void *)t, 0, sizeof(*t));
    telpher_rma_cuda_share(block);
    for (uint32_t r = 0; r < ranks; r++) {
        t->memory[first + r] = block + each * r;
    }
    t->rounds = rounds;
    for (t->way = 0; t->way < WAYS; t->way++) {
        const uint32_t bad = t->bad;
        telpher_status status;

        cudaMemset(block, 0xee, each * ranks);
        status = telpher_rma_run(job, &kernel_litmus, t, NULL);
        if (status != TELPHER_OK) {
            failed("litmus", status, telpher_rma_report(job));
        }
        if (t->bad != bad) {
            printf("process %u: litmus, way %u: %u bytes not there\n", process, t->way,
                   t->bad - bad);
        }
    }
    printf("process %u: litmus, %llu messages sent, %u bytes not there\n", process,
           (unsigned long long)rounds * WAYS * ranks, t->bad);
    failures += t->bad != 0;
    cudaFree(block);
    cudaFreeHost(t);
}

/* ---- what a flag costs to the host and back ---- */

struct flags {
    uint32_t there, apart[31], back, apart_too[31];
    uint32_t rounds;
    uint64_t ns;
};

extern "C" __global__ void
flag_entry(struct flags *f)
{
    uint64_t begin = telpher_rma_gpu_clock();

    for (uint32_t i = 1; i <= f->rounds; i++) {
        telpher_rma_gpu_store(&f->there, i);
        while (telpher_rma_gpu_load(&f->back) != i) {
        }
    }
    f->ns = telpher_rma_gpu_clock() - begin;
}

static double
flag_round_trip(uint32_t rounds)
{
    struct flags *f;
    void *args[1];
    cudaStream_t stream;
    double ns = 0;

    if (cudaHostAlloc((void **)&f, sizeof(*f),
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
        return 0;
    }
    memset((void *)f, 0, sizeof(*f));
    f->rounds = rounds;
    args[0] = (void *)&f;
    if (cudaLaunchCooperativeKernel((const void *)flag_entry, dim3(1), dim3(1), args, 0,
                                    stream) == cudaSuccess) {
        for (uint32_t i = 1; i <= rounds; i++) {
            while (__atomic_load_n(&f->there, __ATOMIC_ACQUIRE) != i) {
            }
            __atomic_store_n(&f->back, i, __ATOMIC_RELEASE);
        }
        while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        }
        ns = (double)f->ns / rounds;
    }
    cudaStreamDestroy(stream);
    cudaFreeHost(f);
    return ns;
}

static void
latency(telpher_rma_job *job, uint32_t rounds)
{
    double flag = flag_round_trip(rounds);

    poison(rounds);
    run(job, &kernel_ping); /* windows are remembered */
    poison(rounds);
    run(job, &kernel_ping);
    if (process == 0) {
        printf("half round trips [us] between %u processes, %u lanes: notify %.2f, "
               "put_notify of 4 B %.2f, put_value_notify %.2f, put_notify of 512 B "
               "%.2f; a "
               "flag to the host and back %.2f\n",
               processes, lanes, host.reals[0] * 1e-3, host.reals[1] * 1e-3,
               host.reals[2] * 1e-3, host.reals[3] * 1e-3, flag * 1e-3);
    }
}

static void
dies(uint32_t how)
{
    telpher_rma_job *job = make_job(30000000000u);
    telpher_status status;

    poison(how | ranks << 8);
    if (process == processes - 1) {
        alarm(1); /* ends this process while its kernel runs, or waits */
        signal(SIGALRM, SIG_DFL);
    }
    status = launch(job, &kernel_dying);
    must(status == TELPHER_ERR_PEER_LOST, "the launch");
    must(strstr(telpher_rma_report(job), "is lost") != NULL, "the report");
    for (uint32_t r = first; r < first + ranks; r++) {
        must(host.statuses[r % RANKS] == TELPHER_ERR_PEER_LOST ||
                 host.statuses[r % RANKS] == TELPHER_ERR_CANCELED,
             "a rank's status");
    }
    must(launch(job, &kernel_polls) == TELPHER_ERR_PEER_LOST, "the next launch");
    printf("process %u: %s\n", process, failures == 0 ? "knows" : "knows nothing");
    telpher_rma_destroy(job);
}

/* All processes get CUDA's words, long before the deadline. */
static void
strays(void)
{
    telpher_rma_job *job = make_job(30000000000u);
    telpher_error err = {TELPHER_OK, {0}};
    const time_t begin = time(NULL);
    telpher_status status;

    poison(16);
    must(cudaMemcpy(data, &host, sizeof(host), cudaMemcpyHostToDevice) == cudaSuccess,
         "a copy");
    status = telpher_rma_run(job, &kernel_strays, data, &err);
    printf("process %u: %s: %s\n", process, telpher_status_name(status), err.text);
    must(status < 0 && strstr(err.text, "illegal") != NULL, "CUDA's words");
    must(time(NULL) - begin < 15, "the time");
    telpher_rma_destroy(job);
    printf("process %u: strays %s\n", process, failures == 0 ? "good" : "FAILED");
}

static void
several(const char *what, uint32_t most)
{
    telpher_rma_job *job = make_job(0);

    srand(getpid());
    if (strcmp(what, "good") == 0) {
        good_kernels(job);
        long_kernels(job);
        good_groups(job);
        accesses(job, most != 0 ? most : PROCESSES_BYTES);
    } else if (strcmp(what, "few") == 0) {
        good_kernels(job);
        accesses(job, most != 0 ? most : PROCESSES_BYTES);
    } else if (strcmp(what, "bad") == 0) {
        bad_kernels();
    } else if (strcmp(what, "litmus") == 0) {
        litmus(job, most != 0 ? most : 2500);
        if (world <= CHANCE_RANKS) {
            chances(job);
        }
    } else {
        latency(job, most != 0 ? most : 1000);
    }
    telpher_rma_destroy(job);
    printf("process %u: %s %s\n", process, what, failures == 0 ? "good" : "FAILED");
}

/* Before CUDA is used, which threads of MPI may look for. */
static int
start_mpi(int *argc, char ***argv)
{
#ifdef WITH_MPI
    telpher_context_params p = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    int provided = MPI_THREAD_SINGLE;

    if (MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED) {
        printf("skipped: this MPI lets one thread alone call it\n");
        return 77;
    }
    p.transports = "mpi";
    if (telpher_context_create_mpi(MPI_COMM_WORLD, &p, &mpi_context, &err) !=
        TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
#else
    (void)argc;
    (void)argv;
#endif
    return 0;
}

static void
stop_mpi(void)
{
#ifdef WITH_MPI
    telpher_context_destroy(mpi_context);
    MPI_Finalize();
#endif
}

static int
on_gpu(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "good";
    const uint32_t most = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
    int gpus = 0;

    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    cudaSetDevice(telpher_rma_cuda_gpu(0, 1));
    ranks = argc > 2 ? (uint32_t)atoi(argv[2]) : 2;
    lanes = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    if (cudaMalloc(&data, sizeof(*data)) != cudaSuccess) {
        return 1;
    }
    if (strcmp(what, "dies") == 0) {
        dies(most);
    } else if (strcmp(what, "strays") == 0) {
        strays();
    } else {
        several(what, most);
    }
    cudaFree(data);
    return failures != 0;
}

int
main(int argc, char **argv)
{
    int status = start_mpi(&argc, &argv);

    if (status == 0) {
        status = on_gpu(argc, argv);
        stop_mpi();
    }
    return status;
}
