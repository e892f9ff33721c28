/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a job, and what one launch has of those elsewhere: the structs of this folder. */
#ifndef TELPHER_RMA_PROCESSES_WORLD_H
#define TELPHER_RMA_PROCESSES_WORLD_H

#include <telpher/context.h>
#include <telpher/msg.h>
#include <telpher/rma/detail/command.h>

#include "base/container/list.h"
#include "rma/rma_int.h"

enum {
    TP_RMA_RING = 512, /* commands; a power of two */
    TP_RMA_COMMAND_CREDITS = 1024, /* commands in flight from a process to another */
    TP_RMA_INLINE_MAX = 960, /* [bytes] of data that travels with its command */
    TP_RMA_FOLD_SMALL = 512, /* [bytes] of a reduction that travel with an arrival */
    TP_RMA_WHERE = 64,
    TP_RMA_COMMAND_HANDLER = TELPHER_HANDLERS - 1,
    TP_RMA_CONTROL_HANDLER =
        TELPHER_HANDLERS - 2 /* without credits: answers and so on */
};
#define TP_RMA_BODY_MAX ((size_t)64 << 20) /* [bytes] of a control message's body */

/** Control messages between processes, beside commands of ranks. */
enum tp_rma_control_op {
    TP_RMA_CONTROL_GOT = TELPHER_RMA_COMMAND_CONTROL, /* data of a get: number */
    TP_RMA_CONTROL_FLUSHED, /* to: the rank that flushes */
    TP_RMA_CONTROL_ARRIVED, /* where: group; number: generation; tag: phase; a body */
    TP_RMA_CONTROL_HELLO, /* a launch begins: struct tp_rma_hello */
    TP_RMA_CONTROL_DONE, /* all ranks of the sender have returned; a body of text */
    TP_RMA_CONTROL_FAILED, /* tag: status; a body of text */
    TP_RMA_CONTROL_QUIET, /* flags; from: wave; off, len: messages sent, received */
    TP_RMA_CONTROL_ASK, /* from: wave */
    TP_RMA_CONTROL_LEFT /* tag: serial; the sender uses no memory of others any more */
};

/** Parameters of a launch that all processes compare. */
struct tp_rma_hello {
    uint32_t serial, abi, ranks, devices, tags, lanes, status;
    uint32_t elsewhere; /* the kernel brings its launcher */
    uint32_t block[3];
    char kernel[TP_RMA_WHERE];
    char text[4 * TP_RMA_WHERE]; /* text of an error, if the status is one */
};

/** Handles a command or control message from another process, in order. */
struct tp_rma_delivery {
    const telpher_rma_command *command;
    const void *data; /* the data that arrived with it; NULL: it is in place already */
    size_t len;
    void *
        body; /* the same, if it has memory of its own: owned; the callee may take it */
};

/** Another process, or this one. */
struct tp_rma_process {
    size_t inline_max; /* [bytes] that travel with a command to it */
    bool lost;
    bool done; /* its ranks have returned */
    uint32_t left; /* serial of the last launch that it left */
    uint32_t unread; /* the last launch whose hello was lost for lack of memory, or 0 */
    struct tp_rma_hello
        hellos[2]; /* of this launch and the next; serial 0 = not received */
    void *addresses[2]; /* received with them, owned, or NULL */
    size_t address_lens[2];
    char *table; /* its ranks, which it sent at the end of a launch that failed */
    uint32_t under_way; /* sends to it whose memory is still in use */
    uint32_t
        incoming; /* messages from it whose data is under way, or waits for its turn */
};

/** The job of processes, for all launches. */
struct tp_rma_world {
    telpher_context *ctx;
    uint32_t process, count;
    uint32_t serial; /* of the launch */
    struct tp_rma_process *processes;
    struct tp_rma_run *run; /* NULL: none */
    bool broken; /* a process was lost, or left behind in a launch */
    _Atomic bool forked; /* this is a child of fork(): the context is its parent's */
    _Atomic bool busy;
};

/** A get under way. */
struct tp_rma_get {
    struct tp_rma_rank *rank; /* NULL: not used */
    uint32_t process; /* that sends the data */
    void *dst;
    uint64_t len;
    uint32_t serial;
    bool far; /* dst is a GPU's memory */
};

/** One process's contribution to the start of a launch. */
struct tp_rma_coming {
    telpher_status own; /* its own error, or TELPHER_OK */
    const char *text; /* text of that, or NULL */
    const void *address; /* the launcher's, for the other processes */
    size_t address_len;
};

struct tp_rma_remote {
    struct tp_rma_run *run;
    struct tp_rma_world *world;
    struct tp_mutex role; /* guards what follows, except what is atomic */
    telpher_rma_command *ring;
    _Atomic uint64_t head; /* next place to write */
    _Atomic uint64_t tail; /* next to read */
    _Atomic bool stalled; /* the first command has no credit */
    _Atomic bool room_wanted; /* some rank waits for room */
    _Atomic uint64_t room_waits, room_ns; /* how often ranks did, and for how long */
    _Atomic uint32_t wanted; /* threads that wait for the role */
    _Atomic bool asleep; /* the progress thread sleeps in the context, with the role */
    _Atomic uint32_t parked; /* the progress thread waits to be called: futex */
    _Atomic uint32_t lookers; /* idle workers, which make progress */
    _Atomic uint64_t looks; /* times that the role was released */
    _Atomic bool stop;
    _Atomic bool failure_sent; /* the other processes know that the launch has failed */
    pthread_t thread;
    struct tp_rma_get *gets;
    uint32_t get_count;
    struct tp_list arrivals; /* at groups whose members here have not arrived */
    unsigned turns;
    uint32_t next_group; /* number of a split's group, in steps of the processes */
    uint64_t came, went; /* messages that may end a wait: tp_rma_deadlock_counts() */
    struct tp_rma_deadlock
        *quiet; /* process 0: of each process; others: [0] is the last sent */
    uint32_t wave;
    bool asked;
};

#endif
