/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_perf TRANSPORT [MAX_BYTES [copies]]
 *
 * Half round trips between two processes, one a processor, over a transport alone: what it
 * costs before anything of core/comm. Per size the median of each way: eager as far as it
 * goes, and bulk. To look for causes with perf; nothing is asserted.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

enum { SAMPLES = 101 };

static size_t max_bytes = 4 << 20;

struct ping {
    uint8_t *src, *dst;
    unsigned came; /* messages that are here as a whole */
    unsigned
        seen; /* of those, already waited for: one may come before measure() begins */
    unsigned sent; /* bulks that are done */
    struct tp_net_op send, recv;
};

static void
sent(struct tp_net_op *op, telpher_status status)
{
    struct ping *p = (struct ping *)(void *)((char *)op - offsetof(struct ping, send));

    p->sent += status == TELPHER_OK;
}

static void
received(struct tp_net_op *op, telpher_status status)
{
    struct ping *p = (struct ping *)(void *)((char *)op - offsetof(struct ping, recv));

    p->came += status == TELPHER_OK;
}

static void
on_message(struct world *w, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    struct ping *p = w->user;

    (void)from;
    (void)header;
    (void)header_len;
    if (len != 0) {
        memcpy(p->dst, data, len);
    }
    p->came++;
}

static void
on_rndv(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_rndv *bulk)
{
    struct ping *p = w->user;

    (void)from;
    (void)header;
    (void)header_len;
    p->recv.done = received;
    tp_rndv_recv(w->net, bulk, p->dst, len, &p->recv);
}

static void
spin(struct world *w)
{
    (void)tp_rndv_progress(w->net);
}

static void
send_one(struct world *w, size_t len, bool bulk)
{
    static const uint8_t header[32] = {1};
    struct ping *p = w->user;
    uint32_t peer = 1 - w->rank;

    if (bulk) {
        unsigned before = p->sent;

        p->send.done = sent;
        while (tp_rndv_send(w->net, peer, header, sizeof(header), p->src, len,
                            &p->send) == TELPHER_ERR_AGAIN) {
            spin(w);
        }
        while (p->sent == before) {
            spin(w);
        }
        return;
    }
    while (w->ops->send(w->net, peer, header, sizeof(header), p->src, len) ==
           TELPHER_ERR_AGAIN) {
        spin(w);
    }
}

/* A round as both ranks see it; messages are counted, so none is missed. */
static void
round_trip(struct world *w, size_t len, bool bulk)
{
    struct ping *p = w->user;

    if (w->rank == 0) {
        send_one(w, len, bulk);
    }
    p->seen++;
    while (p->came < p->seen) {
        spin(w);
    }
    if (w->rank == 1) {
        send_one(w, len, bulk);
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void
measure(struct world *w, size_t len, bool bulk)
{
    unsigned rounds = len < 65536 ? 100 : len < (1 << 20) ? 20 : 4;
    double samples[SAMPLES];

    for (unsigned s = 0; s < SAMPLES; s++) {
        tp_ns start = tp_clock_ns();

        for (unsigned i = 0; i < rounds; i++) {
            round_trip(w, len, bulk);
        }
        samples[s] = (double)(tp_clock_ns() - start) / (2.0 * rounds) / 1000;
    }
    if (w->rank == 0) {
        qsort(samples, SAMPLES, sizeof(samples[0]), compare);
        printf("%9zu  %-5s %9.2f us  %9.1f MB/s  (fastest tenth %.2f)\n", len,
               bulk ? "bulk" : "eager", samples[SAMPLES / 2],
               (double)len / samples[SAMPLES / 2], samples[SAMPLES / 10]);
        fflush(stdout);
    }
}

static void
perf(struct world *w)
{
    struct ping p = {.src = malloc(max_bytes), .dst = malloc(max_bytes)};
    cpu_set_t set;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    alarm(0); /* a slow machine takes its time */
    CPU_ZERO(&set);
    CPU_SET((unsigned)(w->rank % (cpus > 0 ? cpus : 1)), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
    MUST(w, p.src != NULL && p.dst != NULL);
    memset(p.src, 1, max_bytes);
    memset(p.dst, 2, max_bytes);
    w->user = &p;
    world_connect(w, 1 - w->rank);
    for (size_t len = 8; len <= max_bytes; len *= 2) {
        world_barrier(w);
        if (32 + len <= w->net->eager_max) {
            measure(w, len, false);
        }
        if (len >= 1024) {
            measure(w, len, true);
        }
    }
    world_barrier(w);
    free(p.src);
    free(p.dst);
}

int
main(int argc, char **argv)
{
    static const struct hooks hooks = {on_message, on_rndv, NULL};
    struct world_params params = {.transport = argc > 1 ? argv[1] : "shm",
                                  .size = 2,
                                  .killed = UINT32_MAX,
                                  .hooks = &hooks,
                                  .fn = perf};

    params.copies = argc > 3;
    if (argc > 2) {
        max_bytes = strtoull(argv[2], NULL, 0);
    }
    if (!world_has(params.transport)) {
        return 77;
    }
    return world_run(&params) ? 0 : 1;
}
