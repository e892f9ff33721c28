/* SPDX-License-Identifier: Apache-2.0 */
/* This process of the job: start, the loop that lets ranks and the network go on, and end. */
#include "ampi/process.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ampi/dynamic/dynamic.h"
#include "ampi/move/move.h"
#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/trace/log.h"

/* Turns after which a process that never sleeps looks for a lost process. */
#define TURNS 65536
enum { POLLS = 64 };
/* Light threads that run before the network has its turn, and how long: a message that another
 * process waits for shall not wait until all have computed. */
enum { LIGHTS = 16, LIGHTS_NS = 10000 };
/* With MPI_THREAD_MULTIPLE: turns without work before a waiting thread sleeps, how
 * long, and after how many naps it looks for a lost process. */
enum { YIELDS = 256, NAP_NS = 20000, NAPS = 1024 };
/* Time for all processes to begin and to end. */
#define MEET_NS UINT64_C(60000000000)

/* Numbers of the contexts that are there from the start, and of the first that a rank chooses. */
enum { CONTEXT_WORLD, CONTEXT_SELF, CONTEXT_FIRST };

static struct tp_ampi_heap *no_heap; /* stays NULL: written where ranks do not move */

struct tp_ampi_process tp_ampi = {.heap_now = &no_heap};

struct tp_ampi_rank *
tp_ampi_current(void)
{
    const struct tp_light *light = tp_ampi.lights.current;

    return light != NULL ? light->owner : tp_ampi.acting;
}

uint32_t
tp_ampi_world_size(void)
{
    return tp_ampi.world_size;
}

uint32_t
tp_ampi_process_of(uint32_t world_rank)
{
    return tp_ampi.places[world_rank].process;
}

/* ---- the loop ---- */

/* A lost process takes its ranks with it, so the job ends. */
void
tp_ampi_check_peers(void)
{
    for (uint32_t p = 0; p < tp_ampi.processes; p++) {
        if (p != tp_ampi.process && !tp_ampi.over &&
            telpher_peer_status(tp_ampi.ctx, p) != TELPHER_OK) {
            (void)fprintf(stderr,
                          "telpher-ampi: process %u of %u is lost: the job ends\n", p,
                          tp_ampi.processes);
            tp_ampi_abort(1);
        }
    }
    tp_ampi_check_spawned();
}

/* Waits a moment. telpher_progress_wait() reads the clock, which takes as long as a message. */
static bool
poll(void)
{
    for (int i = 0; i < POLLS; i++) {
        if (telpher_progress(tp_ampi.ctx) != 0) {
            return true;
        }
    }
    return false;
}

/* Lets other threads of the program enter. A thread that has waited for a while sleeps, so that
 * processes that have work get the processors; another thread cannot wake it. */
static void
pass_lock(bool idle)
{
    static unsigned idle_turns;
    const struct timespec nap = {.tv_nsec = NAP_NS};
    bool sleeps;

    idle_turns = idle ? idle_turns + 1 : 0;
    sleeps = idle_turns > YIELDS;
    if (sleeps && idle_turns % NAPS == 0) {
        tp_ampi_check_peers();
    }
    (void)pthread_mutex_unlock(&tp_ampi.lock);
    if (sleeps) {
        (void)nanosleep(&nap, NULL);
    } else {
        sched_yield();
    }
    (void)pthread_mutex_lock(&tp_ampi.lock);
}

/* ---- light threads ---- */

void
tp_ampi_learn_urgency(struct tp_ampi_rank *rank)
{
    const struct tp_light *sender = tp_ampi.lights.current;
    const struct tp_ampi_rank *from = sender != NULL ? sender->owner : NULL;
    unsigned urgency = from == NULL        ? TP_AMPI_URGENCY - 1
                       : from->urgency > 0 ? from->urgency - 1
                                           : 0;

    rank->urgency = (uint8_t)TP_MAX(rank->urgency, urgency);
}

void
tp_ampi_wake(struct tp_light *light)
{
    const struct tp_ampi_rank *rank = light->owner;
    unsigned urgency = tp_ampi.lights.current == NULL ? TP_AMPI_URGENCY : rank->urgency;

    if (urgency > 0) {
        tp_list_push_back(&tp_ampi.urgent[urgency - 1], &light->link);
        tp_ampi.urgent_count++;
    } else {
        tp_lights_wake(&tp_ampi.lights, light);
    }
}

