/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the OpenCL ICD and what its files offer each other.
 *
 *   icd.c       exported symbols, dispatch table        platform.c  servers, devices
 *   able.c      what drivers have that we can use       device.c    answers about devices
 *   subdevice.c parts of devices                        timer.c     their clocks
 *   facts.c     cached answers of drivers               context.c program.c kernel.c
 *   il.c        programs in SPIR-V                      builtin.c   programs of drivers' own
 *   subgroup.c  sub-groups of kernels
 *   place*.c    a session with an executor, who reads   bulk.c      its bulk stream
 *   event*.c    events, waiting, callbacks              queue.c     queues, flush, finish
 *   early.c     writes that return before their end
 *   mem.c       buffers, sub-buffers                    map.c       map and unmap
 *   image.c     images                                  sampler.c   samplers
 *   commands.c  command buffers                         record.c    what is recorded there
 *   enqueue.c   what all commands have in common        move.c      content between places
 *   transfer.c copy.c kernels of enqueue: memory.h      mover.c     internal queues
 *
 * A *place* is a session with one executor: one platform of one server. A context spans
 * one or more places. Objects have one id, the same at every place (wire/frame.h).
 *
 * Locks, in order of taking: tp_icd.lock (all object state, events, directories; never
 * held during I/O, waits or user callbacks), then a stream's own send lock. Reference
 * counts are atomic. Frames are put into a stream under tp_icd.lock, so that what belongs
 * together stays together; they are flushed after it is released.
 */
#ifndef TELPHER_ICD_ICD_H
#define TELPHER_ICD_ICD_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "core/client.h"
#include "core/stream.h"
#include "wire/facts.h"

enum { TP_ICD_PLACES_MAX = 32 }; /**< places of one context: bits of a mask */

/** Kind of a handle, checked before use: a wrong handle is an error, not a crash. */
enum tp_icd_kind {
    TP_ICD_PLATFORM = 0x54500001,
    TP_ICD_DEVICE,
    TP_ICD_CONTEXT,
    TP_ICD_QUEUE,
    TP_ICD_MEM,
    TP_ICD_PROGRAM,
    TP_ICD_KERNEL,
    TP_ICD_EVENT,
    TP_ICD_SAMPLER,
    TP_ICD_COMMANDS, /**< a command buffer */
    TP_ICD_DEAD = 0x54500dad, /**< released: what a stale handle shows, if readable */
};

/**
 * First member of every object that has a handle. The first word is the loader's.
 *
 * Two counts: `refs` is OpenCL's (retain, release, REFERENCE_COUNT); `holds` is how many
 * objects and commands of ours need it, plus one while refs > 0. The object is freed, and
 * RELEASE sent, when holds falls to 0.
 */
struct tp_icd_object {
    const cl_icd_dispatch *dispatch;
    void *dispatch_data; /**< reserved for loader-managed dispatch (cl_khr_icd 2) */
    uint32_t kind; /**< enum tp_icd_kind */
    _Atomic uint32_t refs;
    _Atomic uint32_t holds;
    uint64_t id; /**< on the wire; 0: has none */
    void (*destroy)(struct tp_icd_object *obj); /**< called once, no lock held */
};

/* ---- facts.c: cached answers -------------------------------------------------- */

/** Answers of a driver, by (kind, index, sub, param). Never changes once made. */
struct tp_icd_facts;

/** Parses records (wire/facts.h); copies them. OK, PROTO, NO_MEMORY. */
telpher_status tp_icd_facts_create(const uint8_t *blob, size_t len,
                                   struct tp_icd_facts **ret_facts);
void tp_icd_facts_destroy(struct tp_icd_facts *facts);
/** @return true and the record (borrowed from @p facts), or false: not known. */
bool tp_icd_facts_get(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                      uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact);
/** @return 1 + the highest index of a kind, 0 if there is none. */
uint32_t tp_icd_facts_count(const struct tp_icd_facts *facts, uint16_t kind);

/* ---- platform.c: servers and devices ------------------------------------------ */

