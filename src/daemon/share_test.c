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
#include "daemon/test_session.h"

enum { MEMORY = 1 << 20, HALF = MEMORY / 2, SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

struct scene {
    struct test_session s;
    uint64_t context, queue, mem;
    uint8_t *memory; /* region 1 */
};

static struct test_daemon the_daemon;

/* A file of ordinary memory; seals 0 leave it free to shrink. */
static int
make_file(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (seals != 0) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    }
    return fd;
}

/* Sends SHARE with a descriptor, which is closed, and waits for the answer. */
static telpher_status
share(struct scene *c, uint32_t region, uint64_t size, int fd)
{
    struct tp_wire_share m = {.region = region, .size = size};
    struct tp_wire_share_reply reply;

    assert_int_equal(tp_stream_send_fd(c->s.stream, TP_WIRE_SHARE, &m, fd), TELPHER_OK);
    (void)close(fd);
    test_expect(&c->s, TP_WIRE_SHARE_REPLY, &reply);
    assert_int_equal(reply.region, region);
    return reply.status;
}

static void
make_objects(struct scene *c)
{
    struct tp_wire_context_create context = {.devices = TEST_IDS(0)};
    struct tp_wire_queue_create queue = {0};
    struct tp_wire_buffer_create buffer = {.flags = CL_MEM_READ_WRITE, .size = MEMORY};

    c->context = context.context = test_id(&c->s, TP_WIRE_KIND_CONTEXT);
    c->queue = queue.queue = test_id(&c->s, TP_WIRE_KIND_QUEUE);
    c->mem = buffer.mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    queue.context = buffer.context = c->context;
    test_put(&c->s, TP_WIRE_CONTEXT_CREATE, &context);
    test_put(&c->s, TP_WIRE_QUEUE_CREATE, &queue);
    test_put(&c->s, TP_WIRE_BUFFER_CREATE, &buffer);
}

static int
open_scene(void **state)
{
    struct scene *c = calloc(1, sizeof(*c));
    int fd = make_file(MEMORY, SEALS);

    test_session_open(&c->s, &the_daemon);
    assert_true((c->s.reply.features & TP_WIRE_FEATURE_SHARED) != 0);
    (void)test_session_start(&c->s);
    make_objects(c);
    c->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(c->memory != MAP_FAILED);
    assert_int_equal(share(c, 1, MEMORY, fd), TELPHER_OK);
    *state = c;
    return 0;
}

static int
close_scene(void **state)
{
    struct scene *c = *state;

    test_session_close(&c->s);
    test_daemon_wait_children(&the_daemon, 0);
    munmap(c->memory, MEMORY);
    free(c);
    return 0;
}

static void
put_piece(struct scene *c, uint64_t transfer, uint64_t offset, uint64_t len,
          uint64_t at)
{
    struct tp_wire_piece m = {
        .transfer = transfer, .offset = offset, .len = len, .region = 1, .at = at};

    test_put(&c->s, TP_WIRE_PIECE, &m);
}

static uint64_t
put_write(struct scene *c, uint64_t transfer, uint64_t size)
{
    struct tp_wire_write m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                              .queue = c->queue,
                              .mem = c->mem,
                              .flags = TP_WIRE_NOTIFY | TP_WIRE_SHARED,
                              .size = size,
                              .transfer = transfer};

    test_put(&c->s, TP_WIRE_WRITE, &m);
    return m.event;
}

static uint64_t
put_read(struct scene *c, uint64_t transfer, uint64_t size)
{
    struct tp_wire_read m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                             .queue = c->queue,
                             .mem = c->mem,
                             .flags = TP_WIRE_NOTIFY | TP_WIRE_SHARED,
                             .size = size,
                             .transfer = transfer};

    test_put(&c->s, TP_WIRE_READ, &m);
    return m.event;
}

static void
expect_success(struct scene *c, uint64_t event)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.data.len, 0);
}

