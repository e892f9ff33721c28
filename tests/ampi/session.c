/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: communicators without MPI_Init, beside it, and after MPI_Finalize. Any MPI of version 4 runs it.
 * usage: telpher launch -n N -- ampi_session [world] [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static MPI_Session seen;
static int calls;

static void
count_error(MPI_Session *session, int *code, ...)
{
    seen = *session;
    calls += *code != MPI_SUCCESS;
}

static MPI_Comm
open_comm(MPI_Session session, const char *pset, int *rank, int *size)
{
    MPI_Group group;
    MPI_Comm comm;

    CHECK(MPI_Group_from_session_pset(session, pset, &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                     &comm) == MPI_SUCCESS);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, rank);
    MPI_Comm_size(comm, size);
    return comm;
}

static void
check_names(MPI_Session session)
{
    int count = 0, length, flag;
    char name[64], short_name[4], value[16];
    MPI_Info info;

    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    CHECK(count >= 2);
    length = 0;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1, &length, NULL);
    CHECK(length == (int)strlen("mpi://SELF") + 1);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1, &length, name);
    CHECK(strcmp(name, "mpi://SELF") == 0);
    length = sizeof(short_name);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, short_name);
    CHECK(strcmp(short_name, "mpi") == 0 && length == (int)strlen("mpi://WORLD") + 1);
    MPI_Session_get_pset_info(session, "mpi://SELF", &info);
    length = sizeof(value);
    MPI_Info_get_string(info, "mpi_size", &length, value, &flag);
    CHECK(flag && strcmp(value, "1") == 0);
    MPI_Info_free(&info);
    MPI_Session_get_info(session, &info);
    length = sizeof(name);
    MPI_Info_get_string(info, "thread_level", &length, name, &flag);
    CHECK(flag && strncmp(name, "MPI_THREAD_", 11) == 0);
    MPI_Info_free(&info);
}

static void
check_errors(MPI_Session session)
{
    MPI_Errhandler handler, now;
    MPI_Group group;
    int length = 0;

    MPI_Session_create_errhandler(count_error, &handler);
    MPI_Session_set_errhandler(session, handler);
    MPI_Session_get_errhandler(session, &now);
    CHECK(now == handler);
    CHECK(MPI_Group_from_session_pset(session, "mpi://MARS", &group) != MPI_SUCCESS);
    CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 77, &length, NULL) !=
          MPI_SUCCESS);
    CHECK(calls == 2 && seen == session);
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK(calls == 3);
    MPI_Errhandler_free(&now);
    MPI_Errhandler_free(&handler);
}

static void
check_halves(MPI_Session session, int rank, int size)
{
    MPI_Group world, low, high;
    MPI_Comm between;
    int range[1][3] = {{0, size / 2 - 1, 1}}, is_low = rank < size / 2, value = -1,
        remote;

    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_range_incl(world, 1, range, &low);
    MPI_Group_range_excl(world, 1, range, &high);
    MPI_Intercomm_create_from_groups(is_low ? low : high, 0, is_low ? high : low, 0,
                                     "halves", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                     &between);
    MPI_Comm_remote_size(between, &remote);
    CHECK(remote == (is_low ? size - size / 2 : size / 2));
    value = is_low;
    MPI_Allreduce(&is_low, &value, 1, MPI_INT, MPI_MAX, between);
    CHECK(value == !is_low);
    MPI_Comm_free(&between);
    MPI_Group_free(&low);
    MPI_Group_free(&high);
    MPI_Group_free(&world);
}

static void
use_session(void)
{
    MPI_Session session;
    MPI_Comm comm, self;
    int rank, size, one, sum = 0;

    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    comm = open_comm(session, "mpi://WORLD", &rank, &size);
    one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size);
    self = open_comm(session, "mpi://self", &one,
                     &sum); /* a name's case does not matter */
    CHECK(one == 0 && sum == 1);
    check_names(session);
    calls = 0;
    check_errors(session);
    if (size > 1) {
        check_halves(session, rank, size);
    }
    MPI_Comm_free(&self);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL);
}

/* Two sessions at once; a communicator outlives its session; what is no handler, or ended. */
static void
use_carelessly(void)
{
    MPI_Session one, two, copy;
    MPI_Comm comm;
    int rank, size, value = 1, sum = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Session_init(MPI_INFO_NULL, (MPI_Errhandler)0x7654321, &one) ==
              MPI_ERR_ARG &&
          one == MPI_SESSION_NULL);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &one);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &two);
    CHECK(one != two);
    comm = open_comm(one, "mpi://WORLD", &rank, &size);
    copy = one;
    CHECK(MPI_Session_finalize(&one) == MPI_SUCCESS);
    CHECK(MPI_Session_finalize(&copy) == MPI_ERR_SESSION);
    CHECK(MPI_Session_get_num_psets(copy, MPI_INFO_NULL, &value) == MPI_ERR_SESSION);
    value = 1;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size);
    MPI_Comm_free(&comm);
    check_names(two);
    CHECK(MPI_Session_finalize(&two) == MPI_SUCCESS);
}

int
main(int argc, char **argv)
{
    int rank, size, flag;

    use_session();
    use_session(); /* the process is still in its job */
    MPI_Initialized(&flag);
    CHECK(!flag);
    if (argc > 1) {
        MPI_Init(&argc, &argv);
        use_session();
        use_carelessly();
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        CHECK(rank < size);
        MPI_Finalize();
        MPI_Finalized(&flag);
        CHECK(flag);
        use_session();
    }
    return 0;
}
