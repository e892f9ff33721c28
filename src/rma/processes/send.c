/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends commands of ranks and control messages to other processes: one ordered message of
 * libtelpher each. Small data travels after its command; large data is sent from where it
 * lies. Commands use the credits of their handler, so that what both sides keep is bounded;
 * a command without a credit waits with the rank that posts it. Control messages answer
 * commands or end a launch: they must not wait, and have no credits.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/trace/log.h"
#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

/* ---- messages ---- */

/* A message that is not sent fails the launch; tp_rma_remote_look_for_lost() sees lost peers. */
static void
check_sent(struct tp_rma_world *w, uint32_t process, telpher_status status)
{
    if (status >= 0 || status == TELPHER_ERR_PEER_LOST) {
        return;
    }
    if (w->run != NULL) {
        tp_rma_run_fail(w->run, status, "nothing can be sent to process %u: %s",
                        process, telpher_status_text(status));
    } else {
        tp_error("rma", "nothing can be sent to process %u: %s", process,
                 telpher_status_text(status));
    }
}

/* The command as it is sent. */
static telpher_rma_command
stamp(struct tp_rma_world *w, const telpher_rma_command *c)
{
    telpher_rma_command stamped = *c;

    stamped.launch = w->serial;
    stamped.turn = 0;
    if (w->run != NULL && tp_rma_deadlock_counts(c->op)) {
        w->run->remote->went++;
    }
    return stamped;
}

static telpher_status
send_inline(struct tp_rma_world *w, uint32_t process, const telpher_rma_command *c,
            const void *data, size_t len)
{
    _Alignas(16) uint8_t params[sizeof(*c) + TP_RMA_INLINE_MAX];
    const telpher_rma_command stamped = stamp(w, c);

    memcpy(params, &stamped, sizeof(stamped));
    if (len != 0) {
        memcpy(params + sizeof(*c), data, len);
    }
    return telpher_msg_send(w->ctx, process, tp_rma_handler_of(c->op), params,
                            sizeof(*c) + len, NULL, 0, NULL, NULL);
}

static void
free_body(void *user, telpher_status status, size_t len)
{
    tp_free(user);
}

/* A body that does not fit inline is copied: it lives until the send completes. */
static telpher_status
send_body(struct tp_rma_world *w, uint32_t process, const telpher_rma_command *c,
          const void *body, size_t len)
{
    void *copy = tp_memdup(body, len, "message");
    const telpher_msg_buffer buffer = {copy, len};
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_rma_command stamped;
    telpher_status status;

    if (copy == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    stamped = stamp(w, c);
    xfer.on_done = free_body;
    xfer.user = copy;
    status = telpher_msg_send(w->ctx, process, tp_rma_handler_of(c->op), &stamped,
                              sizeof(stamped), &buffer, 1, &xfer, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        tp_free(copy);
    }
    return status;
}

void
tp_rma_control_send(struct tp_rma_world *w, uint32_t process,
                    const telpher_rma_command *c, const void *body, size_t len)
{
    if (!w->processes[process].lost) {
        check_sent(w, process,
                   len <= w->processes[process].inline_max
                       ? send_inline(w, process, c, body, len)
                       : send_body(w, process, c, body, len));
    }
}

void
tp_rma_control_broadcast(struct tp_rma_world *w, const telpher_rma_command *c,
                         const void *body, size_t len)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process) {
            tp_rma_control_send(w, i, c, body, len);
        }
    }
}

/* ---- data of ranks ---- */

static void
memory_is_free(void *user, telpher_status status, size_t len)
{
    struct tp_rma_process *p = user; /* not the launch's: that may be over */

    p->under_way--;
}

/* Sends from where the data lies; the launch does not end before the send completes.
 * @p near  the processor may read it */
static void
send_data(struct tp_rma_world *w, uint32_t process, const telpher_rma_command *c,
          const void *data, size_t len, bool near)
{
    const telpher_msg_buffer buffer = {(void *)(uintptr_t)data, len};
    struct tp_rma_process *p = &w->processes[process];
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_rma_command stamped;
    telpher_status status;

    if (p->lost) {
        return;
    }
    if (len <= p->inline_max && (near || len == 0)) {
        check_sent(w, process, send_inline(w, process, c, data, len));
        return;
    }
    stamped = stamp(w, c);
    xfer.on_done = memory_is_free;
    xfer.user = p;
    p->under_way++;
    status = telpher_msg_send(w->ctx, process, tp_rma_handler_of(c->op), &stamped,
                              sizeof(stamped), &buffer, 1, &xfer, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        p->under_way--;
        check_sent(w, process, status);
    }
}

