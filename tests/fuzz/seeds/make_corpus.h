/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that write seed inputs. */
#ifndef TELPHER_TESTS_FUZZ_MAKE_CORPUS_H
#define TELPHER_TESTS_FUZZ_MAKE_CORPUS_H

#include <stddef.h>

/** Writes corpus/fuzz_<target>/<name>; ends the program if it cannot. */
void save(const char *target, const char *name, const void *data, size_t len);

/** make_ranks.c: what a rank may do to another. */
void make_rank_seeds(void);

/** make_sessions.c: sessions with the broker, the executor and the client. */
void make_broker_seeds(void);
void make_executor_seeds(void);
void make_client_seeds(void);

#endif
