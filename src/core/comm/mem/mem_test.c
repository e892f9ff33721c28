/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the lookup of addresses with an emulated domain that knows addresses by itself
 * and counts its queries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "core/comm/mem/mem.h"

enum { BASE = 0x10000000, STEP = 0x100000, SIZE = 0x10000, ADDRESSES = 12 };

/* Memory at BASE + n * STEP; nothing is ever touched there. */
static struct {
    unsigned asked;
    uint64_t size;
    struct tp_device_copy *running[4];
    unsigned running_count;
    unsigned imports, closes;
    unsigned adopted; /* and not released */
    telpher_status adopt_status;
} fake;

static char *
address(unsigned n, uint64_t offset)
{
    return (char *)(uintptr_t)(BASE + n * STEP + offset);
}

static bool
fake_find(struct tp_device *d, const void *ptr, struct tp_device_memory *ret)
{
    uintptr_t at = (uintptr_t)ptr - BASE;

    fake.asked++;
    if (at / STEP >= ADDRESSES || at % STEP >= fake.size) {
        return false;
    }
    *ret = (struct tp_device_memory){
        .device = d,
        .mem = address((unsigned)(at / STEP), 0),
        .base = address((unsigned)(at / STEP), 0),
        .size = fake.size,
        .kind = TELPHER_MEM_CUDA,
    };
    return true;
}

static int32_t
fake_copy(struct tp_device *d, struct tp_device_copy *copy)
{
    (void)d;
    if (fake.running_count == TP_ARRAY_LEN(fake.running)) {
        return TELPHER_ERR_NO_MEMORY;
    }
    fake.running[fake.running_count++] = copy;
    return 0;
}

static unsigned
fake_progress(struct tp_device *d)
{
    unsigned count = fake.running_count;

    (void)d;
    fake.running_count = 0;
    for (unsigned i = 0; i < count; i++) {
        fake.running[i]->done(fake.running[i], 0);
    }
    return count;
}

static void
fake_flush(struct tp_device *d)
{
    (void)d;
}

static telpher_status
fake_import(struct tp_device *d, const uint8_t *blob, size_t len,
            struct tp_device_memory *ret)
{
    if (len != 1) {
        return TELPHER_ERR_INVALID;
    }
    fake.imports++;
    *ret = (struct tp_device_memory){
        .device = d,
        .mem = address(blob[0], 1),
        .base = address(blob[0], 1),
        .size = SIZE,
        .kind = TELPHER_MEM_CUDA,
    };
    return TELPHER_OK;
}

static telpher_status
fake_export(struct tp_device *d, void *mem, uint8_t blob[TP_DEVICE_BLOB_MAX],
            size_t *ret_len)
{
    (void)d;
    blob[0] = (uint8_t)(((uintptr_t)mem - BASE) / STEP);
    *ret_len = 1;
    return TELPHER_OK;
}

static void
fake_close(struct tp_device *d, void *mem)
{
    (void)d;
    (void)mem;
    fake.closes++;
}

static telpher_status
fake_adopt(struct tp_device *d, void *context, void *device, void *ptr, uint64_t bytes,
           struct tp_device_memory *ret)
{
    assert_ptr_equal(context, &fake);
    assert_ptr_equal(device, &fake.size);
    if (fake.adopt_status == TELPHER_OK) {
        fake.adopted++;
        *ret = (struct tp_device_memory){
            .device = d,
            .mem = ptr,
            .base = ptr,
            .size = bytes,
            .kind = TELPHER_MEM_CUDA,
        };
    }
    return fake.adopt_status;
}

static void
fake_release(struct tp_device *d, void *mem)
{
    (void)d;
    (void)mem;
    fake.adopted--;
}

static void
fake_destroy(struct tp_device *d)
{
    free(d);
}

