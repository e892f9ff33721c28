/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of other processes (docs/rma.md section 9): commands, with data after them or in a
 * buffer, hellos, parts of groups, failures. An input is a list of steps of a process of
 * three, whose ranks have a window, memory in a reduction, gets and flushes under way and
 * calls of groups; this file stands in for libtelpher. Nothing may be read or written but what
 * was offered: sanitizers see the rest.
 */
#include "support/input.h"

#include "base/alloc.h"
#include "base/container/list.h"
#include "rma/gpu/link_int.h"
#include "rma/processes/spread.h"
#include <telpher/mem.h>
#include <telpher/server.h>

enum {
    COUNT = 3, /* processes */
    RANKS = 2, /* of each */
    PART = 1500, /* [bytes] of a rank's part of the window */
    OWN_MAX = 64, /* steps of our ranks in an input */
    LATER = 8 /* messages whose data is under way */
};

/* ---- the core ---- */

static telpher_msg_fn on_post, on_entry;
static void *handler_user, *end_user;
static void (*end_fn)(void *user);
static uint32_t own;
static telpher_status peers;
static void (*on_progress)(void);

static telpher_context *
context(void)
{
    static int it;

    return (telpher_context *)(void *)&it;
}

uint32_t
telpher_context_size(const telpher_context *ctx)
{
    (void)ctx;
    return COUNT;
}

uint32_t
telpher_context_rank(const telpher_context *ctx)
{
    (void)ctx;
    return own;
}

uint32_t
telpher_context_local_size(const telpher_context *ctx)
{
    (void)ctx;
    return 1;
}

telpher_status
telpher_context_at_end(telpher_context *ctx, void (*fn)(void *user), void *user)
{
    (void)ctx;
    end_fn = fn;
    end_user = user;
    return TELPHER_OK;
}

size_t
telpher_msg_params_max(const telpher_context *ctx, uint32_t rank)
{
    (void)ctx;
    (void)rank;
    return 4096;
}

uint32_t
telpher_msg_credits(const telpher_context *ctx, uint32_t rank, uint32_t handler)
{
    (void)ctx;
    require(rank < COUNT && rank != own && handler == TP_RMA_COMMAND_HANDLER);
    return UINT32_MAX;
}

telpher_status
telpher_msg_handler_ordered(telpher_context *ctx, uint32_t handler, uint32_t credits,
                            telpher_msg_fn post, telpher_msg_fn entry, void *user)
{
    (void)ctx;
    require(credits ==
            (handler == TP_RMA_COMMAND_HANDLER ? TP_RMA_COMMAND_CREDITS : 0));
    on_post = post;
    on_entry = entry;
    handler_user = user;
    return TELPHER_OK;
}

/* Reads all bytes of a message, so that sanitizers see them. */
telpher_status
telpher_msg_send(telpher_context *ctx, uint32_t rank, uint32_t handler,
                 const void *params, size_t params_len,
                 const telpher_msg_buffer *buffers, size_t count,
                 const telpher_xfer_params *xfer, telpher_request **ret_req)
{
    (void)ctx;
    (void)handler;
    (void)xfer;
    (void)ret_req;
    require(rank < COUNT && rank != own && params_len >= sizeof(telpher_rma_command));
    touch(params, params_len);
    for (size_t i = 0; i < count; i++) {
        touch(buffers[i].data, buffers[i].len);
    }
    return TELPHER_OK;
}

telpher_status
telpher_peer_status(const telpher_context *ctx, uint32_t rank)
{
    (void)ctx;
    (void)rank;
    return peers;
}

unsigned
telpher_progress(telpher_context *ctx)
{
    (void)ctx;
    return 0;
}

telpher_status
telpher_progress_wait(telpher_context *ctx, uint64_t timeout_ns)
{
    (void)ctx;
    (void)timeout_ns;
    if (on_progress != NULL) {
        on_progress();
    }
    return TELPHER_ERR_TIMEOUT;
}

void
telpher_wake(telpher_context *ctx)
{
    (void)ctx;
}

int
telpher_is_launched(void)
{
    return 0;
}

const char *
telpher_config_get(const char *name)
{
    (void)name;
    return NULL;
}

