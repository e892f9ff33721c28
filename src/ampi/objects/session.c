/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: MPI without MPI_Init(). The first one starts the process; it leaves the job when its
 * main() returns. Communicators of a group are agreed on by its members, through the world.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ampi/errhandler.h"
#include "ampi/info.h"
#include "ampi/process.h"
#include "base/alloc.h"

struct tp_ampi_session {
    int handle;
    MPI_Errhandler errhandler;
};

static const char *const levels[] = {
    [MPI_THREAD_SINGLE] = "MPI_THREAD_SINGLE",
    [MPI_THREAD_FUNNELED] = "MPI_THREAD_FUNNELED",
    [MPI_THREAD_SERIALIZED] = "MPI_THREAD_SERIALIZED",
    [MPI_THREAD_MULTIPLE] = "MPI_THREAD_MULTIPLE",
};
static const char *const psets[] = {"mpi://WORLD", "mpi://SELF"};

/* An error of a session, or, without one, by a handler. */
TP_PRINTF(4, 5)
static int
report(const struct tp_ampi_session *session, MPI_Errhandler handler, int code,
       const char *fmt, ...)
{
    va_list args;

    if (code == MPI_SUCCESS) {
        return code;
    }
    va_start(args, fmt);
    code = tp_ampi_raise(session != NULL ? session->errhandler : handler,
                         session != NULL ? session->handle : MPI_SESSION_NULL, code,
                         fmt, args);
    va_end(args);
    return code;
}

static struct tp_ampi_session *
find(MPI_Session handle)
{
    struct tp_ampi_session *session =
        tp_ampi.ctx != NULL ? tp_ampi_handle_get(handle, TP_AMPI_SESSION) : NULL;

    if (session == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_SESSION, "%#x is no session", handle);
    }
    return session;
}

/* ---- start and end ---- */

/* -1: the info object names a level that there is not */
static int
wanted_level(MPI_Info handle)
{
    const struct tp_ampi_info *info =
        handle != MPI_INFO_NULL ? tp_ampi_info_get(handle) : NULL;
    const char *text = info != NULL ? tp_ampi_info_find(info, "thread_level") : NULL;
    int level = text != NULL ? -1 : MPI_THREAD_SINGLE;

    for (int i = 0; text != NULL && i < (int)TP_ARRAY_LEN(levels); i++) {
        level = strcmp(text, levels[i]) == 0 ? i : level;
    }
    return level;
}

static void
destroy_session(struct tp_ampi_session *session)
{
    tp_ampi_errhandler_unref(session->errhandler);
    tp_ampi_handle_destroy(session->handle);
    tp_free(session);
}

/* @return an error class; that of the handler was reported */
static int
make_session(MPI_Errhandler handler, struct tp_ampi_session **ret)
{
    struct tp_ampi_session *session = tp_zalloc(sizeof(*session), "MPI session");
    int error;

    if (session != NULL) {
        session->errhandler = MPI_ERRORS_ARE_FATAL;
        session->handle = tp_ampi_handle_create(TP_AMPI_SESSION, session);
    }
    if (session == NULL || session->handle == 0) {
        tp_free(session);
        return report(NULL, handler, MPI_ERR_NO_MEM, "no memory for a session");
    }
    error = tp_ampi_errhandler_set(&session->errhandler, handler);
    if (error != MPI_SUCCESS) {
        destroy_session(session);
        return error;
    }
    *ret = session;
    return MPI_SUCCESS;
}

int
PMPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *ret)
{
    struct tp_ampi_session *session = NULL;
    int error, level = wanted_level(info);

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    *ret = MPI_SESSION_NULL;
    if (level < 0) {
        return report(NULL, handler, MPI_ERR_INFO_VALUE,
                      "thread_level of a session is none of MPI_THREAD_SINGLE, ...");
    }
    if (tp_ampi.over) {
        return report(NULL, handler, MPI_ERR_OTHER,
                      "MPI_Finalize has ended MPI: begin a session before it");
    }
    if (tp_ampi.ctx == NULL && !tp_ampi_process_start(0)) {
        return report(NULL, handler, MPI_ERR_OTHER,
                      "a session cannot start: the process does not join the job");
    }
    tp_ampi_set_threads(TP_MAX(level, tp_ampi.thread_level));
    tp_ampi_enter();
    tp_ampi.has_sessions = true;
    error = make_session(handler, &session);
    tp_ampi_leave();
    if (error == MPI_SUCCESS) {
        *ret = session->handle;
    }
    return error;
}
TP_MPI_NAME(Session_init);

