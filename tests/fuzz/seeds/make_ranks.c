/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeds of fuzz_net_tcp: frames of a rank (docs/comm.md sections 3 and 4) that keeps its
 * word, and of one that breaks it in each way that was thought of. What it may name: the
 * context has receives of 100 bytes, 200000 and 200000 in a device posted in channel 1, a
 * get of 4096, a rendezvous and a staged send of 200000, a message of two buffers, a put of 4096.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "make_corpus.h"

#include "wire/comm.h"

enum { EAGER = 1, CONTROL, DATA }; /* frames of TCP */
enum { RTS = 1, CTS, REJECT }; /* of the engine */
/* The context's engine counts: it offers a channel's data and a message's buffer, then come
 * ids of what it receives. */
enum { OUT_ID = 1, OUT_ID_2, IN_ID };
enum { BIG = 200000, MEMORY = 1 << 20 };

struct frame {
    uint8_t type, header_len;
    uint16_t reserved;
    uint32_t id;
    uint64_t len;
};

static uint8_t bytes[MEMORY];
static size_t used;

static void
put(const void *data, size_t len)
{
    memcpy(bytes + used, data, len);
    used += len;
}

/* A frame, its header, and @p here bytes of data behind it. */
static void
frame(uint8_t type, uint32_t id, uint64_t len, const struct tp_comm_header *h,
      size_t here)
{
    const struct frame f = {
        .type = type, .header_len = h != NULL ? sizeof(*h) : 0, .id = id, .len = len};

    put(&f, sizeof(f));
    if (h != NULL) {
        put(h, sizeof(*h));
    }
    memset(bytes + used, 'x', here);
    used += here;
}

/* A frame of the engine. */
static void
control(uint32_t kind, uint32_t id, uint64_t len, const struct tp_comm_header *h)
{
    const struct frame f = {.type = CONTROL,
                            .header_len = (uint8_t)(24 + (h != NULL ? sizeof(*h) : 0))};
    const struct {
        uint32_t kind, id;
        uint64_t len, at;
    } rndv = {kind, id, len, kind == CTS};

    put(&f, sizeof(f));
    put(&rndv, sizeof(rndv));
    if (h != NULL) {
        put(h, sizeof(*h));
    }
}

static void
data(uint32_t id, size_t len)
{
    frame(DATA, id, len, NULL, len);
}

static void
end(const char *name)
{
    save("net_tcp", name, bytes, used);
    used = 0;
}

/* An eager message of a kind with as much data as its header says; where the length is that of
 * what is wanted, none. */
static void
eager(struct tp_comm_header h)
{
    bool data =
        h.how == TP_COMM_EAGER && h.kind != TP_COMM_GET && h.kind != TP_COMM_PULL;

    frame(EAGER, 0, data ? h.len : 0, &h, data ? (size_t)h.len : 0);
}

/* A message in short form. @param len  of its parameters, after the header; 0: in the data */
static void
short_message(uint16_t handler, const char *params, size_t len, const char *after,
              size_t after_len)
{
    const struct tp_comm_short h = {.kind = TP_COMM_SHORT, .handler = handler};
    const struct frame f = {
        .type = EAGER, .header_len = (uint8_t)(sizeof(h) + len), .len = after_len};

    put(&f, sizeof(f));
    put(&h, sizeof(h));
    put(params, len);
    put(after, after_len);
}

static struct tp_comm_header
channel(uint32_t counter, uint64_t len)
{
    return (struct tp_comm_header){
        .kind = TP_COMM_CHANNEL, .len = len, .a = tp_comm_tag(1, counter)};
}

static void
rndv(uint32_t id, struct tp_comm_header h)
{
    h.how = TP_COMM_RNDV;
    control(RTS, id + 1, h.len, &h);
}

static void
make_good(void)
{
    struct tp_comm_header h = channel(0, 50);

    eager(h);
    rndv(0, channel(1, BIG));
    data(IN_ID, BIG);
    rndv(1, channel(2, BIG)); /* to a device: dropped, and pulled */
    h = (struct tp_comm_header){
        .kind = TP_COMM_PIECE, .len = 65536, .a = (2u << 12) + 1};
    rndv(2, h);
    data(IN_ID, 65536);
    end("receives");

    control(CTS, OUT_ID, BIG, NULL);
    control(CTS, OUT_ID_2, BIG / 2, NULL);
    h = (struct tp_comm_header){
        .kind = TP_COMM_PULL, .xfer = 4096, .len = BIG, .a = (5u << 12) + 1, .b = 77};
    eager(h);
    end("takes");

    h = (struct tp_comm_header){
        .kind = TP_COMM_MESSAGE, .small = 3, .len = 20, .b = tp_comm_buffers(1, true)};
    frame(EAGER, 0, 20, &h, 0);
    put("\6\0\0\0\0\0\0\0insideparams", 20);
    short_message(3, "params", 6, "inside", 6);
    short_message(3, "", 0, "params", 6);
    h = (struct tp_comm_header){
        .kind = TP_COMM_MESSAGE, .small = 3, .len = 8, .a = 1, .b = 1};
    frame(EAGER, 0, 8, &h, 0);
    put("\0\0\1\0\0\0\0\0", 8);
    rndv(0, (struct tp_comm_header){.kind = TP_COMM_BUFFER, .len = 65536, .a = 1});
    data(IN_ID, 65536);
    end("messages");

    eager((struct tp_comm_header){.kind = TP_COMM_PUT, .len = 96, .a = 4000, .b = 8});
    eager(
        (struct tp_comm_header){.kind = TP_COMM_GOT, .len = 4096, .a = (3u << 12) + 1});
    eager((struct tp_comm_header){.kind = TP_COMM_GET, .xfer = 9, .len = 4096});
    eager((struct tp_comm_header){.kind = TP_COMM_FLUSH, .a = 1});
    end("window");
}

