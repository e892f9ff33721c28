/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of checkpoints count, and which process gets a copy, by what folders have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mdr/checkpoint/parts.h"

static void
make_files(const char *folder, const char *const *names)
{
    for (; *names != NULL; names++) {
        char path[TP_MDR_PATH_BYTES];
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, *names);
        f = fopen(path, "wbe");
        assert_non_null(f);
        (void)fclose(f);
    }
}

static void
remove_folder(const char *folder)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "rm -r %s", folder);
    assert_int_equal(system(line), 0); // NOLINT(cert-env33-c): a name of this test
}

/* Hosts a and b have folders of their own; processes 0 and 1 are on a, 2 on b. */
static void
test_hosts(void **state)
{
    static const char *const on_a[] = {"65537-0-of-3.mdr",
                                       "65537-1-of-3.mdr",
                                       "131074-0-of-3.mdr",
                                       "131074-1-of-3.new",
                                       "x",
                                       "9-9-of-3.mdr",
                                       NULL};
    static const char *const on_b[] = {"65537-2-of-3.mdr", "131074-2-of-3.mdr", NULL};
    char a[] = "/tmp/places-XXXXXX", b[] = "/tmp/places-XXXXXX";
    struct tp_mdr_found found[3];
    uint32_t parts;

    (void)state;
    assert_non_null(mkdtemp(a));
    assert_non_null(mkdtemp(b));
    make_files(a, on_a);
    make_files(b, on_b);
    for (uint32_t r = 0; r < 3; r++) {
        tp_mdr_list_parts(r < 2 ? a : b, UINT64_MAX, &found[r]);
    }
    assert_true(found[0].place == found[1].place && found[0].place != found[2].place);
    assert_int_equal(tp_mdr_buddy_of(found, 3, 0), 2);
    assert_int_equal(tp_mdr_buddy_of(found, 3, 1), 2);
    assert_int_equal(tp_mdr_buddy_of(found, 3, 2), 0);
    assert_int_equal(tp_mdr_buddy_of(found, 2, 1), 1); /* one host: no copy */

    assert_int_equal(tp_mdr_newest_of(found, 3, &parts), 131074);
    assert_false(tp_mdr_is_whole(found, 3, 131074, parts)); /* part 1 is incomplete */
    for (uint32_t r = 0; r < 3; r++) {
        tp_mdr_list_parts(r < 2 ? a : b, 131074, &found[r]);
    }
    assert_int_equal(tp_mdr_newest_of(found, 3, &parts), 65537);
    assert_true(tp_mdr_is_whole(found, 3, 65537, parts));
    assert_int_equal(tp_mdr_holder_of(found, 3, 65537, 2), 2);
    assert_false(tp_mdr_is_whole(found, 2, 65537, parts)); /* without host b */

    tp_mdr_remove_parts(a, 65537, 65538);
    tp_mdr_list_parts(a, UINT64_MAX, &found[0]);
    assert_int_equal(found[0].generation, 131074);
    tp_mdr_list_parts(a, 131074, &found[0]);
    assert_int_equal(found[0].generation, 0);
    remove_folder(a);
    remove_folder(b);
}

/* Host b is gone while the others save again, and comes back with its part of another attempt. */
static void
test_old_attempt(void **state)
{
    struct tp_mdr_found found[2] = {{.generation = 65536 | 7, .random = 0x123456},
                                    {.generation = 65536 | 7, .random = 0x000001}};
    uint64_t first = tp_mdr_next_generation(found, 2, 65536 | 7), second;
    uint32_t parts;

    (void)state;
    assert_int_equal(first, 2 * 65536 | 0x3457);
    found[1].random = 2;
    second = tp_mdr_next_generation(found, 2, 65536 | 7);
    assert_true(first != second && second > (65536 | 7));
    assert_true(tp_mdr_next_generation(found, 2, first) > second);

    found[0] = (struct tp_mdr_found){.generation = first, .size = 2, .parts = {1}};
    found[1] = (struct tp_mdr_found){.generation = second, .size = 2, .parts = {3}};
    assert_true(first > second);
    assert_int_equal(tp_mdr_newest_of(found, 2, &parts), first);
    assert_false(tp_mdr_is_whole(found, 2, first, parts));
    assert_true(tp_mdr_is_whole(found, 2, second, 2));
    assert_int_equal(tp_mdr_holder_of(found, 2, second, 0), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts),
                                       cmocka_unit_test(test_old_attempt)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
