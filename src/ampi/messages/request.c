/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: operations under way, from start to completion. */
#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

static struct tp_list free_requests = {&free_requests, &free_requests};

struct tp_ampi_request *
tp_ampi_request_allocate(void)
{
    struct tp_list *link = tp_list_pop_front(&free_requests);

    return link != NULL ? tp_list_entry(link, struct tp_ampi_request, link)
                        : tp_malloc(sizeof(struct tp_ampi_request), "MPI request");
}

struct tp_ampi_request *
tp_ampi_request_take(enum tp_ampi_request_kind kind)
{
    struct tp_ampi_request *req = tp_ampi_request_allocate();

    if (req != NULL) {
        tp_ampi_request_init(req, kind, NULL, false, NULL, 0, MPI_DATATYPE_NULL, 0, 0);
    }
    return req;
}

void
tp_ampi_request_give(struct tp_ampi_request *req)
{
    if (req->handle != 0) {
        tp_ampi_handle_destroy(req->handle);
        req->handle = 0;
    }
    if (req->holds) {
        tp_ampi_type_unref(req->type);
        tp_ampi_comm_unref(req->comm);
    }
    if (req->destroy != NULL) {
        req->destroy(req->arg);
    }
    if (tp_unlikely(tp_ampi.movable)) {
        tp_free(req); /* it lies in its rank's heap */
    } else {
        tp_list_push_front(&free_requests, &req->link);
    }
}

void
tp_ampi_requests_fini(void)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(&free_requests)) != NULL) {
        tp_free(tp_list_entry(link, struct tp_ampi_request, link));
    }
}

void
tp_ampi_request_init(struct tp_ampi_request *req, enum tp_ampi_request_kind kind,
                     struct tp_ampi_comm *comm, unsigned lane, const void *buf,
                     size_t count, MPI_Datatype type, int peer, int tag)
{
    memset(req, 0, offsetof(struct tp_ampi_request, comm)); /* faster than all of it */
    tp_list_init(&req->link);
    req->kind = (uint8_t)kind;
    req->owner = NULL;
    req->waiter = NULL;
    req->packed = NULL;
    req->fn = NULL;
    req->destroy = NULL;
    req->arg = NULL;
    req->comm = comm;
    req->lane = (uint8_t)lane;
    req->buf = (void *)(uintptr_t)buf;
    req->count = count;
    req->type = type;
    req->peer = peer;
    req->tag = tag;
}

int
tp_ampi_request_make(enum tp_ampi_request_kind kind, struct tp_ampi_comm *comm,
                     unsigned lane, const void *buf, size_t count, MPI_Datatype type,
                     int peer, int tag, struct tp_ampi_request **ret)
{
    struct tp_ampi_request *req = tp_ampi_request_allocate();

    if (req == NULL) {
        return MPI_ERR_NO_MEM;
    }
    tp_ampi_request_init(req, kind, comm, lane, buf, count, type, peer, tag);
    req->handle = tp_ampi_handle_create(TP_AMPI_REQUEST, req);
    if (req->handle == 0) {
        tp_ampi_request_give(req);
        return MPI_ERR_NO_MEM;
    }
    req->owner = comm->owner;
    req->holds = true;
    comm->refs++;
    tp_ampi_type_ref(type);
    *ret = req;
    return MPI_SUCCESS;
}

/* ---- start and end ---- */

void
tp_ampi_request_complete(struct tp_ampi_request *req, int error)
{
    bool freed = req->freed; /* a part may end with its whole */
    struct tp_ampi_waiter *waiter = req->waiter;

    if (tp_unlikely(req->parts != 0) && req->kind == TP_AMPI_RECV_REQUEST) {
        tp_ampi_request_part(req, error); /* the later of both completes it */
        return;
    }
    if (req->kind == TP_AMPI_SEND_REQUEST) {
        tp_list_remove(&req->link);
    }
    if (req->packed != NULL) {
        tp_free(req->packed);
        req->packed = NULL;
    }
    /* a persistent one makes a request of its own at each start */
    if (req->mode == TP_AMPI_BUFFERED && !req->persistent) {
        req->owner->bsend_used -= req->cap + MPI_BSEND_OVERHEAD;
    }
    req->error = error;
    req->complete = true;
    if (tp_ampi.virtual_ranks && req->kind == TP_AMPI_RECV_REQUEST &&
        req->lane == TP_AMPI_LANE_PROGRAM) {
        tp_ampi_learn_urgency(req->comm->owner);
    }
    if (waiter != NULL) {
        req->waiter = NULL;
        if (--waiter->needed == 0 && waiter->light != NULL) {
            tp_ampi_wake(waiter->light);
        }
    }
    if (tp_unlikely(req->done != NULL)) {
        req->done(req, error);
    }
    if (freed) {
        tp_ampi_request_give(req);
    }
}

void
tp_ampi_request_part(struct tp_ampi_request *req, int error)
{
    if (error != MPI_SUCCESS) {
        req->error = error;
    }
    if (--req->parts == 0) {
        tp_ampi_request_complete(req, req->error);
    }
}

