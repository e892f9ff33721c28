/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, attributes, info objects and error handlers of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_OBJECTS_H
#define TELPHER_AMPI_MPI_OBJECTS_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- groups ---- */

TELPHER_MPI_CALL(int, Group_size, (MPI_Group group, int *size));
TELPHER_MPI_CALL(int, Group_rank, (MPI_Group group, int *rank));
TELPHER_MPI_CALL(int, Group_translate_ranks,
                 (MPI_Group from, int count, const int ranks[], MPI_Group to,
                  int ret[]));
TELPHER_MPI_CALL(int, Group_compare, (MPI_Group one, MPI_Group other, int *result));
TELPHER_MPI_CALL(int, Group_union, (MPI_Group one, MPI_Group other, MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_intersection,
                 (MPI_Group one, MPI_Group other, MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_difference,
                 (MPI_Group one, MPI_Group other, MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_incl,
                 (MPI_Group group, int count, const int ranks[], MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_excl,
                 (MPI_Group group, int count, const int ranks[], MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_range_incl,
                 (MPI_Group group, int count, int ranges[][3], MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_range_excl,
                 (MPI_Group group, int count, int ranges[][3], MPI_Group *ret));
TELPHER_MPI_CALL(int, Group_free, (MPI_Group * group));

/* ---- attributes ---- */

/* Attributes that every communicator has: pointers to an int. */
#define MPI_TAG_UB 0x09000001
#define MPI_HOST 0x09000002
#define MPI_IO 0x09000003
#define MPI_WTIME_IS_GLOBAL 0x09000004
#define MPI_UNIVERSE_SIZE 0x09000005
#define MPI_APPNUM 0x09000006
#define MPI_LASTUSEDCODE 0x09000007

__attribute__((visibility("default"))) MPI_Comm_copy_attr_function MPI_COMM_DUP_FN,
    MPI_COMM_NULL_COPY_FN;
__attribute__((visibility("default")))
MPI_Comm_delete_attr_function MPI_COMM_NULL_DELETE_FN;
#define MPI_TYPE_DUP_FN MPI_COMM_DUP_FN
#define MPI_TYPE_NULL_COPY_FN MPI_COMM_NULL_COPY_FN
#define MPI_TYPE_NULL_DELETE_FN MPI_COMM_NULL_DELETE_FN
#define MPI_WIN_DUP_FN MPI_COMM_DUP_FN
#define MPI_WIN_NULL_COPY_FN MPI_COMM_NULL_COPY_FN
#define MPI_WIN_NULL_DELETE_FN MPI_COMM_NULL_DELETE_FN
#define MPI_DUP_FN MPI_COMM_DUP_FN
#define MPI_NULL_COPY_FN MPI_COMM_NULL_COPY_FN
#define MPI_NULL_DELETE_FN MPI_COMM_NULL_DELETE_FN

TELPHER_MPI_CALL(int, Comm_create_keyval,
                 (MPI_Comm_copy_attr_function * copy,
                  MPI_Comm_delete_attr_function *del, int *keyval, void *extra));
TELPHER_MPI_CALL(int, Comm_free_keyval, (int *keyval));
TELPHER_MPI_CALL(int, Comm_set_attr, (MPI_Comm comm, int keyval, void *value));
TELPHER_MPI_CALL(int, Comm_get_attr,
                 (MPI_Comm comm, int keyval, void *value, int *flag));
TELPHER_MPI_CALL(int, Comm_delete_attr, (MPI_Comm comm, int keyval));
TELPHER_MPI_CALL(int, Type_create_keyval,
                 (MPI_Type_copy_attr_function * copy,
                  MPI_Type_delete_attr_function *del, int *keyval, void *extra));
TELPHER_MPI_CALL(int, Type_free_keyval, (int *keyval));
TELPHER_MPI_CALL(int, Type_set_attr, (MPI_Datatype type, int keyval, void *value));
TELPHER_MPI_CALL(int, Type_get_attr,
                 (MPI_Datatype type, int keyval, void *value, int *flag));
TELPHER_MPI_CALL(int, Type_delete_attr, (MPI_Datatype type, int keyval));

/* ---- info ---- */

TELPHER_MPI_CALL(int, Info_create, (MPI_Info * info));
TELPHER_MPI_CALL(int, Info_create_env, (int argc, char *argv[], MPI_Info *info));
TELPHER_MPI_CALL(int, Info_set, (MPI_Info info, const char *key, const char *value));
TELPHER_MPI_CALL(int, Info_delete, (MPI_Info info, const char *key));
TELPHER_MPI_CALL(int, Info_get,
                 (MPI_Info info, const char *key, int length, char *value, int *flag));
TELPHER_MPI_CALL(int, Info_get_string,
                 (MPI_Info info, const char *key, int *length, char *value, int *flag));
TELPHER_MPI_CALL(int, Info_get_valuelen,
                 (MPI_Info info, const char *key, int *length, int *flag));
TELPHER_MPI_CALL(int, Info_get_nkeys, (MPI_Info info, int *count));
TELPHER_MPI_CALL(int, Info_get_nthkey, (MPI_Info info, int n, char *key));
TELPHER_MPI_CALL(int, Info_dup, (MPI_Info info, MPI_Info *ret));
TELPHER_MPI_CALL(int, Info_free, (MPI_Info * info));
TELPHER_MPI_CALL(int, Comm_set_info, (MPI_Comm comm, MPI_Info info));
TELPHER_MPI_CALL(int, Comm_get_info, (MPI_Comm comm, MPI_Info *ret));

/* ---- error handlers ---- */

TELPHER_MPI_CALL(int, Comm_create_errhandler,
                 (MPI_Comm_errhandler_function * fn, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler));
TELPHER_MPI_CALL(int, Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Comm_call_errhandler, (MPI_Comm comm, int code));
TELPHER_MPI_CALL(int, Errhandler_free, (MPI_Errhandler * handler));
TELPHER_MPI_CALL(int, Error_class, (int code, int *error_class));
TELPHER_MPI_CALL(int, Error_string, (int code, char *text, int *length));
TELPHER_MPI_CALL(int, Add_error_class, (int *error_class));
TELPHER_MPI_CALL(int, Add_error_code, (int error_class, int *code));
TELPHER_MPI_CALL(int, Add_error_string, (int code, const char *text));

/* ---- names that MPI 3 removed, which programs still use ---- */

TELPHER_MPI_CALL(int, Attr_get, (MPI_Comm comm, int keyval, void *value, int *flag));
TELPHER_MPI_CALL(int, Attr_put, (MPI_Comm comm, int keyval, void *value));
TELPHER_MPI_CALL(int, Attr_delete, (MPI_Comm comm, int keyval));
TELPHER_MPI_CALL(int, Keyval_create,
                 (MPI_Copy_function * copy, MPI_Delete_function *del, int *keyval,
                  void *extra));
TELPHER_MPI_CALL(int, Keyval_free, (int *keyval));
TELPHER_MPI_CALL(int, Errhandler_create,
                 (MPI_Handler_function * fn, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Errhandler_set, (MPI_Comm comm, MPI_Errhandler handler));
TELPHER_MPI_CALL(int, Errhandler_get, (MPI_Comm comm, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Address, (void *at, MPI_Aint *address));
TELPHER_MPI_CALL(int, Type_extent, (MPI_Datatype type, MPI_Aint *extent));
TELPHER_MPI_CALL(int, Type_lb, (MPI_Datatype type, MPI_Aint *displacement));
TELPHER_MPI_CALL(int, Type_ub, (MPI_Datatype type, MPI_Aint *displacement));
TELPHER_MPI_CALL(int, Type_hvector,
                 (int count, int length, MPI_Aint stride, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_hindexed,
                 (int count, int lengths[], MPI_Aint displs[], MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_struct,
                 (int count, int lengths[], MPI_Aint displs[], MPI_Datatype types[],
                  MPI_Datatype *ret));

#ifdef __cplusplus
}
#endif

#endif
