/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-buffers of NVIDIA's driver are released from the last one back, and do not migrate. With
 * any other driver they are released at once. The test driver has the vendor's number.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/test/test_driver.h"

enum { SUBS = 3, SUB_SIZE = 4096, MEMS_MAX = 64 };

struct test_daemon the_daemon;

static int
open_nvidia(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_VENDOR", "4318");
}

static int
open_other(void **state)
{
    return test_open_driver_scene(state, NULL, NULL);
}

static uint64_t
put_sub_buffer(struct test_scene *c, unsigned at)
{
    const struct tp_wire_sub_buffer_create m = {.mem = test_id(&c->s, TP_WIRE_KIND_MEM),
                                                .parent = c->mem,
                                                .flags = CL_MEM_READ_WRITE,
                                                .origin = (uint64_t)at * SUB_SIZE,
                                                .size = SUB_SIZE};

    test_put(&c->s, TP_WIRE_SUB_BUFFER_CREATE, &m);
    return m.mem;
}

/* Numbers of the driver's memory objects that were created or destroyed, in that order. */
static unsigned
read_mems(const char *what, unsigned *mems)
{
    char line[256], format[32];
    unsigned count = 0;
    FILE *f = test_driver_log();

    (void)snprintf(format, sizeof(format), "%s mem=%%u", what);
    while (fgets(line, sizeof(line), f) != NULL && count < MEMS_MAX) {
        count += sscanf(line, format, &mems[count]) == 1; /* NOLINT(cert-err34-c) */
    }
    (void)fclose(f);
    return count;
}

/* The driver's sub-buffers that have gone, by the turn in which they came, as "0", "21". */
static void
expect_gone(struct test_scene *c, const char *expected)
{
    unsigned came[MEMS_MAX], gone[MEMS_MAX], came_count, gone_count;
    char text[MEMS_MAX] = "";

    test_expect_alive(&c->s); /* the reader has handled the releases */
    came_count = read_mems("created", came);
    gone_count = read_mems("destroyed", gone);
    assert_true(came_count >= SUBS);
    for (unsigned i = 0; i < gone_count; i++) {
        for (unsigned k = 0; k < SUBS; k++) {
            if (gone[i] == came[came_count - SUBS + k]) {
                text[strlen(text)] = (char)('0' + k);
            }
        }
    }
    assert_string_equal(text, expected);
}

static void
test_released_in_turn(void **state)
{
    struct test_scene *c = *state;
    uint64_t subs[SUBS];

    for (unsigned i = 0; i < SUBS; i++) {
        subs[i] = put_sub_buffer(c, i);
    }
    test_release(c, subs[1]);
    expect_gone(c, "");
    test_release(c, c->mem);
    test_release(c, subs[2]);
    expect_gone(c, "21");
    test_release(c, subs[0]);
    expect_gone(c, "210");
}

static void
test_released_at_once(void **state)
{
    struct test_scene *c = *state;
    uint64_t subs[SUBS];

    for (unsigned i = 0; i < SUBS; i++) {
        subs[i] = put_sub_buffer(c, i);
    }
    test_release(c, subs[1]);
    expect_gone(c, "1");
    test_release(c, subs[0]);
    test_release(c, subs[2]);
    expect_gone(c, "102");
}

/* Migrates a sub-buffer. @return how often the driver was called for it */
static unsigned
migrate(struct test_scene *c)
{
    const struct tp_wire_migrate m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                      .queue = c->queue,
                                      .flags = TP_WIRE_NOTIFY,
                                      .mems = TEST_IDS(put_sub_buffer(c, 1))};

    test_put(&c->s, TP_WIRE_MIGRATE, &m);
    test_expect_success(c, m.event);
    return test_driver_calls("clEnqueueMigrateMemObjects");
}

static void
test_migrates_not(void **state)
{
    assert_int_equal(migrate(*state), 0);
}

static void
test_migrates(void **state)
{
    assert_int_equal(migrate(*state), 1);
}

#define WITH(open, test)                                                               \
    cmocka_unit_test_setup_teardown(test, open, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_nvidia, test_released_in_turn),
        WITH(open_other, test_released_at_once),
        WITH(open_nvidia, test_migrates_not),
        WITH(open_other, test_migrates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
