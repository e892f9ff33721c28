/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the listening addresses of the broker and sets the access rule of each. */
#include "daemon/broker/broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "core/session/client.h"
#include "daemon/broker/admin/admin.h"
#include "daemon/broker/admin/metrics.h"
#include "daemon/broker/connection/cookie.h"
#include "daemon/broker/reload/handover.h"
#include "waist/address.h"

enum { SOCKET_PATH_BYTES = 108 }; /* of sockaddr_un */

static bool
is_loopback(int fd)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);

    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        return false;
    }
    if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;

        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    return addr.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&addr)->sin6_addr);
}

static telpher_status
add_listener(struct tp_broker *b, int fd, const char *address, const char *path,
             bool wants_cookie, bool wants_tls)
{
    struct tp_broker_listener *l = &b->listeners[b->listener_count];

    *l = (struct tp_broker_listener){.watch = {fd, tp_broker_accept},
                                     .wants_cookie = wants_cookie,
                                     .wants_tls = wants_tls};
    (void)snprintf(l->path, sizeof(l->path), "%s", path);
    (void)snprintf(l->address, sizeof(l->address), "%s", address);
    b->listener_count++;
    return tp_broker_watch_add(b, &l->watch, EPOLLIN);
}

/* Checks once, before the first TLS address, that handshakes can succeed. */
static telpher_status
check_tls(struct tp_broker *b, const char *address, struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    if (!b->files_checked) {
        status = tp_tls_check_files(&b->files, err);
        b->files_checked = status == TELPHER_OK;
    }
    return status == TELPHER_OK
               ? status
               : tp_error_set(
                     err, status,
                     "%s: any host that reaches it could run code here, so it needs "
                     "TLS. %s",
                     address, tp_error_text(err));
}

/* Chooses the access rule of an address: TLS, cookie, or no authentication. */
static telpher_status
choose_access(struct tp_broker *b, const char *address, bool loopback, bool *ret_tls,
              struct tp_error *err)
{
    enum tp_address_scheme scheme;

    (void)tp_address_scheme(address, &scheme);
    *ret_tls = scheme == TP_ADDRESS_TLS ||
               (scheme == TP_ADDRESS_ANY && !loopback && !b->options->insecure);
    if (*ret_tls) {
        return check_tls(b, address, err);
    }
    if (loopback) {
        return TELPHER_OK;
    }
    if (!b->options->insecure) {
        return tp_error_set(
            err, TELPHER_ERR_PERMISSION,
            "%s is not on loopback: any host that reaches it could run code "
            "here, and tcp:// is without TLS; --insecure allows it on "
            "test networks",
            address);
    }
    tp_warn("broker",
            "INSECURE: listening on %s without encryption or authentication; "
            "every host that reaches it may run code as this user",
            address);
    return TELPHER_OK;
}

/* Listens at an address, or takes the listener of the program before. */
static telpher_status
open_listener(struct tp_broker *b, const char *address, int *ret_fd,
              struct tp_error *err)
{
    *ret_fd = tp_broker_handover_listener(b, address);
    return *ret_fd >= 0 ? TELPHER_OK
                        : tp_builtin_transports[0]->listen(address, ret_fd, err);
}

static telpher_status
listen_tcp(struct tp_broker *b, const char *address, struct tp_error *err)
{
    telpher_status status;
    bool loopback, wants_tls;
    int fd;

    if (b->listener_count == TP_BROKER_LISTENERS_MAX - 1) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "more than %d addresses to listen on",
                            TP_BROKER_LISTENERS_MAX - 1);
    }
    status = open_listener(b, address, &fd, err);
    if (status != TELPHER_OK) {
        return status;
    }
    loopback = is_loopback(fd);
    status = choose_access(b, address, loopback, &wants_tls, err);
    if (status != TELPHER_OK) {
        (void)close(fd);
        return status;
    }
    tp_info("broker", "listening on %s%s", address, wants_tls ? " with TLS" : "");
    return add_listener(b, fd, address, "", loopback && !wants_tls, wants_tls);
}

