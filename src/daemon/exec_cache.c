/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and entries of the build cache. An entry is: u32 devices, u32 type of binary, u64
 * size of the facts, u64 size of each binary, facts, binaries.
 */
#include "daemon/exec_cache.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/trace.h"
#include "daemon/cache.h"
#include "telpher/version.h"

#define DELAY (1 * TP_CLOCK_S) /* before a build is written */
#define END_TIME (5 * TP_CLOCK_S) /* for writing the rest, at the end */

enum { NOTED_MAX = 256, ENTRY_HEADER = 16 };

/* A build to be written. */
struct noted {
    struct tp_list link;
    struct tp_exec_program *program;
    uint64_t generation; /* of the program: another build makes it void */
    uint8_t key[TP_SHA256_BYTES];
    cl_uint count;
    cl_device_id *devices;
    struct tp_buf facts;
    tp_ns due;
};

struct tp_exec_cache {
    struct tp_exec *x;
    struct tp_cache *store;
    uint8_t drivers[TP_SHA256_BYTES];
    struct tp_mutex
        lock; /* the members below; a leaf, save that done_lock is not held */
    struct tp_cond changed;
    struct tp_list noted;
    size_t noted_count;
    bool thread_runs, writing, ending;
};

/* ---- keys ---- */

/* Name, size and time of a library: an update that keeps its version is another one. */
static int
add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct tp_sha256 *sum = arg;
    struct stat st;

    (void)size;
    if (info->dlpi_name != NULL && info->dlpi_name[0] == '/' &&
        stat(info->dlpi_name, &st) == 0) {
        tp_sha256_add_sized(sum, info->dlpi_name, strlen(info->dlpi_name));
        tp_sha256_add(sum, &st.st_size, sizeof(st.st_size));
        tp_sha256_add(sum, &st.st_mtim, sizeof(st.st_mtim));
    }
    return 0;
}

/* Variables that drivers listen to. */
static void
add_environment(struct tp_sha256 *sum)
{
    static const char *const begins[] = {"POCL_", "OCL",   "CL_",    "CUDA_",
                                         "NV",    "GPU_",  "AMD_",   "IGC",
                                         "NEO",   "LLVM_", "RUSTICL"};

    for (char **e = environ; *e != NULL; e++) {
        for (size_t i = 0; i < TP_ARRAY_LEN(begins); i++) {
            if (strncmp(*e, begins[i], strlen(begins[i])) == 0) {
                tp_sha256_add_sized(sum, *e, strlen(*e));
                break;
            }
        }
    }
}

static void
take_drivers(struct tp_exec_cache *cache)
{
    struct tp_sha256 sum;

    tp_sha256_init(&sum);
    (void)dl_iterate_phdr(add_library, &sum);
    add_environment(&sum);
    tp_sha256_end(&sum, cache->drivers);
}

static void
add_device(struct tp_exec *x, const struct tp_exec_device *d, struct tp_sha256 *sum)
{
    static const cl_device_info params[] = {
        CL_DEVICE_NAME,      CL_DEVICE_VENDOR,           CL_DEVICE_VERSION,
        CL_DRIVER_VERSION,   CL_DEVICE_OPENCL_C_VERSION, CL_DEVICE_EXTENSIONS,
        CL_DEVICE_VENDOR_ID, CL_DEVICE_ADDRESS_BITS};

    tp_sha256_add(sum, &d->number, sizeof(d->number));
    for (size_t i = 0; i < TP_ARRAY_LEN(params); i++) {
        char value[8192];
        size_t size = 0;

        if (x->cl.GetDeviceInfo(d->native, params[i], sizeof(value), value, &size) !=
            CL_SUCCESS) {
            size = 0;
        }
        tp_sha256_add_sized(sum, value, size);
    }
}

/* True if it is for all devices of the context, none of them a client's invention. */
static bool
is_for_all(const struct tp_exec_build *build)
{
    const struct tp_exec_context *c = build->program->context;

    for (uint32_t i = 0; i < c->device_count; i++) {
        cl_uint k = 0;

        while (k < build->device_count && build->indices[k] != c->devices[i].number) {
            k++;
        }
        if (k == build->device_count ||
            c->devices[i].number >= TP_WIRE_SUB_DEVICE_FIRST) {
            return false;
        }
    }
    return build->device_count == c->device_count;
}

/* What is built: text and files, or programs with keys. @return false: no key */
static bool
add_origin(const struct tp_exec_build *build, struct tp_sha256 *sum)
{
    const struct tp_exec_program *p = build->program;

    if (p->origin == TP_EXEC_FROM_SOURCE) {
        tp_sha256_add_sized(sum, p->text, p->text_len);
        tp_sha256_add_sized(sum, build->files, build->files_len);
        return true;
    }
    for (cl_uint i = 0; i < build->input_count; i++) {
        if (!build->inputs[i]->has_key) {
            return false;
        }
        tp_sha256_add(sum, build->inputs[i]->key, TP_SHA256_BYTES);
    }
    return build->kind == TP_EXEC_LINK;
}