/** A server of TELPHER_SERVERS. Made once, at the first call; lives for ever. */
struct tp_icd_server {
    char *address;
    struct tp_icd_facts *facts; /**< NULL: it did not answer */
    /** Its opened session without executor, for the first place there. */
    struct tp_stream *idle;
    uint8_t idle_session[TP_WIRE_SESSION_BYTES];
    uint64_t idle_features; /**< of prefaces */
    struct tp_icd_place *
        *places; /**< [platforms of the server]; NULL = not in use yet */
    uint32_t platform_count;
};

/** The one platform; `_cl_platform_id` of the headers. */
struct _cl_platform_id {
    struct tp_icd_object obj;
    struct tp_icd_server *servers;
    size_t server_count;
    struct _cl_device_id **devices; /**< of all servers, always the same pointers */
    size_t device_count;
};

struct tp_icd_subs; /* private to subdevice.c: what the parts of a device share */

struct _cl_device_id {
    struct tp_icd_object obj;
    struct tp_icd_server *server;
    struct _cl_device_id *parent; /**< held; NULL: a device of the server */
    struct tp_icd_subs *subs; /**< NULL likewise */
    uint32_t index; /**< its number on the wire, as in the facts about it */
    uint32_t platform; /**< of the server, in its facts */
    cl_device_type type;
    cl_uint address_align_bytes; /**< MEM_BASE_ADDR_ALIGN / 8 */
    cl_ulong max_alloc_bytes;
    size_t max_group_size;
    bool images; /**< its driver has images, in some format that travels */
    cl_bool available; /**< false once its place is lost; of a device of the server */
};

/** What the whole library shares. */
struct tp_icd_state {
    pthread_mutex_t lock; /**< see the top of this file */
    pid_t pid; /**< of the process that made it; a fork's child fails calls */
    _Atomic uint64_t next_id;
    struct _cl_platform_id *platform; /**< NULL: no server, no platform */
    struct tp_pool *callbacks; /**< one thread that runs the program's callbacks */
    cl_icd_dispatch *dispatch; /**< the padded table of icd.c */
};
extern struct tp_icd_state tp_icd;

/** Sets up once; thread-safe. @return the platform or NULL. */
struct _cl_platform_id *tp_icd_platform(void);
/** A fresh id. */
uint64_t tp_icd_new_id(enum tp_wire_kind kind);
void tp_icd_lock(void);
void tp_icd_unlock(void);
/** True in a child of fork(), where nothing of ours works. */
bool tp_icd_forked(void);
/** Looks a device fact up; false if absent or the driver refused it. */
bool tp_icd_device_fact(const struct _cl_device_id *dev, uint32_t param,
                        struct tp_wire_fact *ret_fact);

/* ---- subdevice.c -------------------------------------------------------------- */

/** Looks a fact of a sub-device alone up: false if it is as its parent's. */
bool tp_icd_sub_device_fact(const struct _cl_device_id *dev, uint32_t param,
                            struct tp_wire_fact *ret_fact);
/** @return the place where a sub-device exists; it may be lost. */
struct tp_icd_place *tp_icd_sub_device_place(const struct _cl_device_id *dev);

/* ---- object.c ----------------------------------------------------------------- */

/** Sets the members, refs = holds = 1. */
void tp_icd_object_init(struct tp_icd_object *obj, enum tp_icd_kind kind, uint64_t id,
                        void (*destroy)(struct tp_icd_object *obj));
/** @return the handle if it is a live object of that kind, else NULL. */
void *tp_icd_check(const void *handle, enum tp_icd_kind kind);
void tp_icd_hold(struct tp_icd_object *obj);
/** Not under tp_icd.lock: may destroy. NULL is fine. */
void tp_icd_drop(struct tp_icd_object *obj);
/** As tp_icd_drop, from under tp_icd.lock: if it was the last, the object is destroyed
 *  when the lock is released (by tp_icd_unlock). */
void tp_icd_drop_locked(struct tp_icd_object *obj);
/** OpenCL's retain and release. */
void tp_icd_retain(struct tp_icd_object *obj);
void tp_icd_release(struct tp_icd_object *obj);

/**
 * Answers a query by the rules of clGet…Info: size checks, copy, size_ret.
 * @return CL_SUCCESS, or CL_INVALID_VALUE if value != NULL and value_size is too small.
 */
cl_int tp_icd_answer(size_t value_size, void *value, size_t *size_ret, const void *src,
                     size_t len);
