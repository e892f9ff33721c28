/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: fault WORKER WORKERS CASE
 * Brings about what must end the job, in bounded time and with words: tests/offload/faults.sh.
 */
#include <string.h>
#include <unistd.h>

#include "check.h"

/* A group waits for a kernel of another, whose worker is killed. */
static void
behind_a_killed_worker(MPI_Comm inter)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    int kill = 4, sizes[] = {sizeof(kill)};
    void *args[] = {&kill};
    MPIX_Kernel_request killed, behind;
    MPI_Comm other;

    params.workers = 1;
    check(telpher_offload_start(&params, 0, MPI_COMM_WORLD, &other, NULL) ==
          TELPHER_OK);
    MPIX_Kernel_icall("crashes", 1, args, sizes, 0, MPI_COMM_WORLD, inter, &killed);
    MPIX_Kernel_after(1, &killed, MPI_COMM_WORLD, other);
    MPIX_Kernel_icall("nothing", 0, NULL, NULL, 0, MPI_COMM_WORLD, other, &behind);
    MPIX_Kernel_wait(&behind, NULL);
}

int
main(int argc, char **argv)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    telpher_error err = {0};
    MPI_Comm inter;
    int how = 0, sizes[] = {sizeof(how)};
    void *args[] = {&how};
    const char *name;

    check(argc > 3);
    name = argv[3];
    MPI_Init(&argc, &argv);
    params.program = argv[1];
    params.workers = strcmp(name, "gate") == 0 ? 1 : atoi(argv[2]);
    if (telpher_offload_start(&params, 0, MPI_COMM_WORLD, &inter, &err) != TELPHER_OK) {
        fprintf(stderr, "start: %s\n", err.text);
        MPI_Finalize();
        return 3;
    }
    if (strcmp(name, "gate") == 0) {
        behind_a_killed_worker(inter);
    }
    if (strcmp(name, "abort") == 0) {
        MPIX_Kernel_call("waits", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
        usleep(200000);
        abort();
    }
    if (strcmp(name, "stuck") == 0) {
        MPIX_Kernel_call("waits", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
        MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
        MPI_Finalize();
        return 3;
    }
    if (strcmp(name, "unnoticed") == 0) {
        int result = 7, two[] = {sizeof(how), sizeof(result)};
        void *both[] = {&how, &result};

        MPIX_Kernel_call("fails_at", 2, both, two, 0, MPI_COMM_WORLD, inter);
        MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
        MPI_Finalize();
        return 3;
    }
    if (strcmp(name, "unknown") == 0) {
        MPIX_Kernel_call("no_such_kernel", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
    } else if (strcmp(name, "put") == 0) { /* rows are for workers that are gone */
        telpher_array *array = NULL;
        static char rows[1 << 20];

        check(telpher_array_create(sizeof(rows), 1, 0, MPI_COMM_WORLD, inter, &array,
                                   NULL) == TELPHER_OK);
        how = 1;
        MPIX_Kernel_call("crashes", 1, args, sizes, 0, MPI_COMM_WORLD, inter);
        (void)telpher_array_put(array, rows, NULL);
    } else {
        how = strcmp(name, "segv") == 0     ? 0
              : strcmp(name, "_exit3") == 0 ? 1
              : strcmp(name, "_exit0") == 0 ? 2
              : strcmp(name, "killed") == 0 ? 4
                                            : 3;
        MPIX_Kernel_call("crashes", 1, args, sizes, 0, MPI_COMM_WORLD, inter);
    }
    MPI_Recv(&how, 1, MPI_INT, 0, 79, inter, MPI_STATUS_IGNORE); /* never comes */
    return 0;
}
