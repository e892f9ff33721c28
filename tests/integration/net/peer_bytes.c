/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that peer_bytes.py runs: parts of buffers go between four servers. Each line
 * `NAME BYTES CONTENT` has the bytes that passed the loopback interface of this network
 * namespace, and the content that some server needed of another. Results are checked.
 *
 *     peer_bytes gather   rows of a product, one part a server, all read by the first
 *     peer_bytes halo     a stencil of rows: 1,000 exchanges of one row
 *     peer_bytes sized    two servers elsewhere, a buffer of 4 MiB of which a kernel says, in its
 *                         size buffer (cl_pocl_content_size), that 64 KiB have a meaning: bytes on
 *                         link0 when another server used it, and when the program read it
 *     peer_bytes chain    200 kernels without content in common, which alternate between two servers,
 *                         each after the event of the last: `chain MS`, the time of the whole chain
 *     peer_bytes edges    commands write the first and the last row of a buffer of 64 MiB, which has a
 *                         copy on a second server (TELPHER_KEEP_COPIES)
 *     peer_bytes ring N   a buffer that visits N servers and comes back; prints its time, too
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <telpher/interop/CL/cl_ext_pocl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SERVERS_MAX = 64,
    SERVERS = 4,
    COLUMNS = 1024, /* of a row, 4 KiB */
    ROWS = 64, /* of the stencil's grid */
    OWN = ROWS / SERVERS,
    STEPS = 167, /* of 6 exchanges: each neighbour's border row */
    PRODUCT = 512, /* rows and columns of the product */
    RING_BYTES = 1 << 20,
    CHAIN_KERNELS = 200,
    SIZED_BYTES = 4 << 20,
    MEANT_BYTES = 64 << 10,
    GRID_BYTES = 64 << 20,
    EDGE_STEPS = 10,
};

static const char source[] =
    "kernel void product(global uint *c, uint first, uint n)\n"
    "{ size_t row = get_global_id(1), column = get_global_id(0); uint sum = 0;\n"
    "  for (uint k = 0; k < 8; k++) { sum += (first + row + k) * (column + 3 * k); }\n"
    "  c[row * n + column] = sum; }\n"
    "kernel void add_up(const global uint *c, uint n, global uint *rows)\n"
    "{ uint sum = 0; size_t row = get_global_id(0);\n"
    "  for (uint i = 0; i < n; i++) { sum += c[row * n + i]; } rows[row] = sum; }\n"
    "kernel void stencil(const global uint *old, global uint *new, uint above, uint "
    "below)\n"
    "{ size_t column = get_global_id(0), row = get_global_id(1);\n"
    "  size_t n = get_global_size(0), at = (row + above) * n + column;\n"
    "  uint up = row > 0 || above ? old[at - n] : 0;\n"
    "  uint down = row + 1 < get_global_size(1) || below ? old[at + n] : 0;\n"
    "  new[row * n + column] = up + 2 * old[at] + down + 1; }\n"
    "kernel void produce(global uint *a, uint value, global ulong *size)\n"
    "{ a[get_global_id(0)] = value; *size = get_global_size(0) * 4; }\n"
    "kernel void add_one(global uint *a) { a[get_global_id(0)] += 1; }\n"
    "kernel void edges(global uint *first, global uint *last)\n"
    "{ first[get_global_id(0)] += 1; last[get_global_id(0)] += 3; }\n";

struct program {
    cl_platform_id platform;
    cl_context context;
    cl_command_queue queue[SERVERS_MAX]; /* one of each server */
    cl_kernel product, add_up, step, produce, add_one, edges;
};

static void
check(cl_int err, const char *what)
{
    if (err != CL_SUCCESS) {
        (void)fprintf(stderr, "%s: error %d\n", what, err);
        exit(1);
    }
}

static double
now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Bytes that an interface of this network namespace received and sent. */
static unsigned long long
interface_bytes(const char *name)
{
    unsigned long long in, out, sum = 0;
    char line[512];
    FILE *file = fopen("/proc/self/net/dev", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':'), *found = strstr(line, name);

        if (colon != NULL && found != NULL && found + strlen(name) == colon &&
            sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) ==
                2) {
            sum = in + out;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return sum;
}

