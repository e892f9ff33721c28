/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of one session: a request beyond a limit fails with the limit's name, the session
 * goes on, and released resources are available again. Skipped without a device.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "daemon/limits.h"
#include "daemon/test/test_session.h"

static struct test_daemon the_daemon;
static struct test_session s;
static uint64_t context, queue;

static uint64_t
make_context(void)
{
    struct tp_wire_context_create m = {.devices = TEST_IDS(0)};

    m.context = test_id(&s, TP_WIRE_KIND_CONTEXT);
    test_put(&s, TP_WIRE_CONTEXT_CREATE, &m);
    return m.context;
}

static uint64_t
make_queue(void)
{
    struct tp_wire_queue_create m = {.context = context};

    m.queue = test_id(&s, TP_WIRE_KIND_QUEUE);
    test_put(&s, TP_WIRE_QUEUE_CREATE, &m);
    return m.queue;
}

static uint64_t
make_buffer_of(uint64_t size)
{
    struct tp_wire_buffer_create m = {
        .context = context, .flags = CL_MEM_READ_WRITE, .size = size};

    m.mem = test_id(&s, TP_WIRE_KIND_MEM);
    test_put(&s, TP_WIRE_BUFFER_CREATE, &m);
    return m.mem;
}

static uint64_t
make_buffer(void)
{
    return make_buffer_of(64);
}

static uint64_t
make_program_of(uint64_t size, uint64_t transfer)
{
    static const char text[] = "__kernel void k(void) {}";
    struct tp_wire_program_source m = {.context = context, .size = size};

    m.program = test_id(&s, TP_WIRE_KIND_PROGRAM);
    m.transfer = transfer;
    if (transfer == 0) {
        m.size = sizeof(text) - 1;
        m.source = (struct tp_wire_bytes){sizeof(text) - 1, text};
    }
    test_put(&s, TP_WIRE_PROGRAM_SOURCE, &m);
    return m.program;
}

static uint64_t
make_program(void)
{
    return make_program_of(0, 0);
}

static uint64_t
make_user_event(void)
{
    struct tp_wire_user_event_create m = {.context = context};

    m.event = test_id(&s, TP_WIRE_KIND_EVENT);
    test_put(&s, TP_WIRE_USER_EVENT_CREATE, &m);
    return m.event;
}

static void
release(uint64_t id)
{
    test_put(&s, TP_WIRE_RELEASE, &(struct tp_wire_release){.ids = {1, &id}});
}

/* The next FAILED is of @p id, with that error and the name of the limit. */
static void
expect_refused(uint64_t id, int32_t error, const char *option)
{
    struct tp_wire_failed m;
    char text[256];

    test_expect(&s, TP_WIRE_FAILED, &m);
    (void)snprintf(text, sizeof(text), "%.*s", (int)m.text.len,
                   (const char *)m.text.data);
    assert_int_equal(m.id, id);
    assert_int_equal(m.status, error);
    assert_non_null(strstr(text, option));
}

/* Nothing was refused up to now, and the session lives. */
static void
expect_alive(void)
{
    test_expect_alive(&s);
    assert_int_equal(test_count(&s, TP_WIRE_FAILED), 0);
}

static void
open_session(const char *const *options)
{
    test_daemon_start(&the_daemon, options);
    test_daemon_need(&the_daemon, NULL, "an OpenCL device");
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    context = make_context();
    queue = make_queue();
}

static void
close_session(void)
{
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
    test_daemon_stop(&the_daemon);
}

/* One kind after the other, with the same limit each. */
static void
test_kinds(void **state)
{
    enum { MAX = 5 };
    const char *const options[] = {"--max-contexts",
                                   "5",
                                   "--max-queues",
                                   "5",
                                   "--max-buffers",
                                   "5",
                                   "--max-programs",
                                   "5",
                                   NULL};
    const struct {
        uint64_t (*make)(void);
        const char *option;
        int have;
    } kinds[] = {
        {make_context, "--max-contexts", 1},
        {make_queue, "--max-queues", 1},
        {make_buffer, "--max-buffers", 0},
        {make_program, "--max-programs", 0},
    };

    (void)state;
    open_session(options);
    for (size_t k = 0; k < TP_ARRAY_LEN(kinds); k++) {
        uint64_t last = 0, beyond;

        for (int i = kinds[k].have; i < MAX; i++) {
            last = kinds[k].make();
        }
        expect_alive();
        beyond = kinds[k].make();
        expect_refused(beyond, CL_OUT_OF_RESOURCES, kinds[k].option);
        release(last); /* both count until they are released */
        release(beyond);
        (void)kinds[k].make();
        expect_alive();
    }
    close_session();
}

