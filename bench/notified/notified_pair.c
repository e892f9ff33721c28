/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes for telpher-bench notified, and what the core itself takes between them. */
#include "bench/notified/notified_pair.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <telpher/win.h>

#include "bench/notified/notified_job.h"
#include "bench/ranks/ranks.h"

#define TIME ((uint64_t)60000000000) /* [ns] for the other to come */

/* The other process's part of a collective call, over a socket. */
static telpher_status
exchange(void *user, const void *mine, size_t len, void *all)
{
    const struct telpher_bootstrap *b = user;
    int fd = *(const int *)b->user;
    uint8_t *parts = all;

    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *part = parts + i * len;
        const uint8_t *from = mine;

        for (size_t done = 0; done < len;) {
            ssize_t n = i == b->rank ? write(fd, from + done, len - done)
                                     : read(fd, part + done, len - done);

            if (n <= 0) {
                return TELPHER_ERR_IO;
            }
            done += (size_t)n;
        }
        for (size_t k = 0; i == b->rank && k < len; k++) {
            part[k] = from[k];
        }
    }
    return TELPHER_OK;
}

static bool
take_part(uint32_t rank, int fd, const char *transport, notified_pair_fn fn, void *arg)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_bootstrap link = {.struct_size = sizeof(link),
                              .rank = rank,
                              .size = 2,
                              .allgather = exchange,
                              .user = &fd};
    telpher_bootstrap boot = link;
    telpher_context *ctx;
    telpher_error err = {TELPHER_OK, {0}};
    bool good;

    boot.user = &link; /* with the rank */
    params.bootstrap = &boot;
    params.transports = transport;
    if (telpher_context_create(&params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: two processes over %s: %s\n", transport,
                err.text);
        return false;
    }
    good = fn(ctx, arg);
    telpher_context_destroy(ctx);
    return good;
}

bool
notified_pair(const char *transport, notified_pair_fn fn, void *arg)
{
    int ends[2], code = 1;
    pid_t child;
    bool good;

    fflush(NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (child = fork()) < 0) {
        perror("telpher-bench: a second process");
        return false;
    }
    if (child == 0) {
        close(ends[0]);
        _exit(take_part(1, ends[1], transport, fn, arg) ? 0 : 1);
    }
    close(ends[1]);
    good = take_part(0, ends[0], transport, fn, arg);
    close(ends[0]);
    return waitpid(child, &code, 0) == child && code == 0 && good;
}

/* In a child, which keeps what libraries do with a process's memory. */
bool
notified_has(const char *transport)
{
    telpher_context *ctx;
    int code = 1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(ranks_context_alone(transport, &ctx, NULL) == TELPHER_OK ? 0 : 1);
    }
    return child > 0 && waitpid(child, &code, 0) == child && code == 0;
}

/* ---- the core alone ---- */

struct core {
    telpher_win *win;
    uint32_t me, in;
};

static bool
trip(void *arg, uint64_t number)
{
    static uint32_t out;
    struct core *c = arg;
    telpher_request *req = NULL;
    telpher_status status = TELPHER_OK;

    if (c->me == 1) {
        status = telpher_notify_wait(c->win, 0, 0, 1, TIME);
    }
    out = (uint32_t)number;
    if (status == TELPHER_OK) {
        status = telpher_put_notify(c->win, 1 - c->me, 0, &out, 4, 0, NULL, &req);
    }
    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(req, TIME, NULL);
    }
    if (c->me == 0 && status == TELPHER_OK) {
        status = telpher_notify_wait(c->win, 1, 0, 1, TIME);
    }
    return status == TELPHER_OK && c->in == (uint32_t)number;
}

bool
notified_core(const struct notified *n, telpher_context *ctx)
{
    struct core c = {.me = telpher_context_rank(ctx), .in = UINT32_MAX};
    bool good =
        telpher_win_create(ctx, &c.in, sizeof(c.in), TIME, &c.win) == TELPHER_OK &&
        notified_time(n, 2, n->us, trip, &c);

    if (good) {
        good = telpher_barrier(ctx, TIME) == TELPHER_OK;
        telpher_win_destroy(c.win);
    }
    if (!good) {
        fprintf(stderr, "telpher-bench: the core's put_notify failed\n");
    }
    return good;
}
