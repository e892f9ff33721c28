/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's side of the build cache: what a build is made of becomes a key, and what
 * it made an entry. docs/decisions/0009 says who shares what.
 */
#ifndef TELPHER_DAEMON_EXEC_CACHE_H
#define TELPHER_DAEMON_EXEC_CACHE_H

#include "daemon/exec_build.h"

enum { TP_EXEC_CACHE_DEVICES_MAX = 64 }; /**< of a build that is cached */

struct tp_exec_cache;

/** What a session is told of its cache. */
struct tp_exec_cache_params {
    const char *folder; /**< of the server; NULL or "" = no cache */
    const char *room; /**< folder in there, shared by the sessions of one client user */
    uint64_t size_max; /**< [bytes] of that */
};

/** Opens it and looks at the drivers, after they were loaded. @return NULL: builds go on
 *  without */
struct tp_exec_cache *tp_exec_cache_create(struct tp_exec *x,
                                           const struct tp_exec_cache_params *params);
/**
 * Takes the key of a build into build->key if it can be cached: it is of source or of
 * programs that have keys, and for all devices of the context.
 */
void tp_exec_cache_take_key(struct tp_exec_build *build);
/**
 * Puts what was built before in the place of a build: native program and facts.
 * @return true; false: it must be built
 */
bool tp_exec_cache_load(struct tp_exec_build *build, const char *options,
                        struct tp_buf *facts);
/**
 * Notes a build that succeeded. It is written a little later, or when the session ends:
 * some drivers compile once more when they are asked for binaries.
 */
void tp_exec_cache_note(struct tp_exec_build *build, const struct tp_buf *facts);
/** Writes what was noted, at the end of a session, within a few seconds. */
void tp_exec_cache_end(struct tp_exec *x);

#endif
