/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between parents and workers: validation. offload/message.h */
#include "offload/message.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/text/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "structs are sent as they lie in memory");

static const uint64_t order = 0x0102030405060708u;

void
tp_offload_greeting_init(struct tp_offload_greeting *greeting)
{
    memset(greeting, 0, sizeof(*greeting));
    greeting->magic = TP_OFFLOAD_MAGIC;
    greeting->version = TP_OFFLOAD_VERSION;
    greeting->pointer_bytes = sizeof(void *);
    greeting->long_double_bytes = sizeof(long double);
    greeting->order = order;
    greeting->pid = (uint64_t)getpid();
}

telpher_status
tp_offload_greeting_check(const struct tp_offload_greeting *greeting,
                          struct tp_error *err)
{
    if (greeting->magic != TP_OFFLOAD_MAGIC) {
        return tp_error_set(
            err, TELPHER_ERR_PROTO,
            "the process at the other end of the intercommunicator does not speak "
            "Telpher's protocol: is it telpher-worker, or linked with its library?");
    }
    if (greeting->version != TP_OFFLOAD_VERSION) {
        return tp_error_set(
            err, TELPHER_ERR_VERSION,
            "the other side speaks version %u of the protocol, this one %d: install "
            "the same version of Telpher for parents and workers",
            greeting->version, TP_OFFLOAD_VERSION);
    }
    if (greeting->order != order || greeting->pointer_bytes != sizeof(void *) ||
        greeting->long_double_bytes != sizeof(long double)) {
        return tp_error_set(
            err, TELPHER_ERR_VERSION,
            "parents and workers differ in byte order or type sizes: pointers %u and "
            "%zu bytes, "
            "long double %u and %zu; build both for the same kind of machine",
            greeting->pointer_bytes, sizeof(void *), greeting->long_double_bytes,
            sizeof(long double));
    }
    return TELPHER_OK;
}

uint32_t
tp_offload_header_put(const struct tp_offload_header *header, uint8_t *dst)
{
    bool is_piece = header->len != header->total;
    const struct tp_offload_piece piece = {header->total, header->offset};
    const struct tp_offload_head head = {
        .magic = TP_OFFLOAD_HEAD,
        .flags = (uint8_t)(header->flags | (is_piece ? TP_OFFLOAD_PIECE : 0)),
        .calls = (uint16_t)(header->last - header->first),
        .root = header->root,
        .first = header->first,
    };

    if (dst != NULL) {
        memcpy(dst, &head, sizeof(head));
    }
    if (dst != NULL && is_piece) {
        memcpy(dst + sizeof(head), &piece, sizeof(piece));
    }
    return (uint32_t)(sizeof(head) + (is_piece ? sizeof(piece) : 0));
}