/* Stubs that no input reaches. */
telpher_status
telpher_context_create(const telpher_context_params *params, telpher_context **ret_ctx,
                       telpher_error *err)
{
    (void)params;
    (void)ret_ctx;
    (void)err;
    return TELPHER_ERR_UNSUPPORTED;
}

void
telpher_context_destroy(telpher_context *ctx)
{
    (void)ctx;
}

telpher_status
telpher_peer_disconnect(telpher_context *ctx, uint32_t rank)
{
    (void)ctx;
    (void)rank;
    return TELPHER_OK;
}

unsigned
telpher_progress_sleep(telpher_context *ctx, uint64_t timeout_ns)
{
    (void)timeout_ns;
    return telpher_progress(ctx);
}

telpher_status
telpher_mem_copy(telpher_context *ctx, void *dst, const void *src, size_t len)
{
    (void)ctx;
    memcpy(dst, src, len);
    return TELPHER_OK;
}

void
telpher_mem_keep_open(telpher_context *ctx, int keep)
{
    (void)ctx;
    (void)keep;
}

/* ---- a process ---- */

/* One of which post has named the place. */
struct later {
    telpher_rma_command c;
    telpher_msg msg;
    telpher_msg_buffer buffer;
};

struct process {
    telpher_rma_job *job;
    struct tp_rma_run *run;
    struct tp_rma_link link;
    uint8_t *parts[RANKS], *brought[RANKS], *got[RANKS];
    struct later later[LATER];
    unsigned later_count, own_steps;
};

static void
body(telpher_rma *rma)
{
    (void)rma;
}

static const telpher_rma_kernel kernel = {.abi = TELPHER_RMA_ABI,
                                          .state_size = sizeof(telpher_rma),
                                          .calls_size = sizeof(telpher_rma_calls),
                                          .name = "fuzz",
                                          .body = body};

static struct tp_rma_group *
world_of(const struct process *p)
{
    return atomic_load(&p->run->groups[0]);
}

/* Window 0 of the world is open: what its members brought together. */
static void
open_window(struct process *p)
{
    struct tp_rma_group *group = world_of(p);

    for (uint32_t i = 0; i < group->size; i++) {
        const bool here = i / RANKS == own;

        group->slots[i].op = TP_RMA_OP_WIN_CREATE;
        group->slots[i].where = "fuzz.c:1";
        group->slots[i].base =
            here ? (char *)p->parts[i % RANKS] : (char *)(uintptr_t)64;
        group->slots[i].len = PART;
    }
    group->result = 0;
    tp_rma_window_create_all(p->run, group);
}

static void
begin(struct process *p, uint8_t flags)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_status status = TELPHER_OK;

    *p = (struct process){.job = NULL};
    own = flags & 1;
    peers = TELPHER_OK;
    params.ranks = RANKS;
    params.tags = 8;
    params.workers = 1;
    params.timeout_ns = 1000000;
    params.context = context();
    require(telpher_rma_create(&params, &p->job, NULL) == TELPHER_OK);
    p->run = tp_rma_run_create(p->job, &kernel, NULL, &status);
    require(p->run != NULL);
    for (uint32_t i = 0; i < RANKS; i++) {
        p->parts[i] = calloc(1, PART);
        p->brought[i] = calloc(1, PART);
        p->got[i] = calloc(1, PART);
        require(p->parts[i] != NULL && p->brought[i] != NULL && p->got[i] != NULL);
    }
    p->job->world->serial = 1;
    p->job->world->run = p->run;
    if ((flags & 2) !=
        0) { /* ranks on a GPU, which takes no deliveries, nor is waited for */
        p->link = (struct tp_rma_link){.job = p->job, .run = p->run, .over = true};
        p->link.api.process = own;
        p->link.shared = calloc(1, telpher_rma_link_size(RANKS));
        require(p->link.shared != NULL);
        tp_mutex_init(&p->link.push);
        p->run->link = &p->link;
    }
    open_window(p);
}

/* Data of a delivery to a GPU must lie beside its line. */
static void
look_at_deliveries(const struct process *p)
{
    for (uint64_t i = 0; i < p->link.pushed && i < TELPHER_RMA_DELIVERIES; i++) {
        telpher_rma_words words;
        telpher_rma_command c;

        for (int k = 0; k < 8; k++) {
            words.words[k] = (uint32_t)p->link.shared->lines[i].words[k];
        }
        telpher_rma_link_unpack(&words, &c);
        require((c.flags & TELPHER_RMA_LINK_IS_BESIDE) == 0 ||
                c.len <= TELPHER_RMA_BESIDE);
    }
}

