/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: an irregular all-to-all as in a mixture of experts. Every rank has tokens and
 * is an expert; each token goes to two experts of its own choice, which are known only when
 * it is there, and their answers come back, to be added up with weights.
 *
 * Nobody knows who sends to him, or how much: each rank tells every other how many tokens
 * it has for it (0 as well), is told where they may go, and notifies once when they are
 * there. Counted tags need no list of senders.
 */
#include <stdio.h>
#include <stdlib.h>

#include "study.h"

enum { WIDTH = 16, CHOICES = 2 };
enum tags { COUNT_CAME, PLACE_CAME, TOKENS_CAME, ANSWERS_CAME };

/** A token under way, or an answer: where it belongs comes along. */
struct message {
    uint64_t home; /* number among its sender's messages */
    double values[WIDTH];
};

struct rank_memory {
    double *tokens, *results; /* size x WIDTH */
    struct message *out, *answers; /* size x CHOICES */
    uint64_t *counts, *places; /* from, and at, each other rank */
    struct message *in; /* as an expert: room for everybody's */
    uint64_t *starts, *fill; /* of each rank's messages in out */
};

struct data {
    uint32_t size, steps, ranks;
    struct rank_memory *ranks_memory;
};

/* ---- what is computed ---- */

TELPHER_RMA_FN_BOTH static uint32_t
expert_of(uint32_t ranks, uint32_t step, uint64_t token, uint32_t choice)
{
    /* the smaller of two: some experts are asked much more than others */
    uint64_t a = study_random(token, step * 8 + choice * 2) % ranks;
    uint64_t b = study_random(token, step * 8 + choice * 2 + 1) % ranks;

    return (uint32_t)(a < b ? a : b);
}

TELPHER_RMA_FN_BOTH static double
answer_of(uint32_t expert, double value, uint32_t k)
{
    return value * (1.0 + 0.001 * expert) + 0.01 * k;
}

TELPHER_RMA_FN_BOTH static double
weight_of(uint64_t token, uint32_t choice)
{
    return choice == 0 ? study_unit(token, 3) : 1.0 - study_unit(token, 3);
}

/* ---- the kernel ---- */

struct place {
    telpher_rma *rma;
    struct rank_memory m; /* where it is does not change, and is at hand so */
    telpher_rma_win counts, places, in, answers;
    uint32_t me, ranks, lane, lanes, size, steps;
};

TELPHER_RMA_FN static uint64_t
token_of(const struct place *p, uint32_t i)
{
    return (uint64_t)p->me * p->size + i;
}

/* Messages in the order of their experts; one lane counts, all copy. */
TELPHER_RMA_FN static void
sort_out(const struct place *p, uint32_t step)
{
    const struct rank_memory *m = &p->m;
    uint32_t messages = p->size * CHOICES;

    for (uint32_t r = 0; p->lane == 0 && r <= p->ranks; r++) {
        m->starts[r] = 0;
    }
    for (uint32_t i = 0; p->lane == 0 && i < messages; i++) {
        m->starts[1 +
                  expert_of(p->ranks, step, token_of(p, i / CHOICES), i % CHOICES)]++;
    }
    for (uint32_t r = 0; p->lane == 0 && r < p->ranks; r++) {
        m->starts[r + 1] += m->starts[r];
        m->fill[r] = m->starts[r];
    }
    for (uint32_t i = 0; p->lane == 0 && i < messages; i++) {
        uint32_t to = expert_of(p->ranks, step, token_of(p, i / CHOICES), i % CHOICES);

        m->out[m->fill[to]++].home = i;
    }
    telpher_rma_sync(p->rma);
    for (uint32_t i = p->lane; i < messages; i += p->lanes) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            m->out[i].values[k] = m->tokens[m->out[i].home / CHOICES * WIDTH + k];
        }
    }
    telpher_rma_sync(p->rma);
}

