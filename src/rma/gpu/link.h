/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that run on a GPU, in a job of several processes. Each has a *proxy* among the ranks
 * of processors: it takes the commands that its rank writes into memory both reach, and
 * makes the calls that a rank of a processor would make. Answers and data from other ranks
 * reach the GPU through one ring, which one block of the grid reads. So groups, order,
 * credits, lost processes and reports work as they do between processors.
 */
#ifndef TELPHER_RMA_GPU_LINK_H
#define TELPHER_RMA_GPU_LINK_H

#include <telpher/rma/detail/link.h>

#include "rma/rma_int.h"

enum {
    TP_RMA_LINK_GROUPS =
        64, /* that kernels on GPUs know by numbers from here on; how many */
    TP_RMA_LINK_WINDOWS = 256,
    TP_RMA_COMMAND_NEAR = 1 << 15 /* flag: `local` is the host's memory. Stays here */
};

struct tp_rma_link;

/** Launches a kernel that brings its launcher, in all processes. */
telpher_status tp_rma_link_launch(telpher_rma_job *job,
                                  const telpher_rma_kernel *kernel, void *data,
                                  telpher_rma_outcome *outcome, telpher_error *err);

/** After all ranks returned: a failed launch waits for the grid and reports its waits. */
void tp_rma_link_settle(struct tp_rma_run *run);

/** Pokes those of a worker's ranks whose GPU wants something. */
void tp_rma_link_scan(struct tp_rma_worker *w);
/** True if there is a command of that rank. */
bool tp_rma_link_has(const struct tp_rma_rank *rank);
/** One look that found nothing: a little later the worker sleeps for a moment. */
void tp_rma_link_rest(struct tp_rma_worker *w, bool found);

/* ---- deliveries; any thread ---- */

/** Writes to the GPU's memory, and notifies if @p c says so. @p len  at most BESIDE */
void tp_rma_link_put(struct tp_rma_run *run, const void *at, const void *data,
                     size_t len, const telpher_rma_command *c);
void tp_rma_link_notify(struct tp_rma_run *run, const telpher_rma_command *c);
void tp_rma_link_gone(struct tp_rma_run *run, uint32_t rank);
/** Waits until all that was written so lies in the GPU's memory, where others read it. */
void tp_rma_link_drain(struct tp_rma_run *run);
/** Tells of a group or a window, before any of its members knows its number. A run with too
 *  many fails. */
void tp_rma_link_group(struct tp_rma_run *run, const struct tp_rma_group *group);
void tp_rma_link_window(struct tp_rma_run *run, const struct tp_rma_window *window,
                        int32_t number);
void tp_rma_link_close(struct tp_rma_run *run, const struct tp_rma_window *window,
                       int32_t number);

/* ---- job.c ---- */

/** Makes a run, or says why not. */
struct tp_rma_run *tp_rma_run_begin(telpher_rma_job *job,
                                    const telpher_rma_kernel *kernel, void *data,
                                    telpher_status *ret_status, telpher_error *err);
/** The workers, and what other processes have to do with it. */
telpher_status tp_rma_run_all(struct tp_rma_run *run);
/** The job keeps what is left of a run, which ends. @return its status */
telpher_status tp_rma_run_finish(telpher_rma_job *job, struct tp_rma_run *run,
                                 telpher_error *err);

#endif
