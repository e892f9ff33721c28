/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds included files as a compiler on this machine would. Scans the text without
 * evaluating conditionals. So it may send too many files, but never too few, except where a
 * macro has several values.
 */
#include "icd/program/include.h"
#include "base/container/map.h"
#include "icd/program/program.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/include.h"
#include "base/trace/log.h"
#include "icd/icd_int.h"
#include "wire/files.h"

/** A text to scan: the source, a header program, a file. */
struct text {
    char *name; /**< as compilers are to show it */
    char *own; /**< content to be freed, or NULL */
    const char *content;
    size_t len; /**< [bytes] */
    size_t folder; /**< [bytes] of name before the last "/", with it; files only */
    bool is_file;
    dev_t dev;
    ino_t ino;
    struct tp_buf links; /**< u32 each */
};

/** The search of one build. */
struct search {
    struct text *texts;
    uint32_t count, room;
    struct tp_map files; /**< texts by what identifies their files */
    char **folders; /**< of -I, in order */
    size_t folder_count;
    const char *options;
    uint64_t bytes; /**< of all files so far */
    bool full, failed;
};

/* ---- texts ------------------------------------------------------------------------------- */

/** Adds a text; takes @p name and @p own. @return its number, 0 when memory is out. */
static uint32_t
add_text(struct search *s, char *name, char *own, const char *content, size_t len)
{
    struct text *t;

    if (s->count == s->room) {
        uint32_t room = s->room * 2 + 8;
        struct text *more = tp_realloc_array(s->texts, room, sizeof(*more), "includes");

        if (more != NULL) {
            s->texts = more;
            s->room = room;
        }
    }
    if (s->count == s->room || name == NULL) {
        tp_free(name);
        tp_free(own);
        s->failed = true;
        return 0;
    }
    t = &s->texts[s->count];
    *t = (struct text){.name = name, .own = own, .content = content, .len = len};
    tp_buf_init(&t->links, 0);
    return s->count++;
}

/** Reads a whole file. @return NULL: it is none, is too large, or memory is out. */
static char *
read_file(struct search *s, int fd, size_t len)
{
    char *content = tp_malloc(len + 1, "included file");
    size_t got = 0;

    s->failed = s->failed || content == NULL;
    while (content != NULL && got < len) {
        ssize_t n = read(fd, content + got, len - got);

        if (n <= 0) {
            tp_free(content);
            return NULL;
        }
        got += (size_t)n;
    }
    return content;
}

/** Numbers of files by device and inode; the name tells which of equal keys is meant. */
static uint64_t
file_key(const struct stat *st)
{
    return (uint64_t)st->st_ino * 0x9e3779b97f4a7c15U ^ (uint64_t)st->st_dev;
}

/** @return the text of a file that was read before, 0 = none; *key is free then. */
static uint32_t
find_known(const struct search *s, const struct stat *st, uint64_t *key)
{
    void *found;

    for (; (found = tp_map_get(&s->files, *key)) != NULL; (*key)++) {
        uint32_t number = (uint32_t)(uintptr_t)found;

        if (s->texts[number].dev == st->st_dev && s->texts[number].ino == st->st_ino) {
            return number;
        }
    }
    return 0;
}

static bool
has_room(struct search *s, const struct stat *st, const char *path)
{
    uint64_t size = (uint64_t)st->st_size + strlen(path) + TP_WIRE_FILE_HEADER_BYTES;

    if (s->count >= TP_WIRE_FILES_MAX || strlen(path) > TP_WIRE_FILE_NAME_MAX ||
        size > TP_WIRE_FILES_BYTES_MAX / 2 - s->bytes) {
        if (!s->full) {
            tp_warn("icd",
                    "%s stays here: more included files than travel with a build",
                    path);
        }
        s->full = true;
        return false;
    }
    s->bytes += size;
    return true;
}

/** Adds the file of a descriptor. @return its number, 0 = it is not sent */
static uint32_t
add_file(struct search *s, int fd, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    uint64_t key;
    uint32_t number;
    char *content;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return 0;
    }
    key = file_key(&st);
    number = find_known(s, &st, &key);
    if (number != 0 || !has_room(s, &st, path)) {
        return number;
    }
    content = read_file(s, fd, (size_t)st.st_size);
    if (content == NULL) {
        return 0;
    }
    number =
        add_text(s, tp_strdup(path, "include"), content, content, (size_t)st.st_size);
    if (number != 0) {
        s->texts[number].is_file = true;
        s->texts[number].dev = st.st_dev;
        s->texts[number].ino = st.st_ino;
        s->texts[number].folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
        s->failed = s->failed ||
                    tp_map_put(&s->files, key, (void *)(uintptr_t)number) != TELPHER_OK;
    }
    return number;
}

