/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of workers: credit, results of kernels, errors; and the requests that they
 * complete. */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

/*
 * Requests are ordered by number, because calls are, and reports arrive in the order of
 * calls. The oldest is first; calls that other parents made before this one are last.
 */
static struct telpher_kernel_request *
request_of(struct tp_list *link)
{
    return tp_list_entry(link, struct telpher_kernel_request, link);
}

static struct telpher_kernel_request *
find_called(struct tp_offload_group *g, uint64_t number)
{
    tp_list_for_each(link, &g->requests) {
        if (request_of(link)->number >= number) {
            return request_of(link)->number == number ? request_of(link) : NULL;
        }
    }
    return NULL;
}

static struct telpher_kernel_request *
find_early(struct tp_offload_group *g, uint64_t number)
{
    for (struct tp_list *link = g->requests.prev;
         link != &g->requests && request_of(link)->number >= number;
         link = link->prev) {
        if (request_of(link)->number == number) {
            return request_of(link);
        }
    }
    return NULL;
}

telpher_status
tp_offload_request_reserve(struct tp_offload_group *g)
{
    if (g->spare == NULL) {
        g->spare = tp_zalloc(sizeof(*g->spare), "kernel request");
    }
    return g->spare != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

struct telpher_kernel_request *
tp_offload_request_create(struct tp_offload_group *g, uint64_t number)
{
    struct telpher_kernel_request *r = find_early(g, number);

    if (r != NULL) {
        return r; /* its report arrived before this parent made the call */
    }
    if (tp_offload_request_reserve(g) != TELPHER_OK) {
        return NULL;
    }
    r = g->spare;
    g->spare = NULL;
    r->group = g;
    r->number = number;
    tp_list_push_back(&g->requests, &r->link);
    return r;
}

/* A result for a call that this parent has not made yet stays where the call will
 * find it. */
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
tp_offload_request_release(struct telpher_kernel_request *r)
{
    r->is_released = true;
    if (r->gates == 0) {
        tp_free(r);
    }
}

void
tp_offload_group_lose(struct tp_offload_group *g, telpher_status status)
{
    if (!g->lost) {
        g->lost = true;
        g->status = status;
        tp_offload_group_tell_lost(g);
    }
    tp_list_for_each_entry_safe(struct telpher_kernel_request, r, &g->requests, link) {
        finish_request(r, g->status, NULL);
        if (tp_list_is_linked(&r->link)) {
            tp_list_remove(&r->link); /* no parent has made the call, and none will */
            tp_free(r);
        }
    }
}

telpher_status
tp_offload_group_error_lost(const struct tp_offload_group *g, struct tp_error *err)
{
    return tp_error_set(
        err, g->status,
        "the %d workers of this communicator are lost: %s; their output "
        "says more, and no later call reaches them",
        g->workers, telpher_status_text(g->status));
}

/* For kernels without a request: logs failures. */
static void
note_failures(const struct tp_offload_group *g, const struct tp_offload_report *r)
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

/* Calls after the workers' end, by any parent: no worker runs them. */
static void
note_end(struct tp_offload_group *g, uint64_t last)
{
    g->ended = true;
    g->has_ended = true;
    g->last = last;
    tp_list_for_each_safe(link, &g->requests) {
        if (request_of(link)->number > last) {
            finish_request(request_of(link), TELPHER_ERR_PEER_LOST, NULL);
        }
    }
}

static void
take_report(struct tp_offload_group *g)
{
    struct tp_offload_report *r = &g->report;
    struct telpher_kernel_request *request;

    if (tp_offload_report_check(r) != TELPHER_OK) {
        tp_offload_group_lose(g, TELPHER_ERR_PROTO);
        return;
    }
    if ((r->flags & TP_OFFLOAD_REPORT) != 0) {
        if (r->messages < g->acked || r->messages > g->sent) {
            tp_offload_group_lose(g, TELPHER_ERR_PROTO);
            return;
        }
        for (; g->acked < r->messages; g->acked++) {
            g->in_flight_bytes -= g->slots[g->acked % TP_OFFLOAD_SEND_SLOTS].len;
        }
        note_failures(g, r);
    }
    if ((r->flags & TP_OFFLOAD_END) != 0) {
        note_end(g, r->request);
    }
    if ((r->flags & TP_OFFLOAD_DONE) == 0) {
        return;
    }
    request = find_called(g, r->request);
    if (request == NULL && r->request >= g->next) {
        request =
            tp_offload_request_create(g, r->request); /* other parents were faster */
        if (request == NULL) {
            tp_offload_group_lose(
                g, TELPHER_ERR_NO_MEMORY); /* the call would wait forever */
            return;
        }
    }
    if (request != NULL) {
        finish_request(
            request,
            (r->flags & TP_OFFLOAD_REFUSED) != 0 ? TELPHER_ERR_REFUSED : TELPHER_OK, r);
    }
}

void
tp_offload_take_reports(struct tp_offload_group *g)
{
    for (int done = 1; done && !g->lost;) {
        done = 0;
        if (g->report_request == MPI_REQUEST_NULL) {
            return;
        }
        if (PMPI_Test(&g->report_request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            tp_offload_group_lose(g, TELPHER_ERR_PEER_LOST);
        } else if (done) {
            take_report(g);
            tp_offload_report_clear(&g->report);
            PMPI_Irecv(&g->report, sizeof(g->report), MPI_BYTE, 0,
                       TP_OFFLOAD_TAG_REPORT, g->control, &g->report_request);
        }
    }
}
