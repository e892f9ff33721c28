/* SPDX-License-Identifier: Apache-2.0 */
/* The calls for tools against a broker in a thread, which answers as each test wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api_int.h"
#include "base/os/clock.h"
#include "transport/tcp/tcp.h"
#include "wire/facts.h"

enum mood { HONEST, WRONG_DATA, WRONG_REQUEST, LEAVES, SILENT, NO_DRIVER, BAD_FACTS };

struct broker {
    enum mood mood;
    char address[64];
    int listener;
    pthread_t thread;
    struct tp_stream *stream;
    bool got_close;
};

static char folder[] = "/tmp/server_test_XXXXXX";

/* ---- the broker ---- */

static size_t
add_fact(uint8_t *dst, uint16_t kind, uint32_t index, uint32_t sub, uint32_t param,
         const void *data, uint32_t len)
{
    struct tp_wire_fact f = {kind, index, sub, param, 0, len, data};

    tp_wire_put_fact(dst, &f);
    return tp_wire_fact_size(len);
}

/* Two platforms; device 0 on the second one, device 1 on the first. */
static size_t
make_facts(uint8_t *dst)
{
    const uint64_t type = 1 << 2, memory = 5ULL << 30;
    const uint32_t units = 80, yes = 1;
    uint8_t *p = dst;

    p += add_fact(p, TP_WIRE_FACT_PLATFORM, 0, 0, 0x0902, "First", 6);
    p += add_fact(p, TP_WIRE_FACT_PLATFORM, 1, 0, 0x0902, "Second", 7);
    p += add_fact(p, TP_WIRE_FACT_PLATFORM, 1, 0, 0x0901, "OpenCL 3.0 x", 13);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 0, 1, 0x102b, "GPU \033[1m", 9);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 0, 1, 0x1000, &type, 8);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 0, 1, 0x101f, &memory, 8);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 0, 1, 0x1002, &units, 4);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 0, 1, 0x1027, &yes, 4);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 1, 0, 0x102b, "other", 6);
    p += add_fact(p, TP_WIRE_FACT_DEVICE, 1, 0, 0x7777, "unknown", 8);
    return (size_t)(p - dst);
}

static void
answer_ping(struct broker *b, const struct tp_wire_ping *ping)
{
    struct tp_wire_pong m = {.request = ping->request,
                             .sent_ns = ping->sent_ns,
                             .server_mono_ns = 11,
                             .server_real_ns = 22,
                             .data = ping->data};

    if (b->mood == WRONG_DATA) {
        m.data.data = memset(calloc(1, m.data.len), 'x', m.data.len);
    } else if (b->mood == WRONG_REQUEST) {
        m.request++;
    }
    assert_int_equal(tp_stream_put(b->stream, TP_WIRE_PONG, &m), TELPHER_OK);
    if (b->mood == WRONG_DATA) {
        free((void *)m.data.data);
    }
}

static void
answer_devices(struct broker *b, const struct tp_wire_devices *devices)
{
    uint8_t facts[2048];
    struct tp_wire_devices_reply m = {.request = devices->request,
                                      .facts = {(uint32_t)make_facts(facts), facts}};

    if (b->mood == NO_DRIVER) {
        m.status = TELPHER_ERR_NOT_FOUND;
        m.facts.len = 0;
    } else if (b->mood == BAD_FACTS) {
        m.facts.len -= 3;
    }
    assert_int_equal(tp_stream_put(b->stream, TP_WIRE_DEVICES_REPLY, &m), TELPHER_OK);
}

static telpher_status
serve_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_close closing = {.status = TELPHER_ERR_LIMIT,
                                    .text = {8, "too many"}};
    struct broker *b = arg;
    struct tp_wire_ping ping;
    struct tp_wire_devices devices;

    if (type == TP_WIRE_CLOSE) {
        b->got_close = true;
        return TELPHER_ERR_CANCELED;
    }
    if (b->mood == SILENT) {
        return TELPHER_OK;
    }
    if (b->mood == LEAVES) {
        assert_int_equal(tp_stream_put(b->stream, TP_WIRE_CLOSE, &closing), TELPHER_OK);
        (void)tp_stream_flush_wait(b->stream, TP_CLOCK_FOREVER);
        return TELPHER_ERR_CANCELED;
    }
    if (type == TP_WIRE_PING) {
        assert_true(tp_wire_get_ping(body, end, &ping));
        answer_ping(b, &ping);
    } else {
        assert_int_equal(type, TP_WIRE_DEVICES);
        assert_true(tp_wire_get_devices(body, end, &devices));
        answer_devices(b, &devices);
    }
    return TELPHER_OK;
}

