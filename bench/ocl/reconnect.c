/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-bench reconnect: takes the network away and gives it back, many times, by the
 * control socket of the test link (tests/support/link). A sample is the time from the moment
 * when the link is back to the end of the first command. A kernel counts the commands: one
 * that was lost or ran twice is found in the end.
 */
#include "bench/ocl/reconnect.h"
#include "bench/net.h"
#include "bench/ocl/clutil.h"
#include "bench/stats.h"
#include "tools/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FLIPS = 1000, DOWN_MS = 100, WARMUP = 100, FLIPS_MAX = 1000000 };

struct flips {
    const char *platform, *how, *control, *ping;
    int count, down_ms;
    struct ocl_session *s;
    cl_uint commands; /* since the counter was read */
    int fd; /* datagrams to the link */
    double *back, *before, *pings; /* [us] one of each a flip */
};

/* Tells the link what to do, and waits until it has done so. */
static bool
tell(const struct flips *f, const char *word)
{
    char reply[8];

    return (send(f->fd, word, strlen(word), 0) >= 0 &&
            recv(f->fd, reply, sizeof(reply), 0) > 0) ||
           bench_fail("%s: %s", f->control, strerror(errno));
}

/* A datagram socket with a name, for replies. */
static bool
open_control(struct flips *f)
{
    struct sockaddr_un ours = {.sun_family = AF_UNIX}, link = ours;

    if (snprintf(ours.sun_path, sizeof(ours.sun_path), "%s.bench", f->control) >=
        (int)sizeof(ours.sun_path)) {
        return bench_fail("%s: too long for a socket", f->control);
    }
    memcpy(link.sun_path, f->control, strlen(f->control));
    f->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)unlink(ours.sun_path);
    return (f->fd >= 0 && bind(f->fd, (struct sockaddr *)&ours, sizeof(ours)) == 0 &&
            connect(f->fd, (struct sockaddr *)&link, sizeof(link)) == 0) ||
           bench_fail("%s: %s", f->control, strerror(errno));
}

/* A kernel and clFinish; *ret_end is the time of its end. */
static bool
run_command(struct flips *f, double *ret_end)
{
    const size_t one = 1;

    OCL_TRY(clEnqueueNDRangeKernel(f->s->queue, f->s->count_up, 1, NULL, &one, &one, 0,
                                   NULL, NULL));
    OCL_TRY(clFinish(f->s->queue));
    f->commands++;
    *ret_end = bench_now_us();
    return true;
}

/* The time in which the server's machine answers: to a connection, like a ping. */
static bool
measure_ping(const struct flips *f, double *ret_us)
{
    double begin = bench_now_us();
    int fd = bench_net_connect(f->ping);

    *ret_us = bench_now_us() - begin;
    if (fd < 0) {
        return false;
    }
    close(fd);
    return true;
}

static bool
flip(struct flips *f, int i)
{
    bool goes_down = strcmp(f->how, "cut") == 0;
    double begin = bench_now_us(), end;

    if (!run_command(f, &end)) {
        return false;
    }
    f->before[i] = end - begin;
    if ((f->ping[0] != '\0' && !measure_ping(f, &f->pings[i])) || !tell(f, f->how)) {
        return false;
    }
    if (goes_down) {
        usleep((useconds_t)f->down_ms * 1000);
    }
    if (goes_down && !tell(f, "heal")) {
        return false;
    }
    begin = bench_now_us();
    if (!run_command(f, &end)) {
        return false;
    }
    f->back[i] = end - begin;
    return true;
}

static bool
read_counter(const struct flips *f, cl_uint *ret_value)
{
    OCL_TRY(clEnqueueReadBuffer(f->s->queue, f->s->counter, CL_TRUE, 0,
                                sizeof(*ret_value), ret_value, 0, NULL, NULL));
    return true;
}

