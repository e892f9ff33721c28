/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a context: include/telpher/mem.h over core/comm/mem.h. */
#include <telpher/mem.h>

#include "core/comm/mem/mem.h"

telpher_status
telpher_mem_alloc(telpher_context *ctx, uint32_t kind, size_t bytes, void **ret_ptr)
{
    return tp_mems_alloc(tp_comm_context_mems(ctx), kind, bytes, ret_ptr);
}

telpher_status
telpher_mem_free(telpher_context *ctx, void *ptr)
{
    return tp_mems_free(tp_comm_context_mems(ctx), ptr);
}

telpher_status
telpher_mem_register(telpher_context *ctx, uint32_t kind, void *ptr, size_t bytes)
{
    return tp_mems_register(tp_comm_context_mems(ctx), kind, ptr, bytes, NULL, NULL);
}

telpher_status
telpher_mem_unregister(telpher_context *ctx, void *ptr)
{
    return tp_mems_unregister(tp_comm_context_mems(ctx), ptr);
}

telpher_status
telpher_mem_copy(telpher_context *ctx, void *dst, const void *src, size_t len)
{
    return tp_mems_copy(tp_comm_context_mems(ctx), dst, src, len);
}

void
telpher_mem_keep_open(telpher_context *ctx, int keep)
{
    tp_mems_keep_open(tp_comm_context_mems(ctx), keep != 0);
}

telpher_status
telpher_mem_query(telpher_context *ctx, const void *ptr, telpher_mem_info *ret_info)
{
    return tp_mems_query(tp_comm_context_mems(ctx), ptr, ret_info);
}

telpher_status
telpher_mem_get_stats(telpher_context *ctx, telpher_mem_stats *ret_stats)
{
    if (ret_stats->struct_size < sizeof(ret_stats->struct_size)) {
        return TELPHER_ERR_INVALID;
    }
    tp_mems_stats(tp_comm_context_mems(ctx), ret_stats);
    return TELPHER_OK;
}
