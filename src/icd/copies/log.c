/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a session with copies: the frames that the second server does not have yet, in the
 * order of the calls. A command stays in it until it is committed, and then leaves it; it never
 * runs on the second server. All other frames go there when no command is before them. Without a
 * second server a command stays until it ends, and other frames are kept for a new one: objects.c.
 */
#include "icd/copies/copies_int.h"
#include "icd/copies/variables.h"
#include "icd/icd.h"

#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"

enum {
    LOG_MAX = 64 << 20, /* [bytes] from which calls wait for a commit */
    LOG_MOST =
        128
        << 20, /* behind a command that waits for the program, which must not wait */
};

/** How frames of a type are handled. */
enum kind {
    PLAIN, /**< goes to the second server in order */
    COMMAND,
    REQUEST, /**< has an answer without which later frames fail */
    CREATE, /**< goes to both servers at once: copies need it */
    DIRECT, /**< concerns the first server alone */
    REFUSED, /**< its effects cannot be copied or repeated */
};

/** Where a command has what all commands have, besides event and queue. */
struct command_row {
    uint16_t type;
    bool writes; /**< its description says what */
    uint16_t flags_at, wait_at;
};

#define COMMAND_ROW(NAME, name, writes)                                                \
    {                                                                                  \
        TP_WIRE_##NAME, writes, offsetof(struct tp_wire_##name, flags),                \
            offsetof(struct tp_wire_##name, wait)                                      \
    }
static const struct command_row command_rows[] = {
    COMMAND_ROW(LAUNCH, launch, true),
    COMMAND_ROW(READ, read, false),
    COMMAND_ROW(WRITE, write, true),
    COMMAND_ROW(COPY, copy, true),
    COMMAND_ROW(FILL, fill, true),
    COMMAND_ROW(MARKER, marker, false),
    COMMAND_ROW(BARRIER, barrier, false),
    COMMAND_ROW(MIGRATE, migrate, true),
    COMMAND_ROW(READ_IMAGE, read_image, false),
    COMMAND_ROW(WRITE_IMAGE, write_image, true),
    COMMAND_ROW(COPY_IMAGE, copy_image, true),
    COMMAND_ROW(COPY_IMAGE_TO_BUFFER, copy_image_to_buffer, true),
    COMMAND_ROW(COPY_BUFFER_TO_IMAGE, copy_buffer_to_image, true),
    COMMAND_ROW(FILL_IMAGE, fill_image, true),
};

/** Every command begins so. */
struct command_head {
    uint64_t event, queue;
};

static const struct command_row *
find_command(uint16_t type)
{
    for (size_t i = 0; i < sizeof(command_rows) / sizeof(command_rows[0]); i++) {
        if (command_rows[i].type == type) {
            return &command_rows[i];
        }
    }
    return NULL;
}

static enum kind
kind_of(uint16_t type)
{
    switch (type) {
    case TP_WIRE_CONTEXT_CREATE:
    case TP_WIRE_QUEUE_CREATE:
    case TP_WIRE_BUFFER_CREATE:
    case TP_WIRE_SUB_BUFFER_CREATE:
    case TP_WIRE_IMAGE_CREATE:
    case TP_WIRE_SAMPLER_CREATE:
        return CREATE;
    case TP_WIRE_PROGRAM_SOURCE:
    case TP_WIRE_PROGRAM_FILES:
    case TP_WIRE_KERNEL_CREATE:
    case TP_WIRE_KERNEL_ARG:
    case TP_WIRE_USER_EVENT_CREATE:
    case TP_WIRE_USER_EVENT_SET:
    case TP_WIRE_RELEASE:
    case TP_WIRE_SPEC_CONSTANT:
    case TP_WIRE_PROGRAM_IL:
    case TP_WIRE_ABORT:
        return PLAIN;
    case TP_WIRE_PROGRAM_BUILD:
    case TP_WIRE_PROGRAM_COMPILE:
    case TP_WIRE_PROGRAM_LINK:
    case TP_WIRE_PROGRAM_BINARY:
    case TP_WIRE_PROGRAM_BUILT_IN:
        return REQUEST;
    case TP_WIRE_START:
    case TP_WIRE_PING:
    case TP_WIRE_SUBSCRIBE:
    case TP_WIRE_PROGRAM_BINARIES:
    case TP_WIRE_SUB_GROUP_INFO:
    case TP_WIRE_SUGGESTED_SIZE:
    case TP_WIRE_DEVICE_TIMER:
    case TP_WIRE_PEER_ACCEPT:
    case TP_WIRE_PEER_CONNECT:
    case TP_WIRE_PEER_LOST:
        return DIRECT;
    default:
        return find_command(type) != NULL ? COMMAND : REFUSED;
    }
}

bool
tp_copies_is_creation(uint16_t type)
{
    return kind_of(type) == CREATE;
}

bool
tp_copies_is_request(uint16_t type)
{
    return kind_of(type) == REQUEST;
}

static const void *
member(const void *msg, size_t at)
{
    return (const uint8_t *)msg + at;
}

/** Every REQUEST begins with its id, as every creation does. */
static uint64_t
id_of(const void *msg)
{
    uint64_t id;

    memcpy(&id, msg, sizeof(id));
    return id;
}

/* ---- entries ----------------------------------------------------------------------------- */

static struct tp_copies_entry *
entry_create(uint16_t type, const void *msg, size_t writes)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    struct tp_copies_entry *e =
        tp_zalloc(sizeof(*e) + writes * sizeof(e->writes[0]), "kept frame");

    if (e == NULL) {
        return NULL;
    }
    e->type = type;
    e->len = row->size(msg);
    e->body = tp_malloc(e->len + 1, "kept frame");
    if (e->body == NULL) {
        tp_free(e);
        return NULL;
    }
    row->put(e->body, msg);
    return e;
}

