/* SPDX-License-Identifier: Apache-2.0 */
/* The states: what the victim is doing when it is killed, and what others want of it. */
#include "deaths.h"

#include <unistd.h>

enum { MANY = 1000, FEW = 4, HANDLER = 7, TAG = 11 };

/* ---- survivors ---- */

static void
recv_from(struct party *p, void *dst, size_t len)
{
    telpher_xfer_params params = next_op(p);

    op_begun(p, telpher_channel_recv(p->dead, dst, len, &params, NULL, NULL));
}

static void
send_to(struct party *p, const void *src, size_t len)
{
    telpher_xfer_params params = next_op(p);

    op_begun(p, telpher_channel_send(p->dead, src, len, &params, NULL));
}

static void
want_nothing(struct party *p)
{
    (void)p;
}

static void
recv_small(struct party *p)
{
    for (unsigned i = 0; i < MANY; i++) {
        recv_from(p, p->host, 64);
    }
}

static void
send_small(struct party *p)
{
    for (unsigned i = 0; i < MANY; i++) {
        send_to(p, p->host, 64 + i);
    }
}

static void
recv_big(struct party *p)
{
    for (unsigned i = 0; i < FEW; i++) {
        recv_from(p, p->host, BIG);
    }
}

static void
send_big(struct party *p)
{
    for (unsigned i = 0; i < FEW; i++) {
        send_to(p, p->host, BIG);
    }
}

static void
recv_device(struct party *p)
{
    for (unsigned i = 0; i < FEW; i++) {
        recv_from(p, p->device, BIG);
    }
}

static void
send_device(struct party *p)
{
    for (unsigned i = 0; i < FEW; i++) {
        send_to(p, p->device, BIG);
        send_to(p, p->device + i, 100); /* waits behind, with its chunk */
    }
}

static void
put_and_flush(struct party *p)
{
    for (unsigned i = 0; i < FEW; i++) {
        telpher_xfer_params params = next_op(p);

        op_begun(p, telpher_put(p->win, VICTIM, 0, p->host, WINDOW, &params, NULL));
        params = next_op(p);
        op_begun(p, telpher_get(p->win, VICTIM, 0, p->device, WINDOW, &params, NULL));
    }
    atomic_fetch_add(&shared->ready, 1);
    do {
        p->call = telpher_win_flush(p->win, VICTIM, RANKS_TIME);
    } while (p->call == TELPHER_OK);
}

static void
wait_for_notification(struct party *p)
{
    atomic_fetch_add(&shared->ready, 1);
    p->call = telpher_notify_wait(p->win, VICTIM, TAG, 1, RANKS_TIME);
}

static void
wait_for_request(struct party *p)
{
    telpher_request *req = NULL;

    IS(telpher_channel_recv(p->dead, p->host, BIG, NULL, &req, NULL),
       TELPHER_IN_PROGRESS);
    atomic_fetch_add(&shared->ready, 1);
    p->call = telpher_request_wait(req, RANKS_TIME, NULL);
}

static void
wait_in_barrier(struct party *p)
{
    atomic_fetch_add(&shared->ready, 1);
    p->call = telpher_barrier(p->ctx, RANKS_TIME);
}

/* It is dead already, and may have taken part as far as it could. */
static void
come_late(struct party *p)
{
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->died_ns) == 0) {
        (void)telpher_progress_wait(p->ctx, 1000000);
    }
    p->call = telpher_barrier(p->ctx, RANKS_TIME);
}

static void
send_messages(struct party *p)
{
    for (unsigned i = 0; i < 20; i++) {
        const telpher_msg_buffer buffers[2] = {{p->host, i % 2 == 0 ? 100 : BIG},
                                               {p->device, 5000 * i}};
        telpher_xfer_params params = next_op(p);

        op_begun(p, telpher_msg_send(p->ctx, VICTIM, HANDLER, "abc", 3, buffers, 2,
                                     &params, NULL));
    }
}

/* ---- the victim ---- */

static void
compute(struct party *p)
{
    (void)p;
    for (;;) {
        pause();
    }
}

static void
progress(struct party *p)
{
    for (;;) {
        (void)telpher_progress_wait(p->ctx, 1000000);
    }
}

/* Sends to both survivors by the channel that each of them has with us. */
static void
send_both(struct party *p, const uint8_t *src, size_t len, unsigned count)
{
    telpher_channel *to[2] = {p->dead, p->never};

    for (unsigned i = 0; i < 2 * count; i++) {
        telpher_xfer_params params = next_op(p);

        op_begun(p, telpher_channel_send(to[i % 2], src, len, &params, NULL));
    }
}

static void
live_small(struct party *p)
{
    send_both(p, p->host, 64, MANY / 2 - 100); /* not all that they wait for */
    progress(p);
}

