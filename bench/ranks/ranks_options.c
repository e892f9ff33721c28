/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the patterns between ranks. */
#include "bench/ranks/ranks.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"

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

    return cli_parse_sizes(text, 0, &o->min_bytes, &o->max_bytes);
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
            return cli_wrong(command, "places are H or D, one or two: \"%s\"", argv[i]);
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
    const struct cli_option options[] = {
        CLI_CALL(
            'r', "runtime", "WAY",
            "channel, msg (to a handler), msg2 (metadata first, as in\nthe paper), put "
            "(notified), mpi (under its mpirun);\nchannel_host, msg_host: the device's "
            "content copied to and\nfrom host memory around it "
            "(host-staging);\nfloors: "
            "store (shared memory), socket (TCP)",
            way, read_way),
        CLI_TEXT(0, "mpi", "NAME", "openmpi or mpich, where the launcher does not say",
                 &o->mpi),
        CLI_CALL('d', "device", "KIND", "what D is: opencl, cuda or sim (sim)",
                 &o->device, read_device),
        CLI_CALL('m', "message-size", "[MIN:]MAX",
                 "bytes, or 64K, 1M, up to 16G (1:4M)", o, read_sizes),
        CLI_INT('i', "iterations", "N",
                "(10000, 1000 above 8 KiB; windows: 100 and 20)", &o->iterations, 1,
                INT_MAX),
        CLI_INT('x', "warmup", "N", "iterations that do not count", &o->warmup, 1,
                INT_MAX),
        CLI_INT('W', "window-size", "N", "sends under way in bandwidth tests (64)",
                &o->window, 1, 1024),
        CLI_CALL('b', "buffer-num", "single|multiple",
                 "one buffer, or one for each in the window", &o->many_buffers,
                 read_buffers),
        CLI_FLAG('c', "validation", "check the received content", &o->validation),
        CLI_FLAG('z', "percentiles", "mean, 90th and 99th percentile beside the median",
                 &o->percentiles),
        CLI_CALL('f', "format", "text|json", "json: one object a line", &o->json,
                 cli_parse_json),
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
    code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));
    return code < 0 ? read_places(o, argv[0], argc - optind, argv + optind) : code;
}
