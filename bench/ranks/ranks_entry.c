/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of message-driven objects: an object in each of two processes invokes an entry method of
 * the other with a buffer, and the post entry names where the buffer arrives.
 */
#include "bench/ranks/ranks_core.h"

#include <stdio.h>
#include <stdlib.h>

#include <telpher/mdr.h>

enum { READY, TAKE, ENTRIES };

struct entry_way {
    struct ranks_pair *pair;
    telpher_mdr *mdr;
    telpher_mdr_array group;
    bool ready;
    unsigned posted, came, sending, window;
    uint8_t *places; /* of the window's messages */
};

static void
note_group(telpher_mdr_call *call)
{
    struct entry_way *w = telpher_mdr_user(call->mdr);

    w->group = call->array;
    w->ready = true;
}

static void
post(telpher_mdr_call *call)
{
    struct entry_way *w = telpher_mdr_user(call->mdr);
    size_t place = w->posted++ % w->window * w->pair->work.stride;

    call->buffers[0].data = w->places + place;
}

static void
take(telpher_mdr_call *call)
{
    struct entry_way *w = telpher_mdr_user(call->mdr);

    ranks_check(w->pair, call->status, "entry");
    w->came++;
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [READY] = TELPHER_MDR_ENTRY_VOID(note_group),
    [TAKE] = TELPHER_MDR_ENTRY_POST(take, post, uint64_t),
};
static const telpher_mdr_class objects = {.struct_size = sizeof(objects),
                                          .entry_count = ENTRIES,
                                          .name = "object",
                                          .object_size = 8,
                                          .entries = entries};

/* Process 0: all know the group before the first message. */
static void
run_main(telpher_mdr_call *call)
{
    const struct entry_way *w = telpher_mdr_user(call->mdr);
    telpher_mdr_array group;

    ranks_check(w->pair, telpher_mdr_group_create(call->mdr, 0, NULL, 0, &group),
                "group");
    ranks_check(w->pair, telpher_mdr_broadcast(call->mdr, &group, READY, NULL, 0),
                "broadcast");
}

static void
turn(const struct entry_way *w)
{
    if (telpher_mdr_turn(w->mdr) != TELPHER_IN_PROGRESS) {
        fprintf(stderr, "telpher-bench: %s\n", telpher_mdr_last_error(w->mdr));
        exit(EXIT_FAILURE);
    }
}

static void
entry_open(struct ranks_pair *p)
{
    struct entry_way *w = calloc(1, sizeof(*w));
    uint32_t number;

    ranks_check(p, w != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY, "memory");
    w->pair = p;
    w->window = (unsigned)p->o->window;
    w->places = p->in;
    p->way = w;
    ranks_check(p, telpher_mdr_create(p->ctx, &w->mdr, NULL), "telpher_mdr_create");
    ranks_check(p, telpher_mdr_class_register(w->mdr, &objects, &number), "class");
    ranks_check(p, telpher_mdr_begin(w->mdr, run_main, w), "telpher_mdr_begin");
    while (!w->ready) {
        turn(w);
    }
}

static void
entry_close(struct ranks_pair *p)
{
    struct entry_way *w = p->way;

    ranks_check(p, telpher_barrier(p->ctx, UINT64_C(60000000000)), "barrier");
    telpher_mdr_exit(w->mdr, TELPHER_OK);
    (void)telpher_mdr_turn(w->mdr);
    telpher_mdr_destroy(w->mdr);
    free(w);
}

static void
note_sent(void *user, telpher_status status, size_t len)
{
    struct entry_way *w = user;

    (void)len;
    ranks_check(w->pair, status, "entry");
    w->sending--;
}

static void
entry_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    struct entry_way *w = p->way;
    const telpher_msg_buffer buffer = {(void *)(uintptr_t)src, len};
    const telpher_mdr_index to = {{(int32_t)p->peer, 0, 0}};
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = note_sent, .user = w};
    uint64_t number = (uint64_t)i;

    w->sending++;
    ranks_check(p,
                telpher_mdr_invoke(w->mdr, &w->group, to, TAKE, &number, sizeof(number),
                                   &buffer, 1, &xfer),
                "telpher_mdr_invoke");
}

static void
entry_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    (void)p, (void)i, (void)dst, (void)len;
}

static void
entry_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct entry_way *w = p->way;

    while (w->came < (unsigned)recvs || (sends != 0 && w->sending != 0)) {
        turn(w);
    }
    w->came -= (unsigned)recvs;
}

const struct ranks_way ranks_entry_way = {.name = "entry",
                                          .one_place = true,
                                          .title = "Entry Method",
                                          .job = &ranks_telpher_job,
                                          .open = entry_open,
                                          .close = entry_close,
                                          .begin_send = entry_begin_send,
                                          .begin_recv = entry_begin_recv,
                                          .wait_all = entry_wait_all};
