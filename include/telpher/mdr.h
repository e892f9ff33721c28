/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message-driven objects. A program registers classes; arrays of objects are spread over the
 * processes of a job; an invocation is a message to an object, whose entry method runs when the
 * message arrives. Device buffers travel with an invocation, to memory that the object names.
 *
 * All processes run the same program, register the same classes in the same order and call
 * telpher_mdr_run(). Entry methods of a process run one at a time, on the thread that called it.
 *
 *     struct hello { int32_t from; };
 *
 *     static void greet(telpher_mdr_call *call)
 *     {
 *         const struct hello *h = TELPHER_MDR_PARAMS(call, struct hello);
 *         printf("element %d, from %d\n", call->index.at[0], h->from);
 *     }
 *
 * Source: chares, arrays, proxies, reductions and quiescence as in Charm++; post entries as the
 * Messaging API of "Accelerating Communication for Parallel Programming Models on GPU Systems".
 * Threads: a runtime belongs to the thread of telpher_mdr_run(). Since: 0.1.
 */
#ifndef TELPHER_MDR_H
#define TELPHER_MDR_H

#include <telpher/context.h>
#include <telpher/mdr_class.h>
#include <telpher/msg.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where a result goes. */
enum telpher_mdr_target_kind {
    TELPHER_MDR_TO_FUTURE = 1,
    TELPHER_MDR_TO_ELEMENT = 2, /**< the result is the parameter of an entry */
    TELPHER_MDR_TO_ALL = 3, /**< the same, of all elements */
};

typedef struct telpher_mdr_target {
    uint32_t kind; /**< enum telpher_mdr_target_kind */
    uint32_t entry;
    telpher_mdr_future future;
    telpher_mdr_array array;
    telpher_mdr_index index;
    uint32_t reserved;
} telpher_mdr_target;

/** How contributions become one value. Arrays of the type, element by element. */
enum telpher_mdr_op {
    TELPHER_MDR_SUM_I64 = 0,
    TELPHER_MDR_SUM_F64,
    TELPHER_MDR_MIN_I64,
    TELPHER_MDR_MIN_F64,
    TELPHER_MDR_MAX_I64,
    TELPHER_MDR_MAX_F64,
    TELPHER_MDR_SUM_I32,
    TELPHER_MDR_SUM_F32,
    TELPHER_MDR_MIN_I32,
    TELPHER_MDR_MIN_F32,
    TELPHER_MDR_MAX_I32,
    TELPHER_MDR_MAX_F32,
    TELPHER_MDR_PRODUCT_I32,
    TELPHER_MDR_PRODUCT_I64,
    TELPHER_MDR_PRODUCT_F32,
    TELPHER_MDR_PRODUCT_F64,
    TELPHER_MDR_AND_U64, /**< bit by bit, so of 0 and 1 also as logic */
    TELPHER_MDR_OR_U64,
    TELPHER_MDR_XOR_U64,
    TELPHER_MDR_OP_USER, /**< the first of telpher_mdr_op_register() */
};

/** Folds @p len bytes of @p from into @p into. Associative and commutative. */
typedef void (*telpher_mdr_op_fn)(void *into, const void *from, size_t len);

/**
 * Creates the runtime of this process.
 * @param ctx  job to use, borrowed until destroy; NULL: the runtime joins the launcher's job.
 *             Handlers TELPHER_HANDLERS - 8 to - 3 of it belong to the runtime.
 * @param err  what was wrong and what to do; may be NULL.
 * @return TELPHER_OK, TELPHER_ERR_NO_MEMORY, TELPHER_ERR_INVALID (a setting), or as
 *         telpher_context_create()
 */
TELPHER_CALL telpher_status telpher_mdr_create(telpher_context *ctx,
                                               telpher_mdr **ret_mdr,
                                               telpher_error *err);
/** Destroys all objects and the runtime. NULL is allowed. Not in an entry method. */
TELPHER_CALL void telpher_mdr_destroy(telpher_mdr *mdr);

/** The job that the runtime uses; borrowed until telpher_mdr_destroy(). */
TELPHER_CALL telpher_context *telpher_mdr_context(const telpher_mdr *mdr);
/** Number of this process, 0 to telpher_mdr_size() - 1; number of processes. */
TELPHER_CALL uint32_t telpher_mdr_rank(const telpher_mdr *mdr);
TELPHER_CALL uint32_t telpher_mdr_size(const telpher_mdr *mdr);
/** Text of the last call that failed, "" if none did. Valid until the next. */
TELPHER_CALL const char *telpher_mdr_last_error(const telpher_mdr *mdr);

/**
 * Registers a class; before telpher_mdr_run(), in the same order in all processes.
 * @param ret_class  receives its number.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (no name, no entry function, struct_size),
 *         TELPHER_ERR_LIMIT, TELPHER_ERR_BUSY (the runtime runs)
 */
