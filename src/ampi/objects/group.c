/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks: what communicators are made of. */
#include "ampi/ampi_int.h"

#include "base/alloc.h"

struct tp_ampi_group *
tp_ampi_group_create(int size)
{
    struct tp_ampi_group *group =
        tp_zalloc(sizeof(*group) + (size_t)size * sizeof(group->world[0]), "MPI group");

    if (group != NULL) {
        group->refs = 1;
        group->size = size;
        group->rank = MPI_UNDEFINED;
    }
    return group;
}

void
tp_ampi_group_unref(struct tp_ampi_group *group)
{
    if (group != NULL && --group->refs == 0) {
        if (group->handle != 0) {
            tp_ampi_handle_destroy(group->handle);
        }
        tp_free(group);
    }
}

struct tp_ampi_group *
tp_ampi_group_get(MPI_Group handle)
{
    static struct tp_ampi_group empty = {.refs = 1u << 30, .rank = MPI_UNDEFINED};

    return handle == MPI_GROUP_EMPTY ? &empty
                                     : tp_ampi_handle_get(handle, TP_AMPI_GROUP);
}

int
tp_ampi_group_give(struct tp_ampi_group *group, MPI_Group *ret)
{
    int handle = group->handle;

    if (group->size == 0) {
        tp_ampi_group_unref(group);
        *ret = MPI_GROUP_EMPTY;
        return MPI_SUCCESS;
    }
    if (handle == 0) {
        handle = tp_ampi_handle_create(TP_AMPI_GROUP, group);
    }
    if (handle == 0) {
        tp_ampi_group_unref(group);
        return MPI_ERR_NO_MEM;
    }
    group->handle = handle;
    *ret = handle;
    return MPI_SUCCESS;
}
