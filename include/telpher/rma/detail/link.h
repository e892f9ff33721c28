/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory shared by ranks on a GPU and their process's progress thread, in a job of
 * several processes; and the functions that the library and a kernel's launcher call in
 * each other (docs/rma.md section 10). It is part of TELPHER_RMA_ABI.
 *
 * A *line* is 64 bytes, 8 words; the lower half of each word is data, the upper half
 * the round of the ring in which it was written. Each word is stored and loaded
 * atomically, so a reader that finds 8 new words has a whole line, without a flag and a
 * fence. A ring has one writer and one reader. Data that does not fit is stored outside
 * the line, before it, with a fence between.
 */
#ifndef TELPHER_RMA_DETAIL_LINK_H
#define TELPHER_RMA_DETAIL_LINK_H

#include <telpher/rma/detail/command.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TELPHER_RMA_LINES = 16, /* of a rank's ring */
    TELPHER_RMA_DELIVERIES = 256, /* lines of the ring to a process's ranks */
    TELPHER_RMA_BESIDE = 1024, /* [bytes] outside a line */
    TELPHER_RMA_BROUGHT = 4096, /* [bytes] of a rank in both directions, once per
                                 * call */
    TELPHER_RMA_LINK_WHERE = 64, /* [bytes] of a line's text */
    /* messages of the host */
    TELPHER_RMA_GOES_ON = 0,
    TELPHER_RMA_STOPS = 1 /* no more lines follow; less than 0: the launch failed */
};

/** Commands of ranks on GPUs, in addition to enum telpher_rma_command_op. Group
 *  calls have their source location outside the line. */
enum telpher_rma_link_op {
    TELPHER_RMA_LINK_WIN_CREATE = 16, /* where: group; off: address; len */
    TELPHER_RMA_LINK_WIN_FREE = 17, /* where: window */
    TELPHER_RMA_LINK_BARRIER = 18, /* where: group */
    TELPHER_RMA_LINK_BROADCAST = 19, /* where: group; to: root; len */
    TELPHER_RMA_LINK_REDUCE =
        20, /* where: group; to: root or FFFF; tag: type << 8 | op; len: elements */
    TELPHER_RMA_LINK_SPLIT = 21 /* where: group; off: colour; local: key */
};

/** Flags of commands and deliveries. */
enum {
    /* 1 is TELPHER_RMA_COMMAND_NOTIFIES */
    TELPHER_RMA_LINK_INLINE = 4, /* of a put: up to 8 bytes are `local` itself */
    TELPHER_RMA_LINK_IS_BESIDE = 8, /* they are outside the line, `local` is unused */
    TELPHER_RMA_LINK_BRINGS = 16 /* of a get: the bytes go to the rank's `brought`
                                  * buffer */
};

/** Lines from the progress thread to a process's ranks. */
enum telpher_rma_delivery_op {
    TELPHER_RMA_DELIVER_DATA = 1, /* len bytes, in `local` or outside the line, to
                                   * address off */
    TELPHER_RMA_DELIVER_NOTIFY = 2, /* a notification of `tag` for rank `to` */
    TELPHER_RMA_DELIVER_ANSWER = 3, /* to rank `to`: `local`, and the status len */
    TELPHER_RMA_DELIVER_GONE = 4, /* rank `from` of another process has returned */
    TELPHER_RMA_DELIVER_GROUP = 5, /* where: its number; off: members */
    TELPHER_RMA_DELIVER_MEMBERS = 6, /* outside the line: their ranks, len bytes from
                                      * off on */
    TELPHER_RMA_DELIVER_WINDOW = 7, /* where: number; to: group; off: 1 open, 0 not */
    TELPHER_RMA_DELIVER_PARTS =
        8 /* outside the line: base and length of each, len bytes from off on */
};

typedef struct telpher_rma_line {
    uint64_t words[8];
} telpher_rma_line;

/** The data of a line: `where` and `to` have 16 bits each. In deliveries of data and
 *  notifications, `from` is stored in `where`. */
typedef struct telpher_rma_words {
    uint32_t words[8];
} telpher_rma_words;

/** Precedes functions that both sides compile. */
#if defined(__CUDACC__)
#define TELPHER_RMA_LINK_FN_ static __host__ __device__ inline __attribute__((unused))
#else
#define TELPHER_RMA_LINK_FN_ static inline __attribute__((unused))
#endif

TELPHER_RMA_LINK_FN_ uint32_t
telpher_rma_link_first(uint32_t op, uint32_t flags, uint32_t tag)
{
    return (op & 255) | (flags & 255) << 8 | tag << 16;
}

TELPHER_RMA_LINK_FN_ uint32_t
telpher_rma_link_second(uint32_t to, uint32_t where)
{
    return (to & 65535) | where << 16;
}

TELPHER_RMA_LINK_FN_ telpher_rma_words
telpher_rma_link_pack(const telpher_rma_command *c)
{
    telpher_rma_words w;

    w.words[0] = telpher_rma_link_first(c->op, c->flags, c->tag);
    w.words[1] = telpher_rma_link_second(c->to, (uint32_t)c->where);
    w.words[2] = (uint32_t)c->off;
    w.words[3] = (uint32_t)(c->off >> 32);
    w.words[4] = (uint32_t)c->local;
    w.words[5] = (uint32_t)(c->local >> 32);
    w.words[6] = (uint32_t)c->len;
    w.words[7] = (uint32_t)(c->len >> 32);
    return w;
}

