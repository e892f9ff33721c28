/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announced data. The receiver asks for it, and it comes in parts through the ring: two
 * copies, but by two processors at the same time and within their caches, up to 4 times as
 * fast as the kernel's single one. From a sender that sleeps, and of much data, it is fetched
 * from the other process's memory with one copy, where that is allowed.
 */
#include <errno.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/shm/net_int.h"

enum {
    SLICE = 1 << 20, /* [bytes] fetched before others have their turn */
    PULL_MAX =
        16 << 20, /* [bytes] that come through the ring of a sender that is awake */
};
/** A process that was alive this long ago has no successor of the same number yet. */
#define FRESH (10 * TP_CLOCK_MS)

/* ---- announced, wanted ---- */

struct tp_net_bulk *
tp_shm_announce(struct shm_link *link, const struct tp_shm_message *m)
{
    struct tp_list *idle = tp_list_pop_front(&link->net->idle_bulks);
    struct tp_net_bulk *bulk = idle != NULL
                                   ? tp_list_entry(idle, struct tp_net_bulk, work)
                                   : tp_malloc(sizeof(*bulk), "shm bulk in");

    if (bulk == NULL) {
        return NULL;
    }
    *bulk = (struct tp_net_bulk){
        .link = link, .address = m->address, .len = m->len, .id = m->id};
    tp_list_init(&bulk->work);
    tp_list_init(&bulk->all);
    tp_list_push_back(&link->bulks, &bulk->all);
    return bulk;
}

static void
free_bulk(struct tp_net_bulk *bulk)
{
    tp_list_remove(&bulk->all);
    tp_list_remove(&bulk->work);
    tp_list_push_front(&bulk->link->net->idle_bulks, &bulk->work);
}

static void
answer_later(struct tp_net_bulk *bulk, enum tp_shm_answer_code code)
{
    bulk->code = code;
    bulk->state = SHM_ANSWERING;
    tp_list_remove(&bulk->work);
    tp_list_push_back(&bulk->link->net->answering, &bulk->work);
}

static bool
is_to_be_fetched(const struct shm_link *link, size_t len)
{
    return link->can_fetch &&
           (len > PULL_MAX || atomic_load(&link->door->sleeping) != 0);
}

void
tp_shm_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst, size_t len,
                 struct tp_net_op *op)
{
    bulk->dst = dst;
    bulk->want = len;
    bulk->op = op;
    if (!bulk->link->gone && is_to_be_fetched(bulk->link, len)) {
        bulk->state = SHM_FETCHING;
        tp_list_push_back(&shm_net(net)->fetching, &bulk->work);
    } else {
        answer_later(bulk, TP_SHM_PULL);
    }
}

void
tp_shm_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk)
{
    (void)net;
    if (!bulk->link->gone) { /* else void, and freed with the link's */
        answer_later(bulk, TP_SHM_DROPPED);
    }
}

static void
tell(struct tp_net_bulk *bulk, telpher_status status)
{
    struct tp_net_op *op = bulk->op;

    bulk->op = NULL;
    op->done(op, status);
}

/* ---- fetched ---- */

/* @return [bytes] read, 0 if they cannot be */
static size_t
read_process(int32_t pid, void *dst, uint64_t address, size_t len)
{
    struct iovec to = {dst, len}, from = {(void *)(uintptr_t)address, len};
    ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);

    if (got == 0) {
        errno = EFAULT;
    }
    return got > 0 ? (size_t)got : 0;
}

bool
tp_shm_probe(const struct tp_shm_card *card)
{
    uint64_t seen = 0;

    return read_process(card->process.pid, &seen, card->probe_at, sizeof(seen)) ==
               sizeof(seen) &&
           seen == card->probe;
}

static bool
is_alive(struct shm_link *link)
{
    struct shm_net *n = link->net;
    tp_ns now = tp_clock_ns();

    if (tp_clock_between(n->looked_at, now) < FRESH) {
        return true;
    }
    if (tp_shm_is_dead(link)) {
        tp_shm_end_process(link);
        return false;
    }
    return true;
}

static void
fetch_failed(struct tp_net_bulk *bulk)
{
    struct shm_link *link = bulk->link;

    if (atomic_load(&link->door->left) != 0) { /* and what it had may be freed */
        tp_shm_end(link, TELPHER_OK);
    } else if (errno == ESRCH || tp_shm_is_dead(link)) {
        tp_shm_end_process(link);
    } else if (errno == EPERM) {
        tp_info(SHM_TOPIC, "rank %u no longer lets its memory be read", link->rank);
        link->can_fetch = false;
        answer_later(bulk, TP_SHM_PULL);
    } else {
        tp_debug(SHM_TOPIC, "memory of rank %u cannot be read: %m", link->rank);
        answer_later(bulk, TP_SHM_FAILED);
        tell(bulk, TELPHER_ERR_IO);
    }
}

