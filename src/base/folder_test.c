/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which folders belong to this user alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/folder.h"

static void
own_folders(void **state)
{
    char folder[] = "/tmp/telpher-folder-XXXXXX", link[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_true(tp_folder_is_own(folder, 077));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_true(tp_folder_is_own(folder, 022));
    assert_false(tp_folder_is_own(folder, 077));
    assert_int_equal(errno, EPERM);
    (void)snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink(folder, link), 0);
    assert_false(tp_folder_is_own(link, 022));
    assert_int_equal(errno, EPERM);
    assert_int_equal(unlink(link), 0);
    assert_false(tp_folder_is_own(link, 022));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rmdir(folder), 0);
    assert_false(tp_folder_is_own("/dev/null", 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_folders)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
