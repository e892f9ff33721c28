/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's side of the build cache: hashes the inputs of a build into a key, and
 * writes its result as an entry when the session ends. docs/decisions/0009 defines which
 * users share entries.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_H

#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"

struct tp_exec_cache;

/** Settings of the cache of a session. */
struct tp_exec_cache_params {
    const char *folder; /**< of the server; NULL or "" = no cache */
    const char *room; /**< subfolder, shared by the sessions of one client user */
    uint64_t size_max; /**< [bytes] of the subfolder */
};

/** Finds the subfolder. @return false: no cache */
bool tp_exec_cache_folder(const struct tp_exec_cache_params *params, char *ret_folder,
                          size_t size);
/** Opens the cache and identifies the drivers, which must be loaded. @return NULL: builds
 *  run without a cache */
struct tp_exec_cache *tp_exec_cache_create(struct tp_exec *x,
                                           const struct tp_exec_cache_params *params);
/**
 * Computes build->key if the build can be cached: its input is source or programs that
 * have keys, and it is for all devices of the context.
 */
void tp_exec_cache_take_key(struct tp_exec_build *build);
/**
 * Loads the result of a build from the cache: native program and facts.
 * @return false: not in the cache, must be built
 */
bool tp_exec_cache_load(struct tp_exec_build *build, const char *options,
                        struct tp_buf *facts);
/**
 * Records a successful build for the end of the session. Holds its program until then, as
 * long as that stays within the bounds of the cache. Any thread.
 */
void tp_exec_cache_note(struct tp_exec_build *build, const struct tp_buf *facts);
/** Enforces the bounds after the client has released a program or a context. */
void tp_exec_cache_on_release(struct tp_exec_object *o);
/** Releases the programs that only the cache holds. Reader only. @return false: none */
bool tp_exec_cache_give_way(struct tp_exec *x);
/** True if there are builds to write. */
bool tp_exec_cache_has_notes(struct tp_exec *x);
/**
 * Writes the recorded builds at the end of an idle session. Takes at most half a minute; if
 * a driver hangs, an alarm ends the process.
 */
void tp_exec_cache_write(struct tp_exec *x);

#endif