void
tp_copies_forget(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    tp_list_remove(&e->link);
    c->log_bytes -= e->len;
    if (e->event != 0 && tp_map_get(&c->commands, e->event) == e) {
        tp_map_remove(&c->commands, e->event);
    }
    for (size_t i = 0; i < e->write_count; i++) {
        tp_icd_drop_locked(&e->writes[i].root->obj);
    }
    tp_free(e->answer);
    tp_free(e->body);
    tp_free(e);
}

/** Records what a command writes. */
static void
take_writes(const struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    for (size_t i = 0; i < c->use_count; i++) {
        const struct tp_icd_use *use = &c->uses[i];
        struct _cl_mem *root = tp_icd_mem_root(use->mem);
        struct tp_icd_span span = {0, root->size};

        if ((use->how & TP_ICD_USE_WRITE) == 0) {
            continue;
        }
        if (use->mem->image == NULL) { /* rows of an image may lie apart */
            span.from = use->mem->origin + use->offset;
            span.to = span.from + (use->size != 0 ? use->size : use->mem->size);
        }
        tp_icd_hold(&root->obj);
        e->writes[e->write_count++] = (struct tp_copies_write){root, span};
    }
}

/** @return why what the described command does cannot be copied; NULL: it can */
static const char *
find_obstacle(const struct tp_icd_copies *c)
{
    for (size_t i = 0; i < c->use_count; i++) {
        const struct _cl_mem *root = tp_icd_mem_root(c->uses[i].mem);

        if (root->svm != NULL) {
            return "it uses shared virtual memory";
        }
        if (root->exports != NULL) {
            return "it exports a buffer";
        }
    }
    return NULL;
}

/* ---- frames to the servers ---------------------------------------------------------------- */

/** Decodes an entry. @p msg has room for any message. */
static void
decode(const struct tp_copies_entry *e, void *msg)
{
    (void)tp_wire_message(e->type)->get(e->body, e->body + e->len, msg);
}

/** Creates an event on the second server that has ended already: the command of that id is
 *  committed, so it does not run there. */
static void
make_known(struct tp_icd_copies *c, uint64_t event, uint64_t context)
{
    int32_t status = (int32_t)(intptr_t)tp_map_get(&c->failed, event);

    if (tp_map_get(&c->objects, event) != NULL ||
        tp_map_get(&c->known, event) != NULL ||
        tp_map_put(&c->known, event, c) != TELPHER_OK) {
        return;
    }
    tp_icd_put_now(
        c->session, TP_WIRE_USER_EVENT_CREATE,
        &(struct tp_wire_user_event_create){.event = event, .context = context});
    tp_icd_put_now(c->session, TP_WIRE_USER_EVENT_SET,
                   &(struct tp_wire_user_event_set){.event = event, .status = status});
}

