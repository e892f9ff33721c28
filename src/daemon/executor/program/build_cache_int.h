/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the executor's build cache share. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_INT_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_BUILD_CACHE_INT_H

#include "daemon/cache/cache.h"
#include "daemon/executor/program/build_cache.h"
#include "daemon/executor/program/program.h"

struct tp_exec_cache {
    struct tp_exec *x;
    struct tp_cache *store;
    uint8_t drivers[TP_SHA256_BYTES]; /**< what the keys say of them */
    uint64_t bytes_max; /**< [bytes] of programs that only the cache holds */
    struct tp_mutex
        lock; /**< the members below; a leaf, done_lock is not held either */
    struct tp_list notes; /**< the newest first */
    size_t note_count;
};

/** A build that is to be written when the session ends. */
struct tp_exec_note {
    struct tp_list link;
    struct tp_exec_program *program; /**< held */
    uint64_t generation; /**< of the program: another build makes the note void */
    uint8_t key[TP_SHA256_BYTES];
    cl_uint count;
    cl_device_id *devices;
    struct tp_buf facts;
    uint64_t bytes; /**< about what the program takes */
};

/* ---- build_cache_key.c ---- */

/** Looks at the drivers' libraries and at the variables that they listen to. */
void tp_exec_cache_take_drivers(struct tp_exec_cache *cache);

/* ---- build_cache_note.c ---- */

/** Takes the oldest note, which is then the caller's. @return NULL: there is none */
struct tp_exec_note *tp_exec_note_take(struct tp_exec_cache *cache);
void tp_exec_note_free(struct tp_exec_note *n);

#endif
