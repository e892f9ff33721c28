/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal declarations of libtelpher-mdr. Everything belongs to the thread of
 * telpher_mdr_run(): there are no locks.
 */
#ifndef TELPHER_MDR_MDR_INT_H
#define TELPHER_MDR_MDR_INT_H

#include <stdbool.h>

#include <telpher/mdr_dynamic.h>

#include "base/compiler.h"
#include "base/container/list.h"
#include "base/container/map.h"
#include "base/os/light.h"

enum {
    TP_MDR_WORK_HANDLER = TELPHER_HANDLERS - 8, /**< ordered, with credits */
    TP_MDR_CONTROL_HANDLER = TELPHER_HANDLERS - 7, /**< in any order, without */
    TP_MDR_OPS = 64,
    TP_MDR_ERROR_BYTES = 400,
    TP_MDR_FOLDER_BYTES = 960,
    TP_MDR_PRIORITIES = 256,
};

/** Values of TELPHER_MDR_BALANCER. */
enum tp_mdr_balancer {
    TP_MDR_BALANCE_NONE,
    TP_MDR_BALANCE_REFINE,
    TP_MDR_BALANCE_GREEDY
};

/** Settings: src/base/settings/mdr.def. */
struct tp_mdr_settings {
    int credits, threads;
    int balancer; /**< enum tp_mdr_balancer */
    size_t stack_bytes, kept_bytes;
    char *checkpoint_text; /**< only while settings are read */
    char checkpoint[TP_MDR_FOLDER_BYTES]; /**< folder, or "" */
};

/** @return OK, or INVALID: a setting is wrong; @p err says which */
telpher_status tp_mdr_settings_load(struct tp_mdr_settings *ret, telpher_error *err);

/** Kind of a message. The first ones are work, the others control. */
enum tp_mdr_kind {
    TP_MDR_INVOKE = 1,
    TP_MDR_BROADCAST,
    TP_MDR_CREATE, /**< parameters: struct tp_mdr_create, then the program's */
    TP_MDR_REDUCE, /**< parameters: struct tp_mdr_part, then data */
    TP_MDR_FUTURE,
    TP_MDR_CHANNEL, /**< parameters: struct tp_mdr_sent, then the program's */
    TP_MDR_MIGRATE, /**< parameters: struct tp_mdr_migrant; a buffer: the packed element */
    TP_MDR_LOADS, /**< to process 0; a buffer: the loads of elements that wait */
    TP_MDR_SPREAD, /**< its answer: where they shall be */
    TP_MDR_LOCATED, /**< to the home: root has the element */
    TP_MDR_INSERT, /**< parameters: struct tp_mdr_newborn, then the program's */
    TP_MDR_GONE, /**< to the home: the element ended */
    TP_MDR_SAVE, /**< parameters: struct tp_mdr_save */
    TP_MDR_SECTION, /**< a broadcast; parameters: indices of members */
    TP_MDR_EXIT, /**< index.at[0] is the status */
    TP_MDR_POLL, /**< id is the wave */
    TP_MDR_COUNTS, /**< id is the wave; parameters: three u64 */
    TP_MDR_QUIESCENCE, /**< parameters: the future */
    TP_MDR_PLACE, /**< to the sender of a forwarded message: root has the element */
    TP_MDR_ARRIVED, /**< a migrated element is unpacked */
    TP_MDR_HEARD, /**< to process 0: at[0], at[1] are the number of a broadcast */
    TP_MDR_FORGET, /**< all processes have heard that broadcast */
    TP_MDR_KINDS
};

/** Flags of a message. */
enum {
    TP_MDR_FORWARDED = 1,
    TP_MDR_UNNUMBERED = 2,
    TP_MDR_HERE = 4,
    TP_MDR_MEMBERS = 8, /**< a broadcast to a section */
    TP_MDR_SHORT = 16, /**< the message begins with a struct tp_mdr_short */
};

