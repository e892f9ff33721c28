/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: comm_huge TRANSPORT FROM TO     (kinds of memory: host, sim, opencl)
 *
 * More than 32 bits can say: 4 GiB + 1 from one kind of memory to another, by channel, put and
 * get, from and to an odd address; each byte is compared. Needs 9 GiB of memory and minutes:
 * scripts/check/sizes runs it over every transport and pair.
 */
#include "ranks.h"

#include <string.h>
#include <unistd.h>

#include <telpher/channel.h>
#include <telpher/mem.h>
#include <telpher/win.h>

enum {
    TAG = 2,
    BLOCK = 32 << 20, /* [bytes] written and compared at a time */
    SHIFT = 3, /* [bytes] of the address */
    NEEDED = 9 << 10, /* [MiB] of memory */
};
#define HUGE_BYTES ((UINT64_C(4) << 30) + 1)
/** [ns] that a step may take: copies of 4 GiB, under a sanitizer, on a busy machine. */
#define LONG_TIME UINT64_C(500000000000)

static const char *const names[TELPHER_MEM_KINDS] = {[TELPHER_MEM_HOST] = "host",
                                                     [TELPHER_MEM_SIM] = "sim",
                                                     [TELPHER_MEM_OPENCL] = "opencl"};
static enum telpher_mem_kind kinds[2]; /* of rank 0, of rank 1 */

struct party {
    telpher_context *ctx;
    uint32_t rank;
    void *whole;
    uint8_t *mem;
    uint8_t *block, *other; /* what a block is like; as it is */
    telpher_channel *ch;
    telpher_win *win;
};

/* The blocks differ in their first bytes. */
static void
mark(uint8_t *block, uint64_t at, uint64_t seed)
{
    const uint64_t words[2] = {at, seed};

    memcpy(block, words, sizeof(words));
}

static void
write_all(struct party *p, uint64_t seed)
{
    for (uint64_t at = 0; at < HUGE_BYTES; at += BLOCK) {
        size_t len = HUGE_BYTES - at < BLOCK ? (size_t)(HUGE_BYTES - at) : BLOCK;

        mark(p->block, at, seed);
        OK(telpher_mem_copy(p->ctx, p->mem + at, p->block, len));
    }
}

static void
compare_all(struct party *p, uint64_t seed)
{
    for (uint64_t at = 0; at < HUGE_BYTES; at += BLOCK) {
        size_t len = HUGE_BYTES - at < BLOCK ? (size_t)(HUGE_BYTES - at) : BLOCK;

        mark(p->block, at, seed);
        OK(telpher_mem_copy(p->ctx, p->other, p->mem + at, len));
        MUST(memcmp(p->other, p->block, len) == 0);
    }
}

static void
by_channel(struct party *p)
{
    telpher_request *req = NULL;
    size_t len = 0;

    if (p->rank == 0) {
        IS(telpher_channel_send(p->ch, p->mem, HUGE_BYTES, NULL, &req),
           TELPHER_IN_PROGRESS);
        OK(telpher_request_wait(req, LONG_TIME, &len));
    } else {
        IS(telpher_channel_recv(p->ch, p->mem, HUGE_BYTES, NULL, &req, &len),
           TELPHER_IN_PROGRESS);
        OK(telpher_request_wait(req, LONG_TIME, &len));
    }
    MUST(len == HUGE_BYTES);
}

static void
by_put(struct party *p)
{
    telpher_request *req = NULL;

    if (p->rank == 0) {
        IS(telpher_put_notify(p->win, 1, SHIFT, p->mem, HUGE_BYTES, TAG, NULL, &req),
           TELPHER_IN_PROGRESS);
        OK(telpher_request_wait(req, LONG_TIME, NULL));
    } else {
        OK(telpher_notify_wait(p->win, 0, TAG, 1, LONG_TIME));
    }
}

static void
by_get(struct party *p)
{
    telpher_request *req = NULL;

    if (p->rank == 1) {
        IS(telpher_get(p->win, 0, SHIFT, p->mem, HUGE_BYTES, NULL, &req),
           TELPHER_IN_PROGRESS);
        OK(telpher_request_wait(req, LONG_TIME, NULL));
    }
    OK(telpher_barrier(p->ctx, LONG_TIME));
}

/* @return false, in both ranks, if one of them has no such memory or not so much */
static bool
have_memory(struct party *p)
{
    telpher_request *req = NULL;
    uint8_t mine = 1, theirs = 0;
    telpher_status status;

    if (telpher_mem_alloc(p->ctx, kinds[p->rank], HUGE_BYTES + SHIFT, &p->whole) !=
        TELPHER_OK) {
        printf("skipped: no %s memory of 4 GiB + 1\n", names[kinds[p->rank]]);
        fflush(stdout);
        mine = 0;
    }
    status = telpher_channel_send(p->ch, &mine, 1, NULL, &req);
    OK(ranks_finish(status, &req));
    status = telpher_channel_recv(p->ch, &theirs, 1, NULL, &req, NULL);
    OK(ranks_finish(status, &req));
    return mine == 1 && theirs == 1;
}

static void
try_all(telpher_context *ctx)
{
    static void (*const ways[])(struct party *) = {by_channel, by_put, by_get};
    struct party p = {.ctx = ctx, .rank = telpher_context_rank(ctx)};

    OK(telpher_channel_open(ctx, 1 - p.rank, 1, &p.ch));
    if (!have_memory(&p)) {
        return;
    }
    p.mem = (uint8_t *)p.whole + SHIFT;
    p.block = malloc(BLOCK);
    p.other = malloc(BLOCK);
    MUST(p.block != NULL && p.other != NULL);
    for (size_t i = 0; i < BLOCK; i++) {
        p.block[i] = (uint8_t)(i * 13 + i / 253);
    }
    OK(telpher_win_create(ctx, p.whole, HUGE_BYTES + SHIFT, LONG_TIME, &p.win));
    for (unsigned way = 0; way < 3; way++) {
        write_all(&p, p.rank == 0 ? way : 99);
        OK(telpher_barrier(ctx, LONG_TIME));
        ways[way](&p);
        if (p.rank == 1) {
            compare_all(&p, way);
        }
        OK(telpher_barrier(ctx, LONG_TIME));
    }
    telpher_win_destroy(p.win);
    OK(telpher_mem_free(ctx, p.whole));
    free(p.block);
    free(p.other);
}

static enum telpher_mem_kind
find_kind(const char *name)
{
    for (int k = 0; k < TELPHER_MEM_KINDS; k++) {
        if (names[k] != NULL && strcmp(names[k], name) == 0) {
            return (enum telpher_mem_kind)k;
        }
    }
    fprintf(stderr, "%s: no such memory\n", name);
    exit(2);
}

int
main(int argc, char **argv)
{
    uint64_t here =
        (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
    const char *transport = ranks_transport(argc, argv);

    kinds[0] = find_kind(argc > 2 ? argv[2] : "host");
    kinds[1] = find_kind(argc > 3 ? argv[3] : "host");
    if (here < NEEDED) {
        printf("skipped: %llu MiB of memory, not %d\n", (unsigned long long)here,
               NEEDED);
        return 77;
    }
    ranks_seconds = 1700;
    return ranks_run(2, transport, UINT32_MAX, try_all) ? 0 : 1;
}
