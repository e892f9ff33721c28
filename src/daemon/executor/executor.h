/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor serves one session in one process, which loads the drivers.
 *
 *   main.c        start, options, --probe      reader.c       the reader and its loop
 *   session.c     state of a new session       session_end.c  end of a session
 *   event.c       completion of events         user_event.c   user events
 *   event_look.c  states of commands           flush.c        when queues are flushed
 *   held_events.c failed events kept alive        pace.c      shares of device time
 *   watchdog.c    commands without progress    printf.c       output of kernels
 *   pinned.c      pinned host memory           quirks.c       table of driver quirks
 *   objects/      id table, devices, contexts, queues, buffers, images, kernels
 *   commands/     commands, small and large transfers, command buffers
 *   program/      sources, includes, builds, binaries, build cache
 *   peer/         streams to other servers, content and events that go there
 *   transfer/     content of transfers, bulk streams, shared memory of the client
 *
 * Threads: the *reader* receives commands and enqueues them in the driver's queues; it
 * owns the table of objects. Native callbacks send DONE themselves. The pool runs builds.
 * Each bulk stream has a receiver and a sender; any thread may move content.
 *
 * No lock is held while the driver is called. Lock order: done_lock (lists of pending
 * events, their flags, the order of DONE), then a stream's own lock. The locks of transfers and printf are leaves, except that printf
 * takes the stream's lock under its own.
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
#include "daemon/executor/peer/peer.h"
#include "daemon/executor/pinned.h"
#include "daemon/executor/transfer/transfer.h"
#include "daemon/limits.h"
#include "daemon/share.h"
#include "device/host/staging.h"
#include "device/opencl/commands.h"
#include "device/opencl/domain.h"
#include "device/opencl/inventory.h"

struct tp_exec_printf;
struct tp_exec_watchdog;
struct tp_exec_cache;
struct tp_exec_guard;
struct tp_exec_store;

enum { TP_EXEC_POOL_THREADS = 2 }; /**< build threads */

struct tp_exec {
    struct tp_opencl cl;
    struct tp_opencl_inventory inventory;
    struct tp_opencl_commands commands; /**< loaded with the first command buffer */
    uint32_t platform;
    uint32_t device_count; /**< as the broker knows it */
    uint8_t session[TP_WIRE_SESSION_BYTES];
    struct tp_stream *stream;
    pthread_t reader; /**< set once */
    bool resumes; /**< its streams outlive their connections */
    bool drains; /**< its client knows DRAIN */
    bool client_is_far; /**< on another machine. Reader */
    tp_ns away_until; /**< end of the wait for the client; 0: it is connected. Reader */
    struct tp_mutex
        control_lock; /**< reading of the control socket: one message at a time */
    int wake_fd; /**< eventfd: wakes the reader */
    struct tp_map objects; /**< reader only */
    struct tp_daemon_limits limits;
    _Atomic uint64_t kind_count[TP_EXEC_KINDS]; /**< objects alive, by tp_wire_kind */
    struct tp_share_member share; /**< with the sessions of others */
    tp_ns contended_at; /**< when it was last looked; reader only */
    bool contended; /**< others use the device, too; reader only */
    bool watched; /**< the broker's figures are read; reader only */
    struct tp_budget memory; /**< [bytes] of buffers */
    struct tp_budget host; /**< [bytes] of content in transit */
    tp_ns spin_ns; /**< spin time of the reader before it sleeps */
    _Atomic uint64_t
        object_count; /**< alive, including released ones and those without id */
    struct tp_list dirty; /**< queues to flush; reader only */
    unsigned launches_in_row; /**< without another message between; reader only */
    cl_event *waits; /**< buffer for a wait list; reader only */
    size_t waits_capacity;
    struct tp_pool *pool;
    struct tp_host_staging *page; /**< chunks of TP_EXEC_PAGE */
    struct tp_host_staging *staging; /**< chunks of TP_WIRE_INLINE_MAX */
    struct tp_host_staging *middle; /**< chunks for READs up to TP_EXEC_DIRECT_MAX */
    struct tp_exec_transfers *transfers;
    struct tp_map regions; /**< shared memory of the client; reader only */
    struct tp_exec_pins pins;
    struct tp_exec_peers peers;
    struct tp_exec_transfer_piece
        stash; /**< content of the next command; reader only */
    uint64_t stash_transfer;
    struct tp_exec_printf *printf;
    struct tp_exec_watchdog *watchdog;
    struct tp_exec_cache *cache; /**< NULL: no cache */
    struct tp_mutex guard_lock; /**< guard_tried, guard: the guard is started once */
    bool guard_tried; /**< guard_lock */
    struct tp_exec_guard *guard; /**< of builds; NULL: the system cannot */
    struct tp_exec_store *store; /**< contents of included files */
    struct tp_mutex
        done_lock; /**< states of events, and the lists of what is not complete */
    struct tp_list queues; /**< done_lock */
    struct tp_list reads; /**< READs not reported yet, oldest first; done_lock */
    struct tp_list gates; /**< moves whose gate is closed; done_lock */
    struct tp_list user_events; /**< not yet set; done_lock */
    _Atomic uint64_t user_events_open; /**< length of user_events */
    _Atomic uint64_t frames_awaited; /**< of these, those that a later frame may end */
    _Atomic bool had_failure; /**< an event has failed, or is about to */
    _Atomic unsigned
        failing; /**< failed moves whose failure the driver does not know yet */
    struct tp_cond all_failed; /**< signals failing == 0; with done_lock */
    _Atomic uint64_t events_made;
    _Atomic(struct tp_exec_hold *) holds; /**< held_events.c */
    _Atomic uint64_t progress; /**< counts completions, for the watchdog */
    _Atomic uint64_t
        calls; /**< odd while the reader is in the driver; only the reader writes */
    _Atomic uint64_t next_transfer; /**< counter for ids that the server chooses */
    _Atomic uint32_t
        quirks; /**< of the driver, bits by enum tp_exec_quirk; only the reader sets them */
    bool
        bare_launches; /**< launches without a client event have no native event: an event
                             costs the driver more than a marker after them */
    bool was_probed; /**< tp_exec_flush_probe() has run; reader only */
    pthread_t prober;
    _Atomic bool probing; /**< read by any thread; prober does not change meanwhile */
    bool ended; /**< the client sent CLOSE */
    _Atomic bool ending; /**< the client has disconnected; the reader writes it */
    bool lost_sight; /**< completion of all commands is not observable; reader only */
};

