/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal declarations of libtelpher-ampi: objects, the virtual ranks of this process, and the
 * calls that collectives build on. All ranks of a process run on one thread.
 */
#ifndef TELPHER_AMPI_AMPI_INT_H
#define TELPHER_AMPI_AMPI_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/ampi/mpi.h>

#include "ampi/private.h"
#include "base/compiler.h"
#include "base/container/list.h"
#include "base/os/light.h"

/** Gives a call its weak MPI_ name. Follows the definition of PMPI_@p name. */
#define TP_MPI_NAME(name)                                                              \
    extern __typeof__(PMPI_##name) MPI_##name                                          \
        __attribute__((weak, alias("PMPI_" #name)))

enum { TP_AMPI_FOLDER = 256 /**< [bytes] of a checkpoint's path */ };

struct tp_ampi_heap;
struct tp_ampi_rank;
struct tp_ampi_mail;
struct tp_ampi_mails;
struct tp_ampi_request;
struct tp_ampi_route;

/* ---- handles (handle.c) ---- */

/** Kind of an object: the upper byte of its handle. */
enum tp_ampi_kind {
    TP_AMPI_COMM = 1,
    TP_AMPI_GROUP,
    TP_AMPI_TYPE,
    TP_AMPI_OP,
    TP_AMPI_REQUEST,
    TP_AMPI_INFO,
    TP_AMPI_ERRHANDLER,
    TP_AMPI_WIN,
    TP_AMPI_KEYVAL,
    TP_AMPI_MESSAGE,
    TP_AMPI_ACCESS, /**< a get, or a long put: no handle of the program */
    TP_AMPI_SESSION,
    TP_AMPI_KINDS,
};

/** Lower 24 bits of handles: predefined ones are below, made ones start here. */
#define TP_AMPI_FIRST_MADE 0x10000

static inline bool
tp_ampi_is_predefined(int handle)
{
    return (handle & 0xffffff) < TP_AMPI_FIRST_MADE;
}

/** The objects of a kind. A free slot has bit 0 set: objects are aligned. */
struct tp_ampi_table {
    uintptr_t *slots;
    uint32_t count;
};
extern struct tp_ampi_table tp_ampi_tables[TP_AMPI_KINDS];

/** Gives @p object a handle. @return 0: no memory */
int tp_ampi_handle_create(enum tp_ampi_kind kind, void *object);
/** @return the object of a made handle, or NULL: there is none of this kind */
static inline void *
tp_ampi_handle_get(int handle, enum tp_ampi_kind kind)
{
    uint32_t at = (uint32_t)handle - ((uint32_t)kind << 24 | TP_AMPI_FIRST_MADE);
    const struct tp_ampi_table *t = &tp_ampi_tables[kind];

    return at < t->count && (t->slots[at] & 1) == 0 ? (void *)t->slots[at] : NULL;
}
void tp_ampi_handle_destroy(int handle);

/** A rank's part of each handle table, which moves with the rank. */
struct tp_ampi_handles {
    uint32_t free[TP_AMPI_KINDS]; /**< number + 1, 0 = none */
    uint32_t chunks[TP_AMPI_KINDS]; /**< parts of the table */
    uintptr_t *packed; /**< copies of the parts, on the way */
};

/** Makes room for the handles of all ranks of the world, where they may move. */
bool tp_ampi_handles_reserve(void);
void tp_ampi_handles_pack(struct tp_ampi_rank *rank);
void tp_ampi_handles_unpack(struct tp_ampi_rank *rank);
/** Has the rank, which may move, objects of a kind? */
bool tp_ampi_handles_any(const struct tp_ampi_rank *rank, enum tp_ampi_kind kind);

/* ---- objects ---- */

struct tp_ampi_group {
    int handle; /**< 0: the program has none yet */
    unsigned refs;
    int size, rank; /**< rank of the process that has it, or MPI_UNDEFINED */
    uint32_t world[]; /**< ranks in the world; above: tp_ampi_world_of() */
};

/** Takes a group of @p size ranks, with one reference. @return NULL: no memory */
struct tp_ampi_group *tp_ampi_group_create(int size);
void tp_ampi_group_unref(struct tp_ampi_group *group);
/** The group of a handle, NULL: there is none. */
struct tp_ampi_group *tp_ampi_group_get(MPI_Group handle);
/** Rank in @p group of a rank of the world, or MPI_UNDEFINED. */
int tp_ampi_group_rank_of(const struct tp_ampi_group *group, uint32_t world);
/** MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int tp_ampi_group_compare(const struct tp_ampi_group *one,
                          const struct tp_ampi_group *other);
/** Gives the program a handle to one reference of @p group. @return MPI_SUCCESS, or NO_MEM */
int tp_ampi_group_give(struct tp_ampi_group *group, MPI_Group *ret);

/** Messages of different lanes of a communicator never match. */
enum tp_ampi_lane {
    TP_AMPI_LANE_PROGRAM, /**< point to point */
    TP_AMPI_LANE_COLLECTIVE,
    TP_AMPI_LANE_OFFER, /**< partitioned sends: one message at MPI_Psend_init */
    TP_AMPI_LANE_PARTITION, /**< their data */
    TP_AMPI_LANES,
};

struct tp_ampi_comm {
    int handle;
    unsigned refs; /**< the handle's and those of operations under way */
    struct tp_ampi_rank *owner;
    struct tp_ampi_group *group;
    int rank, size;
    struct tp_ampi_group
        *peers; /**< whom messages go to: the group, or the remote one */
    struct tp_ampi_route *routes; /**< by rank of peers; NULL: all are of this job */
    struct tp_ampi_comm *local; /**< of an intercommunicator: that of the own group */
    uint32_t
        context; /**< of point to point; the next ones are those of the other lanes */
    struct tp_ampi_mail
        *mail[TP_AMPI_LANES]; /**< of partitioned calls: NULL before the first */
    uint32_t partitions; /**< sent in partitioned calls: tags of their messages */
    MPI_Errhandler errhandler;
    char name[MPI_MAX_OBJECT_NAME];
    struct tp_ampi_attribute *attributes;
    struct tp_ampi_info *info; /**< hints, NULL: none */
    void *topology; /**< NULL: none */
    uint32_t
        duplicates; /**< calls of MPI_Comm_dup() of an intercommunicator: started */
    uint32_t duplicated; /**< of them, ended */
    uint32_t collectives[2]; /**< calls, blocking and others: tags of their messages */
};

/** The communicator of a handle for the calling rank, NULL: there is none. */
struct tp_ampi_comm *tp_ampi_comm_get(MPI_Comm handle);
/** The same; reports if there is none. */
struct tp_ampi_comm *tp_ampi_comm_find(MPI_Comm handle);
/** A communicator of @p group's ranks, all of which agreed on @p context. Takes @p group,
 *  also with an error. The error handler is that of @p parent, if there is one. */
int tp_ampi_comm_create(struct tp_ampi_rank *owner, struct tp_ampi_group *group,
                        uint32_t context, const struct tp_ampi_comm *parent,
                        struct tp_ampi_comm **ret);
/** Drops a use; the last frees it. */
void tp_ampi_comm_unref(struct tp_ampi_comm *comm);
/** The context of a new communicator. Where ranks of several jobs are in it, each rank has its
 *  own one. */
struct tp_ampi_agreed {
    uint32_t context; /**< of the calling rank */
    uint32_t *
        all; /**< by rank of the communicator that agreed; to be freed. NULL: all the same */
};

/** A context that no other rank of the job chooses, and this one once. 0: there are no more */
uint32_t tp_ampi_comm_propose(struct tp_ampi_rank *rank);
/** Agrees with the members of @p group, which are all in @p comm, on a new context: its first
 *  member chooses, or each its own.
 *  @param tag  of the messages, which are collective ones of @p comm */
int tp_ampi_comm_agree(struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                       int tag, struct tp_ampi_agreed *ret);
/**
 * Gathers @p len bytes of each member of @p group, in its order, at all of them.
 * @param tag  of the messages, which are collective ones of @p comm
 */
int tp_ampi_comm_gather(struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                        int tag, const void *mine, size_t len, void *all);
/** MPI_Comm_create(): all ranks of @p comm call it with the same @p group. Ranks outside of the
 *  group get MPI_COMM_NULL. */
int tp_ampi_comm_create_of(struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                           MPI_Comm *ret);
/** Duplicates without attributes; they are the caller's matter. */
int tp_ampi_comm_dup(struct tp_ampi_comm *comm, struct tp_ampi_comm **ret);
/** MPI_Comm_split, with its errors reported. */
int tp_ampi_comm_split(struct tp_ampi_comm *comm, int color, int key, MPI_Comm *ret);
/** Returns when all ranks have called it. */
int tp_ampi_comm_meet(struct tp_ampi_comm *comm);
/** Destroys the handle, and drops its use. */
void tp_ampi_comm_discard(struct tp_ampi_comm *comm);
/** Rank in @p comm of a rank of the world, or MPI_UNDEFINED. */
int tp_ampi_comm_rank_of(const struct tp_ampi_comm *comm, uint32_t world);

/** One virtual rank: a program's copy on a light thread, or the whole process. */
struct tp_ampi_rank {
    uint32_t world, local; /**< number in the world, in this process */
    bool initialized, finalized;
    struct tp_ampi_comm *comm_world, *comm_self;
    struct tp_ampi_mails *mails; /**< by the rank of the world that chose the context */
    uint32_t contexts; /**< that it chose */
    MPI_Comm parent; /**< with the job that started this one, or MPI_COMM_NULL */
    struct tp_ampi_f90 *f90_types; /**< type_f90.c */
    void *bsend; /**< attached buffer */
    size_t bsend_bytes, bsend_used;
    tp_ampi_main main_fn; /**< of its copy of the program */
    const void
        *fortran; /**< where its copy has MPI_BOTTOM of Fortran, NULL: not known */
    struct tp_light *light; /**< of its main function; NULL: the process's thread */
    uint32_t collectives; /**< of it that run on light threads */
    uint8_t urgency; /**< the more, the fewer messages between it and another process */
    int optind, opterr, optopt; /**< of libc, which all ranks share */
    char *optarg;
    /* the rest is of ranks that may move: move/ */
    struct tp_ampi_heap *heap; /**< NULL: its memory is the process's */
    struct tp_ampi_handles handles;
    uint64_t load_ns,
        since_ns; /**< processor time since the last AMPI_Migrate; its start */
    uint32_t wish, wish_to; /**< enum tp_ampi_move_kind; process */
    int move_error;
    char folder[TP_AMPI_FOLDER]; /**< of a checkpoint */
};

/** The calling rank. */
struct tp_ampi_rank *tp_ampi_current(void);
/** Ranks of the world. */
uint32_t tp_ampi_world_size(void);
/** The process that a rank of the world is in, and the machine's number of it. */
uint32_t tp_ampi_process_of(uint32_t world_rank);

/* ---- errors (error.c) ---- */

/** Calls the error handler of @p comm (NULL: of the world) with a text. @return the code, if
 *  the handler returns. A code of MPI_SUCCESS calls nothing. */
int tp_ampi_error(struct tp_ampi_comm *comm, int code, const char *fmt, ...)
    TP_PRINTF(3, 4);
/** Reports that a call got NULL for a result. @return MPI_ERR_ARG */
int tp_ampi_refuse_null(void);
/** Text of the last error of this process if it had @p code, else NULL. */
const char *tp_ampi_error_text(int code);
/** Ends the job: tells the other processes, then tp_ampi_exit(). */
_Noreturn void tp_ampi_abort(int code);
/** Ends this process. */
_Noreturn void tp_ampi_exit(int code);

/* ---- datatypes (type.c; more in type.h) ---- */

/** Packs into @p dst, which has room for count * size. */
void tp_ampi_type_pack(const void *buf, size_t count, MPI_Datatype type, void *dst);
/** Unpacks @p len bytes, which may be fewer than count * size. */
void tp_ampi_type_unpack(const void *src, size_t len, void *buf, size_t count,
                         MPI_Datatype type);
/** Operations under way use a type that the program may free. */
void tp_ampi_type_ref(MPI_Datatype type);
void tp_ampi_type_unref(MPI_Datatype type);

/* ---- what collectives build on ---- */

#define TP_AMPI_TAG_MAX 0x7fffffff /* MPI_TAG_UB */
/* Tags of collective messages from here on belong to comm.c. */
#define TP_AMPI_TAG_OWN 0x7ff00000

/* They return an error class and have called the error handler. @param collective  true: matches
 * only messages of collective calls, whose tags may have all 31 bits */
int tp_ampi_send(struct tp_ampi_comm *comm, bool collective, const void *buf,
                 size_t count, MPI_Datatype type, int to, int tag);
int tp_ampi_recv(struct tp_ampi_comm *comm, bool collective, void *buf, size_t count,
                 MPI_Datatype type, int from, int tag, MPI_Status *status);
/** @param ret  set to NULL if the send is complete already; tp_ampi_wait() accepts that */
int tp_ampi_isend(struct tp_ampi_comm *comm, bool collective, const void *buf,
                  size_t count, MPI_Datatype type, int to, int tag,
                  struct tp_ampi_request **ret);
int tp_ampi_irecv(struct tp_ampi_comm *comm, bool collective, void *buf, size_t count,
                  MPI_Datatype type, int from, int tag, struct tp_ampi_request **ret);
/** Waits for and frees a request, which may be NULL. */
int tp_ampi_wait(struct tp_ampi_request *req, MPI_Status *status);
int tp_ampi_sendrecv(struct tp_ampi_comm *comm, bool collective, const void *sendbuf,
                     size_t sendcount, MPI_Datatype sendtype, int to, int sendtag,
                     void *recvbuf, size_t recvcount, MPI_Datatype recvtype, int from,
                     int recvtag, MPI_Status *status);

/**
 * Runs fn(arg) on a light thread of the calling rank: a non-blocking collective. The request
 * completes with the error class that it returns; @p arg is the function's to free.
 * @return MPI_SUCCESS, MPI_ERR_NO_MEM
 */
int tp_ampi_start_light(int (*fn)(void *arg), void *arg, MPI_Request *ret);
/**
 * The same for a persistent collective: MPI_Start runs fn(arg). MPI_Request_free calls
 * destroy(arg).
 */
int tp_ampi_init_light(int (*fn)(void *arg), void (*destroy)(void *arg), void *arg,
                       MPI_Request *ret);

#endif
