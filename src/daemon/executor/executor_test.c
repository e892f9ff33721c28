/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions with a real driver, over the protocol alone: objects, commands, completions,
 * transfers, builds, errors. Skipped where telpherd finds no device.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "daemon/test/test_session.h"
#include "wire/launch.h"

/* A session with a context, a queue and a program. */
struct scene {
    struct test_session s;
    uint64_t context, queue, program;
    uint32_t device_count;
};

static struct test_daemon the_daemon;
static struct scene
    *open_scenes[4]; /* static ones, so that a failed test leaves none */

static const char source[] =
    "__kernel void add(__global int *a, int n) { a[get_global_id(0)] += n; }\n"
    "__kernel void say(int n) { if (get_global_id(0) == 0) printf(\"hello %d\\n\", n); "
    "}\n"
    "__kernel void slow(__global int *a, int n) {\n"
    "  int x = a[0];\n"
    "  for (int i = 0; i < n; i++) x = x * 1664525 + 1013904223 + (x >> 3);\n"
    "  a[0] = x;\n"
    "}\n";

static void
make_queue(struct scene *c, uint64_t properties)
{
    struct tp_wire_queue_create m = {.context = c->context, .properties = properties};

    c->queue = m.queue = test_id(&c->s, TP_WIRE_KIND_QUEUE);
    test_put(&c->s, TP_WIRE_QUEUE_CREATE, &m);
}

static void
open_scene(struct scene *c, uint64_t properties)
{
    struct tp_wire_context_create context = {.devices = TEST_IDS(0)};

    for (size_t i = 0; i < TP_ARRAY_LEN(open_scenes); i++) {
        if (open_scenes[i] == NULL || open_scenes[i] == c) {
            open_scenes[i] = c;
            break;
        }
    }
    test_session_open(&c->s, &the_daemon);
    c->device_count = test_session_start(&c->s);
    c->context = context.context = test_id(&c->s, TP_WIRE_KIND_CONTEXT);
    test_put(&c->s, TP_WIRE_CONTEXT_CREATE, &context);
    make_queue(c, properties);
}

static void
close_scene(struct scene *c)
{
    test_session_close(&c->s);
    test_daemon_wait_children(&the_daemon, 0);
}

static struct tp_wire_build_reply
build(struct scene *c, const char *text)
{
    struct tp_wire_program_source m = {.context = c->context,
                                       .size = strlen(text),
                                       .source = {(uint32_t)strlen(text), text}};
    struct tp_wire_program_build b = {.options = TEST_TEXT("-DX=1")};
    struct tp_wire_build_reply reply;

    c->program = b.program = m.program = test_id(&c->s, TP_WIRE_KIND_PROGRAM);
    b.request = test_id(&c->s, TP_WIRE_KIND_REQUEST);
    test_put(&c->s, TP_WIRE_PROGRAM_SOURCE, &m);
    test_put(&c->s, TP_WIRE_PROGRAM_BUILD, &b);
    test_expect(&c->s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.request, b.request);
    return reply;
}

static uint64_t
make_kernel(struct scene *c, const char *name)
{
    struct tp_wire_kernel_create m = {.program = c->program,
                                      .name = {(uint32_t)strlen(name), name}};

    m.kernel = test_id(&c->s, TP_WIRE_KIND_KERNEL);
    test_put(&c->s, TP_WIRE_KERNEL_CREATE, &m);
    return m.kernel;
}

static uint64_t
make_buffer(struct scene *c, uint64_t size)
{
    struct tp_wire_buffer_create m = {
        .context = c->context, .flags = CL_MEM_READ_WRITE, .size = size};

    m.mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    test_put(&c->s, TP_WIRE_BUFFER_CREATE, &m);
    return m.mem;
}

static void
set_mem(struct scene *c, uint64_t kernel, uint32_t index, uint64_t mem)
{
    struct tp_wire_kernel_arg m = {.kernel = kernel,
                                   .index = index,
                                   .kind = TP_WIRE_ARG_MEM,
                                   .size = sizeof(mem),
                                   .value = {sizeof(mem), &mem}};

    test_put(&c->s, TP_WIRE_KERNEL_ARG, &m);
}

static void
set_int(struct scene *c, uint64_t kernel, uint32_t index, int value)
{
    struct tp_wire_kernel_arg m = {.kernel = kernel,
                                   .index = index,
                                   .kind = TP_WIRE_ARG_VALUE,
                                   .size = sizeof(value),
                                   .value = {sizeof(value), &value}};

    test_put(&c->s, TP_WIRE_KERNEL_ARG, &m);
}

/* One-dimensional LAUNCH with event and wait list. */
static void
launch(struct scene *c, uint64_t kernel, uint64_t global, uint64_t event, uint8_t flags,
       const struct tp_wire_u64s *wait)
{
    struct tp_wire_launch m = {.event = event,
                               .queue = c->queue,
                               .kernel = kernel,
                               .flags = flags,
                               .dims = 1,
                               .sizes = TEST_IDS(0, global)};

    if (wait != NULL) {
        m.wait = *wait;
    }
    test_put(&c->s, TP_WIRE_LAUNCH, &m);
}

static void
write_inline(struct scene *c, uint64_t mem, const void *data, uint32_t size)
{
    struct tp_wire_write m = {
        .queue = c->queue, .mem = mem, .size = size, .data = {size, data}};

    test_put(&c->s, TP_WIRE_WRITE, &m);
}

static uint64_t
read_inline(struct scene *c, uint64_t mem, uint64_t size,
            const struct tp_wire_u64s *wait)
{
    struct tp_wire_read m = {
        .queue = c->queue, .mem = mem, .size = size, .flags = TP_WIRE_NOTIFY};

    if (wait != NULL) {
        m.wait = *wait;
    }
    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_put(&c->s, TP_WIRE_READ, &m);
    return m.event;
}

static uint64_t
put_marker(struct scene *c)
{
    struct tp_wire_marker m = {.queue = c->queue, .flags = TP_WIRE_NOTIFY};

    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_put(&c->s, TP_WIRE_MARKER, &m);
    return m.event;
}

