/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: particles in a plane that push each other away when they are nearer than 1.
 * The plane is cut into segments as wide as that distance; each rank has some, and needs
 * the one beside its own on both sides. A device has memory of its own, with a copy of the
 * neighbour's segment at each end.
 *
 * A step: push and move the own particles; once the neighbours have moved theirs, gather
 * what lies in the own segments now. The order within a segment is that of the segments
 * before, so sums come out the same bit for bit for any number of ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phases.h"

#ifdef STUDY_THESIS /* 416 x 416 and 410,600 particles a device */
enum { CAPACITY = 1280, PER_SEGMENT = 987, WIDTH = 416 };
enum {
    RANKS = 208,
    SEGMENTS = 2,
    STEPS = 100,
    CHECKED = 2 /* the serial one is slow; what a step sends last the next one needs */
};
#else
enum { CAPACITY = 32, PER_SEGMENT = 10, WIDTH = 8 };
enum { RANKS = 8, SEGMENTS = 4, STEPS = 40, CHECKED = 0 };
#endif
enum tags { MOVED, SORTED };
#define STEP 0.02

struct particle {
    double x, y, vx, vy;
    uint64_t id;
};

struct segment {
    uint64_t count, apart; /* a multiple of 16 bytes is put faster */
    struct particle p[CAPACITY];
};

/* Segments of one device, from 1; 0 and segments + 1 are copies of the neighbours'. */
struct part {
    struct segment *now, *moved;
    uint32_t *counts; /* of each rank's lanes */
};

struct data {
    uint32_t does; /* enum study_does */
    uint32_t segments; /* of a device */
    uint32_t steps;
    struct part *parts;
};

/* ---- one particle ---- */

/* The part of a particle that acts on others. */
struct source {
    double x, y;
    uint64_t id;
};

TELPHER_RMA_FN_BOTH static void
push(const struct source *a, const struct source *b, double *fx, double *fy)
{
    double dx = a->x - b->x, dy = a->y - b->y, square = dx * dx + dy * dy, far;

    if (a->id != b->id && square < 1.0 && square > 0.0) {
        far = sqrt(square);
        *fx += dx / far * (1.0 - far);
        *fy += dy / far * (1.0 - far);
    }
}

TELPHER_RMA_FN_BOTH static struct source
source_of(const struct particle *p)
{
    const struct source source = {p->x, p->y, p->id};

    return source;
}

/* All of a segment push a particle; some are read at once. */
TELPHER_RMA_FN_BOTH static void
push_all(const struct source *a, const struct segment *segment, double *fx, double *fy)
{
    enum { AT_ONCE = 4 };
    const uint32_t count = (uint32_t)segment->count;

    for (uint32_t first = 0; first < count; first += AT_ONCE) {
        struct source some[AT_ONCE];

        for (uint32_t k = 0; k < AT_ONCE; k++) {
            some[k] = source_of(&segment->p[first + k < count ? first + k : first]);
        }
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            if (first + k < count) {
                push(a, &some[k], fx, fy);
            }
        }
    }
}

/* Back into 0 to @p end. */
TELPHER_RMA_FN_BOTH static void
reflect(double *at, double *speed, double end)
{
    if (*at < 0.0) {
        *at = -*at;
        *speed = -*speed;
    } else if (*at >= end) {
        *at = 2.0 * end - *at;
        *at = *at < end ? *at : nextafter(end, 0.0);
        *speed = -*speed;
    }
}

TELPHER_RMA_FN_BOTH static struct particle
move(struct particle p, double fx, double fy, double length)
{
    p.vx += fx * STEP;
    p.vy += fy * STEP;
    p.x += p.vx * STEP;
    p.y += p.vy * STEP;
    reflect(&p.x, &p.vx, WIDTH);
    reflect(&p.y, &p.vy, length);
    return p;
}

/* ---- the kernel ---- */

struct place {
    telpher_rma *rma;
    struct part part;
    telpher_rma_win win_now, win_moved;
    uint32_t segments, first, last, offset; /* offset: of the device in the plane */
    double length; /* of the plane */
    int good;
};

