/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of error handlers, and the codes that programs add. */
#include "ampi/errhandler.h"

#include <stdio.h>
#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

/* ---- handlers ---- */

void
tp_ampi_errhandler_ref(MPI_Errhandler handler)
{
    struct tp_ampi_errhandler *made = tp_ampi_handle_get(handler, TP_AMPI_ERRHANDLER);

    if (made != NULL) {
        made->refs++;
    }
}

void
tp_ampi_errhandler_unref(MPI_Errhandler handler)
{
    struct tp_ampi_errhandler *made = tp_ampi_handle_get(handler, TP_AMPI_ERRHANDLER);

    if (made != NULL && --made->refs == 0) {
        tp_ampi_handle_destroy(handler);
        tp_free(made);
    }
}

static bool
exists(MPI_Errhandler handler)
{
    return handler == MPI_ERRORS_ARE_FATAL || handler == MPI_ERRORS_RETURN ||
           tp_ampi_handle_get(handler, TP_AMPI_ERRHANDLER) != NULL;
}

int
tp_ampi_errhandler_set(MPI_Errhandler *at, MPI_Errhandler handler)
{
    if (!exists(handler)) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "%#x is no error handler", handler);
    }
    tp_ampi_errhandler_ref(handler);
    tp_ampi_errhandler_unref(*at);
    *at = handler;
    return MPI_SUCCESS;
}

int
PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *fn, MPI_Errhandler *ret)
{
    struct tp_ampi_errhandler *made = tp_zalloc(sizeof(*made), "MPI error handler");

    *ret = MPI_ERRHANDLER_NULL;
    if (made != NULL) {
        made->refs = 1;
        made->fn = fn;
        made->handle = tp_ampi_handle_create(TP_AMPI_ERRHANDLER, made);
    }
    if (made == NULL || made->handle == 0) {
        tp_free(made);
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for an error handler");
    }
    *ret = made->handle;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_create_errhandler);

int
PMPI_Errhandler_free(MPI_Errhandler *handler)
{
    if (!exists(*handler)) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "%#x is no error handler", *handler);
    }
    tp_ampi_errhandler_unref(*handler);
    *handler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Errhandler_free);

int
PMPI_Comm_set_errhandler(MPI_Comm handle, MPI_Errhandler handler)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    return comm == NULL ? MPI_ERR_COMM
                        : tp_ampi_errhandler_set(&comm->errhandler, handler);
}
TP_MPI_NAME(Comm_set_errhandler);

int
PMPI_Comm_get_errhandler(MPI_Comm handle, MPI_Errhandler *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    tp_ampi_errhandler_ref(comm->errhandler);
    *ret = comm->errhandler;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_get_errhandler);

int
PMPI_Comm_call_errhandler(MPI_Comm handle, int code)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    (void)tp_ampi_error(comm, code, "the program reports error %d", code);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_call_errhandler);

/* ---- codes ---- */

