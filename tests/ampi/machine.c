/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_COMM_TYPE_SHARED: host names do not decide which ranks share memory.
 * usage: telpher launch -n 2 -- ampi_machine name|container
 *   name       rank 1 has another host name: one communicator
 *   container  rank 1 is in a PID namespace of its own, with the same host name: two
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

/* Every rank asks, so that all of them skip. */
static int
may_unshare(int flag)
{
    pid_t child = fork();
    int status = 1;

    if (child == 0) {
        _exit(unshare(flag) != 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Goes on in a child of a new namespace; the parent has the child's exit status. */
static void
enter_container(void)
{
    pid_t child;
    int status = 0;

    if (unshare(CLONE_NEWPID) != 0) {
        exit(1);
    }
    child = fork();
    if (child > 0) {
        (void)waitpid(child, &status, 0);
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
}

static void
change_name(void)
{
    static const char name[] = "another-name";

    if (unshare(CLONE_NEWUTS) != 0 || sethostname(name, strlen(name)) != 0) {
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    int container = argc > 1 && strcmp(argv[1], "container") == 0, rank, size;
    const char *number = getenv("TELPHER_RANK");
    MPI_Comm shared;

    if (!may_unshare(container ? CLONE_NEWPID : CLONE_NEWUTS)) {
        return SKIPPED;
    }
    if (number != NULL && strcmp(number, "1") == 0) {
        container ? enter_container() : change_name();
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &shared);
    MPI_Comm_size(shared, &size);
    if (size != (container ? 1 : 2)) {
        fprintf(stderr, "rank %d shares memory with %d ranks: FAILED\n", rank, size);
    }
    MPI_Comm_free(&shared);
    MPI_Finalize();
    return size != (container ? 1 : 2);
}
