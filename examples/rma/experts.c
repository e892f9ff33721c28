/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case study: an irregular all-to-all as in a mixture of experts. Every rank has tokens and
 * is an expert; each token goes to two experts of its own choice, which are known only when
 * it is there, and their answers come back, to be added up with weights.
 *
 * Messages lie in the order of their experts, so those for a device are in a row: a rank puts
 * them to the rank of its own number there, with where each expert's begin, and notifies.
 * Experts answer what lies on their own device where it lies, while the rest is on its way,
 * and then the rest, when all ranks of the device have got theirs. The receiver puts them back.
 *
 * The form of two models brings a device's tokens in the order of their experts, and copies
 * one piece for each pair of devices: as long as it must be, which the host has to look up,
 * or, recorded, as long as it can be.
 */
#include "experts.h"

enum tags { TOKENS_CAME, ANSWERS_CAME };

/* ---- the kernel ---- */

struct place {
    telpher_rma *rma;
    const struct data *data;
    struct rank_memory m, first; /* this rank's; its device's first rank's */
    telpher_rma_win in, in_starts, out;
    uint32_t does, size; /* of the data, which may lie far away */
    uint32_t me, ranks, device, devices, each; /* each: ranks of a device */
    uint32_t messages, lane, lanes;
};

TELPHER_RMA_FN static uint64_t
token_of(const struct place *p, uint32_t i)
{
    return (uint64_t)p->me * p->size + i;
}

/* Sums of @p count numbers before each one, and of all behind the last. Called by all lanes, of
 * which @p most add. */
TELPHER_RMA_FN static void
add_up(const struct place *p, uint32_t most, const uint32_t *numbers, size_t stride,
       uint32_t count, uint32_t sum, uint32_t *sums, size_t sums_stride)
{
    uint32_t lanes = p->lanes < most ? p->lanes : most;
    uint32_t lane = p->lane < lanes ? p->lane : lanes, part = 0;
    uint32_t first = study_first(count, lanes, lane);
    uint32_t last = lane < lanes ? study_first(count, lanes, lane + 1) : first;

    for (uint32_t i = first; i < last; i++) {
        part += numbers[i * stride];
    }
    p->m.parts[p->lane] = part;
    study_sync(p->rma);
    for (uint32_t i = 0; i < lane; i++) {
        sum += p->m.parts[i];
    }
    for (uint32_t i = first; i < last; i++) {
        uint32_t number = numbers[i * stride];

        sums[i * sums_stride] = sum;
        sum += number;
    }
    if (last == count && first != last) {
        sums[count * sums_stride] = sum;
    }
    study_sync(p->rma);
}

/* How many messages each expert gets, and which of them each one is. A lane looks through all
 * for its experts, so that they lie in order. */
TELPHER_RMA_FN static void
choose(const struct place *p, uint32_t step, uint32_t *counts)
{
    enum { AT_ONCE = 8 };
    const uint32_t *experts = p->m.experts;

    for (uint32_t i = p->lane; i < p->messages; i += p->lanes) {
        p->m.experts[i] =
            expert_of(p->ranks, step, token_of(p, i / CHOICES), i % CHOICES);
    }
    study_sync(p->rma);
    for (uint32_t r = p->lane; r < p->ranks; r += p->lanes) {
        uint32_t count = 0;

        for (uint32_t first = 0; first < p->messages; first += AT_ONCE) {
            uint32_t some[AT_ONCE];

            for (uint32_t k = 0; k < AT_ONCE; k++) {
                some[k] = first + k < p->messages ? experts[first + k] : p->ranks;
            }
            for (uint32_t k = 0; k < AT_ONCE; k++) {
                if (some[k] == r) {
                    p->m.slots[first + k] = count++;
                }
            }
        }
        counts[r] = count;
    }
    study_sync(p->rma);
}

