/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of the search for included files. */
#ifndef TELPHER_ICD_PROGRAM_INCLUDE_INT_H
#define TELPHER_ICD_PROGRAM_INCLUDE_INT_H

#include "base/container/map.h"
#include "base/os/thread.h"
#include "base/text/sha256.h"
#include "icd/program/include.h"
#include "wire/files.h"

/** The file or folder of a name. */
struct tp_icd_named {
    char *name; /**< as a compiler spells it, cleaned */
    enum tp_wire_file_kind kind;
    bool scanned; /**< its include lines */
    uint64_t identity; /**< of the file */
    uint8_t *content; /**< kept: words of it may be asked for */
    size_t len; /**< [bytes] */
    uint8_t digest[TP_SHA256_BYTES];
};

struct tp_icd_includes {
    const struct _cl_program *program; /**< with the source */
    struct tp_buf header_text; /**< of all header programs */
    struct tp_buf joined_text; /**< the source with its spliced lines joined */
    char *options;
    char **folders; /**< in the order in which they are searched */
    size_t folder_count, option_folders; /**< the latter are from the options */
    struct tp_mutex lock; /**< of what follows: sessions ask side by side */
    struct tp_icd_named *list;
    size_t count, room;
    struct tp_map numbers; /**< hash of a name → its place in the list plus 1 */
    struct tp_map scanned; /**< identities of files whose lines were looked at */
    uint64_t bytes; /**< of all files */
    bool full, failed;
};

/* ---- include.c ---- */

/** @return what is known of a name, or NULL; *ret_key is free for it then */
struct tp_icd_named *tp_icd_includes_find(const struct tp_icd_includes *s,
                                          const char *name, uint64_t *ret_key);
/** Looks under a name, unless that was done. @return NULL: no memory */
struct tp_icd_named *tp_icd_includes_look(struct tp_icd_includes *s, const char *name);
/** Looks for the files of the include lines of all new files. */
void tp_icd_includes_follow(struct tp_icd_includes *s);
/** Appends the record of a name. */
void tp_icd_includes_record(struct tp_icd_includes *s, const struct tp_icd_named *n,
                            bool content, struct tp_buf *out);

/* ---- include_options.c ---- */

/** Collects the folders, and looks for files, that the options name. */
void tp_icd_includes_options(struct tp_icd_includes *s);
/** Looks at all files in the folders of the options. */
void tp_icd_includes_folders(struct tp_icd_includes *s);

#endif
