/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL runtime: the table of its cases, and those that launch and transfer. What
 * creates objects and builds programs is in ocl_create.c. */
#include "bench/ocl/clutil.h"
#include "bench/ocl/ocl_create.h"
#include "bench/ocl/ocl_memory.h"

#include <stdlib.h>
#include <string.h>

enum { CREATIONS = 100 };

/* --- kernels -------------------------------------------------------------------- */

static bool
read_counter(struct ocl_session *s, cl_uint *ret_value)
{
    OCL_TRY(clEnqueueReadBuffer(s->queue, s->counter, CL_TRUE, 0, sizeof(*ret_value),
                                ret_value, 0, NULL, NULL));
    return true;
}

static bool
start_counting(void *session, size_t bytes)
{
    struct ocl_session *s = session;

    s->runs = 0;
    return read_counter(s, &s->first);
}

/* The device has counted every launch. */
static bool
check_count(void *session)
{
    struct ocl_session *s = session;
    cl_uint value = 0;

    return read_counter(s, &value) &&
           (value - s->first == s->runs ||
            bench_fail("the counter says %u, not %u", value - s->first, s->runs));
}

static bool
launch(struct ocl_session *s, cl_command_queue queue, const cl_event *after,
       cl_event *ret_done)
{
    const size_t one = 1;

    s->runs++;
    OCL_TRY(clEnqueueNDRangeKernel(queue, s->count_up, 1, NULL, &one, &one,
                                   after != NULL ? 1 : 0, after, ret_done));
    return true;
}

static bool
run_kernel_finish(void *session, double *own_us)
{
    struct ocl_session *s = session;

    if (!launch(s, s->queue, NULL, NULL)) {
        return false;
    }
    OCL_TRY(clFinish(s->queue));
    return true;
}

static bool
run_kernel_event(void *session, double *own_us)
{
    struct ocl_session *s = session;
    cl_event done;

    if (!launch(s, s->queue, NULL, &done)) {
        return false;
    }
    OCL_TRY(clWaitForEvents(1, &done));
    OCL_TRY(clReleaseEvent(done));
    return true;
}

static bool
run_kernel_batch(void *session, double *own_us)
{
    struct ocl_session *s = session;

    for (int i = 0; i < s->settings->batch; i++) {
        if (!launch(s, s->queue, NULL, NULL)) {
            return false;
        }
    }
    OCL_TRY(clFinish(s->queue));
    return true;
}

/* On a queue without order, so that only the events keep the launches in line. */
static bool
run_event_chain(void *session, double *own_us)
{
    struct ocl_session *s = session;
    cl_event last = NULL;

    for (int i = 0; i < s->settings->batch; i++) {
        cl_event done = NULL;
        const bool good = launch(s, s->any_order, last != NULL ? &last : NULL, &done);

        if (last != NULL) {
            clReleaseEvent(last);
        }
        if (!good) {
            return false;
        }
        last = done;
    }
    OCL_TRY(clReleaseEvent(last));
    OCL_TRY(clFinish(s->any_order));
    return true;
}

/* --- four bytes ----------------------------------------------------------------- */

static bool
start_words(void *session, size_t bytes)
{
    struct ocl_session *s = session;

    s->runs = 0;
    s->wrong = 0;
    return true;
}

static bool
check_words(void *session)
{
    const struct ocl_session *s = session;

    return s->wrong == 0 || bench_fail("%u of %u words were wrong", s->wrong, s->runs);
}

static bool
write_word(struct ocl_session *s, cl_mem buffer, const cl_uint *word, cl_bool blocking)
{
    OCL_TRY(clEnqueueWriteBuffer(s->queue, buffer, blocking, 0, sizeof(*word), word, 0,
                                 NULL, NULL));
    return true;
}

static bool
read_word(struct ocl_session *s, cl_mem buffer, cl_uint *word)
{
    OCL_TRY(clEnqueueReadBuffer(s->queue, buffer, CL_TRUE, 0, sizeof(*word), word, 0,
                                NULL, NULL));
    return true;
}

static bool
run_write_kernel_read(void *session, double *own_us)
{
    struct ocl_session *s = session;
    const cl_uint sent = 3 * ++s->runs;
    const size_t one = 1;
    cl_uint got = 0;

    if (!write_word(s, s->operand, &sent, CL_FALSE)) {
        return false;
    }
    OCL_TRY(clEnqueueNDRangeKernel(s->queue, s->plus_one, 1, NULL, &one, &one, 0, NULL,
                                   NULL));
    if (!read_word(s, s->result, &got)) {
        return false;
    }
    s->wrong += got != sent + 1;
    return true;
}

