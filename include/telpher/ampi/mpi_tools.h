/* SPDX-License-Identifier: Apache-2.0 */
/* The tools interface of adaptive MPI: control and performance variables. Included by mpi.h. */
#ifndef TELPHER_AMPI_MPI_TOOLS_H
#define TELPHER_AMPI_MPI_TOOLS_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct telpher_mpi_t_enum *MPI_T_enum;
typedef struct telpher_mpi_t_cvar *MPI_T_cvar_handle;
typedef struct telpher_mpi_t_pvar *MPI_T_pvar_handle;
typedef struct telpher_mpi_t_session *MPI_T_pvar_session;
#define MPI_T_ENUM_NULL ((MPI_T_enum)0)
#define MPI_T_CVAR_HANDLE_NULL ((MPI_T_cvar_handle)0)
#define MPI_T_PVAR_HANDLE_NULL ((MPI_T_pvar_handle)0)
#define MPI_T_PVAR_ALL_HANDLES ((MPI_T_pvar_handle)(intptr_t)-1)
#define MPI_T_PVAR_SESSION_NULL ((MPI_T_pvar_session)0)

enum telpher_mpi_t_verbosity {
    MPI_T_VERBOSITY_USER_BASIC = 1,
    MPI_T_VERBOSITY_USER_DETAIL,
    MPI_T_VERBOSITY_USER_ALL,
    MPI_T_VERBOSITY_TUNER_BASIC,
    MPI_T_VERBOSITY_TUNER_DETAIL,
    MPI_T_VERBOSITY_TUNER_ALL,
    MPI_T_VERBOSITY_MPIDEV_BASIC,
    MPI_T_VERBOSITY_MPIDEV_DETAIL,
    MPI_T_VERBOSITY_MPIDEV_ALL
};
enum telpher_mpi_t_bind {
    MPI_T_BIND_NO_OBJECT = 1,
    MPI_T_BIND_MPI_COMM,
    MPI_T_BIND_MPI_DATATYPE,
    MPI_T_BIND_MPI_ERRHANDLER,
    MPI_T_BIND_MPI_FILE,
    MPI_T_BIND_MPI_GROUP,
    MPI_T_BIND_MPI_OP,
    MPI_T_BIND_MPI_REQUEST,
    MPI_T_BIND_MPI_WIN,
    MPI_T_BIND_MPI_MESSAGE,
    MPI_T_BIND_MPI_INFO,
    MPI_T_BIND_MPI_SESSION
};
enum telpher_mpi_t_scope {
    MPI_T_SCOPE_CONSTANT = 1,
    MPI_T_SCOPE_READONLY,
    MPI_T_SCOPE_LOCAL,
    MPI_T_SCOPE_GROUP,
    MPI_T_SCOPE_GROUP_EQ,
    MPI_T_SCOPE_ALL,
    MPI_T_SCOPE_ALL_EQ
};
enum telpher_mpi_t_pvar_class {
    MPI_T_PVAR_CLASS_STATE = 1,
    MPI_T_PVAR_CLASS_LEVEL,
    MPI_T_PVAR_CLASS_SIZE,
    MPI_T_PVAR_CLASS_PERCENTAGE,
    MPI_T_PVAR_CLASS_HIGHWATERMARK,
    MPI_T_PVAR_CLASS_LOWWATERMARK,
    MPI_T_PVAR_CLASS_COUNTER,
    MPI_T_PVAR_CLASS_AGGREGATE,
    MPI_T_PVAR_CLASS_TIMER,
    MPI_T_PVAR_CLASS_GENERIC
};

TELPHER_MPI_CALL(int, T_init_thread, (int required, int *provided));
TELPHER_MPI_CALL(int, T_finalize, (void));

TELPHER_MPI_CALL(int, T_enum_get_info,
                 (MPI_T_enum enumtype, int *count, char *name, int *name_length));
TELPHER_MPI_CALL(int, T_enum_get_item,
                 (MPI_T_enum enumtype, int index, int *value, char *name,
                  int *name_length));

TELPHER_MPI_CALL(int, T_cvar_get_num, (int *count));
TELPHER_MPI_CALL(int, T_cvar_get_info,
                 (int index, char *name, int *name_length, int *verbosity,
                  MPI_Datatype *type, MPI_T_enum *enumtype, char *about,
                  int *about_length, int *bind, int *scope));
TELPHER_MPI_CALL(int, T_cvar_get_index, (const char *name, int *index));
TELPHER_MPI_CALL(int, T_cvar_handle_alloc,
                 (int index, void *object, MPI_T_cvar_handle *ret, int *count));
TELPHER_MPI_CALL(int, T_cvar_handle_free, (MPI_T_cvar_handle * handle));
TELPHER_MPI_CALL(int, T_cvar_read, (MPI_T_cvar_handle handle, void *value));
TELPHER_MPI_CALL(int, T_cvar_write, (MPI_T_cvar_handle handle, const void *value));

TELPHER_MPI_CALL(int, T_pvar_get_num, (int *count));
TELPHER_MPI_CALL(int, T_pvar_get_info,
                 (int index, char *name, int *name_length, int *verbosity,
                  int *var_class, MPI_Datatype *type, MPI_T_enum *enumtype, char *about,
                  int *about_length, int *bind, int *readonly, int *continuous,
                  int *atomic));
TELPHER_MPI_CALL(int, T_pvar_get_index, (const char *name, int var_class, int *index));
TELPHER_MPI_CALL(int, T_pvar_session_create, (MPI_T_pvar_session * ret));
TELPHER_MPI_CALL(int, T_pvar_session_free, (MPI_T_pvar_session * session));
TELPHER_MPI_CALL(int, T_pvar_handle_alloc,
                 (MPI_T_pvar_session session, int index, void *object,
                  MPI_T_pvar_handle *ret, int *count));
TELPHER_MPI_CALL(int, T_pvar_handle_free,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle *handle));
TELPHER_MPI_CALL(int, T_pvar_start,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle handle));
TELPHER_MPI_CALL(int, T_pvar_stop,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle handle));
TELPHER_MPI_CALL(int, T_pvar_read,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *value));
TELPHER_MPI_CALL(int, T_pvar_write,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle handle,
                  const void *value));
TELPHER_MPI_CALL(int, T_pvar_reset,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle handle));
TELPHER_MPI_CALL(int, T_pvar_readreset,
                 (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *value));

TELPHER_MPI_CALL(int, T_category_get_num, (int *count));
TELPHER_MPI_CALL(int, T_category_get_info,
                 (int index, char *name, int *name_length, char *about,
                  int *about_length, int *cvars, int *pvars, int *categories));
TELPHER_MPI_CALL(int, T_category_get_index, (const char *name, int *index));
TELPHER_MPI_CALL(int, T_category_get_cvars, (int index, int length, int cvars[]));
TELPHER_MPI_CALL(int, T_category_get_pvars, (int index, int length, int pvars[]));
TELPHER_MPI_CALL(int, T_category_get_categories,
                 (int index, int length, int categories[]));
TELPHER_MPI_CALL(int, T_category_changed, (int *stamp));

#ifdef __cplusplus
}
#endif

#endif
