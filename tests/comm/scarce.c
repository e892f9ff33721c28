/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: scarce TRANSPORT
 *
 * Two ranks, threads of one process, do all there is to do while one allocation of memory
 * fails, each in turn, then with few descriptors, one more each time. Whatever fails is
 * said: nobody waits for what was lost in silence, and what was given out is given back.
 */
#include "ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/channel.h>
#include <telpher/msg.h>
#include <telpher/win.h>

#include "base/alloc.h"
#include "base/trace/log.h"

enum { RANKS = 2, BIG = 100000, SMALL = 8, PART_MAX = 8192, HANDLER = 3, CHANNEL = 1 };

static const char *transport;

/* ---- how they find each other ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t parts[RANKS][PART_MAX];
    unsigned brought, taken;
    bool gone; /* one of them comes no more */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Waits until both have brought, then until both have taken. */
static telpher_status
gather(void *user, const void *mine, size_t len, void *all)
{
    uint32_t rank = *(uint32_t *)user;
    telpher_status status = TELPHER_ERR_PEER_LOST;

    pthread_mutex_lock(&meeting.lock);
    memcpy(meeting.parts[rank], mine, len);
    meeting.brought++;
    pthread_cond_broadcast(&meeting.changed);
    while (meeting.brought < RANKS && !meeting.gone) {
        pthread_cond_wait(&meeting.changed, &meeting.lock);
    }
    if (meeting.brought == RANKS) {
        for (uint32_t r = 0; r < RANKS; r++) {
            memcpy((uint8_t *)all + r * len, meeting.parts[r], len);
        }
        meeting.taken++;
        if (meeting.taken == RANKS) {
            meeting.brought = meeting.taken = 0;
            pthread_cond_broadcast(&meeting.changed);
        }
        while (meeting.taken != 0) {
            pthread_cond_wait(&meeting.changed, &meeting.lock);
        }
        status = TELPHER_OK;
    }
    pthread_mutex_unlock(&meeting.lock);
    return status;
}

static void
leave_meeting(void)
{
    pthread_mutex_lock(&meeting.lock);
    meeting.gone = true;
    pthread_cond_broadcast(&meeting.changed);
    pthread_mutex_unlock(&meeting.lock);
}

/* ---- a rank ---- */

struct party {
    uint32_t rank;
    telpher_context *ctx;
    telpher_channel *ch;
    telpher_win *win;
    telpher_status entered; /* IN_PROGRESS: not yet */
    uint8_t out[BIG], in[BIG], window[BIG];
    void *of_device[2]; /* what is sent, what is received */
    telpher_status status; /* of the first call that failed */
    telpher_error err; /* of the context's making */
};
static struct party parties[RANKS];

static telpher_status
exchange(struct party *p, const void *out, void *in, size_t len)
{
    telpher_request *sent = NULL, *got = NULL;
    telpher_status begun = telpher_channel_send(p->ch, out, len, NULL, &sent);
    telpher_status status = TELPHER_OK;

    if (begun >= 0) {
        status =
            ranks_finish(telpher_channel_recv(p->ch, in, len, NULL, &got, NULL), &got);
    }
    return status == TELPHER_OK ? ranks_finish(begun, &sent) : status;
}

/* The memory stays to the context's end: where something failed it may be under way. */
static telpher_status
exchange_of_devices(struct party *p)
{
    telpher_status status = TELPHER_OK;

    for (unsigned i = 0; i < 2 && status == TELPHER_OK; i++) {
        status = telpher_mem_alloc(p->ctx, TELPHER_MEM_SIM, BIG, &p->of_device[i]);
    }
    for (unsigned i = 0; i < 4 && status == TELPHER_OK;
         i++) { /* and by the processor */
        status = exchange(p, i % 2 == 0 ? p->of_device[0] : p->out,
                          i / 2 == 0 ? p->of_device[1] : p->in, BIG);
    }
    return status;
}

static telpher_status
use_channel(struct party *p)
{
    telpher_status status = telpher_channel_open(p->ctx, 1 - p->rank, CHANNEL, &p->ch);

    status = status == TELPHER_OK ? exchange(p, p->out, p->in, SMALL) : status;
    status = status == TELPHER_OK ? exchange(p, p->out, p->in, BIG) : status;
    return status == TELPHER_OK ? exchange_of_devices(p) : status;
}

static telpher_status
put(struct party *p, size_t len, uint32_t tag)
{
    telpher_request *req = NULL;

    return ranks_finish(
        telpher_put_notify(p->win, 1 - p->rank, 0, p->out, len, tag, NULL, &req), &req);
}

static telpher_status
use_window(struct party *p)
{
    telpher_status status =
        telpher_win_create(p->ctx, p->window, BIG, RANKS_TIME, &p->win);

    status = status == TELPHER_OK ? put(p, SMALL, 1) : status;
    status = status == TELPHER_OK ? put(p, BIG, 2) : status;
    for (uint32_t tag = 1; tag <= 2 && status == TELPHER_OK; tag++) {
        status = telpher_notify_wait(p->win, 1 - p->rank, tag, 1, RANKS_TIME);
    }
    return status == TELPHER_OK ? telpher_win_flush(p->win, 1 - p->rank, RANKS_TIME)
                                : status;
}

static void
post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct party *p = user;

    (void)ctx;
    msg->buffers[0].data = p->in;
    msg->buffers[1].data = p->window;
}

static void
entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct party *p = user;

    (void)ctx;
    p->entered = msg->status;
}

