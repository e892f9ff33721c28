/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a checkpoint in folders of several hosts: files, what is where, and which copies are
 * needed. Also used by adaptive MPI, whose parts are ranks.
 */
#ifndef TELPHER_MDR_PARTS_H
#define TELPHER_MDR_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TP_MDR_FOLDER_BYTES = 960, /**< of a checkpoint's folder */
    TP_MDR_PATH_BYTES = TP_MDR_FOLDER_BYTES + 64,
    TP_MDR_PARTS_MAX = 4096,
};

/** The newest checkpoint of which a process's folder has files. */
struct tp_mdr_found {
    uint64_t place; /**< of the folder: equal in processes that share it; 0: none */
    uint64_t generation; /**< 0: none */
    uint32_t size; /**< number of its parts, at most TP_MDR_PARTS_MAX */
    uint32_t random;
    uint8_t parts[TP_MDR_PARTS_MAX / 8]; /**< a bit for each part that is there */
};

/* ---- folder.c: files of this process ---- */

/** @return @p dst: the name of a part; @p suffix "mdr", or "new" until it is complete */
const char *tp_mdr_part_name(char dst[TP_MDR_PATH_BYTES], const char *folder,
                             uint64_t generation, uint32_t part, uint32_t size,
                             const char *suffix);
/** Creates the folder if need be, and finds its newest checkpoint before @p below. */
void tp_mdr_list_parts(const char *folder, uint64_t below,
                       struct tp_mdr_found *ret_found);
/** Removes the files of checkpoints from @p from on and before @p than. */
void tp_mdr_remove_parts(const char *folder, uint64_t from, uint64_t than);

/* ---- places.c: what all processes have, @p count of them ---- */

bool tp_mdr_has_part(const struct tp_mdr_found *f, uint64_t generation, uint32_t part);
/** The newest generation of any; 0: there is none. *ret_parts: the number of its parts. */
uint64_t tp_mdr_newest_of(const struct tp_mdr_found *found, uint32_t count,
                          uint32_t *ret_parts);
/** The generation after @p newest, the same in all processes. It is another one than that of an
 *  attempt after @p newest that a folder, which is not here now, may have files of. */
uint64_t tp_mdr_next_generation(const struct tp_mdr_found *found, uint32_t count,
                                uint64_t newest);
/** The first process that has a part. @return count: none has */
uint32_t tp_mdr_holder_of(const struct tp_mdr_found *found, uint32_t count,
                          uint64_t generation, uint32_t part);
/** True if each part is in the folder of some process. */
bool tp_mdr_is_whole(const struct tp_mdr_found *found, uint32_t count,
                     uint64_t generation, uint32_t parts);
/** The next process whose folder is another one than that of @p rank. @return rank: there is none */
uint32_t tp_mdr_buddy_of(const struct tp_mdr_found *found, uint32_t count,
                         uint32_t rank);

#endif
