/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the test link. The program is also what runs at the link's ends: with
 * arguments it is one of the small peers below, without it runs the tests;
 * "unprivileged" runs the one that needs a machine where users may do this.
 *
 *   this test ── runs ──> link run --a "link_test ping" --b "link_test echo"
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/test_skips.h"

enum { PORT = 4321, CHUNK = 16384, SKIPPED = 77, COMMAND_MAX = 4096 };

static char self[512]; /* this program */
static char scratch[256]; /* folder for what the peers report */

static int64_t
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- the peers ---- */

static struct sockaddr_in
peer_address(void)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    inet_pton(AF_INET, "10.77.0.2", &sin.sin_addr);
    return sin;
}

static void
tune(int fd)
{
    struct timeval tv = {.tv_sec = 2};
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

static int
dial(void)
{
    struct sockaddr_in sin = peer_address();

    for (int i = 0;; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0) {
            tune(fd);
            return fd;
        }
        if (errno != ECONNREFUSED || i == 200) {
            perror("connect");
            exit(2);
        }
        close(fd);
        usleep(10000); /* one server follows another on the port */
    }
}

static int
listen_here(void)
{
    struct sockaddr_in sin = peer_address();
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(fd, 8) != 0) {
        perror("listen");
        exit(2);
    }
    return fd;
}

/* Accepts one connection; no rank is left waiting for a second. */
static int
accept_one(void)
{
    int listener = listen_here();
    int fd = accept(listener, NULL, NULL);

    close(listener);
    tune(fd);
    return fd;
}

/* Byte at a place of the stream: both ends know it. */
static uint8_t
pattern(uint64_t pos)
{
    return (uint8_t)((pos * 2654435761u) >> 13);
}

/* Sends stream bytes [0 .. total). @return how many the socket took. */
static uint64_t
send_stream(int fd, uint64_t total)
{
    static uint8_t buf[CHUNK];
    uint64_t sent = 0;

    while (sent < total) {
        size_t part = total - sent < CHUNK ? (size_t)(total - sent) : CHUNK;
        ssize_t n;

        for (size_t i = 0; i < part; i++) {
            buf[i] = pattern(sent + i);
        }
        n = send(fd, buf, part, MSG_NOSIGNAL);
        if (n <= 0) {
            break;
        }
        sent += (uint64_t)n;
    }
    return sent;
}

/* Receives until the end, an error or 2 s of silence. Exits 3 on a wrong byte. */
static uint64_t
receive_stream(int fd, const char **ret_end)
{
    static uint8_t buf[CHUNK];
    uint64_t got = 0;
    ssize_t n;

    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
        for (ssize_t i = 0; i < n; i++, got++) {
            if (buf[i] != pattern(got)) {
                fprintf(stderr, "wrong byte at %llu\n", (unsigned long long)got);
                exit(3);
            }
        }
    }
    *ret_end = n == 0                ? "closed"
               : errno == ECONNRESET ? "reset"
               : errno == EAGAIN     ? "silent"
                                     : strerror(errno);
    return got;
}

/* Writes "COUNT END" into a file of the scratch folder, in one step. */
static void
report(const char *file, uint64_t count, const char *end)
{
    char path[600];
    FILE *out;

    snprintf(path, sizeof(path), "%s.part", file);
    out = fopen(path, "w");
    fprintf(out, "%llu %s\n", (unsigned long long)count, end);
    fclose(out);
    rename(path, file);
}

static _Noreturn void
peer_echo(void)
{
    int listener = listen_here();

    for (;;) {
        int fd = accept(listener, NULL, NULL);
        uint8_t byte;

        tune(fd);
        while (recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, MSG_NOSIGNAL) == 1) {
        }
        close(fd);
    }
}

static int
compare_ns(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;

    return (*x > *y) - (*x < *y);
}

