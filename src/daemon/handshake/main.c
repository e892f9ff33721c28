/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-handshake: telpherd starts it once per TLS connection. Reads the keys, enters the
 * sandbox, authenticates the client whose socket was passed as descriptor 3, and returns the
 * secrets of the connection. It knows no device and loads no driver.
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "daemon/handshake.h"
#include "daemon/sandbox.h"
#include "telpher/version.h"

enum {
    ASK_WAIT_MS = 10000,
    PROCESSOR_S = 2, /* a handshake takes milliseconds */
};

static const struct option long_options[] = {
    {"ca", required_argument, NULL, 'a'},  {"cert", required_argument, NULL, 'c'},
    {"key", required_argument, NULL, 'k'}, {"psk", required_argument, NULL, 'p'},
    {"log", required_argument, NULL, 'l'}, {"log-format", required_argument, NULL, 'f'},
    {"version", no_argument, NULL, 'v'},   {NULL, 0, NULL, 0},
};

/* NOLINTBEGIN(concurrency-mt-unsafe): getopt_long, while there is one thread */

/* @return false if telpherd would not write this command line */
static bool
parse_options(int argc, char **argv, struct tp_secure_files *files)
{
    int opt;

    while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (opt) {
        case 'a':
            files->ca = optarg;
            break;
        case 'c':
            files->cert = optarg;
            break;
        case 'k':
            files->key = optarg;
            break;
        case 'p':
            files->psk = optarg;
            break;
        case 'l':
            (void)tp_log_configure(optarg, NULL);
            break;
        case 'f':
            (void)tp_log_set_format(strcmp(optarg, "logfmt") == 0 ? TP_LOG_LOGFMT
                                                                  : TP_LOG_TEXT);
            break;
        default:
            return false;
        }
    }
    return optind == argc;
}

/* NOLINTEND(concurrency-mt-unsafe) */

static bool
receive_ask(struct tp_daemon_handshake_ask *ret_ask, int *ret_fd)
{
    const struct iovec iov = {ret_ask, sizeof(*ret_ask)};
    struct pollfd fd = {.fd = TP_CONTROL_FD, .events = POLLIN};
    size_t len;

    return poll(&fd, 1, ASK_WAIT_MS) == 1 &&
           tp_control_receive_pieces(TP_CONTROL_FD, &iov, 1, &len, ret_fd) ==
               TELPHER_OK &&
           len == sizeof(*ret_ask) && *ret_fd >= 0;
}

/* Opens the key files, then enters the sandbox, then reads bytes of the client. */
static telpher_status
shake_hands(const struct tp_secure_files *files,
            const struct tp_daemon_handshake_ask *ask, struct tp_conn *conn,
            struct tp_daemon_handshake_answer *answer, struct tp_error *err)
{
    struct tp_tls_shake *acceptor = NULL;
    telpher_status status = tp_tls_acceptor_create(
        files, ask->has_key ? ask->session_key : NULL, &acceptor, err);

    if (status == TELPHER_OK) {
        const struct tp_sandbox_limits limits = {
            .deadline = ask->deadline_ns, .processor_s = PROCESSOR_S, .sockets = 1};

        status = tp_sandbox_enter(&limits, err);
    }
    if (status == TELPHER_OK) {
        status = tp_tls_acceptor_run(acceptor, conn, ask->deadline_ns, &answer->tls,
                                     answer->who, err);
    }
    tp_tls_acceptor_destroy(acceptor);
    return status;
}

int
main(int argc, char **argv)
{
    struct tp_secure_files files = {.ca = NULL};
    struct tp_daemon_handshake_answer answer = {.status = TELPHER_OK};
    const struct iovec iov = {&answer, sizeof(answer)};
    struct tp_daemon_handshake_ask ask;
    struct tp_error err = {0};
    struct tp_conn *conn;
    int fd = -1;

    tp_sandbox_begin();
    if (!parse_options(argc, argv, &files) || !receive_ask(&ask, &fd)) {
        (void)fprintf(stderr,
                      "telpher-handshake %s is started by telpherd; see telpherd(8)\n",
                      TELPHER_VERSION_STRING);
        return EX_USAGE;
    }
    answer.status = tp_builtin_transports[0]->adopt(fd, &conn);
    if (answer.status == TELPHER_OK) {
        answer.status = shake_hands(&files, &ask, conn, &answer, &err);
    }
    if (answer.status != TELPHER_OK) {
        (void)snprintf(answer.text, sizeof(answer.text), "%s",
                       err.code != 0 ? tp_error_text(&err)
                                     : telpher_status_text(answer.status));
    }
    (void)tp_control_send_pieces(TP_CONTROL_FD, &iov, 1, -1);
    _exit(EX_OK); /* no cleanup: the filter forbids most of it */
}