/* Messages, whose places are known, go to @p out; lanes share them. */
TELPHER_RMA_FN static void
pack(const struct place *p, double *out)
{
    for (uint32_t i = p->lane; i < p->messages * WIDTH; i += p->lanes) {
        uint32_t message = i / WIDTH, k = i % WIDTH;

        out[(size_t)p->m.slots[message] * WIDTH + k] =
            p->m.tokens[(size_t)(message / CHOICES) * WIDTH + k];
    }
}

TELPHER_RMA_FN static void
sort_out(const struct place *p, uint32_t step)
{
    const struct rank_memory *m = &p->m;

    choose(p, step, m->counts);
    add_up(p, p->lanes, m->counts, 1, p->ranks, 0, m->starts, 1);
    for (uint32_t i = p->lane; i < p->messages; i += p->lanes) {
        m->slots[i] += m->starts[m->experts[i]];
    }
    study_sync(p->rma);
    pack(p, m->out);
}

/* The rank of this one's number on another device, the @p n-th from here. */
TELPHER_RMA_FN static uint32_t
other_device(const struct place *p, uint32_t n)
{
    return (p->device + n) % p->devices;
}

TELPHER_RMA_FN static uint32_t
partner(const struct place *p, uint32_t device)
{
    return device * p->each + p->rma->device_rank;
}

/* Messages go to the other devices. */
TELPHER_RMA_FN static void
dispatch(const struct place *p)
{
    const uint64_t len = WIDTH * sizeof(double);
    const uint64_t starts_len = (p->each + 1) * sizeof(uint32_t);

    for (uint32_t n = 1; n < p->devices; n++) {
        uint32_t to = other_device(p, n);
        const uint32_t *starts = &p->m.starts[to * p->each];

        telpher_rma_put(p->rma, p->in_starts, partner(p, to), p->device * starts_len,
                        starts, starts_len);
        telpher_rma_put_notify(p->rma, p->in, partner(p, to),
                               (uint64_t)p->device * p->messages * len,
                               &p->m.out[(size_t)starts[0] * WIDTH],
                               (starts[p->each] - starts[0]) * len, TOKENS_CAME);
    }
}

/* @p count messages become answers. */
TELPHER_RMA_FN static void
answer(uint32_t expert, double *messages, uint32_t count)
{
    for (uint32_t i = 0; i < count * WIDTH; i++) {
        messages[i] = answer_of(expert, messages[i], i % WIDTH);
    }
}

/* Those of this rank's own device, where they lie. */
TELPHER_RMA_FN static void
answer_near(const struct place *p)
{
    for (uint32_t r = p->lane; r < p->each; r += p->lanes) {
        const uint32_t *starts = &p->first.starts[(size_t)r * (p->ranks + 1) + p->me];
        size_t at = (size_t)r * p->messages + starts[0];

        answer(p->me, &p->first.out[at * WIDTH], starts[1] - starts[0]);
    }
}

/* And those that came from others. */
TELPHER_RMA_FN static void
answer_far(const struct place *p)
{
    for (uint32_t i = p->lane; i < p->each * (p->devices - 1); i += p->lanes) {
        size_t piece =
            (size_t)i % p->each * p->devices + other_device(p, 1 + i / p->each);
        const uint32_t *starts = &p->first.in_starts[piece * (p->each + 1)];
        uint32_t first = starts[p->rma->device_rank];
        size_t at = piece * p->messages + first - starts[0];

        answer(p->me, &p->first.in[at * WIDTH],
               starts[p->rma->device_rank + 1] - first);
    }
}

/* Answers go back to where their messages were. */
TELPHER_RMA_FN static void
send_back(const struct place *p)
{
    const uint64_t len = WIDTH * sizeof(double);

    for (uint32_t n = 1; n < p->devices; n++) {
        uint32_t to = other_device(p, n);
        const uint32_t *starts = &p->m.in_starts[to * (p->each + 1)];

        telpher_rma_put_notify(p->rma, p->out, partner(p, to), starts[0] * len,
                               &p->m.in[(size_t)to * p->messages * WIDTH],
                               (starts[p->each] - starts[0]) * len, ANSWERS_CAME);
    }
}

