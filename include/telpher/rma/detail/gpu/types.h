/* SPDX-License-Identifier: Apache-2.0 */
/* The data structures of a launch on GPUs; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_TYPES_H
#define TELPHER_RMA_DETAIL_GPU_TYPES_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <telpher/rma/detail/link.h>
#include <telpher/rma/types.h>

enum {
    TELPHER_RMA_GPU_DOMAINS = 16,
    TELPHER_RMA_GPU_GROUPS = 64, /* of this process; as many again over several
                                  * processes */
    TELPHER_RMA_GPU_WINDOWS = 256,
    TELPHER_RMA_GPU_BATCH = 16, /* deliveries that are read at once */
    TELPHER_RMA_GPU_TIMINGS = 256,
    TELPHER_RMA_GPU_LINES = 256, /* log lines in flight */
    TELPHER_RMA_GPU_CHUNK = 4096, /* bytes of a rank's buffer in reductions */
    TELPHER_RMA_GPU_TEXT = 104,
    TELPHER_RMA_GPU_TAGS = 256, /* tags whose taken count is cached */
    TELPHER_RMA_GPU_EAGER = 32, /* polls that acquire */
    TELPHER_RMA_GPU_SOON = 256, /* polls before a waiting rank enters the wait table, */
    TELPHER_RMA_GPU_SOON_NS = 100000, /* which take less than this, about 45 us */
    TELPHER_RMA_GPU_TURNS = 4,
    TELPHER_RMA_GPU_FEW = 2, /* slots of 8 bytes each, for reductions of few bytes */
    TELPHER_RMA_GPU_BOXES = 8, /* ranks with which a rank has small puts in flight */
    TELPHER_RMA_GPU_DEPTH = 16, /* messages in flight with each of them */
    TELPHER_RMA_GPU_MAIL_RANKS = 512 /* a larger launch has no small puts */
};

/** Kinds of accesses. */
enum {
    TELPHER_RMA_GPU_PUT,
    TELPHER_RMA_GPU_PUT_NOTIFY,
    TELPHER_RMA_GPU_PUT_VALUE,
    TELPHER_RMA_GPU_GET
};

/** Kinds of barriers. */
enum {
    TELPHER_RMA_GPU_MEET_AGAIN, /* in the same call */
    TELPHER_RMA_GPU_BARRIER,
    TELPHER_RMA_GPU_WIN_CREATE,
    TELPHER_RMA_GPU_WIN_FREE,
    TELPHER_RMA_GPU_SPLIT,
    TELPHER_RMA_GPU_REDUCE,
    TELPHER_RMA_GPU_BROADCAST
};

/** States of a rank, for the wait table. */
enum telpher_rma_gpu_doing {
    TELPHER_RMA_GPU_RUNS = 0,
    TELPHER_RMA_GPU_IN_WAIT, /* for a tag */
    TELPHER_RMA_GPU_IN_WAIT_ANY, /* for one of several */
    TELPHER_RMA_GPU_IN_GROUP, /* for the others of a group */
    TELPHER_RMA_GPU_RETURNED, /* until the kernel returns */
    TELPHER_RMA_GPU_IN_SETTLE, /* for a target to poll */
    TELPHER_RMA_GPU_IN_ROOM, /* for a slot in the ring to the progress thread */
    TELPHER_RMA_GPU_IN_ASK, /* for the answer of the progress thread */
    TELPHER_RMA_GPU_IN_WAIT_ALWAYS /* for a tag, without a deadline */
};

/** An entry of the wait table. */
typedef struct telpher_rma_gpu_waiting {
    const char *where, *call;
    uint64_t since;
    uint32_t kind; /* enum telpher_rma_gpu_doing */
    uint32_t tag, count, from, taken;
} telpher_rma_gpu_waiting;

/** A rank's contribution to a call of its group. */
typedef struct telpher_rma_gpu_slot {
    uint64_t op, a, b, c; /* the call, and the arguments that all must agree on */
    uint64_t base, len; /* this rank's own */
    int32_t color, key, result;
} telpher_rma_gpu_slot;

/** Ranks of a group, by position. Slots exist several times and are used in turn: a
 *  rank that arrives at the next barrier but one has read those of this one. */
