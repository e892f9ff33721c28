/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the two network namespaces of the test link and their TUN devices. */
#include "link_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const address[LINK_SIDES] = {"10.77.0.1", "10.77.0.2"};
enum { TX_QUEUE_PACKETS = 5000 };

/* Says why there will be no link. What the kernel forbids is a skip, not a failure. */
static int
refuse(const char *what)
{
    int err = errno;

    fprintf(stderr, "link: %s: %s\n", what, strerror(err));
    return err == EPERM || err == EACCES || err == ENOSYS || err == ENOENT ||
                   err == ENODEV || err == ENOSPC || err == EINVAL || err == EUSERS
               ? LINK_EXIT_SKIP
               : LINK_EXIT_FAILED;
}

static bool
write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0) {
        int err = errno;
        close(fd);
        errno = err;
    }
    return ok;
}

/* Becomes root of a new user namespace; for callers who may not make a network one. */
static int
enter_user_namespace(void)
{
    char map[64];
    unsigned uid = geteuid();
    unsigned gid = getegid();

    if (unshare(CLONE_NEWUSER) != 0) {
        return refuse("no user namespace");
    }
    snprintf(map, sizeof(map), "0 %u 1", uid);
    if (!write_file("/proc/self/uid_map", map)) {
        return refuse("/proc/self/uid_map");
    }
    if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT) {
        return refuse("/proc/self/setgroups");
    }
    snprintf(map, sizeof(map), "0 %u 1", gid);
    if (!write_file("/proc/self/gid_map", map)) {
        return refuse("/proc/self/gid_map");
    }
    return 0;
}

static int
new_network_namespace(void)
{
    int status;

    if (unshare(CLONE_NEWNET) == 0) {
        return 0;
    }
    if (errno != EPERM) {
        return refuse("no network namespace");
    }
    status = enter_user_namespace();
    if (status != 0) {
        return status;
    }
    return unshare(CLONE_NEWNET) == 0 ? 0 : refuse("no network namespace");
}

static bool
set_up(int ctl_fd, const char *name, bool up)
{
    struct ifreq req = {0};

    strncpy(req.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(ctl_fd, SIOCGIFFLAGS, &req) != 0) {
        return false;
    }
    req.ifr_flags = (short)(up ? req.ifr_flags | IFF_UP : req.ifr_flags & ~IFF_UP);
    return ioctl(ctl_fd, SIOCSIFFLAGS, &req) == 0;
}

static bool
set_address(int ctl_fd, unsigned long what, const char *text)
{
    struct ifreq req = {.ifr_name = "link0"};
    struct sockaddr_in sin = {.sin_family = AF_INET};

    inet_pton(AF_INET, text, &sin.sin_addr);
    memcpy(&req.ifr_addr, &sin, sizeof(sin));
    return ioctl(ctl_fd, what, &req) == 0;
}

static bool
configure(int ctl_fd, int side, unsigned mtu)
{
    struct ifreq req = {.ifr_name = "link0"};

    req.ifr_mtu = (int)mtu;
    if (ioctl(ctl_fd, SIOCSIFMTU, &req) != 0) {
        return false;
    }
    req.ifr_qlen = TX_QUEUE_PACKETS;
    (void)ioctl(ctl_fd, SIOCSIFTXQLEN, &req); /* only the machine's root may; a bonus */
    return set_address(ctl_fd, SIOCSIFADDR, address[side]) &&
           set_address(ctl_fd, SIOCSIFNETMASK, "255.255.255.0") &&
           set_up(ctl_fd, "link0", true) && set_up(ctl_fd, "lo", true);
}

/* Opens the TUN device of the namespace this process is in. */
static int
open_tun(void)
{
    struct ifreq req = {.ifr_name = "link0"};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    req.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(fd, TUNSETIFF, &req) != 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

static int
create_side(struct link_net *net, int side, unsigned mtu)
{
    int status = new_network_namespace();

    if (status != 0) {
        return status;
    }
    net->ns_fd[side] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    net->ctl_fd[side] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (net->ns_fd[side] < 0 || net->ctl_fd[side] < 0) {
        return refuse("new namespace");
    }
    net->tun_fd[side] = open_tun();
    if (net->tun_fd[side] < 0) {
        return refuse("/dev/net/tun");
    }
    if (!configure(net->ctl_fd[side], side, mtu)) {
        return refuse("setting up the device");
    }
    return 0;
}

int
link_net_create(struct link_net *net, unsigned mtu)
{
    int status = create_side(net, LINK_A, mtu);

    return status != 0 ? status : create_side(net, LINK_B, mtu);
}

void
link_net_move(struct link_net *net)
{
    static bool moved;

    moved = !moved;
    if (!set_address(net->ctl_fd[LINK_A], SIOCSIFADDR,
                     moved ? "10.77.0.3" : address[LINK_A]) ||
        !set_address(net->ctl_fd[LINK_A], SIOCSIFNETMASK, "255.255.255.0")) {
        fprintf(stderr, "link: address of side A: %s\n", strerror(errno));
    }
}

void
link_net_set_up(struct link_net *net, bool up)
{
    for (int side = 0; side < LINK_SIDES; side++) {
        if (!set_up(net->ctl_fd[side], "link0", up)) {
            fprintf(stderr, "link: device of side %c: %s\n", "AB"[side],
                    strerror(errno));
        }
    }
}

/* Looks for a socket in state LISTEN (0A) on the port in a /proc/PID/net/tcp table. */
static bool
table_listens(FILE *table, unsigned port)
{
    char line[512];
    unsigned line_port;
    unsigned state;

    while (fgets(line, sizeof(line), table) != NULL) {
        if (sscanf(line, " %*[0-9]: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &line_port,
                   &state) == 2 &&
            line_port == port && state == 0x0a) {
            return true;
        }
    }
    return false;
}

bool
link_net_listens(pid_t pid, unsigned port)
{
    static const char *const name[] = {"tcp", "tcp6"};
    bool found = false;

    for (int i = 0; i < 2 && !found; i++) {
        char path[64];
        FILE *table;

        snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name[i]);
        table = fopen(path, "re");
        if (table != NULL) {
            found = table_listens(table, port);
            fclose(table);
        }
    }
    return found;
}
