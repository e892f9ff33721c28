/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the test driver: from source or binary, built at once or on a thread. */
#include "td.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BINARY_MAGIC "telpher-testdrv-binary-1\n"

typedef void(CL_CALLBACK *program_fn)(cl_program program, void *data);

/** One build under way. */
struct job {
    cl_program program;
    bool on_device[TD_DEVICES_MAX];
    cl_program_binary_type type;
    program_fn fn;
    void *data;
};

static void
destroy_program(struct td_obj *obj)
{
    cl_program p = (cl_program)obj;

    for (cl_uint i = 0; i < p->num_devices; i++) {
        free(p->build[i].log);
    }
    td_parse_free(p->kernels);
    free(p->source);
    free(p->il);
    free(p->options);
    td_unref(p->context);
    free(p);
}

cl_program
td_program_new(cl_context context, cl_uint count, const cl_device_id *devices,
               char *source)
{
    cl_program p =
        source != NULL ? td_new(TD_PROGRAM, sizeof(*p), destroy_program) : NULL;

    if (p == NULL) {
        free(source);
        return NULL;
    }
    td_ref(context);
    p->context = context;
    p->num_devices = count;
    memcpy(p->device, devices, count * sizeof(*devices));
    p->source = source;
    for (cl_uint i = 0; i < count; i++) {
        p->build[i].status = CL_BUILD_NONE;
    }
    return p;
}

/* Joins the strings; a length of 0 or no lengths means up to the NUL. */
static char *
join(cl_uint count, const char **strings, const size_t *lengths)
{
    size_t total = 0;
    char *text;

    for (cl_uint i = 0; i < count; i++) {
        total += lengths != NULL && lengths[i] > 0 ? lengths[i] : strlen(strings[i]);
    }
    text = calloc(1, total + 1);
    total = 0;
    for (cl_uint i = 0; text != NULL && i < count; i++) {
        size_t len =
            lengths != NULL && lengths[i] > 0 ? lengths[i] : strlen(strings[i]);

        memcpy(text + total, strings[i], len);
        total += len;
    }
    return text;
}

CL_API_ENTRY cl_program CL_API_CALL
td_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                             const size_t *lengths, cl_int *errcode_ret)
{
    cl_program p = NULL;
    cl_int err = td_enter("clCreateProgramWithSource", "context=%u count=%u",
                          td_id(context), count);

    if (err == CL_SUCCESS && !td_is(context, TD_CONTEXT)) {
        err = CL_INVALID_CONTEXT;
    }
    if (err == CL_SUCCESS && (count == 0 || strings == NULL)) {
        err = CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; err == CL_SUCCESS && i < count; i++) {
        err = strings[i] != NULL ? CL_SUCCESS : CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        p = td_program_new(context, context->num_devices, context->device,
                           join(count, strings, lengths));
        err = p != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    td_set_error(errcode_ret, err);
    return p;
}

/* A binary is the magic, the device's name, the kind of binary and the source. */
static size_t
binary_size(cl_program p, cl_uint i)
{
    bool built = p->build[i].status == CL_BUILD_SUCCESS;

    return built ? strlen(BINARY_MAGIC) + strlen(p->device[i]->name) + 3 +
                       strlen(p->source)
                 : 0;
}

static void
write_binary(cl_program p, cl_uint i, unsigned char *out)
{
    size_t size = binary_size(p, i);
    char *text = malloc(size + 1);

    if (size > 0 && text != NULL) {
        snprintf(text, size + 1, BINARY_MAGIC "%s\n%u\n%s", p->device[i]->name,
                 p->build[i].type % 10, p->source);
        memcpy(out, text, size);
    }
    free(text);
}

/* @return the source in a binary for this device, NULL if it is not one. */
static char *
read_binary(cl_device_id device, const unsigned char *binary, size_t len,
            cl_program_binary_type *ret_type)
{
    char head[128];
    int head_len = snprintf(head, sizeof(head), BINARY_MAGIC "%s\n", device->name);
    const char *text = (const char *)binary;

    if (len < (size_t)head_len + 2 || memcmp(text, head, (size_t)head_len) != 0) {
        return NULL;
    }
    *ret_type = (cl_program_binary_type)(text[head_len] - '0');
    return td_strdup(text + head_len + 2, len - (size_t)head_len - 2);
}

static cl_int
check_binary_args(cl_context context, cl_uint count, const cl_device_id *devices,
                  const size_t *lengths, const unsigned char **binaries)
{
    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (count == 0 || count > TD_DEVICES_MAX || devices == NULL || lengths == NULL ||
        binaries == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!td_is(devices[i], TD_DEVICE) || !td_context_has(context, devices[i])) {
            return CL_INVALID_DEVICE;
        }
        if (lengths[i] == 0 || binaries[i] == NULL) {
            return CL_INVALID_VALUE;
        }
    }
    return CL_SUCCESS;
}

