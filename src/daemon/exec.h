/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor: one session, one process, with the drivers in it.
 *
 *   exec_main.c    start, options, --probe         exec.c          the reader and its loop
 *   exec_session.c what a session starts with
 *   exec_objects.c ids and objects                 exec_context.c  contexts, queues, buffers
 *   exec_device.c  devices and their parts         exec_commands.c command buffers
 *   exec_record.c  what is recorded in them
 *   exec_program.c programs                        exec_kernel.c   kernels
 *   exec_il.c      programs in SPIR-V              exec_files.c    files they include
 *   exec_build.c   builds, on the pool
 *   exec_text.c    what native programs are of     exec_binary.c   binaries asked for
 *   exec_cache*.c  builds made before              exec_binary_load.c  binaries given
 *   exec_event.c   events and their completion     exec_command.c  what goes into queues
 *   exec_image.c   images, samplers                exec_image_command.c  their commands
 *   exec_content.c READ and WRITE                  exec_move.c     large ones of them
 *   transfer.c     content of transfers            bulk.c          bulk streams
 *   printf.c       what kernels print
 *   watchdog.c     kernels that never end          exec_share.c    memory of the client
 *   exec_pin.c     memory that drivers know        exec_end.c      the end of a session
 *   exec_hold.c    events that failed              exec_user_event.c  that others set
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
#ifndef TELPHER_DAEMON_EXEC_H
#define TELPHER_DAEMON_EXEC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/refcount.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "core/stream.h"
#include "daemon/exec_pin.h"
#include "daemon/limits.h"
#include "daemon/transfer.h"
#include "device/host/staging.h"
#include "device/opencl/commands.h"
#include "device/opencl/domain.h"
#include "device/opencl/inventory.h"

struct tp_exec;
struct tp_exec_kernel;
struct tp_exec_printf;
struct tp_exec_watchdog;

/** First member of everything that has an id. */
struct tp_exec_object {
    struct tp_exec *x;
    uint64_t id; /**< 0 for events that nobody asks about */
    enum tp_wire_kind kind;
    struct tp_refcount refs;
    _Atomic int32_t error; /**< not 0: poisoned, and with what */
    _Atomic bool released; /**< the client has let go; the reader changes it */
};

/** Kinds of objects that have limits of their own: the low numbers of tp_wire_kind. */
enum { TP_EXEC_KINDS = TP_WIRE_KIND_KERNEL + 1 };

/** A device of the session: one of the server's, or a sub-device of the client's. */
struct tp_exec_device {
    uint32_t number; /**< on the wire: index in the inventory, or the client's choice */
    cl_device_id native;
    int version; /**< OpenCL version times 100 */
    struct tp_exec_object *sub; /**< the sub-device, NULL: one of the server's */
};

struct tp_exec_context {
    struct tp_exec_object obj;
    cl_context native;
    uint32_t device_count;
    struct tp_exec_device *devices; /**< sub-devices held; never change */
    struct tp_device **domains; /**< of each device, made at first use; reader only */
    struct tp_list pin_link; /**< pins->contexts; reader only */
};

struct tp_exec_queue {
    struct tp_exec_object obj;
    struct tp_exec_context *context;
    cl_command_queue native;
    uint32_t device; /**< index in the context */
    bool in_order, profiling;
    bool failed; /**< a command failed: the native queue may be stuck; done_lock */
    struct tp_list dirty_link;
    unsigned since_sweep; /**< commands since completed ones were looked for */
    unsigned sweep_at; /**< commands until that is done again */
    unsigned since_flush; /**< commands since the last clFlush */
    struct tp_exec_event **blockers; /**< exec_flush.c; reader only */
    size_t blocker_count;
    unsigned launches; /**< since a command whose end is told; reader only */
    unsigned untracked; /**< commands behind the last pending one; reader only */
    cl_event
        barrier; /**< last one (in order: only after renewing), or NULL; reader only */
    bool barrier_is_own; /**< it is of no command, but of renewing */
    struct tp_list link; /**< exec->queues; done_lock */
    struct tp_list pending; /**< events in the order of commands; done_lock */
};