/** In a take-over: sees to the events that a command waits for and that were committed. */
static void
prepare_waits(struct tp_icd_copies *c, const struct tp_copies_entry *e, const void *msg)
{
    const struct tp_wire_u64s *wait = member(msg, find_command(e->type)->wait_at);
    const struct tp_copies_queue *q = tp_map_get(&c->queues, e->queue);

    for (size_t i = 0; i < wait->count && q != NULL; i++) {
        make_known(c, tp_wire_u64_at(wait, i), q->context);
    }
    (void)tp_map_put(&c->known, e->event, c);
}

static void
put_id_release(struct tp_icd_session *session, uint64_t id)
{
    tp_icd_put_now(session, TP_WIRE_RELEASE,
                   &(struct tp_wire_release){.ids = {1, &id}});
}

/** Releases the internal objects of objects, on the second server or on the first. */
static void
release_internal(struct tp_icd_copies *c, const struct tp_wire_release *msg,
                 struct tp_icd_session *session, bool there)
{
    for (size_t i = 0; i < msg->ids.count; i++) {
        uint64_t id = tp_wire_u64_at(&msg->ids, i), *queue, none = 0;
        struct tp_copies_context *ctx = tp_map_get(&c->contexts, id);
        struct tp_copies_shadow *shadow = there ? tp_map_get(&c->shadows, id) : NULL;

        queue = ctx == NULL ? &none : there ? &ctx->there : &ctx->here;
        if (*queue != 0) {
            put_id_release(session, *queue);
            *queue = 0;
        }
        if (shadow != NULL && shadow->id != 0) {
            put_id_release(session, shadow->id);
            shadow->id = 0;
        }
    }
}

/** Forgets objects that are released on the second server, or would be. */
static void
forget_objects(struct tp_icd_copies *c, const struct tp_wire_release *msg)
{
    for (size_t i = 0; i < msg->ids.count; i++) {
        uint64_t id = tp_wire_u64_at(&msg->ids, i);

        tp_free(tp_map_remove(&c->shadows, id));
        tp_free(tp_map_remove(&c->contexts, id));
        tp_free(tp_map_remove(&c->queues, id));
        tp_map_remove(&c->known, id);
        tp_map_remove(&c->failed, id);
        tp_map_remove(&c->variables, id);
        tp_map_remove(&c->unset, id);
    }
}

void
tp_copies_send(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    bool takes_over = c->phase == TP_COPIES_TAKEOVER;

    decode(e, msg);
    if (e->event != 0 && takes_over) {
        prepare_waits(c, e, msg);
    }
    if (takes_over && e->type == TP_WIRE_USER_EVENT_CREATE) {
        (void)tp_map_put(&c->known, id_of(msg), c);
    }
    if (e->type == TP_WIRE_RELEASE) {
        release_internal(c, (const void *)msg, c->session, takes_over);
    }
    if (e->type == TP_WIRE_USER_EVENT_CREATE) {
        (void)tp_map_put(&c->unset, id_of(msg), c);
    } else if (e->type == TP_WIRE_USER_EVENT_SET) {
        tp_map_remove(&c->unset, id_of(msg));
    }
    tp_icd_put_now(c->session, e->type, msg);
    e->sent = true;
}

static void
await_answer(struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    if (e->request != 0) {
        c->request = e->request;
        c->request_status = e->status;
    }
}

/** Passes the first entry of the log on to the second server, if there is one. @return false: not
 *  yet */
static bool
pass_on(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    const char *fault;

    if (e->event != 0 || !e->sent || (e->request != 0 && !e->replied)) {
        return false;
    }
    decode(e, msg);
    if (kind_of(e->type) == DIRECT || kind_of(e->type) == REFUSED) {
        tp_copies_forget(c, e); /* of a take-over */
        return true;
    }
    fault = tp_copies_keep_object(c, e->type, msg, e->status);
    if (c->twin != NULL) {
        await_answer(c, e);
        if (e->type == TP_WIRE_RELEASE) {
            release_internal(c, (const void *)msg, c->twin, true);
        }
        tp_icd_put_now(c->twin, e->type, msg);
    }
    if (e->type == TP_WIRE_RELEASE) {
        forget_objects(c, (const void *)msg);
    }
    tp_copies_forget(c, e);
    c->stop_why = fault != NULL ? fault : c->stop_why;
    return true;
}