#define TP_ICD_ANSWER(type, expr)                                                      \
    tp_icd_answer(value_size, value, size_ret, &(type){expr}, sizeof(type))

/* ---- place*.c: a session with an executor ------------------------------------- */

/** One request whose reply a thread waits for, or that a callback takes. */
struct tp_icd_request {
    uint64_t id;
    bool done;
    telpher_status status; /**< of the session: PEER_LOST if no reply came */
    /**
     * Called once by the reading thread, without locks, with the reply's type and body,
     * or type 0 and NULL when the place was lost.
     */
    void (*reply)(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
                  const uint8_t *end);
    void *user;
};

struct tp_icd_place; /* private: place.h */

/**
 * Gives the place of a device, opening the session and asking for the executor at the
 * first call. One round trip at most. @return OK or why not; the log says it in words.
 */
telpher_status tp_icd_place_of(struct _cl_device_id *dev,
                               struct tp_icd_place **ret_place);
/** Appends a frame; under tp_icd.lock. A lost place swallows it. */
void tp_icd_put(struct tp_icd_place *place, uint16_t type, const void *msg);
/** Releases an id at a place with the next frames; under tp_icd.lock. */
void tp_icd_put_release(struct tp_icd_place *place, uint64_t id);
/** Sends what gathered, waiting for the socket if need be. Not under the lock. */
void tp_icd_flush(struct tp_icd_place *place);
/** Flushes if much has gathered (end of every enqueue call). Not under the lock. */
void tp_icd_flush_if_full(struct tp_icd_place *place);
/** A context begins or ends to use the place. Not under the lock. */
void tp_icd_place_use(struct tp_icd_place *place, bool begins);
/** True once the session broke. */
bool tp_icd_place_lost(const struct tp_icd_place *place);
/**
 * Says under the lock that something will come back which no thread may be waiting for:
 * a callback, content, a proxy. While any is open, a background thread reads when no
 * caller does. tp_icd_unexpect when it came.
 */
void tp_icd_expect(struct tp_icd_place *place);
void tp_icd_unexpect(struct tp_icd_place *place);
/** Registers a request; under the lock, before it is put. Implies tp_icd_expect. */
telpher_status tp_icd_request_add(struct tp_icd_place *place,
                                  struct tp_icd_request *req);
/**
 * Flushes and reads (or waits for who reads) until *flag is true or the place is lost.
 * Not under the lock; *flag is written under it. @return OK or PEER_LOST.
 */
telpher_status tp_icd_wait(struct tp_icd_place *place, const bool *flag);

struct tp_icd_pieces; /* share.h */

/* ---- bulk.c: content in and out ------------------------------------------------- */

/** Where incoming content of a READ goes. Kept by the place until done or aborted. */
struct tp_icd_sink {
    struct tp_list link; /**< bulk.c's: ended, done() yet to be called */
    uint64_t transfer;
    uint8_t *dst; /**< packed content goes to dst[0 .. size) (or see scatter) */
    uint64_t size; /**< [bytes] */
    uint64_t got;
    /** Called after each piece by the receiving thread, under no lock; may be NULL. */
    void (*piece)(struct tp_icd_sink *sink, uint64_t offset, uint32_t len);
    struct tp_icd_pieces *pieces; /**< in shared memory; NULL: on the bulk stream */
    telpher_status ended; /**< set by bulk.c when it is given up while being filled */
    /** Called once: OK when all has come, else why not. Under no lock. */
    void (*done)(struct tp_icd_sink *sink, telpher_status status);
    void *user;
};
/** What outgoing content comes from. Kept by the place until done. */
struct tp_icd_source {
    struct tp_list link;
    uint64_t transfer;
    const uint8_t *src; /**< packed content; borrowed until done */
    uint64_t size; /**< [bytes] */
    uint64_t ready; /**< [bytes] of it that may be sent already */
    uint64_t sent;
    uint64_t credit;
    struct tp_icd_pieces *pieces; /**< in shared memory; NULL: on the bulk stream */
    bool pushing; /**< a piece is being filled: it ends behind that */
    bool by_caller; /**< on the bulk stream: who adds it calls tp_icd_bulk_push */
    telpher_status ended; /**< set by bulk.c when it is given up while being sent */
    /** Called once, under no lock: all sent, or why not. */
    void (*done)(struct tp_icd_source *source, telpher_status status);
    void *user;
};
/** Announce before the READ is put. Under the lock. */
telpher_status tp_icd_sink_add(struct tp_icd_place *place, struct tp_icd_sink *sink);
/** True for a transfer id that the server chose: docs/protocol.md 5. */
static inline bool
tp_icd_is_servers(uint64_t transfer)
{
    return (transfer >> 55 & 1) != 0;
}
/** Queues content for sending, in turn with others. Under the lock. */
telpher_status tp_icd_source_add(struct tp_icd_place *place,
                                 struct tp_icd_source *source);
