/* SPDX-License-Identifier: Apache-2.0 */
/* Errors with words, and the one mapping from errno. */
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
    return tp_error_set(err, code, "%s: %s", err->text,
                        strerror_r(saved_errno, system_text, sizeof(system_text)));
}

telpher_status
tp_error_prefix(struct tp_error *err, const char *fmt, ...)
{
    char rest[TP_ERROR_TEXT_SIZE];
    va_list args;

    if (err == NULL) {
        return TELPHER_OK;
    }
    memcpy(rest, err->text, sizeof(rest));
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    return tp_error_set(err, err->code, "%s: %s", err->text, rest);
}

telpher_status
tp_error_from_errno(int saved_errno)
{
    switch (saved_errno) {
    case 0:
        return TELPHER_OK;
    case EAGAIN:
    case EINTR:
        return TELPHER_ERR_AGAIN;
    case EINPROGRESS:
    case EALREADY:
        return TELPHER_IN_PROGRESS;
    case ETIMEDOUT:
        return TELPHER_ERR_TIMEOUT;
    case ECANCELED:
        return TELPHER_ERR_CANCELED;
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case ESHUTDOWN:
        return TELPHER_ERR_PEER_LOST;
    case ECONNREFUSED:
        return TELPHER_ERR_REFUSED;
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
        return TELPHER_ERR_UNREACHABLE;
    case ENOMEM:
    case ENOBUFS:
        return TELPHER_ERR_NO_MEMORY;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TELPHER_ERR_LIMIT;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
        return TELPHER_ERR_INVALID;
    case ERANGE:
    case EOVERFLOW:
        return TELPHER_ERR_RANGE;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return TELPHER_ERR_UNSUPPORTED;
    case ENOENT:
    case ESRCH:
    case ENXIO:
        return TELPHER_ERR_NOT_FOUND;
    case EEXIST:
        return TELPHER_ERR_EXISTS;
    case EBUSY:
    case EADDRINUSE:
        return TELPHER_ERR_BUSY;
    case EACCES:
    case EPERM:
    case EROFS:
        return TELPHER_ERR_PERMISSION;
    default:
        return TELPHER_ERR_IO;
    }
}

const char *
tp_error_text(const struct tp_error *err)
{
    return err->text[0] != '\0' ? err->text : telpher_status_text(err->code);
}
