/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of adaptive MPI, of MPI 4: process sets mpi://WORLD and mpi://SELF. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_SESSION_H
#define TELPHER_AMPI_MPI_SESSION_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Session;
#define MPI_SESSION_NULL ((MPI_Session)0x0c000000)
#define MPI_MAX_PSET_NAME_LEN 256
#define MPI_MAX_STRINGTAG_LEN 256
#define MPI_Session_c2f(session) ((MPI_Fint)(session))
#define MPI_Session_f2c(session) ((MPI_Session)(session))
typedef MPI_Comm_errhandler_function MPI_Session_errhandler_function;

/* MPI_Finalize() ends MPI, unless the process has had a session before it: then a session may begin
 * or go on after it. */
TELPHER_MPI_CALL(int, Session_init,
                 (MPI_Info info, MPI_Errhandler handler, MPI_Session *session));
TELPHER_MPI_CALL(int, Session_finalize, (MPI_Session * session));
TELPHER_MPI_CALL(int, Session_get_info, (MPI_Session session, MPI_Info *ret));
TELPHER_MPI_CALL(int, Session_get_num_psets,
                 (MPI_Session session, MPI_Info info, int *count));
TELPHER_MPI_CALL(int, Session_get_nth_pset,
                 (MPI_Session session, MPI_Info info, int n, int *length, char *name));
TELPHER_MPI_CALL(int, Session_get_pset_info,
                 (MPI_Session session, const char *name, MPI_Info *ret));
TELPHER_MPI_CALL(int, Session_create_errhandler,
                 (MPI_Session_errhandler_function * fn, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Session_set_errhandler,
                 (MPI_Session session, MPI_Errhandler handler));
TELPHER_MPI_CALL(int, Session_get_errhandler,
                 (MPI_Session session, MPI_Errhandler *ret));
TELPHER_MPI_CALL(int, Session_call_errhandler, (MPI_Session session, int code));
TELPHER_MPI_CALL(int, Group_from_session_pset,
                 (MPI_Session session, const char *name, MPI_Group *ret));
TELPHER_MPI_CALL(int, Comm_create_from_group,
                 (MPI_Group group, const char *tag, MPI_Info info,
                  MPI_Errhandler handler, MPI_Comm *ret));
TELPHER_MPI_CALL(int, Intercomm_create_from_groups,
                 (MPI_Group local, int leader, MPI_Group remote, int remote_leader,
                  const char *tag, MPI_Info info, MPI_Errhandler handler,
                  MPI_Comm *ret));

#ifdef __cplusplus
}
#endif

#endif
