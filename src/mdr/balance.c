/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load balancing. A process whose elements all wait in telpher_mdr_sync() sends their times to
 * process 0. When it has those of all elements, the balancer spreads them, and each process
 * moves its own and resumes the others.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "mdr/object_int.h"

/* ---- times ---- */

uint64_t
tp_mdr_thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The time that the element will take until the next synchronisation: its last one and half of
 * the change since the one before. Loads move on; the whole change would double the noise. */
static uint64_t
expect_ns(const struct tp_mdr_element *e)
{
    uint64_t change =
        e->ns > e->before_ns ? e->ns - e->before_ns : e->before_ns - e->ns;

    if (e->before_ns == 0) {
        return e->ns;
    }
    return e->ns > e->before_ns ? e->ns + change / 2
                                : e->ns - TP_MIN(e->ns, change / 2);
}

/* ---- the program waits ---- */

telpher_status
telpher_mdr_balancer_set(telpher_mdr *mdr, telpher_mdr_balancer_fn fn, void *user)
{
    if (mdr->ran) {
        return tp_mdr_error(mdr, TELPHER_ERR_BUSY,
                            "set the balancer before telpher_mdr_run()");
    }
    mdr->balance = fn;
    mdr->balance_user = user;
    return TELPHER_OK;
}

static telpher_status
begin_sync(telpher_mdr_call *call, uint32_t entry, bool stays)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_element *e = tp_mdr_element_of_call(call);
    telpher_status status = tp_mdr_check_call(mdr, &call->array, entry, 0, 0);

    if (e == NULL || status != TELPHER_OK) {
        return e == NULL ? TELPHER_ERR_INVALID : status;
    }
    if (!e->array->mobile || tp_mdr_is_sparse(&e->array->proxy)) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "objects of class %s are not balanced: it has no pup "
                            "function, or they are a group or a sparse array",
                            mdr->classes[e->array->proxy.class_id]->name);
    }
    if (e->sync != TP_MDR_RUNS) {
        return tp_mdr_error(mdr, TELPHER_ERR_BUSY,
                            "the object waits in telpher_mdr_sync() already");
    }
    tp_list_remove(&e->leaving);
    e->sync = TP_MDR_WAITS;
    e->stays = stays;
    e->syncs++;
    e->resume = (uint16_t)entry;
    e->array->waiting++;
    mdr->synced = true; /* the scheduler reports when this entry has ended */
    return TELPHER_OK;
}

telpher_status
telpher_mdr_sync(telpher_mdr_call *call, uint32_t entry)
{
    return begin_sync(call, entry, false);
}

telpher_status
telpher_mdr_sync_here(telpher_mdr_call *call, uint32_t entry)
{
    return begin_sync(call, entry, true);
}

telpher_status
telpher_mdr_load_add(telpher_mdr_call *call, uint64_t ns)
{
    struct tp_mdr_element *e = tp_mdr_element_of_call(call);

    if (e == NULL) {
        return TELPHER_ERR_INVALID;
    }
    e->ns += ns;
    return TELPHER_OK;
}

/* A message with a list of loads for process @p rank. */
static void
send_loads(telpher_mdr *mdr, struct tp_mdr_array_state *a, uint8_t kind, uint32_t rank,
           telpher_mdr_load *loads, size_t count)
{
    const struct tp_mdr_header h = {
        .kind = kind, .root = mdr->rank, .id = a->proxy.id, .moves = a->spreads};
    struct tp_mdr_message *m = tp_mdr_message_create(mdr, &h, NULL, 0);

    if (m == NULL) {
        free(loads);
        tp_mdr_fail(
            mdr, TELPHER_ERR_NO_MEMORY,
            "class %s: out of memory to send the loads of %zu objects to process %u",
            mdr->classes[a->proxy.class_id]->name, count, rank);
        return;
    }
    m->owns_buffers = true;
    m->buffer_count = 1;
    m->buffers[0] = (telpher_msg_buffer){loads, count * sizeof(*loads)};
    if (rank != mdr->rank) {
        tp_mdr_send_kept(mdr, rank, m);
        return;
    }
    mdr->sent++;
    tp_list_push_back(&mdr->local, &m->link);
}

static void
report(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    size_t count = 0;
    telpher_mdr_load *loads;

    if (a->waiting != tp_map_count(&a->elements) || mdr->exiting) {
        return;
    }
    loads = malloc((a->waiting + 1) * sizeof(*loads));
    tp_list_for_each_entry(struct tp_mdr_element, e, &a->all, link) {
        if (loads != NULL && e->sync == TP_MDR_WAITS) {
            e->sync = TP_MDR_REPORTED;
            loads[count++] = (telpher_mdr_load){.index = e->index,
                                                .rank = mdr->rank,
                                                .ns = expect_ns(e),
                                                .stays = e->stays};
            e->before_ns = e->ns;
        }
    }
    if (count != 0 || loads == NULL) {
        send_loads(mdr, a, TP_MDR_LOADS, 0, loads, count);
    } else {
        free(loads);
    }
}

