/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: memory_fault_test refused|failed: what becomes of copies when a driver refuses to
 * take them, or takes them and fails. The environment tells the test driver to do that to
 * every clEnqueueWriteBuffer (TESTDRV_FAIL), and counts what is left at the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "core/comm/mem/mem.h"
#include "device/opencl/memory/memory.h"

const struct tp_device_maker *const tp_builtin_devices[] = {&tp_opencl_maker, NULL};

static bool refused;

struct noted {
    struct tp_device_copy copy;
    unsigned ended;
    int32_t error;
};

static void
note(struct tp_device_copy *copy, int32_t error)
{
    struct noted *n = tp_container_of(copy, struct noted, copy);

    n->ended++;
    n->error = error;
}

static void
test_writes(void **state)
{
    struct tp_mems *mems;
    struct tp_mem_place place;
    struct noted writes[3] = {{.ended = 0}}, read = {.copy.done = note};
    char bytes[100] = {0};
    void *ptr;

    (void)state;
    assert_int_equal(tp_mems_create(NULL, &mems, NULL), TELPHER_OK);
    assert_int_equal(tp_mems_alloc(mems, TELPHER_MEM_OPENCL, 4096, &ptr), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, ptr, 4096, &place), TELPHER_OK);
    for (int i = 0; i < 3; i++) {
        writes[i].copy.done = note;
        assert_int_equal(tp_mems_write(mems, &place, 100, bytes, &writes[i].copy),
                         refused ? TELPHER_ERR_NO_MEMORY : TELPHER_OK);
    }
    assert_int_equal(tp_mems_read(mems, &place, 100, bytes, &read.copy), TELPHER_OK);
    while (tp_mems_pending(mems) > 0) {
        (void)tp_mems_progress(mems);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(writes[i].ended, refused ? 0 : 1);
        assert_int_equal(writes[i].error, refused ? 0 : TELPHER_ERR_DEVICE);
    }
    assert_int_equal(read.ended, 1);
    assert_int_equal(read.error, 0);
    assert_int_equal(tp_mems_copy(mems, ptr, bytes, 100),
                     refused ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_DEVICE);
    /* it could not be measured, and has chunks all the same */
    assert_true(tp_mems_chunk_bytes(mems, place.device) >= 4096);
    tp_mems_destroy(mems);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),
    };

    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s refused|failed\n", argv[0]);
        return 2;
    }
    refused = strcmp(argv[1], "refused") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
