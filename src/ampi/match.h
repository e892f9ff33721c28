/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks: their envelope, requests, and the queues that match both. */
#ifndef TELPHER_AMPI_MATCH_H
#define TELPHER_AMPI_MATCH_H

#include <telpher/channel.h>
#include <telpher/msg.h>

#include "ampi/ampi_int.h"

enum {
    TP_AMPI_INLINE = 192, /**< [bytes] kept without an allocation of their own */
    TP_AMPI_LOCAL_EAGER = 4096, /**< [bytes] copied if the receive is not posted */
    TP_AMPI_REQUEST_DONE =
        MPI_REQUEST_NULL + 1, /**< handle of a send that is complete */
};

enum tp_ampi_message_kind {
    TP_AMPI_EAGER = 1, /**< data follows the envelope */
    TP_AMPI_SMALL, /**< the same, with struct tp_ampi_small */
    TP_AMPI_LONG, /**< data follows on channel `id` */
    TP_AMPI_MATCHED, /**< answer: synchronous send `id` was received */
    TP_AMPI_RELEASED, /**< answer: `len` channels, whose numbers follow, are empty */
    TP_AMPI_ONE_SIDED, /**< window.h; `flags` tell which */
    TP_AMPI_ABORT, /**< `tag` is the exit status */
    TP_AMPI_IDLE, /**< all ranks wait; numbers of messages follow; `id`: when asked */
    TP_AMPI_ASK, /**< for IDLE, if that is still so */
    TP_AMPI_STUCK, /**< deadlock: for TABLE */
    TP_AMPI_TABLE, /**< text of a process: what its ranks wait for */
    TP_AMPI_MEET, /**< move/: a process has reached meeting `id` */
    TP_AMPI_REFUSE, /**< the same: it does not agree */
    TP_AMPI_REPORT, /**< struct tp_ampi_report */
    TP_AMPI_MOVE, /**< struct tp_ampi_image of rank `to`; its memory follows on channel `id` */
    TP_AMPI_FOUND, /**< struct tp_mdr_found of the sender's folder of checkpoints */
    TP_AMPI_COPY, /**< a part of a checkpoint, rank `to`, follows on channel `id` */
    TP_AMPI_LOCAL, /**< never sent: the sender is in this process and waits */
};
enum { TP_AMPI_SYNC = 1 /**< flag: the sender waits for MATCHED */ };

/** First bytes of every message. Processes of a job have the same architecture. */
struct tp_ampi_envelope {
    uint8_t kind, flags;
    uint16_t reserved;
    uint32_t to; /**< number of the rank in its process */
    uint32_t context;
    int32_t source, tag; /**< rank in the communicator */
    uint32_t id;
    uint64_t len; /**< [bytes] of data */
};
_Static_assert(sizeof(struct tp_ampi_envelope) == 32, "data is aligned to 16");

/** The envelope of an eager message of up to 255 bytes: with eight bytes of data and the core's
 *  header it fits into a cache line. */
struct tp_ampi_small {
    uint8_t kind, len;
    uint16_t to;
    uint32_t context;
    int32_t source, tag;
};
_Static_assert(sizeof(struct tp_ampi_small) == 16, "data is aligned to 16");

/* A context: its lane, then the rank of the world that chose the context, then its number. So ranks
 * choose contexts of their own without an agreement of all. */
enum { TP_AMPI_LANE_BITS = 2 };

/** Queues of the contexts that a rank of the world chose, by number and lane. */
struct tp_ampi_mails {
    struct tp_ampi_mail **at;
    uint32_t count;
};

/** Receives that wait for messages, and messages that wait for receives, of one context. */
struct tp_ampi_mail {
    struct tp_list posted, unexpected;
    struct tp_list probes; /**< callers that wait for an unexpected message */
    struct tp_ampi_win *window; /**< whose context it is, or NULL */
    struct tp_ampi_rank *owner;
};

/** A light thread, or the process's own, that waits for `needed` requests, or for a signal. */
struct tp_ampi_waiter {
    struct tp_list link; /**< of those that wait for the signal */
    struct tp_light *light;
    int needed;
};

enum tp_ampi_request_kind {
    TP_AMPI_SEND_REQUEST = 1,
    TP_AMPI_RECV_REQUEST,
    TP_AMPI_LIGHT_REQUEST, /**< a non-blocking collective */
    TP_AMPI_GENERAL_REQUEST, /**< the program completes it */
    TP_AMPI_PARTED_SEND, /**< partitioned.c */
    TP_AMPI_PARTED_RECV,
};
enum tp_ampi_send_mode {
    TP_AMPI_STANDARD = 0,
    TP_AMPI_SYNCHRONOUS,
    TP_AMPI_BUFFERED,
    TP_AMPI_READY,
};

