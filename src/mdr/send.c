/* SPDX-License-Identifier: Apache-2.0 */
/* Sends messages: to this process through its local queue, to others with credits. */
#include "mdr/object_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* [bytes] of parameters that every transport takes. */
#define SURE 512
/* [bytes] of parameters after a short header. */
#define SHORT_MAX 480

/* A message with room for parameters. */
static struct tp_mdr_message *
allocate(telpher_mdr *mdr, const struct tp_mdr_header *h, size_t params_len)
{
    size_t head = (sizeof(struct tp_mdr_message) + 15) & ~(size_t)15;
    struct tp_mdr_message *m = tp_alloc_aligned(16, head + params_len, "mdr message");

    if (m != NULL) {
        memset(m, 0, sizeof(*m));
        tp_list_init(&m->link);
        m->header = *h;
        m->params_len = params_len;
        m->kept_bytes = &mdr->kept_bytes;
        tp_mdr_message_charge(m, head + params_len);
    }
    return m;
}

struct tp_mdr_message *
tp_mdr_message_create(telpher_mdr *mdr, const struct tp_mdr_header *h,
                      const void *params, size_t params_len)
{
    struct tp_mdr_message *m = allocate(mdr, h, params_len);

    if (m != NULL && params_len != 0) {
        memcpy(tp_mdr_message_params(m), params, params_len);
    }
    return m;
}

void
tp_mdr_message_done(struct tp_mdr_message *m, telpher_status status)
{
    telpher_done_fn on_done = m->on_done;

    m->on_done = NULL;
    if (on_done != NULL) {
        on_done(m->user, status, 0);
    }
}

void
tp_mdr_message_destroy(struct tp_mdr_message *m)
{
    if (m == NULL) {
        return;
    }
    tp_mdr_message_done(m, TELPHER_ERR_CANCELED);
    for (uint32_t i = 0; i < m->buffer_count && m->owns_buffers; i++) {
        free(m->buffers[i].data);
    }
    if (m->element != NULL) {
        m->element->uses--;
    }
    *m->kept_bytes -= m->bytes;
    tp_free(m);
}

void
tp_mdr_messages_destroy(struct tp_list *list)
{
    tp_list_for_each_entry_safe(struct tp_mdr_message, m, list, link) {
        tp_list_remove(&m->link);
        tp_mdr_message_destroy(m);
    }
}

/* ---- one message ---- */

/* For sends whose end the program does not ask for. */
static void
ignore(void *user, telpher_status status, size_t len)
{
    (void)user, (void)status, (void)len;
}

static void
copy_params(uint8_t *dst, const struct tp_mdr_outgoing *o)
{
    if (o->head_len != 0) {
        memcpy(dst, o->head, o->head_len);
    }
    if (o->params_len != 0) {
        memcpy(dst + o->head_len, o->params, o->params_len);
    }
}

