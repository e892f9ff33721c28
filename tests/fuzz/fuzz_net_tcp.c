/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that has the job's secret and says whatever it likes: the input is what it sends to
 * a live context over TCP, behind its hello and its share of one window. The context has
 * receives posted in host and device memory, sends, gets and messages under way. Whatever
 * comes: it touches no memory but what was named, each operation ends exactly once, and
 * when the rank is gone nothing is left.
 */
#include "support/fuzz.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>

#include <telpher/channel.h>
#include <telpher/mem.h>
#include <telpher/msg.h>
#include <telpher/win.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/trace/log.h"
#include "core/comm/comm.h"
#include "transport/tcp/net_int.h"
#include "wire/comm.h"

enum {
    CHANNEL = 1,
    HANDLER = 3,
    IN_PLACE, /* without a post handler */
    WINDOW = 4096, /* [bytes] */
    LITTLE = 100,
    MUCH = 200000,
    OPS = 16,
    SLICE = 4096, /* [bytes] sent before the context acts */
    ROUNDS = 130, /* of progress; the transport looks for the new every 64th */
};
#define END_TIME (20 * TP_CLOCK_S)

static struct {
    telpher_context *ctx;
    telpher_win *win;
    uint64_t job;
    uint16_t port;
    unsigned gathers;
    int fd; /* the other rank's end */
    uint8_t *window, *little, *much, *device, *inbox;
    unsigned begun, done[OPS], ended;
} all;
static unsigned knocks;

/* ---- the two ranks find each other ---- */

/* The address of the other is ours, but for the way to oneself: it comes to us, so nobody looks
 * for it. */
static telpher_status
allgather(void *user, const void *mine, size_t len, void *both)
{
    const uint8_t *bytes = mine;
    uint8_t *other = (uint8_t *)both + len;

    (void)user;
    memcpy(both, mine, len);
    memcpy(other, mine, len);
    if (all.gathers++ == 0) {
        require(len == sizeof(all.job));
        memcpy(&all.job, mine, len);
    }
    for (size_t i = 0; i + 16 < len; i++) { /* the entry: a length, "tcp", a length */
        if (memcmp(bytes + i, "\4loop", 5) == 0) {
            other[i + 1] = 'x';
        }
        if (memcmp(bytes + i, "\3tcp", 4) == 0) {
            memcpy(&all.port, bytes + i + 4 + 2 + 8, sizeof(all.port));
        }
    }
    return TELPHER_OK;
}

static void
send_all(const void *data, size_t len)
{
    const uint8_t *at = data;

    while (len != 0) {
        ssize_t sent =
            send(all.fd, at, TP_MIN(len, (size_t)SLICE), MSG_NOSIGNAL | MSG_DONTWAIT);
        uint8_t waste[4096];

        while (recv(all.fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) {
        }
        if (sent < 0 && errno != EAGAIN) {
            return; /* it has been given up */
        }
        at += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
        (void)telpher_progress(all.ctx);
    }
}

/* One address would run out of ports, which stay taken for a minute.
 * @return false when a signal or a port of before was in the way */
static bool
reach(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(all.port)};
    struct sockaddr_in own = {.sin_family = AF_INET};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + ((unsigned)getpid() * 4096 + ++knocks) % 16000000);
    all.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(all.fd >= 0 && bind(all.fd, (void *)&own, sizeof(own)) == 0);
    if (connect(all.fd, (void *)&a, sizeof(a)) == 0) {
        return true;
    }
    require(errno == EINTR || errno == EADDRNOTAVAIL || errno == EADDRINUSE);
    close(all.fd);
    return false;
}

static void
knock(void)
{
    struct tp_tcp_hello hello = {.magic = "TELPNET", .job = all.job, .from = 1};
    const struct {
        struct tp_tcp_frame frame;
        struct tp_comm_header header;
        uint64_t size;
    } step = {{.type = TP_TCP_EAGER_FRAME, .header_len = 32, .len = 8},
              {.kind = TP_COMM_GATHER, .len = 8},
              WINDOW};
    unsigned tries = 0;

    memcpy(hello.magic, TP_TCP_HELLO_MAGIC, sizeof(hello.magic));
    while (!reach()) {
        require(++tries < 100);
    }
    send_all(&hello, sizeof(hello));
    send_all(&step, sizeof(step.frame) + sizeof(step.header) + sizeof(step.size));
    for (unsigned i = 0; i < ROUNDS; i++) { /* it is seen before anybody looks for it */
        (void)telpher_progress(all.ctx);
    }
}

/* ---- what is under way ---- */

