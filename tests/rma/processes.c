/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n PROCESSES -- rma_processes RANKS
 *
 * Kernels whose ranks lie in several processes: the same ones that run in one, and those
 * that are about the processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/host.h>

#include "join.h"
#include "processes.h"
#include "rma/test/test_kernels.h"

#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: process %u: %s\n", __FILE__, __LINE__, process,    \
                    #condition);                                                       \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static uint32_t ranks;
static struct test_data data;
static telpher_context *context; /* of MPI; else the launcher's */

static telpher_rma_job *
make_job(uint32_t lanes, uint32_t tags, uint64_t timeout_ns)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;

    params.ranks = ranks;
    params.block[0] = lanes;
    params.tags = tags;
    params.timeout_ns = timeout_ns;
    params.context = context;
    return join(&params);
}

static void
run(telpher_rma_job *job, const telpher_rma_kernel *kernel)
{
    telpher_status status = telpher_rma_run(job, kernel, &data, NULL);

    if (status != TELPHER_OK) {
        fprintf(stderr, "process %u: %s\n%s", process, telpher_status_text(status),
                telpher_rma_report(job));
        exit(1);
    }
}

/* ---- what one process can, several can ---- */

static void
good_kernels(telpher_rma_job *job)
{
    memset(&data, 0, sizeof(data));
    data.n = 20;
    run(job, &kernel_ring);
    if (process == 0) { /* rounds of 1 + 2 + ... + world */
        MUST(data.cells[0] == (uint64_t)data.n * world * (world + 1) / 2);
    }
    memset(&data, 0, sizeof(data));
    run(job, &kernel_collectives);
    MUST(data.cells[first] == 1 && data.cells[first + ranks - 1] == 1);
    run(job, &kernel_folds);
    run(job, &kernel_tags);
    run(job, &kernel_polls);
}

static void
groups_of_several_processes(telpher_rma_job *job)
{
    uint64_t sums[2] = {0, 0};

    memset(&data, 0, sizeof(data));
    run(job, &kernel_groups);
    for (uint32_t r = 0; r < world; r++) {
        sums[r % 2] += r;
    }
    for (uint32_t r = first; r < first + ranks; r++) {
        MUST(data.cells[r] == sums[r % 2]);
        if (r < 2) { /* the last of its half, since keys turn it round */
            uint64_t bits;

            memcpy(&bits, &data.reals[r], sizeof(bits));
            MUST(bits == 42);
        }
    }
}

/* Allocates data shared by the kernels of accesses, for puts of @p size bytes. */
static struct processes_data *
make_parts(uint64_t size)
{
    struct processes_data *d = calloc(1, sizeof(*d));

    MUST(d != NULL);
    d->len = size;
    d->parts = calloc(world, sizeof(*d->parts));
    d->sources = calloc(world, sizeof(*d->sources));
    MUST(d->parts != NULL && d->sources != NULL);
    for (uint32_t r = first; r < first + ranks; r++) {
        d->parts[r] = calloc(world, size);
        d->sources[r] = calloc(1, size);
        MUST(d->parts[r] != NULL && d->sources[r] != NULL);
    }
    return d;
}

static void
free_parts(struct processes_data *d)
{
    for (uint32_t r = first; r < first + ranks; r++) {
        free(d->parts[r]);
        free(d->sources[r]);
    }
    free(d->parts);
    free(d->sources);
    free(d);
}

static void
accesses(telpher_rma_job *job)
{
    for (uint32_t size = 8; size <= PROCESSES_BYTES; size *= 5) {
        struct processes_data *d = make_parts(size);

        MUST(telpher_rma_run(job, &kernel_everybody, d, NULL) == TELPHER_OK);
        MUST(telpher_rma_run(job, &kernel_order, d, NULL) == TELPHER_OK);
        free_parts(d);
    }
}

static void
odd_accesses(void)
{
    telpher_rma_job *job = make_job(1, TELPHER_RMA_TAGS_MAX, 0);
    struct processes_data *d = make_parts(ODD_BYTES);

    for (uint32_t i = 0; i < TELPHER_RMA_TAGS_MAX; i++) {
        d->tags[i] = i;
    }
    MUST(telpher_rma_run(job, &kernel_odd, d, NULL) == TELPHER_OK);
    MUST(telpher_rma_run(job, &kernel_freed, d, NULL) == TELPHER_ERR_RANGE);
    MUST(strstr(telpher_rma_report(job), ": no window ") != NULL);
    free_parts(d);
    telpher_rma_destroy(job);
}

