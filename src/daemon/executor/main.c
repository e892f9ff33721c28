/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-executor, which only telpherd starts. --probe queries the drivers for their
 * devices and writes the facts to standard output. --serve runs the session that arrives
 * on descriptor 3.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/os/spin.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/cache/cache.h"
#include "daemon/control.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/file_access.h"
#include "daemon/executor/program/build_cache.h"
#include "daemon/executor/quirks.h"
#include "device/opencl/temporary.h"
#include "telpher/version.h"

enum {
    SESSION_WAIT_MS = 10000,
    PATTERNS_MAX = 256,
    FILES_MAX = 256,
};

struct arguments {
    bool probe, serve, printed;
    struct tp_daemon_limits limits;
    uint64_t spin_ns;
    struct tp_exec_cache_params cache;
    const char *peer_address;
    uint32_t share_slot, share_count; /**< count 0: no page */
    const char *patterns[PATTERNS_MAX];
    size_t pattern_count;
    const char *files[FILES_MAX]; /**< that may be read as well */
    size_t file_count;
};

/* ---- drivers ---- */

/* Kernels run in this process: it shall read what drivers need, its part of the cache, and the
 * folder @p temporary, if there is one. */
static void
restrict_files(const struct arguments *a, const char *temporary)
{
    const char *files[FILES_MAX + 2];
    char cache[1024];
    size_t count = a->file_count;

    memcpy(files, a->files, count * sizeof(*files));
    if (tp_exec_cache_folder(&a->cache, cache, sizeof(cache))) {
        tp_cache_make_folders(cache);
        files[count++] = cache;
    }
    if (temporary[0] != '\0') {
        files[count++] = temporary;
    }
    tp_opencl_vendors_open();
    tp_exec_restrict_files(files, count, a->file_count > 0);
}

/* Loads the drivers, without our own ICD, and lists their devices. */
static telpher_status
load_drivers(struct tp_exec *x, const struct arguments *a, struct tp_error *err)
{
    struct tp_error hide_err = {0};
    char hidden[1024], temporary[PATH_MAX] = "";
    telpher_status status;

    if (a->serve && !tp_opencl_temporary_folder(temporary)) {
        temporary[0] = '\0';
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no driver is loaded, so no thread runs */
    (void)setenv("TELPHER_EXECUTOR", "1", 1);
    if (tp_opencl_vendors_hide(hidden, sizeof(hidden), &hide_err) != TELPHER_OK) {
        tp_warn("opencl", "cannot hide our own driver from the loader: %s",
                tp_error_text(&hide_err));
    }
    status = tp_opencl_load(&x->cl, err);
    if (status == TELPHER_OK && a->serve) {
        restrict_files(a, temporary);
    }
    if (status == TELPHER_OK) {
        status = tp_opencl_inventory_init(&x->cl, a->patterns, a->pattern_count,
                                          &x->inventory, err);
    }
    tp_opencl_vendors_remove(hidden);
    return status;
}

/* ---- probe ---- */

static int
write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = write(fd, data, len);

        if (sent < 0 && errno != EINTR) {
            return EX_IOERR;
        }
        if (sent > 0) {
            data += sent;
            len -= (size_t)sent;
        }
    }
    return EX_OK;
}

static int
run_probe(struct tp_exec *x, const struct arguments *a)
{
    struct tp_error err = {0};
    struct tp_buf facts;
    int out = dup(STDOUT_FILENO), exit_status;
    telpher_status status;

    /* output of drivers must not mix with the facts */
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    tp_buf_init(&facts, 0);
    status = load_drivers(x, a, &err);
    if (status == TELPHER_ERR_NOT_FOUND) {
        tp_warn("opencl", "%s", tp_error_text(&err));
        return EX_OK; /* without OpenCL: an empty list */
    }
    if (status == TELPHER_OK) {
        status = tp_opencl_facts(&x->cl, &x->inventory, &facts);
    }
    if (status != TELPHER_OK) {
        tp_error("executor", "%s",
                 err.code != 0 ? tp_error_text(&err) : telpher_status_text(status));
        return EX_SOFTWARE;
    }
    exit_status = write_all(out, tp_buf_data(&facts), tp_buf_len(&facts));
    tp_buf_fini(&facts);
    return exit_status;
}

/* ---- serve ---- */

