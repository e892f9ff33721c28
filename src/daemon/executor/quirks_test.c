/* SPDX-License-Identifier: Apache-2.0 */
/* The table of driver quirks is complete and true, and drivers are recognised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/executor/executor.h"
#include "daemon/executor/quirks.h"
#include "device/opencl/watch.h"

static const char *platform_name;
static cl_uint vendor;

static CL_API_ENTRY cl_int CL_API_CALL
fake_platform_info(cl_platform_id platform, cl_platform_info param, size_t size,
                   void *value, size_t *size_ret)
{
    (void)platform, (void)size_ret;
    assert_int_equal(param, CL_PLATFORM_NAME);
    (void)snprintf(value, size, "%s", platform_name);
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_int CL_API_CALL
fake_device_info(cl_device_id device, cl_device_info param, size_t size, void *value,
                 size_t *size_ret)
{
    (void)device, (void)size_ret;
    assert_int_equal(param, CL_DEVICE_VENDOR_ID);
    memcpy(value, &vendor, size);
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_int CL_API_CALL
fake_flush(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

/* Gives @p x the driver that the fakes describe. */
static void
init_session(struct tp_exec *x, const char *name, cl_uint its_vendor)
{
    static cl_platform_id platforms[1];
    static struct tp_opencl_device devices[1];

    memset(x, 0, sizeof(*x));
    memset(devices, 0, sizeof(devices));
    devices[0].id = (cl_device_id)(void *)devices;
    platform_name = name;
    vendor = its_vendor;
    x->cl.GetPlatformInfo = fake_platform_info;
    x->cl.GetDeviceInfo = fake_device_info;
    x->cl.Flush = fake_flush;
    x->inventory.platforms = platforms;
    x->inventory.platform_count = 1;
    x->inventory.devices = devices;
    x->inventory.device_count = 1;
    tp_exec_quirks_init(x);
}

static void
assert_file(const char *path)
{
    char whole[512];

    (void)snprintf(whole, sizeof(whole), "%s/%s", SOURCE_FOLDER, path);
    if (access(whole, R_OK) != 0) {
        fail_msg("the table names %s, which does not exist", path);
    }
}

static void
rows_are_complete(void **state)
{
    (void)state;
    for (int i = 0; i < TP_EXEC_QUIRK_COUNT; i++) {
        const struct tp_exec_quirk_row *row = tp_exec_quirk_row(i);

        assert_non_null(row->id);
        assert_non_null(row->driver);
        assert_non_null(row->symptom);
        assert_non_null(row->remedy);
        assert_int_equal(row->match == TP_EXEC_PLATFORM_NAME, row->name != NULL);
        assert_int_equal(row->match == TP_EXEC_DEVICE_VENDOR, row->vendor != 0);
        assert_file(row->where);
        assert_file(row->test);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(row->id, tp_exec_quirk_row(k)->id);
        }
    }
}

static void
other_drivers_are_left_alone(void **state)
{
    struct tp_exec x;

    (void)state;
    init_session(&x, "Portable Computing Language", 0x10006);
    assert_false(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_NOT_THREAD_SAFE));
    assert_false(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_LATE_CALLBACKS));
    assert_false(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS));
    assert_true(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_QUEUE_STUCK_AFTER_FAILURE));
#ifdef NDEBUG /* debug builds check the locks of each call */
    assert_ptr_equal(x.cl.Flush, fake_flush);
#endif
    assert_false(tp_opencl_watches());
    tp_exec_found_quirk(&x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS);
    assert_true(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS));
}

static void
oclgrind_takes_one_call(void **state)
{
    struct tp_exec x;

    (void)state;
    init_session(&x, "Oclgrind", 0);
    assert_true(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_NOT_THREAD_SAFE));
    assert_ptr_not_equal(x.cl.Flush, fake_flush);
    assert_false(x.bare_launches);
}

static void
nvidia_is_watched(void **state)
{
    struct tp_exec x;

    (void)state;
    init_session(&x, "NVIDIA CUDA", 0x10de);
    assert_true(tp_exec_has_quirk(&x, TP_EXEC_QUIRK_LATE_CALLBACKS));
    assert_true(tp_opencl_watches());
    assert_true(x.bare_launches);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(other_drivers_are_left_alone),
        cmocka_unit_test(oclgrind_takes_one_call),
        cmocka_unit_test(nvidia_is_watched), /* last: the watching thread stays */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