/* True if the memory that a command of this process names is the host's, not a GPU's. */
static bool
is_near(const struct tp_rma_remote *r, const telpher_rma_command *c)
{
    return r->run->link == NULL ||
           (c->flags & (TP_RMA_COMMAND_NEAR | TELPHER_RMA_COMMAND_SOURCE |
                        TELPHER_RMA_COMMAND_RESULT)) != 0;
}

void
tp_rma_answer_get(struct tp_rma_remote *r, uint32_t process,
                  const telpher_rma_command *c, const void *src)
{
    const telpher_rma_command got = {.op = TP_RMA_CONTROL_GOT,
                                     .from = c->to,
                                     .to = c->from,
                                     .len = c->len,
                                     .number = c->number};

    send_data(r->world, process, &got, src, (size_t)c->len, is_near(r, c));
}

/* ---- gets ---- */

static struct tp_rma_get *
take_get(struct tp_rma_remote *r)
{
    uint32_t count = r->get_count * 2 + 16;
    struct tp_rma_get *gets;

    for (uint32_t i = 0; i < r->get_count; i++) {
        if (r->gets[i].rank == NULL) {
            return &r->gets[i];
        }
    }
    gets = tp_realloc_array(r->gets, count, sizeof(*gets), "gets");
    if (gets == NULL) {
        return NULL;
    }
    memset(gets + r->get_count, 0, (count - r->get_count) * sizeof(*gets));
    r->gets = gets;
    gets += r->get_count;
    r->get_count = count;
    return gets;
}

/* @return false without memory: the launch has failed */
static bool
begin_get(struct tp_rma_remote *r, uint32_t process, telpher_rma_command *c)
{
    struct tp_rma_get *get = take_get(r);

    if (get == NULL) {
        tp_rma_run_fail(r->run, TELPHER_ERR_NO_MEMORY, "no memory for a get of rank %u",
                        c->from);
        return false;
    }
    get->rank = &r->run->ranks[c->from];
    get->process = process;
    get->dst = (void *)(uintptr_t)c->local;
    get->len = c->len;
    get->far = !is_near(r, c);
    get->serial++;
    c->number = (uint64_t)get->serial << 32 | (uint32_t)(get - r->gets);
    return true;
}

/* ---- commands ---- */

static void
send_command(struct tp_rma_remote *r, uint32_t process,
             const telpher_rma_command *command)
{
    telpher_rma_command c = *command;

    if (c.op == TELPHER_RMA_COMMAND_PUT) {
        const void *src = (const void *)(uintptr_t)c.local;

        c.local = 0;
        c.flags &= (uint16_t)~TP_RMA_COMMAND_NEAR;
        send_data(r->world, process, &c, src, (size_t)c.len, is_near(r, command));
    } else if (c.op != TELPHER_RMA_COMMAND_GET || begin_get(r, process, &c)) {
        c.flags &= (uint16_t)~TP_RMA_COMMAND_NEAR;
        check_sent(r->world, process, send_inline(r->world, process, &c, NULL, 0));
    }
}

static bool
has_credit(const struct tp_rma_remote *r, uint32_t process)
{
    return telpher_msg_credits(r->world->ctx, process, TP_RMA_COMMAND_HANDLER) != 0;
}

static bool
tell_return(struct tp_rma_remote *r, const telpher_rma_command *c)
{
    struct tp_rma_world *w = r->world;

    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process && !has_credit(r, i)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < w->count; i++) {
        if (i != w->process && !w->processes[i].lost) {
            send_command(r, i, c);
        }
    }
    return true;
}

bool
tp_rma_remote_execute(struct tp_rma_remote *r, const telpher_rma_command *c)
{
    uint32_t process;

    tp_assert_locked(&r->role);
    tp_rma_remote_tell_failure(r); /* before what the failure causes */
    if (atomic_load(&r->run->status) != TELPHER_OK) {
        /* dropped: the effect does not matter, the peer may be lost, and a RETURNED would
         * look like the reason of the failure */
        return true;
    }
    if (c->op == TELPHER_RMA_COMMAND_MEET) {
        tp_rma_spread_post(r, c);
        return true;
    }
    if (c->op == TELPHER_RMA_COMMAND_RETURNED) {
        return tell_return(r, c);
    }
    process = tp_rma_process_of(r->run, c->to);
    if (!has_credit(r, process)) {
        return false;
    }
    if (!r->world->processes[process].lost) {
        send_command(r, process, c);
    }
    return true;
}
