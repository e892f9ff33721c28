/* SPDX-License-Identifier: Apache-2.0 */
/* telpherd: the daemon that offers a machine's devices. See docs/man/telpherd.8. */
#include <stdio.h>
#include <sysexits.h>

#include "daemon/broker.h"
#include "daemon/options.h"

static int
run(const struct tp_daemon_options *options)
{
    if (options->check_config) {
        (void)puts("telpherd: settings are good");
        return EX_OK;
    }
    return tp_broker_run(options);
}

int
main(int argc, char **argv)
{
    struct tp_daemon_options options;
    int exit_status = EX_OK;

    switch (tp_daemon_options_load(argc, argv, &options)) {
    case TP_DAEMON_RUN:
        exit_status = run(&options);
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
