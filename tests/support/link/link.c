/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link: runs two commands in two network namespaces with a link of set quality between
 * them. This file starts and ends the commands and turns the loop; see link --help.
 */
#include "link_int.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LISTEN_CHECK_NS = 2000000, END_ROUNDS = 2000 };

/** How far the run is; only advance() changes it. */
enum run_state {
    RUN_WAIT_B, /* B starts; A waits until it listens */
    RUN_A, /* A runs */
    RUN_END_B, /* A has ended, B has got SIGTERM */
    RUN_DONE /* both have ended */
};

struct run {
    struct link_wire *wire;
    const struct link_opts *opts;
    int signal_fd;
    int control_fd;
    enum run_state state;
    int64_t deadline_ns; /* of RUN_WAIT_B and RUN_END_B */
    int64_t check_ns; /* next look at B's listening sockets */
    pid_t pid[LINK_SIDES];
    int result; /* A's exit status, or our own failure */
};

static _Noreturn void
exec_command(const struct link_opts *opts, const struct link_net *net, int side)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("LINK_SIDE", side == LINK_A ? "a" : "b", 1);
    setenv("LINK_ADDR_A", "10.77.0.1", 1);
    setenv("LINK_ADDR_B", "10.77.0.2", 1);
    setenv("TELPHER_INSECURE", "yes", 0); /* nobody else is on this network */
    if (opts->control != NULL) {
        setenv("LINK_CONTROL", opts->control, 1);
    }
    if (setns(net->ns_fd[side], CLONE_NEWNET) != 0) {
        fprintf(stderr, "link: setns: %s\n", strerror(errno));
        _exit(LINK_EXIT_FAILED);
    }
    execl("/bin/sh", "sh", "-c", opts->cmd[side], (char *)NULL);
    fprintf(stderr, "link: /bin/sh: %s\n", strerror(errno));
    _exit(LINK_EXIT_FAILED);
}

static void
start_command(struct run *r, int side)
{
    pid_t pid = fork();

    if (pid == 0) {
        exec_command(r->opts, r->wire->net, side);
    }
    if (pid < 0) {
        fprintf(stderr, "link: fork: %s\n", strerror(errno));
        r->result = LINK_EXIT_FAILED;
        r->state = RUN_DONE;
        return;
    }
    setpgid(pid, pid); /* also done by the child: whoever is first */
    r->pid[side] = pid;
}

/* Signals the command and what it started and left in its process group. */
static void
signal_command(pid_t pid, int signo)
{
    if (pid > 0) {
        kill(-pid, signo);
    }
}

static int
exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
begin_end_of_b(struct run *r)
{
    r->state = r->pid[LINK_B] > 0 ? RUN_END_B : RUN_DONE;
    r->deadline_ns = link_now_ns() + r->opts->grace_ns;
    signal_command(r->pid[LINK_B], SIGTERM);
}

static void
command_ended(struct run *r, int side, int status)
{
    signal_command(r->pid[side], SIGKILL); /* what it left behind */
    r->pid[side] = 0;
    if (side == LINK_A) {
        r->result = exit_code(status);
        begin_end_of_b(r);
    } else if (r->state == RUN_END_B) {
        r->state = RUN_DONE;
    } else if (r->state == RUN_WAIT_B) {
        fprintf(stderr, "link: B ended with status %d before it listened on port %u\n",
                exit_code(status), r->opts->wait_port);
        r->result = LINK_EXIT_FAILED;
        r->state = RUN_DONE;
    } else if (exit_code(status) != 0) {
        fprintf(stderr, "link: B ended with status %d\n", exit_code(status));
    }
}

static void
reap(struct run *r)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int side = 0; side < LINK_SIDES; side++) {
            if (pid == r->pid[side]) {
                command_ended(r, side, status);
            }
        }
    }
}

static void
read_signals(struct run *r)
{
    struct signalfd_siginfo info;

    while (read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            reap(r);
        } else if (r->state == RUN_A) {
            signal_command(r->pid[LINK_A], (int)info.ssi_signo);
        } else {
            r->result = 128 + (int)info.ssi_signo;
            r->state = RUN_DONE;
        }
    }
}

static void
wait_for_listener(struct run *r, int64_t now)
{
    if (now < r->check_ns) {
        return;
    }
    r->check_ns = now + LISTEN_CHECK_NS;
    if (r->opts->wait_port == 0 ||
        link_net_listens(r->pid[LINK_B], r->opts->wait_port)) {
        r->state = RUN_A;
        start_command(r, LINK_A);
    } else if (now >= r->deadline_ns) {
        fprintf(stderr, "link: B does not listen on port %u in time\n",
                r->opts->wait_port);
        r->result = LINK_EXIT_FAILED;
        r->state = RUN_DONE;
    }
}

