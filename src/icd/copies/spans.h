/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses which spans of a buffer a commit sends: those that commands wrote, few and not small. */
#ifndef TELPHER_ICD_COPIES_SPANS_H
#define TELPHER_ICD_COPIES_SPANS_H

#include "base/container/ranges.h"
#include "icd/migration/range_events.h"

enum {
    TP_COPIES_SPANS_MAX = 64, /**< of one buffer in one commit */
    /** [bytes] between spans that are sent, too: a message more costs as much. */
    TP_COPIES_GAP_MAX = 64 << 10,
};

/** Notes that a command wrote a span, cut at the size of @p written. @return OK, NO_MEMORY */
telpher_status tp_copies_spans_add(struct tp_ranges *written, struct tp_icd_span span);
/** Gives the spans to send, in order: at most TP_COPIES_SPANS_MAX, with wider gaps if need be.
 *  @return how many */
size_t tp_copies_spans_list(const struct tp_ranges *written,
                            struct tp_icd_span dst[TP_COPIES_SPANS_MAX]);

#endif