static bool
run_write_word(void *session, double *own_us)
{
    struct ocl_session *s = session;
    const cl_uint word = ++s->runs;

    return write_word(s, s->operand, &word, CL_TRUE);
}

static bool
check_written_word(void *session)
{
    struct ocl_session *s = session;
    cl_uint got = 0;

    return read_word(s, s->operand, &got) &&
           (got == s->runs || bench_fail("%u was read back, not %u", got, s->runs));
}

static bool
start_read_word(void *session, size_t bytes)
{
    struct ocl_session *s = session;
    const cl_uint word = 0x7e1fe4u;

    return start_words(session, bytes) && write_word(s, s->operand, &word, CL_TRUE);
}

static bool
run_read_word(void *session, double *own_us)
{
    struct ocl_session *s = session;
    cl_uint got = 0;

    s->runs++;
    if (!read_word(s, s->operand, &got)) {
        return false;
    }
    s->wrong += got != 0x7e1fe4u;
    return true;
}

/* --- bandwidth ------------------------------------------------------------------ */

enum { STAMP_EVERY = 4096 };

/* Different at every offset: a piece that is missing or out of place shows. Every byte is
 * of the run with -c, else one of each page: making content takes longer than sending it,
 * and in that time everything that the transfer needs would have gone to sleep. */
static unsigned char
byte_at(const struct ocl_session *s, cl_uint run, size_t offset)
{
    if (!s->settings->validation && offset % STAMP_EVERY != 0) {
        run = 0;
    }
    return (unsigned char)(run * 31 + offset * 7 + (offset >> 8) * 13 + (offset >> 16));
}

static void
fill_host(struct ocl_session *s, cl_uint run)
{
    const size_t step = run == 0 || s->settings->validation ? 1 : STAMP_EVERY;
    unsigned char *host = s->host;

    for (size_t i = 0; i < s->bytes; i += step) {
        host[i] = byte_at(s, run, i);
    }
}

static bool
host_holds(const struct ocl_session *s, cl_uint run)
{
    const unsigned char *host = s->host;

    for (size_t i = 0; i < s->bytes; i++) {
        if (host[i] != byte_at(s, run, i)) {
            return bench_fail("byte %zu is %u, not %u", i, host[i], byte_at(s, run, i));
        }
    }
    return true;
}

