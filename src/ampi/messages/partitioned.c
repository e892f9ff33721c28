/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioned sends and receives. Each partition of the sender is a message, so a receiver may cut the
 * data in another way. At MPI_Psend_init the sender offers how it cuts; offers meet receives in the
 * order of both, by communicator, rank and tag.
 */
#include "ampi/process.h"
#include "base/alloc.h"

struct offer {
    uint32_t partitions;
    int32_t tag; /**< of the first partition's messages */
    uint64_t len; /**< [bytes] of a partition */
};

struct parted {
    struct tp_ampi_request *whole; /**< the program's request */
    int count; /**< of the program's partitions */
    size_t elements, len; /**< of one: elements, [bytes] */
    struct tp_ampi_request *parts; /**< one for each partition of the sender */
    struct offer offer;
    struct tp_ampi_request offered; /**< receive of the offer */
    bool known; /**< the offer is here */
    uint32_t *missing; /**< by the receiver's partitions: messages to come */
    char *packed; /**< received data whose elements have gaps, else NULL */
};

static void
destroy_parted(void *arg)
{
    struct parted *p = arg;

    if (tp_list_is_linked(&p->offered.link)) { /* it never met a send */
        tp_list_remove(&p->offered.link);
    }
    tp_free(p->parts);
    tp_free(p->missing);
    tp_free(p->packed);
    tp_free(p);
}

static char *
partition_at(const struct parted *p, int number)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(p->whole->type);

    return (char *)p->whole->buf +
           (ptrdiff_t)p->elements * number * (type->ub - type->lb);
}

/* ---- the sender ---- */

static void
end_part(struct tp_ampi_request *part, int error)
{
    tp_ampi_request_part(part->whole, error);
}

static int
init_send(struct parted *p)
{
    struct tp_ampi_request *whole = p->whole;
    int error = MPI_SUCCESS;

    for (int i = 0; i < p->count; i++) {
        struct tp_ampi_request *part = &p->parts[i];

        tp_ampi_request_init(part, TP_AMPI_SEND_REQUEST, whole->comm,
                             TP_AMPI_LANE_PARTITION, partition_at(p, i), p->elements,
                             whole->type, whole->peer, p->offer.tag + i);
        part->complete = true;
        part->owner = whole->owner;
        part->whole = whole;
        part->done = end_part;
    }
    if (!tp_ampi_send_now(whole->comm, TP_AMPI_LANE_OFFER, &p->offer, sizeof(p->offer),
                          MPI_BYTE, whole->peer, whole->tag, &error)) {
        return MPI_ERR_INTERN; /* longer than any eager message */
    }
    return error;
}

/* The tags of a sender's partitions follow each other; after 2^31 they begin again. */
static void
take_tags(struct parted *p)
{
    struct tp_ampi_comm *comm = p->whole->comm;

    if (comm->partitions > (uint32_t)(TP_AMPI_TAG_MAX - p->count)) {
        comm->partitions = 0;
    }
    p->offer = (struct offer){.partitions = (uint32_t)p->count,
                              .tag = (int32_t)comm->partitions,
                              .len = p->len};
    comm->partitions += (uint32_t)p->count;
}

/* ---- the receiver ---- */

/* Lengths by which partitions of both sides correspond: of `own` ones and of the sender's.
 * Without any data they still arrive after MPI_Pready, so both sides cut an imagined length. */
static size_t
lengths(const struct parted *p, size_t *ret_theirs)
{
    bool empty = p->len == 0 && p->offer.len == 0;

    *ret_theirs = empty ? (size_t)p->count : p->offer.len;
    return empty ? p->offer.partitions : p->len;
}

/* Part `number` of the sender is here: the receiver's partitions that it reaches into. Those
 * of no bytes of a send that has data are never missing. */
static void
mark_arrived(struct parted *p, size_t number)
{
    size_t theirs, len = lengths(p, &theirs);
    size_t from = number * theirs, end = len != 0 ? from + theirs : from;

    for (size_t at = from; at < end && at / len < (size_t)p->count;
         at += len - at % len) {
        int own = (int)(at / len);

        if (--p->missing[own] == 0 && p->packed != NULL) {
            tp_ampi_type_unpack(p->packed + (size_t)own * p->len, p->len,
                                partition_at(p, own), p->elements, p->whole->type);
        }
    }
}

