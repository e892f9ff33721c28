/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a program: one request for each place, all on their way at once; the last
 * reply merges the results, whoever reads it, and then wakes the caller or, if there is
 * one, runs the callback.
 */
#include "icd/icd_int.h"

#include <string.h>

#include "base/alloc.h"

struct build;

/** The part of one place. */
struct part {
    struct tp_icd_request req;
    struct build *build;
    uint32_t place_index;
    bool asked;
    cl_int result; /**< of the server's driver, or what this side makes of its loss */
    struct tp_icd_incoming facts;
};

/** One call of clBuildProgram. */
struct build {
    struct tp_icd_program *p; /* held */
    bool *selected; /**< [device_count] devices that are built */
    void(CL_CALLBACK *notify)(cl_program, void *);
    void *user;
    unsigned open; /**< parts without result, and the caller while it puts */
    struct tp_icd_request merged; /**< done when the result is in the program */
    cl_int result;
    struct part parts[TP_ICD_PLACES_MAX];
};

static void
build_free(struct build *b)
{
    for (uint32_t i = 0; i < TP_ICD_PLACES_MAX; i++) {
        tp_icd_blob_fini(&b->parts[i].facts);
    }
    tp_icd_drop(&b->p->pub.obj);
    tp_free(b->selected);
    tp_free(b);
}

/* ---- kernels: one index for a name, whatever order a driver lists them in -------------- */

/** @return the index of a name in the program, added if it is new; -1: no memory. */
static int64_t
index_of_name(struct tp_icd_program *p, const char *name, size_t len)
{
    char **list;

    for (uint32_t i = 0; i < p->kernel_names; i++) {
        if (strlen(p->kernels[i]) == len && memcmp(p->kernels[i], name, len) == 0) {
            return i;
        }
    }
    list =
        tp_realloc_array(p->kernels, p->kernel_names + 1, sizeof(list[0]), "kernels");
    if (list == NULL) {
        return -1;
    }
    p->kernels = list;
    list[p->kernel_names] = tp_strndup(name, len, "kernels");
    if (list[p->kernel_names] == NULL) {
        return -1;
    }
    return p->kernel_names++;
}

static bool
is_kernel_fact(const struct tp_wire_fact *fact)
{
    return fact->kind == TP_WIRE_FACT_KERNEL || fact->kind == TP_WIRE_FACT_KERNEL_ARG ||
           fact->kind == TP_WIRE_FACT_KERNEL_DEVICE;
}

/** Gives a table from the driver's kernel numbers to ours; -1 where there is no name. */
static telpher_status
map_kernels(struct tp_icd_program *p, const struct tp_icd_facts *facts, uint32_t count,
            int64_t *map)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tp_wire_fact fact;

        map[i] = -1;
        if (tp_icd_facts_get(facts, TP_WIRE_FACT_KERNEL, i, 0, CL_KERNEL_FUNCTION_NAME,
                             &fact) &&
            fact.error == CL_SUCCESS && fact.len > 1) {
            map[i] = index_of_name(p, (const char *)fact.data,
                                   strnlen((const char *)fact.data, fact.len));
            if (map[i] < 0) {
                return TELPHER_ERR_NO_MEMORY;
            }
        }
    }
    return TELPHER_OK;
}

/** Copies the records with kernel numbers replaced. @return [bytes] written. */
static size_t
renumber(uint8_t *dst, const uint8_t *blob, size_t len, uint32_t count,
         const int64_t *map)
{
    const uint8_t *src = blob, *end = blob + len;
    uint8_t *to = dst;
    struct tp_wire_fact fact;

    while (tp_wire_get_fact(&src, end, &fact)) {
        if (is_kernel_fact(&fact)) {
            if (fact.index >= count || map[fact.index] < 0) {
                continue;
            }
            fact.index = (uint32_t)map[fact.index];
        }
        tp_wire_put_fact(to, &fact);
        to += tp_wire_fact_size(fact.len);
    }
    return (size_t)(to - dst);
}

