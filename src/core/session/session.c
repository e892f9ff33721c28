/* SPDX-License-Identifier: Apache-2.0 */
/* Frame numbers and acknowledgements: docs/protocol.md section 4. */
#include "core/session/session.h"

uint64_t
tp_session_next(struct tp_session_numbers *n, uint64_t *ret_ack)
{
    n->ack_sent = n->received;
    *ret_ack = n->received;
    return ++n->sent;
}

enum tp_session_verdict
tp_session_accept(struct tp_session_numbers *n, uint64_t seq, uint64_t ack)
{
    if (seq == 0 || seq - 1 > n->received) { /* 0 is the number of no frame */
        return TP_SESSION_GAP;
    }
    if (ack > n->sent) {
        return TP_SESSION_BAD_ACK;
    }
    if (ack > n->acked) {
        n->acked = ack;
    }
    if (seq <= n->received) {
        return TP_SESSION_DUPLICATE;
    }
    n->received = seq;
    return TP_SESSION_ACCEPT;
}

uint64_t
tp_session_unacked(const struct tp_session_numbers *n)
{
    return n->received - n->ack_sent;
}
