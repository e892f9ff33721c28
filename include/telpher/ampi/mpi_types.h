/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes of adaptive MPI. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_TYPES_H
#define TELPHER_AMPI_MPI_TYPES_H

#include "mpi.h"

/* A predefined type has its size in the second byte from below. */
#define MPI_CHAR ((MPI_Datatype)0x03000101)
#define MPI_BYTE ((MPI_Datatype)0x03000102)
#define MPI_INT ((MPI_Datatype)0x03000403)
#define MPI_DOUBLE ((MPI_Datatype)0x03000804)

#endif
