/* SPDX-License-Identifier: Apache-2.0 */
/* telpher cluster, top and trace: runs the script telpher-COMMAND, which lies beside this program. */
#include "telpher.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
command_script(int argc, char **argv)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 32);

    if (len <= 0) {
        return failure("cannot tell where this program is: %s", strerror(errno));
    }
    (void)snprintf(path + len, sizeof(path) - (size_t)len, "-%s", argv[0]);
    execv(path, argv);
    return failure("%s: %s", path, strerror(errno));
}
