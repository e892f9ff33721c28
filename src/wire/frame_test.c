/* SPDX-License-Identifier: Apache-2.0 */
/* Preface, answer, frame header and facts: there and back, and what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/facts.h"
#include "wire/frame.h"

static const struct tp_wire_preface preface = {
    .version_min = 1,
    .version_max = 3,
    .stream = TP_WIRE_STREAM_BULK,
    .features = 0x8000000000000001ULL,
    .session = {1, 2, 3, [15] = 16},
    .index = 4,
    .auth_len = TP_WIRE_AUTH_MAX,
    .received = 77,
};

static const struct tp_wire_preface_reply reply = {
    .version = 1,
    .status = TELPHER_OK,
    .session = {9, [15] = 8},
    .window = TP_WIRE_WINDOW,
    .bulk_max = 4,
    .frame_max = TP_WIRE_FRAME_MAX,
};

static void
test_preface_round_trip(void **state)
{
    uint8_t raw[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface p;

    (void)state;
    tp_wire_put_preface(raw, &preface);
    assert_int_equal(tp_wire_get_preface(raw, &p), TELPHER_OK);
    assert_memory_equal(&p, &preface, sizeof(p));
}

static telpher_status
get_preface(struct tp_wire_preface p)
{
    uint8_t raw[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface got;

    tp_wire_put_preface(raw, &p);
    return tp_wire_get_preface(raw, &got);
}

static void
test_preface_versions(void **state)
{
    struct tp_wire_preface p = preface;

    (void)state;
    p.version_min = 2;
    p.version_max = 5;
    assert_int_equal(get_preface(p), TELPHER_ERR_VERSION);
    p.stream = 99; /* another version may have other streams: still VERSION */
    assert_int_equal(get_preface(p), TELPHER_ERR_VERSION);
    p.version_min = 0;
    p.version_max = 0;
    assert_int_equal(get_preface(p), TELPHER_ERR_VERSION);
    p.version_min = 2;
    p.version_max = 1;
    assert_int_equal(get_preface(p), TELPHER_ERR_PROTO);
}

static void
test_preface_refusals(void **state)
{
    uint8_t raw[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface p = preface;

    (void)state;
    p.stream = 0;
    assert_int_equal(get_preface(p), TELPHER_ERR_PROTO);
    p.stream = 4;
    assert_int_equal(get_preface(p), TELPHER_ERR_PROTO);
    p = preface;
    p.auth_len = TP_WIRE_AUTH_MAX + 1;
    assert_int_equal(get_preface(p), TELPHER_ERR_PROTO);
    for (int i = 0; i < 8; i++) {
        tp_wire_put_preface(raw, &preface);
        raw[i] ^= 1;
        assert_int_equal(tp_wire_get_preface(raw, &p), TELPHER_ERR_PROTO);
    }
}

static void
test_reply_round_trip(void **state)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface_reply r, refusal = {.status = TELPHER_ERR_AUTH};

    (void)state;
    tp_wire_put_preface_reply(raw, &reply);
    assert_int_equal(tp_wire_get_preface_reply(raw, &r), TELPHER_OK);
    assert_memory_equal(&r, &reply, sizeof(r));
    memset(refusal.text, 'x', sizeof(refusal.text)); /* cut by the encoder */
    tp_wire_put_preface_reply(raw, &refusal);
    assert_int_equal(tp_wire_get_preface_reply(raw, &r), TELPHER_OK);
    assert_int_equal(r.status, TELPHER_ERR_AUTH);
    assert_int_equal(strlen(r.text), TP_WIRE_TEXT_BYTES - 1);
}

static telpher_status
get_reply_with(size_t at, uint8_t value)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface_reply r;

    tp_wire_put_preface_reply(raw, &reply);
    raw[at] = value;
    return tp_wire_get_preface_reply(raw, &r);
}

static void
test_reply_refusals(void **state)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface_reply r;

    (void)state;
    assert_int_equal(get_reply_with(0, 't'), TELPHER_ERR_PROTO);
    assert_int_equal(get_reply_with(8, 2), TELPHER_ERR_PROTO);
    assert_int_equal(get_reply_with(10, 1), TELPHER_ERR_PROTO);
    assert_int_equal(get_reply_with(12, 1), TELPHER_ERR_PROTO); /* "in progress" */
    assert_int_equal(get_reply_with(62, 0), TELPHER_ERR_PROTO); /* frame_max 0 */
    tp_wire_put_preface_reply(raw, &reply);
    memset(raw + 64, 'x', TP_WIRE_TEXT_BYTES);
    assert_int_equal(tp_wire_get_preface_reply(raw, &r), TELPHER_ERR_PROTO);
}

static telpher_status
get_header(uint32_t len, uint16_t flags)
{
    struct tp_wire_header h = {.len = len, .type = 0x30, .flags = flags}, got;
    uint8_t raw[TP_WIRE_HEADER_BYTES];

    tp_wire_put_header(raw, &h);
    return tp_wire_get_header(raw, &got);
}

