/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime nccl: sends, receives and collectives of NCCL between GPUs, each enqueued on one stream
 * and waited for. Telpher starts the ranks, brings the id of the communicator to them, and gives
 * the memory. NCCL is loaded by name; it takes one rank a GPU.
 */
#include "bench/ranks/memory/ranks_gpu.h"
#include "bench/ranks/memory/ranks_memory.h"
#include "bench/ranks/ranks_core.h"

#include <stdio.h>

enum { SUM = 0, INT8 = 0, INT32 = 2, FLOAT32 = 7, UNHANDLED = 1 };

/** ncclUniqueId, which is passed by value. */
struct id {
    char bytes[128];
};

/* Of NCCL 2, by its names. */
static struct {
    int (*get_version)(int *ret_version);
    int (*get_unique_id)(struct id *ret_id);
    int (*comm_init_rank)(void **ret_comm, int size, struct id id, int rank);
    int (*comm_destroy)(void *comm);
    const char *(*get_error_string)(int error);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *src, size_t count, int type, int peer, void *comm,
                void *stream);
    int (*recv)(void *dst, size_t count, int type, int peer, void *comm, void *stream);
    int (*all_gather)(const void *src, void *dst, size_t count, int type, void *comm,
                      void *stream);
    int (*all_reduce)(const void *src, void *dst, size_t count, int type, int op,
                      void *comm, void *stream);
    int (*broadcast)(const void *src, void *dst, size_t count, int type, int root,
                     void *comm, void *stream);
    int (*reduce)(const void *src, void *dst, size_t count, int type, int op, int root,
                  void *comm, void *stream);
    int (*reduce_scatter)(const void *src, void *dst, size_t count, int type, int op,
                          void *comm, void *stream);
} nccl;
static void *comm, *stream;
static bool grouped;

/* ---- the job ---- */

static void
need(const struct ranks_pair *p, int error, const char *what)
{
    if (error != 0) {
        ranks_memory_fail(p, what, nccl.get_error_string(error));
    }
}

static void
load(const struct ranks_pair *p)
{
    static const char *const libraries[] = {"libnccl.so.2", NULL};
    const struct ranks_function functions[] = {
        {(void **)&nccl.get_version, "ncclGetVersion"},
        {(void **)&nccl.get_unique_id, "ncclGetUniqueId"},
        {(void **)&nccl.comm_init_rank, "ncclCommInitRank"},
        {(void **)&nccl.comm_destroy, "ncclCommDestroy"},
        {(void **)&nccl.get_error_string, "ncclGetErrorString"},
        {(void **)&nccl.group_start, "ncclGroupStart"},
        {(void **)&nccl.group_end, "ncclGroupEnd"},
        {(void **)&nccl.send, "ncclSend"},
        {(void **)&nccl.recv, "ncclRecv"},
        {(void **)&nccl.all_gather, "ncclAllGather"},
        {(void **)&nccl.all_reduce, "ncclAllReduce"},
        {(void **)&nccl.broadcast, "ncclBroadcast"},
        {(void **)&nccl.reduce, "ncclReduce"},
        {(void **)&nccl.reduce_scatter, "ncclReduceScatter"}};

    ranks_gpu_load(p, libraries, functions, sizeof(functions) / sizeof(functions[0]));
}

static void
join(struct ranks_pair *p)
{
    struct id id = {{0}};

    load(p);
    ranks_telpher_job.join(p);
    stream = ranks_gpu_stream(p);
    if (p->rank == 0) {
        need(p, nccl.get_unique_id(&id), "ncclGetUniqueId");
    }
    ranks_check(p, ranks_core_share(&id, sizeof(id)) ? TELPHER_OK : TELPHER_ERR_IO,
                "the id of a communicator");
    need(p, nccl.comm_init_rank(&comm, (int)p->size, id, (int)p->rank),
         "ncclCommInitRank, which takes one rank a GPU");
}

static void
leave(struct ranks_pair *p)
{
    need(p, nccl.comm_destroy(comm), "ncclCommDestroy");
    ranks_telpher_job.leave(p);
}

static void
barrier(struct ranks_pair *p)
{
    ranks_telpher_job.barrier(p);
}

static const char *
transport(struct ranks_pair *p)
{
    static char text[32];
    int version = 0;

    (void)nccl.get_version(&version);
    snprintf(text, sizeof(text), "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return text;
}

/* ---- the runtime: messages ---- */

/* All that begins before a wait is one group, which NCCL may do in any order. */
static void
begin(const struct ranks_pair *p)
{
    if (!grouped) {
        need(p, nccl.group_start(), "ncclGroupStart");
        grouped = true;
    }
}

static void
begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    begin(p);
    need(p, nccl.send(src, len, INT8, (int)p->peer, comm, stream), "ncclSend");
}

static void
begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    begin(p);
    need(p, nccl.recv(dst, len, INT8, (int)p->peer, comm, stream), "ncclRecv");
}

