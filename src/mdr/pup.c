/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs and unpacks elements with their channels: one function gives the size, packs, and unpacks.
 */
#include <stdlib.h>
#include <string.h>

#include <telpher/mem.h>

#include "mdr/channel_int.h"

int
telpher_mdr_pup_mode(const telpher_mdr_pup *pup)
{
    return pup->mode;
}

/* Copies between an object and the packed bytes. */
static telpher_status
copy(telpher_mdr_pup *pup, void *data, size_t len)
{
    void *dst = pup->mode == TELPHER_MDR_PACK ? pup->at : data;
    const void *src = pup->mode == TELPHER_MDR_PACK ? data : pup->at;

    return len != 0 ? telpher_mem_copy(pup->mdr->ctx, dst, src, len) : TELPHER_OK;
}

void
telpher_mdr_pup_bytes(telpher_mdr_pup *pup, void *data, size_t len)
{
    if (pup->mode == TELPHER_MDR_SIZE) {
        pup->bytes += len;
        return;
    }
    if (pup->status != TELPHER_OK) {
        return;
    }
    if (len > (size_t)(pup->end - pup->at)) {
        /* the function takes more in this mode than in an earlier one */
        pup->status = TELPHER_ERR_RANGE;
        return;
    }
    pup->status = copy(pup, data, len);
    pup->at += len;
}

static void
pup_element(telpher_mdr_pup *pup, struct tp_mdr_element *e)
{
    telpher_mdr_call call = tp_mdr_call_of(pup->mdr, e);

    tp_mdr_channels_pup(pup, e);
    tp_mdr_turns_pup(pup, e);
    pup->mdr->classes[e->array->proxy.class_id]->pup(&call, pup);
}

/* @return OK, or the error, with a text */
static telpher_status
end_of_pup(telpher_mdr_pup *pup, const struct tp_mdr_element *e)
{
    telpher_status status = pup->status == TELPHER_OK && pup->at != pup->end
                                ? TELPHER_ERR_RANGE
                                : pup->status;

    if (status == TELPHER_OK) {
        return TELPHER_OK;
    }
    return tp_mdr_error(
        pup->mdr, status, "object (%d, %d, %d) of class %s cannot be %s: %s",
        e->index.at[0], e->index.at[1], e->index.at[2],
        pup->mdr->classes[e->array->proxy.class_id]->name,
        pup->mode == TELPHER_MDR_PACK ? "packed" : "unpacked",
        status == TELPHER_ERR_RANGE
            ? "its pup function names other lengths than when it gave the size"
        : telpher_last_error(pup->mdr->ctx)[0] != '\0'
            ? telpher_last_error(pup->mdr->ctx)
            : telpher_status_text(status));
}

telpher_status
tp_mdr_pack(telpher_mdr *mdr, struct tp_mdr_element *e, void **ret_data,
            size_t *ret_len)
{
    telpher_mdr_pup pup = {.mdr = mdr, .mode = TELPHER_MDR_SIZE};
    telpher_status status;
    uint8_t *data;

    pup_element(&pup, e);
    data = malloc(pup.bytes);
    if (data == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY,
                            "no memory for a packed object");
    }
    pup.mode = TELPHER_MDR_PACK;
    pup.at = data;
    pup.end = data + pup.bytes;
    pup_element(&pup, e);
    status = end_of_pup(&pup, e);
    if (status != TELPHER_OK) {
        free(data);
        return status;
    }
    *ret_data = data;
    *ret_len = pup.bytes;
    return TELPHER_OK;
}

telpher_status
tp_mdr_unpack(telpher_mdr *mdr, struct tp_mdr_element *e, void *data, size_t len)
{
    telpher_mdr_pup pup = {.mdr = mdr,
                           .mode = TELPHER_MDR_UNPACK,
                           .at = data,
                           .end = (uint8_t *)data + len};

    pup_element(&pup, e);
    return end_of_pup(&pup, e);
}

/* ---- channels ---- */