void
tp_exec_cache_take_key(struct tp_exec_build *build)
{
    static const char format[] = "telpher build 1 " TELPHER_VERSION_STRING;
    struct tp_exec *x = build->program->obj.x;
    struct tp_sha256 sum;

    if (x->cache == NULL || !is_for_all(build)) {
        return;
    }
    tp_sha256_init(&sum);
    tp_sha256_add_sized(&sum, format, sizeof(format));
    tp_sha256_add(&sum, x->cache->drivers, sizeof(x->cache->drivers));
    tp_sha256_add(&sum, &build->kind, sizeof(build->kind));
    tp_sha256_add_sized(&sum, build->options, strlen(build->options));
    for (cl_uint i = 0; i < build->device_count; i++) {
        const struct tp_exec_device *d =
            tp_exec_context_device(build->program->context, build->indices[i]);

        add_device(x, d, &sum);
    }
    build->has_key = add_origin(build, &sum);
    tp_sha256_end(&sum, build->key);
}

/* ---- writing ---- */

static void
free_noted(struct noted *n)
{
    tp_exec_unref(&n->program->obj);
    tp_buf_fini(&n->facts);
    tp_free(n->devices);
    tp_free(n);
}

/* Which of the driver's binaries is for each device. @return false: not one for each */
static bool
match_devices(const struct noted *n, size_t *ret_sizes, cl_uint *ret_at)
{
    const struct tp_opencl *cl = &n->program->obj.x->cl;
    size_t sizes[TP_EXEC_CACHE_DEVICES_MAX];
    cl_device_id natives[TP_EXEC_CACHE_DEVICES_MAX];
    cl_program p = n->program->native;

    if (cl->GetProgramInfo(p, CL_PROGRAM_DEVICES, n->count * sizeof(natives[0]),
                           natives, NULL) != CL_SUCCESS ||
        cl->GetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, n->count * sizeof(sizes[0]),
                           sizes, NULL) != CL_SUCCESS) {
        return false;
    }
    for (cl_uint i = 0; i < n->count; i++) {
        cl_uint at = 0;

        while (at < n->count && natives[at] != n->devices[i]) {
            at++;
        }
        if (at == n->count || sizes[at] == 0) {
            return false;
        }
        ret_at[i] = at;
        ret_sizes[i] = sizes[at];
    }
    return true;
}

/* Puts header and facts, and has the driver fill in the binaries. */
static bool
fill_entry(const struct noted *n, const size_t *sizes, const cl_uint *at,
           struct tp_buf *entry)
{
    const struct tp_opencl *cl = &n->program->obj.x->cl;
    cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_NONE;
    const uint64_t facts_len = tp_buf_len(&n->facts);
    uint8_t *places[TP_EXEC_CACHE_DEVICES_MAX] = {NULL}, *to;
    uint64_t total = ENTRY_HEADER + n->count * sizeof(uint64_t) + facts_len;

    for (cl_uint i = 0; i < n->count; i++) {
        total += sizes[i];
    }
    if (cl->GetProgramBuildInfo(n->program->native, n->devices[0],
                                CL_PROGRAM_BINARY_TYPE, sizeof(type), &type,
                                NULL) != CL_SUCCESS ||
        tp_buf_reserve(entry, total, &to) != TELPHER_OK) {
        return false;
    }
    tp_buf_commit(entry, total);
    memcpy(to, &n->count, 4);
    memcpy(to + 4, &type, 4);
    memcpy(to + 8, &facts_len, 8);
    memcpy(to + ENTRY_HEADER, sizes, n->count * sizeof(uint64_t));
    to += ENTRY_HEADER + n->count * sizeof(uint64_t);
    memcpy(to, tp_buf_data(&n->facts), facts_len);
    to += facts_len;
    for (cl_uint i = 0; i < n->count; i++) {
        places[at[i]] = to;
        to += sizes[i];
    }
    return cl->GetProgramInfo(n->program->native, CL_PROGRAM_BINARIES,
                              n->count * sizeof(places[0]), places, NULL) == CL_SUCCESS;
}

/* Holds the program as it is, unless it was built again. */
static bool
hold(const struct noted *n)
{
    struct tp_exec_program *p = n->program;
    bool held;

    tp_mutex_lock(&p->obj.x->done_lock);
    held = !p->building && p->waiting == 0 && p->generation == n->generation;
    p->readers += held;
    tp_mutex_unlock(&p->obj.x->done_lock);
    return held;
}

