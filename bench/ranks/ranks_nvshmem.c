/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime nvshmem: puts and gets of NVSHMEM's host interface between GPUs, each enqueued on one
 * stream, made complete there, and waited for. Telpher starts the ranks and brings NVSHMEM's id to
 * them; buffers are in NVSHMEM's symmetric memory. NVSHMEM is loaded by name.
 */
#include "bench/ranks/memory/ranks_gpu.h"
#include "bench/ranks/memory/ranks_memory.h"
#include "bench/ranks/ranks_core.h"

#include <string.h>

enum { WITH_UNIQUEID = 1 << 3, VERSION_1 = 1 << 16 };

/** nvshmemx_uniqueid_v1 */
struct id {
    int version;
    char internal[124];
};

/** nvshmemx_init_attr_v1, whose content nvshmemx_set_attr_uniqueid_args() writes. */
struct attributes {
    int version;
    void *mpi_comm;
    struct {
        int version;
        char content[124];
    } args;
};
_Static_assert(sizeof(struct attributes) == 144, "as NVSHMEM has it");

/* Of NVSHMEM 3, by its names. */
static struct {
    int (*get_uniqueid)(struct id *id);
    int (*set_args)(int rank, int size, const struct id *id, struct attributes *attr);
    int (*init)(unsigned flags, struct attributes *attr);
    void (*finalize)(void);
    void *(*malloc)(size_t bytes);
    void (*free)(void *memory);
    void (*put)(void *dst, const void *src, size_t len, int rank, void *stream);
    void (*get)(void *dst, const void *src, size_t len, int rank, void *stream);
    void (*quiet)(void *stream);
} shmem;
static void *stream;

/* ---- the job ---- */

static void
load(const struct ranks_pair *p)
{
    static const char *const libraries[] = {"libnvshmem_host.so.3", NULL};
    const struct ranks_function functions[] = {
        {(void **)&shmem.get_uniqueid, "nvshmemx_get_uniqueid"},
        {(void **)&shmem.set_args, "nvshmemx_set_attr_uniqueid_args"},
        {(void **)&shmem.init, "nvshmemx_hostlib_init_attr"},
        {(void **)&shmem.finalize, "nvshmemx_hostlib_finalize"},
        {(void **)&shmem.malloc, "nvshmem_malloc"},
        {(void **)&shmem.free, "nvshmem_free"},
        {(void **)&shmem.put, "nvshmemx_putmem_on_stream"},
        {(void **)&shmem.get, "nvshmemx_getmem_on_stream"},
        {(void **)&shmem.quiet, "nvshmemx_quiet_on_stream"}};

    ranks_gpu_load(p, libraries, functions, sizeof(functions) / sizeof(functions[0]));
}

static void
join(struct ranks_pair *p)
{
    struct id id = {.version = VERSION_1 + sizeof(id)};
    struct attributes attr = {.version = VERSION_1 + sizeof(attr),
                              .args.version = VERSION_1 + sizeof(attr.args)};

    load(p);
    ranks_telpher_job.join(p);
    stream = ranks_gpu_stream(p);
    if (p->rank == 0 && shmem.get_uniqueid(&id) != 0) {
        ranks_memory_fail(p, "NVSHMEM", "nvshmemx_get_uniqueid failed");
    }
    ranks_check(p, ranks_core_share(&id, sizeof(id)) ? TELPHER_OK : TELPHER_ERR_IO,
                "the id of NVSHMEM's job");
    if (shmem.set_args((int)p->rank, (int)p->size, &id, &attr) != 0 ||
        shmem.init(WITH_UNIQUEID, &attr) != 0) {
        ranks_memory_fail(p, "NVSHMEM", "nvshmemx_hostlib_init_attr failed");
    }
}

static void
leave(struct ranks_pair *p)
{
    ranks_telpher_job.barrier(p);
    shmem.finalize();
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
    return "NVSHMEM";
}

/* ---- calls ---- */

/* Telpher knows the memory, for the copies that check content. */
static uint8_t *
alloc_symmetric(struct bench_work *w, size_t bytes)
{
    uint8_t *memory = shmem.malloc(bytes);

    return memory != NULL && telpher_mem_register(w->job, TELPHER_MEM_CUDA, memory,
                                                  bytes) == TELPHER_OK
               ? memory
               : NULL;
}

static bool
open_window(struct bench_work *w)
{
    size_t bytes = w->stride != 0 ? (size_t)w->window * w->stride : w->len;

    w->in = alloc_symmetric(w, bytes);
    w->out = alloc_symmetric(w, bytes);
    return w->in != NULL && w->out != NULL;
}

static void
close_window(struct bench_work *w)
{
    (void)telpher_mem_unregister(w->job, w->in);
    (void)telpher_mem_unregister(w->job, w->out);
    shmem.free(w->out);
    shmem.free(w->in);
}

static bool
put(struct bench_work *w, int count)
{
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)i * w->stride;

        shmem.put(w->in + at, w->out + at, w->len, w->peer, stream);
    }
    shmem.quiet(stream);
    return ranks_gpu_finish(stream);
}

static bool
get(struct bench_work *w, int count)
{
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)i * w->stride;

        shmem.get(w->in + at, w->out + at, w->len, w->peer, stream);
    }
    shmem.quiet(stream);
    return ranks_gpu_finish(stream);
}

#include "bench/ranks/ranks_one_sided.h"

static const struct bench_call *
find_call(const char *name)
{
    static const struct bench_call calls[] = {
        RANKS_ONE_SIDED(open_window, open_window, close_window)};

    return bench_call_find(calls, name);
}

static const struct ranks_job nvshmem_job = {.join = join,
                                             .leave = leave,
                                             .barrier = barrier,
                                             .transport = transport,
                                             .find_call = find_call,
                                             .reduce = ranks_core_reduce};

/* Has no messages: patterns that are made of them are refused. */
const struct ranks_runtime ranks_nvshmem_runtime = {.name = "nvshmem",
                                                    .title = "NVSHMEM",
                                                    .job = &nvshmem_job,
                                                    .open = ranks_gpu_refuse_host};
