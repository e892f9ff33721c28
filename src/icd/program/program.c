/* SPDX-License-Identifier: Apache-2.0 */
/* Programs from source, and queries. build.c builds programs; binary.c, il.c and
   builtin_kernels.c create them from other input. */
#include "icd/program/program.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"

/* ---- life ------------------------------------------------------------------------------ */

static void
program_free(struct tp_icd_program *p)
{
    struct _cl_program *program = &p->pub;

    for (uint32_t i = 0; i < program->device_count; i++) {
        if (program->options != NULL) {
            tp_free(program->options[i]);
        }
        if (p->info != NULL) {
            tp_free(p->info[i].log);
        }
        if (p->binary != NULL) {
            tp_free(p->binary[i]);
        }
    }
    for (uint32_t i = 0; i < TP_ICD_SESSIONS_MAX; i++) {
        tp_icd_facts_destroy(program->facts[i]);
    }
    for (uint32_t i = 0; i < p->kernel_names; i++) {
        tp_free(p->kernels[i]);
    }
    tp_free(p->kernels);
    tp_free(p->info);
    tp_free(p->binary);
    tp_free(p->binary_size);
    tp_free(p->specs);
    tp_free(program->source);
    tp_free(program->il);
    tp_free(program->devices);
    tp_free(program->build_status);
    tp_free(program->options);
    tp_free(p);
}

static void
program_destroy(struct tp_icd_object *obj)
{
    struct _cl_program *program = (struct _cl_program *)obj;
    struct _cl_context *ctx = program->ctx;

    tp_icd_lock();
    tp_icd_put_releases(ctx, program->sent, obj->id);
    tp_icd_unlock();
    program_free(tp_icd_program_of(program));
    tp_icd_drop(&ctx->obj);
}

struct tp_icd_program *
tp_icd_program_create(struct _cl_context *ctx, uint32_t count,
                      struct _cl_device_id *const *devices)
{
    struct tp_icd_program *p = tp_zalloc(sizeof(*p), "program");
    struct _cl_program *program;

    if (p == NULL) {
        return NULL;
    }
    program = &p->pub;
    program->device_count = count;
    program->devices = tp_memdup(devices, count * sizeof(devices[0]), "program");
    program->build_status =
        tp_alloc_array(count, sizeof(program->build_status[0]), "program");
    program->options = tp_alloc_array(count, sizeof(program->options[0]), "program");
    p->info = tp_alloc_array(count, sizeof(p->info[0]), "program");
    p->binary = tp_alloc_array(count, sizeof(p->binary[0]), "program");
    p->binary_size = tp_alloc_array(count, sizeof(p->binary_size[0]), "program");
    if (program->devices == NULL || program->build_status == NULL ||
        program->options == NULL || p->info == NULL || p->binary == NULL ||
        p->binary_size == NULL) {
        program_free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        program->build_status[i] = CL_BUILD_NONE;
    }
    program->ctx = ctx;
    tp_icd_hold(&ctx->obj);
    tp_icd_object_init(&program->obj, TP_ICD_PROGRAM,
                       tp_icd_new_id(TP_WIRE_KIND_PROGRAM), program_destroy);
    return p;
}

/* ---- source ---------------------------------------------------------------------------- */

static size_t
string_length(const char *string, const size_t *lengths, cl_uint i)
{
    return lengths == NULL || lengths[i] == 0 ? strlen(string) : lengths[i];
}

/** Concatenates the strings. @return NULL: no memory. */
static char *
concatenate(cl_uint count, const char **strings, const size_t *lengths, size_t *ret_len)
{
    size_t len = 0;
    char *source;

    for (cl_uint i = 0; i < count; i++) {
        len += string_length(strings[i], lengths, i);
    }
    source = tp_malloc(len + 1, "source");
    *ret_len = len;
    len = 0;
    for (cl_uint i = 0; source != NULL && i < count; i++) {
        size_t n = string_length(strings[i], lengths, i);

        memcpy(source + len, strings[i], n);
        len += n;
        source[len] = '\0';
    }
    return source;
}

static cl_int
create_with_source(cl_context context, cl_uint count, const char **strings,
                   const size_t *lengths, cl_program *ret_program)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct tp_icd_program *p;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (count == 0 || strings == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (strings[i] == NULL) {
            return CL_INVALID_VALUE;
        }
    }
    p = tp_icd_program_create(ctx, ctx->device_count, ctx->devices);
    if (p == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    p->pub.source = concatenate(count, strings, lengths, &p->pub.source_len);
    if (p->pub.source == NULL) {
        tp_icd_release(&p->pub.obj);
        return CL_OUT_OF_HOST_MEMORY;
    }
    *ret_program = &p->pub;
    return CL_SUCCESS;
}

