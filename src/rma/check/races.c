/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races: accesses of the same bytes, one of them a write, that nothing puts in order. Every
 * rank has a vector clock; a notification carries the sender's to its receiver, a call of a
 * group everybody's to everybody. The lanes of a rank are in order from one barrier of
 * theirs to the next, so a rank's own entry counts those barriers. All ranks run on one
 * thread, so nothing here is locked.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/container/map.h"
#include "base/trace/log.h"
#include "rma/rma_int.h"

enum {
    CELLS = 4, /* accesses remembered of 8 bytes */
    PAGE = 4096,
    SHOWN_MAX = 8, /* races that the report describes */
    PAIRS_MAX = 256, /* different races */
    ALL_LANES = 0xffff
};

struct access {
    const char *text; /* place in the source, if a call did it; else code */
    const void *code;
    const char *last_call; /* of the rank before the access */
    uint32_t epoch;
    uint16_t rank, lane;
    uint8_t mask; /* of the 8 bytes */
    bool write, atomic;
};

struct page {
    struct access cells[PAGE / 8][CELLS];
};

/* The sender's vector clock of a notification not yet taken. */
struct sent {
    struct sent *next;
    uint32_t clock[];
};

struct queue {
    struct sent *first, *last;
};

struct pair {
    const void *a, *b;
};

struct tp_rma_races {
    struct tp_rma_run *run;
    uint32_t ranks;
    uint32_t *clocks; /* ranks x ranks */
    struct tp_map pages, sent, met, atomics; /* of addresses, tags, groups, addresses */
    struct pair pairs[PAIRS_MAX];
    uint32_t pair_count;
    uint32_t turn; /* the cell to forget next */
    bool full; /* memory exhausted: later accesses are not checked */
    char *text;
    size_t text_size;
    FILE *out;
};

static uint32_t *
clock_of(struct tp_rma_races *races, uint32_t rank)
{
    return races->clocks + (size_t)rank * races->ranks;
}

static void
join(struct tp_rma_races *races, uint32_t *into, const uint32_t *from)
{
    for (uint32_t i = 0; i < races->ranks; i++) {
        into[i] = TP_MAX(into[i], from[i]);
    }
}

static void
stop_history(struct tp_rma_races *races)
{
    if (!races->full) {
        races->full = true;
        tp_warn("rma", "out of memory for the history of accesses: later ones are not "
                       "checked for races");
    }
}

/* The thing of @p map at @p key, made of 0 bytes when it is not there; NULL: no memory. */
static void *
find_or_make(struct tp_rma_races *races, struct tp_map *map, uint64_t key, size_t size)
{
    void *found = tp_map_get(map, key);

    if (found == NULL && !races->full) {
        found = tp_zalloc(size, "races");
        if (found == NULL || tp_map_put(map, key, found) != TELPHER_OK) {
            tp_free(found);
            found = NULL;
            stop_history(races);
        }
    }
    return found;
}

/* ---- order ---- */

void
tp_rma_races_sync(struct tp_rma_rank *rank)
{
    struct tp_rma_races *races = rank->run->races;

    if (races != NULL) {
        clock_of(races, rank->index)[rank->index]++;
    }
}

/* A rank that takes @p clock knows all accesses of this rank until now. */
static void
publish(struct tp_rma_races *races, struct tp_rma_rank *rank, uint32_t *clock)
{
    if (clock != NULL) {
        join(races, clock, clock_of(races, rank->index));
    }
    tp_rma_races_sync(rank);
}

void
tp_rma_races_send(struct tp_rma_rank *from, struct tp_rma_rank *to, uint32_t tag)
{
    struct tp_rma_races *races = from->run->races;
    struct queue *queue;
    struct sent *sent;

    if (races == NULL) {
        return;
    }
    queue = find_or_make(races, &races->sent, (uint64_t)to->index << 32 | tag,
                         sizeof(*queue));
    sent = queue != NULL
               ? tp_zalloc(sizeof(*sent) + races->ranks * sizeof(uint32_t), "races")
               : NULL;
    if (sent == NULL) {
        stop_history(races);
        return;
    }
    publish(races, from, sent->clock);
    if (queue->first == NULL) {
        queue->first = sent;
    } else {
        queue->last->next = sent;
    }
    queue->last = sent;
}

