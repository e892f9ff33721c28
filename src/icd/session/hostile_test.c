/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client against a server that lies. A server in a thread answers a program honestly
 * up to some frame; then it breaks its word in one way, and soon after hangs up. Whatever
 * it does, every call of the program must return, and without harm: each case runs in a
 * process of its own, bounded in time.
 */
#include "icd/icd.h"
#include "icd/objects/platform.h"
#include "icd/world_test.h"

#include "icd/commands/command_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "wire/frame.h"
#include "wire/messages.h"

enum {
    CASE_S = 100, /* a case that takes longer hangs */
    HANG_UP_MS = 30, /* from the lie to the end of the connections */
    LATE_MS = 3, /* content behind the word that it is on its way */
    FRAMES = 64, /* first frames of a stream that are lied about */
    SIZE = 1 << 20, /* [bytes] of the buffer */
    BINARY = 700 << 10, /* [bytes]: too many for a frame */
};

/** How the server breaks its word. */
enum lie {
    HONEST,
    HANG_UP, /* in place of the frame */
    CUT, /* in the middle of the frame */
    NOISE, /* random bytes in the body */
    HUGE_COUNTS, /* ones in the body */
    TWICE, /* the same again, under a new number */
    OTHER_TYPE,
    GAP, /* a number left out */
    FALSE_ACK,
    FAREWELL, /* CLOSE before it */
    STRANGE_DONE, /* of an event that never was, before it */
    STRANGE_DATA, /* of a transfer that never was, or too much of one */
    STRANGE_REPLY, /* to a request that never was */
    LIES,
};

struct peer {
    _Atomic int fd, bulk; /* -1: none yet */
    uint64_t sent, received;
};

/* The hostile server, in this process. */
static struct {
    enum lie lie;
    unsigned at, seed, frames;
    bool lied; /* no session begins after that: the frames are counted for one */
    int listener;
    struct peer command;
    pthread_mutex_t lock; /* of peers and of frames */
    pthread_cond_t joined;
    struct world_facts facts, kernels;
    uint8_t content[SIZE];
} server = {.command = {.fd = -1, .bulk = -1},
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .joined = PTHREAD_COND_INITIALIZER};

/* ---- the server ------------------------------------------------------------------------- */

static bool
take(int fd, void *data, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = recv(fd, (uint8_t *)data + got, len - got, 0);

        if (n <= 0) {
            return false;
        }
        got += (size_t)n;
    }
    return true;
}

static void
give(int fd, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = send(fd, (const uint8_t *)data + done, len - done, MSG_NOSIGNAL);

        if (n <= 0) {
            return;
        }
        done += (size_t)n;
    }
}

static void *
hang_up(void *arg)
{
    (void)arg;
    usleep(HANG_UP_MS * 1000);
    shutdown(server.listener, SHUT_RDWR);
    shutdown(server.command.fd, SHUT_RDWR);
    if (server.command.bulk >= 0) {
        shutdown(server.command.bulk, SHUT_RDWR);
    }
    return NULL;
}

/** Puts a frame on a stream of the session. */
static void
put_frame(int fd, uint64_t *seq, uint16_t type, const uint8_t *body, size_t len)
{
    uint8_t head[TP_WIRE_HEADER_BYTES];

    tp_wire_put_header(head,
                       &(struct tp_wire_header){
                           .len = (uint32_t)(sizeof(head) + len),
                           .type = type,
                           .seq = ++*seq,
                           .ack = server.lie == FALSE_ACK && server.frames == server.at
                                      ? UINT64_MAX
                                      : 0});
    give(fd, head, sizeof(head));
    give(fd, body, len);
}

static void
put(int fd, uint64_t *seq, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg);
    uint8_t *body = malloc(len);

    row->put(body, msg);
    put_frame(fd, seq, type, body, len);
    free(body);
}

static void
spoil(uint8_t *body, size_t len)
{
    size_t from = server.lie == NOISE ? 0 : (size_t)rand() % 24;

    for (size_t i = 0; i < 4 && len != 0; i++) {
        if (server.lie == NOISE) {
            body[(size_t)rand() % (len < 200 ? len : 200)] = (uint8_t)rand();
        } else if (from + i < len) {
            body[from + i] = 0xff;
        }
    }
}