/* Moves the run on. @return when it must be called again at the latest. */
static int64_t
advance(struct run *r, int64_t now)
{
    switch (r->state) {
    case RUN_WAIT_B:
        wait_for_listener(r, now);
        return r->state == RUN_WAIT_B ? r->check_ns : now;
    case RUN_END_B:
        if (now >= r->deadline_ns) {
            signal_command(r->pid[LINK_B], SIGKILL);
            r->deadline_ns = INT64_MAX; /* SIGCHLD follows */
        }
        return r->deadline_ns;
    case RUN_A:
    case RUN_DONE:
        break;
    }
    return INT64_MAX;
}

/* Sleeps until something can be read or until @p wake_ns. */
static void
wait_events(struct run *r, int64_t wake_ns)
{
    struct pollfd p[] = {{.fd = r->wire->net->tun_fd[LINK_A], .events = POLLIN},
                         {.fd = r->wire->net->tun_fd[LINK_B], .events = POLLIN},
                         {.fd = r->signal_fd, .events = POLLIN},
                         {.fd = r->control_fd, .events = POLLIN}};
    int64_t left =
        wake_ns == INT64_MAX ? 1000000000 : wake_ns - r->opts->spin_ns - link_now_ns();
    struct timespec ts = {0};

    if (left > 0) {
        ts.tv_sec = (time_t)(left / 1000000000);
        ts.tv_nsec = (long)(left % 1000000000);
    }
    if (ppoll(p, 4, &ts, NULL) <= 0) {
        return;
    }
    if (p[2].revents != 0) {
        read_signals(r);
    }
    if (p[3].revents != 0) {
        link_control_serve(r->control_fd, r->wire);
    }
    for (int side = 0; side < LINK_SIDES; side++) {
        if (p[side].revents != 0) {
            link_wire_receive(r->wire, side);
        }
    }
}

/* Kills what is still a child: also daemons, since orphans are given to us. */
static void
kill_children(void)
{
    char path[64];
    FILE *list;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    list = fopen(path, "re");
    if (list == NULL) {
        return;
    }
    while (fscanf(list, "%d", &pid) == 1) {
        kill(pid, SIGKILL);
    }
    fclose(list);
}

static void
end_all(struct run *r)
{
    static const struct timespec pause = {.tv_nsec = 1000000};

    signal_command(r->pid[LINK_A], SIGKILL);
    signal_command(r->pid[LINK_B], SIGKILL);
    for (int i = 0; i < END_ROUNDS; i++) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0) {
            return; /* none left */
        }
        if (pid == 0) {
            kill_children();
            nanosleep(&pause, NULL);
        }
    }
}

static void
turn(struct run *r)
{
    while (r->state != RUN_DONE) {
        int64_t now = link_now_ns();
        int64_t wire_ns = link_wire_deliver(r->wire, now);
        int64_t run_ns = advance(r, now);

        if (r->state != RUN_DONE) {
            wait_events(r, wire_ns < run_ns ? wire_ns : run_ns);
        }
    }
    end_all(r);
}

/* Signals come through a descriptor; blocked before the first fork, so none is missed. */
static int
open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int
run_link(const struct link_opts *opts, struct link_net *net)
{
    struct link_wire wire;
    struct link_flows *flows = link_flows_create();
    struct run r = {.wire = &wire, .opts = opts, .control_fd = -1};
    FILE *log;
    char text[1024];

    if (opts->control != NULL) {
        r.control_fd = link_control_open(opts->control);
    }
    log = opts->log != NULL ? fopen(opts->log, "we") : NULL;
    if (opts->log != NULL && log == NULL) {
        fprintf(stderr, "link: %s: %s\n", opts->log, strerror(errno));
    }
    r.signal_fd = open_signals();
    if (flows == NULL || r.signal_fd < 0 || (opts->log != NULL && log == NULL) ||
        (opts->control != NULL && r.control_fd < 0)) {
        link_flows_destroy(flows);
        return LINK_EXIT_FAILED;
    }
    link_wire_init(&wire, net, opts, flows);
    wire.log = log;
    prctl(PR_SET_TIMERSLACK, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    r.deadline_ns = link_now_ns() + opts->wait_ns;
    start_command(&r, LINK_B);
    turn(&r);
    if (opts->stats) {
        link_wire_stats(&wire, text, sizeof(text));
        fputs(text, stderr);
    }
    if (opts->control != NULL) {
        unlink(opts->control);
    }
    link_wire_fini(&wire);
    link_flows_destroy(flows);
    if (log != NULL && fclose(log) != 0) {
        fprintf(stderr, "link: %s: %s\n", opts->log, strerror(errno));
        r.result = LINK_EXIT_FAILED;
    }
    return r.result;
}

int
main(int argc, char **argv)
{
    struct link_opts opts;
    struct link_net net;
    int status;

    if (argc >= 4 && strcmp(argv[1], "ctl") == 0) {
        return link_control_send(argc - 2, argv + 2);
    }
    if (argc >= 2 && strcmp(argv[argc - 1], "--help") == 0) {
        link_usage(stdout);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "run") != 0) {
        link_usage(stderr);
        return LINK_EXIT_USAGE;
    }
    status = link_opts_parse(argc - 1, argv + 1, &opts);
    if (status == 0) {
        status = link_net_create(&net, opts.mtu);
    }
    return status != 0 ? status : run_link(&opts, &net);
}
