/* SPDX-License-Identifier: Apache-2.0 */
/* telpher-bench: the benchmarks of the project. Here is only the choice of the
 * command. */
#include "bench/bench.h"
#include "bench/helper.h"
#include "bench/launch/launch.h"
#include "bench/mdr/mdr.h"
#include "bench/notified/notified.h"
#include "bench/ocl/reconnect.h"
#include "bench/ranks/compare.h"
#include "bench/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] =
    "Usage: telpher-bench COMMAND [OPTION]...\n"
    "Measures OpenCL drivers, ranks and MPIs, on this machine or over a network.\n\n"
    "  ocl         an OpenCL driver: launches, transfers, creation, builds, discovery\n"
    "  migrate     content that goes back and forth between two devices or servers\n"
    "  floor       what plain TCP and memcpy cost, the floors of everything else\n"
    "  reconnect   from the return of the network to the end of the first command\n"
    "  plot        pictures of results: telpher-bench plot FILE.json... -o OUT.png\n"
    "  compare     with two files: what became slower: compare A.json B.json "
    "[--all]\n\n"
    "Between processes of an MPI, which it starts itself:\n"
    "  suite       OSU's patterns with an accelerator's buffers, several ways in "
    "turns\n"
    "  build-mpi   runtime mpi for another MPI, by its mpicc\n\n"
    "Between processes of telpher launch, which it starts itself:\n"
    "  models      objects, MPI and Python with device memory: latency, bandwidth, "
    "Jacobi;\n              entry methods in turns with Charm++\n\n"
    "Between two ranks of an MPI program:\n"
    "  compare     without files: a channel over shared memory and that MPI, in "
    "turns\n\n"
    "With parents and workers of an MPI program:\n"
    "  launch      what it costs to start kernels on the workers\n\n"
    "Between processes of mpirun or telpher launch, by Python's calls:\n"
    "  python      some of the patterns below, by mpi4py and by Telpher's package\n\n"
    "Between two processes of telpher launch:\n"
    "  mdr         entry methods of objects, beside messages and channels, in turns\n\n"
    "Between ranks of a kernel, which are light threads on processors:\n"
    "  notified    puts and notifications, with floors\n\n"
    "Between ranks of a job:\n"
    "  check       whether each pattern below is right, and finds a wrong byte\n\n"
    "Patterns between ranks of a job, in host or device memory, with OSU's options,\n"
    "and OSU's output where the program is called osu_COMMAND:\n";
static const char tail[] =
    "Of each collective there are COMMAND, iCOMMAND (non-blocking) and\n"
    "COMMAND_persistent.\n\n"
    "  -h, --help     this text; telpher-bench COMMAND --help has the options\n"
    "  -v, --version  the version\n";

static void
print_usage(FILE *out)
{
    fputs(head, out);
    for (const struct ranks_pattern *p = ranks_patterns; p->name != NULL; p++) {
        if (strstr(p->title, "Non-blocking") == NULL &&
            (p->kind != RANKS_COLLECTIVE || strstr(p->title, "Persistent") == NULL)) {
            fprintf(out, "  %-24s  %s\n", p->name, p->title);
        }
    }
    fputs(tail, out);
}

static int
run_command(int argc, char **argv)
{
    const struct bench_runtime *const runtimes[] = {&bench_ocl, &bench_migrate,
                                                    &bench_floor};

    if (ranks_find_pattern(argv[1]) != NULL) {
        return ranks_main(argv[0], argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "check") == 0) {
        return ranks_check_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "compare") == 0 && argc > 2 && argv[2][0] != '-') {
        return bench_helper_script("telpher-bench-differ.py", argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "compare") == 0) {
        return compare_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "launch") == 0) {
        return launch_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "mdr") == 0) {
        return mdr_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "notified") == 0) {
        return notified_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "reconnect") == 0) {
        return reconnect_main(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "suite") == 0) {
        return bench_helper_script("telpher-bench-suite.py", argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "models") == 0) {
        return bench_helper_script("telpher-bench-models.py", argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "build-mpi") == 0) {
        return bench_helper_exec("../libexec/telpher/telpher-bench-build-mpi", argv + 1,
                                 "telpher-bench");
    }
    if (strcmp(argv[1], "python") == 0) {
        return bench_helper_script("telpher-bench-python.py", argc - 1, argv + 1);
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
    fprintf(stderr, "telpher-bench: no such command: %s; --help lists them\n", argv[1]);
    return 2;
}

int
main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    char *name = slash != NULL ? argv[0] + (slash - argv[0]) + 1 : argv[0];

    if (strncmp(name, "osu_", 4) == 0 && ranks_find_pattern(name) != NULL) {
        argv[0] = name;
        return ranks_main("telpher-bench", argc, argv);
    }
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0) {
        printf("telpher-bench %s\n", BENCH_VERSION);
        return EXIT_SUCCESS;
    }
    return run_command(argc, argv);
}