cl_program
tp_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                             const size_t *lengths, cl_int *errcode_ret)
{
    cl_program program = NULL;
    cl_int err = create_with_source(context, count, strings, lengths, &program);

    tp_icd_set_error(errcode_ret, err);
    return program;
}

/** Puts PROGRAM_SOURCE. Under the lock. */
static telpher_status
put_source(struct _cl_program *program, uint32_t session_index)
{
    struct tp_icd_session *session = program->ctx->sessions[session_index];
    struct tp_wire_program_source msg = {
        .program = program->obj.id,
        .context = program->ctx->obj.id,
        .size = program->source_len,
    };
    telpher_status status = TELPHER_OK;

    if (program->source_len <= TP_WIRE_BLOB_MAX) {
        msg.source =
            (struct tp_wire_bytes){(uint32_t)program->source_len, program->source};
    } else {
        status =
            tp_icd_blob_send(session, (const uint8_t *)program->source,
                             program->source_len, &program->obj, NULL, &msg.transfer);
    }
    if (status == TELPHER_OK) {
        tp_icd_put(session, TP_WIRE_PROGRAM_SOURCE, &msg);
    }
    return status;
}

telpher_status
tp_icd_program_ensure(struct _cl_program *program, uint32_t session_index)
{
    telpher_status status;

    if ((program->sent >> session_index & 1) != 0) {
        return TELPHER_OK;
    }
    status = program->il != NULL ? tp_icd_il_put(program, session_index)
                                 : put_source(program, session_index);
    if (status == TELPHER_OK) {
        program->sent |= 1U << session_index;
    }
    return status;
}

/* ---- what is in it ------------------------------------------------------------------------ */

int
tp_icd_program_device(const struct _cl_program *program,
                      const struct _cl_device_id *dev)
{
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (program->devices[i] == dev) {
            return (int)i;
        }
    }
    return -1;
}

bool
tp_icd_program_is_executable(const struct _cl_program *program, uint32_t i)
{
    const struct tp_icd_program *p = (const struct tp_icd_program *)program;

    /* a driver may say of built-in kernels that there is no binary */
    return program->build_status[i] == CL_BUILD_SUCCESS &&
           (p->built_in || p->info[i].binary_type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
}

bool
tp_icd_program_is_built(const struct _cl_program *program)
{
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (tp_icd_program_is_executable(program, i)) {
            return true;
        }
    }
    return false;
}

/** True if the kernel is in what was built for some device. */
static bool
has_kernel(const struct _cl_program *program, uint32_t index)
{
    struct tp_wire_fact fact;

    for (uint32_t i = 0; i < program->device_count; i++) {
        int session = tp_icd_context_device_session(program->ctx, program->devices[i]);

        if (tp_icd_program_is_executable(program, i) &&
            program->facts[session] != NULL &&
            tp_icd_facts_get(program->facts[session], TP_WIRE_FACT_KERNEL, index, 0,
                             CL_KERNEL_FUNCTION_NAME, &fact)) {
            return true;
        }
    }
    return false;
}

const char *
tp_icd_program_kernel(const struct tp_icd_program *p, uint32_t index)
{
    return index < p->kernel_names && has_kernel(&p->pub, index) ? p->kernels[index]
                                                                 : NULL;
}

/* ---- queries ------------------------------------------------------------------------------- */

/** Destination of an answer. */
struct query {
    struct tp_icd_program *p;
    size_t value_size;
    void *value;
    size_t *size_ret;
};

static cl_int
answer_bytes(const struct query *q, const void *src, size_t len)
{
    return tp_icd_answer(q->value_size, q->value, q->size_ret, src, len);
}

static cl_int
put_text(const struct query *q, const char *text)
{
    return answer_bytes(q, text, strlen(text) + 1);
}

static cl_int
put_kernel_count(const struct query *q)
{
    size_t count = 0;

    for (uint32_t i = 0; i < q->p->kernel_names; i++) {
        count += tp_icd_program_kernel(q->p, i) != NULL;
    }
    return answer_bytes(q, &count, sizeof(count));
}

/** The names with ";" between them. */
static cl_int
put_kernel_names(const struct query *q)
{
    size_t room = 1, len = 0;
    char *list;
    cl_int err;

    for (uint32_t i = 0; i < q->p->kernel_names; i++) {
        room += strlen(q->p->kernels[i]) + 1;
    }
    list = tp_zalloc(room, "kernel names");
    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < q->p->kernel_names; i++) {
        const char *name = tp_icd_program_kernel(q->p, i);

        if (name != NULL) {
            if (len != 0) {
                list[len++] = ';';
            }
            memcpy(list + len, name, strlen(name) + 1);
            len += strlen(name);
        }
    }
    err = put_text(q, list);
    tp_free(list);
    return err;
}

