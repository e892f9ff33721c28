/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds, compiles and links: sends one request to each session in parallel. The thread that
 * receives the last reply merges the results. It then wakes the caller, or runs the callback
 * if there is one.
 */
#include "icd/program/build.h"
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/files.h"

void
tp_icd_build_free(struct tp_icd_build *b)
{
    for (uint32_t i = 0; i < TP_ICD_SESSIONS_MAX; i++) {
        tp_icd_blob_fini(&b->parts[i].facts);
    }
    tp_icd_drop(&b->p->pub.obj);
    tp_icd_includes_destroy(b->includes);
    tp_buf_fini(&b->first_files);
    tp_buf_fini(&b->header_names);
    tp_free(b->inputs);
    tp_free(b->selected);
    tp_free(b);
}

/* ---- results ----------------------------------------------------------------------------- */

static void
run_notify(void *arg)
{
    struct tp_icd_build *b = arg;

    b->notify(&b->p->pub, b->user);
    tp_icd_build_free(b);
}

/** Merges the results of all parts into the program. */
static void
merge_parts(struct tp_icd_build *b)
{
    bool notify = b->notify != NULL;

    tp_icd_lock();
    for (uint32_t i = 0; i < b->p->pub.ctx->session_count; i++) {
        if (b->parts[i].asked) {
            tp_icd_build_merge_part(b, &b->parts[i]);
        }
    }
    b->p->pub.building = false;
    tp_icd_unlock();
    if (!notify) {
        tp_icd_settle(NULL, &b->merged); /* b is the caller's from here on */
    } else if (tp_icd_callback(run_notify, b) != TELPHER_OK) {
        run_notify(b);
    }
}

/** One of those that merge_parts() waits for is done. */
static void
step(struct tp_icd_build *b)
{
    bool last;

    tp_icd_lock();
    last = --b->open == 0;
    tp_icd_unlock();
    if (last) {
        merge_parts(b);
    }
}

/** Records the result of a part; b may be freed after this. */
static void
part_end(struct tp_icd_build_part *part)
{
    struct tp_icd_build *b = part->build;

    tp_icd_settle(b->p->pub.ctx->sessions[part->session_index], &part->req);
    step(b);
}

static void
on_facts(struct tp_icd_incoming *in)
{
    struct tp_icd_build_part *part = in->user;

    if (in->status != TELPHER_OK) {
        part->result = tp_icd_cl_error(in->status);
        tp_icd_blob_fini(in);
    }
    part_end(part);
}

/** Sends files of this machine for a build. Under the lock. */
static telpher_status
put_files(struct tp_icd_build *b, struct tp_icd_session *session,
          const struct tp_buf *records)
{
    struct tp_wire_program_files msg = {.program = b->p->pub.obj.id,
                                        .size = tp_buf_len(records)};
    telpher_status status = TELPHER_OK;
    uint8_t *copy;

    if (msg.size == 0) {
        return TELPHER_OK;
    }
    if (msg.size > TP_WIRE_FILES_BYTES_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    if (msg.size <= TP_WIRE_BLOB_MAX) {
        msg.files = (struct tp_wire_bytes){(uint32_t)msg.size, tp_buf_data(records)};
    } else {
        copy = tp_memdup(tp_buf_data(records), msg.size, "included files");
        status = copy == NULL ? TELPHER_ERR_NO_MEMORY
                              : tp_icd_blob_send(session, copy, msg.size, NULL, copy,
                                                 &msg.transfer);
    }
    if (status == TELPHER_OK) {
        tp_icd_put(session, TP_WIRE_PROGRAM_FILES, &msg);
    }
    return status;
}

/** Sends the files that the server's compiler looks for. */
static telpher_status
on_wanted(struct tp_icd_request *req, const char *names, size_t len)
{
    struct tp_icd_build_part *part = req->user;
    struct tp_icd_build *b = part->build;
    struct tp_icd_session *session = b->p->pub.ctx->sessions[part->session_index];
    telpher_status status;
    struct tp_buf out;

    if (b->includes == NULL || len == 0 || names[len - 1] != '\0') {
        return TELPHER_ERR_PROTO;
    }
    tp_buf_init(&out, 0);
    status = tp_icd_includes_answer(b->includes, names, len, &out);
    if (status == TELPHER_OK) {
        tp_icd_lock();
        status = put_files(b, session, &out);
        tp_icd_unlock();
    }
    tp_buf_fini(&out);
    if (status == TELPHER_OK) {
        tp_icd_flush(session);
    }
    return status;
}

static void
on_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct tp_icd_build_part *part = req->user;
    struct tp_wire_build_reply msg;

    part->result = tp_icd_reply_get(TP_WIRE_BUILD_REPLY, type, body, end, &msg);
    if (msg.request == 0) {
        part_end(part);
        return;
    }
    tp_icd_blob_receive(&part->facts,
                        part->build->p->pub.ctx->sessions[part->session_index],
                        &msg.facts, msg.transfer, msg.size);
}

