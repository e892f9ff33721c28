/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointers that the program has of OpenCL, in MPI calls without any registration: of adaptive MPI,
 * or of an MPI with libtelpher-mpi-device. 77: there is no device with shared virtual memory.
 * usage: telpher launch -n N -- ampi_pointers, N >= 2
 */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <mpi.h>
#include <pthread.h>
#include <string.h>

#include <telpher/interop/mpi_device.h>
#include <telpher/interop/opencl.h>

#include "expect.h"

#ifdef TELPHER_AMPI
#define CONTEXT() AMPI_Context()
#else
#define CONTEXT() telpher_mpi_device_context()
#endif

enum { COUNT = 100000, BYTES = COUNT * 4 };

static cl_device_id device;
static cl_context contexts[2];
static cl_command_queue queues[2];
static int sent[COUNT], got[COUNT];

static int
has_device(cl_device_svm_capabilities want)
{
    cl_platform_id platform;
    cl_device_svm_capabilities can = 0;

    return clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS &&
           clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) ==
               CL_SUCCESS &&
           clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof(can), &can,
                           NULL) == CL_SUCCESS &&
           (can & want) != 0;
}

static int *
allocate(int of, size_t bytes)
{
    int *memory = clSVMAlloc(contexts[of], CL_MEM_READ_WRITE, bytes, 0);

    EXPECT(memory != NULL);
    return memory;
}

static uint32_t
kind_of(const void *memory)
{
    telpher_mem_info info = {sizeof(info), 0, NULL, 0};

    EXPECT(telpher_mem_query(CONTEXT(), memory, &info) == TELPHER_OK);
    return info.kind;
}

static void
copy(int of, void *to, const void *from, size_t bytes)
{
    EXPECT(clEnqueueSVMMemcpy(queues[of], CL_TRUE, to, from, bytes, 0, NULL, NULL) ==
           CL_SUCCESS);
}

/* Each rank sends what is at `out` to the next one, `first` ints after the start. */
static void
exchange(int from, int *out, int to, int *in, int first, int count)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    size_t bytes = (size_t)count * sizeof(int);

    for (int i = 0; i < count; i++) {
        sent[i] = rank * COUNT + i;
        got[i] = -1;
    }
    copy(from, out + first, sent, bytes);
    copy(to, in + first, got, bytes);
    EXPECT(MPI_Sendrecv(out + first, count, MPI_INT, right, 1, in + first, count,
                        MPI_INT, left, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE) == MPI_SUCCESS);
    copy(to, got, in + first, bytes);
    for (int i = 0; i < count; i++) {
        EXPECT(got[i] == left * COUNT + i);
    }
}

