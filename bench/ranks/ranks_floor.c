/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floors between two ranks of one machine, host memory: what plain stores into shared memory
 * and plain TCP cost when nothing stands above them. Both sides spin.
 */
#include "bench/net.h"
#include "bench/ranks/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <telpher/channel.h>

enum { WINDOW_MAX = 1024, INLINE = 56, SLOTS = 2, CHANNEL = 1 };
#define LIMIT UINT64_C(60000000000)

/** A transfer that goes on until `at` is `len`. */
struct item {
    uint8_t *data;
    size_t len, at;
};

/** One message: the number of it, from 1, is written last. */
struct slot {
    _Alignas(64) _Atomic uint64_t number;
    uint8_t data[INLINE];
};

/** One direction: slots, and how many messages were taken out; data that is longer lies behind. */
struct lane {
    struct slot slots[SLOTS];
    _Alignas(64) _Atomic uint64_t taken;
    _Alignas(64) uint8_t data[];
};

struct floor {
    void (*try_send)(struct floor *f, struct item *item);
    void (*try_recv)(struct floor *f, struct item *item);
    struct item sends[WINDOW_MAX], recvs[WINDOW_MAX];
    int fd; /* the connection, or shared memory */
    uint8_t *memory;
    size_t memory_len, slot_len;
    struct lane *out, *in;
    uint64_t sent, received, known_taken;
};

static void
need(bool done, const char *what)
{
    if (!done) {
        fprintf(stderr, "telpher-bench: %s: %s\n", what, strerror(errno));
        exit(EXIT_FAILURE);
    }
}

/* Tells the other rank a number of this one, over Telpher. @return the other's */
static uint64_t
swap(struct ranks_pair *p, uint64_t mine)
{
    telpher_channel *channel;
    telpher_request *out = NULL, *in = NULL;
    uint64_t theirs = 0;

    ranks_check(p, telpher_channel_open(p->ctx, p->peer, CHANNEL, &channel), "channel");
    ranks_check(p, telpher_channel_send(channel, &mine, sizeof(mine), NULL, &out),
                "send");
    ranks_check(p,
                telpher_channel_recv(channel, &theirs, sizeof(theirs), NULL, &in, NULL),
                "recv");
    if (in != NULL) {
        ranks_check(p, telpher_request_wait(in, LIMIT, NULL), "recv");
    }
    if (out != NULL) {
        ranks_check(p, telpher_request_wait(out, LIMIT, NULL), "send");
    }
    p->job->barrier(p);
    telpher_channel_close(channel);
    return theirs;
}

static struct floor *
floor_alloc(struct ranks_pair *p)
{
    struct floor *f = calloc(1, sizeof(*f));

    errno = ENOTSUP;
    need(p->o->kinds[0] == TELPHER_MEM_HOST && p->o->kinds[1] == TELPHER_MEM_HOST &&
             !p->o->many_buffers,
         "floors are of host memory, -b single");
    need(f != NULL, "memory");
    f->fd = -1;
    p->runtime = f;
    return f;
}

static void
floor_close(struct ranks_pair *p)
{
    struct floor *f = p->runtime;

    p->job->barrier(p);
    if (f->memory != NULL) {
        munmap(f->memory, f->memory_len);
    }
    close(f->fd);
    free(f);
}

/* ---- stores ---- */

static void
store_try_send(struct floor *f, struct item *item)
{
    uint64_t number = f->sent + 1;
    struct slot *slot = &f->out->slots[number % SLOTS];

    if (f->sent - f->known_taken == SLOTS) {
        f->known_taken = atomic_load_explicit(&f->out->taken, memory_order_acquire);
        if (f->sent - f->known_taken == SLOTS) {
            return;
        }
    }
    memcpy(item->len <= INLINE ? slot->data
                               : f->out->data + (number % SLOTS) * f->slot_len,
           item->data, item->len);
    atomic_store_explicit(&slot->number, number, memory_order_release);
    f->sent = number;
    item->at = item->len;
}

static void
store_try_recv(struct floor *f, struct item *item)
{
    uint64_t number = f->received + 1;
    struct slot *slot = &f->in->slots[number % SLOTS];

    if (atomic_load_explicit(&slot->number, memory_order_acquire) != number) {
        return;
    }
    memcpy(item->data,
           item->len <= INLINE ? slot->data
                               : f->in->data + (number % SLOTS) * f->slot_len,
           item->len);
    atomic_store_explicit(&f->in->taken, number, memory_order_release);
    f->received = number;
    item->at = item->len;
}