/* The loopback interface receives what it sends. */
static unsigned long long
loopback_bytes(void)
{
    return interface_bytes("lo") / 2;
}

static cl_kernel
find_kernel(cl_program program, const char *name)
{
    cl_int err;
    cl_kernel kernel = clCreateKernel(program, name, &err);

    check(err, name);
    return kernel;
}

static void
open_program(struct program *p, cl_uint servers)
{
    const char *text = source;
    cl_device_id device[SERVERS_MAX];
    cl_program program;
    cl_uint count = 0;
    cl_int err;

    check(clGetPlatformIDs(1, &p->platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(p->platform, CL_DEVICE_TYPE_ALL, SERVERS_MAX, device, &count),
          "devices");
    if (count != servers) {
        (void)fprintf(stderr, "%u devices instead of %u\n", count, servers);
        exit(1);
    }
    p->context = clCreateContext(NULL, count, device, NULL, NULL, &err);
    check(err, "clCreateContext");
    for (cl_uint i = 0; i < count; i++) {
        p->queue[i] =
            clCreateCommandQueueWithProperties(p->context, device[i], NULL, &err);
        check(err, "clCreateCommandQueueWithProperties");
    }
    program = clCreateProgramWithSource(p->context, 1, &text, NULL, &err);
    check(err, "clCreateProgramWithSource");
    check(clBuildProgram(program, 0, NULL, "", NULL, NULL), "clBuildProgram");
    p->product = find_kernel(program, "product");
    p->add_up = find_kernel(program, "add_up");
    p->step = find_kernel(program, "stencil");
    p->produce = find_kernel(program, "produce");
    p->add_one = find_kernel(program, "add_one");
    p->edges = find_kernel(program, "edges");
    check(clReleaseProgram(program), "clReleaseProgram");
}

static void
close_program(struct program *p, cl_uint servers)
{
    const cl_kernel kernels[] = {p->product, p->add_up,  p->step,
                                 p->produce, p->add_one, p->edges};

    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        check(clReleaseKernel(kernels[i]), "clReleaseKernel");
    }
    for (cl_uint i = 0; i < servers; i++) {
        check(clReleaseCommandQueue(p->queue[i]), "clReleaseCommandQueue");
    }
    check(clReleaseContext(p->context), "clReleaseContext");
}

static cl_mem
create_buffer(const struct program *p, size_t size)
{
    cl_int err;
    cl_mem mem = clCreateBuffer(p->context, CL_MEM_READ_WRITE, size, NULL, &err);

    check(err, "clCreateBuffer");
    return mem;
}

static cl_mem
create_part(cl_mem mem, size_t from, size_t size)
{
    const cl_buffer_region region = {from, size};
    cl_int err;
    cl_mem part =
        clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);

    check(err, "clCreateSubBuffer");
    return part;
}

static void
set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    check(clSetKernelArg(kernel, index, size, value), "clSetKernelArg");
}

static void
finish_all(const struct program *p, cl_uint servers)
{
    for (cl_uint i = 0; i < servers; i++) {
        check(clFinish(p->queue[i]), "clFinish");
    }
}

static void
expect(cl_uint got, cl_uint want, const char *what, size_t at)
{
    if (got != want) {
        (void)fprintf(stderr, "%s %zu is %u, not %u\n", what, at, got, want);
        exit(1);
    }
}

/* ---- rows of a product ---- */

static cl_uint
product_at(cl_uint row, cl_uint column)
{
    cl_uint sum = 0;

    for (cl_uint k = 0; k < 8; k++) {
        sum += (row + k) * (column + 3 * k);
    }
    return sum;
}