int
PMPI_Session_finalize(MPI_Session *handle)
{
    struct tp_ampi_session *session;

    tp_ampi_enter();
    session = find(*handle);
    if (session != NULL) {
        destroy_session(session);
        *handle = MPI_SESSION_NULL;
    }
    tp_ampi_leave();
    return session != NULL ? MPI_SUCCESS : MPI_ERR_SESSION;
}
TP_MPI_NAME(Session_finalize);

/* ---- queries ---- */

static int
give_info(const struct tp_ampi_session *session, const char *key, const char *value,
          MPI_Info *ret)
{
    int error = PMPI_Info_create(ret);

    if (error == MPI_SUCCESS) {
        error = PMPI_Info_set(*ret, key, value);
    }
    return report(session, MPI_ERRORS_RETURN, error, "no info object for a session");
}

int
PMPI_Session_get_info(MPI_Session handle, MPI_Info *ret)
{
    const struct tp_ampi_session *session = find(handle);

    return session == NULL
               ? MPI_ERR_SESSION
               : give_info(session, "thread_level", levels[tp_ampi.thread_level], ret);
}
TP_MPI_NAME(Session_get_info);

int
PMPI_Session_get_num_psets(MPI_Session handle, MPI_Info info, int *count)
{
    (void)info;
    *count = (int)TP_ARRAY_LEN(psets);
    return find(handle) != NULL ? MPI_SUCCESS : MPI_ERR_SESSION;
}
TP_MPI_NAME(Session_get_num_psets);

int
PMPI_Session_get_nth_pset(MPI_Session handle, MPI_Info info, int n, int *length,
                          char *name)
{
    const struct tp_ampi_session *session = find(handle);
    int needed;

    (void)info;
    if (session == NULL) {
        return MPI_ERR_SESSION;
    }
    if (n < 0 || n >= (int)TP_ARRAY_LEN(psets)) {
        return report(session, 0, MPI_ERR_ARG, "there is no process set %d of %zu", n,
                      TP_ARRAY_LEN(psets));
    }
    needed = (int)strlen(psets[n]) + 1;
    if (*length > 0) {
        if (name == NULL) {
            return report(session, 0, MPI_ERR_ARG, "the name's address is NULL");
        }
        (void)snprintf(name, (size_t)*length, "%s", psets[n]);
    }
    *length = needed;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Session_get_nth_pset);

/* The communicator of a process set, NULL: there is none of the name, which was reported */
static const struct tp_ampi_comm *
find_pset(const struct tp_ampi_session *session, const char *name, int *ret_error)
{
    const struct tp_ampi_rank *rank = tp_ampi_current();

    *ret_error = MPI_SUCCESS;
    if (name != NULL && strcasecmp(name, psets[0]) == 0) {
        return rank->comm_world;
    }
    if (name != NULL && strcasecmp(name, psets[1]) == 0) {
        return rank->comm_self;
    }
    *ret_error = report(session, 0, MPI_ERR_ARG,
                        "there is no process set %s: ask for their names "
                        "with MPI_Session_get_nth_pset",
                        name != NULL ? name : "without a name");
    return NULL;
}

int
PMPI_Session_get_pset_info(MPI_Session handle, const char *name, MPI_Info *ret)
{
    const struct tp_ampi_session *session = find(handle);
    const struct tp_ampi_comm *comm;
    char size[16];
    int error = MPI_ERR_SESSION;

    comm = session != NULL ? find_pset(session, name, &error) : NULL;
    if (comm == NULL) {
        return error;
    }
    (void)snprintf(size, sizeof(size), "%d", comm->size);
    return give_info(session, "mpi_size", size, ret);
}
TP_MPI_NAME(Session_get_pset_info);

int
PMPI_Group_from_session_pset(MPI_Session handle, const char *name, MPI_Group *ret)
{
    const struct tp_ampi_session *session = find(handle);
    const struct tp_ampi_comm *comm;
    int error = MPI_ERR_SESSION;

    comm = session != NULL ? find_pset(session, name, &error) : NULL;
    return comm != NULL ? PMPI_Comm_group(comm->handle, ret) : error;
}
TP_MPI_NAME(Group_from_session_pset);

