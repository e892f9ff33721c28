/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts one telpher-relay process per connection that is passed on to another server: names
 * are resolved there, and no content of other servers passes the broker's thread.
 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"

/* Starts the process; its request waits in the socket pair. */
static telpher_status
start_process(struct tp_broker *b, struct tp_broker_conn *c, pid_t *ret_pid)
{
    struct tp_control msg = {.type = TP_CONTROL_ROUTE};
    struct tp_error err = {0};
    telpher_status status;
    int pair[2];

    (void)snprintf(msg.text, sizeof(msg.text), "%s", c->route);
    tp_text_tame(msg.text, false);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        tp_warn("broker", "no descriptor left for a relay: raise LimitNOFILE");
        return TELPHER_ERR_LIMIT;
    }
    status = tp_broker_conn_send(pair[0], &msg, c);
    if (status == TELPHER_OK) {
        status = tp_broker_spawn_relay(b, pair[1], ret_pid, &err);
    }
    if (status != TELPHER_OK) {
        tp_error("broker", "cannot start a relay: %s", tp_error_text(&err));
    }
    (void)close(pair[0]); /* the message stays readable */
    (void)close(pair[1]);
    return status;
}

static void
add_entry(struct tp_broker *b, struct tp_broker_helper *entry)
{
    entry->control.fd = -1;
    entry->relays = true;
    tp_list_init(&entry->link);
    tp_list_push_back(&b->helpers, &entry->link);
    b->relay_count++;
}

telpher_status
tp_broker_relay_restore(struct tp_broker *b, pid_t pid)
{
    struct tp_broker_helper *entry = tp_zalloc(sizeof(*entry), "relay");

    if (entry == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    entry->pid = pid;
    add_entry(b, entry);
    return TELPHER_OK;
}

telpher_status
tp_broker_relay_start(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_helper *entry = tp_zalloc(sizeof(*entry), "relay");
    telpher_status status;

    if (entry == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = start_process(b, c, &entry->pid);
    if (status != TELPHER_OK) {
        tp_free(entry);
        return status;
    }
    add_entry(b, entry);
    tp_info("broker", "process %ld relays a connection to %s", (long)entry->pid,
            c->route);
    return TELPHER_OK;
}
