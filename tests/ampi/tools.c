/* SPDX-License-Identifier: Apache-2.0 */
/* The tools interface: settings as control variables, counters and levels as performance variables. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            (void)fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank,    \
                          #condition);                                                 \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static unsigned long long
read_pvar(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    return value;
}

static MPI_T_pvar_handle
open_pvar(MPI_T_pvar_session session, const char *name, int var_class, MPI_Comm *comm)
{
    MPI_T_pvar_handle handle;
    int index, count;

    CHECK(MPI_T_pvar_get_index(name, var_class, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, comm, &handle, &count) ==
              MPI_SUCCESS &&
          count == 1);
    return handle;
}

/* A value that is refused changes nothing. */
static void
refuse_switch(int started)
{
    int index, count, value = 2;
    MPI_T_cvar_handle handle;

    CHECK(MPI_T_cvar_get_index("TELPHER_AMPI_MIGRATE", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_write(handle, &value) ==
          (started ? MPI_T_ERR_CVAR_SET_NEVER : MPI_T_ERR_INVALID));
    CHECK(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS && value == 0);
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS);
}

/* Before MPI_Init a setting may be changed, unless the process started with virtual ranks. */
static void
write_stack(void)
{
    int index, count, started, error;
    unsigned long stack = 0, more;
    MPI_T_cvar_handle handle;

    CHECK(MPI_T_cvar_get_index("TELPHER_AMPI_STACK", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_read(handle, &stack) == MPI_SUCCESS && stack == 8 << 20);
    more = 1 << 20;
    error = MPI_T_cvar_write(handle, &more);
    started = error == MPI_T_ERR_CVAR_SET_NEVER;
    CHECK(started || error == MPI_SUCCESS);
    more = 1;
    CHECK(started || MPI_T_cvar_write(handle, &more) == MPI_T_ERR_INVALID);
    refuse_switch(started);
    MPI_Init(NULL, NULL);
    CHECK(MPI_T_cvar_read(handle, &more) == MPI_SUCCESS &&
          more == (started ? stack : 1 << 20));
    CHECK(MPI_T_cvar_write(handle, &more) == MPI_T_ERR_CVAR_SET_NEVER);
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS &&
          handle == MPI_T_CVAR_HANDLE_NULL);
}

static void
check_switch(void)
{
    int index, count, length = 4, value;
    MPI_T_enum items;
    MPI_T_cvar_handle handle;
    char text[16] = "";

    CHECK(MPI_T_cvar_get_index("TELPHER_AMPI_MIGRATE", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_info(index, NULL, NULL, NULL, NULL, &items, NULL, NULL, NULL,
                              NULL) == MPI_SUCCESS);
    CHECK(MPI_T_enum_get_info(items, &count, text, &length) == MPI_SUCCESS &&
          count == 2);
    CHECK(length == 7 && strcmp(text, "swi") == 0);
    MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
    length = sizeof(text);
    CHECK(MPI_T_enum_get_item(items, value, &value, text, &length) == MPI_SUCCESS);
    CHECK(strcmp(text, "no") == 0);
    CHECK(MPI_T_enum_get_item(items, 2, &value, text, &length) ==
          MPI_T_ERR_INVALID_INDEX);
}

static void
count_messages(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle sent, level, unexpected;
    unsigned long long before, value = 5;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;

    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    sent = open_pvar(session, "messages_sent", MPI_T_PVAR_CLASS_COUNTER, NULL);
    level = open_pvar(session, "sends_incomplete", MPI_T_PVAR_CLASS_LEVEL, NULL);
    unexpected =
        open_pvar(session, "unexpected_messages", MPI_T_PVAR_CLASS_LEVEL, &world);
    CHECK(read_pvar(session, sent) == 0 && read_pvar(session, unexpected) == 0);
    CHECK(MPI_T_pvar_start(session, level) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(session, level) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_T_pvar_stop(session, sent) == MPI_SUCCESS);
    before = read_pvar(session, sent);
    CHECK(before > 0 || getenv("ALONE") != NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(read_pvar(session, sent) == before);
    CHECK(MPI_T_pvar_write(session, sent, &value) == MPI_SUCCESS &&
          read_pvar(session, sent) == 5);
    CHECK(MPI_T_pvar_readreset(session, sent, &value) == MPI_SUCCESS && value == 5);
    CHECK(read_pvar(session, sent) == 0);

    MPI_Isend(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &request);
    CHECK(read_pvar(session, unexpected) == 1);
    MPI_Recv(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(read_pvar(session, unexpected) == 0);
    CHECK(MPI_T_pvar_handle_free(session, &level) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_free(session, &level) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
}

static void
list_categories(void)
{
    int count, cvars = 0, pvars = 0, all_cvars, all_pvars, index;

    MPI_T_category_get_num(&count);
    MPI_T_cvar_get_num(&all_cvars);
    MPI_T_pvar_get_num(&all_pvars);
    for (int i = 0; i < count; i++) {
        int some, others, inner;

        CHECK(MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, &some, &others,
                                      &inner) == MPI_SUCCESS);
        cvars += some;
        pvars += others;
    }
    CHECK(cvars == all_cvars && pvars == all_pvars);
    CHECK(MPI_T_category_get_index("settings", &index) == MPI_SUCCESS && index == 0);
    CHECK(MPI_T_category_get_index("nothing", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_category_get_pvars(count, 0, NULL) == MPI_T_ERR_INVALID_INDEX);
}

int
main(void)
{
    int provided, count;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle level, sent;

    CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED ||
          getenv("ALONE") == NULL);
    CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS &&
          provided == MPI_THREAD_SERIALIZED);
    write_stack();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_switch();
    count_messages();
    list_categories();
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    level = open_pvar(session, "posted_receives", MPI_T_PVAR_CLASS_LEVEL, &world);
    sent = open_pvar(session, "messages_sent", MPI_T_PVAR_CLASS_COUNTER, NULL);
    MPI_Finalize();
    CHECK(read_pvar(session, level) == 0); /* there is no communicator any more */
    CHECK(MPI_T_pvar_start(session, sent) == MPI_SUCCESS &&
          read_pvar(session, sent) == 0);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    /* the ranks of a process share the interface */
    return getenv("ALONE") != NULL && MPI_T_finalize() != MPI_T_ERR_NOT_INITIALIZED;
}