/* The first makes the memory, the other opens it through /proc. */
static void
store_open(struct ranks_pair *p)
{
    struct floor *f = floor_alloc(p);
    size_t lane_len, slot_len = (p->o->max_bytes + 63) / 64 * 64;
    uint64_t theirs;
    char path[64];

    lane_len = sizeof(struct lane) + SLOTS * slot_len;
    f->memory_len = 2 * lane_len;
    f->slot_len = slot_len;
    if (p->first) {
        f->fd = memfd_create("telpher-bench", MFD_CLOEXEC);
        need(f->fd >= 0 && ftruncate(f->fd, (off_t)f->memory_len) == 0,
             "shared memory");
    }
    theirs = swap(p, (uint64_t)getpid() << 32 | (uint32_t)f->fd);
    if (!p->first) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)(theirs >> 32),
                 (int)(uint32_t)theirs);
        f->fd = open(path, O_RDWR | O_CLOEXEC);
        need(f->fd >= 0, "shared memory");
    }
    f->memory = mmap(NULL, f->memory_len, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, f->fd, 0);
    need(f->memory != MAP_FAILED, "shared memory");
    f->out = (struct lane *)(f->memory + (p->first ? 0 : lane_len));
    f->in = (struct lane *)(f->memory + (p->first ? lane_len : 0));
    f->try_send = store_try_send;
    f->try_recv = store_try_recv;
}

/* ---- a socket ---- */

static void
advance(struct item *item, ssize_t done)
{
    need(done > 0 || (done < 0 && errno == EAGAIN), "TCP");
    if (done > 0) {
        item->at += (size_t)done;
    }
}

static void
socket_try_send(struct floor *f, struct item *item)
{
    advance(item, send(f->fd, item->data + item->at, item->len - item->at,
                       MSG_DONTWAIT | MSG_NOSIGNAL));
}

static void
socket_try_recv(struct floor *f, struct item *item)
{
    advance(item,
            recv(f->fd, item->data + item->at, item->len - item->at, MSG_DONTWAIT));
}

static void
socket_open(struct ranks_pair *p)
{
    struct floor *f = floor_alloc(p);
    int listener = -1, port = 0;
    char address[32];
    uint64_t theirs;

    if (p->first) {
        listener = bench_net_listen("127.0.0.1:0", &port);
        need(listener >= 0, "TCP");
    }
    theirs = swap(p, (uint64_t)port);
    if (p->first) {
        f->fd = accept(listener, NULL, NULL);
        close(listener);
    } else {
        snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)theirs);
        f->fd = bench_net_connect(address);
    }
    need(f->fd >= 0 && bench_net_no_delay(f->fd), "TCP");
    f->try_send = socket_try_send;
    f->try_recv = socket_try_recv;
}

/* ---- both ---- */

static void
begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    ((struct floor *)p->runtime)->sends[i] =
        (struct item){(uint8_t *)(uintptr_t)src, len != 0 ? len : 1, 0};
}

static void
begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    ((struct floor *)p->runtime)->recvs[i] = (struct item){dst, len != 0 ? len : 1, 0};
}

static void
wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct floor *f = p->runtime;
    int s = 0, r = 0;

    while (s < sends || r < recvs) {
        if (s < sends) {
            f->try_send(f, &f->sends[s]);
            s += f->sends[s].at == f->sends[s].len;
        }
        if (r < recvs) {
            f->try_recv(f, &f->recvs[r]);
            r += f->recvs[r].at == f->recvs[r].len;
        }
    }
}

const struct ranks_runtime ranks_store_runtime = {.name = "store",
                                                  .title = "Plain Store",
                                                  .job = &ranks_telpher_job,
                                                  .open = store_open,
                                                  .close = floor_close,
                                                  .begin_send = begin_send,
                                                  .begin_recv = begin_recv,
                                                  .wait_all = wait_all};
const struct ranks_runtime ranks_socket_runtime = {.name = "socket",
                                                   .title = "Plain TCP",
                                                   .job = &ranks_telpher_job,
                                                   .open = socket_open,
                                                   .close = floor_close,
                                                   .begin_send = begin_send,
                                                   .begin_recv = begin_recv,
                                                   .wait_all = wait_all};
