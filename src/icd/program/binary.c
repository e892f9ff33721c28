/* SPDX-License-Identifier: Apache-2.0 */
/* Creates programs from binaries, and fetches the binaries of programs from the servers. */
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"

/* ---- programs from binaries ---------------------------------------------------------------- */

/** Binaries being sent to one session. */
struct load {
    struct tp_icd_request req;
    struct tp_icd_session *session;
    uint64_t *devices, *sizes; /**< what is sent; [count] */
    uint32_t *given; /**< index of each in the caller's list */
    uint16_t count;
    cl_int result;
    cl_int *binary_status; /**< the caller's list; one entry for each device given */
    struct tp_icd_build_info *info; /**< the program's */
};

/** Arguments of the caller. */
struct binaries {
    uint32_t count;
    const size_t *lengths;
    const unsigned char **data;
};

static void
load_fini(struct load *load)
{
    tp_free(load->devices);
    tp_free(load->sizes);
    tp_free(load->given);
}

static void
on_binary_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
                const uint8_t *end)
{
    struct load *load = req->user;
    struct tp_wire_binary_reply msg;

    load->result = tp_icd_reply_get(TP_WIRE_BINARY_REPLY, type, body, end, &msg);
    for (uint16_t i = 0; i < load->count && i < msg.binary_status.count; i++) {
        load->binary_status[load->given[i]] =
            (cl_int)tp_wire_u64_at(&msg.binary_status, i);
    }
    for (uint16_t i = 0; i < load->count && i < msg.binary_types.count; i++) {
        load->info[load->given[i]].binary_type =
            (cl_program_binary_type)tp_wire_u64_at(&msg.binary_types, i);
    }
    tp_icd_settle(load->session, req);
}

/** Selects and concatenates the binaries for one session. */
static uint8_t *
gather(struct load *load, const struct _cl_program *program, uint32_t session_index,
       const struct binaries *bin, size_t *ret_len)
{
    size_t len = 0;
    uint8_t *all;

    for (uint32_t i = 0; i < program->device_count; i++) {
        if (tp_icd_context_device_session(program->ctx, program->devices[i]) ==
            (int)session_index) {
            load->given[load->count] = i;
            load->devices[load->count] = program->devices[i]->index;
            load->sizes[load->count++] = bin->lengths[i];
            len += bin->lengths[i];
        }
    }
    all = tp_malloc(len, "binaries");
    *ret_len = len;
    len = 0;
    for (uint16_t i = 0; all != NULL && i < load->count; i++) {
        memcpy(all + len, bin->data[load->given[i]], bin->lengths[load->given[i]]);
        len += bin->lengths[load->given[i]];
    }
    return all;
}

/** Appends the message for one session. Takes @p all. Under the lock. */
static telpher_status
put_load(struct load *load, struct _cl_program *program, uint32_t session_index,
         uint8_t *all, size_t len)
{
    struct tp_wire_program_binary msg = {
        .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
        .program = program->obj.id,
        .context = program->ctx->obj.id,
        .devices = {.count = load->count, .data = load->devices},
        .sizes = {.count = load->count, .data = load->sizes},
    };
    telpher_status status = TELPHER_OK;
    uint8_t *copied = NULL;

    if (len > TP_WIRE_BLOB_MAX) {
        status = tp_icd_blob_send(load->session, all, len, NULL, all, &msg.transfer);
    } else {
        msg.binaries = (struct tp_wire_bytes){(uint32_t)len, all};
        copied = all;
    }
    load->req = (struct tp_icd_request){
        .id = msg.request, .reply = on_binary_reply, .user = load};
    if (status == TELPHER_OK) {
        status = tp_icd_request_add(load->session, &load->req);
    }
    if (status == TELPHER_OK) {
        tp_icd_put(load->session, TP_WIRE_PROGRAM_BINARY, &msg);
        program->sent |= 1U << session_index;
    }
    tp_free(copied);
    return status;
}

/** Loads the binaries in one session, if it has devices of the program, and waits. */
static cl_int
load_session(struct _cl_program *program, uint32_t session_index,
             const struct binaries *bin, cl_int *binary_status)
{
    size_t len, count = program->device_count;
    struct load load = {
        .session = program->ctx->sessions[session_index],
        .devices = tp_alloc_array(count, sizeof(uint64_t), "binaries"),
        .sizes = tp_alloc_array(count, sizeof(uint64_t), "binaries"),
        .given = tp_alloc_array(count, sizeof(uint32_t), "binaries"),
        .result = CL_OUT_OF_HOST_MEMORY,
        .binary_status = binary_status,
        .info = tp_icd_program_of(program)->info,
    };
    uint8_t *all = NULL;

    if (load.devices != NULL && load.sizes != NULL && load.given != NULL) {
        all = gather(&load, program, session_index, bin, &len);
    }
    if (all != NULL && load.count == 0) {
        load.result = CL_SUCCESS;
        tp_free(all);
    } else if (all != NULL) {
        telpher_status status;

        tp_icd_lock();
        status = put_load(&load, program, session_index, all, len);
        tp_icd_unlock();
        if (status == TELPHER_OK) {
            tp_icd_await(load.session, &load.req);
        } else {
            load.result = tp_icd_cl_error(status);
        }
    }
    load_fini(&load);
    return load.result;
}