/* ping COUNT FILE: reports the least and the median round trip in ns. */
static int
peer_ping(int count, const char *file)
{
    int64_t *rtt = calloc((size_t)count, sizeof(*rtt));
    int fd = dial();
    char median[32];

    for (int i = 0; i < count; i++) {
        uint8_t byte = (uint8_t)i;
        uint8_t back = 0;
        int64_t start = now_ns();

        if (send(fd, &byte, 1, 0) != 1 || recv(fd, &back, 1, 0) != 1 || back != byte) {
            free(rtt);
            return 4;
        }
        rtt[i] = now_ns() - start;
    }
    qsort(rtt, (size_t)count, sizeof(*rtt), compare_ns);
    snprintf(median, sizeof(median), "%lld", (long long)rtt[count / 2]);
    report(file, (uint64_t)rtt[0], median);
    free(rtt);
    return 0;
}

/* source BYTES / sink FILE: one side sends the stream, the other reports what came. */
static int
peer_source(int fd, uint64_t bytes)
{
    send_stream(fd, bytes);
    shutdown(fd, SHUT_WR);
    return 0;
}

static int
peer_sink(int fd, const char *file)
{
    const char *end;
    uint64_t got = receive_stream(fd, &end);

    report(file, got, end);
    return 0;
}

/* The end of A ends the link: it waits until B has reported. */
static int
await_file(const char *file)
{
    for (int i = 0; i < 1000; i++) {
        if (access(file, F_OK) == 0) {
            return 0;
        }
        usleep(10000);
    }
    return 5;
}

static int
run_peer(int argc, char **argv)
{
    const char *what = argv[1];

    alarm(60);
    if (strcmp(what, "echo") == 0) {
        peer_echo();
    }
    if (strcmp(what, "ping") == 0 && argc == 4) {
        return peer_ping(atoi(argv[2]), argv[3]);
    }
    if (strcmp(what, "source") == 0 && argc == 3) { /* in A */
        return peer_source(dial(), strtoull(argv[2], NULL, 10));
    }
    if (strcmp(what, "serve-sink") == 0 && argc == 3) { /* in B */
        return peer_sink(accept_one(), argv[2]);
    }
    if (strcmp(what, "serve-source") == 0 && argc == 3) { /* in B */
        peer_source(accept_one(), strtoull(argv[2], NULL, 10));
        pause();
    }
    if (strcmp(what, "sink") == 0 && argc == 3) { /* in A */
        return peer_sink(dial(), argv[2]);
    }
    if (strcmp(what, "await") == 0 && argc == 3) {
        return await_file(argv[2]);
    }
    return 6;
}

/* ---- the tests ---- */

/* Runs the link. %P in a peer command stands for this program, %D for the scratch folder.
   @return A's exit status. */
