/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor: one session, one process, with the drivers in it.
 *
 *   main.c    start, options, --probe         reader.c          the reader and its loop
 *   session.c what a session starts with
 *   objects.c ids and objects                 context.c  contexts, queues, buffers
 *   device.c  devices and their parts         command_buffer.c command buffers
 *   command_buffer_record.c  what is recorded in them
 *   program.c programs                        kernel.c   kernels
 *   il.c      programs in SPIR-V              files.c    files they include
 *   build.c   builds, on the pool
 *   source.c    what native programs are of     binary.c   binaries asked for
 *   exec_cache*.c  builds made before              binary_load.c  binaries given
 *   event.c   events and their completion     command.c  what goes into queues
 *   image.c   images, samplers                image_command.c  their commands
 *   read_write.c READ and WRITE                  large_transfer.c     large ones of them
 *   transfer.c     content of transfers            bulk.c          bulk streams
 *   printf.c       what kernels print
 *   watchdog.c     kernels that never end          shared_memory.c    memory of the client
 *   pinned.c     memory that drivers know        session_end.c      the end of a session
 *   held_events.c    events that failed              user_event.c  that others set
 *
 * Threads: the *reader* receives commands and hands them to the driver's own queues; it
 * owns the table of objects. Native callbacks send DONE themselves. The pool builds. The
 * content of transfers is moved by whichever thread has some: each bulk stream has a
 * receiver and a sender.
 *
 * Locks, in order of taking: done_lock (lists of pending events, their flags, the order of
 * DONE), then a stream's own lock. transfers and printf have locks of their own, which are
 * not held while another is taken, save printf's around the stream's.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_EXECUTOR_H
#define TELPHER_DAEMON_EXECUTOR_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/container/budget.h"
#include "base/container/list.h"
#include "base/container/map.h"
#include "base/container/pool.h"
#include "base/os/clock.h"
#include "base/os/thread.h"
#include "core/session/stream.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/pinned.h"
#include "daemon/executor/transfer/transfer.h"
#include "daemon/limits.h"
#include "device/host/staging.h"
#include "device/opencl/commands.h"
#include "device/opencl/domain.h"
#include "device/opencl/inventory.h"

struct tp_exec_printf;
struct tp_exec_watchdog;
struct tp_exec_cache;

enum { TP_EXEC_POOL_THREADS = 2 }; /**< that build */

struct tp_exec {
    struct tp_opencl cl;
    struct tp_opencl_inventory inventory;
    struct tp_opencl_commands commands; /**< loaded when a client makes some */
    uint32_t platform;
    uint32_t device_count; /**< that the broker knows of */
    uint8_t session[TP_WIRE_SESSION_BYTES];
    struct tp_stream *stream;
    int wake_fd; /**< eventfd: wakes the reader */
    struct tp_map objects; /**< reader only */
    struct tp_daemon_limits limits;
    _Atomic uint64_t kind_count[TP_EXEC_KINDS]; /**< objects alive, by tp_wire_kind */
    struct tp_budget memory; /**< [bytes] of buffers */
    struct tp_budget host; /**< [bytes] of content under way */
    tp_ns spin_ns; /**< of the reader before it sleeps */
    tp_ns bulk_spin_ns; /**< likewise of those who receive content */
    _Atomic uint64_t object_count; /**< alive, also those without id or released */
    struct tp_list dirty; /**< queues to flush; reader only */
    cl_event *waits; /**< room for a wait list; reader only */
    size_t waits_capacity;
    struct tp_pool *pool;
    struct tp_host_staging *staging; /**< chunks of TP_WIRE_INLINE_MAX */
    struct tp_host_staging *middle; /**< chunks for READs up to TP_EXEC_DIRECT_MAX */
    struct tp_exec_transfers *transfers;
    struct tp_map regions; /**< memory that the client shares; reader only */
    struct tp_exec_pins pins;
    struct tp_exec_transfer_piece
        stash; /**< content of the command to come; reader only */
    uint64_t stash_transfer;
    struct tp_exec_printf *printf;
    struct tp_exec_watchdog *watchdog;
    struct tp_exec_cache *cache; /**< NULL: none */
    struct tp_mutex done_lock;
    struct tp_list queues; /**< done_lock */
    struct tp_list gates; /**< moves whose gate is closed; done_lock */
    struct tp_list user_events; /**< not set; done_lock */
    _Atomic uint64_t user_events_open; /**< their number */
    _Atomic unsigned telling; /**< moves that failed, while the driver is told */
    struct tp_cond told; /**< there are none; with done_lock */
    _Atomic uint64_t events_made;
    _Atomic(struct tp_exec_hold *) holds; /**< held_events.c */
    _Atomic uint64_t progress; /**< counts completions, for the watchdog */
    _Atomic uint64_t
        calls; /**< odd while the reader is in the driver; only it changes */
    _Atomic uint64_t next_transfer; /**< counter for ids that we choose */
    _Atomic uint32_t
        quirks; /**< of the driver, bits by enum tp_exec_quirk; only the reader sets them */
    bool
        bare_launches; /**< those that nobody asks about have no event: an event costs the
                             driver more than a marker behind them */
    bool was_probed; /**< for that; reader only */
    pthread_t prober;
    _Atomic bool probing; /**< read by any thread; prober does not change meanwhile */
    bool ended; /**< the client said GOODBYE */
    bool ending; /**< the client has gone; reader only */
    bool lost_sight; /**< whether all commands are over cannot be told; reader only */
};

