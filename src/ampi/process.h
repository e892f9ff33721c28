/* SPDX-License-Identifier: Apache-2.0 */
/* This process of the job: its context, ranks and light threads. */
#ifndef TELPHER_AMPI_PROCESS_H
#define TELPHER_AMPI_PROCESS_H

#include <pthread.h>

#include <telpher/channel.h>
#include <telpher/context.h>
#include <telpher/mem.h>
#include <telpher/msg.h>

#include "ampi/match.h"
#include "ampi/move/heap.h"
#include "ampi/type.h"

enum {
    TP_AMPI_HANDLER = TELPHER_HANDLERS - 10, /**< of all our messages */
    TP_AMPI_IDLE_NS = 100000000, /**< sleep of a process without work */
    TP_AMPI_OUT_BYTES = 16 << 10, /**< envelope and data of an eager message, at most */
    TP_AMPI_URGENCY = 4, /**< of a rank that a message of another process wakes */
};

/** Settings: src/base/settings/ampi.def. */
struct tp_ampi_settings {
    int collectives;
    size_t stack_bytes, rank_memory, device_reduce;
    bool migrate;
};

/** The other end of messages: a process of this job, or one of another job. */
struct tp_ampi_end {
    telpher_context *ctx; /**< that reaches it; NULL: none any more */
    uint32_t rank; /**< in that context */
    size_t eager_max; /**< [bytes] of data; 0 = not known yet */
};

struct tp_ampi_process {
    telpher_context *ctx; /**< NULL: not started */
    bool over, multiple; /**< MPI_Finalize was called; MPI_THREAD_MULTIPLE */
    bool has_sessions; /**< had one: the process leaves the job at its end */
    bool virtual_ranks; /**< each rank has a light thread and globals of its own */
    int thread_level;
    uint32_t process, processes; /**< number of this one, of all */
    uint32_t world_size, rank_count; /**< ranks of all, of this process */
    unsigned context_shift; /**< bits of a context below its number: match.h */
    struct tp_ampi_place *places; /**< of the ranks of the world */
    struct tp_ampi_rank **ranks; /**< of this process */
    struct tp_ampi_rank *acting; /**< outside of light threads: the first */
    struct tp_ampi_end *ends; /**< by process: those of this job, then of others */
    uint32_t end_count;
    struct tp_list bridges; /**< contexts shared with other jobs: dynamic/ */
    uint32_t connecting; /**< calls that connect jobs, under way */
    struct tp_lights lights;
    uint32_t live; /**< virtual ranks whose main() has not returned */
    uint32_t collectives_max; /**< that run on light threads, for each rank */
    uint64_t sent, received; /**< messages; those about deadlocks are not counted */
    uint64_t receiving; /**< long receives whose data is on its way */
    struct tp_list sending; /**< sends that are not complete */
    struct tp_list starved; /**< collectives that wait for a free light thread */
    struct tp_list
        urgent[TP_AMPI_URGENCY]; /**< light threads that are ready, by urgency - 1 */
    uint32_t urgent_count; /**< in all of them */
    bool movable; /**< ranks may move to other processes: move/ */
    struct tp_ampi_heap *
        *heap_now; /**< that memory is taken from; NULL: the process's */
    struct tp_ampi_heaps *heaps; /**< of ranks that may move */
    uint32_t parked; /**< ranks that wait in AMPI_Migrate */
    uint32_t transfers, arrivals; /**< ranks under way; that have arrived */
    struct tp_ampi_rank **arrived; /**< by rank of the world: those that are here */
    pthread_t main_thread;
    pthread_mutex_t lock; /**< with MPI_THREAD_MULTIPLE */
    struct tp_ampi_settings settings;
    bool settings_loaded;
    _Alignas(16) uint8_t out[TP_AMPI_OUT_BYTES]; /**< message that is being built */
};

extern struct tp_ampi_process tp_ampi;

/** Adds the processes of a context to tp_ampi.ends. @return false: no memory */
bool tp_ampi_ends_add(telpher_context *ctx);
/** Joins the job. @param ranks  of the world; 0: one a process. Reports errors itself. */
bool tp_ampi_process_start(uint32_t ranks);
/** Leaves the job. */
void tp_ampi_process_stop(void);
/** Sets the level of thread support; virtual ranks have at most SERIALIZED. */
void tp_ampi_set_threads(int level);
/** The program ends: a process that has had sessions leaves the job. */
void tp_ampi_end_sessions(void);
/** One turn: light threads that are ready, the network. Sleeps if there is nothing.
 *  Only on the process's own stack. */
