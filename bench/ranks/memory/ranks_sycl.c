/* SPDX-License-Identifier: Apache-2.0 */
/*
 * -d sycl: buffers of Telpher's OpenCL memory, each also a sycl::buffer; with AdaptiveCpp buffers
 * over the memory of its CPU. Ways that stage copy by SYCL, as a SYCL program does; the others
 * use the memory itself.
 */
#include "bench/ranks/memory/ranks_memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <CL/cl.h>
#include <telpher/interop/opencl.h>

#include "bench/helper.h"
#include "bench/ranks/memory/sycl_module.h"

enum { BUFFERS_MAX = 8 };

static const struct bench_sycl *sycl;

static struct {
    uint8_t *memory;
    size_t bytes;
    void *buffer;
} buffers[BUFFERS_MAX];

/* @return NULL, or why there is no module */
static const char *
load(void)
{
    char path[PATH_MAX + 64];
    void *module;

    if (sycl != NULL) {
        return NULL;
    }
    bench_helper_path("../libexec/telpher/telpher-bench-sycl.so", path, sizeof(path));
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    sycl = module != NULL ? dlsym(module, "bench_sycl") : NULL;
    return sycl != NULL ? NULL : dlerror();
}

uint32_t
ranks_sycl_kind(void)
{
    return load() == NULL && sycl->create != NULL ? TELPHER_MEM_HOST
                                                  : TELPHER_MEM_OPENCL;
}

/* @return the buffer over OpenCL's memory, which Telpher allocates */
static void *
wrap(struct ranks_pair *p, size_t bytes, void **ret_memory)
{
    void *context, *device;
    cl_mem mem;

    ranks_opencl_site(p, &context, &device);
    ranks_check(p, telpher_mem_alloc(p->ctx, TELPHER_MEM_OPENCL, bytes, ret_memory),
                "memory for a sycl::buffer");
    ranks_check(p, telpher_opencl_buffer(p->ctx, *ret_memory, &mem, NULL),
                "memory for a sycl::buffer");
    return sycl->wrap(context, device, mem, bytes);
}

/* @return the buffer that holds @p memory, or -1 */
static int
find(const void *memory, size_t *ret_at)
{
    for (int i = 0; i < BUFFERS_MAX; i++) {
        size_t at = (size_t)((uintptr_t)memory - (uintptr_t)buffers[i].memory);

        if (buffers[i].memory != NULL &&
            (uintptr_t)memory >= (uintptr_t)buffers[i].memory &&
            at < buffers[i].bytes) {
            *ret_at = at;
            return i;
        }
    }
    return -1;
}

void *
ranks_sycl_alloc(struct ranks_pair *p, char letter, size_t bytes)
{
    const char *why = load();
    void *memory = NULL;
    int i = 0;

    if (why != NULL) {
        ranks_memory_fail(p, "-d sycl needs the module of a build with SYCL", why);
    }
    while (i < BUFFERS_MAX && buffers[i].memory != NULL) {
        i++;
    }
    if (i == BUFFERS_MAX) {
        ranks_memory_fail(p, "-d sycl", "too many buffers");
    }
    if (sycl->create != NULL) {
        memory = sycl->create(bytes, &buffers[i].buffer);
    } else {
        buffers[i].buffer = wrap(p, bytes, &memory);
    }
    if (memory == NULL || buffers[i].buffer == NULL) {
        ranks_memory_fail(p, "a sycl::buffer", sycl->error());
    }
    buffers[i].memory = memory;
    buffers[i].bytes = bytes;
    return memory;
}

void
ranks_sycl_free(struct ranks_pair *p, void *memory)
{
    size_t at;
    int i = find(memory, &at);

    if (i >= 0) {
        sycl->release(buffers[i].buffer);
        buffers[i].memory = NULL;
    }
    if (sycl->create == NULL) {
        ranks_check(p, telpher_mem_free(p->ctx, memory), "memory of a sycl::buffer");
    }
}

bool
ranks_sycl_copy(struct ranks_pair *p, void *dst, const void *src, size_t len)
{
    size_t at;
    int to = find(dst, &at), from = to < 0 ? find(src, &at) : -1;

    if (to < 0 && from < 0) {
        return false;
    }
    if (to >= 0 ? !sycl->write(buffers[to].buffer, at, src, len)
                : !sycl->read(buffers[from].buffer, at, dst, len)) {
        ranks_memory_fail(p, "a copy by SYCL", sycl->error());
    }
    return true;
}
