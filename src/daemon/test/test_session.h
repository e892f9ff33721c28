/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a telpherd of our own on a Unix socket in a temporary folder, and a client
 * that speaks the protocol frame by frame. Failures are cmocka assertions.
 */
#ifndef TELPHER_DAEMON_TEST_TEST_SESSION_H
#define TELPHER_DAEMON_TEST_TEST_SESSION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/types.h>

#include "base/container/list.h"
#include "core/session/client.h"
#include "wire/facts.h"

/* Longest wait for anything; under the thread sanitizer a driver builds programs slowly. */
#if defined(__SANITIZE_THREAD__)
enum { TEST_SECONDS = 200 };
#else
enum { TEST_SECONDS = 40 };
#endif

struct test_daemon {
    pid_t pid;
    char folder[64];
    char socket[96];
    char log[96];
};

/** A frame that has arrived and was not asked for yet. */
struct test_frame {
    struct tp_list link;
    uint16_t type;
    uint32_t len;
    uint8_t body[]; /* what decoded messages borrow */
};

struct test_session {
    /* Its log is printed when an answer is missing. */
    const struct test_daemon *daemon;
    struct tp_stream *stream;
    struct tp_wire_preface_reply reply;
    struct tp_list frames;
    struct tp_list old; /* handed out; freed at the end */
    uint64_t next_id;
    struct tp_stream *bulk;
    /* content that came on the bulk stream goes here */
    uint8_t *content;
    uint64_t content_size, content_got;
};

/** Starts it and waits until it answers. @param options more arguments, NULL behind */
void test_daemon_start(struct test_daemon *d, const char *const *options);
/** Ends it by SIGTERM and checks that no process of it is left. */
void test_daemon_stop(struct test_daemon *d);
/** Executors of the daemon that run now; at most @p max are written. */
size_t test_daemon_children(const struct test_daemon *d, pid_t *ret_pids, size_t max);
/** Waits until the daemon has @p count executors. */
void test_daemon_wait_children(const struct test_daemon *d, size_t count);
/** A teardown of a group of tests whose state is the daemon: stops it. */
int test_daemon_teardown(void **state);
/**
 * Asks a new session for the devices. @param is which fact is sought; NULL takes any
 * @return whether the daemon tells such a fact
 */
bool test_daemon_tells(const struct test_daemon *d,
                       bool (*is)(const struct tp_wire_fact *fact));
/** Stops the daemon and ends the program as skipped unless it tells such a fact. */
void test_daemon_need(struct test_daemon *d,
                      bool (*is)(const struct tp_wire_fact *fact), const char *missing);
/** Connects a plain socket to the daemon. */
int test_daemon_connect_raw(const struct test_daemon *d);

/** Opens a command stream; nothing is started. */
void test_session_open(struct test_session *s, const struct test_daemon *d);
/** DEVICES, START of platform 0, STARTED. @return number of devices */
uint32_t test_session_start(struct test_session *s);
/** Adds a bulk stream. */
void test_session_bulk(struct test_session *s, const struct test_daemon *d);
/** Closes without a word. */
void test_session_close(struct test_session *s);

uint64_t test_id(struct test_session *s, enum tp_wire_kind kind);
void test_put(struct test_session *s, uint16_t type, const void *msg);
/** Sends what was put. */
void test_flush(struct test_session *s);
/** Flushes and waits for the next frame of a type; decodes it into @p ret_msg. */
void test_expect(struct test_session *s, uint16_t type, void *ret_msg);
/** As test_expect for the DONE of one event. */
void test_expect_done(struct test_session *s, uint64_t event,
                      struct tp_wire_done *ret_msg);
/** A PING and its answer: the session lives. */
void test_expect_alive(struct test_session *s);
/** Waits for the end of the stream. @return what broke it */
telpher_status test_expect_end(struct test_session *s);
/** Takes what has arrived without waiting. @return how many frames of @p type wait */
size_t test_count(struct test_session *s, uint16_t type);
/** Sends content on the bulk stream in chunks. */
void test_send_content(struct test_session *s, uint64_t transfer, uint64_t offset,
                       const void *data, uint64_t len);
/** Receives content from the bulk stream until @p size bytes have arrived. */
void test_receive_content(struct test_session *s, void *dst, uint64_t size);

#define TEST_IDS(...)                                                                  \
    {                                                                                  \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]) \
        {                                                                              \
            __VA_ARGS__                                                                \
        }                                                                              \
    }
#define TEST_TEXT(text)                                                                \
    {                                                                                  \
        sizeof(text) - 1, text                                                         \
    }

#endif