/* Each server computes its rows; the first adds up all of them. */
static void
gather_once(struct program *p, cl_mem c, cl_mem sums)
{
    const cl_uint own = PRODUCT / SERVERS, n = PRODUCT;
    const size_t size[2] = {PRODUCT, PRODUCT / SERVERS}, rows = PRODUCT;
    cl_event done[SERVERS];

    for (cl_uint i = 0; i < SERVERS; i++) {
        cl_mem part = create_part(c, (size_t)i * own * n * 4, (size_t)own * n * 4);
        cl_uint first = i * own;

        set_argument(p->product, 0, sizeof(part), &part);
        set_argument(p->product, 1, sizeof(first), &first);
        set_argument(p->product, 2, sizeof(n), &n);
        check(clEnqueueNDRangeKernel(p->queue[i], p->product, 2, NULL, size, NULL, 0,
                                     NULL, &done[i]),
              "product");
        check(clReleaseMemObject(part), "clReleaseMemObject");
    }
    set_argument(p->add_up, 0, sizeof(c), &c);
    set_argument(p->add_up, 1, sizeof(n), &n);
    set_argument(p->add_up, 2, sizeof(sums), &sums);
    check(clEnqueueNDRangeKernel(p->queue[0], p->add_up, 1, NULL, &rows, NULL, SERVERS,
                                 done, NULL),
          "add_up");
    finish_all(p, SERVERS);
    for (cl_uint i = 0; i < SERVERS; i++) {
        check(clReleaseEvent(done[i]), "clReleaseEvent");
    }
}

