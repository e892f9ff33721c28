/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic processes: jobs that start other jobs, and jobs that connect by ports. Any MPI runs it.
 * usage: telpher launch -n N -- ampi_spawn [+vp M] */
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"

enum { CHILDREN = 2, LONG = 1 << 18 };

static char *program;

/* ---- both sides ---- */

/* Long and short messages between ranks of the same number. */
static void
swap_messages(MPI_Comm inter)
{
    static int out[LONG], in[LONG];
    int at, others, value = rank, got = -1;

    MPI_Comm_rank(inter, &at);
    MPI_Comm_remote_size(inter, &others);
    for (int i = 0; i < LONG; i++) {
        out[i] = i ^ at;
    }
    if (at < others) {
        MPI_Sendrecv(&at, 1, MPI_INT, at, 1, &got, 1, MPI_INT, at, 1, inter,
                     MPI_STATUS_IGNORE);
        EXPECT(got == at);
        MPI_Sendrecv(out, LONG, MPI_INT, at, 2, in, LONG, MPI_INT, at, 2, inter,
                     MPI_STATUS_IGNORE);
        EXPECT(memcmp(out, in, sizeof(in)) == 0);
    }
    MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_MAX, inter);
    EXPECT(got == others - 1);
}

/* Communicators made of one that spans jobs. */
static void
use_merged(MPI_Comm inter, int is_child)
{
    int at, all, local, remote, sum, expected, one = 1;
    MPI_Comm merged, copy, half, twin;

    MPI_Comm_size(inter, &local);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_dup(inter, &twin);
    MPI_Intercomm_merge(twin, is_child, &merged);
    MPI_Comm_free(&twin);
    MPI_Comm_rank(merged, &at);
    MPI_Comm_size(merged, &all);
    EXPECT(all == local + remote);
    EXPECT(at == rank + (is_child ? remote : 0));
    MPI_Allreduce(&at, &sum, 1, MPI_INT, MPI_SUM, merged);
    EXPECT(sum == all * (all - 1) / 2);
    MPI_Comm_dup(merged, &copy);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    EXPECT(sum == all);
    MPI_Comm_split(copy, at % 2, -at, &half);
    MPI_Comm_size(half, &expected);
    EXPECT(expected == (all + (at % 2 == 0)) / 2);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
    EXPECT(sum == expected);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    MPI_Comm_disconnect(&merged);
}

/* ---- the started job ---- */

static int
run_child(MPI_Comm parent, int argc, char **argv)
{
    int *part, has_part, remote;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm again;

    MPI_Comm_remote_size(parent, &remote);
    EXPECT(argc >= 3 && strcmp(argv[1], "child") == 0 && strcmp(argv[2], "a b") == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &part, &has_part);
    EXPECT(has_part && *part == (argc == 4 && atoi(argv[3]) == 1));
    MPI_Comm_get_name(parent, name, &argc);
    EXPECT(strcmp(name, "MPI_COMM_PARENT") == 0);
    swap_messages(parent);
    use_merged(parent, 1);
    MPI_Bcast(&failures, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(&failures, 1, MPI_INT, 0, 9, parent);
    }
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&again);
    EXPECT(again == MPI_COMM_NULL);
    MPI_Finalize();
    return failures != 0;
}

/* ---- parents ---- */

