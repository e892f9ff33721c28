/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher run: sets the environment so that the program's OpenCL is Telpher's, runs it and
 * gives its exit code. Without servers, or for "local", it starts a private telpherd.
 */
#include "telpher.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_config.h"

#define CHECK_NS 1500000000 /* for a server to answer, as the OpenCL library waits */

struct run_options {
    const char *servers; /* NULL = local */
    const char *trace, *log;
    bool keep_native;
};

static const char usage[] =
    "usage: telpher run [OPTION]... [--] PROGRAM [ARG]...\n\n"
    "Runs an OpenCL program so that it sees the devices of the servers.\n\n";
static const char tail[] =
    "\nThe exit code is the program's; 127 if it is not found, 126 if it cannot be "
    "run,\n"
    "128 + N if signal N ended it.\n";

/** @return -1 to go on, else the exit code. */
static int
parse_options(int argc, char **argv, struct run_options *o)
{
    const struct cli_option options[] = {
        CLI_TEXT('s', "servers", "LIST",
                 "host[:port], unix:/path or local, with commas between;\n"
                 "without it $TELPHER_SERVERS, else local: a private\n"
                 "telpherd with this machine's devices",
                 &o->servers),
        CLI_FLAG('n', "native", "show this machine's own OpenCL platforms as well",
                 &o->keep_native),
        CLI_TEXT(0, "trace", "FILE",
                 "write every frame into FILE (Chrome trace; %p = process)", &o->trace),
        CLI_TEXT(0, "log", "SPEC", "log level: error, warn, info, debug; icd:debug",
                 &o->log),
        CLI_RUNS_PROGRAM,
    };

    return cli_read(argc, argv, usage, tail, options,
                    sizeof(options) / sizeof(options[0]));
}

/** Writes the .icd file that names our library into @p dir. */
static int
write_icd(const char *dir)
{
    static const char name[] = "libtelpher-opencl.so." TP_BUILD_SONAME_VERSION;
    char library[PATH_MAX], path[PATH_MAX];
    FILE *file;

    if (find_artefact("../lib", TP_BUILD_BIN_TO_LIB, name, library, sizeof(library)) !=
        0) {
        failure("the OpenCL library %s is missing: is Telpher installed whole?",
                library);
        return -1;
    }
    snprintf(path, sizeof(path), "%s/telpher.icd", dir);
    file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s\n", library) < 0 || fclose(file) != 0) {
        failure("writing %s: %s", path, strerror(errno));
        return -1;
    }
    return 0;
}

/** Copies a list of addresses; "local" becomes the private daemon's socket. */
static int
copy_servers(const char *text, const char *socket_path, char *dst, size_t cap,
             bool *ret_local)
{
    size_t len = 0;

    dst[0] = '\0';
    *ret_local = false;
    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        bool is_local = n == 5 && strncmp(text, "local", 5) == 0;

        len += (size_t)snprintf(dst + len, cap - len, "%s%.*s", len == 0 ? "" : ",",
                                is_local ? (int)strlen(socket_path) : (int)n,
                                is_local ? socket_path : text);
        if (len >= cap) {
            return failure("the list of servers is longer than %zu bytes with local's "
                           "socket: name fewer with -s",
                           cap);
        }
        *ret_local |= is_local;
        text += n + (text[n] == ',');
    }
    return 0;
}

static void
set_environment(const struct run_options *o, const char *servers, const char *vendors)
{
    setenv("TELPHER_SERVERS", servers, 1);
    if (!o->keep_native) {
        /* ocl-icd and the Khronos loader both take a folder here. */
        setenv("OCL_ICD_VENDORS", vendors, 1);
        setenv("OPENCL_VENDOR_PATH", vendors, 1);
        unsetenv("OCL_ICD_FILENAMES");
    }
    if (o->trace != NULL) {
        setenv("TELPHER_TRACE", o->trace, 1);
    }
    if (o->log != NULL) {
        setenv("TELPHER_LOG", o->log, 1);
    }
}

static volatile sig_atomic_t child_pid;

static void
forward(int sig)
{
    if (child_pid > 0) {
        kill(child_pid, sig);
    }
}

