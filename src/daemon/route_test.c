/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of --relay-to: which addresses they allow, and which entries are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "daemon/route.h"

static void
test_entries(void **state)
{
    static const char *const good[] = {
        "inner",          "inner:7800",       "10.1.0.0/16",
        "10.1.0.0/16:99", "[fd00::/8]",       "0.0.0.0/0",
        "[fd00::/8]:99",  "[2001:db8::1]:99", "[::/0]"};
    static const char *const bad[] = {
        "",         "in ner",        "10.1.0.0/33",  "10.1.0.0/",  "10.1/16",
        "x/8",      "10.1.0.0/16:x", "[fd00::/129]", "[fd00::/8",  "[fd00::/8]x",
        "fd00::/8", "10.1.0.0/-1",   "10.0.0.0/8 ",  "inner:70000"};
    struct tp_error err;

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(good); i++) {
        assert_int_equal(tp_route_check(good[i], &err), TELPHER_OK);
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        assert_int_equal(tp_route_check(bad[i], &err), TELPHER_ERR_INVALID);
    }
}

static telpher_status
choose(const char *address, const char *entry, char ret[TP_ROUTE_ADDRESS_BYTES])
{
    return tp_route_choose(address, &entry, 1, ret, NULL);
}

static void
expect_allowed(const char *address, const char *entry, const char *chosen)
{
    char text[TP_ROUTE_ADDRESS_BYTES];

    assert_int_equal(choose(address, entry, text), TELPHER_OK);
    assert_string_equal(text, chosen);
}

static void
expect_refused(const char *address, const char *entry)
{
    char text[TP_ROUTE_ADDRESS_BYTES] = "unset";

    assert_int_equal(choose(address, entry, text), TELPHER_ERR_PERMISSION);
    assert_string_equal(text, "unset");
}

static void
test_allowed(void **state)
{
    (void)state;
    expect_allowed("Inner", "inner", "Inner");
    expect_allowed("inner:99", "INNER:99", "inner:99");
    expect_allowed("10.1.2.3", "10.1.0.0/16", "10.1.2.3:7717");
    expect_allowed("10.1.2.3:99", "10.1.0.0/16:99", "10.1.2.3:99");
    expect_allowed("10.129.2.3", "10.128.0.0/9", "10.129.2.3:7717");
    expect_allowed("192.0.2.1", "0.0.0.0/0", "192.0.2.1:7717");
    expect_allowed("10.1.2.3", "10.1.2.3/32", "10.1.2.3:7717");
    expect_allowed("[fd00::1]", "[fd00::/8]", "[fd00::1]:7717");
}

static void
test_refused(void **state)
{
    char text[TP_ROUTE_ADDRESS_BYTES];

    (void)state;
    expect_refused("10.2.2.3", "10.1.0.0/16");
    expect_refused("10.1.2.3:22", "10.1.0.0/16");
    expect_refused("10.1.2.3", "10.1.0.0/16:99");
    expect_refused("10.127.2.3", "10.128.0.0/9");
    expect_refused("10.1.2.4", "10.1.2.3/32");
    expect_refused("127.0.0.1", "inner");
    expect_refused("[fe00::1]", "[fd00::/8]");
    expect_refused("10.1.2.3", "[::/0]");
    expect_refused("[::ffff:10.1.2.3]", "10.1.0.0/16");
    assert_int_equal(choose("unix:/etc/x", "0.0.0.0/0", text), TELPHER_ERR_UNREACHABLE);
    assert_int_equal(choose("a/b", "0.0.0.0/0", text), TELPHER_ERR_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
