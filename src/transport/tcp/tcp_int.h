/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of transport tcp. */
#ifndef TELPHER_TRANSPORT_TCP_TCP_INT_H
#define TELPHER_TRANSPORT_TCP_TCP_INT_H

#include <sys/socket.h>
#include <sys/un.h>

#include "transport/tcp/tcp.h"

telpher_status tp_tcp_connect(const char *address, uint64_t deadline_ns,
                              struct tp_conn **ret_conn, struct tp_error *err);
telpher_status tp_tcp_listen(const char *address, int *ret_fd, struct tp_error *err);
telpher_status tp_tcp_adopt(int fd, struct tp_conn **ret_conn);

/** Fills @p ret_sun; the path of @p address is known to fit. */
void tp_tcp_unix_address(const struct tp_tcp_address *address,
                         struct sockaddr_un *ret_sun);
/** Sets no-delay and keepalive; also for a listening descriptor. */
void tp_tcp_set_options(int fd);
/**
 * For a connection within the machine, which needs no congestion control: selects one
 * that does not pace (BBR does, which costs a third of the bandwidth there).
 */
void tp_tcp_unpace(int fd);

struct tcp_info;

bool tp_tcp_get_info(int fd, struct tcp_info *ret_info);
bool tp_tcp_info_is_silent(const struct tcp_info *info, uint64_t lost_after_ns);
/** Sets how the kernel probes an idle peer, and that no time limit ends the connection. */
void tp_tcp_watch(int fd, uint64_t lost_after_ns);
/** True if the peer's machine has answered nothing for that long. */
bool tp_tcp_is_silent(int fd, uint64_t lost_after_ns);
/** True if the kernel sends again, or this machine has lost its address or the route. */
bool tp_tcp_is_doubtful(int fd);
/** Closes without touching errno. */
void tp_tcp_close(int fd);

#endif