/* A slice of it. */
static unsigned
fetch(struct tp_net_bulk *bulk)
{
    struct shm_link *link = bulk->link;
    size_t got;

    if (link->ending || !is_alive(link)) {
        return 0; /* lost as soon as all is read */
    }
    got = read_process(link->card.process.pid, bulk->dst + bulk->got,
                       bulk->address + bulk->got,
                       TP_MIN(bulk->want - bulk->got, (size_t)SLICE));
    if (got == 0) {
        fetch_failed(bulk);
        return 1;
    }
    atomic_thread_fence(memory_order_acquire);
    if (tp_shm_look_at_door(link)) {
        return 1; /* what was read may be what it uses that memory for now */
    }
    bulk->got += got;
    if (bulk->got == bulk->want) {
        answer_later(bulk, TP_SHM_DONE);
    }
    return 1;
}

/* ---- pulled ---- */

bool
tp_shm_take_part(struct shm_link *link, const uint8_t *data, size_t len)
{
    struct tp_list *first = tp_list_first(&link->pulled);
    struct tp_net_bulk *bulk;

    if (first == NULL) {
        return false;
    }
    bulk = tp_list_entry(first, struct tp_net_bulk, work);
    if (len == 0 || len > bulk->want - bulk->got) {
        return false;
    }
    memcpy(bulk->dst + bulk->got, data, len);
    bulk->got += len;
    if (bulk->got == bulk->want) {
        struct tp_net_op *op = bulk->op;

        free_bulk(bulk);
        op->done(op, TELPHER_OK);
    }
    return true;
}

/* ---- answered ---- */

/* The peer's count of answers that it has read is believed if there were so many. */
static bool
write_answer(struct shm_link *link, const struct tp_net_bulk *bulk)
{
    struct tp_shm_ring *ring = link->in;
    struct tp_shm_answer *a = &ring->answers[link->answered % TP_SHM_ANSWERS];
    uint32_t tail = atomic_load_explicit(&ring->answers_tail, memory_order_acquire);

    if (link->answered - tail >= TP_SHM_ANSWERS) {
        if (link->answered - tail > TP_SHM_ANSWERS) {
            tp_warn(SHM_TOPIC, "rank %u wrote nonsense: answers it has read",
                    link->rank);
            tp_shm_cut(link, TELPHER_ERR_PROTO);
        }
        return false;
    }
    a->code = bulk->code;
    a->id = bulk->id;
    a->len = bulk->want;
    atomic_store_explicit(&a->seq, ++link->answered, memory_order_release);
    tp_shm_wake(link);
    return true;
}

/* Writes the answer if there is room; those asked for wait, the others are over. */
static bool
answer(struct tp_net_bulk *bulk)
{
    struct shm_link *link = bulk->link;

    if (link->ending || !write_answer(link, bulk)) {
        if (!link->ending) {
            atomic_store(&link->in->answers_starved, 1);
        }
        return false;
    }
    atomic_store_explicit(&link->in->answers_starved, 0, memory_order_relaxed);
    if (bulk->code == TP_SHM_PULL) {
        bulk->got = 0;
        bulk->state = SHM_PULLED;
        tp_list_remove(&bulk->work);
        tp_list_push_back(&link->pulled, &bulk->work);
        return true;
    }
    tp_list_remove(&bulk->work);
    if (bulk->op != NULL) {
        tell(bulk, TELPHER_OK);
    }
    free_bulk(bulk);
    return true;
}

unsigned
tp_shm_run_bulks(struct shm_net *n)
{
    unsigned count = 0;

    tp_list_for_each_safe(link, &n->fetching)
    {
        count += fetch(tp_list_entry(link, struct tp_net_bulk, work));
    }
    tp_list_for_each_safe(link, &n->answering)
    {
        count += answer(tp_list_entry(link, struct tp_net_bulk, work));
    }
    return count;
}

/* ---- lost ---- */

/* A callback may take another of the same peer: it ends as well. */
void
tp_shm_lose_bulks(struct shm_link *link)
{
    struct tp_list *at = link->bulks.next;

    while (at != &link->bulks) {
        struct tp_net_bulk *bulk = tp_list_entry(at, struct tp_net_bulk, all);

        tp_list_remove(&bulk->work);
        at = at->next;
        if (bulk->op != NULL) {
            tell(bulk, TELPHER_ERR_PEER_LOST);
            at = link->bulks.next;
        }
    }
}

void
tp_shm_free_bulks(struct shm_link *link)
{
    struct tp_list *at;

    while ((at = tp_list_first(&link->bulks)) != NULL) {
        free_bulk(tp_list_entry(at, struct tp_net_bulk, all));
    }
}

void
tp_shm_free_idle_bulks(struct shm_net *n)
{
    struct tp_list *at;

    while ((at = tp_list_pop_front(&n->idle_bulks)) != NULL) {
        tp_free(tp_list_entry(at, struct tp_net_bulk, work));
    }
}
