/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `telpher-bench launch`. */
#include "bench/launch/launch.h"

#include "tools/cli.h"

static const char usage[] =
    "usage: mpirun -n P+C telpher-bench launch --workers C [OPTION]...\n"
    "       mpirun -n P telpher-bench launch --workers C --spawn [OPTION]...\n"
    "       telpher-bench launch --figures [OPTION]...\n\n"
    "Measures how P processes start kernels of five doubles on C workers: the\n"
    "call (inject), until the last worker enters the last kernel (launch), until it\n"
    "has left it (done); one call each and in one batch, beside protocols by hand\n"
    "with one broadcast and, as in the paper, two. --figures starts many launches,\n"
    "with options of its own: telpher-bench launch --figures --help.\n\n";

int
launch_parse_options(int argc, char **argv, struct launch_options *o)
{
    const struct cli_option options[] = {
        CLI_INT('w', "workers", "C", "the last C processes of the launch (1)",
                &o->workers, 1, LAUNCH_WORKERS_MAX),
        CLI_FLAG(0, "spawn", "spawn them instead", &o->spawn),
        CLI_INT(0, "spawns", "N", "also 1, 2, 4 ... N real spawns of C processes",
                &o->spawns, 0, LAUNCH_SPAWNS_MAX),
        CLI_INT('n', "kernels", "N", "up to so many at once, by powers of 2 (256)",
                &o->most, 1, LAUNCH_KERNELS_MAX),
        CLI_INT('i', "iterations", "N", "windows of each kind (30)", &o->repetitions, 1,
                10000),
        CLI_INT('x', "warmup", "N", "those that do not count (3)", &o->warmup, 0,
                10000),
        CLI_INT(0, "seed", "N", "of the order of the kinds", &o->seed, 0, INT32_MAX),
        CLI_INT(0, "flip", "WAY",
                "one byte of an argument is wrong, by way 1 to 6 of the\noutput or 7, "
                "real spawns: the workers must find it",
                &o->flip, 1, LAUNCH_FLIP_SPAWNS),
        CLI_TEXT(0, "mpi", "NAME", "openmpi or mpich, where the launcher does not say",
                 &o->mpi),
        CLI_CALL('f', "format", "text|json", "json: one object a line", &o->json,
                 cli_parse_json),
    };
    int code;

    *o = (struct launch_options){
        .workers = 1, .most = LAUNCH_KERNELS_MAX, .repetitions = 30, .warmup = 3};
    code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));
    if (code < 0 && optind < argc) {
        code = cli_wrong("launch", "unexpected argument: \"%s\"", argv[optind]);
    }
    return code;
}
