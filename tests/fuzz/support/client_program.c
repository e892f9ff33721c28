/* SPDX-License-Identifier: Apache-2.0 */
/* The program of fuzz_client: each byte is a call, low 5 bits which, high 3 bits on what. */
#include "fuzz_client.h"

#include "fuzz.h"

#include "icd/commands/command_buffer.h"
#include "icd/icd_int.h"
#include "icd/session/session_int.h"

enum {
    QUEUES = 2,
    EVENTS = 8,
    BLOCKS = 64,
    SMALL = 100,
    LARGE = 20000, /* [bytes]: does not fit a frame */
    BUFFER = 65536,
    IMAGE_SIDE = 16,
    CALLS_MAX = 64,
};

/* Objects of the program. */
static struct {
    cl_context context;
    cl_command_queue queues[QUEUES];
    cl_mem mem, image;
    cl_program program, other;
    cl_kernel kernel;
    cl_command_buffer_khr commands;
    cl_event events[EVENTS];
    unsigned event_count; /* ever made */
    void *map;
    cl_device_id parts[2];
    cl_uint part_count;
    void *blocks[BLOCKS]; /* memory that content comes from or goes to */
    unsigned block_count;
    unsigned asked, called; /* callbacks */
} p;

/* ---- what it needs --------------------------------------------------------------------------- */

static cl_device_id
device(void)
{
    return tp_icd.platform->devices[0];
}

/* A block of just that size, until the end. */
static void *
block(size_t size)
{
    void *memory = calloc(1, size);

    require(memory != NULL && p.block_count < BLOCKS);
    p.blocks[p.block_count++] = memory;
    return memory;
}

/* A user event that is never set never ends. */
static void
end_user_event(cl_event event)
{
    if (event != NULL) {
        (void)tp_clSetUserEventStatus(event, CL_COMPLETE);
        (void)tp_clReleaseEvent(event);
    }
}

static void
keep_event(cl_event event)
{
    cl_event *slot = &p.events[p.event_count % EVENTS];

    if (event == NULL) {
        return;
    }
    end_user_event(*slot);
    *slot = event;
    p.event_count++;
}

/* The event made @p back events ago, or NULL. */
static cl_event
event_at(unsigned back)
{
    return p.event_count > back ? p.events[(p.event_count - 1 - back) % EVENTS] : NULL;
}

static void CL_CALLBACK
on_event(cl_event event, cl_int status, void *arg)
{
    (void)event, (void)arg;
    require(status <= CL_COMPLETE);
    p.called++;
}

static void CL_CALLBACK
on_build(cl_program program, void *arg)
{
    (void)program, (void)arg;
    p.called++;
}

static void CL_CALLBACK
on_gone(cl_mem mem, void *arg)
{
    (void)mem, (void)arg;
    p.called++;
}

static void CL_CALLBACK
on_error(const char *text, const void *info, size_t size, void *arg)
{
    (void)info, (void)size, (void)arg;
    touch(text, strlen(text) + 1);
}

/* ---- calls ------------------------------------------------------------------------------------- */

static void
create(unsigned arg)
{
    const cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D,
                                .image_width = IMAGE_SIDE,
                                .image_height = IMAGE_SIDE};
    const char *source = "kernel void k(global int *p) {}";
    cl_device_id dev = device();
    cl_int err;

    if (p.context != NULL) {
        return;
    }
    p.context = tp_clCreateContext(NULL, 1, &dev, on_error, NULL, &err);
    if (p.context == NULL) {
        return;
    }
    p.queues[0] =
        tp_clCreateCommandQueue(p.context, dev, CL_QUEUE_PROFILING_ENABLE, &err);
    p.queues[1] = tp_clCreateCommandQueue(p.context, dev,
                                          CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    p.mem = tp_clCreateBuffer(p.context,
                              CL_MEM_READ_WRITE | (arg & 1 ? CL_MEM_COPY_HOST_PTR : 0),
                              BUFFER, arg & 1 ? block(BUFFER) : NULL, &err);
    p.image =
        tp_clCreateImage(p.context, CL_MEM_READ_WRITE, &format, &desc, NULL, &err);
    p.program = tp_clCreateProgramWithSource(p.context, 1, &source, NULL, &err);
    if (p.mem != NULL &&
        tp_clSetMemObjectDestructorCallback(p.mem, on_gone, NULL) == CL_SUCCESS) {
        p.asked++;
    }
}

