/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements that are inserted and end while the program runs. An insertion goes to the home of the
 * index, which knows whether there is such an element, and from there to its process. From outside
 * of the array it goes to process 0 first, which counts the elements.
 */
#include "mdr/object_int.h"

/* ---- insertion ---- */

/* The element of the same array that inserts, or NULL. */
static struct tp_mdr_element *
inserter_of(telpher_mdr_call *call, const telpher_mdr_array *array)
{
    return call->self != NULL && call->array.id == array->id
               ? tp_mdr_element_of_call(call)
               : NULL;
}

static telpher_status
check_insert(telpher_mdr *mdr, const telpher_mdr_array *array, telpher_mdr_index index,
             uint32_t rank)
{
    if (array->class_id >= mdr->class_count || !tp_mdr_is_sparse(array)) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "elements are inserted into sparse arrays only");
    }
    if (telpher_mdr_home(mdr, array, index) == UINT32_MAX) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE,
                            "class %s: (%d, %d, %d) is no index of %u dimensions",
                            mdr->classes[array->class_id]->name, index.at[0],
                            index.at[1], index.at[2], array->dims);
    }
    if (rank >= mdr->size && rank != TELPHER_MDR_ANY_PROCESS) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE, "there is no process %u", rank);
    }
    return TELPHER_OK;
}

telpher_status
telpher_mdr_insert(telpher_mdr_call *call, const telpher_mdr_array *array,
                   telpher_mdr_index index, uint32_t rank, const void *params,
                   size_t params_len)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_header h = {.kind = TP_MDR_INSERT,
                              .flags = TP_MDR_UNNUMBERED,
                              .root = mdr->rank,
                              .id = array->id,
                              .at = {index.at[0], index.at[1], index.at[2]}};
    struct tp_mdr_newborn head = {.rank = rank};
    telpher_status status = check_insert(mdr, array, index, rank);
    struct tp_mdr_element *e = inserter_of(call, array);
    uint32_t to = 0;

    if (status == TELPHER_OK && e != NULL) {
        h.flags = 0;
        to = telpher_mdr_home(mdr, array, index);
        head.contributed = e->contributed;
        head.heard = e->heard;
        head.inserted = 1;
    }
    if (status == TELPHER_OK) {
        status = tp_mdr_send(mdr, to, &h, &head, sizeof(head), params, params_len);
    }
    if (status == TELPHER_OK && e != NULL) {
        e->array->away++; /* until it is there, broadcasts are kept for it */
        e->debt += tp_mdr_mark(index);
        e->joined++;
    }
    return status;
}

/* Process 0 counts an element that no element of the array inserted. */
static void
admit(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct tp_mdr_header *h,
      struct tp_mdr_newborn *head)
{
    h->flags = 0;
    h->root = mdr->rank;
    head->contributed = a->completed;
    head->heard = a->heard;
    a->total++;
    a->away++;
}

static void
make_element(telpher_mdr *mdr, struct tp_mdr_array_state *a,
             const struct tp_mdr_header *h, const struct tp_mdr_newborn *head,
             const void *params, size_t params_len)
{
    const telpher_mdr_class *def = mdr->classes[a->proxy.class_id];
    struct tp_mdr_element *e = tp_mdr_element_add(mdr, a, tp_mdr_index_in(h));
    telpher_mdr_call call;

    if (e == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for an object of class %s",
                    def->name);
        return;
    }
    e->contributed = head->contributed;
    e->heard = head->heard;
    e->inserted = head->inserted != 0;
    e->moves = h->moves;
    call = tp_mdr_call_of(mdr, e);
    call.params = params;
    call.params_len = params_len;
    if (def->create != NULL) {
        def->create(&call);
    }
    tp_mdr_tell_arrived(mdr, a, h->root);
    tp_mdr_note_arrival(mdr, e);
    tp_mdr_catch_up(mdr, e);
}

/* The home sends an insertion to where the element shall be. */
static void
pass_on(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct tp_mdr_header *h,
        const struct tp_mdr_newborn *head, const void *params, size_t params_len)
{
    const telpher_mdr_index index = tp_mdr_index_in(h);

    if (!tp_mdr_may_insert(a, index, &h->moves)) {
        tp_mdr_fail(mdr, TELPHER_ERR_EXISTS,
                    "class %s: element (%d, %d, %d) is inserted twice",
                    mdr->classes[a->proxy.class_id]->name, index.at[0], index.at[1],
                    index.at[2]);
        return;
    }
    if (head->rank == mdr->rank || head->rank >= mdr->size) {
        make_element(mdr, a, h, head, params, params_len);
        return;
    }
    h->flags = TP_MDR_HERE;
    if (tp_mdr_send(mdr, head->rank, h, head, sizeof(*head), params, params_len) !=
        TELPHER_OK) {
        tp_mdr_fail(
            mdr, TELPHER_ERR_PEER_LOST,
            "class %s: element (%d, %d, %d) cannot be inserted in process %u: %s",
            mdr->classes[a->proxy.class_id]->name, index.at[0], index.at[1],
            index.at[2], head->rank, mdr->error);
        return;
    }
    tp_mdr_note_place(mdr, a, index, head->rank, h->moves);
}

