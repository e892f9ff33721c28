/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport waist: what core asks of a network. A transport fills one table;
 * connections call through it. Capability bits say what a transport can carry;
 * sessions of remote OpenCL need TP_TRANSPORT_STREAM only.
 *
 * Threads: one thread may send while another receives; calls of one direction are
 * serialized by the caller. shutdown() is legal from any thread and wakes both.
 */
#ifndef TELPHER_WAIST_TRANSPORT_H
#define TELPHER_WAIST_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <telpher/status.h>

#include "base/error.h"

enum {
    TP_TRANSPORT_STREAM = 1 << 0, /**< ordered, reliable bytes */
};

/** Events that tp_conn_ops.wait waits for. */
enum {
    TP_WAIT_READ = 1 << 0,
    TP_WAIT_WRITE = 1 << 1,
};

enum { TP_CONN_KEY_BYTES = 32 };

struct tp_conn;

/** Table of one connection's functions. */
struct tp_conn_ops {
    /**
     * Sends what can be taken now. Never blocks, never raises SIGPIPE. The next call
     * begins with the first byte that was not taken: it may be sealed already.
     * @param ret_sent gives [bytes] taken, > 0, when OK is returned.
     * @return OK, TELPHER_ERR_AGAIN (nothing taken), TELPHER_ERR_PEER_LOST.
     */
    telpher_status (*send)(struct tp_conn *c, const struct iovec *iov, int count,
                           size_t *ret_sent);
    /**
     * Receives what is there. Never blocks.
     * @return OK with *ret_got > 0, TELPHER_ERR_AGAIN, TELPHER_ERR_PEER_LOST (also at the
     *         end of the stream), PROTO (the peer broke the protocol).
     *         Fewer bytes than @p cap mean that nothing more is there now.
     */
    telpher_status (*recv)(struct tp_conn *c, void *buf, size_t cap, size_t *ret_got);
    /**
     * Sleeps until one of @p events (TP_WAIT_…) is possible or the peer is gone.
     * @param deadline_ns monotonic time (base/clock.h); TP_CLOCK_FOREVER waits forever.
     * @return OK, TELPHER_ERR_TIMEOUT.
     */
    telpher_status (*wait)(struct tp_conn *c, unsigned events, uint64_t deadline_ns);
    /** @return a descriptor for poll(2), borrowed; -1 if there is none. */
    int (*fd)(struct tp_conn *c);
    /**
     * As send, with a descriptor that arrives with the first byte; borrowed. NULL: this
     * connection cannot pass descriptors, nor does it have the next two functions.
     */
    telpher_status (*send_fd)(struct tp_conn *c, const struct iovec *iov, int count,
                              int fd, size_t *ret_sent);
    /** From now on descriptors that come are kept, the last one of those not taken. */
    void (*accept_fds)(struct tp_conn *c);
    /** Gives the descriptor that arrived, close-on-exec, or -1. The receiving thread's. */
    int (*take_fd)(struct tp_conn *c);
    /** Ends both directions; pending and later calls return TELPHER_ERR_PEER_LOST. */
    void (*shutdown)(struct tp_conn *c);
    /** Gives back what the system holds for it. No other call is under way; later ones
     *  return TELPHER_ERR_PEER_LOST, only destroy() is left to do. */
    void (*close)(struct tp_conn *c);
    void (*destroy)(struct tp_conn *c);
    /**
     * Takes over the descriptor of @p other, which is of the same kind, in place of its
     * own, and destroys @p other. Other threads may be in wait(), and in no other call.
     * NULL: this connection cannot be replaced.
     */
    void (*replace)(struct tp_conn *c, struct tp_conn *other);
    /**
     * Prepares is_silent() and is_doubtful(). @return false: the peer cannot vanish without
     * a word. NULL, as the next two: the same. TLS wraps connections that have all three.
     */
    bool (*watch)(struct tp_conn *c, uint64_t lost_after_ns);
    /** True if the peer's machine has not answered for that long. A peer that does not read
     *  is not silent: its system answers. Any thread. */
    bool (*is_silent)(struct tp_conn *c, uint64_t lost_after_ns);
    /** True if the way to the peer is doubtful after a change of this machine's network:
     *  the next connection may be alive sooner. Any thread. */
    bool (*is_doubtful)(struct tp_conn *c);
    /**
     * Writes the key that authenticates further connections of the same session. NULL, or
     * @return false: this connection is not secured and has none.
     */
    bool (*session_key)(struct tp_conn *c, uint8_t ret_key[TP_CONN_KEY_BYTES]);
    /** May be NULL. @return the peer's reason for ending the connection, with a
     *  remedy; NULL if it sent none. Valid as long as the connection. */
    const char *(*why)(struct tp_conn *c);
};

