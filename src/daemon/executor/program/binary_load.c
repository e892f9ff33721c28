/* SPDX-License-Identifier: Apache-2.0 */
/* Creates programs from binaries that the client sends. */
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/incoming.h"
#include "daemon/executor/program/program.h"

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

/* Keeps the argument facts that precede the native binary. */
static void
keep_facts(struct tp_exec_program *p, const uint8_t *facts, uint64_t size)
{
    if (tp_buf_len(&p->stored) == 0) {
        (void)tp_buf_append(&p->stored, facts, size);
    }
}

/* Native binaries in in->content. @return 0 or the CL error; ret_status has each one's */
static int32_t
create_from_binaries(struct tp_exec_incoming *in, cl_int *ret_status)
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

/* Queries the binary type of each device: clLinkProgram accepts some without a build. */
static void
ask_types(struct tp_exec_incoming *in, uint64_t *types)
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
use_binaries(struct tp_exec_incoming *in, int32_t error)
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
    struct tp_exec_incoming *in = arg;

    use_binaries(in, error);
    tp_exec_program_arrived(in->program);
    tp_exec_incoming_free(in);
}

/* Copies devices and sizes of a PROGRAM_BINARY. @return 0 or the CL error */
static int32_t
fill_incoming(struct tp_exec_incoming *in, const struct tp_wire_program_binary *m)
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
    struct tp_exec_incoming *in = NULL;
    int32_t error;
    telpher_status status;

    if (m->devices.count == 0 || m->devices.count != m->sizes.count ||
        total == UINT64_MAX || m->binaries.len > TP_WIRE_BLOB_MAX ||
        m->binaries.len != (m->transfer == 0 ? total : 0) ||
        !tp_exec_is_proper_transfer(m->transfer, total)) {
        return TELPHER_ERR_PROTO;
    }
    status =
        tp_exec_program_new(x, m->program, m->context, TP_EXEC_FROM_BINARY, &p, &error);
    if (status != TELPHER_OK) {
        return status;
    }
    if (error == 0) {
        error = tp_exec_incoming_new(p, total, &in);
    }
    if (error == 0) {
        error = fill_incoming(in, m);
    }
    if (error == 0 && m->transfer != 0) {
        return tp_exec_incoming_await(in, m->transfer, binaries_arrived);
    }
    if (error == 0) {
        memcpy(in->content, m->binaries.data, total);
        use_binaries(in, 0);
    } else {
        tp_exec_poison(&p->obj, error, "clCreateProgramWithBinary");
        put_binary_reply(x, m->request, error, NULL, NULL, 0);
        if (m->transfer != 0 && total > 0) {
            status = tp_exec_transfers_discard(x->transfers, m->transfer, total, false,
                                               NULL);
        }
    }
    if (in != NULL) {
        tp_exec_incoming_free(in);
    }
    return status;
}