static void
fill(uint8_t *memory, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        memory[i] = (uint8_t)(seed + i * 7 + (i >> 9));
    }
}

static void
write_whole(struct scene *c, uint64_t at, uint64_t len)
{
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);

    put_piece(c, transfer, 0, len, at);
    expect_success(c, put_write(c, transfer, len));
}

static void
read_whole(struct scene *c, uint64_t at, uint64_t len)
{
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);

    put_piece(c, transfer, 0, len, at);
    expect_success(c, put_read(c, transfer, len));
}

/* ---- what works ---- */

static void
test_whole(void **state)
{
    struct scene *c = *state;

    fill(c->memory, HALF, 1);
    write_whole(c, 0, HALF);
    memset(c->memory + HALF, 0xee, HALF);
    read_whole(c, HALF, HALF);
    assert_memory_equal(c->memory, c->memory + HALF, HALF);
    write_whole(c, 12345, 1);
    read_whole(c, MEMORY - 1, 1);
    assert_int_equal(c->memory[MEMORY - 1], c->memory[12345]);
}

/* Pieces of a WRITE are given back in any order, all but those its DONE stands for. */
static void
test_write_in_pieces(void **state)
{
    struct scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;
    const uint64_t cuts[] = {0, 100, 70000, 70001, HALF};
    size_t told;

    fill(c->memory, HALF, 2);
    event = put_write(c, transfer, HALF);
    for (size_t i = 0; i + 1 < TP_ARRAY_LEN(cuts); i++) {
        put_piece(c, transfer, cuts[i], cuts[i + 1] - cuts[i], cuts[i]);
        test_flush(&c->s);
    }
    expect_success(c, event);
    told = test_count(&c->s, TP_WIRE_PIECE_DONE);
    assert_true(told < TP_ARRAY_LEN(cuts) - 1);
    for (size_t i = 0; i < told; i++) {
        struct tp_wire_piece_done m;

        test_expect(&c->s, TP_WIRE_PIECE_DONE, &m);
        assert_int_equal(m.transfer, transfer);
    }
    read_whole(c, HALF, HALF);
    assert_memory_equal(c->memory, c->memory + HALF, HALF);
}

/* A READ larger than the memory given for it goes on when more is given. */
static void
test_read_in_pieces(void **state)
{
    struct scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;
    const uint64_t step = HALF / 4;
    uint8_t *want = malloc(HALF), *got = malloc(HALF);

    fill(c->memory, HALF, 3);
    memcpy(want, c->memory, HALF);
    write_whole(c, 0, HALF);
    memset(c->memory, 0, MEMORY);
    event = put_read(c, transfer, HALF);
    for (uint64_t at = 0; at < 3 * step; at += step) {
        struct tp_wire_piece_done m;

        put_piece(c, transfer, at, step, 4096);
        test_expect(&c->s, TP_WIRE_PIECE_DONE, &m);
        assert_true(m.transfer == transfer && m.offset == at && m.len == step);
        memcpy(got + at, c->memory + 4096, step);
    }
    put_piece(c, transfer, 3 * step, step, HALF);
    expect_success(c, event);
    memcpy(got + 3 * step, c->memory + HALF, step);
    assert_memory_equal(want, got, HALF);
    free(want);
    free(got);
}

/* Memory that is in use stays until it is not, although the client lets go of it. */
static void
test_unshare(void **state)
{
    struct scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;
    struct tp_wire_unshare m = {.region = 1};
    int fd = make_file(MEMORY, SEALS);
    uint8_t *other = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    fill(c->memory, MEMORY, 4);
    put_piece(c, transfer, 0, MEMORY, 0);
    event = put_write(c, transfer, MEMORY);
    test_put(&c->s, TP_WIRE_UNSHARE, &m);
    test_put(&c->s, TP_WIRE_UNSHARE, &m); /* nothing is there any more */
    expect_success(c, event);
    assert_int_equal(share(c, 1, MEMORY, fd), TELPHER_OK); /* the number is free */
    read_whole(c, 0, MEMORY);
    assert_memory_equal(c->memory, other, MEMORY);
    munmap(other, MEMORY);
}