/** Queries about kernels, which need a build. */
static cl_int
put_kernels(const struct query *q, cl_program_info param)
{
    cl_int err = CL_INVALID_PROGRAM_EXECUTABLE;

    tp_icd_lock();
    if (tp_icd_program_is_built(&q->p->pub)) {
        err =
            param == CL_PROGRAM_NUM_KERNELS ? put_kernel_count(q) : put_kernel_names(q);
    }
    tp_icd_unlock();
    return err;
}

/** Copies each binary to where the program's array of pointers says; NULL skips one. */
static cl_int
copy_binaries(const struct query *q)
{
    const struct tp_icd_program *p = q->p;
    size_t len = p->pub.device_count * sizeof(unsigned char *);
    unsigned char **to = q->value;

    if (to != NULL && q->value_size < len) {
        return CL_INVALID_VALUE;
    }
    for (uint32_t i = 0; to != NULL && i < p->pub.device_count; i++) {
        if (to[i] != NULL && p->binary[i] != NULL) {
            memcpy(to[i], p->binary[i], p->binary_size[i]);
        }
    }
    if (q->size_ret != NULL) {
        *q->size_ret = len;
    }
    return CL_SUCCESS;
}

static cl_int
put_binaries(const struct query *q, cl_program_info param)
{
    cl_int err;

    if (param == CL_PROGRAM_BINARIES && q->value == NULL) {
        return copy_binaries(q); /* only the size of the array is asked */
    }
    err = tp_icd_binaries_fetch(q->p);
    if (err != CL_SUCCESS) {
        return err;
    }
    tp_icd_lock();
    if (param == CL_PROGRAM_BINARY_SIZES) {
        err =
            answer_bytes(q, q->p->binary_size, q->p->pub.device_count * sizeof(size_t));
    } else {
        err = copy_binaries(q);
    }
    tp_icd_unlock();
    return err;
}

cl_int
tp_clGetProgramInfo(cl_program handle, cl_program_info param, size_t value_size,
                    void *value, size_t *size_ret)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    const struct query q = {tp_icd_program_of(program), value_size, value, size_ret};

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    switch (param) {
    case CL_PROGRAM_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, program->obj.refs);
    case CL_PROGRAM_CONTEXT:
        return TP_ICD_ANSWER(cl_context, program->ctx);
    case CL_PROGRAM_NUM_DEVICES:
        return TP_ICD_ANSWER(cl_uint, program->device_count);
    case CL_PROGRAM_DEVICES:
        return answer_bytes(&q, program->devices,
                            program->device_count * sizeof(cl_device_id));
    case CL_PROGRAM_SOURCE:
        return program->source != NULL
                   ? answer_bytes(&q, program->source, program->source_len + 1)
                   : put_text(&q, "");
    case CL_PROGRAM_IL:
        return answer_bytes(&q, program->il, program->il_len);
    case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
    case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT:
        return TP_ICD_ANSWER(cl_bool, CL_FALSE);
    case CL_PROGRAM_NUM_KERNELS:
    case CL_PROGRAM_KERNEL_NAMES:
        return put_kernels(&q, param);
    case CL_PROGRAM_BINARY_SIZES:
    case CL_PROGRAM_BINARIES:
        return put_binaries(&q, param);
    default:
        return CL_INVALID_VALUE;
    }
}

/** Answers for one device of the program; under the lock. */
static cl_int
put_build_info(const struct query *q, uint32_t device, cl_program_build_info param)
{
    const struct _cl_program *program = &q->p->pub;
    const struct tp_icd_build_info *info = &q->p->info[device];
    const char *text;

    switch (param) {
    case CL_PROGRAM_BUILD_STATUS:
        return answer_bytes(q, &program->build_status[device], sizeof(cl_build_status));
    case CL_PROGRAM_BUILD_OPTIONS:
        text = program->options[device];
        return put_text(q, text != NULL ? text : "");
    case CL_PROGRAM_BUILD_LOG:
        return put_text(q, info->log != NULL ? info->log : "");
    case CL_PROGRAM_BINARY_TYPE:
        return answer_bytes(q, &info->binary_type, sizeof(info->binary_type));
    case CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE:
        return answer_bytes(q, &info->global_bytes, sizeof(info->global_bytes));
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int
tp_clGetProgramBuildInfo(cl_program handle, cl_device_id device,
                         cl_program_build_info param, size_t value_size, void *value,
                         size_t *size_ret)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    const struct query q = {tp_icd_program_of(program), value_size, value, size_ret};
    int index;
    cl_int err;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    index = device == NULL ? -1 : tp_icd_program_device(program, device);
    if (index < 0) {
        return CL_INVALID_DEVICE;
    }
    tp_icd_lock();
    err = put_build_info(&q, (uint32_t)index, param);
    tp_icd_unlock();
    return err;
}