static void
finish(struct scene *c)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, put_marker(c), &done);
}

static void
release(struct scene *c, uint64_t id)
{
    struct tp_wire_release m = {.ids = TEST_IDS(id)};

    test_put(&c->s, TP_WIRE_RELEASE, &m);
}

/* ---- the tests ---- */

static void
test_launch(void **state)
{
    static struct scene c;
    struct tp_wire_done done;
    int data[64], got[64];
    uint64_t kernel, mem, event;

    (void)state;
    open_scene(&c, 0);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add");
    mem = make_buffer(&c, sizeof(data));
    for (int i = 0; i < 64; i++) {
        data[i] = i;
    }
    write_inline(&c, mem, data, sizeof(data));
    set_mem(&c, kernel, 0, mem);
    set_int(&c, kernel, 1, 5);
    for (int i = 0; i < 100; i++) {
        launch(&c, kernel, 64, 0, 0, NULL);
    }
    event = read_inline(&c, mem, sizeof(got), NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.stamps.count, 0);
    assert_int_equal(done.data.len, sizeof(got));
    memcpy(got, done.data.data, sizeof(got));
    for (int i = 0; i < 64; i++) {
        assert_int_equal(got[i], i + 500);
    }
    release(&c, event);
    release(&c, kernel);
    release(&c, mem);
    finish(&c);
    close_scene(&c);
}

/* An argument of a LAUNCH_AGAIN with a value of 4 bytes. */
static uint32_t
put_again_int(uint8_t *at, uint8_t index, int value)
{
    const struct tp_wire_kernel_arg m = {
        .index = index, .kind = TP_WIRE_ARG_VALUE, .value = {sizeof(value), &value}};

    return (uint32_t)(tp_wire_put_again_arg(at, at + 64, &m) - at);
}

static void
launch_again(struct scene *c, uint64_t event, uint8_t flags, int value)
{
    uint8_t args[64];
    struct tp_wire_launch_again m = {.queue = (uint32_t)c->queue,
                                     .event = (uint32_t)event,
                                     .flags = flags,
                                     .args = {put_again_int(args, 1, value), args}};

    test_put(&c->s, TP_WIRE_LAUNCH_AGAIN, &m);
}

static void
test_launch_again(void **state)
{
    static struct scene c;
    struct tp_wire_done done;
    struct tp_wire_u64s wait;
    int value = 0;
    uint64_t kernel, mem, events[2];

    (void)state;
    open_scene(&c, 0);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add");
    mem = make_buffer(&c, sizeof(value));
    write_inline(&c, mem, &value, sizeof(value));
    set_mem(&c, kernel, 0, mem);
    set_int(&c, kernel, 1, 1);
    launch(&c, kernel, 1, 0, 0, NULL);
    tp_stream_send_short(c.s.stream); /* the executor takes them */
    for (int i = 2; i <= 10; i++) {
        launch_again(&c, 0, 0, i);
    }
    events[0] = test_id(&c.s, TP_WIRE_KIND_EVENT);
    events[1] = test_id(&c.s, TP_WIRE_KIND_EVENT);
    launch_again(&c, events[0], 0, 100);
    launch_again(&c, events[1], TP_WIRE_NOTIFY | TP_WIRE_AFTER_LAST, 1000);
    test_expect_done(&c.s, events[1], &done);
    assert_int_equal(done.status, CL_SUCCESS);
    wait = (struct tp_wire_u64s)TEST_IDS(events[0], events[1]);
    test_expect_done(&c.s, read_inline(&c, mem, sizeof(value), &wait), &done);
    memcpy(&value, done.data.data, sizeof(value));
    assert_int_equal(value, 55 + 100 + 1000);
    close_scene(&c);
}

/* The queue does not exist for the driver, but the argument is the kernel's. */
static void
test_launch_again_on_a_poisoned_queue(void **state)
{
    static struct scene c;
    struct tp_wire_done done;
    uint64_t kernel, mem, event, good;
    int value = 0;

    (void)state;
    open_scene(&c, 0);
    good = c.queue;
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add");
    mem = make_buffer(&c, sizeof(value));
    write_inline(&c, mem, &value, sizeof(value));
    set_mem(&c, kernel, 0, mem);
    set_int(&c, kernel, 1, 1);
    make_queue(&c, 1ULL << 40); /* no such property */
    launch(&c, kernel, 1, 0, 0, NULL);
    event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    launch_again(&c, event, TP_WIRE_NOTIFY, 7);
    test_expect_done(&c.s, event, &done);
    assert_true(done.status < 0);
    c.queue = good;
    launch(&c, kernel, 1, 0, 0, NULL);
    test_expect_done(&c.s, read_inline(&c, mem, sizeof(value), NULL), &done);
    memcpy(&value, done.data.data, sizeof(value));
    assert_int_equal(value, 7);
    close_scene(&c);
}

/* Sends a LAUNCH_AGAIN that ends the session. */
static void
check_bad_again(bool after_launch, const struct tp_wire_launch_again *m)
{
    static struct scene c;
    struct tp_wire_close closing;

    open_scene(&c, 0);
    if (after_launch) {
        launch(&c, test_id(&c.s, TP_WIRE_KIND_KERNEL), 1, 0, 0, NULL);
    }
    test_put(&c.s, TP_WIRE_LAUNCH_AGAIN, m);
    test_expect(&c.s, TP_WIRE_CLOSE, &closing);
    assert_int_equal(closing.status, TELPHER_ERR_PROTO);
    assert_int_equal(test_expect_end(&c.s), TELPHER_ERR_PEER_LOST);
    close_scene(&c);
}

