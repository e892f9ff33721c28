/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches leave from buffers of ours, as many as the workers have given credit for. The
 * others wait here, small ones together in one message. Reports bring credit back.
 */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/trace.h"
#include "offload/offload_int.h"

enum { PAYLOAD_MAX = TP_OFFLOAD_MESSAGE_MAX - (int)sizeof(struct tp_offload_header) };

static struct telpher_kernel_request *
find_request(struct tp_group *g, uint64_t number)
{
    tp_list_for_each(link, &g->requests)
    {
        struct telpher_kernel_request *r =
            tp_list_entry(link, struct telpher_kernel_request, link);

        if (r->number == number) {
            return r;
        }
    }
    return NULL;
}

struct telpher_kernel_request *
tp_request_create(struct tp_group *g, uint64_t number)
{
    struct telpher_kernel_request *r = find_request(g, number);

    if (r != NULL) {
        return r; /* its report came before the call of this parent */
    }
    r = tp_zalloc(sizeof(*r), "kernel request");
    if (r != NULL) {
        r->group = g;
        r->number = number;
        tp_list_push_back(&g->requests, &r->link);
    }
    return r;
}

/* One that this parent has not called yet stays where the call will find it. */
static void
finish_request(struct telpher_kernel_request *r, telpher_status status,
               const struct tp_offload_report *report)
{
    if (r->number < r->group->next) {
        tp_list_remove(&r->link);
    }
    r->status = status;
    if (report != NULL) {
        r->result.result = report->result;
        r->result.rank = report->rank;
        memcpy(r->result.text, report->text, sizeof(r->result.text));
    }
    r->done = true;
}

void
tp_group_lose(struct tp_group *g, telpher_status status)
{
    if (!g->lost) {
        g->lost = true;
        g->status = status;
    }
    tp_list_for_each_safe(link, &g->requests)
    {
        struct telpher_kernel_request *r =
            tp_list_entry(link, struct telpher_kernel_request, link);

        finish_request(r, g->status, NULL);
        if (tp_list_is_linked(link)) {
            tp_list_remove(link); /* nobody has called it, nobody will */
            tp_free(r);
        }
    }
}

/* Kernels nobody has a request for: what failed is logged. */
static void
note_failures(const struct tp_group *g, const struct tp_offload_report *r)
{
    const char *name =
        r->kernel < g->names.count ? g->names.known[r->kernel].name : "?";

    if (r->failed != 0) {
        tp_warn("offload",
                "kernel %s: result %d in worker %d%s%s (kernels that failed: "
                "%u)",
                name, r->result, r->rank, r->text[0] != '\0' ? ": " : "", r->text,
                r->failed);
    }
}

static void
take_report(struct tp_group *g)
{
    struct tp_offload_report *r = &g->report;
    struct telpher_kernel_request *request;

    if (tp_offload_report_check(r) != TELPHER_OK) {
        tp_group_lose(g, TELPHER_ERR_PROTO);
        return;
    }
    if ((r->flags & TP_OFFLOAD_REPORT) != 0) {
        if (r->messages < g->acked || r->messages > g->sent) {
            tp_group_lose(g, TELPHER_ERR_PROTO);
            return;
        }
        for (; g->acked < r->messages; g->acked++) {
            g->in_flight_bytes -= g->slots[g->acked % TP_SEND_SLOTS].len;
        }
        note_failures(g, r);
    }
    if ((r->flags & TP_OFFLOAD_DONE) == 0) {
        return;
    }
    request = find_request(g, r->request);
    if (request == NULL && r->request >= g->next) {
        request = tp_request_create(g, r->request); /* other parents were faster */
    }
    if (request != NULL) {
        finish_request(
            request,
            (r->flags & TP_OFFLOAD_REFUSED) != 0 ? TELPHER_ERR_REFUSED : TELPHER_OK, r);
    }
}

