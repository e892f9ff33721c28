/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of telpherd from defaults, file, environment and command line. */
#ifndef TELPHER_DAEMON_BROKER_OPTIONS_H
#define TELPHER_DAEMON_BROKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config/config.h"
#include "base/config/settings.h"
#include "daemon/limits.h"

#define TP_DAEMON_HANDOVER "--handover" /**< option of telpherd's own */

/** Values of the settings; options.c describes each. */
struct tp_daemon_options {
    struct tp_settings base;
    struct tp_config_list listen;
    char *peer_address; /**< "" = the address that the client uses */
    char *socket; /**< "" = default path, "none" = no Unix socket */
    char *control; /**< "" = beside the default socket, "none" = no control socket */
    char *metrics; /**< "" = none */
    struct tp_config_list relay_to; /**< entries of daemon/route.h */
    uint64_t max_relays;
    char *group; /**< "" = only the daemon's own user */
    struct tp_config_list device;
    struct tp_config_list driver_files; /**< what executors may read as well */
    char *cookie; /**< "" = default path */
    char *executor; /**< "" = beside telpherd, else libexec */
    char *tls_psk, *tls_cert, *tls_key, *tls_ca; /**< "" = none named */
    uint64_t handshake_timeout_ns;
    uint64_t max_handshakes;
    bool insecure;
    uint64_t probe_timeout_ns;
    uint64_t preface_timeout_ns;
    uint64_t stall_timeout_ns;
    uint64_t drain_timeout_ns; /**< 0 = end sessions at once */
    uint64_t max_sessions;
    uint64_t max_user_sessions;
    uint64_t max_half_open;
    struct tp_config_list share; /**< USER=WEIGHT */
    struct tp_daemon_limits limits; /**< per session and per user */
    uint64_t spin_ns; /**< or TP_SPIN_AUTO */
    char *cache; /**< "" = default path, "none" = no cache */
    uint64_t cache_size; /**< [bytes] per user */
    bool check_config; /**< command line only */
    int handover_fd; /**< state of the program before; 0 = none; command line only */
    int argc; /**< of the command line; borrowed */
    char **argv;
    struct tp_config *config;
};

/** The action of main after tp_daemon_options_load(). */
enum tp_daemon_verdict {
    TP_DAEMON_RUN,
    TP_DAEMON_DONE, /**< --help, --version: printed, exit 0 */
    TP_DAEMON_BAD_USAGE, /**< reported on stderr, exit 64 (EX_USAGE) */
    TP_DAEMON_BAD_CONFIG, /**< reported on stderr, exit 78 (EX_CONFIG) */
};

/** Fills @p ret_options. The caller calls tp_daemon_options_fini() whatever the result. */
enum tp_daemon_verdict tp_daemon_options_load(int argc, char **argv,
                                              struct tp_daemon_options *ret_options);
void tp_daemon_options_fini(struct tp_daemon_options *options);

#endif
