/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and kernels. The content of a program may come by a transfer; builds asked for
 * meanwhile wait for it.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/exec.h"
#include "daemon/exec_build.h"
#include "wire/facts.h"
#include "wire/files.h"

/* Content on its way. */
struct incoming {
    struct tp_exec_program *program;
    uint8_t *content;
    uint64_t size;
    uint64_t request; /* PROGRAM_BINARY: to be answered; 0 = source */
    uint16_t binary_count; /* PROGRAM_BINARY */
    uint64_t *sizes;
    cl_device_id *devices;
};

static void
free_incoming(struct incoming *in)
{
    tp_budget_give(&in->program->obj.x->host, in->size);
    tp_exec_unref(&in->program->obj);
    tp_free(in->content);
    tp_free(in->sizes);
    tp_free(in->devices);
    tp_free(in);
}

/*
 * Room for @p size bytes of a program. @return 0; else a CL error, and for what a limit
 * forbids the program is poisoned with it
 */
static int32_t
new_incoming(struct tp_exec_program *p, uint64_t size, struct incoming **ret_in)
{
    struct tp_exec *x = p->obj.x;
    struct incoming *in;

    if (size > x->limits.program_bytes) {
        return tp_exec_refuse(&p->obj, CL_OUT_OF_RESOURCES, "--max-program");
    }
    if (!tp_budget_take(&x->host, size)) {
        return tp_exec_refuse(&p->obj, CL_OUT_OF_HOST_MEMORY, "--max-host-memory");
    }
    in = tp_zalloc(sizeof(*in), "program content");
    if (in == NULL) {
        tp_budget_give(&x->host, size);
        return CL_OUT_OF_HOST_MEMORY;
    }
    in->size = size;
    in->program = p;
    tp_exec_ref(&p->obj);
    in->content = tp_malloc(size + 1, "program content");
    if (in->content == NULL) {
        free_incoming(in);
        return CL_OUT_OF_HOST_MEMORY;
    }
    *ret_in = in;
    return 0;
}

telpher_status
tp_exec_program_new(struct tp_exec *x, uint64_t id, uint64_t context,
                    enum tp_exec_origin origin, struct tp_exec_program **ret_program,
                    int32_t *ret_error)
{
    struct tp_exec_program *p;
    telpher_status status = tp_exec_create(x, id, TP_WIRE_KIND_PROGRAM, sizeof(*p), &p);

    if (status != TELPHER_OK) {
        return status;
    }
    tp_list_init(&p->builds);
    tp_buf_init(&p->stored, 0);
    p->origin = origin;
    *ret_error = tp_exec_find(x, context, TP_WIRE_KIND_CONTEXT, &p->context);
    if (*ret_error != 0) {
        p->context = NULL;
    } else {
        tp_exec_ref(&p->context->obj);
        *ret_error = p->obj.error;
    }
    *ret_program = p;
    return TELPHER_OK;
}

void
tp_exec_program_free(struct tp_exec_object *o)
{
    struct tp_exec_program *p = tp_container_of(o, struct tp_exec_program, obj);

    if (p->native != NULL) {
        o->x->cl.ReleaseProgram(p->native);
    }
    tp_exec_text_free(p->made_of);
    tp_buf_fini(&p->stored);
    tp_budget_give(&o->x->host, p->text_len + p->files_len);
    tp_free(p->text);
    tp_free(p->files);
    tp_exec_unref(p->context != NULL ? &p->context->obj : NULL);
    tp_free(p);
}

/* Announces the transfer that brings the content. */
static telpher_status
await_content(struct incoming *in, uint64_t transfer,
              void (*arrived)(void *arg, int32_t error, uint64_t start_ns,
                              uint64_t end_ns))
{
    const struct tp_transfer_params params = {.id = transfer,
                                              .size = in->size,
                                              .memory = in->content,
                                              .finished = arrived,
                                              .arg = in};

    if (tp_wire_id_kind(transfer) != TP_WIRE_KIND_TRANSFER || in->size == 0) {
        return TELPHER_ERR_PROTO;
    }
    tp_mutex_lock(&in->program->obj.x->done_lock);
    in->program->waiting++;
    tp_mutex_unlock(&in->program->obj.x->done_lock);
    tp_exec_watchdog_arm(in->program->obj.x->watchdog);
    return tp_transfers_start(in->program->obj.x->transfers, &params);
}

