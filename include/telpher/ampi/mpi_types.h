/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes and operations of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_TYPES_H
#define TELPHER_AMPI_MPI_TYPES_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A predefined type has its size in the second byte from below, its number in the lowest. */
#define MPI_CHAR ((MPI_Datatype)0x03000101)
#define MPI_BYTE ((MPI_Datatype)0x03000102)
#define MPI_INT ((MPI_Datatype)0x03000403)
#define MPI_DOUBLE ((MPI_Datatype)0x03000804)
#define MPI_SIGNED_CHAR ((MPI_Datatype)0x03000105)
#define MPI_UNSIGNED_CHAR ((MPI_Datatype)0x03000106)
#define MPI_SHORT ((MPI_Datatype)0x03000207)
#define MPI_UNSIGNED_SHORT ((MPI_Datatype)0x03000208)
#define MPI_UNSIGNED ((MPI_Datatype)0x03000409)
#define MPI_LONG ((MPI_Datatype)0x0300080a)
#define MPI_UNSIGNED_LONG ((MPI_Datatype)0x0300080b)
#define MPI_LONG_LONG_INT ((MPI_Datatype)0x0300080c)
#define MPI_LONG_LONG MPI_LONG_LONG_INT
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)0x0300080d)
#define MPI_FLOAT ((MPI_Datatype)0x0300040e)
#define MPI_LONG_DOUBLE ((MPI_Datatype)0x0300100f)
#define MPI_WCHAR ((MPI_Datatype)0x03000410)
#define MPI_C_BOOL ((MPI_Datatype)0x03000111)
#define MPI_INT8_T ((MPI_Datatype)0x03000112)
#define MPI_INT16_T ((MPI_Datatype)0x03000213)
#define MPI_INT32_T ((MPI_Datatype)0x03000414)
#define MPI_INT64_T ((MPI_Datatype)0x03000815)
#define MPI_UINT8_T ((MPI_Datatype)0x03000116)
#define MPI_UINT16_T ((MPI_Datatype)0x03000217)
#define MPI_UINT32_T ((MPI_Datatype)0x03000418)
#define MPI_UINT64_T ((MPI_Datatype)0x03000819)
#define MPI_AINT ((MPI_Datatype)0x0300081a)
#define MPI_COUNT ((MPI_Datatype)0x0300081b)
#define MPI_OFFSET ((MPI_Datatype)0x0300081c)
#define MPI_C_COMPLEX ((MPI_Datatype)0x0300081d)
#define MPI_C_FLOAT_COMPLEX MPI_C_COMPLEX
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x0300101e)
#define MPI_C_LONG_DOUBLE_COMPLEX ((MPI_Datatype)0x0300201f)
#define MPI_PACKED ((MPI_Datatype)0x03000120)
#define MPI_FLOAT_INT ((MPI_Datatype)0x03000821)
#define MPI_DOUBLE_INT ((MPI_Datatype)0x03000c22)
#define MPI_LONG_INT ((MPI_Datatype)0x03000c23)
#define MPI_SHORT_INT ((MPI_Datatype)0x03000624)
#define MPI_2INT ((MPI_Datatype)0x03000825)
#define MPI_LONG_DOUBLE_INT ((MPI_Datatype)0x03001426)
#define MPI_CXX_BOOL ((MPI_Datatype)0x03000127)
#define MPI_CXX_FLOAT_COMPLEX ((MPI_Datatype)0x03000828)
#define MPI_CXX_DOUBLE_COMPLEX ((MPI_Datatype)0x03001029)
#define MPI_CXX_LONG_DOUBLE_COMPLEX ((MPI_Datatype)0x0300202a)
#define MPI_INTEGER ((MPI_Datatype)0x0300042b)
#define MPI_REAL ((MPI_Datatype)0x0300042c)
#define MPI_DOUBLE_PRECISION ((MPI_Datatype)0x0300082d)
#define MPI_COMPLEX ((MPI_Datatype)0x0300082e)
#define MPI_DOUBLE_COMPLEX ((MPI_Datatype)0x0300102f)
#define MPI_LOGICAL ((MPI_Datatype)0x03000430)
#define MPI_CHARACTER ((MPI_Datatype)0x03000131)
#define MPI_2INTEGER ((MPI_Datatype)0x03000832)
#define MPI_2REAL ((MPI_Datatype)0x03000833)
#define MPI_2DOUBLE_PRECISION ((MPI_Datatype)0x03001034)
#define MPI_INTEGER1 ((MPI_Datatype)0x03000135)
#define MPI_INTEGER2 ((MPI_Datatype)0x03000236)
#define MPI_INTEGER4 ((MPI_Datatype)0x03000437)
#define MPI_INTEGER8 ((MPI_Datatype)0x03000838)
#define MPI_REAL4 ((MPI_Datatype)0x03000439)
#define MPI_REAL8 ((MPI_Datatype)0x0300083a)
#define MPI_COMPLEX8 ((MPI_Datatype)0x0300083b)
#define MPI_COMPLEX16 ((MPI_Datatype)0x0300103c)
#define MPI_INTEGER16 ((MPI_Datatype)0x0300103d)
/* Bounds in MPI_Type_create_struct(), of MPI 1. */
#define MPI_LB ((MPI_Datatype)0x0300003e)
#define MPI_UB ((MPI_Datatype)0x0300003f)

