/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the kernel: an address, a link or a route of this machine has changed. */
#ifndef TELPHER_BASE_OS_NETCHANGE_H
#define TELPHER_BASE_OS_NETCHANGE_H

#include <stdbool.h>

/** @return a descriptor that is readable after a change; -1: this system has none. The
 *  caller closes it with tp_descriptor_close() */
int tp_netchange_open(void);
/** Discards the events. @return false if there were none */
bool tp_netchange_take(int fd);

#endif
