/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of OpenCL memory that programs bring: buffers and their queues, parts of buffers,
 * shared virtual memory, several contexts. On whatever OpenCL this machine has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/clock.h"
#include "core/comm/mem/mem.h"
#include "device/opencl/domain.h"
#include "device/opencl/inventory.h"
#include "device/opencl/memory/memory.h"

enum { SIZE = 1 << 20 };

const struct tp_device_maker *const tp_builtin_devices[] = {&tp_opencl_maker, NULL};

static struct tp_opencl cl;
static __typeof__(&clSVMAlloc) svm_alloc;
static __typeof__(&clSVMFree) svm_free;
static struct tp_opencl_inventory inventory;

struct setup {
    struct tp_mems *mems;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    char *ptr;
};

static cl_mem
make_buffer(cl_context context, size_t size)
{
    cl_int error;
    cl_mem buffer = cl.CreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);

    assert_int_equal(error, CL_SUCCESS);
    return buffer;
}

static int
set_up(void **state)
{
    struct setup *s = calloc(1, sizeof(*s));
    struct tp_error err = {0};
    cl_int error;

    assert_non_null(s);
    s->device = inventory.devices[0].id;
    s->context = cl.CreateContext(NULL, 1, &s->device, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(
        tp_opencl_queue_create(&cl, s->context, s->device, 120, 0, &s->queue),
        CL_SUCCESS);
    s->buffer = make_buffer(s->context, SIZE);
    assert_int_equal(tp_mems_create(NULL, &s->mems, &err), TELPHER_OK);
    assert_int_equal(tp_mems_register(s->mems, TELPHER_MEM_OPENCL, s->buffer, 0,
                                      s->queue, (void **)&s->ptr),
                     TELPHER_OK);
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct setup *s = *state;

    tp_mems_destroy(s->mems);
    cl.ReleaseMemObject(s->buffer);
    cl.ReleaseCommandQueue(s->queue);
    cl.ReleaseContext(s->context);
    free(s);
    return 0;
}

static void
fill(struct setup *s, cl_command_queue queue, uint8_t byte, cl_event after)
{
    assert_int_equal(cl.EnqueueFillBuffer(queue, s->buffer, &byte, 1, 0, SIZE,
                                          after != NULL, after != NULL ? &after : NULL,
                                          NULL),
                     CL_SUCCESS);
}

static void
assert_all(const uint8_t *bytes, size_t len, uint8_t byte)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(bytes[i], byte);
    }
}

/* ---- order --------------------------------------------------------------------------- */

struct waited {
    struct tp_device_copy copy;
    unsigned ended;
    int32_t error;
};

static void
note(struct tp_device_copy *copy, int32_t error)
{
    struct waited *w = tp_container_of(copy, struct waited, copy);

    w->ended++;
    w->error = error;
}

