/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory, seen from the driver's side: the log of the test driver says which buffers
 * over host memory there are, and it touches that memory when they end. Each test has a
 * daemon of its own, since the driver's script is in the environment.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "daemon/test/test_driver.h"

enum {
    SLABS = 5, /* kinds of staging */
    MEMS_MAX = 1024,
    HUGE = 600 << 20, /* [bytes] two are more than is pinned */
};

struct test_daemon the_daemon;

/** Buffers over host memory in the log of the executor. */
struct pins {
    unsigned made, alive;
    uint64_t last_size;
    bool context_first; /* a context ended while it had some */
};

/* ---- the driver's log ---- */

struct reading {
    unsigned context; /* of the call under way */
    unsigned long long flags;
    uint64_t size;
    unsigned owner[MEMS_MAX]; /* context of each pin that is alive */
};

static void
read_line(const char *line, struct reading *r, struct pins *p)
{
    unsigned id;
    size_t size;

    if (sscanf(line, "clCreateBuffer context=%u flags=%llx size=%zu", &id, &r->flags,
               &size) == 3) {
        r->context = id;
        r->size = size;
    } else if (sscanf(line, "created mem=%u", &id) == 1 && id < MEMS_MAX &&
               (r->flags & CL_MEM_USE_HOST_PTR) != 0) {
        r->owner[id] = r->context;
        p->made++;
        p->alive++;
        p->last_size = r->size;
    } else if (sscanf(line, "destroyed mem=%u", &id) == 1 && id < MEMS_MAX &&
               r->owner[id] != 0) {
        r->owner[id] = 0;
        p->alive--;
    } else if (sscanf(line, "destroyed context=%u", &id) == 1) {
        for (unsigned i = 0; i < MEMS_MAX; i++) {
            p->context_first = p->context_first || r->owner[i] == id;
        }
    }
}

static struct pins
read_log(void)
{
    struct reading r = {0};
    struct pins p = {0};
    char line[256];
    FILE *f = test_driver_log();

    while (fgets(line, sizeof(line), f) != NULL) {
        read_line(line, &r, &p);
    }
    (void)fclose(f);
    return p;
}

/* Counts of pinned memory after the executor has executed all frames sent so far. */
static struct pins
look(struct test_scene *c)
{
    test_expect_alive(&c->s);
    return read_log();
}

static void
wait_for_alive(unsigned count)
{
    tp_ns deadline = tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S);

    while (read_log().alive != count) {
        assert_false(tp_clock_passed(deadline));
        tp_clock_sleep(10 * TP_CLOCK_MS);
    }
}

/* ---- scenes ---- */

static int
open_discrete(void **state)
{
    return test_open_driver_scene(state, NULL, NULL);
}

static int
open_unified(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_UNIFIED", "1");
}

/* The second slab and the first region: calls 1 to 5 are slabs, 6 is the buffer. */
static int
open_failing(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_FAIL",
                                  "clCreateBuffer:CL_OUT_OF_RESOURCES:2,"
                                  "clCreateBuffer:CL_MEM_OBJECT_ALLOCATION_FAILURE:7");
}

static void
unshare(struct test_scene *c, uint32_t region)
{
    struct tp_wire_unshare m = {.region = region};

    test_put(&c->s, TP_WIRE_UNSHARE, &m);
}

static void
expect_content(struct test_scene *c)
{
    const size_t half = TEST_MEMORY / 2;

    test_fill(c->memory, half, 5);
    test_write_whole(c, 0, half);
    memset(c->memory + half, 0, half);
    test_read_whole(c, half, half);
    assert_memory_equal(c->memory, c->memory + half, half);
}

/* ---- tests ---- */

static void
test_once_each(void **state)
{
    struct test_scene *c = *state;
    struct pins p = look(c);

    assert_int_equal(p.made, SLABS + 1);
    assert_int_equal(p.alive, SLABS + 1);
    assert_int_equal(p.last_size, TEST_MEMORY);
    expect_content(c);
    assert_int_equal(look(c).made, SLABS + 1);
    unshare(c, 1);
    p = look(c);
    assert_int_equal(p.alive, SLABS);
    assert_int_equal(p.made, SLABS + 1);
}

/* Content over a bulk stream goes through slabs and chunks beyond them. */
static void
test_bulk_content(void **state)
{
    struct test_scene *c = *state;
    struct tp_wire_write write = {.queue = c->queue,
                                  .mem = c->mem,
                                  .flags = TP_WIRE_NOTIFY,
                                  .size = TEST_MEMORY,
                                  .transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER)};
    struct tp_wire_read read = {.queue = c->queue,
                                .mem = c->mem,
                                .flags = TP_WIRE_NOTIFY,
                                .size = TEST_MEMORY,
                                .transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER)};
    uint8_t *got = malloc(TEST_MEMORY);

    write.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    read.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_session_bulk(&c->s, &the_daemon);
    test_fill(c->memory, TEST_MEMORY, 6);
    test_put(&c->s, TP_WIRE_WRITE, &write);
    test_flush(&c->s);
    test_send_content(&c->s, write.transfer, 0, c->memory, TEST_MEMORY);
    test_expect_success(c, write.event);
    test_put(&c->s, TP_WIRE_READ, &read);
    test_receive_content(&c->s, got, TEST_MEMORY);
    test_expect_success(c, read.event);
    assert_memory_equal(got, c->memory, TEST_MEMORY);
    free(got);
}

