/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both servers of a program with copies are restarted, one after the other. The program goes on
 * with the second session of a session, which a new server got from the frames of its objects:
 * each kind of object must be there and have its content. Each case is a process with servers of
 * its own.
 */
#include "world.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "servers.h"

enum {
    COUNT = 1024,
    HALF = COUNT / 2,
    SIDE = 8,
    BOUND_S = 240,
    PATIENCE_MS = 40000,
    LOG_MAX = 1 << 20
};

static const char source[] =
    "#define NAME \"by.h\"\n"
    "#include NAME\n"
    "__kernel void add(__global int *x, int by) { x[get_global_id(0)] += by * FACTOR; "
    "}\n"
    "__kernel void look(read_only image2d_t from, sampler_t how, __global uint *to) {\n"
    "  int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "  to[at.y * 8 + at.x] = read_imageui(from, how, at).x;\n"
    "}\n";
static const char part_source[] = "#include \"times.h\"\n"
                                  "__kernel void times(__global int *x) {\n"
                                  "  x[get_global_id(0)] *= TIMES;\n"
                                  "}\n";
static const char times_h[] = "#define TIMES 3\n";

static char folder[] = "/tmp/telpher-rejoin-XXXXXX";
static const char *vendors; /* of the servers */
static int said; /* where standard error goes */
static cl_program program, linked;
static cl_kernel adds, looks, triples;
static cl_mem numbers, half, image, seen;
static cl_sampler sampler;
static cl_int model[COUNT];
static cl_uint pixels[SIDE * SIDE];

/* ---- a program with all kinds of objects ------------------------------------------------------ */

static cl_program
program_new(const char *text)
{
    cl_int err;
    cl_program made = clCreateProgramWithSource(both.ctx, 1, &text, NULL, &err);

    ok(err);
    return made;
}

static cl_kernel
kernel_new(cl_program of, const char *name)
{
    cl_int err;
    cl_kernel kernel = clCreateKernel(of, name, &err);

    ok(err);
    return kernel;
}

/* Its inputs are released. */
static void
link_program(void)
{
    const char *name = "times.h";
    cl_program header = program_new(times_h), part = program_new(part_source);
    cl_int err;

    ok(clCompileProgram(part, 0, NULL, "", 1, &header, &name, NULL, NULL));
    linked = clLinkProgram(both.ctx, 0, NULL, "", 1, &part, NULL, NULL, &err);
    ok(err);
    ok(clReleaseProgram(header));
    ok(clReleaseProgram(part));
    triples = kernel_new(linked, "times");
    ok(clSetKernelArg(triples, 0, sizeof(half), &half));
}

/* Built twice: with a file of this machine that only the preprocessor names. */
static void
build_program(void)
{
    char options[80], path[64];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/by.h", folder);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "#define FACTOR (OWN * 2)\n") > 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(options, sizeof(options), "-DOWN=9 -I%s", folder);
    program = program_new(source);
    ok(clBuildProgram(program, 0, NULL, options, NULL, NULL));
    (void)snprintf(options, sizeof(options), "-DOWN=1 -I%s", folder);
    ok(clBuildProgram(program, 0, NULL, options, NULL, NULL));
    adds = kernel_new(program, "add");
    looks = kernel_new(program, "look");
    ok(clSetKernelArg(adds, 0, sizeof(numbers), &numbers));
}

static void
make_image(void)
{
    const cl_image_format format = {CL_R, CL_UNSIGNED_INT32};
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
    const size_t origin[3] = {0}, region[3] = {SIDE, SIDE, 1};
    cl_int err;

    image = clCreateImage(both.ctx, CL_MEM_READ_ONLY, &format, &desc, NULL, &err);
    ok(err);
    sampler = clCreateSampler(both.ctx, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE,
                              CL_FILTER_NEAREST, &err);
    ok(err);
    seen = buffer_new(&both, 0, sizeof(pixels), NULL);
    pattern((uint8_t *)pixels, sizeof(pixels), 77);
    ok(clEnqueueWriteImage(both.queues[0], image, CL_TRUE, origin, region, 0, 0, pixels,
                           0, NULL, NULL));
}

