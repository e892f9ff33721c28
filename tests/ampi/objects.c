/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, attributes, info objects and error handlers. Any MPI runs it.
 * usage: telpher launch -n N -- ampi_objects [+vp M] */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

/* ---- groups ---- */

static void
test_group_sets(MPI_Group world)
{
    int low[2] = {0, size - 1}, ranges[1][3] = {{size - 1, 0, -1}}, n, result, at;
    MPI_Group ends, rest, back, both, none;

    MPI_Group_incl(world, size > 1 ? 2 : 1, low, &ends);
    MPI_Group_excl(world, size > 1 ? 2 : 1, low, &rest);
    MPI_Group_size(rest, &n);
    EXPECT(n == (size > 1 ? size - 2 : 0));
    MPI_Group_rank(ends, &at);
    EXPECT(at == (rank == 0 ? 0 : rank == size - 1 ? 1 : MPI_UNDEFINED));
    MPI_Group_union(rest, ends, &both);
    MPI_Group_compare(both, world, &result);
    EXPECT(result == (size > 2 ? MPI_SIMILAR : MPI_IDENT));
    MPI_Group_intersection(rest, ends, &none);
    EXPECT(none == MPI_GROUP_EMPTY);
    MPI_Group_range_incl(world, 1, ranges, &back);
    for (int r = 0; r < size; r++) {
        MPI_Group_translate_ranks(back, 1, &r, world, &at);
        EXPECT(at == size - 1 - r);
    }
    MPI_Group_free(&ends);
    MPI_Group_free(&back);
    MPI_Group_difference(world, both, &ends);
    EXPECT(ends == MPI_GROUP_EMPTY);
    MPI_Group_free(&both);
    if (rest != MPI_GROUP_EMPTY) {
        MPI_Group_free(&rest);
    }
}

static void
test_groups(void)
{
    MPI_Group world;
    MPI_Comm odd;
    int ranges[1][3] = {{1, size - 1, 2}}, n;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    test_group_sets(world);
    if (size > 1) {
        MPI_Group group;

        MPI_Group_range_incl(world, 1, ranges, &group);
        MPI_Comm_create(MPI_COMM_WORLD, group, &odd);
        EXPECT((odd != MPI_COMM_NULL) == (rank % 2 == 1));
        if (odd != MPI_COMM_NULL) {
            MPI_Comm_size(odd, &n);
            EXPECT(n == size / 2);
            MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_SUM, odd);
            EXPECT(n == (size / 2) * (size / 2));
            MPI_Comm_free(&odd);
        }
        MPI_Group_free(&group);
    }
    MPI_Group_free(&world);
}

/* ---- attributes ---- */

static int deleted, copied;

static int
copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    copied++;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int
del(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    deleted++;
    return value == (void *)&failures ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void
test_attributes(void)
{
    static int step = 3, *upper;
    static char place[8];
    int key, other, flag;
    char *value;
    MPI_Comm comm, second;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag);
    EXPECT(flag && *upper >= 32767);
    MPI_Comm_create_keyval(copy, del, &key, &step);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other,
                           NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    EXPECT(!flag);
    MPI_Comm_set_attr(comm, key, place);
    MPI_Comm_set_attr(comm, other, place);
    MPI_Comm_dup(comm, &second);
    MPI_Comm_get_attr(second, key, &value, &flag);
    EXPECT(flag && value == place + 3 && copied == 1);
    MPI_Comm_get_attr(second, other, &value, &flag);
    EXPECT(!flag);
    MPI_Comm_set_attr(second, key, place + 1);
    EXPECT(deleted == 1);
    MPI_Comm_delete_attr(second, key);
    EXPECT(deleted == 2);
    MPI_Comm_free(&second);
    EXPECT(deleted == 2);
    MPI_Comm_free_keyval(&key);
    EXPECT(key == MPI_KEYVAL_INVALID);
    MPI_Comm_free(&comm);
    EXPECT(deleted == 3);
    MPI_Comm_free_keyval(&other);
}

static void
test_type_attributes(void)
{
    static int step = 0;
    MPI_Datatype type, again;
    char *value;
    int key, flag;

    copied = deleted = 0;
    MPI_Type_create_keyval(copy, del, &key, &step);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_set_attr(type, key, &step);
    MPI_Type_dup(type, &again);
    MPI_Type_get_attr(again, key, &value, &flag);
    EXPECT(flag && value == (char *)&step && copied == 1);
    MPI_Type_free(&type);
    MPI_Type_free(&again);
    EXPECT(deleted == 2);
    MPI_Type_free_keyval(&key);
}

/* ---- info ---- */

static void
test_info(void)
{
    MPI_Info info, second;
    char value[MPI_MAX_INFO_VAL + 1], key[MPI_MAX_INFO_KEY + 1];
    int n, flag;
    MPI_Comm comm;

    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "node0");
    MPI_Info_set(info, "wdir", "/tmp");
    MPI_Info_set(info, "host", "node1");
    MPI_Info_get_nkeys(info, &n);
    EXPECT(n == 2);
    MPI_Info_get(info, "host", 3, value, &flag);
    EXPECT(flag && strncmp(value, "nod", 3) == 0);
    MPI_Info_get_valuelen(info, "host", &n, &flag);
    EXPECT(flag && n == 5);
    MPI_Info_get(info, "arch", 10, value, &flag);
    EXPECT(!flag);
    MPI_Info_get_nthkey(info, 1, key);
    EXPECT(strcmp(key, "wdir") == 0);
    MPI_Info_dup(info, &second);
    MPI_Info_delete(info, "host");
    MPI_Info_get(second, "host", MPI_MAX_INFO_VAL, value, &flag);
    EXPECT(flag && strcmp(value, "node1") == 0);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    EXPECT(info == MPI_INFO_NULL);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get(info, "wdir", MPI_MAX_INFO_VAL, value, &flag);
    EXPECT(flag);
    MPI_Info_free(&info);
    MPI_Comm_set_info(comm, second);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get(info, "host", MPI_MAX_INFO_VAL, value, &flag);
    EXPECT(flag && strcmp(value, "node1") == 0);
    MPI_Info_free(&info);
    MPI_Info_free(&second);
    MPI_Comm_free(&comm);
}

