/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a runtime offers under the names of patterns (ranks/patterns.def): one of them is
 * what a pattern repeats. Nothing here has a type of an MPI, so that modules for several MPIs
 * serve one program.
 */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum bench_type { BENCH_CHAR, BENCH_INT, BENCH_FLOAT, BENCH_TYPES };
/** How an epoch of a window is ended. */
enum bench_sync {
    BENCH_FLUSH,
    BENCH_FLUSH_LOCAL,
    BENCH_LOCK,
    BENCH_LOCK_ALL,
    BENCH_PSCW,
    BENCH_FENCE,
    BENCH_SYNCS
};
/** Allocator of a window's memory. */
enum bench_window { BENCH_ALLOCATE, BENCH_CREATE, BENCH_DYNAMIC, BENCH_WINDOWS };

/** Which elements of a message's memory are sent. */
enum bench_layout_kind { BENCH_CONTIGUOUS, BENCH_VECTOR, BENCH_INDEXED };
struct bench_layout {
    enum bench_layout_kind kind;
    int stride, block; /**< [elements] of a vector */
    int count; /**< of indexed blocks */
    const int *places, *lengths; /**< [elements] of each */
};

/** Memory, ranks and sizes of a call; the program sets it before open(). */
struct bench_work {
    void *job; /**< the runtime's own */
    int rank, size, peer, root;
    bool first; /**< of its pair */
    uint8_t *out; /**< content to send */
    uint8_t *in; /**< where it is received; open() may set it to memory of its own */
    size_t len; /**< [bytes] of one message or block */
    size_t
        stride; /**< [bytes] from one buffer of the window to the next; 0: one buffer */
    int window, partitions;
    bool validation;
    bool in_place; /**< in holds what is sent, where the rank receives */
    enum bench_type type;
    const struct bench_layout *layout; /**< NULL: all elements are sent */
    enum bench_sync sync;
    enum bench_window memory;
    const int *sources, *destinations; /**< neighbors, in the order of their blocks */
    int source_count, destination_count;
    int trips; /**< open() sets it: transfers one after the other in a start() */
};

/** Each function gives false if the runtime failed. */
struct bench_call {
    const char *name;
    bool (*open)(struct bench_work *w); /**< for one size; may be NULL */
    bool (*start)(struct bench_work *w);
    bool (*wait)(struct bench_work *w); /**< NULL: start() does it all */
    bool (*test)(struct bench_work *w); /**< progresses; may be NULL */
    void (*close)(struct bench_work *w); /**< may be NULL */
};

/** Finds a call in a table that ends with an entry without a name. @return NULL: not there */
static inline const struct bench_call *
bench_call_find(const struct bench_call *table, const char *name)
{
    while (table->name != NULL && strcmp(table->name, name) != 0) {
        table++;
    }
    return table->name != NULL ? table : NULL;
}

/** [bytes] of an element. */
static inline size_t
bench_type_size(enum bench_type type)
{
    return type == BENCH_CHAR ? 1 : 4;
}

/** Elements of a block that @p rank receives where @p count are divided among all. */
static inline int
bench_portion(int count, int size, int rank)
{
    return count / size + (rank < count % size);
}

#endif