/** First member of every connection. */
struct tp_conn {
    const struct tp_conn_ops *ops;
};

/** Table of one transport. */
struct tp_transport {
    const char *name; /**< "tcp" */
    unsigned caps; /**< TP_TRANSPORT_… */
    /**
     * Connects. @p address: "host", "host:port", "[v6]:port", "unix:/path" or "/path".
     * @return OK; INVALID (address malformed), UNREACHABLE, REFUSED, TIMEOUT; @p err
     *         (may be NULL) says what was tried and the system's text.
     */
    telpher_status (*connect)(const char *address, uint64_t deadline_ns,
                              struct tp_conn **ret_conn, struct tp_error *err);
    /** Opens a listening, non-blocking, close-on-exec descriptor; gives it. */
    telpher_status (*listen)(const char *address, int *ret_fd, struct tp_error *err);
    /** Makes a connection of a connected descriptor; takes @p fd if it succeeds. */
    telpher_status (*adopt)(int fd, struct tp_conn **ret_conn);
};

/** Destroys a connection; NULL is fine. */
static inline void
tp_conn_destroy(struct tp_conn *c)
{
    if (c != NULL) {
        c->ops->destroy(c);
    }
}

/** Sends or receives exactly @p len bytes. OK, TIMEOUT, or what the connection says. */
telpher_status tp_conn_send_all(struct tp_conn *conn, const void *data, size_t len,
                                uint64_t deadline_ns);
telpher_status tp_conn_recv_all(struct tp_conn *conn, void *data, size_t len,
                                uint64_t deadline_ns);

/** Files with our identity and the authorities that we trust; NULL or "" = none. */
struct tp_secure_files {
    const char *ca; /**< certificates (PEM) of authorities that may sign the peer's */
    const char *cert; /**< our certificate and its chain (PEM) */
    const char *key; /**< the private key of cert (PEM) */
    const char *psk; /**< shared keys, made by `telpher keygen` */
};

/** Parameters of the connecting side of a secured connection. */
struct tp_secure_request {
    const struct tp_secure_files *files;
    const char *host; /**< the name or number that the server's certificate must have */
    const uint8_t *session_key; /**< of the session that this stream joins, else NULL */
};

/** How connections are secured. */
struct tp_secure {
    /**
     * Authenticates both sides on a connection whose preface has been sent, and encrypts
     * it from there on.
     * @param plain    takes it, if it succeeds.
     * @param ret_head when the server answers in clear: the first 5 bytes it sent.
     * @return OK; UNSUPPORTED (it answers in clear, or we cannot do it here: then
     *         ret_head[0] is 0), AUTH, PERMISSION, INVALID (files), TIMEOUT, PEER_LOST,
     *         PROTO, NO_MEMORY; @p err says what is wrong and how to mend it.
     */
    telpher_status (*connect)(struct tp_conn *plain,
                              const struct tp_secure_request *request,
                              uint64_t deadline_ns, uint8_t ret_head[5],
                              struct tp_conn **ret_conn, struct tp_error *err);
    /**
     * Adds checksums to a connection whose prefaces have been exchanged. NULL: this build
     * cannot. @param plain takes it, if it succeeds. @return OK, NO_MEMORY
     */
    telpher_status (*add_checksums)(struct tp_conn *plain, struct tp_conn **ret_conn);
    /** HMAC-SHA256 of @p data. @return OK; UNSUPPORTED (the library is not installed) */
    telpher_status (*mac)(const uint8_t key[TP_CONN_KEY_BYTES], const void *data,
                          size_t len, uint8_t ret_mac[TP_CONN_KEY_BYTES],
                          struct tp_error *err);
};

/** NULL if this artefact was built without TLS: defined in src/builtin.c. */
extern const struct tp_secure *const tp_builtin_secure;

/** The transports of this artefact, ended by NULL: defined in src/builtin.c. */
extern const struct tp_transport *const tp_builtin_transports[];

#endif
