/* SPDX-License-Identifier: Apache-2.0 */
/* Order of the commands of a plan: wait lists, and calls of the host that order commands. */
#include "order.h"

static const struct op *
op_at(const struct planner *p, int i)
{
    return &p->plan->ops[i];
}

static bool
is_command(const struct op *op)
{
    return op->kind < OP_USER;
}

/** @return true if a wait list may name it. */
static bool
has_usable_event(const struct op *op)
{
    return op->kind == OP_USER || (op->has_event && !op->release_early);
}

/* ---- conflicts ------------------------------------------------------------------------ */

/** A buffer and its parts share memory; parts that do not overlap may be used at once. */
static bool
share_memory(const struct plan *plan, int a, int b)
{
    const struct mem_plan *x = &plan->mems[a], *y = &plan->mems[b];

    if (a == b || plan_root(plan, a) != plan_root(plan, b)) {
        return a == b;
    }
    if (x->parent < 0 || y->parent < 0) {
        return true;
    }
    return x->origin < y->origin + y->size && y->origin < x->origin + x->size;
}

static bool
writes_first(const struct op *op)
{
    switch (op->kind) {
    case OP_READ:
    case OP_READ_RECT:
    case OP_READ_IMAGE:
        return false;
    case OP_MAP:
        return op->status != 0;
    default:
        return true; /* a migration moves content, too */
    }
}