static void
finish(struct process *p)
{
    struct tp_rma_world *w = p->job->world;
    const struct tp_rma_window *window = atomic_load(&p->run->windows[0]);

    for (unsigned i = 0; i < p->later_count; i++) {
        p->later[i].msg.status = TELPHER_ERR_PEER_LOST;
        on_entry(context(), &p->later[i].msg, handler_user);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        require(w->processes[i].incoming == 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct tp_rma_part *part = &window->parts[own * RANKS + i];

        require(part->base == (char *)p->parts[i] && part->len == PART);
        require(atomic_load(&p->run->ranks[own * RANKS + i].answers) <= OWN_MAX);
    }
    look_at_deliveries(p);
    w->run = NULL;
    tp_rma_run_destroy(p->run);
    tp_free(p->link.early);
    free(p->link.shared);
    for (uint32_t i = 0; i < RANKS; i++) {
        free(p->parts[i]);
        free(p->brought[i]);
        free(p->got[i]);
    }
}

/* Another comes to the launch, or says that it does not go on. */
static void
greet_from(uint32_t process, telpher_status status)
{
    const struct tp_rma_world *w = handler_user;
    struct {
        telpher_rma_command c;
        struct tp_rma_hello hello;
    } it = {.c = {.op = TP_RMA_CONTROL_HELLO},
            .hello = w->processes[own].hellos[w->serial % 2]};
    telpher_msg msg = {.from = process,
                       .handler = TP_RMA_CONTROL_HANDLER,
                       .params = &it,
                       .params_len = sizeof(it)};

    it.hello.status = (uint32_t)status;
    on_entry(context(), &msg, handler_user);
}

static void
greet(void)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i != own) {
            greet_from(i, TELPHER_OK);
        }
    }
}

/* All others come to the launch, and end. */
static void
greet_and_end(void)
{
    greet();
    peers = TELPHER_ERR_PEER_LOST;
}

static void
tell_early(telpher_status status)
{
    const struct tp_rma_world *w = handler_user;
    struct {
        telpher_rma_command c;
        char words[8];
    } it = {.c = {.op = TP_RMA_CONTROL_FAILED,
                  .tag = (uint32_t)status,
                  .launch = w->serial},
            .words = "early"};
    telpher_msg msg = {.from = (own + 1) % COUNT,
                       .handler = TP_RMA_CONTROL_HANDLER,
                       .params = &it,
                       .params_len = sizeof(it)};

    on_entry(context(), &msg, handler_user);
}

/* Another has heard of all, and its ranks have failed before this process has. */
static void
fail_early(void)
{
    tell_early(TELPHER_ERR_PEER_LOST);
    on_progress = greet;
}

/* Another does not go on, and the third never comes. */
static void
refuse_early(void)
{
    greet_from((own + 1) % COUNT, TELPHER_ERR_DEVICE);
    tell_early(TELPHER_ERR_DEVICE);
}

/* A launch that fails before it has begun here is not the last one; if it has begun elsewhere
 * it does so here. */
static void
come_to_failed_launch(struct process *p, void (*early)(void), telpher_status expected)
{
    const struct tp_rma_coming coming = {.own = TELPHER_OK};
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status = TELPHER_OK;
    struct tp_rma_run *run = tp_rma_run_create(p->job, &kernel, NULL, &status);

    require(run != NULL);
    on_progress = early;
    peers = TELPHER_OK;
    status = tp_rma_remote_begin(p->job->world, run, p->job, &kernel, &coming, &err);
    on_progress = NULL;
    require(status == expected && atomic_load(&run->status) != TELPHER_OK);
    require(strstr(run->report, "early") != NULL);
    require(!p->job->world->broken);
    p->job->world->run = NULL;
    tp_rma_run_destroy(run);
}

