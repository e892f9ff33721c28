/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that does what a number says: all ranks draw the same row of steps from it, each
 * step a legal piece of communication whose result is known. Compiled for the check, too.
 */
#include "rma/test/test_random.h"

#include <stdbool.h>

enum { WORLD = TELPHER_RMA_WORLD, CELLS_MAX = 200, KINDS = 10, TAGS_ANY = 3 };
enum tags { CAME, READ, ANSWER, ANY /* and the next two */ };

/* State of a running rank. Its lanes share cells and words. */
struct rank {
    telpher_rma *rma;
    uint64_t seed;
    uint32_t me, size, lane, lanes;
    telpher_rma_comm comm; /* the latest split's */
    telpher_rma_win win; /* of in */
    uint64_t *in, *out;
    uint64_t *word;
};

static uint64_t
draw(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + a * 0xbf58476d1ce4e5b9u + b;

    x ^= x >> 30;
    x *= 0x94d049bb133111ebu;
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

static void
expect(const struct rank *r, bool right)
{
    if (!right) {
        telpher_rma_fail(r->rma, TELPHER_ERR_PROTO);
    }
}

static void
fill(const struct rank *r, uint32_t step, uint32_t count)
{
    for (uint32_t i = r->lane; i < count; i += r->lanes) {
        r->out[i] = draw(r->me, step, i);
    }
}

/* Every lane looks at all of it. */
static void
expect_from(const struct rank *r, const uint64_t *got, uint32_t from, uint32_t step,
            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        expect(r, got[i] == draw(from, step, i));
    }
}

/* One round of shift(): who has read says so, and may be written to again. */
static void
shift_once(struct rank *r, uint32_t step, uint64_t chance, uint32_t by)
{
    uint32_t count = (uint32_t)(chance >> 32) % CELLS_MAX;
    uint32_t to = (r->me + by) % r->size, from = (r->me + r->size - by) % r->size;

    fill(r, step, count);
    if (chance & 1 << 20) {
        telpher_rma_put(r->rma, r->win, to, 0, r->out, (uint64_t)count * 8);
        telpher_rma_notify(r->rma, WORLD, to, CAME);
    } else {
        telpher_rma_put_notify(r->rma, r->win, to, 0, r->out, (uint64_t)count * 8,
                               CAME);
    }
    if (chance & 1 << 21) {
        while (telpher_rma_test(r->rma, CAME, 1) == TELPHER_ERR_AGAIN) {
        }
    } else {
        telpher_rma_wait_from(r->rma, WORLD, from, CAME, 1);
    }
    expect_from(r, r->in, from, step, count);
    telpher_rma_notify(r->rma, WORLD, from, READ);
    telpher_rma_wait(r->rma, READ, 1);
}

/* Some rounds to the one some places on. */
static void
shift(struct rank *r, uint32_t step, uint64_t chance)
{
    for (uint32_t i = 0; i <= (chance >> 50) % 4; i++) {
        shift_once(r, step * 4 + i, draw(chance, i, 0), (uint32_t)(chance % r->size));
    }
}

static void
add_up(struct rank *r, uint32_t step, uint64_t chance)
{
    uint32_t count = (uint32_t)(chance >> 32) % CELLS_MAX, size;
    telpher_rma_comm comm = chance & 1 ? WORLD : TELPHER_RMA_DEVICE;

    size = telpher_rma_size(r->rma, comm);
    for (uint32_t i = r->lane; i < count; i += r->lanes) {
        r->out[i] = telpher_rma_rank(r->rma, comm) + i + step;
    }
    telpher_rma_allreduce(r->rma, comm, r->out, r->out, count, TELPHER_RMA_U64,
                          TELPHER_RMA_SUM, 0);
    for (uint32_t i = 0; i < count; i++) {
        expect(r, r->out[i] ==
                      (uint64_t)size * (size - 1) / 2 + (uint64_t)size * (i + step));
    }
    telpher_rma_sync(r->rma);
}

static void
spread(struct rank *r, uint32_t step, uint64_t chance)
{
    uint32_t count = (uint32_t)(chance >> 32) % CELLS_MAX;
    uint32_t root = (uint32_t)(chance % r->size);

    fill(r, step, count);
    telpher_rma_broadcast(r->rma, WORLD, root, r->out, (uint64_t)count * 8);
    expect_from(r, r->out, root, step, count);
    telpher_rma_sync(r->rma);
}

static uint32_t
color_of(const struct rank *r, uint32_t rank, uint32_t step)
{
    return (uint32_t)(draw(r->seed, step, rank) % 3);
}

/* Some ranks in a new group, by keys that turn them round or do not. */
static void
part(struct rank *r, uint32_t step, uint64_t chance)
{
    int32_t key = chance & 1 ? -(int32_t)r->me : (int32_t)r->me;
    uint32_t mine = color_of(r, r->me, step), size = 0, before = 0;

    telpher_rma_split(r->rma, WORLD, (int32_t)mine, key, &r->comm);
    for (uint32_t i = 0; i < r->size; i++) {
        size += color_of(r, i, step) == mine;
        before += color_of(r, i, step) == mine && (chance & 1 ? i > r->me : i < r->me);
    }
    expect(r, telpher_rma_size(r->rma, r->comm) == size &&
                  telpher_rma_rank(r->rma, r->comm) == before);
    telpher_rma_barrier(r->rma, r->comm);
}

