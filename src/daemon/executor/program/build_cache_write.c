/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the recorded builds to the cache at the end of an idle session. An earlier write
 * would abort the process with PoCL (3.1 and others). To return binaries, PoCL compiles
 * every kernel again for any work-group size, and inserts the result, with no users, at the
 * front of its table of loaded kernels. When a command ends, PoCL searches the table by
 * kernel and local size only. With reqd_work_group_size it finds the new entry, and an
 * assertion on its user count fails. Programs of the same source share the entry.
 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/cache/entry.h"
#include "daemon/control.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/build_cache_int.h"
#include "daemon/executor/program/program.h"

#define WRITE_TIME (20 * TP_CLOCK_S) /* no new entry is begun after this time */

enum {
    ENTRY_TIME_S = 10, /* limit for the driver to return the binaries of one program */
    NICENESS = 10, /* running sessions have priority */
};

/* Matches the driver's binaries to devices. @return false: a device has none */
static bool
match_devices(const struct tp_exec_note *n, size_t *ret_sizes, cl_uint *ret_at)
{
    const struct tp_opencl *cl = &n->program->obj.x->cl;
    size_t sizes[TP_CACHE_ENTRY_DEVICES_MAX];
    cl_device_id natives[TP_CACHE_ENTRY_DEVICES_MAX];
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

/* Writes the entry; the driver fills in the binaries. */
static bool
fill_entry(const struct tp_exec_note *n, struct tp_buf *dst)
{
    const struct tp_opencl *cl = &n->program->obj.x->cl;
    uint8_t *ours[TP_CACHE_ENTRY_DEVICES_MAX] = {NULL},
            *places[TP_CACHE_ENTRY_DEVICES_MAX] = {NULL}, *to;
    struct tp_cache_entry entry = {.count = n->count,
                                   .facts_len = tp_buf_len(&n->facts),
                                   .facts = tp_buf_data(&n->facts)};
    cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_NONE;
    cl_uint at[TP_CACHE_ENTRY_DEVICES_MAX];
    size_t total;

    if (!match_devices(n, entry.sizes, at) ||
        cl->GetProgramBuildInfo(n->program->native, n->devices[0],
                                CL_PROGRAM_BINARY_TYPE, sizeof(type), &type,
                                NULL) != CL_SUCCESS) {
        return false;
    }
    entry.type = type;
    total = tp_cache_entry_size(&entry);
    if (tp_buf_reserve(dst, total, &to) != TELPHER_OK) {
        return false;
    }
    tp_buf_commit(dst, total);
    tp_cache_entry_write(&entry, to, ours);
    for (cl_uint i = 0; i < n->count; i++) {
        places[at[i]] = ours[i];
    }
    return cl->GetProgramInfo(n->program->native, CL_PROGRAM_BINARIES,
                              n->count * sizeof(places[0]), places, NULL) == CL_SUCCESS;
}

/* True unless the program was built again, or is being built. */
static bool
is_as_noted(const struct tp_exec_note *n)
{
    struct tp_exec_program *p = n->program;
    bool as_noted;

    tp_mutex_lock(&p->obj.x->done_lock);
    as_noted = !p->building && p->waiting == 0 && p->generation == n->generation;
    tp_mutex_unlock(&p->obj.x->done_lock);
    return as_noted;
}

static void
write_entry(struct tp_exec_cache *cache, const struct tp_exec_note *n)
{
    struct tp_buf entry;

    tp_buf_init(&entry, 0);
    tp_trace_begin("executor", "write to cache");
    if (is_as_noted(n) && !tp_cache_has(cache->store, n->key) &&
        fill_entry(n, &entry)) {
        (void)tp_cache_put(cache->store, n->key, tp_buf_data(&entry),
                           tp_buf_len(&entry));
    }
    tp_trace_end("executor", "write to cache");
    tp_buf_fini(&entry);
}

void
tp_exec_cache_write(struct tp_exec *x)
{
    const struct tp_control over = {.type = TP_CONTROL_OVER};
    tp_ns deadline = tp_clock_deadline(WRITE_TIME);
    struct tp_exec_note *n;

    (void)tp_control_send(TP_CONTROL_FD, &over, -1);
    (void)setpriority(PRIO_PROCESS, 0, NICENESS); /* of this thread, which compiles */
    while (!tp_clock_passed(deadline) && (n = tp_exec_note_take(x->cache)) != NULL) {
        (void)alarm(ENTRY_TIME_S); /* ends the process if the driver hangs */
        write_entry(x->cache, n);
        tp_exec_note_free(n);
    }
}