/* Everybody tells how many; each says where they may go; then they come. */
TELPHER_RMA_FN static void
dispatch(const struct place *p)
{
    const struct rank_memory *m = &p->m;
    uint64_t at = 0, offset = p->me * sizeof(uint64_t);

    for (uint32_t r = 0; r < p->ranks; r++) {
        telpher_rma_put_value_notify(p->rma, p->counts, r, offset,
                                     m->starts[r + 1] - m->starts[r], COUNT_CAME);
    }
    telpher_rma_wait(p->rma, COUNT_CAME, p->ranks);
    for (uint32_t r = 0; r < p->ranks; r++) {
        telpher_rma_put_value_notify(p->rma, p->places, r, offset, at, PLACE_CAME);
        at += m->counts[r];
    }
    telpher_rma_wait(p->rma, PLACE_CAME, p->ranks);
    for (uint32_t r = 0; r < p->ranks; r++) {
        telpher_rma_put_notify(
            p->rma, p->in, r, m->places[r] * sizeof(struct message),
            &m->out[m->starts[r]],
            (m->starts[r + 1] - m->starts[r]) * sizeof(struct message), TOKENS_CAME);
    }
    telpher_rma_wait(p->rma, TOKENS_CAME, p->ranks);
}

/* As an expert: every answer goes to the place that its message named. */
TELPHER_RMA_FN static void
answer(const struct place *p)
{
    const struct rank_memory *m = &p->m;
    uint64_t at = 0, all = 0;

    for (uint32_t r = 0; r < p->ranks; r++) {
        all += m->counts[r];
    }
    for (uint64_t i = p->lane; i < all; i += p->lanes) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            m->in[i].values[k] = answer_of(p->me, m->in[i].values[k], k);
        }
    }
    telpher_rma_sync(p->rma);
    for (uint32_t r = 0; r < p->ranks; r++) {
        for (uint64_t end = at + m->counts[r]; at < end; at++) {
            telpher_rma_put(p->rma, p->answers, r,
                            m->in[at].home * sizeof(struct message), &m->in[at],
                            sizeof(struct message));
        }
        telpher_rma_notify(p->rma, TELPHER_RMA_WORLD, r, ANSWERS_CAME);
    }
    telpher_rma_wait(p->rma, ANSWERS_CAME, p->ranks);
}

TELPHER_RMA_FN static void
combine(const struct place *p)
{
    for (uint32_t i = p->lane; i < p->size; i += p->lanes) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            double sum = 0;

            for (uint32_t c = 0; c < CHOICES; c++) {
                sum += weight_of(token_of(p, i), c) *
                       p->m.answers[i * CHOICES + c].values[k];
            }
            p->m.results[i * WIDTH + k] = sum;
        }
    }
}

/* Results are the next step's tokens. */
TELPHER_RMA_FN static void
take_over(const struct place *p)
{
    for (uint32_t i = p->lane; i < p->size * WIDTH; i += p->lanes) {
        p->m.tokens[i] = p->m.results[i];
    }
    telpher_rma_sync(p->rma);
}

TELPHER_RMA_KERNEL(experts)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    struct place p = {.rma = rma,
                      .m = data->ranks_memory[rma->world_rank],
                      .me = rma->world_rank,
                      .ranks = rma->world_size,
                      .lane = telpher_rma_lane(rma),
                      .lanes = telpher_rma_lanes(rma),
                      .size = data->size,
                      .steps = data->steps};
    uint64_t messages = (uint64_t)p.size * CHOICES;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.m.counts, p.ranks * 8, &p.counts);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.m.places, p.ranks * 8, &p.places);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.m.in,
                           p.ranks * messages * sizeof(struct message), &p.in);
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.m.answers,
                           messages * sizeof(struct message), &p.answers);
    telpher_rma_timer_start(rma);
    for (uint32_t step = 0; step < p.steps; step++) {
        sort_out(&p, step);
        dispatch(&p);
        answer(&p);
        combine(&p);
        telpher_rma_sync(rma);
        take_over(&p);
    }
    telpher_rma_timer_stop(rma);
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
}