/* Received hellos are checked when this process enters the launch. */
static void
come_to_next_launch(struct process *p, bool greet)
{
    const struct tp_rma_coming coming = {.own = TELPHER_OK};
    telpher_error err = {TELPHER_OK, {0}};
    size_t len;

    on_progress = greet ? greet_and_end : NULL;
    peers = greet ? TELPHER_OK : TELPHER_ERR_PEER_LOST;
    if (tp_rma_remote_begin(p->job->world, NULL, p->job, &kernel, &coming, &err) ==
        TELPHER_OK) {
        require(!p->job->world->processes[(own + 1) % COUNT].lost);
    }
    on_progress = NULL;
    require(memchr(err.text, '\0', sizeof(err.text)) != NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        const void *address = tp_rma_remote_address(p->job->world, i, &len);

        if (address != NULL) {
            touch(address, len);
        }
    }
}

/* ---- what comes ---- */

static uint64_t
number(struct input *in, uint64_t small)
{
    uint8_t how = input_u8(in);

    return how < 128   ? how % small
           : how < 250 ? (uint64_t)(how - 128) * 16
                       : UINT64_MAX - how;
}

static telpher_rma_command
command(struct input *in, const struct process *p)
{
    telpher_rma_command c = {.launch = p->job->world->serial};
    uint8_t op = input_u8(in);

    c.op = op < 128 ? op % 8 : (uint16_t)(TELPHER_RMA_COMMAND_CONTROL + op % 10);
    c.flags = input_u8(in) % 8;
    c.tag = (uint32_t)number(in, 9);
    c.from = (uint32_t)number(in, COUNT * RANKS);
    c.to = (uint32_t)number(in, COUNT * RANKS);
    c.where = (int32_t)number(in, 4);
    c.off = number(in, PART);
    c.len = number(in, PART + 1);
    c.local = number(in, 100);
    c.number = number(in, 4) | (uint64_t)input_u8(in) << 32;
    c.launch += input_u8(in) >= 250;
    return c;
}

/* Bytes of a body, to be copied: parts of groups by their form, others as they are. */
static size_t
content(struct input *in, const telpher_rma_command *c, uint8_t *ret, size_t most)
{
    size_t len = input_u8(in) < 200 && c->len <= most ? (size_t)c->len : 0, at = 0;
    const uint8_t *bytes;
    size_t count;

    if (c->op == TP_RMA_CONTROL_ARRIVED && c->tag == 0) {
        struct arrival_body b = {.op = input_u8(in) % (TP_RMA_OP_TIMER + 2)};

        for (int i = 0; i < 3; i++) {
            b.args[i] = number(in, 8);
        }
        b.number = (int32_t)number(in, 16) - 2;
        memset(b.where, 'x', sizeof(b.where));
        memcpy(ret, &b, sizeof(b));
        at = sizeof(b);
        len = at + number(in, 128) % 256;
    } else if (c->op == TP_RMA_CONTROL_HELLO) {
        struct tp_rma_hello h = {.serial = (uint32_t)number(in, 8),
                                 .abi = TELPHER_RMA_ABI,
                                 .ranks = RANKS,
                                 .devices = 1,
                                 .tags = 8,
                                 .lanes = 1,
                                 .status = (uint32_t)number(in, 2),
                                 .block = {1, 1, 1},
                                 .kernel = "fuzz"};

        memset(h.text, 'w', input_u8(in) % (sizeof(h.text) + 1));
        memcpy(ret, &h, sizeof(h));
        at = sizeof(h);
        len = number(in, 128) % (at + 128);
    } else if (c->op > TP_RMA_CONTROL_GOT) {
        len = number(in, 64) % most;
    }
    len = len < most ? len : most;
    if (at < len) {
        count = input_bytes(in, len - at, &bytes);
        memcpy(ret + at, bytes, count);
    }
    return len;
}

static void
send_inside(struct process *p, struct input *in, uint32_t from)
{
    uint8_t whole[sizeof(telpher_rma_command) + 2048] = {0}, *exact;
    telpher_rma_command c = command(in, p);
    size_t len = content(in, &c, whole + sizeof(c), 2048);
    telpher_msg msg = {
        .struct_size = sizeof(msg), .from = from, .handler = tp_rma_handler_of(c.op)};

    memcpy(whole, &c, sizeof(c));
    msg.params_len = sizeof(c) + len - (input_u8(in) == 255 ? sizeof(c) : 0);
    msg.params_len = msg.params_len < sizeof(whole) ? msg.params_len : 0;
    exact = aligned_alloc(16, msg.params_len / 16 * 16 + 16);
    require(exact != NULL);
    memcpy(exact, whole, msg.params_len);
    msg.params = exact;
    on_entry(context(), &msg, handler_user);
    free(exact);
}