/* Sends header and parameters in one block. */
static telpher_status
send_now(telpher_mdr *mdr, uint32_t rank, uint32_t handler,
         const struct tp_mdr_outgoing *o)
{
    size_t len = sizeof(*o->h) + o->head_len + o->params_len;
    _Alignas(16) uint8_t small[512];
    uint8_t *block = len <= sizeof(small) ? small : tp_malloc(len, "mdr message");
    const telpher_xfer_params plain = {.struct_size = sizeof(plain), .on_done = ignore};
    const telpher_xfer_params *xfer =
        o->xfer != NULL && o->xfer->on_done != NULL ? o->xfer : &plain;
    telpher_status status;

    if (block == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(block, o->h, sizeof(*o->h));
    copy_params(block + sizeof(*o->h), o);
    status = telpher_msg_send(mdr->ctx, rank, handler, block, len, o->buffers,
                              o->buffer_count, xfer, NULL);
    if (block != small) {
        tp_free(block);
    }
    if (status == TELPHER_OK) {
        xfer->on_done(xfer->user, TELPHER_OK, 0);
    }
    return status == TELPHER_IN_PROGRESS ? TELPHER_OK : status;
}

/* Copies a message to send it later. */
static struct tp_mdr_message *
keep(telpher_mdr *mdr, const struct tp_mdr_outgoing *o)
{
    struct tp_mdr_message *m = allocate(mdr, o->h, o->head_len + o->params_len);

    if (m == NULL) {
        return NULL;
    }
    copy_params(tp_mdr_message_params(m), o);
    m->buffer_count = (uint32_t)o->buffer_count;
    for (size_t i = 0; i < o->buffer_count; i++) {
        m->buffers[i] = o->buffers[i];
    }
    if (o->xfer != NULL) {
        m->on_done = o->xfer->on_done;
        m->user = o->xfer->user;
        m->queue = o->xfer->queue;
    }
    return m;
}

static telpher_status
send_work(telpher_mdr *mdr, uint32_t rank, const struct tp_mdr_outgoing *o)
{
    struct tp_list *queue = rank == mdr->rank ? &mdr->local : &mdr->out[rank].queue;
    telpher_status status = TELPHER_ERR_AGAIN;
    struct tp_mdr_message *m;

    if (mdr->exiting) {
        return tp_mdr_error(
            mdr, TELPHER_ERR_CANCELED,
            "the run is ending, because a process called telpher_mdr_exit() or failed");
    }
    if (rank != mdr->rank && tp_list_is_empty(queue)) {
        status = send_now(mdr, rank, TP_MDR_WORK_HANDLER, o);
    }
    if (status == TELPHER_ERR_AGAIN) {
        m = keep(mdr, o);
        if (m != NULL) {
            tp_list_push_back(queue, &m->link);
            mdr->queued += rank != mdr->rank;
        }
        status = m != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
    }
    if (status != TELPHER_OK) {
        return tp_mdr_error(mdr, status, "a message to process %u: %s", rank,
                            status == TELPHER_ERR_NO_MEMORY
                                ? "no memory"
                                : telpher_last_error(mdr->ctx));
    }
    mdr->sent++;
    return TELPHER_OK;
}

/* True also for a lost process, of which the send will tell. */
static bool
fits(const telpher_mdr *mdr, uint32_t rank, size_t head_len, size_t params_len)
{
    size_t max;

    if (head_len + params_len <= SURE) {
        return true;
    }
    max = telpher_msg_params_max(mdr->ctx, rank);
    return max == 0 || params_len <= max - sizeof(struct tp_mdr_header) - head_len;
}

telpher_status
tp_mdr_send(telpher_mdr *mdr, uint32_t rank, const struct tp_mdr_header *h,
            const void *head, size_t head_len, const void *params, size_t params_len)
{
    const struct tp_mdr_outgoing o = {.h = h,
                                      .head = head,
                                      .params = params,
                                      .head_len = head_len,
                                      .params_len = params_len};

    if (!fits(mdr, rank, head_len, params_len)) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE,
                            "%zu bytes of parameters are too many; send a buffer",
                            params_len);
    }
    return send_work(mdr, rank, &o);
}

telpher_status
tp_mdr_control(telpher_mdr *mdr, uint32_t rank, const struct tp_mdr_header *h,
               const void *params, size_t params_len)
{
    const struct tp_mdr_outgoing o = {
        .h = h, .params = params, .params_len = params_len};

    return send_now(mdr, rank, TP_MDR_CONTROL_HANDLER, &o);
}

telpher_status
tp_mdr_forward(telpher_mdr *mdr, const struct tp_mdr_header *h, const void *head,
               size_t head_len, const void *params, size_t params_len)
{
    uint64_t place = (mdr->rank + mdr->size - h->root % mdr->size) % mdr->size;

    for (uint64_t child = 2 * place + 1; child <= 2 * place + 2 && child < mdr->size;
         child++) {
        uint32_t rank = (uint32_t)((child + h->root) % mdr->size);
        telpher_status status =
            tp_mdr_send(mdr, rank, h, head, head_len, params, params_len);

        if (status != TELPHER_OK) {
            return status;
        }
    }
    return TELPHER_OK;
}

/* ---- the queues ---- */

/* The buffers of a kept message have been sent. */
static void
end_kept(void *user, telpher_status status, size_t len)
{
    struct tp_mdr_message *m = user;

    (void)len;
    tp_mdr_message_done(m, status);
    tp_mdr_message_destroy(m);
}

