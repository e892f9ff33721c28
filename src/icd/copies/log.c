/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a session with copies: the frames that the second server does not have yet, in the
 * order of the calls. A command stays in it until it is committed, and then leaves it; it never
 * runs on the second server. All other frames go there when no command is before them. Without a
 * second server a command stays until it ends, and other frames are kept for a new one: objects.c.
 */
#include "icd/copies/copies_int.h"
#include "icd/copies/frames.h"
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

/* ---- entries ----------------------------------------------------------------------------- */

struct tp_copies_entry *
tp_copies_entry_create(uint16_t type, const void *msg, size_t writes)
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

void
tp_copies_decode(const struct tp_copies_entry *e, void *msg)
{
    (void)tp_wire_message(e->type)->get(e->body, e->body + e->len, msg);
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
append(struct tp_icd_copies *c, enum tp_copies_frame_kind kind, uint16_t type,
       const void *msg)
{
    const size_t writes =
        kind == TP_COPIES_FRAME_COMMAND && c->described ? c->use_count : 0;
    struct tp_copies_entry *e = tp_copies_entry_create(type, msg, writes);

    if (e == NULL) {
        return NULL;
    }
    if (kind == TP_COPIES_FRAME_COMMAND) {
        const struct tp_copies_command_head *head = msg;

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
    e->request = kind == TP_COPIES_FRAME_REQUEST ? tp_copies_id_of(msg) : 0;
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
find_fault(struct tp_icd_copies *c, enum tp_copies_frame_kind kind, uint16_t type,
           const void *msg)
{
    const struct tp_copies_command_row *row = tp_copies_find_command(type);

    if (kind == TP_COPIES_FRAME_REFUSED) {
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
    if (tp_copies_id_of(msg) == 0 ||
        (*(const uint8_t *)tp_copies_member(msg, row->flags_at) & TP_WIRE_NOTIFY) ==
            0 ||
        (row->writes && !c->described)) {
        return "a command of the library says too little";
    }
    return c->described ? find_obstacle(c) : NULL;
}

/** Keeps a frame of a take-over until those before it are sent. */
static bool
put_later(struct tp_icd_copies *c, uint16_t type, const void *msg)
{
    enum tp_copies_frame_kind kind = tp_copies_kind_of(type);
    const char *fault = find_fault(c, kind, type, msg);
    struct tp_copies_entry *e;

    if (type == TP_WIRE_SUBSCRIBE) {
        return true; /* every command has NOTIFY */
    }
    if (tp_copies_answer_build(c, type, msg)) {
        return false;
    }
    c->stop_why = fault != NULL ? fault : c->stop_why;
    if (kind == TP_COPIES_FRAME_CREATE) {
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
    enum tp_copies_frame_kind kind = tp_copies_kind_of(type);
    const char *fault;
    struct tp_copies_entry *e = NULL;

    if (c->phase == TP_COPIES_TAKEOVER) {
        return put_later(c, type, msg);
    }
    if (kind == TP_COPIES_FRAME_DIRECT) {
        return type == TP_WIRE_SUBSCRIBE; /* every command has NOTIFY */
    }
    fault = find_fault(c, kind, type, msg);
    if (fault == NULL && tp_copies_answer_build(c, type, msg)) {
        return false;
    }
    if (fault == NULL && kind == TP_COPIES_FRAME_CREATE &&
        create_on_both(c, type, msg)) {
        return false;
    }
    if (fault == NULL && kind != TP_COPIES_FRAME_CREATE) {
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

    /* if user events are unset, a commit may wait for the program, so the program must go on */
    return c != NULL && c->log_bytes > LOG_MAX && tp_map_count(&c->commands) != 0 &&
           tp_map_count(&c->unset) == 0;
}
