/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects a deadlock over all processes, by Mattern's two waves. A process whose ranks
 * all wait sends process 0 its counts of sent and received messages. If the sums are
 * equal, process 0 asks once more. If no count has changed, no message was in flight,
 * so no wait can end. The role is held.
 */
#include "base/alloc.h"
#include "rma/processes/remote.h"

enum { IS_QUIET = 1, HAS_WAITS = 2 }; /* flags of QUIET */

/* Last report of a process. */
struct tp_rma_deadlock {
    bool valid, again; /* again: in answer to the second question */
    uint16_t flags;
    uint64_t went, came;
};

bool
tp_rma_deadlock_counts(uint16_t op)
{
    return op < TELPHER_RMA_COMMAND_CONTROL || op == TP_RMA_CONTROL_GOT ||
           op == TP_RMA_CONTROL_FLUSHED || op == TP_RMA_CONTROL_ARRIVED;
}

static bool
nothing_is_under_way(const struct tp_rma_remote *r)
{
    for (uint32_t i = 0; i < r->world->count; i++) {
        const struct tp_rma_process *p = &r->world->processes[i];

        if (p->under_way != 0 || p->incoming != 0) {
            return false;
        }
    }
    return atomic_load(&r->head) == atomic_load(&r->tail);
}

static struct tp_rma_deadlock
look_at_own(struct tp_rma_remote *r)
{
    struct tp_rma_deadlock q = {.valid = true, .went = r->went, .came = r->came};
    bool waits = false;

    if (nothing_is_under_way(r) && tp_rma_run_is_still(r->run, &waits)) {
        q.flags = (uint16_t)(IS_QUIET | (waits ? HAS_WAITS : 0));
    }
    return q;
}

static bool
are_same(const struct tp_rma_deadlock *a, const struct tp_rma_deadlock *b)
{
    return a->flags == b->flags && a->went == b->went && a->came == b->came;
}

static void
tell(struct tp_rma_remote *r, const struct tp_rma_deadlock *q, uint32_t wave)
{
    const telpher_rma_command c = {.op = TP_RMA_CONTROL_QUIET,
                                   .flags = q->flags,
                                   .from = wave,
                                   .off = q->went,
                                   .len = q->came};

    tp_rma_control_send(r->world, 0, &c, NULL, 0);
}

/* ---- process 0 ---- */

/* True if all processes are quiet, a rank waits, and no message is in flight. */
static bool
all_are_quiet(const struct tp_rma_remote *r)
{
    uint64_t went = 0, came = 0;
    bool waits = false;

    for (uint32_t i = 0; i < r->world->count; i++) {
        const struct tp_rma_deadlock *q = &r->quiet[i];

        if (!q->valid || (q->flags & IS_QUIET) == 0) {
            return false;
        }
        went += q->went;
        came += q->came;
        waits = waits || (q->flags & HAS_WAITS) != 0;
    }
    return waits && went == came;
}

static void
ask(struct tp_rma_remote *r)
{
    const telpher_rma_command c = {.op = TP_RMA_CONTROL_ASK, .from = ++r->wave};

    for (uint32_t i = 0; i < r->world->count; i++) {
        r->quiet[i].again = false;
    }
    r->asked = true;
    tp_rma_control_broadcast(r->world, &c, NULL, 0);
}

static void
decide(struct tp_rma_remote *r)
{
    struct tp_rma_deadlock own = look_at_own(r);

    for (uint32_t i = 1; i < r->world->count; i++) {
        if (!r->quiet[i].again) {
            return;
        }
    }
    r->asked = false;
    if (are_same(&own, &r->quiet[0]) && all_are_quiet(r)) {
        tp_rma_run_fail(
            r->run, TELPHER_ERR_DEADLOCK,
            "deadlock: all ranks of all processes wait or have returned, and "
            "no rank is left to end a wait");
    }
}

static void
take_word(struct tp_rma_remote *r, uint32_t process, const telpher_rma_command *c)
{
    struct tp_rma_deadlock *q = &r->quiet[process];
    struct tp_rma_deadlock said = {
        .valid = true, .flags = c->flags, .went = c->off, .came = c->len};

    if (c->from != 0 && q->valid && are_same(q, &said)) {
        if (c->from == r->wave && r->asked) { /* else of a question that is answered */
            q->again = true;
            decide(r);
        }
        return;
    }
    /* A count has changed: start again. Answers to earlier questions count as well, because
     * the process does not report the same again. */
    r->asked = false;
    *q = said;
    q->valid = (said.flags & IS_QUIET) != 0;
}

/* ---- all ---- */

void
tp_rma_deadlock_look(struct tp_rma_remote *r)
{
    struct tp_rma_deadlock own = look_at_own(r);

    if (atomic_load(&r->run->status) != TELPHER_OK || (own.flags & IS_QUIET) == 0) {
        return;
    }
    if (r->world->process != 0) {
        if (!r->quiet[0].valid || !are_same(&own, &r->quiet[0])) {
            tell(r, &own, 0);
            r->quiet[0] = own; /* last report sent */
        }
        return;
    }
    r->quiet[0] = own;
    if (!r->asked && all_are_quiet(r)) {
        ask(r);
    }
}

bool
tp_rma_deadlock_take(struct tp_rma_remote *r, uint32_t process,
                     const telpher_rma_command *c)
{
    struct tp_rma_deadlock own;

    if ((c->op == TP_RMA_CONTROL_QUIET) != (r->world->process == 0) ||
        (c->op == TP_RMA_CONTROL_ASK && process != 0)) {
        return false; /* process 0 asks, and gets answers */
    }
    if (c->op == TP_RMA_CONTROL_QUIET) {
        take_word(r, process, c);
        return true;
    }
    own = look_at_own(r);
    r->quiet[0] = own;
    r->quiet[0].valid = (own.flags & IS_QUIET) != 0; /* otherwise it will report anew */
    tell(r, &own, c->from);
    return true;
}

telpher_status
tp_rma_deadlock_create(struct tp_rma_remote *r)
{
    r->quiet = tp_alloc_array(r->world->count, sizeof(*r->quiet), "processes");
    return r->quiet != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}
