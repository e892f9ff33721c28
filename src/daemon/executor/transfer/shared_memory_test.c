/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content in shared memory, over the protocol alone: whole and in pieces, both ways; what
 * is no proper memory is refused; a client that breaks the rules loses its own session.
 * Skipped where telpherd finds no device.
 */
#include <CL/cl.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "daemon/test/test_share.h"

enum { HALF = TEST_MEMORY / 2 };

struct test_daemon the_daemon;

/* ---- what works ---- */

static void
test_whole(void **state)
{
    struct test_scene *c = *state;

    test_fill(c->memory, HALF, 1);
    test_write_whole(c, 0, HALF);
    memset(c->memory + HALF, 0xee, HALF);
    test_read_whole(c, HALF, HALF);
    assert_memory_equal(c->memory, c->memory + HALF, HALF);
    test_write_whole(c, 12345, 1);
    test_read_whole(c, TEST_MEMORY - 1, 1);
    assert_int_equal(c->memory[TEST_MEMORY - 1], c->memory[12345]);
}

/* Pieces of a WRITE are given back in any order, all but those its DONE stands for. */
static void
test_write_in_pieces(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;
    const uint64_t cuts[] = {0, 100, 70000, 70001, HALF};
    size_t told;

    test_fill(c->memory, HALF, 2);
    event = test_put_write(c, transfer, HALF);
    for (size_t i = 0; i + 1 < TP_ARRAY_LEN(cuts); i++) {
        test_put_piece(c, transfer, cuts[i], cuts[i + 1] - cuts[i], cuts[i]);
        test_flush(&c->s);
    }
    test_expect_success(c, event);
    told = test_count(&c->s, TP_WIRE_PIECE_DONE);
    assert_true(told < TP_ARRAY_LEN(cuts) - 1);
    for (size_t i = 0; i < told; i++) {
        struct tp_wire_piece_done m;

        test_expect(&c->s, TP_WIRE_PIECE_DONE, &m);
        assert_int_equal(m.transfer, transfer);
    }
    test_read_whole(c, HALF, HALF);
    assert_memory_equal(c->memory, c->memory + HALF, HALF);
}

/* A READ larger than the memory given for it goes on when more is given. */
static void
test_read_in_pieces(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;
    const uint64_t step = HALF / 4;
    uint8_t *want = malloc(HALF), *got = malloc(HALF);

    test_fill(c->memory, HALF, 3);
    memcpy(want, c->memory, HALF);
    test_write_whole(c, 0, HALF);
    memset(c->memory, 0, TEST_MEMORY);
    event = test_put_read(c, transfer, HALF);
    for (uint64_t at = 0; at < 3 * step; at += step) {
        struct tp_wire_piece_done m;

        test_put_piece(c, transfer, at, step, 4096);
        test_expect(&c->s, TP_WIRE_PIECE_DONE, &m);
        assert_true(m.transfer == transfer && m.offset == at && m.len == step);
        memcpy(got + at, c->memory + 4096, step);
    }
    test_put_piece(c, transfer, 3 * step, step, HALF);
    test_expect_success(c, event);
    memcpy(got + 3 * step, c->memory + HALF, step);
    assert_memory_equal(want, got, HALF);
    free(want);
    free(got);
}

