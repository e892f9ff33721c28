/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over several processes. When all members of a process have come, it tells every
 * other process of the group, behind all that its ranks put there before, with what its
 * members bring along. Who has heard from all does what is to be done, for its own members;
 * all find the same. What gets a number (windows, groups) is told to be there in a second
 * round, so that nobody uses what another does not know yet.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/remote.h"

/* What a process tells. The payload follows. */
struct arrival_body {
    uint64_t args[4];
    uint32_t op;
    int32_t number; /* the leader's: of a window */
    char where[TP_WHERE];
};

struct tp_arrival {
    struct tp_list link;
    uint32_t process;
    int32_t group;
    uint32_t generation, phase;
    uint8_t *body; /* owned */
    size_t len;
};

struct tp_spread {
    struct tp_run *run;
    uint8_t *has; /* by process: members */
    uint32_t others; /* processes beside this one */
    _Atomic uint32_t *heard; /* by process: generation it came to last, plus 1 */
    /* The rest needs the role. */
    struct tp_arrival **came; /* by process, of this generation and phase */
    uint32_t came_count;
    bool here; /* this process's members have come */
    uint32_t generation, phase;
    tp_group_fn fn;
    struct tp_wish *wishes; /* of a split, between its rounds */
    int32_t *numbers; /* that this process gave to its groups */
};

/* What two rounds of a meeting need a body for; a lane's own until the role is there. */
struct meeting {
    struct tp_group *group;
    uint32_t generation;
    tp_group_fn fn;
};

uint32_t
tp_spread_processes(const struct tp_run *run)
{
    return run->remote != NULL ? run->remote->world->count : 1;
}

uint32_t
tp_spread_leader(const struct tp_run *run, const struct tp_group *group)
{
    return group->members[0] / run->params.ranks;
}

static uint32_t
own_process(const struct tp_run *run)
{
    return run->remote->world->process;
}

telpher_status
tp_spread_create(struct tp_run *run, struct tp_group *group)
{
    uint32_t count = tp_spread_processes(run);
    struct tp_spread *s = tp_zalloc(sizeof(*s), "group");

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
        s->has[tp_process_of(run, group->members[i])] = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        s->others += s->has[i] != 0 && i != own_process(run);
    }
    return TELPHER_OK;
}

static void
arrival_free(struct tp_arrival *a)
{
    if (a != NULL) {
        tp_list_remove(&a->link);
        tp_free(a->body);
        tp_free(a);
    }
}

