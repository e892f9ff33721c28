/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap server with hostile clients: unauthenticated connections that send nothing or
 * nonsense, more of them than it has slots or descriptors for, ranks that connect twice, that read
 * nothing, that stop half-way.
 */
#include "ranks.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cmocka.h>

enum {
    HELLO = 32,
    UNAUTHENTICATED = 200, /* connections: more than it has slots for */
    SLOW = 63, /* ranks that read nothing */
    PART = 65536, /* [bytes] the most that a rank may give */
};

/** Header of each answer. */
struct answer {
    int32_t status;
    uint32_t reserved;
    uint64_t len;
};

/* ---- a rank by hand ---- */

static int
connect_root(void)
{
    const struct timeval limit = {.tv_sec = 60};
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((uint16_t)atoi(strchr(getenv("TELPHER_ROOT"), ':') + 1));
    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    return fd;
}

static void
send_all(int fd, const void *data, size_t len)
{
    MUST(send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len);
}

static void
say_hello(int fd, uint32_t rank, uint32_t size)
{
    const char *job = getenv("TELPHER_JOB");
    const uint32_t numbers[2] = {rank, size};
    uint8_t hello[HELLO] = "TELPROOT";

    for (unsigned i = 0; i < 16; i++) {
        unsigned byte;

        MUST(sscanf(job + 2 * i, "%2x", &byte) == 1);
        hello[8 + i] = (uint8_t)byte;
    }
    memcpy(hello + 24, numbers, sizeof(numbers));
    send_all(fd, hello, sizeof(hello));
}

static void
send_part(int fd, const void *part, uint32_t len)
{
    send_all(fd, &len, sizeof(len));
    send_all(fd, part, len);
}

static struct answer
receive_answer(int fd)
{
    struct answer a = {.status = 1};

    MUST(recv(fd, &a, sizeof(a), MSG_WAITALL) == sizeof(a));
    return a;
}

/* The root has closed it. */
static bool
is_closed(int fd)
{
    char c;

    return recv(fd, &c, 1, 0) <= 0;
}

static telpher_status
join(uint64_t timeout_ns, telpher_error *err)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_status status;

    params.timeout_ns = timeout_ns;
    status = telpher_context_create(&params, &ctx, err);
    if (status == TELPHER_OK) {
        telpher_context_destroy(ctx);
    }
    return status;
}

/* ---- unauthenticated connections ---- */

static void
among_silent_ones(uint32_t rank)
{
    static int fds[UNAUTHENTICATED];

    (void)rank;
    for (unsigned i = 0; i < UNAUTHENTICATED; i++) {
        fds[i] = connect_root();
    }
    OK(join(RANKS_TIME, NULL));
    MUST(is_closed(fds[0])); /* to accept later ones */
}

static void
among_loud_ones(uint32_t rank)
{
    static const uint8_t noise[3 * HELLO] = "GET / HTTP/1.1\r\n";
    int wrong = connect_root(), half = connect_root(), loud = connect_root();

    send_all(wrong, "TELPROOT", 8);
    send_all(wrong, noise, HELLO - 8); /* not the job's secret */
    send_all(half, "TELPR", 5);
    send_all(loud, noise, sizeof(noise));
    MUST(is_closed(wrong) && is_closed(loud));
    OK(join(RANKS_TIME, NULL));
    (void)rank;
    close(half);
}

static void
test_unauthenticated(void **state)
{
    (void)state;
    assert_true(ranks_run_bare(1, UINT32_MAX, among_silent_ones));
    assert_true(ranks_run_bare(1, UINT32_MAX, among_loud_ones));
}

/* ---- descriptors ---- */

