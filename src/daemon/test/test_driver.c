/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's script is in the environment, so each scene has a daemon of its own. */
#include "daemon/test/test_driver.h"

#include <stdlib.h>
#include <string.h>

static char log_folder[64];

int
test_open_driver_scene(void **state, const char *variable, const char *value)
{
    char log[80];

    (void)strcpy(log_folder, "/tmp/telpher-test-XXXXXX");
    assert_non_null(mkdtemp(log_folder));
    (void)snprintf(log, sizeof(log), "%s/%%p", log_folder);
    (void)setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    (void)setenv("TESTDRV_LOG", log, 1);
    if (variable != NULL) {
        (void)setenv(variable, value, 1);
    }
    test_daemon_start(&the_daemon, NULL);
    if (variable != NULL) {
        (void)unsetenv(variable);
    }
    return test_open_scene(state);
}

int
test_close_driver_scene(void **state)
{
    char command[128];
    int result = test_close_scene(state); /* an executor that spins would not end */

    test_daemon_stop(&the_daemon);
    (void)snprintf(command, sizeof(command), "rm -r %s", log_folder);
    return system(command) == 0 ? result : -1; /* NOLINT(cert-env33-c): a test */
}

FILE *
test_driver_log(void)
{
    char path[128];
    pid_t executor;
    FILE *f;

    assert_int_equal(test_daemon_children(&the_daemon, &executor, 1), 1);
    (void)snprintf(path, sizeof(path), "%s/%ld", log_folder, (long)executor);
    f = fopen(path, "r");
    assert_non_null(f);
    return f;
}

unsigned
test_driver_calls(const char *function)
{
    size_t len = strlen(function);
    FILE *log = test_driver_log();
    unsigned seen = 0;
    char line[256];

    while (fgets(line, sizeof(line), log) != NULL) {
        seen += strncmp(line, function, len) == 0 && line[len] == ' ';
    }
    (void)fclose(log);
    return seen;
}

void
test_use_new_queue(struct test_scene *c, uint64_t properties)
{
    struct tp_wire_queue_create m = {.context = c->context, .properties = properties};

    c->queue = m.queue = test_id(&c->s, TP_WIRE_KIND_QUEUE);
    test_put(&c->s, TP_WIRE_QUEUE_CREATE, &m);
}
