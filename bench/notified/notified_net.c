/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of telpher-bench notified between two processes, for each way between them: what
 * dCUDA calls network managers. Each row's way stands in its name. Over MPI both processes
 * come from mpirun, and the way is that MPI's messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/mpi/mpi_module.h"
#include "bench/notified/notified_job.h"
#include "bench/notified/notified_pair.h"
#include "bench/ranks/ranks.h"

enum { META = 64 }; /* [bytes] of what a message is about */

/** A way between two processes, and dCUDA's figures of what it stands for. */
struct way {
    const char *name;
    const char *access, *notify; /* table 5.1 */
    const char *core; /* 5.3 */
    const char *one, *all; /* 5.4 */
};

/* Within a machine dCUDA went through its network adapter, too. */
static const struct way ways[] = {
    {"shm", "6.7 (MPI 23.7) node", "3.4 (MPI 5.0) node", "1.2 (MPI 1.3) node",
     "2.7 (staged 12.6) node", "2.2 (staged 10.3) node"},
    {"ucx", "6.9 (MPI 12.2) remote", "3.6 (MPI 5.4) remote", "1.4 (MPI 1.8) remote",
     "2.7 (staged 6.0) remote", "2.2 (staged 7.2) remote"},
    {"tcp", "6.9 (MPI 12.2) remote", "3.6 (MPI 5.4) remote", "1.4 (MPI 1.8) remote",
     "2.7 (staged 6.0) remote", "2.2 (staged 7.2) remote"},
    {"mpi", "12.2 (MPI) remote", "5.4 (MPI) remote", "1.8 (MPI) remote",
     "6.0 (MPI) remote", "7.2 (MPI) remote"},
};

/** A measurement that runs in both processes. */
typedef bool (*part_fn)(const struct notified *n, telpher_context *ctx,
                        const struct way *way);

static void
show(const struct notified *n, telpher_context *ctx, const struct way *way,
     const char *table, const char *what, int samples, double bytes, const char *thesis)
{
    char name[64];

    if (telpher_context_rank(ctx) == 0) {
        snprintf(name, sizeof(name), "%s, two processes, %s", what, way->name);
        notified_show(n, table, name, samples, bytes, thesis);
    }
}

/* ---- the rows ---- */

static bool
latencies(const struct notified *n, telpher_context *ctx, const struct way *way)
{
    const struct {
        enum notified_what what;
        const char *name, *thesis;
    } rows[] = {{NOTIFIED_PUT_4, "put_notify 4 B", way->access},
                {NOTIFIED_VALUE_8, "put_value_notify 8 B", "-"},
                {NOTIFIED_NOTIFY, "notify", way->notify}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!notified_latency(n, ctx, rows[i].what, 1)) {
            return false;
        }
        show(n, ctx, way, "5.1", rows[i].name, n->samples, 0, rows[i].thesis);
    }
    return true;
}

static bool
core(const struct notified *n, telpher_context *ctx, const struct way *way)
{
    if (!notified_core(n, ctx)) {
        return false;
    }
    show(n, ctx, way, "5.3", "the core's put 4 B", n->samples, 0, way->core);
    return true;
}

static bool
bandwidths(const struct notified *n, telpher_context *ctx, const struct way *way)
{
    const struct {
        uint32_t senders;
        const char *name, *thesis;
    } rows[] = {{1, "put, one rank", way->one},
                {(uint32_t)n->ranks / 2, "put, all ranks of one", way->all}};
    int samples = n->samples < 10 ? n->samples : n->samples / 10 + 9;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!notified_bandwidth(n, ctx, rows[i].senders, samples)) {
            return false;
        }
        show(n, ctx, way, "5.4", rows[i].name, samples,
             notified_moved(n, rows[i].senders), rows[i].thesis);
    }
    return true;
}

/* ---- two processes of our own ---- */

struct part {
    const struct notified *n;
    const struct way *way;
    part_fn fn;
};

static bool
take_part(telpher_context *ctx, void *arg)
{
    const struct part *p = arg;

    return p->fn(p->n, ctx, p->way);
}

/* The length of the name at the front of a list. */
static size_t
name_len(const char *list)
{
    return strcspn(list, ",");
}

