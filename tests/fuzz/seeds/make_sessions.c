/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds that are whole sessions: lists of steps, as the targets describe them. */
#include "make_corpus.h"

#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "base/compiler.h"
#include "wire/facts.h"
#include "wire/files.h"
#include "wire/messages.h"

struct steps {
    uint8_t bytes[1 << 16];
    size_t len;
};

static void
add_bytes(struct steps *s, const void *bytes, size_t len)
{
    if (len > sizeof(s->bytes) - s->len) {
        abort();
    }
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
}

static void
add_u8(struct steps *s, unsigned value)
{
    add_bytes(s, &(uint8_t){(uint8_t)value}, 1);
}

/* Type, length, body. */
static void
add_message(struct steps *s, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg);
    uint8_t head[3] = {(uint8_t)type, (uint8_t)len, (uint8_t)(len >> 8)};

    add_bytes(s, head, sizeof(head));
    if (len > sizeof(s->bytes) - s->len) {
        abort();
    }
    row->put(s->bytes + s->len, msg);
    s->len += len;
}

#define ADD(s, NAME, name, ...)                                                        \
    add_message(s, TP_WIRE_##NAME, &(const struct tp_wire_##name){__VA_ARGS__})
#define U64S(...)                                                                      \
    {                                                                                  \
        sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint8_t *)(const uint64_t[])     \
        {                                                                              \
            __VA_ARGS__                                                                \
        }                                                                              \
    }
#define TEXT(text)                                                                     \
    {                                                                                  \
        sizeof(text) - 1, (text)                                                       \
    }
#define ID(KIND, n) ((uint64_t)TP_WIRE_KIND_##KIND << 56 | (n))

static uint8_t content[1024];

/* ---- executor --------------------------------------------------------------------------- */

enum {
    STEP_SHARE = 0xf1,
    STEP_SETTLE = 0xf2,
    STEP_SHORT = 0xf4,
    STEP_JOIN = 0xf5,
    STEP_PEER = 0xf6,
}; /* of fuzz_executor.c */

/* DATA whose content the target fills in. */
static void
add_data(struct steps *s, uint64_t id, uint64_t offset, uint32_t len)
{
    ADD(s, DATA, data, id, offset, {0});
    memcpy(s->bytes + s->len - sizeof(len), &len, sizeof(len));
}

/* Nothing more: what is under way comes to an end. */
static void
add_settle(struct steps *s)
{
    add_bytes(s, (const uint8_t[]){STEP_SETTLE, 0, 0}, 3);
}

/* A frame of another server: type, then the body. */
static void
add_peer_message(struct steps *s, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg) + 1;
    uint8_t body[256] = {(uint8_t)type};

    if (len > sizeof(body)) {
        abort();
    }
    row->put(body + 1, msg);
    add_bytes(s, (const uint8_t[]){STEP_PEER, (uint8_t)len, (uint8_t)(len >> 8)}, 3);
    add_bytes(s, body, len);
}
#define ADD_PEER(s, NAME, name, ...)                                                   \
    add_peer_message(s, TP_WIRE_##NAME, &(const struct tp_wire_##name){__VA_ARGS__})

static void
add_peer_data(struct steps *s, uint64_t id, uint64_t offset, uint32_t len)
{
    ADD_PEER(s, DATA, data, id, offset, {0});
    memcpy(s->bytes + s->len - sizeof(len), &len, sizeof(len));
}

/* Context 1, queue 1 with properties, buffers 1 and 2 of 64 KiB. */
static void
begin(struct steps *s, uint64_t properties)
{
    s->len = 0;
    ADD(s, CONTEXT_CREATE, context_create, ID(CONTEXT, 1), U64S(0, 1));
    ADD(s, QUEUE_CREATE, queue_create, ID(QUEUE, 1), ID(CONTEXT, 1), 0, properties);
    ADD(s, BUFFER_CREATE, buffer_create, ID(MEM, 1), ID(CONTEXT, 1), 1, 65536);
    ADD(s, BUFFER_CREATE, buffer_create, ID(MEM, 2), ID(CONTEXT, 1), 1, 65536);
}

static void
end(struct steps *s, const char *name)
{
    add_settle(s);
    ADD(s, RELEASE, release,
        U64S(ID(EVENT, 1), ID(MEM, 1), ID(MEM, 2), ID(QUEUE, 1), ID(CONTEXT, 1)));
    save("executor", name, s->bytes, s->len);
}

static void
make_buffers(struct steps *s)
{
    begin(s, 0);
    ADD(s, SUB_BUFFER_CREATE, sub_buffer_create, ID(MEM, 3), ID(MEM, 1), 1, 1024, 1024);
    ADD(s, WRITE, write, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 1), 1, 0, 100, 0, {0}, {0},
        {100, content});
    ADD(s, WRITE, write, 0, ID(QUEUE, 1), ID(MEM, 1), 0, 0, 64, 0,
        U64S(0, 1, 0, 8, 8, 1, 64, 0), {0}, {64, content});
    ADD(s, COPY, copy, ID(EVENT, 2), ID(QUEUE, 1), ID(MEM, 1), ID(MEM, 2), 0, 0, 8, 64,
        {0}, U64S(ID(EVENT, 1)));
    ADD(s, COPY, copy, 0, ID(QUEUE, 1), ID(MEM, 1), ID(MEM, 2), 0, 0, 0, 0,
        U64S(0, 0, 0, 8, 0, 0, 4, 4, 2, 16, 64, 16, 64), {0});
    ADD(s, FILL, fill, 0, ID(QUEUE, 1), ID(MEM, 2), 0, 16, 64, {0}, TEXT("abcd"));
    ADD(s, MIGRATE, migrate, 0, ID(QUEUE, 1), 0, 0, U64S(ID(MEM, 1), ID(MEM, 2)), {0});
    ADD(s, READ, read, ID(EVENT, 3), ID(QUEUE, 1), ID(MEM, 2), 1, 0, 200, 0, {0},
        U64S(ID(EVENT, 2)));
    ADD(s, BARRIER, barrier, 0, ID(QUEUE, 1), 0, {0});
    ADD(s, MARKER, marker, ID(EVENT, 4), ID(QUEUE, 1), 1, {0});
    ADD(s, SUBSCRIBE, subscribe, U64S(ID(EVENT, 2)));
    end(s, "buffers");
}