/* Writes and frees it. */
static void
write_noted(struct tp_exec_cache *cache, struct noted *n)
{
    size_t sizes[TP_EXEC_CACHE_DEVICES_MAX];
    cl_uint at[TP_EXEC_CACHE_DEVICES_MAX];
    struct tp_buf entry;

    tp_buf_init(&entry, 0);
    if (hold(n)) {
        bool whole = match_devices(n, sizes, at) && fill_entry(n, sizes, at, &entry);

        tp_exec_program_end_reading(n->program);
        if (whole) {
            (void)tp_cache_put(cache->store, n->key, tp_buf_data(&entry),
                               tp_buf_len(&entry));
        }
    }
    tp_buf_fini(&entry);
    free_noted(n);
}

/* Takes the first one that is due, or whose key is wanted. Under the lock. */
static struct noted *
take_noted(struct tp_exec_cache *cache, tp_ns now, const uint8_t *wanted)
{
    tp_list_for_each(pos, &cache->noted)
    {
        struct noted *n = tp_list_entry(pos, struct noted, link);

        if (wanted == NULL ? cache->ending || n->due <= now
                           : memcmp(n->key, wanted, sizeof(n->key)) == 0) {
            tp_list_remove(&n->link);
            cache->noted_count--;
            return n;
        }
    }
    return NULL;
}

static void *
write_loop(void *arg)
{
    struct tp_exec_cache *cache = arg;

    tp_mutex_lock(&cache->lock);
    for (;;) {
        tp_ns now = tp_clock_ns();
        struct noted *n = take_noted(cache, now, NULL);

        if (n != NULL) {
            cache->writing = true;
            tp_mutex_unlock(&cache->lock);
            write_noted(cache, n);
            tp_mutex_lock(&cache->lock);
            cache->writing = false;
            tp_cond_broadcast(&cache->changed);
            continue;
        }
        (void)tp_cond_wait(&cache->changed, &cache->lock,
                           tp_list_is_empty(&cache->noted) ? TP_CLOCK_FOREVER
                                                           : now + DELAY / 4);
    }
    return NULL;
}

/* The first build starts the thread. Under the lock. */
static bool
start_thread(struct tp_exec_cache *cache)
{
    pthread_t thread;

    if (!cache->thread_runs) {
        cache->thread_runs =
            tp_thread_create(&thread, "cache", write_loop, cache) == TELPHER_OK;
    }
    return cache->thread_runs;
}

void
tp_exec_cache_note(struct tp_exec_build *build, const struct tp_buf *facts)
{
    struct tp_exec_cache *cache = build->program->obj.x->cache;
    struct noted *n;

    if (cache == NULL || !build->has_key || build->cached ||
        build->device_count > TP_EXEC_CACHE_DEVICES_MAX) {
        return;
    }
    n = tp_zalloc(sizeof(*n), "cache");
    if (n == NULL) {
        return;
    }
    n->program = build->program;
    tp_exec_ref(&n->program->obj);
    n->generation = build->program->generation;
    n->count = build->device_count;
    n->due = tp_clock_ns() + DELAY;
    memcpy(n->key, build->key, sizeof(n->key));
    tp_buf_init(&n->facts, 0);
    n->devices = tp_memdup(build->devices, n->count * sizeof(n->devices[0]), "cache");
    if (n->devices == NULL ||
        tp_buf_append(&n->facts, tp_buf_data(facts), tp_buf_len(facts)) != TELPHER_OK) {
        free_noted(n);
        return;
    }
    tp_mutex_lock(&cache->lock);
    if (cache->noted_count < NOTED_MAX && start_thread(cache)) {
        tp_list_push_back(&cache->noted, &n->link);
        cache->noted_count++;
        tp_cond_broadcast(&cache->changed);
        n = NULL;
    }
    tp_mutex_unlock(&cache->lock);
    if (n != NULL) {
        free_noted(n);
    }
}

void
tp_exec_cache_end(struct tp_exec *x)
{
    struct tp_exec_cache *cache = x->cache;
    tp_ns deadline = tp_clock_deadline(END_TIME);

    if (cache == NULL) {
        return;
    }
    tp_mutex_lock(&cache->lock);
    cache->ending = true;
    tp_cond_broadcast(&cache->changed);
    while ((cache->writing || !tp_list_is_empty(&cache->noted)) &&
           !tp_clock_passed(deadline)) {
        (void)tp_cond_wait(&cache->changed, &cache->lock, deadline);
    }
    tp_mutex_unlock(&cache->lock);
}

/* ---- reading ---- */

/* An entry's parts. */
struct parts {
    uint32_t count, type;
    uint64_t facts_len;
    size_t sizes[TP_EXEC_CACHE_DEVICES_MAX];
    const uint8_t *facts;
    const uint8_t *binaries[TP_EXEC_CACHE_DEVICES_MAX];
};

