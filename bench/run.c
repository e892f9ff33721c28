/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `measure`, for turns.py and for the case that starts this program again: one
 * case, or a list of them, or the other end of a link. It has no help of its own.
 */
#include "bench/bench.h"
#include "bench/ocl/ocl_create.h"
#include "tools/cli.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct arguments {
    struct bench_settings settings;
    const char *raw, *listen;
    bool list, serve, discover;
};

static bool
read_sizes(void *place, const char *text)
{
    struct bench_settings *s = place;

    return cli_parse_sizes(text, 1, &s->min_bytes, &s->max_bytes);
}

static int
parse(struct arguments *a, int argc, char **argv)
{
    struct bench_settings *s = &a->settings;
    const struct cli_option options[] = {
        CLI_FLAG(0, "list", NULL, &a->list),
        CLI_FLAG(0, "serve", NULL, &a->serve),
        CLI_FLAG(0, "discover", NULL, &a->discover),
        CLI_TEXT(0, "raw", "TEST", NULL, &a->raw),
        CLI_TEXT(0, "listen", "ADDR:PORT", NULL, &a->listen),
        CLI_CALL('m', "size", "[MIN:]MAX", NULL, s, read_sizes),
        CLI_INT('i', "iterations", "N", NULL, &s->iterations, 1, INT_MAX),
        CLI_INT('x', "warmup", "N", NULL, &s->warmup, 0, INT_MAX),
        CLI_INT(0, "batch", "N", NULL, &s->batch, 1, INT_MAX),
        CLI_INT('W', "window-size", "N", NULL, &s->window, 1, INT_MAX),
        CLI_FLAG('c', "validation", NULL, &s->validation),
        CLI_TEXT(0, "platform", "NAME", NULL, &s->platform),
        CLI_INT(0, "device", "N", NULL, &s->device, 0, INT_MAX),
        CLI_TEXT(0, "memory", "NAME", NULL, &s->memory),
        CLI_TEXT(0, "floor-host", "ADDR:PORT", NULL, &s->floor_host),
        CLI_TEXT(0, "interface", "NAME", NULL, &s->interface),
    };

    return cli_read(argc, argv, "", "", options, sizeof(options) / sizeof(options[0]));
}

/* Fields with a tab between them; turns.py reads them. */
static int
list_cases(const struct bench_runtime *runtime)
{
    printf("version\t%s\n", BENCH_VERSION);
    for (size_t i = 0; i < runtime->memory_count; i++) {
        printf("memory\t%s\n", runtime->memories[i].name);
    }
    for (size_t i = 0; i < runtime->case_count; i++) {
        const struct bench_case *c = &runtime->cases[i];

        printf("case\t%s\t%s\t%d\t%d\t%s\t%g\t%s\n", c->name, c->pattern->name,
               c->pattern->sized, c->operations, c->floor != NULL ? c->floor : "",
               c->trips, c->help);
    }
    return EXIT_SUCCESS;
}

static int
measure(const struct bench_runtime *runtime, const struct arguments *a)
{
    const struct bench_case *c = bench_find_case(runtime, a->raw);

    if (c == NULL) {
        return cli_wrong(runtime->name, "no such test: \"%s\"", a->raw);
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) { /* not to outlive an interrupted run */
        return EXIT_FAILURE;
    }
    return bench_measure_raw(runtime, c, &a->settings) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
bench_run_main(const struct bench_runtime *runtime, int argc, char **argv)
{
    struct arguments a = {.settings = {.platform = "", .memory = ""},
                          .raw = "",
                          .listen = "127.0.0.1:7718"};
    const int status = parse(&a, argc, argv);

    if (status >= 0) {
        return status;
    }
    if (a.list) {
        return list_cases(runtime);
    }
    if (a.discover) {
        return ocl_discover_main(a.settings.platform, a.settings.device);
    }
    if (a.serve) {
        bench_floor_serve(a.listen); /* returns only if it cannot */
        fprintf(stderr, "telpher-bench: %s\n", bench_reason());
        return EXIT_FAILURE;
    }
    return measure(runtime, &a);
}
