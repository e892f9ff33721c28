/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and statuses of Fortran in C: the same numbers. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_FORTRAN_H
#define TELPHER_AMPI_MPI_FORTRAN_H

#include "mpi.h"

#define MPI_Comm_c2f(comm) ((MPI_Fint)(comm))
#define MPI_Comm_f2c(comm) ((MPI_Comm)(comm))
#define MPI_Errhandler_c2f(handler) ((MPI_Fint)(handler))
#define MPI_Errhandler_f2c(handler) ((MPI_Errhandler)(handler))
#define MPI_Group_c2f(group) ((MPI_Fint)(group))
#define MPI_Group_f2c(group) ((MPI_Group)(group))
#define MPI_Info_c2f(info) ((MPI_Fint)(info))
#define MPI_Info_f2c(info) ((MPI_Info)(info))
#define MPI_Message_c2f(message) ((MPI_Fint)(message))
#define MPI_Message_f2c(message) ((MPI_Message)(message))
#define MPI_Op_c2f(op) ((MPI_Fint)(op))
#define MPI_Op_f2c(op) ((MPI_Op)(op))
#define MPI_Request_c2f(request) ((MPI_Fint)(request))
#define MPI_Request_f2c(request) ((MPI_Request)(request))
#define MPI_Type_c2f(type) ((MPI_Fint)(type))
#define MPI_Type_f2c(type) ((MPI_Datatype)(type))
#define MPI_Win_c2f(win) ((MPI_Fint)(win))
#define MPI_Win_f2c(win) ((MPI_Win)(win))

#define PMPI_Comm_c2f MPI_Comm_c2f
#define PMPI_Comm_f2c MPI_Comm_f2c
#define PMPI_Errhandler_c2f MPI_Errhandler_c2f
#define PMPI_Errhandler_f2c MPI_Errhandler_f2c
#define PMPI_Group_c2f MPI_Group_c2f
#define PMPI_Group_f2c MPI_Group_f2c
#define PMPI_Info_c2f MPI_Info_c2f
#define PMPI_Info_f2c MPI_Info_f2c
#define PMPI_Message_c2f MPI_Message_c2f
#define PMPI_Message_f2c MPI_Message_f2c
#define PMPI_Op_c2f MPI_Op_c2f
#define PMPI_Op_f2c MPI_Op_f2c
#define PMPI_Request_c2f MPI_Request_c2f
#define PMPI_Request_f2c MPI_Request_f2c
#define PMPI_Type_c2f MPI_Type_c2f
#define PMPI_Type_f2c MPI_Type_f2c
#define PMPI_Win_c2f MPI_Win_c2f
#define PMPI_Win_f2c MPI_Win_f2c

/* A status has the same layout in C, in Fortran and in mpi_f08. */
typedef MPI_Status MPI_F08_status;
#define MPI_F_STATUS_SIZE 6
#define MPI_F_SOURCE 0
#define MPI_F_TAG 1
#define MPI_F_ERROR 2
#define MPI_F_STATUS_IGNORE ((MPI_Fint *)0)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)0)
#define MPI_F08_STATUS_IGNORE ((MPI_F08_status *)0)
#define MPI_F08_STATUSES_IGNORE ((MPI_F08_status *)0)

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Status_c2f, (const MPI_Status *from, MPI_Fint *to));
TELPHER_MPI_CALL(int, Status_f2c, (const MPI_Fint *from, MPI_Status *to));
TELPHER_MPI_CALL(int, Status_c2f08, (const MPI_Status *from, MPI_F08_status *to));
TELPHER_MPI_CALL(int, Status_f082c, (const MPI_F08_status *from, MPI_Status *to));
TELPHER_MPI_CALL(int, Status_f082f, (const MPI_F08_status *from, MPI_Fint *to));
TELPHER_MPI_CALL(int, Status_f2f08, (const MPI_Fint *from, MPI_F08_status *to));

#ifdef __cplusplus
}
#endif

#endif
