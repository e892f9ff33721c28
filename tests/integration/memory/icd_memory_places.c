/* SPDX-License-Identifier: Apache-2.0 */
/* icd_memory: buffers of a context over two servers, used on both in turn. */
#include "icd_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static const char *source =
    "kernel void add(global uint *a, uint v) { a[get_global_id(0)] += v; }\n"
    "kernel void sum(const global uint *a, global uint *b)\n"
    "{ b[get_global_id(0)] += a[get_global_id(0)]; }\n";

static cl_kernel
kernel_new(const struct world *w, const char *name)
{
    cl_int err = 1;
    cl_program program = clCreateProgramWithSource(w->ctx, 1, &source, NULL, &err);
    cl_kernel kernel;

    ok(err);
    ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    kernel = clCreateKernel(program, name, &err);
    ok(err);
    ok(clReleaseProgram(program));
    return kernel;
}

static void
ping_pong(void **state)
{
    static const size_t sizes[] = {4, 4096, 65536, 8 << 20};
    cl_kernel add = kernel_new(&both, "add");

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        size_t count = sizes[i] / 4;
        uint32_t *model = calloc(count, 4);
        cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, sizes[i], model);
        cl_event before = NULL, after;

        ok(clSetKernelArg(add, 0, sizeof(mem), &mem));
        for (cl_uint round = 0; round < 10; round++) {
            ok(clSetKernelArg(add, 1, sizeof(round), &round));
            ok(clEnqueueNDRangeKernel(both.queues[round % 2], add, 1, NULL, &count,
                                      NULL, round != 0, round != 0 ? &before : NULL,
                                      &after));
            ok(clFlush(both.queues[round % 2]));
            if (before != NULL) {
                ok(clReleaseEvent(before));
            }
            before = after;
        }
        for (size_t k = 0; k < count; k++) {
            model[k] = 45;
        }
        expect_content(both.queues[1], mem, (uint8_t *)model, sizes[i]);
        ok(clReleaseEvent(before));
        ok(clReleaseMemObject(mem));
        free(model);
    }
    ok(clReleaseKernel(add));
}

/** Two halves of one buffer, each written on its own server, without order in between. */
static void
halves_on_two_servers(void **state)
{
    const size_t half = 1 << 18;
    cl_kernel add = kernel_new(&both, "add");
    uint32_t *model = calloc(2 * half / 4, 4);
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, 2 * half, model), sub[2];
    size_t count = half / 4;
    cl_int err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cl_buffer_region region = {i * half, half};

        sub[i] = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
        ok(err);
    }
    for (cl_uint round = 1; round <= 5; round++) {
        ok(clSetKernelArg(add, 1, sizeof(round), &round));
        for (int i = 0; i < 2; i++) {
            ok(clSetKernelArg(add, 0, sizeof(sub[i]), &sub[i]));
            ok(clEnqueueNDRangeKernel(both.queues[i], add, 1, NULL, &count, NULL, 0,
                                      NULL, NULL));
        }
    }
    ok(clFinish(both.queues[0]));
    ok(clFinish(both.queues[1]));
    for (size_t k = 0; k < 2 * half / 4; k++) {
        model[k] = 15;
    }
    expect_content(both.queues[0], mem, (uint8_t *)model, 2 * half);
    expect_content(both.queues[1], sub[0], (uint8_t *)model, half);
    ok(clReleaseMemObject(sub[0]));
    ok(clReleaseMemObject(sub[1]));
    ok(clReleaseMemObject(mem));
    ok(clReleaseKernel(add));
    free(model);
}

/** One input read on both servers, outputs of their own. */
static void
shared_input(void **state)
{
    const size_t size = 1 << 20, count = size / 4;
    cl_kernel sum = kernel_new(&both, "sum");
    uint32_t *input = (uint32_t *)pattern_new(size, 3), *zero = calloc(1, size);
    cl_mem in = buffer_new(&both, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, input);
    cl_mem out[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        out[i] = buffer_new(&both, CL_MEM_COPY_HOST_PTR, size, zero);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            ok(clSetKernelArg(sum, 0, sizeof(in), &in));
            ok(clSetKernelArg(sum, 1, sizeof(out[i]), &out[i]));
            ok(clEnqueueNDRangeKernel(both.queues[i], sum, 1, NULL, &count, NULL, 0,
                                      NULL, NULL));
        }
    }
    for (size_t k = 0; k < count; k++) {
        zero[k] = input[k] * 3;
    }
    expect_content(both.queues[0], out[0], (uint8_t *)zero, size);
    expect_content(both.queues[1], out[1], (uint8_t *)zero, size);
    expect_content(both.queues[0], in, (uint8_t *)input, size);
    ok(clReleaseMemObject(in));
    ok(clReleaseMemObject(out[0]));
    ok(clReleaseMemObject(out[1]));
    ok(clReleaseKernel(sum));
    free(input);
    free(zero);
}

