/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends launches for which the workers have given credit: through memory shared with
 * worker 0 if that is on this machine, otherwise by MPI from buffers of ours. Others
 * wait in the backlog (backlog.c); reports return credit (reports.c). By MPI a batch is
 * sent in messages of whole records that are short enough to be sent at once, so that
 * workers start with the first while others are in flight.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/trace.h"
#include "offload/offload_int.h"

/* How long a call polls for an imminent event before it leaves the work to the
 * thread. */
#define SOON (20 * TP_CLOCK_US)

bool
tp_offload_send_has_credit(const struct tp_offload_group *g, uint64_t len)
{
    return g->sent - g->acked < TP_OFFLOAD_SEND_SLOTS &&
           (g->sent == g->acked || g->in_flight_bytes + len <= TP_OFFLOAD_WINDOW_BYTES);
}

static bool
wants_report(struct tp_offload_group *g, uint64_t len)
{
    g->asked_bytes += len;
    if (g->sent + 1 - g->asked < TP_OFFLOAD_REPORT_EVERY &&
        g->asked_bytes < TP_OFFLOAD_REPORT_BYTES && !g->ended) {
        return false;
    }
    g->asked = g->sent + 1;
    g->asked_bytes = 0;
    return true;
}

/* MPI may need further calls to send it: if the program makes none, the thread does. */
static void
note_unsent(struct tp_offload_group *g)
{
    g->unsent_until = g->sent;
    tp_offload_progress_thread_wake();
}