/* A command that fails drops its pieces, those that came and those that come. */
static void
test_failed_command(void **state)
{
    struct scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event, mem = c->mem;
    struct tp_wire_done done;

    c->mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    event = put_write(c, transfer, HALF);
    put_piece(c, transfer, 0, 1000, 0);
    put_piece(c, transfer, 1000, HALF - 1000, 0);
    test_expect_done(&c->s, event, &done);
    assert_int_equal(done.status, CL_INVALID_MEM_OBJECT);
    transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    put_piece(c, transfer, 0, HALF, 0);
    test_expect_done(&c->s, put_read(c, transfer, HALF), &done);
    assert_int_equal(done.status, CL_INVALID_MEM_OBJECT);
    c->mem = mem;
    test_whole(state);
}

static _Atomic bool scribbling;

static void *
scribble(void *memory)
{
    for (unsigned i = 0; scribbling; i++) {
        fill(memory, HALF, i);
    }
    return NULL;
}

/* Content that changes while it is copied is as good as any other. */
static void
test_changing_content(void **state)
{
    struct scene *c = *state;
    pthread_t thread;

    scribbling = true;
    assert_int_equal(pthread_create(&thread, NULL, scribble, c->memory), 0);
    for (int i = 0; i < 20; i++) {
        write_whole(c, 0, HALF);
        read_whole(c, HALF, HALF);
    }
    scribbling = false;
    pthread_join(thread, NULL);
    test_whole(state);
}

/* ---- memory that is refused; the session goes on ---- */

static void
test_improper_memory(void **state)
{
    struct scene *c = *state;
    char path[] = "/tmp/telpher-share-XXXXXX";
    struct tp_wire_share m = {.region = 9, .size = MEMORY};
    struct tp_wire_share_reply reply;
    int ends[2], file = mkstemp(path);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(file, MEMORY), 0);
    (void)unlink(path);
    test_put(&c->s, TP_WIRE_SHARE, &m); /* nothing comes along */
    test_expect(&c->s, TP_WIRE_SHARE_REPLY, &reply);
    assert_int_equal(reply.status, TELPHER_ERR_INVALID);
    assert_int_equal(share(c, 2, MEMORY, make_file(MEMORY, 0)), TELPHER_ERR_INVALID);
    assert_int_equal(share(c, 3, MEMORY, make_file(MEMORY, F_SEAL_GROW)),
                     TELPHER_ERR_INVALID);
    assert_int_equal(share(c, 4, MEMORY + 1, make_file(MEMORY, SEALS)),
                     TELPHER_ERR_INVALID);
    assert_int_equal(share(c, 5, MEMORY, make_file(0, SEALS)), TELPHER_ERR_INVALID);
    assert_int_equal(share(c, 6, MEMORY, file), TELPHER_ERR_INVALID);
    assert_int_equal(share(c, 7, MEMORY, ends[0]), TELPHER_ERR_INVALID);
    assert_true(share(c, 8, MEMORY, make_file(MEMORY, SEALS | F_SEAL_WRITE)) < 0);
    (void)close(ends[1]);
    test_whole(state);
}

static void
test_too_many_regions(void **state)
{
    struct scene *c = *state;
    telpher_status status = TELPHER_OK;
    uint32_t region;

    for (region = 2; region < 3000 && status == TELPHER_OK; region++) {
        status = share(c, region, 4096, make_file(4096, SEALS));
    }
    assert_int_equal(status, TELPHER_ERR_LIMIT);
    assert_int_equal(region, 1024 + 2);
    test_whole(state);
}

/* ---- what breaks the session, and that one only ---- */

static void
expect_break(struct scene *c)
{
    assert_int_equal(test_expect_end(&c->s), TELPHER_ERR_PEER_LOST);
}