static void
write_some(cl_command_queue q, unsigned arg, size_t size)
{
    cl_event event = NULL, wait = event_at(1);
    bool waits = (arg & 4) != 0 && wait != NULL;

    (void)tp_clEnqueueWriteBuffer(q, p.mem, (arg & 2) != 0, arg, size, block(size),
                                  waits, waits ? &wait : NULL, &event);
    keep_event(event);
}

static void
read_some(cl_command_queue q, unsigned arg, size_t size)
{
    cl_event event = NULL, wait = event_at(1);
    bool waits = (arg & 4) != 0 && wait != NULL;

    (void)tp_clEnqueueReadBuffer(q, p.mem, (arg & 2) != 0, arg, size, block(size),
                                 waits, waits ? &wait : NULL, &event);
    keep_event(event);
}

static void
call_back(unsigned arg)
{
    cl_event event = event_at(arg);

    if (event != NULL &&
        tp_clSetEventCallback(event, CL_COMPLETE, on_event, NULL) == CL_SUCCESS) {
        p.asked++;
    }
}

static void
build(unsigned arg, bool later)
{
    cl_device_id dev = device();
    cl_int err = (arg & 2) != 0
                     ? tp_clCompileProgram(p.program, 1, &dev, "", 0, NULL, NULL,
                                           later ? on_build : NULL, NULL)
                     : tp_clBuildProgram(p.program, 1, &dev, "-DX",
                                         later ? on_build : NULL, NULL);

    /* when it failed, too, unless the call was wrong */
    if (later && (err == CL_SUCCESS || err == CL_BUILD_PROGRAM_FAILURE ||
                  err == CL_COMPILE_PROGRAM_FAILURE)) {
        p.asked++;
    }
}

static void
make_kernel(void)
{
    char text[64];
    size_t size;
    cl_int err;

    if (p.kernel != NULL) {
        (void)tp_clReleaseKernel(p.kernel);
    }
    p.kernel = tp_clCreateKernel(p.program, "k", &err);
    if (p.kernel != NULL) {
        (void)tp_clSetKernelArg(p.kernel, 0, sizeof(p.mem), &p.mem);
        (void)tp_clGetKernelInfo(p.kernel, CL_KERNEL_FUNCTION_NAME, sizeof(text), text,
                                 &size);
        (void)tp_clGetKernelArgInfo(p.kernel, 0, CL_KERNEL_ARG_TYPE_NAME, sizeof(text),
                                    text, &size);
        (void)tp_clGetKernelWorkGroupInfo(p.kernel, device(), CL_KERNEL_WORK_GROUP_SIZE,
                                          sizeof(size), &size, NULL);
    }
}

static void
launch(cl_command_queue q, unsigned arg)
{
    const size_t count[3] = {64, 4, 2};
    cl_event event = NULL;

    (void)tp_clEnqueueNDRangeKernel(q, p.kernel, arg % 3 + 1, NULL, count, NULL, 0,
                                    NULL, (arg & 4) != 0 ? &event : NULL);
    keep_event(event);
}

static void
get_binaries(void)
{
    size_t size = 0;
    unsigned char *binary;

    if (tp_clGetProgramInfo(p.program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size,
                            NULL) != CL_SUCCESS ||
        size > BUFFER) {
        return;
    }
    binary = block(size != 0 ? size : 1);
    (void)tp_clGetProgramInfo(p.program, CL_PROGRAM_BINARIES, sizeof(binary), &binary,
                              NULL);
}

static void
make_parts(unsigned arg)
{
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_uint units = 0, count = 0;
    char text[64];

    if (p.part_count != 0 ||
        tp_clCreateSubDevices(device(), how, 2, p.parts, &count) != CL_SUCCESS) {
        return;
    }
    p.part_count = count < 2 ? count : 2;
    for (cl_uint i = 0; i < p.part_count; i++) {
        (void)tp_clGetDeviceInfo(p.parts[i], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units),
                                 &units, NULL);
        (void)tp_clGetDeviceInfo(p.parts[i], CL_DEVICE_NAME, sizeof(text), text, NULL);
    }
    if (arg & 1) {
        (void)tp_clCreateSubDevices(p.parts[0], how, 0, NULL, &count);
    }
}

