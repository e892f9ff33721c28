/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses of C, Fortran and mpi_f08: copies, as all have the same layout. */
#include <string.h>

#include "ampi/ampi_int.h"

#define CONVERSION(name, from_type, to_type)                                           \
    int PMPI_Status_##name(const from_type *from, to_type *to)                         \
    {                                                                                  \
        memcpy(to, from, sizeof(MPI_Status));                                          \
        return MPI_SUCCESS;                                                            \
    }                                                                                  \
    TP_MPI_NAME(Status_##name)

CONVERSION(c2f, MPI_Status, MPI_Fint);
CONVERSION(f2c, MPI_Fint, MPI_Status);
CONVERSION(c2f08, MPI_Status, MPI_F08_status);
CONVERSION(f082c, MPI_F08_status, MPI_Status);
CONVERSION(f082f, MPI_F08_status, MPI_Fint);
CONVERSION(f2f08, MPI_Fint, MPI_F08_status);
