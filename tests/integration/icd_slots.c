/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers that wait must not keep others waiting, however little memory is shared: with
 * reads and writes held up by user events the others go on, in any order, from callbacks
 * and from several threads. What goes wrong here stands still: an alarm ends it.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "world.h"

enum { LIMIT_S = 200, HELD = 12 };

/** More than all slots together, and less than one. */
static const size_t sizes[HELD] = {3 << 20, 20000,   9 << 20, 300000, 2 << 20, 100000,
                                   4 << 20, 6 << 20, 65536,   700000, 5 << 20, 17000};

/** Buffers with content of their own, and host memory as large. */
struct set {
    cl_mem mems[HELD];
    uint8_t *models[HELD], *hosts[HELD];
};

static void
set_init(struct set *set, uint32_t seed)
{
    for (unsigned i = 0; i < HELD; i++) {
        set->models[i] = pattern_new(sizes[i], seed + i);
        set->hosts[i] = calloc(1, sizes[i]);
        set->mems[i] = buffer_new(&one, CL_MEM_COPY_HOST_PTR, sizes[i], set->models[i]);
    }
}

static void
set_fini(struct set *set)
{
    for (unsigned i = 0; i < HELD; i++) {
        ok(clReleaseMemObject(set->mems[i]));
        free(set->models[i]);
        free(set->hosts[i]);
    }
}

static cl_event
gate_new(void)
{
    cl_int err;
    cl_event gate = clCreateUserEvent(one.ctx, &err);

    ok(err);
    return gate;
}

static cl_command_queue
queue_new(cl_command_queue_properties properties)
{
    cl_int err;
    cl_command_queue q =
        clCreateCommandQueue(one.ctx, one.devices[0], properties, &err);

    ok(err);
    return q;
}

/** Everything a program does with content, to its end, on a queue that nothing holds up. */
static void
use(cl_command_queue q, size_t size, uint32_t seed)
{
    uint8_t *model = pattern_new(size, seed), *host = calloc(1, size);
    cl_mem a = buffer_new(&one, 0, size, NULL), b = buffer_new(&one, 0, size, NULL);
    cl_event written;

    ok(clEnqueueWriteBuffer(q, a, CL_FALSE, 0, size, model, 0, NULL, NULL));
    ok(clFinish(q));
    ok(clEnqueueReadBuffer(q, a, CL_FALSE, 0, size, host, 0, NULL, NULL));
    ok(clFinish(q));
    assert_memory_equal(host, model, size);
    ok(clEnqueueWriteBuffer(q, b, CL_TRUE, 0, size, host, 0, NULL, &written));
    ok(clWaitForEvents(1, &written)); /* until then it is only copied */
    ok(clReleaseEvent(written));
    expect_content(q, b, model, size);
    ok(clReleaseMemObject(a));
    ok(clReleaseMemObject(b));
    free(model);
    free(host);
}

/** Reads behind a user event, with all slots that there are; a write behind them. */
static void
others_go_on_beside_reads_held_up(void **state)
{
    cl_command_queue held = queue_new(0);
    cl_event gate = gate_new();
    struct set set;

    (void)state;
    set_init(&set, 100);
    ok(clEnqueueMarkerWithWaitList(held, 1, &gate, NULL));
    for (unsigned i = 0; i < HELD; i++) {
        ok(clEnqueueReadBuffer(held, set.mems[i], CL_FALSE, 0, sizes[i], set.hosts[i],
                               0, NULL, NULL));
        ok(clEnqueueWriteBuffer(held, set.mems[HELD - 1 - i], CL_FALSE, 0,
                                sizes[HELD - 1 - i], set.models[HELD - 1 - i], 0, NULL,
                                NULL));
    }
    ok(clFlush(held));
    for (unsigned i = 0; i < HELD; i++) {
        use(one.queues[0], sizes[i], i);
        use(one.loose_queues[0], sizes[i], i);
    }
    ok(clSetUserEventStatus(gate, CL_COMPLETE));
    ok(clFinish(held));
    for (unsigned i = 0; i < HELD; i++) {
        assert_memory_equal(set.hosts[i], set.models[i], sizes[i]);
    }
    set_fini(&set);
    ok(clReleaseEvent(gate));
    ok(clReleaseCommandQueue(held));
}

