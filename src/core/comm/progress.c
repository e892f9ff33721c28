/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a context, and waiting: polls first, then sleeps until an event wakes
 * it. */
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"

#define COPY_NAP (20 * TP_CLOCK_US) /* the end of a device copy wakes no sleeper */
/* A rank that has polled for so long without success may keep its peer from running, so it
 * yields its processor. Where a yield brings progress, the two share a processor, and the
 * next wait yields sooner; a yield without progress undoes that. */
#define ALONE (50 * TP_CLOCK_US)
#define ALONE_MIN TP_CLOCK_US
/* A yield of this length gave another program its time slice, so the next wait yields later;
 * where ranks share processors, it gave them theirs. */
#define SLICE (700 * TP_CLOCK_US)
#define ALONE_MAX (200 * TP_CLOCK_US)
#define SLEEP_MAX (100 * TP_CLOCK_MS)

enum {
    CLOCK_EVERY = 16, /* rounds without an event between two readings of the clock */
};

unsigned
telpher_progress(telpher_context *ctx)
{
    unsigned count;

    if (ctx->running) {
        return 0; /* called from a callback */
    }
    ctx->running = true;
    count = tp_unlikely(ctx->handlers_changed) ? tp_comm_message_run_unhandled(ctx) : 0;
    for (size_t i = 0; i < ctx->net_count; i++) {
        struct tp_net *net = ctx->nets[i].net;

        count += net != NULL && net != ctx->unused ? tp_rndv_progress(net) : 0;
    }
    if (tp_mems_pending(ctx->mems) != 0) {
        count += tp_mems_progress(ctx->mems);
    }
    if (!tp_list_is_empty(&ctx->waiting)) {
        count += tp_comm_peers_flush(ctx);
    }
    if (!tp_list_is_empty(&ctx->ready) || !tp_list_is_empty(&ctx->starved)) {
        count += tp_comm_fragment_run_starved(ctx);
    }
    if (!tp_list_is_empty(&ctx->completed)) {
        count += tp_comm_request_run_completed(ctx);
    }
    ctx->running = false;
    ctx->happened += count;
    return count;
}

/* Arms all transports for a sleep. @return false if an event is there already */
static bool
arm(telpher_context *ctx, struct pollfd *polls, bool *ret_blind)
{
    *ret_blind = tp_mems_pending(ctx->mems) != 0;
    for (size_t i = 0; i < ctx->net_count; i++) {
        struct tp_net *net = ctx->nets[i].net;

        polls[i] = (struct pollfd){.fd = -1};
        if (net == NULL) {
            continue;
        }
        if (tp_rndv_arm(net) != TELPHER_OK) {
            return false;
        }
        *ret_blind = *ret_blind || net->ops->blind;
        polls[i] = (struct pollfd){.fd = net->ops->fd(net), .events = POLLIN};
    }
    polls[ctx->net_count] = (struct pollfd){.fd = ctx->wake_fd, .events = POLLIN};
    return true;
}

static void
sleep_until(telpher_context *ctx, tp_ns deadline)
{
    struct pollfd polls[TP_COMM_NETS + 1];
    uint64_t wakes;
    bool blind;
    tp_ns time = TP_MIN(tp_clock_remaining(deadline), SLEEP_MAX);
    struct timespec ts;

    if (!arm(ctx, polls, &blind)) {
        return;
    }
    if (blind || !tp_list_is_empty(&ctx->waiting) || !tp_list_is_empty(&ctx->ready)) {
        time = TP_MIN(time, COPY_NAP);
    }
    ts = tp_clock_timespec(time);
    if (ppoll(polls, ctx->net_count + 1, &ts, NULL) > 0 &&
        polls[ctx->net_count].revents != 0 &&
        read(ctx->wake_fd, &wakes, sizeof(wakes)) == sizeof(wakes)) {
        ctx->happened++;
    }
}

/* Lets others run. @return whether that brought something */
static bool
give_way(telpher_context *ctx)
{
    tp_ns start = tp_clock_ns(), took, alone = TP_MAX(ctx->alone_ns, (tp_ns)ALONE_MIN);
    bool brought;

    sched_yield();
    took = tp_clock_ns() - start;
    brought = telpher_progress(ctx) != 0;
    if (took >= SLICE && !ctx->crowded) {
        alone = ALONE_MAX;
    } else if (brought && took < SLICE) {
        alone /= 2;
    } else if (alone < ALONE) {
        alone *= 2;
    }
    ctx->alone_ns = alone;
    return brought;
}

telpher_status
tp_comm_wait(telpher_context *ctx, bool (*done)(void *arg), void *arg, tp_ns deadline)
{
    tp_ns since = 0;
    unsigned idle = 0;

    if (ctx->running) {
        return TELPHER_ERR_INVALID; /* a callback may not wait */
    }
    while (!done(arg)) {
        unsigned count = telpher_progress(ctx);
        tp_ns now;

        if (count != 0) {
            since = 0;
            continue;
        }
        if (tp_unlikely(tp_mems_gives_way(ctx->mems))) {
            sched_yield();
        }
        if (++idle % CLOCK_EVERY != 0) {
            continue; /* reading the clock takes as long as polling */
        }
        now = tp_clock_ns();
        since = since == 0 ? now : since;
        if (now >= deadline) {
            return TELPHER_ERR_TIMEOUT;
        }
        if (now - since > ctx->spin_ns) {
            sleep_until(ctx, deadline);
        } else if (now - since > TP_MAX(ctx->alone_ns, (tp_ns)ALONE_MIN) &&
                   give_way(ctx)) {
            since = 0;
        }
    }
    return TELPHER_OK;
}

struct anything {
    telpher_context *ctx;
    uint64_t before;
};

static bool
has_happened(void *arg)
{
    struct anything *a = arg;

    return a->ctx->happened != a->before;
}

telpher_status
telpher_progress_wait(telpher_context *ctx, uint64_t timeout_ns)
{
    struct anything a = {.ctx = ctx, .before = ctx->happened};

    return tp_comm_failed(
        ctx, tp_comm_wait(ctx, has_happened, &a, tp_clock_deadline(timeout_ns)),
        TELPHER_ANY_RANK, "waiting for progress");
}

unsigned
telpher_progress_sleep(telpher_context *ctx, uint64_t timeout_ns)
{
    if (ctx->running) {
        return 0; /* a callback may not wait */
    }
    sleep_until(ctx, tp_clock_deadline(timeout_ns));
    return telpher_progress(ctx);
}

void
telpher_wake(telpher_context *ctx)
{
    const uint64_t one = 1;

    if (write(ctx->wake_fd, &one, sizeof(one)) != sizeof(one)) {
        return; /* has been readable for long already */
    }
}

telpher_status
telpher_barrier(telpher_context *ctx, uint64_t timeout_ns)
{
    return tp_comm_failed(
        ctx, tp_comm_gather(ctx, NULL, 0, NULL, tp_clock_deadline(timeout_ns)),
        TELPHER_ANY_RANK, "barrier of %u ranks", ctx->size);
}