/* Sends a kept message and takes it. @return false: no credit, it stays */
static bool
send_message(telpher_mdr *mdr, uint32_t rank, struct tp_mdr_message *m)
{
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = end_kept, .user = m, .queue = m->queue};
    const struct tp_mdr_header h = m->header;
    const struct tp_mdr_outgoing o = {.h = &h,
                                      .params = tp_mdr_message_params(m),
                                      .params_len = m->params_len,
                                      .buffers = m->buffers,
                                      .buffer_count = m->buffer_count,
                                      .xfer = &xfer};
    telpher_status status = send_now(mdr, rank, TP_MDR_WORK_HANDLER, &o);

    if (status == TELPHER_ERR_AGAIN) {
        return false;
    }
    if (status != TELPHER_OK) {
        tp_mdr_fail(mdr, status, "a message to process %u: %s", rank,
                    telpher_last_error(mdr->ctx));
        end_kept(m, status, 0);
    }
    return true;
}

void
tp_mdr_send_kept(telpher_mdr *mdr, uint32_t rank, struct tp_mdr_message *m)
{
    struct tp_list *queue = &mdr->out[rank].queue;

    if (mdr->exiting) {
        tp_mdr_message_destroy(m);
        return;
    }
    mdr->sent++;
    if (!tp_list_is_empty(queue) || !send_message(mdr, rank, m)) {
        tp_list_push_back(queue, &m->link);
        mdr->queued++;
    }
}

bool
tp_mdr_flush(telpher_mdr *mdr)
{
    bool sent = false;

    for (uint32_t r = 0; r < mdr->size && mdr->queued != 0; r++) {
        tp_list_for_each_entry_safe(struct tp_mdr_message, m, &mdr->out[r].queue,
                                    link) {
            tp_list_remove(&m->link);
            if (!send_message(mdr, r, m)) {
                tp_list_push_front(&mdr->out[r].queue, &m->link);
                break;
            }
            mdr->queued--;
            sent = true;
        }
    }
    return sent;
}

void
tp_mdr_drop_messages(telpher_mdr *mdr)
{
    tp_mdr_messages_destroy(&mdr->local);
    tp_mdr_later_drop(mdr);
    for (uint32_t r = 0; r < mdr->size && mdr->out != NULL; r++) {
        tp_mdr_messages_destroy(&mdr->out[r].queue);
    }
    tp_mdr_arrays_drop_parked(mdr);
}

/* ---- calls of the program ---- */

/* The process to send to: where the element is known to be, else its home. */
static uint32_t
rank_for(telpher_mdr *mdr, const telpher_mdr_array *array, telpher_mdr_index index,
         uint32_t *ret_moves)
{
    uint32_t home;
    const struct tp_mdr_array_state *a;

    *ret_moves = 0;
    if (array->dims == 0 && (index.at[1] | index.at[2]) == 0) { /* a group */
        return (uint32_t)index.at[0] < mdr->size ? (uint32_t)index.at[0] : UINT32_MAX;
    }
    home = telpher_mdr_home(mdr, array, index);
    if (home == UINT32_MAX || !tp_mdr_is_mobile(mdr, array)) {
        return home;
    }
    a = tp_mdr_array_known(mdr, array->id);
    if (a == NULL || !a->created) {
        return home;
    }
    return tp_mdr_find(a, index) != NULL ? mdr->rank
                                         : tp_mdr_place(mdr, a, index, ret_moves);
}

telpher_status
tp_mdr_send_element(telpher_mdr *mdr, const telpher_mdr_array *array,
                    telpher_mdr_index index, uint8_t kind, uint32_t entry,
                    struct tp_mdr_outgoing *o)
{
    struct tp_mdr_header h = {.kind = kind,
                              .entry = (uint16_t)entry,
                              .root = mdr->rank,
                              .id = array->id,
                              .at = {index.at[0], index.at[1], index.at[2]}};
    uint32_t rank = rank_for(mdr, array, index, &h.moves);

    o->h = &h;
    if (rank == UINT32_MAX) {
        return tp_mdr_error(
            mdr, TELPHER_ERR_RANGE, "the array of class %s has no element (%d, %d, %d)",
            mdr->classes[array->class_id]->name, index.at[0], index.at[1], index.at[2]);
    }
    if (!fits(mdr, rank, o->head_len, o->params_len)) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE,
                            "%zu bytes of parameters are too many; send a buffer",
                            o->params_len);
    }
    return send_work(mdr, rank, o);
}

