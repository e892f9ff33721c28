/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks of one machine: docs/comm.md section 5.
 *
 *   layout.c  what is shared, checked
 *   net.c     the table; progress, sleeping
 *   open.c    what is made and opened: doors, rings, bells, processes
 *   link.c    peers: connected, accepted, lost
 *   send.c    cells out; bulk data pushed through the ring
 *   receive.c cells and answers in
 *   bulk.c    announced data: fetched from the other process, or asked for
 *
 * A link has two directions that know nothing of each other: `out`, the ring that we made
 * when we connected, and `in`, the peer's, mapped when it knocked.
 */
#ifndef TELPHER_TRANSPORT_SHM_NET_INT_H
#define TELPHER_TRANSPORT_SHM_NET_INT_H

#include "base/container/list.h"
#include "transport/shm/layout.h"
#include "transport/shm/net.h"

struct shm_net;

/** An op of ours that a peer will answer. Its id: generation << 32 | index. */
struct shm_out {
    struct tp_net_op *op; /* NULL: free */
    struct shm_link *link;
    const uint8_t *src;
    size_t len, sent; /* through the ring */
    bool pushed; /* the peer asked for it through the ring */
    uint32_t generation;
    uint32_t next; /* free, or to be pushed; UINT32_MAX ends */
};

/** The direction of a link that we write. */
struct shm_way_out {
    struct tp_shm_ring *ring; /* NULL: not connected */
    int fd; /* of the ring until it is accepted, then -1 */
    uint32_t head, tail; /* cells written; seen to be consumed */
    uint32_t data_head, data_tail; /* offsets in the data: to write, in use */
    uint32_t data_end[TP_SHM_CELLS]; /* offset behind the data of each cell */
    uint32_t answers; /* read */
    uint32_t waiting; /* bulks to be answered */
    uint32_t push_first, push_last; /* index of shm_out; UINT32_MAX: none */
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
    uint32_t answered; /* answers written */
    bool can_fetch; /* from its memory */
    bool ending; /* reported as soon as all that it sent is read */
    bool deaf; /* nothing more is read: it broke its word */
    bool gone; /* reported, or being so */
    telpher_status why;
    struct tp_list bulks; /* struct tp_net_bulk that it announced */
    struct tp_list pulled; /* those asked for through the ring, in order */
};

enum shm_bulk_state {
    SHM_ANNOUNCED, /* the user's */
    SHM_FETCHING, /* in net->fetching */
    SHM_PULLED, /* in link->pulled */
    SHM_ANSWERING, /* the answer finds no room: in net->answering */
};

/** A bulk that was announced to us. */
struct tp_net_bulk {
    struct tp_list all; /* of link->bulks */
    struct tp_list work; /* of the list that the state names */
    struct shm_link *link;
    enum shm_bulk_state state;
    uint64_t address, len, id;
    uint8_t *dst;
    size_t want, got;
    struct tp_net_op *op; /* NULL once it has been told */
    enum tp_shm_answer_code code; /* to be answered */
};

struct shm_net {
    struct tp_net base;
    struct tp_net_params params;
    struct tp_shm_card card;
    uint64_t probe; /* what peers read to see whether they may */
    bool may_fetch; /* by the setting */
    bool armed;
    unsigned rounds; /* of progress */
    tp_ns look_at; /* when to look for deaths */
    int door_fd, bell[2], epoll_fd;
    struct tp_shm_door *door;
    uint32_t knocks; /* seen */
    struct shm_link **links; /* by rank */
    struct shm_link **active; /* those not gone, in no order */
    uint32_t active_count, ending_count;
    struct shm_out *outs;
    uint32_t out_count, out_free; /* index; UINT32_MAX: none */
    uint32_t pushing; /* of outs */
    tp_ns looked_at; /* when deaths were looked for last */
    struct tp_list fetching, answering;
    struct tp_list idle_bulks; /* memory of those that are over, by work */
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
telpher_status tp_shm_send_bulk(struct tp_net *net, uint32_t peer, const void *header,
                                size_t header_len, const void *src, size_t len,
                                struct tp_net_op *op);
/** True if the ring has room again for what found none. */
bool tp_shm_has_room(struct shm_link *link);
/** Sends more of what was pulled. @return parts sent */
unsigned tp_shm_push(struct shm_link *link);
/** Gives the op of an answered bulk and forgets it; NULL if there is none of that id. */
struct shm_out *tp_shm_find_out(struct shm_link *link, uint64_t id);
struct tp_net_op *tp_shm_take_out(struct shm_out *out);

/* ---- receive.c ---- */
/** Reads what the peer sent. @return cells and answers */
unsigned tp_shm_receive(struct shm_link *link);
/** Tells the peer what was consumed, if it does not know. */
void tp_shm_tell_tail(struct shm_link *link);
/** True if there is something to read. */
static inline bool tp_shm_has_cell(const struct shm_link *link);
static inline bool tp_shm_has_answer(const struct shm_link *link);

/* ---- bulk.c ---- */
/** @return NULL: no memory, come again */
struct tp_net_bulk *tp_shm_announce(struct shm_link *link,
                                    const struct tp_shm_message *m);
void tp_shm_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst,
                      size_t len, struct tp_net_op *op);
void tp_shm_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk);
/** Takes a part that came through the ring. @return false if it is none we asked for */
bool tp_shm_take_part(struct shm_link *link, const uint8_t *data, size_t len);
/** Fetches and answers what waits for it. @return steps */
unsigned tp_shm_run_bulks(struct shm_net *n);
/** Ends those of a peer that is lost with PEER_LOST, and forgets those not taken. */
void tp_shm_lose_bulks(struct shm_link *link);
void tp_shm_free_bulks(struct shm_link *link);
void tp_shm_free_idle_bulks(struct shm_net *n);
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

static inline bool
tp_shm_has_answer(const struct shm_link *link)
{
    const struct shm_way_out *out = &link->out;

    return out->waiting != 0 &&
           atomic_load_explicit(&out->ring->answers[out->answers % TP_SHM_ANSWERS].seq,
                                memory_order_acquire) == out->answers + 1;
}

#endif