/* A read starts after what stands in the user's queue, and not before. */
static void
check_order(struct setup *s, cl_command_queue named, cl_command_queue used)
{
    uint8_t *bytes = calloc(1, SIZE);
    struct waited w = {.copy = {.done = note, .queue = named}};
    struct tp_mem_place place;
    tp_ns until;
    cl_int error;
    cl_event gate = cl.CreateUserEvent(s->context, &error);

    assert_int_equal(error, CL_SUCCESS);
    fill(s, used, 0x5a, gate);
    assert_int_equal(tp_mems_find(s->mems, s->ptr, SIZE, &place), TELPHER_OK);
    assert_int_equal(tp_mems_read(s->mems, &place, SIZE, bytes, &w.copy), TELPHER_OK);
    until = tp_clock_deadline(50 * TP_CLOCK_MS);
    while (!tp_clock_passed(until)) {
        assert_int_equal(tp_mems_progress(s->mems), 0);
    }
    assert_int_equal(tp_mems_pending(s->mems), 1);
    assert_int_equal(cl.SetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    until = tp_clock_deadline(20 * TP_CLOCK_S);
    while (w.ended == 0 && !tp_clock_passed(until)) {
        (void)tp_mems_progress(s->mems);
    }
    assert_int_equal(w.ended, 1);
    assert_int_equal(w.error, 0);
    assert_all(bytes, SIZE, 0x5a);
    cl.ReleaseEvent(gate);
    free(bytes);
}

static void
test_order_of_registered_queue(void **state)
{
    struct setup *s = *state;

    check_order(s, NULL, s->queue);
}

static void
test_order_of_named_queue(void **state)
{
    struct setup *s = *state;
    cl_command_queue other;

    assert_int_equal(tp_opencl_queue_create(&cl, s->context, s->device, 120, 0, &other),
                     CL_SUCCESS);
    check_order(s, other, other);
    cl.ReleaseCommandQueue(other);
}

/* ---- buffers ------------------------------------------------------------------------- */

static void
test_pointer_arithmetic(void **state)
{
    struct setup *s = *state;
    telpher_mem_info info = {.struct_size = sizeof(info)};
    struct tp_mem_place place;
    uint8_t byte = 0;

    fill(s, s->queue, 7, NULL);
    assert_int_equal(tp_mems_copy(s->mems, &byte, s->ptr + SIZE - 1, 1), TELPHER_OK);
    assert_int_equal(byte, 7);
    byte = 9;
    assert_int_equal(tp_mems_copy(s->mems, s->ptr + 12345, &byte, 1), TELPHER_OK);
    byte = 0;
    assert_int_equal(tp_mems_copy(s->mems, &byte, s->ptr + 12345, 1), TELPHER_OK);
    assert_int_equal(byte, 9);
    assert_int_equal(tp_mems_copy(s->mems, &byte, s->ptr + SIZE - 1, 2),
                     TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_query(s->mems, s->ptr + 5, &info), TELPHER_OK);
    assert_int_equal(info.kind, TELPHER_MEM_OPENCL);
    assert_ptr_equal(info.base, s->ptr);
    assert_int_equal(info.bytes, SIZE);
    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &place), TELPHER_OK);
    assert_ptr_equal(tp_opencl_memory_buffer(place.mem), s->buffer);
}

static void
test_unregister(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place place;
    cl_uint refs;
    void *again;

    assert_int_equal(tp_mems_free(s->mems, s->ptr), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_mems_unregister(s->mems, s->ptr), TELPHER_OK);
    assert_int_equal(tp_mems_unregister(s->mems, s->ptr), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(cl.GetMemObjectInfo(s->buffer, CL_MEM_REFERENCE_COUNT,
                                         sizeof(refs), &refs, NULL),
                     CL_SUCCESS);
    assert_int_equal(refs, 1);
    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &place), TELPHER_OK);
    assert_int_equal(place.kind, TELPHER_MEM_HOST);
    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_OPENCL, s->buffer, 0, NULL, &again),
        TELPHER_OK);
}

static void
test_parts_of_a_buffer(void **state)
{
    struct setup *s = *state;
    cl_buffer_region region = {4096, 8192};
    uint8_t bytes[16];
    char *part;
    cl_int error;
    cl_mem sub = cl.CreateSubBuffer(s->buffer, CL_MEM_READ_WRITE,
                                    CL_BUFFER_CREATE_TYPE_REGION, &region, &error);

    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_OPENCL, sub, 0, s->queue, (void **)&part),
        TELPHER_OK);
    memset(bytes, 0x33, sizeof(bytes));
    assert_int_equal(tp_mems_copy(s->mems, part + 8, bytes, 16), TELPHER_OK);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(tp_mems_copy(s->mems, bytes, s->ptr + 4104, 16), TELPHER_OK);
    assert_all(bytes, 16, 0x33);
    assert_int_equal(tp_mems_copy(s->mems, part + 8190, bytes, 3), TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_unregister(s->mems, part), TELPHER_OK);
    cl.ReleaseMemObject(sub);
}