static void
done(void *user, telpher_status status, size_t len)
{
    unsigned *count = user;

    (void)len;
    require(status != TELPHER_IN_PROGRESS && ++*count == 1);
    all.ended++;
}

static telpher_xfer_params
next_op(void)
{
    telpher_xfer_params params = TELPHER_XFER_PARAMS_INIT;

    require(all.begun < OPS);
    params.on_done = done;
    params.user = &all.done[all.begun++];
    return params;
}

static void
begun(telpher_status status)
{
    if (status != TELPHER_IN_PROGRESS) {
        done(&all.done[all.begun - 1], status, 0);
    }
}

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    (void)ctx;
    (void)user;
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        msg->buffers[i].data = msg->buffers[i].len <= MUCH ? all.inbox : NULL;
    }
}

static void
enter(telpher_context *ctx, telpher_msg *msg, void *user)
{
    (void)ctx;
    (void)user;
    touch(msg->params, msg->params_len);
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        if (msg->handler == IN_PLACE && msg->buffers[i].data != NULL) {
            touch(msg->buffers[i].data, msg->buffers[i].len);
        }
    }
}

static void
begin(void)
{
    const telpher_msg_buffer buffers[2] = {{all.much, MUCH}, {all.device, LITTLE}};
    telpher_channel *ch;
    telpher_xfer_params params;

    require(telpher_channel_open(all.ctx, 1, CHANNEL, &ch) == TELPHER_OK);
    require(telpher_msg_handler(all.ctx, HANDLER, post, enter, NULL) == TELPHER_OK);
    require(telpher_msg_handler(all.ctx, IN_PLACE, NULL, enter, NULL) == TELPHER_OK);
    params = next_op();
    begun(telpher_channel_recv(ch, all.little, LITTLE, &params, NULL, NULL));
    params = next_op();
    begun(telpher_channel_recv(ch, all.much, MUCH, &params, NULL, NULL));
    params = next_op();
    begun(telpher_channel_recv(ch, all.device, MUCH, &params, NULL, NULL));
    params = next_op();
    begun(telpher_get(all.win, 1, 0, all.window, WINDOW, &params, NULL));
    params = next_op();
    begun(telpher_channel_send(ch, all.much, MUCH, &params, NULL));
    params = next_op();
    begun(telpher_channel_send(ch, all.device, MUCH, &params, NULL));
    params = next_op();
    begun(telpher_msg_send(all.ctx, 1, HANDLER, "abc", 3, buffers, 2, &params, NULL));
    params = next_op();
    begun(telpher_put_notify(all.win, 1, 0, all.window, WINDOW, 7, &params, NULL));
}

/* ---- a run ---- */

static void
create(void)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_bootstrap boot = {
        .struct_size = sizeof(boot), .size = 2, .allgather = allgather};
    void *device = NULL;

    memset(&all, 0, sizeof(all));
    params.bootstrap = &boot;
    params.transports = "tcp";
    require(tp_comm_create(&params, &all.ctx, NULL) == TELPHER_OK);
    all.window = malloc(WINDOW);
    all.little = malloc(LITTLE);
    all.much = calloc(1, MUCH);
    all.inbox = malloc(MUCH);
    require(telpher_mem_alloc(all.ctx, TELPHER_MEM_SIM, MUCH, &device) == TELPHER_OK);
    all.device = device;
    knock();
    require(telpher_win_create(all.ctx, all.window, WINDOW, END_TIME, &all.win) ==
            TELPHER_OK);
}

static void
destroy(void)
{
    telpher_win_destroy(all.win);
    require(telpher_mem_free(all.ctx, all.device) == TELPHER_OK);
    telpher_context_destroy(all.ctx);
    close(all.fd);
    free(all.window);
    free(all.little);
    free(all.much);
    free(all.inbox);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static bool is_set;
    uint64_t live;
    tp_ns deadline;

    if (!is_set) {
        setenv("TELPHER_LOG", "none", 0);
        setenv("TELPHER_DOMAINS", "sim", 1);
        create(); /* what is made once and kept */
        destroy();
        is_set = true;
    }
    live = tp_alloc_live();
    create();
    begin();
    send_all(data, len);
    (void)shutdown(all.fd, SHUT_WR);
    deadline = tp_clock_deadline(END_TIME);
    while (telpher_peer_status(all.ctx, 1) == TELPHER_OK || all.ended < all.begun) {
        send_all(NULL, 0);
        if (telpher_progress(all.ctx) == 0) {
            sched_yield();
        }
        require(!tp_clock_passed(deadline));
    }
    destroy();
    for (unsigned i = 0; i < all.begun; i++) {
        require(all.done[i] == 1);
    }
    require(tp_alloc_live() == live);
    return 0;
}
