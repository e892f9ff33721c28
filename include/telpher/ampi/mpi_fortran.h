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

static inline int
MPI_Status_c2f(const MPI_Status *status, MPI_Fint *to)
{
    *(MPI_Status *)(void *)to = *status;
    return MPI_SUCCESS;
}

static inline int
MPI_Status_f2c(const MPI_Fint *from, MPI_Status *status)
{
    *status = *(const MPI_Status *)(const void *)from;
    return MPI_SUCCESS;
}

#endif
