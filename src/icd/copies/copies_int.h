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
    TP_COPIES_ALONE, /**< no second server has the content: commands end at once */
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
    uint64_t mem, shadow, queue; /**< on the second server; shadow: mem itself if
                                    the content there has no meaning yet */
    struct tp_icd_span span;
    bool is_image; /**< which moves as a whole */
    uint64_t region[6];
    bool arrived;
};

/** A thread that waits for a new second server to get everything. */
struct tp_copies_join {
    struct tp_icd_session *twin;
    bool ended;
    bool ok;
};

struct tp_icd_copies {
    struct tp_icd_session *session; /**< the one that runs the commands */
    struct tp_icd_session *twin; /**< the second one; NULL: it took over, or is none */
    enum tp_copies_phase phase;
    struct tp_list
        log; /**< frames that the second server does not have, oldest first */
    size_t log_bytes;
    struct tp_map commands; /**< event → entry of a command sent and not committed */
    struct tp_map unset; /**< user events that the first server sees as not set */
    struct tp_map known; /**< in a take-over: other events that the server has */
    struct tp_list frames; /**< that create the objects: objects.c */
    struct tp_map objects; /**< id → object */
    bool has_binaries; /**< some program is, or was, from binaries */
    unsigned orphans; /**< released programs that others are made from */
    struct tp_list *replay; /**< next frame for a new second server; NULL: none */
    bool replays; /**< the frames are not all there */
    bool whole; /**< all content goes to a new second server */
    bool seeks; /**< a thread seeks a second server */
    struct tp_copies_join *join; /**< waits for it; NULL: none */
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

/** Makes an entry with room for @p writes, which is in no list. @return NULL: no memory */
struct tp_copies_entry *tp_copies_entry_create(uint16_t type, const void *msg,
                                               size_t writes);
/** Decodes an entry. @p msg has room for any message. */
void tp_copies_decode(const struct tp_copies_entry *e, void *msg);
/** Frees an entry. */
void tp_copies_forget(struct tp_icd_copies *c, struct tp_copies_entry *e);

/* ---- log_send.c ---- */

/** Sends an entry to the first session, or in a take-over to the second. */
void tp_copies_send(struct tp_icd_copies *c, struct tp_copies_entry *e);
/** Sends to the second server what it may have. */
void tp_copies_pump(struct tp_icd_copies *c);
/** Has a thread read what the servers say, though no caller waits, while they have something to
 *  say. */
void tp_copies_expect(struct tp_icd_copies *c);

/* ---- blocked.c ---- */

/** Marks the commands that cannot begin. @return commands that were sent and must end */
unsigned tp_copies_find_blocked(struct tp_icd_copies *c);

/* ---- build_files.c ---- */

/** Passes files on that a build looks for. @return false: the frame is none of those */
bool tp_copies_answer_build(struct tp_icd_copies *c, uint16_t type, const void *msg);

/* ---- commit.c ---- */

/** Lets the commands that were sent end, then copies what they wrote. */
void tp_copies_begin_group(struct tp_icd_copies *c);
/** Sends content on its way. @param what all but event and queue  @return false: no memory, or the
 *  servers do not reach each other */
bool tp_copies_haul_off(struct tp_icd_copies *c, uint64_t context,
                        const struct tp_copies_haul *what);
/** A command has ended. */
void tp_copies_command_done(struct tp_icd_copies *c, struct tp_copies_entry *e);
/** Handles DONE of an internal command on the second server. @return false: it is none */
bool tp_copies_haul_done(struct tp_icd_copies *c, const struct tp_wire_done *msg);
/** Gives the program the ends of all commands that have ended, and sends all frames that
 *  wait. */
void tp_copies_release(struct tp_icd_copies *c);
/** Sends content that was held. */
void tp_copies_unhold(struct tp_icd_copies *c);

/* ---- copies.c ---- */

/** Goes on without second server until there is another. */
void tp_copies_pause(struct tp_icd_copies *c, const char *why);
/** Says goodbye to a second server, whose executor then ends. */
void tp_copies_leave_twin(struct tp_icd_session *twin);
/** Frees everything; the session goes on as any other, or is lost. */
void tp_copies_end(struct tp_icd_copies *c);
/** Forgets what was on a second server that is none any more, and releases it if it is the first
 *  one now. */
void tp_copies_forget_twin(struct tp_icd_copies *c);

/* ---- objects.c ---- */

/** Keeps a frame that the second server has, or would have, if it creates or changes an object.
 *  @param status of the answer, if it has one  @return why it cannot be kept; NULL: it can */
const char *tp_copies_keep_object(struct tp_icd_copies *c, uint16_t type,
                                  const void *msg, int32_t status);
/** Finds the files that were given for the next build of a program. */
bool tp_copies_find_files(struct tp_icd_copies *c, uint64_t program,
                          struct tp_wire_program_files *ret_files);
void tp_copies_free_objects(struct tp_icd_copies *c);
/** Begins to send all frames to a new second server. */
void tp_copies_begin_replay(struct tp_icd_copies *c);
/** Sends those that it may have. @return true: it has them all */
bool tp_copies_go_on_replaying(struct tp_icd_copies *c);
/** Sends the content of all buffers and images on its way. @return false: it cannot be had */
bool tp_copies_haul_all(struct tp_icd_copies *c);

/* ---- join.c ---- */

/** Tries to get a second server for a session that has none. Not under the lock; waits for
 *  servers. @return true: it has one */
bool tp_copies_join(struct tp_icd_session *session);
/** Has a thread seek a second server, unless one does. */
void tp_copies_seek(struct tp_icd_copies *c);
/** Tells the thread that seeks whether the new second server has everything. */
void tp_copies_end_join(struct tp_icd_copies *c, bool ok);

#endif
