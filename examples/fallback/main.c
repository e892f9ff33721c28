/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on a remote device while it is there, and on a local one while it is not: figure 3 of
 * the article on PoCL-R (Jääskeläinen et al.).
 *
 *     fallback [--remote NAME] [--frames N] [--budget MS]
 *
 * The remote device computes each frame finely, the local one coarsely. A frame that the remote
 * device does not finish within its budget, or fails, is computed locally, so none is lost. Each
 * is checked. Without --frames the program ends with its standard input. TELPHER_ON_LOSS=wait
 * keeps the session while the network is away; with fail, another one is opened.
 */
#include "example.h"

#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

enum { PIXELS = 64 * 64, FINE = 200, COARSE = 20, PERIOD_MS = 20, RETRY_MS = 500 };

/* The square root of each pixel's number, by bisection: more steps, a better picture. */
static const char source[] =
    "__kernel void draw(__global float *image, float frame, int steps) {\n"
    "    float x = frame + get_global_id(0), low = 0, high = x + 1;\n"
    "    for (int i = 0; i < steps; i++) {\n"
    "        float middle = (low + high) / 2;\n"
    "        if (middle * middle < x) low = middle; else high = middle;\n"
    "    }\n"
    "    image[get_global_id(0)] = high;\n"
    "}\n";

/** A device with all that it needs for frames. */
struct painter {
    const char *where;
    cl_int steps;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem image;
    cl_event done; /* of the frame under way; NULL: none */
    cl_float pixels[PIXELS];
};

static void
close_painter(struct painter *p)
{
    if (p->done != NULL) {
        (void)clReleaseEvent(p->done);
    }
    if (p->image != NULL) {
        (void)clReleaseMemObject(p->image);
    }
    if (p->kernel != NULL) {
        (void)clReleaseKernel(p->kernel);
    }
    if (p->program != NULL) {
        (void)clReleaseProgram(p->program);
    }
    if (p->queue != NULL) {
        (void)clReleaseCommandQueue(p->queue);
    }
    if (p->context != NULL) {
        (void)clReleaseContext(p->context);
    }
    p->done = NULL;
    p->image = NULL;
    p->kernel = NULL;
    p->program = NULL;
    p->queue = NULL;
    p->context = NULL;
}

/** @return false: the device is not there; then the painter is closed */
static bool
open_painter(struct painter *p)
{
    const char *text = source;
    cl_int err;

    p->context = clCreateContext(NULL, 1, &p->device, NULL, NULL, &err);
    if (err == CL_SUCCESS) {
        p->queue = clCreateCommandQueue(p->context, p->device, 0, &err);
    }
    if (err == CL_SUCCESS) {
        p->program = clCreateProgramWithSource(p->context, 1, &text, NULL, &err);
    }
    if (err == CL_SUCCESS) {
        err = clBuildProgram(p->program, 1, &p->device, "", NULL, NULL);
    }
    if (err == CL_SUCCESS) {
        p->kernel = clCreateKernel(p->program, "draw", &err);
    }
    if (err == CL_SUCCESS) {
        p->image = clCreateBuffer(p->context, CL_MEM_WRITE_ONLY, sizeof(p->pixels),
                                  NULL, &err);
    }
    if (err != CL_SUCCESS) {
        close_painter(p);
    }
    return err == CL_SUCCESS;
}

/** Begins a frame. @return false: the device does not take it */
static bool
begin_frame(struct painter *p, int frame)
{
    const cl_float number = (cl_float)frame;
    const size_t size = PIXELS;

    return clSetKernelArg(p->kernel, 0, sizeof(p->image), &p->image) == CL_SUCCESS &&
           clSetKernelArg(p->kernel, 1, sizeof(number), &number) == CL_SUCCESS &&
           clSetKernelArg(p->kernel, 2, sizeof(p->steps), &p->steps) == CL_SUCCESS &&
           clEnqueueNDRangeKernel(p->queue, p->kernel, 1, NULL, &size, NULL, 0, NULL,
                                  NULL) == CL_SUCCESS &&
           clEnqueueReadBuffer(p->queue, p->image, CL_FALSE, 0, sizeof(p->pixels),
                               p->pixels, 0, NULL, &p->done) == CL_SUCCESS &&
           clFlush(p->queue) == CL_SUCCESS;
}

/** State of the frame under way: CL_COMPLETE, above it while it runs, below if it failed. */
static cl_int
state_of(const struct painter *p)
{
    cl_int state = CL_INVALID_EVENT;

    (void)clGetEventInfo(p->done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state),
                         &state, NULL);
    return state;
}

static void
sleep_1_ms(void)
{
    const struct timespec ms = {0, 1000000};

    (void)nanosleep(&ms, NULL);
}

/** Waits for the frame at most so long. @return its state */
static cl_int
wait_frame(const struct painter *p, double budget_ms)
{
    double end = example_now_ms() + budget_ms;
    cl_int state;

    while ((state = state_of(p)) > CL_COMPLETE && example_now_ms() < end) {
        sleep_1_ms();
    }
    return state;
}

