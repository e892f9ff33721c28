/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as their parents see them: met at the first call, known until they end. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/trace.h"
#include "offload/offload_int.h"

struct tp_mutex tp_offload_lock = TP_MUTEX_INIT;
struct tp_list tp_groups = {&tp_groups, &tp_groups};

struct tp_group *
tp_group_find(MPI_Comm inter)
{
    tp_list_for_each(link, &tp_groups)
    {
        struct tp_group *g = tp_list_entry(link, struct tp_group, link);

        if (g->inter == inter) {
            return g;
        }
    }
    return NULL;
}

struct tp_group *
tp_group_of(MPI_Comm inter, int mode)
{
    struct tp_group *g = tp_group_find(inter);

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
    g->mode = mode;
    g->report_request = MPI_REQUEST_NULL;
    g->greeting_sent = MPI_REQUEST_NULL;
    g->greeting_heard = MPI_REQUEST_NULL;
    for (int i = 0; i < TP_SEND_SLOTS; i++) {
        g->slots[i].request = MPI_REQUEST_NULL;
    }
    tp_buf_init(&g->scratch, 0);
    tp_list_init(&g->backlog);
    tp_list_init(&g->requests);
    tp_list_init(&g->arrays);
    PMPI_Comm_rank(inter, &g->rank);
    PMPI_Comm_size(inter, &g->parents);
    PMPI_Comm_remote_size(inter, &g->workers);
    tp_list_push_back(&tp_groups, &g->link);
    return g;
}

/* The smallest limit that a worker may have: that of its setting. */
enum { LIMIT_MIN = 65536 };

static telpher_status
check_greeting(struct tp_offload_greeting *theirs, struct tp_error *err)
{
    telpher_status status = tp_offload_greeting_check(theirs, err);

    theirs->text[sizeof(theirs->text) - 1] = '\0';
    if (status == TELPHER_OK && theirs->status != TELPHER_OK) {
        status =
            tp_error_set(err, theirs->status, "the workers refuse: %s", theirs->text);
    } else if (status == TELPHER_OK && theirs->limit < LIMIT_MIN) {
        status = tp_error_set(err, TELPHER_ERR_PROTO,
                              "the workers take only %llu bytes in one launch",
                              (unsigned long long)theirs->limit);
    }
    return status;
}

/* At the root: do workers of Telpher answer? */
static telpher_status
greet(struct tp_group *g, struct tp_error *err)
{
    tp_ns deadline = tp_clock_deadline(tp_offload_settings()->timeout_ns);
    telpher_status status;

    tp_offload_greeting_init(&g->mine);
    g->mine.root = (uint32_t)g->rank;
    PMPI_Irecv(&g->theirs, sizeof(g->theirs), MPI_BYTE, 0, TP_TAG_GREETING, g->inter,
               &g->greeting_heard);
    PMPI_Isend(&g->mine, sizeof(g->mine), MPI_BYTE, 0, TP_TAG_GREETING, g->inter,
               &g->greeting_sent);
    status = tp_mpi_wait(&g->greeting_sent, deadline);
    if (status == TELPHER_OK) {
        status = tp_mpi_wait(&g->greeting_heard, deadline);
    }
    if (status != TELPHER_OK) {
        return tp_error_set(err, status,
                            "greeting: the processes behind the intercommunicator do "
                            "not answer; is what was spawned telpher-worker, or linked "
                            "with its library?");
    }
    return check_greeting(&g->theirs, err);
}

/* What the root learnt, all parents know. */
static telpher_status
share(struct tp_error *err, int root, MPI_Comm comm)
{
    PMPI_Bcast(err, sizeof(*err), MPI_BYTE, root, comm);
    return err->code;
}

