/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migrates buffers. NVIDIA's driver (580.159) ends the process in clEnqueueMigrateMemObjects of
 * some sub-buffers, and reads the list of buffers after the call. There a marker takes the place
 * of the migration, which is a hint: commands move what they use.
 */
#include "base/alloc.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"

/* Finds the buffers of a MIGRATE. @return 0 or the CL error */
static int32_t
find_mems(struct tp_exec *x, const struct tp_wire_u64s *ids, cl_mem *mems)
{
    for (size_t i = 0; i < ids->count; i++) {
        struct tp_exec_mem *mem;
        int32_t error = tp_exec_find(x, tp_wire_u64_at(ids, i), TP_WIRE_KIND_MEM, &mem);

        if (error != 0) {
            return error;
        }
        mems[i] = mem->native;
    }
    return 0;
}

/* The flags of a MIGRATE that the driver can complete. */
static cl_mem_migration_flags
migration_flags(struct tp_exec *x, cl_mem_migration_flags flags)
{
    return atomic_load(&x->had_failure) &&
                   tp_exec_has_quirk(x, TP_EXEC_QUIRK_MIGRATE_WAITS_FOR_FAILED)
               ? flags & ~(cl_mem_migration_flags)CL_MIGRATE_MEM_OBJECT_HOST
               : flags;
}

static int32_t
run_migrate(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_migrate *m = msg;
    const struct tp_opencl *cl = &c->x->cl;
    cl_mem *mems = tp_alloc_array(m->mems.count + (size_t)1, sizeof(*mems), "migrate");
    int32_t error =
        mems == NULL ? CL_OUT_OF_HOST_MEMORY : find_mems(c->x, &m->mems, mems);

    if (error == 0 && tp_exec_has_quirk(c->x, TP_EXEC_QUIRK_MIGRATE_CRASHES)) {
        error = cl->EnqueueMarkerWithWaitList(c->queue->native, c->wait_count, c->waits,
                                              &c->ev->native);
    } else if (error == 0) {
        error = cl->EnqueueMigrateMemObjects(c->queue->native, m->mems.count, mems,
                                             migration_flags(c->x, m->migration_flags),
                                             c->wait_count, c->waits, &c->ev->native);
    }
    tp_free(mems);
    return error;
}

static const struct tp_exec_kind tp_exec_migrate = {"clEnqueueMigrateMemObjects", NULL,
                                                    run_migrate};
TP_EXEC_HANDLER(migrate)
