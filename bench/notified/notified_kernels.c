/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of telpher-bench notified, and their launches. */
#include <stdio.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#include "bench/notified/notified_job.h"

enum tags { PING, PONG, DATA, ARRIVED };

/** One measurement, as its kernel sees it. */
struct job {
    enum notified_what what;
    uint64_t cells[64]; /* far enough apart: 0 and 32 */
    uint32_t senders, each; /* bandwidth: ranks that send; ranks in this process */
    size_t bytes;
    uint8_t *memory;
    int samples, warmup;
    double *us;
    bool flips;
};

/* ---- latency: half of a round trip, of many in a row ---- */

static void
send(telpher_rma *rma, struct job *job, telpher_rma_win win, uint32_t tag, uint64_t n)
{
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    uint64_t *own = &job->cells[me * 32], *to = &job->cells[(1 - me) * 32];

    switch (job->what) {
    case NOTIFIED_PUT_4:
        own[8] = n;
        telpher_rma_put_notify(rma, win, 1 - me, 0, &own[8], 4, tag);
        break;
    case NOTIFIED_PUT_SAME:
        telpher_rma_put_notify(rma, win, 1 - me, 0, to, 4, tag);
        break;
    case NOTIFIED_VALUE_8:
        telpher_rma_put_value_notify(rma, win, 1 - me, 0, n, tag);
        break;
    case NOTIFIED_NOTIFY:
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, 1 - me, tag);
        break;
    }
}

static void
receive(telpher_rma *rma, const struct job *job, uint32_t tag, uint64_t n)
{
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);

    if (telpher_rma_wait(rma, tag, 1) == TELPHER_OK &&
        (job->what == NOTIFIED_PUT_4 || job->what == NOTIFIED_VALUE_8) &&
        job->cells[me * 32] != n) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO); /* another number arrived */
    }
}

TELPHER_RMA_KERNEL(notified_pingpong)
{
    struct job *job = telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    telpher_rma_win win;
    uint64_t n = 0;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, &job->cells[me * 32], 8, &win);
    for (int i = -job->warmup; i < job->samples; i++) {
        uint64_t start = telpher_rma_now(rma);

        for (int k = 0; k < NOTIFIED_TRIPS; k++) {
            n++;
            if (me == 0) {
                send(rma, job, win, PING, job->flips ? n + 1 : n);
                receive(rma, job, PONG, n);
            } else {
                receive(rma, job, PING, n);
                send(rma, job, win, PONG, n);
            }
        }
        if (me == 0 && i >= 0) {
            job->us[i] =
                (double)(telpher_rma_now(rma) - start) * 1e-3 / (2 * NOTIFIED_TRIPS);
        }
    }
}

/* ---- bandwidth: some ranks put windows of messages into others ---- */

/* Compares the content of the window's last message. */
static void
check_window(telpher_rma *rma, const struct job *job, const uint8_t *in, uint32_t from)
{
    for (size_t i = 0; i < job->bytes; i++) {
        if (in[i] != (uint8_t)(i * 7 + from)) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
            return;
        }
    }
}

static void
send_window(telpher_rma *rma, const struct job *job, telpher_rma_win win, uint32_t to,
            const uint8_t *out)
{
    for (int k = 0; k < NOTIFIED_WINDOW - 1; k++) {
        telpher_rma_put(rma, win, to, 0, out, job->bytes);
    }
    telpher_rma_put_notify(rma, win, to, 0, out, job->bytes, DATA);
}

TELPHER_RMA_KERNEL(notified_windows)
{
    struct job *job = telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    uint32_t size = telpher_rma_size(rma, TELPHER_RMA_WORLD);
    uint32_t to = (me + size / 2) % size, from = (me + size - size / 2) % size;
    uint8_t *out = job->memory + 2 * (me % job->each) * job->bytes;
    uint8_t *in = out + job->bytes;
    bool sends = me < job->senders, gets = from < job->senders;
    telpher_rma_win win;

    for (size_t i = 0; i < job->bytes; i++) {
        out[i] = (uint8_t)(i * 7 + me);
    }
    out[job->bytes / 2] ^= job->flips ? 0x40 : 0;
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, in, job->bytes, &win);
    for (int i = -job->warmup; i < job->samples; i++) {
        uint64_t start;

        telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
        start = telpher_rma_now(rma);
        if (sends) {
            send_window(rma, job, win, to, out);
        }
        if (gets) {
            telpher_rma_wait(rma, DATA, 1);
            telpher_rma_notify(rma, TELPHER_RMA_WORLD, 0, ARRIVED);
        }
        if (me == 0) {
            telpher_rma_wait(rma, ARRIVED, job->senders);
        }
        if (me == 0 && i >= 0) {
            job->us[i] = (double)(telpher_rma_now(rma) - start) * 1e-3;
        }
    }
    if (gets) {
        check_window(rma, job, in, from);
    }
}

/* ---- launches ---- */

static bool
launch(telpher_context *ctx, const telpher_rma_kernel *kernel, uint32_t ranks,
       uint32_t workers, struct job *data)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    telpher_rma_job *job;
    telpher_status status;

    params.ranks = ranks;
    params.workers = workers;
    params.context = ctx;
    status = telpher_rma_create(&params, &job, &err);
    if (status == TELPHER_OK) {
        status = telpher_rma_run(job, kernel, data, &err);
        telpher_rma_destroy(job);
    }
    if (status != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: %s: %s\n", kernel->name, err.text);
    }
    return status == TELPHER_OK;
}

bool
notified_latency(const struct notified *n, telpher_context *ctx,
                 enum notified_what what, uint32_t workers)
{
    struct job job = {.what = what,
                      .samples = n->samples,
                      .warmup = n->warmup,
                      .us = n->us,
                      .flips = n->flips == 1};

    return launch(ctx, &notified_pingpong, ctx == NULL ? 2 : 1, workers, &job);
}

bool
notified_bandwidth(const struct notified *n, telpher_context *ctx, uint32_t senders,
                   int samples)
{
    uint32_t ranks = (uint32_t)n->ranks;
    struct job job = {.senders = senders,
                      .each = ctx == NULL ? ranks : ranks / 2,
                      .bytes = n->bytes,
                      .memory = n->memory,
                      .samples = samples,
                      .warmup = n->warmup < samples ? n->warmup : samples,
                      .us = n->us,
                      .flips = n->flips == 2};

    return launch(ctx, &notified_windows, job.each, 0, &job);
}

double
notified_moved(const struct notified *n, uint32_t senders)
{
    return (double)senders * NOTIFIED_WINDOW * (double)n->bytes;
}
