/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private declarations of the test link: a wire between two network namespaces, made of
 * two TUN devices and this program between them.
 *
 *   namespace A                    this program                   namespace B
 *   10.77.0.1 [tun] ── fd ──> queue, rate, loss, delay ──> fd ── [tun] 10.77.0.2
 *                   <── fd ── queue, rate, loss, delay <── fd ──
 *
 * One thread, one ppoll loop. All times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef LINK_INT_H
#define LINK_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { LINK_EXIT_USAGE = 64, LINK_EXIT_FAILED = 70, LINK_EXIT_SKIP = 77 };
enum { LINK_A = 0, LINK_B = 1, LINK_SIDES = 2 };
enum { LINK_A2B = 0, LINK_B2A = 1 }; /* a direction carries the number of its sender */
enum { LINK_MTU_MAX = 65535 };

/** Faults of the link, at a byte of the stream or by command. */
enum link_event {
    LINK_EV_NONE,
    LINK_EV_CUT, /* drops everything, both devices go down */
    LINK_EV_RESET, /* every TCP flow is reset both ways; new flows pass */
    LINK_EV_CLOSE, /* every TCP flow ends both ways by FIN; new flows pass */
    LINK_EV_MOVE, /* side A has another address; flows of the former one fall silent */
    LINK_EV_DAMAGE, /* one bit of the next byte changes; all goes on */
    LINK_EV_BLACKHOLE /* drops everything in silence, for a while or for ever */
};

/** An event armed at a byte: the first @c at_bytes pass, no byte behind them does. */
struct link_trigger {
    enum link_event event;
    uint64_t at_bytes;
};

struct link_opts {
    int64_t delay_ns[LINK_SIDES]; /* per direction */
    uint64_t rate_bps; /* bits a second; 0 = no limit */
    double loss; /* 0 .. 1 */
    uint64_t seed;
    uint64_t queue_bytes; /* bytes waiting for the wire before the tail is dropped */
    int64_t spin_ns; /* busy wait this long before a packet is due */
    unsigned mtu;
    struct link_trigger trigger[LINK_SIDES];
    int64_t blackhole_ns; /* 0 = for ever */
    int64_t grace_ns; /* between SIGTERM and SIGKILL for side B */
    unsigned wait_port; /* side A starts when B listens here; 0 = at once */
    int64_t wait_ns; /* how long it may take */
    bool stats;
    const char *control; /* path of the control socket or NULL */
    const char *log; /* file with a line for each TCP segment, or NULL */
    const char *cmd[LINK_SIDES];
};

struct link_stats {
    uint64_t packets, bytes; /* delivered, IP bytes */
    uint64_t lost; /* by --loss */
    uint64_t overflow; /* queue was full */
    uint64_t dropped; /* by an event, or not IPv4 */
    uint64_t payload_bytes; /* TCP payload admitted, retransmissions not counted */
    int64_t late_max_ns; /* worst delivery after its due time */
    int64_t late_sum_ns;
};

struct link_packet {
    struct link_packet *next;
    int64_t sent_ns, due_ns;
    bool fires; /* the trigger's event happens when this one is delivered */
    size_t len;
    uint8_t data[];
};

/** One direction of the link. */
struct link_dir {
    int64_t delay_ns;
    int64_t wire_free_ns; /* when the last admitted packet has left the sender */
    uint64_t rng;
    struct link_packet *head, **tail;
    struct link_trigger trigger;
    bool stopped; /* trigger byte reached: nothing more enters */
    bool hole; /* blackholed or cut */
    int64_t hole_end_ns; /* 0 = for ever */
    struct link_stats stats;
};

/** The two devices; index = side. */
struct link_net {
    int tun_fd[LINK_SIDES];
    int ns_fd[LINK_SIDES];
    int ctl_fd[LINK_SIDES]; /* a socket of that namespace, for interface ioctls */
};

struct link_flows;

struct link_wire {
    struct link_net *net;
    const struct link_opts *opts;
    uint64_t rate_bps;
    double loss;
    bool down; /* devices are down (cut) */
    struct link_dir dir[LINK_SIDES];
    struct link_flows *flows;
    FILE *log; /* or NULL */
};

int64_t link_now_ns(void);

/* link_opts.c */

