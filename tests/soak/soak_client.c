/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL program for soak.py: soak_client WHAT AMOUNT, one of
 *
 *   latency SECONDS   one kernel and clFinish, again and again: median, p99, most in us
 *   commands N        N kernels in order, with all that a program does now and then: events,
 *                     small writes and reads; what memory it has as it goes on
 *   kernels N         floods: so many kernels in a row, again and again
 *   writes MIB        so much content in writes of 1 MiB that do not block, again and again
 *   builds N          so many programs, each another one, again and again
 *   endless N         one kernel that does not end
 *   kernel SECONDS    one kernel of about that time, waited for: processor time used
 *
 * It prints lines of "name value"; behind "ready" and between them it waits for a line.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char source[] =
    "kernel void inc(global int *x, int by) { x[get_global_id(0)] += by; }\n"
    "__kernel void busy(__global int *a, long n) {\n"
    "  int x = a[0];\n"
    "  for (long i = 0; i < n; i++) x = x * 1664525 + 1013904223 + (x >> 3);\n"
    "  a[0] = x;\n"
    "}\n";

static cl_context context;
static cl_command_queue queue;
static cl_program program;
static cl_mem buffer;

static void
check(cl_int error, const char *what)
{
    if (error != CL_SUCCESS) {
        fprintf(stderr, "soak_client: %s: error %d\n", what, error);
        exit(1);
    }
}

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
set_up(void)
{
    const char *text = source;
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL),
          "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    check(error, "clCreateCommandQueue");
    buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
    check(error, "clCreateBuffer");
    program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    check(error, "clCreateProgramWithSource");
    check(clBuildProgram(program, 0, NULL, "", NULL, NULL), "clBuildProgram");
}

static cl_kernel
make_kernel(const char *name)
{
    cl_int error;
    cl_kernel kernel = clCreateKernel(program, name, &error);

    check(error, "clCreateKernel");
    check(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer), "clSetKernelArg");
    return kernel;
}

/* One that also the test driver knows. */
static cl_kernel
make_small_kernel(void)
{
    cl_kernel kernel = make_kernel("inc");
    cl_int by = 1;

    check(clSetKernelArg(kernel, 1, sizeof(by), &by), "clSetKernelArg");
    return kernel;
}

static void
launch(cl_kernel kernel, cl_event *event)
{
    const size_t one = 1;

    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, event),
          "clEnqueueNDRangeKernel");
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Lets soak.py do something in between. */
static void
pause_for_script(void)
{
    fflush(stdout);
    (void)getchar();
}

static void
latency(double seconds)
{
    enum { MOST = 2000000 };
    double *times = malloc(MOST * sizeof(*times)), end, most = 0;
    cl_kernel kernel = make_small_kernel();
    size_t count = 0;

    if (times == NULL) {
        exit(1);
    }
    for (int i = 0; i < 100; i++) {
        launch(kernel, NULL);
        check(clFinish(queue), "clFinish");
    }
    printf("ready\n");
    pause_for_script();
    end = now() + seconds;
    for (double start = now(), took; start < end; start = now()) {
        launch(kernel, NULL);
        check(clFinish(queue), "clFinish");
        took = now() - start;
        most = took > most ? took : most;
        if (count < MOST) {
            times[count++] = took;
        }
    }
    qsort(times, count, sizeof(*times), compare);
    printf("count %zu\nmedian_us %.1f\np99_us %.1f\nmost_us %.1f\n", count,
           times[count / 2] * 1e6, times[count * 99 / 100] * 1e6, most * 1e6);
    free(times);
    clReleaseKernel(kernel);
}

static long
resident_kib(void)
{
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%ld %ld", &size, &pages) != 2) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void
now_and_then(cl_kernel kernel)
{
    int value = 1;
    cl_event event;

    check(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 64, sizeof(value), &value, 0,
                               NULL, NULL),
          "clEnqueueWriteBuffer");
    launch(kernel, &event);
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    check(clReleaseEvent(event), "clReleaseEvent");
    check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof(value), &value, 0, NULL,
                              NULL),
          "clEnqueueReadBuffer");
}

