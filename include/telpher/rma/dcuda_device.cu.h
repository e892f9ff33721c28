/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dCUDA's names for what kernels call, as in section 3.3.2 of its thesis; C++. Tags are 0 to
 * 255 as there. What fails ends the launch, and dcuda_host_run() throws.
 *
 * Under a host's compiler kernels are plain functions: threadIdx, blockIdx, blockDim,
 * gridDim and __syncthreads() are there, and __shared__ takes a dcuda_state alone; other
 * shared memory is TELPHER_RMA_SHARED(gst.rma, type, name, count).
 */
#ifndef TELPHER_RMA_DCUDA_DEVICE_CU_H
#define TELPHER_RMA_DCUDA_DEVICE_CU_H
#include <telpher/rma/device.h>

#ifdef __cplusplus

#include <cstdio>
#include <cstring>

#include <telpher/rma/host.h>

typedef telpher_rma dcuda_context;
typedef dcuda_context *dcuda_context_handle;

/** What a rank knows. */
struct dcuda_state {
    telpher_rma *rma;
    const char *where; /* of the call under way, for reports */

    dcuda_state &at(const char *line)
    {
        where = line;
        return *this;
    }
};

typedef int dcuda_comm;
#define DCUDA_COMM_WORLD TELPHER_RMA_WORLD
#define DCUDA_COMM_DEVICE TELPHER_RMA_DEVICE
typedef telpher_rma_win dcuda_win;
#define DCUDA_WIN_NONE TELPHER_RMA_WIN_NONE

/* ---- the language ---- */

#define __global__
#define __device__
namespace telpher_dcuda
{
using ::dcuda_state;

struct index {
    unsigned x, y, z;
};

inline index
thread()
{
    const telpher_rma *rma = telpher_rma_here();
    const index i = {telpher_rma_lane_in(rma, 0), telpher_rma_lane_in(rma, 1),
                     telpher_rma_lane_in(rma, 2)};

    return i;
}

inline index
threads()
{
    const telpher_rma *rma = telpher_rma_here();
    const index i = {rma->block[0], rma->block[1], rma->block[2]};

    return i;
}

inline index
block(unsigned x)
{
    const index i = {x, 0, 0};

    return i;
}

inline index
blocks(unsigned x)
{
    const index i = {x, 1, 1};

    return i;
}
} // namespace telpher_dcuda
#define __shared__ telpher_dcuda::
#define threadIdx (telpher_dcuda::thread())
#define blockDim (telpher_dcuda::threads())
#define blockIdx (telpher_dcuda::block(telpher_rma_here()->device_rank))
#define gridDim (telpher_dcuda::blocks(telpher_rma_here()->device_size))
#define __syncthreads() ((void)telpher_rma_sync(telpher_rma_here()))

/* ---- start, end, who ---- */

inline void
dcuda_comm_barrier(dcuda_state &gst, dcuda_comm comm)
{
    gst.rma->calls->barrier(gst.rma, comm, gst.where);
}

inline void
dcuda_gpu_init(dcuda_context_handle dcuda, dcuda_state &gst)
{
    gst.rma = dcuda;
    dcuda_comm_barrier(gst, DCUDA_COMM_WORLD);
}

inline void
dcuda_gpu_finish(dcuda_state &gst)
{
    dcuda_comm_barrier(gst, DCUDA_COMM_WORLD);
}

inline void
dcuda_get_data(dcuda_state &gst, void **gpu_data)
{
    *gpu_data = telpher_rma_data(gst.rma);
}

inline void
dcuda_comm_size(dcuda_state &gst, dcuda_comm comm, int *size)
{
    *size = (int)telpher_rma_size(gst.rma, comm);
}

inline void
dcuda_comm_rank(dcuda_state &gst, dcuda_comm comm, int *rank)
{
    *rank = (int)telpher_rma_rank(gst.rma, comm);
}

inline void
dcuda_start_cpu_timer(dcuda_state &gst)
{
    gst.rma->calls->timer(gst.rma, 0, gst.where);
}

inline void
dcuda_stop_cpu_timer(dcuda_state &gst)
{
    gst.rma->calls->timer(gst.rma, 1, gst.where);
}

/* ---- windows, puts, notifications ---- */

inline void
dcuda_win_create(dcuda_state &gst, dcuda_comm comm, void *winbase, int size,
                 dcuda_win *win)
{
    gst.rma->calls->win_create(gst.rma, comm, winbase, (uint64_t)size, win, gst.where);
}

inline void
dcuda_win_free(dcuda_state &gst, dcuda_win win)
{
    gst.rma->calls->win_free(gst.rma, win, gst.where);
}