/* Removes a socket file on which no process listens. */
static void
remove_stale(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    int fd;

    if (strlen(path) >= sizeof(addr.sun_path) || lstat(path, &st) != 0 ||
        !S_ISSOCK(st.st_mode)) {
        return;
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 &&
            errno == ECONNREFUSED) {
            (void)unlink(path);
        }
        (void)close(fd);
    }
}

/*
 * Locks the folder of a socket from the stale check until bind(): another daemon doing
 * the same could remove our new socket.
 * @return descriptor to close afterwards; -1: cannot be locked, and the check may race
 */
static int
lock_folder(const char *path)
{
    char folder[108];
    char *slash;
    int fd;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    slash = strrchr(folder, '/');
    if (slash != NULL) {
        slash[slash == folder] = '\0';
    }
    fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Gives the configured group access to the socket, if there is one. */
static telpher_status
set_group(const char *path, const char *name, struct tp_error *err)
{
    const struct group *group;

    if (name[0] == '\0') {
        return TELPHER_OK;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the broker has one thread */
    group = getgrnam(name);
    if (group == NULL) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "there is no group %s", name);
    }
    if (chown(path, (uid_t)-1, group->gr_gid) != 0 || chmod(path, 0660) != 0) {
        return tp_error_set_errno(err, errno, "cannot give %s to group %s", path, name);
    }
    return TELPHER_OK;
}

/* Listens on the Unix socket @p path. Connections go to @p ready. */
static telpher_status
listen_at(struct tp_broker *b, const char *path,
          void (*ready)(struct tp_broker *b, struct tp_broker_watch *w,
                        uint32_t events),
          struct tp_error *err)
{
    struct tp_broker_listener *l = &b->listeners[b->listener_count];
    telpher_status status;
    char address[128];
    mode_t mask;
    int folder, fd;

    tp_daemon_make_folder(path, 0755);
    folder = lock_folder(path);
    remove_stale(path);
    (void)snprintf(address, sizeof(address), "unix:%s", path);
    mask = umask(0177);
    status = open_listener(b, address, &fd, err);
    (void)umask(mask);
    tp_descriptor_close(folder);
    if (status != TELPHER_OK) {
        return status;
    }
    status = add_listener(b, fd, address, path, false, false);
    l->watch.ready = ready;
    if (status == TELPHER_OK) {
        status = set_group(path, b->options->group, err);
    }
    tp_info("broker", "listening on %s", address);
    return status;
}

/* Copies the path of a socket. */
static telpher_status
copy_path(char dst[SOCKET_PATH_BYTES], const char *path, struct tp_error *err)
{
    return snprintf(dst, SOCKET_PATH_BYTES, "%s", path) < SOCKET_PATH_BYTES
               ? TELPHER_OK
               : tp_error_set(err, TELPHER_ERR_INVALID,
                              "socket path %.40s... is longer than 107 characters: "
                              "choose another",
                              path);
}

static telpher_status
listen_unix(struct tp_broker *b, struct tp_error *err)
{
    char path[SOCKET_PATH_BYTES];
    telpher_status status = TELPHER_OK;

    if (strcmp(b->options->socket, "none") == 0) {
        return TELPHER_OK;
    }
    if (b->options->socket[0] != '\0') {
        status = copy_path(path, b->options->socket, err);
    } else {
        tp_client_default_socket(path, sizeof(path));
    }
    return status == TELPHER_OK ? listen_at(b, path, tp_broker_accept, err) : status;
}

/* Opens the control socket. By default it is beside the default socket, and a daemon with
 * another socket has none. */
static telpher_status
listen_control(struct tp_broker *b, struct tp_error *err)
{
    const char *given = b->options->control;
    char path[SOCKET_PATH_BYTES], beside[SOCKET_PATH_BYTES + 16];
    telpher_status status;

    if (strcmp(given, "none") == 0 ||
        (given[0] == '\0' && b->options->socket[0] != '\0')) {
        return TELPHER_OK;
    }
    tp_client_default_socket(path, sizeof(path));
    (void)snprintf(beside, sizeof(beside), "%s.control", path);
    status = copy_path(path, given[0] != '\0' ? given : beside, err);
    return status == TELPHER_OK ? listen_at(b, path, tp_broker_admin_accept, err)
                                : status;
}