struct tp_exec_mem {
    struct tp_exec_object obj;
    cl_mem native; /**< NULL once released */
    uint64_t size;
    cl_mem_flags flags;
    struct tp_exec_context *context;
    uint64_t charged; /**< [bytes] of exec->memory, given back at the end */
    bool is_sub;
    uint64_t element; /**< [bytes] of an image's element; 0: a buffer */
    uint64_t
        dims[3]; /**< of an image: elements, rows (or layers), slices (or layers) */
};

struct tp_exec_sampler {
    struct tp_exec_object obj;
    cl_sampler native;
};

enum {
    TP_EXEC_EVENT_SMALL = 128,
    TP_EXEC_DIRECT_MAX = 1 << 20, /**< [bytes] READ that needs no exec_move.c */
    TP_EXEC_DIRECT_COUNT = 32, /**< such READs at once; more are moved */
};

/** A command under way, a user event, or one that failed at once. */
struct tp_exec_event {
    struct tp_exec_object obj;
    struct tp_exec_queue *queue; /**< NULL: user event */
    uint64_t queue_id; /**< for FAILED of commands without event */
    cl_event native; /**< NULL: failed at once */
    struct tp_list link; /**< queue->pending; done_lock */
    struct tp_list dead_link; /**< of who settled it, once it is pending no more */
    struct tp_list open_link; /**< exec->user_events, while it is not set; done_lock */
    uint64_t made; /**< 1, 2, …: an event waits only for those with smaller ones */
    const char *call; /**< native call, for texts */
    bool has_waits; /**< may rightly stand still */
    cl_event hold; /**< of a move: what keeps its place in the queue, or NULL */
    bool is_move; /**< completed by exec_move.c */
    bool is_barrier; /**< out of order: later commands wait for it */
    bool notify; /**< DONE is wanted; done_lock */
    bool done; /**< DONE has been put; done_lock */
    _Atomic bool hooked; /**< orders what a watcher saw before what the callback sees */
    bool has_stamps; /**< of a move; set before it completes */
    uint64_t stamps[5];
    uint64_t transfer; /**< READ of up to a chunk: its content goes as this transfer */
    bool failed; /**< for that; done_lock */
    bool complete; /**< the native one has ended well; done_lock */
    struct tp_host_staging *content_from; /**< where content belongs; NULL: small */
    void *content; /**< of an inline READ or WRITE: small, or a staging chunk */
    uint32_t content_len; /**< of a READ; goes with DONE */
    struct tp_exec_region *region; /**< that content lies in, held; or NULL */
    void *kept; /**< what the driver may look at until the command is over, or NULL */
    tp_ns seen_running; /**< watchdog */
    uint8_t small[TP_EXEC_EVENT_SMALL];
};

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
    struct tp_transfers *transfers;
    struct tp_map regions; /**< memory that the client shares; reader only */
    struct tp_exec_pins pins;
    struct tp_transfer_piece stash; /**< content of the command to come; reader only */
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
    _Atomic(struct tp_exec_hold *) holds; /**< exec_hold.c */
    _Atomic uint64_t progress; /**< counts completions, for the watchdog */
    _Atomic uint64_t
        calls; /**< odd while the reader is in the driver; only it changes */
    _Atomic uint64_t next_transfer; /**< counter for ids that we choose */
    _Atomic bool
        runs_in_flush; /**< the driver, its commands; only the reader sets it */
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

/* ---- exec_session.c ---- */

/** Makes what a session needs besides its stream; limits and drivers are there. */
telpher_status tp_exec_prepare(struct tp_exec *x);

/* ---- exec.c ---- */

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

/** True if content of the context's devices passes through pinned memory: they have memory
 *  of their own. Reader only. */
static inline bool
tp_exec_is_pinned(const struct tp_exec_context *c)
{
    return tp_list_is_linked(&c->pin_link);
}

/* ---- exec_end.c ---- */

/** What is left to do when the client has gone; bounded in time. Reader only. */
void tp_exec_end_session(struct tp_exec *x);
/** Has an event stand behind launches that have none, so that their end can be seen. Reader
 *  only. */
