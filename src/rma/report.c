/* SPDX-License-Identifier: Apache-2.0 */
/* Report of a failed launch: which rank waits for which, for which tag, since when,
 * where. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/trace/log.h"
#include "rma/processes/remote.h"

enum { ROWS_MAX = 64, NAMES_MAX = 8, TEXT_MAX = 4096 };

static void
print_missing(FILE *out, const struct tp_rma_run *run, const struct tp_rma_group *group,
              uint32_t generation)
{
    uint32_t missing = 0;

    fprintf(out, " of %s", group->name);
    for (uint32_t i = 0; i < group->size; i++) {
        if (!run->ranks[group->members[i]].remote &&
            atomic_load(&group->slots[i].arrived) != generation + 1 &&
            missing++ < NAMES_MAX) {
            fprintf(out, "%s %u", missing > 1 ? "," : ", without rank",
                    group->members[i]);
        }
    }
    if (missing > NAMES_MAX) {
        fprintf(out, " and %u more", missing - NAMES_MAX);
    }
    if (group->spread != NULL) {
        tp_rma_spread_print_missing(out, run, group, generation);
    }
}

static void
print_sender(FILE *out, const struct tp_rma_rank *rank, uint32_t tag, uint32_t from)
{
    uint32_t last = atomic_load(&rank->senders[tag]);

    if (from != TELPHER_RMA_NO_RANK) {
        fprintf(out, " from rank %u", from);
    }
    if (last != 0) {
        fprintf(out, ", the last from rank %u", last - 1);
    } else {
        fprintf(out, ", none ever arrived");
    }
}

static void
print_tag(FILE *out, const struct tp_rma_rank *rank, const struct tp_rma_wait *w)
{
    fprintf(out, "%s tag %u: %u of %u",
            w->op == TP_RMA_OP_TEST ? "tests without success for" : "waits for", w->tag,
            atomic_load(&rank->counts[w->tag]) - rank->taken[w->tag], w->count);
    print_sender(out, rank, w->tag, w->from);
}

static void
print_any(FILE *out, const struct tp_rma_rank *rank, const struct tp_rma_wait *w)
{
    uint32_t known = 0; /* the first tag that arrived, if any did */

    fprintf(out, "waits for any of %u tags:", w->count);
    for (uint32_t i = 0; i < w->count && i < NAMES_MAX; i++) {
        fprintf(out, " %u", w->tags[i]);
    }
    if (w->count > NAMES_MAX) {
        fprintf(out, " and %u more", w->count - NAMES_MAX);
    }
    while (known + 1 < w->count && atomic_load(&rank->senders[w->tags[known]]) == 0) {
        known++;
    }
    print_sender(out, rank, w->tags[known], TELPHER_RMA_NO_RANK);
}

/* The rank's lock is held. */
static void
print_wait(FILE *out, const struct tp_rma_rank *rank, const struct tp_rma_wait *w,
           tp_ns now)
{
    fprintf(out, "rank %u: ", rank->index);
    if (w->kind == TP_RMA_WAIT_TAG) {
        print_tag(out, rank, w);
    } else if (w->kind == TP_RMA_WAIT_ANY) {
        print_any(out, rank, w);
    } else if (w->kind == TP_RMA_WAIT_ANSWER) {
        fprintf(out, "waits in %s for %u answers of other processes",
                tp_rma_op_name(w->op), atomic_load(&rank->answers));
    } else if (w->kind == TP_RMA_WAIT_ROOM) {
        fprintf(out,
                "waits in %s for room: %u commands to other processes are before it",
                tp_rma_op_name(w->op), (unsigned)TP_RMA_RING);
    } else {
        fprintf(out, "waits in %s", tp_rma_op_name(w->op));
        print_missing(out, rank->run, w->group, w->generation);
    }
    fprintf(out, "; since %.3f ms, at %s\n",
            (double)tp_clock_between(w->since, now) * 1e-6, w->where);
}

static void
print_rank(FILE *out, struct tp_rma_rank *rank, tp_ns now)
{
    const char *last = atomic_load_explicit(&rank->last, memory_order_relaxed);

    tp_mutex_lock(&rank->lock);
    if (rank->wait.kind != TP_RMA_WAIT_NONE) {
        print_wait(out, rank, &rank->wait, now);
    } else if (rank->asks.kind != TP_RMA_WAIT_NONE && !atomic_load(&rank->returned)) {
        print_wait(out, rank, &rank->asks, now);
    } else if (atomic_load(&rank->returned)) {
        fprintf(out, "rank %u: has returned from the kernel, last call at %s\n",
                rank->index, last != NULL ? last : "no line");
    } else {
        fprintf(out, "rank %u: runs, %s%s\n", rank->index,
                last != NULL ? "last call at " : "no call yet",
                last != NULL ? last : "");
    }
    tp_mutex_unlock(&rank->lock);
}

