/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens listening sockets. A Unix socket has mode 0600 from the start. A stale socket
 * file of a dead server is removed; one in use never is.
 */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/tcp/tcp_int.h"

enum { BACKLOG = 128 };

static telpher_status
listen_failed(const char *address, const char *what, struct tp_error *err)
{
    if (errno == EADDRINUSE) {
        return tp_error_set_errno(
            err, errno, "listening on %s: another program has this port, choose one",
            address);
    }
    return tp_error_set_errno(err, errno, "listening on %s: %s()", address, what);
}

static int
new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* True if a server answers at the socket file. */
static bool
is_answered(const struct sockaddr_un *sun)
{
    int fd = new_socket(AF_UNIX);
    bool answered = false;

    if (fd >= 0) {
        answered = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 ||
                   errno != ECONNREFUSED;
        tp_tcp_close(fd);
    }
    return answered;
}

static telpher_status
remove_stale(const char *address, const struct sockaddr_un *sun, struct tp_error *err)
{
    struct stat st;

    if (lstat(sun->sun_path, &st) != 0) {
        return errno == ENOENT ? TELPHER_OK : listen_failed(address, "stat", err);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return tp_error_set(err, TELPHER_ERR_EXISTS,
                            "listening on %s: the file exists and is no socket",
                            address);
    }
    if (is_answered(sun)) {
        return tp_error_set(
            err, TELPHER_ERR_BUSY,
            "listening on %s: another server is listening there already", address);
    }
    if (unlink(sun->sun_path) != 0 && errno != ENOENT) {
        return listen_failed(address, "unlink", err);
    }
    return TELPHER_OK;
}

static telpher_status
listen_unix(const char *address, const struct tp_tcp_address *a, int *ret_fd,
            struct tp_error *err)
{
    struct sockaddr_un sun;
    telpher_status status;
    int fd;

    tp_tcp_unix_address(a, &sun);
    status = remove_stale(address, &sun, err);
    if (status != TELPHER_OK) {
        return status;
    }
    fd = new_socket(AF_UNIX);
    if (fd < 0) {
        return listen_failed(address, "socket", err);
    }
    /* bind() creates the file with the socket's mode, so it is never open to others */
    if (fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
        status = listen_failed(address, "bind", err);
    } else if (listen(fd, BACKLOG) != 0) {
        status = listen_failed(address, "listen", err);
        (void)unlink(sun.sun_path);
    }
    if (status != TELPHER_OK) {
        tp_tcp_close(fd);
        return status;
    }
    *ret_fd = fd;
    return TELPHER_OK;
}

/* @return a listening descriptor, or -1 and errno. */
static int
listen_one(const struct addrinfo *ai)
{
    int fd = new_socket(ai->ai_family), one = 1;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    tp_tcp_set_options(fd); /* accepted sockets inherit them */
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        tp_tcp_close(fd);
        return -1;
    }
    return fd;
}

/* Chooses one address of a name, IPv4 if there is one: clients try all addresses of
 * a name, but a user who writes 127.0.0.1 means that one. */
static int
listen_any(const struct addrinfo *list)
{
    int fd = -1;

    for (int v4 = 1; v4 >= 0 && fd < 0; v4--) {
        for (const struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next) {
            if ((ai->ai_family == AF_INET) == (v4 == 1)) {
                fd = listen_one(ai);
            }
        }
    }
    return fd;
}

static telpher_status
listen_tcp(const char *address, const struct tp_tcp_address *a, int *ret_fd,
           struct tp_error *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list;
    int rc = getaddrinfo(a->host, a->port, &hints, &list);
    int fd;

    if (rc != 0) {
        return tp_error_set(err, TELPHER_ERR_UNREACHABLE, "listening on %s: %s",
                            address, gai_strerror(rc));
    }
    errno = EADDRNOTAVAIL;
    fd = listen_any(list);
    freeaddrinfo(list);
    if (fd < 0) {
        return listen_failed(address, "bind", err);
    }
    *ret_fd = fd;
    return TELPHER_OK;
}

telpher_status
tp_tcp_listen(const char *address, int *ret_fd, struct tp_error *err)
{
    struct tp_tcp_address a;
    telpher_status status = tp_tcp_parse_address(address, &a, err);

    if (status != TELPHER_OK) {
        return status;
    }
    return a.is_unix ? listen_unix(address, &a, ret_fd, err)
                     : listen_tcp(address, &a, ret_fd, err);
}
