/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h under mpirun: every process of the job is one rank, those beyond the size look on. */
#include "ranks.h"

#include <telpher/interop/mpi.h>

static int world_rank;

__attribute__((constructor)) static void
start_mpi(void)
{
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &world_rank) != MPI_SUCCESS) {
        _Exit(2);
    }
}

__attribute__((destructor)) static void
end_mpi(void)
{
    MPI_Finalize();
}

static void
be_rank(MPI_Comm comm, const char *transport, rank_fn fn)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_error err = {0};
    char text[16];

    snprintf(text, sizeof(text), "%d", world_rank);
    setenv("TELPHER_RANK", text, 1); /* for the tests */
    params.transports = transport;
    params.timeout_ns = RANKS_TIME;
    if (telpher_context_create_mpi(comm, &params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "rank %d: %s\n", world_rank, err.text);
        _Exit(2); /* ends the job */
    }
    fn(ctx);
    telpher_context_destroy(ctx);
}

/* Under MPI a rank's death is the job's: nothing to look at. */
bool
ranks_run(uint32_t size, const char *transport, uint32_t killed, rank_fn fn)
{
    MPI_Comm comm;

    if (killed != UINT32_MAX) {
        return true;
    }
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < (int)size ? 0 : MPI_UNDEFINED,
                   world_rank, &comm);
    if (comm != MPI_COMM_NULL) {
        be_rank(comm, transport, fn);
        MPI_Comm_free(&comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return true;
}

bool
ranks_have(const char *transport)
{
    (void)transport;
    return true;
}
