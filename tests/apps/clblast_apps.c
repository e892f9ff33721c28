/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: clblast_apps PLATFORM-SUBSTRING
 *
 * CLBlast's routines as its sample programs use them, on each device of the platform,
 * then one product of matrices that goes through all devices of one context. Each check
 * prints a line "device 0, sgemm: right DIGEST": right by the answer computed here, and
 * the digest lets two drivers be compared bit for bit.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>
#include <clblast_half.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96, BATCH = 3, VECTOR = 10000, MAX_DEVICES = 16 };
enum type { HALF = 2, SINGLE = 4, DOUBLE = 8 }; /* the size of a number */

struct device {
    unsigned index;
    cl_context context;
    cl_command_queue queue;
};

/* Random numbers between -0.5 and 0.5, here and on the device. */
struct array {
    enum type type;
    size_t count;
    void *host;
    cl_mem mem;
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

static void *
memory(size_t bytes)
{
    void *p = calloc(1, bytes);

    require(p != NULL, "calloc");
    return p;
}

static double
at(const struct array *a, size_t i)
{
    switch (a->type) {
    case HALF:
        return HalfToFloat(((const half *)a->host)[i]);
    case SINGLE:
        return ((const float *)a->host)[i];
    default:
        return ((const double *)a->host)[i];
    }
}

static void
set(struct array *a, size_t i, double x)
{
    switch (a->type) {
    case HALF:
        ((half *)a->host)[i] = FloatToHalf((float)x);
        break;
    case SINGLE:
        ((float *)a->host)[i] = (float)x;
        break;
    default:
        ((double *)a->host)[i] = x;
    }
}

static void
upload(const struct device *d, struct array *a)
{
    cl_int rc;

    a->mem = clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            a->count * a->type, a->host, &rc);
    require(rc == CL_SUCCESS, "clCreateBuffer");
}

static struct array
make(const struct device *d, enum type type, size_t count)
{
    struct array a = {type, count, memory(count * type), NULL};

    for (size_t i = 0; i < count; i++) {
        set(&a, i, (double)rand() / RAND_MAX - 0.5);
    }
    upload(d, &a);
    return a;
}

static void
drop(struct array *a)
{
    free(a->host);
    clReleaseMemObject(a->mem);
}

static unsigned long long
digest(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 14695981039346656037U; /* FNV-1a */

    for (size_t i = 0; i < len; i++) {
        h = (h ^ p[i]) * 1099511628211U;
    }
    return h;
}

/* Reads @p result into its host memory and compares it with @p want, which it frees. */
static void
check(const struct device *d, const char *what, CLBlastStatusCode rc,
      struct array *result, double *want, double most)
{
    double error = 0;

    if (rc == CLBlastSuccess) {
        rc = (CLBlastStatusCode)clEnqueueReadBuffer(d->queue, result->mem, CL_TRUE, 0,
                                                    result->count * result->type,
                                                    result->host, 0, NULL, NULL);
    }
    if (rc == CLBlastNoHalfPrecision || rc == CLBlastNoDoublePrecision) {
        printf("device %u, %s: refused, no such numbers\n", d->index, what);
    } else if (rc != CLBlastSuccess) {
        printf("device %u, %s: WRONG, status %d\n", d->index, what, (int)rc);
        failures++;
    } else {
        for (size_t i = 0; i < result->count; i++) {
            error = fmax(error, fabs(at(result, i) - want[i]));
        }
        printf("device %u, %s: %s %016llx\n", d->index, what,
               error <= most ? "right" : "WRONG",
               digest(result->host, result->count * result->type));
        failures += !(error <= most);
    }
    free(want);
}

/* --- vectors -------------------------------------------------------------------- */

static void
try_sums(struct device *d)
{
    struct array x = make(d, SINGLE, VECTOR), y = make(d, SINGLE, VECTOR);
    struct array sum = make(d, SINGLE, 1);
    double *want[3] = {memory(8), memory(8), memory(8)};

    for (size_t i = 0; i < VECTOR; i++) {
        *want[0] += fabs(at(&x, i));
        *want[1] += at(&x, i) * at(&y, i);
        *want[2] += at(&x, i) * at(&x, i);
    }
    *want[2] = sqrt(*want[2]);
    check(d, "sasum", CLBlastSasum(VECTOR, sum.mem, 0, x.mem, 0, 1, &d->queue, NULL),
          &sum, want[0], 0.05);
    check(d, "sdot",
          CLBlastSdot(VECTOR, sum.mem, 0, x.mem, 0, 1, y.mem, 0, 1, &d->queue, NULL),
          &sum, want[1], 0.01);
    check(d, "snrm2", CLBlastSnrm2(VECTOR, sum.mem, 0, x.mem, 0, 1, &d->queue, NULL),
          &sum, want[2], 0.01);
    drop(&x);
    drop(&y);
    drop(&sum);
}

