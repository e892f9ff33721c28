/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command line and settings of telpherd. An option, a line of the file and a variable have
 * the same name: --kernel-timeout 10s, kernel_timeout = 10s, TELPHER_KERNEL_TIMEOUT=10s.
 */
#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/spin.h"
#include "telpher/version.h"

#define FIELD(member) .offset = offsetof(struct tp_daemon_options, member)

static const struct tp_config_entry entries[] = {
    {.name = "LISTEN",
     .default_text = "",
     .help = "TCP addresses to listen on, host[:port]; off loopback only with insecure",
     .parser = &tp_config_words,
     FIELD(listen)},
    {.name = "SOCKET",
     .default_text = "",
     .help = "path of the Unix socket, none for no such socket; empty = default place",
     .parser = &tp_config_string,
     FIELD(socket)},
    {.name = "GROUP",
     .default_text = "",
     .help = "group that may use the Unix socket beside the daemon's user",
     .parser = &tp_config_string,
     FIELD(group)},
    {.name = "DEVICE",
     .default_text = "",
     .help = "offer only devices whose name, or \"platform: name\", matches a pattern",
     .parser = &tp_config_words,
     FIELD(device)},
    {.name = "COOKIE",
     .default_text = "",
     .help = "cookie file for loopback TCP; empty = default place",
     .parser = &tp_config_string,
     FIELD(cookie)},
    {.name = "EXECUTOR",
     .default_text = "",
     .help = "program that runs sessions; empty = beside telpherd, else installed",
     .parser = &tp_config_string,
     FIELD(executor)},
    {.name = "INSECURE",
     .default_text = "no",
     .help = "allow addresses off loopback: whoever reaches them may run code here",
     .parser = &tp_config_bool,
     FIELD(insecure)},
    {.name = "KERNEL_TIMEOUT",
     .default_text = "0s",
     .help = "end a session whose driver makes no progress that long; 0 = never",
     .parser = &tp_config_duration,
     FIELD(kernel_timeout_ns)},
    {.name = "PROBE_TIMEOUT",
     .default_text = "30s",
     .help = "time for drivers to tell their devices at start",
     .parser = &tp_config_duration,
     FIELD(probe_timeout_ns)},
    {.name = "MAX_SESSIONS",
     .default_text = "256",
     .help = "sessions at the same time",
     .parser = &tp_config_u64,
     .min = 1,
     .max = 65536,
     FIELD(max_sessions)},
    {.name = "MAX_OBJECTS",
     .default_text = "1000000",
     .help = "objects and commands under way in one session; one with more is ended",
     .parser = &tp_config_u64,
     .min = 1000,
     .max = 1000000000,
     FIELD(max_objects)},
    {.name = "SPIN",
     .default_text = "auto",
     .help =
         "how long an executor looks for the next command before it sleeps, at most "
         "10ms: auto = 50us with at least 4 processors, else 20us",
     .parser = &tp_config_spin,
     FIELD(spin_ns)},
};

/* Variables of our other programs, which may be set where the daemon starts. */
static const struct tp_config_entry foreign[] = {
    {.name = "SERVERS",
     .default_text = "",
     .help = "see telpher(1)",
     .parser = &tp_config_string},
    {.name = "LIBOPENCL",
     .default_text = "",
     .help = "see telpherd(8)",
     .parser = &tp_config_string},
};

enum { OPT_CHECK = 256, OPT_HELP, OPT_VERSION, OPT_CONFIG, OPT_SETTING };

static const struct option long_options[] = {
    {"listen", required_argument, NULL, OPT_SETTING},
    {"socket", required_argument, NULL, OPT_SETTING},
    {"group", required_argument, NULL, OPT_SETTING},
    {"device", required_argument, NULL, OPT_SETTING},
    {"cookie", required_argument, NULL, OPT_SETTING},
    {"executor", required_argument, NULL, OPT_SETTING},
    {"kernel-timeout", required_argument, NULL, OPT_SETTING},
    {"probe-timeout", required_argument, NULL, OPT_SETTING},
    {"max-sessions", required_argument, NULL, OPT_SETTING},
    {"max-objects", required_argument, NULL, OPT_SETTING},
    {"spin", required_argument, NULL, OPT_SETTING},
    {"log", required_argument, NULL, OPT_SETTING},
    {"log-format", required_argument, NULL, OPT_SETTING},
    {"insecure", no_argument, NULL, OPT_SETTING},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"check-config", no_argument, NULL, OPT_CHECK},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help_text[] =
    "usage: telpherd [OPTION]...\n"
    "Offers the OpenCL devices of this machine to programs elsewhere.\n"
    "\n"
    "  --listen ADDR            listen on TCP host[:port] (default port 7717); may be\n"
    "                           given several times; off loopback only with "
    "--insecure\n"
    "  --socket PATH|none       Unix socket (default: /run/telpher/telpherd.sock, for "
    "an\n"
    "                           ordinary user below $XDG_RUNTIME_DIR)\n"
    "  --group NAME             let this group use the Unix socket, too\n"
    "  --device PATTERN         offer only matching devices; may be given several "
    "times\n"
    "  --cookie FILE            cookie for clients on loopback TCP\n"
    "  --kernel-timeout TIME    end sessions whose driver makes no progress (default: "
    "0,\n"
    "                           never)\n"
    "  --probe-timeout TIME     time for drivers to tell their devices (default: 30s)\n"
    "  --max-sessions N         sessions at the same time (default: 256)\n"
    "  --max-objects N          objects and commands of one session (default: "
    "1000000)\n"
    "  --spin TIME              look for commands so long before sleeping (default: "
    "auto)\n"
    "  --insecure               allow addresses off loopback: no encryption, no "
    "cookie\n"
    "  --executor PATH          program that runs sessions\n"
    "  --config FILE            read settings: lines like \"listen = 127.0.0.1\"\n"
    "  --check-config           check settings and exit\n"
    "  --log SPEC               warn, info, debug, ... or warn,broker:debug\n"
    "  --log-format FORM        text or logfmt\n"
    "  --version, --help\n"
    "\n"
    "It stays in the foreground. SIGTERM ends it, SIGHUP asks the drivers again.\n";

