/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements that move. An element leaves from the scheduler, outside of callbacks, when no light
 * thread and no transfer uses it. In the process where it goes, messages find it as soon as its
 * own message is there; they wait in the local queue until the scheduler has unpacked it.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "mdr/object_int.h"

telpher_status
telpher_mdr_migrate(telpher_mdr_call *call, uint32_t rank)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_element *e = tp_mdr_element_of_call(call);

    if (rank >= mdr->size) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE, "there is no process %u", rank);
    }
    if (e == NULL) {
        return TELPHER_ERR_INVALID;
    }
    if (e->sync != TP_MDR_RUNS) {
        return tp_mdr_error(
            mdr, TELPHER_ERR_BUSY,
            "the object waits in telpher_mdr_sync(): let the entry that resumes "
            "it move it");
    }
    if (!e->array->mobile || mdr->classes[e->array->proxy.class_id]->pup == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "objects of class %s cannot move: it has no pup function, "
                            "or they are a group",
                            mdr->classes[e->array->proxy.class_id]->name);
    }
    e->target = rank;
    if (!tp_list_is_linked(&e->leaving)) {
        tp_list_push_back(&mdr->leaving, &e->leaving);
    }
    return TELPHER_OK;
}

/* ---- departure ---- */

/* The message that carries an element. NULL: it cannot be packed, the run ends */
static struct tp_mdr_message *
migrant_of(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    const struct tp_mdr_header h = {
        .kind = TP_MDR_MIGRATE,
        .root = mdr->rank,
        .id = e->array->proxy.id,
        .at = {e->index.at[0], e->index.at[1], e->index.at[2]},
        .moves = e->moves + 1};
    const struct tp_mdr_migrant head = {
        .contributed = e->contributed,
        .heard = e->heard,
        .syncs = e->syncs,
        .debt = e->debt,
        .joined = e->joined,
        .inserted = e->inserted,
        .before_ns = e->before_ns,
        .resume = e->sync == TP_MDR_RESUMES ? e->resume + 1u : 0};
    struct tp_mdr_message *m = tp_mdr_message_create(mdr, &h, &head, sizeof(head));
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (m != NULL) {
        m->owns_buffers = true;
        status = tp_mdr_pack(mdr, e, &m->buffers[0].data, &m->buffers[0].len);
        m->buffer_count = status == TELPHER_OK;
    }
    if (status != TELPHER_OK) {
        tp_mdr_message_destroy(m);
        tp_mdr_fail(mdr, status,
                    "element (%d, %d, %d) of class %s cannot be packed: %s",
                    e->index.at[0], e->index.at[1], e->index.at[2],
                    mdr->classes[e->array->proxy.class_id]->name,
                    m != NULL ? mdr->error : "out of memory");
        return NULL;
    }
    return m;
}

static void
depart(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    struct tp_mdr_array_state *a = e->array;
    const telpher_mdr_class *def = mdr->classes[a->proxy.class_id];
    const telpher_mdr_index index = e->index;
    uint32_t target = e->target, moves = e->moves + 1;
    telpher_mdr_call call = tp_mdr_call_of(mdr, e);
    struct tp_mdr_message *m;

    a->away++;
    e->moving =
        true; /* copies of device memory make progress, which delivers messages */
    m = migrant_of(mdr, e);
    e->moving = false;
    if (m == NULL) {
        return;
    }
    tp_mdr_channels_packed(e);
    if (def->destroy != NULL) {
        def->destroy(&call);
    }
    tp_mdr_element_remove(e);
    mdr->synced = true;
    tp_mdr_send_kept(mdr, target, m);
    tp_mdr_note_place(mdr, a, index, target, moves);
}

bool
tp_mdr_leave(telpher_mdr *mdr)
{
    bool left = false;

    tp_list_for_each_entry_safe(struct tp_mdr_element, e, &mdr->leaving, leaving) {
        if (mdr->exiting || e->uses != 0 || e->moving) {
            continue;
        }
        left = true;
        if (e->ends) {
            tp_mdr_end_element(mdr, e);
        } else if (e->target == mdr->rank) {
            tp_list_remove(&e->leaving);
        } else {
            depart(mdr, e);
        }
    }
    return left;
}

/* ---- arrival ---- */

bool
tp_mdr_migrant_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                       struct tp_mdr_message *m)
{
    const struct tp_mdr_migrant *head = tp_mdr_message_params(m);
    const telpher_mdr_index index = tp_mdr_index_in(&m->header);
    struct tp_mdr_element *e =
        tp_mdr_find(a, index) == NULL ? tp_mdr_element_add(mdr, a, index) : NULL;

    if (e == NULL || m->status != TELPHER_OK) {
        tp_mdr_fail(mdr, m->status != TELPHER_OK ? m->status : TELPHER_ERR_NO_MEMORY,
                    "element (%d, %d, %d) of class %s cannot move to process %u",
                    index.at[0], index.at[1], index.at[2],
                    mdr->classes[a->proxy.class_id]->name, mdr->rank);
        return false;
    }
    e->moves = m->header.moves;
    e->contributed = head->contributed;
    e->heard = head->heard;
    e->syncs = head->syncs;
    e->debt = head->debt;
    e->joined = head->joined;
    e->inserted = head->inserted != 0;
    e->before_ns = head->before_ns;
    e->sync = head->resume != 0 ? TP_MDR_RESUMES : TP_MDR_RUNS;
    e->resume = (uint16_t)(head->resume - 1);
    e->moving = true;
    m->header.flags |= TP_MDR_HERE;
    return true;
}

void
tp_mdr_migrant_unpack(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                      struct tp_mdr_message *m)
{
    struct tp_mdr_element *e = tp_mdr_find(a, tp_mdr_index_in(&m->header));
    telpher_status status =
        tp_mdr_unpack(mdr, e, m->buffers[0].data, m->buffers[0].len);

    e->moving = false; /* also after a failure: then `destroy` runs */
    if (status != TELPHER_OK) {
        tp_mdr_fail(mdr, status,
                    "element (%d, %d, %d) of class %s cannot be unpacked: %s",
                    e->index.at[0], e->index.at[1], e->index.at[2],
                    mdr->classes[a->proxy.class_id]->name, mdr->error);
        return;
    }
    tp_mdr_tell_arrived(mdr, a, m->header.root);
    tp_mdr_note_arrival(mdr, e);
    tp_mdr_catch_up(mdr, e);
    if (e->sync == TP_MDR_RESUMES) {
        tp_mdr_resume(mdr, e);
    }
}

void
tp_mdr_tell_arrived(telpher_mdr *mdr, struct tp_mdr_array_state *a, uint32_t rank)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_ARRIVED, .id = a->proxy.id};

    if (rank == mdr->rank) {
        tp_mdr_arrived_receive(mdr, &h);
    } else if (rank < mdr->size) {
        (void)tp_mdr_control(mdr, rank, &h, NULL, 0); /* a lost process ends the run */
    }
}

void
tp_mdr_arrived_receive(telpher_mdr *mdr, const struct tp_mdr_header *h)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, h->id);

    if (a == NULL || a->away == 0) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "process %u reported an element's arrival, but none of array %llx "
                    "is on its way from here",
                    h->root, (unsigned long long)h->id);
        return;
    }
    a->away--;
    tp_mdr_report_heard(mdr, a);
}