/* A worker that is only slightly late receives it sooner than a thread wakes up. */
static telpher_status
await_short(struct tp_offload_group *g, struct tp_offload_send_slot *slot)
{
    tp_ns begin = tp_clock_ns();
    int done = 0;

    if (tp_offload_send_unfinished(g)) {
        note_unsent(g); /* earlier ones wait */
        return g->lost ? g->status : TELPHER_OK;
    }
    while (!done && tp_clock_ns() - begin < SOON) {
        if (PMPI_Test(&slot->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return TELPHER_ERR_PEER_LOST;
        }
    }
    if (!done) {
        note_unsent(g);
    }
    return TELPHER_OK;
}

/*
 * MPIs send short messages at once. This test knows that without MPI_Test(), which in
 * MPICH polls for incoming messages. The next message then reuses the same memory,
 * which is in the cache.
 */
static telpher_status
look_after(struct tp_offload_group *g, struct tp_offload_send_slot *slot,
           struct tp_buf *memory)
{
    telpher_status status = TELPHER_OK;
    struct tp_buf next = slot->memory;
    int done;

    if (slot->len > TP_OFFLOAD_EAGER_BYTES) {
        note_unsent(g);
        done = 0;
    } else if (PMPI_Request_get_status(slot->request, &done, MPI_STATUS_IGNORE) !=
               MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    } else if (!done) {
        status = await_short(g, slot);
    } else if (PMPI_Wait(&slot->request, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (slot->request != MPI_REQUEST_NULL) {
        slot->memory = *memory;
        *memory = next;
    }
    return status;
}

/* The next message consists of @p h and the data at @p data. */
static telpher_status
write_header(struct tp_offload_group *g, struct tp_offload_header *h, uint8_t *data)
{
    struct tp_offload_send_slot *slot = &g->slots[g->sent % TP_OFFLOAD_SEND_SLOTS];

    /* the workers have acknowledged the slot, so that the MPI has, almost always,
     * completed its send */
    if (slot->request != MPI_REQUEST_NULL &&
        PMPI_Wait(&slot->request, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    slot->len = tp_offload_header_put(h, NULL) + h->len;
    h->root = (uint32_t)g->rank;
    if (wants_report(g, slot->len)) {
        h->flags |= TP_OFFLOAD_REPORT;
    }
    (void)tp_offload_header_put(h, data);
    tp_trace_instant("offload", "inject", TP_ARG("call", h->first),
                     TP_ARG("last", h->last), TP_ARG("bytes", h->len));
    g->sent++;
    g->in_flight_bytes += slot->len;
    return TELPHER_OK;
}

/*
 * Sends the content of @p memory, which has room for the header in front. If MPI keeps
 * it, @p memory is replaced by another buffer.
 */
static telpher_status
send_memory(struct tp_offload_group *g, struct tp_buf *memory,
            struct tp_offload_header *h)
{
    struct tp_offload_send_slot *slot = &g->slots[g->sent % TP_OFFLOAD_SEND_SLOTS];
    uint8_t *tail, *data;
    telpher_status status = TELPHER_OK;

    if (tp_buf_data(memory) == NULL) { /* no records: only the header */
        status = tp_buf_reserve(memory, 1, &tail);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    data = tp_buf_data(memory) - tp_offload_header_put(h, NULL);
    status = write_header(g, h, data);
    if (status != TELPHER_OK) {
        return status;
    }
    if (PMPI_Isend(data, (int)slot->len, MPI_BYTE, 0, g->launch_tag, g->control,
                   &slot->request) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    return look_after(g, slot, memory);
}

telpher_status
tp_offload_send_message(struct tp_offload_group *g, const uint8_t *data,
                        struct tp_offload_header *h)
{
    telpher_status status;

    tp_buf_clear(&g->message);
    status = tp_buf_append(&g->message, data, h->len);
    return status == TELPHER_OK ? send_memory(g, &g->message, h) : status;
}

bool
tp_offload_send_unfinished(struct tp_offload_group *g)
{
    int done = 1;

    g->left = TP_MAX(g->left, g->acked);
    while (done && g->left < g->unsent_until) {
        struct tp_offload_send_slot *slot = &g->slots[g->left % TP_OFFLOAD_SEND_SLOTS];

        if (PMPI_Test(&slot->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            tp_offload_group_lose(g, TELPHER_ERR_PEER_LOST);
            return false;
        }
        g->left += done != 0;
    }
    return g->left < g->unsent_until;
}

/* [bytes] of those records among the first @p len that fit one short message; 0 if
 * none. */
static uint32_t
whole_records(const uint8_t *records, size_t len)
{
    const size_t most = TP_OFFLOAD_EAGER_BYTES - TP_OFFLOAD_HEADER_MAX;
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

/* [bytes] of the next message: everything left, if that is short. */
static uint32_t
next_len(const struct tp_offload_group *g)
{
    size_t left = tp_buf_len(&g->scratch);
    uint32_t len = left <= TP_OFFLOAD_EAGER_BYTES - TP_OFFLOAD_HEADER_MAX
                       ? (uint32_t)left
                       : whole_records(tp_buf_data(&g->scratch), left);

    return len == 0 ? (uint32_t)TP_MIN(left, UINT32_MAX) : len;
}

/* Sends the records of one call as far as credit allows; the rest stays in
 * group->scratch. */
static telpher_status
send_now(struct tp_offload_group *g, uint64_t number, bool *ret_done)
{
    telpher_status status = TELPHER_OK;

    *ret_done = false;
    while (status == TELPHER_OK && !*ret_done) {
        size_t left = tp_buf_len(&g->scratch);
        struct tp_offload_header h = {.first = number, .last = number};
        uint32_t len = next_len(g);

        if (len > TP_OFFLOAD_PAYLOAD_MAX ||
            !tp_offload_send_has_credit(g, len + TP_OFFLOAD_HEADER_MAX)) {
            break;
        }
        h.flags = len < left ? TP_OFFLOAD_MORE : 0;
        h.len = len;
        h.total = len;
        *ret_done = len == left;
        if (*ret_done) {
            status = send_memory(g, &g->scratch, &h);
        } else {
            status = tp_offload_send_message(g, tp_buf_data(&g->scratch), &h);
            tp_buf_consume(&g->scratch, len);
        }
    }
    return status;
}

/*
 * Sends a whole call through the ring shared with worker 0, if there is room. A call
 * never uses both the ring and MPI: its parts would arrive in any order.
 */
static telpher_status
send_shared(struct tp_offload_group *g, uint64_t number, bool *ret_done)
{
    size_t len = tp_buf_len(&g->scratch);
    struct tp_offload_header h = {.first = number, .last = number};
    telpher_status status;
    uint8_t *room;

    *ret_done = false;
    if (g->ring.memory == NULL ||
        len > TP_OFFLOAD_RING_FRAME_MAX - sizeof(struct tp_offload_head) ||
        !tp_offload_send_has_credit(g, len + TP_OFFLOAD_HEADER_MAX)) {
        return TELPHER_OK;
    }
    h.len = (uint32_t)len;
    h.total = len;
    len += sizeof(struct tp_offload_head);
    status = tp_frame_ring_reserve(&g->ring, (uint32_t)len, &room);
    if (status != TELPHER_OK) {
        return status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
    }
    status = write_header(g, &h, room);
    if (status != TELPHER_OK) {
        return status;
    }
    if (h.len != 0) {
        memcpy(room + sizeof(struct tp_offload_head), tp_buf_data(&g->scratch), h.len);
    }
    tp_frame_ring_commit(&g->ring, (uint32_t)len);
    *ret_done = true;
    return TELPHER_OK;
}

/* Polls for reports if there is no credit; for a report in flight it polls briefly. */
static void
await_credit(struct tp_offload_group *g)
{
    tp_ns begin = tp_clock_ns();

    do {
        tp_offload_send_progress(g);
    } while (!g->lost && tp_list_is_empty(&g->backlog) &&
             !tp_offload_send_has_credit(g, TP_OFFLOAD_EAGER_BYTES) &&
             tp_clock_ns() - begin < SOON);
}

telpher_status
tp_offload_send_records(struct tp_offload_group *g, uint64_t number,
                        struct tp_error *err)
{
    bool done = false;
    telpher_status status = TELPHER_OK;

    if (!tp_offload_send_has_credit(g, TP_OFFLOAD_EAGER_BYTES) ||
        !tp_list_is_empty(&g->backlog)) {
        await_credit(g);
    }
    if (g->lost) {
        return tp_offload_group_error_lost(g, err);
    }
    if (tp_list_is_empty(&g->backlog)) {
        status = send_shared(g, number, &done);
    }
    if (tp_list_is_empty(&g->backlog) && status == TELPHER_OK && !done) {
        status = send_now(g, number, &done);
    }
    if (status == TELPHER_OK && !done) {
        status = tp_offload_backlog_queue(g, number);
        if (status == TELPHER_OK) {
            tp_offload_send_progress(g);
            tp_offload_progress_thread_wake();
        }
    }
    tp_buf_clear(&g->scratch);
    tp_buf_trim(&g->scratch, 2 * TP_OFFLOAD_MESSAGE_MAX);
    if (status != TELPHER_OK) {
        tp_offload_group_lose(g, status);
        return tp_error_set(
            err, status,
            "call %llu could not be sent to %d workers, which are lost: %s",
            (unsigned long long)number, g->workers, telpher_status_text(status));
    }
    return TELPHER_OK;
}

void
tp_offload_send_nothing(struct tp_offload_group *g, uint64_t number, bool others_wait)
{
    const struct tp_offload_record refused = {
        TP_OFFLOAD_NO_KERNEL, TP_OFFLOAD_REFUSED | TP_OFFLOAD_DONE, 0, 0};

    tp_buf_clear(&g->scratch);
    if (others_wait &&
        tp_buf_append(&g->scratch, &refused, sizeof(refused)) != TELPHER_OK) {
        tp_offload_group_lose(g, TELPHER_ERR_NO_MEMORY);
        return;
    }
    (void)tp_offload_send_records(g, number, NULL);
}

bool
tp_offload_send_fini(struct tp_offload_group *g)
{
    bool all_back = true;

    tp_offload_backlog_fini(g);
    for (int i = 0; i < TP_OFFLOAD_SEND_SLOTS; i++) {
        struct tp_offload_send_slot *slot = &g->slots[i];

        if (!g->lost && g->acked == g->sent && slot->request != MPI_REQUEST_NULL) {
            PMPI_Wait(&slot->request, MPI_STATUS_IGNORE);
        }
        if (!tp_offload_mpi_take_back(&slot->request, false)) {
            all_back = false;
            continue;
        }
        tp_buf_fini(&slot->memory);
    }
    tp_buf_fini(&g->scratch);
    tp_buf_fini(&g->message);
    return all_back;
}