struct tp_ampi_request {
    struct tp_list
        link; /**< mail->posted, sending, free requests, starved collectives */
    uint8_t kind, mode;
    bool persistent, active, complete, canceled;
    uint8_t lane; /**< enum tp_ampi_lane */
    bool holds; /**< references to communicator and type */
    bool freed; /**< by the program; completion gives it back */
    int handle; /**< 0: none */
    int error; /**< class */
    unsigned parts; /**< events before a send, or a request of several, is complete */
    struct tp_ampi_request *whole; /**< whose part this is, or NULL */
    void (*done)(struct tp_ampi_request *part,
                 int error); /**< of a part: it is complete */
    struct tp_ampi_comm *comm; /**< NULL: a null process */
    struct tp_ampi_rank *owner;
    struct tp_ampi_waiter *waiter;
    void *buf;
    size_t count;
    MPI_Datatype type;
    int peer, tag; /**< as the program gave them */
    void *data; /**< contiguous: the program's, or `packed` */
    size_t cap; /**< [bytes] of data */
    void *packed; /**< for data that is not contiguous, or buffered */
    int source, got_tag; /**< of the message that was received */
    size_t got;
    int (*fn)(void *arg); /**< of a LIGHT_REQUEST */
    void (*destroy)(void *arg);
    void *arg;
};

/** A message that no receive was posted for. */
struct tp_ampi_unexpected {
    struct tp_list link;
    struct tp_ampi_envelope env;
    uint32_t process; /**< of the sender */
    struct tp_ampi_comm *comm; /**< of a matched probe */
    struct tp_ampi_request *sender; /**< LOCAL */
    void *data; /**< EAGER: allocated, or `small` */
    _Alignas(16) uint8_t small[TP_AMPI_INLINE];
};

/** A communicator's end at another rank. */
struct tp_ampi_place {
    uint32_t process, local;
};

/** How messages reach a rank of a communicator that has ranks of several jobs. */
struct tp_ampi_route {
    struct tp_ampi_place place;
    uint32_t context; /**< that the rank has for the communicator */
    struct tp_ampi_bridge *bridge; /**< NULL: a rank of this job */
};

/* ---- match.c ---- */

/** The queues of a context, made if the rank has not used it. NULL: no memory */
struct tp_ampi_mail *tp_ampi_mail_of(struct tp_ampi_rank *rank, uint32_t context);
void tp_ampi_mails_fini(struct tp_ampi_rank *rank);
/** Takes the posted receive that matches. @return NULL: there is none */
struct tp_ampi_request *tp_ampi_match_posted(struct tp_ampi_mail *mail,
                                             const struct tp_ampi_envelope *env);
/** The unexpected message that matches; it stays. NULL: there is none */
struct tp_ampi_unexpected *tp_ampi_match_unexpected(struct tp_ampi_mail *mail, int from,
                                                    int tag);
/** Keeps a message. @param data  [env->len] of an EAGER one @return NULL: no memory */
struct tp_ampi_unexpected *tp_ampi_keep(struct tp_ampi_mail *mail,
                                        const struct tp_ampi_envelope *env,
                                        uint32_t process, const void *data);
void tp_ampi_unexpected_destroy(struct tp_ampi_unexpected *u);

/* ---- receive.c ---- */

/** Sets `data` and `cap` from buffer and type; packs if @p pack. @return an error class */
int tp_ampi_request_layout(struct tp_ampi_request *req, bool pack);
/** Gives a receive the data of a message. Ends the receive, now or later. */
void tp_ampi_take_eager(struct tp_ampi_request *req, const struct tp_ampi_envelope *env,
                        const void *data);
void tp_ampi_take_unexpected(struct tp_ampi_request *req, struct tp_ampi_unexpected *u);
/** Copies from a sender of this process and completes both. */
void tp_ampi_take_local(struct tp_ampi_request *req, struct tp_ampi_request *sender,
                        int source);
/** Starts a receive that is set up. */
void tp_ampi_post(struct tp_ampi_request *req);
/** Handler of messages, for telpher_msg. @param user  number of the process that is the
 *  context's rank 0 */
void tp_ampi_on_message(telpher_context *ctx, telpher_msg *msg, void *user);

/* ---- send.c ---- */

/** Sends at once if it needs no request. @return false: start it with a request */
bool tp_ampi_send_now(struct tp_ampi_comm *comm, unsigned lane, const void *buf,
                      size_t count, MPI_Datatype type, int to, int tag, int *ret_error);
/** Starts a send that is set up. @return an error class; the request is then complete */
int tp_ampi_start_send(struct tp_ampi_request *req);
/** The sender's answers. */
void tp_ampi_on_matched(uint32_t id);
void tp_ampi_on_released(uint32_t process, const uint32_t *ids, size_t count);