static void
end_children(MPI_Comm inter)
{
    int theirs = 0;

    swap_messages(inter);
    use_merged(inter, 0);
    if (rank == 0) {
        MPI_Recv(&theirs, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
    }
    EXPECT(theirs == 0);
    MPI_Comm_disconnect(&inter);
    EXPECT(inter == MPI_COMM_NULL);
}

static void
test_spawn(int root)
{
    char *argv[] = {"child", "a b", NULL};
    int codes[CHILDREN] = {-1, -1}, n;
    MPI_Comm inter;

    MPI_Comm_spawn(program, argv, CHILDREN, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter,
                   codes);
    EXPECT(codes[0] == MPI_SUCCESS && codes[CHILDREN - 1] == MPI_SUCCESS);
    MPI_Comm_remote_size(inter, &n);
    EXPECT(n == CHILDREN);
    end_children(inter);
}

static void
test_spawn_multiple(void)
{
    char *first[] = {"child", "a b", "0", NULL},
         *second[] = {"child", "a b", "1", NULL};
    char **argvs[] = {first, second}, *commands[] = {program, program};
    int numbers[] = {1, 2}, codes[3], n;
    MPI_Info infos[2];
    MPI_Comm inter;

    MPI_Info_create(&infos[0]);
    MPI_Info_set(infos[0], "wdir", "/");
    infos[1] = MPI_INFO_NULL;
    MPI_Comm_spawn_multiple(2, commands, argvs, numbers, infos, 0, MPI_COMM_WORLD,
                            &inter, codes);
    MPI_Info_free(&infos[0]);
    MPI_Comm_remote_size(inter, &n);
    EXPECT(n == 3);
    end_children(inter);
}

/* A program that is not there, one that does not call MPI, and wrong arguments. */
static void
test_errors(void)
{
    int codes[1] = {MPI_SUCCESS}, class;
    char *words[] = {"/nowhere/program", "true"};
    MPI_Comm inter;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) {
        MPI_Error_class(MPI_Comm_spawn(words[i], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                                       MPI_COMM_SELF, &inter, codes),
                        &class);
        EXPECT(class == MPI_ERR_SPAWN && codes[0] != MPI_SUCCESS);
        EXPECT(inter == MPI_COMM_NULL);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(
        MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), &class);
    EXPECT(class == MPI_ERR_PORT);
    MPI_Error_class(MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, size,
                                   MPI_COMM_WORLD, &inter, codes),
                    &class);
    EXPECT(class == MPI_ERR_ROOT && inter == MPI_COMM_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Connects to a port of adaptive MPI, sends @p bytes of a wrong secret, and stays connected. */
static int
connect_without_secret(const char *port, int bytes)
{
    static const char wrong[100] = "wrong";
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int number, fd;

    if (sscanf(port, "telpher:%*[^:]:%d", &number) != 1) {
        return -1; /* another MPI's */
    }
    at.sin_port = htons((uint16_t)number);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    EXPECT(send(fd, wrong, (size_t)bytes, MSG_NOSIGNAL) == bytes);
    return fd;
}

/* Both halves of the world connect by a published port, on which two clients without the secret wait. */
static void
test_ports(void)
{
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME], service[64];
    int is_server = rank < (size + 1) / 2, result, world_rank, intruders[2] = {-1, -1};
    MPI_Comm half, inter;
    MPI_Group world, remote;

    MPI_Comm_split(MPI_COMM_WORLD, is_server, rank, &half);
    snprintf(service, sizeof(service), "ampi spawn %ld", (long)getppid());
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(service, MPI_INFO_NULL, port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(service, sizeof(service), MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Lookup_name(service, MPI_INFO_NULL, found);
    EXPECT(rank != 0 || strcmp(found, port) == 0);
    if (rank == 0) {
        intruders[0] = connect_without_secret(port, 0);
        intruders[1] = connect_without_secret(port, 100);
    }
    if (is_server) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    } else {
        MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, &inter);
    }
    MPI_Comm_remote_group(inter, &remote);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    result = 0;
    MPI_Group_translate_ranks(remote, 1, &result, world, &world_rank);
    EXPECT(world_rank == (is_server ? (size + 1) / 2 : 0));
    MPI_Group_free(&world);
    MPI_Group_free(&remote);
    MPI_Comm_disconnect(&inter);
    MPI_Comm_free(&half);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        close(intruders[0]);
        close(intruders[1]);
        MPI_Unpublish_name(service, MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
}

/* Rank 0 starts a job, which the other ranks meet through it. */
static void
test_intercomm_create(void)
{
    char *argv[] = {"bridge", NULL};
    MPI_Comm inter = MPI_COMM_NULL, pair = MPI_COMM_NULL, all;
    int n;

    if (rank == 0) {
        MPI_Comm_spawn(program, argv, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                       MPI_ERRCODES_IGNORE);
        MPI_Intercomm_merge(inter, 0, &pair);
    }
    MPI_Intercomm_create(MPI_COMM_WORLD, 0, pair, 1, 5, &all);
    MPI_Comm_remote_size(all, &n);
    EXPECT(n == CHILDREN);
    swap_messages(all);
    MPI_Comm_disconnect(&all);
    if (rank == 0) {
        MPI_Comm_disconnect(&pair);
        MPI_Comm_disconnect(&inter);
    }
}

static int
run_bridge(MPI_Comm parent)
{
    MPI_Comm pair, all;

    MPI_Intercomm_merge(parent, 1, &pair);
    MPI_Intercomm_create(MPI_COMM_WORLD, 0, pair, 0, 5, &all);
    swap_messages(all);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&pair);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return failures != 0;
}

static void
test_join(void)
{
    int ends[2] = {-1, -1}, got = -1, remote;
    MPI_Comm inter;

    if (size < 2 || rank > 1 || getenv("ONE_PROCESS") == NULL) {
        return;
    }
    if (rank == 0) {
        EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        MPI_Send(&ends[1], 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&ends[0], 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Comm_join(ends[0], &inter);
    MPI_Comm_remote_size(inter, &remote);
    EXPECT(remote == 1);
    MPI_Sendrecv(&rank, 1, MPI_INT, 0, 4, &got, 1, MPI_INT, 0, 4, inter,
                 MPI_STATUS_IGNORE);
    EXPECT(got == 1 - rank);
    MPI_Comm_disconnect(&inter);
    close(ends[0]);
}

int
main(int argc, char **argv)
{
    MPI_Comm parent;
    int all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    program = argv[0];
    if (parent != MPI_COMM_NULL) {
        return argc > 2 ? run_child(parent, argc, argv) : run_bridge(parent);
    }
    test_spawn(0);
    test_spawn(size - 1);
    test_spawn_multiple();
    test_errors();
    if (size > 1) {
        test_ports();
    }
    test_intercomm_create();
    test_join();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0 && all == 0) {
        printf("passed\n");
    }
    return all != 0;
}
