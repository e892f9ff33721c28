/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of hiding our own ICD, on made-up vendor directories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/opencl/api.h"
#include "waist/device.h"

struct vendors {
    char dir[64];
    char path[128];
};

static void
write_icd(struct vendors *v, const char *name, const char *line)
{
    FILE *f;

    (void)snprintf(v->path, sizeof(v->path), "%s/%s", v->dir, name);
    f = fopen(v->path, "w");
    assert_non_null(f);
    (void)fputs(line, f);
    assert_int_equal(fclose(f), 0);
}

static int
set_up(void **state)
{
    static struct vendors v;

    (void)strcpy(v.dir, "/tmp/vendors-test-XXXXXX");
    assert_non_null(mkdtemp(v.dir));
    (void)unsetenv("OPENCL_VENDOR_PATH");
    (void)unsetenv("OCL_ICD_FILENAMES");
    (void)setenv("OCL_ICD_VENDORS", v.dir, 1);
    *state = &v;
    return 0;
}

static int
tear_down(void **state)
{
    struct vendors *v = *state;

    tp_opencl_vendors_remove(v->dir);
    assert_int_not_equal(access(v->dir, F_OK), 0);
    return 0;
}

static void
test_foreign_only(void **state)
{
    struct vendors *v = *state;
    char made[256];

    write_icd(v, "a.icd", "libpocl.so.2\n");
    assert_int_equal(tp_opencl_vendors_hide(made, sizeof(made), NULL), TELPHER_OK);
    assert_string_equal(made, "");
    assert_string_equal(getenv("OCL_ICD_VENDORS"), v->dir);
    tp_opencl_vendors_remove(made);
}

static void
test_ours_is_left_out(void **state)
{
    struct vendors *v = *state;
    char made[256], path[300], line[64];
    FILE *f;

    write_icd(v, "a.icd", "libpocl.so.2\n");
    write_icd(v, "telpher.icd", "/usr/lib/libtelpher-opencl.so.0\n");
    write_icd(v, "README", "libtelpher-opencl\n");
    assert_int_equal(tp_opencl_vendors_hide(made, sizeof(made), NULL), TELPHER_OK);
    assert_string_equal(getenv("OCL_ICD_VENDORS"), made);
    (void)snprintf(path, sizeof(path), "%s/a.icd", made);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    assert_string_equal(line, "libpocl.so.2\n");
    (void)fclose(f);
    (void)snprintf(path, sizeof(path), "%s/telpher.icd", made);
    assert_int_not_equal(access(path, F_OK), 0);
    tp_opencl_vendors_remove(made);
    assert_int_not_equal(access(made, F_OK), 0);
    (void)snprintf(path, sizeof(path), "%s/README", v->dir);
    assert_int_equal(unlink(path), 0);
}

static void
test_single_file_and_library(void **state)
{
    struct vendors *v = *state;
    char made[256];

    write_icd(v, "telpher.icd", "libtelpher-opencl.so.0\n");
    (void)setenv("OCL_ICD_VENDORS", v->path, 1);
    assert_int_equal(tp_opencl_vendors_hide(made, sizeof(made), NULL), TELPHER_OK);
    assert_string_equal(getenv("OCL_ICD_VENDORS"), made);
    tp_opencl_vendors_remove(made);
    (void)setenv("OCL_ICD_VENDORS", "/opt/lib/libtelpher-opencl.so", 1);
    (void)setenv("OCL_ICD_FILENAMES", "a.so:/x/libtelpher-opencl.so.0:b.so", 1);
    assert_int_equal(tp_opencl_vendors_hide(made, sizeof(made), NULL), TELPHER_OK);
    assert_string_equal(getenv("OCL_ICD_VENDORS"), made);
    assert_string_equal(getenv("OCL_ICD_FILENAMES"), "a.so:b.so");
    tp_opencl_vendors_remove(made);
}

static void
test_error_names(void **state)
{
    (void)state;
    assert_string_equal(tp_opencl_error_name(CL_SUCCESS), "CL_SUCCESS");
    assert_string_equal(tp_opencl_error_name(CL_INVALID_KERNEL_ARGS),
                        "CL_INVALID_KERNEL_ARGS");
    assert_string_equal(tp_opencl_error_name(CL_PLATFORM_NOT_FOUND_KHR),
                        "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(tp_opencl_error_name(-25), "unknown CL error");
    assert_string_equal(tp_opencl_error_name(INT32_MIN), "unknown CL error");
    assert_string_equal(tp_opencl_error_name(1), "unknown CL error");
}

/* Every stretch of a box is covered once and in order, in few pieces. */
static void
test_box_cut(void **state)
{
    const struct tp_device_box box = {
        .origin = {3, 2, 1}, .region = {5, 4, 6}, .row_pitch = 16, .slice_pitch = 160};
    uint64_t size = tp_device_box_size(&box);

    (void)state;
    for (uint64_t from = 0; from < size; from++) {
        for (uint64_t to = from + 1; to <= size; to++) {
            struct tp_device_box piece;
            uint64_t pos = from;
            int pieces = 0;

            while (pos < to) {
                pos += tp_device_box_cut(&box, pos, to - pos, &piece);
                pieces++;
            }
            assert_int_equal(pos, to);
            assert_in_range(pieces, 1, TP_DEVICE_PIECES_MAX);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_foreign_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ours_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_single_file_and_library, set_up,
                                        tear_down),
        cmocka_unit_test(test_error_names),
        cmocka_unit_test(test_box_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
