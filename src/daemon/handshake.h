/* SPDX-License-Identifier: Apache-2.0 */
/* Request of the broker to telpher-handshake and its answer, over a pair of SOCK_SEQPACKET
 * sockets. Both programs come from one build. */
#ifndef TELPHER_DAEMON_HANDSHAKE_H
#define TELPHER_DAEMON_HANDSHAKE_H

#include "daemon/control.h"

/** To the process, with the socket whose preface has been read. */
struct tp_daemon_handshake_ask {
    uint64_t deadline_ns; /**< monotonic */
    bool has_key; /**< accept session_key only */
    uint8_t session_key[TP_CONN_KEY_BYTES];
};

/** Its answer. */
struct tp_daemon_handshake_answer {
    telpher_status status;
    struct tp_tls_state tls; /**< if status is OK */
    char who[TP_TLS_WHO_BYTES]; /**< if status is OK: name of the key or certificate */
    char text[TP_CONTROL_TEXT_BYTES]; /**< else: the reason */
};

#endif
