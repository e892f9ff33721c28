/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a library that is called like the host interface of NVSHMEM 3. Symmetric memory is the
 * CUDA driver's, which each rank opens for the others by the driver's handles. It shows that runtime
 * nvshmem checks what it puts and gets; nothing of how NVSHMEM does it, or how fast.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/standin/area.h"

#define EXPORT __attribute__((visibility("default")))

enum { ALLOCATIONS = 64, LAZY_PEER_ACCESS = 1 };

struct handle { /* CUipcMemHandle */
    char bytes[64];
};

struct id {
    int version;
    char internal[124];
};

struct attributes {
    int version;
    void *mpi_comm;
    struct {
        int version;
        char content[124];
    } args;
};

struct area {
    struct area_head head;
    struct handle handles[AREA_RANKS];
};

/** Content of the bytes in struct attributes. */
struct args {
    int rank, size;
    char name[AREA_NAME];
};

static struct allocation {
    unsigned long long memory, peers[AREA_RANKS]; /* peers[rank] is memory */
    size_t bytes;
} allocations[ALLOCATIONS];
static struct args job;
static struct area *area;

EXPORT int nvshmemx_get_uniqueid(struct id *id);
EXPORT int nvshmemx_set_attr_uniqueid_args(int rank, int size, const struct id *id,
                                           struct attributes *attr);
EXPORT int nvshmemx_hostlib_init_attr(unsigned flags, struct attributes *attr);
EXPORT void nvshmemx_hostlib_finalize(void);
EXPORT void *nvshmem_malloc(size_t bytes);
EXPORT void nvshmem_free(void *memory);
EXPORT void nvshmemx_putmem_on_stream(void *dst, const void *src, size_t len, int rank,
                                      void *stream);
EXPORT void nvshmemx_getmem_on_stream(void *dst, const void *src, size_t len, int rank,
                                      void *stream);
EXPORT void nvshmemx_quiet_on_stream(void *stream);

static void
need(int error)
{
    if (error != 0) {
        abort();
    }
}

/* ---- the job ---- */

int
nvshmemx_get_uniqueid(struct id *id)
{
    return area_create(id->internal, sizeof(struct area)) ? 0 : 1;
}

int
nvshmemx_set_attr_uniqueid_args(int rank, int size, const struct id *id,
                                struct attributes *attr)
{
    struct args args = {.rank = rank, .size = size};

    memcpy(args.name, id->internal, sizeof(args.name));
    memcpy(attr->args.content, &args, sizeof(args));
    return 0;
}

int
nvshmemx_hostlib_init_attr(unsigned flags, struct attributes *attr)
{
    memcpy(&job, attr->args.content, sizeof(job));
    area = flags != 0 ? area_join(job.name, sizeof(*area), job.size) : NULL;
    return area != NULL ? 0 : 1;
}

void
nvshmemx_hostlib_finalize(void)
{
    area_barrier(&area->head, job.size);
}

/* ---- symmetric memory ---- */

static void
open_peers(struct allocation *a)
{
    int (*get)(struct handle *, unsigned long long);
    int (*open)(unsigned long long *, struct handle, unsigned);

    *(void **)&get = area_cuda("cuIpcGetMemHandle");
    *(void **)&open = area_cuda("cuIpcOpenMemHandle_v2");
    need(get(&area->handles[job.rank], a->memory));
    area_barrier(&area->head, job.size);
    for (int i = 0; i < job.size; i++) {
        if (i == job.rank) {
            a->peers[i] = a->memory;
        } else {
            need(open(&a->peers[i], area->handles[i], LAZY_PEER_ACCESS));
        }
    }
    area_barrier(&area->head, job.size);
}

void *
nvshmem_malloc(size_t bytes)
{
    int (*alloc)(unsigned long long *, size_t);

    *(void **)&alloc = area_cuda("cuMemAlloc_v2");
    for (int i = 0; i < ALLOCATIONS; i++) {
        struct allocation *a = &allocations[i];

        if (a->bytes == 0) {
            need(alloc(&a->memory, bytes));
            a->bytes = bytes;
            open_peers(a);
            return (void *)(uintptr_t)a->memory;
        }
    }
    return NULL;
}

static struct allocation *
find(const void *memory)
{
    for (int i = 0; i < ALLOCATIONS; i++) {
        if ((uintptr_t)memory - allocations[i].memory < allocations[i].bytes) {
            return &allocations[i];
        }
    }
    abort();
}

void
nvshmem_free(void *memory)
{
    struct allocation *a = find(memory);
    int (*close)(unsigned long long), (*release)(unsigned long long);

    *(void **)&close = area_cuda("cuIpcCloseMemHandle");
    *(void **)&release = area_cuda("cuMemFree_v2");
    for (int i = 0; i < job.size; i++) {
        need(i == job.rank ? 0 : close(a->peers[i]));
    }
    area_barrier(&area->head, job.size);
    need(release(a->memory));
    *a = (struct allocation){.bytes = 0};
}

/* ---- operations ---- */

static void
copy(unsigned long long dst, unsigned long long src, size_t len, void *stream)
{
    int (*enqueue)(unsigned long long, unsigned long long, size_t, void *);

    *(void **)&enqueue = area_cuda("cuMemcpyAsync");
    need(enqueue(dst, src, len, stream));
}

/* The same place in that rank's memory. */
static unsigned long long
of_rank(const void *memory, int rank)
{
    const struct allocation *a = find(memory);

    return a->peers[rank] + ((uintptr_t)memory - a->memory);
}

void
nvshmemx_putmem_on_stream(void *dst, const void *src, size_t len, int rank,
                          void *stream)
{
    copy(of_rank(dst, rank), (uintptr_t)src, len, stream);
}

void
nvshmemx_getmem_on_stream(void *dst, const void *src, size_t len, int rank,
                          void *stream)
{
    copy((uintptr_t)dst, of_rank(src, rank), len, stream);
}

void
nvshmemx_quiet_on_stream(void *stream)
{
    int (*synchronize)(void *);

    *(void **)&synchronize = area_cuda("cuStreamSynchronize");
    need(synchronize(stream));
}
