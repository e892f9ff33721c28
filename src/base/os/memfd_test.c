/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of memory files: shared with another process, and names that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/memfd.h"

enum { SIZE = 12345 };

static void
test_another_process_writes(void **state)
{
    struct tp_memfd_name name;
    char *here;
    int fd, status;
    pid_t child;

    (void)state;
    assert_int_equal(tp_memfd_create("test", SIZE, &fd), TELPHER_OK);
    assert_int_equal(tp_memfd_map(fd, SIZE, (void **)&here), TELPHER_OK);
    assert_int_equal(tp_memfd_describe(fd, &name), TELPHER_OK);
    assert_int_equal(name.size, SIZE);
    child = fork();
    if (child == 0) {
        char *there = NULL;
        int other = -1;

        close(fd);
        if (tp_memfd_open(&name, &other) == TELPHER_OK &&
            tp_memfd_map(other, SIZE, (void **)&there) == TELPHER_OK) {
            memcpy(there + SIZE - 5, "hello", 5);
            _exit(0);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_memory_equal(here + SIZE - 5, "hello", 5);
    munmap(here, SIZE);
    close(fd);
}

static void
test_size_is_fixed(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(tp_memfd_create("test", SIZE, &fd), TELPHER_OK);
    assert_int_not_equal(ftruncate(fd, 1), 0);
    assert_int_not_equal(ftruncate(fd, 2 * SIZE), 0);
    close(fd);
    assert_int_equal(tp_memfd_create("test", UINT64_MAX, &fd), TELPHER_ERR_NO_MEMORY);
}

static void
test_names_that_lie(void **state)
{
    struct tp_memfd_name name, wrong;
    FILE *ordinary;
    int fd, other;

    (void)state;
    assert_int_equal(tp_memfd_create("test", SIZE, &fd), TELPHER_OK);
    assert_int_equal(tp_memfd_describe(fd, &name), TELPHER_OK);
    wrong = name, wrong.size = SIZE + 1;
    assert_int_equal(tp_memfd_open(&wrong, &other), TELPHER_ERR_INVALID);
    wrong = name, wrong.inode++;
    assert_int_equal(tp_memfd_open(&wrong, &other), TELPHER_ERR_INVALID);
    wrong = name, wrong.pid = -1;
    assert_int_equal(tp_memfd_open(&wrong, &other), TELPHER_ERR_INVALID);
    wrong = name, wrong.fd = 1 << 20;
    assert_int_equal(tp_memfd_open(&wrong, &other), TELPHER_ERR_NOT_FOUND);
    /* an ordinary file could be cut off under the mapping */
    ordinary = tmpfile();
    assert_non_null(ordinary);
    assert_int_equal(ftruncate(fileno(ordinary), SIZE), 0);
    assert_int_equal(tp_memfd_describe(fileno(ordinary), &wrong), TELPHER_OK);
    assert_int_equal(tp_memfd_open(&wrong, &other), TELPHER_ERR_INVALID);
    (void)fclose(ordinary);
    close(fd);
    assert_int_equal(tp_memfd_open(&name, &other), TELPHER_ERR_NOT_FOUND);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_process_writes),
        cmocka_unit_test(test_size_is_fixed),
        cmocka_unit_test(test_names_that_lie),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
