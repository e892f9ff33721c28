/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor runtime: what plain TCP and memcpy cost here, since nothing remote can be faster.
 * The other end is a process on another core of this machine, or `telpher-bench floor
 * --serve` on another. A connection is opened with a fixed header that says what to do
 * with the messages that follow, all of the same length; closing ends it.
 */
#include "bench/bench.h"
#include "bench/net.h"

#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAGIC = 0x31464254, PING_BYTES = 4 }; /* "TBF1" */
#define MAX_MESSAGE_BYTES ((uint64_t)16 << 30)
#define CHUNK_BYTES ((size_t)1 << 20)

/* SINK_CHECKED says after each acknowledgement whether all content was right. */
enum what { ECHO = 1, ECHO_SPINNING, SINK, SOURCE, SINK_CHECKED };
enum { CONTENT = 1 }; /* every byte of what a sink gets */

/* All little-endian. */
struct header {
    uint32_t magic;
    uint32_t what;
    uint64_t bytes;
};

struct session {
    const struct bench_settings *settings;
    char address[300]; /* of the other end */
    pid_t server; /* our own, or 0 */
    int fd;
    size_t bytes;
    char *data, *copy;
};

/* --- the serving side ----------------------------------------------------------- */

static bool
holds(const char *chunk, size_t len, char value)
{
    return chunk[0] == value && memcmp(chunk, chunk + 1, len - 1) == 0;
}

/* Receives what a sink gets, acknowledges it, and says whether it was right. */
static bool
receive_checked(int fd, char *chunk, uint64_t bytes)
{
    char good = 1;

    while (bytes > 0) {
        const size_t now = bytes < CHUNK_BYTES ? (size_t)bytes : CHUNK_BYTES;

        if (!bench_net_receive(fd, chunk, now, false)) {
            return false;
        }
        bytes -= now;
        if (bytes == 0 && !bench_net_send(fd, chunk, 1)) {
            return false;
        }
        good = good && holds(chunk, now, CONTENT);
    }
    return bench_net_send(fd, &good, 1);
}

static bool
move_in_chunks(int fd, char *chunk, uint64_t bytes, bool sending)
{
    while (bytes > 0) {
        const size_t now = bytes < CHUNK_BYTES ? (size_t)bytes : CHUNK_BYTES;

        if (!(sending ? bench_net_send(fd, chunk, now)
                      : bench_net_receive(fd, chunk, now, false))) {
            return false;
        }
        bytes -= now;
    }
    return true;
}

/* Answers one message; false at the end of the connection. */
static bool
answer(int fd, enum what what, uint64_t bytes, char *chunk)
{
    char request;

    switch (what) {
    case ECHO:
    case ECHO_SPINNING:
        return bench_net_receive(fd, chunk, (size_t)bytes, what == ECHO_SPINNING) &&
               bench_net_send(fd, chunk, (size_t)bytes);
    case SINK:
        return move_in_chunks(fd, chunk, bytes, false) && bench_net_send(fd, chunk, 1);
    case SINK_CHECKED:
        return receive_checked(fd, chunk, bytes);
    case SOURCE:
        return bench_net_receive(fd, &request, 1, false) &&
               move_in_chunks(fd, chunk, bytes, true);
    }
    return false;
}

static void
serve_connection(int fd)
{
    char *chunk = calloc(1, CHUNK_BYTES);
    struct header h;
    uint64_t bytes;

    if (chunk == NULL || !bench_net_receive(fd, &h, sizeof(h), false)) {
        free(chunk);
        return;
    }
    bytes = le64toh(h.bytes);
    if (le32toh(h.magic) == MAGIC && bytes >= 1 && bytes <= MAX_MESSAGE_BYTES &&
        (le32toh(h.what) >= SINK || bytes <= CHUNK_BYTES)) {
        bench_net_no_delay(fd);
        while (answer(fd, (enum what)le32toh(h.what), bytes, chunk)) {
        }
    }
    free(chunk);
}

