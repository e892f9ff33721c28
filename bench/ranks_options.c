/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the patterns between ranks. */
#include "ranks.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { MPI = 256 }; /* a long option without a letter */

static void
print_help(const struct ranks_pattern *pattern)
{
    printf(
        "usage: telpher-bench %s [OPTION]... [H|D] [H|D]\n"
        "       telpher launch -n 2 -- telpher-bench %s [OPTION]...\n\n"
        "%s between two ranks; H: host memory, D: the device's, of sender and "
        "receiver.\n"
        "Without a launcher it starts two ranks here.\n\n"
        "  -r, --runtime WAY     channel, msg (to a handler), msg2 (metadata first, as "
        "in\n"
        "                        the paper), put (notified), mpi (under its mpirun);\n"
        "                        channel_host, msg_host: the device's content copied "
        "to and\n"
        "                        from host memory around it (host-staging);\n"
        "                        floors: store (shared memory), socket (TCP); "
        "default %s\n"
        "      --mpi NAME        openmpi or mpich, where the launcher does not say\n"
        "  -d, --device KIND     what D is: opencl, cuda or sim; default sim\n"
        "  -m, --message-size [MIN:]MAX   bytes, or 64K, 1M; default 1:4M\n"
        "  -i, --iterations N    default 10000, 1000 above 8 KiB; windows: 100 and 20\n"
        "  -x, --warmup N        iterations that do not count\n"
        "  -W, --window-size N   sends under way in bandwidth tests; default 64\n"
        "  -b, --buffer-num single|multiple   one buffer, or one for each in the "
        "window\n"
        "  -c, --validation      check what came\n"
        "  -z, --percentiles     mean, 90th and 99th percentile beside the median\n"
        "  -f, --format text|json   json: one object a line\n"
        "  -h, --help\n",
        pattern->name, pattern->name, pattern->title, pattern->way);
}

static int
bad(const char *what, const char *text)
{
    fprintf(stderr, "telpher-bench: %s: \"%s\"\n", what, text);
    return 2;
}

static int
parse_device(struct ranks_options *o, const char *text)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } kinds[] = {{"opencl", TELPHER_MEM_OPENCL},
                 {"cuda", TELPHER_MEM_CUDA},
                 {"sim", TELPHER_MEM_SIM}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, text) == 0) {
            o->device = kinds[i].kind;
            return -1;
        }
    }
    return bad("-d is opencl, cuda or sim", text);
}

const struct ranks_way *
ranks_find_way(const char *name)
{
    for (size_t i = 0; ranks_ways[i] != NULL; i++) {
        if (strcmp(ranks_ways[i]->name, name) == 0) {
            return ranks_ways[i];
        }
    }
    bad("-r is channel, msg, msg2, put, channel_host, msg_host, mpi, store or socket",
        name);
    return NULL;
}

static int
parse_places(struct ranks_options *o, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (i > 1 || (strcmp(argv[i], "H") != 0 && strcmp(argv[i], "D") != 0)) {
            return bad("places are H or D, one or two", argv[i]);
        }
        o->kinds[i] = argv[i][0] == 'H' ? TELPHER_MEM_HOST : o->device;
    }
    if (argc == 1) {
        o->kinds[1] = o->kinds[0];
    }
    return -1;
}

static int
parse_option(int c, const char *text, const struct ranks_pattern *pattern,
             struct ranks_options *o, const struct ranks_way **way)
{
    switch (c) {
    case 'r':
        *way = ranks_find_way(text);
        return *way != NULL ? -1 : 2;
    case 'd':
        return parse_device(o, text);
    case 'm':
        return bench_parse_sizes(text, 0, &o->min_bytes, &o->max_bytes)
                   ? -1
                   : bad("-m is [MIN:]MAX, MAX up to 16G", text);
    case 'i':
        return bench_parse_int(text, 1, INT_MAX, &o->iterations)
                   ? -1
                   : bad("-i is a number", text);
    case 'x':
        return bench_parse_int(text, 1, INT_MAX, &o->warmup)
                   ? -1
                   : bad("-x is a number", text);
    case 'W':
        return bench_parse_int(text, 1, 1024, &o->window)
                   ? -1
                   : bad("-W is 1 to 1024", text);
    case 'b':
        o->many_buffers = strcmp(text, "multiple") == 0;
        return o->many_buffers || strcmp(text, "single") == 0
                   ? -1
                   : bad("-b is single or multiple", text);
    case 'c':
        o->validation = true;
        return -1;
    case 'z':
        o->percentiles = true;
        return -1;
    case 'f':
        o->json = strcmp(text, "json") == 0;
        return o->json || strcmp(text, "text") == 0 ? -1
                                                    : bad("-f is text or json", text);
    case MPI:
        o->mpi = text;
        return -1;
    case 'h':
        print_help(pattern);
        return EXIT_SUCCESS;
    default:
        return 2;
    }
}

int
ranks_parse_options(int argc, char **argv, const struct ranks_pattern *pattern,
                    struct ranks_options *o, const struct ranks_way **way)
{
    static const struct option options[] = {
        {"runtime", required_argument, NULL, 'r'},
        {"device", required_argument, NULL, 'd'},
        {"message-size", required_argument, NULL, 'm'},
        {"iterations", required_argument, NULL, 'i'},
        {"warmup", required_argument, NULL, 'x'},
        {"window-size", required_argument, NULL, 'W'},
        {"buffer-num", required_argument, NULL, 'b'},
        {"validation", no_argument, NULL, 'c'},
        {"percentiles", no_argument, NULL, 'z'},
        {"format", required_argument, NULL, 'f'},
        {"mpi", required_argument, NULL, MPI},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int c, code = -1;

    while (code < 0 &&
           (c = getopt_long(argc, argv, "r:d:m:i:x:W:b:czf:h", options, NULL)) != -1) {
        code = parse_option(c, optarg, pattern, o, way);
    }
    return code < 0 ? parse_places(o, argc - optind, argv + optind) : code;
}
