/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtimes of message-driven objects, one in each of two processes: an entry method of the other is
 * invoked with a buffer, and its post entry names where the buffer arrives; or a channel joins them.
 */
#include "bench/ranks/ranks_core.h"

#include <stdio.h>
#include <stdlib.h>

#include <telpher/mdr_dynamic.h>

enum { READY, TAKE, ENTRIES };

struct entry_runtime {
    struct ranks_pair *pair;
    telpher_mdr *mdr;
    telpher_mdr_call own; /* this process's object */
    telpher_mdr_channel channel; /* to the other's */
    bool ready;
    unsigned posted, wanted, came, sending, window;
    uint8_t *places; /* of the window's messages */
    void *
        *receives; /* memory of receives from the channel; NULL: entries are invoked */
};

static void
note_group(telpher_mdr_call *call)
{
    struct entry_runtime *w = telpher_mdr_user(call->mdr);

    w->own = *call;
    w->channel.array = call->array;
    w->channel.index.at[0] = (int32_t)w->pair->peer;
    w->ready = true;
}

static void
post(telpher_mdr_call *call)
{
    struct entry_runtime *w = telpher_mdr_user(call->mdr);
    unsigned slot = w->posted++ % w->window;

    call->buffers[0].data = w->receives != NULL
                                ? w->receives[slot]
                                : w->places + slot * w->pair->work.stride;
}

static void
take(telpher_mdr_call *call)
{
    struct entry_runtime *w = telpher_mdr_user(call->mdr);

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
    const struct entry_runtime *w = telpher_mdr_user(call->mdr);
    telpher_mdr_array group;

    ranks_check(w->pair, telpher_mdr_group_create(call->mdr, 0, NULL, 0, &group),
                "group");
    ranks_check(w->pair, telpher_mdr_broadcast(call->mdr, &group, READY, NULL, 0),
                "broadcast");
}

static void
turn(const struct entry_runtime *w)
{
    if (telpher_mdr_turn(w->mdr) != TELPHER_IN_PROGRESS) {
        fprintf(stderr, "telpher-bench: %s\n", telpher_mdr_last_error(w->mdr));
        exit(EXIT_FAILURE);
    }
}

static void
open_objects(struct ranks_pair *p, bool channel)
{
    struct entry_runtime *w = calloc(1, sizeof(*w));
    uint32_t number;

    ranks_check(p, w != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY, "memory");
    w->pair = p;
    w->window = (unsigned)p->o->window;
    w->places = p->in;
    p->runtime = w;
    if (channel) {
        w->receives = calloc(w->window, sizeof(*w->receives));
        ranks_check(p, w->receives != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY,
                    "memory");
    }
    ranks_check(p, telpher_mdr_create(p->ctx, &w->mdr, NULL), "telpher_mdr_create");
    ranks_check(p, telpher_mdr_class_register(w->mdr, &objects, &number), "class");
    ranks_check(p, telpher_mdr_begin(w->mdr, run_main, w), "telpher_mdr_begin");
    while (!w->ready) {
        turn(w);
    }
}

static void
entry_open(struct ranks_pair *p)
{
    open_objects(p, false);
}

static void
channel_open(struct ranks_pair *p)
{
    open_objects(p, true);
}

static void
entry_close(struct ranks_pair *p)
{
    struct entry_runtime *w = p->runtime;

    ranks_check(p, telpher_barrier(p->ctx, UINT64_C(60000000000)), "barrier");
    telpher_mdr_exit(w->mdr, TELPHER_OK);
    (void)telpher_mdr_turn(w->mdr);
    telpher_mdr_destroy(w->mdr);
    free(w->receives);
    free(w);
}

static void
note_sent(void *user, telpher_status status, size_t len)
{
    struct entry_runtime *w = user;

    ranks_check(w->pair, status, "entry");
    w->sending--;
}

static void
entry_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    struct entry_runtime *w = p->runtime;
    const telpher_msg_buffer buffer = {(void *)(uintptr_t)src, len};
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = note_sent, .user = w};
    uint64_t number = (uint64_t)i;

    w->sending++;
    if (w->receives != NULL) {
        ranks_check(p,
                    telpher_mdr_channel_send(&w->own, &w->channel, &number,
                                             sizeof(number), &buffer, 1, &xfer),
                    "telpher_mdr_channel_send");
        return;
    }
    ranks_check(p,
                telpher_mdr_invoke(w->mdr, &w->channel.array, w->channel.index, TAKE,
                                   &number, sizeof(number), &buffer, 1, &xfer),
                "telpher_mdr_invoke");
}

static void
entry_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    struct entry_runtime *w = p->runtime;

    if (w->receives != NULL) {
        w->receives[w->wanted++ % w->window] = dst;
        ranks_check(p, telpher_mdr_channel_recv(&w->own, &w->channel, TAKE),
                    "telpher_mdr_channel_recv");
    }
}

static void
entry_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    struct entry_runtime *w = p->runtime;

    while (w->came < (unsigned)recvs || (sends != 0 && w->sending != 0)) {
        turn(w);
    }
    w->came -= (unsigned)recvs;
}

const struct ranks_runtime ranks_entry_runtime = {.name = "entry",
                                                  .one_place = true,
                                                  .title = "Entry Method",
                                                  .job = &ranks_telpher_job,
                                                  .open = entry_open,
                                                  .close = entry_close,
                                                  .begin_send = entry_begin_send,
                                                  .begin_recv = entry_begin_recv,
                                                  .wait_all = entry_wait_all};
const struct ranks_runtime ranks_object_runtime = {.name = "object",
                                                   .title = "Channel of Objects",
                                                   .job = &ranks_telpher_job,
                                                   .open = channel_open,
                                                   .close = entry_close,
                                                   .begin_send = entry_begin_send,
                                                   .begin_recv = entry_begin_recv,
                                                   .wait_all = entry_wait_all};
