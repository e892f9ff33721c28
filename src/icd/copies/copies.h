/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on a second server: docs/decisions/0042. A session whose work survives the death of its
 * server has a second one with another server, hidden from the program. Commands run on the
 * first. Their ends are kept from the program until what they wrote is on the second, too. If the
 * first is lost, the second gets the frames of all commands that were not committed, and takes
 * the place of the first.
 *
 * All functions: under the lock, but tp_icd_copies_open.
 */
#ifndef TELPHER_ICD_COPIES_COPIES_H
#define TELPHER_ICD_COPIES_COPIES_H

#include "icd/session/session.h"

struct tp_icd_use;

/** Opens the second session of a new session, if TELPHER_KEEP_COPIES is set. Not under the lock;
 *  waits for both servers. */
void tp_icd_copies_open(struct tp_icd_session *session);
/** True while what the session does is kept until it is committed, or followed until it has a
 *  second server. */
bool tp_icd_copies_are_kept(const struct tp_icd_session *session);
/** True if a second server can take over. */
bool tp_icd_copies_can_move(const struct tp_icd_session *session);
/** Says what the next command writes; count 0 and uses NULL: nothing is said any more. */
void tp_icd_copies_describe(struct tp_icd_session *session,
                            const struct tp_icd_use *uses, size_t count);
/** Takes a frame for a session with copies. @return false: the caller sends it now */
bool tp_icd_copies_put(struct tp_icd_session *session, uint16_t type, const void *msg);
/** Handles DONE. @return true: the event ends later */
bool tp_icd_copies_on_done(struct tp_icd_session *session,
                           const struct tp_wire_done *msg, const uint8_t *body,
                           const uint8_t *end);
/** Handles a reply to a frame of the copies. @return false: a waiting request gets it */
bool tp_icd_copies_on_reply(struct tp_icd_session *session, uint64_t id,
                            int32_t status);
/** Handles text of a kernel: the program sees it, so the kernel cannot run again. */
void tp_icd_copies_on_printf(struct tp_icd_session *session);
/** Handles FAILED of a session. */
void tp_icd_copies_on_failed(struct tp_icd_session *session);
/** Handles the arrival of all content of a sink. @return true: its done() is called later */
bool tp_icd_copies_keep_sink(struct tp_icd_session *session, struct tp_icd_sink *sink);
/** Handles the end of a source: all content is sent. @return true: its done() is called later */
bool tp_icd_copies_keep_source(struct tp_icd_session *session,
                               struct tp_icd_source *source);
/** True if a new source, or one whose content becomes ready now, must not be sent yet. */
bool tp_icd_copies_hold_source(const struct tp_icd_session *session);
/** True while the program must not add frames: too many wait for their commit. */
bool tp_icd_copies_are_full(const struct tp_icd_session *session);
/** Ends the copies of a session for good; it goes on without them. */
void tp_icd_copies_stop(struct tp_icd_session *session, const char *why);
/** Goes on without a second session until there is another. */
void tp_icd_copies_lose_twin(struct tp_icd_session *twin, const char *why);
/** Handles the loss of a session. @return true: another session has taken its place */
bool tp_icd_copies_lost(struct tp_icd_session *session);
/** A sink or a source that a thread still used has moved to the second session. */
void tp_icd_copies_moved(struct tp_icd_session *session);

/** @return the number of a platform whose devices are like those of a session; -1: none. Takes no
 *  lock. */
int tp_icd_copies_find_alike(const struct tp_icd_session *session,
                             const struct tp_icd_facts *facts);
/** True if the drivers of that platform have the same versions. Takes no lock. */
bool tp_icd_copies_have_same_drivers(const struct tp_icd_session *session,
                                     const struct tp_icd_facts *facts,
                                     uint32_t platform);
/** Sends CLOSE to the second server, because the program ends. Takes no lock. */
void tp_icd_copies_leave(const struct tp_icd_session *session);

#endif