static void
pup_message(telpher_mdr_pup *pup, struct tp_list *list, struct tp_mdr_message *m)
{
    struct tp_mdr_header h = {0};
    uint64_t len = 0;
    uint32_t count = 0;

    if (m != NULL) {
        h = m->header;
        len = m->params_len;
        count = m->buffer_count;
    }
    telpher_mdr_pup_bytes(pup, &h, sizeof(h));
    telpher_mdr_pup_bytes(pup, &len, sizeof(len));
    telpher_mdr_pup_bytes(pup, &count, sizeof(count));
    if (m == NULL) {
        m = count <= TELPHER_MSG_BUFFERS && len <= (size_t)(pup->end - pup->at)
                ? tp_mdr_message_create(pup->mdr, &h, pup->at, len)
                : NULL;
        if (m == NULL) {
            pup->status = TELPHER_ERR_NO_MEMORY;
            return;
        }
        m->owns_buffers = true;
        m->buffer_count = count;
        tp_list_push_back(list, &m->link);
    }
    telpher_mdr_pup_bytes(pup, tp_mdr_message_params(m), len);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = m->buffers[i].len;

        telpher_mdr_pup_bytes(pup, &bytes, sizeof(bytes));
        if (pup->mode == TELPHER_MDR_UNPACK) {
            m->buffers[i].len = bytes;
            m->buffers[i].data = malloc(bytes + 1);
            pup->status =
                m->buffers[i].data == NULL ? TELPHER_ERR_NO_MEMORY : pup->status;
        }
        telpher_mdr_pup_bytes(pup, m->buffers[i].data, bytes);
    }
}

static void
pup_arrived(telpher_mdr_pup *pup, struct tp_mdr_end *end)
{
    uint64_t count = tp_list_count(&end->arrived);

    telpher_mdr_pup_bytes(pup, &count, sizeof(count));
    if (pup->mode != TELPHER_MDR_UNPACK) {
        tp_list_for_each_entry(struct tp_mdr_message, m, &end->arrived, link) {
            pup_message(pup, &end->arrived, m);
        }
        return;
    }
    for (uint64_t i = 0; i < count && pup->status == TELPHER_OK; i++) {
        pup_message(pup, &end->arrived, NULL);
    }
}

static void
pup_wanted(telpher_mdr_pup *pup, struct tp_mdr_end *end)
{
    uint64_t count = tp_list_count(&end->wanted);

    telpher_mdr_pup_bytes(pup, &count, sizeof(count));
    if (pup->mode != TELPHER_MDR_UNPACK) {
        tp_list_for_each_entry(struct tp_mdr_wanted, w, &end->wanted, link) {
            telpher_mdr_pup_bytes(pup, &w->entry, sizeof(w->entry));
        }
        return;
    }
    for (uint64_t i = 0; i < count && pup->status == TELPHER_OK; i++) {
        uint32_t entry = 0;

        telpher_mdr_pup_bytes(pup, &entry, sizeof(entry));
        if (tp_mdr_want(end, entry, NULL) != TELPHER_OK) {
            pup->status = TELPHER_ERR_NO_MEMORY;
        }
    }
}

static void
pup_end(telpher_mdr_pup *pup, struct tp_mdr_end *end)
{
    if (end == NULL) {
        pup->status = TELPHER_ERR_NO_MEMORY;
        return;
    }
    telpher_mdr_pup_bytes(pup, &end->array, sizeof(end->array));
    telpher_mdr_pup_bytes(pup, &end->peer, sizeof(end->peer));
    telpher_mdr_pup_bytes(pup, &end->number, sizeof(end->number));
    telpher_mdr_pup_bytes(pup, &end->sent, sizeof(end->sent));
    telpher_mdr_pup_bytes(pup, &end->received, sizeof(end->received));
    pup_wanted(pup, end);
    pup_arrived(pup, end);
}

void
tp_mdr_channels_pup(telpher_mdr_pup *pup, struct tp_mdr_element *e)
{
    uint64_t count = tp_list_count(&e->channels);

    telpher_mdr_pup_bytes(pup, &count, sizeof(count));
    if (pup->mode != TELPHER_MDR_UNPACK) {
        tp_list_for_each_entry(struct tp_mdr_end, end, &e->channels, link) {
            pup_end(pup, end);
        }
        return;
    }
    for (uint64_t i = 0; i < count && pup->status == TELPHER_OK; i++) {
        pup_end(pup, tp_mdr_add_end(e));
    }
}