/* More commands than there is room for, at a rank that looks late. */
static void
much_at_once(telpher_rma_job *job)
{
    run(job, &kernel_flood);
}

/* ---- what goes wrong ---- */

static void
must_fail(telpher_rma_job *job, const telpher_rma_kernel *kernel, telpher_status right,
          const char *words)
{
    telpher_status status;

    memset(&data, 0, sizeof(data));
    status = telpher_rma_run(job, kernel, &data, NULL);
    if (status != right || strstr(telpher_rma_report(job), words) == NULL) {
        fprintf(stderr, "process %u: %s instead of %s, and no \"%s\" in\n%s", process,
                telpher_status_text(status), telpher_status_text(right), words,
                telpher_rma_report(job));
        exit(1);
    }
}

static void
failures(void)
{
    telpher_rma_job *job = make_job(1, 0, 0), *hasty = make_job(1, 0, 300000000);
    char away[64];

    must_fail(job, &kernel_first_fails, TELPHER_ERR_DEVICE, "rank 0 failed at");
    must_fail(job, &kernel_mismatch, TELPHER_ERR_INVALID, "do not do the same");
    must_fail(job, &kernel_last_waits, TELPHER_ERR_DEADLOCK, "waits for tag 5: 1 of 2");
    must_fail(job, &kernel_deadlock, TELPHER_ERR_DEADLOCK, "waits for tag 9: 1 of 2");
    must_fail(job, &kernel_early, TELPHER_ERR_DEADLOCK,
              "waits in barrier of the world");
    must_fail(hasty, &kernel_slow, TELPHER_ERR_TIMEOUT, "waits for tag 1: 0 of 1");
    telpher_rma_destroy(hasty);
    snprintf(away, sizeof(away), ", without process %u; since", processes - 1);
    must_fail(job, &kernel_last_process_stays_away, TELPHER_ERR_DEADLOCK, away);
    must_fail(job, &kernel_returned, TELPHER_ERR_PEER_LOST,
              "whose kernel has returned");
    run(job, &kernel_polls); /* the next launch is as good as the first */
    telpher_rma_destroy(job);
}

/* Of a launch that failed nothing comes into freed memory, or into the next launch. */
static void
late_answers(void)
{
    telpher_rma_job *job = make_job(1, 0, 0);

    for (uint32_t i = 0; i < 16; i++) {
        struct processes_data *d = make_parts(i % 2 == 0 ? 64 + i : 400000 + i);

        MUST(telpher_rma_run(job, &kernel_gets_and_fails, d, NULL) ==
             TELPHER_ERR_LIMIT);
        free_parts(d);
        run(job, &kernel_polls);
    }
    must_fail(job, &kernel_last_waits, TELPHER_ERR_DEADLOCK, "waits for tag 5: 1 of 2");
    telpher_rma_destroy(job);
}

static void
different_launches(void)
{
    telpher_rma_job *job = make_job(1, process == 0 ? 16 : 32, 0), *same;
    telpher_rma_kernel odd = kernel_empty;
    telpher_error err = {0};

    MUST(telpher_rma_run(job, &kernel_empty, &data, &err) == TELPHER_ERR_INVALID);
    MUST(strstr(err.text, "16 tags") != NULL && strstr(err.text, "32 tags") != NULL);
    same = make_job(1, 16, 0);
    MUST(telpher_rma_run(same, process == 0 ? &kernel_empty : &kernel_polls, &data,
                         &err) == TELPHER_ERR_INVALID);
    odd.name = "odd\x1b[2J\xc2\x9bname"; /* which no terminal is to see */
    MUST(telpher_rma_run(same, process == 0 ? &odd : &kernel_polls, &data, &err) ==
         TELPHER_ERR_INVALID);
    MUST(strstr(err.text, "odd?[2J??name") != NULL);
    run(same, &odd); /* is one like any other */
    run(same, &kernel_polls);
    telpher_rma_destroy(same);
    telpher_rma_destroy(job);
}

int
processes_main(int argc, char **argv, telpher_context *ctx)
{
    telpher_rma_job *job;

    context = ctx;
    ranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    job = make_job(1, 0, 0);
    good_kernels(job);
    groups_of_several_processes(job);
    accesses(job);
    much_at_once(job);
    telpher_rma_destroy(job);
    odd_accesses();
    job = make_job(4, 0, 0);
    good_kernels(job);
    telpher_rma_destroy(job);
    different_launches();
    failures();
    late_answers();
    if (process == 0) {
        printf("%u processes, %u ranks: good\n", processes, world);
    }
    return 0;
}