/* ---- errors ---- */

static int seen, seen_code;

static void
handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    seen++;
    seen_code = *code;
}

static void
test_error_handlers(void)
{
    MPI_Errhandler handler, now;
    MPI_Comm comm;
    char text[MPI_MAX_ERROR_STRING];
    int error, n, length, error_class;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_get_errhandler(comm, &now);
    EXPECT(now == handler);
    MPI_Errhandler_free(&now);
    MPI_Errhandler_free(&handler);
    EXPECT(handler == MPI_ERRHANDLER_NULL);
    error = MPI_Send(&n, 1, MPI_INT, size + 4, 0, comm);
    EXPECT(error != MPI_SUCCESS && seen == 1 && seen_code == error);
    MPI_Error_class(error, &error_class);
    EXPECT(error_class == MPI_ERR_RANK);
    MPI_Error_string(error, text, &length);
    EXPECT(length > 0 && (int)strlen(text) == length);
    MPI_Comm_call_errhandler(comm, error);
    EXPECT(seen == 2);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    error = MPI_Send(&n, -1, MPI_INT, 0, 0, comm);
    MPI_Error_class(error, &error_class);
    EXPECT(error_class == MPI_ERR_COUNT && seen == 2);
    MPI_Comm_free(&comm);
}

static int
class_of(int error)
{
    int error_class = MPI_SUCCESS;

    MPI_Error_class(error, &error_class);
    return error_class;
}

/* Arguments that would end in a fault of memory. */
static void
test_no_buffer(void)
{
    MPI_Datatype absolute;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Aint at;
    int lengths[] = {1}, n = 7, sent = 5;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    EXPECT(class_of(MPI_Send(NULL, 1, MPI_INT, rank, 0, comm)) == MPI_ERR_BUFFER);
    EXPECT(class_of(MPI_Recv(NULL, 1, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE)) ==
           MPI_ERR_BUFFER);
    EXPECT(class_of(MPI_Bcast(NULL, 1, MPI_INT, 0, comm)) == MPI_ERR_BUFFER);
    EXPECT(MPI_Send(NULL, 1, MPI_INT, MPI_PROC_NULL, 0, comm) == MPI_SUCCESS);
    EXPECT(MPI_Bcast(NULL, 0, MPI_INT, 0, comm) == MPI_SUCCESS);
    MPI_Win_create(&n, sizeof(n), sizeof(n), MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    EXPECT(class_of(MPI_Put(NULL, 1, MPI_INT, rank, 0, 1, MPI_INT, win)) ==
           MPI_ERR_BUFFER);
    EXPECT(MPI_Put(&sent, 1, MPI_INT, rank, PTRDIFF_MAX, 1, MPI_INT, win) !=
           MPI_SUCCESS);
    EXPECT(MPI_Put(&sent, 1, MPI_INT, rank, PTRDIFF_MAX / 4 + 1, 1, MPI_INT, win) !=
           MPI_SUCCESS);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    at = PTRDIFF_MAX; /* elements beyond all addresses */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT(MPI_Type_create_hindexed(1, lengths, &at, MPI_INT, &absolute) !=
           MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Get_address(&n, &at); /* MPI_BOTTOM is NULL, and a buffer of this type */
    MPI_Type_create_hindexed(1, lengths, &at, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Sendrecv(&sent, 1, MPI_INT, rank, 0, MPI_BOTTOM, 1, absolute, rank, 0, comm,
                 MPI_STATUS_IGNORE);
    EXPECT(n == sent);
    MPI_Type_free(&absolute);
    MPI_Comm_free(&comm);
}

static void
test_error_codes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int error_class, code, got, length, flag, *highest;

    MPI_Add_error_class(&error_class);
    MPI_Add_error_code(error_class, &code);
    MPI_Add_error_string(code, "the lake is frozen");
    MPI_Error_class(code, &got);
    EXPECT(got == error_class && error_class > MPI_ERR_LASTCODE);
    MPI_Error_string(code, text, &length);
    EXPECT(strcmp(text, "the lake is frozen") == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &highest, &flag);
    EXPECT(flag && *highest >= code);
}

static void
test_idup(void)
{
    MPI_Comm comm[3];
    MPI_Request requests[3];
    int sum = 1, result;

    for (int i = 0; i < 3; i++) {
        MPI_Comm_idup(MPI_COMM_WORLD, &comm[i], &requests[i]);
    }
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_compare(comm[i], MPI_COMM_WORLD, &result);
        EXPECT(result == MPI_CONGRUENT);
        sum = 1;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm[i]);
        EXPECT(sum == size);
        MPI_Comm_free(&comm[i]);
    }
}

int
main(int argc, char **argv)
{
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    test_groups();
    test_attributes();
    test_type_attributes();
    test_info();
    test_error_handlers();
    test_no_buffer();
    test_error_codes();
    test_idup();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0) {
        printf("objects: good\n");
    }
    MPI_Finalize();
    return all != 0;
}
