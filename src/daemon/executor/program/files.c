/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what lies under the names that a build looks up, as the client said. Entries are
 * only added: the thread that looks names up allocates nothing, and others allocate nothing
 * while they hold the lock that it takes.
 */
#include "daemon/executor/program/files.h"

#include <CL/cl.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/container/refcount.h"
#include "base/hash.h"
#include "base/os/thread.h"
#include "daemon/executor/program/files_int.h"
#include "wire/files.h"

enum { BUCKETS = 4096, NAMES_MAX = 256 << 10 };

/* A name, and what is there. */
struct entry {
    struct entry *next; /* of the bucket of its name */
    struct entry *next_identity; /* of the bucket of its identity */
    struct entry *newer; /* of all */
    struct entry *first; /* name of the same file: its memory file is for all of them */
    struct tp_exec_content *content; /* NULL: not here yet */
    enum tp_wire_file_kind kind;
    bool spelled; /* by the client, not only a folder of such a name */
    bool has_file; /* a folder with a file */
    bool wanted; /* the content is being asked for */
    uint64_t identity;
    int fd; /* memory file, -1 until it is opened */
    uint8_t digest[TP_SHA256_BYTES];
    char name[];
};

struct tp_exec_files {
    struct tp_refcount refs;
    struct tp_exec_store *store;
    const char *text, *options;
    size_t text_len;
    struct tp_mutex lock; /* of all that follows */
    struct tp_cond changed; /* an answer arrived */
    struct entry *buckets[BUCKETS], *identities[BUCKETS];
    struct entry *oldest, *newest;
    bool grew;
    bool asks_client; /* which has sent names of its files */
    uint64_t sent, answered; /* messages of names, and their answers */
    size_t missed_len, missed_sent; /* [bytes] */
    bool missed_more; /* than there is room for */
    char missed[NAMES_MAX]; /* names that were not found, each with its NUL */
};

/* ---- names ---- */

static size_t
bucket_of(const char *name, size_t len)
{
    uint64_t hash = tp_hash_add(TP_HASH_START, name, len);

    return (hash ^ hash >> 32) % BUCKETS;
}

static struct entry *
find(const struct tp_exec_files *f, const char *name, size_t len)
{
    struct entry *e = f->buckets[bucket_of(name, len)];

    while (e != NULL && (strncmp(e->name, name, len) != 0 || e->name[len] != '\0')) {
        e = e->next;
    }
    return e;
}

static struct entry *
new_entry(const struct tp_wire_file *file, size_t name_len)
{
    struct entry *e = tp_zalloc(sizeof(*e) + name_len + 1, "included files");

    if (e != NULL) {
        e->kind = file->kind;
        e->identity = file->identity;
        e->fd = -1;
        e->first = e;
        memcpy(e->name, file->name, name_len);
        if (file->kind == TP_WIRE_FILE_REGULAR) {
            memcpy(e->digest, file->digest, sizeof(e->digest));
        }
    }
    return e;
}

static void
free_entry(struct tp_exec_files *f, struct entry *e)
{
    if (e->fd >= 0) {
        (void)close(e->fd);
    }
    tp_exec_content_put(f->store, e->content);
    tp_free(e);
}