/** Sends in this thread, not in the one for it, as long as the transfer has something that
 *  may go: a caller that waits for it anyway saves a wake-up. Not under the lock. */
void tp_icd_bulk_push(struct tp_icd_place *place, uint64_t transfer);
/** More of a source is ready. Under the lock. */
void tp_icd_source_ready(struct tp_icd_place *place, struct tp_icd_source *source,
                         uint64_t ready);
/** Gives a source up: sends ABORT with @p cl_status; done is called. Under the lock. */
void tp_icd_source_abort(struct tp_icd_place *place, struct tp_icd_source *source,
                         cl_int cl_status);

/* ---- context.c ------------------------------------------------------------------ */

struct _cl_context {
    struct tp_icd_object obj;
    struct _cl_device_id **devices;
    uint32_t device_count;
    struct tp_icd_place *places[TP_ICD_PLACES_MAX];
    uint32_t place_count;
    /** Internal queue at each place, NULL = not yet: made by mover.c, which also frees
     *  them (tp_icd_movers_free); they do not hold the context. */
    struct _cl_command_queue *mover[TP_ICD_PLACES_MAX];
    cl_context_properties *properties; /**< as given, with the final 0; NULL = none */
    uint32_t property_count;
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *);
    void *notify_user;
    struct tp_list destructors;
    struct tp_list queues; /**< the program's */
    uint32_t queue_count;
    uint32_t user_events; /**< of the program, not set yet */
    uint64_t early_count; /**< early writes of its queues so far: early.c */
};
/** @return number of a place in the context, for masks and arrays. */
uint32_t tp_icd_context_place(const struct _cl_context *ctx,
                              const struct tp_icd_place *place);
/** @return the context's place index of a device, or -1 if it is not in the context. */
int tp_icd_context_device_place(const struct _cl_context *ctx,
                                const struct _cl_device_id *dev);
/** Tells the context's notify callback, on the callback thread. Under the lock. */
void tp_icd_context_notify(struct _cl_context *ctx, const char *text);

/* ---- queue.c -------------------------------------------------------------------- */

struct _cl_command_queue {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    struct _cl_device_id *dev;
    struct tp_icd_place *place;
    uint32_t place_index; /**< in ctx */
    cl_command_queue_properties properties;
    cl_queue_properties *property_list; /**< as given, with the final 0; NULL = none */
    uint32_t property_count;
    struct tp_list open; /**< events of commands not known complete, oldest first */
    uint64_t next_seq; /**< of the next event, from 1 */
    uint64_t done_seq; /**< highest seq that DONE was received for */
    bool busy; /**< something was put since the last finish began */
    unsigned finishing; /**< threads inside a finish that waits */
    cl_int async_error; /**< of commands without event; given by the next finish */
    struct tp_list context_link; /**< in ctx->queues */
    /* Blocking writes that returned before their end, see early.c. */
    struct _cl_event
        *early; /**< of the last one, or of a marker behind it, until it ends */
    uint64_t early_no; /**< its number in the context */
    uint64_t
        early_seen; /**< commands here come behind early writes up to this number */
    uint64_t
        bare_seq; /**< DONE of this seq is behind the last one without event; or 0 */
};
bool tp_icd_queue_in_order(const struct _cl_command_queue *q);

/* ---- event*.c ------------------------------------------------------------------- */