static void
add_program(struct steps *s)
{
    ADD(s, PROGRAM_SOURCE, program_source, ID(PROGRAM, 1), ID(CONTEXT, 1), 92, 0,
        TEXT("kernel void copy(global int *a, global int *b) {}\n"
             "kernel void inc(global int *x, int by) {}\n"));
    ADD(s, PROGRAM_BUILD, program_build, ID(REQUEST, 1), ID(PROGRAM, 1), U64S(0),
        TEXT("-DX=1"));
    add_settle(s);
    ADD(s, KERNEL_CREATE, kernel_create, ID(KERNEL, 1), ID(PROGRAM, 1), TEXT("copy"));
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 1), 0, TP_WIRE_ARG_MEM, 8,
        {8, &(uint64_t){ID(MEM, 1)}});
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 1), 1, TP_WIRE_ARG_MEM, 8,
        {8, &(uint64_t){ID(MEM, 2)}});
}

static void
make_kernels(struct steps *s)
{
    begin(s, CL_QUEUE_PROFILING_ENABLE);
    add_program(s);
    ADD(s, KERNEL_CREATE, kernel_create, ID(KERNEL, 2), ID(PROGRAM, 1), TEXT("inc"));
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 2), 0, TP_WIRE_ARG_MEM, 8,
        {8, &(uint64_t){ID(MEM, 1)}});
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 2), 1, TP_WIRE_ARG_VALUE, 4,
        {4, content});
    ADD(s, LAUNCH, launch, 0, ID(QUEUE, 1), ID(KERNEL, 1), 0, 1, U64S(0, 64), {0});
    ADD(s, LAUNCH, launch, ID(EVENT, 1), ID(QUEUE, 1), ID(KERNEL, 2), 1, 2,
        U64S(0, 0, 16, 4, 4, 4), {0});
    ADD(s, PROGRAM_BINARIES, program_binaries, ID(REQUEST, 2), ID(PROGRAM, 1));
    ADD(s, RELEASE, release, U64S(ID(KERNEL, 1), ID(PROGRAM, 1), ID(MEM, 1)));
    ADD(s, LAUNCH, launch, 0, ID(QUEUE, 1), ID(KERNEL, 2), 0, 1, U64S(0, 64), {0});
    end(s, "kernels");
}

/* A launch and others like it, the last ones with a short header. */
static void
make_launches_again(struct steps *s)
{
    static const uint8_t args[] = {1, TP_WIRE_ARG_VALUE << 5 | 4, 7, 0, 0, 0,
                                   0, TP_WIRE_ARG_MEM << 5};
    static const uint8_t brief[] = {
        STEP_SHORT, 11, 0, TP_WIRE_LAUNCH_AGAIN, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};

    begin(s, 0);
    add_program(s);
    ADD(s, LAUNCH, launch, ID(EVENT, 1), ID(QUEUE, 1), ID(KERNEL, 1), 0, 1, U64S(0, 64),
        {0});
    ADD(s, LAUNCH_AGAIN, launch_again, 1, 2, TP_WIRE_NOTIFY | TP_WIRE_AFTER_LAST, {0});
    ADD(s, LAUNCH_AGAIN, launch_again, 1, 0, 0, {sizeof(args), args});
    add_bytes(s, brief, sizeof(brief));
    add_bytes(s, brief, sizeof(brief));
    end(s, "launches_again");
}

static void
make_compile(struct steps *s)
{
    static const uint8_t digest[TP_WIRE_FILE_DIGEST_BYTES] = {1};
    const struct tp_wire_file header = {.kind = TP_WIRE_FILE_REGULAR,
                                        .has_content = true,
                                        .name_len = 3,
                                        .len = 4,
                                        .identity = 7,
                                        .digest = digest,
                                        .name = "a.h",
                                        .content = (const uint8_t *)"/**/"};
    const struct tp_wire_file absent = {
        .kind = TP_WIRE_FILE_ABSENT, .name_len = 3, .name = "b.h"};
    uint8_t files[128];
    uint32_t size = (uint32_t)tp_wire_file_size(&absent);

    begin(s, 0);
    tp_wire_put_file(files, &absent);
    tp_wire_put_file(files + size, &header);
    size += (uint32_t)tp_wire_file_size(&header);
    ADD(s, PROGRAM_SOURCE, program_source, ID(PROGRAM, 1), ID(CONTEXT, 1), 400,
        ID(TRANSFER, 1), {0});
    add_data(s, ID(TRANSFER, 1), 0, 400);
    ADD(s, PROGRAM_FILES, program_files, ID(PROGRAM, 1), size, 0, {size, files});
    ADD(s, PROGRAM_COMPILE, program_compile, ID(REQUEST, 1), ID(PROGRAM, 1), U64S(0, 1),
        U64S(ID(PROGRAM, 1)), {4, "x.h"}, TEXT("-Werror"));
    add_settle(s);
    ADD(s, PROGRAM_LINK, program_link, ID(REQUEST, 2), ID(PROGRAM, 2), ID(CONTEXT, 1),
        U64S(0, 1), U64S(ID(PROGRAM, 1)), TEXT(""));
    add_settle(s);
    ADD(s, PROGRAM_BINARY, program_binary, ID(REQUEST, 3), ID(PROGRAM, 3),
        ID(CONTEXT, 1), U64S(0), U64S(30), 0, {30, content});
    ADD(s, PROGRAM_BUILD, program_build, ID(REQUEST, 4), ID(PROGRAM, 3), U64S(0),
        TEXT(""));
    end(s, "compile");
}

