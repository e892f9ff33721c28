/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an error names the call that failed.
 * usage: telpher launch -n N -- ampi_errors [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures;

/* Expects an error whose text begins with the call and contains @p why. */
static void
expect(int code, const char *call, const char *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &len);
    }
    if (strstr(text, call) == NULL || strstr(text, why) == NULL) {
        fprintf(stderr, "%s, code %d: \"%s\" has no \"%s\": FAILED\n", call, code, text,
                why);
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
    int value = 0, nowhere = size;

    MPI_Comm_group(MPI_COMM_WORLD, &group);
    EXPECT(MPI_Group_incl, (group, 1, &nowhere, &few), "is not in a group of");
    MPI_Group_free(&group);
    EXPECT(MPI_Send, (&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), "there is no rank");
    EXPECT(MPI_Recv, (&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
           "a count of -1 is negative");
    EXPECT(MPI_Bcast, (&value, 1, MPI_INT, size, MPI_COMM_WORLD), "root");
    EXPECT(MPI_Init, (NULL, NULL), "once");
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
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    test_handles();
    test_arguments(size);
    test_prefix_once(size);
    MPI_Finalize();
    return failures != 0;
}
