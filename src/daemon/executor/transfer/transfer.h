/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves content of transfers (docs/protocol.md 5.5) between bulk streams and device or host
 * memory, through chunks of staging memory and with credits. Content may arrive before its
 * command. Uses devices through waist/device.h only.
 *
 * One lock guards everything. Receivers put content into chunks, senders send chunks that
 * were read, and any thread that completes a chunk starts its device copies.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_TRANSFER_TRANSFER_H
#define TELPHER_DAEMON_EXECUTOR_TRANSFER_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/container/budget.h"
#include "core/session/stream.h"
#include "device/host/staging.h"
#include "waist/device.h"
#include "waist/transport.h"

enum {
    TP_EXEC_PAGE = 4096
}; /**< [bytes] the least that content takes of host memory */

/** Time without a sign of life from the machine of a client or of another server, that ends
 *  its connection. */
#define TP_EXEC_SILENCE (25 * TP_CLOCK_S)

struct tp_exec_transfers;
struct tp_exec_bulk;

enum {
    TP_EXEC_TRANSFER_CHUNK = 1 << 20, /**< [bytes] of one device copy, at most */
    TP_EXEC_TRANSFER_EAGER_MAX = 2 << 20, /**< [bytes] of WRITEs that may be eager */
    TP_EXEC_TRANSFER_DEPTH = 8, /**< chunks of one READ in flight */
    TP_EXEC_TRANSFER_UNKNOWN_MAX =
        64, /**< transfers whose command is not received yet */
    TP_EXEC_TRANSFER_STAGING_MAX = 1
                                   << 30, /**< [bytes] received, not yet on a device */
    TP_EXEC_TRANSFER_PIECES_MAX = 4096, /**< pieces of shared memory in use at once */
};

/** Error of a transfer without staging memory: CL_OUT_OF_HOST_MEMORY. */
#define TP_EXEC_TRANSFER_NO_MEMORY (-6)

/** Error of a transfer from or to another server that is lost: CL_DEVICE_NOT_AVAILABLE. */
#define TP_EXEC_TRANSFER_PEER_LOST (-2)

/** Error of a transfer of an image whose content was cut inside an element:
 *  CL_INVALID_VALUE. */
#define TP_EXEC_TRANSFER_BAD_CUT (-30)

/** Parameters of a transfer, from its command. */
struct tp_exec_transfer_params {
    uint64_t id;
    uint64_t size; /**< [bytes] > 0 */
    bool to_client; /**< READ, or an answer; else the client sends content */
    bool gated; /**< no device access before tp_exec_transfers_open() */
    bool shared; /**< content in shared memory, see tp_exec_transfers_piece() */
    bool
        credit_first; /**< the client sends after a credit, given when the gate opens */
    bool eager; /**< use small copies for small content and at the start, so that copies
                     overlap with the network */
    struct tp_exec_bulk *peer; /**< stream of another server; NULL: the client's */
    struct tp_device *device; /**< NULL: host memory */
    void *mem; /**< of the device; borrowed until finished */
    struct tp_device_box box;
    uint8_t *memory; /**< host memory of @p size bytes; borrowed until finished */
    bool
        copies; /**< small host memory is copied before it goes to another server, so that
                      the end does not wait for an acknowledgement */
    /**
     * Called once, on any thread, when the device or host memory is no longer in use.
     * Content from a device may still be unsent; content from host memory has been sent.
     * @param error 0, the domain's code, or the error of tp_exec_transfers_open/abort
     */
    void (*finished)(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns);
    void *arg;
};

/** A range of shared memory: content of a transfer, or the destination of it. */
struct tp_exec_transfer_piece {
    uint64_t offset, len; /**< [bytes] of the content */
    uint8_t *memory; /**< borrowed until released; may change at any time */
    void *hold; /**< for the handler's release */
};

/** Callbacks. Any thread, without locks. */
struct tp_exec_transfers_handler {
    /** The content of a piece has been read or written. Content for the client is reported
     *  in order. Not called for pieces that end with `finished`. */
    void (*piece_done)(void *arg, uint64_t transfer, uint64_t offset, uint64_t len);
    /** The memory of a piece is no longer accessed. A lock may be held. */
    void (*release)(void *arg, void *hold);
    /** The client may send content of @p transfer below @p limit. */
    void (*credit)(void *arg, uint64_t transfer, uint64_t limit);
    /**
     * For receivers that spin before they sleep. watch: this thread begins or ends to poll,
     * by idle(), for the completion of the commands it starts. idle: there is nothing to
     * receive; polls. @return true if a command has completed. leave: the thread is about
     * to wait for something else.
     */
    void (*watch)(void *arg, bool begins);
    bool (*idle)(void *arg);
    void (*leave)(void *arg);
    /** A bulk stream broke while a transfer needed it. Its receiver calls; may block. */
    void (*lost)(void *arg, telpher_status status);
};

/** @param handler kept */
telpher_status tp_exec_transfers_create(const struct tp_exec_transfers_handler *handler,
                                        void *arg,
                                        struct tp_exec_transfers **ret_transfers);
/** Calls @p each for every staging allocator of the transfers. */
void tp_exec_transfers_each_staging(const struct tp_exec_transfers *all,
                                    void (*each)(void *arg,
                                                 struct tp_host_staging *staging),
                                    void *arg);
/** True if content of a stream is kept until the other side has acknowledged it. */
bool tp_exec_bulk_keeps(const struct tp_exec_bulk *b);
/** Breaks all bulk streams and waits until their threads have ended. */
void tp_exec_transfers_end_streams(struct tp_exec_transfers *all);
/**
 * Charges content in transit to @p budget, which is kept. Call before the first stream is
 * added. Content of gated WRITEs is dropped when the budget is exhausted; other content
 * waits while half of it is in use.
 */
