/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies the peer of a connection for quotas. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text/text.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/broker/session/shares.h"

/* An IPv6 network gives a host as many addresses as it wants, so a /64 counts as one
 * peer. */
enum { V6_NETWORK_BYTES = 8 };

static void
take_address(struct tp_broker_peer *peer, const struct sockaddr_storage *addr)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;

    peer->kind = addr->ss_family;
    if (addr->ss_family == AF_INET) {
        memcpy(peer->name, &v4->sin_addr, sizeof(v4->sin_addr));
    } else if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        peer->kind = AF_INET;
        memcpy(peer->name, (const uint8_t *)&v6->sin6_addr + 12, 4);
    } else if (addr->ss_family == AF_INET6) {
        memcpy(peer->name, &v6->sin6_addr, V6_NETWORK_BYTES);
    }
}

void
tp_broker_peer_of(int fd, struct tp_broker_peer *ret_peer)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    struct ucred user;
    socklen_t user_len = sizeof(user);

    memset(ret_peer, 0, sizeof(*ret_peer));
    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0) {
        return; /* already disconnected: kind 0, which all such peers share */
    }
    if (addr.ss_family != AF_UNIX) {
        take_address(ret_peer, &addr);
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_len) == 0) {
        ret_peer->kind = AF_UNIX;
        memcpy(ret_peer->name, &user.uid, sizeof(user.uid));
    }
}

bool
tp_broker_peer_equal(const struct tp_broker_peer *a, const struct tp_broker_peer *b)
{
    return a->kind == b->kind && memcmp(a->name, b->name, sizeof(a->name)) == 0;
}

void
tp_broker_owner_of(const struct tp_broker_session *s, char *dst, size_t size)
{
    uid_t user;

    if (s->secured) {
        (void)snprintf(dst, size, "%s", s->who);
        tp_text_tame(dst, false);
    } else if (s->peer.kind == AF_UNIX) {
        memcpy(&user, s->peer.name, sizeof(user));
        (void)snprintf(dst, size, "user %lu", (unsigned long)user);
    } else {
        tp_broker_host_of(s, dst, size);
    }
}

void
tp_broker_host_of(const struct tp_broker_session *s, char *dst, size_t size)
{
    char address[INET6_ADDRSTRLEN] = "unknown";
    uint8_t name[16] = {0};

    memcpy(name, s->peer.name, sizeof(s->peer.name));
    if (s->peer.kind != AF_UNIX) {
        (void)inet_ntop((int)s->peer.kind, name, address, sizeof(address));
    }
    (void)snprintf(dst, size, "%s", s->peer.kind == AF_UNIX ? "local" : address);
}

void
tp_broker_program_of(int fd, char *dst, size_t size)
{
    socklen_t len = sizeof(struct ucred);
    struct ucred peer = {0};
    char path[64];
    FILE *file;

    dst[0] = '\0';
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || peer.pid <= 0) {
        return; /* not a Unix socket */
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/comm", (long)peer.pid);
    file = fopen(path, "re");
    if (file != NULL && fgets(dst, (int)size, file) != NULL) {
        dst[strcspn(dst, "\n")] = '\0';
        tp_text_tame(dst, false);
    }
    if (file != NULL) {
        (void)fclose(file); /* it was only read */
    }
}
