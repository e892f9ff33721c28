/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SYCL's memory of every kind, and sycl::buffer, in MPI calls between two ranks: of adaptive MPI,
 * or of an MPI with libtelpher-mpi-device. There is no kernel, so any C++ compiler compiles it.
 */
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <mpi.h>

#include <telpher/interop/mpi_device.h>
#include <telpher/interop/sycl.hpp>

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            std::fprintf(stderr, "rank %d, %s:%d: %s\n", rank, __FILE__, __LINE__,     \
                         #condition);                                                  \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
        }                                                                              \
    } while (0)

static int rank;

static telpher_context *
context()
{
#ifdef TELPHER_AMPI
    return AMPI_Context();
#else
    return telpher_mpi_device_context();
#endif
}

static std::vector<int>
values_of(int sender, std::size_t count)
{
    std::vector<int> values(count);

    std::iota(values.begin(), values.end(), sender * 1000000);
    return values;
}

/* Both ranks send what is at out, and receive to in. */
static void
exchange(const int *out, int *in, std::size_t count)
{
    const int other = 1 - rank;

    EXPECT(MPI_Sendrecv(out, (int)count, MPI_INT, other, 7, in, (int)count, MPI_INT,
                        other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

/* Where the host cannot read the memory, Telpher has to know it. */
static void
expect_known(const sycl::queue &queue, void *memory, sycl::usm::alloc kind)
{
    const sycl::backend backend = queue.get_device().get_backend();
    telpher_mem_info info = {sizeof(info), 0, nullptr, 0};

    EXPECT(telpher_mem_query(context(), memory, &info) == TELPHER_OK);
    EXPECT((info.kind == TELPHER_MEM_OPENCL) ==
           (backend == telpher::detail::sycl_opencl && kind != sycl::usm::alloc::host));
}

static void
test_usm(sycl::queue &queue, sycl::usm::alloc kind, std::size_t count)
{
    const std::vector<int> mine = values_of(rank, count),
                           theirs = values_of(1 - rank, count);
    std::vector<int> got(count);
    int *out = sycl::malloc<int>(count, queue, kind),
        *in = sycl::malloc<int>(count, queue, kind);

    EXPECT(out != nullptr && in != nullptr);
    EXPECT(telpher::sycl_register(context(), queue, out, count * sizeof(int)) ==
           TELPHER_OK);
    EXPECT(telpher::sycl_register(context(), queue, in, count * sizeof(int)) ==
           TELPHER_OK);
    expect_known(queue, in, kind);
    queue.memcpy(out, mine.data(), count * sizeof(int)).wait();
    exchange(out, in, count);
    queue.memcpy(got.data(), in, count * sizeof(int)).wait();
    EXPECT(got == theirs);

    EXPECT(MPI_Allreduce(out, in, (int)count, MPI_INT, MPI_SUM, MPI_COMM_WORLD) ==
           MPI_SUCCESS);
    queue.memcpy(got.data(), in, count * sizeof(int)).wait();
    for (std::size_t i = 0; i < count; i++) {
        EXPECT(got[i] == mine[i] + theirs[i]);
    }
    EXPECT(telpher::sycl_unregister(context(), out) == TELPHER_OK);
    EXPECT(telpher::sycl_unregister(context(), in) == TELPHER_OK);
    sycl::free(out, queue);
    sycl::free(in, queue);
}

/* SYCL writes, transfers, reads, and writes again with the host's and the device's accessors. */
static void
test_buffer(sycl::queue &queue, std::size_t count)
{
    sycl::buffer<int> out{sycl::range<1>(count)}, in{sycl::range<1>(count)};

    for (int round = 0; round < 3; round++) {
        const std::vector<int> mine = values_of(rank + 2 * round, count);
        const std::vector<int> theirs = values_of(1 - rank + 2 * round, count);
        int *from = nullptr, *to = nullptr;

        if (round == 1) {
            std::copy(mine.begin(), mine.end(), sycl::host_accessor(out).begin());
        } else {
            queue.submit([&](sycl::handler &command) {
                command.copy(mine.data(),
                             sycl::accessor(out, command, sycl::write_only));
            });
        }
        EXPECT(telpher::sycl_register_buffer(context(), queue, out, &from) ==
               TELPHER_OK);
        EXPECT(telpher::sycl_register_buffer(context(), queue, in, &to) == TELPHER_OK);
        exchange(from, to, count);
        EXPECT(telpher::sycl_unregister(context(), from) == TELPHER_OK);
        EXPECT(telpher::sycl_unregister(context(), to) == TELPHER_OK);
        sycl::host_accessor got(in, sycl::read_only);
        for (std::size_t i = 0; i < count; i++) {
            EXPECT(got[i] == theirs[i]);
        }
    }
}

/* What others have registered stays registered: here this test, with AdaptiveCpp its library. */
static void
test_known(sycl::queue &queue)
{
    int *memory = sycl::malloc_device<int>(1000, queue);

    EXPECT(memory != nullptr);
#ifndef ACPP_EXT_BUFFER_USM_INTEROP
    cl_command_queue native = sycl::get_native<sycl::backend::opencl>(queue);
    EXPECT(telpher_opencl_use(context(), native) == TELPHER_OK);
    EXPECT(telpher_mem_register(context(), TELPHER_MEM_OPENCL, memory, 4000) ==
           TELPHER_OK);
    (void)clReleaseCommandQueue(native);
#endif
    EXPECT(telpher::sycl_register(context(), queue, memory, 4000) == TELPHER_OK);
    EXPECT(telpher::sycl_unregister(context(), memory) == TELPHER_OK);
    expect_known(queue, memory, sycl::usm::alloc::device);
#ifndef ACPP_EXT_BUFFER_USM_INTEROP
    EXPECT(telpher_mem_unregister(context(), memory) == TELPHER_OK);
#endif
    sycl::free(memory, queue);
}

/* Memory that SYCL does not know is the host's. */
static void
test_host(sycl::queue &queue)
{
    int value = 42;

    EXPECT(telpher::sycl_register(context(), queue, &value, sizeof(value)) ==
           TELPHER_OK);
    EXPECT(telpher::sycl_unregister(context(), &value) == TELPHER_OK);
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        sycl::queue queue;
        const sycl::device device = queue.get_device();

        test_host(queue);
        test_known(queue);
        for (std::size_t count : {1000, 2000000}) {
            test_usm(queue, sycl::usm::alloc::device, count);
            if (device.has(sycl::aspect::usm_host_allocations)) {
                test_usm(queue, sycl::usm::alloc::host, count);
            }
            if (device.has(sycl::aspect::usm_shared_allocations)) {
                test_usm(queue, sycl::usm::alloc::shared, count);
            }
            test_buffer(queue, count);
        }
        if (rank == 0) {
            std::printf("sycl: good on %s\n",
                        device.get_info<sycl::info::device::name>().c_str());
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