/** First bytes of every message. Processes of a job have the same architecture. */
struct tp_mdr_header {
    uint8_t kind; /**< enum tp_mdr_kind */
    uint8_t flags;
    uint16_t entry; /**< its number; INVOKE: and 256 * its priority */
    uint32_t root; /**< of the tree that forwards it; to an element: the sender */
    uint64_t id; /**< of the array; FUTURE: the generation */
    int32_t at[3]; /**< index; FUTURE: at[0] is the slot; broadcasts: number, section */
    uint32_t
        moves; /**< of the element, as the sender knows its place; SPREAD: its number;
                     broadcasts: the other half of the section's number */
};
_Static_assert(sizeof(struct tp_mdr_header) == 32, "parameters are aligned to 16");

/** The same of most invocations: with few parameters they fit into one cache line of the
 *  transport. The sender is the root. */
struct tp_mdr_short {
    uint8_t kind, flags; /**< INVOKE; TP_MDR_SHORT */
    uint16_t entry;
    uint32_t array; /**< its id: creator + 1 and counter, 16 bits each */
    int32_t at; /**< first index, the others are 0 */
    uint32_t moves;
};
_Static_assert(sizeof(struct tp_mdr_short) == 16, "parameters are aligned to 16");

/** The number of an array in a short header; 0: it has none. */
static inline uint32_t
tp_mdr_short_array(uint64_t id)
{
    uint64_t creator = id >> 40, counter = id & (((uint64_t)1 << 40) - 1);

    return creator <= UINT16_MAX && counter <= UINT16_MAX
               ? (uint32_t)(creator << 16 | counter)
               : 0;
}

static inline uint64_t
tp_mdr_long_array(uint32_t number)
{
    return (uint64_t)(number >> 16) << 40 | (number & UINT16_MAX);
}

static inline struct tp_mdr_header
tp_mdr_lengthen(const struct tp_mdr_short *s, uint32_t from)
{
    return (struct tp_mdr_header){.kind = s->kind,
                                  .entry = s->entry,
                                  .root = from,
                                  .id = tp_mdr_long_array(s->array),
                                  .at = {s->at, 0, 0},
                                  .moves = s->moves};
}

/** A message that waits: for its array, a light thread, credits, or its turn. Parameters follow. */
struct tp_mdr_message {
    struct tp_list link;
    struct tp_mdr_header header;
    size_t params_len;
    uint64_t *kept_bytes,
        bytes; /**< mdr->kept_bytes, and what this message adds to it */
    telpher_msg_buffer buffers[TELPHER_MSG_BUFFERS];
    uint32_t buffer_count;
    bool owns_buffers; /**< of malloc(), received before the object was known */
    telpher_status status; /**< of the buffers */
    telpher_done_fn on_done; /**< local and queued invocations with buffers */
    void *user, *queue;
    struct tp_mdr_element *element; /**< that its light thread uses, or NULL */
    bool due; /**< it runs now: its priority is the first */
};

/** The entry that runs, for texts of errors. */
struct tp_mdr_where {
    const char *class_name, *entry;
    telpher_mdr_index index;
};

/** An entry that may wait, on a light thread. */
struct tp_mdr_waiting_entry {
    struct tp_list link; /**< mdr->starved, or none */
    telpher_mdr_entry_fn run;
    telpher_mdr_call call;
    struct tp_mdr_message *message; /**< owned; NULL: the main function */
    struct tp_mdr_where where;
    uint64_t start; /**< of the measured time: balance.c */
};

struct tp_mdr_slot {
    uint64_t generation; /**< odd: in use */
    bool set;
    struct tp_light *waiter;
    void *data;
    size_t len;
    uint32_t next_free;
};

/** Messages to one process that wait for credits. */
struct tp_mdr_out {
    struct tp_list queue;
};

/** Detection of quiescence; in process 0, but for `wanted`. */
struct tp_mdr_quiescence {
    uint64_t wanted; /**< wave whose counts this process owes; 0 = none */
    uint64_t wave, sent, done, homeless, answers;
    uint64_t last_sent, last_done; /**< of the wave before */
    bool active, has_last;
    telpher_mdr_future future;
};

struct telpher_mdr {
    telpher_context *ctx;
    bool owns_ctx, running, ran, exiting;
    uint32_t rank, size;
    telpher_status exit_status;
    void *user;
    struct tp_mdr_settings settings;