/** Loads the binaries in all sessions; returns the worst status of all. */
static cl_int
load_all(struct _cl_program *program, const struct binaries *bin, cl_int *binary_status)
{
    cl_int err = CL_SUCCESS;

    for (uint32_t session = 0; session < program->ctx->session_count; session++) {
        cl_int one = load_session(program, session, bin, binary_status);

        err = err == CL_SUCCESS ? one : err;
    }
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (err == CL_SUCCESS && binary_status[i] != CL_SUCCESS) {
            err = CL_INVALID_BINARY;
        }
    }
    return err;
}

static cl_int
check_devices(const struct _cl_context *ctx, cl_uint count, const cl_device_id *devices)
{
    if (devices == NULL || count == 0) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (devices[i] == NULL || tp_icd_context_device_session(ctx, devices[i]) < 0) {
            return CL_INVALID_DEVICE;
        }
    }
    return CL_SUCCESS;
}

/** Checks the lists; a missing binary is noted in its status. */
static cl_int
check_binaries(const struct binaries *bin, cl_int *binary_status)
{
    cl_int err = CL_SUCCESS;

    if (bin->lengths == NULL || bin->data == NULL) {
        return CL_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < bin->count; i++) {
        bool bad = bin->lengths[i] == 0 || bin->data[i] == NULL ||
                   bin->lengths[i] > TP_WIRE_TRANSFER_MAX;

        binary_status[i] = bad ? CL_INVALID_VALUE : CL_SUCCESS;
        err = bad ? CL_INVALID_VALUE : err;
    }
    return err;
}

static cl_int
create_with_binary(struct _cl_context *ctx, const struct binaries *bin,
                   const cl_device_id *devices, cl_int *binary_status,
                   cl_program *ret_program)
{
    struct tp_icd_program *p;
    cl_int err = check_binaries(bin, binary_status);

    if (err != CL_SUCCESS) {
        return err;
    }
    p = tp_icd_program_create(ctx, bin->count, devices);
    if (p == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    p->from_binary = true;
    err = load_all(&p->pub, bin, binary_status);
    if (err != CL_SUCCESS) {
        tp_icd_release(&p->pub.obj);
        return err;
    }
    *ret_program = &p->pub;
    return CL_SUCCESS;
}

cl_program
tp_clCreateProgramWithBinary(cl_context context, cl_uint num_devices,
                             const cl_device_id *devices, const size_t *lengths,
                             const unsigned char **data, cl_int *binary_status,
                             cl_int *errcode_ret)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    const struct binaries bin = {num_devices, lengths, data};
    cl_program program = NULL;
    cl_int *statuses;
    cl_int err =
        ctx == NULL ? CL_INVALID_CONTEXT : check_devices(ctx, num_devices, devices);

    if (err == CL_SUCCESS) {
        statuses = tp_alloc_array(num_devices, sizeof(statuses[0]), "binaries");
        err = CL_OUT_OF_HOST_MEMORY;
        if (statuses != NULL) {
            err = create_with_binary(ctx, &bin, devices, statuses, &program);
            if (binary_status != NULL) {
                memcpy(binary_status, statuses, num_devices * sizeof(statuses[0]));
            }
            tp_free(statuses);
        }
    }
    tp_icd_set_error(errcode_ret, err);
    return program;
}

/* ---- binaries of programs --------------------------------------------------------------------- */

/** One thread at a time fetches. Held during the round trip; taken before tp_icd.lock. */
static pthread_mutex_t fetching = PTHREAD_MUTEX_INITIALIZER;

/** Binaries being received from one session. */
struct fetch {
    struct tp_icd_request req;
    struct tp_icd_session *session;
    cl_int result;
    uint64_t *sizes; /**< heap; of the context's devices in the session */
    uint16_t count;
    struct tp_icd_incoming in;
};

void
tp_icd_binaries_forget(struct tp_icd_program *p)
{
    p->fetched = false;
    for (uint32_t i = 0; i < p->pub.device_count; i++) {
        tp_free(p->binary[i]);
        p->binary[i] = NULL;
        p->binary_size[i] = 0;
    }
}

static void
on_content(struct tp_icd_incoming *in)
{
    struct fetch *f = in->user;

    if (in->status != TELPHER_OK) {
        f->result = tp_icd_cl_error(in->status);
    }
    tp_icd_settle(f->session, &f->req);
}

