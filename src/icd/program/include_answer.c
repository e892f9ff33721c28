/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers which file of this machine lies under a name that a server's compiler looks up.
 * The server may lie, so a file travels only if the program could have named it: it lies in
 * a folder that the options name, beside an included file, in the present folder, or in a
 * folder spelled out in the source; and each word of its name occurs in the program.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/trace/log.h"
#include "icd/icd_int.h"
#include "icd/program/include_int.h"

/** memmem() for text that may be NULL if it is empty. */
static bool
holds(const void *text, size_t text_len, const char *part, size_t len)
{
    return text_len >= len && (len == 0 || memmem(text, text_len, part, len) != NULL);
}

/** True if the bytes occur in the source, the options, or a file that was read. */
static bool
occurs(const struct tp_icd_includes *s, const char *text, size_t len)
{
    const struct _cl_program *p = s->program;

    if (holds(s->options, strlen(s->options), text, len) ||
        holds(p->source, p->source_len, text, len) ||
        holds(tp_buf_data(&s->joined_text), tp_buf_len(&s->joined_text), text, len) ||
        holds(tp_buf_data(&s->header_text), tp_buf_len(&s->header_text), text, len)) {
        return true;
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct tp_icd_named *n = &s->list[i];

        if (n->content != NULL && holds(n->content, n->len, text, len)) {
            return true;
        }
    }
    return false;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

/** True if all words of a name occur, and no part is hidden. */
static bool
words_occur(const struct tp_icd_includes *s, const char *name)
{
    bool begins = true; /* of a part */

    while (*name != '\0') {
        size_t len = 0;

        if (begins && name[0] == '.' && name[1] != '.' && name[1] != '/') {
            return false;
        }
        while (is_letter(name[len])) {
            len++;
        }
        if (len > 0 && !occurs(s, name, len)) {
            return false;
        }
        begins = len == 0 && *name == '/';
        name += len > 0 ? len : 1;
    }
    return true;
}

/** True if a file was found in the folder, whose name is given with its "/". */
static bool
has_file_in(const struct tp_icd_includes *s, const char *folder, size_t len)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct tp_icd_named *n = &s->list[i];

        if (n->kind == TP_WIRE_FILE_REGULAR && strncmp(n->name, folder, len) == 0 &&
            strchr(n->name + len, '/') == NULL) {
            return true;
        }
    }
    return false;
}

/** @return the part of a name that the program must spell out; NULL: the name is foreign */
static const char *
find_rest(const struct tp_icd_includes *s, const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - name);

    for (size_t i = 0; i < s->folder_count; i++) {
        size_t n = strlen(s->folders[i]);

        if (n > 0 && strncmp(name, s->folders[i], n) == 0 && name[n] == '/') {
            return name + n + 1;
        }
    }
    if (len > 0 &&
        (has_file_in(s, name, len + 1) || (name[0] == '/' && occurs(s, name, len)))) {
        return slash + 1;
    }
    return name[0] == '/' ? NULL : name;
}

static void
answer_one(struct tp_icd_includes *s, const char *name, struct tp_buf *out)
{
    const struct tp_icd_named none = {.kind = TP_WIRE_FILE_ABSENT,
                                      .name = (char *)(uintptr_t)name};
    const struct tp_icd_named *n = &none;
    const char *rest = find_rest(s, name);
    uint64_t key;

    if (tp_icd_includes_find(s, name, &key) != NULL ||
        (rest != NULL && words_occur(s, rest))) {
        n = tp_icd_includes_look(s, name);
    } else {
        tp_info("icd",
                "the server's compiler looks for %s, which the program does not name: "
                "not sent",
                name);
    }
    if (n != NULL) {
        tp_icd_includes_record(s, n, true, out);
    }
}

telpher_status
tp_icd_includes_answer(struct tp_icd_includes *s, const char *names, size_t len,
                       struct tp_buf *out)
{
    const char *end = names + len;
    telpher_status status;
    size_t before;

    tp_mutex_lock(&s->lock);
    before = s->count;
    for (; names < end && !s->failed; names += strlen(names) + 1) {
        if (*names != '\0' && strlen(names) <= TP_WIRE_FILE_NAME_MAX) {
            answer_one(s, names, out);
        }
    }
    tp_icd_includes_follow(s);
    for (size_t i = before; i < s->count && !s->failed; i++) {
        tp_icd_includes_record(s, &s->list[i], true, out);
    }
    status = s->failed ? TELPHER_ERR_NO_MEMORY : TELPHER_OK;
    tp_mutex_unlock(&s->lock);
    return status;
}
