/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtimes between two ranks: channels; messages to a handler; messages as the paper sends
 * them, metadata first and a receive afterwards; puts with a notification.
 */
#include "bench/ranks/ranks_core.h"

#include <stdio.h>
#include <stdlib.h>

#include <telpher/channel.h>
#include <telpher/msg.h>
#include <telpher/win.h>

enum { WINDOW_MAX = 1024, HANDLER = 7, META_HANDLER = 8, TAG = 3 };
#define LIMIT UINT64_C(60000000000) /* [ns] for any wait: then something hangs */

struct runtime {
    telpher_channel *channel;
    telpher_win *win;
    telpher_request *sends[WINDOW_MAX], *recvs[WINDOW_MAX];
    int send_count, recv_count;
    void *places[WINDOW_MAX]; /* where messages are to go, in their order */
    unsigned posted, came, window;
};

void
ranks_check(const struct ranks_pair *p, telpher_status status, const char *what)
{
    if (status != TELPHER_OK && status != TELPHER_IN_PROGRESS) {
        fprintf(stderr, "telpher-bench: rank %u: %s: %s\n", p->rank, what,
                telpher_last_error(p->ctx)[0] != '\0' ? telpher_last_error(p->ctx)
                                                      : telpher_status_text(status));
        exit(EXIT_FAILURE);
    }
}

/* ---- the job ---- */

static void
join(struct ranks_pair *p)
{
    telpher_error err = {0};

    if (telpher_context_create(NULL, &p->ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: %s\n", err.text);
        exit(EXIT_FAILURE);
    }
    ranks_check(p, ranks_core_use(p->ctx) ? TELPHER_OK : TELPHER_ERR_NO_MEMORY,
                "memory");
    p->rank = telpher_context_rank(p->ctx);
    p->size = telpher_context_size(p->ctx);
}

static void
leave(struct ranks_pair *p)
{
    telpher_context_destroy(p->ctx);
}

static void
barrier(struct ranks_pair *p)
{
    ranks_check(p, telpher_barrier(p->ctx, LIMIT), "barrier");
}

static const char *
transport(struct ranks_pair *p)
{
    return telpher_context_transport(p->ctx, p->peer);
}

const struct ranks_job ranks_telpher_job = {.join = join,
                                            .leave = leave,
                                            .barrier = barrier,
                                            .transport = transport,
                                            .find_call = ranks_core_find_call,
                                            .reduce = ranks_core_reduce};

static void
way_alloc(struct ranks_pair *p)
{
    p->runtime = calloc(1, sizeof(struct runtime));
    ranks_check(p, p->runtime != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY, "memory");
}

static void
finish(struct ranks_pair *p, telpher_status status, telpher_request **req,
       const char *what)
{
    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(*req, LIMIT, NULL);
    }
    ranks_check(p, status, what);
}

/* ---- channel ---- */

static void
channel_open(struct ranks_pair *p)
{
    way_alloc(p);
    ranks_check(p,
                telpher_channel_open(p->ctx, p->peer, 1,
                                     &((struct runtime *)p->runtime)->channel),
                "channel");
}

static void
channel_close(struct ranks_pair *p)
{
    telpher_channel_close(((struct runtime *)p->runtime)->channel);
    free(p->runtime);
}

static void
channel_send(struct ranks_pair *p, const void *src, size_t len)
{
    struct runtime *w = p->runtime;
    telpher_request *req = NULL;

    finish(p, telpher_channel_send(w->channel, src, len, NULL, &req), &req, "send");
}

static void
channel_recv(struct ranks_pair *p, void *dst, size_t len)
{
    struct runtime *w = p->runtime;
    telpher_request *req = NULL;

    finish(p, telpher_channel_recv(w->channel, dst, len, NULL, &req, NULL), &req,
           "recv");
}

static void
channel_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    struct runtime *w = p->runtime;

    w->sends[i] = NULL;
    ranks_check(p, telpher_channel_send(w->channel, src, len, NULL, &w->sends[i]),
                "send");
}

static void
channel_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    struct runtime *w = p->runtime;

    w->recvs[i] = NULL;
    ranks_check(p, telpher_channel_recv(w->channel, dst, len, NULL, &w->recvs[i], NULL),
                "recv");
}

static void
wait_requests(struct ranks_pair *p, telpher_request **reqs, int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        if (reqs[i] != NULL) {
            ranks_check(p, telpher_request_wait(reqs[i], LIMIT, NULL), what);
        }
    }
}

static void
channel_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct runtime *w = p->runtime;

    wait_requests(p, w->recvs, recvs, "recv");
    wait_requests(p, w->sends, sends, "send");
}

/* ---- messages ---- */

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct runtime *w = user;

    msg->buffers[0].data = w->places[w->posted++ % w->window];
}

static void
entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct runtime *w = user;

    if (msg->status != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: message: %s\n",
                telpher_status_text(msg->status));
        exit(EXIT_FAILURE);
    }
    w->came++;
}

static void
msg_open(struct ranks_pair *p)
{
    struct runtime *w;

    way_alloc(p);
    w = p->runtime;
    w->window = (unsigned)p->o->window;
    for (int i = 0; i < p->o->window; i++) {
        w->places[i] = p->in + (size_t)(i % p->o->window) * p->work.stride;
    }
    ranks_check(p, telpher_msg_handler(p->ctx, HANDLER, post, entry, w), "handler");
}

static void
msg_close(struct ranks_pair *p)
{
    telpher_msg_handler(p->ctx, HANDLER, NULL, NULL, NULL);
    free(p->runtime);
}

static telpher_status
msg_begin(struct ranks_pair *p, const void *src, size_t len, telpher_request **req)
{
    telpher_msg_buffer buffer = {(void *)(uintptr_t)src, len};

    return telpher_msg_send(p->ctx, p->peer, HANDLER, NULL, 0, &buffer, 1, NULL, req);
}