static bool
any_ready(void)
{
    return tp_ampi.urgent_count > 0 || !tp_list_is_empty(&tp_ampi.lights.ready);
}

/* The light threads of an urgency that are ready. */
static struct tp_list *
lights_of(unsigned urgency)
{
    return urgency == 0 ? &tp_ampi.lights.ready : &tp_ampi.urgent[urgency - 1];
}

/* Runs the first light thread of an urgency, else of the next that has one: downwards, then from
 * the highest. */
static void
run_light_of(unsigned urgency)
{
    struct tp_list *link;

    while ((link = tp_list_first(lights_of(urgency))) == NULL) {
        urgency = urgency != 0 ? urgency - 1 : TP_AMPI_URGENCY;
    }
    tp_ampi.urgent_count -= urgency != 0;
    tp_lights_resume(&tp_ampi.lights, tp_list_entry(link, struct tp_light, link));
}

/* Runs light threads until the network has its turn: three times of four the most urgent, else
 * each urgency in turn, because ranks that wake each other may never stop being ready. */
static void
run_lights(void)
{
    static unsigned picks;
    tp_ns start = tp_clock_ns();

    for (unsigned i = 0; i < LIGHTS && any_ready(); i++) {
        picks++;
        run_light_of(picks % 4 != 0 ? TP_AMPI_URGENCY
                                    : picks / 4 % (TP_AMPI_URGENCY + 1));
        if (tp_clock_ns() - start > LIGHTS_NS) {
            break;
        }
    }
    if (!tp_list_is_empty(&tp_ampi.starved)) {
        tp_ampi_lights_feed();
    }
}

/* Sleeps for the job's own context; the others have none that wakes this process. */
static void
nap_for_bridges(void)
{
    static unsigned naps;

    (void)telpher_progress_sleep(tp_ampi.ctx, NAP_NS);
    if (++naps % NAPS == 0) {
        tp_ampi_check_peers();
    }
}

void
tp_ampi_turn(bool may_sleep)
{
    static uint32_t turns;
    bool ran = false;

    if (tp_unlikely(++turns % TURNS == 0)) {
        tp_ampi_check_peers();
    }
    if (any_ready()) {
        run_lights();
        ran = true;
    }
    if (tp_unlikely(!tp_list_is_empty(&tp_ampi.bridges))) {
        ran |= tp_ampi_bridges_progress();
    }
    if (tp_unlikely(tp_ampi.multiple)) {
        pass_lock(telpher_progress(tp_ampi.ctx) == 0 && !ran && may_sleep);
    } else if (ran || !may_sleep || any_ready()) {
        (void)telpher_progress(tp_ampi.ctx);
    } else if (poll()) {
        return;
    } else if (!tp_list_is_empty(&tp_ampi.bridges)) {
        nap_for_bridges();
    } else if (telpher_progress_wait(tp_ampi.ctx, TP_AMPI_IDLE_NS) ==
               TELPHER_ERR_TIMEOUT) {
        tp_ampi_check_peers();
        tp_ampi_idle();
    }
}

/* The state of libc that getopt() has for a program is each rank's own. */
static void
save_libc(struct tp_ampi_rank *rank)
{
    rank->optind = optind;
    rank->opterr = opterr;
    rank->optopt = optopt;
    rank->optarg = optarg;
}

static void
restore_libc(const struct tp_ampi_rank *rank)
{
    optind = rank->optind;
    opterr = rank->opterr;
    optopt = rank->optopt;
    optarg = rank->optarg;
}

static void
resume_rank(struct tp_ampi_rank *rank)
{
    restore_libc(rank);
    if (tp_unlikely(rank->heap != NULL)) {
        (void)tp_ampi_heap_use(rank->heap);
        rank->since_ns = tp_clock_ns();
    }
}

void
tp_ampi_rank_begin(void)
{
    resume_rank(tp_ampi_current());
}

void
tp_ampi_suspend(void)
{
    struct tp_ampi_rank *rank = tp_ampi_current();

    save_libc(rank);
    if (tp_unlikely(rank->heap != NULL)) {
        (void)tp_ampi_heap_use(NULL);
        rank->load_ns += tp_clock_ns() - rank->since_ns;
    }
    tp_lights_suspend(&tp_ampi.lights);
    resume_rank(rank);
}

void
tp_ampi_block(struct tp_ampi_waiter *waiter)
{
    while (waiter->needed > 0) {
        if (waiter->light != NULL) {
            tp_ampi_suspend();
        } else {
            tp_ampi_turn(true);
        }
    }
}

