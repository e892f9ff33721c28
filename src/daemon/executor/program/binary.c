/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the binaries of programs, on the pool's threads. Each is in a container that also
 * holds the facts of kernel arguments, since not every driver keeps those:
 *
 *   "TLPHBIN1"  u64 size of the facts  u64 size of the native binary  facts  binary
 */
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/program.h"

static const char binary_magic[8] = {'T', 'L', 'P', 'H', 'B', 'I', 'N', '1'};

const uint8_t *
tp_exec_binary_unwrap(const uint8_t *data, uint64_t size, uint64_t *ret_native_size,
                      const uint8_t **ret_facts, uint64_t *ret_facts_size)
{
    uint64_t sizes[2];

    *ret_facts = data;
    *ret_facts_size = 0;
    *ret_native_size = size;
    if (size < TP_EXEC_BINARY_HEADER ||
        memcmp(data, binary_magic, sizeof(binary_magic)) != 0) {
        return data; /* a native binary without container */
    }
    memcpy(sizes, data + 8, sizeof(sizes));
    if (sizes[0] > size - TP_EXEC_BINARY_HEADER ||
        sizes[1] != size - TP_EXEC_BINARY_HEADER - sizes[0]) {
        return data; /* damaged: the driver will refuse it */
    }
    *ret_facts = data + TP_EXEC_BINARY_HEADER;
    *ret_facts_size = sizes[0];
    *ret_native_size = sizes[1];
    return *ret_facts + sizes[0];
}

/* Binaries being collected for PROGRAM_BINARIES. */
struct binaries {
    struct tp_exec_program *program;
    uint64_t request;
    cl_uint count; /* of the context's devices */
    uint64_t *sizes; /* of each binary with its container, for the reply */
    cl_uint native_count; /* of the devices that the driver lists */
    cl_device_id *natives;
    size_t *native_sizes;
    uint32_t *source; /* per device: index in the driver's list; native_count: none */
    struct tp_buf facts;
    uint8_t *content;
    uint64_t total;
};

static void
free_binaries(struct binaries *b)
{
    tp_exec_unref(&b->program->obj);
    tp_free(b->natives);
    tp_free(b->native_sizes);
    tp_free(b->source);
    tp_free(b->sizes);
    tp_buf_fini(&b->facts);
    tp_free(b->content);
    tp_free(b);
}

/*
 * Matches the driver's binaries to devices: PoCL, for example, lists a root device once
 * instead of its sub-devices. @return 0 or the CL error
 */
