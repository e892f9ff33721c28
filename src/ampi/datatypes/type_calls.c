/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about datatypes: queries, counts of a status. MPI-3.1, 4.1 and 4.2. */
#include <limits.h>
#include <string.h>

#include "ampi/attribute.h"
#include "ampi/match.h"
#include "ampi/type.h"

/* ---- life ---- */

static bool
is_f90(const struct tp_ampi_type *type)
{
    return type->combiner >= MPI_COMBINER_F90_INTEGER &&
           type->combiner <= MPI_COMBINER_F90_COMPLEX;
}

int
PMPI_Type_commit(MPI_Datatype *handle)
{
    struct tp_ampi_type *type = tp_ampi_type_find(*handle);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    type->committed = true;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_commit);

int
PMPI_Type_free(MPI_Datatype *handle)
{
    struct tp_ampi_type *type = tp_ampi_type_find(*handle);
    int error;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (tp_ampi_is_predefined(*handle) || is_f90(type)) {
        return tp_ampi_error(NULL, MPI_ERR_TYPE, "%s is predefined and cannot be freed",
                             type->name);
    }
    error = tp_ampi_attributes_delete(&type->attributes, *handle);
    if (error != MPI_SUCCESS) {
        return tp_ampi_error(NULL, error, "an attribute of %s cannot be deleted",
                             type->name);
    }
    tp_ampi_type_unref(*handle);
    *handle = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_free);

/* ---- queries ---- */

/* QUERY(call, type of the results, first, second): one or two numbers of a type. */
#define QUERY(call, number, first, second)                                             \
    int PMPI_##call(MPI_Datatype handle, number *one, number *other)                   \
    {                                                                                  \
        const struct tp_ampi_type *type = tp_ampi_type_find(handle);                   \
                                                                                       \
        if (type == NULL) {                                                            \
            return MPI_ERR_TYPE;                                                       \
        }                                                                              \
        if (one == NULL || other == NULL) {                                            \
            return tp_ampi_refuse_null();                                              \
        }                                                                              \
        *one = (number)(first);                                                        \
        *other = (number)(second);                                                     \
        return MPI_SUCCESS;                                                            \
    }                                                                                  \
    TP_MPI_NAME(call)

QUERY(Type_get_extent, MPI_Aint, type->lb, type->ub - type->lb);
QUERY(Type_get_extent_x, MPI_Count, type->lb, type->ub - type->lb);
QUERY(Type_get_true_extent, MPI_Aint, type->true_lb, type->true_ub - type->true_lb);
QUERY(Type_get_true_extent_x, MPI_Count, type->true_lb, type->true_ub - type->true_lb);

int
PMPI_Type_size_x(MPI_Datatype handle, MPI_Count *size)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (size == NULL) {
        return tp_ampi_refuse_null();
    }
    *size = (MPI_Count)type->size;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_size_x);

static int
as_int(MPI_Count number)
{
    return number >= 0 && number <= INT_MAX ? (int)number : MPI_UNDEFINED;
}

int
PMPI_Type_size(MPI_Datatype handle, int *size)
{
    MPI_Count bytes = 0;
    int error = PMPI_Type_size_x(handle, &bytes);

    if (size == NULL) {
        return tp_ampi_refuse_null();
    }
    *size = as_int(bytes);
    return error;
}
TP_MPI_NAME(Type_size);

int
PMPI_Type_get_envelope(MPI_Datatype handle, int *integers, int *addresses, int *types,
                       int *combiner)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    *integers = type->integer_count;
    *addresses = type->address_count;
    *types = type->type_count;
    *combiner = type->combiner;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_get_envelope);

int
PMPI_Type_get_contents(MPI_Datatype handle, int max_integers, int max_addresses,
                       int max_types, int integers[], MPI_Aint addresses[],
                       MPI_Datatype types[])
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (type->combiner == MPI_COMBINER_NAMED || max_integers < type->integer_count ||
        max_addresses < type->address_count || max_types < type->type_count) {
        return tp_ampi_error(NULL, MPI_ERR_ARG,
                             "the datatype is predefined, or there is too little room");
    }
    for (int i = 0; i < type->integer_count; i++) {
        integers[i] = type->integers[i];
    }
    for (int i = 0; i < type->address_count; i++) {
        addresses[i] = type->addresses[i];
    }
    for (int i = 0; i < type->type_count; i++) {
        types[i] = type->types[i];
        tp_ampi_type_ref(types[i]); /* the program frees it */
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_get_contents);

int
PMPI_Type_set_name(MPI_Datatype handle, const char *name)
{
    struct tp_ampi_type *type = tp_ampi_type_find(handle);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    memset(type->name, 0, sizeof(type->name));
    (void)strncpy(type->name, name, sizeof(type->name) - 1);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_set_name);

