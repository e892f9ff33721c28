/* SPDX-License-Identifier: Apache-2.0 */
/* Runs ranks as processes or threads over one transport, with addresses in shared memory. */
#include "world.h"
#include "../support/collect.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/random.h"

struct start {
    const struct world_params *params;
    struct shared *shared;
    uint64_t job;
    uint32_t rank;
};

const struct tp_net_ops *
world_ops(const char *name)
{
    for (size_t i = 0; tp_builtin_nets[i] != NULL; i++) {
        if (strcmp(tp_builtin_nets[i]->name, name) == 0) {
            return tp_builtin_nets[i];
        }
    }
    return NULL;
}

void
world_fail(struct world *w, const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: rank %u of %u over %s: not %s\n", file, line, w->rank,
            w->size, w->ops->name, what);
    fflush(NULL);
    _Exit(3);
}

/* ---- events ---- */

void
world_connect(struct world *w, uint32_t peer)
{
    const uint8_t *address = w->shared->addresses[peer];
    size_t len = w->shared->address_len[peer];

    MUST(w, w->ops->reaches(w->net, address, len));
    MUST(w, w->ops->connect(w->net, peer, address, len) == TELPHER_OK);
}

static void
on_message(void *user, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    struct world *w = user;

    MUST(w, from < w->size && from != w->rank);
    if (w->hooks != NULL && w->hooks->on_message != NULL) {
        w->hooks->on_message(w, from, header, header_len, data, len);
    } else {
        w->messages++;
    }
}

static void
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *bulk)
{
    struct world *w = user;

    MUST(w, from < w->size && from != w->rank && len != 0);
    world_connect(w, from); /* to answer */
    if (w->hooks != NULL && w->hooks->on_rndv != NULL) {
        w->hooks->on_rndv(w, from, header, header_len, len, bulk);
    } else {
        tp_rndv_reject(w->net, bulk);
    }
}

static void
on_lost(void *user, uint32_t peer, telpher_status why)
{
    struct world *w = user;

    MUST(w, peer < w->size && peer != w->rank);
    w->lost[peer]++;
    w->why[peer] = why;
    if (w->hooks != NULL && w->hooks->on_lost != NULL) {
        w->hooks->on_lost(w, peer, why);
    }
}

static const struct tp_net_events events = {
    .on_message = on_message, .on_rndv = on_rndv, .on_lost = on_lost};

/* ---- ranks ---- */

unsigned
world_step(struct world *w)
{
    unsigned count = tp_rndv_progress(w->net);

    if (count == 0) {
        sched_yield();
    }
    return count;
}

void
world_barrier(struct world *w)
{
    uint32_t all = ++w->barriers * w->size;

    atomic_fetch_add(&w->shared->came, 1);
    UNTIL(w, atomic_load(&w->shared->came) >= all);
}

void
world_send(struct world *w, uint32_t peer, const void *header, size_t header_len,
           const void *data, size_t len)
{
    telpher_status status;

    UNTIL(w, (status = w->ops->send(w->net, peer, header, header_len, data, len)) !=
                 TELPHER_ERR_AGAIN);
    MUST(w, status == TELPHER_OK);
}

/* All ranks have an address. Nothing is received yet: the test's hooks have no state so far. */
static void
wait_for_all(struct world *w)
{
    uint32_t all = ++w->barriers * w->size;

    atomic_fetch_add(&w->shared->came, 1);
    while (atomic_load(&w->shared->came) < all) {
        sched_yield();
    }
}

static void
run_rank(const struct start *start)
{
    const struct world_params *params = start->params;
    struct world w = {.rank = start->rank,
                      .size = params->size,
                      .ops = world_ops(params->transport),
                      .shared = start->shared,
                      .hooks = params->hooks};
    const struct tp_net_params net = {.rank = w.rank,
                                      .size = w.size,
                                      .job = start->job,
                                      .events = &events,
                                      .user = &w,
                                      .lost_after = params->lost_after,
                                      .copies = params->copies};
    struct tp_error err = {0};
    uint32_t late;

    MUST(&w, tp_rndv_create(w.ops, &net, &w.net, &err) == TELPHER_OK);
    w.shared->address_len[w.rank] = w.ops->address(w.net, w.shared->addresses[w.rank]);
    wait_for_all(&w);
    params->fn(&w);
    UNTIL(&w, !tp_rndv_busy(w.net, &late));
    tp_rndv_destroy(w.net);
}

static void *
run_thread(void *arg)
{
    run_rank(arg);
    return NULL;
}

static bool
run_threads(struct start *starts, uint32_t size)
{
    pthread_t threads[RANKS_MAX];
    uint32_t begun = 0;

    while (begun < size &&
           pthread_create(&threads[begun], NULL, run_thread, &starts[begun]) == 0) {
        begun++;
    }
    for (uint32_t r = 0; r < begun; r++) {
        pthread_join(threads[r], NULL);
    }
    return begun == size;
}

static bool
run_processes(struct start *starts, uint32_t size, uint32_t killed)
{
    pid_t pids[RANKS_MAX];

    fflush(NULL);
    for (uint32_t r = 0; r < size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            alarm(TIME_S); /* one that hangs ends by a signal */
            run_rank(&starts[r]);
            exit(0); /* so that leaks are looked for */
        }
    }
    return collect_ranks(pids, size, killed, starts->params->transport);
}

bool
world_run(const struct world_params *params)
{
    struct start starts[RANKS_MAX];
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t job;
    bool good;

    if (shared == MAP_FAILED || tp_random_bytes(&job, sizeof(job)) != TELPHER_OK) {
        return false;
    }
    for (uint32_t r = 0; r < params->size; r++) {
        starts[r] = (struct start){params, shared, job, r};
    }
    good = params->threads ? run_threads(starts, params->size)
                           : run_processes(starts, params->size, params->killed);
    munmap(shared, sizeof(*shared));
    return good;
}

bool
world_has(const char *name)
{
    const struct tp_net_ops *ops = world_ops(name);
    const struct tp_net_params params = {.size = 1, .events = &events};
    struct tp_net *net;
    struct tp_error err = {0};

    if (ops == NULL || ops->create(&params, &net, &err) != TELPHER_OK) {
        printf("skipped: transport %s: %s\n", name, tp_error_text(&err));
        return false;
    }
    ops->destroy(net);
    return true;
}
