/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of message-driven objects: their entry methods, and a call as an entry method sees it.
 * Part of mdr.h, which includes it. Since: 0.1.
 */
#ifndef TELPHER_MDR_CLASS_H
#define TELPHER_MDR_CLASS_H

#include <telpher/msg.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The runtime of this process. */
typedef struct telpher_mdr telpher_mdr;

#define TELPHER_MDR_CLASSES 256 /**< classes of a program, at most */
#define TELPHER_MDR_ENTRIES 256 /**< entry methods of a class, at most */
#define TELPHER_MDR_ANY_LENGTH SIZE_MAX /**< an entry takes parameters of any length */
#define TELPHER_MDR_REDUCE_MAX 65536 /**< [bytes] of a contribution, at most */

/** Index of an element. Dimensions that the array lacks are 0. */
typedef struct telpher_mdr_index {
    int32_t at[3];
} telpher_mdr_index;

/** A proxy: names an array in every process. Plain data: may be a parameter. */
typedef struct telpher_mdr_array {
    uint64_t id;
    uint32_t class_id;
    uint32_t dims; /**< 1 to 3; 0: a group, which has one element in each process */
    int32_t extent[3]; /**< elements in each dimension; sparse: 0 */
    uint32_t reserved;
} telpher_mdr_array;

/** A value that arrives later, in the process that created it. Plain data. */
typedef struct telpher_mdr_future {
    uint32_t rank, slot;
    uint64_t generation;
} telpher_mdr_future;

/** An invocation as an entry method sees it; borrowed until the entry returns. */
typedef struct telpher_mdr_call {
    telpher_mdr *mdr;
    void *self; /**< the object: object_size bytes */
    telpher_mdr_array array; /**< that the object is in */
    telpher_mdr_index index; /**< of the object */
    const void *params; /**< aligned to 16 */
    size_t params_len; /**< [bytes] */
    /** post entry: len is set, the entry sets data to host or device memory with room for len
     *  bytes, or to NULL to drop the buffer. Where it has less room it may set len to that: the
     *  entry then runs with TELPHER_ERR_TRUNCATED. Other entries: both are set. */
    telpher_msg_buffer *buffers;
    uint32_t buffer_count;
    telpher_status status; /**< OK, or the error of the buffers */
} telpher_mdr_call;

typedef void (*telpher_mdr_entry_fn)(telpher_mdr_call *call);

/** Packs or unpacks an object: mdr_dynamic.h. */
typedef struct telpher_mdr_pup telpher_mdr_pup;
typedef void (*telpher_mdr_pup_fn)(telpher_mdr_call *call, telpher_mdr_pup *pup);

/** The entry may wait: it runs in a light thread of its own. */
#define TELPHER_MDR_WAITS 1u

/** One entry method. Its number is its place in the table. */
typedef struct telpher_mdr_entry {
    const char *name; /**< for errors */
    telpher_mdr_entry_fn run;
    telpher_mdr_entry_fn post; /**< names the buffers' destinations; NULL: takes none */
    size_t params_len; /**< [bytes], or TELPHER_MDR_ANY_LENGTH */
    uint32_t flags; /**< TELPHER_MDR_WAITS */
    const char *type; /**< of the parameters, for TELPHER_MDR_INVOKE(); NULL: any */
} telpher_mdr_entry;

/** A class. The struct, its texts and its table are kept: they must stay as they are. */
typedef struct telpher_mdr_class {
    uint32_t struct_size;
    uint32_t entry_count;
    const char *name;
    size_t object_size; /**< [bytes] of an object, which begins as zeros */
    telpher_mdr_entry_fn
        create; /**< runs first, with the array's parameters; or NULL */
    telpher_mdr_entry_fn destroy; /**< runs last, without parameters; or NULL */
    const telpher_mdr_entry *entries;
    telpher_mdr_pup_fn pup; /**< NULL: objects cannot move; see mdr_dynamic.h */
} telpher_mdr_class;

/** Rows of an entry table: parameters of type @p type, or of any length. */
#define TELPHER_MDR_ENTRY(fn, type)                                                    \
    {                                                                                  \
#fn, fn, NULL, sizeof(type), 0, #type                                          \
    }
#define TELPHER_MDR_ENTRY_WAITS(fn, type)                                              \
    {                                                                                  \
#fn, fn, NULL, sizeof(type), TELPHER_MDR_WAITS, #type                          \
    }
#define TELPHER_MDR_ENTRY_VOID(fn)                                                     \
    {                                                                                  \
#fn, fn, NULL, 0, 0, NULL                                                      \
    }
#define TELPHER_MDR_ENTRY_BYTES(fn)                                                    \
    {                                                                                  \
#fn, fn, NULL, TELPHER_MDR_ANY_LENGTH, 0, NULL                                 \
    }
#define TELPHER_MDR_ENTRY_POST(fn, post, type)                                         \
    {                                                                                  \
#fn, fn, post, sizeof(type), 0, #type                                          \
    }
/** The parameters of a call; their length was checked against the table. */
#define TELPHER_MDR_PARAMS(call, type) ((const type *)(call)->params)
/** The object of a call. */
#define TELPHER_MDR_SELF(call, type) ((type *)(call)->self)

#ifdef __cplusplus
}
#endif

#endif
