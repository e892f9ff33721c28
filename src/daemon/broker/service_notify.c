/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the state of the daemon to systemd: one datagram per notification. */
#include "daemon/broker/service_notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void
tp_daemon_notify(const char *fmt, ...)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the broker has one thread */
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char text[512];
    size_t len = path != NULL ? strlen(path) : 0;
    va_list args;
    int fd;

    if (len < 2 || len >= sizeof(addr.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memcpy(addr.sun_path, path, len);
    if (path[0] == '@') {
        addr.sun_path[0] = '\0'; /* abstract name */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
        (void)close(fd);
    }
}