/* Forces from the three segments that reach so far, in their order. */
TELPHER_RMA_FN static void
move_own(const struct place *p)
{
    for (uint32_t s = p->first; s <= p->last; s++) {
        const struct segment *own = &p->part.now[s];
        const uint32_t count = (uint32_t)own->count;

        if (telpher_rma_lane(p->rma) == 0) {
            p->part.moved[s].count = count;
        }
        for (uint32_t i = telpher_rma_lane(p->rma); i < count;
             i += telpher_rma_lanes(p->rma)) {
            const struct particle it = own->p[i];
            const struct source source = source_of(&it);
            double fx = 0, fy = 0;

            for (uint32_t n = s - 1; n <= s + 1; n++) {
                push_all(&source, &p->part.now[n], &fx, &fy);
            }
            p->part.moved[s].p[i] = move(it, fx, fy, p->length);
        }
    }
}

/* Of those that may lie in segment @p s now, its own and its neighbours' in their order,
 * number @p i. */
TELPHER_RMA_FN static const struct particle *
candidate(const struct place *p, uint32_t s, const uint32_t counts[3], uint32_t i)
{
    const struct segment *from = &p->part.moved[s - 1];
    uint32_t n = (i >= counts[0]) + (i >= counts[0] + counts[1]);

    i -= n > 0 ? counts[0] : 0;
    i -= n > 1 ? counts[1] : 0;
    return &from[n].p[i];
}

/* Collects the particles of segment @p s. Each lane has consecutive candidates, and writes
 * after the particles that earlier lanes found. */
TELPHER_RMA_FN static int
gather(const struct place *p, uint32_t s)
{
    const struct segment *from = &p->part.moved[s - 1];
    const uint32_t counts[3] = {(uint32_t)from[0].count, (uint32_t)from[1].count,
                                (uint32_t)from[2].count};
    const uint32_t all = counts[0] + counts[1] + counts[2];
    const uint32_t lane = telpher_rma_lane(p->rma), lanes = telpher_rma_lanes(p->rma);
    const uint32_t first = study_first(all, lanes, lane);
    const uint32_t end = study_first(all, lanes, lane + 1);
    const double low = p->offset + s - 1;
    uint32_t *found = &p->part.counts[p->rma->device_rank * TELPHER_RMA_LANES_MAX];
    struct segment *to = &p->part.now[s];
    uint32_t count = 0, at = 0;

    for (uint32_t i = first; i < end; i++) {
        double y = candidate(p, s, counts, i)->y;

        count += y >= low && y < low + 1.0;
    }
    found[lane] = count;
    study_sync(p->rma);
    for (uint32_t i = 0; i < lane; i++) {
        at += found[i];
    }
    for (uint32_t i = first; i < end; i++) {
        const struct particle it = *candidate(p, s, counts, i);

        if (it.y >= low && it.y < low + 1.0) {
            if (at < CAPACITY) {
                to->p[at] = it;
            }
            at++;
        }
    }
    if (lane == lanes - 1) {
        to->count = at < CAPACITY ? at : CAPACITY;
    }
    study_sync(p->rma); /* before it is used again */
    return at <= CAPACITY;
}

TELPHER_RMA_FN static void
gather_own(struct place *p)
{
    for (uint32_t s = p->first; s <= p->last; s++) {
        p->good = gather(p, s) && p->good;
    }
}

/* Segment @p s is there for rank @p to; the target's device has a place for it at @p at. */
TELPHER_RMA_FN static void
send(const struct place *p, telpher_rma_win win, const struct segment *field,
     uint32_t s, uint32_t to, uint32_t at, int other_device, uint32_t tag)
{
    if (other_device) {
        telpher_rma_put_notify(p->rma, win, to, at * sizeof(*field), &field[s],
                               offsetof(struct segment, p) +
                                   field[s].count * sizeof(struct particle),
                               tag);
    } else {
        telpher_rma_notify(p->rma, TELPHER_RMA_WORLD, to, tag);
    }
}

TELPHER_RMA_FN static void
exchange(const struct place *p, telpher_rma_win win, const struct segment *field,
         uint32_t tag)
{
    uint32_t me = p->rma->world_rank, size = p->rma->world_size;
    const uint32_t sides[2] = {me - 1, me + 1};
    int first = p->first == 1, last = p->last == p->segments;

    if (!first && !last) {
        telpher_rma_notify_each(p->rma, TELPHER_RMA_WORLD, sides, 2, tag);
    }
    if (me > 0 && (first || last)) {
        send(p, win, field, p->first, me - 1, p->segments + 1, first, tag);
    }
    if (me < size - 1 && (first || last)) {
        send(p, win, field, p->last, me + 1, 0, last, tag);
    }
    telpher_rma_wait(p->rma, tag, (me > 0) + (me < size - 1));
}