void
tp_ampi_await_signal(struct tp_list *waits, struct tp_ampi_waiter *waiter)
{
    waiter->light = tp_ampi.lights.current;
    waiter->needed = 1;
    tp_list_init(&waiter->link);
    tp_list_push_back(waits, &waiter->link);
    tp_ampi_block(waiter);
}

void
tp_ampi_signal(struct tp_list *waits)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(waits)) != NULL) {
        struct tp_ampi_waiter *waiter =
            tp_list_entry(link, struct tp_ampi_waiter, link);

        waiter->needed = 0;
        if (waiter->light != NULL) {
            tp_ampi_wake(waiter->light);
        }
    }
}

void
tp_ampi_yield(void)
{
    if (tp_ampi.lights.current != NULL) {
        tp_lights_wake(&tp_ampi.lights, tp_ampi.lights.current);
        tp_ampi_suspend();
    } else {
        tp_ampi_turn(false);
    }
}

/* ---- start ---- */

/* Ranks are spread in blocks: the first processes have one more. */
static bool
place_ranks(void)
{
    uint32_t each = tp_ampi.world_size / tp_ampi.processes;
    uint32_t more = tp_ampi.world_size % tp_ampi.processes, world = 0;

    tp_ampi.places =
        tp_alloc_array(tp_ampi.world_size, sizeof(*tp_ampi.places), "MPI ranks");
    if (tp_ampi.places == NULL) {
        return false;
    }
    for (uint32_t p = 0; p < tp_ampi.processes; p++) {
        for (uint32_t i = 0; i < each + (p < more); i++) {
            tp_ampi.places[world++] = (struct tp_ampi_place){.process = p, .local = i};
        }
    }
    tp_ampi.rank_count = each + (tp_ampi.process < more);
    return true;
}

static struct tp_ampi_comm *
make_comm(struct tp_ampi_rank *rank, uint32_t first, uint32_t count, uint32_t context,
          MPI_Comm handle, const char *name)
{
    struct tp_ampi_group *group = tp_ampi_group_create((int)count);
    struct tp_ampi_comm *comm;

    if (group == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        group->world[i] = first + i;
    }
    group->rank = (int)(rank->world - first);
    if (tp_ampi_comm_create(rank, group, context, NULL, &comm) != MPI_SUCCESS) {
        return NULL;
    }
    tp_ampi_handle_destroy(comm->handle);
    comm->handle = handle;
    (void)snprintf(comm->name, sizeof(comm->name), "%s", name);
    return comm;
}

static bool
init_rank(struct tp_ampi_rank *rank, struct tp_ampi_heap *heap, uint32_t world,
          uint32_t local)
{
    rank->heap = heap;
    rank->world = world;
    rank->local = local;
    rank->contexts = CONTEXT_FIRST;
    rank->parent = MPI_COMM_NULL;
    rank->mails =
        tp_alloc_array(tp_ampi.world_size, sizeof(*rank->mails), "MPI contexts");
    if (rank->mails == NULL) {
        return false;
    }
    rank->optind = 1;
    rank->opterr = 1;
    rank->comm_world = make_comm(rank, 0, tp_ampi.world_size, CONTEXT_WORLD,
                                 MPI_COMM_WORLD, "MPI_COMM_WORLD");
    rank->comm_self = make_comm(rank, world, 1, CONTEXT_SELF << tp_ampi.context_shift,
                                MPI_COMM_SELF, "MPI_COMM_SELF");
    return rank->comm_world != NULL && rank->comm_self != NULL;
}

/* Room for the ranks of this process, or, if they may move, for all. */
static bool
allocate_ranks(struct tp_ampi_rank **ret)
{
    uint32_t room = tp_ampi.movable ? tp_ampi.world_size : tp_ampi.rank_count;

    tp_ampi.ranks = tp_alloc_array(room, sizeof(*tp_ampi.ranks), "MPI ranks");
    *ret = tp_alloc_array(tp_ampi.rank_count, sizeof(**ret), "MPI ranks");
    tp_ampi.arrived = tp_alloc_array(room, sizeof(*tp_ampi.arrived), "MPI ranks");
    return tp_ampi.ranks != NULL && *ret != NULL && tp_ampi.arrived != NULL &&
           (!tp_ampi.movable || tp_ampi_handles_reserve());
}

