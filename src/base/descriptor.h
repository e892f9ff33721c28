/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that are a process's alone: connections by whose end others see that it has ended.
 * A child of fork() would hold them open beyond its parent's death, so in children they are
 * /dev/null. Their numbers stay taken there, so that who closes one closes nothing of others.
 */
#ifndef TELPHER_BASE_DESCRIPTOR_H
#define TELPHER_BASE_DESCRIPTOR_H

/** Children of fork() are not to have what @p fd is from now on. Numbers of a million and more
 *  stay theirs, too. Any thread. */
void tp_descriptor_own(int fd);

/** Closes @p fd, which may be owned. Any thread; nobody else uses it. */
void tp_descriptor_close(int fd);

#endif