static void
make_events(struct steps *s)
{
    begin(s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    ADD(s, USER_EVENT_CREATE, user_event_create, ID(EVENT, 10), ID(CONTEXT, 1));
    ADD(s, USER_EVENT_CREATE, user_event_create, ID(EVENT, 11), ID(CONTEXT, 1));
    ADD(s, FILL, fill, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 2), 1, 16, 64,
        U64S(ID(EVENT, 10)), TEXT("abcd"));
    ADD(s, MARKER, marker, ID(EVENT, 2), ID(QUEUE, 1), 0,
        U64S(ID(EVENT, 1), ID(EVENT, 11)));
    ADD(s, BARRIER, barrier, ID(EVENT, 3), ID(QUEUE, 1), 0, {0});
    ADD(s, READ, read, ID(EVENT, 4), ID(QUEUE, 1), ID(MEM, 2), 1, 0, 2000, 0, {0}, {0});
    ADD(s, SUBSCRIBE, subscribe, U64S(ID(EVENT, 2), ID(EVENT, 3), ID(EVENT, 77)));
    ADD(s, USER_EVENT_SET, user_event_set, ID(EVENT, 10), 0);
    ADD(s, USER_EVENT_SET, user_event_set, ID(EVENT, 11), -7);
    end(s, "events");
}

static const uint8_t pair_name[TP_WIRE_SESSION_BYTES] = "pair";

/* Context and queue, and server 7, which has connected. */
static void
begin_with_peer(struct steps *s)
{
    static const uint8_t key[TP_WIRE_PEER_KEY_BYTES] = "key";

    begin(s, 0);
    ADD(s, PEER_ACCEPT, peer_accept, ID(REQUEST, 1), 7, {sizeof(pair_name), pair_name},
        {sizeof(key), key});
    add_bytes(s, (const uint8_t[]){STEP_JOIN, sizeof(pair_name), 0}, 3);
    add_bytes(s, pair_name, sizeof(pair_name));
}

/* Content and ends of events, before and after their commands. */
static void
make_peer(struct steps *s)
{
    begin_with_peer(s);
    add_peer_data(s, ID(TRANSFER, 1), 0, 8000);
    ADD(s, PULL, pull, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 1), 1, 7, 0, 20000,
        ID(TRANSFER, 1), {0}, {0});
    add_peer_data(s, ID(TRANSFER, 1), 8000, 12000);
    ADD(s, PUSH, push, ID(EVENT, 2), ID(QUEUE, 1), ID(MEM, 1), 1, 7, 0, 20000,
        ID(TRANSFER, 2), {0}, U64S(ID(EVENT, 1)));
    ADD_PEER(s, CREDIT, credit, ID(TRANSFER, 2), 20000);
    ADD_PEER(s, USER_EVENT_SET, user_event_set, ID(EVENT, 3), 0);
    ADD(s, PEER_EVENT, peer_event, ID(EVENT, 3), ID(CONTEXT, 1), 7);
    ADD(s, PEER_EVENT, peer_event, ID(EVENT, 4), ID(CONTEXT, 1), 7);
    ADD(s, MARKER, marker, ID(EVENT, 5), ID(QUEUE, 1), 1, U64S(ID(EVENT, 3)));
    ADD(s, FORWARD, forward, 7, U64S(ID(EVENT, 5)));
    ADD(s, MARKER, marker, ID(EVENT, 6), ID(QUEUE, 1), 1, U64S(ID(EVENT, 4)));
    ADD_PEER(s, USER_EVENT_SET, user_event_set, ID(EVENT, 4), -5);
    end(s, "peer");
}

/* A server that aborts, sends what it was not asked for, and breaks off. */
static void
make_peer_wrong(struct steps *s)
{
    begin_with_peer(s);
    ADD(s, PULL, pull, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 1), 1, 7, 0, 20000,
        ID(TRANSFER, 1), {0}, {0});
    ADD_PEER(s, ABORT, abort, ID(TRANSFER, 1), -5);
    ADD_PEER(s, ABORT, abort, ID(TRANSFER, 3), -5);
    add_peer_data(s, ID(TRANSFER, 4), 0, 100);
    ADD(s, PULL, pull, ID(EVENT, 2), ID(QUEUE, 1), ID(MEM, 2), 1, 7, 0, 20000,
        ID(TRANSFER, 3), {0}, {0});
    ADD(s, WRITE, write, ID(EVENT, 3), ID(QUEUE, 1), ID(MEM, 1), 1, 0, 20000,
        ID(TRANSFER, 4), {0}, {0}, {0});
    add_data(s, ID(TRANSFER, 4), 0, 20000);
    ADD(s, PULL, pull, ID(EVENT, 4), ID(QUEUE, 1), ID(MEM, 2), 1, 7, 0, 20000,
        ID(TRANSFER, 5), {0}, {0});
    add_peer_data(s, ID(TRANSFER, 5), 4096, 100);
    end(s, "peer_wrong");
}

