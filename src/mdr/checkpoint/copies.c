/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of processes on several hosts, each with a folder of its own: process 0 asks which
 * parts are in which folder, and has them copied. After a checkpoint each part is in the folders of
 * two hosts; for a restore each folder gets all parts.
 */
#include "mdr/checkpoint/checkpoint_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one process: copies ---- */

static telpher_status
read_file(telpher_mdr *mdr, const char *path, telpher_msg_buffer *ret_content)
{
    FILE *in = fopen(path, "rbe");
    struct stat info = {0};
    void *data = NULL;

    errno = 0;
    if (in != NULL && fstat(fileno(in), &info) == 0 && info.st_size > 0) {
        data = malloc((size_t)info.st_size);
    }
    if (data != NULL &&
        fread(data, 1, (size_t)info.st_size, in) != (size_t)info.st_size) {
        free(data);
        data = NULL;
    }
    if (in != NULL) {
        (void)fclose(in);
    }
    if (data == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_IO, "cannot read %s: %s", path,
                            errno != 0 ? strerror(errno) : "it is empty or cut short");
    }
    *ret_content = (telpher_msg_buffer){.data = data, .len = (size_t)info.st_size};
    return TELPHER_OK;
}

telpher_status
tp_mdr_send_part(telpher_mdr *mdr, const struct tp_mdr_save *s)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_SAVE};
    struct tp_mdr_save copy = *s;
    char path[TP_MDR_PATH_BYTES];
    struct tp_mdr_message *m;
    telpher_status status;

    copy.step = TP_MDR_COPY;
    tp_mdr_part_name(path, s->folder, s->generation, s->part, s->parts, "mdr");
    m = tp_mdr_message_create(mdr, &h, &copy, sizeof(copy));
    if (m == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY,
                            "out of memory to send %s to process %u", path, s->to);
    }
    status = read_file(mdr, path, &m->buffers[0]);
    if (status != TELPHER_OK) {
        tp_mdr_message_destroy(m);
        return status;
    }
    m->owns_buffers = true;
    m->buffer_count = 1;
    tp_mdr_send_kept(mdr, s->to, m);
    return TELPHER_OK;
}

telpher_status
tp_mdr_write_copy(telpher_mdr *mdr, const struct tp_mdr_save *s,
                  const telpher_msg_buffer *content)
{
    char temporary[TP_MDR_PATH_BYTES], path[TP_MDR_PATH_BYTES];
    FILE *out;
    bool written;

    tp_mdr_part_name(temporary, s->folder, s->generation, s->part, s->parts, "new");
    tp_mdr_part_name(path, s->folder, s->generation, s->part, s->parts, "mdr");
    out = fopen(temporary, "wbe");
    written = out != NULL &&
              fwrite(content->data, 1, content->len, out) == content->len &&
              fflush(out) == 0 && fsync(fileno(out)) == 0;
    if (out != NULL) {
        written = fclose(out) == 0 && written;
    }
    if (!written || rename(temporary, path) != 0) {
        telpher_status status = tp_mdr_error(mdr, TELPHER_ERR_IO, "cannot write %s: %s",
                                             temporary, strerror(errno));

        (void)unlink(temporary);
        return status;
    }
    return TELPHER_OK;
}

/* ---- process 0 ---- */

/* Lists the parts of the newest checkpoint before @p below that each process has. */
static telpher_status
survey(telpher_mdr *mdr, const char *folder, uint64_t below, struct tp_mdr_found *found,
       uint64_t *ret_generation, uint32_t *ret_parts)
{
    struct tp_mdr_save s = {.step = TP_MDR_LIST, .generation = below};
    telpher_status status;

    memcpy(s.folder, folder, strlen(folder) + 1);
    status = tp_mdr_ask_all(mdr, &s, found, sizeof(*found));
    *ret_generation = *ret_parts = 0;
    if (status == TELPHER_OK) {
        *ret_generation = tp_mdr_newest_of(found, mdr->size, ret_parts);
    }
    return status;
}

telpher_status
tp_mdr_find_newest(telpher_mdr *mdr, const char *folder, struct tp_mdr_found *found,
                   uint64_t *ret_generation)
{
    uint32_t parts;

    return survey(mdr, folder, UINT64_MAX, found, ret_generation, &parts);
}

telpher_status
tp_mdr_find_whole(telpher_mdr *mdr, struct tp_mdr_save *s, struct tp_mdr_found *found)
{
    telpher_status status;

    s->generation = UINT64_MAX;
    do {
        status =
            survey(mdr, s->folder, s->generation, found, &s->generation, &s->parts);
    } while (status == TELPHER_OK && s->generation != 0 &&
             !tp_mdr_is_whole(found, mdr->size, s->generation, s->parts));
    return status;
}

telpher_status
tp_mdr_copy_parts(telpher_mdr *mdr, struct tp_mdr_save *s,
                  const struct tp_mdr_found *found)
{
    struct tp_mdr_asked asked = {.count = 0};
    telpher_status status = tp_mdr_asked_init(mdr, &asked, mdr->size);

    s->step = TP_MDR_SEND;
    s->parts = mdr->size;
    for (s->part = 0; s->part < mdr->size && status == TELPHER_OK; s->part++) {
        s->to = tp_mdr_buddy_of(found, mdr->size, s->part);
        if (s->to != s->part) {
            status = tp_mdr_ask(mdr, s, s->part, &asked);
        }
    }
    return tp_mdr_asked_end(mdr, &asked, status);
}

/* Whether a process is the first of those with its folder. */
static bool
is_first(const struct tp_mdr_found *found, uint32_t rank)
{
    for (uint32_t r = 0; r < rank; r++) {
        if (found[r].place == found[rank].place) {
            return false;
        }
    }
    return true;
}

static telpher_status
gather_folder(telpher_mdr *mdr, struct tp_mdr_save *s, const struct tp_mdr_found *found)
{
    struct tp_mdr_asked asked = {.count = 0};
    telpher_status status = tp_mdr_asked_init(mdr, &asked, s->parts);

    for (s->part = 0; s->part < s->parts && status == TELPHER_OK; s->part++) {
        if (!tp_mdr_has_part(&found[s->to], s->generation, s->part)) {
            status = tp_mdr_ask(
                mdr, s, tp_mdr_holder_of(found, mdr->size, s->generation, s->part),
                &asked);
        }
    }
    return tp_mdr_asked_end(mdr, &asked, status);
}

telpher_status
tp_mdr_gather_parts(telpher_mdr *mdr, struct tp_mdr_save *s,
                    const struct tp_mdr_found *found)
{
    telpher_status status = TELPHER_OK;

    s->step = TP_MDR_SEND;
    for (s->to = 0; s->to < mdr->size && status == TELPHER_OK; s->to++) {
        if (is_first(found, s->to)) {
            status = gather_folder(mdr, s, found);
        }
    }
    return status;
}