/** Everything at once: a user event holds back a chain over both servers. */
static void
chain_behind_a_user_event(void **state)
{
    const size_t size = 100000 * 4, count = 100000;
    cl_kernel add = kernel_new(&both, "add");
    uint32_t *model = calloc(count, 4);
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, size, model);
    uint8_t *got = malloc(size);
    cl_event event[6];
    cl_uint one_more = 1;
    cl_int err, status;

    (void)state;
    event[0] = clCreateUserEvent(both.ctx, &err);
    ok(err);
    ok(clSetKernelArg(add, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(add, 1, sizeof(one_more), &one_more));
    for (int i = 0; i < 4; i++) {
        ok(clEnqueueNDRangeKernel(both.loose_queues[i % 2], add, 1, NULL, &count, NULL,
                                  1, &event[i], &event[i + 1]));
    }
    ok(clEnqueueReadBuffer(both.loose_queues[0], mem, CL_FALSE, 0, size, got, 1,
                           &event[4], &event[5]));
    ok(clFlush(both.loose_queues[0]));
    ok(clFlush(both.loose_queues[1]));
    ok(clGetEventInfo(event[5], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                      &status, NULL));
    assert_true(status > CL_COMPLETE);
    ok(clSetUserEventStatus(event[0], CL_COMPLETE));
    ok(clWaitForEvents(1, &event[5]));
    for (size_t k = 0; k < count; k++) {
        model[k] = 4;
    }
    assert_memory_equal(got, model, size);
    for (int i = 0; i < 6; i++) {
        ok(clReleaseEvent(event[i]));
    }
    ok(clReleaseMemObject(mem));
    ok(clReleaseKernel(add));
    free(model);
    free(got);
}

/** A part moves to the other server while a command on another part waits for the program. */
static void
part_moves_while_another_waits(void **state)
{
    const size_t part = 4096, count = part / 4;
    const int outcomes[] = {CL_COMPLETE, -7};
    cl_kernel add = kernel_new(&both, "add");
    uint8_t *got = malloc(part);
    uint32_t *model = calloc(4 * count, 4);

    (void)state;
    for (int round = 0; round < 4; round++) {
        cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, 4 * part, model), sub[2];
        cl_event user, added, waits, moved;
        cl_uint seven = 7;
        cl_int err, status;

        for (size_t i = 0; i < 2; i++) {
            cl_buffer_region region = {2 * i * part, part};

            sub[i] =
                clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
            ok(err);
        }
        user = clCreateUserEvent(both.ctx, &err);
        ok(err);
        ok(clSetKernelArg(add, 0, sizeof(sub[0]), &sub[0]));
        ok(clSetKernelArg(add, 1, sizeof(seven), &seven));
        ok(clEnqueueNDRangeKernel(both.queues[1], add, 1, NULL, &count, NULL, 0, NULL,
                                  &added));
        ok(clSetKernelArg(add, 0, sizeof(sub[1]), &sub[1]));
        ok(clEnqueueNDRangeKernel(both.queues[1], add, 1, NULL, &count, NULL, 1, &user,
                                  &waits));
        ok(clFlush(both.queues[1]));
        ok(clEnqueueReadBuffer(both.queues[0], sub[0], CL_FALSE, 0, part, got, 1,
                               &added, &moved));
        ok(clFlush(both.queues[0]));
        if (round < 2) { /* it must not wait for the user event */
            ok(clWaitForEvents(1, &moved));
        }
        ok(clSetUserEventStatus(user, outcomes[round % 2]));
        ok(clWaitForEvents(1, &moved));
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(((uint32_t *)(void *)got)[k], 7);
        }
        (void)clWaitForEvents(1, &waits);
        ok(clGetEventInfo(waits, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                          &status, NULL));
        assert_int_equal(status < 0, outcomes[round % 2] < 0);
        ok(clReleaseEvent(user));
        ok(clReleaseEvent(added));
        ok(clReleaseEvent(waits));
        ok(clReleaseEvent(moved));
        ok(clReleaseMemObject(sub[0]));
        ok(clReleaseMemObject(sub[1]));
        ok(clReleaseMemObject(mem));
    }
    ok(clReleaseKernel(add));
    free(model);
    free(got);
}