/* 10,000 of each: made or refused, and the next session is served. */
static void
test_ten_thousand(void **state)
{
    uint64_t (*const make[])(void) = {make_context, make_queue, make_buffer,
                                      make_program, make_user_event};

    (void)state;
    for (size_t k = 0; k < TP_ARRAY_LEN(make); k++) {
        open_session(NULL);
        for (int i = 0; i < 10000; i++) {
            (void)make[k]();
            if (i % 100 == 0) {
                test_flush(&s);
                (void)test_count(&s, TP_WIRE_FAILED);
            }
        }
        release(make_buffer());
        close_session();
    }
}

static void
test_memory(void **state)
{
    const char *const options[] = {"--max-memory", "1M", NULL};
    uint64_t half, beyond;

    (void)state;
    open_session(options);
    half = make_buffer_of(512 << 10);
    (void)make_buffer_of(256 << 10);
    expect_alive();
    beyond = make_buffer_of(512 << 10);
    expect_refused(beyond, CL_MEM_OBJECT_ALLOCATION_FAILURE, "--max-memory");
    beyond = make_buffer_of(UINT64_MAX);
    expect_refused(beyond, CL_MEM_OBJECT_ALLOCATION_FAILURE, "--max-memory");
    release(half);
    (void)make_buffer_of(700 << 10);
    expect_alive();
    close_session();
}

/* All sessions of a user count together, and what an ended one had may be had again. */
static void
test_user_memory(void **state)
{
    const char *const options[] = {"--max-user-memory", "1M", NULL};
    struct tp_wire_context_create other_context = {.devices = TEST_IDS(0)};
    struct tp_wire_buffer_create large = {.flags = CL_MEM_READ_WRITE,
                                          .size = 700 << 10};
    struct test_session other;
    tp_ns deadline;
    bool refused;

    (void)state;
    open_session(options);
    test_session_open(&other, &the_daemon);
    (void)test_session_start(&other);
    other_context.context = large.context = test_id(&other, TP_WIRE_KIND_CONTEXT);
    large.mem = test_id(&other, TP_WIRE_KIND_MEM);
    test_put(&other, TP_WIRE_CONTEXT_CREATE, &other_context);
    test_put(&other, TP_WIRE_BUFFER_CREATE, &large);
    test_expect_alive(&other);
    (void)make_buffer_of(200 << 10);
    expect_alive();
    expect_refused(make_buffer_of(512 << 10), CL_MEM_OBJECT_ALLOCATION_FAILURE,
                   "--max-user-memory");
    test_session_close(&other);
    deadline = tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S);
    do { /* telpherd returns the amount a little after the end of the process */
        struct tp_wire_failed failed;

        (void)make_buffer_of(512 << 10);
        test_expect_alive(&s);
        refused = test_count(&s, TP_WIRE_FAILED) > 0;
        if (refused) {
            test_expect(&s, TP_WIRE_FAILED, &failed);
            tp_clock_sleep(10 * TP_CLOCK_MS);
        }
    } while (refused && !tp_clock_passed(deadline));
    assert_false(refused);
    close_session();
}

static void
test_user_objects(void **state)
{
    const char *const options[] = {"--max-user-objects", "20", NULL};

    (void)state;
    open_session(options);
    for (int i = 0; i < 30; i++) {
        (void)make_buffer_of(64);
    }
    (void)test_expect_end(&s);
    close_session();
}

static uint64_t
next_transfer(void)
{
    return test_id(&s, TP_WIRE_KIND_TRANSFER);
}

static void
test_program_size(void **state)
{
    const char *const options[] = {"--max-program", "1M", "--max-host-memory", "3M",
                                   NULL};
    uint64_t beyond;

    (void)state;
    open_session(options);
    beyond = make_program_of((1 << 20) + 1, next_transfer());
    expect_refused(beyond, CL_OUT_OF_RESOURCES, "--max-program");
    beyond = make_program_of(UINT64_C(1) << 63, next_transfer());
    expect_refused(beyond, CL_OUT_OF_RESOURCES, "--max-program");
    for (int i = 0; i < 3; i++) {
        (void)make_program_of(1 << 20, next_transfer()); /* never comes */
    }
    expect_alive();
    beyond = make_program_of(1 << 20, next_transfer());
    expect_refused(beyond, CL_OUT_OF_HOST_MEMORY, "--max-host-memory");
    close_session();
}