static void
test_header(void **state)
{
    struct tp_wire_header h = {24, 0xffff, 0, UINT64_MAX, UINT64_MAX - 1}, got;
    uint8_t raw[TP_WIRE_HEADER_BYTES];

    (void)state;
    tp_wire_put_header(raw, &h);
    assert_int_equal(tp_wire_get_header(raw, &got), TELPHER_OK);
    assert_memory_equal(&got, &h, sizeof(h));
    assert_int_equal(get_header(TP_WIRE_FRAME_MAX, 0), TELPHER_OK);
    assert_int_equal(get_header(TP_WIRE_FRAME_MAX + 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(get_header(0, 0), TELPHER_ERR_PROTO);
    assert_int_equal(get_header(23, 0), TELPHER_ERR_PROTO);
    assert_int_equal(get_header(1U << 31, 0), TELPHER_ERR_PROTO);
    assert_int_equal(get_header(UINT32_MAX, 0), TELPHER_ERR_PROTO);
    assert_int_equal(get_header(24, 1), TELPHER_ERR_PROTO);
    assert_int_equal(get_header(24, 0x8000), TELPHER_ERR_PROTO);
}

static void
test_ids(void **state)
{
    uint64_t id = tp_wire_id(TP_WIRE_KIND_EVENT, UINT64_MAX);

    (void)state;
    assert_int_equal(tp_wire_id_kind(id), TP_WIRE_KIND_EVENT);
    assert_true(tp_wire_id(TP_WIRE_KIND_MEM, 5) == 0x0300000000000005ULL);
}

static const struct tp_wire_fact facts[] = {
    {1, 0, 0, 0x0902, 0, 5, (const uint8_t *)"PoCL"},
    {2, 1, 0, 0x101f, -30, 0, NULL},
    {7, UINT32_MAX, UINT32_MAX, 0x11b0, INT32_MIN, 3, (const uint8_t *)"\1\2\3"},
};
enum { FACT_COUNT = sizeof(facts) / sizeof(facts[0]) };

static size_t
put_facts(uint8_t *dst)
{
    size_t size = 0;

    for (size_t i = 0; i < FACT_COUNT; i++) {
        tp_wire_put_fact(dst + size, &facts[i]);
        size += tp_wire_fact_size(facts[i].len);
    }
    return size;
}

static void
test_facts_round_trip(void **state)
{
    uint8_t raw[256];
    const uint8_t *src = raw, *end = raw + put_facts(raw);
    struct tp_wire_fact f;

    (void)state;
    assert_int_equal(end - raw, 3 * TP_WIRE_FACT_HEADER_BYTES + 8);
    for (size_t i = 0; i < FACT_COUNT; i++) {
        assert_true(tp_wire_get_fact(&src, end, &f));
        assert_int_equal(f.kind, facts[i].kind);
        assert_int_equal(f.index, facts[i].index);
        assert_int_equal(f.sub, facts[i].sub);
        assert_int_equal(f.param, facts[i].param);
        assert_int_equal(f.error, facts[i].error);
        assert_int_equal(f.len, facts[i].len);
        if (f.len != 0) {
            assert_memory_equal(f.data, facts[i].data, f.len);
        }
    }
    assert_false(tp_wire_get_fact(&src, end, &f));
    assert_ptr_equal(src, end);
}

static void
test_facts_cut_short(void **state)
{
    size_t first = tp_wire_fact_size(facts[0].len);
    uint8_t raw[256];

    (void)state;
    (void)put_facts(raw);
    for (size_t len = 1; len < first; len++) {
        uint8_t *cut = malloc(len);
        const uint8_t *src = cut;
        struct tp_wire_fact f;

        assert_non_null(cut);
        memcpy(cut, raw, len);
        assert_false(tp_wire_get_fact(&src, cut + len, &f));
        assert_ptr_equal(src, cut);
        free(cut);
    }
}

static bool
get_fact_with(size_t at, uint8_t value)
{
    uint8_t raw[256];
    const uint8_t *src = raw;
    size_t size = put_facts(raw);
    struct tp_wire_fact f;

    raw[at] = value;
    return tp_wire_get_fact(&src, raw + size, &f);
}

static void
test_facts_refusals(void **state)
{
    (void)state;
    assert_true(get_fact_with(0, TP_WIRE_FACT_IMAGE_FORMATS));
    assert_false(get_fact_with(0, 0));
    assert_false(get_fact_with(0, TP_WIRE_FACT_IMAGE_FORMATS + 1));
    assert_false(get_fact_with(2, 1)); /* reserved */
    assert_false(get_fact_with(23, 0xff)); /* length of 4 GiB */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preface_round_trip),
        cmocka_unit_test(test_preface_versions),
        cmocka_unit_test(test_preface_refusals),
        cmocka_unit_test(test_reply_round_trip),
        cmocka_unit_test(test_reply_refusals),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_facts_round_trip),
        cmocka_unit_test(test_facts_cut_short),
        cmocka_unit_test(test_facts_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
