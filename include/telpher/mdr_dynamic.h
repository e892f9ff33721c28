/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that move: one function packs and unpacks an object, messages find it in the process
 * where it is. Extends mdr.h.
 *
 *     static void pup(telpher_mdr_call *call, telpher_mdr_pup *p)
 *     {
 *         struct block *b = call->self;
 *
 *         telpher_mdr_pup_bytes(p, &b->cells, sizeof(b->cells));
 *         if (telpher_mdr_pup_mode(p) == TELPHER_MDR_UNPACK) {
 *             b->heat = malloc(b->cells * sizeof(*b->heat));
 *         }
 *         telpher_mdr_pup_bytes(p, b->heat, b->cells * sizeof(*b->heat));
 *     }
 *
 * Source: PUP and migration of Charm++. Threads: as mdr.h. Since: 0.1.
 */
#ifndef TELPHER_MDR_DYNAMIC_H
#define TELPHER_MDR_DYNAMIC_H

#include <telpher/mdr.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- packing ---- */

/** Mode of a class's `pup` function. It runs with SIZE, then with PACK, and after the
 *  move with UNPACK, on an object of zeros for which `create` does not run. The object that
 *  was packed then ends with `destroy`. */
enum telpher_mdr_pup_mode {
    TELPHER_MDR_SIZE = 1,
    TELPHER_MDR_PACK = 2,
    TELPHER_MDR_UNPACK = 3,
};

TELPHER_CALL int telpher_mdr_pup_mode(const telpher_mdr_pup *pup);
/** Counts, packs or unpacks @p len bytes at @p data, in host or device memory. */
TELPHER_CALL void telpher_mdr_pup_bytes(telpher_mdr_pup *pup, void *data, size_t len);

/* ---- objects that come and go ---- */

/** An index of the program's own: up to 8 bytes, in a sparse array of 2 dimensions. */
static inline telpher_mdr_index
telpher_mdr_index_of(const void *bytes, size_t len)
{
    telpher_mdr_index index = {{0, 0, 0}};

    for (size_t i = 0; i < len && i < 8; i++) {
        ((unsigned char *)index.at)[i] = ((const unsigned char *)bytes)[i];
    }
    return index;
}

/**
 * Creates an array without elements; telpher_mdr_insert() adds them.
 * @param dims  1 or 2: indices are any numbers; 3: from -2^20 to 2^20 - 1.
 * @return as telpher_mdr_array_create()
 */
TELPHER_CALL telpher_status telpher_mdr_sparse_create(telpher_mdr *mdr,
                                                      uint32_t class_id, uint32_t dims,
                                                      telpher_mdr_array *ret_array);

#define TELPHER_MDR_ANY_PROCESS UINT32_MAX

/**
 * Inserts an element into a sparse array; its `create` runs with the parameters. If the caller is
 * an element of the same array, the new one takes part in its next reduction and receives
 * the broadcasts that the caller has not received; otherwise those that process 0 has not completed. Messages
 * for an index that has no element wait for it.
 * @param call  of the entry, or of the main function.
 * @param rank  process to be in, or TELPHER_MDR_ANY_PROCESS.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (the array is not sparse), TELPHER_ERR_RANGE (index or
 *         process, or parameters too long), as telpher_mdr_invoke(). An index that has an element
 *         already ends the run with TELPHER_ERR_EXISTS, which names it.
 */
TELPHER_CALL telpher_status telpher_mdr_insert(telpher_mdr_call *call,
                                               const telpher_mdr_array *array,
                                               telpher_mdr_index index, uint32_t rank,
                                               const void *params, size_t params_len);
/**
 * Ends the object of @p call, an element of a sparse array, after this entry and the light threads
 * that use it. `destroy` runs. Reductions that it has not contributed to do without it. Sections
 * may not have it as a member.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (the call has no object of a sparse array)
 */
TELPHER_CALL telpher_status telpher_mdr_remove(telpher_mdr_call *call);

/* ---- sections ---- */

/** Some elements of an array. Plain data: may be a parameter. */
typedef struct telpher_mdr_section {
    telpher_mdr_array array;
    uint64_t number;
} telpher_mdr_section;