/* The first ones are taken; of later ones nothing is known. */
void
tp_rma_races_take(struct tp_rma_rank *rank, uint32_t tag, uint32_t count)
{
    struct tp_rma_races *races = rank->run->races;
    struct queue *queue =
        races != NULL ? tp_map_get(&races->sent, (uint64_t)rank->index << 32 | tag)
                      : NULL;

    for (; queue != NULL && queue->first != NULL && count > 0; count--) {
        struct sent *sent = queue->first;

        join(races, clock_of(races, rank->index), sent->clock);
        queue->first = sent->next;
        tp_free(sent);
    }
}

/* Two clocks per group, used in turn: a rank that leaves a barrier late must not
 * read the clocks of the next one. */
static uint32_t *
group_clock(struct tp_rma_races *races, struct tp_rma_group *group, uint32_t generation)
{
    uint32_t *clocks = find_or_make(races, &races->met, (uintptr_t)group,
                                    (size_t)2 * races->ranks * sizeof(uint32_t));

    return clocks != NULL ? clocks + (size_t)(generation % 2) * races->ranks : NULL;
}

void
tp_rma_races_arrive(struct tp_rma_rank *rank, struct tp_rma_group *group)
{
    struct tp_rma_races *races = rank->run->races;

    if (races != NULL) {
        publish(races, rank,
                group_clock(races, group, atomic_load(&group->generation)));
    }
}

void
tp_rma_races_leave(struct tp_rma_rank *rank, struct tp_rma_group *group,
                   uint32_t generation)
{
    struct tp_rma_races *races = rank->run->races;
    uint32_t *clock = races != NULL ? group_clock(races, group, generation) : NULL;

    if (clock != NULL) {
        join(races, clock_of(races, rank->index), clock);
    }
}

/* ---- accesses ---- */

static void
print_code(FILE *out, const struct access *a)
{
    Dl_info info;

    if (a->text != NULL) {
        fprintf(out, "%s", a->text);
        return;
    }
    if (dladdr(a->code, &info) != 0 && info.dli_fname != NULL) {
        const char *file = strrchr(info.dli_fname, '/');

        fprintf(out, "%s%s%s+0x%zx", info.dli_sname != NULL ? info.dli_sname : "",
                info.dli_sname != NULL ? " in " : "",
                file != NULL ? file + 1 : info.dli_fname,
                (size_t)((const char *)a->code - (const char *)info.dli_fbase));
    } else {
        fprintf(out, "%p", a->code);
    }
    if (a->last_call != NULL) {
        fprintf(out, ", after %s", a->last_call);
    }
}

static void
print_access(FILE *out, const struct access *a)
{
    fprintf(out, "rank %u", a->rank);
    if (a->lane != ALL_LANES) {
        fprintf(out, " lane %u", a->lane);
    }
    fprintf(out, " %s (", a->write ? "writes" : "reads");
    print_code(out, a);
    fprintf(out, ")");
}

static const void *
place_of(const struct access *a)
{
    return a->text != NULL ? a->text : a->code;
}

/* True if these two places were not seen against each other before. */
static bool
is_new(struct tp_rma_races *races, const void *a, const void *b)
{
    for (uint32_t i = 0; i < races->pair_count; i++) {
        const struct pair *p = &races->pairs[i];

        if ((p->a == a && p->b == b) || (p->a == b && p->b == a)) {
            return false;
        }
    }
    if (races->pair_count == PAIRS_MAX) {
        return false;
    }
    races->pairs[races->pair_count++] = (struct pair){a, b};
    return true;
}

static void
report(struct tp_rma_races *races, uintptr_t at, const struct access *old,
       const struct access *new)
{
    if (!is_new(races, place_of(old), place_of(new)) || races->out == NULL ||
        races->pair_count > SHOWN_MAX) {
        return;
    }
    fprintf(races->out, "\nat %p: ", (void *)at);
    print_access(races->out, old);
    fprintf(races->out, "; ");
    print_access(races->out, new);
}

