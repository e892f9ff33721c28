/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the executor and the programs for single connections, and describes how a process ended. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "build_config.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/session/sessions.h"

#define EXECUTOR "telpher-executor"
#define HANDSHAKER "telpher-handshake"
#define RELAY "telpher-relay"

enum { PATH_BYTES = 1024 };

extern char **environ;

/* Tries folder/between/name. */
static bool
try_place(char dst[PATH_BYTES], const char *folder, const char *between,
          const char *name)
{
    int len = snprintf(dst, PATH_BYTES, "%s/%s%s", folder, between, name);

    return len > 0 && len < PATH_BYTES && access(dst, X_OK) == 0;
}

/* Finds a program beside telpherd, else in the libexec folder of this build or
 * installation. */
static void
find_program(const char *name, char dst[PATH_BYTES])
{
    char self[PATH_BYTES - 100] = "";
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = len > 0 ? strrchr(self, '/') : NULL;

    if (slash != NULL) {
        *slash = '\0';
    }
    if (!try_place(dst, self, "", name) &&
        !try_place(dst, self, "../libexec/telpher/", name)) {
        (void)try_place(dst, self, TP_BUILD_BIN_TO_LIBEXEC "/", name);
    }
}

void
tp_broker_find_programs(struct tp_broker *b)
{
    ssize_t len;

    if (b->options->executor[0] != '\0') {
        (void)snprintf(b->executor, sizeof(b->executor), "%s", b->options->executor);
    } else {
        find_program(EXECUTOR, b->executor);
    }
    find_program(HANDSHAKER, b->handshaker);
    find_program(RELAY, b->relay);
    len = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
    b->self[len > 0 ? len : 0] = '\0';
}

/* Makes the executor's environment: ours, plus a mark that disables our own ICD. */
static char **
make_environment(void)
{
    static char mark[] = "TELPHER_EXECUTOR=1";
    size_t count = 0, n = 0;
    char **env;

    while (environ[count] != NULL) {
        count++;
    }
    env = tp_alloc_array(count + 2, sizeof(*env), "environment");
    if (env == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        /* already read as the setting of the same name */
        if (strncmp(environ[i], "TELPHER_EXECUTOR=", 17) != 0) {
            env[n++] = environ[i];
        }
    }
    env[n] = mark;
    return env;
}

/* Numbers as text. */
struct numbers {
    char limits[TP_DAEMON_LIMIT_COUNT][TP_DAEMON_LIMIT_TEXT];
    char spin[32], cache_size[32], share[32];
    char cache[1024];
};

/* Finds the folder of the cache; "" = none. */
static void
find_cache(const struct tp_daemon_options *o, char *dst, size_t size)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): the broker has one thread */
    const char *cache_home = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    /* NOLINTEND(concurrency-mt-unsafe) */

    dst[0] = '\0';
    if (strcmp(o->cache, "none") == 0) {
        return;
    }
    if (o->cache[0] != '\0') {
        (void)snprintf(dst, size, "%s", o->cache);
    } else if (cache_home != NULL && cache_home[0] == '/') {
        (void)snprintf(dst, size, "%s/telpher", cache_home);
    } else if (home != NULL && home[0] == '/') {
        (void)snprintf(dst, size, "%s/.cache/telpher", home);
    }
}

/* Arguments point into the options and into @p text. */
static const char **
make_arguments(const struct tp_broker *b, const struct tp_broker_session *s,
               struct numbers *text)
{
    const struct tp_daemon_options *o = b->options;
    const char **argv = tp_alloc_array(
        2 * (o->device.count + o->driver_files.count + TP_DAEMON_LIMIT_COUNT) + 28,
        sizeof(*argv), "arguments");
    size_t n = 0;

    if (argv == NULL) {
        return NULL;
    }
    (void)snprintf(text->spin, sizeof(text->spin), "%llu",
                   (unsigned long long)o->spin_ns);
    argv[n++] = b->executor;
    argv[n++] = s == NULL ? "--probe" : "--serve";
    argv[n++] = "--log";
    argv[n++] = o->base.log;
    argv[n++] = "--log-format";
    argv[n++] = o->base.log_format == 0 ? "text" : "logfmt";
    for (size_t i = 0; i < TP_DAEMON_LIMIT_COUNT; i++) {
        tp_daemon_limit_print(&o->limits, i, text->limits[i]);
        argv[n++] = "--limit";
        argv[n++] = text->limits[i];
    }
    argv[n++] = "--spin-ns";
    argv[n++] = text->spin;
    find_cache(o, text->cache, sizeof(text->cache));
    (void)snprintf(text->cache_size, sizeof(text->cache_size), "%llu",
                   (unsigned long long)o->cache_size);
    argv[n++] = "--peer-address";
    argv[n++] = o->peer_address;
    argv[n++] = "--cache";
    argv[n++] = text->cache;
    argv[n++] = "--cache-size";
    argv[n++] = text->cache_size;
    if (s != NULL && s->share_slot < b->share.slot_count) {
        (void)snprintf(text->share, sizeof(text->share), "%u/%u", s->share_slot,
                       b->share.slot_count);
        argv[n++] = "--share";
        argv[n++] = text->share;
    }
    for (size_t i = 0; i < o->device.count; i++) {
        argv[n++] = "--device";
        argv[n++] = o->device.items[i];
    }
    for (size_t i = 0; i < o->driver_files.count; i++) {
        argv[n++] = "--driver-file";
        argv[n++] = o->driver_files.items[i];
    }
    return argv;
}

