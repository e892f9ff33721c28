/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of workers in a parent: created at the first call, kept until the workers
 * end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/text/text.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "offload/offload_int.h"

struct tp_mutex tp_offload_lock = TP_MUTEX_INIT;
struct tp_list tp_offload_groups = {&tp_offload_groups, &tp_offload_groups};

struct tp_offload_group *
tp_offload_group_find(MPI_Comm inter)
{
    tp_list_for_each_entry(struct tp_offload_group, g, &tp_offload_groups, link) {
        if (g->inter == inter) {
            return g;
        }
    }
    return NULL;
}

struct tp_offload_group *
tp_offload_group_of(MPI_Comm inter, int mode)
{
    struct tp_offload_group *g = tp_offload_group_find(inter);

    if (g != NULL) {
        return g;
    }
    g = tp_zalloc(sizeof(*g), "group");
    if (g == NULL) {
        return NULL;
    }
    g->inter = inter;
    g->control = MPI_COMM_NULL;
    g->local = MPI_COMM_NULL;
    g->checked = MPI_COMM_NULL;
    g->mode = mode;
    g->launch_tag = TP_OFFLOAD_TAG_LAUNCH;
    g->report_request = MPI_REQUEST_NULL;
    g->greeting_sent = MPI_REQUEST_NULL;
    g->greeting_heard = MPI_REQUEST_NULL;
    g->agreeing = MPI_REQUEST_NULL;
    for (int i = 0; i < TP_OFFLOAD_SEND_SLOTS; i++) {
        g->slots[i].request = MPI_REQUEST_NULL;
        tp_buf_init_front(&g->slots[i].memory, 0, TP_OFFLOAD_HEADER_MAX);
    }
    tp_buf_init_front(&g->scratch, 0, TP_OFFLOAD_HEADER_MAX);
    tp_buf_init_front(&g->message, 0, TP_OFFLOAD_HEADER_MAX);
    tp_list_init(&g->backlog);
    tp_list_init(&g->requests);
    tp_list_init(&g->arrays);
    PMPI_Comm_rank(inter, &g->rank);
    PMPI_Comm_size(inter, &g->parents);
    PMPI_Comm_remote_size(inter, &g->workers);
    tp_list_push_back(&tp_offload_groups, &g->link);
    return g;
}

/* The smallest limit that a worker may have: that of its setting. */
enum { LIMIT_MIN = 65536 };

static telpher_status
check_greeting(struct tp_offload_greeting *theirs, struct tp_error *err)
{
    telpher_status status = tp_offload_greeting_check(theirs, err);

    theirs->text[sizeof(theirs->text) - 1] = '\0';
    tp_text_tame(theirs->text, false);
    if (status == TELPHER_OK && theirs->status != TELPHER_OK) {
        status = tp_error_set(err, theirs->status,
                              "the workers rejected the connection: %s", theirs->text);
    } else if (status == TELPHER_OK && theirs->limit < LIMIT_MIN) {
        status = tp_error_set(err, TELPHER_ERR_PROTO,
                              "the workers take only %llu bytes in one launch, too few "
                              "for any: raise TELPHER_OFFLOAD_LIMIT there",
                              (unsigned long long)theirs->limit);
    }
    return status;
}

/* At the root: checks that the other side is telpher workers. */
static telpher_status
greet(struct tp_offload_group *g, struct tp_error *err)
{
    tp_ns deadline = tp_clock_deadline(tp_offload_settings()->timeout_ns);
    telpher_status status;

    tp_offload_greeting_init(&g->mine);
    g->mine.root = (uint32_t)g->rank;
    PMPI_Irecv(&g->theirs, sizeof(g->theirs), MPI_BYTE, 0, TP_OFFLOAD_TAG_GREETING,
               g->inter, &g->greeting_heard);
    PMPI_Isend(&g->mine, sizeof(g->mine), MPI_BYTE, 0, TP_OFFLOAD_TAG_GREETING,
               g->inter, &g->greeting_sent);
    status = tp_offload_mpi_wait(&g->greeting_sent, deadline);
    if (status == TELPHER_OK) {
        status = tp_offload_mpi_wait(&g->greeting_heard, deadline);
    }
    if (status != TELPHER_OK) {
        return tp_error_set(err, status,
                            "greeting: the processes behind the intercommunicator do "
                            "not answer; is what was spawned telpher-worker, or linked "
                            "with its library?");
    }
    return check_greeting(&g->theirs, err);
}

/* Broadcasts the root's result to all parents. */
static telpher_status
share(struct tp_error *err, int root, MPI_Comm comm)
{
    PMPI_Bcast(err, sizeof(*err), MPI_BYTE, root, comm);
    return err->code;
}

/* Receives the workers' table of kernels in parts. A parent without memory receives
 * them too. */
static char *
receive_text(struct tp_offload_group *g, int root, uint64_t len)
{
    char *text = tp_malloc(len + 1, "kernel names");
    char piece[TP_OFFLOAD_NAMES_PIECE];

    for (uint64_t at = 0; at < len; at += sizeof(piece)) {
        int count = (int)TP_MIN(len - at, sizeof(piece));

        if (g->rank == root) {
            PMPI_Recv(piece, count, MPI_BYTE, 0, TP_OFFLOAD_TAG_NAMES, g->control,
                      MPI_STATUS_IGNORE);
        }
        PMPI_Bcast(piece, count, MPI_BYTE, root, g->local);
        if (text != NULL) {
            memcpy(text + at, piece, (size_t)count);
        }
    }
    return text;
}

