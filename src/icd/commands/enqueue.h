/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps common to all commands. tp_icd_op_run() runs a command: it checks the wait list,
 * takes the lock, makes content valid in the queue's session, collects the events to wait
 * for, appends the frame, returns the event, releases the lock, flushes, and waits if the
 * command blocks.
 */
#ifndef TELPHER_ICD_COMMANDS_ENQUEUE_H
#define TELPHER_ICD_COMMANDS_ENQUEUE_H

#include "icd/objects/memory.h"

/* ---- enqueue.c: steps common to all commands ----------------------------------------- */

enum {
    TP_ICD_USE_READ = 1 << 0, /**< needs the content */
    TP_ICD_USE_WRITE = 1 << 1, /**< changes some of it */
    TP_ICD_USE_WHOLE =
        1 << 2, /**< with WRITE: replaces all of the range, the old is not needed */
};

struct tp_icd_use {
    struct _cl_mem *mem;
    unsigned how;
    /** [bytes] of the object that the command may touch; size 0: all of it. */
    uint64_t offset, size;
};

struct _cl_command_buffer_khr;

/** Sync points, which a recorded command has instead of events: command_buffer.c. */
struct tp_icd_sync {
    cl_uint count;
    const cl_uint *list; /**< sync points */
    cl_uint *ret_point; /**< NULL: not wanted */
};

enum { TP_ICD_OP_IDS = 32 };

/** One command being enqueued; lives on the stack of its entry point. */
struct tp_icd_op {
    struct _cl_command_queue *q;
    struct _cl_command_buffer_khr *record; /**< NULL: it goes to the queue */
    const struct tp_icd_sync *sync; /**< with record, instead of events */
    cl_command_type type;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event *ret_event;
    struct tp_icd_use *uses; /**< borrowed */
    size_t use_count;
    bool blocking; /**< return when it has ended, with its status */
    uint64_t early_size; /**< [bytes] of a blocking write that may return early */
    bool copies; /**< blocking write that need not wait if its content is copied */
    bool until_sent; /**< or if the caller has sent its content */
    bool need_event; /**< needed for content or for a wait */
    bool has_views; /**< it uses memory that program and servers take turns with */
    bool flush; /**< send at once */
    bool push; /**< its content goes through slots */
    uint64_t push_bulk; /**< transfer that the caller sends on the bulk stream, or 0 */
    bool strict; /**< a wait list known to have failed is an error of the call */
    bool expect; /**< an answer arrives even if no thread waits for it */
    uint8_t flags; /**< of the command; a put function may add NOTIFY if ev is there */
    struct _cl_event *ev; /**< NULL: not needed */
    uint64_t *ids; /**< events that the server must wait for */
    uint16_t id_count;
    size_t id_room;
    uint32_t touched_count;
    /* Of the arrays below, only the counted entries are set. */
    uint64_t few[TP_ICD_OP_IDS];
    struct tp_icd_session
        *touched[TP_ICD_SESSIONS_MAX]; /**< others that must be flushed */
};

/** Appends the frame of a command; under the lock. @return CL_SUCCESS or an error. */
typedef cl_int (*tp_icd_op_put)(struct tp_icd_op *op, void *arg);

/**
 * Starts a command: checks the queue, stores the arguments that every command has.
 * @return CL_SUCCESS or CL_INVALID_COMMAND_QUEUE.
 */
cl_int tp_icd_op_init(struct tp_icd_op *op, cl_command_queue queue,
                      cl_command_type type, cl_uint wait_count,
                      const cl_event *wait_list, cl_event *ret_event);
/** Runs the command, see the top of this file. An error means that nothing has changed,
 *  except for a blocking command, which returns its final status. */
cl_int tp_icd_op_run(struct tp_icd_op *op, tp_icd_op_put put, void *arg);
/** Adds an event to the command's wait list. Under the lock. CL_SUCCESS or no memory. */
cl_int tp_icd_op_wait(struct tp_icd_op *op, struct _cl_event *ev);
/** Adds a session to flush: it has frames without which the command might never run. */
void tp_icd_op_touch(struct tp_icd_op *op, struct tp_icd_session *session);
/** 0 or the id of the event, for the frame. */
uint64_t tp_icd_op_event_id(const struct tp_icd_op *op);
struct tp_wire_u64s tp_icd_op_ids(const struct tp_icd_op *op);
/** Makes room for @p more ids. CL_SUCCESS, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_op_reserve_ids(struct tp_icd_op *op, size_t more);
void tp_icd_op_free_ids(struct tp_icd_op *op);
/** Appends the frame of a command, or records it. Under the lock. */
cl_int tp_icd_op_send(struct tp_icd_op *op, uint16_t type, const void *msg);
/** Appends a command that does nothing but wait for its events. Under the lock. */
cl_int tp_icd_op_put_nothing(struct tp_icd_op *op, void *arg);

/* ---- blocking_write.c: see icd.h; all under the lock ------------------------------------------- */

/** Decides whether a write with early_size may return early; sets the related fields. */
void tp_icd_early_decide(struct tp_icd_op *op);
/** Decides whether a write may send content before the server grants credit. False if too
 *  much such content, which the server must buffer, is in transfer. */
bool tp_icd_early_window(struct _cl_event *ev, uint64_t size);
/** Records a write that may return early, after it was appended. */
void tp_icd_early_note(struct tp_icd_op *op);
/** Orders a command after early writes of other queues, before it is appended. */
void tp_icd_early_order(struct tp_icd_op *op);

/* ---- command.c: commands of buffers, also on shared virtual memory -------------------------- */

/** The functions below check their arguments, then call tp_icd_op_run. */
cl_int tp_icd_run_copy(struct tp_icd_op *op, cl_mem src, cl_mem dst, size_t src_offset,
                       size_t dst_offset, size_t size);
cl_int tp_icd_run_fill(struct tp_icd_op *op, cl_mem buffer, const void *pattern,
                       size_t pattern_size, size_t offset, size_t size);
cl_int tp_icd_run_migrate(struct tp_icd_op *op, cl_uint mem_count, const cl_mem *mems,
                          cl_mem_migration_flags flags);
/** A marker; a barrier if the type of the op says so. */
cl_int tp_icd_run_marker(struct tp_icd_op *op);

/* ---- command_buffer.c: command buffers --------------------------------------------------------- */

/** Starts a command that is recorded: checks the buffer. */
cl_int tp_icd_op_init_record(struct tp_icd_op *op,
                             struct _cl_command_buffer_khr *commands,
                             cl_command_queue queue, cl_command_type type,
                             const struct tp_icd_sync *sync, void *mutable_handle);
/** tp_icd_op_run of a command that is recorded. */
cl_int tp_icd_op_record(struct tp_icd_op *op, tp_icd_op_put put, void *arg);
/** Appends RECORD that contains this message. Under the lock. */
cl_int tp_icd_record_put(struct tp_icd_op *op, uint16_t type, const void *msg);

#endif