static void
map(cl_command_queue q, unsigned arg)
{
    cl_event event = NULL;
    cl_int err;

    if (p.map == NULL) {
        p.map = tp_clEnqueueMapBuffer(q, p.mem, (arg & 1) != 0,
                                      (arg & 2) != 0 ? CL_MAP_WRITE : CL_MAP_READ, 0,
                                      BUFFER, 0, NULL, &event, &err);
        keep_event(event);
    }
}

static void
unmap(cl_command_queue q)
{
    cl_event event = NULL;

    if (p.map != NULL) {
        memset(p.map, 1, BUFFER);
        if (tp_clEnqueueUnmapMemObject(q, p.mem, p.map, 0, NULL, &event) ==
            CL_SUCCESS) {
            p.map = NULL;
        }
        keep_event(event);
    }
}

static void
use_commands(cl_command_queue q)
{
    const size_t count = 64;
    cl_sync_point_khr point;
    cl_event event = NULL;
    cl_int err;

    if (p.commands == NULL) {
        p.commands = tp_clCreateCommandBufferKHR(1, &q, NULL, &err);
        (void)tp_clCommandFillBufferKHR(p.commands, NULL, p.mem, "abcd", 4, 0, 64, 0,
                                        NULL, &point, NULL);
        (void)tp_clCommandNDRangeKernelKHR(p.commands, NULL, NULL, p.kernel, 1, NULL,
                                           &count, NULL, 1, &point, NULL, NULL);
        (void)tp_clFinalizeCommandBufferKHR(p.commands);
    }
    (void)tp_clEnqueueCommandBufferKHR(0, NULL, p.commands, 0, NULL, &event);
    keep_event(event);
}

static void
use_binary(unsigned arg)
{
    const unsigned char *binary = block(LARGE);
    size_t size = (arg & 1) != 0 ? LARGE : SMALL;
    cl_device_id dev = device();
    cl_int status, err;

    if (p.other != NULL) {
        (void)tp_clReleaseProgram(p.other);
    }
    p.other =
        tp_clCreateProgramWithBinary(p.context, 1, &dev, &size, &binary, &status, &err);
}

static void
link_program(void)
{
    cl_device_id dev = device();
    cl_int err;

    if (p.other != NULL) {
        (void)tp_clReleaseProgram(p.other);
    }
    p.other = tp_clLinkProgram(p.context, 1, &dev, "", 1, &p.program, NULL, NULL, &err);
}

static void
make_user_event(void)
{
    cl_int err;

    keep_event(tp_clCreateUserEvent(p.context, &err));
}

static void
use_image(cl_command_queue q, unsigned arg)
{
    const size_t zero[3] = {0}, all[3] = {IMAGE_SIDE, IMAGE_SIDE, 1};
    const cl_uint colour[4] = {0};
    cl_event event = NULL;
    void *memory = block((size_t)4 * IMAGE_SIDE * IMAGE_SIDE);

    if ((arg & 1) != 0) {
        (void)tp_clEnqueueReadImage(q, p.image, (arg & 2) != 0, zero, all, 0, 0, memory,
                                    0, NULL, &event);
    } else {
        (void)tp_clEnqueueWriteImage(q, p.image, (arg & 2) != 0, zero, all, 0, 0,
                                     memory, 0, NULL, &event);
        (void)tp_clEnqueueFillImage(q, p.image, colour, zero, all, 0, NULL, NULL);
    }
    keep_event(event);
}

/* All that can be asked of events and programs. */
static void
ask(unsigned arg)
{
    cl_event event = event_at(arg);
    char text[256];
    cl_ulong ns;
    cl_int status;

    if (event != NULL) {
        (void)tp_clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                sizeof(status), &status, NULL);
        (void)tp_clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(ns),
                                         &ns, NULL);
    }
    (void)tp_clGetProgramBuildInfo(p.program, device(), CL_PROGRAM_BUILD_LOG,
                                   sizeof(text), text, NULL);
    (void)tp_clGetProgramInfo(p.program, CL_PROGRAM_KERNEL_NAMES, sizeof(text), text,
                              NULL);
}

static void
copy_and_fill(cl_command_queue q)
{
    cl_event event = NULL;

    (void)tp_clEnqueueFillBuffer(q, p.mem, "abcd", 4, 0, 64, 0, NULL, NULL);
    (void)tp_clEnqueueCopyBuffer(q, p.mem, p.mem, 0, 4096, 64, 0, NULL, &event);
    keep_event(event);
}