/* Messages to a handler without a post handler: their eager buffers stay where they are. */
static void
make_in_place(void)
{
    struct tp_comm_header h = {.kind = TP_COMM_MESSAGE,
                               .small = 4,
                               .len = 2000,
                               .b = tp_comm_buffers(2, true)};

    short_message(4, "params", 6, "inside", 6);
    short_message(4, "params", 6, "", 0);
    frame(EAGER, 0, h.len, &h, 0); /* long parameters, which are not aligned */
    put("\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    memset(bytes + used, 'x', h.len - 16);
    used += h.len - 16;
    h = (struct tp_comm_header){
        .kind = TP_COMM_MESSAGE, .small = 4, .len = 8, .a = 1, .b = 1};
    frame(EAGER, 0, 8, &h, 0); /* its buffer is dropped */
    put("\0\0\1\0\0\0\0\0", 8);
    rndv(0, (struct tp_comm_header){.kind = TP_COMM_BUFFER, .len = 65536, .a = 1});
    end("messages-in-place");
}

/* Frames that are none. */
static void
make_frames(void)
{
    struct tp_comm_header h = channel(0, 10);

    frame(99, 0, 0, NULL, 0);
    end("no-frame");
    frame(EAGER, 0, 65537, &h, 10);
    end("eager-too-long");
    frame(EAGER, 0, 9, &h, 9);
    end("length-of-another");
    put("\1\377\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    end("header-too-long");
    control(RTS, 1, 0, &h);
    end("rts-of-nothing");
    rndv(0, channel(0, BIG));
    rndv(0, channel(1, BIG));
    end("rts-twice");
    rndv(0, channel(0, UINT64_MAX));
    end("rts-without-end");
    data(IN_ID + 4, 100);
    end("data-unasked");
    rndv(0, channel(0, 50));
    data(IN_ID, 101);
    end("data-beyond-end");
    rndv(0, channel(0, BIG)); /* 100 are wanted of it */
    data(IN_ID, 60);
    data(IN_ID, 60);
    end("data-too-much");
    control(CTS, OUT_ID + 8, 1, NULL);
    end("cts-to-nothing");
    control(CTS, OUT_ID, BIG + 1, NULL);
    end("cts-too-far");
    control(CTS, OUT_ID, BIG, NULL);
    control(CTS, OUT_ID, BIG, NULL);
    end("cts-twice");
    control(CTS, OUT_ID, BIG, NULL);
    control(REJECT, OUT_ID, 0, NULL);
    end("cts-and-reject");
    control(REJECT, OUT_ID, 0, NULL);
    control(REJECT, OUT_ID, 0, NULL);
    end("reject-twice");
}

/* Messages that name what is not theirs. */
static void
make_messages(void)
{
    struct tp_comm_header h = channel(1, 10);

    eager(h);
    end("counter-ahead");
    for (uint32_t i = 0; i < 70; i++) {
        eager(channel(i, 8));
    }
    end("beyond-credit");
    for (uint32_t i = 0; i < 600; i++) {
        h = channel(0, 1);
        h.a = tp_comm_tag(100 + i, 0);
        eager(h);
    }
    end("channels-not-opened");
    eager((struct tp_comm_header){
        .kind = TP_COMM_CREDIT, .a = tp_comm_tag(1, 0), .b = 100});
    end("credit-not-owed");
    eager((struct tp_comm_header){.kind = TP_COMM_MESSAGE_CREDIT, .small = 3, .b = 1});
    end("message-credit-not-owed");
    for (uint32_t slot = 0; slot < 12; slot++) { /* a receive, a send, nothing */
        eager((struct tp_comm_header){
            .kind = TP_COMM_GOT, .len = 100, .a = ((uint64_t)slot << 12) + 1});
        end(slot == 0 ? "got-names-receive" : slot < 3 ? "got-names-other" : "got");
    }
    eager((struct tp_comm_header){
        .kind = TP_COMM_FINISH, .small = 0, .a = (1u << 12) + 1});
    end("finish-of-nothing");
    eager((struct tp_comm_header){
        .kind = TP_COMM_PULL, .xfer = 1, .len = BIG + 1, .a = (5u << 12) + 1});
    end("pull-too-far");
    rndv(0, channel(0, 50));
    rndv(1, channel(1, BIG));
    rndv(2, channel(2, BIG));
    for (uint32_t i = 0; i < 6; i++) {
        rndv(3 + i, (struct tp_comm_header){.kind = TP_COMM_PIECE,
                                            .len = 65536,
                                            .a = (2u << 12) + 1,
                                            .b = i * 65536});
    }
    end("piece-beyond-end");
    for (uint32_t i = 0; i < 3; i++) {
        eager((struct tp_comm_header){
            .kind = TP_COMM_PIECE, .how = TP_COMM_BROKEN, .a = (2u << 12) + 1});
    }
    end("piece-broken");
    eager((struct tp_comm_header){.kind = TP_COMM_PUT, .len = 100, .a = 4000});
    end("put-beyond-end");
    eager((struct tp_comm_header){.kind = TP_COMM_PUT, .len = 8, .b = 1ull << 32});
    end("put-no-window");
    eager((struct tp_comm_header){.kind = TP_COMM_PUT, .a = 0, .b = 65537 + 1});
    end("put-no-tag");
    eager((struct tp_comm_header){.kind = TP_COMM_GET, .len = 4097});
    end("get-beyond-end");
    eager((struct tp_comm_header){.kind = TP_COMM_FLUSHED, .a = 5});
    end("flushed-not-asked");
    eager((struct tp_comm_header){.kind = TP_COMM_BUFFER, .len = 4, .a = 9});
    end("buffer-of-nothing");
    h = (struct tp_comm_header){
        .kind = TP_COMM_MESSAGE, .small = 3, .len = 8, .b = tp_comm_buffers(1, true)};
    frame(EAGER, 0, 8, &h, 0);
    put("\377\377\377\377\377\377\377\377", 8);
    end("message-of-too-much");
    h.b = 17;
    eager(h);
    end("message-of-many");
    h = channel(0, 100);
    h.how = TP_COMM_STAGED;
    frame(EAGER, 0, 60, &h, 60);
    end("blob-of-nonsense");
    for (uint32_t i = 0; i < 9; i++) {
        eager((struct tp_comm_header){.kind = TP_COMM_GATHER, .len = 8, .a = 1 + i});
    }
    end("steps-ahead");
}

/* Longer than what comes before the context acts: ends of pieces that nobody waits for. */
static void
let_it_act(void)
{
    for (unsigned i = 0; i < 100; i++) {
        eager((struct tp_comm_header){
            .kind = TP_COMM_PIECE, .how = TP_COMM_BROKEN, .a = (60u << 12) + 1});
    }
}

/* Requests the data in exported fragments: the sender copies them to chunks at once. */
static void
pull_exported(uint64_t len, uint32_t piece)
{
    eager((struct tp_comm_header){.kind = TP_COMM_PULL,
                                  .small = TP_COMM_PULL_EXPORTED,
                                  .xfer = piece,
                                  .len = len,
                                  .a = (4u << 12) + 1,
                                  .b = 77});
    control(REJECT, OUT_ID, 0, NULL);
    let_it_act();
}

static void
taken(uint64_t offset, enum tp_comm_end how)
{
    eager((struct tp_comm_header){.kind = TP_COMM_TAKEN,
                                  .small = (uint16_t)how,
                                  .a = (4u << 12) + 1,
                                  .b = offset});
}

static void
make_exported(void)
{
    struct tp_comm_header h = {.kind = TP_COMM_PIECE,
                               .how = TP_COMM_EXPORTED,
                               .len = 100,
                               .a = (2u << 12) + 1};

    pull_exported(BIG, 4096);
    taken(4096, TP_COMM_END_DONE);
    taken(0, TP_COMM_END_REFUSED);
    taken(8192, TP_COMM_END_DONE);
    end("lent");
    pull_exported(BIG, 4096);
    taken(0, TP_COMM_END_DONE);
    taken(0, TP_COMM_END_DONE);
    end("taken-twice");
    pull_exported(BIG, 4096);
    taken(17, TP_COMM_END_DONE);
    end("taken-not-lent");
    pull_exported(1, 1);
    taken(0, TP_COMM_END_DONE);
    end("pull-of-one-byte");
    rndv(0, channel(0, 50));
    rndv(1, channel(1, BIG));
    rndv(2, channel(2, BIG));
    frame(EAGER, 0, 60, &h, 60);
    end("lent-nonsense");
}

void
make_rank_seeds(void)
{
    make_good();
    make_in_place();
    make_frames();
    make_messages();
    make_exported();
}
