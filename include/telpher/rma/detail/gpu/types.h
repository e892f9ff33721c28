/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch on GPUs consists of; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_TYPES_H
#define TELPHER_RMA_DETAIL_GPU_TYPES_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <telpher/rma/detail/link.h>
#include <telpher/rma/types.h>

enum {
    TELPHER_RMA_GPU_DOMAINS = 16,
    TELPHER_RMA_GPU_GROUPS = 64, /* of this process; as many again of several */
    TELPHER_RMA_GPU_WINDOWS = 256,
    TELPHER_RMA_GPU_BATCH = 16, /* deliveries that are taken at once */
    TELPHER_RMA_GPU_TIMINGS = 256,
    TELPHER_RMA_GPU_LINES = 256, /* of log under way */
    TELPHER_RMA_GPU_CHUNK = 4096, /* bytes of a rank's place in reductions */
    TELPHER_RMA_GPU_TEXT = 104,
    TELPHER_RMA_GPU_TAGS = 256, /* whose number of those taken a rank has at hand */
    TELPHER_RMA_GPU_EAGER = 32, /* polls that acquire */
    TELPHER_RMA_GPU_SOON = 256, /* polls before a wait says what it is for, */
    TELPHER_RMA_GPU_SOON_NS = 100000, /* which take less than this, about 45 us */
    TELPHER_RMA_GPU_TURNS = 4,
    TELPHER_RMA_GPU_FEW = 2, /* slots of 8 bytes each, for reductions of so few */
    TELPHER_RMA_GPU_BOXES = 8, /* ranks that a rank has small puts under way with */
    TELPHER_RMA_GPU_DEPTH = 16, /* of those with each */
    TELPHER_RMA_GPU_MAIL_RANKS = 512 /* a launch of more has none */
};

/** What an access does. */
enum {
    TELPHER_RMA_GPU_PUT,
    TELPHER_RMA_GPU_PUT_NOTIFY,
    TELPHER_RMA_GPU_PUT_VALUE,
    TELPHER_RMA_GPU_GET
};

/** What ranks of a group meet for. */
enum {
    TELPHER_RMA_GPU_MEET_AGAIN, /* in the same call */
    TELPHER_RMA_GPU_BARRIER,
    TELPHER_RMA_GPU_WIN_CREATE,
    TELPHER_RMA_GPU_WIN_FREE,
    TELPHER_RMA_GPU_SPLIT,
    TELPHER_RMA_GPU_REDUCE,
    TELPHER_RMA_GPU_BROADCAST
};

/** What a rank does, for the table. */
enum telpher_rma_gpu_doing {
    TELPHER_RMA_GPU_RUNS = 0,
    TELPHER_RMA_GPU_IN_WAIT, /* for a tag */
    TELPHER_RMA_GPU_IN_WAIT_ANY, /* for one of several */
    TELPHER_RMA_GPU_IN_GROUP, /* for the others of a group */
    TELPHER_RMA_GPU_RETURNED, /* from the kernel */
    TELPHER_RMA_GPU_IN_SETTLE, /* for a target to look */
    TELPHER_RMA_GPU_IN_ROOM, /* in the ring to the agent */
    TELPHER_RMA_GPU_IN_ASK, /* for the agent's answer */
    TELPHER_RMA_GPU_IN_WAIT_ALWAYS /* for a tag, without an end */
};

/** What a rank waits for, for the table. */
typedef struct telpher_rma_gpu_waiting {
    const char *where, *call;
    uint64_t since;
    uint32_t kind; /* enum telpher_rma_gpu_doing */
    uint32_t tag, count, from, taken;
} telpher_rma_gpu_waiting;

/** What a rank came with to a call of its group. */
typedef struct telpher_rma_gpu_slot {
    uint64_t op, a, b, c; /* the call, and what all must agree on */
    uint64_t base, len; /* this rank's own */
    int32_t color, key, result;
} telpher_rma_gpu_slot;