void tp_exec_queue_track(struct tp_exec_queue *q);

/* ---- exec_objects.c ---- */

/**
 * Makes an object of @p size bytes (0-filled) whose first member is an object and enters
 * it. One beyond the limit of its kind is poisoned from the start (o->error), and the
 * client told: nothing native should be made for it.
 * @return OK; PROTO (id used twice or of another kind), NO_MEMORY
 */
telpher_status tp_exec_create(struct tp_exec *x, uint64_t id, enum tp_wire_kind kind,
                              size_t size, void *ret_object);
/** Counts a new object; ends the session if there are too many. Reader only. */
void tp_exec_count(struct tp_exec *x);
/** Takes objects out of the count that are no more. Any thread. */
void tp_exec_uncount(struct tp_exec *x, uint64_t count);
/** Finds a healthy object. @return 0, the CL error for an invalid one, or its poison */
int32_t tp_exec_find(struct tp_exec *x, uint64_t id, enum tp_wire_kind kind,
                     void *ret_object);
/** As tp_exec_find, of a buffer: an image is none. */
int32_t tp_exec_find_buffer(struct tp_exec *x, uint64_t id,
                            struct tp_exec_mem **ret_mem);
/** Marks a new object as failed and tells the client, unless it is already; 0 does
 *  nothing. */
void tp_exec_poison(struct tp_exec_object *o, int32_t error, const char *call);
/** The same for what a limit forbids; @p option names it. @return @p error */
int32_t tp_exec_refuse(struct tp_exec_object *o, int32_t error, const char *option);
void tp_exec_ref(struct tp_exec_object *o);
/** NULL is fine. */
void tp_exec_unref(struct tp_exec_object *o);
/** RELEASE of one id. */
void tp_exec_release(struct tp_exec *x, uint64_t id);
/** Releases everything, at the end of an orderly session. */
void tp_exec_release_all(struct tp_exec *x);

/* Last steps of each kind: native release and memory. @p o is the only reference. */
void tp_exec_context_free(struct tp_exec_object *o);
void tp_exec_queue_free(struct tp_exec_object *o);
void tp_exec_mem_free(struct tp_exec_object *o);
void tp_exec_program_free(struct tp_exec_object *o);
void tp_exec_kernel_free(struct tp_exec_object *o);
void tp_exec_sampler_free(struct tp_exec_object *o);
void tp_exec_event_free(struct tp_exec_object *o);
void tp_exec_sub_device_free(struct tp_exec_object *o);
void tp_exec_commands_free(struct tp_exec_object *o);
/* What happens to the native object as soon as the client lets go. */
void tp_exec_event_let_go(struct tp_exec_object *o);
void tp_exec_context_let_go(struct tp_exec_object *o);
void tp_exec_queue_let_go(struct tp_exec_object *o);
void tp_exec_mem_let_go(struct tp_exec_object *o);

/* ---- messages: one function each. @return OK, or what breaks the session ---- */

