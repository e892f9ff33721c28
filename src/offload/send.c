/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches leave from buffers of ours, as many as the workers have given credit for. The
 * others wait (backlog.c). Reports bring credit back (reports.c). A batch leaves in messages
 * of whole records that are short enough for MPI to send at once: the workers begin with the
 * first while the others are on their way.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace.h"
#include "offload/offload_int.h"

bool
tp_send_has_credit(const struct tp_group *g, uint64_t len)
{
    return g->sent - g->acked < TP_SEND_SLOTS &&
           (g->sent == g->acked || g->in_flight_bytes + len <= TP_WINDOW_BYTES);
}

/* The slot was acknowledged by the workers, so MPI is done with it or nearly so. */
static telpher_status
prepare_slot(struct tp_send_slot *slot, uint32_t len)
{
    if (slot->request != MPI_REQUEST_NULL &&
        PMPI_Wait(&slot->request, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (slot->capacity < len || slot->capacity / 64 > len) {
        uint32_t capacity = 128; /* small ones stay near each other in the cache */
        uint8_t *data;

        while (capacity < len) {
            capacity *= 2;
        }
        data = tp_realloc(slot->data, capacity, "launch");
        if (data == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        slot->data = data;
        slot->capacity = capacity;
    }
    slot->len = len;
    return TELPHER_OK;
}

static bool
wants_report(struct tp_group *g, uint64_t len)
{
    g->asked_bytes += len;
    if (g->sent + 1 - g->asked < TP_REPORT_EVERY && g->asked_bytes < TP_REPORT_BYTES &&
        !g->ended) {
        return false;
    }
    g->asked = g->sent + 1;
    g->asked_bytes = 0;
    return true;
}

/* MPI may need us to send it: if the program does not call, the thread does. */
static void
note_unsent(struct tp_group *g)
{
    g->unsent_until = g->sent;
    tp_mover_wake();
}

/*
 * MPIs send short messages at once: the next one then takes the same memory, which is in the
 * cache. Unless the worker has not taken those before for long.
 */
static telpher_status
pass_memory(struct tp_group *g, struct tp_send_slot *slot, struct tp_send_slot *next)
{
    uint8_t *data = slot->data;
    uint32_t capacity = slot->capacity;
    int done;

    if (PMPI_Test(&slot->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (!done) {
        note_unsent(g);
    } else if (next->request == MPI_REQUEST_NULL) {
        slot->data = next->data;
        slot->capacity = next->capacity;
        next->data = data;
        next->capacity = capacity;
    }
    return TELPHER_OK;
}

telpher_status
tp_send_message(struct tp_group *g, const uint8_t *data, struct tp_offload_header *h)
{
    struct tp_send_slot *slot = &g->slots[g->sent % TP_SEND_SLOTS];
    uint32_t bytes = tp_offload_header_put(h, NULL);
    telpher_status status = prepare_slot(slot, bytes + h->len);

    if (status != TELPHER_OK) {
        return status;
    }
    h->root = (uint32_t)g->rank;
    if (wants_report(g, slot->len)) {
        h->flags |= TP_OFFLOAD_REPORT;
    }
    (void)tp_offload_header_put(h, slot->data);
    if (h->len != 0) {
        memcpy(slot->data + bytes, data, h->len);
    }
    tp_trace_instant("offload", "inject", TP_ARG("call", h->first),
                     TP_ARG("last", h->last), TP_ARG("bytes", h->len));
    if (PMPI_Isend(slot->data, (int)slot->len, MPI_BYTE, 0, TP_TAG_LAUNCH, g->control,
                   &slot->request) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    g->sent++;
    g->in_flight_bytes += slot->len;
    if (slot->len <= TP_EAGER_BYTES) {
        status = pass_memory(g, slot, &g->slots[g->sent % TP_SEND_SLOTS]);
    } else {
        note_unsent(g);
    }
    return status;
}

bool
tp_send_unfinished(struct tp_group *g)
{
    int done = 1;

    g->left = TP_MAX(g->left, g->acked);
    while (done && g->left < g->unsent_until) {
        struct tp_send_slot *slot = &g->slots[g->left % TP_SEND_SLOTS];

        if (PMPI_Test(&slot->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            tp_group_lose(g, TELPHER_ERR_PEER_LOST);
            return false;
        }
        g->left += done != 0;
    }
    return g->left < g->unsent_until;
}

/* [bytes] of the records in front of @p len that one short message takes; 0 if none. */
static uint32_t
whole_records(const uint8_t *records, size_t len)
{
    const size_t most = TP_EAGER_BYTES - TP_OFFLOAD_HEADER_MAX;
    struct tp_offload_record r;
    size_t at = 0;

    while (at < len) {
        memcpy(&r, records + at, sizeof(r));
        if (r.len > most || at + sizeof(r) + r.len > most) {
            break;
        }
        at += sizeof(r) + r.len;
    }
    return (uint32_t)at;
}

/* Sends what may go of the records of one call; what must wait stays in group->scratch. */
static telpher_status
send_now(struct tp_group *g, uint64_t number, bool *ret_done)
{
    telpher_status status = TELPHER_OK;
    uint32_t len = 0;

    *ret_done = false;
    while (status == TELPHER_OK && !*ret_done && tp_list_is_empty(&g->backlog)) {
        size_t left = tp_buf_len(&g->scratch);
        struct tp_offload_header h = {.first = number, .last = number};

        len = whole_records(tp_buf_data(&g->scratch), left);
        len = len == 0 ? (uint32_t)TP_MIN(left, UINT32_MAX) : len;
        if (len > TP_PAYLOAD_MAX ||
            !tp_send_has_credit(g, len + TP_OFFLOAD_HEADER_MAX)) {
            break;
        }
        h.flags = len < left ? TP_OFFLOAD_MORE : 0;
        h.len = len;
        h.total = len;
        status = tp_send_message(g, tp_buf_data(&g->scratch), &h);
        *ret_done = len == left;
        tp_buf_consume(&g->scratch, len);
    }
    return status;
}

telpher_status
tp_send_records(struct tp_group *g, uint64_t number, struct tp_error *err)
{
    bool done;
    telpher_status status;

    if (!tp_send_has_credit(g, TP_EAGER_BYTES) || !tp_list_is_empty(&g->backlog)) {
        tp_send_progress(g);
    }
    if (g->lost) {
        return tp_error_set(err, g->status, "the workers are lost");
    }
    status = send_now(g, number, &done);
    if (status == TELPHER_OK && !done) {
        status = tp_backlog_queue(g, number);
        if (status == TELPHER_OK) {
            tp_send_progress(g);
            tp_mover_wake();
        }
    }
    tp_buf_clear(&g->scratch);
    tp_buf_trim(&g->scratch, 2 * TP_OFFLOAD_MESSAGE_MAX);
    if (status != TELPHER_OK) {
        tp_group_lose(g, status);
        return tp_error_set(err, status, "a launch could not be sent: %s",
                            telpher_status_text(status));
    }
    return TELPHER_OK;
}

void
tp_send_nothing(struct tp_group *g, uint64_t number, bool others_wait)
{
    const struct tp_offload_record refused = {
        TP_OFFLOAD_NO_KERNEL, TP_OFFLOAD_REFUSED | TP_OFFLOAD_DONE, 0, 0};

    tp_buf_clear(&g->scratch);
    if (others_wait &&
        tp_buf_append(&g->scratch, &refused, sizeof(refused)) != TELPHER_OK) {
        tp_group_lose(g, TELPHER_ERR_NO_MEMORY);
        return;
    }
    (void)tp_send_records(g, number, NULL);
}

bool
tp_send_fini(struct tp_group *g)
{
    bool all_back = true;

    tp_backlog_fini(g);
    for (int i = 0; i < TP_SEND_SLOTS; i++) {
        struct tp_send_slot *slot = &g->slots[i];

        if (!g->lost && g->acked == g->sent && slot->request != MPI_REQUEST_NULL) {
            PMPI_Wait(&slot->request, MPI_STATUS_IGNORE);
        }
        if (!tp_mpi_take_back(&slot->request, false)) {
            all_back = false;
            continue;
        }
        tp_free(slot->data);
        slot->data = NULL;
    }
    tp_buf_fini(&g->scratch);
    return all_back;
}
