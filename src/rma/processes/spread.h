/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of groups over several processes: spread.c collectives, spread_pack.c data
 * of members, spread_split.c splits. All functions need the role.
 */
#ifndef TELPHER_RMA_PROCESSES_SPREAD_H
#define TELPHER_RMA_PROCESSES_SPREAD_H

#include "rma/processes/remote.h"

/* Body of an arrival. The payload follows. */
struct arrival_body {
    uint64_t args[4];
    uint32_t op;
    int32_t number; /* the leader's: of a window */
    char where[TP_RMA_WHERE];
};

struct tp_rma_arrival {
    struct tp_list link;
    uint32_t process;
    int32_t group;
    uint32_t generation, phase;
    uint8_t *body; /* owned */
    size_t len;
};

struct tp_rma_spread {
    struct tp_rma_run *run;
    uint8_t *has; /* by process: members */
    uint32_t others; /* processes beside this one */
    _Atomic uint32_t *heard; /* by process: generation of its last arrival, plus 1 */
    uint32_t
        generation; /* by the last member here that arrives, before it posts MEET */
    tp_rma_group_fn fn;
    /* The rest needs the role. */
    struct tp_rma_arrival **came; /* by process, of this generation and phase */
    uint32_t came_count;
    bool here; /* all members in this process have arrived */
    uint32_t phase;
    struct tp_rma_wish *wishes; /* of a split, between its rounds */
    int32_t *numbers; /* numbers that this process gave to the groups it leads */
};

static inline uint32_t
tp_rma_own_process(const struct tp_rma_run *run)
{
    return run->remote->world->process;
}

/** True if the group has a member in @p process. */
static inline bool
tp_rma_spread_is_of(const struct tp_rma_run *run, const struct tp_rma_group *group,
                    uint32_t member, uint32_t process)
{
    return tp_rma_process_of(run, group->members[member]) == process;
}

/** Sends the group's other processes an arrival at a round, with a body. */
void tp_rma_spread_tell(struct tp_rma_remote *r, const struct tp_rma_group *group,
                        uint32_t phase, const void *body, size_t len);

/* ---- spread_pack.c ---- */

/** Data of this process's members, laid out as @p one needs; of tp_malloc(). NULL
 *  without memory. A window gets its number here, if this process leads. */
uint8_t *tp_rma_spread_pack(const struct tp_rma_run *run, struct tp_rma_group *group,
                            const struct tp_rma_slot *one, size_t *ret_len);
/** Fills the slots of other processes' members from what was received. @return false:
 *  invalid data, and the launch has failed */
bool tp_rma_spread_read(struct tp_rma_run *run, struct tp_rma_group *group);

/* ---- spread_split.c ---- */

/** First round: this process sends the numbers of those new groups that it leads. */
void tp_rma_spread_begin_split(struct tp_rma_remote *r, struct tp_rma_group *group);
/** Second round: all numbers are known. */
void tp_rma_spread_end_split(struct tp_rma_run *run, struct tp_rma_group *group);

#endif
