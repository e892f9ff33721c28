/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of CUDA memory over the test driver (tests/support/testcuda): memory that programs
 * allocate, several GPUs, order against a user's stream, errors, and that nothing is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/comm/mem/mem.h"
#include "device/cuda/cuda.h"
#include "tests/support/testcuda/testcuda.h"

enum { SIZE = 100000 };

const struct tp_device_maker *const tp_builtin_devices[] = {&tp_cuda_maker, NULL};

/* The driver as a program sees it. */
static struct tp_cuda_api api;
static const struct testcuda_hooks *hooks;

struct setup {
    struct tp_mems *mems;
    CUcontext contexts[2];
    unsigned live; /* before Telpher came */
    char *ptr; /* of the program, on GPU 0 */
};

static char *
user_alloc(struct setup *s, int ordinal, size_t bytes)
{
    CUdeviceptr ptr = 0;
    CUcontext context;

    assert_int_equal(api.CtxPush(s->contexts[ordinal]), CUDA_SUCCESS);
    assert_int_equal(api.MemAlloc(&ptr, bytes), CUDA_SUCCESS);
    assert_int_equal(api.CtxPop(&context), CUDA_SUCCESS);
    return (char *)(uintptr_t)ptr;
}

static void
user_free(struct setup *s, void *ptr)
{
    CUcontext context;

    assert_int_equal(api.CtxPush(s->contexts[0]), CUDA_SUCCESS);
    assert_int_equal(api.MemFree((uintptr_t)ptr), CUDA_SUCCESS);
    assert_int_equal(api.CtxPop(&context), CUDA_SUCCESS);
}

static int
set_up(void **state)
{
    struct setup *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    assert_int_equal(api.Init(0), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(api.PrimaryCtxRetain(&s->contexts[i], i), CUDA_SUCCESS);
    }
    s->ptr = user_alloc(s, 0, SIZE);
    s->live = hooks->live();
    assert_int_equal(tp_mems_create(NULL, &s->mems, NULL), TELPHER_OK);
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct setup *s = *state;

    tp_mems_destroy(s->mems);
    assert_int_equal(hooks->live(), s->live);
    user_free(s, s->ptr);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(api.PrimaryCtxRelease(i), CUDA_SUCCESS);
    }
    assert_int_equal(hooks->live(), 0);
    free(s);
    return 0;
}

/* ---- finding ------------------------------------------------------------------------- */

static void
test_pointers_are_found(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    unsigned asked;
    int here;

    assert_int_equal(tp_mems_find(s->mems, s->ptr + 10, 20, &place), TELPHER_OK);
    assert_ptr_equal(place.by_net, s->ptr + 10);
    assert_int_equal(place.kind, TELPHER_MEM_CUDA);
    assert_non_null(place.device);
    assert_null(place.host);
    asked = hooks->calls("cuPointerGetAttributes");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tp_mems_find(s->mems, s->ptr + i, 1, &place), TELPHER_OK);
    }
    assert_int_equal(hooks->calls("cuPointerGetAttributes"), asked);
    assert_int_equal(tp_mems_find(s->mems, s->ptr + 10, SIZE, &place),
                     TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_find(s->mems, &here, sizeof(here), &place), TELPHER_OK);
    assert_null(place.device);
    assert_ptr_equal(place.host, &here);
}

/* Pinned host memory is host memory: transports may touch it. */
static void
test_pinned_memory_is_plain(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    CUcontext context;
    void *pinned;

    assert_int_equal(api.CtxPush(s->contexts[0]), CUDA_SUCCESS);
    assert_int_equal(api.MemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE),
                     CUDA_SUCCESS);
    assert_int_equal(tp_mems_find(s->mems, pinned, 4096, &place), TELPHER_OK);
    assert_null(place.device);
    assert_ptr_equal(place.host, pinned);
    assert_int_equal(api.MemFreeHost(pinned), CUDA_SUCCESS);
    assert_int_equal(api.CtxPop(&context), CUDA_SUCCESS);
}