/* Never returns. With `forking`, each connection gets its own process. */
static void
serve_all(int listener, bool forking)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pid_t child;

        if (fd < 0) {
            usleep(10000); /* out of descriptors, or the peer is gone: not our end */
            continue;
        }
        child = forking ? fork() : 0;
        if (child == 0) {
            if (forking) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
            }
            serve_connection(fd);
            if (forking) {
                _exit(EXIT_SUCCESS);
            }
        }
        close(fd);
    }
}

bool
bench_floor_serve(const char *address)
{
    int port = 0;
    const int listener = bench_net_listen(address, &port);

    if (listener < 0) {
        return false;
    }
    printf("telpher-bench: floors are served on %s (port %d)\n", address, port);
    fflush(stdout);
    serve_all(listener, true);
    return true;
}

/* --- the session ---------------------------------------------------------------- */

/* Moves this process to the `nth` processor it may use, if it may use two. */
static void
pin(int nth)
{
    cpu_set_t all;
    cpu_set_t one;

    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && nth-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

static bool
start_server(struct session *s)
{
    int port = 0;
    const int listener = bench_net_listen("127.0.0.1:0", &port);

    if (listener < 0) {
        return false;
    }
    s->server = fork();
    if (s->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
        serve_all(listener, false);
    }
    close(listener);
    if (s->server < 0) {
        s->server = 0;
        return bench_fail("cannot start the serving process (fork): %s",
                          strerror(errno));
    }
    pin(0);
    snprintf(s->address, sizeof(s->address), "127.0.0.1:%d", port);
    return true;
}

static void
close_session(void *session)
{
    struct session *s = session;

    if (s->server > 0) {
        kill(s->server, SIGKILL);
        waitpid(s->server, NULL, 0);
    }
    free(s);
}

static bool
open_session(const struct bench_settings *settings, void **ret_session)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return bench_fail("out of memory for a session");
    }
    s->settings = settings;
    s->fd = -1;
    if (settings->floor_host != NULL) {
        snprintf(s->address, sizeof(s->address), "%s", settings->floor_host);
    } else if (!start_server(s)) {
        close_session(s);
        return false;
    }
    printf("info device TCP to %s\n",
           settings->floor_host != NULL ? s->address : "another core");
    *ret_session = s;
    return true;
}

/* --- cases ---------------------------------------------------------------------- */

static bool
allocate(struct session *s, size_t bytes)
{
    s->bytes = bytes;
    s->data = malloc(bytes);
    s->copy = malloc(bytes);
    if (s->data == NULL || s->copy == NULL) {
        return bench_fail("out of memory for two buffers of %zu bytes", bytes);
    }
    memset(s->data, CONTENT, bytes); /* pages must exist before the clock runs */
    memset(s->copy, 2, bytes);
    return true;
}

static bool
start(struct session *s, enum what what, size_t bytes, size_t message_bytes)
{
    const struct header h = {htole32(MAGIC), htole32(what), htole64(message_bytes)};

    if (!allocate(s, bytes)) {
        return false;
    }
    s->fd = bench_net_connect(s->address);
    return s->fd >= 0 && bench_net_send(s->fd, &h, sizeof(h));
}

static void
stop(void *session)
{
    struct session *s = session;

    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
    free(s->data);
    free(s->copy);
    s->data = NULL;
    s->copy = NULL;
}

static bool
start_echo(void *session, size_t bytes)
{
    return start(session, ECHO, PING_BYTES, PING_BYTES);
}

static bool
start_echo_spinning(void *session, size_t bytes)
{
    return start(session, ECHO_SPINNING, PING_BYTES, PING_BYTES);
}

static bool
ping(struct session *s, bool spin)
{
    s->data[0]++;
    return bench_net_send(s->fd, s->data, PING_BYTES) &&
           bench_net_receive(s->fd, s->copy, PING_BYTES, spin);
}