/** The lie, instead of an honest frame. Under the server's lock. */
static void
lie(int fd, uint64_t *seq, uint16_t type, uint8_t *body, size_t len)
{
    struct tp_wire_done done = {.event = tp_wire_id(TP_WIRE_KIND_EVENT, 1 << 20)};
    struct tp_wire_data data = {.transfer = (uint64_t)rand() % 64,
                                .offset = (uint64_t)rand() % SIZE,
                                .bytes = {1000, server.content}};
    struct tp_wire_build_reply reply = {.request =
                                            tp_wire_id(TP_WIRE_KIND_REQUEST, 1 << 20)};
    struct tp_wire_close closing = {.status = -(rand() % 40), .text = {3, "bye"}};
    pthread_t thread;

    server.lied = true;
    pthread_create(&thread, NULL, hang_up, NULL);
    pthread_detach(thread);
    switch (server.lie) {
    case HANG_UP:
        shutdown(fd, SHUT_RDWR);
        return;
    case CUT:
        len /= 2;
        (*seq)++;
        put_frame(fd, seq, type, body, len); /* also a number left out */
        shutdown(fd, SHUT_RDWR);
        return;
    case NOISE:
    case HUGE_COUNTS:
        spoil(body, len);
        break;
    case TWICE:
        put_frame(fd, seq, type, body, len);
        break;
    case OTHER_TYPE:
        type = (uint16_t)(0x80 + rand() % 32);
        break;
    case GAP:
        (*seq)++;
        break;
    case FAREWELL:
        put(fd, seq, TP_WIRE_CLOSE, &closing);
        break;
    case STRANGE_DONE:
        put(fd, seq, TP_WIRE_DONE, &done);
        break;
    case STRANGE_DATA:
        data.transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, data.transfer);
        put(server.command.bulk >= 0 ? server.command.bulk : fd, seq, TP_WIRE_DATA,
            &data);
        break;
    case STRANGE_REPLY:
        put(fd, seq, TP_WIRE_BUILD_REPLY, &reply);
        break;
    default:
        break;
    }
    put_frame(fd, seq, type, body, len);
}

/** Sends a frame of the server: a valid one, or at its turn the lie. */
static void
say(int fd, uint64_t *seq, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg);
    uint8_t *body = malloc(len);

    row->put(body, msg);
    pthread_mutex_lock(&server.lock);
    if (server.lie != HONEST && ++server.frames == server.at) {
        lie(fd, seq, type, body, len);
    } else {
        put_frame(fd, seq, type, body, len);
    }
    pthread_mutex_unlock(&server.lock);
    free(body);
}

static void
say_done(struct peer *p, uint64_t event, uint32_t inline_len)
{
    static uint64_t stamps[5] = {1, 2, 3, 4, 5};
    struct tp_wire_done msg = {
        .event = event, .stamps = {5, stamps}, .data = {inline_len, server.content}};

    say(p->fd, &p->sent, TP_WIRE_DONE, &msg);
}

/** Content on the bulk stream, once the client has opened it. */
static void
say_content(struct peer *p, uint64_t transfer, uint64_t size)
{
    static uint64_t seq;

    pthread_mutex_lock(&server.lock);
    while (p->bulk < 0) {
        pthread_cond_wait(&server.joined, &server.lock);
    }
    pthread_mutex_unlock(&server.lock);
    for (uint64_t at = 0; at < size;) {
        uint64_t len = TP_MIN(size - at, (uint64_t)TP_WIRE_CHUNK_MAX);
        struct tp_wire_data msg = {.transfer = transfer,
                                   .offset = at,
                                   .bytes = {(uint32_t)len, server.content + at}};

        say(p->bulk, &seq, TP_WIRE_DATA, &msg);
        at += len;
    }
}

/** Content that comes after the words about what waited for it: streams race. */
struct late_content {
    uint64_t transfer, size;
};

static void *
say_late(void *arg)
{
    struct late_content *late = arg;

    usleep(LATE_MS * 1000);
    say_content(&server.command, late->transfer, late->size);
    free(late);
    return NULL;
}

