/* SPDX-License-Identifier: Apache-2.0 */
/* `telpher-bench launch`: becomes the program that was built for the MPI it runs under. */
#include "bench/helper.h"
#include "bench/launch/launch.h"
#include "bench/ranks/ranks.h"

#include <stdio.h>
#include <string.h>

int
launch_main(int argc, char **argv)
{
    struct launch_options o;
    char program[64], package[32];
    const char *mpi;
    int code;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--figures") == 0) {
            return bench_helper_script("telpher-bench-figures.py", argc, argv);
        }
    }
    code = launch_parse_options(argc, argv, &o);
    if (code >= 0) {
        return code;
    }
    mpi = ranks_mpi_flavour(o.mpi);
    snprintf(program, sizeof(program), "../libexec/telpher/telpher-bench-launch-%s",
             mpi);
    snprintf(package, sizeof(package), "telpher-%s", mpi);
    return bench_helper_exec(program, argv, package);
}
