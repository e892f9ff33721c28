/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of staging memory: reuse, what is kept, what is given back, want of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "device/host/staging.h"

enum { CHUNK = 64 << 10 };

static void
test_reuse(void **state)
{
    struct tp_host_staging *s;
    void *a, *b;

    (void)state;
    assert_int_equal(tp_host_staging_create(CHUNK, 4, &s), TELPHER_OK);
    a = tp_host_staging_get(s);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % 4096, 0);
    memset(a, 0xab, CHUNK);
    tp_host_staging_put(s, a);
    b = tp_host_staging_get(s);
    assert_ptr_equal(a, b);
    assert_int_equal(((uint8_t *)b)[CHUNK - 1], 0xab);
    assert_int_equal(tp_host_staging_used(s), 1);
    tp_host_staging_put(s, b);
    tp_host_staging_put(s, NULL);
    assert_int_equal(tp_host_staging_used(s), 0);
    tp_host_staging_destroy(s);
}

static void
test_slab(void **state)
{
    struct tp_host_staging *s;
    uint8_t *slab, *chunks[3];
    size_t bytes;

    (void)state;
    assert_int_equal(tp_host_staging_create(CHUNK, 2, &s), TELPHER_OK);
    slab = tp_host_staging_slab(s, &bytes);
    assert_int_equal(bytes, 2 * CHUNK);
    for (int i = 0; i < 3; i++) {
        chunks[i] = tp_host_staging_get(s);
        assert_non_null(chunks[i]);
        assert_true((chunks[i] >= slab && chunks[i] < slab + bytes) == (i < 2));
    }
    assert_ptr_not_equal(chunks[0], chunks[1]);
    for (int i = 0; i < 3; i++) {
        tp_host_staging_put(s, chunks[i]);
    }
    tp_host_staging_destroy(s);
}

static void
test_gives_memory_back(void **state)
{
    struct tp_host_staging *s;
    void *chunks[8];
    uint64_t before = tp_alloc_live();

    (void)state;
    assert_int_equal(tp_host_staging_create(CHUNK, 2, &s), TELPHER_OK);
    for (int i = 0; i < 8; i++) {
        chunks[i] = tp_host_staging_get(s);
        assert_non_null(chunks[i]);
    }
    for (int i = 0; i < 8; i++) {
        tp_host_staging_put(s, chunks[i]);
    }
    assert_int_equal(tp_alloc_live(), before + 2); /* itself and the slab */
    tp_host_staging_destroy(s);
    assert_int_equal(tp_alloc_live(), before);
}

static void
test_no_memory(void **state)
{
    struct tp_host_staging *s;
    void *kept;

    (void)state;
    for (unsigned i = 1; i <= 2; i++) {
        tp_alloc_fail_nth(i);
        assert_int_equal(tp_host_staging_create(CHUNK, 1, &s), TELPHER_ERR_NO_MEMORY);
    }
    tp_alloc_fail_nth(0);
    assert_int_equal(tp_host_staging_create(CHUNK, 1, &s), TELPHER_OK);
    kept = tp_host_staging_get(s);
    assert_non_null(kept);
    tp_alloc_fail_nth(1);
    assert_null(tp_host_staging_get(s));
    assert_int_equal(tp_host_staging_used(s), 1);
    tp_alloc_fail_nth(0);
    tp_host_staging_put(s, kept);
    tp_host_staging_destroy(s);
    tp_host_staging_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_slab),
        cmocka_unit_test(test_gives_memory_back),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
