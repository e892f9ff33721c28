/* SPDX-License-Identifier: Apache-2.0 */
/* Functions about many elements: the second half of object_int.h, which includes it. */
#ifndef TELPHER_MDR_CALLS_INT_H
#define TELPHER_MDR_CALLS_INT_H

#include "mdr/object_int.h"

/* ---- sparse.c ---- */

/** Handles INSERT: in process 0 and at the home on its way, or makes the element. */
void tp_mdr_insert_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                           const struct tp_mdr_delivery *d);
/** Ends an element that called telpher_mdr_remove(). */
void tp_mdr_end_element(telpher_mdr *mdr, struct tp_mdr_element *e);
/** An element that this process sent or inserted is where it shall be: @p rank sent it. */
void tp_mdr_tell_arrived(telpher_mdr *mdr, struct tp_mdr_array_state *a, uint32_t rank);

/* ---- section.c ---- */

/** Handles SECTION, in the order of broadcasts. */
void tp_mdr_section_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                            const struct tp_mdr_delivery *d);
/** The same, made if there is none. NULL: no memory */
struct tp_mdr_section_state *tp_mdr_section_made(struct tp_mdr_array_state *a,
                                                 uint64_t number);
struct tp_mdr_section_state *tp_mdr_section_of(const struct tp_mdr_array_state *a,
                                               uint64_t number);
/** The number of the section that a broadcast is for. */
uint64_t tp_mdr_section_in(const struct tp_mdr_header *h);
bool tp_mdr_is_member(const struct tp_mdr_section_state *s,
                      const struct tp_mdr_element *e);
void tp_mdr_turns_pup(telpher_mdr_pup *pup, struct tp_mdr_element *e);
void tp_mdr_turns_fini(struct tp_mdr_element *e);
void tp_mdr_sections_fini(struct tp_mdr_array_state *a);

/* ---- channel.c ---- */

/** Handles a message for a channel of @p e. @return false: it was kept and is not done */
bool tp_mdr_channel_receive(telpher_mdr *mdr, struct tp_mdr_element *e,
                            struct tp_mdr_delivery *d);
/** Names destinations of buffers that arrive. @return false: no receive waits for them yet */
bool tp_mdr_channel_post(telpher_mdr *mdr, struct tp_mdr_element *e,
                         const struct tp_mdr_delivery *d);
void tp_mdr_channels_pup(telpher_mdr_pup *pup, struct tp_mdr_element *e);
/** The buffers of senders in this process may be reused. */
void tp_mdr_channels_packed(struct tp_mdr_element *e);
void tp_mdr_channels_fini(struct tp_mdr_element *e);

/* ---- backlog.c ---- */

/** Keeps a message until its priority's turn comes. Takes @p m. */
void tp_mdr_later_push(telpher_mdr *mdr, struct tp_mdr_message *m);
/** Runs the first message. @return false: there is none */
bool tp_mdr_later_run(telpher_mdr *mdr);
/** Cancels all. */
void tp_mdr_later_drop(telpher_mdr *mdr);
/** Calls the program's function. @return true if there is work now */
bool tp_mdr_idle_run(telpher_mdr *mdr);
/** The entry's number without the priority, and the priority in *ret; as the program gives it. */
static inline uint32_t
tp_mdr_split_entry(uint32_t entry, uint32_t *ret_priority)
{
    const uint32_t mark = UINT32_C(0x80000000); /* of TELPHER_MDR_LATER() */

    *ret_priority = entry >> 8 & 255;
    if ((entry & mark) == 0 || *ret_priority == 0 || (entry & ~mark) > UINT16_MAX) {
        *ret_priority = 0;
        return entry;
    }
    return entry & 255;
}

/* ---- checkpoint.c ---- */

/** Handles SAVE, outside of callbacks. */
void tp_mdr_save_receive(telpher_mdr *mdr, const struct tp_mdr_delivery *d);

/* ---- balance.c ---- */

/** [ns] of processor time of this thread. */
uint64_t tp_mdr_thread_ns(void);
/** The same if @p e is measured, otherwise 0. */
static inline uint64_t
tp_mdr_measure(const telpher_mdr *mdr, const struct tp_mdr_element *e)
{
    return e != NULL && mdr->balance != NULL && e->array->mobile ? tp_mdr_thread_ns()
                                                                 : 0;
}
/** Adds the time since tp_mdr_measure(). */
static inline void
tp_mdr_measured(struct tp_mdr_element *e, uint64_t start)
{
    if (start != 0) {
        e->ns += tp_mdr_thread_ns() - start;
    }
}
/** Reports to process 0 the arrays whose elements in this process all wait. @return true if an element began to wait */
bool tp_mdr_sync_reports(telpher_mdr *mdr);
/** Handles LOADS and SPREAD, outside of callbacks. */
void tp_mdr_loads_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                          const struct tp_mdr_message *m);
/** The entry of an element that moved or stayed runs; a message. */
void tp_mdr_resume(telpher_mdr *mdr, struct tp_mdr_element *e);

