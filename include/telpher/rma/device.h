/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for kernels. One source runs on all backends if it keeps to these rules:
 *
 *   - plain C; every loop that is shared among lanes has the form
 *         for (i = telpher_rma_lane(rma); i < n; i += telpher_rma_lanes(rma))
 *     and is right for any number of lanes, also one;
 *   - all lanes of a rank make the calls marked "block" together, with the same arguments;
 *     such a call begins and ends with a barrier of the rank's lanes;
 *   - what lanes of a rank share is declared by TELPHER_RMA_SHARED();
 *   - what ranks share lies in windows, and notifications, barriers and other calls order it.
 *
 * A kernel is defined by TELPHER_RMA_KERNEL(name) { ... }, in which `rma` stands for the
 * lane, and is launched by telpher_rma_run(job, &name, ...). It begins when all ranks can
 * communicate; a rank whose kernel returned may still be put to.
 *
 * Statuses: every call returns the error, and the launch fails with the first error even
 * if the kernel looks away. When a launch fails, all waits return; a kernel then simply
 * runs on to its end. Common to the calls below, beside what they list:
 *         TELPHER_ERR_RANGE     no such rank, tag, group or window, or bytes outside of it;
 *                               nothing was done
 *         TELPHER_ERR_INVALID   lanes are not at the same call with the same arguments
 *         TELPHER_ERR_CANCELED  the launch has failed elsewhere
 *
 * Backends: processors, and GPUs under nvcc (docs/rma.md sections 8 and 10).
 */
#ifndef TELPHER_RMA_DEVICE_H
#define TELPHER_RMA_DEVICE_H

#include <telpher/rma/types.h>

#ifdef __cplusplus
#define TELPHER_RMA_EXTERN_ extern "C"
#else
#define TELPHER_RMA_EXTERN_ extern
#endif
#define TELPHER_RMA_KERNEL_DECLARE_(name)                                              \
    TELPHER_RMA_EXTERN_ const telpher_rma_kernel name

#if defined(__CUDACC__)
#include <telpher/rma/detail/device_cuda.h>
#else
#include <telpher/rma/detail/device_cpu.h>
#endif

/** "file.c:41": where a call stands, for reports. */
#define TELPHER_RMA_TEXT_(x) #x
#define TELPHER_RMA_LINE_(x) TELPHER_RMA_TEXT_(x)
#define TELPHER_RMA_HERE __FILE__ ":" TELPHER_RMA_LINE_(__LINE__)

/** Defines the kernel @p name; its body follows. */
#define TELPHER_RMA_KERNEL(name) TELPHER_RMA_KERNEL_(name)
/** Says in another source, a host's for example, that there is such a kernel. */
#define TELPHER_RMA_KERNEL_DECLARE(name) TELPHER_RMA_KERNEL_DECLARE_(name)

/**
 * Declares @p name, a pointer to @p count of @p type that all lanes of the rank share. Block;
 * the same memory each time this line is reached. The count is a constant, for GPUs. NULL
 * when there is no memory, and the launch fails.
 */
#define TELPHER_RMA_SHARED(rma, type, name, count)                                     \
    TELPHER_RMA_SHARED_(rma, type, name, count)

/* ---- who this is ---- */

/** In front of functions that kernels call: TELPHER_RMA_FN, or TELPHER_RMA_FN_BOTH for those
 *  that the host calls, too. */

/** The data of the launch, what the host gave to it. */
#define telpher_rma_data(rma) ((rma)->data)
/** This lane among those of its rank, and how many they are; and in one dimension, 0 to 2. */
#define telpher_rma_lane(rma) TELPHER_RMA_LANE_(rma)
#define telpher_rma_lanes(rma) ((rma)->lanes)
#define telpher_rma_lane_in(rma, dim) telpher_rma_lane_in_(rma, dim)
#define telpher_rma_lanes_in(rma, dim) ((rma)->block[dim])
/** This rank in a group, TELPHER_RMA_NO_RANK if it is not in there; and the group's size,
 *  0 if there is no such group. */
#define telpher_rma_rank(rma, comm) (TELPHER_RMA_CALL_(rma, rank)(rma, comm))
#define telpher_rma_size(rma, comm) (TELPHER_RMA_CALL_(rma, size)(rma, comm))

/* ---- lanes of one rank ---- */

/** Barrier of the rank's lanes. Block. */
#define telpher_rma_sync(rma) (TELPHER_RMA_CALL_(rma, sync)(rma, TELPHER_RMA_HERE))
/** Sum of @p value over the lanes, added from the first lane to the last. Block, but each
 *  lane with its own value. */
#define telpher_rma_lane_sum(rma, value)                                               \
    (TELPHER_RMA_CALL_(rma, lane_sum)(rma, value, TELPHER_RMA_HERE))

