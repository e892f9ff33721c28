/* SPDX-License-Identifier: Apache-2.0 */
/* Intercommunicators, for the calls that take communicators of both kinds. */
#ifndef TELPHER_AMPI_INTERCOMM_H
#define TELPHER_AMPI_INTERCOMM_H

#include "ampi/collective.h"

/** Connects two groups: through a rank of each, their leader. */
struct tp_ampi_line {
    struct tp_ampi_comm *local; /**< of the own group */
    struct tp_ampi_comm *peer; /**< that both leaders are in */
    struct tp_ampi_comm *inter; /**< that both groups are in, or NULL */
    const int *socket; /**< between the leaders, instead of peer; NULL: none */
    int leader, remote_leader, tag;
};

/** The root sends @p len bytes to all other ranks of an intracommunicator. */
int tp_ampi_root_tells(struct tp_ampi_comm *comm, int root, void *data, size_t len);
/** Leaders swap @p len bytes for @p their_len of the other's. Other ranks do nothing. */
int tp_ampi_line_swap(const struct tp_ampi_line *line, const void *mine, size_t len,
                      void *theirs, size_t their_len);
/** Gives all ranks of this group the bytes of the other group. All ranks of a group pass the same
 *  @p mine.
 *  @param ret  to be freed, also with an error */
int tp_ampi_line_exchange(const struct tp_ampi_line *line, const void *mine, size_t len,
                          void **ret, size_t *ret_len);
/** An intercommunicator of the ranks of @p of and those of @p remote. Collective in the own
 *  group. */
int tp_ampi_intercomm_make(struct tp_ampi_comm *of, struct tp_ampi_group *remote,
                           uint32_t context, struct tp_ampi_comm **ret);

/* Collective in both groups. Return an error class that has not been reported. */
int tp_ampi_intercomm_dup(struct tp_ampi_comm *inter, struct tp_ampi_comm **ret);
/** @param group  part of the own group; ranks that are not in it get MPI_COMM_NULL */
int tp_ampi_intercomm_create_of(struct tp_ampi_comm *inter,
                                const struct tp_ampi_group *group, MPI_Comm *ret);
int tp_ampi_intercomm_split(struct tp_ampi_comm *inter, int color, int key,
                            MPI_Comm *ret);
/** A collective call between both groups, instead of call->run. */
int tp_ampi_run_between(const struct tp_ampi_call *call);

#endif
