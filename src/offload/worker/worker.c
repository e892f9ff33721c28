/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of a group: receives launches, forwards them, runs their kernels and
 * reports. While a kernel runs, only the posted buffers receive; credits keep further
 * launches in the parents.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/os/mapping.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "offload/pmpi.h"
#include "offload/worker/worker_int.h"

/* State that kernels may query. One group at a time. */
static struct worker *current;

MPI_Comm
telpher_worker_parent(void)
{
    return current != NULL ? current->inter : MPI_COMM_NULL;
}

MPI_Comm
telpher_worker_world(void)
{
    return current != NULL ? current->world : MPI_COMM_NULL;
}

int
telpher_worker_local_rank(void)
{
    return current != NULL ? current->local_rank : 0;
}

int
telpher_worker_local_size(void)
{
    return current != NULL ? current->local_size : 1;
}

int
telpher_worker_device(int devices)
{
    uint32_t rank = (uint32_t)telpher_worker_local_rank(), wanted;
    const char *mapping =
        tp_settings_get("MAPPING"); /* ranks as users of the job know them */
    struct tp_error err = {0};

    if (devices < 1) {
        return -1;
    }
    if (tp_mapping_read(mapping != NULL ? mapping : "", rank, &wanted, &err) !=
        TELPHER_OK) {
        tp_error("offload", "%s", tp_error_text(&err));
        return -1;
    }
    if (wanted == UINT32_MAX) {
        return (int)(rank % (uint32_t)devices);
    }
    if (wanted >= (uint32_t)devices) {
        tp_error("offload", "TELPHER_MAPPING: device %u does not exist, there are %d",
                 wanted, devices);
        return -1;
    }
    return (int)wanted;
}

const char *
tp_offload_worker_kernel_name(void)
{
    return current != NULL ? current->running : NULL;
}

/* Runs one kernel and merges its result into @p report. */
static telpher_status
run_kernel(struct worker *w, const struct tp_offload_record *r, const uint8_t *src,
           struct tp_offload_report *report)
{
    const struct tp_offload_kernel *k = &w->table.kernels[r->kernel];
    void *args[TELPHER_KERNEL_ARGS_MAX];
    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX];
    telpher_status status = tp_offload_args_get(&k->sig, src, r->len, args, bytes);
    const char *text;
    int result;

    if (status == TELPHER_OK && k->sig.has_arrays) {
        status = tp_offload_parts_args(&w->parts, &k->sig, args);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    w->running = k->kernel->name;
    tp_offload_watch_kernel_begin(k->kernel->name);
    tp_trace_begin("offload", k->kernel->name, TP_ARG("worker", w->tree.rank),
                   TP_ARG("call", w->call));
    result = tp_offload_kernel_invoke(k, args);
    tp_trace_end("offload", k->kernel->name, TP_ARG("worker", w->tree.rank));
    tp_offload_watch_kernel_end();
    w->running = NULL;
    text = tp_offload_error_take();
    tp_offload_report_note(report, result, w->tree.rank, r->kernel,
                           k->sig.returns_int ? text : "");
    return TELPHER_OK;
}

/* Does not wait for the parent, unless all report buffers are in use. */
static telpher_status
send_report(struct worker *w, const struct tp_offload_report *report, int parent)
{
    struct outgoing *out = &w->reports[w->reports_sent++ % WORKER_REPORTS];
    telpher_status status = TELPHER_OK;

    if (out->request != MPI_REQUEST_NULL) {
        status = tp_offload_mpi_wait(&out->request, TP_CLOCK_FOREVER);
    }
    out->report = *report;
    if (status == TELPHER_OK &&
        PMPI_Isend(&out->report, tp_offload_report_len(report), MPI_BYTE, parent,
                   TP_OFFLOAD_TAG_REPORT, w->control, &out->request) != MPI_SUCCESS) {
        status = TELPHER_ERR_IO;
    }
    return status;
}

telpher_status
tp_offload_worker_tell_done(struct worker *w, uint64_t request,
                            struct tp_offload_report *report)
{
    telpher_status status = tp_offload_tree_merge(&w->tree, report);