static void
test_bad_launch_again(void **state)
{
    static struct scene c;
    struct tp_wire_launch_again m = {.queue = 1};
    uint8_t args[64];

    (void)state;
    open_scene(&c, 0); /* all sessions give their queue the same id */
    m.queue = (uint32_t)c.queue;
    close_scene(&c);
    check_bad_again(false, &m); /* no launch before */
    m.queue++;
    check_bad_again(true, &m); /* of another queue */
    m.queue--;
    m.flags = TP_WIRE_AFTER_LAST; /* the launch before has no event */
    check_bad_again(true, &m);
    m.flags = TP_WIRE_NOTIFY; /* of no event */
    check_bad_again(true, &m);
    m.flags = 0;
    m.args =
        (struct tp_wire_bytes){put_again_int(args, 0, 1) - 1, args}; /* cut short */
    check_bad_again(true, &m);
    m.args.len++;
    args[1] = TP_WIRE_ARG_SAMPLER << 5 | 4; /* not the length of an id */
    check_bad_again(true, &m);
}

static void
find_fact(const struct tp_wire_bytes *facts, uint16_t kind, uint32_t index,
          uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact)
{
    const uint8_t *src = facts->data, *end = src + facts->len;

    while (tp_wire_get_fact(&src, end, ret_fact)) {
        if (ret_fact->kind == kind && ret_fact->index == index &&
            ret_fact->sub == sub && ret_fact->param == param) {
            return;
        }
    }
    fail_msg("no fact of kind %u, param 0x%x", kind, param);
}

static void
test_build_facts(void **state)
{
    static struct scene c;
    struct tp_wire_build_reply reply;
    struct tp_wire_fact f;

    (void)state;
    open_scene(&c, 0);
    reply = build(&c, source);
    assert_int_equal(reply.status, CL_SUCCESS);
    assert_int_equal(reply.transfer, 0);
    assert_int_equal(reply.size, reply.facts.len);
    find_fact(&reply.facts, TP_WIRE_FACT_PROGRAM, 0, 0, CL_PROGRAM_NUM_KERNELS, &f);
    assert_int_equal(*(const uint8_t *)f.data, 3);
    find_fact(&reply.facts, TP_WIRE_FACT_PROGRAM_DEVICE, 0, 0, CL_PROGRAM_BUILD_OPTIONS,
              &f);
    assert_string_equal((const char *)f.data, "-DX=1");
    find_fact(&reply.facts, TP_WIRE_FACT_KERNEL_ARG, 0, 0, CL_KERNEL_ARG_TYPE_NAME, &f);
    assert_int_equal(f.error, CL_SUCCESS);
    find_fact(&reply.facts, TP_WIRE_FACT_KERNEL_DEVICE, 0, 0, CL_KERNEL_WORK_GROUP_SIZE,
              &f);
    assert_int_equal(f.len, sizeof(size_t));
    reply = build(&c, "__kernel void broken(");
    assert_int_equal(reply.status, CL_BUILD_PROGRAM_FAILURE);
    find_fact(&reply.facts, TP_WIRE_FACT_PROGRAM_DEVICE, 0, 0, CL_PROGRAM_BUILD_LOG,
              &f);
    assert_true(f.len > 1);
    close_scene(&c);
}

static void
test_printf(void **state)
{
    static struct scene c;
    struct tp_wire_printf m;
    uint64_t kernel;

    (void)state;
    open_scene(&c, 0);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "say");
    set_int(&c, kernel, 0, 42);
    launch(&c, kernel, 4, 0, 0, NULL);
    finish(&c); /* DONE has arrived, so the text must be here */
    assert_int_equal(test_count(&c.s, TP_WIRE_PRINTF), 1);
    test_expect(&c.s, TP_WIRE_PRINTF, &m);
    assert_int_equal(m.text.len, 9);
    assert_memory_equal(m.text.data, "hello 42\n", 9);
    close_scene(&c);
}

static void
test_profiling(void **state)
{
    static struct scene c;
    struct tp_wire_done done;
    uint64_t kernel, mem, event, last = 0;

    (void)state;
    open_scene(&c, CL_QUEUE_PROFILING_ENABLE);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add");
    mem = make_buffer(&c, 4096);
    set_mem(&c, kernel, 0, mem);
    set_int(&c, kernel, 1, 1);
    event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    launch(&c, kernel, 1024, event, TP_WIRE_NOTIFY, NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.stamps.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(tp_wire_u64_at(&done.stamps, i) >= last);
        last = tp_wire_u64_at(&done.stamps, i);
    }
    assert_true(last > 0);
    close_scene(&c);
}

static void
test_user_event_and_subscribe(void **state)
{
    static struct scene c;
    struct tp_wire_user_event_create create;
    struct tp_wire_user_event_set set = {.status = CL_COMPLETE};
    struct tp_wire_subscribe subscribe;
    struct tp_wire_done done;
    uint64_t mem, event, ids[1];

    (void)state;
    open_scene(&c, 0);
    mem = make_buffer(&c, 64);
    create.context = c.context;
    create.event = set.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_USER_EVENT_CREATE, &create);
    event = read_inline(&c, mem, 64, &(struct tp_wire_u64s)TEST_IDS(create.event));
    test_flush(&c.s);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    assert_int_equal(test_count(&c.s, TP_WIRE_DONE), 0);
    ids[0] = create.event;
    subscribe.events = (struct tp_wire_u64s){1, ids};
    test_put(&c.s, TP_WIRE_SUBSCRIBE, &subscribe);
    test_put(&c.s, TP_WIRE_USER_EVENT_SET, &set);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    test_expect_done(&c.s, create.event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    close_scene(&c);
}

static void
test_failed_user_event(void **state)
{
    static struct scene c;
    struct tp_wire_user_event_create create;
    struct tp_wire_user_event_set set = {.status = -7};
    struct tp_wire_done done;
    uint64_t mem, event;

    (void)state;
    open_scene(&c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    mem = make_buffer(&c, 64);
    create.context = c.context;
    create.event = set.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_USER_EVENT_CREATE, &create);
    event = read_inline(&c, mem, 64, &(struct tp_wire_u64s)TEST_IDS(create.event));
    test_put(&c.s, TP_WIRE_USER_EVENT_SET, &set);
    test_expect_done(&c.s, event, &done);
    assert_true(done.status < 0);
    close_scene(&c);
}