static const struct tp_device_ops fake_ops = {
    .name = "fake",
    .kind = TELPHER_MEM_CUDA,
    .find = fake_find,
    .read = fake_copy,
    .write = fake_copy,
    .move = fake_copy,
    .flush = fake_flush,
    .progress = fake_progress,
    .export_mem = fake_export,
    .import_mem = fake_import,
    .close_mem = fake_close,
    .adopt_allocated = fake_adopt,
    .release = fake_release,
    .destroy = fake_destroy,
};

static telpher_status
fake_create(const struct tp_device_params *params, struct tp_device **ret_device,
            struct tp_error *err)
{
    struct tp_device *d = calloc(1, sizeof(*d));

    (void)err;
    assert_int_equal(params->local_rank, 3);
    d->ops = &fake_ops;
    *ret_device = d;
    return TELPHER_OK;
}

static telpher_status
absent_create(const struct tp_device_params *params, struct tp_device **ret_device,
              struct tp_error *err)
{
    (void)params;
    (void)ret_device;
    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED, "not on this machine");
}

static const struct tp_device_maker fake_maker = {"fake", TELPHER_MEM_CUDA,
                                                  fake_create};
static const struct tp_device_maker absent_maker = {"absent", TELPHER_MEM_OPENCL,
                                                    absent_create};
const struct tp_device_maker *const tp_builtin_devices[] = {&fake_maker, &absent_maker,
                                                            NULL};

static struct tp_mems *
make(struct tp_mems_settings *settings)
{
    const struct tp_mems_params params = {.local_rank = 3, .settings = settings};
    struct tp_mems *mems;

    memset(&fake, 0, sizeof(fake));
    fake.size = SIZE;
    assert_int_equal(tp_mems_create(&params, &mems, NULL), TELPHER_OK);
    return mems;
}

static telpher_mem_stats
stats_of(struct tp_mems *mems)
{
    telpher_mem_stats stats = {.struct_size = sizeof(stats)};

    tp_mems_stats(mems, &stats);
    return stats;
}

/* ---- lookup -------------------------------------------------------------------------- */

static void
test_cache(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place;

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned n = 0; n < 8; n++) {
            assert_int_equal(tp_mems_find(mems, address(n, 5), 10, &place), TELPHER_OK);
            assert_int_equal(place.kind, TELPHER_MEM_CUDA);
            assert_ptr_equal(place.mem, address(n, 0));
            assert_int_equal(place.offset, 5);
            assert_null(place.host);
        }
    }
    assert_int_equal(fake.asked, 8);
    assert_int_equal(stats_of(mems).lookups, 24);
    assert_int_equal(stats_of(mems).hits, 16);
    assert_int_equal(stats_of(mems).misses, 8);
    assert_int_equal(tp_mems_find(mems, address(9, 0), 1, &place), TELPHER_OK);
    assert_int_equal(fake.asked, 9);
    assert_int_equal(tp_mems_find(mems, address(7, 0), 1, &place), TELPHER_OK);
    assert_int_equal(fake.asked, 9);
    tp_mems_destroy(mems);
}

/* An address that is plain memory now may belong to a device a moment later. */
static void
test_plain_memory_is_not_remembered(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place;

    (void)state;
    fake.size = 1;
    assert_int_equal(tp_mems_find(mems, address(1, 100), 1, &place), TELPHER_OK);
    assert_int_equal(place.kind, TELPHER_MEM_HOST);
    assert_null(place.device);
    assert_ptr_equal(place.host, address(1, 100));
    fake.size = SIZE;
    assert_int_equal(tp_mems_find(mems, address(1, 100), 1, &place), TELPHER_OK);
    assert_int_equal(place.kind, TELPHER_MEM_CUDA);
    tp_mems_destroy(mems);
}

static void
test_ranges(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place;

    (void)state;
    assert_int_equal(tp_mems_find(mems, address(0, 0), SIZE, &place), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, address(0, 1), SIZE, &place),
                     TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_find(mems, address(0, 1), SIZE_MAX, &place),
                     TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_find(mems, address(0, SIZE - 1), 1, &place), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, address(0, SIZE - 1), 0, &place), TELPHER_OK);
    /* freed and allocated again at the same address, larger */
    fake.size = 2 * SIZE;
    assert_int_equal(tp_mems_find(mems, address(0, 1), SIZE, &place), TELPHER_OK);
    tp_mems_destroy(mems);
}