/* A holder of a token that writes, reads and breaks off. */
static void
make_endpoint(struct steps *s)
{
    static const uint8_t key[TP_WIRE_PEER_KEY_BYTES] = "key";

    begin(s, 0);
    ADD(s, EXPORT, export, ID(REQUEST, 1), ID(EXPORT, 1), ID(QUEUE, 1), ID(MEM, 1), 3,
        0, 30000, 0, {sizeof(pair_name), pair_name}, {sizeof(key), key});
    add_bytes(s, (const uint8_t[]){STEP_JOIN, sizeof(pair_name), 0}, 3);
    add_bytes(s, pair_name, sizeof(pair_name));
    ADD_PEER(s, ENDPOINT, endpoint, 0, 2, ID(TRANSFER, 1), ID(EVENT, 1), 0, 20000);
    add_peer_data(s, ID(TRANSFER, 1), 0, 20000);
    ADD_PEER(s, ENDPOINT, endpoint, 0, 1, ID(TRANSFER, 2), ID(EVENT, 2), 100, 20000);
    ADD_PEER(s, CREDIT, credit, ID(TRANSFER, 2), 20000);
    ADD_PEER(s, ENDPOINT, endpoint, 0, 2, ID(TRANSFER, 3), ID(EVENT, 3), 20000, 20000);
    add_peer_data(s, ID(TRANSFER, 3), 0, 20000);
    ADD_PEER(s, ENDPOINT, endpoint, 0, 2, ID(TRANSFER, 4), ID(EVENT, 4), 0, 20000);
    add_peer_data(s, ID(TRANSFER, 4), 0, 100);
    ADD_PEER(s, ABORT, abort, ID(TRANSFER, 4), -5);
    ADD(s, RELEASE, release, U64S(ID(EXPORT, 1)));
    end(s, "endpoint");
}

static void
make_moves(struct steps *s)
{
    begin(s, 0);
    ADD(s, BUFFER_CREATE, buffer_create, ID(MEM, 3), ID(CONTEXT, 1), 1, 2 << 20);
    add_data(s, ID(TRANSFER, 1), 0, 8000);
    ADD(s, WRITE, write, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 1), 1, 0, 20000,
        ID(TRANSFER, 1), {0}, {0}, {0});
    add_data(s, ID(TRANSFER, 1), 8000, 12000);
    ADD(s, READ, read, ID(EVENT, 2), ID(QUEUE, 1), ID(MEM, 1), 1, 0, 20000,
        ID(TRANSFER, 2), {0}, {0});
    ADD(s, READ, read, ID(EVENT, 3), ID(QUEUE, 1), ID(MEM, 3), 1, 0, 1 << 20,
        ID(TRANSFER, 3), {0}, {0});
    ADD(s, WRITE, write, ID(EVENT, 4), ID(QUEUE, 1), ID(MEM, 2), 1, 0, 30000,
        ID(TRANSFER, 4), U64S(0, 0, 0, 100, 100, 3, 110, 0), {0}, {0});
    ADD(s, ABORT, abort, ID(TRANSFER, 4), -5);
    ADD(s, MARKER, marker, ID(EVENT, 5), ID(QUEUE, 1), 1, {0});
    ADD(s, WRITE, write, ID(EVENT, 6), ID(QUEUE, 1), ID(MEM, 9), 1, 0, 30000,
        ID(TRANSFER, 5), {0}, {0}, {0});
    add_data(s, ID(TRANSFER, 5), 0, 30000);
    end(s, "moves");
}

static void
make_images(struct steps *s)
{
    begin(s, 0);
    ADD(s, IMAGE_CREATE, image_create, ID(MEM, 5), ID(CONTEXT, 1), 1,
        CL_MEM_OBJECT_IMAGE2D, CL_RGBA, CL_UNORM_INT8, 16, 16, 0, 0, 0, 0);
    ADD(s, IMAGE_CREATE, image_create, ID(MEM, 6), ID(CONTEXT, 1), 1,
        CL_MEM_OBJECT_IMAGE3D, CL_RGBA, CL_FLOAT, 8, 4, 3, 0, 0, 0);
    ADD(s, IMAGE_CREATE, image_create, ID(MEM, 7), ID(CONTEXT, 1), 1,
        CL_MEM_OBJECT_IMAGE1D_BUFFER, CL_RGBA, CL_UNORM_INT8, 64, 0, 0, 0, 0,
        ID(MEM, 1));
    ADD(s, SAMPLER_CREATE, sampler_create, ID(SAMPLER, 1), ID(CONTEXT, 1), 1,
        CL_ADDRESS_CLAMP, CL_FILTER_LINEAR);
    ADD(s, WRITE_IMAGE, write_image, 0, ID(QUEUE, 1), ID(MEM, 5), 0, 256, 0,
        U64S(0, 0, 0, 8, 8, 1), {0}, {256, content});
    ADD(s, READ_IMAGE, read_image, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 5), 1, 256, 0,
        U64S(8, 8, 0, 8, 8, 1), {0});
    ADD(s, READ_IMAGE, read_image, ID(EVENT, 3), ID(QUEUE, 1), ID(MEM, 6), 1, 1536,
        ID(TRANSFER, 1), U64S(0, 0, 0, 8, 4, 3), {0});
    ADD(s, COPY_IMAGE, copy_image, 0, ID(QUEUE, 1), ID(MEM, 5), ID(MEM, 7), 0,
        U64S(0, 0, 0, 1, 0, 0, 4, 1, 1), {0});
    ADD(s, COPY_IMAGE_TO_BUFFER, copy_image_to_buffer, 0, ID(QUEUE, 1), ID(MEM, 5),
        ID(MEM, 2), 0, 64, U64S(0, 0, 0, 16, 16, 1), {0});
    ADD(s, COPY_BUFFER_TO_IMAGE, copy_buffer_to_image, 0, ID(QUEUE, 1), ID(MEM, 2),
        ID(MEM, 6), 0, 0, U64S(0, 0, 0, 8, 4, 3), {0});
    ADD(s, FILL_IMAGE, fill_image, ID(EVENT, 2), ID(QUEUE, 1), ID(MEM, 5), 1,
        U64S(0, 0, 0, 16, 16, 1), {0}, {16, content});
    end(s, "images");
}