    const telpher_mdr_class *classes[TELPHER_MDR_CLASSES];
    uint32_t class_count;
    uint64_t classes_hash;
    telpher_mdr_op_fn ops[TP_MDR_OPS];
    uint32_t op_count;

    struct tp_map arrays; /**< id to struct tp_mdr_array_state */
    struct tp_mdr_array_state *last_array; /**< that tp_mdr_array_known() found */
    uint64_t array_counter;
    uint32_t section_counter;
    struct tp_list leaving; /**< elements that move or end */
    void (*balance)(telpher_mdr_load *loads, size_t count, uint32_t size, void *user);
    void *balance_user;
    bool synced; /**< an element waits that was not reported */
    struct tp_list partial; /**< reductions with contributions to pass on */
    struct tp_list local; /**< messages of this process to itself */
    struct tp_list later[TP_MDR_PRIORITIES]; /**< messages by priority */
    size_t later_count;
    telpher_mdr_idle_fn idle; /**< NULL: none */
    void *idle_user;
    struct tp_mdr_out *out; /**< one for each process */
    uint64_t queued; /**< messages in all `out` */
    uint64_t sent, done; /**< work messages: quiescence compares them */
    uint64_t homeless; /**< messages for elements that were not inserted */
    uint64_t receiving; /**< messages whose buffers are on their way to destinations */
    uint64_t turns; /**< of the scheduler */

    struct tp_lights lights;
    struct tp_list starved; /**< entries that wait for a free light thread */
    struct tp_list held; /**< light threads that may send when less memory is used */
    uint64_t kept_bytes; /**< memory of messages that wait in this process */

    struct tp_mdr_slot *slots;
    uint32_t slot_count, free_slot;

    struct tp_mdr_quiescence quiescence;
    const void *saved; /**< the main function's data, while it saves or restores */
    void *restored;
    size_t saved_len, restored_cap, restored_len;
    const struct tp_mdr_where *where; /**< NULL: none runs */
    char error[TP_MDR_ERROR_BYTES];
};

/* ---- runtime.c ---- */

/** Keeps the text of a failed call. @return @p status */
telpher_status tp_mdr_error(telpher_mdr *mdr, telpher_status status, const char *fmt,
                            ...) TP_PRINTF(3, 4);
/** Logs an error of the program and ends the run in all processes. */
void tp_mdr_fail(telpher_mdr *mdr, telpher_status status, const char *fmt, ...)
    TP_PRINTF(3, 4);
/** Ends the run in this process. */
void tp_mdr_stop(telpher_mdr *mdr, telpher_status status);

/* ---- class.c ---- */

/** The entry, or NULL with the text kept. */
const telpher_mdr_entry *
tp_mdr_find_entry(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry);
/** @return the status for a wrong invocation, with the text kept */
telpher_status tp_mdr_refuse_call(telpher_mdr *mdr, const telpher_mdr_array *array,
                                  uint32_t entry, size_t params_len,
                                  size_t buffer_count);

/** The entry, if it takes such parameters and buffers; otherwise NULL. */
static inline const telpher_mdr_entry *
tp_mdr_entry_for(const telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry,
                 size_t params_len, size_t buffer_count)
{
    const telpher_mdr_class *def =
        array->class_id < mdr->class_count ? mdr->classes[array->class_id] : NULL;
    const telpher_mdr_entry *e =
        def != NULL && entry < def->entry_count ? &def->entries[entry] : NULL;

    return e != NULL &&
                   (e->params_len == params_len ||
                    e->params_len == TELPHER_MDR_ANY_LENGTH) &&
                   (buffer_count == 0 ||
                    (e->post != NULL && buffer_count <= TELPHER_MSG_BUFFERS))
               ? e
               : NULL;
}

/** Checks parameters and buffers of an invocation against the entry. */
static inline telpher_status
tp_mdr_check_call(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry,
                  size_t params_len, size_t buffer_count)
{
    return tp_mdr_entry_for(mdr, array, entry, params_len, buffer_count) != NULL
               ? TELPHER_OK
               : tp_mdr_refuse_call(mdr, array, entry, params_len, buffer_count);
}

