/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers: creation by the program, creation in a session, queries. */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"

/* ---- life ------------------------------------------------------------------------------- */

static void
sampler_free(struct _cl_sampler *sampler)
{
    tp_icd_drop(&sampler->ctx->obj);
    tp_free(sampler->properties);
    tp_free(sampler);
}

static void
sampler_destroy(struct tp_icd_object *obj)
{
    struct _cl_sampler *sampler = (struct _cl_sampler *)obj;

    tp_icd_lock();
    tp_icd_put_releases(sampler->ctx, sampler->created, obj->id);
    tp_icd_unlock();
    sampler_free(sampler);
}

void
tp_icd_sampler_ensure(struct _cl_sampler *sampler, uint32_t session_index)
{
    if ((sampler->created & (1U << session_index)) != 0) {
        return;
    }
    sampler->created |= 1U << session_index;
    tp_icd_put(sampler->ctx->sessions[session_index], TP_WIRE_SAMPLER_CREATE,
               &(struct tp_wire_sampler_create){.sampler = sampler->obj.id,
                                                .context = sampler->ctx->obj.id,
                                                .normalized = sampler->normalized != 0,
                                                .addressing = sampler->addressing,
                                                .filter = sampler->filter});
}

/* ---- properties ---------------------------------------------------------------------------- */

/** Requested properties of a sampler. */
struct wish {
    cl_bool normalized;
    cl_addressing_mode addressing;
    cl_filter_mode filter;
    const cl_sampler_properties *properties; /**< NULL: given as arguments */
    uint32_t property_count; /**< with the final 0 */
};

static bool
is_value(const struct wish *wish)
{
    return wish->normalized <= CL_TRUE && wish->addressing >= CL_ADDRESS_NONE &&
           wish->addressing <= CL_ADDRESS_MIRRORED_REPEAT &&
           (wish->filter == CL_FILTER_NEAREST || wish->filter == CL_FILTER_LINEAR);
}

/** Takes one property. @return false: unknown, or twice. */
static bool
take_property(struct wish *wish, cl_sampler_properties name,
              cl_sampler_properties value, unsigned *seen)
{
    unsigned bit = 1U << (name - CL_SAMPLER_NORMALIZED_COORDS);

    if (name < CL_SAMPLER_NORMALIZED_COORDS || name > CL_SAMPLER_FILTER_MODE ||
        (*seen & bit) != 0 || value > UINT32_MAX) {
        return false;
    }
    *seen |= bit;
    switch (name) {
    case CL_SAMPLER_NORMALIZED_COORDS:
        wish->normalized = (cl_bool)value;
        break;
    case CL_SAMPLER_ADDRESSING_MODE:
        wish->addressing = (cl_addressing_mode)value;
        break;
    default:
        wish->filter = (cl_filter_mode)value;
        break;
    }
    return true;
}

static bool
take_properties(struct wish *wish, const cl_sampler_properties *list)
{
    unsigned seen = 0;
    uint32_t i = 0;

    for (; list[i] != 0; i += 2) {
        if (!take_property(wish, list[i], list[i + 1], &seen)) {
            return false;
        }
    }
    wish->properties = list;
    wish->property_count = i + 1;
    return true;
}

/* ---- making them ---------------------------------------------------------------------------- */

static cl_int
check_wish(const struct _cl_context *ctx, const struct wish *wish)
{
    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (!is_value(wish)) {
        return CL_INVALID_VALUE;
    }
    return tp_icd_context_has_images(ctx) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

static cl_int
create(struct _cl_context *ctx, const struct wish *wish, cl_sampler *ret_sampler)
{
    struct _cl_sampler *sampler;
    cl_int err = check_wish(ctx, wish);

    if (err != CL_SUCCESS) {
        return err;
    }
    sampler = tp_zalloc(sizeof(*sampler), "sampler");
    if (sampler == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    sampler->normalized = wish->normalized;
    sampler->addressing = wish->addressing;
    sampler->filter = wish->filter;
    sampler->ctx = ctx;
    tp_icd_hold(&ctx->obj);
    if (wish->properties != NULL) {
        sampler->property_count = wish->property_count;
        sampler->properties =
            tp_memdup(wish->properties,
                      wish->property_count * sizeof(*wish->properties), "sampler");
        if (sampler->properties == NULL) {
            sampler_free(sampler);
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    tp_icd_object_init(&sampler->obj, TP_ICD_SAMPLER,
                       tp_icd_new_id(TP_WIRE_KIND_SAMPLER), sampler_destroy);
    *ret_sampler = sampler;
    return CL_SUCCESS;
}

cl_sampler CL_API_CALL
tp_clCreateSampler(cl_context context, cl_bool normalized,
                   cl_addressing_mode addressing, cl_filter_mode filter,
                   cl_int *errcode_ret)
{
    const struct wish wish = {normalized, addressing, filter, NULL, 0};
    cl_sampler sampler = NULL;
    cl_int err = create(tp_icd_check(context, TP_ICD_CONTEXT), &wish, &sampler);

    tp_icd_set_error(errcode_ret, err);
    return sampler;
}

cl_sampler CL_API_CALL
tp_clCreateSamplerWithProperties(cl_context context,
                                 const cl_sampler_properties *properties,
                                 cl_int *errcode_ret)
{
    struct wish wish = {CL_TRUE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, NULL, 0};
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    cl_sampler sampler = NULL;
    cl_int err;

    if (ctx != NULL && properties != NULL && !take_properties(&wish, properties)) {
        err = CL_INVALID_VALUE;
    } else {
        err = create(ctx, &wish, &sampler);
    }
    tp_icd_set_error(errcode_ret, err);
    return sampler;
}

/* ---- counts, queries --------------------------------------------------------------------------- */

cl_int CL_API_CALL
tp_clGetSamplerInfo(cl_sampler handle, cl_sampler_info param, size_t value_size,
                    void *value, size_t *size_ret)
{
    const struct _cl_sampler *sampler = tp_icd_check(handle, TP_ICD_SAMPLER);

    if (sampler == NULL) {
        return CL_INVALID_SAMPLER;
    }
    switch (param) {
    case CL_SAMPLER_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, atomic_load(&sampler->obj.refs));
    case CL_SAMPLER_CONTEXT:
        return TP_ICD_ANSWER(cl_context, sampler->ctx);
    case CL_SAMPLER_NORMALIZED_COORDS:
        return TP_ICD_ANSWER(cl_bool, sampler->normalized);
    case CL_SAMPLER_ADDRESSING_MODE:
        return TP_ICD_ANSWER(cl_addressing_mode, sampler->addressing);
    case CL_SAMPLER_FILTER_MODE:
        return TP_ICD_ANSWER(cl_filter_mode, sampler->filter);
    case CL_SAMPLER_PROPERTIES:
        return tp_icd_answer(value_size, value, size_ret, sampler->properties,
                             sampler->property_count * sizeof(*sampler->properties));
    default:
        return CL_INVALID_VALUE;
    }
}
