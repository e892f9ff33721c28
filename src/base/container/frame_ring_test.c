/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the ring: frames arrive in order, at any place; a peer that writes nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/container/frame_ring.h"

enum { SIZE = 128 << 10, FRAME_MAX = 32 << 10 };

static void
make(struct tp_frame_ring *sender, struct tp_frame_ring *receiver)
{
    struct tp_memfd_name name;
    int fd;

    assert_int_equal(tp_frame_ring_create(sender, "test", SIZE, FRAME_MAX, &fd, &name),
                     TELPHER_OK);
    assert_int_equal(tp_frame_ring_open(receiver, SIZE, FRAME_MAX, &name), TELPHER_OK);
    close(fd);
}

static uint8_t
byte_of(uint32_t number, uint32_t i)
{
    return (uint8_t)(number * 7 + i);
}

static bool
put(struct tp_frame_ring *ring, uint32_t number, uint32_t len)
{
    uint8_t *room;
    telpher_status status = tp_frame_ring_reserve(ring, len, &room);

    if (status == TELPHER_ERR_AGAIN) {
        return false;
    }
    assert_int_equal(status, TELPHER_OK);
    assert_int_equal((uintptr_t)room % 16, 0);
    for (uint32_t i = 0; i < len; i++) {
        room[i] = byte_of(number, i);
    }
    tp_frame_ring_commit(ring, len);
    return true;
}

static bool
get(struct tp_frame_ring *ring, uint32_t number, uint32_t len)
{
    uint8_t *data;
    telpher_status status = tp_frame_ring_peek(ring, &data);

    if (status == TELPHER_ERR_AGAIN) {
        return false;
    }
    assert_int_equal(status, TELPHER_OK);
    assert_int_equal(ring->len, len);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(data[i], byte_of(number, i));
    }
    tp_frame_ring_consume(ring);
    tp_frame_ring_release(ring);
    return true;
}

static uint32_t
len_of(uint32_t number)
{
    return number * 7919u % (FRAME_MAX + 1);
}