static bool
measure(struct flips *f)
{
    cl_uint first, last;
    double end;

    if (!read_counter(f, &first)) {
        return false;
    }
    for (int i = 0; i < WARMUP; i++) {
        if (!run_command(f, &end)) {
            return false;
        }
    }
    for (int i = 0; i < f->count; i++) {
        if (!flip(f, i)) {
            return false;
        }
    }
    return read_counter(f, &last) &&
           (last - first == f->commands ||
            bench_fail("%u commands ran, not %u", last - first, f->commands));
}

static void
print_row(const struct flips *f, const char *name, double *samples)
{
    struct bench_stats s = bench_stats_of(samples, (size_t)f->count);

    printf("%-28s %12.1f %12.1f %12.1f\n", name, s.median, s.p99, s.max);
}

static void
print_results(struct flips *f)
{
    printf("# %d times: %s\n%-28s %12s %12s %12s\n", f->count, f->how, "# Time (us)",
           "Median", "99 %", "Worst");
    if (f->ping[0] != '\0') {
        print_row(f, "ping", f->pings);
    }
    print_row(f, "command before", f->before);
    print_row(f, "link up to end of command", f->back);
}

static bool
run(struct flips *f)
{
    const struct bench_settings settings = {
        .platform = f->platform, .memory = "", .batch = 1};
    void *session;
    bool done;

    if (!ocl_open(&settings, &session)) {
        return false;
    }
    f->s = session;
    done = measure(f);
    ocl_close(session);
    return done;
}

static bool
allocate(struct flips *f)
{
    f->back = calloc((size_t)f->count, sizeof(double));
    f->before = calloc((size_t)f->count, sizeof(double));
    f->pings = calloc((size_t)f->count, sizeof(double));
    return (f->back != NULL && f->before != NULL && f->pings != NULL) ||
           bench_fail("out of memory for %d times", (int)f->count);
}

static bool
is_event(const char *how)
{
    static const char *const known[] = {"cut", "reset", "close", "move"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(how, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

int
reconnect_main(int argc, char **argv)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread runs yet */
    const char *control = getenv("LINK_CONTROL");
    struct flips f = {.platform = "Telpher",
                      .how = "cut",
                      .control = control != NULL ? control : "",
                      .ping = "",
                      .count = FLIPS,
                      .down_ms = DOWN_MS,
                      .fd = -1};
    const struct cli_option options[] = {
        CLI_INT('i', "iterations", "N", "how often (1000)", &f.count, 1, FLIPS_MAX),
        CLI_TEXT(0, "how", "WORD",
                 "what the link does: cut (default), reset, close or move", &f.how),
        CLI_INT(0, "down", "MS", "how long a cut lasts (100)", &f.down_ms, 1, 600000),
        CLI_TEXT(0, "control", "SOCKET", "of the test link (LINK_CONTROL)", &f.control),
        CLI_TEXT(0, "ping", "ADDR:PORT", "measure connections to this port beside it",
                 &f.ping),
        CLI_TEXT(0, "platform", "TEXT", "part of the platform's name (Telpher)",
                 &f.platform)};
    int status = cli_read(
        argc, argv,
        "usage: telpher-bench reconnect [OPTION]...\n"
        "Time from the moment when the network is back to the end of the first "
        "command.\n",
        "", options, sizeof(options) / sizeof(options[0]));

    if (status >= 0) {
        return status;
    }
    if (!is_event(f.how) || f.control[0] == '\0') {
        return cli_wrong("reconnect", f.control[0] == '\0'
                                          ? "run inside of the test link, or --control"
                                          : "--how is cut, reset, close or move");
    }
    status = allocate(&f) && open_control(&f) && run(&f) ? EXIT_SUCCESS : EXIT_FAILURE;
    if (status == EXIT_SUCCESS) {
        print_results(&f);
    } else {
        fprintf(stderr, "telpher-bench: %s\n", bench_reason());
    }
    free(f.back);
    free(f.before);
    free(f.pings);
    if (f.fd >= 0) {
        close(f.fd);
    }
    return status;
}