/* ---- windows ---- */

/**
 * Makes a window of memory that the ranks of @p comm may put into. Block; all ranks of the
 * group, in the same order as other calls of the group.
 *
 * @param base  this rank's part; any memory. Parts may overlap: where source and target of
 *              a put are the same bytes, nothing is copied.
 * @param len   [bytes], 0 and more, different in each rank as you like.
 * @return also TELPHER_ERR_NO_MEMORY; *ret_win is TELPHER_RMA_WIN_NONE after any failure.
 */
#define telpher_rma_win_create(rma, comm, base, len, ret_win)                          \
    (TELPHER_RMA_CALL_(rma, win_create)(rma, comm, base, len, ret_win,                 \
                                        TELPHER_RMA_HERE))
/** Ends a window. Block; all ranks of its group. */
#define telpher_rma_win_free(rma, win)                                                 \
    (TELPHER_RMA_CALL_(rma, win_free)(rma, win, TELPHER_RMA_HERE))
/** [bytes] of a rank's part; 0 if there is none. */
#define telpher_rma_win_size(rma, win, rank)                                           \
    (TELPHER_RMA_CALL_(rma, win_size)(rma, win, rank))

/* ---- puts and notifications: all block ---- */

/**
 * Writes src[0 .. len) to bytes [off .. off + len) of @p rank's part. @p rank counts in the
 * window's group. @p src may change after the rank's next telpher_rma_flush(). The target
 * may look after a notification that this rank sent it later, or a barrier.
 */
#define telpher_rma_put(rma, win, rank, off, src, len)                                 \
    telpher_rma_put_(rma, win, rank, off, src, len, TELPHER_RMA_HERE)
/** The same, then one notification of @p tag. All that this rank put to that one before has
 *  arrived, too, when the notification arrives. */
#define telpher_rma_put_notify(rma, win, rank, off, src, len, tag)                     \
    telpher_rma_put_notify_(rma, win, rank, off, src, len, tag, TELPHER_RMA_HERE)
/** Stores 8 bytes, the uint64_t @p value, at @p off, which with the part's base makes a
 *  multiple of 8 (else TELPHER_ERR_INVALID), and notifies. There is no source to keep. */
#define telpher_rma_put_value_notify(rma, win, rank, off, value, tag)                  \
    telpher_rma_put_value_notify_(rma, win, rank, off, value, tag, TELPHER_RMA_HERE)
/** One notification of @p tag to @p rank of @p comm, after all that this rank put there and
 *  all that it read. Ranks of its device then also see what it wrote by itself; ranks of other
 *  devices see that only after a flush. */
#define telpher_rma_notify(rma, comm, rank, tag)                                       \
    (TELPHER_RMA_CALL_(rma, notify)(rma, comm, rank, tag, TELPHER_RMA_HERE))
/** The same to each of @p count @p ranks, in all lanes the same: on a GPU one fence is enough for
 *  those of this rank's GPU. */
#define telpher_rma_notify_each(rma, comm, ranks, count, tag)                          \
    telpher_rma_notify_each_(rma, comm, ranks, count, tag, TELPHER_RMA_HERE)
/** Reads bytes [off .. off + len) of @p rank's part; they are in @p dst when it returns. */
#define telpher_rma_get(rma, win, rank, off, dst, len)                                 \
    telpher_rma_get_(rma, win, rank, off, dst, len, TELPHER_RMA_HERE)
/** The same, and then one notification of @p tag to @p rank: its bytes have been read, and it
 *  may change them. */
#define telpher_rma_get_notify(rma, win, rank, off, dst, len, tag)                     \
    telpher_rma_get_notify_(rma, win, rank, off, dst, len, tag, TELPHER_RMA_HERE)
/** Waits until all that this rank put into the window has arrived, and what it wrote by itself
 *  can be read by ranks of other devices, which learn of it by a notification. */
#define telpher_rma_flush(rma, win)                                                    \
    (TELPHER_RMA_CALL_(rma, flush)(rma, win, TELPHER_RMA_HERE))

/* ---- waiting: all block ---- */

/** Takes @p count notifications of @p tag if so many have arrived.
 *  @return also TELPHER_ERR_AGAIN: not yet; none was taken. The launch does not
 *  fail. Each call lets other ranks run and makes progress. There is no deadline,
 *  but a warning. */
#define telpher_rma_test(rma, tag, count)                                              \
    (TELPHER_RMA_CALL_(rma, test)(rma, tag, count, TELPHER_RMA_HERE))
/**
 * Waits until @p count notifications of @p tag have arrived, and takes them.
 * @return also TELPHER_ERR_TIMEOUT   the launch's deadline passed, and the launch fails
 *              TELPHER_ERR_DEADLOCK  no rank is left to send, and the launch fails
 */
