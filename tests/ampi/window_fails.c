/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long put that cannot be sent returns an error, and a later flush does not wait for it.
 * usage: telpher launch -n 2 -- ampi_window_fails
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <telpher/channel.h>

enum { COUNT = 1 << 20 };

static int fails; /* telpher_channel_open() */

/* The library finds this one first. */
telpher_status
telpher_channel_open(telpher_context *ctx, uint32_t peer, uint32_t id,
                     telpher_channel **ret_channel)
{
    telpher_status (*real)(telpher_context *, uint32_t, uint32_t, telpher_channel **) =
        (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, "telpher_channel_open");

    return fails ? TELPHER_ERR_NO_MEMORY : real(ctx, peer, id, ret_channel);
}

static int
put(const char *data, MPI_Win win)
{
    int result, again;

    fails = 1;
    result = MPI_Put(data, COUNT, MPI_CHAR, 1, 0, COUNT, MPI_CHAR, win);
    MPI_Win_flush(1, win);
    fails = 0;
    again = MPI_Put(data, COUNT, MPI_CHAR, 1, 0, COUNT, MPI_CHAR, win);
    MPI_Win_flush(1, win);
    if (result == MPI_SUCCESS || again != MPI_SUCCESS) {
        fprintf(stderr, "puts returned %d and %d: FAILED\n", result, again);
        return 1;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    char *data = calloc(1, COUNT), *part = calloc(1, COUNT);
    int rank, failed = 0;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    data[COUNT - 1] = 'z';
    MPI_Win_create(part, COUNT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        failed = put(data, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && part[COUNT - 1] != 'z') {
        fprintf(stderr, "the second put did not arrive: FAILED\n");
        failed = 1;
    }
    MPI_Win_free(&win);
    free(data);
    free(part);
    MPI_Finalize();
    return failed;
}
