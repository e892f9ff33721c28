/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of this process, in order: registered in the program, of plugins, and
 * found by telpher-worker-cc in the program. Functions of libraries are no kernels.
 *
 * Threads: kernels register before main or in tp_offload_load(); the worker's thread
 * reads.
 */
#ifndef TELPHER_OFFLOAD_WORKER_REGISTRY_H
#define TELPHER_OFFLOAD_WORKER_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <telpher/kernel.h>

#include "base/container/buf.h"
#include "base/error.h"
#include "offload/signature.h"

struct tp_offload_call; /* prepared for libffi */

/** A kernel ready to be called. */
struct tp_offload_kernel {
    const telpher_kernel *kernel;
    struct tp_offload_signature sig;
    struct tp_offload_call *call; /**< NULL when kernel->invoke is set */
};

/** All kernels, one of each name, in the order in which they are sent to parents. */
struct tp_offload_table {
    struct tp_offload_kernel *kernels;
    uint32_t count;
};

/** Number of kernels registered so far, without derived ones. */
uint32_t tp_offload_registered(void);
/** Collects the kernels registered so far. @return OK, NO_MEMORY */
telpher_status tp_offload_table_create(struct tp_offload_table *ret_table);
void tp_offload_table_destroy(struct tp_offload_table *table);

/** Index of the kernel @p name, or -1. */
int64_t tp_offload_table_find(const struct tp_offload_table *table, const char *name);

/** Calls a kernel. @return its result; 0 for a void kernel */
int tp_offload_kernel_invoke(const struct tp_offload_kernel *kernel, void *const *args);

/**
 * Loads a plugin: a shared library whose kernels register themselves. It stays loaded.
 * @return OK; NOT_FOUND (@p err has the loader's text, or the library has no kernel)
 */
telpher_status tp_offload_load(const char *path, struct tp_error *err);

/** The text passed to telpher_kernel_error() since the last call of this function;
 *  "" if none. */
const char *tp_offload_error_take(void);

/* call.c: libffi */
telpher_status tp_offload_call_create(const struct tp_offload_signature *sig,
                                      struct tp_offload_call **ret_call,
                                      struct tp_error *err);
void tp_offload_call_destroy(struct tp_offload_call *call);
int tp_offload_call_run(const struct tp_offload_call *call, void (*function)(void),
                        void *const *args);

#endif
