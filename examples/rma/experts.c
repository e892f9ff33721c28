/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: an irregular all-to-all as in a mixture of experts. Every rank has tokens and
 * is an expert; each token goes to two experts of its own choice, which are known only when
 * it is there, and their answers come back, to be added up with weights.
 *
 * Nobody knows who sends to him, or how much: each rank tells every other how many tokens
 * it has for it (0 as well) and where their answers belong, is told where they may go, and
 * notifies once when they are there. Counted tags need no list of senders.
 *
 * The form of two models brings a device's tokens in the order of their experts, and the
 * host, once it knows how many there are, copies one piece for each pair of devices.
 */
#include "experts.h"

enum tags { COUNT_CAME, PLACE_CAME, TOKENS_CAME, ANSWERS_CAME };

/* ---- the kernel ---- */

struct place {
    telpher_rma *rma;
    const struct data *data;
    struct rank_memory *m;
    telpher_rma_win asked, places, in, answers;
    uint32_t me, ranks, messages, lane, lanes;
};

TELPHER_RMA_FN static uint64_t
token_of(const struct place *p, uint32_t i)
{
    return (uint64_t)p->me * p->data->size + i;
}

/* How many messages each expert gets, and which of them each one is. By one lane. */
TELPHER_RMA_FN static void
choose(const struct place *p, uint32_t step)
{
    struct rank_memory *m = p->m;

    for (uint32_t r = 0; p->lane == 0 && r < p->ranks; r++) {
        m->counts[r] = 0;
    }
    for (uint32_t i = 0; p->lane == 0 && i < p->messages; i++) {
        m->experts[i] =
            expert_of(p->ranks, step, token_of(p, i / CHOICES), i % CHOICES);
        m->slots[i] = (uint32_t)m->counts[m->experts[i]]++;
    }
}

/* Messages go where their expert's begin in @p out, behind what is before them there. */
TELPHER_RMA_FN static void
pack(const struct place *p, const uint64_t *starts, const uint64_t *before, double *out)
{
    struct rank_memory *m = p->m;

    for (uint32_t i = p->lane; i < p->messages; i += p->lanes) {
        uint32_t expert = m->experts[i];

        m->slots[i] +=
            (uint32_t)(starts[expert] + (before != NULL ? before[expert] : 0));
        for (uint32_t k = 0; k < WIDTH; k++) {
            out[(size_t)m->slots[i] * WIDTH + k] = m->tokens[i / CHOICES * WIDTH + k];
        }
    }
}

TELPHER_RMA_FN static void
sort_out(const struct place *p, uint32_t step)
{
    struct rank_memory *m = p->m;

    choose(p, step);
    if (p->lane == 0) {
        m->starts[0] = 0;
        for (uint32_t r = 0; r < p->ranks; r++) {
            m->starts[r + 1] = m->starts[r] + m->counts[r];
        }
    }
    telpher_rma_sync(p->rma);
    pack(p, m->starts, NULL, m->out);
    telpher_rma_sync(p->rma);
}

/* What rank @p r asks of this one: how many messages, and where they lie in its out. */
TELPHER_RMA_FN static uint64_t
asked_count(const struct place *p, uint32_t r)
{
    return p->m->asked[r] & 0xffffffffu;
}

TELPHER_RMA_FN static uint64_t
asked_start(const struct place *p, uint32_t r)
{
    return p->m->asked[r] >> 32;
}

/* Everybody tells how many; each says where they may go; then they come. */
TELPHER_RMA_FN static void
dispatch(const struct place *p)
{
    struct rank_memory *m = p->m;
    uint64_t at = 0, offset = p->me * sizeof(uint64_t);

    for (uint32_t r = 0; r < p->ranks; r++) {
        telpher_rma_put_value_notify(p->rma, p->asked, r, offset,
                                     m->starts[r] << 32 | m->counts[r], COUNT_CAME);
    }
    telpher_rma_wait(p->rma, COUNT_CAME, p->ranks);
    for (uint32_t r = 0; r < p->ranks; r++) {
        telpher_rma_put_value_notify(p->rma, p->places, r, offset, at, PLACE_CAME);
        at += asked_count(p, r);
    }
    telpher_rma_wait(p->rma, PLACE_CAME, p->ranks);
    for (uint32_t r = 0; r < p->ranks; r++) {
        telpher_rma_put_notify(p->rma, p->in, r, m->places[r] * WIDTH * sizeof(double),
                               &m->out[m->starts[r] * WIDTH],
                               m->counts[r] * WIDTH * sizeof(double), TOKENS_CAME);
    }
    telpher_rma_wait(p->rma, TOKENS_CAME, p->ranks);
}

