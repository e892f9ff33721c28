/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on an emulated device with a clock of its own: sessions with kernels of different
 * lengths get device time by their weights, and none waits for one that cannot go on.
 */
#include "daemon/share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"

enum { SLOTS = 8, STEP_NS = 50000 };

/* A session that always has kernels, or pauses after each. Its device runs those of one queue in
 * order. */
struct session {
    struct tp_share_member member;
    tp_ns kernel_ns; /* 0: its kernels never end */
    tp_ns pause_ns; /* after each kernel; 0: it has up to 4 kernels in the driver */
    unsigned depth;
    tp_ns since; /* of the kernel that runs */
    tp_ns ready_at; /* of the next kernel, after a pause or a wait */
    tp_ns longest_wait;
    tp_ns used;
};

static struct tp_share page;
static void *memory;
static bool taken[SLOTS];

static int
open_page(void **state)
{
    memory = calloc(1, tp_share_size(SLOTS));
    assert_non_null(memory);
    tp_share_init(&page, memory, SLOTS);
    memset(taken, 0, sizeof(taken));
    page.taken = taken;
    return 0;
}

static int
close_page(void **state)
{
    free(memory);
    return 0;
}

static void
join(struct session *s, uint32_t weight, tp_ns kernel_ns)
{
    const uint64_t max[TP_SHARE_AMOUNT_COUNT] = {100};

    *s = (struct session){.kernel_ns = kernel_ns, .member.share = page};
    tp_share_join(&s->member, tp_share_take(&page, 0, weight), max);
    assert_non_null(s->member.slot);
    atomic_store(&s->member.slot->devices, 1);
}

/* One step of a session: its kernels end, and it passes further ones if it may. */
static void
run_step(struct session *s, tp_ns now)
{
    if (s->depth > 0 && s->kernel_ns > 0 && now >= s->since + s->kernel_ns) {
        s->used += s->kernel_ns;
        s->since = now;
        s->ready_at = TP_MAX(s->ready_at, now + s->pause_ns);
        s->depth--;
        tp_share_end(&s->member, now);
    }
    while (s->depth < (s->pause_ns == 0 ? 4 : 1) && now >= s->ready_at) {
        if (tp_share_must_wait(&s->member, 0, false, now)) {
            s->longest_wait = TP_MAX(s->longest_wait, now - s->ready_at);
            break;
        }
        s->since = s->depth == 0 ? now : s->since;
        s->depth++;
        s->ready_at = now;
        tp_share_begin(&s->member, now);
    }
}

static void
run(struct session *all, size_t count, tp_ns from, tp_ns until)
{
    for (size_t i = 0; i < count; i++) {
        all[i].ready_at = all[i].depth == 0 ? from : all[i].ready_at;
    }
    for (tp_ns now = from; now < until; now += STEP_NS) {
        for (size_t i = 0; i < count; i++) {
            run_step(&all[i], now);
        }
    }
}

static double
part_of(const struct session *all, size_t i)
{
    return (double)all[i].used / (double)(all[0].used + all[1].used);
}

static void
expect_parts(uint32_t weight0, uint32_t weight1, tp_ns kernel0, tp_ns kernel1)
{
    struct session all[2];
    double want = (double)weight0 / (weight0 + weight1);

    join(&all[0], weight0, kernel0);
    join(&all[1], weight1, kernel1);
    run(all, 2, TP_CLOCK_S, 11 * TP_CLOCK_S);
    assert_true(part_of(all, 0) > want - 0.05 && part_of(all, 0) < want + 0.05);
    /* turns exclude each other, but hardly leave the device idle */
    assert_true(all[0].used + all[1].used > 9 * TP_CLOCK_S);
    assert_true(all[0].used + all[1].used < 10200 * TP_CLOCK_MS);
    tp_share_free(&page, 0);
    tp_share_free(&page, 1);
}

static void
test_weights(void **state)
{
    expect_parts(1, 1, TP_CLOCK_MS, 20 * TP_CLOCK_MS);
    expect_parts(1, 3, TP_CLOCK_MS, 20 * TP_CLOCK_MS);
    expect_parts(3, 1, TP_CLOCK_MS, 20 * TP_CLOCK_MS);
    expect_parts(1, 1, 100 * TP_CLOCK_US, 30 * TP_CLOCK_MS);
}