TELPHER_CALL telpher_status telpher_mdr_class_register(telpher_mdr *mdr,
                                                       const telpher_mdr_class *def,
                                                       uint32_t *ret_class);
/** Registers an operation of the program's own, as a class. @param ret_op its number. */
TELPHER_CALL telpher_status telpher_mdr_op_register(telpher_mdr *mdr,
                                                    telpher_mdr_op_fn fn,
                                                    uint32_t *ret_op);

/**
 * Runs the program: @p main_fn in a light thread of process 0, entry methods in all, until one
 * of them calls telpher_mdr_exit(). Collective. @p main_fn sees a call without an object.
 * @return the status of telpher_mdr_exit(); TELPHER_ERR_PEER_LOST (a process died),
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_PROTO (processes registered different classes)
 */
TELPHER_CALL telpher_status telpher_mdr_run(telpher_mdr *mdr,
                                            telpher_mdr_entry_fn main_fn, void *user);
/**
 * Begins the run without waiting for its end, for a program with a loop of its own, which calls
 * telpher_mdr_turn(). Collective. @return TELPHER_OK, or as telpher_mdr_run()
 */
TELPHER_CALL telpher_status telpher_mdr_begin(telpher_mdr *mdr,
                                              telpher_mdr_entry_fn main_fn, void *user);
/**
 * Runs entries whose messages are there, otherwise waits a moment for one.
 * @return TELPHER_IN_PROGRESS: call it again; otherwise the run has ended, as telpher_mdr_run().
 *         TELPHER_ERR_INVALID: there is no run
 */
TELPHER_CALL telpher_status telpher_mdr_turn(telpher_mdr *mdr);
/** Work of the program's own. @return not 0: there is more; 0: call it again after the next
 *  message, or in a while */
typedef int (*telpher_mdr_idle_fn)(telpher_mdr *mdr, void *user);
/** Has @p fn called while this process has nothing to run. It may invoke entries and may not
 *  wait. NULL: none. Before telpher_mdr_run() or on its thread. */
TELPHER_CALL void telpher_mdr_idle_set(telpher_mdr *mdr, telpher_mdr_idle_fn fn,
                                       void *user);
/** The argument @p user of telpher_mdr_run(). */
TELPHER_CALL void *telpher_mdr_user(const telpher_mdr *mdr);
/** Ends telpher_mdr_run() in all processes. Messages still under way are dropped: wait for
 *  telpher_mdr_quiescence() if they matter. */
TELPHER_CALL void telpher_mdr_exit(telpher_mdr *mdr, telpher_status status);

/**
 * Creates an array of extent[0] * … elements. Not collective: messages tell other processes. The
 * elements are spread in blocks of the index space, first dimension slowest.
 * @param params  [params_len] for `create`; at most telpher_msg_params_max() - 128 bytes.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (class, dims, an extent below 1),
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_RANGE (parameters too long), TELPHER_ERR_PEER_LOST
 */
TELPHER_CALL telpher_status telpher_mdr_array_create(
    telpher_mdr *mdr, uint32_t class_id, uint32_t dims, const int32_t *extent,
    const void *params, size_t params_len, telpher_mdr_array *ret_array);
/** Creates a group: one element in each process; index.at[0] is the process. */
TELPHER_CALL telpher_status telpher_mdr_group_create(telpher_mdr *mdr,
                                                     uint32_t class_id,
                                                     const void *params,
                                                     size_t params_len,
                                                     telpher_mdr_array *ret_group);
/** The object at @p index if it is in this process, otherwise NULL. */
TELPHER_CALL void *telpher_mdr_local(telpher_mdr *mdr, const telpher_mdr_array *array,
                                     telpher_mdr_index index);
/** The process in which the element begins; UINT32_MAX if there is no such index. */
TELPHER_CALL uint32_t telpher_mdr_home(const telpher_mdr *mdr,
                                       const telpher_mdr_array *array,
                                       telpher_mdr_index index);

/** Entry number @p entry for telpher_mdr_invoke(), to run later: when no message waits in the
 *  element's process, those with the smallest @p priority, 1 to 255, first. */
#define TELPHER_MDR_LATER(entry, priority)                                             \
    (UINT32_C(0x80000000) | (uint32_t)(priority) << 8 | (uint32_t)(entry))

