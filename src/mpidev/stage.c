/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory in the place of device memory, with the layout of its datatype. */
#include <stdlib.h>

#include "mpidev/mpidev_int.h"

#define KEPT 8 /* free blocks of host memory, each as large as a power of 2 */
#define KEPT_BYTES ((size_t)64 << 20)

static struct {
    char *block[KEPT];
    size_t room[KEPT];
} kept;

static size_t
power_of_two(size_t bytes)
{
    size_t room = 4096;

    while (room < bytes) {
        room *= 2;
    }
    return room;
}

static char *
host_take(size_t bytes, size_t *ret_room)
{
    *ret_room = power_of_two(bytes);
    for (unsigned i = 0; i < KEPT; i++) {
        if (kept.block[i] != NULL && kept.room[i] == *ret_room) {
            char *block = kept.block[i];

            kept.block[i] = NULL;
            return block;
        }
    }
    return malloc(*ret_room);
}

static void
host_give(char *block, size_t room)
{
    for (unsigned i = 0; i < KEPT && room <= KEPT_BYTES / KEPT; i++) {
        if (kept.block[i] == NULL) {
            kept.block[i] = block;
            kept.room[i] = room;
            return;
        }
    }
    free(block);
}

void
tp_mpidev_stage_fini(void)
{
    for (unsigned i = 0; i < KEPT; i++) {
        free(kept.block[i]);
        kept.block[i] = NULL;
    }
}

/* The bytes [low, high) relative to a buffer that blocks of a datatype touch. */
struct extent {
    MPI_Aint low, high;
    bool dense; /* every byte of it belongs to the data */
};

static int
measure(MPI_Datatype type, int64_t first, int64_t count, struct extent *extent)
{
    MPI_Aint lb, step, true_lb, true_size;
    int size, error = PMPI_Type_get_extent(type, &lb, &step);

    if (error == MPI_SUCCESS) {
        error = PMPI_Type_get_true_extent(type, &true_lb, &true_size);
    }
    if (error == MPI_SUCCESS) {
        error = PMPI_Type_size(type, &size);
    }
    if (error == MPI_SUCCESS && count > 0) {
        MPI_Aint a = (MPI_Aint)first * step + true_lb;
        MPI_Aint b = a + (MPI_Aint)(count - 1) * step;
        MPI_Aint low = a < b ? a : b, high = (a < b ? b : a) + true_size;

        extent->dense =
            extent->low == extent->high && size == true_size && size == step;
        extent->low =
            extent->low == extent->high || low < extent->low ? low : extent->low;
        extent->high = high > extent->high ? high : extent->high;
    }
    return error;
}

int
tp_mpidev_stage_fill(struct tp_mpidev_stage *stage)
{
    return stage->host != NULL && stage->copies_in && stage->span > 0
               ? tp_mpidev_copy(stage->host, stage->device, stage->span)
               : MPI_SUCCESS;
}

static int
open_extent(struct tp_mpidev_stage *stage, const void *buffer,
            const struct extent *extent, enum tp_mpidev_use use)
{
    /* as numbers: from MPI_BOTTOM, offsets are addresses */
    stage->device = (char *)((uintptr_t)buffer + (uintptr_t)extent->low);
    stage->span = (size_t)(extent->high - extent->low);
    stage->host = host_take(stage->span, &stage->room);
    if (stage->host == NULL) {
        return MPI_ERR_NO_MEM;
    }
    stage->mpi = (void *)((uintptr_t)stage->host - (uintptr_t)extent->low);
    stage->copies_out = (use & TP_MPIDEV_OUT) != 0;
    stage->dense = extent->dense;
    /* Gaps keep what they have, so they are read first. */
    stage->copies_in = use != TP_MPIDEV_OUT || !extent->dense;
    return tp_mpidev_stage_fill(stage);
}

int
tp_mpidev_stage_open(struct tp_mpidev_stage *stage, const void *buffer, int64_t count,
                     MPI_Datatype type, enum tp_mpidev_use use)
{
    struct extent extent = {0, 0, false};
    int error;

    stage->mpi = (void *)(uintptr_t)buffer;
    if (!tp_mpidev_is_device(tp_mpidev_first(buffer, type))) {
        return MPI_SUCCESS;
    }
    error = measure(type, 0, count, &extent);
    return error != MPI_SUCCESS ? error : open_extent(stage, buffer, &extent, use);
}

int
tp_mpidev_stage_open_blocks(struct tp_mpidev_stage *stage, const void *buffer, int n,
                            const int *counts, const int *displs, MPI_Datatype type,
                            enum tp_mpidev_use use)
{
    struct extent extent = {0, 0, false};
    int64_t next = 0;
    int error = MPI_SUCCESS;

    stage->mpi = (void *)(uintptr_t)buffer;
    if (!tp_mpidev_is_device(tp_mpidev_first(buffer, type))) {
        return MPI_SUCCESS;
    }
    for (int i = 0; i < n && error == MPI_SUCCESS; i++) {
        error = measure(type, displs != NULL ? displs[i] : next, counts[i], &extent);
        next += counts[i];
    }
    extent.dense = false;
    return error != MPI_SUCCESS ? error : open_extent(stage, buffer, &extent, use);
}

int
tp_mpidev_stage_open_typed(struct tp_mpidev_stage *stage, const void *buffer, int n,
                           const int *counts, const int *displs, const MPI_Aint *wide,
                           const MPI_Datatype *types, enum tp_mpidev_use use)
{
    struct extent extent = {0, 0, false};
    int error = MPI_SUCCESS;

    stage->mpi = (void *)(uintptr_t)buffer;
    if (!tp_mpidev_is_device(buffer)) {
        return MPI_SUCCESS;
    }
    for (int i = 0; i < n && error == MPI_SUCCESS; i++) {
        struct extent one = {0, 0, false};

        error = measure(types[i], 0, counts[i], &one);
        if (one.low != one.high) {
            MPI_Aint displ = wide != NULL ? wide[i] : displs[i];
            MPI_Aint low = one.low + displ, high = one.high + displ;

            extent.low =
                extent.low == extent.high || low < extent.low ? low : extent.low;
            extent.high = high > extent.high ? high : extent.high;
        }
    }
    return error != MPI_SUCCESS ? error : open_extent(stage, buffer, &extent, use);
}

int
tp_mpidev_stage_host(struct tp_mpidev_stage *stage, size_t bytes)
{
    stage->host = host_take(bytes, &stage->room);
    return stage->host != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

int
tp_mpidev_stage_close(struct tp_mpidev_stage *stage, int error)
{
    if (stage->host == NULL) {
        return error;
    }
    if (error == MPI_SUCCESS && stage->copies_out && stage->span > 0) {
        error = tp_mpidev_copy(stage->device, stage->host, stage->span);
    }
    if (!stage->keeps_host) {
        host_give(stage->host, stage->room);
    }
    stage->host = NULL;
    return error;
}