static void
test_registered(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place;
    static char block[408];
    char *const arrays[4] = {block + 8, block + 108, block + 208, block + 308};
    uint64_t before;

    (void)state;
    for (int i = 3; i >= 0; i--) {
        assert_int_equal(
            tp_mems_register(mems, TELPHER_MEM_HOST, arrays[i], 100, NULL, NULL),
            TELPHER_OK);
    }
    assert_int_equal(
        tp_mems_register(mems, TELPHER_MEM_HOST, arrays[1] + 99, 1, NULL, NULL),
        TELPHER_ERR_EXISTS);
    assert_int_equal(
        tp_mems_register(mems, TELPHER_MEM_HOST, arrays[0] - 1, 2, NULL, NULL),
        TELPHER_ERR_EXISTS);
    assert_int_equal(
        tp_mems_register(mems, TELPHER_MEM_HOST, arrays[0], SIZE_MAX, NULL, NULL),
        TELPHER_ERR_INVALID);
    assert_int_equal(
        tp_mems_register(mems, TELPHER_MEM_OPENCL, arrays[0], 0, NULL, NULL),
        TELPHER_ERR_UNSUPPORTED);
    before = tp_alloc_live();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tp_mems_find(mems, arrays[i] + i, 100 - (size_t)i, &place),
                         TELPHER_OK);
        assert_ptr_equal(place.host, arrays[i] + i);
        assert_int_equal(tp_mems_find(mems, arrays[i] + 50, 51, &place),
                         TELPHER_ERR_RANGE);
    }
    assert_int_equal(tp_alloc_live(), before);
    assert_int_equal(fake.asked, 0);
    assert_int_equal(tp_mems_unregister(mems, arrays[2]), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, arrays[2] + 50, 51, &place), TELPHER_OK);
    assert_int_equal(fake.asked, 1);
    tp_mems_destroy(mems);
}

/* ---- memory that a library has allocated ----------------------------------------------- */

static char block[3][1000];

static telpher_status
add_block(int i, size_t offset, size_t bytes)
{
    return tp_mems_allocated_add(TELPHER_MEM_CUDA, &fake, &fake.size, block[i] + offset,
                                 bytes);
}

static uint32_t
kind_at(struct tp_mems *mems, const void *ptr)
{
    telpher_mem_info info = {.struct_size = sizeof(info)};

    assert_int_equal(tp_mems_query(mems, ptr, &info), TELPHER_OK);
    return info.kind;
}