/* Two contexts do not know each other's buffers, so content goes through the host. */
static void
test_two_contexts(void **state)
{
    struct setup *s = *state;
    struct tp_mem_place here, there;
    uint8_t bytes[64];
    cl_int error;
    cl_context other = cl.CreateContext(NULL, 1, &s->device, NULL, NULL, &error);
    cl_mem buffer;
    char *ptr;

    assert_int_equal(error, CL_SUCCESS);
    buffer = make_buffer(other, SIZE);
    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_OPENCL, buffer, 0, NULL, (void **)&ptr),
        TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &here), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, ptr, 1, &there), TELPHER_OK);
    assert_false(tp_mems_can_move(&there, &here));
    assert_true(tp_mems_can_move(&here, &here));
    fill(s, s->queue, 0x77, NULL);
    assert_int_equal(tp_mems_copy(s->mems, ptr, s->ptr, SIZE), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, bytes, ptr + SIZE - 64, 64), TELPHER_OK);
    assert_all(bytes, 64, 0x77);
    assert_int_equal(tp_mems_unregister(s->mems, ptr), TELPHER_OK);
    cl.ReleaseMemObject(buffer);
    cl.ReleaseContext(other);
}

/* Every operation on every type, of a registered buffer, in place and not. */
static void
test_combine(void **state)
{
    struct setup *s = *state;
    int32_t mine[4] = {1, -2, 7, 100}, theirs[4] = {5, 3, -7, 12}, got[4];
    static const int32_t want[TELPHER_MEM_OPS][4] = {
        {6, 1, 0, 112}, {5, -6, -49, 1200}, {5, 3, 7, 100},  {1, -2, -7, 12},
        {1, 2, 1, 4},   {5, -1, -1, 108},   {4, -3, -2, 104}};
    const double one[2] = {0.5, -1}, two[2] = {4, 8};
    double product[2];

    for (uint32_t op = 0; op < TELPHER_MEM_OPS; op++) {
        char *out = s->ptr + (op % 2 == 0 ? 512 : 256);

        assert_int_equal(tp_mems_copy(s->mems, s->ptr + 64, mine, 16), TELPHER_OK);
        assert_int_equal(tp_mems_copy(s->mems, s->ptr + 256, theirs, 16), TELPHER_OK);
        assert_int_equal(tp_mems_combine(s->mems, op, TELPHER_MEM_INT32, s->ptr + 64,
                                         s->ptr + 256, out, 4),
                         TELPHER_OK);
        assert_int_equal(tp_mems_copy(s->mems, got, out, 16), TELPHER_OK);
        assert_memory_equal(got, want[op], 16);
        for (uint32_t type = 0; type < TELPHER_MEM_TYPES; type++) {
            telpher_status status =
                tp_mems_combine(s->mems, op, type, s->ptr, s->ptr, s->ptr, 0);

            assert_true(status == TELPHER_OK || op >= TELPHER_MEM_AND ||
                        type == TELPHER_MEM_DOUBLE);
        }
    }
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, one, 16), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, s->ptr + 16, two, 16), TELPHER_OK);
    if (tp_mems_combine(s->mems, TELPHER_MEM_PROD, TELPHER_MEM_DOUBLE, s->ptr,
                        s->ptr + 16, s->ptr + 32, 2) == TELPHER_OK) {
        assert_int_equal(tp_mems_copy(s->mems, product, s->ptr + 32, 16), TELPHER_OK);
        assert_true(product[0] == 2 && product[1] == -8);
    }
    assert_int_equal(tp_mems_combine(s->mems, TELPHER_MEM_SUM, TELPHER_MEM_INT32,
                                     s->ptr, mine, s->ptr, 4),
                     TELPHER_ERR_UNSUPPORTED);
}

static void
test_images_are_refused(void **state)
{
    struct setup *s = *state;
    cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    cl_int error;
    cl_mem image =
        cl.CreateImage(s->context, CL_MEM_READ_WRITE, &format, &desc, NULL, &error);
    void *ptr;

    if (error != CL_SUCCESS) {
        print_message("skipped: the device has no images\n");
        return;
    }
    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_OPENCL, image, 0, NULL, &ptr),
        TELPHER_ERR_INVALID);
    cl.ReleaseMemObject(image);
}

