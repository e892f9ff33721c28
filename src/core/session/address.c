/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the scheme and the host of a server address: see address.h. */
#include "core/session/address.h"

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
