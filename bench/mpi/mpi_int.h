/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the module for an MPI. */
#ifndef BENCH_MPI_INT_H
#define BENCH_MPI_INT_H

#include <mpi.h>

#include "bench/mpi/mpi_module.h"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

/* MPI 4's calls, which adaptive MPI has beside MPI 3; Open MPI 4 has the persistent collectives
 * under names of its own. MPICH 4.0 has them too, but frees after the first start what the second
 * one uses: content is lost, or the process ends. */
#if MPI_VERSION >= 4 || defined(TELPHER_AMPI)
#define BENCH_MPI_PARTITIONED 1
#if !defined(MPICH_NUMVERSION) || MPICH_NUMVERSION >= 40100000
#define BENCH_MPI_INIT(name) MPI_##name##_init
#endif
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define BENCH_MPI_INIT(name) MPIX_##name##_init
#endif

/** A run of elements of one type. */
struct bench_mpi_elements {
    MPI_Datatype type;
    int count;
};

/** All processes: MPI_COMM_WORLD, or, in a session, a communicator of its own. */
extern MPI_Comm bench_mpi_comm;
/** How a message of so many bytes is sent: as bytes, or in the layout of the size that is measured. */
struct bench_mpi_elements bench_mpi_message(size_t len);
/** One block of a collective: elements of w->type, or one of its layout, as long as the block. */
struct bench_mpi_elements bench_mpi_block(const struct bench_work *w);
/** Makes the type of w->layout for w->len; frees the last one. */
bool bench_mpi_lay_out(const struct bench_work *w);

/** Tables that end with an entry without a name. */
extern const struct bench_call bench_mpi_collectives[], bench_mpi_pairs[],
    bench_mpi_windows[];

static inline bool
bench_mpi_good(int error)
{
    return error == MPI_SUCCESS;
}

static inline MPI_Datatype
bench_mpi_type(enum bench_type type)
{
    return type == BENCH_INT     ? MPI_INT
           : type == BENCH_FLOAT ? MPI_FLOAT
                                 : MPI_SIGNED_CHAR;
}

#endif