static void
send_buffer(struct process *p, struct input *in, uint32_t from)
{
    struct later *l = &p->later[p->later_count];
    uint8_t bytes[2048] = {0};
    size_t len;

    if (p->later_count == LATER) {
        return;
    }
    l->c = command(in, p);
    len = content(in, &l->c, bytes, sizeof(bytes));
    l->buffer = (telpher_msg_buffer){.len = len};
    l->msg = (telpher_msg){.struct_size = sizeof(l->msg),
                           .from = from,
                           .handler = tp_rma_handler_of(l->c.op),
                           .buffer_count = 1 + (input_u8(in) == 255),
                           .params = &l->c,
                           .params_len = sizeof(l->c) - (input_u8(in) == 255),
                           .buffers = &l->buffer};
    on_post(context(), &l->msg, handler_user);
    if (l->buffer.data != NULL && len != 0) {
        memcpy(l->buffer.data, bytes, len);
    }
    p->later_count++;
}

/* Contribution of a process that enters our ranks' call of the world, one byte changed. */
static void
arrive(struct process *p, struct input *in, uint32_t from)
{
    const struct tp_rma_group *group = world_of(p);
    const struct tp_rma_slot *mine = &group->slots[own * RANKS];
    const bool first_round = group->spread->phase == 0;
    struct arrival_body b = {.op = mine->op,
                             .number = (int32_t)(input_u8(in) % 4 * COUNT),
                             .where = "there"};
    uint8_t whole[sizeof(telpher_rma_command) + sizeof(b) + 16 * RANKS] = {0};
    telpher_rma_command c = {.op = TP_RMA_CONTROL_ARRIVED,
                             .launch = p->job->world->serial,
                             .where = group->number,
                             .tag = group->spread->phase,
                             .number = group->spread->generation};
    size_t at = sizeof(c), each = mine->op == TP_RMA_OP_SPLIT ? 8 : 16, changed;
    telpher_msg msg = {
        .struct_size = sizeof(msg), .from = from, .handler = TP_RMA_CONTROL_HANDLER};
    const uint8_t *bytes;

    memcpy(b.args, mine->args, sizeof(b.args));
    memcpy(whole, &c, sizeof(c));
    if (first_round) {
        memcpy(whole + at, &b, sizeof(b));
        at += sizeof(b);
        each = mine->op == TP_RMA_OP_BARRIER ? 0 : each;
        for (size_t n = input_bytes(in, input_u8(in) % (each + 1), &bytes); n-- > 0;) {
            whole[at + n] = bytes[n];
        }
        at += each * RANKS;
    } else if (mine->op == TP_RMA_OP_SPLIT) {
        const int32_t number = (int32_t)(from + COUNT * (1 + input_u8(in) % 4));

        memcpy(whole + at, &number, sizeof(number));
        at += input_u8(in) % 3 * sizeof(number);
    }
    changed = input_u8(in);
    whole[changed % at] ^= changed != 0 ? input_u8(in) : 0;
    msg.params = whole;
    msg.params_len = at;
    on_entry(context(), &msg, handler_user);
}

/* The first one of which data was under way is all here, or will never be. */
static void
enter_first(struct process *p, telpher_status status)
{
    if (p->later_count != 0) {
        struct later l = p->later[0];

        l.msg.params = &l.c;
        l.msg.buffers = &l.buffer;
        l.msg.status = status;
        on_entry(context(), &l.msg, handler_user);
        memmove(p->later, p->later + 1, --p->later_count * sizeof(l));
        for (unsigned i = 0; i < p->later_count; i++) {
            p->later[i].msg.params = &p->later[i].c;
            p->later[i].msg.buffers = &p->later[i].buffer;
        }
    }
}

/* ---- what our ranks do ---- */

