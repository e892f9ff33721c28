/* SPDX-License-Identifier: Apache-2.0 */
/* Gives drivers a folder for temporary files that other users cannot read. */
#include "device/opencl/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/trace/log.h"

static bool
is_set(const char *variable)
{
    const char *value = getenv(variable); /* NOLINT(concurrency-mt-unsafe) */

    return value != NULL && value[0] == '/';
}

bool
tp_opencl_temporary_folder(char name[PATH_MAX])
{
    const char *outer = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    bool made;
    int len = snprintf(name, PATH_MAX, "%s/telpher-%u",
                       outer != NULL && outer[0] == '/' ? outer : "/tmp",
                       (unsigned)geteuid());

    made = len >= 0 && len < PATH_MAX && (mkdir(name, 0700) == 0 || errno == EEXIST);
    if (!made) {
        tp_warn("opencl", "cannot make the folder %s for temporary files: %s", name,
                strerrordesc_np(errno));
    } else if (!tp_folder_is_own(name, 077)) {
        tp_warn(
            "opencl",
            "%s is not used for temporary files: it is no folder of this user alone; "
            "remove it",
            name);
    } else {
        /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
        (void)setenv("TMPDIR", name, 1);
        if (!is_set("HOME") && !is_set("XDG_CACHE_HOME")) {
            (void)setenv("XDG_CACHE_HOME", name, 1); /* else drivers use /tmp itself */
        }
        /* NOLINTEND(concurrency-mt-unsafe) */
        return true;
    }
    return false;
}
