/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a context: include/telpher/mem.h over core/comm/mem.h. */
#include <telpher/mem.h>

#include "api/api_int.h"
#include "base/params.h"
#include "core/comm/last_error.h"
#include "core/comm/mem/mem.h"

const char *
tp_api_kind_name(uint32_t kind)
{
    static const char *const names[TELPHER_MEM_KINDS] = {
        [TELPHER_MEM_HOST] = "host memory",
        [TELPHER_MEM_OPENCL] = "OpenCL memory",
        [TELPHER_MEM_CUDA] = "CUDA memory",
        [TELPHER_MEM_SIM] = "simulated memory"};

    return kind < TELPHER_MEM_KINDS ? names[kind] : "memory of an unknown kind";
}

telpher_status
tp_api_memory_failed(const telpher_context *ctx, telpher_status status,
                     const char *what, uint32_t kind)
{
    const char *why = telpher_status_text(status);

    if (status >= 0) {
        return status;
    }
    if (status == TELPHER_ERR_UNSUPPORTED) {
        why = "no driver here supports it; install one for this kind of memory, and "
              "check "
              "that TELPHER_DOMAINS allows it";
    } else if (status == TELPHER_ERR_INVALID) {
        why =
            kind == TELPHER_MEM_OPENCL
                ? "address or size is 0, or a pointer came before telpher_opencl_use() "
                  "named its context"
                : "the kind is none of enum telpher_mem_kind, or address or size is 0";
    } else if (status == TELPHER_ERR_NOT_FOUND) {
        why = "no such memory of this context begins at this address";
    } else if (status == TELPHER_ERR_RANGE) {
        why = "the range extends beyond the end of its allocation";
    }
    return tp_comm_error(ctx, status, "cannot %s %s: %s", what, tp_api_kind_name(kind),
                         why);
}

telpher_status
telpher_mem_alloc(telpher_context *ctx, uint32_t kind, size_t bytes, void **ret_ptr)
{
    return tp_api_memory_failed(
        ctx, tp_mems_alloc(tp_comm_context_mems(ctx), kind, bytes, ret_ptr), "allocate",
        kind);
}

static telpher_status
address_failed(const telpher_context *ctx, telpher_status status, const char *what,
               const void *ptr)
{
    return status >= 0
               ? status
               : tp_comm_error(ctx, status,
                               "cannot %s %p: no memory of this context that was "
                               "had in this way begins there",
                               what, ptr);
}

telpher_status
telpher_mem_free(telpher_context *ctx, void *ptr)
{
    return address_failed(ctx, tp_mems_free(tp_comm_context_mems(ctx), ptr), "free",
                          ptr);
}

telpher_status
telpher_mem_register(telpher_context *ctx, uint32_t kind, void *ptr, size_t bytes)
{
    return tp_api_memory_failed(
        ctx, tp_mems_register(tp_comm_context_mems(ctx), kind, ptr, bytes, NULL, NULL),
        "register", kind);
}

telpher_status
telpher_mem_unregister(telpher_context *ctx, void *ptr)
{
    return address_failed(ctx, tp_mems_unregister(tp_comm_context_mems(ctx), ptr),
                          "unregister", ptr);
}

telpher_status
telpher_mem_copy(telpher_context *ctx, void *dst, const void *src, size_t len)
{
    telpher_status status = tp_mems_copy(tp_comm_context_mems(ctx), dst, src, len);

    return status >= 0
               ? status
               : tp_comm_error(ctx, status, "cannot copy %zu bytes from %p to %p: %s",
                               len, src, dst,
                               status == TELPHER_ERR_RANGE
                                   ? "one of them lies partly outside its memory"
                                   : telpher_status_text(status));
}

telpher_status
telpher_mem_combine(telpher_context *ctx, uint32_t op, uint32_t type, const void *lower,
                    const void *higher, void *out, size_t count)
{
    telpher_status status;

    if (op >= TELPHER_MEM_OPS || type >= TELPHER_MEM_TYPES) {
        return tp_comm_error(
            ctx, TELPHER_ERR_INVALID,
            "operation %u or type %u of a combination is none of mem.h", op, type);
    }
    status =
        tp_mems_combine(tp_comm_context_mems(ctx), op, type, lower, higher, out, count);
    return status >= 0 ? status
                       : tp_comm_error(ctx, status,
                                       "cannot combine %zu elements at %p and %p: %s",
                                       count, lower, higher,
                                       status == TELPHER_ERR_UNSUPPORTED
                                           ? "they are not on one device that has a "
                                             "kernel for it: copy them to host memory"
                                           : telpher_status_text(status));
}

void
telpher_mem_keep_open(telpher_context *ctx, int keep)
{
    tp_mems_keep_open(tp_comm_context_mems(ctx), keep != 0);
}

static telpher_status
check_size(const telpher_context *ctx, uint32_t struct_size, size_t first)
{
    return tp_params_size_is_valid(struct_size, first)
               ? TELPHER_OK
               : tp_comm_error(
                     ctx, TELPHER_ERR_INVALID,
                     "struct_size is %u, but the struct has %zu bytes: set it "
                     "to sizeof before the call",
                     struct_size, first);
}

telpher_status
telpher_mem_query(telpher_context *ctx, const void *ptr, telpher_mem_info *ret_info)
{
    telpher_status status = TELPHER_OK;

    if (tp_unlikely(ret_info->struct_size != sizeof(*ret_info))) {
        status = check_size(ctx, ret_info->struct_size, sizeof(*ret_info));
    }
    return tp_likely(status == TELPHER_OK)
               ? tp_mems_query(tp_comm_context_mems(ctx), ptr, ret_info)
               : status;
}

telpher_status
telpher_mem_get_stats(telpher_context *ctx, telpher_mem_stats *ret_stats)
{
    telpher_status status = check_size(ctx, ret_stats->struct_size, sizeof(*ret_stats));

    if (status == TELPHER_OK) {
        tp_mems_stats(tp_comm_context_mems(ctx), ret_stats);
    }
    return status;
}
