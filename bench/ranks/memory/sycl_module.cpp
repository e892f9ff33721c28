// SPDX-License-Identifier: Apache-2.0
// sycl::buffer for telpher-bench; see sycl_module.h. Needs SYCL 2020 with its OpenCL interoperation, or AdaptiveCpp.
#include "bench/ranks/memory/sycl_module.h"

#include <exception>
#include <memory>
#include <string>

#include <sycl/sycl.hpp>
#ifndef ACPP_EXT_BUFFER_USM_INTEROP
#include <sycl/backend/opencl.hpp>
#endif

namespace {

std::string why;

using buffer = sycl::buffer<unsigned char, 1>;

template <typename action>
bool
attempt(action act)
{
    try {
        act();
        return true;
    } catch (const std::exception &error) {
        why = error.what();
        return false;
    }
}

#ifdef ACPP_EXT_BUFFER_USM_INTEROP
struct site {
    site()
        : queue(sycl::device(sycl::cpu_selector_v), sycl::property_list{sycl::property::queue::in_order{}})
    {
    }
    sycl::queue queue;
};

std::unique_ptr<site> here;
constexpr auto wrap = nullptr;

void *
create(size_t bytes, void **ret_buffer)
{
    unsigned char *memory = nullptr;

    attempt([&] {
        if (!here) {
            here = std::make_unique<site>();
        }
        memory = sycl::malloc_device<unsigned char>(bytes, here->queue);
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
        *ret_buffer = new buffer(
            {sycl::buffer_allocation::view(memory, here->queue.get_device(),
                                           sycl::buffer_allocation::take_ownership)},
            sycl::range<1>{bytes});
    });
    return memory;
}
#else
constexpr auto opencl = sycl::backend::opencl;

struct site {
    site(cl_context c, cl_device_id d)
        : context(sycl::make_context<opencl>(c)),
          queue(context, sycl::make_device<opencl>(d), sycl::property::queue::in_order{})
    {
    }
    sycl::context context;
    sycl::queue queue;
};

// One for all buffers: OpenCL knows no content of two contexts.
std::unique_ptr<site> here;
constexpr auto create = nullptr;

void *
wrap(void *context, void *device, void *mem, size_t bytes)
{
    buffer *made = nullptr;

    (void)bytes;
    attempt([&] {
        if (!here) {
            here = std::make_unique<site>(static_cast<cl_context>(context),
                                          static_cast<cl_device_id>(device));
        }
        made = new buffer(sycl::make_buffer<opencl, unsigned char, 1>(
            static_cast<cl_mem>(mem), here->context));
    });
    return made;
}
#endif

bool
write_buffer(void *to, size_t at, const void *host, size_t len)
{
    return attempt([&] {
        here->queue
            .submit([&](sycl::handler &command) {
                auto part = static_cast<buffer *>(to)->get_access<sycl::access::mode::write>(
                    command, sycl::range<1>{len}, sycl::id<1>{at});
                command.copy(static_cast<const unsigned char *>(host), part);
            })
            .wait_and_throw();
    });
}

bool
read_buffer(void *from, size_t at, void *host, size_t len)
{
    return attempt([&] {
        here->queue
            .submit([&](sycl::handler &command) {
                auto part = static_cast<buffer *>(from)->get_access<sycl::access::mode::read>(
                    command, sycl::range<1>{len}, sycl::id<1>{at});
                command.copy(part, static_cast<unsigned char *>(host));
            })
            .wait_and_throw();
    });
}

void
release(void *made)
{
    attempt([&] { delete static_cast<buffer *>(made); });
}

const char *
error()
{
    return why.c_str();
}

} // namespace

extern "C" __attribute__((visibility("default"))) const struct bench_sycl bench_sycl;
const struct bench_sycl bench_sycl = {wrap, create, write_buffer, read_buffer, release, error};
