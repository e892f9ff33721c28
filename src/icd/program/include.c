/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses which files of this machine a build will read, from its include lines. A wrong
 * guess costs a round trip: the compiler asks for what is missing.
 */
#include "icd/program/include.h"
#include "icd/program/include_int.h"
#include "icd/program/program.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text/include.h"
#include "base/trace/log.h"
#include "icd/copies/copies.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"

/** [bytes] of files that travel before the build; with more, the server asks for those that
 *  it does not have yet. */
enum { INLINE_MAX = 64 << 10 };

/* ---- names -------------------------------------------------------------------------------- */

struct tp_icd_named *
tp_icd_includes_find(const struct tp_icd_includes *s, const char *name, uint64_t *key)
{
    void *found;

    for (*key = tp_hash_add(TP_HASH_START, name, strlen(name));
         (found = tp_map_get(&s->numbers, *key)) != NULL; (*key)++) {
        struct tp_icd_named *n = &s->list[(size_t)(uintptr_t)found - 1];

        if (strcmp(n->name, name) == 0) {
            return n;
        }
    }
    return NULL;
}

/** Adds a name, absent at first. */
static struct tp_icd_named *
add_named(struct tp_icd_includes *s, const char *name, uint64_t key)
{
    struct tp_icd_named *n;

    if (s->count == s->room) {
        size_t room = s->room * 2 + 8;
        struct tp_icd_named *more =
            tp_realloc_array(s->list, room, sizeof(*more), "includes");

        if (more == NULL) {
            return NULL;
        }
        s->list = more;
        s->room = room;
    }
    n = &s->list[s->count];
    *n = (struct tp_icd_named){.kind = TP_WIRE_FILE_ABSENT,
                               .name = tp_strdup(name, "includes")};
    if (n->name == NULL ||
        tp_map_put(&s->numbers, key, (void *)(uintptr_t)(s->count + 1)) != TELPHER_OK) {
        tp_free(n->name);
        return NULL;
    }
    s->count++;
    return n;
}

/* ---- files -------------------------------------------------------------------------------- */

/** Equal for links to one file. */
static uint64_t
identity_of(const struct stat *st)
{
    return (uint64_t)st->st_ino * 0x9e3779b97f4a7c15U ^ (uint64_t)st->st_dev;
}

static bool
has_room(struct tp_icd_includes *s, const struct tp_icd_named *n, uint64_t size)
{
    uint64_t max = TP_WIRE_FILES_BYTES_MAX / 2;

    if (s->count <= TP_WIRE_FILES_MAX / 2 && size <= max && s->bytes <= max - size) {
        s->bytes += size;
        return true;
    }
    if (!s->full) {
        tp_warn("icd", "%s is not sent: a build may include %d MiB of files", n->name,
                (int)(max >> 20));
    }
    s->full = true;
    return false;
}

/** Reads a whole file. @return NULL: cannot be read, has shrunk, or out of memory */
static uint8_t *
read_content(struct tp_icd_includes *s, int fd, size_t len)
{
    uint8_t *content = tp_malloc(len + 1, "included file");
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

static void
read_named(struct tp_icd_includes *s, struct tp_icd_named *n, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return;
    }
    if (S_ISDIR(st.st_mode)) {
        n->kind = TP_WIRE_FILE_FOLDER;
        return;
    }
    if (!S_ISREG(st.st_mode) || !has_room(s, n, (uint64_t)st.st_size)) {
        return;
    }
    n->content = read_content(s, fd, (size_t)st.st_size);
    if (n->content != NULL) {
        n->kind = TP_WIRE_FILE_REGULAR;
        n->len = (size_t)st.st_size;
        n->identity = identity_of(&st);
        tp_sha256_of(n->content, n->len, n->digest);
    }
}

struct tp_icd_named *
tp_icd_includes_look(struct tp_icd_includes *s, const char *name)
{
    uint64_t key;
    struct tp_icd_named *n = tp_icd_includes_find(s, name, &key);
    int fd;

    if (n != NULL) {
        return n;
    }
    n = add_named(s, name, key);
    if (n == NULL) {
        s->failed = true;
        return NULL;
    }
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        read_named(s, n, fd);
        (void)close(fd);
    }
    return n;
}

