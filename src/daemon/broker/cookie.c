/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and creates the cookie file, the credentials of clients on loopback TCP. */
#include "daemon/broker/cookie.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/random.h"

enum { PATH_BYTES = 1024 };

void
tp_daemon_make_folder(const char *path, unsigned mode)
{
    char folder[PATH_BYTES];
    char *slash;

    if (strlen(path) >= sizeof(folder)) {
        return;
    }
    memcpy(folder, path, strlen(path) + 1);
    slash = strrchr(folder, '/');
    if (slash != NULL && slash != folder) {
        *slash = '\0';
        (void)mkdir(folder, mode);
    }
}

static telpher_status
check_mode(int fd, const char *path, struct tp_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return tp_error_set_errno(err, errno, "cookie file %s", path);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        return tp_error_set(err, TELPHER_ERR_PERMISSION,
                            "cookie file %s is not a file of this user; remove it or "
                            "choose another with --cookie",
                            path);
    }
    if ((st.st_mode & 077) != 0) {
        return tp_error_set(err, TELPHER_ERR_PERMISSION,
                            "cookie file %s can be read by others; remove it, a new "
                            "one is made at start",
                            path);
    }
    return TELPHER_OK;
}

static telpher_status
read_cookie(int fd, const char *path, uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
            struct tp_error *err)
{
    uint8_t bytes[TP_WIRE_COOKIE_BYTES + 1];
    telpher_status status = check_mode(fd, path, err);
    ssize_t got;

    if (status != TELPHER_OK) {
        return status;
    }
    got = read(fd, bytes, sizeof(bytes));
    if (got != TP_WIRE_COOKIE_BYTES) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "cookie file %s does not hold %d bytes; remove it", path,
                            TP_WIRE_COOKIE_BYTES);
    }
    memcpy(ret_cookie, bytes, TP_WIRE_COOKIE_BYTES);
    return TELPHER_OK;
}

/* Writes a new cookie to a temporary file and links it to the path, so that of several
 * daemons the first wins. */
static telpher_status
make_cookie(const char *path, struct tp_error *err)
{
    uint8_t bytes[TP_WIRE_COOKIE_BYTES];
    char temporary[PATH_BYTES];
    telpher_status status = TELPHER_OK;
    int fd;

    if (tp_random_bytes(bytes, sizeof(bytes)) != TELPHER_OK ||
        snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid()) >=
            (int)sizeof(temporary)) {
        return tp_error_set(err, TELPHER_ERR_IO, "cannot make a cookie for %s", path);
    }
    tp_daemon_make_folder(path, 0700);
    (void)unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return tp_error_set_errno(err, errno, "cannot make cookie file %s", path);
    }
    if (write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes) || fsync(fd) != 0 ||
        (link(temporary, path) != 0 && errno != EEXIST)) {
        status = tp_error_set_errno(err, errno, "cannot write cookie file %s", path);
    }
    (void)close(fd);
    (void)unlink(temporary);
    return status;
}

telpher_status
tp_daemon_cookie_load(const char *path, uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                      struct tp_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    telpher_status status = TELPHER_OK;

    if (fd < 0 && errno == ENOENT) {
        status = make_cookie(path, err);
        if (status != TELPHER_OK) {
            return status;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    if (fd < 0) {
        return tp_error_set_errno(err, errno, "cannot open cookie file %s", path);
    }
    status = read_cookie(fd, path, ret_cookie, err);
    (void)close(fd);
    return status;
}
