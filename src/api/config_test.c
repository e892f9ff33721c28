/* SPDX-License-Identifier: Apache-2.0 */
/* libtelpher lists the settings of all of Telpher, and gives the value of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api_int.h"

static const char *value_of_log, *value_of_servers;
static unsigned listed;
static bool has_offload, has_rma, has_daemon;

static void
take(void *user, const telpher_config_info *info)
{
    (void)user;
    listed++;
    assert_int_equal(info->struct_size, sizeof(*info));
    assert_memory_equal(info->name, "TELPHER_", 8);
    assert_true(info->help[0] != '\0' && info->type[0] != '\0');
    if (strcmp(info->name, "TELPHER_LOG") == 0) {
        assert_string_equal(info->room, "base");
        value_of_log = info->value;
    } else if (strcmp(info->name, "TELPHER_SERVERS") == 0) {
        assert_string_equal(info->room, "opencl");
        value_of_servers = info->value;
    }
    has_offload |= strcmp(info->name, "TELPHER_OFFLOAD_IDLE") == 0;
    has_rma |= strcmp(info->name, "TELPHER_RMA_CHECK") == 0;
    has_daemon |= strcmp(info->name, "TELPHER_MAX_SESSIONS") == 0;
}

static void
all_settings_are_listed_with_values(void **state)
{
    char path[] = "/tmp/telpher_api_config.XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "servers = a,b\nlog = warn\n", 25), 25);
    close(fd);
    setenv("TELPHER_CONFIG", path, 1);
    setenv("TELPHER_LOG", "error,core:debug", 1);
    telpher_config_describe(take, NULL);
    assert_string_equal(value_of_log, "error,core:debug"); /* the environment wins */
    assert_string_equal(value_of_servers, "a,b");
    assert_string_equal(telpher_config_get("TELPHER_SERVERS"), "a,b");
    assert_string_equal(telpher_config_get("SERVERS"), "a,b");
    assert_null(telpher_config_get("TELPHER_RANK"));
    assert_true(listed > 80);
    assert_true(has_offload && has_rma && has_daemon);
    unsetenv("TELPHER_LOG");
    unsetenv("TELPHER_CONFIG");
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_settings_are_listed_with_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