/* Full and empty again, many rounds of it. */
static void
in_order(void **state)
{
    struct tp_frame_ring sender, receiver;
    uint32_t sent = 0, received = 0;

    (void)state;
    make(&sender, &receiver);
    while (received < 2000) {
        uint32_t before = received;

        while (put(&sender, sent, len_of(sent))) {
            sent++;
        }
        assert_true(sent > received);
        while (received < sent - before % 3 && tp_frame_ring_has(&receiver) &&
               get(&receiver, received, len_of(received))) {
            received++;
        }
    }
    while (received < sent) {
        assert_true(get(&receiver, received, len_of(received)));
        received++;
    }
    assert_false(get(&receiver, received, 0));
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

static void
pass_on(struct tp_frame_ring *sender, struct tp_frame_ring *receiver, uint32_t len)
{
    assert_true(put(sender, len, len));
    assert_true(tp_frame_ring_has(receiver));
    assert_true(get(receiver, len, len));
    assert_false(get(receiver, len, len));
}

/* Messages until the ring has @p left bytes to its end. */
static void
leave(struct tp_frame_ring *sender, struct tp_frame_ring *receiver, uint64_t left)
{
    uint64_t more;

    do {
        more = (2 * SIZE - left - sender->at % SIZE) % SIZE;
        if (more != 0) {
            pass_on(sender, receiver,
                    (uint32_t)(more < 4096 ? more : 4096) - TP_FRAME_RING_HEAD);
        }
    } while (more != 0);
}

/* One that ends where the ring does, and one that is a byte too long for that. */
static void
to_the_end(void **state)
{
    static const uint32_t lines[] = {1, 2, 3, 64, 511, 512};
    struct tp_frame_ring sender, receiver;

    (void)state;
    make(&sender, &receiver);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        uint32_t left = lines[i] * TP_FRAME_RING_LINE;

        leave(&sender, &receiver, left);
        pass_on(&sender, &receiver, left - TP_FRAME_RING_HEAD);
        assert_int_equal(sender.at % SIZE, 0);
        leave(&sender, &receiver, left);
        pass_on(&sender, &receiver, left - TP_FRAME_RING_HEAD + 1);
        assert_int_equal(sender.at % SIZE, left + TP_FRAME_RING_LINE);
    }
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

enum { MANY = 20000 };

static void *
send_many(void *arg)
{
    for (uint32_t i = 0; i < MANY;) {
        if (put(arg, i, i % 200)) {
            i++;
        } else {
            sched_yield(); /* there may be one processor */
        }
    }
    return NULL;
}

static void
at_once(void **state)
{
    struct tp_frame_ring sender, receiver;
    pthread_t thread;

    (void)state;
    make(&sender, &receiver);
    assert_int_equal(pthread_create(&thread, NULL, send_many, &sender), 0);
    for (uint32_t i = 0; i < MANY;) {
        if (get(&receiver, i, i % 200)) {
            i++;
        } else {
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

static void
no_room(void **state)
{
    struct tp_frame_ring sender, receiver, none = {0};
    unsigned count = 0;
    uint8_t *data;

    (void)state;
    make(&sender, &receiver);
    assert_int_equal(tp_frame_ring_reserve(&sender, FRAME_MAX + 1, &data),
                     TELPHER_ERR_LIMIT);
    while (put(&sender, count, 0)) {
        count++;
    }
    assert_int_equal(count, SIZE / TP_FRAME_RING_LINE - 1);
    assert_int_equal(tp_frame_ring_reserve(&sender, 1, &data), TELPHER_ERR_AGAIN);
    assert_true(get(&receiver, 0, 0));
    assert_true(put(&sender, 1, 0));
    assert_false(tp_frame_ring_has(&none));
    tp_frame_ring_close(&none);
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

/* The receiver refuses marks that point outside the ring. */
static void
bad_marks(void **state)
{
    static const uint32_t bad[] = {FRAME_MAX + 2, UINT32_MAX, UINT32_MAX - 1,
                                   0x80000000u};
    struct tp_memfd_name name = {.size = 1};
    struct tp_frame_ring sender, receiver;
    uint8_t *data;

    (void)state;
    assert_int_equal(tp_frame_ring_open(&receiver, SIZE, FRAME_MAX, &name),
                     TELPHER_ERR_INVALID);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make(&sender, &receiver);
        *tp_frame_ring_mark(&receiver) = bad[i];
        assert_int_equal(tp_frame_ring_peek(&receiver, &data), TELPHER_ERR_PROTO);
        tp_frame_ring_close(&sender);
        tp_frame_ring_close(&receiver);
    }
    make(&sender, &receiver); /* one that goes over the end */
    receiver.at = SIZE - TP_FRAME_RING_LINE;
    *tp_frame_ring_mark(&receiver) = 100;
    assert_int_equal(tp_frame_ring_peek(&receiver, &data), TELPHER_ERR_PROTO);
    *tp_frame_ring_mark(&receiver) = 1;
    assert_int_equal(tp_frame_ring_peek(&receiver, &data), TELPHER_OK);
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

/* Room comes back when frames are released, not when they are consumed. */
static void
release_of_several(void **state)
{
    struct tp_frame_ring sender, receiver;
    uint8_t *data;
    unsigned count = 0;

    (void)state;
    make(&sender, &receiver);
    while (put(&sender, count, 0)) {
        count++;
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(tp_frame_ring_peek(&receiver, &data), TELPHER_OK);
        tp_frame_ring_consume(&receiver);
    }
    assert_false(put(&sender, 0, 0));
    tp_frame_ring_release(&receiver);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(put(&sender, 0, 0));
    }
    assert_false(put(&sender, 0, 0));
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

/* A consumer that releases more than was produced gets nothing more. */
static void
bad_release(void **state)
{
    struct tp_frame_ring sender, receiver;
    uint8_t *data;
    unsigned count = 0;

    (void)state;
    make(&sender, &receiver);
    while (put(&sender, count, 0)) {
        count++;
    }
    receiver.at = sender.at + TP_FRAME_RING_LINE;
    tp_frame_ring_release(&receiver);
    assert_int_equal(tp_frame_ring_reserve(&sender, 0, &data), TELPHER_ERR_PROTO);
    tp_frame_ring_close(&sender);
    tp_frame_ring_close(&receiver);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),    cmocka_unit_test(to_the_end),
        cmocka_unit_test(at_once),     cmocka_unit_test(no_room),
        cmocka_unit_test(bad_marks),   cmocka_unit_test(release_of_several),
        cmocka_unit_test(bad_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