static void
mark(cl_command_queue q)
{
    cl_event event = NULL;

    (void)tp_clEnqueueMarkerWithWaitList(q, 0, NULL, &event);
    keep_event(event);
}

static void
wait_for(unsigned arg)
{
    cl_event event = event_at(arg);
    cl_int status = CL_QUEUED;

    if (event != NULL) {
        (void)tp_clWaitForEvents(1, &event);
        (void)tp_clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                sizeof(status), &status, NULL);
        require(status <= CL_COMPLETE); /* whatever came of it */
    }
}

static void
drop(unsigned arg)
{
    if (event_at(arg) != NULL) {
        end_user_event(event_at(arg));
        p.events[(p.event_count - 1 - arg) % EVENTS] = NULL;
    }
}

static void
poll_session(void)
{
    struct tp_icd_session *session = tp_icd.platform->servers[0].sessions[0];

    if (session != NULL) {
        tp_icd_poll(session);
    }
}

/* Sends, too, so that nothing waits for ever that only needs to be sent. */
static void
set_user_event(unsigned arg)
{
    if (event_at(arg) != NULL) {
        (void)tp_clSetUserEventStatus(event_at(arg), (arg & 1) != 0 ? -7 : CL_COMPLETE);
    }
}

static void
call(unsigned what, unsigned arg)
{
    cl_command_queue q = p.queues[arg % QUEUES];
    cl_ulong device_ns, host_ns;

    switch (what) {
    case 0:
        create(arg);
        break;
    case 1:
        write_some(q, arg, SMALL);
        break;
    case 2:
        write_some(q, arg, LARGE);
        break;
    case 3:
        read_some(q, arg, SMALL);
        break;
    case 4:
        read_some(q, arg, LARGE);
        break;
    case 5:
        mark(q);
        break;
    case 6:
        call_back(arg);
        break;
    case 7:
        wait_for(arg);
        break;
    case 8:
        (void)tp_clFinish(q);
        break;
    case 9:
        build(arg, false);
        break;
    case 10:
        build(arg, true);
        break;
    case 11:
        make_kernel();
        break;
    case 12:
        launch(q, arg);
        break;
    case 13:
        get_binaries();
        break;
    case 14:
        make_parts(arg);
        break;
    case 15:
        (void)tp_clGetDeviceAndHostTimer(device(), &device_ns, &host_ns);
        break;
    case 16:
        map(q, arg);
        break;
    case 17:
        unmap(q);
        break;
    case 18:
        drop(arg);
        break;
    case 19:
        use_commands(q);
        break;
    case 20:
        use_binary(arg);
        break;
    case 21:
        poll_session();
        break;
    case 22:
        make_user_event();
        break;
    case 23:
        set_user_event(arg);
        break;
    case 24:
        use_image(q, arg);
        break;
    case 25:
        fuzz_client_run_threads();
        break;
    case 26:
        link_program();
        break;
    case 27:
        ask(arg);
        break;
    case 28:
        copy_and_fill(q);
        break;
    default:
        (void)tp_clFlush(q);
        break;
    }
}

void
fuzz_client_run(const uint8_t *program, size_t len)
{
    memset(&p, 0, sizeof(p));
    for (size_t i = 0; i < len && i < CALLS_MAX && p.block_count + 2 < BLOCKS; i++) {
        call(program[i] & 31, program[i] >> 5);
        fuzz_client_run_callbacks();
    }
}

/* ---- its end -------------------------------------------------------------------------------------- */

void
fuzz_client_set_user_events(void)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        if (p.events[i] != NULL) {
            (void)tp_clSetUserEventStatus(p.events[i], -7);
        }
    }
}

/* User events are the program's to end; then all others have. */
static void
end_events(void)
{
    fuzz_client_set_user_events();
    fuzz_client_run_callbacks();
    for (unsigned i = 0; i < EVENTS; i++) {
        cl_int status = CL_QUEUED;

        if (p.events[i] != NULL) {
            (void)tp_clGetEventInfo(p.events[i], CL_EVENT_COMMAND_EXECUTION_STATUS,
                                    sizeof(status), &status, NULL);
            require(status <= CL_COMPLETE);
            (void)tp_clReleaseEvent(p.events[i]);
        }
    }
}

