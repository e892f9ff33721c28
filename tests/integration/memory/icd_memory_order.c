/* SPDX-License-Identifier: Apache-2.0 */
/* icd_memory: order through host memory, events, user events, markers and barriers. */
#include "icd_memory.h"

static const size_t sizes[] = {4, 5000, 40000, 2 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/** A halo exchange: what a read brings, the next write must take, without a wait. */
static void
written_after_it_was_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *model = pattern_new(sizes[i], 5), *between = calloc(1, sizes[i]);
        cl_mem from = buffer_new(&one, CL_MEM_COPY_HOST_PTR, sizes[i], model);
        cl_mem to = buffer_new(&one, 0, sizes[i], NULL);
        cl_command_queue q = one.queues[0];

        ok(clEnqueueReadBuffer(q, from, CL_FALSE, 0, sizes[i], between, 0, NULL, NULL));
        ok(clEnqueueWriteBuffer(q, to, i % 2 == 0, 0, sizes[i], between, 0, NULL,
                                NULL));
        expect_content(q, to, model, sizes[i]);
        ok(clReleaseMemObject(from));
        ok(clReleaseMemObject(to));
        free(model);
        free(between);
    }
}

/** The same between two servers, with an event, and back. */
static void
written_elsewhere_after_it_was_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *model = pattern_new(sizes[i], 6), *between = calloc(1, sizes[i]);
        cl_mem from = buffer_new(&both, CL_MEM_COPY_HOST_PTR, sizes[i], model);
        cl_mem to = buffer_new(&both, 0, sizes[i], NULL);
        cl_event read, written;

        ok(clEnqueueReadBuffer(both.loose_queues[0], from, CL_FALSE, 0, sizes[i],
                               between, 0, NULL, &read));
        ok(clFlush(both.loose_queues[0]));
        ok(clEnqueueWriteBuffer(both.loose_queues[1], to, CL_FALSE, 0, sizes[i],
                                between, 1, &read, &written));
        ok(clFlush(both.loose_queues[1]));
        ok(clWaitForEvents(1, &written));
        expect_content(both.queues[1], to, model, sizes[i]);
        ok(clReleaseEvent(read));
        ok(clReleaseEvent(written));
        ok(clReleaseMemObject(from));
        ok(clReleaseMemObject(to));
        free(model);
        free(between);
    }
}

/** Write from a place in memory, then read into it: the read must not come first. */
static void
read_after_it_was_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *a = pattern_new(sizes[i], 7), *b = pattern_new(sizes[i], 8);
        uint8_t *host = pattern_new(sizes[i], 8);
        cl_mem from = buffer_new(&one, CL_MEM_COPY_HOST_PTR, sizes[i], a);
        cl_mem to = buffer_new(&one, 0, sizes[i], NULL);
        cl_command_queue q = one.queues[0];

        ok(clEnqueueWriteBuffer(q, to, CL_FALSE, 0, sizes[i], host, 0, NULL, NULL));
        ok(clEnqueueReadBuffer(q, from, CL_FALSE, 0, sizes[i], host, 0, NULL, NULL));
        ok(clFinish(q));
        assert_memory_equal(host, a, sizes[i]);
        expect_content(q, to, b, sizes[i]);
        ok(clReleaseMemObject(from));
        ok(clReleaseMemObject(to));
        free(a);
        free(b);
        free(host);
    }
}

/** Reads into the same memory, one after the other: the last one counts. */
static void
read_again_into_the_same_memory(void **state)
{
    enum { SIZE = 3 << 20, ROUNDS = 30 };
    uint8_t *a = pattern_new(SIZE, 1), *b = pattern_new(SIZE, 2), *host = malloc(SIZE);
    cl_mem ma = buffer_new(&both, CL_MEM_COPY_HOST_PTR, SIZE, a);
    cl_mem mb = buffer_new(&both, CL_MEM_COPY_HOST_PTR, SIZE, b);

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        cl_command_queue q = round % 3 == 0 ? both.queues[0] : both.loose_queues[0];
        cl_command_queue r = round % 3 == 2 ? both.loose_queues[1] : q;
        size_t len = round % 2 == 0 ? 100 + (size_t)round : SIZE;
        cl_event first, second;

        ok(clEnqueueReadBuffer(q, ma, CL_FALSE, 0, SIZE, host, 0, NULL, &first));
        ok(clFlush(q));
        ok(clEnqueueReadBuffer(r, mb, CL_FALSE, 0, len, host, 1, &first, &second));
        ok(clFlush(r));
        ok(clWaitForEvents(1, &second));
        ok(clWaitForEvents(1, &first));
        assert_memory_equal(host, b, len);
        assert_memory_equal(host + len, a + len, SIZE - len);
        ok(clReleaseEvent(first));
        ok(clReleaseEvent(second));
    }
    ok(clReleaseMemObject(ma));
    ok(clReleaseMemObject(mb));
    free(a);
    free(b);
    free(host);
}

