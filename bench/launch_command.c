/* SPDX-License-Identifier: Apache-2.0 */
/* `telpher-bench launch`: becomes the program that was built for the MPI it runs under. */
#include "launch.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

int
launch_main(int argc, char **argv)
{
    struct launch_options o;
    char self[PATH_MAX] = "", path[PATH_MAX + 64];
    const char *mpi;
    ssize_t len;
    int code = launch_parse_options(argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    mpi = ranks_mpi_flavour(o.mpi);
    len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    snprintf(path, sizeof(path), "%s/../libexec/telpher/telpher-bench-launch-%s",
             len > 0 ? dirname(self) : ".", mpi);
    execv(path, argv);
    fprintf(stderr,
            "telpher-bench: launch is not here for this MPI (package telpher-%s): %s: "
            "%s\n",
            mpi, path, strerror(errno));
    return EXIT_FAILURE;
}
