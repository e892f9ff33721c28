/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI calls with device memory give what they give with host memory.
 * usage: mpirun -n N mpidev_calls [sim|svm|buffer]
 * sim: memory that the CPU cannot touch. svm, buffer: of the first OpenCL device; 77 without one.
 */
#include <CL/cl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/interop/mpi_device.h>
#include <telpher/interop/opencl.h>
#include <telpher/mem.h>

#include "support.h"

#define ENVELOPE 59 /* bytes in the place of a large message */

/* ---- memory ---- */

static cl_context context;
static cl_command_queue queue;

static int
opencl_begin(void)
{
    cl_platform_id platform;
    cl_device_id dev;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &dev, NULL) != CL_SUCCESS) {
        return -1;
    }
    context = clCreateContext(NULL, 1, &dev, NULL, NULL, NULL);
    queue = clCreateCommandQueueWithProperties(context, dev, NULL, NULL);
    return queue != NULL ? 0 : -1;
}

static void
allocate(const char *kind)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        void *pointer = NULL;

        host[i] = malloc(MAX_BYTES);
        if (strcmp(kind, "svm") == 0) {
            pointer = clSVMAlloc(context, CL_MEM_READ_WRITE, MAX_BYTES, 0);
        } else if (strcmp(kind, "buffer") == 0) {
            cl_mem buffer =
                clCreateBuffer(context, CL_MEM_READ_WRITE, MAX_BYTES, NULL, NULL);

            (void)telpher_opencl_register(ctx, buffer, queue, &pointer);
            (void)clReleaseMemObject(buffer);
        } else {
            (void)telpher_mem_alloc(ctx, TELPHER_MEM_SIM, MAX_BYTES, &pointer);
        }
        if (pointer == NULL || host[i] == NULL) {
            fprintf(stderr, "no %s memory: %s\n", kind, telpher_last_error(ctx));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        device[i] = pointer;
    }
    result = malloc(MAX_BYTES);
}

/* ---- collective calls: with host memory, then with device memory ---- */

static int count, one[64], counts[64], displs[64];

#define CALLS(X)                                                                       \
    X(bcast, Bcast(in, count, MPI_INT, size - 1, MPI_COMM_WORLD))                      \
    X(reduce, Reduce(out, in, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD))             \
    X(reduce_in_place, Reduce(rank == 0 ? MPI_IN_PLACE : in, in, count, MPI_INT,       \
                              MPI_MAX, 0, MPI_COMM_WORLD))                             \
    X(allreduce, Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD))          \
    X(allreduce_in_place,                                                              \
      Allreduce(MPI_IN_PLACE, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD))            \
    X(scan, Scan(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD))                    \
    X(exscan, Exscan(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD))                \
    X(reduce_scatter,                                                                  \
      Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD))               \
    X(reduce_scatter_block,                                                            \
      Reduce_scatter_block(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD))          \
    X(gather,                                                                          \
      Gather(out, count, MPI_INT, in, count, MPI_INT, size - 1, MPI_COMM_WORLD))       \
    X(gatherv, Gatherv(out, counts[rank], MPI_INT, in, counts, displs, MPI_INT, 0,     \
                       MPI_COMM_WORLD))                                                \
    X(scatter, Scatter(out, count, MPI_INT, in, count, MPI_INT, 0, MPI_COMM_WORLD))    \
    X(scatterv, Scatterv(out, counts, displs, MPI_INT, in, counts[rank], MPI_INT, 0,   \
                         MPI_COMM_WORLD))                                              \
    X(allgather, Allgather(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD))   \
    X(allgatherv, Allgatherv(out, counts[rank], MPI_INT, in, counts, displs, MPI_INT,  \
                             MPI_COMM_WORLD))                                          \
    X(alltoall, Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD))     \
    X(alltoallv,                                                                       \
      Alltoallv(out, one, displs, MPI_INT, in, one, displs, MPI_INT, MPI_COMM_WORLD))  \
    X(sendrecv,                                                                        \
      Sendrecv(out, count, MPI_INT, (rank + 1) % size, 5, in, count, MPI_INT,          \
               (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE))        \
    X(sendrecv_replace, Sendrecv_replace(in, count, MPI_INT, (rank + 1) % size, 6,     \
                                         (rank + size - 1) % size, 6, MPI_COMM_WORLD,  \
                                         MPI_STATUS_IGNORE))

#define FUNCTION(name, call)                                                           \
    static void call_##name(void) { MPI_##call; }
CALLS(FUNCTION)
#define ROW(name, call) {#name, call_##name},
static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {CALLS(ROW)};

static void
test_calls(int n)
{
    int next = 0;

    count = n;
    for (int i = 0; i < size; i++) {
        one[i] = n;
        counts[i] = n + i;
        displs[i] = next + i; /* with gaps */
        next += n + i + 1;
    }
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        compare(calls[i].name, calls[i].call, 4 * ((size_t)next + (size_t)size * 4));
    }
}