static bool
in_order(struct tp_rma_races *races, const struct access *old, const struct access *new)
{
    if (old->rank == new->rank) {
        return old->lane == new->lane || old->epoch != new->epoch;
    }
    return clock_of(races, new->rank)[old->rank] >= old->epoch;
}

static void
remember(struct tp_rma_races *races, struct access cells[CELLS],
         const struct access *new)
{
    struct access *place = NULL;

    for (int i = 0; i < CELLS; i++) {
        struct access *c = &cells[i];

        if (c->mask == 0 || (c->rank == new->rank && c->lane == new->lane &&
                             c->mask == new->mask && (new->write || !c->write))) {
            *c = *new;
            return;
        }
        if (in_order(races, c, new) && (new->write || !c->write) &&
            (c->mask & ~new->mask) == 0) {
            place = c; /* later accesses are compared with the new one */
        }
    }
    *(place != NULL ? place : &cells[races->turn++ % CELLS]) = *new;
}

static void
look_at(struct tp_rma_races *races, uintptr_t at, struct access *new)
{
    struct page *page;
    struct access *cells;

    if (atomic_load_explicit(&races->run->status, memory_order_relaxed) != TELPHER_OK) {
        return; /* the run has failed: waits return without order */
    }
    page = find_or_make(races, &races->pages, at / PAGE, sizeof(*page));
    if (page == NULL || races->full) { /* an order that was lost is no race */
        return;
    }
    cells = page->cells[at % PAGE / 8];
    for (int i = 0; i < CELLS; i++) {
        if ((cells[i].mask & new->mask) != 0 && (cells[i].write || new->write) &&
            !(cells[i].atomic && new->atomic) && !in_order(races, &cells[i], new)) {
            report(races, at, &cells[i], new);
        }
    }
    remember(races, cells, new);
}

static void
look_at_range(struct tp_rma_races *races, const void *at, size_t len,
              struct access *new)
{
    uintptr_t first = (uintptr_t)at, end = first + len;

    for (uintptr_t p = first & ~(uintptr_t)7; p < end; p += 8) {
        unsigned low = p < first ? (unsigned)(first - p) : 0;
        unsigned high = end - p < 8 ? (unsigned)(end - p) : 8;

        new->mask = (uint8_t)((0xffu << low) & (0xffu >> (8 - high)));
        look_at(races, p, new);
    }
}

void
tp_rma_races_access(struct tp_rma_rank *rank, const void *at, size_t len, bool write,
                    const char *where)
{
    struct tp_rma_races *races = rank->run->races;

    if (races != NULL) {
        struct access new = {.text = where,
                             .epoch = clock_of(races, rank->index)[rank->index],
                             .rank = (uint16_t)rank->index,
                             .lane = ALL_LANES,
                             .write = write};

        look_at_range(races, at, len, &new);
    }
}

/* An atomic access is an order of its own: it takes what others left there, and leaves its. */
static void
order_by_atomic(struct tp_rma_races *races, struct tp_rma_rank *rank, const void *at)
{
    uint32_t *clock = find_or_make(races, &races->atomics, (uintptr_t)at,
                                   races->ranks * sizeof(uint32_t));

    if (clock != NULL) {
        join(races, clock_of(races, rank->index), clock);
        publish(races, rank, clock);
    }
}

static atomic_bool has_hooks; /* libtelpher-rma-check.a is in this program */

telpher_status
tp_rma_races_check_kernel(const telpher_rma_kernel *kernel, char *text, size_t size)
{
    if (kernel->flags == TELPHER_RMA_KERNEL_PLAIN) {
        snprintf(
            text, size,
            "check for races: kernel %s was compiled without -fsanitize=thread, so "
            "its accesses would not be seen; compile it with that option, and link "
            "with -ltelpher-rma-check and without the option",
            kernel->name);
        return TELPHER_ERR_UNSUPPORTED;
    }
    if (!atomic_load(&has_hooks)) {
        snprintf(text, size,
                 "check for races: the accesses of kernel %s would not be seen; link "
                 "with -ltelpher-rma-check and without -fsanitize=thread, with which "
                 "kernels are compiled",
                 kernel->name);
        return TELPHER_ERR_UNSUPPORTED;
    }
    return TELPHER_OK;
}