static void
make_parts(struct steps *s)
{
    s->len = 0;
    ADD(s, SUB_DEVICES, sub_devices, ID(REQUEST, 1), 0, TP_WIRE_SUB_DEVICE_FIRST, 0,
        U64S(CL_DEVICE_PARTITION_EQUALLY, 1));
    ADD(s, SUB_DEVICES, sub_devices, ID(REQUEST, 1), 0, TP_WIRE_SUB_DEVICE_FIRST, 2,
        U64S(CL_DEVICE_PARTITION_BY_COUNTS, 1, 1));
    ADD(s, CONTEXT_CREATE, context_create, ID(CONTEXT, 1),
        U64S(TP_WIRE_SUB_DEVICE_FIRST, TP_WIRE_SUB_DEVICE_FIRST + 1));
    ADD(s, QUEUE_CREATE, queue_create, ID(QUEUE, 1), ID(CONTEXT, 1),
        TP_WIRE_SUB_DEVICE_FIRST + 1, 0);
    ADD(s, RELEASE, release, U64S(ID(DEVICE, TP_WIRE_SUB_DEVICE_FIRST)));
    ADD(s, DEVICE_TIMER, device_timer, ID(REQUEST, 2), 0);
    ADD(s, MARKER, marker, ID(EVENT, 1), ID(QUEUE, 1), 1, {0});
    end(s, "parts");
}

/* Shared virtual memory: where it is free, where it is not, at the driver's own address. */
static void
make_svm(struct steps *s)
{
    const uint64_t pointer[] = {ID(MEM, 3), 64};

    begin(s, 0);
    ADD(s, SVM_ALLOC, svm_alloc, ID(REQUEST, 1), ID(MEM, 3), ID(CONTEXT, 1), 1, 65536,
        UINT64_C(0x2000000000), 0);
    ADD(s, SVM_ALLOC, svm_alloc, ID(REQUEST, 2), ID(MEM, 4), ID(CONTEXT, 1), 1, 65536,
        UINT64_C(0x2000000000), 0);
    ADD(s, SVM_ALLOC, svm_alloc, ID(REQUEST, 3), ID(MEM, 5), ID(CONTEXT, 1), 1, 100, 0,
        0);
    ADD(s, SUB_BUFFER_CREATE, sub_buffer_create, ID(MEM, 6), ID(MEM, 3), 1, 4, 1000);
    ADD(s, COPY, copy, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 3), ID(MEM, 1), 1, 0, 0,
        4096, {0}, {0});
    ADD(s, PROGRAM_SOURCE, program_source, ID(PROGRAM, 1), ID(CONTEXT, 1), 42, 0,
        TEXT("kernel void inc(global int *x, int by) {}\n"));
    ADD(s, PROGRAM_BUILD, program_build, ID(REQUEST, 4), ID(PROGRAM, 1), U64S(0), {0});
    add_settle(s);
    ADD(s, KERNEL_CREATE, kernel_create, ID(KERNEL, 1), ID(PROGRAM, 1), TEXT("inc"));
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 1), 0, TP_WIRE_ARG_SVM, 8,
        {sizeof(pointer), pointer});
    ADD(s, EXEC_INFO, exec_info, ID(KERNEL, 1), U64S(ID(MEM, 3), ID(MEM, 9)));
    ADD(s, RELEASE, release, U64S(ID(MEM, 3), ID(MEM, 5), ID(MEM, 6), ID(KERNEL, 1)));
    end(s, "svm");
}

/* Pipes: one that kernels use, some that are none, and commands that take no pipe. */
static void
make_pipes(struct steps *s)
{
    const uint64_t pipe = ID(MEM, 3), ints = ID(MEM, 1);

    begin(s, 0);
    ADD(s, PIPE_CREATE, pipe_create, pipe, ID(CONTEXT, 1), 1, 4, 16);
    ADD(s, PIPE_CREATE, pipe_create, ID(MEM, 4), ID(CONTEXT, 1), 1, 0, 16);
    ADD(s, PIPE_CREATE, pipe_create, ID(MEM, 5), ID(CONTEXT, 1), 4, 4, UINT32_MAX);
    ADD(s, PROGRAM_SOURCE, program_source, ID(PROGRAM, 1), ID(CONTEXT, 1), 56, 0,
        TEXT("kernel void pipe_put(write_only pipe int p, global int*x)"));
    ADD(s, PROGRAM_BUILD, program_build, ID(REQUEST, 1), ID(PROGRAM, 1), U64S(0), {0});
    add_settle(s);
    ADD(s, KERNEL_CREATE, kernel_create, ID(KERNEL, 1), ID(PROGRAM, 1),
        TEXT("pipe_put"));
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 1), 0, TP_WIRE_ARG_MEM, 8,
        {sizeof(pipe), &pipe});
    ADD(s, KERNEL_ARG, kernel_arg, ID(KERNEL, 1), 1, TP_WIRE_ARG_MEM, 8,
        {sizeof(ints), &ints});
    ADD(s, LAUNCH, launch, ID(EVENT, 1), ID(QUEUE, 1), ID(KERNEL, 1), 1, 1, U64S(0, 8),
        {0});
    ADD(s, FILL, fill, ID(EVENT, 2), ID(QUEUE, 1), pipe, 1, 0, 4, {0}, TEXT("abcd"));
    ADD(s, MIGRATE, migrate, ID(EVENT, 3), ID(QUEUE, 1), 1, 0, U64S(pipe), {0});
    ADD(s, RELEASE, release, U64S(pipe, ID(MEM, 4), ID(KERNEL, 1)));
    end(s, "pipes");
}