/* ---- the serial program ---- */

static void
serial_step(const struct data *d, uint32_t step, double *tokens)
{
    uint64_t all = (uint64_t)d->ranks * d->size;

    for (uint64_t t = 0; t < all; t++) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            double sum = 0;

            for (uint32_t c = 0; c < CHOICES; c++) {
                uint32_t expert = expert_of(d->ranks, step, t, c);

                sum += weight_of(t, c) * answer_of(expert, tokens[t * WIDTH + k], k);
            }
            tokens[t * WIDTH + k] = sum;
        }
    }
}

/* ---- data ---- */

static void
make_memory(struct rank_memory *m, const struct data *d, uint32_t rank)
{
    size_t messages = (size_t)d->size * CHOICES;

    m->tokens = STUDY_NEW(double, (size_t)d->size *WIDTH);
    m->results = STUDY_NEW(double, (size_t)d->size *WIDTH);
    m->out = STUDY_NEW(struct message, messages);
    m->answers = STUDY_NEW(struct message, messages);
    m->counts = STUDY_NEW(uint64_t, d->ranks);
    m->places = STUDY_NEW(uint64_t, d->ranks);
    m->starts = STUDY_NEW(uint64_t, d->ranks + 1);
    m->fill = STUDY_NEW(uint64_t, d->ranks);
    m->in = STUDY_NEW(struct message, messages * d->ranks);
    for (uint32_t i = 0; i < d->size * WIDTH; i++) {
        m->tokens[i] = study_unit((uint64_t)rank * d->size * WIDTH + i, 9);
    }
}

static void
free_memory(struct rank_memory *m)
{
    study_free(m->tokens);
    study_free(m->results);
    study_free(m->out);
    study_free(m->answers);
    study_free(m->counts);
    study_free(m->places);
    study_free(m->starts);
    study_free(m->fill);
    study_free(m->in);
}

/* All tokens one behind the other. */
static void
copy_tokens(const struct data *d, double *dst)
{
    size_t each = (size_t)d->size * WIDTH;

    for (size_t i = 0; i < d->ranks * each; i++) {
        dst[i] = d->ranks_memory[i / each].tokens[i % each];
    }
}

int
main(int argc, char **argv)
{
    struct study s = {"tokens of a rank", 8, 1, 20, 3, 0, 0, 0};
    struct data d;
    double *right, *got;
    size_t all;
    int bad;

    study_parse(argc, argv, &s);
    d.size = s.size;
    d.steps = s.steps;
    d.ranks = s.ranks;
    d.ranks_memory = STUDY_NEW(struct rank_memory, s.ranks);
    for (uint32_t r = 0; r < s.ranks; r++) {
        study_on((uint32_t)((uint64_t)r * s.devices / s.ranks), s.devices);
        make_memory(&d.ranks_memory[r], &d, r);
    }
    study_on(0, 0);
    all = (size_t)s.ranks * s.size * WIDTH;
    right = STUDY_NEW(double, all);
    got = STUDY_NEW(double, all);
    copy_tokens(&d, right);
    study_run(&s, &experts, &d, sizeof(d));
    copy_tokens(&d, got);
    for (uint32_t step = 0; step < s.steps; step++) {
        serial_step(&d, step, right);
    }
    all = 0;
    for (size_t i = 0; i < (size_t)s.ranks * s.size * WIDTH; i++) {
        if (study_has_rank(&s, (uint32_t)(i / ((size_t)s.size * WIDTH)))) {
            got[all] = got[i];
            right[all++] = right[i];
        }
    }
    bad = study_compare("experts", got, right, all);
    for (uint32_t r = 0; r < s.ranks; r++) {
        free_memory(&d.ranks_memory[r]);
    }
    study_free(d.ranks_memory);
    study_free(right);
    study_free(got);
    return bad;
}