/* ---- channels.c ---- */

/** Takes a channel to a process that no message uses. @return its number, UINT32_MAX: none */
uint32_t tp_ampi_channel_take(uint32_t process, struct tp_ampi_request *sender);
/** The channel of a number, opened if it was not. NULL: that fails */
telpher_channel *tp_ampi_channel_get(uint32_t process, uint32_t id);
/** The receiver has received the channel's data. @param now  tell the sender at once */
void tp_ampi_channel_release(uint32_t process, uint32_t id, bool now);
/** The sender may use it again. @return its synchronous send, or NULL */
struct tp_ampi_request *tp_ampi_channel_released(uint32_t process, uint32_t id);
/** Forgets the channels of @p count processes from @p first on, whose context is gone. */
void tp_ampi_channels_drop(uint32_t first, uint32_t count);
void tp_ampi_channels_fini(void);

/* ---- request.c ---- */

/** A request that is not set up. NULL: no memory */
struct tp_ampi_request *tp_ampi_request_allocate(void);
/** One that is set up but for its operation. */
struct tp_ampi_request *tp_ampi_request_take(enum tp_ampi_request_kind kind);
void tp_ampi_request_give(struct tp_ampi_request *req);
/** Sets up a send or a receive for the calling rank. */
void tp_ampi_request_init(struct tp_ampi_request *req, enum tp_ampi_request_kind kind,
                          struct tp_ampi_comm *comm, unsigned lane, const void *buf,
                          size_t count, MPI_Datatype type, int peer, int tag);
/** Completes an operation; the light thread that waits for it goes on. */
void tp_ampi_request_complete(struct tp_ampi_request *req, int error);
/** Counts one event of a request of several; the last completes it. */
void tp_ampi_request_part(struct tp_ampi_request *req, int error);
/** A request with a handle, which holds communicator and type. @return an error class */
int tp_ampi_request_make(enum tp_ampi_request_kind kind, struct tp_ampi_comm *comm,
                         unsigned lane, const void *buf, size_t count,
                         MPI_Datatype type, int peer, int tag,
                         struct tp_ampi_request **ret);
/** Sends a copy of the data, which counts against the attached buffer. */
int tp_ampi_start_buffered(struct tp_ampi_comm *comm, const void *buf, size_t count,
                           MPI_Datatype type, int dest, int tag);
/** Finds the communicator and checks the arguments that all calls have. @p receives: the
 *  peer and the tag may be any. @return an error class, which was reported */
int tp_ampi_check(MPI_Comm handle, const void *buf, int count, MPI_Datatype type,
                  int peer, int tag, bool receives, struct tp_ampi_comm **ret);
/** NULL is no buffer, but MPI_BOTTOM for types that have addresses, which programs make. */
static inline bool
tp_ampi_is_missing(const void *buf, MPI_Datatype type)
{
    return buf == NULL && tp_ampi_is_predefined(type);
}
/** Says what failed, of a request that still has its communicator. */
#define TP_AMPI_EXPLAIN_MAX 256
void tp_ampi_request_explain(const struct tp_ampi_request *req, int error, char *text,
                             size_t size);
/** Reports the error of an operation, if there is one. @return @p error */
int tp_ampi_request_report(struct tp_ampi_comm *comm, int error,
                           const struct tp_ampi_request *req);
/** Starts it, as its kind wants. */
int tp_ampi_request_start(struct tp_ampi_request *req);
/* ---- general.c ---- */

/* Call the program's functions for its operation; return their error, not reported yet. */
int tp_ampi_general_status(const struct tp_ampi_request *req, MPI_Status *status);
/** The last status, and the end. */
int tp_ampi_general_end(const struct tp_ampi_request *req, MPI_Status *status);
int tp_ampi_general_cancel(const struct tp_ampi_request *req);

/* ---- partitioned.c ---- */

/** Starts a partitioned request. */
int tp_ampi_partitioned_start(struct tp_ampi_request *req);

/* ---- request.c ---- */

void tp_ampi_request_status(const struct tp_ampi_request *req, MPI_Status *status);
/** Fills in the status of nothing: a null request or process. */
void tp_ampi_status_empty(MPI_Status *status, int source);
void tp_ampi_status_set_bytes(MPI_Status *status, size_t bytes);
size_t tp_ampi_status_bytes(const MPI_Status *status);
/** Waits for a request that is not complete. */
void tp_ampi_request_await(struct tp_ampi_request *req);
void tp_ampi_requests_fini(void);
/** Starts a collective on a light thread, or later, when one is free. */
int tp_ampi_light_begin(struct tp_ampi_request *req);
/** Starts collectives that wait for a light thread. */
void tp_ampi_lights_feed(void);

#endif