/* RECORD of a message. */
static void
add_record(struct steps *s, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    uint8_t body[512];

    row->put(body, msg);
    ADD(s, RECORD, record, ID(COMMANDS, 1), type, {(uint32_t)row->size(msg), body});
}

static void
make_commands(struct steps *s)
{
    begin(s, 0);
    add_program(s);
    ADD(s, COMMANDS_CREATE, commands_create, ID(COMMANDS, 1), ID(QUEUE, 1), 0);
    add_record(s, TP_WIRE_LAUNCH,
               &(const struct tp_wire_launch){
                   0, ID(QUEUE, 1), ID(KERNEL, 1), 0, 1, U64S(0, 64), {0}});
    add_record(s, TP_WIRE_COPY,
               &(const struct tp_wire_copy){
                   0, ID(QUEUE, 1), ID(MEM, 1), ID(MEM, 2), 0, 0, 8, 64, {0}, U64S(1)});
    add_record(s, TP_WIRE_FILL,
               &(const struct tp_wire_fill){0, ID(QUEUE, 1), ID(MEM, 2), 0, 16, 64,
                                            U64S(1, 2), TEXT("abcd")});
    add_record(s, TP_WIRE_BARRIER,
               &(const struct tp_wire_barrier){0, ID(QUEUE, 1), 0, {0}});
    ADD(s, COMMANDS_FINALIZE, commands_finalize, ID(COMMANDS, 1));
    ADD(s, COMMANDS_ENQUEUE, commands_enqueue, ID(EVENT, 1), ID(QUEUE, 1),
        ID(COMMANDS, 1), 1, {0});
    ADD(s, COMMANDS_ENQUEUE, commands_enqueue, 0, ID(QUEUE, 1), ID(COMMANDS, 1), 0,
        U64S(ID(EVENT, 1)));
    ADD(s, RELEASE, release, U64S(ID(COMMANDS, 1)));
    end(s, "commands");
}

static void
make_shared(struct steps *s)
{
    begin(s, 0);
    ADD(s, SHARE, share, 1, 100000);
    s->bytes[s->len - 15] = STEP_SHARE; /* its type: 3 and 12 bytes before here */
    ADD(s, PIECE, piece, ID(TRANSFER, 1), 0, 20000, 1, 0);
    ADD(s, WRITE, write, ID(EVENT, 1), ID(QUEUE, 1), ID(MEM, 1), 3, 0, 20000,
        ID(TRANSFER, 1), {0}, {0}, {0});
    ADD(s, WRITE, write, ID(EVENT, 2), ID(QUEUE, 1), ID(MEM, 1), 3, 0, 30000,
        ID(TRANSFER, 2), {0}, {0}, {0});
    ADD(s, PIECE, piece, ID(TRANSFER, 2), 0, 20000, 1, 0);
    ADD(s, PIECE, piece, ID(TRANSFER, 2), 20000, 10000, 1, 20000);
    ADD(s, READ, read, ID(EVENT, 3), ID(QUEUE, 1), ID(MEM, 1), 3, 0, 30000,
        ID(TRANSFER, 3), {0}, {0});
    ADD(s, PIECE, piece, ID(TRANSFER, 3), 0, 30000, 1, 40000);
    ADD(s, UNSHARE, unshare, 1);
    end(s, "shared");
}

void
make_executor_seeds(void)
{
    static struct steps s;

    make_buffers(&s);
    make_kernels(&s);
    make_launches_again(&s);
    make_compile(&s);
    make_events(&s);
    make_moves(&s);
    make_peer(&s);
    make_peer_wrong(&s);
    make_endpoint(&s);
    make_images(&s);
    make_parts(&s);
    make_svm(&s);
    make_commands(&s);
    make_pipes(&s);
    make_shared(&s);
}

/* ---- broker ------------------------------------------------------------------------------ */

/* Steps of fuzz_broker.c. */
enum {
    OPEN,
    BYTES,
    PREFACE,
    FRAME,
    START,
    DEVICES,
    END_REASON,
    CHILD_SPEAKS,
    CHILD_ENDS,
    CLOSE,
    TIME,
    SEALED,
    LONG_PING,
    TAKE,
    ROUTE_ACCEPT,
};

/* A step of connection, or process, @p of, with bytes behind it. */
static void
add_step(struct steps *s, unsigned what, unsigned of, const char *bytes, size_t len)
{
    add_u8(s, what | of << 4);
    add_bytes(s, bytes, len);
}

#define STEP(s, what, of, bytes) add_step(s, what, of, bytes, sizeof(bytes) - 1)