/* So many as can still be opened; others may be open anywhere above. */
static void
leave_descriptors(unsigned count)
{
    struct rlimit limit;
    int fds[2];

    MUST(count <= 2 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (unsigned i = 0; i < count; i++) {
        fds[i] = dup(0);
        MUST(fds[i] >= 0);
        limit.rlim_cur = (rlim_t)fds[i] + 1;
    }
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Fewer than the places that the root has; and it must not burn time. */
static void
leave_few(void)
{
    const struct itimerval cpu = {.it_value = {.tv_sec = 1}};

    leave_descriptors(2);
    MUST(setitimer(ITIMER_PROF, &cpu, NULL) == 0);
}

static void
leave_one(void)
{
    leave_few();
    leave_descriptors(1);
}

static void
with_few(uint32_t rank)
{
    (void)rank;
    OK(join(RANKS_TIME, NULL));
}

/* An unauthenticated connection has the last descriptor. */
static void
after_an_unauthenticated(uint32_t rank)
{
    int fd = connect_root();

    (void)rank;
    OK(join(RANKS_TIME, NULL));
    MUST(is_closed(fd));
}

/* A rank has the last descriptor: the server accepts no other, and its answer says why. */
static void
without_any(uint32_t rank)
{
    struct answer answer;
    char words[200] = "";
    int fd, other;

    if (rank != 0) {
        return;
    }
    fd = connect_root();
    say_hello(fd, 0, 2);
    send_part(fd, "12345678", 8);
    other = connect_root();
    answer = receive_answer(fd);
    IS(answer.status, TELPHER_ERR_TIMEOUT);
    MUST(answer.len < sizeof(words) && recv(fd, words, answer.len, MSG_WAITALL) > 0);
    MUST(strstr(words, "rank 1") != NULL && strstr(words, "descriptors") != NULL);
    close(other);
}

static void
test_descriptors(void **state)
{
    (void)state;
    ranks_in_root = leave_few;
    assert_true(ranks_run_bare(2, UINT32_MAX, with_few));
    ranks_in_root = leave_one;
    assert_true(ranks_run_bare(1, UINT32_MAX, after_an_unauthenticated));
    ranks_root_ns = UINT64_C(2000000000);
    assert_true(ranks_run_bare(2, UINT32_MAX, without_any));
    ranks_root_ns = RANKS_TIME;
    ranks_in_root = NULL;
}

/* ---- ranks ---- */

static void
twice(uint32_t rank)
{
    struct answer answer;
    telpher_error err = {0};
    int first, second;

    if (rank == 0) {
        IS(join(RANKS_TIME, &err), TELPHER_ERR_PEER_LOST);
        MUST(strstr(err.text, "rank 1 ") != NULL);
        return;
    }
    first = connect_root();
    say_hello(first, 1, 2);
    second = connect_root();
    say_hello(second, 1, 2);
    answer = receive_answer(second);
    IS(answer.status, TELPHER_ERR_INVALID);
    send_part(first, "12345678", 8);
    answer = receive_answer(first); /* rank 0 has brought its part as well */
    IS(answer.status, TELPHER_OK);
    MUST(answer.len == 16);
    close(first);
}

static void
too_much(uint32_t rank)
{
    static const uint8_t data[4 * PART];
    const uint32_t len = UINT32_MAX;
    telpher_error err = {0};
    int fd;

    if (rank == 0) {
        IS(join(RANKS_TIME, &err), TELPHER_ERR_PEER_LOST);
        return;
    }
    fd = connect_root();
    say_hello(fd, 1, 2);
    send_all(fd, &len, sizeof(len));
    (void)send(fd, data, sizeof(data), MSG_NOSIGNAL); /* as much as it takes */
    MUST(is_closed(fd) || errno == ECONNRESET);
}

/* A client that reads is not delayed by clients that do not. */
static void
beside_slow_ones(uint32_t rank)
{
    static uint8_t part[PART], got[PART];
    int fds[SLOW + 1];
    struct answer answer;

    if (rank != 0) {
        return;
    }
    for (unsigned r = 0; r <= SLOW; r++) {
        fds[r] = connect_root();
        say_hello(fds[r], r, SLOW + 1);
    }
    for (unsigned r = 0; r <= SLOW; r++) {
        part[0] = (uint8_t)r;
        send_part(fds[r], part, sizeof(part));
    }
    answer = receive_answer(fds[SLOW]);
    IS(answer.status, TELPHER_OK);
    MUST(answer.len == (uint64_t)sizeof(part) * (SLOW + 1));
    for (unsigned r = 0; r <= SLOW; r++) {
        MUST(recv(fds[SLOW], got, sizeof(got), MSG_WAITALL) == sizeof(got));
        MUST(got[0] == r);
    }
}

/* All ranks connect, then one stops: the answers to the others name it. */
static void
half_way(uint32_t rank)
{
    struct answer answer;
    telpher_error err = {0};
    int fd;

    if (rank == 0) {
        IS(join(RANKS_TIME, &err), TELPHER_ERR_TIMEOUT);
        MUST(strstr(err.text, "rank 1") != NULL);
        return;
    }
    fd = connect_root();
    say_hello(fd, 1, 2);
    send_part(fd, "12345678", 8);
    answer = receive_answer(fd);
    IS(answer.status, TELPHER_OK);
    MUST(recv(fd, &answer, sizeof(answer), MSG_WAITALL) == sizeof(answer)); /* parts */
    answer = receive_answer(fd); /* as the others get it */
    IS(answer.status, TELPHER_ERR_TIMEOUT);
}

static void
test_ranks(void **state)
{
    (void)state;
    assert_true(ranks_run_bare(2, UINT32_MAX, twice));
    assert_true(ranks_run_bare(2, UINT32_MAX, too_much));
    assert_true(ranks_run_bare(SLOW + 1, UINT32_MAX, beside_slow_ones));
    ranks_root_ns = UINT64_C(1000000000);
    assert_true(ranks_run_bare(2, UINT32_MAX, half_way));
    ranks_root_ns = RANKS_TIME;
}

/* ---- who answers in its place ---- */

static telpher_status
gather_zeros(void *user, const void *mine, size_t len, void *all)
{
    (void)user;
    (void)mine;
    memset(all, 0, 2 * len);
    return TELPHER_OK;
}

static telpher_status
gather_noise(void *user, const void *mine, size_t len, void *all)
{
    uint8_t *bytes = all;

    (void)user;
    (void)mine;
    for (size_t i = 0; i < 2 * len; i++) {
        bytes[i] = len == 4 ? i % 4 == 1 : (uint8_t)(i * 7); /* lengths of 256 */
    }
    return TELPHER_OK;
}

static void
test_nonsense(void **state)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_bootstrap bootstrap = {
        .struct_size = sizeof(bootstrap), .rank = 1, .size = 2};
    telpher_context *ctx = NULL;

    (void)state;
    params.bootstrap = &bootstrap;
    bootstrap.allgather = gather_zeros;
    assert_int_equal(telpher_context_create(&params, &ctx, NULL), TELPHER_ERR_PROTO);
    bootstrap.allgather = gather_noise;
    assert_int_equal(telpher_context_create(&params, &ctx, NULL), TELPHER_ERR_PROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unauthenticated),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_nonsense),
    };
    char *const shm[] = {"comm_root", "shm", NULL};

    (void)ranks_transport(2, (char **)shm);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
