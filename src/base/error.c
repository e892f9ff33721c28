/* SPDX-License-Identifier: Apache-2.0 */
/* Errors with texts, and the one mapping from errno. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Formats into a buffer of its own first, since arguments may lie in err->text. */
static void
set_text(struct tp_error *err, const char *fmt, va_list args)
{
    char text[TP_ERROR_TEXT_SIZE];
    int len = vsnprintf(text, sizeof(text), fmt, args);

    if (len < 0) {
        text[0] = '\0';
    } else if ((size_t)len >= sizeof(text)) {
        memcpy(text + sizeof(text) - 4, "...", 4);
    }
    memcpy(err->text, text, sizeof(text));
}

telpher_status
tp_error_setv(struct tp_error *err, telpher_status code, const char *fmt, va_list args)
{
    if (err != NULL) {
        set_text(err, fmt, args);
        err->code = code;
    }
    return code;
}

telpher_status
tp_error_set(struct tp_error *err, telpher_status code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    tp_error_setv(err, code, fmt, args);
    va_end(args);
    return code;
}

telpher_status
tp_error_set_errno(struct tp_error *err, int saved_errno, const char *fmt, ...)
{
    telpher_status code = tp_error_from_errno(saved_errno);
    char system_text[96];
    va_list args;

    if (err == NULL) {
        return code;
    }
    va_start(args, fmt);
    tp_error_setv(err, code, fmt, args);
    va_end(args);
    return tp_error_set(err, code, "%s: %s%s", err->text,
                        strerror_r(saved_errno, system_text, sizeof(system_text)),
                        saved_errno == EMFILE ? "; `ulimit -n` lets a process have more"
                                              : "");
}

telpher_status
tp_error_prefix(struct tp_error *err, const char *fmt, ...)
{
    char rest[TP_ERROR_TEXT_SIZE];
    va_list args;

    if (err == NULL) {
        return TELPHER_OK;
    }
    (void)snprintf(rest, sizeof(rest), "%s", tp_error_text(err));
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    return tp_error_set(err, err->code, "%s: %s", err->text, rest);
}

static const struct {
    int system;
    telpher_status status;
} errno_map[] = {
    {EAGAIN, TELPHER_ERR_AGAIN},
    {EINTR, TELPHER_ERR_AGAIN},
    {EINPROGRESS, TELPHER_IN_PROGRESS},
    {EALREADY, TELPHER_IN_PROGRESS},
    {ETIMEDOUT, TELPHER_ERR_TIMEOUT},
    {ECANCELED, TELPHER_ERR_CANCELED},
    {EPIPE, TELPHER_ERR_PEER_LOST},
    {ECONNRESET, TELPHER_ERR_PEER_LOST},
    {ECONNABORTED, TELPHER_ERR_PEER_LOST},
    {ENOTCONN, TELPHER_ERR_PEER_LOST},
    {ESHUTDOWN, TELPHER_ERR_PEER_LOST},
    {ECONNREFUSED, TELPHER_ERR_REFUSED},
    {EHOSTUNREACH, TELPHER_ERR_UNREACHABLE},
    {EHOSTDOWN, TELPHER_ERR_UNREACHABLE},
    {ENETUNREACH, TELPHER_ERR_UNREACHABLE},
    {ENETDOWN, TELPHER_ERR_UNREACHABLE},
    {EADDRNOTAVAIL, TELPHER_ERR_UNREACHABLE},
    {ENOMEM, TELPHER_ERR_NO_MEMORY},
    {ENOBUFS, TELPHER_ERR_NO_MEMORY},
    {EMFILE, TELPHER_ERR_LIMIT},
    {ENFILE, TELPHER_ERR_LIMIT},
    {ENOSPC, TELPHER_ERR_LIMIT},
    {EDQUOT, TELPHER_ERR_LIMIT},
    {EFBIG, TELPHER_ERR_LIMIT},
    {EINVAL, TELPHER_ERR_INVALID},
    {ENOTDIR, TELPHER_ERR_INVALID},
    {EISDIR, TELPHER_ERR_INVALID},
    {ENAMETOOLONG, TELPHER_ERR_INVALID},
    {ERANGE, TELPHER_ERR_RANGE},
    {EOVERFLOW, TELPHER_ERR_RANGE},
    {ENOSYS, TELPHER_ERR_UNSUPPORTED},
    {EOPNOTSUPP, TELPHER_ERR_UNSUPPORTED},
    {EAFNOSUPPORT, TELPHER_ERR_UNSUPPORTED},
    {EPROTONOSUPPORT, TELPHER_ERR_UNSUPPORTED},
    {ENOENT, TELPHER_ERR_NOT_FOUND},
    {ESRCH, TELPHER_ERR_NOT_FOUND},
    {ENXIO, TELPHER_ERR_NOT_FOUND},
    {EEXIST, TELPHER_ERR_EXISTS},
    {EBUSY, TELPHER_ERR_BUSY},
    {EADDRINUSE, TELPHER_ERR_BUSY},
    {EACCES, TELPHER_ERR_PERMISSION},
    {EPERM, TELPHER_ERR_PERMISSION},
    {EROFS, TELPHER_ERR_PERMISSION},
};

telpher_status
tp_error_from_errno(int saved_errno)
{
    if (saved_errno == 0) {
        return TELPHER_OK;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(errno_map); i++) {
        if (errno_map[i].system == saved_errno) {
            return errno_map[i].status;
        }
    }
    return TELPHER_ERR_IO;
}

const char *
tp_error_text(const struct tp_error *err)
{
    return err->text[0] != '\0' ? err->text : telpher_status_text(err->code);
}
