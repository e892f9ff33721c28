/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `telpher-bench launch`. */
#include "launch.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: mpirun -n P+C telpher-bench launch --workers C [OPTION]...\n"
    "       mpirun -n P telpher-bench launch --workers C --spawn [OPTION]...\n\n"
    "What it costs P processes to start kernels of five doubles on C workers: the "
    "call\n"
    "(inject), until the last worker enters the last kernel (launch), until it has "
    "left\n"
    "it (done); one call each and in one batch, beside protocols by hand with one "
    "broadcast\n"
    "and, as in the paper, two. scripts/bench-offload joins many launches.\n\n"
    "  -w, --workers C     the last C processes of the launch; default 1\n"
    "      --spawn         spawn them instead\n"
    "      --spawns N      also 1, 2, 4 ... N real spawns of C processes\n"
    "  -n, --kernels N     up to so many at once, by powers of 2; default 256\n"
    "  -i, --iterations N  windows of each kind; default 30\n"
    "  -x, --warmup N      those that do not count; default 3\n"
    "      --seed N        of the order of the kinds\n"
    "      --mpi NAME      openmpi or mpich, where the launcher does not say\n"
    "  -f, --format text|json   json: one object a line\n"
    "  -h, --help\n";

enum { SPAWN = 256, SPAWNS, SEED, MPI };

static bool
parse_number(const char *text, int least, int most, int *ret_value)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "telpher-bench: launch: a number from %d to %d, not \"%s\"\n",
                least, most, text);
        return false;
    }
    *ret_value = (int)value;
    return true;
}

static bool
parse_option(int c, const char *text, struct launch_options *o)
{
    switch (c) {
    case 'w':
        return parse_number(text, 1, LAUNCH_WORKERS_MAX, &o->workers);
    case SPAWN:
        o->spawn = true;
        return true;
    case SPAWNS:
        return parse_number(text, 0, LAUNCH_SPAWNS_MAX, &o->spawns);
    case 'n':
        return parse_number(text, 1, LAUNCH_KERNELS_MAX, &o->most);
    case 'i':
        return parse_number(text, 1, 10000, &o->repetitions);
    case 'x':
        return parse_number(text, 0, 10000, &o->warmup);
    case SEED:
        return parse_number(text, 0, INT32_MAX, &o->seed);
    case MPI:
        o->mpi = text;
        return true;
    case 'f':
        o->json = strcmp(text, "json") == 0;
        return o->json || strcmp(text, "text") == 0;
    default:
        return false;
    }
}

int
launch_parse_options(int argc, char **argv, struct launch_options *o)
{
    static const struct option names[] = {{"workers", required_argument, NULL, 'w'},
                                          {"spawn", no_argument, NULL, SPAWN},
                                          {"spawns", required_argument, NULL, SPAWNS},
                                          {"kernels", required_argument, NULL, 'n'},
                                          {"iterations", required_argument, NULL, 'i'},
                                          {"warmup", required_argument, NULL, 'x'},
                                          {"seed", required_argument, NULL, SEED},
                                          {"mpi", required_argument, NULL, MPI},
                                          {"format", required_argument, NULL, 'f'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;

    *o = (struct launch_options){
        .workers = 1, .most = LAUNCH_KERNELS_MAX, .repetitions = 30, .warmup = 3};
    optind = 1;
    while ((c = getopt_long(argc, argv, "w:n:i:x:f:h", names, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (!parse_option(c, optarg, o)) {
            fputs("telpher-bench launch --help has the options\n", stderr);
            return 2;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "telpher-bench: launch: what is \"%s\"?\n", argv[optind]);
        return 2;
    }
    return -1;
}
