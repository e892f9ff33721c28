/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, for checkpoint.c, save.c and restore.c. */
#ifndef TELPHER_MDR_CHECKPOINT_INT_H
#define TELPHER_MDR_CHECKPOINT_INT_H

#include "mdr/object_int.h"

#define TP_MDR_FILE_MAGIC UINT64_C(0x312e52444d504c54) /* "TLPMDR.1" */

enum tp_mdr_save_step {
    TP_MDR_WRITE, /**< each process writes its part */
    TP_MDR_CHECK, /**< each process verifies the checksums of some parts */
    TP_MDR_READ, /**< each process takes its objects from all parts */
    TP_MDR_LIST, /**< each process answers with struct tp_mdr_found: files before `generation` */
    TP_MDR_SEND, /**< one process sends a part to process `to` */
    TP_MDR_COPY, /**< that process writes the buffer of the message, and answers */
    TP_MDR_REMOVE, /**< each process removes older checkpoints from its folder */
    TP_MDR_DROP, /**< each process removes the files of this one, which failed */
};

/** Request of process 0 to all, in a message of kind SAVE. */
struct tp_mdr_save {
    telpher_mdr_future answer;
    uint64_t generation; /**< of the checkpoint: later ones are larger */
    uint32_t step;
    uint32_t parts; /**< of the checkpoint */
    uint32_t part, to; /**< SEND and COPY */
    char folder[TP_MDR_FOLDER_BYTES];
};

/** The answer. */
struct tp_mdr_saved {
    int32_t status;
    char text[TP_MDR_ERROR_BYTES];
};

/** Requests under way. */
struct tp_mdr_asked {
    telpher_mdr_future *answers;
    uint32_t *ranks; /**< that were asked */
    uint32_t count;
};

/* A part is one file: head, the main function's data, arrays, hash. An array is its head, its
 * sections, and its elements in that process. Processes have the same architecture. */

struct tp_mdr_file_head {
    uint64_t magic, generation, classes_hash, array_counter;
    uint32_t rank, size, arrays, section_counter;
    uint64_t data_len; /**< of the main function; part 0 */
};

struct tp_mdr_file_array {
    telpher_mdr_array proxy;
    uint64_t total, completed, heard;
    uint64_t spreads, sections, elements;
};

/** The keys of its members follow. */
struct tp_mdr_file_section {
    uint64_t number, completed, members;
};

/** The packed element follows. */
struct tp_mdr_file_element {
    telpher_mdr_index index;
    uint32_t syncs;
    uint64_t contributed, debt;
    uint32_t joined, inserted;
    uint64_t len;
};

/* ---- checkpoint.c ---- */

/** Has room for @p count requests. @return OK, NO_MEMORY */
telpher_status tp_mdr_asked_init(telpher_mdr *mdr, struct tp_mdr_asked *asked,
                                 uint32_t count);
/** Sends a request to a process. */
telpher_status tp_mdr_ask(telpher_mdr *mdr, struct tp_mdr_save *s, uint32_t rank,
                          struct tp_mdr_asked *asked);
/** Waits for the answers. @return @p status, else the first error, with its text */
telpher_status tp_mdr_asked_end(telpher_mdr *mdr, struct tp_mdr_asked *asked,
                                telpher_status status);
/** Asks all and waits. @p found: an array of their answers to LIST, @p each bytes, or NULL */
telpher_status tp_mdr_ask_all(telpher_mdr *mdr, struct tp_mdr_save *s, void *found,
                              size_t each);

/* ---- copies.c ---- */

telpher_status tp_mdr_send_part(telpher_mdr *mdr, const struct tp_mdr_save *s);
telpher_status tp_mdr_write_copy(telpher_mdr *mdr, const struct tp_mdr_save *s,
                                 const telpher_msg_buffer *content);
/** Fills @p found, an array of mdr->size. *ret_generation: the largest of any file, or 0. */
telpher_status tp_mdr_find_newest(telpher_mdr *mdr, const char *folder,
                                  struct tp_mdr_found *found, uint64_t *ret_generation);
/** Finds the newest checkpoint of which each part is somewhere; s->generation is 0 if there is
 *  none. */
telpher_status tp_mdr_find_whole(telpher_mdr *mdr, struct tp_mdr_save *s,
                                 struct tp_mdr_found *found);
/** Copies each process's part to a folder of another process. */
telpher_status tp_mdr_copy_parts(telpher_mdr *mdr, struct tp_mdr_save *s,
                                 const struct tp_mdr_found *found);
/** Copies to each folder the parts that it lacks. */
telpher_status tp_mdr_gather_parts(telpher_mdr *mdr, struct tp_mdr_save *s,
                                   const struct tp_mdr_found *found);

/* ---- save.c and restore.c ---- */

/** Writes the part of this process. @return OK, or an error with a text */
telpher_status tp_mdr_save_part(telpher_mdr *mdr, const struct tp_mdr_save *s);
telpher_status tp_mdr_check_parts(telpher_mdr *mdr, const struct tp_mdr_save *s);
/** Makes this process's arrays and elements of all parts. */
telpher_status tp_mdr_restore_parts(telpher_mdr *mdr, const struct tp_mdr_save *s);

#endif
