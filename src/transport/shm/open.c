/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and opens shared objects. None has a name in the file system that could be
 * left behind: memory files and pipes are opened through /proc of the process that owns
 * them. That works across network namespaces, and only with ptrace permission.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/descriptor.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "transport/shm/net_int.h"

/* ---- objects of this rank ---- */

/* Reports EMFILE first; later errors are consequences. */
static telpher_status
refuse(struct tp_error *err, telpher_status status, const char *words)
{
    return status == TELPHER_ERR_LIMIT
               ? tp_error_set_errno(err, errno, "%s", words)
               : tp_error_set(err, TELPHER_ERR_UNSUPPORTED, "%s", words);
}

telpher_status
tp_shm_describe(struct shm_net *n, struct tp_error *err)
{
    struct tp_shm_address *address = &n->address;
    telpher_status status;

    if (prctl(PR_GET_DUMPABLE) != 1) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "other processes may not inspect this one "
                            "(PR_GET_DUMPABLE is not 1)");
    }
    status = tp_process_self(&address->process);
    if (status != TELPHER_OK) {
        return refuse(err, status, "cannot read boot id and namespaces from /proc");
    }
    address->magic = TP_SHM_MAGIC;
    address->job = n->params.job;
    address->rank = n->params.rank;
    address->size = n->params.size;
    address->probe_at = (uintptr_t)&n->probe;
    address->fences = tp_process_fence_register();
    return tp_random_bytes(&n->probe, sizeof(n->probe));
}

static telpher_status
make_wakeup(struct shm_net *n)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = SHM_NONE};
    struct stat st;

    n->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (n->epoll_fd < 0 || pipe2(n->wakeup, O_NONBLOCK | O_CLOEXEC) != 0 ||
        fstat(n->wakeup[0], &st) != 0 ||
        epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, n->wakeup[0], &e) != 0) {
        return tp_error_from_errno(errno);
    }
    n->address.wakeup = n->wakeup[0];
    n->address.wakeup_device = st.st_dev;
    n->address.wakeup_inode = st.st_ino;
    return TELPHER_OK;
}

/* Checks that this process can do what peers will do to it. An old kernel or a
 * seccomp filter may forbid it, and another transport can still be chosen now. */
static telpher_status
try_self(const struct shm_net *n, struct tp_error *err)
{
    int fd;
    telpher_status status = tp_process_open(&n->address.process, &fd);

    if (status != TELPHER_OK) {
        return refuse(err, status,
                      "processes cannot be watched (pidfd_open, Linux 5.3)");
    }
    close(fd);
    status = tp_memfd_open(&n->address.listener, &fd);
    if (status != TELPHER_OK) {
        return refuse(err, status, "/proc does not open memory files of processes");
    }
    close(fd);
    return TELPHER_OK;
}

telpher_status
tp_shm_make_listener(struct shm_net *n, struct tp_error *err)
{
    size_t bytes = tp_shm_listener_bytes(n->params.size);
    void *memory;
    telpher_status status = make_wakeup(n);

    if (status == TELPHER_OK) {
        status = tp_memfd_create("telpher-listener", bytes, &n->listener_fd);
    }
    if (status == TELPHER_OK) {
        status = tp_memfd_map(n->listener_fd, bytes, &memory);
    }
    if (status == TELPHER_OK) {
        n->listener = memory;
        n->listener->magic = TP_SHM_MAGIC;
        n->listener->job = n->params.job;
        n->listener->rank = n->params.rank;
        n->listener->size = n->params.size;
        n->address.probe = n->probe;
        status = tp_memfd_describe(n->listener_fd, &n->address.listener);
    }
    if (status == TELPHER_ERR_PERMISSION) { /* seccomp filters report it this way */
        status = TELPHER_ERR_UNSUPPORTED;
    }
    if (status == TELPHER_ERR_LIMIT) {
        return refuse(err, status, "cannot create the listener in shared memory");
    }
    return status == TELPHER_OK
               ? try_self(n, err)
               : tp_error_set(
                     err, status,
                     "cannot create the listener of rank %u in shared memory: %s",
                     n->params.rank, telpher_status_text(status));
}

/* ---- objects of a peer ---- */

bool
tp_shm_is_near(const struct shm_net *n, const struct tp_shm_address *address)
{
    return address->rank != n->address.rank &&
           tp_process_is_like(&address->process, &n->address.process);
}

static bool
is_wakeup(const struct stat *st, const struct tp_shm_address *address)
{
    return S_ISFIFO(st->st_mode) && st->st_dev == address->wakeup_device &&
           st->st_ino == address->wakeup_inode;
}

/* A process that called exec is alive, but its files of ours are closed. EACCES says
 * nothing. */
bool
tp_shm_has_forgotten(const struct shm_link *link)
{
    char path[64];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", link->address.process.pid,
                   link->address.wakeup);
    return link->pid_fd >= 0 &&
           (stat(path, &st) == 0 ? !is_wakeup(&st, &link->address) : errno == ENOENT);
}

