/* SPDX-License-Identifier: Apache-2.0 */
/* Words and numbers for people: messages, durations, sizes, lists of servers, places. */
#include "telpher.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int
failure(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("telpher: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_FAILURE;
}

void
become_program(char **argv)
{
    struct stat file;
    int error;

    execvp(argv[0], argv);
    error = errno;
    if (stat(argv[0], &file) == 0 && S_ISDIR(file.st_mode)) {
        failure("running %s: it is a folder; name a program in it", argv[0]);
    } else {
        failure("running %s: %s", argv[0], strerror(error));
    }
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

const char *
duration_text(char *dst, size_t cap, double ns)
{
    if (ns < 1e6) {
        snprintf(dst, cap, "%.1f us", ns / 1e3);
    } else if (ns < 1e9) {
        snprintf(dst, cap, "%.2f ms", ns / 1e6);
    } else {
        snprintf(dst, cap, "%.2f s", ns / 1e9);
    }
    return dst;
}

const char *
size_text(char *dst, size_t cap, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(dst, cap, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return dst;
}

bool
parse_duration(void *place, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    double scale = strcmp(end, "us") == 0                  ? 1e3
                   : strcmp(end, "ms") == 0                ? 1e6
                   : strcmp(end, "m") == 0                 ? 60e9
                   : *end == '\0' || strcmp(end, "s") == 0 ? 1e9
                                                           : 0;

    *(uint64_t *)place =
        (uint64_t)(value > 0 && value * scale <= 1e18 ? value * scale : 0);
    return end != text && *(uint64_t *)place != 0;
}

struct collecting {
    struct addresses *list;
    int overflow;
};

static void
collect(void *user, const char *address)
{
    struct collecting *c = user;
    size_t max = sizeof(c->list->item) / sizeof(c->list->item[0]);
    char *copy = c->list->count < max ? strdup(address) : NULL;

    if (copy == NULL) {
        c->overflow = 1;
        return;
    }
    c->list->item[c->list->count++] = copy;
}

int
addresses_parse(const char *subcommand, const char *text, struct addresses *ret_list)
{
    struct collecting c = {.list = ret_list};
    telpher_error err = {0};

    ret_list->count = 0;
    if (text == NULL) {
        text = telpher_config_get("TELPHER_SERVERS");
    }
    if (text == NULL || text[0] == '\0') {
        text = "local";
    }
    if (telpher_servers_parse(text, collect, &c, &err) != TELPHER_OK) {
        return cli_wrong(subcommand, "%s", err.text);
    }
    if (c.overflow) {
        addresses_free(ret_list);
        return failure("the list has more than %zu servers: name fewer with -s",
                       sizeof(ret_list->item) / sizeof(ret_list->item[0]));
    }
    return 0;
}

void
addresses_free(struct addresses *list)
{
    while (list->count != 0) {
        free(list->item[--list->count]);
    }
}

static void
count_device(void *user, const telpher_device_info *info)
{
    ++*(unsigned *)user;
}

telpher_status
server_count_devices(const char *address, uint64_t timeout_ns, unsigned *ret_count,
                     telpher_error *err)
{
    telpher_server *server;
    telpher_status status = telpher_server_connect(address, timeout_ns, &server, err);

    if (status == TELPHER_OK) {
        status = telpher_server_devices(server, count_device, ret_count, err);
        telpher_server_close(server);
    }
    return status;
}

int
find_artefact(const char *in_build, const char *installed, const char *name,
              char *ret_path, size_t cap)
{
    const char *const ways[] = {in_build, installed};
    char exe[PATH_MAX], folder[PATH_MAX], shown[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    const char *own;

    if (len < 0) {
        snprintf(ret_path, cap, "%s", name);
        return -1;
    }
    exe[len] = '\0';
    own = dirname(exe);
    for (int i = 0; i < 2; i++) {
        if ((size_t)snprintf(folder, sizeof(folder), "%s/%s", own, ways[i]) <
                sizeof(folder) &&
            (size_t)snprintf(ret_path, cap, "%s/%s",
                             realpath(folder, shown) != NULL ? shown : folder,
                             name) < cap &&
            access(ret_path, R_OK) == 0) {
            return 0;
        }
    }
    return -1;
}
