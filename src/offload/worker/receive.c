/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives launches in order. Worker 0 queues a launch until the calls before it have
 * arrived from other roots. Launches are forwarded down the tree before their kernels
 * run.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "offload/worker/worker_int.h"

enum { SHARED_LOOKS = 8 }; /* polls of shared memory before the next call of MPI */

static telpher_status
post(struct worker *w, struct incoming *in)
{
    int rc =
        w->tree.rank == 0
            ? PMPI_Irecv(in->data, TP_OFFLOAD_MESSAGE_MAX, MPI_BYTE, MPI_ANY_SOURCE,
                         w->launch_tag, w->control, &in->request)
            : PMPI_Irecv(in->data, TP_OFFLOAD_MESSAGE_MAX, MPI_BYTE, w->tree.parent,
                         TP_OFFLOAD_TAG_FORWARD, w->tree.comm, &in->request);

    return rc == MPI_SUCCESS ? TELPHER_OK : TELPHER_ERR_IO;
}

static telpher_status
take_shared(struct worker *w, struct incoming **ret_in)
{
    struct incoming *in = &w->by_memory;
    telpher_status status = tp_frame_ring_peek(&w->shared, &in->data);

    in->len = w->shared.len;
    *ret_in = status == TELPHER_OK ? in : NULL;
    return status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
}

/* A poll of memory is far cheaper than a call of MPI. */
static bool
look_shared(const struct worker *w)
{
    for (int i = 0; i < SHARED_LOOKS; i++) {
        if (tp_frame_ring_has(&w->shared)) {
            return true;
        }
    }
    return false;
}

/* The next message: from shared memory, or by MPI if @p by_mpi. */
static telpher_status
await(struct worker *w, struct incoming *by_mpi, struct incoming **ret_in)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;
    telpher_status status = TELPHER_OK;
    MPI_Status from;
    int done = 0, len = 0;

    *ret_in = NULL;
    while (status == TELPHER_OK && *ret_in == NULL) {
        if (look_shared(w)) {
            status = take_shared(w, ret_in);
            continue;
        }
        if (PMPI_Test(&by_mpi->request, &done, &from) != MPI_SUCCESS) {
            return TELPHER_ERR_IO;
        }
        if (done) {
            PMPI_Get_count(&from, MPI_BYTE, &len);
            by_mpi->len = (uint64_t)len;
            by_mpi->source = from.MPI_SOURCE;
            *ret_in = by_mpi;
        } else {
            tp_offload_idle_round(&idle);
        }
    }
    return status;
}

static telpher_status
forward_and_run(struct worker *w, struct incoming *in,
                const struct tp_offload_header *h)
{
    telpher_status status;

    for (int i = 0; i < w->tree.count; i++) {
        PMPI_Isend(in->data, (int)in->len, MPI_BYTE, w->tree.children[i],
                   TP_OFFLOAD_TAG_FORWARD, w->tree.comm, &in->forwards[i]);
    }
    status = tp_offload_worker_consume(w, h, in->data + h->bytes);
    for (int i = 0; i < w->tree.count && status == TELPHER_OK; i++) {
        status = tp_offload_mpi_wait(&in->forwards[i], TP_CLOCK_FOREVER);
    }
    return status;
}

static void
drop(struct incoming *in)
{
    tp_free(in->data);
    tp_free(in);
}

/* Queues a copy until the calls before it have arrived from other roots. */
static telpher_status
hold(struct worker *w, const struct incoming *in)
{
    struct incoming *copy;

    if (w->held_bytes + in->len > w->held_max) {
        return TELPHER_ERR_LIMIT;
    }
    copy = tp_zalloc(sizeof(*copy), "message that waits");
    if (copy != NULL) {
        copy->data = tp_alloc_aligned(64, in->len, "message that waits");
    }
    if (copy == NULL || copy->data == NULL) {
        tp_free(copy);
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(copy->data, in->data, in->len);
    copy->len = in->len;
    tp_list_push_back(&w->held, &copy->link);
    w->held_bytes += in->len;
    return TELPHER_OK;
}

/* Runs queued messages that are next in order. Parts of one launch arrive in order. */
static telpher_status
run_held(struct worker *w)
{
    telpher_status status = TELPHER_OK;
    bool again = true;

    while (again && status == TELPHER_OK && !w->ended) {
        again = false;
        tp_list_for_each_entry_safe(struct incoming, in, &w->held, link) {
            struct tp_offload_header h;

            if (tp_offload_header_check(in->data, in->len, &h) != TELPHER_OK ||
                h.first != w->next) {
                continue;
            }
            tp_list_remove(&in->link);
            w->held_bytes -= in->len;
            status = forward_and_run(w, in, &h);
            drop(in);
            again = true;
            break;
        }
    }
    return status;
}

static telpher_status
handle(struct worker *w, struct incoming *in)
{
    struct tp_offload_header h;
    telpher_status status = tp_offload_header_check(in->data, in->len, &h);

    if (status != TELPHER_OK) {
        return status;
    }
    if (w->tree.rank == 0 && (h.root != (uint32_t)in->source || h.first < w->next)) {
        return TELPHER_ERR_PROTO;
    }
    if (h.first != w->next) {
        return w->tree.rank == 0 ? hold(w, in) : TELPHER_ERR_PROTO;
    }
    status = forward_and_run(w, in, &h);
    return status == TELPHER_OK ? run_held(w) : status;
}

telpher_status
tp_offload_worker_receive(struct worker *w)
{
    telpher_status status = TELPHER_OK;
    unsigned at = 0;

    for (int i = 0; i < WORKER_RECEIVES && status == TELPHER_OK; i++) {
        w->ring[i].data = tp_alloc_aligned(64, TP_OFFLOAD_MESSAGE_MAX, "receive");
        status = w->ring[i].data == NULL ? TELPHER_ERR_NO_MEMORY : post(w, &w->ring[i]);
    }
    while (status == TELPHER_OK && !w->ended) {
        struct incoming *in;

        status = await(w, &w->ring[at % WORKER_RECEIVES], &in);
        if (status == TELPHER_OK) {
            status = handle(w, in);
        }
        if (in == &w->by_memory) {
            tp_frame_ring_consume(&w->shared);
            tp_frame_ring_release(&w->shared);
        } else if (status == TELPHER_OK && !w->ended) {
            status = post(w, in);
            at++;
        }
    }
    for (int i = 0; i < WORKER_RECEIVES; i++) {
        if (w->ring[i].request != MPI_REQUEST_NULL) {
            PMPI_Cancel(&w->ring[i].request);
            PMPI_Wait(&w->ring[i].request, MPI_STATUS_IGNORE);
        }
        tp_free(w->ring[i].data);
    }
    tp_list_for_each_safe(link, &w->held) {
        tp_list_remove(link);
        drop(tp_list_entry(link, struct incoming, link));
    }
    return status;
}
