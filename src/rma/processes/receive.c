/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives what other processes send: commands of their ranks and control messages, by two
 * ordered handlers of libtelpher. So all that one process sends takes effect in the order of
 * its sends. The progress role is held, or no launch runs.
 */
#include <string.h>

#include "base/alloc.h"
#include "rma/processes/remote.h"

static bool
is_well_formed(const telpher_msg *msg)
{
    const size_t head = sizeof(telpher_rma_command);
    const telpher_rma_command *c = msg->params;

    if (msg->buffer_count == 0
            ? msg->params_len < head || msg->params_len - head > TP_RMA_INLINE_MAX
            : msg->params_len != head || msg->buffer_count != 1) {
        return false;
    }
    return msg->handler == tp_rma_handler_of(c->op);
}

/* @return false: the launch has failed */
static bool
check_form(struct tp_rma_world *w, const telpher_msg *msg)
{
    if (is_well_formed(msg)) {
        return true;
    }
    if (w->run != NULL) {
        tp_rma_run_fail(
            w->run, TELPHER_ERR_PROTO,
            "process %u sent a malformed message: %zu bytes with %u buffers", msg->from,
            msg->params_len, msg->buffer_count);
    }
    return false;
}

/* A HELLO belongs to a later launch, so losing it must not fail the present one. */
static void
fail_without_memory(struct tp_rma_world *w, uint32_t process,
                    const telpher_rma_command *c)
{
    if (c->op == TP_RMA_CONTROL_HELLO) {
        w->processes[process].unread = c->launch;
    } else if (w->run != NULL) {
        tp_rma_run_fail(w->run, TELPHER_ERR_NO_MEMORY,
                        "no memory for what process %u sends", process);
    }
}

/* Memory of its own for a control message's body. */
static void *
take_body(struct tp_rma_world *w, telpher_msg *msg, const telpher_rma_command *c)
{
    if (msg->buffers[0].len > TP_RMA_BODY_MAX) {
        return NULL;
    }
    msg->cookie = tp_malloc(msg->buffers[0].len, "message");
    if (msg->cookie == NULL) {
        fail_without_memory(w, msg->from, c);
    }
    return msg->cookie;
}

/* Destination of the data of a put or a get. Data of another launch is dropped. */
static void
on_post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct tp_rma_world *w = user;
    telpher_msg_buffer *buffer = &msg->buffers[0];
    const telpher_rma_command *c = msg->params;
    bool refused;

    msg->cookie = NULL;
    if (!check_form(w, msg) ||
        (c->op != TP_RMA_CONTROL_HELLO && !tp_rma_is_of_launch(w, c))) {
        return;
    }
    if (c->op == TELPHER_RMA_COMMAND_PUT || c->op == TP_RMA_CONTROL_GOT) {
        buffer->data = tp_rma_command_place(w->run->remote, msg->from, c, buffer->len);
        refused = buffer->data == NULL;
    } else {
        buffer->data = c->op > TP_RMA_CONTROL_GOT ? take_body(w, msg, c) : NULL;
        refused = c->op <= TP_RMA_CONTROL_GOT || buffer->len > TP_RMA_BODY_MAX;
    }
    w->processes[msg->from].incoming += buffer->data != NULL;
    if (refused && w->run != NULL) {
        tp_rma_command_refuse(w->run, msg->from, c);
    }
}

/* Copies the command: a peer on this machine may still write in the shared memory. */
static void
enter_inline(struct tp_rma_world *w, const telpher_msg *msg)
{
    telpher_rma_command c;
    struct tp_rma_delivery d = {.command = &c};

    memcpy(&c, msg->params, sizeof(c));
    d.data = (const uint8_t *)msg->params + sizeof(c);
    d.len = msg->params_len - sizeof(c);
    tp_rma_command_take(w, msg->from, &d);
}

static void
enter_buffer(struct tp_rma_world *w, const telpher_msg *msg)
{
    struct tp_rma_delivery d = {
        .command = msg->params, .data = msg->cookie, .body = msg->cookie};

    d.len = d.body != NULL ? msg->buffers[0].len : 0;
    if (msg->status == TELPHER_OK) {
        tp_rma_command_take(w, msg->from, &d);
    } else if (w->run != NULL && msg->status != TELPHER_ERR_PEER_LOST) {
        tp_rma_run_fail(w->run, msg->status, "receiving from process %u failed: %s",
                        msg->from, telpher_status_text(msg->status));
    }
    tp_free(d.body);
}

static void
on_entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct tp_rma_world *w = user;

    if (msg->buffer_count != 0 && msg->buffers[0].data != NULL) {
        w->processes[msg->from].incoming--;
        enter_buffer(w, msg);
    } else if (msg->buffer_count == 0 && msg->status == TELPHER_OK &&
               check_form(w, msg)) {
        enter_inline(w, msg);
    }
}

telpher_status
tp_rma_receive_start(struct tp_rma_world *w)
{
    telpher_status status = telpher_msg_handler_ordered(
        w->ctx, TP_RMA_COMMAND_HANDLER, TP_RMA_COMMAND_CREDITS, on_post, on_entry, w);

    return status == TELPHER_OK
               ? telpher_msg_handler_ordered(w->ctx, TP_RMA_CONTROL_HANDLER, 0, on_post,
                                             on_entry, w)
               : status;
}