static void
serve_stream(struct broker *b)
{
    static const struct tp_stream_handler handler = {.frame = serve_frame};
    telpher_status status;

    do {
        status = tp_stream_receive(b->stream, &handler, b);
        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(b->stream, TP_CLOCK_FOREVER);
        } else if (status == TELPHER_OK) {
            status = tp_stream_flush_wait(b->stream, TP_CLOCK_FOREVER);
        }
    } while (status == TELPHER_OK);
}

static void *
serve(void *arg)
{
    struct broker *b = arg;
    struct tp_wire_preface_reply reply = {.version = 1, .frame_max = TP_WIRE_FRAME_MAX};
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    int fd = accept(b->listener, NULL, NULL);
    struct tp_conn *conn;

    assert_true(fd >= 0);
    assert_int_equal(recv(fd, raw, TP_WIRE_PREFACE_BYTES, MSG_WAITALL),
                     TP_WIRE_PREFACE_BYTES);
    tp_wire_put_preface_reply(raw, &reply);
    assert_int_equal(send(fd, raw, sizeof(raw), MSG_NOSIGNAL), sizeof(raw));
    assert_int_equal(tp_tcp_transport.adopt(fd, &conn), TELPHER_OK);
    assert_int_equal(tp_stream_create(conn, NULL, 0, &b->stream), TELPHER_OK);
    serve_stream(b);
    tp_stream_destroy(b->stream);
    return NULL;
}

static telpher_server *
open_server(struct broker *b, enum mood mood)
{
    telpher_server *server;
    telpher_error err = {0};

    *b = (struct broker){.mood = mood};
    snprintf(b->address, sizeof(b->address), "unix:%s/sock", folder);
    assert_int_equal(tp_tcp_transport.listen(b->address, &b->listener, NULL),
                     TELPHER_OK);
    assert_int_equal(
        fcntl(b->listener, F_SETFL, fcntl(b->listener, F_GETFL) & ~O_NONBLOCK), 0);
    assert_int_equal(pthread_create(&b->thread, NULL, serve, b), 0);
    assert_int_equal(
        telpher_server_connect(b->address, 300 * TP_CLOCK_MS, &server, &err),
        TELPHER_OK);
    return server;
}

static void
close_server(struct broker *b, telpher_server *server)
{
    telpher_server_close(server);
    pthread_join(b->thread, NULL);
    close(b->listener);
}

/* ---- tests ---- */

static void
test_ping(void **state)
{
    static const size_t sizes[] = {0, 1, 1000, TELPHER_PING_MAX_BYTES};
    struct broker b;
    telpher_server *server = open_server(&b, HONEST);
    uint64_t rtt = 0, mono, real;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(telpher_server_ping(server, sizes[i], &rtt, &mono, &real),
                         TELPHER_OK);
        assert_true(rtt > 0 && rtt < TP_CLOCK_S);
        assert_int_equal(mono, 11);
        assert_int_equal(real, 22);
    }
    assert_int_equal(telpher_server_ping(server, 5, &rtt, NULL, NULL), TELPHER_OK);
    assert_int_equal(
        telpher_server_ping(server, TELPHER_PING_MAX_BYTES + 1, &rtt, NULL, NULL),
        TELPHER_ERR_RANGE);
    close_server(&b, server);
    assert_true(b.got_close);
}

static void
check_ping_fails(enum mood mood, telpher_status want)
{
    struct broker b;
    telpher_server *server = open_server(&b, mood);
    uint64_t rtt = 77;

    assert_int_equal(telpher_server_ping(server, 100, &rtt, NULL, NULL), want);
    assert_int_equal(rtt, 77);
    close_server(&b, server);
}

static void
test_ping_fails(void **state)
{
    (void)state;
    check_ping_fails(WRONG_DATA, TELPHER_ERR_PROTO);
    check_ping_fails(WRONG_REQUEST, TELPHER_ERR_PROTO);
    check_ping_fails(SILENT, TELPHER_ERR_TIMEOUT);
    check_ping_fails(LEAVES, TELPHER_ERR_LIMIT);
}