static int32_t
match_devices(struct binaries *b)
{
    struct tp_exec_program *p = b->program;
    const struct tp_opencl *cl = &p->obj.x->cl;
    int32_t error = cl->GetProgramInfo(p->native, CL_PROGRAM_NUM_DEVICES,
                                       sizeof(b->native_count), &b->native_count, NULL);

    if (error != 0) {
        return error;
    }
    b->natives = tp_alloc_array(b->native_count, sizeof(cl_device_id), "devices");
    b->native_sizes = tp_alloc_array(b->native_count, sizeof(size_t), "binary sizes");
    b->source = tp_alloc_array(b->count, sizeof(*b->source), "devices");
    if (b->natives == NULL || b->native_sizes == NULL || b->source == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    error =
        cl->GetProgramInfo(p->native, CL_PROGRAM_DEVICES,
                           b->native_count * sizeof(cl_device_id), b->natives, NULL);
    for (cl_uint i = 0; i < b->count && error == 0; i++) {
        while (b->source[i] < b->native_count &&
               !tp_exec_device_is_in(cl, p->context->devices[i].native,
                                     b->natives[b->source[i]])) {
            b->source[i]++;
        }
    }
    return error;
}

/* @return [bytes] of the driver's binary for one of our devices; 0: none */
static size_t
native_size(const struct binaries *b, cl_uint i)
{
    return b->source[i] < b->native_count ? b->native_sizes[b->source[i]] : 0;
}

/* Gets the sizes in the driver's order, of its binaries or of kept ones. @return 0 or the
 * CL error */
static int32_t
ask_sizes(struct binaries *b)
{
    const struct tp_exec_program *p = b->program;
    bool kept = b->native_count > 0;

    for (cl_uint i = 0; i < b->native_count; i++) {
        kept = kept && tp_exec_text_kept(p, b->natives[i], &b->native_sizes[i]) != NULL;
    }
    return kept ? 0
                : p->obj.x->cl.GetProgramInfo(p->native, CL_PROGRAM_BINARY_SIZES,
                                              b->native_count * sizeof(size_t),
                                              b->native_sizes, NULL);
}

/* Gets the binaries likewise. */
static int32_t
ask_binaries(struct binaries *b, uint8_t **places)
{
    const struct tp_exec_program *p = b->program;
    cl_uint copied = 0;

    for (cl_uint i = 0; i < b->native_count; i++) {
        size_t size;
        const uint8_t *kept = tp_exec_text_kept(p, b->natives[i], &size);

        if (kept != NULL && size == b->native_sizes[i]) {
            if (places[i] != NULL) {
                memcpy(places[i], kept, size);
            }
            copied++;
        }
    }
    return copied == b->native_count && copied > 0
               ? 0
               : p->obj.x->cl.GetProgramInfo(p->native, CL_PROGRAM_BINARIES,
                                             b->native_count * sizeof(*places), places,
                                             NULL);
}

/* Gets the sizes and lays out the containers. @return 0 or the CL error */
static int32_t
measure_binaries(struct binaries *b)
{
    struct tp_exec_program *p = b->program;
    int32_t error;

    b->count = p->context->device_count;
    b->sizes = tp_alloc_array(b->count, sizeof(uint64_t), "binary sizes");
    if (b->sizes == NULL || tp_exec_argument_facts(p, &b->facts) != TELPHER_OK) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    error = match_devices(b);
    if (error == 0) {
        error = ask_sizes(b);
    }
    for (cl_uint i = 0; i < b->count && error == 0; i++) {
        if (native_size(b, i) > 0) {
            b->sizes[i] =
                TP_EXEC_BINARY_HEADER + tp_buf_len(&b->facts) + native_size(b, i);
            b->total += b->sizes[i];
        }
    }
    return error;
}

/* Writes the header of a container. @return the destination of the native binary */
static uint8_t *
begin_container(const struct binaries *b, uint8_t *at, uint64_t native)
{
    uint64_t facts = tp_buf_len(&b->facts);
    const uint64_t sizes[2] = {facts, native};

    memcpy(at, binary_magic, sizeof(binary_magic));
    memcpy(at + 8, sizes, sizeof(sizes));
    if (facts > 0) {
        memcpy(at + TP_EXEC_BINARY_HEADER, tp_buf_data(&b->facts), facts);
    }
    return at + TP_EXEC_BINARY_HEADER + facts;
}

/* Writes the containers; the driver fills in each of its binaries once. */
static int32_t
fill_binaries(struct binaries *b)
{
    uint8_t **places = tp_alloc_array(b->native_count, sizeof(*places), "binaries");
    uint8_t **ours = tp_alloc_array(b->count, sizeof(*ours), "binaries");
    uint8_t *at;
    int32_t error = CL_OUT_OF_HOST_MEMORY;

    b->content = tp_malloc(b->total, "binaries");
    if (places == NULL || ours == NULL || b->content == NULL) {
        goto done;
    }
    at = b->content;
    for (cl_uint i = 0; i < b->count; i++) {
        if (b->sizes[i] > 0) {
            ours[i] = begin_container(b, at, native_size(b, i));
            places[b->source[i]] = ours[i]; /* of several devices, the last one */
            at += b->sizes[i];
        }
    }
    error = ask_binaries(b, places);
    for (cl_uint i = 0; i < b->count && error == 0; i++) {
        if (ours[i] != NULL && ours[i] != places[b->source[i]]) {
            memcpy(ours[i], places[b->source[i]], native_size(b, i));
        }
    }
done:
    tp_free(places);
    tp_free(ours);
    return error;
}

static void
put_binaries_reply(struct binaries *b, int32_t error)
{
    struct tp_exec *x = b->program->obj.x;
    struct tp_wire_binaries_reply m = {.request = b->request, .status = error};

    if (error == 0) {
        m.sizes = (struct tp_wire_u64s){(uint16_t)b->count, b->sizes};
        if (b->total <= TP_WIRE_BLOB_MAX) {
            m.binaries = (struct tp_wire_bytes){(uint32_t)b->total, b->content};
        } else {
            m.transfer = tp_exec_transfer_id(x);
        }
    }
    tp_exec_put(x, TP_WIRE_BINARIES_REPLY, &m);
    tp_exec_flush(x);
    if (m.transfer != 0) {
        (void)tp_exec_send_content(x, m.transfer, b->content, b->total);
        b->content = NULL;
    }
}

static void
binaries_job(void *arg)
{
    struct binaries *b = arg;
    int32_t error = measure_binaries(b);

    if (error == 0) {
        error = fill_binaries(b);
    }
    put_binaries_reply(b, error);
    tp_exec_program_end_reading(b->program);
    free_binaries(b);
}

telpher_status
tp_exec_on_program_binaries(struct tp_exec *x, const struct tp_wire_program_binaries *m)
{
    struct tp_exec_program *p;
    struct tp_wire_binaries_reply reply = {.request = m->request};
    struct binaries *b = NULL;

    reply.status = tp_exec_find(x, m->program, TP_WIRE_KIND_PROGRAM, &p);
    if (reply.status == 0) {
        tp_mutex_lock(&x->done_lock);
        reply.status = p->waiting > 0 || p->building || p->native == NULL
                           ? CL_INVALID_PROGRAM_EXECUTABLE
                           : 0;
        p->readers += reply.status == 0;
        tp_mutex_unlock(&x->done_lock);
    }
    if (reply.status == 0) {
        b = tp_zalloc(sizeof(*b), "binaries");
        reply.status = b == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
        if (b == NULL) {
            tp_exec_program_end_reading(p);
        }
    }
    if (reply.status == 0) {
        b->program = p;
        b->request = m->request;
        tp_buf_init(&b->facts, 0);
        tp_exec_ref(&p->obj);
        if (tp_pool_submit(x->pool, binaries_job, b) == TELPHER_OK) {
            return TELPHER_OK;
        }
        tp_exec_program_end_reading(p);
        free_binaries(b);
        reply.status = CL_OUT_OF_HOST_MEMORY;
    }
    tp_exec_put(x, TP_WIRE_BINARIES_REPLY, &reply);
    return TELPHER_OK;
}
