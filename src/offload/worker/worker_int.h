/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of a worker. */
#ifndef TELPHER_OFFLOAD_WORKER_WORKER_INT_H
#define TELPHER_OFFLOAD_WORKER_WORKER_INT_H

#include "offload/offload_int.h"
#include "offload/worker/parts.h"

enum { WORKER_RECEIVES = 4, WORKER_REPORTS = 64 };

/** A received message, and its forwarding to other workers. */
struct incoming {
    struct tp_list link; /**< a copy, of a message that is not next in order */
    uint8_t *data;
    uint64_t len;
    int source; /**< rank of the sender */
    MPI_Request request; /**< of the receive */
    MPI_Request forwards[TP_OFFLOAD_TREE_CHILDREN];
};

/** A report that is being sent; the parent may receive it late. */
struct outgoing {
    struct tp_offload_report report;
    MPI_Request request;
};

struct worker {
    MPI_Comm inter, world; /**< the program's communicator */
    MPI_Comm control; /**< our communicator to the parents */
    struct tp_offload_tree tree;
    int parents, local_rank, local_size, launch_tag;
    struct tp_offload_table table;
    struct tp_offload_parts parts;
    uint64_t next; /**< number of the call that is next */
    uint64_t call; /**< of the record that runs */
    uint32_t root; /**< parent that launched the running kernel */
    uint64_t *consumed; /**< at worker 0: messages received from each parent */
    struct tp_offload_report since_report;
    struct outgoing reports[WORKER_REPORTS]; /**< at worker 0; used in turn */
    unsigned reports_sent;
    bool left_to_mpi; /**< the MPI still uses a report: its memory must stay */
    const char *running; /**< name of the kernel, static; NULL between them */
    bool ended;
    uint32_t end_flags; /**< of the record that ended the workers */
    struct incoming ring[WORKER_RECEIVES];
    struct tp_frame_ring shared; /**< at worker 0: shared memory from a parent of this
                                  *  machine */
    struct incoming by_memory; /**< messages received through it */
    struct tp_list held;
    uint64_t held_bytes;
    uint64_t held_max; /**< launches that all parents together may have in flight */
    uint8_t *pieces; /**< of a launch in several messages */
    uint64_t pieces_have, pieces_total;
};

/** Name of the kernel that runs, or NULL. For signal handlers. */
const char *tp_offload_worker_kernel_name(void);

/* greeting.c */
telpher_status tp_offload_worker_greet(struct worker *w, struct tp_error *err);
/** Sends the table of kernels from worker 0 to parent @p root. */
telpher_status tp_offload_worker_send_kernels(struct worker *w, int root,
                                              struct tp_error *err);
void tp_offload_worker_fini(struct worker *w);

/* receive.c */
telpher_status tp_offload_worker_receive(struct worker *w);

/* worker_arrays.c */
/** Executes a record of TP_OFFLOAD_ARRAY. */
telpher_status tp_offload_worker_array(struct worker *w,
                                       const struct tp_offload_record *record,
                                       const uint8_t *args);

/* worker.c */
/** Reports the results of all workers to all parents; each has a request, unless it
 *  is the end. */
telpher_status tp_offload_worker_tell_done(struct worker *w, uint64_t request,
                                           struct tp_offload_report *report);
telpher_status tp_offload_worker_consume(struct worker *w,
                                         const struct tp_offload_header *h,
                                         const uint8_t *data);

#endif
