/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and their elements, for the files of libtelpher-mdr that know both. */
#ifndef TELPHER_MDR_OBJECT_INT_H
#define TELPHER_MDR_OBJECT_INT_H

#include <stddef.h>

#include "mdr/mdr_int.h"

/** First parameters of CREATE. */
struct tp_mdr_create {
    telpher_mdr_array array;
    uint64_t classes_hash; /**< all processes must have registered the same classes */
    uint64_t reserved;
};
_Static_assert(sizeof(struct tp_mdr_create) == 48, "parameters are aligned to 16");

/** First parameters of REDUCE: a process's part of a reduction. */
struct tp_mdr_part {
    uint64_t number;
    uint32_t op;
    uint32_t has_data; /**< 0: elements that ended, no more */
    telpher_mdr_target target;
    uint64_t count; /**< contributions in it; counted where elements may come and go */
    uint64_t section; /**< 0: all elements */
    /** Sum of the marks of elements that contributors inserted, less those of inserted
     *  elements that contributed for the first time. 0: none is missing. */
    uint64_t debt;
    int64_t joined; /**< elements that were inserted less those that ended */
    uint64_t reserved;
};
_Static_assert(sizeof(struct tp_mdr_part) == 128, "data is aligned to 16");

/** First parameters of INSERT: what an element begins with. */
struct tp_mdr_newborn {
    uint64_t contributed, heard;
    uint32_t rank; /**< to be in; TELPHER_MDR_ANY_PROCESS: its home */
    uint32_t inserted; /**< 1: by an element, whose next contribution counts it */
    uint64_t reserved;
};
_Static_assert(sizeof(struct tp_mdr_newborn) == 32, "parameters are aligned to 16");

/** A reduction of an array that is not complete in this process. */
struct tp_mdr_reduction {
    struct tp_list link; /**< array->reductions */
    struct tp_list partial; /**< mdr->partial */
    struct tp_mdr_array_state *array;
    struct tp_mdr_part part;
    uint64_t local; /**< contributions of own elements */
    uint32_t children; /**< parts of the children in the tree */
    size_t len;
    uint8_t data[];
};
_Static_assert(offsetof(struct tp_mdr_reduction, data) % 16 == 0,
               "data is aligned to 16");

/** An array as this process knows it. */
struct tp_mdr_array_state {
    telpher_mdr_array proxy;
    bool created; /**< false: messages arrived before it */
    bool mobile; /**< its elements may move, or come and go */
    struct tp_list parked; /**< of struct tp_mdr_message, until it is created */
    uint64_t
        total; /**< elements in all processes; sparse: of the next reduction, process 0 */
    struct tp_map sections; /**< number to struct tp_mdr_section_state */
    uint32_t ranks; /**< that elements begin in: 0 .. ranks - 1 */
    struct tp_map elements; /**< in this process: key to struct tp_mdr_element */
    struct tp_list all; /**< the same, in the order of their creation or arrival */
    struct tp_map places; /**< key to where an element went or was heard of */
    struct tp_list homeless; /**< messages whose elements are in no process */
    struct tp_list reductions;
    uint64_t completed; /**< reductions; process 0 of a mobile array */
    struct tp_list history; /**< numbered broadcasts that elements may have missed */
    uint64_t heard; /**< number of the last broadcast */
    uint64_t reported; /**< number in the last report to process 0 */
    uint64_t *heard_by; /**< [processes]; process 0 */
    uint64_t waiting; /**< elements here that called telpher_mdr_sync() */
    telpher_mdr_load *loads; /**< of all elements that did; process 0 */
    uint64_t load_count;
    uint32_t spreads; /**< synchronisations that have ended; process 0 */
    uint64_t found, walked; /**< elements, while a checkpoint is read */
    uint64_t away; /**< elements that left and have not arrived */
};

/** Synchronisation of an element. */
enum tp_mdr_sync {
    TP_MDR_RUNS = 0,
    TP_MDR_WAITS = 1, /**< for others in this process */
    TP_MDR_REPORTED = 2, /**< process 0 knows */
    TP_MDR_RESUMES = 3, /**< where it moves to */
};

