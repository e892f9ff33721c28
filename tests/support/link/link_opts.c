/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of the test link, and the readers of its units. */
#include "link_int.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    double factor;
};

/* Reads a number with one of the units behind it. */
static bool
parse_units(const char *text, const struct unit *units, double max, double *ret_value)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || !(value >= 0)) {
        return false;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(end, units->name) == 0) {
            *ret_value = value * units->factor;
            return *ret_value <= max;
        }
    }
    return false;
}

bool
link_parse_duration(const char *text, int64_t *ret_ns)
{
    static const struct unit units[] = {
        {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
    double value;

    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return true;
    }
    if (!parse_units(text, units, 1e15, &value)) {
        return false;
    }
    *ret_ns = (int64_t)value;
    return true;
}

bool
link_parse_rate(const char *text, uint64_t *ret_bps)
{
    static const struct unit units[] = {
        {"bit", 1}, {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {NULL, 0}};
    double value;

    if (strcmp(text, "none") == 0) {
        *ret_bps = 0;
        return true;
    }
    if (!parse_units(text, units, 1e12, &value) || value < 1) {
        return false;
    }
    *ret_bps = (uint64_t)value;
    return true;
}

static bool
parse_size(const char *text, uint64_t *ret_bytes)
{
    static const struct unit units[] = {
        {"", 1},       {"B", 1},         {"kB", 1e3},      {"MB", 1e6}, {"GB", 1e9},
        {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};
    double value;

    if (!parse_units(text, units, 1e15, &value)) {
        return false;
    }
    *ret_bytes = (uint64_t)value;
    return true;
}

bool
link_parse_loss(const char *text, double *ret_loss)
{
    static const struct unit units[] = {{"", 1}, {"%", 0.01}, {NULL, 0}};

    return parse_units(text, units, 1, ret_loss);
}

bool
link_parse_dir(const char *text, int *ret_dir)
{
    if (strcmp(text, "a2b") == 0) {
        *ret_dir = LINK_A2B;
    } else if (strcmp(text, "b2a") == 0) {
        *ret_dir = LINK_B2A;
    } else {
        return false;
    }
    return true;
}

/* Reads DIR:BYTES. */
static bool
parse_trigger(const char *text, enum link_event event, struct link_opts *opts)
{
    char dir_name[4] = "";
    uint64_t bytes;
    int dir;

    if (strlen(text) < 5 || text[3] != ':') {
        return false;
    }
    memcpy(dir_name, text, 3);
    if (!link_parse_dir(dir_name, &dir) || !parse_size(text + 4, &bytes)) {
        return false;
    }
    opts->trigger[dir].event = event;
    opts->trigger[dir].at_bytes = bytes;
    return true;
}

static bool
parse_uint(const char *text, uint64_t max, uint64_t *ret_value)
{
    return parse_size(text, ret_value) && *ret_value <= max;
}

void
link_usage(FILE *out)
{
    fputs(
        "Usage: link run [OPTION]… --a CMD --b CMD\n"
        "       link ctl SOCKET WORD…\n"
        "\n"
        "Joins two new network namespaces by a link of set quality. Runs CMD of --b "
        "in\n"
        "namespace B (10.77.0.2) and CMD of --a in namespace A (10.77.0.1), each by\n"
        "/bin/sh -c. Ends with A's status; B then gets SIGTERM, and SIGKILL after a "
        "grace.\n"
        "\n"
        "  --delay TIME         one way, both directions (150us, 3ms, 1s; default 0)\n"
        "  --delay-a2b TIME     one direction only; also --delay-b2a\n"
        "  --rate RATE          each direction (1Gbit, 100Mbit, none; default none)\n"
        "  --loss SHARE         of the packets, each direction (0.1% or 0.001; default "
        "0)\n"
        "  --seed N             of the loss (default 1)\n"
        "  --queue SIZE         bytes that may wait for the wire (default 1MB)\n"
        "  --mtu N              576 .. 65535 (default 1500)\n"
        "  --spin TIME          busy wait before a lone packet is due (default 50us)\n"
        "  --cut-at DIR:BYTES   let BYTES of TCP payload through in direction a2b or "
        "b2a,\n"
        "                       then drop everything and take both devices down\n"
        "  --reset-at DIR:BYTES the same, then reset every TCP flow at both ends\n"
        "  --close-at DIR:BYTES the same, then end every TCP flow by FIN at both ends\n"
        "  --move-at DIR:BYTES  the same, then give A another address (10.77.0.3)\n"
        "  --blackhole-at DIR:BYTES  the same, then drop everything in silence\n"
        "  --damage-at DIR:BYTES  the same, then change one bit of the next byte\n"
        "  --for TIME           end of that black hole (default: never)\n"
        "  --wait-port PORT     start A once B listens on this TCP port\n"
        "  --wait-time TIME     … for at most so long (default 10s)\n"
        "  --grace TIME         between B's SIGTERM and SIGKILL (default 2s)\n"
        "  --control SOCKET     Unix datagram socket that takes commands while A "
        "runs:\n"
        "                       cut | reset | close | move | blackhole [a2b|b2a] "
        "[TIME] | heal | "
        "stats |\n"
        "                       set delay TIME | set rate RATE | set loss SHARE\n"
        "  --log FILE           write a line for each TCP segment delivered: sent, "
        "delivered\n"
        "                       [ns], a2b or b2a, ports of A and B, bytes of payload, "
        "flags,\n"
        "                       sequence number, acknowledgement\n"
        "  --stats              print statistics on stderr at the end\n"
        "  --help\n"
        "\n"
        "Bytes are counted over all TCP flows of the direction, retransmissions not.\n"
        "With --loss a receiver may be missing bytes before the place of an event.\n"
        "The commands see LINK_SIDE, LINK_ADDR_A, LINK_ADDR_B and LINK_CONTROL.\n"
        "Exit status 77: the kernel does not permit namespaces or TUN devices here.\n",
        out);
}

enum {
    OPT_A = 256,
    OPT_B,
    OPT_DELAY,
    OPT_DELAY_A2B,
    OPT_DELAY_B2A,
    OPT_RATE,
    OPT_LOSS,
    OPT_SEED,
    OPT_QUEUE,
    OPT_MTU,
    OPT_SPIN,
    OPT_CUT,
    OPT_RESET,
    OPT_CLOSE,
    OPT_MOVE,
    OPT_HOLE,
    OPT_DAMAGE,
    OPT_FOR,
    OPT_WAIT_PORT,
    OPT_WAIT_TIME,
    OPT_GRACE,
    OPT_CONTROL,
    OPT_LOG,
    OPT_STATS
};

static const struct option long_options[] = {
    {"a", 1, NULL, OPT_A},
    {"b", 1, NULL, OPT_B},
    {"delay", 1, NULL, OPT_DELAY},
    {"delay-a2b", 1, NULL, OPT_DELAY_A2B},
    {"delay-b2a", 1, NULL, OPT_DELAY_B2A},
    {"rate", 1, NULL, OPT_RATE},
    {"loss", 1, NULL, OPT_LOSS},
    {"seed", 1, NULL, OPT_SEED},
    {"queue", 1, NULL, OPT_QUEUE},
    {"mtu", 1, NULL, OPT_MTU},
    {"spin", 1, NULL, OPT_SPIN},
    {"cut-at", 1, NULL, OPT_CUT},
    {"reset-at", 1, NULL, OPT_RESET},
    {"close-at", 1, NULL, OPT_CLOSE},
    {"move-at", 1, NULL, OPT_MOVE},
    {"blackhole-at", 1, NULL, OPT_HOLE},
    {"damage-at", 1, NULL, OPT_DAMAGE},
    {"for", 1, NULL, OPT_FOR},
    {"wait-port", 1, NULL, OPT_WAIT_PORT},
    {"wait-time", 1, NULL, OPT_WAIT_TIME},
    {"grace", 1, NULL, OPT_GRACE},
    {"control", 1, NULL, OPT_CONTROL},
    {"log", 1, NULL, OPT_LOG},
    {"stats", 0, NULL, OPT_STATS},
    {NULL, 0, NULL, 0},
};

/* Options of the wire itself. @return false on a bad value or an option not of these. */
static bool
apply_wire_option(int opt, const char *arg, struct link_opts *o)
{
    uint64_t n = 0;
    bool ok;

    switch (opt) {
    case OPT_DELAY:
        ok = link_parse_duration(arg, &o->delay_ns[LINK_A2B]);
        o->delay_ns[LINK_B2A] = o->delay_ns[LINK_A2B];
        return ok;
    case OPT_DELAY_A2B:
        return link_parse_duration(arg, &o->delay_ns[LINK_A2B]);
    case OPT_DELAY_B2A:
        return link_parse_duration(arg, &o->delay_ns[LINK_B2A]);
    case OPT_RATE:
        return link_parse_rate(arg, &o->rate_bps);
    case OPT_LOSS:
        return link_parse_loss(arg, &o->loss);
    case OPT_SEED:
        return parse_uint(arg, UINT64_MAX, &o->seed);
    case OPT_QUEUE:
        return parse_size(arg, &o->queue_bytes);
    case OPT_SPIN:
        return link_parse_duration(arg, &o->spin_ns);
    case OPT_CUT:
        return parse_trigger(arg, LINK_EV_CUT, o);
    case OPT_RESET:
        return parse_trigger(arg, LINK_EV_RESET, o);
    case OPT_CLOSE:
        return parse_trigger(arg, LINK_EV_CLOSE, o);
    case OPT_MOVE:
        return parse_trigger(arg, LINK_EV_MOVE, o);
    case OPT_DAMAGE:
        return parse_trigger(arg, LINK_EV_DAMAGE, o);
    case OPT_HOLE:
        return parse_trigger(arg, LINK_EV_BLACKHOLE, o);
    case OPT_FOR:
        return link_parse_duration(arg, &o->blackhole_ns);
    case OPT_MTU:
        ok = parse_uint(arg, LINK_MTU_MAX, &n) && n >= 576;
        o->mtu = (unsigned)n;
        return ok;
    default:
        return false;
    }
}

/* Options of the programs at its ends. */
static bool
apply_run_option(int opt, const char *arg, struct link_opts *o)
{
    uint64_t n = 0;
    bool ok;

    switch (opt) {
    case OPT_A:
        o->cmd[LINK_A] = arg;
        return true;
    case OPT_B:
        o->cmd[LINK_B] = arg;
        return true;
    case OPT_CONTROL:
        o->control = arg;
        return true;
    case OPT_LOG:
        o->log = arg;
        return true;
    case OPT_STATS:
        o->stats = true;
        return true;
    case OPT_GRACE:
        return link_parse_duration(arg, &o->grace_ns);
    case OPT_WAIT_TIME:
        return link_parse_duration(arg, &o->wait_ns);
    case OPT_WAIT_PORT:
        ok = parse_uint(arg, 65535, &n) && n > 0;
        o->wait_port = (unsigned)n;
        return ok;
    default:
        return false;
    }
}

static void
set_defaults(struct link_opts *opts)
{
    *opts = (struct link_opts){.seed = 1,
                               .queue_bytes = 1000000,
                               .mtu = 1500,
                               .spin_ns = 50000,
                               .grace_ns = 2000000000,
                               .wait_ns = 10000000000};
}

int
link_opts_parse(int argc, char **argv, struct link_opts *opts)
{
    int opt;
    int index = 0;

    set_defaults(opts);
    while ((opt = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (opt == '?') {
            return LINK_EXIT_USAGE; /* getopt has said why */
        }
        if (!apply_wire_option(opt, optarg, opts) &&
            !apply_run_option(opt, optarg, opts)) {
            fprintf(stderr, "link: bad value \"%s\" for --%s\n", optarg,
                    long_options[index].name);
            return LINK_EXIT_USAGE;
        }
    }
    if (optind < argc || opts->cmd[LINK_A] == NULL || opts->cmd[LINK_B] == NULL) {
        fprintf(stderr, "link: both --a CMD and --b CMD are needed, and nothing else; "
                        "see link --help\n");
        return LINK_EXIT_USAGE;
    }
    return 0;
}
