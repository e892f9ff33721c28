/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that a rank starts: a job of their own, by `telpher launch`, whose MPI_Init connects to
 * a port of the root. The launcher is a child of the root's process, which waits for it at its end.
 */
#include "ampi/dynamic/dynamic.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ampi/info.h"
#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/os/descriptor.h"

enum { PATH_BYTES = 4096, NUMBER_BYTES = 16, EXIT_OF_SIGNAL = 128 };
#define PARENT "TELPHER_AMPI_PARENT"

extern char **environ;

/** Arguments of MPI_Comm_spawn_multiple(). */
struct order {
    int count;
    char **commands;
    char ***argvs;
    const int *maxprocs;
    const MPI_Info *infos;
};

/** A launcher that this process has started. */
struct launcher {
    struct tp_list link;
    pid_t pid; /* 0: it has ended */
    int status;
    struct tp_ampi_comm *comm; /* to the ranks that it started; NULL: disconnected */
};

static struct tp_list launchers = {&launchers, &launchers};

/* ---- command line ---- */

/** Words that are being collected, each allocated. */
struct words {
    char **at;
    size_t count;
    bool failed; /* no memory */
};

static void
add_word(struct words *w, const char *text)
{
    char **at = tp_realloc_array(w->at, w->count + 2, sizeof(char *), "command line");

    if (at != NULL) {
        w->at = at;
        w->at[w->count] = tp_strdup(text, "command line");
        w->failed |= w->at[w->count] == NULL;
        w->count += w->at[w->count] != NULL;
        w->at[w->count] = NULL;
    }
    w->failed |= at == NULL;
}

static void
free_words(struct words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        tp_free(w->at[i]);
    }
    tp_free(w->at);
}

static const char *
hint(MPI_Info info, const char *key)
{
    const struct tp_ampi_info *found = tp_ampi_info_get(info);

    return found != NULL ? tp_ampi_info_find(found, key) : NULL;
}

/* A command that is found in a folder of the hint `path`, else the command itself. */
static void
add_command(struct words *w, const char *command, MPI_Info info)
{
    const char *folders = hint(info, "path");
    char path[PATH_BYTES];

    while (folders != NULL && *folders != '\0' && strchr(command, '/') == NULL) {
        int len = (int)strcspn(folders, ": ");

        (void)snprintf(path, sizeof(path), "%.*s/%s", len, folders, command);
        if (len != 0 && access(path, X_OK) == 0) {
            add_word(w, path);
            return;
        }
        folders += (size_t)len + (folders[len] != '\0');
    }
    add_word(w, command);
}

static void
add_part(struct words *w, const struct order *o, int part)
{
    MPI_Info info = o->infos != NULL ? o->infos[part] : MPI_INFO_NULL;
    const char *folder = hint(info, "wdir");
    char number[NUMBER_BYTES];

    (void)snprintf(number, sizeof(number), "%d", o->maxprocs[part]);
    add_word(w, "-n");
    add_word(w, number);
    if (folder != NULL) {
        add_word(w, "--wdir");
        add_word(w, folder);
    }
    add_word(w, "--");
    add_command(w, o->commands[part], info);
    for (char **arg = o->argvs != NULL ? o->argvs[part] : NULL;
         arg != NULL && *arg != NULL; arg++) {
        add_word(w, *arg);
    }
}

/* The launcher of this installation, else that of PATH. */
static void
find_launcher(char *path, size_t cap)
{
    char *slash = NULL;
    Dl_info info;

    if (dladdr((const void *)(uintptr_t)tp_ampi_meet_parent, &info) != 0) {
        (void)snprintf(path, cap, "%s", info.dli_fname);
        slash = strrchr(path, '/');
    }
    if (slash != NULL) {
        (void)snprintf(slash, cap - (size_t)(slash - path), "/../bin/telpher");
    }
    if (slash == NULL || access(path, X_OK) != 0) {
        (void)snprintf(path, cap, "telpher");
    }
}

static const char *
hosts_of(const struct order *o)
{
    return hint(o->infos != NULL ? o->infos[0] : MPI_INFO_NULL, "host");
}

static void
write_command(struct words *w, const struct order *o)
{
    char launcher[PATH_BYTES];

    find_launcher(launcher, sizeof(launcher));
    add_word(w, launcher);
    add_word(w, "launch");
    if (hosts_of(o) != NULL) {
        add_word(w, "-H");
        add_word(w, hosts_of(o));
    }
    for (int i = 0; i < o->count; i++) {
        if (i != 0) {
            add_word(w, ":");
        }
        add_part(w, o, i);
    }
}