/** Writes whose content is not there yet: each has a user event; the last is set first. */
static void
writes_end_in_the_order_of_their_events(void **state)
{
    cl_event gates[HELD], done[HELD];
    uint8_t *later[HELD];
    struct set set;

    (void)state;
    set_init(&set, 200);
    for (unsigned i = 0; i < HELD; i++) {
        gates[i] = gate_new();
        later[i] = pattern_new(sizes[i], 300 + i);
        ok(clEnqueueWriteBuffer(one.loose_queues[0], set.mems[i], CL_FALSE, 0, sizes[i],
                                set.hosts[i], 1, &gates[i], &done[i]));
    }
    ok(clFlush(one.loose_queues[0]));
    for (unsigned i = HELD; i-- > 0;) {
        use(one.queues[0], sizes[i], 400 + i);
        memcpy(set.hosts[i], later[i], sizes[i]);
        ok(clSetUserEventStatus(gates[i], CL_COMPLETE));
        ok(clWaitForEvents(1, &done[i]));
        expect_content(one.queues[0], set.mems[i], later[i], sizes[i]);
        ok(clReleaseEvent(gates[i]));
        ok(clReleaseEvent(done[i]));
        free(later[i]);
    }
    set_fini(&set);
}

/** Reads of a queue out of order, each behind a user event; every third of them fails. */
static void
reads_end_in_the_order_of_their_events(void **state)
{
    cl_event gates[HELD], done[HELD];
    struct set set;

    (void)state;
    set_init(&set, 500);
    for (unsigned i = 0; i < HELD; i++) {
        gates[i] = gate_new();
        ok(clEnqueueReadBuffer(one.loose_queues[0], set.mems[i], CL_FALSE, 0, sizes[i],
                               set.hosts[i], 1, &gates[i], &done[i]));
    }
    ok(clFlush(one.loose_queues[0]));
    for (unsigned i = HELD; i-- > 0;) {
        bool fails = i % 3 == 0;

        use(one.queues[0], sizes[i], 600 + i);
        ok(clSetUserEventStatus(gates[i], fails ? -7 : CL_COMPLETE));
        assert_int_equal(clWaitForEvents(1, &done[i]),
                         fails ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                               : CL_SUCCESS);
        if (!fails) {
            assert_memory_equal(set.hosts[i], set.models[i], sizes[i]);
        }
        ok(clReleaseEvent(gates[i]));
        ok(clReleaseEvent(done[i]));
    }
    set_fini(&set);
}

/* ---- callbacks that enqueue ---------------------------------------------------------- */

enum { CHAINS = 20, STEPS = 6 };

/** Content that goes round: written, read back, and from the callback once more. */
struct chain {
    cl_mem mem;
    size_t size;
    uint8_t *model, *host;
    unsigned steps;
    cl_int error;
};

static pthread_mutex_t chains_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t chains_ended = PTHREAD_COND_INITIALIZER;
static unsigned chains_left;

static void
chain_end(struct chain *chain, cl_int error)
{
    pthread_mutex_lock(&chains_lock);
    chain->error = error;
    chains_left--;
    pthread_cond_signal(&chains_ended);
    pthread_mutex_unlock(&chains_lock);
}

static cl_int chain_step(struct chain *chain);

static void CL_CALLBACK
chain_read(cl_event ev, cl_int status, void *user)
{
    struct chain *chain = user;
    cl_int error = status;

    clReleaseEvent(ev);
    if (error == CL_COMPLETE && memcmp(chain->host, chain->model, chain->size) != 0) {
        error = CL_INVALID_VALUE;
    }
    if (error == CL_COMPLETE && ++chain->steps < STEPS) {
        error = chain_step(chain);
        if (error == CL_SUCCESS) {
            return;
        }
    }
    chain_end(chain, error);
}

/** Writes and reads back, and goes on when that has come. */
static cl_int
chain_step(struct chain *chain)
{
    cl_command_queue q = one.loose_queues[0];
    cl_event written = NULL, read = NULL;
    cl_int err;

    memset(chain->host, 0, chain->size);
    err = clEnqueueWriteBuffer(q, chain->mem, CL_FALSE, 0, chain->size, chain->model, 0,
                               NULL, &written);
    if (err == CL_SUCCESS) {
        err = clEnqueueReadBuffer(q, chain->mem, CL_FALSE, 0, chain->size, chain->host,
                                  1, &written, &read);
        clReleaseEvent(written);
    }
    if (err == CL_SUCCESS) {
        err = clSetEventCallback(read, CL_COMPLETE, chain_read, chain);
    }
    return err == CL_SUCCESS ? clFlush(q) : err;
}