static unsigned break_readings;

/* Stands before that of the C library. */
void *
sbrk(intptr_t increment)
{
    extern void *__sbrk(intptr_t);

    break_readings++;
    return __sbrk(increment);
}

/* The driver is not asked about the heap, where most of a program's small memory is, and the
 * break is read once a growth, since that is a system call under UCX's memory hooks. */
static void
test_heap_is_plain(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    unsigned asked = hooks->calls("cuPointerGetAttributes");
    char *heap = sbrk(4096);

    assert_ptr_not_equal(heap, (void *)-1);
    assert_int_equal(tp_mems_find(s->mems, heap, 4096, &place), TELPHER_OK);
    assert_ptr_equal(place.host, heap);
    assert_int_equal(hooks->calls("cuPointerGetAttributes"), asked);
    break_readings = 0;
    assert_int_equal(tp_mems_find(s->mems, heap, 1, &place), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, heap + 64, 1, &place), TELPHER_OK);
    assert_int_equal(break_readings, 0);
    assert_int_equal(tp_mems_find(s->mems, heap + 4096, 1, &place), TELPHER_OK);
    assert_int_equal(break_readings, 1);
    assert_int_equal(hooks->calls("cuPointerGetAttributes"), asked + 1);
}

static void
test_registered_parts(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    char byte = 1;

    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_CUDA, s->ptr + 8, 100, NULL, NULL),
        TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, s->ptr + 10, 98, &place), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, s->ptr + 10, 99, &place), TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_register(s->mems, TELPHER_MEM_CUDA, &byte, 1, NULL, NULL),
                     TELPHER_ERR_INVALID);
    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_CUDA, s->ptr + 200, SIZE, NULL, NULL),
        TELPHER_ERR_INVALID);
    assert_int_equal(tp_mems_unregister(s->mems, s->ptr + 8), TELPHER_OK);
}

/* ---- copies -------------------------------------------------------------------------- */

static void
test_two_gpus(void **state)
{
    struct setup *s = *state;
    char *other = user_alloc(s, 1, SIZE), out[1000], in[1000];
    struct tp_mem_place a, b;

    memset(out, 0x4c, sizeof(out));
    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &a), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, other, 1, &b), TELPHER_OK);
    assert_ptr_not_equal(a.device, b.device);
    assert_true(tp_mems_can_move(&a, &b));
    assert_int_equal(tp_mems_copy(s->mems, other + 7, out, 1000), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, other + 7, 1000), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, other + 7, s->ptr, 1000), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, in, s->ptr, 1000), TELPHER_OK);
    assert_memory_equal(in, out, 1000);
    assert_true(hooks->calls("cuCtxEnablePeerAccess") >= 2);
    user_free(s, other);
}

struct noted {
    struct tp_device_copy copy;
    unsigned ended;
    int32_t error;
};

static void
note(struct tp_device_copy *copy, int32_t error)
{
    struct noted *n = tp_container_of(copy, struct noted, copy);

    n->ended++;
    n->error = error;
}

/* Another GPU is met while copies of the first are under way: they end in progress, not there. */
static void
test_second_gpu_later(void **state)
{
    struct setup *s = *state;
    char *other = user_alloc(s, 1, SIZE), in;
    struct tp_mem_place a, b;
    struct noted n = {.copy.done = note};

    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &a), TELPHER_OK);
    assert_int_equal(tp_mems_read(s->mems, &a, 1, &in, &n.copy), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, other, 1, &b), TELPHER_OK);
    assert_int_equal(n.ended, 0);
    assert_int_equal(tp_mems_pending(s->mems), 1);
    while (n.ended == 0) {
        (void)tp_mems_progress(s->mems);
    }
    assert_int_equal(tp_mems_pending(s->mems), 0);
    assert_int_equal(tp_mems_chunk_bytes(s->mems, b.device),
                     tp_mems_chunk_bytes(s->mems, a.device));
    user_free(s, other);
}