/* ---- include lines ------------------------------------------------------------------------- */

/** Looks for a name in a folder. @return true if a file is there */
static bool
look_in(struct tp_icd_includes *s, const char *folder, size_t folder_len,
        const struct tp_include *inc)
{
    const struct tp_icd_named *n = NULL;
    char *name;

    if (memchr(inc->name, '\0', inc->name_len) != NULL ||
        folder_len + 1 + inc->name_len > TP_WIRE_FILE_NAME_MAX) {
        return false;
    }
    name = tp_asprintf("includes", "%.*s%s%.*s", (int)folder_len, folder,
                       folder_len > 0 ? "/" : "", (int)inc->name_len, inc->name);
    s->failed = s->failed || name == NULL;
    if (name != NULL) {
        tp_include_clean(name);
        n = *name != '\0' ? tp_icd_includes_look(s, name) : NULL;
    }
    tp_free(name);
    return n != NULL && n->kind == TP_WIRE_FILE_REGULAR;
}

/**
 * Looks wherever a compiler may. @param file the including file, NULL: the source, whose
 * folder is the driver's
 */
static void
look_for(struct tp_icd_includes *s, const char *file, const struct tp_include *inc)
{
    const char *slash = file == NULL ? NULL : strrchr(file, '/');

    if (inc->name[0] == '/') {
        (void)look_in(s, "", 0, inc);
        return;
    }
    if (inc->quoted && slash != NULL &&
        look_in(s, file, slash == file ? 1 : (size_t)(slash - file), inc)) {
        return;
    }
    if (look_in(s, "", 0, inc) && inc->quoted && file != NULL && slash == NULL) {
        return;
    }
    for (size_t i = 0; i < s->folder_count && !s->failed; i++) {
        if (look_in(s, s->folders[i], strlen(s->folders[i]), inc)) {
            return;
        }
    }
}

static void
scan(struct tp_icd_includes *s, const char *file, const char *text, size_t len)
{
    const char *end = text + len;
    struct tp_include inc;

    while (!s->failed && tp_include_next(&text, end, &inc)) {
        look_for(s, file, &inc);
    }
}

void
tp_icd_includes_follow(struct tp_icd_includes *s)
{
    for (size_t i = 0; i < s->count && !s->failed; i++) {
        struct tp_icd_named n = s->list[i]; /* the list may move */

        s->list[i].scanned = true;
        if (n.scanned || n.kind != TP_WIRE_FILE_REGULAR ||
            tp_map_get(&s->scanned, n.identity) != NULL) {
            continue;
        }
        s->failed = tp_map_put(&s->scanned, n.identity, s) != TELPHER_OK;
        scan(s, n.name, (const char *)n.content, n.len);
    }
}

/* ---- results -------------------------------------------------------------------------------- */

static uint64_t
content_key(const struct tp_icd_named *n)
{
    uint64_t key;

    memcpy(&key, n->digest, sizeof(key));
    return key;
}

/** Notes that the servers of the context get a content. Without memory it is sent again. */
static void
note_sent(const struct tp_icd_includes *s, const struct tp_icd_named *n)
{
    struct _cl_context *ctx = s->program->ctx;

    tp_icd_lock();
    (void)tp_map_put(&ctx->sent_files, content_key(n), ctx);
    tp_icd_unlock();
}

void
tp_icd_includes_record(struct tp_icd_includes *s, const struct tp_icd_named *n,
                       bool content, struct tp_buf *out)
{
    const struct tp_wire_file file = {
        .kind = n->kind,
        .has_content = content && n->kind == TP_WIRE_FILE_REGULAR,
        .name_len = (uint32_t)strlen(n->name),
        .len = (uint32_t)n->len,
        .identity = n->identity,
        .digest = n->digest,
        .name = n->name,
        .content = n->content,
    };
    uint8_t *tail;

    if (tp_buf_reserve(out, tp_wire_file_size(&file), &tail) != TELPHER_OK) {
        s->failed = true;
        return;
    }
    tp_wire_put_file(tail, &file);
    tp_buf_commit(out, tp_wire_file_size(&file));
    if (file.has_content) {
        note_sent(s, n);
    }
}