static int
run_link(const char *options, const char *a, const char *b)
{
    char command[COMMAND_MAX];
    int status;

    snprintf(command, sizeof(command),
             "P='%s' D='%s' timeout 60 '%s' run %s --a '%s' --b '%s'", self, scratch,
             LINK_PROGRAM, options, a, b);
    status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
scratch_path(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", scratch, name);
}

/* Reads and removes a peer's report. */
static uint64_t
read_report(const char *name, char *ret_end, size_t size)
{
    char path[600];
    char end[64] = "";
    unsigned long long count = 0;
    FILE *in;

    scratch_path(path, sizeof(path), name);
    in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%llu %63s", &count, end), 2);
    fclose(in);
    unlink(path);
    snprintf(ret_end, size, "%s", end);
    return count;
}

static void
test_exit_status(void **state)
{
    int64_t start = now_ns();

    (void)state;
    assert_int_equal(run_link("", "exit 7", "sleep 50"), 7);
    assert_int_equal(run_link("", "kill -9 $$", "sleep 50"), 128 + 9);
    assert_int_equal(run_link("--grace 100ms", "sleep 0.3",
                              "trap : TERM; sleep 50; "
                              "sleep 50"),
                     0);
    assert_true(now_ns() - start < 20000000000);
    assert_int_equal(run_link("--delay banana", "true", "true"), 64);
    assert_int_equal(run_link("--wait-port 9 --wait-time 200ms", "true", "sleep 9"),
                     70);
}

static void
test_round_trip(void **state)
{
    char median[64];
    uint64_t least;

    (void)state;
    assert_int_equal(
        run_link("--delay 3ms --wait-port 4321", "$P ping 101 $D/rtt", "$P echo"), 0);
    least = read_report("rtt", median, sizeof(median));
    print_message("delay 3 ms: round trip least %llu ns, median %s ns\n",
                  (unsigned long long)least, median);
    assert_true(least >= 6000000);
    assert_true(least < 20000000); /* the least: a busy machine delays most of them */
}

static void
test_one_way_delay(void **state)
{
    char median[64];

    (void)state;
    assert_int_equal(
        run_link("--delay-b2a 5ms --wait-port 4321", "$P ping 21 $D/rtt", "$P echo"),
        0);
    assert_true(read_report("rtt", median, sizeof(median)) >= 5000000);
}

static void
test_loss_keeps_bytes(void **state)
{
    char end[64];

    (void)state;
    assert_int_equal(run_link("--delay 200us --loss 2% --seed 7 --wait-port 4321",
                              "$P source 1000000 && $P await $D/sink",
                              "$P serve-sink $D/sink"),
                     0);
    assert_int_equal(read_report("sink", end, sizeof(end)), 1000000);
    assert_string_equal(end, "closed");
}

static void
test_rate_limits(void **state)
{
    char end[64];
    int64_t start = now_ns();

    (void)state;
    assert_int_equal(run_link("--rate 80Mbit --wait-port 4321",
                              "$P source 2000000 && $P await $D/sink",
                              "$P serve-sink $D/sink"),
                     0);
    assert_true(now_ns() - start >= 200000000); /* 16 Mbit at 80 Mbit/s */
    assert_int_equal(read_report("sink", end, sizeof(end)), 2000000);
}

/* Bytes of each direction by the lines of a log, each of which lies in time. */
static void
add_log(const char *path, int64_t start, uint64_t ret_bytes[2])
{
    FILE *in = fopen(path, "r");
    long long sent, delivered;
    unsigned long long payload;
    char dir[4];

    assert_non_null(in);
    ret_bytes[0] = ret_bytes[1] = 0;
    while (fscanf(in, "%lld %lld %3s %*u %*u %llu %*x %*u %*u", &sent, &delivered, dir,
                  &payload) == 4) {
        assert_true(sent >= start && delivered >= sent && delivered <= now_ns());
        ret_bytes[strcmp(dir, "b2a") == 0] += payload;
    }
    assert_true(feof(in));
    fclose(in);
}

static void
test_log(void **state)
{
    const int64_t start = now_ns();
    uint64_t bytes[2];
    char options[600], path[600], end[64];

    (void)state;
    scratch_path(path, sizeof(path), "log");
    snprintf(options, sizeof(options), "--wait-port 4321 --log '%.500s'", path);
    assert_int_equal(run_link(options, "$P source 100000 && $P await $D/sink",
                              "$P serve-sink $D/sink"),
                     0);
    assert_int_equal(read_report("sink", end, sizeof(end)), 100000);
    add_log(path, start, bytes);
    unlink(path);
    assert_true(bytes[0] >= 100000); /* more: segments that were sent again */
    assert_int_equal(bytes[1], 0);
    assert_int_equal(run_link("--log /nowhere/log", "true", "true"), 70);
}

static void
test_cut_at_byte(void **state)
{
    static const unsigned place[] = {0, 1, 1448, 123457};
    char options[128];
    char end[64];

    (void)state;
    for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
        snprintf(options, sizeof(options),
                 "--delay 200us --cut-at a2b:%u --wait-port 4321", place[i]);
        assert_int_equal(
            run_link(options, "$P source 1000000; $P await $D/sink",
                     "exec 2>/dev/null; sleep 0.01; $P serve-sink $D/sink"),
            0);
        assert_int_equal(read_report("sink", end, sizeof(end)), place[i]);
        assert_string_equal(end, "silent");
    }
}

static void
test_reset_at_byte(void **state)
{
    char end[64];

    (void)state;
    /* slow enough that the sink's connect() has returned before the reset comes */
    assert_int_equal(run_link("--delay 200us --rate 10Mbit --reset-at b2a:54321 "
                              "--wait-port 4321",
                              "$P sink $D/sink", "$P serve-source 1000000"),
                     0);
    assert_int_equal(read_report("sink", end, sizeof(end)), 54321);
    assert_string_equal(end, "reset");
}