/**
 * Names @p count elements, from any process; those of a sparse array must have been inserted.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such index, or none at all), as telpher_mdr_invoke()
 */
TELPHER_CALL telpher_status telpher_mdr_section_create(
    telpher_mdr *mdr, const telpher_mdr_array *array, const telpher_mdr_index *members,
    size_t count, telpher_mdr_section *ret_section);
/** Invokes an entry of all members; in the order of broadcasts where objects may move.
 *  @return as telpher_mdr_invoke() */
TELPHER_CALL telpher_status
telpher_mdr_section_broadcast(telpher_mdr *mdr, const telpher_mdr_section *section,
                              uint32_t entry, const void *params, size_t params_len);
/** As telpher_mdr_contribute(), to the section's next reduction, which its members make.
 *  @return also TELPHER_ERR_NOT_FOUND (the object is no member) */
TELPHER_CALL telpher_status telpher_mdr_section_contribute(
    telpher_mdr_call *call, const telpher_mdr_section *section, const void *data,
    size_t len, uint32_t op, const telpher_mdr_target *target);

/* ---- migration ---- */

/**
 * Moves the object of @p call to process @p rank, after this entry and the light threads that
 * use the object have ended. Messages and channels follow it. The last call counts.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such process), TELPHER_ERR_BUSY (the object waits in
 *         telpher_mdr_sync()), TELPHER_ERR_INVALID (the class has no
 *         pup function, or the call has no object of an array)
 */
TELPHER_CALL telpher_status telpher_mdr_migrate(telpher_mdr_call *call, uint32_t rank);

/* ---- load balancing ---- */

/** An object as a balancer sees it. */
typedef struct telpher_mdr_load {
    telpher_mdr_index index;
    uint32_t rank; /**< process that it is in; the balancer writes where it shall be */
    /** [ns] processor time that its entries will take: that since the last synchronisation, and
     *  half of the change since the one before. */
    uint64_t ns;
    /** 1: by telpher_mdr_sync_here(); the rank that a balancer writes is ignored */
    uint32_t stays;
    uint32_t reserved; /**< 0 */
} telpher_mdr_load;

/** Spreads objects over @p size processes. Runs in process 0. */
typedef void (*telpher_mdr_balancer_fn)(telpher_mdr_load *loads, size_t count,
                                        uint32_t size, void *user);

/**
 * Sets the balancer instead of that of TELPHER_MDR_BALANCER; before telpher_mdr_run(), in all
 * processes. NULL: objects stay. @return TELPHER_OK, TELPHER_ERR_BUSY (the runtime runs)
 */
TELPHER_CALL telpher_status telpher_mdr_balancer_set(telpher_mdr *mdr,
                                                     telpher_mdr_balancer_fn fn,
                                                     void *user);
/**
 * The object of @p call waits until all of its array have called this. The balancer then spreads
 * them, and entry @p entry, which takes no parameters, runs in each where it is. Messages are
 * delivered meanwhile. Undoes a telpher_mdr_migrate() of the same entry.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such entry), TELPHER_ERR_INVALID (the entry takes
 *         parameters, or the object cannot move), TELPHER_ERR_BUSY (it waits already)
 */
TELPHER_CALL telpher_status telpher_mdr_sync(telpher_mdr_call *call, uint32_t entry);
/** As telpher_mdr_sync(), and this time the balancer leaves the object where it is. */
TELPHER_CALL telpher_status telpher_mdr_sync_here(telpher_mdr_call *call,
                                                  uint32_t entry);

/**
 * Adds @p ns of processor time to what the balancer knows of the object of @p call: for work that
 * a program does for it outside of its entries. @return TELPHER_OK, TELPHER_ERR_INVALID (the call
 * has no object of an array)
 */
TELPHER_CALL telpher_status telpher_mdr_load_add(telpher_mdr_call *call, uint64_t ns);

/* ---- checkpoints ---- */

