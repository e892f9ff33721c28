/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive MPI: the names, types and constants of MPI 3.1. telpher-mpicc finds this file as
 * <mpi.h>. Every call exists as MPI_ and as PMPI_; the MPI_ names are weak, for tools. A program that
 * needs a missing call does not link: docs/guide/ampi.md lists them.
 */
#ifndef TELPHER_AMPI_MPI_H
#define TELPHER_AMPI_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_VERSION 3
#define MPI_SUBVERSION 1
#define TELPHER_AMPI 1 /**< this is Telpher's MPI */

/* Declares a call under both names. */
#define TELPHER_MPI_CALL(type, name, args)                                             \
    __attribute__((visibility("default"))) type MPI_##name args;                       \
    __attribute__((visibility("default"))) type PMPI_##name args

/* A handle has its kind in the upper byte; 0 below it is the null handle. Handles of Fortran
 * are the same numbers. */
typedef int MPI_Comm;
typedef int MPI_Group;
typedef int MPI_Datatype;
typedef int MPI_Op;
typedef int MPI_Request;
typedef int MPI_Info;
typedef int MPI_Errhandler;
typedef int MPI_Win;
typedef int MPI_Message;
typedef int MPI_Fint;
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;
typedef int64_t MPI_Offset;

#define MPI_COMM_NULL ((MPI_Comm)0x01000000)
#define MPI_COMM_WORLD ((MPI_Comm)0x01000001)
#define MPI_COMM_SELF ((MPI_Comm)0x01000002)
#define MPI_GROUP_NULL ((MPI_Group)0x02000000)
#define MPI_GROUP_EMPTY ((MPI_Group)0x02000001)
#define MPI_DATATYPE_NULL ((MPI_Datatype)0x03000000)
#define MPI_OP_NULL ((MPI_Op)0x04000000)
#define MPI_REQUEST_NULL ((MPI_Request)0x05000000)
#define MPI_INFO_NULL ((MPI_Info)0x06000000)
#define MPI_INFO_ENV ((MPI_Info)0x06000001)
#define MPI_ERRHANDLER_NULL ((MPI_Errhandler)0x07000000)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0x07000001)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x07000002)
#define MPI_WIN_NULL ((MPI_Win)0x08000000)
#define MPI_MESSAGE_NULL ((MPI_Message)0x0a000000)
#define MPI_MESSAGE_NO_PROC ((MPI_Message)0x0a000001)

/** Result of a receive or a test. */
typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int telpher_canceled;
    uint32_t telpher_bytes[2]; /**< low, high */
} MPI_Status;
#define MPI_STATUS_SIZE 6 /**< integers, in Fortran */
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_ERRCODES_IGNORE ((int *)0)
#define MPI_ARGV_NULL ((char **)0)
#define MPI_ARGVS_NULL ((char ***)0)

#define MPI_BOTTOM ((void *)0)
#define MPI_IN_PLACE ((void *)(intptr_t)-1)
#define MPI_UNWEIGHTED ((int *)(intptr_t)-2)
#define MPI_WEIGHTS_EMPTY ((int *)(intptr_t)-3)

#define MPI_PROC_NULL (-1)
#define MPI_ANY_SOURCE (-2)
#define MPI_ROOT (-3)
#define MPI_ANY_TAG (-1)
#define MPI_UNDEFINED (-32766)
#define MPI_KEYVAL_INVALID 0x09000000

#define MPI_MAX_PROCESSOR_NAME 128
#define MPI_MAX_ERROR_STRING 512
#define MPI_MAX_OBJECT_NAME 128
#define MPI_MAX_LIBRARY_VERSION_STRING 256
#define MPI_MAX_INFO_KEY 255
#define MPI_MAX_INFO_VAL 1024
#define MPI_MAX_PORT_NAME 256
#define MPI_BSEND_OVERHEAD 96

enum telpher_mpi_thread {
    MPI_THREAD_SINGLE = 0,
    MPI_THREAD_FUNNELED = 1,
    MPI_THREAD_SERIALIZED = 2,
    MPI_THREAD_MULTIPLE = 3
};

enum telpher_mpi_compare {
    MPI_IDENT = 0,
    MPI_CONGRUENT = 1,
    MPI_SIMILAR = 2,
    MPI_UNEQUAL = 3
};

#define MPI_COMM_TYPE_SHARED 1

