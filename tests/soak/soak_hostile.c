/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that mean ill, for scripts/soak-latency: soak_hostile SOCKET. A thread for each
 * kind does its worst again and again until standard input ends; then it prints how often.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "wire/frame.h"
#include "wire/messages.h"

static const char *path;
static _Atomic bool stop;

/** A session, or what pretends to be one. */
struct peer {
    int fd; /* -1: not connected */
    uint64_t seq;
    unsigned *seed;
};

static struct peer
connect_peer(unsigned *seed)
{
    const struct timeval limit = {.tv_sec = 10};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct peer p = {.fd = socket(AF_UNIX, SOCK_STREAM, 0), .seed = seed};

    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    (void)setsockopt(p.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    (void)setsockopt(p.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(p.fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
        (void)close(p.fd);
        p.fd = -1;
    }
    return p;
}

static bool
send_all(struct peer *p, const void *data, size_t len)
{
    const uint8_t *at = data;

    while (len > 0) {
        ssize_t sent = send(p->fd, at, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool
take(struct peer *p, void *data, size_t len)
{
    return recv(p->fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

static bool
send_noise(struct peer *p, size_t len)
{
    uint8_t noise[4096];

    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)rand_r(p->seed);
    }
    for (; len > sizeof(noise); len -= sizeof(noise)) {
        if (!send_all(p, noise, sizeof(noise))) {
            return false;
        }
    }
    return send_all(p, noise, len);
}

static void
make_preface(uint8_t raw[TP_WIRE_PREFACE_BYTES])
{
    const struct tp_wire_preface preface = {
        .version_min = 1, .version_max = 1, .stream = TP_WIRE_STREAM_COMMAND};

    tp_wire_put_preface(raw, &preface);
}

static bool
put(struct peer *p, uint16_t type, const void *msg)
{
    static _Thread_local uint8_t raw[TP_WIRE_HEADER_BYTES + (1 << 17)];
    const struct tp_wire_message *row = tp_wire_message(type);
    struct tp_wire_header h = {.type = type, .seq = ++p->seq};

    h.len = (uint32_t)(TP_WIRE_HEADER_BYTES + row->size(msg));
    tp_wire_put_header(raw, &h);
    row->put(raw + TP_WIRE_HEADER_BYTES, msg);
    return send_all(p, raw, h.len);
}

static struct peer
open_session(unsigned *seed)
{
    uint8_t preface[TP_WIRE_PREFACE_BYTES], reply[TP_WIRE_PREFACE_REPLY_BYTES];
    struct peer p = connect_peer(seed);

    make_preface(preface);
    if (p.fd >= 0 &&
        (!send_all(&p, preface, sizeof(preface)) || !take(&p, reply, sizeof(reply)))) {
        (void)close(p.fd);
        p.fd = -1;
    }
    return p;
}

/* A session whose executor runs. */
static struct peer
start_session(unsigned *seed)
{
    struct peer p = open_session(seed);
    uint8_t head[TP_WIRE_HEADER_BYTES];

    if (p.fd >= 0 && (!put(&p, TP_WIRE_START, &(struct tp_wire_start){0}) ||
                      !take(&p, head, sizeof(head)))) {
        (void)close(p.fd);
        p.fd = -1;
    }
    return p;
}

static void
leave(struct peer *p)
{
    if (p->fd >= 0) {
        (void)close(p->fd);
    }
}

/* ---- what they do ---------------------------------------------------------------------- */

/* Half-open connections, and prefaces that trickle. */
static void
strangers(unsigned *seed)
{
    uint8_t preface[TP_WIRE_PREFACE_BYTES];
    struct peer held[16];

    make_preface(preface);
    for (size_t i = 0; i < TP_ARRAY_LEN(held); i++) {
        held[i] = connect_peer(seed);
        (void)send_all(&held[i], preface, (size_t)rand_r(seed) % sizeof(preface));
    }
    usleep(500000);
    for (size_t i = 0; i < TP_ARRAY_LEN(held); i++) {
        leave(&held[i]);
    }
}

static void
garbage(unsigned *seed)
{
    struct peer p = connect_peer(seed);

    (void)send_noise(&p, 4096);
    leave(&p);
    p = open_session(seed);
    (void)send_noise(&p, 65536);
    leave(&p);
}

/* Asks and does not listen. */
static void
unread(unsigned *seed)
{
    static uint8_t content[65536];
    struct peer p = start_session(seed);

    for (uint64_t i = 0; i < 200 && !stop && p.fd >= 0; i++) {
        const struct tp_wire_ping m = {.request = i,
                                       .data = {sizeof(content), content}};

        if (!put(&p, TP_WIRE_PING, &m)) {
            break;
        }
    }
    leave(&p);
}

static void
half_frames(unsigned *seed)
{
    struct peer p = open_session(seed);
    uint8_t head[TP_WIRE_HEADER_BYTES];
    const struct tp_wire_header h = {.len = 1000, .type = TP_WIRE_PING, .seq = 1};

    tp_wire_put_header(head, &h);
    (void)send_all(&p, head, sizeof(head));
    (void)send_noise(&p, 400);
    usleep(200000);
    leave(&p);
}

static bool
make_some(struct peer *p, uint64_t i)
{
    static const uint64_t device;
    const uint64_t first = tp_wire_id(TP_WIRE_KIND_CONTEXT, 1);
    const struct tp_wire_context_create context = {
        .context = tp_wire_id(TP_WIRE_KIND_CONTEXT, i), .devices = {1, &device}};
    const struct tp_wire_queue_create queue = {
        .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, i), .context = first};
    const struct tp_wire_buffer_create buffer = {.mem = tp_wire_id(TP_WIRE_KIND_MEM, i),
                                                 .context = first,
                                                 .flags = CL_MEM_READ_WRITE,
                                                 .size = 64};
    const struct tp_wire_program_source program = {
        .program = tp_wire_id(TP_WIRE_KIND_PROGRAM, i),
        .context = first,
        .size = 1,
        .source = {1, "x"}};
    const struct tp_wire_user_event_create event = {
        .event = tp_wire_id(TP_WIRE_KIND_EVENT, i), .context = first};

    return (i > 200 || (put(p, TP_WIRE_CONTEXT_CREATE, &context) &&
                        put(p, TP_WIRE_QUEUE_CREATE, &queue))) &&
           put(p, TP_WIRE_BUFFER_CREATE, &buffer) &&
           put(p, TP_WIRE_PROGRAM_SOURCE, &program) &&
           put(p, TP_WIRE_USER_EVENT_CREATE, &event);
}

/* 10,000 of each kind, then garbage. */
static void
many_objects(unsigned *seed)
{
    struct peer p = start_session(seed);

    for (uint64_t i = 1; i <= 10000 && !stop && p.fd >= 0; i++) {
        if (!make_some(&p, i)) {
            break;
        }
    }
    if (p.fd >= 0) {
        (void)send_noise(&p, 64);
    }
    leave(&p);
}

/* ---- the crowd -------------------------------------------------------------------------- */

static struct kind {
    const char *name;
    void (*act)(unsigned *seed);
    pthread_t thread;
    _Atomic unsigned rounds;
} kinds[] = {
    {.name = "strangers", .act = strangers},
    {.name = "garbage", .act = garbage},
    {.name = "unread", .act = unread},
    {.name = "half frames", .act = half_frames},
    {.name = "many objects", .act = many_objects},
};

static void *
go_on(void *arg)
{
    struct kind *kind = arg;
    unsigned seed = (unsigned)(kind - kinds) + 1;

    while (!stop) {
        kind->act(&seed);
        kind->rounds++;
        usleep(20000);
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: soak_hostile SOCKET\n");
        return 64;
    }
    path = argv[1];
    for (size_t i = 0; i < TP_ARRAY_LEN(kinds); i++) {
        if (pthread_create(&kinds[i].thread, NULL, go_on, &kinds[i]) != 0) {
            return 71;
        }
    }
    while (getchar() != EOF) {
    }
    stop = true;
    for (size_t i = 0; i < TP_ARRAY_LEN(kinds); i++) {
        (void)pthread_join(kinds[i].thread, NULL);
        printf("%s%s x %u", i > 0 ? ", " : "", kinds[i].name, kinds[i].rounds);
    }
    printf("\n");
    return 0;
}
