/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and starts what is installed with telpher-bench; see helper.h. */
#include "bench/helper.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
bench_helper_path(const char *relative, char *ret_path, size_t size)
{
    char self[PATH_MAX] = "";
    const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    snprintf(ret_path, size, "%s/%s", len > 0 ? dirname(self) : ".", relative);
}

int
bench_helper_exec(const char *relative, char **argv, const char *package)
{
    char path[PATH_MAX + 64];

    bench_helper_path(relative, path, sizeof(path));
    argv[0] = path;
    fflush(NULL);
    execv(path, argv);
    fprintf(stderr, "telpher-bench: cannot run %s: %s; install the package %s\n", path,
            strerror(errno), package);
    return EXIT_FAILURE;
}

int
bench_helper_script(const char *name, int argc, char **argv)
{
    char relative[64], path[PATH_MAX + 64];
    char **args = calloc((size_t)argc + 2, sizeof(*args));

    if (args == NULL) {
        fputs("telpher-bench: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    snprintf(relative, sizeof(relative), "../libexec/telpher/%s", name);
    bench_helper_path(relative, path, sizeof(path));
    args[0] = (char *)"python3";
    args[1] = path;
    memcpy(args + 2, argv + 1, (size_t)(argc - 1) * sizeof(*args));
    fflush(NULL);
    execvp(args[0], args);
    fprintf(stderr, "telpher-bench: %s needs Python: %s; install the package python3\n",
            argv[0], strerror(errno));
    free(args);
    return EXIT_FAILURE;
}
