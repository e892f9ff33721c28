/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of copies on a second server, for this folder only. */
#ifndef TELPHER_ICD_COPIES_COPIES_INT_H
#define TELPHER_ICD_COPIES_COPIES_INT_H

#include "icd/commands/enqueue.h"
#include "icd/copies/copies.h"
#include "icd/migration/range_events.h"
#include "icd/session/session_int.h"

/** The range that a command writes, of a buffer without parent. */
struct tp_copies_write {
    struct _cl_mem
        *root; /**< held: the server must not release it before it is copied */
    struct tp_icd_span span;
};

/** A frame that the second server does not have yet. */
struct tp_copies_entry {
    struct tp_list link; /**< in the log */
    uint16_t type;
    bool sent; /**< to the first server */
    bool done; /**< a command: it has ended there, and its content has arrived */
    bool blocked; /**< a command that cannot begin before the program does something */
    bool replied; /**< a request: the first server has answered */
    int32_t status; /**< of that answer */
    uint64_t event; /**< of a command; 0: the frame is none */
    uint64_t queue; /**< of a command */
    uint64_t request; /**< 0: the frame expects no answer */
    uint64_t transfer; /**< of a READ; 0: none */
    size_t len, answer_len; /**< [bytes] */
    uint8_t *body;
    uint8_t *answer; /**< body of DONE; NULL: not come */
    size_t write_count;
    struct tp_copies_write writes[];
};

enum tp_copies_phase {
    TP_COPIES_RUN, /**< frames go to the first server at once */
    TP_COPIES_DRAIN, /**< new frames wait until the commands sent so far have ended */
    TP_COPIES_COPY, /**< new frames wait until what those wrote has arrived */
    TP_COPIES_TAKEOVER, /**< the first server is lost; the second gets the frames in order */
};

/** A buffer or image that content arrives in on the second server, beside the object itself. */
struct tp_copies_shadow {
    uint64_t id; /**< 0: not created yet */
    struct tp_wire_image_create image; /**< of an image: how it was created */
};

/** Internal queues for the buffers of a context. */
struct tp_copies_context {
    uint32_t device; /**< on the wire */
    uint64_t here, there; /**< ids of queues; 0: not created yet */
};

/** A queue of the program. */
struct tp_copies_queue {
    uint64_t context;
    bool in_order;
    bool any_blocked, all_blocked; /**< while blocked commands are looked for */
};

/** A range on its way to the second server, or being put into place there. */
struct tp_copies_haul {
    uint64_t event;
    uint64_t mem, shadow, queue; /**< on the second server */
    struct tp_icd_span span;
    bool is_image; /**< which moves as a whole */
    uint64_t region[6];
    bool arrived;
};

struct tp_icd_copies {
    struct tp_icd_session *session; /**< the one that runs the commands */
    struct tp_icd_session *twin; /**< the second one; NULL: it took over */
    enum tp_copies_phase phase;
    struct tp_list
        log; /**< frames that the second server does not have, oldest first */
    size_t log_bytes;
    struct tp_map commands; /**< event → entry of a command sent and not committed */
    struct tp_map unset; /**< user events that the first server sees as not set */
    struct tp_map known; /**< in a take-over: events that the second server has */
    struct tp_map variables; /**< programs whose text may have variables of its own */
    bool same_drivers; /**< the second server's driver takes binaries of the first's */
    bool reports_variables; /**< the driver says of each program whether it has */
    struct tp_map failed; /**< events that ended with an error → status */
    struct tp_map shadows; /**< buffer → its shadow */
    struct tp_map contexts, queues;
    struct tp_map hauls; /**< event → haul */
    unsigned running; /**< DRAIN: commands that must end */
    unsigned arriving; /**< COPY: hauls that must arrive */
    unsigned copying; /**< hauls being put into place */
    unsigned moving; /**< TAKEOVER: transfers that a thread still uses */
    uint64_t
        request; /**< that the second server must answer before the next frame; or 0 */
    int32_t request_status; /**< of the first server's answer */
    bool request_answered; /**< the first server has answered it */
    bool printed; /**< the program saw text of a command that is not committed */
    bool expects_here, expects_there; /**< see tp_copies_expect */
    bool suspects; /**< content did not arrive: one of the servers may be dead */
    bool releases; /**< inside tp_copies_release: the copies cannot end now */
    const char *stop_why; /**< but must when it is over; NULL: no */
    bool described; /**< the two below are valid */
    const struct tp_icd_use *uses;
    size_t use_count;
};

/* ---- log.c ---- */

/** Sends an entry to the first session, or in a take-over to the second. */
void tp_copies_send(struct tp_icd_copies *c, struct tp_copies_entry *e);
/** Frees an entry. */
void tp_copies_forget(struct tp_icd_copies *c, struct tp_copies_entry *e);
/** Sends to the second server what it may have. */
void tp_copies_pump(struct tp_icd_copies *c);
/** Has a thread read what the servers say, though no caller waits, while they have something to
 *  say. */
void tp_copies_expect(struct tp_icd_copies *c);
/** Marks the commands that cannot begin. @return commands that were sent and must end */
unsigned tp_copies_find_blocked(struct tp_icd_copies *c);

/* ---- commit.c ---- */

/** A command has ended. */
void tp_copies_command_done(struct tp_icd_copies *c, struct tp_copies_entry *e);
/** Handles DONE of an internal command on the second server. @return false: it is none */
bool tp_copies_haul_done(struct tp_icd_copies *c, const struct tp_wire_done *msg);
/** Gives the program the ends of all commands that have ended, and sends all frames that
 *  wait. */
void tp_copies_release(struct tp_icd_copies *c);
/** Sends content that was held. */
void tp_copies_unhold(struct tp_icd_copies *c);
/** Frees everything, which no session refers to any more. */
void tp_copies_free(struct tp_icd_copies *c);

#endif
