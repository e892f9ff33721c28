/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a session that shares memory with the executor (test_share.c). */
#ifndef TELPHER_DAEMON_TEST_TEST_SHARE_H
#define TELPHER_DAEMON_TEST_TEST_SHARE_H

#include <fcntl.h>

#include "daemon/test/test_session.h"

enum {
    TEST_MEMORY = 1 << 20, /* [bytes] of region 1 and of the buffer */
    TEST_SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
};

/** One context with a queue and a buffer, and region 1. */
struct test_scene {
    struct test_session s;
    uint64_t context, queue, mem;
    uint8_t *memory;
};

extern struct test_daemon the_daemon; /* the test's own */

/** A file of ordinary memory; seals 0 leave it free to shrink. */
int test_make_file(size_t size, int seals);
/** Sends SHARE with a descriptor, which is closed, and waits for the answer. */
telpher_status test_share(struct test_scene *c, uint32_t region, uint64_t size, int fd);
/** Makes a context on device 0 with a queue and a buffer, which are those of the scene. */
void test_make_objects(struct test_scene *c);
/** Setup and teardown: *state is a struct test_scene. */
int test_open_scene(void **state);
int test_close_scene(void **state);

void test_put_piece(struct test_scene *c, uint64_t transfer, uint64_t offset,
                    uint64_t len, uint64_t at);
/** WRITE or READ of shared content. @return its event */
uint64_t test_put_write(struct test_scene *c, uint64_t transfer, uint64_t size);
uint64_t test_put_read(struct test_scene *c, uint64_t transfer, uint64_t size);
void test_release(struct test_scene *c, uint64_t id);
void test_expect_success(struct test_scene *c, uint64_t event);
/** Bytes that depend on @p seed and their place. */
void test_fill(uint8_t *memory, size_t len, unsigned seed);
/** All content from or to one place in region 1, and wait. */
void test_write_whole(struct test_scene *c, uint64_t at, uint64_t len);
void test_read_whole(struct test_scene *c, uint64_t at, uint64_t len);

#endif