/* @p count messages at @p in become answers. */
TELPHER_RMA_FN static void
answer(const struct place *p, double *in, uint64_t count)
{
    for (uint64_t i = p->lane; i < count; i += p->lanes) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            in[i * WIDTH + k] = answer_of(p->me, in[i * WIDTH + k], k);
        }
    }
}

TELPHER_RMA_FN static void
answer_all(const struct place *p)
{
    uint64_t all = 0;

    for (uint32_t r = 0; r < p->ranks; r++) {
        all += asked_count(p, r);
    }
    answer(p, p->m->in, all);
    telpher_rma_sync(p->rma);
}

/* Answers go to the places that their messages have in out. */
TELPHER_RMA_FN static void
send_back(const struct place *p)
{
    const uint64_t len = WIDTH * sizeof(double);
    uint64_t at = 0;

    for (uint32_t r = 0; r < p->ranks; r++) {
        uint64_t count = asked_count(p, r), start = asked_start(p, r);

        telpher_rma_put_notify(p->rma, p->answers, r, start * len,
                               &p->m->in[at * WIDTH], count * len, ANSWERS_CAME);
        at += count; /* the rank may ask again: asked is not looked at any more */
    }
    telpher_rma_wait(p->rma, ANSWERS_CAME, p->ranks);
}

/* Sums of answers are the next step's tokens. */
TELPHER_RMA_FN static void
combine(const struct place *p, const double *answers)
{
    for (uint32_t i = p->lane; i < p->data->size; i += p->lanes) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            double sum = 0;

            for (uint32_t c = 0; c < CHOICES; c++) {
                size_t slot = p->m->slots[i * CHOICES + c];

                sum += weight_of(token_of(p, i), c) * answers[slot * WIDTH + k];
            }
            p->m->tokens[i * WIDTH + k] = sum;
        }
    }
}

/* The rank's place, without windows. */
TELPHER_RMA_FN static struct place
place_of(telpher_rma *rma)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    struct place p = {.rma = rma,
                      .data = data,
                      .m = &data->ranks_memory[rma->world_rank],
                      .me = rma->world_rank,
                      .ranks = rma->world_size,
                      .messages = data->size * CHOICES,
                      .lane = telpher_rma_lane(rma),
                      .lanes = telpher_rma_lanes(rma)};

    return p;
}

TELPHER_RMA_FN static void
open_windows(struct place *p)
{
    const uint64_t len = WIDTH * sizeof(double);

    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m->asked, p->ranks * 8,
                           &p->asked);
    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m->places, p->ranks * 8,
                           &p->places);
    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m->in, p->m->room * len,
                           &p->in);
    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m->answers, p->messages * len,
                           &p->answers);
}

TELPHER_RMA_FN static void
step(const struct place *p, uint32_t number)
{
    uint32_t does = p->data->does;

    if ((does & STUDY_COMPUTES) != 0) {
        sort_out(p, number);
    }
    if ((does & STUDY_SENDS) != 0) {
        dispatch(p);
    }
    if ((does & STUDY_COMPUTES) != 0) {
        answer_all(p);
    }
    if ((does & STUDY_SENDS) != 0) {
        send_back(p);
    }
    if ((does & STUDY_COMPUTES) != 0) {
        combine(p, p->m->answers);
    }
    telpher_rma_sync(p->rma);
}

TELPHER_RMA_KERNEL(experts)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    struct place p = place_of(rma);

    open_windows(&p);
    if (data->does != STUDY_DOES_BOTH) { /* each alone: always what step 0 asks */
        sort_out(&p, 0);
        dispatch(&p);
        telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    }
    telpher_rma_timer_start(rma);
    for (uint32_t i = 0; i < data->steps; i++) {
        step(&p, i);
    }
    telpher_rma_timer_stop(rma);
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
}

/* ---- two models: messages in order on each device, and a copy for each pair ---- */

STUDY_PHASE(choose_phase)
{
    struct place p = place_of(rma);

    choose(&p, step);
}

/* Each rank has some experts: a rank's counts become how many of its device's are before. */
STUDY_PHASE(count_phase)
{
    struct place p = place_of(rma);
    uint32_t end = study_first(p.ranks, rma->device_size, rma->device_rank + 1);
    uint64_t *starts = p.data->devices_memory[rma->device].starts;

    (void)step;
    for (uint32_t r = study_first(p.ranks, rma->device_size, rma->device_rank) + p.lane;
         r < end; r += p.lanes) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < rma->device_size; i++) {
            struct rank_memory *m =
                &p.data->ranks_memory[rma->device * rma->device_size + i];
            uint64_t count = m->counts[r];

            m->counts[r] = sum;
            sum += count;
        }
        starts[r + 1] = sum;
    }
}

