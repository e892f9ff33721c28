/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's address: an id of its network namespace, its port, and its IP addresses.
 * Peers in the same namespace connect by loopback, others to the first IP address that
 * answers.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os/descriptor.h"
#include "base/os/process.h"
#include "transport/tcp/net_int.h"
#include "transport/tcp/tcp_int.h"

/** An address; then count IP addresses, each 1 byte of length (4 or 16) and as many
 *  bytes. */
struct address {
    uint64_t place;
    uint16_t port;
    uint8_t count, reserved;
} __attribute__((packed));

/* An id equal for ranks that share a loopback interface: from inode and device of
 * the network namespace, and the machine's boot id. */
static uint64_t
read_place(void)
{
    struct stat st;
    uint8_t machine[TP_PROCESS_MACHINE_BYTES] = {0};
    uint64_t place;

    if (tp_process_machine(machine) != TELPHER_OK ||
        stat("/proc/self/ns/net", &st) != 0) {
        /* unique: matches no other rank */
        st = (struct stat){.st_ino = (ino_t)getpid()};
    }
    place = tp_hash_add(TP_HASH_START, machine, sizeof(machine));
    return place ^ ((uint64_t)st.st_ino << 20) ^ (uint64_t)st.st_dev;
}

telpher_status
tp_tcp_net_listen(struct tcp_net *n, struct tp_error *err)
{
    union tp_tcp_sockaddr a = {0};
    socklen_t len = sizeof(a);
    telpher_status status = tp_tcp_listen("[::]:0", &n->listen_fd, err);

    if (status != TELPHER_OK) { /* a machine without IPv6 */
        if (err != NULL) {
            *err = (struct tp_error){0};
        }
        status = tp_tcp_listen("0.0.0.0:0", &n->listen_fd, err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    tp_descriptor_own(n->listen_fd);
    if (getsockname(n->listen_fd, &a.any, &len) != 0) {
        return TELPHER_ERR_IO;
    }
    n->port = ntohs(a.any.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
    n->place = read_place();
    return TELPHER_OK;
}

/* Appends an IP address. @return the new end */
static uint8_t *
put_address(uint8_t *end, const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        *end++ = 4;
        memcpy(end, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
        return end + 4;
    }
    *end++ = 16;
    memcpy(end, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
    return end + 16;
}

static bool
is_useful(const struct ifaddrs *i)
{
    if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 ||
        (i->ifa_flags & IFF_LOOPBACK) != 0) {
        return false;
    }
    if (i->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const void *)i->ifa_addr;

        return !IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr);
    }
    return i->ifa_addr->sa_family == AF_INET;
}

size_t
tp_tcp_net_address(struct tcp_net *n, uint8_t *dst)
{
    struct address address = {.place = n->place, .port = n->port};
    uint8_t *end = dst + sizeof(address);
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0) {
        list = NULL;
    }
    for (int family = AF_INET; family == AF_INET || family == AF_INET6;
         family = family == AF_INET ? AF_INET6 : 0) {
        for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
            if (address.count < TP_TCP_ADDRESSES - 1 && is_useful(i) &&
                i->ifa_addr->sa_family == family) {
                end = put_address(end, i->ifa_addr);
                address.count++;
            }
        }
    }
    if (list != NULL) {
        freeifaddrs(list);
    }
    memcpy(dst, &address, sizeof(address));
    return (size_t)(end - dst);
}

static void
set_address(union tp_tcp_sockaddr *ret, const uint8_t *bytes, size_t len, uint16_t port)
{
    memset(ret, 0, sizeof(*ret));
    if (len == 4) {
        ret->in.sin_family = AF_INET;
        ret->in.sin_port = htons(port);
        memcpy(&ret->in.sin_addr, bytes, 4);
    } else {
        ret->in6.sin6_family = AF_INET6;
        ret->in6.sin6_port = htons(port);
        memcpy(&ret->in6.sin6_addr, bytes, 16);
    }
}

unsigned
tp_tcp_net_addresses(const struct tcp_net *n, const uint8_t *src, size_t len,
                     union tp_tcp_sockaddr ret[TP_TCP_ADDRESSES])
{
    static const uint8_t loopback[4] = {127, 0, 0, 1};
    const uint8_t *at = src + sizeof(struct address), *end = src + len;
    struct address address;
    unsigned count = 0;

    if (len < sizeof(address)) {
        return 0;
    }
    memcpy(&address, src, sizeof(address));
    if (address.place == n->place) {
        set_address(&ret[count++], loopback, 4, address.port);
        return count;
    }
    for (unsigned i = 0; i < address.count && count < TP_TCP_ADDRESSES && at < end;
         i++) {
        size_t bytes = *at++;

        if ((bytes != 4 && bytes != 16) || (size_t)(end - at) < bytes) {
            break;
        }
        set_address(&ret[count++], at, bytes, address.port);
        at += bytes;
    }
    return count;
}