static void
test_bad_places(void **state)
{
    static const struct tp_wire_piece bad[] = {
        {.len = 1, .region = 2}, /* unknown */
        {.len = 0, .region = 1},
        {.len = MEMORY + 1, .region = 1},
        {.len = 1, .region = 1, .at = MEMORY},
        {.len = 16, .region = 1, .at = UINT64_MAX - 7},
        {.len = UINT64_MAX, .region = 1, .at = 16},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        struct scene *c = *state;
        struct tp_wire_piece m = bad[i];

        m.transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
        test_put(&c->s, TP_WIRE_PIECE, &m);
        expect_break(c);
        assert_int_equal(close_scene(state), 0);
        assert_int_equal(open_scene(state), 0);
    }
    test_whole(state);
}

static void
test_bad_regions(void **state)
{
    static const struct tp_wire_share bad[] = {
        {.region = 1, .size = MEMORY}, /* in use */
        {.region = 2, .size = 0},
        {.region = 2, .size = TP_WIRE_REGION_MAX + 1},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        struct scene *c = *state;
        int fd = make_file(MEMORY, SEALS);

        (void)tp_stream_send_fd(c->s.stream, TP_WIRE_SHARE, &bad[i], fd);
        (void)close(fd);
        expect_break(c);
        assert_int_equal(close_scene(state), 0);
        assert_int_equal(open_scene(state), 0);
    }
}

static void
test_bad_pieces(void **state)
{
    static const struct {
        uint64_t offset, len;
    } bad[] = {{1, 10}, {0, HALF + 1}, {HALF, 1}, {UINT64_MAX, 1}};

    for (size_t i = 0; i < 2 * TP_ARRAY_LEN(bad); i++) {
        struct scene *c = *state;
        uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);

        (void)(i % 2 == 0 ? put_read(c, transfer, HALF) : put_write(c, transfer, HALF));
        put_piece(c, transfer, bad[i / 2].offset, bad[i / 2].len, 0);
        expect_break(c);
        assert_int_equal(close_scene(state), 0);
        assert_int_equal(open_scene(state), 0);
    }
}

/* Pieces behind a closed gate are kept, but not without end. */
static void
test_too_many_pieces(void **state)
{
    struct scene *c = *state;
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
        put_piece(c, transfer, i, 1, i);
    }
    expect_break(c);
}

/* SHARED means pieces: neither content in the frame nor on a bulk stream. */
static void
test_mixed_ways(void **state)
{
    struct scene *c = *state;
    uint64_t transfer;

    (void)put_read(c, 0, 4);
    expect_break(c);
    assert_int_equal(close_scene(state), 0);
    assert_int_equal(open_scene(state), 0);
    c = *state;
    transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER);
    test_session_bulk(&c->s, &the_daemon);
    (void)put_write(c, transfer, HALF);
    test_flush(&c->s);
    test_send_content(&c->s, transfer, 0, c->memory, 1000);
    expect_break(c);
}

static int
start_daemon(void **state)
{
    struct test_session s;
    struct tp_wire_devices m;
    struct tp_wire_devices_reply reply;
    bool none;

    (void)state;
    test_daemon_start(&the_daemon, NULL);
    test_session_open(&s, &the_daemon);
    m.request = test_id(&s, TP_WIRE_KIND_REQUEST);
    test_put(&s, TP_WIRE_DEVICES, &m);
    test_expect(&s, TP_WIRE_DEVICES_REPLY, &reply);
    none = reply.facts.len == 0;
    test_session_close(&s);
    if (none) {
        (void)puts("skipped: no OpenCL device on this machine");
        test_daemon_stop(&the_daemon);
        exit(77);
    }
    return 0;
}

static int
stop_daemon(void **state)
{
    (void)state;
    test_daemon_stop(&the_daemon);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, open_scene, close_scene)

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
    return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