static void
fold_open(struct process *p, uint32_t rank)
{
    struct tp_rma_slot *slot = tp_rma_group_slot(&p->run->ranks[rank], world_of(p));

    slot->op = TP_RMA_OP_REDUCE;
    slot->fold = (telpher_rma_fold){.src = p->brought[rank % RANKS],
                                    .dst = p->brought[rank % RANKS],
                                    .count = PART / 8,
                                    .type = TELPHER_RMA_F64};
}

static void
meet(struct process *p, struct input *in)
{
    static const enum tp_rma_op ops[] = {TP_RMA_OP_BARRIER, TP_RMA_OP_WIN_CREATE,
                                         TP_RMA_OP_SPLIT, TP_RMA_OP_REDUCE};
    struct tp_rma_group *group = world_of(p);
    const uint32_t first = own * RANKS;
    const enum tp_rma_op op = ops[input_u8(in) % 4];

    if (group->spread->here || atomic_load(&p->run->status) != TELPHER_OK) {
        return; /* our members wait there */
    }
    for (uint32_t i = first; i < first + RANKS; i++) {
        struct tp_rma_slot *slot = &group->slots[i];

        *slot = (struct tp_rma_slot){.op = op, .where = "fuzz.c:2", .len = PART};
        slot->base = (char *)p->got[i % RANKS];
        slot->color = input_u8(in) % 3 - 1;
        if (op == TP_RMA_OP_REDUCE) {
            fold_open(p, i);
            slot->fold.count = 2;
            slot->args[1] = 2;
            slot->args[2] = (uint64_t)TELPHER_RMA_F64 << 16;
        }
    }
    tp_rma_spread_meet(&p->run->ranks[first].lanes[0], group,
                       atomic_load(&group->generation),
                       op == TP_RMA_OP_WIN_CREATE ? tp_rma_window_create_all : NULL);
}

static void
do_own(struct process *p, struct input *in)
{
    const uint32_t rank = own * RANKS + input_u8(in) % RANKS;
    const uint32_t to = (own + 1) % COUNT * RANKS;
    struct tp_rma_lane *lane = p->run->ranks[rank].lanes;
    const struct tp_rma_call call = {TP_RMA_OP_GET, "fuzz.c:3", {0}, NULL};
    telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_GET,
                             .from = rank,
                             .to = to,
                             .len = PART / 2,
                             .local = (uintptr_t)p->got[rank % RANKS]};

    if (p->own_steps++ >= OWN_MAX) {
        return;
    }
    switch (input_u8(in) % 4) { /* the rest is meetings */
    case 0:
        (void)tp_rma_remote_ask(lane, &call, &c);
        break;
    case 1:
        c.op = TELPHER_RMA_COMMAND_FLUSH;
        p->run->ranks[rank].unflushed[(own + 1) % COUNT] = TP_RMA_FLUSHING;
        (void)tp_rma_remote_ask(lane, &call, &c);
        break;
    case 2:
        if (!world_of(p)->spread->here) { /* else it waits in another call */
            fold_open(p, rank);
        }
        break;
    default:
        meet(p, in);
        break;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, data + len};
    static struct process p;
    const uint64_t before = tp_alloc_live();

    setenv("TELPHER_LOG", "none", 1);
    const uint8_t flags = input_u8(&in);

    begin(&p, flags);
    while (input_left(&in) > 0) {
        const uint8_t step = input_u8(&in);
        const uint32_t from = (own + 1 + step / 8 % 2) % COUNT;

        switch (step % 8) {
        case 0:
        case 1:
        case 2:
            send_inside(&p, &in, from);
            break;
        case 3:
        case 4:
            send_buffer(&p, &in, from);
            break;
        case 5:
            enter_first(&p, step < 200 ? TELPHER_OK : TELPHER_ERR_NO_MEMORY);
            break;
        case 6:
            arrive(&p, &in, from);
            break;
        default:
            do_own(&p, &in);
            break;
        }
    }
    finish(&p);
    if (flags == 8 && len == 1) { /* nothing that came before is in its way */
        come_to_failed_launch(&p, refuse_early, TELPHER_ERR_DEVICE);
        come_to_failed_launch(&p, fail_early, TELPHER_OK);
    }
    come_to_next_launch(&p, (flags & 4) != 0);
    telpher_rma_destroy(p.job);
    end_fn(end_user);
    require(tp_alloc_live() == before || before == 0);
    return 0;
}
