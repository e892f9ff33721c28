/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an error names the call that failed.
 * usage: telpher launch -n N -- ampi_errors [+vp M] */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failures;

/* Expects an error whose text names the call, once, and contains @p why. */
static void
expect(int code, const char *call, const char *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    char name[64];
    const char *at;
    int len = 0;

    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &len);
    }
    at = strstr(text, call);
    if (at == NULL || strstr(text, why) == NULL) {
        fprintf(stderr, "%s, code %d: \"%s\" has no \"%s\": FAILED\n", call, code, text,
                why);
        failures++;
    }
    /* without the "_c" of calls with large counts: those run the one without */
    snprintf(name, sizeof(name), "%s", call);
    *(strstr(name, "_c: ") != NULL ? strstr(name, "_c: ") : strchr(name, ':')) = '\0';
    if (at != NULL && strstr(at + strlen(call), name) != NULL) {
        fprintf(stderr, "\"%s\" names the call twice: FAILED\n", text);
        failures++;
    }
}

#define EXPECT(call, arguments, why) expect(call arguments, #call ": ", why)

static void
test_handles(void)
{
    MPI_Datatype type = MPI_INT;
    MPI_Comm world = MPI_COMM_WORLD, made;
    MPI_Request none = MPI_COMM_WORLD;
    int rank;

    EXPECT(MPI_Type_free, (&type), "MPI_INT is predefined and cannot be freed");
    EXPECT(MPI_Comm_free, (&world), "MPI_COMM_WORLD is predefined");
    EXPECT(MPI_Comm_disconnect, (&world), "MPI_COMM_WORLD is predefined");
    EXPECT(MPI_Comm_rank, (MPI_COMM_NULL, &rank), "is no communicator");
    EXPECT(MPI_Intercomm_merge, (MPI_COMM_WORLD, 0, &made), "is no intercommunicator");
    EXPECT(MPI_Wait, (&none, MPI_STATUS_IGNORE), "is no request");
    EXPECT(MPI_Waitall, (1, &none, MPI_STATUSES_IGNORE), "is no request");
    EXPECT(MPI_Testsome, (1, &none, &rank, &rank, MPI_STATUSES_IGNORE), "no request");
}

