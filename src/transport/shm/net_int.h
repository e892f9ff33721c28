/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks of one machine: docs/comm.md section 5.
 *
 *   layout.c  what is shared, checked
 *   net.c     the table; progress, sleeping
 *   open.c    what is made and opened: doors, rings, bells, processes
 *   link.c    peers: connected, accepted, lost
 *   send.c    cells out
 *   receive.c cells in
 *   get.c     rendezvous data read from the other process
 *
 * A link has two directions that know nothing of each other: `out`, the ring that we made
 * when we connected, and `in`, the peer's, mapped when it knocked.
 */
#ifndef TELPHER_TRANSPORT_SHM_NET_INT_H
#define TELPHER_TRANSPORT_SHM_NET_INT_H

#include "transport/shm/layout.h"
#include "transport/shm/net.h"

struct shm_net;

/** The direction of a link that we write. */
struct shm_way_out {
    struct tp_shm_ring *ring; /* NULL: not connected */
    int fd; /* of the ring until it is accepted, then -1 */
    uint32_t head, tail; /* cells written; seen to be consumed */
    uint32_t data_head, data_tail; /* offsets in the data: to write, in use */
    uint32_t data_end[TP_SHM_CELLS]; /* offset behind the data of each cell */
    bool starved; /* a send found no room */
};

struct shm_link {
    struct shm_net *net;
    uint32_t rank;
    struct tp_shm_card card;
    int pid_fd, bell; /* -1: none, its process is ours */
    struct tp_shm_door *door;
    struct shm_way_out out;
    struct tp_shm_ring *in; /* NULL: it has sent nothing */
    uint32_t in_next; /* cell to read */
    uint32_t in_told; /* cells the peer knows to be consumed */
    bool data_taken; /* of those it does not know, some had data beside */
    bool can_get; /* from its memory */
    bool ending; /* reported as soon as all that it sent is read */
    bool deaf; /* nothing more is read: it broke its word */
    bool gone; /* reported, or being so */
    telpher_status why;
};

struct shm_net {
    struct tp_net base;
    struct tp_net_params params;
    struct tp_shm_card card;
    uint64_t probe; /* what peers read to see whether they may */
    bool may_get; /* by the setting */
    bool armed;
    unsigned rounds; /* of progress */
    tp_ns look_at; /* when to look for deaths */
    int door_fd, bell[2], epoll_fd;
    struct tp_shm_door *door;
    uint32_t knocks; /* seen */
    struct shm_link **links; /* by rank */
    struct shm_link **active; /* those not gone, in no order */
    uint32_t active_count, ending_count;
    tp_ns looked_at; /* when deaths were looked for last */
};

static inline struct shm_net *
shm_net(struct tp_net *net)
{
    return tp_container_of(net, struct shm_net, base);
}

#define SHM_NONE UINT32_MAX
#define SHM_TOPIC "shm"

/* ---- open.c ---- */
/** Fills in the card: who and where this process is. @return OK, UNSUPPORTED, IO */
telpher_status tp_shm_describe(struct shm_net *n, struct tp_error *err);
/** Makes the door and the bell. */
telpher_status tp_shm_make_door(struct shm_net *n, struct tp_error *err);
/** True if the card is of a process whose memory we may share. */
bool tp_shm_is_near(const struct shm_net *n, const struct tp_shm_card *card);
/** Opens the peer's door, bell and process. @return OK, NO_MEMORY, UNREACHABLE */
telpher_status tp_shm_open_peer(struct shm_link *link);
/** Makes the ring to a peer. */
telpher_status tp_shm_make_ring(struct shm_link *link);
/** Undoes that, also half of it. */
void tp_shm_drop_ring(struct shm_link *link);
/** Maps the ring that a peer made. @return OK, NO_MEMORY, UNREACHABLE, PROTO */
telpher_status tp_shm_map_ring(struct shm_link *link, const struct tp_memfd_name *name);
/** Undoes all of these, also half of them. */
void tp_shm_close_peer(struct shm_link *link);
/** True if the peer's process has ended. A system call. */
bool tp_shm_is_dead(const struct shm_link *link);

/** True if it lives, but as another program. A system call. */
bool tp_shm_has_forgotten(const struct shm_link *link);

/* ---- net.c ---- */
/** Has the peer said goodbye, or given us up? Then the link ends. @return whether it does */
bool tp_shm_look_at_door(struct shm_link *link);

/* ---- link.c ---- */
telpher_status tp_shm_connect(struct shm_net *n, const struct tp_shm_card *card);
/** Lets in who knocked. @return how many */
unsigned tp_shm_accept(struct shm_net *n);
/** Something of the connection changed that is seen only by looking. */
unsigned tp_shm_look_at_knock(struct shm_link *link);
/** The peer has left (OK) or died; told when what it sent has been read. */
void tp_shm_end(struct shm_link *link, telpher_status why);
/** Its process is not there any more: one or the other. */
void tp_shm_end_process(struct shm_link *link);
/** The peer is given up, unread. */
void tp_shm_cut(struct shm_link *link, telpher_status why);
/** Tells of those that are over. @return how many */
unsigned tp_shm_bury(struct shm_net *n);
void tp_shm_free_link(struct shm_link *link);
/** Wakes the peer if it sleeps. After the stores that it is to see. */
static inline void tp_shm_wake(struct shm_link *link);
void tp_shm_ring_bell(struct shm_link *link);

/* ---- send.c ---- */
telpher_status tp_shm_send(struct tp_net *net, uint32_t peer, const void *header,
                           size_t header_len, const void *data, size_t len);
telpher_status tp_shm_control(struct tp_net *net, uint32_t peer, const void *frame,
                              size_t len, const void *data, size_t data_len);
size_t tp_shm_write_data(struct tp_net *net, uint32_t peer, uint32_t id,
                         const void *src, size_t len, void *arg);
/** True if the ring has room again for what found none. */
bool tp_shm_has_room(struct shm_link *link);

/* ---- receive.c ---- */
/** Reads what the peer sent. @return cells */
unsigned tp_shm_receive(struct shm_link *link);
/** Tells the peer what was consumed, if it does not know. */
void tp_shm_tell_tail(struct shm_link *link);
/** True if there is something to read. */
static inline bool tp_shm_has_cell(const struct shm_link *link);

/* ---- get.c ---- */
/** Of the table: src/core/net.h. */
enum tp_net_get tp_shm_can_get(struct tp_net *net, uint32_t peer);
telpher_status tp_shm_get(struct tp_net *net, uint32_t peer, uint64_t address,
                          void *dst, size_t len);
/** True if this process may read that one's memory. */
bool tp_shm_probe(const struct tp_shm_card *card);

/* ---- */

static inline void
tp_shm_wake(struct shm_link *link)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (tp_unlikely(atomic_load_explicit(&link->door->sleeping, memory_order_relaxed) !=
                    0)) {
        tp_shm_ring_bell(link);
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
