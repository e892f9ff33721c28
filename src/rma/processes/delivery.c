/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes from other processes. All that one process sends takes effect in the order it
 * was sent: what is complete waits behind what is still landing. The role is held, or no
 * launch runs.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/processes/remote.h"

static void
landing_free(struct tp_rma_delivery *l)
{
    tp_list_remove(&l->link);
    tp_free(l->data);
    tp_free(l);
}

void
tp_rma_delivery_forget(struct tp_rma_process *process)
{
    tp_list_for_each_safe(link, &process->landings)
    {
        struct tp_rma_delivery *l = tp_list_entry(link, struct tp_rma_delivery, link);

        if (l->landed) {
            landing_free(l);
        }
    }
}

static void
run_landings(struct tp_rma_world *w, uint32_t process)
{
    struct tp_rma_process *p = &w->processes[process];
    struct tp_list *link;

    while ((link = tp_list_first(&p->landings)) != NULL) {
        struct tp_rma_delivery *l = tp_list_entry(link, struct tp_rma_delivery, link);

        if (!l->landed) {
            break;
        }
        tp_rma_command_take(w, process, l, l->data, l->len);
        landing_free(l);
    }
}

/* ---- the core's handlers ---- */

static struct tp_rma_delivery *
landing_add(struct tp_rma_process *p, const telpher_rma_command *c)
{
    struct tp_rma_delivery *l = tp_zalloc(sizeof(*l), "landing");

    if (l != NULL) {
        l->c = *c;
        tp_list_push_back(&p->landings, &l->link);
    }
    return l;
}

/* Where the data of a command with a buffer shall lie; it is the landing's if it belongs
 * nowhere yet. */
static void *
name_place(struct tp_rma_world *w, uint32_t process, struct tp_rma_delivery *l,
           size_t len)
{
    if (l->c.op != TP_RMA_MSG_HELLO && !tp_rma_is_of_launch(w, &l->c)) {
        return NULL;
    }
    if (l->c.op == TELPHER_RMA_COMMAND_PUT || l->c.op == TP_RMA_MSG_GOT) {
        return tp_rma_command_place(w->run->remote, process, &l->c, len);
    }
    if (l->c.op > TP_RMA_MSG_GOT && len <= TP_RMA_BODY_MAX) {
        l->data = tp_malloc(len, "message");
        l->len = len;
    }
    return l->data;
}

/* Whoever comes to a launch, perhaps to the next one, spoils that one alone. */
static void
tell_no_memory(struct tp_rma_world *w, uint32_t process, const telpher_rma_command *c)
{
    if (c->op == TP_RMA_MSG_HELLO) {
        w->processes[process].unread = c->launch;
    } else if (w->run != NULL) {
        tp_rma_run_fail(w->run, TELPHER_ERR_NO_MEMORY,
                        "no memory for what process %u sends", process);
    }
}

/* @return false: this cannot be, and the launch has failed */
static bool
is_good(struct tp_rma_world *w, const telpher_msg *msg)
{
    const size_t head = sizeof(telpher_rma_command);

    if (msg->buffer_count == 0
            ? msg->params_len >= head && msg->params_len - head <= TP_RMA_INLINE_MAX
            : msg->params_len == head && msg->buffer_count == 1) {
        return true;
    }
    if (w->run != NULL) {
        tp_rma_run_fail(w->run, TELPHER_ERR_PROTO,
                        "process %u sent what cannot be: %zu bytes with %u buffers",
                        msg->from, msg->params_len, msg->buffer_count);
    }
    return false;
}

static void
on_post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct tp_rma_world *w = user;
    struct tp_rma_delivery *l;

    (void)ctx;
    msg->cookie = NULL;
    if (!is_good(w, msg)) {
        return;
    }
    l = landing_add(&w->processes[msg->from], msg->params);
    if (l == NULL) {
        tell_no_memory(w, msg->from, msg->params);
        return;
    }
    msg->cookie = l;
    msg->buffers[0].data = name_place(w, msg->from, l, msg->buffers[0].len);
    if (msg->buffers[0].data != NULL ||
        (l->c.op != TP_RMA_MSG_HELLO && !tp_rma_is_of_launch(w, &l->c))) {
        return;
    }
    if (l->c.op > TP_RMA_MSG_GOT && msg->buffers[0].len <= TP_RMA_BODY_MAX) {
        tell_no_memory(w, msg->from, &l->c);
    } else if (w->run != NULL) {
        tp_rma_command_refuse(w->run, msg->from, &l->c);
    }
}

/* Small: takes effect at once, if nothing is before it. */
static void
take_small(struct tp_rma_world *w, const telpher_msg *msg)
{
    struct tp_rma_process *p = &w->processes[msg->from];
    struct tp_rma_delivery now = {.landed = true}, *l;
    const uint8_t *data = (const uint8_t *)msg->params + sizeof(now.c);
    size_t len = msg->params_len - sizeof(now.c);

    memcpy(&now.c, msg->params, sizeof(now.c));
    if (tp_list_is_empty(&p->landings)) {
        tp_rma_command_take(w, msg->from, &now, data, len);
        tp_free(now.data);
        return;
    }
    l = landing_add(p, &now.c);
    if (l != NULL) { /* also of 0 bytes, which are not those of a buffer */
        l->data = tp_memdup(data, len, "landing");
        l->len = len;
        l->landed = true;
        l->status = l->data != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
    }
    if (l == NULL || l->status != TELPHER_OK) {
        tell_no_memory(w, msg->from, &now.c);
    }
}

/* Of a process that is lost we are told elsewhere. */
static void
tell_broken(struct tp_rma_world *w, const telpher_msg *msg)
{
    if (w->run != NULL && msg->status < 0 && msg->status != TELPHER_ERR_PEER_LOST &&
        msg->buffers[0].data != NULL) {
        tp_rma_run_fail(w->run, msg->status, "what process %u sent has not come: %s",
                        msg->from, telpher_status_text(msg->status));
    }
}

static void
on_entry(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct tp_rma_world *w = user;
    struct tp_rma_delivery *l = msg->cookie;

    (void)ctx;
    if (msg->buffer_count == 0) {
        if (is_good(w, msg)) {
            take_small(w, msg);
        }
    } else if (l != NULL) {
        l->landed = true;
        l->status = msg->buffers[0].data != NULL ? msg->status : TELPHER_ERR_AGAIN;
        tell_broken(w, msg);
        run_landings(w, msg->from);
    }
}

void
tp_rma_delivery_listen(struct tp_rma_world *w)
{
    telpher_msg_handler(w->ctx, TP_RMA_REMOTE_HANDLER, on_post, on_entry, w);
}
