/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the broker starts: executor, probe, handshake, relay. */
#ifndef TELPHER_DAEMON_BROKER_PROCESS_PROCESSES_H
#define TELPHER_DAEMON_BROKER_PROCESS_PROCESSES_H

#include "daemon/broker/broker.h"

struct tp_broker_conn;
struct tp_broker_session;

/** A helper: a process for one connection, which does its TLS handshake or relays it. */
struct tp_broker_helper {
    struct tp_list link; /**< broker->helpers, until the process has ended */
    struct tp_broker_watch control; /**< our end of the pair; -1 for a relay */
    pid_t pid;
    bool relays;
    struct tp_broker_conn *conn; /**< NULL: closed, has its result, or is relayed */
};

/** Starts telpher-relay, which takes over @p c. @return OK: the caller closes its copy */
telpher_status tp_broker_relay_start(struct tp_broker *b, struct tp_broker_conn *c);

/** Adds a relay process that was passed on. @return OK, NO_MEMORY */
telpher_status tp_broker_relay_restore(struct tp_broker *b, pid_t pid);

/**
 * Starts a process for the handshake of @p c, whose preface has been received.
 * @param session_key key of the session that a bulk stream joins, else NULL
 */
telpher_status tp_broker_handshake_start(struct tp_broker *b, struct tp_broker_conn *c,
                                         const uint8_t *session_key);
/** Detaches a connection that closes from its handshake process. */
void tp_broker_handshake_cancel(struct tp_broker *b, struct tp_broker_conn *c);
/** Reaps helpers that have ended. */
void tp_broker_helpers_reap(struct tp_broker *b);
/** Kills all handshake processes, and relays if @p relays. */
void tp_broker_helpers_end(struct tp_broker *b, bool relays);
/** Starts the handshake program; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_handshake(struct tp_broker *b, int fd, pid_t *ret_pid,
                                         struct tp_error *err);
/** Starts the relay program; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_relay(struct tp_broker *b, int fd, pid_t *ret_pid,
                                     struct tp_error *err);

/**
 * Starts the executor program.
 * @param s  NULL: with --probe, and @p fd becomes its standard output; else @p fd becomes
 *           TP_CONTROL_FD
 * @return OK; IO, with the reason in @p err
 */
telpher_status tp_broker_spawn(struct tp_broker *b, const struct tp_broker_session *s,
                               int fd, pid_t *ret_pid, struct tp_error *err);
/** Starts this program, with @p argv, which it frees; @p fd becomes TP_CONTROL_FD. */
telpher_status tp_broker_spawn_self(struct tp_broker *b, const char **argv, int fd,
                                    pid_t *ret_pid, struct tp_error *err);
/** Finds the paths of this program, the executor and the handshake program. */
void tp_broker_find_programs(struct tp_broker *b);
/** "killed by signal 11 (Segmentation fault)" or "ended with status 1"; "" for 0. */
void tp_broker_describe_end(int wait_status, char *dst, size_t size);

/** Starts a probe; replaces the facts once its output is complete. */
void tp_broker_probe_start(struct tp_broker *b);
/** Handles the end of the probe process; @p wait_status as of waitpid. */
void tp_broker_probe_ended(struct tp_broker *b, int wait_status);
/** Kills a probe that exceeds its time limit. @return the time of the next check */
tp_ns tp_broker_probe_tick(struct tp_broker *b, tp_ns now);
void tp_broker_probe_stop(struct tp_broker *b);

#endif
