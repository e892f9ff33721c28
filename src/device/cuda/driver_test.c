/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of CUDA memory on a real driver: what only that knows of streams, of managed memory,
 * of pools, and of addresses that come back after they were freed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/clock.h"
#include "core/comm/mem/mem.h"
#include "device/cuda/api.h"
#include "device/cuda/cuda.h"

enum { SIZE = 1 << 20, PART = 4096, ATTACH_GLOBAL = 1 };

const struct tp_device_maker *const tp_builtin_devices[] = {&tp_cuda_maker, NULL};

static struct tp_cuda_api api;

/* Driver calls whose absence the domain tolerates. */
static struct {
    CUresult (*MemAllocManaged)(CUdeviceptr *ptr, size_t bytes, unsigned int flags);
    CUresult (*MemAllocAsync)(CUdeviceptr *ptr, size_t bytes, CUstream stream);
    CUresult (*MemFreeAsync)(CUdeviceptr ptr, CUstream stream);
    CUresult (*MemsetAsync)(CUdeviceptr ptr, unsigned char byte, size_t bytes,
                            CUstream stream);
    CUresult (*LaunchHostFunc)(CUstream stream, void (*fn)(void *), void *user);
} more;

struct setup {
    struct tp_mems *mems;
    CUcontext context;
    CUstream stream;
    char *ptr;
};

static int
set_up(void **state)
{
    struct setup *s = calloc(1, sizeof(*s));
    CUdeviceptr ptr;

    assert_non_null(s);
    assert_int_equal(api.PrimaryCtxRetain(&s->context, 0), CUDA_SUCCESS);
    assert_int_equal(api.CtxPush(s->context), CUDA_SUCCESS);
    assert_int_equal(api.StreamCreate(&s->stream, CU_STREAM_NON_BLOCKING),
                     CUDA_SUCCESS);
    assert_int_equal(api.MemAlloc(&ptr, SIZE), CUDA_SUCCESS);
    s->ptr = (char *)(uintptr_t)ptr;
    assert_int_equal(tp_mems_create(NULL, &s->mems, NULL), TELPHER_OK);
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct setup *s = *state;
    CUcontext context;

    tp_mems_destroy(s->mems);
    assert_int_equal(api.MemFree((uintptr_t)s->ptr), CUDA_SUCCESS);
    assert_int_equal(api.StreamDestroy(s->stream), CUDA_SUCCESS);
    assert_int_equal(api.CtxPop(&context), CUDA_SUCCESS);
    assert_ptr_equal(context, s->context); /* ours stayed current all the time */
    assert_int_equal(api.PrimaryCtxRelease(0), CUDA_SUCCESS);
    free(s);
    return 0;
}

static void
round_trip(struct setup *s, char *ptr)
{
    uint8_t out[5000], in[5000];

    memset(out, 0x61, sizeof(out));
    memset(in, 0, sizeof(in));
    assert_int_equal(tp_mems_copy(s->mems, ptr + 3, out, sizeof(out)), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr + 7, ptr + 3, sizeof(out)),
                     TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, in, s->ptr + 7, sizeof(in)), TELPHER_OK);
    assert_memory_equal(in, out, sizeof(in));
}

/* ---- order --------------------------------------------------------------------------- */

struct noted {
    struct tp_device_copy copy;
    bool ended;
    int32_t error;
};

static void
note(struct tp_device_copy *copy, int32_t error)
{
    struct noted *n = tp_container_of(copy, struct noted, copy);

    n->ended = true;
    n->error = error;
}

static void
hold(void *user)
{
    while (!atomic_load((atomic_bool *)user)) {
        tp_clock_sleep(TP_CLOCK_MS);
    }
}

/* Starts a read while the user's stream is held up before it writes. Into a chunk: with
 * memory that it does not know the driver waits for the stream inside the call. */
static void
test_order(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    struct noted n = {.copy = {.done = note, .queue = s->stream}};
    atomic_bool go = false;
    uint8_t *chunk;
    tp_ns until;

    assert_int_equal(tp_mems_find(s->mems, s->ptr, SIZE, &place), TELPHER_OK);
    chunk = tp_mems_chunk_take(s->mems, place.device);
    assert_non_null(chunk);
    memset(chunk, 0, PART);
    assert_int_equal(more.LaunchHostFunc(s->stream, hold, &go), CUDA_SUCCESS);
    assert_int_equal(more.MemsetAsync((uintptr_t)s->ptr, 0x5b, SIZE, s->stream),
                     CUDA_SUCCESS);
    assert_int_equal(tp_mems_read(s->mems, &place, PART, chunk, &n.copy), TELPHER_OK);
    until = tp_clock_deadline(50 * TP_CLOCK_MS);
    while (!tp_clock_passed(until)) {
        assert_int_equal(tp_mems_progress(s->mems), 0);
    }
    atomic_store(&go, true);
    until = tp_clock_deadline(20 * TP_CLOCK_S);
    while (!n.ended && !tp_clock_passed(until)) {
        (void)tp_mems_progress(s->mems);
    }
    assert_true(n.ended);
    assert_int_equal(n.error, 0);
    for (size_t i = 0; i < PART; i++) {
        assert_int_equal(chunk[i], 0x5b);
    }
    tp_mems_chunk_give(s->mems, place.device, chunk);
}