static const char *const class_texts[] = {
    [MPI_SUCCESS] = "MPI_SUCCESS: no error",
    [MPI_ERR_BUFFER] = "MPI_ERR_BUFFER: invalid buffer",
    [MPI_ERR_COUNT] = "MPI_ERR_COUNT: invalid count",
    [MPI_ERR_TYPE] = "MPI_ERR_TYPE: invalid datatype",
    [MPI_ERR_TAG] = "MPI_ERR_TAG: invalid tag",
    [MPI_ERR_COMM] = "MPI_ERR_COMM: invalid communicator",
    [MPI_ERR_RANK] = "MPI_ERR_RANK: invalid rank",
    [MPI_ERR_ROOT] = "MPI_ERR_ROOT: invalid root",
    [MPI_ERR_GROUP] = "MPI_ERR_GROUP: invalid group",
    [MPI_ERR_OP] = "MPI_ERR_OP: invalid operation",
    [MPI_ERR_TOPOLOGY] = "MPI_ERR_TOPOLOGY: invalid topology",
    [MPI_ERR_DIMS] = "MPI_ERR_DIMS: invalid dimensions",
    [MPI_ERR_ARG] = "MPI_ERR_ARG: invalid argument",
    [MPI_ERR_UNKNOWN] = "MPI_ERR_UNKNOWN: unknown error",
    [MPI_ERR_TRUNCATE] = "MPI_ERR_TRUNCATE: message truncated on receive",
    [MPI_ERR_OTHER] = "MPI_ERR_OTHER: known error not in this list",
    [MPI_ERR_INTERN] = "MPI_ERR_INTERN: internal error",
    [MPI_ERR_IN_STATUS] = "MPI_ERR_IN_STATUS: error code is in status",
    [MPI_ERR_PENDING] = "MPI_ERR_PENDING: pending request",
    [MPI_ERR_REQUEST] = "MPI_ERR_REQUEST: invalid request",
    [MPI_ERR_INFO] = "MPI_ERR_INFO: invalid info",
    [MPI_ERR_INFO_KEY] = "MPI_ERR_INFO_KEY: invalid info key",
    [MPI_ERR_INFO_VALUE] = "MPI_ERR_INFO_VALUE: invalid info value",
    [MPI_ERR_INFO_NOKEY] = "MPI_ERR_INFO_NOKEY: no such info key",
    [MPI_ERR_NAME] = "MPI_ERR_NAME: no such published name",
    [MPI_ERR_NO_MEM] = "MPI_ERR_NO_MEM: no memory",
    [MPI_ERR_SPAWN] = "MPI_ERR_SPAWN: cannot start processes",
    [MPI_ERR_UNSUPPORTED_OPERATION] =
        "MPI_ERR_UNSUPPORTED_OPERATION: operation is not supported",
    [MPI_ERR_WIN] = "MPI_ERR_WIN: invalid window",
    [MPI_ERR_BASE] = "MPI_ERR_BASE: invalid base",
    [MPI_ERR_LOCKTYPE] = "MPI_ERR_LOCKTYPE: invalid lock type",
    [MPI_ERR_KEYVAL] = "MPI_ERR_KEYVAL: invalid key value",
    [MPI_ERR_RMA_CONFLICT] = "MPI_ERR_RMA_CONFLICT: conflicting accesses to window",
    [MPI_ERR_RMA_SYNC] = "MPI_ERR_RMA_SYNC: wrong synchronization of accesses",
    [MPI_ERR_SIZE] = "MPI_ERR_SIZE: invalid size",
    [MPI_ERR_DISP] = "MPI_ERR_DISP: invalid displacement",
    [MPI_ERR_ASSERT] = "MPI_ERR_ASSERT: invalid assertion",
    [MPI_ERR_RMA_RANGE] = "MPI_ERR_RMA_RANGE: target memory is not in the window",
    [MPI_ERR_RMA_ATTACH] = "MPI_ERR_RMA_ATTACH: memory cannot be attached",
    [MPI_ERR_RMA_SHARED] = "MPI_ERR_RMA_SHARED: memory cannot be shared",
    [MPI_ERR_RMA_FLAVOR] = "MPI_ERR_RMA_FLAVOR: window of the wrong kind",
    [MPI_ERR_PROC_FAILED] = "MPI_ERR_PROC_FAILED: a process failed",
    [MPI_ERR_PORT] = "MPI_ERR_PORT: invalid port",
    [MPI_ERR_SERVICE] = "MPI_ERR_SERVICE: invalid service name",
    [MPI_ERR_SESSION] = "MPI_ERR_SESSION: invalid session",
    [MPI_ERR_ERRHANDLER] = "MPI_ERR_ERRHANDLER: invalid error handler",
    [MPI_ERR_VALUE_TOO_LARGE] = "MPI_ERR_VALUE_TOO_LARGE: value does not fit",
    [MPI_ERR_PROC_ABORTED] = "MPI_ERR_PROC_ABORTED: a process was aborted",
    [MPI_T_ERR_NOT_INITIALIZED] =
        "MPI_T_ERR_NOT_INITIALIZED: call MPI_T_init_thread first",
    [MPI_T_ERR_CANNOT_INIT] = "MPI_T_ERR_CANNOT_INIT: a setting is wrong",
    [MPI_T_ERR_INVALID_INDEX] = "MPI_T_ERR_INVALID_INDEX: invalid index",
    [MPI_T_ERR_INVALID_HANDLE] = "MPI_T_ERR_INVALID_HANDLE: invalid handle",
    [MPI_T_ERR_OUT_OF_HANDLES] = "MPI_T_ERR_OUT_OF_HANDLES: no memory for a handle",
    [MPI_T_ERR_OUT_OF_SESSIONS] = "MPI_T_ERR_OUT_OF_SESSIONS: no memory for a session",
    [MPI_T_ERR_INVALID_SESSION] = "MPI_T_ERR_INVALID_SESSION: invalid session",
    [MPI_T_ERR_CVAR_SET_NEVER] = "MPI_T_ERR_CVAR_SET_NEVER: set it before MPI_Init",
    [MPI_T_ERR_PVAR_NO_STARTSTOP] =
        "MPI_T_ERR_PVAR_NO_STARTSTOP: the variable always runs",
    [MPI_T_ERR_PVAR_NO_WRITE] = "MPI_T_ERR_PVAR_NO_WRITE: the variable is only read",
    [MPI_T_ERR_INVALID_NAME] = "MPI_T_ERR_INVALID_NAME: no such name",
    [MPI_T_ERR_INVALID] = "MPI_T_ERR_INVALID: invalid value",
};