/* Opened for reading too, so that a write after the peer's death raises no SIGPIPE. */
static int
open_wakeup(const struct tp_shm_address *address)
{
    char path[64];
    struct stat st;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", address->process.pid,
                   address->wakeup);
    if (stat(path, &st) != 0 || !is_wakeup(&st, address)) {
        return -1; /* not a pipe: opening other files may have side effects */
    }
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !is_wakeup(&st, address))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Maps a status of opening to one of connecting. */
static telpher_status
as_connect(telpher_status status)
{
    return status == TELPHER_OK || status == TELPHER_ERR_NO_MEMORY ? status
           : status == TELPHER_ERR_LIMIT ? TELPHER_ERR_NO_MEMORY
                                         : TELPHER_ERR_UNREACHABLE;
}

static telpher_status
open_listener(struct shm_link *link)
{
    const struct tp_memfd_name *name = &link->address.listener;
    void *memory;
    int fd;
    telpher_status status = tp_memfd_open(name, &fd);

    if (status != TELPHER_OK) {
        return as_connect(status);
    }
    status = tp_memfd_map(fd, name->size, &memory);
    close(fd);
    if (status != TELPHER_OK) {
        return status;
    }
    link->listener = memory;
    return link->listener->magic == TP_SHM_MAGIC &&
                   link->listener->job == link->address.job &&
                   link->listener->rank == link->rank &&
                   link->listener->size == link->address.size
               ? TELPHER_OK
               : TELPHER_ERR_UNREACHABLE;
}

/* Opens the process first, then its files: if they are there, the process is the
 * right one. */
telpher_status
tp_shm_open_peer(struct shm_link *link)
{
    struct shm_net *n = link->net;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = link->rank};
    telpher_status status;

    if (link->address.process.pid != n->address.process.pid) {
        status = tp_process_open(&link->address.process, &link->pid_fd);
        if (status != TELPHER_OK) {
            return as_connect(status);
        }
        if (epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, link->pid_fd, &e) != 0) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    status = open_listener(link);
    if (status != TELPHER_OK) {
        return status;
    }
    link->wakeup = open_wakeup(&link->address);
    link->can_get = n->may_get && tp_shm_probe(&link->address);
    return link->wakeup >= 0 ? TELPHER_OK : TELPHER_ERR_UNREACHABLE;
}

telpher_status
tp_shm_make_ring(struct shm_link *link)
{
    struct tp_shm_ring *ring;
    void *memory;
    telpher_status status =
        tp_memfd_create("telpher-ring", sizeof(*ring), &link->out.fd);

    if (status == TELPHER_OK) {
        status = tp_memfd_map(link->out.fd, sizeof(*ring), &memory);
    }
    if (status != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    ring = memory;
    ring->magic = TP_SHM_MAGIC;
    ring->job = link->address.job;
    ring->from = link->net->params.rank;
    ring->to = link->rank;
    link->out.ring = ring;
    return TELPHER_OK;
}

telpher_status
tp_shm_map_ring(struct shm_link *link, const struct tp_memfd_name *name)
{
    struct tp_shm_ring *ring;
    void *memory;
    int fd;
    telpher_status status;

    if (name->pid != link->address.process.pid || name->size != sizeof(*ring)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_memfd_open(name, &fd);
    if (status != TELPHER_OK) {
        return as_connect(status);
    }
    status = tp_memfd_map(fd, sizeof(*ring), &memory);
    close(fd);
    if (status != TELPHER_OK) {
        return status;
    }
    ring = memory;
    if (ring->magic != TP_SHM_MAGIC || ring->job != link->address.job ||
        ring->from != link->rank || ring->to != link->net->params.rank) {
        (void)munmap(ring, sizeof(*ring));
        return TELPHER_ERR_PROTO;
    }
    link->in = ring;
    return TELPHER_OK;
}

void
tp_shm_drop_ring(struct shm_link *link)
{
    if (link->out.ring != NULL) {
        (void)munmap(link->out.ring, sizeof(*link->out.ring));
    }
    tp_descriptor_close(link->out.fd);
    link->out.ring = NULL;
    link->out.fd = -1;
}

void
tp_shm_close_peer(struct shm_link *link)
{
    tp_shm_drop_ring(link);
    if (link->in != NULL) {
        (void)munmap(link->in, sizeof(*link->in));
    }
    if (link->listener != NULL) {
        (void)munmap(link->listener, link->address.listener.size);
    }
    link->in = NULL;
    link->listener = NULL;
    if (link->pid_fd >= 0) {
        /* a forked child may hold it too, so that close does not remove it from
             * epoll */
        (void)epoll_ctl(link->net->epoll_fd, EPOLL_CTL_DEL, link->pid_fd, NULL);
    }
    for (int **fd = (int *[]){&link->wakeup, &link->pid_fd, NULL}; *fd != NULL; fd++) {
        tp_descriptor_close(**fd);
        **fd = -1;
    }
}

bool
tp_shm_is_dead(const struct shm_link *link)
{
    struct pollfd p = {.fd = link->pid_fd, .events = POLLIN};

    return link->pid_fd >= 0 && poll(&p, 1, 0) > 0;
}
