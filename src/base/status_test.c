/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the status list and of error texts. */
#include "base/test_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <telpher/telpher.h>

#include "base/error.h"

static const telpher_status all[] = {
#define STATUS_VALUE(name, value, text) value,
    TELPHER_STATUS_MAP(STATUS_VALUE)
#undef STATUS_VALUE
};

static void
every_status_has_its_own_name_and_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(all); i++) {
        assert_string_not_equal(telpher_status_name(all[i]), "TELPHER_ERR_UNKNOWN");
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(telpher_status_name(all[i]),
                                    telpher_status_name(all[j]));
            assert_string_not_equal(telpher_status_text(all[i]),
                                    telpher_status_text(all[j]));
        }
    }
    assert_string_equal(telpher_status_name(TELPHER_ERR_PEER_LOST),
                        "TELPHER_ERR_PEER_LOST");
    assert_string_equal(telpher_status_text(TELPHER_OK), "success");
}

static void
unknown_status_is_said_to_be_unknown(void **state)
{
    (void)state;
    assert_string_equal(telpher_status_name(-12345), "TELPHER_ERR_UNKNOWN");
    assert_string_equal(telpher_status_text(INT32_MAX), "unknown status");
}

static void
version_agrees_with_header(void **state)
{
    char text[32];

    (void)state;
    snprintf(text, sizeof(text), "%d.%d.%d", TELPHER_VERSION_MAJOR,
             TELPHER_VERSION_MINOR, TELPHER_VERSION_PATCH);
    assert_string_equal(text, TELPHER_VERSION_STRING);
    assert_string_equal(text, telpher_version());
}

static void
error_keeps_code_and_text(void **state)
{
    struct tp_error err = {0};

    (void)state;
    assert_string_equal(tp_error_text(&err), "success");
    assert_int_equal(tp_error_set(&err, TELPHER_ERR_RANGE, "port %d", 70000),
                     TELPHER_ERR_RANGE);
    assert_int_equal(err.code, TELPHER_ERR_RANGE);
    assert_string_equal(tp_error_text(&err), "port 70000");
    assert_int_equal(tp_error_prefix(&err, "line %d", 3), TELPHER_ERR_RANGE);
    assert_string_equal(err.text, "line 3: port 70000");
    tp_error_set(&err, TELPHER_ERR_IO, "%s!", err.text);
    assert_string_equal(err.text, "line 3: port 70000!");
    assert_int_equal(tp_error_set(NULL, TELPHER_ERR_IO, "x"), TELPHER_ERR_IO);
}

static void
long_error_text_is_cut_visibly(void **state)
{
    char text[2 * TP_ERROR_TEXT_SIZE];
    struct tp_error err;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tp_error_set(&err, TELPHER_ERR_IO, "%s", text);
    assert_int_equal(strlen(err.text), TP_ERROR_TEXT_SIZE - 1);
    assert_string_equal(err.text + TP_ERROR_TEXT_SIZE - 4, "...");
}

static void
errno_is_mapped_by_what_is_lost(void **state)
{
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_error_from_errno(0), TELPHER_OK);
    assert_int_equal(tp_error_from_errno(ECONNRESET), TELPHER_ERR_PEER_LOST);
    assert_int_equal(tp_error_from_errno(EWOULDBLOCK), TELPHER_ERR_AGAIN);
    assert_int_equal(tp_error_from_errno(99999), TELPHER_ERR_IO);
    assert_int_equal(tp_error_set_errno(&err, ENOENT, "open %s", "/x"),
                     TELPHER_ERR_NOT_FOUND);
    assert_string_equal(err.text, "open /x: No such file or directory");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name_and_text),
        cmocka_unit_test(unknown_status_is_said_to_be_unknown),
        cmocka_unit_test(version_agrees_with_header),
        cmocka_unit_test(error_keeps_code_and_text),
        cmocka_unit_test(long_error_text_is_cut_visibly),
        cmocka_unit_test(errno_is_mapped_by_what_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
