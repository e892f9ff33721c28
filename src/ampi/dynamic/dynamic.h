/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic processes: jobs that connect to each other, or start another job. Each connection has a
 * context of its own, whose ranks are the processes of both groups.
 */
#ifndef TELPHER_AMPI_DYNAMIC_H
#define TELPHER_AMPI_DYNAMIC_H

#include "ampi/intercomm.h"
#include "ampi/process.h"

/** A context shared with another job. */
struct tp_ampi_bridge {
    struct tp_list link; /**< of tp_ampi.bridges */
    telpher_context *ctx;
    uint32_t first; /**< number of the process that is the context's rank 0 */
    unsigned refs; /**< routes over it; 0: tp_ampi_bridges_progress() destroys it */
};

/** Name of a rank that means the same in all jobs. */
struct tp_ampi_name {
    uint64_t job; /**< telpher_context_job() */
    uint32_t rank; /**< in its MPI_COMM_WORLD */
    uint32_t reserved;
};

/* ---- bridge.c ---- */

struct tp_ampi_name tp_ampi_name_of(uint32_t world);
/** The number in groups' `world` of a rank of any job. @return UINT32_MAX: no memory */
uint32_t tp_ampi_world_of(const struct tp_ampi_name *name);
/** Less than 0, 0, or more, the same way in all processes. */
int tp_ampi_name_compare(const struct tp_ampi_name *a, const struct tp_ampi_name *b);

/** Gives @p comm the routes to its peers, which are in @p parent; the caller sets their
 *  contexts. @return MPI_SUCCESS, MPI_ERR_NO_MEM */
int tp_ampi_routes_make(struct tp_ampi_comm *comm, const struct tp_ampi_comm *parent);
void tp_ampi_routes_free(struct tp_ampi_comm *comm);

/** Adds a context. The caller drops `refs` when communicators have their routes.
 *  @return NULL: no memory */
struct tp_ampi_bridge *tp_ampi_bridge_create(telpher_context *ctx);
/** Progresses all bridges, and destroys those that are not used any more.
 *  @return whether anything has happened */
bool tp_ampi_bridges_progress(void);
/** Ends the jobs that this one is connected to. */
void tp_ampi_bridges_abort(const struct tp_ampi_envelope *env);
void tp_ampi_bridges_fini(void);

/* ---- connect.c ---- */

/** Makes an intercommunicator of groups of different jobs, and the bridge between them.
 *  Collective in both groups. @return an error class that has not been reported */
int tp_ampi_connect(const struct tp_ampi_line *line, struct tp_ampi_comm **ret);

/* ---- socket.c ---- */

/** Listens on a free port; @p far for other hosts too. Writes its name, which has a secret.
 *  @return the descriptor, or -1: errno */
int tp_ampi_socket_listen(bool far, char ret_name[MPI_MAX_PORT_NAME]);
/** Accepts a connection that knows the secret of @p name. Lets other ranks go on.
 *  @param is_over  called now and then; true ends the wait. NULL: never
 *  @return the descriptor, or -1 */
int tp_ampi_socket_accept(int listener, const char *name, bool (*is_over)(void *user),
                          void *user);
/** Connects to a port. @return the descriptor, or -1: errno */
int tp_ampi_socket_connect(const char *name);
/** Sends and receives. @return MPI_SUCCESS, MPI_ERR_PORT: the other end has closed it */
int tp_ampi_socket_swap(int fd, const void *mine, size_t len, void *theirs,
                        size_t their_len);

/* ---- port.c ---- */

/** Finds the communicator of a handle whose ranks can be connected.
 *  @return MPI_SUCCESS, or a class that was reported */
int tp_ampi_find_connectable(MPI_Comm handle, int root, struct tp_ampi_comm **ret);
/** The group's root has a connection, or -1: makes the intercommunicator, and closes it.
 *  @param error  of the root: class of why there is no connection */
int tp_ampi_connect_by(struct tp_ampi_comm *comm, int root, int fd, int error,
                       struct tp_ampi_comm **ret);

/* ---- spawn.c ---- */

/** Connects a job that another one started to it: in MPI_Init. @return an error class */
int tp_ampi_meet_parent(struct tp_ampi_rank *rank);
/** Ends this job if one that it started has failed. */
void tp_ampi_check_spawned(void);
/** A communicator is gone: what its processes do is no matter of this job. */
void tp_ampi_forget_spawned(const struct tp_ampi_comm *comm);

#endif
