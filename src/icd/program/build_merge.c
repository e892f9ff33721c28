/* SPDX-License-Identifier: Apache-2.0 */
/* Merges the servers' results of a build into the program. Called under the lock. */
#include "icd/copies/copies.h"
#include "icd/events/callback.h"
#include "icd/objects/context.h"
#include "icd/objects/platform.h"
#include "icd/program/build.h"
#include "icd/program/program.h"

#include <string.h>

#include "base/alloc.h"

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
        if (tp_icd_facts_value(facts, TP_WIRE_FACT_KERNEL, i, 0,
                               CL_KERNEL_FUNCTION_NAME, &fact) &&
            fact.len > 1) {
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

/** Converts the reply of a session into facts with the program's kernel numbers. */
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

/** True if some device of the session was built before and is not built now. */
static bool
session_is_used(const struct tp_icd_build *b, uint32_t session_index)
{
    const struct _cl_program *program = &b->p->pub;

    for (uint32_t i = 0; i < program->device_count; i++) {
        if (!b->selected[i] && program->build_status[i] == CL_BUILD_SUCCESS &&
            tp_icd_context_device_session(program->ctx, program->devices[i]) ==
                (int)session_index) {
            return true;
        }
    }
    return false;
}

static void
take_log(struct tp_icd_build_info *info, const struct tp_icd_facts *facts,
         const struct _cl_device_id *dev)
{
    struct tp_wire_fact fact;

    tp_free(info->log);
    info->log = NULL;
    if (tp_icd_facts_value(facts, TP_WIRE_FACT_PROGRAM_DEVICE, dev->index, 0,
                           CL_PROGRAM_BUILD_LOG, &fact)) {
        info->log = tp_strndup((const char *)fact.data,
                               strnlen((const char *)fact.data, fact.len), "build log");
    }
}

/** Binary type of a build for which the driver reports none. */
static cl_program_binary_type
type_made(const struct tp_icd_build *b)
{
    if (b->kind == TP_ICD_COMPILE) {
        return CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT;
    }
    return b->kind == TP_ICD_LINK && strstr(b->p->pub.options[0], "-create-library")
               ? CL_PROGRAM_BINARY_TYPE_LIBRARY
               : CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
}

/** True if the server's driver created kernels. */
static bool
has_kernels(const struct tp_icd_facts *facts)
{
    return facts != NULL && tp_icd_facts_count(facts, TP_WIRE_FACT_KERNEL) != 0;
}

/** A program of built-in kernels: what it is worth before it is built, drivers disagree. */
static void
merge_built_in(struct tp_icd_build *b, uint32_t device,
               const struct tp_icd_facts *facts, cl_int result)
{
    bool able = result == CL_SUCCESS && has_kernels(facts);

    b->p->pub.build_status[device] = able ? CL_BUILD_SUCCESS : CL_BUILD_NONE;
    b->p->info[device].binary_type =
        able ? CL_PROGRAM_BINARY_TYPE_EXECUTABLE : CL_PROGRAM_BINARY_TYPE_NONE;
}

/** Merges the result for one device into the program. */
static void
merge_device(struct tp_icd_build *b, uint32_t device, const struct tp_icd_facts *facts,
             uint32_t session_index, cl_int result)
{
    struct _cl_program *program = &b->p->pub;
    struct tp_icd_build_info *info = &b->p->info[device];
    const struct _cl_device_id *dev = program->devices[device];
    cl_build_status status = result == CL_SUCCESS ? CL_BUILD_SUCCESS : CL_BUILD_ERROR;

    if (b->kind == TP_ICD_BUILT_IN) {
        merge_built_in(b, device, facts, result);
        return;
    }
    (void)tp_icd_facts_number(facts, TP_WIRE_FACT_PROGRAM_DEVICE, dev->index, 0,
                              CL_PROGRAM_BUILD_STATUS, &status, sizeof(status));
    if (status != CL_BUILD_SUCCESS) {
        status = CL_BUILD_ERROR;
    }
    info->binary_type =
        status == CL_BUILD_SUCCESS ? type_made(b) : CL_PROGRAM_BINARY_TYPE_NONE;
    info->global_bytes = 0;
    (void)tp_icd_facts_number(facts, TP_WIRE_FACT_PROGRAM_DEVICE, dev->index, 0,
                              CL_PROGRAM_BINARY_TYPE, &info->binary_type,
                              sizeof(info->binary_type));
    (void)tp_icd_facts_number(facts, TP_WIRE_FACT_PROGRAM_DEVICE, dev->index, 0,
                              CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
                              &info->global_bytes, sizeof(info->global_bytes));
    if (info->global_bytes != 0) {
        tp_icd_copies_stop(program->ctx->sessions[session_index],
                           "a program has variables of its own, which are not copied");
    }
    take_log(info, facts, dev);
    program->build_status[device] = status;
}

/** Merges the result of one session into the program. */
void
tp_icd_build_merge_part(struct tp_icd_build *b, struct tp_icd_build_part *part)
{
    struct _cl_program *program = &b->p->pub;
    struct tp_icd_facts *facts = NULL;
    struct tp_icd_facts **kept = &program->facts[part->session_index];

    if (part->facts.data != NULL) {
        telpher_status status = parse_facts(b->p, &part->facts, &facts);

        if (status != TELPHER_OK) {
            part->result = tp_icd_cl_error(status);
        }
    }
    for (uint32_t i = 0; i < program->device_count; i++) {
        if (b->selected[i] &&
            tp_icd_context_device_session(program->ctx, program->devices[i]) ==
                (int)part->session_index) {
            merge_device(b, i, facts, part->session_index, part->result);
        }
    }
    if (part->result == CL_SUCCESS || !session_is_used(b, part->session_index)) {
        struct tp_icd_facts *old = *kept;

        *kept = facts;
        facts = old;
    }
    tp_icd_facts_destroy(facts);
    if (b->result == CL_SUCCESS) {
        b->result = part->result;
    }
}
