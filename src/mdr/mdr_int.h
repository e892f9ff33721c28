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
#include "mdr/checkpoint/parts.h"
#include "mdr/message_int.h"

enum {
    TP_MDR_WORK_HANDLER = TELPHER_HANDLERS - 8, /**< ordered, with credits */
    TP_MDR_CONTROL_HANDLER = TELPHER_HANDLERS - 7, /**< in any order, without */
    TP_MDR_OPS = 64,
    TP_MDR_ERROR_BYTES = 400,
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
/** Calls on_done, if it is set and was not called. */
void tp_mdr_message_done(struct tp_mdr_message *m, telpher_status status);
/** A message whose on_done was not called is canceled. */
void tp_mdr_message_destroy(struct tp_mdr_message *m);
void tp_mdr_messages_destroy(struct tp_list *list);

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