/**
 * Waits for quiescence and saves all objects, their channels and @p data of the main function.
 * Only the main function calls it. All classes with objects need a pup function, groups as well;
 * no reduction may be incomplete and no entry wait. Futures are not saved.
 * @param folder  NULL: TELPHER_MDR_CHECKPOINT, which `telpher launch --restart` sets to one in
 *                memory. It is created if need be. Processes on several hosts that do not share
 *                it keep copies of each other's parts: the loss of one host loses none.
 * @return TELPHER_OK (older checkpoints are removed); TELPHER_ERR_INVALID (with the object's
 *         class), TELPHER_ERR_IO, TELPHER_ERR_NO_MEMORY (there is no new checkpoint, older ones
 *         stay); TELPHER_ERR_BUSY (another waits for quiescence); TELPHER_ERR_CANCELED
 */
TELPHER_CALL telpher_status telpher_mdr_checkpoint(telpher_mdr_call *call,
                                                   const char *folder, const void *data,
                                                   size_t len);
/**
 * Makes the objects of the newest checkpoint, spread over the processes that there are now. Only
 * the main function calls it, before it creates arrays. Proxies and sections that were saved hold.
 * The object of a group in process r is that of process r modulo the number of processes then.
 * @param data  [cap] receives the data of telpher_mdr_checkpoint(); *ret_len, which may be NULL,
 *              its length.
 * @return TELPHER_OK; TELPHER_ERR_NOT_FOUND (there is none: begin anew); TELPHER_ERR_BUSY (there
 *         are arrays); TELPHER_ERR_INVALID, TELPHER_ERR_PROTO (damaged, or of other classes),
 *         TELPHER_ERR_IO, TELPHER_ERR_NO_MEMORY, TELPHER_ERR_TRUNCATED (all else is restored)
 */
TELPHER_CALL telpher_status telpher_mdr_restore(telpher_mdr_call *call,
                                                const char *folder, void *data,
                                                size_t cap, size_t *ret_len);

/* ---- channels ---- */

/** The other end of a channel between two elements, of any arrays. The nth message of one end
 *  meets the nth receive of the other, also while either end moves. */
typedef struct telpher_mdr_channel {
    telpher_mdr_array array;
    telpher_mdr_index index;
    uint32_t number; /**< of the channel: two elements may have several */
} telpher_mdr_channel;

/**
 * Sends parameters and buffers from the object of @p call to the other end.
 * @return as telpher_mdr_invoke(), whose other arguments these are. The parameters may be 32
 *         bytes shorter than those of an invocation.
 */
TELPHER_CALL telpher_status telpher_mdr_channel_send(
    telpher_mdr_call *call, const telpher_mdr_channel *channel, const void *params,
    size_t params_len, const telpher_msg_buffer *buffers, size_t buffer_count,
    const telpher_xfer_params *xfer);
/**
 * Receives the next message: entry @p entry of the object of @p call runs with it, once; first
 * its post function, if there are buffers: perhaps before entries of earlier messages.
 * @return TELPHER_OK, TELPHER_ERR_RANGE (no such entry), TELPHER_ERR_INVALID (the call has no
 *         object), TELPHER_ERR_NO_MEMORY
 */
TELPHER_CALL telpher_status telpher_mdr_channel_recv(telpher_mdr_call *call,
                                                     const telpher_mdr_channel *channel,
                                                     uint32_t entry);
/**
 * Waits for the next message, in an entry that may wait.
 * @param params   [cap] receives the parameters; longer ones are truncated.
 * @param buffers  [buffer_count] name memory and room for the message's buffers; len becomes
 *                 the length.
 * @param ret_len  [bytes] of the parameters; may be NULL.
 * @return TELPHER_OK; TELPHER_ERR_TRUNCATED (parameters, or a buffer, which is dropped, are
 *         longer, or there are more buffers); TELPHER_ERR_INVALID, TELPHER_ERR_NO_MEMORY;
 *         TELPHER_ERR_CANCELED (the run ends); an error of the transfer
 */
TELPHER_CALL telpher_status telpher_mdr_channel_await(
    telpher_mdr_call *call, const telpher_mdr_channel *channel, void *params,
    size_t cap, size_t *ret_len, telpher_msg_buffer *buffers, size_t buffer_count);

#ifdef __cplusplus
}
#endif

#endif
