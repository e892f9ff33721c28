/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies commands and control messages of other processes. Everything is checked against what
 * this process knows before it is used. The progress role is held, or no launch runs.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

/* ---- memory that a command names ---- */

static struct tp_rma_rank *
find_rank(struct tp_rma_run *run, uint32_t rank)
{
    return rank >= run->first && rank - run->first < run->params.ranks
               ? &run->ranks[rank]
               : NULL;
}

void
tp_rma_command_refuse(struct tp_rma_run *run, uint32_t process,
                      const telpher_rma_command *c)
{
    tp_rma_run_fail(
        run, TELPHER_ERR_PROTO,
        "process %u sent an invalid command %u: rank %u to rank %u, %llu bytes "
        "at offset %llu of window %d",
        process, c->op, c->from, c->to, (unsigned long long)c->len,
        (unsigned long long)c->off, c->where);
}

/* A member's memory in a reduction. */
static char *
find_brought(struct tp_rma_run *run, const telpher_rma_command *c, uint64_t *ret_len)
{
    const struct tp_rma_group *group = c->where >= 0 && c->where < TP_RMA_GROUPS_MAX
                                           ? atomic_load(&run->groups[c->where])
                                           : NULL;
    const telpher_rma_fold *f;
    size_t size;

    if (group == NULL || group->positions[c->to] == TELPHER_RMA_NO_RANK) {
        return NULL;
    }
    f = &group->slots[group->positions[c->to]].fold;
    size = group->slots[group->positions[c->to]].op == TP_RMA_OP_REDUCE
               ? tp_rma_fold_size(f->type)
               : 1;
    *ret_len = f->count * size;
    return (c->flags & TELPHER_RMA_COMMAND_SOURCE) != 0 ? (char *)(uintptr_t)f->src
                                                        : f->dst;
}

/* The memory of this process that a command is about; NULL if there is none. */
static char *
find_place(struct tp_rma_run *run, const telpher_rma_command *c)
{
    uint64_t len = 0;
    char *base = NULL;

    if (find_rank(run, c->to) == NULL) {
        return NULL;
    }
    if ((c->flags & (TELPHER_RMA_COMMAND_SOURCE | TELPHER_RMA_COMMAND_RESULT)) != 0) {
        base = find_brought(run, c, &len);
    } else {
        const struct tp_rma_window *w = tp_rma_window_find(run, c->where);

        if (w != NULL && w->group->positions[c->to] != TELPHER_RMA_NO_RANK) {
            base = w->parts[w->group->positions[c->to]].base;
            len = w->parts[w->group->positions[c->to]].len;
        }
    }
    return base != NULL && c->off <= len && c->len <= len - c->off ? base + c->off
                                                                   : NULL;
}

/* ---- effects ---- */

static bool
notify(struct tp_rma_run *run, const telpher_rma_command *c)
{
    struct tp_rma_rank *to = find_rank(run, c->to);

    if (to == NULL || c->tag >= run->params.tags || c->from >= run->world) {
        return false;
    }
    if (run->link != NULL) {
        tp_rma_link_notify(run, c);
    } else {
        tp_rma_rank_notify(to, c->from, c->tag);
    }
    return true;
}

/* True if the memory that a command names is a GPU's. */
static bool
is_far(const struct tp_rma_run *run, const telpher_rma_command *c)
{
    return run->link != NULL &&
           (c->flags & (TELPHER_RMA_COMMAND_SOURCE | TELPHER_RMA_COMMAND_RESULT)) == 0;
}

static bool
is_notable(const struct tp_rma_run *run, const telpher_rma_command *c)
{
    return c->tag < run->params.tags && c->from < run->world;
}

static bool
put(struct tp_rma_run *run, const struct tp_rma_delivery *d)
{
    const telpher_rma_command *c = d->command;
    const void *data = d->data;
    const size_t len = d->len;
    char *at = find_place(run, c);

    if ((at == NULL && c->len != 0) || (data != NULL && len != c->len)) {
        return false;
    }
    if (data != NULL && len != 0 && is_far(run, c)) {
        if (!is_notable(run, c)) {
            return false;
        }
        tp_rma_link_put(run, at, data, len, c);
        return true;
    }
    if (data != NULL && len != 0) {
        memcpy(at, data, len);
    }
    return (c->flags & TELPHER_RMA_COMMAND_NOTIFIES) == 0 || notify(run, c);
}

