/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of this user's daemon socket, cookie and key; parsing of server lists. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/folder.h"
#include "base/os/descriptor.h"
#include "core/session/client_int.h"

#define SYSTEM_DIR "/run/telpher"
#define SOCKET_NAME "telpherd.sock"
#define COOKIE_NAME "cookie"

/* Joins into dst; "" if it does not fit or a part is missing. */
static void
join(char *dst, size_t cap, const char *dir, const char *name)
{
    int len = snprintf(dst, cap, "%s/%s", dir, name);

    if (dir[0] == '\0' || len < 0 || (size_t)len >= cap) {
        dst[0] = '\0';
    }
}

/* True if a directory in /tmp is safe: any user may create files there, so an existing one
 * must be owned and writable by this user only. */
static bool
is_safe_dir(const char *path)
{
    return tp_folder_is_own(path, S_IWGRP | S_IWOTH) || errno == ENOENT;
}

static void
default_dir(char *dst, size_t cap)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0) {
        snprintf(dst, cap, "%s", SYSTEM_DIR);
    } else if (runtime != NULL && runtime[0] == '/') {
        join(dst, cap, runtime, "telpher");
    } else {
        snprintf(dst, cap, "/tmp/telpher-%u", (unsigned)geteuid());
        if (!is_safe_dir(dst)) {
            dst[0] = '\0';
        }
    }
}

void
tp_client_default_socket(char *dst, size_t cap)
{
    char dir[512];

    default_dir(dir, sizeof(dir));
    join(dst, cap, dir, SOCKET_NAME);
}

void
tp_client_default_cookie(char *dst, size_t cap)
{
    char dir[512];

    default_dir(dir, sizeof(dir));
    join(dst, cap, dir, COOKIE_NAME);
}

/* True for a file of this user or of root that no other user may open. Root may name any
 * user's. */
static bool
is_secret_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_mode & 077) == 0 &&
           (st.st_uid == geteuid() || st.st_uid == 0 || geteuid() == 0);
}

static telpher_status
check_cookie(int fd, const char *path, ssize_t len, struct tp_error *err)
{
    if (len < 0) {
        tp_error_set_errno(err, errno, "reading the cookie file %s", path);
        return TELPHER_ERR_AUTH;
    }
    if (!is_secret_file(fd)) {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "cookie file %s can be read or written by other users; "
                            "chmod 600 it if it comes from a telpherd that you trust",
                            path);
    }
    if (len != TP_WIRE_COOKIE_BYTES) {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "cookie file %s: not a cookie, which has %d bytes", path,
                            TP_WIRE_COOKIE_BYTES);
    }
    return TELPHER_OK;
}

/* Reads one cookie file. NOT_FOUND if it does not exist. */
static telpher_status
read_cookie(const char *path, uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
            struct tp_error *err)
{
    uint8_t bytes[TP_WIRE_COOKIE_BYTES + 1];
    int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* must not block on a FIFO */
    telpher_status status;

    if (fd < 0 && errno == ENOENT) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "cookie file %s does not exist",
                            path);
    }
    status = check_cookie(fd, path, fd < 0 ? -1 : read(fd, bytes, sizeof(bytes)), err);
    if (status == TELPHER_OK) {
        memcpy(ret_cookie, bytes, TP_WIRE_COOKIE_BYTES);
    }
    tp_descriptor_close(fd);
    return status;
}

/* Writes default path i, preferred first; "" where it does not apply. False at the end. */
static bool
default_place(int i, char *dst, size_t cap)
{
    const char *home = secure_getenv("HOME");

    switch (i) {
    case 0:
        tp_client_default_cookie(dst, cap);
        return true;
    case 1:
        join(dst, cap, SYSTEM_DIR, COOKIE_NAME);
        return true;
    case 2:
        join(dst, cap, home != NULL ? home : "", ".telpher/" COOKIE_NAME);
        return true;
    default:
        return false;
    }
}