void tp_exec_transfers_set_budget(struct tp_exec_transfers *all,
                                  struct tp_budget *budget);
/**
 * Fails transfers to the server that could make progress but received nothing for
 * @p timeout_ns. To be called periodically. Any thread.
 * @param error error of the failed transfers
 * @return number of expired transfers that still occupy their id
 */
size_t tp_exec_transfers_expire(struct tp_exec_transfers *all, uint64_t now_ns,
                                uint64_t timeout_ns, int32_t error);
/** Sets the spin time of receivers before they sleep. Call before the first stream. */
void tp_exec_transfers_set_spin(struct tp_exec_transfers *all, uint64_t spin_ns);
/** Sets how long another server may be silent that something waits for; 0: no limit. Call
 *  before the first stream. */
void tp_exec_transfers_set_silence(struct tp_exec_transfers *all, uint64_t silence_ns);
/** For tests: ends threads and streams. All transfers must be finished. NULL is fine. */
void tp_exec_transfers_destroy(struct tp_exec_transfers *all);

/**
 * Starts a transfer. @p params is copied.
 * @return OK: finished will be called; PROTO: the id is in use, or more content arrived
 *         than params->size; NO_MEMORY
 */
telpher_status tp_exec_transfers_start(struct tp_exec_transfers *all,
                                       const struct tp_exec_transfer_params *params);
/**
 * Adds the next piece of a shared transfer. @param piece copied; its hold is taken if OK
 * is returned
 * @return OK; NOT_FOUND: the command of that transfer has not been received; PROTO: it is
 *         not shared, the piece is not the next one, or there are too many; NO_MEMORY
 */
telpher_status tp_exec_transfers_piece(struct tp_exec_transfers *all, uint64_t id,
                                       const struct tp_exec_transfer_piece *piece);
/** Opens the gate of a transfer; a nonzero @p error fails it. Any thread. */
void tp_exec_transfers_open(struct tp_exec_transfers *all, uint64_t id, int32_t error);
/** Fails a transfer whose content the client will not send. Ignores unknown ids. */
void tp_exec_transfers_abort(struct tp_exec_transfers *all, uint64_t id, int32_t error);
/** Drops the @p size bytes of content of a transfer whose command failed.
 *  @param peer as in the parameters of a transfer */
telpher_status tp_exec_transfers_discard(struct tp_exec_transfers *all, uint64_t id,
                                         uint64_t size, bool shared,
                                         struct tp_exec_bulk *peer);

/** @return number of unfinished transfers */
size_t tp_exec_transfers_active(struct tp_exec_transfers *all);

/** Adds a bulk stream and starts its threads. @param conn taken, also on failure
 *  @param resumes it can be resumed on another connection */
telpher_status tp_exec_transfers_add_stream(struct tp_exec_transfers *all,
                                            struct tp_conn *conn, uint32_t index,
                                            bool resumes);
/** @return the client's bulk stream of that index; NULL: there is none */
struct tp_stream *tp_exec_transfers_stream(struct tp_exec_transfers *all,
                                           uint32_t index);

/* ---- streams of other servers, see executor/peer ---- */

/** Callbacks of a stream between servers. Its receiver calls them, without locks. */
struct tp_exec_peer_handler {
    /** A frame that is not about content. @return OK; else the stream breaks */
    telpher_status (*frame)(void *arg, uint16_t type, const uint8_t *body,
                            const uint8_t *end);
    /** The stream has broken; its transfers have failed. Called once. */
    void (*lost)(void *arg, telpher_status status);
    /** True if something else than content is expected of the other server. May be NULL if
     *  tp_exec_bulk_expect_signs() is not called. */
    bool (*waits)(void *arg);
    /** The connection was lost: gets or awaits another one. May be NULL if the stream does not
     *  resume. @return OK; else the stream is lost */
    telpher_status (*away)(void *arg, struct tp_stream *stream);
};

/**
 * Adds the stream of another server and starts its threads.
 * @param stream  taken, also on failure
 * @param handler kept
 * @param names   0: the client names the transfers, uniquely in the session; else bits of
 *                TP_WIRE_ENDPOINT_NAMES that are added to the other side's ids
 * @param resumes it can be resumed on another connection
 * @param ret_bulk gives it before the first callback; valid until the end of @p all
 */
telpher_status tp_exec_transfers_add_peer(struct tp_exec_transfers *all,
                                          struct tp_stream *stream,
                                          const struct tp_exec_peer_handler *handler,
                                          void *arg, uint64_t names, bool resumes,
                                          struct tp_exec_bulk **ret_bulk);
/** The stream of frames. Lives as long as @p b. */
struct tp_stream *tp_exec_bulk_stream(const struct tp_exec_bulk *b);
/** Frees a stream that is lost. Waits for its threads; no other thread may use it.
 *  @return false: a transfer needs it still, or again */
bool tp_exec_transfers_remove_peer(struct tp_exec_transfers *all,
                                   struct tp_exec_bulk *b);
/** Appends a frame. Any thread, also under locks. The receiver reports a failure. */
void tp_exec_bulk_put(struct tp_exec_bulk *b, uint16_t type, const void *msg);
/** The other server sends signs of life: its silence breaks the stream, if something waits
 *  for it. Receiver only. */
void tp_exec_bulk_expect_signs(struct tp_exec_bulk *b);
/** Sends appended frames; does not wait. Any thread, without locks. */
void tp_exec_bulk_kick(struct tp_exec_bulk *b);
/** Breaks it from any thread. */
void tp_exec_bulk_break(struct tp_exec_bulk *b, telpher_status status);

#endif