int
tp_ampi_request_start(struct tp_ampi_request *req)
{
    req->complete = req->canceled = false;
    req->active = true;
    req->error = MPI_SUCCESS;
    req->got = 0;
    if (req->peer == MPI_PROC_NULL && req->kind != TP_AMPI_LIGHT_REQUEST) {
        req->source = MPI_PROC_NULL;
        req->got_tag = MPI_ANY_TAG;
        tp_ampi_request_complete(req, MPI_SUCCESS);
        return MPI_SUCCESS;
    }
    switch (req->kind) {
    case TP_AMPI_RECV_REQUEST:
        tp_ampi_post(req);
        return MPI_SUCCESS;
    case TP_AMPI_SEND_REQUEST:
        return tp_ampi_start_send(req);
    case TP_AMPI_PARTED_SEND:
    case TP_AMPI_PARTED_RECV:
        return tp_ampi_partitioned_start(req);
    default:
        return tp_ampi_light_begin(req);
    }
}

void
tp_ampi_request_await(struct tp_ampi_request *req)
{
    struct tp_ampi_waiter waiter = {.light = tp_ampi.lights.current, .needed = 1};

    if (req->complete) {
        return;
    }
    req->waiter = &waiter;
    tp_ampi_block(&waiter);
}

/* ---- status ---- */

void
tp_ampi_status_set_bytes(MPI_Status *status, size_t bytes)
{
    status->telpher_bytes[0] = (uint32_t)bytes;
    status->telpher_bytes[1] = (uint32_t)((uint64_t)bytes >> 32);
}

size_t
tp_ampi_status_bytes(const MPI_Status *status)
{
    return (size_t)((uint64_t)status->telpher_bytes[1] << 32 |
                    status->telpher_bytes[0]);
}

void
tp_ampi_status_empty(MPI_Status *status, int source)
{
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = source;
        status->MPI_TAG = MPI_ANY_TAG;
        if (source != MPI_PROC_NULL) { /* a call with one status leaves it */
            status->MPI_ERROR = MPI_SUCCESS;
        }
        status->telpher_canceled = 0;
        tp_ampi_status_set_bytes(status, 0);
    }
}

void
tp_ampi_request_status(const struct tp_ampi_request *req, MPI_Status *status)
{
    if (req->kind == TP_AMPI_GENERAL_REQUEST) {
        (void)tp_ampi_general_status(req, status);
        return;
    }
    if (status == MPI_STATUS_IGNORE) {
        return;
    }
    if (req->kind != TP_AMPI_RECV_REQUEST && req->kind != TP_AMPI_PARTED_RECV) {
        tp_ampi_status_empty(status, MPI_ANY_SOURCE);
    } else {
        status->MPI_SOURCE = req->source;
        status->MPI_TAG = req->got_tag;
        tp_ampi_status_set_bytes(status, req->got);
    }
    status->telpher_canceled = req->canceled;
}

/* ---- collectives on light threads ---- */

static void
run_collective(void *arg)
{
    struct tp_ampi_request *req = arg;
    struct tp_ampi_rank *owner = req->owner;
    int error;

    (void)tp_ampi_heap_use(owner->heap);
    error = req->fn(req->arg);
    owner->collectives--;
    tp_ampi_request_complete(req, error);
    (void)tp_ampi_heap_use(NULL);
}

/* @return false: it has to wait */
static bool
start_collective(struct tp_ampi_request *req)
{
    struct tp_light *light = NULL;

    if (req->owner->collectives < tp_ampi.collectives_max) {
        light = tp_lights_start(&tp_ampi.lights, run_collective, req);
    }
    if (light == NULL) {
        return false;
    }
    light->owner = req->owner;
    req->owner->collectives++;
    return true;
}

int
tp_ampi_light_begin(struct tp_ampi_request *req)
{
    tp_list_push_back(&tp_ampi.starved, &req->link);
    tp_ampi_lights_feed();
    return MPI_SUCCESS;
}

/* Those of a rank start in the order of its calls. */
void
tp_ampi_lights_feed(void)
{
    struct tp_list waiting = {&waiting, &waiting}, *link;

    while ((link = tp_list_pop_front(&tp_ampi.starved)) != NULL) {
        if (!start_collective(tp_list_entry(link, struct tp_ampi_request, link))) {
            tp_list_push_back(&waiting, link);
        }
    }
    while ((link = tp_list_pop_front(&waiting)) != NULL) {
        tp_list_push_back(&tp_ampi.starved, link);
    }
}

static int
make_light(int (*fn)(void *arg), void (*destroy)(void *arg), void *arg,
           struct tp_ampi_request **ret)
{
    struct tp_ampi_request *req = tp_ampi_request_take(TP_AMPI_LIGHT_REQUEST);

    if (req != NULL) {
        req->handle = tp_ampi_handle_create(TP_AMPI_REQUEST, req);
    }
    if (req == NULL || req->handle == 0) {
        if (req != NULL) {
            tp_ampi_request_give(req);
        }
        return MPI_ERR_NO_MEM;
    }
    req->owner = tp_ampi_current();
    req->fn = fn;
    req->destroy = destroy;
    req->arg = arg;
    *ret = req;
    return MPI_SUCCESS;
}

int
tp_ampi_start_light(int (*fn)(void *arg), void *arg, MPI_Request *ret)
{
    struct tp_ampi_request *req;
    int error = make_light(fn, NULL, arg, &req);

    if (error == MPI_SUCCESS) {
        *ret = req->handle;
        (void)tp_ampi_request_start(req);
    }
    return error;
}

int
tp_ampi_init_light(int (*fn)(void *arg), void (*destroy)(void *arg), void *arg,
                   MPI_Request *ret)
{
    struct tp_ampi_request *req;
    int error = make_light(fn, destroy, arg, &req);

    if (error == MPI_SUCCESS) {
        req->persistent = true;
        req->complete = true;
        *ret = req->handle;
    }
    return error;
}