static bool
run_echo(void *session, double *own_us)
{
    return ping(session, false);
}

static bool
run_echo_spinning(void *session, double *own_us)
{
    return ping(session, true);
}

static bool
check_same(void *session)
{
    const struct session *s = session;

    return memcmp(s->data, s->copy, s->bytes) == 0 ||
           bench_fail("the %zu bytes that were returned differ from those sent",
                      s->bytes);
}

static bool
start_sink(void *session, size_t bytes)
{
    struct session *s = session;

    return start(s, s->settings->validation ? SINK_CHECKED : SINK, bytes,
                 bytes * (size_t)s->settings->window);
}

static bool
run_sink(void *session, double *own_us)
{
    struct session *s = session;
    double start = bench_now_us();
    char good = 1;

    for (int i = 0; i < s->settings->window; i++) {
        if (!bench_net_send(s->fd, s->data, s->bytes)) {
            return false;
        }
    }
    if (!bench_net_receive(s->fd, s->copy, 1, false)) {
        return false;
    }
    *own_us = bench_now_us() - start;
    if (s->settings->validation && !bench_net_receive(s->fd, &good, 1, false)) {
        return false;
    }
    return good == 1 ||
           bench_fail("%s received other bytes than were sent", s->address);
}

static bool
start_source(void *session, size_t bytes)
{
    struct session *s = session;

    return start(s, SOURCE, bytes, bytes * (size_t)s->settings->window);
}

/* The serving side sends zeros. */
static bool
check_zeros(void *session)
{
    const struct session *s = session;

    return holds(s->copy, s->bytes, 0) ||
           bench_fail("%s sent %zu bytes that are not all 0", s->address, s->bytes);
}

static bool
run_source(void *session, double *own_us)
{
    struct session *s = session;
    double start = bench_now_us();

    if (!bench_net_send(s->fd, s->data, 1)) {
        return false;
    }
    for (int i = 0; i < s->settings->window; i++) {
        if (!bench_net_receive(s->fd, s->copy, s->bytes, false)) {
            return false;
        }
    }
    *own_us = bench_now_us() - start;
    return !s->settings->validation || check_zeros(s);
}

/* Everything sent was acknowledged, or run() would have failed. */
static bool
check_acknowledged(void *session)
{
    const struct session *s = session;

    return s->copy[0] == 1 ||
           bench_fail("%s acknowledged with byte %d, not 1", s->address, s->copy[0]);
}

static bool
start_copy(void *session, size_t bytes)
{
    return allocate(session, bytes);
}

static bool
run_copy(void *session, double *own_us)
{
    struct session *s = session;

    for (int i = 0; i < s->settings->window; i++) {
        s->data[0]++;
        memcpy(s->copy, s->data, s->bytes);
        __asm__ volatile("" : : "r"(s->copy) : "memory"); /* the copy must happen */
    }
    return true;
}

static const struct bench_case cases[] = {
    {"tcp_pingpong", "4 bytes there and back, sleeping in recv()", &bench_latency, 1,
     NULL, 0, start_echo, run_echo, check_same, stop},
    {"tcp_pingpong_poll", "4 bytes there and back, both sides spinning", &bench_latency,
     1, NULL, 0, start_echo_spinning, run_echo_spinning, check_same, stop},
    {"tcp_write", "message out, 1 byte back", &bench_bandwidth, 1, NULL, 0, start_sink,
     run_sink, check_acknowledged, stop},
    {"tcp_read", "1 byte out, message back", &bench_bandwidth, 1, NULL, 0, start_source,
     run_source, check_zeros, stop},
    {"memcpy", "copy in memory", &bench_bandwidth, 1, NULL, 0, start_copy, run_copy,
     check_same, stop},
};

const struct bench_runtime bench_floor = {
    .name = "floor",
    .cases = cases,
    .case_count = sizeof(cases) / sizeof(cases[0]),
    .open = open_session,
    .close = close_session,
};