/**
 * True if the servers have a content already, or else ask for it. The second server of a
 * session with copies must not need to: it gets what was kept.
 */
static bool
was_sent(const struct tp_icd_includes *s, const struct tp_icd_named *n)
{
    const struct _cl_context *ctx = s->program->ctx;
    bool sent;

    tp_icd_lock();
    sent = tp_map_get(&ctx->sent_files, content_key(n)) != NULL;
    for (uint32_t i = 0; i < ctx->session_count; i++) {
        sent = sent && !tp_icd_copies_are_kept(ctx->sessions[i]);
    }
    tp_icd_unlock();
    return sent;
}

static void
find_first(struct tp_icd_includes *s, struct tp_buf *out)
{
    const struct _cl_program *p = s->program;

    tp_icd_includes_options(s);
    scan(s, NULL, p->source, p->source_len);
    scan(s, NULL, (const char *)tp_buf_data(&s->header_text),
         tp_buf_len(&s->header_text));
    tp_icd_includes_follow(s);
    if (tp_icd_settings.send_includes == TP_ICD_SEND_FOLDERS) {
        tp_icd_includes_folders(s);
    }
    for (size_t i = 0; i < s->count && !s->failed; i++) {
        tp_icd_includes_record(
            s, &s->list[i], s->bytes <= INLINE_MAX && !was_sent(s, &s->list[i]), out);
    }
}

/** Joins lines, since names may be written across their ends. */
static bool
join_lines(struct tp_icd_includes *s)
{
    const char *at = s->program->source, *end = at + s->program->source_len, *splice;
    bool joined = true;

    while (joined && (splice = memmem(at, (size_t)(end - at), "\\\n", 2)) != NULL) {
        joined =
            tp_buf_append(&s->joined_text, at, (size_t)(splice - at)) == TELPHER_OK;
        at = splice + 2;
    }
    return joined &&
           (at == s->program->source ||
            tp_buf_append(&s->joined_text, at, (size_t)(end - at)) == TELPHER_OK);
}

/** Header programs may be gone before the build ends. */
static bool
keep_headers(struct tp_icd_includes *s, const struct tp_icd_headers *headers)
{
    bool kept = true;

    for (cl_uint i = 0; i < headers->count && kept; i++) {
        const struct _cl_program *p = headers->programs[i];

        kept = tp_buf_append(&s->header_text, p->source, p->source_len) == TELPHER_OK &&
               tp_buf_append(&s->header_text, "\n", 1) == TELPHER_OK;
    }
    return kept;
}

cl_int
tp_icd_includes_create(const struct _cl_program *program, const char *options,
                       const struct tp_icd_headers *headers,
                       struct tp_icd_includes **ret_includes, struct tp_buf *ret_first)
{
    struct tp_icd_includes *s = tp_zalloc(sizeof(*s), "includes");

    tp_buf_init(ret_first, 0);
    if (s == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_mutex_init(&s->lock);
    tp_map_init(&s->numbers);
    tp_map_init(&s->scanned);
    s->program = program;
    tp_buf_init(&s->header_text, 0);
    tp_buf_init(&s->joined_text, 0);
    s->options = tp_strdup(options, "build options");
    s->failed = s->options == NULL || !keep_headers(s, headers) || !join_lines(s);
    if (!s->failed) {
        find_first(s, ret_first);
    }
    if (s->failed) {
        tp_icd_includes_destroy(s);
        return CL_OUT_OF_HOST_MEMORY;
    }
    *ret_includes = s;
    return CL_SUCCESS;
}

void
tp_icd_includes_destroy(struct tp_icd_includes *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        tp_free(s->list[i].name);
        tp_free(s->list[i].content);
    }
    for (size_t i = 0; i < s->folder_count; i++) {
        tp_free(s->folders[i]);
    }
    tp_free(s->list);
    tp_free(s->folders);
    tp_free(s->options);
    tp_buf_fini(&s->header_text);
    tp_buf_fini(&s->joined_text);
    tp_map_fini(&s->numbers);
    tp_map_fini(&s->scanned);
    tp_mutex_fini(&s->lock);
    tp_free(s);
}