/** Looks for a file in a folder, or where the name itself says. @return its number or 0 */
static uint32_t
try_file(struct search *s, const char *folder, size_t folder_len, const char *name,
         size_t len)
{
    const char *between = folder_len > 0 && folder[folder_len - 1] != '/' ? "/" : "";
    char *path;
    uint32_t number = 0;
    int fd;

    if (len == 0 || memchr(name, '\0', len) != NULL) {
        return 0;
    }
    path = tp_asprintf("include", "%.*s%s%.*s", (int)folder_len, folder, between,
                       (int)len, name);
    s->failed = s->failed || path == NULL;
    if (path == NULL) {
        return 0;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        number = add_file(s, fd, path);
        (void)close(fd);
    }
    tp_free(path);
    return number;
}

/* ---- macros ------------------------------------------------------------------------------- */

static bool
is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/** Finds "a.h" or <a.h> in the value of a macro. */
static bool
take_value(const char *value, size_t len, struct tp_include *inc)
{
    for (size_t i = 0; i < len; i++) {
        char close = value[i] == '"' ? '"' : '>';
        const char *end;

        if (value[i] == '"' || value[i] == '<') {
            end = memchr(value + i + 1, close, len - i - 1);
            inc->form = close == '"' ? TP_INCLUDE_QUOTED : TP_INCLUDE_ANGLED;
            inc->name = value + i + 1;
            inc->name_len = end == NULL ? 0 : (size_t)(end - inc->name);
            /* options may have it as \"a.h\" */
            if (inc->name_len > 0 && inc->name[inc->name_len - 1] == '\\') {
                inc->name_len--;
            }
            return end != NULL;
        }
    }
    return false;
}

/** Looks for "NAME=" of a -D in the options. */
static bool
find_option(const struct search *s, const char *name, size_t len,
            struct tp_include *inc)
{
    for (const char *at = s->options; (at = strstr(at, "-D")) != NULL;) {
        at += 2;
        while (is_space(*at) || *at == '"' || *at == '\'') {
            at++;
        }
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            size_t n = strcspn(at + len + 1, " \t\n");

            return take_value(at + len + 1, n, inc);
        }
    }
    return false;
}

/** Looks for "#define NAME value" in a text; there may be blanks. */
static bool
find_define(const struct text *t, const char *name, size_t len, struct tp_include *inc)
{
    const char *end = t->content + t->len, *at = t->content;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *stop = line_end == NULL ? end : line_end;
        static const char define[] = "define";

        while (at < stop && (is_space(*at) || *at == '#')) {
            at++;
        }
        if ((size_t)(stop - at) > sizeof(define) &&
            memcmp(at, define, sizeof(define) - 1) == 0) {
            at += sizeof(define) - 1;
            while (at < stop && is_space(*at)) {
                at++;
            }
            if ((size_t)(stop - at) > len && memcmp(at, name, len) == 0 &&
                is_space(at[len])) {
                return take_value(at + len, (size_t)(stop - at) - len, inc);
            }
        }
        at = stop + 1;
    }
    return false;
}

/** Replaces a macro by its value. @return false: the value is unknown */
static bool
expand(const struct search *s, uint32_t from, struct tp_include *inc)
{
    const char *name = inc->name;
    size_t len = inc->name_len;

    while (len > 0 && is_space(name[len - 1])) {
        len--;
    }
    if (len == 0) {
        return false;
    }
    return find_option(s, name, len, inc) ||
           find_define(&s->texts[from], name, len, inc) ||
           find_define(&s->texts[0], name, len, inc);
}

/* ---- resolving ---------------------------------------------------------------------------- */

/** @return the header program of that name, 0 = none */
static uint32_t
find_header(const struct search *s, const struct tp_include *inc)
{
    for (uint32_t i = 1; i < s->count && !s->texts[i].is_file; i++) {
        if (strlen(s->texts[i].name) == inc->name_len &&
            memcmp(s->texts[i].name, inc->name, inc->name_len) == 0) {
            return i;
        }
    }
    return 0;
}

/** @return the text to which a directive of text @p from refers, 0 = none */
static uint32_t
resolve(struct search *s, uint32_t from, struct tp_include *inc)
{
    uint32_t number;

    if (inc->form == TP_INCLUDE_SEVERAL ||
        (inc->form == TP_INCLUDE_OTHER && !expand(s, from, inc))) {
        return 0;
    }
    number = find_header(s, inc);
    if (number != 0 || (inc->name_len > 0 && inc->name[0] == '/')) {
        return number != 0 ? number : try_file(s, "", 0, inc->name, inc->name_len);
    }
    if (inc->form == TP_INCLUDE_QUOTED) {
        number = try_file(s, s->texts[from].name, s->texts[from].folder, inc->name,
                          inc->name_len);
    }
    for (size_t i = 0; number == 0 && i < s->folder_count; i++) {
        number =
            try_file(s, s->folders[i], strlen(s->folders[i]), inc->name, inc->name_len);
    }
    return number != 0 ? number : try_file(s, "", 0, inc->name, inc->name_len);
}

