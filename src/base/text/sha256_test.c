/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: the examples of FIPS 180-4, in one piece and in many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/sha256.h"

static void
expect(struct tp_sha256 *sum, const char *wanted)
{
    uint8_t digest[TP_SHA256_BYTES];
    char text[2 * TP_SHA256_BYTES + 1];

    tp_sha256_end(sum, digest);
    for (size_t i = 0; i < TP_SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, wanted);
}

static void
examples(void **state)
{
    static const char two[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    struct tp_sha256 sum;

    (void)state;
    tp_sha256_init(&sum);
    expect(&sum, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    tp_sha256_init(&sum);
    tp_sha256_add(&sum, "abc", 3);
    expect(&sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    tp_sha256_init(&sum);
    tp_sha256_add(&sum, two, strlen(two));
    expect(&sum, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void
a_million_in_pieces(void **state)
{
    static char many[1000];
    struct tp_sha256 sum;
    size_t left = 1000000;

    (void)state;
    memset(many, 'a', sizeof(many));
    tp_sha256_init(&sum);
    for (size_t n = 1; left > 0; n = n % sizeof(many) + 7) {
        size_t now = n < left ? n : left;

        now = now < sizeof(many) ? now : sizeof(many);
        tp_sha256_add(&sum, many, now);
        left -= now;
    }
    expect(&sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void
sized_lists_differ(void **state)
{
    uint8_t a[TP_SHA256_BYTES], b[TP_SHA256_BYTES];
    struct tp_sha256 sum;

    (void)state;
    tp_sha256_init(&sum);
    tp_sha256_add_sized(&sum, "ab", 2);
    tp_sha256_add_sized(&sum, NULL, 0);
    tp_sha256_end(&sum, a);
    tp_sha256_init(&sum);
    tp_sha256_add_sized(&sum, "a", 1);
    tp_sha256_add_sized(&sum, "b", 1);
    tp_sha256_end(&sum, b);
    assert_memory_not_equal(a, b, sizeof(a));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(a_million_in_pieces),
        cmocka_unit_test(sized_lists_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
