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
    cl_uint wait_count;
    const cl_event *waits; /**< NULL if none; valid until the next command */
    int32_t error;
};

/** Begins a command: event, queue, wait list. @return OK (check ret->error), PROTO,
 *  NO_MEMORY */
telpher_status tp_exec_begin(struct tp_exec *x, struct tp_exec_command *ret,
                             const char *call, uint64_t event, uint64_t queue,
                             uint8_t flags, const struct tp_wire_u64s *wait);
/** Ends a command: its event is then pending or poisoned. */
telpher_status tp_exec_end(struct tp_exec_command *c);
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
};

/** True if the content of a READ is valid; if not, the session must end. */
bool tp_exec_read_is_proper(const struct tp_exec_content *content);
/** True if the content of a WRITE is valid; if not, the session must end. */
bool tp_exec_write_is_proper(const struct tp_exec_content *content);
/**
 * Enqueues a READ of a checked box and ends the command, also if c->error is set already.
 * @return OK, or an error that ends the session
 */
telpher_status tp_exec_read_box(struct tp_exec_command *c, struct tp_exec_mem *mem,
                                const struct tp_device_box *box,
                                const struct tp_exec_content *content);
/** Enqueues a WRITE; see tp_exec_read_box(). */
telpher_status tp_exec_write_box(struct tp_exec_command *c, struct tp_exec_mem *mem,
                                 const struct tp_device_box *box,
                                 const struct tp_exec_content *content);
/** True if the counts and lengths in a message are valid. */
bool tp_exec_launch_is_proper(const struct tp_wire_launch *m);
bool tp_exec_copy_is_proper(const struct tp_wire_copy *m);
bool tp_exec_fill_is_proper(const struct tp_wire_fill *m);
/** Checks the arguments of a kernel. @return 0 or the CL error of the first invalid one */
int32_t tp_exec_check_args(const struct tp_exec_kernel *k);
enum { TP_EXEC_COPY_RECT = 13 };
/** Checks and converts the values of a rectangular COPY. @return 0 or CL_INVALID_VALUE */
int32_t tp_exec_copy_rect(const struct tp_wire_u64s *rect,
                          const struct tp_exec_mem *src, const struct tp_exec_mem *dst,
                          size_t ret_values[TP_EXEC_COPY_RECT]);

/* ---- image_command.c ---- */

/** Driver arguments of a copy or a fill of images, looked up and within bounds. */
struct tp_exec_image_args {
    struct tp_exec_mem *src, *dst; /**< one of them a buffer, or src unset */
    size_t from[3], to[3], size[3]; /**< of images */
    uint32_t colour[4];
};

/* Each makes the arguments from a message with valid counts. @return 0 or the CL error */
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

/* ---- large_transfer.c ---- */

/** Enqueues the gate of a move, and the event that blocks the queue until its end. */
telpher_status tp_exec_move(struct tp_exec_command *c, struct tp_exec_mem *mem,
                            const struct tp_device_box *box, uint64_t transfer,
                            bool to_client, uint8_t flags);
/**
 * Waits until the driver knows every failed move that the client knows. A command enqueued
 * earlier would wait for an event that is about to fail. Reader only.
 */
void tp_exec_wait_told(struct tp_exec *x);
/** Fails moves whose gate has failed. Any thread, without locks. */
void tp_exec_sweep_gates(struct tp_exec *x);
/** @return the closed gate that a move waits for, retained; NULL: none. Any thread. */
cl_event tp_exec_move_gate(struct tp_exec *x, const struct tp_exec_event *ev);

#endif