telpher_status
telpher_mdr_invoke_typed(telpher_mdr *mdr, const telpher_mdr_array *array,
                         telpher_mdr_index index, uint32_t entry, const char *type,
                         const void *params, size_t params_len)
{
    uint32_t priority;
    const telpher_mdr_entry *e =
        tp_mdr_find_entry(mdr, array, tp_mdr_split_entry(entry, &priority));

    if (e == NULL) {
        return TELPHER_ERR_RANGE;
    }
    if (e->type != NULL && strcmp(e->type, type) != 0) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID, "%s.%s takes %s, not %s",
                            mdr->classes[array->class_id]->name, e->name, e->type,
                            type);
    }
    return telpher_mdr_invoke(mdr, array, index, entry, params, params_len, NULL, 0,
                              NULL);
}

/* A message with a short header that can leave at once. @return false: there is no such message,
 * or it has to wait */
static bool
send_short(telpher_mdr *mdr, const telpher_mdr_array *array, telpher_mdr_index index,
           uint32_t entry, const void *params, size_t len)
{
    struct {
        struct tp_mdr_short h;
        _Alignas(16) uint8_t params[SHORT_MAX];
    } block;
    uint32_t number = tp_mdr_short_array(array->id), moves, rank;

    if (len > SHORT_MAX || number == 0 || (index.at[1] | index.at[2]) != 0 ||
        tp_mdr_entry_for(mdr, array, entry, len, 0) == NULL || mdr->exiting) {
        return false;
    }
    rank = rank_for(mdr, array, index, &moves);
    if (rank >= mdr->size || rank == mdr->rank ||
        !tp_list_is_empty(&mdr->out[rank].queue)) {
        return false;
    }
    block.h = (struct tp_mdr_short){.kind = TP_MDR_INVOKE,
                                    .flags = TP_MDR_SHORT,
                                    .entry = (uint16_t)entry,
                                    .array = number,
                                    .at = index.at[0],
                                    .moves = moves};
    if (len != 0) {
        memcpy(block.params, params, len);
    }
    if (telpher_msg_send(mdr->ctx, rank, TP_MDR_WORK_HANDLER, &block,
                         sizeof(block.h) + len, NULL, 0, NULL, NULL) != TELPHER_OK) {
        return false; /* the general way fails as well, and says why */
    }
    mdr->sent++;
    return true;
}

telpher_status
telpher_mdr_invoke(telpher_mdr *mdr, const telpher_mdr_array *array,
                   telpher_mdr_index index, uint32_t entry, const void *params,
                   size_t params_len, const telpher_msg_buffer *buffers,
                   size_t buffer_count, const telpher_xfer_params *xfer)
{
    telpher_status status = tp_mdr_hold(mdr);

    if (status != TELPHER_OK) {
        return status;
    }
    if (buffer_count == 0 && xfer == NULL &&
        send_short(mdr, array, index, entry, params, params_len)) {
        return TELPHER_OK;
    }
    return tp_mdr_invoke(mdr, array, index, entry, params, params_len, buffers,
                         buffer_count, xfer);
}

telpher_status
tp_mdr_invoke(telpher_mdr *mdr, const telpher_mdr_array *array, telpher_mdr_index index,
              uint32_t entry, const void *params, size_t params_len,
              const telpher_msg_buffer *buffers, size_t buffer_count,
              const telpher_xfer_params *xfer)
{
    struct tp_mdr_outgoing o = {.params = params,
                                .params_len = params_len,
                                .buffers = buffers,
                                .buffer_count = buffer_count,
                                .xfer = xfer};
    uint32_t priority, plain = tp_mdr_split_entry(entry, &priority);
    telpher_status status =
        tp_mdr_check_call(mdr, array, plain, params_len, buffer_count);

    return status == TELPHER_OK ? tp_mdr_send_element(mdr, array, index, TP_MDR_INVOKE,
                                                      priority << 8 | plain, &o)
                                : status;
}
