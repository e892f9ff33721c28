/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges rows of an array between all processes of two sides. Rows are sent in
 * pieces, so that each count fits an int and a waiting process sees progress.
 */
#include "base/alloc.h"
#include "offload/blocks.h"
#include "offload/offload_int.h"

enum { PIECE_MAX = 1 << 20 };

/** The transfer between this process and one of the other side. */
struct tp_offload_lane {
    MPI_Request request;
    uint8_t *at;
    uint64_t left; /**< [bytes] not started yet */
};

static telpher_status
post(struct tp_offload_lane *lane, int peer, bool sends, MPI_Comm inter)
{
    int len = (int)TP_MIN(lane->left, (uint64_t)PIECE_MAX);
    int rc = sends ? PMPI_Isend(lane->at, len, MPI_BYTE, peer, TP_OFFLOAD_TAG_ROWS,
                                inter, &lane->request)
                   : PMPI_Irecv(lane->at, len, MPI_BYTE, peer, TP_OFFLOAD_TAG_ROWS,
                                inter, &lane->request);

    lane->at += len;
    lane->left -= (uint64_t)len;
    return rc == MPI_SUCCESS ? TELPHER_OK : TELPHER_ERR_IO;
}

/* Advances one lane. @p ret_moved: a piece has completed, or a new one has started. */
static telpher_status
advance(struct tp_offload_lane *lane, int peer, bool sends, MPI_Comm inter,
        bool *ret_moved)
{
    int done = 1;

    if (lane->request != MPI_REQUEST_NULL &&
        PMPI_Test(&lane->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return TELPHER_ERR_IO;
    }
    if (!done || lane->left == 0) {
        return TELPHER_OK;
    }
    *ret_moved = true;
    return post(lane, peer, sends, inter);
}

static bool
is_over(const struct tp_offload_lane *lanes, int count)
{
    for (int i = 0; i < count; i++) {
        if (lanes[i].request != MPI_REQUEST_NULL || lanes[i].left != 0) {
            return false;
        }
    }
    return true;
}

telpher_status
tp_offload_transfer_prepare(struct tp_offload_transfer *t, struct tp_error *err)
{
    struct tp_offload_block mine;
    int rank, parts;

    PMPI_Comm_rank(t->inter, &rank);
    PMPI_Comm_size(t->inter, &parts);
    PMPI_Comm_remote_size(t->inter, &t->peers);
    mine = tp_offload_block_of(t->rows, parts, rank);
    if (t->block == NULL && mine.count != 0 && t->row_bytes != 0) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "the address of this process's %llu rows is NULL",
                            (unsigned long long)mine.count);
    }
    t->lanes = tp_alloc_array((size_t)t->peers, sizeof(*t->lanes), "transfer");
    if (t->lanes == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for a transfer of rows with %d processes",
                            t->peers);
    }
    for (int i = 0; i < t->peers; i++) {
        struct tp_offload_block both =
            tp_offload_block_common(mine, tp_offload_block_of(t->rows, t->peers, i));

        t->lanes[i] =
            (struct tp_offload_lane){MPI_REQUEST_NULL, NULL, both.count * t->row_bytes};
        if (t->lanes[i].left != 0) {
            t->lanes[i].at =
                (uint8_t *)t->block + (both.first - mine.first) * t->row_bytes;
        }
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_transfer_run(struct tp_offload_transfer *t)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;
    telpher_status status = TELPHER_OK;

    while (status == TELPHER_OK && !is_over(t->lanes, t->peers)) {
        bool moved = false;

        for (int i = 0; i < t->peers && status == TELPHER_OK; i++) {
            status = advance(&t->lanes[i], i, t->sends, t->inter, &moved);
        }
        if (status == TELPHER_OK && t->progress != NULL) {
            status = t->progress(t->arg);
        }
        if (moved) {
            idle = (struct tp_offload_idle)TP_OFFLOAD_IDLE_INIT;
        }
        tp_offload_idle_round(&idle);
    }
    return status;
}

void
tp_offload_transfer_fini(struct tp_offload_transfer *t)
{
    tp_free(t->lanes);
    t->lanes = NULL;
}