    report->flags |= (report->flags & TP_OFFLOAD_END) == 0 ? TP_OFFLOAD_DONE : 0;
    report->request = request;
    for (int i = 0; status == TELPHER_OK && w->tree.rank == 0 && i < w->parents; i++) {
        status = send_report(w, report, i);
    }
    return status;
}

/* Only the sender gets the count of its messages that all workers have consumed. */
static telpher_status
tell_credit(struct worker *w, uint32_t root)
{
    telpher_status status = tp_offload_tree_merge(&w->tree, &w->since_report);

    if (status == TELPHER_OK && w->tree.rank == 0) {
        w->since_report.flags = TP_OFFLOAD_REPORT;
        w->since_report.messages = w->consumed[root];
        status = send_report(w, &w->since_report, (int)root);
    }
    tp_offload_report_init(&w->since_report);
    return status;
}

/* Adds the plugin's kernels. The path ends at the end of the arguments or at a 0
 * byte. */
static telpher_status
load_plugin(struct worker *w, const struct tp_offload_record *r, const uint8_t *args)
{
    char *path = tp_strndup((const char *)args, r->len, "plugin");
    struct tp_offload_report done;
    struct tp_error err = {0};
    struct tp_offload_table table;
    telpher_status status;

    if (path == NULL) {
        (void)tp_error_set(&err, TELPHER_ERR_NO_MEMORY,
                           "out of memory for its path, %llu bytes",
                           (unsigned long long)r->len);
    } else {
        (void)tp_offload_load(path, &err);
    }
    if (err.code != TELPHER_OK) {
        tp_warn("offload", "plugin: %s", tp_error_text(&err));
    }
    tp_free(path);
    if (tp_offload_table_create(&table) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_offload_table_destroy(&w->table);
    w->table = table;
    tp_offload_report_init(&done);
    done.result = err.code == TELPHER_OK ? 0 : 1;
    done.rank = w->tree.rank;
    snprintf(done.text, sizeof(done.text), "%s", err.text);
    status = tp_offload_worker_tell_done(w, w->call, &done);
    if (status == TELPHER_OK) {
        status = tp_offload_worker_send_kernels(w, (int)w->root, &err);
    }
    return status;
}

static telpher_status
run_record(struct worker *w, const struct tp_offload_record *r, const uint8_t *args)
{
    struct tp_offload_report done;
    telpher_status status;

    if (r->flags == 0) {
        return run_kernel(w, r, args, &w->since_report);
    }
    tp_offload_report_init(&done);
    if ((r->flags & TP_OFFLOAD_END) != 0) {
        w->ended = true;
        w->end_flags = r->flags & (TP_OFFLOAD_END | TP_OFFLOAD_DONE);
        return TELPHER_OK;
    }
    if ((r->flags & TP_OFFLOAD_LOAD) != 0) {
        return load_plugin(w, r, args);
    }
    if ((r->flags & TP_OFFLOAD_ARRAY) != 0) {
        return tp_offload_worker_array(w, r, args);
    }
    if ((r->flags & TP_OFFLOAD_REFUSED) != 0) {
        done.flags = TP_OFFLOAD_REFUSED;
        return tp_offload_worker_tell_done(w, w->call, &done);
    }
    status = run_kernel(w, r, args, &done);
    return status == TELPHER_OK ? tp_offload_worker_tell_done(w, w->call, &done)
                                : status;
}

static telpher_status
run_records(struct worker *w, const struct tp_offload_header *h, const uint8_t *records)
{
    struct tp_offload_record record;
    const uint8_t *args;
    telpher_status status = TELPHER_OK;

    for (uint64_t at = 0; status == TELPHER_OK && at < h->total && !w->ended;) {
        status =
            tp_offload_record_next(&w->table, records, h->total, &at, &record, &args);
        if (status == TELPHER_OK && record.call > h->last - h->first) {
            status = TELPHER_ERR_PROTO;
        }
        w->call = h->first + record.call;
        if (status == TELPHER_OK) {
            status = run_record(w, &record, args);
        }
    }
    return status;
}

/* All parts of a launch have arrived. */
static telpher_status
finish_launch(struct worker *w, const struct tp_offload_header *h,
              const uint8_t *records)
{
    telpher_status status;

    w->root = h->root;
    status = run_records(w, h, records);

    w->next = (h->flags & TP_OFFLOAD_MORE) != 0 ? h->first : h->last + 1;
    tp_free(w->pieces);
    w->pieces = NULL;
    return status;
}

static telpher_status
take_piece(struct worker *w, const struct tp_offload_header *h, const uint8_t *data)
{
    if (h->offset == 0) {
        if (h->total > tp_offload_settings()->limit_bytes || w->pieces != NULL) {
            return TELPHER_ERR_PROTO;
        }
        w->pieces = tp_alloc_aligned(64, h->total, "launch");
        w->pieces_total = h->total;
        w->pieces_have = 0;
        if (w->pieces == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    if (w->pieces == NULL || h->total != w->pieces_total ||
        h->offset != w->pieces_have) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(w->pieces + h->offset, data, h->len);
    w->pieces_have += h->len;
    return w->pieces_have == h->total ? finish_launch(w, h, w->pieces) : TELPHER_OK;
}

/* All parents get the report: each may have more calls in flight, and waits for
 * nothing after this. */
static telpher_status
tell_end(struct worker *w)
{
    struct tp_offload_report done;

    tp_offload_report_init(&done);
    done.flags = w->end_flags;
    return tp_offload_worker_tell_done(w, w->call, &done);
}

telpher_status
tp_offload_worker_consume(struct worker *w, const struct tp_offload_header *h,
                          const uint8_t *data)
{
    telpher_status status =
        h->len == h->total ? finish_launch(w, h, data) : take_piece(w, h, data);

    if (status == TELPHER_OK && w->tree.rank == 0) {
        w->consumed[h->root]++;
    }
    if (status == TELPHER_OK && (h->flags & TP_OFFLOAD_REPORT) != 0) {
        status = tell_credit(w, h->root);
    }
    if (status == TELPHER_OK && w->ended) {
        status = tell_end(w);
    }
    return status;
}

/* Parents receive all reports, unless there was an error. */
static void
end_reports(struct worker *w, bool is_good)
{
    for (int i = 0; i < WORKER_REPORTS; i++) {
        if (is_good && w->reports[i].request != MPI_REQUEST_NULL) {
            (void)tp_offload_mpi_wait(&w->reports[i].request, TP_CLOCK_FOREVER);
        }
        w->left_to_mpi |= !tp_offload_mpi_take_back(&w->reports[i].request, false);
    }
}

/* Names the worker in the trace. */
static void
name_process(const struct worker *w)
{
    char name[32];

    snprintf(name, sizeof(name), "worker %d", w->tree.rank);
    tp_trace_set_process_name(name);
}

telpher_status
tp_offload_worker_serve(MPI_Comm inter, MPI_Comm world, int launch_tag,
                        struct tp_error *err)
{
    struct worker *w = tp_zalloc(sizeof(*w), "worker");
    MPI_Comm before = tp_offload_world_comm;
    telpher_status status;

    if (w == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the state of a worker");
    }
    w->inter = inter;
    w->world = world;
    w->launch_tag = launch_tag;
    status = tp_offload_worker_greet(w, err);
    if (status != TELPHER_OK) {
        goto fini;
    }
    name_process(w);
    tp_offload_watch_kernels(w->tree.rank);
    current = w;
    if (tp_offload_world.base != MPI_COMM_NULL) {
        tp_offload_world.parent = inter;
        tp_offload_world_comm = world;
    }
    status = tp_offload_worker_receive(w);
    end_reports(w, status == TELPHER_OK);
    if (status != TELPHER_OK) {
        (void)tp_error_set(err, status, "worker %d stops: %s", w->tree.rank,
                           telpher_status_text(status));
    }
    current = NULL;
    tp_offload_world_comm = before;
    tp_offload_world.parent = MPI_COMM_NULL;
fini:
    tp_offload_worker_fini(w);
    if (!w->left_to_mpi) {
        tp_free(w);
    }
    return status;
}