static double *
axpy_wanted(double alpha, const struct array *x, const struct array *y)
{
    double *want = memory(x->count * sizeof(*want));

    for (size_t i = 0; i < x->count; i++) {
        want[i] = alpha * at(x, i) + at(y, i);
    }
    return want;
}

static void
try_axpy(struct device *d)
{
    struct array x = make(d, SINGLE, VECTOR), y = make(d, SINGLE, VECTOR);
    struct array hx = make(d, HALF, VECTOR), hy = make(d, HALF, VECTOR);
    cl_event done = NULL;
    CLBlastStatusCode rc =
        CLBlastSaxpy(VECTOR, 2.5F, x.mem, 0, 1, y.mem, 0, 1, &d->queue, &done);

    require(done != NULL && clWaitForEvents(1, &done) == CL_SUCCESS, "clWaitForEvents");
    clReleaseEvent(done);
    check(d, "saxpy", rc, &y, axpy_wanted(2.5, &x, &y), 1e-6);
    check(d, "haxpy",
          CLBlastHaxpy(VECTOR, FloatToHalf(2.5F), hx.mem, 0, 1, hy.mem, 0, 1, &d->queue,
                       NULL),
          &hy, axpy_wanted(2.5, &hx, &hy), 1e-2);
    drop(&x);
    drop(&y);
    drop(&hx);
    drop(&hy);
}

/* --- matrices ------------------------------------------------------------------- */

/* The product of the matrices that begin at number @p from of a and b. */
static void
multiply(const struct array *a, const struct array *b, size_t from, double *c)
{
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            double sum = 0;
            for (size_t k = 0; k < N; k++) {
                sum += at(a, from + i * N + k) * at(b, from + k * N + j);
            }
            c[from + i * N + j] = sum;
        }
    }
}

static double *
products(const struct array *a, const struct array *b)
{
    double *c = memory(a->count * sizeof(*c));

    for (size_t from = 0; from < a->count; from += (size_t)N * N) {
        multiply(a, b, from, c);
    }
    return c;
}

static void
try_gemv(struct device *d)
{
    struct array a = make(d, DOUBLE, N * N), x = make(d, DOUBLE, N);
    struct array y = make(d, DOUBLE, N);
    double *want = memory(N * sizeof(*want));

    for (size_t i = 0; i < N; i++) {
        want[i] = 0.5 * at(&y, i);
        for (size_t k = 0; k < N; k++) {
            want[i] += at(&a, i * N + k) * at(&x, k);
        }
    }
    check(d, "dgemv",
          CLBlastDgemv(CLBlastLayoutRowMajor, CLBlastTransposeNo, N, N, 1.0, a.mem, 0,
                       N, x.mem, 0, 1, 0.5, y.mem, 0, 1, &d->queue, NULL),
          &y, want, 1e-12);
    drop(&a);
    drop(&x);
    drop(&y);
}

static CLBlastStatusCode
gemm(cl_command_queue *queue, const struct array *a, const struct array *b,
     struct array *c)
{
    return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo,
                        N, N, N, 1.0F, a->mem, 0, N, b->mem, 0, N, 0.0F, c->mem, 0, N,
                        queue, NULL);
}

static void
try_gemm(struct device *d, const char *what)
{
    struct array a = make(d, SINGLE, N * N), b = make(d, SINGLE, N * N);
    struct array c = make(d, SINGLE, N * N);

    check(d, what, gemm(&d->queue, &a, &b, &c), &c, products(&a, &b), 1e-5);
    drop(&a);
    drop(&b);
    drop(&c);
}

static void
try_gemm_batched(struct device *d)
{
    const size_t each = (size_t)N * N, offsets[BATCH] = {0, each, 2 * each};
    const float one[BATCH] = {1, 1, 1}, zero[BATCH] = {0, 0, 0};
    struct array a = make(d, SINGLE, BATCH * each), b = make(d, SINGLE, BATCH * each);
    struct array c = make(d, SINGLE, BATCH * each);

    check(d, "sgemm, batched",
          CLBlastSgemmBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                              CLBlastTransposeNo, N, N, N, one, a.mem, offsets, N,
                              b.mem, offsets, N, zero, c.mem, offsets, N, BATCH,
                              &d->queue, NULL),
          &c, products(&a, &b), 1e-5);
    check(d, "sgemm, strided and batched",
          CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                                     CLBlastTransposeNo, N, N, N, 1, a.mem, 0, N, each,
                                     b.mem, 0, N, each, 0, c.mem, 0, N, each, BATCH,
                                     &d->queue, NULL),
          &c, products(&a, &b), 1e-5);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* Solves a * x = b for an upper triangle a whose diagonal makes it well conditioned. */
