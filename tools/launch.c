/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher launch: starts the ranks of a job here, or on other hosts by ssh, has them meet,
 * and ends them all when one fails, or starts them again. The job's secret goes to other hosts by standard input,
 * never by a command line that others could read.
 */
#include "bind.h"
#include "telpher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <telpher/root.h>

enum {
    RANKS_MAX = 4096,
    HOSTS_MAX = 1024,
    PARTS_MAX = 64,
    KILL_AFTER_S = 5,
    LISTEN_S = 2, /* in which ranks that lost another one may end by themselves */
    SPARE_DESCRIPTORS = 128
};

#define PARENT "TELPHER_AMPI_PARENT"

/** A program and how many ranks run it. */
struct part {
    int ranks;
    const char *folder; /* that they run in; NULL: this one */
    char **program;
};

struct launch_options {
    int ranks; /* of all parts */
    struct part parts[PARTS_MAX];
    int part_count;
    const char *hosts[HOSTS_MAX];
    size_t host_count;
    const char *root_host, *transports;
    uint64_t timeout_ns;
    int restarts;
    bool keep_going, label, shrink, bind;
};

/** One started rank. */
struct rank {
    pid_t pid; /* 0 once it has ended */
    pid_t label_pid; /* of what labels its output, or 0 */
};

static const char usage[] =
    "usage: telpher launch [OPTION]... [--] PROGRAM [ARG]...\n"
    "       telpher launch [OPTION]... -- PROGRAM [ARG]... : -n N [--wdir FOLDER] -- "
    "PROGRAM [ARG]...\n\n"
    "Starts PROGRAM as the ranks of a job, which find each other; several programs as\n"
    "the ranks of one job.\n\n";
static const char tail[] =
    "\n  telpher launch -n 4 -- ./program\n"
    "  telpher launch -n 8 -H host1,host2 -- ./program    four on each\n\n"
    "Rank 0 has the standard input. The exit code is that of the first rank that\n"
    "failed, 128 + N if signal N ended it; 127 if PROGRAM is not found, 126 if it\n"
    "cannot be run. Ranks see TELPHER_RANK, TELPHER_SIZE, TELPHER_ROOT and\n"
    "TELPHER_JOB, and TELPHER_PART, the number of their program.\n";

/* A name that begins with '-' ssh would take for an option. */
static bool
add_hosts(void *place, const char *list)
{
    struct launch_options *o = place;
    char *names = strdup(list); /* kept for good */

    for (char *host = names != NULL ? strtok(names, ",") : NULL; host != NULL;
         host = strtok(NULL, ",")) {
        if (o->host_count == HOSTS_MAX || host[0] == '-') {
            return false;
        }
        o->hosts[o->host_count++] = host;
    }
    return names != NULL;
}

static bool
parse_bind(void *place, const char *text)
{
    bool *bind = place;

    *bind = strcmp(text, "core") == 0;
    return *bind || strcmp(text, "none") == 0;
}

/* @return -1 to go on, or the exit code */
static int
parse_options(int argc, char **argv, struct launch_options *o)
{
    const struct cli_option options[] = {
        CLI_INT('n', "ranks", "N", "how many; without it one, or one for each host",
                &o->ranks, 1, RANKS_MAX),
        CLI_CALL('H', "hosts", "LIST",
                 "hosts with commas between, over which ranks are spread in\n"
                 "equal blocks; hosts other than this one are reached by ssh",
                 o, add_hosts),
        CLI_TEXT(0, "root-host", "NAME",
                 "how other hosts reach this one; else its host name", &o->root_host),
        CLI_CALL(0, "timeout", "TIME",
                 "time for all ranks to connect: 30s, 500ms; else\n"
                 "TELPHER_START_TIMEOUT, or 60s",
                 &o->timeout_ns, parse_duration),
        CLI_TEXT(0, "transports", "LIST", "how ranks reach each other: shm, ucx, tcp",
                 &o->transports),
        CLI_CALL(0, "bind", "WHAT",
                 "core: each rank runs on a core of its own, if there are at least\n"
                 "as many cores as ranks; ranks on this host only; none (default)",
                 &o->bind, parse_bind),
        CLI_FLAG('l', "label", "begin each line of output with the rank", &o->label),
        CLI_FLAG('k', "keep-going", "when a rank fails, let the others go on",
                 &o->keep_going),
        CLI_INT('r', "restart", "N",
                "when a signal ends a rank, or its host is lost, start all again\n"
                "on the hosts left, at most N times; objects go on from their\n"
                "last checkpoint",
                &o->restarts, 0, 1000000),
        CLI_TEXT(0, "wdir", "FOLDER", "working folder of the program; else this one",
                 &o->parts[0].folder),
        CLI_FLAG(0, "shrink", "start again without the ranks that ended", &o->shrink),
        CLI_RUNS_PROGRAM,
    };

    if (argc > 1 && strcmp(argv[1], "-np") == 0) {
        return cli_wrong("launch", "-np is mpirun's: write -n 4, for example");
    }
    return cli_read(argc, argv, usage, tail, options,
                    sizeof(options) / sizeof(options[0]));
}

