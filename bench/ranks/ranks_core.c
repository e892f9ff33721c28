/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of patterns for ranks of Telpher: barriers, puts and gets without notification,
 * and the reduction of all ranks' figures at rank 0.
 */
#include "bench/ranks/ranks_core.h"

#include <stdlib.h>
#include <string.h>

#include <telpher/channel.h>
#include <telpher/win.h>

enum { REDUCE = 9, WINDOW_MAX = 1024, VALUES_MAX = 32 };
#define LIMIT UINT64_C(60000000000) /* [ns] for any wait: then something hangs */

/* Of the call that is open: one at a time. */
static struct {
    telpher_win *win;
    telpher_request *requests[WINDOW_MAX];
} s;
static telpher_context *context;
static telpher_channel **channels; /* by rank */

static bool
finish(telpher_status status, telpher_request **req)
{
    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(*req, LIMIT, NULL);
    }
    return status == TELPHER_OK;
}

/* ---- figures ---- */

/* Rank 0 has a channel to each other rank, and that one to it, until the context ends. */
static bool
exchange(uint32_t peer, bool send, void *values, size_t len)
{
    telpher_channel **channel = &channels[peer];
    telpher_request *req = NULL;

    if (*channel == NULL &&
        telpher_channel_open(context, peer, REDUCE, channel) != TELPHER_OK) {
        return false;
    }
    return send ? finish(telpher_channel_send(*channel, values, len, NULL, &req), &req)
                : finish(telpher_channel_recv(*channel, values, len, NULL, &req, NULL),
                         &req);
}

bool
ranks_core_share(void *bytes, size_t len)
{
    uint32_t rank = telpher_context_rank(context), size = telpher_context_size(context);
    bool good = rank == 0 || exchange(0, false, bytes, len);

    for (uint32_t to = 1; rank == 0 && to < size; to++) {
        good = good && exchange(to, true, bytes, len);
    }
    return good;
}

/* One rank after the other tells rank 0. */
bool
ranks_core_reduce(const double *mine, int count, double *least, double *sum,
                  double *most)
{
    size_t len = (size_t)count * sizeof(*mine);
    uint32_t rank = telpher_context_rank(context), size = telpher_context_size(context);
    double theirs[VALUES_MAX];

    memcpy(least, mine, len);
    memcpy(sum, mine, len);
    memcpy(most, mine, len);
    for (uint32_t from = 1; from < size; from++) {
        bool takes_part = rank == 0 || rank == from;

        memcpy(theirs, mine, len);
        if (takes_part && !exchange(rank == 0 ? from : 0, rank != 0, theirs, len)) {
            return false;
        }
        for (int i = 0; rank == 0 && i < count; i++) {
            least[i] = theirs[i] < least[i] ? theirs[i] : least[i];
            most[i] = theirs[i] > most[i] ? theirs[i] : most[i];
            sum[i] += theirs[i];
        }
    }
    return true;
}

/* ---- calls ---- */

static bool
start_barrier(struct bench_work *w)
{
    return telpher_barrier(context, LIMIT) == TELPHER_OK;
}

static bool
open_window(uint8_t *memory, const struct bench_work *w)
{
    size_t bytes = w->stride != 0 ? (size_t)w->window * w->stride : w->len;

    return telpher_win_create(context, memory, bytes, LIMIT, &s.win) == TELPHER_OK;
}

static bool
open_in(struct bench_work *w)
{
    return open_window(w->in, w);
}

static bool
open_out(struct bench_work *w)
{
    return open_window(w->out, w);
}

static void
close_window(struct bench_work *w)
{
    (void)telpher_barrier(context, LIMIT);
    telpher_win_destroy(s.win);
}

static bool
put(struct bench_work *w, int count)
{
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)i * w->stride;
        telpher_request **req = &s.requests[i];
        telpher_status status;

        *req = NULL;
        status =
            telpher_put(s.win, (uint32_t)w->peer, at, w->out + at, w->len, NULL, req);
        if (status < 0) {
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        if (s.requests[i] != NULL &&
            telpher_request_wait(s.requests[i], LIMIT, NULL) != TELPHER_OK) {
            return false;
        }
    }
    return telpher_win_flush(s.win, (uint32_t)w->peer, LIMIT) == TELPHER_OK;
}

static bool
get(struct bench_work *w, int count)
{
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)i * w->stride;

        s.requests[i] = NULL;
        if (telpher_get(s.win, (uint32_t)w->peer, at, w->in + at, w->len, NULL,
                        &s.requests[i]) < 0) {
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        if (s.requests[i] != NULL &&
            telpher_request_wait(s.requests[i], LIMIT, NULL) != TELPHER_OK) {
            return false;
        }
    }
    return true;
}

#include "bench/ranks/ranks_one_sided.h"

const struct bench_call *
ranks_core_find_call(const char *name)
{
    static const struct bench_call calls[] = {
        {"barrier", NULL, start_barrier, NULL, NULL, NULL},
        RANKS_ONE_SIDED(open_in, open_out, close_window)};

    return bench_call_find(calls, name);
}

bool
ranks_core_use(telpher_context *ctx)
{
    context = ctx;
    channels = calloc(telpher_context_size(ctx), sizeof(*channels));
    return channels != NULL;
}
