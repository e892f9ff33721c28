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

/* Of all of a device's ranks, @p rank and so on. */
static void
make_memory(struct rank_memory *m, const struct data *d, uint32_t rank)
{
    size_t each = d->ranks / d->devices, tokens = each * d->size;

    m->tokens = STUDY_NEW(double, tokens *WIDTH);
    m->out = STUDY_NEW(double, tokens *CHOICES *WIDTH);
    m->experts = STUDY_NEW(uint32_t, tokens * CHOICES);
    m->slots = STUDY_NEW(uint32_t, tokens * CHOICES);
    m->counts = STUDY_NEW(uint32_t, each * d->ranks);
    m->starts = STUDY_NEW(uint32_t, each * (d->ranks + 1));
    m->parts = STUDY_NEW(uint32_t, each * TELPHER_RMA_LANES_MAX);
    m->in = STUDY_NEW(double, d->devices *tokens *CHOICES *WIDTH);
    m->in_starts = STUDY_NEW(uint32_t, each * d->devices * (each + 1));
    for (size_t i = 0; i < tokens * WIDTH; i++) {
        m->tokens[i] = study_unit((uint64_t)rank * d->size * WIDTH + i, 9);
    }
}

static void
free_memory(struct rank_memory *m)
{
    study_free(m->tokens);
    study_free(m->out);
    study_free(m->experts);
    study_free(m->slots);
    study_free(m->counts);
    study_free(m->starts);
    study_free(m->parts);
    study_free(m->in);
    study_free(m->in_starts);
}

static void
make_device(struct device_memory *m, const struct data *d)
{
    size_t each = d->ranks / d->devices, messages = (size_t)d->size * CHOICES;

    m->out = STUDY_NEW(double, d->ranks *messages *WIDTH);
    m->in = STUDY_NEW(double, d->ranks *messages *WIDTH);
    m->counts = STUDY_NEW(uint32_t, (each + 1) * d->ranks);
    m->starts = STUDY_NEW(uint32_t, d->devices * (each + 1));
    m->in_starts = STUDY_NEW(uint32_t, d->devices * (each + 1));
    m->ends = (uint32_t *)study_alloc_seen(d->devices, sizeof(uint32_t));
}

static void
free_device(struct device_memory *m)
{
    study_free(m->out);
    study_free(m->in);
    study_free(m->counts);
    study_free(m->starts);
    study_free(m->in_starts);
    study_free(m->ends);
}

void
experts_make(const struct study *s, void *ret_data)
{
    struct data *d = (struct data *)ret_data;
    uint32_t each = s->ranks / s->devices;

    d->size = s->size;
    d->steps = s->steps;
    d->ranks = s->ranks;
    d->devices = s->devices;
    d->devices_memory = STUDY_NEW(struct device_memory, s->devices);
    for (uint32_t i = 0; i < s->devices; i++) {
        study_on(i, s->devices);
        make_memory(&d->devices_memory[i].first, d, i * each);
        make_device(&d->devices_memory[i], d);
    }
    study_on(0, 0);
}

void
experts_drop(const struct study *s, void *data)
{
    struct data *d = (struct data *)data;

    for (uint32_t i = 0; i < s->devices; i++) {
        free_memory(&d->devices_memory[i].first);
        free_device(&d->devices_memory[i]);
    }
    study_free(d->devices_memory);
}

/* All tokens one behind the other. */
static void
copy_tokens(const struct data *d, double *dst)
{
    size_t len = (size_t)d->ranks / d->devices * d->size * WIDTH;

    for (uint32_t i = 0; i < d->devices; i++) {
        memcpy(dst + i * len, d->devices_memory[i].first.tokens, len * sizeof(*dst));
    }
}

void *
experts_right(const struct study *s)
{
    double *right = STUDY_NEW(double, (size_t)s->ranks * s->size * WIDTH);
    struct data fresh = {0};

    experts_make(s, &fresh);
    copy_tokens(&fresh, right);
    for (uint32_t step = 0; step < s->steps; step++) {
        serial_step(&fresh, step, right);
    }
    experts_drop(s, &fresh);
    return right;
}

int
experts_check(const struct study *s, const void *data, const void *serial_data)
{
    size_t each = (size_t)s->size * WIDTH, all = s->ranks * each, mine = 0;
    double *right = STUDY_NEW(double, all), *got = STUDY_NEW(double, all);
    int bad;

    copy_tokens((const struct data *)data, got);
    for (size_t i = 0; i < all; i++) {
        if (study_has_rank(s, (uint32_t)(i / each))) {
            got[mine] = got[i];
            right[mine++] = ((const double *)serial_data)[i];
        }
    }
    bad = study_compare("experts", got, right, mine);
    study_free(right);
    study_free(got);
    return bad;
}
