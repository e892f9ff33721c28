/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL cases that create objects, build programs and look for devices. */
#include "bench/ocl/ocl_create.h"
#include "bench/ocl/clutil.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CREATIONS = 100, OBJECT_BYTES = 4096 };

/* --- objects -------------------------------------------------------------------- */

bool
ocl_start_creating(void *session, size_t bytes)
{
    struct ocl_session *s = session;

    s->runs = 0;
    s->wrong = 0;
    return true;
}

/* A creation that fails ends the case at once; `wrong` counts objects that are not
 * what was asked for. */
bool
ocl_check_created(void *session)
{
    const struct ocl_session *s = session;

    return s->wrong == 0 || bench_fail("%u objects were not as asked for", s->wrong);
}

bool
ocl_run_create_buffer(void *session, double *own_us)
{
    struct ocl_session *s = session;

    for (int i = 0; i < CREATIONS; i++) {
        cl_int status;
        size_t bytes = 0;
        cl_mem buffer =
            clCreateBuffer(s->context, CL_MEM_READ_WRITE, OBJECT_BYTES, NULL, &status);

        OCL_TRY(status);
        OCL_TRY(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL));
        s->wrong += bytes != OBJECT_BYTES;
        OCL_TRY(clReleaseMemObject(buffer));
    }
    return true;
}

bool
ocl_run_create_touched(void *session, double *own_us)
{
    struct ocl_session *s = session;
    const cl_uint word = 1;
    double start = bench_now_us(), check_us = 0;
    cl_uint got = word;
    cl_int status;
    cl_mem buffer =
        clCreateBuffer(s->context, CL_MEM_READ_WRITE, OBJECT_BYTES, NULL, &status);

    OCL_TRY(status);
    OCL_TRY(clEnqueueWriteBuffer(s->queue, buffer, CL_TRUE, 0, sizeof(word), &word, 0,
                                 NULL, NULL));
    if (s->settings->validation) {
        check_us = bench_now_us();
        OCL_TRY(clEnqueueReadBuffer(s->queue, buffer, CL_TRUE, 0, sizeof(got), &got, 0,
                                    NULL, NULL));
        s->wrong += got != word;
        check_us = bench_now_us() - check_us;
    }
    OCL_TRY(clReleaseMemObject(buffer));
    *own_us = bench_now_us() - start - check_us;
    return true;
}

bool
ocl_run_create_kernel(void *session, double *own_us)
{
    struct ocl_session *s = session;

    for (int i = 0; i < CREATIONS; i++) {
        cl_int status;
        cl_uint arguments = 0;
        cl_kernel kernel = clCreateKernel(s->program, "plus_one", &status);

        OCL_TRY(status);
        OCL_TRY(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(arguments),
                                &arguments, NULL));
        s->wrong += arguments != 2;
        OCL_TRY(clReleaseKernel(kernel));
    }
    return true;
}

bool
ocl_run_create_user_event(void *session, double *own_us)
{
    struct ocl_session *s = session;

    for (int i = 0; i < CREATIONS; i++) {
        cl_int status;
        cl_int state = CL_QUEUED;
        cl_event event = clCreateUserEvent(s->context, &status);

        OCL_TRY(status);
        OCL_TRY(clSetUserEventStatus(event, CL_COMPLETE));
        OCL_TRY(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state),
                               &state, NULL));
        s->wrong += state != CL_COMPLETE;
        OCL_TRY(clReleaseEvent(event));
    }
    return true;
}

bool
ocl_run_create_queue(void *session, double *own_us)
{
    struct ocl_session *s = session;
    cl_int status;
    cl_command_queue queue = clCreateCommandQueue(s->context, s->device, 0, &status);

    OCL_TRY(status);
    OCL_TRY(clReleaseCommandQueue(queue));
    return true;
}

bool
ocl_run_create_context(void *session, double *own_us)
{
    struct ocl_session *s = session;
    cl_int status;
    cl_context context = clCreateContext(NULL, 1, &s->device, NULL, NULL, &status);

    OCL_TRY(status);
    OCL_TRY(clReleaseContext(context));
    return true;
}

/* --- programs ------------------------------------------------------------------- */