/** Turns what a place said into facts with the program's kernel numbers. */
static telpher_status
parse_facts(struct tp_icd_program *p, const struct tp_icd_incoming *in,
            struct tp_icd_facts **ret_facts)
{
    struct tp_icd_facts *native;
    telpher_status status = tp_icd_facts_create(in->data, in->size, &native);
    uint32_t count;
    int64_t *map;
    uint8_t *blob;

    if (status != TELPHER_OK) {
        return status;
    }
    count = tp_icd_facts_count(native, TP_WIRE_FACT_KERNEL);
    count = count <= in->size ? count : 0; /* numbers that no record can stand for */
    map = tp_alloc_array(count, sizeof(map[0]), "kernels");
    blob = tp_malloc(in->size, "kernels");
    status = map == NULL || blob == NULL ? TELPHER_ERR_NO_MEMORY
                                         : map_kernels(p, native, count, map);
    if (status == TELPHER_OK) {
        status = tp_icd_facts_create(
            blob, renumber(blob, in->data, in->size, count, map), ret_facts);
    }
    tp_free(blob);
    tp_free(map);
    tp_icd_facts_destroy(native);
    return status;
}

/* ---- results ----------------------------------------------------------------------------- */

/** True if some device at the place was built before and is not built now. */
static bool
place_is_used(const struct build *b, uint32_t place_index)
{
    const struct _cl_program *program = &b->p->pub;

    for (uint32_t i = 0; i < program->device_count; i++) {
        if (!b->selected[i] && program->build_status[i] == CL_BUILD_SUCCESS &&
            tp_icd_context_device_place(program->ctx, program->devices[i]) ==
                (int)place_index) {
            return true;
        }
    }
    return false;
}

/** Copies a number of at most 8 bytes, if the driver gave it. */
static void
take_number(const struct tp_icd_facts *facts, const struct _cl_device_id *dev,
            uint32_t param, void *ret_value, size_t len)
{
    struct tp_wire_fact fact;

    if (facts != NULL &&
        tp_icd_facts_get(facts, TP_WIRE_FACT_PROGRAM_DEVICE, dev->index, 0, param,
                         &fact) &&
        fact.error == CL_SUCCESS && fact.len == len) {
        memcpy(ret_value, fact.data, len);
    }
}

static void
take_log(struct tp_icd_build_info *info, const struct tp_icd_facts *facts,
         const struct _cl_device_id *dev)
{
    struct tp_wire_fact fact;

    tp_free(info->log);
    info->log = NULL;
    if (facts != NULL &&
        tp_icd_facts_get(facts, TP_WIRE_FACT_PROGRAM_DEVICE, dev->index, 0,
                         CL_PROGRAM_BUILD_LOG, &fact) &&
        fact.error == CL_SUCCESS) {
        info->log = tp_strndup((const char *)fact.data,
                               strnlen((const char *)fact.data, fact.len), "build log");
    }
}

/** Puts the result for one device into the program. */
static void
merge_device(struct build *b, uint32_t device, const struct tp_icd_facts *facts,
             cl_int result)
{
    struct _cl_program *program = &b->p->pub;
    struct tp_icd_build_info *info = &b->p->info[device];
    const struct _cl_device_id *dev = program->devices[device];
    cl_build_status status = result == CL_SUCCESS ? CL_BUILD_SUCCESS : CL_BUILD_ERROR;

    take_number(facts, dev, CL_PROGRAM_BUILD_STATUS, &status, sizeof(status));
    if (status != CL_BUILD_SUCCESS) {
        status = CL_BUILD_ERROR;
    }
    info->binary_type = status == CL_BUILD_SUCCESS ? CL_PROGRAM_BINARY_TYPE_EXECUTABLE
                                                   : CL_PROGRAM_BINARY_TYPE_NONE;
    info->global_bytes = 0;
    take_number(facts, dev, CL_PROGRAM_BINARY_TYPE, &info->binary_type,
                sizeof(info->binary_type));
    take_number(facts, dev, CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
                &info->global_bytes, sizeof(info->global_bytes));
    take_log(info, facts, dev);
    program->build_status[device] = status;
}