static void
test_order_of_streams(void **state)
{
    struct setup *s = *state;
    CUcontext context;
    CUstream stream;
    CUevent event;
    struct tp_mem_place place;
    struct noted n = {.copy.done = note};
    char out = 5, in = 0;

    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &place), TELPHER_OK);
    assert_int_equal(api.CtxPush(s->contexts[0]), CUDA_SUCCESS);
    assert_int_equal(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(api.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    hooks->hold(stream, true);
    assert_int_equal(api.MemcpyHtoDAsync((uintptr_t)s->ptr, &out, 1, stream),
                     CUDA_SUCCESS);
    n.copy.queue = stream;
    assert_int_equal(tp_mems_read(s->mems, &place, 1, &in, &n.copy), TELPHER_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tp_mems_progress(s->mems), 0);
    }
    hooks->hold(stream, false);
    while (n.ended == 0) {
        (void)tp_mems_progress(s->mems);
    }
    assert_int_equal(n.error, 0);
    assert_int_equal(in, 5);
    assert_int_equal(api.EventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(api.StreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(api.CtxPop(&context), CUDA_SUCCESS);
}

/* Once there are enough events, copies make no more of them. */
static void
test_events_are_reused(void **state)
{
    struct setup *s = *state;
    unsigned made;
    char byte = 1;

    assert_int_equal(tp_mems_copy(s->mems, s->ptr, &byte, 1), TELPHER_OK);
    made = hooks->calls("cuEventCreate");
    for (int i = 0; i < 50; i++) {
        assert_int_equal(tp_mems_copy(s->mems, s->ptr, &byte, 1), TELPHER_OK);
    }
    assert_int_equal(hooks->calls("cuEventCreate"), made);
}

static void
test_errors_of_copies(void **state)
{
    static const char *const functions[] = {"cuCtxPushCurrent_v2",
                                            "cuMemcpyDtoHAsync_v2", "cuEventRecord"};
    struct setup *s = *state;
    struct tp_mem_place place;
    struct noted n = {.copy.done = note};
    char in;

    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &place), TELPHER_OK);
    for (size_t i = 0; i < TP_ARRAY_LEN(functions); i++) {
        hooks->fail_nth(functions[i], 1, 999);
        assert_int_equal(tp_mems_read(s->mems, &place, 1, &in, &n.copy),
                         TELPHER_ERR_DEVICE);
    }
    assert_int_equal(tp_mems_pending(s->mems), 0);
    assert_int_equal(n.ended, 0);
    hooks->fail_nth("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(tp_mems_read(s->mems, &place, 1, &in, &n.copy), TELPHER_OK);
    while (n.ended == 0) {
        (void)tp_mems_progress(s->mems);
    }
    assert_int_equal(n.error, TELPHER_ERR_DEVICE_LOST);
    assert_int_equal(tp_mems_pending(s->mems), 0);
}

/* ---- errors of the rest -------------------------------------------------------------- */

static void
test_errors_of_memory(void **state)
{
    static const char *const functions[] = {
        "cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuEventCreate",
        "cuCtxPushCurrent_v2",      "cuMemAlloc_v2",
    };
    struct setup *s = *state;
    void *ptr;

    for (size_t i = 0; i < TP_ARRAY_LEN(functions); i++) {
        hooks->fail_nth(functions[i], 1, CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(tp_mems_alloc(s->mems, TELPHER_MEM_CUDA, 4096, &ptr),
                         TELPHER_ERR_NO_MEMORY);
    }
    assert_int_equal(tp_mems_alloc(s->mems, TELPHER_MEM_CUDA, 4096, &ptr), TELPHER_OK);
    assert_int_equal(tp_mems_free(s->mems, ptr), TELPHER_OK);
}

static void
test_errors_of_sharing(void **state)
{
    struct setup *s = *state;
    uint8_t blob[TP_MEMS_BLOB_MAX];
    struct tp_mem_place place, own;
    unsigned asked;
    size_t len;

    assert_int_equal(tp_mems_find(s->mems, s->ptr + 5, 1, &place), TELPHER_OK);
    hooks->fail_nth("cuIpcGetMemHandle", 1, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(tp_mems_export(s->mems, &place, blob, &len),
                     TELPHER_ERR_UNSUPPORTED);
    assert_int_equal(tp_mems_export(s->mems, &place, blob, &len), TELPHER_OK);
    asked = hooks->calls("cuIpcGetMemHandle");
    assert_int_equal(tp_mems_export(s->mems, &place, blob, &len), TELPHER_OK);
    assert_int_equal(hooks->calls("cuIpcGetMemHandle"), asked);
    /* its own blob is its own memory, which the driver would not open */
    assert_int_equal(tp_mems_import(s->mems, blob, len, SIZE - 5, &own), TELPHER_OK);
    assert_ptr_equal(own.mem, place.mem);
    assert_int_equal(own.offset, 5);
    tp_mems_close(s->mems, &own);
    blob[16] ^= 1; /* another process, whose handle is none */
    assert_int_equal(tp_mems_import(s->mems, blob, len, 1, &own),
                     TELPHER_ERR_UNSUPPORTED);
}

static void
test_mapping(void **state)
{
    struct setup *s = *state;
    struct tp_mems_settings settings = {.mapping = "1"};
    const struct tp_mems_params params = {.settings = &settings};
    struct tp_mems *mems;
    struct tp_mem_place here, there;
    void *ptr;

    assert_int_equal(tp_mems_create(&params, &mems, NULL), TELPHER_OK);
    assert_int_equal(tp_mems_alloc(mems, TELPHER_MEM_CUDA, 4096, &ptr), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, ptr, 1, &there), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, s->ptr, 1, &here), TELPHER_OK);
    assert_ptr_not_equal(here.device, there.device);
    tp_mems_destroy(mems);
    settings.mapping = "2";
    assert_int_equal(tp_mems_create(&params, &mems, NULL), TELPHER_OK);
    assert_int_equal(tp_mems_alloc(mems, TELPHER_MEM_CUDA, 4096, &ptr),
                     TELPHER_ERR_UNSUPPORTED);
    tp_mems_destroy(mems);
}

/* Where ranks share a GPU, short writes go by rows; odd ones do not. */
static void
test_short_writes_to_a_shared_gpu(void **state)
{
    static const struct {
        size_t len;
        unsigned rows;
    } writes[] = {{1, 0}, {2, 1}, {7, 0}, {512, 1}};
    static uint8_t out[SIZE], in[SIZE];
    struct setup *s = *state;
    const struct tp_mems_params params = {.local_size = 3};
    struct tp_mems *mems;
    unsigned before;

    assert_int_equal(tp_mems_create(&params, &mems, NULL), TELPHER_OK);
    /* the first use measures the GPU */
    assert_int_equal(tp_mems_copy(mems, s->ptr, out, 1), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, out, 1), TELPHER_OK);
    for (size_t i = 0; i < TP_ARRAY_LEN(writes); i++) {
        size_t len = writes[i].len;

        assert_true(len <= SIZE);
        for (size_t at = 0; at < len; at++) {
            out[at] = (uint8_t)(at * 7 + i);
        }
        before = hooks->calls("cuMemcpy2DAsync_v2");
        assert_int_equal(tp_mems_copy(mems, s->ptr, out, len), TELPHER_OK);
        assert_int_equal(hooks->calls("cuMemcpy2DAsync_v2") - before, writes[i].rows);
        assert_int_equal(tp_mems_copy(mems, in, s->ptr, len), TELPHER_OK);
        assert_memory_equal(in, out, len);
    }
    before = hooks->calls("cuMemcpy2DAsync_v2");
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, out, 2),
                     TELPHER_OK); /* not shared */
    assert_int_equal(hooks->calls("cuMemcpy2DAsync_v2"), before);
    tp_mems_destroy(mems);
}

