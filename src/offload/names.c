/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels that workers send and parents keep. offload/message.h */
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/text/text.h"
#include "offload/message.h"

enum { NAMES_MAX = 1 << 20 };

telpher_status
tp_offload_table_write(const struct tp_offload_table *table, struct tp_buf *dst)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tp_offload_kernel *k = &table->kernels[i];
        telpher_status status =
            tp_buf_append(dst, k->kernel->name, strlen(k->kernel->name));

        if (status == TELPHER_OK) {
            status = tp_buf_append(dst, "\t", 1);
        }
        if (status == TELPHER_OK) {
            status = tp_offload_signature_write(&k->sig, dst);
        }
        if (status == TELPHER_OK) {
            status = tp_buf_append(dst, "\n", 1);
        }
        if (status != TELPHER_OK) {
            return status;
        }
    }
    return TELPHER_OK;
}

/* The slot of @p name, or the free slot where it belongs. */
static uint32_t *
find_slot(const struct tp_offload_names *names, const char *name)
{
    uint64_t hash = tp_hash_add(TP_HASH_START, name, strlen(name));
    uint32_t at = (uint32_t)hash & names->slot_mask;

    while (names->slots[at] != 0 &&
           strcmp(names->known[names->slots[at] - 1].name, name) != 0) {
        at = (at + 1) & names->slot_mask;
    }
    return &names->slots[at];
}

int64_t
tp_offload_names_find(struct tp_offload_names *names, const char *name)
{
    int64_t found;

    if (names->count == 0) {
        return -1;
    }
    if (strcmp(names->known[names->last].name, name) == 0) {
        return names->last;
    }
    found = (int64_t)*find_slot(names, name) - 1;
    if (found >= 0) {
        names->last = (uint32_t)found;
    }
    return found;
}

/* Parses one line and terminates its parts in place. */
static telpher_status
read_line(struct tp_offload_names *names, char *line, char *end, struct tp_error *err)
{
    struct tp_offload_known *k = &names->known[names->count];
    char *tab = memchr(line, '\t', (size_t)(end - line));
    uint32_t *slot;
    telpher_status status;

    if (tab == NULL || tab == line || tab - line > TELPHER_KERNEL_NAME_MAX ||
        memchr(line, '\0', (size_t)(end - line)) != NULL) {
        return tp_error_set(err, TELPHER_ERR_PROTO,
                            "the workers sent kernel \"%.*s\", whose name is not 1 to "
                            "%d characters and a tab",
                            (int)TP_MIN(end - line, 40), line, TELPHER_KERNEL_NAME_MAX);
    }
    *tab = '\0';
    k->name = line;
    slot = find_slot(names, line);
    if (*slot != 0) {
        return tp_error_set(err, TELPHER_ERR_PROTO, "the workers sent kernel %s twice",
                            line);
    }
    status = tp_offload_signature_read(tab + 1, (size_t)(end - tab - 1), &k->sig, err);
    if (status != TELPHER_OK) {
        (void)tp_error_prefix(err, "kernel %s, as the workers sent it", line);
        return TELPHER_ERR_PROTO;
    }
    *slot = ++names->count;
    return TELPHER_OK;
}

static telpher_status
make_room(struct tp_offload_names *names, const char *text, size_t len)
{
    uint32_t lines = 0, slots = 16;

    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
    }
    if (lines > NAMES_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    while (slots < 2 * lines) {
        slots *= 2;
    }
    names->text = tp_strndup(text, len, "kernel names");
    names->known = tp_alloc_array((size_t)lines + 1, sizeof(*names->known), "kernels");
    names->slots = tp_alloc_array(slots, sizeof(*names->slots), "kernel names");
    names->slot_mask = slots - 1;
    if (names->text == NULL || names->known == NULL || names->slots == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_names_read(const char *text, size_t len, struct tp_offload_names *ret_names,
                      struct tp_error *err)
{
    struct tp_offload_names names = {0};
    telpher_status status = make_room(&names, text, len);
    char *line = names.text, *end;

    if (status != TELPHER_OK) {
        (void)tp_error_set(err, status,
                           "out of memory for the workers' table of kernels, %zu bytes",
                           len);
    }
    while (status == TELPHER_OK && line < names.text + len) {
        end = memchr(line, '\n', (size_t)(names.text + len - line));
        if (end == NULL) {
            status = tp_error_set(err, TELPHER_ERR_PROTO,
                                  "the workers' table of kernels ends within a line, "
                                  "after %zu of %zu bytes",
                                  (size_t)(line - names.text), len);
            break;
        }
        status = read_line(&names, line, end, err);
        line = end + 1;
    }
    if (status != TELPHER_OK) {
        tp_offload_names_fini(&names);
        return status;
    }
    *ret_names = names;
    return TELPHER_OK;
}

void
tp_offload_names_fini(struct tp_offload_names *names)
{
    tp_free(names->text);
    tp_free(names->known);
    tp_free(names->slots);
    memset(names, 0, sizeof(*names));
}

const char *
tp_offload_names_guess(const struct tp_offload_names *names, const char *name)
{
    const char *best = NULL;
    unsigned least = 1 + (unsigned)TP_MIN(strlen(name), 9) / 3;

    for (uint32_t i = 0; i < names->count; i++) {
        unsigned d = tp_text_distance(name, names->known[i].name);

        if (d <= least) {
            least = d;
            best = names->known[i].name;
        }
    }
    return best;
}