static bool
put_value(struct tp_rma_run *run, const telpher_rma_command *c)
{
    char *at = find_place(run, c);

    if (at == NULL || c->len != sizeof(uint64_t) ||
        (uintptr_t)at % sizeof(uint64_t) != 0) {
        return false;
    }
    if (run->link != NULL && is_notable(run, c)) {
        telpher_rma_command d = *c;

        d.flags |= TELPHER_RMA_COMMAND_NOTIFIES;
        tp_rma_link_put(run, at, &c->local, sizeof(c->local), &d);
        return true;
    }
    if (run->link == NULL) {
        *(uint64_t *)(void *)at = c->local;
    }
    return notify(run, c);
}

static bool
give(struct tp_rma_remote *r, uint32_t process, const telpher_rma_command *c)
{
    const char *at = find_place(r->run, c);

    if (at == NULL || c->from >= r->run->world ||
        tp_rma_process_of(r->run, c->from) != process) {
        return false;
    }
    if (is_far(r->run, c)) {
        tp_rma_link_drain(r->run); /* after what this process has put there */
    }
    tp_rma_answer_get(r, process, c, at);
    return true;
}

static bool
answer_flush(struct tp_rma_remote *r, uint32_t process, const telpher_rma_command *c)
{
    const telpher_rma_command flushed = {.op = TP_RMA_CONTROL_FLUSHED, .to = c->from};

    if (r->run->link != NULL) {
        tp_rma_link_drain(r->run);
    }
    tp_rma_control_send(r->world, process, &flushed, NULL, 0);
    return true;
}

static bool
rank_returned(struct tp_rma_run *run, uint32_t process, const telpher_rma_command *c)
{
    if (c->from >= run->world || tp_rma_process_of(run, c->from) != process) {
        return false;
    }
    atomic_store(&run->ranks[c->from].returned, true);
    if (run->link != NULL) {
        tp_rma_link_gone(run, c->from);
    }
    for (uint32_t i = 0; atomic_load(&run->any_from) && i < run->params.ranks; i++) {
        tp_rma_rank_poke(&run->ranks[run->first + i]);
    }
    return true;
}

/* ---- gets ---- */

static struct tp_rma_get *
find_get(struct tp_rma_remote *r, uint32_t process, const telpher_rma_command *c)
{
    uint32_t index = (uint32_t)c->number;
    struct tp_rma_get *get = index < r->get_count ? &r->gets[index] : NULL;

    return get != NULL && get->rank != NULL && get->process == process &&
                   get->serial == (uint32_t)(c->number >> 32) && get->len == c->len
               ? get
               : NULL;
}

static bool
end_get(struct tp_rma_remote *r, uint32_t process, const struct tp_rma_delivery *d)
{
    struct tp_rma_get *get = find_get(r, process, d->command);
    const void *data = d->data;
    const size_t len = d->len;
    struct tp_rma_rank *rank;

    if (get == NULL || (data != NULL && len != get->len)) {
        return false;
    }
    rank = get->rank;
    if (data != NULL && len != 0 && get->dst != NULL && get->far) {
        const telpher_rma_command c = {.to = rank->index, .from = d->command->from};

        tp_rma_link_put(r->run, get->dst, data, len, &c);
    } else if (data != NULL && len != 0 && get->dst != NULL) {
        memcpy(get->dst, data, len);
    }
    get->rank = NULL;
    tp_rma_remote_answer(rank);
    return true;
}

static bool
end_flush(struct tp_rma_remote *r, uint32_t process, const telpher_rma_command *c)
{
    struct tp_rma_rank *rank = find_rank(r->run, c->to);

    if (rank == NULL || rank->unflushed[process] != TP_RMA_FLUSHING) {
        return false;
    }
    rank->unflushed[process] = TP_RMA_FLUSHED;
    tp_rma_remote_answer(rank);
    return true;
}

/* ---- control messages ---- */

static void
take_address(struct tp_rma_process *p, uint32_t turn, const uint8_t *address,
             size_t len)
{
    tp_free(p->addresses[turn]);
    p->addresses[turn] = len != 0 ? tp_memdup(address, len, "address") : NULL;
    p->address_lens[turn] = p->addresses[turn] != NULL ? len : 0;
}

/* This process compares its fields when it begins the launch. */
static void
take_hello(struct tp_rma_world *w, uint32_t process, const void *body, size_t len)
{
    struct tp_rma_process *p = &w->processes[process];
    struct tp_rma_hello hello = {.abi = 0};
    const size_t head = TP_MIN(len, sizeof(hello));

    memcpy(&hello, body, head);
    hello.kernel[sizeof(hello.kernel) - 1] = '\0';
    hello.text[sizeof(hello.text) - 1] = '\0';
    tp_text_tame(hello.kernel, false);
    tp_text_tame(hello.text, false);
    if (head < sizeof(hello)) {
        hello.status = (uint32_t)TELPHER_ERR_VERSION;
        snprintf(hello.text, sizeof(hello.text), "it has another library");
    }
    if ((int32_t)(hello.serial - w->serial) >= 0) { /* otherwise that launch is over */
        p->hellos[hello.serial % 2] = hello;
        take_address(p, hello.serial % 2, (const uint8_t *)body + head, len - head);
    }
}

