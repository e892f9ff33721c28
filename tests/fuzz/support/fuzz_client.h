/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of fuzz_client: the server and the threads, the program that calls OpenCL. */
#ifndef TELPHER_TESTS_FUZZ_CLIENT_H
#define TELPHER_TESTS_FUZZ_CLIENT_H

#include <stddef.h>
#include <stdint.h>

struct tp_icd_session;

/* ---- client_program.c ---- */

/** Makes the calls of a program, one a byte. */
void fuzz_client_run(const uint8_t *program, size_t len);
/** Ends user events, for whom a wait would never end. */
void fuzz_client_set_user_events(void);
/** The session is lost: sees that all has ended, and releases everything. */
void fuzz_client_end(void);
/** Facts of the server's one device; never freed. */
const uint8_t *fuzz_client_facts(uint32_t *ret_len);
/** Frees what a lost place shares. */
void fuzz_client_free_share(struct tp_icd_session *session);

/* ---- fuzz_client.c ---- */

/** Runs callbacks that are due. */
void fuzz_client_run_callbacks(void);
/** Runs threads that were started, to their end. */
void fuzz_client_run_threads(void);
/** Breaks all sessions; none is opened from then on. */
void fuzz_client_lose(void);

#endif