static int
receive_session(struct tp_exec *x, char *ret_room, size_t room_size)
{
    struct pollfd fd = {.fd = TP_CONTROL_FD, .events = POLLIN};
    uint8_t rest[TP_TLS_PLAIN_MAX];
    struct tp_control msg;
    struct tp_conn *conn;
    telpher_status status;
    int socket;

    if (poll(&fd, 1, SESSION_WAIT_MS) != 1 ||
        tp_control_receive_rest(TP_CONTROL_FD, &msg, rest, &socket) != TELPHER_OK ||
        msg.type != TP_CONTROL_SESSION || socket < 0) {
        tp_error("executor",
                 "no session came from the daemon on descriptor %d; the "
                 "executor is started by telpherd only",
                 TP_CONTROL_FD);
        return EX_USAGE;
    }
    x->platform = msg.platform;
    x->device_count = msg.device_count;
    memcpy(x->session, msg.session, sizeof(x->session));
    (void)snprintf(ret_room, room_size, "%s", msg.text);
    status = tp_control_adopt(&msg, rest, socket, &conn);
    explicit_bzero(&msg.tls, sizeof(msg.tls)); /* drivers will run in this process */
    if (status != TELPHER_OK) {
        return EX_OSERR;
    }
    if (tp_stream_create(conn, &msg.numbers, x->limits.unread_bytes, &x->stream) !=
        TELPHER_OK) {
        return EX_OSERR;
    }
    tp_stream_trace_session(x->stream, x->session);
    tp_stream_accept_fds(x->stream);
    tp_stream_accept_short(x->stream);
    x->resumes = msg.resumes;
    x->drains = msg.drains;
    if (msg.resumes) {
        tp_stream_keep(x->stream);
    }
    return EX_OK;
}

/* Loads the drivers and creates the state of the session. */
static telpher_status
start_session(struct tp_exec *x, const struct arguments *a, struct tp_error *err)
{
    telpher_status status = load_drivers(x, a, err);

    if (status == TELPHER_OK && (x->inventory.device_count != x->device_count ||
                                 x->platform >= x->inventory.platform_count)) {
        status =
            tp_error_set(err, TELPHER_ERR_DEVICE_LOST,
                         "the server's devices have changed since telpherd looked; "
                         "send it SIGHUP and connect again");
    }
    if (status == TELPHER_OK) {
        tp_exec_quirks_init(x);
        x->spin_ns = tp_spin_time(a->spin_ns, 0);
        status = tp_exec_prepare(x);
        if (status != TELPHER_OK) {
            (void)tp_error_set(err, status, "cannot start a session: %s",
                               telpher_status_text(status));
        }
    }
    return status;
}

/* Joins the sessions that share the devices. Without memory for it, it shares nothing. */
static void
join_share(struct tp_exec *x, const struct arguments *a)
{
    const uint64_t max[TP_SHARE_AMOUNT_COUNT] = {
        [TP_SHARE_memory] = x->limits.user_memory_bytes,
        [TP_SHARE_host] = x->limits.user_host_bytes,
        [TP_SHARE_objects] = x->limits.user_objects,
        [TP_SHARE_builds] = x->limits.user_builds};

    if (a->share_count > 0) {
        if (tp_share_map(&x->share.share, TP_SHARE_FD, a->share_count) != TELPHER_OK) {
            tp_warn("opencl",
                    "this session does not share device time with others: its page of "
                    "%u slots cannot be mapped",
                    a->share_count);
        }
        (void)close(TP_SHARE_FD);
    }
    tp_share_join(&x->share, a->share_slot, max);
}

static int
run_session(struct tp_exec *x, struct arguments *a)
{
    struct tp_error err = {0};
    struct tp_wire_started m;
    const char *text = "";
    char room[TP_CONTROL_TEXT_BYTES];
    int exit_status;

    x->limits = a->limits;
    join_share(x, a);
    x->peers.address = a->peer_address;
    exit_status = receive_session(x, room, sizeof(room));
    if (exit_status != EX_OK) {
        return exit_status;
    }
    a->cache.room = room;
    m.status = start_session(x, a, &err);
    if (m.status == TELPHER_OK) {
        x->cache = tp_exec_cache_create(x, &a->cache);
    }
    if (m.status != TELPHER_OK) {
        text = tp_error_text(&err);
    }
    m.text = (struct tp_wire_bytes){(uint32_t)strlen(text), text};
    tp_exec_put(x, TP_WIRE_STARTED, &m);
    if (m.status != TELPHER_OK) {
        tp_exec_die(x, m.status, text);
    }
    tp_exec_flush(x);
    return tp_exec_serve(x);
}