/* Ids that are unknown, of the wrong kind, or poisoned fail the command, not the session. */
static void
test_bad_ids(void **state)
{
    static struct scene c;
    struct tp_wire_failed failed;
    struct tp_wire_done done;
    struct tp_wire_marker marker = {.flags = TP_WIRE_NOTIFY};
    uint64_t mem, event, poisoned;

    (void)state;
    open_scene(&c, 0);
    mem = make_buffer(&c, 64);
    event = read_inline(&c, tp_wire_id(TP_WIRE_KIND_MEM, 999), 4, NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_INVALID_MEM_OBJECT);
    event = read_inline(&c, c.context, 4, NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_INVALID_MEM_OBJECT);
    event = read_inline(
        &c, mem, 4,
        &(struct tp_wire_u64s)TEST_IDS(tp_wire_id(TP_WIRE_KIND_EVENT, 999)));
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_INVALID_EVENT_WAIT_LIST);
    poisoned = event;
    event = read_inline(&c, mem, 4, &(struct tp_wire_u64s)TEST_IDS(poisoned));
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    marker.queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 999);
    marker.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_MARKER, &marker);
    test_expect_done(&c.s, marker.event, &done);
    assert_int_equal(done.status, CL_INVALID_COMMAND_QUEUE);
    poisoned = make_buffer(&c, 0);
    test_expect(&c.s, TP_WIRE_FAILED, &failed);
    assert_int_equal(failed.id, poisoned);
    assert_int_equal(failed.status, CL_INVALID_BUFFER_SIZE);
    assert_true(failed.text.len > 0);
    event = read_inline(&c, poisoned, 4, NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_INVALID_BUFFER_SIZE);
    event = read_inline(&c, mem, 4, NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    close_scene(&c);
}

/* A failed command without event is reported by FAILED with its queue; later ones run. */
static void
test_failure_nobody_asked_for(void **state)
{
    static struct scene c;
    struct tp_wire_failed failed;
    struct tp_wire_done done;
    uint64_t kernel, event;

    (void)state;
    open_scene(&c, 0);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add"); /* its arguments are not set */
    for (int i = 0; i < 10; i++) { /* only the first ones have an event here */
        launch(&c, kernel, 1, 0, 0, NULL);
        test_expect(&c.s, TP_WIRE_FAILED, &failed);
        assert_int_equal(failed.id, c.queue);
        assert_int_equal(failed.status, CL_INVALID_KERNEL_ARGS);
    }
    /* with an event it is reported in order, before the DONE after it */
    event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    launch(&c, kernel, 1, event, 0, NULL);
    finish(&c);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_INVALID_KERNEL_ARGS);
    close_scene(&c);
}

static void
test_twice_the_same_id(void **state)
{
    static struct scene c;
    struct tp_wire_close closing;
    struct tp_wire_buffer_create m;

    (void)state;
    open_scene(&c, 0);
    m = (struct tp_wire_buffer_create){
        .context = c.context, .flags = CL_MEM_READ_WRITE, .size = 64};
    m.mem = make_buffer(&c, 64);
    test_put(&c.s, TP_WIRE_BUFFER_CREATE, &m);
    test_expect(&c.s, TP_WIRE_CLOSE, &closing);
    assert_int_equal(closing.status, TELPHER_ERR_PROTO);
    assert_int_equal(test_expect_end(&c.s), TELPHER_ERR_PEER_LOST);
    close_scene(&c);
}

/* ---- transfers ---- */

