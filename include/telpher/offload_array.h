/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays distributed in blocks of rows: copied between the two sides of an intercommunicator,
 * or kept in the workers between kernels. Part of telpher/offload.h.
 */
#ifndef TELPHER_OFFLOAD_ARRAY_H
#define TELPHER_OFFLOAD_ARRAY_H

#include <mpi.h>

#include <telpher/error.h>
#include <telpher/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Computes the counts and displacements of an MPI_Alltoallv() between the two sides of @p
 * inter. For each process of the other side: the number of elements that its block and this
 * process's block have in common, and where they begin in this process's block. Both sides
 * have the same @p rows of @p elements each, cut by telpher_block_first() into as many blocks
 * as the side has processes. No communication.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID  @p inter is no intercommunicator
 *         TELPHER_ERR_RANGE    an entry does not fit an int
 */
TELPHER_CALL telpher_status telpher_block_counts(uint64_t rows, uint64_t elements,
                                                 MPI_Comm inter, int counts[],
                                                 int displacements[]);

/**
 * Sends the blocks of this side to the other side, whose processes call
 * telpher_block_receive() with the same @p rows and @p elements. It is an MPI_Alltoallv() of
 * whole rows, so that only the number of rows must fit an int. Collective over both sides; a
 * block without rows is not accessed. Errors of the MPI go to the error handler of @p inter.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID    @p inter is no intercommunicator
 *         TELPHER_ERR_RANGE      more rows, or elements in a row, than an int holds
 *         TELPHER_ERR_NO_MEMORY
 *         TELPHER_ERR_IO         the MPI failed, and its handler returned
 */
TELPHER_CALL telpher_status telpher_block_send(const void *block, uint64_t rows,
                                               uint64_t elements, MPI_Datatype type,
                                               MPI_Comm inter);
/** The matching receive of telpher_block_send(), with the same errors. */
TELPHER_CALL telpher_status telpher_block_receive(void *block, uint64_t rows,
                                                  uint64_t elements, MPI_Datatype type,
                                                  MPI_Comm inter);

/**
 * An array of rows that stays in the workers between kernels, in blocks cut by
 * telpher_block_first(). A kernel that declares a telpher_block gets its worker's block. The
 * caller passes the address of its telpher_array * like any other argument:
 *
 *     telpher_array *a;
 *     void *args[] = {&a};
 *     int sizes[] = {sizeof(a)};
 *
 * For private data of each worker, use as many rows as workers. Calls about an array are
 * collective over the parents. They take effect after the kernels called before, so that no
 * block is freed while a kernel uses it, and may block until then: if such a kernel waits for
 * a message, send it first. An array ends with its workers. Handles are never reused; a freed
 * handle is rejected. All parents make the same call with the same sizes; if one of them
 * fails, all fail.
 */
typedef struct telpher_array telpher_array;

/**
 * Makes an array of 0 bytes in all workers of @p intercomm. Waits for the kernels before it.
 * @p root has the meaning of MPIX_Kernel_call().
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_RANGE      larger than the address space
 *         TELPHER_ERR_INVALID    the parents have given different sizes or roots
 *         TELPHER_ERR_NO_MEMORY  with the error text of the first worker, or of a parent;
 *                                nothing stays allocated
 *         TELPHER_ERR_PEER_LOST  the workers have ended
 *         and those of the first call, telpher_offload_start()
 */
TELPHER_CALL telpher_status telpher_array_create(uint64_t rows, uint64_t row_bytes,
                                                 int root, MPI_Comm comm,
                                                 MPI_Comm intercomm,
                                                 telpher_array **ret_array,
                                                 telpher_error *err);

/**
 * Writes the array: each parent passes its block, rows from telpher_block_first(rows, parents,
 * rank) on. The block may be changed when the call returns. An error after that is reported
 * by the next call. Waits for the kernels before it.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID    no such array: freed, or ended with its workers; or no @p block
 *                                for rows; or other parents make other calls
 *         TELPHER_ERR_NO_MEMORY  nothing was moved
 *         TELPHER_ERR_PEER_LOST  the workers have ended; the MPI may still read @p block
 */
TELPHER_CALL telpher_status telpher_array_put(const telpher_array *array,
                                              const void *block, telpher_error *err);

/** Reads the array: each parent receives its block. Otherwise as telpher_array_put(). */
TELPHER_CALL telpher_status telpher_array_get(const telpher_array *array, void *block,
                                              telpher_error *err);

/**
 * Frees the array after the kernels called before, without waiting for them, and sets *@p array
 * to NULL. NULL is allowed.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID    no such array, or other parents make other calls; *array
 *                                is unchanged
 *         TELPHER_ERR_NO_MEMORY  unchanged as well
 *         TELPHER_ERR_PEER_LOST  the workers have ended, and the array with them
 */
TELPHER_CALL telpher_status telpher_array_free(telpher_array **array,
                                               telpher_error *err);

#ifdef __cplusplus
}
#endif

#endif