/* Of two contexts, one is older than the memory, the other younger. */
static void
test_allocated(void **state)
{
    uint64_t before = tp_alloc_live();
    struct tp_mems *older = make(NULL), *younger;
    struct tp_mem_place place;

    (void)state;
    assert_int_equal(add_block(0, 0, 1000), TELPHER_OK);
    assert_int_equal(add_block(0, 0, 1000), TELPHER_ERR_EXISTS);
    assert_int_equal(add_block(0, 0, 0), TELPHER_ERR_INVALID);
    assert_int_equal(
        tp_mems_allocated_add(TELPHER_MEM_CUDA, &fake, &fake.size, NULL, 1),
        TELPHER_ERR_INVALID);
    younger = make(NULL); /* clears the counters */
    assert_int_equal(kind_at(older, block[0] + 999), TELPHER_MEM_CUDA);
    assert_int_equal(kind_at(younger, block[0]), TELPHER_MEM_CUDA);
    assert_int_equal(kind_at(younger, block[0] + 1000), TELPHER_MEM_HOST);
    assert_int_equal(tp_mems_find(older, block[0] + 500, 501, &place),
                     TELPHER_ERR_RANGE);
    assert_int_equal(fake.adopted, 2);
    assert_int_equal(tp_mems_allocated_remove(block[0] + 1), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_mems_allocated_remove(block[0]), TELPHER_OK);
    assert_int_equal(tp_mems_allocated_remove(block[0]), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(kind_at(older, block[0]), TELPHER_MEM_HOST);
    tp_mems_destroy(younger); /* which did not look since */
    assert_int_equal(fake.adopted, 0);
    tp_mems_destroy(older);
    assert_int_equal(tp_alloc_live(), before);
}

/* The same address with another size, and one inside it, before the context looks. */
static void
test_allocated_again(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place;

    (void)state;
    assert_int_equal(add_block(1, 0, 1000), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, block[1], 1000, &place), TELPHER_OK);
    assert_int_equal(tp_mems_allocated_remove(block[1]), TELPHER_OK);
    assert_int_equal(add_block(1, 0, 100), TELPHER_OK);
    assert_int_equal(add_block(1, 100, 900), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, block[1], 101, &place), TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_find(mems, block[1] + 100, 900, &place), TELPHER_OK);
    assert_int_equal(fake.adopted, 2);
    assert_int_equal(tp_mems_allocated_remove(block[1]), TELPHER_OK);
    assert_int_equal(tp_mems_allocated_remove(block[1] + 100), TELPHER_OK);
    fake.adopt_status = TELPHER_ERR_UNSUPPORTED;
    assert_int_equal(add_block(2, 0, 1000), TELPHER_OK);
    assert_int_equal(kind_at(mems, block[2]), TELPHER_MEM_HOST);
    assert_int_equal(fake.adopted, 0);
    assert_int_equal(tp_mems_allocated_remove(block[2]), TELPHER_OK);
    tp_mems_destroy(mems);
}

/* A program that also registers it keeps working, in both orders. */
static void
test_allocated_and_registered(void **state)
{
    struct tp_mems *mems = make(NULL);
    char *at = block[0];

    (void)state;
    assert_int_equal(add_block(0, 0, 1000), TELPHER_OK);
    assert_int_equal(tp_mems_register(mems, TELPHER_MEM_CUDA, at, 1000, NULL, NULL),
                     TELPHER_OK);
    assert_int_equal(tp_mems_register(mems, TELPHER_MEM_CUDA, at + 9, 9, NULL, NULL),
                     TELPHER_OK);
    assert_int_equal(tp_mems_register(mems, TELPHER_MEM_CUDA, at + 9, 992, NULL, NULL),
                     TELPHER_ERR_UNSUPPORTED);
    assert_int_equal(tp_mems_register(mems, TELPHER_MEM_HOST, at, 1000, NULL, NULL),
                     TELPHER_ERR_EXISTS);
    assert_int_equal(tp_mems_free(mems, at), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_mems_unregister(mems, at), TELPHER_OK);
    assert_int_equal(tp_mems_unregister(mems, at + 9), TELPHER_OK);
    assert_int_equal(tp_mems_unregister(mems, at), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(kind_at(mems, at), TELPHER_MEM_CUDA);
    assert_int_equal(tp_mems_allocated_remove(at), TELPHER_OK);

    assert_int_equal(tp_mems_register(mems, TELPHER_MEM_HOST, at, 1000, NULL, NULL),
                     TELPHER_OK);
    assert_int_equal(add_block(0, 0, 1000), TELPHER_OK);
    assert_int_equal(kind_at(mems, at), TELPHER_MEM_HOST);
    assert_int_equal(fake.adopted, 0);
    assert_int_equal(tp_mems_allocated_remove(at), TELPHER_OK);
    assert_int_equal(tp_mems_unregister(mems, at), TELPHER_OK);
    tp_mems_destroy(mems);
}

static void *
add_and_remove(void *at)
{
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(tp_mems_allocated_add(TELPHER_MEM_CUDA, &fake, &fake.size, at,
                                               100 + (size_t)i % 7),
                         TELPHER_OK);
        assert_int_equal(tp_mems_allocated_remove(at), TELPHER_OK);
    }
    return NULL;
}

