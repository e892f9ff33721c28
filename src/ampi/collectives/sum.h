/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a reduction as it grows, and room for what other ranks send. */
#ifndef TELPHER_AMPI_SUM_H
#define TELPHER_AMPI_SUM_H

#include "ampi/collective.h"

enum { TP_AMPI_SUM_SMALL = 512 /**< [bytes] of an operand that needs no allocation */ };

struct tp_ampi_sum {
    const char *at; /**< the result so far: the own operand, then value */
    char *value, *other; /**< NULL: no memory taken yet */
    void *value_block, *other_block; /**< NULL: the program's, or none */
    size_t count;
    bool spoilt; /**< by an operand of another length: no element is sent */
    MPI_Datatype type;
    _Alignas(16) char small[TP_AMPI_SUM_SMALL]; /**< memory of a small `other` */
};

/** The own operand of a reduction. */
static inline const char *
tp_ampi_operand(const struct tp_ampi_call *call)
{
    return call->out.at == MPI_IN_PLACE ? call->in.at : call->out.at;
}

/** Begins with the own operand. @param value  for the result; NULL: memory of its own */
void tp_ampi_sum_init(struct tp_ampi_sum *sum, const struct tp_ampi_call *call,
                      size_t count, char *value);
void tp_ampi_sum_fini(const struct tp_ampi_call *call, struct tp_ampi_sum *sum);
/** Sends the result so far. */
int tp_ampi_sum_send(const struct tp_ampi_call *call, const struct tp_ampi_sum *sum,
                     int to);
/** Receives into `other`. */
int tp_ampi_sum_recv(const struct tp_ampi_call *call, struct tp_ampi_sum *sum,
                     int from);
/** Both at once, with one peer. */
int tp_ampi_sum_exchange(const struct tp_ampi_call *call, struct tp_ampi_sum *sum,
                         int peer);
/** value = other op result, or result op other if what came is of higher ranks. */
int tp_ampi_sum_combine(const struct tp_ampi_call *call, struct tp_ampi_sum *sum,
                        bool is_lower);
/** Copies the result. */
int tp_ampi_sum_copy(const struct tp_ampi_call *call, const struct tp_ampi_sum *sum,
                     char *to);

#endif
