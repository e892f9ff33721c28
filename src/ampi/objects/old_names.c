/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that MPI 3 removed or deprecated, by those that replace them. */
#include "ampi/ampi_int.h"

int
PMPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag)
{
    return PMPI_Comm_get_attr(comm, keyval, value, flag);
}
TP_MPI_NAME(Attr_get);

int
PMPI_Attr_put(MPI_Comm comm, int keyval, void *value)
{
    return PMPI_Comm_set_attr(comm, keyval, value);
}
TP_MPI_NAME(Attr_put);

int
PMPI_Attr_delete(MPI_Comm comm, int keyval)
{
    return PMPI_Comm_delete_attr(comm, keyval);
}
TP_MPI_NAME(Attr_delete);

int
PMPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *del, int *keyval,
                   void *extra)
{
    return PMPI_Comm_create_keyval(copy, del, keyval, extra);
}
TP_MPI_NAME(Keyval_create);

int
PMPI_Keyval_free(int *keyval)
{
    return PMPI_Comm_free_keyval(keyval);
}
TP_MPI_NAME(Keyval_free);

int
PMPI_Errhandler_create(MPI_Handler_function *fn, MPI_Errhandler *ret)
{
    return PMPI_Comm_create_errhandler(fn, ret);
}
TP_MPI_NAME(Errhandler_create);

int
PMPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler)
{
    return PMPI_Comm_set_errhandler(comm, handler);
}
TP_MPI_NAME(Errhandler_set);

int
PMPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *ret)
{
    return PMPI_Comm_get_errhandler(comm, ret);
}
TP_MPI_NAME(Errhandler_get);

int
PMPI_Address(void *at, MPI_Aint *address)
{
    return PMPI_Get_address(at, address);
}
TP_MPI_NAME(Address);

int
PMPI_Type_extent(MPI_Datatype type, MPI_Aint *extent)
{
    MPI_Aint lb;

    return PMPI_Type_get_extent(type, &lb, extent);
}
TP_MPI_NAME(Type_extent);

int
PMPI_Type_lb(MPI_Datatype type, MPI_Aint *displacement)
{
    MPI_Aint extent;

    return PMPI_Type_get_extent(type, displacement, &extent);
}
TP_MPI_NAME(Type_lb);

int
PMPI_Type_ub(MPI_Datatype type, MPI_Aint *displacement)
{
    MPI_Aint lb, extent;
    int error = PMPI_Type_get_extent(type, &lb, &extent);

    if (displacement == NULL) {
        return tp_ampi_refuse_null();
    }
    if (error == MPI_SUCCESS) {
        *displacement = lb + extent;
    }
    return error;
}
TP_MPI_NAME(Type_ub);

int
PMPI_Type_hvector(int count, int length, MPI_Aint stride, MPI_Datatype old,
                  MPI_Datatype *ret)
{
    return PMPI_Type_create_hvector(count, length, stride, old, ret);
}
TP_MPI_NAME(Type_hvector);

int
PMPI_Type_hindexed(int count, int lengths[], MPI_Aint displs[], MPI_Datatype old,
                   MPI_Datatype *ret)
{
    return PMPI_Type_create_hindexed(count, lengths, displs, old, ret);
}
TP_MPI_NAME(Type_hindexed);

int
PMPI_Type_struct(int count, int lengths[], MPI_Aint displs[], MPI_Datatype types[],
                 MPI_Datatype *ret)
{
    return PMPI_Type_create_struct(count, lengths, displs, types, ret);
}
TP_MPI_NAME(Type_struct);
