/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic processes of adaptive MPI: jobs that start others, or connect. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_DYNAMIC_H
#define TELPHER_AMPI_MPI_DYNAMIC_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

TELPHER_MPI_CALL(int, Comm_spawn,
                 (const char *command, char *argv[], int maxprocs, MPI_Info info,
                  int root, MPI_Comm comm, MPI_Comm *intercomm, int errcodes[]));
TELPHER_MPI_CALL(int, Comm_spawn_multiple,
                 (int count, char *commands[], char **argvs[], const int maxprocs[],
                  const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm,
                  int errcodes[]));
TELPHER_MPI_CALL(int, Comm_get_parent, (MPI_Comm * parent));
TELPHER_MPI_CALL(int, Open_port, (MPI_Info info, char *port_name));
TELPHER_MPI_CALL(int, Close_port, (const char *port_name));
TELPHER_MPI_CALL(int, Comm_accept,
                 (const char *port_name, MPI_Info info, int root, MPI_Comm comm,
                  MPI_Comm *newcomm));
TELPHER_MPI_CALL(int, Comm_connect,
                 (const char *port_name, MPI_Info info, int root, MPI_Comm comm,
                  MPI_Comm *newcomm));
TELPHER_MPI_CALL(int, Comm_join, (int fd, MPI_Comm *intercomm));
TELPHER_MPI_CALL(int, Publish_name,
                 (const char *service_name, MPI_Info info, const char *port_name));
TELPHER_MPI_CALL(int, Unpublish_name,
                 (const char *service_name, MPI_Info info, const char *port_name));
TELPHER_MPI_CALL(int, Lookup_name,
                 (const char *service_name, MPI_Info info, char *port_name));

#ifdef __cplusplus
}
#endif

#endif