/* The optional second part of a header, for a message with part of a record. */
static telpher_status
check_piece(const uint8_t *src, uint64_t len, struct tp_offload_header *h)
{
    struct tp_offload_piece piece;

    if (len < sizeof(piece) || (h->flags & TP_OFFLOAD_MORE) != 0) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(&piece, src, sizeof(piece));
    h->bytes += (uint32_t)sizeof(piece);
    h->len = (uint32_t)(len - sizeof(piece));
    h->total = piece.total;
    h->offset = piece.offset;
    if (h->len == 0 || h->len >= h->total || h->offset > h->total ||
        h->len > h->total - h->offset) {
        return TELPHER_ERR_PROTO;
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_header_check(const void *src, uint64_t len,
                        struct tp_offload_header *ret_header)
{
    const uint32_t known = TP_OFFLOAD_REPORT | TP_OFFLOAD_MORE | TP_OFFLOAD_PIECE;
    struct tp_offload_head head;
    struct tp_offload_header h;

    if (len < sizeof(head) || len > TP_OFFLOAD_MESSAGE_MAX) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(&head, src, sizeof(head));
    if (head.magic != TP_OFFLOAD_HEAD || (head.flags & ~known) != 0 ||
        head.first > UINT64_MAX - head.calls ||
        ((head.flags & TP_OFFLOAD_MORE) != 0 && head.calls != 0)) {
        return TELPHER_ERR_PROTO;
    }
    h = (struct tp_offload_header){
        .flags = head.flags & ~TP_OFFLOAD_PIECE,
        .root = head.root,
        .first = head.first,
        .last = head.first + head.calls,
        .total = len - sizeof(head),
        .len = (uint32_t)(len - sizeof(head)),
        .bytes = sizeof(head),
    };
    if ((head.flags & TP_OFFLOAD_PIECE) != 0 &&
        check_piece((const uint8_t *)src + sizeof(head), h.len, &h) != TELPHER_OK) {
        return TELPHER_ERR_PROTO;
    }
    *ret_header = h;
    return TELPHER_OK;
}

enum {
    NO_KERNEL =
        TP_OFFLOAD_END | TP_OFFLOAD_LOAD | TP_OFFLOAD_REFUSED | TP_OFFLOAD_ARRAY,
    KNOWN_FLAGS = NO_KERNEL | TP_OFFLOAD_DONE
};

telpher_status
tp_offload_record_next(const struct tp_offload_table *table, const uint8_t *src,
                       uint64_t len, uint64_t *at, struct tp_offload_record *ret_record,
                       const uint8_t **ret_args)
{
    struct tp_offload_record r;
    uint32_t what;

    if (len - *at < sizeof(r)) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(&r, src + *at, sizeof(r));
    what = r.flags & NO_KERNEL;
    if (r.len > len - *at - sizeof(r) || r.len % TP_OFFLOAD_ALIGN != 0 ||
        (r.flags & ~(uint32_t)KNOWN_FLAGS) != 0 || (what & (what - 1)) != 0) {
        return TELPHER_ERR_PROTO;
    }
    if (what == 0 && r.kernel >= table->count) {
        return TELPHER_ERR_PROTO;
    }
    *ret_args = src + *at + sizeof(r);
    *at += sizeof(r) + r.len;
    *ret_record = r;
    return TELPHER_OK;
}

telpher_status
tp_offload_array_read(const struct tp_offload_record *record, const uint8_t *args,
                      struct tp_offload_array *ret_array)
{
    struct tp_offload_array a;

    if (record->len != sizeof(a)) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(&a, args, sizeof(a));
    if (a.row_bytes != 0 && a.rows > TP_OFFLOAD_ARRAY_MAX / a.row_bytes) {
        return TELPHER_ERR_PROTO;
    }
    *ret_array = a;
    return TELPHER_OK;
}

void
tp_offload_report_init(struct tp_offload_report *report)
{
    memset(report, 0, sizeof(*report));
    report->magic = TP_OFFLOAD_MAGIC;
    report->result = INT_MIN;
    report->rank = INT_MAX;
    report->kernel = TP_OFFLOAD_NO_KERNEL;
}

void
tp_offload_report_note(struct tp_offload_report *report, int result, int rank,
                       uint32_t kernel, const char *text)
{
    if (result > report->result || (result == report->result && rank < report->rank)) {
        report->result = result;
        report->rank = rank;
        report->kernel = kernel;
        if (text[0] != '\0' || report->text[0] != '\0') {
            snprintf(report->text, sizeof(report->text), "%s", text);
        }
    }
    report->failed += result != 0 && report->failed != UINT32_MAX;
}

void
tp_offload_report_merge(struct tp_offload_report *into,
                        const struct tp_offload_report *other)
{
    if (other->result > into->result ||
        (other->result == into->result && other->rank < into->rank)) {
        into->result = other->result;
        into->rank = other->rank;
        into->kernel = other->kernel;
        if (other->text[0] != '\0') {
            memcpy(into->text, other->text, sizeof(into->text));
        } else {
            into->text[0] = '\0';
        }
    }
    into->failed = into->failed > UINT32_MAX - other->failed
                       ? UINT32_MAX
                       : into->failed + other->failed;
}

telpher_status
tp_offload_report_check(struct tp_offload_report *report)
{
    report->text[sizeof(report->text) - 1] = '\0';
    tp_text_tame(report->text, true); /* a kernel's text may have several lines */
    return report->magic == TP_OFFLOAD_MAGIC ? TELPHER_OK : TELPHER_ERR_PROTO;
}