static void
migrations(void **state)
{
    uint8_t *model = pattern_new(300000, 4);
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, 300000, model);
    cl_event moved;

    (void)state;
    for (int i = 0; i < 4; i++) {
        ok(clEnqueueMigrateMemObjects(both.queues[i % 2], 1, &mem, 0, 0, NULL, &moved));
        ok(clFlush(both.queues[i % 2]));
        ok(clWaitForEvents(1, &moved));
        ok(clReleaseEvent(moved));
        expect_content(both.queues[i % 2], mem, model, 300000);
    }
    ok(clEnqueueMigrateMemObjects(both.queues[0], 1, &mem, CL_MIGRATE_MEM_OBJECT_HOST,
                                  0, NULL, NULL));
    expect_content(both.queues[1], mem, model, 300000);
    ok(clEnqueueMigrateMemObjects(both.queues[1], 1, &mem,
                                  CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL,
                                  NULL));
    ok(clEnqueueWriteBuffer(both.queues[1], mem, CL_FALSE, 0, 300000, model, 0, NULL,
                            NULL));
    ok(clFinish(both.queues[1]));
    expect_content(both.queues[0], mem, model, 300000);
    ok(clReleaseMemObject(mem));
    free(model);
}

/* ---- random commands against a model ---------------------------------------------------- */

enum { BUFFERS = 3, BYTES = 150000, STEPS = 1500, THREADS = 16, THREAD_STEPS = 150 };

/** The buffers, what they should hold, and the event of the last command. */
struct game {
    cl_mem mem[BUFFERS];
    uint8_t *model[BUFFERS];
    uint8_t *out, *in; /* host memory for writes and for reads */
    cl_event last;
};

static cl_command_queue
any_queue(void)
{
    return any(2) != 0 ? both.queues[any(2)] : both.loose_queues[any(2)];
}

/** One command, ordered after the one before it by its event alone. */
static cl_int
any_command(struct game *g, cl_command_queue q, cl_event *event)
{
    size_t a = any(BUFFERS), b = any(BUFFERS), at = any(BYTES), to;
    size_t len = 1 + any(any(3) == 0 ? BYTES : 4000);
    cl_uint waits = g->last != NULL;
    uint8_t unit[4];

    len = len < BYTES - at ? len : BYTES - at;
    if (any(8) == 0) {
        at = 0;
        len = BYTES;
    }
    switch (any(4)) {
    case 0:
        pattern(g->model[a] + at, len, any(1000));
        memcpy(g->out, g->model[a] + at, len);
        return clEnqueueWriteBuffer(q, g->mem[a], CL_TRUE, at, len, g->out, waits,
                                    waits ? &g->last : NULL, event);
    case 1:
        pattern(unit, 4, any(1000));
        at &= ~(size_t)3;
        len &= ~(size_t)3;
        for (size_t i = 0; i < len; i++) {
            g->model[a][at + i] = unit[i % 4];
        }
        return clEnqueueFillBuffer(q, g->mem[a], unit, 4, at, len, waits,
                                   waits ? &g->last : NULL, event);
    case 2:
        b = a == b ? (a + 1) % BUFFERS : b;
        to = any((uint32_t)(BYTES - len + 1));
        memcpy(g->model[b] + to, g->model[a] + at, len);
        return clEnqueueCopyBuffer(q, g->mem[a], g->mem[b], at, to, len, waits,
                                   waits ? &g->last : NULL, event);
    default:
        return clEnqueueReadBuffer(q, g->mem[a], CL_FALSE, at, len, g->in, waits,
                                   waits ? &g->last : NULL, event);
    }
}

static bool
open_game(struct game *g, uint32_t seed)
{
    cl_int err = CL_SUCCESS;

    memset(g, 0, sizeof(*g));
    seed_any(seed);
    g->out = malloc(BYTES);
    g->in = malloc(BYTES);
    for (uint32_t i = 0; i < BUFFERS && err == CL_SUCCESS; i++) {
        g->model[i] = pattern_new(BYTES, seed + i);
        g->mem[i] =
            clCreateBuffer(both.ctx, CL_MEM_COPY_HOST_PTR, BYTES, g->model[i], &err);
    }
    return err == CL_SUCCESS;
}

/** @return false if a command was refused. */
static bool
play(struct game *g, int steps)
{
    for (int step = 0; step < steps; step++) {
        cl_command_queue q = any_queue();
        cl_event event = NULL;

        if (any_command(g, q, &event) != CL_SUCCESS || clFlush(q) != CL_SUCCESS) {
            return false;
        }
        if (g->last != NULL) {
            clReleaseEvent(g->last);
        }
        g->last = event;
    }
    return g->last == NULL || clWaitForEvents(1, &g->last) == CL_SUCCESS;
}

