/* SPDX-License-Identifier: Apache-2.0 */
/* The preface, its answer and the challenge: what is accepted must be written again byte for byte. */
#include "support/fuzz.h"

#include "wire/frame.h"

static void
check_preface(const uint8_t *raw)
{
    uint8_t again[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface p;

    if (tp_wire_get_preface(raw, &p) == TELPHER_OK) {
        require(p.auth_len <= TP_WIRE_AUTH_MAX);
        tp_wire_put_preface(again, &p);
        require(memcmp(raw, again, sizeof(again)) == 0);
    }
}

static void
check_challenge(const uint8_t *raw)
{
    uint8_t again[TP_WIRE_CHALLENGE_BYTES];
    struct tp_wire_challenge c;

    if (tp_wire_get_challenge(raw, &c) == TELPHER_OK) {
        tp_wire_put_challenge(again, &c);
        require(memcmp(raw, again, sizeof(again)) == 0);
    }
}

/* Behind the end of the text, and where a refusal has no meaning, any byte may stand. */
static void
check_reply(const uint8_t *raw)
{
    uint8_t again[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface_reply r, second;

    if (tp_wire_get_preface_reply(raw, &r) == TELPHER_OK) {
        require(strnlen(r.text, sizeof(r.text)) < sizeof(r.text));
        tp_wire_put_preface_reply(again, &r);
        require(tp_wire_get_preface_reply(again, &second) == TELPHER_OK);
        require(r.status == second.status && strcmp(r.text, second.text) == 0);
        require(memcmp(r.session, second.session, sizeof(r.session)) == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len >= TP_WIRE_PREFACE_REPLY_BYTES) {
        void *raw = exact_copy(data, TP_WIRE_PREFACE_REPLY_BYTES);

        check_reply(raw);
        free(raw);
    }
    if (len >= TP_WIRE_CHALLENGE_BYTES) {
        void *raw = exact_copy(data, TP_WIRE_CHALLENGE_BYTES);

        check_challenge(raw);
        free(raw);
    }
    if (len >= TP_WIRE_PREFACE_BYTES) {
        void *raw = exact_copy(data, TP_WIRE_PREFACE_BYTES);

        check_preface(raw);
        free(raw);
    }
    return 0;
}
