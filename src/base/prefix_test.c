/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of installations, and where their settings lie. */
#include "base/prefix.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/test_int.h"
#include "build_config.h"

static void
expect_prefix(const char *object, const char *wanted)
{
    char prefix[64];

    assert_int_equal(tp_prefix_of(object, prefix, sizeof(prefix)), TELPHER_OK);
    assert_string_equal(prefix, wanted);
}

static void
test_prefix(void **state)
{
    char prefix[8];

    (void)state;
    expect_prefix("/opt/t/" TP_BUILD_LIBDIR "/libtelpher.so.0.1", "/opt/t");
    expect_prefix("/opt/t/bin/telpher", "/opt/t");
    expect_prefix("/usr/bin/telpher", "/usr");
    expect_prefix("/bin/telpher", "");
    assert_int_equal(tp_prefix_of("telpher", prefix, sizeof(prefix)),
                     TELPHER_ERR_INVALID);
    assert_int_equal(tp_prefix_of("/far/too/long/bin/x", prefix, sizeof(prefix)),
                     TELPHER_ERR_RANGE);
}

static void
expect_file(const char *prefix, const char *wanted)
{
    char path[64];

    assert_int_equal(
        tp_prefix_settings_file(prefix, "telpher/x.conf", path, sizeof(path)),
        TELPHER_OK);
    assert_string_equal(path, wanted);
}

static void
test_settings_file(void **state)
{
    char path[8];

    (void)state;
    if (strcmp(TP_BUILD_SYSCONFDIR, "etc") != 0) {
        skip(); /* the build has a folder of its own */
    }
    expect_file("/usr", "/etc/telpher/x.conf");
    expect_file("/usr/local", "/etc/telpher/x.conf");
    expect_file("/opt/t", "/opt/t/etc/telpher/x.conf");
    expect_file("", "/etc/telpher/x.conf");
    assert_int_equal(tp_prefix_settings_file("/opt/t", "x", path, sizeof(path)),
                     TELPHER_ERR_RANGE);
}

/* This program lies in BUILD/src/base: its prefix is BUILD/src. */
static void
test_own_settings_file(void **state)
{
    char self[PATH_MAX], prefix[PATH_MAX], wanted[2 * PATH_MAX], path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)state;
    assert_true(len > 0);
    self[len] = '\0';
    assert_int_equal(tp_prefix_of(self, prefix, sizeof(prefix)), TELPHER_OK);
    assert_int_equal(tp_prefix_settings_file(prefix, "x", wanted, sizeof(wanted)),
                     TELPHER_OK);
    assert_int_equal(tp_prefix_own_settings_file("x", path, sizeof(path)), TELPHER_OK);
    assert_string_equal(path, wanted);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_settings_file),
        cmocka_unit_test(test_own_settings_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
