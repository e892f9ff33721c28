/* SPDX-License-Identifier: Apache-2.0 */
/* telpher ping: round trip, bandwidth and clock of a server. */
#include "telpher.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { COUNT_MAX = 100000, BULK_COUNT = 20 };

struct ping_options {
    int count, size;
    uint64_t timeout_ns, interval_ns;
    bool quiet;
};

static const char usage[] =
    "usage: telpher ping [OPTION]... HOST[:PORT]\n\n"
    "Measures the round trip to a server's daemon, the bandwidth, "
    "and how\n"
    "far its clock is from ours.\n\n";

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int64_t
real_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/** One round trip; *ret_offset gives how far the server's clock is ahead of ours. */
static telpher_status
ping_once(telpher_server *server, size_t size, uint64_t *ret_rtt, int64_t *ret_offset)
{
    uint64_t mono, real;
    telpher_status status = telpher_server_ping(server, size, ret_rtt, &mono, &real);

    if (status == TELPHER_OK) {
        *ret_offset = (int64_t)real - (real_ns() - (int64_t)*ret_rtt / 2);
    }
    return status;
}

static telpher_status
ping_all(telpher_server *server, const struct ping_options *o, const char *address,
         uint64_t *rtts, int64_t *ret_offset)
{
    uint64_t best = UINT64_MAX;
    char text[32];

    for (int i = 0; i < o->count; i++) {
        int64_t offset;
        telpher_status status = ping_once(server, (size_t)o->size, &rtts[i], &offset);

        if (status != TELPHER_OK) {
            return status;
        }
        if (rtts[i] < best) { /* the quickest answer tells most about the clock */
            best = rtts[i];
            *ret_offset = offset;
        }
        if (!o->quiet) {
            printf("%d bytes from %s: seq %d time %s\n", o->size, address, i + 1,
                   duration_text(text, sizeof(text), (double)rtts[i]));
            fflush(stdout);
        }
        if (i + 1 < o->count) {
            usleep((useconds_t)(o->interval_ns / 1000));
        }
    }
    return TELPHER_OK;
}

/** Bandwidth of a round trip of large payloads, both ways together. */
static void
print_bandwidth(telpher_server *server)
{
    uint64_t best = UINT64_MAX, rtt;

    for (int i = 0; i < BULK_COUNT; i++) {
        if (telpher_server_ping(server, TELPHER_PING_MAX_BYTES, &rtt, NULL, NULL) !=
            TELPHER_OK) {
            return;
        }
        best = rtt < best ? rtt : best;
    }
    printf("bandwidth: %.0f MB/s (512 KiB there and back, best of %d)\n",
           2.0 * TELPHER_PING_MAX_BYTES / (double)best * 1e3, BULK_COUNT);
}

static void
print_summary(const struct ping_options *o, uint64_t *rtts, int64_t offset)
{
    char a[32], b[32], c[32], d[32];

    qsort(rtts, (size_t)o->count, sizeof(*rtts), compare);
    printf("round trip: min %s, median %s, p99 %s, max %s\n",
           duration_text(a, sizeof(a), (double)rtts[0]),
           duration_text(b, sizeof(b), (double)rtts[o->count / 2]),
           duration_text(c, sizeof(c), (double)rtts[(o->count * 99 - 1) / 100]),
           duration_text(d, sizeof(d), (double)rtts[o->count - 1]));
    printf("clock: the server's is %s %s ours\n",
           duration_text(a, sizeof(a), (double)llabs(offset)),
           offset < 0 ? "behind" : "ahead of");
}

static int
ping_server(const char *address, const struct ping_options *o)
{
    uint64_t *rtts = calloc((size_t)o->count, sizeof(*rtts));
    telpher_server *server = NULL;
    telpher_error err = {0};
    telpher_status status;
    int64_t offset = 0;
    int code = 0;

    if (rtts == NULL) {
        return failure("out of memory for %ld round trips", (long)o->count);
    }
    status = telpher_server_connect(address, o->timeout_ns, &server, &err);
    if (status != TELPHER_OK) {
        code = failure("%s", err.text);
        goto out;
    }
    status = ping_all(server, o, address, rtts, &offset);
    if (status != TELPHER_OK) {
        code = failure("%s", telpher_last_error(NULL));
        goto out;
    }
    print_summary(o, rtts, offset);
    print_bandwidth(server);
out:
    telpher_server_close(server);
    free(rtts);
    return code;
}

int
command_ping(int argc, char **argv)
{
    struct ping_options o = {
        .count = 10, .size = 4, .timeout_ns = 2000000000, .interval_ns = 200000000};
    const struct cli_option options[] = {
        CLI_INT('c', "count", "N", "round trips (10)", &o.count, 1, COUNT_MAX),
        CLI_CALL('i', "interval", "TIME", "pause between them (200ms)", &o.interval_ns,
                 parse_duration),
        CLI_INT('S', "size", "BYTES", "bytes of each round trip, up to 524288 (4)",
                &o.size, 0, TELPHER_PING_MAX_BYTES),
        CLI_FLAG('q', "quiet", "the summary only", &o.quiet),
        CLI_CALL('t', "timeout", "TIME", "how long to wait for an answer (2s)",
                 &o.timeout_ns, parse_duration),
    };
    int code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));

    if (code >= 0) {
        return code;
    }
    if (argc - optind != 1) {
        return cli_wrong("ping", "name one server");
    }
    return ping_server(argv[optind], &o);
}
