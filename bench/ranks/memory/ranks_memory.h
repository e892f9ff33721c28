/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of memory for the letter D, by option -d, and banks B (HBM) and P (PLRAM) of an FPGA. */
#ifndef BENCH_RANKS_MEMORY_H
#define BENCH_RANKS_MEMORY_H

#include "bench/ranks/ranks.h"

struct ranks_memory {
    const char *name; /* of -d */
    const char *title; /* for heads of tables */
    uint32_t kind; /* enum telpher_mem_kind */
    uint32_t (*find_kind)(
        void); /* in its place, where it depends on what is installed; or NULL */
    bool banks; /* has B and P */
    /** NULL: telpher_mem_alloc(). Ends the program on failure. */
    void *(*alloc)(struct ranks_pair *p, char letter, size_t bytes);
    void (*free)(struct ranks_pair *p, void *memory);
    /** A program's own copy between this memory and the host's. @return false: neither place is
     *  of it. NULL: telpher_mem_copy() */
    bool (*copy)(struct ranks_pair *p, void *dst, const void *src, size_t len);
};

static inline uint32_t
ranks_kind_of(const struct ranks_memory *m)
{
    return m->find_kind != NULL ? m->find_kind() : m->kind;
}

/** NULL: there is none of that name. */
const struct ranks_memory *ranks_find_memory(const char *name);
/** Memory of H, D, B or P. Ends the program on failure. */
void *ranks_alloc(struct ranks_pair *p, char letter, size_t bytes, const char *what);
void ranks_free(struct ranks_pair *p, char letter, void *memory);
/** Copies as a program that stages does. Ends the program on failure. */
void ranks_copy(struct ranks_pair *p, void *dst, const void *src, size_t len);
/** Sets TELPHER_MAPPING for a process that is alone in its context. */
void ranks_map_alone(const struct ranks_pair *p);
/** Ends the program with one line if the mapping names a device that is not there. */
void ranks_check_mapping(const struct ranks_pair *p);
/** FPGA_MAPPING is TELPHER_MAPPING under the name of the paper. */
void ranks_take_mapping(void);

/* ---- ranks_placeholder.c: buffers that belong to a kernel of a loaded binary ---- */

/** Whether this letter's buffers are allocated there. */
bool ranks_has_placeholder(const struct ranks_pair *p, char letter);
void *ranks_placeholder_alloc(struct ranks_pair *p, char letter, size_t bytes);
void ranks_placeholder_free(struct ranks_pair *p, void *memory);
/** Runs the empty kernel on a buffer, so that the driver believes that its content is new. */
void ranks_placeholder_run(struct ranks_pair *p, const void *memory);
/* ---- ranks_sycl.c ---- */

/** OpenCL's, or the host's where the module is of a runtime without it. */
uint32_t ranks_sycl_kind(void);
void *ranks_sycl_alloc(struct ranks_pair *p, char letter, size_t bytes);
void ranks_sycl_free(struct ranks_pair *p, void *memory);
bool ranks_sycl_copy(struct ranks_pair *p, void *dst, const void *src, size_t len);

/* ---- ranks_memory.c ---- */

/** OpenCL's context and device of this rank, which Telpher chose. */
void ranks_opencl_site(struct ranks_pair *p, void **ret_context, void **ret_device);
/** Ends the program with one line. */
_Noreturn void ranks_memory_fail(const struct ranks_pair *p, const char *what,
                                 const char *why);

#endif
