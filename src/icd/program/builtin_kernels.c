/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of a driver's built-in kernels. The servers create them at once, because they
 * report the kernels' arguments. Some drivers also require a build.
 */
#include <string.h>

#include "base/text/text.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/build.h"

/** True if the device has all these kernels. */
static bool
has_kernels(const struct _cl_device_id *dev, const char *names)
{
    const char *list = tp_icd_device_text(dev, CL_DEVICE_BUILT_IN_KERNELS, "");

    for (;;) {
        size_t n = strcspn(names, ";");

        if (n == 0 || !tp_text_has_word(list, ';', names, n)) {
            return false;
        }
        if (names[n] == '\0') {
            return true;
        }
        names += n + 1;
    }
}

static cl_int
check_call(const struct _cl_context *ctx, cl_uint count, const cl_device_id *devices,
           const char *names)
{
    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (count == 0 || devices == NULL || names == NULL ||
        strlen(names) > TP_WIRE_BLOB_MAX) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (tp_icd_check(devices[i], TP_ICD_DEVICE) == NULL ||
            tp_icd_context_device_session(ctx, devices[i]) < 0) {
            return CL_INVALID_DEVICE;
        }
    }
    return CL_SUCCESS;
}

/** Creates the program on the servers whose devices have the kernels. */
static cl_int
make(struct tp_icd_program *p, const char *names)
{
    const struct tp_icd_build_call call = {.kind = TP_ICD_BUILT_IN};
    struct tp_icd_build *b;
    bool any = false;
    cl_int err = tp_icd_build_create(&p->pub, &call, &b);

    if (err != CL_SUCCESS) {
        return err;
    }
    b->names = names;
    for (uint32_t i = 0; i < p->pub.device_count; i++) {
        b->selected[i] = has_kernels(p->pub.devices[i], names);
        any = any || b->selected[i];
    }
    if (!any) {
        tp_icd_build_free(b);
        return CL_INVALID_VALUE;
    }
    return tp_icd_build_run(b);
}

static cl_int
create(struct _cl_context *ctx, cl_uint count, const cl_device_id *devices,
       const char *names, cl_program *ret_program)
{
    struct tp_icd_program *p;
    cl_int err = check_call(ctx, count, devices, names);

    if (err != CL_SUCCESS) {
        return err;
    }
    p = tp_icd_program_create(ctx, count, devices);
    if (p == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    p->built_in = true;
    err = make(p, names);
    if (err == CL_SUCCESS) {
        *ret_program = &p->pub;
    } else {
        tp_icd_release(&p->pub.obj);
    }
    return err;
}

cl_program
tp_clCreateProgramWithBuiltInKernels(cl_context context, cl_uint count,
                                     const cl_device_id *devices, const char *names,
                                     cl_int *errcode_ret)
{
    cl_program program = NULL;
    cl_int err =
        create(tp_icd_check(context, TP_ICD_CONTEXT), count, devices, names, &program);

    tp_icd_set_error(errcode_ret, err);
    return program;
}