/* Sets default signals, none blocked, and a new process group: the broker handles ^C for
 * its children. */
static void
set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none, all;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_setsigmask(attr, &none);
    (void)posix_spawnattr_setsigdefault(attr, &all);
    (void)posix_spawnattr_setpgroup(attr, 0);
    (void)posix_spawnattr_setflags(
        attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

/* All other descriptors of the broker are close-on-exec. */
static void
set_descriptors(posix_spawn_file_actions_t *actions, bool probe, int fd, int share_fd)
{
    (void)posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (probe) {
        (void)posix_spawn_file_actions_adddup2(actions, fd, 1);
    } else {
        (void)posix_spawn_file_actions_adddup2(actions, fd, TP_CONTROL_FD);
        (void)posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    }
    if (share_fd > 0) {
        (void)posix_spawn_file_actions_adddup2(actions, share_fd, TP_SHARE_FD);
    }
}

/* Starts a program. Frees @p argv. */
static telpher_status
spawn_program(const char **argv, bool probe, int fd, int share_fd, pid_t *ret_pid,
              struct tp_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char **env = make_environment();
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (env != NULL && argv != NULL) {
        int error;

        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawnattr_init(&attr);
        set_descriptors(&actions, probe, fd, share_fd);
        set_attributes(&attr);
        error = posix_spawn(ret_pid, argv[0], &actions, &attr,
                            (char *const *)(uintptr_t)argv, env);
        status = error == 0
                     ? TELPHER_OK
                     : tp_error_set_errno(err, error, "cannot start %s", argv[0]);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)posix_spawnattr_destroy(&attr);
    }
    tp_free(env);
    tp_free(argv);
    return status;
}

telpher_status
tp_broker_spawn(struct tp_broker *b, const struct tp_broker_session *s, int fd,
                pid_t *ret_pid, struct tp_error *err)
{
    struct numbers text;

    return spawn_program(make_arguments(b, s, &text), s == NULL, fd,
                         s != NULL ? b->share_fd : 0, ret_pid, err);
}

telpher_status
tp_broker_spawn_handshake(struct tp_broker *b, int fd, pid_t *ret_pid,
                          struct tp_error *err)
{
    const struct {
        const char *option, *value;
    } pairs[] = {
        {"--ca", b->files.ca},
        {"--cert", b->files.cert},
        {"--key", b->files.key},
        {"--psk", b->files.psk},
        {"--log", b->options->base.log},
        {"--log-format", b->options->base.log_format == 0 ? "text" : "logfmt"},
    };
    const char **argv =
        tp_alloc_array(2 * TP_ARRAY_LEN(pairs) + 2, sizeof(*argv), "arguments");
    size_t n = 0;

    if (argv == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    argv[n++] = b->handshaker;
    for (size_t i = 0; i < TP_ARRAY_LEN(pairs); i++) {
        if (pairs[i].value[0] != '\0') {
            argv[n++] = pairs[i].option;
            argv[n++] = pairs[i].value;
        }
    }
    return spawn_program(argv, false, fd, 0, ret_pid, err);
}

telpher_status
tp_broker_spawn_relay(struct tp_broker *b, int fd, pid_t *ret_pid, struct tp_error *err)
{
    const struct tp_config_list *to = &b->options->relay_to;
    const char **argv = tp_alloc_array(to->count + 6, sizeof(*argv), "arguments");
    size_t n = 0;

    if (argv == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    argv[n++] = b->relay;
    argv[n++] = b->options->base.log;
    argv[n++] = b->options->base.log_format == 0 ? "text" : "logfmt";
    for (size_t i = 0; i < to->count; i++) {
        argv[n++] = to->items[i];
    }
    return spawn_program(argv, false, fd, 0, ret_pid, err);
}

telpher_status
tp_broker_spawn_self(struct tp_broker *b, const char **argv, int fd, pid_t *ret_pid,
                     struct tp_error *err)
{
    return spawn_program(argv, false, fd, 0, ret_pid, err);
}

void
tp_broker_describe_end(int wait_status, char *dst, size_t size)
{
    dst[0] = '\0';
    if (WIFSIGNALED(wait_status)) {
        int number = WTERMSIG(wait_status);

        (void)snprintf(dst, size, "executor killed by signal %d (%s)", number,
                       sigdescr_np(number) != NULL ? sigdescr_np(number) : "unknown");
    } else if (WEXITSTATUS(wait_status) != 0) {
        (void)snprintf(dst, size, "executor ended with status %d",
                       WEXITSTATUS(wait_status));
    }
}