/* Metrics name users: only this machine may read them, unless all may do everything. */
static telpher_status
listen_metrics(struct tp_broker *b, struct tp_error *err)
{
    const char *address = b->options->metrics;
    struct tp_broker_listener *l = &b->listeners[b->listener_count];
    telpher_status status;
    int fd;

    if (address[0] == '\0') {
        return TELPHER_OK;
    }
    status = open_listener(b, address, &fd, err);
    if (status != TELPHER_OK) {
        return status;
    }
    if (!is_loopback(fd) && !b->options->insecure) {
        (void)close(fd);
        return tp_error_set(
            err, TELPHER_ERR_PERMISSION,
            "--metrics %s: not a loopback address; forward its port, or "
            "have a proxy with TLS serve it",
            address);
    }
    tp_info("broker", "metrics on http://%s/metrics", address);
    status = add_listener(b, fd, address, "", false, false);
    l->watch.ready = tp_broker_metrics_accept;
    return status;
}

static telpher_status
load_cookie(struct tp_broker *b, struct tp_error *err)
{
    telpher_status status;
    char path[1024];
    int inherited;

    if (b->options->listen.count == 0) {
        return TELPHER_OK;
    }
    if (b->options->cookie[0] != '\0') {
        (void)snprintf(path, sizeof(path), "%s", b->options->cookie);
    } else {
        tp_client_default_cookie(path, sizeof(path));
    }
    inherited = b->cookie_fd; /* its lock keeps the cookie as it is */
    status = tp_daemon_cookie_create(path, b->cookie, &b->cookie_fd, err);
    if (inherited > 0) {
        (void)close(inherited);
    }
    return status;
}

/* Chooses the TLS files: those in the settings, else the key at the default path. */
static void
find_files(struct tp_broker *b)
{
    const struct tp_daemon_options *o = b->options;

    b->files = (struct tp_secure_files){
        .ca = o->tls_ca, .cert = o->tls_cert, .key = o->tls_key, .psk = o->tls_psk};
    if (o->tls_psk[0] == '\0' && o->tls_cert[0] == '\0' && o->tls_ca[0] == '\0' &&
        tp_client_default_key(b->default_key, sizeof(b->default_key))) {
        b->files.psk = b->default_key;
    }
}

/* After a reload, an address that cannot be opened costs no session. */
static telpher_status
go_on_without(const struct tp_broker *b, telpher_status status, struct tp_error *err)
{
    if (status == TELPHER_OK || b->options->handover_fd == 0) {
        return status;
    }
    tp_error("broker", "going on without this address: %s", tp_error_text(err));
    *err = (struct tp_error){0};
    return TELPHER_OK;
}

telpher_status
tp_broker_listen_all(struct tp_broker *b, struct tp_error *err)
{
    telpher_status status = load_cookie(b, err);
    size_t controls;

    find_files(b);
    if (status != TELPHER_OK) {
        return status; /* the caller closes the listeners, here and below */
    }
    /* first: the control socket is there once clients are served */
    status = go_on_without(b, listen_control(b, err), err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = go_on_without(b, listen_metrics(b, err), err);
    if (status != TELPHER_OK) {
        return status;
    }
    controls = b->listener_count;
    status = go_on_without(b, listen_unix(b, err), err);
    for (size_t i = 0; i < b->options->listen.count && status == TELPHER_OK; i++) {
        status = go_on_without(b, listen_tcp(b, b->options->listen.items[i], err), err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    return b->listener_count != controls
               ? TELPHER_OK
               : tp_error_set(err, TELPHER_ERR_INVALID,
                              "nothing to listen on: --socket none without --listen");
}
