/* SPDX-License-Identifier: Apache-2.0 */
/* telpherd: the daemon that serves a machine's devices. See docs/man/telpherd.8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/config/config.h"
#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/options.h"
#include "daemon/broker/reload/handover.h"
#include "daemon/broker/session/shares.h"
#include "transport/tcp/tcp.h"

/* Validates the settings without applying them. */
static int
check_settings(const struct tp_daemon_options *options)
{
    struct tp_tcp_address address;
    struct tp_error err = {0};
    telpher_status status = TELPHER_OK;

    if (strlen(options->socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        status = tp_error_set(&err, TELPHER_ERR_INVALID,
                              "socket path %.40s... is longer than 107 characters: "
                              "choose another with --socket",
                              options->socket);
    }
    if (status == TELPHER_OK) {
        status = tp_broker_shares_check(options, &err);
    }
    for (size_t i = 0; i < options->listen.count && status == TELPHER_OK; i++) {
        status = tp_tcp_parse_address(options->listen.items[i], &address, &err);
    }
    if (status == TELPHER_OK && options->handover_fd > 0) {
        status = tp_broker_handover_check(options->handover_fd, &err);
    }
    if (status != TELPHER_OK) {
        (void)fprintf(stderr, "telpherd: %s\n", tp_error_text(&err));
        return EX_CONFIG;
    }
    (void)puts("telpherd: settings are good");
    return EX_OK;
}

/* Logs at level info on a terminal, so that a manual start shows that it works. Explicit
 * log settings and a service manager take precedence. */
static void
talk_at_terminal(const struct tp_daemon_options *options)
{
    if (isatty(STDERR_FILENO) && getenv("NOTIFY_SOCKET") == NULL &&
        tp_config_source_of(options->config, "log") == TP_CONFIG_DEFAULT) {
        (void)tp_log_configure("warn,broker:info", NULL);
    }
}

static int
run_daemon(const struct tp_daemon_options *options)
{
    talk_at_terminal(options);
    return options->check_config ? check_settings(options) : tp_broker_run(options);
}

int
main(int argc, char **argv)
{
    struct tp_daemon_options options;
    int exit_status = EX_OK;

    tp_log_set_name("telpherd");
    switch (tp_daemon_options_load(argc, argv, &options)) {
    case TP_DAEMON_RUN:
        exit_status = run_daemon(&options);
        break;
    case TP_DAEMON_DONE:
        break;
    case TP_DAEMON_BAD_USAGE:
        exit_status = EX_USAGE;
        break;
    case TP_DAEMON_BAD_CONFIG:
        exit_status = EX_CONFIG;
        break;
    }
    tp_daemon_options_fini(&options);
    return exit_status;
}
