/* SPDX-License-Identifier: Apache-2.0 */
/* The table of calls for kernels: each call is executed once for all lanes of a
 * rank. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rma/rma_int.h"

/* ---- memory shared by lanes ---- */

/* args: length; in: the site */
telpher_status
tp_rma_do_shared(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                 struct tp_rma_result *ret_result)
{
    struct tp_rma_rank *rank = lane->rank;
    struct tp_rma_shared *s = rank->shared;

    while (s != NULL && s->site != call->in) {
        s = s->next;
    }
    if (s == NULL) {
        s = call->args[0] < SIZE_MAX / 2
                ? tp_alloc_aligned(64, sizeof(*s) + call->args[0], "shared by lanes")
                : NULL;
        if (s == NULL) {
            return tp_rma_call_refuse(lane, TELPHER_ERR_NO_MEMORY, call,
                                      "out of memory for %llu bytes",
                                      (unsigned long long)call->args[0]);
        }
        *s = (struct tp_rma_shared){rank->shared, call->in, call->args[0]};
        memset(s->data, 0, s->len);
        rank->shared = s;
    }
    if (s->len != call->args[0]) {
        return tp_rma_call_refuse(
            lane, TELPHER_ERR_INVALID, call,
            "the lanes differ: %llu bytes here, %zu in the lane before",
            (unsigned long long)call->args[0], s->len);
    }
    ret_result->pointer = s->data;
    return TELPHER_OK;
}

void
tp_rma_rank_free_shared(struct tp_rma_rank *rank)
{
    while (rank->shared != NULL) {
        struct tp_rma_shared *next = rank->shared->next;

        tp_free(rank->shared);
        rank->shared = next;
    }
}

static telpher_status
do_sync(struct tp_rma_lane *lane, const struct tp_rma_call *call,
        struct tp_rma_result *ret_result)
{
    return TELPHER_OK;
}

static telpher_status
do_lane_sum(struct tp_rma_lane *lane, const struct tp_rma_call *call,
            struct tp_rma_result *ret_result)
{
    for (uint32_t i = 0; i < lane->rank->run->lanes; i++) {
        ret_result->real += lane->rank->lanes[i].sum;
    }
    return TELPHER_OK;
}

static telpher_status
call_sync(telpher_rma *rma, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_SYNC, where, {0}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, do_sync).status;
}

static void *
call_shared(telpher_rma *rma, const void *site, size_t len, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_SHARED, where, {len}, site};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_shared).pointer;
}

static double
call_lane_sum(telpher_rma *rma, double value, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_LANE_SUM, where, {0}, NULL};

    tp_rma_lane_of(rma)->sum = value;
    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, do_lane_sum).real;
}

/* ---- queries ---- */

static uint32_t
call_rank(const telpher_rma *rma, telpher_rma_comm comm)
{
    const struct tp_rma_rank *rank = tp_rma_lane_of(rma)->rank;
    const struct tp_rma_group *group = tp_rma_group_find(rank, comm);

    return group != NULL ? group->positions[rank->index] : TELPHER_RMA_NO_RANK;
}

static uint32_t
call_size(const telpher_rma *rma, telpher_rma_comm comm)
{
    const struct tp_rma_group *group =
        tp_rma_group_find(tp_rma_lane_of(rma)->rank, comm);

    return group != NULL ? group->size : 0;
}

static uint64_t
call_win_size(const telpher_rma *rma, telpher_rma_win win, uint32_t rank)
{
    const struct tp_rma_window *window =
        tp_rma_window_find(tp_rma_lane_of(rma)->rank->run, win);

    return window != NULL && rank < window->group->size ? window->parts[rank].len : 0;
}

static uint64_t
call_now(const telpher_rma *rma)
{
    return tp_clock_ns();
}

/* ---- windows ---- */

static telpher_status
call_win_create(telpher_rma *rma, telpher_rma_comm comm, void *base, uint64_t len,
                telpher_rma_win *ret_win, const char *where)
{
    const struct tp_rma_call call = {
        TP_RMA_OP_WIN_CREATE, where, {(uint64_t)comm, (uintptr_t)base, len}, NULL};
    struct tp_rma_result result =
        tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_win_create);

    *ret_win = result.status == TELPHER_OK ? (telpher_rma_win)result.value
                                           : TELPHER_RMA_WIN_NONE;
    return result.status;
}

static telpher_status
call_win_free(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_WIN_FREE, where, {(uint64_t)win}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_win_free).status;
}

/* ---- accesses ---- */

static telpher_status
call_access(telpher_rma *rma, enum tp_rma_op op, const telpher_rma_access *a,
            tp_rma_call_fn *fn, const char *where)
{
    const struct tp_rma_call call = {op,
                                     where,
                                     {(uintptr_t)a->local, a->off, a->len, a->value,
                                      (uint64_t)a->win, a->rank, a->tag},
                                     a};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, fn).status;
}

static telpher_status
call_put(telpher_rma *rma, const telpher_rma_access *access, const char *where)
{
    return call_access(rma, TP_RMA_OP_PUT, access, tp_rma_do_put, where);
}

static telpher_status
call_put_notify(telpher_rma *rma, const telpher_rma_access *access, const char *where)
{
    return call_access(rma, TP_RMA_OP_PUT_NOTIFY, access, tp_rma_do_put, where);
}

static telpher_status
call_put_value_notify(telpher_rma *rma, const telpher_rma_access *access,
                      const char *where)
{
    return call_access(rma, TP_RMA_OP_PUT_VALUE, access, tp_rma_do_put, where);
}

static telpher_status
call_get(telpher_rma *rma, const telpher_rma_access *access, const char *where)
{
    return call_access(rma, TP_RMA_OP_GET, access, tp_rma_do_get, where);
}

