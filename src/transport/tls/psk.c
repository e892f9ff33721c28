/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of shared keys: lines of a name, 64 hexadecimal digits, and perhaps the host for which a
 * client uses the key. A key file grants access
 * like a password, so files that other users can read are refused, as ssh does.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/text/hex.h"
#include "transport/tls/tls.h"

enum {
    FILE_MAX = 1 << 20, /* [bytes] */
    LINE_WORDS = 3,
};

static telpher_status
check_mode(int fd, const char *path, struct tp_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return tp_error_set_errno(err, errno, "key file %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "key file %s is not a regular file", path);
    }
    if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0 ||
        ((st.st_mode & S_IRGRP) != 0 && st.st_uid != 0)) {
        return tp_error_set(err, TELPHER_ERR_PERMISSION,
                            "key file %s can be read or changed by other users (mode "
                            "%04o): chmod 600 %s",
                            path, (unsigned)(st.st_mode & 07777), path);
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        return tp_error_set(err, TELPHER_ERR_PERMISSION,
                            "key file %s belongs to user %u, who can change it: chown "
                            "%u %s",
                            path, (unsigned)st.st_uid, (unsigned)geteuid(), path);
    }
    return TELPHER_OK;
}

static telpher_status
open_private(const char *path, int *ret_fd, struct tp_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC |
                            O_NONBLOCK); /* do not wait for the writer of a FIFO */
    telpher_status status;

    if (fd < 0) {
        return tp_error_set_errno(err, errno, "key file %s", path);
    }
    status = check_mode(fd, path, err);
    if (status != TELPHER_OK) {
        (void)close(fd);
        return status;
    }
    *ret_fd = fd;
    return TELPHER_OK;
}

telpher_status
tp_tls_check_private(const char *path, struct tp_error *err)
{
    int fd;
    telpher_status status = open_private(path, &fd, err);

    if (status == TELPHER_OK) {
        (void)close(fd);
    }
    return status;
}

/* Reads the whole file; the caller wipes and frees *ret_len + 1 bytes. */
static telpher_status
read_text(const char *path, char **ret_text, size_t *ret_len, struct tp_error *err)
{
    char *text;
    size_t len = 0;
    ssize_t got = 1;
    int fd;
    telpher_status status = open_private(path, &fd, err);

    if (status != TELPHER_OK) {
        return status;
    }
    text = tp_zalloc(FILE_MAX + 1, "key file");
    while (text != NULL && got > 0 && len < FILE_MAX) {
        got = read(fd, text + len, FILE_MAX - len);
        len += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    if (text == NULL || got < 0 || strlen(text) != len) {
        tp_free(text);
        return tp_error_set(err,
                            text == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_INVALID,
                            "key file %s: cannot be read, or is not text", path);
    }
    *ret_text = text;
    *ret_len = len;
    return TELPHER_OK;
}

static bool
is_name(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr(".-_@", name[i]) == NULL) {
            return false;
        }
    }
    return len > 0 && len <= TP_TLS_NAME_MAX;
}

/* Parses a line without its newline. *ret_any: it has a key. */
static telpher_status
parse_line(char *line, struct tp_tls_psk *ret_psk, bool *ret_any)
{
    char *save = NULL, *words[LINE_WORDS + 1] = {NULL};

    line[strcspn(line, "#\r")] = '\0';
    for (int i = 0; i <= LINE_WORDS; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " \t", &save);
        if (words[i] == NULL) {
            break;
        }
    }
    *ret_any = words[0] != NULL;
    if (words[0] == NULL) {
        return TELPHER_OK;
    }
    if (words[1] == NULL || words[3] != NULL || !is_name(words[0]) ||
        (words[2] != NULL && strlen(words[2]) > TP_TLS_HOST_MAX)) {
        return TELPHER_ERR_INVALID;
    }
    (void)snprintf(ret_psk->host, sizeof(ret_psk->host), "%s",
                   words[2] != NULL ? words[2] : "");
    (void)snprintf(ret_psk->name, sizeof(ret_psk->name), "%s", words[0]);
    return tp_hex_decode(ret_psk->key, sizeof(ret_psk->key), words[1]);
}

