/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of transfers: transfer.c (what callers and streams see), progress.c (what makes
 * them go on), bulk.c (streams and their threads).
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

/** A stretch of a transfer's content in staging memory (or in the caller's memory). */
struct tp_exec_chunk {
    struct tp_list link; /**< transfer->chunks, or bulk->sends */
    struct tp_exec_transfer *transfer;
    struct tp_host_staging *from; /**< where data belongs; NULL: the caller's memory */
    void *hold; /**< a piece: for the handler's release; else NULL */
    uint8_t *data;
    uint64_t pos; /**< packed position in the transfer */
    uint64_t len;
    uint64_t gone; /**< of it, sent before it was queued */
    uint64_t cap;
    unsigned pieces; /**< device copies under way */
    bool copied; /**< READ: content is complete */
    int32_t error;
    struct tp_exec_piece parts[TP_DEVICE_PIECES_MAX];
};

struct tp_exec_transfer {
    struct tp_exec_transfers *all;
    struct tp_exec_transfer_params p; /**< valid once known */
    struct tp_list ready_link; /**< all->ready: to be looked at */
    struct tp_list wait_link; /**< all->orphans or all->hungry */
    bool known; /**< its command came */
    bool open; /**< its gate is */
    bool landing; /**< a receiver writes into fill or memory right now */
    bool finished; /**< p.finished was called */
    bool driven; /**< a thread is looking at it */
    bool again; /**< it should look once more */
    bool discard; /**< what still comes is dropped */
    bool expired; /**< it was given up, see tp_exec_transfers_expire() */
    int32_t error;
    uint64_t received; /**< content landed */
    uint32_t landing_len; /**< of the frame that is landing, else 0 */
    uint64_t limit; /**< content that may come */
    uint64_t cut; /**< content given to device copies */
    uint64_t moved; /**< content whose copies are complete */
    uint64_t sent; /**< content sent to the client */
    unsigned flying; /**< chunks in device copies */
    unsigned holding; /**< READ: chunks that are not back in staging */
    struct tp_list chunks; /**< WRITE: full ones; READ: in order, being copied */
    struct tp_list rooms; /**< READ, shared: pieces to be filled, in order */
    struct tp_list used; /**< WRITE, shared: pieces that the client may have back */
    struct tp_exec_chunk *fill; /**< WRITE: being filled */
    struct tp_exec_bulk *stream; /**< the one its content goes or comes by */
    uint64_t start_ns, end_ns;
    uint64_t seen_received; /**< when it was last looked at, */
    uint64_t seen_ns; /**< and since when; 0 = never */
};

struct tp_exec_bulk {
    struct tp_exec_transfers *all;
    struct tp_stream *stream;
    pthread_t receiver, sender;
    struct tp_list sends; /**< chunks to send; lock */
    uint64_t send_bytes; /**< in them; lock */
    struct tp_cond wake; /**< the sender's; lock */
    struct tp_exec_transfer *landing; /**< receiver only: where data_end goes */
    bool busy; /**< a thread is sending; lock */
    bool rest; /**< the sender has to flush what was offered; lock */
    bool stop; /**< lock */
    bool ended; /**< its threads have been joined; caller only */
};

struct tp_exec_transfers {
    const struct tp_exec_transfers_handler *handler;
    void *arg;
    struct tp_mutex lock; /**< all that follows and all of transfers and chunks */
    struct tp_cond space; /**< receivers that wait for staging memory */
    struct tp_map map; /**< id → transfer */
    struct tp_list ready; /**< transfers to look at */
    struct tp_list orphans; /**< READs that wait for a stream */
    struct tp_list hungry; /**< READs that wait for staging memory */
    size_t unknown_count;
    size_t active_count;
    size_t expired_count;
    size_t pieces; /**< of shared memory in use */
    uint64_t staged; /**< [bytes] of chunks in use */
    uint64_t staging_max; /**< [bytes] of those; more has to wait. Set once */
    size_t under_way; /**< chunks in device copies or being sent: they free staging */
    struct tp_host_staging *small, *large;
    struct tp_exec_bulk *streams[TP_CONTROL_BULK_MAX];
    size_t stream_count;
    uint64_t spin_ns; /**< of receivers, before they sleep. Set once */
    bool stop;
};

/** Enters a transfer of which nothing is known yet; NULL when memory is out. Under lock. */
struct tp_exec_transfer *tp_exec_transfer_new(struct tp_exec_transfers *all,
                                              uint64_t id);
/** Has a transfer looked at by the next tp_exec_transfers_drive(). Under lock. */
void tp_exec_transfer_poke(struct tp_exec_transfer *t);
/** Frees a transfer that nobody needs any more, if so. Under lock. */
void tp_exec_transfer_reap(struct tp_exec_transfer *t);
/** Content that is complete as a chunk goes to be copied, or into host memory. Under lock. */
void tp_exec_transfer_place(struct tp_exec_transfer *t);
/** A chunk of at least @p want bytes, if memory allows. Under lock. */
struct tp_exec_chunk *tp_exec_chunk_new(struct tp_exec_transfer *t, uint64_t pos,
                                        uint64_t want);
/** Under lock. NULL is fine. */
void tp_exec_chunk_free(struct tp_exec_chunk *chunk);
/** Frees pieces that are in no copy. Under lock. */
void tp_exec_transfer_free_pieces(struct tp_exec_transfer *t);
/** A chunk is in a device copy or a sender's from now on; ended: no more. Under lock. */
void tp_exec_chunk_begun(struct tp_exec_transfers *all);
void tp_exec_chunk_ended(struct tp_exec_transfers *all);
/**
 * Gives a chunk to the sender of its transfer's stream, or sends it, if it is small and may go
 * without waiting. Under lock, which is free meanwhile.
 */
void tp_exec_bulk_queue(struct tp_exec_transfer *t, struct tp_exec_chunk *chunk);
/** Chooses a stream for what goes to the client; NULL if there is none. Under lock. */
struct tp_exec_bulk *tp_exec_bulk_choose(struct tp_exec_transfers *all);
/**
 * Looks at all transfers that were poked; the last thing before the lock is given up. The
 * lock is free during calls out.
 */
void tp_exec_transfers_drive(struct tp_exec_transfers *all);

#endif
