/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one process: reductions, and packing. They stage their buffers, and do not wait. */
#include "mpidev/calls.h"
#include "mpidev/mpidev_int.h"

int
MPI_Reduce_local(const void *in, void *in_out, int count, MPI_Datatype type, MPI_Op op)
{
    struct tp_mpidev_stage stages[2] = {{0}};
    int error;

    if (!tp_mpidev_is_device(tp_mpidev_first(in, type)) &&
        !tp_mpidev_is_device(tp_mpidev_first(in_out, type))) {
        return PMPI_Reduce_local(in, in_out, count, type, op);
    }
    tp_mpidev_lock();
    error = tp_mpidev_stage_open(&stages[0], in, count, type, TP_MPIDEV_IN);
    if (error == MPI_SUCCESS) {
        error = tp_mpidev_stage_open(&stages[1], in_out, count, type, TP_MPIDEV_IN_OUT);
    }
    if (error == MPI_SUCCESS) {
        error = PMPI_Reduce_local(stages[0].mpi, stages[1].mpi, count, type, op);
    }
    error = tp_mpidev_stage_close(&stages[0], error);
    error = tp_mpidev_stage_close(&stages[1], error);
    tp_mpidev_unlock();
    return tp_mpidev_fail_local(error);
}

/* ---- packing: MPI gets the packed bytes from the position on ---- */

/* Buffers of a call: the elements, and [position, size) of the packed bytes. The lock is held. */
static int
open_both(struct tp_mpidev_stage *stages, const void *elements, int count,
          MPI_Datatype type, const void *packed, MPI_Aint size, MPI_Aint position,
          bool packs)
{
    int error = tp_mpidev_stage_open(&stages[0], elements, count, type,
                                     packs ? TP_MPIDEV_IN : TP_MPIDEV_OUT);

    if (error == MPI_SUCCESS && (position < 0 || position > size)) {
        error = MPI_ERR_ARG;
    }
    return error != MPI_SUCCESS
               ? error
               : tp_mpidev_stage_open(&stages[1], (const char *)packed + position,
                                      size - position, MPI_BYTE,
                                      packs ? TP_MPIDEV_OUT : TP_MPIDEV_IN);
}

/* @param done  [bytes] that were packed or unpacked: only those are copied back */
static int
close_both(struct tp_mpidev_stage *stages, int error, MPI_Aint done)
{
    if (stages[1].host != NULL && stages[1].copies_out) {
        stages[1].span = (size_t)done;
    }
    error = tp_mpidev_stage_close(&stages[0], error);
    return tp_mpidev_stage_close(&stages[1], error);
}

/* PACKING(name, its type of positions, parameters, elements, packed bytes, whether it packs, how
 * it reports errors, arguments as the program gives them, arguments with E, P, the rest and AT) */
#define UNPACK(...) __VA_ARGS__
#define E stages[0].mpi
#define P stages[1].mpi
#define REST (size - *position)
#define PACKING(name, number, params, elements, packed, packs, fail, plain, staged)    \
    int MPI_##name(UNPACK params)                                                      \
    {                                                                                  \
        struct tp_mpidev_stage stages[2] = {{0}};                                      \
        number done = 0, *at = &done;                                                  \
        int error;                                                                     \
                                                                                       \
        if (!tp_mpidev_is_device(tp_mpidev_first(elements, type)) &&                   \
            !tp_mpidev_is_device(packed)) {                                            \
            return PMPI_##name(UNPACK plain);                                          \
        }                                                                              \
        tp_mpidev_lock();                                                              \
        error =                                                                        \
            open_both(stages, elements, count, type, packed, size, *position, packs);  \
        if (error == MPI_SUCCESS) {                                                    \
            error = PMPI_##name(UNPACK staged);                                        \
        }                                                                              \
        error = close_both(stages, error, done);                                       \
        *position += error == MPI_SUCCESS ? done : 0;                                  \
        tp_mpidev_unlock();                                                            \
        return fail;                                                                   \
    }

/* clang-format off */
PACKING(Pack, int, (const void *in, int count, MPI_Datatype type, void *out, int size, int *position, MPI_Comm comm),
    in, out, true, tp_mpidev_fail(comm, error), (in, count, type, out, size, position, comm), (E, count, type, P, REST, at, comm))
PACKING(Unpack, int, (const void *in, int size, int *position, void *out, int count, MPI_Datatype type, MPI_Comm comm),
    out, in, false, tp_mpidev_fail(comm, error), (in, size, position, out, count, type, comm), (P, REST, at, E, count, type, comm))
PACKING(Pack_external, MPI_Aint,
    (const char *form, const void *in, int count, MPI_Datatype type, void *out, MPI_Aint size, MPI_Aint *position),
    in, out, true, tp_mpidev_fail_local(error), (form, in, count, type, out, size, position), (form, E, count, type, P, REST, at))
PACKING(Unpack_external, MPI_Aint,
    (const char *form, const void *in, MPI_Aint size, MPI_Aint *position, void *out, int count, MPI_Datatype type),
    out, in, false, tp_mpidev_fail_local(error), (form, in, size, position, out, count, type), (form, P, REST, at, E, count, type))
/* clang-format on */
