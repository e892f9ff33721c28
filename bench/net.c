/* SPDX-License-Identifier: Apache-2.0 */
/* The few socket calls the floors need; see net.h. */
#include "bench/net.h"
#include "bench/bench.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Splits "ADDR:PORT" or "[ADDR]:PORT" at the last colon, and looks the address up. */
static struct addrinfo *
look_up(const char *address)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    char host[256];
    size_t length;
    int error;

    if (colon == NULL || colon == address ||
        (size_t)(colon - address) >= sizeof(host)) {
        bench_fail("%s: not of the form ADDR:PORT", address);
        return NULL;
    }
    length = (size_t)(colon - address);
    if (address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    }
    memcpy(host, address, length);
    host[length] = '\0';
    error = getaddrinfo(host, colon + 1, &hints, &found);
    if (error != 0) {
        bench_fail("%s: %s", address, gai_strerror(error));
        return NULL;
    }
    return found;
}

static int
port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        return -1;
    }
    return ntohs(address.ss_family == AF_INET6
                     ? ((struct sockaddr_in6 *)&address)->sin6_port
                     : ((struct sockaddr_in *)&address)->sin_port);
}

int
bench_net_listen(const char *address, int *ret_port)
{
    struct addrinfo *at = look_up(address);
    const int yes = 1;
    int fd;

    if (at == NULL) {
        return -1;
    }
    fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 16) != 0) {
        bench_fail("cannot listen on %s: %s", address, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
    } else if (ret_port != NULL) {
        *ret_port = port_of(fd);
    }
    freeaddrinfo(at);
    return fd;
}

int
bench_net_connect(const char *address)
{
    struct addrinfo *at = look_up(address);
    int fd;

    if (at == NULL) {
        return -1;
    }
    fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) != 0 ||
        !bench_net_no_delay(fd)) {
        bench_fail("cannot connect to %s: %s", address, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
    }
    freeaddrinfo(at);
    return fd;
}

/* Both ends have one address, so both are on this machine. */
static bool
is_within_machine(int fd)
{
    struct sockaddr_in ours = {0}, theirs = {0};
    socklen_t ours_len = sizeof(ours), theirs_len = sizeof(theirs);

    return getsockname(fd, (struct sockaddr *)&ours, &ours_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &theirs_len) == 0 &&
           ours.sin_family == AF_INET && theirs.sin_family == AF_INET &&
           ours.sin_addr.s_addr == theirs.sin_addr.s_addr;
}

bool
bench_net_no_delay(int fd)
{
    const int yes = 1;

    if (is_within_machine(
            fd)) { /* what cannot be crowded need not be paced, as BBR does */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    }
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0;
}

bool
bench_net_send(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        const ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            return bench_fail("sending %zu bytes failed: %s", len, strerror(errno));
        }
        if (sent > 0) {
            at += sent;
            len -= (size_t)sent;
        }
    }
    return true;
}

bool
bench_net_receive(int fd, void *data, size_t len, bool spin)
{
    char *at = data;

    while (len > 0) {
        const ssize_t got = recv(fd, at, len, spin ? MSG_DONTWAIT : 0);

        if (got == 0) {
            return bench_fail(
                "the other side closed the connection, %zu bytes are missing", len);
        }
        if (got < 0 && errno != EINTR && !(spin && errno == EAGAIN)) {
            return bench_fail("receiving %zu bytes failed: %s", len, strerror(errno));
        }
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
    return true;
}
