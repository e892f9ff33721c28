/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the part of a checkpoint that this process has. */
#include "mdr/checkpoint/checkpoint_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

struct output {
    FILE *file;
    uint64_t hash;
};

/* A failed write is noticed at the end. */
static void
put(struct output *out, const void *data, size_t len)
{
    if (len != 0) {
        out->hash = tp_hash_add(out->hash, data, len);
        (void)fwrite(data, 1, len, out->file);
    }
}

/* @return OK, or INVALID: what is under way is not part of a checkpoint */
static telpher_status
check_element(telpher_mdr *mdr, const struct tp_mdr_element *e)
{
    const char *what = e->uses != 0             ? "an entry of it waits"
                       : e->sync != TP_MDR_RUNS ? "it waits in telpher_mdr_sync()"
                                                : NULL;

    return what == NULL
               ? TELPHER_OK
               : tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                              "object (%d, %d, %d) of class %s cannot be saved: %s",
                              e->index.at[0], e->index.at[1], e->index.at[2],
                              mdr->classes[e->array->proxy.class_id]->name, what);
}

static telpher_status
check_array(telpher_mdr *mdr, const struct tp_mdr_array_state *a)
{
    const telpher_mdr_class *def = mdr->classes[a->proxy.class_id];
    const char *what = def->pup == NULL                    ? "it has no pup function"
                       : !tp_list_is_empty(&a->reductions) ? "a reduction is incomplete"
                       : !tp_list_is_empty(&a->homeless) ? "messages wait for an object"
                                                         : NULL;

    return what == NULL ? TELPHER_OK
                        : tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                                       "objects of class %s cannot be saved: %s",
                                       def->name, what);
}

static telpher_status
put_element(telpher_mdr *mdr, struct output *out, struct tp_mdr_element *e)
{
    struct tp_mdr_file_element head = {.index = e->index,
                                       .syncs = e->syncs,
                                       .contributed = e->contributed,
                                       .debt = e->debt,
                                       .joined = e->joined,
                                       .inserted = e->inserted};
    telpher_status status = check_element(mdr, e);
    void *data = NULL;
    size_t len = 0;

    if (status == TELPHER_OK) {
        status = tp_mdr_pack(mdr, e, &data, &len);
    }
    if (status == TELPHER_OK) {
        head.len = len;
        put(out, &head, sizeof(head));
        put(out, data, len);
        free(data);
    }
    return status;
}

static void
put_sections(struct output *out, const struct tp_mdr_array_state *a)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&a->sections, &cursor, NULL, &value)) {
        const struct tp_mdr_section_state *s = value;
        const struct tp_mdr_file_section head = {s->number, s->completed,
                                                 tp_map_count(&s->members)};
        size_t member = 0;
        uint64_t key;

        put(out, &head, sizeof(head));
        while (tp_map_next(&s->members, &member, &key, NULL)) {
            put(out, &key, sizeof(key));
        }
    }
}

static telpher_status
put_array(telpher_mdr *mdr, struct output *out, struct tp_mdr_array_state *a)
{
    const struct tp_mdr_file_array head = {.proxy = a->proxy,
                                           .total = a->total,
                                           .completed = a->completed,
                                           .heard = a->heard,
                                           .spreads = a->spreads,
                                           .sections = tp_map_count(&a->sections),
                                           .elements = tp_map_count(&a->elements)};
    telpher_status status = check_array(mdr, a);

    if (status != TELPHER_OK) {
        return status;
    }
    put(out, &head, sizeof(head));
    put_sections(out, a);
    tp_list_for_each_entry(struct tp_mdr_element, e, &a->all, link) {
        status = status == TELPHER_OK ? put_element(mdr, out, e) : status;
    }
    return status;
}

static telpher_status
put_all(telpher_mdr *mdr, struct output *out, const struct tp_mdr_save *s)
{
    const struct tp_mdr_file_head head = {
        .magic = TP_MDR_FILE_MAGIC,
        .generation = s->generation,
        .classes_hash = mdr->classes_hash,
        .array_counter = mdr->array_counter,
        .rank = mdr->rank,
        .size = mdr->size,
        .arrays = (uint32_t)tp_map_count(&mdr->arrays),
        .section_counter = mdr->section_counter,
        .data_len = mdr->rank == 0 ? mdr->saved_len : 0};
    telpher_status status = TELPHER_OK;
    size_t cursor = 0;
    void *value;

    put(out, &head, sizeof(head));
    put(out, mdr->saved, head.data_len);
    while (status == TELPHER_OK && tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        status = put_array(mdr, out, value);
    }
    (void)fwrite(&out->hash, 1, sizeof(out->hash), out->file);
    return status;
}

telpher_status
tp_mdr_save_part(telpher_mdr *mdr, const struct tp_mdr_save *s)
{
    char temporary[TP_MDR_PATH_BYTES], path[TP_MDR_PATH_BYTES];
    struct output out = {NULL, TP_HASH_START};
    telpher_status status;
    bool written;

    tp_mdr_part_name(temporary, s->folder, s->generation, mdr->rank, mdr->size, "new");
    tp_mdr_part_name(path, s->folder, s->generation, mdr->rank, mdr->size, "mdr");
    out.file = fopen(temporary, "wbe");
    if (out.file == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_IO, "cannot write %s: %s", temporary,
                            strerror(errno));
    }
    status = put_all(mdr, &out, s);
    written =
        fflush(out.file) == 0 && ferror(out.file) == 0 && fsync(fileno(out.file)) == 0;
    written = fclose(out.file) == 0 && written;
    if (status == TELPHER_OK && (!written || rename(temporary, path) != 0)) {
        status = tp_mdr_error(mdr, TELPHER_ERR_IO, "cannot write %s: %s", temporary,
                              strerror(errno));
    }
    if (status != TELPHER_OK) {
        (void)unlink(temporary);
    }
    return status;
}
