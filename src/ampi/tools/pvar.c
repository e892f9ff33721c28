/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Performance variables: counters of the process, which a handle counts from its start, and levels of
 * now. Some levels are a communicator's.
 */
#include "ampi/tools/tools.h"

#include <stddef.h>
#include <string.h>

#include "ampi/match.h"
#include "ampi/process.h"
#include "base/alloc.h"

static unsigned long long
count_list(const struct tp_list *list)
{
    unsigned long long count = 0;

    for (const struct tp_list *at = list->next; at != NULL && at != list;
         at = at->next) {
        count++;
    }
    return count;
}

/** Has one of a number of the process, a list of it, and a queue of a communicator. */
static const struct pvar {
    const char *name, *about;
    int var_class, bind;
    const uint64_t *number;
    const struct tp_list *list; /**< the value is its length */
    size_t queue; /**< the value is its length: offset in struct tp_ampi_mail */
} pvars[] = {
    {"messages_sent", "messages that this process has sent to other processes",
     MPI_T_PVAR_CLASS_COUNTER, MPI_T_BIND_NO_OBJECT, .number = &tp_ampi.sent},
    {"messages_received",
     "messages that this process has received from other processes",
     MPI_T_PVAR_CLASS_COUNTER, MPI_T_BIND_NO_OBJECT, .number = &tp_ampi.received},
    {"sends_incomplete", "sends whose buffers are still in use", MPI_T_PVAR_CLASS_LEVEL,
     MPI_T_BIND_NO_OBJECT, .list = &tp_ampi.sending},
    {"receives_long", "receives whose data is on its way on a channel",
     MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_NO_OBJECT, .number = &tp_ampi.receiving},
    {"collectives_waiting",
     "non-blocking collectives that wait for others to end (TELPHER_AMPI_COLLECTIVES)",
     MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_NO_OBJECT, .list = &tp_ampi.starved},
    {"unexpected_messages", "messages of a communicator that wait for a receive",
     MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_MPI_COMM,
     .queue = offsetof(struct tp_ampi_mail, unexpected)},
    {"posted_receives", "receives of a communicator that wait for a message",
     MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_MPI_COMM,
     .queue = offsetof(struct tp_ampi_mail, posted)},
};

static unsigned long long
value_of(const struct pvar *pvar, const struct tp_ampi_comm *comm)
{
    const char *mail;

    if (pvar->number != NULL) {
        return *pvar->number;
    }
    if (pvar->list != NULL) {
        return count_list(pvar->list);
    }
    mail = (const char *)comm->mail[TP_AMPI_LANE_PROGRAM];
    return count_list((const struct tp_list *)(mail + pvar->queue));
}

struct telpher_mpi_t_pvar {
    struct tp_list link; /**< of its session */
    MPI_T_pvar_session session;
    const struct pvar *pvar;
    MPI_Comm comm; /**< of those that are a communicator's */
    bool runs;
    unsigned long long counted,
        from; /**< before the last start; value at the last start */
};

struct telpher_mpi_t_session {
    struct tp_list handles;
};

int
tp_ampi_pvar_count(void)
{
    return (int)TP_ARRAY_LEN(pvars);
}

/* ---- queries ---- */

int
PMPI_T_pvar_get_num(int *count)
{
    tp_ampi_tools_give(count, tp_ampi_pvar_count());
    return tp_ampi_tools_check();
}
TP_MPI_NAME(T_pvar_get_num);

static bool
is_counter(const struct pvar *pvar)
{
    return pvar->var_class == MPI_T_PVAR_CLASS_COUNTER;
}

static int
check_index(int index)
{
    int error = tp_ampi_tools_check();

    return error != MPI_SUCCESS                         ? error
           : index < 0 || index >= tp_ampi_pvar_count() ? MPI_T_ERR_INVALID_INDEX
                                                        : MPI_SUCCESS;
}