void
tp_spread_destroy(struct tp_spread *s)
{
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; s->came != NULL && i < tp_spread_processes(s->run); i++) {
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
tp_spread_forget(struct tp_remote *r)
{
    tp_list_for_each_safe(link, &r->arrivals)
    {
        arrival_free(tp_list_entry(link, struct tp_arrival, link));
    }
}

/* ---- what members bring along ---- */

/* [bytes] of one member at a call. A broadcast's root alone brings something. */
static size_t
brings(const struct tp_group *group, uint32_t op, const uint64_t *args, uint32_t member)
{
    uint64_t size;

    switch (op) {
    case TP_OP_WIN_CREATE:
        return 2 * sizeof(uint64_t);
    case TP_OP_SPLIT:
        return 2 * sizeof(int32_t);
    case TP_OP_REDUCE:
        size = args[1] <= TP_FOLD_SMALL ? args[1] * tp_fold_size((int)(args[2] >> 16))
                                        : SIZE_MAX;
        return size <= TP_FOLD_SMALL ? (size_t)size : 0;
    case TP_OP_BROADCAST:
        return args[0] == member && args[1] <= TP_FOLD_SMALL ? (size_t)args[1] : 0;
    default:
        break;
    }
    (void)group;
    return 0;
}

static void
pack_member(const struct tp_slot *slot, uint8_t *to, size_t len)
{
    if (slot->op == TP_OP_WIN_CREATE) {
        const uint64_t part[2] = {(uintptr_t)slot->base, slot->len};

        memcpy(to, part, sizeof(part));
    } else if (slot->op == TP_OP_SPLIT) {
        memcpy(to, &slot->color, sizeof(slot->color));
        memcpy(to + sizeof(slot->color), &slot->key, sizeof(slot->key));
    } else if (len != 0) {
        memcpy(to, slot->fold.src, len);
    }
}

/* A member of another process, from what came. Of data it keeps where it lies. */
static void
unpack_member(struct tp_slot *slot, const uint8_t *from, size_t len)
{
    uint64_t part[2];

    if (slot->op == TP_OP_WIN_CREATE) {
        memcpy(part, from, sizeof(part));
        slot->base = (char *)(uintptr_t)part[0];
        slot->len = part[1];
    } else if (slot->op == TP_OP_SPLIT) {
        memcpy(&slot->color, from, sizeof(slot->color));
        memcpy(&slot->key, from + sizeof(slot->color), sizeof(slot->key));
    } else {
        slot->fold = (telpher_rma_fold){.src = len != 0 ? from : NULL,
                                        .count = slot->args[1],
                                        .root = (uint32_t)slot->args[0],
                                        .type = (uint16_t)(slot->args[2] >> 16),
                                        .op = (uint16_t)slot->args[2]};
    }
}

static bool
is_of(const struct tp_run *run, const struct tp_group *group, uint32_t member,
      uint32_t process)
{
    return tp_process_of(run, group->members[member]) == process;
}

/* ---- telling ---- */

static void
tell(struct tp_remote *r, const struct tp_group *group, uint32_t phase,
     const void *body, size_t len)
{
    const struct tp_spread *s = group->spread;
    telpher_rma_command c = {.op = TP_AGENT_ARRIVED,
                             .tag = phase,
                             .where = group->number,
                             .number = s->generation};

    for (uint32_t i = 0; i < r->world->count; i++) {
        if (s->has[i] != 0 && i != r->world->process) {
            tp_agent_send(r->world, i, &c, body, len);
        }
    }
}

static uint8_t *
pack_all(const struct tp_run *run, struct tp_group *group, const struct tp_slot *one,
         size_t *ret_len)
{
    uint32_t me = own_process(run);
    size_t len = sizeof(struct arrival_body), at = len;
    struct arrival_body body = {.op = one->op, .number = -1};
    uint8_t *whole;

    for (uint32_t i = 0; i < group->size; i++) {
        len += is_of(run, group, i, me) ? brings(group, one->op, one->args, i) : 0;
    }
    whole = tp_malloc(len, "arrival");
    if (whole == NULL) {
        return NULL;
    }
    memcpy(body.args, one->args, sizeof(body.args));
    snprintf(body.where, sizeof(body.where), "%s", one->where);
    if (one->op == TP_OP_WIN_CREATE &&
        tp_spread_leader(run, group) == me) { /* others take its number */
        body.number = tp_window_number(group->spread->run, group);
        group->result = body.number;
    }
    memcpy(whole, &body, sizeof(body));
    for (uint32_t i = 0; i < group->size; i++) {
        if (is_of(run, group, i, me)) {
            size_t size = brings(group, one->op, one->args, i);

            pack_member(&group->slots[i], whole + at, size);
            at += size;
        }
    }
    *ret_len = len;
    return whole;
}

/* ---- hearing ---- */

static bool
read_arrival(const struct tp_run *run, struct tp_group *group, struct tp_arrival *a)
{
    struct arrival_body *body = (struct arrival_body *)(void *)a->body;
    size_t at = sizeof(*body);

    if (a->len < sizeof(*body) || body->op > TP_OP_TIMER) {
        return false;
    }
    body->where[TP_WHERE - 1] = '\0';
    if (a->process == tp_spread_leader(run, group) && body->op == TP_OP_WIN_CREATE) {
        group->result = body->number < TP_WINDOWS_MAX ? body->number : -1;
    }
    for (uint32_t i = 0; i < group->size; i++) {
        struct tp_slot *slot = &group->slots[i];
        size_t size = is_of(run, group, i, a->process)
                          ? brings(group, body->op, body->args, i)
                          : 0;

        if (!is_of(run, group, i, a->process)) {
            continue;
        }
        if (size > a->len - at) {
            return false;
        }
        slot->op = (enum tp_op)body->op;
        slot->where = body->where;
        memcpy(slot->args, body->args, sizeof(slot->args));
        unpack_member(slot, a->body + at, size);
        at += size;
    }
    return at == a->len;
}

static bool
read_arrivals(struct tp_run *run, struct tp_group *group)
{
    const struct tp_spread *s = group->spread;

    for (uint32_t i = 0; i < tp_spread_processes(run); i++) {
        if (s->came[i] != NULL && !read_arrival(run, group, s->came[i])) {
            tp_run_fail(run, TELPHER_ERR_PROTO,
                        "process %u sent what cannot be: its part of %s", i,
                        group->name);
            return false;
        }
    }
    return true;
}

/* ---- splits ---- */

static void
fail_split(struct tp_run *run, struct tp_group *group, telpher_status status)
{
    group->status = status;
    tp_run_fail(run, status, "splitting %s at %s", group->name, group->slots[0].where);
}

static uint32_t
same_color(const struct tp_wish *list, uint32_t left)
{
    uint32_t n = 1;

    while (n < left && list[n].color == list[0].color) {
        n++;
    }
    return n;
}

static bool
leads(const struct tp_run *run, const struct tp_group *group,
      const struct tp_wish *wish, uint32_t process)
{
    return wish->color >= 0 && is_of(run, group, wish->position, process);
}

/* Numbers of those new groups whose first member is here. @return how many */
static uint32_t
number_groups(struct tp_run *run, struct tp_group *group, int32_t *numbers)
{
    const struct tp_wish *list = group->spread->wishes;
    uint32_t count = 0, me = own_process(run);

    for (uint32_t i = 0; i < group->size; i += same_color(&list[i], group->size - i)) {
        if (leads(run, group, &list[i], me)) {
            tp_mutex_lock(&run->table_lock);
            numbers[count++] = tp_group_next_number(run);
            tp_mutex_unlock(&run->table_lock);
        }
    }
    return count;
}

static void
begin_split(struct tp_remote *r, struct tp_group *group)
{
    struct tp_spread *s = group->spread;
    int32_t *numbers = tp_alloc_array(group->size, sizeof(*numbers), "split");
    uint32_t count = 0;

    s->wishes = tp_alloc_array(group->size, sizeof(*s->wishes), "split");
    if (s->wishes == NULL || numbers == NULL) {
        fail_split(r->run, group, TELPHER_ERR_NO_MEMORY);
    } else {
        tp_split_sort(group, s->wishes);
        count = number_groups(r->run, group, numbers);
        s->numbers = tp_memdup(numbers, count * sizeof(*numbers) + 1, "split");
    }
    tell(r, group, 1, numbers, count * sizeof(*numbers));
    tp_free(numbers);
}

/* The next number that a process gave, or -1. */
static int32_t
next_number(const struct tp_spread *s, uint32_t process, uint32_t *at, uint32_t me)
{
    const struct tp_arrival *a = s->came[process];
    int32_t number = -1;

    if (process == me) {
        return s->numbers != NULL ? s->numbers[(*at)++] : -1;
    }
    if (a != NULL && (*at + 1) * sizeof(number) <= a->len) {
        memcpy(&number, a->body + *at * sizeof(number), sizeof(number));
        (*at)++;
    }
    return number < TP_GROUPS_MAX ? number : -1;
}

/* Makes those groups that have a member here. */
static telpher_status
make_groups(struct tp_run *run, struct tp_group *group, uint32_t *ranks, uint32_t *ats)
{
    const struct tp_spread *s = group->spread;
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0, n; i < group->size && status == TELPHER_OK; i += n) {
        const struct tp_wish *list = &s->wishes[i];
        uint32_t process = tp_process_of(run, group->members[list[0].position]);
        int32_t number = -1;
        bool here = false;

        n = same_color(list, group->size - i);
        for (uint32_t k = 0; k < n; k++) {
            here = here || is_of(run, group, list[k].position, own_process(run));
        }
        if (list[0].color >= 0) {
            number = next_number(s, process, &ats[process], own_process(run));
        }
        if (here && list[0].color >= 0 && number < 0) {
            status = TELPHER_ERR_LIMIT;
        } else if (here) {
            status = tp_split_one(run, group, list, group->size - i, ranks, number, &n);
        }
    }
    return status;
}