/* Reads `-n N [--wdir FOLDER] -- PROGRAM [ARG]...` after a ":". @return -1 to go on, or the exit code */
static int
parse_part(int argc, char **argv, struct part *part)
{
    const struct cli_option options[] = {
        CLI_INT('n', "ranks", "N", NULL, &part->ranks, 1, RANKS_MAX),
        CLI_TEXT(0, "wdir", "FOLDER", NULL, &part->folder),
        CLI_RUNS_PROGRAM,
    };
    int code = cli_read(argc, argv, usage, tail, options,
                        sizeof(options) / sizeof(options[0]));

    part->program = argv + optind;
    return code;
}

/* The next ":" before an option; a program may have other ones among its arguments. */
static char **
find_part(char **program)
{
    for (; *program != NULL; program++) {
        if (strcmp(*program, ":") == 0 && program[1] != NULL &&
            (strcmp(program[1], "-n") == 0 || strcmp(program[1], "--ranks") == 0)) {
            return program;
        }
    }
    return NULL;
}

/* Divides the command line at each ":". @return -1 to go on, or the exit code */
static int
parse_parts(struct launch_options *o, char *command, char **program)
{
    int code = -1;

    o->parts[0].ranks = o->ranks;
    o->parts[0].program = program;
    o->part_count = 1;
    for (char **next = find_part(program); next != NULL && code < 0;
         next = find_part(program)) {
        struct part *part = &o->parts[o->part_count];
        char **end = next + 1;
        int argc = 1;

        if (o->part_count++ == PARTS_MAX - 1) {
            return cli_wrong("launch", "a job has at most %d programs", PARTS_MAX - 1);
        }
        *next = NULL;
        while (*end != NULL) {
            end++;
            argc++;
        }
        *next = command; /* in the place of the command's own name */
        code = parse_part(argc, next, part);
        *next = NULL;
        program = part->program;
        o->ranks += part->ranks;
    }
    if (code < 0 && o->part_count > 1 && o->shrink) {
        return cli_wrong("launch", "--shrink takes one program");
    }
    return code;
}

/* ---- starting ---- */

static const struct part *
part_of(const struct launch_options *o, long rank)
{
    const struct part *part = o->parts;

    while (part < &o->parts[o->part_count - 1] && rank >= part->ranks) {
        rank -= part++->ranks;
    }
    return part;
}

static const char *
host_of(const struct launch_options *o, long rank)
{
    return o->host_count == 0
               ? "localhost"
               : o->hosts[(size_t)rank * o->host_count / (size_t)o->ranks];
}

/* Adds NAME=value if there is a value. */
static int
add_variable(char *dst, size_t cap, int len, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0' || len <= 0 || (size_t)len >= cap) {
        return len;
    }
    return len + snprintf(dst + len, cap - (size_t)len, "%s=%s\n", name, value);
}

/** The variables of a rank, one "NAME=value" a line. */
static int
write_variables(const struct launch_options *o, const telpher_root *root, long rank,
                const char *root_host, char *dst, size_t cap)
{
    int len = snprintf(dst, cap,
                       "TELPHER_RANK=%ld\nTELPHER_SIZE=%d\nTELPHER_ROOT=%s:%u\n"
                       "TELPHER_ROOT_BY=launcher\nTELPHER_JOB=%s\n"
                       "TELPHER_START_TIMEOUT=%.3fs\nTELPHER_PART=%d\n",
                       rank, o->ranks, root_host, telpher_root_port(root),
                       telpher_root_job(root), 1e-9 * (double)o->timeout_ns,
                       (int)(part_of(o, rank) - o->parts));
    len = add_variable(dst, cap, len, "TELPHER_TRANSPORTS", o->transports);
    len = add_variable(dst, cap, len, "TELPHER_MDR_CHECKPOINT",
                       telpher_config_get("TELPHER_MDR_CHECKPOINT"));
    len = add_variable(dst, cap, len, PARENT, getenv(PARENT));
    return len > 0 && (size_t)len < cap ? 0 : -1;
}

