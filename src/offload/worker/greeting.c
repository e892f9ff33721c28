/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake of workers with their parents. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/trace/log.h"
#include "offload/worker/worker_int.h"

/* The other workers wait in a collective call for one that has not greeted. */
static const char no_memory[] = "a worker is out of memory";

/* At worker 0: waits for the greeting of a parent and passes it to the other
 * workers. */
static telpher_status
hear_greeting(struct worker *w, int *ret_root, struct tp_error *err)
{
    struct tp_offload_greeting theirs, mine;
    telpher_status status;
    MPI_Request request;
    MPI_Status from;
    int done = 0;
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;

    PMPI_Irecv(&theirs, sizeof(theirs), MPI_BYTE, MPI_ANY_SOURCE,
               TP_OFFLOAD_TAG_GREETING, w->inter, &request);
    while (!done) {
        if (PMPI_Test(&request, &done, &from) != MPI_SUCCESS) {
            return tp_error_set(
                err, TELPHER_ERR_IO,
                "the parents' greeting was not received: MPI_Test() failed "
                "on the intercommunicator; has a parent died?");
        }
        if (!done) {
            tp_offload_idle_round(&idle);
        }
    }
    status = tp_offload_greeting_check(&theirs, err);
    tp_offload_greeting_init(&mine);
    mine.status = status;
    mine.limit = tp_offload_settings()->limit_bytes;
    snprintf(mine.text, sizeof(mine.text), "%s",
             status == TELPHER_OK ? "" : tp_error_text(err));
    PMPI_Send(&mine, sizeof(mine), MPI_BYTE, from.MPI_SOURCE, TP_OFFLOAD_TAG_GREETING,
              w->inter);
    *ret_root = from.MPI_SOURCE;
    return status;
}

/* All workers must have the same kernels, in the same order. */
static telpher_status
check_same(struct worker *w, const struct tp_buf *text, struct tp_error *err)
{
    uint64_t hash = tp_hash_add(TP_HASH_START, tp_buf_data(text), tp_buf_len(text));
    const uint64_t mine[2] = {hash, ~hash};
    uint64_t least[2];

    PMPI_Allreduce(mine, least, 2, MPI_UINT64_T, MPI_MIN, w->tree.comm);
    if (least[0] != ~least[1]) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "the workers of this group have different kernels; worker %d has %u: start "
            "all of them from one program with the same plugins",
            w->tree.rank, w->table.count);
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_worker_send_kernels(struct worker *w, int root, struct tp_error *err)
{
    struct tp_buf text;
    telpher_status status;
    uint64_t len;

    tp_buf_init(&text, 0);
    if (tp_offload_table_write(&w->table, &text) != TELPHER_OK) {
        tp_offload_world_abort(no_memory);
    }
    status = check_same(w, &text, err);
    len = tp_buf_len(&text);
    if (status == TELPHER_OK && w->tree.rank == 0) {
        PMPI_Send(&len, 1, MPI_UINT64_T, root, TP_OFFLOAD_TAG_NAMES, w->control);
        for (uint64_t at = 0; at < len; at += TP_OFFLOAD_NAMES_PIECE) {
            PMPI_Send(tp_buf_data(&text) + at,
                      (int)TP_MIN(len - at, (uint64_t)TP_OFFLOAD_NAMES_PIECE), MPI_BYTE,
                      root, TP_OFFLOAD_TAG_NAMES, w->control);
        }
    }
    tp_buf_fini(&text);
    return status;
}

/* Worker 0: maps the memory that the root offers for launches; size 0 means none. */
static void
hear_ring(struct worker *w, int root)
{
    struct tp_memfd_name name = {0};
    int taken;

    PMPI_Recv(&name, sizeof(name), MPI_BYTE, root, TP_OFFLOAD_TAG_NAMES, w->control,
              MPI_STATUS_IGNORE);
    taken = name.size != 0 && tp_offload_settings()->shared &&
            tp_frame_ring_open(&w->shared, TP_OFFLOAD_RING_BYTES,
                               TP_OFFLOAD_RING_FRAME_MAX, &name) == TELPHER_OK;
    w->by_memory.source = root;
    tp_debug("offload", "launches of parent %d come through %s", root,
             taken ? "memory" : "MPI");
    PMPI_Send(&taken, 1, MPI_INT, root, TP_OFFLOAD_TAG_NAMES, w->control);
}