/* Memory that is in use stays until it is not, although the client lets go of it. */
static void
test_unshare(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;
    struct tp_wire_unshare m = {.region = 1};
    int fd = test_make_file(TEST_MEMORY, TEST_SEALS);
    uint8_t *other = mmap(NULL, TEST_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    test_fill(c->memory, TEST_MEMORY, 4);
    test_put_piece(c, transfer, 0, TEST_MEMORY, 0);
    event = test_put_write(c, transfer, TEST_MEMORY);
    test_put(&c->s, TP_WIRE_UNSHARE, &m);
    test_put(&c->s, TP_WIRE_UNSHARE, &m); /* nothing is there any more */
    test_expect_success(c, event);
    assert_int_equal(test_share(c, 1, TEST_MEMORY, fd),
                     TELPHER_OK); /* the number is free */
    test_read_whole(c, 0, TEST_MEMORY);
    assert_memory_equal(c->memory, other, TEST_MEMORY);
    munmap(other, TEST_MEMORY);
}

/* A command that fails drops its pieces, those that came and those that come. */
static void
test_failed_command(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event, mem = c->mem;
    struct tp_wire_done done;

    c->mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    event = test_put_write(c, transfer, HALF);
    test_put_piece(c, transfer, 0, 1000, 0);
    test_put_piece(c, transfer, 1000, HALF - 1000, 0);
    test_expect_done(&c->s, event, &done);
    assert_int_equal(done.status, CL_INVALID_MEM_OBJECT);
    transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    test_put_piece(c, transfer, 0, HALF, 0);
    test_expect_done(&c->s, test_put_read(c, transfer, HALF), &done);
    assert_int_equal(done.status, CL_INVALID_MEM_OBJECT);
    c->mem = mem;
    test_whole(state);
}

static _Atomic bool scribbling;

static void *
scribble(void *memory)
{
    for (unsigned i = 0; scribbling; i++) {
        test_fill(memory, HALF, i);
    }
    return NULL;
}

/* Content that changes while it is copied is as good as any other. */
static void
test_changing_content(void **state)
{
    struct test_scene *c = *state;
    pthread_t thread;

    scribbling = true;
    assert_int_equal(pthread_create(&thread, NULL, scribble, c->memory), 0);
    for (int i = 0; i < 20; i++) {
        test_write_whole(c, 0, HALF);
        test_read_whole(c, HALF, HALF);
    }
    scribbling = false;
    pthread_join(thread, NULL);
    test_whole(state);
}

/* ---- memory that is refused; the session goes on ---- */

static void
test_improper_memory(void **state)
{
    struct test_scene *c = *state;
    char path[] = "/tmp/telpher-share-XXXXXX";
    struct tp_wire_share m = {.region = 9, .size = TEST_MEMORY};
    struct tp_wire_share_reply reply;
    int ends[2], file = mkstemp(path);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(file, TEST_MEMORY), 0);
    (void)unlink(path);
    test_put(&c->s, TP_WIRE_SHARE, &m); /* nothing comes along */
    test_expect(&c->s, TP_WIRE_SHARE_REPLY, &reply);
    assert_int_equal(reply.status, TELPHER_ERR_INVALID);
    assert_int_equal(test_share(c, 2, TEST_MEMORY, test_make_file(TEST_MEMORY, 0)),
                     TELPHER_ERR_INVALID);
    assert_int_equal(
        test_share(c, 3, TEST_MEMORY, test_make_file(TEST_MEMORY, F_SEAL_GROW)),
        TELPHER_ERR_INVALID);
    assert_int_equal(
        test_share(c, 4, TEST_MEMORY + 1, test_make_file(TEST_MEMORY, TEST_SEALS)),
        TELPHER_ERR_INVALID);
    assert_int_equal(test_share(c, 5, TEST_MEMORY, test_make_file(0, TEST_SEALS)),
                     TELPHER_ERR_INVALID);
    assert_int_equal(test_share(c, 6, TEST_MEMORY, file), TELPHER_ERR_INVALID);
    assert_int_equal(test_share(c, 7, TEST_MEMORY, ends[0]), TELPHER_ERR_INVALID);
    assert_true(test_share(c, 8, TEST_MEMORY,
                           test_make_file(TEST_MEMORY, TEST_SEALS | F_SEAL_WRITE)) < 0);
    (void)close(ends[1]);
    test_whole(state);
}

static void
test_too_many_regions(void **state)
{
    struct test_scene *c = *state;
    telpher_status status = TELPHER_OK;
    uint32_t region;

    for (region = 2; region < 3000 && status == TELPHER_OK; region++) {
        status = test_share(c, region, 4096, test_make_file(4096, TEST_SEALS));
    }
    assert_int_equal(status, TELPHER_ERR_LIMIT);
    assert_int_equal(region, 1024 + 2);
    test_whole(state);
}

/* ---- what breaks the session, and that one only ---- */

static void
expect_break(struct test_scene *c)
{
    assert_int_equal(test_expect_end(&c->s), TELPHER_ERR_PEER_LOST);
}

