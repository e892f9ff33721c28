/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a session and their id table: devices, contexts, queues, memory. */
#ifndef TELPHER_DAEMON_EXECUTOR_OBJECTS_OBJECTS_H
#define TELPHER_DAEMON_EXECUTOR_OBJECTS_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/container/list.h"
#include "base/container/refcount.h"
#include "base/os/clock.h"
#include "device/opencl/domain.h"
#include "device/opencl/inventory.h"
#include "wire/launch.h"

struct tp_exec;
struct tp_exec_event;
struct tp_exec_svm;

/** First member of every object. */
struct tp_exec_object {
    struct tp_exec *x;
    uint64_t id; /**< 0 for events without a client event */
    enum tp_wire_kind kind;
    struct tp_refcount refs;
    _Atomic int32_t error; /**< not 0: poisoned with this CL error */
    _Atomic bool released; /**< the client has released it; only the reader writes */
};

/** Kinds of objects with a limit per kind: the low numbers of tp_wire_kind. */
enum { TP_EXEC_KINDS = TP_WIRE_KIND_KERNEL + 1 };

/** A device of the session: a root device of the server, or a sub-device. */
struct tp_exec_device {
    uint32_t
        number; /**< on the wire: index in the inventory, or chosen by the client */
    cl_device_id native;
    int version; /**< OpenCL version times 100 */
    struct tp_exec_object *sub; /**< the sub-device; NULL: a root device */
};

struct tp_exec_context {
    struct tp_exec_object obj;
    cl_context native;
    uint32_t device_count;
    struct tp_exec_device *devices; /**< constant; sub-devices are held */
    struct tp_device **domains; /**< per device, created at first use; reader only */
    struct tp_list pin_link; /**< pins->contexts; reader only */
    cl_mem nothing; /**< one byte, created at first use; reader only */
    bool uses_host_memory; /**< kernels of all its devices do; constant */
};

struct tp_exec_queue {
    struct tp_exec_object obj;
    struct tp_exec_context *context;
    cl_command_queue native;
    uint32_t device; /**< index in the context */
    bool in_order, profiling;
    _Atomic bool
        failed; /**< a command failed: the native queue may be stuck; done_lock */
    bool defers; /**< DONEs of failed commands wait for earlier ones; done_lock */
    struct tp_list dirty_link;
    struct tp_wire_last_launch last; /**< reader only */
    unsigned since_sweep; /**< commands since the last sweep for completed ones */
    unsigned sweep_at; /**< commands between sweeps */
    unsigned since_flush; /**< commands since the last clFlush */
    struct tp_exec_event **blockers; /**< flush.c; reader only */
    size_t blocker_count;
    unsigned launches; /**< since the last command with a callback; reader only */
    unsigned untracked; /**< commands after the last pending one; reader only */
    uint64_t reads; /**< as tp_exec_event.reads_before, of its end; reader only */
    uint64_t barrier_reads; /**< out of order: of the last barrier's; reader only */
    cl_event
        batch_start; /**< user event that launches wait for, or NULL; reader only */
    cl_event
        barrier; /**< last one (in order: only after renewal), or NULL; reader only */
    bool barrier_is_own; /**< made by tp_exec_queue_renew(), not by a command */
    struct tp_list link; /**< exec->queues; done_lock */
    struct tp_list pending; /**< events in the order of commands; done_lock */
};

struct tp_exec_mem {
    struct tp_exec_object obj;
    cl_mem native; /**< NULL once released */
    uint64_t size;
    cl_mem_flags flags;
    struct tp_exec_context *context;
    uint64_t charged; /**< [bytes] of exec->memory, returned when it is freed */
    bool is_sub;
    bool is_pipe; /**< of packets that only kernels reach */
    struct tp_exec_mem *parent; /**< of a sub-buffer released in turn, held; or NULL */
    struct tp_exec_mem
        *last_sub; /**< sub-buffer made last of those that the driver has */
    struct tp_exec_mem *older_sub; /**< of the same parent, made before this one */
    struct tp_exec_svm *svm; /**< held until released; NULL: memory of the driver's */
    uint8_t *
        host; /**< its content, as long as `native` lives; NULL: the host does not reach
                        it, or svm */
    uint64_t element; /**< [bytes] of an image element; 0: a buffer */
    uint64_t
        dims[3]; /**< of an image: elements, rows (or layers), slices (or layers) */
    cl_image_format format; /**< of an image */
    cl_mem_object_type image_type;
};

struct tp_exec_sampler {
    struct tp_exec_object obj;
    cl_sampler native;
};

/* ---- objects.c ---- */

/**
 * Creates a zeroed object of @p size bytes whose first member is struct tp_exec_object,
 * and adds it to the table. An object beyond the limit of its kind is poisoned (o->error)
 * and FAILED is sent; the caller then creates no native object.
 * @return OK; PROTO (id used twice or of another kind), NO_MEMORY
 */
telpher_status tp_exec_create(struct tp_exec *x, uint64_t id, enum tp_wire_kind kind,
                              size_t size, void *ret_object);

/**
 * Defines the handler of a message @p name that creates an object: make_NAME() makes what
 * the driver has of it. @p id is the message's field, @p call the function in errors.
 */