/** Terminal signals reach the program anyway; what others send us goes on to it. */
static void
set_signals(void)
{
    struct sigaction pass = {.sa_handler = forward}, ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGTERM, &pass, NULL);
    sigaction(SIGHUP, &pass, NULL);
    sigaction(SIGUSR1, &pass, NULL);
    sigaction(SIGUSR2, &pass, NULL);
    sigaction(SIGINT, &ignore, NULL);
    sigaction(SIGQUIT, &ignore, NULL);
}

/** Devices of one server; if there are none @p why says so, in one line. */
static unsigned
count_devices(const char *address, char *why, size_t cap)
{
    telpher_error err = {0};
    unsigned count = 0;

    if (server_count_devices(address, CHECK_NS, &count, &err) != TELPHER_OK) {
        snprintf(why, cap, "%s", err.text);
    } else if (count == 0) {
        snprintf(why, cap,
                 "%s has no OpenCL device: install a driver there, such as "
                 "pocl-opencl-icd, and see telpherd's log",
                 address[0] == '/' ? "this machine" : address);
    }
    return count;
}

/** The program only sees that it has no device: here is why. It runs meanwhile. */
static void
warn_without_devices(const char *servers)
{
    struct addresses list;
    unsigned count = 0;
    char why[512] = "";

    if (addresses_parse("run", servers, &list) != 0) {
        return;
    }
    for (size_t i = 0; i < list.count && count == 0; i++) {
        char reason[sizeof(why)];

        count += count_devices(list.item[i], reason, sizeof(reason));
        if (why[0] == '\0') {
            snprintf(why, sizeof(why), "%s", reason);
        }
    }
    if (count == 0) {
        failure("the program has no device: %s%s", why,
                list.count > 1 ? " (nor have the other servers: telpher devices)" : "");
    }
    addresses_free(&list);
}

static int
run_program(char **argv, const char *servers)
{
    int status = 0;
    pid_t pid = fork();

    if (pid < 0) {
        return failure("cannot start %s (fork): %s", argv[0], strerror(errno));
    }
    if (pid == 0) {
        become_program(argv);
    }
    child_pid = pid;
    set_signals();
    warn_without_devices(servers);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static void
remove_folder(const char *dir)
{
    static const char *const files[] = {"telpher.icd", "telpherd.sock", "notify"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        unlink(path);
    }
    if (rmdir(dir) != 0) {
        failure("removing %s: %s", dir, strerror(errno));
    }
}

/** Everything between making the folder and removing it. */
static int
run_in(const char *dir, const struct run_options *o, char **program)
{
    struct private_daemon daemon = {0};
    char servers[8192];
    bool local;
    int code;

    snprintf(daemon.socket, sizeof(daemon.socket), "%s/telpherd.sock", dir);
    if (write_icd(dir) != 0 ||
        copy_servers(o->servers, daemon.socket, servers, sizeof(servers), &local) !=
            0 ||
        (local && private_daemon_start(dir, &daemon) != 0)) {
        return EXIT_FAILURE;
    }
    set_environment(o, servers, dir);
    code = run_program(program, servers);
    private_daemon_stop(&daemon);
    return code;
}

int
command_run(int argc, char **argv)
{
    struct run_options o = {0};
    struct addresses list;
    const char *tmp = getenv("TMPDIR");
    char dir[100];
    int code = parse_options(argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    if (o.servers == NULL) {
        o.servers = telpher_config_get("TELPHER_SERVERS");
    }
    if (o.servers == NULL || o.servers[0] == '\0') {
        o.servers = "local";
    }
    code = addresses_parse("run", o.servers, &list); /* a wrong list is said now */
    if (code != 0) {
        return code;
    }
    addresses_free(&list);
    /* A socket's path is short: a long TMPDIR will not do. */
    snprintf(dir, sizeof(dir), "%s/telpher-XXXXXX",
             tmp != NULL && strlen(tmp) < 60 ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return failure("making %s: %s", dir, strerror(errno));
    }
    code = run_in(dir, &o, argv + optind);
    remove_folder(dir);
    return code;
}