#define TP_EXEC_MESSAGES(X)                                                            \
    X(SUB_DEVICES, sub_devices)                                                        \
    X(DEVICE_TIMER, device_timer)                                                      \
    X(CONTEXT_CREATE, context_create)                                                  \
    X(QUEUE_CREATE, queue_create)                                                      \
    X(BUFFER_CREATE, buffer_create)                                                    \
    X(SUB_BUFFER_CREATE, sub_buffer_create)                                            \
    X(PROGRAM_SOURCE, program_source)                                                  \
    X(PROGRAM_IL, program_il)                                                          \
    X(SPEC_CONSTANT, spec_constant)                                                    \
    X(PROGRAM_BUILT_IN, program_built_in)                                              \
    X(PROGRAM_BINARY, program_binary)                                                  \
    X(PROGRAM_BUILD, program_build)                                                    \
    X(PROGRAM_BINARIES, program_binaries)                                              \
    X(PROGRAM_COMPILE, program_compile)                                                \
    X(PROGRAM_LINK, program_link)                                                      \
    X(PROGRAM_FILES, program_files)                                                    \
    X(KERNEL_CREATE, kernel_create)                                                    \
    X(SUB_GROUP_INFO, sub_group_info)                                                  \
    X(KERNEL_ARG, kernel_arg)                                                          \
    X(USER_EVENT_CREATE, user_event_create)                                            \
    X(USER_EVENT_SET, user_event_set)                                                  \
    X(RELEASE, release)                                                                \
    X(LAUNCH, launch)                                                                  \
    X(READ, read)                                                                      \
    X(WRITE, write)                                                                    \
    X(COPY, copy)                                                                      \
    X(FILL, fill)                                                                      \
    X(MARKER, marker)                                                                  \
    X(BARRIER, barrier)                                                                \
    X(MIGRATE, migrate)                                                                \
    X(SUBSCRIBE, subscribe)                                                            \
    X(SHARE, share)                                                                    \
    X(UNSHARE, unshare)                                                                \
    X(PIECE, piece)                                                                    \
    X(COMMANDS_CREATE, commands_create)                                                \
    X(RECORD, record)                                                                  \
    X(COMMANDS_FINALIZE, commands_finalize)                                            \
    X(COMMANDS_ENQUEUE, commands_enqueue)                                              \
    X(ABORT, abort)                                                                    \
    X(IMAGE_CREATE, image_create)                                                      \
    X(SAMPLER_CREATE, sampler_create)                                                  \
    X(READ_IMAGE, read_image)                                                          \
    X(WRITE_IMAGE, write_image)                                                        \
    X(COPY_IMAGE, copy_image)                                                          \
    X(COPY_IMAGE_TO_BUFFER, copy_image_to_buffer)                                      \
    X(COPY_BUFFER_TO_IMAGE, copy_buffer_to_image)                                      \
    X(FILL_IMAGE, fill_image)                                                          \
    X(PING, ping)                                                                      \
    X(GOODBYE, goodbye)

#define TP_EXEC_DECLARE(NAME, name)                                                    \
    telpher_status tp_exec_on_##name(struct tp_exec *x, const struct tp_wire_##name *m);
TP_EXEC_MESSAGES(TP_EXEC_DECLARE)
#undef TP_EXEC_DECLARE

/* ---- exec_device.c ---- */

/** Finds a device by its number; `sub` is borrowed. Reader only. @return false: none */
bool tp_exec_find_device(struct tp_exec *x, uint64_t number,
                         struct tp_exec_device *ret_device);
/** @return the device of a context with this number, or NULL. Any thread. */
const struct tp_exec_device *tp_exec_context_device(const struct tp_exec_context *c,
                                                    uint64_t number);

/** True if a device is @p whole or a part of it. Any thread. */
bool tp_exec_device_is_in(const struct tp_opencl *cl, cl_device_id device,
                          cl_device_id whole);

/* ---- exec_context.c ---- */

/** The domain of a queue's device, made at first use. @return 0 or the CL error */
int32_t tp_exec_domain(struct tp_exec_queue *q, struct tp_device **ret_device);
/**
 * Replaces the native queue after a command in it failed: with some drivers whatever is
 * enqueued behind a failed command never starts. Reader only. @return 0 or the CL error
 */
int32_t tp_exec_queue_renew(struct tp_exec_queue *q);
/** Releases the last barrier. Reader only. */
void tp_exec_queue_forget_barrier(struct tp_exec_queue *q);

/** Charges the session for the device memory of a new object. @return false: it is refused
 *  or was before, and the client has been told */
bool tp_exec_mem_charge(struct tp_exec_mem *mem, uint64_t size);

/* ---- exec_flush.c: all of it for the reader only ---- */

/** Finds out, with the first queue, whether the driver runs commands in clFlush. */
void tp_exec_flush_probe(struct tp_exec_queue *q);
/** Notes that the queue needs a clFlush. */
void tp_exec_dirty(struct tp_exec_queue *q);
/** clFlush for every queue that needs it. */
void tp_exec_flush_queues(struct tp_exec *x);
/** clFlush, unless that would spin. @return false: it would */
bool tp_exec_queue_flush(struct tp_exec_queue *q);
/** Puts a marker behind launches that have no event. @return its event, with a reference
 *  for the caller; NULL: there can be none. Reader only. */