/* A client that waits for each kernel, and is now and then late with the next. */
static void
test_client_that_waits(void **state)
{
    struct session all[2];

    join(&all[0], 1, TP_CLOCK_MS);
    join(&all[1], 1, 20 * TP_CLOCK_MS);
    for (tp_ns now = TP_CLOCK_S; now < 5 * TP_CLOCK_S; now += 50 * TP_CLOCK_MS) {
        all[0].pause_ns = 100 * TP_CLOCK_US;
        run(all, 2, now, now + 47 * TP_CLOCK_MS);
        all[0].pause_ns = 3 * TP_CLOCK_MS;
        run(all, 2, now + 47 * TP_CLOCK_MS, now + 50 * TP_CLOCK_MS);
    }
    assert_true(part_of(all, 0) > 0.45 && part_of(all, 0) < 0.55);
}

/* One with several kernels in the driver, which runs out of them now and then. */
static void
test_client_that_is_late(void **state)
{
    struct session all[2];

    join(&all[0], 3, TP_CLOCK_MS);
    join(&all[1], 1, 20 * TP_CLOCK_MS);
    for (tp_ns now = TP_CLOCK_S; now < 5 * TP_CLOCK_S; now += 40 * TP_CLOCK_MS) {
        run(all, 2, now, now + 40 * TP_CLOCK_MS);
        all[0].ready_at = now + 47 * TP_CLOCK_MS; /* all have ended 3 ms before */
    }
    assert_true(part_of(all, 0) > 0.68 && part_of(all, 0) < 0.8);
}

static void
test_newcomer_starts_even(void **state)
{
    struct session all[2];

    join(&all[0], 1, TP_CLOCK_MS);
    run(all, 1, TP_CLOCK_S, 61 * TP_CLOCK_S);
    assert_true(all[0].used > 59 * TP_CLOCK_S); /* alone it never waits */
    assert_int_equal(atomic_load(&all[0].member.slot->waits), 0);
    join(&all[1], 1, TP_CLOCK_MS);
    all[0].used = 0;
    run(all, 2, 61 * TP_CLOCK_S, 63 * TP_CLOCK_S);
    assert_true(part_of(all, 0) > 0.4 && part_of(all, 0) < 0.6);
}

/* Sessions that use little of the device leave the rest to one that wants it. */
static void
test_pauses_of_others_are_used(void **state)
{
    struct session all[4];

    for (size_t i = 0; i < 3; i++) {
        join(&all[i], 1, 100 * TP_CLOCK_US);
        all[i].pause_ns = 3 * TP_CLOCK_MS;
    }
    join(&all[3], 1, TP_CLOCK_MS);
    run(all, 4, TP_CLOCK_S, 3 * TP_CLOCK_S);
    assert_true(all[3].used > 1600 * TP_CLOCK_MS);
    assert_true(all[0].used > 25 * TP_CLOCK_MS); /* without others 64 */
    assert_true(all[0].longest_wait < 10 * TP_CLOCK_MS);
    assert_true(all[3].longest_wait < 10 * TP_CLOCK_MS);
}

/* A client that waits for each short kernel over a slow link leaves the device to others. */
static void
test_short_kernels_of_slow_client(void **state)
{
    struct session all[3];

    join(&all[0], 1, 50 * TP_CLOCK_US);
    all[0].pause_ns = 700 * TP_CLOCK_US;
    for (size_t i = 1; i < 3; i++) {
        join(&all[i], 1, 100 * TP_CLOCK_US);
        all[i].pause_ns = 3 * TP_CLOCK_MS;
    }
    run(all, 3, TP_CLOCK_S, 5 * TP_CLOCK_S);
    assert_true(all[0].longest_wait < 3 * TP_CLOCK_MS);
    assert_true(all[1].longest_wait < 10 * TP_CLOCK_MS);
}

/* A session that was idle before has no right to keep others waiting now. */
static void
test_pauses_are_not_saved_up(void **state)
{
    struct session all[2];

    join(&all[0], 1, 100 * TP_CLOCK_US);
    all[0].pause_ns = 3 * TP_CLOCK_MS;
    join(&all[1], 1, TP_CLOCK_MS);
    run(all, 2, TP_CLOCK_S, 6 * TP_CLOCK_S);
    all[0].pause_ns = 0;
    all[1].longest_wait = 0;
    run(all, 2, 6 * TP_CLOCK_S, 7 * TP_CLOCK_S);
    assert_true(all[1].longest_wait < 20 * TP_CLOCK_MS);
}