static void
end_split(struct tp_run *run, struct tp_group *group)
{
    struct tp_spread *s = group->spread;
    uint32_t *ranks = tp_alloc_array(group->size, sizeof(*ranks), "split");
    uint32_t *ats = tp_alloc_array(tp_spread_processes(run), sizeof(*ats), "split");
    telpher_status status = ranks != NULL && ats != NULL && s->wishes != NULL
                                ? make_groups(run, group, ranks, ats)
                                : TELPHER_ERR_NO_MEMORY;

    if (status != TELPHER_OK) {
        fail_split(run, group, status);
    }
    tp_free(ranks);
    tp_free(ats);
    tp_free(s->wishes);
    tp_free(s->numbers);
    s->wishes = NULL;
    s->numbers = NULL;
}

/* ---- meeting ---- */

static void look(struct tp_remote *r, struct tp_group *group);

/* Slots of others point into what came. */
static void
forget_came(struct tp_spread *s, struct tp_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if (!is_of(s->run, group, i, own_process(s->run))) {
            group->slots[i].where = "another process";
            group->slots[i].fold.src = NULL;
        }
    }
    for (uint32_t i = 0; i < tp_spread_processes(s->run); i++) {
        arrival_free(s->came[i]);
        s->came[i] = NULL;
    }
    s->came_count = 0;
}