static void
callbacks_enqueue(void **state)
{
    struct chain chains[CHAINS];

    (void)state;
    chains_left = CHAINS;
    for (unsigned i = 0; i < CHAINS; i++) {
        size_t size = sizes[i % HELD];

        chains[i] = (struct chain){.mem = buffer_new(&one, 0, size, NULL),
                                   .size = size,
                                   .model = pattern_new(size, 700 + i),
                                   .host = malloc(size)};
        ok(chain_step(&chains[i]));
    }
    pthread_mutex_lock(&chains_lock);
    while (chains_left != 0) {
        pthread_cond_wait(&chains_ended, &chains_lock);
    }
    pthread_mutex_unlock(&chains_lock);
    for (unsigned i = 0; i < CHAINS; i++) {
        assert_int_equal(chains[i].error, CL_SUCCESS);
        assert_int_equal(chains[i].steps, STEPS);
        ok(clReleaseMemObject(chains[i].mem));
        free(chains[i].model);
        free(chains[i].host);
    }
}

/* ---- two threads ------------------------------------------------------------------------ */

enum { ROUNDS = 6 };

/** User events before one thread's transfers, which the other thread sets between its own. */
struct side {
    cl_command_queue q;
    cl_event mine[ROUNDS], other[ROUNDS];
    uint32_t seed;
    bool good;
};

static bool
side_round(struct side *side, unsigned round, uint8_t *model, uint8_t *host, cl_mem mem)
{
    size_t size = sizes[(round + side->seed) % HELD];
    cl_event done;
    bool good;

    pattern(model, size, side->seed + round);
    good = clEnqueueWriteBuffer(side->q, mem, CL_FALSE, 0, size, model, 1,
                                &side->mine[round], NULL) == CL_SUCCESS &&
           clEnqueueBarrierWithWaitList(side->q, 0, NULL, NULL) == CL_SUCCESS &&
           clEnqueueReadBuffer(side->q, mem, CL_FALSE, 0, size, host, 0, NULL, &done) ==
               CL_SUCCESS &&
           clFlush(side->q) == CL_SUCCESS &&
           clSetUserEventStatus(side->other[round], CL_COMPLETE) == CL_SUCCESS &&
           clWaitForEvents(1, &done) == CL_SUCCESS &&
           clReleaseEvent(done) == CL_SUCCESS;
    return good && memcmp(host, model, size) == 0;
}

static void *
side_run(void *arg)
{
    enum { LARGEST = 9 << 20 };
    struct side *side = arg;
    uint8_t *model = malloc(LARGEST), *host = malloc(LARGEST);
    cl_int err;
    cl_mem mem = clCreateBuffer(one.ctx, 0, LARGEST, NULL, &err);

    side->good = err == CL_SUCCESS;
    for (unsigned round = 0; round < ROUNDS && side->good; round++) {
        side->good = side_round(side, round, model, host, mem);
    }
    if (mem != NULL) {
        clReleaseMemObject(mem);
    }
    free(model);
    free(host);
    return NULL;
}

static void
threads_wait_for_each_other(void **state)
{
    struct side sides[2] = {
        {.q = queue_new(0), .seed = 0},
        {.q = queue_new(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE), .seed = 2}};
    pthread_t threads[2];

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        sides[0].mine[round] = sides[1].other[round] = gate_new();
        sides[1].mine[round] = sides[0].other[round] = gate_new();
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, side_run, &sides[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(sides[i].good);
        ok(clReleaseCommandQueue(sides[i].q));
        for (unsigned round = 0; round < ROUNDS; round++) {
            ok(clReleaseEvent(sides[i].mine[round]));
        }
    }
}

static int
run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_go_on_beside_reads_held_up),
        cmocka_unit_test(writes_end_in_the_order_of_their_events),
        cmocka_unit_test(reads_end_in_the_order_of_their_events),
        cmocka_unit_test(callbacks_enqueue),
        cmocka_unit_test(threads_wait_for_each_other),
    };

    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}

int
main(int argc, char **argv)
{
    alarm(LIMIT_S);
    return worlds_run(argc, argv, run_all);
}