telpher_status
tp_offload_group_names(struct tp_offload_group *g, int root, struct tp_error *err)
{
    struct tp_offload_names names = {0};
    uint64_t len = 0;
    char *text;

    if (g->rank == root) {
        PMPI_Recv(&len, 1, MPI_UINT64_T, 0, TP_OFFLOAD_TAG_NAMES, g->control,
                  MPI_STATUS_IGNORE);
    }
    PMPI_Bcast(&len, 1, MPI_UINT64_T, root, g->local);
    if (len >= INT32_MAX) {
        return tp_error_set(
            err, TELPHER_ERR_PROTO,
            "the workers' table of kernels has %llu bytes, 2 GiB - 1 is the most",
            (unsigned long long)len);
    }
    text = receive_text(g, root, len);
    if (text == NULL) {
        (void)tp_error_set(
            err, TELPHER_ERR_NO_MEMORY,
            "out of memory for the workers' table of kernels, %llu bytes",
            (unsigned long long)len);
    } else {
        (void)tp_offload_names_read(text, len, &names, err);
    }
    tp_free(text);
    tp_offload_names_fini(&g->names);
    g->names = names; /* empty rather than old, because the MPI may have reused the
                       * communicators' numbers */
    return tp_offload_group_agree(g, &(struct tp_offload_agreement){.root = root}, err);
}

/* Offers worker 0, if on this machine, shared memory for the launches of this root. */
static void
offer_ring(struct tp_offload_group *g, const struct tp_process *mine,
           const struct tp_process *worker)
{
    struct tp_memfd_name name = {0};
    int fd = -1, taken = 0;

    if (tp_offload_settings()->shared && tp_process_is_like(mine, worker) &&
        tp_frame_ring_create(&g->ring, "telpher-launches", TP_OFFLOAD_RING_BYTES,
                             TP_OFFLOAD_RING_FRAME_MAX, &fd, &name) != TELPHER_OK) {
        name.size = 0;
    }
    PMPI_Send(&name, sizeof(name), MPI_BYTE, 0, TP_OFFLOAD_TAG_NAMES, g->control);
    PMPI_Recv(&taken, 1, MPI_INT, 0, TP_OFFLOAD_TAG_NAMES, g->control,
              MPI_STATUS_IGNORE);
    if (!taken) {
        tp_frame_ring_close(&g->ring);
    }
    tp_descriptor_close(fd);
}

/* The root watches the workers of its machine, and they watch the root. */
static void
exchange_processes(struct tp_offload_group *g)
{
    struct tp_process mine = {0};
    struct tp_process *theirs =
        tp_alloc_array((size_t)g->workers, sizeof(*theirs), "processes");

    (void)tp_process_self(&mine);
    PMPI_Send(&mine, sizeof(mine), MPI_BYTE, 0, TP_OFFLOAD_TAG_NAMES, g->control);
    if (theirs == NULL) {
        tp_offload_world_abort("out of memory");
    }
    PMPI_Recv(theirs, g->workers * (int)sizeof(*theirs), MPI_BYTE, 0,
              TP_OFFLOAD_TAG_NAMES, g->control, MPI_STATUS_IGNORE);
    for (int i = 0; i < g->workers; i++) {
        tp_offload_watch_add(&theirs[i], "worker", i, g);
    }
    offer_ring(g, &mine, &theirs[0]);
    tp_free(theirs);
}

/* Names the group in the trace. */
static void
name_process(const struct tp_offload_group *g)
{
    char name[32];

    snprintf(name, sizeof(name), "parent %d", g->rank);
    tp_trace_set_process_name(name);
}

telpher_status
tp_offload_group_attach(struct tp_offload_group *g, int root, MPI_Comm comm,
                        struct tp_error *err)
{
    struct tp_error heard = {0};

    tp_offload_agree(comm); /* a process that starts late is no hanging worker */
    tp_offload_watch_phase("greeting the workers",
                           tp_offload_settings()->timeout_ns * 2);
    if (g->rank == root) {
        (void)greet(g, &heard);
    }
    if (share(&heard, root, comm) != TELPHER_OK) {
        tp_offload_watch_phase_end();
        *err = heard;
        return err->code;
    }
    g->limit_bytes = g->theirs.limit;
    PMPI_Bcast(&g->limit_bytes, 1, MPI_UINT64_T, root, comm);
    PMPI_Comm_dup(comm, &g->local);
    PMPI_Comm_dup(g->inter, &g->control);
    PMPI_Comm_set_errhandler(g->control, MPI_ERRORS_RETURN);
    if (g->rank == root) {
        exchange_processes(g);
    }
    (void)tp_offload_group_names(g, root, &heard);
    tp_offload_watch_phase_end();
    tp_offload_report_clear(&g->report);
    PMPI_Irecv(&g->report, sizeof(g->report), MPI_BYTE, 0, TP_OFFLOAD_TAG_REPORT,
               g->control, &g->report_request);
    name_process(g);
    g->attached = true; /* whatever their names: they run, and must be ended */
    if (heard.code != TELPHER_OK) {
        *err = heard;
        return err->code;
    }
    tp_info("offload", "workers %d by %s, kernels %u", g->workers,
            telpher_offload_mode_name(g->mode), g->names.count);
    return TELPHER_OK;
}
