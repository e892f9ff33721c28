/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what was built, when the session is over and nothing of it runs any more. Not
 * earlier, because of PoCL (3.1 and others): asked for binaries it compiles every kernel
 * once more, for any work-group size, and puts the result in front of its table of loaded
 * kernels, used by nobody. When a command ends, the table is searched by kernel and local
 * size alone; with reqd_work_group_size that finds the new one, and an assertion ends the
 * process, since nobody uses it. A program of the same source is the same kernel there.
 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/cache/entry.h"
#include "daemon/control.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/build_cache_int.h"
#include "daemon/executor/program/program.h"

#define WRITE_TIME (20 * TP_CLOCK_S) /* after that no further entry is begun */

enum {
    ENTRY_TIME_S = 10, /* for the driver to give the binaries of one program */
    NICENESS = 10, /* sessions that run go first */
};

/* Which of the driver's binaries is for each device. @return false: not one for each */
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

/* Makes the entry: the driver fills in the binaries. */
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

/* True unless the program was built again since, or is just being built. */
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
        (void)alarm(ENTRY_TIME_S); /* a driver that hangs is not waited for */
        write_entry(x->cache, n);
        tp_exec_note_free(n);
    }
}