static bool
init_ranks(void)
{
    uint32_t first = 0;
    struct tp_ampi_rank *ranks;

    if (!allocate_ranks(&ranks)) {
        return false;
    }
    while (tp_ampi.places[first].process != tp_ampi.process) {
        first++;
    }
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        struct tp_ampi_heap *heap =
            tp_ampi.movable ? tp_ampi_memory_heap(first + i) : NULL;
        bool made;

        (void)tp_ampi_heap_use(heap);
        tp_ampi.ranks[i] =
            heap != NULL ? tp_zalloc(sizeof(*ranks), "MPI rank") : &ranks[i];
        tp_ampi.acting = tp_ampi.ranks[i];
        made = tp_ampi.acting != NULL && init_rank(tp_ampi.acting, heap, first + i, i);
        (void)tp_ampi_heap_use(NULL);
        if (!made) {
            return false;
        }
    }
    tp_ampi.acting = tp_ampi.ranks[0];
    return true;
}

void
tp_ampi_limit_collectives(void)
{
    tp_ampi.collectives_max =
        (uint32_t)tp_ampi.settings.collectives / tp_ampi.rank_count;
    tp_ampi.collectives_max = TP_MAX(tp_ampi.collectives_max, 4u);
}

/* Each rank has light threads of its own: those of one rank may wait for collectives of
 * another. */
static bool
start_lights(void)
{
    uint32_t room = tp_ampi.movable ? tp_ampi.world_size : tp_ampi.rank_count;

    tp_ampi_limit_collectives();
    return tp_lights_init(&tp_ampi.lights,
                          (tp_ampi.virtual_ranks ? room : 0) +
                              (size_t)tp_ampi.collectives_max * room,
                          tp_ampi.settings.stack_bytes) == TELPHER_OK;
}

bool
tp_ampi_ends_add(telpher_context *ctx)
{
    uint32_t first = tp_ampi.end_count, size = telpher_context_size(ctx);
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    struct tp_ampi_end *ends =
        tp_realloc_array(tp_ampi.ends, first + size, sizeof(*ends), "MPI processes");

    (void)tp_ampi_heap_use(heap);
    if (ends == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < size; i++) {
        ends[first + i] = (struct tp_ampi_end){.ctx = ctx, .rank = i};
    }
    tp_ampi.ends = ends;
    tp_ampi.end_count = first + size;
    return true;
}

static bool
make_ranks(void)
{
    tp_ampi.context_shift = TP_AMPI_LANE_BITS;
    while (tp_ampi.context_shift < 31 &&
           UINT32_C(1) << (tp_ampi.context_shift - TP_AMPI_LANE_BITS) <
               tp_ampi.world_size) {
        tp_ampi.context_shift++;
    }
    if (!place_ranks()) {
        return false;
    }
    if (!tp_ampi_ends_add(tp_ampi.ctx) || !init_ranks()) {
        return false;
    }
    for (size_t i = 0; i < TP_AMPI_URGENCY; i++) {
        tp_list_init(&tp_ampi.urgent[i]);
    }
    tp_list_init(&tp_ampi.bridges);
    tp_list_init(&tp_ampi.starved);
    tp_list_init(&tp_ampi.sending);
    return start_lights();
}

static bool
join(telpher_error *err)
{
    telpher_status status = telpher_context_create(NULL, &tp_ampi.ctx, err);

    if (status != TELPHER_OK) {
        tp_ampi.ctx = NULL;
        return false;
    }
    tp_ampi.process = telpher_context_rank(tp_ampi.ctx);
    tp_ampi.processes = telpher_context_size(tp_ampi.ctx);
    return true;
}

bool
tp_ampi_process_start(uint32_t ranks)
{
    telpher_error err = {0};

    if (ranks == 0 && !tp_ampi_settings_load(&tp_ampi.settings)) {
        return false;
    }
    if (!join(&err)) {
        (void)fprintf(stderr, "telpher-ampi: %s\n", err.text);
        return false;
    }
    if (ranks != 0 && ranks < tp_ampi.processes) {
        (void)fprintf(stderr,
                      "telpher-ampi: %u virtual ranks are fewer than the %u processes: "
                      "start fewer processes\n",
                      ranks, tp_ampi.processes);
        return false;
    }
    tp_ampi.world_size = ranks != 0 ? ranks : tp_ampi.processes;
    tp_ampi.virtual_ranks = tp_ampi.world_size != tp_ampi.processes || tp_ampi.movable;
    tp_ampi.main_thread = pthread_self();
    if (!make_ranks() ||
        telpher_msg_handler(tp_ampi.ctx, TP_AMPI_HANDLER, NULL, tp_ampi_on_message,
                            NULL) != TELPHER_OK ||
        telpher_barrier(tp_ampi.ctx, MEET_NS) != TELPHER_OK) {
        (void)fprintf(stderr, "telpher-ampi: cannot start: %s\n",
                      telpher_last_error(tp_ampi.ctx));
        return false;
    }
    return true;
}