int
PMPI_Type_get_name(MPI_Datatype handle, char *name, int *length)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    (void)strcpy(name, type->name);
    *length = (int)strlen(name);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Type_get_name);

int
PMPI_Type_match_size(int type_class, int size, MPI_Datatype *ret)
{
    static const struct {
        int type_class, size;
        MPI_Datatype type;
    } all[] = {
        {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},
        {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
        {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},
        {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
        {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16},
        {MPI_TYPECLASS_REAL, 4, MPI_REAL4},
        {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
        {MPI_TYPECLASS_REAL, 16, MPI_LONG_DOUBLE},
        {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},
        {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(all); i++) {
        if (all[i].type_class == type_class && all[i].size == size) {
            *ret = all[i].type;
            return MPI_SUCCESS;
        }
    }
    return tp_ampi_error(NULL, MPI_ERR_ARG, "there is no datatype of %d bytes", size);
}
TP_MPI_NAME(Type_match_size);

/* ---- counts of a status ---- */

int
PMPI_Get_count_c(const MPI_Status *status, MPI_Datatype handle, MPI_Count *count)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);
    size_t bytes = tp_ampi_status_bytes(status);

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (bytes == 0) {
        *count = 0;
    } else { /* no number of elements without bytes has some */
        *count = type->size != 0 && bytes % type->size == 0
                     ? (MPI_Count)(bytes / type->size)
                     : MPI_UNDEFINED;
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Get_count_c);

int
PMPI_Get_count(const MPI_Status *status, MPI_Datatype handle, int *count)
{
    MPI_Count whole;
    int error = PMPI_Get_count_c(status, handle, &whole);

    if (error == MPI_SUCCESS) {
        *count = as_int(whole);
    }
    return error;
}
TP_MPI_NAME(Get_count);

/* Bytes that are left, and the basic elements in those before. */
struct elements {
    size_t bytes;
    MPI_Count count;
};

static bool
take_elements(void *arg, MPI_Datatype basic, size_t count)
{
    struct elements *e = arg;
    size_t size = tp_ampi_type_size(basic), whole = TP_MIN(count, e->bytes / size);

    e->bytes -= whole * size;
    e->count += (MPI_Count)whole;
    return whole == count && e->bytes > 0;
}

/* Basic elements; MPI_UNDEFINED if a part of one is left. */
int
PMPI_Get_elements_x(const MPI_Status *status, MPI_Datatype handle, MPI_Count *count)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);
    struct elements e = {.bytes = tp_ampi_status_bytes(status)};

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    if (type->size != 0) {
        e.count = (MPI_Count)(e.bytes / type->size * type->elements);
        e.bytes %= type->size;
        if (e.bytes != 0) {
            (void)tp_ampi_type_visit(handle, 1, take_elements, &e);
        }
    }
    *count = e.bytes == 0 ? e.count : MPI_UNDEFINED;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Get_elements_x);

int
PMPI_Get_elements(const MPI_Status *status, MPI_Datatype type, int *count)
{
    MPI_Count all = 0;
    int error = PMPI_Get_elements_x(status, type, &all);

    *count = as_int(all);
    return error;
}
TP_MPI_NAME(Get_elements);

int
PMPI_Status_set_elements_x(MPI_Status *status, MPI_Datatype handle, MPI_Count count)
{
    const struct tp_ampi_type *type = tp_ampi_type_find(handle);
    size_t size;
    MPI_Count bytes;

    if (type == NULL) {
        return MPI_ERR_TYPE;
    }
    size = type->element != MPI_DATATYPE_NULL ? tp_ampi_type_size(type->element) : 1;
    if (count < 0 || __builtin_mul_overflow(count, size, &bytes)) {
        return tp_ampi_error(NULL, MPI_ERR_COUNT,
                             "a count of %lld elements is negative, or longer than any "
                             "memory",
                             (long long)count);
    }
    status->telpher_bytes[0] = (uint32_t)bytes;
    status->telpher_bytes[1] = (uint32_t)((uint64_t)bytes >> 32);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Status_set_elements_x);

int
PMPI_Status_set_elements(MPI_Status *status, MPI_Datatype type, int count)
{
    return PMPI_Status_set_elements_x(status, type, count);
}
TP_MPI_NAME(Status_set_elements);

/* ---- addresses ---- */

int
PMPI_Get_address(const void *at, MPI_Aint *address)
{
    *address = (MPI_Aint)at;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Get_address);

MPI_Aint
PMPI_Aint_add(MPI_Aint base, MPI_Aint displacement)
{
    return base + displacement;
}
TP_MPI_NAME(Aint_add);

MPI_Aint
PMPI_Aint_diff(MPI_Aint one, MPI_Aint other)
{
    return one - other;
}
TP_MPI_NAME(Aint_diff);