/** Puts the result of one place into the program. */
static void
merge_part(struct build *b, struct part *part)
{
    struct _cl_program *program = &b->p->pub;
    struct tp_icd_facts *facts = NULL;
    struct tp_icd_facts **kept = &program->facts[part->place_index];

    if (part->facts.data != NULL) {
        telpher_status status = parse_facts(b->p, &part->facts, &facts);

        if (status != TELPHER_OK) {
            part->result = tp_icd_cl_error(status);
        }
    }
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (b->selected[i] &&
            tp_icd_context_device_place(program->ctx, program->devices[i]) ==
                (int)part->place_index) {
            merge_device(b, i, facts, part->result);
        }
    }
    if (part->result == CL_SUCCESS || !place_is_used(b, part->place_index)) {
        struct tp_icd_facts *old = *kept;

        *kept = facts;
        facts = old;
    }
    tp_icd_facts_destroy(facts);
    if (b->result == CL_SUCCESS) {
        b->result = part->result;
    }
}

static void
run_notify(void *arg)
{
    struct build *b = arg;

    b->notify(&b->p->pub, b->user);
    build_free(b);
}

/** All parts have their results. */
static void
merge(struct build *b)
{
    bool notify = b->notify != NULL;

    tp_icd_lock();
    for (uint32_t i = 0; i < b->p->pub.ctx->place_count; i++) {
        if (b->parts[i].asked) {
            merge_part(b, &b->parts[i]);
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

/** One of those that merge() waits for is done. */
static void
step(struct build *b)
{
    bool last;

    tp_icd_lock();
    last = --b->open == 0;
    tp_icd_unlock();
    if (last) {
        merge(b);
    }
}

/** The part has its result: b may be gone afterwards. */
static void
part_end(struct part *part)
{
    struct build *b = part->build;

    tp_icd_settle(b->p->pub.ctx->places[part->place_index], &part->req);
    step(b);
}

static void
on_facts(struct tp_icd_incoming *in)
{
    struct part *part = in->user;

    if (in->status != TELPHER_OK) {
        part->result = tp_icd_cl_error(in->status);
        tp_icd_blob_fini(in);
    }
    part_end(part);
}

static void
on_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct part *part = req->user;
    struct tp_wire_build_reply msg;

    if (type != TP_WIRE_BUILD_REPLY || !tp_wire_get_build_reply(body, end, &msg)) {
        part->result =
            tp_icd_cl_error(type == 0 ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_PROTO);
        part_end(part);
        return;
    }
    part->result = msg.status <= 0 ? msg.status : CL_OUT_OF_RESOURCES;
    tp_icd_blob_receive(&part->facts,
                        part->build->p->pub.ctx->places[part->place_index], &msg.facts,
                        msg.transfer, msg.size);
}

/* ---- requests ---------------------------------------------------------------------------- */

/** Puts the request of one place for the selected devices there. Under the lock. */
static telpher_status
put_part(struct build *b, uint32_t place_index, const char *options, uint64_t *ids,
         uint16_t count)
{
    struct _cl_program *program = &b->p->pub;
    struct tp_icd_place *place = program->ctx->places[place_index];
    struct part *part = &b->parts[place_index];
    struct tp_wire_program_build msg = {
        .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
        .program = program->obj.id,
        .devices = {.count = count, .data = ids},
        .options = {.len = (uint32_t)strlen(options), .data = options},
    };
    telpher_status status = tp_icd_program_ensure(program, place_index);

    part->req =
        (struct tp_icd_request){.id = msg.request, .reply = on_reply, .user = part};
    part->facts = (struct tp_icd_incoming){.then = on_facts, .user = part};
    if (status == TELPHER_OK) {
        status = tp_icd_request_add(place, &part->req);
    }
    if (status == TELPHER_OK) {
        tp_icd_put(place, TP_WIRE_PROGRAM_BUILD, &msg);
    }
    return status;
}

/** Puts all requests. Under the lock. */
static void
put_parts(struct build *b, const char *options, uint64_t *ids)
{
    struct _cl_program *program = &b->p->pub;

    for (uint32_t place = 0; place < program->ctx->place_count; place++) {
        struct part *part = &b->parts[place];
        telpher_status status;
        uint16_t count = 0;

        for (uint32_t i = 0; i < program->device_count; i++) {
            if (b->selected[i] &&
                tp_icd_context_device_place(program->ctx, program->devices[i]) ==
                    (int)place) {
                ids[count++] = program->devices[i]->index;
            }
        }
        if (count == 0) {
            continue;
        }
        part->build = b;
        part->place_index = place;
        part->asked = true;
        status = put_part(b, place, options, ids, count);
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
begin(struct build *b, const char *options)
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
        copy = tp_strdup(options, "build options");
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
wait_for(struct build *b)
{
    struct _cl_context *ctx = b->p->pub.ctx;
    cl_int result;

    for (uint32_t i = 0; i < ctx->place_count; i++) {
        if (b->parts[i].asked) {
            tp_icd_await(ctx->places[i], &b->parts[i].req);
        }
    }
    tp_icd_await(NULL, &b->merged);
    result = b->result;
    build_free(b);
    return result;
}

/** Builds; takes @p b. */
static cl_int
run(struct build *b, const char *options)
{
    struct _cl_program *program = &b->p->pub;
    struct _cl_context *ctx = program->ctx;
    uint64_t *ids = tp_alloc_array(program->device_count, sizeof(ids[0]), "build");
    bool notify = b->notify != NULL;
    cl_int err = CL_OUT_OF_HOST_MEMORY;

    if (ids != NULL) {
        tp_icd_lock();
        err = begin(b, options);
        if (err == CL_SUCCESS) {
            b->open = 1;
            put_parts(b, options, ids);
        }
        tp_icd_unlock();
        tp_free(ids);
    }
    if (err != CL_SUCCESS) {
        build_free(b);
        return err;
    }
    for (uint32_t i = 0; i < ctx->place_count; i++) {
        tp_icd_flush(ctx->places[i]);
    }
    step(b);
    return notify ? CL_SUCCESS : wait_for(b); /* with a callback, b may be gone */
}

/* ---- entry point --------------------------------------------------------------------------- */

/** A part of a device runs what was built for the whole. */
static void
select_parts(struct build *b)
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
select_devices(struct build *b, cl_uint count, const cl_device_id *devices)
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
tp_clBuildProgram(cl_program handle, cl_uint num_devices, const cl_device_id *devices,
                  const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                  void *user)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    struct build *b;
    cl_int err;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    if ((num_devices == 0) != (devices == NULL) || (notify == NULL && user != NULL)) {
        return CL_INVALID_VALUE;
    }
    if (options != NULL && strlen(options) > TP_WIRE_BLOB_MAX) {
        return CL_INVALID_BUILD_OPTIONS; /* they would not fit into a frame */
    }
    b = tp_zalloc(sizeof(*b), "build");
    if (b == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    b->p = tp_icd_program_of(program);
    b->notify = notify;
    b->user = user;
    tp_icd_hold(&program->obj);
    b->selected =
        tp_alloc_array(program->device_count, sizeof(b->selected[0]), "build");
    err = b->selected == NULL ? CL_OUT_OF_HOST_MEMORY
                              : select_devices(b, num_devices, devices);
    if (err != CL_SUCCESS) {
        build_free(b);
        return err;
    }
    return run(b, options != NULL ? options : "");
}
