/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of matrices on several devices of one context: each computes some rows of C = A * B,
 * and the first device gathers all of C. Through Telpher the devices may be on different
 * servers: then only the rows that others computed go to the first one, from server to server.
 * The entries are small whole numbers, so that sums in float are exact; C is checked against
 * A and B by a random vector.
 */
#include "example.h"

#include <getopt.h>

static const char usage[] =
    "Usage: matmul [OPTION]...\n"
    "Multiplies two matrices on the devices of an OpenCL platform.\n\n"
    "  --platform NAME  part of the platform's name (the first)\n"
    "  --devices K      use the first K devices (all)\n"
    "  -n, --size N     rows and columns, a multiple of 8 * K (1024)\n"
    "  --rounds R       products, of which the fastest counts (3)\n"
    "  --json           print one JSON object\n"
    "  --help           this text\n"
    "Exit status: 0 if the product is right.\n";

static const char source[] =
    "__kernel void multiply(__global const float *a, __global const float *b,\n"
    "                       __global float *c, uint n)\n"
    "{\n"
    "    const size_t row = get_global_id(1), column = 8 * get_global_id(0);\n"
    "    float8 sum = 0;\n"
    "    for (uint k = 0; k < n; k++) {\n"
    "        sum += a[row * n + k] * vload8(0, b + (size_t)k * n + column);\n"
    "    }\n"
    "    vstore8(sum, 0, c + row * n + column);\n"
    "}\n"
    "__kernel void add_rows(__global const float *c, uint n, __global const float *x,\n"
    "                       __global float *sums)\n"
    "{\n"
    "    const size_t row = get_global_id(0);\n"
    "    float sum = 0;\n"
    "    for (uint k = 0; k < n; k++) {\n"
    "        sum += c[row * n + k] * x[k];\n"
    "    }\n"
    "    sums[row] = sum;\n"
    "}\n";

struct matmul {
    struct example e;
    cl_kernel multiply;
    cl_uint n;
    cl_mem a, b, c;
    cl_mem a_rows[EXAMPLE_DEVICES], c_rows[EXAMPLE_DEVICES]; /* of each device */
    float *host_a, *host_b;
};

static cl_mem
rows_of(cl_mem matrix, cl_uint n, cl_uint part, cl_uint parts)
{
    const size_t size = (size_t)n * n * sizeof(float) / parts;
    const cl_buffer_region region = {part * size, size};
    cl_int status;
    cl_mem rows =
        clCreateSubBuffer(matrix, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);

    CHECK(status);
    return rows;
}

/* Whole numbers from 0 to 3: no sum of 8192 products exceeds what a float holds exactly. */
static float *
make_matrix(size_t n, unsigned seed)
{
    float *m = malloc(n * n * sizeof(*m));

    if (m == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < n * n; i++) {
        seed = seed * 1664525u + 1013904223u;
        m[i] = (float)(seed >> 30);
    }
    return m;
}

/* Sends the parts of A that each device needs, and B to each. */
static void
prepare(struct matmul *m)
{
    const size_t size = (size_t)m->n * m->n * sizeof(float);
    const cl_uint parts = m->e.count;

    m->multiply = example_kernel(&m->e, "multiply");
    m->host_a = make_matrix(m->n, 1);
    m->host_b = make_matrix(m->n, 2);
    m->a = example_buffer(&m->e, size);
    m->b = example_buffer(&m->e, size);
    m->c = example_buffer(&m->e, size);
    CHECK(clEnqueueWriteBuffer(m->e.queues[0], m->b, CL_TRUE, 0, size, m->host_b, 0,
                               NULL, NULL));
    for (cl_uint i = 0; i < parts; i++) {
        m->a_rows[i] = rows_of(m->a, m->n, i, parts);
        m->c_rows[i] = rows_of(m->c, m->n, i, parts);
        CHECK(clEnqueueWriteBuffer(
            m->e.queues[i], m->a_rows[i], CL_TRUE, 0, size / parts,
            m->host_a + i * (size_t)m->n * m->n / parts, 0, NULL, NULL));
        CHECK(clEnqueueMigrateMemObjects(m->e.queues[i], 1, &m->b, 0, 0, NULL, NULL));
        CHECK(clFinish(m->e.queues[i]));
    }
}

static void
release(struct matmul *m)
{
    for (cl_uint i = 0; i < m->e.count; i++) {
        CHECK(clReleaseMemObject(m->a_rows[i]));
        CHECK(clReleaseMemObject(m->c_rows[i]));
    }
    CHECK(clReleaseMemObject(m->a));
    CHECK(clReleaseMemObject(m->b));
    CHECK(clReleaseMemObject(m->c));
    CHECK(clReleaseKernel(m->multiply));
    example_close(&m->e);
    free(m->host_a);
    free(m->host_b);
}