enum telpher_mpi_combiner {
    MPI_COMBINER_NAMED,
    MPI_COMBINER_DUP,
    MPI_COMBINER_CONTIGUOUS,
    MPI_COMBINER_VECTOR,
    MPI_COMBINER_HVECTOR,
    MPI_COMBINER_INDEXED,
    MPI_COMBINER_HINDEXED,
    MPI_COMBINER_INDEXED_BLOCK,
    MPI_COMBINER_HINDEXED_BLOCK,
    MPI_COMBINER_STRUCT,
    MPI_COMBINER_SUBARRAY,
    MPI_COMBINER_DARRAY,
    MPI_COMBINER_RESIZED,
    MPI_COMBINER_F90_INTEGER,
    MPI_COMBINER_F90_REAL,
    MPI_COMBINER_F90_COMPLEX,
    /* of MPI 2, where Fortran's calls of MPI 1 had their own: no type has one */
    MPI_COMBINER_HVECTOR_INTEGER,
    MPI_COMBINER_HINDEXED_INTEGER,
    MPI_COMBINER_STRUCT_INTEGER
};

#define MPI_ORDER_C 56
#define MPI_ORDER_FORTRAN 57
#define MPI_DISTRIBUTE_BLOCK 121
#define MPI_DISTRIBUTE_CYCLIC 122
#define MPI_DISTRIBUTE_NONE 123
#define MPI_DISTRIBUTE_DFLT_DARG (-124)
#define MPI_TYPECLASS_INTEGER 1
#define MPI_TYPECLASS_REAL 2
#define MPI_TYPECLASS_COMPLEX 3

#define MPI_MAX ((MPI_Op)0x04000001)
#define MPI_MIN ((MPI_Op)0x04000002)
#define MPI_SUM ((MPI_Op)0x04000003)
#define MPI_PROD ((MPI_Op)0x04000004)
#define MPI_LAND ((MPI_Op)0x04000005)
#define MPI_BAND ((MPI_Op)0x04000006)
#define MPI_LOR ((MPI_Op)0x04000007)
#define MPI_BOR ((MPI_Op)0x04000008)
#define MPI_LXOR ((MPI_Op)0x04000009)
#define MPI_BXOR ((MPI_Op)0x0400000a)
#define MPI_MINLOC ((MPI_Op)0x0400000b)
#define MPI_MAXLOC ((MPI_Op)0x0400000c)
#define MPI_REPLACE ((MPI_Op)0x0400000d)
#define MPI_NO_OP ((MPI_Op)0x0400000e)

typedef void MPI_User_function(void *in, void *inout, int *count, MPI_Datatype *type);

