/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that speaks the protocol and means ill, or is careless: its session may end, but
 * not grow, and not take its executor down by a crash. Skipped where telpherd finds no device.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "daemon/test/test_session.h"

static struct test_daemon the_daemon;
static struct test_session s;
static uint64_t context, mem;

static uint64_t
make_queue(uint64_t properties)
{
    struct tp_wire_queue_create m = {.context = context, .properties = properties};

    m.queue = test_id(&s, TP_WIRE_KIND_QUEUE);
    test_put(&s, TP_WIRE_QUEUE_CREATE, &m);
    return m.queue;
}

static void
open_session(const char *const *options)
{
    struct tp_wire_context_create c = {.devices = TEST_IDS(0)};
    struct tp_wire_buffer_create b = {.flags = CL_MEM_READ_WRITE, .size = 4096};

    test_daemon_start(&the_daemon, options);
    test_daemon_need(&the_daemon, NULL, "an OpenCL device");
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    context = c.context = b.context = test_id(&s, TP_WIRE_KIND_CONTEXT);
    mem = b.mem = test_id(&s, TP_WIRE_KIND_MEM);
    test_put(&s, TP_WIRE_CONTEXT_CREATE, &c);
    test_put(&s, TP_WIRE_BUFFER_CREATE, &b);
}

static void
close_session(void)
{
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
    test_daemon_stop(&the_daemon);
}

static void
release(uint64_t id)
{
    test_put(&s, TP_WIRE_RELEASE, &(struct tp_wire_release){.ids = {1, &id}});
}

static void
put_fill(uint64_t queue)
{
    const struct tp_wire_fill m = {
        .queue = queue, .mem = mem, .size = 64, .pattern = TEST_TEXT("abcd")};

    test_put(&s, TP_WIRE_FILL, &m);
}

/*
 * Commands without events or waits, in queues that are then released: after completion they
 * must not count as objects of the session.
 */
static void
test_unasked_commands(void **state)
{
    enum { ROUNDS = 40, COMMANDS = 50 };
    const char *const options[] = {"--max-objects", "1000", NULL};
    const uint64_t properties[] = {0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};

    (void)state;
    open_session(options);
    for (size_t i = 0; i < ROUNDS; i++) {
        uint64_t queue = make_queue(properties[i % TP_ARRAY_LEN(properties)]);

        for (int k = 0; k < COMMANDS; k++) {
            put_fill(queue);
        }
        release(queue);
        test_expect_alive(&s);
        tp_clock_sleep(5 * TP_CLOCK_MS); /* for the driver to run them */
    }
    close_session();
}

/* A command that waits for itself, or for one that only comes behind it. */
static void
test_waits_for_itself(void **state)
{
    uint64_t queue, later;
    struct tp_wire_done done;

    (void)state;
    open_session(NULL);
    queue = make_queue(0);
    for (int i = 0; i < 2; i++) {
        struct tp_wire_marker m = {.queue = queue, .flags = TP_WIRE_NOTIFY};

        m.event = test_id(&s, TP_WIRE_KIND_EVENT);
        later = m.event + 1;
        m.wait = (struct tp_wire_u64s){1, i == 0 ? &m.event : &later};
        test_put(&s, TP_WIRE_MARKER, &m);
        test_expect_done(&s, m.event, &done);
        assert_int_equal(done.status, CL_INVALID_EVENT_WAIT_LIST);
    }
    test_expect_alive(&s);
    close_session();
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unasked_commands),
        cmocka_unit_test(test_waits_for_itself),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