/* ---- requests ---------------------------------------------------------------------------- */

/** Appends the request of the call's kind to one session. Under the lock. */
static void
put_request(struct tp_icd_build *b, uint32_t session_index, uint64_t request,
            const struct tp_wire_u64s *devices)
{
    struct _cl_program *program = &b->p->pub;
    const char *options = b->kind == TP_ICD_BUILT_IN ? b->names : b->options;
    struct tp_wire_bytes text = {.len = (uint32_t)strlen(options), .data = options};
    const struct tp_wire_program_build build = {request, program->obj.id, *devices,
                                                text};
    const struct tp_wire_program_compile compile = {
        .request = request,
        .program = program->obj.id,
        .devices = *devices,
        .headers = {.count = b->input_count, .data = b->inputs},
        .names = {.len = (uint32_t)tp_buf_len(&b->header_names),
                  .data = tp_buf_data(&b->header_names)},
        .options = text};
    const struct tp_wire_program_link link = {
        .request = request,
        .program = program->obj.id,
        .context = program->ctx->obj.id,
        .devices = *devices,
        .inputs = {.count = b->input_count, .data = b->inputs},
        .options = text,
    };
    const struct tp_wire_program_built_in built_in = {
        request, program->obj.id, program->ctx->obj.id, *devices, text};
    struct tp_icd_session *session = program->ctx->sessions[session_index];

    switch (b->kind) {
    case TP_ICD_COMPILE:
        tp_icd_put(session, TP_WIRE_PROGRAM_COMPILE, &compile);
        break;
    case TP_ICD_LINK:
        tp_icd_put(session, TP_WIRE_PROGRAM_LINK, &link);
        program->sent |= 1U << session_index;
        break;
    case TP_ICD_BUILT_IN:
        tp_icd_put(session, TP_WIRE_PROGRAM_BUILT_IN, &built_in);
        program->sent |= 1U << session_index;
        break;
    default:
        tp_icd_put(session, TP_WIRE_PROGRAM_BUILD, &build);
    }
}

/** Appends the request for the selected devices of one session. Under the lock. */
static telpher_status
put_part(struct tp_icd_build *b, uint32_t session_index, uint64_t *ids, uint16_t count)
{
    struct _cl_program *program = &b->p->pub;
    struct tp_icd_session *session = program->ctx->sessions[session_index];
    struct tp_icd_build_part *part = &b->parts[session_index];
    const struct tp_wire_u64s devices = {.count = count, .data = ids};
    bool makes = b->kind == TP_ICD_LINK || b->kind == TP_ICD_BUILT_IN;
    telpher_status status =
        makes ? TELPHER_OK : tp_icd_program_ensure(program, session_index);

    for (cl_uint i = 0; i < b->headers.count && status == TELPHER_OK; i++) {
        status = tp_icd_program_ensure(b->headers.programs[i], session_index);
    }

    part->req = (struct tp_icd_request){.id = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
                                        .reply = on_reply,
                                        .wanted = on_wanted,
                                        .user = part};
    part->facts = (struct tp_icd_incoming){.then = on_facts, .user = part};
    if (status == TELPHER_OK) {
        status = put_files(b, session, &b->first_files);
    }
    if (status == TELPHER_OK) {
        status = tp_icd_request_add(session, &part->req);
    }
    if (status == TELPHER_OK) {
        put_request(b, session_index, part->req.id, &devices);
    }
    return status;
}

/** Puts all requests. Under the lock. */
static void
put_parts(struct tp_icd_build *b, uint64_t *ids)
{
    struct _cl_program *program = &b->p->pub;

    for (uint32_t session = 0; session < program->ctx->session_count; session++) {
        struct tp_icd_build_part *part = &b->parts[session];
        telpher_status status;
        uint16_t count = 0;

        for (uint32_t i = 0; i < program->device_count; i++) {
            if (b->selected[i] &&
                tp_icd_context_device_session(program->ctx, program->devices[i]) ==
                    (int)session) {
                ids[count++] = program->devices[i]->index;
            }
        }
        if (count == 0) {
            continue;
        }
        part->build = b;
        part->session_index = session;
        part->asked = true;
        status = put_part(b, session, ids, count);
        if (status == TELPHER_OK) {
            b->open++;
        } else {
            part->result = tp_icd_cl_error(status);
            part->req.done = true;
        }
    }
}