/** Ranks of a group, by position. Slots are there several times, for meetings by turns: who
 *  comes to the next meeting but one has read those of this one. */
typedef struct telpher_rma_gpu_group {
    uint32_t size;
    uint32_t *members;
    telpher_rma_gpu_slot *slots;
} telpher_rma_gpu_group;

/** Where a group meets, for its ranks in one domain: each that comes adds a word, which has one
 *  below, and above what it came for. By turns, since who went on may tell one domain of the
 *  next meeting before another has heard all of this one's. */
typedef struct telpher_rma_gpu_meet {
    uint64_t came[2], apart[14];
} telpher_rma_gpu_meet;

typedef struct telpher_rma_gpu_window {
    uint32_t open, group;
    uint64_t *bases, *lens; /* by position in the group */
} telpher_rma_gpu_window;

/** A line of log, in memory of the host. */
typedef struct telpher_rma_gpu_line {
    uint32_t ready, rank;
    int32_t kind;
    uint64_t time;
    int64_t integer;
    double real;
    char text[TELPHER_RMA_GPU_TEXT];
} telpher_rma_gpu_line;

/** What small puts came, and how often senders asked to look, or to tell what was taken. */
typedef struct __align__(16) telpher_rma_gpu_bell
{
    uint64_t rung; /* comes first; both are read at once */
    uint32_t asked, apart;
}
telpher_rma_gpu_bell;

/** What the agent answered last. */
typedef struct telpher_rma_gpu_reply {
    uint64_t value;
    int32_t status;
    uint32_t done; /* how many answers; written last */
} telpher_rma_gpu_reply;

/** A domain. What belongs to ranks is counted from rank 0 of the world, wherever that is. */
typedef struct telpher_rma_gpu_part {
    struct telpher_rma_gpu *launch; /* its copy */
    /* by rank and tag; in a count's upper half are those that came behind mail, which is to be
     * looked for then */
    uint64_t *counts;
    uint32_t *senders, *taken;
    telpher_rma_gpu_waiting *waits; /* by rank */
    telpher_rma_gpu_meet *meets; /* by group */
    uint64_t *few; /* by group, turn and position: what few bytes each came with */
    uint64_t *mail; /* slots of 16 bytes, by target and source; NULL = none */
    uint32_t *mail_taken; /* by target and source */
    uint32_t
        *credits; /* what was taken and 1, by source and target; 0 = nobody looks */
    telpher_rma_gpu_bell *bells; /* by target */
    telpher_rma_gpu_reply *answers; /* by rank; NULL = one process */
} telpher_rma_gpu_part;