/* A reset also reaches the sender, and a new connection passes afterwards. */
static void
test_reset_reaches_sender(void **state)
{
    char end[64];

    (void)state;
    assert_int_equal(run_link("--delay 200us --reset-at a2b:1000 --wait-port 4321",
                              "$P source 1000000; $P await $D/sink && $P ping 3 $D/rtt",
                              "$P serve-sink $D/sink; exec $P echo"),
                     0);
    assert_int_equal(read_report("sink", end, sizeof(end)), 1000);
    assert_string_equal(end, "reset");
    read_report("rtt", end, sizeof(end));
}

static void
test_blackhole_ends(void **state)
{
    char end[64];
    int64_t start = now_ns();

    (void)state;
    assert_int_equal(run_link("--delay 200us --blackhole-at a2b:50000 --for 600ms "
                              "--wait-port 4321",
                              "$P source 200000 && $P await $D/sink",
                              "$P serve-sink $D/sink"),
                     0);
    assert_true(now_ns() - start >= 600000000);
    assert_int_equal(read_report("sink", end, sizeof(end)), 200000);
    assert_string_equal(end, "closed");
}

static void
test_control_socket(void **state)
{
    char options[400];
    char median[64];

    (void)state;
    snprintf(options, sizeof(options), "--control '%s/ctl' --wait-port 4321", scratch);
    assert_int_equal(
        run_link(
            options,
            "C=\"" LINK_PROGRAM " ctl $LINK_CONTROL\"; set -e; "
            "$C set delay 4ms; $P ping 5 $D/rtt; $C stats | grep -q payload.[1-9]; "
            "$C cut; ! $P ping 1 $D/no 2>/dev/null; $C heal; $P ping 1 $D/yes; "
            "$C blackhole a2b 300ms; $P ping 1 $D/yes; ! $C nonsense; exit 9",
            "$P echo"),
        9);
    assert_true(read_report("rtt", median, sizeof(median)) >= 8000000);
    read_report("yes", median, sizeof(median));
}

/* Without root the link makes a user namespace of its own. */
static void
test_unprivileged(void **state)
{
    int program = open(LINK_PROGRAM, O_RDONLY);
    char *const argv[] = {"link", "run", "--a", "exit 3", "--b", "sleep 9", NULL};
    char *const envp[] = {"PATH=/bin:/usr/bin", NULL};
    int status;
    pid_t pid;

    (void)state;
    assert_true(program >= 0);
    pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 ||
                               setresuid(65534, 65534, 65534) != 0)) {
            _exit(SKIPPED);
        }
        fexecve(program, argv, envp);
        _exit(SKIPPED);
    }
    close(program);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        skip_case("a link without privileges is not permitted");
    }
    assert_int_equal(WEXITSTATUS(status), 3);
}

static bool
find_self(void)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    return n > 0;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_status),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_one_way_delay),
        cmocka_unit_test(test_loss_keeps_bytes),
        cmocka_unit_test(test_rate_limits),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_cut_at_byte),
        cmocka_unit_test(test_reset_at_byte),
        cmocka_unit_test(test_reset_reaches_sender),
        cmocka_unit_test(test_blackhole_ends),
        cmocka_unit_test(test_control_socket),
    };
    const struct CMUnitTest unprivileged[] = {cmocka_unit_test(test_unprivileged)};
    const char *tmp = getenv("TMPDIR");
    int failed;

    if (argc == 2 && strcmp(argv[1], "unprivileged") == 0) {
        return skips_end(cmocka_run_group_tests(unprivileged, NULL, NULL));
    }
    if (argc > 1) {
        return run_peer(argc, argv);
    }
    snprintf(scratch, sizeof(scratch), "%s/link_test.XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (!find_self() || mkdtemp(scratch) == NULL) {
        perror("link_test");
        return 1;
    }
    if (run_link("", "true", "true") == SKIPPED) {
        rmdir(scratch);
        return SKIPPED; /* the link has said why */
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(scratch);
    return failed;
}
