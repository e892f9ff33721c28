/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the machine at the other end of a TCP connection answers. A process that
 * computes and does not read is alive, and its kernel answers:
 *
 *   no data in flight      the kernel sends keepalive probes and ends the connection
 *   data not acknowledged  a living kernel acknowledges data, read or not
 *   zero window            a living kernel answers the probes of the window
 *
 * TCP_USER_TIMEOUT would do for the first two, but would end the third as well.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/tcp.h>

#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "transport/tcp/tcp_int.h"

enum {
    PROBES = 3, /* unanswered ones until a connection ends */
    RETRANSMITTED = 2, /* times, before silence means a loss; also probes of a window */
};

bool
tp_tcp_get_info(int fd, struct tcp_info *ret_info)
{
    socklen_t len = sizeof(*ret_info);

    memset(ret_info, 0, sizeof(*ret_info));
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ret_info, &len) == 0;
}

bool
tp_tcp_info_is_silent(const struct tcp_info *info, uint64_t lost_after_ns)
{
    bool asked = info->tcpi_unacked != 0 ? info->tcpi_retransmits >= RETRANSMITTED
                                         : info->tcpi_probes >= RETRANSMITTED;

    return asked && info->tcpi_last_ack_recv * TP_CLOCK_MS >= lost_after_ns;
}

static void
set_tcp_option(int fd, int name, int value)
{
    (void)setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value));
}

void
tp_tcp_watch(int fd, uint64_t lost_after_ns)
{
    int step_s = (int)TP_MAX(lost_after_ns / TP_CLOCK_S / (PROBES + 1), (uint64_t)1);

    set_tcp_option(fd, TCP_KEEPIDLE, step_s);
    set_tcp_option(fd, TCP_KEEPINTVL, step_s);
    set_tcp_option(fd, TCP_KEEPCNT, PROBES);
    set_tcp_option(fd, TCP_USER_TIMEOUT, 0);
}

bool
tp_tcp_is_silent(int fd, uint64_t lost_after_ns)
{
    struct tcp_info info;

    return tp_tcp_get_info(fd, &info) && tp_tcp_info_is_silent(&info, lost_after_ns);
}

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* True if this machine no longer has the connection's own address, or no route to its peer. */
static bool
has_lost_way(int fd)
{
    union address ours = {0}, theirs = {0};
    socklen_t our_len = sizeof(ours), their_len = sizeof(theirs);
    bool lost;
    int probe;

    if (getsockname(fd, &ours.any, &our_len) != 0 ||
        getpeername(fd, &theirs.any, &their_len) != 0) {
        return false;
    }
    probe = socket(ours.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) {
        return false;
    }
    tp_descriptor_own(probe);
    ours.in.sin_port = 0; /* at the same place in both */
    lost = (bind(probe, &ours.any, our_len) != 0 && errno == EADDRNOTAVAIL) ||
           (connect(probe, &theirs.any, their_len) != 0 &&
            (errno == ENETUNREACH || errno == EHOSTUNREACH));
    tp_descriptor_close(probe);
    return lost;
}

bool
tp_tcp_is_doubtful(int fd)
{
    struct tcp_info info;

    return has_lost_way(fd) || (tp_tcp_get_info(fd, &info) &&
                                (info.tcpi_retransmits > 0 || info.tcpi_probes > 1));
}
