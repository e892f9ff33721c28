/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in a worker: made, found, passed to kernels of both kinds, freed; bad orders refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "offload/worker/parts.h"

static telpher_block seen;
static double factor_seen;

static int
scale(telpher_block a, double factor, telpher_bytes bytes)
{
    seen = a;
    factor_seen = factor;
    return (int)bytes.len;
}
TELPHER_KERNEL(scale, telpher_block, double, telpher_bytes)
TELPHER_KERNEL_TEXT(scale, "t_scale", "AdB>i")

static const struct tp_offload_array array = {77, 101, 24, 0};

static void
parts_are_all_rows(void **state)
{
    struct tp_error err = {0};
    uint64_t next = 0;

    (void)state;
    for (int i = 0; i < 13; i++) {
        struct tp_offload_parts parts = {0};
        const char zeros[24] = {0};
        telpher_block *part;

        assert_int_equal(tp_offload_parts_create(&parts, &array, 13, i, &err),
                         TELPHER_OK);
        part = tp_offload_parts_find(&parts, &array);
        assert_non_null(part);
        assert_true(part->first == next && part->all_rows == 101);
        assert_int_equal(part->row_bytes, 24);
        assert_int_equal((uintptr_t)part->data % 64, 0);
        for (uint64_t row = 0; row < part->rows; row++) {
            assert_memory_equal((char *)part->data + row * 24, zeros, 24);
        }
        next += part->rows;
        tp_offload_parts_fini(&parts);
    }
    assert_true(next == 101);
}

static void
a_worker_may_have_no_rows(void **state)
{
    const struct tp_offload_array none = {1, 0, 8, 0}, empty = {2, 8, 0, 0};
    struct tp_offload_parts parts = {0};
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_offload_parts_create(&parts, &none, 2, 1, &err), TELPHER_OK);
    assert_int_equal(tp_offload_parts_create(&parts, &empty, 2, 1, &err), TELPHER_OK);
    assert_int_equal(tp_offload_parts_find(&parts, &none)->rows, 0);
    assert_non_null(tp_offload_parts_find(&parts, &none)->data);
    assert_int_equal(tp_offload_parts_find(&parts, &empty)->rows, 4);
    tp_offload_parts_fini(&parts);
}

static void
only_what_is_there_is_found(void **state)
{
    const struct tp_offload_array other_rows = {77, 100, 24, 0},
                                  other_size = {77, 101, 25, 0};
    struct tp_offload_parts parts = {0};
    struct tp_error err = {0};

    (void)state;
    assert_null(tp_offload_parts_find(&parts, &array));
    assert_int_equal(tp_offload_parts_create(&parts, &array, 3, 0, &err), TELPHER_OK);
    assert_int_equal(tp_offload_parts_create(&parts, &array, 3, 0, &err),
                     TELPHER_ERR_PROTO);
    assert_null(tp_offload_parts_find(&parts, &other_rows));
    assert_null(tp_offload_parts_find(&parts, &other_size));
    tp_offload_parts_free(&parts, 78);
    assert_non_null(tp_offload_parts_find(&parts, &array));
    tp_offload_parts_free(&parts, 77);
    assert_null(tp_offload_parts_find(&parts, &array));
    tp_offload_parts_free(&parts, 77);
    tp_offload_parts_fini(&parts);
}

/* Each allocation may be the one that fails; nothing is left then. */
static void
no_memory_is_said(void **state)
{
    struct tp_offload_parts parts = {0};

    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct tp_error err = {0};
        telpher_status status;

        tp_alloc_fail_nth(nth);
        status = tp_offload_parts_create(&parts, &array, 1, 0, &err);
        if (!tp_alloc_failed()) {
            tp_alloc_fail_nth(0);
            assert_int_equal(status, TELPHER_OK);
            assert_true(nth >= 3);
            break;
        }
        assert_int_equal(status, TELPHER_ERR_NO_MEMORY);
        assert_non_null(strstr(tp_error_text(&err), "2424 bytes"));
        assert_null(tp_offload_parts_find(&parts, &array));
    }
    tp_offload_parts_fini(&parts);
}

