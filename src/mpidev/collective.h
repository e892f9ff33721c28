/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collective call in three forms from one row of a table: blocking, non-blocking, and
 * persistent where the MPI has those (MPI-4.0, 6.12).
 */
#ifndef TP_MPIDEV_COLLECTIVE_H
#define TP_MPIDEV_COLLECTIVE_H

#include "mpidev/calls.h"
#include "mpidev/mpidev_int.h"

#define IN TP_MPIDEV_IN
#define OUT TP_MPIDEV_OUT

/* ---- stages; the names of their buffers are A and B in the calls ---- */

#define A op->stages[0].mpi
#define B op->stages[1].mpi
#define NONE MPI_SUCCESS
#define BUFFER(i, buffer, count, type, use)                                            \
    tp_mpidev_stage_open(&op->stages[i], buffer, count, type, use)
/* Blocks of n processes. */
#define BLOCKS_OF(i, n, buffer, counts, displs, type, use)                             \
    tp_mpidev_stage_open_blocks(&op->stages[i], buffer, n, counts, displs, type, use)
#define TYPED_OF(i, n, buffer, counts, displs, wide, types, use)                       \
    tp_mpidev_stage_open_typed(&op->stages[i], buffer, n, counts, displs, wide, types, \
                               use)

#define UNPACK(...) __VA_ARGS__
#if MPI_VERSION >= 4
/* The staged buffers stay as long as the request. MPI's own call is made without the lock. */
#define PERSISTENT(name, params, first, second, stage_a, stage_b, plain, staged)       \
    int MPI_##name##_init(UNPACK params, MPI_Info info, MPI_Request *request)          \
    {                                                                                  \
        struct tp_mpidev_op *op;                                                       \
        int error;                                                                     \
                                                                                       \
        if (!tp_mpidev_is_device(first) && !tp_mpidev_is_device(second)) {             \
            return PMPI_##name##_init(UNPACK plain, info, request);                    \
        }                                                                              \
        op = tp_mpidev_op_new(comm);                                                   \
        if (op == NULL) {                                                              \
            return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);                               \
        }                                                                              \
        tp_mpidev_lock();                                                              \
        error = stage_a;                                                               \
        error = error == MPI_SUCCESS ? stage_b : error;                                \
        tp_mpidev_unlock();                                                            \
        if (error == MPI_SUCCESS) {                                                    \
            error = PMPI_##name##_init(UNPACK staged, info, &op->inner);               \
        }                                                                              \
        return tp_mpidev_persistent_collective(op, error, request);                    \
    }
#else
#define PERSISTENT(name, params, first, second, stage_a, stage_b, plain, staged)
#endif

/*
 * All processes of a call must use the same form of MPI's, whatever memory each has: so the blocking
 * call is MPI's non-blocking one everywhere.
 *
 * COLLECTIVE(name, its non-blocking form, parameters, buffers (two, or one twice), the first
 * stage, the second, arguments as the program gives them, arguments with A and B)
 */
#define COLLECTIVE(name, iname, params, first, second, stage_a, stage_b, plain,        \
                   staged)                                                             \
    static int begin_##name(struct tp_mpidev_op *op, UNPACK params)                    \
    {                                                                                  \
        int error = stage_a;                                                           \
                                                                                       \
        error = error == MPI_SUCCESS ? stage_b : error;                                \
        return error == MPI_SUCCESS ? PMPI_##iname(UNPACK staged, &op->inner) : error; \
    }                                                                                  \
    int MPI_##name(UNPACK params)                                                      \
    {                                                                                  \
        struct tp_mpidev_op *op;                                                       \
        int error;                                                                     \
                                                                                       \
        if (tp_mpidev_context == NULL) {                                               \
            return PMPI_##name(UNPACK plain);                                          \
        }                                                                              \
        op = tp_mpidev_op_new(comm);                                                   \
        if (op == NULL) {                                                              \
            return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);                               \
        }                                                                              \
        tp_mpidev_lock();                                                              \
        error =                                                                        \
            tp_mpidev_op_wait(op, begin_##name(op, UNPACK plain), MPI_STATUS_IGNORE);  \
        tp_mpidev_unlock();                                                            \
        return error;                                                                  \
    }                                                                                  \
    int MPI_##iname(UNPACK params, MPI_Request *request)                               \
    {                                                                                  \
        struct tp_mpidev_op *op;                                                       \
        int error;                                                                     \
                                                                                       \
        if (!tp_mpidev_is_device(first) && !tp_mpidev_is_device(second)) {             \
            return PMPI_##iname(UNPACK plain, request);                                \
        }                                                                              \
        op = tp_mpidev_op_new(comm);                                                   \
        if (op == NULL) {                                                              \
            return tp_mpidev_fail(comm, MPI_ERR_NO_MEM);                               \
        }                                                                              \
        tp_mpidev_lock();                                                              \
        error = tp_mpidev_op_start(op, begin_##name(op, UNPACK plain), request);       \
        tp_mpidev_unlock();                                                            \
        return error;                                                                  \
    }                                                                                  \
    PERSISTENT(name, params, first, second, stage_a, stage_b, plain, staged)

#endif
