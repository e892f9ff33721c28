/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads rendezvous data from the peer's memory, by one copy in the kernel. Through the
 * ring there are two copies, by two processors at the same time. Which is faster
 * depends on machine and load; the engine measures it.
 */
#include <errno.h>
#include <sys/uio.h>

#include "base/trace/log.h"
#include "transport/shm/net_int.h"

/** A process that was alive this long ago was not yet replaced by another with the
 *  same pid. */
#define FRESH (10 * TP_CLOCK_MS)

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
tp_shm_probe(const struct tp_shm_address *address)
{
    uint64_t seen = 0;

    return read_process(address->process.pid, &seen, address->probe_at, sizeof(seen)) ==
               sizeof(seen) &&
           seen == address->probe;
}

enum tp_net_get
tp_shm_can_get(struct tp_net *net, uint32_t peer)
{
    const struct shm_link *link = shm_net(net)->links[peer];

    if (link->gone || !link->can_get) {
        return TP_NET_GET_NEVER;
    }
    return atomic_load(&link->listener->sleeping) != 0 ? TP_NET_GET_NOW
                                                       : TP_NET_GET_MAYBE;
}

static bool
is_alive(struct shm_link *link)
{
    if (tp_clock_ns() - link->net->looked_at < FRESH) {
        return true;
    }
    if (tp_shm_is_dead(link)) {
        tp_shm_end_process(link);
        return false;
    }
    return true;
}

static telpher_status
get_failed(struct shm_link *link)
{
    if (atomic_load(&link->listener->left) != 0) { /* and its memory may be freed */
        tp_shm_end(link, TELPHER_OK);
        return TELPHER_ERR_PEER_LOST;
    }
    if (errno == ESRCH || tp_shm_is_dead(link)) {
        tp_shm_end_process(link);
        return TELPHER_ERR_PEER_LOST;
    }
    if (errno == EPERM) {
        tp_info(SHM_TOPIC, "memory of rank %u can no longer be read: EPERM",
                link->rank);
        link->can_get = false;
        return TELPHER_ERR_UNSUPPORTED;
    }
    tp_debug(SHM_TOPIC, "memory of rank %u cannot be read: %m", link->rank);
    return TELPHER_ERR_IO;
}

telpher_status
tp_shm_get(struct tp_net *net, uint32_t peer, uint64_t address, void *dst, size_t len)
{
    struct shm_link *link = shm_net(net)->links[peer];

    if (link->ending || !is_alive(link)) {
        /* reported after everything that it sent was read */
        return TELPHER_ERR_PEER_LOST;
    }
    for (size_t done = 0, got; done < len; done += got) {
        got = read_process(link->address.process.pid, (uint8_t *)dst + done,
                           address + done, len - done);
        if (got == 0) {
            return get_failed(link);
        }
    }
    atomic_thread_fence(memory_order_acquire);
    /* a peer that has left may have reused the memory before it was read */
    return tp_shm_check_listener(link) ? TELPHER_ERR_PEER_LOST : TELPHER_OK;
}