telpher_status
tp_group_names(struct tp_group *g, int root, MPI_Comm comm, struct tp_error *err)
{
    struct tp_error heard = {0};
    uint64_t len = 0;
    char *text;

    if (g->rank == root) {
        PMPI_Recv(&len, 1, MPI_UINT64_T, 0, TP_TAG_NAMES, g->control,
                  MPI_STATUS_IGNORE);
    }
    PMPI_Bcast(&len, 1, MPI_UINT64_T, root, comm);
    if (len >= INT32_MAX) {
        return tp_error_set(err, TELPHER_ERR_PROTO, "the kernels' names are too long");
    }
    text = tp_malloc(len + 1, "kernel names");
    if (text == NULL) {
        tp_world_abort("out of memory"); /* the other parents would wait */
    }
    if (g->rank == root) {
        PMPI_Recv(text, (int)len, MPI_BYTE, 0, TP_TAG_NAMES, g->control,
                  MPI_STATUS_IGNORE);
    }
    PMPI_Bcast(text, (int)len, MPI_BYTE, root, comm);
    tp_offload_names_fini(&g->names);
    (void)tp_offload_names_read(text, len, &g->names, &heard);
    tp_free(text);
    if (heard.code != TELPHER_OK) {
        *err = heard;
    }
    return heard.code;
}

/* The root watches the workers of its machine, and they it. */
static void
exchange_processes(struct tp_group *g)
{
    struct tp_process mine = {0};
    struct tp_process *theirs =
        tp_alloc_array((size_t)g->workers, sizeof(*theirs), "processes");

    (void)tp_process_self(&mine);
    PMPI_Send(&mine, sizeof(mine), MPI_BYTE, 0, TP_TAG_NAMES, g->control);
    if (theirs == NULL) {
        tp_world_abort("out of memory");
    }
    PMPI_Recv(theirs, g->workers * (int)sizeof(*theirs), MPI_BYTE, 0, TP_TAG_NAMES,
              g->control, MPI_STATUS_IGNORE);
    for (int i = 0; i < g->workers; i++) {
        tp_watch_add(&theirs[i], "worker", i, g);
    }
    tp_free(theirs);
}

/* In the trace: by what it is to its last workers. */
static void
name_process(const struct tp_group *g)
{
    char name[32];

    snprintf(name, sizeof(name), "parent %d", g->rank);
    tp_trace_set_process_name(name);
}