TELPHER_MPI_CALL(int, Type_contiguous,
                 (int count, MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_vector,
                 (int count, int length, int stride, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_hvector,
                 (int count, int length, MPI_Aint stride, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_indexed,
                 (int count, const int lengths[], const int displs[], MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_hindexed,
                 (int count, const int lengths[], const MPI_Aint displs[],
                  MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_indexed_block,
                 (int count, int length, const int displs[], MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_hindexed_block,
                 (int count, int length, const MPI_Aint displs[], MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_struct,
                 (int count, const int lengths[], const MPI_Aint displs[],
                  const MPI_Datatype types[], MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_subarray,
                 (int dims, const int sizes[], const int subsizes[], const int starts[],
                  int order, MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_darray,
                 (int size, int rank, int dims, const int sizes[],
                  const int distributions[], const int arguments[],
                  const int processes[], int order, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_resized,
                 (MPI_Datatype old, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_dup, (MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_commit, (MPI_Datatype * type));
TELPHER_MPI_CALL(int, Type_free, (MPI_Datatype * type));
TELPHER_MPI_CALL(int, Type_size, (MPI_Datatype type, int *size));
TELPHER_MPI_CALL(int, Type_size_x, (MPI_Datatype type, MPI_Count *size));
TELPHER_MPI_CALL(int, Type_get_extent,
                 (MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent));
TELPHER_MPI_CALL(int, Type_get_extent_x,
                 (MPI_Datatype type, MPI_Count *lb, MPI_Count *extent));
TELPHER_MPI_CALL(int, Type_get_true_extent,
                 (MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent));
TELPHER_MPI_CALL(int, Type_get_true_extent_x,
                 (MPI_Datatype type, MPI_Count *lb, MPI_Count *extent));
TELPHER_MPI_CALL(int, Type_get_envelope,
                 (MPI_Datatype type, int *integers, int *addresses, int *types,
                  int *combiner));
TELPHER_MPI_CALL(int, Type_get_contents,
                 (MPI_Datatype type, int max_integers, int max_addresses, int max_types,
                  int integers[], MPI_Aint addresses[], MPI_Datatype types[]));
TELPHER_MPI_CALL(int, Type_set_name, (MPI_Datatype type, const char *name));
TELPHER_MPI_CALL(int, Type_get_name, (MPI_Datatype type, char *name, int *length));
TELPHER_MPI_CALL(int, Type_create_f90_integer, (int range, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_f90_real,
                 (int precision, int range, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_f90_complex,
                 (int precision, int range, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_match_size, (int type_class, int size, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Get_count,
                 (const MPI_Status *status, MPI_Datatype type, int *count));
TELPHER_MPI_CALL(int, Get_elements,
                 (const MPI_Status *status, MPI_Datatype type, int *count));
TELPHER_MPI_CALL(int, Get_elements_x,
                 (const MPI_Status *status, MPI_Datatype type, MPI_Count *count));
TELPHER_MPI_CALL(int, Status_set_elements,
                 (MPI_Status * status, MPI_Datatype type, int count));
TELPHER_MPI_CALL(int, Status_set_elements_x,
                 (MPI_Status * status, MPI_Datatype type, MPI_Count count));
TELPHER_MPI_CALL(int, Pack,
                 (const void *in, int count, MPI_Datatype type, void *out,
                  int out_bytes, int *position, MPI_Comm comm));
TELPHER_MPI_CALL(int, Unpack,
                 (const void *in, int in_bytes, int *position, void *out, int count,
                  MPI_Datatype type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Pack_size,
                 (int count, MPI_Datatype type, MPI_Comm comm, int *bytes));
TELPHER_MPI_CALL(int, Pack_external,
                 (const char *representation, const void *in, int count,
                  MPI_Datatype type, void *out, MPI_Aint out_bytes,
                  MPI_Aint *position));
TELPHER_MPI_CALL(int, Unpack_external,
                 (const char *representation, const void *in, MPI_Aint in_bytes,
                  MPI_Aint *position, void *out, int count, MPI_Datatype type));
TELPHER_MPI_CALL(int, Pack_external_size,
                 (const char *representation, int count, MPI_Datatype type,
                  MPI_Aint *bytes));
TELPHER_MPI_CALL(int, Get_address, (const void *at, MPI_Aint *address));
TELPHER_MPI_CALL(MPI_Aint, Aint_add, (MPI_Aint base, MPI_Aint displacement));
TELPHER_MPI_CALL(MPI_Aint, Aint_diff, (MPI_Aint one, MPI_Aint other));

TELPHER_MPI_CALL(int, Op_create, (MPI_User_function * fn, int commutes, MPI_Op *ret));
TELPHER_MPI_CALL(int, Op_free, (MPI_Op * op));
TELPHER_MPI_CALL(int, Op_commutative, (MPI_Op op, int *commutes));
TELPHER_MPI_CALL(int, Reduce_local,
                 (const void *in, void *inout, int count, MPI_Datatype type,
                  MPI_Op op));

#ifdef __cplusplus
}
#endif

#endif