/* ---- end ---- */

void
tp_ampi_process_stop(void)
{
    tp_ampi.over = true;
    (void)telpher_barrier(tp_ampi.ctx,
                          MEET_NS); /* a process that is gone later is not lost */
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        tp_ampi_mails_fini(tp_ampi.ranks[i]);
        tp_ampi_f90_types_fini(tp_ampi.ranks[i]);
    }
    tp_ampi_bridges_fini();
    tp_ampi_channels_fini();
    telpher_context_destroy(tp_ampi.ctx);
    tp_ampi.ctx = NULL;
    tp_ampi_requests_fini();
}

void
tp_ampi_exit(int code)
{
    (void)fflush(NULL);
    _exit(code);
}

void
tp_ampi_abort(int code)
{
    const struct tp_ampi_envelope env = {.kind = TP_AMPI_ABORT, .tag = code};

    for (uint32_t p = 0; tp_ampi.ctx != NULL && p < tp_ampi.processes; p++) {
        if (p != tp_ampi.process) {
            (void)tp_ampi_transmit(p, &env, NULL, 0);
        }
    }
    if (tp_ampi.ctx != NULL) {
        (void)telpher_progress(tp_ampi.ctx);
    }
    tp_ampi_bridges_abort(&env);
    tp_ampi_exit(code != 0 ? code : 1);
}

int
tp_ampi_class_of(telpher_status status)
{
    switch (status) {
    case TELPHER_OK:
    case TELPHER_IN_PROGRESS:
        return MPI_SUCCESS;
    case TELPHER_ERR_TRUNCATED:
        return MPI_ERR_TRUNCATE;
    case TELPHER_ERR_PEER_LOST:
        return MPI_ERR_PROC_FAILED;
    case TELPHER_ERR_NO_MEMORY:
        return MPI_ERR_NO_MEM;
    case TELPHER_ERR_RANGE:
        return MPI_ERR_BUFFER;
    default:
        return MPI_ERR_OTHER;
    }
}

telpher_status
tp_ampi_mem_copy(void *to, const void *from, size_t len)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    telpher_status status = telpher_mem_copy(tp_ampi.ctx, to, from, len);

    (void)tp_ampi_heap_use(heap);
    return status;
}

int
tp_ampi_copy_memory(struct tp_ampi_comm *comm, void *to, const void *from, size_t len)
{
    telpher_status status = tp_ampi_mem_copy(to, from, len);

    return tp_ampi_error(comm, tp_ampi_class_of(status),
                         "cannot copy %zu bytes of device memory: %s", len,
                         telpher_status_name(status));
}

int
tp_ampi_stage_open(struct tp_ampi_stage *stage, struct tp_ampi_comm *comm,
                   const void *buffer, ptrdiff_t low, size_t len, bool filled)
{
    int error = MPI_SUCCESS;

    stage->at = (void *)(uintptr_t)buffer;
    stage->host = NULL;
    stage->device = (char *)stage->at + low;
    stage->len = len;
    if (len == 0 || buffer == NULL || !tp_ampi_is_device(stage->device)) {
        return MPI_SUCCESS;
    }
    stage->host = tp_malloc(len, "staged MPI buffer");
    if (stage->host == NULL) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM,
                             "no memory to stage %zu bytes of device memory", len);
    }
    stage->at = stage->host - low;
    if (filled) {
        error = tp_ampi_copy_memory(comm, stage->host, stage->device, len);
    }
    if (error != MPI_SUCCESS) {
        tp_free(stage->host);
        stage->host = NULL;
    }
    return error;
}

int
tp_ampi_stage_close(struct tp_ampi_stage *stage, struct tp_ampi_comm *comm,
                    bool written, int error)
{
    if (stage->host != NULL && written && error == MPI_SUCCESS) {
        error = tp_ampi_copy_memory(comm, stage->device, stage->host, stage->len);
    }
    tp_free(stage->host);
    stage->host = NULL;
    return error;
}
