/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: vanish
 *
 * Ranks on two machines: network name spaces with a test link between them, which can fall
 * silent.
 *
 *   rank 0 [10.77.0.1] ------ link ------ [10.77.0.2] rank 1
 *
 * A machine that vanishes without a word is noticed in time, whatever was under way; a rank
 * that only computes is not taken for one, however long it does and whatever it is sent.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/tcp/net.h"
#include "waist/net.h"

/** Set for the test; idle connections are asked every second, a new one for 3 s. */
#define LOST_AFTER TP_CLOCK_S
#define NOTICED_IDLE (LOST_AFTER + 3 * TP_CLOCK_S)
#define NOTICED_BUSY (LOST_AFTER + TP_CLOCK_S)
#define NOTICED_FULL (LOST_AFTER + 4 * TP_CLOCK_S)
#define NOTICED_NEW (3 * TP_CLOCK_S + TP_CLOCK_S)
#define SLACK (3 * TP_CLOCK_S) /* the machine may be slow */
#define COMPUTES (5 * TP_CLOCK_S)
enum { SKIPPED = 77, TIME_S = 60, BLOCK = 4000 };

static const char *const states[] = {"idle", "busy", "full", "new"};
enum { IDLE, BUSY, FULL, NEW, STATES };

static unsigned came;
static bool lost;

static _Noreturn void
fail(const char *what, int line)
{
    fprintf(stderr, "vanish.c:%d: not %s\n", line, what);
    _Exit(1);
}
#define MUST(cond) ((cond) ? (void)0 : fail(#cond, __LINE__))

/* ---- a rank ---- */

static void
on_message(void *user, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    (void)user;
    (void)header;
    (void)data;
    MUST(from < 2 && header_len == 1 && len <= BLOCK);
    came++;
}

static void
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *bulk)
{
    (void)user;
    (void)from;
    (void)header;
    (void)header_len;
    (void)len;
    (void)bulk;
    MUST(!"bulk");
}

static void
on_lost(void *user, uint32_t peer, telpher_status why)
{
    (void)user;
    (void)peer;
    MUST(!lost && why != TELPHER_OK);
    lost = true;
}

static void
put_file(const char *name, const void *data, size_t len)
{
    char path[32];
    FILE *f;

    snprintf(path, sizeof(path), "%s.new", name);
    f = fopen(path, "wb");
    MUST(f != NULL && fwrite(data, 1, len, f) == len && fclose(f) == 0);
    MUST(rename(path, name) == 0);
}

static size_t
await_file(const char *name, void *data, size_t max)
{
    FILE *f;
    size_t len;

    while ((f = fopen(name, "rb")) == NULL) {
        MUST(errno == ENOENT);
        usleep(2000);
    }
    len = fread(data, 1, max, f);
    fclose(f);
    return len;
}

static struct tp_net *
create(uint32_t rank)
{
    static const struct tp_net_events events = {
        .on_message = on_message, .on_rndv = on_rndv, .on_lost = on_lost};
    const struct tp_net_params params = {.rank = rank,
                                         .size = 2,
                                         .job = 4711,
                                         .events = &events,
                                         .lost_after = LOST_AFTER};
    struct tp_net *net;
    uint8_t address[TP_NET_ADDRESS_MAX];

    MUST(tp_tcp_net.create(&params, &net, NULL) == TELPHER_OK);
    put_file(rank == 0 ? "address0" : "address1", address,
             tp_tcp_net.address(net, address));
    return net;
}

/* As a waiting rank does. */
static void
step(struct tp_net *net)
{
    struct pollfd p = {.fd = tp_tcp_net.fd(net), .events = POLLIN};

    if (tp_tcp_net.progress(net) == 0 && tp_tcp_net.arm(net) == TELPHER_OK) {
        (void)poll(&p, 1, 20);
    }
}

/* ---- rank 1, that vanishes ---- */

static void
vanish(struct tp_net *net, int state)
{
    tp_ns wakes;

    while (came == 0) {
        step(net);
    }
    put_file("heard", "", 0);
    if (state == FULL) { /* computes, takes what came meanwhile, and computes again */
        sleep((unsigned)(COMPUTES / TP_CLOCK_S));
        wakes = tp_clock_deadline(TP_CLOCK_S);
        while (!tp_clock_passed(wakes)) {
            step(net);
        }
        MUST(!lost && came > 1);
        put_file("read", "", 0);
        for (;;) {
            pause();
        }
    }
    for (;;) {
        step(net);
    }
}

/* ---- rank 0, that notices ---- */