static void
set_variables(char *variables)
{
    char *rest = NULL;

    for (char *line = strtok_r(variables, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');

        *value++ = '\0';
        setenv(line, value, 1);
    }
}

static void
exec_here(const struct launch_options *o, long rank, char **program, char *variables)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (rank != 0 && null >= 0) {
        dup2(null, STDIN_FILENO);
    }
    set_variables(variables);
    if (o->bind && bind_to_core((int)rank) != 0) {
        fprintf(stderr, "telpher: cannot bind rank %ld to a core: %s\n", rank,
                strerror(errno));
        _exit(EXIT_CANNOT_RUN);
    }
    become_program(program);
}

/** Copies lines from @p fd to standard output, each with its rank in front. */
static void
label_lines(long rank, int fd)
{
    FILE *in = fdopen(fd, "r");
    char *line = NULL;
    size_t cap = 0;

    while (in != NULL && getline(&line, &cap, in) > 0) {
        printf("%ld: %s%s", rank, line, strchr(line, '\n') != NULL ? "" : "\n");
        fflush(stdout);
    }
    _exit(0);
}

static pid_t
start_label(long rank, int *ret_out)
{
    int lines[2];
    pid_t pid;

    if (pipe2(lines, O_CLOEXEC) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        close(lines[1]);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        label_lines(rank, lines[0]);
    }
    close(lines[0]);
    *ret_out = lines[1];
    return pid;
}

/* The root has a descriptor a rank. The ranks get the limit that we were given. */
static struct rlimit descriptors;

