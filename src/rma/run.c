/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and frees the state of a launch, all of it before the first rank runs. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/os/spin.h"
#include "rma/processes/remote.h"
#include "rma/rma_int.h"

#define SPIN_FEW ((tp_ns)20000) /* [ns] to spin on machines with few processors */

static uint32_t
device_of(const telpher_rma_params *p, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * p->devices / p->ranks);
}

/* Ranks of a device are consecutive: the first of device d is its lowest rank. */
static uint32_t
first_of(const telpher_rma_params *p, uint32_t device)
{
    return (uint32_t)(((uint64_t)device * p->ranks + p->devices - 1) / p->devices);
}

static telpher_status
make_groups(struct tp_rma_run *run)
{
    const telpher_rma_params *p = &run->params;
    uint32_t *members = tp_alloc_array(run->world, sizeof(*members), "groups");
    telpher_status status;
    int32_t index;

    if (members == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < run->world; i++) {
        members[i] = i;
    }
    status = tp_rma_group_create(run, members, run->world, "the world", -1, &index);
    for (uint32_t d = 0; d < run->device_count && status == TELPHER_OK; d++) {
        uint32_t process = d / p->devices, own = d % p->devices;
        uint32_t first = first_of(p, own);

        status = tp_rma_group_create(run, members + (size_t)process * p->ranks + first,
                                     first_of(p, own + 1) - first, "device group %d",
                                     -1, &index);
    }
    tp_free(members);
    return status;
}

static void
init_lane(struct tp_rma_lane *lane, struct tp_rma_rank *rank, uint32_t index)
{
    const struct tp_rma_run *run = rank->run;
    const telpher_rma_params *p = &run->params;
    uint32_t device = rank->device % p->devices, first = first_of(p, device);

    lane->rank = rank;
    lane->api = (telpher_rma){
        .abi = TELPHER_RMA_ABI,
        .struct_size = sizeof(telpher_rma),
        .calls = &tp_rma_calls,
        .data = run->data,
        .world_rank = rank->index,
        .world_size = run->world,
        .device = rank->device,
        .devices = run->device_count,
        .device_rank = rank->index - run->first - first,
        .device_size = first_of(p, device + 1) - first,
        .lane = index,
        .lanes = run->lanes,
        .block = {p->block[0], p->block[1], p->block[2]},
        .tags = p->tags,
    };
}

static void
init_rank(struct tp_rma_run *run, uint32_t i)
{
    struct tp_rma_rank *rank = &run->ranks[run->first + i];
    size_t tags = (size_t)i * run->params.tags;

    rank->device = run->first / run->params.ranks * run->params.devices +
                   device_of(&run->params, i);
    rank->lanes = run->lane_memory + (size_t)i * run->lanes;
    rank->counts = run->counts + tags;
    rank->senders = run->senders + tags;
    rank->taken = run->taken + tags;
    rank->unflushed = run->unflushed + (size_t)i * tp_rma_spread_processes(run);
    tp_mutex_init(&rank->lock);
    for (uint32_t k = 0; k < run->lanes; k++) {
        init_lane(&rank->lanes[k], rank, k);
    }
}

static void
init_ranks(struct tp_rma_run *run)
{
    for (uint32_t i = 0; i < run->world; i++) {
        run->ranks[i].run = run;
        run->ranks[i].index = i;
        run->ranks[i].remote = i - run->first >= run->params.ranks; /* wraps if below */
    }
    for (uint32_t i = 0; i < run->params.ranks; i++) {
        init_rank(run, i);
    }
}