/* Elements of two ranges are combined on the GPU that both are on. */
static void
test_combine(void **state)
{
    struct setup *s = *state;
    double mine[3] = {1.5, -2, 4}, theirs[3] = {0.5, 3, -4}, got[3];
    int64_t bits[2] = {0x10f, 7}, mask[2] = {0xff, 1}, left[2];
    char *other = user_alloc(s, 1, 64);

    assert_int_equal(tp_mems_copy(s->mems, s->ptr, mine, sizeof(mine)), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr + 64, theirs, sizeof(theirs)),
                     TELPHER_OK);
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_SUM, TELPHER_MEM_DOUBLE,
                                     s->ptr, s->ptr + 64, s->ptr + 128, 3),
                     TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, got, s->ptr + 128, sizeof(got)), TELPHER_OK);
    assert_true(got[0] == 2 && got[1] == 1 && got[2] == 0);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, bits, sizeof(bits)), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr + 64, mask, sizeof(mask)),
                     TELPHER_OK);
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_AND, TELPHER_MEM_INT64,
                                     s->ptr, s->ptr + 64, s->ptr, 2),
                     TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, left, s->ptr, sizeof(left)), TELPHER_OK);
    assert_true(left[0] == 0x0f && left[1] == 1);
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_XOR, TELPHER_MEM_DOUBLE,
                                     s->ptr, s->ptr, s->ptr, 0),
                     TELPHER_ERR_UNSUPPORTED);
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_SUM, TELPHER_MEM_DOUBLE,
                                     s->ptr, other, s->ptr, 1),
                     TELPHER_ERR_UNSUPPORTED); /* two GPUs */
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_SUM, TELPHER_MEM_DOUBLE,
                                     s->ptr, s->ptr + 4, s->ptr, 1),
                     TELPHER_ERR_UNSUPPORTED); /* not aligned */
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_SUM, TELPHER_MEM_DOUBLE,
                                     s->ptr, s->ptr, s->ptr, SIZE),
                     TELPHER_ERR_RANGE);
    hooks->fail_nth("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_SUM, TELPHER_MEM_DOUBLE,
                                     s->ptr, s->ptr, s->ptr, 1),
                     TELPHER_ERR_DEVICE_LOST);
    user_free(s, other);
}