/* ---- main ---- */

static const struct option long_options[] = {
    {"probe", no_argument, NULL, 'p'},
    {"serve", no_argument, NULL, 's'},
    {"log", required_argument, NULL, 'l'},
    {"log-format", required_argument, NULL, 'f'},
    {"limit", required_argument, NULL, 'k'},
    {"spin-ns", required_argument, NULL, 'i'},
    {"cache", required_argument, NULL, 'c'},
    {"cache-size", required_argument, NULL, 'C'},
    {"peer-address", required_argument, NULL, 'a'},
    {"share", required_argument, NULL, 'h'},
    {"device", required_argument, NULL, 'd'},
    {"driver-file", required_argument, NULL, 'r'},
    {"quirks", no_argument, NULL, 'q'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static int
take_option(struct arguments *a, int opt)
{
    switch (opt) {
    case 'p':
        a->probe = true;
        return EX_OK;
    case 's':
        a->serve = true;
        return EX_OK;
    case 'l':
        return tp_log_configure(optarg, NULL) == TELPHER_OK ? EX_OK : EX_USAGE;
    case 'f':
        (void)tp_log_set_format(strcmp(optarg, "logfmt") == 0 ? TP_LOG_LOGFMT
                                                              : TP_LOG_TEXT);
        return EX_OK;
    case 'k':
        return tp_daemon_limit_read(&a->limits, optarg) == TELPHER_OK ? EX_OK
                                                                      : EX_USAGE;
    case 'i':
        a->spin_ns = strtoull(optarg, NULL, 10);
        return EX_OK;
    case 'c':
        a->cache.folder = optarg;
        return EX_OK;
    case 'a':
        a->peer_address = optarg;
        return EX_OK;
    case 'h':
        return sscanf(optarg, "%" SCNu32 "/%" SCNu32, &a->share_slot,
                      &a->share_count) == 2
                   ? EX_OK
                   : EX_USAGE;
    case 'C':
        a->cache.size_max = strtoull(optarg, NULL, 10);
        return EX_OK;
    case 'd':
        if (a->pattern_count == PATTERNS_MAX) {
            return EX_USAGE;
        }
        a->patterns[a->pattern_count++] = optarg;
        return EX_OK;
    case 'r':
        if (a->file_count == FILES_MAX) {
            return EX_USAGE;
        }
        a->files[a->file_count++] = optarg;
        return EX_OK;
    case 'q':
        tp_exec_quirks_print(stdout);
        a->printed = true;
        return EX_OK;
    case 'v':
        (void)printf("telpher-executor %s\n", TELPHER_VERSION_STRING);
        a->printed = true;
        return EX_OK;
    default:
        return EX_USAGE;
    }
}

/* Ensures that the session does not outlive the daemon and dumps no client data. If the
 * daemon has ended before, the reader sees the end of the control socket. */
static void
confine_process(void)
{
    const struct rlimit none = {0, 0};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGPIPE, SIG_IGN);
}

int
main(int argc, char **argv)
{
    static struct arguments a = {.spin_ns = TP_SPIN_AUTO};
    static struct tp_exec x;
    int opt, exit_status = EX_OK;

    tp_log_set_name("telpher-executor");
    /* NOLINTBEGIN(concurrency-mt-unsafe): getopt_long, while there is one thread */
    confine_process();
    tp_daemon_limits_none(&a.limits);
    while (exit_status == EX_OK &&
           (opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        exit_status = take_option(&a, opt);
    }
    /* NOLINTEND(concurrency-mt-unsafe) */
    if (exit_status == EX_OK && a.printed) {
        return EX_OK;
    }
    if (exit_status != EX_OK || a.probe == a.serve) {
        (void)fprintf(stderr,
                      "telpher-executor is started by telpherd; see telpherd(8)\n");
        return EX_USAGE;
    }
    tp_trace_set_process_name("telpher-executor");
    tp_trace_start_env();
    exit_status = a.probe ? run_probe(&x, &a) : run_session(&x, &a);
    (void)tp_trace_stop(NULL);
    /* skip destructors: threads of drivers may still run and crash in them */
    _exit(exit_status);
}
