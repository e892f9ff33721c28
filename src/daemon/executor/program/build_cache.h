/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's side of the build cache: what a build is made of becomes a key, and what
 * it made an entry, written when the session ends. docs/decisions/0009 says who shares what.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_H

#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"

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
 * Notes a build that succeeded, for the end of the session; the program is held until then,
 * unless that is more than the cache may hold. Any thread.
 */
void tp_exec_cache_note(struct tp_exec_build *build, const struct tp_buf *facts);
/** The client has let go of a program or a context: perhaps too much is held now. */
void tp_exec_cache_let_go(struct tp_exec_object *o);
/** Lets go of what only the cache holds. Reader only. @return false: there is nothing */
bool tp_exec_cache_give_way(struct tp_exec *x);
/** True if there is something to write. */
bool tp_exec_cache_has_notes(struct tp_exec *x);
/**
 * Writes what was noted, at the end of a session of which nothing is under way any more;
 * for at most half a minute, then, if a driver hangs, an alarm ends the process.
 */
void tp_exec_cache_write(struct tp_exec *x);

#endif