/** One launch: a copy in each domain's memory. What changes is the home's, but for status. */
typedef struct telpher_rma_gpu {
    uint32_t ranks, devices, domains, tags, block[3];
    uint32_t first; /* rank of this grid's first block */
    uint32_t base, world; /* this process's first rank; ranks of all processes */
    uint32_t first_device, world_devices;
    uint32_t agent; /* the home's block that delivers: behind so many ranks' */
    uint32_t beside_max;
    telpher_rma_shared *shared; /* with the process's agent; NULL = one process */
    uint64_t
        *boxes; /* counts and senders of each rank of the world that is reached; or 0 */
    uint32_t *gone; /* by rank of the world: RETURNED, elsewhere */
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

/** What is to be minded of a target, or 0. */
enum {
    TELPHER_RMA_GPU_FAR = 1, /* of another domain */
    TELPHER_RMA_GPU_ELSEWHERE = 2, /* of another process */
    TELPHER_RMA_GPU_AGENTS = 4 /* which the agent alone reaches */
};

/** Where a rank's part of a window, or its counters, were: a call need not look again. */
typedef struct __align__(16) telpher_rma_gpu_place
{
    uint64_t base, len;
    uint64_t *counts; /* the target's */
    uint32_t *senders;
    int32_t key; /* a window, or TELPHER_RMA_GPU_GROUP_KEY() of a group */
    uint32_t rank, target, far; /* in the group, in the world; what is to be minded */
}
telpher_rma_gpu_place;

enum { TELPHER_RMA_GPU_PLACES = 32, TELPHER_RMA_GPU_NO_KEY = -1 };
#define TELPHER_RMA_GPU_GROUP_KEY(comm) (-2 - (comm))

/** Small puts from a rank, and to one: what is at hand of them. */
typedef struct telpher_rma_gpu_inbox {
    uint64_t *slots, *next; /* next: of the next message */
    uint32_t *taken_at, *credit;
    uint32_t source, taken, told;
} telpher_rma_gpu_inbox;

typedef struct __align__(16) telpher_rma_gpu_outbox
{
    uint64_t *next,
        round; /* of the next message: its slot, and its round as in there */
    uint64_t *slots;
    telpher_rma_gpu_bell *bell;
    uint32_t target, sent, acked, apart;
    uint64_t low, high; /* between them lies what those that were not taken write */
    uint32_t *credit;
}
telpher_rma_gpu_outbox;

/** What a rank knows of a group that it is in. */
typedef struct telpher_rma_gpu_own {
    uint64_t
        came[2]; /* what all words of its meetings so far make together, by turns */
    uint32_t met; /* how many meetings */
    uint16_t size, me; /* ranks, and which one this is; 0 ranks = not looked up */
} telpher_rma_gpu_own;

/** What a rank did to another domain's memory: notifications need not wait for each other, but
 *  who meets others has told of all. */
enum { TELPHER_RMA_GPU_PUT_FAR = 1, TELPHER_RMA_GPU_TOLD_FAR = 2 };

/** A rank's own, in the block's shared memory. */
typedef struct telpher_rma_gpu_state {
    telpher_rma rma; /* first: a kernel's handle is this */
    uint32_t domain, parts; /* whose; how many there are */
    uint32_t
        domains; /* the same, and one more if other processes' add to what is ours */
    uint32_t device, devices; /* of this process's */
    /* What a notification looks at, read at once: what was done to other domains since the last
     * fence for the system; whether small puts that this rank sent may not be taken; whether
     * something was put by the agent that may be on its way; rma.tags */
    __align__(16) uint32_t dirty;
    uint32_t under_way, by_agent, tags;
    telpher_status once; /* what one lane found, for all */
    uint64_t *counts; /* this rank's */
    uint32_t *senders, *taken_more; /* taken_more for tags above */
    telpher_rma_gpu_place places[TELPHER_RMA_GPU_PLACES];
    telpher_rma_gpu_own own[TELPHER_RMA_GPU_GROUPS];
    telpher_rma_mailbox *box; /* to the agent; NULL = one process */
    telpher_rma_gpu_reply *answer;
    uint32_t posted, room, asked; /* commands; seen done; that are answered */
    uint64_t timer_start; /* 0 = never */
    uint32_t
        listed; /* whether lanes put this rank in the table, in a reduction of few bytes */
    telpher_rma_gpu_bell *bell; /* this rank's; NULL = no small puts */
    uint64_t mailed; /* small puts taken, as the bell counts */
    uint32_t looks; /* whether it looks for some: somebody asked */
    uint32_t waits, asks; /* so far, to look or to ask now and then */
    uint32_t answered; /* of those that asked */
    telpher_rma_gpu_inbox in[TELPHER_RMA_GPU_BOXES];
    telpher_rma_gpu_outbox out[TELPHER_RMA_GPU_BOXES];
    uint32_t taken[TELPHER_RMA_GPU_TAGS];
    uint32_t behind[TELPHER_RMA_GPU_TAGS]; /* of a count, that came behind small puts */
    uint16_t
        guess[TELPHER_RMA_GPU_TAGS]; /* rank + 1 that sent a small put of it last */
} telpher_rma_gpu_state;

#endif
