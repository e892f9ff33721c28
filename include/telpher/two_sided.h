/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another library's two-sided messages, for systems where only that library reaches the
 * network: what transport `mpi` is built on. interop/mpi.h fills the table from a
 * communicator, so that libtelpher needs no MPI.
 */
#ifndef TELPHER_TWO_SIDED_H
#define TELPHER_TWO_SIDED_H

#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Something under way there; 16 bytes for the other library's own use. */
typedef struct telpher_two_sided_op {
    uint64_t words[2];
} telpher_two_sided_op;

/**
 * Calls on that library, by the context's thread alone, never blocking. Messages between two
 * ranks with the same tag are matched in the order of sends and of receives, as MPI has it.
 * Every op that was begun ends by a test that does not say TELPHER_IN_PROGRESS, or by forget.
 */
typedef struct telpher_two_sided {
    uint32_t struct_size;
    uint32_t tag_max; /**< tags are 0 .. tag_max, 255 at least */
    void *user;
    /** @param matched  not 0: not complete before the receiver has a receive for it */
    telpher_status (*send)(void *user, const void *src, size_t len, uint32_t to,
                           uint32_t tag, int matched, telpher_two_sided_op *op);
    /** @param from  TELPHER_ANY_RANK = whoever; @p len may be more than comes */
    telpher_status (*recv)(void *user, void *dst, size_t len, uint32_t from,
                           uint32_t tag, telpher_two_sided_op *op);
    /** @return IN_PROGRESS, OK (of a receive: who sent how much), CANCELED, TRUNCATED, IO */
    telpher_status (*test)(void *user, telpher_two_sided_op *op, uint32_t *ret_from,
                           size_t *ret_len);
    /** Takes a receive back; test then says CANCELED, or OK if it was too late. */
    void (*cancel)(void *user, telpher_two_sided_op *op);
    /** Lets go of a send that nobody may ever receive. */
    void (*forget)(void *user, telpher_two_sided_op *op);
    /** One more, and one less, who uses this table; the last ends it. @param clean  0: what
     *  was begun by it may not have ended, or messages come that nobody receives: then what
     *  it stands on must not end, so that they never come to somebody else. */
    void (*retain)(void *user);
    void (*release)(void *user, int clean);
} telpher_two_sided;

#ifdef __cplusplus
}
#endif

#endif
