/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank dies before the job stands: it speaks to the root by itself (docs/comm.md section 2)
 * and stops at some point. All others are told at once, who comes later too.
 */
#include "deaths.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { LATE = 2, HELLO = 32, HEAD = 16 };

/** How far the victim comes. */
enum stop { AFTER_HELLO, AFTER_PART, AFTER_GATHER, STOPS };

static enum stop stop;

static void
make_hello(uint32_t rank, uint8_t hello[HELLO])
{
    const char *job = getenv("TELPHER_JOB");
    const uint32_t numbers[2] = {rank, RANKS};

    memcpy(hello, "TELPROOT", 8);
    for (unsigned i = 0; i < 16; i++) {
        unsigned byte;

        MUST(sscanf(job + 2 * i, "%2x", &byte) == 1);
        hello[8 + i] = (uint8_t)byte;
    }
    memcpy(hello + 24, numbers, sizeof(numbers));
}

static int
connect_root(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((uint16_t)atoi(strchr(getenv("TELPHER_ROOT"), ':') + 1));
    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return fd;
}

static void
be_victim(void)
{
    const uint8_t part[4 + 8] = {8, 0, 0, 0, 1}; /* its length, a number */
    uint8_t hello[HELLO], answer[HEAD + RANKS * 8];
    int fd = connect_root();

    make_hello(VICTIM, hello);
    MUST(write(fd, hello, sizeof(hello)) == sizeof(hello));
    if (stop >= AFTER_PART) {
        MUST(write(fd, part, sizeof(part)) == sizeof(part));
    }
    if (stop == AFTER_GATHER) {
        MUST(recv(fd, answer, sizeof(answer), MSG_WAITALL) == sizeof(answer));
    } else {
        usleep(100000); /* the first of the others waits for it already */
    }
    die();
}

static void
be_survivor(uint32_t rank)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_error err = {0};

    params.timeout_ns = RANKS_TIME;
    while (rank == LATE && stop != AFTER_GATHER && atomic_load(&shared->died_ns) == 0) {
        usleep(1000);
    }
    usleep(rank == LATE && stop != AFTER_GATHER ? 100000 : 0);
    IS(telpher_context_create(&params, &ctx, &err), TELPHER_ERR_PEER_LOST);
    MUST(now_ns() - atomic_load(&shared->died_ns) < LOST_AFTER + SLACK);
    MUST(strstr(err.text, "rank 1 ") != NULL);
}

static void
start(uint32_t rank)
{
    if (rank == VICTIM) {
        be_victim();
    }
    be_survivor(rank);
}

void
test_meeting(void **state)
{
    (void)state;
    for (stop = 0; stop < STOPS; stop++) {
        memset(shared, 0, sizeof(*shared));
        assert_true(ranks_run_bare(RANKS, VICTIM, start));
    }
}
