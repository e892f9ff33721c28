/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: the examples of FIPS 180-4, and sums of pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/sha256.h"

static void
expect(const uint8_t *digest, const char *wanted)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < TP_SHA256_BYTES; i++) {
        assert_int_equal(digits[digest[i] >> 4], wanted[2 * i]);
        assert_int_equal(digits[digest[i] & 15], wanted[2 * i + 1]);
    }
}

static void
examples(void **state)
{
    static const char two_blocks[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t digest[TP_SHA256_BYTES];

    (void)state;
    tp_sha256_of(NULL, 0, digest);
    expect(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    tp_sha256_of("abc", 3, digest);
    expect(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    tp_sha256_of(two_blocks, strlen(two_blocks), digest);
    expect(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void
a_million_in_pieces(void **state)
{
    uint8_t digest[TP_SHA256_BYTES], a[997];
    struct tp_sha256 sum;

    (void)state;
    memset(a, 'a', sizeof(a));
    tp_sha256_begin(&sum);
    for (size_t left = 1000000, n = 1; left > 0; left -= n) {
        n = (n * 7 + 1) % sizeof(a);
        n = n < left ? n : left;
        tp_sha256_add(&sum, a, n);
    }
    tp_sha256_end(&sum, digest);
    expect(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(a_million_in_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
