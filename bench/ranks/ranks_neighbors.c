/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbors of a rank: in a ring, in a torus of some dimensions, or by the edges of a graph. */
#include "bench/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/ranks/ranks_lists.h"

/* Of this rank. Each as many as there are edges or ranks at most. */
static int *sources, *destinations;
static int source_count, destination_count;
static char reason[128];

static void
add(int source, int destination)
{
    if (source >= 0) {
        sources[source_count++] = source;
    }
    if (destination >= 0) {
        destinations[destination_count++] = destination;
    }
}

/* ---- a torus ---- */

/* The largest prime factor goes to the shortest dimension; longest dimensions first, as MPI_Dims_create. */
static void
divide(int size, int count, int *dims)
{
    int primes[32], n = 0;

    for (int p = 2; size > 1; p++) {
        for (; size % p == 0; size /= p) {
            primes[n++] = p;
        }
    }
    for (int i = 0; i < count; i++) {
        dims[i] = 1;
    }
    while (n > 0) {
        dims[count - 1] *= primes[--n];
        for (int i = count - 1; i > 0 && dims[i] > dims[i - 1]; i--) {
            int shorter = dims[i - 1];

            dims[i - 1] = dims[i];
            dims[i] = shorter;
        }
    }
}

/* The rank that is @p away from this one in each dimension; the last one varies fastest. */
static int
find_rank(const struct bench_work *w, int count, const int *dims, const int *away)
{
    int rank = 0, rest = w->rank, stride = 1;

    for (int i = count - 1; i >= 0; i--) {
        rank += ((rest % dims[i] + away[i] + dims[i]) % dims[i]) * stride;
        rest /= dims[i];
        stride *= dims[i];
    }
    return rank;
}

/* Counts @p away up from -radius in each dimension. @return false after the last one */
static bool
go_on(int *away, int count, int radius)
{
    for (int i = count - 1; i >= 0; i--) {
        if (away[i] < radius) {
            away[i]++;
            return true;
        }
        away[i] = -radius;
    }
    return false;
}

static const char *
set_torus(const struct bench_work *w, int count, int radius)
{
    int dims[RANKS_DIMS] = {0}, away[RANKS_DIMS];

    divide(w->size, count, dims);
    if (radius > (dims[count - 1] - 1) / 2) {
        snprintf(reason, sizeof(reason),
                 "-N cart: radius %d needs %d ranks in each of %d dimensions, this job "
                 "has %d in the last",
                 radius, radius > 0xffff ? radius : 2 * radius + 1, count,
                 dims[count - 1]);
        return reason;
    }
    for (int i = 0; i < count; i++) {
        away[i] = -radius;
    }
    do {
        int rank = find_rank(w, count, dims, away);

        if (rank != w->rank) {
            add(rank, rank);
        }
    } while (go_on(away, count, radius));
    return NULL;
}

/* ---- others ---- */

static const char *
set_graph(const struct bench_work *w, const struct ranks_list *edges)
{
    for (int i = 0; i < edges->count; i++) {
        int from = edges->first[i], to = edges->second[i];

        if (from >= w->size || to >= w->size) {
            snprintf(reason, sizeof(reason),
                     "-N graph: edge %d, %d: this job has ranks 0 to %d", from, to,
                     w->size - 1);
            return reason;
        }
        add(to == w->rank ? from : -1, from == w->rank ? to : -1);
    }
    return NULL;
}

/* The neighbor on both sides counts once. */
static void
set_ring(const struct bench_work *w)
{
    int left = (w->rank + w->size - 1) % w->size, right = (w->rank + 1) % w->size;

    add(left < right ? left : right, left < right ? left : right);
    if (left != right) {
        add(left < right ? right : left, left < right ? right : left);
    }
}

const char *
ranks_set_neighbors(struct bench_work *w, const struct ranks_options *o)
{
    size_t most =
        (size_t)w->size + (o->edges != NULL ? (size_t)o->edges->count : 0) + 2;
    const char *why = NULL;

    free(sources);
    free(destinations);
    sources = calloc(most, sizeof(*sources));
    destinations = calloc(most, sizeof(*destinations));
    source_count = destination_count = 0;
    if (sources == NULL || destinations == NULL) {
        return "out of memory";
    }
    if (o->edges != NULL) {
        why = set_graph(w, o->edges);
    } else if (o->dims != 0) {
        why = set_torus(w, o->dims, o->radius);
    } else {
        set_ring(w);
    }
    w->sources = sources;
    w->destinations = destinations;
    w->source_count = source_count;
    w->destination_count = destination_count;
    return why;
}