/* All have come. @return true if a second round follows */
static bool
first_round(struct tp_remote *r, struct tp_group *group)
{
    struct tp_spread *s = group->spread;
    enum tp_op op;
    uint32_t other;

    group->status = TELPHER_OK;
    if (!read_arrivals(r->run, group)) {
        group->status = TELPHER_ERR_PROTO;
        return false;
    }
    if (!tp_group_agrees(group, &other)) {
        group->status = TELPHER_ERR_INVALID;
        tp_group_refuse(r->run, group, other);
        return false;
    }
    op = group->slots[0].op;
    if (op != TP_OP_SPLIT && s->fn != NULL) {
        s->fn(r->run, group);
    }
    return op == TP_OP_SPLIT || op == TP_OP_WIN_CREATE;
}

static void
finish(struct tp_remote *r, struct tp_group *group)
{
    struct tp_spread *s = group->spread;

    if (s->phase == 0 && first_round(r, group)) {
        forget_came(s, group);
        s->phase = 1;
        if (group->slots[0].op == TP_OP_SPLIT) {
            begin_split(r, group);
        } else {
            tell(r, group, 1, NULL, 0);
        }
        look(r, group);
        return;
    }
    if (s->phase == 1 && group->slots[0].op == TP_OP_SPLIT) {
        end_split(r->run, group);
    }
    forget_came(s, group);
    s->phase = 0;
    s->here = false;
    tp_group_let_go(r->run, group, s->generation, NULL);
}

