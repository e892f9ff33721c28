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
        2, /**< incremented with every change of this file; 1 had no arrays, longer
            *  headers, no shared memory */
    TP_OFFLOAD_MESSAGE_MAX = 64 * 1024, /**< [bytes] header and payload */
    TP_OFFLOAD_TEXT_BYTES = 256
};
#define TP_OFFLOAD_MAGIC 0x4c4f5054u /**< "TPOL" */
#define TP_OFFLOAD_NO_KERNEL UINT32_MAX

/** The first message in both directions. */
struct tp_offload_greeting {
    uint32_t magic;
    uint16_t version;
    uint8_t pointer_bytes, long_double_bytes;
    uint64_t order; /**< 0x0102030405060708 */
    uint32_t root; /**< the parent that sends it; 0 from a worker */
    int32_t status; /**< from a worker: telpher_status */
    uint64_t limit; /**< from a worker: [bytes] of the longest launch it accepts */
    uint64_t pid;
    char text[TP_OFFLOAD_TEXT_BYTES]; /**< why status is not 0 */
};
_Static_assert(sizeof(struct tp_offload_greeting) == 296, "frozen layout");

/** Precedes each message of a launch. It has 16 bytes, because MPIs are fastest with
 *  short messages. */
struct tp_offload_head {
    uint8_t magic; /**< TP_OFFLOAD_HEAD */
    uint8_t flags; /**< TP_OFFLOAD_REPORT, _MORE, _PIECE */
    uint16_t calls; /**< last call of the message */
    uint32_t root; /**< the parent that sends */
    uint64_t first; /**< number of the first of these calls */
};
_Static_assert(sizeof(struct tp_offload_head) == 16, "frozen layout");

/** Follows the header if TP_OFFLOAD_PIECE is set. */
struct tp_offload_piece {
    uint64_t total; /**< [bytes] of all records, in all messages that carry them */
    uint64_t offset; /**< [bytes] of records before this message */
};
_Static_assert(sizeof(struct tp_offload_piece) == TP_OFFLOAD_ALIGN, "frozen layout");

/** Both parts of the header, decoded. */
struct tp_offload_header {
    uint32_t flags; /**< without _PIECE: implied by len != total */
    uint32_t root;
    uint64_t first,
        last; /**< numbers of the calls in the message, at most TP_OFFLOAD_CALLS_MAX */
    uint64_t total, offset;
    uint32_t len; /**< [bytes] of payload */
    uint32_t bytes; /**< [bytes] of the header as received */
};
enum { TP_OFFLOAD_HEADER_MAX = 32, TP_OFFLOAD_CALLS_MAX = UINT16_MAX };
#define TP_OFFLOAD_HEAD 0x54u

/** Requests a report to the sender when all kernels up to here have ended. */
#define TP_OFFLOAD_REPORT 8u
/** The records here are whole; further records of the same call follow in the next
 *  message. */
#define TP_OFFLOAD_MORE 32u
/** The message carries part of the records. */
#define TP_OFFLOAD_PIECE 64u

/** One kernel of a launch; its arguments follow. */
struct tp_offload_record {
    uint32_t kernel; /**< index in the table, or TP_OFFLOAD_NO_KERNEL */
    uint16_t flags; /**< TP_OFFLOAD_DONE, and _END, _LOAD, _REFUSED or one of _ARRAY */
    uint16_t call; /**< the call of the record, counted from the first of the message */
    uint64_t len; /**< [bytes] of arguments, a multiple of 16 */
};
_Static_assert(sizeof(struct tp_offload_record) == 16, "frozen layout");

/** All parents get a report when this kernel has ended. */
#define TP_OFFLOAD_DONE 1u
/** No kernel: the workers end. In a report: this call ended the workers; later calls
 *  have none. */
#define TP_OFFLOAD_END 2u
/** No kernel: the workers load the plugin at the path in the arguments. With DONE. */
#define TP_OFFLOAD_LOAD 4u
/** No kernel: the root rejected the call for which other parents wait. With DONE. */
#define TP_OFFLOAD_REFUSED 16u

/** No kernel: the workers create, receive, send or free an array. Arguments: struct
 *  tp_offload_array; CREATE with DONE. */
#define TP_OFFLOAD_CREATE 32u
#define TP_OFFLOAD_PUT 64u
#define TP_OFFLOAD_GET 128u
#define TP_OFFLOAD_FREE 256u
#define TP_OFFLOAD_ARRAY                                                               \
    (TP_OFFLOAD_CREATE | TP_OFFLOAD_PUT | TP_OFFLOAD_GET | TP_OFFLOAD_FREE)

/** Arguments of a record of TP_OFFLOAD_ARRAY. */
struct tp_offload_array {
    uint64_t id; /**< number of the call that created it */
    uint64_t rows, row_bytes; /**< the same in all records of one array */
    uint64_t reserved; /**< send 0, ignore on receive */
};
_Static_assert(sizeof(struct tp_offload_array) == 32, "frozen layout");
/** [bytes] that an array may have, in all workers. */
#define TP_OFFLOAD_ARRAY_MAX (UINT64_C(1) << 62)