/* Sums of answers are the next step's tokens. */
TELPHER_RMA_FN static void
combine(const struct place *p, const double *answers)
{
    for (uint32_t i = p->lane; i < p->size * WIDTH; i += p->lanes) {
        uint32_t token = i / WIDTH;
        double sum = 0;

        for (uint32_t c = 0; c < CHOICES; c++) {
            size_t slot = p->m.slots[token * CHOICES + c];

            sum += weight_of(token_of(p, token), c) * answers[slot * WIDTH + i % WIDTH];
        }
        p->m.tokens[i] = sum;
    }
}

/* The rank's place, without windows. */
TELPHER_RMA_FN static struct place
place_of(telpher_rma *rma)
{
    const struct data *data = (const struct data *)telpher_rma_data(rma);
    const struct rank_memory first = data->devices_memory[rma->device].first;
    struct place p = {.rma = rma,
                      .data = data,
                      .m = rank_memory(data, &first, rma->device_rank),
                      .first = first,
                      .does = data->does,
                      .size = data->size,
                      .me = rma->world_rank,
                      .ranks = rma->world_size,
                      .device = rma->device,
                      .devices = rma->devices,
                      .each = rma->device_size,
                      .messages = data->size * CHOICES,
                      .lane = telpher_rma_lane(rma),
                      .lanes = telpher_rma_lanes(rma)};

    return p;
}

TELPHER_RMA_FN static void
open_windows(struct place *p)
{
    const uint64_t len = (uint64_t)p->messages * WIDTH * sizeof(double);

    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m.in, p->devices * len,
                           &p->in);
    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m.in_starts,
                           (uint64_t)p->devices * (p->each + 1) * sizeof(uint32_t),
                           &p->in_starts);
    telpher_rma_win_create(p->rma, TELPHER_RMA_WORLD, p->m.out, len, &p->out);
}

/* Barrier of the device's ranks. */
TELPHER_RMA_FN static void
meet(const struct place *p)
{
    if ((p->does & STUDY_SENDS) != 0) {
        telpher_rma_barrier(p->rma, TELPHER_RMA_DEVICE);
    } else {
        telpher_rma_sync(p->rma);
    }
}