/** Marks the program as being built with these options. Under the lock. */
static cl_int
mark_building(struct tp_icd_build *b)
{
    struct _cl_program *program = &b->p->pub;

    if (program->building || program->kernel_count != 0) {
        return CL_INVALID_OPERATION;
    }
    for (uint32_t i = 0; i < program->device_count; i++) {
        char *copy;

        if (!b->selected[i]) {
            continue;
        }
        copy = tp_strdup(b->options, "build options");
        if (copy == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        tp_free(program->options[i]);
        program->options[i] = copy;
    }
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (b->selected[i]) {
            program->build_status[i] = CL_BUILD_IN_PROGRESS;
        }
    }
    program->building = true;
    tp_icd_binaries_forget(b->p);
    return CL_SUCCESS;
}

/** Waits for the result and gives it. */
static cl_int
wait_for(struct tp_icd_build *b)
{
    struct _cl_context *ctx = b->p->pub.ctx;
    cl_int result;

    for (uint32_t i = 0; i < ctx->session_count; i++) {
        if (b->parts[i].asked) {
            tp_icd_await(ctx->sessions[i], &b->parts[i].req);
        }
    }
    tp_icd_await(NULL, &b->merged);
    result = b->result;
    tp_icd_build_free(b);
    return result;
}

cl_int
tp_icd_build_run(struct tp_icd_build *b)
{
    struct _cl_program *program = &b->p->pub;
    struct _cl_context *ctx = program->ctx;
    uint64_t *ids = tp_alloc_array(program->device_count, sizeof(ids[0]), "build");
    bool notify = b->notify != NULL;
    cl_int err = CL_OUT_OF_HOST_MEMORY;

    if (ids != NULL) {
        tp_icd_lock();
        err = mark_building(b);
        if (err == CL_SUCCESS) {
            b->open = 1;
            put_parts(b, ids);
        }
        tp_icd_unlock();
        tp_free(ids);
    }
    if (err != CL_SUCCESS) {
        tp_icd_build_free(b);
        return err;
    }
    for (uint32_t i = 0; i < ctx->session_count; i++) {
        tp_icd_flush(ctx->sessions[i]);
    }
    step(b);
    return notify ? CL_SUCCESS : wait_for(b); /* with a callback, b may be gone */
}

/* ---- making one ------------------------------------------------------------------------------ */

/** A sub-device runs the executable built for its parent device. */
static void
select_parts(struct tp_icd_build *b)
{
    const struct _cl_program *program = &b->p->pub;

    for (uint32_t i = 0; i < program->device_count; i++) {
        const struct _cl_device_id *dev = program->devices[i]->parent;

        for (; dev != NULL && !b->selected[i]; dev = dev->parent) {
            int index = tp_icd_program_device(program, dev);

            b->selected[i] = index >= 0 && b->selected[index];
        }
    }
}

/** Marks the devices to build for: those of the list, or all. */
static cl_int
select_devices(struct tp_icd_build *b, cl_uint count, const cl_device_id *devices)
{
    const struct _cl_program *program = &b->p->pub;

    for (uint32_t i = 0; devices == NULL && i < program->device_count; i++) {
        b->selected[i] = true;
    }
    for (cl_uint i = 0; devices != NULL && i < count; i++) {
        int index = tp_icd_program_device(program, devices[i]);

        if (index < 0) {
            return CL_INVALID_DEVICE;
        }
        b->selected[index] = true;
    }
    select_parts(b);
    return CL_SUCCESS;
}

cl_int
tp_icd_build_create(struct _cl_program *program, const struct tp_icd_build_call *call,
                    struct tp_icd_build **ret_build)
{
    struct tp_icd_build *b = tp_zalloc(sizeof(*b), "build");
    cl_int err;

    if (b == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    b->kind = call->kind;
    b->p = tp_icd_program_of(program);
    b->options = call->options != NULL ? call->options : "";
    b->notify = call->notify;
    b->user = call->user;
    tp_buf_init(&b->first_files, 0);
    tp_buf_init(&b->header_names, 0);
    tp_icd_hold(&program->obj);
    b->selected =
        tp_alloc_array(program->device_count, sizeof(b->selected[0]), "build");
    err = b->selected == NULL ? CL_OUT_OF_HOST_MEMORY
                              : select_devices(b, call->device_count, call->devices);
    if (err != CL_SUCCESS) {
        tp_icd_build_free(b);
        return err;
    }
    *ret_build = b;
    return CL_SUCCESS;
}