/* ---- the launcher ---- */

static void
write_environment(struct words *w, const char *port)
{
    char text[sizeof(PARENT) + 1 + MPI_MAX_PORT_NAME];

    for (char **at = environ; *at != NULL; at++) {
        add_word(w, *at);
    }
    (void)snprintf(text, sizeof(text), PARENT "=%s", port);
    add_word(w, text);
}

/* @return 0, or errno */
static int
start(const struct order *o, const char *port, pid_t *ret_pid)
{
    struct words command = {.at = NULL}, environment = {.at = NULL};
    posix_spawn_file_actions_t actions;
    int why = ENOMEM;

    write_command(&command, o);
    write_environment(&environment, port);
    if (!command.failed && !environment.failed &&
        posix_spawn_file_actions_init(&actions) == 0) {
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                               O_RDONLY, 0);
        why = posix_spawnp(ret_pid, command.at[0], &actions, NULL, command.at,
                           environment.at);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    free_words(&command);
    free_words(&environment);
    return why;
}

/* True if the launcher has ended, whose status is then known. */
static bool
has_ended(void *user)
{
    struct launcher *l = user;

    if (l->pid != 0 && waitpid(l->pid, &l->status, WNOHANG) == l->pid) {
        l->pid = 0;
    }
    return l->pid == 0;
}

static int
code_of(const struct launcher *l)
{
    return WIFSIGNALED(l->status) ? EXIT_OF_SIGNAL + WTERMSIG(l->status)
                                  : WEXITSTATUS(l->status);
}

/* At exit: waits for the jobs that this process has started. */
static void
wait_for_all(void)
{
    tp_list_for_each_entry(struct launcher, l, &launchers, link) {
        if (l->pid != 0) {
            (void)waitpid(l->pid, &l->status, 0);
        }
    }
}

static struct launcher *
make_launcher(void)
{
    static bool registered;
    struct launcher *l = tp_zalloc(sizeof(*l), "launcher");

    if (l != NULL && !registered && atexit(wait_for_all) != 0) {
        tp_free(l);
        return NULL;
    }
    registered |= l != NULL;
    return l;
}

void
tp_ampi_forget_spawned(const struct tp_ampi_comm *comm)
{
    tp_list_for_each_entry(struct launcher, l, &launchers, link) {
        l->comm = l->comm == comm ? NULL : l->comm;
    }
}

void
tp_ampi_check_spawned(void)
{
    tp_list_for_each_entry_safe(struct launcher, l, &launchers, link) {
        if (!has_ended(l)) {
            continue;
        }
        if (l->comm != NULL && l->status != 0) {
            (void)fprintf(stderr,
                          "telpher-ampi: a job that this one started has ended with "
                          "status %d: the job ends\n",
                          code_of(l));
            tp_ampi_abort(code_of(l));
        }
        tp_list_remove(&l->link);
        tp_free(l);
    }
}

/* ---- the root ---- */

/* Starts the job and accepts its connection. @return the descriptor, or -1: @p why says */
static int
start_and_accept(const struct order *o, struct launcher *l, char *why, size_t cap)
{
    bool far = hosts_of(o) != NULL ||
               telpher_context_local_size(tp_ampi.ctx) != tp_ampi.processes;
    char port[MPI_MAX_PORT_NAME];
    int listener = tp_ampi_socket_listen(far, port), fd = -1, error;

    if (listener < 0) {
        (void)snprintf(why, cap, "cannot listen for them: %s", strerror(errno));
        return -1;
    }
    error = start(o, port, &l->pid);
    if (error != 0) {
        (void)snprintf(why, cap, "the launcher `telpher` does not start: %s",
                       strerror(error));
    } else {
        fd = tp_ampi_socket_accept(listener, port, has_ended, l);
        if (l->pid == 0) {
            (void)snprintf(why, cap,
                           "the processes ended with status %d before MPI_Init",
                           code_of(l));
        }
    }
    tp_descriptor_close(listener);
    return fd;
}

/* @return processes to be started, or 0: the numbers are wrong */
static int
count_processes(const struct order *o)
{
    int total = 0;

    for (int i = 0; i < o->count; i++) {
        if (o->maxprocs[i] < 0 || o->maxprocs[i] > INT16_MAX ||
            o->commands[i] == NULL) {
            return 0;
        }
        total += o->maxprocs[i];
    }
    return total;
}

struct outcome {
    int32_t error, total;
};