static bool
conflict(const struct planner *p, const struct op *op, const struct access *a,
         unsigned count)
{
    for (unsigned i = 0; i < 2 && is_command(op); i++) {
        bool writes = i == 0 ? writes_first(op)
                             : op->kind == OP_KERNEL && op->kernel == KERNEL_CHASE;

        for (unsigned k = 0; op->mem[i] >= 0 && k < count; k++) {
            if ((writes || a[k].writes) &&
                share_memory(p->plan, op->mem[i], a[k].mem)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- sets ------------------------------------------------------------------------------- */

/** Adds the commands that a new command of a queue follows by the queue's own order. */
static void
add_implicit(const struct planner *p, unsigned queue, bool whole, struct op_set *set)
{
    int last = p->last[queue];

    if (last >= 0 && !set_has(&p->done, last)) {
        set_add(set, last);
    }
    for (int i = 0; whole && i < (int)p->plan->op_count; i++) {
        if (is_command(op_at(p, i)) && op_at(p, i)->queue == queue &&
            !set_has(&p->done, i)) {
            set_add(set, i);
        }
    }
}

/** Derives all else from `direct`. */
static void
close_known(const struct planner *p, struct known *known)
{
    for (int i = 0; i < (int)p->plan->op_count; i++) {
        if (!set_has(&known->direct, i)) {
            continue;
        }
        set_add(&known->behind, i);
        set_unite(&known->behind, &p->known[i].behind);
        if (p->known[i].poisoned) {
            known->poisoned = true;
        } else {
            set_add(&known->before, i);
            set_unite(&known->before, &p->known[i].before);
        }
    }
}

static void
mark_done(struct planner *p, int i)
{
    set_add(&p->done, i);
    if (!p->known[i].poisoned) {
        set_unite(&p->done, &p->known[i].before);
    }
}

/* ---- calls of the host ------------------------------------------------------------------ */

static struct op *
add_op(struct planner *p, enum op_kind kind, unsigned context, unsigned queue)
{
    struct op *op = &p->plan->ops[p->plan->op_count];

    if (p->plan->op_count == PLAN_OPS) {
        p->full = true;
        return NULL;
    }
    p->plan->op_count++;
    *op = (struct op){.kind = kind,
                      .context = (uint8_t)context,
                      .queue = (uint8_t)queue,
                      .mem = {-1, -1},
                      .target = -1,
                      .intent = (int16_t)p->intent,
                      .seed = plan_random(&p->rng)};
    p->known[p->plan->op_count - 1] = (struct known){.poisoned = false};
    return op;
}

struct op *
order_host_op(struct planner *p, enum op_kind kind, unsigned context)
{
    return add_op(p, kind, context, 0);
}

/** Sets the user events that a command waits for. */
static void
set_user_events_behind(struct planner *p, int index)
{
    struct op_set behind = p->known[index].behind;

    set_add(&behind, index);
    for (int i = 0; i < (int)p->plan->op_count; i++) {
        if (set_has(&behind, i) && op_at(p, i)->kind == OP_USER) {
            order_set_user_event(p, i);
        }
    }
}

void
order_wait_for(struct planner *p, int index)
{
    struct op *op;

    set_user_events_behind(p, index);
    if (set_has(&p->done, index)) {
        return;
    }
    if (!has_usable_event(op_at(p, index))) {
        order_finish(p, op_at(p, index)->queue);
        return;
    }
    op = order_host_op(p, OP_WAIT, op_at(p, index)->context);
    if (op != NULL) {
        op->waits[op->wait_count++] = (int16_t)index;
        mark_done(p, index);
    }
}

/**
 * Waits for the other commands that commands behind a user event wait for: PoCL 3.1 ends the process if
 * a command fails and another of its waits ends later.
 */
static void
wait_for_others(struct planner *p, int user)
{
    for (int i = 0; i < (int)p->plan->op_count; i++) {
        const struct op_set direct = p->known[i].direct;

        for (int k = 0; set_has(&p->known[i].behind, user) && k < i; k++) {
            if (set_has(&direct, k) && k != user && !p->known[k].poisoned) {
                order_wait_for(p, k);
            }
        }
    }
}

void
order_set_user_event(struct planner *p, int index)
{
    bool fails = p->known[index].poisoned;
    unsigned count;
    struct op *op;

    if (set_has(&p->set, index)) {
        return;
    }
    if (fails) {
        wait_for_others(p, index);
    }
    op = order_host_op(p, OP_SET, op_at(p, index)->context);
    if (op == NULL) {
        return;
    }
    op->target = (int16_t)index;
    set_add(&p->set, index);
    set_add(&p->done, index);
    count = p->plan->op_count;
    /* Results of later commands shall not depend on how fast the failure spreads. */
    for (unsigned i = 0; fails && i < count; i++) {
        if (set_has(&p->known[i].behind, index)) {
            order_wait_for(p, (int)i);
        }
    }
}

static void
set_user_events_of_queue(struct planner *p, unsigned queue)
{
    unsigned count = p->plan->op_count;

    for (unsigned i = 0; i < count; i++) {
        if (is_command(op_at(p, (int)i)) && op_at(p, (int)i)->queue == queue &&
            !set_has(&p->done, (int)i)) {
            set_user_events_behind(p, (int)i);
        }
    }
}

void
order_finish(struct planner *p, unsigned queue)
{
    set_user_events_of_queue(p, queue);
    if (add_op(p, OP_FINISH, p->plan->queues[queue].context, queue) == NULL) {
        return;
    }
    for (unsigned i = 0; i < p->plan->op_count; i++) {
        if (is_command(op_at(p, (int)i)) && op_at(p, (int)i)->queue == queue) {
            mark_done(p, (int)i);
        }
    }
}

/* ---- commands --------------------------------------------------------------------------- */

/** A command that is being made. */
struct draft {
    unsigned queue;
    const struct access *accesses;
    unsigned access_count;
    enum host_use use;
    bool whole; /**< waits for all of its queue */
    bool stale; /**< its wait list names an event that has failed */
    int waits[PLAN_WAITS];
    unsigned wait_count;
    struct known known;
};

/** Forgets waits for what has failed since they were chosen, where drivers lose them. */
static void
drop_failed_waits(const struct planner *p, struct draft *d)
{
    unsigned count = 0;

    for (unsigned i = 0; i < d->wait_count; i++) {
        if ((p->options.features & PLAN_FAILED_WAITS) != 0 ||
            !p->known[d->waits[i]].poisoned || !set_has(&p->done, d->waits[i])) {
            d->waits[count++] = d->waits[i];
        }
    }
    d->wait_count = count;
}

static void
add_wait(struct draft *d, int index)
{
    for (unsigned i = 0; i < d->wait_count; i++) {
        if (d->waits[i] == index) {
            return;
        }
    }
    d->waits[d->wait_count++] = index;
}

/** Waits that nothing requires. */
static void
add_random_waits(struct planner *p, struct draft *d)
{
    unsigned count = p->plan->op_count, context = p->plan->queues[d->queue].context;

    for (unsigned n = plan_chance(&p->rng, 40) ? 1 + (unsigned)plan_below(&p->rng, 3)
                                               : 0;
         n > 0 && count > 0; n--) {
        int i = (int)plan_below(&p->rng, count);
        const struct op *op = op_at(p, i);

        bool fails = p->known[i].poisoned, failed = fails && set_has(&p->done, i);

        if (op->context != context || !has_usable_event(op) ||
            (fails && d->use == HOST_READS)) {
            continue;
        }
        if (!failed || ((p->options.features & PLAN_FAILED_WAITS) != 0 &&
                        plan_chance(&p->rng, 15))) {
            add_wait(d, i);
        }
    }
}

/** Orders the command after a conflicting one. */
static void
resolve_conflict(struct planner *p, struct draft *d, int index)
{
    bool poisoned = p->known[index].poisoned;

    if (d->stale || (poisoned && d->use == HOST_READS) || d->wait_count == PLAN_WAITS ||
        plan_chance(&p->rng, 25)) {
        order_wait_for(p, index);
        return;
    }
    if (!has_usable_event(op_at(p, index))) {
        index = order_whole_queue(p, OP_MARKER, op_at(p, index)->queue);
    }
    if (index >= 0 && p->known[index].poisoned && d->use == HOST_READS) {
        order_wait_for(p, index);
    } else if (index >= 0) {
        add_wait(d, index);
    }
}

/** Adds one thing that a draft still needs before it. @return false: it needs nothing */
static bool
prepare(struct planner *p, struct draft *d)
{
    drop_failed_waits(p, d);
    d->known = (struct known){.poisoned = false};
    add_implicit(p, d->queue, d->whole, &d->known.direct);
    for (unsigned i = 0; i < d->wait_count; i++) {
        set_add(&d->known.direct, d->waits[i]);
        d->stale = d->stale ||
                   (p->known[d->waits[i]].poisoned && set_has(&p->done, d->waits[i]));
    }
    close_known(p, &d->known);
    for (int i = 0; i < (int)p->plan->op_count; i++) {
        bool behind = set_has(&d->known.behind, i), done = set_has(&p->done, i);

        if (set_has(&d->known.direct, i) && !done &&
            (d->stale || (p->known[i].poisoned && d->use == HOST_READS))) {
            order_wait_for(p, i);
            return true;
        }
        /* wait_for_others() must be able to wait for each alone. */
        if (set_has(&d->known.direct, i) && !done && d->known.poisoned &&
            !has_usable_event(op_at(p, i))) {
            order_wait_for(p, i);
            return true;
        }
        if (behind && d->use != HOST_NOTHING && op_at(p, i)->kind == OP_USER &&
            !set_has(&p->set, i)) {
            order_set_user_event(p, i);
            return true;
        }
    }
    for (int i = (int)p->plan->op_count - 1; i >= 0; i--) {
        if (!set_has(&p->done, i) && !set_has(&d->known.before, i) &&
            conflict(p, op_at(p, i), d->accesses, d->access_count)) {
            resolve_conflict(p, d, i);
            return true;
        }
    }
    return false;
}

static struct op *
emit(struct planner *p, struct draft *d)
{
    struct op *op;
    struct known *known;

    while (!p->full && prepare(p, d)) {
    }
    if (d->use != HOST_NOTHING && (p->options.features & PLAN_LOOSE_BLOCKING) == 0) {
        set_user_events_of_queue(p, d->queue);
        while (!p->full && prepare(p, d)) {
        }
    }
    op = add_op(p, OP_MARKER, p->plan->queues[d->queue].context, d->queue);
    if (op == NULL) {
        return NULL;
    }
    known = &p->known[p->plan->op_count - 1];
    *known = d->known;
    for (unsigned i = 0; i < d->wait_count; i++) {
        op->waits[op->wait_count++] = (int16_t)d->waits[i];
    }
    /* PoCL 3.1 ends the process if an event fails that the program does not hold. */
    op->has_event = known->poisoned || plan_chance(&p->rng, 75);
    op->release_early = op->has_event && !known->poisoned && plan_chance(&p->rng, 15);
    op->callback =
        op->has_event && plan_chance(&p->rng, 15) &&
        (p->options.features & PLAN_CALLBACKS) != 0 &&
        (!known->poisoned || (p->options.features & PLAN_FAILED_CALLBACKS) != 0);
    return op;
}

/** Ends maps that a command must not meet. */
static void
unmap_conflicting(struct planner *p, const struct draft *d)
{
    for (int m = 0; m < (int)p->plan->mem_count; m++) {
        if (p->map[m] >= 0 &&
            conflict(p, op_at(p, p->map[m]), d->accesses, d->access_count)) {
            order_unmap(p, m, op_at(p, p->map[m])->queue);
        }
    }
}

struct op *
order_command(struct planner *p, unsigned queue, const struct access *accesses,
              unsigned count, enum host_use use)
{
    struct draft d = {
        .queue = queue, .accesses = accesses, .access_count = count, .use = use};

    unmap_conflicting(p, &d);
    add_random_waits(p, &d);
    return emit(p, &d);
}

int
order_whole_queue(struct planner *p, enum op_kind kind, unsigned queue)
{
    struct draft d = {.queue = queue, .whole = true};
    struct op *op = emit(p, &d);

    if (op == NULL) {
        return -1;
    }
    op->kind = kind;
    op->has_event = true;
    op->release_early = false;
    order_enter(p, op);
    return (int)(op - p->plan->ops);
}

/** A blocking write may return once its memory is read; commands of other queues then
 *  need more than its return. */
static bool
ends_at_return(const struct planner *p, const struct op *op)
{
    return op->blocking && ((p->options.features & PLAN_AFTER_WRITES) != 0 ||
                            (op->kind != OP_WRITE && op->kind != OP_WRITE_RECT &&
                             op->kind != OP_WRITE_IMAGE));
}

void
order_enter(struct planner *p, struct op *op)
{
    int index = (int)(op - p->plan->ops);

    if (!p->plan->queues[op->queue].out_of_order || op->kind == OP_BARRIER) {
        p->last[op->queue] = index;
    }
    if (ends_at_return(p, op)) {
        mark_done(p, index);
    }
}

void
order_unmap(struct planner *p, int mem, unsigned queue)
{
    struct access a = {mem, op_at(p, p->map[mem])->status != 0};
    int map = p->map[mem];
    struct op *op;

    p->map[mem] = -1;
    order_wait_for(p, map); /* the host writes and reads after it, before the unmap */
    op = order_command(p, queue, &a, 1, HOST_READS);
    if (op != NULL) {
        op->kind = OP_UNMAP;
        op->mem[0] = (int16_t)mem;
        op->target = (int16_t)map;
        order_enter(p, op);
    }
}