/* Takes what belongs to this round, and ends it if that was all. */
static void
look(struct tp_remote *r, struct tp_group *group)
{
    struct tp_spread *s = group->spread;

    if (!s->here) {
        return;
    }
    tp_list_for_each_safe(link, &r->arrivals)
    {
        struct tp_arrival *a = tp_list_entry(link, struct tp_arrival, link);

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
tp_spread_post(struct tp_remote *r, const telpher_rma_command *c)
{
    struct meeting *m = (struct meeting *)(uintptr_t)c->local;
    struct tp_group *group = m->group;
    struct tp_spread *s = group->spread;
    const struct tp_slot *one = tp_group_slot(&r->run->ranks[c->from], group);
    size_t len = 0;
    uint8_t *body;

    s->generation = m->generation;
    s->fn = m->fn;
    s->phase = 0;
    tp_free(m);
    body = pack_all(r->run, group, one, &len);
    if (body == NULL) {
        tp_run_fail(r->run, TELPHER_ERR_NO_MEMORY, "no memory to tell of %s",
                    group->name);
        return;
    }
    s->here = true;
    tell(r, group, 0, body, len);
    tp_free(body);
    look(r, group);
}

void
tp_spread_arrived(struct tp_remote *r, uint32_t process, const telpher_rma_command *c,
                  void *body, size_t len)
{
    struct tp_arrival *a = tp_zalloc(sizeof(*a), "arrival");
    struct tp_group *group = NULL;

    if (a == NULL || (body == NULL && len != 0) || c->where < 0 ||
        c->where >= TP_GROUPS_MAX) {
        tp_run_fail(r->run, a == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_PROTO,
                    "a meeting that process %u told of", process);
        tp_free(a);
        tp_free(body);
        return;
    }
    *a = (struct tp_arrival){.process = process,
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

/* Members of this process that came for something else are told so at once. */
static bool
agree_here(struct tp_run *run, const struct tp_group *group)
{
    uint32_t first = TELPHER_RMA_NO_RANK;

    for (uint32_t i = 0; i < group->size; i++) {
        const struct tp_slot *a, *b = &group->slots[i];

        if (!is_of(run, group, i, own_process(run))) {
            continue;
        }
        first = first == TELPHER_RMA_NO_RANK ? i : first;
        a = &group->slots[first];
        if (a->op != b->op || memcmp(a->args, b->args, sizeof(a->args)) != 0) {
            tp_run_fail(run, TELPHER_ERR_INVALID,
                        "ranks of %s do not do the same: rank %u %s at %s, rank %u %s "
                        "at %s%s",
                        group->name, group->members[first], tp_op_name(a->op), a->where,
                        group->members[i], tp_op_name(b->op), b->where,
                        a->op == b->op ? " with other arguments" : "");
            return false;
        }
    }
    return true;
}

void
tp_spread_meet(struct tp_lane *lane, struct tp_group *group, uint32_t generation,
               tp_group_fn fn)
{
    struct tp_run *run = lane->rank->run;
    const struct tp_slot *slot = tp_group_slot(lane->rank, group);
    const struct tp_call call = {slot->op, slot->where, {0}, NULL};
    struct meeting *m;
    telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_MEET,
                             .from = lane->rank->index,
                             .to = lane->rank->index,
                             .where = group->number};

    if (!agree_here(run, group)) {
        return;
    }
    m = tp_malloc(sizeof(*m), "meeting");
    if (m == NULL) {
        tp_run_fail(run, TELPHER_ERR_NO_MEMORY, "no memory to tell of %s", group->name);
        return;
    }
    *m = (struct meeting){group, generation, fn};
    c.local = (uintptr_t)m;
    if (tp_remote_post(lane, &call, &c) != TELPHER_OK) {
        tp_free(m);
    }
}

/* ---- reports ---- */

void
tp_spread_print_missing(FILE *out, const struct tp_run *run,
                        const struct tp_group *group, uint32_t generation)
{
    const struct tp_spread *s = group->spread;
    const char *between = ", without process";

    for (uint32_t i = 0; i < tp_spread_processes(run); i++) {
        if (i != own_process(run) && s->has[i] != 0 &&
            (int32_t)(atomic_load(&s->heard[i]) - (generation + 1)) < 0) {
            fprintf(out, "%s %u", between, i);
            between = ",";
        }
    }
}