static void
try_trsm(struct device *d)
{
    struct array a = make(d, DOUBLE, N * N), b = make(d, DOUBLE, N * N);
    double *x = memory(b.count * sizeof(*x));

    clReleaseMemObject(a.mem);
    for (size_t i = 0; i < N; i++) {
        set(&a, i * N + i, N);
    }
    upload(d, &a);
    for (size_t i = N; i-- > 0;) {
        for (size_t j = 0; j < N; j++) {
            double sum = at(&b, i * N + j);
            for (size_t k = i + 1; k < N; k++) {
                sum -= at(&a, i * N + k) * x[k * N + j];
            }
            x[i * N + j] = sum / N;
        }
    }
    check(d, "dtrsm",
          CLBlastDtrsm(CLBlastLayoutRowMajor, CLBlastSideLeft, CLBlastTriangleUpper,
                       CLBlastTransposeNo, CLBlastDiagonalNonUnit, N, N, 1.0, a.mem, 0,
                       N, b.mem, 0, N, &d->queue, NULL),
          &b, x, 1e-12);
    drop(&a);
    drop(&b);
}

static void
try_transposed_copy(struct device *d)
{
    struct array a = make(d, SINGLE, N * N), b = make(d, SINGLE, N * N);
    double *want = memory(a.count * sizeof(*want));

    for (size_t i = 0; i < a.count; i++) {
        want[i % N * N + i / N] = 2 * at(&a, i);
    }
    check(d, "somatcopy",
          CLBlastSomatcopy(CLBlastLayoutRowMajor, CLBlastTransposeYes, N, N, 2.0F,
                           a.mem, 0, N, b.mem, 0, N, &d->queue, NULL),
          &b, want, 1e-6);
    drop(&a);
    drop(&b);
}

static void
try_device(unsigned index, cl_device_id id)
{
    struct device d = {.index = index};
    cl_int rc;

    d.context = clCreateContext(NULL, 1, &id, NULL, NULL, &rc);
    require(rc == CL_SUCCESS, "clCreateContext");
    d.queue = clCreateCommandQueue(d.context, id, 0, &rc);
    require(rc == CL_SUCCESS, "clCreateCommandQueue");
    try_sums(&d);
    try_axpy(&d);
    try_gemv(&d);
    try_gemm(&d, "sgemm");
    try_gemm(&d, "sgemm from the cache");
    try_gemm_batched(&d);
    try_trsm(&d);
    try_transposed_copy(&d);
    clReleaseCommandQueue(d.queue);
    require(CLBlastClearCache() == CLBlastSuccess, "CLBlastClearCache");
    clReleaseContext(d.context);
}

/* c = a * b on one device after another, each taking the last one's product as its a. */
static void
try_all_devices(cl_device_id *ids, unsigned count)
{
    struct device d = {.index = count - 1};
    struct array a, b, c, spare;
    double *want = NULL;
    cl_int rc;

    d.context = clCreateContext(NULL, count, ids, NULL, NULL, &rc);
    require(rc == CL_SUCCESS, "clCreateContext of all devices");
    a = make(&d, SINGLE, N * N), b = make(&d, SINGLE, N * N);
    c = make(&d, SINGLE, N * N);
    for (unsigned i = 0; i < count; i++) {
        cl_command_queue queue = clCreateCommandQueue(d.context, ids[i], 0, &rc);

        require(rc == CL_SUCCESS, "clCreateCommandQueue");
        require(gemm(&queue, &a, &b, &c) == CLBlastSuccess, "CLBlastSgemm");
        require(clFinish(queue) == CL_SUCCESS, "clFinish");
        free(want);
        want = products(&a, &b);
        for (size_t k = 0; k < a.count; k++) {
            set(&c, k, want[k]); /* what the next a is, up to rounding */
        }
        spare = a, a = c, c = spare;
        d.queue = queue;
        if (i + 1 < count) {
            clReleaseCommandQueue(queue);
        }
    }
    check(&d, "sgemm through all devices", CLBlastSuccess, &a, want, 1e-4);
    clReleaseCommandQueue(d.queue);
    drop(&a);
    drop(&b);
    drop(&c);
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
        try_device(i, devices[i]);
    }
    try_all_devices(devices, count);
    return failures != 0;
}
