/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line and the settings of telpherd. A setting has the same name as
 * option, line of the file and environment variable: --kernel-timeout 10s,
 * kernel_timeout = 10s, TELPHER_KERNEL_TIMEOUT=10s.
 */
#include "daemon/broker/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/os/spin.h"
#include "daemon/route.h"
#include "telpher/version.h"

#define SETTINGS_OF struct tp_daemon_options

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/daemon.def"
#undef SETTING
};

enum { OPT_CHECK = 256, OPT_HELP, OPT_VERSION, OPT_CONFIG, OPT_HANDOVER, OPT_SETTING };

static const struct option long_options[] = {
    {"listen", required_argument, NULL, OPT_SETTING},
    {"peer-address", required_argument, NULL, OPT_SETTING},
    {"relay-to", required_argument, NULL, OPT_SETTING},
    {"max-relays", required_argument, NULL, OPT_SETTING},
    {"socket", required_argument, NULL, OPT_SETTING},
    {"control", required_argument, NULL, OPT_SETTING},
    {"metrics", required_argument, NULL, OPT_SETTING},
    {"group", required_argument, NULL, OPT_SETTING},
    {"device", required_argument, NULL, OPT_SETTING},
    {"cookie", required_argument, NULL, OPT_SETTING},
    {"executor", required_argument, NULL, OPT_SETTING},
    {"kernel-timeout", required_argument, NULL, OPT_SETTING},
    {"kernel-warning", required_argument, NULL, OPT_SETTING},
    {"probe-timeout", required_argument, NULL, OPT_SETTING},
    {"build-timeout", required_argument, NULL, OPT_SETTING},
    {"transfer-timeout", required_argument, NULL, OPT_SETTING},
    {"peer-timeout", required_argument, NULL, OPT_SETTING},
    {"peer-silence", required_argument, NULL, OPT_SETTING},
    {"preface-timeout", required_argument, NULL, OPT_SETTING},
    {"stall-timeout", required_argument, NULL, OPT_SETTING},
    {"drain-timeout", required_argument, NULL, OPT_SETTING},
    {"max-sessions", required_argument, NULL, OPT_SETTING},
    {"max-user-sessions", required_argument, NULL, OPT_SETTING},
    {"max-half-open", required_argument, NULL, OPT_SETTING},
    {"max-objects", required_argument, NULL, OPT_SETTING},
    {"max-contexts", required_argument, NULL, OPT_SETTING},
    {"max-queues", required_argument, NULL, OPT_SETTING},
    {"max-buffers", required_argument, NULL, OPT_SETTING},
    {"max-programs", required_argument, NULL, OPT_SETTING},
    {"max-kernels", required_argument, NULL, OPT_SETTING},
    {"max-memory", required_argument, NULL, OPT_SETTING},
    {"max-host-memory", required_argument, NULL, OPT_SETTING},
    {"max-user-objects", required_argument, NULL, OPT_SETTING},
    {"max-user-builds", required_argument, NULL, OPT_SETTING},
    {"max-user-memory", required_argument, NULL, OPT_SETTING},
    {"max-user-host-memory", required_argument, NULL, OPT_SETTING},
    {"share", required_argument, NULL, OPT_SETTING},
    {"driver-files", required_argument, NULL, OPT_SETTING},
    {"max-program", required_argument, NULL, OPT_SETTING},
    {"max-unread", required_argument, NULL, OPT_SETTING},
    {"keep-session", required_argument, NULL, OPT_SETTING},
    {"spin", required_argument, NULL, OPT_SETTING},
    {"cache", required_argument, NULL, OPT_SETTING},
    {"cache-size", required_argument, NULL, OPT_SETTING},
    {"log", required_argument, NULL, OPT_SETTING},
    {"log-format", required_argument, NULL, OPT_SETTING},
    {"tls-psk", required_argument, NULL, OPT_SETTING},
    {"tls-cert", required_argument, NULL, OPT_SETTING},
    {"tls-key", required_argument, NULL, OPT_SETTING},
    {"tls-ca", required_argument, NULL, OPT_SETTING},
    {"handshake-timeout", required_argument, NULL, OPT_SETTING},
    {"max-handshakes", required_argument, NULL, OPT_SETTING},
    {"insecure", no_argument, NULL, OPT_SETTING},
    {"config", required_argument, NULL, OPT_CONFIG},
    {TP_DAEMON_HANDOVER + 2, required_argument, NULL, OPT_HANDOVER},
    {"check-config", no_argument, NULL, OPT_CHECK},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help_text[] =
    "usage: telpherd [OPTION]...\n"
    "Offers the OpenCL devices of this machine to programs elsewhere.\n"
    "\n"
    "  --listen ADDR            listen on TCP host[:port] (default port 7717), off\n"
    "                           loopback with TLS; tls://host does so on loopback, "
    "too;\n"
    "                           may be given several times\n"
    "  --peer-address ADDR      how other servers reach this one, if not as clients "
    "do\n"
    "  --relay-to SERVER        pass clients on to NAME[:PORT] or "
    "NETWORK/BITS[:PORT];\n"
    "                           may be given several times\n"
    "  --max-relays N           connections passed on (default: 256)\n"
    "  --socket PATH|none       Unix socket (default: /run/telpher/telpherd.sock, for "
    "an\n"
    "                           ordinary user below $XDG_RUNTIME_DIR)\n"
    "  --control PATH|none      socket of telpher sessions and telpher kill (default:\n"
    "                           beside the default Unix socket, with .control)\n"
    "  --metrics ADDR           serve metrics for Prometheus on 127.0.0.1:PORT\n"
    "  --group NAME             let this group use the Unix socket, too\n"
    "  --device PATTERN         offer only matching devices; may be given several "
    "times\n"
    "  --driver-files PATH      let drivers and kernels read this as well; / for all; "
    "may "
    "be\n"
    "                           given several times\n"
    "  --cookie FILE            secret of clients on loopback TCP, new at each start\n"
    "  --kernel-timeout TIME    end sessions whose driver makes no progress\n"
    "                           (default: 0, never)\n"
    "  --kernel-warning TIME    warn clients whose commands make no progress\n"
    "                           (default: 30s)\n"
    "  --build-timeout TIME     end sessions whose build takes longer\n"
    "                           (default: 600s)\n"
    "  --transfer-timeout TIME  fail a transfer whose content stalls\n"
    "                           (default: 600s)\n"
    "  --peer-timeout TIME      time to connect to another server (default: 2s)\n"
    "  --peer-silence TIME      fail what waits for another server that is connected\n"
    "                           and silent (default: 20s)\n"
    "  --probe-timeout TIME     time for drivers to list their devices (default: 30s)\n"
    "  --preface-timeout TIME   time for a connection's first 64 bytes (default: "
    "2s)\n"
    "  --stall-timeout TIME     time for the rest of a frame (default: 30s)\n"
    "  --drain-timeout TIME     time for sessions to end after SIGTERM (default: 30s)\n"
    "  --max-sessions N         sessions at the same time (default: 512)\n"
    "  --max-user-sessions N    sessions of one user or address (default: 256)\n"
    "  --max-half-open N        unauthenticated connections (default: "
    "64)\n"
    "  --max-objects N          objects and commands of one session\n"
    "                           (default: 1000000)\n"
    "  --max-contexts N         contexts of one session (default: 1024)\n"
    "  --max-queues N           queues of one session (default: 4096)\n"
    "  --max-buffers N          memory objects of one session (default: 262144)\n"
    "  --max-programs N         programs of one session (default: 16384)\n"
    "  --max-kernels N          kernels of one session (default: 262144)\n"
    "  --max-memory SIZE        device memory of one session (default: 0, no limit)\n"
    "  --max-host-memory SIZE   content under way in one session (default: 4G)\n"
    "  --max-user-objects N     objects and commands of one user in all sessions\n"
    "                           (default: 0, no limit)\n"
    "  --max-user-builds N      builds of one user that run at once (default: 0, no "
    "limit)\n"
    "  --max-user-memory SIZE   device memory of one user (default: 0, no limit)\n"
    "  --max-user-host-memory SIZE content under way of one user (default: 0, no "
    "limit)\n"
    "  --share USER=WEIGHT      part of the device time of a user's session beside\n"
    "                           others (default: 1); may be given several times\n"
    "  --max-program SIZE       source or binaries of a program (default: 256M)\n"
    "  --keep-session TIME      sessions wait for clients whose connection was lost\n"
    "                           (default: 60s; 0 = they end)\n"
    "  --max-unread SIZE        answers a client may leave unread (default: 64M)\n"
    "  --cache FOLDER|none      keep built programs there (default: "
    "$XDG_CACHE_HOME/telpher)\n"
    "  --cache-size SIZE        what the cache keeps for each user (default: 256M)\n"
    "  --spin TIME              poll for commands so long before sleeping (default: "
    "auto)\n"
    "  --tls-psk FILE           shared keys of clients, made by telpher keygen\n"
    "                           (default: ~/.telpher/key, else /etc/telpher/key)\n"
    "  --tls-cert FILE          certificate of this server\n"
    "  --tls-key FILE           private key of that certificate\n"
    "  --tls-ca FILE            authority that signs certificates of clients\n"
    "  --handshake-timeout TIME time for clients to authenticate (default: 10s)\n"
    "  --max-handshakes N       clients that authenticate at the same time "
    "(default: 32)\n"
    "  --insecure               off loopback without TLS: all clients are accepted\n"
    "  --executor PATH          program that runs sessions\n"
    "  --config FILE            read settings: lines like \"listen = 127.0.0.1\"\n"
    "  --check-config           check settings and exit\n"
    "  --log SPEC               warn, info, debug, ... or warn,broker:debug\n"
    "  --log-format FORM        text or logfmt\n"
    "  --version, --help\n"
    "\n"
    "It stays in the foreground. SIGTERM drains it, SIGHUP reloads it.\n";

enum { LIST_COUNT = 5 };

/* The parsed command line, before it is applied. */
struct parsed {
    const char *config_path;
    bool seen[LIST_COUNT];
};

static enum tp_daemon_verdict
report_error(enum tp_daemon_verdict verdict, const char *text)
{
    (void)fprintf(stderr, "telpherd: %s%s\n", text,
                  verdict == TP_DAEMON_BAD_USAGE ? "; see telpherd --help" : "");
    return verdict;
}

/* NOLINTBEGIN(concurrency-mt-unsafe): getopt_long, while there is one thread */

/* First pass: the options that are not settings. */
static enum tp_daemon_verdict
parse_special(int argc, char **argv, struct parsed *p, struct tp_daemon_options *o)
{
    int opt;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (opt) {
        case OPT_HELP:
            (void)fputs(help_text, stdout);
            return TP_DAEMON_DONE;
        case OPT_VERSION:
            (void)printf("telpherd %s\n", TELPHER_VERSION_STRING);
            return TP_DAEMON_DONE;
        case OPT_CONFIG:
            p->config_path = optarg;
            break;
        case OPT_CHECK:
            o->check_config = true;
            break;
        case OPT_HANDOVER:
            o->handover_fd = (int)strtol(optarg, NULL, 10);
            break;
        case OPT_SETTING:
            break;
        default: /* getopt has reported the error */
            return report_error(TP_DAEMON_BAD_USAGE, "not started");
        }
    }
    return optind == argc ? TP_DAEMON_RUN
                          : report_error(TP_DAEMON_BAD_USAGE, "takes no arguments");
}