void tp_ampi_turn(bool may_sleep);
/** Ends the job if a process is lost. */
void tp_ampi_check_peers(void);
/** The current light thread waits; its rank's state of libc is kept. */
void tp_ampi_suspend(void);
/** Gives the rank that begins on this light thread its state of libc. */
void tp_ampi_rank_begin(void);
/** Waits until waiter->needed is 0. */
void tp_ampi_block(struct tp_ampi_waiter *waiter);
/** Waits for the next tp_ampi_signal() of a list of waiting callers. */
void tp_ampi_await_signal(struct tp_list *waits, struct tp_ampi_waiter *waiter);
void tp_ampi_signal(struct tp_list *waits);
/** Makes a light thread that waits ready. Ranks that other processes wait for run first: one that
 *  a message of theirs wakes, then ranks by the number of local messages between them and
 *  another process. */
void tp_ampi_wake(struct tp_light *light);
/** Called when a rank receives a message of the caller, or of another process. */
void tp_ampi_learn_urgency(struct tp_ampi_rank *rank);
/** Lets other ranks and the network go on. */
void tp_ampi_yield(void);
/** The number of collectives on light threads from the setting, of which each rank has a part. */
void tp_ampi_limit_collectives(void);
/** Loads the settings, once. @return false: one is wrong, which has been reported */
bool tp_ampi_settings_load(struct tp_ampi_settings *ret);
/** Sends an envelope and @p len bytes to a process. */
telpher_status tp_ampi_transmit(uint32_t process, const struct tp_ampi_envelope *env,
                                const void *data, size_t len);
/** [bytes] of data that a message to a process may have after its envelope. */
size_t tp_ampi_eager_max(uint32_t process);
/** Nothing has happened for IDLE_NS, and all ranks wait: looks for a deadlock. */
void tp_ampi_idle(void);
/** Messages about deadlocks. */
void tp_ampi_on_idle(uint32_t process, const struct tp_ampi_envelope *env,
                     const void *data);
/** The class of an error of the transport. */
int tp_ampi_class_of(telpher_status status);
/** Takes memory from a rank's heap from now on, NULL: from the process's. The calls of
 *  libtelpher take the process's. @return where it was taken from */
static inline struct tp_ampi_heap *
tp_ampi_heap_use(struct tp_ampi_heap *heap)
{
    struct tp_ampi_heap *before = *tp_ampi.heap_now;

    *tp_ampi.heap_now = heap;
    return before;
}

/** Has the memory no processor's access? */
static inline bool
tp_ampi_is_device(const void *at)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    telpher_mem_info info; /* not initialised: every message asks */
    telpher_status status;

    info.struct_size = sizeof(info);
    info.kind = TELPHER_MEM_HOST;
    status = telpher_mem_query(tp_ampi.ctx, at, &info);
    (void)tp_ampi_heap_use(heap);
    return info.kind != TELPHER_MEM_HOST && status == TELPHER_OK;
}

/** Copies between memories of any kinds; reports nothing. */
telpher_status tp_ampi_mem_copy(void *to, const void *from, size_t len);
/** Copies between memories of any kinds. @return an error class, reported to @p comm */
int tp_ampi_copy_memory(struct tp_ampi_comm *comm, void *to, const void *from,
                        size_t len);

/** Host memory in the place of device memory; host memory stands for itself. */
struct tp_ampi_stage {
    void *at; /**< what stands for the buffer's address */
    char *host; /**< NULL: the buffer itself */
    char *device; /**< where the bytes of host go */
    size_t len;
};

/**
 * Stages the @p len bytes at @p buffer + @p low.
 * @param filled  copies them
 * @return an error class, reported to @p comm; there is nothing to close then
 */
int tp_ampi_stage_open(struct tp_ampi_stage *stage, struct tp_ampi_comm *comm,
                       const void *buffer, ptrdiff_t low, size_t len, bool filled);
/** Copies the bytes back if they are @p written and @p error is MPI_SUCCESS. @return an error class */
int tp_ampi_stage_close(struct tp_ampi_stage *stage, struct tp_ampi_comm *comm,
                        bool written, int error);

/* Calls that use shared state stand between these two. */
static inline void
tp_ampi_enter(void)
{
    if (tp_unlikely(tp_ampi.multiple)) {
        (void)pthread_mutex_lock(&tp_ampi.lock);
    }
}

static inline void
tp_ampi_leave(void)
{
    if (tp_unlikely(tp_ampi.multiple)) {
        (void)pthread_mutex_unlock(&tp_ampi.lock);
    }
}

#endif
