/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host-staging: what a program does whose communication knows only host memory. It copies out
 * of its device, sends that, and copies received data into the device; one after the other. The
 * host memory is pinned where that can be had. Beside the runtimes that know devices it shows
 * what those gain.
 */
#include "bench/ranks/memory/ranks_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 1024 };

struct staging {
    const struct ranks_runtime *base;
    void *base_runtime; /* its own */
    uint8_t *out, *in; /* host memory, as large as the pair's */
    void *places[WINDOW_MAX]; /* where what comes is copied to */
    size_t lens[WINDOW_MAX];
};

/* ---- memory ---- */

/* Pins host memory in the CUDA context that the pair's buffers belong to. */
static void
pin_cuda(const struct ranks_pair *p, void *memory, size_t bytes)
{
    enum { CONTEXT = 1, PORTABLE = 1 };
    typedef int (*attribute_fn)(void **data, int attribute, unsigned long long ptr);
    typedef int (*context_fn)(void *context);
    typedef int (*pop_fn)(void **context);
    typedef int (*register_fn)(void *memory, size_t bytes, unsigned flags);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context = NULL;
    attribute_fn ask = cuda != NULL ? dlsym(cuda, "cuPointerGetAttribute") : NULL;
    context_fn push = cuda != NULL ? dlsym(cuda, "cuCtxPushCurrent_v2") : NULL;
    pop_fn pop = cuda != NULL ? dlsym(cuda, "cuCtxPopCurrent_v2") : NULL;
    register_fn pin = cuda != NULL ? dlsym(cuda, "cuMemHostRegister_v2") : NULL;

    if (ask == NULL || push == NULL || pop == NULL || pin == NULL ||
        ask(&context, CONTEXT, (uintptr_t)p->in) != 0 || push(context) != 0) {
        fprintf(stderr, "telpher-bench: host memory is not pinned\n");
        return;
    }
    if (pin(memory, bytes, PORTABLE) != 0) {
        fprintf(stderr, "telpher-bench: host memory is not pinned\n");
    }
    (void)pop(&context);
}

static uint8_t *
alloc_host(struct ranks_pair *p)
{
    size_t bytes = p->o->max_bytes * (size_t)(p->slots + 1) + 4096;
    void *memory = NULL;

    ranks_check(p, telpher_mem_alloc(p->ctx, TELPHER_MEM_HOST, bytes, &memory),
                "memory");
    memset(memory, 0, bytes);
    if (p->o->memory_of_device->kind == TELPHER_MEM_CUDA) {
        pin_cuda(p, memory, (bytes + 4095) & ~(size_t)4095);
    }
    return memory;
}

static uint8_t *
slot(const struct ranks_pair *p, uint8_t *base, int i)
{
    return base + (size_t)i * p->o->max_bytes;
}

/* ---- the runtimes ---- */

/* Between these two the pair is that of the runtime below. */
static struct staging *
enter(struct ranks_pair *p)
{
    struct staging *s = p->runtime;

    p->runtime = s->base_runtime;
    return s;
}

static void
leave(struct ranks_pair *p, struct staging *s)
{
    s->base_runtime = p->runtime;
    p->runtime = s;
}

static void
staging_open(struct ranks_pair *p, const char *base)
{
    struct staging *s = calloc(1, sizeof(*s));
    uint8_t *in = p->in;

    ranks_check(p, s != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY, "memory");
    s->base = ranks_find_runtime(base);
    s->out = alloc_host(p);
    s->in = alloc_host(p);
    p->in = s->in; /* messages go there by themselves */
    if (s->base != &ranks_mpi_runtime) { /* which would refuse the device's memory */
        s->base->open(p);
    }
    p->in = in;
    leave(p, s);
}

/* The memory goes with the context, which drivers may still know it by. */
static void
staging_close(struct ranks_pair *p)
{
    struct staging *s = enter(p);

    if (s->base->close != NULL) {
        s->base->close(p);
    }
    free(s);
}

static void
staging_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    struct staging *s = enter(p);

    ranks_copy(p, slot(p, s->out, i), src, len);
    s->base->begin_send(p, i, slot(p, s->out, i), len);
    leave(p, s);
}

static void
staging_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    struct staging *s = enter(p);

    s->places[i] = dst;
    s->lens[i] = len;
    s->base->begin_recv(p, i, slot(p, s->in, i), len);
    leave(p, s);
}

static void
staging_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct staging *s = enter(p);
    bool slots = !s->base->one_place || p->work.stride != 0;

    s->base->wait_all(p, sends, recvs);
    for (int i = 0; i < recvs; i++) {
        ranks_copy(p, s->places[i], slots ? slot(p, s->in, i) : s->in, s->lens[i]);
    }
    leave(p, s);
}

#define RUNTIME(runtime, long_name, its_job, property)                                 \
    static void runtime##_open(struct ranks_pair *p) { staging_open(p, #runtime); }    \
    const struct ranks_runtime ranks_##runtime##_host_runtime = {                      \
        .name = #runtime "_host",                                                      \
        .property,                                                                     \
        .title = long_name,                                                            \
        .job = &(its_job),                                                             \
        .open = runtime##_open,                                                        \
        .close = staging_close,                                                        \
        .begin_send = staging_begin_send,                                              \
        .begin_recv = staging_begin_recv,                                              \
        .wait_all = staging_wait_all};
RUNTIME(channel, "Host-Staging Channel", ranks_telpher_job, one_place = false)
RUNTIME(msg, "Host-Staging Message", ranks_telpher_job, one_place = true)
RUNTIME(entry, "Host-Staging Entry Method", ranks_telpher_job, one_place = true)
RUNTIME(object, "Host-Staging Channel of Objects", ranks_telpher_job, one_place = false)
RUNTIME(mpi, "Host-Staging MPI", ranks_mpi_job, staged = true)
