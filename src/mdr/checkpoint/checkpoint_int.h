/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, for checkpoint.c, save.c and restore.c. */
#ifndef TELPHER_MDR_CHECKPOINT_INT_H
#define TELPHER_MDR_CHECKPOINT_INT_H

#include "mdr/object_int.h"

#define TP_MDR_FILE_MAGIC UINT64_C(0x312e52444d504c54) /* "TLPMDR.1" */

enum { TP_MDR_PATH_BYTES = TP_MDR_FOLDER_BYTES + 64 };

enum tp_mdr_save_step {
    TP_MDR_WRITE, /**< each process writes its part */
    TP_MDR_CHECK, /**< each process verifies the checksums of some parts */
    TP_MDR_READ, /**< each process takes its objects from all parts */
};

/** Request of process 0 to all, in a message of kind SAVE. */
struct tp_mdr_save {
    telpher_mdr_future answer;
    uint64_t generation; /**< of the checkpoint: later ones are larger */
    uint32_t step;
    uint32_t parts; /**< of the checkpoint to restore */
    char folder[TP_MDR_FOLDER_BYTES];
};

/** The answer. */
struct tp_mdr_saved {
    int32_t status;
    char text[TP_MDR_ERROR_BYTES];
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

/** @return @p dst: the name of a part; @p suffix "mdr", or "new" until it is complete */
const char *tp_mdr_part_name(char *dst, const char *folder, uint64_t generation,
                             uint32_t rank, uint32_t size, const char *suffix);
/** Writes the part of this process. @return OK, or an error with a text */
telpher_status tp_mdr_save_part(telpher_mdr *mdr, const struct tp_mdr_save *s);
telpher_status tp_mdr_check_parts(telpher_mdr *mdr, const struct tp_mdr_save *s);
/** Makes this process's arrays and elements of all parts. */
telpher_status tp_mdr_restore_parts(telpher_mdr *mdr, const struct tp_mdr_save *s);

#endif