static void
answer_read(struct peer *p, const struct tp_wire_read *msg)
{
    struct late_content *late;
    pthread_t thread;

    say_done(p, msg->event, msg->transfer == 0 ? (uint32_t)msg->size : 0);
    if (msg->transfer != 0) {
        late = malloc(sizeof(*late));
        *late = (struct late_content){msg->transfer, msg->size};
        pthread_create(&thread, NULL, say_late, late);
        pthread_detach(thread);
    }
}

static void
answer_binaries(struct peer *p, uint64_t request)
{
    static uint64_t size = BINARY;
    static uint64_t transfer = (uint64_t)TP_WIRE_KIND_TRANSFER << 56 | 1ULL << 55;
    struct tp_wire_binaries_reply msg = {
        .request = request, .sizes = {1, &size}, .transfer = ++transfer};

    say(p->fd, &p->sent, TP_WIRE_BINARIES_REPLY, &msg);
    say_content(p, msg.transfer, size);
}

/** Two parts of one unit each. */
static void
answer_sub_devices(struct peer *p, const struct tp_wire_sub_devices *m)
{
    struct world_facts f = {.len = 0};
    struct tp_wire_sub_devices_reply msg = {.request = m->request, .count = 2};

    if (m->room != 0) {
        world_add_u32(&f, TP_WIRE_FACT_DEVICE, m->first, 0, CL_DEVICE_MAX_COMPUTE_UNITS,
                      1);
        msg.facts = (struct tp_wire_bytes){(uint32_t)f.len, f.bytes};
    }
    say(p->fd, &p->sent, TP_WIRE_SUB_DEVICES_REPLY, &msg);
}

/** Answers one frame of the client. */
static void
answer(struct peer *p, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    union {
        struct tp_wire_devices devices;
        struct tp_wire_program_build build;
        struct tp_wire_program_binaries binaries;
        struct tp_wire_read read;
        struct tp_wire_write write;
        struct tp_wire_marker marker;
        struct tp_wire_subscribe subscribe;
        struct tp_wire_launch launch;
        struct tp_wire_sub_devices sub_devices;
        struct tp_wire_device_timer timer;
        struct tp_wire_sub_group_info sub_groups;
        struct tp_wire_program_built_in built_in;
        struct tp_wire_commands_enqueue commands;
    } m;

    if (type == TP_WIRE_DEVICES && tp_wire_get_devices(body, end, &m.devices)) {
        say(p->fd, &p->sent, TP_WIRE_DEVICES_REPLY,
            &(struct tp_wire_devices_reply){
                .request = m.devices.request,
                .facts = {(uint32_t)server.facts.len, server.facts.bytes}});
    } else if (type == TP_WIRE_START) {
        say(p->fd, &p->sent, TP_WIRE_STARTED, &(struct tp_wire_started){0});
    } else if (type == TP_WIRE_PROGRAM_BUILD &&
               tp_wire_get_program_build(body, end, &m.build)) {
        say(p->fd, &p->sent, TP_WIRE_BUILD_REPLY,
            &(struct tp_wire_build_reply){
                .request = m.build.request,
                .facts = {(uint32_t)server.kernels.len, server.kernels.bytes}});
    } else if (type == TP_WIRE_PROGRAM_BUILT_IN &&
               tp_wire_get_program_built_in(body, end, &m.built_in)) {
        say(p->fd, &p->sent, TP_WIRE_BUILD_REPLY,
            &(struct tp_wire_build_reply){
                .request = m.built_in.request,
                .facts = {(uint32_t)server.kernels.len, server.kernels.bytes}});
    } else if (type == TP_WIRE_SUB_GROUP_INFO &&
               tp_wire_get_sub_group_info(body, end, &m.sub_groups)) {
        say(p->fd, &p->sent, TP_WIRE_SUB_GROUP_INFO_REPLY,
            &(struct tp_wire_sub_group_info_reply){.request = m.sub_groups.request,
                                                   .values = {1, &(uint64_t){8}}});
    } else if (type == TP_WIRE_PROGRAM_BINARIES &&
               tp_wire_get_program_binaries(body, end, &m.binaries)) {
        answer_binaries(p, m.binaries.request);
    } else if (type == TP_WIRE_READ && tp_wire_get_read(body, end, &m.read)) {
        answer_read(p, &m.read);
    } else if (type == TP_WIRE_WRITE && tp_wire_get_write(body, end, &m.write)) {
        say_done(p, m.write.event, 0);
    } else if (type == TP_WIRE_MARKER && tp_wire_get_marker(body, end, &m.marker)) {
        say_done(p, m.marker.event, 0);
    } else if (type == TP_WIRE_LAUNCH && tp_wire_get_launch(body, end, &m.launch)) {
        say_done(p, m.launch.event, 0);
    } else if (type == TP_WIRE_SUB_DEVICES &&
               tp_wire_get_sub_devices(body, end, &m.sub_devices)) {
        answer_sub_devices(p, &m.sub_devices);
    } else if (type == TP_WIRE_DEVICE_TIMER &&
               tp_wire_get_device_timer(body, end, &m.timer)) {
        say(p->fd, &p->sent, TP_WIRE_DEVICE_TIMER_REPLY,
            &(struct tp_wire_device_timer_reply){.request = m.timer.request,
                                                 .device_ns = 42});
    } else if (type == TP_WIRE_COMMANDS_ENQUEUE &&
               tp_wire_get_commands_enqueue(body, end, &m.commands)) {
        say_done(p, m.commands.event, 0);
    } else if (type == TP_WIRE_SUBSCRIBE &&
               tp_wire_get_subscribe(body, end, &m.subscribe)) {
        say_done(p, tp_wire_u64_at(&m.subscribe.events, 0), 0);
    }
}