typedef struct telpher_rma_gpu_group {
    uint32_t size;
    uint32_t *members;
    telpher_rma_gpu_slot *slots;
} telpher_rma_gpu_group;

/** A barrier of a group, for its ranks in one domain. Each arriving rank adds a
 *  word: 1 below, a hash of its call above. Used in turn, because a rank may arrive
 *  at one domain's next barrier before another domain has seen all arrivals of this
 *  one. */
typedef struct telpher_rma_gpu_meet {
    uint64_t came[2], apart[14];
} telpher_rma_gpu_meet;

typedef struct telpher_rma_gpu_window {
    uint32_t open, group;
    uint64_t *bases, *lens; /* by position in the group */
} telpher_rma_gpu_window;

/** A log line, in host memory. */
typedef struct telpher_rma_gpu_line {
    uint32_t ready, rank;
    int32_t kind;
    uint64_t time;
    int64_t integer;
    double real;
    char text[TELPHER_RMA_GPU_TEXT];
} telpher_rma_gpu_line;

/** Counts of small puts that arrived, and of requests to poll or to report. */
typedef struct __align__(16) telpher_rma_gpu_signal
{
    uint64_t count; /* first member; both are loaded at once */
    uint32_t asked, apart;
}
telpher_rma_gpu_signal;

/** The last answer of the progress thread. */
typedef struct telpher_rma_gpu_reply {
    uint64_t value;
    int32_t status;
    uint32_t done; /* number of answers; written last */
} telpher_rma_gpu_reply;

/** A domain. Tables of ranks are indexed from rank 0 of the world. */
typedef struct telpher_rma_gpu_part {
    struct telpher_rma_gpu *launch; /* its copy */
    /* by rank and tag; the upper half of a count has the notifications sent after
     * mail, which must then be polled for */
    uint64_t *counts;
    uint32_t *senders, *taken;
    telpher_rma_gpu_waiting *waits; /* by rank */
    telpher_rma_gpu_meet *meets; /* by group */
    uint64_t *few; /* by group, turn and position: the few bytes that each sent along */
    uint64_t *mail; /* slots of 16 bytes, by target and source; NULL = none */
    uint32_t *mail_taken; /* by target and source */
    uint32_t
        *credits; /* number taken + 1, by source and target; 0 = the target does not
                   * poll */
    telpher_rma_gpu_signal *signals; /* by target */
    telpher_rma_gpu_reply *answers; /* by rank; NULL = one process */
} telpher_rma_gpu_part;

/** A launch, with a copy in each domain's memory. Changing members are in the home's
 *  copy, except status. */
typedef struct telpher_rma_gpu {
    uint32_t ranks, devices, domains, tags, block[3];
    uint32_t first; /* rank of this grid's first block */
    uint32_t base, world; /* this process's first rank; ranks of all processes */
    uint32_t first_device, world_devices;
    uint32_t
        delivery_block; /* the home's block that delivers, after the blocks of ranks */
    uint32_t beside_max;
    telpher_rma_shared *shared; /* shared with the progress thread; NULL = one
                                 * process */
    uint64_t
        *boxes; /* counters and sender tables of each reachable rank of the world; or
                 * 0 */
    uint32_t *gone; /* by rank of the world: RETURNED, in other processes */
    void *data;
    uint64_t timeout_ns, start;
    int32_t status; /* the first failure */
    uint32_t failed_rank;
    const char *failed_where, *failed_call;
    telpher_rma_gpu_part parts[TELPHER_RMA_GPU_DOMAINS];
    telpher_rma_gpu_group *groups;
    uint32_t group_count;
    telpher_rma_gpu_window *windows;
    uint8_t *stage; /* a chunk for each rank, and one for each result */
    double *timings;
    uint32_t timing_count, line_count, lines_lost;
    telpher_rma_gpu_line *lines;
} telpher_rma_gpu;

/** Properties of a target that its accesses must respect, or 0. */
enum {
    TELPHER_RMA_GPU_FAR = 1, /* of another domain */
    TELPHER_RMA_GPU_ELSEWHERE = 2, /* of another process */
    TELPHER_RMA_GPU_BY_PROXY = 4 /* reached by the progress thread only */
};