inline void
dcuda_notify(dcuda_state &gst, int rank, dcuda_comm comm, int tag)
{
    gst.rma->calls->notify(gst.rma, comm, (uint32_t)rank, (uint32_t)tag, gst.where);
}

inline void
dcuda_put(dcuda_state &gst, dcuda_win win, int rank, int offset, int size, void *buffer)
{
    telpher_rma_put_(gst.rma, win, (uint32_t)rank, (uint64_t)offset, buffer,
                     (uint64_t)size, gst.where);
}

inline void
dcuda_put_notify(dcuda_state &gst, dcuda_win win, int rank, int offset, int size,
                 void *buffer, int tag)
{
    telpher_rma_put_notify_(gst.rma, win, (uint32_t)rank, (uint64_t)offset, buffer,
                            (uint64_t)size, (uint32_t)tag, gst.where);
}

inline void
dcuda_win_flush(dcuda_state &gst, dcuda_win win)
{
    gst.rma->calls->flush(gst.rma, win, gst.where);
}

/** @return 1 if they were there and are taken, else 0 */
inline int
dcuda_test_notifications(dcuda_state &gst, int tag, int count)
{
    return gst.rma->calls->test(gst.rma, (uint32_t)tag, (uint32_t)count, gst.where) ==
           TELPHER_OK;
}

inline void
dcuda_wait_notifications(dcuda_state &gst, int tag, int count)
{
    gst.rma->calls->wait(gst.rma, DCUDA_COMM_WORLD, TELPHER_RMA_NO_RANK, (uint32_t)tag,
                         (uint32_t)count, 0, gst.where);
}

/* ---- words ---- */

/** log << "sum = " << sum << log.flush prints one line. */
class dcuda_log
{
  public:
    struct flush_line {
    } flush;

    explicit dcuda_log(telpher_rma *lane) : rma(lane), len(0) { text[0] = '\0'; }

    dcuda_log &operator<<(const char *words) { return add("%s", words); }
    dcuda_log &operator<<(char value) { return add("%c", value); }
    dcuda_log &operator<<(bool value) { return add("%d", (int)value); }
    dcuda_log &operator<<(int value) { return add("%d", value); }
    dcuda_log &operator<<(unsigned value) { return add("%u", value); }
    dcuda_log &operator<<(long value) { return add("%ld", value); }
    dcuda_log &operator<<(unsigned long value) { return add("%lu", value); }
    dcuda_log &operator<<(double value) { return add("%g", value); }
    dcuda_log &operator<<(const flush_line &)
    {
        telpher_rma_log(rma, text);
        len = 0;
        text[0] = '\0';
        return *this;
    }

  private:
    telpher_rma *rma;
    size_t len;
    char text[400];

    /* What does not fit is cut off. */
    template <typename T> dcuda_log &add(const char *format, T value)
    {
        std::snprintf(text + len, sizeof(text) - len, format, value);
        len += std::strlen(text + len);
        return *this;
    }
};

inline dcuda_log
dcuda_log_get(dcuda_state &gst)
{
    return dcuda_log(gst.rma);
}

/* Each call tells its line; the names of functions are not expanded again. */
#define dcuda_gpu_init(dcuda, gst) dcuda_gpu_init(dcuda, (gst).at(TELPHER_RMA_HERE))
#define dcuda_gpu_finish(gst) dcuda_gpu_finish((gst).at(TELPHER_RMA_HERE))
#define dcuda_comm_barrier(gst, comm)                                                  \
    dcuda_comm_barrier((gst).at(TELPHER_RMA_HERE), comm)
#define dcuda_start_cpu_timer(gst) dcuda_start_cpu_timer((gst).at(TELPHER_RMA_HERE))
#define dcuda_stop_cpu_timer(gst) dcuda_stop_cpu_timer((gst).at(TELPHER_RMA_HERE))
#define dcuda_win_create(gst, ...)                                                     \
    dcuda_win_create((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_win_free(gst, win) dcuda_win_free((gst).at(TELPHER_RMA_HERE), win)
#define dcuda_notify(gst, ...) dcuda_notify((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_put(gst, ...) dcuda_put((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_put_notify(gst, ...)                                                     \
    dcuda_put_notify((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_win_flush(gst, win) dcuda_win_flush((gst).at(TELPHER_RMA_HERE), win)
#define dcuda_test_notifications(gst, ...)                                             \
    dcuda_test_notifications((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_wait_notifications(gst, ...)                                             \
    dcuda_wait_notifications((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)

#endif
#endif