struct tp_exec_event *tp_exec_queue_mark(struct tp_exec_queue *q);
/** Notes that a command waits for an event. @return 0 or CL_OUT_OF_HOST_MEMORY */
int32_t tp_exec_queue_wait_for(struct tp_exec_queue *q, struct tp_exec_event *ev);
/** Notes that a command waits for a user event or a move. @return the same */
int32_t tp_exec_queue_block(struct tp_exec_queue *q, struct tp_exec_event *ev);
/** Forgets what was noted. */
void tp_exec_queue_unblock(struct tp_exec_queue *q);

/* ---- exec_event.c ---- */

/** An event, not entered in the table if id is 0. @return NULL when memory is out */
struct tp_exec_event *tp_exec_event_new(struct tp_exec *x, uint64_t id);
/** Adds an event with its native one to its queue's pending ones; watches it if wanted. */
void tp_exec_event_submitted(struct tp_exec_event *ev);
/**
 * A command is complete, well or not: tells of it and, in order, of those before it. May
 * be called more than once. Any thread, without locks.
 */
void tp_exec_event_complete(struct tp_exec_event *ev, cl_int status);
/** No command will come any more: what is pending in the queue goes when it is complete,
 *  also what nobody asked about. Reader only. */
void tp_exec_queue_hear_out(struct tp_exec_queue *q);
/** Puts DONE for an event that failed at once. */
void tp_exec_event_failed(struct tp_exec_event *ev);
/** Has the driver call when a submitted event is complete. No lock is held. */
void tp_exec_event_watch(struct tp_exec_event *ev);
/** Asks for DONE: at once or when it completes. */
void tp_exec_event_subscribe(struct tp_exec_event *ev);
/**
 * Looks for commands that have failed and tells of them. Some drivers, PoCL 3.1 for one,
 * never call back for a failure; so this is called where one is likely and by the
 * watchdog. Any thread, without locks.
 */
void tp_exec_sweep_failures(struct tp_exec *x);
/** CL_COMPLETE .. CL_QUEUED, or a negative error. */
cl_int tp_exec_event_status(struct tp_exec_event *ev);

/* ---- exec_user_event.c ---- */

/** Notes a native user event that somebody will set, and holds @p ev. Reader only. */
void tp_exec_user_event_open(struct tp_exec_event *ev);
/** It has been set, or never will be. May be called more than once. Any thread, without
 *  locks; the caller holds @p ev. */
void tp_exec_user_event_close(struct tp_exec_event *ev);

/* ---- exec_command.c ---- */

/** A command between its message and the driver. */
struct tp_exec_command {
    struct tp_exec *x;
    struct tp_exec_event *ev;
    struct tp_exec_queue *queue; /**< NULL if error */
    cl_uint wait_count;
    const cl_event *waits; /**< NULL if none; valid until the next command */
    int32_t error;
};

/** Starts one: event, queue, wait list. @return OK (look at ret->error), PROTO, NO_MEMORY */
telpher_status tp_exec_begin(struct tp_exec *x, struct tp_exec_command *ret,
                             const char *call, uint64_t event, uint64_t queue,
                             uint8_t flags, const struct tp_wire_u64s *wait);
/** Ends one: pending, or poisoned. */
telpher_status tp_exec_end(struct tp_exec_command *c);
/* ---- exec_content.c ---- */

/**
 * Makes a box of origin, region, row and slice pitch. @return 0; CL_INVALID_VALUE when it
 * does not lie inside @p size bytes; drivers do not see every overflow
 */
int32_t tp_exec_make_rect(const uint64_t v[8], uint64_t size,
                          struct tp_device_box *ret_box);

/** What a READ or a WRITE says of its content. */
struct tp_exec_content {
    uint8_t flags; /**< of the command */
    uint64_t size; /**< [bytes] */
    uint64_t transfer; /**< 0: it is in the frame, or in DONE */
    struct tp_wire_bytes data; /**< of a WRITE */
};

