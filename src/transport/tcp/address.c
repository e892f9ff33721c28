/* SPDX-License-Identifier: Apache-2.0 */
/* Parses addresses: "host", "host:port", "[v6]:port", "unix:/path", "/path". Core
 * has handled a prefix "tls://" or "tcp://" before. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/session/client.h"
#include "transport/tcp/tcp_int.h"
#include "waist/address.h"

static telpher_status
parse_path(const char *path, struct tp_tcp_address *a, struct tp_error *err)
{
    size_t len = strlen(path);

    if (path[0] != '/') {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "address unix:%s: the path must begin with /", path);
    }
    if (len >= sizeof(a->path)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "path of a Unix socket is %zu characters long, at most %zu "
                            "are possible",
                            len, sizeof(a->path) - 1);
    }
    a->is_unix = true;
    memcpy(a->path, path, len + 1);
    return TELPHER_OK;
}

static telpher_status
parse_port(const char *text, const char *port, struct tp_tcp_address *a,
           struct tp_error *err)
{
    unsigned value = 0;
    size_t len = strlen(port);

    for (size_t i = 0; i < len && len <= 5; i++) {
        if (!isdigit((unsigned char)port[i])) {
            len = 0;
        }
        value = value * 10 + (unsigned)(port[i] - '0');
    }
    if (len == 0 || len > 5 || value > 65535) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "address %s: the port must be a number up to 65535", text);
    }
    snprintf(a->port, sizeof(a->port), "%u", value);
    return TELPHER_OK;
}

static bool
is_host(const char *host, size_t len, bool is_v6)
{
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)host[i]) && host[i] != '.' && host[i] != '-' &&
            host[i] != '_' && (!is_v6 || (host[i] != ':' && host[i] != '%'))) {
            return false;
        }
    }
    return len != 0;
}

static telpher_status
set_host(const char *text, const char *host, size_t len, bool is_v6,
         struct tp_tcp_address *a, struct tp_error *err)
{
    if (!is_host(host, len, is_v6) || len >= sizeof(a->host)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "address %s: not a host name, number, or path", text);
    }
    memcpy(a->host, host, len);
    return TELPHER_OK;
}

/* "[v6]" or "[v6]:port"; @p text begins with the bracket. */
static telpher_status
parse_brackets(const char *text, struct tp_tcp_address *a, struct tp_error *err)
{
    const char *end = strchr(text, ']');
    telpher_status status;

    if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "address %s: write [v6-address] or [v6-address]:port",
                            text);
    }
    status = set_host(text, text + 1, (size_t)(end - text - 1), true, a, err);
    if (status == TELPHER_OK && end[1] == ':') {
        status = parse_port(text, end + 2, a, err);
    }
    return status;
}

static telpher_status
parse_host(const char *text, struct tp_tcp_address *a, struct tp_error *err)
{
    const char *colon = strchr(text, ':');
    telpher_status status;

    if (colon == NULL) {
        return set_host(text, text, strlen(text), false, a, err);
    }
    if (strchr(colon + 1, ':') != NULL) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "address %s: a v6 address goes into brackets, as in [::1]:%d", text,
            TP_CLIENT_PORT);
    }
    status = set_host(text, text, (size_t)(colon - text), false, a, err);
    return status == TELPHER_OK ? parse_port(text, colon + 1, a, err) : status;
}

telpher_status
tp_tcp_parse_address(const char *text, struct tp_tcp_address *ret_address,
                     struct tp_error *err)
{
    struct tp_tcp_address a = {0};
    enum tp_address_scheme scheme;
    telpher_status status;

    text = tp_address_scheme(text, &scheme);
    snprintf(a.port, sizeof(a.port), "%d", TP_CLIENT_PORT);
    if (strncmp(text, "unix:", 5) == 0) {
        status = parse_path(text + 5, &a, err);
    } else if (text[0] == '/') {
        status = parse_path(text, &a, err);
    } else if (text[0] == '[') {
        status = parse_brackets(text, &a, err);
    } else {
        status = parse_host(text, &a, err);
    }
    if (status == TELPHER_OK && a.is_unix && scheme != TP_ADDRESS_ANY) {
        status =
            tp_error_set(err, TELPHER_ERR_INVALID,
                         "address %s: tls:// and tcp:// are for hosts; a Unix socket "
                         "needs neither",
                         text);
    }
    if (status == TELPHER_OK) {
        *ret_address = a;
    }
    return status;
}

void
tp_tcp_unix_address(const struct tp_tcp_address *address, struct sockaddr_un *ret_sun)
{
    *ret_sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    _Static_assert(sizeof(ret_sun->sun_path) >= sizeof(address->path), "path fits");
    memcpy(ret_sun->sun_path, address->path, sizeof(address->path));
}
