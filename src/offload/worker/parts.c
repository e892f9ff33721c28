/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the arrays that stay in the workers. offload/parts.h */
#include "offload/worker/parts.h"

#include <string.h>

#include "base/alloc.h"
#include "offload/blocks.h"

enum { PART_ALIGN = 64 };

static void
destroy(telpher_block *part)
{
    if (part != NULL) {
        tp_free(part->data);
        tp_free(part);
    }
}

telpher_status
tp_offload_parts_create(struct tp_offload_parts *parts,
                        const struct tp_offload_array *array, int workers, int mine,
                        struct tp_error *err)
{
    struct tp_offload_block rows = tp_offload_block_of(array->rows, workers, mine);
    size_t len = (size_t)(rows.count * array->row_bytes);
    telpher_block *part = tp_zalloc(sizeof(*part), "array");
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (part != NULL) {
        *part = (telpher_block){tp_alloc_aligned(PART_ALIGN, len, "rows of an array"),
                                rows.count, array->row_bytes, rows.first, array->rows};
    }
    if (part != NULL && part->data != NULL) {
        memset(part->data, 0, len);
        status = tp_map_put(&parts->by_id, array->id, part);
    }
    if (status == TELPHER_OK) {
        return TELPHER_OK;
    }
    destroy(part);
    if (status == TELPHER_ERR_EXISTS) {
        return tp_error_set(
            err, TELPHER_ERR_PROTO,
            "array %llu exists already: parents and workers count arrays differently",
            (unsigned long long)array->id);
    }
    return tp_error_set(err, status,
                        "out of memory for its part of array %llu, %zu bytes",
                        (unsigned long long)array->id, len);
}

telpher_block *
tp_offload_parts_find(const struct tp_offload_parts *parts,
                      const struct tp_offload_array *array)
{
    telpher_block *part = tp_map_get(&parts->by_id, array->id);

    return part != NULL && part->all_rows == array->rows &&
                   part->row_bytes == array->row_bytes
               ? part
               : NULL;
}

void
tp_offload_parts_free(struct tp_offload_parts *parts, uint64_t id)
{
    destroy(tp_map_remove(&parts->by_id, id));
}

telpher_status
tp_offload_parts_args(const struct tp_offload_parts *parts,
                      const struct tp_offload_signature *sig,
                      void *args[TELPHER_KERNEL_ARGS_MAX])
{
    for (uint32_t i = 0; i < sig->count; i++) {
        uint64_t id;

        if (sig->args[i].code != 'A') {
            continue;
        }
        memcpy(&id, args[i], sizeof(id));
        args[i] = tp_map_get(&parts->by_id, id);
        if (args[i] == NULL) {
            return TELPHER_ERR_PROTO;
        }
    }
    return TELPHER_OK;
}

void
tp_offload_parts_fini(struct tp_offload_parts *parts)
{
    size_t cursor = 0;
    void *part;

    while (tp_map_next(&parts->by_id, &cursor, NULL, &part)) {
        destroy(part);
    }
    tp_map_fini(&parts->by_id);
}
