/* SPDX-License-Identifier: Apache-2.0 */
/* The few socket calls the floors need. All return false (or -1) after bench_fail(). */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>

/** Listens on "ADDR:PORT" (port 0: any). Gives the socket and, if wanted, its port. */
int bench_net_listen(const char *address, int *ret_port);
/** Connects to "ADDR:PORT", without delay of small messages. */
int bench_net_connect(const char *address);
/** Turns off the delay of small messages, and pacing where both ends are on one machine. */
bool bench_net_no_delay(int fd);

bool bench_net_send(int fd, const void *data, size_t len);
/** Receives exactly @p len bytes; @p spin: without ever sleeping in the kernel. */
bool bench_net_receive(int fd, void *data, size_t len, bool spin);

#endif
