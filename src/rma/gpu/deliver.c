/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries to ranks on a GPU: lines of one ring, in order of arrival. A block of the
 * grid reads them, so a full ring drains independently of the ranks.
 */
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/gpu/link_int.h"
#include "rma/processes/remote.h"

/* A command that arrived before the grid was started. */
struct tp_rma_early {
    telpher_rma_command c;
    size_t len;
    uint8_t beside[TELPHER_RMA_BESIDE];
};

static bool
is_full(const struct tp_rma_link *l)
{
    return (uint32_t)l->pushed - __atomic_load_n(&l->shared->taken, __ATOMIC_ACQUIRE) >=
           TELPHER_RMA_DELIVERIES;
}

static bool
wait_for_place(struct tp_rma_link *l)
{
    while (is_full(l)) {
        if (atomic_load(&l->over)) {
            return false;
        }
        sched_yield();
    }
    return true;
}

/* The lock is held, and there is room. */
static void
write_line(struct tp_rma_link *l, const telpher_rma_command *c, const void *beside,
           size_t len)
{
    uint64_t round = telpher_rma_link_round(l->pushed, TELPHER_RMA_DELIVERIES);
    uint32_t place = (uint32_t)(l->pushed % TELPHER_RMA_DELIVERIES);
    telpher_rma_words words = telpher_rma_link_pack(c);

    if (len != 0) {
        memcpy(l->shared->beside[place], beside, len);
    }
    for (int i = 0; i < 8; i++) { /* release: behind what lies beside */
        __atomic_store_n(&l->shared->lines[place].words[i],
                         round << 32 | words.words[i], __ATOMIC_RELEASE);
    }
    l->pushed++;
}

/* Keeps a command until the grid runs; senders' credits bound how many. */
static void
keep(struct tp_rma_link *l, const telpher_rma_command *c, const void *beside,
     size_t len)
{
    struct tp_rma_early *e;

    if (l->early_count == l->early_room) {
        size_t room = 2 * l->early_room + 64;
        struct tp_rma_early *more =
            tp_realloc_array(l->early, room, sizeof(*more), "early");

        if (more == NULL) {
            tp_rma_run_fail(
                l->run, TELPHER_ERR_NO_MEMORY,
                "out of memory for %zu commands that arrived before the kernel began",
                room);
            return;
        }
        l->early = more;
        l->early_room = room;
    }
    e = &l->early[l->early_count++];
    e->c = *c;
    e->len = len;
    if (len != 0) {
        memcpy(e->beside, beside, len);
    }
}

void
tp_rma_link_push_early(struct tp_rma_link *l)
{
    tp_mutex_lock(&l->push);
    l->runs = true;
    for (size_t i = 0; i < l->early_count && wait_for_place(l); i++) {
        write_line(l, &l->early[i].c, l->early[i].beside, l->early[i].len);
    }
    l->early_count = 0;
    tp_mutex_unlock(&l->push);
}

void
tp_rma_link_push(struct tp_rma_link *l, const telpher_rma_command *c,
                 const void *beside, size_t len)
{
    if (l->shared == NULL) {
        return; /* refused here, so a correct sender sends nothing */
    }
    tp_mutex_lock(&l->push);
    if (!l->runs && (l->early_count != 0 || is_full(l))) {
        keep(l, c, beside, len);
    } else if (wait_for_place(l)) {
        write_line(l, c, beside, len);
    }
    tp_mutex_unlock(&l->push);
}

/* ---- what comes from others ---- */

void
tp_rma_link_put(struct tp_rma_run *run, const void *at, const void *data, size_t len,
                const telpher_rma_command *c)
{
    telpher_rma_command d = {.op = TELPHER_RMA_DELIVER_DATA,
                             .flags = c->flags & TELPHER_RMA_COMMAND_NOTIFIES,
                             .tag = c->tag,
                             .to = c->to,
                             .where = (int32_t)c->from,
                             .off = (uintptr_t)at,
                             .len = len};

    if (len > sizeof(d.local)) {
        d.flags |= TELPHER_RMA_LINK_IS_BESIDE;
        tp_rma_link_push(run->link, &d, data, TP_MIN(len, (size_t)TELPHER_RMA_BESIDE));
    } else {
        memcpy(&d.local, data, len);
        tp_rma_link_push(run->link, &d, NULL, 0);
    }
}

void
tp_rma_link_notify(struct tp_rma_run *run, const telpher_rma_command *c)
{
    const telpher_rma_command d = {.op = TELPHER_RMA_DELIVER_NOTIFY,
                                   .tag = c->tag,
                                   .to = c->to,
                                   .where = (int32_t)c->from};

    tp_rma_link_push(run->link, &d, NULL, 0);
}

void
tp_rma_link_gone(struct tp_rma_run *run, uint32_t rank)
{
    const telpher_rma_command d = {.op = TELPHER_RMA_DELIVER_GONE,
                                   .where = (int32_t)rank};

    tp_rma_link_push(run->link, &d, NULL, 0);
}