static size_t
count_lines(const char *text)
{
    size_t count = 1;

    for (; *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

static telpher_status
parse_text(const char *path, char *text, struct tp_tls_psk *list, size_t *ret_count,
           struct tp_error *err)
{
    char *next = text;
    size_t count = 0;

    for (unsigned number = 1; next != NULL; number++) {
        char *line = strsep(&next, "\n");
        bool any;

        if (parse_line(line, &list[count], &any) != TELPHER_OK) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "key file %s, line %u: expected a name, 64 hexadecimal "
                                "digits and at most "
                                "one host, as `telpher keygen` writes them",
                                path, number);
        }
        count += any;
    }
    if (count == 0) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "key file %s holds no key; make one with `telpher keygen`",
                            path);
    }
    *ret_count = count;
    return TELPHER_OK;
}

telpher_status
tp_tls_psk_load(const char *path, struct tp_tls_psk **ret_list, size_t *ret_count,
                struct tp_error *err)
{
    struct tp_tls_psk *list;
    size_t len = 0, lines;
    char *text = NULL;
    telpher_status status = read_text(path, &text, &len, err);

    if (status != TELPHER_OK) {
        return status;
    }
    lines = count_lines(text);
    list = tp_alloc_array(lines, sizeof(*list), "keys");
    status = list != NULL ? parse_text(path, text, list, ret_count, err)
                          : TELPHER_ERR_NO_MEMORY;
    explicit_bzero(text, len);
    tp_free(text);
    if (status != TELPHER_OK) {
        if (list != NULL) {
            explicit_bzero(list, lines * sizeof(*list));
        }
        tp_free(list);
        return status;
    }
    *ret_list = list;
    return TELPHER_OK;
}

/* ---- new keys ---- */

static telpher_status
write_key(int fd, const char *name, const uint8_t key[TP_TLS_SECRET_BYTES])
{
    char hex[TP_HEX_SIZE(TP_TLS_SECRET_BYTES)], text[256];
    int len;
    bool good;

    tp_hex_encode(hex, key, TP_TLS_SECRET_BYTES);
    len = snprintf(text, sizeof(text),
                   "# Shared key of Telpher: its owner can run code on the server.\n"
                   "%s %s\n",
                   name, hex);
    good = write(fd, text, (size_t)len) == len && fsync(fd) == 0;
    explicit_bzero(hex, sizeof(hex));
    explicit_bzero(text, sizeof(text));
    return good ? TELPHER_OK : TELPHER_ERR_IO;
}

static telpher_status
create_file(const char *path, const char *name, const uint8_t key[TP_TLS_SECRET_BYTES],
            struct tp_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 && errno == EEXIST) {
        return tp_error_set(err, TELPHER_ERR_EXISTS,
                            "%s exists and is not overwritten: remove it or choose "
                            "another file",
                            path);
    }
    if (fd < 0) {
        return tp_error_set_errno(err, errno, "cannot create %s", path);
    }
    if (write_key(fd, name, key) != TELPHER_OK) {
        (void)tp_error_set_errno(err, errno, "cannot write %s", path);
        (void)close(fd);
        (void)unlink(path);
        return TELPHER_ERR_IO;
    }
    (void)close(fd);
    return TELPHER_OK;
}

telpher_status
tp_tls_psk_create(const char *path, const char *name, struct tp_error *err)
{
    uint8_t key[TP_TLS_SECRET_BYTES], random[4];
    char made[16], digits[TP_HEX_SIZE(sizeof(random))];
    telpher_status status;

    if (name != NULL && !is_name(name)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "the name of a key is 1 to %d letters, digits, and . - _ @",
                            TP_TLS_NAME_MAX);
    }
    if (tp_random_bytes(key, sizeof(key)) != TELPHER_OK ||
        tp_random_bytes(random, sizeof(random)) != TELPHER_OK) {
        return tp_error_set(err, TELPHER_ERR_IO,
                            "cannot read random numbers from the kernel");
    }
    tp_hex_encode(digits, random, sizeof(random));
    (void)snprintf(made, sizeof(made), "key-%s", digits);
    status = create_file(path, name != NULL ? name : made, key, err);
    explicit_bzero(key, sizeof(key));
    return status;
}