static void
end_received(struct tp_ampi_request *part, int error)
{
    struct parted *p = part->whole->arg;

    mark_arrived(p, (size_t)(part - p->parts));
    tp_ampi_request_part(part->whole, error);
}

/* [bytes] of part `number` that the receiver has room for. */
static size_t
room_of(const struct parted *p, size_t number)
{
    size_t all = p->len * (size_t)p->count;
    size_t from = TP_MIN(number * p->offer.len, all);

    return TP_MIN(all - from, (size_t)p->offer.len);
}

static void
count_missing(struct parted *p)
{
    size_t theirs, len = lengths(p, &theirs);

    for (int own = 0; own < p->count; own++) {
        size_t first = (size_t)own * len, last = first + len - 1;

        p->missing[own] = 0;
        if (len != 0 && theirs != 0) {
            size_t end = TP_MIN(last / theirs + 1, p->offer.partitions);

            p->missing[own] = (uint32_t)(end - TP_MIN(first / theirs, end));
        }
    }
}

/* Posts the receives of all parts. The request holds one part more until it has done so. */
static void
post_parts(struct parted *p)
{
    struct tp_ampi_request *whole = p->whole;
    char *base = p->packed;
    ptrdiff_t offset = 0;
    size_t len;

    if (base == NULL) {
        (void)tp_ampi_type_span(whole->type, p->elements * (size_t)p->count, &offset,
                                &len);
        base = (char *)whole->buf + offset;
    }
    count_missing(p);
    whole->parts += p->offer.partitions;
    for (size_t i = 0; i < p->offer.partitions; i++) {
        struct tp_ampi_request *part = &p->parts[i];
        size_t room = room_of(p, i);

        tp_ampi_request_init(part, TP_AMPI_RECV_REQUEST, whole->comm,
                             TP_AMPI_LANE_PARTITION,
                             room != 0 ? base + i * p->offer.len : NULL, room, MPI_BYTE,
                             whole->peer, p->offer.tag + (int)i);
        part->whole = whole;
        part->done = end_received;
        tp_ampi_post(part);
    }
    tp_ampi_request_part(whole, MPI_SUCCESS);
}

static void
on_offer(struct tp_ampi_request *offered, int error)
{
    struct parted *p = offered->arg;
    struct tp_ampi_heap *heap = tp_ampi_heap_use(p->whole->owner->heap);

    p->parts = tp_alloc_array(TP_MAX(p->offer.partitions, 1u), sizeof(*p->parts),
                              "partitioned receive");
    (void)tp_ampi_heap_use(heap);
    if (error != MPI_SUCCESS || p->parts == NULL) {
        tp_ampi_abort(MPI_ERR_NO_MEM);
    }
    p->known = true;
    if (p->whole->active) {
        post_parts(p);
    }
}

/* Makes room for elements with gaps, and waits for an offer. */
static int
init_recv(struct parted *p)
{
    struct tp_ampi_request *whole = p->whole;
    ptrdiff_t offset;
    size_t all;
    bool gaps =
        !tp_ampi_type_span(whole->type, p->elements * (size_t)p->count, &offset, &all);

    p->missing =
        tp_alloc_array((size_t)TP_MAX(p->count, 1), sizeof(*p->missing), "partitions");
    p->packed = gaps ? tp_malloc(all, "packed MPI data") : NULL;
    if (p->missing == NULL || (gaps && p->packed == NULL)) {
        return MPI_ERR_NO_MEM;
    }
    tp_ampi_request_init(&p->offered, TP_AMPI_RECV_REQUEST, whole->comm,
                         TP_AMPI_LANE_OFFER, &p->offer, sizeof(p->offer), MPI_BYTE,
                         whole->peer, whole->tag);
    p->offered.arg = p;
    p->offered.done = on_offer;
    tp_ampi_post(&p->offered);
    return MPI_SUCCESS;
}

/* ---- both ---- */