/* Sets the value of one option; each use of a list option appends. */
static telpher_status
set_option(struct tp_config *config, const char *name, const char *value,
           const struct tp_config_list *list, bool *seen, struct tp_error *err)
{
    char text[2048] = "";
    size_t len = 0;

    for (size_t i = 0; *seen && i < list->count; i++) {
        int n = snprintf(text + len, sizeof(text) - len, "%s,", list->items[i]);

        len += (size_t)n;
        if (len >= sizeof(text)) {
            return tp_error_set(
                err, TELPHER_ERR_LIMIT,
                "%s: %zu values are too long together: %zu bytes at most", name,
                list->count + 1, sizeof(text) - 1);
        }
    }
    if (snprintf(text + len, sizeof(text) - len, "%s", value) >=
        (int)(sizeof(text) - len)) {
        return tp_error_set(
            err, TELPHER_ERR_LIMIT,
            "%s: \"%.40s...\" is too long: %zu bytes at most with the values before it",
            name, value, sizeof(text) - 1);
    }
    *seen = true;
    return tp_config_set(config, name, text, name, err);
}

/* Sets the value of one option, which may be a list. */
static telpher_status
set_any_option(struct tp_daemon_options *o, struct parsed *p, const char *name,
               const char *value, struct tp_error *err)
{
    const struct {
        const char *name;
        const struct tp_config_list *list;
    } lists[LIST_COUNT] = {{"listen", &o->listen},
                           {"relay-to", &o->relay_to},
                           {"device", &o->device},
                           {"share", &o->share},
                           {"driver-files", &o->driver_files}};

    for (size_t i = 0; i < LIST_COUNT; i++) {
        if (strcmp(name, lists[i].name) == 0) {
            return set_option(o->config, name, value, lists[i].list, &p->seen[i], err);
        }
    }
    return tp_config_set(o->config, name, value != NULL ? value : "yes", name, err);
}

