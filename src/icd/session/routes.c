/* SPDX-License-Identifier: Apache-2.0 */
/* Tells how content passes between the platform's servers: clGetServerRoutesTELPHER. */
#include "icd/copies/copies.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/platform.h"
#include "icd/session/peers.h"
#include "icd/session/session_int.h"

#include <stdio.h>
#include <string.h>

#include "base/container/buf.h"

/** Gives the first device of each server, as many as fit into one context. @return how many */
static cl_uint
first_devices(const struct _cl_platform_id *platform,
              cl_device_id devices[TP_ICD_SESSIONS_MAX])
{
    cl_uint count = 0;

    for (size_t i = 0; i < platform->device_count && count < TP_ICD_SESSIONS_MAX; i++) {
        struct _cl_device_id *dev = platform->devices[i];

        if (dev->available &&
            (count == 0 || devices[count - 1]->server != dev->server)) {
            devices[count++] = dev;
        }
    }
    return count;
}

/** Arranges a stream as a command would that needs one. */
static void
describe_pair(struct tp_icd_session *a, struct tp_icd_session *b, char *dst, size_t cap)
{
    bool copies, tried;

    tp_icd_lock();
    copies = tp_icd_copies_are_kept(a) || tp_icd_copies_are_kept(b);
    tried = copies || a->lost || b->lost || tp_icd_peer_tried(a, b);
    tp_icd_unlock();
    if (!tried) {
        tp_icd_peer_arrange(a, b);
    }
    tp_icd_lock();
    if (copies) {
        (void)snprintf(dst, cap, "through this program: TELPHER_KEEP_COPIES");
    } else {
        tp_icd_peer_route(a, b, dst, cap);
    }
    tp_icd_unlock();
}

/** Appends a line for each pair of a context's servers. */
static telpher_status
describe_all(const struct _cl_context *ctx, struct tp_buf *text)
{
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < ctx->session_count; i++) {
        for (uint32_t k = i + 1; status == TELPHER_OK && k < ctx->session_count; k++) {
            struct tp_icd_session *a = ctx->sessions[i], *b = ctx->sessions[k];
            char how[1280], line[2048];

            describe_pair(a, b, how, sizeof(how));
            (void)snprintf(line, sizeof(line), "%s - %s: %s\n", a->server->address,
                           b->server->address, how);
            status = tp_buf_append(text, line, strlen(line));
        }
    }
    return status;
}

cl_int CL_API_CALL
tp_clGetServerRoutesTELPHER(cl_platform_id platform, size_t size, char *text,
                            size_t *size_ret)
{
    cl_device_id devices[TP_ICD_SESSIONS_MAX];
    struct _cl_context *ctx;
    struct tp_buf lines;
    cl_uint count;
    cl_int err;

    if (tp_icd_check(platform, TP_ICD_PLATFORM) == NULL) {
        return CL_INVALID_PLATFORM;
    }
    count = first_devices(platform, devices);
    if (count < 2) {
        return tp_icd_answer_text(size, text, size_ret, "");
    }
    ctx = tp_clCreateContext(NULL, count, devices, NULL, NULL, &err);
    if (ctx == NULL) {
        return err;
    }
    tp_buf_init(&lines, 0);
    err = describe_all(ctx, &lines) == TELPHER_OK &&
                  tp_buf_append(&lines, "", 1) == TELPHER_OK
              ? tp_icd_answer_text(size, text, size_ret,
                                   (const char *)tp_buf_data(&lines))
              : CL_OUT_OF_HOST_MEMORY;
    tp_buf_fini(&lines);
    (void)tp_clReleaseContext(ctx);
    return err;
}
