/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds and binaries, on the pool's threads. Binaries are handed out in a container that
 * also holds the facts on kernel arguments, since not every driver keeps those:
 *
 *   "TLPHBIN1"  u64 size of the facts  u64 size of the native binary  facts  binary
 */
#include "daemon/exec_build.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/trace.h"

#define ARG_INFO "-cl-kernel-arg-info"

static const char binary_magic[8] = {'T', 'L', 'P', 'H', 'B', 'I', 'N', '1'};

/* ---- a build's life ---- */

void
tp_exec_build_free(struct tp_exec_build *build)
{
    tp_exec_unref(&build->program->obj);
    tp_free(build->indices);
    tp_free(build->devices);
    tp_free(build->options);
    tp_free(build);
}

/* The devices named, or those of the context if none is. */
static int32_t
choose_devices(struct tp_exec_build *build, const struct tp_wire_u64s *named)
{
    const struct tp_exec_context *c = build->program->context;
    cl_uint count = named->count > 0 ? named->count : c->device_count;

    build->indices = tp_alloc_array(count, sizeof(*build->indices), "build");
    build->devices = tp_alloc_array(count, sizeof(*build->devices), "build");
    if (build->indices == NULL || build->devices == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (cl_uint i = 0; i < count; i++) {
        const struct tp_exec_device *d =
            named->count > 0 ? tp_exec_context_device(c, tp_wire_u64_at(named, i))
                             : &c->devices[i];

        if (d == NULL) {
            return CL_INVALID_DEVICE;
        }
        build->indices[i] = d->number;
        build->devices[i] = d->native;
    }
    build->device_count = count;
    return 0;
}

int32_t
tp_exec_build_new(struct tp_exec_program *p, const struct tp_wire_program_build *m,
                  struct tp_exec_build **ret_build)
{
    struct tp_exec_build *build = tp_zalloc(sizeof(*build), "build");
    int32_t error;

    if (build == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_list_init(&build->link);
    build->program = p;
    build->request = m->request;
    tp_exec_ref(&p->obj);
    build->options = tp_strndup(m->options.data, m->options.len, "build options");
    error = build->options == NULL ? CL_OUT_OF_HOST_MEMORY
                                   : choose_devices(build, &m->devices);
    if (error != 0) {
        tp_exec_build_free(build);
        return error;
    }
    *ret_build = build;
    return 0;
}

/* ---- content that is too large for a frame ---- */

static void
content_sent(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    (void)error;
    (void)start_ns;
    (void)end_ns;
    tp_free(arg);
}

telpher_status
tp_exec_send_content(struct tp_exec *x, uint64_t transfer, void *content, uint64_t size)
{
    const struct tp_transfer_params params = {.id = transfer,
                                              .size = size,
                                              .to_client = true,
                                              .memory = content,
                                              .finished = content_sent,
                                              .arg = content};
    telpher_status status = tp_transfers_start(x->transfers, &params);

    if (status != TELPHER_OK) {
        tp_free(content);
    }
    return status;
}

/* ---- building ---- */

/* The options with ours in front, so that kernels can be asked for their arguments. */
static char *
full_options(const struct tp_exec_build *build)
{
    return tp_asprintf("build options", "%s %s", ARG_INFO, build->options);
}

static int32_t
run_build(struct tp_exec_build *build)
{
    struct tp_exec_program *p = build->program;
    char *options;
    int32_t error;

    if (p->obj.error != 0) {
        return p->obj.error;
    }
    options = full_options(build);
    if (options == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_trace_begin("executor", "build");
    error = p->obj.x->cl.BuildProgram(p->native, build->device_count, build->devices,
                                      options, NULL, NULL);
    tp_trace_end("executor", "build");
    tp_free(options);
    return error;
}

/* Sends the reply; what does not fit in its frame follows as a transfer. */
static void
put_build_reply(struct tp_exec_build *build, int32_t error, struct tp_buf *facts)
{
    struct tp_exec *x = build->program->obj.x;
    struct tp_wire_build_reply m = {
        .request = build->request, .status = error, .size = tp_buf_len(facts)};
    void *content = NULL;

    if (m.size <= TP_WIRE_BLOB_MAX) {
        m.facts = (struct tp_wire_bytes){(uint32_t)m.size, tp_buf_data(facts)};
    } else {
        m.transfer = tp_exec_transfer_id(x);
        content = tp_memdup(tp_buf_data(facts), m.size, "build facts");
        if (content == NULL) {
            m = (struct tp_wire_build_reply){.request = build->request,
                                             .status = CL_OUT_OF_HOST_MEMORY};
        }
    }
    tp_exec_put(x, TP_WIRE_BUILD_REPLY, &m);
    tp_exec_flush(x);
    if (content != NULL) {
        (void)tp_exec_send_content(x, m.transfer, content, m.size);
    }
}

static void
build_job(void *arg)
{
    struct tp_exec_build *build = arg;
    struct tp_exec_program *p = build->program;
    struct tp_buf facts;
    int32_t error = run_build(build);

    tp_buf_init(&facts, 0);
    if (p->native != NULL &&
        tp_exec_program_facts(build, error == CL_SUCCESS, &facts) != TELPHER_OK) {
        error = CL_OUT_OF_HOST_MEMORY;
    }
    tp_mutex_lock(&p->obj.x->done_lock);
    p->building = false;
    tp_mutex_unlock(&p->obj.x->done_lock);
    put_build_reply(build, error, &facts);
    tp_buf_fini(&facts);
    tp_exec_build_free(build);
}

void
tp_exec_build_submit(struct tp_exec_build *build)
{
    struct tp_exec *x = build->program->obj.x;

    if (tp_pool_submit(x->pool, build_job, build) != TELPHER_OK) {
        struct tp_buf none;

        tp_buf_init(&none, 0);
        tp_mutex_lock(&x->done_lock);
        build->program->building = false;
        tp_mutex_unlock(&x->done_lock);
        put_build_reply(build, CL_OUT_OF_HOST_MEMORY, &none);
        tp_exec_build_free(build);
    }
}

/* ---- binaries ---- */

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
        return data; /* a native binary as it is */
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
    uint64_t *sizes; /* of theirs, with container, for the reply */
    cl_uint native_count; /* of those that the driver lists */
    cl_device_id *natives;
    size_t *native_sizes;
    uint32_t *source; /* which of those is for each of ours; native_count: none */
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
 * Finds which of the driver's binaries is for which device: PoCL, for one, lists a device
 * once instead of its parts. @return 0 or the CL error
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

/* @return [bytes] of the driver's binary for a device of ours, 0: it has none */
static size_t
native_size(const struct binaries *b, cl_uint i)
{
    return b->source[i] < b->native_count ? b->native_sizes[b->source[i]] : 0;
}

/* Asks for the sizes and lays out the containers. @return 0 or the CL error */
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
        error = p->obj.x->cl.GetProgramInfo(p->native, CL_PROGRAM_BINARY_SIZES,
                                            b->native_count * sizeof(size_t),
                                            b->native_sizes, NULL);
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

/* Writes the head of a container. @return where the native binary goes */
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

/* Writes the containers and has the driver fill in its binaries, each once. */
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
            places[b->source[i]] = ours[i]; /* the last of several gets it */
            at += b->sizes[i];
        }
    }
    error = b->program->obj.x->cl.GetProgramInfo(
        b->program->native, CL_PROGRAM_BINARIES, b->native_count * sizeof(*places),
        places, NULL);
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

/* The last one lets a build begin that came meanwhile. */
static void
end_reading(struct tp_exec_program *p)
{
    bool last;

    tp_mutex_lock(&p->obj.x->done_lock);
    last = --p->readers == 0;
    tp_mutex_unlock(&p->obj.x->done_lock);
    if (last) {
        tp_exec_program_ready(p);
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
    end_reading(b->program);
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
        reply.status = p->waiting || p->building ? CL_INVALID_PROGRAM_EXECUTABLE : 0;
        p->readers += reply.status == 0;
        tp_mutex_unlock(&x->done_lock);
    }
    if (reply.status == 0) {
        b = tp_zalloc(sizeof(*b), "binaries");
        reply.status = b == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
        if (b == NULL) {
            end_reading(p);
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
        end_reading(p);
        free_binaries(b);
        reply.status = CL_OUT_OF_HOST_MEMORY;
    }
    tp_exec_put(x, TP_WIRE_BINARIES_REPLY, &reply);
    return TELPHER_OK;
}
