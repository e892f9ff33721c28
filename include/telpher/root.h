/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place where the ranks of a job meet at start: for launchers. Ranks find it by
 * TELPHER_ROOT and show TELPHER_JOB; once they know each other it is not needed any more.
 */
#ifndef TELPHER_ROOT_H
#define TELPHER_ROOT_H

#include <stdint.h>

#include <telpher/error.h>
#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A root with a thread of its own. */
typedef struct telpher_root telpher_root;

/** [bytes] of the text of a job's secret, with the 0 byte. */
#define TELPHER_JOB_TEXT_BYTES 33

/**
 * Begins to listen.
 *
 * @param address     "host:port", port 0 = any free one. "127.0.0.1:0" for one machine.
 * @param size        ranks of the job.
 * @param job         the job's secret, 32 hexadecimal digits, or NULL: one is made.
 * @param timeout_ns  for all ranks to come, then those that came are told who is missing.
 * @param ret_root    gives the root; end it with telpher_root_stop().
 * @param err         says what was wrong; may be NULL.
 *
 * @return TELPHER_OK, TELPHER_ERR_INVALID, TELPHER_ERR_BUSY (the port is taken),
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_IO, TELPHER_ERR_LIMIT
 * Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_root_start(const char *address, uint32_t size,
                                               const char *job, uint64_t timeout_ns,
                                               telpher_root **ret_root,
                                               telpher_error *err);

/** The port it listens on. Since: 0.1. */
TELPHER_CALL uint16_t telpher_root_port(const telpher_root *root);
/** The job's secret, for TELPHER_JOB. Lives as long as the root. Since: 0.1. */
TELPHER_CALL const char *telpher_root_job(const telpher_root *root);
/** Says that the process of a rank has ended: if it has not come, it never will, and those
 *  that came are told at once. Any thread. Since: 0.1. */
TELPHER_CALL void telpher_root_rank_ended(telpher_root *root, uint32_t rank);
/** Ends it; ranks that are not ready get TELPHER_ERR_PEER_LOST. NULL is fine. Since: 0.1. */
TELPHER_CALL void telpher_root_stop(telpher_root *root);

#ifdef __cplusplus
}
#endif

#endif