static void
commands(long count)
{
    cl_kernel kernel = make_small_kernel();
    double start = now();

    for (long i = 1; i <= count; i++) {
        launch(kernel, NULL);
        if (i % 1000 == 0) {
            now_and_then(kernel);
        }
        if (i % (count / 20) == 0) {
            check(clFinish(queue), "clFinish");
            printf("resident %ld %ld %.1f\n", i, resident_kib(), now() - start);
            pause_for_script();
        }
    }
    clReleaseKernel(kernel);
}

/* Floods until it is killed. */
static void
flood(const char *what, long amount)
{
    enum { MIB = 1 << 20, TEXT = 512 };
    cl_kernel kernel = make_kernel(what[0] == 'e' ? "busy" : "inc");
    char *content = calloc(1, MIB), text[TEXT];
    cl_int error, by = 1;
    cl_long endless = INT64_MAX;
    cl_mem big = clCreateBuffer(context, CL_MEM_READ_WRITE, MIB, NULL, &error);

    check(content == NULL ? CL_OUT_OF_HOST_MEMORY : error, "clCreateBuffer");
    check(what[0] == 'e' ? clSetKernelArg(kernel, 1, sizeof(endless), &endless)
                         : clSetKernelArg(kernel, 1, sizeof(by), &by),
          "clSetKernelArg");
    printf("ready\n");
    pause_for_script();
    for (long i = 1;; i++) {
        if (what[0] == 'k' || (what[0] == 'e' && i == 1)) {
            launch(kernel, NULL);
        } else if (what[0] == 'w') {
            check(clEnqueueWriteBuffer(queue, big, CL_FALSE, 0, MIB, content, 0, NULL,
                                       NULL),
                  "clEnqueueWriteBuffer");
        } else if (what[0] == 'b') {
            const char *source_of_it = text;
            cl_program other;

            (void)snprintf(text, sizeof(text), "%s\n// %ld %ld\n", source, i,
                           (long)getpid());
            other = clCreateProgramWithSource(context, 1, &source_of_it, NULL, &error);
            check(error, "clCreateProgramWithSource");
            check(clBuildProgram(other, 0, NULL, "", NULL, NULL), "clBuildProgram");
            check(clReleaseProgram(other), "clReleaseProgram");
        }
        if (what[0] == 'e' || i % amount == 0) {
            check(clFinish(queue), "clFinish");
        }
    }
}

static double
processor_s(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static double
run_busy(cl_kernel kernel, cl_long count)
{
    double start = now();

    check(clSetKernelArg(kernel, 1, sizeof(count), &count), "clSetKernelArg");
    launch(kernel, NULL);
    check(clFinish(queue), "clFinish");
    return now() - start;
}

static void
kernel_beside(double seconds)
{
    cl_kernel kernel = make_kernel("busy");
    cl_long count = 50000000;
    double took, used;

    (void)run_busy(kernel, 1000);
    took = run_busy(kernel, count);
    count = (cl_long)((double)count * seconds / took);
    printf("ready\n");
    pause_for_script();
    used = processor_s();
    took = run_busy(kernel, count);
    printf("took_s %.2f\nclient_s %.3f\n", took, processor_s() - used);
    pause_for_script();
    clReleaseKernel(kernel);
}

int
main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr,
                "usage: soak_client "
                "latency|commands|kernel|kernels|writes|builds|endless AMOUNT\n");
        return 64;
    }
    set_up();
    if (strcmp(argv[1], "latency") == 0) {
        latency(atof(argv[2]));
    } else if (strcmp(argv[1], "commands") == 0) {
        commands(atol(argv[2]));
    } else if (strcmp(argv[1], "kernel") != 0) {
        flood(argv[1], atol(argv[2]) > 0 ? atol(argv[2]) : 1);
    } else {
        kernel_beside(atof(argv[2]));
    }
    clReleaseMemObject(buffer);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