/* Buffers are allocated in the context that the program chose. */
static void
test_use(void **state)
{
    struct setup *s = *state;
    struct tp_device *device = tp_mems_device(s->mems, TELPHER_MEM_OPENCL);
    struct tp_mem_place place;
    cl_context context = NULL;
    void *ptr;

    assert_int_equal(tp_opencl_memory_use(device, NULL), TELPHER_ERR_INVALID);
    assert_int_equal(tp_opencl_memory_use(device, s->queue), TELPHER_OK);
    assert_int_equal(tp_mems_alloc(s->mems, TELPHER_MEM_OPENCL, 4096, &ptr),
                     TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, ptr, 4096, &place), TELPHER_OK);
    assert_int_equal(cl.GetMemObjectInfo(tp_opencl_memory_buffer(place.mem),
                                         CL_MEM_CONTEXT, sizeof(context), &context,
                                         NULL),
                     CL_SUCCESS);
    assert_ptr_equal(context, s->context);
    assert_int_equal(tp_mems_free(s->mems, ptr), TELPHER_OK);
}

/* ---- pointers ------------------------------------------------------------------------ */

static void
test_shared_virtual_memory(void **state)
{
    struct setup *s = *state;
    struct tp_device *device = tp_mems_device(s->mems, TELPHER_MEM_OPENCL);
    cl_device_svm_capabilities can = 0;
    uint8_t bytes[100], back[100] = {0};
    struct tp_mem_place place, buffer;
    struct tp_mems *fresh;
    char *a;

    (void)cl.GetDeviceInfo(s->device, CL_DEVICE_SVM_CAPABILITIES, sizeof(can), &can,
                           NULL);
    if (can == 0 || svm_alloc == NULL || svm_free == NULL) {
        print_message("skipped: the device has no shared virtual memory\n");
        return;
    }
    a = svm_alloc(s->context, CL_MEM_READ_WRITE, SIZE, 0);
    assert_non_null(a);
    assert_int_equal(tp_mems_create(NULL, &fresh, NULL), TELPHER_OK);
    assert_int_equal(tp_mems_register(fresh, TELPHER_MEM_OPENCL, a, SIZE, NULL, NULL),
                     TELPHER_ERR_INVALID); /* of which context? */
    tp_mems_destroy(fresh);
    assert_int_equal(tp_opencl_memory_use(device, s->queue), TELPHER_OK);
    assert_int_equal(tp_mems_register(s->mems, TELPHER_MEM_OPENCL, a, SIZE, NULL, NULL),
                     TELPHER_OK);
    assert_int_equal(
        tp_mems_register(s->mems, TELPHER_MEM_OPENCL, a + 5, 5, NULL, NULL),
        TELPHER_ERR_EXISTS);
    memset(bytes, 0x42, sizeof(bytes));
    assert_int_equal(tp_mems_copy(s->mems, a + 50, bytes, 100), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, a + 5000, a + 50, 100), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, a, 1, &place), TELPHER_OK);
    assert_int_equal(tp_mems_find(s->mems, s->ptr, 1, &buffer), TELPHER_OK);
    assert_false(tp_mems_can_move(&buffer, &place));
    assert_int_equal(tp_mems_copy(s->mems, s->ptr, a + 5000, 100), TELPHER_OK);
    assert_int_equal(tp_mems_copy(s->mems, back, s->ptr, 100), TELPHER_OK);
    assert_memory_equal(back, bytes, 100);
    assert_int_equal(tp_mems_unregister(s->mems, a), TELPHER_OK);
    svm_free(s->context, a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_of_registered_queue, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_named_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pointer_arithmetic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unregister, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts_of_a_buffer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_contexts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_combine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_images_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_use, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shared_virtual_memory, set_up, tear_down),
    };
    struct tp_error err = {0};
    int failed;

    if (tp_opencl_load(&cl, &err) != TELPHER_OK ||
        tp_opencl_inventory_init(&cl, NULL, 0, &inventory, &err) != TELPHER_OK ||
        inventory.device_count == 0) {
        printf("skipped: no OpenCL device on this machine\n");
        return 77;
    }
    *(void **)&svm_alloc = dlsym(cl.library, "clSVMAlloc");
    *(void **)&svm_free = dlsym(cl.library, "clSVMFree");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    tp_opencl_inventory_fini(&inventory);
    return failed;
}