/** The program fills memory, then sets the user event that the write waits for. */
static void
written_when_a_user_event_is_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *model = pattern_new(sizes[i], 9), *host = calloc(1, sizes[i]);
        cl_mem mem = buffer_new(&both, 0, sizes[i], NULL);
        cl_int err, status;
        cl_event gate = clCreateUserEvent(both.ctx, &err), done[2];

        ok(err);
        ok(clEnqueueWriteBuffer(both.queues[0], mem, CL_FALSE, 0, sizes[i], host, 1,
                                &gate, &done[0]));
        ok(clEnqueueMarkerWithWaitList(both.queues[1], 1, &done[0], &done[1]));
        ok(clFlush(both.queues[0]));
        ok(clFlush(both.queues[1]));
        ok(clGetEventInfo(done[1], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                          &status, NULL));
        assert_true(status > CL_COMPLETE);
        memcpy(host, model, sizes[i]);
        ok(clSetUserEventStatus(gate, CL_COMPLETE));
        ok(clWaitForEvents(2, done));
        expect_content(both.queues[1], mem, model, sizes[i]);
        ok(clReleaseEvent(gate));
        ok(clReleaseEvent(done[0]));
        ok(clReleaseEvent(done[1]));
        ok(clReleaseMemObject(mem));
        free(model);
        free(host);
    }
}