/* ---- source ---- */

/* Keeps the text; the native program comes with the first build. */
static int32_t
keep_text(struct tp_exec_program *p, const void *text, size_t len)
{
    if (!tp_budget_take(&p->obj.x->host, len)) {
        return tp_exec_refuse(&p->obj, CL_OUT_OF_HOST_MEMORY, "--max-host-memory");
    }
    p->text_len = len;
    p->text = tp_strndup(text, len, "program");
    return p->text == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
}

static void
source_arrived(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct incoming *in = arg;
    struct tp_exec_program *p = in->program;

    (void)start_ns;
    (void)end_ns;
    if (error == 0) {
        error = keep_text(p, in->content, in->size);
    }
    tp_exec_poison(&p->obj, error, "clCreateProgramWithSource");
    tp_exec_program_arrived(p);
    free_incoming(in);
}

telpher_status
tp_exec_on_program_source(struct tp_exec *x, const struct tp_wire_program_source *m)
{
    struct tp_exec_program *p;
    struct incoming *in;
    int32_t error;
    telpher_status status;

    if (m->source.len > TP_WIRE_BLOB_MAX ||
        (m->transfer == 0 && m->size != m->source.len) ||
        (m->transfer != 0 && m->source.len != 0)) {
        return TELPHER_ERR_PROTO;
    }
    status =
        tp_exec_program_new(x, m->program, m->context, TP_EXEC_FROM_SOURCE, &p, &error);
    if (status != TELPHER_OK) {
        return status;
    }
    if (error == 0 && m->transfer == 0) {
        error = keep_text(p, m->source.data, m->source.len);
    } else if (error == 0) {
        error = new_incoming(p, m->size, &in);
        if (error == 0) {
            return await_content(in, m->transfer, source_arrived);
        }
    }
    tp_exec_poison(&p->obj, error, "clCreateProgramWithSource");
    return error != 0 && m->transfer != 0
               ? tp_transfers_discard(x->transfers, m->transfer, m->size, false)
               : TELPHER_OK;
}

/* ---- files that builds include ---- */

/* Takes records for the next build; those that are not proper have it fail. */
static void
keep_files(struct tp_exec_program *p, uint8_t *records, uint64_t len, int32_t error)
{
    if (error == 0 && tp_wire_files_check(records, len) == 0) {
        error = CL_INVALID_VALUE;
    }
    if (error == 0 && !tp_budget_take(&p->obj.x->host, len)) {
        error = CL_OUT_OF_HOST_MEMORY;
    }
    if (error != 0) {
        tp_free(records);
        records = NULL;
        len = 0;
    }
    tp_mutex_lock(&p->obj.x->done_lock);
    tp_budget_give(&p->obj.x->host, p->files_len);
    tp_free(p->files);
    p->files = records;
    p->files_len = len;
    p->files_error = error;
    tp_mutex_unlock(&p->obj.x->done_lock);
}

static void
files_arrived(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct incoming *in = arg;

    (void)start_ns;
    (void)end_ns;
    keep_files(in->program, in->content, in->size, error);
    in->content = NULL;
    tp_exec_program_arrived(in->program);
    free_incoming(in);
}

telpher_status
tp_exec_on_program_files(struct tp_exec *x, const struct tp_wire_program_files *m)
{
    struct tp_exec_program *p = NULL;
    struct incoming *in = NULL;
    int32_t error = tp_exec_find(x, m->program, TP_WIRE_KIND_PROGRAM, &p);

    if (m->size == 0 || m->size > TP_WIRE_FILES_BYTES_MAX ||
        m->files.len > TP_WIRE_BLOB_MAX ||
        m->files.len != (m->transfer == 0 ? m->size : 0)) {
        return TELPHER_ERR_PROTO;
    }
    if (error == 0) {
        error = new_incoming(p, m->size, &in);
    }
    if (in != NULL && m->transfer != 0) {
        return await_content(in, m->transfer, files_arrived);
    }
    if (in != NULL) {
        memcpy(in->content, m->files.data, m->size);
        keep_files(p, in->content, m->size, 0);
        in->content = NULL;
        free_incoming(in);
    } else if (p != NULL) {
        keep_files(p, NULL, 0, error);
    }
    return in == NULL && m->transfer != 0
               ? tp_transfers_discard(x->transfers, m->transfer, m->size, false)
               : TELPHER_OK; /* a program that is none: its build will tell */
}