static uint8_t *
pattern(uint64_t size, unsigned seed)
{
    uint8_t *data = tp_malloc(size, "pattern");

    assert_non_null(data);
    for (uint64_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
    return data;
}

/* Sends content within window and credit. */
static void
send_with_credit(struct scene *c, uint64_t transfer, const uint8_t *data, uint64_t size)
{
    uint64_t limit = TP_MIN(TP_WIRE_WINDOW, size), sent = 0;

    test_flush(&c->s);
    while (sent < size) {
        test_send_content(&c->s, transfer, sent, data + sent, limit - sent);
        sent = limit;
        while (sent < size && limit == sent) {
            struct tp_wire_credit m;

            test_expect(&c->s, TP_WIRE_CREDIT, &m);
            assert_int_equal(m.transfer, transfer);
            assert_true(m.limit > limit && m.limit <= size);
            limit = m.limit;
        }
    }
}

static uint64_t
write_transfer(struct scene *c, uint64_t mem, uint64_t offset, uint64_t size,
               uint64_t *ret_transfer)
{
    struct tp_wire_write m = {.queue = c->queue,
                              .mem = mem,
                              .offset = offset,
                              .size = size,
                              .flags = TP_WIRE_NOTIFY};

    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    *ret_transfer = m.transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    test_put(&c->s, TP_WIRE_WRITE, &m);
    return m.event;
}

static uint64_t
read_transfer(struct scene *c, uint64_t mem, uint64_t offset, uint64_t size)
{
    struct tp_wire_read m = {.queue = c->queue,
                             .mem = mem,
                             .offset = offset,
                             .size = size,
                             .flags = TP_WIRE_NOTIFY};

    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    m.transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    test_put(&c->s, TP_WIRE_READ, &m);
    return m.event;
}

static void
move_there_and_back(uint64_t properties, uint64_t size)
{
    static struct scene c;
    struct tp_wire_done done;
    uint64_t mem, write_event, read_event, transfer;
    uint8_t *data = pattern(size, (unsigned)size), *got = tp_malloc(size, "got");

    assert_non_null(got);
    open_scene(&c, properties);
    test_session_bulk(&c.s, &the_daemon);
    mem = make_buffer(&c, size);
    write_event = write_transfer(&c, mem, 0, size, &transfer);
    send_with_credit(&c, transfer, data, size);
    test_expect_done(&c.s, write_event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.stamps.count, properties & CL_QUEUE_PROFILING_ENABLE ? 5 : 0);
    read_event = read_transfer(&c, mem, 0, size);
    test_receive_content(&c.s, got, size);
    test_expect_done(&c.s, read_event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_memory_equal(data, got, size);
    close_scene(&c);
    tp_free(data);
    tp_free(got);
}

static void
test_transfers(void **state)
{
    (void)state;
    move_there_and_back(0, (16 << 10) + 1);
    move_there_and_back(CL_QUEUE_PROFILING_ENABLE, 300 << 10);
    move_there_and_back(CL_QUEUE_PROFILING_ENABLE, (3 << 20) + 17);
    move_there_and_back(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 40 << 20);
}

/* In order: write, kernel, read, with the content coming late or before its command. */
static void
test_transfer_keeps_its_place(void **state)
{
    enum { COUNT = 64 << 10, SIZE = COUNT * 4 };
    static struct scene c;
    struct tp_wire_done done;
    uint64_t kernel, mem, transfer, early, read_event;
    int *data = tp_zalloc(SIZE, "data"), *got = tp_zalloc(SIZE, "got");

    (void)state;
    assert_true(data != NULL && got != NULL);
    open_scene(&c, 0);
    test_session_bulk(&c.s, &the_daemon);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add");
    mem = make_buffer(&c, SIZE);
    set_mem(&c, kernel, 0, mem);
    set_int(&c, kernel, 1, 7);
    (void)write_transfer(&c, mem, 0, SIZE, &transfer);
    launch(&c, kernel, COUNT, 0, 0, NULL);
    read_event = read_transfer(&c, mem, 0, SIZE);
    test_flush(&c.s);
    tp_clock_sleep(20 * TP_CLOCK_MS);
    test_send_content(&c.s, transfer, 0, data, SIZE);
    test_receive_content(&c.s, got, SIZE);
    test_expect_done(&c.s, read_event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(got[0], 7);
    assert_int_equal(got[COUNT - 1], 7);
    /* content first: the id is what test_id will give to the transfer of the WRITE */
    early = tp_wire_id(TP_WIRE_KIND_TRANSFER, c.s.next_id + 1);
    data[COUNT - 1] = 100;
    test_send_content(&c.s, early, 0, data, SIZE);
    tp_clock_sleep(20 * TP_CLOCK_MS);
    (void)write_transfer(&c, mem, 0, SIZE, &transfer);
    assert_int_equal(transfer, early);
    launch(&c, kernel, COUNT, 0, 0, NULL);
    (void)read_transfer(&c, mem, 0, SIZE);
    test_receive_content(&c.s, got, SIZE);
    assert_int_equal(got[0], 7);
    assert_int_equal(got[COUNT - 1], 107);
    close_scene(&c);
    tp_free(data);
    tp_free(got);
}

/* A box of a buffer, in and out, larger than one chunk. */
static void
test_rect_transfer(void **state)
{
    enum { W = 700, H = 90, D = 40, PITCH = 1024, SLICE = PITCH * 100 };
    const uint64_t size = (uint64_t)W * H * D;
    const uint64_t rect[8] = {3, 2, 1, W, H, D, PITCH, SLICE};
    static struct scene c;
    struct tp_wire_write w = {.size = size, .rect = {8, rect}};
    struct tp_wire_read r = {.size = size, .rect = {8, rect}, .flags = TP_WIRE_NOTIFY};
    struct tp_wire_done done;
    uint8_t *data = pattern(size, 5), *got = tp_malloc(size, "got");
    uint8_t *whole = tp_malloc((uint64_t)SLICE * (D + 2), "whole");

    (void)state;
    assert_true(got != NULL && whole != NULL);
    open_scene(&c, 0);
    test_session_bulk(&c.s, &the_daemon);
    w.queue = r.queue = c.queue;
    w.mem = r.mem = make_buffer(&c, (uint64_t)SLICE * (D + 2));
    w.transfer = test_id(&c.s, TP_WIRE_KIND_TRANSFER);
    test_put(&c.s, TP_WIRE_WRITE, &w);
    test_flush(&c.s);
    test_send_content(&c.s, w.transfer, 0, data, size);
    r.transfer = test_id(&c.s, TP_WIRE_KIND_TRANSFER);
    r.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_READ, &r);
    test_receive_content(&c.s, got, size);
    test_expect_done(&c.s, r.event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_memory_equal(data, got, size);
    (void)read_transfer(&c, w.mem, 0, (uint64_t)SLICE * (D + 2));
    test_receive_content(&c.s, whole, (uint64_t)SLICE * (D + 2));
    for (uint64_t z = 0; z < D; z++) {
        for (uint64_t y = 0; y < H; y++) {
            assert_memory_equal(whole + (z + 1) * SLICE + (y + 2) * PITCH + 3,
                                data + (z * H + y) * W, W);
        }
    }
    close_scene(&c);
    tp_free(data);
    tp_free(got);
    tp_free(whole);
}

/* A WRITE that fails at once, and one whose content is called off. */
static void
test_transfer_errors(void **state)
{
    enum { SIZE = 20 << 20 };
    static struct scene c;
    struct tp_wire_done done;
    struct tp_wire_abort abort_msg = {.status = CL_OUT_OF_RESOURCES};
    uint64_t mem, event, transfer;
    uint8_t *data = pattern(SIZE, 9);

    (void)state;
    open_scene(&c, 0);
    test_session_bulk(&c.s, &the_daemon);
    mem = make_buffer(&c, SIZE);
    event = write_transfer(&c, mem, 1, SIZE, &transfer); /* one byte too far */
    send_with_credit(&c, transfer, data, SIZE);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_INVALID_VALUE);
    event = write_transfer(&c, mem, 0, SIZE, &transfer);
    test_flush(&c.s);
    test_send_content(&c.s, transfer, 0, data, 1 << 20);
    abort_msg.transfer = transfer;
    test_put(&c.s, TP_WIRE_ABORT, &abort_msg);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_OUT_OF_RESOURCES);
    close_scene(&c);
    tp_free(data);
}

/* Large sources and binaries travel as transfers; binaries come back as programs. */
static void
test_large_source_and_binaries(void **state)
{
    enum { SIZE = 600 << 10 };
    static struct scene c;
    char *text = tp_malloc(SIZE, "source");
    struct tp_wire_program_source m = {.size = SIZE};
    struct tp_wire_program_build b = {.options = TEST_TEXT("")};
    struct tp_wire_build_reply reply;
    struct tp_wire_program_binaries ask;
    struct tp_wire_binaries_reply answer;
    struct tp_wire_program_binary binary = {.devices = TEST_IDS(0)};
    struct tp_wire_binary_reply binary_reply;
    struct tp_wire_fact f;
    uint64_t size;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', SIZE);
    memcpy(text, source, strlen(source));
    open_scene(&c, 0);
    test_session_bulk(&c.s, &the_daemon);
    m.context = c.context;
    m.program = b.program = ask.program = c.program =
        test_id(&c.s, TP_WIRE_KIND_PROGRAM);
    m.transfer = test_id(&c.s, TP_WIRE_KIND_TRANSFER);
    b.request = test_id(&c.s, TP_WIRE_KIND_REQUEST);
    test_put(&c.s, TP_WIRE_PROGRAM_SOURCE, &m);
    test_put(&c.s, TP_WIRE_PROGRAM_BUILD, &b); /* waits for the source */
    test_put(&c.s, TP_WIRE_PROGRAM_BUILD, &b); /* one waits already */
    test_expect(&c.s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.status, CL_INVALID_OPERATION);
    test_send_content(&c.s, m.transfer, 0, text, SIZE);
    test_expect(&c.s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.status, CL_SUCCESS);
    ask.request = test_id(&c.s, TP_WIRE_KIND_REQUEST);
    test_put(&c.s, TP_WIRE_PROGRAM_BINARIES, &ask);
    test_expect(&c.s, TP_WIRE_BINARIES_REPLY, &answer);
    assert_int_equal(answer.status, CL_SUCCESS);
    assert_int_equal(answer.sizes.count, 1);
    assert_int_equal(answer.transfer, 0);
    size = tp_wire_u64_at(&answer.sizes, 0);
    assert_int_equal(size, answer.binaries.len);
    binary.request = test_id(&c.s, TP_WIRE_KIND_REQUEST);
    binary.context = c.context;
    binary.program = b.program = c.program = test_id(&c.s, TP_WIRE_KIND_PROGRAM);
    binary.sizes = (struct tp_wire_u64s){1, &size};
    binary.binaries = answer.binaries;
    test_put(&c.s, TP_WIRE_PROGRAM_BINARY, &binary);
    test_expect(&c.s, TP_WIRE_BINARY_REPLY, &binary_reply);
    assert_int_equal(binary_reply.status, CL_SUCCESS);
    assert_int_equal(tp_wire_u64_at(&binary_reply.binary_status, 0), CL_SUCCESS);
    test_put(&c.s, TP_WIRE_PROGRAM_BUILD, &b);
    test_expect(&c.s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.status, CL_SUCCESS);
    find_fact(&reply.facts, TP_WIRE_FACT_KERNEL_ARG, 0, 0, CL_KERNEL_ARG_NAME, &f);
    assert_int_equal(f.error, CL_SUCCESS);
    close_scene(&c);
    tp_free(text);
}

/* Boxes in command frames. */
static void
test_inline_rect(void **state)
{
    const uint64_t rect[8] = {2, 1, 1, 3, 2, 2, 8, 32};
    struct tp_wire_write w = {.size = 12, .rect = {8, rect}};
    struct tp_wire_read r = {.size = 12, .rect = {8, rect}, .flags = TP_WIRE_NOTIFY};
    static struct scene c;
    struct tp_wire_done done;
    uint8_t zero[96] = {0}, data[12];
    uint64_t event;

    (void)state;
    open_scene(&c, 0);
    for (uint8_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i + 1);
    }
    w.queue = r.queue = c.queue;
    w.mem = r.mem = make_buffer(&c, sizeof(zero));
    w.data = (struct tp_wire_bytes){sizeof(data), data};
    write_inline(&c, w.mem, zero, sizeof(zero));
    test_put(&c.s, TP_WIRE_WRITE, &w);
    r.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_READ, &r);
    test_expect_done(&c.s, r.event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.data.len, sizeof(data));
    assert_memory_equal(done.data.data, data, sizeof(data));
    event = read_inline(&c, w.mem, sizeof(zero), NULL);
    test_expect_done(&c.s, event, &done);
    assert_memory_equal((const uint8_t *)done.data.data + 2 + 8 + 32, data, 3);
    assert_memory_equal((const uint8_t *)done.data.data + 2 + 16 + 64, data + 9, 3);
    r.rect.data = (const uint64_t[]){2, 1, 1, 3, 2, 3, 8, 32}; /* one slice too many */
    r.size = 18;
    r.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_READ, &r);
    test_expect_done(&c.s, r.event, &done);
    assert_int_equal(done.status, CL_INVALID_VALUE);
    close_scene(&c);
}