static void
test_arguments(int size)
{
    MPI_Group group, few;
    MPI_Request request;
    int value = 0, nowhere = size;

    MPI_Comm_group(MPI_COMM_WORLD, &group);
    EXPECT(MPI_Group_incl, (group, 1, &nowhere, &few), "is not in a group of");
    MPI_Group_free(&group);
    EXPECT(MPI_Send, (&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), "there is no rank");
    EXPECT(MPI_Recv, (&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
           "a count of -1 is negative");
    EXPECT(MPI_Bcast, (&value, 1, MPI_INT, size, MPI_COMM_WORLD), "root");
    EXPECT(MPI_Bcast_c, (&value, 1, MPI_INT, size, MPI_COMM_WORLD), "root");
    EXPECT(MPI_Ibcast_c, (&value, 1, MPI_INT, size, MPI_COMM_WORLD, &request), "root");
    EXPECT(MPI_Bcast_init_c,
           (&value, 1, MPI_INT, size, MPI_COMM_WORLD, MPI_INFO_NULL, &request), "root");
    EXPECT(MPI_Init, (NULL, NULL), "once");
}

#define EXPECT_CODE(code, call)                                                        \
    do {                                                                               \
        if ((call) != (code)) {                                                        \
            fprintf(stderr, #call " does not return " #code ": FAILED\n");             \
            failures++;                                                                \
        }                                                                              \
    } while (0)

static void
test_null_results(void)
{
    MPI_Group group;
    MPI_Aint bound;
    int range[1][3] = {{0, 0, 1}}, first = 0;

    MPI_Comm_group(MPI_COMM_WORLD, &group);
    EXPECT_CODE(MPI_ERR_ARG, MPI_Comm_size(MPI_COMM_WORLD, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Comm_group(MPI_COMM_WORLD, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Comm_create(MPI_COMM_WORLD, group, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Comm_split(MPI_COMM_WORLD, 0, 0, NULL));
    EXPECT_CODE(MPI_ERR_ARG,
                MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 0, 1, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Group_size(group, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Group_union(group, group, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Group_range_incl(group, 1, range, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Group_translate_ranks(group, 1, &first, group, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Type_contiguous(2, MPI_INT, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Type_get_extent(MPI_INT, &bound, NULL));
    EXPECT_CODE(MPI_ERR_ARG, MPI_Type_size_x(MPI_INT, NULL));
    MPI_Group_free(&group);
}

static void
test_keyvals(void)
{
    int comm_key, type_key;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key,
                           NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key,
                           NULL);
    EXPECT_CODE(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&type_key));
    EXPECT_CODE(MPI_ERR_KEYVAL, MPI_Type_free_keyval(&comm_key));
    EXPECT_CODE(MPI_SUCCESS, MPI_Comm_free_keyval(&comm_key));
    EXPECT_CODE(MPI_SUCCESS, MPI_Type_free_keyval(&type_key));
}

/* A rank that made a mistake calls again; the others have called once. */
static void
test_aliases(int rank)
{
    int both[8] = {rank}, other[8];

    EXPECT_CODE(MPI_ERR_BUFFER,
                MPI_Allreduce(both, both, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EXPECT_CODE(MPI_ERR_BUFFER, MPI_Allgather(both + rank, 1, MPI_INT, both, 1, MPI_INT,
                                              MPI_COMM_WORLD));
    if (rank == 0) {
        EXPECT_CODE(MPI_ERR_BUFFER,
                    MPI_Gather(both, 1, MPI_INT, both, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    EXPECT_CODE(MPI_SUCCESS,
                MPI_Gather(both, 1, MPI_INT, other, 1, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CODE(MPI_SUCCESS,
                MPI_Allreduce(MPI_IN_PLACE, both, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EXPECT_CODE(MPI_ERR_BUFFER,
                MPI_Reduce_local(MPI_IN_PLACE, both, 1, MPI_INT, MPI_SUM));
    EXPECT_CODE(MPI_ERR_OP,
                MPI_Allreduce(other, both, 1, MPI_BYTE, MPI_MAX, MPI_COMM_WORLD));
}

/* Ranks whose counts differ: those that receive less than they want get an error. */
static void
test_lengths(int rank, int size)
{
    int values[3] = {1, 2, 3}, sums[3], all[64];

    if (size == 1) {
        return;
    }
    EXPECT_CODE(rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE,
                MPI_Bcast(values, rank == 0 ? 1 : 3, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT_CODE(rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS,
                MPI_Gather(values, rank == 0 ? 2 : 1, MPI_INT, all, 2, MPI_INT, 0,
                           MPI_COMM_WORLD));
    if (MPI_Allreduce(values, sums, rank == 0 ? 1 : 3, MPI_INT, MPI_SUM,
                      MPI_COMM_WORLD) == MPI_SUCCESS &&
        rank == 0) {
        fprintf(stderr, "an allreduce of 1 and 3 elements succeeds: FAILED\n");
        failures++;
    }
    EXPECT_CODE(MPI_ERR_TRUNCATE, MPI_Allgather(values, rank == 0 ? 1 : 2, MPI_INT, all,
                                                2, MPI_INT, MPI_COMM_WORLD));
    EXPECT_CODE(MPI_SUCCESS, MPI_Barrier(MPI_COMM_WORLD));
}

/* Accesses outside of epochs, and epochs within others. */
static void
test_epochs(int rank)
{
    int memory = 7, got = 0;
    float real = 0, result;
    MPI_Win win;

    MPI_Win_create(&memory, sizeof(memory), sizeof(memory), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    EXPECT_CODE(MPI_ERR_RMA_SYNC, MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    MPI_Win_fence(0, win);
    EXPECT_CODE(MPI_SUCCESS, MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    EXPECT_CODE(MPI_SUCCESS,
                MPI_Accumulate(&got, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    EXPECT_CODE(MPI_ERR_RMA_SYNC, MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    EXPECT_CODE(MPI_SUCCESS, MPI_Get(&got, 1, MPI_INT, rank, 0, 1, MPI_INT, win));
    EXPECT_CODE(MPI_ERR_TYPE,
                MPI_Compare_and_swap(&real, &real, &result, MPI_FLOAT, rank, 0, win));
    EXPECT_CODE(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/* Windows that no memory holds, and memory that this rank has not attached. */
static void
test_windows(int rank, int size)
{
    int memory[4] = {0}, value = 7;
    void *base = NULL;
    MPI_Aint at;
    MPI_Win win;

    if (size > 1) {
        EXPECT_CODE(MPI_ERR_NO_MEM,
                    MPI_Win_allocate_shared(PTRDIFF_MAX, 1, MPI_INFO_NULL,
                                            MPI_COMM_WORLD, &base, &win));
    }
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    EXPECT_CODE(MPI_ERR_SIZE, MPI_Win_attach(win, memory, -1));
    MPI_Get_address(memory, &at);
    MPI_Win_attach(win, memory, 3 * sizeof(int));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    EXPECT_CODE(MPI_SUCCESS, MPI_Put(&value, 1, MPI_INT, rank, at, 1, MPI_INT, win));
    EXPECT_CODE(MPI_ERR_RMA_RANGE,
                MPI_Put(memory, 4, MPI_INT, rank, at, 4, MPI_INT, win));
    EXPECT_CODE(MPI_ERR_RMA_RANGE,
                MPI_Get(&value, 1, MPI_INT, rank, 16, 1, MPI_INT, win));
    MPI_Win_detach(win, memory);
    EXPECT_CODE(MPI_ERR_RMA_RANGE,
                MPI_Get(&value, 1, MPI_INT, rank, at, 1, MPI_INT, win));
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/* A group whose ranks are not in the communicator. */
static void
test_strange_group(int rank)
{
    MPI_Comm alone, none;
    MPI_Group all;

    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
    MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    EXPECT_CODE(MPI_ERR_GROUP, MPI_Comm_create(alone, all, &none));
    MPI_Group_free(&all);
    MPI_Comm_free(&alone);
}

/* A collective that runs on a light thread names itself, once. */
static void
test_prefix_once(int size)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int value = 0, len, code = MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD);
    const char *first;

    MPI_Error_string(code, text, &len);
    first = strstr(text, "MPI_Bcast: ");
    if (first == NULL || strstr(first + 1, "MPI_Bcast") != NULL) {
        fprintf(stderr, "\"%s\": FAILED\n", text);
        failures++;
    }
}

int
main(int argc, char **argv)
{
    int size, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    test_handles();
    test_arguments(size);
    test_null_results();
    test_keyvals();
    test_aliases(rank);
    test_lengths(rank, size);
    test_epochs(rank);
    test_windows(rank, size);
    test_strange_group(rank);
    test_prefix_once(size);
    MPI_Finalize();
    return failures != 0;
}