/**
 * Invokes an entry of one element. Invocations of one element by another run in their order
 * unless buffers, waiting entries or TELPHER_MDR_LATER() are among them.
 *
 * @param entry    its number, or TELPHER_MDR_LATER().
 * @param params   [params_len] host memory; may be reused on return.
 * @param buffers  the array is borrowed until return, the memory until the send is complete.
 * @param xfer     on_done is called once when the buffers' memory may be reused, with
 *                 TELPHER_ERR_CANCELED if the run ended before they were sent; NULL: there
 *                 are no buffers, or telpher_mdr_quiescence() tells.
 * @return TELPHER_OK (queued or sent; on_done will be called if it is set), TELPHER_ERR_RANGE
 *         (no such element or entry, parameters or buffers too many), TELPHER_ERR_INVALID (the
 *         entry takes other parameters, or no buffers), TELPHER_ERR_PEER_LOST,
 *         TELPHER_ERR_NO_MEMORY; after an error on_done is not called. While messages that wait
 *         in this process take TELPHER_MDR_MEMORY, entries that may wait and the main function
 *         are held back in the call; others get TELPHER_ERR_AGAIN: invoke later, from an entry
 *         that may wait or telpher_mdr_idle_set()'s function
 */
TELPHER_CALL telpher_status telpher_mdr_invoke(telpher_mdr *mdr,
                                               const telpher_mdr_array *array,
                                               telpher_mdr_index index, uint32_t entry,
                                               const void *params, size_t params_len,
                                               const telpher_msg_buffer *buffers,
                                               size_t buffer_count,
                                               const telpher_xfer_params *xfer);
/** Invokes an entry of one element with parameters of a type that the table must state as well.
 *  @return as telpher_mdr_invoke() */
#define TELPHER_MDR_INVOKE(mdr, array, index, entry, type, value)                      \
    telpher_mdr_invoke_typed(mdr, array, index, entry, #type,                          \
                             1 ? (value) : (const type *)0, sizeof(type))
TELPHER_CALL telpher_status telpher_mdr_invoke_typed(
    telpher_mdr *mdr, const telpher_mdr_array *array, telpher_mdr_index index,
    uint32_t entry, const char *type, const void *params, size_t params_len);
/** Invokes an entry of all elements. Not in order with invocations of one. @return as telpher_mdr_invoke() */
TELPHER_CALL telpher_status telpher_mdr_broadcast(telpher_mdr *mdr,
                                                  const telpher_mdr_array *array,
                                                  uint32_t entry, const void *params,
                                                  size_t params_len);

/**
 * Contributes this element's value to the array's next reduction. The nth contributions of all
 * elements make the nth result, which goes to @p target; target and @p op are the same in all.
 * @param data  [len] bytes, at most telpher_msg_params_max() - 160, the same length in all; for the built-in operations numbers of their type.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (operation, length or target), TELPHER_ERR_NO_MEMORY.
 *         Unequal contributions end the run with TELPHER_ERR_INVALID and name class and number.
 */
TELPHER_CALL telpher_status telpher_mdr_contribute(telpher_mdr_call *call,
                                                   const void *data, size_t len,
                                                   uint32_t op,
                                                   const telpher_mdr_target *target);

/** Creates a future of this process. @return TELPHER_OK, TELPHER_ERR_NO_MEMORY */
TELPHER_CALL telpher_status telpher_mdr_future_create(telpher_mdr *mdr,
                                                      telpher_mdr_future *ret_future);
/** Sets a future, from any process, once. @return as telpher_mdr_invoke() */
TELPHER_CALL telpher_status telpher_mdr_future_set(telpher_mdr *mdr,
                                                   telpher_mdr_future future,
                                                   const void *data, size_t len);
/**
 * Waits for a future of this process; other entries run meanwhile. The future is used up.
 * @param dst      [cap] receives the value; longer ones are truncated (TELPHER_ERR_TRUNCATED).
 * @param ret_len  [bytes] of the value; may be NULL.
 * @return TELPHER_OK, TELPHER_ERR_TRUNCATED, TELPHER_ERR_NOT_FOUND (no such future of this
 *         process), TELPHER_ERR_INVALID (the caller may not wait: give its entry
 *         TELPHER_MDR_WAITS), TELPHER_ERR_CANCELED (the run ends: return from the entry)
 */
TELPHER_CALL telpher_status telpher_mdr_await(telpher_mdr *mdr,
                                              telpher_mdr_future future, void *dst,
                                              size_t cap, size_t *ret_len);
/** Lets other entries run; only in entries that may wait. @return OK, INVALID, CANCELED */
TELPHER_CALL telpher_status telpher_mdr_yield(telpher_mdr *mdr);

/**
 * Sets @p future, without a value, when the job is quiescent: no entry runs and no message is
 * under way, but for light threads that wait. One at a time.
 * @return TELPHER_OK, TELPHER_ERR_BUSY (another is awaited), as telpher_mdr_invoke()
 */
TELPHER_CALL telpher_status telpher_mdr_quiescence(telpher_mdr *mdr,
                                                   telpher_mdr_future future);

#ifdef __cplusplus
}
#endif

#endif