/* Exchanges the processes of both sides. */
static void
exchange_processes(struct worker *w, int root)
{
    struct tp_process mine = {0}, theirs;
    struct tp_process *all = NULL;
    int size = w->tree.size;

    (void)tp_process_self(&mine);
    if (w->tree.rank == 0) {
        all = tp_alloc_array((size_t)size, sizeof(*all), "processes");
        if (all == NULL) {
            tp_offload_world_abort(no_memory);
        }
        PMPI_Recv(&theirs, sizeof(theirs), MPI_BYTE, root, TP_OFFLOAD_TAG_NAMES,
                  w->control, MPI_STATUS_IGNORE);
    }
    PMPI_Bcast(&theirs, sizeof(theirs), MPI_BYTE, 0, w->tree.comm);
    PMPI_Gather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, 0,
                w->tree.comm);
    if (all != NULL) {
        PMPI_Send(all, size * (int)sizeof(*all), MPI_BYTE, root, TP_OFFLOAD_TAG_NAMES,
                  w->control);
        hear_ring(w, root);
    }
    tp_free(all);
    tp_offload_watch_add(&theirs, "parent", root, w);
}

static void
find_local(struct worker *w)
{
    MPI_Comm local;

    PMPI_Comm_split_type(w->tree.comm, MPI_COMM_TYPE_SHARED, w->tree.rank,
                         MPI_INFO_NULL, &local);
    PMPI_Comm_rank(local, &w->local_rank);
    PMPI_Comm_size(local, &w->local_size);
    PMPI_Comm_free(&local);
}

telpher_status
tp_offload_worker_greet(struct worker *w, struct tp_error *err)
{
    int verdict[2] = {TELPHER_OK, 0};
    MPI_Request request;
    telpher_status status;

    tp_list_init(&w->held);
    for (int i = 0; i < WORKER_RECEIVES; i++) {
        w->ring[i].request = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < WORKER_REPORTS; i++) {
        w->reports[i].request = MPI_REQUEST_NULL;
    }
    w->control = MPI_COMM_NULL;
    tp_offload_report_init(&w->since_report);
    PMPI_Comm_dup(w->world, &w->tree.comm);
    PMPI_Comm_set_errhandler(w->tree.comm, MPI_ERRORS_RETURN);
    PMPI_Comm_rank(w->world, &w->tree.rank);
    PMPI_Comm_size(w->world, &w->tree.size);
    tp_offload_tree_init(&w->tree);
    PMPI_Comm_remote_size(w->inter, &w->parents);
    w->held_max =
        (uint64_t)w->parents * (TP_OFFLOAD_WINDOW_BYTES + TP_OFFLOAD_MESSAGE_MAX);
    w->consumed = tp_alloc_array((size_t)w->parents, sizeof(*w->consumed), "parents");
    if (w->consumed == NULL || tp_offload_table_create(&w->table) != TELPHER_OK) {
        tp_offload_world_abort(no_memory);
    }
    find_local(w);
    if (w->tree.rank == 0) {
        verdict[0] = hear_greeting(w, &verdict[1], err);
    }
    PMPI_Ibcast(verdict, 2, MPI_INT, 0, w->tree.comm, &request);
    status = tp_offload_mpi_wait(&request, TP_CLOCK_FOREVER);
    if (status != TELPHER_OK || verdict[0] != TELPHER_OK) {
        return tp_error_set(err, verdict[0], "worker %d does not start: %s",
                            w->tree.rank, tp_error_text(err));
    }
    PMPI_Comm_dup(w->inter, &w->control);
    PMPI_Comm_set_errhandler(w->control, MPI_ERRORS_RETURN);
    exchange_processes(w, verdict[1]);
    return tp_offload_worker_send_kernels(w, verdict[1], err);
}

/* Spawned workers exit with their parents: MPI_Comm_disconnect() before that would
 * spin. */
static void
await_disconnect(struct worker *w)
{
    MPI_Request request;
    char closing;

    if (w->tree.rank == 0) {
        PMPI_Irecv(&closing, 1, MPI_BYTE, 0, TP_OFFLOAD_TAG_DISCONNECT, w->control,
                   &request);
        (void)tp_offload_mpi_wait(&request, TP_CLOCK_FOREVER);
    }
    PMPI_Ibarrier(w->tree.comm, &request);
    (void)tp_offload_mpi_wait(&request, TP_CLOCK_FOREVER);
}

void
tp_offload_worker_fini(struct worker *w)
{
    tp_offload_watch_remove(w);
    tp_frame_ring_close(&w->shared);
    tp_offload_table_destroy(&w->table);
    tp_offload_parts_fini(&w->parts);
    tp_free(w->consumed);
    tp_free(w->pieces);
    if (w->control != MPI_COMM_NULL && tp_offload_world.base != MPI_COMM_NULL) {
        PMPI_Comm_free(&w->control);
    } else if (w->control != MPI_COMM_NULL) {
        await_disconnect(w);
        PMPI_Comm_disconnect(&w->control);
    }
    PMPI_Comm_free(&w->tree.comm);
}