static void
check_device(void *user, const telpher_device_info *d)
{
    uint32_t *count = user;

    assert_int_equal(d->struct_size, sizeof(*d));
    assert_int_equal(d->index, (*count)++);
    if (d->index == 0) {
        assert_string_equal(d->platform_name, "Second");
        assert_string_equal(d->platform_version, "OpenCL 3.0 x");
        assert_string_equal(d->name, "GPU ?[1m");
        assert_int_equal(d->type, TELPHER_DEVICE_GPU);
        assert_true(d->memory_bytes == 5ULL << 30);
        assert_int_equal(d->compute_units, 80);
        assert_int_equal(d->available, 1);
        assert_string_equal(d->vendor, "");
    } else {
        assert_string_equal(d->platform_name, "First");
        assert_string_equal(d->name, "other");
        assert_int_equal(d->platform_index, 0);
        assert_int_equal(d->type, 0);
    }
}

static void
test_devices(void **state)
{
    struct broker b;
    telpher_server *server = open_server(&b, HONEST);
    uint32_t count = 0;

    (void)state;
    assert_int_equal(telpher_server_devices(server, check_device, &count, NULL),
                     TELPHER_OK);
    assert_int_equal(count, 2);
    count = 0; /* and again */
    assert_int_equal(telpher_server_devices(server, check_device, &count, NULL),
                     TELPHER_OK);
    assert_int_equal(count, 2);
    close_server(&b, server);
}

static void
check_devices_fail(enum mood mood, telpher_status want, const char *words)
{
    struct broker b;
    telpher_server *server = open_server(&b, mood);
    telpher_error err = {0};
    uint32_t count = 0;

    assert_int_equal(telpher_server_devices(server, check_device, &count, &err), want);
    assert_int_equal(count, 0);
    assert_int_equal(err.code, want);
    assert_non_null(strstr(err.text, words));
    close_server(&b, server);
}

static void
test_devices_fail(void **state)
{
    (void)state;
    check_devices_fail(NO_DRIVER, TELPHER_ERR_DEVICE, "cannot list its devices");
    check_devices_fail(BAD_FACTS, TELPHER_ERR_PROTO, "broke the protocol");
    check_devices_fail(LEAVES, TELPHER_ERR_LIMIT, "too many");
    check_devices_fail(SILENT, TELPHER_ERR_TIMEOUT, "deadline");
}

static void
test_connect_fails(void **state)
{
    telpher_server *server;
    telpher_error err = {0};

    (void)state;
    assert_int_equal(telpher_server_connect("a,b", 0, &server, &err),
                     TELPHER_ERR_INVALID);
    assert_non_null(strstr(err.text, "several"));
    assert_int_equal(telpher_server_connect("", 0, &server, &err), TELPHER_ERR_INVALID);
    assert_int_equal(telpher_server_connect("/does/not/exist", 0, &server, &err),
                     TELPHER_ERR_UNREACHABLE);
    assert_int_equal(err.code, TELPHER_ERR_UNREACHABLE);
    assert_non_null(strstr(err.text, "is telpherd running there?"));
    assert_int_equal(telpher_server_connect("/does/not/exist", 0, &server, NULL),
                     TELPHER_ERR_UNREACHABLE);
    telpher_server_close(NULL);
}

static void
collect(void *user, const char *address)
{
    char *all = user;

    strcat(all, address);
    strcat(all, "|");
}

static void
test_server_lists(void **state)
{
    telpher_error err = {0};
    char all[256] = "";

    (void)state;
    assert_int_equal(telpher_servers_parse("a, b:1 ,/x", collect, all, &err),
                     TELPHER_OK);
    assert_string_equal(all, "a|b:1|/x|");
    all[0] = '\0';
    assert_int_equal(telpher_servers_parse("a,b:x", collect, all, &err),
                     TELPHER_ERR_INVALID);
    assert_string_equal(all, ""); /* nothing was called */
    assert_non_null(strstr(err.text, "b:x"));
    assert_int_equal(telpher_servers_parse("a,,b", collect, all, NULL),
                     TELPHER_ERR_INVALID);
}

static int
setup(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "%s/sock", folder);
    unlink(path);
    return rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping),          cmocka_unit_test(test_ping_fails),
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_devices_fail),
        cmocka_unit_test(test_connect_fails), cmocka_unit_test(test_server_lists),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