int
PMPI_T_pvar_get_info(int index, char *name, int *name_length, int *verbosity,
                     int *var_class, MPI_Datatype *type, MPI_T_enum *enumtype,
                     char *about, int *about_length, int *bind, int *readonly,
                     int *continuous, int *atomic)
{
    int error = check_index(index);
    const struct pvar *pvar = &pvars[error == MPI_SUCCESS ? index : 0];

    if (error != MPI_SUCCESS) {
        return error;
    }
    tp_ampi_tools_text(pvar->name, name, name_length);
    tp_ampi_tools_text(pvar->about, about, about_length);
    tp_ampi_tools_give(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    tp_ampi_tools_give(var_class, pvar->var_class);
    tp_ampi_tools_give(bind, pvar->bind);
    tp_ampi_tools_give(readonly, !is_counter(pvar));
    tp_ampi_tools_give(continuous, !is_counter(pvar));
    tp_ampi_tools_give(atomic, 0);
    if (type != NULL) {
        *type = MPI_UNSIGNED_LONG_LONG;
    }
    if (enumtype != NULL) {
        *enumtype = MPI_T_ENUM_NULL;
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_pvar_get_info);

int
PMPI_T_pvar_get_index(const char *name, int var_class, int *index)
{
    int error = tp_ampi_tools_check();

    for (int i = 0; error == MPI_SUCCESS && i < tp_ampi_pvar_count(); i++) {
        if (strcmp(name, pvars[i].name) == 0 && var_class == pvars[i].var_class) {
            tp_ampi_tools_give(index, i);
            return MPI_SUCCESS;
        }
    }
    return error != MPI_SUCCESS ? error : MPI_T_ERR_INVALID_NAME;
}
TP_MPI_NAME(T_pvar_get_index);

/* ---- sessions and handles ---- */

int
PMPI_T_pvar_session_create(MPI_T_pvar_session *ret)
{
    int error = tp_ampi_tools_check();
    struct telpher_mpi_t_session *session;

    if (error != MPI_SUCCESS) {
        return error;
    }
    session = tp_zalloc(sizeof(*session), "MPI session of performance variables");
    if (session == NULL) {
        return MPI_T_ERR_OUT_OF_SESSIONS;
    }
    tp_list_init(&session->handles);
    *ret = session;
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_pvar_session_create);

static int
check_session(MPI_T_pvar_session session)
{
    int error = tp_ampi_tools_check();

    return error != MPI_SUCCESS                 ? error
           : session == MPI_T_PVAR_SESSION_NULL ? MPI_T_ERR_INVALID_SESSION
                                                : MPI_SUCCESS;
}

int
PMPI_T_pvar_session_free(MPI_T_pvar_session *session)
{
    int error = check_session(*session);
    struct tp_list *link;

    if (error != MPI_SUCCESS) {
        return error;
    }
    while ((link = tp_list_pop_front(&(*session)->handles)) != NULL) {
        tp_free(tp_list_entry(link, struct telpher_mpi_t_pvar, link));
    }
    tp_free(*session);
    *session = MPI_T_PVAR_SESSION_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_pvar_session_free);

int
PMPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int index, void *object,
                         MPI_T_pvar_handle *ret, int *count)
{
    int error = check_session(session);
    struct telpher_mpi_t_pvar *handle;

    if (error == MPI_SUCCESS) {
        error = check_index(index);
    }
    if (error == MPI_SUCCESS && pvars[index].bind == MPI_T_BIND_MPI_COMM &&
        (object == NULL || tp_ampi_comm_get(*(const MPI_Comm *)object) == NULL)) {
        error = MPI_T_ERR_INVALID_HANDLE;
    }
    if (error != MPI_SUCCESS) {
        return error;
    }
    handle = tp_zalloc(sizeof(*handle), "MPI performance variable");
    if (handle == NULL) {
        return MPI_T_ERR_OUT_OF_HANDLES;
    }
    handle->session = session;
    handle->pvar = &pvars[index];
    if (pvars[index].bind == MPI_T_BIND_MPI_COMM) {
        handle->comm = *(const MPI_Comm *)object;
    }
    handle->runs = !is_counter(handle->pvar);
    tp_list_push_back(&session->handles, &handle->link);
    *ret = handle;
    *count = 1;
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_pvar_handle_alloc);

static int
check_handle(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    int error = check_session(session);

    if (error != MPI_SUCCESS) {
        return error;
    }
    return handle == MPI_T_PVAR_HANDLE_NULL || handle == MPI_T_PVAR_ALL_HANDLES ||
                   handle->session != session
               ? MPI_T_ERR_INVALID_HANDLE
               : MPI_SUCCESS;
}

int
PMPI_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
    int error = check_handle(session, *handle);

    if (error == MPI_SUCCESS) {
        tp_list_remove(&(*handle)->link);
        tp_free(*handle);
        *handle = MPI_T_PVAR_HANDLE_NULL;
    }
    return error;
}
TP_MPI_NAME(T_pvar_handle_free);