/* Another stream's work holds up nothing that does not name it. */
static void
test_no_order(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    atomic_bool go = false;
    char byte = 1;

    /* met before: allocating may wait for what runs */
    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &place), TELPHER_OK);
    assert_int_equal(more.LaunchHostFunc(s->stream, hold, &go), CUDA_SUCCESS);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, &byte, 1), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, &byte, s->ptr, 1), TELPHER_OK);
    atomic_store(&go, true);
    assert_int_equal(api.StreamSynchronize(s->stream), CUDA_SUCCESS);
}

/* ---- kinds of pointers --------------------------------------------------------------- */

static void
test_managed(void **state)
{
    struct setup *s = *state;
    uint8_t blob[TP_MEMS_BLOB_MAX];
    struct tp_mem_place place;
    CUdeviceptr ptr;
    size_t len;

    assert_int_equal(more.MemAllocManaged(&ptr, SIZE, ATTACH_GLOBAL), CUDA_SUCCESS);
    assert_int_equal(tp_mems_find(s->mems, (void *)(uintptr_t)ptr, SIZE, &place),
                     TELPHER_OK);
    assert_int_equal(place.kind, TELPHER_MEM_CUDA);
    assert_null(place.by_net); /* it may move while a network has its address */
    round_trip(s, (char *)(uintptr_t)ptr);
    assert_int_equal(tp_mems_export(s->mems, &place, blob, &len),
                     TELPHER_ERR_UNSUPPORTED);
    assert_int_equal(api.MemFree(ptr), CUDA_SUCCESS);
}

static void
test_pool(void **state)
{
    struct setup *s = *state;
    uint8_t blob[TP_MEMS_BLOB_MAX];
    struct tp_mem_place place;
    CUdeviceptr ptr;
    size_t len;

    assert_int_equal(more.MemAllocAsync(&ptr, SIZE, s->stream), CUDA_SUCCESS);
    assert_int_equal(api.StreamSynchronize(s->stream), CUDA_SUCCESS);
    assert_int_equal(tp_mems_find(s->mems, (void *)(uintptr_t)ptr, SIZE, &place),
                     TELPHER_OK);
    assert_int_equal(place.kind, TELPHER_MEM_CUDA);
    round_trip(s, (char *)(uintptr_t)ptr);
    assert_int_equal(tp_mems_export(s->mems, &place, blob, &len),
                     TELPHER_ERR_UNSUPPORTED); /* such memory has no handle */
    assert_int_equal(more.MemFreeAsync(ptr, s->stream), CUDA_SUCCESS);
    assert_int_equal(api.StreamSynchronize(s->stream), CUDA_SUCCESS);
}

static void
test_pinned(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    void *pinned;

    assert_int_equal(api.MemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE),
                     CUDA_SUCCESS);
    assert_int_equal(tp_mems_find(s->mems, pinned, 4096, &place), TELPHER_OK);
    assert_null(place.device);
    assert_ptr_equal(place.host, pinned);
    assert_int_equal(api.MemFreeHost(pinned), CUDA_SUCCESS);
}

/* Memory is freed and allocated again in other sizes, without a call that says so. */
static void
test_addresses_come_back(void **state)
{
    struct setup *s = *state;
    unsigned again = 0;
    CUdeviceptr last = 0;

    for (unsigned i = 0; i < 40; i++) {
        size_t bytes = (size_t)(i % 4 + 1) * 600000;
        struct tp_mem_place place;
        CUdeviceptr ptr;

        assert_int_equal(api.MemAlloc(&ptr, bytes), CUDA_SUCCESS);
        assert_int_equal(tp_mems_find(s->mems, (void *)(uintptr_t)ptr, bytes, &place),
                         TELPHER_OK);
        round_trip(s, (char *)(uintptr_t)ptr + bytes - 6000);
        again += ptr == last;
        last = ptr;
        assert_int_equal(api.MemFree(ptr), CUDA_SUCCESS);
    }
    print_message("%u of 39 had the address of the one before\n", again);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_managed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pinned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_addresses_come_back, set_up, tear_down),
    };
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"cuMemAllocManaged", &more.MemAllocManaged},
        {"cuMemAllocAsync", &more.MemAllocAsync},
        {"cuMemFreeAsync", &more.MemFreeAsync},
        {"cuMemsetD8Async", &more.MemsetAsync},
        {"cuLaunchHostFunc", &more.LaunchHostFunc},
    };
    struct tp_error err = {0};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (library == NULL || tp_cuda_load(&api, &err) != TELPHER_OK ||
        api.Init(0) != CUDA_SUCCESS) {
        printf("skipped: no NVIDIA GPU on this machine\n");
        return 77;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(functions); i++) {
        void *symbol = dlsym(library, functions[i].name);

        if (symbol == NULL) {
            printf("the driver has no %s\n", functions[i].name);
            return 1;
        }
        memcpy(functions[i].function, &symbol, sizeof(symbol));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