static const struct way *
find_way(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strlen(ways[i].name) == len && strncmp(ways[i].name, name, len) == 0 &&
            strcmp(ways[i].name, "mpi") != 0) {
            return &ways[i];
        }
    }
    return NULL;
}

bool
notified_are_ways(const char *list)
{
    size_t len = name_len(list);

    return find_way(list, len) != NULL &&
           (list[len] == '\0' || notified_are_ways(list + len + 1));
}

/* Those of the list, in its order; of our own list, if libtelpher has them. */
static bool
each_way(const struct notified *n, part_fn fn)
{
    const char *list = n->transports != NULL ? n->transports : "shm,ucx,tcp";

    for (size_t len; *list != '\0'; list += len + (list[len] == ',')) {
        struct part part = {n, find_way(list, len = name_len(list)), fn};

        if (part.way != NULL &&
            (n->transports != NULL || notified_has(part.way->name)) &&
            !notified_pair(part.way->name, take_part, &part)) {
            return false;
        }
    }
    return true;
}

bool
notified_net_latencies(const struct notified *n)
{
    return each_way(n, latencies);
}

bool
notified_net_core(const struct notified *n)
{
    return each_way(n, core);
}

bool
notified_net_bandwidths(const struct notified *n)
{
    return each_way(n, bandwidths);
}

/* ---- two processes of mpirun ---- */

struct mpi_pair {
    const struct bench_mpi *mpi;
    uint32_t me;
    uint8_t data[META + 4];
};

/* As dCUDA's manager does with MPI: what it is about, then the data. */
static bool
trip(void *arg, uint64_t number)
{
    struct mpi_pair *p = arg;
    const struct bench_mpi *mpi = p->mpi;
    uint8_t *rest = p->data + META;
    int peer = 1 - (int)p->me;

    return p->me == 0 ? mpi->send(p->data, META, peer) && mpi->send(rest, 4, peer) &&
                            mpi->recv(p->data, META, peer) && mpi->recv(rest, 4, peer)
                      : mpi->recv(p->data, META, peer) && mpi->recv(rest, 4, peer) &&
                            mpi->send(p->data, META, peer) && mpi->send(rest, 4, peer);
}

static bool
two_messages(const struct notified *n, const struct bench_mpi *mpi, uint32_t me)
{
    struct mpi_pair pair = {.mpi = mpi, .me = me};
    bool good = notified_time(n, 2, n->us, trip, &pair);

    if (good && me == 0) {
        notified_show(n, "5.3", "floor: MPI's own two messages", n->samples, 0,
                      "1.8 (MPI) remote");
    }
    return good;
}

static bool
all_over(const struct notified *n, const struct bench_mpi *mpi, telpher_context *ctx)
{
    const struct way *way = &ways[sizeof(ways) / sizeof(ways[0]) - 1];
    struct notified quiet = *n;
    uint32_t me = telpher_context_rank(ctx);

    quiet.json |= me != 0; /* no heads */
    notified_head(&quiet, "5.1", "half a round trip, over MPI", "us");
    if (!latencies(n, ctx, way)) {
        return false;
    }
    notified_head(&quiet, "5.3", "half a round trip of the network, over MPI", "us");
    if (!two_messages(n, mpi, me) || !core(n, ctx, way)) {
        return false;
    }
    notified_head(&quiet, "5.4", "one direction, over MPI", "GB/s");
    return bandwidths(n, ctx, way);
}

bool
notified_is_mpi(const struct notified *n)
{
    return n->mpi != NULL || ranks_mpi_is_launcher();
}

bool
notified_mpi(const struct notified *n)
{
    const struct bench_mpi *mpi = ranks_mpi_load(n->mpi);
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    telpher_context *ctx;
    int rank, size;
    bool good;

    if (!mpi->start_serialized(&rank, &size) || size != 2) {
        fprintf(stderr, "telpher-bench: over MPI this takes two processes, and an MPI "
                        "that threads may call in turns\n");
        return false;
    }
    params.transports = "mpi";
    if (mpi->create_context(&params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: two processes over MPI: %s\n", err.text);
        return false;
    }
    good = all_over(n, mpi, ctx);
    telpher_context_destroy(ctx);
    mpi->stop();
    return good;
}