static void
test_no_driver(void **state)
{
    const struct tp_device_params params = {.ordinal = UINT32_MAX, .options = ""};
    struct tp_device *d;
    struct tp_error err = {0};
    char *library = strdup(TESTCUDA_LIBRARY);

    (void)state;
    assert_int_equal(setenv("TELPHER_LIBCUDA", "libnothing.so.1", 1), 0);
    assert_int_equal(tp_cuda_maker.create(&params, &d, &err), TELPHER_ERR_UNSUPPORTED);
    assert_int_equal(setenv("TELPHER_LIBCUDA", "libm.so.6", 1), 0);
    assert_int_equal(tp_cuda_maker.create(&params, &d, &err), TELPHER_ERR_UNSUPPORTED);
    assert_non_null(strstr(tp_error_text(&err), "cuInit"));
    assert_int_equal(setenv("TELPHER_LIBCUDA", library, 1), 0);
    free(library);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pointers_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pinned_memory_is_plain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heap_is_plain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_registered_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_gpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_gpu_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_streams, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_events_are_reused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_of_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_of_sharing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mapping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_writes_to_a_shared_gpu, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_combine, set_up, tear_down),
        cmocka_unit_test(test_no_driver),
    };
    struct tp_error err = {0};
    void *library;

    assert_int_equal(setenv("TELPHER_LIBCUDA", TESTCUDA_LIBRARY, 1), 0);
    assert_int_equal(tp_cuda_load(&api, &err), TELPHER_OK);
    library = dlopen(TESTCUDA_LIBRARY, RTLD_NOW);
    hooks = dlsym(library, "testcuda_hooks");
    assert_non_null(hooks);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
