/* SPDX-License-Identifier: Apache-2.0 */
/* Control socket of the test link: one datagram, one command; one datagram back. */
#include "link_int.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    WORDS_MAX = 4,
    LINE_MAX_BYTES = 256,
    REPLY_MAX_BYTES = 1024,
    REPLY_WAIT_MS = 5000
};

static int
bind_path(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(sun.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(sun.sun_path, path, strlen(path));
    unlink(path);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

int
link_control_open(const char *path)
{
    int fd = bind_path(path);

    if (fd < 0) {
        fprintf(stderr, "link: control socket %s: %s\n", path, strerror(errno));
    }
    return fd;
}

static bool
set_value(struct link_wire *w, const char *name, const char *value)
{
    int64_t ns;

    if (strcmp(name, "rate") == 0) {
        return link_parse_rate(value, &w->rate_bps);
    }
    if (strcmp(name, "loss") == 0) {
        return link_parse_loss(value, &w->loss);
    }
    if (strcmp(name, "delay") == 0 && link_parse_duration(value, &ns)) {
        w->dir[LINK_A2B].delay_ns = w->dir[LINK_B2A].delay_ns = ns;
        return true;
    }
    return false;
}

/* blackhole [a2b|b2a] [TIME] */
static bool
blackhole(struct link_wire *w, int words, char **word)
{
    int first = 1;
    int dir = -1;
    int64_t for_ns = 0;

    if (words > first && link_parse_dir(word[first], &dir)) {
        first++;
    }
    if (words > first && !link_parse_duration(word[first++], &for_ns)) {
        return false;
    }
    if (words > first) {
        return false;
    }
    if (dir < 0) {
        link_wire_event(w, LINK_EV_BLACKHOLE, for_ns);
    } else {
        link_wire_hole(w, dir, for_ns);
    }
    return true;
}

static bool
execute(struct link_wire *w, int words, char **word)
{
    if (words == 1 && strcmp(word[0], "cut") == 0) {
        link_wire_event(w, LINK_EV_CUT, 0);
    } else if (words == 1 && strcmp(word[0], "reset") == 0) {
        link_wire_event(w, LINK_EV_RESET, 0);
    } else if (words == 1 && strcmp(word[0], "close") == 0) {
        link_wire_event(w, LINK_EV_CLOSE, 0);
    } else if (words == 1 && strcmp(word[0], "move") == 0) {
        link_wire_event(w, LINK_EV_MOVE, 0);
    } else if (words == 1 && strcmp(word[0], "heal") == 0) {
        link_wire_heal(w);
    } else if (words >= 1 && strcmp(word[0], "blackhole") == 0) {
        return blackhole(w, words, word);
    } else if (words == 3 && strcmp(word[0], "set") == 0) {
        return set_value(w, word[1], word[2]);
    } else {
        return false;
    }
    return true;
}

static void
answer(struct link_wire *w, char *line, char *reply, size_t size)
{
    char *word[WORDS_MAX];
    char *save = NULL;
    int words = 0;

    for (char *t = strtok_r(line, " \n", &save); t != NULL && words < WORDS_MAX;
         t = strtok_r(NULL, " \n", &save)) {
        word[words++] = t;
    }
    if (words == 1 && strcmp(word[0], "stats") == 0) {
        link_wire_stats(w, reply, size);
    } else {
        snprintf(reply, size, "%s\n", execute(w, words, word) ? "ok" : "bad command");
    }
}

void
link_control_serve(int fd, struct link_wire *w)
{
    char line[LINE_MAX_BYTES];
    char reply[REPLY_MAX_BYTES];
    struct sockaddr_un from;
    socklen_t from_len = sizeof(from);
    ssize_t n;

    while ((n = recvfrom(fd, line, sizeof(line) - 1, 0, (struct sockaddr *)&from,
                         &from_len)) >= 0) {
        line[n] = '\0';
        answer(w, line, reply, sizeof(reply));
        if (from_len > sizeof(sa_family_t)) {
            sendto(fd, reply, strlen(reply), MSG_NOSIGNAL, (struct sockaddr *)&from,
                   from_len);
        }
        from_len = sizeof(from);
    }
}

/* Sends the line and waits for the answer. @return exit status. */
static int
exchange(int fd, const char *path, const char *line)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char reply[REPLY_MAX_BYTES];
    ssize_t n;

    strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
    if (sendto(fd, line, strlen(line), 0, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
        fprintf(stderr, "link: %s: %s\n", path, strerror(errno));
        return LINK_EXIT_FAILED;
    }
    if (poll(&p, 1, REPLY_WAIT_MS) != 1 ||
        (n = recv(fd, reply, sizeof(reply) - 1, 0)) < 0) {
        fprintf(stderr, "link: %s: no answer\n", path);
        return LINK_EXIT_FAILED;
    }
    reply[n] = '\0';
    fputs(reply, stdout);
    return strcmp(reply, "bad command\n") == 0 ? LINK_EXIT_USAGE : 0;
}

int
link_control_send(int argc, char **argv)
{
    char line[LINE_MAX_BYTES] = "";
    char own_path[128];
    int status;
    int fd;

    for (int i = 1; i < argc; i++) {
        strncat(line, argv[i], sizeof(line) - strlen(line) - 1);
        strncat(line, " ", sizeof(line) - strlen(line) - 1);
    }
    /* A path, since abstract names are not seen across network namespaces. */
    snprintf(own_path, sizeof(own_path), "%s.%d", argv[0], (int)getpid());
    fd = bind_path(own_path);
    if (fd < 0) {
        fprintf(stderr, "link: %s: %s\n", own_path, strerror(errno));
        return LINK_EXIT_FAILED;
    }
    status = exchange(fd, argv[0], line);
    unlink(own_path);
    close(fd);
    return status;
}
