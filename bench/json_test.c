/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON writer writes, byte by byte. */
#include "bench/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Opens a writer into memory; close_and_compare() ends it. */
static struct bench_json
open_writer(char **text, size_t *length)
{
    struct bench_json json = {0};

    json.file = open_memstream(text, length);
    assert_non_null(json.file);
    return json;
}

static void
close_and_compare(struct bench_json *json, char **text, const char *wanted)
{
    fclose(json->file);
    assert_string_equal(*text, wanted);
    free(*text);
}

static void
nested_values_are_separated(void **state)
{
    char *text;
    size_t length;
    struct bench_json json = open_writer(&text, &length);

    (void)state;
    bench_json_open(&json, NULL, '{');
    bench_json_number(&json, "a", 1.5);
    bench_json_open(&json, "list", '[');
    bench_json_open_flat(&json, NULL, '{');
    bench_json_bool(&json, "b", true);
    bench_json_text(&json, "c", "d");
    bench_json_close(&json, '}');
    bench_json_number(&json, NULL, 2);
    bench_json_close(&json, ']');
    bench_json_close(&json, '}');
    close_and_compare(
        &json, &text,
        "{\n  \"a\": 1.5,\n  \"list\": [\n    {\"b\": true, \"c\": \"d\"},\n"
        "    2\n  ]\n}\n");
}

static void
text_is_escaped(void **state)
{
    char *text;
    size_t length;
    struct bench_json json = open_writer(&text, &length);

    (void)state;
    bench_json_text(&json, NULL, "a\"b\\c\nd");
    close_and_compare(&json, &text, "\"a\\\"b\\\\c\\u000ad\"");
}

static void
no_number_is_null(void **state)
{
    char *text;
    size_t length;
    struct bench_json json = open_writer(&text, &length);

    (void)state;
    bench_json_open_flat(&json, NULL, '[');
    bench_json_number(&json, NULL, NAN);
    bench_json_number(&json, NULL, INFINITY);
    bench_json_close(&json, ']');
    close_and_compare(&json, &text, "[null, null]\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_values_are_separated),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(no_number_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
