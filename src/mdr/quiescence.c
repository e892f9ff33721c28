/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quiescence: process 0 asks all processes for the number of work messages that they have sent
 * and handled. Each answers when it has nothing to run. The job is quiescent when two waves in a
 * row give the same sums and as many handled as sent.
 *
 * Source: F. Mattern, "Algorithms for distributed termination detection", 1987 (four counters).
 */
#include "mdr/object_int.h"

#include <string.h>

static void
begin_wave(telpher_mdr *mdr)
{
    struct tp_mdr_quiescence *q = &mdr->quiescence;
    struct tp_mdr_header h = {.kind = TP_MDR_POLL};

    q->wave++;
    q->sent = q->done = q->homeless = q->answers = 0;
    q->wanted = q->wave;
    h.id = q->wave;
    for (uint32_t r = 1; r < mdr->size; r++) {
        telpher_status status = tp_mdr_control(mdr, r, &h, NULL, 0);

        if (status != TELPHER_OK) {
            tp_mdr_fail(mdr, status, "process %u cannot be asked for quiescence", r);
            return;
        }
    }
}

static void
end_wave(telpher_mdr *mdr)
{
    struct tp_mdr_quiescence *q = &mdr->quiescence;
    bool same = q->has_last && q->sent == q->last_sent && q->done == q->last_done;

    if (same && q->sent == q->done) {
        q->active = q->has_last = false;
        (void)telpher_mdr_future_set(mdr, q->future, NULL, 0);
        return;
    }
    if (same && q->sent == q->done + q->homeless) {
        tp_mdr_fail(mdr, TELPHER_ERR_NOT_FOUND,
                    "the wait for quiescence cannot end: %llu messages are for "
                    "elements that no process has inserted",
                    (unsigned long long)q->homeless);
        return;
    }
    q->last_sent = q->sent;
    q->last_done = q->done;
    q->has_last = true;
    begin_wave(mdr);
}

/* Adds the counts of a process; in process 0. */
static void
add_counts(telpher_mdr *mdr, uint64_t wave, const uint64_t *counts)
{
    struct tp_mdr_quiescence *q = &mdr->quiescence;

    if (!q->active || wave != q->wave) {
        return;
    }
    q->sent += counts[0];
    q->done += counts[1];
    q->homeless += counts[2];
    if (++q->answers == mdr->size) {
        end_wave(mdr);
    }
}

static void
start(telpher_mdr *mdr, const telpher_mdr_future *future)
{
    struct tp_mdr_quiescence *q = &mdr->quiescence;

    if (q->active) {
        tp_mdr_fail(mdr, TELPHER_ERR_BUSY,
                    "process %u waits for quiescence while another wait has not ended; "
                    "one wait at a time",
                    future->rank);
        return;
    }
    q->active = true;
    q->has_last = false;
    q->future = *future;
    begin_wave(mdr);
}

void
tp_mdr_quiescence_receive(telpher_mdr *mdr, const struct tp_mdr_header *h,
                          const void *params, size_t len)
{
    uint64_t counts[3];
    telpher_mdr_future future;

    if (h->kind == TP_MDR_POLL) {
        mdr->quiescence.wanted = h->id;
    } else if (h->kind == TP_MDR_COUNTS && len == sizeof(counts) && mdr->rank == 0) {
        memcpy(counts, params, sizeof(counts));
        add_counts(mdr, h->id, counts);
    } else if (h->kind == TP_MDR_QUIESCENCE && len == sizeof(future) &&
               mdr->rank == 0) {
        memcpy(&future, params, sizeof(future));
        start(mdr, &future);
    } else {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "a control message of kind %u and %zu bytes is none that process "
                    "%u takes: do all processes run the same version?",
                    h->kind, len, mdr->rank);
    }
}

bool
tp_mdr_quiescence_idle(telpher_mdr *mdr)
{
    const uint64_t counts[3] = {mdr->sent, mdr->done, mdr->homeless};
    struct tp_mdr_header h = {.kind = TP_MDR_COUNTS, .id = mdr->quiescence.wanted};

    if (h.id == 0 || !tp_list_is_empty(&mdr->starved)) {
        return false;
    }
    mdr->quiescence.wanted = 0;
    if (mdr->rank == 0) {
        add_counts(mdr, h.id, counts);
    } else {
        (void)tp_mdr_control(mdr, 0, &h, counts, sizeof(counts));
    }
    return true;
}

telpher_status
telpher_mdr_quiescence(telpher_mdr *mdr, telpher_mdr_future future)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_QUIESCENCE};

    if (mdr->rank != 0) {
        return tp_mdr_control(mdr, 0, &h, &future, sizeof(future));
    }
    if (mdr->quiescence.active) {
        return tp_mdr_error(mdr, TELPHER_ERR_BUSY,
                            "another entry waits for quiescence");
    }
    start(mdr, &future);
    return TELPHER_OK;
}
