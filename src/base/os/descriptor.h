/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that fork() children must not inherit, so that peers see EOF when the parent dies. In a
 * child they become /dev/null: their numbers stay in use, so a close() in the child closes no
 * descriptor opened since. Without a /dev/null, or above RLIMIT_NOFILE, the child closes them.
 *
 * Two children still inherit a socket: one that another thread forks while the socket is being
 * created or closed, and one of vfork(), which is expected to call exec.
 */
#ifndef TELPHER_BASE_OS_DESCRIPTOR_H
#define TELPHER_BASE_OS_DESCRIPTOR_H

/** Keeps fork() children from inheriting the socket @p fd from now on. Ignored for numbers of a
 *  million and more. Any thread. */
void tp_descriptor_own(int fd);

/** Closes @p fd, owned or not; does nothing if it is below 0. Any thread, as long as no other one
 *  uses @p fd. */
void tp_descriptor_close(int fd);

#endif
