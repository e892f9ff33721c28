/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the bootstrap server: server.c starts and stops it, serve.c
 * is its thread, client.c a connection. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_SERVER_INT_H
#define TELPHER_CORE_COMM_BOOTSTRAP_SERVER_INT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/container/buf.h"
#include "core/comm/bootstrap/server.h"
#include "waist/transport.h"

enum {
    TP_BOOTSTRAP_UNAUTHENTICATED_MAX = 64, /* unauthenticated connections, at most */
    TP_BOOTSTRAP_POLLS = 3, /* descriptors polled besides the clients' */
    TP_BOOTSTRAP_TEXT_BYTES = 200, /* [bytes] */
};

/** A connection: unauthenticated, or of a rank. */
struct tp_bootstrap_client {
    struct tp_conn *conn; /* NULL: the slot is free */
    struct tp_buf in;
    tp_ns deadline; /* for the hello */
    bool known;
    uint32_t rank;
    struct tp_bootstrap_server_answer head; /* of the answer being sent */
    const void *body; /* borrowed until it was sent */
    size_t sent; /* [bytes] of both; all of them: no answer is being sent */
    bool error_queued; /* the error was sent, or will be after the current answer */
    bool tell; /* the error follows the current answer */
};

/** The server. Only its thread uses it, except to start and stop. */
struct telpher_root {
    uint32_t size;
    uint16_t port;
    uint8_t job[TP_BOOTSTRAP_JOB_BYTES];
    char job_text[TELPHER_JOB_TEXT_BYTES];
    int listen_fd, stop_fd, ended_fd;
    /* by rank: the launcher reports its exit; written before ended_fd */
    _Atomic bool *ended;
    tp_ns deadline;
    tp_ns pause_until; /* no connection is accepted before */
    bool starved; /* accept() ran out of descriptors */
    pthread_t thread;
    struct tp_bootstrap_client *clients; /* size + TP_BOOTSTRAP_UNAUTHENTICATED_MAX */
    size_t client_count;
    /* Of the open connections: poll() refuses more entries than the limit of
     * descriptors. */
    struct pollfd *polls;
    struct tp_bootstrap_client **polled; /* their clients, at the same indices */
    bool *came; /* by rank */
    uint32_t ready; /* ranks whose data has arrived */
    uint8_t *all; /* the last answer, until the next */
    bool closed; /* all ranks have connected: no new connections */
    telpher_status failed; /* OK, or the status sent to clients that still wait */
    char words[TP_BOOTSTRAP_TEXT_BYTES]; /* error text */
};

/* ---- serve.c ---- */
/** The thread's function; runs until the server is stopped. */
void *tp_bootstrap_server_run(void *root);

/* ---- client.c ---- */
/** Opens a slot for a connection. @return false: the descriptor stays the caller's */
bool tp_bootstrap_client_open(struct tp_bootstrap_client *g, int fd, tp_ns deadline);
void tp_bootstrap_client_close(struct tp_bootstrap_client *g);
/** Reads input. @return false: disconnected, or sent more than the protocol allows */
bool tp_bootstrap_client_read(struct tp_bootstrap_client *g);
/** [bytes] of the data at the front of a rank's buffer, with its length before it, or
 *  0 if it is incomplete. */
size_t tp_bootstrap_client_part(const struct tp_bootstrap_client *g);
/** Begins an answer; the previous one was sent. Never blocks: see push. */
void tp_bootstrap_client_answer(struct tp_bootstrap_client *g, telpher_status status,
                                const void *body, size_t len);
/** True while an answer is being sent. */
bool tp_bootstrap_client_is_sending(const struct tp_bootstrap_client *g);
/** Sends what can be sent now. @return false: disconnected */
bool tp_bootstrap_client_push(struct tp_bootstrap_client *g);

#endif
