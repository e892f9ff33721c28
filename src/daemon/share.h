/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares device time between sessions by weights, and limits what a user has in all
 * sessions. The broker and its executors share one page of counters.
 *
 * A device with several active sessions serves them in turns. Each session has a *virtual
 * time*: its device time divided by its weight. The holder of the turn passes kernels to the
 * driver until its virtual time exceeds that of another by a slice; its kernels end, and the
 * next takes the turn. A session waits only for those that run kernels or wait themselves. A
 * kernel that exceeds TP_SHARE_TURN_MAX no longer excludes others: then each is charged its
 * part of the time (decision 39).
 *
 * An executor writes only its own slot, except for `floor` and the counters of its user.
 */
#ifndef TELPHER_DAEMON_SHARE_H
#define TELPHER_DAEMON_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/container/budget.h"
#include "base/os/clock.h"
#include "base/os/thread.h"

enum {
    TP_SHARE_FD = 4, /**< of the page, in the executor */
    TP_SHARE_WEIGHT_MAX = 1000,
    TP_SHARE_DEVICES = 64, /**< devices with a turn each; further ones share these */
};

#define TP_SHARE_SLICE (5 * TP_CLOCK_MS) /**< of virtual time at weight 1 */
#define TP_SHARE_GRACE                                                                 \
    (5 * TP_CLOCK_MS) /**< a session stays active after its last kernel */
#define TP_SHARE_WAIT_GRACE                                                            \
    (200 *                                                                             \
     TP_CLOCK_MS) /**< and after it last asked for its turn: processors are scarce */
#define TP_SHARE_PROMPT                                                                \
    (1 * TP_CLOCK_MS) /**< mean pause below which others wait for the next kernel */
#define TP_SHARE_TURN_MAX (50 * TP_CLOCK_MS)
#define TP_SHARE_DEBT (1 * TP_CLOCK_S) /**< of virtual time, at most */

/** Amounts limited over all sessions of a user: X(member, "option"). */
#define TP_SHARE_AMOUNTS(X)                                                            \
    X(memory, "max-user-memory")                                                       \
    X(host, "max-user-host-memory")                                                    \
    X(objects, "max-user-objects")                                                     \
    X(builds, "max-user-builds")

#define TP_SHARE_AMOUNT_ENUM(member, option) TP_SHARE_##member,
enum tp_share_amount { TP_SHARE_AMOUNTS(TP_SHARE_AMOUNT_ENUM) TP_SHARE_AMOUNT_COUNT };
#undef TP_SHARE_AMOUNT_ENUM

/** A session. The first three members are set by the broker. */
struct tp_share_slot {
    _Atomic uint32_t weight; /**< 0 = the slot is free */
    uint32_t user; /**< index of the user's counters */
    _Atomic uint64_t devices; /**< bits of devices with kernels */
    _Atomic uint64_t virtual_ns;
    _Atomic tp_ns busy_since; /**< last charged; 0 = no kernel is under way */
    _Atomic tp_ns active_until; /**< while no kernel is under way */
    _Atomic tp_ns keep_until; /**< it keeps its turn, while no kernel is under way */
    _Atomic tp_ns turn_since; /**< it took its turn, or its last kernel ended */
    _Atomic uint64_t device_ns; /**< device time used */
    _Atomic uint64_t launches;
    _Atomic uint64_t waits; /**< times that a kernel waited for another session */
    _Atomic uint32_t depth; /**< kernels under way that have an event */
    _Atomic uint32_t is_waiting; /**< for its turn, until active_until */
    _Atomic uint64_t written, read; /**< [bytes] content of commands */
    _Atomic uint64_t used[TP_SHARE_AMOUNT_COUNT];
};

/** A process's view of the page. Executors run code of clients: trust no value. */
struct tp_share {
    struct tp_share_slot *slots; /**< NULL: no page */
    _Atomic uint64_t *floor; /**< least virtual time of those that want it; grows */
    _Atomic uint64_t *turns; /**< a device: the holder's slot + 1; 0 = free */
    _Atomic uint64_t *slots_used; /**< slots at and above it are free */
    _Atomic tp_ns *watched_until; /**< device time is counted in lone sessions, too */
    _Atomic uint64_t (*users)[TP_SHARE_AMOUNT_COUNT]; /**< one a slot */
    uint32_t slot_count;
    bool *
        taken; /**< one a slot; only the broker has it, as executors can write the page */
};

/** [bytes] of a page. */
uint64_t tp_share_size(uint32_t slot_count);
/** Lays a view over zeroed or shared memory of tp_share_size(). */
void tp_share_init(struct tp_share *s, void *memory, uint32_t slot_count);
/** Maps the page of a memory file. @return OK, NO_MEMORY */
telpher_status tp_share_map(struct tp_share *s, int fd, uint32_t slot_count);

/** Takes a slot for a session. @return its index; slot_count: none is free */
uint32_t tp_share_take(struct tp_share *s, uint32_t user, uint32_t weight);
/** Frees a slot and returns what the session has of its user's amounts. */
void tp_share_free(struct tp_share *s, uint32_t slot);

/** A session's own state in its executor. */
struct tp_share_member {
    struct tp_share share;
    struct tp_share_slot *slot; /**< NULL: nothing is shared */
    struct tp_mutex lock; /**< leaf: charges */
    tp_ns idle_since; /**< end of the last kernel; 0 = there is a next one */
    tp_ns mean_pause; /**< recent mean between kernels, each at most TP_SHARE_GRACE */
    tp_ns
        pause_left; /**< that its turn survives: a slice, and device time of the turn */
    uint32_t busy_count; /**< sessions busy at the last charge, with this one */
    uint64_t ended_ns, ended; /**< recent device time, and kernels that ended in it */
    struct tp_budget_outer outer[TP_SHARE_AMOUNT_COUNT];
};

/** Joins as the session of @p slot; share must be set, or all zero for no page. */
void tp_share_join(struct tp_share_member *m, uint32_t slot,
                   const uint64_t max[TP_SHARE_AMOUNT_COUNT]);
/** A kernel in the driver can run. */
void tp_share_begin(struct tp_share_member *m, tp_ns now);
/** A kernel has ended. */
void tp_share_end(struct tp_share_member *m, tp_ns now);
/** True if another session is active on @p device, below TP_SHARE_DEVICES. */
bool tp_share_is_contended(struct tp_share_member *m, uint32_t device, tp_ns now);
/** True if a kernel has to wait now. Takes, keeps or gives the turn.
 *  @param stalled  kernels under way wait for frames that come after this kernel */
bool tp_share_must_wait(struct tp_share_member *m, uint32_t device, bool stalled,
                        tp_ns now);

#endif
