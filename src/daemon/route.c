/* SPDX-License-Identifier: Apache-2.0 */
/* Decides to which servers telpherd relays connections: names and networks. */
#include "daemon/route.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "transport/tcp/tcp.h"

/** A parsed entry. */
struct entry {
    struct tp_tcp_address address; /* of a name, or the port of a network */
    int family; /* of a network; AF_UNSPEC = a name */
    unsigned bits;
    uint8_t net[sizeof(struct in6_addr)];
};

/* Parses the digits after the slash. @return false: not a number of bits of @p family */
static bool
parse_bits(const char *text, int family, unsigned *ret_bits)
{
    unsigned long most = family == AF_INET ? 32 : 128, bits;
    char *end;

    bits = strtoul(text, &end, 10);
    *ret_bits = (unsigned)bits;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && bits <= most;
}

/* Parses "net/bits", of which @p net is the copy that is cut here. */
static bool
parse_network(char *net, struct entry *e)
{
    char *slash = strchr(net, '/');

    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    e->family = strchr(net, ':') != NULL ? AF_INET6 : AF_INET;
    return inet_pton(e->family, net, e->net) == 1 &&
           parse_bits(slash + 1, e->family, &e->bits);
}

/* Separates "net/bits:port" or "[net/bits]:port": gives the network, and the port as the
 * address of a host for tp_tcp_parse_address(). */
static bool
split_network(const char *text, char net[64], char host[64])
{
    bool brackets = text[0] == '[';
    size_t len;

    text += brackets;
    len = strcspn(text, brackets ? "]" : ":");
    if (len >= 64 || (brackets && text[len] != ']')) {
        return false;
    }
    memcpy(net, text, len);
    net[len] = '\0';
    text += len + brackets;
    return (text[0] == '\0' || text[0] == ':') && snprintf(host, 64, "0%s", text) < 64;
}

static telpher_status
parse_entry(const char *text, struct entry *ret_entry, struct tp_error *err)
{
    struct entry e = {.family = AF_UNSPEC};
    char net[64], host[64];
    telpher_status status = TELPHER_ERR_INVALID;

    if (strchr(text, '/') == NULL) {
        status = tp_tcp_parse_address(text, &e.address, NULL);
    } else if (split_network(text, net, host) && parse_network(net, &e)) {
        status = tp_tcp_parse_address(host, &e.address, NULL);
    }
    if (status != TELPHER_OK) {
        return tp_error_set(err, status,
                            "--relay-to %s: write NAME[:PORT], 10.1.0.0/16[:PORT] or "
                            "[fd00::/8][:PORT]",
                            text);
    }
    *ret_entry = e;
    return TELPHER_OK;
}

telpher_status
tp_route_check(const char *entry, struct tp_error *err)
{
    struct entry e;

    return parse_entry(entry, &e, err);
}

/* True if the first bits of both are equal. */
static bool
equals_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

static bool
contains(const struct entry *e, const struct sockaddr *sa)
{
    if (sa->sa_family != e->family) {
        return false;
    }
    return equals_bits(
        e->net,
        e->family == AF_INET
            ? (const void *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr
            : (const void *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
        e->bits);
}

/* Writes a resolved address as numbers. */
static bool
write_numbers(const struct addrinfo *info, char ret_address[TP_ROUTE_ADDRESS_BYTES])
{
    char host[128], port[8];
    bool v6 = info->ai_family == AF_INET6;

    return getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof(host), port,
                       sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
           snprintf(ret_address, TP_ROUTE_ADDRESS_BYTES, v6 ? "[%s]:%s" : "%s:%s", host,
                    port) < TP_ROUTE_ADDRESS_BYTES;
}

/* True if a network of the entries has this address and port. */
static bool
is_in_network(const struct addrinfo *info, const char *port, const char *const *entries,
              size_t count)
{
    struct entry e;

    for (size_t i = 0; i < count; i++) {
        if (parse_entry(entries[i], &e, NULL) == TELPHER_OK &&
            strcmp(e.address.port, port) == 0 && contains(&e, info->ai_addr)) {
            return true;
        }
    }
    return false;
}

/* True if an entry is this very name and port. */
static bool
is_named(const struct tp_tcp_address *a, const char *const *entries, size_t count)
{
    struct entry e;

    for (size_t i = 0; i < count; i++) {
        if (parse_entry(entries[i], &e, NULL) == TELPHER_OK && e.family == AF_UNSPEC &&
            !e.address.is_unix && strcmp(e.address.port, a->port) == 0 &&
            strcasecmp(e.address.host, a->host) == 0) {
            return true;
        }
    }
    return false;
}

telpher_status
tp_route_choose(const char *address, const char *const *entries, size_t count,
                char ret_address[TP_ROUTE_ADDRESS_BYTES], struct tp_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    struct tp_tcp_address a;
    telpher_status status = tp_tcp_parse_address(address, &a, err);

    if (status != TELPHER_OK) {
        return status;
    }
    if (!a.is_unix && is_named(&a, entries, count)) {
        (void)snprintf(ret_address, TP_ROUTE_ADDRESS_BYTES, "%s", address);
        return TELPHER_OK;
    }
    if (a.is_unix || getaddrinfo(a.host, a.port, &hints, &list) != 0) {
        return tp_error_set(err, TELPHER_ERR_UNREACHABLE, "%.40s does not resolve",
                            a.is_unix ? a.path : a.host);
    }
    status = tp_error_set(err, TELPHER_ERR_PERMISSION,
                          "telpherd --relay-to does not allow %.24s", a.host);
    for (struct addrinfo *i = list; i != NULL && status != TELPHER_OK; i = i->ai_next) {
        if (is_in_network(i, a.port, entries, count) && write_numbers(i, ret_address)) {
            status = TELPHER_OK;
        }
    }
    freeaddrinfo(list);
    return status;
}