/** A user event that fails takes everything with it that waits for it, on both servers. */
static void
failed_user_event_fails_what_waits(void **state)
{
    cl_mem mem = buffer_new(&both, 0, 100000, NULL);
    uint8_t *host = calloc(1, 100000);
    cl_event gate, done[3];
    cl_int err, status;

    (void)state;
    gate = clCreateUserEvent(both.ctx, &err);
    ok(err);
    ok(clEnqueueWriteBuffer(both.loose_queues[0], mem, CL_FALSE, 0, 100000, host, 1,
                            &gate, &done[0]));
    ok(clEnqueueMarkerWithWaitList(both.loose_queues[1], 1, &done[0], &done[1]));
    ok(clFlush(both.loose_queues[0]));
    ok(clFlush(both.loose_queues[1]));
    ok(clSetUserEventStatus(gate, -7));
    assert_int_equal(clWaitForEvents(2, done),
                     CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    for (int i = 0; i < 2; i++) {
        ok(clGetEventInfo(done[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                          &status, NULL));
        assert_true(status < 0);
    }
    /* Known to have failed when they are enqueued. */
    assert_int_equal(clEnqueueReadBuffer(both.loose_queues[1], mem, CL_TRUE, 0, 100,
                                         host, 1, &done[0], NULL),
                     CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    ok(clEnqueueReadBuffer(both.loose_queues[1], mem, CL_FALSE, 0, 100, host, 1, &gate,
                           &done[2]));
    assert_int_equal(clWaitForEvents(1, &done[2]),
                     CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    ok(clEnqueueReadBuffer(both.loose_queues[0], mem, CL_TRUE, 0, 100, host, 0, NULL,
                           NULL)); /* others live on */
    for (int i = 0; i < 3; i++) {
        ok(clReleaseEvent(done[i]));
    }
    ok(clReleaseEvent(gate));
    ok(clReleaseMemObject(mem));
    free(host);
}

/** A chain of writes and copies on an out-of-order queue, tied by every kind of knot. */
static void
markers_and_barriers_order(void **state)
{
    cl_command_queue q = one.loose_queues[0];
    cl_mem a = buffer_new(&one, 0, 4096, NULL), b = buffer_new(&one, 0, 4096, NULL);
    uint8_t *model = malloc(4096);
    cl_event marker, copied;

    (void)state;
    for (int round = 0; round < 20; round++) {
        uint8_t v = (uint8_t)round;

        ok(clEnqueueFillBuffer(q, a, &v, 1, 0, 4096, 0, NULL, NULL));
        switch (round % 4) {
        case 0:
            ok(clEnqueueBarrier(q));
            break;
        case 1:
            ok(clEnqueueBarrierWithWaitList(q, 0, NULL, NULL));
            break;
        case 2:
            ok(clEnqueueMarker(q, &marker));
            ok(clEnqueueWaitForEvents(q, 1, &marker));
            ok(clReleaseEvent(marker));
            break;
        default:
            ok(clEnqueueMarkerWithWaitList(q, 0, NULL, &marker));
            ok(clEnqueueBarrierWithWaitList(q, 1, &marker, NULL));
            ok(clReleaseEvent(marker));
        }
        ok(clEnqueueCopyBuffer(q, a, b, 0, 0, 4096, 0, NULL, &copied));
        ok(clWaitForEvents(1, &copied));
        ok(clReleaseEvent(copied));
        memset(model, v, 4096);
        expect_content(q, b, model, 4096);
    }
    free(model);
    ok(clReleaseMemObject(a));
    ok(clReleaseMemObject(b));
}

/** A marker for events that are over must not wait for a command that is stuck. */
static void
marker_for_what_is_over_is_over(void **state)
{
    cl_command_queue q = one.loose_queues[0];
    cl_event gate, first, stuck, marker;
    cl_int err;

    (void)state;
    gate = clCreateUserEvent(one.ctx, &err);
    ok(err);
    ok(clEnqueueMarkerWithWaitList(q, 0, NULL, &first));
    ok(clWaitForEvents(1, &first));
    ok(clEnqueueMarkerWithWaitList(q, 1, &gate, &stuck));
    ok(clEnqueueMarkerWithWaitList(q, 1, &first, &marker));
    ok(clWaitForEvents(1, &marker));
    ok(clSetUserEventStatus(gate, CL_COMPLETE));
    ok(clWaitForEvents(1, &stuck));
    ok(clReleaseEvent(gate));
    ok(clReleaseEvent(first));
    ok(clReleaseEvent(stuck));
    ok(clReleaseEvent(marker));
}

/** True if commands of an out-of-order queue do not pass one that waits: NVIDIA's driver. */
static bool
runs_in_turn(void)
{
    cl_uint vendor;

    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_VENDOR_ID, sizeof(vendor), &vendor,
                       NULL));
    return vendor == 0x10de;
}

/** A map that moves no content waits for the barrier before it, and for nothing else. */
static void
map_waits_for_a_barrier(void **state)
{
    enum { LEN = 4096 };
    cl_command_queue q = one.loose_queues[0];
    cl_mem mem = buffer_new(&one, 0, LEN, NULL), other = buffer_new(&one, 0, LEN, NULL);
    cl_event gates[2], mapped, filled;
    cl_uint zero = 0;
    cl_int err, status;
    void *ptr;

    (void)state;
    for (int i = 0; i < 2; i++) {
        gates[i] = clCreateUserEvent(one.ctx, &err);
        ok(err);
    }
    ok(clEnqueueBarrierWithWaitList(q, 1, &gates[0], NULL));
    ok(clEnqueueFillBuffer(q, other, &zero, 4, 0, LEN, 1, &gates[1], &filled));
    ptr = clEnqueueMapBuffer(q, mem, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0, LEN,
                             0, NULL, &mapped, &err);
    ok(err);
    ok(clFlush(q));
    ok(clGetEventInfo(mapped, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                      &status, NULL));
    assert_true(status > CL_COMPLETE);
    ok(clSetUserEventStatus(gates[0], CL_COMPLETE));
    if (runs_in_turn()) {
        ok(clSetUserEventStatus(gates[1], CL_COMPLETE));
    }
    ok(clWaitForEvents(1, &mapped));
    if (!runs_in_turn()) {
        ok(clSetUserEventStatus(gates[1], CL_COMPLETE));
    }
    ok(clEnqueueUnmapMemObject(q, mem, ptr, 0, NULL, NULL));
    ok(clFinish(q));
    for (int i = 0; i < 2; i++) {
        ok(clReleaseEvent(gates[i]));
    }
    ok(clReleaseEvent(mapped));
    ok(clReleaseEvent(filled));
    ok(clReleaseMemObject(mem));
    ok(clReleaseMemObject(other));
}

/** A blocking write ends after the earlier reads of its queue: their memory may be used. */
static void
read_is_over_when_a_blocking_write_returns(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *model = pattern_new(sizes[i], 7), *got = calloc(1, sizes[i]);
        cl_mem from = buffer_new(&one, CL_MEM_COPY_HOST_PTR, sizes[i], model);
        cl_mem to = buffer_new(&one, 0, sizes[i], NULL);
        cl_command_queue q = one.queues[0];

        ok(clEnqueueReadBuffer(q, from, CL_FALSE, 0, sizes[i], got, 0, NULL, NULL));
        ok(clEnqueueWriteBuffer(q, to, CL_TRUE, 0, 4, model, 0, NULL, NULL));
        assert_memory_equal(got, model, sizes[i]);
        ok(clReleaseMemObject(from));
        ok(clReleaseMemObject(to));
        free(model);
        free(got);
    }
}

/** The same for a read of another queue that the writing queue has waited for. */
static void
read_elsewhere_is_over_when_a_blocking_write_returns(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *model = pattern_new(sizes[i], 8), *got = calloc(1, sizes[i]);
        cl_mem from = buffer_new(&one, CL_MEM_COPY_HOST_PTR, sizes[i], model);
        cl_mem to = buffer_new(&one, 0, sizes[i], NULL);
        cl_event read;

        ok(clEnqueueReadBuffer(one.loose_queues[0], from, CL_FALSE, 0, sizes[i], got, 0,
                               NULL, &read));
        ok(clEnqueueMarkerWithWaitList(one.queues[0], 1, &read, NULL));
        ok(clEnqueueWriteBuffer(one.queues[0], to, CL_TRUE, 0, 4, model, 0, NULL,
                                NULL));
        assert_memory_equal(got, model, sizes[i]);
        ok(clReleaseEvent(read));
        ok(clReleaseMemObject(from));
        ok(clReleaseMemObject(to));
        free(model);
        free(got);
    }
}