/* ---- deliver.c ---- */

/** Delivers a message of this process or one that was parked. Takes @p m. */
void tp_mdr_deliver(telpher_mdr *mdr, struct tp_mdr_message *m);
/** Handlers of messages, for telpher_msg. */
void tp_mdr_post(telpher_context *ctx, telpher_msg *msg, void *user);
void tp_mdr_receive(telpher_context *ctx, telpher_msg *msg, void *user);

/* ---- send.c ---- */

/** Copies a message. @return NULL: no memory */
struct tp_mdr_message *tp_mdr_message_create(telpher_mdr *mdr,
                                             const struct tp_mdr_header *h,
                                             const void *params, size_t params_len);
/** Counts @p bytes more as memory of a message, until it is destroyed. */
static inline void
tp_mdr_message_charge(struct tp_mdr_message *m, size_t bytes)
{
    m->bytes += bytes;
    *m->kept_bytes += bytes;
}
/** Calls on_done, if it is set and was not called. */
void tp_mdr_message_done(struct tp_mdr_message *m, telpher_status status);
/** A message whose on_done was not called is canceled. */
void tp_mdr_message_destroy(struct tp_mdr_message *m);
void tp_mdr_messages_destroy(struct tp_list *list);
static inline void *
tp_mdr_message_params(struct tp_mdr_message *m)
{
    return (uint8_t *)m + ((sizeof(*m) + 15) & ~(size_t)15);
}
/** A message to send: parameters in two parts, and buffers. */
struct tp_mdr_outgoing {
    const struct tp_mdr_header *h;
    const void *head, *params;
    size_t head_len, params_len;
    const telpher_msg_buffer *buffers;
    size_t buffer_count;
    const telpher_xfer_params *xfer;
};

/** Sends work to an element, wherever it is; fills in o->h. */
telpher_status tp_mdr_send_element(telpher_mdr *mdr, const telpher_mdr_array *array,
                                   telpher_mdr_index index, uint8_t kind,
                                   uint32_t entry, struct tp_mdr_outgoing *o);
/** Sends kept work to another process. Takes @p m. */
void tp_mdr_send_kept(telpher_mdr *mdr, uint32_t rank, struct tp_mdr_message *m);
/** Sends work to one process, this one included. */
telpher_status tp_mdr_send(telpher_mdr *mdr, uint32_t rank,
                           const struct tp_mdr_header *h, const void *head,
                           size_t head_len, const void *params, size_t params_len);
/** Sends work to the children of this process in the tree of h->root. */
telpher_status tp_mdr_forward(telpher_mdr *mdr, const struct tp_mdr_header *h,
                              const void *head, size_t head_len, const void *params,
                              size_t params_len);
/** Sends control to one other process. */
telpher_status tp_mdr_control(telpher_mdr *mdr, uint32_t rank,
                              const struct tp_mdr_header *h, const void *params,
                              size_t params_len);
/** Sends queued messages as far as there are credits. @return true if one was sent */
bool tp_mdr_flush(telpher_mdr *mdr);
/** Cancels messages that are queued or parked. */
void tp_mdr_drop_messages(telpher_mdr *mdr);

/* ---- light.c ---- */

void tp_mdr_lights_fini(telpher_mdr *mdr);
/** Starts an entry that may wait, or keeps it until a light thread is free. Takes @p m. */
void tp_mdr_light_start(telpher_mdr *mdr, const telpher_mdr_call *call,
                        telpher_mdr_entry_fn run, struct tp_mdr_message *m);
/** Runs light threads that are ready. @return true if one ran */
bool tp_mdr_lights_run(telpher_mdr *mdr);
/** Whether the entry that runs may wait: not one below it, in a callback. */
bool tp_mdr_light_may_wait(const telpher_mdr *mdr);
/** Suspends the light thread that runs. @return OK, CANCELED: the run ends */
telpher_status tp_mdr_light_suspend(telpher_mdr *mdr);
/** Ends all light threads: their waits return CANCELED. */
void tp_mdr_lights_cancel(telpher_mdr *mdr);

#endif