static telpher_status
search_cookie(uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES], struct tp_error *err)
{
    struct tp_error first = {0}, now;
    char path[1024];

    for (int i = 0; default_place(i, path, sizeof(path)); i++) {
        now = (struct tp_error){0};
        if (path[0] == '\0' || read_cookie(path, ret_cookie, &now) == TELPHER_OK) {
            if (path[0] != '\0') {
                return TELPHER_OK;
            }
        } else if (now.code != TELPHER_ERR_NOT_FOUND && first.code == TELPHER_OK) {
            first = now;
        }
    }
    if (first.code != TELPHER_OK) {
        return tp_error_set(err, TELPHER_ERR_AUTH, "%s", first.text);
    }
    return tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                        "no cookie file found; name the one of telpherd in "
                        "TELPHER_COOKIE");
}

telpher_status
tp_client_load_cookie(const char *path, uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                      struct tp_error *err)
{
    const char *named =
        path != NULL && path[0] != '\0' ? path : tp_settings_get("COOKIE");

    if (named == NULL || named[0] == '\0') {
        return search_cookie(ret_cookie, err);
    }
    return read_cookie(named, ret_cookie, err) == TELPHER_OK ? TELPHER_OK
                                                             : TELPHER_ERR_AUTH;
}

/* ---- lists of servers ---- */

/* Writes "unix:" and the socket of this user's daemon, or of the system's daemon if that
 * socket does not exist. */
static telpher_status
local_address(char *dst, size_t cap, struct tp_error *err)
{
    char path[512];

    tp_client_default_socket(path, sizeof(path));
    if ((path[0] == '\0' || access(path, F_OK) != 0) &&
        access(SYSTEM_DIR "/" SOCKET_NAME, F_OK) == 0) {
        snprintf(path, sizeof(path), "%s", SYSTEM_DIR "/" SOCKET_NAME);
    }
    if (path[0] == '\0') {
        return tp_error_set(
            err, TELPHER_ERR_PERMISSION,
            "local: /tmp/telpher-%u is not a folder of this user alone; "
            "set XDG_RUNTIME_DIR",
            (unsigned)geteuid());
    }
    snprintf(dst, cap, "unix:%s", path);
    return TELPHER_OK;
}

/* Finds the next item without surrounding blanks; moves *text to its comma or the end. */
static size_t
next_item(const char **text, const char **ret_item)
{
    const char *start = *text, *end;

    while (isspace((unsigned char)*start)) {
        start++;
    }
    *text = end = start + strcspn(start, ",");
    while (end > start && isspace((unsigned char)end[-1])) {
        end--;
    }
    *ret_item = start;
    return (size_t)(end - start);
}

static size_t
count_items(const char *text)
{
    size_t count = 1;

    while ((text = strchr(text, ',')) != NULL) {
        text++;
        count++;
    }
    return count;
}

/* Copies the items after the array. @p local replaces "local". */
static telpher_status
fill_list(const char *text, const char *local, char **list, char *chars,
          struct tp_error *err)
{
    const char *item, *p = text;

    for (size_t i = 0;; i++) {
        size_t len = next_item(&p, &item);

        if (len == 0) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "server list \"%.100s\": item %zu is empty", text,
                                i + 1);
        }
        if (len == 5 && strncmp(item, "local", 5) == 0) {
            item = local;
            len = strlen(local);
        }
        memcpy(chars, item, len);
        chars[len] = '\0';
        list[i] = chars;
        chars += len + 1;
        if (*p == '\0') {
            return TELPHER_OK;
        }
        p++;
    }
}

static bool
has_local(const char *text)
{
    const char *item;

    for (;;) {
        size_t len = next_item(&text, &item);

        if (len == 5 && strncmp(item, "local", 5) == 0) {
            return true;
        }
        if (*text == '\0') {
            return false;
        }
        text++;
    }
}

telpher_status
tp_client_parse_servers(const char *text, char ***ret_list, size_t *ret_count,
                        struct tp_error *err)
{
    size_t count = count_items(text), array_bytes = count * sizeof(char *);
    char local[600] = "", **list;
    telpher_status status;

    if (has_local(text) && (status = local_address(local, sizeof(local), err)) != 0) {
        return status;
    }
    list = tp_malloc(array_bytes + strlen(text) + 1 + count * (strlen(local) + 1),
                     "server list");
    if (list == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "server list: out of memory");
    }
    status = fill_list(text, local, list, (char *)list + array_bytes, err);
    if (status != TELPHER_OK) {
        tp_free(list);
        return status;
    }
    *ret_list = list;
    *ret_count = count;
    return TELPHER_OK;
}
