/* SPDX-License-Identifier: Apache-2.0 */
/* Launches like the one before, others, and malformed ones from a peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/launch.h"

static const uint64_t sizes[] = {0, 0, 0, 64, 4, 2, 16, 4, 1};

static struct tp_wire_launch
launch_of(uint64_t kernel, uint64_t event)
{
    return (struct tp_wire_launch){
        .event = event != 0 ? tp_wire_id(TP_WIRE_KIND_EVENT, event) : 0,
        .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
        .kernel = tp_wire_id(TP_WIRE_KIND_KERNEL, kernel),
        .dims = 3,
        .sizes = {9, sizes}};
}

/* Both ends of a queue. */
struct ends {
    struct tp_wire_last_launch client, server;
};

/* Sends a launch as a client does. @return true if it was shrunk; it arrived as it was */
static bool
pass(struct ends *e, const struct tp_wire_launch *m)
{
    struct tp_wire_launch_again again;
    struct tp_wire_launch got;
    uint64_t room;

    if (!tp_wire_launch_shrink(&e->client, m, &again)) {
        tp_wire_launch_remember(&e->server, m);
        return false;
    }
    assert_true(tp_wire_launch_expand(&e->server, &again, &room, &got));
    assert_int_equal(got.event, m->event);
    assert_int_equal(got.queue, m->queue);
    assert_int_equal(got.kernel, m->kernel);
    assert_int_equal(got.flags, m->flags);
    assert_int_equal(got.dims, m->dims);
    assert_int_equal(got.sizes.count, m->sizes.count);
    assert_memory_equal(got.sizes.data, m->sizes.data, 8u * m->sizes.count);
    assert_int_equal(got.wait.count, m->wait.count);
    for (size_t i = 0; i < m->wait.count; i++) {
        assert_int_equal(tp_wire_u64_at(&got.wait, i), tp_wire_u64_at(&m->wait, i));
    }
    return true;
}

static void
test_only_a_launch_like_the_last_shrinks(void **state)
{
    const uint64_t other[] = {0, 0, 0, 64, 4, 2, 16, 2, 1};
    struct tp_wire_launch m = launch_of(7, 0);
    struct ends e = {0};

    (void)state;
    assert_false(pass(&e, &m));
    assert_true(pass(&e, &m));
    m = launch_of(8, 0); /* another kernel */
    assert_false(pass(&e, &m));
    assert_true(pass(&e, &m));
    m.sizes.data = other;
    assert_false(pass(&e, &m));
    assert_true(pass(&e, &m));
    m.sizes.count = 6; /* no local size */
    assert_false(pass(&e, &m));
    assert_true(pass(&e, &m));
    m.dims = 2; /* the same six numbers mean something else */
    assert_false(pass(&e, &m));
    m.flags = TP_WIRE_NOTIFY;
    m.event = tp_wire_id(TP_WIRE_KIND_EVENT, 1);
    assert_true(pass(&e, &m));
}

static void
test_wait_lists(void **state)
{
    struct tp_wire_launch m = launch_of(7, 20);
    uint64_t waits[2] = {tp_wire_id(TP_WIRE_KIND_EVENT, 20),
                         tp_wire_id(TP_WIRE_KIND_EVENT, 21)};
    struct ends e = {0};

    (void)state;
    assert_false(pass(&e, &m));
    m = launch_of(7, 21);
    m.wait = (struct tp_wire_u64s){1, waits}; /* of the launch before */
    assert_true(pass(&e, &m));
    m = launch_of(7, 22);
    m.wait = (struct tp_wire_u64s){1, waits}; /* of an older one */
    assert_false(pass(&e, &m));
    m = launch_of(7, 23);
    m.wait = (struct tp_wire_u64s){2, waits};
    assert_false(pass(&e, &m));
    m = launch_of(7, 0);
    assert_true(pass(&e, &m)); /* and now the launch before has no event */
    waits[0] = 0;
    m = launch_of(7, 24);
    m.wait = (struct tp_wire_u64s){1, waits};
    assert_false(pass(&e, &m));
}