static bool
start_transfer(void *session, size_t bytes)
{
    struct ocl_session *s = session;
    cl_int status;

    s->bytes = bytes;
    s->runs = 0;
    s->buffer = clCreateBuffer(s->context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    if (s->buffer == NULL) {
        return ocl_fail("clCreateBuffer", status);
    }
    if (!s->memory->alloc(s, bytes, &s->host)) {
        return false;
    }
    fill_host(s, 0);
    OCL_TRY(clEnqueueWriteBuffer(s->queue, s->buffer, CL_TRUE, 0, bytes, s->host, 0,
                                 NULL, NULL));
    return true;
}

static void
stop_transfer(void *session)
{
    struct ocl_session *s = session;

    if (s->host != NULL) {
        s->memory->free(s, s->host);
        s->host = NULL;
    }
    if (s->buffer != NULL) {
        clReleaseMemObject(s->buffer);
        s->buffer = NULL;
    }
}

static bool
transfer(struct ocl_session *s, bool write, cl_bool blocking)
{
    OCL_TRY(write ? clEnqueueWriteBuffer(s->queue, s->buffer, blocking, 0, s->bytes,
                                         s->host, 0, NULL, NULL)
                  : clEnqueueReadBuffer(s->queue, s->buffer, blocking, 0, s->bytes,
                                        s->host, 0, NULL, NULL));
    return true;
}

/* One blocking call, or a window of calls and a finish. */
static bool
transfer_window(struct ocl_session *s, bool write)
{
    const int window = s->settings->window;

    if (window == 1) {
        return transfer(s, write, CL_TRUE);
    }
    for (int i = 0; i < window; i++) {
        if (!transfer(s, write, CL_FALSE)) {
            return false;
        }
    }
    OCL_TRY(clFinish(s->queue));
    return true;
}

static bool
read_back(struct ocl_session *s)
{
    memset(s->host, 0xff, s->bytes);
    return transfer(s, false, CL_TRUE) && host_holds(s, s->runs);
}

static bool
run_write(void *session, double *own_us)
{
    struct ocl_session *s = session;
    double start;

    s->runs++;
    fill_host(s, s->runs);
    start = bench_now_us();
    if (!transfer_window(s, true)) {
        return false;
    }
    *own_us = bench_now_us() - start;
    return !s->settings->validation || read_back(s);
}

static bool
check_write(void *session)
{
    return read_back(session);
}

static bool
run_read(void *session, double *own_us)
{
    struct ocl_session *s = session;
    double start;

    if (s->settings->validation) {
        memset(s->host, 0xff, s->bytes);
    }
    start = bench_now_us();
    if (!transfer_window(s, false)) {
        return false;
    }
    *own_us = bench_now_us() - start;
    return !s->settings->validation || host_holds(s, 0);
}

static bool
check_read(void *session)
{
    return host_holds(session, 0);
}

/* --- the table ------------------------------------------------------------------ */

static const struct bench_case cases[] = {
    {"kernel_finish", "a kernel, then clFinish", &bench_latency, 1, "tcp_pingpong", 1,
     start_counting, run_kernel_finish, check_count, NULL},
    {"kernel_event", "a kernel, then clWaitForEvents", &bench_latency, 1,
     "tcp_pingpong", 1, start_counting, run_kernel_event, check_count, NULL},
    {"kernel_batch", "many kernels, then clFinish (per kernel)", &bench_batch, 0,
     "tcp_pingpong", 1, start_counting, run_kernel_batch, check_count, NULL},
    {"event_chain", "many kernels, each after the event of the last (per kernel)",
     &bench_batch, 0, "tcp_pingpong", 1, start_counting, run_event_chain, check_count,
     NULL},
    {"write_kernel_read", "write 4 bytes, a kernel, read 4 bytes", &bench_latency, 1,
     "tcp_pingpong", 1, start_words, run_write_kernel_read, check_words, NULL},
    {"write_4", "blocking write of 4 bytes", &bench_latency, 1, "tcp_pingpong", 1,
     start_words, run_write_word, check_written_word, NULL},
    {"read_4", "blocking read of 4 bytes", &bench_latency, 1, "tcp_pingpong", 1,
     start_read_word, run_read_word, check_words, NULL},
    {"create_buffer", "create and release a buffer of 4 KiB", &bench_batch, CREATIONS,
     NULL, 0, ocl_start_creating, ocl_run_create_buffer, ocl_check_created, NULL},
    {"create_touched", "create a buffer of 4 KiB, write 4 bytes (blocking), release",
     &bench_latency, 1, "tcp_pingpong", 1, ocl_start_creating, ocl_run_create_touched,
     ocl_check_created, NULL},
    {"create_kernel", "create and release a kernel", &bench_batch, CREATIONS, NULL, 0,
     ocl_start_creating, ocl_run_create_kernel, ocl_check_created, NULL},
    {"create_user_event", "create, complete and release a user event", &bench_batch,
     CREATIONS, NULL, 0, ocl_start_creating, ocl_run_create_user_event,
     ocl_check_created, NULL},
    {"create_queue", "create and release a command queue", &bench_latency, 1, NULL, 0,
     ocl_start_creating, ocl_run_create_queue, ocl_check_created, NULL},
    {"create_context", "create and release a context", &bench_latency, 1, NULL, 0,
     ocl_start_creating, ocl_run_create_context, ocl_check_created, NULL},
    {"build_cold", "clBuildProgram of a source never seen", &bench_slow, 1,
     "tcp_pingpong", 1, ocl_start_building, ocl_run_build_cold, ocl_check_built,
     ocl_stop_building},
    {"build_cached", "clBuildProgram of the same source again", &bench_slow, 1,
     "tcp_pingpong", 1, ocl_start_building, ocl_run_build_cached, ocl_check_built,
     ocl_stop_building},
    {"discovery", "first query of platform and device in a new process", &bench_slow, 1,
     "tcp_pingpong", 1, ocl_start_creating, ocl_run_discovery, ocl_check_created, NULL},
    {"bw_write", "clEnqueueWriteBuffer, blocking", &bench_bandwidth, 1, "tcp_write", 1,
     start_transfer, run_write, check_write, stop_transfer},
    {"bw_read", "clEnqueueReadBuffer, blocking", &bench_bandwidth, 1, "tcp_read", 1,
     start_transfer, run_read, check_read, stop_transfer},
};

const struct bench_runtime bench_ocl = {
    .name = "ocl",
    .cases = cases,
    .case_count = sizeof(cases) / sizeof(cases[0]),
    .memories = ocl_memories,
    .memory_count = OCL_MEMORY_COUNT,
    .open = ocl_open,
    .close = ocl_close,
};