static telpher_status
call_flush(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_FLUSH, where, {(uint64_t)win}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_flush).status;
}

static telpher_status
call_notify(telpher_rma *rma, telpher_rma_comm comm, uint32_t rank, uint32_t tag,
            const char *where)
{
    const struct tp_rma_call call = {
        TP_RMA_OP_NOTIFY, where, {(uint64_t)comm, rank, tag}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_notify).status;
}

/* ---- waits ---- */

static telpher_status
call_test(telpher_rma *rma, uint32_t tag, uint32_t count, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_TEST, where, {tag, count}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_test).status;
}

static telpher_status
call_wait(telpher_rma *rma, telpher_rma_comm comm, uint32_t from, uint32_t tag,
          uint32_t count, uint64_t timeout_ns, const char *where)
{
    const struct tp_rma_call call = {
        TP_RMA_OP_WAIT, where, {tag, count, (uint64_t)comm, from, timeout_ns}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_wait).status;
}

static telpher_status
call_wait_any(telpher_rma *rma, const uint32_t *tags, uint32_t tag_count,
              uint32_t *ret_tag, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_WAIT_ANY, where, {tag_count}, tags};
    struct tp_rma_result result =
        tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_wait_any);

    if (result.status == TELPHER_OK) {
        *ret_tag = (uint32_t)result.value;
    }
    return result.status;
}

/* ---- groups ---- */

static telpher_status
call_barrier(telpher_rma *rma, telpher_rma_comm comm, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_BARRIER, where, {(uint64_t)comm}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_barrier).status;
}

static telpher_status
call_fold(telpher_rma *rma, enum tp_rma_op op, telpher_rma_comm comm,
          const telpher_rma_fold *f, tp_rma_call_fn *fn, const char *where)
{
    const struct tp_rma_call call = {op,
                                     where,
                                     {(uint64_t)comm, (uintptr_t)f->src,
                                      (uintptr_t)f->dst, f->count, f->root, f->type,
                                      f->op, f->flags},
                                     f};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, fn).status;
}

static telpher_status
call_broadcast(telpher_rma *rma, telpher_rma_comm comm, const telpher_rma_fold *fold,
               const char *where)
{
    return call_fold(rma, TP_RMA_OP_BROADCAST, comm, fold, tp_rma_do_broadcast, where);
}

static telpher_status
call_reduce(telpher_rma *rma, telpher_rma_comm comm, const telpher_rma_fold *fold,
            const char *where)
{
    return call_fold(rma, TP_RMA_OP_REDUCE, comm, fold, tp_rma_do_reduce, where);
}

static telpher_status
call_split(telpher_rma *rma, telpher_rma_comm comm, int32_t color, int32_t key,
           telpher_rma_comm *ret_comm, const char *where)
{
    const struct tp_rma_call call = {
        TP_RMA_OP_SPLIT, where, {(uint64_t)comm, (uint64_t)color, (uint64_t)key}, NULL};
    struct tp_rma_result result =
        tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_split);

    *ret_comm = result.status == TELPHER_OK ? (telpher_rma_comm)result.value
                                            : TELPHER_RMA_COMM_NONE;
    return result.status;
}

/* ---- output, time, failure ---- */

static void
call_log(telpher_rma *rma, const char *text, int kind, int64_t integer, double real)
{
    struct tp_rma_run *run = tp_rma_lane_of(rma)->rank->run;
    char number[40] = "", line[512];

    if (kind == 1) {
        snprintf(number, sizeof(number), " %lld", (long long)integer);
    } else if (kind == 2) {
        snprintf(number, sizeof(number), " %.17g", real);
    }
    snprintf(line, sizeof(line), "rank %u, %.3f ms: %.400s%s", rma->world_rank,
             (double)(tp_clock_ns() - run->start) * 1e-6, text != NULL ? text : "",
             number);
    tp_mutex_lock(&run->fail_lock);
    if (run->params.log != NULL) {
        run->params.log(run->params.user, line);
    } else {
        puts(line);
    }
    tp_mutex_unlock(&run->fail_lock);
}

static telpher_status
call_timer(telpher_rma *rma, int stop, const char *where)
{
    const struct tp_rma_call call = {TP_RMA_OP_TIMER, where, {(uint64_t)stop}, NULL};

    return tp_rma_lane_call(tp_rma_lane_of(rma), &call, tp_rma_do_timer).status;
}

static telpher_status
call_fail(telpher_rma *rma, telpher_status status, const char *where)
{
    struct tp_rma_lane *lane = tp_rma_lane_of(rma);

    if (status >= 0) {
        status = TELPHER_ERR_INVALID;
    }
    tp_rma_run_fail(lane->rank->run, status, "the kernel of rank %u failed at %s",
                    lane->rank->index, where);
    return status;
}

const telpher_rma_calls tp_rma_calls = {
    .abi = TELPHER_RMA_ABI,
    .struct_size = sizeof(telpher_rma_calls),
    .sync = call_sync,
    .shared = call_shared,
    .lane_sum = call_lane_sum,
    .rank = call_rank,
    .size = call_size,
    .win_create = call_win_create,
    .win_free = call_win_free,
    .win_size = call_win_size,
    .put = call_put,
    .put_notify = call_put_notify,
    .put_value_notify = call_put_value_notify,
    .get = call_get,
    .flush = call_flush,
    .notify = call_notify,
    .test = call_test,
    .wait = call_wait,
    .wait_any = call_wait_any,
    .barrier = call_barrier,
    .broadcast = call_broadcast,
    .reduce = call_reduce,
    .split = call_split,
    .log = call_log,
    .now = call_now,
    .timer = call_timer,
    .fail = call_fail,
};