static void
make_plain(struct steps *s)
{
    s->len = 0;
    STEP(s, OPEN, 0, "\1");
    STEP(s, PREFACE, 0, "\14\0"); /* knows the cookie */
    STEP(s, TAKE, 0, ""); /* the challenge */
    STEP(s, DEVICES, 0, "");
    STEP(s, LONG_PING, 0, "\0\10");
    STEP(s, TAKE, 0, "");
    STEP(s, START, 0, "\1");
    STEP(s, OPEN, 1, "\1");
    STEP(s, PREFACE, 1, "\14\0");
    STEP(s, TAKE, 1, "");
    STEP(s, END_REASON, 1, "\0");
    STEP(s, CHILD_SPEAKS, 0, "\63bye");
    STEP(s, CHILD_ENDS, 0, "\13");
    STEP(s, CHILD_ENDS, 0, "\12");
    STEP(s, END_REASON, 1, "\10");
    STEP(s, TIME, 0, "\377");
    save("broker", "plain", s->bytes, s->len);
}

static void
make_held(struct steps *s)
{
    s->len = 0;
    STEP(s, OPEN, 0, "\0");
    STEP(s, PREFACE, 0, "\0\0");
    STEP(s, OPEN, 1, "\0");
    STEP(s, PREFACE, 1, "\1\0"); /* bulk stream 0 of it */
    STEP(s, OPEN, 2, "\0");
    STEP(s, PREFACE, 2, "\1\1");
    STEP(s, FRAME, 0, "\22\4\0\0\0\0"); /* START */
    STEP(s, OPEN, 3, "\0");
    STEP(s, PREFACE, 3, "\1\2");
    STEP(s, CHILD_ENDS, 0, "\0");
    STEP(s, OPEN, 4, "\0");
    STEP(s, BYTES, 4, "\10TELPHER\n");
    STEP(s, TIME, 4, "\100");
    STEP(s, CLOSE, 2, "\1");
    save("broker", "held", s->bytes, s->len);
}

/* A client lets another server pass, which proves its key and asks for the route. */
static void
make_route(struct steps *s)
{
    s->len = 0;
    STEP(s, OPEN, 0, "\1");
    STEP(s, PREFACE, 0, "\14\0");
    STEP(s, TAKE, 0, "");
    STEP(s, ROUTE_ACCEPT, 0, "\101"); /* the route of name 1 to "AA" */
    STEP(s, TAKE, 0, "");
    STEP(s, OPEN, 1, "\1");
    STEP(s, PREFACE, 1, "\34\31");
    STEP(s, BYTES, 1, "\2AA");
    STEP(s, TAKE, 1, "");
    STEP(s, CLOSE, 0, "\0");
    save("broker", "route", s->bytes, s->len);
}

static void
make_sealed(struct steps *s)
{
    uint8_t raw[TP_WIRE_PREFACE_BYTES], start[TP_WIRE_HEADER_BYTES + 4] = {0};
    const struct tp_wire_header h = {
        .len = sizeof(start), .type = TP_WIRE_START, .seq = 1};
    const struct tp_wire_preface p = {.version_min = 1,
                                      .version_max = 1,
                                      .stream = TP_WIRE_STREAM_COMMAND,
                                      .features =
                                          TP_WIRE_FEATURE_TLS | TP_WIRE_FEATURE_SHARED};

    s->len = 0;
    STEP(s, OPEN, 0, "\2");
    STEP(s, PREFACE, 0, "\2\0");
    STEP(s, BYTES, 0, "\1\26"); /* knocks */
    STEP(s, CHILD_SPEAKS, 0, "\174doorkey"); /* lets it in */
    tp_wire_put_preface(raw, &p);
    STEP(s, SEALED, 0, "\27\100");
    add_bytes(s, raw, sizeof(raw));
    STEP(s, SEALED, 0, "\27\34");
    tp_wire_put_header(start, &h);
    add_bytes(s, start, sizeof(start));
    STEP(s, OPEN, 1, "\2");
    STEP(s, PREFACE, 1, "\3\0");
    STEP(s, BYTES, 1, "\1\26");
    STEP(s, CHILD_SPEAKS, 1, "\170nobody!");
    STEP(s, TIME, 0, "\377");
    save("broker", "sealed", s->bytes, s->len);
}

void
make_broker_seeds(void)
{
    static struct steps s;

    make_plain(&s);
    make_held(&s);
    make_route(&s);
    make_sealed(&s);
}

/* ---- client ------------------------------------------------------------------------------ */

/* Calls of fuzz_client.c, in the order of its table. */
enum {
    CREATE,
    WRITE_SMALL,
    WRITE_LARGE,
    READ_SMALL,
    READ_LARGE,
    MARK,
    CALLBACK,
    WAIT,
    FINISH,
    BUILD,
    BUILD_LATER,
    KERNEL,
    LAUNCH,
    BINARIES,
    PARTS,
    TIMER,
    MAP,
    UNMAP,
    DROP,
    COMMANDS,
    BINARY,
    POLL,
    USER_EVENT,
    SET,
    IMAGE,
    BULK,
    LINK,
    ASK,
    COPY_FILL,
    LAST,
};

/* A seed: flags, the program, then what the server says. */
static void
begin_client(struct steps *s, unsigned flags, const uint8_t *program, size_t len)
{
    s->len = 0;
    add_u8(s, flags);
    add_u8(s, (unsigned)len);
    add_bytes(s, program, len);
}

/* A frame whose first number is replaced by the id that the client used @p back ids ago. */
static void
answer(struct steps *s, unsigned back, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg);

    add_bytes(s,
              (const uint8_t[]){(uint8_t)type, (uint8_t)back, (uint8_t)len,
                                (uint8_t)(len >> 8)},
              4);
    if (len > sizeof(s->bytes) - s->len) {
        abort();
    }
    row->put(s->bytes + s->len, msg);
    s->len += len;
}