/* Builds a program whose only kernel says `number`; leaves it for ocl_check_built(). */
static bool
build(struct ocl_session *s, unsigned long long number, double *own_us)
{
    static const char form[] = "__kernel void number(__global uint *out)\n"
                               "{ out[get_global_id(0)] = %lluu %% 1000003u; }\n";
    char text[sizeof(form) + 32];
    const char *lines = text;
    double start;
    cl_int status;

    ocl_stop_building(s);
    snprintf(text, sizeof(text), form, number & 0xffffffffu);
    s->first = (cl_uint)((number & 0xffffffffu) % 1000003u);
    start = bench_now_us();
    s->program = clCreateProgramWithSource(s->context, 1, &lines, NULL, &status);
    OCL_TRY(status);
    OCL_TRY(clBuildProgram(s->program, 1, &s->device, "", NULL, NULL));
    *own_us = bench_now_us() - start;
    return true;
}

/* The session's own program makes way for the built ones; its kernels keep it alive. */
bool
ocl_start_building(void *session, size_t bytes)
{
    struct ocl_session *s = session;
    double unused;

    s->bytes = bytes;
    return build(s, 7, &unused); /* now the "same source" has been seen */
}

void
ocl_stop_building(void *session)
{
    struct ocl_session *s = session;

    if (s->program != NULL) {
        clReleaseProgram(s->program);
        s->program = NULL;
    }
}

bool
ocl_run_build_cold(void *session, double *own_us)
{
    struct ocl_session *s = session;
    const unsigned long long unique =
        (unsigned long long)getpid() * 1000003u + (unsigned long long)bench_now_us();

    return build(s, unique, own_us);
}

bool
ocl_run_build_cached(void *session, double *own_us)
{
    return build(session, 7, own_us);
}

/* Runs the kernel built last. */
bool
ocl_check_built(void *session)
{
    struct ocl_session *s = session;
    const size_t one = 1;
    cl_uint got = ~0u;
    cl_int status;
    cl_kernel kernel = clCreateKernel(s->program, "number", &status);

    OCL_TRY(status);
    OCL_TRY(clSetKernelArg(kernel, 0, sizeof(s->result), &s->result));
    OCL_TRY(
        clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
    OCL_TRY(clEnqueueReadBuffer(s->queue, s->result, CL_TRUE, 0, sizeof(got), &got, 0,
                                NULL, NULL));
    OCL_TRY(clReleaseKernel(kernel));
    return got == s->first || bench_fail("the kernel says %u, not %u", got, s->first);
}

/* --- discovery ------------------------------------------------------------------ */

int
ocl_discover_main(const char *platform, int device)
{
    const struct bench_settings settings = {.platform = platform, .device = device};
    const double start = bench_now_us();
    cl_platform_id found_platform;
    cl_device_id found_device;
    cl_device_type type = 0;
    char name[256] = "";

    if (!ocl_find_device(&settings, &found_platform, &found_device) ||
        clGetDeviceInfo(found_device, CL_DEVICE_TYPE, sizeof(type), &type, NULL) !=
            CL_SUCCESS ||
        clGetDeviceInfo(found_device, CL_DEVICE_NAME, sizeof(name), name, NULL) !=
            CL_SUCCESS) {
        printf("failed %s\n", bench_reason());
        return EXIT_FAILURE;
    }
    printf("discovered %.3f %s\n", bench_now_us() - start, name);
    return EXIT_SUCCESS;
}

/* Starts this program again, without a shell; gives what it prints. */
static FILE *
start_discovery(const struct bench_settings *settings, pid_t *ret_child)
{
    char device[16];
    char *const arguments[] = {
        "telpher-bench", "measure",    "ocl",
        "--discover",    "--platform", (char *)settings->platform,
        "--device",      device,       NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    int error;

    snprintf(device, sizeof(device), "%d", settings->device);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return NULL;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    error =
        posix_spawn(ret_child, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "r");
}

bool
ocl_run_discovery(void *session, double *own_us)
{
    struct ocl_session *s = session;
    char wanted[256] = "";
    char line[512];
    char name[256] = "";
    double us = -1;
    pid_t child = -1;
    FILE *output = start_discovery(s->settings, &child);

    if (output == NULL) {
        return bench_fail("cannot start a process for the discovery of devices: %s",
                          strerror(errno));
    }
    while (fgets(line, sizeof(line), output) != NULL) {
        sscanf(line, "discovered %lf %255[^\n]", &us, name);
    }
    fclose(output);
    waitpid(child, NULL, 0);
    OCL_TRY(clGetDeviceInfo(s->device, CL_DEVICE_NAME, sizeof(wanted), wanted, NULL));
    s->wrong += strcmp(wanted, name) != 0;
    *own_us = us;
    return us >= 0 || bench_fail("the discovery in a new process failed");
}