/** Serves a stream until its end; on a bulk stream frames only come in. */
static void
serve_frames(struct peer *p, int fd, bool bulk)
{
    uint8_t head[TP_WIRE_HEADER_BYTES], *body;
    struct tp_wire_header h;

    while (take(fd, head, sizeof(head)) && tp_wire_get_header(head, &h) == TELPHER_OK) {
        size_t len = h.len - sizeof(head);

        body = malloc(len);
        if (!take(fd, body, len)) {
            free(body);
            return;
        }
        if (!bulk) {
            answer(p, h.type, body, body + len);
        }
        free(body);
    }
}

static void *
serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    uint8_t raw[TP_WIRE_PREFACE_BYTES], reply[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface_reply r = {.version = TP_WIRE_VERSION,
                                      .window = TP_WIRE_WINDOW,
                                      .bulk_max = 1,
                                      .frame_max = TP_WIRE_FRAME_MAX};
    bool bulk;

    if (!take(fd, raw, sizeof(raw))) {
        return NULL;
    }
    bulk = raw[12] == TP_WIRE_STREAM_BULK;
    tp_wire_put_preface_reply(reply, &r);
    pthread_mutex_lock(&server.lock);
    if (!bulk && server.lied) {
        pthread_mutex_unlock(&server.lock);
        close(fd);
        return NULL;
    }
    *(bulk ? &server.command.bulk : &server.command.fd) = fd;
    give(fd, reply, sizeof(reply));
    pthread_cond_broadcast(&server.joined);
    pthread_mutex_unlock(&server.lock);
    serve_frames(&server.command, fd, bulk);
    return NULL;
}

static void *
accept_all(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(server.listener, NULL, NULL)) >= 0) {
        pthread_t thread;

        pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
    return NULL;
}