static void
test_parts(int *out, int *in)
{
    EXPECT(kind_of(out) == TELPHER_MEM_OPENCL);
    EXPECT(kind_of((char *)out + BYTES - 1) == TELPHER_MEM_OPENCL);
    EXPECT(kind_of(out + COUNT) == TELPHER_MEM_HOST || out + COUNT == in);
    exchange(0, out, 0, in, 0, COUNT);
    exchange(0, out, 0, in, COUNT / 2, COUNT / 2);
    exchange(0, out, 0, in, COUNT - 1, 1);
    EXPECT(MPI_Sendrecv(out + COUNT, 0, MPI_INT, rank, 2, in + COUNT, 0, MPI_INT, rank,
                        2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    EXPECT(MPI_Allreduce(out, in, 100, MPI_INT, MPI_MAX, MPI_COMM_WORLD) ==
           MPI_SUCCESS);
}

static void
test_past_the_end(int *out)
{
    MPI_Comm comm;
    int error;

    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    error = MPI_Sendrecv(out + COUNT - 1, 2, MPI_INT, 0, 3, got, 2, MPI_INT, 0, 3, comm,
                         MPI_STATUS_IGNORE);
    EXPECT(error != MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

/* Addresses of freed memory may be the host's, or new memory's of another size. */
static void
test_freed(void)
{
    for (int i = 0; i < 50; i++) {
        int count = 1 + i * 37, *out = allocate(i % 2, (size_t)count * sizeof(int));
        int *in = allocate(0, (size_t)count * sizeof(int));

        exchange(i % 2, out, 0, in, 0, count);
        clSVMFree(contexts[i % 2], out);
        EXPECT(kind_of(out) == TELPHER_MEM_HOST);
        if (i % 3 == 0) {
            void *freed[1] = {in};

            EXPECT(clEnqueueSVMFree(queues[0], 1, freed, NULL, NULL, 0, NULL, NULL) ==
                   CL_SUCCESS);
            EXPECT(clFinish(queues[0]) == CL_SUCCESS);
        } else {
            clSVMFree(contexts[0], in);
        }
        EXPECT(kind_of(in) == TELPHER_MEM_HOST);
    }
}

static void *
allocate_on_thread(void *memory)
{
    *(int **)memory = allocate(1, BYTES);
    return NULL;
}

/* A library such as AdaptiveCpp's allocates on threads of its own. */
static void
test_thread(int *in)
{
    pthread_t thread;
    int *out = NULL;

    EXPECT(pthread_create(&thread, NULL, allocate_on_thread, &out) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(kind_of(out) == TELPHER_MEM_OPENCL);
    exchange(1, out, 0, in, 0, COUNT);
    clSVMFree(contexts[1], out);
}

/* A program that was written for registered memory works as before. */
static void
test_registered(int *out, int *in)
{
    EXPECT(telpher_opencl_use(CONTEXT(), queues[0]) == TELPHER_OK);
    EXPECT(telpher_mem_register(CONTEXT(), TELPHER_MEM_OPENCL, out, BYTES) ==
           TELPHER_OK);
    exchange(0, out, 0, in, 0, COUNT);
    EXPECT(telpher_mem_unregister(CONTEXT(), out) == TELPHER_OK);
    EXPECT(telpher_mem_unregister(CONTEXT(), out) == TELPHER_ERR_NOT_FOUND);
    exchange(0, out, 0, in, 0, COUNT);
}

/* The processor may use it at any time, so calls take it as host memory. */
static void
test_fine_grain(void)
{
    if (has_device(CL_DEVICE_SVM_FINE_GRAIN_BUFFER)) {
        void *memory = clSVMAlloc(
            contexts[0], CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, BYTES, 0);

        EXPECT(memory != NULL && kind_of(memory) == TELPHER_MEM_HOST);
        clSVMFree(contexts[0], memory);
    }
}

int
main(int argc, char **argv)
{
    int *early, *out, *in;

    if (!has_device(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER)) {
        return 77;
    }
    for (int i = 0; i < 2; i++) {
        contexts[i] = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
        queues[i] = clCreateCommandQueueWithProperties(contexts[i], device, NULL, NULL);
        EXPECT(queues[i] != NULL);
    }
    early = allocate(0, BYTES); /* there is no context of Telpher yet */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = allocate(0, BYTES);
    in = allocate(0, BYTES);
    test_parts(early, in);
    test_parts(out, in);
    test_past_the_end(out);
    test_freed();
    test_thread(in);
    test_registered(out, in);
    test_fine_grain();
    exchange(0, early, 0, in, 0, COUNT);
    clSVMFree(contexts[0], early);
    clSVMFree(contexts[0], out);
    MPI_Finalize();
    clSVMFree(contexts[0], in); /* there is no context any more */
    for (int i = 0; i < 2; i++) {
        EXPECT(clReleaseCommandQueue(queues[i]) == CL_SUCCESS);
        EXPECT(clReleaseContext(contexts[i]) == CL_SUCCESS);
    }
    if (rank == 0 && failures == 0) {
        printf("pointers: good\n");
    }
    return failures;
}