/* Reads all binaries. Of several sources the first is kept: they are one program's. */
static cl_int
load_binaries(cl_uint count, const cl_device_id *devices, const size_t *lengths,
              const unsigned char **binaries, cl_int *status, char **ret_source,
              cl_program_binary_type *ret_type)
{
    cl_int err = CL_SUCCESS;

    *ret_source = NULL;
    for (cl_uint i = 0; i < count; i++) {
        char *source = read_binary(devices[i], binaries[i], lengths[i], ret_type);

        if (status != NULL) {
            status[i] = source != NULL ? CL_SUCCESS : CL_INVALID_BINARY;
        }
        if (source == NULL) {
            err = CL_INVALID_BINARY;
        } else if (*ret_source == NULL) {
            *ret_source = source;
        } else {
            free(source);
        }
    }
    if (err != CL_SUCCESS) {
        free(*ret_source);
    }
    return err;
}

CL_API_ENTRY cl_program CL_API_CALL
td_clCreateProgramWithBinary(cl_context context, cl_uint count,
                             const cl_device_id *devices, const size_t *lengths,
                             const unsigned char **binaries, cl_int *status,
                             cl_int *errcode_ret)
{
    cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_NONE;
    cl_program p = NULL;
    char *source;
    cl_int err = td_enter("clCreateProgramWithBinary", "context=%u devices=%u",
                          td_id(context), count);

    if (err == CL_SUCCESS) {
        err = check_binary_args(context, count, devices, lengths, binaries);
    }
    if (err == CL_SUCCESS) {
        err = load_binaries(count, devices, lengths, binaries, status, &source, &type);
    }
    if (err == CL_SUCCESS) {
        p = td_program_new(context, count, devices, source);
        err = p != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (p != NULL) {
        p->from_binary = true;
        for (cl_uint i = 0; i < count; i++) {
            p->build[i].type = type;
        }
    }
    td_set_error(errcode_ret, err);
    return p;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainProgram(cl_program program)
{
    cl_int err = td_enter("clRetainProgram", "program=%u", td_id(program));

    return err != CL_SUCCESS ? err : td_retain(program, TD_PROGRAM, CL_INVALID_PROGRAM);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseProgram(cl_program program)
{
    cl_int err = td_enter("clReleaseProgram", "program=%u", td_id(program));

    return err != CL_SUCCESS ? err
                             : td_release(program, TD_PROGRAM, CL_INVALID_PROGRAM);
}

/* @return the first line that begins with "#error", NULL if there is none. */
static const char *
find_error(const char *source, int *ret_line)
{
    const char *p = source;

    for (*ret_line = 1; p != NULL; (*ret_line)++) {
        p += strspn(p, " \t");
        if (strncmp(p, "#error", 6) == 0) {
            return p;
        }
        p = strchr(p, '\n');
        p = p != NULL ? p + 1 : NULL;
    }
    return NULL;
}

/* The compiler log of the source; empty if it has no error. */
static char *
make_log(const char *source)
{
    char log[512] = "";
    int line;
    const char *error = find_error(source, &line);

    if (error != NULL) {
        size_t len = strcspn(error, "\n");

        snprintf(log, sizeof(log), "program.cl:%d: error: %.*s\n", line,
                 (int)(len < 400 ? len : 400), error);
    }
    return td_strdup(log, strlen(log));
}

static void
sleep_as_told(const char *source)
{
    const char *at = strstr(source, "#pragma telpher sleep_build ");

    if (at != NULL) {
        usleep((useconds_t)(strtoul(at + 28, NULL, 10) * 1000));
    }
}

static bool
in_progress(cl_program p)
{
    for (cl_uint i = 0; i < p->num_devices; i++) {
        if (p->build[i].status == CL_BUILD_IN_PROGRESS) {
            return true;
        }
    }
    return false;
}

/* Does the work of a build and frees the job. @return the result of the build. */
static cl_int
run_job(struct job *job)
{
    cl_program p = job->program;
    char *log = make_log(p->source);
    bool ok = log != NULL && log[0] == '\0';
    struct td_kernel_info *kernels = ok ? td_parse(p->source) : NULL;
    program_fn fn = job->fn;

    sleep_as_told(p->source);
    pthread_mutex_lock(&td_mutex);
    p->spec_sum = 0;
    for (unsigned i = 0; i < p->num_specs; i++) {
        p->spec_sum += p->spec[i].value;
    }
    for (cl_uint i = 0; i < p->num_devices; i++) {
        if (job->on_device[i]) {
            p->build[i].status = ok ? CL_BUILD_SUCCESS : CL_BUILD_ERROR;
            p->build[i].type = ok ? job->type : CL_PROGRAM_BINARY_TYPE_NONE;
            free(p->build[i].log);
            p->build[i].log = log != NULL ? td_strdup(log, strlen(log)) : NULL;
        }
    }
    if (ok && p->kernels == NULL) {
        p->kernels = kernels;
        kernels = NULL;
    }
    pthread_mutex_unlock(&td_mutex);
    td_parse_free(kernels);
    free(log);
    if (fn != NULL) {
        fn(p, job->data);
    }
    td_unref(p);
    free(job);
    return ok ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

static void *
run_job_thread(void *arg)
{
    run_job(arg);
    return NULL;
}

/* Runs the job here, or on a thread if somebody is to be told. Takes it. */
static cl_int
start_job(struct job *job)
{
    pthread_t thread;

    if (job->fn == NULL) {
        return run_job(job);
    }
    if (pthread_create(&thread, NULL, run_job_thread, job) != 0) {
        run_job(job);
        return CL_SUCCESS;
    }
    pthread_detach(thread);
    return CL_SUCCESS;
}

/* Marks the devices of the job as being built. With td_mutex. */
static cl_int
claim(struct job *job, cl_uint count, const cl_device_id *devices)
{
    cl_program p = job->program;
    cl_uint found = 0;

    if (p->live_kernels > 0 || in_progress(p)) {
        return CL_INVALID_OPERATION;
    }
    for (cl_uint i = 0; i < p->num_devices; i++) {
        job->on_device[i] = devices == NULL;
        for (cl_uint k = 0; k < count; k++) {
            job->on_device[i] |= devices[k] == p->device[i];
        }
        found += job->on_device[i];
    }
    if (devices != NULL && found < count) {
        return CL_INVALID_DEVICE;
    }
    for (cl_uint i = 0; i < p->num_devices; i++) {
        if (job->on_device[i]) {
            p->build[i].status = CL_BUILD_IN_PROGRESS;
        }
    }
    return CL_SUCCESS;
}

static cl_int
build(cl_program p, cl_uint count, const cl_device_id *devices, const char *options,
      cl_program_binary_type type, program_fn fn, void *data)
{
    struct job *job;
    char *copy;
    cl_int err;

    if (!td_is(p, TD_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    if ((count == 0) != (devices == NULL) || (fn == NULL && data != NULL)) {
        return CL_INVALID_VALUE;
    }
    options = options != NULL ? options : "";
    copy = td_strdup(options, strlen(options));
    job = calloc(1, sizeof(*job));
    if (job == NULL || copy == NULL) {
        free(job);
        free(copy);
        return CL_OUT_OF_HOST_MEMORY;
    }
    *job = (struct job){.program = p, .type = type, .fn = fn, .data = data};
    pthread_mutex_lock(&td_mutex);
    err = claim(job, count, devices);
    if (err == CL_SUCCESS) {
        char *old = p->options;

        p->options = copy;
        copy = old;
    }
    pthread_mutex_unlock(&td_mutex);
    free(copy);
    if (err != CL_SUCCESS) {
        free(job);
        return err;
    }
    td_ref(p);
    return start_job(job);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                  const char *options, program_fn fn, void *data)
{
    cl_int err = td_enter("clBuildProgram", "program=%u devices=%u options=\"%s\"",
                          td_id(program), count, options != NULL ? options : "");

    return err != CL_SUCCESS ? err
                             : build(program, count, devices, options,
                                     CL_PROGRAM_BINARY_TYPE_EXECUTABLE, fn, data);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clCompileProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                    const char *options, cl_uint num_headers, const cl_program *headers,
                    const char **names, program_fn fn, void *data)
{
    cl_int err = td_enter("clCompileProgram", "program=%u devices=%u headers=%u",
                          td_id(program), count, num_headers);

    if (err == CL_SUCCESS && ((num_headers == 0) != (headers == NULL) ||
                              (headers == NULL) != (names == NULL))) {
        err = CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS && td_is(program, TD_PROGRAM) && program->from_binary) {
        err = CL_INVALID_OPERATION;
    }
    if (err == CL_SUCCESS) {
        err = build(program, count, devices, options,
                    CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, fn, data);
    }
    return err == CL_BUILD_PROGRAM_FAILURE ? CL_COMPILE_PROGRAM_FAILURE : err;
}

/* Joins the sources of compiled programs into one. */
static cl_int
join_programs(cl_context context, cl_uint count, const cl_program *inputs,
              cl_program *ret_program)
{
    const char **text = calloc(count + 1u, sizeof(*text));
    cl_int err = text != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;

    for (cl_uint i = 0; err == CL_SUCCESS && i < count; i++) {
        if (!td_is(inputs[i], TD_PROGRAM)) {
            err = CL_INVALID_PROGRAM;
        } else if (inputs[i]->build[0].type == CL_PROGRAM_BINARY_TYPE_NONE) {
            err = CL_INVALID_OPERATION;
        } else {
            text[i] = inputs[i]->source;
        }
    }
    if (err == CL_SUCCESS) {
        *ret_program = td_program_new(context, context->num_devices, context->device,
                                      join(count, text, NULL));
        err = *ret_program != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    free(text);
    return err;
}

CL_API_ENTRY cl_program CL_API_CALL
td_clLinkProgram(cl_context context, cl_uint count, const cl_device_id *devices,
                 const char *options, cl_uint num_inputs, const cl_program *inputs,
                 program_fn fn, void *data, cl_int *errcode_ret)
{
    bool library = options != NULL && strstr(options, "-create-library") != NULL;
    cl_program p = NULL;
    cl_int err = td_enter("clLinkProgram", "context=%u inputs=%u options=\"%s\"",
                          td_id(context), num_inputs, options != NULL ? options : "");

    if (err == CL_SUCCESS && !td_is(context, TD_CONTEXT)) {
        err = CL_INVALID_CONTEXT;
    }
    if (err == CL_SUCCESS && (num_inputs == 0 || inputs == NULL)) {
        err = CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        err = join_programs(context, num_inputs, inputs, &p);
    }
    if (err == CL_SUCCESS) {
        err = build(p, count, devices, options,
                    library ? CL_PROGRAM_BINARY_TYPE_LIBRARY
                            : CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
                    fn, data);
        if (err != CL_SUCCESS) {
            td_unref(p);
            p = NULL;
        }
    }
    td_set_error(errcode_ret, err);
    return p;
}

static bool
is_built(cl_program p)
{
    bool built = false;

    pthread_mutex_lock(&td_mutex);
    for (cl_uint i = 0; i < p->num_devices; i++) {
        built = built || (p->build[i].status == CL_BUILD_SUCCESS &&
                          p->build[i].type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
    }
    pthread_mutex_unlock(&td_mutex);
    return built;
}

static cl_int
out_kernels(const struct td_out *out, cl_program p, bool names)
{
    char text[2048] = "";
    size_t count = 0;

    if (!is_built(p)) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    for (const struct td_kernel_info *k = p->kernels; k != NULL; k = k->next, count++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used, "%s%s", count > 0 ? ";" : "",
                 k->name);
    }
    return names ? td_out_text(out, text) : td_out_size(out, count);
}

static cl_int
out_binaries(const struct td_out *out, cl_program p)
{
    unsigned char **to = out->value;
    size_t len = p->num_devices * sizeof(*to);

    if (to != NULL && out->size < len) {
        return CL_INVALID_VALUE;
    }
    pthread_mutex_lock(&td_mutex);
    for (cl_uint i = 0; to != NULL && i < p->num_devices; i++) {
        if (to[i] != NULL) {
            write_binary(p, i, to[i]);
        }
    }
    pthread_mutex_unlock(&td_mutex);
    if (out->ret_size != NULL) {
        *out->ret_size = len;
    }
    return CL_SUCCESS;
}

static cl_int
out_binary_sizes(const struct td_out *out, cl_program p)
{
    size_t sizes[TD_DEVICES_MAX] = {0};

    pthread_mutex_lock(&td_mutex);
    for (cl_uint i = 0; i < p->num_devices; i++) {
        sizes[i] = binary_size(p, i);
    }
    pthread_mutex_unlock(&td_mutex);
    return td_out_bytes(out, sizes, p->num_devices * sizeof(sizes[0]));
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetProgramInfo(cl_program p, cl_program_info name, size_t size, void *value,
                    size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetProgramInfo", "program=%u name=%#x", td_id(p), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(p, TD_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    switch (name) {
    case CL_PROGRAM_REFERENCE_COUNT:
        return td_out_u32(out, td_api_refs(p));
    case CL_PROGRAM_CONTEXT:
        return td_out_ptr(out, p->context);
    case CL_PROGRAM_NUM_DEVICES:
        return td_out_u32(out, p->num_devices);
    case CL_PROGRAM_DEVICES:
        return td_out_bytes(out, p->device, p->num_devices * sizeof(p->device[0]));
    case CL_PROGRAM_SOURCE:
        return td_out_text(out, p->from_binary || p->il != NULL ? "" : p->source);
    case CL_PROGRAM_BINARY_SIZES:
        return out_binary_sizes(out, p);
    case CL_PROGRAM_BINARIES:
        return out_binaries(out, p);
    case CL_PROGRAM_NUM_KERNELS:
        return out_kernels(out, p, false);
    case CL_PROGRAM_KERNEL_NAMES:
        return out_kernels(out, p, true);
    case CL_PROGRAM_IL:
        return td_out_bytes(out, p->il, p->il_len);
    case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
    case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT:
        return td_out_u32(out, CL_FALSE);
    default:
        return CL_INVALID_VALUE;
    }
}

/* With td_mutex. */
static cl_int
out_build_info(const struct td_out *out, cl_program p, cl_uint i,
               cl_program_build_info name)
{
    const struct td_build *b = &p->build[i];

    switch (name) {
    case CL_PROGRAM_BUILD_STATUS:
        return td_out_u32(out, (cl_uint)b->status);
    case CL_PROGRAM_BUILD_OPTIONS:
        return td_out_text(out, p->options != NULL ? p->options : "");
    case CL_PROGRAM_BUILD_LOG:
        return td_out_text(out, b->log != NULL ? b->log : "");
    case CL_PROGRAM_BINARY_TYPE:
        return td_out_u32(out, b->type);
    case CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE:
        return td_out_size(out, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetProgramBuildInfo(cl_program p, cl_device_id device, cl_program_build_info name,
                         size_t size, void *value, size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetProgramBuildInfo", "program=%u device=%u name=%#x",
                          td_id(p), td_id(device), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(p, TD_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    for (cl_uint i = 0; i < p->num_devices; i++) {
        if (p->device[i] == device) {
            pthread_mutex_lock(&td_mutex);
            err = out_build_info(out, p, i, name);
            pthread_mutex_unlock(&td_mutex);
            return err;
        }
    }
    return CL_INVALID_DEVICE;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clUnloadCompiler(void)
{
    return td_enter("clUnloadCompiler", "%s", "");
}

CL_API_ENTRY cl_int CL_API_CALL
td_clUnloadPlatformCompiler(cl_platform_id platform)
{
    cl_int err = td_enter("clUnloadPlatformCompiler", "%s", "");

    return err != CL_SUCCESS           ? err
           : platform == td_platform() ? CL_SUCCESS
                                       : CL_INVALID_PLATFORM;
}
