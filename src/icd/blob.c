/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources, binaries and facts of any size: in a message if they are small, else as a
 * transfer on the bulk stream beside it.
 */
#include "icd/icd_int.h"

#include <string.h>

#include "base/alloc.h"

/* ---- out ------------------------------------------------------------------------------ */

static void
on_sent(struct tp_icd_source *source, telpher_status status)
{
    struct tp_icd_outgoing *out = source->user;

    (void)status; /* a lost place is noticed by who waits for the reply */
    tp_icd_drop(out->keep);
    tp_free(out->own);
    tp_free(out);
}

telpher_status
tp_icd_blob_send(struct tp_icd_place *place, const uint8_t *data, size_t len,
                 struct tp_icd_object *keep, uint8_t *own, uint64_t *ret_transfer)
{
    struct tp_icd_outgoing *out = tp_zalloc(sizeof(*out), "transfer");
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (out != NULL) {
        out->keep = keep;
        out->own = own;
        out->source = (struct tp_icd_source){
            .transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER),
            .src = data,
            .size = len,
            .ready = len,
            .done = on_sent,
            .user = out,
        };
        *ret_transfer = out->source.transfer;
        if (keep != NULL) {
            tp_icd_hold(keep);
        }
        status = tp_icd_source_add(place, &out->source);
        if (status == TELPHER_OK) {
            return TELPHER_OK;
        }
        tp_icd_drop_locked(keep);
    }
    tp_free(out);
    tp_free(own);
    return status;
}

/* ---- in ------------------------------------------------------------------------------- */

static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;

static void
finish(struct tp_icd_incoming *in, telpher_status status)
{
    tp_icd_lock();
    in->status = status;
    in->done = true;
    pthread_cond_broadcast(&arrived);
    tp_icd_unlock();
}

static void
on_received(struct tp_icd_sink *sink, telpher_status status)
{
    finish(sink->user, status);
}

void
tp_icd_blob_copy(struct tp_icd_incoming *in, const void *data, size_t len)
{
    in->data = tp_memdup(data, len, "reply");
    in->size = len;
    in->status = in->data == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_OK;
    in->done = true;
}

void
tp_icd_blob_receive(struct tp_icd_incoming *in, struct tp_icd_place *place,
                    uint64_t transfer, uint64_t size)
{
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    in->done = false;
    in->size = size;
    in->data = size <= TP_WIRE_TRANSFER_MAX ? tp_malloc(size, "reply") : NULL;
    if (in->data != NULL) {
        in->sink = (struct tp_icd_sink){.transfer = transfer,
                                        .dst = in->data,
                                        .size = size,
                                        .done = on_received,
                                        .user = in};
        tp_icd_lock();
        status = tp_icd_sink_add(place, &in->sink);
        tp_icd_unlock();
    }
    if (status != TELPHER_OK) {
        finish(in, status);
    }
}

telpher_status
tp_icd_blob_wait(struct tp_icd_incoming *in)
{
    tp_icd_lock();
    while (!in->done) {
        pthread_cond_wait(&arrived, &tp_icd.lock);
    }
    tp_icd_unlock();
    return in->status;
}

void
tp_icd_blob_fini(struct tp_icd_incoming *in)
{
    tp_free(in->data);
    in->data = NULL;
}
