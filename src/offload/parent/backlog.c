/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that cannot be sent yet: launches without credit, small launches that are
 * combined into one message, and launches after a gate, which opens when kernels of
 * other workers have ended.
 */
#include <string.h>

#include "base/alloc.h"
#include "offload/offload_int.h"

static void
drop_backlog(struct tp_offload_backlog *b)
{
    struct telpher_kernel_request *after = b->after;

    tp_list_remove(&b->link);
    tp_buf_fini(&b->records);
    tp_free(b);
    if (after != NULL && --after->gates == 0 && after->is_released) {
        tp_free(after);
    }
}

/* Sends the next message of the backlog. @return AGAIN without credit */
static telpher_status
send_piece(struct tp_offload_group *g, struct tp_offload_backlog *b)
{
    uint64_t left = b->total - b->sent;
    uint32_t len = (uint32_t)TP_MIN(left, (uint64_t)TP_OFFLOAD_PAYLOAD_MAX);
    telpher_status status;

    if (!tp_offload_send_has_credit(g, len + TP_OFFLOAD_HEADER_MAX)) {
        return TELPHER_ERR_AGAIN;
    }
    status = tp_offload_send_message(g, tp_buf_data(&b->records),
                                     &(struct tp_offload_header){.first = b->first,
                                                                 .last = b->last,
                                                                 .total = b->total,
                                                                 .offset = b->sent,
                                                                 .len = len});
    if (status != TELPHER_OK) {
        return status;
    }
    tp_buf_consume(&b->records, len);
    b->sent += len;
    if (b->sent == b->total) {
        drop_backlog(b);
    }
    return TELPHER_OK;
}

/* Checks a gate. The workers it waits for may themselves need queued launches first.
 * A rejected request opens the gate; a lost one makes these workers lost as well.
 * @return AGAIN while it is closed */
static telpher_status
pass_gate(struct tp_offload_backlog *gate)
{
    struct telpher_kernel_request *r = gate->after;
    telpher_status status;

    if (!r->done) {
        tp_offload_send_progress(r->group);
    }
    if (!r->done) {
        return TELPHER_ERR_AGAIN;
    }
    status = r->status == TELPHER_ERR_REFUSED ? TELPHER_OK : r->status;
    drop_backlog(gate);
    return status;
}

void
tp_offload_send_progress(struct tp_offload_group *g)
{
    telpher_status status = TELPHER_OK;

    tp_offload_group_check_lost(g);
    tp_offload_take_reports(g);
    if (g->is_sending) {
        return;
    }
    g->is_sending = true;
    while (!g->lost && status == TELPHER_OK && !tp_list_is_empty(&g->backlog)) {
        struct tp_offload_backlog *b =
            tp_list_entry(tp_list_first(&g->backlog), struct tp_offload_backlog, link);

        status = b->after != NULL ? pass_gate(b) : send_piece(g, b);
        if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
            tp_offload_group_lose(g, status);
        }
    }
    g->is_sending = false;
    if (g->has_ended) {
        tp_offload_backlog_fini(
            g); /* called after another parent ended the workers: never delivered */
    }
}

telpher_status
tp_offload_send_after(struct tp_offload_group *g,
                      struct telpher_kernel_request *request)
{
    struct tp_offload_backlog *gate;

    if (!request->done && request->group == g) {
        return TELPHER_OK; /* ordered anyway */
    }
    gate = tp_zalloc(sizeof(*gate), "dependency");
    if (gate == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_buf_init(&gate->records, 0);
    gate->after = request;
    request->gates++;
    tp_list_push_back(&g->backlog, &gate->link);
    tp_offload_send_progress(g);
    if (!tp_list_is_empty(&g->backlog)) {
        tp_offload_progress_thread_wake();
    }
    return TELPHER_OK;
}

/* Offsets of the records' calls from the first call of their message. */
static void
number_records(uint8_t *records, size_t len, uint16_t call)
{
    struct tp_offload_record r;

    for (size_t at = 0; call != 0 && at < len; at += sizeof(r) + r.len) {
        memcpy(&r, records + at, sizeof(r));
        r.call = call;
        memcpy(records + at, &r, sizeof(r));
    }
}

/* Appends to the last queued message if it has room. */
telpher_status
tp_offload_backlog_queue(struct tp_offload_group *g, uint64_t number)
{
    struct tp_list *end = tp_list_last(&g->backlog);
    struct tp_offload_backlog *b =
        end != NULL ? tp_list_entry(end, struct tp_offload_backlog, link) : NULL;
    size_t len = tp_buf_len(&g->scratch);
    telpher_status status;

    if (b == NULL || b->after != NULL || b->sent != 0 || b->last + 1 != number ||
        b->total + len > TP_OFFLOAD_PAYLOAD_MAX ||
        number - b->first > TP_OFFLOAD_CALLS_MAX) {
        b = tp_zalloc(sizeof(*b), "queued launch");
        if (b == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        tp_buf_init(&b->records, 0);
        b->first = number;
        tp_list_init(&b->link);
    }
    number_records(tp_buf_data(&g->scratch), len, (uint16_t)(number - b->first));
    if (len > TP_OFFLOAD_PAYLOAD_MAX) { /* b is new: avoids a second copy of large
                                         * data */
        b->records = g->scratch;
        tp_buf_init_front(&g->scratch, 0, TP_OFFLOAD_HEADER_MAX);
        status = TELPHER_OK;
    } else {
        status = tp_buf_append(&b->records, tp_buf_data(&g->scratch), len);
    }
    if (status != TELPHER_OK) {
        if (!tp_list_is_linked(&b->link)) {
            tp_free(b);
        }
        return status;
    }
    b->last = number;
    b->total += len;
    if (!tp_list_is_linked(&b->link)) {
        tp_list_push_back(&g->backlog, &b->link);
    }
    return TELPHER_OK;
}

void
tp_offload_backlog_fini(struct tp_offload_group *g)
{
    while (!tp_list_is_empty(&g->backlog)) {
        drop_backlog(
            tp_list_entry(tp_list_first(&g->backlog), struct tp_offload_backlog, link));
    }
}
