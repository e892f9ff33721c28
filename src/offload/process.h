/* SPDX-License-Identifier: Apache-2.0 */
/* A process of a launch, parent or worker: settings, waiting, the pool of workers, the tree. */
#ifndef TELPHER_OFFLOAD_PROCESS_H
#define TELPHER_OFFLOAD_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <telpher/offload.h>

#include "base/container/buf.h"
#include "base/container/frame_ring.h"
#include "base/container/list.h"
#include "base/os/clock.h"
#include "base/os/process.h"
#include "base/os/thread.h"
#include "offload/message.h"

/** Tags on our own communicators; the greeting's is used on the program's. */
enum {
    TP_OFFLOAD_TAG_GREETING =
        32749, /**< on the program's intercommunicator, before the first call */
    TP_OFFLOAD_TAG_LAUNCH = 1, /**< parent to worker 0 of a spawned group */
    TP_OFFLOAD_TAG_REPORT = 2, /**< worker 0 to a parent */
    TP_OFFLOAD_TAG_NAMES = 3, /**< worker 0 to the root */
    TP_OFFLOAD_TAG_FORWARD = 4, /**< from worker to worker, down the tree */
    TP_OFFLOAD_TAG_MERGE = 5, /**< up the tree */
    TP_OFFLOAD_TAG_DISCONNECT = 6, /**< parent 0 to worker 0: both sides disconnect */
    TP_OFFLOAD_TAG_POOL = 7, /**< to a worker that waits for a group */
    TP_OFFLOAD_TAG_ROWS = 8, /**< of arrays, between any two of the two sides */
    TP_OFFLOAD_TAG_LOST = 9, /**< from parent to parent: one has lost the workers */
    TP_OFFLOAD_TAG_GROUPS =
        16, /**< and up, one a group of this launch: to make it, and for its
                             launches. Those that arrived after its end stay with MPI, which
                             may give its communicator's number to the next group. */
    TP_OFFLOAD_TAG_GROUPS_COUNT = 16384
};

/* settings.c */
struct tp_offload_settings {
    int mode; /**< enum telpher_offload_mode */
    int workers; /**< of this launch, the last so many; 0 = by program */
    bool thread; /**< ask MPI for threads */
    bool shared; /**< launches by memory, within a machine */
    uint64_t timeout_ns;
    uint64_t kernel_warning_ns, kernel_timeout_ns; /**< 0 = none */
    int idle; /**< enum tp_offload_idle_mode */
    uint64_t limit_bytes; /**< of a launch */
};
/** The settings, loaded at the first call; never NULL. */
const struct tp_offload_settings *tp_offload_settings(void);

/* idle.c: how to wait for something that must be looked at */
enum tp_offload_idle_mode {
    TP_OFFLOAD_IDLE_AUTO = 0,
    TP_OFFLOAD_IDLE_SPIN,
    TP_OFFLOAD_IDLE_YIELD,
    TP_OFFLOAD_IDLE_SLEEP
};
enum { TP_OFFLOAD_IDLE_LOOKS = 16 };
struct tp_offload_idle {
    tp_ns start;
    uint32_t looks; /**< before the next look at the clock */
};
#define TP_OFFLOAD_IDLE_INIT                                                           \
    {                                                                                  \
        0, TP_OFFLOAD_IDLE_LOOKS                                                       \
    }
/** Passes a little time: spins, yields, sleeps, the longer the wait the more. */
void tp_offload_idle_round(struct tp_offload_idle *idle);

/** Takes back memory that MPI has for @p request, which is cancelled if @p is_receive.
 *  @return false when MPI keeps it: the memory must stay, the request is forgotten */
bool tp_offload_mpi_take_back(MPI_Request *request, bool is_receive);

/** Waits for @p request by tp_offload_idle_round(). @return TELPHER_ERR_TIMEOUT at @p deadline,
 *  with the request still there; TELPHER_ERR_IO when MPI failed */
telpher_status tp_offload_mpi_wait(MPI_Request *request, tp_ns deadline);

