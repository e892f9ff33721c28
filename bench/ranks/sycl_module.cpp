// SPDX-License-Identifier: Apache-2.0
// sycl::buffer for telpher-bench; see sycl_module.h. Needs SYCL 2020 with its OpenCL interoperation.
#include "bench/ranks/sycl_module.h"

#include <exception>
#include <memory>
#include <string>

#include <sycl/backend/opencl.hpp>
#include <sycl/sycl.hpp>

namespace {

constexpr auto opencl = sycl::backend::opencl;
std::string why;

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

bool
write(void *to, size_t at, const void *host, size_t len)
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
read(void *from, size_t at, void *host, size_t len)
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
const struct bench_sycl bench_sycl = {wrap, write, read, release, error};
