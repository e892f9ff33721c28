/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over several processes. When all members of a process have arrived at a
 * collective, it sends every other process of the group an arrival with its members'
 * data, ordered after all earlier puts of its ranks. A process with all arrivals
 * executes the collective for its own members; all get the same result. New numbers (of
 * windows, groups) are confirmed in a second round, so that no process uses one that
 * another does not know yet.
 */
#include <string.h>

#include "base/alloc.h"
#include "rma/processes/spread.h"

uint32_t
tp_rma_spread_processes(const struct tp_rma_run *run)
{
    return run->remote != NULL ? run->remote->world->count : 1;
}

uint32_t
tp_rma_spread_leader(const struct tp_rma_run *run, const struct tp_rma_group *group)
{
    return group->members[0] / run->params.ranks;
}

telpher_status
tp_rma_spread_create(struct tp_rma_run *run, struct tp_rma_group *group)
{
    uint32_t count = tp_rma_spread_processes(run);
    struct tp_rma_spread *s = tp_zalloc(sizeof(*s), "group");

    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    group->spread = s;
    s->run = run;
    s->has = tp_alloc_array(count, sizeof(*s->has), "group");
    s->came = tp_alloc_array(count, sizeof(*s->came), "group");
    s->heard = tp_alloc_array(count, sizeof(*s->heard), "group");
    if (s->has == NULL || s->came == NULL || s->heard == NULL) {
        return TELPHER_ERR_NO_MEMORY; /* the group's end frees the rest */
    }
    for (uint32_t i = 0; i < group->size; i++) {
        s->has[tp_rma_process_of(run, group->members[i])] = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        s->others += s->has[i] != 0 && i != tp_rma_own_process(run);
    }
    return TELPHER_OK;
}

void
tp_rma_spread_enrolled(struct tp_rma_run *run, struct tp_rma_group *group)
{
    tp_list_for_each_entry_safe(const struct tp_rma_arrival, a, &run->remote->arrivals,
                                link) {
        if (a->group == group->number) {
            atomic_store(&group->spread->heard[a->process], a->generation + 1);
        }
    }
}

static void
arrival_free(struct tp_rma_arrival *a)
{
    if (a != NULL) {
        tp_list_remove(&a->link);
        tp_free(a->body);
        tp_free(a);
    }
}

void
tp_rma_spread_destroy(struct tp_rma_spread *s)
{
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; s->came != NULL && i < tp_rma_spread_processes(s->run); i++) {
        arrival_free(s->came[i]);
    }
    tp_free(s->wishes);
    tp_free(s->numbers);
    tp_free(s->has);
    tp_free(s->came);
    tp_free(s->heard);
    tp_free(s);
}

void
tp_rma_spread_forget(struct tp_rma_remote *r)
{
    tp_list_for_each_safe(link, &r->arrivals) {
        arrival_free(tp_list_entry(link, struct tp_rma_arrival, link));
    }
}

/* ---- arrivals sent ---- */

void
tp_rma_spread_tell(struct tp_rma_remote *r, const struct tp_rma_group *group,
                   uint32_t phase, const void *body, size_t len)
{
    const struct tp_rma_spread *s = group->spread;
    telpher_rma_command c = {.op = TP_RMA_CONTROL_ARRIVED,
                             .tag = phase,
                             .where = group->number,
                             .number = s->generation};

    for (uint32_t i = 0; i < r->world->count; i++) {
        if (s->has[i] != 0 && i != r->world->process) {
            tp_rma_control_send(r->world, i, &c, body, len);
        }
    }
}

/* ---- collective ---- */

static void look(struct tp_rma_remote *r, struct tp_rma_group *group);

/* Clears the slots of other processes' members, and frees the received bodies. */
static void
forget_came(struct tp_rma_spread *s, struct tp_rma_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if (!tp_rma_spread_is_of(s->run, group, i, tp_rma_own_process(s->run))) {
            group->slots[i].where = "another process";
            group->slots[i].fold.src = NULL;
        }
    }
    for (uint32_t i = 0; i < tp_rma_spread_processes(s->run); i++) {
        arrival_free(s->came[i]);
        s->came[i] = NULL;
    }
    s->came_count = 0;
}

/* All have arrived. @return true if a second round follows */
static bool
first_round(struct tp_rma_remote *r, struct tp_rma_group *group)
{
    struct tp_rma_spread *s = group->spread;
    enum tp_rma_op op;

    group->status = TELPHER_OK;
    if (!tp_rma_spread_read(r->run, group)) {
        group->status = TELPHER_ERR_PROTO;
        return false;
    }
    if (!tp_rma_group_agrees(r->run, group, false)) {
        group->status = TELPHER_ERR_INVALID;
        return false;
    }
    op = group->slots[0].op;
    if (op != TP_RMA_OP_SPLIT && s->fn != NULL) {
        s->fn(r->run, group);
    }
    return op == TP_RMA_OP_SPLIT || op == TP_RMA_OP_WIN_CREATE;
}