static struct outcome
prepare(const struct order *o, const struct launcher *l, char *why, size_t cap)
{
    int total = count_processes(o);

    if (total == 0) {
        (void)snprintf(why, cap, "there is no process to start");
        return (struct outcome){MPI_ERR_ARG, 0};
    }
    if (l == NULL) {
        (void)snprintf(why, cap, "no memory");
    }
    return (struct outcome){l == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS, total};
}

static int
spawn(const struct order *o, struct tp_ampi_comm *comm, int root,
      struct tp_ampi_comm **ret, int *errcodes)
{
    struct outcome outcome = {MPI_SUCCESS, 0};
    struct launcher *l = comm->rank == root ? make_launcher() : NULL;
    char why[128] = "they have no connection; the root's error may say more";
    int fd = -1, error;

    tp_ampi.connecting++;
    if (comm->rank == root) {
        outcome = prepare(o, l, why, sizeof(why));
    }
    if (comm->rank == root && outcome.error == MPI_SUCCESS) {
        fd = start_and_accept(o, l, why, sizeof(why));
        outcome.error = fd < 0 ? MPI_ERR_SPAWN : MPI_SUCCESS;
    }
    error = tp_ampi_root_tells(comm, root, &outcome, sizeof(outcome));
    error = error == MPI_SUCCESS ? outcome.error : error;
    for (int i = 0; errcodes != MPI_ERRCODES_IGNORE && i < outcome.total; i++) {
        errcodes[i] = error;
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_connect_by(comm, root, fd, MPI_SUCCESS, ret);
    }
    tp_ampi.connecting--;
    if (l != NULL && l->pid != 0) {
        l->comm = error == MPI_SUCCESS ? *ret : NULL;
        tp_list_init(&l->link);
        tp_list_push_back(&launchers, &l->link);
    } else {
        tp_free(l);
    }
    return tp_ampi_error(comm, error, "cannot start processes: %s", why);
}

/* ---- calls ---- */

int
PMPI_Comm_spawn_multiple(int count, char *commands[], char **argvs[],
                         const int maxprocs[], const MPI_Info infos[], int root,
                         MPI_Comm handle, MPI_Comm *ret, int errcodes[])
{
    const struct order order = {count, commands, argvs, maxprocs, infos};
    struct tp_ampi_comm *comm, *inter = NULL;
    int error;

    tp_ampi_enter();
    *ret = MPI_COMM_NULL;
    error = tp_ampi_find_connectable(handle, root, &comm);
    if (error == MPI_SUCCESS) {
        error = spawn(&order, comm, root, &inter, errcodes);
    }
    if (error == MPI_SUCCESS) {
        *ret = inter->handle;
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_spawn_multiple);

int
PMPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info,
                int root, MPI_Comm comm, MPI_Comm *ret, int errcodes[])
{
    char *commands[1] = {(char *)(uintptr_t)command};

    return PMPI_Comm_spawn_multiple(1, commands, &argv, &maxprocs, &info, root, comm,
                                    ret, errcodes);
}
TP_MPI_NAME(Comm_spawn);

int
PMPI_Comm_get_parent(MPI_Comm *parent)
{
    *parent = tp_ampi.ctx != NULL ? tp_ampi_current()->parent : MPI_COMM_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_get_parent);

/* ---- the started job ---- */

int
tp_ampi_meet_parent(struct tp_ampi_rank *rank)
{
    static char port[MPI_MAX_PORT_NAME];
    const char *set = tp_settings_get("AMPI_PARENT");
    struct tp_ampi_comm *inter;
    int fd = -1, error;

    if (set != NULL) { /* programs that this one starts do not connect to the parent */
        (void)snprintf(port, sizeof(port), "%s", set);
        (void)unsetenv(PARENT);
    }
    if (port[0] == '\0') {
        return MPI_SUCCESS;
    }
    if (rank->comm_world->rank == 0) {
        fd = tp_ampi_socket_connect(port);
    }
    error = tp_ampi_connect_by(
        rank->comm_world, 0, fd,
        fd < 0 && rank->comm_world->rank == 0 ? MPI_ERR_PORT : MPI_SUCCESS, &inter);
    if (error != MPI_SUCCESS) {
        return tp_ampi_error(rank->comm_world, error,
                             "cannot connect to the job that started this one, at %s",
                             port);
    }
    (void)snprintf(inter->name, sizeof(inter->name), "MPI_COMM_PARENT");
    rank->parent = inter->handle;
    return MPI_SUCCESS;
}