#define ANSWER(s, back, NAME, name, ...)                                               \
    answer(s, back, TP_WIRE_##NAME, &(const struct tp_wire_##name){__VA_ARGS__})

static size_t
add_fact(uint8_t *dst, uint16_t kind, uint32_t param, const void *data, uint32_t len)
{
    struct tp_wire_fact f = {kind, 0, 0, param, 0, len, data};

    tp_wire_put_fact(dst, &f);
    return tp_wire_fact_size(len);
}

/* The facts of a build: status, log, one kernel with an argument. */
static uint32_t
put_build_facts(uint8_t *dst)
{
    static const uint32_t zero, one = 1;
    size_t len = 0;

    len += add_fact(dst + len, TP_WIRE_FACT_PROGRAM_DEVICE, CL_PROGRAM_BUILD_STATUS,
                    &zero, 4);
    len += add_fact(dst + len, TP_WIRE_FACT_PROGRAM_DEVICE, CL_PROGRAM_BUILD_LOG, "log",
                    4);
    len += add_fact(dst + len, TP_WIRE_FACT_KERNEL, CL_KERNEL_FUNCTION_NAME, "k", 2);
    len += add_fact(dst + len, TP_WIRE_FACT_KERNEL, CL_KERNEL_NUM_ARGS, &one, 4);
    len += add_fact(dst + len, TP_WIRE_FACT_KERNEL_ARG, CL_KERNEL_ARG_TYPE_NAME, "int*",
                    5);
    return (uint32_t)len;
}

static void
make_client_commands(struct steps *s)
{
    static const uint8_t program[] = {
        CREATE, WRITE_SMALL, CALLBACK, READ_SMALL, CALLBACK, POLL,      MARK,  WAIT,
        DROP,   ASK,         FINISH,   USER_EVENT, SET,      COPY_FILL, FINISH};

    begin_client(s, 0, program, sizeof(program));
    ANSWER(s, 0, STARTED, started, 0, TEXT(""));
    for (unsigned i = 0; i < 10; i++) {
        ANSWER(s, i % 4 + 1, DONE, done, 0, 0, U64S(1, 2, 3, 4, 5),
               {i == 1 ? 100 : 0, content});
    }
    ANSWER(s, 0, PRINTF, printf, TEXT(""));
    ANSWER(s, 2, FAILED, failed, 0, -5, TEXT("broken"));
    ANSWER(s, 0, CLOSE, close, -3, TEXT("bye"));
    save("client", "commands", s->bytes, s->len);
}

static void
make_client_programs(struct steps *s)
{
    static const uint8_t program[] = {CREATE,      BUILD, KERNEL,   LAUNCH, BINARIES,
                                      BUILD_LATER, POLL,  COMMANDS, LINK,   BINARY,
                                      FINISH,      PARTS, TIMER};
    uint8_t facts[512];
    uint32_t len = put_build_facts(facts);
    static const uint64_t size = 60;

    begin_client(s, 0, program, sizeof(program));
    ANSWER(s, 1, BUILD_REPLY, build_reply, 0, 0, len, 0, {len, facts});
    ANSWER(s, 1, BINARIES_REPLY, binaries_reply, 0, 0, {1, &size}, 0, {60, content});
    ANSWER(s, 1, BUILD_REPLY, build_reply, 0, 0, len, 0, {len, facts});
    ANSWER(s, 1, BUILD_REPLY, build_reply, 0, 0, len, 0, {len, facts});
    ANSWER(s, 1, BINARY_REPLY, binary_reply, 0, 0, U64S(0), U64S(4));
    ANSWER(s, 1, DONE, done, 0, 0, {0}, {0});
    len = (uint32_t)add_fact(facts, TP_WIRE_FACT_DEVICE, CL_DEVICE_MAX_COMPUTE_UNITS,
                             &(uint32_t){1}, 4);
    ANSWER(s, 1, SUB_DEVICES_REPLY, sub_devices_reply, 0, 0, 2, {0});
    ANSWER(s, 1, SUB_DEVICES_REPLY, sub_devices_reply, 0, 0, 2, {len, facts});
    ANSWER(s, 1, DEVICE_TIMER_REPLY, device_timer_reply, 0, 0, 42);
    save("client", "programs", s->bytes, s->len);
}

static void
make_client_content(struct steps *s)
{
    static const uint8_t program[] = {CREATE, WRITE_LARGE, READ_LARGE, CALLBACK, POLL,
                                      POLL,   IMAGE,       BULK,       WAIT,     MAP};

    for (unsigned flags = 0; flags < 2; flags++) { /* 1: in shared memory */
        begin_client(s, flags, program, sizeof(program));
        ANSWER(s, 0, SHARE_REPLY, share_reply, 0, 0);
        ANSWER(s, 2, DONE, done, 0, 0, {0}, {0});
        ANSWER(s, 1, PIECE_DONE, piece_done, 0, 0, 20000);
        ANSWER(s, 3, CREDIT, credit, 0, 20 << 20);
        ANSWER(s, 1, DATA, data, 0, 0, {0});
        memcpy(s->bytes + s->len - 4, &(uint32_t){12000},
               4); /* the target fills it in */
        ANSWER(s, 1, DATA, data, 0, 12000, {0});
        memcpy(s->bytes + s->len - 4, &(uint32_t){8000}, 4);
        ANSWER(s, 3, DONE, done, 0, 0, {0}, {0});
        save("client", flags == 0 ? "bulk" : "pieces", s->bytes, s->len);
    }
}

void
make_client_seeds(void)
{
    static struct steps s;

    make_client_commands(&s);
    make_client_programs(&s);
    make_client_content(&s);
}
