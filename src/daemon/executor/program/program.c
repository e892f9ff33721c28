/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles messages on programs: source, include files, and the start of builds. Content may
 * arrive by a transfer; builds requested meanwhile wait for it.
 */
#include "daemon/executor/program/program.h"
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/incoming.h"
#include "wire/files.h"

void
tp_exec_incoming_free(struct tp_exec_incoming *in)
{
    tp_budget_give(&in->program->obj.x->host, in->size);
    tp_exec_unref(&in->program->obj);
    tp_free(in->content);
    tp_free(in->sizes);
    tp_free(in->devices);
    tp_free(in);
}

int32_t
tp_exec_incoming_new(struct tp_exec_program *p, uint64_t size,
                     struct tp_exec_incoming **ret_in)
{
    struct tp_exec *x = p->obj.x;
    struct tp_exec_incoming *in;

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
        tp_exec_incoming_free(in);
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
    tp_buf_init(&p->specs, 0);
    tp_map_init(&p->spec_places);
    p->origin = origin;
    if (origin != TP_EXEC_FROM_SOURCE && origin != TP_EXEC_FROM_LINK) {
        tp_exec_printf_expect(x->printf, NULL, 0);
    }
    *ret_error = tp_exec_hold_context(x, context, &p->context);
    if (*ret_error == 0) {
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
    tp_budget_give(&o->x->host, p->text_len + p->files_len + tp_buf_len(&p->specs));
    tp_buf_fini(&p->specs);
    tp_map_fini(&p->spec_places);
    tp_free(p->text);
    tp_free(p->files);
    tp_exec_unref(p->context != NULL ? &p->context->obj : NULL);
    tp_free(p);
}

bool
tp_exec_is_proper_transfer(uint64_t transfer, uint64_t size)
{
    return transfer == 0 ||
           (tp_wire_id_kind(transfer) == TP_WIRE_KIND_TRANSFER && size > 0);
}

telpher_status
tp_exec_incoming_await(struct tp_exec_incoming *in, uint64_t transfer,
                       void (*arrived)(void *arg, int32_t error, uint64_t start_ns,
                                       uint64_t end_ns))
{
    const struct tp_exec_transfer_params params = {.id = transfer,
                                                   .size = in->size,
                                                   .memory = in->content,
                                                   .finished = arrived,
                                                   .arg = in};
    struct tp_exec *x = in->program->obj.x;
    telpher_status status;

    tp_mutex_lock(&x->done_lock);
    in->program->waiting++;
    tp_mutex_unlock(&x->done_lock);
    tp_exec_watchdog_arm(x->watchdog);
    status = tp_exec_transfers_start(x->transfers, &params);
    if (status != TELPHER_OK) { /* else it may be gone already */
        tp_mutex_lock(&x->done_lock);
        in->program->waiting--;
        tp_mutex_unlock(&x->done_lock);
        tp_exec_incoming_free(in);
    }
    return status;
}

/* ---- source and intermediate language ---- */

/* Keeps the text; the native program comes with the first build. */
static int32_t
keep_text(struct tp_exec_program *p, const void *text, size_t len)
{
    if (!tp_budget_take(&p->obj.x->host, len)) {
        return tp_exec_refuse(&p->obj, CL_OUT_OF_HOST_MEMORY, "--max-host-memory");
    }
    tp_exec_printf_expect(p->obj.x->printf, text, len);
    p->text_len = len;
    p->text = tp_strndup(text, len, "program");
    return p->text == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
}

static const char *
creating_call(const struct tp_exec_program *p)
{
    return p->origin == TP_EXEC_FROM_IL ? "clCreateProgramWithIL"
                                        : "clCreateProgramWithSource";
}

static void
text_arrived(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct tp_exec_incoming *in = arg;
    struct tp_exec_program *p = in->program;

    if (error == 0) {
        error = keep_text(p, in->content, in->size);
    }
    tp_exec_poison(&p->obj, error, creating_call(p));
    tp_exec_program_arrived(p);
    tp_exec_incoming_free(in);
}

/* A program of a text, in OpenCL C or in an intermediate language. */
static telpher_status
create_of_text(struct tp_exec *x, const struct tp_wire_program_source *m,
               enum tp_exec_origin origin)
{
    struct tp_exec_program *p;
    struct tp_exec_incoming *in;
    int32_t error;
    telpher_status status;