/* Boxes that a driver may take for good ones, since adding up their parts overflows. */
static void
expect_no_copy(struct scene *c, const struct tp_wire_copy *good)
{
    static const uint64_t rects[][13] = {
        {16, 2, UINT64_MAX, 1, 0, 0, 1, 1, 1, UINT64_MAX, 0, 0, 0},
        {0, 0, 0, UINT64_MAX, 0, 0, 2, 1, 1, 0, 0, 0, 0},
        {0, 0, 0, 0, UINT64_MAX, 0, 1, 2, 1, 8, 0, 8, 0},
        {0, 0, 0, 0, 0, 0, 1, 1, (uint64_t)1 << 46, 8, 0, 8, (uint64_t)1 << 40},
        {0, 0, 0, 0, 31, 0, 8, 2, 1, 8, 0, 8, 0},
    };
    struct tp_wire_copy copy = *good;
    struct tp_wire_done done;

    for (size_t i = 0; i < sizeof(rects) / sizeof(rects[0]); i++) {
        copy.rect = (struct tp_wire_u64s){13, rects[i]};
        copy.flags = TP_WIRE_NOTIFY;
        copy.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
        test_put(&c->s, TP_WIRE_COPY, &copy);
        test_expect_done(&c->s, copy.event, &done);
        assert_int_equal(done.status, CL_INVALID_VALUE);
    }
}