/** Sends the log to the server that took over. @return true: it has everything */
static bool
send_again(struct tp_icd_copies *c)
{
    if (c->copying != 0 || c->moving != 0 || c->request != 0) {
        return false; /* the content of before must be in place */
    }
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if (!e->sent) {
            await_answer(c, e);
            tp_copies_send(c, e);
        }
        if (c->request != 0) {
            return false;
        }
    }
    return true;
}

static void
finish_takeover(struct tp_icd_copies *c)
{
    tp_map_fini(&c->known);
    tp_copies_forget_twin(c);
    c->phase = TP_COPIES_ALONE;
    tp_copies_unhold(c);
    tp_copies_seek(c);
}

void
tp_copies_pump(struct tp_icd_copies *c)
{
    struct tp_list *first;
    bool joins;

    tp_icd_session_set_dirty(c->twin != NULL ? c->twin : c->session);
    if (c->phase == TP_COPIES_TAKEOVER) {
        if (!send_again(c)) {
            tp_copies_expect(c);
            return;
        }
        finish_takeover(c);
    }
    if (c->twin == NULL || tp_copies_go_on_replaying(c)) {
        while (c->request == 0 && (first = tp_list_first(&c->log)) != NULL &&
               pass_on(c, tp_list_entry(first, struct tp_copies_entry, link))) {
        }
    }
    /* not when the log is empty: a program that builds without a pause would never be there */
    joins = c->twin != NULL && c->phase == TP_COPIES_ALONE && !c->replays;
    tp_copies_expect(c);
    if (c->stop_why != NULL) {
        tp_icd_copies_stop(c->session, c->stop_why);
    } else if (joins && !c->releases) {
        c->whole = true;
        tp_copies_begin_group(c);
    }
}

static void
expect(struct tp_icd_session *session, bool *expects, bool wanted)
{
    if (wanted && !*expects) {
        tp_icd_expect(session);
    } else if (!wanted && *expects) {
        tp_icd_unexpect(session);
    }
    *expects = wanted;
}

void
tp_copies_expect(struct tp_icd_copies *c)
{
    bool waits = tp_map_count(&c->hauls) != 0 || c->request != 0;
    bool takes_over = c->phase == TP_COPIES_TAKEOVER;

    expect(c->session, &c->expects_here, tp_map_count(&c->commands) != 0 || takes_over);
    if (c->twin != NULL) {
        expect(c->twin, &c->expects_there, waits);
    }
}

/* ---- commands that cannot begin ------------------------------------------------------------- */

/** True if a command waits for the program, or for one that does. */
static bool
waits_for_blocked(const struct tp_icd_copies *c, const struct tp_wire_u64s *wait)
{
    for (size_t i = 0; i < wait->count; i++) {
        uint64_t id = tp_wire_u64_at(wait, i);
        const struct tp_copies_entry *other = tp_map_get(&c->commands, id);

        if (tp_map_get(&c->unset, id) != NULL ||
            (other != NULL && !other->done && other->blocked)) {
            return true;
        }
    }
    return false;
}

/** True if a WRITE has no content yet, and gets none before the commit. */
static bool
has_no_content(const struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    const struct _cl_event *ev = tp_map_get(&c->session->events, e->event);
    const struct tp_icd_source *source =
        ev == NULL || ev->parts == 0
            ? NULL
            : tp_map_get(&c->session->bulk.sources, ev->transfer);

    return source != NULL && source->held;
}

/** By the rules of OpenCL: in order, by wait lists, by barriers. */
static bool
is_blocked(const struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    struct tp_copies_queue *q = tp_map_get(&c->queues, e->queue);
    const struct tp_wire_u64s *wait;
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    bool is_barrier = e->type == TP_WIRE_BARRIER, blocked;

    decode(e, msg);
    wait = member(msg, find_command(e->type)->wait_at);
    blocked = waits_for_blocked(c, wait) || has_no_content(c, e);
    if (q != NULL) {
        blocked = blocked || q->all_blocked || (q->in_order && q->any_blocked) ||
                  ((is_barrier || e->type == TP_WIRE_MARKER) && wait->count == 0 &&
                   q->any_blocked);
        q->any_blocked = q->any_blocked || blocked;
        q->all_blocked = q->all_blocked || (is_barrier && blocked);
    }
    return blocked;
}