/* ---- binaries ---- */

static void
put_binary_reply(struct tp_exec *x, uint64_t request, int32_t error,
                 const uint64_t *binary_status, const uint64_t *types, uint16_t count)
{
    struct tp_wire_binary_reply m = {.request = request,
                                     .status = error,
                                     .binary_status = {count, binary_status},
                                     .binary_types = {count, types}};

    tp_exec_put(x, TP_WIRE_BINARY_REPLY, &m);
    tp_exec_flush(x);
}

/* Keeps the argument facts that lie in front of the native binary. */
static void
keep_facts(struct tp_exec_program *p, const uint8_t *facts, uint64_t size)
{
    if (tp_buf_len(&p->stored) == 0) {
        (void)tp_buf_append(&p->stored, facts, size);
    }
}

/* Native binaries in in->content. @return 0 or the CL error; ret_status has each one's */
static int32_t
create_from_binaries(struct incoming *in, cl_int *ret_status)
{
    struct tp_exec_program *p = in->program;
    const uint8_t **binaries =
        tp_alloc_array(in->binary_count, sizeof(*binaries), "binaries");
    size_t *lengths = tp_alloc_array(in->binary_count, sizeof(*lengths), "binaries");
    const uint8_t *at = in->content;
    int32_t error = binaries == NULL || lengths == NULL ? CL_OUT_OF_HOST_MEMORY : 0;

    for (uint16_t i = 0; i < in->binary_count && error == 0; i++) {
        const uint8_t *facts;
        uint64_t native, facts_size;

        binaries[i] =
            tp_exec_binary_unwrap(at, in->sizes[i], &native, &facts, &facts_size);
        lengths[i] = native;
        keep_facts(p, facts, facts_size);
        at += in->sizes[i];
    }
    if (error == 0) {
        p->native = p->obj.x->cl.CreateProgramWithBinary(
            p->context->native, in->binary_count, in->devices, lengths, binaries,
            ret_status, &error);
    }
    tp_free(binaries);
    tp_free(lengths);
    return error;
}

/* What kind of binary each device has: clLinkProgram takes some of them at once. */
static void
ask_types(struct incoming *in, uint64_t *types)
{
    struct tp_exec_program *p = in->program;

    for (uint16_t i = 0; i < in->binary_count; i++) {
        cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_NONE;

        (void)p->obj.x->cl.GetProgramBuildInfo(p->native, in->devices[i],
                                               CL_PROGRAM_BINARY_TYPE, sizeof(type),
                                               &type, NULL);
        types[i] = type;
    }
}

static void
use_binaries(struct incoming *in, int32_t error)
{
    struct tp_exec_program *p = in->program;
    struct tp_exec *x = p->obj.x;
    cl_int *status = tp_alloc_array(in->binary_count, sizeof(*status), "binary status");
    uint64_t *wide =
        tp_alloc_array(2 * (size_t)in->binary_count, sizeof(*wide), "binary status");

    if (status == NULL || wide == NULL) {
        error = CL_OUT_OF_HOST_MEMORY;
    }
    if (error == 0) {
        error = create_from_binaries(in, status);
    }
    for (uint16_t i = 0; wide != NULL && status != NULL && i < in->binary_count; i++) {
        wide[i] = (uint32_t)status[i];
    }
    if (error == 0) {
        ask_types(in, wide + in->binary_count);
    }
    tp_exec_poison(&p->obj, error, "clCreateProgramWithBinary");
    put_binary_reply(x, in->request, error, wide,
                     wide != NULL ? wide + in->binary_count : NULL,
                     wide != NULL ? in->binary_count : (uint16_t)0);
    tp_free(status);
    tp_free(wide);
}

static void
binaries_arrived(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct incoming *in = arg;

    (void)start_ns;
    (void)end_ns;
    use_binaries(in, error);
    tp_exec_program_arrived(in->program);
    free_incoming(in);
}

