/* SPDX-License-Identifier: Apache-2.0 */
/* Watches addresses, links and routes of this machine through rtnetlink. */
#include "base/os/netchange.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/os/descriptor.h"

enum { MESSAGE_MAX = 8192 };

int
tp_netchange_open(void)
{
    const struct sockaddr_nl name = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                     RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

    if (fd < 0) {
        return -1;
    }
    tp_descriptor_own(fd);
    if (bind(fd, (const struct sockaddr *)&name, sizeof(name)) != 0) {
        tp_descriptor_close(fd);
        return -1;
    }
    return fd;
}

bool
tp_netchange_take(int fd)
{
    char message[MESSAGE_MAX];
    bool any = false;
    ssize_t len;

    /* ENOBUFS: there were more than fit, which are changes, too */
    while (fd >= 0 && ((len = recv(fd, message, sizeof(message), 0)) > 0 ||
                       (len < 0 && (errno == EINTR || errno == ENOBUFS)))) {
        any = true;
    }
    return any;
}