static char *
take_text(const void *body, size_t len)
{
    char *text = tp_malloc(len + 1, "text of a failure");

    if (text != NULL) {
        memcpy(text, body, len);
        text[len] = '\0';
        tp_text_tame(text, true);
    }
    return text;
}

static void
take_failure(struct tp_rma_run *run, uint32_t process, const telpher_rma_command *c,
             const void *body, size_t len)
{
    int32_t status = (int32_t)c->tag;
    char *text = take_text(body, len);

    /* the sender has sent it to all processes */
    atomic_store(&run->remote->failure_sent, true);
    tp_rma_run_fail(run, status < 0 ? status : TELPHER_ERR_PROTO, "process %u: %s",
                    process, text != NULL ? text : telpher_status_text(status));
    tp_free(text);
}

static void
take_done(struct tp_rma_process *p, const void *body, size_t len)
{
    p->done = true;
    tp_free(p->table);
    p->table = len > 1 ? take_text(body, len) : NULL;
}

static void
take_arrival(struct tp_rma_remote *r, uint32_t process, struct tp_rma_delivery *d)
{
    void *body = d->body;

    if (body == NULL && d->len != 0) {
        body = tp_memdup(d->data, d->len, "arrival");
    }
    d->body = NULL;
    tp_rma_spread_arrived(r, process, d->command, body, d->len);
}

/* @return false: a correct process does not send this */
static bool
do_control(struct tp_rma_remote *r, uint32_t process, struct tp_rma_delivery *d)
{
    const telpher_rma_command *c = d->command;

    switch (c->op) {
    case TP_RMA_CONTROL_GOT:
        return end_get(r, process, d);
    case TP_RMA_CONTROL_FLUSHED:
        return end_flush(r, process, c);
    case TP_RMA_CONTROL_ARRIVED:
        take_arrival(r, process, d);
        return true;
    case TP_RMA_CONTROL_DONE:
        take_done(&r->world->processes[process], d->data, d->len);
        return true;
    case TP_RMA_CONTROL_QUIET:
    case TP_RMA_CONTROL_ASK:
        return tp_rma_deadlock_take(r, process, c);
    case TP_RMA_CONTROL_FAILED:
        take_failure(r->run, process, c, d->data, d->len);
        return true;
    default:
        return false;
    }
}

static bool
do_command(struct tp_rma_remote *r, uint32_t process, struct tp_rma_delivery *d)
{
    const telpher_rma_command *c = d->command;

    switch (c->op) {
    case TELPHER_RMA_COMMAND_PUT:
        return put(r->run, d);
    case TELPHER_RMA_COMMAND_VALUE:
        return put_value(r->run, c);
    case TELPHER_RMA_COMMAND_NOTIFY:
        return notify(r->run, c);
    case TELPHER_RMA_COMMAND_GET:
        return give(r, process, c);
    case TELPHER_RMA_COMMAND_FLUSH:
        return answer_flush(r, process, c);
    case TELPHER_RMA_COMMAND_RETURNED:
        return rank_returned(r->run, process, c);
    default:
        return do_control(r, process, d);
    }
}

void
tp_rma_command_take(struct tp_rma_world *w, uint32_t process, struct tp_rma_delivery *d)
{
    const telpher_rma_command *c = d->command;

    if (c->op == TP_RMA_CONTROL_HELLO) {
        take_hello(w, process, d->data, d->len);
    } else if (c->op == TP_RMA_CONTROL_LEFT) {
        w->processes[process].left = c->tag;
    } else if (tp_rma_is_of_launch(w, c)) {
        w->run->remote->came += tp_rma_deadlock_counts(c->op);
        if (!do_command(w->run->remote, process, d)) {
            tp_rma_command_refuse(w->run, process, c);
        }
    }
}

void *
tp_rma_command_place(struct tp_rma_remote *r, uint32_t process,
                     const telpher_rma_command *c, size_t len)
{
    const struct tp_rma_get *get;

    if (c->op == TELPHER_RMA_COMMAND_PUT) {
        return len == c->len ? find_place(r->run, c) : NULL;
    }
    get = find_get(r, process, c);
    return get != NULL && len == get->len ? get->dst : NULL;
}
