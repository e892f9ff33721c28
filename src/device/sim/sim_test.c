/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of simulated memory: out of reach, as slow as set, failing when asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/sim/sim.h"

enum { SIZE = 100000, COPIES = 4 };

static tp_ns now_ns;

static tp_ns
now(void)
{
    return now_ns;
}

struct noted {
    struct tp_device_copy copy;
    unsigned ended;
    int32_t error;
};

struct setup {
    struct tp_device *d;
    struct tp_device_memory memory;
    uint8_t host[COPIES][SIZE];
    struct noted copies[COPIES];
};

static void
note(struct tp_device_copy *copy, int32_t error)
{
    struct noted *n = tp_container_of(copy, struct noted, copy);

    n->ended++;
    n->error = error;
}

static int
make(struct setup *s, const char *options)
{
    const struct tp_device_params params = {.options = options};
    struct tp_error err = {0};

    now_ns = 1000000;
    tp_clock_set_source(now);
    return tp_sim_maker.create(&params, &s->d, &err) != TELPHER_OK ||
           s->d->ops->alloc(s->d, SIZE, &s->memory) != TELPHER_OK;
}

static int
set_up(void **state)
{
    static struct setup s;

    memset(&s, 0, sizeof(s));
    *state = &s;
    return make(&s, "latency=5us, bandwidth=1000000000");
}

static int
tear_down(void **state)
{
    struct setup *s = *state;

    s->d->ops->free(s->d, s->memory.mem);
    tp_device_destroy(s->d);
    tp_clock_set_source(NULL);
    return 0;
}

static void
start(struct setup *s, unsigned i,
      int32_t (*fn)(struct tp_device *, struct tp_device_copy *), size_t len,
      void *queue)
{
    s->copies[i].copy = (struct tp_device_copy){
        .mem = s->memory.mem,
        .box = tp_device_range(i, len),
        .host = s->host[i],
        .done = note,
        .queue = queue,
    };
    assert_int_equal(fn(s->d, &s->copies[i].copy), 0);
}

/* Moves the clock to @p at [ns after the start] and expects so many copies to end. */
static void
advance(struct setup *s, tp_ns at, unsigned expected)
{
    now_ns = 1000000 + at;
    assert_int_equal(s->d->ops->progress(s->d), expected);
}

static void
test_out_of_reach(void **state)
{
    struct setup *s = *state;
    const struct rlimit no_core = {0, 0};
    int status;
    pid_t child = fork();

    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile char *)s->memory.base);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void
test_copies_take_turns(void **state)
{
    struct setup *s = *state;

    memset(tp_sim_content(s->memory.mem), 0x11, SIZE);
    for (unsigned i = 0; i < 3; i++) {
        start(s, i, s->d->ops->read, 1000, NULL);
    }
    advance(s, 5999, 0);
    assert_int_equal(s->host[0][0], 0);
    advance(s, 6000, 1);
    assert_int_equal(s->host[0][999], 0x11);
    assert_int_equal(s->copies[0].ended, 1);
    assert_int_equal(s->copies[0].copy.end_ns - s->copies[0].copy.start_ns, 6000);
    advance(s, 7999, 1);
    advance(s, 8000, 1);
    advance(s, 100000, 0);
}

static void
test_directions_overlap(void **state)
{
    struct setup *s = *state;

    start(s, 0, s->d->ops->read, 50000, NULL);
    start(s, 1, s->d->ops->write, 50000, NULL);
    advance(s, 54999, 0);
    advance(s, 55000, 2);
}

static void
test_move(void **state)
{
    struct setup *s = *state;
    uint8_t *content = tp_sim_content(s->memory.mem);

    content[5000] = 0x66;
    s->copies[0].copy = (struct tp_device_copy){
        .mem = s->memory.mem,
        .box = tp_device_range(10, 1),
        .done = note,
        .from = s->memory.mem,
        .from_offset = 5000,
    };
    assert_int_equal(s->d->ops->move(s->d, &s->copies[0].copy), 0);
    advance(s, 5001, 1);
    assert_int_equal(content[10], 0x66);
}

/* A copy named after a queue begins when that is free, and holds up those behind it. */
static void
test_queue(void **state)
{
    struct setup *s = *state;
    struct tp_sim_queue queue = {.busy_until = 1000000 + 20000};

    start(s, 0, s->d->ops->write, 1000, &queue);
    start(s, 1, s->d->ops->write, 1000, NULL);
    advance(s, 25999, 0);
    advance(s, 26000, 1);
    advance(s, 27000, 1);
}

static void
test_failure_on_demand(void **state)
{
    struct setup *s = *state;

    tp_sim_set(s->d, 0, 0);
    tp_sim_fail_nth(s->d, 2);
    memset(tp_sim_content(s->memory.mem), 0x22, SIZE);
    for (unsigned i = 0; i < 3; i++) {
        start(s, i, s->d->ops->read, 10, NULL);
    }
    advance(s, 0, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(s->copies[i].ended, 1);
        assert_int_equal(s->copies[i].error, i == 1 ? TELPHER_ERR_DEVICE : 0);
        assert_int_equal(s->host[i][0], i == 1 ? 0 : 0x22);
    }
}

static void
test_options(void **state)
{
    static const char *const wrong[] = {"latency", "speed=1",      "latency=fast",
                                        "fail=-1", "bandwidth=1Q", "net=2"};
    struct tp_device_params params = {.options = ""};
    struct tp_device *d;
    struct tp_error err = {0};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(wrong); i++) {
        params.options = wrong[i];
        assert_int_equal(tp_sim_maker.create(&params, &d, &err), TELPHER_ERR_INVALID);
        assert_non_null(strstr(tp_error_text(&err), "TELPHER_SIM"));
    }
    params.options = "fail=1,latency=2ms";
    assert_int_equal(tp_sim_maker.create(&params, &d, &err), TELPHER_OK);
    tp_device_destroy(d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_out_of_reach, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directions_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_move, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failure_on_demand, set_up, tear_down),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