/* world.c: what this process is, and what MPI_COMM_WORLD means to it */
struct tp_offload_world {
    MPI_Comm world; /**< what MPI_COMM_WORLD stands for */
    MPI_Comm base; /**< all processes of the launch; MPI_COMM_NULL when not split */
    MPI_Comm parent; /**< of a worker in split mode */
    bool is_worker; /**< telpher_worker_main() says so, or the settings */
    bool has_threads; /**< MPI_THREAD_MULTIPLE */
    int pool_count;
    int *pool; /**< ranks in base of the workers of this launch */
    bool *busy;
    int tag; /**< of the next group, from TP_OFFLOAD_TAG_GROUPS */
};
extern struct tp_offload_world tp_offload_world;
void tp_offload_world_declare_worker(void);
/** Before that: may it wait for a program of this launch that is none of MPI's? */
bool tp_offload_world_may_wait(void);
/** After PMPI_Init*(). @p provided is what MPI gave. A worker by setting does not return. */
void tp_offload_world_init(int provided);
/** Before PMPI_Finalize(): ends groups and pool. */
void tp_offload_world_fini(void);
/** Says @p words and ends the job. */
_Noreturn void tp_offload_world_abort(const char *words);

/* pool.c: workers of the launch */
struct tp_offload_pool_order {
    int op; /**< enum tp_offload_pool_op */
    int tag, leader, count;
};
enum tp_offload_pool_op { TP_OFFLOAD_POOL_START = 1, TP_OFFLOAD_POOL_END };
/** Parents: makes @p count waiting workers a group. Collective over @p comm. */
telpher_status tp_offload_pool_take(int count, int root, MPI_Comm comm,
                                    MPI_Comm *ret_inter, struct tp_error *err);
int tp_offload_pool_idle(void);
/** Parents: the workers of a group wait again. */
void tp_offload_pool_return(const int *workers, int count);
/** Parents: all workers of the launch end. */
void tp_offload_pool_end(void);
/** Workers: serves groups until the end. */
void tp_offload_pool_serve(void);

/* spawn.c */
telpher_status tp_offload_spawn(const telpher_offload_params *params, int root,
                                MPI_Comm comm, MPI_Comm *ret_inter,
                                struct tp_error *err);

/* watch.c: ends the job instead of letting it hang */
/** Watches @p process of this machine, the @p who number @p rank; if it ends, logs an
 *  error and ends the job. */
void tp_offload_watch_add(const struct tp_process *process, const char *who, int rank,
                          const void *group);
/** Forgets those of @p group. */
void tp_offload_watch_remove(const void *group);
/** Says which phase hangs and ends the job, unless it ends in time. */
void tp_offload_watch_phase(const char *phase, tp_ns timeout);
void tp_offload_watch_phase_end(void);
/** In worker number @p rank: watches the kernels that it runs from now on. */
void tp_offload_watch_kernels(int rank);
/** Before and after each kernel. @p name lives as long as the process. */
void tp_offload_watch_kernel_begin(const char *name);
void tp_offload_watch_kernel_end(void);

/* worker.c */
/** Serves the parents of @p inter until they end it. @p world: the workers alone. @p launch_tag:
 *  of the messages from them. */
telpher_status tp_offload_worker_serve(MPI_Comm inter, MPI_Comm world, int launch_tag,
                                       struct tp_error *err);
/** Makes a fault in a kernel, or a call of exit() in it, print a crash report and end the job. */
void tp_offload_worker_catch_faults(void);

/* tree.c: launches go down a tree of workers, results up */
enum { TP_OFFLOAD_TREE_CHILDREN = 32 };
struct tp_offload_tree {
    MPI_Comm comm;
    int rank, size;
    int parent; /**< of worker 0 itself */
    int count; /**< of children; the one with the largest subtree comes first */
    int children[TP_OFFLOAD_TREE_CHILDREN];
};
/** Fills in the parent and the children of the tree, from rank and size. */
void tp_offload_tree_init(struct tp_offload_tree *tree);
/** Merges the reports of the workers below; worker 0 then has those of all workers. */
telpher_status tp_offload_tree_merge(const struct tp_offload_tree *tree,
                                     struct tp_offload_report *report);

#endif