/* ---- values ---- */

/* The value of now; 0 if the communicator is gone. */
static unsigned long long
value_now(const struct telpher_mpi_t_pvar *handle)
{
    const struct tp_ampi_comm *comm = NULL;
    unsigned long long value = 0;

    tp_ampi_enter();
    if (handle->pvar->bind == MPI_T_BIND_MPI_COMM) {
        comm = tp_ampi_comm_get(handle->comm);
    }
    if (handle->pvar->bind == MPI_T_BIND_NO_OBJECT || comm != NULL) {
        value = value_of(handle->pvar, comm);
    }
    tp_ampi_leave();
    return value;
}

static void
start(MPI_T_pvar_handle handle)
{
    if (!handle->runs) {
        handle->from = value_now(handle);
        handle->runs = true;
    }
}

static unsigned long long
counted(const struct telpher_mpi_t_pvar *handle)
{
    return handle->counted + (handle->runs ? value_now(handle) - handle->from : 0);
}

static void
stop(MPI_T_pvar_handle handle)
{
    handle->counted = counted(handle);
    handle->runs = false;
}

static void
set(MPI_T_pvar_handle handle, unsigned long long value)
{
    handle->counted = value;
    handle->from = value_now(handle);
}

static void
reset(MPI_T_pvar_handle handle)
{
    set(handle, 0);
}

/* Changes one handle, or all those of a session that can be changed. @param refusal  error of others */
static int
change(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
       void (*fn)(MPI_T_pvar_handle handle), int refusal)
{
    int error = check_session(session);

    if (error == MPI_SUCCESS && handle == MPI_T_PVAR_ALL_HANDLES) {
        tp_list_for_each_entry(struct telpher_mpi_t_pvar, each, &session->handles,
                               link) {
            if (is_counter(each->pvar)) {
                fn(each);
            }
        }
        return MPI_SUCCESS;
    }
    error = check_handle(session, handle);
    if (error == MPI_SUCCESS && !is_counter(handle->pvar)) {
        error = refusal;
    }
    if (error == MPI_SUCCESS) {
        fn(handle);
    }
    return error;
}

int
PMPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return change(session, handle, start, MPI_T_ERR_PVAR_NO_STARTSTOP);
}
TP_MPI_NAME(T_pvar_start);

int
PMPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return change(session, handle, stop, MPI_T_ERR_PVAR_NO_STARTSTOP);
}
TP_MPI_NAME(T_pvar_stop);

int
PMPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return change(session, handle, reset, MPI_T_ERR_PVAR_NO_WRITE);
}
TP_MPI_NAME(T_pvar_reset);

int
PMPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *value)
{
    int error = check_handle(session, handle);

    if (error == MPI_SUCCESS) {
        unsigned long long now =
            is_counter(handle->pvar) ? counted(handle) : value_now(handle);

        memcpy(value, &now, sizeof(now));
    }
    return error;
}
TP_MPI_NAME(T_pvar_read);

int
PMPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *value)
{
    int error = check_handle(session, handle);

    if (error == MPI_SUCCESS && !is_counter(handle->pvar)) {
        error = MPI_T_ERR_PVAR_NO_WRITE;
    }
    if (error == MPI_SUCCESS) {
        (void)PMPI_T_pvar_read(session, handle, value);
        reset(handle);
    }
    return error;
}
TP_MPI_NAME(T_pvar_readreset);

int
PMPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
                  const void *value)
{
    int error = check_handle(session, handle);
    unsigned long long number;

    if (error == MPI_SUCCESS && !is_counter(handle->pvar)) {
        error = MPI_T_ERR_PVAR_NO_WRITE;
    }
    if (error == MPI_SUCCESS) {
        memcpy(&number, value, sizeof(number));
        set(handle, number);
    }
    return error;
}
TP_MPI_NAME(T_pvar_write);
