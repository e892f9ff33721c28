/* SPDX-License-Identifier: Apache-2.0 */
/* Point to point and requests of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_POINT_TO_POINT_H
#define TELPHER_AMPI_MPI_POINT_TO_POINT_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Send,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Ssend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Bsend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Rsend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm));
TELPHER_MPI_CALL(int, Isend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Issend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ibsend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Irsend,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Recv,
                 (void *buf, int count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm, MPI_Status *status));
TELPHER_MPI_CALL(int, Irecv,
                 (void *buf, int count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Sendrecv,
                 (const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
                  int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                  int source, int recvtag, MPI_Comm comm, MPI_Status *status));
TELPHER_MPI_CALL(int, Sendrecv_replace,
                 (void *buf, int count, MPI_Datatype type, int dest, int sendtag,
                  int source, int recvtag, MPI_Comm comm, MPI_Status *status));
TELPHER_MPI_CALL(int, Isendrecv,
                 (const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
                  int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                  int source, int recvtag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Isendrecv_replace,
                 (void *buf, int count, MPI_Datatype type, int dest, int sendtag,
                  int source, int recvtag, MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Buffer_attach, (void *buffer, int size));
TELPHER_MPI_CALL(int, Buffer_detach, (void *buffer_address, int *size));

TELPHER_MPI_CALL(int, Send_init,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Ssend_init,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Bsend_init,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Rsend_init,
                 (const void *buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Recv_init,
                 (void *buf, int count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm, MPI_Request *request));
TELPHER_MPI_CALL(int, Start, (MPI_Request * request));
TELPHER_MPI_CALL(int, Startall, (int count, MPI_Request requests[]));

TELPHER_MPI_CALL(int, Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status));
TELPHER_MPI_CALL(int, Iprobe,
                 (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status));
TELPHER_MPI_CALL(int, Mprobe,
                 (int source, int tag, MPI_Comm comm, MPI_Message *message,
                  MPI_Status *status));
TELPHER_MPI_CALL(int, Improbe,
                 (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                  MPI_Status *status));
TELPHER_MPI_CALL(int, Mrecv,
                 (void *buf, int count, MPI_Datatype type, MPI_Message *message,
                  MPI_Status *status));
TELPHER_MPI_CALL(int, Imrecv,
                 (void *buf, int count, MPI_Datatype type, MPI_Message *message,
                  MPI_Request *request));

TELPHER_MPI_CALL(int, Wait, (MPI_Request * request, MPI_Status *status));
TELPHER_MPI_CALL(int, Waitall,
                 (int count, MPI_Request requests[], MPI_Status statuses[]));
TELPHER_MPI_CALL(int, Waitany,
                 (int count, MPI_Request requests[], int *index, MPI_Status *status));
TELPHER_MPI_CALL(int, Waitsome,
                 (int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[]));
TELPHER_MPI_CALL(int, Test, (MPI_Request * request, int *flag, MPI_Status *status));
TELPHER_MPI_CALL(int, Testall,
                 (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]));
TELPHER_MPI_CALL(int, Testany,
                 (int count, MPI_Request requests[], int *index, int *flag,
                  MPI_Status *status));
TELPHER_MPI_CALL(int, Testsome,
                 (int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[]));
TELPHER_MPI_CALL(int, Request_free, (MPI_Request * request));
TELPHER_MPI_CALL(int, Request_get_status,
                 (MPI_Request request, int *flag, MPI_Status *status));
TELPHER_MPI_CALL(int, Cancel, (MPI_Request * request));
TELPHER_MPI_CALL(int, Test_cancelled, (const MPI_Status *status, int *flag));
typedef int MPI_Grequest_query_function(void *extra, MPI_Status *status);
typedef int MPI_Grequest_free_function(void *extra);
typedef int MPI_Grequest_cancel_function(void *extra, int complete);
TELPHER_MPI_CALL(int, Grequest_start,
                 (MPI_Grequest_query_function * query,
                  MPI_Grequest_free_function *free_fn,
                  MPI_Grequest_cancel_function *cancel, void *extra,
                  MPI_Request *request));
TELPHER_MPI_CALL(int, Grequest_complete, (MPI_Request request));
TELPHER_MPI_CALL(int, Status_set_cancelled, (MPI_Status * status, int flag));

#ifdef __cplusplus
}
#endif

#endif
