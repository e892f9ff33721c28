/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that are a process's alone, by whose end others see that it has ended. A child of fork()
 * would hold them open beyond its parent's death, so in children they are /dev/null: their numbers
 * stay taken, so that closing one closes no descriptor of others. Without a /dev/null, or above
 * RLIMIT_NOFILE, they are closed.
 *
 * A child of another thread that begins at the moment when a socket is made or closed may have it
 * all the same; so has one of vfork(), which is to call exec.
 */
#ifndef TELPHER_BASE_OS_DESCRIPTOR_H
#define TELPHER_BASE_OS_DESCRIPTOR_H

/** Children of fork() are not to have the socket @p fd from now on. Numbers of a million and more
 *  stay theirs, too. Any thread. */
void tp_descriptor_own(int fd);

/** Closes @p fd, which may be owned; does nothing if it is below 0. Any thread; no other uses it. */
void tp_descriptor_close(int fd);

#endif
