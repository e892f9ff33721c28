/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program whose frames trace_chain.py looks at: an in-order chain of kernels ended by
 * one blocking read of 4 bytes, and such a read alone. Every kernel has another argument.
 * Prints medians and least times in microseconds, with the round trip of a plain TCP
 * connection measured in between. "idle" are as many kernels as fit into the first flight of
 * a TCP connection that was idle, whose congestion window starts anew. A line "at BEGIN END"
 * [ns of CLOCK_MONOTONIC] for each such chain lets a log of segments be cut at it.
 *
 *     trace_chain pong PORT               answers the pings
 *     trace_chain run ROUNDS [HOST PORT]  measures; without HOST there are no pings
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    KERNELS = 100,
    FLIGHT_KERNELS = 500,
    IDLE_ROUNDS = 3,
    ROUNDS_MAX = 1000,
    WARM_UP = 3,
    MESSAGE = 4
};

static const char source[] = "__kernel void add_value(__global int *a, int v) {\n"
                             "  a[get_global_id(0)] += v;\n"
                             "}\n";

struct program {
    cl_context context;
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem buffer;
    int expected; /* what the buffer's first element is now */
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
now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
open_program(struct program *p)
{
    const char *text = source;
    cl_platform_id platform;
    cl_device_id device;
    cl_program program;
    cl_int err;

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL),
          "clGetDeviceIDs");
    p->context = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    check(err, "clCreateContext");
    p->queue = clCreateCommandQueueWithProperties(p->context, device, NULL, &err);
    check(err, "clCreateCommandQueueWithProperties");
    program = clCreateProgramWithSource(p->context, 1, &text, NULL, &err);
    check(err, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    p->kernel = clCreateKernel(program, "add_value", &err);
    check(err, "clCreateKernel");
    p->expected = 0;
    p->buffer = clCreateBuffer(p->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                               sizeof(p->expected), &p->expected, &err);
    check(err, "clCreateBuffer");
    check(clSetKernelArg(p->kernel, 0, sizeof(cl_mem), &p->buffer), "clSetKernelArg");
    check(clReleaseProgram(program), "clReleaseProgram");
}

static void
close_program(const struct program *p)
{
    check(clReleaseKernel(p->kernel), "clReleaseKernel");
    check(clReleaseMemObject(p->buffer), "clReleaseMemObject");
    check(clReleaseCommandQueue(p->queue), "clReleaseCommandQueue");
    check(clReleaseContext(p->context), "clReleaseContext");
}

/** @return microseconds from the first call to the value in our hands */
static double
time_chain(struct program *p, int kernels)
{
    const size_t one = 1;
    double start = now_us();
    int value = -1;

    for (int i = 0; i < kernels; i++) {
        int v = 1 + i % 2;

        p->expected += v;
        check(clSetKernelArg(p->kernel, 1, sizeof(v), &v), "clSetKernelArg");
        check(clEnqueueNDRangeKernel(p->queue, p->kernel, 1, NULL, &one, NULL, 0, NULL,
                                     NULL),
              "clEnqueueNDRangeKernel");
    }
    check(clEnqueueReadBuffer(p->queue, p->buffer, CL_TRUE, 0, sizeof(value), &value, 0,
                              NULL, NULL),
          "clEnqueueReadBuffer");
    start = now_us() - start;
    if (value != p->expected) {
        (void)fprintf(stderr, "value is %d, should be %d\n", value, p->expected);
        exit(1);
    }
    return start;
}

static int
dial(const char *host, const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    (void)inet_pton(AF_INET, host, &to.sin_addr);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int i = 0; connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0; i++) {
        if (i == 100) {
            perror(host);
            exit(1);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return fd;
}

static double
time_ping(int fd)
{
    char message[MESSAGE] = "ping";
    double start = now_us();

    if (fd >= 0 && (send(fd, message, MESSAGE, 0) != MESSAGE ||
                    recv(fd, message, MESSAGE, MSG_WAITALL) != MESSAGE)) {
        perror("ping");
        exit(1);
    }
    return fd >= 0 ? now_us() - start : 0;
}

static int
compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/** As time_chain() for FLIGHT_KERNELS; notes in @p at when it began and ended [us]. */
static double
time_flight(struct program *p, double at[2])
{
    double took;

    at[0] = now_us();
    took = time_chain(p, FLIGHT_KERNELS);
    at[1] = now_us();
    return took;
}

static void
report_flights(double (*at)[2], int count)
{
    for (int i = 0; i < count; i++) {
        (void)printf("at %.0f %.0f\n", at[i][0] * 1e3, at[i][1] * 1e3);
    }
}

static void
report(const char *name, double *times, int count)
{
    qsort(times, (size_t)count, sizeof(*times), compare);
    (void)printf("%s median %.1f least %.1f\n", name, times[count / 2], times[0]);
}

static int
run(int rounds, int ping_fd)
{
    static double ping[ROUNDS_MAX], chain[ROUNDS_MAX], alone[ROUNDS_MAX],
        flight[ROUNDS_MAX], idle[IDLE_ROUNDS], at[ROUNDS_MAX + IDLE_ROUNDS][2];
    struct program p;

    open_program(&p);
    for (int i = 0; i < WARM_UP; i++) {
        (void)time_ping(ping_fd);
        (void)time_chain(&p, KERNELS);
    }
    for (int i = 0; i < rounds; i++) {
        ping[i] = time_ping(ping_fd);
        chain[i] = time_chain(&p, KERNELS);
        alone[i] = time_chain(&p, 0);
        flight[i] = time_flight(&p, at[i]);
    }
    for (int i = 0; i < IDLE_ROUNDS; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
        idle[i] = time_flight(&p, at[rounds + i]);
    }
    close_program(&p);
    report("ping", ping, rounds);
    report("chain", chain, rounds);
    report("read", alone, rounds);
    report("flight", flight, rounds);
    report("idle", idle, IDLE_ROUNDS);
    report_flights(at, rounds + IDLE_ROUNDS);
    return 0;
}

static void
answer(int fd)
{
    char message[MESSAGE];

    while (recv(fd, message, MESSAGE, MSG_WAITALL) == MESSAGE &&
           send(fd, message, MESSAGE, MSG_NOSIGNAL) == MESSAGE) {
    }
    (void)close(fd);
}

/** One client after the other. */
static int
pong(const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port))};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, one = 1;

    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(listener, 4) != 0) {
        perror("pong");
        return 1;
    }
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        answer(fd);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 0;

    if (argc == 3 && strcmp(argv[1], "pong") == 0) {
        return pong(argv[2]);
    }
    if ((argc == 3 || argc == 5) && strcmp(argv[1], "run") == 0 && rounds > 0 &&
        rounds <= ROUNDS_MAX) {
        return run(rounds, argc == 5 ? dial(argv[3], argv[4]) : -1);
    }
    (void)fprintf(stderr, "usage: trace_chain run ROUNDS [HOST PORT] | pong PORT\n");
    return 2;
}
