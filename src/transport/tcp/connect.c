/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to a name: tries each of its addresses with a share of the time left, so
 * that one that drops packets does not use all of it. getaddrinfo() has no deadline, so
 * a thread calls it, which is detached when the time is up.
 */
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/container/refcount.h"
#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/os/thread.h"
#include "transport/tcp/tcp_int.h"

static const struct addrinfo lookup_hints = {
    .ai_family = AF_UNSPEC,
    .ai_socktype = SOCK_STREAM,
    .ai_flags = AI_ADDRCONFIG,
};

/* Shared by the resolver thread and its caller; the last one frees it. */
struct lookup {
    struct tp_refcount ref;
    struct tp_tcp_address address;
    struct tp_mutex lock;
    struct tp_cond finished;
    /* protected by lock: */
    bool done;
    int rc;
    struct addrinfo *list;
};

static void
unref_lookup(struct lookup *l)
{
    if (!tp_refcount_put(&l->ref)) {
        return;
    }
    if (l->list != NULL) {
        freeaddrinfo(l->list);
    }
    tp_cond_fini(&l->finished);
    tp_mutex_fini(&l->lock);
    tp_free(l);
}

static void *
run_lookup(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(l->address.host, l->address.port, &lookup_hints, &list);

    tp_mutex_lock(&l->lock);
    l->done = true;
    l->rc = rc;
    l->list = rc == 0 ? list : NULL;
    tp_cond_signal(&l->finished);
    tp_mutex_unlock(&l->lock);
    unref_lookup(l);
    return NULL;
}

static telpher_status
start_lookup(const struct tp_tcp_address *a, struct lookup **ret_lookup)
{
    struct lookup *l = tp_zalloc(sizeof(*l), "name lookup");
    pthread_t thread;

    if (l == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_refcount_init(&l->ref);
    tp_refcount_get(&l->ref); /* the thread's reference */
    l->address = *a;
    tp_mutex_init(&l->lock);
    tp_cond_init(&l->finished);
    if (tp_thread_create(&thread, "tp-lookup", run_lookup, l) != TELPHER_OK) {
        unref_lookup(l);
        unref_lookup(l);
        return TELPHER_ERR_LIMIT;
    }
    pthread_detach(thread);
    *ret_lookup = l;
    return TELPHER_OK;
}

static telpher_status
lookup_failed(const struct tp_tcp_address *a, int rc, struct tp_error *err)
{
    return tp_error_set(err, TELPHER_ERR_UNREACHABLE, "looking up %s: %s", a->host,
                        gai_strerror(rc));
}

static telpher_status
lookup_name(const struct tp_tcp_address *a, uint64_t deadline_ns,
            struct addrinfo **ret_list, struct tp_error *err)
{
    struct lookup *l;
    telpher_status status = start_lookup(a, &l);

    if (status != TELPHER_OK) {
        return tp_error_set(err, status, "looking up %s: %s", a->host,
                            telpher_status_text(status));
    }
    tp_mutex_lock(&l->lock);
    while (!l->done && status == TELPHER_OK) {
        status = tp_cond_wait(&l->finished, &l->lock, deadline_ns);
    }
    if (!l->done) {
        status = tp_error_set(err, TELPHER_ERR_TIMEOUT,
                              "looking up %s: the name service did not answer in time",
                              a->host);
    } else if (l->rc != 0) {
        status = lookup_failed(a, l->rc, err);
    } else {
        status = TELPHER_OK;
        *ret_list = l->list;
        l->list = NULL;
    }
    tp_mutex_unlock(&l->lock);
    unref_lookup(l);
    return status;
}

/* Numeric addresses need no name service, hence no thread. */
static telpher_status
lookup(const struct tp_tcp_address *a, uint64_t deadline_ns, struct addrinfo **ret_list,
       struct tp_error *err)
{
    struct addrinfo hints = lookup_hints;

    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    if (getaddrinfo(a->host, a->port, &hints, ret_list) == 0) {
        return TELPHER_OK;
    }
    return lookup_name(a, deadline_ns, ret_list, err);
}

static bool
wait_writable(int fd, uint64_t deadline_ns)
{
    struct tp_conn *conn;
    telpher_status status;

    /* the connection's own wait handles deadlines and signals */
    if (tp_tcp_adopt(fd, &conn) != TELPHER_OK) {
        return false;
    }
    status = conn->ops->wait(conn, TP_WAIT_WRITE, deadline_ns);
    tp_free(conn);
    return status == TELPHER_OK;
}

/* @return the errno of the attempt, 0 when connected. */
static int
connect_fd(int fd, const struct sockaddr *sa, socklen_t len, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t error_len = sizeof(error);

    while (connect(fd, sa, len) != 0) {
        if (errno == EAGAIN && !tp_clock_passed(deadline_ns)) {
            tp_clock_sleep(TP_CLOCK_MS); /* the backlog of the Unix socket is full */
            continue;
        }
        if (errno == EAGAIN) {
            return ETIMEDOUT;
        }
        if (errno != EINPROGRESS && errno != EINTR) {
            return errno;
        }
        if (!wait_writable(fd, deadline_ns)) {
            return ETIMEDOUT;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) != 0) {
            return errno;
        }
        return error;
    }
    return 0;
}