/** Records the target of each directive of a text. Appends new texts. */
static void
look_through(struct search *s, uint32_t from)
{
    struct tp_include_scan scan;
    struct tp_include inc;

    tp_include_begin(&scan, s->texts[from].content, s->texts[from].len);
    while (!s->failed && tp_include_next(&scan, &inc)) {
        uint32_t link = resolve(s, from, &inc);

        s->failed = s->failed || tp_buf_append(&s->texts[from].links, &link,
                                               sizeof(link)) != TELPHER_OK;
    }
    s->failed = s->failed || scan.failed;
    tp_include_end(&scan);
}

/* ---- options -------------------------------------------------------------------------------- */

/** @return the end of the word that begins at @p at; blanks in quotes belong to it */
static const char *
word_end(const char *at)
{
    char quote = '\0';

    for (; *at != '\0' && (quote != '\0' || !is_space(*at)); at++) {
        if (quote == '\0' && (*at == '"' || *at == '\'')) {
            quote = *at;
        } else if (*at == quote) {
            quote = '\0';
        }
    }
    return at;
}

static void
add_folder(struct search *s, const char *at, size_t len)
{
    char **more = tp_realloc_array(s->folders, s->folder_count + 1, sizeof(more[0]),
                                   "include folders");
    char *folder = tp_malloc(len + 1, "include folders");
    size_t n = 0;

    s->folders = more != NULL ? more : s->folders;
    if (more == NULL || folder == NULL) {
        tp_free(folder);
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (at[i] != '"' && at[i] != '\'') {
            folder[n++] = at[i];
        }
    }
    folder[n] = '\0';
    s->folders[s->folder_count++] = folder;
}

/** Collects and removes the -I options. @return the others; NULL: no memory */
static char *
take_folders(struct search *s)
{
    char *others = tp_malloc(strlen(s->options) + 1, "build options"), *to = others;

    for (const char *at = s->options; others != NULL && *at != '\0';) {
        const char *end = word_end(at);
        const char *value = at + strspn(at, "\"'");

        if (end == at) {
            *to++ = *at++; /* a blank */
            continue;
        }
        if (strncmp(value, "-I", 2) != 0) {
            memcpy(to, at, (size_t)(end - at));
            to += end - at;
            at = end;
            continue;
        }
        value += 2;
        if (value == end) { /* the next word */
            value += strspn(value, " \t\r\n\v\f");
            end = word_end(value);
        }
        if (end > value) {
            add_folder(s, value, (size_t)(end - value));
        }
        at = end;
    }
    if (others != NULL) {
        *to = '\0';
    }
    return others;
}

/* ---- results -------------------------------------------------------------------------------- */

static void
append_record(struct search *s, const struct text *t, struct tp_buf *out)
{
    const struct tp_wire_file file = {
        .name_len = (uint32_t)strlen(t->name),
        .link_count = (uint32_t)(tp_buf_len(&t->links) / sizeof(uint32_t)),
        .len = t == s->texts ? 0 : (uint32_t)t->len,
        .name = t->name,
        .content = (const uint8_t *)t->content,
        .links = tp_buf_data(&t->links),
    };
    uint8_t *tail;

    if (tp_buf_reserve(out, tp_wire_file_size(&file), &tail) != TELPHER_OK) {
        s->failed = true;
        return;
    }
    tp_wire_put_file(tail, &file);
    tp_buf_commit(out, tp_wire_file_size(&file));
}

static void
search_fini(struct search *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        tp_free(s->texts[i].name);
        tp_free(s->texts[i].own);
        tp_buf_fini(&s->texts[i].links);
    }
    for (size_t i = 0; i < s->folder_count; i++) {
        tp_free(s->folders[i]);
    }
    tp_free(s->texts);
    tp_free(s->folders);
    tp_map_fini(&s->files);
}

cl_int
tp_icd_includes_find(const struct _cl_program *program, const char *options,
                     const struct tp_icd_headers *headers, struct tp_icd_includes *ret)
{
    struct search s = {.options = options};

    tp_buf_init(&ret->records, 0);
    tp_map_init(&s.files);
    ret->options = take_folders(&s);
    if (program->source != NULL) {
        (void)add_text(&s, tp_strdup("", "include"), NULL, program->source,
                       program->source_len);
        for (cl_uint i = 0; i < headers->count && !s.failed; i++) {
            (void)add_text(&s, tp_strdup(headers->names[i], "include"), NULL,
                           headers->programs[i]->source,
                           headers->programs[i]->source_len);
        }
        for (uint32_t i = 0; i < s.count && !s.failed; i++) {
            look_through(&s, i);
        }
    }
    for (uint32_t i = 0; s.count > 1 && i < s.count && !s.failed; i++) {
        append_record(&s, &s.texts[i], &ret->records);
    }
    search_fini(&s);
    return s.failed || ret->options == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
}

void
tp_icd_includes_fini(struct tp_icd_includes *includes)
{
    tp_buf_fini(&includes->records);
    tp_free(includes->options);
    includes->options = NULL;
}