unsigned
tp_copies_find_blocked(struct tp_icd_copies *c)
{
    struct tp_copies_queue *q;
    size_t cursor = 0;
    unsigned running = 0;
    uint64_t id;

    while (tp_map_next(&c->queues, &cursor, &id, (void **)&q)) {
        q->any_blocked = q->all_blocked = false;
    }
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if (e->event != 0 && e->sent && !e->done) {
            e->blocked = is_blocked(c, e);
            running += !e->blocked;
        }
    }
    return running;
}

/* ---- frames of the program ------------------------------------------------------------------ */

/** Records a creation, and tells the second server. @return false: no memory */
static bool
create_on_both(struct tp_icd_copies *c, uint16_t type, const void *msg)
{
    bool ok = true;

    if (type == TP_WIRE_CONTEXT_CREATE) {
        const struct tp_wire_context_create *m = msg;
        struct tp_copies_context *ctx = tp_zalloc(sizeof(*ctx), "copies");

        ok = ctx != NULL && tp_map_put(&c->contexts, m->context, ctx) == TELPHER_OK;
        if (ok && m->devices.count != 0) {
            ctx->device = (uint32_t)tp_wire_u64_at(&m->devices, 0);
        }
    } else if (type == TP_WIRE_QUEUE_CREATE) {
        const struct tp_wire_queue_create *m = msg;
        struct tp_copies_queue *q = tp_zalloc(sizeof(*q), "copies");

        ok = q != NULL && tp_map_put(&c->queues, m->queue, q) == TELPHER_OK;
        if (ok) {
            q->context = m->context;
            q->in_order = (m->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
        }
    }
    if (type == TP_WIRE_IMAGE_CREATE) {
        const struct tp_wire_image_create *m = msg;
        struct tp_copies_shadow *shadow = tp_zalloc(sizeof(*shadow), "copies");

        ok = shadow != NULL && tp_map_put(&c->shadows, m->mem, shadow) == TELPHER_OK;
        if (ok) {
            shadow->image = *m;
        }
    }
    if (ok && c->twin != NULL) {
        tp_icd_put_now(c->twin, type, msg);
    }
    return ok && tp_copies_keep_object(c, type, msg, 0) == NULL;
}

/** Adds a frame to the log. @return NULL: no memory */
static struct tp_copies_entry *
append(struct tp_icd_copies *c, enum kind kind, uint16_t type, const void *msg)
{
    const size_t writes = kind == COMMAND && c->described ? c->use_count : 0;
    struct tp_copies_entry *e = entry_create(type, msg, writes);

    if (e == NULL) {
        return NULL;
    }
    if (kind == COMMAND) {
        const struct command_head *head = msg;

        e->event = head->event;
        e->queue = head->queue;
        e->transfer = type == TP_WIRE_READ
                          ? ((const struct tp_wire_read *)msg)->transfer
                      : type == TP_WIRE_READ_IMAGE
                          ? ((const struct tp_wire_read_image *)msg)->transfer
                          : 0;
        if (writes != 0) {
            take_writes(c, e);
        }
        if (tp_map_put(&c->commands, e->event, e) != TELPHER_OK) {
            c->log_bytes += e->len;
            tp_list_push_back(&c->log, &e->link);
            tp_copies_forget(c, e);
            return NULL;
        }
    }
    e->request = kind == REQUEST ? id_of(msg) : 0;
    c->log_bytes += e->len;
    tp_list_push_back(&c->log, &e->link);
    return e;
}

/** The transfer of content that is not in the frame; 0: none. */
static uint64_t
transfer_of(uint16_t type, const void *msg)
{
    switch (type) {
    case TP_WIRE_PROGRAM_SOURCE:
        return ((const struct tp_wire_program_source *)msg)->transfer;
    case TP_WIRE_PROGRAM_FILES:
        return ((const struct tp_wire_program_files *)msg)->transfer;
    case TP_WIRE_PROGRAM_IL:
        return ((const struct tp_wire_program_il *)msg)->transfer;
    case TP_WIRE_PROGRAM_BINARY:
        return ((const struct tp_wire_program_binary *)msg)->transfer;
    default:
        return 0;
    }
}

/** Sees whether a program may have variables. @return why it has no copies, or NULL */
static const char *
find_variables(struct tp_icd_copies *c, uint16_t type, const void *msg)
{
    const struct tp_wire_program_source *source = msg;
    const struct tp_wire_bytes *options = NULL;
    uint64_t program = 0;

    if (c->reports_variables) {
        return NULL; /* build_merge.c */
    }
    switch (type) {
    case TP_WIRE_PROGRAM_SOURCE:
        return tp_copies_may_have_variables(source->source.data, source->source.len) &&
                       tp_map_put(&c->variables, source->program, c) != TELPHER_OK
                   ? "no memory"
                   : NULL; /* files that it includes count by their #include */
    case TP_WIRE_PROGRAM_BUILD:
        options = &((const struct tp_wire_program_build *)msg)->options;
        program = ((const struct tp_wire_program_build *)msg)->program;
        break;
    case TP_WIRE_PROGRAM_COMPILE:
        options = &((const struct tp_wire_program_compile *)msg)->options;
        program = ((const struct tp_wire_program_compile *)msg)->program;
        break;
    default:
        return type == TP_WIRE_PROGRAM_IL || type == TP_WIRE_PROGRAM_BINARY
                   ? "a program that is no source may have variables of its own"
                   : NULL;
    }
    switch (tp_copies_language_of(options->data, options->len)) {
    case TP_COPIES_C1:
        return NULL;
    case TP_COPIES_C2:
        return tp_map_get(&c->variables, program) != NULL
                   ? "a program may have variables of its own"
                   : NULL;
    default:
        return "a program may have variables of its own";
    }
}

/** @return why a frame cannot be repeated on another server; NULL: it can */
static const char *
find_fault(struct tp_icd_copies *c, enum kind kind, uint16_t type, const void *msg)
{
    const struct command_row *row = find_command(type);

    if (kind == REFUSED) {
        return tp_wire_message(type)->name;
    }
    if (c->log_bytes > LOG_MOST) {
        return "too many commands wait for a user event";
    }
    if (transfer_of(type, msg) != 0) {
        return "a program is too large";
    }
    if (type == TP_WIRE_PROGRAM_BINARY && !c->same_drivers) {
        return "a program is a binary, and the second server's driver has another "
               "version";
    }
    if (row == NULL) {
        return find_variables(c, type, msg);
    }
    if (id_of(msg) == 0 ||
        (*(const uint8_t *)member(msg, row->flags_at) & TP_WIRE_NOTIFY) == 0 ||
        (row->writes && !c->described)) {
        return "a command of the library says too little";
    }
    return c->described ? find_obstacle(c) : NULL;
}

/** @return the entry of a build that is not answered yet; NULL: there is none */
static struct tp_copies_entry *
find_open_build(const struct tp_icd_copies *c, uint64_t program)
{
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if ((e->type == TP_WIRE_PROGRAM_BUILD || e->type == TP_WIRE_PROGRAM_COMPILE) &&
            !e->replied && memcmp(e->body + sizeof(e->request), &program, 8) == 0) {
            return e;
        }
    }
    return NULL;
}

