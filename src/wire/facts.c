/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes records of facts: docs/protocol.md section 6. */
#include "wire/facts.h"

#include "wire/bytes.h"

size_t
tp_wire_fact_size(uint32_t len)
{
    return (size_t)TP_WIRE_FACT_HEADER_BYTES + len;
}

void
tp_wire_put_fact(uint8_t *dst, const struct tp_wire_fact *fact)
{
    dst = put_u16(dst, fact->kind);
    dst = put_u16(dst, 0);
    dst = put_u32(dst, fact->index);
    dst = put_u32(dst, fact->sub);
    dst = put_u32(dst, fact->param);
    dst = put_i32(dst, fact->error);
    dst = put_u32(dst, fact->len);
    (void)put_raw(dst, fact->data, fact->len);
}

bool
tp_wire_get_fact(const uint8_t **src, const uint8_t *end, struct tp_wire_fact *ret_fact)
{
    const uint8_t *p = *src;
    struct tp_wire_fact fact;
    uint16_t reserved;
    const void *data;

    if (!take_u16(&p, end, &fact.kind) || !take_u16(&p, end, &reserved) ||
        !take_u32(&p, end, &fact.index) || !take_u32(&p, end, &fact.sub) ||
        !take_u32(&p, end, &fact.param) || !take_i32(&p, end, &fact.error) ||
        !take_u32(&p, end, &fact.len) || !take_raw(&p, end, fact.len, &data)) {
        return false;
    }
    if (fact.kind < TP_WIRE_FACT_PLATFORM || fact.kind > TP_WIRE_FACT_IMAGE_FORMATS ||
        reserved != 0) {
        return false;
    }
    fact.data = data;
    *src = p;
    *ret_fact = fact;
    return true;
}