static telpher_status
send_message(struct party *p, size_t len)
{
    const telpher_msg_buffer buffers[2] = {{p->out, SMALL}, {p->out, len}};
    telpher_request *req = NULL;
    telpher_status begun = telpher_msg_send(p->ctx, 1 - p->rank, HANDLER, "abc", 3,
                                            buffers, 2, NULL, &req);
    telpher_status status = begun < 0 ? begun : TELPHER_OK;

    while (status == TELPHER_OK && p->entered == TELPHER_IN_PROGRESS) {
        status = telpher_peer_status(p->ctx, 1 - p->rank);
        if (status == TELPHER_OK) {
            status = telpher_progress_wait(p->ctx, RANKS_TIME);
        }
    }
    status = status == TELPHER_OK ? p->entered : status;
    p->entered = TELPHER_IN_PROGRESS;
    return status == TELPHER_OK ? ranks_finish(begun, &req) : status;
}

static telpher_status
use_messages(struct party *p)
{
    telpher_status status = telpher_msg_handler(p->ctx, HANDLER, post, entry, p);

    status = status == TELPHER_OK ? telpher_barrier(p->ctx, RANKS_TIME) : status;
    status = status == TELPHER_OK ? send_message(p, SMALL) : status;
    status = status == TELPHER_OK ? telpher_barrier(p->ctx, RANKS_TIME) : status;
    return status == TELPHER_OK ? send_message(p, BIG) : status;
}

static void *
be_rank(void *arg)
{
    struct party *p = arg;
    const telpher_bootstrap bootstrap = {.struct_size = sizeof(bootstrap),
                                         .rank = p->rank,
                                         .size = RANKS,
                                         .allgather = gather,
                                         .user = &p->rank};
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;

    params.bootstrap = &bootstrap;
    params.transports = transport;
    p->entered = TELPHER_IN_PROGRESS;
    p->ch = NULL;
    p->win = NULL;
    p->ctx = NULL;
    p->err = (telpher_error){.code = TELPHER_OK};
    p->status = telpher_context_create(&params, &p->ctx, &p->err);
    leave_meeting();
    p->status = p->status == TELPHER_OK ? use_channel(p) : p->status;
    p->status = p->status == TELPHER_OK ? use_window(p) : p->status;
    p->status = p->status == TELPHER_OK ? use_messages(p) : p->status;
    p->status =
        p->status == TELPHER_OK ? telpher_barrier(p->ctx, RANKS_TIME) : p->status;
    telpher_win_destroy(p->win);
    telpher_channel_close(p->ch);
    telpher_context_destroy(p->ctx);
    return NULL;
}

/* @return false: somebody waited for what will never come */
static bool
run(const char *what, unsigned number)
{
    pthread_t threads[RANKS];
    bool good = true;

    meeting.brought = meeting.taken = 0;
    meeting.gone = false;
    for (uint32_t r = 0; r < RANKS; r++) {
        parties[r].rank = r;
        MUST(pthread_create(&threads[r], NULL, be_rank, &parties[r]) == 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        if (parties[r].status == TELPHER_ERR_TIMEOUT || parties[r].status > 0) {
            fprintf(stderr, "%s %u: rank %u: %s\n", what, number, r,
                    telpher_status_name(parties[r].status));
            good = false;
        }
    }
    return good;
}

static bool
all_well(void)
{
    return parties[0].status == TELPHER_OK && parties[1].status == TELPHER_OK;
}

/* ---- what is scarce ---- */

static void
test_memory(void **state)
{
    bool good = true;
    unsigned nth = 0;

    (void)state;
    assert_true(run("with memory", 0) && all_well());
    do {
        tp_alloc_fail_nth(++nth);
        good = run("without allocation", nth) && good;
    } while (tp_alloc_failed());
    tp_alloc_fail_nth(0);
    assert_true(nth > 20);
    assert_true(good);
}

/* A rank without descriptors gets that error and advice; its peer, that its partner failed. */
static bool
words_are_right(unsigned count)
{
    bool good = true;

    for (uint32_t r = 0; r < RANKS; r++) {
        const telpher_error *err = &parties[r].err;

        if (err->code != TELPHER_OK && strstr(err->text, "allgather") == NULL &&
            (err->code != TELPHER_ERR_LIMIT ||
             strstr(err->text, "Too many open files; `ulimit -n`") == NULL)) {
            fprintf(stderr, "descriptors %u: rank %u: %s: %s\n", count, r,
                    telpher_status_name(err->code), err->text);
            good = false;
        }
    }
    return good;
}

static void
test_descriptors(void **state)
{
    bool good = true;
    struct rlimit before, limit;
    unsigned count = 0;
    int first = dup(0);

    (void)state;
    assert_true(first >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    close(first);
    limit = before;
    do {
        limit.rlim_cur = (rlim_t)first + count;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        good = run("descriptors", count) && good;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        good = words_are_right(count) && good;
    } while (!all_well() && ++count < 100);
    assert_true(good && all_well());
    assert_true(count > 0);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest memory[] = {cmocka_unit_test(test_memory)};
    const struct CMUnitTest both[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_descriptors),
    };

    transport = ranks_transport(argc, argv);
    setenv("TELPHER_LOG", "none", 0); /* what fails here is no news */
    if (strcmp(transport, "ucx") ==
        0) { /* which ends the process without descriptors */
        return cmocka_run_group_tests(memory, NULL, NULL);
    }
    return cmocka_run_group_tests(both, NULL, NULL);
}
