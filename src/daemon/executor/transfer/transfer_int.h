/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interface of transfers: transfer.c (API and life cycle), progress.c (state
 * machine), bulk.c, bulk_receive.c and bulk_send.c (streams and their threads).
 *
 * "lock" behind a member: tp_exec_transfers.lock guards it.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_TRANSFER_TRANSFER_INT_H
#define TELPHER_DAEMON_EXECUTOR_TRANSFER_TRANSFER_INT_H

#include "base/container/list.h"
#include "base/container/map.h"
#include "base/os/thread.h"
#include "core/session/stream.h"
#include "daemon/control.h"
#include "daemon/executor/transfer/transfer.h"

enum { TP_EXEC_TRANSFER_SMALL_CHUNK = TP_WIRE_CHUNK_MAX };

struct tp_exec_chunk;

/** One device copy of a chunk. */
struct tp_exec_piece {
    struct tp_device_copy copy;
    struct tp_exec_chunk *chunk;
};

/** A range of a transfer's content in staging memory (or in the caller's memory). */
struct tp_exec_chunk {
    struct tp_list link; /**< transfer->chunks, or bulk->sends */
    struct tp_exec_transfer *transfer;
    struct tp_host_staging *from; /**< owner of data; NULL: the caller's memory */
    void *hold; /**< of a piece: for the handler's release; else NULL */
    uint8_t *data;
    uint64_t pos; /**< packed position in the transfer */
    uint64_t len;
    uint64_t gone; /**< bytes of it sent before it was queued */
    uint64_t cap;
    uint64_t seq; /**< in bulk->kept: number of its last frame, or a later one */
    unsigned pieces; /**< device copies in flight */
    bool copied; /**< READ: content is complete */
    int32_t error;
    struct tp_exec_piece parts[TP_DEVICE_PIECES_MAX];
};

struct tp_exec_transfer {
    struct tp_exec_transfers *all;
    struct tp_exec_transfer_params p; /**< valid once known */
    struct tp_list ready_link; /**< all->ready: to be advanced */
    struct tp_list wait_link; /**< all->orphans or all->hungry */
    bool known; /**< its command was received */
    bool open; /**< its gate is open */
    bool receiving; /**< a receiver is writing into fill or memory */
    bool finished; /**< p.finished was called */
    bool driven; /**< a thread is advancing it */
    bool again; /**< that thread must advance it once more */
    bool discard; /**< further content is dropped */
    bool expired; /**< it timed out, see tp_exec_transfers_expire() */
    bool
        cut_off; /**< no more content will come: aborted by its server, or that is lost */
    int32_t error;
    uint64_t received; /**< content received */
    uint32_t receiving_len; /**< of the frame being received, else 0 */
    uint64_t
        limit; /**< content that may be sent: by the client, or to another server */
    uint64_t cut; /**< content given to device copies */
    uint64_t moved; /**< content whose copies are complete */
    uint64_t sent; /**< content sent to the client */
    unsigned flying; /**< chunks in device copies */
    unsigned holding; /**< READ: chunks that are not back in staging */
    struct tp_list chunks; /**< WRITE: full ones; READ: in order, being copied */
    struct tp_list rooms; /**< READ, shared: pieces to be filled, in order */
    struct tp_list used; /**< WRITE, shared: pieces to return to the client */
    struct tp_exec_chunk *fill; /**< WRITE: being filled */
    struct tp_exec_bulk *stream; /**< the stream of its content */
    uint64_t start_ns, end_ns;
    uint64_t seen_received; /**< `received` at the last timeout check, */
    uint64_t seen_ns; /**< and the time since when it has that value; 0 = never */
};

struct tp_exec_bulk {
    struct tp_exec_transfers *all;
    struct tp_list peer_link; /**< of another server: in all->peers */
    const struct tp_exec_peer_handler *peer; /**< NULL: the client's */
    void *peer_arg;
    uint64_t names; /**< added to the other side's ids of transfers; 0: none */
    struct tp_map
        early; /**< of another server: id → transfer without a command. Another
                              server may use the same id; lock */
    struct tp_stream *stream;
    pthread_t receiver, sender;
    uint32_t index;
    struct tp_list sends; /**< chunks to send; lock */
    bool gives_signs; /**< the other server sends frames when it idles; receiver only */
    tp_ns quiet; /**< looks that found nothing from the other server; receiver only */
    bool keeps; /**< chunks stay until the other side has acknowledged them */
    bool unacked; /**< content arrived that was not acknowledged; receiver only */
    struct tp_list kept; /**< chunks sent and not acknowledged; lock */
    uint64_t send_bytes; /**< in them; lock */
    struct tp_cond wake; /**< the sender's; lock */
    struct tp_exec_transfer
        *receiving; /**< receiver only: transfer of the current frame */
    bool busy; /**< a thread is sending; lock */
    bool drives; /**< the sender must drive transfers that waited for it; lock */
    bool rest; /**< the sender must flush bytes left by offer_chunk(); lock */
    bool stop; /**< lock */
    bool ended; /**< its threads have been joined; caller only */
};

