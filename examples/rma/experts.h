/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture of experts' memory and what is computed in it. Kernels are one source, so what
 * they share with the serial program is in this header. */
#ifndef EXAMPLES_RMA_EXPERTS_H
#define EXAMPLES_RMA_EXPERTS_H

#include "phases.h"

enum { WIDTH = 16, CHOICES = 2 };

/** Messages are WIDTH numbers of a token, or of an answer to it. Those of a rank are
 * CHOICES for each token, and lie in the order of their experts; answers take their place. */
struct rank_memory {
    double *tokens; /* size x WIDTH */
    double *out;
    uint32_t *experts,
        *slots; /* of each message: who answers, and where it lies in out */
    uint32_t *counts, *starts; /* of each expert's in out; and the end */
    uint32_t *parts; /* of a sum, of each lane */
    double *
        in; /* of each device, what the rank of this one's number there asks of this device */
    uint32_t *in_starts; /* of each device, the starts there of this device's experts */
};

/** That of a device's ranks, one behind the other; and for two models a device's messages in
 * the order of their experts, a piece for each device. */
struct device_memory {
    struct rank_memory first; /* its first rank's */
    double *out, *in;
    uint32_t *counts; /* of each rank and expert; then how many are before, and all */
    uint32_t *starts, *in_starts; /* of the experts in each piece, and the end */
    uint32_t *ends; /* how many each device gets; the host looks at it */
};

struct data {
    uint32_t does; /* enum study_does */
    uint32_t size, steps, ranks, devices;
    struct device_memory *devices_memory;
};

/** The memory of a device's rank @p r, which begins at @p first. */
TELPHER_RMA_FN_BOTH static inline struct rank_memory
rank_memory(const struct data *d, const struct rank_memory *first, uint32_t r)
{
    const size_t messages = (size_t)d->size * CHOICES, each = d->ranks / d->devices;
    const struct rank_memory m = {first->tokens + (size_t)r * d->size * WIDTH,
                                  first->out + r * messages * WIDTH,
                                  first->experts + r * messages,
                                  first->slots + r * messages,
                                  first->counts + (size_t)r * d->ranks,
                                  first->starts + (size_t)r * (d->ranks + 1),
                                  first->parts + (size_t)r * TELPHER_RMA_LANES_MAX,
                                  first->in + (size_t)r * d->devices * messages * WIDTH,
                                  first->in_starts + r * d->devices * (each + 1)};

    return m;
}

/* ---- what is computed, by kernels and by the serial program ---- */

TELPHER_RMA_FN_BOTH static inline uint32_t
expert_of(uint32_t ranks, uint32_t step, uint64_t token, uint32_t choice)
{
    /* the smaller of two: some experts are asked much more than others */
    uint64_t a = study_random(token, step * 8 + choice * 2) % ranks;
    uint64_t b = study_random(token, step * 8 + choice * 2 + 1) % ranks;

    return (uint32_t)(a < b ? a : b);
}

TELPHER_RMA_FN_BOTH static inline double
answer_of(uint32_t expert, double value, uint32_t k)
{
    return value * (1.0 + 0.001 * expert) + 0.01 * k;
}

TELPHER_RMA_FN_BOTH static inline double
weight_of(uint64_t token, uint32_t choice)
{
    return choice == 0 ? study_unit(token, 3) : 1.0 - study_unit(token, 3);
}

/* ---- experts_data.c: study_program's ---- */

void experts_make(const struct study *study, void *ret_data);
void experts_drop(const struct study *study, void *data);
void *experts_right(const struct study *study);
int experts_check(const struct study *study, const void *data, const void *right);

#endif