/* The rank's place, without windows. */
TELPHER_RMA_FN static struct place
place_of(telpher_rma *rma)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    struct place p = {
        .rma = rma,
        .part = data->parts[rma->device],
        .segments = data->segments,
        .first = 1 + study_first(data->segments, rma->device_size, rma->device_rank),
        .last = study_first(data->segments, rma->device_size, rma->device_rank + 1),
        .offset = rma->device * data->segments,
        .length = (double)data->segments * rma->devices,
        .good = 1};

    return p;
}

TELPHER_RMA_FN static void
step(struct place *p, uint32_t does)
{
    if ((does & STUDY_COMPUTES) != 0) {
        move_own(p);
    }
    telpher_rma_sync(p->rma);
    if ((does & STUDY_SENDS) != 0) {
        exchange(p, p->win_moved, p->part.moved, MOVED);
    }
    if ((does & STUDY_COMPUTES) != 0) {
        gather_own(p);
    }
    telpher_rma_sync(p->rma);
    if ((does & STUDY_SENDS) != 0) {
        exchange(p, p->win_now, p->part.now, SORTED);
    }
}

TELPHER_RMA_KERNEL(particles)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    uint64_t len = (data->segments + 2) * sizeof(struct segment);
    struct place p = place_of(rma);

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.part.now, len, &p.win_now);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.part.moved, len, &p.win_moved);
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < data->steps; i++) {
        step(&p, data->does);
    }
    telpher_rma_timer_stop(rma);
    if (!p.good && data->does == STUDY_DOES_BOTH) {
        telpher_rma_log(rma, "more particles in a segment than it holds");
        telpher_rma_fail(rma, TELPHER_ERR_LIMIT);
    }
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
}

/* ---- two models: the host copies segments between devices ---- */

STUDY_PHASE(move_phase)
{
    struct place p = place_of(rma);

    (void)step;
    move_own(&p);
}

/* Particles that do not fit are dropped; the check at the end finds it. */
STUDY_PHASE(gather_phase)
{
    struct place p = place_of(rma);

    (void)step;
    gather_own(&p);
}

/* Neighbours' segments at both ends of each device, with all their room: the host does not know
 * how many particles there are. In the thesis' size that is 30 % more than ranks put. */
static void
copy_ends(study_host *host, uint32_t device, struct segment *below,
          struct segment *above, uint32_t segments)
{
    study_copy(host, device, &above[0], device - 1, &below[segments], sizeof(*above), 0,
               1);
    study_copy(host, device - 1, &below[segments + 1], device, &above[1],
               sizeof(*below), 0, 1);
}

static void
two_model(study_host *host, const struct study *s, void *data)
{
    const struct data *d = (const struct data *)data;

    for (uint32_t i = 0; i < s->steps; i++) {
        study_launch(host, move_phase, i);
        for (uint32_t k = 1; k < s->devices; k++) {
            copy_ends(host, k, d->parts[k - 1].moved, d->parts[k].moved, d->segments);
        }
        study_launch(host, gather_phase, i);
        for (uint32_t k = 1; k < s->devices; k++) {
            copy_ends(host, k, d->parts[k - 1].now, d->parts[k].now, d->segments);
        }
    }
    study_settle(host);
}

/* ---- the serial program: every pair of neighbouring segments, one after the other ---- */

static void
serial_step(struct segment *now, struct segment *moved, uint32_t segments)
{
    for (uint32_t s = 1; s <= segments; s++) {
        moved[s].count = now[s].count;
        for (uint64_t i = 0; i < now[s].count; i++) {
            const struct source source = source_of(&now[s].p[i]);
            double fx = 0, fy = 0;

            for (uint32_t n = s - 1; n <= s + 1; n++) {
                for (uint64_t k = 0; k < now[n].count; k++) {
                    const struct source other = source_of(&now[n].p[k]);

                    push(&source, &other, &fx, &fy);
                }
            }
            moved[s].p[i] = move(now[s].p[i], fx, fy, segments);
        }
    }
    for (uint32_t s = 1; s <= segments; s++) {
        now[s].count = 0;
    }
    for (uint32_t s = 1; s <= segments; s++) {
        for (uint64_t i = 0; i < moved[s].count; i++) {
            struct segment *to = &now[1 + (uint32_t)moved[s].p[i].y];

            if (to->count == CAPACITY) {
                fprintf(stderr, "more particles in a segment than it holds\n");
                exit(1);
            }
            to->p[to->count++] = moved[s].p[i];
        }
    }
}