/* ---- session.c ---- */

/** Makes what a session needs besides its stream; limits and drivers are there. */
telpher_status tp_exec_prepare(struct tp_exec *x);

/* ---- reader.c ---- */

/** Serves the session until it ends. @return exit status */
int tp_exec_serve(struct tp_exec *x);
/** What the stream's frames go to; its argument is the executor. Reader only. */
extern const struct tp_stream_handler tp_exec_handler;

struct tp_control;
/** Makes a connection of what came with a SESSION or a BULK; takes @p fd. */
telpher_status tp_exec_adopt(const struct tp_control *msg, const uint8_t *rest, int fd,
                             struct tp_conn **ret_conn);
/** Puts a frame on the command stream. Any thread. Failure shows at the reader. */
void tp_exec_put(struct tp_exec *x, uint16_t type, const void *msg);
/** Sends what was put. Any thread. */
void tp_exec_flush(struct tp_exec *x);
/** Has the reader look up: something is unsent, or regions are over. Any thread. */
void tp_exec_wake(struct tp_exec *x);
/** Puts FAILED with "call: CL_NAME" and sends it. */
void tp_exec_failed(struct tp_exec *x, uint64_t id, int32_t error, const char *call);
/** Ends the process with last words. Any thread. */
_Noreturn void tp_exec_die(struct tp_exec *x, telpher_status status, const char *text);
/** A transfer id chosen by the server. */
uint64_t tp_exec_transfer_id(struct tp_exec *x);

/* ---- session_end.c ---- */

/** What is left to do when the client has gone; bounded in time. Reader only. */
void tp_exec_end_session(struct tp_exec *x);
/** Has an event stand behind launches that have none, so that their end can be seen. Reader
 *  only. */
void tp_exec_queue_track(struct tp_exec_queue *q);

/* ---- printf.c ---- */

/** Turns standard output into a pipe whose content goes to the client. */
telpher_status tp_exec_printf_create(struct tp_exec *x, struct tp_exec_printf **ret);
/**
 * Says what the client's programs are made of: as long as nothing of it prints,
 * completions need not look for what was printed.
 * @param text NULL: something that cannot be told from. Any thread, before it is built.
 */
void tp_exec_printf_expect(struct tp_exec_printf *p, const void *text, size_t len);
/** Puts everything printed so far. Any thread. */
void tp_exec_printf_drain(struct tp_exec_printf *p);

/* ---- watchdog.c ---- */

/** Starts the watchdog, which knows x->limits; it always looks for failed commands. */
telpher_status tp_exec_watchdog_create(struct tp_exec *x,
                                       struct tp_exec_watchdog **ret);
/** Work has been submitted: look after it. */
void tp_exec_watchdog_arm(struct tp_exec_watchdog *w);
/** Around the reader's work in the driver, which may never come back from there. */
void tp_exec_watchdog_enter(struct tp_exec *x);
void tp_exec_watchdog_leave(struct tp_exec *x);
/** Around a build on a thread of the pool. @return for the end of the same */
size_t tp_exec_watchdog_build_begin(struct tp_exec_watchdog *w);
void tp_exec_watchdog_build_end(struct tp_exec_watchdog *w, size_t build);

#endif