/* A window of parts of different sizes; the next one's is read, then it ends. */
static void
fetch(struct rank *r, uint32_t step, uint64_t chance)
{
    uint32_t next = (r->me + 1) % r->size;
    uint32_t count = (uint32_t)(draw(chance, 0, r->me) % CELLS_MAX);
    uint32_t there = (uint32_t)(draw(chance, 0, next) % CELLS_MAX);
    telpher_rma_win win;

    fill(r, step, count);
    telpher_rma_win_create(r->rma, WORLD, r->out, (uint64_t)count * 8, &win);
    expect(r, telpher_rma_win_size(r->rma, win, next) == (uint64_t)there * 8);
    telpher_rma_get(r->rma, win, next, 0, r->in, (uint64_t)there * 8);
    expect_from(r, r->in, next, step, there);
    telpher_rma_win_free(r->rma, win);
}

/* Three tags, one of them twice, in whatever order they come. */
static void
gather_any(struct rank *r, uint32_t step, uint64_t chance)
{
    const uint32_t tags[TAGS_ANY] = {ANY + 2, ANY, ANY + 1};
    uint32_t got[TAGS_ANY] = {0}, next = (r->me + 1) % r->size, tag = 0;
    uint32_t twice = (uint32_t)(chance % TAGS_ANY);

    for (uint32_t i = 0; i <= TAGS_ANY; i++) {
        telpher_rma_notify(r->rma, WORLD, next, ANY + (twice + i) % TAGS_ANY);
    }
    for (uint32_t i = 0; i <= TAGS_ANY; i++) {
        telpher_rma_wait_any(r->rma, tags, TAGS_ANY, &tag);
        got[(tag - ANY) % TAGS_ANY]++;
    }
    for (uint32_t i = 0; i < TAGS_ANY; i++) {
        expect(r, got[i] == 1 + (i == twice));
    }
    telpher_rma_barrier(r->rma, WORLD);
}

/* One word from everybody to everybody, into places of their own. */
static void
tell_all(struct rank *r, uint32_t step, uint64_t chance)
{
    for (uint32_t to = 0; to < r->size; to++) {
        telpher_rma_put_value_notify(r->rma, r->win, to, (uint64_t)r->me * 8,
                                     draw(r->me, step, to), ANSWER);
    }
    telpher_rma_wait(r->rma, ANSWER, r->size);
    for (uint32_t from = 0; from < r->size; from++) {
        expect(r, r->in[from] == draw(from, step, r->me));
    }
    telpher_rma_barrier(r->rma, WORLD);
}

static void
add_lanes(struct rank *r, uint32_t step, uint64_t chance)
{
    double sum = telpher_rma_lane_sum(r->rma, r->lane + step);

    expect(r, sum == r->lanes * (r->lanes - 1) / 2.0 + (double)r->lanes * step);
}

/* A wait that ends by itself, or at once. */
static void
wait_a_little(struct rank *r, uint32_t step, uint64_t chance)
{
    expect(r, telpher_rma_wait_for(r->rma, CAME, 1, chance % 50000) ==
                  TELPHER_ERR_TIMEOUT);
    telpher_rma_notify(r->rma, WORLD, r->me, READ);
    expect(r, telpher_rma_wait_for(r->rma, READ, 1, 0) == TELPHER_OK);
}

/* A word goes through the members of the latest group, each adding one. */
static void
pass_on(struct rank *r, uint32_t step, uint64_t chance)
{
    uint32_t me = telpher_rma_rank(r->rma, r->comm);
    uint32_t size = telpher_rma_size(r->rma, r->comm);
    telpher_rma_win win;

    telpher_rma_win_create(r->rma, r->comm, r->word, 8, &win);
    if (me == 0 && r->lane == 0) {
        *r->word = step;
    }
    if (me != 0) {
        telpher_rma_wait_from(r->rma, r->comm, me - 1, ANSWER, 1);
        expect(r, *r->word == step + me);
    }
    if (me + 1 < size) {
        telpher_rma_sync(r->rma);
        telpher_rma_put_value_notify(r->rma, win, me + 1, 0, *r->word + 1, ANSWER);
    }
    telpher_rma_win_free(r->rma, win);
}

TELPHER_RMA_KERNEL(kernel_random)
{
    static void (*const kinds[KINDS])(struct rank *, uint32_t, uint64_t) = {
        shift,      add_up,   spread,    part,          fetch,
        gather_any, tell_all, add_lanes, wait_a_little, pass_on};
    const struct chance_data *d = (const struct chance_data *)telpher_rma_data(rma);
    TELPHER_RMA_SHARED(rma, uint64_t, in, CELLS_MAX);
    TELPHER_RMA_SHARED(rma, uint64_t, out, CELLS_MAX);
    TELPHER_RMA_SHARED(rma, uint64_t, word, 1);
    struct rank r = {.rma = rma,
                     .seed = d->seed,
                     .me = rma->world_rank,
                     .size = rma->world_size,
                     .lane = telpher_rma_lane(rma),
                     .lanes = telpher_rma_lanes(rma),
                     .comm = WORLD,
                     .in = in,
                     .out = out,
                     .word = word};

    telpher_rma_win_create(rma, WORLD, in, (uint64_t)CELLS_MAX * 8, &r.win);
    for (uint32_t step = 0; step < d->steps; step++) {
        uint64_t chance = draw(d->seed, step, UINT64_MAX);

        if (telpher_rma_barrier(rma, WORLD) != TELPHER_OK) { /* in is everybody's */
            return;
        }
        kinds[(chance >> 40) % KINDS](&r, step, chance);
    }
    telpher_rma_win_free(rma, r.win);
}