static void
take_reports(struct tp_group *g)
{
    for (int done = 1; done && !g->lost;) {
        done = 0;
        if (g->report_request == MPI_REQUEST_NULL) {
            return;
        }
        if (PMPI_Test(&g->report_request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            tp_group_lose(g, TELPHER_ERR_PEER_LOST);
        } else if (done) {
            take_report(g);
            PMPI_Irecv(&g->report, sizeof(g->report), MPI_BYTE, 0, TP_TAG_REPORT,
                       g->control, &g->report_request);
        }
    }
}

/* May another message of @p len bytes leave? A single one may always. */
static bool
has_credit(const struct tp_group *g, uint64_t len)
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
    if (slot->capacity < len) {
        uint32_t capacity = TP_MAX(1024u, slot->capacity);
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
    if (g->sent + 1 - g->asked < TP_REPORT_EVERY && g->asked_bytes < TP_REPORT_BYTES) {
        return false;
    }
    g->asked = g->sent + 1;
    g->asked_bytes = 0;
    return true;
}

/* One message: @p len bytes of the records of calls first to last, there is credit for it. */
static telpher_status
send_message(struct tp_group *g, const uint8_t *data, uint32_t len, uint64_t first,
             uint64_t last, uint64_t offset, uint64_t total)
{
    struct tp_send_slot *slot = &g->slots[g->sent % TP_SEND_SLOTS];
    struct tp_offload_header h = {
        .magic = TP_OFFLOAD_MAGIC,
        .first = first,
        .last = last,
        .total = total,
        .offset = offset,
        .len = len,
        .root = (uint32_t)g->rank,
    };
    telpher_status status = prepare_slot(slot, (uint32_t)sizeof(h) + len);

    if (status != TELPHER_OK) {
        return status;
    }
    if (wants_report(g, slot->len)) {
        h.flags |= TP_OFFLOAD_REPORT;
    }
    memcpy(slot->data, &h, sizeof(h));
    if (len != 0) {
        memcpy(slot->data + sizeof(h), data, len);
    }
    if (PMPI_Isend(slot->data, (int)slot->len, MPI_BYTE, 0, TP_TAG_LAUNCH, g->control,
                   &slot->request) != MPI_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    g->sent++;
    g->in_flight_bytes += slot->len;
    tp_trace_instant("offload", "inject", TP_ARG("call", first), TP_ARG("bytes", len));
    return TELPHER_OK;
}

static void
drop_backlog(struct tp_backlog *b)
{
    tp_list_remove(&b->link);
    tp_buf_fini(&b->records);
    tp_free(b);
}

/* Sends the next message of what waits. @return AGAIN without credit */
static telpher_status
send_piece(struct tp_group *g, struct tp_backlog *b)
{
    uint64_t left = b->total - b->sent;
    uint32_t len = (uint32_t)TP_MIN(left, (uint64_t)PAYLOAD_MAX);
    telpher_status status;

    if (!has_credit(g, len + sizeof(struct tp_offload_header))) {
        return TELPHER_ERR_AGAIN;
    }
    status = send_message(g, tp_buf_data(&b->records), len, b->first, b->last, b->sent,
                          b->total);
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

void
tp_send_progress(struct tp_group *g)
{
    telpher_status status = TELPHER_OK;

    take_reports(g);
    while (!g->lost && status == TELPHER_OK && !tp_list_is_empty(&g->backlog)) {
        status = send_piece(
            g, tp_list_entry(tp_list_first(&g->backlog), struct tp_backlog, link));
        if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
            tp_group_lose(g, status);
        }
    }
}

/* Puts the records behind those that wait, in their message if there is room. */
static telpher_status
queue(struct tp_group *g, uint64_t number)
{
    struct tp_list *end = tp_list_last(&g->backlog);
    struct tp_backlog *b =
        end != NULL ? tp_list_entry(end, struct tp_backlog, link) : NULL;
    size_t len = tp_buf_len(&g->scratch);
    telpher_status status;

    if (b == NULL || b->sent != 0 || b->last + 1 != number ||
        b->total + len > PAYLOAD_MAX) {
        b = tp_zalloc(sizeof(*b), "queued launch");
        if (b == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        tp_buf_init(&b->records, 0);
        b->first = number;
        tp_list_init(&b->link);
    }
    status = tp_buf_append(&b->records, tp_buf_data(&g->scratch), len);
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

telpher_status
tp_send_records(struct tp_group *g, uint64_t number, struct tp_error *err)
{
    size_t len = tp_buf_len(&g->scratch);
    telpher_status status;

    if (!has_credit(g, len + sizeof(struct tp_offload_header)) ||
        !tp_list_is_empty(&g->backlog)) {
        tp_send_progress(g);
    }
    if (g->lost) {
        return tp_error_set(err, g->status, "the workers are lost");
    }
    if (len <= PAYLOAD_MAX && tp_list_is_empty(&g->backlog) &&
        has_credit(g, len + sizeof(struct tp_offload_header))) {
        status = send_message(g, tp_buf_data(&g->scratch), (uint32_t)len, number,
                              number, 0, len);
    } else {
        status = queue(g, number);
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
        TP_OFFLOAD_NO_KERNEL, TP_OFFLOAD_REFUSED | TP_OFFLOAD_DONE, number, 0, 0};

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

    while (!tp_list_is_empty(&g->backlog)) {
        drop_backlog(
            tp_list_entry(tp_list_first(&g->backlog), struct tp_backlog, link));
    }
    for (int i = 0; i < TP_SEND_SLOTS; i++) {
        struct tp_send_slot *slot = &g->slots[i];

        if (!g->lost && slot->request != MPI_REQUEST_NULL) {
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