/** Where a rank's part of a window, or its counters, were: a call need not look again. */
typedef struct __align__(16) telpher_rma_gpu_place
{
    uint64_t base, len;
    uint64_t *counts; /* of the target */
    uint32_t *senders;
    int32_t key; /* a window, or TELPHER_RMA_GPU_GROUP_KEY() of a group */
    uint32_t rank, target, far; /* in the group, in the world; what is to be minded */
}
telpher_rma_gpu_place;

enum { TELPHER_RMA_GPU_PLACES = 32, TELPHER_RMA_GPU_NO_KEY = -1 };
#define TELPHER_RMA_GPU_GROUP_KEY(comm) (-2 - (comm))

/** Cached state of small puts from a rank and to one. */
typedef struct telpher_rma_gpu_inbox {
    uint64_t *slots, *next; /* next: of the next message */
    uint32_t *taken_at, *credit;
    uint32_t source, taken, returned;
} telpher_rma_gpu_inbox;

typedef struct __align__(16) telpher_rma_gpu_outbox
{
    uint64_t *next,
        round; /* of the next message: its slot, and its round as in there */
    uint64_t *slots;
    telpher_rma_gpu_signal *signal;
    uint32_t target, sent, acked, apart;
    uint64_t low, high; /* bounds of the bytes that messages not yet taken write */
    uint32_t *credit;
}
telpher_rma_gpu_outbox;

/** A rank's state of a group that it is in. */
typedef struct telpher_rma_gpu_own {
    uint64_t came[2]; /* sums of the words of its barriers so far, by turn */
    uint32_t met; /* number of barriers */
    uint16_t size, me; /* ranks, and which one this is; 0 ranks = not looked up */
} telpher_rma_gpu_own;

/** Fences towards another domain: notifications need not wait for each other, but a
 *  barrier covers all of them. */
enum { TELPHER_RMA_GPU_PUT_FAR = 1, TELPHER_RMA_GPU_TOLD_FAR = 2 };

/** A rank's state, in the block's shared memory. */
typedef struct telpher_rma_gpu_state {
    telpher_rma rma; /* first member: a kernel's handle points to it */
    uint32_t domain, parts; /* owner; number of entries */
    uint32_t
        domains; /* the same, and one more if other processes add to our counters */
    uint32_t device, devices; /* of this process's */
    /* State that a notification checks, loaded at once: stores to other domains since the
     * last system-scope fence; whether small puts of this rank may not be taken;
     * whether puts through the progress thread may be in flight; rma.tags */
    __align__(16) uint32_t dirty;
    uint32_t under_way, by_proxy, tags;
    telpher_status once; /* result of one lane, for all */
    uint64_t *counts; /* this rank's */
    uint32_t *senders, *taken_more; /* taken_more for tags above */
    telpher_rma_gpu_place places[TELPHER_RMA_GPU_PLACES];
    telpher_rma_gpu_own own[TELPHER_RMA_GPU_GROUPS];
    telpher_rma_mailbox *box; /* to the progress thread; NULL = one process */
    telpher_rma_gpu_reply *answer;
    uint32_t posted, room, asked; /* commands written; seen done; answered */
    uint64_t timer_start; /* 0 = never */
    uint32_t listed; /* whether lanes have entered this rank in the wait table, in a
                 * reduction of few bytes */
    telpher_rma_gpu_signal *signal; /* this rank's; NULL = no small puts */
    uint64_t mailed; /* small puts taken, as the signal counts */
    uint32_t looks; /* whether it polls, because a sender requested it */
    uint32_t waits, asks; /* polls so far, to check for mail or requests now and then */
    uint32_t answered; /* requests seen */
    telpher_rma_gpu_inbox in[TELPHER_RMA_GPU_BOXES];
    telpher_rma_gpu_outbox out[TELPHER_RMA_GPU_BOXES];
    uint32_t taken[TELPHER_RMA_GPU_TAGS];
    uint32_t behind[TELPHER_RMA_GPU_TAGS]; /* of a count: notifications sent after
                                            * small puts */
    uint16_t guess[TELPHER_RMA_GPU_TAGS]; /* rank + 1 of the last sender of a small put
                                      * with the tag */
} telpher_rma_gpu_state;

#endif