struct _cl_event {
    struct tp_icd_object obj;
    struct tp_list open_link; /**< in queue->open */
    struct tp_list late_link; /**< done, but its content is still under way */
    struct tp_list held_link; /**< done, but after such events */
    uint64_t late; /**< number of that READ */
    uint64_t after; /**< number of the last READ that it comes after */
    struct _cl_context *ctx; /* held */
    struct _cl_command_queue *queue; /* held; NULL: user event */
    struct tp_icd_place *place; /**< where the command runs; NULL: user event */
    cl_command_type type;
    cl_int status; /**< CL_SUBMITTED … CL_COMPLETE or negative; under the lock */
    bool ended; /**< status <= CL_COMPLETE: what tp_icd_wait looks at */
    bool told; /**< NOTIFY or SUBSCRIBE was put */
    uint64_t seq; /**< its place in the queue's order, from 1 */
    bool kept; /**< the library has a hold until it ends */
    bool expecting; /**< tp_icd_expect was called for it */
    bool server_done; /**< DONE came or never will, content may be under way */
    cl_int server_status; /**< what DONE said */
    bool
        unwatched; /**< its call has returned and gave no event: the queue tells its error */
    bool is_early; /**< queue->early */
    uint64_t ahead; /**< [bytes] of place->ahead */
    uint64_t window; /**< [bytes] of place->windows */
    uint32_t parts; /**< transfers whose end is awaited besides DONE */
    uint64_t transfer; /**< the transfer of its content, if parts > 0: a failed command
                               ends that sink or source too */
    uint32_t proxies; /**< places that hold a user event of this id */
    bool has_stamps;
    cl_ulong stamps[5]; /**< queued, submit, start, end, complete [ns] */
    void *inline_dst; /**< READ: where DONE's content goes, or NULL */
    size_t inline_len;
    const struct tp_icd_box *inline_box; /**< how it lies there; NULL: linear */
    struct tp_list callbacks;
    /** Called once, under the lock, when it ends; for maps, moves. May be NULL. */
    void (*on_end)(struct _cl_event *ev);
    void *on_end_user;
};

/** A rectangle in host memory: content is packed on the wire. */
struct tp_icd_box {
    size_t region[3]; /**< bytes, rows, slices */
    size_t row_pitch, slice_pitch;
};

/**
 * Makes the event of a command about to be put; adds it to queue->open. Under the lock.
 * It has refs 0 and one hold by the library until it ends or nobody needs it; end with
 * tp_icd_event_give in any case. @return NULL: no memory.
 */
struct _cl_event *tp_icd_event_create(struct _cl_command_queue *q,
                                      cl_command_type type);
/**
 * The last call about a new event, after its command was put (and told, parts, on_end are
 * set): gives the program its reference (*ret_event = ev), unless @p ret_event is NULL.
 * An event that then nobody needs is gone; hold it to look at it later. Under the lock.
 */
void tp_icd_event_give(struct _cl_event *ev, cl_event *ret_event);
/** Makes a user event with refs 1; NULL: no memory. Under the lock. */
struct _cl_event *tp_icd_user_event(struct _cl_context *ctx);
/** Lets go of an event that the library needs no more, unless it does. Under the lock. */
void tp_icd_event_unneed(struct _cl_event *ev);
/** Puts SUBSCRIBE unless told or ended; implies expect until it ends. Under the lock. */
void tp_icd_event_subscribe(struct _cl_event *ev);
/** Marks it as carrying NOTIFY in its command (before or after put). Under the lock. */
void tp_icd_event_set_told(struct _cl_event *ev);
/** A part (transfer) of it ended. Under the lock. */
void tp_icd_event_part_done(struct _cl_event *ev, telpher_status status);
/** Ends it with a status from this side (lost place, user event). Under the lock. */
void tp_icd_event_end(struct _cl_event *ev, cl_int status);
/**
 * Its place was lost: ends it, or lets it end with its content, once no thread of ours
 * touches the program's memory any more. Under the lock.
 */
void tp_icd_event_lose(struct _cl_event *ev);
/** DONE arrived. Takes no lock itself: called by place_frames.c with the lock held. */
void tp_icd_event_on_done(struct _cl_event *ev, const struct tp_wire_done *msg);
/**
 * Checks a wait list: CL_INVALID_EVENT_WAIT_LIST, CL_INVALID_CONTEXT.
 */
cl_int tp_icd_check_wait_list(const struct _cl_context *ctx, cl_uint count,
                              const cl_event *list);
