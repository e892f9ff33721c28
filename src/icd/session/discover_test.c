/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery of servers that are down, silent or mad: left out, warned of once, in time. */
#include "icd/objects/platform.h"
#include "icd/world_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"
#include "base/trace/log.h"

enum {
    SERVERS = 4,
    TIMEOUT_MS = 400,
    TOLERANCE_MS = 1500, /* of a loaded machine */
};

static char dir[] = "/tmp/telpher-discover-XXXXXX";
static _Atomic int warnings;

static void
count_warning(void *user, enum tp_log_level level, const char *topic, const char *line,
              size_t len)
{
    (void)user, (void)topic, (void)line, (void)len;
    if (level == TP_LOG_WARN) {
        warnings++;
    }
}

static struct sockaddr_un
address_of(int server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%d", dir, server);
    return address;
}

static int
listen_at(int server)
{
    struct sockaddr_un address = address_of(server);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

/** Answers whatever comes with bytes that are no preface. */
static void *
talk_rubbish(void *arg)
{
    char rubbish[TP_WIRE_PREFACE_REPLY_BYTES];
    int fd = accept(*(int *)arg, NULL, NULL);
    ssize_t done;

    memset(rubbish, 'x', sizeof(rubbish));
    done = write(fd, rubbish, sizeof(rubbish));
    (void)done;
    close(fd);
    return NULL;
}

static void
bad_servers_are_left_out_in_time(void **state)
{
    struct tp_icd_server servers[SERVERS] = {{0}};
    int silent[2] = {listen_at(1), listen_at(2)}, mad = listen_at(3);
    tp_ns start = tp_clock_ns();
    pthread_t thread;

    (void)state;
    for (int i = 0; i < SERVERS; i++) {
        servers[i].address = tp_asprintf("address", "unix:%s/%d", dir, i);
    }
    assert_int_equal(tp_thread_create(&thread, "mad", talk_rubbish, &mad), TELPHER_OK);
    tp_icd_settings.connect_timeout_ns = TIMEOUT_MS * TP_CLOCK_MS;
    tp_icd_settings.cookie = (char[]){""};
    warnings = 0;
    assert_int_equal(tp_icd_discover(servers, SERVERS), TELPHER_OK);
    assert_true(tp_clock_ns() - start < (TIMEOUT_MS + TOLERANCE_MS) * TP_CLOCK_MS);
    assert_int_equal(warnings, SERVERS);
    for (int i = 0; i < SERVERS; i++) {
        assert_null(servers[i].facts);
        assert_null(servers[i].idle);
        tp_free(servers[i].address);
    }
    tp_thread_join(thread);
    close(silent[0]);
    close(silent[1]);
    close(mad);
}

static void
executors_see_no_platform(void **state)
{
    cl_uint count = 9;
    cl_platform_id platform = NULL;

    (void)state;
    setenv("TELPHER_EXECUTOR", "1", 1);
    setenv("TELPHER_SERVERS", dir, 1);
    assert_int_equal(tp_clGetPlatformIDs(1, &platform, &count),
                     CL_PLATFORM_NOT_FOUND_KHR);
    assert_int_equal(count, 0);
    assert_null(platform);
    assert_int_equal(tp_clGetPlatformIDs(0, &platform, &count), CL_INVALID_VALUE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_servers_are_left_out_in_time),
        cmocka_unit_test(executors_see_no_platform),
    };
    int failed;

    if (mkdtemp(dir) == NULL || tp_log_set_sink(count_warning, NULL) != TELPHER_OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < SERVERS; i++) {
        unlink(address_of(i).sun_path);
    }
    rmdir(dir);
    return failed;
}
