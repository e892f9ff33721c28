/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of an MPI, each blocking, non-blocking and persistent, from one table. */
#include "bench/mpi/mpi_int.h"

#include <stdlib.h>

/* Of the collective that is open: one at a time. */
static struct {
    MPI_Comm comm, ring;
    MPI_Datatype type, *types;
    MPI_Request request;
    int count;
    int *counts, *displs, *bytes, *portions, *weights; /* of each rank; bytes: displs in
                                                          bytes */
    MPI_Aint *places; /* the same as bytes */
} s;

static void
release(struct bench_work *w)
{
    free(s.counts);
    free(s.types);
    free(s.places);
    if (s.ring != MPI_COMM_NULL) {
        MPI_Comm_free(&s.ring);
    }
}

/* A rank may be a neighbor more than once. */
static size_t
count_blocks(const struct bench_work *w)
{
    int most = w->size > w->source_count ? w->size : w->source_count;

    return (size_t)(most > w->destination_count ? most : w->destination_count);
}

static bool
prepare(struct bench_work *w)
{
    struct bench_mpi_elements block = bench_mpi_block(w);
    size_t n = count_blocks(w);
    size_t bytes =
        w->layout != NULL ? w->len : (size_t)block.count * bench_type_size(w->type);

    s.comm = bench_mpi_comm;
    s.ring = MPI_COMM_NULL;
    s.type = block.type;
    s.count = block.count;
    s.counts = malloc(5 * n * sizeof(*s.counts));
    s.types = malloc(n * sizeof(MPI_Datatype));
    s.places = malloc(n * sizeof(*s.places));
    if (s.counts == NULL || s.types == NULL || s.places == NULL) {
        return false;
    }
    s.displs = s.counts + n;
    s.bytes = s.displs + n;
    s.portions = s.bytes + n;
    s.weights = s.portions + n;
    for (int i = 0; i < (int)n; i++) {
        s.counts[i] = s.count;
        s.displs[i] = i * s.count;
        s.bytes[i] = (int)((size_t)i * bytes);
        s.places[i] = s.bytes[i];
        s.types[i] = s.type;
        s.portions[i] = bench_portion(s.count, w->size, i);
        s.weights[i] = 1;
    }
    return bench_mpi_good(MPI_Dist_graph_create_adjacent(
        s.comm, w->source_count, w->sources, s.weights, w->destination_count,
        w->destinations, s.weights, MPI_INFO_NULL, 0, &s.ring));
}

static bool
wait_one(struct bench_work *w)
{
    return bench_mpi_good(MPI_Wait(&s.request, MPI_STATUS_IGNORE));
}

static bool
test_one(struct bench_work *w)
{
    int done;

    return bench_mpi_good(MPI_Test(&s.request, &done, MPI_STATUS_IGNORE));
}

/* The send buffer of this rank. */
static void *
mine(struct bench_work *w)
{
    return w->in_place ? MPI_IN_PLACE : (void *)w->out;
}

/* Where the root has its own block already. */
static void *
at_root(struct bench_work *w, uint8_t *memory)
{
    return w->in_place && w->rank == w->root ? MPI_IN_PLACE : (void *)memory;
}

#define UNPACK(...) __VA_ARGS__
#define COLLECTIVE(name, Name, arguments)                                              \
    static bool name##_block(struct bench_work *w)                                     \
    {                                                                                  \
        return bench_mpi_good(MPI_##Name arguments) || w == NULL;                      \
    }                                                                                  \
    static bool name##_begin(struct bench_work *w)                                     \
    {                                                                                  \
        return bench_mpi_good(MPI_I##name(UNPACK arguments, &s.request)) || w == NULL; \
    }
#include "bench/mpi/collectives.def"
#undef COLLECTIVE

#ifdef BENCH_MPI_INIT
static bool
start_one(struct bench_work *w)
{
    return bench_mpi_good(MPI_Start(&s.request));
}

static void
release_persistent(struct bench_work *w)
{
    MPI_Request_free(&s.request);
    release(w);
}

#define COLLECTIVE(name, Name, arguments)                                              \
    static bool name##_init(struct bench_work *w)                                      \
    {                                                                                  \
        return prepare(w) && bench_mpi_good(BENCH_MPI_INIT(Name)(                      \
                                 UNPACK arguments, MPI_INFO_NULL, &s.request));        \
    }
#include "bench/mpi/collectives.def"
#undef COLLECTIVE
#define PERSISTENT(name)                                                               \
    {#name "_persistent", name##_init, start_one, wait_one, test_one,                  \
     release_persistent},
#else
#define PERSISTENT(name)
#endif

#define COLLECTIVE(name, Name, arguments)                                              \
    {#name, prepare, name##_block, NULL, NULL, release},                               \
        {"i" #name, prepare, name##_begin, wait_one, test_one, release},               \
        PERSISTENT(name)

const struct bench_call bench_mpi_collectives[] = {
#include "bench/mpi/collectives.def"
    {NULL, NULL, NULL, NULL, NULL, NULL}};
