/* SPDX-License-Identifier: Apache-2.0 */
/* telpher sessions and telpher kill: requests to the control socket of a local telpherd. */
#include "telpher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM_SOCKET "/run/telpher/telpherd.sock.control"

enum { LINE_MAX_BYTES = 2048, WAIT_SECONDS = 5 };

static const char sessions_usage[] =
    "usage: telpher sessions [OPTION]...\n\n"
    "Lists the sessions of this machine's telpherd: all of them for root and the\n"
    "daemon's user, else your own.\n\n";
static const char kill_usage[] =
    "usage: telpher kill [OPTION]... SESSION\n\n"
    "Ends a session that `telpher sessions` lists. Its program sees a lost server.\n\n";

/* Finds the control socket: of this user's daemon, else of the system's. */
static void
find_socket(char *dst, size_t cap)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int len;

    if (runtime != NULL && runtime[0] == '/') {
        len = snprintf(dst, cap, "%s/telpher/telpherd.sock.control", runtime);
    } else {
        len = snprintf(dst, cap, "/tmp/telpher-%u/telpherd.sock.control",
                       (unsigned)geteuid());
    }
    if (geteuid() == 0 || len < 0 || (size_t)len >= cap || access(dst, F_OK) != 0) {
        (void)snprintf(dst, cap, "%s", SYSTEM_SOCKET);
    }
}

/* Connects to the control socket, sends @p request and opens the answer for reading. */
static FILE *
open_answer(const char *path, const char *request)
{
    const struct timeval wait = {.tv_sec = WAIT_SECONDS};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char found[sizeof(addr.sun_path)];
    FILE *answer = NULL;
    int fd;

    if (path == NULL) {
        find_socket(found, sizeof(found));
        path = found;
    }
    if (strlen(path) >= sizeof(addr.sun_path)) {
        failure(
            "socket path %s is longer than 107 characters: name another with --control",
            path);
        return NULL;
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* a stopped telpherd makes connect() wait, too */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) != 0 ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
        send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request) ||
        (answer = fdopen(fd, "r")) == NULL) {
        failure("cannot ask telpherd at %s: %s; start telpherd with --control PATH and "
                "give the same --control PATH here",
                path, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    return answer;
}

/* Reads a line without its newline; control characters become "?". @return false: none */
static bool
read_line(FILE *answer, char line[LINE_MAX_BYTES])
{
    size_t len;

    if (fgets(line, LINE_MAX_BYTES, answer) == NULL) {
        return false;
    }
    len = strcspn(line, "\n");
    line[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];

        line[i] = (char)((c < ' ' && c != '\t') || c == 0x7f ? '?' : c);
    }
    return true;
}

/* Reads the first line, which tells whether the request succeeded. @return exit code */
static int
read_verdict(FILE *answer)
{
    char line[LINE_MAX_BYTES];

    if (!read_line(answer, line)) {
        return failure(
            "telpherd closed the control connection without an answer: see its log");
    }
    if (strcmp(line, "ok") == 0) {
        return 0;
    }
    return failure("%s", strncmp(line, "error ", 6) == 0 ? line + 6 : line);
}

static void
print_json_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
    putchar('"');
}

static bool
print_session(char *line, bool json, bool first)
{
    char *state = strchr(line, '\t'), *seconds, *owner;

    seconds = state == NULL ? NULL : strchr(state + 1, '\t');
    owner = seconds == NULL ? NULL : strchr(seconds + 1, '\t');
    if (owner == NULL || strchr(owner + 1, '\t') != NULL) {
        return false;
    }
    *state++ = *seconds++ = *owner++ = '\0';
    if (json) {
        printf("%s\n  {\"session\": %lld, \"state\": ", first ? "" : ",", atoll(line));
        print_json_text(state);
        printf(", \"seconds\": %lld, \"owner\": ", atoll(seconds));
        print_json_text(owner);
        putchar('}');
    } else {
        printf("%8s  %-9s  %8s s  %s\n", line, state, seconds, owner);
    }
    return true;
}

/* Prints the sessions up to the line "end". */
static int
print_sessions(FILE *answer, bool json)
{
    char line[LINE_MAX_BYTES];
    bool first = true;

    fputs(json ? "[" : " SESSION  STATE             AGE  OWNER\n", stdout);
    while (read_line(answer, line)) {
        if (strcmp(line, "end") == 0) {
            fputs(json ? (first ? "]\n" : "\n]\n") : "", stdout);
            return 0;
        }
        if (!print_session(line, json, first)) {
            return failure("telpherd sent a line that is not a session: %s", line);
        }
        first = false;
    }
    return failure("telpherd closed the connection before the end of the list");
}

int
command_sessions(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    const struct cli_option options[] = {
        CLI_TEXT('c', "control", "PATH", "control socket of the daemon", &path),
        CLI_FLAG('j', "json", "print an array of objects", &json),
    };
    int code = cli_read(argc, argv, sessions_usage, "", options,
                        sizeof(options) / sizeof(options[0]));
    FILE *answer;

    if (code >= 0) {
        return code;
    }
    if (optind != argc) {
        return cli_wrong("sessions", "it takes no arguments");
    }
    answer = open_answer(path, "sessions\n");
    if (answer == NULL) {
        return EXIT_FAILURE;
    }
    code = read_verdict(answer);
    code = code == 0 ? print_sessions(answer, json) : code;
    (void)fclose(answer);
    return code;
}

int
command_kill(int argc, char **argv)
{
    const char *path = NULL;
    const struct cli_option options[] = {
        CLI_TEXT('c', "control", "PATH", "control socket of the daemon", &path),
    };
    int code = cli_read(argc, argv, kill_usage, "", options,
                        sizeof(options) / sizeof(options[0]));
    char request[64];
    FILE *answer;

    if (code >= 0) {
        return code;
    }
    if (argc - optind != 1 || argv[optind][0] == '\0' ||
        strspn(argv[optind], "0123456789") != strlen(argv[optind]) ||
        strlen(argv[optind]) > 10) {
        return cli_wrong("kill", "give the number of one session");
    }
    (void)snprintf(request, sizeof(request), "kill %s\n", argv[optind]);
    answer = open_answer(path, request);
    if (answer == NULL) {
        return EXIT_FAILURE;
    }
    code = read_verdict(answer);
    (void)fclose(answer);
    return code;
}