static bool
split_entry(const uint8_t *data, size_t len, cl_uint count, struct parts *ret)
{
    size_t left = len;

    if (left < ENTRY_HEADER + count * sizeof(uint64_t)) {
        return false;
    }
    memcpy(&ret->count, data, 4);
    memcpy(&ret->type, data + 4, 4);
    memcpy(&ret->facts_len, data + 8, 8);
    memcpy(ret->sizes, data + ENTRY_HEADER, count * sizeof(uint64_t));
    data += ENTRY_HEADER + count * sizeof(uint64_t);
    left -= ENTRY_HEADER + count * sizeof(uint64_t);
    if (ret->count != count || ret->facts_len > left) {
        return false;
    }
    ret->facts = data;
    data += ret->facts_len;
    left -= ret->facts_len;
    for (cl_uint i = 0; i < count; i++) {
        if (ret->sizes[i] == 0 || ret->sizes[i] > left) {
            return false;
        }
        ret->binaries[i] = data;
        data += ret->sizes[i];
        left -= ret->sizes[i];
    }
    return left == 0;
}

/* Makes a native program of the binaries. @return NULL: the driver does not take them */
static cl_program
make_native(struct tp_exec_build *build, const char *options, const struct parts *parts)
{
    struct tp_exec *x = build->program->obj.x;
    cl_int status[TP_EXEC_CACHE_DEVICES_MAX], error;
    /* linker options are no build options */
    const char *told = build->kind == TP_EXEC_LINK ? NULL : options;
    cl_program native = x->cl.CreateProgramWithBinary(
        build->program->context->native, build->device_count, build->devices,
        parts->sizes, (const unsigned char **)(uintptr_t)parts->binaries, status,
        &error);

    if (error == CL_SUCCESS && parts->type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE) {
        error = x->cl.BuildProgram(native, build->device_count, build->devices, told,
                                   NULL, NULL);
    }
    if (error != CL_SUCCESS && native != NULL) {
        x->cl.ReleaseProgram(native);
        native = NULL;
    }
    return error == CL_SUCCESS ? native : NULL;
}

/* What was noted a moment ago is worth writing at once: it is asked for again. */
static void
write_wanted(struct tp_exec_cache *cache, const uint8_t *key)
{
    struct noted *n;

    tp_mutex_lock(&cache->lock);
    n = take_noted(cache, 0, key);
    tp_mutex_unlock(&cache->lock);
    if (n != NULL) {
        write_noted(cache, n);
    }
}

static telpher_status
read_entry(struct tp_exec_build *build, uint8_t **ret_data, size_t *ret_len)
{
    struct tp_exec_cache *cache = build->program->obj.x->cache;
    telpher_status status = tp_cache_get(cache->store, build->key, ret_data, ret_len);

    if (status == TELPHER_ERR_NOT_FOUND) {
        write_wanted(cache, build->key);
        status = tp_cache_get(cache->store, build->key, ret_data, ret_len);
    }
    return status;
}

bool
tp_exec_cache_load(struct tp_exec_build *build, const char *options,
                   struct tp_buf *facts)
{
    struct parts parts;
    uint8_t *data;
    size_t len;
    cl_program native = NULL;

    if (!build->has_key || build->device_count > TP_EXEC_CACHE_DEVICES_MAX ||
        read_entry(build, &data, &len) != TELPHER_OK) {
        return false;
    }
    tp_trace_begin("executor", "build from cache");
    if (split_entry(data, len, build->device_count, &parts) &&
        tp_buf_append(facts, parts.facts, parts.facts_len) == TELPHER_OK) {
        native = make_native(build, options, &parts);
    }
    if (native != NULL && !tp_exec_text_replace(build, native)) {
        build->program->obj.x->cl.ReleaseProgram(native);
        native = NULL;
    }
    if (native != NULL && parts.type != CL_PROGRAM_BINARY_TYPE_EXECUTABLE &&
        !tp_exec_text_keep(build, parts.sizes, parts.binaries)) {
        native = NULL; /* it is replaced by what is built then */
    }
    tp_trace_end("executor", "build from cache");
    tp_free(data);
    build->cached = native != NULL;
    if (!build->cached) {
        tp_buf_clear(facts);
        tp_debug("executor", "an entry of the cache is of no use to the driver");
    }
    return build->cached;
}

/* ---- life ---- */

struct tp_exec_cache *
tp_exec_cache_create(struct tp_exec *x, const struct tp_exec_cache_params *params)
{
    struct tp_exec_cache *cache;
    struct tp_error err = {0};
    char folder[1024];

    if (params->folder == NULL || params->folder[0] == '\0' ||
        snprintf(folder, sizeof(folder), "%s/%s", params->folder, params->room) >=
            (int)sizeof(folder)) {
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
    tp_cond_init(&cache->changed);
    tp_list_init(&cache->noted);
    take_drivers(cache);
    return cache;
}