#define telpher_rma_wait(rma, tag, count)                                              \
    (TELPHER_RMA_CALL_(rma, wait)(rma, TELPHER_RMA_WORLD, TELPHER_RMA_NO_RANK, tag,    \
                                  count, 0, TELPHER_RMA_HERE))
/** The same for notifications that all come from rank @p from of @p comm: reports name it,
 *  and the launch fails with TELPHER_ERR_PEER_LOST as soon as its kernel has returned. */
#define telpher_rma_wait_from(rma, comm, from, tag, count)                             \
    (TELPHER_RMA_CALL_(rma, wait)(rma, comm, from, tag, count, 0, TELPHER_RMA_HERE))
/** The same for at most @p timeout_ns; TELPHER_ERR_TIMEOUT is then an answer, and no failure
 *  of the launch. UINT64_MAX = as long as anybody could still send. */
#define telpher_rma_wait_for(rma, tag, count, timeout_ns)                              \
    telpher_rma_wait_for_(rma, tag, count, timeout_ns, TELPHER_RMA_HERE)
/** Waits until one of @p tags has a notification, takes one away and gives the tag, the
 *  first in the list if there are several. */
#define telpher_rma_wait_any(rma, tags, tag_count, ret_tag)                            \
    (TELPHER_RMA_CALL_(rma, wait_any)(rma, tags, tag_count, ret_tag, TELPHER_RMA_HERE))

/* ---- all ranks of a group: all block, and in the same order in all of them ---- */

/** No rank leaves before all have arrived; what they wrote before can be read after. */
#define telpher_rma_barrier(rma, comm)                                                 \
    (TELPHER_RMA_CALL_(rma, barrier)(rma, comm, TELPHER_RMA_HERE))
/** Copies @p len bytes of rank @p root's @p buffer into that of all others. */
#define telpher_rma_broadcast(rma, comm, root, buffer, len)                            \
    telpher_rma_broadcast_(rma, comm, root, buffer, len, TELPHER_RMA_HERE)
/** Folds @p count elements of all ranks into @p dst of rank @p root; dst may be src, and is
 *  not looked at elsewhere. Type, op and flags as in rma/types.h. */
#define telpher_rma_reduce(rma, comm, root, src, dst, count, type, op, flags)          \
    telpher_rma_reduce_(rma, comm, root, src, dst, count, type, op, flags,             \
                        TELPHER_RMA_HERE)
/** The same into @p dst of all ranks. */
#define telpher_rma_allreduce(rma, comm, src, dst, count, type, op, flags)             \
    telpher_rma_reduce_(rma, comm, TELPHER_RMA_NO_RANK, src, dst, count, type, op,     \
                        flags, TELPHER_RMA_HERE)
/** Parts a group: ranks of one @p color are a new one, in the order of their @p key and then
 *  of their rank; a negative colour is in none and gets TELPHER_RMA_COMM_NONE. Lasts until
 *  the end of the launch. @return also TELPHER_ERR_NO_MEMORY, TELPHER_ERR_LIMIT */
#define telpher_rma_split(rma, comm, color, key, ret_comm)                             \
    (TELPHER_RMA_CALL_(rma, split)(rma, comm, color, key, ret_comm, TELPHER_RMA_HERE))

/* ---- log, time, failure: each lane for itself, but for the timer ---- */

/** A line of text, alone or with a number, while the kernel runs. */
#define telpher_rma_log(rma, text) (TELPHER_RMA_CALL_(rma, log)(rma, text, 0, 0, 0))
#define telpher_rma_log_int(rma, text, value)                                          \
    (TELPHER_RMA_CALL_(rma, log)(rma, text, 1, value, 0))
#define telpher_rma_log_real(rma, text, value)                                         \
    (TELPHER_RMA_CALL_(rma, log)(rma, text, 2, 0, value))
/** [ns] on a clock that all ranks of the machine share. */
#define telpher_rma_now(rma) (TELPHER_RMA_CALL_(rma, now)(rma))
/** Time from the last rank's start to the last rank's stop of a device, for
 *  telpher_rma_timings(). Block; all ranks of the device. */
#define telpher_rma_timer_start(rma)                                                   \
    (TELPHER_RMA_CALL_(rma, timer)(rma, 0, TELPHER_RMA_HERE))
#define telpher_rma_timer_stop(rma)                                                    \
    (TELPHER_RMA_CALL_(rma, timer)(rma, 1, TELPHER_RMA_HERE))
/** Makes the launch fail with @p status (negative), and all waits return. */
#define telpher_rma_fail(rma, status)                                                  \
    (TELPHER_RMA_CALL_(rma, fail)(rma, status, TELPHER_RMA_HERE))

#include <telpher/rma/detail/device_calls.h>

#endif
