/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: MPI-3.1, 4.2. Device memory is packed in host memory in its place. */
#include <limits.h>

#include "ampi/process.h"
#include "ampi/type.h"

int
PMPI_Pack_size(int count, MPI_Datatype handle, MPI_Comm comm, int *bytes)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);
    MPI_Count all;

    (void)comm;
    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    all = (MPI_Count)count * (MPI_Count)type->size;
    *bytes = all > INT_MAX ? MPI_UNDEFINED : (int)all;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Pack_size);

/* Whether count elements fit between a position and the end. */
static int
check_room(const struct tp_ampi_type *type, int count, int position, int end,
           MPI_Comm comm)
{
    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    return count >= 0 && position >= 0 && position <= end &&
                   (size_t)count * type->size <= (size_t)(end - position)
               ? MPI_SUCCESS
               : tp_ampi_error(tp_ampi_comm_get(comm), MPI_ERR_TRUNCATE,
                               "%d elements of %s do not fit: %d of %d bytes are used",
                               count, type->name, position, end);
}

/* The elements of a call, and their packed bytes. */
struct sides {
    struct tp_ampi_stage elements, packed;
    size_t len;
};

/* Elements that are written keep what is in their gaps, so all of them are staged with content. */
static int
open_sides(struct sides *sides, struct tp_ampi_comm *comm, const void *elements,
           int count, MPI_Datatype handle, const void *packed, bool packs)
{
    ptrdiff_t low = 0;
    size_t reach = 0;
    int error;

    sides->len = (size_t)count * tp_ampi_type_get(handle)->size;
    if (count > 0) {
        tp_ampi_type_reach(handle, (size_t)count, &low, &reach);
    }
    error = tp_ampi_stage_open(&sides->elements, comm, elements, low, reach, true);
    if (error != MPI_SUCCESS) {
        return error;
    }
    error = tp_ampi_stage_open(&sides->packed, comm, packed, 0, sides->len, !packs);
    return error == MPI_SUCCESS
               ? MPI_SUCCESS
               : tp_ampi_stage_close(&sides->elements, comm, false, error);
}

static int
close_sides(struct sides *sides, struct tp_ampi_comm *comm, bool packs)
{
    int error = tp_ampi_stage_close(&sides->elements, comm, !packs, MPI_SUCCESS);

    return tp_ampi_stage_close(&sides->packed, comm, packs, error);
}

int
PMPI_Pack(const void *in, int count, MPI_Datatype handle, void *out, int out_bytes,
          int *position, MPI_Comm comm)
{
    struct tp_ampi_comm *owner = tp_ampi_comm_get(comm);
    int error =
        check_room(tp_ampi_type_find(handle), count, *position, out_bytes, comm);
    struct sides sides;

    if (error == MPI_SUCCESS) {
        error =
            open_sides(&sides, owner, in, count, handle, (char *)out + *position, true);
    }
    if (error == MPI_SUCCESS) {
        tp_ampi_type_pack(sides.elements.at, (size_t)count, handle, sides.packed.at);
        *position += (int)sides.len;
        error = close_sides(&sides, owner, true);
    }
    return error;
}
TP_MPI_NAME(Pack);

int
PMPI_Unpack(const void *in, int in_bytes, int *position, void *out, int count,
            MPI_Datatype handle, MPI_Comm comm)
{
    struct tp_ampi_comm *owner = tp_ampi_comm_get(comm);
    int error = check_room(tp_ampi_type_find(handle), count, *position, in_bytes, comm);
    struct sides sides;

    if (error == MPI_SUCCESS) {
        error = open_sides(&sides, owner, out, count, handle,
                           (const char *)in + *position, false);
    }
    if (error == MPI_SUCCESS) {
        tp_ampi_type_unpack(sides.packed.at, sides.len, sides.elements.at,
                            (size_t)count, handle);
        *position += (int)sides.len;
        error = close_sides(&sides, owner, false);
    }
    return error;
}
TP_MPI_NAME(Unpack);
