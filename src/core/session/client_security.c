/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether and how a connection is secured. Client and server have the same rule:
 * TLS for every peer on another machine, unless it was disabled explicitly.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config/config.h"
#include "base/config/settings.h"
#include "base/trace/log.h"
#include "core/session/client_int.h"

static bool
is_loopback_v6(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) ||
           (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == IN_LOOPBACKNET);
}

enum tp_client_where
tp_client_where(const struct tp_client_params *params, struct tp_conn *conn)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } name = {0};
    socklen_t len = sizeof(name);
    int fd = conn->ops->fd(conn);
    bool loopback = false;

    if (params->routed) {
        return TP_CLIENT_FAR;
    }
    if (fd < 0) {
        return TP_CLIENT_LOCAL; /* without a socket, the peer is in this process */
    }
    if (getpeername(fd, &name.sa, &len) != 0) {
        return TP_CLIENT_FAR;
    }
    if (name.sa.sa_family == AF_UNIX) {
        return TP_CLIENT_LOCAL;
    }
    if (name.sa.sa_family == AF_INET) {
        loopback = ntohl(name.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    } else if (name.sa.sa_family == AF_INET6) {
        loopback = is_loopback_v6(&name.v6.sin6_addr);
    }
    return loopback ? TP_CLIENT_LOOPBACK : TP_CLIENT_FAR;
}

/* A yes-or-no setting of the environment; text that is neither counts as unset. */
static bool
setting_is(const char *name, bool unset)
{
    const char *text = tp_settings_get(name);
    bool value = unset;

    if (text != NULL) {
        (void)tp_config_bool.parse(NULL, text, &value, NULL);
    }
    return value;
}

bool
tp_client_default_key(char *dst, size_t cap)
{
    const char *home = secure_getenv("HOME");

    if (home != NULL && home[0] != '\0' &&
        snprintf(dst, cap, "%s/.telpher/key", home) < (int)cap &&
        access(dst, F_OK) == 0) {
        return true;
    }
    return snprintf(dst, cap, "%s", TP_CLIENT_SYSTEM_KEY) < (int)cap &&
           access(dst, R_OK) == 0;
}

struct selection {
    struct tp_client_security security;
    char key_path[1024]; /* of the default key */
};

/* Selects the given files, else those of the environment, else the default key. */
static void
select_files(const struct tp_client_params *params, struct selection *ret)
{
    struct tp_client_security *s = &ret->security;

    *s =
        params->security != NULL
            ? *params->security
            : (struct tp_client_security){.files = {.ca = tp_settings_get("TLS_CA"),
                                                    .cert = tp_settings_get("TLS_CERT"),
                                                    .key = tp_settings_get("TLS_KEY"),
                                                    .psk = tp_settings_get("TLS_PSK")},
                                          .insecure = setting_is("INSECURE", false),
                                          .no_checksum = !setting_is("CHECKSUM", true)};
    if ((s->files.psk == NULL || s->files.psk[0] == '\0') &&
        (s->files.ca == NULL || s->files.ca[0] == '\0') &&
        tp_client_default_key(ret->key_path, sizeof(ret->key_path))) {
        s->files.psk = ret->key_path;
    }
}

/* Warns about an insecure connection, once per process. */
static void
warn_insecure(const char *address)
{
    static _Atomic bool warned;

    if (!atomic_exchange(&warned, true)) {
        tp_warn("core",
                "INSECURE: the connection to %s is not encrypted, and it is not "
                "verified who "
                "answers there",
                address);
    }
}

bool
tp_client_wants_tls(const struct tp_client_params *params, struct tp_conn *conn)
{
    struct selection selection;
    enum tp_address_scheme scheme;
    enum tp_client_where where = tp_client_where(params, conn);

    (void)tp_address_scheme(params->address, &scheme);
    if (where == TP_CLIENT_LOCAL || scheme == TP_ADDRESS_TLS) {
        return scheme == TP_ADDRESS_TLS;
    }
    if (where == TP_CLIENT_LOOPBACK) {
        return false;
    }
    select_files(params, &selection);
    if (scheme == TP_ADDRESS_ANY && !selection.security.insecure) {
        return true;
    }
    warn_insecure(params->address);
    return false;
}

bool
tp_client_is_insecure(const struct tp_client_params *params)
{
    struct selection selection;

    select_files(params, &selection);
    return selection.security.insecure;
}

uint64_t
tp_client_checksum_feature(const struct tp_client_params *params, struct tp_conn *conn)
{
    struct selection selection;

    select_files(params, &selection);
    return tp_client_where(params, conn) == TP_CLIENT_FAR &&
                   !selection.security.no_checksum && tp_builtin_secure != NULL &&
                   tp_builtin_secure->add_checksums != NULL
               ? TP_WIRE_FEATURE_CHECKSUM
               : 0;
}

telpher_status
tp_client_secure(const struct tp_client_params *params, struct tp_conn **conn,
                 uint64_t deadline_ns, uint8_t ret_head[5], struct tp_error *err)
{
    char host[256];
    uint8_t session_key[TP_CONN_KEY_BYTES];
    struct selection selection;
    struct tp_secure_request request = {.files = &selection.security.files,
                                        .host = host};
    telpher_status status;

    ret_head[0] = 0;
    if (tp_builtin_secure == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "this program was built without TLS");
    }
    select_files(params, &selection);
    tp_address_host(params->address, host, sizeof(host));
    if (params->parent != NULL && tp_stream_session_key(params->parent, session_key)) {
        request.session_key = session_key;
    } else if (params->peer_key != NULL) {
        request.session_key = params->peer_key;
    }
    status =
        tp_builtin_secure->connect(*conn, &request, deadline_ns, ret_head, conn, err);
    explicit_bzero(session_key, sizeof(session_key));
    return status;
}
