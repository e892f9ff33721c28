/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two-sided messages of another library, for systems whose network only that library reaches.
 * Transport `mpi` uses this table. interop/mpi.h fills it from a communicator, so that
 * libtelpher needs no MPI.
 */
#ifndef TELPHER_TWO_SIDED_H
#define TELPHER_TWO_SIDED_H

#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An operation in progress; 16 bytes for the other library's own use. */
typedef struct telpher_two_sided_op {
    uint64_t words[2];
} telpher_two_sided_op;

/**
 * Functions of that library, called only by the context's thread; they never block. Messages
 * between two ranks with the same tag are matched in the order of sends and of receives, as in
 * MPI. Every operation that was started ends by a test that does not return TELPHER_IN_PROGRESS,
 * or by forget.
 */
typedef struct telpher_two_sided {
    uint32_t struct_size;
    uint32_t tag_max; /**< tags are 0 .. tag_max, 255 at least */
    void *user;
    /** @param matched  not 0: completes only after the receiver has posted a matching receive */
    telpher_status (*send)(void *user, const void *src, size_t len, uint32_t to,
                           uint32_t tag, int matched, telpher_two_sided_op *op);
    /** @param from  TELPHER_ANY_RANK = any; @p len may exceed the length of the message */
    telpher_status (*recv)(void *user, void *dst, size_t len, uint32_t from,
                           uint32_t tag, telpher_two_sided_op *op);
    /** @return IN_PROGRESS, OK (of a receive: with sender and length), CANCELED, TRUNCATED, IO */
    telpher_status (*test)(void *user, telpher_two_sided_op *op, uint32_t *ret_from,
                           size_t *ret_len);
    /** Cancels a receive; test then returns CANCELED, or OK if it was too late. */
    void (*cancel)(void *user, telpher_two_sided_op *op);
    /** Releases a send that may never be received. */
    void (*forget)(void *user, telpher_two_sided_op *op);
    /**
     * Adds, and releases, a reference to this table; the last release frees it. @param clean  0:
     * operations may be unfinished, or messages may still arrive unreceived. Then the underlying
     * communicator must not be freed, or another one could receive them.
     */
    void (*retain)(void *user);
    void (*release)(void *user, int clean);
} telpher_two_sided;

#ifdef __cplusplus
}
#endif

#endif