static void
forget_frame(struct painter *p)
{
    (void)clReleaseEvent(p->done);
    p->done = NULL;
}

/** True if the device can take the next frame; opens it again if its session was lost. */
static bool
is_there(struct painter *p, double *next_try_ms)
{
    cl_bool available = CL_FALSE;

    if (p->done != NULL) { /* a frame that was late, and is computed elsewhere by now */
        cl_int state = state_of(p);

        if (state > CL_COMPLETE) {
            return false;
        }
        forget_frame(p);
        if (state < 0) {
            close_painter(p);
        }
    }
    if (p->context == NULL) {
        if (example_now_ms() < *next_try_ms) {
            return false;
        }
        *next_try_ms = example_now_ms() + RETRY_MS;
        return open_painter(p); /* a program that must not wait for it has a thread */
    }
    (void)clGetDeviceInfo(p->device, CL_DEVICE_AVAILABLE, sizeof(available), &available,
                          NULL);
    return available;
}

static bool
draw_remotely(struct painter *p, int frame, double budget_ms)
{
    if (!begin_frame(p, frame)) {
        if (p->done == NULL) {
            close_painter(p);
        }
        return false;
    }
    if (wait_frame(p, budget_ms) != CL_COMPLETE) {
        return false; /* it may end later: is_there() */
    }
    forget_frame(p);
    return true;
}

static void
draw_locally(struct painter *p, int frame)
{
    if (!begin_frame(p, frame)) {
        fprintf(stderr, "fallback: the local device fails\n");
        exit(EXIT_FAILURE);
    }
    CHECK(clWaitForEvents(1, &p->done));
    forget_frame(p);
}

/** Checks some pixels: their squares are their numbers. */
static void
check_frame(const struct painter *p, int frame)
{
    for (int i = 0; i < PIXELS; i += 97) {
        float x = (float)(frame + i), error = p->pixels[i] * p->pixels[i] - x;

        if (error < -0.01f * (x + 1) || error > 0.01f * (x + 1)) {
            fprintf(stderr, "fallback: frame %d: pixel %d is %g\n", frame, i,
                    (double)p->pixels[i]);
            exit(EXIT_FAILURE);
        }
    }
}

/** The first device of a platform whose name has (or, if not @p with, has not) the part. */
static cl_device_id
find_device(const char *part, bool with)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_device_id device = NULL;

    (void)clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; i < count && i < 16 && device == NULL; i++) {
        char name[256] = "";

        CHECK(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name,
                                NULL));
        if ((strstr(name, part) != NULL) == with) {
            (void)clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
        }
    }
    if (device == NULL) {
        fprintf(stderr, "fallback: no platform %s \"%s\" has a device\n",
                with ? "with" : "without", part);
        exit(EXIT_FAILURE);
    }
    return device;
}

static bool
goes_on(int frame, int frames)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

    return frames > 0 ? frame < frames : poll(&in, 1, 0) == 0;
}

static void
run(struct painter *remote, struct painter *local, int frames, double budget_ms)
{
    const struct painter *last = NULL;
    int frame = 0, drawn[2] = {0, 0};
    double next_try_ms = 0;

    for (; goes_on(frame, frames); frame++) {
        double begin = example_now_ms();
        bool far =
            is_there(remote, &next_try_ms) && draw_remotely(remote, frame, budget_ms);
        const struct painter *by = far ? remote : local;

        if (!far) {
            draw_locally(local, frame);
        }
        check_frame(by, frame);
        drawn[far]++;
        if (by != last) {
            printf("frame %d: %s\n", frame, by->where);
            (void)fflush(stdout);
            last = by;
        }
        while (example_now_ms() - begin < PERIOD_MS) {
            sleep_1_ms();
        }
    }
    printf("%d frames: %d remote, %d local, none lost\n", frame, drawn[true],
           drawn[false]);
}

int
main(int argc, char **argv)
{
    static struct painter remote = {.where = "remote", .steps = FINE};
    static struct painter local = {.where = "local", .steps = COARSE};
    const char *name = "Telpher";
    int frames = 0;
    double budget_ms = 100;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--remote") == 0) {
            name = argv[i + 1];
        } else if (strcmp(argv[i], "--frames") == 0) {
            frames = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--budget") == 0) {
            budget_ms = atof(argv[i + 1]);
        }
    }
    if (argc % 2 == 0) {
        fprintf(stderr, "usage: fallback [--remote NAME] [--frames N] [--budget MS]\n");
        return 2;
    }
    remote.device = find_device(name, true);
    local.device = find_device(name, false);
    if (!open_painter(&local)) {
        fprintf(stderr, "fallback: the local device cannot be used\n");
        return EXIT_FAILURE;
    }
    (void)open_painter(&remote);
    run(&remote, &local, frames, budget_ms);
    close_painter(&remote);
    close_painter(&local);
    return EXIT_SUCCESS;
}
