/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels that carry long data. The envelope names a channel, and the data follows on it at
 * once, so a receive may be posted whenever the message is matched, in any order. A channel
 * carries one message at a time: the receiver releases it.
 */
#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

enum { RELEASE_BATCH = 32 };

struct entry {
    telpher_channel *channel;
    struct tp_ampi_request *sender; /* of a synchronous send */
    uint32_t next_free; /* number + 1 */
};

/* Both directions of a channel are used apart: the sender's state is here. */
struct table {
    struct entry *entries;
    uint32_t count, free, used; /* free: number + 1; used: all below have been */
    uint32_t released[RELEASE_BATCH], released_count; /* the other direction's */
};

static struct table *tables; /* by process */
static uint32_t table_count;

/* Makes tables for the processes that there are now. */
static bool
grow(void)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    struct table *more =
        tp_realloc_array(tables, tp_ampi.end_count, sizeof(*tables), "MPI channels");

    (void)tp_ampi_heap_use(heap);
    if (more == NULL) {
        return false;
    }
    memset(more + table_count, 0, (tp_ampi.end_count - table_count) * sizeof(*more));
    tables = more;
    table_count = tp_ampi.end_count;
    return true;
}

static struct table *
table_of(uint32_t process)
{
    return process < table_count || grow() ? &tables[process] : NULL;
}

static struct entry *
entry_of(uint32_t process, uint32_t id)
{
    struct table *t = table_of(process);
    struct tp_ampi_heap *heap;
    uint32_t count;
    struct entry *entries;

    if (t == NULL || id >> TELPHER_CHANNEL_ID_BITS != 0) {
        return NULL;
    }
    if (id >= t->count) {
        count = TP_MAX(2 * t->count, id + 64);
        heap = tp_ampi_heap_use(NULL);
        entries = tp_realloc_array(t->entries, count, sizeof(*entries), "MPI channels");
        (void)tp_ampi_heap_use(heap);
        if (entries == NULL) {
            return NULL;
        }
        for (uint32_t i = t->count; i < count; i++) {
            entries[i] = (struct entry){.channel = NULL};
        }
        t->entries = entries;
        t->count = count;
    }
    return &t->entries[id];
}

uint32_t
tp_ampi_channel_take(uint32_t process, struct tp_ampi_request *sender)
{
    struct table *t = table_of(process);
    struct entry *e;
    uint32_t id;

    if (t == NULL) {
        return UINT32_MAX;
    }
    id = t->free != 0 ? t->free - 1 : t->used;
    e = entry_of(process, id);
    if (e == NULL) {
        return UINT32_MAX;
    }
    if (t->free != 0) {
        t->free = e->next_free;
    } else {
        t->used++;
    }
    e->sender = sender;
    return id;
}

telpher_channel *
tp_ampi_channel_get(uint32_t process, uint32_t id)
{
    struct entry *e = entry_of(process, id);
    struct tp_ampi_heap *heap;

    if (e != NULL && e->channel == NULL) {
        heap = tp_ampi_heap_use(NULL);
        if (telpher_channel_open(tp_ampi.ends[process].ctx, tp_ampi.ends[process].rank,
                                 id, &e->channel) != TELPHER_OK) {
            e->channel = NULL;
        }
        (void)tp_ampi_heap_use(heap);
    }
    return e != NULL ? e->channel : NULL;
}

void
tp_ampi_channel_release(uint32_t process, uint32_t id, bool now)
{
    struct table *t = table_of(process);
    struct tp_ampi_envelope env = {.kind = TP_AMPI_RELEASED};

    t->released[t->released_count++] = id;
    if (now || t->released_count == RELEASE_BATCH) {
        env.len = t->released_count;
        (void)tp_ampi_transmit(process, &env, t->released,
                               t->released_count * sizeof(t->released[0]));
        t->released_count = 0;
    }
}

struct tp_ampi_request *
tp_ampi_channel_released(uint32_t process, uint32_t id)
{
    struct table *t = table_of(process);
    struct entry *e = t != NULL && id < t->used ? entry_of(process, id) : NULL;
    struct tp_ampi_request *sender;

    if (e == NULL) {
        return NULL;
    }
    sender = e->sender;
    e->sender = NULL;
    e->next_free = t->free;
    t->free = id + 1;
    return sender;
}

void
tp_ampi_channels_drop(uint32_t first, uint32_t count)
{
    for (uint32_t p = first; p < TP_MIN(first + count, table_count); p++) {
        tp_free(tables[p].entries);
        tables[p] = (struct table){.entries = NULL};
    }
}

void
tp_ampi_channels_fini(void)
{
    tp_ampi_channels_drop(0, table_count);
    tp_free(tables);
    tables = NULL;
    table_count = 0;
}
