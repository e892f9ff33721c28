/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher against a driver of ours that never calls back by itself. */
#include "device/opencl/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/os/clock.h"

enum { COUNT = 200 };

struct fake {
    _Atomic int status, calls, seen, refs;
    _Atomic unsigned turn; /**< number of the last callback */
};

static struct fake events[COUNT];
static cl_uint vendor;
static _Atomic unsigned turns;
/** These events end while one of them is asked for, right after its answer. */
static struct fake *_Atomic ending[2];

static cl_int CL_API_CALL
fake_device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                 size_t *ret_size)
{
    (void)device, (void)size, (void)ret_size;
    assert_int_equal(name, CL_DEVICE_VENDOR_ID);
    *(cl_uint *)value = vendor;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_event_info(cl_event event, cl_event_info name, size_t size, void *value,
                size_t *ret_size)
{
    (void)name, (void)size, (void)ret_size;
    *(cl_int *)value = atomic_load(&((struct fake *)(void *)event)->status);
    for (int i = 0; i < 2 && atomic_load(&ending[i]) != NULL; i++) {
        atomic_store(&atomic_load(&ending[i])->status, CL_COMPLETE);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_retain(cl_event event)
{
    atomic_fetch_add(&((struct fake *)(void *)event)->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_release(cl_event event)
{
    atomic_fetch_sub(&((struct fake *)(void *)event)->refs, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
own_callback(cl_event event, cl_int when,
             void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *arg)
{
    (void)event, (void)when, (void)fn, (void)arg;
    return CL_SUCCESS;
}

static void CL_CALLBACK
on_end(cl_event event, cl_int status, void *arg)
{
    struct fake *f = arg;

    assert_ptr_equal(event, (cl_event)(void *)f);
    atomic_store(&f->seen, status);
    atomic_store(&f->turn, atomic_fetch_add(&turns, 1) + 1);
    atomic_fetch_add(&f->calls, 1);
}

static void
await(struct fake *f, int calls)
{
    tp_ns deadline = tp_clock_deadline(10 * TP_CLOCK_S);

    while ((atomic_load(&f->calls) < calls || atomic_load(&f->refs) != 0) &&
           !tp_clock_passed(deadline)) {
        tp_clock_sleep(TP_CLOCK_MS / 10);
    }
    assert_int_equal(atomic_load(&f->calls), calls);
    assert_int_equal(atomic_load(&f->refs), 0);
}

static struct tp_opencl cl = {.GetDeviceInfo = fake_device_info,
                              .GetEventInfo = fake_event_info,
                              .RetainEvent = fake_retain,
                              .ReleaseEvent = fake_release,
                              .SetEventCallback = own_callback};

static void
watch_one(struct fake *f)
{
    atomic_store(&f->status, CL_RUNNING);
    assert_int_equal(cl.SetEventCallback((cl_event)(void *)f, CL_COMPLETE, on_end, f),
                     CL_SUCCESS);
}

static void
ends_are_seen_once(void **state)
{
    (void)state;
    assert_int_equal(tp_opencl_watch_start(&cl), TELPHER_OK);
    assert_ptr_not_equal(cl.SetEventCallback, own_callback);
    for (int i = 0; i < COUNT; i++) {
        watch_one(&events[i]);
    }
    tp_clock_sleep(5 * TP_CLOCK_MS);
    for (int i = COUNT - 1; i >= 0; i--) {
        assert_int_equal(atomic_load(&events[i].calls), 0);
        atomic_store(&events[i].status, i % 2 == 0 ? CL_COMPLETE : -5);
        await(&events[i], 1);
        assert_int_equal(atomic_load(&events[i].seen), i % 2 == 0 ? CL_COMPLETE : -5);
    }
    watch_one(&events[0]); /* after all was quiet */
    atomic_store(&events[0].status, CL_COMPLETE);
    await(&events[0], 2);
}

/* Looked after by who asks, until it leaves them or they are too many. */
static void
the_owner_looks(void **state)
{
    enum { MANY = 20 };

    (void)state;
    tp_opencl_watch_adopt(true);
    assert_false(tp_opencl_watch_look());
    for (int i = 0; i < 3; i++) {
        atomic_store(&events[i].calls, 0);
        watch_one(&events[i]);
    }
    atomic_store(&events[1].status, CL_COMPLETE);
    tp_clock_sleep(5 * TP_CLOCK_MS);
    assert_int_equal(atomic_load(&events[1].calls), 0); /* only the watch calls it */
    assert_true(tp_opencl_watch_look());
    await(&events[1], 1);
    assert_false(tp_opencl_watch_look());
    tp_opencl_watch_leave();
    for (int i = 0; i < 3; i += 2) {
        atomic_store(&events[i].status, CL_COMPLETE);
        await(&events[i], 1);
    }
    for (int i = 0; i < MANY; i++) {
        atomic_store(&events[i].calls, 0);
        watch_one(&events[i]);
        atomic_store(&events[i].status, CL_COMPLETE);
    }
    tp_opencl_watch_adopt(false);
    for (int i = 0; i < MANY; i++) {
        await(&events[i], 1);
    }
    watch_one(&events[0]); /* no longer the caller's */
    atomic_store(&events[0].status, CL_COMPLETE);
    await(&events[0], 2);
}

/* The second may have waited for the first, so it is reported after it. */
static void
ends_are_reported_in_turn(void **state)
{
    struct fake *first = &events[0], *second = &events[1];

    (void)state;
    for (int run = 0; run < 20; run++) {
        tp_opencl_watch_adopt(true);
        for (int i = 0; i < 2; i++) {
            atomic_store(&events[i].calls, 0);
            watch_one(&events[i]);
        }
        atomic_store(&ending[1], second);
        atomic_store(&ending[0], first);
        while (atomic_load(&second->calls) == 0) {
            (void)tp_opencl_watch_look();
        }
        await(first, 1);
        await(second, 1);
        assert_true(atomic_load(&first->turn) < atomic_load(&second->turn));
        atomic_store(&ending[0], NULL);
        atomic_store(&ending[1], NULL);
        tp_opencl_watch_adopt(false);
    }
}

/* The first is the watching thread's, which sleeps, and the second the owner's. */
static void
the_owner_reports_in_turn(void **state)
{
    struct fake *first = &events[0], *second = &events[1];

    (void)state;
    for (int run = 0; run < 20; run++) {
        tp_opencl_watch_adopt(true);
        atomic_store(&first->calls, 0);
        atomic_store(&second->calls, 0);
        watch_one(first);
        tp_opencl_watch_leave();
        tp_clock_sleep(20 * TP_CLOCK_MS); /* it looks once a millisecond by now */
        watch_one(second);
        atomic_store(&first->status, CL_COMPLETE);
        atomic_store(&second->status, CL_COMPLETE);
        while (atomic_load(&second->calls) == 0) {
            (void)tp_opencl_watch_look();
        }
        await(first, 1);
        await(second, 1);
        assert_true(atomic_load(&first->turn) < atomic_load(&second->turn));
        tp_opencl_watch_adopt(false);
    }
}

/* @return how often threads of this process but the calling one have waited */
static long
others_waits(void)
{
    struct rusage all, own;

    assert_int_equal(getrusage(RUSAGE_SELF, &all), 0);
    assert_int_equal(getrusage(RUSAGE_THREAD, &own), 0);
    return all.ru_nvcsw - own.ru_nvcsw;
}

static void
leaving_without_events_wakes_no_thread(void **state)
{
    enum { TIMES = 50 };
    long before;

    (void)state;
    tp_opencl_watch_adopt(true);
    tp_clock_sleep(20 * TP_CLOCK_MS); /* the thread waits by now */
    before = others_waits();
    for (int i = 0; i < TIMES; i++) {
        tp_opencl_watch_leave();
        tp_clock_sleep(TP_CLOCK_MS);
    }
    assert_true(others_waits() - before < TIMES / 2);
    tp_opencl_watch_adopt(false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_seen_once),
        cmocka_unit_test(the_owner_looks),
        cmocka_unit_test(ends_are_reported_in_turn),
        cmocka_unit_test(the_owner_reports_in_turn),
        cmocka_unit_test(leaving_without_events_wakes_no_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