#define TP_EXEC_ON_CREATE(name, type, id, KIND, call)                                  \
    telpher_status tp_exec_on_##name##_create(struct tp_exec *x,                       \
                                              const struct tp_wire_##name##_create *m) \
    {                                                                                  \
        struct tp_exec_##type *o;                                                      \
        telpher_status status =                                                        \
            tp_exec_create(x, m->id, TP_WIRE_KIND_##KIND, sizeof(*o), &o);             \
                                                                                       \
        if (status == TELPHER_OK) {                                                    \
            tp_exec_poison(&o->obj, make_##name(o, m), call);                          \
        }                                                                              \
        return status;                                                                 \
    }

/** Counts a new object; ends the session if there are too many. Reader only. */
void tp_exec_count(struct tp_exec *x);
/** Subtracts freed objects from the count. Any thread. */
/** Counts one without a check. */
void tp_exec_count_late(struct tp_exec *x);
void tp_exec_uncount(struct tp_exec *x, uint64_t count);
/** Finds a valid object. @return 0, the CL error for an invalid id, or its poison */
int32_t tp_exec_find(struct tp_exec *x, uint64_t id, enum tp_wire_kind kind,
                     void *ret_object);
/** As tp_exec_find(), and refers to the context. */
int32_t tp_exec_hold_context(struct tp_exec *x, uint64_t id,
                             struct tp_exec_context **ret_context);
/** As tp_exec_find(), for buffers but not images and pipes. */
int32_t tp_exec_find_buffer(struct tp_exec *x, uint64_t id,
                            struct tp_exec_mem **ret_mem);
/** Poisons a new object and sends FAILED, unless it is poisoned already; error 0 does
 *  nothing. */
void tp_exec_poison(struct tp_exec_object *o, int32_t error, const char *call);
/** Poisons an object that exceeds the limit @p option. @return @p error */
int32_t tp_exec_refuse(struct tp_exec_object *o, int32_t error, const char *option);
void tp_exec_ref(struct tp_exec_object *o);
/** NULL is fine. */
void tp_exec_unref(struct tp_exec_object *o);
/** Executes RELEASE of one id. */
void tp_exec_release(struct tp_exec *x, uint64_t id);
/** Releases all objects, at the end of an orderly session. */
void tp_exec_release_all(struct tp_exec *x);

/* Destructors of each kind: release the native object and the memory. @p o has no other
 * reference. */
void tp_exec_context_free(struct tp_exec_object *o);
void tp_exec_queue_free(struct tp_exec_object *o);
void tp_exec_mem_free(struct tp_exec_object *o);
void tp_exec_program_free(struct tp_exec_object *o);
void tp_exec_kernel_free(struct tp_exec_object *o);
void tp_exec_sampler_free(struct tp_exec_object *o);
void tp_exec_event_free(struct tp_exec_object *o);
void tp_exec_sub_device_free(struct tp_exec_object *o);
void tp_exec_commands_free(struct tp_exec_object *o);
/* Actions at the client's release, before the last reference is dropped. */
void tp_exec_event_on_release(struct tp_exec_object *o);
void tp_exec_context_on_release(struct tp_exec_object *o);
void tp_exec_queue_on_release(struct tp_exec_object *o);
void tp_exec_mem_on_release(struct tp_exec_object *o);

/* ---- device.c ---- */

/** Finds a device by its number; `sub` is borrowed. Reader only. @return false: none */
bool tp_exec_find_device(struct tp_exec *x, uint64_t number,
                         struct tp_exec_device *ret_device);
/** @return the device of a context with this number, or NULL. Any thread. */
const struct tp_exec_device *tp_exec_context_device(const struct tp_exec_context *c,
                                                    uint64_t number);

/** True if a device is @p whole or a part of it. Any thread. */
bool tp_exec_device_is_in(const struct tp_opencl *cl, cl_device_id device,
                          cl_device_id whole);

/* ---- context.c ---- */

/** Gets the domain of a queue's device, created at first use. @return 0 or the CL error */
int32_t tp_exec_domain(struct tp_exec_queue *q, struct tp_device **ret_device);
/**
 * Replaces the native queue after a command in it failed: with some drivers, commands
 * enqueued after a failed one never start. Reader only. @return 0 or the CL error
 */
int32_t tp_exec_queue_renew(struct tp_exec_queue *q);
/** Releases the event of the last barrier. Reader only. */
void tp_exec_queue_forget_barrier(struct tp_exec_queue *q);

/* ---- host_memory.c ---- */

/** True if kernels of all devices of a context use host memory as it is. */
bool tp_exec_uses_host_memory(const struct tp_exec_context *c);
/** Creates the native buffer on memory that the host reaches. @return NULL: not here */
cl_mem tp_exec_host_buffer(struct tp_exec_mem *mem);
/** Where the bytes of a box are. @return NULL: not in one piece, or out of the host's reach */
uint8_t *tp_exec_host_range(const struct tp_exec_mem *mem,
                            const struct tp_device_box *box);

/** Charges the session for the device memory of a new object. @return false: the object is
 *  poisoned, and FAILED has been sent */
bool tp_exec_mem_charge(struct tp_exec_mem *mem, uint64_t size);

/** True if a device of the context is discrete, so that content uses pinned memory. Reader
 *  only. */
static inline bool
tp_exec_is_pinned(const struct tp_exec_context *c)
{
    return tp_list_is_linked(&c->pin_link);
}

#endif
