/* SPDX-License-Identifier: Apache-2.0 */
/* Creates memory files from the client's includes, and rewrites sources to name them
 * (docs/protocol.md 6.1). */
#include "daemon/executor/program/files.h"

#include <CL/cl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/include.h"
#include "wire/files.h"

struct tp_exec_files {
    uint32_t count;
    int fds[]; /**< by record; that of the first is -1 */
};

void
tp_exec_files_close(struct tp_exec_files *files)
{
    for (uint32_t i = 0; files != NULL && i < files->count; i++) {
        if (files->fds[i] >= 0) {
            (void)close(files->fds[i]);
        }
    }
    tp_free(files);
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

/* ---- rewriting ---- */

/* Judges the directives of one text. */
struct judging {
    const struct tp_exec_files *files;
    const struct tp_wire_file *record; /* of the text; NULL: nothing was sent */
    uint32_t next; /* directive */
};

/* True if the compiler, which looks in the present folder, too, might find it there. */
static bool
is_here(const struct tp_include *inc)
{
    char *name = tp_strndup(inc->name, inc->name_len, "include");
    bool here = name == NULL || access(name, F_OK) == 0;

    tp_free(name);
    return here;
}

static enum tp_include_verdict
judge(void *arg, const struct tp_include *inc, struct tp_buf *out)
{
    struct judging *j = arg;
    uint32_t link = 0;
    char operand[48];
    int len;

    if (j->record != NULL && j->next < j->record->link_count) {
        link = tp_wire_file_link(j->record, j->next++);
    }
    if (link != 0) {
        len = snprintf(operand, sizeof(operand), "\"/proc/self/fd/%d\"",
                       j->files->fds[link]);
        return tp_buf_append(out, operand, (size_t)len) == TELPHER_OK
                   ? TP_INCLUDE_REPLACE
                   : TP_INCLUDE_NO_MEMORY;
    }
    return inc->form == TP_INCLUDE_OTHER || inc->form == TP_INCLUDE_SEVERAL ||
                   !tp_include_is_plain(inc->name, inc->name_len) || is_here(inc)
               ? TP_INCLUDE_REFUSE
               : TP_INCLUDE_KEEP;
}

static int32_t
rewrite(const struct tp_exec_files *files, const struct tp_wire_file *record,
        const char *text, size_t len, struct tp_buf *out)
{
    struct judging j = {.files = files, .record = record};

    return tp_include_rewrite(text, len, judge, &j, out) == TELPHER_OK
               ? 0
               : CL_OUT_OF_HOST_MEMORY;
}

int32_t
tp_exec_files_text(const struct tp_exec_files *files, const uint8_t *records,
                   uint64_t len, const char *text, uint64_t text_len,
                   struct tp_buf *out)
{
    struct tp_wire_file source;

    if (files == NULL || !tp_wire_get_file(&records, records + len, &source)) {
        return rewrite(NULL, NULL, text, text_len, out);
    }
    return rewrite(files, &source, text, text_len, out);
}

/* ---- files ---- */

/* Adds a directive so that messages and __FILE__ show the client's file name. */
static telpher_status
append_name(const struct tp_wire_file *file, struct tp_buf *out)
{
    telpher_status status = tp_buf_append(out, "#line 1 \"", 9);

    for (uint32_t i = 0; i < file->name_len && status == TELPHER_OK; i++) {
        unsigned char c = (unsigned char)file->name[i];

        if (c < ' ' || c == 0x7f || c == '?') {
            c = '_';
        }
        if (c == '"' || c == '\\') {
            status = tp_buf_append(out, "\\", 1);
        }
        if (status == TELPHER_OK) {
            status = tp_buf_append(out, &c, 1);
        }
    }
    return status == TELPHER_OK ? tp_buf_append(out, "\"\n", 2) : status;
}

static int32_t
write_all(int fd, const struct tp_buf *content)
{
    const uint8_t *at = tp_buf_data(content);
    size_t left = tp_buf_len(content);

    while (left > 0) {
        ssize_t n = write(fd, at, left);

        if (n < 0 && errno != EINTR) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
    return 0;
}

static int32_t
fill_file(const struct tp_exec_files *files, uint32_t i,
          const struct tp_wire_file *file)
{
    struct tp_buf content;
    int32_t error;

    tp_buf_init(&content, 0);
    error = append_name(file, &content) == TELPHER_OK ? 0 : CL_OUT_OF_HOST_MEMORY;
    if (error == 0) {
        error = rewrite(files, file, (const char *)file->content, file->len, &content);
    }
    if (error == 0) {
        error = write_all(files->fds[i], &content);
    }
    tp_buf_fini(&content);
    return error;
}

/* Creates all descriptors before any content, since the files name each other. */
static int32_t
open_all(struct tp_exec_files *files, uint32_t count)
{
    files->fds[0] = -1;
    for (files->count = 1; files->count < count; files->count++) {
        files->fds[files->count] = open_memory();
        if (files->fds[files->count] < 0) {
            return CL_OUT_OF_RESOURCES;
        }
    }
    return 0;
}

int32_t
tp_exec_files_open(const uint8_t *records, uint64_t len,
                   struct tp_exec_files **ret_files)
{
    const uint8_t *end = records + len;
    uint32_t count = tp_wire_files_check(records, len), i = 0;
    struct tp_exec_files *files =
        tp_zalloc(sizeof(*files) + count * sizeof(files->fds[0]), "files");
    struct tp_wire_file file;
    int32_t error = files == NULL ? CL_OUT_OF_HOST_MEMORY : 0;

    if (error == 0 && count > 0) {
        error = open_all(files, count);
    }
    while (error == 0 && tp_wire_get_file(&records, end, &file)) {
        if (i > 0) {
            error = fill_file(files, i, &file);
        }
        i++;
    }
    if (error != 0) {
        tp_exec_files_close(files);
        return error;
    }
    *ret_files = files;
    return 0;
}

/* ---- options ---- */

static bool
is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Beginnings of options that compilers read, write or load files by. */
static bool
begins_badly(const char *word)
{
    static const char *const begins[] = {
        "-I", "-i",    "-F",       "-B", "-L", "-X",       "-o",
        "-M", "-load", "-fplugin", "@",  "--", "-fmodule", "-save-temps"};

    for (size_t i = 0; i < TP_ARRAY_LEN(begins); i++) {
        if (strncmp(word, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Copies the next word without its quotes. @param quoted whether quotes keep blanks
 * together: not all drivers look at them. @return behind it; ret_word is "" at the end
 */
static const char *
next_word(const char *at, bool quoted, char *ret_word)
{
    char quote = '\0';

    while (is_space(*at)) {
        at++;
    }
    for (; *at != '\0' && (quote != '\0' || !is_space(*at)); at++) {
        if (*at == '"' || *at == '\'') {
            if (quoted && (quote == '\0' || quote == *at)) {
                quote = quote == '\0' ? *at : '\0';
            }
        } else {
            *ret_word++ = *at;
        }
    }
    *ret_word = '\0';
    return at;
}

static bool
names_files(const char *options, bool quoted, char *word)
{
    bool value = false; /* of a -D that stands alone */

    for (const char *at = next_word(options, quoted, word);
         *at != '\0' || *word != '\0'; at = next_word(at, quoted, word)) {
        bool defines = strncmp(word, "-D", 2) == 0 || strncmp(word, "-U", 2) == 0;

        if (begins_badly(word) ||
            (quoted && !value && !defines && strpbrk(word, "/\\") != NULL)) {
            return true;
        }
        value = defines && word[2] == '\0';
    }
    return false;
}

bool
tp_exec_options_name_files(const char *options)
{
    char *word = tp_malloc(strlen(options) + 1, "build options");
    bool bad = word == NULL || names_files(options, true, word) ||
               names_files(options, false, word);

    tp_free(word);
    return bad;
}