/* Error classes. A code of this library is its class. */
#define MPI_SUCCESS 0
#define MPI_ERR_BUFFER 1
#define MPI_ERR_COUNT 2
#define MPI_ERR_TYPE 3
#define MPI_ERR_TAG 4
#define MPI_ERR_COMM 5
#define MPI_ERR_RANK 6
#define MPI_ERR_ROOT 7
#define MPI_ERR_GROUP 8
#define MPI_ERR_OP 9
#define MPI_ERR_TOPOLOGY 10
#define MPI_ERR_DIMS 11
#define MPI_ERR_ARG 12
#define MPI_ERR_UNKNOWN 13
#define MPI_ERR_TRUNCATE 14
#define MPI_ERR_OTHER 15
#define MPI_ERR_INTERN 16
#define MPI_ERR_IN_STATUS 17
#define MPI_ERR_PENDING 18
#define MPI_ERR_REQUEST 19
#define MPI_ERR_ACCESS 20
#define MPI_ERR_AMODE 21
#define MPI_ERR_BAD_FILE 22
#define MPI_ERR_CONVERSION 23
#define MPI_ERR_DUP_DATAREP 24
#define MPI_ERR_FILE_EXISTS 25
#define MPI_ERR_FILE_IN_USE 26
#define MPI_ERR_FILE 27
#define MPI_ERR_INFO 28
#define MPI_ERR_INFO_KEY 29
#define MPI_ERR_INFO_VALUE 30
#define MPI_ERR_INFO_NOKEY 31
#define MPI_ERR_IO 32
#define MPI_ERR_NAME 33
#define MPI_ERR_NO_MEM 34
#define MPI_ERR_NOT_SAME 35
#define MPI_ERR_NO_SPACE 36
#define MPI_ERR_NO_SUCH_FILE 37
#define MPI_ERR_PORT 38
#define MPI_ERR_QUOTA 39
#define MPI_ERR_READ_ONLY 40
#define MPI_ERR_SERVICE 41
#define MPI_ERR_SPAWN 42
#define MPI_ERR_UNSUPPORTED_DATAREP 43
#define MPI_ERR_UNSUPPORTED_OPERATION 44
#define MPI_ERR_WIN 45
#define MPI_ERR_BASE 46
#define MPI_ERR_LOCKTYPE 47
#define MPI_ERR_KEYVAL 48
#define MPI_ERR_RMA_CONFLICT 49
#define MPI_ERR_RMA_SYNC 50
#define MPI_ERR_SIZE 51
#define MPI_ERR_DISP 52
#define MPI_ERR_ASSERT 53
#define MPI_ERR_RMA_RANGE 54
#define MPI_ERR_RMA_ATTACH 55
#define MPI_ERR_RMA_SHARED 56
#define MPI_ERR_RMA_FLAVOR 57
#define MPI_ERR_PROC_FAILED 58
#define MPI_ERR_SESSION 59
#define MPI_ERR_ERRHANDLER 60
#define MPI_ERR_VALUE_TOO_LARGE 61
#define MPI_ERR_PROC_ABORTED 62
#define MPI_T_ERR_MEMORY 64
#define MPI_T_ERR_NOT_INITIALIZED 65
#define MPI_T_ERR_CANNOT_INIT 66
#define MPI_T_ERR_INVALID_INDEX 67
#define MPI_T_ERR_INVALID_ITEM 68
#define MPI_T_ERR_INVALID_HANDLE 69
#define MPI_T_ERR_OUT_OF_HANDLES 70
#define MPI_T_ERR_OUT_OF_SESSIONS 71
#define MPI_T_ERR_INVALID_SESSION 72
#define MPI_T_ERR_CVAR_SET_NOT_NOW 73
#define MPI_T_ERR_CVAR_SET_NEVER 74
#define MPI_T_ERR_PVAR_NO_STARTSTOP 75
#define MPI_T_ERR_PVAR_NO_WRITE 76
#define MPI_T_ERR_PVAR_NO_ATOMIC 77
#define MPI_T_ERR_INVALID_NAME 78
#define MPI_T_ERR_INVALID 79
#define MPI_T_ERR_NOT_SUPPORTED 80
#define MPI_ERR_LASTCODE 95

/* Functions of attributes. */
typedef int MPI_Comm_copy_attr_function(MPI_Comm comm, int keyval, void *extra,
                                        void *in, void *out, int *flag);
typedef int MPI_Comm_delete_attr_function(MPI_Comm comm, int keyval, void *value,
                                          void *extra);
typedef MPI_Comm_copy_attr_function MPI_Type_copy_attr_function;
typedef MPI_Comm_copy_attr_function MPI_Win_copy_attr_function;
typedef MPI_Comm_copy_attr_function MPI_Copy_function;
typedef MPI_Comm_delete_attr_function MPI_Type_delete_attr_function;
typedef MPI_Comm_delete_attr_function MPI_Win_delete_attr_function;
typedef MPI_Comm_delete_attr_function MPI_Delete_function;

/* Error handlers. */
typedef void MPI_Comm_errhandler_function(MPI_Comm *comm, int *code, ...);
typedef MPI_Comm_errhandler_function MPI_Win_errhandler_function;
typedef MPI_Comm_errhandler_function MPI_Handler_function;
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;

#ifdef __cplusplus
}
#endif

#include "mpi_collective.h"
#include "mpi_dynamic.h"
#include "mpi_fortran.h"
#include "mpi_large.h"
#include "mpi_large_collective.h"
#include "mpi_objects.h"
#include "mpi_partitioned.h"
#include "mpi_persistent.h"
#include "mpi_point_to_point.h"
#include "mpi_session.h"
#include "mpi_tools.h"
#include "mpi_topology.h"
#include "mpi_types.h"
#include "mpi_window.h"
#include "mpi_world.h"

#endif