static bool
is_same(const struct entry *a, const struct entry *b)
{
    return a->kind == b->kind && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* Links a file to the other names that it has. */
static void
link_identity(struct tp_exec_files *f, struct entry *e)
{
    struct entry **bucket = &f->identities[e->identity % BUCKETS], *i = *bucket;

    while (i != NULL && (i->identity != e->identity || !is_same(i, e))) {
        i = i->next_identity;
    }
    if (i != NULL) {
        e->first = i;
    } else {
        e->next_identity = *bucket;
        *bucket = e;
    }
}

static void
insert(struct tp_exec_files *f, struct entry *e)
{
    struct entry **bucket = &f->buckets[bucket_of(e->name, strlen(e->name))];

    if (e->kind == TP_WIRE_FILE_REGULAR) {
        link_identity(f, e);
    }
    e->next = *bucket;
    *bucket = e;
    *(f->newest != NULL ? &f->newest->newer : &f->oldest) = e;
    f->newest = e;
}

/* Adds an entry, or what it says to the one of its name. Under the lock. @return what to
 * free, or NULL */
static struct entry *
merge(struct tp_exec_files *f, struct entry *e)
{
    struct entry *old = find(f, e->name, strlen(e->name));
    struct tp_exec_content *content;

    if (old == NULL) {
        insert(f, e);
        return NULL;
    }
    old->has_file = old->has_file || e->has_file;
    if (!e->spelled || !old->spelled) {
        old->spelled = old->spelled || e->spelled;
        return e;
    }
    if (!is_same(old, e)) { /* changed since the client named it */
        f->grew = true;
        if (old->fd >= 0 || old->first != old) {
            return e;
        }
        old->kind = e->kind;
        memcpy(old->digest, e->digest, sizeof(e->digest));
    } else if (old->content != NULL) {
        return e;
    }
    content = old->content;
    old->content = e->content;
    e->content = content;
    return e;
}

/* Adds a record under a name of @p len bytes, which may be a folder of the record's. */
static int32_t
add_name(struct tp_exec_files *f, const struct tp_wire_file *file, size_t len,
         bool has_file)
{
    struct entry *e = new_entry(file, len);

    if (e == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    e->has_file = has_file;
    e->spelled = len == file->name_len;
    if (e->spelled && file->kind == TP_WIRE_FILE_REGULAR) {
        e->content = file->has_content
                         ? tp_exec_content_add(f->store, file->content, file->len)
                         : tp_exec_content_get(f->store, file->digest);
        if (file->has_content &&
            (e->content == NULL || memcmp(tp_exec_content_digest(e->content), e->digest,
                                          sizeof(e->digest)) != 0)) {
            free_entry(f, e); /* no memory, or a digest that is wrong */
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    tp_mutex_lock(&f->lock);
    e = merge(f, e);
    tp_mutex_unlock(&f->lock);
    if (e != NULL) {
        free_entry(f, e);
    }
    return 0;
}

/* Adds a record, and the folders on the way to it. */
static int32_t
add_record(struct tp_exec_files *f, const struct tp_wire_file *file)
{
    struct tp_wire_file folder = {
        .kind = TP_WIRE_FILE_FOLDER, .name = file->name, .name_len = file->name_len};
    int32_t error = add_name(f, file, file->name_len, false);
    bool has_file = file->kind == TP_WIRE_FILE_REGULAR;

    for (size_t i = file->name_len; i-- > 0 && error == 0;) {
        bool found = false;

        if (file->name[i] != '/' || file->kind == TP_WIRE_FILE_ABSENT) {
            continue;
        }
        tp_mutex_lock(&f->lock);
        found = !has_file && find(f, file->name, i == 0 ? 1 : i) != NULL;
        tp_mutex_unlock(&f->lock);
        if (found) {
            break; /* and so are its own folders */
        }
        error = add_name(f, &folder, i == 0 ? 1 : i, has_file);
        has_file = false;
    }
    return error;
}

int32_t
tp_exec_files_add(struct tp_exec_files *f, const uint8_t *records, uint64_t len)
{
    const uint8_t *end = len != 0 ? records + len : records; /* may be NULL */
    struct tp_wire_file file;
    int32_t error = 0;

    f->asks_client = f->asks_client || len > 0;
    while (error == 0 && records < end && tp_wire_get_file(&records, end, &file)) {
        error = add_record(f, &file);
    }
    return error;
}

/* ---- what is asked of the client ---- */

int32_t
tp_exec_files_answer(struct tp_exec_files *f, const uint8_t *records, uint64_t len)
{
    int32_t error = tp_exec_files_add(f, records, len);

    tp_mutex_lock(&f->lock);
    f->answered++;
    tp_cond_broadcast(&f->changed);
    tp_mutex_unlock(&f->lock);
    return error;
}

bool
tp_exec_files_await(struct tp_exec_files *f, tp_ns deadline)
{
    bool all;

    tp_mutex_lock(&f->lock);
    while (f->answered < f->sent &&
           tp_cond_wait(&f->changed, &f->lock, deadline) == TELPHER_OK) {
    }
    all = f->answered >= f->sent;
    tp_mutex_unlock(&f->lock);
    return all;
}

bool
tp_exec_files_grew(const struct tp_exec_files *f)
{
    return f->grew;
}

bool
tp_exec_files_settle(struct tp_exec_files *f)
{
    bool news = f->missed_more;

    for (const char *name = f->missed; name < f->missed + f->missed_len;
         name += strlen(name) + 1) {
        const struct tp_wire_file none = {.kind = TP_WIRE_FILE_ABSENT,
                                          .name = name,
                                          .name_len = (uint32_t)strlen(name)};
        const struct entry *e = find(f, name, none.name_len);

        if (e == NULL) { /* the answer does not have it */
            (void)add_name(f, &none, none.name_len, false);
        }
        news = news || (e != NULL && e->kind != TP_WIRE_FILE_ABSENT);
    }
    f->missed_len = f->missed_sent = 0;
    f->missed_more = false;
    return news;
}

/* Appends a name for which there is room. */
static bool
put_name(struct tp_buf *names, const char *name)
{
    size_t len = strlen(name) + 1;

    return tp_buf_len(names) + len <= NAMES_MAX &&
           tp_buf_append(names, name, len) == TELPHER_OK;
}

bool
tp_exec_files_want(struct tp_exec_files *f, struct tp_buf *names)
{
    uint8_t *tail;
    bool any;

    if (tp_buf_reserve(names, NAMES_MAX, &tail) != TELPHER_OK) {
        return false; /* no allocation under the lock: appending needs none now */
    }
    tp_mutex_lock(&f->lock);
    for (struct entry *e = f->oldest; e != NULL; e = e->newer) {
        if (e->kind == TP_WIRE_FILE_REGULAR && e->spelled && !e->wanted &&
            e->content == NULL) {
            e->wanted = put_name(names, e->name);
        }
    }
    if (tp_buf_len(names) == 0 && f->missed_len > f->missed_sent) {
        (void)tp_buf_append(names, f->missed + f->missed_sent,
                            f->missed_len - f->missed_sent);
        f->missed_sent = f->missed_len;
    }
    any = tp_buf_len(names) > 0;
    f->sent += any;
    tp_mutex_unlock(&f->lock);
    return any;
}

/* ---- lookups ---- */

static bool
occurs(const struct tp_exec_files *f, const char *text, size_t len)
{
    return memmem(f->text, f->text_len, text, len) != NULL ||
           memmem(f->options, strlen(f->options), text, len) != NULL;
}

/* True if the client may have a file of that name. */
static bool
is_clients(const struct tp_exec_files *f, const char *name)
{
    const char *slash = strrchr(name, '/');
    const struct entry *folder;
    size_t parent;

    if (name[0] != '/') {
        return true;
    }
    parent = slash == name ? 1 : (size_t)(slash - name);
    folder = find(f, name, parent);
    if ((folder != NULL && folder->has_file) ||
        (parent > 1 && occurs(f, name, parent))) {
        return true;
    }
    for (size_t len = parent; len > 1; len--) {
        if (name[len] == '/') {
            folder = find(f, name, len);
            if (folder != NULL && folder->spelled &&
                folder->kind == TP_WIRE_FILE_FOLDER) {
                return true;
            }
        }
    }
    return false;
}

/* Notes a name to be asked for. */
static void
note_missed(struct tp_exec_files *f, const char *name)
{
    size_t len = strlen(name) + 1;

    f->grew = true;
    for (const char *at = f->missed; at < f->missed + f->missed_len;
         at += strlen(at) + 1) {
        if (strcmp(at, name) == 0) {
            return;
        }
    }
    if (len > TP_WIRE_FILE_NAME_MAX || len > sizeof(f->missed) - f->missed_len) {
        f->missed_more = len <= TP_WIRE_FILE_NAME_MAX;
        return;
    }
    memcpy(f->missed + f->missed_len, name, len);
    f->missed_len += len;
}

/* Creates a memory file; raises the descriptor limit to the maximum if necessary. */
static int
open_memory(void)
{
    int fd = memfd_create("include", MFD_CLOEXEC);
    struct rlimit limit;

    if (fd < 0 && errno == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
            fd = memfd_create("include", MFD_CLOEXEC);
        }
    }
    return fd;
}

static int
create_file(const struct tp_exec_content *content)
{
    size_t len, done = 0;
    const uint8_t *data = tp_exec_content_data(content, &len);
    int fd = open_memory();

    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, data + done, len - done);

        if (n < 0 && errno != EINTR) {
            (void)close(fd);
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return fd;
}

static enum tp_exec_seen
see(struct entry *e, int *ret_fd)
{
    struct entry *first = e->first;

    if (e->kind != TP_WIRE_FILE_REGULAR) {
        return e->kind == TP_WIRE_FILE_FOLDER ? TP_EXEC_SEEN_FOLDER
                                              : TP_EXEC_SEEN_NOTHING;
    }
    if (first->fd < 0 && e->content != NULL) {
        first->fd = create_file(e->content);
    }
    *ret_fd = first->fd;
    return first->fd >= 0 ? TP_EXEC_SEEN_FILE : TP_EXEC_SEEN_NOTHING;
}

enum tp_exec_seen
tp_exec_files_find(struct tp_exec_files *f, const char *name, int *ret_fd)
{
    enum tp_exec_seen seen = TP_EXEC_SEEN_FOREIGN;
    struct entry *e;

    if (name[0] == '\0' || strcmp(name, ".") == 0) {
        return TP_EXEC_SEEN_FOLDER;
    }
    tp_mutex_lock(&f->lock);
    e = find(f, name, strlen(name));
    if (e != NULL) {
        seen = see(e, ret_fd);
    } else if (is_clients(f, name)) {
        seen = TP_EXEC_SEEN_NOTHING;
        if (f->asks_client) {
            note_missed(f, name);
        }
    }
    tp_mutex_unlock(&f->lock);
    return seen;
}

/* ---- life cycle ---- */

struct tp_exec_files *
tp_exec_files_create(struct tp_exec_store *store, const char *text, size_t text_len,
                     const char *options)
{
    struct tp_exec_files *f = tp_zalloc(sizeof(*f), "included files");

    if (f != NULL) {
        tp_refcount_init(&f->refs);
        f->store = store;
        f->text = text;
        f->text_len = text_len;
        f->options = options;
        tp_mutex_init(&f->lock);
        tp_cond_init(&f->changed);
    }
    return f;
}

void
tp_exec_files_ref(struct tp_exec_files *f)
{
    tp_refcount_get(&f->refs);
}

void
tp_exec_files_unref(struct tp_exec_files *f)
{
    struct entry *next;

    if (f == NULL || !tp_refcount_put(&f->refs)) {
        return;
    }
    for (struct entry *e = f->oldest; e != NULL; e = next) {
        next = e->newer;
        free_entry(f, e);
    }
    tp_cond_fini(&f->changed);
    tp_mutex_fini(&f->lock);
    tp_free(f);
}

void
tp_exec_files_sum(const uint8_t *records, uint64_t len, struct tp_sha256 *sum)
{
    const uint8_t *end = len != 0 ? records + len : records; /* may be NULL */
    struct tp_wire_file file;

    while (records < end && tp_wire_get_file(&records, end, &file)) {
        uint8_t kind = (uint8_t)file.kind;

        tp_sha256_add(sum, &kind, sizeof(kind));
        tp_sha256_add_sized(sum, file.name, file.name_len);
        if (file.kind == TP_WIRE_FILE_REGULAR) {
            tp_sha256_add(sum, file.digest, TP_WIRE_FILE_DIGEST_BYTES);
        }
    }
}
