/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP in the test link: which bytes of which flow have passed, how to shorten
 * a segment, and how to reset both ends of a flow as a firewall would.
 */
#include "link_int.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IP_MIN = 20, TCP_MIN = 20, PROTO_TCP = 6, BUCKETS = 1024 };
enum { WINDOW = 1000 };
enum { FLAG_FIN = 0x01, FLAG_SYN = 0x02, FLAG_RST = 0x04, FLAG_ACK = 0x10 };

/** One TCP segment, as found in a packet. */
struct segment {
    uint32_t addr[2]; /* source, destination; network order, as they stand */
    uint16_t port[2];
    uint32_t seq, ack;
    uint8_t flags;
    size_t ip_len, tcp_len, payload;
};

/** One flow; index = side of the link. */
struct flow {
    struct flow *next;
    uint32_t addr[LINK_SIDES];
    uint16_t port[LINK_SIDES];
    bool sent[LINK_SIDES]; /* has this side sent anything */
    uint32_t high[LINK_SIDES]; /* first sequence number this side has not sent yet */
    bool dead; /* was reset; a new SYN brings it back */
    bool by_fin; /* was closed instead */
};

struct link_flows {
    struct flow *bucket[BUCKETS];
};

static uint16_t
get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t
get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void
put16(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static void
put32(uint8_t *p, uint32_t value)
{
    put16(p, value >> 16);
    put16(p + 2, value);
}

/* Internet checksum (RFC 1071) of bytes, on top of @p sum. */
static uint32_t
sum_bytes(uint32_t sum, const uint8_t *p, size_t len)
{
    for (; len >= 2; p += 2, len -= 2) {
        sum += get16(p);
    }
    if (len == 1) {
        sum += (uint32_t)p[0] << 8;
    }
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* Sets both lengths' checksums of a TCP packet whose headers are otherwise final. */
static void
fix_checksums(uint8_t *pkt, size_t ip_len, size_t len)
{
    uint8_t *tcp = pkt + ip_len;
    uint32_t sum;

    put16(pkt + 2, (uint32_t)len);
    put16(pkt + 10, 0);
    put16(pkt + 10, ~sum_bytes(0, pkt, ip_len));
    put16(tcp + 16, 0);
    sum = sum_bytes(PROTO_TCP + (uint32_t)(len - ip_len), pkt + 12, 8);
    put16(tcp + 16, ~sum_bytes(sum, tcp, len - ip_len));
}

/* @return false if @p pkt is not a whole, unfragmented TCP segment. */
static bool
parse(const uint8_t *pkt, size_t len, struct segment *s)
{
    const uint8_t *tcp;

    if (len < IP_MIN + TCP_MIN || pkt[0] >> 4 != 4 || pkt[9] != PROTO_TCP ||
        (get16(pkt + 6) & 0x3fff) != 0 || get16(pkt + 2) != len) {
        return false;
    }
    s->ip_len = (size_t)(pkt[0] & 15) * 4;
    if (s->ip_len < IP_MIN || s->ip_len + TCP_MIN > len) {
        return false;
    }
    tcp = pkt + s->ip_len;
    s->tcp_len = (size_t)(tcp[12] >> 4) * 4;
    if (s->tcp_len < TCP_MIN || s->ip_len + s->tcp_len > len) {
        return false;
    }
    memcpy(s->addr, pkt + 12, 8);
    s->port[0] = get16(tcp);
    s->port[1] = get16(tcp + 2);
    s->seq = get32(tcp + 4);
    s->ack = get32(tcp + 8);
    s->flags = tcp[13];
    s->payload = len - s->ip_len - s->tcp_len;
    return true;
}

struct link_flows *
link_flows_create(void)
{
    return calloc(1, sizeof(struct link_flows));
}

void
link_flows_destroy(struct link_flows *flows)
{
    for (size_t i = 0; flows != NULL && i < BUCKETS; i++) {
        while (flows->bucket[i] != NULL) {
            struct flow *f = flows->bucket[i];
            flows->bucket[i] = f->next;
            free(f);
        }
    }
    free(flows);
}

/* Finds the flow of a segment that travels in @p dir, or makes it (NULL: no memory). */
static struct flow *
find_flow(struct link_flows *flows, int dir, const struct segment *s)
{
    int to = !dir;
    unsigned hash = s->port[0] ^ s->port[1]; /* the same from both ends */
    struct flow **head = &flows->bucket[hash % BUCKETS];
    struct flow *f;

    for (f = *head; f != NULL; f = f->next) {
        if (f->addr[dir] == s->addr[0] && f->addr[to] == s->addr[1] &&
            f->port[dir] == s->port[0] && f->port[to] == s->port[1]) {
            return f;
        }
    }
    f = calloc(1, sizeof(*f));
    if (f != NULL) {
        f->addr[dir] = s->addr[0];
        f->addr[to] = s->addr[1];
        f->port[dir] = s->port[0];
        f->port[to] = s->port[1];
        f->next = *head;
        *head = f;
    }
    return f;
}

static void
revive(struct flow *f)
{
    f->dead = false;
    f->sent[LINK_A] = f->sent[LINK_B] = false;
}

/* Sequence number after the segment; SYN and FIN take one each. */
static uint32_t
segment_end(const struct segment *s)
{
    return s->seq + (uint32_t)s->payload + ((s->flags & FLAG_SYN) != 0) +
           ((s->flags & FLAG_FIN) != 0);
}

static uint64_t
count(struct link_flows *flows, int dir, const uint8_t *pkt, size_t len, bool note)
{
    struct segment s;
    struct flow *f;
    uint32_t data_end;
    int32_t fresh;

    if (!parse(pkt, len, &s) || (s.flags & FLAG_RST) != 0 ||
        (f = find_flow(flows, dir, &s)) == NULL) {
        return 0;
    }
    if (!f->sent[dir] || (s.flags & FLAG_SYN) != 0) {
        f->sent[dir] = true;
        f->high[dir] = s.seq + ((s.flags & FLAG_SYN) != 0);
    }
    data_end = s.seq + ((s.flags & FLAG_SYN) != 0) + (uint32_t)s.payload;
    fresh = (int32_t)(data_end - f->high[dir]);
    if (note && (int32_t)(segment_end(&s) - f->high[dir]) > 0) {
        f->high[dir] = segment_end(&s);
    }
    return fresh > 0 ? (uint64_t)fresh : 0;
}

uint64_t
link_flows_count(struct link_flows *flows, int dir, const uint8_t *pkt, size_t len)
{
    return count(flows, dir, pkt, len, true);
}

uint64_t
link_flows_peek(struct link_flows *flows, int dir, const uint8_t *pkt, size_t len)
{
    return count(flows, dir, pkt, len, false);
}

void
link_tcp_log(FILE *log, int dir, const struct link_packet *p, int64_t now)
{
    struct segment s;

    if (parse(p->data, p->len, &s)) {
        fprintf(log,
                "%" PRId64 " %" PRId64 " %s %u %u %zu %02x %" PRIu32 " %" PRIu32 "\n",
                p->sent_ns, now, dir == LINK_A2B ? "a2b" : "b2a", s.port[dir],
                s.port[!dir], s.payload, s.flags, s.seq, s.ack);
    }
}

void
link_tcp_damage(uint8_t *pkt, size_t len, size_t from_end)
{
    pkt[len - from_end] ^= 0x04;
    fix_checksums(pkt, (size_t)(pkt[0] & 15) * 4, len);
}

size_t
link_tcp_trim(uint8_t *pkt, size_t len, size_t cut_bytes)
{
    struct segment s;

    if (!parse(pkt, len, &s) || cut_bytes > s.payload) {
        return len;
    }
    pkt[s.ip_len + 13] &= (uint8_t)~FLAG_FIN;
    len -= cut_bytes;
    fix_checksums(pkt, s.ip_len, len);
    return len;
}

/* Sends a reset or a FIN to one side, in the name of the other. */
static void
send_end(const struct link_net *net, const struct flow *f, int to, uint32_t seq,
         uint32_t ack, uint8_t flag)
{
    uint8_t pkt[IP_MIN + TCP_MIN] = {0x45};
    uint8_t *tcp = pkt + IP_MIN;
    int from = !to;
    ssize_t n;

    pkt[6] = 0x40; /* don't fragment */
    pkt[8] = 64;
    pkt[9] = PROTO_TCP;
    memcpy(pkt + 12, &f->addr[from], 4);
    memcpy(pkt + 16, &f->addr[to], 4);
    put16(tcp, f->port[from]);
    put16(tcp + 2, f->port[to]);
    put32(tcp + 4, seq);
    put32(tcp + 8, ack);
    tcp[12] = (TCP_MIN / 4) << 4;
    tcp[13] = flag | FLAG_ACK;
    put16(tcp + 14, WINDOW);
    fix_checksums(pkt, IP_MIN, sizeof(pkt));
    n = write(net->tun_fd[to], pkt, sizeof(pkt));
    (void)n; /* lost like any packet; the next one of the flow is refused again */
}

void
link_flows_end_all(struct link_flows *flows, const struct link_net *net, bool by_fin)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct flow *f = flows->bucket[i]; f != NULL; f = f->next) {
            if (f->dead) {
                continue;
            }
            f->dead = true;
            f->by_fin = by_fin;
            for (int to = 0; to < LINK_SIDES; to++) {
                /* Exact if all that was sent has arrived. If not, the end answers with
                   what it expects, and link_flows_refuse() resets it with that. */
                send_end(net, f, to, f->high[!to], f->high[to],
                         by_fin ? FLAG_FIN : FLAG_RST);
            }
        }
    }
}

bool
link_flows_refuse(struct link_flows *flows, int dir, const uint8_t *pkt, size_t len,
                  const struct link_net *net)
{
    struct segment s;
    struct flow *f;

    if (!parse(pkt, len, &s) || (f = find_flow(flows, dir, &s)) == NULL || !f->dead) {
        return false;
    }
    if ((s.flags & (FLAG_SYN | FLAG_ACK)) == FLAG_SYN) {
        revive(f);
        return false;
    }
    if ((s.flags & FLAG_RST) == 0) {
        send_end(net, f, dir, s.ack, segment_end(&s),
                 f->by_fin && (s.flags & FLAG_FIN) == 0 && s.ack == f->high[!dir]
                     ? FLAG_FIN
                     : FLAG_RST);
    }
    return true;
}
