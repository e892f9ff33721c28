/* SPDX-License-Identifier: Apache-2.0 */
/* Records of files: what is written is read again, and nothing improper passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/files.h"

static const uint32_t links[] = {0, 1};
static const struct tp_wire_file source = {.link_count = 2, .links = links, .name = ""};
static const struct tp_wire_file header = {
    .name_len = 5, .len = 3, .name = "d/a.h", .content = (const uint8_t *)"abc"};

/* Writes both. @return bytes */
static size_t
write_both(uint8_t *dst)
{
    size_t len = tp_wire_file_size(&source);

    tp_wire_put_file(dst, &source);
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
    assert_int_equal(file.link_count, 2);
    assert_int_equal(tp_wire_file_link(&file, 0), 0);
    assert_int_equal(tp_wire_file_link(&file, 1), 1);
    assert_true(tp_wire_get_file(&at, raw + len, &file));
    assert_int_equal(file.name_len, 5);
    assert_memory_equal(file.name, "d/a.h", 5);
    assert_memory_equal(file.content, "abc", 3);
    assert_ptr_equal(at, raw + len);
    assert_false(tp_wire_get_file(&at, raw + len, &file));
}

static void
improper_ones(void **state)
{
    uint8_t raw[128];
    size_t len = write_both(raw);

    (void)state;
    assert_int_equal(tp_wire_files_check(raw, 0), 0);
    for (size_t cut = 1; cut < len; cut++) {
        if (cut != tp_wire_file_size(&source)) {
            assert_int_equal(tp_wire_files_check(raw, cut), 0);
        }
    }
    /* without the header, the second link leads nowhere */
    assert_int_equal(tp_wire_files_check(raw, tp_wire_file_size(&source)), 0);
    raw[12] = 1; /* reserved */
    assert_int_equal(tp_wire_files_check(raw, len), 0);
    write_both(raw);
    memset(raw + 4, 0xff, 4); /* links beyond the end */
    assert_int_equal(tp_wire_files_check(raw, len), 0);
    write_both(raw);
    memset(raw, 0xff, 4); /* a name longer than any */
    assert_int_equal(tp_wire_files_check(raw, len), 0);
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
