/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between parents and workers, docs/offload.md "On the wire". Both sides
 * belong to one job and are built for one MPI. The version check rejects a peer with
 * another byte order, sizes or version. Data of a peer is checked before use.
 *
 * A launch is a sequence of records, one per kernel, in one message. If that is too
 * long it is sent in several messages, each with whole records or with part of one.
 */
#ifndef TELPHER_OFFLOAD_MESSAGE_H
#define TELPHER_OFFLOAD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/container/buf.h"
#include "offload/worker/registry.h"

enum {
    TP_OFFLOAD_VERSION =
        2, /**< goes up with every change of what follows; 1 had no arrays, longer
                             *   headers, no shared memory */
    TP_OFFLOAD_MESSAGE_MAX = 64 * 1024, /**< [bytes] header and what follows it */
    TP_OFFLOAD_TEXT_BYTES = 256
};
#define TP_OFFLOAD_MAGIC 0x4c4f5054u /**< "TPOL" */
#define TP_OFFLOAD_NO_KERNEL UINT32_MAX

/** First thing a worker hears and says. */
struct tp_offload_greeting {
    uint32_t magic;
    uint16_t version;
    uint8_t pointer_bytes, long_double_bytes;
    uint64_t order; /**< 0x0102030405060708 */
    uint32_t root; /**< the parent that greets; of a worker's greeting 0 */
    int32_t status; /**< a worker's: telpher_status */
    uint64_t limit; /**< a worker's: [bytes] of the longest launch it takes */
    uint64_t pid;
    char text[TP_OFFLOAD_TEXT_BYTES]; /**< why status is not 0 */
};
_Static_assert(sizeof(struct tp_offload_greeting) == 296, "frozen layout");

/** In front of each message of a launch: 16 bytes, since MPIs send short messages best. */
struct tp_offload_head {
    uint8_t magic; /**< TP_OFFLOAD_HEAD */
    uint8_t flags; /**< TP_OFFLOAD_REPORT, _MORE, _PIECE */
    uint16_t calls; /**< that the message is about, but one */
    uint32_t root; /**< the parent that sends */
    uint64_t first; /**< number of the first of these calls */
};
_Static_assert(sizeof(struct tp_offload_head) == 16, "frozen layout");

/** Behind it when TP_OFFLOAD_PIECE is set. */
struct tp_offload_piece {
    uint64_t total; /**< [bytes] of all records, in all messages that carry them */
    uint64_t offset; /**< [bytes] of what follows, from the first record */
};
_Static_assert(sizeof(struct tp_offload_piece) == TP_OFFLOAD_ALIGN, "frozen layout");

/** Both of them, read or to be written. */
struct tp_offload_header {
    uint32_t flags; /**< without _PIECE: len != total says it */
    uint32_t root;
    uint64_t first,
        last; /**< numbers of the calls in it, TP_OFFLOAD_CALLS_MAX at most */
    uint64_t total, offset;
    uint32_t len; /**< [bytes] behind the header */
    uint32_t bytes; /**< of the header, as it was read */
};
enum { TP_OFFLOAD_HEADER_MAX = 32, TP_OFFLOAD_CALLS_MAX = UINT16_MAX };
#define TP_OFFLOAD_HEAD 0x54u

/** Report to the sender when all kernels up to here have ended. */
#define TP_OFFLOAD_REPORT 8u
/** The records here are whole, and others of the same call come in the next message. */
#define TP_OFFLOAD_MORE 32u
/** A piece of the records. */
#define TP_OFFLOAD_PIECE 64u

/** One kernel of a launch; its arguments follow. */
struct tp_offload_record {
    uint32_t kernel; /**< index in the table, or TP_OFFLOAD_NO_KERNEL */
    uint16_t flags; /**< TP_OFFLOAD_DONE, and _END, _LOAD, _REFUSED or one of _ARRAY */
    uint16_t call; /**< whose it is, counted from the first of the message */
    uint64_t len; /**< [bytes] of arguments, a multiple of 16 */
};
_Static_assert(sizeof(struct tp_offload_record) == 16, "frozen layout");

/** All parents are told when this kernel has ended. */
#define TP_OFFLOAD_DONE 1u
/** No kernel: the workers end. In a report: this call was it, those behind it have no workers. */
#define TP_OFFLOAD_END 2u
/** No kernel: the workers load the plugin whose path the arguments are. With DONE. */
#define TP_OFFLOAD_LOAD 4u
/** No kernel: the root refused the call that other parents wait for. With DONE. */
#define TP_OFFLOAD_REFUSED 16u

/** No kernel: the workers make an array, receive it, send it, free it. Arguments: struct
 *  tp_offload_array; CREATE with DONE. */
#define TP_OFFLOAD_CREATE 32u
#define TP_OFFLOAD_PUT 64u
#define TP_OFFLOAD_GET 128u
#define TP_OFFLOAD_FREE 256u
#define TP_OFFLOAD_ARRAY                                                               \
    (TP_OFFLOAD_CREATE | TP_OFFLOAD_PUT | TP_OFFLOAD_GET | TP_OFFLOAD_FREE)

