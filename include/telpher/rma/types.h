/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notified access between ranks that are blocks of lanes: what a kernel and its host have in
 * common. docs/rma.md explains the model.
 *
 * struct telpher_rma is compiled into kernels. It changes only together with
 * TELPHER_RMA_ABI, and a kernel of another version is refused at launch.
 */
#ifndef TELPHER_RMA_TYPES_H
#define TELPHER_RMA_TYPES_H

#include <stddef.h>

#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of everything in this file. */
#define TELPHER_RMA_ABI 3

/** Tags are 0 .. tags - 1 of the launch, at most so many. */
#define TELPHER_RMA_TAGS_MAX 65536
/** Tags of a launch that asks for none. */
#define TELPHER_RMA_TAGS_DEFAULT 256
/** Ranks of a launch, and lanes of a rank, at most. */
#define TELPHER_RMA_RANKS_MAX 4096
#define TELPHER_RMA_LANES_MAX 1024

/** A group of ranks: one of the two that are always there, or one from a split. */
typedef int32_t telpher_rma_comm;
#define TELPHER_RMA_WORLD 0 /**< all ranks */
#define TELPHER_RMA_DEVICE 1 /**< the ranks of this rank's device */
#define TELPHER_RMA_COMM_NONE (-1)

/** A window; the same number in all ranks of its group. */
typedef int32_t telpher_rma_win;
#define TELPHER_RMA_WIN_NONE (-1)

#define TELPHER_RMA_NO_RANK UINT32_MAX /**< not in the group, or any rank */

/** Element type of a reduction. */
enum telpher_rma_type {
    TELPHER_RMA_I32 = 0,
    TELPHER_RMA_U32 = 1,
    TELPHER_RMA_I64 = 2,
    TELPHER_RMA_U64 = 3,
    TELPHER_RMA_F32 = 4,
    TELPHER_RMA_F64 = 5
};

/** How. Sums and products of integers wrap. */
enum telpher_rma_op {
    TELPHER_RMA_SUM = 0,
    TELPHER_RMA_PROD = 1,
    TELPHER_RMA_MIN = 2,
    TELPHER_RMA_MAX = 3
};

/** Flag of reductions: from the first rank to the last, one after the other, so that floating
 *  point gives the same bits each time. */
#define TELPHER_RMA_FIXED_ORDER 1u

typedef struct telpher_rma telpher_rma;

/** One reduction, or a broadcast (src and dst are then the same). */
typedef struct telpher_rma_fold {
    const void *src;
    void *dst;
    uint64_t count; /**< elements; of a broadcast bytes */
    uint32_t root; /**< TELPHER_RMA_NO_RANK = all get the result */
    uint16_t type, op;
    uint32_t flags;
} telpher_rma_fold;

/** One access to a window. */
typedef struct telpher_rma_access {
    void *local;
    uint64_t off, len, value; /**< [bytes]; value of 8 bytes */
    telpher_rma_win win;
    uint32_t rank, tag;
} telpher_rma_access;

/** The library's side of the calls in device.h. Kernels use those calls, not this
 *  table. */
