/* SPDX-License-Identifier: Apache-2.0 */
/* usage: clblast_apps PLATFORM-SUBSTRING
 * What CLBlast's own sample programs do, with their answers looked at: sum of magnitudes, axpy, gemv,
 * gemm, batched gemm, a second run from the kernel cache, on each device of the platform. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96, BATCH = 3, VECTOR = 10000, MAX_DEVICES = 16 };

struct device {
    cl_context context;
    cl_command_queue queue;
};

static int failures;

static void
require(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "clblast_apps: %s failed\n", what);
        exit(1);
    }
}

static void
report(const char *what, double error, double most)
{
    const int right = error <= most;

    printf("%s: %s (largest error %.2g)\n", what, right ? "right" : "WRONG", error);
    failures += !right;
}

static float *
numbers(size_t count)
{
    float *x = malloc(count * sizeof(*x));

    require(x != NULL, "malloc");
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)rand() / (float)RAND_MAX - 0.5F;
    }
    return x;
}

static cl_mem
upload(const struct device *d, float *x, size_t count)
{
    cl_int rc;
    cl_mem mem = clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                count * sizeof(*x), x, &rc);

    require(rc == CL_SUCCESS, "clCreateBuffer");
    return mem;
}

static float *
download(const struct device *d, cl_mem mem, size_t count)
{
    float *x = malloc(count * sizeof(*x));

    require(x != NULL &&
                clEnqueueReadBuffer(d->queue, mem, CL_TRUE, 0, count * sizeof(*x), x, 0,
                                    NULL, NULL) == CL_SUCCESS,
            "clEnqueueReadBuffer");
    return x;
}

static void
try_vectors(struct device *d)
{
    float *x = numbers(VECTOR), *y = numbers(VECTOR), *got;
    cl_mem dx = upload(d, x, VECTOR), dy = upload(d, y, VECTOR), sum = upload(d, x, 1);
    double error = 0, magnitude = 0;

    require(CLBlastSasum(VECTOR, sum, 0, dx, 0, 1, &d->queue, NULL) == CLBlastSuccess,
            "CLBlastSasum");
    got = download(d, sum, 1);
    for (int i = 0; i < VECTOR; i++) {
        magnitude += fabs(x[i]);
    }
    report("asum", fabs(got[0] - magnitude), 0.05);
    free(got);

    require(CLBlastSaxpy(VECTOR, 2.5F, dx, 0, 1, dy, 0, 1, &d->queue, NULL) ==
                CLBlastSuccess,
            "CLBlastSaxpy");
    got = download(d, dy, VECTOR);
    for (int i = 0; i < VECTOR; i++) {
        error = fmax(error, fabs(got[i] - (2.5 * x[i] + y[i])));
    }
    report("axpy", error, 1e-5);
    free(got);
    clReleaseMemObject(dx);
    clReleaseMemObject(dy);
    clReleaseMemObject(sum);
    free(x);
    free(y);
}

static void
try_gemv(struct device *d)
{
    float *a = numbers(N * N), *x = numbers(N), *y = numbers(N), *got;
    cl_mem da = upload(d, a, N * N), dx = upload(d, x, N), dy = upload(d, y, N);
    double error = 0;

    require(CLBlastSgemv(CLBlastLayoutRowMajor, CLBlastTransposeNo, N, N, 1.0F, da, 0,
                         N, dx, 0, 1, 0.5F, dy, 0, 1, &d->queue,
                         NULL) == CLBlastSuccess,
            "CLBlastSgemv");
    got = download(d, dy, N);
    for (int i = 0; i < N; i++) {
        double want = 0.5 * y[i];
        for (int k = 0; k < N; k++) {
            want += (double)a[i * N + k] * x[k];
        }
        error = fmax(error, fabs(got[i] - want));
    }
    report("gemv", error, 1e-4);
    free(got);
    clReleaseMemObject(da);
    clReleaseMemObject(dx);
    clReleaseMemObject(dy);
    free(a);
    free(x);
    free(y);
}

static double
gemm_error(const float *a, const float *b, const float *c)
{
    double error = 0;

    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double want = 0;
            for (int k = 0; k < N; k++) {
                want += (double)a[i * N + k] * b[k * N + j];
            }
            error = fmax(error, fabs(c[i * N + j] - want));
        }
    }
    return error;
}

static void
try_gemm(struct device *d, const char *what)
{
    float *a = numbers(N * N), *b = numbers(N * N), *c = numbers(N * N), *got;
    cl_mem da = upload(d, a, N * N), db = upload(d, b, N * N), dc = upload(d, c, N * N);

    require(CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo,
                         N, N, N, 1.0F, da, 0, N, db, 0, N, 0.0F, dc, 0, N, &d->queue,
                         NULL) == CLBlastSuccess,
            "CLBlastSgemm");
    got = download(d, dc, N * N);
    report(what, gemm_error(a, b, got), 1e-4);
    free(got);
    clReleaseMemObject(da);
    clReleaseMemObject(db);
    clReleaseMemObject(dc);
    free(a);
    free(b);
    free(c);
}

static void
try_gemm_batched(struct device *d)
{
    const size_t each = (size_t)N * N;
    const size_t offsets[BATCH] = {0, each, 2 * each};
    const float one[BATCH] = {1, 1, 1}, zero[BATCH] = {0, 0, 0};
    float *a = numbers(BATCH * each), *b = numbers(BATCH * each), *got;
    cl_mem da = upload(d, a, BATCH * each), db = upload(d, b, BATCH * each);
    cl_mem dc = upload(d, a, BATCH * each);
    double error = 0;

    require(CLBlastSgemmBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                                CLBlastTransposeNo, N, N, N, one, da, offsets, N, db,
                                offsets, N, zero, dc, offsets, N, BATCH, &d->queue,
                                NULL) == CLBlastSuccess,
            "CLBlastSgemmBatched");
    got = download(d, dc, BATCH * each);
    for (int i = 0; i < BATCH; i++) {
        error =
            fmax(error, gemm_error(a + offsets[i], b + offsets[i], got + offsets[i]));
    }
    report("batched gemm", error, 1e-4);
    free(got);
    clReleaseMemObject(da);
    clReleaseMemObject(db);
    clReleaseMemObject(dc);
    free(a);
    free(b);
}

static void
try_device(cl_device_id id)
{
    struct device d;
    cl_int rc;

    d.context = clCreateContext(NULL, 1, &id, NULL, NULL, &rc);
    require(rc == CL_SUCCESS, "clCreateContext");
    d.queue = clCreateCommandQueue(d.context, id, 0, &rc);
    require(rc == CL_SUCCESS, "clCreateCommandQueue");
    try_vectors(&d);
    try_gemv(&d);
    try_gemm(&d, "gemm");
    try_gemm(&d, "gemm from the cache");
    try_gemm_batched(&d);
    clReleaseCommandQueue(d.queue);
    require(CLBlastClearCache() == CLBlastSuccess, "CLBlastClearCache");
    clReleaseContext(d.context);
}

static cl_uint
find_devices(const char *name, cl_device_id *devices)
{
    cl_platform_id platforms[MAX_DEVICES];
    cl_uint count = 0, found = 0;
    char text[256];

    require(clGetPlatformIDs(MAX_DEVICES, platforms, &count) == CL_SUCCESS,
            "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < MAX_DEVICES && found == 0; i++) {
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(text), text, NULL);
        if (strstr(text, name) != NULL &&
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices,
                           &found) != CL_SUCCESS) {
            found = 0;
        }
    }
    return found < MAX_DEVICES ? found : MAX_DEVICES;
}

int
main(int argc, char **argv)
{
    cl_device_id devices[MAX_DEVICES];
    cl_uint count;

    if (argc != 2) {
        fprintf(stderr, "usage: %s PLATFORM-SUBSTRING\n", argv[0]);
        return 2;
    }
    count = find_devices(argv[1], devices);
    require(count > 0, "finding a device on such a platform");
    for (cl_uint i = 0; i < count; i++) {
        try_device(devices[i]);
    }
    printf("%u devices, %d failures\n", count, failures);
    return failures != 0;
}
