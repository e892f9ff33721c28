/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: groups PLUGIN
 * Kernels and main in one program, whose launch's last two processes are workers
 * (TELPHER_OFFLOAD_WORKERS=2): several groups at once, one after the other, plugins.
 */
#include <string.h>

#include "check.h"

static MPI_Comm
start(int wanted, telpher_status expected)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    telpher_error err = {0};
    MPI_Comm inter = MPI_COMM_NULL;
    int workers;

    params.workers = wanted;
    params.mode = TELPHER_OFFLOAD_SPLIT;
    check(telpher_offload_start(&params, 0, MPI_COMM_WORLD, &inter, &err) == expected);
    if (expected == TELPHER_OK) {
        MPI_Comm_remote_size(inter, &workers);
        check(workers == wanted);
        check(telpher_offload_mode_of(inter) == TELPHER_OFFLOAD_SPLIT);
    } else {
        check(err.text[0] != '\0');
    }
    return inter;
}

static void
bad_starts(void)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    telpher_error err = {0};
    MPI_Comm inter = MPI_COMM_NULL;

    check(telpher_offload_start(&params, 1, MPI_COMM_WORLD, &inter, &err) ==
          TELPHER_ERR_INVALID);
    params.mode = 3;
    check(telpher_offload_start(&params, 0, MPI_COMM_WORLD, &inter, &err) ==
          TELPHER_ERR_INVALID);
    check(inter == MPI_COMM_NULL && err.text[0] != '\0');
}

static void
run(MPI_Comm inter, char *name, int expected)
{
    MPIX_Kernel_request request;
    MPIX_Kernel_status status;

    check(MPIX_Kernel_icall(name, 0, NULL, NULL, 0, MPI_COMM_WORLD, inter, &request) ==
          MPI_SUCCESS);
    check(MPIX_Kernel_wait(&request, &status) == MPI_SUCCESS);
    check(status.result == expected);
}

static void
paper(MPI_Comm inter)
{
    double a = 1.5;
    int b = 42;
    char c = 'x';
    void *args[] = {&a, &b, &c};
    int sizes[] = {sizeof(a), sizeof(b), sizeof(c)};

    check(MPIX_Kernel_call("kernel0", 3, args, sizes, 0, MPI_COMM_WORLD, inter) ==
          MPI_SUCCESS);
}

static void
plugins(MPI_Comm inter, const char *path)
{
    telpher_error err = {0};

    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    check(MPIX_Kernel_call("plugged", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter) !=
          MPI_SUCCESS);
    check(telpher_offload_load("/no/such/plugin.so", 0, MPI_COMM_WORLD, inter, &err) ==
          TELPHER_ERR_NOT_FOUND);
    check(strstr(err.text, "/no/such/plugin.so") != NULL);
    check(telpher_offload_load(path, 0, MPI_COMM_WORLD, inter, &err) == TELPHER_OK);
    run(inter, "plugged", 5);
    run(inter, "nothing", 0);
}

int
main(int argc, char **argv)
{
    MPI_Comm first, second;
    int size;

    MPI_Init(&argc, &argv);
    check(argc > 1);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size == 1); /* workers do not come here */
    bad_starts();
    for (int round = 0; round < 3; round++) {
        first = start(1, TELPHER_OK);
        second = start(1, TELPHER_OK);
        (void)start(1, TELPHER_ERR_LIMIT);
        (void)start(0, TELPHER_ERR_LIMIT);
        paper(first);
        paper(second);
        run(first, "nothing", 0);
        run(second, "nothing", 0);
        check(MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, second) ==
              MPI_SUCCESS);
        MPI_Comm_disconnect(&second);
        check(MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, first) ==
              MPI_SUCCESS);
    }
    first = start(2, TELPHER_OK);
    paper(first);
    plugins(first, argv[1]);
    MPI_Comm_disconnect(&first); /* ends the workers, too */
    check(first == MPI_COMM_NULL);
    puts("groups: good");
    MPI_Finalize();
    return 0;
}