/** False if what a READ says of its content breaks the session. */
bool tp_exec_read_is_proper(const struct tp_exec_content *content);
/** Likewise a WRITE. */
bool tp_exec_write_is_proper(const struct tp_exec_content *content);
/**
 * Enqueues a READ of a box that was checked, and ends the command, also if c->error is set
 * already. @return OK, or what breaks the session
 */
telpher_status tp_exec_read_box(struct tp_exec_command *c, struct tp_exec_mem *mem,
                                const struct tp_device_box *box,
                                const struct tp_exec_content *content);
/** Likewise a WRITE. */
telpher_status tp_exec_write_box(struct tp_exec_command *c, struct tp_exec_mem *mem,
                                 const struct tp_device_box *box,
                                 const struct tp_exec_content *content);
/** Counts and lengths that a message of this kind must have. */
bool tp_exec_launch_is_proper(const struct tp_wire_launch *m);
bool tp_exec_copy_is_proper(const struct tp_wire_copy *m);
bool tp_exec_fill_is_proper(const struct tp_wire_fill *m);
/** The first argument that cannot be used. @return 0 or the CL error */
int32_t tp_exec_check_args(const struct tp_exec_kernel *k);
enum { TP_EXEC_COPY_RECT = 13 };
/** Gives the values of a rectangular COPY, checked. @return 0 or CL_INVALID_VALUE */
int32_t tp_exec_copy_rect(const struct tp_wire_u64s *rect,
                          const struct tp_exec_mem *src, const struct tp_exec_mem *dst,
                          size_t ret_values[TP_EXEC_COPY_RECT]);

/* ---- exec_image_command.c ---- */

/** What a copy or a fill of images gives the driver: found and within bounds. */
struct tp_exec_image_args {
    struct tp_exec_mem *src, *dst; /**< one of them a buffer, or src unset */
    size_t from[3], to[3], size[3]; /**< of images */
    uint32_t colour[4];
};

/** Each gives the arguments of a message whose counts are proper. @return 0 or the CL error */
int32_t tp_exec_copy_image_args(struct tp_exec *x, const struct tp_wire_copy_image *m,
                                struct tp_exec_image_args *ret);
int32_t tp_exec_copy_to_buffer_args(struct tp_exec *x,
                                    const struct tp_wire_copy_image_to_buffer *m,
                                    struct tp_exec_image_args *ret);
int32_t tp_exec_copy_to_image_args(struct tp_exec *x,
                                   const struct tp_wire_copy_buffer_to_image *m,
                                   struct tp_exec_image_args *ret);
int32_t tp_exec_fill_image_args(struct tp_exec *x, const struct tp_wire_fill_image *m,
                                struct tp_exec_image_args *ret);
bool tp_exec_fill_image_is_proper(const struct tp_wire_fill_image *m);

/* ---- exec_move.c ---- */

/** Enqueues the gate of a move and what holds the queue until it is done. */
telpher_status tp_exec_move(struct tp_exec_command *c, struct tp_exec_mem *mem,
                            const struct tp_device_box *box, uint64_t transfer,
                            bool to_client, uint8_t flags);
/**
 * Waits until the driver knows of each move that failed of which the client knows. What is
 * enqueued before stands behind an event that is about to fail. Reader only.
 */
void tp_exec_wait_told(struct tp_exec *x);
/** Ends moves whose gate has failed. Any thread, without locks. */
void tp_exec_sweep_gates(struct tp_exec *x);
/** The closed gate that a move waits for, retained; NULL: it waits for none. Any thread. */
cl_event tp_exec_move_gate(struct tp_exec *x, const struct tp_exec_event *ev);

/* ---- exec_hold.c ---- */

/** Releases the native event of a command; one that has not ended well is kept until the
 *  driver needs it no more. Any thread. */
void tp_exec_release_native(struct tp_exec *x, cl_event native);
/** Releases those kept. The watchdog alone. @return true if some are left */
bool tp_exec_sweep_holds(struct tp_exec *x);

/* ---- exec_share.c ---- */

struct tp_exec_region;