static void
test_nonblocking(int n)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    unsigned *sums = (unsigned *)(void *)result; /* sums wrap around */

    fill(host[OUT], (size_t)n * 4, 1);
    copy(device[OUT], host[OUT], (size_t)n * 4);
    MPI_Iallreduce(device[OUT], device[IN], n, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                   &requests[0]);
    MPI_Ibcast(device[2], n, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, statuses);
    copy(result, device[IN], (size_t)n * 4);
    for (int i = 0; i < n; i++) {
        if (sums[i] != ((unsigned *)(void *)host[OUT])[i] * (unsigned)size) {
            expect(0, "iallreduce", i);
            break;
        }
    }
}

/* ---- messages ---- */

static int
place_is_device(int form, int sender)
{
    return sender ? form != 2 : form != 1;
}

/* form 0: device to device; 1: device to host; 2: host to device */
static void
pair(int form, size_t bytes)
{
    MPI_Status status;
    int got = -1;

    if (rank == 0) {
        fill(host[0], bytes, (unsigned)bytes);
        copy(device[0], host[0], bytes);
        MPI_Send(place_is_device(form, 1) ? device[0] : host[0], (int)bytes, MPI_BYTE,
                 1, 9, MPI_COMM_WORLD);
    } else if (rank == 1) {
        memset(host[1], 77, bytes);
        copy(device[1], host[1], bytes);
        fill(host[0], bytes, (unsigned)bytes);
        MPI_Recv(place_is_device(form, 0) ? device[1] : host[1], MAX_BYTES, MPI_BYTE,
                 MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        expect(got == (int)bytes && status.MPI_SOURCE == 0 && status.MPI_TAG == 9,
               "status", got);
        copy(result, place_is_device(form, 0) ? device[1] : host[1], bytes);
        expect(memcmp(result, host[0], bytes) == 0, "message", (long)bytes);
    }
}

/* Receives in another order than the sends; each content to its own. */
static void
test_order(size_t bytes)
{
    MPI_Request requests[BUFFERS];
    MPI_Status statuses[BUFFERS];
    int index;

    for (int i = 0; i < BUFFERS && rank < 2; i++) {
        size_t len = bytes + (size_t)i * 1000;

        if (rank == 0) {
            fill(host[i], len, 50u + (unsigned)i);
            copy(device[i], host[i], len);
            MPI_Isend(device[i], (int)len, MPI_BYTE, 1, i, MPI_COMM_WORLD,
                      &requests[i]);
        } else {
            int tag = BUFFERS - 1 - i;

            MPI_Irecv(i % 2 == 0 ? device[tag] : host[tag], MAX_BYTES, MPI_BYTE, 0, tag,
                      MPI_COMM_WORLD, &requests[i]);
        }
    }
    if (rank == 0) {
        MPI_Waitall(BUFFERS, requests, statuses);
    }
    for (int i = 0; i < BUFFERS && rank == 1; i++) {
        MPI_Status status;
        int got, tag;

        MPI_Waitany(BUFFERS, requests, &index, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        tag = status.MPI_TAG;
        expect(index == BUFFERS - 1 - tag && got == (int)(bytes + (size_t)tag * 1000),
               "order", got);
        copy(result, index % 2 == 0 ? device[tag] : host[tag], (size_t)got);
        for (int k = 0; k < got; k++) {
            char want =
                (char)(((size_t)k * 7 + (50u + (unsigned)tag) * 31 + ((size_t)k >> 8)) &
                       63);

            if (result[k] != want) {
                expect(0, "content", tag);
                break;
            }
        }
    }
}

/* Columns of a matrix: datatypes with gaps, at either side. */
static void
test_gaps(int rows)
{
    MPI_Datatype column;
    size_t bytes = (size_t)rows * 8 * 4;

    MPI_Type_vector(rows, 2, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    fill(host[0], bytes, 3);
    fill(host[1], bytes, 4);
    copy(device[0], host[0], bytes);
    copy(device[1], host[1], bytes);
    if (rank == 0) {
        MPI_Send(device[0] + 8, 1, column, 1, 1, MPI_COMM_WORLD);
        MPI_Send(device[0], rows * 2, MPI_INT, 1, 2,
                 MPI_COMM_WORLD); /* content may come apart */
        MPI_Send(device[0], rows * 2, MPI_INT, 1, 3, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(device[1] + 16, 1, column, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(device[1], 1, column, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        copy(result, device[1], bytes);
        MPI_Recv(host[2], 1, column, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < (size_t)rows * 8; i++) {
            size_t row = i / 8, col = i % 8;
            int *from = (int *)(void *)host[0], *old = (int *)(void *)host[1];
            int want = col < 2                ? from[row * 2 + col]
                       : col == 4 || col == 5 ? from[i - 2]
                                              : old[i];

            if (((int *)(void *)result)[i] != want) {
                expect(0, "gaps", (long)i);
                break;
            }
            if (col < 2 && ((int *)(void *)host[2])[i] != want) {
                expect(0, "gaps of host memory", (long)i);
                break;
            }
        }
    }
    MPI_Type_free(&column);
}

static void
test_probe(size_t bytes)
{
    MPI_Status status;
    int got = 0;

    fill(host[0], bytes, 8);
    if (rank == 0) {
        copy(device[0], host[0], bytes);
        MPI_Send(device[0], (int)bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        MPI_Send(host[0], ENVELOPE, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Probe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        expect(got == (int)bytes, "probe", got);
        MPI_Recv(device[1], got, MPI_BYTE, status.MPI_SOURCE, 4, MPI_COMM_WORLD,
                 &status);
        copy(result, device[1], bytes);
        expect(memcmp(result, host[0], bytes) == 0, "probed message", got);
        MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        expect(got == ENVELOPE && status.MPI_TAG == 5,
               "probe of a message as long as an envelope", got);
        MPI_Recv(result, ENVELOPE, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(memcmp(result, host[0], ENVELOPE) == 0, "message as long as an envelope",
               0);
    }
}

static void
test_errors(size_t bytes)
{
    int error, kind = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Send(device[0], (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        error = MPI_Recv(device[1], (int)bytes - 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        MPI_Error_class(error, &kind);
        expect(kind == MPI_ERR_TRUNCATE, "truncation", kind);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int
main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "sim";
    const size_t sizes[] = {0,      1,      ENVELOPE - 1, ENVELOPE, 4096,
                            262143, 262144, 262145,       3000001,  MAX_BYTES};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ctx = telpher_mpi_device_context();
    if (ctx == NULL || size < 2) {
        fprintf(stderr, "no context, or one rank only\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (strcmp(kind, "sim") != 0 && opencl_begin() != 0) {
        MPI_Finalize();
        return 77;
    }
    allocate(kind);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int form = 0; form < 3; form++) {
            pair(form, sizes[i]);
        }
    }
    test_calls(1);
    test_calls(1001);
    test_calls(100000);
    test_nonblocking(10);
    test_nonblocking(300000);
    test_order(1000);
    test_order(500000);
    test_gaps(64);
    test_gaps(60000);
    test_probe(300000);
    test_errors(300000);
    MPI_Barrier(MPI_COMM_WORLD);
    for (unsigned i = 0; i < BUFFERS; i++) {
        free(host[i]);
        if (strcmp(kind, "svm") == 0) {
            clSVMFree(context, device[i]);
        }
    }
    MPI_Finalize();
    if (rank == 0 && failures == 0) {
        printf("mpidev: good\n");
    }
    return failures != 0;
}