void
telpher_rma_seen(const void *at, size_t len, int write, int atomic, const void *code)
{
    struct tp_rma_lane *lane = (struct tp_rma_lane *)(void *)telpher_rma_here();
    struct tp_rma_races *races = lane != NULL ? lane->rank->run->races : NULL;

    if (at == NULL && len == 0) {
        atomic_store(&has_hooks, true);
    } else if (races != NULL && !tp_fiber_owns(&lane->fiber, at)) {
        struct tp_rma_rank *rank = lane->rank;
        struct access new = {
            .code = code,
            .last_call = atomic_load_explicit(&rank->last, memory_order_relaxed),
            .epoch = clock_of(races, rank->index)[rank->index],
            .rank = (uint16_t)rank->index,
            .lane = (uint16_t)lane->api.lane,
            .write = write != 0,
            .atomic = atomic != 0};

        look_at_range(races, at, len, &new);
        if (atomic) {
            order_by_atomic(races, rank, at);
        }
    }
}

/* ---- life ---- */

static void
free_sent(struct tp_map *map)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(map, &cursor, NULL, &value)) {
        struct queue *queue = value;

        while (queue->first != NULL) {
            struct sent *next = queue->first->next;

            tp_free(queue->first);
            queue->first = next;
        }
    }
}

static void
free_all(struct tp_map *map)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(map, &cursor, NULL, &value)) {
        tp_free(value);
    }
    tp_map_fini(map);
}

void
tp_rma_races_destroy(struct tp_rma_races *races)
{
    if (races == NULL) {
        return;
    }
    free_all(&races->pages);
    free_sent(&races->sent);
    free_all(&races->sent);
    free_all(&races->met);
    free_all(&races->atomics);
    tp_free(races->clocks);
    if (races->out != NULL) {
        fclose(races->out);
    }
    free(races->text);
    tp_free(races);
}

telpher_status
tp_rma_races_create(struct tp_rma_run *run)
{
    struct tp_rma_races *races;

    if ((run->params.check & TELPHER_RMA_CHECK_RACES) == 0) {
        return TELPHER_OK;
    }
    races = tp_zalloc(sizeof(*races), "races");
    run->races = races;
    if (races == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    races->run = run;
    races->ranks = run->world;
    races->clocks =
        tp_alloc_array((size_t)races->ranks * races->ranks, sizeof(uint32_t), "races");
    races->out = open_memstream(&races->text, &races->text_size);
    if (races->clocks == NULL || races->out == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < races->ranks; i++) {
        clock_of(races, i)[i] = 1; /* a rank has not synchronised with others' first
                                    * accesses */
    }
    return TELPHER_OK;
}

void
tp_rma_races_finish(struct tp_rma_run *run)
{
    struct tp_rma_races *races = run->races;
    const char *more, *pairs;
    char *text;

    if (races == NULL || races->pair_count == 0 || races->out == NULL) {
        return;
    }
    fflush(races->out);
    more = races->pair_count == PAIRS_MAX ? " or more" : "";
    pairs = races->text != NULL ? races->text : "";
    if (asprintf(&text, "%u%s pairs of accesses that nothing puts in order%s",
                 races->pair_count, more, pairs) < 0) {
        text = NULL; /* a run with races fails with less text, too */
    }
    if (atomic_load(&run->status) == TELPHER_OK) {
        tp_rma_run_fail(run, TELPHER_ERR_RACE, "%s",
                        text != NULL ? text : "accesses that nothing puts in order");
    } else if (text != NULL) { /* perhaps the reason why it failed */
        tp_rma_log_report(text);
        tp_rma_report_append(run, "%s\n", text);
    }
    free(text);
}