/* Waits until @p count entries have run since the last time. */
static void
wait_entries(struct ranks_pair *p, unsigned count)
{
    struct runtime *w = p->runtime;

    while (w->came < count) {
        if (telpher_progress(p->ctx) == 0 &&
            telpher_peer_status(p->ctx, p->peer) != TELPHER_OK) {
            ranks_check(p, TELPHER_ERR_PEER_LOST, "message");
        }
    }
    w->came -= count;
}

static void
msg_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    struct runtime *w = p->runtime;

    w->sends[i] = NULL;
    ranks_check(p, msg_begin(p, src, len, &w->sends[i]), "message");
}

static void
msg_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
}

static void
msg_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct runtime *w = p->runtime;

    wait_entries(p, (unsigned)recvs);
    wait_requests(p, w->sends, sends, "message");
}

/* ---- messages the paper's runtime ---- */

static void
meta_entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    ((struct runtime *)user)->came++;
}

static void
msg2_open(struct ranks_pair *p)
{
    channel_open(p);
    ranks_check(p,
                telpher_msg_handler(p->ctx, META_HANDLER, NULL, meta_entry, p->runtime),
                "handler");
}

static void
msg2_close(struct ranks_pair *p)
{
    telpher_msg_handler(p->ctx, META_HANDLER, NULL, NULL, NULL);
    channel_close(p);
}

static void
send_meta(struct ranks_pair *p, size_t len)
{
    uint64_t meta = len;

    ranks_check(p,
                telpher_msg_send(p->ctx, p->peer, META_HANDLER, &meta, sizeof(meta),
                                 NULL, 0, NULL, NULL),
                "metadata");
}

static void
msg2_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    send_meta(p, len);
    channel_begin_send(p, i, src, len);
}

static void
msg2_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    wait_entries(p, 1); /* only now it is known that something is to be received */
    channel_begin_recv(p, i, dst, len);
}

/* ---- puts ---- */

static void
put_open(struct ranks_pair *p)
{
    struct runtime *w;
    size_t buffers = p->o->many_buffers ? (size_t)p->o->window : 1;

    way_alloc(p);
    w = p->runtime;
    ranks_check(
        p, telpher_win_create(p->ctx, p->in, buffers * p->o->max_bytes, LIMIT, &w->win),
        "window");
}

static void
put_close(struct ranks_pair *p)
{
    struct runtime *w = p->runtime;

    ranks_check(p, telpher_win_flush(w->win, p->peer, LIMIT), "flush");
    ranks_check(p, telpher_barrier(p->ctx, LIMIT), "barrier");
    telpher_win_destroy(w->win);
    free(w);
}

static void
put_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    struct runtime *w = p->runtime;
    uint64_t place = (uint64_t)((const uint8_t *)src - p->out);

    w->sends[i] = NULL;
    ranks_check(
        p,
        telpher_put_notify(w->win, p->peer, place, src, len, TAG, NULL, &w->sends[i]),
        "put");
}

static void
put_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct runtime *w = p->runtime;

    if (recvs != 0) {
        ranks_check(p,
                    telpher_notify_wait(w->win, p->peer, TAG, (uint32_t)recvs, LIMIT),
                    "notification");
    }
    wait_requests(p, w->sends, sends, "put");
}

static const struct ranks_runtime channel_runtime = {.name = "channel",
                                                     .title = "Channel",
                                                     .job = &ranks_telpher_job,
                                                     .open = channel_open,
                                                     .close = channel_close,
                                                     .send = channel_send,
                                                     .recv = channel_recv,
                                                     .begin_send = channel_begin_send,
                                                     .begin_recv = channel_begin_recv,
                                                     .wait_all = channel_wait_all};
static const struct ranks_runtime msg_runtime = {.name = "msg",
                                                 .one_place = true,
                                                 .title = "Message",
                                                 .job = &ranks_telpher_job,
                                                 .open = msg_open,
                                                 .close = msg_close,
                                                 .begin_send = msg_begin_send,
                                                 .begin_recv = msg_begin_recv,
                                                 .wait_all = msg_wait_all};
static const struct ranks_runtime msg2_runtime = {.name = "msg2",
                                                  .title = "Two-Message",
                                                  .job = &ranks_telpher_job,
                                                  .open = msg2_open,
                                                  .close = msg2_close,
                                                  .begin_send = msg2_begin_send,
                                                  .begin_recv = msg2_begin_recv,
                                                  .wait_all = channel_wait_all};
static const struct ranks_runtime put_runtime = {.name = "put",
                                                 .title = "Notified Put",
                                                 .job = &ranks_telpher_job,
                                                 .open = put_open,
                                                 .close = put_close,
                                                 .begin_send = put_begin_send,
                                                 .begin_recv = msg_begin_recv,
                                                 .wait_all = put_wait_all};

const struct ranks_runtime *const ranks_runtimes[] = {&channel_runtime,
                                                      &msg_runtime,
                                                      &msg2_runtime,
                                                      &put_runtime,
                                                      &ranks_entry_runtime,
                                                      &ranks_object_runtime,
                                                      &ranks_channel_host_runtime,
                                                      &ranks_msg_host_runtime,
                                                      &ranks_entry_host_runtime,
                                                      &ranks_object_host_runtime,
                                                      &ranks_mpi_runtime,
                                                      &ranks_mpi_host_runtime,
                                                      &ranks_ampi_runtime,
                                                      &ranks_nccl_runtime,
                                                      &ranks_nvshmem_runtime,
                                                      &ranks_store_runtime,
                                                      &ranks_socket_runtime,
                                                      NULL};
