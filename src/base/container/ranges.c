/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of equal values in a sorted array: found by binary search, split and joined by changes. */
#include "base/container/ranges.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

telpher_status
tp_ranges_init(struct tp_ranges *r, uint64_t size, uint64_t value)
{
    *r = (struct tp_ranges){.size = size};
    if (tp_ranges_reserve(r, 1) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    r->runs[0] = (struct tp_range){0, value};
    r->count = 1;
    return TELPHER_OK;
}

void
tp_ranges_fini(struct tp_ranges *r)
{
    tp_free(r->runs);
    *r = (struct tp_ranges){0};
}

telpher_status
tp_ranges_reserve(struct tp_ranges *r, size_t changes)
{
    size_t need = r->count + 2 * changes, room = TP_MAX(need, 2 * r->room);
    struct tp_range *runs;

    if (need <= r->room) {
        return TELPHER_OK;
    }
    runs = tp_realloc_array(r->runs, room, sizeof(*runs), "ranges");
    if (runs == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    r->runs = runs;
    r->room = room;
    return TELPHER_OK;
}

/* The run that contains @p at. */
static size_t
find_run(const struct tp_ranges *r, uint64_t at)
{
    size_t low = 0, high = r->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (r->runs[middle].start <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t
end_of(const struct tp_ranges *r, size_t i)
{
    return i + 1 < r->count ? r->runs[i + 1].start : r->size;
}

uint64_t
tp_ranges_at(const struct tp_ranges *r, uint64_t at, uint64_t *ret_end)
{
    size_t i = find_run(r, at);

    tp_assert(at < r->size);
    *ret_end = end_of(r, i);
    return r->runs[i].value;
}

/* Cuts a run in two, unless it begins at @p at. @return the run that begins there */
static size_t
cut_run(struct tp_ranges *r, uint64_t at)
{
    size_t i;

    if (at == r->size) {
        return r->count;
    }
    i = find_run(r, at);
    if (r->runs[i].start == at) {
        return i;
    }
    tp_assert(r->count < r->room);
    memmove(&r->runs[i + 2], &r->runs[i + 1], (r->count - i - 1) * sizeof(*r->runs));
    r->runs[i + 1] = (struct tp_range){at, r->runs[i].value};
    r->count++;
    return i + 1;
}

/* Joins neighbours of one value among the runs first .. last. */
static void
join_runs(struct tp_ranges *r, size_t first, size_t last)
{
    size_t to = first;

    for (size_t i = first + 1; i <= last; i++) {
        if (r->runs[i].value != r->runs[to].value) {
            r->runs[++to] = r->runs[i];
        }
    }
    memmove(&r->runs[to + 1], &r->runs[last + 1],
            (r->count - last - 1) * sizeof(*r->runs));
    r->count -= last - to;
}

void
tp_ranges_change(struct tp_ranges *r, uint64_t from, uint64_t to, uint64_t keep,
                 uint64_t add)
{
    size_t first, end;

    tp_assert(from < to && to <= r->size);
    first = cut_run(r, from);
    end = cut_run(r, to);
    for (size_t i = first; i < end; i++) {
        r->runs[i].value = (r->runs[i].value & keep) | add;
    }
    join_runs(r, first > 0 ? first - 1 : 0, end < r->count ? end : r->count - 1);
}

bool
tp_ranges_have(const struct tp_ranges *r, uint64_t bits)
{
    for (size_t i = 0; i < r->count; i++) {
        if ((r->runs[i].value & bits) != 0) {
            return true;
        }
    }
    return false;
}
