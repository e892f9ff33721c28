/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every decoder: the first byte is the type of the message, the rest is a body.
 * A body has one form only, so what is decoded must be encoded byte for byte.
 */
#include "support/fuzz.h"

#include "wire/messages.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX];
    const struct tp_wire_message *row;
    uint8_t *body, *again;

    if (len == 0) {
        return 0;
    }
    row = tp_wire_message(data[0]); /* all types fit */
    if (row == NULL) {
        return 0;
    }
    len--;
    body = exact_copy(data + 1, len);
    if (row->get(body, body + len, m)) {
        require(row->size(m) == len);
        again = malloc(len);
        require(again != NULL);
        row->put(again, m);
        require(memcmp(body, again, len) == 0);
        free(again);
    }
    free(body);
    return 0;
}
