/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between ranks on a GPU and the agent of their process, when a job has several: memory of
 * the host that both reach, and what the library and a kernel's launcher do for each other
 * (docs/rma.md section 10). It is part of TELPHER_RMA_ABI.
 *
 * A *line* is 64 bytes, 8 words; the lower half of each word is data, the upper one says
 * which time round its ring it was written. Each word is stored and loaded at once, so who
 * finds 8 new words has a whole line: there is no flag that a fence would have to stand before.
 * A ring has one writer and one reader. What does not fit lies beside the line, written before
 * it, with a fence between.
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
    TELPHER_RMA_BESIDE = 1024, /* [bytes] beside a line */
    TELPHER_RMA_BROUGHT = 4096, /* [bytes] of a rank that go both ways, once a call */
    TELPHER_RMA_LINK_WHERE = 64, /* [bytes] of a line's text */
    /* what the host says */
    TELPHER_RMA_GOES_ON = 0,
    TELPHER_RMA_STOPS =
        1 /* nobody puts anything more; less than 0: the launch failed */
};

/** Commands of ranks on GPUs, beside those of enum telpher_rma_command_op. Group calls have
 *  the call's place in the source beside the line. */
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
    TELPHER_RMA_LINK_IS_BESIDE = 8, /* they lie beside the line, `local` is nothing */
    TELPHER_RMA_LINK_BRINGS = 16 /* of a get: they go to what the rank is brought */
};

/** What a process's ranks are told. */
enum telpher_rma_delivery_op {
    TELPHER_RMA_DELIVER_DATA = 1, /* len bytes, `local` or beside, to address off */
    TELPHER_RMA_DELIVER_NOTIFY = 2, /* a notification of `tag` for rank `to` */
    TELPHER_RMA_DELIVER_ANSWER = 3, /* to rank `to`: `local`, and the status len */
    TELPHER_RMA_DELIVER_GONE = 4, /* rank `from` of another process has returned */
    TELPHER_RMA_DELIVER_GROUP = 5, /* where: its number; off: members */
    TELPHER_RMA_DELIVER_MEMBERS = 6, /* beside: their ranks, len bytes from off on */
    TELPHER_RMA_DELIVER_WINDOW = 7, /* where: number; to: group; off: 1 open, 0 not */
    TELPHER_RMA_DELIVER_PARTS =
        8 /* beside: base and length of each, len bytes from off on */
};

typedef struct telpher_rma_line {
    uint64_t words[8];
} telpher_rma_line;

/** A line's data: `where` and `to` have 16 bits each. `from` takes where's place in
 *  deliveries of data and notifications. */
typedef struct telpher_rma_words {
    uint32_t words[8];
} telpher_rma_words;

/** In front of functions for both sides. */
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

/** Which time round a ring of @p lines line @p number is, from 1 on; of a number's lower 32 bits,
 *  since a GPU counts no further. */
TELPHER_RMA_LINK_FN_ uint32_t
telpher_rma_link_round(uint64_t number, uint32_t lines)
{
    return (uint32_t)number / lines + 1;
}

/** A rank's, written by it but for `taken` and `brought[1]`. */
typedef struct telpher_rma_mailbox {
    telpher_rma_line lines[TELPHER_RMA_LINES];
    uint8_t beside[TELPHER_RMA_LINES][TELPHER_RMA_BESIDE];
    uint8_t brought[2][TELPHER_RMA_BROUGHT]; /* what a rank brings, and is brought */
    uint32_t taken; /* lines that were done; their places are the rank's again */
    uint32_t apart[31];
} telpher_rma_mailbox;

/** The first failure on a GPU. The status is written last. */
typedef struct telpher_rma_failure {
    int32_t status;
    uint32_t rank;
    char call[24], where[96];
} telpher_rma_failure;

/** What a process's ranks share with its agent; zeroed before the launch. */
typedef struct telpher_rma_shared {
    telpher_rma_line lines[TELPHER_RMA_DELIVERIES]; /* the host's */
    uint8_t beside[TELPHER_RMA_DELIVERIES][TELPHER_RMA_BESIDE];
    int32_t control; /* the host's */
    uint32_t apart[31];
    uint32_t taken; /* the GPU's: lines that were done */
    uint32_t apart_too[31];
    telpher_rma_failure failure; /* the GPU's */
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
    /** Looks after the kernel, now and then, in a thread of its own.
     *  @return IN_PROGRESS while it runs, OK when it has ended, else what became of it */
    telpher_status (*look)(void *user);
    /** What became of it when it failed; lives as long as the launch. */
    const char *(*words)(void *user);
    /** Who waits for what, when it has ended: lines, of malloc(); NULL = no memory. */
    char *(*table)(void *user);
    /** Where memory of another process's can be reached from here; 0 if it cannot. */
    uint64_t (*reach)(void *user, uint32_t process, uint64_t base, uint64_t len);
} telpher_rma_grid;

/** The library's. */
typedef struct telpher_rma_link {
    uint32_t struct_size;
    uint32_t process, processes;
    uint32_t first, world; /* this process's first rank; ranks of all */
    uint32_t first_device, world_devices;
    uint32_t beside_max; /* [bytes] beside a rank's line, at most */
    /** Before that: the core meets memory of a GPU, so that it need not while a kernel runs,
     *  when drivers' calls may wait for its end. @param some  4096 bytes */
    telpher_status (*meet)(struct telpher_rma_link *link, void *some);
    /** All processes come to the launch, each with a address for the others. Once.
     *  @param own  why this one cannot go on, or TELPHER_OK; the outcome's report has words
     *  @param shared  kept until the launch is over: what comes early waits there
     *  @return what all return; outcome and words are then the library's */
    telpher_status (*begin)(struct telpher_rma_link *link, telpher_status own,
                            telpher_rma_shared *shared, const void *address,
                            size_t address_len);
    /** Another process's address, until the launch is over. NULL if there is none. */
    const void *(*address)(const struct telpher_rma_link *link, uint32_t process,
                           size_t *ret_len);
    /** Behind a begin that was good, when the kernel was started, or could not be: serves
     *  it until it has ended, in all processes. @return the launch's status */
    telpher_status (*serve)(struct telpher_rma_link *link,
                            const telpher_rma_grid *grid);
    /** Behind that, when this process uses nobody's memory any more: waits until the others
     *  do not either, or are lost, for a second at most. */
    void (*leave)(struct telpher_rma_link *link);
} telpher_rma_link;

#ifdef __cplusplus
}
#endif

#endif
