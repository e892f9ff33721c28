/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a checkpoint. The processes share the parts to check their hashes. Then each walks over all
 * parts, makes the arrays, and takes the elements of its block, so that the number of processes may
 * be another one than before.
 */
#include "mdr/checkpoint/checkpoint_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* A mapped part. */
struct input {
    const char *path;
    const uint8_t *map, *at, *end;
    size_t len;
    bool is_short;
};

static const void *
take(struct input *in, size_t len)
{
    const uint8_t *at = in->at;

    if (len > (size_t)(in->end - in->at)) {
        in->is_short = true;
        return NULL;
    }
    in->at += len;
    return at;
}

/* Copies a struct out of the part; zeros if it is too short. */
static void
get(struct input *in, void *dst, size_t len)
{
    const void *src = take(in, len);

    memset(dst, 0, len);
    if (src != NULL) {
        memcpy(dst, src, len);
    }
}

static telpher_status
open_part(telpher_mdr *mdr, const char *path, struct input *in)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info = {0};
    void *map = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size >= 8) {
        map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (map == MAP_FAILED && fd >= 0 && info.st_size < 8) {
        return tp_mdr_error(
            mdr, TELPHER_ERR_PROTO,
            "%s is damaged: it has %llu bytes, too few for any checkpoint", path,
            (unsigned long long)info.st_size);
    }
    if (map == MAP_FAILED) {
        return tp_mdr_error(mdr, TELPHER_ERR_IO, "cannot read %s: %s", path,
                            strerror(errno));
    }
    *in = (struct input){.path = path,
                         .map = map,
                         .at = map,
                         .end = (uint8_t *)map + info.st_size - 8,
                         .len = (size_t)info.st_size};
    return TELPHER_OK;
}

static telpher_status
check_head(telpher_mdr *mdr, struct input *in, const struct tp_mdr_save *s,
           uint32_t part, struct tp_mdr_file_head *ret_head)
{
    get(in, ret_head, sizeof(*ret_head));
    if (ret_head->magic != TP_MDR_FILE_MAGIC || ret_head->generation != s->generation ||
        ret_head->rank != part || ret_head->size != s->parts) {
        return tp_mdr_error(
            mdr, TELPHER_ERR_PROTO,
            "%s is damaged: its head does not name part %u of %u of this checkpoint",
            in->path, part, s->parts);
    }
    if (ret_head->classes_hash != mdr->classes_hash) {
        return tp_mdr_error(mdr, TELPHER_ERR_PROTO,
                            "%s is of a program with other classes", in->path);
    }
    return TELPHER_OK;
}

/* ---- arrays ---- */

static void
get_sections(struct input *in, struct tp_mdr_array_state *a, uint64_t count,
             bool first_part)
{
    for (uint64_t i = 0; i < count && !in->is_short; i++) {
        struct tp_mdr_file_section head;
        struct tp_mdr_section_state *s;

        get(in, &head, sizeof(head));
        s = first_part ? tp_mdr_section_made(a, head.number) : NULL;
        if (s != NULL) {
            s->completed = head.completed;
        }
        for (uint64_t m = 0; m < head.members && !in->is_short; m++) {
            uint64_t key;

            get(in, &key, sizeof(key));
            if (s != NULL && tp_map_put(&s->members, key, s) != TELPHER_OK) {
                in->is_short = true;
            }
        }
    }
}

/* The array of a head; made by the first part. NULL: the head is damaged */
static struct tp_mdr_array_state *
array_of(telpher_mdr *mdr, const struct tp_mdr_file_array *head, bool first_part)
{
    struct tp_mdr_array_state *a;

    if (head->proxy.class_id >= mdr->class_count || head->proxy.dims > 3) {
        return NULL;
    }
    a = tp_mdr_array_of(mdr, head->proxy.id);
    if (a != NULL && first_part) {
        a->proxy = head->proxy;
        a->mobile = tp_mdr_is_mobile(mdr, &a->proxy);
        a->total = a->proxy.dims != 0 ? head->total : mdr->size;
        a->ranks = (uint32_t)TP_MIN(a->total, mdr->size);
        a->completed = head->completed;
        a->heard = a->reported = head->heard;
        a->spreads = (uint32_t)head->spreads;
    }
    return a;
}

/* ---- elements ---- */

static telpher_status
make_element(telpher_mdr *mdr, struct tp_mdr_array_state *a,
             const struct tp_mdr_file_element *head, telpher_mdr_index index,
             const void *data)
{
    struct tp_mdr_element *e = tp_mdr_element_add(mdr, a, index);

    if (e == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY,
                            "out of memory for object (%d, %d, %d) of class %s",
                            index.at[0], index.at[1], index.at[2],
                            mdr->classes[a->proxy.class_id]->name);
    }
    e->contributed = head->contributed;
    e->heard = a->heard;
    e->syncs = head->syncs;
    e->debt = head->debt;
    e->joined = head->joined;
    e->inserted = head->inserted != 0;
    return tp_mdr_unpack(mdr, e, (void *)(uintptr_t)data, head->len);
}

/* The objects of a group begin as those of the process with the same number, or start again
 * with that of process 0. Of an array each process takes a block. */