static void
test_bad_places(void **state)
{
    static const struct tp_wire_piece bad[] = {
        {.len = 1, .region = 2}, /* unknown */
        {.len = 0, .region = 1},
        {.len = TEST_MEMORY + 1, .region = 1},
        {.len = 1, .region = 1, .at = TEST_MEMORY},
        {.len = 16, .region = 1, .at = UINT64_MAX - 7},
        {.len = UINT64_MAX, .region = 1, .at = 16},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        struct test_scene *c = *state;
        struct tp_wire_piece m = bad[i];

        m.transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
        test_put(&c->s, TP_WIRE_PIECE, &m);
        expect_break(c);
        assert_int_equal(test_close_scene(state), 0);
        assert_int_equal(test_open_scene(state), 0);
    }
    test_whole(state);
}

static void
test_bad_regions(void **state)
{
    static const struct tp_wire_share bad[] = {
        {.region = 1, .size = TEST_MEMORY}, /* in use */
        {.region = 2, .size = 0},
        {.region = 2, .size = TP_WIRE_REGION_MAX + 1},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        struct test_scene *c = *state;
        int fd = test_make_file(TEST_MEMORY, TEST_SEALS);

        (void)tp_stream_send_fd(c->s.stream, TP_WIRE_SHARE, &bad[i], fd);
        (void)close(fd);
        expect_break(c);
        assert_int_equal(test_close_scene(state), 0);
        assert_int_equal(test_open_scene(state), 0);
    }
}

static void
test_bad_pieces(void **state)
{
    static const struct {
        uint64_t offset, len;
    } bad[] = {{1, 10}, {0, HALF + 1}, {HALF, 1}, {UINT64_MAX, 1}};

    for (size_t i = 0; i < 2 * TP_ARRAY_LEN(bad); i++) {
        struct test_scene *c = *state;
        uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);

        (void)(i % 2 == 0 ? test_put_read(c, transfer, HALF)
                          : test_put_write(c, transfer, HALF));
        test_put_piece(c, transfer, bad[i / 2].offset, bad[i / 2].len, 0);
        expect_break(c);
        assert_int_equal(test_close_scene(state), 0);
        assert_int_equal(test_open_scene(state), 0);
    }
}

/* Pieces behind a closed gate are kept, but not without end. */
static void
test_too_many_pieces(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    struct tp_wire_user_event_create gate = {
        .event = test_id(&c->s, TP_WIRE_KIND_EVENT), .context = c->context};
    struct tp_wire_write m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                              .queue = c->queue,
                              .mem = c->mem,
                              .flags = TP_WIRE_NOTIFY | TP_WIRE_SHARED,
                              .size = HALF,
                              .transfer = transfer,
                              .wait = {1, &gate.event}};

    test_put(&c->s, TP_WIRE_USER_EVENT_CREATE, &gate);
    test_put(&c->s, TP_WIRE_WRITE, &m);
    for (uint64_t i = 0; i < 5000; i++) {
        test_put_piece(c, transfer, i, 1, i);
    }
    expect_break(c);
}

/* SHARED means pieces: neither content in the frame nor on a bulk stream. */
static void
test_mixed_ways(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer;

    (void)test_put_read(c, 0, 4);
    expect_break(c);
    assert_int_equal(test_close_scene(state), 0);
    assert_int_equal(test_open_scene(state), 0);
    c = *state;
    transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    test_session_bulk(&c->s, &the_daemon);
    (void)test_put_write(c, transfer, HALF);
    test_flush(&c->s);
    test_send_content(&c->s, transfer, 0, c->memory, 1000);
    expect_break(c);
}

static int
start_daemon(void **state)
{
    *state = &the_daemon;
    test_daemon_start(&the_daemon, NULL);
    test_daemon_need(&the_daemon, NULL, "an OpenCL device");
    return 0;
}

#define TEST(name)                                                                     \
    cmocka_unit_test_setup_teardown(test_##name, test_open_scene, test_close_scene)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(whole),           TEST(write_in_pieces),  TEST(read_in_pieces),
        TEST(unshare),         TEST(failed_command),   TEST(changing_content),
        TEST(improper_memory), TEST(too_many_regions), TEST(bad_places),
        TEST(bad_regions),     TEST(bad_pieces),       TEST(too_many_pieces),
        TEST(mixed_ways),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