    if (m->source.len > TP_WIRE_BLOB_MAX ||
        (m->transfer == 0 && m->size != m->source.len) ||
        (m->transfer != 0 && m->source.len != 0) ||
        !tp_exec_is_proper_transfer(m->transfer, m->size)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_program_new(x, m->program, m->context, origin, &p, &error);
    if (status != TELPHER_OK) {
        return status;
    }
    if (error == 0 && m->transfer == 0) {
        error = keep_text(p, m->source.data, m->source.len);
    } else if (error == 0) {
        error = tp_exec_incoming_new(p, m->size, &in);
        if (error == 0) {
            return tp_exec_incoming_await(in, m->transfer, text_arrived);
        }
    }
    tp_exec_poison(&p->obj, error, creating_call(p));
    return error != 0 && m->transfer != 0
               ? tp_exec_transfers_discard(x->transfers, m->transfer, m->size, false,
                                           NULL)
               : TELPHER_OK;
}

telpher_status
tp_exec_on_program_source(struct tp_exec *x, const struct tp_wire_program_source *m)
{
    return create_of_text(x, m, TP_EXEC_FROM_SOURCE);
}

telpher_status
tp_exec_on_program_il(struct tp_exec *x, const struct tp_wire_program_il *m)
{
    const struct tp_wire_program_source text = {m->program, m->context, m->size,
                                                m->transfer, m->il};

    return create_of_text(x, &text, TP_EXEC_FROM_IL);
}

/* ---- files that builds include ---- */

/* Takes records for the build that asked for them, else for the next one; those that are not
 * proper have that fail. */
static void
keep_files(struct tp_exec_program *p, uint8_t *records, uint64_t len, int32_t error)
{
    if (error == 0 && tp_wire_files_check(records, len) == 0) {
        error = CL_INVALID_VALUE;
    }
    if (error == 0) {
        tp_exec_printf_expect(p->obj.x->printf, records, len);
    }
    if (tp_exec_build_answer(p, records, error == 0 ? len : 0)) {
        tp_free(records);
        return;
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
    struct tp_exec_incoming *in = arg;

    keep_files(in->program, in->content, in->size, error);
    in->content = NULL;
    tp_exec_program_arrived(in->program);
    tp_exec_incoming_free(in);
}

telpher_status
tp_exec_on_program_files(struct tp_exec *x, const struct tp_wire_program_files *m)
{
    struct tp_exec_program *p = NULL;
    struct tp_exec_incoming *in = NULL;
    int32_t error = tp_exec_find(x, m->program, TP_WIRE_KIND_PROGRAM, &p);

    if (m->size == 0 || m->size > TP_WIRE_FILES_BYTES_MAX ||
        m->files.len > TP_WIRE_BLOB_MAX ||
        m->files.len != (m->transfer == 0 ? m->size : 0) ||
        !tp_exec_is_proper_transfer(m->transfer, m->size)) {
        return TELPHER_ERR_PROTO;
    }
    if (error == 0) {
        error = tp_exec_incoming_new(p, m->size, &in);
    }
    if (in != NULL && m->transfer != 0) {
        return tp_exec_incoming_await(in, m->transfer, files_arrived);
    }
    if (in != NULL) {
        memcpy(in->content, m->files.data, m->size);
        keep_files(p, in->content, m->size, 0);
        in->content = NULL;
        tp_exec_incoming_free(in);
    } else if (p != NULL) {
        keep_files(p, NULL, 0, error);
    }
    return in == NULL && m->transfer != 0
               ? tp_exec_transfers_discard(x->transfers, m->transfer, m->size, false,
                                           NULL)
               : TELPHER_OK; /* a program that is none: its build will tell */
}

/* ---- builds ---- */

static void
put_build_error(struct tp_exec *x, uint64_t request, int32_t error)
{
    struct tp_wire_build_reply m = {.request = request, .status = error};

    tp_exec_put(x, TP_WIRE_BUILD_REPLY, &m);
}

/*
 * Starts a build, queues it until content is complete and readers of the binaries are done,
 * or rejects it: a native program supports one build at a time.
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

    if (params->options->len > 0) {
        tp_exec_printf_expect(x->printf, params->options->data, params->options->len);
    }
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
    const struct tp_exec_build_params params = {.kind = TP_EXEC_BUILD,
                                                .request = m->request,
                                                .program = m->program,
                                                .devices = &m->devices,
                                                .options = &m->options};

    build_or_refuse(x, &params);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_program_compile(struct tp_exec *x, const struct tp_wire_program_compile *m)
{
    const struct tp_exec_build_params params = {.kind = TP_EXEC_COMPILE,
                                                .request = m->request,
                                                .program = m->program,
                                                .devices = &m->devices,
                                                .headers = &m->headers,
                                                .names = &m->names,
                                                .options = &m->options};

    if (m->names.len > TP_WIRE_BLOB_MAX) {
        return TELPHER_ERR_PROTO;
    }
    build_or_refuse(x, &params);
    return TELPHER_OK;
}

/* Makes a program out of what a build gives. */
static telpher_status
create_by_build(struct tp_exec *x, uint64_t context, enum tp_exec_origin origin,
                const struct tp_exec_build_params *params)
{
    struct tp_exec_program *p;
    int32_t error;
    telpher_status status =
        tp_exec_program_new(x, params->program, context, origin, &p, &error);

    if (status != TELPHER_OK) {
        return status;
    }
    if (error != 0) {
        p->obj.error = error;
    }
    build_or_refuse(x, params);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_program_link(struct tp_exec *x, const struct tp_wire_program_link *m)
{
    const struct tp_exec_build_params params = {.kind = TP_EXEC_LINK,
                                                .request = m->request,
                                                .program = m->program,
                                                .devices = &m->devices,
                                                .options = &m->options,
                                                .inputs = &m->inputs};

    return create_by_build(x, m->context, TP_EXEC_FROM_LINK, &params);
}

telpher_status
tp_exec_on_program_built_in(struct tp_exec *x, const struct tp_wire_program_built_in *m)
{
    const struct tp_wire_bytes none = {0, ""};
    const struct tp_exec_build_params params = {.kind = TP_EXEC_MAKE_BUILT_IN,
                                                .request = m->request,
                                                .program = m->program,
                                                .devices = &m->devices,
                                                .options = &none,
                                                .names = &m->names};

    if (m->devices.count == 0 || m->names.len > TP_WIRE_BLOB_MAX) {
        return TELPHER_ERR_PROTO;
    }
    return create_by_build(x, m->context, TP_EXEC_BUILT_IN, &params);
}

/* Starts the waiting build if nothing blocks it. */
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
