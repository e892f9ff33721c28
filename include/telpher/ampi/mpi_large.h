/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of adaptive MPI with large counts. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_LARGE_H
#define TELPHER_AMPI_MPI_LARGE_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An operation of the program on a large count of elements. */
typedef void MPI_User_function_c(void *in, void *inout, MPI_Count *count,
                                 MPI_Datatype *type);
TELPHER_MPI_CALL(int, Op_create_c,
                 (MPI_User_function_c * fn, int commutes, MPI_Op *op));
TELPHER_MPI_CALL(int, Type_get_envelope_c,
                 (MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
                  MPI_Count *large_counts, MPI_Count *types, int *combiner));
TELPHER_MPI_CALL(int, Type_get_contents_c,
                 (MPI_Datatype type, MPI_Count max_integers, MPI_Count max_addresses,
                  MPI_Count max_large_counts, MPI_Count max_types, int integers[],
                  MPI_Aint addresses[], MPI_Count large_counts[],
                  MPI_Datatype types[]));
TELPHER_MPI_CALL(int, Accumulate_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type,
                  int target, MPI_Aint disp, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Win win));
TELPHER_MPI_CALL(int, Bsend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm));
TELPHER_MPI_CALL(int, Bsend_init_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Buffer_attach_c, (void *buffer, MPI_Count size));
TELPHER_MPI_CALL(int, Buffer_detach_c, (void *buffer_address, MPI_Count *size));
TELPHER_MPI_CALL(int, Get_c,
                 (void *in, MPI_Count in_count, MPI_Datatype in_type, int target,
                  MPI_Aint disp, MPI_Count count, MPI_Datatype type, MPI_Win win));
TELPHER_MPI_CALL(int, Get_accumulate_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int target, MPI_Aint disp,
                  MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win));
TELPHER_MPI_CALL(int, Get_count_c,
                 (const MPI_Status *status, MPI_Datatype type, MPI_Count *count));
TELPHER_MPI_CALL(int, Get_elements_c,
                 (const MPI_Status *status, MPI_Datatype type, MPI_Count *count));
TELPHER_MPI_CALL(int, Ibsend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Imrecv_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, MPI_Message *message,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Irecv_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Irsend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Isend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Isendrecv_c,
                 (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                  int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                  MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Isendrecv_replace_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag,
                  int source, int recvtag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Issend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Mrecv_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, MPI_Message *message,
                  MPI_Status *status));
TELPHER_MPI_CALL(int, Pack_c,
                 (const void *in, MPI_Count count, MPI_Datatype type, void *out,
                  MPI_Count out_bytes, MPI_Count *position, MPI_Comm comm));
TELPHER_MPI_CALL(int, Pack_external_c,
                 (const char *representation, const void *in, MPI_Count count,
                  MPI_Datatype type, void *out, MPI_Count out_bytes,
                  MPI_Count *position));
TELPHER_MPI_CALL(int, Pack_external_size_c,
                 (const char *representation, MPI_Count count, MPI_Datatype type,
                  MPI_Count *bytes));
TELPHER_MPI_CALL(int, Pack_size_c,
                 (MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Count *bytes));
TELPHER_MPI_CALL(int, Put_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type,
                  int target, MPI_Aint disp, MPI_Count count, MPI_Datatype type,
                  MPI_Win win));
TELPHER_MPI_CALL(int, Raccumulate_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type,
                  int target, MPI_Aint disp, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, MPI_Win win, MPI_Request *request));
TELPHER_MPI_CALL(int, Recv_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm, MPI_Status *status));
TELPHER_MPI_CALL(int, Recv_init_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Reduce_local_c,
                 (const void *in, void *inout, MPI_Count count, MPI_Datatype type,
                  MPI_Op op));
TELPHER_MPI_CALL(int, Rget_c,
                 (void *in, MPI_Count in_count, MPI_Datatype in_type, int target,
                  MPI_Aint disp, MPI_Count count, MPI_Datatype type, MPI_Win win,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Rget_accumulate_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type, void *in,
                  MPI_Count in_count, MPI_Datatype in_type, int target, MPI_Aint disp,
                  MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Rput_c,
                 (const void *out, MPI_Count out_count, MPI_Datatype out_type,
                  int target, MPI_Aint disp, MPI_Count count, MPI_Datatype type,
                  MPI_Win win, MPI_Request *request));
TELPHER_MPI_CALL(int, Rsend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm));
TELPHER_MPI_CALL(int, Rsend_init_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Send_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm));
TELPHER_MPI_CALL(int, Send_init_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Sendrecv_c,
                 (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                  int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                  MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                  MPI_Status *status));
TELPHER_MPI_CALL(int, Sendrecv_replace_c,
                 (void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag,
                  int source, int recvtag, MPI_Comm comm, MPI_Status *status));
TELPHER_MPI_CALL(int, Ssend_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm));
TELPHER_MPI_CALL(int, Ssend_init_c,
                 (const void *buf, MPI_Count count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Status_set_elements_c,
                 (MPI_Status * status, MPI_Datatype type, MPI_Count count));
TELPHER_MPI_CALL(int, Type_contiguous_c,
                 (MPI_Count count, MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_darray_c,
                 (int size, int rank, int dims, const MPI_Count sizes[],
                  const int distributions[], const int arguments[],
                  const int processes[], int order, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_hindexed_c,
                 (MPI_Count count, const MPI_Count lengths[], const MPI_Count displs[],
                  MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_hindexed_block_c,
                 (MPI_Count count, MPI_Count length, const MPI_Count displs[],
                  MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_hvector_c,
                 (MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_indexed_block_c,
                 (MPI_Count count, MPI_Count length, const MPI_Count displs[],
                  MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_resized_c,
                 (MPI_Datatype old, MPI_Count lb, MPI_Count extent, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_struct_c,
                 (MPI_Count count, const MPI_Count lengths[], const MPI_Count displs[],
                  const MPI_Datatype types[], MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_create_subarray_c,
                 (int dims, const MPI_Count sizes[], const MPI_Count subsizes[],
                  const MPI_Count starts[], int order, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_get_extent_c,
                 (MPI_Datatype type, MPI_Count *lb, MPI_Count *extent));
TELPHER_MPI_CALL(int, Type_get_true_extent_c,
                 (MPI_Datatype type, MPI_Count *lb, MPI_Count *extent));
TELPHER_MPI_CALL(int, Type_indexed_c,
                 (MPI_Count count, const MPI_Count lengths[], const MPI_Count displs[],
                  MPI_Datatype old, MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Type_size_c, (MPI_Datatype type, MPI_Count *size));
TELPHER_MPI_CALL(int, Type_vector_c,
                 (MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype old,
                  MPI_Datatype *ret));
TELPHER_MPI_CALL(int, Unpack_c,
                 (const void *in, MPI_Count in_bytes, MPI_Count *position, void *out,
                  MPI_Count count, MPI_Datatype type, MPI_Comm comm));
TELPHER_MPI_CALL(int, Unpack_external_c,
                 (const char *representation, const void *in, MPI_Count in_bytes,
                  MPI_Count *position, void *out, MPI_Count count, MPI_Datatype type));
TELPHER_MPI_CALL(int, Win_allocate_c,
                 (MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                  void *base, MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_allocate_shared_c,
                 (MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                  void *base, MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_create_c,
                 (void *base, MPI_Aint size, MPI_Aint unit, MPI_Info info,
                  MPI_Comm comm, MPI_Win *ret));
TELPHER_MPI_CALL(int, Win_shared_query_c,
                 (MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *unit, void *base));

#ifdef __cplusplus
}
#endif

#endif