void
fuzz_client_end(void)
{
    end_events();
    (void)tp_clReleaseCommandBufferKHR(p.commands);
    (void)tp_clReleaseKernel(p.kernel);
    (void)tp_clReleaseProgram(p.program);
    (void)tp_clReleaseProgram(p.other);
    (void)tp_clReleaseMemObject(p.image);
    (void)tp_clReleaseMemObject(p.mem);
    for (unsigned i = 0; i < QUEUES; i++) {
        (void)tp_clReleaseCommandQueue(p.queues[i]);
    }
    (void)tp_clReleaseContext(p.context);
    for (cl_uint i = 0; i < p.part_count; i++) {
        (void)tp_clReleaseDevice(p.parts[i]);
    }
    fuzz_client_run_callbacks();
    require(p.called == p.asked);
    for (unsigned i = 0; i < p.block_count; i++) {
        free(p.blocks[i]);
    }
}

/* ---- the server's device ----------------------------------------------------------------------------- */

static void
add(uint8_t *dst, uint32_t *len, uint16_t kind, uint32_t param, const void *data,
    size_t size)
{
    const struct tp_wire_fact fact = {
        .kind = kind, .param = param, .len = (uint32_t)size, .data = data};

    tp_wire_put_fact(dst + *len, &fact);
    *len += (uint32_t)tp_wire_fact_size(fact.len);
}

const uint8_t *
fuzz_client_facts(uint32_t *ret_len)
{
    static uint8_t raw[4096];
    static const cl_name_version commands = {CL_MAKE_VERSION(0, 9, 0),
                                             CL_KHR_COMMAND_BUFFER_EXTENSION_NAME};
    const uint8_t formats[] = {0xb5, 0x10, 0, 0, 0xd2, 0x10, 0, 0, 7, 0, 0, 0};
    const uint64_t gpu = CL_DEVICE_TYPE_GPU, three = 3, sixty_four = 64, one = 1,
                   size = 1 << 20, equally = CL_DEVICE_PARTITION_EQUALLY;
    const uint32_t two = 2;
    uint32_t len = 0;

#define DEVICE(param, data, bytes)                                                     \
    add(raw, &len, TP_WIRE_FACT_DEVICE, param, data, bytes)
    add(raw, &len, TP_WIRE_FACT_PLATFORM, CL_PLATFORM_NAME, "fuzz", 5);
    add(raw, &len, TP_WIRE_FACT_PLATFORM, CL_PLATFORM_HOST_TIMER_RESOLUTION, &one, 8);
    DEVICE(CL_DEVICE_TYPE, &gpu, 8);
    DEVICE(CL_DEVICE_NAME, "fuzz", 5);
    DEVICE(CL_DEVICE_VERSION, "OpenCL 3.0 fuzz", 16);
    DEVICE(CL_DEVICE_EXTENSIONS, "cl_khr_byte_addressable_store", 30);
    DEVICE(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, &three, 8);
    DEVICE(CL_DEVICE_MAX_WORK_GROUP_SIZE, &sixty_four, 8);
    DEVICE(CL_DEVICE_MAX_MEM_ALLOC_SIZE, &size, 8);
    DEVICE(CL_DEVICE_MAX_COMPUTE_UNITS, &two, 4);
    DEVICE(CL_DEVICE_IMAGE_SUPPORT, &(uint32_t){1}, 4);
    DEVICE(CL_DEVICE_IMAGE2D_MAX_WIDTH, &size, 8);
    DEVICE(CL_DEVICE_IMAGE2D_MAX_HEIGHT, &size, 8);
    DEVICE(CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, &three, 8);
    DEVICE(CL_DEVICE_EXTENSIONS_WITH_VERSION, &commands, sizeof(commands));
    DEVICE(CL_DEVICE_PARTITION_PROPERTIES, &equally, 8);
#undef DEVICE
    add(raw, &len, TP_WIRE_FACT_IMAGE_FORMATS, CL_MEM_OBJECT_IMAGE2D, formats,
        sizeof(formats));
    *ret_len = len;
    return raw;
}

void
fuzz_client_free_share(struct tp_icd_session *session)
{
    const struct tp_icd_piece arena = {.region = session->share.arena};

    if (arena.region != NULL) {
        tp_icd_lock();
        (void)tp_icd_share_free(session, tp_icd_piece_memory(&arena));
        tp_icd_unlock();
    }
}