static uint64_t
put_write(uint64_t mem, uint64_t transfer, uint64_t size, const void *data,
          uint64_t waits_for)
{
    struct tp_wire_write m = {.queue = queue,
                              .mem = mem,
                              .flags = TP_WIRE_NOTIFY,
                              .size = size,
                              .transfer = transfer,
                              .wait = {waits_for != 0, &waits_for},
                              .data = {transfer == 0 ? (uint32_t)size : 0, data}};

    m.event = test_id(&s, TP_WIRE_KIND_EVENT);
    test_put(&s, TP_WIRE_WRITE, &m);
    return m.event;
}

/* Content behind an event that is never set: what is beyond the limit fails. */
static void
test_held_content(void **state)
{
    static const uint8_t data[16 << 10];
    const char *const options[] = {"--max-host-memory", "1M", NULL};
    struct tp_wire_user_event_set set = {.status = CL_COMPLETE};
    struct tp_wire_done done;
    uint64_t mem, gate, first, beyond = 0;

    (void)state;
    open_session(options);
    mem = make_buffer_of(sizeof(data));
    gate = set.event = make_user_event();
    first = put_write(mem, 0, sizeof(data), data, gate);
    for (int i = 0; i < 64; i++) {
        beyond = put_write(mem, 0, sizeof(data), data, gate);
    }
    test_put(&s, TP_WIRE_USER_EVENT_SET, &set);
    test_expect_done(&s, first, &done);
    assert_int_equal(done.status, CL_COMPLETE);
    test_expect_done(&s, beyond, &done);
    assert_int_equal(done.status, CL_OUT_OF_HOST_MEMORY);
    first = put_write(mem, 0, sizeof(data), data, 0);
    test_expect_done(&s, first, &done);
    assert_int_equal(done.status, CL_COMPLETE);
    close_session();
}

/* Content of a transfer that does not arrive, from the start or from the middle on. */
static void
test_late_content(void **state)
{
    enum { SIZE = 1 << 20 };
    const char *const options[] = {"--transfer-timeout", "1s", NULL};
    uint8_t *data = tp_zalloc(SIZE, "data");
    uint64_t mem, none, half, program, transfer;
    struct tp_wire_done done;

    (void)state;
    open_session(options);
    test_session_bulk(&s, &the_daemon);
    mem = make_buffer_of(SIZE);
    none = put_write(mem, next_transfer(), SIZE, NULL, 0);
    test_expect_done(&s, none, &done);
    assert_int_equal(done.status, CL_OUT_OF_RESOURCES);
    transfer = next_transfer();
    half = put_write(mem, transfer, SIZE, NULL, 0);
    test_flush(&s);
    test_send_content(&s, transfer, 0, data, SIZE / 2);
    test_expect_done(&s, half, &done);
    assert_int_equal(done.status, CL_OUT_OF_RESOURCES);
    test_send_content(&s, transfer, SIZE / 2, data, SIZE / 2); /* dropped */
    program = make_program_of(SIZE, next_transfer());
    expect_refused(program, CL_OUT_OF_RESOURCES, "clCreateProgramWithSource");
    transfer = next_transfer();
    half = put_write(mem, transfer, SIZE, NULL, 0);
    test_flush(&s);
    test_send_content(&s, transfer, 0, data, SIZE);
    test_expect_done(&s, half, &done);
    assert_int_equal(done.status, CL_COMPLETE);
    tp_free(data);
    close_session();
}

/* The executor parses limits as the broker prints them. */
static void
test_text(void **state)
{
    struct tp_daemon_limits a, b;
    char text[TP_DAEMON_LIMIT_TEXT];

    (void)state;
    tp_daemon_limits_none(&a);
    memset(&b, 0, sizeof(b));
    a.queues = 77;
    a.kernel_timeout_ns = UINT64_C(12345678901234567890);
    for (size_t i = 0; i < TP_DAEMON_LIMIT_COUNT; i++) {
        tp_daemon_limit_print(&a, i, text);
        assert_int_equal(tp_daemon_limit_read(&b, text), TELPHER_OK);
    }
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(tp_daemon_limit_read(&b, "max-queues=x"), TELPHER_ERR_INVALID);
    assert_int_equal(tp_daemon_limit_read(&b, "max-queues="), TELPHER_ERR_INVALID);
    assert_int_equal(tp_daemon_limit_read(&b, "max-nothing=1"), TELPHER_ERR_INVALID);
    assert_int_equal(b.queues, 77);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),         cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_program_size),
        cmocka_unit_test(test_held_content), cmocka_unit_test(test_late_content),
        cmocka_unit_test(test_ten_thousand), cmocka_unit_test(test_user_memory),
        cmocka_unit_test(test_user_objects),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
