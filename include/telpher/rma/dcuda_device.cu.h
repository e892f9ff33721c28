/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device calls of dCUDA under their own names, for C++: those of section 3.3.2 of the
 * dCUDA thesis, and dcuda_get_notify() of its earlier version. Tags are 0 to 255, as in dCUDA.
 * A call that fails ends the launch, and dcuda_host_run() throws.
 *
 * Under a host compiler kernels are plain functions. threadIdx, blockIdx, blockDim, gridDim
 * and __syncthreads() are emulated. __shared__ works for a dcuda_state only; other shared
 * memory is TELPHER_RMA_SHARED(gst.rma, type, name, count).
 */
#ifndef TELPHER_RMA_DCUDA_DEVICE_CU_H
#define TELPHER_RMA_DCUDA_DEVICE_CU_H
#include <telpher/rma/device.h>
#ifdef __cplusplus
#include <telpher/rma/host.h>

#if defined(__CUDACC__)
typedef telpher_rma_gpu dcuda_context;
#define TELPHER_DCUDA_FN __device__ inline
#else
typedef telpher_rma dcuda_context;
#define TELPHER_DCUDA_FN inline
#endif
typedef dcuda_context *dcuda_context_handle;

/** The state of a rank in a kernel. */
struct dcuda_state {
    telpher_rma *rma;
    const char *where; /* of the call under way, for reports */
#if defined(__CUDACC__)
    telpher_rma_gpu_state state;
#endif

