/* SPDX-License-Identifier: Apache-2.0 */
/* Taking turns, with a driver of ours that calls back inside its calls, as oclgrind does. */
#include "device/opencl/serial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/os/clock.h"
#include "base/os/thread.h"

enum { SECONDS = 20, ROUNDS = 2000 };

static const char *driver_name;
static _Atomic int inside, overlaps, calls, refs;
static _Atomic bool user_event_set;
static void(CL_CALLBACK *callback)(cl_event, cl_int, void *);
static void *callback_arg;

/* ---- the driver ---- */

static void
come_in(void)
{
    if (atomic_fetch_add(&inside, 1) != 0) {
        atomic_fetch_add(&overlaps, 1);
    }
    atomic_fetch_add(&calls, 1);
}

static cl_int CL_API_CALL
fake_platform_info(cl_platform_id platform, cl_platform_info name, size_t size,
                   void *value, size_t *ret_size)
{
    (void)platform, (void)ret_size;
    assert_int_equal(name, CL_PLATFORM_NAME);
    assert_true(strlen(driver_name) < size);
    (void)strcpy(value, driver_name);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_kernel_info(cl_kernel kernel, cl_kernel_info name, size_t size, void *value,
                 size_t *ret_size)
{
    (void)kernel, (void)name, (void)size, (void)value, (void)ret_size;
    come_in();
    atomic_fetch_sub(&inside, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_event_info(cl_event event, cl_event_info name, size_t size, void *value,
                size_t *ret_size)
{
    (void)event, (void)name, (void)size, (void)value, (void)ret_size;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_set_callback(cl_event event, cl_int when,
                  void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *arg)
{
    (void)event;
    if (when != CL_COMPLETE) {
        return CL_INVALID_VALUE;
    }
    callback = fn;
    callback_arg = arg;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_retain(cl_event event)
{
    (void)event;
    atomic_fetch_add(&refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_release(cl_event event)
{
    (void)event;
    atomic_fetch_sub(&refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_flush(cl_command_queue queue)
{
    (void)queue;
    come_in();
    if (callback != NULL) {
        callback((cl_event)(void *)&refs, CL_COMPLETE, callback_arg);
        callback = NULL;
    }
    atomic_fetch_sub(&inside, 1);
    return CL_SUCCESS;
}

/* Spins until the user event is set. */
static cl_int CL_API_CALL
fake_wait(cl_uint count, const cl_event *events)
{
    tp_ns deadline = tp_clock_deadline(SECONDS * TP_CLOCK_S);

    (void)count, (void)events;
    come_in();
    while (!atomic_load(&user_event_set) && !tp_clock_passed(deadline)) {
        tp_clock_sleep(TP_CLOCK_MS);
    }
    atomic_fetch_sub(&inside, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_set_status(cl_event event, cl_int status)
{
    (void)event;
    atomic_store(&user_event_set, status == CL_COMPLETE);
    return CL_SUCCESS;
}

static struct tp_opencl
make_driver(const char *name)
{
    struct tp_opencl cl = {.GetPlatformInfo = fake_platform_info,
                           .GetKernelInfo = fake_kernel_info,
                           .SetEventCallback = fake_set_callback,
                           .GetEventInfo = fake_event_info,
                           .RetainEvent = fake_retain,
                           .ReleaseEvent = fake_release,
                           .Flush = fake_flush,
                           .WaitForEvents = fake_wait,
                           .SetUserEventStatus = fake_set_status};

    driver_name = name;
    return cl;
}

/* ---- tests ---- */

static void *
ask_often(void *arg)
{
    const struct tp_opencl *cl = arg;

    for (int i = 0; i < ROUNDS; i++) {
        (void)cl->GetKernelInfo(NULL, 0, 0, NULL, NULL);
        (void)cl->Flush(NULL);
    }
    return NULL;
}

static void
test_one_at_a_time(void **state)
{
    struct tp_opencl cl = make_driver("Oclgrind");
    pthread_t thread;

    (void)state;
    tp_opencl_serialize(&cl);
    atomic_store(&calls, 0);
    assert_int_equal(tp_thread_create(&thread, "other", ask_often, &cl), TELPHER_OK);
    (void)ask_often(&cl);
    tp_thread_join(thread);
    assert_int_equal(overlaps, 0);
    assert_int_equal(calls, 4 * ROUNDS);
}

/* Observations of a driver callback. */
struct visit {
    struct tp_opencl *cl;
    int inside, refs, count;
};

static void *
ask(void *arg)
{
    const struct tp_opencl *cl = arg;

    (void)cl->GetKernelInfo(NULL, 0, 0, NULL, NULL);
    return NULL;
}

static void CL_CALLBACK
visited(cl_event event, cl_int status, void *arg)
{
    struct visit *v = arg;
    pthread_t thread;

    assert_ptr_equal(event, &refs);
    assert_int_equal(status, CL_COMPLETE);
    v->inside = atomic_load(&inside);
    v->refs = atomic_load(&refs);
    v->count++;
    /* another thread gets its turn, and so does this one */
    assert_int_equal(tp_thread_create(&thread, "other", ask, v->cl), TELPHER_OK);
    tp_thread_join(thread);
    (void)v->cl->GetKernelInfo(NULL, 0, 0, NULL, NULL);
}

static void
test_callbacks_come_behind(void **state)
{
    struct tp_opencl cl = make_driver("Oclgrind");
    struct visit v = {.cl = &cl, .inside = -1};

    (void)state;
    tp_opencl_serialize(&cl);
    assert_int_equal(cl.SetEventCallback(NULL, CL_QUEUED, visited, &v),
                     CL_INVALID_VALUE);
    assert_int_equal(cl.SetEventCallback(NULL, CL_COMPLETE, visited, &v), CL_SUCCESS);
    assert_int_equal(v.count, 0);
    assert_int_equal(cl.Flush(NULL), CL_SUCCESS);
    assert_int_equal(v.count, 1);
    assert_int_equal(v.inside, 0);
    assert_int_equal(v.refs, 1); /* the event lives until its callback has run */
    assert_int_equal(refs, 0);
}

static void *
wait_for_user_event(void *arg)
{
    const struct tp_opencl *cl = arg;

    (void)cl->WaitForEvents(1, NULL);
    return NULL;
}

static void
test_user_event_is_set(void **state)
{
    struct tp_opencl cl = make_driver("Oclgrind");
    tp_ns start = tp_clock_ns();
    pthread_t thread;

    (void)state;
    tp_opencl_serialize(&cl);
    assert_int_equal(tp_thread_create(&thread, "waiting", wait_for_user_event, &cl),
                     TELPHER_OK);
    while (atomic_load(&inside) == 0) {
        tp_clock_sleep(TP_CLOCK_MS);
    }
    assert_int_equal(cl.GetEventInfo(NULL, 0, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(atomic_load(&inside), 1);
    assert_int_equal(cl.SetUserEventStatus(NULL, CL_COMPLETE), CL_SUCCESS);
    tp_thread_join(thread);
    assert_true(tp_clock_ns() - start < SECONDS * TP_CLOCK_S);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_callbacks_come_behind),
        cmocka_unit_test(test_user_event_is_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