/** Finds the files that were sent for a build, in the log or before it. */
static bool
find_files(struct tp_icd_copies *c, const struct tp_copies_entry *build,
           uint64_t program, struct tp_wire_program_files *ret_files)
{
    for (const struct tp_list *at = build->link.prev; at != &c->log; at = at->prev) {
        const struct tp_copies_entry *e =
            tp_list_entry(at, struct tp_copies_entry, link);

        if (e->type == TP_WIRE_PROGRAM_FILES && memcmp(e->body, &program, 8) == 0) {
            return tp_wire_get_program_files(e->body, e->body + e->len, ret_files);
        }
    }
    return tp_copies_find_files(c, program, ret_files);
}

/**
 * Adds files that a build of the first server looked for to those sent before it, so that the
 * second server need not look for any.
 * @return why not; NULL: done
 */
static const char *
add_files(struct tp_icd_copies *c, struct tp_copies_entry *build,
          const struct tp_wire_program_files *more)
{
    struct tp_wire_program_files files = {.program = more->program};
    struct tp_copies_entry *e = NULL;
    uint8_t *all;

    if (!find_files(c, build, more->program, &files) || more->transfer != 0 ||
        files.files.len + more->files.len > TP_WIRE_BLOB_MAX) {
        return "a program includes too much";
    }
    all = tp_malloc(files.files.len + more->files.len, "kept files");
    if (all != NULL) {
        memcpy(all, files.files.data, files.files.len);
        memcpy(all + files.files.len, more->files.data, more->files.len);
        files.files.data = all;
        files.files.len += more->files.len;
        files.size = files.files.len;
        e = entry_create(TP_WIRE_PROGRAM_FILES, &files, 0);
    }
    tp_free(all);
    if (e == NULL) {
        return "no memory";
    }
    e->sent = build->sent;
    c->log_bytes += e->len;
    tp_list_push_back(&build->link, &e->link); /* before it */
    return NULL;
}