/**
 * Turns a wait list into ids valid at a place: ended events are left out, events of
 * other places get a proxy there. Under the lock.
 * @param ids  room for @p count ids. @param ret_count gives how many were written.
 * @return CL_SUCCESS, or CL_OUT_OF_HOST_MEMORY.
 */
cl_int tp_icd_wait_ids(struct tp_icd_place *place, struct _cl_context *ctx,
                       cl_uint count, const cl_event *list, uint64_t *ids,
                       uint16_t *ret_count);
/** One event more, as above; appends to ids and *count. Under the lock. */
void tp_icd_wait_id(struct tp_icd_place *place, struct _cl_context *ctx,
                    struct _cl_event *ev, uint64_t *ids, uint16_t *count);
/** Subscribes, flushes and waits for the end. Not under the lock; the caller has a hold.
 *  @return its status. */
cl_int tp_icd_event_wait(struct _cl_event *ev);

/* ---- early.c: blocking writes that return before their end --------------------------- */

/** A command's event has ended, or goes. Under the lock. */
void tp_icd_early_ended(struct _cl_event *ev);
/** A second queue or a user event is about to be made: see early.c. Under the lock.
 *  @return false: no memory */
bool tp_icd_early_mark(struct _cl_context *ctx);
/** The queue is about to go: waits for its early writes. Not under the lock. */
void tp_icd_early_end(struct _cl_command_queue *q);

/* ---- mem.c, map.c, move.c ---------------------------------------------------------- */

/** What an image is besides a memory object: see image.c. Never changes once made. */
struct tp_icd_image {
    cl_image_format format;
    cl_mem_object_type type;
    size_t element; /**< [bytes] */
    size_t width, height, depth, array_size; /**< as queries tell them: 0 = has none */
    size_t dims[3]; /**< elements, rows (or layers), slices (or layers); none is 0 */
    /** [bytes] from row to row and from slice to slice in host memory: of host_ptr, of
     *  maps, or in the buffer that it is made of; slice_pitch 0 = has no slices. */
    size_t row_pitch, slice_pitch;
    size_t host_bytes; /**< from its first byte to its last there */
    /** The last device of a server that was found able to use it. */
    _Atomic(const struct _cl_device_id *) able;
};

struct _cl_mem {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    /** Held; NULL: memory of its own. A sub-buffer's buffer, or an image's (sub-)buffer. */
    struct _cl_mem *parent;
    struct tp_icd_image *image; /**< NULL: a buffer */
    cl_mem_flags flags;
    size_t size; /**< [bytes] of an image: of its content when packed */
    size_t origin; /**< [bytes] in the root: tp_icd_mem_root */
    void *host_ptr;
    cl_mem_properties *properties;
    uint32_t property_count;
    uint32_t created; /**< places where it exists */
    uint32_t map_count;
    struct tp_list maps;
    void *shadow; /**< what maps return, whole buffer; mapped at the first map */
    bool shares_shadow; /**< it is a region of the context's only place */
    struct tp_list args; /**< of kernels, set to it; they do not keep it */
    struct tp_list destructors;
    struct tp_icd_directory *directory; /**< of the root; NULL: one place, no need */
    struct _cl_event *upload; /* held; first content on its way, NULL when there */
};

/** Makes it exist at a place of its context. Under the lock. */
void tp_icd_mem_ensure(struct _cl_mem *mem, struct _cl_context *ctx,
                       uint32_t place_index);
/** Releases the context's internal queues: from the context's destroy, not under the lock. */
void tp_icd_movers_free(struct _cl_context *ctx);
/** True if commands that use its buffers need an event for the directory. */
bool tp_icd_context_spans(const struct _cl_context *ctx);

/* ---- program.c, kernel.c ----------------------------------------------------------- */

struct _cl_program {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    struct _cl_device_id **devices;
    uint32_t device_count;
    char *source; /**< NUL-terminated; NULL: from something else */
    size_t source_len; /**< [bytes] without NUL */
    uint8_t *il; /**< SPIR-V; NULL: from something else */
    size_t il_len; /**< [bytes] */
    uint32_t sent; /**< places that have the source or binary */
    cl_build_status *build_status; /**< [device_count] */
    char **options; /**< [device_count]; NULL = never built */
    /** What the last build at each place said; NULL = not built there. */
    struct tp_icd_facts *facts[TP_ICD_PLACES_MAX];
    bool building;
    _Atomic uint32_t kernel_count; /**< live kernels: a rebuild is then refused */
};