static void
run_gather(struct program *p)
{
    static cl_uint found[PRODUCT];
    cl_mem c = create_buffer(p, PRODUCT * PRODUCT * 4);
    cl_mem sums = create_buffer(p, sizeof(found));
    unsigned long long bytes;

    gather_once(p, c, sums); /* the streams are there after it */
    bytes = loopback_bytes();
    gather_once(p, c, sums);
    bytes = loopback_bytes() - bytes;
    check(clEnqueueReadBuffer(p->queue[0], sums, CL_TRUE, 0, sizeof(found), found, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    for (cl_uint row = 0; row < PRODUCT; row++) {
        cl_uint want = 0;

        for (cl_uint column = 0; column < PRODUCT; column++) {
            want += product_at(row, column);
        }
        expect(found[row], want, "sum of row", row);
    }
    (void)printf("gather %llu %d\n", bytes,
                 PRODUCT * PRODUCT * 4 / SERVERS * (SERVERS - 1));
    check(clReleaseMemObject(c), "clReleaseMemObject");
    check(clReleaseMemObject(sums), "clReleaseMemObject");
}

/* ---- the stencil ---- */

/* The parts of one of the two grids that each server reads and writes. */
struct grid {
    cl_mem all;
    cl_mem own[SERVERS]; /* its rows */
    cl_mem near[SERVERS]; /* with a row of each neighbour */
};

static void
create_grid(const struct program *p, struct grid *g)
{
    const size_t row = COLUMNS * 4;

    g->all = create_buffer(p, ROWS * row);
    for (size_t i = 0; i < SERVERS; i++) {
        size_t above = i > 0, below = i + 1 < SERVERS;

        g->own[i] = create_part(g->all, i * OWN * row, OWN * row);
        g->near[i] =
            create_part(g->all, (i * OWN - above) * row, (OWN + above + below) * row);
    }
}

static void
release_grid(struct grid *g)
{
    for (int i = 0; i < SERVERS; i++) {
        check(clReleaseMemObject(g->own[i]), "clReleaseMemObject");
        check(clReleaseMemObject(g->near[i]), "clReleaseMemObject");
    }
    check(clReleaseMemObject(g->all), "clReleaseMemObject");
}

/* Steps from g[0] to g[1], back, and so on; each step of a server waits for the last one of
 * itself and its neighbours. */
static void
run_steps(struct program *p, struct grid *g, int steps)
{
    const size_t size[2] = {COLUMNS, OWN};
    cl_event last[SERVERS] = {NULL};

    for (int k = 0; k < steps; k++) {
        cl_event done[SERVERS];

        for (cl_uint i = 0; i < SERVERS; i++) {
            const cl_uint above = i > 0, below = i + 1 < SERVERS;
            const cl_uint waits = k > 0 ? 1 + above + below : 0;

            set_argument(p->step, 0, sizeof(cl_mem), &g[k % 2].near[i]);
            set_argument(p->step, 1, sizeof(cl_mem), &g[1 - k % 2].own[i]);
            set_argument(p->step, 2, sizeof(above), &above);
            set_argument(p->step, 3, sizeof(below), &below);
            check(clEnqueueNDRangeKernel(p->queue[i], p->step, 2, NULL, size, NULL,
                                         waits, waits > 0 ? &last[i - above] : NULL,
                                         &done[i]),
                  "step");
        }
        for (int i = 0; i < SERVERS; i++) {
            if (last[i] != NULL) {
                check(clReleaseEvent(last[i]), "clReleaseEvent");
            }
            last[i] = done[i];
        }
        if (k % 8 == 7) {
            finish_all(p, SERVERS);
        }
    }
    finish_all(p, SERVERS);
    for (int i = 0; i < SERVERS; i++) {
        check(clReleaseEvent(last[i]), "clReleaseEvent");
    }
}

/* All columns are alike, since all begin with zeros. */
static void
compute_rows(int steps, cl_uint rows[ROWS])
{
    cl_uint old[ROWS + 2] = {0}, new[ROWS + 2] = {0};

    for (int k = 0; k < steps; k++) {
        for (int i = 1; i <= ROWS; i++) {
            new[i] = old[i - 1] + 2 * old[i] + old[i + 1] + 1;
        }
        memcpy(old, new, sizeof(old));
    }
    memcpy(rows, old + 1, ROWS * sizeof(rows[0]));
}

static void
run_halo(struct program *p)
{
    enum { WARM = 2 }; /* even: the grids change their roles */
    static cl_uint found[ROWS * COLUMNS];
    const cl_uint zero = 0;
    cl_uint want[ROWS];
    unsigned long long bytes;
    struct grid g[2];

    create_grid(p, &g[0]);
    create_grid(p, &g[1]);
    check(clEnqueueFillBuffer(p->queue[0], g[0].all, &zero, 4, 0, sizeof(found), 0,
                              NULL, NULL),
          "clEnqueueFillBuffer");
    finish_all(p, 1);
    run_steps(p, g, WARM);
    bytes = loopback_bytes();
    run_steps(p, g, STEPS);
    bytes = loopback_bytes() - bytes;
    check(clEnqueueReadBuffer(p->queue[0], g[(WARM + STEPS) % 2].all, CL_TRUE, 0,
                              sizeof(found), found, 0, NULL, NULL),
          "clEnqueueReadBuffer");
    compute_rows(WARM + STEPS, want);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        expect(found[i], want[i / COLUMNS], "number", i);
    }
    (void)printf("halo %llu %d\n", bytes, STEPS * 2 * (SERVERS - 1) * COLUMNS * 4);
    release_grid(&g[0]);
    release_grid(&g[1]);
}

/* ---- a ring ---- */

static void
visit_all(struct program *p, cl_uint servers)
{
    const size_t count = RING_BYTES / 4;
    cl_event last = NULL;

    for (cl_uint i = 0; i <= servers; i++) { /* and back */
        cl_event done;

        check(clEnqueueNDRangeKernel(p->queue[i % servers], p->add_one, 1, NULL, &count,
                                     NULL, last != NULL, last != NULL ? &last : NULL,
                                     &done),
              "add_one");
        if (last != NULL) {
            check(clReleaseEvent(last), "clReleaseEvent");
        }
        last = done;
    }
    check(clWaitForEvents(1, &last), "clWaitForEvents");
    check(clReleaseEvent(last), "clReleaseEvent");
}

static void
run_ring(struct program *p, cl_uint servers)
{
    static cl_uint found[RING_BYTES / 4];
    cl_mem mem = create_buffer(p, sizeof(found));
    const cl_uint zero = 0;
    unsigned long long bytes;
    double begin = now_ms(), first, second;

    check(clEnqueueFillBuffer(p->queue[0], mem, &zero, 4, 0, sizeof(found), 0, NULL,
                              NULL),
          "clEnqueueFillBuffer");
    set_argument(p->add_one, 0, sizeof(mem), &mem);
    visit_all(p, servers);
    first = now_ms() - begin;
    bytes = loopback_bytes();
    begin = now_ms();
    visit_all(p, servers);
    second = now_ms() - begin;
    bytes = loopback_bytes() - bytes;
    check(clEnqueueReadBuffer(p->queue[0], mem, CL_TRUE, 0, sizeof(found), found, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    for (size_t i = 0; i < RING_BYTES / 4; i++) {
        expect(found[i], 2 * (servers + 1), "number", i);
    }
    (void)printf("ring %llu %llu %.1f %.1f\n", bytes,
                 (unsigned long long)servers * RING_BYTES, first, second);
    check(clReleaseMemObject(mem), "clReleaseMemObject");
}

/* ---- the edges of a grid ---- */

static void
write_edges(struct program *p, int steps)
{
    const size_t columns = COLUMNS;

    for (int i = 0; i < steps; i++) {
        check(clEnqueueNDRangeKernel(p->queue[0], p->edges, 1, NULL, &columns, NULL, 0,
                                     NULL, NULL),
              "edges");
        check(clFinish(p->queue[0]), "clFinish");
    }
}

static void
run_edges(struct program *p)
{
    const size_t row = COLUMNS * 4;
    const cl_uint zero = 0;
    static cl_uint found[COLUMNS];
    unsigned long long bytes;
    cl_mem grid = create_buffer(p, GRID_BYTES), edge[2];

    edge[0] = create_part(grid, 0, row);
    edge[1] = create_part(grid, GRID_BYTES - row, row);
    for (cl_uint i = 0; i < 2; i++) {
        check(
            clEnqueueFillBuffer(p->queue[0], edge[i], &zero, 4, 0, row, 0, NULL, NULL),
            "clEnqueueFillBuffer");
        set_argument(p->edges, i, sizeof(edge[i]), &edge[i]);
    }
    write_edges(p, 1); /* the copy is there after it */
    bytes = loopback_bytes();
    write_edges(p, EDGE_STEPS);
    bytes = loopback_bytes() - bytes;
    for (cl_uint i = 0; i < 2; i++) {
        check(clEnqueueReadBuffer(p->queue[0], edge[i], CL_TRUE, 0, row, found, 0, NULL,
                                  NULL),
              "clEnqueueReadBuffer");
        for (size_t k = 0; k < COLUMNS; k++) {
            expect(found[k], (EDGE_STEPS + 1) * (i == 0 ? 1 : 3), "number", k);
        }
        check(clReleaseMemObject(edge[i]), "clReleaseMemObject");
    }
    (void)printf("edges %llu %zu\n", bytes, EDGE_STEPS * 2 * row);
    check(clReleaseMemObject(grid), "clReleaseMemObject");
}

/* ---- a buffer with a size ---- */

/* Fills the first @p count numbers on server 0, which says how many they are. */
static void
produce(struct program *p, cl_mem mem, cl_mem size, size_t count, cl_uint value)
{
    set_argument(p->produce, 0, sizeof(mem), &mem);
    set_argument(p->produce, 1, sizeof(value), &value);
    set_argument(p->produce, 2, sizeof(size), &size);
    check(clEnqueueNDRangeKernel(p->queue[0], p->produce, 1, NULL, &count, NULL, 0,
                                 NULL, NULL),
          "produce");
}

static void
expect_all(const cl_uint *numbers, size_t from, size_t to, cl_uint want)
{
    for (size_t i = from; i < to; i++) {
        expect(numbers[i], want, "number", i);
    }
}

static void
run_sized(struct program *p)
{
    const size_t all = SIZED_BYTES / 4, some = MEANT_BYTES / 4;
    static cl_uint numbers[SIZED_BYTES / 4];
    clSetContentSizeBufferPoCL_fn set_size;
    unsigned long long bytes[3];
    cl_mem mem, size;
    cl_event done;

    set_size = (clSetContentSizeBufferPoCL_fn)clGetExtensionFunctionAddressForPlatform(
        p->platform, "clSetContentSizeBufferPoCL");
    check(set_size != NULL ? CL_SUCCESS : CL_INVALID_VALUE, "cl_pocl_content_size");
    mem = create_buffer(p, SIZED_BYTES);
    size = create_buffer(p, 8);
    check(set_size(mem, size), "clSetContentSizeBufferPoCL");
    produce(p, mem, size, all, 1);
    produce(p, mem, size, some, 2);
    check(clFinish(p->queue[0]), "clFinish");
    bytes[0] = interface_bytes("link0");
    set_argument(p->add_one, 0, sizeof(mem), &mem);
    check(clEnqueueNDRangeKernel(p->queue[1], p->add_one, 1, NULL, &some, NULL, 0, NULL,
                                 &done),
          "add_one");
    check(clWaitForEvents(1, &done), "clWaitForEvents");
    check(clReleaseEvent(done), "clReleaseEvent");
    bytes[1] = interface_bytes("link0");
    memset(numbers, 0xee, sizeof(numbers));
    check(clEnqueueReadBuffer(p->queue[1], mem, CL_TRUE, 0, SIZED_BYTES, numbers, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    bytes[2] = interface_bytes("link0");
    expect_all(numbers, 0, some, 3);
    expect_all(numbers, some, all, 0xeeeeeeee);
    produce(p, mem, size, all, 5); /* now all of it has a meaning */
    check(clFinish(p->queue[0]), "clFinish");
    check(clEnqueueReadBuffer(p->queue[1], mem, CL_TRUE, 0, SIZED_BYTES, numbers, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    expect_all(numbers, 0, all, 5);
    (void)printf("sized %llu %llu\n", bytes[1] - bytes[0], bytes[2] - bytes[1]);
    check(clReleaseMemObject(mem), "clReleaseMemObject");
    check(clReleaseMemObject(size), "clReleaseMemObject");
}

/* ---- a chain of events ---- */

static void
run_chain(struct program *p, cl_kernel kernels[2])
{
    const size_t one = 1;
    cl_event done = NULL;

    for (int i = 0; i < CHAIN_KERNELS; i++) {
        const cl_event last = done;

        check(clEnqueueNDRangeKernel(p->queue[i % 2], kernels[i % 2], 1, NULL, &one,
                                     NULL, last != NULL, last != NULL ? &last : NULL,
                                     &done),
              "add");
        if (last != NULL) {
            check(clReleaseEvent(last), "clReleaseEvent");
        }
    }
    check(clWaitForEvents(1, &done), "clWaitForEvents");
    check(clReleaseEvent(done), "clReleaseEvent");
}

static void
run_chain_twice(struct program *p)
{
    cl_kernel kernels[2];
    cl_mem mems[2];
    double begin;
    cl_uint ran[2] = {0, 0};
    cl_int err;

    for (int i = 0; i < 2; i++) {
        mems[i] = clCreateBuffer(p->context, CL_MEM_COPY_HOST_PTR, 4, &ran[i], &err);
        check(err, "clCreateBuffer");
        kernels[i] = clCloneKernel(p->add_one, &err);
        check(err, "clCloneKernel");
        set_argument(kernels[i], 0, sizeof(mems[i]), &mems[i]);
    }
    run_chain(p, kernels); /* the streams are there after it */
    begin = now_ms();
    run_chain(p, kernels);
    (void)printf("chain %.2f\n", now_ms() - begin);
    for (int i = 0; i < 2; i++) {
        check(clEnqueueReadBuffer(p->queue[i], mems[i], CL_TRUE, 0, 4, &ran[i], 0, NULL,
                                  NULL),
              "clEnqueueReadBuffer");
        check(clReleaseMemObject(mems[i]), "clReleaseMemObject");
        check(clReleaseKernel(kernels[i]), "clReleaseKernel");
    }
    if (ran[0] != CHAIN_KERNELS || ran[1] != CHAIN_KERNELS) {
        (void)fprintf(stderr, "%u and %u kernels ran\n", ran[0], ran[1]);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    cl_uint servers = argc > 2 ? (cl_uint)strtoul(argv[2], NULL, 10) : SERVERS;
    struct program p;

    if (servers < 2 || servers > SERVERS_MAX ||
        (strcmp(what, "gather") != 0 && strcmp(what, "halo") != 0 &&
         strcmp(what, "ring") != 0 && strcmp(what, "sized") != 0 &&
         strcmp(what, "chain") != 0 && strcmp(what, "edges") != 0)) {
        (void)fprintf(stderr,
                      "usage: peer_bytes gather | halo | ring | sized | chain | "
                      "edges SERVERS\n");
        return 64;
    }
    open_program(&p, servers);
    if (strcmp(what, "gather") == 0) {
        run_gather(&p);
    } else if (strcmp(what, "halo") == 0) {
        run_halo(&p);
    } else if (strcmp(what, "sized") == 0) {
        run_sized(&p);
    } else if (strcmp(what, "chain") == 0) {
        run_chain_twice(&p);
    } else if (strcmp(what, "edges") == 0) {
        run_edges(&p);
    } else {
        run_ring(&p, servers);
    }
    (void)fflush(stdout);
    (void)getchar(); /* peer_bytes.py looks at the servers' memory now */
    close_program(&p, servers);
    return 0;
}