/* ---- data ---- */

static void
fill_segment(struct segment *segment, uint32_t index)
{
    segment->count = PER_SEGMENT;
    for (uint32_t i = 0; i < PER_SEGMENT; i++) {
        struct particle *p = &segment->p[i];

        p->id = (uint64_t)index * PER_SEGMENT + i + 1;
        p->x = (double)WIDTH * study_unit(p->id, 1);
        p->y = index + study_unit(p->id, 2);
        p->vx = study_unit(p->id, 3) - 0.5;
        p->vy = study_unit(p->id, 4) - 0.5;
    }
}

/* Segments from the plane's number @p first on; neighbours' where the plane goes on. */
static struct part
make_part(uint32_t segments, uint32_t first, uint32_t all, uint32_t ranks)
{
    struct part part = {STUDY_NEW(struct segment, segments + 2),
                        STUDY_NEW(struct segment, segments + 2),
                        STUDY_NEW(uint32_t, (size_t)ranks * TELPHER_RMA_LANES_MAX)};

    for (uint32_t s = 0; s < segments + 2; s++) {
        if (first + s >= 1 && first + s <= all) {
            fill_segment(&part.now[s], first + s - 1);
        }
    }
    return part;
}

static void
free_part(struct part *part)
{
    study_free(part->now);
    study_free(part->moved);
    study_free(part->counts);
}

/* Same particles, in the same order; ids are as good as any other number to compare. */
static int
check(const struct study *s, const void *data, const void *serial_data)
{
    const struct data *d = (const struct data *)data;
    const struct segment *right = (const struct segment *)serial_data;
    uint32_t all = d->segments * s->devices;
    uint64_t count = 0, ids = 0;

    for (uint32_t i = 0; i < all; i++) {
        const struct segment *a = &d->parts[i / d->segments].now[i % d->segments + 1];
        const struct segment *b = &right[i + 1];

        a = study_has_device(s, i / d->segments) ? a : b; /* else it is elsewhere */
        if (a->count != b->count ||
            memcmp(a->p, b->p, a->count * sizeof(a->p[0])) != 0) {
            printf("particles: segment %u differs\n", i);
            return 1;
        }
        count += a->count;
        for (uint64_t k = 0; k < a->count; k++) {
            ids += study_random(a->p[k].id, 0);
        }
    }
    for (uint64_t id = 1; id <= (uint64_t)all * PER_SEGMENT; id++) {
        ids -= study_random(id, 0);
    }
    if (count != (uint64_t)all * PER_SEGMENT || ids != 0) {
        printf("particles: some are lost\n");
        return 1;
    }
    printf("particles: %llu, all equal to the serial ones bit for bit\n",
           (unsigned long long)count);
    return 0;
}

static void
make(const struct study *s, void *ret_data)
{
    struct data *d = (struct data *)ret_data;

    d->segments = s->size * (s->ranks / s->devices);
    d->steps = s->steps;
    d->parts = STUDY_NEW(struct part, s->devices);
    for (uint32_t i = 0; i < s->devices; i++) {
        study_on(i, s->devices);
        d->parts[i] = make_part(d->segments, i * d->segments, d->segments * s->devices,
                                s->ranks / s->devices);
    }
    study_on(0, 0);
}

static void
drop(const struct study *s, void *data)
{
    struct data *d = (struct data *)data;

    for (uint32_t i = 0; i < s->devices; i++) {
        free_part(&d->parts[i]);
    }
    study_free(d->parts);
}

static void *
make_right(const struct study *s)
{
    uint32_t all = s->size * s->ranks;
    struct part whole = make_part(all, 0, all, 1);

    for (uint32_t i = 0; i < s->steps; i++) {
        serial_step(whole.now, whole.moved, all);
    }
    study_free(whole.moved);
    study_free(whole.counts);
    return whole.now;
}

int
main(int argc, char **argv)
{
    const struct study_program program = {
        "particles",
        {"segments of a rank", RANKS, 1, SEGMENTS, STEPS, 0, 0, 0, CHECKED},
        &particles,
        sizeof(struct data),
        make,
        drop,
        two_model,
        make_right,
        check,
    };

    return study_main(argc, argv, &program);
}
