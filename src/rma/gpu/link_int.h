/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by link.c (launches), proxy.c (commands of ranks on a GPU) and
 * deliver.c (deliveries to them). */
#ifndef TELPHER_RMA_GPU_LINK_INT_H
#define TELPHER_RMA_GPU_LINK_INT_H

#include "rma/gpu/link.h"

struct tp_rma_link {
    telpher_rma_link api; /* first: what the launcher has */
    telpher_rma_job *job;
    const telpher_rma_kernel *kernel;
    telpher_rma_kernel proxies; /* the same, but its body is that of proxies */
    struct tp_rma_run *run;
    telpher_rma_outcome *outcome;
    telpher_error *err;
    telpher_status run_status; /* why there is no run */
    telpher_status status; /* of the beginning */
    bool begun, served;
    telpher_rma_shared *shared;
    telpher_rma_grid grid; /* once it is served */
    pthread_t watcher;
    bool watching, ended; /* the grid */
    uint64_t *next; /* by rank of this process: its next command */
    char (*where)[TELPHER_RMA_LINK_WHERE]; /* by rank: its last group call's place */
    _Atomic bool over; /* deliveries are no longer read */
    struct tp_mutex push; /* the deliveries, and: */
    uint64_t pushed;
    bool runs; /* the grid was started, so there will be room */
    struct tp_rma_early *early; /* what found no room before that, in order */
    size_t early_count, early_room;
};

/** The body of a rank's proxy. */
void tp_rma_link_proxy(telpher_rma *rma);

/** Writes one delivery; blocks for space while deliveries are read. @p len  at most
 *  BESIDE */
void tp_rma_link_push(struct tp_rma_link *l, const telpher_rma_command *c,
                      const void *beside, size_t len);

/** The grid runs: writes deliveries that arrived before and found no space. */
void tp_rma_link_push_early(struct tp_rma_link *l);

/** Translates the handle of a group: from the one of this process's ranks to the one of
 *  kernels on a GPU, and back. */
telpher_rma_comm tp_rma_link_comm(const struct tp_rma_run *run, telpher_rma_comm own);
telpher_rma_comm tp_rma_link_own_comm(const struct tp_rma_run *run,
                                      telpher_rma_comm comm);

#endif
