/* SPDX-License-Identifier: Apache-2.0 */
/* Records of files: what is written is read again, and nothing improper passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/files.h"

static const uint8_t digest[TP_WIRE_FILE_DIGEST_BYTES] = {1, 2, 3};
static const struct tp_wire_file absent = {
    .kind = TP_WIRE_FILE_ABSENT, .name_len = 3, .name = "d/b"};
static const struct tp_wire_file header = {.kind = TP_WIRE_FILE_REGULAR,
                                           .has_content = true,
                                           .name_len = 5,
                                           .len = 3,
                                           .identity = 9,
                                           .digest = digest,
                                           .name = "d/a.h",
                                           .content = (const uint8_t *)"abc"};

/* Writes both. @return bytes */
static size_t
write_both(uint8_t *dst)
{
    size_t len = tp_wire_file_size(&absent);

    tp_wire_put_file(dst, &absent);
    tp_wire_put_file(dst + len, &header);
    return len + tp_wire_file_size(&header);
}

static void
round_trip(void **state)
{
    uint8_t raw[128];
    size_t len = write_both(raw);
    const uint8_t *at = raw;
    struct tp_wire_file file;

    (void)state;
    assert_int_equal(tp_wire_files_check(raw, len), 2);
    assert_true(tp_wire_get_file(&at, raw + len, &file));
    assert_int_equal(file.kind, TP_WIRE_FILE_ABSENT);
    assert_memory_equal(file.name, "d/b", 3);
    assert_true(tp_wire_get_file(&at, raw + len, &file));
    assert_int_equal(file.name_len, 5);
    assert_memory_equal(file.name, "d/a.h", 5);
    assert_int_equal(file.identity, 9);
    assert_memory_equal(file.digest, digest, sizeof(digest));
    assert_memory_equal(file.content, "abc", 3);
    assert_ptr_equal(at, raw + len);
    assert_false(tp_wire_get_file(&at, raw + len, &file));
}

static void
improper_ones(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {
        {0, 0}, /* no name */
        {1, 0xff}, /* one longer than any */
        {2, 0}, /* kinds that are none */
        {2, 4},    {3, 1}, /* content of nothing */
        {4, 1}, /* size of nothing */
        {9, 0}, /* NUL in a name */
        {14, 2}, /* unknown flags */
    };
    uint8_t raw[128];
    size_t len = write_both(raw);

    (void)state;
    assert_int_equal(tp_wire_files_check(raw, 0), 0);
    for (size_t cut = 1; cut < len; cut++) {
        if (cut != tp_wire_file_size(&absent)) {
            assert_int_equal(tp_wire_files_check(raw, cut), 0);
        }
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_both(raw);
        raw[bad[i].at] = bad[i].value;
        assert_int_equal(tp_wire_files_check(raw, len), 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(improper_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
