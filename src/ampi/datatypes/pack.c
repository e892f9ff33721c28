/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: MPI-3.1, 4.2. Device memory is packed in host memory in its place. */
#include <limits.h>
#include <string.h>

#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"

/* The packed bytes of elements of @p size bytes. @return an error class, which was reported */
static int
multiply(MPI_Comm comm, MPI_Count count, size_t size, MPI_Count *ret)
{
    return count >= 0 && !__builtin_mul_overflow(count, size, ret)
               ? MPI_SUCCESS
               : tp_ampi_error(tp_ampi_comm_get(comm), MPI_ERR_COUNT,
                               "a count of %lld elements of %zu bytes is negative, or "
                               "longer than any memory",
                               (long long)count, size);
}

int
PMPI_Pack_size_c(MPI_Count count, MPI_Datatype handle, MPI_Comm comm, MPI_Count *bytes)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);

    return type == NULL ? MPI_ERR_TYPE : multiply(comm, count, type->size, bytes);
}
TP_MPI_NAME(Pack_size_c);

int
PMPI_Pack_size(int count, MPI_Datatype handle, MPI_Comm comm, int *bytes)
{
    MPI_Count all;
    int error = PMPI_Pack_size_c(count, handle, comm, &all);

    if (error == MPI_SUCCESS) {
        *bytes = all > INT_MAX ? MPI_UNDEFINED : (int)all;
    }
    return error;
}
TP_MPI_NAME(Pack_size);

/* Whether count elements fit between a position and the end. */
static int
check_room(const struct tp_ampi_type *type, size_t size, int count, MPI_Aint position,
           MPI_Aint end, MPI_Comm comm)
{
    MPI_Aint len;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    return count >= 0 && position >= 0 && position <= end &&
                   !__builtin_mul_overflow(count, size, &len) &&
                   len <= end - position &&
                   tp_ampi_type_fits(type->handle, (size_t)count)
               ? MPI_SUCCESS
               : tp_ampi_error(
                     tp_ampi_comm_get(comm), MPI_ERR_TRUNCATE,
                     "%d elements of %s do not fit: %td of %td bytes are used", count,
                     type->name, position, end);
}

/* The elements of a call, and their packed bytes. */
struct sides {
    struct tp_ampi_stage elements, packed;
    size_t len;
};

/* Elements that are written keep what is in their gaps, so all of them are staged with content. */
static int
open_sides(struct sides *sides, struct tp_ampi_comm *comm, const void *elements,
           int count, MPI_Datatype handle, const void *packed, size_t size, bool packs)
{
    ptrdiff_t low = 0;
    size_t reach = 0;
    int error;

    sides->len = (size_t)count * size;
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

/* Bytes of an element's native form. A wrong type has no bytes; it is reported elsewhere. */
static size_t
native_size(const struct tp_ampi_type *type)
{
    return type != NULL ? type->size : 0;
}

int
PMPI_Pack(const void *in, int count, MPI_Datatype handle, void *out, int out_bytes,
          int *position, MPI_Comm comm)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);
    struct tp_ampi_comm *owner = tp_ampi_comm_get(comm);
    size_t size = native_size(type);
    int error = check_room(type, size, count, *position, out_bytes, comm);
    struct sides sides;

    if (error == MPI_SUCCESS) {
        error = open_sides(&sides, owner, in, count, handle, (char *)out + *position,
                           size, true);
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
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);
    struct tp_ampi_comm *owner = tp_ampi_comm_get(comm);
    size_t size = native_size(type);
    int error = check_room(type, size, count, *position, in_bytes, comm);
    struct sides sides;

    if (error == MPI_SUCCESS) {
        error = open_sides(&sides, owner, out, count, handle,
                           (const char *)in + *position, size, false);
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

/* ---- external32 ---- */

/* [bytes] of an element there. @return an error class, which was reported */
static int
size_external(const char *representation, MPI_Datatype handle, size_t *ret)
{
    if (tp_ampi_type_find(handle) == NULL) {
        return MPI_ERR_TYPE;
    }
    if (strcmp(representation, "external32") != 0) {
        return tp_ampi_error(
            NULL, MPI_ERR_ARG,
            "data is not packed as %s: the representation is external32",
            representation);
    }
    *ret = tp_ampi_external_size(handle);
    return MPI_SUCCESS;
}

int
PMPI_Pack_external_size(const char *representation, int count, MPI_Datatype handle,
                        MPI_Aint *bytes)
{
    size_t size;
    int error = size_external(representation, handle, &size);

    if (error == MPI_SUCCESS) {
        error = multiply(MPI_COMM_SELF, count, size, bytes);
    }
    return error;
}
TP_MPI_NAME(Pack_external_size);

/* By way of the elements' native form, packed. */
static int
convert(const struct sides *sides, size_t count, MPI_Datatype handle, bool packs)
{
    size_t len = count * tp_ampi_type_get(handle)->size;
    void *native = tp_malloc(TP_MAX(len, 1u), "packed MPI data");

    if (native == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory to pack %zu bytes", len);
    }
    if (packs) {
        tp_ampi_type_pack(sides->elements.at, count, handle, native);
        tp_ampi_external_write(native, count, handle, sides->packed.at);
    } else {
        tp_ampi_external_read(sides->packed.at, count, handle, native);
        tp_ampi_type_unpack(native, len, sides->elements.at, count, handle);
    }
    tp_free(native);
    return MPI_SUCCESS;
}

static int
pack_external(const char *representation, const void *elements, int count,
              MPI_Datatype handle, const char *packed, MPI_Aint packed_bytes,
              MPI_Aint *position, bool packs)
{
    struct sides sides;
    size_t size;
    int error = size_external(representation, handle, &size), closed;

    if (error == MPI_SUCCESS) {
        error = check_room(tp_ampi_type_get(handle), size, count, *position,
                           packed_bytes, MPI_COMM_SELF);
    }
    if (error == MPI_SUCCESS) {
        error = open_sides(&sides, NULL, elements, count, handle, packed + *position,
                           size, packs);
    }
    if (error != MPI_SUCCESS) {
        return error;
    }
    error = convert(&sides, (size_t)count, handle, packs);
    if (error == MPI_SUCCESS) {
        *position += (MPI_Aint)sides.len;
    }
    closed = close_sides(&sides, NULL, packs);
    return error != MPI_SUCCESS ? error : closed;
}

int
PMPI_Pack_external(const char *representation, const void *in, int count,
                   MPI_Datatype type, void *out, MPI_Aint out_bytes, MPI_Aint *position)
{
    return pack_external(representation, in, count, type, out, out_bytes, position,
                         true);
}
TP_MPI_NAME(Pack_external);

int
PMPI_Unpack_external(const char *representation, const void *in, MPI_Aint in_bytes,
                     MPI_Aint *position, void *out, int count, MPI_Datatype type)
{
    return pack_external(representation, out, count, type, in, in_bytes, position,
                         false);
}
TP_MPI_NAME(Unpack_external);