/* The queues of the partitioned calls of a communicator. */
static int
open_lanes(struct tp_ampi_comm *comm)
{
    for (uint32_t lane = TP_AMPI_LANE_OFFER; lane < TP_AMPI_LANES; lane++) {
        comm->mail[lane] = tp_ampi_mail_of(comm->owner, comm->context + lane);
        if (comm->mail[lane] == NULL) {
            return MPI_ERR_NO_MEM;
        }
    }
    return MPI_SUCCESS;
}

/* Gives a request its partitions. Without memory the caller gives the request back. */
static int
fill(struct tp_ampi_request *whole, int partitions)
{
    struct parted *p = tp_zalloc(sizeof(*p), "partitioned MPI request");

    if (p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    tp_list_init(&p->offered.link);
    p->whole = whole;
    p->count = partitions;
    p->elements = whole->count;
    whole->arg = p;
    whole->destroy = destroy_parted;
    whole->persistent = true;
    whole->complete = true;
    if (whole->peer == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    p->len = p->elements * tp_ampi_type_size(whole->type);
    if (whole->kind == TP_AMPI_PARTED_RECV) {
        return init_recv(p);
    }
    p->parts = tp_alloc_array((size_t)TP_MAX(partitions, 1), sizeof(*p->parts),
                              "partitioned send");
    if (p->parts == NULL) {
        return MPI_ERR_NO_MEM;
    }
    take_tags(p);
    return init_send(p);
}

/* Can all partitions lie in memory? */
static bool
is_possible(int partitions, MPI_Count count, MPI_Datatype type)
{
    size_t size = tp_ampi_type_size(type), each = (size_t)count;

    return partitions == 0 || each == 0 || size == 0 ||
           each <= PTRDIFF_MAX / size / (size_t)partitions;
}

static int
init(enum tp_ampi_request_kind kind, const void *buf, int partitions, MPI_Count count,
     MPI_Datatype type, int peer, int tag, MPI_Comm handle, MPI_Request *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_request *whole;
    int error = tp_ampi_check(handle, buf, count < 0 ? -1 : count > 0, type, peer, tag,
                              false, &comm);

    if (error != MPI_SUCCESS) {
        return error;
    }
    if (partitions < 0) {
        return tp_ampi_error(comm, MPI_ERR_ARG,
                             "%d partitions: a count is not negative", partitions);
    }
    if (peer != MPI_PROC_NULL && !is_possible(partitions, count, type)) {
        return tp_ampi_error(
            comm, MPI_ERR_COUNT,
            "%d partitions of %lld elements are longer than any memory", partitions,
            (long long)count);
    }
    error = open_lanes(comm);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_request_make(kind, comm, TP_AMPI_LANE_PARTITION, buf,
                                     (size_t)count, type, peer, tag, &whole);
    }
    if (error == MPI_SUCCESS) {
        error = fill(whole, partitions);
        if (error != MPI_SUCCESS) {
            tp_ampi_request_give(whole);
        }
    }
    if (error == MPI_SUCCESS) {
        *ret = whole->handle;
    }
    return tp_ampi_error(comm, error, "no memory for %d partitions", partitions);
}

int
PMPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    int error;

    (void)info;
    tp_ampi_enter();
    error = init(TP_AMPI_PARTED_SEND, buf, partitions, count, type, dest, tag, comm,
                 request);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Psend_init);

int
PMPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                int source, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    int error;

    (void)info;
    tp_ampi_enter();
    error = init(TP_AMPI_PARTED_RECV, buf, partitions, count, type, source, tag, comm,
                 request);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Precv_init);

int
tp_ampi_partitioned_start(struct tp_ampi_request *whole)
{
    struct parted *p = whole->arg;

    whole->parts = 1;
    if (whole->kind == TP_AMPI_PARTED_SEND) {
        whole->parts += (unsigned)p->count;
        for (int i = 0; i < p->count; i++) {
            p->parts[i].active = false;
        }
        tp_ampi_request_part(whole, MPI_SUCCESS);
        return MPI_SUCCESS;
    }
    whole->source = whole->peer;
    whole->got_tag = whole->tag;
    whole->got = p->len * (size_t)p->count;
    if (p->known) {
        post_parts(p);
    }
    return MPI_SUCCESS;
}

