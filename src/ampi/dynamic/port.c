/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: jobs that were started apart connect by a name. */
#include "ampi/dynamic/dynamic.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"

/** A port that this process has opened. */
struct port {
    struct tp_list link;
    char name[MPI_MAX_PORT_NAME];
    int fd;
};

static struct tp_list ports = {&ports, &ports};

static struct port *
find(const char *name)
{
    tp_list_for_each_entry(struct port, port, &ports, link) {
        if (strcmp(port->name, name) == 0) {
            return port;
        }
    }
    return NULL;
}

int
PMPI_Open_port(MPI_Info info, char *name)
{
    struct port *port = tp_zalloc(sizeof(*port), "MPI port");
    bool far = telpher_context_local_size(tp_ampi.ctx) != tp_ampi.processes;

    (void)info;
    if (port == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for a port");
    }
    tp_ampi_enter();
    port->fd = tp_ampi_socket_listen(far, port->name);
    if (port->fd >= 0) {
        tp_list_init(&port->link);
        tp_list_push_back(&ports, &port->link);
        (void)strcpy(name, port->name);
    }
    tp_ampi_leave();
    if (port->fd >= 0) {
        return MPI_SUCCESS;
    }
    tp_free(port);
    return tp_ampi_error(NULL, MPI_ERR_INTERN, "cannot open a port: %s",
                         strerror(errno));
}
TP_MPI_NAME(Open_port);

int
PMPI_Close_port(const char *name)
{
    struct port *port;

    tp_ampi_enter();
    port = find(name);
    if (port != NULL) {
        tp_list_remove(&port->link);
        (void)close(port->fd);
        tp_free(port);
    }
    tp_ampi_leave();
    return port != NULL ? MPI_SUCCESS
                        : tp_ampi_error(NULL, MPI_ERR_PORT,
                                        "this process has no open port \"%s\"", name);
}
TP_MPI_NAME(Close_port);

int
tp_ampi_connect_by(struct tp_ampi_comm *comm, int root, int fd, int error,
                   struct tp_ampi_comm **ret)
{
    const struct tp_ampi_line line = {.local = comm, .leader = root, .socket = &fd};

    int told = tp_ampi_root_tells(comm, root, &error, sizeof(error));

    error = told == MPI_SUCCESS ? error : told;
    if (error == MPI_SUCCESS) {
        error = tp_ampi_connect(&line, ret);
    }
    tp_descriptor_close(fd);
    return error;
}

int
tp_ampi_find_connectable(MPI_Comm handle, int root, struct tp_ampi_comm **ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    *ret = comm;
    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    if (comm->local != NULL) {
        return tp_ampi_error(comm, MPI_ERR_COMM, "%s is an intercommunicator",
                             comm->name);
    }
    if (root < 0 || root >= comm->size) {
        return tp_ampi_error(comm, MPI_ERR_ROOT, "root %d is not a rank of %s", root,
                             comm->name);
    }
    return tp_ampi.movable
               ? tp_ampi_error(comm, MPI_ERR_OTHER,
                               "ranks that may move are not connected to other jobs: "
                               "unset TELPHER_AMPI_MIGRATE")
               : MPI_SUCCESS;
}

/* @param why  of the root: why it has no connection */
static int
finish(struct tp_ampi_comm *comm, const char *name, int root, int fd, const char *why,
       MPI_Comm *ret)
{
    struct tp_ampi_comm *inter;
    int error = comm->rank == root && fd < 0 ? MPI_ERR_PORT : MPI_SUCCESS;

    error = tp_ampi_connect_by(comm, root, fd, error, &inter);
    if (error == MPI_SUCCESS) {
        *ret = inter->handle;
        return MPI_SUCCESS;
    }
    return comm->rank == root
               ? tp_ampi_error(comm, error, "port \"%s\": %s", name,
                               fd < 0 ? why : "the connection was closed")
               : tp_ampi_error(comm, error,
                               "rank %d of %s, the root, has no connection: its error "
                               "says why",
                               root, comm->name);
}

static int
accept_port(struct tp_ampi_comm *comm, const char *name, int root, MPI_Comm *ret)
{
    const struct port *port = comm->rank == root ? find(name) : NULL;
    const char *why = "this process has not opened it";
    int fd = -1;

    tp_ampi.connecting++;
    if (port != NULL) {
        fd = tp_ampi_socket_accept(port->fd, name, NULL, NULL);
        why = strerror(errno);
    }
    tp_ampi.connecting--;
    return finish(comm, name, root, fd, why, ret);
}

static int
connect_port(struct tp_ampi_comm *comm, const char *name, int root, MPI_Comm *ret)
{
    int fd = comm->rank == root ? tp_ampi_socket_connect(name) : -1;

    return finish(comm, name, root, fd, strerror(errno), ret);
}

#define CONNECT(name, fn)                                                              \
    int PMPI_##name(const char *port, MPI_Info info, int root, MPI_Comm handle,        \
                    MPI_Comm *ret)                                                     \
    {                                                                                  \
        struct tp_ampi_comm *comm;                                                     \
        int error;                                                                     \
                                                                                       \
        (void)info;                                                                    \
        *ret = MPI_COMM_NULL;                                                          \
        tp_ampi_enter();                                                               \
        error = tp_ampi_find_connectable(handle, root, &comm);                         \
        if (error == MPI_SUCCESS) {                                                    \
            error = fn(comm, port, root, ret);                                         \
        }                                                                              \
        tp_ampi_leave();                                                               \
        return error;                                                                  \
    }                                                                                  \
    TP_MPI_NAME(name)

CONNECT(Comm_accept, accept_port);
CONNECT(Comm_connect, connect_port);

int
PMPI_Comm_join(int fd, MPI_Comm *ret)
{
    struct tp_ampi_comm *comm, *inter;
    int error;

    *ret = MPI_COMM_NULL;
    tp_ampi_enter();
    error = tp_ampi_find_connectable(MPI_COMM_SELF, 0, &comm);
    if (error == MPI_SUCCESS) {
        const struct tp_ampi_line line = {.local = comm, .socket = &fd};

        error = tp_ampi_connect(&line, &inter);
        (void)tp_ampi_error(comm, error, "cannot join by descriptor %d", fd);
    }
    if (error == MPI_SUCCESS) {
        *ret = inter->handle;
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_join);
