/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content of transfers (docs/protocol.md 5.5) on its way between bulk streams and device
 * or host memory: chunks of staging memory, credits, streams that race with commands.
 * Knows devices through core/device.h only.
 *
 * One lock. Streams land content in chunks; senders take chunks that were read; device
 * copies are started by whichever thread has something that can be copied.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_TRANSFER_TRANSFER_H
#define TELPHER_DAEMON_EXECUTOR_TRANSFER_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/container/budget.h"
#include "core/device.h"
#include "core/session/session.h"
#include "core/transport.h"
#include "device/host/staging.h"

struct tp_exec_transfers;
struct tp_exec_bulk;

enum {
    TP_EXEC_TRANSFER_CHUNK = 1 << 20, /**< [bytes] of one device copy, at most */
    TP_EXEC_TRANSFER_EAGER_MAX = 2 << 20, /**< [bytes] of WRITEs that may be eager */
    TP_EXEC_TRANSFER_DEPTH = 8, /**< chunks of one READ under way at once */
    TP_EXEC_TRANSFER_UNKNOWN_MAX = 64, /**< transfers whose command has not come */
    TP_EXEC_TRANSFER_STAGING_MAX = 1
                                   << 30, /**< [bytes] landed and not yet on a device */
    TP_EXEC_TRANSFER_PIECES_MAX = 4096, /**< pieces of shared memory in use at once */
};

/** Error of a transfer for which no staging memory was left: CL_OUT_OF_HOST_MEMORY. */
#define TP_EXEC_TRANSFER_NO_MEMORY (-6)

/** Error of a transfer of an image whose content was cut inside an element:
 *  CL_INVALID_VALUE. */
#define TP_EXEC_TRANSFER_BAD_CUT (-30)

/** What a command says about its transfer. */
struct tp_exec_transfer_params {
    uint64_t id;
    uint64_t size; /**< [bytes] > 0 */
    bool to_client; /**< READ, or an answer; else content comes */
    bool gated; /**< nothing touches the device before tp_exec_transfers_open() */
    bool
        shared; /**< its content lies in pieces, which tp_exec_transfers_piece() brings */
    bool
        credit_first; /**< no content comes before a credit, which waits for the gate */
    bool
        eager; /**< small copies, of little content or at first: copies cost little, and go
                     on beside the network */
    struct tp_device *device; /**< NULL: host memory */
    void *mem; /**< of the device; borrowed until finished */
    struct tp_device_box box;
    uint8_t *memory; /**< host memory of @p size bytes; borrowed until finished */
    /**
     * Called once, by any thread: the device or host memory is free again. Content for the
     * client may still be on its way (device), or is sent (host memory).
     * @param error 0, the domain's code, or what tp_exec_transfers_open/abort were given
     */
    void (*finished)(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns);
    void *arg;
};

/** A stretch of memory that the client shares: content of a transfer, or room for it. */
struct tp_exec_transfer_piece {
    uint64_t offset, len; /**< [bytes] of the content */
    uint8_t *memory; /**< borrowed until released; may change at any time */
    void *hold; /**< for the handler's release */
};

/** Calls outwards. Any thread, without locks. */
struct tp_exec_transfers_handler {
    /** A piece is used: its content has been taken, or is there. In the order of the
     *  content for what goes to the client. Not called for what ends with finished. */
    void (*piece_done)(void *arg, uint64_t transfer, uint64_t offset, uint64_t len);
    /** The memory of a piece is not looked at any more. Here a lock may be held. */
    void (*release)(void *arg, void *hold);
    /** Content of @p transfer below @p limit may be sent. */
    void (*credit)(void *arg, uint64_t transfer, uint64_t limit);
    /**
     * For receivers that spin before they sleep. watch: this thread will look after what it
     * starts by idle(), or not any more. idle: it finds nothing to receive. @return true if
     * something was over. leave: it is about to wait for something else.
     */
    void (*watch)(void *arg, bool begins);
    bool (*idle)(void *arg);
    void (*leave)(void *arg);
    /** A bulk stream broke while something needed it. Its receiver calls; may wait. */
    void (*lost)(void *arg, telpher_status status);
};

/** @param handler kept */
telpher_status tp_exec_transfers_create(const struct tp_exec_transfers_handler *handler,
                                        void *arg,
                                        struct tp_exec_transfers **ret_transfers);
/** Calls @p each for the staging that content passes through. */
void tp_exec_transfers_each_staging(const struct tp_exec_transfers *all,
                                    void (*each)(void *arg,
                                                 struct tp_host_staging *staging),
                                    void *arg);
/** Breaks all bulk streams and waits until their threads have ended. */
void tp_exec_transfers_end_streams(struct tp_exec_transfers *all);
/**
 * Has content under way count in @p budget, which is kept, before the first stream is
 * added. Content of WRITEs that are held up is dropped when it is spent; other content
 * waits while half of it is in use.
 */
void tp_exec_transfers_set_budget(struct tp_exec_transfers *all,
                                  struct tp_budget *budget);
/**
 * Ends transfers to the server of which nothing has come for @p timeout_ns, though it
 * might have. To be called now and then. Any thread.
 * @param error what they end with
 * @return how many were ended so far and still hold their id
 */
size_t tp_exec_transfers_expire(struct tp_exec_transfers *all, uint64_t now_ns,
                                uint64_t timeout_ns, int32_t error);
/** Has receivers look for content so long before they sleep; before the first stream. */
void tp_exec_transfers_set_spin(struct tp_exec_transfers *all, uint64_t spin_ns);
/** For tests: ends threads and streams. All transfers must be finished. NULL is fine. */
void tp_exec_transfers_destroy(struct tp_exec_transfers *all);

/**
 * Announces a transfer. @p params is copied.
 * @return OK: finished will be called; PROTO: the id is in use, or more content came than
 *         announced; NO_MEMORY
 */
telpher_status tp_exec_transfers_start(struct tp_exec_transfers *all,
                                       const struct tp_exec_transfer_params *params);
/**
 * Brings the next piece of a shared transfer. @param piece copied; its hold is taken if
 * OK is returned
 * @return OK; NOT_FOUND: no command of that transfer has come; PROTO: it is not shared, or
 *         the piece is not the next one, or there are too many; NO_MEMORY
 */
telpher_status tp_exec_transfers_piece(struct tp_exec_transfers *all, uint64_t id,
                                       const struct tp_exec_transfer_piece *piece);
/** Opens the gate of a transfer; @p error not 0 ends it with that. Any thread. */
void tp_exec_transfers_open(struct tp_exec_transfers *all, uint64_t id, int32_t error);
/** Content will not come: ends it with @p error. Unknown ids are ignored. */
void tp_exec_transfers_abort(struct tp_exec_transfers *all, uint64_t id, int32_t error);
/** The command of a transfer failed: @p size bytes of content that may come are dropped. */
telpher_status tp_exec_transfers_discard(struct tp_exec_transfers *all, uint64_t id,
                                         uint64_t size, bool shared);

/** Transfers that are not finished. */
size_t tp_exec_transfers_active(struct tp_exec_transfers *all);

/** Adds a bulk stream and starts its threads. @param conn taken, also on failure */
telpher_status tp_exec_transfers_add_stream(struct tp_exec_transfers *all,
                                            struct tp_conn *conn,
                                            const struct tp_session_numbers *numbers);

#endif