static bool
is_mine(const telpher_mdr *mdr, const struct tp_mdr_save *s, uint32_t part,
        const struct tp_mdr_array_state *a)
{
    if (a->proxy.dims == 0) {
        return mdr->rank % s->parts == part;
    }
    return a->walked * mdr->size / a->found == mdr->rank;
}

static telpher_status
get_elements(telpher_mdr *mdr, struct input *in, const struct tp_mdr_save *s,
             uint32_t part, struct tp_mdr_array_state *a, uint64_t count, bool make)
{
    telpher_status status = TELPHER_OK;

    for (uint64_t i = 0; i < count && !in->is_short && status == TELPHER_OK; i++) {
        struct tp_mdr_file_element head;
        const void *data;

        get(in, &head, sizeof(head));
        data = take(in, head.len);
        if (!make) {
            a->found++;
        } else if (data != NULL && is_mine(mdr, s, part, a)) {
            if (a->proxy.dims == 0) {
                head.index.at[0] = (int32_t)mdr->rank;
            }
            status = make_element(mdr, a, &head, head.index, data);
        }
        a->walked += make;
    }
    return status;
}

static telpher_status
check_part(telpher_mdr *mdr, const struct input *in)
{
    uint64_t hash;

    memcpy(&hash, in->end, sizeof(hash));
    return hash == tp_hash_add(TP_HASH_START, in->map, in->len - sizeof(hash))
               ? TELPHER_OK
               : tp_mdr_error(
                     mdr, TELPHER_ERR_PROTO,
                     "%s is damaged: its checksum does not match its %zu bytes",
                     in->path, in->len);
}

static telpher_status
walk_part(telpher_mdr *mdr, struct input *in, const struct tp_mdr_save *s,
          uint32_t part, bool make)
{
    struct tp_mdr_file_head head;
    telpher_status status = check_head(mdr, in, s, part, &head);
    const void *data = status == TELPHER_OK ? take(in, head.data_len) : NULL;

    if (make && part == 0 && mdr->rank == 0 && data != NULL) {
        mdr->restored_len = head.data_len;
        memcpy(mdr->restored, data, TP_MIN(head.data_len, mdr->restored_cap));
    }
    mdr->array_counter = TP_MAX(mdr->array_counter, head.array_counter);
    mdr->section_counter = TP_MAX(mdr->section_counter, head.section_counter);
    for (uint32_t i = 0; i < head.arrays && status == TELPHER_OK && !in->is_short;
         i++) {
        struct tp_mdr_file_array array;
        struct tp_mdr_array_state *a;

        get(in, &array, sizeof(array));
        a = array_of(mdr, &array, part == 0 && !make);
        if (a == NULL) {
            in->is_short = true;
            break;
        }
        get_sections(in, a, array.sections, part == 0 && !make);
        status = get_elements(mdr, in, s, part, a, array.elements, make);
    }
    return status == TELPHER_OK && in->is_short
               ? tp_mdr_error(mdr, TELPHER_ERR_PROTO,
                              "%s is damaged: it ends within an array", in->path)
               : status;
}

enum walk { CHECK, COUNT, MAKE };

static telpher_status
walk_parts(telpher_mdr *mdr, const struct tp_mdr_save *s, enum walk walk)
{
    uint32_t first = walk == CHECK ? mdr->rank : 0;
    uint32_t step = walk == CHECK ? mdr->size : 1;
    telpher_status status = TELPHER_OK;

    for (uint32_t part = first; part < s->parts && status == TELPHER_OK; part += step) {
        char path[TP_MDR_PATH_BYTES];
        struct input in = {.path = NULL};

        tp_mdr_part_name(path, s->folder, s->generation, part, s->parts, "mdr");
        status = open_part(mdr, path, &in);
        if (status == TELPHER_OK) {
            status = walk == CHECK ? check_part(mdr, &in)
                                   : walk_part(mdr, &in, s, part, walk == MAKE);
            (void)munmap((void *)(uintptr_t)in.map, in.len);
        }
    }
    return status;
}

telpher_status
tp_mdr_check_parts(telpher_mdr *mdr, const struct tp_mdr_save *s)
{
    return walk_parts(mdr, s, CHECK);
}

telpher_status
tp_mdr_restore_parts(telpher_mdr *mdr, const struct tp_mdr_save *s)
{
    telpher_status status = walk_parts(mdr, s, COUNT);
    size_t cursor = 0;
    void *value;

    if (status == TELPHER_OK) {
        status = walk_parts(mdr, s, MAKE);
    }
    while (status == TELPHER_OK && tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        struct tp_mdr_array_state *a = value;

        if (a->found == 0 || a->created) {
            continue;
        }
        tp_list_for_each_entry(struct tp_mdr_element, e, &a->all, link) {
            if (a->mobile) {
                e->moves = telpher_mdr_home(mdr, &a->proxy, e->index) != mdr->rank;
                tp_mdr_note_arrival(mdr, e);
            }
        }
    }
    cursor = 0;
    while (status == TELPHER_OK && tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        tp_mdr_array_ready(mdr, value);
    }
    return status;
}