TELPHER_RMA_LINK_FN_ void
telpher_rma_link_unpack(const telpher_rma_words *w, telpher_rma_command *ret_command)
{
    ret_command->op = (uint16_t)(w->words[0] & 255);
    ret_command->flags = (uint16_t)(w->words[0] >> 8 & 255);
    ret_command->tag = w->words[0] >> 16;
    ret_command->to = w->words[1] & 65535;
    ret_command->from = w->words[1] >> 16;
    ret_command->where = (int32_t)(w->words[1] >> 16);
    ret_command->launch = 0;
    ret_command->off = (uint64_t)w->words[3] << 32 | w->words[2];
    ret_command->local = (uint64_t)w->words[5] << 32 | w->words[4];
    ret_command->len = (uint64_t)w->words[7] << 32 | w->words[6];
    ret_command->number = 0;
    ret_command->turn = 0;
}

/** The round of a ring of @p lines in which line @p number is, from 1 on; uses the
 *  lower 32 bits of the number, because a GPU counts no further. */
TELPHER_RMA_LINK_FN_ uint32_t
telpher_rma_link_round(uint64_t number, uint32_t lines)
{
    return (uint32_t)number / lines + 1;
}

/** Ring of a rank, written by it except `taken` and `brought[1]`. */
typedef struct telpher_rma_mailbox {
    telpher_rma_line lines[TELPHER_RMA_LINES];
    uint8_t beside[TELPHER_RMA_LINES][TELPHER_RMA_BESIDE];
    uint8_t brought[2][TELPHER_RMA_BROUGHT]; /* a rank's input and output of a call */
    uint32_t taken; /* lines done; the rank may reuse their slots */
    uint32_t apart[31];
} telpher_rma_mailbox;

/** The first failure on a GPU. The status is written last. */
typedef struct telpher_rma_failure {
    int32_t status;
    uint32_t rank;
    char call[24], where[96];
} telpher_rma_failure;

/** Memory that a process's ranks share with its progress thread; zeroed before the
 *  launch. */
typedef struct telpher_rma_shared {
    telpher_rma_line lines[TELPHER_RMA_DELIVERIES]; /* written by the host */
    uint8_t beside[TELPHER_RMA_DELIVERIES][TELPHER_RMA_BESIDE];
    int32_t control; /* written by the host */
    uint32_t apart[31];
    uint32_t taken; /* written by the GPU: lines done */
    uint32_t apart_too[31];
    telpher_rma_failure failure; /* written by the GPU */
    telpher_rma_mailbox mailboxes[1]; /* as many as there are ranks */
} telpher_rma_shared;

TELPHER_RMA_LINK_FN_ size_t
telpher_rma_link_size(uint32_t ranks)
{
    return offsetof(telpher_rma_shared, mailboxes) +
           (size_t)ranks * sizeof(telpher_rma_mailbox);
}

/** The launcher's side of a launch in several processes. */
typedef struct telpher_rma_grid {
    void *user;
    /** Polls the kernel, now and then, from a thread of its own.
     *  @return IN_PROGRESS while it runs, OK when it has ended, otherwise its error */
    telpher_status (*look)(void *user);
    /** The error text of a failure; valid as long as the launch. */
    const char *(*error_text)(void *user);
    /** The wait table after the end, as text from malloc(); NULL = no memory. */
    char *(*table)(void *user);
    /** The address at which memory of another process is mapped here; 0 if it is
     *  not. */
    uint64_t (*reach)(void *user, uint32_t process, uint64_t base, uint64_t len);
} telpher_rma_grid;

/** The library's side. */
typedef struct telpher_rma_link {
    uint32_t struct_size;
    uint32_t process, processes;
    uint32_t first, world; /* this process's first rank; number of all ranks */
    uint32_t first_device, world_devices;
    uint32_t beside_max; /* [bytes] outside a rank's line, at most */
    /** Called before: lets the core detect GPU memory, because drivers' calls during
     *  a kernel may block until its end. @param some  4096 bytes */
    telpher_status (*meet)(struct telpher_rma_link *link, void *some);
    /** Collective over all processes of the launch; each passes an address for the
     *  others. Once.
     *  @param own  this process's error, or TELPHER_OK; the outcome's report has the
     *  text
     *  @param shared  kept until the launch is over: early data is stored there
     *  @return the same in all processes; the outcome and its text are then the
     *  library's */
    telpher_status (*begin)(struct telpher_rma_link *link, telpher_status own,
                            telpher_rma_shared *shared, const void *address,
                            size_t address_len);
    /** Another process's address, valid until the launch is over. NULL if there is
     *  none. */
    const void *(*address)(const struct telpher_rma_link *link, uint32_t process,
                           size_t *ret_len);
    /** Called after a successful begin, when the kernel was started or failed to
     *  start: serves it until it has ended in all processes. @return the launch's
     *  status */
    telpher_status (*serve)(struct telpher_rma_link *link,
                            const telpher_rma_grid *grid);
    /** Called after that, when this process no longer uses memory of others: waits
     *  until the others have finished too, or are lost, for at most a second. */
    void (*leave)(struct telpher_rma_link *link);
} telpher_rma_link;

#ifdef __cplusplus
}
#endif

#endif
