/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the scheme and the host of a server address: see address.h. */
#include "waist/address.h"

#include <string.h>

const char *
tp_address_scheme(const char *address, enum tp_address_scheme *ret_scheme)
{
    *ret_scheme = TP_ADDRESS_ANY;
    if (strncmp(address, "tls://", 6) == 0) {
        *ret_scheme = TP_ADDRESS_TLS;
        return address + 6;
    }
    if (strncmp(address, "tcp://", 6) == 0) {
        *ret_scheme = TP_ADDRESS_TCP;
        return address + 6;
    }
    return address;
}

const char *
tp_address_route(const char *address, char ret_gateway[TP_ADDRESS_HOP_BYTES])
{
    enum tp_address_scheme scheme;
    const char *host = tp_address_scheme(address, &scheme);
    const char *slash = strchr(host, '/');
    size_t len = slash != NULL ? (size_t)(slash - address) : 0;

    if (slash == NULL || slash == host || strncmp(host, "unix:", 5) == 0 ||
        len >= TP_ADDRESS_HOP_BYTES) {
        return NULL;
    }
    memcpy(ret_gateway, address, len);
    ret_gateway[len] = '\0';
    return slash + 1;
}

const char *
tp_address_seen_from(const char *from, const char *address)
{
    char mine[TP_ADDRESS_HOP_BYTES], theirs[TP_ADDRESS_HOP_BYTES];
    const char *behind;

    while (from != NULL && (behind = tp_address_route(address, theirs)) != NULL) {
        const char *rest = tp_address_route(from, mine);

        if (strcmp(rest != NULL ? mine : from, theirs) != 0) {
            break;
        }
        from = rest;
        address = behind;
    }
    return address;
}

void
tp_address_host(const char *address, char *dst, size_t cap)
{
    enum tp_address_scheme scheme;
    const char *host = tp_address_scheme(address, &scheme);
    size_t len;

    if (host[0] == '[') {
        host++;
        len = strcspn(host, "]");
    } else {
        len = strcspn(host, ":");
    }
    if (len >= cap) {
        len = 0;
    }
    memcpy(dst, host, len);
    dst[len] = '\0';
}
