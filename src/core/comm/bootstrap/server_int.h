/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the meeting place share: server.c begins and ends it, serve.c is its
 * thread, client.c one of its connections. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_SERVER_INT_H
#define TELPHER_CORE_COMM_BOOTSTRAP_SERVER_INT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/container/buf.h"
#include "core/comm/bootstrap/server.h"
#include "core/transport.h"

enum {
    TP_BOOTSTRAP_UNAUTHENTICATED_MAX =
        64, /* connections that have not said who they are */
    TP_BOOTSTRAP_POLLS = 3, /* descriptors that are looked at beside the guests' */
    TP_BOOTSTRAP_TEXT_BYTES = 200, /* [bytes] */
};

/** A connection: a stranger's, or a rank's. */
struct tp_bootstrap_client {
    struct tp_conn *conn; /* NULL: this place is free */
    struct tp_buf in;
    tp_ns deadline; /* for the hello */
    bool known;
    uint32_t rank;
    struct tp_bootstrap_server_answer head; /* of the answer on its way */
    const void *body; /* borrowed until that has left */
    size_t sent; /* [bytes] of both; all of them: nothing is on its way */
    bool told; /* of a failure, or will be behind the answer on its way */
    bool tell; /* the latter */
};

/** The root; but for begin and end, its thread's alone. */
struct telpher_root {
    uint32_t size;
    uint16_t port;
    uint8_t job[TP_BOOTSTRAP_JOB_BYTES];
    char job_text[TELPHER_JOB_TEXT_BYTES];
    int listen_fd, stop_fd, ended_fd;
    _Atomic bool *ended; /* by rank: so the launcher says; written before ended_fd */
    tp_ns deadline;
    tp_ns pause_until; /* nobody is let in before */
    bool starved; /* there were no descriptors for all that came */
    pthread_t thread;
    struct tp_bootstrap_client *guests; /* size + TP_BOOTSTRAP_UNAUTHENTICATED_MAX */
    size_t guest_count;
    /* Of those that are there: poll() refuses more than there may be descriptors. */
    struct pollfd *polls;
    struct tp_bootstrap_client **polled; /* their guests, at the same places */
    bool *came; /* by rank */
    uint32_t ready; /* ranks whose part is here */
    uint8_t *all; /* the last answer, until the next */
    bool closed; /* all came once: nobody new */
    telpher_status failed; /* OK, or what those are told who still wait */
    char words[TP_BOOTSTRAP_TEXT_BYTES]; /* why */
};

/* ---- serve.c ---- */
/** What the thread does, until the root is stopped. */
void *tp_bootstrap_server_run(void *root);

/* ---- client.c ---- */
/** Takes a connection in. @return false: its descriptor is the caller's still */
bool tp_bootstrap_client_open(struct tp_bootstrap_client *g, int fd, tp_ns deadline);
void tp_bootstrap_client_close(struct tp_bootstrap_client *g);
/** Reads what has been sent. @return false: it is gone, or sends more than anybody may */
bool tp_bootstrap_client_read(struct tp_bootstrap_client *g);
/** [bytes] of the part at the front of a rank's buffer, with its length before it, or 0 if
 *  it is not whole. */
size_t tp_bootstrap_client_part(const struct tp_bootstrap_client *g);
/** Begins an answer; the one before has left. Never blocks: see push. */
void tp_bootstrap_client_answer(struct tp_bootstrap_client *g, telpher_status status,
                                const void *body, size_t len);
/** True while something is on its way to it. */
bool tp_bootstrap_client_is_sending(const struct tp_bootstrap_client *g);
/** Sends what can be sent now. @return false: it is gone */
bool tp_bootstrap_client_push(struct tp_bootstrap_client *g);

#endif