/** An element in this process; the object follows. */
struct tp_mdr_element {
    struct tp_list link; /**< array->all */
    struct tp_list leaving; /**< mdr->leaving */
    struct tp_mdr_array_state *array;
    telpher_mdr_index index;
    uint32_t moves;
    uint32_t uses; /**< light threads and transfers that have its address */
    uint32_t target; /**< process to move to */
    bool moving; /**< packed or not unpacked yet: messages wait in the local queue */
    uint64_t contributed; /**< reductions */
    uint64_t
        debt; /**< marks of elements that it inserted since its last contribution */
    uint32_t joined; /**< their number */
    bool inserted; /**< by an element, and has not contributed */
    bool ends; /**< it leaves for good */
    uint64_t heard; /**< number of its last broadcast */
    uint64_t ns; /**< processor time of its entries since the last synchronisation */
    uint64_t before_ns; /**< between the two synchronisations before; 0: unknown */
    uint32_t syncs; /**< synchronisations that it entered */
    uint8_t sync; /**< enum tp_mdr_sync */
    bool stays; /**< in this synchronisation */
    uint16_t resume; /**< entry that ends the synchronisation */
    struct tp_list channels; /**< of struct tp_mdr_end */
    struct tp_list turns; /**< of struct tp_mdr_turn */
};

/** Reductions of a section that an element contributed to. */
struct tp_mdr_turn {
    struct tp_list link; /**< element->turns */
    uint64_t section, contributed;
};

/** A section, in all processes. */
struct tp_mdr_section_state {
    uint64_t number;
    struct tp_map members; /**< keys of elements */
    uint64_t completed; /**< reductions; process 0 */
};

static inline void *
tp_mdr_self(struct tp_mdr_element *e)
{
    return (uint8_t *)e + ((sizeof(*e) + 15) & ~(size_t)15);
}

static inline telpher_mdr_index
tp_mdr_index_in(const struct tp_mdr_header *h)
{
    return (telpher_mdr_index){{h->at[0], h->at[1], h->at[2]}};
}

/** A message on its way to an object. */
struct tp_mdr_delivery {
    const struct tp_mdr_header *h;
    const void *params;
    size_t params_len;
    telpher_msg_buffer *buffers; /**< kept: the source; else where the data lies */
    uint32_t buffer_count;
    telpher_status status;
    struct tp_mdr_message *kept; /**< NULL: the memory is the transport's */
    bool taken; /**< the kept message has another owner now */
};

/* ---- array.c ---- */

/** The state of an array, made if this process has not heard of it. NULL: no memory */
struct tp_mdr_array_state *tp_mdr_array_of(telpher_mdr *mdr, uint64_t id);
/** The same, or NULL if this process has not heard of it. */
static inline struct tp_mdr_array_state *
tp_mdr_array_known(telpher_mdr *mdr, uint64_t id)
{
    struct tp_mdr_array_state *a = mdr->last_array;

    if (a == NULL || a->proxy.id != id) {
        a = tp_map_get(&mdr->arrays, id);
        mdr->last_array = a;
    }
    return a;
}
/** Number of elements. */
uint64_t tp_mdr_total(const telpher_mdr *mdr, const telpher_mdr_array *array);
/** True if elements are inserted. */
static inline bool
tp_mdr_is_sparse(const telpher_mdr_array *array)
{
    return array->dims != 0 && array->extent[0] == 0;
}
/** True if the elements may move, since the class can be packed, or are inserted. */
bool tp_mdr_is_mobile(const telpher_mdr *mdr, const telpher_mdr_array *array);
/** Handles CREATE. */
void tp_mdr_array_receive(telpher_mdr *mdr, const struct tp_mdr_create *create,
                          const void *params, size_t params_len);
/** The array is created: delivers what arrived before. */
void tp_mdr_array_ready(telpher_mdr *mdr, struct tp_mdr_array_state *a);
void tp_mdr_arrays_drop_parked(telpher_mdr *mdr);
void tp_mdr_arrays_fini(telpher_mdr *mdr);

/* ---- element.c ---- */

/** The number that stands for an index in this array. @return false: there is no such index */
bool tp_mdr_key(const telpher_mdr_array *array, telpher_mdr_index index,
                uint64_t *ret_key);