typedef struct telpher_rma_calls {
    uint32_t abi, struct_size;
    telpher_status (*sync)(telpher_rma *rma, const char *where);
    void *(*shared)(telpher_rma *rma, const void *site, size_t len, const char *where);
    double (*lane_sum)(telpher_rma *rma, double value, const char *where);
    uint32_t (*rank)(const telpher_rma *rma, telpher_rma_comm comm);
    uint32_t (*size)(const telpher_rma *rma, telpher_rma_comm comm);
    telpher_status (*win_create)(telpher_rma *rma, telpher_rma_comm comm, void *base,
                                 uint64_t len, telpher_rma_win *ret_win,
                                 const char *where);
    telpher_status (*win_free)(telpher_rma *rma, telpher_rma_win win,
                               const char *where);
    uint64_t (*win_size)(const telpher_rma *rma, telpher_rma_win win, uint32_t rank);
    telpher_status (*put)(telpher_rma *rma, const telpher_rma_access *access,
                          const char *where);
    telpher_status (*put_notify)(telpher_rma *rma, const telpher_rma_access *access,
                                 const char *where);
    telpher_status (*put_value_notify)(telpher_rma *rma,
                                       const telpher_rma_access *access,
                                       const char *where);
    telpher_status (*get)(telpher_rma *rma, const telpher_rma_access *access,
                          const char *where);
    telpher_status (*flush)(telpher_rma *rma, telpher_rma_win win, const char *where);
    telpher_status (*notify)(telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                             uint32_t tag, const char *where);
    telpher_status (*test)(telpher_rma *rma, uint32_t tag, uint32_t count,
                           const char *where);
    telpher_status (*wait)(telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                           uint32_t tag, uint32_t count, uint64_t timeout_ns,
                           const char *where);
    telpher_status (*wait_any)(telpher_rma *rma, const uint32_t *tags,
                               uint32_t tag_count, uint32_t *ret_tag,
                               const char *where);
    telpher_status (*barrier)(telpher_rma *rma, telpher_rma_comm comm,
                              const char *where);
    telpher_status (*broadcast)(telpher_rma *rma, telpher_rma_comm comm,
                                const telpher_rma_fold *fold, const char *where);
    telpher_status (*reduce)(telpher_rma *rma, telpher_rma_comm comm,
                             const telpher_rma_fold *fold, const char *where);
    telpher_status (*split)(telpher_rma *rma, telpher_rma_comm comm, int32_t color,
                            int32_t key, telpher_rma_comm *ret_comm, const char *where);
    void (*log)(telpher_rma *rma, const char *text, int kind, int64_t integer,
                double real);
    uint64_t (*now)(const telpher_rma *rma);
    telpher_status (*timer)(telpher_rma *rma, int stop, const char *where);
    telpher_status (*fail)(telpher_rma *rma, telpher_status status, const char *where);
} telpher_rma_calls;

/** State of a rank; on processors, of one of its lanes. Only the backend writes it. */
struct telpher_rma {
    uint32_t abi, struct_size;
    const telpher_rma_calls *calls; /**< of processors */
    void *backend; /**< of GPUs: the launch */
    void *data; /**< what the host gave to the launch */
    uint32_t world_rank, world_size;
    uint32_t device, devices; /**< this rank's device, and how many there are */
    uint32_t device_rank, device_size;
    uint32_t lane, lanes; /**< counted through all dimensions, x first */
    uint32_t block[3]; /**< lanes in x, y and z */
    uint32_t tags;
};

/** Parameters and result of a launch: between the library and a kernel's launcher. */
typedef struct telpher_rma_outcome {
    uint32_t ranks, devices, tags, block[3];
    uint64_t timeout_ns;
    void (*log)(void *user, const char *line);
    void *user;
    telpher_status status; /**< the first failure */
    char *report; /**< of malloc(); NULL = nothing to say */
    double *timings; /**< [ms], of malloc() */
    size_t timing_count;
    uint64_t elapsed_ns;
    struct telpher_rma_link *link; /**< of several processes; NULL = one (rma/link.h) */
} telpher_rma_outcome;

/** How a kernel was compiled; 0 = not known. */
enum telpher_rma_kernel_flags {
    TELPHER_RMA_KERNEL_INSTRUMENTED = 1, /**< with -fsanitize=thread */
    TELPHER_RMA_KERNEL_PLAIN = 2 /**< without */
};

/** A kernel, made by TELPHER_RMA_KERNEL() in the source that defines it. */
typedef struct telpher_rma_kernel {
    uint32_t abi; /**< of the headers it was compiled with */
    uint32_t state_size; /**< sizeof(telpher_rma) there */
    uint32_t calls_size; /**< sizeof(telpher_rma_calls) there */
    uint32_t flags; /**< enum telpher_rma_kernel_flags */
    const char *name;
    void (*body)(telpher_rma *rma); /**< for processors; NULL = it has a launcher */
    const void *entry; /**< for GPUs: what the launcher starts */
    void (*launch)(const struct telpher_rma_kernel *kernel, void *data,
                   telpher_rma_outcome *outcome);
} telpher_rma_kernel;

#ifdef __cplusplus
}
#endif

#endif
