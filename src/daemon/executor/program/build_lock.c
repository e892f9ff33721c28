/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets one executor of a user build a program at a time. PoCL 3.1 removes the file of a
 * program from its cache before it writes the file again; another process that reads it
 * meanwhile fails the build, or aborts.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/os/clock.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/guard_int.h"
#include "daemon/executor/quirks.h"

#define FILE_NAME "telpher-builds.lock"
#define WAIT_TIME (20 * TP_CLOCK_S) /* a build may take without end */
#define LOOK_TIME (5 * TP_CLOCK_MS)

/* Opens the file of locks in the cache of PoCL, the driver that needs them. */
static int
open_file(void)
{
    char *folder = tp_exec_driver_cache("pocl");
    char *name =
        folder != NULL ? tp_asprintf("build lock", "%s/" FILE_NAME, folder) : NULL;
    int fd =
        name != NULL ? open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;

    tp_free(name);
    tp_free(folder);
    return fd;
}

/* Each program has a byte of the file. */
static off_t
place_of(const struct tp_exec_build *build, const char *options)
{
    const struct tp_exec_program *p = build->program;
    uint64_t sum = tp_hash_add(TP_HASH_START, options, strlen(options));

    if (p->text != NULL) {
        sum = tp_hash_add(sum, p->text, p->text_len);
    }
    return (off_t)(sum & INT32_MAX);
}

int
tp_exec_build_lock(const struct tp_exec_build *build, const char *options)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    tp_ns deadline = tp_clock_deadline(WAIT_TIME);
    int fd;

    if (!tp_exec_has_quirk(build->program->obj.x, TP_EXEC_QUIRK_BUILD_CACHE_ABORTS)) {
        return -1;
    }
    fd = open_file();
    lock.l_start = place_of(build, options);
    while (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) != 0 && errno == EAGAIN) {
        if (tp_clock_passed(deadline)) {
            tp_info("executor", "another executor has built the same program for 20 s; "
                                "building it as well");
            break;
        }
        tp_clock_sleep(LOOK_TIME);
    }
    return fd;
}

void
tp_exec_build_unlock(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}
