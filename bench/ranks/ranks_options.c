/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the patterns between ranks. */
#include "bench/ranks/ranks.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bench/options.h"

static bool
read_device(void *place, const char *text)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } kinds[] = {{"opencl", TELPHER_MEM_OPENCL},
                 {"cuda", TELPHER_MEM_CUDA},
                 {"sim", TELPHER_MEM_SIM}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, text) == 0) {
            *(uint32_t *)place = kinds[i].kind;
            return true;
        }
    }
    return false;
}

const struct ranks_way *
ranks_find_way(const char *name)
{
    for (size_t i = 0; ranks_ways[i] != NULL; i++) {
        if (strcmp(ranks_ways[i]->name, name) == 0) {
            return ranks_ways[i];
        }
    }
    return NULL;
}

static bool
read_way(void *place, const char *text)
{
    const struct ranks_way *way = ranks_find_way(text);

    *(const struct ranks_way **)place = way;
    return way != NULL;
}

static bool
read_sizes(void *place, const char *text)
{
    struct ranks_options *o = place;

    return bench_parse_sizes(text, 0, &o->min_bytes, &o->max_bytes);
}

static bool
read_buffers(void *place, const char *text)
{
    *(bool *)place = strcmp(text, "multiple") == 0;
    return *(bool *)place || strcmp(text, "single") == 0;
}

static int
read_places(struct ranks_options *o, const char *command, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (i > 1 || (strcmp(argv[i], "H") != 0 && strcmp(argv[i], "D") != 0)) {
            return bench_options_wrong(command, "places are H or D, one or two",
                                       argv[i]);
        }
        o->kinds[i] = argv[i][0] == 'H' ? TELPHER_MEM_HOST : o->device;
    }
    if (argc == 1) {
        o->kinds[1] = o->kinds[0];
    }
    return -1;
}

int
ranks_parse_options(int argc, char **argv, const struct ranks_pattern *pattern,
                    struct ranks_options *o, const struct ranks_way **way)
{
    const struct bench_option options[] = {
        BENCH_CALL_OPTION(
            'r', "runtime", "WAY",
            "channel, msg (to a handler), msg2 (metadata first, as in\nthe paper), put "
            "(notified), mpi (under its mpirun);\nchannel_host, msg_host: the device's "
            "content copied to and\nfrom host memory around it "
            "(host-staging);\nfloors: "
            "store (shared memory), socket (TCP)",
            way, read_way),
        BENCH_TEXT_OPTION(0, "mpi", "NAME",
                          "openmpi or mpich, where the launcher does not say", &o->mpi),
        BENCH_CALL_OPTION('d', "device", "KIND", "what D is: opencl, cuda or sim (sim)",
                          &o->device, read_device),
        BENCH_CALL_OPTION('m', "message-size", "[MIN:]MAX",
                          "bytes, or 64K, 1M, up to 16G (1:4M)", o, read_sizes),
        BENCH_INT_OPTION('i', "iterations", "N",
                         "(10000, 1000 above 8 KiB; windows: 100 and 20)",
                         &o->iterations, 1, INT_MAX),
        BENCH_INT_OPTION('x', "warmup", "N", "iterations that do not count", &o->warmup,
                         1, INT_MAX),
        BENCH_INT_OPTION('W', "window-size", "N",
                         "sends under way in bandwidth tests (64)", &o->window, 1,
                         1024),
        BENCH_CALL_OPTION('b', "buffer-num", "single|multiple",
                          "one buffer, or one for each in the window", &o->many_buffers,
                          read_buffers),
        BENCH_FLAG_OPTION('c', "validation", "check the received content",
                          &o->validation),
        BENCH_FLAG_OPTION('z', "percentiles",
                          "mean, 90th and 99th percentile beside the median",
                          &o->percentiles),
        BENCH_CALL_OPTION('f', "format", "text|json", "json: one object a line",
                          &o->json, bench_parse_json),
    };
    char usage[512];
    int code;

    snprintf(
        usage, sizeof(usage),
        "usage: telpher-bench %s [OPTION]... [H|D] [H|D]\n"
        "       telpher launch -n 2 -- telpher-bench %s [OPTION]...\n\n"
        "%s between two ranks; H: host memory, D: the device's, of sender and "
        "receiver.\nWithout a launcher it starts two ranks here. The default of -r "
        "is %s.\n\n",
        pattern->name, pattern->name, pattern->title, pattern->way);
    code = bench_options_read(argc, argv, usage, "", options,
                              sizeof(options) / sizeof(options[0]));
    return code < 0 ? read_places(o, argv[0], argc - optind, argv + optind) : code;
}