/* @return an errno, or 0 and a connected descriptor. */
static int
connect_one(const struct sockaddr *sa, socklen_t len, uint64_t deadline_ns, int *ret_fd)
{
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0) {
        return errno;
    }
    tp_descriptor_own(fd);
    error = connect_fd(fd, sa, len, deadline_ns);
    if (error != 0) {
        tp_tcp_close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

/* Deadline of the first of @p count attempts: an equal share of what is left. */
static uint64_t
share_of(uint64_t deadline_ns, unsigned count)
{
    tp_ns left = tp_clock_remaining(deadline_ns);

    return left == TP_CLOCK_FOREVER ? left : tp_clock_deadline(left / count);
}

static int
connect_any(const struct addrinfo *list, uint64_t deadline_ns, int *ret_fd)
{
    unsigned count = 0;
    int error = EADDRNOTAVAIL;

    for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next) {
        count++;
    }
    for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next, count--) {
        error = connect_one(ai->ai_addr, ai->ai_addrlen, share_of(deadline_ns, count),
                            ret_fd);
        if (error == 0) {
            break;
        }
    }
    return error;
}

static int
connect_unix(const struct tp_tcp_address *a, uint64_t deadline_ns, int *ret_fd)
{
    struct sockaddr_un sun;

    tp_tcp_unix_address(a, &sun);
    return connect_one((const struct sockaddr *)&sun, sizeof(sun), deadline_ns, ret_fd);
}

/* Formats the error of a failed attempt, with a remedy if there is one. */
static telpher_status
connect_failed(const struct tp_tcp_address *a, int error, struct tp_error *err)
{
    telpher_status status = tp_error_from_errno(error);
    const char *hint = "";
    char where[300], system_text[96];

    if (a->is_unix) {
        snprintf(where, sizeof(where), "%s", a->path);
    } else {
        snprintf(where, sizeof(where), strchr(a->host, ':') ? "[%s]:%s" : "%s:%s",
                 a->host, a->port);
    }
    if (error == ECONNREFUSED || error == ENOENT) {
        hint = a->is_unix ? "; is telpherd running there?"
                          : "; is telpherd running there? It needs --listen for TCP";
    } else if (a->is_unix && error == EACCES) {
        hint = "; the server's user or group may connect";
    }
    if (status != TELPHER_ERR_REFUSED && status != TELPHER_ERR_TIMEOUT &&
        status != TELPHER_ERR_PERMISSION && status != TELPHER_ERR_LIMIT &&
        status != TELPHER_ERR_NO_MEMORY) {
        status = TELPHER_ERR_UNREACHABLE;
    }
    return tp_error_set(err, status, "connecting to %s: %s%s", where,
                        error == ETIMEDOUT
                            ? "no answer in time"
                            : strerror_r(error, system_text, sizeof(system_text)),
                        hint);
}

static telpher_status
open_connection(const struct tp_tcp_address *a, uint64_t deadline_ns, int *ret_fd,
                struct tp_error *err)
{
    struct addrinfo *list;
    telpher_status status;
    int error;

    if (a->is_unix) {
        error = connect_unix(a, deadline_ns, ret_fd);
    } else {
        status = lookup(a, deadline_ns, &list, err);
        if (status != TELPHER_OK) {
            return status;
        }
        error = connect_any(list, deadline_ns, ret_fd);
        freeaddrinfo(list);
    }
    return error == 0 ? TELPHER_OK : connect_failed(a, error, err);
}

telpher_status
tp_tcp_connect(const char *address, uint64_t deadline_ns, struct tp_conn **ret_conn,
               struct tp_error *err)
{
    struct tp_tcp_address a;
    telpher_status status = tp_tcp_parse_address(address, &a, err);
    int fd = -1;

    if (status == TELPHER_OK && !a.is_unix && strcmp(a.port, "0") == 0) {
        status = tp_error_set(err, TELPHER_ERR_INVALID,
                              "address %s: port 0 is no server's", address);
    }
    if (status == TELPHER_OK) {
        status = open_connection(&a, deadline_ns, &fd, err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_tcp_adopt(fd, ret_conn);
    if (status != TELPHER_OK) {
        tp_tcp_close(fd);
        return tp_error_set(err, status, "connecting to %s: %s", address,
                            telpher_status_text(status));
    }
    return TELPHER_OK;
}