/* Threads of the library allocate while the context's thread looks addresses up. */
static void
test_allocated_by_threads(void **state)
{
    struct tp_mems *mems = make(NULL);
    pthread_t threads[2];

    (void)state;
    assert_int_equal(add_block(2, 0, 1000), TELPHER_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_remove, block[i]),
                         0);
    }
    for (int i = 0; i < 20000; i++) {
        (void)kind_at(mems, block[i % 2]);
        assert_int_equal(kind_at(mems, block[2] + i % 1000), TELPHER_MEM_CUDA);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(kind_at(mems, block[i]), TELPHER_MEM_HOST);
    }
    assert_int_equal(tp_mems_allocated_remove(block[2]), TELPHER_OK);
    tp_mems_destroy(mems);
}

/* ---- copies -------------------------------------------------------------------------- */

static void
note(struct tp_device_copy *copy, int32_t error)
{
    (void)copy;
    assert_int_equal(error, 0);
}

static void
test_copies(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_device_copy copies[5] = {
        {.done = note}, {.done = note}, {.done = note}, {.done = note}, {.done = note}};
    struct tp_mem_place a, b;
    char host;

    (void)state;
    assert_int_equal(tp_mems_find(mems, address(0, 8), 1, &a), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, address(1, 9), 1, &b), TELPHER_OK);
    assert_int_equal(tp_mems_progress(mems), 0);
    assert_int_equal(tp_mems_read(mems, &a, 1, &host, &copies[0]), TELPHER_OK);
    assert_int_equal(tp_mems_write(mems, &a, 2, &host, &copies[1]), TELPHER_OK);
    assert_true(tp_mems_can_move(&b, &a));
    assert_int_equal(tp_mems_move(mems, &b, &a, 3, &copies[2]), TELPHER_OK);
    assert_ptr_equal(copies[2].mem, address(1, 0));
    assert_int_equal(copies[2].box.origin[0], 9);
    assert_ptr_equal(copies[2].from, address(0, 0));
    assert_int_equal(copies[2].from_offset, 8);
    assert_int_equal(tp_mems_read(mems, &a, 1, &host, &copies[3]), TELPHER_OK);
    assert_int_equal(tp_mems_read(mems, &a, 1, &host, &copies[4]),
                     TELPHER_ERR_NO_MEMORY);
    assert_int_equal(tp_mems_pending(mems), 4);
    assert_int_equal(tp_mems_progress(mems), 4);
    assert_int_equal(tp_mems_pending(mems), 0);
    assert_int_equal(stats_of(mems).copies, 4);
    assert_int_equal(stats_of(mems).copied_bytes, 7);
    tp_mems_destroy(mems);
}

/* ---- other processes ----------------------------------------------------------------- */

static void
test_imports_are_remembered(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place, places[60];
    uint8_t blob[TP_MEMS_BLOB_MAX] = {0};
    size_t len;

    (void)state;
    assert_int_equal(tp_mems_find(mems, address(2, 100), 1, &place), TELPHER_OK);
    assert_int_equal(tp_mems_export(mems, &place, blob, &len), TELPHER_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tp_mems_import(mems, blob, len, SIZE - 100, &place),
                         TELPHER_OK);
        assert_int_equal(place.offset, 100);
        tp_mems_close(mems, &place);
    }
    assert_int_equal(tp_mems_import(mems, blob, len, SIZE - 99, &place),
                     TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_import(mems, blob, len + 1, 1, &place),
                     TELPHER_ERR_INVALID);
    assert_int_equal(fake.imports, 1);
    assert_int_equal(fake.closes, 0);
    for (unsigned i = 0; i < 60; i++) {
        /* imports in use stay open, unused ones up to a limit */
        blob[len - 1] = (uint8_t)(100 + i);
        assert_int_equal(tp_mems_import(mems, blob, len, 1, &places[i]), TELPHER_OK);
    }
    assert_int_equal(fake.closes, 0);
    for (unsigned i = 0; i < 60; i++) {
        tp_mems_close(mems, &places[i]);
    }
    assert_int_equal(fake.imports, 61);
    assert_int_equal(fake.closes, 61 - 32);
    tp_mems_destroy(mems);
    assert_int_equal(fake.closes, 61);
}

