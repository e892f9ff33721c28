/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport shm: messages between ranks of one machine, docs/comm.md section 5.
 *
 *   layout.c  validates shared memory
 *   net.c     the table; progress, sleep
 *   open.c    creates and opens listeners, rings, wake-up pipes, process descriptors
 *   link.c    connections: connect, accept, lose
 *   send.c    writes cells
 *   receive.c reads cells
 *   get.c     reads rendezvous data from the other process
 *
 * A link has two independent directions: `out`, the ring that this rank created when it
 * connected, and `in`, the peer's ring, mapped when the peer requested a connection.
 */
#ifndef TELPHER_TRANSPORT_SHM_NET_INT_H
#define TELPHER_TRANSPORT_SHM_NET_INT_H

#include "transport/shm/layout.h"
#include "transport/shm/net.h"

struct shm_net;

/** The outgoing direction of a link. */
struct shm_way_out {
    struct tp_shm_ring *ring; /* NULL: not connected */
    int fd; /* of the ring until it is accepted, then -1 */
    uint32_t head, tail; /* cells written; known to be consumed */
    /* offsets in the data area: next to write, oldest in use */
    uint32_t data_head, data_tail;
    uint32_t data_end[TP_SHM_CELLS]; /* end of each cell's data */
    bool starved; /* a send found no room */
    uint32_t answered; /* the link's in_next at the last send */
};

struct shm_link {
    struct shm_net *net;
    uint32_t rank;
    struct tp_shm_address address;
    int pid_fd, wakeup; /* -1: none, the peer is this process */
    struct tp_shm_listener *listener;
    struct shm_way_out out;
    struct tp_shm_ring *in; /* NULL: the peer has not connected */
    uint32_t in_next; /* next cell to read */
    uint32_t in_published; /* consumed cells that were reported to the peer */
    bool paused; /* the last look found no cell */
    bool data_taken; /* some cells not yet reported had data in the data area */
    bool can_get; /* from the peer's memory */
    bool
        fenced; /* the peer's fences before it sleeps order our stores and loads, too */
    bool ending; /* reported lost when all that it sent was read */
    bool deaf; /* nothing more is read: the peer broke the protocol */
    bool gone; /* on_lost() was called, or runs */
    telpher_status why;
};

struct shm_net {
    struct tp_net base;
    struct tp_net_params params;
    struct tp_shm_address address;
    uint64_t probe; /* peers read this to check that they have permission */
    bool may_get; /* allowed by the setting */
    bool armed;
    unsigned rounds; /* of progress */
    tp_ns look_at; /* when to check for dead peers */
    int listener_fd, wakeup[2], epoll_fd;
    struct tp_shm_listener *listener;
    uint32_t requests; /* requests handled */
    struct shm_link **links; /* by rank */
    struct shm_link **active; /* links that are not gone, in no order */
    uint32_t active_count, ending_count;
    tp_ns looked_at; /* last check for dead peers */
};

static inline struct shm_net *
shm_net(struct tp_net *net)
{
    return tp_container_of(net, struct shm_net, base);
}

#define SHM_NONE UINT32_MAX
#define SHM_TOPIC "shm"

/* ---- open.c ---- */
/** Fills in this process's address. @return OK, UNSUPPORTED, IO */
telpher_status tp_shm_describe(struct shm_net *n, struct tp_error *err);
/** Creates the listener and the wake-up pipe. */
telpher_status tp_shm_make_listener(struct shm_net *n, struct tp_error *err);
/** True if the address is of a process on this machine whose memory can be shared. */
bool tp_shm_is_near(const struct shm_net *n, const struct tp_shm_address *address);
/** Opens the peer's listener, wake-up pipe and process. @return OK, NO_MEMORY,
 *  UNREACHABLE */