static void
make_facts(void)
{
    struct world_facts *f = &server.facts, *k = &server.kernels;
    uint64_t size = SIZE;
    const cl_name_version commands = {CL_MAKE_VERSION(0, 9, 0),
                                      CL_KHR_COMMAND_BUFFER_EXTENSION_NAME};

    world_add_text(f, TP_WIRE_FACT_PLATFORM, 0, 0, CL_PLATFORM_NAME, "liar");
    world_add_u64(f, TP_WIRE_FACT_PLATFORM, 0, 0, CL_PLATFORM_HOST_TIMER_RESOLUTION, 1);
    world_add_u64(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_TYPE, CL_DEVICE_TYPE_GPU);
    world_add_text(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_NAME, "liar");
    world_add_text(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_VERSION, "OpenCL 3.0 liar");
    world_add_text(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_EXTENSIONS,
                   "cl_khr_byte_addressable_store cl_khr_fp64");
    world_add_u64(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, 3);
    world_add_u64(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_MAX_WORK_GROUP_SIZE, 64);
    world_add_u32(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_MAX_NUM_SUB_GROUPS, 8);
    world_add_text(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_BUILT_IN_KERNELS, "j;k");
    world_add_u32(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_MAX_COMPUTE_UNITS, 2);
    world_add_u64(f, TP_WIRE_FACT_DEVICE, 0, 0,
                  CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR,
                  CL_COMMAND_BUFFER_CAPABILITY_OUT_OF_ORDER_KHR);
    world_add(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_EXTENSIONS_WITH_VERSION,
              &commands, sizeof(commands));
    world_add_u64(f, TP_WIRE_FACT_DEVICE, 0, 0, CL_DEVICE_PARTITION_PROPERTIES,
                  CL_DEVICE_PARTITION_EQUALLY);
    world_add_u32(k, TP_WIRE_FACT_PROGRAM_DEVICE, 0, 0, CL_PROGRAM_BUILD_STATUS, 0);
    world_add_text(k, TP_WIRE_FACT_PROGRAM_DEVICE, 0, 0, CL_PROGRAM_BUILD_LOG, "log");
    world_add_text(k, TP_WIRE_FACT_KERNEL, 0, 0, CL_KERNEL_FUNCTION_NAME, "k");
    world_add_u32(k, TP_WIRE_FACT_KERNEL, 0, 0, CL_KERNEL_NUM_ARGS, 1);
    world_add_text(k, TP_WIRE_FACT_KERNEL_ARG, 0, 0, CL_KERNEL_ARG_TYPE_NAME, "int*");
    world_add(k, TP_WIRE_FACT_KERNEL_DEVICE, 0, 0, CL_KERNEL_WORK_GROUP_SIZE, &size, 8);
}

/** Starts it; the program of this process will find it. */
static void
start_server(const char *folder)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char text[160];
    pthread_t thread;

    make_facts();
    srand(server.seed);
    snprintf(name.sun_path, sizeof(name.sun_path), "%s/%d", folder, (int)getpid());
    (void)unlink(name.sun_path); /* of an earlier case whose process id is used again */
    server.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(server.listener, 8), 0);
    snprintf(text, sizeof(text), "unix:%s", name.sun_path);
    setenv("TELPHER_SERVERS", text, 1);
    setenv("TELPHER_LOG", getenv("HOSTILE_LOG") != NULL ? "info" : "none", 1);
    setenv("TELPHER_CONNECT_TIMEOUT", "1s", 1);
    pthread_create(&thread, NULL, accept_all, NULL);
    pthread_detach(thread);
}

/* ---- the program ------------------------------------------------------------------------- */

static cl_int worst; /* first error of the program */

static void
note(cl_int err)
{
    worst = worst == CL_SUCCESS ? err : worst;
}

static void CL_CALLBACK
release_event(cl_event event, cl_int status, void *arg)
{
    (void)status, (void)arg;
    tp_clReleaseEvent(event);
}

static void
use_kernel(cl_context ctx, cl_command_queue q, cl_mem mem)
{
    const char *source = "kernel void k(global int *p) {}";
    size_t one = 1, size = 0;
    unsigned char *binary = malloc(BINARY);
    cl_int err;
    cl_program program = tp_clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
    cl_kernel kernel;

    note(err);
    note(tp_clBuildProgram(program, 0, NULL, "", NULL, NULL));
    kernel = tp_clCreateKernel(program, "k", &err);
    note(err);
    if (kernel != NULL) {
        note(tp_clSetKernelArg(kernel, 0, sizeof(mem), &mem));
        note(tp_clEnqueueNDRangeKernel(q, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
        tp_clReleaseKernel(kernel);
    }
    note(tp_clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size,
                             NULL));
    if (size == BINARY) {
        note(tp_clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(binary), &binary,
                                 NULL));
        note(memcmp(binary, server.content, BINARY) == 0 ? CL_SUCCESS : 1);
    }
    tp_clReleaseProgram(program);
    free(binary);
}