/** What a record of TP_OFFLOAD_ARRAY is about. */
struct tp_offload_array {
    uint64_t id; /**< number of the call that made it */
    uint64_t rows, row_bytes; /**< the same in all records of one array */
    uint64_t reserved; /**< send 0, ignore on receive */
};
_Static_assert(sizeof(struct tp_offload_array) == 32, "frozen layout");
/** [bytes] that an array may have, in all workers. */
#define TP_OFFLOAD_ARRAY_MAX (UINT64_C(1) << 62)

/** From workers: kernels that have ended. */
struct tp_offload_report {
    uint32_t magic;
    uint32_t
        flags; /**< TP_OFFLOAD_DONE, _REFUSED, _END: request; TP_OFFLOAD_REPORT: messages */
    uint64_t request;
    uint64_t messages; /**< consumed from the parent that is told, since the start */
    int32_t result; /**< highest of all workers and of all kernels this is about */
    int32_t rank; /**< first worker that had it */
    uint32_t kernel; /**< that had it */
    uint32_t failed; /**< kernels whose result was not 0 */
    char text[TP_OFFLOAD_TEXT_BYTES];
};
_Static_assert(sizeof(struct tp_offload_report) == 296, "frozen layout");
/** A report without a text ends before it: MPIs send what is short at once. */
#define TP_OFFLOAD_REPORT_SHORT offsetof(struct tp_offload_report, text)

/** Fills in what a greeting says of this process. */
void tp_offload_greeting_init(struct tp_offload_greeting *greeting);

/** @return OK; VERSION, PROTO with words */
telpher_status tp_offload_greeting_check(const struct tp_offload_greeting *greeting,
                                         struct tp_error *err);

/** Writes a header, of which root, flags, first, last, total, offset and len count.
 *  @return [bytes] written, or with @p dst NULL to be written */
uint32_t tp_offload_header_put(const struct tp_offload_header *header, uint8_t *dst);

/** @return OK when @p len bytes at @p src are a message; else PROTO */
telpher_status tp_offload_header_check(const void *src, uint64_t len,
                                       struct tp_offload_header *ret_header);

/**
 * Walks the records of a launch: start with *at = 0, until that is @p len.
 * @return OK; PROTO, when the bytes are no record of @p table
 */
telpher_status tp_offload_record_next(const struct tp_offload_table *table,
                                      const uint8_t *src, uint64_t len, uint64_t *at,
                                      struct tp_offload_record *ret_record,
                                      const uint8_t **ret_args);

/** Reads the arguments of a record of TP_OFFLOAD_ARRAY. @return OK; PROTO */
telpher_status tp_offload_array_read(const struct tp_offload_record *record,
                                     const uint8_t *args,
                                     struct tp_offload_array *ret_array);

/** A report that says nothing yet. */
void tp_offload_report_init(struct tp_offload_report *report);

/** Makes what @p kernel returned at worker @p rank part of @p report. @p text may be "". */
void tp_offload_report_note(struct tp_offload_report *report, int result, int rank,
                            uint32_t kernel, const char *text);

/** [bytes] of @p report that are sent. */
static inline int
tp_offload_report_len(const struct tp_offload_report *report)
{
    return report->text[0] == '\0' ? (int)TP_OFFLOAD_REPORT_SHORT
                                   : (int)sizeof(*report);
}

/** Before it is received into: what comes may lack the text, or be nothing. */
static inline void
tp_offload_report_clear(struct tp_offload_report *report)
{
    report->magic = 0;
    report->text[0] = '\0';
}

/** Makes @p into the report on what both are about. */
void tp_offload_report_merge(struct tp_offload_report *into,
                             const struct tp_offload_report *other);

/** @return OK or PROTO; the text ends in 0 afterwards */
telpher_status tp_offload_report_check(struct tp_offload_report *report);

/** Writes what is announced of @p table: "name<TAB>signature" lines. */
telpher_status tp_offload_table_write(const struct tp_offload_table *table,
                                      struct tp_buf *dst);

/** A kernel as a parent knows it. */
struct tp_offload_known {
    const char *name;
    struct tp_offload_signature sig;
};

/** Names that were announced, with a table to find them. */
struct tp_offload_names {
    char *text;
    struct tp_offload_known *known;
    uint32_t count;
    uint32_t *slots; /* index + 1, 0 = free */
    uint32_t slot_mask;
    uint32_t last; /* found last: mostly the next one, too */
};

/** Reads what tp_offload_table_write() wrote. @return OK, PROTO, LIMIT, NO_MEMORY */
telpher_status tp_offload_names_read(const char *text, size_t len,
                                     struct tp_offload_names *ret_names,
                                     struct tp_error *err);
void tp_offload_names_fini(struct tp_offload_names *names);

/** Index of @p name, or -1. */
int64_t tp_offload_names_find(struct tp_offload_names *names, const char *name);

/** The announced name that @p name was perhaps meant to be; NULL if none is like it. */
const char *tp_offload_names_guess(const struct tp_offload_names *names,
                                   const char *name);

#endif
