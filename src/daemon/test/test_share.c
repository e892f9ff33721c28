/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests of shared memory. */
#include "daemon/test/test_share.h"

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int
test_make_file(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (seals != 0) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    }
    return fd;
}

telpher_status
test_share(struct test_scene *c, uint32_t region, uint64_t size, int fd)
{
    struct tp_wire_share m = {.region = region, .size = size};
    struct tp_wire_share_reply reply;

    assert_int_equal(tp_stream_send_fd(c->s.stream, TP_WIRE_SHARE, &m, fd), TELPHER_OK);
    (void)close(fd);
    test_expect(&c->s, TP_WIRE_SHARE_REPLY, &reply);
    assert_int_equal(reply.region, region);
    return reply.status;
}

void
test_make_objects(struct test_scene *c)
{
    struct tp_wire_context_create context = {.devices = TEST_IDS(0)};
    struct tp_wire_queue_create queue = {0};
    struct tp_wire_buffer_create buffer = {.flags = CL_MEM_READ_WRITE,
                                           .size = TEST_MEMORY};

    c->context = context.context = test_id(&c->s, TP_WIRE_KIND_CONTEXT);
    c->queue = queue.queue = test_id(&c->s, TP_WIRE_KIND_QUEUE);
    c->mem = buffer.mem = test_id(&c->s, TP_WIRE_KIND_MEM);
    queue.context = buffer.context = c->context;
    test_put(&c->s, TP_WIRE_CONTEXT_CREATE, &context);
    test_put(&c->s, TP_WIRE_QUEUE_CREATE, &queue);
    test_put(&c->s, TP_WIRE_BUFFER_CREATE, &buffer);
}

int
test_open_scene(void **state)
{
    struct test_scene *c = calloc(1, sizeof(*c));
    int fd = test_make_file(TEST_MEMORY, TEST_SEALS);

    test_session_open(&c->s, &the_daemon);
    assert_true((c->s.reply.features & TP_WIRE_FEATURE_SHARED) != 0);
    (void)test_session_start(&c->s);
    test_make_objects(c);
    c->memory = mmap(NULL, TEST_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(c->memory != MAP_FAILED);
    assert_int_equal(test_share(c, 1, TEST_MEMORY, fd), TELPHER_OK);
    *state = c;
    return 0;
}

int
test_close_scene(void **state)
{
    struct test_scene *c = *state;

    test_session_close(&c->s);
    test_daemon_wait_children(&the_daemon, 0);
    munmap(c->memory, TEST_MEMORY);
    free(c);
    return 0;
}

void
test_put_piece(struct test_scene *c, uint64_t transfer, uint64_t offset, uint64_t len,
               uint64_t at)
{
    struct tp_wire_piece m = {
        .transfer = transfer, .offset = offset, .len = len, .region = 1, .at = at};

    test_put(&c->s, TP_WIRE_PIECE, &m);
}

uint64_t
test_put_write(struct test_scene *c, uint64_t transfer, uint64_t size)
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

uint64_t
test_put_read(struct test_scene *c, uint64_t transfer, uint64_t size)
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

void
test_expect_success(struct test_scene *c, uint64_t event)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, event, &done);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.data.len, 0);
}

void
test_release(struct test_scene *c, uint64_t id)
{
    struct tp_wire_release m = {.ids = {1, &id}};

    test_put(&c->s, TP_WIRE_RELEASE, &m);
}

void
test_fill(uint8_t *memory, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        memory[i] = (uint8_t)(seed + i * 7 + (i >> 9));
    }
}

void
test_write_whole(struct test_scene *c, uint64_t at, uint64_t len)
{
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;

    test_put_piece(c, transfer, 0, len, at);
    event = test_put_write(c, transfer, len);
    test_expect_success(c, event);
    test_release(c, event);
}

void
test_read_whole(struct test_scene *c, uint64_t at, uint64_t len)
{
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), event;

    test_put_piece(c, transfer, 0, len, at);
    event = test_put_read(c, transfer, len);
    test_expect_success(c, event);
    test_release(c, event);
}