static int
setup(void **state)
{
    const cl_buffer_region second = {HALF * sizeof(cl_int), HALF * sizeof(cl_int)};
    cl_int err;

    (void)state;
    numbers = buffer_new(&both, 0, sizeof(model), NULL);
    half = clCreateSubBuffer(numbers, 0, CL_BUFFER_CREATE_TYPE_REGION, &second, &err);
    ok(err);
    for (int i = 0; i < COUNT; i++) {
        model[i] = i;
    }
    ok(clEnqueueWriteBuffer(both.queues[0], numbers, CL_TRUE, 0, sizeof(model), model,
                            0, NULL, NULL));
    build_program();
    link_program();
    make_image();
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    ok(clReleaseKernel(adds));
    ok(clReleaseKernel(looks));
    ok(clReleaseKernel(triples));
    ok(clReleaseProgram(program));
    ok(clReleaseProgram(linked));
    ok(clReleaseMemObject(half));
    ok(clReleaseMemObject(numbers));
    ok(clReleaseMemObject(image));
    ok(clReleaseMemObject(seen));
    ok(clReleaseSampler(sampler));
    return 0;
}

static void
run(cl_kernel kernel, cl_uint dims, const size_t *size, cl_uint waits, cl_event *wait)
{
    ok(clEnqueueNDRangeKernel(both.queues[0], kernel, dims, NULL, size, NULL, waits,
                              wait, NULL));
}

static void
add(int by, cl_uint waits, cl_event *wait)
{
    const size_t size = COUNT;

    ok(clSetKernelArg(adds, 1, sizeof(by), &by));
    run(adds, 1, &size, waits, wait);
    for (int i = 0; i < COUNT; i++) {
        model[i] += 2 * by;
    }
}

static void
use_all(int by)
{
    const size_t size = HALF, area[2] = {SIDE, SIDE};

    add(by, 0, NULL);
    run(triples, 1, &size, 0, NULL);
    for (int i = HALF; i < COUNT; i++) {
        model[i] *= 3;
    }
    if (by == 1) { /* later the servers have the arguments */
        ok(clSetKernelArg(looks, 0, sizeof(image), &image));
        ok(clSetKernelArg(looks, 1, sizeof(sampler), &sampler));
        ok(clSetKernelArg(looks, 2, sizeof(seen), &seen));
    }
    run(looks, 2, area, 0, NULL);
}

static void
expect_all(void)
{
    expect_content(both.queues[0], numbers, (const uint8_t *)model, sizeof(model));
    expect_content(both.queues[0], seen, (const uint8_t *)pixels, sizeof(pixels));
}

/* ---- servers that come and go ------------------------------------------------------------------- */

/** @return how often a session had copies again */
static int
count_protected(void)
{
    static char text[LOG_MAX];
    ssize_t len = pread(said, text, sizeof(text) - 1, 0);
    int count = 0;

    assert_true(len >= 0);
    text[len] = '\0';
    for (const char *at = text; (at = strstr(at, "from now on")) != NULL; at++) {
        count++;
    }
    assert_null(strstr(text, "no copies are kept from now on"));
    return count;
}

static void
await_protected(int count)
{
    for (int ms = 0; count_protected() < count && ms < PATIENCE_MS; ms += 10) {
        usleep(10000);
    }
    assert_int_equal(count_protected(), count);
}

static void
restart(unsigned i)
{
    assert_int_equal(servers_restart(&servers, i, vendors), 0);
}

/* Each kind of object is there after its server has been replaced twice. */
static void
every_object(void **state)
{
    (void)state;
    use_all(1);
    for (int step = 0; step < 4; step++) {
        restart((unsigned)step % 2);
        await_protected(2 * step + 2);
        use_all(step + 2);
        expect_all();
    }
    assert_true(servers_kill_executors(&servers, 0) != 0);
    use_all(9);
    expect_all();
}

/* A command that waits for the program is sent before there is a second server, and runs on it. */
static void
blocked_command(void **state)
{
    cl_int err;
    cl_event user = clCreateUserEvent(both.ctx, &err);

    (void)state;
    ok(err);
    use_all(1);
    expect_all();
    restart(0);
    add(5, 1, &user); /* the session may be alone, or have a second server */
    ok(clFlush(both.queues[0]));
    await_protected(2);
    assert_true(servers_kill_executors(&servers, 1) != 0);
    add(7, 0, NULL);
    ok(clSetUserEventStatus(user, CL_COMPLETE));
    use_all(2);
    expect_all();
    ok(clReleaseEvent(user));
}

/* ---- objects that come and go meanwhile --------------------------------------------------------- */

static _Atomic bool ends;

