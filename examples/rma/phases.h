/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The case studies as two models: phases that only compute, each a launch over all ranks,
 * and the host, which waits for their end and copies between devices. A phase
 * computes with the functions of the kernel that communicates. Under nvcc phases are plain kernels,
 * and copies follow them on the GPUs (phases_cuda.c); else a phase is run by threads that
 * stay. There may be several ways to launch and copy: the best is what ours compares with.
 */
#ifndef EXAMPLES_RMA_PHASES_H
#define EXAMPLES_RMA_PHASES_H

#include "study.h"

struct study_shape {
    uint32_t ranks, devices, lanes;
};

/** The argument of a phase for @p lane of rank @p rank; not valid in calls of device.h. */
TELPHER_RMA_FN_BOTH static inline telpher_rma
study_lane(struct study_shape shape, void *data, uint32_t rank, uint32_t lane)
{
    uint32_t each = shape.ranks / shape.devices;
    telpher_rma rma = {0};

    rma.data = data;
    rma.world_rank = rank;
    rma.world_size = shape.ranks;
    rma.device = rank / each;
    rma.devices = shape.devices;
    rma.device_rank = rank % each;
    rma.device_size = each;
    rma.lane = lane;
    rma.lanes = shape.lanes;
    rma.block[0] = shape.lanes;
    rma.block[1] = rma.block[2] = 1;
    return rma;
}

/** Defines the phase @p name, whose body follows: `rma` says which lane it is, @p step is
 *  the host's number. Lanes and ranks meet only at its end. */
#ifdef __CUDACC__
typedef void (*study_phase)(struct study_shape shape, void *data, uint32_t step,
                            uint32_t first);
#define STUDY_PHASE(name)                                                              \
    __device__ static void name##_body(telpher_rma *rma, uint32_t step);               \
    __global__ static void name(struct study_shape shape, void *data, uint32_t step,   \
                                uint32_t first)                                        \
    {                                                                                  \
        telpher_rma rma = study_lane(shape, data, first + blockIdx.x, threadIdx.x);    \
                                                                                       \
        name##_body(&rma, step);                                                       \
    }                                                                                  \
    __device__ static void name##_body(telpher_rma *rma, uint32_t step)
#else
typedef void (*study_phase)(telpher_rma *rma, uint32_t step);
#define STUDY_PHASE(name) static void name(telpher_rma *rma, uint32_t step)
#endif

/** A barrier of a rank's lanes, also in phases; theirs have one lane on processors. */
#ifdef __CUDACC__
#define study_sync(rma) ((void)(rma), __syncthreads())
#else
#define study_sync(rma) ((rma)->calls != NULL ? (void)telpher_rma_sync(rma) : (void)0)
#endif

/** The host side of a launch. */
typedef struct study_host study_host;

/** The name of way @p way to launch and copy, from 0; NULL: no such way here. */
const char *study_way(unsigned way);

/** A host for phases with @p data, which is borrowed; ends the program when there is no
 *  memory or no thread. */
study_host *study_host_create(const struct study *study, void *data, unsigned way);
void study_host_destroy(study_host *host);

/** True if what comes up to the next study_settle() is only recorded, for study_replay(). */
int study_record(study_host *host);
/** True while what comes is recorded: the host sees nothing of it yet. */
int study_records(const study_host *host);
/** All of it at once; the host has waited for it when this returns. */
void study_replay(study_host *host);

/** Runs a phase on all ranks, behind everything before. */
void study_launch(study_host *host, study_phase phase, uint32_t step);
/** Only on the first rank of a device. */
void study_launch_one(study_host *host, uint32_t device, study_phase phase,
                      uint32_t step);
/** Copies @p count rows of @p len bytes, @p stride bytes from one to the next in both,
 *  between devices. Copies between two launches come in any order. */
void study_copy(study_host *host, uint32_t to, void *dst, uint32_t from,
                const void *src, size_t len, size_t stride, size_t count);
/** Copies from here on come behind those before. */
void study_then(study_host *host);
/** Everything before is done, and the host may look; not while it records. */
void study_look(study_host *host);
/** The same, and nothing more comes. */
void study_settle(study_host *host);
/** [ms] from the first launch or copy to the last one's end, as the devices have it: what
 *  begins a launch and tells the host of its end is not in it, as it is not in the ranks'
 *  own timers. Negative: no device keeps time here. */
double study_took(const study_host *host);

#endif
