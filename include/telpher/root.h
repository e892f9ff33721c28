/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap server, for launchers: the ranks of a job connect to it at start. They find it
 * by TELPHER_ROOT and authenticate with TELPHER_JOB. Once they are connected to each other, it
 * is not needed any more.
 */
#ifndef TELPHER_ROOT_H
#define TELPHER_ROOT_H

#include <stdint.h>

#include <telpher/error.h>
#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A bootstrap server with a thread of its own. */
typedef struct telpher_root telpher_root;

/** [bytes] of the text of a job's secret, with the 0 byte. */
#define TELPHER_JOB_TEXT_BYTES 33

/**
 * Starts to listen.
 *
 * @param address     "host:port", port 0 = any free one. "127.0.0.1:0" for one machine.
 * @param size        ranks of the job.
 * @param job         the job's secret, 32 hexadecimal digits; NULL = generate one.
 * @param timeout_ns  for all ranks to connect; then the connected ranks get an error that
 *                    lists the missing ones.
 * @param ret_root    receives the server; stop it with telpher_root_stop().
 * @param err         says what was wrong; may be NULL.
 *
 * @return TELPHER_OK, TELPHER_ERR_INVALID, TELPHER_ERR_BUSY (the port is in use),
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_IO, TELPHER_ERR_LIMIT
 * Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_root_start(const char *address, uint32_t size,
                                               const char *job, uint64_t timeout_ns,
                                               telpher_root **ret_root,
                                               telpher_error *err);

/** The port it listens on. Since: 0.1. */
TELPHER_CALL uint16_t telpher_root_port(const telpher_root *root);
/** The job's secret, for TELPHER_JOB. Valid until telpher_root_stop(). Since: 0.1. */
TELPHER_CALL const char *telpher_root_job(const telpher_root *root);
/** Reports that the process of a rank has exited. If it has not connected, it never will, and
 *  the connected ranks get an error at once. Threads: any. Since: 0.1. */
TELPHER_CALL void telpher_root_rank_ended(telpher_root *root, uint32_t rank);
/** Stops the server; ranks that still wait get TELPHER_ERR_PEER_LOST. NULL is allowed. Since:
 *  0.1. */
TELPHER_CALL void telpher_root_stop(telpher_root *root);

#ifdef __cplusplus
}
#endif

#endif