void
tp_mdr_insert_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                      const struct tp_mdr_delivery *d)
{
    const void *params = (const uint8_t *)d->params + sizeof(struct tp_mdr_newborn);
    size_t len = d->params_len - sizeof(struct tp_mdr_newborn);
    struct tp_mdr_header h = *d->h;
    struct tp_mdr_newborn head;
    uint32_t home;

    if (d->params_len < sizeof(head) || !tp_mdr_is_sparse(&a->proxy) ||
        telpher_mdr_home(mdr, &a->proxy, tp_mdr_index_in(&h)) == UINT32_MAX) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "class %s: process %u sent a malformed insertion of element (%d, "
                    "%d, %d), %zu bytes",
                    mdr->classes[a->proxy.class_id]->name, h.root, h.at[0], h.at[1],
                    h.at[2], d->params_len);
        return;
    }
    head = *(const struct tp_mdr_newborn *)d->params;
    home = telpher_mdr_home(mdr, &a->proxy, tp_mdr_index_in(&h));
    if ((h.flags & TP_MDR_HERE) != 0) {
        make_element(mdr, a, &h, &head, params, len);
        return;
    }
    if ((h.flags & TP_MDR_UNNUMBERED) != 0) {
        admit(mdr, a, &h, &head);
    }
    if (home == mdr->rank) {
        pass_on(mdr, a, &h, &head, params, len);
    } else if (tp_mdr_send(mdr, home, &h, &head, sizeof(head), params, len) !=
                   TELPHER_OK &&
               !mdr->exiting) {
        tp_mdr_fail(mdr, TELPHER_ERR_PEER_LOST,
                    "class %s: the insertion of element (%d, %d, %d) cannot be sent to "
                    "process %u: %s",
                    mdr->classes[a->proxy.class_id]->name, h.at[0], h.at[1], h.at[2],
                    home, mdr->error);
    }
}

/* ---- end ---- */

telpher_status
telpher_mdr_remove(telpher_mdr_call *call)
{
    struct tp_mdr_element *e = tp_mdr_element_of_call(call);

    if (e == NULL || !tp_mdr_is_sparse(&e->array->proxy)) {
        return tp_mdr_error(call->mdr, TELPHER_ERR_INVALID,
                            "only elements of sparse arrays end");
    }
    e->ends = true;
    if (!tp_list_is_linked(&e->leaving)) {
        tp_list_push_back(&call->mdr->leaving, &e->leaving);
    }
    return TELPHER_OK;
}

void
tp_mdr_end_element(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    struct tp_mdr_array_state *a = e->array;
    const telpher_mdr_class *def = mdr->classes[a->proxy.class_id];
    const struct tp_mdr_header h = {
        .kind = TP_MDR_GONE,
        .root = mdr->rank,
        .id = a->proxy.id,
        .at = {e->index.at[0], e->index.at[1], e->index.at[2]},
        .moves = e->moves + 1};
    telpher_mdr_call call = tp_mdr_call_of(mdr, e);
    uint32_t home = telpher_mdr_home(mdr, &a->proxy, e->index);

    tp_mdr_contribute_end(mdr, e);
    if (def->destroy != NULL) {
        def->destroy(&call);
    }
    tp_mdr_channels_packed(e); /* their messages have no receiver any more */
    tp_mdr_element_remove(e);
    if (home == mdr->rank) {
        tp_mdr_note_gone(mdr, a, call.index, h.moves);
    } else if (tp_mdr_send(mdr, home, &h, NULL, 0, NULL, 0) != TELPHER_OK &&
               !mdr->exiting) {
        tp_mdr_fail(mdr, TELPHER_ERR_PEER_LOST,
                    "class %s: the end of element (%d, %d, %d) cannot be sent to "
                    "process %u: %s",
                    mdr->classes[a->proxy.class_id]->name, call.index.at[0],
                    call.index.at[1], call.index.at[2], home, mdr->error);
    }
}
