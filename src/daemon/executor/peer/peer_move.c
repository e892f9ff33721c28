/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUSH and PULL: a READ whose content goes to another server, and the WRITE there. They run
 * as other transfers do; only the stream differs.
 */
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/peer/peer.h"

/* Both messages have the same members. */
#define CONTENT(x, m)                                                                  \
    {                                                                                  \
        .size = (m)->size, .transfer = (m)->transfer,                                  \
        .is_image = (m)->region.count != 0, .has_peer = true,                          \
        .peer = tp_exec_peer_stream(x, (m)->peer, NULL), .mem = (m)->mem,              \
        .offset = (m)->offset, .region = (m)->region                                   \
    }

/* The client chooses the id, which names the transfer on both servers. */
static bool
is_clients(uint64_t transfer)
{
    return transfer != 0 && (transfer >> 55 & 1) == 0;
}

telpher_status
tp_exec_on_push(struct tp_exec *x, const struct tp_wire_push *m)
{
    const struct tp_exec_content content = CONTENT(x, m);

    return is_clients(m->transfer)
               ? tp_exec_transfer(x, "reading content for another server",
                                  &TP_EXEC_HEAD(m), true, &content)
               : TELPHER_ERR_PROTO;
}

telpher_status
tp_exec_on_pull(struct tp_exec *x, const struct tp_wire_pull *m)
{
    const struct tp_exec_content content = CONTENT(x, m);

    return is_clients(m->transfer)
               ? tp_exec_transfer(x, "taking content of another server",
                                  &TP_EXEC_HEAD(m), false, &content)
               : TELPHER_ERR_PROTO;
}