    TELPHER_RMA_FN dcuda_state &at(const char *line)
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

#include <telpher/rma/dcuda_language.h>

/* ---- begin, end, rank ---- */

TELPHER_DCUDA_FN void
dcuda_comm_barrier(dcuda_state &gst, dcuda_comm comm)
{
    TELPHER_RMA_CALL_(gst.rma, barrier)(gst.rma, comm, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_gpu_init(dcuda_context_handle dcuda, dcuda_state &gst)
{
#if defined(__CUDACC__)
    if (telpher_rma_gpu_delivers(dcuda)) { /* a block that is no rank */
        telpher_rma_gpu_deliver(dcuda, &gst.state);
        telpher_rma_gpu_exit();
    }
    telpher_rma_gpu_begin(dcuda, &gst.state.rma);
    gst.rma = &gst.state.rma;
    __syncthreads();
#else
    gst.rma = dcuda;
#endif
    dcuda_comm_barrier(gst, DCUDA_COMM_WORLD);
}

TELPHER_DCUDA_FN void
dcuda_gpu_finish(dcuda_state &gst)
{
    dcuda_comm_barrier(gst, DCUDA_COMM_WORLD);
#if defined(__CUDACC__)
    telpher_rma_gpu_end(gst.rma);
#endif
}

TELPHER_DCUDA_FN void
dcuda_get_data(dcuda_state &gst, void **gpu_data)
{
    *gpu_data = telpher_rma_data(gst.rma);
}

TELPHER_DCUDA_FN void
dcuda_comm_size(dcuda_state &gst, dcuda_comm comm, int *size)
{
    *size = (int)telpher_rma_size(gst.rma, comm);
}

TELPHER_DCUDA_FN void
dcuda_comm_rank(dcuda_state &gst, dcuda_comm comm, int *rank)
{
    *rank = (int)telpher_rma_rank(gst.rma, comm);
}

TELPHER_DCUDA_FN void
dcuda_start_cpu_timer(dcuda_state &gst)
{
    TELPHER_RMA_CALL_(gst.rma, timer)(gst.rma, 0, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_stop_cpu_timer(dcuda_state &gst)
{
    TELPHER_RMA_CALL_(gst.rma, timer)(gst.rma, 1, gst.where);
}

/* ---- windows, puts, notifications ---- */

TELPHER_DCUDA_FN void
dcuda_win_create(dcuda_state &gst, dcuda_comm comm, void *winbase, int size,
                 dcuda_win *win)
{
    TELPHER_RMA_CALL_(gst.rma, win_create)
    (gst.rma, comm, winbase, (uint64_t)size, win, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_win_free(dcuda_state &gst, dcuda_win win)
{
    TELPHER_RMA_CALL_(gst.rma, win_free)(gst.rma, win, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_notify(dcuda_state &gst, int rank, dcuda_comm comm, int tag)
{
    TELPHER_RMA_CALL_(gst.rma, notify)
    (gst.rma, comm, (uint32_t)rank, (uint32_t)tag, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_put(dcuda_state &gst, dcuda_win win, int rank, int offset, int size, void *buffer)
{
    telpher_rma_put_(gst.rma, win, (uint32_t)rank, (uint64_t)offset, buffer,
                     (uint64_t)size, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_put_notify(dcuda_state &gst, dcuda_win win, int rank, int offset, int size,
                 void *buffer, int tag)
{
    telpher_rma_put_notify_(gst.rma, win, (uint32_t)rank, (uint64_t)offset, buffer,
                            (uint64_t)size, (uint32_t)tag, gst.where);
}

/** Of dCUDA's first version: reads into @p buffer, which has the bytes when this returns, and
 *  tells @p rank by a notification that its bytes have been read. */
TELPHER_DCUDA_FN void
dcuda_get_notify(dcuda_state &gst, dcuda_win win, int rank, int offset, int size,
                 void *buffer, int tag)
{
    telpher_rma_get_notify_(gst.rma, win, (uint32_t)rank, (uint64_t)offset, buffer,
                            (uint64_t)size, (uint32_t)tag, gst.where);
}

TELPHER_DCUDA_FN void
dcuda_win_flush(dcuda_state &gst, dcuda_win win)
{
    TELPHER_RMA_CALL_(gst.rma, flush)(gst.rma, win, gst.where);
}

/** @return 1 if they were there and are taken, else 0; also 1 when the launch has failed, so
 *  that loops end */
TELPHER_DCUDA_FN int
dcuda_test_notifications(dcuda_state &gst, int tag, int count)
{
    return TELPHER_RMA_CALL_(gst.rma, test)(gst.rma, (uint32_t)tag, (uint32_t)count,
                                            gst.where) != TELPHER_ERR_AGAIN;
}

TELPHER_DCUDA_FN void
dcuda_wait_notifications(dcuda_state &gst, int tag, int count)
{
    TELPHER_RMA_CALL_(gst.rma, wait)
    (gst.rma, DCUDA_COMM_WORLD, TELPHER_RMA_NO_RANK, (uint32_t)tag, (uint32_t)count, 0,
     gst.where);
}

/* ---- 8-byte values ---- */

/** log << "sum = " << sum << log.flush prints one line. A line has one number, at its end;
 *  text after a number begins another line. */
class dcuda_log
{
  public:
    struct flush_line {
    } flush;

    TELPHER_RMA_FN explicit dcuda_log(telpher_rma *lane) : rma(lane) { clear(); }

    TELPHER_RMA_FN dcuda_log &operator<<(const char *more)
    {
        if (kind != 0) {
            print();
        }
        for (; *more != '\0' && len < sizeof(text) - 1; more++) {
            text[len++] = *more;
        }
        text[len] = '\0';
        return *this;
    }
    TELPHER_RMA_FN dcuda_log &operator<<(char value)
    {
        const char more[2] = {value, '\0'};

        return *this << more;
    }
    TELPHER_RMA_FN dcuda_log &operator<<(bool value) { return number(1, value, 0); }
    TELPHER_RMA_FN dcuda_log &operator<<(int value) { return number(1, value, 0); }
    TELPHER_RMA_FN dcuda_log &operator<<(unsigned value) { return number(1, value, 0); }
    TELPHER_RMA_FN dcuda_log &operator<<(long value) { return number(1, value, 0); }
    TELPHER_RMA_FN dcuda_log &operator<<(unsigned long value)
    {
        return number(1, (int64_t)value, 0);
    }
    TELPHER_RMA_FN dcuda_log &operator<<(long long value)
    {
        return number(1, value, 0);
    }
    TELPHER_RMA_FN dcuda_log &operator<<(unsigned long long value)
    {
        return number(1, (int64_t)value, 0);
    }
    TELPHER_RMA_FN dcuda_log &operator<<(double value) { return number(2, 0, value); }
    TELPHER_RMA_FN dcuda_log &operator<<(const flush_line &)
    {
        print();
        return *this;
    }

  private:
    telpher_rma *rma;
    size_t len;
    int kind; /* 1 an integer, 2 a real number, 0 none yet */
    int64_t integer;
    double real;
    char text[96];

    TELPHER_RMA_FN void clear()
    {
        len = 0;
        kind = 0;
        integer = 0;
        real = 0;
        text[0] = '\0';
    }

    TELPHER_RMA_FN void print()
    {
        TELPHER_RMA_CALL_(rma, log)(rma, text, kind, integer, real);
        clear();
    }

    TELPHER_RMA_FN dcuda_log &number(int which, int64_t whole, double value)
    {
        if (kind != 0) {
            print();
        }
        kind = which;
        integer = whole;
        real = value;
        return *this;
    }
};

TELPHER_DCUDA_FN dcuda_log
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
#define dcuda_get_notify(gst, ...)                                                     \
    dcuda_get_notify((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_win_flush(gst, win) dcuda_win_flush((gst).at(TELPHER_RMA_HERE), win)
#define dcuda_test_notifications(gst, ...)                                             \
    dcuda_test_notifications((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)
#define dcuda_wait_notifications(gst, ...)                                             \
    dcuda_wait_notifications((gst).at(TELPHER_RMA_HERE), __VA_ARGS__)

#endif
#endif
