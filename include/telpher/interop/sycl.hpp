/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SYCL's memory in Telpher's calls and in those of MPI: with AMPI_Context() of adaptive MPI
 * (<mpi.h>), or telpher_mpi_device_context() of libtelpher-mpi-device (interop/mpi_device.h).
 *
 *     double *memory = sycl::malloc_device<double>(count, queue);
 *
 *     queue.wait();
 *     if (telpher::sycl_register(ctx, queue, memory, count * sizeof(double)) == TELPHER_OK)
 *         MPI_Send(memory, count, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
 *     telpher::sycl_unregister(ctx, memory);
 *     sycl::free(memory, queue);
 *
 * Needs C++17 and SYCL 2020. With DPC++ the program links libOpenCL, with AdaptiveCpp nothing more.
 * SYCL knows of no transfer: a queue's commands on the memory must be complete before a transfer
 * begins, and may be submitted again after it has completed.
 */
#ifndef TELPHER_INTEROP_SYCL_HPP
#define TELPHER_INTEROP_SYCL_HPP

#include <cstddef>
#include <mutex>
#include <set>
#include <utility>

#include <sycl/sycl.hpp>
#ifndef ACPP_EXT_BUFFER_USM_INTEROP
#include <sycl/backend/opencl.hpp>
#endif

#include <telpher/interop/opencl.h>
#include <telpher/mem.h>

namespace telpher
{

/**
 * Registers unified shared memory (USM) of SYCL. Does nothing where Telpher needs nothing: for
 * host allocations and memory that SYCL does not know, where a CPU is the device (AdaptiveCpp's
 * OpenMP backend), for CUDA memory, and for memory that the context knows already. Throws what
 * SYCL's calls throw; nothing is registered then.
 *
 * @param ctx    keeps the queue's OpenCL context until it is destroyed, where there is one.
 * @param queue  any queue of the memory's context and device; borrowed until return.
 * @param ptr    first byte of an allocation; borrowed until sycl_unregister(), which comes
 *               before sycl::free().
 * @param bytes  [bytes] > 0.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_UNSUPPORTED  device memory that Telpher cannot reach: of Level Zero, or of
 *                                  AdaptiveCpp's OpenCL backend, which gives no handles (with
 *                                  libtelpher-mpi-device it works: that needs none)
 *         TELPHER_ERR_EXISTS       it overlaps known memory
 *         TELPHER_ERR_INVALID, TELPHER_ERR_NO_MEMORY, TELPHER_ERR_DEVICE
 * Threads: the context's. Since: 0.1.
 */
inline telpher_status sycl_register(telpher_context *ctx, const sycl::queue &queue,
                                    void *ptr, std::size_t bytes);

/**
 * Undoes sycl_register() and sycl_register_buffer(). No transfer of the memory may be in progress.
 * @return TELPHER_OK, also where nothing was registered. Threads: the context's. Since: 0.1.
 */
inline telpher_status sycl_unregister(telpher_context *ctx, void *ptr);

/**
 * Registers a buffer and waits until its content is in the memory of the queue's device. Until
 * sycl_unregister() only transfers use the buffer: no accessor. Afterwards SYCL uses what they
 * have written.
 *
 * @param queue    of the device whose memory the transfers use; borrowed until return.
 * @param buffer   of any number of dimensions; lives until sycl_unregister().
 * @param ret_ptr  gives the address of its first element, for transfers and sycl_unregister()
 *                 only: the host may not be able to read there.
 *
 * @return as sycl_register(), which also says what is thrown
 * Threads: the context's. Since: 0.1.
 */
template <typename T, int dimensions, typename allocator>
telpher_status sycl_register_buffer(telpher_context *ctx, sycl::queue &queue,
                                    sycl::buffer<T, dimensions, allocator> &buffer,
                                    T **ret_ptr);

/* ---- definitions ---- */

namespace detail
{

// Memory of sycl_register(): sycl_unregister() leaves alone what others have registered.
struct sycl_registrations {
    std::mutex lock;
    std::set<std::pair<telpher_context *, void *>> all;
};
inline sycl_registrations registrations;

inline telpher_status
note_registration(telpher_context *ctx, void *ptr, telpher_status status)
{
    if (status == TELPHER_OK) {
        std::lock_guard<std::mutex> hold(registrations.lock);
        registrations.all.insert({ctx, ptr});
    }
    return status;
}

#ifdef ACPP_EXT_BUFFER_USM_INTEROP
constexpr sycl::backend sycl_opencl = sycl::backend::ocl;

// AdaptiveCpp gives no handles of OpenCL.
inline telpher_status
register_opencl(telpher_context *, const sycl::queue &, void *, std::size_t)
{
    return TELPHER_ERR_UNSUPPORTED;
}
#else
constexpr sycl::backend sycl_opencl = sycl::backend::opencl;

inline telpher_status
register_opencl(telpher_context *ctx, const sycl::queue &queue, void *ptr,
                std::size_t bytes)
{
    cl_command_queue native = sycl::get_native<sycl::backend::opencl>(queue);
    telpher_status status = telpher_opencl_use(ctx, native);

    (void)clReleaseCommandQueue(native); // get_native() has retained it
    if (status == TELPHER_OK) {
        status = telpher_mem_register(ctx, TELPHER_MEM_OPENCL, ptr, bytes);
    }
    return note_registration(ctx, ptr, status);
}
#endif

} // namespace detail

inline telpher_status
sycl_register(telpher_context *ctx, const sycl::queue &queue, void *ptr,
              std::size_t bytes)
{
    const sycl::usm::alloc kind = sycl::get_pointer_type(ptr, queue.get_context());
    const sycl::device device = queue.get_device();
    telpher_mem_info known = {sizeof(known), TELPHER_MEM_HOST, nullptr, 0};

    if (kind != sycl::usm::alloc::device && kind != sycl::usm::alloc::shared) {
        return TELPHER_OK;
    }
    (void)telpher_mem_query(ctx, ptr, &known);
    if (known.kind != TELPHER_MEM_HOST) {
        return TELPHER_OK;
    }
    if (device.get_backend() == detail::sycl_opencl) {
        return detail::register_opencl(ctx, queue, ptr, bytes);
    }
    return kind == sycl::usm::alloc::shared || device.is_cpu()
               ? TELPHER_OK
               : TELPHER_ERR_UNSUPPORTED;
}

inline telpher_status
sycl_unregister(telpher_context *ctx, void *ptr)
{
    {
        std::lock_guard<std::mutex> hold(detail::registrations.lock);
        if (detail::registrations.all.erase({ctx, ptr}) == 0) {
            return TELPHER_OK;
        }
    }
    return telpher_mem_unregister(ctx, ptr);
}

template <typename T, int dimensions, typename allocator>
telpher_status
sycl_register_buffer(telpher_context *ctx, sycl::queue &queue,
                     sycl::buffer<T, dimensions, allocator> &buffer, T **ret_ptr)
{
#ifdef ACPP_EXT_BUFFER_USM_INTEROP
    queue
        .submit([&](sycl::handler &command) {
            sycl::accessor all(buffer, command, sycl::read_write);
            command.update(all);
        })
        .wait_and_throw();
    T *first = buffer.get_pointer(queue.get_device());
    const telpher_status status = sycl_register(ctx, queue, first, buffer.byte_size());

    if (status == TELPHER_OK) {
        *ret_ptr = first;
    }
    return status;
#else
    telpher_status status;
    cl_mem native = nullptr;
    void *first = nullptr;

    if (queue.get_backend() != detail::sycl_opencl) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    queue
        .submit([&](sycl::handler &command) {
            sycl::accessor all(buffer, command, sycl::read_write);
            command.host_task([&native, all](sycl::interop_handle handle) {
                native = handle.get_native_mem<sycl::backend::opencl>(all).front();
                (void)clRetainMemObject(native);
            });
        })
        .wait_and_throw();
    status = telpher_opencl_register(ctx, native, nullptr, &first);
    (void)clReleaseMemObject(native);
    if (detail::note_registration(ctx, first, status) == TELPHER_OK) {
        *ret_ptr = static_cast<T *>(first);
    }
    return status;
#endif
}

} // namespace telpher

#endif