/* Codes that the programs of this process added. */
static struct added {
    int error_class;
    char text[MPI_MAX_ERROR_STRING];
} * added;
static int added_count;

int
tp_ampi_last_code(void)
{
    return MPI_ERR_LASTCODE + added_count;
}

static struct added *
find_added(int code)
{
    int at = code - MPI_ERR_LASTCODE - 1;

    return at >= 0 && at < added_count ? &added[at] : NULL;
}

/* @param error_class  of the new code, 0: it is a class */
static int
add(int error_class, int *ret)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL); /* all ranks share the codes */
    struct added *more =
        tp_realloc_array(added, (size_t)added_count + 1, sizeof(*more), "MPI errors");

    (void)tp_ampi_heap_use(heap);
    if (more == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for an error code");
    }
    added = more;
    *ret = MPI_ERR_LASTCODE + ++added_count;
    added[added_count - 1].error_class = error_class != 0 ? error_class : *ret;
    added[added_count - 1].text[0] = '\0';
    return MPI_SUCCESS;
}

int
PMPI_Add_error_class(int *error_class)
{
    return add(0, error_class);
}
TP_MPI_NAME(Add_error_class);

int
PMPI_Add_error_code(int error_class, int *code)
{
    if (error_class < 0 || error_class > tp_ampi_last_code()) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "%d is no error class", error_class);
    }
    return add(error_class, code);
}
TP_MPI_NAME(Add_error_code);

int
PMPI_Add_error_string(int code, const char *text)
{
    struct added *entry = find_added(code);

    if (entry == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "the program did not add code %d",
                             code);
    }
    (void)snprintf(entry->text, sizeof(entry->text), "%s", text);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Add_error_string);

int
PMPI_Error_class(int code, int *error_class)
{
    const struct added *entry = find_added(code);

    if (entry == NULL && (code < 0 || code > MPI_ERR_LASTCODE)) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "%d is no error code", code);
    }
    *error_class = entry != NULL ? entry->error_class : code;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Error_class);

const char *
tp_ampi_class_text(int code)
{
    const struct added *entry = find_added(code);
    const char *name = NULL;

    if (entry != NULL) {
        return entry->text;
    }
    if (code >= 0 && code < (int)TP_ARRAY_LEN(class_texts)) {
        name = class_texts[code];
    }
    return name != NULL ? name : "error without a text";
}

int
PMPI_Error_string(int code, char *text, int *length)
{
    const char *detail = tp_ampi_error_text(code);

    if (find_added(code) != NULL) {
        detail = NULL;
    } else if (code < 0 || code > MPI_ERR_LASTCODE) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "%d is no error code", code);
    }
    (void)snprintf(text, MPI_MAX_ERROR_STRING, "%s%s%s", tp_ampi_class_text(code),
                   detail != NULL ? ": " : "", detail != NULL ? detail : "");
    *length = (int)strlen(text);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Error_string);