struct _cl_sampler {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    cl_bool normalized;
    cl_addressing_mode addressing;
    cl_filter_mode filter;
    cl_sampler_properties *properties; /**< as given, with the final 0; NULL = none */
    uint32_t property_count;
    uint32_t created; /**< places where it exists */
};
/** Makes it exist at a place of its context. Under the lock. */
void tp_icd_sampler_ensure(struct _cl_sampler *sampler, uint32_t place_index);

struct tp_icd_arg {
    bool set;
    uint8_t kind; /**< enum tp_wire_arg */
    uint8_t declared; /**< what the compiler said: enum tp_wire_arg, 0xff unknown */
    bool read_only; /**< const, __constant or read_only: keeps other copies valid */
    bool write_only; /**< an image that the kernel may not read */
    cl_mem_object_type image; /**< type of the image that it takes, 0 = no image */
    uint32_t value_size; /**< [bytes] of a by-value type, 0 = unknown */
    uint32_t sent; /**< places that have the present value */
    size_t size;
    struct _cl_mem
        *mem; /* not held, as OpenCL wants it; ARG_MEM, NULL = null pointer */
    struct tp_list mem_link; /**< in mem->args, so that it learns of the end of mem */
    struct _cl_sampler *sampler; /* held; ARG_SAMPLER */
    uint8_t *value; /**< size bytes, ARG_VALUE */
};

struct _cl_kernel {
    struct tp_icd_object obj;
    struct _cl_program *program; /* held */
    char *name;
    uint32_t index; /**< in the program's facts */
    uint32_t created; /**< places where it exists */
    uint32_t arg_count;
    struct tp_icd_arg *args;
    _Atomic(struct tp_icd_launch_limits *) limits; /**< of devices it was launched on */
};
/** Facts of the kernel at the place of a device; NULL if not built there. */
const struct tp_icd_facts *tp_icd_kernel_facts(const struct _cl_kernel *kernel,
                                               const struct _cl_device_id *dev);
/** Puts KERNEL_CREATE and the KERNEL_ARGs not yet sent there. Under the lock. */
void tp_icd_kernel_ensure(struct _cl_kernel *kernel, uint32_t place_index);

/** What launches of a kernel on a device are checked against; never changes once made. */
struct tp_icd_launch_limits {
    struct tp_icd_launch_limits *next;
    const struct _cl_device_id *dev; /**< one of the program's */
    size_t range; /**< last work-item */
    size_t items[3]; /**< of a work-group in each dimension; SIZE_MAX: not known */
    size_t required[3]; /**< work-group of the source; required[0] = 0: none */
    size_t group; /**< work-items of a work-group; 0: not known */
    size_t local_used, local_has; /**< [bytes] by the source; SIZE_MAX: not known */
    bool uneven; /**< work-groups need not divide the global size */
};
/** Gives them, which live as long as the kernel. Any thread.
 *  @return CL_SUCCESS, CL_INVALID_PROGRAM_EXECUTABLE, CL_OUT_OF_HOST_MEMORY */
cl_int tp_icd_launch_limits(struct _cl_kernel *kernel, const struct _cl_device_id *dev,
                            const struct tp_icd_launch_limits **ret_limits);
void tp_icd_launch_limits_free(struct _cl_kernel *kernel);

/* ---- callbacks ----------------------------------------------------------------------- */

/** Runs fn(arg) on the callback thread, in order. Any thread, lock held or not. */
telpher_status tp_icd_callback(void (*fn)(void *arg), void *arg);
/** Starts that thread. Once it is there, callbacks can be posted. OK, NO_MEMORY, LIMIT. */
telpher_status tp_icd_callbacks_start(void);
/** As tp_icd_callback, with memory that the caller has kept for it: cannot fail. */
void tp_icd_callback_post(struct tp_pool_job *job, void (*fn)(void *arg), void *arg);
/** telpher_status → the nearest OpenCL error. */
cl_int tp_icd_cl_error(telpher_status status);

/* ---- entry points: one declaration for each slot of the table -------------------------- */
#include "icd/api.h"

#endif