/** Any thread, also under locks: the reader ends it. NULL is fine. */
void tp_exec_region_unref(struct tp_exec_region *r);
/** Ends regions that nothing uses any more. Reader only. */
void tp_exec_regions_reap(struct tp_exec *x);
/** Keeps a region mapped beyond its use; and no more. Any thread. */
void tp_exec_region_keep(struct tp_exec_region *r);
void tp_exec_region_let_go(struct tp_exec_region *r);
/** Its memory; borrowed for as long as the region is kept. */
void *tp_exec_region_memory(const struct tp_exec_region *r, uint64_t *ret_size);
/** Makes the piece that came before the command its content, if there is one with all of
 *  it. Reader only. */
bool tp_exec_take_piece(struct tp_exec *x, uint64_t transfer, uint64_t size,
                        struct tp_exec_event *ev);

/* ---- exec_program.c, exec_build.c, exec_binary_load.c ---- */

struct tp_exec_build;
struct tp_exec_text;

/** Where a program comes from. */
enum tp_exec_origin {
    TP_EXEC_FROM_SOURCE,
    TP_EXEC_FROM_IL,
    TP_EXEC_FROM_BINARY,
    TP_EXEC_FROM_LINK,
    TP_EXEC_BUILT_IN,
};

/** Value of a specialization constant. */
struct tp_exec_spec {
    uint32_t id, len;
    uint8_t value[TP_WIRE_SPEC_MAX];
};

struct tp_exec_program {
    struct tp_exec_object obj;
    struct tp_exec_context *context;
    enum tp_exec_origin origin;
    char *text; /**< source or IL; fixed once it is there */
    uint64_t text_len; /**< [bytes] */
    cl_program native; /**< from source or IL: made by the first build */
    bool building; /**< done_lock */
    unsigned waiting; /**< contents of it that are still coming; done_lock */
    unsigned readers; /**< PROGRAM_BINARIES and links under way; done_lock */
    struct tp_list builds; /**< one build that waits for either; done_lock */
    struct tp_buf stored; /**< argument facts that came with a binary */
    struct tp_buf specs; /**< struct tp_exec_spec of a program in IL; reader only */
    struct tp_map spec_places; /**< number of a constant → its place there, from 1 */
    uint32_t kernel_count; /**< kernels alive; reader only */
    bool had_kernels; /**< since the last build; the reader's, a build's meanwhile */
    uint8_t *files; /**< records for the next build, or NULL; done_lock */
    uint64_t files_len; /**< [bytes] */
    int32_t files_error; /**< why there are none; done_lock */
    uint64_t generation; /**< counts builds; done_lock */
    bool has_key; /**< as it was built last; while not building */
    uint8_t key[TP_SHA256_BYTES]; /**< of the cache */
    struct tp_exec_text *made_of; /**< what native was made of; exec_text.c's */
};

struct tp_exec_kernel {
    struct tp_exec_object obj;
    struct tp_exec_program *program;
    cl_kernel native;
    uint32_t arg_count;
    int32_t *arg_errors; /**< of the last KERNEL_ARG for each */
    /** Memory and samplers set as arguments, or NULL. */
    struct tp_exec_object **objects;
};

/** NULL is fine. */
void tp_exec_text_free(struct tp_exec_text *text);
/** Submits a build to the pool. */
void tp_exec_build_submit(struct tp_exec_build *build);
/** Content is there (or failed). */
void tp_exec_program_arrived(struct tp_exec_program *p);
/** Somebody no longer needs the native program as it is: builds may run. */
void tp_exec_program_end_reading(struct tp_exec_program *p);
/** Enters a program without anything in it. @p ret_error gives 0 or the context's error */
telpher_status tp_exec_program_new(struct tp_exec *x, uint64_t id, uint64_t context,
                                   enum tp_exec_origin origin,
                                   struct tp_exec_program **ret_program,
                                   int32_t *ret_error);
/** Splits a binary into the native one and the facts stored with it. */
const uint8_t *tp_exec_binary_unwrap(const uint8_t *data, uint64_t size,
                                     uint64_t *ret_native_size,
                                     const uint8_t **ret_facts,
                                     uint64_t *ret_facts_size);
enum { TP_EXEC_BINARY_HEADER = 24 };

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