/* Contexts come and go; each has pins of its own, which end before it does. */
static void
test_contexts(void **state)
{
    struct test_scene *c = *state;
    struct test_scene first = *c;
    struct pins p;

    test_make_objects(c);
    assert_int_equal(look(c).alive, 2 * (SLABS + 1));
    test_release(c, first.context); /* its queue and its buffer hold it */
    assert_int_equal(look(c).alive, 2 * (SLABS + 1));
    assert_int_equal(test_share(c, 2, 4096, test_make_file(4096, TEST_SEALS)),
                     TELPHER_OK);
    assert_int_equal(look(c).alive, 2 * (SLABS + 1) + 1); /* not for the first */
    test_release(c, first.mem);
    test_release(c, first.queue);
    p = look(c);
    assert_int_equal(p.alive, SLABS + 2);
    assert_false(p.context_first);
    expect_content(c);
    test_release(c, c->mem);
    test_release(c, c->queue);
    test_release(c, c->context);
    (void)look(c);
    wait_for_alive(0); /* the read's event may still hold the context */
    p = look(c);
    assert_false(p.context_first);
    unshare(c, 1);
    test_make_objects(c);
    assert_int_equal(look(c).alive, SLABS + 1); /* region 2 */
}

/* A region that a command uses stays pinned, though the client lets go of it. */
static void
test_in_use(void **state)
{
    struct test_scene *c = *state;
    struct tp_wire_user_event_create gate = {
        .event = test_id(&c->s, TP_WIRE_KIND_EVENT), .context = c->context};
    struct tp_wire_user_event_set set = {.event = gate.event, .status = CL_COMPLETE};
    struct tp_wire_write m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                              .queue = c->queue,
                              .mem = c->mem,
                              .flags = TP_WIRE_NOTIFY | TP_WIRE_SHARED,
                              .size = TEST_MEMORY,
                              .transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER),
                              .wait = {1, &gate.event}};

    test_put(&c->s, TP_WIRE_USER_EVENT_CREATE, &gate);
    test_put_piece(c, m.transfer, 0, TEST_MEMORY, 0);
    test_put(&c->s, TP_WIRE_WRITE, &m);
    unshare(c, 1);
    assert_int_equal(look(c).alive, SLABS + 1);
    test_put(&c->s, TP_WIRE_USER_EVENT_SET, &set);
    test_expect_success(c, m.event);
    test_release(c, m.event);
    test_flush(&c->s);
    wait_for_alive(SLABS);
}

/* The context ends with the last command, in a thread of the driver; the region with it. */
static void
test_all_at_once(void **state)
{
    struct test_scene *c = *state;

    for (int i = 0; i < 50; i++) {
        uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;

        test_put_piece(c, transfer, 0, TEST_MEMORY, 0);
        event = test_put_write(c, transfer, TEST_MEMORY);
        test_release(c, event);
        test_release(c, c->mem);
        test_release(c, c->queue);
        test_release(c, c->context);
        unshare(c, 1);
        test_flush(&c->s);
        wait_for_alive(0);
        test_make_objects(c);
        assert_int_equal(
            test_share(c, 1, TEST_MEMORY, test_make_file(TEST_MEMORY, TEST_SEALS)),
            TELPHER_OK);
    }
    assert_false(read_log().context_first);
}

static void
test_unified(void **state)
{
    struct test_scene *c = *state;

    expect_content(c);
    assert_int_equal(look(c).made, 0);
}

/* Memory that cannot be pinned is used unpinned. */
static void
test_failing(void **state)
{
    struct test_scene *c = *state;

    assert_int_equal(look(c).made, SLABS - 1);
    expect_content(c);
    test_bulk_content(state);
    unshare(c, 1);
    assert_int_equal(test_share(c, 1, 4096, test_make_file(4096, TEST_SEALS)),
                     TELPHER_OK);
    assert_int_equal(look(c).made, SLABS);
}

/* Files without content would get pages by being pinned: not without end. */
static void
test_too_much(void **state)
{
    struct test_scene *c = *state;

    for (uint32_t region = 2; region < 4; region++) {
        assert_int_equal(test_share(c, region, HUGE, test_make_file(HUGE, TEST_SEALS)),
                         TELPHER_OK);
        assert_int_equal(look(c).alive, SLABS + 2);
    }
    unshare(c, 2);
    assert_int_equal(look(c).alive, SLABS + 1);
    assert_int_equal(test_share(c, 2, HUGE, test_make_file(HUGE, TEST_SEALS)),
                     TELPHER_OK);
    assert_int_equal(look(c).alive, SLABS + 2);
    expect_content(c);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once_each, open_discrete,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_bulk_content, open_discrete,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_contexts, open_discrete,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_in_use, open_discrete,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_all_at_once, open_discrete,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_unified, open_unified,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_failing, open_failing,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_too_much, open_discrete,
                                        test_close_driver_scene),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
