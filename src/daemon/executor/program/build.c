/* SPDX-License-Identifier: Apache-2.0 */
/* Runs builds, compilations, links and programs of built-in kernels, on the pool's threads. */
#include "daemon/executor/program/build.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/program.h"

#include "base/alloc.h"
#include "base/text/include.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/executor/program/build_cache.h"
#include "daemon/executor/program/files.h"

#define ARG_INFO "-cl-kernel-arg-info"
#define LET_GO_TIME (1 * TP_CLOCK_S) /* limit for the driver to release kernels */
#define LET_GO_TRY (500 * TP_CLOCK_US)
#define TURN_PAUSE (5 * TP_CLOCK_MS) /* between looks whether another build may run */

/* ---- life cycle of a build ---- */

void
tp_exec_build_free(struct tp_exec_build *build)
{
    for (cl_uint i = 0; i < build->input_count; i++) {
        tp_exec_program_end_reading(build->inputs[i]);
        tp_exec_unref(&build->inputs[i]->obj);
    }
    for (cl_uint i = 0; i < build->header_count; i++) {
        tp_exec_unref(&build->headers[i]->obj);
    }
    tp_budget_give(&build->program->obj.x->host, build->files_len);
    tp_exec_unref(&build->program->obj);
    tp_free(build->inputs);
    tp_free(build->headers);
    tp_free(build->files);
    tp_free(build->indices);
    tp_free(build->devices);
    tp_free(build->options);
    tp_free(build->names);
    tp_free(build->specs);
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

/* Holds an input as it is. @return 0 or the CL error */
static int32_t
add_input(struct tp_exec_build *build, uint64_t id)
{
    struct tp_exec *x = build->program->obj.x;
    struct tp_exec_program *p;
    int32_t error = tp_exec_find(x, id, TP_WIRE_KIND_PROGRAM, &p);

    if (error != 0) {
        return error;
    }
    tp_mutex_lock(&x->done_lock);
    if (p->building || p->waiting > 0 || p->native == NULL) {
        error = CL_INVALID_OPERATION;
    } else {
        p->readers++;
    }
    tp_mutex_unlock(&x->done_lock);
    if (error == 0) {
        tp_exec_ref(&p->obj);
        build->inputs[build->input_count++] = p;
    }
    return error;
}

static int32_t
add_inputs(struct tp_exec_build *build, const struct tp_wire_u64s *inputs)
{
    int32_t error = 0;

    if (inputs == NULL) {
        return 0;
    }
    build->inputs =
        tp_alloc_array(inputs->count, sizeof(struct tp_exec_program *), "link");
    if (build->inputs == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (uint16_t i = 0; i < inputs->count && error == 0; i++) {
        error = add_input(build, tp_wire_u64_at(inputs, i));
    }
    return error;
}

static int32_t
add_headers(struct tp_exec_build *build, const struct tp_wire_u64s *headers)
{
    struct tp_exec *x = build->program->obj.x;
    int32_t error = 0;

    if (headers == NULL || headers->count == 0) {
        return 0;
    }
    build->headers =
        tp_alloc_array(headers->count, sizeof(struct tp_exec_program *), "headers");
    if (build->headers == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (uint16_t i = 0; i < headers->count && error == 0; i++) {
        struct tp_exec_program *p;

        error = tp_exec_find(x, tp_wire_u64_at(headers, i), TP_WIRE_KIND_PROGRAM, &p);
        if (error == 0 && p->origin != TP_EXEC_FROM_SOURCE) {
            error = CL_INVALID_PROGRAM;
        }
        if (error == 0) {
            tp_exec_ref(&p->obj);
            build->headers[build->header_count++] = p;
        }
    }
    return error;
}

/* Waits for texts of headers in transit. @return 0 or the error of one */
static int32_t
await_headers(const struct tp_exec_build *build)
{
    int32_t error = 0;

    for (cl_uint i = 0; i < build->header_count && error == 0; i++) {
        struct tp_exec_program *p = build->headers[i];
        bool waits = true;

        while (waits) {
            tp_mutex_lock(&p->obj.x->done_lock);
            waits = p->waiting > 0;
            tp_mutex_unlock(&p->obj.x->done_lock);
            if (waits) {
                tp_clock_sleep(LET_GO_TRY);
            }
        }
        error = p->obj.error != 0 ? p->obj.error
                : p->text == NULL ? CL_INVALID_PROGRAM
                                  : 0;
    }
    return error;
}

/* Copies the reader-only state of the program, and the names in the message. */
static int32_t
copy_rest(struct tp_exec_build *build, const struct tp_wire_bytes *names)
{
    const struct tp_buf *specs = &build->program->specs;

    build->spec_count = tp_buf_len(specs) / sizeof(*build->specs);
    if (build->spec_count > 0) {
        build->specs = tp_memdup(tp_buf_data(specs), tp_buf_len(specs), "constants");
    }
    if (names != NULL) {
        build->names = tp_strndup(names->data, names->len, "names");
        build->names_len = names->len;
    }
    return (build->spec_count > 0 && build->specs == NULL) ||
                   (names != NULL && build->names == NULL)
               ? CL_OUT_OF_HOST_MEMORY
               : 0;
}

int32_t
tp_exec_build_new(struct tp_exec_program *p, const struct tp_exec_build_params *params,
                  struct tp_exec_build **ret_build)
{
    struct tp_exec_build *build = tp_zalloc(sizeof(*build), "build");
    int32_t error;

    if (build == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_list_init(&build->link);
    build->kind = params->kind;
    build->program = p;
    build->request = params->request;
    tp_exec_ref(&p->obj);
    build->options =
        tp_strndup(params->options->data, params->options->len, "build options");
    error = build->options == NULL ? CL_OUT_OF_HOST_MEMORY
                                   : choose_devices(build, params->devices);
    if (error == 0) {
        error = copy_rest(build, params->names);
    }
    if (error == 0) {
        error = add_inputs(build, params->inputs);
    }
    if (error == 0) {
        error = add_headers(build, params->headers);
    }
    if (error != 0) {
        tp_exec_build_free(build);
        return error;
    }
    *ret_build = build;
    return 0;
}

/* ---- content that is too large for a frame ---- */

/* Content in transit to the client. It counts against x->host until it is sent. */
struct outgoing {
    struct tp_exec *x;
    void *content;
    uint64_t size;
};

static void
content_sent(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct outgoing *out = arg;

    tp_budget_give(&out->x->host, out->size);
    tp_free(out->content);
    tp_free(out);
}

telpher_status
tp_exec_send_content(struct tp_exec *x, uint64_t transfer, void *content, uint64_t size)
{
    struct outgoing *out = tp_zalloc(sizeof(*out), "content");
    const struct tp_exec_transfer_params params = {.id = transfer,
                                                   .size = size,
                                                   .to_client = true,
                                                   .memory = content,
                                                   .finished = content_sent,
                                                   .arg = out};
    telpher_status status;

    if (out == NULL || !tp_budget_take(&x->host, size)) {
        /* the client knows the transfer already, so the session must end */
        tp_exec_die(x, TELPHER_ERR_LIMIT,
                    "more answers wait for the client than --max-host-memory allows");
    }
    *out = (struct outgoing){x, content, size};
    status = tp_exec_transfers_start(x->transfers, &params);
    if (status != TELPHER_OK) {
        content_sent(out, 0, 0, 0);
    }
    return status;
}

/* ---- building ---- */

void
tp_exec_build_sum(const struct tp_exec_build *build, struct tp_sha256 *sum)
{
    tp_sha256_add_sized(sum, build->program->text, build->program->text_len);
    for (cl_uint i = 0; i < build->header_count; i++) {
        tp_sha256_add_sized(sum, build->headers[i]->text, build->headers[i]->text_len);
    }
    tp_sha256_add_sized(sum, build->header_count > 0 ? build->names : NULL,
                        build->header_count > 0 ? build->names_len : 0);
    tp_exec_files_sum(build->files, build->files_len, sum);
}

/*
 * The first option makes kernel argument info available. The macro, last because messages
 * count definitions, differs with the content of included files: some drivers cache binaries
 * by source and options alone.
 */
char *
tp_exec_build_options(const struct tp_exec_build *build)
{
    uint8_t digest[TP_SHA256_BYTES];
    struct tp_sha256 sum;

    if (build->kind == TP_EXEC_LINK || build->program->origin == TP_EXEC_BUILT_IN) {
        return tp_strdup(build->options, "build options");
    }
    if (build->program->origin != TP_EXEC_FROM_SOURCE) {
        return tp_asprintf("build options", "%s %s", ARG_INFO, build->options);
    }
    tp_sha256_begin(&sum);
    tp_exec_files_sum(build->files, build->files_len, &sum);
    tp_sha256_end(&sum, digest);
    return tp_asprintf("build options", "%s %s -DTELPHER_FILES=0x%02x%02x%02x%02x",
                       ARG_INFO, build->options, digest[0], digest[1], digest[2],
                       digest[3]);
}

/* Gathers the names of the headers that may be looked up: a driver makes files of them. */
static cl_uint
choose_headers(const struct tp_exec_build *build, cl_program *natives,
               const char **names, int32_t *error)
{
    const char *name = build->names, *end = build->names + build->names_len;
    cl_uint count = 0;

    for (cl_uint i = 0; i < build->header_count && name < end && *error == 0; i++) {
        size_t len = strlen(name);

        if (tp_include_is_plain(name, len)) {
            *error = tp_exec_source_create(build->headers[i], &natives[count]);
            names[count] = name;
            count += *error == 0;
        }
        name += len + 1;
    }
    return count;
}

int32_t
tp_exec_build_compile(const struct tp_exec_build *build, cl_uint count,
                      const cl_device_id *devices, const char *options)
{
    const struct tp_opencl *cl = &build->program->obj.x->cl;
    cl_program *natives = tp_alloc_array(build->header_count, sizeof(*natives), "link");
    const char **names = tp_alloc_array(build->header_count, sizeof(*names), "link");
    int32_t error = natives == NULL || names == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
    cl_uint n = error == 0 ? choose_headers(build, natives, names, &error) : 0;

    if (error == 0) {
        error = cl->CompileProgram(build->program->native, count, devices, options, n,
                                   n > 0 ? natives : NULL, n > 0 ? names : NULL, NULL,
                                   NULL);
    }
    for (cl_uint i = 0; i < n; i++) {
        (void)cl->ReleaseProgram(natives[i]);
    }
    tp_free(names);
    tp_free(natives);
    return error;
}

static int32_t
run_link(struct tp_exec_build *build, const char *options)
{
    struct tp_exec_program *p = build->program;
    cl_program *inputs = tp_alloc_array(build->input_count, sizeof(*inputs), "link");
    int32_t error = CL_OUT_OF_HOST_MEMORY;

    for (cl_uint i = 0; inputs != NULL && i < build->input_count; i++) {
        inputs[i] = build->inputs[i]->native;
    }
    if (inputs != NULL && p->native != NULL) { /* unusable, from the cache */
        p->obj.x->cl.ReleaseProgram(p->native);
    }
    if (inputs != NULL) {
        p->native = p->obj.x->cl.LinkProgram(
            p->context->native, build->device_count, build->devices, options,
            build->input_count, inputs, NULL, NULL, &error);
        tp_free(inputs);
    }
    return error;
}

static int32_t
make_built_in(struct tp_exec_build *build)
{
    struct tp_exec_program *p = build->program;
    int32_t error;

    p->native = p->obj.x->cl.CreateProgramWithBuiltInKernels(
        p->context->native, build->device_count, build->devices, build->names, &error);
    return error;
}

static int32_t
run_driver(struct tp_exec_build *build, const char *options)
{
    struct tp_exec_program *p = build->program;
    const struct tp_opencl *cl = &p->obj.x->cl;

    switch (build->kind) {
    case TP_EXEC_COMPILE:
        return tp_exec_build_compile(build, build->device_count, build->devices,
                                     options);
    case TP_EXEC_LINK:
        return run_link(build, options);
    case TP_EXEC_MAKE_BUILT_IN:
        return make_built_in(build);
    default:
        return cl->BuildProgram(p->native, build->device_count, build->devices, options,
                                NULL, NULL);
    }
}

/* Takes the files that the client sent for this build. */
static int32_t
take_files(struct tp_exec_build *build)
{
    struct tp_exec_program *p = build->program;
    int32_t error;

    tp_mutex_lock(&p->obj.x->done_lock);
    build->files = p->files;
    build->files_len = p->files_len;
    error = p->files_error;
    p->files = NULL;
    p->files_len = 0;
    p->files_error = 0;
    tp_mutex_unlock(&p->obj.x->done_lock);
    return error;
}

/* Prepares the native program of a build. */
static int32_t
prepare(struct tp_exec_build *build)
{
    struct tp_exec_program *p = build->program;
    int32_t error = p->obj.error != 0 ? p->obj.error : take_files(build);

    if (error == 0) {
        error = await_headers(build);
    }
    if (error == 0 &&
        tp_exec_options_refused(build->options, tp_exec_builds_are_guarded(p->obj.x))) {
        error = build->kind == TP_EXEC_COMPILE ? CL_INVALID_COMPILER_OPTIONS
                : build->kind == TP_EXEC_LINK  ? CL_INVALID_LINKER_OPTIONS
                                               : CL_INVALID_BUILD_OPTIONS;
    }
    if (error == 0 && build->kind != TP_EXEC_LINK &&
        build->kind != TP_EXEC_MAKE_BUILT_IN &&
        (p->origin == TP_EXEC_FROM_LINK || (p->text == NULL && p->native == NULL))) {
        error = CL_INVALID_OPERATION;
    }
    return error;
}

/* True if the driver has a build log. */
static bool
has_reason(const struct tp_exec_build *build)
{
    const struct tp_exec_program *p = build->program;
    bool found = false;

    for (cl_uint i = 0; i < build->device_count && p->native != NULL && !found; i++) {
        char *log = tp_exec_build_log(build, i);

        found = log != NULL && strcasestr(log, "error") != NULL;
        tp_free(log);
    }
    return found;
}

/*
 * Repeats a build while the driver still holds kernels of the program. PoCL releases a
 * kernel after the completion callback of its last command. Our own kernels are freed
 * before a build begins.
 */
static int32_t
run_driver_free(struct tp_exec_build *build, const char *options)
{
    tp_ns deadline = tp_clock_deadline(LET_GO_TIME);
    int32_t error = run_driver(build, options);

    while (error == CL_INVALID_OPERATION && build->program->had_kernels &&
           !tp_clock_passed(deadline)) {
        tp_clock_sleep(LET_GO_TRY);
        error = run_driver(build, options);
    }
    build->program->had_kernels = false;
    return error;
}

/*
 * Repeats a build that failed without a log. Executors build concurrently, and PoCL 3.1
 * fails without a log when two processes write the same program to its cache.
 */
static int32_t
run_driver_again(struct tp_exec_build *build, const char *options)
{
    int32_t error = run_driver_free(build, options);

    if ((error == CL_BUILD_PROGRAM_FAILURE || error == CL_COMPILE_PROGRAM_FAILURE ||
         error == CL_LINK_PROGRAM_FAILURE) &&
        !has_reason(build)) {
        tp_info("executor", "a build failed without a reason: trying again");
        if (build->kind == TP_EXEC_LINK && build->program->native != NULL) {
            build->program->obj.x->cl.ReleaseProgram(build->program->native);
            build->program->native = NULL;
        }
        error = run_driver(build, options);
    }
    return error;
}

/* Runs the build in the driver. */
static int32_t
make_native(struct tp_exec_build *build, const char *options)
{
    struct tp_exec_program *p = build->program;
    struct tp_exec_watchdog *watchdog = p->obj.x->watchdog;
    int32_t error = p->text != NULL ? tp_exec_text_prepare(build) : 0;
    size_t watch;

    if (error == 0) {
        tp_trace_begin("executor", "build");
        watch = tp_exec_watchdog_build_begin(watchdog);
        error = run_driver_again(build, options);
        tp_exec_watchdog_build_end(watchdog, watch);
        tp_trace_end("executor", "build");
    }
    return error;
}

static int32_t
make(struct tp_exec_build *build, const char *options)
{
    int lock = tp_exec_build_lock(build, options);
    int32_t error = build->program->origin == TP_EXEC_FROM_SOURCE
                        ? tp_exec_build_confined(build, options, make_native)
                        : make_native(build, options);

    tp_exec_build_unlock(lock);
    return error;
}

/* Records the key of the build, for links of the program and for the cache. */
static void
note_key(struct tp_exec_build *build, int32_t error)
{
    struct tp_exec_program *p = build->program;

    tp_mutex_lock(&p->obj.x->done_lock);
    build->generation = ++p->generation;
    build->has_key = build->has_key && error == 0;
    p->has_key = build->has_key;
    memcpy(p->key, build->key, sizeof(p->key));
    tp_mutex_unlock(&p->obj.x->done_lock);
}

/* Builds, or loads the result from the cache; appends the facts. */
static int32_t
run_build(struct tp_exec_build *build, struct tp_buf *facts)
{
    struct tp_exec_program *p = build->program;
    int32_t error = prepare(build);
    char *options;

    if (error != 0) {
        return error;
    }
    options = tp_exec_build_options(build);
    if (options == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    build->all_options = options;
    tp_exec_cache_take_key(build);
    if (!tp_exec_cache_load(build, options, facts)) {
        error = make(build, options);
        if (p->native != NULL &&
            tp_exec_program_facts(build,
                                  error == CL_SUCCESS && build->kind != TP_EXEC_COMPILE,
                                  facts) != TELPHER_OK) {
            error = CL_OUT_OF_HOST_MEMORY;
        }
    }
    tp_exec_text_built(build);
    note_key(build, error);
    build->all_options = NULL;
    tp_free(options);
    return error;
}

/* Sends the reply; facts that do not fit in its frame follow as a transfer. */
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

/* Waits until one more build of the user may run. The program's thread waits for the answer of the
 * build, so nothing else waits. @return what to give back; NULL: builds are not limited */
static const struct tp_budget_outer *
take_turn(struct tp_exec *x)
{
    const struct tp_budget_outer *o = &x->share.outer[TP_SHARE_builds];

    if (o->max == 0) {
        return NULL;
    }
    while (!tp_budget_outer_take(o, 1)) {
        tp_clock_sleep(TURN_PAUSE);
    }
    return o;
}

static void
build_job(void *arg)
{
    struct tp_exec_build *build = arg;
    struct tp_exec_program *p = build->program;
    const struct tp_budget_outer *turn = take_turn(p->obj.x);
    struct tp_buf facts;
    int32_t error;

    tp_buf_init(&facts, 0);
    error = run_build(build, &facts);
    if (turn != NULL) {
        tp_budget_outer_give(turn, 1);
    }
    tp_mutex_lock(&p->obj.x->done_lock);
    p->building = false;
    tp_mutex_unlock(&p->obj.x->done_lock);
    if (error == CL_SUCCESS) {
        tp_exec_cache_note(build, &facts);
    }
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