static void
finish(struct tp_rma_remote *r, struct tp_rma_group *group)
{
    struct tp_rma_spread *s = group->spread;

    if (s->phase == 0 && first_round(r, group)) {
        forget_came(s, group);
        s->phase = 1;
        if (group->slots[0].op == TP_RMA_OP_SPLIT) {
            tp_rma_spread_begin_split(r, group);
        } else {
            tp_rma_spread_tell(r, group, 1, NULL, 0);
        }
        look(r, group);
        return;
    }
    if (s->phase == 1 && group->slots[0].op == TP_RMA_OP_SPLIT) {
        tp_rma_spread_end_split(r->run, group);
    }
    forget_came(s, group);
    s->phase = 0;
    s->here = false;
    tp_rma_group_resume(r->run, group, s->generation, NULL);
}

/* Takes the arrivals of this round, and ends it if they are complete. */
static void
look(struct tp_rma_remote *r, struct tp_rma_group *group)
{
    struct tp_rma_spread *s = group->spread;

    if (!s->here) {
        return;
    }
    tp_list_for_each_entry_safe(struct tp_rma_arrival, a, &r->arrivals, link) {
        if (a->group == group->number && a->generation == s->generation &&
            a->phase == s->phase && s->has[a->process] != 0 &&
            s->came[a->process] == NULL) {
            tp_list_remove(&a->link);
            s->came[a->process] = a;
            s->came_count++;
        }
    }
    if (s->came_count == s->others) {
        finish(r, group);
    }
}

void
tp_rma_spread_post(struct tp_rma_remote *r, const telpher_rma_command *c)
{
    struct tp_rma_group *group = atomic_load(&r->run->groups[c->where]);
    struct tp_rma_spread *s = group->spread;
    const struct tp_rma_slot *one = tp_rma_group_slot(&r->run->ranks[c->from], group);
    size_t len = 0;
    uint8_t *body;

    s->phase = 0;
    body = tp_rma_spread_pack(r->run, group, one, &len);
    if (body == NULL) {
        tp_rma_run_fail(
            r->run, TELPHER_ERR_NO_MEMORY,
            "out of memory to send this process's part of a collective call of %s",
            group->name);
        return;
    }
    s->here = true;
    tp_rma_spread_tell(r, group, 0, body, len);
    tp_free(body);
    look(r, group);
}

void
tp_rma_spread_arrived(struct tp_rma_remote *r, uint32_t process,
                      const telpher_rma_command *c, void *body, size_t len)
{
    struct tp_rma_arrival *a = tp_zalloc(sizeof(*a), "arrival");
    struct tp_rma_group *group = NULL;
    bool has_memory = a != NULL && (body != NULL || len == 0);

    if (!has_memory || c->where < 0 || c->where >= TP_RMA_GROUPS_MAX) {
        tp_rma_run_fail(r->run, has_memory ? TELPHER_ERR_PROTO : TELPHER_ERR_NO_MEMORY,
                        "process %u sent its part of a collective call of group %d: %s",
                        process, (int)c->where,
                        has_memory ? "there is no such group" : "out of memory");
        tp_free(a);
        tp_free(body);
        return;
    }
    *a = (struct tp_rma_arrival){.process = process,
                                 .group = c->where,
                                 .generation = (uint32_t)c->number,
                                 .phase = c->tag,
                                 .body = body,
                                 .len = len};
    tp_list_push_back(&r->arrivals, &a->link);
    group = atomic_load(&r->run->groups[c->where]);
    if (group != NULL && group->spread != NULL) {
        atomic_store(&group->spread->heard[process], (uint32_t)c->number + 1);
        look(r, group);
    }
}

void
tp_rma_spread_meet(struct tp_rma_lane *lane, struct tp_rma_group *group,
                   uint32_t generation, tp_rma_group_fn fn)
{
    struct tp_rma_run *run = lane->rank->run;
    const struct tp_rma_slot *slot = tp_rma_group_slot(lane->rank, group);
    const struct tp_rma_call call = {slot->op, slot->where, {0}, NULL};
    const telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_MEET,
                                   .from = lane->rank->index,
                                   .to = lane->rank->index,
                                   .where = group->number};

    if (!tp_rma_group_agrees(run, group, true)) {
        return; /* the launch fails at once */
    }
    group->spread->generation = generation;
    group->spread->fn = fn;
    (void)tp_rma_remote_post(lane, &call, &c); /* fails only with the launch */
}

/* ---- reports ---- */

void
tp_rma_spread_print_missing(FILE *out, const struct tp_rma_run *run,
                            const struct tp_rma_group *group, uint32_t generation)
{
    const struct tp_rma_spread *s = group->spread;
    const char *between = ", without process";

    for (uint32_t i = 0; i < tp_rma_spread_processes(run); i++) {
        if (i != tp_rma_own_process(run) && s->has[i] != 0 &&
            (int32_t)(atomic_load(&s->heard[i]) - (generation + 1)) < 0) {
            fprintf(out, "%s %u", between, i);
            between = ",";
        }
    }
}
