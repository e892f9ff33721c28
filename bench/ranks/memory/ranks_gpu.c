/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries of GPUs, loaded by name; see ranks_gpu.h. */
#include "bench/ranks/memory/ranks_gpu.h"

#include <dlfcn.h>

#include "bench/ranks/memory/ranks_memory.h"

enum {
    CONTEXT = 1,
    NON_BLOCKING = 1
}; /* CU_POINTER_ATTRIBUTE_CONTEXT, CU_STREAM_NON_BLOCKING */

static int (*synchronize)(void *stream);

void
ranks_gpu_load(const struct ranks_pair *p, const char *const *libraries,
               const struct ranks_function *functions, size_t count)
{
    void *library = NULL;

    for (; library == NULL && *libraries != NULL; libraries++) {
        library = dlopen(*libraries, RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        ranks_memory_fail(p, "the runtime's library is not here", dlerror());
    }
    for (size_t i = 0; i < count; i++) {
        *functions[i].place = dlsym(library, functions[i].name);
        if (*functions[i].place == NULL) {
            ranks_memory_fail(p, "the runtime's library lacks a function",
                              functions[i].name);
        }
    }
}

void *
ranks_gpu_stream(struct ranks_pair *p)
{
    static const char *const driver[] = {"libcuda.so.1", NULL};
    int (*get)(void *ret, int attribute, unsigned long long address);
    int (*push)(void *context), (*create)(void **ret_stream, unsigned flags);
    const struct ranks_function functions[] = {
        {(void **)&get, "cuPointerGetAttribute"},
        {(void **)&push, "cuCtxPushCurrent_v2"},
        {(void **)&create, "cuStreamCreate"},
        {(void **)&synchronize, "cuStreamSynchronize"}};
    void *memory, *context = NULL, *stream = NULL;

    ranks_check(p, telpher_mem_alloc(p->ctx, TELPHER_MEM_CUDA, 4096, &memory),
                "a CUDA device");
    ranks_gpu_load(p, driver, functions, sizeof(functions) / sizeof(functions[0]));
    if (get(&context, CONTEXT, (uintptr_t)memory) != 0 || push(context) != 0 ||
        create(&stream, NON_BLOCKING) != 0) {
        ranks_memory_fail(p, "a stream of CUDA", "the driver gives none");
    }
    ranks_check(p, telpher_mem_free(p->ctx, memory), "a CUDA device");
    return stream;
}

bool
ranks_gpu_finish(void *stream)
{
    return synchronize(stream) == 0;
}

void
ranks_gpu_refuse_host(struct ranks_pair *p)
{
    if (p->o->kinds[0] != TELPHER_MEM_CUDA || p->o->kinds[1] != TELPHER_MEM_CUDA) {
        ranks_memory_fail(p, "this runtime's buffers are on GPUs",
                          "name D D, or -d cuda for collectives");
    }
}