static telpher_status
alloc_ranks(struct tp_rma_run *run)
{
    const telpher_rma_params *p = &run->params;
    size_t counters = (size_t)p->ranks * p->tags;

    run->ranks = tp_alloc_array(run->world, sizeof(*run->ranks), "ranks");
    run->unflushed =
        tp_alloc_array((size_t)p->ranks * tp_rma_spread_processes(run), 1, "ranks");
    run->lane_memory = tp_alloc_array((size_t)p->ranks * run->lanes,
                                      sizeof(*run->lane_memory), "lanes");
    run->counts = tp_alloc_array(counters, sizeof(*run->counts), "counters");
    run->senders = tp_alloc_array(counters, sizeof(*run->senders), "counters");
    run->taken = tp_alloc_array(counters, sizeof(*run->taken), "counters");
    run->timer_starts = tp_alloc_array(p->devices, sizeof(tp_ns), "timers");
    if (run->ranks == NULL || run->lane_memory == NULL || run->counts == NULL ||
        run->senders == NULL || run->taken == NULL || run->timer_starts == NULL ||
        run->unflushed == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    init_ranks(run);
    return tp_stacks_init(&run->stacks, (size_t)p->ranks * run->lanes, p->stack_bytes);
}

/* Consecutive ranks share a worker. */
static telpher_status
fill_worker(struct tp_rma_run *run, struct tp_rma_worker *w)
{
    uint32_t first =
        (uint32_t)((uint64_t)w->index * run->params.ranks / run->worker_count);
    uint32_t last =
        (uint32_t)((uint64_t)(w->index + 1) * run->params.ranks / run->worker_count);

    w->rank_count = w->live = last - first;
    w->ready_size = w->rank_count * run->lanes;
    w->ranks = tp_alloc_array(w->rank_count, sizeof(struct tp_rma_rank *), "worker");
    w->ready = tp_alloc_array(w->ready_size, sizeof(struct tp_rma_lane *), "worker");
    w->poked = tp_alloc_array(tp_rma_worker_poke_words(w), sizeof(uint64_t), "worker");
    if (w->ranks == NULL || w->ready == NULL || w->poked == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < w->rank_count; i++) {
        w->ranks[i] = &run->ranks[run->first + first + i];
        w->ranks[i]->worker = w;
        w->ranks[i]->local = i;
    }
    return TELPHER_OK;
}

static telpher_status
alloc_workers(struct tp_rma_run *run)
{
    uint64_t seed = run->params.seed != 0 ? run->params.seed : tp_clock_ns();
    telpher_status status = TELPHER_OK;

    run->workers = tp_alloc_array(run->worker_count, sizeof(*run->workers), "workers");
    if (run->workers == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < run->worker_count && status == TELPHER_OK; i++) {
        struct tp_rma_worker *w = &run->workers[i];

        w->run = run;
        w->index = i;
        w->next_deadline = TP_CLOCK_FOREVER;
        w->spin = run->spin;
        w->random = (seed + i) * 0x9e3779b97f4a7c15u | 1;
        status = fill_worker(run, w);
    }
    return status;
}

void
tp_rma_run_destroy(struct tp_rma_run *run)
{
    tp_rma_races_destroy(run->races);
    for (uint32_t i = 0; run->workers != NULL && i < run->worker_count; i++) {
        tp_free(run->workers[i].ranks);
        tp_free(run->workers[i].ready);
        tp_free(run->workers[i].poked);
    }
    for (uint32_t i = 0; i < TP_RMA_GROUPS_MAX; i++) {
        tp_rma_group_destroy(run->groups[i]);
    }
    for (uint32_t i = 0; i < TP_RMA_WINDOWS_MAX; i++) {
        tp_free(run->windows[i]);
    }
    for (uint32_t i = 0; run->ranks != NULL && i < run->params.ranks; i++) {
        tp_rma_rank_free_shared(&run->ranks[run->first + i]);
    }
    tp_rma_remote_destroy(run);
    tp_stacks_fini(&run->stacks);
    tp_free(run->workers);
    tp_free(run->ranks);
    tp_free(run->lane_memory);
    tp_free(run->counts);
    tp_free(run->senders);
    tp_free(run->taken);
    tp_free(run->unflushed);
    tp_free(run->timer_starts);
    tp_free(run->timings);
    free(run->report); /* of open_memstream() */
    tp_free(run);
}

void
tp_rma_run_forked(struct tp_rma_run *run)
{
    tp_mutex_init(&run->idle_lock);
    tp_mutex_init(&run->fail_lock);
    tp_mutex_init(&run->table_lock);
    for (uint32_t i = 0; i < run->params.ranks; i++) {
        tp_mutex_init(&run->ranks[run->first + i].lock);
    }
    if (run->remote != NULL) {
        atomic_store(&run->remote->failure_sent, true);
    }
    atomic_store(&run->failed, true);
    atomic_store(&run->status, TELPHER_ERR_CANCELED);
}

struct tp_rma_run *
tp_rma_run_create(telpher_rma_job *job, const telpher_rma_kernel *kernel, void *data,
                  telpher_status *ret_status)
{
    struct tp_rma_run *run = tp_zalloc(sizeof(*run), "launch");
    telpher_status status;

    if (run == NULL) {
        *ret_status = TELPHER_ERR_NO_MEMORY;
        return NULL;
    }
    run->job = job;
    run->kernel = kernel;
    run->data = data;
    run->params = job->params;
    run->lanes = telpher_rma_job_lanes(job);
    run->worker_count = job->params.workers;
    if (kernel->launch != NULL) { /* proxies */
        run->lanes = 1;
        run->worker_count = 1;
    }
    run->world = job->params.ranks * telpher_rma_job_processes(job);
    run->first = job->params.ranks * telpher_rma_job_process(job);
    run->device_count = job->params.devices * telpher_rma_job_processes(job);
    run->spin = run->worker_count > 1 || job->world != NULL
                    ? tp_spin_time(TP_SPIN_AUTO, SPIN_FEW)
                    : 0;
    tp_mutex_init(&run->idle_lock);
    tp_mutex_init(&run->fail_lock);
    tp_mutex_init(&run->table_lock);
    status = job->world != NULL ? tp_rma_remote_create(run, job->world) : TELPHER_OK;
    status = status == TELPHER_OK ? alloc_ranks(run) : status;
    status = status == TELPHER_OK ? alloc_workers(run) : status;
    status = status == TELPHER_OK ? make_groups(run) : status;
    status = status == TELPHER_OK ? tp_rma_races_create(run) : status;
    if (status != TELPHER_OK) {
        tp_rma_run_destroy(run);
        *ret_status = status;
        return NULL;
    }
    return run;
}