/* ---- strategy.c ---- */

void tp_mdr_balance_greedy(telpher_mdr_load *loads, size_t count, uint32_t size,
                           void *user);
void tp_mdr_balance_refine(telpher_mdr_load *loads, size_t count, uint32_t size,
                           void *user);

/* ---- future.c ---- */

void tp_mdr_future_receive(telpher_mdr *mdr, const struct tp_mdr_header *h,
                           const void *data, size_t len);
void tp_mdr_futures_fini(telpher_mdr *mdr);

/* ---- quiescence.c ---- */

void tp_mdr_quiescence_receive(telpher_mdr *mdr, const struct tp_mdr_header *h,
                               const void *params, size_t len);
/** Answers a poll; the caller has nothing to run or send. @return false: there was none */
bool tp_mdr_quiescence_idle(telpher_mdr *mdr);

/* ---- send.c ---- */

/** telpher_mdr_invoke() that is not held back: for the runtime's own messages. */
telpher_status tp_mdr_invoke(telpher_mdr *mdr, const telpher_mdr_array *array,
                             telpher_mdr_index index, uint32_t entry,
                             const void *params, size_t params_len,
                             const telpher_msg_buffer *buffers, size_t buffer_count,
                             const telpher_xfer_params *xfer);

/* ---- backlog.c: the bound ---- */

/** tp_mdr_hold() where there is too much. */
telpher_status tp_mdr_hold_back(telpher_mdr *mdr);
/**
 * Holds back the caller, which wants to send, while messages that wait in this process take
 * TELPHER_MDR_MEMORY.
 * @return OK, AGAIN: the entry may not wait, CANCELED: the run ends
 */
static inline telpher_status
tp_mdr_hold(telpher_mdr *mdr)
{
    return tp_likely(mdr->kept_bytes < mdr->settings.kept_bytes)
               ? TELPHER_OK
               : tp_mdr_hold_back(mdr);
}
/** Lets held callers go on. @p worked: this turn did something. @return true if one was held */
bool tp_mdr_hold_end(telpher_mdr *mdr, bool worked);
/** Receives from other processes, less often while messages of theirs wait for memory.
 *  @return true if something came */
bool tp_mdr_hold_progress(telpher_mdr *mdr, bool worked);

/* ---- broadcast.c ---- */

/** telpher_mdr_broadcast() that is not held back: for the runtime's own messages. */
telpher_status tp_mdr_broadcast(telpher_mdr *mdr, const telpher_mdr_array *array,
                                uint32_t entry, const void *params, size_t params_len);

/** Handles BROADCAST. */
void tp_mdr_invoke_all(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                       struct tp_mdr_delivery *d);
/** Delivers the broadcasts that an element has missed. */
void tp_mdr_catch_up(telpher_mdr *mdr, struct tp_mdr_element *e);
/** Tells process 0 of heard broadcasts, so that they can be forgotten. */
void tp_mdr_report_heard(telpher_mdr *mdr, struct tp_mdr_array_state *a);
/** Handles HEARD and FORGET. */
void tp_mdr_heard_receive(telpher_mdr *mdr, const struct tp_mdr_header *h,
                          uint32_t from);

/* ---- reduce.c ---- */

/** An element ends: the reductions do not wait for it. */
void tp_mdr_contribute_end(telpher_mdr *mdr, struct tp_mdr_element *e);
/** Stands for an element in sums, which are equal only for the same elements. */
uint64_t tp_mdr_mark(telpher_mdr_index index);
/** As telpher_mdr_contribute(); @p section: of which the element is a member, and *turns its
 *  contributions; or NULL. */
telpher_status tp_mdr_contribute_to(telpher_mdr_call *call,
                                    const struct tp_mdr_section_state *section,
                                    uint64_t *turns, const void *data, size_t len,
                                    uint32_t op, const telpher_mdr_target *target);

bool tp_mdr_target_is_valid(telpher_mdr *mdr, const telpher_mdr_target *target,
                            size_t len);
void tp_mdr_reduce_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                           const struct tp_mdr_part *part, const void *data,
                           size_t len);
/** Passes contributions on. @return true if there were some */
bool tp_mdr_reductions_flush(telpher_mdr *mdr);
void tp_mdr_reductions_fini(struct tp_mdr_array_state *a);

#endif