/* What the command line says, before it is put to work. */
struct parsed {
    const char *config_path;
    bool seen_listen, seen_device;
};

static enum tp_daemon_verdict
complain(enum tp_daemon_verdict verdict, const char *text)
{
    (void)fprintf(stderr, "telpherd: %s%s\n", text,
                  verdict == TP_DAEMON_BAD_USAGE ? "; see telpherd --help" : "");
    return verdict;
}

/* NOLINTBEGIN(concurrency-mt-unsafe): getopt_long, while there is one thread */

/* First pass: everything that is no setting. */
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
        case OPT_SETTING:
            break;
        default: /* getopt has told what is wrong */
            return complain(TP_DAEMON_BAD_USAGE, "not started");
        }
    }
    return optind == argc ? TP_DAEMON_RUN
                          : complain(TP_DAEMON_BAD_USAGE, "takes no arguments");
}

/* Gives one option's value; a list grows with each use of its option. */
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
            return tp_error_set(err, TELPHER_ERR_LIMIT, "too many values");
        }
    }
    if (snprintf(text + len, sizeof(text) - len, "%s", value) >=
        (int)(sizeof(text) - len)) {
        return tp_error_set(err, TELPHER_ERR_LIMIT, "value too long");
    }
    *seen = true;
    return tp_config_set(config, name, text, name, err);
}

/* Second pass: the settings, which win over file and environment. */
static enum tp_daemon_verdict
parse_settings(int argc, char **argv, struct parsed *p, struct tp_daemon_options *o)
{
    struct tp_error err = {0};
    telpher_status status = TELPHER_OK;
    int opt, index = 0;

    optind = 1;
    while (status == TELPHER_OK &&
           (opt = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        const char *name = long_options[index].name;

        if (opt != OPT_SETTING) {
            continue;
        }
        if (strcmp(name, "listen") == 0) {
            status =
                set_option(o->config, name, optarg, &o->listen, &p->seen_listen, &err);
        } else if (strcmp(name, "device") == 0) {
            status =
                set_option(o->config, name, optarg, &o->device, &p->seen_device, &err);
        } else {
            status = tp_config_set(o->config, name, optarg != NULL ? optarg : "yes",
                                   name, &err);
        }
    }
    return status == TELPHER_OK ? TP_DAEMON_RUN
                                : complain(TP_DAEMON_BAD_USAGE, tp_error_text(&err));
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
    return status == TELPHER_OK ? TP_DAEMON_RUN
                                : complain(TP_DAEMON_BAD_CONFIG, tp_error_text(&err));
}

enum tp_daemon_verdict
tp_daemon_options_load(int argc, char **argv, struct tp_daemon_options *ret_options)
{
    struct tp_daemon_options *o = ret_options;
    struct tp_config_room rooms[] = {
        {"base", tp_settings_entries, tp_settings_entry_count, &o->base},
        {"daemon", entries, TP_ARRAY_LEN(entries), o},
        {"other", foreign, TP_ARRAY_LEN(foreign), NULL},
    };
    struct parsed p = {.config_path = NULL};
    struct tp_error err = {0};
    enum tp_daemon_verdict verdict;

    *o = (struct tp_daemon_options){.config = NULL};
    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &o->config) != TELPHER_OK) {
        return complain(TP_DAEMON_BAD_CONFIG, "out of memory");
    }
    verdict = parse_special(argc, argv, &p, o);
    if (verdict == TP_DAEMON_RUN) {
        verdict = load_sources(&p, o);
    }
    if (verdict == TP_DAEMON_RUN) {
        verdict = parse_settings(argc, argv, &p, o);
    }
    if (verdict == TP_DAEMON_RUN && tp_settings_apply(&o->base, &err) != TELPHER_OK) {
        verdict = complain(TP_DAEMON_BAD_CONFIG, tp_error_text(&err));
    }
    return verdict;
}

void
tp_daemon_options_fini(struct tp_daemon_options *options)
{
    tp_config_destroy(options->config);
    options->config = NULL;
}