STUDY_PHASE(start_phase)
{
    struct place p = place_of(rma);
    const struct device_memory *d = &p.data->devices_memory[rma->device];

    (void)step;
    if (rma->device_rank != 0 || p.lane != 0) {
        return;
    }
    for (uint32_t r = 0; r < p.ranks; r++) {
        d->starts[r + 1] += d->starts[r];
        if ((r + 1) % rma->device_size == 0) {
            d->ends[r / rma->device_size] = d->starts[r + 1];
        }
    }
}

STUDY_PHASE(pack_phase)
{
    struct place p = place_of(rma);
    struct device_memory *d = &p.data->devices_memory[rma->device];

    (void)step;
    pack(&p, d->starts, p.m->counts, d->out);
}

/* Where device @p from's messages for another device @p to lie there. */
TELPHER_RMA_FN_BOTH static double *
piece_of(const struct data *d, uint32_t from, uint32_t to)
{
    size_t each = d->ranks / d->devices;

    return d->devices_memory[to].in + from * each * d->size * CHOICES * WIDTH;
}

STUDY_PHASE(answer_phase)
{
    struct place p = place_of(rma);
    const struct device_memory *d = &p.data->devices_memory[rma->device];
    uint32_t each = rma->device_size;

    (void)step;
    for (uint32_t from = 0; from < rma->devices; from++) {
        int own = from == rma->device; /* needs no copy */
        const uint64_t *starts = own ? &d->starts[rma->device * each]
                                     : &d->in_starts[(size_t)from * (each + 1)];
        uint64_t first = starts[rma->device_rank];
        double *piece =
            own ? d->out + starts[0] * WIDTH : piece_of(p.data, from, rma->device);

        answer(&p, piece + (first - starts[0]) * WIDTH,
               starts[rma->device_rank + 1] - first);
    }
}

STUDY_PHASE(combine_phase)
{
    struct place p = place_of(rma);

    (void)step;
    combine(&p, p.data->devices_memory[rma->device].out);
}

/* Every device tells every other where its experts' messages begin. */
static void
copy_starts(study_host *host, const struct data *d)
{
    uint32_t each = d->ranks / d->devices;

    for (uint32_t from = 0; from < d->devices; from++) {
        for (uint32_t to = 0; to < d->devices; to++) {
            if (from != to) {
                study_copy(host, to,
                           d->devices_memory[to].in_starts + (size_t)from * (each + 1),
                           from, d->devices_memory[from].starts + (size_t)to * each,
                           (each + 1) * sizeof(uint64_t), 0, 1);
            }
        }
    }
}

/* Messages go to their experts' devices, or the answers come back. */
static void
copy_messages(study_host *host, const struct data *d, int back)
{
    for (uint32_t from = 0; from < d->devices; from++) {
        const struct device_memory *m = &d->devices_memory[from];

        for (uint32_t to = 0; to < d->devices; to++) {
            uint64_t first = to == 0 ? 0 : m->ends[to - 1];
            size_t len = (m->ends[to] - first) * WIDTH * sizeof(double);
            double *out = m->out + first * WIDTH, *in = piece_of(d, from, to);

            if (from != to && len != 0) {
                study_copy(host, back ? from : to, back ? out : in, back ? to : from,
                           back ? in : out, len, 0, 1);
            }
        }
    }
}

static void
two_model(study_host *host, const struct study *s, void *data)
{
    const struct data *d = (const struct data *)data;

    for (uint32_t i = 0; i < s->steps; i++) {
        study_launch(host, choose_phase, i);
        study_launch(host, count_phase, i);
        study_launch(host, start_phase, i);
        study_launch(host, pack_phase, i);
        if (s->devices > 1) {
            copy_starts(host, d);
            study_settle(host); /* the host must know how many there are */
            copy_messages(host, d, 0);
        }
        study_launch(host, answer_phase, i);
        if (s->devices > 1) {
            copy_messages(host, d, 1);
        }
        study_launch(host, combine_phase, i);
    }
    study_settle(host);
}

int
main(int argc, char **argv)
{
    const struct study_program program = {
        "experts",
        {"tokens of a rank", 8, 1, 20, 3, 0, 0, 0, 0},
        &experts,
        sizeof(struct data),
        experts_make,
        experts_drop,
        two_model,
        experts_check,
        1,
    };

    return study_main(argc, argv, &program);
}
