/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by tests of dying ranks: operations whose completions are counted, the time of a death,
 * and the table of states in which a rank is killed.
 */
#ifndef TESTS_COMM_DEATHS_H
#define TESTS_COMM_DEATHS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/channel.h>
#include <telpher/mem.h>
#include <telpher/msg.h>
#include <telpher/win.h>

#include "ranks.h"

/** Noticed in this time by promise; the machine may be slow. [ns] */
#define LOST_AFTER UINT64_C(1000000000)
/* The thread sanitizer slows the copies of what a dead rank left. */
#if defined(__SANITIZE_THREAD__)
#define SLACK UINT64_C(30000000000)
#else
#define SLACK UINT64_C(5000000000)
#endif

enum {
    VICTIM = 1,
    RANKS = 3,
    OPS = 1600,
    BIG = 24 << 20, /* [bytes]: takes longer than the victim lives */
    WINDOW = 1 << 20,
    TO_DEAD = 3, /* channels */
    NEVER_SENT = 4,
    BETWEEN = 5,
};

/** Memory shared by all ranks of a run. */
struct shared {
    _Atomic uint32_t ready; /* survivors that wait for the death */
    _Atomic uint64_t died_ns; /* 0: not yet */
};

/** A rank of a run. */
struct party {
    telpher_context *ctx;
    uint32_t rank;
    telpher_win *win; /* over `window`; NULL in a job without collectives */
    telpher_channel *dead,
        *never; /* the other end is the victim's, or each survivor's */
    uint8_t *window, *host, *device; /* BIG bytes, but the window */
    struct op {
        struct party *party;
        unsigned done;
        telpher_status status;
    } ops[OPS];
    unsigned begun; /* of ops */
    unsigned ended;
    telpher_status call; /* what a blocking call of the state returned */
};

/** One state in which the victim is killed. */
struct state {
    const char *name;
    /** The survivors' operations with the victim; must end because of its death. */
    void (*survive)(struct party *p);
    /** The victim's operations, until it is killed. */
    void (*live)(struct party *p);
    unsigned life_us; /* of the victim, from when all is ready */
    bool unused; /* nobody has used anything before */
    bool copies; /* device memory goes in pieces */
    bool blocks; /* survive() ends with a call that waits for the victim */
    bool may_end; /* that call may find all that it needs */
};

/** A rank that dies while the ranks still look for each other. */
void test_meeting(void **state);

extern const struct state states[];
extern const unsigned state_count;
extern struct shared *shared;

/** [ns] of CLOCK_MONOTONIC */
uint64_t now_ns(void);
/** A new operation, whose end is counted. */
telpher_xfer_params next_op(struct party *p);
/** Looks at what the call that began the last operation returned. */
void op_begun(struct party *p, telpher_status status);
/** Kills this process after some time. */
void die_in(unsigned us);
/** Kills this process. */
_Noreturn void die(void);

#endif