/* ---- session.c ---- */

/** Creates the state of a session except its stream. Needs limits and drivers. */
telpher_status tp_exec_prepare(struct tp_exec *x);

/* ---- reader.c ---- */

/** Serves the session until it ends. @return exit status */
int tp_exec_serve(struct tp_exec *x);
/** Handler of the stream's frames; its argument is the executor. Reader only. */
extern const struct tp_stream_handler tp_exec_handler;

struct tp_control;
/** Appends a frame to the command stream. Any thread. The reader sees a failure. */
void tp_exec_put(struct tp_exec *x, uint16_t type, const void *msg);
/** Takes connections that resume streams, while the reader is in the driver. Watchdog. */
void tp_exec_take_resumed(struct tp_exec *x);
/** Sends the appended frames. Any thread. */
void tp_exec_flush(struct tp_exec *x);
/** Wakes the reader: frames are unsent, or regions are unused. Any thread. */
void tp_exec_wake(struct tp_exec *x);
/** Sends FAILED with "call: CL_NAME". */
void tp_exec_failed(struct tp_exec *x, uint64_t id, int32_t error, const char *call);
/** Sends a warning for the client's log. Any thread. */
void tp_exec_warn(struct tp_exec *x, const char *text);
/** Ends the process and reports @p text as the end of the session. Any thread. */
_Noreturn void tp_exec_die(struct tp_exec *x, telpher_status status, const char *text);
/** Chooses a transfer id on the server's side. */
uint64_t tp_exec_transfer_id(struct tp_exec *x);

/* ---- session_end.c ---- */

/** Cleans up after the client has disconnected; bounded in time. Reader only. */
void tp_exec_end_session(struct tp_exec *x);
/** Enqueues a marker after launches without event, so that their end is observable. Reader
 *  only. */
void tp_exec_queue_track(struct tp_exec_queue *q);

/* ---- printf.c ---- */

/** Replaces standard output by a pipe whose content is sent to the client. */
telpher_status tp_exec_printf_create(struct tp_exec *x, struct tp_exec_printf **ret);
/**
 * Registers the source of a program before its build. While no program can print,
 * completions skip the check for output. Any thread.
 * @param text NULL: unknown content, which may print
 */
void tp_exec_printf_expect(struct tp_exec_printf *p, const void *text, size_t len);
/** Appends all output printed so far to the command stream. Any thread. */
void tp_exec_printf_drain(struct tp_exec_printf *p);

/* ---- watchdog.c ---- */

/** Starts the watchdog, which enforces x->limits and always looks for failed commands. */
telpher_status tp_exec_watchdog_create(struct tp_exec *x,
                                       struct tp_exec_watchdog **ret);
/** Makes the watchdog watch work that has been submitted. */
void tp_exec_watchdog_arm(struct tp_exec_watchdog *w);
/** Bracket a driver call of the reader, which may never return. */
void tp_exec_watchdog_enter(struct tp_exec *x);
void tp_exec_watchdog_leave(struct tp_exec *x);
/** Bracket a build on a thread of the pool. @return handle for the end of this build */
size_t tp_exec_watchdog_build_begin(struct tp_exec_watchdog *w);
void tp_exec_watchdog_build_end(struct tp_exec_watchdog *w, size_t build);

#endif