/* Copies devices and sizes of a PROGRAM_BINARY. @return 0 or the CL error */
static int32_t
fill_incoming(struct incoming *in, const struct tp_wire_program_binary *m)
{
    in->request = m->request;
    in->binary_count = m->devices.count;
    in->sizes = tp_alloc_array(m->devices.count, sizeof(*in->sizes), "binaries");
    in->devices = tp_alloc_array(m->devices.count, sizeof(*in->devices), "binaries");
    if (in->sizes == NULL || in->devices == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (uint16_t i = 0; i < m->devices.count; i++) {
        const struct tp_exec_device *d = tp_exec_context_device(
            in->program->context, tp_wire_u64_at(&m->devices, i));

        if (d == NULL) {
            return CL_INVALID_DEVICE;
        }
        in->devices[i] = d->native;
        in->sizes[i] = tp_wire_u64_at(&m->sizes, i);
    }
    return 0;
}

/* @return sum of the sizes, or UINT64_MAX if that is more than any transfer has */
static uint64_t
total_size(const struct tp_wire_u64s *sizes)
{
    uint64_t total = 0;

    for (uint16_t i = 0; i < sizes->count; i++) {
        uint64_t size = tp_wire_u64_at(sizes, i);

        if (size > TP_WIRE_TRANSFER_MAX || total + size > TP_WIRE_TRANSFER_MAX) {
            return UINT64_MAX;
        }
        total += size;
    }
    return total;
}

telpher_status
tp_exec_on_program_binary(struct tp_exec *x, const struct tp_wire_program_binary *m)
{
    uint64_t total = total_size(&m->sizes);
    struct tp_exec_program *p;
    struct incoming *in = NULL;
    int32_t error;
    telpher_status status;

    if (m->devices.count == 0 || m->devices.count != m->sizes.count ||
        total == UINT64_MAX || m->binaries.len > TP_WIRE_BLOB_MAX ||
        m->binaries.len != (m->transfer == 0 ? total : 0)) {
        return TELPHER_ERR_PROTO;
    }
    status =
        tp_exec_program_new(x, m->program, m->context, TP_EXEC_FROM_BINARY, &p, &error);
    if (status != TELPHER_OK) {
        return status;
    }
    if (error == 0) {
        error = new_incoming(p, total, &in);
    }
    if (error == 0) {
        error = fill_incoming(in, m);
    }
    if (error == 0 && m->transfer != 0) {
        return await_content(in, m->transfer, binaries_arrived);
    }
    if (error == 0) {
        memcpy(in->content, m->binaries.data, total);
        use_binaries(in, 0);
    } else {
        tp_exec_poison(&p->obj, error, "clCreateProgramWithBinary");
        put_binary_reply(x, m->request, error, NULL, NULL, 0);
        if (m->transfer != 0 && total > 0) {
            status = tp_transfers_discard(x->transfers, m->transfer, total, false);
        }
    }
    if (in != NULL) {
        free_incoming(in);
    }
    return status;
}

/* ---- builds ---- */

static void
put_build_error(struct tp_exec *x, uint64_t request, int32_t error)
{
    struct tp_wire_build_reply m = {.request = request, .status = error};

    tp_exec_put(x, TP_WIRE_BUILD_REPLY, &m);
}

/*
 * Starts a build, has it wait for content or for who reads the binaries, or refuses it:
 * a driver's program takes one at a time.
 */
static void
start_build(struct tp_exec_build *build, uint64_t request)
{
    struct tp_exec_program *p = build->program;
    struct tp_exec *x = p->obj.x;
    bool later, wait, refused;

    tp_mutex_lock(&x->done_lock);
    later = p->waiting > 0 || p->readers > 0;
    wait = later && tp_list_is_empty(&p->builds);
    refused = !wait && (later || p->building || p->kernel_count > 0);
    if (wait) {
        tp_list_push_back(&p->builds, &build->link);
    } else if (!refused) {
        p->building = true;
    }
    tp_mutex_unlock(&x->done_lock);
    if (refused) {
        put_build_error(x, request, CL_INVALID_OPERATION);
        tp_exec_build_free(build);
    } else if (!wait) {
        tp_exec_build_submit(build);
    }
}

/* Begins what a message asks for, or answers why not. */
static void
build_or_refuse(struct tp_exec *x, const struct tp_exec_build_params *params)
{
    struct tp_exec_build *build;
    struct tp_exec_program *p;
    int32_t error = tp_exec_find(x, params->program, TP_WIRE_KIND_PROGRAM, &p);

    if (error == 0) {
        error = tp_exec_build_new(p, params, &build);
    }
    if (error == 0) {
        start_build(build, params->request);
    } else {
        put_build_error(x, params->request, error);
    }
}

telpher_status
tp_exec_on_program_build(struct tp_exec *x, const struct tp_wire_program_build *m)
{
    const struct tp_exec_build_params params = {TP_EXEC_BUILD, m->request,  m->program,
                                                &m->devices,   &m->options, NULL};

    build_or_refuse(x, &params);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_program_compile(struct tp_exec *x, const struct tp_wire_program_compile *m)
{
    const struct tp_exec_build_params params = {
        TP_EXEC_COMPILE, m->request, m->program, &m->devices, &m->options, NULL};

    build_or_refuse(x, &params);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_program_link(struct tp_exec *x, const struct tp_wire_program_link *m)
{
    const struct tp_exec_build_params params = {TP_EXEC_LINK, m->request,  m->program,
                                                &m->devices,  &m->options, &m->inputs};
    struct tp_exec_program *p;
    int32_t error;
    telpher_status status =
        tp_exec_program_new(x, m->program, m->context, TP_EXEC_FROM_LINK, &p, &error);

    if (status != TELPHER_OK) {
        return status;
    }
    if (error != 0) {
        p->obj.error = error;
    }
    build_or_refuse(x, &params);
    return TELPHER_OK;
}

/* If nothing is in the way of a build, the one that waits begins. */
static void
release_build(struct tp_exec_program *p)
{
    struct tp_exec *x = p->obj.x;
    struct tp_list builds, *first;

    tp_list_init(&builds);
    tp_mutex_lock(&x->done_lock);
    if (p->waiting == 0 && p->readers == 0 && !tp_list_is_empty(&p->builds)) {
        tp_list_splice_back(&builds, &p->builds);
        p->building = true;
    }
    tp_mutex_unlock(&x->done_lock);
    while ((first = tp_list_pop_front(&builds)) != NULL) {
        tp_exec_build_submit(tp_list_entry(first, struct tp_exec_build, link));
    }
}

void
tp_exec_program_arrived(struct tp_exec_program *p)
{
    tp_mutex_lock(&p->obj.x->done_lock);
    p->waiting--;
    tp_mutex_unlock(&p->obj.x->done_lock);
    release_build(p);
}

void
tp_exec_program_end_reading(struct tp_exec_program *p)
{
    tp_mutex_lock(&p->obj.x->done_lock);
    p->readers--;
    tp_mutex_unlock(&p->obj.x->done_lock);
    release_build(p);
}

/* ---- kernels ---- */

static int32_t
make_kernel(struct tp_exec_kernel *k, const struct tp_wire_kernel_create *m)
{
    struct tp_exec *x = k->obj.x;
    struct tp_exec_program *p;
    char *name;
    bool building;
    int32_t error = tp_exec_find(x, m->program, TP_WIRE_KIND_PROGRAM, &p);
    cl_uint count = 0;

    if (error != 0 || k->obj.error != 0) {
        return error;
    }
    tp_mutex_lock(&x->done_lock);
    building = p->building || p->waiting > 0;
    tp_mutex_unlock(&x->done_lock);
    if (building) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    name = tp_strndup(m->name.data, m->name.len, "kernel name");
    if (name == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    k->native = p->native != NULL ? x->cl.CreateKernel(p->native, name, &error) : NULL;
    error = p->native == NULL ? CL_INVALID_PROGRAM_EXECUTABLE : error;
    tp_free(name);
    if (error != 0) {
        k->native = NULL;
        return error;
    }
    k->program = p;
    p->kernel_count++;
    tp_exec_ref(&p->obj);
    error =
        x->cl.GetKernelInfo(k->native, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL);
    k->arg_errors = tp_alloc_array(count, sizeof(*k->arg_errors), "kernel");
    k->objects = tp_alloc_array(count, sizeof(struct tp_exec_object *), "kernel");
    if (k->arg_errors == NULL || k->objects == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    k->arg_count = count;
    return error;
}

telpher_status
tp_exec_on_kernel_create(struct tp_exec *x, const struct tp_wire_kernel_create *m)
{
    struct tp_exec_kernel *k;
    telpher_status status =
        tp_exec_create(x, m->kernel, TP_WIRE_KIND_KERNEL, sizeof(*k), &k);

    if (status == TELPHER_OK) {
        tp_exec_poison(&k->obj, make_kernel(k, m), "clCreateKernel");
    }
    return status;
}

/* Kernels are the reader's alone, so is the count in the program. */
void
tp_exec_kernel_free(struct tp_exec_object *o)
{
    struct tp_exec_kernel *k = tp_container_of(o, struct tp_exec_kernel, obj);

    for (uint32_t i = 0; i < k->arg_count; i++) {
        tp_exec_unref(k->objects[i]);
    }
    if (k->native != NULL) {
        o->x->cl.ReleaseKernel(k->native);
    }
    if (k->program != NULL) {
        k->program->kernel_count--;
        tp_exec_unref(&k->program->obj);
    }
    tp_free(k->arg_errors);
    tp_free(k->objects);
    tp_free(k);
}

/* Remembers the object of an argument, weakly: its release is not held up. */
static void
remember_object(struct tp_exec_kernel *k, uint32_t index, struct tp_exec_object *o)
{
    if (o != NULL) {
        tp_exec_ref(o);
    }
    tp_exec_unref(k->objects[index]);
    k->objects[index] = o;
}

/* Sets a buffer or an image, or NULL. */
static int32_t
set_mem(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec *x = k->obj.x;
    struct tp_exec_mem *mem = NULL;
    cl_mem native = NULL;
    uint64_t id = 0;
    int32_t error = 0;

    if (m->value.len == sizeof(id)) {
        memcpy(&id, m->value.data, sizeof(id));
        error = tp_exec_find(x, id, TP_WIRE_KIND_MEM, &mem);
        if (error != 0) {
            return error;
        }
        native = mem->native;
    }
    remember_object(k, m->index, mem != NULL ? &mem->obj : NULL);
    return x->cl.SetKernelArg(k->native, m->index, sizeof(native), &native);
}

static int32_t
set_sampler(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec *x = k->obj.x;
    struct tp_exec_sampler *sampler;
    uint64_t id;
    int32_t error;

    memcpy(&id, m->value.data, sizeof(id));
    error = tp_exec_find(x, id, TP_WIRE_KIND_SAMPLER, &sampler);
    if (error != 0) {
        return error;
    }
    remember_object(k, m->index, &sampler->obj);
    return x->cl.SetKernelArg(k->native, m->index, sizeof(sampler->native),
                              &sampler->native);
}

static int32_t
set_arg(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    const struct tp_opencl *cl = &k->obj.x->cl;

    switch (m->kind) {
    case TP_WIRE_ARG_VALUE:
        return cl->SetKernelArg(k->native, m->index, m->value.len, m->value.data);
    case TP_WIRE_ARG_MEM:
        return set_mem(k, m);
    case TP_WIRE_ARG_LOCAL:
        return cl->SetKernelArg(k->native, m->index, m->size, NULL);
    default:
        return set_sampler(k, m);
    }
}

/* True if the lengths of a KERNEL_ARG fit its kind. */
static bool
arg_is_proper(const struct tp_wire_kernel_arg *m)
{
    switch (m->kind) {
    case TP_WIRE_ARG_VALUE:
        return m->value.len == m->size && m->value.len > 0;
    case TP_WIRE_ARG_MEM:
        return m->value.len == 0 || m->value.len == sizeof(uint64_t);
    case TP_WIRE_ARG_LOCAL:
        return m->value.len == 0;
    case TP_WIRE_ARG_SAMPLER:
        return m->value.len == sizeof(uint64_t);
    default:
        return false;
    }
}

telpher_status
tp_exec_on_kernel_arg(struct tp_exec *x, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec_kernel *k;
    int32_t error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k);

    if (!arg_is_proper(m)) {
        return TELPHER_ERR_PROTO;
    }
    if (error != 0) {
        return TELPHER_OK; /* the LAUNCH will tell */
    }
    if (m->index >= k->arg_count) {
        tp_exec_failed(x, m->kernel, CL_INVALID_ARG_INDEX, "clSetKernelArg");
        return TELPHER_OK;
    }
    k->arg_errors[m->index] = set_arg(k, m);
    if (k->arg_errors[m->index] != 0) {
        tp_debug("executor", "argument %u of kernel 0x%llx: %s", m->index,
                 (unsigned long long)m->kernel,
                 tp_opencl_error_name(k->arg_errors[m->index]));
    }
    return TELPHER_OK;
}