static void
raise_descriptors(long ranks)
{
    const rlim_t need = (rlim_t)ranks + SPARE_DESCRIPTORS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur < need) {
        limit = descriptors;
        limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* In the new process. */
static void
exec_rank(const struct launch_options *o, long number, char *variables)
{
    const char *host = host_of(o, number);
    const struct part *part = part_of(o, number);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    if (part->folder != NULL && chdir(part->folder) != 0) {
        failure("rank %ld: cannot run in %s: %s", number, part->folder,
                strerror(errno));
        _exit(EXIT_CANNOT_RUN);
    }
    if (host_is_here(host)) {
        exec_here(o, number, part->program, variables);
    }
    host_exec(host, part->program, variables);
}

static int
start_rank(const struct launch_options *o, const telpher_root *root,
           const char *root_host, long number, struct rank *ret_rank)
{
    static char variables[2048];
    int out = -1;

    if (write_variables(o, root, number, root_host, variables, sizeof(variables) - 2) !=
        0) {
        return failure("rank %ld: its variables take more than %zu bytes: shorten "
                       "--transports or TELPHER_MDR_CHECKPOINT",
                       number, sizeof(variables) - 2);
    }
    if (o->label) {
        ret_rank->label_pid = start_label(number, &out);
    }
    ret_rank->pid = fork();
    if (ret_rank->pid == 0) {
        if (out >= 0) {
            dup2(out, STDOUT_FILENO);
            dup2(out, STDERR_FILENO);
        }
        exec_rank(o, number, variables);
    }
    if (out >= 0) {
        close(out);
    }
    return ret_rank->pid > 0
               ? 0
               : failure("cannot start rank %ld (fork): %s", number, strerror(errno));
}

/* ---- waiting ---- */

static volatile sig_atomic_t taken_signal; /* the signal that we were sent */

static void
take_signal(int sig)
{
    taken_signal = sig;
}

static pid_t parent; /* the process that called MPI_Comm_spawn */

/* The signal also comes when the thread that called it ends. */
static void
take_parent_death(int sig)
{
    (void)sig;
    if (getppid() != parent) {
        taken_signal = SIGTERM;
    }
}

static void
end_with_parent(void)
{
    struct sigaction take = {.sa_handler = take_parent_death};

    parent = getppid();
    sigaction(SIGUSR1, &take, NULL);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
}

static void
set_signals(void)
{
    struct sigaction take = {.sa_handler = take_signal};

    sigaction(SIGTERM, &take, NULL);
    sigaction(SIGINT, &take, NULL);
    sigaction(SIGHUP, &take, NULL);
    sigaction(SIGALRM, &take, NULL);
}

static void
signal_all(struct rank *ranks, long count, int sig)
{
    for (long r = 0; r < count; r++) {
        if (ranks[r].pid > 0) {
            kill(ranks[r].pid, sig);
        }
    }
}

static int ended_ranks; /* by signals that were not ours */

/* An exit code above EXIT_SIGNAL is a signal's, by a shell here or on another host; but exit(-1)
 * is 255.
 * @return whether a signal that was not ours ended the rank */
static bool
count_ended(int code, bool ending)
{
    int sig = code - EXIT_SIGNAL;
    bool ours =
        ending && (sig == SIGTERM || (sig == SIGKILL && taken_signal == SIGALRM));

    bool other = sig > 0 && sig <= SIGRTMAX && !ours;

    ended_ranks += other;
    return other;
}

/** Marks the rank of a process as ended, and tells the bootstrap server. Once the others were told to
 *  end, reports only a signal that this process did not send: that rank may have ended before the one
 *  that was seen first.
 *  @return its exit code as a shell gives it */
static int
take_ended(const struct launch_options *o, struct rank *ranks, long count, pid_t pid,
           int status, bool ending, telpher_root *root)
{
    int code =
        WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);

    for (long r = 0; r < count; r++) {
        if (ranks[r].pid == pid) {
            const char *program = part_of(o, r)->program[0];

            ranks[r].pid = 0;
            telpher_root_rank_ended(root, (uint32_t)r);
            if (!count_ended(code, ending) && ending) {
                return code; /* we ended it */
            }
            if (WIFSIGNALED(status)) {
                failure("rank %ld (%s) was ended by signal %d, %s", r, program,
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
            } else if (code != 0 && !ending) {
                failure("rank %ld (%s) failed with exit code %d", r, program, code);
            }
            return code;
        }
    }
    return 0; /* what labelled a rank's output */
}

static long
still_running(const struct rank *ranks, long count)
{
    long running = 0;

    for (long r = 0; r < count; r++) {
        running += ranks[r].pid > 0;
    }
    return running;
}

static bool
is_far(const struct launch_options *o)
{
    for (size_t i = 0; i < o->host_count; i++) {
        if (!host_is_here(o->hosts[i])) {
            return true;
        }
    }
    return false;
}

/** How a job ends: a rank has failed, and the others were told to end. */
enum ending { RUNS, FAILED, TOLD /* SIGTERM was sent */ };

static void
tell_to_end(struct rank *ranks, long count, enum ending *ending)
{
    *ending = TOLD;
    signal_all(ranks, count, SIGTERM);
    alarm(KILL_AFTER_S);
}

/* Ends the other ranks after one has @p failed, or after a signal. An ssh that SIGTERM ends does not
 * say how its rank ended. So where that decides whether the job starts again, ranks that lost
 * another one get time to end by themselves. */
static void
end_others(const struct launch_options *o, struct rank *ranks, long count, bool failed,
           enum ending *ending)
{
    if (taken_signal == SIGALRM && *ending == FAILED) {
        taken_signal = 0;
        tell_to_end(ranks, count, ending);
    } else if (taken_signal == SIGALRM) {
        signal_all(ranks, count, SIGKILL);
    } else if (*ending != TOLD && taken_signal != 0) {
        tell_to_end(ranks, count, ending);
    } else if (*ending == RUNS && failed && o->restarts > 0 && is_far(o)) {
        *ending = FAILED;
        alarm(LISTEN_S);
    } else if (*ending == RUNS && failed) {
        tell_to_end(ranks, count, ending);
    }
}

/** Waits for all. When one fails the others are told to end, and killed if they do not. */
static int
wait_all(const struct launch_options *o, struct rank *ranks, long count,
         telpher_root *root)
{
    enum ending ending = RUNS;
    int code = 0;

    while (still_running(ranks, count) > 0) {
        int status = 0, failed = 0;
        pid_t pid = waitpid(-1, &status, 0);

        if (pid > 0) {
            failed = take_ended(o, ranks, count, pid, status, ending != RUNS, root);
            code = code != 0 || ending != RUNS ? code : failed;
        }
        if (taken_signal != 0 && taken_signal != SIGALRM && ending != TOLD) {
            code = EXIT_SIGNAL + taken_signal;
        }
        end_others(o, ranks, count, failed != 0 && !o->keep_going, &ending);
    }
    for (long r = 0; r < count; r++) {
        if (ranks[r].label_pid > 0) {
            waitpid(ranks[r].label_pid, NULL, 0);
            ranks[r].label_pid = 0;
        }
    }
    return code;
}

static int
run_job(const struct launch_options *o)
{
    static struct rank ranks[RANKS_MAX];
    char name[256] = "127.0.0.1";
    telpher_root *root = NULL;
    telpher_error err = {0};
    bool far = is_far(o) || o->root_host != NULL; /* hosts may be lost */
    int code = 0;
    long started = 0;
    int ended_with;

    if (far) {
        gethostname(name, sizeof(name) - 1);
    }
    raise_descriptors(o->ranks);
    if (telpher_root_start(far ? "0.0.0.0:0" : "127.0.0.1:0", (uint32_t)o->ranks, NULL,
                           o->timeout_ns, &root, &err) != TELPHER_OK) {
        return failure("%s", err.text);
    }
    while (code == 0 && started < o->ranks) {
        code = start_rank(o, root, o->root_host != NULL ? o->root_host : name, started,
                          &ranks[started]);
        started += code == 0;
    }
    if (code != 0) {
        signal_all(ranks, started, SIGTERM);
        alarm(KILL_AFTER_S);
    }
    ended_with = wait_all(o, ranks, started, root);
    telpher_root_stop(root);
    return code != 0 ? code : ended_with;
}

static int
ranks_on(const struct launch_options *o, size_t host)
{
    int count = 0;

    for (long r = 0; r < o->ranks; r++) {
        count += (size_t)r * o->host_count / (size_t)o->ranks == host;
    }
    return count;
}

/* Takes hosts that do not answer off the list; their ranks count as ended by a signal. */
static void
drop_lost_hosts(struct launch_options *o)
{
    size_t left = 0;
    int lost = 0;

    for (size_t i = 0; i < o->host_count; i++) {
        if (host_answers(o->hosts[i])) {
            left++;
            continue;
        }
        failure("host %s does not answer", o->hosts[i]);
        lost += ranks_on(o, i);
        o->hosts[i] = NULL;
    }
    if (left == 0) {
        o->host_count = 0;
        o->restarts = 0;
    }
    if (lost == 0 || left == 0) {
        return;
    }
    ended_ranks = lost > ended_ranks ? lost : ended_ranks;
    left = 0;
    for (size_t i = 0; i < o->host_count; i++) {
        if (o->hosts[i] != NULL) {
            o->hosts[left++] = o->hosts[i];
        }
    }
    o->host_count = left;
}

/* @return true if the job shall start again */
static bool
starts_again(struct launch_options *o, int code)
{
    alarm(0);
    if (code != 0 && o->restarts > 0 && is_far(o) &&
        (taken_signal == 0 || taken_signal == SIGALRM)) {
        drop_lost_hosts(o);
    }
    if (code == 0 || ended_ranks == 0 || o->restarts == 0 ||
        (taken_signal != 0 && taken_signal != SIGALRM)) {
        return false;
    }
    taken_signal = 0;
    o->restarts--;
    o->ranks -= o->shrink ? ended_ranks : 0;
    o->ranks = o->ranks < 1 ? 1 : o->ranks;
    ended_ranks = 0;
    fprintf(stderr, "telpher: starting again, %d rank%s\n", o->ranks,
            o->ranks == 1 ? "" : "s");
    return true;
}

/* Ranks that share a core would wait for each other, so too many ranks are not bound.
 * @return -1, or the exit status */
static int
check_bind(struct launch_options *o)
{
    int cores;

    if (!o->bind) {
        return -1;
    }
    if (is_far(o)) {
        return cli_wrong("launch",
                         "--bind core binds ranks of this host only: bind the "
                         "others by the program, taskset for example");
    }
    cores = bind_count_cores();
    if (o->ranks > cores) {
        failure("%d ranks on %d cores are not bound", o->ranks, cores);
        o->bind = false;
    }
    return -1;
}

static int
launch(struct launch_options *o)
{
    char folder[64] = "";
    int code = 0;

    if (o->restarts > 0) {
        code = checkpoint_folder_make(folder, sizeof(folder));
    }

    if (code != 0) {
        return code;
    }
    set_signals();
    do {
        code = run_job(o);
    } while (starts_again(o, code));
    checkpoint_folder_remove(folder);
    for (size_t i = 0; i < o->host_count && folder[0] != '\0'; i++) {
        host_remove_folder(o->hosts[i], folder);
    }
    return code;
}

int
command_launch(int argc, char **argv)
{
    const char *timeout = telpher_config_get("TELPHER_START_TIMEOUT");
    struct launch_options o = {.timeout_ns = UINT64_C(60000000000)};
    int code;

    if (timeout != NULL && timeout[0] != '\0' &&
        !parse_duration(&o.timeout_ns, timeout)) {
        return cli_wrong("launch", "TELPHER_START_TIMEOUT \"%s\" is no time", timeout);
    }
    code = parse_options(argc, argv, &o);
    if (code >= 0) {
        return code;
    }
    if (o.ranks == 0) {
        o.ranks = o.host_count != 0 ? (int)o.host_count : 1;
    }
    code = parse_parts(&o, argv[0], argv + optind);
    if (code < 0) {
        code = check_bind(&o);
    }
    if (code >= 0) {
        return code;
    }
    if (getenv(PARENT) != NULL) {
        end_with_parent();
    }
    return launch(&o);
}