/** Passes files on that a build looks for. @return false: the frame is none of those */
static bool
answer_build(struct tp_icd_copies *c, uint16_t type, const void *msg)
{
    struct tp_copies_entry *build;
    const char *fault;

    build = type != TP_WIRE_PROGRAM_FILES ? NULL : find_open_build(c, id_of(msg));
    if (build == NULL || !build->sent) {
        return false;
    }
    fault = add_files(c, build, msg);
    c->stop_why = fault != NULL ? fault : c->stop_why; /* for the next pump */
    return true;
}

/** Keeps a frame of a take-over until those before it are sent. */
static bool
put_later(struct tp_icd_copies *c, uint16_t type, const void *msg)
{
    enum kind kind = kind_of(type);
    const char *fault = find_fault(c, kind, type, msg);
    struct tp_copies_entry *e;

    if (type == TP_WIRE_SUBSCRIBE) {
        return true; /* every command has NOTIFY */
    }
    if (answer_build(c, type, msg)) {
        return false;
    }
    c->stop_why = fault != NULL ? fault : c->stop_why;
    if (kind == CREATE) {
        c->stop_why = create_on_both(c, type, msg) ? c->stop_why : "no memory";
        return false;
    }
    e = append(c, kind, type, msg);
    if (e == NULL) {
        tp_stream_break(c->session->stream, TELPHER_ERR_NO_MEMORY);
    }
    return true;
}

bool
tp_icd_copies_put(struct tp_icd_session *session, uint16_t type, const void *msg)
{
    struct tp_icd_copies *c = session->copies;
    enum kind kind = kind_of(type);
    const char *fault;
    struct tp_copies_entry *e = NULL;

    if (c->phase == TP_COPIES_TAKEOVER) {
        return put_later(c, type, msg);
    }
    if (kind == DIRECT) {
        return type == TP_WIRE_SUBSCRIBE; /* every command has NOTIFY */
    }
    fault = find_fault(c, kind, type, msg);
    if (fault == NULL && answer_build(c, type, msg)) {
        return false;
    }
    if (fault == NULL && kind == CREATE && create_on_both(c, type, msg)) {
        return false;
    }
    if (fault == NULL && kind != CREATE) {
        e = append(c, kind, type, msg);
    }
    if (e == NULL) {
        tp_icd_copies_stop(session, fault != NULL ? fault : "no memory");
        return false;
    }
    if (c->phase == TP_COPIES_RUN || c->phase == TP_COPIES_ALONE) {
        tp_copies_send(c, e);
    }
    tp_copies_pump(c);
    return true;
}

void
tp_icd_copies_describe(struct tp_icd_session *session, const struct tp_icd_use *uses,
                       size_t count)
{
    struct tp_icd_copies *c = session->copies;

    if (c != NULL) {
        c->described = uses != NULL;
        c->uses = uses;
        c->use_count = uses != NULL ? count : 0;
    }
}

bool
tp_icd_copies_are_full(const struct tp_icd_session *session)
{
    const struct tp_icd_copies *c = session->copies;

    /* else a commit may need something that the program does later */
    return c != NULL && c->log_bytes > LOG_MAX && tp_map_count(&c->commands) != 0 &&
           tp_map_count(&c->unset) == 0;
}