/** A kernel of the driver's own, and the sub-groups of a work-group of it. */
static void
use_built_in(cl_context ctx, cl_device_id dev)
{
    const size_t group = 64;
    size_t width = 0;
    cl_int err;
    cl_program program = tp_clCreateProgramWithBuiltInKernels(ctx, 1, &dev, "k", &err);
    cl_kernel kernel;

    note(err);
    if (program == NULL) {
        return;
    }
    kernel = tp_clCreateKernel(program, "k", &err);
    note(err);
    if (kernel != NULL) {
        err = tp_clGetKernelSubGroupInfo(
            kernel, dev, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, sizeof(group),
            &group, sizeof(width), &width, NULL);
        note(err);
        note(err != CL_SUCCESS || width == 8 ? CL_SUCCESS : 1);
        tp_clReleaseKernel(kernel);
    }
    tp_clReleaseProgram(program);
}

/** Records a barrier and runs it twice, behind each other. */
static void
use_commands(cl_command_queue q)
{
    cl_command_buffer_state_khr state;
    cl_int err;
    cl_command_buffer_khr c = tp_clCreateCommandBufferKHR(1, &q, NULL, &err);

    note(err);
    note(tp_clCommandBarrierWithWaitListKHR(c, NULL, 0, NULL, NULL, NULL));
    note(tp_clFinalizeCommandBufferKHR(c));
    note(tp_clEnqueueCommandBufferKHR(0, NULL, c, 0, NULL, NULL));
    note(tp_clFinish(q));
    note(tp_clGetCommandBufferInfoKHR(c, CL_COMMAND_BUFFER_STATE_KHR, sizeof(state),
                                      &state, NULL));
    err = tp_clEnqueueCommandBufferKHR(0, NULL, c, 0, NULL, NULL);
    note(err == CL_INVALID_OPERATION ? CL_SUCCESS
                                     : err); /* the first may not be over */
    note(tp_clReleaseCommandBufferKHR(c));
}

static void
use_events(cl_command_queue q, cl_mem mem, uint8_t *memory)
{
    cl_event event = NULL, marker = NULL;
    cl_ulong when = 0;
    cl_int err;

    note(tp_clEnqueueReadBuffer(q, mem, CL_FALSE, 0, SIZE, memory, 0, NULL, &event));
    note(tp_clEnqueueMarkerWithWaitList(q, event != NULL, event != NULL ? &event : NULL,
                                        &marker));
    if (event != NULL) {
        note(tp_clSetEventCallback(event, CL_COMPLETE, release_event, NULL));
    }
    if (marker != NULL) {
        err = tp_clWaitForEvents(1, &marker);
        note(err);
        if (err == CL_SUCCESS) { /* then what it waited for is here, too */
            note(memcmp(memory, server.content, SIZE) == 0 ? CL_SUCCESS : 1);
        }
        note(tp_clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof(when),
                                        &when, NULL));
        tp_clReleaseEvent(marker);
    }
}

static void
use_queue(cl_context ctx, cl_device_id dev, cl_command_queue_properties bits)
{
    uint8_t *memory = calloc(1, SIZE);
    cl_int err;
    cl_command_queue q = tp_clCreateCommandQueue(ctx, dev, bits, &err);
    cl_mem mem = tp_clCreateBuffer(ctx, CL_MEM_READ_WRITE, SIZE, NULL, &err);
    void *map;

    note(err);
    note(tp_clEnqueueWriteBuffer(q, mem, CL_TRUE, 0, SIZE, server.content, 0, NULL,
                                 NULL));
    note(tp_clEnqueueReadBuffer(q, mem, CL_TRUE, 0, 100, memory, 0, NULL, NULL));
    use_kernel(ctx, q, mem);
    use_commands(q);
    use_events(q, mem, memory);
    note(tp_clFinish(q)); /* also after a failure no thread touches the memory then */
    memset(memory, 0, SIZE);
    note(tp_clEnqueueReadBuffer(q, mem, CL_TRUE, 0, SIZE, memory, 0, NULL, NULL));
    note(memcmp(memory, server.content, SIZE) == 0 ? CL_SUCCESS : 1);
    map = tp_clEnqueueMapBuffer(q, mem, CL_TRUE, CL_MAP_READ, 0, SIZE, 0, NULL, NULL,
                                &err);
    note(err);
    if (map != NULL) {
        note(tp_clEnqueueUnmapMemObject(q, mem, map, 0, NULL, NULL));
    }
    note(tp_clEnqueueReadBuffer(q, mem, CL_FALSE, 0, SIZE, memory, 0, NULL, NULL));
    note(tp_clFinish(q));
    memset(memory, 0, SIZE); /* finished: no other thread may touch it now */
    free(memory);
    tp_clReleaseMemObject(mem);
    tp_clReleaseCommandQueue(q);
}

