/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture of experts on the host: data, and the serial program. */
#include <string.h>

#include "experts.h"

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

/* The most messages that each expert gets in a step. */
static void
count_loads(const struct data *d, uint64_t *loads)
{
    uint64_t tokens = (uint64_t)d->ranks * d->size;
    uint64_t *now = STUDY_NEW(uint64_t, d->ranks);

    for (uint32_t step = 0; step < d->steps; step++) {
        memset(now, 0, d->ranks * sizeof(*now));
        for (uint64_t i = 0; i < tokens * CHOICES; i++) {
            now[expert_of(d->ranks, step, i / CHOICES, i % CHOICES)]++;
        }
        for (uint32_t r = 0; r < d->ranks; r++) {
            loads[r] = now[r] > loads[r] ? now[r] : loads[r];
        }
    }
    study_free(now);
}

static void
make_memory(struct rank_memory *m, const struct data *d, uint32_t rank, uint64_t room)
{
    size_t messages = (size_t)d->size * CHOICES;

    m->tokens = STUDY_NEW(double, (size_t)d->size *WIDTH);
    m->out = STUDY_NEW(double, messages *WIDTH);
    m->answers = STUDY_NEW(double, messages *WIDTH);
    m->experts = STUDY_NEW(uint32_t, messages);
    m->slots = STUDY_NEW(uint32_t, messages);
    m->counts = STUDY_NEW(uint64_t, d->ranks);
    m->starts = STUDY_NEW(uint64_t, d->ranks + 1);
    m->asked = STUDY_NEW(uint64_t, d->ranks);
    m->places = STUDY_NEW(uint64_t, d->ranks);
    m->in = STUDY_NEW(double, room *WIDTH);
    m->room = room;
    for (uint32_t i = 0; i < d->size * WIDTH; i++) {
        m->tokens[i] = study_unit((uint64_t)rank * d->size * WIDTH + i, 9);
    }
}

static void
free_memory(struct rank_memory *m)
{
    study_free(m->tokens);
    study_free(m->out);
    study_free(m->answers);
    study_free(m->experts);
    study_free(m->slots);
    study_free(m->counts);
    study_free(m->starts);
    study_free(m->asked);
    study_free(m->places);
    study_free(m->in);
}

static void
make_device(struct device_memory *m, const struct data *d)
{
    size_t each = d->ranks / d->devices, messages = (size_t)d->size * CHOICES;

    m->out = STUDY_NEW(double, each *messages *WIDTH);
    m->in = STUDY_NEW(double, d->ranks *messages *WIDTH);
    m->starts = STUDY_NEW(uint64_t, d->ranks + 1);
    m->in_starts = STUDY_NEW(uint64_t, d->devices * (each + 1));
    m->ends = (uint64_t *)study_alloc_seen(d->devices, sizeof(uint64_t));
}

static void
free_device(struct device_memory *m)
{
    study_free(m->out);
    study_free(m->in);
    study_free(m->starts);
    study_free(m->in_starts);
    study_free(m->ends);
}

void
experts_make(const struct study *s, void *ret_data)
{
    struct data *d = (struct data *)ret_data;
    uint64_t *loads = STUDY_NEW(uint64_t, s->ranks);

    d->size = s->size;
    d->steps = s->steps;
    d->ranks = s->ranks;
    d->devices = s->devices;
    d->ranks_memory = STUDY_NEW(struct rank_memory, s->ranks);
    d->devices_memory = STUDY_NEW(struct device_memory, s->devices);
    count_loads(d, loads);
    for (uint32_t i = 0; i < s->devices; i++) {
        uint32_t each = s->ranks / s->devices;

        study_on(i, s->devices);
        make_device(&d->devices_memory[i], d);
        for (uint32_t r = i * each; r < (i + 1) * each; r++) {
            make_memory(&d->ranks_memory[r], d, r, loads[r]);
        }
    }
    study_on(0, 0);
    study_free(loads);
}

void
experts_drop(const struct study *s, void *data)
{
    struct data *d = (struct data *)data;

    for (uint32_t r = 0; r < s->ranks; r++) {
        free_memory(&d->ranks_memory[r]);
    }
    for (uint32_t i = 0; i < s->devices; i++) {
        free_device(&d->devices_memory[i]);
    }
    study_free(d->ranks_memory);
    study_free(d->devices_memory);
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
experts_check(const struct study *s, const void *data)
{
    const struct data *d = (const struct data *)data;
    size_t each = (size_t)s->size * WIDTH, all = s->ranks * each, mine = 0;
    double *right = STUDY_NEW(double, all), *got = STUDY_NEW(double, all);
    struct data fresh = {0};
    int bad;

    experts_make(s, &fresh);
    copy_tokens(&fresh, right);
    experts_drop(s, &fresh);
    copy_tokens(d, got);
    for (uint32_t step = 0; step < s->steps; step++) {
        serial_step(d, step, right);
    }
    for (size_t i = 0; i < all; i++) {
        if (study_has_rank(s, (uint32_t)(i / each))) {
            got[mine] = got[i];
            right[mine++] = right[i];
        }
    }
    bad = study_compare("experts", got, right, mine);
    study_free(right);
    study_free(got);
    return bad;
}