/* ---- error handlers ---- */

int
PMPI_Session_create_errhandler(MPI_Session_errhandler_function *fn, MPI_Errhandler *ret)
{
    return PMPI_Comm_create_errhandler(fn, ret);
}
TP_MPI_NAME(Session_create_errhandler);

int
PMPI_Session_set_errhandler(MPI_Session handle, MPI_Errhandler handler)
{
    struct tp_ampi_session *session = find(handle);

    return session != NULL ? tp_ampi_errhandler_set(&session->errhandler, handler)
                           : MPI_ERR_SESSION;
}
TP_MPI_NAME(Session_set_errhandler);

int
PMPI_Session_get_errhandler(MPI_Session handle, MPI_Errhandler *ret)
{
    const struct tp_ampi_session *session = find(handle);

    if (session == NULL) {
        return MPI_ERR_SESSION;
    }
    tp_ampi_errhandler_ref(session->errhandler);
    *ret = session->errhandler;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Session_get_errhandler);

int
PMPI_Session_call_errhandler(MPI_Session handle, int code)
{
    const struct tp_ampi_session *session = find(handle);

    if (session == NULL) {
        return MPI_ERR_SESSION;
    }
    (void)report(session, 0, code, "the program reports error %d", code);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Session_call_errhandler);

/* ---- communicators of groups ---- */

/* Tags of agreements have 16 bits. */
static int
tag_of(const char *text)
{
    unsigned hash = 5381;

    for (; *text != '\0'; text++) {
        hash = hash * 33 + (unsigned char)*text;
    }
    return (int)(hash & 0xffff);
}

static int
set_handler(MPI_Comm handle, MPI_Errhandler handler)
{
    return handle == MPI_COMM_NULL ? MPI_SUCCESS
                                   : PMPI_Comm_set_errhandler(handle, handler);
}

int
PMPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                            MPI_Errhandler handler, MPI_Comm *ret)
{
    int error;

    (void)info;
    if (ret == NULL || tag == NULL || tp_ampi_group_get(group) == NULL) {
        return report(NULL, handler,
                      ret == NULL || tag == NULL ? MPI_ERR_ARG : MPI_ERR_GROUP,
                      "%#x is no group, or there is no tag or no result", group);
    }
    error = PMPI_Comm_create_group(MPI_COMM_WORLD, group, tag_of(tag), ret);
    return error == MPI_SUCCESS ? set_handler(*ret, handler) : error;
}
TP_MPI_NAME(Comm_create_from_group);

int
PMPI_Intercomm_create_from_groups(MPI_Group local, int leader, MPI_Group remote,
                                  int remote_leader, const char *tag, MPI_Info info,
                                  MPI_Errhandler handler, MPI_Comm *ret)
{
    const struct tp_ampi_group *peers = tp_ampi_group_get(remote);
    MPI_Comm own = MPI_COMM_NULL;
    int error;

    *ret = MPI_COMM_NULL;
    if (peers == NULL || remote_leader < 0 || remote_leader >= peers->size) {
        return report(NULL, handler, MPI_ERR_GROUP, "%#x is no group with a leader %d",
                      remote, remote_leader);
    }
    error = PMPI_Comm_create_from_group(local, tag, info, handler, &own);
    if (error == MPI_SUCCESS && own != MPI_COMM_NULL) {
        error =
            PMPI_Intercomm_create(own, leader, MPI_COMM_WORLD,
                                  (int)peers->world[remote_leader], tag_of(tag), ret);
        (void)PMPI_Comm_free(&own);
    }
    return error == MPI_SUCCESS ? set_handler(*ret, handler) : error;
}
TP_MPI_NAME(Intercomm_create_from_groups);

void
tp_ampi_end_sessions(void)
{
    struct tp_ampi_rank *rank = tp_ampi.ctx != NULL ? tp_ampi_current() : NULL;

    if (rank == NULL || !tp_ampi.has_sessions || tp_ampi.virtual_ranks ||
        (rank->initialized && !rank->finalized)) {
        return;
    }
    if (!rank->finalized) { /* MPI_Finalize() has met the others */
        (void)tp_ampi_comm_meet(rank->comm_world);
    }
    tp_ampi_process_stop();
}
