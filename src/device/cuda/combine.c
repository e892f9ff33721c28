/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of reductions, as PTX text that the driver compiles when an operation and a type are
 * first used. So no compiler of CUDA is needed, and one text is for all GPUs.
 */
#include <stdio.h>

#include "base/trace/log.h"
#include "device/cuda/cuda_int.h"

enum { BLOCK = 256, GRID_MAX = 4096 };

static const struct {
    const char *name;
    int shift; /* of an index, to bytes */
    bool floating;
} types[TELPHER_MEM_TYPES] = {
    [TELPHER_MEM_INT32] = {"s32", 2, false}, [TELPHER_MEM_UINT32] = {"u32", 2, false},
    [TELPHER_MEM_INT64] = {"s64", 3, false}, [TELPHER_MEM_UINT64] = {"u64", 3, false},
    [TELPHER_MEM_FLOAT] = {"f32", 2, true},  [TELPHER_MEM_DOUBLE] = {"f64", 3, true},
};

/* Instructions, without the type; bits have one of their own. */
static const struct {
    const char *integer, *floating; /* NULL: there is none */
    bool bits;
} operations[TELPHER_MEM_OPS] = {
    [TELPHER_MEM_SUM] = {"add", "add.rn", false},
    [TELPHER_MEM_PROD] = {"mul.lo", "mul.rn", false},
    [TELPHER_MEM_MAX] = {"max", "max", false},
    [TELPHER_MEM_MIN] = {"min", "min", false},
    [TELPHER_MEM_AND] = {"and", NULL, true},
    [TELPHER_MEM_OR] = {"or", NULL, true},
    [TELPHER_MEM_XOR] = {"xor", NULL, true},
};

/* Threads stride over the elements. Takes the type 4 times, the shift, the instruction. */
static const char text[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry combine(.param .u64 lower, .param .u64 higher, .param .u64 out,\n"
    "                        .param .u64 count)\n{\n"
    ".reg .pred %%p;\n.reg .u32 %%r<4>;\n"
    ".reg .u64 %%i, %%step, %%count, %%lower, %%higher, %%out, %%offset, %%at;\n"
    ".reg .%s %%a, %%b;\n"
    "ld.param.u64 %%lower, [lower];\nld.param.u64 %%higher, [higher];\n"
    "ld.param.u64 %%out, [out];\nld.param.u64 %%count, [count];\n"
    "mov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%ntid.x;\n"
    "mov.u32 %%r2, %%tid.x;\nmov.u32 %%r3, %%nctaid.x;\n"
    "mul.wide.u32 %%i, %%r0, %%r1;\ncvt.u64.u32 %%offset, %%r2;\n"
    "add.u64 %%i, %%i, %%offset;\nmul.wide.u32 %%step, %%r3, %%r1;\n"
    "again:\nsetp.ge.u64 %%p, %%i, %%count;\n@%%p bra done;\n"
    "shl.b64 %%offset, %%i, %d;\n"
    "add.u64 %%at, %%lower, %%offset;\nld.global.%s %%a, [%%at];\n"
    "add.u64 %%at, %%higher, %%offset;\nld.global.%s %%b, [%%at];\n"
    "%s %%a, %%a, %%b;\n"
    "add.u64 %%at, %%out, %%offset;\nst.global.%s [%%at], %%a;\n"
    "add.u64 %%i, %%i, %%step;\nbra again;\ndone:\nret;\n}\n";

/* @return false: there is no such operation of the type */
static bool
write_instruction(uint32_t op, uint32_t type, char ret[16])
{
    const char *name =
        types[type].floating ? operations[op].floating : operations[op].integer;

    if (name == NULL) {
        return false;
    }
    if (operations[op].bits) {
        (void)snprintf(ret, 16, "%s.b%d", name, 8 << types[type].shift);
    } else {
        (void)snprintf(ret, 16, "%s.%s", name, types[type].name);
    }
    return true;
}

/* With the context current. The driver ends modules with the context. */
static CUresult
load(struct tp_cuda_gpu *gpu, uint32_t op, uint32_t type, CUfunction *kernel)
{
    const char *name = types[type].name;
    char source[sizeof(text) + 64], instruction[16];
    CUmodule module;
    CUresult error;

    if (!write_instruction(op, type, instruction)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    (void)snprintf(source, sizeof(source), text, name, types[type].shift, name, name,
                   instruction, name);
    error = gpu->all->api.ModuleLoadData(&module, source);
    return error == CUDA_SUCCESS
               ? gpu->all->api.ModuleGetFunction(kernel, module, "combine")
               : error;
}

static CUresult
launch(struct tp_cuda_gpu *gpu, const struct tp_device_combine *work, CUfunction kernel)
{
    const struct tp_cuda_api *api = &gpu->all->api;
    CUstream stream = gpu->lanes[TP_CUDA_MOVE].stream;
    CUdeviceptr at[3];
    uint64_t count = work->count, blocks = (count + BLOCK - 1) / BLOCK;
    void *parameters[] = {&at[0], &at[1], &at[2], &count};
    CUresult error;

    for (int i = 0; i < 3; i++) {
        at[i] = (uintptr_t)work->mem[i] + work->offset[i];
    }
    error = api->LaunchKernel(kernel, (unsigned)TP_MIN(blocks, GRID_MAX), 1, 1, BLOCK,
                              1, 1, 0, stream, parameters, NULL);
    return error == CUDA_SUCCESS ? api->StreamSynchronize(stream) : error;
}

telpher_status
tp_cuda_combine(struct tp_device *d, const struct tp_device_combine *work)
{
    struct tp_cuda_gpu *gpu = tp_cuda_gpu_of(d);
    CUfunction *kernel = &gpu->kernels[work->op][work->type];
    CUresult error = tp_cuda_enter(gpu);

    if (error == CUDA_SUCCESS) {
        error = *kernel == NULL ? load(gpu, work->op, work->type, kernel) : error;
        if (error == CUDA_SUCCESS && work->count > 0) {
            error = launch(gpu, work, *kernel);
        }
        tp_cuda_leave(gpu);
    }
    if (error != CUDA_SUCCESS) {
        tp_debug("mem", "cuda: elements are not combined: %s",
                 tp_cuda_error_name(&gpu->all->api, error));
    }
    return tp_cuda_status(error);
}
