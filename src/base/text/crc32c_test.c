/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of CRC-32C: published values, sums of parts, and three sums at once. */
#include "base/test_int.h"

#include "base/text/crc32c.h"

/* RFC 3720 appendix B.4. */
static void
test_published(void **state)
{
    uint8_t zeros[32] = {0}, ones[32], up[32];

    (void)state;
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (uint8_t)i;
    }
    assert_int_equal(tp_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(tp_crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(tp_crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(tp_crc32c(0, up, 32), 0x46dd794e);
    assert_int_equal(tp_crc32c(0, NULL, 0), 0);
}

/* In parts at any place and by tables it is the same. */
static void
test_parts(void **state)
{
    uint8_t bytes[100];
    uint32_t whole;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 37 + 11);
    }
    whole = tp_crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        uint32_t crc = tp_crc32c(0, bytes, cut);

        assert_int_equal(tp_crc32c_by_table(0, bytes, cut), crc);
        assert_int_equal(tp_crc32c(crc, bytes + cut, sizeof(bytes) - cut), whole);
        assert_int_equal(tp_crc32c_by_table(crc, bytes + cut, sizeof(bytes) - cut),
                         whole);
    }
}

/* Written out from its definition. */
static void
test_three(void **state)
{
    uint8_t bytes[24 * 5 + 24];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 91 + 5);
    }
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        uint32_t sums[3] = {0, 0, 0};
        uint8_t all[12];
        size_t at = 0;

        for (; len - at >= 24; at += 24) {
            for (size_t i = 0; i < 3; i++) {
                sums[i] = tp_crc32c(sums[i], bytes + at + 8 * i, 8);
            }
        }
        sums[0] = tp_crc32c(sums[0], bytes + at, len - at);
        for (int i = 0; i < 12; i++) {
            all[i] = (uint8_t)(sums[i / 4] >> (8 * (i % 4)));
        }
        assert_int_equal(tp_crc32c_by_three(bytes, len), tp_crc32c(0, all, 12));
    }
    assert_int_equal(tp_crc32c_by_three("123456789012345678901234567890", 30),
                     0x4a662269);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_three),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