static void
fall_silent(void)
{
    char command[512];

    snprintf(command, sizeof(command), "%s ctl %s blackhole > /dev/null", LINK_PROGRAM,
             getenv("LINK_CONTROL"));
    MUST(system(command) == 0);
}

static telpher_status
send_block(struct tp_net *net)
{
    static uint8_t block[BLOCK];

    return tp_tcp_net.send(net, 1, "", 1, block, sizeof(block));
}

/* Sends what goes, until @p file is there. */
static void
send_until(struct tp_net *net, const char *file)
{
    while (access(file, F_OK) != 0) {
        MUST(!lost && send_block(net) != TELPHER_ERR_PEER_LOST);
        step(net);
    }
}

static void
fill(struct tp_net *net)
{
    tp_ns deadline = tp_clock_deadline(2 * TP_CLOCK_S); /* and it stays so */

    while (!tp_clock_passed(deadline)) {
        MUST(!lost && send_block(net) != TELPHER_ERR_PEER_LOST);
        step(net);
    }
}

static void
notice(struct tp_net *net, int state)
{
    static const tp_ns limits[STATES] = {NOTICED_IDLE, NOTICED_BUSY, NOTICED_FULL,
                                         NOTICED_NEW};
    tp_ns since = tp_clock_ns();

    while (!lost) {
        if (state == BUSY) {
            (void)send_block(net);
        }
        step(net);
        MUST(tp_clock_ns() - since < limits[state] + SLACK);
    }
    printf("%s: noticed after %.1f s\n", states[state],
           (double)(tp_clock_ns() - since) / (double)TP_CLOCK_S);
}

static void
watch(struct tp_net *net, int state)
{
    uint8_t address[TP_NET_ADDRESS_MAX];
    size_t len = await_file("address1", address, sizeof(address));

    MUST(tp_tcp_net.reaches(net, address, len));
    if (state == NEW) {
        fall_silent();
        MUST(tp_tcp_net.connect(net, 1, address, len) == TELPHER_OK);
        notice(net, state);
        return;
    }
    MUST(tp_tcp_net.connect(net, 1, address, len) == TELPHER_OK);
    MUST(send_block(net) == TELPHER_OK);
    while (access("heard", F_OK) != 0) {
        step(net);
    }
    if (state == FULL) {
        send_until(net, "read");
        fill(net);
    }
    fall_silent();
    notice(net, state);
}

static int
be_rank(uint32_t rank, int state, const char *folder)
{
    struct tp_net *net;

    alarm(TIME_S);
    MUST(chdir(folder) == 0);
    net = create(rank);
    if (rank == 1) {
        vanish(net, state);
    }
    watch(net, state);
    tp_tcp_net.destroy(net);
    return 0;
}

/* ---- all ---- */

/** One state, in a folder of its own. */
struct run {
    pid_t pid;
    char folder[64];
};

static void
start(struct run *run, const char *self, int state)
{
    const char *folder = run->folder;
    char a[600], b[600], control[80];

    snprintf(run->folder, sizeof(run->folder), "/tmp/telpher-vanish-XXXXXX");
    MUST(mkdtemp(run->folder) != NULL);
    run->pid = fork();
    if (run->pid != 0) {
        return;
    }
    snprintf(control, sizeof(control), "%s/control", folder);
    snprintf(a, sizeof(a), "%s 0 %d %s", self, state, folder);
    snprintf(b, sizeof(b), "exec %s 1 %d %s", self, state, folder);
    execl(LINK_PROGRAM, LINK_PROGRAM, "run", "--delay", "100us", "--rate", "1Gbit",
          "--control", control, "--a", a, "--b", b, (char *)NULL);
    _exit(1);
}

static int
end(struct run *run)
{
    static const char *const files[] = {"address0", "address1", "heard", "read",
                                        "control"};
    int status = 1;

    (void)waitpid(run->pid, &status, 0);
    MUST(chdir(run->folder) == 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)unlink(files[i]);
    }
    (void)rmdir(run->folder);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(int argc, char **argv)
{
    struct run runs[STATES];
    int result = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4) {
        return be_rank((uint32_t)atoi(argv[1]), atoi(argv[2]), argv[3]);
    }
    for (int i = 0; i < STATES; i++) { /* at once: they mostly wait */
        start(&runs[i], argv[0], i);
    }
    for (int i = 0; i < STATES; i++) {
        int status = end(&runs[i]);

        if (status != 0) {
            result = status == SKIPPED ? SKIPPED : 1;
            fprintf(stderr, "%s: ended with %d\n", states[i], status);
        }
    }
    return result;
}
