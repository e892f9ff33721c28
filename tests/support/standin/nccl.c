/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a library that is called like NCCL 2. It moves content between processes of one machine
 * through shared memory and does the collectives with messages, at once, in the call. It shows that
 * runtime nccl checks what it receives; nothing of how NCCL does it, or how fast.
 */
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/standin/area.h"

#define EXPORT __attribute__((visibility("default")))

enum { VERSION = 22000, INT8 = 0, INT32 = 2, FLOAT32 = 7, BOX = 1 << 16, OPS = 4096 };
enum { GOOD = 0, INVALID = 4 };

struct id {
    char bytes[128];
};

/** A piece of a message from one rank to another. */
struct box {
    atomic_int full;
    size_t len;
    uint8_t content[BOX];
};

struct area {
    struct area_head head;
    struct box boxes[AREA_RANKS][AREA_RANKS]; /* sender, receiver */
};

struct comm {
    struct area *area;
    int rank, size;
};

/** A message that is under way. */
struct op {
    struct comm *comm;
    void *stream;
    bool sends;
    int peer;
    size_t len, done;
    uint8_t *host; /* allocated */
    unsigned long long device; /* to receive into; 0: into host */
    uint8_t *keep; /* where to, of device 0 */
};

static struct op ops[OPS];
static int count, depth; /* of ops; of groups */

EXPORT int ncclGetVersion(int *version);
EXPORT int ncclGetUniqueId(struct id *id);
EXPORT int ncclCommInitRank(struct comm **ret_comm, int size, struct id id, int rank);
EXPORT int ncclCommDestroy(struct comm *comm);
EXPORT const char *ncclGetErrorString(int error);
EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupEnd(void);
EXPORT int ncclSend(const void *src, size_t n, int type, int peer, struct comm *comm,
                    void *stream);
EXPORT int ncclRecv(void *dst, size_t n, int type, int peer, struct comm *comm,
                    void *stream);
EXPORT int ncclAllGather(const void *src, void *dst, size_t n, int type,
                         struct comm *comm, void *stream);
EXPORT int ncclAllReduce(const void *src, void *dst, size_t n, int type, int op,
                         struct comm *comm, void *stream);
EXPORT int ncclBroadcast(const void *src, void *dst, size_t n, int type, int root,
                         struct comm *comm, void *stream);
EXPORT int ncclReduce(const void *src, void *dst, size_t n, int type, int op, int root,
                      struct comm *comm, void *stream);
EXPORT int ncclReduceScatter(const void *src, void *dst, size_t n, int type, int op,
                             struct comm *comm, void *stream);

/* ---- device memory ---- */

static void
finish(void *stream)
{
    int (*synchronize)(void *);

    *(void **)&synchronize = area_cuda("cuStreamSynchronize");
    if (synchronize(stream) != 0) {
        abort();
    }
}

static void
read_device(void *host, const void *device, size_t len, void *stream)
{
    int (*copy)(void *, unsigned long long, size_t, void *);

    *(void **)&copy = area_cuda("cuMemcpyDtoHAsync_v2");
    if (copy(host, (uintptr_t)device, len, stream) != 0) {
        abort();
    }
    finish(stream);
}

static void
write_device(unsigned long long device, const void *host, size_t len, void *stream)
{
    int (*copy)(unsigned long long, const void *, size_t, void *);

    *(void **)&copy = area_cuda("cuMemcpyHtoDAsync_v2");
    if (copy(device, host, len, stream) != 0) {
        abort();
    }
    finish(stream);
}

/* ---- messages ---- */

/* Moves a piece if the other side is ready. @return whether the message is complete */
static bool
move_piece(struct op *op)
{
    struct comm *c = op->comm;
    struct box *box = op->sends ? &c->area->boxes[c->rank][op->peer]
                                : &c->area->boxes[op->peer][c->rank];
    size_t len = op->len - op->done < BOX ? op->len - op->done : BOX;

    if ((atomic_load(&box->full) != 0) == op->sends) {
        return false;
    }
    if (op->sends) {
        memcpy(box->content, op->host + op->done, len);
        box->len = len;
    } else {
        memcpy(op->host + op->done, box->content, len);
    }
    op->done += len;
    atomic_store(&box->full, op->sends);
    return op->done == op->len;
}

static void
complete(struct op *op)
{
    if (!op->sends && op->device != 0) {
        write_device(op->device, op->host, op->len, op->stream);
    } else if (!op->sends) {
        memcpy(op->keep, op->host, op->len);
    }
    free(op->host);
    op->host = NULL;
}

/* Messages between two ranks stay in their order; those of others do not wait for them. */
static void
run_all(void)
{
    int left = count;

    while (left > 0) {
        bool waits[2][AREA_RANKS] = {{false}};

        for (int i = 0; i < count; i++) {
            struct op *op = &ops[i];

            if (op->host == NULL || waits[op->sends][op->peer]) {
                continue;
            }
            if (move_piece(op)) {
                complete(op);
                left--;
            } else {
                waits[op->sends][op->peer] = true;
            }
        }
        sched_yield();
    }
    count = 0;
}

static struct op *
add(struct comm *comm, bool sends, int peer, size_t len, void *stream)
{
    struct op *op = &ops[count++];

    if (count == OPS) {
        abort();
    }
    *op = (struct op){comm, stream, sends, peer, len, .done = 0};
    op->host = malloc(len != 0 ? len : 1);
    if (op->host == NULL) {
        abort();
    }
    return op;
}

