/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns between ranks, from patterns.def, and those that runtimes do. */
#include "bench/ranks/ranks.h"

#include <string.h>

#include "bench/bench.h"

static uint8_t *
slot(const struct ranks_pair *p, uint8_t *base, int i)
{
    return base + (size_t)i * p->work.stride;
}

/* Half a round trip [us]. */
static double
run_latency(struct ranks_pair *p, const struct ranks_runtime *w, size_t len)
{
    int i = p->iteration % p->work.window;
    double start = bench_now_us();

    if (p->first) {
        ranks_send(p, w, slot(p, p->out, i), len);
        ranks_recv(p, w, slot(p, p->in, i), len);
    } else {
        ranks_recv(p, w, slot(p, p->in, i), len);
        ranks_send(p, w, slot(p, p->out, i), len);
    }
    return (bench_now_us() - start) / 2;
}

/* [us] for a window in one direction and its acknowledgement. */
static double
run_bandwidth(struct ranks_pair *p, const struct ranks_runtime *w, size_t len)
{
    double start = bench_now_us();
    int n = p->work.window;

    for (int i = 0; i < n; i++) {
        if (p->first) {
            w->begin_send(p, i, slot(p, p->out, i), len);
        } else {
            w->begin_recv(p, i, slot(p, p->in, i), len);
        }
    }
    w->wait_all(p, p->first ? n : 0, p->first ? 0 : n);
    if (p->first) {
        ranks_recv(p, w, p->in, 1);
    } else {
        ranks_send(p, w, p->out, 1);
    }
    return bench_now_us() - start;
}

/* [us] for a window in both directions at once. */
static double
run_both(struct ranks_pair *p, const struct ranks_runtime *w, size_t len)
{
    double start = bench_now_us();
    int n = p->work.window;

    for (int i = 0; i < n; i++) {
        w->begin_recv(p, i, slot(p, p->in, i), len);
    }
    for (int i = 0; i < n; i++) {
        w->begin_send(p, i, slot(p, p->out, i), len);
    }
    w->wait_all(p, n, n);
    return bench_now_us() - start;
}

#define PATTERN(name, title, kind, sends, receives, flags, run)                        \
    {#name, title, RANKS_##kind, RANKS_##sends, RANKS_##receives, flags, run},
#define COLLECTIVE(name, title, sends, receives, flags)                                \
    {#name, title, RANKS_COLLECTIVE, RANKS_##sends, RANKS_##receives, flags, NULL},    \
        {"i" #name,     "Non-blocking " title, RANKS_OVERLAP,                          \
         RANKS_##sends, RANKS_##receives,      flags,                                  \
         NULL},                                                                        \
        {#name "_persistent",                                                          \
         "Persistent " title,                                                          \
         RANKS_COLLECTIVE,                                                             \
         RANKS_##sends,                                                                \
         RANKS_##receives,                                                             \
         flags,                                                                        \
         NULL},

const struct ranks_pattern ranks_patterns[] = {
#include "bench/ranks/patterns.def"
    {NULL, NULL, RANKS_LATENCY, RANKS_NONE, RANKS_NONE, 0, NULL}};

const struct ranks_pattern *
ranks_find_pattern(const char *name)
{
    const struct ranks_pattern *p = ranks_patterns;

    name += strncmp(name, "osu_", 4) == 0 ? 4 : 0;
    while (p->name != NULL && strcmp(p->name, name) != 0) {
        p++;
    }
    return p->name != NULL ? p : NULL;
}
