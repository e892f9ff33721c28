/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jacobi's method on a cube, cut into slabs, one for each rank: neighbours exchange the
 * planes at their borders through channels. Rank 0 computes the same alone and compares.
 *
 *     telpher launch -n 4 -- 04_jacobi3d [EDGE [STEPS]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/channel.h>

#define LIMIT UINT64_C(60000000000) /* [ns] */

/** A slab of planes with one more on either side, of a cube with fixed borders. */
struct slab {
    int edge; /* points along an edge, borders included */
    int first, count; /* planes that this rank computes */
    double *now, *next; /* (count + 2) planes */
};

static telpher_context *job;

static void
must(telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", what, telpher_last_error(job));
        exit(EXIT_FAILURE);
    }
}

static size_t
plane(const struct slab *s)
{
    return (size_t)s->edge * (size_t)s->edge;
}

/* The face z = 0 is hot, everything else begins cold. */
static struct slab
slab_create(int edge, int first, int count)
{
    struct slab s = {.edge = edge, .first = first, .count = count};
    size_t points = plane(&s) * (size_t)(count + 2);

    s.now = calloc(points, sizeof(double));
    s.next = calloc(points, sizeof(double));
    if (s.now == NULL || s.next == NULL) {
        fprintf(stderr, "no memory for %zu points\n", points);
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; first == 1 && i < plane(&s); i++) {
        s.now[i] = s.next[i] = 1;
    }
    return s;
}

static void
slab_destroy(struct slab *s)
{
    free(s->now);
    free(s->next);
}

/* Each point becomes the mean of its six neighbours. */
static void
relax(struct slab *s)
{
    size_t e = (size_t)s->edge, p = plane(s);
    double *swap = s->now;

    for (int z = 1; z <= s->count; z++) {
        for (size_t y = 1; y + 1 < e; y++) {
            for (size_t x = 1; x + 1 < e; x++) {
                size_t i = (size_t)z * p + y * e + x;

                s->next[i] = (s->now[i - 1] + s->now[i + 1] + s->now[i - e] +
                              s->now[i + e] + s->now[i - p] + s->now[i + p]) /
                             6;
            }
        }
    }
    s->now = s->next;
    s->next = swap;
}

/** The way to one neighbour. */
struct border {
    telpher_channel *channel; /* NULL: there is none */
    telpher_request *send, *recv;
};

static void
begin_exchange(const struct slab *s, struct border *b, int mine, int theirs)
{
    size_t len = plane(s) * sizeof(double);

    b->send = b->recv = NULL;
    if (b->channel != NULL) {
        telpher_status status = telpher_channel_recv(
            b->channel, s->now + (size_t)theirs * plane(s), len, NULL, &b->recv, NULL);

        must(status < 0 ? status : TELPHER_OK, "receive");
        status = telpher_channel_send(b->channel, s->now + (size_t)mine * plane(s), len,
                                      NULL, &b->send);
        must(status < 0 ? status : TELPHER_OK, "send");
    }
}

static void
end_exchange(struct border *b)
{
    if (b->recv != NULL) {
        must(telpher_request_wait(b->recv, LIMIT, NULL), "receive");
    }
    if (b->send != NULL) {
        must(telpher_request_wait(b->send, LIMIT, NULL), "send");
    }
}

static void
run(struct slab *s, struct border *below, struct border *above, int steps)
{
    for (int step = 0; step < steps; step++) {
        begin_exchange(s, below, 1, 0);
        begin_exchange(s, above, s->count, s->count + 1);
        end_exchange(below);
        end_exchange(above);
        relax(s);
    }
}

/* Rank 0 gathers the planes and compares them with what it computes alone. */
static int
compare(telpher_context *ctx, const struct slab *mine, int steps)
{
    uint32_t size = telpher_context_size(ctx);
    int inner = mine->edge - 2;
    struct slab alone = slab_create(mine->edge, 1, inner);
    struct border none = {0};
    double *planes = calloc(plane(mine), sizeof(double)), worst = 0;

    run(&alone, &none, &none, steps);
    for (uint32_t r = 0; r < size; r++) {
        int first = 1 + (int)((long)inner * r / size);
        int end = 1 + (int)((long)inner * (r + 1) / size);
        telpher_channel *channel = NULL;

        if (r != 0) {
            must(telpher_channel_open(ctx, r, 2, &channel), "channel");
        }
        for (int z = first; z < end; z++) {
            const double *got = r == 0 ? mine->now + (size_t)z * plane(mine) : planes;

            if (r != 0) {
                telpher_request *req = NULL;
                telpher_status status = telpher_channel_recv(
                    channel, planes, plane(mine) * sizeof(double), NULL, &req, NULL);

                must(status == TELPHER_IN_PROGRESS
                         ? telpher_request_wait(req, LIMIT, NULL)
                         : status,
                     "gather");
            }
            for (size_t i = 0; i < plane(mine); i++) {
                worst =
                    fmax(worst, fabs(got[i] - alone.now[(size_t)z * plane(mine) + i]));
            }
        }
    }
    printf("%u ranks, %d^3 points, %d steps: largest difference to one rank alone %g\n",
           size, mine->edge, steps, worst);
    slab_destroy(&alone);
    free(planes);
    return worst == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
give_planes(telpher_context *ctx, const struct slab *s)
{
    telpher_channel *channel;

    must(telpher_channel_open(ctx, 0, 2, &channel), "channel");
    for (int z = 1; z <= s->count; z++) {
        telpher_request *req = NULL;
        telpher_status status =
            telpher_channel_send(channel, s->now + (size_t)z * plane(s),
                                 plane(s) * sizeof(double), NULL, &req);

        must(status == TELPHER_IN_PROGRESS ? telpher_request_wait(req, LIMIT, NULL)
                                           : status,
             "gather");
    }
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    int edge = argc > 1 ? atoi(argv[1]) : 48, steps = argc > 2 ? atoi(argv[2]) : 50;
    struct border below = {0}, above = {0};
    telpher_error err = {0};
    uint32_t rank, size;
    struct slab slab;
    int first, end, code;

    if (telpher_context_create(NULL, &job, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    rank = telpher_context_rank(job);
    size = telpher_context_size(job);
    if (steps < 1 || edge < 3 || (uint32_t)edge - 2 < size) {
        fprintf(stderr, "an edge of at least %u points and a step, please\n", size + 2);
        return 2;
    }
    first = 1 + (int)((long)(edge - 2) * rank / size);
    end = 1 + (int)((long)(edge - 2) * (rank + 1) / size);
    slab = slab_create(edge, first, end - first);
    if (rank > 0) {
        must(telpher_channel_open(job, rank - 1, 1, &below.channel), "channel");
    }
    if (rank + 1 < size) {
        must(telpher_channel_open(job, rank + 1, 1, &above.channel), "channel");
    }
    run(&slab, &below, &above, steps);
    code = rank == 0 ? compare(job, &slab, steps) : give_planes(job, &slab);
    must(telpher_barrier(job, LIMIT), "barrier");
    slab_destroy(&slab);
    telpher_context_destroy(job);
    return code;
}