static void
use_parts(cl_device_id dev)
{
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id parts[2], parent = NULL;
    cl_uint count = 0, units = 0;
    cl_ulong device_ns, host_ns;
    cl_int err;

    note(tp_clGetDeviceAndHostTimer(dev, &device_ns, &host_ns));
    note(tp_clCreateSubDevices(dev, how, 0, NULL, &count));
    err = tp_clCreateSubDevices(dev, how, 2, parts, &count);
    note(err);
    for (cl_uint i = 0; err == CL_SUCCESS && i < count; i++) {
        note(tp_clGetDeviceInfo(parts[i], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units),
                                &units, NULL));
        note(tp_clGetDeviceInfo(parts[i], CL_DEVICE_PARENT_DEVICE, sizeof(parent),
                                &parent, NULL));
        note(units == 1 && parent == dev ? CL_SUCCESS : 1);
        note(tp_clReleaseDevice(parts[i]));
    }
}

/** Uses most of what a server can be asked for. @return the first error. */
static cl_int
run_program(void)
{
    struct _cl_platform_id *platform = tp_icd_platform();
    cl_device_id dev;
    cl_context ctx;
    cl_int err;

    if (platform == NULL) {
        return CL_PLATFORM_NOT_FOUND_KHR;
    }
    dev = platform->devices[0];
    ctx = tp_clCreateContext(NULL, 1, &dev, NULL, NULL, &err);
    if (ctx == NULL) {
        return err;
    }
    use_parts(dev);
    use_built_in(ctx, dev);
    use_queue(ctx, dev, CL_QUEUE_PROFILING_ENABLE);
    use_queue(ctx, dev,
              CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    tp_clReleaseContext(ctx);
    return worst;
}

/* ---- cases --------------------------------------------------------------------------------- */

static char folder[] = "/tmp/telpher-hostile-XXXXXX";

/** Runs one case in a process of its own. @return its wait status. */
static pid_t
start_case(enum lie what, unsigned at, unsigned seed)
{
    pid_t pid = fork();

    if (pid == 0) {
        alarm(CASE_S);
        server.lie = what;
        server.at = at;
        server.seed = seed;
        for (size_t i = 0; i < SIZE; i++) {
            server.content[i] = (uint8_t)(i * 7 + i / 251);
        }
        start_server(folder);
        exit(run_program() == CL_SUCCESS ? 0 : 3);
    }
    return pid;
}

/** Waits for one. @return true if it ended well: 0, or 3 with an error from some call. */
static int
end_case(pid_t pid, enum lie what, unsigned at)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3)) {
        fail_msg("lie %d at frame %u: status %x", what, at, (unsigned)status);
    }
    return WEXITSTATUS(status);
}

static void
test_honest(void **state)
{
    (void)state;
    assert_int_equal(end_case(start_case(HONEST, 0, 0), HONEST, 0), 0);
}

static void
test_lies(void **state)
{
    (void)state;
    for (unsigned what = HANG_UP; what < LIES; what++) {
        for (unsigned at = 1; at <= FRAMES; at += 4) {
            pid_t pid[4];
            unsigned step = what % 2 + 1;

            for (unsigned i = 0; i < 4; i += step) {
                pid[i] = start_case(what, at + i, what * 1000 + at + i);
            }
            for (unsigned i = 0; i < 4; i += step) {
                end_case(pid[i], what, at + i);
            }
        }
    }
}

static int
set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int
tear_down(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_honest),
        cmocka_unit_test(test_lies),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