struct tp_exec_transfers {
    const struct tp_exec_transfers_handler *handler;
    void *arg;
    struct tp_mutex lock; /**< guards all that follows, transfers and chunks */
    struct tp_cond space; /**< receivers that wait for staging memory */
    struct tp_map
        map; /**< id → transfer, except those in the table of a peer's stream */
    struct tp_list ready; /**< transfers to advance */
    struct tp_list orphans; /**< READs that wait for a stream */
    struct tp_list hungry; /**< READs that wait for staging memory */
    size_t unknown_count;
    size_t active_count;
    size_t expired_count;
    size_t pieces; /**< of shared memory in use */
    uint64_t staged; /**< [bytes] of chunks in use */
    uint64_t
        staging_max; /**< [bytes] limit of staged; beyond it content waits. Set once */
    size_t
        under_way; /**< chunks in device copies or being sent: they will free staging */
    struct tp_host_staging *small, *large;
    struct tp_exec_bulk *streams[TP_CONTROL_BULK_MAX];
    size_t stream_count;
    struct tp_list peers; /**< streams of other servers */
    uint64_t
        silence_ns; /**< of other servers that something waits for; 0: no limit. Set once */
    uint64_t spin_ns; /**< of receivers, before they sleep. Set once */
    bool stop;
};

/** Creates an unknown transfer in a table. @return NULL: no memory. Under lock. */
struct tp_exec_transfer *tp_exec_transfer_new(struct tp_exec_transfers *all,
                                              struct tp_map *map, uint64_t id);
/** The id of a transfer in frames. */
uint64_t tp_exec_transfer_name(const struct tp_exec_transfer *t);
/** Schedules a transfer for the next tp_exec_transfers_drive(). Under lock. */
void tp_exec_transfer_poke(struct tp_exec_transfer *t);
/** Frees a transfer if it is no longer needed. Under lock. */
void tp_exec_transfer_reap(struct tp_exec_transfer *t);
/** Queues a complete chunk for a copy to the device or to host memory. Under lock. */
void tp_exec_transfer_place(struct tp_exec_transfer *t);
/** Allocates a chunk of at least @p want bytes. @return NULL: no memory. Under lock. */
struct tp_exec_chunk *tp_exec_chunk_new(struct tp_exec_transfer *t, uint64_t pos,
                                        uint64_t want);
/** Frees a chunk. Under lock. NULL is fine. */
void tp_exec_chunk_free(struct tp_exec_chunk *chunk);
/** Frees pieces that no copy uses. Under lock. */
void tp_exec_transfer_free_pieces(struct tp_exec_transfer *t);
/** Count a chunk in and out of under_way: in a device copy or being sent. Under lock. */
void tp_exec_chunk_begun(struct tp_exec_transfers *all);
void tp_exec_chunk_ended(struct tp_exec_transfers *all);
/**
 * Sends a small chunk if that does not block, else queues it for the sender of its stream.
 * Under lock, which is released meanwhile.
 */
void tp_exec_bulk_queue(struct tp_exec_transfer *t, struct tp_exec_chunk *chunk);
/** Tells the other server of a credit, or that content will not come. Releases the lock
 *  meanwhile. */
void tp_exec_bulk_tell(struct tp_exec_bulk *b, uint16_t type, const void *msg);
/** Notes that a chunk was sent, and received where streams resume; frees it. Under lock. */
void tp_exec_bulk_chunk_sent(struct tp_exec_bulk *b, struct tp_exec_chunk *c);
/** Drops content without a command that arrived by the stream of a lost server. A command that
 *  comes later fails because the stream is lost. Under lock. */
void tp_exec_bulk_drop_unknown(struct tp_exec_bulk *b);
/** Frees a transfer that is in no list but its own. Under lock. */
void tp_exec_transfer_free_rest(struct tp_exec_transfer *t);
/** The threads of a stream; @p arg is the struct tp_exec_bulk. */
void *tp_exec_bulk_receive(void *arg);
void *tp_exec_bulk_send(void *arg);
/** Chooses a stream for content to the client. @return NULL: there is none. Under lock. */
struct tp_exec_bulk *tp_exec_bulk_choose(struct tp_exec_transfers *all);
/**
 * Advances all scheduled transfers; the last action before the lock is released. Releases
 * the lock during callbacks.
 */
void tp_exec_transfers_drive(struct tp_exec_transfers *all);
/** Schedules a transfer and advances all; likewise the last action. */
void tp_exec_transfer_advance(struct tp_exec_transfer *t);

#endif