telpher_mdr_index tp_mdr_index_of(const telpher_mdr_array *array, uint64_t key);
/** The element if it is in this process, unpacked or not, otherwise NULL. */
static inline struct tp_mdr_element *
tp_mdr_find(const struct tp_mdr_array_state *a, telpher_mdr_index index)
{
    uint64_t key = (uint64_t)index.at[0];

    if (a->proxy.dims == 1 && (index.at[1] | index.at[2]) == 0 && index.at[0] >= 0 &&
        index.at[0] < a->proxy.extent[0]) {
        return tp_map_get(&a->elements, key); /* as of tp_mdr_key() */
    }
    return tp_mdr_key(&a->proxy, index, &key) ? tp_map_get(&a->elements, key) : NULL;
}
/** The element of a call, or NULL with the text kept. */
struct tp_mdr_element *tp_mdr_element_of_call(telpher_mdr_call *call);
/** Adds an element whose object is zeros. NULL: no memory */
struct tp_mdr_element *tp_mdr_element_add(telpher_mdr *mdr,
                                          struct tp_mdr_array_state *a,
                                          telpher_mdr_index index);
/** Takes an element out and frees it; its `destroy` ran. */
void tp_mdr_element_remove(struct tp_mdr_element *e);
/** A call without parameters. */
static inline telpher_mdr_call
tp_mdr_call_of(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    return (telpher_mdr_call){.mdr = mdr,
                              .self = tp_mdr_self(e),
                              .array = e->array->proxy,
                              .index = e->index};
}

/* ---- locate.c ---- */

/** The process to send to, for a message to an element that is not here; *ret_moves: what the
 *  message shall say. */
uint32_t tp_mdr_place(telpher_mdr *mdr, const struct tp_mdr_array_state *a,
                      telpher_mdr_index index, uint32_t *ret_moves);
/** Notes where an element is, unless something newer is known. */
void tp_mdr_note_place(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                       telpher_mdr_index index, uint32_t rank, uint32_t moves);
/** An element is in this process now. */
void tp_mdr_note_arrival(telpher_mdr *mdr, struct tp_mdr_element *e);
/** Sends a message on to where its element is, or keeps it. Takes @p m. @return true: sent */
bool tp_mdr_reroute(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                    struct tp_mdr_message *m);
/** At the home: *ret_moves for an element that is inserted, more than in an earlier life.
 *  @return false: there is such an element */
bool tp_mdr_may_insert(const struct tp_mdr_array_state *a, telpher_mdr_index index,
                       uint32_t *ret_moves);
/** Notes at the home that the element ended. */
void tp_mdr_note_gone(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                      telpher_mdr_index index, uint32_t moves);
/** Tells the sender of a forwarded message where the element is. */
void tp_mdr_answer_place(telpher_mdr *mdr, const struct tp_mdr_element *e,
                         const struct tp_mdr_header *h);
/** Handles PLACE and LOCATED. */
void tp_mdr_place_receive(telpher_mdr *mdr, const struct tp_mdr_header *h);

/* ---- invoke.c ---- */

/** Takes the delivery's message, or a copy. NULL: no memory, the run ends */
struct tp_mdr_message *tp_mdr_keep(telpher_mdr *mdr, struct tp_mdr_delivery *d);
/** The entry that a message names, or NULL if it does not take the message. */
const telpher_mdr_entry *tp_mdr_entry_of(telpher_mdr *mdr,
                                         const struct tp_mdr_array_state *a,
                                         const struct tp_mdr_delivery *d);
/** Runs an entry of an element with the message; kept buffers are placed first. */
void tp_mdr_run_entry(telpher_mdr *mdr, struct tp_mdr_element *e,
                      const telpher_mdr_entry *entry, const struct tp_mdr_delivery *d);
/** Runs the post entry for buffers that arrive: *d->buffers get their destinations.
 *  @return false: it has too little room, an error once they are here */
bool tp_mdr_run_post(telpher_mdr *mdr, struct tp_mdr_element *e,
                     const telpher_mdr_entry *entry, const struct tp_mdr_delivery *d);
/** Handles an invocation with a short header, if it can run at once. */
bool tp_mdr_invoke_short(telpher_mdr *mdr, const struct tp_mdr_short *s,
                         size_t params_len);
/** Handles INVOKE and CHANNEL. @return false: the message was kept and is not done */
bool tp_mdr_invoke_one(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                       struct tp_mdr_delivery *d);

#include "mdr/calls_int.h"
#include "mdr/migrate_int.h"

#endif