static void
live_big(struct party *p)
{
    send_both(p, p->host, BIG, FEW);
    progress(p);
}

static void
live_device(struct party *p)
{
    send_both(p, p->device, BIG, FEW);
    progress(p);
}

static void
recv_both(struct party *p, uint8_t *dst)
{
    telpher_channel *from[2] = {p->dead, p->never};

    for (unsigned i = 0; i < 4 * FEW; i++) {
        telpher_xfer_params params = next_op(p);

        op_begun(p, telpher_channel_recv(from[i % 2], dst, BIG, &params, NULL, NULL));
    }
}

static void
live_recv(struct party *p)
{
    recv_both(p, p->host);
    progress(p);
}

static void
live_recv_device(struct party *p)
{
    recv_both(p, p->device);
    progress(p);
}

static void
live_wait(struct party *p)
{
    telpher_request *req = NULL;

    IS(telpher_channel_recv(p->dead, p->host, BIG, NULL, &req, NULL),
       TELPHER_IN_PROGRESS);
    (void)telpher_request_wait(req, TELPHER_FOREVER, NULL);
}

static void
live_flush(struct party *p)
{
    for (;;) {
        for (uint32_t to = 0; to < RANKS; to += 2) {
            telpher_request *req = NULL;

            (void)telpher_put(p->win, to, 0, p->host, WINDOW, NULL, &req);
        }
        (void)telpher_win_flush(p->win, TELPHER_ANY_RANK, TELPHER_FOREVER);
    }
}

static void
live_notify_wait(struct party *p)
{
    (void)telpher_notify_wait(p->win, 0, TAG + 1, 1, TELPHER_FOREVER);
}

static void
live_barrier(struct party *p)
{
    (void)telpher_barrier(p->ctx, TELPHER_FOREVER);
    progress(p);
}

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct party *p = user;

    (void)ctx;
    msg->buffers[0].data = p->host;
    msg->buffers[1].data = p->device;
}

static void
enter(telpher_context *ctx, telpher_msg *msg, void *user)
{
    (void)ctx;
    (void)user;
    if (msg->buffers[1].len >= 20000) {
        die();
    }
}

static void
live_handler(struct party *p)
{
    OK(telpher_msg_handler(p->ctx, HANDLER, post, enter, p));
    progress(p);
}

static void
leave(struct party *p)
{
    send_both(p, p->host, BIG, FEW);
    (void)telpher_progress(p->ctx);
    telpher_context_destroy(p->ctx);
    compute(p);
}

const struct state states[] = {
    {.name = "wired up, not used",
     .survive = want_nothing,
     .live = compute,
     .unused = true},
    {.name = "computing", .survive = send_small, .live = compute, .life_us = 20000},
    {.name = "in eager sends",
     .survive = recv_small,
     .live = live_small,
     .life_us = 3000},
    {.name = "in eager receives",
     .survive = send_small,
     .live = live_recv,
     .life_us = 1000},
    {.name = "in bulk sends", .survive = recv_big, .live = live_big, .life_us = 4000},
    {.name = "in bulk receives",
     .survive = send_big,
     .live = live_recv,
     .life_us = 4000},
    {.name = "in staged sends",
     .survive = recv_device,
     .live = live_device,
     .life_us = 8000,
     .copies = true},
    {.name = "in staged receives",
     .survive = send_device,
     .live = live_recv_device,
     .life_us = 8000,
     .copies = true},
    {.name = "in direct sends",
     .survive = recv_device,
     .live = live_device,
     .life_us = 3000},
    {.name = "in direct receives",
     .survive = send_device,
     .live = live_recv_device,
     .life_us = 3000},
    {.name = "in a wait",
     .survive = wait_for_request,
     .live = live_wait,
     .life_us = 20000,
     .blocks = true},
    {.name = "in flush",
     .survive = put_and_flush,
     .live = live_flush,
     .life_us = 3000,
     .blocks = true},
    {.name = "in notify_wait",
     .survive = wait_for_notification,
     .live = live_notify_wait,
     .life_us = 20000,
     .blocks = true},
    {.name = "in a barrier",
     .survive = come_late,
     .live = live_barrier,
     .life_us = 20000,
     .blocks = true,
     .may_end = true}, /* for who has heard that all have come */
    {.name = "before a barrier",
     .survive = wait_in_barrier,
     .live = compute,
     .life_us = 20000,
     .blocks = true},
    {.name = "in a handler",
     .survive = send_messages,
     .live = live_handler,
     .life_us = 5000000}, /* it dies by itself */
    {.name = "leaving", .survive = recv_big, .live = leave, .life_us = 3000},
};
const unsigned state_count = sizeof(states) / sizeof(states[0]);