telpher_status
tp_group_attach(struct tp_group *g, int root, MPI_Comm comm, struct tp_error *err)
{
    struct tp_error heard = {0};

    tp_watchdog_start("greeting the workers", tp_offload_settings()->timeout_ns * 2);
    if (g->rank == root) {
        (void)greet(g, &heard);
    }
    if (share(&heard, root, comm) != TELPHER_OK) {
        tp_watchdog_stop();
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
    (void)tp_group_names(g, root, comm, &heard);
    tp_watchdog_stop();
    if (heard.code != TELPHER_OK) {
        *err = heard;
        return err->code;
    }
    tp_offload_report_clear(&g->report);
    PMPI_Irecv(&g->report, sizeof(g->report), MPI_BYTE, 0, TP_TAG_REPORT, g->control,
               &g->report_request);
    name_process(g);
    g->attached = true;
    tp_info("offload", "workers %d by %s, kernels %u", g->workers,
            telpher_offload_mode_name(g->mode), g->names.count);
    return TELPHER_OK;
}

static bool
awaits_request(const struct tp_group *g)
{
    tp_list_for_each(link, &g->requests)
    {
        if (!tp_list_entry(link, struct telpher_kernel_request, link)->done) {
            return true;
        }
    }
    return false;
}

/* Kernels with requests have ended, and no report is on its way. With the lock held. */
static void
await_reports(struct tp_group *g)
{
    struct tp_idle idle = TP_IDLE_INIT;

    while (!g->lost && (awaits_request(g) || g->acked < g->asked ||
                        !tp_list_is_empty(&g->backlog))) {
        tp_send_progress(g);
        tp_mutex_unlock(&tp_offload_lock);
        tp_idle_round(&idle);
        tp_mutex_lock(&tp_offload_lock);
    }
}

telpher_status
tp_group_send_end(struct tp_group *g, uint64_t number, bool wants_done,
                  struct tp_error *err)
{
    struct tp_offload_record end = {.kernel = TP_OFFLOAD_NO_KERNEL,
                                    .flags = TP_OFFLOAD_END |
                                             (wants_done ? TP_OFFLOAD_DONE : 0)};
    telpher_status status = tp_buf_append(&g->scratch, &end, sizeof(end));

    g->ended = true; /* the last message asks for a report: what failed is not lost */
    if (status == TELPHER_OK) {
        status = tp_send_records(g, number, err);
    } else {
        tp_group_lose(g, status);
    }
    if (status == TELPHER_OK && g->mode == TELPHER_OFFLOAD_SPLIT) {
        tp_pool_return(g->pool, g->workers);
    }
    return status;
}

/* Nothing of ours is under way any more: the program's communicator goes, too. */
static void
disconnect(struct tp_group *g)
{
    MPI_Comm inter = g->inter;
    char bye = 0;

    if (g->report_request != MPI_REQUEST_NULL) {
        PMPI_Cancel(&g->report_request);
        PMPI_Wait(&g->report_request, MPI_STATUS_IGNORE);
    }
    (void)tp_send_fini(g); /* all acknowledged */
    if (g->mode == TELPHER_OFFLOAD_SPLIT) {
        PMPI_Comm_free(&g->control);
        PMPI_Comm_free(&inter);
        tp_pool_return(g->pool, g->workers);
        return;
    }
    if (g->rank == 0) {
        PMPI_Send(&bye, 1, MPI_BYTE, 0, TP_TAG_BYE, g->control);
    }
    PMPI_Comm_disconnect(&g->control);
    PMPI_Comm_disconnect(&inter);
}

bool
tp_group_ended(struct tp_group *g)
{
    int ended = g->ended;

    PMPI_Allreduce(MPI_IN_PLACE, &ended, 1, MPI_INT, MPI_MAX, g->local);
    return ended != 0;
}

/* All parents together: whoever ended the workers did so before. */
static telpher_status
end_together(struct tp_group *g, struct tp_error *err)
{
    telpher_status status = TELPHER_OK;
    bool ended = tp_group_ended(g);

    tp_mutex_lock(&tp_offload_lock);
    tp_watch_remove(g);
    if (!ended && g->rank == 0) {
        status = tp_group_send_end(g, g->next++, false, err);
    }
    await_reports(g);
    tp_mutex_unlock(&tp_offload_lock);
    if (g->lost) {
        status = tp_error_set(err, g->status, "the workers are lost");
    }
    if (status == TELPHER_OK) {
        MPI_Comm inter = g->inter;

        disconnect(g);
        tp_comm_gone(inter);
    }
    return status;
}

/* Only groups of this launch may be there that nobody has met: theirs are all parents. */
static void
finish(struct tp_group *g)
{
    struct tp_error err = {0};
    telpher_status status = TELPHER_OK;

    if (!g->attached) {
        status = tp_group_attach(g, 0, tp_world.world, &err);
    }
    if (status == TELPHER_OK) {
        status = end_together(g, &err);
    }
    if (status != TELPHER_OK) {
        tp_warn("offload", "workers could not be ended: %s", tp_error_text(&err));
    }
    tp_group_destroy(g);
}

void
tp_group_leave(MPI_Comm inter)
{
    struct tp_group *g;

    tp_mutex_lock(&tp_offload_lock);
    g = inter == MPI_COMM_NULL ? NULL : tp_group_find(inter);
    tp_mutex_unlock(&tp_offload_lock);
    if (g != NULL) {
        finish(g);
    }
}

void
tp_group_finish_all(void)
{
    while (!tp_list_is_empty(&tp_groups)) {
        finish(tp_list_entry(tp_list_first(&tp_groups), struct tp_group, link));
    }
}

/* Groups of which MPI still holds memory. */
static struct tp_list left_to_mpi = {&left_to_mpi, &left_to_mpi};

/* With the lock held. */
static bool
take_back_all(struct tp_group *g)
{
    bool sent = tp_send_fini(g);
    bool report = tp_mpi_take_back(&g->report_request, true);
    bool greeting = tp_mpi_take_back(&g->greeting_heard, true);

    return tp_mpi_take_back(&g->greeting_sent, false) && sent && report && greeting;
}

void
tp_group_destroy(struct tp_group *g)
{
    bool all_back;

    tp_mutex_lock(&tp_offload_lock);
    tp_watch_remove(g);
    tp_list_remove(&g->link);
    tp_group_lose(g, TELPHER_ERR_PEER_LOST);
    tp_array_drop_all(g);
    all_back = take_back_all(g);
    if (!all_back) {
        tp_list_push_back(&left_to_mpi, &g->link);
    }
    tp_mutex_unlock(&tp_offload_lock);
    if (g->local != MPI_COMM_NULL) {
        PMPI_Comm_free(&g->local);
    }
    tp_offload_names_fini(&g->names);
    tp_free(g->pool);
    if (all_back) {
        tp_free(g);
    }
}
