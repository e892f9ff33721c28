/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the build cache of an executor and loads builds from it. build_cache_key.c computes
 * keys, build_cache_note.c keeps builds until the session ends, and build_cache_write.c
 * writes them.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/cache/entry.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/build_cache_int.h"

#define BYTES_MAX ((uint64_t)64 << 20) /* of programs that only the cache holds */

/* Creates a native program from the binaries. @return NULL: the driver rejects them */
static cl_program
make_native(struct tp_exec_build *build, const char *options,
            const struct tp_cache_entry *entry)
{
    struct tp_exec *x = build->program->obj.x;
    cl_int status[TP_CACHE_ENTRY_DEVICES_MAX], error;
    /* linker options are no build options */
    const char *given = build->kind == TP_EXEC_LINK ? NULL : options;
    cl_program native = x->cl.CreateProgramWithBinary(
        build->program->context->native, build->device_count, build->devices,
        entry->sizes, (const unsigned char **)(uintptr_t)entry->binaries, status,
        &error);

    if (error == CL_SUCCESS && entry->type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE) {
        error = x->cl.BuildProgram(native, build->device_count, build->devices, given,
                                   NULL, NULL);
    }
    if (error != CL_SUCCESS && native != NULL) {
        x->cl.ReleaseProgram(native);
        native = NULL;
    }
    return error == CL_SUCCESS ? native : NULL;
}

bool
tp_exec_cache_load(struct tp_exec_build *build, const char *options,
                   struct tp_buf *facts)
{
    struct tp_exec_cache *cache = build->program->obj.x->cache;
    struct tp_cache_entry entry;
    uint8_t *data;
    size_t len;
    cl_program native = NULL;

    if (!build->has_key || build->device_count > TP_CACHE_ENTRY_DEVICES_MAX ||
        tp_cache_get(cache->store, build->key, &data, &len) != TELPHER_OK) {
        return false;
    }
    tp_trace_begin("executor", "build from cache");
    if (tp_cache_entry_read(data, len, build->device_count, &entry) &&
        tp_buf_append(facts, entry.facts, entry.facts_len) == TELPHER_OK) {
        native = make_native(build, options, &entry);
    }
    if (native != NULL && !tp_exec_text_replace(build, native)) {
        build->program->obj.x->cl.ReleaseProgram(native);
        native = NULL;
    }
    if (native != NULL && entry.type != CL_PROGRAM_BINARY_TYPE_EXECUTABLE &&
        !tp_exec_text_keep(build, entry.sizes, entry.binaries)) {
        native = NULL; /* it is replaced by what is built then */
    }
    tp_trace_end("executor", "build from cache");
    tp_free(data);
    build->cached = native != NULL;
    if (!build->cached) {
        tp_buf_clear(facts);
        tp_debug("executor", "the driver does not take an entry of the build cache");
    }
    return build->cached;
}

bool
tp_exec_cache_folder(const struct tp_exec_cache_params *params, char *ret_folder,
                     size_t size)
{
    return params->folder != NULL && params->folder[0] != '\0' &&
           snprintf(ret_folder, size, "%s/%s", params->folder, params->room) <
               (int)size;
}

struct tp_exec_cache *
tp_exec_cache_create(struct tp_exec *x, const struct tp_exec_cache_params *params)
{
    struct tp_exec_cache *cache;
    struct tp_error err = {0};
    char folder[1024];

    if (!tp_exec_cache_folder(params, folder, sizeof(folder))) {
        return NULL;
    }
    cache = tp_zalloc(sizeof(*cache), "cache");
    if (cache == NULL ||
        tp_cache_open(folder, params->size_max, &cache->store, &err) != TELPHER_OK) {
        tp_warn("executor", "programs are not cached: %s", tp_error_text(&err));
        tp_free(cache);
        return NULL;
    }
    cache->x = x;
    tp_mutex_init(&cache->lock);
    tp_list_init(&cache->notes);
    cache->bytes_max = x->limits.host_bytes == 0
                           ? BYTES_MAX
                           : TP_MIN(BYTES_MAX, x->limits.host_bytes / 8);
    tp_exec_cache_take_drivers(cache);
    return cache;
}