static void
add_send(struct comm *comm, const void *device, size_t len, int peer, void *stream)
{
    read_device(add(comm, true, peer, len, stream)->host, device, len, stream);
}

static void
add_recv(struct comm *comm, void *device, size_t len, int peer, void *stream)
{
    add(comm, false, peer, len, stream)->device = (uintptr_t)device;
}

static size_t
bytes_of(size_t n, int type)
{
    return n * (type == INT8 ? 1 : 4);
}

int
ncclGroupStart(void)
{
    depth++;
    return GOOD;
}

int
ncclGroupEnd(void)
{
    if (--depth == 0) {
        run_all();
    }
    return GOOD;
}

int
ncclSend(const void *src, size_t n, int type, int peer, struct comm *comm, void *stream)
{
    add_send(comm, src, bytes_of(n, type), peer, stream);
    if (depth == 0) {
        run_all();
    }
    return GOOD;
}

int
ncclRecv(void *dst, size_t n, int type, int peer, struct comm *comm, void *stream)
{
    add_recv(comm, dst, bytes_of(n, type), peer, stream);
    if (depth == 0) {
        run_all();
    }
    return GOOD;
}

/* ---- collectives ---- */

int
ncclAllGather(const void *src, void *dst, size_t n, int type, struct comm *comm,
              void *stream)
{
    size_t len = bytes_of(n, type);

    for (int i = 0; i < comm->size; i++) {
        add_send(comm, src, len, i, stream);
        add_recv(comm, (uint8_t *)dst + (size_t)i * len, len, i, stream);
    }
    run_all();
    return GOOD;
}

int
ncclBroadcast(const void *src, void *dst, size_t n, int type, int root,
              struct comm *comm, void *stream)
{
    size_t len = bytes_of(n, type);

    for (int i = 0; comm->rank == root && i < comm->size; i++) {
        add_send(comm, src, len, i, stream);
    }
    add_recv(comm, dst, len, root, stream);
    run_all();
    return GOOD;
}

static void
sum(uint8_t *into, const uint8_t *from, size_t n, int type)
{
    for (size_t i = 0; i < n; i++) {
        int32_t whole[2];
        float real[2];

        if (type == INT8) {
            into[i] = (uint8_t)(into[i] + from[i]);
        } else if (type == INT32) {
            memcpy(&whole[0], into + 4 * i, 4);
            memcpy(&whole[1], from + 4 * i, 4);
            whole[0] += whole[1];
            memcpy(into + 4 * i, &whole[0], 4);
        } else {
            memcpy(&real[0], into + 4 * i, 4);
            memcpy(&real[1], from + 4 * i, 4);
            real[0] += real[1];
            memcpy(into + 4 * i, &real[0], 4);
        }
    }
}

/* To rank @p i each sends its block i, or its only one; those in @p roots sum what they get. */
static int
reduce(const void *src, void *dst, size_t n, int type, int root, bool blocks,
       struct comm *comm, void *stream)
{
    size_t len = bytes_of(n, type);
    uint8_t *all = malloc((size_t)comm->size * len + 1);
    bool receives = root < 0 || root == comm->rank;

    if (all == NULL) {
        return INVALID;
    }
    for (int i = 0; i < comm->size; i++) {
        if (root < 0 || root == i) {
            add_send(comm, (const uint8_t *)src + (blocks ? (size_t)i * len : 0), len,
                     i, stream);
        }
        if (receives) {
            add(comm, false, i, len, stream)->keep = all + (size_t)i * len;
        }
    }
    run_all();
    for (int i = 1; receives && i < comm->size; i++) {
        sum(all, all + (size_t)i * len, n, type);
    }
    if (receives) {
        write_device((uintptr_t)dst, all, len, stream);
    }
    free(all);
    return GOOD;
}

int
ncclAllReduce(const void *src, void *dst, size_t n, int type, int op, struct comm *comm,
              void *stream)
{
    return op != 0 ? INVALID : reduce(src, dst, n, type, -1, false, comm, stream);
}

int
ncclReduce(const void *src, void *dst, size_t n, int type, int op, int root,
           struct comm *comm, void *stream)
{
    return op != 0 ? INVALID : reduce(src, dst, n, type, root, false, comm, stream);
}

int
ncclReduceScatter(const void *src, void *dst, size_t n, int type, int op,
                  struct comm *comm, void *stream)
{
    return op != 0 ? INVALID : reduce(src, dst, n, type, -1, true, comm, stream);
}

/* ---- communicators ---- */

int
ncclGetVersion(int *version)
{
    *version = VERSION;
    return GOOD;
}

int
ncclGetUniqueId(struct id *id)
{
    return area_create(id->bytes, sizeof(struct area)) ? GOOD : INVALID;
}

int
ncclCommInitRank(struct comm **ret_comm, int size, struct id id, int rank)
{
    struct comm *comm = malloc(sizeof(*comm));

    if (comm == NULL) {
        return INVALID;
    }
    *comm = (struct comm){area_join(id.bytes, sizeof(struct area), size), rank, size};
    *ret_comm = comm;
    return comm->area != NULL ? GOOD : INVALID;
}

int
ncclCommDestroy(struct comm *comm)
{
    free(comm);
    return GOOD;
}

const char *
ncclGetErrorString(int error)
{
    return error == INVALID ? "invalid argument" : "no error";
}
