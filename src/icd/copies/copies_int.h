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
    struct _cl_mem *
        root; /**< held, so that the server does not release it before the range is copied */
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
    int32_t status; /**< of the answer */
    uint64_t event; /**< of a command; 0: the frame is none */
    uint64_t queue; /**< of a command */
    uint64_t request; /**< 0: the frame expects no answer */
    uint64_t transfer; /**< of a READ; 0: none */
    size_t len, answer_len; /**< [bytes] */
    uint8_t *body;
    uint8_t *answer; /**< body of DONE; NULL: not received yet */
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

/** A second buffer or image on the second server. Content arrives in it, and is copied to the
 *  object itself when the commands that wrote it are committed. */
struct tp_copies_shadow {
    uint64_t id; /**< 0: not created yet */
    struct tp_wire_image_create image; /**< of an image: how it was created */
};

/** The internal queues of a context, which copy content between the servers. */
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

/** A range that is being sent to the second server, or copied there from shadow to object. */
struct tp_copies_haul {
    uint64_t event;
    uint64_t mem, shadow, queue; /**< on the second server; shadow: mem itself if
                                    the content there has no meaning yet */
    struct tp_icd_span span;
    bool is_image; /**< which moves as a whole */
    uint64_t region[6];
    bool arrived;
};

/** A thread that waits until a new second server has all objects and content. */
struct tp_copies_join {
    struct tp_icd_session *twin;
    bool ended;
    bool ok;
};

struct tp_icd_copies {
    struct tp_icd_session *session; /**< the one that runs the commands */
    struct tp_icd_session
        *twin; /**< the second one; NULL: there is none, or it took over */
    enum tp_copies_phase phase;
    struct tp_list
        log; /**< frames that the second server does not have, oldest first */
    size_t log_bytes;
    struct tp_map commands; /**< event → entry of a command sent and not committed */
    struct tp_map unset; /**< user events that are not set on the first server */
    struct tp_map
        known; /**< during a take-over: events of committed commands that the server has */
    struct tp_list frames; /**< frames that create the objects: objects.c */
    struct tp_map objects; /**< id → object */
    bool has_binaries; /**< a program is, or was, created from binaries */
    unsigned orphans; /**< released programs that other programs were linked from */
    struct tp_list *replay; /**< next frame for a new second server; NULL: none */
    bool replays; /**< a new second server does not have all of `frames` yet */
    bool whole; /**< the next group copies all content, for a new second server */
    bool seeks; /**< a thread is looking for a second server */
    struct tp_copies_join *join; /**< waits for it; NULL: none */
    struct tp_map variables; /**< programs whose text may have variables of its own */
    bool
        same_drivers; /**< the second server's driver accepts binaries of the first's */
    bool
        reports_variables; /**< the driver reports for each program whether it has variables */
    struct tp_map failed; /**< events that ended with an error → status */
    struct tp_map shadows; /**< buffer → its shadow */
    struct tp_map contexts, queues;
    struct tp_map hauls; /**< event → haul */
    unsigned running; /**< DRAIN: commands that must end */
    unsigned arriving; /**< COPY: hauls that must arrive */
    unsigned copying; /**< hauls being copied from shadow to object */
    unsigned moving; /**< TAKEOVER: transfers that a thread still uses */
    uint64_t
        request; /**< request that the second server must answer before the next frame; 0: none */
    int32_t request_status; /**< of the first server's answer */
    bool printed; /**< the program saw text of a command that is not committed */
    bool expects_here, expects_there; /**< see tp_copies_expect */
    bool suspects; /**< content did not arrive: one of the servers may be dead */
    bool releases; /**< inside tp_copies_release: the copies cannot end now */
    const char *stop_why; /**< why the copies must end after it; NULL: they need not */
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
/** Sends the second server the frames that it may have by now. */
void tp_copies_pump(struct tp_icd_copies *c);
/** Keeps a thread reading from the servers while they have answers to send, though no caller waits
 *  for them. */
void tp_copies_expect(struct tp_icd_copies *c);

/* ---- blocked.c ---- */

/** Marks the commands that are blocked. @return how many of the commands sent must still end */
unsigned tp_copies_find_blocked(struct tp_icd_copies *c);

/* ---- build_files.c ---- */

/** Passes files on that a build looks for. @return false: the frame is none of those */
bool tp_copies_answer_build(struct tp_icd_copies *c, uint16_t type, const void *msg);

/* ---- commit.c ---- */

/** Ends the current group: once the commands sent so far have ended, copies what they wrote. */
void tp_copies_begin_group(struct tp_icd_copies *c);
/** Starts to send a range to the second server. @param what all but event and queue are set
 *  @return false: out of memory, or the servers cannot reach each other */
bool tp_copies_haul_off(struct tp_icd_copies *c, uint64_t context,
                        const struct tp_copies_haul *what);
/** Handles the end of a command on the first server. */
void tp_copies_command_done(struct tp_icd_copies *c, struct tp_copies_entry *e);
/** Handles DONE of an internal command on the second server. @return false: it is of another one */
bool tp_copies_haul_done(struct tp_icd_copies *c, const struct tp_wire_done *msg);
/** Completes the events of all commands that have ended, and sends all frames that wait. */
void tp_copies_release(struct tp_icd_copies *c);
/** Sends the content whose sending waited for the end of a group. */
void tp_copies_unhold(struct tp_icd_copies *c);

/* ---- copies.c ---- */

/** Continues without a second server until another one is found. */
void tp_copies_pause(struct tp_icd_copies *c, const char *why);
/** Closes the session with a second server in order, so that its executor ends. */
void tp_copies_leave_twin(struct tp_icd_session *twin);
/** Frees all state of the copies. The session continues without copies, or is lost. */
void tp_copies_end(struct tp_icd_copies *c);
/** Forgets the internal objects on a server that is no longer the second one, and releases them if
 *  it has become the first. */
void tp_copies_forget_twin(struct tp_icd_copies *c);

/* ---- objects.c ---- */

/** Keeps a frame for later second servers if it creates or changes an object.
 *  @param status of the answer, if it has one  @return why it cannot be kept; NULL: it can */
const char *tp_copies_keep_object(struct tp_icd_copies *c, uint16_t type,
                                  const void *msg, int32_t status);
/** Finds the files that were given for the next build of a program. */
bool tp_copies_find_files(struct tp_icd_copies *c, uint64_t program,
                          struct tp_wire_program_files *ret_files);
void tp_copies_free_objects(struct tp_icd_copies *c);
/** Starts to send all kept frames to a new second server. */
void tp_copies_begin_replay(struct tp_icd_copies *c);
/** Sends those that it may have by now. @return true: it has all of them */
bool tp_copies_go_on_replaying(struct tp_icd_copies *c);
/** Starts to send the content of all buffers and images. @return false: it cannot be read */
bool tp_copies_haul_all(struct tp_icd_copies *c);

/* ---- join.c ---- */

/** Tries to get a second server for a session that has none. Not under the lock; waits for
 *  servers. @return true: it has one */
bool tp_copies_join(struct tp_icd_session *session);
/** Starts a thread that looks for a second server, unless one is running. */
void tp_copies_seek(struct tp_icd_copies *c);
/** Tells that thread whether the new second server has all objects and content. */
void tp_copies_end_join(struct tp_icd_copies *c, bool ok);

#endif
