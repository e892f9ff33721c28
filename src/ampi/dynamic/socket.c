/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between the roots of two groups, until the groups share a context. The name of a
 * port, telpher:HOST:NUMBER:SECRET, has a secret, without which nothing is accepted.
 */
#include "ampi/dynamic/dynamic.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/random.h"
#include "base/text/hex.h"

enum { SECRET_BYTES = 16, HOST_BYTES = 128, WAIT_MS = 1, BACKLOG = 16 };
/* Time limit for a client to send the secret. The clients after it wait meanwhile. */
#define SECRET_NS TP_CLOCK_S
#define SCHEME "telpher:"

struct port {
    char host[HOST_BYTES], number[8];
    uint8_t secret[SECRET_BYTES];
};

/* ---- names ---- */

static bool
read_name(const char *name, struct port *ret)
{
    char secret[2 * SECRET_BYTES + 1];

    return sscanf(name, SCHEME "%127[^:]:%7[0-9]:%32[0-9a-f]", ret->host, ret->number,
                  secret) == 3 &&
           tp_hex_decode(ret->secret, sizeof(ret->secret), secret) == TELPHER_OK;
}

static void
write_name(const char *host, int number, const uint8_t *secret,
           char ret_name[MPI_MAX_PORT_NAME])
{
    char text[2 * SECRET_BYTES + 1];

    tp_hex_encode(text, secret, SECRET_BYTES);
    (void)snprintf(ret_name, MPI_MAX_PORT_NAME, SCHEME "%s:%d:%s", host, number, text);
}

int
tp_ampi_socket_listen(bool far, char ret_name[MPI_MAX_PORT_NAME])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr =
                                 htonl(far ? INADDR_ANY : INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    char host[HOST_BYTES] = "127.0.0.1";
    uint8_t secret[SECRET_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || tp_random_bytes(secret, sizeof(secret)) != TELPHER_OK ||
        (far && gethostname(host, sizeof(host) - 1) != 0) ||
        bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        (void)close(fd);
        return -1;
    }
    write_name(host, ntohs(at.sin_port), secret, ret_name);
    return fd;
}

/* ---- transfer ---- */

/* Waits a moment for the socket. Lets other ranks of the process run. */
static void
wait_for(int fd, short events)
{
    struct pollfd entry = {.fd = fd, .events = events};

    if (poll(&entry, 1, 0) == 0) {
        tp_ampi_yield();
        (void)poll(&entry, 1, tp_ampi.lights.current == NULL ? WAIT_MS : 0);
    }
}

/* Counts what send() or recv() moved. @return false: the connection is closed or has failed */
static bool
advance(ssize_t moved, size_t *done)
{
    if (moved > 0) {
        *done += (size_t)moved;
        return true;
    }
    return moved < 0 && (errno == EAGAIN || errno == EINTR);
}

static int
swap_until(int fd, const void *mine, size_t len, void *theirs, size_t their_len,
           tp_ns deadline)
{
    size_t sent = 0, got = 0;
    bool open = fd >= 0;

    while (open && (sent < len || got < their_len)) {
        if (tp_clock_passed(deadline)) {
            return MPI_ERR_PORT;
        }
        wait_for(fd,
                 (short)((sent < len ? POLLOUT : 0) | (got < their_len ? POLLIN : 0)));
        if (sent < len) {
            open = advance(send(fd, (const char *)mine + sent, len - sent,
                                MSG_DONTWAIT | MSG_NOSIGNAL),
                           &sent);
        }
        if (open && got < their_len) {
            open = advance(
                recv(fd, (char *)theirs + got, their_len - got, MSG_DONTWAIT), &got);
        }
    }
    return open ? MPI_SUCCESS : MPI_ERR_PORT;
}

int
tp_ampi_socket_swap(int fd, const void *mine, size_t len, void *theirs,
                    size_t their_len)
{
    return swap_until(fd, mine, len, theirs, their_len, TP_CLOCK_FOREVER);
}

/* ---- connections ---- */

int
tp_ampi_socket_accept(int listener, const char *name, bool (*is_over)(void *user),
                      void *user)
{
    uint8_t secret[SECRET_BYTES];
    struct port port;

    if (!read_name(name, &port)) {
        errno = EINVAL;
        return -1;
    }
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0 &&
            swap_until(fd, NULL, 0, secret, sizeof(secret),
                       tp_clock_deadline(SECRET_NS)) == MPI_SUCCESS &&
            tp_random_equal(secret, port.secret, sizeof(secret))) {
            return fd;
        }
        if (fd >= 0) {
            (void)close(fd);
        } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            return -1;
        } else if (is_over != NULL && is_over(user)) {
            errno = ECHILD;
            return -1;
        }
        wait_for(listener, POLLIN);
    }
}

static int
connect_to(const struct port *port)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int fd = -1;

    if (getaddrinfo(port->host, port->number, &hints, &found) != 0) {
        errno = EHOSTUNREACH;
        return -1;
    }
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            int why = errno;

            (void)close(fd);
            fd = -1;
            errno = why;
        }
    }
    freeaddrinfo(found);
    return fd;
}

int
tp_ampi_socket_connect(const char *name)
{
    struct port port;
    int fd;

    if (!read_name(name, &port)) {
        errno = EINVAL;
        return -1;
    }
    fd = connect_to(&port);
    if (fd >= 0 && tp_ampi_socket_swap(fd, port.secret, sizeof(port.secret), NULL, 0) !=
                       MPI_SUCCESS) {
        (void)close(fd);
        errno = ECONNRESET;
        fd = -1;
    }
    return fd;
}
