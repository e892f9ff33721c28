/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the parents' operations on arrays, in order with kernels. */
#include <stdio.h>

#include "base/trace/trace.h"
#include "offload/worker/worker_int.h"

/* Whether all workers have allocated their rows is known after all have tried. */
static telpher_status
create(struct worker *w, const struct tp_offload_array *a)
{
    struct tp_offload_report done;
    struct tp_error err = {0};
    telpher_status status =
        tp_offload_parts_create(&w->parts, a, w->tree.size, w->tree.rank, &err);

    if (status == TELPHER_ERR_PROTO) {
        return status;
    }
    tp_offload_report_init(&done);
    done.result = status == TELPHER_OK ? 0 : 1;
    done.rank = w->tree.rank;
    snprintf(done.text, sizeof(done.text), "%s", tp_error_text(&err));
    return tp_offload_worker_tell_done(w, w->call, &done);
}

static telpher_status
move(struct worker *w, const struct tp_offload_array *a, bool sends)
{
    const telpher_block *part = tp_offload_parts_find(&w->parts, a);
    struct tp_offload_transfer t = {.inter = w->control,
                                    .rows = a->rows,
                                    .row_bytes = a->row_bytes,
                                    .sends = sends};
    tp_ns start = tp_clock_ns();
    struct tp_error err = {0};
    telpher_status status;

    if (part == NULL) {
        return TELPHER_ERR_PROTO;
    }
    t.block = part->data;
    if (tp_offload_transfer_prepare(&t, &err) != TELPHER_OK) {
        tp_offload_world_abort(
            tp_error_text(&err)); /* the parents are already waiting */
    }
    status = tp_offload_transfer_run(&t);
    tp_offload_transfer_fini(&t);
    tp_trace_span("offload", sends ? "get" : "put", start, TP_ARG("array", a->id),
                  TP_ARG("bytes", part->rows * part->row_bytes));
    return status;
}

telpher_status
tp_offload_worker_array(struct worker *w, const struct tp_offload_record *r,
                        const uint8_t *args)
{
    struct tp_offload_array a;
    telpher_status status = tp_offload_array_read(r, args, &a);

    if (status != TELPHER_OK) {
        return status;
    }
    switch (r->flags & TP_OFFLOAD_ARRAY) {
    case TP_OFFLOAD_CREATE:
        return create(w, &a);
    case TP_OFFLOAD_FREE:
        tp_offload_parts_free(&w->parts, a.id);
        return TELPHER_OK;
    default:
        return move(w, &a, (r->flags & TP_OFFLOAD_GET) != 0);
    }
}