/* COPY, FILL, sub-buffers and MIGRATE. */
static void
test_other_commands(void **state)
{
    static struct scene c;
    struct tp_wire_fill fill = {.offset = 16, .size = 32, .pattern = TEST_TEXT("abcd")};
    struct tp_wire_copy copy = {.src_offset = 16, .dst_offset = 4, .size = 8};
    struct tp_wire_copy rect_copy = {
        .rect = TEST_IDS(0, 0, 0, 1, 1, 0, 2, 2, 1, 8, 0, 8, 0)};
    struct tp_wire_sub_buffer_create sub = {.flags = CL_MEM_READ_WRITE, .size = 64};
    struct tp_wire_migrate migrate = {.flags = TP_WIRE_NOTIFY};
    struct tp_wire_done done;
    uint8_t zero[256] = {0};
    uint64_t ids[1];

    (void)state;
    open_scene(&c, 0);
    fill.queue = copy.queue = rect_copy.queue = migrate.queue = c.queue;
    sub.parent = fill.mem = copy.src = rect_copy.src = make_buffer(&c, sizeof(zero));
    copy.dst = rect_copy.dst = make_buffer(&c, sizeof(zero));
    write_inline(&c, fill.mem, zero, sizeof(zero));
    write_inline(&c, copy.dst, zero, sizeof(zero));
    test_put(&c.s, TP_WIRE_FILL, &fill);
    test_put(&c.s, TP_WIRE_COPY, &copy);
    test_expect_done(&c.s, read_inline(&c, copy.dst, 16, NULL), &done);
    assert_memory_equal(done.data.data, "\0\0\0\0abcdabcd\0\0\0\0", 16);
    write_inline(&c, rect_copy.src, "0123456789", 10);
    expect_no_copy(&c, &rect_copy);
    test_put(&c.s, TP_WIRE_COPY, &rect_copy);
    test_expect_done(&c.s, read_inline(&c, copy.dst, 24, NULL), &done);
    assert_memory_equal((const uint8_t *)done.data.data + 9, "01", 2);
    assert_memory_equal((const uint8_t *)done.data.data + 17, "89", 2);
    sub.mem = test_id(&c.s, TP_WIRE_KIND_MEM);
    test_put(&c.s, TP_WIRE_SUB_BUFFER_CREATE, &sub);
    test_expect_done(&c.s, read_inline(&c, sub.mem, 10, NULL), &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_memory_equal(done.data.data, "0123456789", 10);
    ids[0] = copy.dst;
    migrate.mems = (struct tp_wire_u64s){1, ids};
    migrate.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_MIGRATE, &migrate);
    test_expect_done(&c.s, migrate.event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    close_scene(&c);
}

/* Out of order, a barrier holds back later moves, and a failed one is got over. */
static void
test_out_of_order_barrier(void **state)
{
    enum { SIZE = 1 << 20 };
    static struct scene c;
    struct tp_wire_user_event_create create;
    struct tp_wire_user_event_set set = {.status = CL_COMPLETE};
    struct tp_wire_barrier barrier = {.flags = 0};
    struct tp_wire_done done;
    uint64_t mem, event, transfer;
    uint8_t *data = pattern(SIZE, 3), *got = tp_zalloc(SIZE, "got");

    (void)state;
    assert_non_null(got);
    open_scene(&c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    test_session_bulk(&c.s, &the_daemon);
    mem = make_buffer(&c, SIZE);
    create.context = c.context;
    barrier.queue = c.queue;
    for (int round = 0; round < 2; round++) {
        create.event = set.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
        test_put(&c.s, TP_WIRE_USER_EVENT_CREATE, &create);
        barrier.wait = (struct tp_wire_u64s)TEST_IDS(create.event);
        test_put(&c.s, TP_WIRE_BARRIER, &barrier);
        event = write_transfer(&c, mem, 0, SIZE, &transfer);
        send_with_credit(&c, transfer, data, SIZE);
        tp_clock_sleep(50 * TP_CLOCK_MS);
        assert_int_equal(test_count(&c.s, TP_WIRE_DONE), 0);
        set.status = round == 0 ? CL_COMPLETE : -9;
        test_put(&c.s, TP_WIRE_USER_EVENT_SET, &set);
        test_expect_done(&c.s, event, &done);
        assert_int_equal(done.status < 0, round == 1);
    }
    event = read_transfer(&c, mem, 0, SIZE);
    test_receive_content(&c.s, got, SIZE);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_memory_equal(got, data, SIZE);
    close_scene(&c);
    tp_free(data);
    tp_free(got);
}

/* In order, after a failure everything that follows still runs. */
static void
test_queue_after_failure(void **state)
{
    static struct scene c;
    struct tp_wire_user_event_create create;
    struct tp_wire_user_event_set set = {.status = -9};
    struct tp_wire_done done;
    uint64_t mem, before, failed, event;

    (void)state;
    open_scene(&c, 0);
    mem = make_buffer(&c, 64);
    before = read_inline(&c, mem, 64, NULL);
    create.context = c.context;
    create.event = set.event = test_id(&c.s, TP_WIRE_KIND_EVENT);
    test_put(&c.s, TP_WIRE_USER_EVENT_CREATE, &create);
    failed = read_inline(&c, mem, 64, &(struct tp_wire_u64s)TEST_IDS(create.event));
    test_put(&c.s, TP_WIRE_USER_EVENT_SET, &set);
    test_expect_done(&c.s, before, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    test_expect_done(&c.s, failed, &done);
    assert_int_equal(done.status, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    event = read_inline(&c, mem, 64, NULL);
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    event = read_inline(&c, mem, 64, &(struct tp_wire_u64s)TEST_IDS(failed));
    test_expect_done(&c.s, event, &done);
    assert_int_equal(done.status, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    close_scene(&c);
}

/* Requests about what is not there are answered. */
static void
test_requests_always_answered(void **state)
{
    static struct scene c;
    struct tp_wire_program_build build_msg = {.options = TEST_TEXT("")};
    struct tp_wire_build_reply built;
    struct tp_wire_program_binaries ask;
    struct tp_wire_binaries_reply answer;
    struct tp_wire_context_create context = {.devices = TEST_IDS(1000)};
    struct tp_wire_failed failed;

    (void)state;
    open_scene(&c, 0);
    build_msg.program = ask.program = tp_wire_id(TP_WIRE_KIND_PROGRAM, 4711);
    build_msg.request = test_id(&c.s, TP_WIRE_KIND_REQUEST);
    test_put(&c.s, TP_WIRE_PROGRAM_BUILD, &build_msg);
    test_expect(&c.s, TP_WIRE_BUILD_REPLY, &built);
    assert_int_equal(built.status, CL_INVALID_PROGRAM);
    ask.request = test_id(&c.s, TP_WIRE_KIND_REQUEST);
    test_put(&c.s, TP_WIRE_PROGRAM_BINARIES, &ask);
    test_expect(&c.s, TP_WIRE_BINARIES_REPLY, &answer);
    assert_int_equal(answer.request, ask.request);
    assert_int_equal(answer.status, CL_INVALID_PROGRAM);
    context.context = test_id(&c.s, TP_WIRE_KIND_CONTEXT);
    test_put(&c.s, TP_WIRE_CONTEXT_CREATE, &context);
    test_expect(&c.s, TP_WIRE_FAILED, &failed);
    assert_int_equal(failed.id, context.context);
    assert_int_equal(failed.status, CL_INVALID_DEVICE);
    close_scene(&c);
}

/* Two sessions at once, each with its own results. */
static void
test_two_sessions(void **state)
{
    static struct scene c[2];
    struct tp_wire_done done;
    uint64_t mem[2], kernel;
    int zero[16] = {0}, got[16];

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_scene(&c[i], 0);
        assert_int_equal(build(&c[i], source).status, CL_SUCCESS);
        kernel = make_kernel(&c[i], "add");
        mem[i] = make_buffer(&c[i], sizeof(zero));
        write_inline(&c[i], mem[i], zero, sizeof(zero));
        set_mem(&c[i], kernel, 0, mem[i]);
        set_int(&c[i], kernel, 1, i + 1);
        for (int n = 0; n < 50; n++) {
            launch(&c[i], kernel, 16, 0, 0, NULL);
        }
        test_flush(&c[i].s);
    }
    assert_int_equal(test_daemon_children(&the_daemon, NULL, 0), 2);
    for (int i = 0; i < 2; i++) {
        test_expect_done(&c[i].s, read_inline(&c[i], mem[i], sizeof(got), NULL), &done);
        memcpy(got, done.data.data, sizeof(got));
        assert_int_equal(got[15], 50 * (i + 1));
    }
    test_session_close(&c[0].s);
    close_scene(&c[1]);
}

/* Many commands without NOTIFY, then one DONE. */
static void
test_many_commands(void **state)
{
    static struct scene c;
    struct tp_wire_done done;
    uint64_t mem, kernel, event;
    int zero = 0;

    (void)state;
    open_scene(&c, 0);
    assert_int_equal(build(&c, source).status, CL_SUCCESS);
    kernel = make_kernel(&c, "add");
    mem = make_buffer(&c, 4);
    write_inline(&c, mem, &zero, sizeof(zero));
    set_mem(&c, kernel, 0, mem);
    set_int(&c, kernel, 1, 1);
    for (int i = 0; i < 2000; i++) {
        event = test_id(&c.s, TP_WIRE_KIND_EVENT);
        launch(&c, kernel, 1, event, 0, NULL);
        release(&c, event);
    }
    test_expect_done(&c.s, read_inline(&c, mem, 4, NULL), &done);
    assert_int_equal(*(const uint8_t *)done.data.data | 0, 2000 & 0xff);
    assert_int_equal(test_count(&c.s, TP_WIRE_DONE), 0);
    close_scene(&c);
}

/* A test that failed has not closed its sessions. */
static int
close_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(open_scenes); i++) {
        if (open_scenes[i] != NULL && open_scenes[i]->s.stream != NULL) {
            test_session_close(&open_scenes[i]->s);
        }
        open_scenes[i] = NULL;
    }
    test_daemon_wait_children(&the_daemon, 0);
    return 0;
}

static int
start_daemon(void **state)
{
    *state = &the_daemon;
    (void)setenv("POCL_DEVICES", "pthread pthread", 0);
    test_daemon_start(&the_daemon, NULL);
    test_daemon_need(&the_daemon, NULL, "an OpenCL device");
    return 0;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_launch, close_all),
        cmocka_unit_test_teardown(test_launch_again, close_all),
        cmocka_unit_test_teardown(test_launch_again_on_a_poisoned_queue, close_all),
        cmocka_unit_test_teardown(test_bad_launch_again, close_all),
        cmocka_unit_test_teardown(test_build_facts, close_all),
        cmocka_unit_test_teardown(test_printf, close_all),
        cmocka_unit_test_teardown(test_profiling, close_all),
        cmocka_unit_test_teardown(test_user_event_and_subscribe, close_all),
        cmocka_unit_test_teardown(test_failed_user_event, close_all),
        cmocka_unit_test_teardown(test_bad_ids, close_all),
        cmocka_unit_test_teardown(test_failure_nobody_asked_for, close_all),
        cmocka_unit_test_teardown(test_twice_the_same_id, close_all),
        cmocka_unit_test_teardown(test_transfers, close_all),
        cmocka_unit_test_teardown(test_transfer_keeps_its_place, close_all),
        cmocka_unit_test_teardown(test_rect_transfer, close_all),
        cmocka_unit_test_teardown(test_transfer_errors, close_all),
        cmocka_unit_test_teardown(test_large_source_and_binaries, close_all),
        cmocka_unit_test_teardown(test_inline_rect, close_all),
        cmocka_unit_test_teardown(test_other_commands, close_all),
        cmocka_unit_test_teardown(test_out_of_order_barrier, close_all),
        cmocka_unit_test_teardown(test_queue_after_failure, close_all),
        cmocka_unit_test_teardown(test_requests_always_answered, close_all),
        cmocka_unit_test_teardown(test_two_sessions, close_all),
        cmocka_unit_test_teardown(test_many_commands, close_all),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
