/* SPDX-License-Identifier: Apache-2.0 */
/* Speaks to an executor as another server of the same client does, frame by frame. */
#include "daemon/test/test_peer.h"

#include <string.h>

#include "base/os/clock.h"

const uint8_t test_pair_key[TP_WIRE_PEER_KEY_BYTES] = {1, 2, 3};

void
test_peer_accept(struct test_session *s, uint32_t number,
                 uint8_t ret_name[TP_WIRE_SESSION_BYTES])
{
    static uint8_t last_name;
    struct tp_wire_peer_accept m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                    .peer = number,
                                    .name = {TP_WIRE_SESSION_BYTES, ret_name},
                                    .key = {sizeof(test_pair_key), test_pair_key}};
    struct tp_wire_peer_reply reply;

    memset(ret_name, ++last_name, TP_WIRE_SESSION_BYTES);
    test_put(s, TP_WIRE_PEER_ACCEPT, &m);
    test_expect(s, TP_WIRE_PEER_REPLY, &reply);
    assert_int_equal(reply.request, m.request);
    assert_int_equal(reply.status, TELPHER_OK);
}

telpher_status
test_peer_connect(const struct test_daemon *d, const uint8_t *name, const uint8_t *key,
                  struct tp_stream **ret_stream)
{
    struct tp_client_params params = {.address = d->socket,
                                      .stream = TP_WIRE_STREAM_PEER,
                                      .peer_key = key,
                                      .deadline_ns =
                                          tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S)};
    struct tp_error err = {0};
    telpher_status status;

    memcpy(params.session, name, sizeof(params.session));
    status = tp_client_connect(&params, ret_stream, NULL, &err);
    if (status != TELPHER_OK) {
        print_message("connecting as another server: %s\n", tp_error_text(&err));
    }
    return status;
}

/* The frame that test_peer_expect() waits for. */
struct expected {
    uint16_t type;
    void *ret_msg;
    bool came;
};

static telpher_status
take_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct expected *e = arg;

    if (type == e->type && !e->came) {
        e->came = true;
        switch (type) {
        case TP_WIRE_USER_EVENT_SET:
            assert_true(tp_wire_get_user_event_set(body, end, e->ret_msg));
            break;
        case TP_WIRE_ABORT:
            assert_true(tp_wire_get_abort(body, end, e->ret_msg));
            break;
        default:
            break;
        }
    }
    return TELPHER_OK;
}

void
test_peer_expect(struct tp_stream *stream, uint16_t type, void *ret_msg)
{
    static const struct tp_stream_handler handler = {.frame = take_frame};
    struct expected e = {.type = type, .ret_msg = ret_msg};

    while (!e.came) {
        telpher_status status = tp_stream_receive(stream, &handler, &e);

        assert_true(status == TELPHER_OK || status == TELPHER_ERR_AGAIN);
        if (!e.came && status == TELPHER_ERR_AGAIN) {
            assert_int_equal(
                tp_stream_wait(stream, tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S)),
                TELPHER_OK);
        }
    }
}

struct tp_stream *
test_peer_join(struct test_session *s, const struct test_daemon *d, uint32_t number)
{
    uint8_t name[TP_WIRE_SESSION_BYTES];
    struct tp_stream *stream = NULL;

    test_peer_accept(s, number, name);
    assert_int_equal(test_peer_connect(d, name, test_pair_key, &stream), TELPHER_OK);
    test_peer_expect(stream, TP_WIRE_PEER_READY, NULL);
    return stream;
}

void
test_peer_put(struct tp_stream *stream, uint16_t type, const void *msg)
{
    assert_int_equal(tp_stream_put(stream, type, msg), TELPHER_OK);
    (void)tp_stream_flush(stream);
}

uint64_t
test_put_peer_event(struct test_scene *c, uint32_t number)
{
    struct tp_wire_peer_event m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .context = c->context,
                                   .peer = number};

    test_put(&c->s, TP_WIRE_PEER_EVENT, &m);
    return m.event;
}

/* Defines test_put_push() or test_put_pull(). */
#define DEFINE_PUT(name, NAME)                                                         \
    uint64_t test_put_##name(struct test_scene *c, uint32_t number, uint64_t transfer, \
                             uint64_t size)                                            \
    {                                                                                  \
        struct tp_wire_##name m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),        \
                                   .queue = c->queue,                                  \
                                   .mem = c->mem,                                      \
                                   .flags = TP_WIRE_NOTIFY,                            \
                                   .peer = number,                                     \
                                   .size = size,                                       \
                                   .transfer = transfer};                              \
                                                                                       \
        test_put(&c->s, TP_WIRE_##NAME, &m);                                           \
        return m.event;                                                                \
    }
DEFINE_PUT(push, PUSH)
DEFINE_PUT(pull, PULL)

uint64_t
test_put_marker_after(struct test_scene *c, uint64_t wait)
{
    struct tp_wire_marker m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                               .queue = c->queue,
                               .flags = TP_WIRE_NOTIFY,
                               .wait = {1, &wait}};

    test_put(&c->s, TP_WIRE_MARKER, &m);
    return m.event;
}

void
test_expect_failure(struct test_scene *c, uint64_t event)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, event, &done);
    assert_true(done.status < 0);
}