/** @return the number of buffers that are not what they should be. */
static unsigned
check_game(struct game *g)
{
    unsigned wrong = 0;

    for (int i = 0; i < BUFFERS; i++) {
        memset(g->in, 0xa5, BYTES);
        wrong += clEnqueueReadBuffer(both.queues[any(2)], g->mem[i], CL_TRUE, 0, BYTES,
                                     g->in, 0, NULL, NULL) != CL_SUCCESS ||
                 memcmp(g->in, g->model[i], BYTES) != 0;
    }
    return wrong;
}

static void
close_game(struct game *g)
{
    if (g->last != NULL) {
        clReleaseEvent(g->last);
    }
    for (int i = 0; i < BUFFERS; i++) {
        clReleaseMemObject(g->mem[i]);
        free(g->model[i]);
    }
    free(g->out);
    free(g->in);
}

static void
random_commands(void **state)
{
    struct game g;

    (void)state;
    assert_true(open_game(&g, 1));
    for (int round = 0; round < 15; round++) {
        assert_true(play(&g, STEPS / 15));
        assert_int_equal(check_game(&g), 0);
    }
    close_game(&g);
}

/** @return NULL, or what went wrong. */
static void *
play_alone(void *arg)
{
    const uint32_t *seed = arg;
    const char *wrong = NULL;
    struct game g;

    if (!open_game(&g, *seed)) {
        return "a buffer was refused";
    }
    if (!play(&g, THREAD_STEPS)) {
        wrong = "a command was refused";
    } else if (check_game(&g) != 0) {
        wrong = "content is wrong";
    }
    close_game(&g);
    return (void *)(uintptr_t)wrong;
}

/** All threads use the same four queues at once, each its own buffers. */
static void
random_commands_of_many_threads(void **state)
{
    pthread_t threads[THREADS];
    uint32_t seeds[THREADS];

    (void)state;
    for (uint32_t i = 0; i < THREADS; i++) {
        seeds[i] = 100 + i;
        assert_int_equal(pthread_create(&threads[i], NULL, play_alone, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        if (wrong != NULL) {
            fail_msg("thread %d: %s", i, (char *)wrong);
        }
    }
}

static atomic_int ended;

static void CL_CALLBACK
note_end(cl_mem mem, void *user)
{
    (void)mem;
    (void)user;
    atomic_store(&ended, 1);
}

/* OpenCL: a kernel does not keep what its arguments are. */
static void
arguments_do_not_keep_buffers(void **state)
{
    cl_kernel add = kernel_new(&one, "add");
    cl_mem mem = buffer_new(&one, 0, 100, NULL);
    size_t items = 1;
    cl_uint number = 1;

    (void)state;
    atomic_store(&ended, 0);
    ok(clSetMemObjectDestructorCallback(mem, note_end, NULL));
    ok(clSetKernelArg(add, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(add, 1, sizeof(number), &number));
    ok(clReleaseMemObject(mem));
    for (int i = 0; i < 500 && atomic_load(&ended) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_int_equal(atomic_load(&ended), 1);
    assert_int_equal(clEnqueueNDRangeKernel(one.queues[0], add, 1, NULL, &items, NULL,
                                            0, NULL, NULL),
                     CL_INVALID_KERNEL_ARGS);
    mem = buffer_new(&one, 0, 100, NULL);
    ok(clSetKernelArg(add, 0, sizeof(mem), &mem));
    ok(clEnqueueNDRangeKernel(one.queues[0], add, 1, NULL, &items, NULL, 0, NULL,
                              NULL));
    ok(clFinish(one.queues[0]));
    ok(clReleaseKernel(add));
    ok(clReleaseMemObject(mem));
}

const struct CMUnitTest place_tests[] = {
    cmocka_unit_test(random_commands),
    cmocka_unit_test(random_commands_of_many_threads),
    cmocka_unit_test(part_moves_while_another_waits),
    cmocka_unit_test(migrations),
    cmocka_unit_test(ping_pong),
    cmocka_unit_test(halves_on_two_servers),
    cmocka_unit_test(shared_input),
    cmocka_unit_test(chain_behind_a_user_event),
    cmocka_unit_test(arguments_do_not_keep_buffers),
};
const size_t place_test_count = sizeof(place_tests) / sizeof(place_tests[0]);
