/* SPDX-License-Identifier: Apache-2.0 */
/* telpher cluster: runs telpher-cluster, which lies beside this program. */
#include "telpher.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
command_cluster(int argc, char **argv)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - sizeof("-cluster"));

    (void)argc;
    if (len <= 0) {
        return failure("cannot tell where this program is: %s", strerror(errno));
    }
    memcpy(path + len, "-cluster", sizeof("-cluster"));
    execv(path, argv);
    return failure("%s: %s", path, strerror(errno));
}
