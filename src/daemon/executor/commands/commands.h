/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueues commands from messages, and checks them for recording in command buffers. */
#ifndef TELPHER_DAEMON_EXECUTOR_COMMANDS_COMMANDS_H
#define TELPHER_DAEMON_EXECUTOR_COMMANDS_COMMANDS_H

#include "daemon/executor/events.h"
#include "daemon/executor/program/program.h"
#include "wire/messages.h"

/* ---- command.c ---- */

/** A command between its message and the driver. */
struct tp_exec_command {
    struct tp_exec *x;
    struct tp_exec_event *ev;
    struct tp_exec_queue *queue; /**< NULL if error */
    struct tp_wire_u64s wait; /**< ids of its wait list; valid until the next command */
    cl_uint wait_count;
    const cl_event *waits; /**< NULL if none; valid until the next command */
    struct tp_exec_bulk
        *peer; /**< its content comes from or goes to that server; NULL: the client */
    int32_t error;
    struct tp_exec_commands *record; /**< NULL: it goes to the queue */
    const cl_sync_point_khr *points; /**< with record, instead of waits */
    cl_sync_point_khr point; /**< with record, instead of an event */
};

/** The members that all messages of commands have. */
struct tp_exec_head {
    uint64_t event, queue;
    uint8_t flags;
    struct tp_wire_u64s wait;
};
#define TP_EXEC_HEAD(m)                                                                \
    (struct tp_exec_head) { (m)->event, (m)->queue, (m)->flags, (m)->wait }

/** A command that is one call of the driver, enqueued or recorded. */
struct tp_exec_kind {
    const char *call;
    bool (*is_proper)(const void *msg); /**< counts and lengths are valid; NULL: all */
    int32_t (*run)(struct tp_exec_command *c,
                   const void *msg); /**< 0 or the CL error */
};
extern const struct tp_exec_kind tp_exec_copy, tp_exec_fill, tp_exec_barrier,
    tp_exec_copy_image, tp_exec_copy_image_to_buffer, tp_exec_copy_buffer_to_image,
    tp_exec_fill_image;

/** Enqueues the command of a message. */
telpher_status tp_exec_run(struct tp_exec *x, const struct tp_exec_kind *kind,
                           const struct tp_exec_head *head, const void *msg);
/** Defines the handler of a message whose command is tp_exec_<name>. */
#define TP_EXEC_HANDLER(name)                                                          \
    telpher_status tp_exec_on_##name(struct tp_exec *x,                                \
                                     const struct tp_wire_##name *m)                   \
    {                                                                                  \
        return tp_exec_run(x, &tp_exec_##name, &TP_EXEC_HEAD(m), m);                   \
    }

/**
 * Calls clEnqueue<name> or clCommand<name>KHR, whose arguments between the queue and the
 * events are the same. @return 0 or the CL error
 */
#define TP_EXEC_CALL(c, name, ...)                                                     \
    ((c)->record == NULL                                                               \
         ? (c)->x->cl.Enqueue##name((c)->queue->native, __VA_ARGS__, (c)->wait_count,  \
                                    (c)->waits, &(c)->ev->native)                      \
     : (c)->x->commands.Command##name == NULL                                          \
         ? CL_INVALID_OPERATION                                                        \
         : (c)->x->commands.Command##name((c)->record->native, NULL, __VA_ARGS__,      \
                                          (c)->wait_count, (c)->points, &(c)->point,   \
                                          NULL))

/** Begins a command: event, queue, wait list. @return OK (check ret->error), PROTO,
 *  NO_MEMORY */
telpher_status tp_exec_begin(struct tp_exec *x, struct tp_exec_command *ret,
                             const char *call, const struct tp_exec_head *head);
/** Ends a command: its event is then pending or poisoned. */
telpher_status tp_exec_end(struct tp_exec_command *c);
/**
 * Looks at the wait list again after the driver has taken it. An event may have failed on
 * another thread meanwhile, and NVIDIA's driver runs a command whose wait list had failed.
 * @return 0 or CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
 */
int32_t tp_exec_check_waits(const struct tp_exec_command *c);
/** If the command is recorded, keeps @p mem until the command buffer is freed. @return 0 or
 *  the CL error */
int32_t tp_exec_keep(struct tp_exec_command *c, const struct tp_exec_mem *mem);

/* ---- read_write.c ---- */

/**
 * Makes a box from origin, region, row and slice pitch. @return 0; CL_INVALID_VALUE when it
 * exceeds @p size bytes. The check is ours because drivers miss some overflows.
 */
int32_t tp_exec_make_rect(const uint64_t v[8], uint64_t size,
                          struct tp_device_box *ret_box);

/** Content of a READ or a WRITE, from its message. */
struct tp_exec_content {
    uint8_t flags; /**< of the command */
    uint64_t size; /**< [bytes] */
    uint64_t transfer; /**< 0: content is in the frame, or in DONE */
    struct tp_wire_bytes data; /**< of a WRITE */
    bool is_image;
    bool has_peer; /**< the content comes from or goes to another server, */
    struct tp_exec_bulk *peer; /**< by this stream; NULL: that is not connected */
    uint64_t mem, offset; /**< offset: [bytes] in a buffer, without a region */
    struct tp_wire_u64s region; /**< of a buffer: 0 or 8 values; of an image: 6 */
};

/** Enqueues a READ or a WRITE. */
telpher_status tp_exec_transfer(struct tp_exec *x, const char *call,
                                const struct tp_exec_head *head, bool to_client,
                                const struct tp_exec_content *content);
/** True if the counts in a message are valid. */
bool tp_exec_launch_is_proper(const struct tp_wire_launch *m);
/** Checks the arguments of a kernel. @return 0 or the CL error of the first invalid one */
int32_t tp_exec_check_args(const struct tp_exec_kernel *k);
/* ---- image_command.c ---- */

/** Finds the image of a READ or WRITE and makes its box. @return 0 or the CL error */
int32_t tp_exec_find_box(struct tp_exec *x, const struct tp_exec_content *content,
                         struct tp_exec_mem **ret_mem, struct tp_device_box *ret_box);

/* ---- large_transfer.c ---- */

/** True if content from or for another server goes without a command of the driver: the host
 *  reaches the memory, and little enough would have to be copied. */
bool tp_exec_moves_memory(const struct tp_exec_command *c,
                          const struct tp_exec_mem *mem,
                          const struct tp_device_box *box, bool to_client);
/** Enqueues the gate of a move, and the event that blocks the queue until its end. */
telpher_status tp_exec_move(struct tp_exec_command *c, struct tp_exec_mem *mem,
                            const struct tp_device_box *box, uint64_t transfer,
                            bool to_client, uint8_t flags);
/**
 * Waits until the driver knows every failed move that the client knows. A command enqueued
 * earlier would wait for an event that is about to fail. Reader only.
 */
void tp_exec_wait_failing(struct tp_exec *x);
/** Fails moves whose gate has failed. Any thread, without locks. */
void tp_exec_sweep_gates(struct tp_exec *x);
/** @return the closed gate that a move waits for, retained; NULL: none. Any thread. */
cl_event tp_exec_move_gate(struct tp_exec *x, const struct tp_exec_event *ev);

#endif