/** Reads "150us", "3s", "1ms", "20ns". @return false if @p text is not a duration. */
bool link_parse_duration(const char *text, int64_t *ret_ns);
/** Reads "1Gbit", "100Mbit", "8kbit", "none". */
bool link_parse_rate(const char *text, uint64_t *ret_bps);
/** Reads "0.1%" or "0.001". */
bool link_parse_loss(const char *text, double *ret_loss);
/** Reads "a2b" or "b2a". */
bool link_parse_dir(const char *text, int *ret_dir);
/** Fills @p opts from the command line. @return 0, or the exit status to end with. */
int link_opts_parse(int argc, char **argv, struct link_opts *opts);
void link_usage(FILE *out);

/* netns.c */

/**
 * Makes both namespaces and their devices. The caller stays in the second one.
 *
 * @return 0; LINK_EXIT_SKIP when the kernel or its settings forbid it; LINK_EXIT_FAILED.
 *         The reason is on stderr.
 */
int link_net_create(struct link_net *net, unsigned mtu);
/** Gives side A the other one of its two addresses. */
void link_net_move(struct link_net *net);
/** Takes both devices up or down. */
void link_net_set_up(struct link_net *net, bool up);
/** @return true if a process of the namespace of @p pid listens on TCP @p port. */
bool link_net_listens(pid_t pid, unsigned port);

/* tcp.c */

struct link_flows *link_flows_create(void);
void link_flows_destroy(struct link_flows *flows);
/** @return TCP payload bytes of @p pkt not seen before on its flow; notes them as seen. */
uint64_t link_flows_count(struct link_flows *flows, int dir, const uint8_t *pkt,
                          size_t len);
/** As link_flows_count(), but notes nothing. */
uint64_t link_flows_peek(struct link_flows *flows, int dir, const uint8_t *pkt,
                         size_t len);
/**
 * Shortens the TCP payload so that its last @p cut_bytes are gone, clears FIN and fixes
 * lengths and checksums. @return the new packet length.
 */
size_t link_tcp_trim(uint8_t *pkt, size_t len, size_t cut_bytes);
/**
 * Writes a line about a TCP segment: when it was sent and when it was delivered [ns of
 * CLOCK_MONOTONIC], its direction, the port at A, the port at B, bytes of payload, flags
 * (hexadecimal), sequence number, acknowledged number. Other packets have no line.
 */
void link_tcp_log(FILE *log, int dir, const struct link_packet *p, int64_t now);
/** Flips a bit of the payload, @p from_end bytes before its end, and fixes the checksum. */
void link_tcp_damage(uint8_t *pkt, size_t len, size_t from_end);
/** Marks all flows dead and resets both ends through the devices of @p net; or closes
 *  them by FIN. */
void link_flows_end_all(struct link_flows *flows, const struct link_net *net,
                        bool by_fin);
/**
 * To be asked for each packet: a packet of a dead flow is answered with a reset.
 * @return true if the packet belongs to a dead flow and must be dropped.
 */
bool link_flows_refuse(struct link_flows *flows, int dir, const uint8_t *pkt,
                       size_t len, const struct link_net *net);

/* wire.c */

void link_wire_init(struct link_wire *w, struct link_net *net,
                    const struct link_opts *opts, struct link_flows *flows);
void link_wire_fini(struct link_wire *w);
/** Reads what side @p side has sent and queues it. */
void link_wire_receive(struct link_wire *w, int side);
/** Delivers what is due. @return when the next packet or timer is due; INT64_MAX: none. */
int64_t link_wire_deliver(struct link_wire *w, int64_t now);
/** @return true if at most one packet is on its way: then waiting busily costs little. */
bool link_wire_is_sparse(const struct link_wire *w);
/** Makes @p event happen now; @p for_ns is for a black hole, 0 = for ever. */
void link_wire_event(struct link_wire *w, enum link_event event, int64_t for_ns);
/** Black-holes one direction, LINK_A2B or LINK_B2A. */
void link_wire_hole(struct link_wire *w, int dir, int64_t for_ns);
/** Ends every cut and black hole; flows that were reset stay dead. */
void link_wire_heal(struct link_wire *w);
/** Writes the statistics as text of at most @p size bytes, NUL included. */
void link_wire_stats(const struct link_wire *w, char *text, size_t size);

/* control.c */

/** Binds the datagram socket at @p path. @return fd or -1 (said on stderr). */
int link_control_open(const char *path);
/** Serves the commands that wait on @p fd. */
void link_control_serve(int fd, struct link_wire *w);
/** `link ctl SOCKET WORD…`: sends one command, prints the answer. @return exit status. */
int link_control_send(int argc, char **argv);

#endif
