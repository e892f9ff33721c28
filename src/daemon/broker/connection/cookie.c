/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the cookie of clients on loopback TCP, new at each start. */
#include "daemon/broker/connection/cookie.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
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
write_cookie(int fd, const char *path, struct tp_error *err)
{
    uint8_t bytes[TP_WIRE_COOKIE_BYTES];

    if (tp_random_bytes(bytes, sizeof(bytes)) != TELPHER_OK) {
        return tp_error_set(err, TELPHER_ERR_IO, "no random bytes for cookie file %s",
                            path);
    }
    if (pwrite(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
        ftruncate(fd, sizeof(bytes)) != 0) {
        return tp_error_set_errno(err, errno, "cannot write cookie file %s", path);
    }
    return TELPHER_OK;
}

/*
 * Daemons of one user may share the file. Each holds a shared lock on it while it runs, so the
 * first one gets the exclusive lock and writes a new cookie. Another daemon may do that while
 * the lock is downgraded: what counts is what the file holds under the shared lock.
 */
static telpher_status
renew_cookie(int fd, const char *path, uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
             struct tp_error *err)
{
    telpher_status status = check_mode(fd, path, err);

    if (status == TELPHER_OK && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        status = write_cookie(fd, path, err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    if (flock(fd, LOCK_SH) != 0 ||
        pread(fd, ret_cookie, TP_WIRE_COOKIE_BYTES, 0) != TP_WIRE_COOKIE_BYTES) {
        return tp_error_set_errno(err, errno, "cannot read cookie file %s", path);
    }
    return TELPHER_OK;
}

telpher_status
tp_daemon_cookie_create(const char *path, uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                        int *ret_fd, struct tp_error *err)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    telpher_status status;
    int fd;

    tp_daemon_make_folder(path, 0700);
    fd = open(path, flags, 0600);
    if (fd < 0) {
        return tp_error_set_errno(err, errno, "cannot open cookie file %s", path);
    }
    status = renew_cookie(fd, path, ret_cookie, err);
    if (status != TELPHER_OK) {
        (void)close(fd);
        return status;
    }
    *ret_fd = fd;
    return TELPHER_OK;
}