/** Keeps the sizes. @return their sum, or -1: no memory, or more than a transfer is. */
static int64_t
take_sizes(struct fetch *f, const struct tp_wire_u64s *sizes)
{
    uint64_t sum = 0;

    f->sizes = tp_alloc_array(sizes->count, sizeof(f->sizes[0]), "binaries");
    if (f->sizes == NULL) {
        return -1;
    }
    f->count = sizes->count;
    for (uint16_t i = 0; i < sizes->count; i++) {
        f->sizes[i] = tp_wire_u64_at(sizes, i);
        if (f->sizes[i] > TP_WIRE_TRANSFER_MAX - sum) {
            return -1;
        }
        sum += f->sizes[i];
    }
    return (int64_t)sum;
}

static void
on_binaries_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
                  const uint8_t *end)
{
    struct fetch *f = req->user;
    struct tp_wire_binaries_reply msg;
    int64_t size;

    f->result = tp_icd_reply_get(TP_WIRE_BINARIES_REPLY, type, body, end, &msg);
    size = take_sizes(f, &msg.sizes);
    if (f->result == CL_SUCCESS &&
        (size < 0 || (msg.transfer == 0 && size != msg.binaries.len))) {
        f->result = CL_OUT_OF_RESOURCES;
    }
    if (f->result != CL_SUCCESS || size == 0) {
        tp_icd_settle(f->session, req);
        return;
    }
    tp_icd_blob_receive(&f->in, f->session, &msg.binaries, msg.transfer,
                        (uint64_t)size);
}

/** Assigns the binaries to the program's devices of the session. Under the lock. */
static cl_int
deal(struct tp_icd_program *p, uint32_t session_index, const struct fetch *f)
{
    const struct _cl_context *ctx = p->pub.ctx;
    const uint8_t *at = f->in.data;
    uint16_t slot = 0;

    for (uint32_t i = 0; i < ctx->device_count && slot < f->count; i++) {
        int index = tp_icd_program_device(&p->pub, ctx->devices[i]);

        if (tp_icd_context_device_session(ctx, ctx->devices[i]) != (int)session_index) {
            continue;
        }
        if (index >= 0 && f->sizes[slot] != 0) {
            tp_free(p->binary[index]);
            p->binary[index] = tp_memdup(at, f->sizes[slot], "binary");
            if (p->binary[index] == NULL) {
                return CL_OUT_OF_HOST_MEMORY;
            }
            p->binary_size[index] = f->sizes[slot];
        }
        at = at == NULL ? NULL : at + f->sizes[slot];
        slot++;
    }
    return CL_SUCCESS;
}

static cl_int
fetch_session(struct tp_icd_program *p, uint32_t session_index)
{
    struct fetch f = {.session = p->pub.ctx->sessions[session_index]};
    struct tp_wire_program_binaries msg = {
        .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST), .program = p->pub.obj.id};
    telpher_status status;

    f.req = (struct tp_icd_request){
        .id = msg.request, .reply = on_binaries_reply, .user = &f};
    f.in = (struct tp_icd_incoming){.then = on_content, .user = &f};
    status = tp_icd_request_run(f.session, &f.req, TP_WIRE_PROGRAM_BINARIES, &msg, -1);
    if (status != TELPHER_OK) {
        return tp_icd_cl_error(status);
    }
    if (f.result == CL_SUCCESS) {
        tp_icd_lock();
        f.result = deal(p, session_index, &f);
        tp_icd_unlock();
    }
    tp_free(f.sizes);
    tp_icd_blob_fini(&f.in);
    return f.result;
}

/** True if anything was made for some device: an object and a library are binaries, too. */
static bool
has_something(const struct _cl_program *program)
{
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (program->build_status[i] == CL_BUILD_SUCCESS) {
            return true;
        }
    }
    return false;
}

/** True if there is nothing to fetch: never built, or known already. Under the lock. */
static bool
is_known(const struct tp_icd_program *p)
{
    return p->fetched || (!p->from_binary && !has_something(&p->pub));
}

cl_int
tp_icd_binaries_fetch(struct tp_icd_program *p)
{
    cl_int err = CL_SUCCESS;
    bool known;

    pthread_mutex_lock(&fetching);
    tp_icd_lock();
    known = is_known(p);
    tp_icd_unlock();
    for (uint32_t i = 0; !known && err == CL_SUCCESS && i < p->pub.ctx->session_count;
         i++) {
        if ((p->pub.sent >> i & 1) != 0) {
            err = fetch_session(p, i);
        }
    }
    if (!known && err == CL_SUCCESS) {
        tp_icd_lock();
        p->fetched = true;
        tp_icd_unlock();
    }
    pthread_mutex_unlock(&fetching);
    return err;
}