static void
launch(const struct tp_offload_kernel *k, const struct tp_offload_parts *parts)
{
    uint64_t id = 77, sizes[] = {sizeof(void *), sizeof(double), 5};
    double factor = 2.5;
    void *args[] = {&id, &factor, "bytes"}, *found[TELPHER_KERNEL_ARGS_MAX];
    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX];
    struct tp_error err = {0};
    uint64_t len = tp_offload_args_len(&k->sig, sizes);
    uint8_t *raw = tp_alloc_aligned(TP_OFFLOAD_ALIGN, len, "arguments");

    assert_int_equal(tp_offload_check("scale", &k->sig, 3, sizes, NULL, &err),
                     TELPHER_OK);
    tp_offload_args_put(&k->sig, args, sizes, raw);
    assert_int_equal(tp_offload_args_get(&k->sig, raw, len, found, bytes), TELPHER_OK);
    assert_int_equal(tp_offload_parts_args(parts, &k->sig, found), TELPHER_OK);
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(tp_offload_kernel_invoke(k, found), 5);
    assert_memory_equal(&seen, tp_offload_parts_find(parts, &array), sizeof(seen));
    assert_true(factor_seen == 2.5);
    id = 78; /* there is none */
    tp_offload_args_put(&k->sig, args, sizes, raw);
    assert_int_equal(tp_offload_args_get(&k->sig, raw, len, found, bytes), TELPHER_OK);
    assert_int_equal(tp_offload_parts_args(parts, &k->sig, found), TELPHER_ERR_PROTO);
    sizes[0] = 4;
    assert_int_equal(tp_offload_check("scale", &k->sig, 3, sizes, NULL, &err),
                     TELPHER_ERR_INVALID);
    assert_non_null(strstr(tp_error_text(&err), "telpher_array *"));
    tp_free(raw);
}

static void
kernels_get_their_part(void **state)
{
    struct tp_offload_parts parts = {0};
    struct tp_offload_table table;
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_offload_table_create(&table), TELPHER_OK);
    assert_int_equal(table.count, 2);
    assert_int_equal(tp_offload_parts_create(&parts, &array, 3, 1, &err), TELPHER_OK);
    launch(&table.kernels[0], &parts);
    launch(&table.kernels[1], &parts);
    tp_offload_parts_fini(&parts);
    tp_offload_table_destroy(&table);
}

static void
bad_orders_are_refused(void **state)
{
    struct tp_offload_record r = {TP_OFFLOAD_NO_KERNEL, TP_OFFLOAD_CREATE, 0, 32};
    struct tp_offload_array a = {1, UINT64_MAX, 2, 0}, got;
    struct tp_offload_table none = {NULL, 0};
    uint8_t raw[sizeof(r) + 32];
    const uint8_t *args;
    uint64_t at = 0;

    (void)state;
    assert_int_equal(tp_offload_array_read(&r, (uint8_t *)&a, &got), TELPHER_ERR_PROTO);
    a.row_bytes = 0;
    assert_int_equal(tp_offload_array_read(&r, (uint8_t *)&a, &got), TELPHER_OK);
    for (r.len = 0; r.len < 64; r.len += 16) {
        assert_int_equal(tp_offload_array_read(&r, (uint8_t *)&a, &got),
                         r.len == 32 ? TELPHER_OK : TELPHER_ERR_PROTO);
    }
    r.len = 32;
    memcpy(raw + sizeof(r), &a, sizeof(a));
    memcpy(raw, &r, sizeof(r));
    assert_int_equal(tp_offload_record_next(&none, raw, sizeof(raw), &at, &r, &args),
                     TELPHER_OK);
    assert_int_equal(at, sizeof(raw));
    r.flags = TP_OFFLOAD_PUT | TP_OFFLOAD_END; /* one thing at a time */
    memcpy(raw, &r, sizeof(r));
    at = 0;
    assert_int_equal(tp_offload_record_next(&none, raw, sizeof(raw), &at, &r, &args),
                     TELPHER_ERR_PROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_all_rows),
        cmocka_unit_test(a_worker_may_have_no_rows),
        cmocka_unit_test(only_what_is_there_is_found),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(kernels_get_their_part),
        cmocka_unit_test(bad_orders_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
