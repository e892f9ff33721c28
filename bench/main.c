/* SPDX-License-Identifier: Apache-2.0 */
/* telpher-bench: the benchmarks of the project. Here is only the choice of the
 * command. */
#include "bench/bench.h"
#include "bench/helper.h"
#include "bench/launch/launch.h"
#include "bench/notified/notified.h"
#include "bench/ranks/compare.h"
#include "bench/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: telpher-bench COMMAND [OPTION]...\n"
    "Measures accelerators at the end of a network, or here.\n\n"
    "  ocl        an OpenCL driver: launches, transfers, creation, builds, discovery\n"
    "  migrate  content that goes back and forth between two devices or servers\n"
    "  floor    what plain TCP and memcpy cost, the floors of everything else\n"
    "  plot      pictures of results: telpher-bench plot FILE.json... -o OUT.png\n\n"
    "Between two ranks of a job, host or device memory, with OSU's options:\n"
    "  latency     half a round trip\n"
    "  put_notify  the same by puts with a notification\n"
    "  bw          bandwidth in one direction\n"
    "  bibw        bandwidth in both\n"
    "and between several pairs:\n"
    "  multi_lat   half a round trip\n"
    "  mbw_mr      bandwidth and message rate\n\n"
    "Between two ranks of an MPI program:\n"
    "  compare     a channel over shared memory and that MPI, in turns\n\n"
    "With parents and workers of an MPI program:\n"
    "  launch      what it costs to start kernels on the workers\n\n"
    "Between ranks of a kernel, light threads here:\n"
    "  notified    puts and notifications, with floors\n\n"
    "  -h, --help     this text; telpher-bench COMMAND --help has the options\n"
    "  -v, --version  the version\n";

static int
run_command(int argc, char **argv)
{
    const struct bench_runtime *const runtimes[] = {&bench_ocl, &bench_migrate,
                                                    &bench_floor};

    if (ranks_is_pattern(argv[1])) {
        return ranks_main(argv[0], argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "compare") == 0) {
        return compare_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "launch") == 0) {
        return launch_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "notified") == 0) {
        return notified_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "plot") == 0) {
        return bench_helper_script("telpher-bench-plot.py", argc - 1, argv + 1);
    }
    for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
        if (strcmp(argv[1], runtimes[i]->name) == 0) {
            return bench_helper_script("telpher-bench-turns.py", argc, argv);
        }
        if (argc > 2 && strcmp(argv[1], "measure") == 0 &&
            strcmp(argv[2], runtimes[i]->name) == 0) {
            return bench_run_main(runtimes[i], argc - 2, argv + 2);
        }
    }
    fprintf(stderr, "telpher-bench: no such command: %s\n%s", argv[1], usage);
    return 2;
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        fputs(usage, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0) {
        printf("telpher-bench %s\n", BENCH_VERSION);
        return EXIT_SUCCESS;
    }
    return run_command(argc, argv);
}