bool
tp_mdr_sync_reports(telpher_mdr *mdr)
{
    size_t cursor = 0;
    void *value;

    if (!mdr->synced) {
        return false;
    }
    mdr->synced = false;
    while (tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        struct tp_mdr_array_state *a = value;

        if (a->waiting != 0) {
            report(mdr, a);
        }
    }
    return true;
}

/* ---- process 0 ---- */

/* All elements wait: each process receives where all shall be. */
static void
spread(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    size_t bytes = a->load_count * sizeof(*a->loads);

    a->spreads++;
    if (mdr->balance != NULL) {
        mdr->balance(a->loads, a->load_count, mdr->size, mdr->balance_user);
    }
    for (uint32_t r = 0; r < mdr->size && !mdr->exiting; r++) {
        telpher_mdr_load *copy = malloc(bytes);

        if (copy == NULL) {
            tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                        "class %s: out of memory for the loads of %zu objects",
                        mdr->classes[a->proxy.class_id]->name, a->load_count);
            break;
        }
        memcpy(copy, a->loads, bytes);
        send_loads(mdr, a, TP_MDR_SPREAD, r, copy, a->load_count);
    }
    tp_free(a->loads);
    a->loads = NULL;
    a->load_count = 0;
}

static void
collect(telpher_mdr *mdr, struct tp_mdr_array_state *a, const telpher_mdr_load *loads,
        size_t count)
{
    telpher_mdr_load *all =
        tp_realloc_array(a->loads, a->load_count + count, sizeof(*all), "mdr balancer");

    if (all == NULL || a->load_count + count > a->total) {
        a->loads = all != NULL ? all : a->loads;
        if (all == NULL) {
            tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                        "class %s: out of memory for the loads of %zu objects",
                        mdr->classes[a->proxy.class_id]->name, a->load_count + count);
        } else {
            tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                        "class %s: loads of %zu objects came, and the class has %llu",
                        mdr->classes[a->proxy.class_id]->name, a->load_count + count,
                        (unsigned long long)a->total);
        }
        return;
    }
    memcpy(all + a->load_count, loads, count * sizeof(*loads));
    a->loads = all;
    a->load_count += count;
    if (a->load_count == a->total) {
        spread(mdr, a);
    }
}

/* ---- all processes ---- */

void
tp_mdr_resume(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    telpher_status status;

    e->sync = TP_MDR_RUNS;
    e->ns = 0;
    status = tp_mdr_invoke(mdr, &e->array->proxy, e->index, e->resume, NULL, 0, NULL, 0,
                           NULL);
    if (status != TELPHER_OK && !mdr->exiting) {
        tp_mdr_fail(mdr, status,
                    "class %s: entry %u of element (%d, %d, %d) cannot be invoked "
                    "after load balancing: %s",
                    mdr->classes[e->array->proxy.class_id]->name, e->resume,
                    e->index.at[0], e->index.at[1], e->index.at[2],
                    telpher_status_text(status));
    }
}

static void
settle(telpher_mdr *mdr, struct tp_mdr_element *e, uint32_t rank)
{
    e->array->waiting--;
    if (rank == mdr->rank || e->stays) {
        tp_mdr_resume(mdr, e);
        return;
    }
    e->sync = TP_MDR_RESUMES;
    e->target = rank;
    tp_list_push_back(&mdr->leaving, &e->leaving);
}

void
tp_mdr_loads_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                     const struct tp_mdr_message *m)
{
    const telpher_mdr_load *loads = m->buffers[0].data;
    size_t count = m->buffers[0].len / sizeof(*loads);

    if (m->status != TELPHER_OK) {
        tp_mdr_fail(mdr, m->status,
                    "class %s: the loads of process %u's objects did not arrive: %s",
                    mdr->classes[a->proxy.class_id]->name, m->header.root,
                    telpher_status_text(m->status));
        return;
    }
    if (m->header.kind == TP_MDR_LOADS) {
        collect(mdr, a, loads, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct tp_mdr_element *e = tp_mdr_find(a, loads[i].index);

        if (loads[i].rank >= mdr->size) {
            tp_mdr_fail(mdr, TELPHER_ERR_INVALID,
                        "the balancer assigned an object to process %u; the job has %u",
                        loads[i].rank, mdr->size);
            return;
        }
        /* an element that this answer moved here may already wait for the next answer */
        if (e != NULL && e->sync == TP_MDR_REPORTED && e->syncs == m->header.moves) {
            settle(mdr, e, loads[i].rank);
        }
    }
}