static void
test_imports_are_kept_open(void **state)
{
    struct tp_mems *mems = make(NULL);
    struct tp_mem_place place, places[40];
    uint8_t blob[TP_MEMS_BLOB_MAX] = {0};
    size_t len;

    (void)state;
    assert_int_equal(tp_mems_find(mems, address(2, 0), 1, &place), TELPHER_OK);
    assert_int_equal(tp_mems_export(mems, &place, blob, &len), TELPHER_OK);
    tp_mems_keep_open(mems, true);
    for (unsigned i = 0; i < 40; i++) {
        blob[len - 1] = (uint8_t)(100 + i);
        assert_int_equal(tp_mems_import(mems, blob, len, 1, &places[i]), TELPHER_OK);
        tp_mems_set_owner(mems, &places[i], i < 3 ? 7 : 8);
    }
    tp_mems_close(mems, &places[0]);
    tp_mems_forget(mems, 7); /* one is unused, one will be, one is in use to the end */
    for (unsigned i = 1; i < 40; i++) {
        if (i != 2) {
            tp_mems_close(mems, &places[i]);
        }
    }
    assert_int_equal(fake.closes, 0);
    tp_mems_keep_open(mems, false);
    assert_int_equal(fake.closes, 39);
    tp_mems_close(mems, &places[2]); /* its owner is lost */
    assert_int_equal(fake.closes, 40);
    tp_mems_destroy(mems);
    assert_int_equal(fake.closes, 40);
}

/* ---- settings ------------------------------------------------------------------------ */

static void
test_settings(void **state)
{
    static char cuda[] = "cuda", typo[] = "cdua", *names[] = {cuda, typo};
    static char *const wrong[] = {"a", "1:", ":1", "1,2", "1:99999", "1 "};
    struct tp_mems_settings settings = {.mapping = "2:0:3", .chunk = 5000, .chunks = 3};
    const struct tp_mems_params params = {.local_rank = 3, .settings = &settings};
    struct tp_mems *mems = make(&settings);
    struct tp_mem_place place;
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_mems_find(mems, address(0, 0), 1, &place), TELPHER_OK);
    assert_int_equal(tp_mems_chunk_bytes(mems, place.device), 8192);
    assert_int_equal(tp_mems_chunk_count(mems, place.device), 3);
    assert_null(tp_mems_device(mems, TELPHER_MEM_OPENCL));
    assert_null(tp_mems_device(mems, TELPHER_MEM_KINDS));
    tp_mems_destroy(mems);
    for (size_t i = 0; i < TP_ARRAY_LEN(wrong); i++) {
        settings.mapping = wrong[i];
        assert_int_equal(tp_mems_create(&params, &mems, &err), TELPHER_ERR_INVALID);
        assert_non_null(strstr(tp_error_text(&err), "TELPHER_MAPPING"));
    }
    settings.mapping = "";
    settings.domains = (struct tp_config_list){.items = names, .count = 2};
    assert_int_equal(tp_mems_create(&params, &mems, &err), TELPHER_ERR_INVALID);
    assert_non_null(strstr(tp_error_text(&err), "TELPHER_DOMAINS"));
    assert_non_null(strstr(tp_error_text(&err), "\"cdua\""));
    settings.domains.count = 1; /* cuda, a known kind that is not present */
    assert_int_equal(tp_mems_create(&params, &mems, &err), TELPHER_OK);
    tp_mems_destroy(mems);
    tp_mems_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_plain_memory_is_not_remembered),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_registered),
        cmocka_unit_test(test_allocated),
        cmocka_unit_test(test_allocated_again),
        cmocka_unit_test(test_allocated_and_registered),
        cmocka_unit_test(test_allocated_by_threads),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_imports_are_remembered),
        cmocka_unit_test(test_imports_are_kept_open),
        cmocka_unit_test(test_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