void
tp_rma_link_drain(struct tp_rma_run *run)
{
    struct tp_rma_link *l = run->link;
    uint32_t pushed;
    bool runs;

    tp_mutex_lock(&l->push);
    pushed = (uint32_t)l->pushed;
    runs = l->runs; /* otherwise no rank has a window yet, so nothing was put */
    tp_mutex_unlock(&l->push);
    while (runs &&
           (int32_t)(pushed - __atomic_load_n(&l->shared->taken, __ATOMIC_ACQUIRE)) >
               0 &&
           !atomic_load(&l->over)) {
        sched_yield();
    }
}

/* ---- groups ---- */

/* The first number that a split's group has. */
static int32_t
first_split(const struct tp_rma_run *run)
{
    int32_t count = (int32_t)run->remote->world->count;

    return ((int32_t)run->device_count / count + 1) * count;
}

telpher_rma_comm
tp_rma_link_comm(const struct tp_rma_run *run, telpher_rma_comm own)
{
    return own <= 0 ? own : own - 1 - first_split(run) + TP_RMA_LINK_GROUPS + 1;
}

telpher_rma_comm
tp_rma_link_own_comm(const struct tp_rma_run *run, telpher_rma_comm comm)
{
    return comm <= TP_RMA_LINK_GROUPS
               ? (comm == 0 ? 0 : TELPHER_RMA_COMM_NONE)
               : comm - 1 - TP_RMA_LINK_GROUPS + first_split(run) + 1;
}

/* A group's index with the kernel. */
static int32_t
index_of(const struct tp_rma_run *run, const struct tp_rma_group *group)
{
    return group->number == 0 ? 0 : tp_rma_link_comm(run, group->number + 1) - 1;
}

void
tp_rma_link_group(struct tp_rma_run *run, const struct tp_rma_group *group)
{
    const int32_t index = index_of(run, group);
    const size_t bytes = group->size * sizeof(*group->members);
    telpher_rma_command d = {.op = TELPHER_RMA_DELIVER_MEMBERS, .where = index};

    if (index < TP_RMA_LINK_GROUPS || index >= 2 * TP_RMA_LINK_GROUPS) {
        tp_rma_run_fail(run, TELPHER_ERR_LIMIT,
                        "too many groups that span all processes: a kernel on a GPU "
                        "has room for %d",
                        (int)TP_RMA_LINK_GROUPS);
        return;
    }
    for (; d.off < bytes; d.off += d.len) {
        d.len = TP_MIN(bytes - d.off, (uint64_t)TELPHER_RMA_BESIDE);
        tp_rma_link_push(run->link, &d, (const uint8_t *)group->members + d.off, d.len);
    }
    d = (telpher_rma_command){
        .op = TELPHER_RMA_DELIVER_GROUP, .where = index, .off = group->size};
    tp_rma_link_push(run->link, &d, NULL, 0);
}

/* ---- windows ---- */

/* A part's address as this process's GPUs reach it, and its length. If they cannot, the address
 * modulo 8, by which a GPU tells how it is aligned. */
static void
find_part(const struct tp_rma_run *run, const struct tp_rma_window *window, uint32_t i,
          uint64_t ret_part[2])
{
    const struct tp_rma_part *part = &window->parts[i];
    const uint32_t process = window->group->members[i] / run->params.ranks;
    const telpher_rma_grid *grid = &run->link->grid;
    const uint64_t base = (uintptr_t)part->base;
    const uint64_t reached = process == run->link->api.process ? base
                             : grid->reach != NULL && part->len != 0
                                 ? grid->reach(grid->user, process, base, part->len)
                                 : 0;

    ret_part[0] = reached != 0 ? reached : base % 8;
    ret_part[1] = part->len;
}

void
tp_rma_link_window(struct tp_rma_run *run, const struct tp_rma_window *window,
                   int32_t number)
{
    enum { AT_ONCE = TELPHER_RMA_BESIDE / 16 };
    uint64_t parts[AT_ONCE][2];
    telpher_rma_command d = {.op = TELPHER_RMA_DELIVER_PARTS, .where = number};
    const uint32_t size = window->group->size;

    if (number >= TP_RMA_LINK_WINDOWS) {
        tp_rma_run_fail(run, TELPHER_ERR_LIMIT,
                        "a kernel on a GPU has room for %d windows over all processes",
                        (int)TP_RMA_LINK_WINDOWS);
        return;
    }
    for (uint32_t i = 0, n; i < size; i += n) {
        n = TP_MIN(size - i, (uint32_t)AT_ONCE);
        for (uint32_t k = 0; k < n; k++) {
            find_part(run, window, i + k, parts[k]);
        }
        d.off = (uint64_t)i * sizeof(parts[0]);
        d.len = n * sizeof(parts[0]);
        tp_rma_link_push(run->link, &d, parts, d.len);
    }
    d = (telpher_rma_command){.op = TELPHER_RMA_DELIVER_WINDOW,
                              .where = number,
                              .to = (uint32_t)index_of(run, window->group),
                              .off = 1};
    tp_rma_link_push(run->link, &d, NULL, 0);
}

void
tp_rma_link_close(struct tp_rma_run *run, const struct tp_rma_window *window,
                  int32_t number)
{
    const telpher_rma_command d = {.op = TELPHER_RMA_DELIVER_WINDOW,
                                   .where = number,
                                   .to = (uint32_t)index_of(run, window->group)};

    tp_rma_link_push(run->link, &d, NULL, 0);
}