static void
test_endless_kernel_excludes_none(void **state)
{
    struct session all[2];

    join(&all[0], 1, 0);
    join(&all[1], 1, TP_CLOCK_MS);
    run(all, 2, TP_CLOCK_S, 3 * TP_CLOCK_S);
    assert_true(all[1].used > 1800 * TP_CLOCK_MS);
}

/* An executor that was killed in its turn. */
static void
test_lost_holder(void **state)
{
    struct session all[2];

    join(&all[0], 1, TP_CLOCK_MS);
    join(&all[1], 1, TP_CLOCK_MS);
    run(all, 2, TP_CLOCK_S, 2 * TP_CLOCK_S);
    tp_share_free(&page, 0);
    all[1].used = 0;
    run(&all[1], 1, 2 * TP_CLOCK_S, 3 * TP_CLOCK_S);
    assert_true(all[1].used > 900 * TP_CLOCK_MS);
}

static void
test_hostile_numbers(void **state)
{
    struct session all[2];

    join(&all[0], 1, TP_CLOCK_MS);
    join(&all[1], 1, TP_CLOCK_MS);
    memset(all[0].member.slot, 0xff, sizeof(*all[0].member.slot));
    atomic_store(page.slots_used, UINT64_MAX);
    atomic_store(&page.turns[0], UINT64_MAX);
    run(&all[1], 1, TP_CLOCK_S, 2 * TP_CLOCK_S);
    atomic_store(&all[1].member.slot->weight, 0);
    tp_share_begin(&all[1].member, 3 * TP_CLOCK_S);
    tp_share_end(&all[1].member, 4 * TP_CLOCK_S);
    assert_int_equal(tp_share_take(&page, 0, 1), 2); /* slot 1 is taken still */
    tp_share_free(&page, 0);
    tp_share_free(&page, 1);
    memset(page.slots, 0xff, SLOTS * sizeof(*page.slots));
    assert_int_equal(tp_share_take(&page, 0, 1), 0);
    assert_int_equal(atomic_load(&page.slots[0].weight), 1);
}

static void
test_amounts_of_user(void **state)
{
    struct session all[2];
    struct tp_budget first = {.max = 0}, second = {.max = 0};

    join(&all[0], 1, 1);
    join(&all[1], 1, 1);
    first.outer = &all[0].member.outer[0];
    second.outer = &all[1].member.outer[0];
    assert_true(tp_budget_take(&first, 60));
    assert_false(tp_budget_take(&second, 60)); /* 100 for the user */
    assert_int_equal(atomic_load(&second.used), 0);
    assert_true(tp_budget_take(&second, 40));
    tp_budget_give(&second, 10);
    tp_share_free(&page, 0); /* with its 60 */
    assert_int_equal(atomic_load(&page.users[0][0]), 30);
    assert_true(tp_budget_take(&second, 60));
}

static void
test_slots(void **state)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(tp_share_take(&page, 0, 1), i);
    }
    assert_int_equal(tp_share_take(&page, 0, 1), SLOTS);
    tp_share_free(&page, 3);
    assert_int_equal(tp_share_take(&page, 0, 1), 3);
    for (uint32_t i = 0; i < SLOTS; i++) {
        tp_share_free(&page, i);
    }
    assert_int_equal(atomic_load(page.slots_used), 0);
}

int
main(void)
{
#define SHARE_TEST(name) cmocka_unit_test_setup_teardown(name, open_page, close_page)
    const struct CMUnitTest tests[] = {
        SHARE_TEST(test_weights),
        SHARE_TEST(test_client_that_waits),
        SHARE_TEST(test_client_that_is_late),
        SHARE_TEST(test_newcomer_starts_even),
        SHARE_TEST(test_pauses_of_others_are_used),
        SHARE_TEST(test_short_kernels_of_slow_client),
        SHARE_TEST(test_pauses_are_not_saved_up),
        SHARE_TEST(test_endless_kernel_excludes_none),
        SHARE_TEST(test_lost_holder),
        SHARE_TEST(test_hostile_numbers),
        SHARE_TEST(test_amounts_of_user),
        SHARE_TEST(test_slots),
    };

    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
