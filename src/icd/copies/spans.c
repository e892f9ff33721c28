/* SPDX-License-Identifier: Apache-2.0 */
/* Notes the bytes of a buffer that commands wrote, and lists the spans that a commit sends. */
#include "icd/copies/spans.h"

#include "base/compiler.h"

enum { WRITTEN = 1 }; /* value of bytes that some command wrote */

telpher_status
tp_copies_spans_add(struct tp_ranges *written, struct tp_icd_span span)
{
    uint64_t to = TP_MIN(span.to, written->size);

    if (span.from >= to) {
        return TELPHER_OK;
    }
    if (tp_ranges_reserve(written, 1) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_ranges_change(written, span.from, to, 0, WRITTEN);
    return TELPHER_OK;
}

/* Lists spans; joins those with gaps below @p gap. @return their number; more than
 * TP_COPIES_SPANS_MAX: the list is not complete */
static size_t
list_with_gap(const struct tp_ranges *written, uint64_t gap,
              struct tp_icd_span dst[TP_COPIES_SPANS_MAX])
{
    size_t count = 0;
    uint64_t end;

    for (uint64_t at = 0; at < written->size; at = end) {
        if (tp_ranges_at(written, at, &end) != WRITTEN) {
            continue;
        }
        if (count != 0 && at - dst[count - 1].to < gap) {
            dst[count - 1].to = end;
        } else if (count == TP_COPIES_SPANS_MAX) {
            return count + 1;
        } else {
            dst[count++] = (struct tp_icd_span){at, end};
        }
    }
    return count;
}

size_t
tp_copies_spans_list(const struct tp_ranges *written,
                     struct tp_icd_span dst[TP_COPIES_SPANS_MAX])
{
    uint64_t gap = TP_COPIES_GAP_MAX;
    size_t count;

    while ((count = list_with_gap(written, gap, dst)) > TP_COPIES_SPANS_MAX) {
        gap *= 2;
    }
    return count;
}