/* @return a program of its own, with the kernel `add` */
static cl_program
build_another(cl_int by)
{
    char options[64];
    cl_program made = program_new("__kernel void add(__global int *x, int by) {\n"
                                  "  x[get_global_id(0)] += by + OWN;\n"
                                  "}\n");

    (void)snprintf(options, sizeof(options), "-DOWN=%d", by % 3);
    ok(clBuildProgram(made, 0, NULL, options, NULL, NULL));
    return made;
}

/* A kernel runs on half of a buffer. All is released before it has ended but the buffer. */
static cl_mem
run_on_half(cl_program of, cl_int by)
{
    const cl_buffer_region region = {HALF * sizeof(cl_int), HALF * sizeof(cl_int)};
    const size_t size = HALF;
    const cl_int zero = 0;
    cl_int err;
    cl_mem whole = buffer_new(&both, CL_MEM_READ_WRITE, sizeof(model), NULL), part;
    cl_kernel kernel = kernel_new(of, "add");
    cl_command_queue q = both.queues[0];

    part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    ok(clEnqueueFillBuffer(q, whole, &zero, sizeof(zero), 0, sizeof(model), 0, NULL,
                           NULL));
    ok(clSetKernelArg(kernel, 0, sizeof(part), &part));
    ok(clSetKernelArg(kernel, 1, sizeof(by), &by));
    ok(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &size, NULL, 0, NULL, NULL));
    ok(clReleaseMemObject(part));
    ok(clReleaseKernel(kernel));
    return whole;
}

/* Objects of all kinds are created, used and released until the servers have been replaced. */
static void *
come_and_go(void *arg)
{
    const cl_image_format format = {CL_R, CL_UNSIGNED_INT32};
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
    static cl_int got[COUNT];

    (void)arg;
    for (cl_int by = 1; !ends; by++) {
        cl_int err;
        cl_program again = build_another(by);
        cl_mem used = run_on_half(again, by), idle;

        idle = clCreateImage(both.ctx, CL_MEM_READ_WRITE, &format, &desc, NULL, &err);
        ok(err);
        ok(clReleaseProgram(again));
        ok(clEnqueueReadBuffer(both.queues[0], used, CL_TRUE, 0, sizeof(got), got, 0,
                               NULL, NULL));
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(got[i], i < HALF ? 0 : by + by % 3);
        }
        ok(clReleaseMemObject(idle));
        ok(clReleaseMemObject(used));
    }
    return NULL;
}

static void
objects_meanwhile(void **state)
{
    pthread_t thread;

    (void)state;
    use_all(1);
    expect_all();
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
    for (int step = 0; step < 2; step++) {
        restart((unsigned)step % 2);
        await_protected(2 * step + 2);
    }
    ends = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    use_all(3);
    expect_all();
}

/* ---- cases ------------------------------------------------------------------------------------ */

static const struct CMUnitTest cases[] = {
    cmocka_unit_test_setup_teardown(every_object, setup, teardown),
    cmocka_unit_test_setup_teardown(blocked_command, setup, teardown),
    cmocka_unit_test_setup_teardown(objects_meanwhile, setup, teardown),
};

static char **arguments; /* of main() */

static int
run_child(size_t i)
{
    int status;

    if (arguments[1] != NULL && strcmp(arguments[1], cases[i].name) != 0) {
        return 0;
    }
    said = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (said < 0 || dup2(said, STDERR_FILENO) < 0) {
        return 1;
    }
    status = worlds_run_test(&cases[i], arguments, BOUND_S);
    if (status != 0 && status != 77) {
        char text[4096];
        ssize_t len;

        for (off_t at = 0; (len = pread(said, text, sizeof(text), at)) > 0; at += len) {
            (void)fwrite(text, 1, (size_t)len, stdout);
        }
        (void)fflush(stdout);
    }
    return status;
}

int
main(int argc, char **argv)
{
    (void)argc;
    arguments = argv;
    (void)setenv("TELPHER_KEEP_COPIES", "yes", 1);
    (void)setenv("TELPHER_ON_LOSS_TIME", "300ms", 1);
    (void)setenv("TELPHER_DRAIN_TIMEOUT", "20s", 1);
    vendors = getenv("OCL_ICD_VENDORS");
    vendors = vendors != NULL ? vendors : "/etc/OpenCL/vendors";
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    return worlds_run_apart(sizeof(cases) / sizeof(cases[0]), run_child);
}