void
tp_rma_report_table(FILE *out, struct tp_rma_run *run)
{
    tp_ns now = tp_clock_ns();
    uint32_t rows = TP_MIN(run->params.ranks, (uint32_t)ROWS_MAX);

    for (uint32_t i = 0; i < rows; i++) {
        print_rank(out, &run->ranks[run->first + i], now);
    }
    if (rows < run->params.ranks) {
        fprintf(out, "and %u ranks more\n", run->params.ranks - rows);
    }
}

/* Each line is logged once, at the place that decides the failure. */
static void
log_lines(enum tp_log_level level, const char *report)
{
    while (*report != '\0') {
        size_t len = strcspn(report, "\n");

        tp_log(level, "rma", "%.*s", (int)len, report);
        report += len + (report[len] == '\n');
    }
}

void
tp_rma_log_report(const char *report)
{
    log_lines(TP_LOG_ERROR, report);
}

void
tp_rma_report_text(char *text, size_t max, const char *kernel, const char *report)
{
    size_t name = strlen(kernel);

    if (strncmp(report, kernel, name) == 0 && strncmp(report + name, ": ", 2) == 0) {
        report += name + 2;
    }
    snprintf(text, max, "%.*s", (int)strcspn(report, "\n"), report);
}

void
tp_rma_report_error(telpher_error *err, telpher_status status, const char *report)
{
    err->code = status;
    tp_rma_report_text(err->text, sizeof(err->text), "", report);
}

telpher_status
tp_rma_error_set(telpher_error *err, telpher_status status, const char *format, ...)
{
    va_list args;

    if (err != NULL) {
        err->code = status;
        va_start(args, format);
        vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
    }
    return status;
}

/* Of malloc(); NULL without memory. */
static char *
make_report(struct tp_rma_run *run, const char *reason, bool with_table)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out != NULL) {
        fprintf(out, "%s: %s\n", run->kernel->name, reason);
        if (with_table && run->link == NULL) { /* a GPU's ranks report at its end */
            tp_rma_report_table(out, run);
        }
        fclose(out);
    }
    return text;
}

void
tp_rma_run_warn(struct tp_rma_run *run, const char *format, ...)
{
    char text[TEXT_MAX], *report;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    report = make_report(run, text, true);
    log_lines(TP_LOG_WARN, report != NULL ? report : text);
    free(report);
}

static void
write_report(struct tp_rma_run *run, telpher_status status, const char *reason)
{
    /* with a race all ranks have returned */
    char *text = make_report(run, reason, status != TELPHER_ERR_RACE);

    if (text == NULL) {
        tp_error("rma", "%s: %s", run->kernel->name, reason);
        return;
    }
    tp_rma_log_report(text);
    tp_mutex_lock(&run->fail_lock);
    run->report = text;
    tp_mutex_unlock(&run->fail_lock);
}

static void
fail(struct tp_rma_run *run, telpher_status status, const char *reason)
{
    if (!atomic_exchange(&run->failed, true)) {
        /* before other ranks change state because of the failure */
        write_report(run, status, reason);
        atomic_store(&run->status, status);
        tp_rma_run_wake(run);
        if (run->remote != NULL) {
            tp_rma_remote_failed(run->remote);
        }
    }
}

void
tp_rma_run_fail(struct tp_rma_run *run, telpher_status status, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fail(run, status, text);
}

void
tp_rma_report_append(struct tp_rma_run *run, const char *format, ...)
{
    char *text = NULL, *whole = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) >= 0) {
        if (asprintf(&whole, "%s%s", run->report != NULL ? run->report : "", text) >=
            0) {
            free(run->report);
            run->report = whole;
        }
        free(text);
    }
    va_end(args);
}

telpher_status
tp_rma_call_refuse(struct tp_rma_lane *lane, telpher_status status,
                   const struct tp_rma_call *call, const char *format, ...)
{
    char text[TEXT_MAX], whole[TEXT_MAX + 128];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(whole, sizeof(whole), "rank %u, %s at %s: %s", lane->rank->index,
             tp_rma_op_name(call->op), call->where, text);
    fail(lane->rank->run, status, whole);
    return status;
}