telpher_status tp_shm_open_peer(struct shm_link *link);
/** Creates the ring to a peer. */
telpher_status tp_shm_make_ring(struct shm_link *link);
/** Undoes tp_shm_make_ring(), also if it failed half way. */
void tp_shm_drop_ring(struct shm_link *link);
/** Maps the ring that a peer created. @return OK, NO_MEMORY, UNREACHABLE, PROTO */
telpher_status tp_shm_map_ring(struct shm_link *link, const struct tp_memfd_name *name);
/** Undoes all of these, also if they failed half way. */
void tp_shm_close_peer(struct shm_link *link);
/** True if the peer's process has exited. A system call. */
bool tp_shm_is_dead(const struct shm_link *link);

/** True if the process runs another program (exec). A system call. */
bool tp_shm_has_forgotten(const struct shm_link *link);

/* ---- net.c ---- */
/** Checks whether the peer left or closed the connection; then ends the link. @return
 *  true if it ended */
bool tp_shm_check_listener(struct shm_link *link);

/* ---- link.c ---- */
telpher_status tp_shm_connect(struct shm_net *n, const struct tp_shm_address *address);
/** Accepts connection requests. @return how many */
unsigned tp_shm_accept(struct shm_net *n);
/** Checks whether the peer accepted or refused our request, which causes no wake-up. */
unsigned tp_shm_check_slot(struct shm_link *link);
/** The peer left (OK) or died; reported when everything it sent was read. */
void tp_shm_end(struct shm_link *link, telpher_status why);
/** Ends a link whose process is gone: the peer left or died. */
void tp_shm_end_process(struct shm_link *link);
/** Closes the connection without reading further. */
void tp_shm_cut(struct shm_link *link, telpher_status why);
/** Reports links that ended. @return how many */
unsigned tp_shm_bury(struct shm_net *n);
void tp_shm_free_link(struct shm_link *link);
/** Wakes the peer if it sleeps. Call after the stores that the peer must see. */
static inline void tp_shm_wake(struct shm_link *link);
void tp_shm_write_wakeup(struct shm_link *link);

/* ---- send.c ---- */
telpher_status tp_shm_send(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
telpher_status tp_shm_control(struct tp_net *net, uint32_t peer, const void *frame,
                              size_t len, const void *data, size_t data_len);
size_t tp_shm_write_data(struct tp_net *net, uint32_t peer, uint32_t id,
                         const void *src, size_t len, void *arg);
/** True if the ring has room again after a send found none. */
bool tp_shm_has_room(struct shm_link *link);

/* ---- receive.c ---- */
/** Reads what the peer sent. @return number of cells */
unsigned tp_shm_receive(struct shm_link *link);
/** Reports consumed cells to the peer, if it does not know them. */
void tp_shm_publish_tail(struct shm_link *link);
/** True if there is a cell to read. */
static inline bool tp_shm_has_cell(const struct shm_link *link);

/* ---- get.c ---- */
/** See src/waist/net.h. */
enum tp_net_get tp_shm_can_get(struct tp_net *net, uint32_t peer);
telpher_status tp_shm_get(struct tp_net *net, uint32_t peer, uint64_t address,
                          void *dst, size_t len);
/** True if this process may read the peer's memory. */
bool tp_shm_probe(const struct tp_shm_address *address);

/* ---- */

/* Orders a store before a load of what the peer sets when it goes to sleep. A full fence here
 * would wait for each message's cache line. */
static inline void
tp_shm_fence(const struct shm_link *link)
{
    if (tp_likely(link->fenced)) {
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_thread_fence(memory_order_seq_cst);
    }
}

static inline void
tp_shm_wake(struct shm_link *link)
{
    tp_shm_fence(link);
    if (tp_unlikely(atomic_load_explicit(&link->listener->sleeping,
                                         memory_order_relaxed) != 0)) {
        tp_shm_write_wakeup(link);
    }
}

static inline bool
tp_shm_has_cell(const struct shm_link *link)
{
    uint32_t next = link->in_next;

    return link->in != NULL &&
           atomic_load_explicit(&link->in->cells[next % TP_SHM_CELLS].seq,
                                memory_order_acquire) == next + 1;
}

#endif