/* ---- partitions ---- */

/* The partitions of a request. NULL: it is none of `kind`, which was reported */
static struct parted *
find_parted(MPI_Request handle, enum tp_ampi_request_kind kind)
{
    struct tp_ampi_request *whole = tp_ampi_handle_get(handle, TP_AMPI_REQUEST);

    if (whole == NULL || whole->kind != kind) {
        (void)tp_ampi_error(whole != NULL ? whole->comm : NULL, MPI_ERR_REQUEST,
                            "%#x is no request of %s", handle,
                            kind == TP_AMPI_PARTED_SEND ? "MPI_Psend_init"
                                                        : "MPI_Precv_init");
        return NULL;
    }
    return whole->arg;
}

static int
mark_ready(struct parted *p, int partition)
{
    struct tp_ampi_comm *comm = p->whole->comm;

    if (!p->whole->active) {
        return tp_ampi_error(comm, MPI_ERR_REQUEST,
                             "a partition is ready, but its send is not started: call "
                             "MPI_Start first");
    }
    if (partition < 0 || partition >= p->count) {
        return tp_ampi_error(comm, MPI_ERR_ARG,
                             "there is no partition %d: %d were made", partition,
                             p->count);
    }
    if (p->parts == NULL) { /* to MPI_PROC_NULL */
        return MPI_SUCCESS;
    }
    if (p->parts[partition].active) {
        return tp_ampi_error(comm, MPI_ERR_ARG,
                             "partition %d was ready before; it is once for each start",
                             partition);
    }
    return tp_ampi_request_start(&p->parts[partition]);
}

int
PMPI_Pready_range(int low, int high, MPI_Request request)
{
    struct parted *p;
    int error = MPI_ERR_REQUEST;

    tp_ampi_enter();
    p = find_parted(request, TP_AMPI_PARTED_SEND);
    if (p != NULL) {
        error = low <= high ? MPI_SUCCESS
                            : tp_ampi_error(p->whole->comm, MPI_ERR_ARG,
                                            "the range of partitions %d to %d is empty",
                                            low, high);
    }
    for (int i = low; i <= high && error == MPI_SUCCESS; i++) {
        error = mark_ready(p, i);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Pready_range);

int
PMPI_Pready(int partition, MPI_Request request)
{
    return PMPI_Pready_range(partition, partition, request);
}
TP_MPI_NAME(Pready);

int
PMPI_Pready_list(int length, const int partitions[], MPI_Request request)
{
    struct parted *p;
    int error = MPI_ERR_REQUEST;

    tp_ampi_enter();
    p = find_parted(request, TP_AMPI_PARTED_SEND);
    if (p != NULL) {
        error = MPI_SUCCESS;
    }
    for (int i = 0; i < length && error == MPI_SUCCESS; i++) {
        error = mark_ready(p, partitions[i]);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Pready_list);

/* @return an error class, which was reported */
static int
test_arrived(MPI_Request handle, int partition, bool *ret)
{
    struct parted *p = find_parted(handle, TP_AMPI_PARTED_RECV);

    if (p == NULL) {
        return MPI_ERR_REQUEST;
    }
    if (partition < 0 || partition >= p->count) {
        return tp_ampi_error(p->whole->comm, MPI_ERR_ARG,
                             "there is no partition %d: %d were made", partition,
                             p->count);
    }
    *ret = !p->whole->active || p->whole->complete ||
           (p->known && p->missing[partition] == 0);
    return MPI_SUCCESS;
}

int
PMPI_Parrived(MPI_Request request, int partition, int *flag)
{
    bool arrived = true;
    int error = MPI_SUCCESS;

    tp_ampi_enter();
    if (request != MPI_REQUEST_NULL) {
        error = test_arrived(request, partition, &arrived);
        if (error == MPI_SUCCESS && !arrived) {
            tp_ampi_yield();
            error = test_arrived(request, partition, &arrived);
        }
    }
    *flag = arrived;
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Parrived);