static void
wait_all(struct ranks_pair *p, int sends, int recvs)
{
    if (grouped) {
        need(p, nccl.group_end(), "ncclGroupEnd");
        grouped = false;
    }
    need(p, ranks_gpu_finish(stream) ? 0 : UNHANDLED, "cuStreamSynchronize");
}

/* ---- collectives ---- */

static int
type_of(const struct bench_work *w)
{
    return w->type == BENCH_INT ? INT32 : w->type == BENCH_FLOAT ? FLOAT32 : INT8;
}

static size_t
count_of(const struct bench_work *w)
{
    return w->len / bench_type_size(w->type);
}

/* In place a rank sends what lies where it receives, a gather's from its own block. */
static const uint8_t *
mine(const struct bench_work *w, bool gathers)
{
    return !w->in_place ? w->out : w->in + (gathers ? (size_t)w->rank * w->len : 0);
}

static bool
begin_allgather(struct bench_work *w)
{
    return nccl.all_gather(mine(w, true), w->in, count_of(w), type_of(w), comm,
                           stream) == 0;
}

static bool
begin_allreduce(struct bench_work *w)
{
    return nccl.all_reduce(mine(w, false), w->in, count_of(w), type_of(w), SUM, comm,
                           stream) == 0;
}

static bool
begin_bcast(struct bench_work *w)
{
    return nccl.broadcast(w->out, w->rank == w->root ? w->out : w->in, count_of(w),
                          type_of(w), w->root, comm, stream) == 0;
}

static bool
begin_reduce(struct bench_work *w)
{
    bool place = w->in_place && w->rank == w->root;

    return nccl.reduce(place ? w->in : w->out, w->in, count_of(w), type_of(w), SUM,
                       w->root, comm, stream) == 0;
}

static bool
begin_reduce_scatter_block(struct bench_work *w)
{
    size_t count = count_of(w) / (size_t)w->size;

    return count == 0 || nccl.reduce_scatter(mine(w, false), w->in, count, type_of(w),
                                             SUM, comm, stream) == 0;
}

enum partners { NONE, ROOT_ALONE, EACH };

static bool
is_partner(const struct bench_work *w, enum partners who, int rank)
{
    return who == EACH || (who == ROOT_ALONE && rank == w->root);
}

/* A message to each partner, and one from each, in a group. */
static bool
exchange(struct bench_work *w, enum partners to, enum partners from)
{
    bool good = nccl.group_start() == 0;

    for (int i = 0; i < w->size; i++) {
        size_t at = (size_t)i * w->len;
        bool stays = w->in_place && w->rank == w->root && i == w->rank;

        if (is_partner(w, to, i) && !stays) {
            good = nccl.send(w->out + (to == EACH ? at : 0), count_of(w), type_of(w), i,
                             comm, stream) == 0 &&
                   good;
        }
        if (is_partner(w, from, i) && !stays) {
            good = nccl.recv(w->in + (from == EACH ? at : 0), count_of(w), type_of(w),
                             i, comm, stream) == 0 &&
                   good;
        }
    }
    return nccl.group_end() == 0 && good;
}

static bool
begin_alltoall(struct bench_work *w)
{
    return !w->in_place && exchange(w, EACH, EACH);
}

static bool
begin_gather(struct bench_work *w)
{
    return exchange(w, ROOT_ALONE, w->rank == w->root ? EACH : NONE);
}

static bool
begin_scatter(struct bench_work *w)
{
    return exchange(w, w->rank == w->root ? EACH : NONE, ROOT_ALONE);
}

static bool
finish(struct bench_work *w)
{
    return ranks_gpu_finish(stream);
}

#define COLLECTIVE(name)                                                               \
    {#name, NULL, begin_##name, finish, NULL, NULL},                                   \
    {                                                                                  \
        "i" #name, NULL, begin_##name, finish, NULL, NULL                              \
    }

static const struct bench_call *
find_call(const char *name)
{
    static const struct bench_call calls[] = {
        COLLECTIVE(allgather), COLLECTIVE(allreduce),
        COLLECTIVE(alltoall),  COLLECTIVE(bcast),
        COLLECTIVE(gather),    COLLECTIVE(reduce),
        COLLECTIVE(scatter),   COLLECTIVE(reduce_scatter_block),
        {.name = NULL}};

    return bench_call_find(calls, name);
}

static const struct ranks_job nccl_job = {.join = join,
                                          .leave = leave,
                                          .barrier = barrier,
                                          .transport = transport,
                                          .find_call = find_call,
                                          .reduce = ranks_core_reduce};

const struct ranks_runtime ranks_nccl_runtime = {.name = "nccl",
                                                 .title = "NCCL",
                                                 .job = &nccl_job,
                                                 .open = ranks_gpu_refuse_host,
                                                 .begin_send = begin_send,
                                                 .begin_recv = begin_recv,
                                                 .wait_all = wait_all};