TELPHER_RMA_FN static void
step(const struct place *p, uint32_t number)
{
    int computes = (p->does & STUDY_COMPUTES) != 0;
    int sends = p->devices > 1 && (p->does & STUDY_SENDS) != 0;

    if (computes) { /* alone it must not change what others read */
        sort_out(p, p->does == STUDY_DOES_BOTH ? number : 0);
    }
    if (sends) {
        dispatch(p);
    }
    meet(p);
    if (computes) {
        answer_near(p);
    }
    if (sends) {
        telpher_rma_wait(p->rma, TOKENS_CAME, p->devices - 1);
        meet(p);
    }
    if (computes) {
        answer_far(p);
    }
    meet(p);
    if (sends) {
        send_back(p);
        telpher_rma_wait(p->rma, ANSWERS_CAME, p->devices - 1);
    }
    if (computes) {
        combine(p, p->m.out);
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
        if (p.devices > 1) {
            telpher_rma_wait(rma, TOKENS_CAME, p.devices - 1);
        }
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

enum { PHASE_LANES = 32 }; /* that add up: measured to be best */

STUDY_PHASE(choose_phase)
{
    struct place p = place_of(rma);

    choose(
        &p, step,
        &p.data->devices_memory[p.device].counts[(size_t)rma->device_rank * p.ranks]);
}

/* Each rank has some experts: a rank's counts become how many of its device's are before. */
STUDY_PHASE(count_phase)
{
    struct place p = place_of(rma);
    const struct device_memory *d = &p.data->devices_memory[p.device];
    uint32_t end = study_first(p.ranks, p.each, rma->device_rank + 1);

    (void)step;
    for (uint32_t r = study_first(p.ranks, p.each, rma->device_rank); r < end; r++) {
        add_up(&p, PHASE_LANES, &d->counts[r], p.ranks, p.each, 0, &d->counts[r],
               p.ranks);
    }
}

/* One rank for each device: where its experts' begin in the piece. */
STUDY_PHASE(start_phase)
{
    struct place p = place_of(rma);
    const struct device_memory *d = &p.data->devices_memory[p.device];

    (void)step;
    for (uint32_t to = rma->device_rank; to < p.devices; to += p.each) {
        uint32_t begin = to * p.each * p.messages,
                 *starts = &d->starts[to * (p.each + 1)];

        add_up(&p, PHASE_LANES, &d->counts[(size_t)p.each * p.ranks + to * p.each], 1,
               p.each, begin, starts, 1);
        if (p.lane == 0) {
            d->ends[to] = starts[p.each] - begin;
        }
    }
}

STUDY_PHASE(pack_phase)
{
    struct place p = place_of(rma);
    const struct device_memory *d = &p.data->devices_memory[p.device];

    (void)step;
    for (uint32_t i = p.lane; i < p.messages; i += p.lanes) {
        uint32_t expert = p.m.experts[i];

        p.m.slots[i] += d->starts[expert / p.each * (p.each + 1) + expert % p.each] +
                        d->counts[(size_t)rma->device_rank * p.ranks + expert];
    }
    study_sync(rma);
    pack(&p, d->out);
}

STUDY_PHASE(answer_phase)
{
    struct place p = place_of(rma);
    const struct device_memory *d = &p.data->devices_memory[p.device];

    (void)step;
    for (uint32_t from = 0; from < p.devices; from++) {
        int own = from == p.device; /* needs no copy */
        const uint32_t *starts = &(own ? d->starts : d->in_starts)[from * (p.each + 1)];
        uint32_t first = starts[rma->device_rank] - starts[0];
        uint32_t count = starts[rma->device_rank + 1] - starts[rma->device_rank];
        double *messages = (own ? d->out : d->in) +
                           ((size_t)from * p.each * p.messages + first) * WIDTH;

        for (uint32_t i = p.lane; i < count * WIDTH; i += p.lanes) {
            messages[i] = answer_of(p.me, messages[i], i % WIDTH);
        }
    }
}

STUDY_PHASE(combine_phase)
{
    struct place p = place_of(rma);

    (void)step;
    combine(&p, p.data->devices_memory[p.device].out);
}

/* Every device tells every other where its experts' messages begin. */
static void
copy_starts(study_host *host, const struct data *d)
{
    size_t count = d->ranks / d->devices + 1;

    for (uint32_t from = 0; from < d->devices; from++) {
        for (uint32_t to = 0; to < d->devices; to++) {
            if (from != to) {
                study_copy(host, to, d->devices_memory[to].in_starts + from * count,
                           from, d->devices_memory[from].starts + to * count,
                           count * sizeof(uint32_t), 0, 1);
            }
        }
    }
}

/* Messages go to their experts' devices, or the answers come back. A recorded graph
 * does not depend on how many. */
static void
copy_messages(study_host *host, const struct data *d, int back)
{
    size_t room = (size_t)d->ranks / d->devices * d->size * CHOICES;

    for (uint32_t from = 0; from < d->devices; from++) {
        const struct device_memory *m = &d->devices_memory[from];

        for (uint32_t to = 0; to < d->devices; to++) {
            size_t count = study_records(host) ? room : m->ends[to];
            double *out = m->out + to * room * WIDTH;
            double *in = d->devices_memory[to].in + from * room * WIDTH;

            if (from != to && count != 0) {
                study_copy(host, back ? from : to, back ? out : in, back ? to : from,
                           back ? in : out, count * WIDTH * sizeof(double), 0, 1);
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
            if (!study_records(host)) {
                study_look(host); /* how many there are */
            }
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
        "experts",     {"tokens of a rank", 8, 1, 20, 3, 0, 0, 0, 0},
        &experts,      sizeof(struct data),
        experts_make,  experts_drop,
        two_model,     experts_right,
        experts_check,
    };

    return study_main(argc, argv, &program);
}
