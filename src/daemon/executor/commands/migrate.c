/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migrates buffers. NVIDIA's driver (580.159) does not copy the list of buffers. It reads it
 * when the command starts, and a thread of it reads it again up to 20 ms after the command has
 * ended. So a list stays until the process ends, and equal migrations have one list.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"

enum { LISTS_MAX = 1 << 20 };

/** A list that drivers may read. */
struct list {
    uint32_t count;
    cl_mem mems[];
};

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

/* Finds the list that equals @p l, or keeps @p l. @return the one to use; NULL: no memory */
static const struct list *
keep_list(struct tp_exec *x, struct list *l)
{
    const size_t bytes = l->count * sizeof(l->mems[0]);
    uint64_t key = tp_hash_add(TP_HASH_START, l->mems, bytes);
    const struct list *old;

    while ((old = tp_map_get(&x->migrations, key)) != NULL) {
        if (old->count == l->count && memcmp(old->mems, l->mems, bytes) == 0) {
            tp_free(l);
            return old;
        }
        key++;
    }
    if (tp_map_count(&x->migrations) >= LISTS_MAX ||
        tp_map_put(&x->migrations, key, l) != TELPHER_OK) {
        tp_free(l);
        return NULL;
    }
    return l;
}

/* Makes the list of buffers of a MIGRATE. @return 0 or the CL error */
static int32_t
make_list(struct tp_exec *x, const struct tp_wire_u64s *ids, const struct list **ret)
{
    struct list *l = tp_malloc(sizeof(*l) + ids->count * sizeof(l->mems[0]), "migrate");
    int32_t error = l == NULL ? CL_OUT_OF_HOST_MEMORY : find_mems(x, ids, l->mems);

    if (error != 0) {
        tp_free(l);
        return error;
    }
    l->count = ids->count;
    *ret = keep_list(x, l);
    return *ret == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
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
    const struct list *l;
    int32_t error = make_list(c->x, &m->mems, &l);

    return error != 0 ? error
                      : c->x->cl.EnqueueMigrateMemObjects(
                            c->queue->native, l->count, l->mems,
                            migration_flags(c->x, m->migration_flags), c->wait_count,
                            c->waits, &c->ev->native);
}

static const struct tp_exec_kind tp_exec_migrate = {"clEnqueueMigrateMemObjects", NULL,
                                                    run_migrate};
TP_EXEC_HANDLER(migrate)