/** After clFinish every event of an out-of-order queue says so, though no call waited for it. */
static void
events_are_over_after_finish(void **state)
{
    enum { EVENTS = 50 };
    cl_mem mem = buffer_new(&one, 0, EVENTS * 4, NULL);
    cl_event events[EVENTS];

    (void)state;
    for (uint32_t i = 0; i < EVENTS; i++) {
        ok(clEnqueueFillBuffer(one.loose_queues[0], mem, &i, 4, (size_t)i * 4, 4, 0,
                               NULL, &events[i]));
    }
    ok(clFinish(one.loose_queues[0]));
    for (uint32_t i = 0; i < EVENTS; i++) {
        cl_int status = CL_QUEUED;

        ok(clGetEventInfo(events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                          &status, NULL));
        assert_int_equal(status, CL_COMPLETE);
        ok(clReleaseEvent(events[i]));
    }
    ok(clReleaseMemObject(mem));
}

/** Two queues fill two parts, while the first content is still on its way to the server. */
static void
parts_are_written_after_the_content_has_arrived(void **state)
{
    enum { PART = 512 << 10 };
    cl_buffer_region halves[2] = {{0, PART}, {PART, PART}};
    uint8_t *model = pattern_new(2 * PART, 8);

    (void)state;
    for (int round = 0; round < 5; round++) {
        cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, 2 * PART, model);
        cl_command_queue queues[2] = {both.queues[0], both.loose_queues[0]};
        cl_mem part[2];
        cl_int err;

        for (uint32_t i = 0; i < 2; i++) {
            part[i] = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                        &halves[i], &err);
            ok(err);
            ok(clEnqueueFillBuffer(queues[i], part[i], &i, 4, 0, 1024, 0, NULL, NULL));
            for (size_t k = 0; k < 1024; k += 4) {
                memcpy(model + i * PART + k, &i, 4);
            }
        }
        ok(clFinish(queues[0]));
        ok(clFinish(queues[1]));
        expect_content(both.queues[1], mem, model, 2 * PART);
        ok(clReleaseMemObject(part[0]));
        ok(clReleaseMemObject(part[1]));
        ok(clReleaseMemObject(mem));
        free(model);
        model = pattern_new(2 * PART, 9 + (uint32_t)round);
    }
    free(model);
}

/** A command that fails leaves the content that it would have overwritten elsewhere. */
static void
content_outlives_a_failed_write(void **state)
{
    enum { LEN = 4096 };
    uint8_t *model = pattern_new(LEN, 11);
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, LEN, model);
    cl_uint zero = 0;
    cl_event gate, filled;
    cl_int err;

    (void)state;
    gate = clCreateUserEvent(both.ctx, &err);
    ok(err);
    ok(clEnqueueFillBuffer(both.queues[1], mem, &zero, 4, 1024, 512, 1, &gate,
                           &filled));
    ok(clSetUserEventStatus(gate, -7));
    assert_int_equal(clWaitForEvents(1, &filled),
                     CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    expect_content(both.queues[0], mem, model, LEN);
    ok(clReleaseEvent(filled));
    ok(clReleaseEvent(gate));
    ok(clReleaseMemObject(mem));
    free(model);
}

const struct CMUnitTest order_tests[] = {
    cmocka_unit_test(content_outlives_a_failed_write),
    cmocka_unit_test(read_is_over_when_a_blocking_write_returns),
    cmocka_unit_test(read_elsewhere_is_over_when_a_blocking_write_returns),
    cmocka_unit_test(events_are_over_after_finish),
    cmocka_unit_test(parts_are_written_after_the_content_has_arrived),
    cmocka_unit_test(written_after_it_was_read),
    cmocka_unit_test(written_elsewhere_after_it_was_read),
    cmocka_unit_test(read_after_it_was_written),
    cmocka_unit_test(read_again_into_the_same_memory),
    cmocka_unit_test(written_when_a_user_event_is_set),
    cmocka_unit_test(failed_user_event_fails_what_waits),
    cmocka_unit_test(markers_and_barriers_order),
    cmocka_unit_test(marker_for_what_is_over_is_over),
    cmocka_unit_test(map_waits_for_a_barrier),
};
const size_t order_test_count = sizeof(order_tests) / sizeof(order_tests[0]);
