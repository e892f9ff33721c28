/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of the executor's build cache. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_INT_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_INT_H

#include "daemon/cache/cache.h"
#include "daemon/executor/program/build_cache.h"
#include "daemon/executor/program/program.h"

struct tp_exec_cache {
    struct tp_exec *x;
    struct tp_cache *store;
    uint8_t drivers[TP_SHA256_BYTES]; /**< digest of the drivers, part of each key */
    uint64_t bytes_max; /**< [bytes] of programs that only the cache holds */
    struct tp_mutex
        lock; /**< guards the members below; a leaf, not taken under done_lock */
    struct tp_list notes; /**< the newest first */
    size_t note_count;
};

/** A build to write when the session ends. */
struct tp_exec_note {
    struct tp_list link;
    struct tp_exec_program *program; /**< held */
    uint64_t generation; /**< of the program: a later build invalidates the note */
    uint8_t key[TP_SHA256_BYTES];
    cl_uint count;
    cl_device_id *devices;
    struct tp_buf facts;
    uint64_t bytes; /**< estimated size of the program */
};

/* ---- build_cache_key.c ---- */

/** Hashes the drivers' libraries and the environment variables that affect them. */
void tp_exec_cache_take_drivers(struct tp_exec_cache *cache);

/* ---- build_cache_note.c ---- */

/** Removes the oldest note; the caller frees it. @return NULL: there is none */
struct tp_exec_note *tp_exec_note_take(struct tp_exec_cache *cache);
void tp_exec_note_free(struct tp_exec_note *n);

#endif
