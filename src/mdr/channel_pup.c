/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the channels of an element: what has arrived, and what is wanted. */
#include <stdlib.h>

#include "mdr/channel_int.h"

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