/* Computes C and gathers it on the first device; gives the time of both. */
static double
multiply(struct matmul *m)
{
    const size_t size[2] = {m->n / 8, m->n / m->e.count};
    const double begin = example_now_ms();
    cl_event done[EXAMPLE_DEVICES];

    for (cl_uint i = 0; i < m->e.count; i++) {
        example_argument(m->multiply, 0, sizeof(cl_mem), &m->a_rows[i]);
        example_argument(m->multiply, 1, sizeof(cl_mem), &m->b);
        example_argument(m->multiply, 2, sizeof(cl_mem), &m->c_rows[i]);
        example_argument(m->multiply, 3, sizeof(m->n), &m->n);
        CHECK(clEnqueueNDRangeKernel(m->e.queues[i], m->multiply, 2, NULL, size, NULL,
                                     0, NULL, &done[i]));
        CHECK(clFlush(m->e.queues[i]));
    }
    CHECK(clEnqueueMigrateMemObjects(m->e.queues[0], 1, &m->c, 0, m->e.count, done,
                                     NULL));
    CHECK(clFinish(m->e.queues[0]));
    for (cl_uint i = 0; i < m->e.count; i++) {
        CHECK(clReleaseEvent(done[i]));
    }
    return example_now_ms() - begin;
}

/* Compares C * x, by the first device, with A * (B * x), for a vector of zeros and ones. */
static int
is_right(const struct matmul *m)
{
    const size_t n = m->n, bytes = n * sizeof(float);
    float *x = calloc(3 * n, sizeof(*x)), *bx = x + n, *found = x + 2 * n;
    cl_kernel add_rows = example_kernel(&m->e, "add_rows");
    cl_mem vector = example_buffer(&m->e, bytes), sums = example_buffer(&m->e, bytes);
    size_t wrong = 0;

    for (size_t k = 0; k < 16; k++) { /* few ones: the sums stay exact */
        x[(k * 2654435761u + 7) % n] = 1;
    }
    CHECK(clEnqueueWriteBuffer(m->e.queues[0], vector, CL_TRUE, 0, bytes, x, 0, NULL,
                               NULL));
    example_argument(add_rows, 0, sizeof(cl_mem), &m->c);
    example_argument(add_rows, 1, sizeof(m->n), &m->n);
    example_argument(add_rows, 2, sizeof(cl_mem), &vector);
    example_argument(add_rows, 3, sizeof(cl_mem), &sums);
    CHECK(clEnqueueNDRangeKernel(m->e.queues[0], add_rows, 1, NULL, &n, NULL, 0, NULL,
                                 NULL));
    CHECK(clEnqueueReadBuffer(m->e.queues[0], sums, CL_TRUE, 0, bytes, found, 0, NULL,
                              NULL));
    for (size_t row = 0; row < n; row++) {
        for (size_t k = 0; k < n; k++) {
            bx[row] += m->host_b[row * n + k] * x[k];
        }
    }
    for (size_t row = 0; row < n; row++) {
        float want = 0;

        for (size_t k = 0; k < n; k++) {
            want += m->host_a[row * n + k] * bx[k];
        }
        wrong += want != found[row];
    }
    CHECK(clReleaseMemObject(vector));
    CHECK(clReleaseMemObject(sums));
    CHECK(clReleaseKernel(add_rows));
    free(x);
    return wrong == 0;
}

struct options {
    const char *platform;
    size_t devices, n, rounds;
    int json;
};

static int
measure(struct matmul *m, const struct options *o)
{
    double best = 0, rate;
    int right;

    for (size_t i = 0; i <= o->rounds; i++) { /* the first also arranges streams */
        const double ms = multiply(m);

        best = i == 1 || (i > 0 && ms < best) ? ms : best;
    }
    right = is_right(m);
    rate = 2e-6 * (double)o->n * (double)o->n * (double)o->n / best;
    if (o->json) {
        printf("{\"example\": \"matmul\", \"devices\": %u, \"n\": %zu, \"ms\": %.2f, "
               "\"gflops\": %.2f, \"right\": %s}\n",
               m->e.count, o->n, best, rate, right ? "true" : "false");
    } else {
        printf("%u devices, %zu x %zu: %.2f ms, %.2f GFLOP/s, %s\n", m->e.count, o->n,
               o->n, best, rate, right ? "right" : "WRONG");
    }
    return right;
}

static void
read_option(struct options *o, int c)
{
    switch (c) {
    case 'p':
        o->platform = optarg;
        break;
    case 'd':
        o->devices = example_number(optarg, 1, EXAMPLE_DEVICES);
        break;
    case 'n':
        o->n = example_number(optarg, 8, 8192);
        break;
    case 'r':
        o->rounds = example_number(optarg, 1, 1000);
        break;
    case 'j':
        o->json = 1;
        break;
    default:
        fputs(usage, c == 'h' ? stdout : stderr);
        exit(c == 'h' ? EXIT_SUCCESS : 2);
    }
}

int
main(int argc, char **argv)
{
    static const struct option longs[] = {{"platform", required_argument, NULL, 'p'},
                                          {"devices", required_argument, NULL, 'd'},
                                          {"size", required_argument, NULL, 'n'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.platform = "", .n = 1024, .rounds = 3};
    struct matmul m = {.n = 0};
    int right;

    for (int c; (c = getopt_long(argc, argv, "n:h", longs, NULL)) != -1;) {
        read_option(&o, c);
    }
    example_open(&m.e, o.platform, (cl_uint)o.devices, source);
    if (o.n % (8 * m.e.count) != 0) {
        fprintf(stderr, "matmul: %zu is not a multiple of 8 * %u\n", o.n, m.e.count);
        return 2;
    }
    m.n = (cl_uint)o.n;
    prepare(&m);
    right = measure(&m, &o);
    release(&m);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