/** A report from the workers about kernels that have ended. */
struct tp_offload_report {
    uint32_t magic;
    uint32_t
        flags; /**< TP_OFFLOAD_DONE, _REFUSED, _END: request; TP_OFFLOAD_REPORT: messages */
    uint64_t request;
    uint64_t messages; /**< messages of the receiving parent that were consumed, since
                        *  the start */
    int32_t result; /**< highest result of all workers and of all kernels in the
                     *  report */
    int32_t rank; /**< first worker that returned it */
    uint32_t kernel; /**< kernel that returned it */
    uint32_t failed; /**< kernels whose result was not 0 */
    char text[TP_OFFLOAD_TEXT_BYTES];
};
_Static_assert(sizeof(struct tp_offload_report) == 296, "frozen layout");
/** A report without a text ends here: MPIs send short messages at once. */
#define TP_OFFLOAD_REPORT_SHORT offsetof(struct tp_offload_report, text)

/** Fills in the greeting of this process. */
void tp_offload_greeting_init(struct tp_offload_greeting *greeting);

/** @return OK; VERSION, PROTO with an error text */
telpher_status tp_offload_greeting_check(const struct tp_offload_greeting *greeting,
                                         struct tp_error *err);

/** Encodes a header from its members root, flags, first, last, total, offset and
 *  len. @return [bytes] written; with @p dst NULL, [bytes] that would be written */
uint32_t tp_offload_header_put(const struct tp_offload_header *header, uint8_t *dst);

/** @return OK if the @p len bytes at @p src are a valid message; otherwise PROTO */
telpher_status tp_offload_header_check(const void *src, uint64_t len,
                                       struct tp_offload_header *ret_header);

/**
 * Walks the records of a launch: start with *at = 0, repeat until *at is @p len.
 * @return OK; PROTO if the bytes are no record of @p table
 */
telpher_status tp_offload_record_next(const struct tp_offload_table *table,
                                      const uint8_t *src, uint64_t len, uint64_t *at,
                                      struct tp_offload_record *ret_record,
                                      const uint8_t **ret_args);

/** Reads the arguments of a record of TP_OFFLOAD_ARRAY. @return OK; PROTO */
telpher_status tp_offload_array_read(const struct tp_offload_record *record,
                                     const uint8_t *args,
                                     struct tp_offload_array *ret_array);

/** An empty report. */
void tp_offload_report_init(struct tp_offload_report *report);

/** Merges the result of @p kernel at worker @p rank into @p report. @p text may be
 *  "". */
void tp_offload_report_note(struct tp_offload_report *report, int result, int rank,
                            uint32_t kernel, const char *text);

/** [bytes] of @p report that are sent. */
static inline int
tp_offload_report_len(const struct tp_offload_report *report)
{
    return report->text[0] == '\0' ? (int)TP_OFFLOAD_REPORT_SHORT
                                   : (int)sizeof(*report);
}

/** Initialises a report before a receive, because the message may lack the text. */
static inline void
tp_offload_report_clear(struct tp_offload_report *report)
{
    report->magic = 0;
    report->text[0] = '\0';
}

/** Merges @p from into @p into. */
void tp_offload_report_merge(struct tp_offload_report *into,
                             const struct tp_offload_report *other);

/** @return OK or PROTO; the text ends in 0 afterwards */
telpher_status tp_offload_report_check(struct tp_offload_report *report);

/** Encodes the names of @p table for the parents: "name<TAB>signature" lines. */
telpher_status tp_offload_table_write(const struct tp_offload_table *table,
                                      struct tp_buf *dst);

/** A kernel in a parent's table. */
struct tp_offload_known {
    const char *name;
    struct tp_offload_signature sig;
};

/** The workers' kernels, with a hash table by name. */
struct tp_offload_names {
    char *text;
    struct tp_offload_known *known;
    uint32_t count;
    uint32_t *slots; /* index + 1, 0 = free */
    uint32_t slot_mask;
    uint32_t last; /* last hit: the next lookup is mostly the next kernel */
};

/** Reads what tp_offload_table_write() wrote. @return OK, PROTO, LIMIT, NO_MEMORY */
telpher_status tp_offload_names_read(const char *text, size_t len,
                                     struct tp_offload_names *ret_names,
                                     struct tp_error *err);
void tp_offload_names_fini(struct tp_offload_names *names);

/** Index of @p name, or -1. */
int64_t tp_offload_names_find(struct tp_offload_names *names, const char *name);

/** The known name most similar to @p name; NULL if none is similar. */
const char *tp_offload_names_guess(const struct tp_offload_names *names,
                                   const char *name);

#endif
