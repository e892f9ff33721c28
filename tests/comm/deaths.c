/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: deaths TRANSPORT
 *
 * Rank 1 of 3 is killed while it is in one of many states. The others learn of it in time:
 * what needed it ends with PEER_LOST, each operation exactly once, receives that nobody will
 * ever serve included; and they go on with each other.
 */
#include "deaths.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *transport;
static const struct state *state;
struct shared *shared;

/* ---- what states use ---- */

uint64_t
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void
op_done(void *user, telpher_status status, size_t len)
{
    struct op *op = user;

    (void)len;
    MUST(++op->done == 1);
    op->status = status;
    op->party->ended++;
}

telpher_xfer_params
next_op(struct party *p)
{
    telpher_xfer_params params = TELPHER_XFER_PARAMS_INIT;

    MUST(p->begun < OPS);
    p->ops[p->begun].party = p;
    params.on_done = op_done;
    params.user = &p->ops[p->begun++];
    return params;
}

void
op_begun(struct party *p, telpher_status status)
{
    if (status != TELPHER_IN_PROGRESS) {
        op_done(&p->ops[p->begun - 1], status, 0);
    }
}

void
die(void)
{
    atomic_store(&shared->died_ns, now_ns());
    (void)kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

static void
on_alarm(int number)
{
    (void)number;
    die();
}

void
die_in(unsigned us)
{
    const struct itimerval time = {.it_value = {us / 1000000, us % 1000000}};

    if (us == 0) {
        die();
    }
    MUST(signal(SIGALRM, on_alarm) != SIG_ERR);
    MUST(setitimer(ITIMER_REAL, &time, NULL) == 0);
}

/* ---- ranks ---- */

static void *
allocate(telpher_context *ctx, enum telpher_mem_kind kind, size_t bytes)
{
    void *mem = NULL;

    OK(telpher_mem_alloc(ctx, kind, bytes, &mem));
    return mem;
}

static void
join(struct party *p)
{
    uint32_t first = p->rank == VICTIM ? 0 : VICTIM,
             second = p->rank == VICTIM ? 2 : VICTIM;

    p->window = allocate(p->ctx, TELPHER_MEM_HOST, WINDOW);
    p->host = allocate(p->ctx, TELPHER_MEM_HOST, BIG);
    p->device = allocate(p->ctx, TELPHER_MEM_SIM, BIG);
    if (state->unused) {
        return;
    }
    OK(telpher_win_create(p->ctx, p->window, WINDOW, RANKS_TIME, &p->win));
    OK(telpher_channel_open(p->ctx, first, TO_DEAD, &p->dead));
    OK(telpher_channel_open(p->ctx, second, p->rank == VICTIM ? TO_DEAD : NEVER_SENT,
                            &p->never));
    OK(telpher_barrier(p->ctx, RANKS_TIME));
}

static void
part(struct party *p)
{
    telpher_win_destroy(p->win);
    OK(telpher_mem_free(p->ctx, p->window));
    OK(telpher_mem_free(p->ctx, p->host));
    OK(telpher_mem_free(p->ctx, p->device));
}

static void
be_victim(struct party *p)
{
    while (atomic_load(&shared->ready) != RANKS - 1) {
        (void)telpher_progress_wait(p->ctx, 1000000);
    }
    die_in(state->life_us);
    state->live(p);
    MUST(!"alive");
}

/* Ends what the death ends, and says how long that took. */
static void
wait_for_ends(struct party *p)
{
    uint64_t limit = now_ns() + RANKS_TIME;

    while (atomic_load(&shared->died_ns) == 0 || p->ended < p->begun) {
        uint64_t died = atomic_load(&shared->died_ns);

        (void)telpher_progress_wait(p->ctx, 5000000);
        MUST(now_ns() < limit);
        MUST(died == 0 || now_ns() - died < LOST_AFTER + SLACK);
    }
}

/* Later operations with the dead rank fail at once. */
static void
ask_again(struct party *p)
{
    telpher_request *req = NULL;
    telpher_msg_buffer buffer = {p->host, 10};
    uint64_t limit = now_ns() + LOST_AFTER + SLACK;

    while (telpher_peer_status(p->ctx, VICTIM) == TELPHER_OK && now_ns() < limit) {
        (void)telpher_progress_wait(p->ctx, 5000000);
    }
    IS(telpher_peer_status(p->ctx, VICTIM), TELPHER_ERR_PEER_LOST);
    IS(telpher_channel_send(p->dead, p->host, 8, NULL, &req), TELPHER_ERR_PEER_LOST);
    IS(telpher_msg_send(p->ctx, VICTIM, 1, NULL, 0, &buffer, 1, NULL, &req),
       TELPHER_ERR_PEER_LOST);
    if (p->win != NULL) {
        IS(telpher_put(p->win, VICTIM, 0, p->host, 8, NULL, &req),
           TELPHER_ERR_PEER_LOST);
        IS(telpher_get(p->win, VICTIM, 0, p->host, 8, NULL, &req),
           TELPHER_ERR_PEER_LOST);
        IS(telpher_notify(p->win, VICTIM, 1), TELPHER_ERR_PEER_LOST);
        IS(telpher_notify_wait(p->win, VICTIM, 1, 1, RANKS_TIME),
           TELPHER_ERR_PEER_LOST);
        IS(telpher_win_flush(p->win, VICTIM, RANKS_TIME), TELPHER_ERR_PEER_LOST);
    }
    IS(telpher_barrier(p->ctx, RANKS_TIME), TELPHER_ERR_PEER_LOST);
}

/* Nothing has been told twice, and all that was begun has ended in one of two ways. */
static unsigned
count_ends(struct party *p)
{
    unsigned lost = 0;

    for (unsigned i = 0; i < 50; i++) {
        (void)telpher_progress(p->ctx);
    }
    MUST(p->ended == p->begun);
    for (unsigned i = 0; i < p->begun; i++) {
        MUST(p->ops[i].done == 1);
        if (p->ops[i].status != TELPHER_OK) {
            IS(p->ops[i].status, TELPHER_ERR_PEER_LOST);
            lost++;
        }
    }
    return lost;
}

/* The survivors talk to each other as before, from and to every memory that was in use. */
static void
go_on(struct party *p)
{
    static const size_t sizes[] = {0, 8, 5000, 100000, 3 << 20};
    telpher_channel *ch;

    OK(telpher_channel_open(p->ctx, 2 - p->rank, BETWEEN, &ch));
    for (unsigned i = 0; i < 10; i++) {
        size_t len = sizes[i % 5];
        uint8_t *mem = i < 5 ? p->host : p->device;
        telpher_request *req = NULL;

        if ((p->rank == 0) == (i % 2 == 0)) {
            memset(p->host, (int)i + 1, len);
            if (mem != p->host && len != 0) {
                OK(telpher_mem_copy(p->ctx, mem, p->host, len));
            }
            OK(ranks_finish(telpher_channel_send(ch, mem, len, NULL, &req), &req));
            continue;
        }
        OK(ranks_finish(telpher_channel_recv(ch, mem, len, NULL, &req, NULL), &req));
        if (mem != p->host && len != 0) {
            OK(telpher_mem_copy(p->ctx, p->host, mem, len));
        }
        for (size_t at = 0; at < len; at++) {
            MUST(p->host[at] == i + 1);
        }
    }
}

static void
be_survivor(struct party *p)
{
    uint64_t took;

    if (!state->unused) {
        telpher_xfer_params params = next_op(p); /* that nobody will ever serve */

        op_begun(p, telpher_channel_recv(p->never, p->host, 1, &params, NULL, NULL));
    }
    p->call = TELPHER_ERR_PEER_LOST;
    if (!state->blocks) {
        state->survive(p);
        atomic_fetch_add(&shared->ready, 1);
    } else {
        state->survive(p); /* says itself that it is ready */
    }
    wait_for_ends(p);
    took = now_ns() - atomic_load(&shared->died_ns);
    if (state->unused) {
        OK(telpher_channel_open(p->ctx, VICTIM, TO_DEAD, &p->dead));
    }
    MUST(p->call == TELPHER_ERR_PEER_LOST || (state->may_end && p->call == TELPHER_OK));
    ask_again(p);
    printf("  %s: rank %u: %u of %u operations lost, all over after %u ms\n",
           state->name, p->rank, count_ends(p), p->begun, (unsigned)(took / 1000000));
    go_on(p);
    part(p);
}

static void
rank(telpher_context *ctx)
{
    static struct party party;

    party.ctx = ctx;
    party.rank = telpher_context_rank(ctx);
    join(&party);
    if (party.rank == VICTIM) {
        be_victim(&party);
    } else {
        be_survivor(&party);
    }
}

static void
test_state(void **arg)
{
    state = *(const struct state *const *)*arg;
    memset(shared, 0, sizeof(*shared));
    setenv("TELPHER_DIRECT", state->copies ? "no" : "yes", 1);
    assert_true(ranks_run(RANKS, transport, VICTIM, rank));
}

int
main(int argc, char **argv)
{
    static const struct state *args[32];
    struct CMUnitTest tests[32] = {cmocka_unit_test(test_meeting)};

    transport = ranks_transport(argc, argv);
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]); /* one state, by its name */
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || state_count >= sizeof(args) / sizeof(args[0])) {
        return 1;
    }
    for (unsigned i = 0; i < state_count; i++) {
        args[i] = &states[i];
        tests[i + 1] =
            (struct CMUnitTest){states[i].name, test_state, NULL, NULL, &args[i]};
    }
    return _cmocka_run_group_tests(transport, tests, state_count + 1, NULL, NULL);
}