/* Second pass: the settings, which override file and environment. */
static enum tp_daemon_verdict
parse_settings(int argc, char **argv, struct parsed *p, struct tp_daemon_options *o)
{
    struct tp_error err = {0};
    telpher_status status = TELPHER_OK;
    int opt, index = 0;

    optind = 1;
    while (status == TELPHER_OK &&
           (opt = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (opt == OPT_SETTING) {
            status = set_any_option(o, p, long_options[index].name, optarg, &err);
        }
    }
    return status == TELPHER_OK
               ? TP_DAEMON_RUN
               : report_error(TP_DAEMON_BAD_USAGE, tp_error_text(&err));
}

/* NOLINTEND(concurrency-mt-unsafe) */

static enum tp_daemon_verdict
load_sources(const struct parsed *p, struct tp_daemon_options *o)
{
    struct tp_error err = {0};
    telpher_status status;

    if (p->config_path == NULL) {
        status = tp_settings_load(o->config, NULL, &err);
    } else {
        status = tp_config_load_file(o->config, p->config_path, &err);
        if (status == TELPHER_OK) {
            status = tp_config_load_env(o->config, NULL, &err);
        }
    }
    return status == TELPHER_OK
               ? TP_DAEMON_RUN
               : report_error(TP_DAEMON_BAD_CONFIG, tp_error_text(&err));
}

enum tp_daemon_verdict
tp_daemon_options_load(int argc, char **argv, struct tp_daemon_options *ret_options)
{
    struct tp_daemon_options *o = ret_options;
    struct tp_config_room rooms[] = {
        {"base", tp_settings_entries, tp_settings_entry_count, &o->base},
        {"daemon", entries, TP_ARRAY_LEN(entries), o},
    };
    struct parsed p = {.config_path = NULL};
    struct tp_error err = {0};
    enum tp_daemon_verdict verdict;

    *o = (struct tp_daemon_options){.argc = argc, .argv = argv};
    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &o->config) != TELPHER_OK) {
        return report_error(TP_DAEMON_BAD_CONFIG, "out of memory");
    }
    verdict = parse_special(argc, argv, &p, o);
    if (verdict == TP_DAEMON_RUN) {
        verdict = load_sources(&p, o);
    }
    if (verdict == TP_DAEMON_RUN) {
        verdict = parse_settings(argc, argv, &p, o);
    }
    for (size_t i = 0; i < o->relay_to.count && verdict == TP_DAEMON_RUN; i++) {
        if (tp_route_check(o->relay_to.items[i], &err) != TELPHER_OK) {
            verdict = report_error(TP_DAEMON_BAD_CONFIG, tp_error_text(&err));
        }
    }
    if (verdict == TP_DAEMON_RUN && tp_settings_apply(&o->base, &err) != TELPHER_OK) {
        verdict = report_error(TP_DAEMON_BAD_CONFIG, tp_error_text(&err));
    }
    if (verdict == TP_DAEMON_RUN) {
        tp_settings_warn_unknown();
    }
    return verdict;
}

void
tp_daemon_options_fini(struct tp_daemon_options *options)
{
    tp_config_destroy(options->config);
    options->config = NULL;
}