static void
test_long_ids_do_not_shrink(void **state)
{
    struct tp_wire_launch m = launch_of(7, 0);
    struct ends e = {0};

    (void)state;
    assert_false(pass(&e, &m));
    m.event = tp_wire_id(TP_WIRE_KIND_EVENT, 1ULL << 32);
    assert_false(pass(&e, &m));
    m.event = tp_wire_id(TP_WIRE_KIND_EVENT, (1ULL << 32) - 1);
    assert_true(pass(&e, &m));
    m.event = 0;
    m.queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 1ULL << 40);
    assert_false(pass(&e, &m));
}

static void
test_nothing_to_expand(void **state)
{
    struct tp_wire_launch_again again = {.queue = 2};
    struct tp_wire_launch m = launch_of(7, 0), got;
    struct tp_wire_last_launch last = {0};
    uint64_t room;

    (void)state;
    assert_false(tp_wire_launch_expand(&last, &again, &room, &got)); /* none before */
    tp_wire_launch_remember(&last, &m);
    assert_true(tp_wire_launch_expand(&last, &again, &room, &got));
    again.flags = TP_WIRE_AFTER_LAST; /* which has no event */
    assert_false(tp_wire_launch_expand(&last, &again, &room, &got));
    again.flags = 0x80; /* unknown: the command refuses it */
    assert_true(tp_wire_launch_expand(&last, &again, &room, &got));
    assert_int_equal(got.flags, 0x80);
}

static void
test_arguments(void **state)
{
    static const uint8_t value[TP_WIRE_AGAIN_VALUE_MAX + 1] = {1, 2, 3};
    const struct tp_wire_kernel_arg in[] = {
        {.index = 0, .kind = TP_WIRE_ARG_VALUE, .size = 31, .value = {31, value}},
        {.index = 9, .kind = TP_WIRE_ARG_MEM, .size = 8, .value = {0, NULL}},
        {.index = 255, .kind = TP_WIRE_ARG_SVM, .size = 8, .value = {16, value}},
    };
    const struct tp_wire_kernel_arg none[] = {
        {.index = 256, .kind = TP_WIRE_ARG_MEM, .size = 8, .value = {8, value}},
        {.index = 1, .kind = TP_WIRE_ARG_VALUE, .size = 32, .value = {32, value}},
        {.index = 1, .kind = TP_WIRE_ARG_LOCAL, .size = 64, .value = {0, NULL}},
    };
    uint8_t room[2 * 3 + 31 + 16], *at = room;
    struct tp_wire_bytes args = {sizeof(room), room};
    struct tp_wire_kernel_arg out;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_null(tp_wire_put_again_arg(at, room + sizeof(room), &none[i]));
        assert_null(tp_wire_put_again_arg(at, at + 1 + in[i].value.len, &in[i]));
        at = tp_wire_put_again_arg(at, room + sizeof(room), &in[i]);
        assert_non_null(at);
    }
    assert_ptr_equal(at, room + sizeof(room));
    for (size_t i = 0; i < 3; i++) {
        assert_true(tp_wire_take_again_arg(&args, &out));
        assert_int_equal(out.index, in[i].index);
        assert_int_equal(out.kind, in[i].kind);
        assert_int_equal(out.size, in[i].size);
        assert_int_equal(out.value.len, in[i].value.len);
        assert_memory_equal(out.value.data, value, out.value.len);
    }
    assert_int_equal(args.len, 0);
}

static void
test_malformed_arguments(void **state)
{
    const uint8_t cut[] = {0, TP_WIRE_ARG_MEM << 5 | 8, 1, 2, 3},
                  local[] = {0, TP_WIRE_ARG_LOCAL << 5};
    struct tp_wire_kernel_arg out;
    struct tp_wire_bytes args;

    (void)state;
    for (uint32_t len = 0; len <= sizeof(cut); len++) {
        args = (struct tp_wire_bytes){len, cut};
        assert_false(tp_wire_take_again_arg(&args, &out));
        assert_int_equal(args.len, len);
    }
    args = (struct tp_wire_bytes){sizeof(local), local};
    assert_false(tp_wire_take_again_arg(&args, &out));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_a_launch_like_the_last_shrinks),
        cmocka_unit_test(test_wait_lists),
        cmocka_unit_test(test_long_ids_do_not_shrink),
        cmocka_unit_test(test_nothing_to_expand),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_malformed_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
