/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a job of many: telpher launch -n 64 -- many
 *
 * Prints how long the job took to stand, and what a rank needs for another that it has never
 * turned to, and for one that it has a connection with. The latter is bounded; with
 * sanitizers, whose memory is counted as well, it is only printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <telpher/channel.h>
#include <telpher/context.h>

enum {
    PEER_MAX = 64, /* [KiB] of a peer that is connected and idle */
    UNUSED_MAX = 8, /* [KiB] of a peer that is not: its card, mostly */
};
#define TIME UINT64_C(60000000000)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int is_exact = 0;
#else
static const int is_exact = 1;
#endif

static void
must(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "many: rank %s: %s\n", getenv("TELPHER_RANK"), what);
        exit(1);
    }
}

static double
now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* [KiB] of memory that is there because of this process, its part of what is shared. */
static long
memory_kib(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long anonymous = 0, shared = 0;

    must(f != NULL, "no smaps_rollup");
    while (fgets(line, sizeof(line), f) != NULL) {
        (void)sscanf(line, "Pss_Anon: %ld", &anonymous);
        (void)sscanf(line, "Pss_Shmem: %ld", &shared);
    }
    fclose(f);
    return anonymous + shared;
}

static void
barrier(telpher_context *ctx)
{
    must(telpher_barrier(ctx, TIME) == TELPHER_OK, "barrier");
}

static unsigned under_way;

static void
done(void *user, telpher_status status, size_t len)
{
    (void)user;
    must(status == TELPHER_OK && len == sizeof(uint64_t), "exchange");
    under_way--;
}

/* Sends something to everybody, and gets it. */
static void
meet_all(telpher_context *ctx)
{
    uint32_t rank = telpher_context_rank(ctx), size = telpher_context_size(ctx);
    uint64_t mine = rank, *all = calloc(size, sizeof(*all));
    telpher_xfer_params params = TELPHER_XFER_PARAMS_INIT;

    must(all != NULL, "memory");
    params.on_done = done;
    all[rank] = rank;
    for (uint32_t i = 1; i < size; i++) {
        uint32_t other = (rank + i) % size;
        telpher_channel *ch;
        size_t len = 0;
        telpher_status status;

        must(telpher_channel_open(ctx, other, 1, &ch) == TELPHER_OK, "open");
        status = telpher_channel_recv(ch, &all[other], 8, &params, NULL, &len);
        must(status >= 0, "receive");
        under_way += status == TELPHER_IN_PROGRESS;
        status = telpher_channel_send(ch, &mine, 8, &params, NULL);
        must(status >= 0, "send");
        under_way += status == TELPHER_IN_PROGRESS;
    }
    while (under_way != 0) {
        must(telpher_progress_wait(ctx, TIME) == TELPHER_OK, "wait");
    }
    for (uint32_t r = 0; r < size; r++) {
        must(all[r] == r, "what came");
    }
    free(all);
}

int
main(void)
{
    double begin = now_s(), made, stood;
    long before = memory_kib(), unused, used;
    telpher_context *ctx;
    telpher_error err = {0};
    uint32_t rank, size;

    if (telpher_context_create(NULL, &ctx, &err) != TELPHER_OK) {
        must(0, err.text);
    }
    made = now_s();
    unused = memory_kib() - before;
    barrier(ctx);
    stood = now_s();
    rank = telpher_context_rank(ctx);
    size = telpher_context_size(ctx);
    must(size > 1, "alone");
    meet_all(ctx);
    barrier(ctx);
    used = memory_kib() - before - unused;
    if (rank == 0) {
        printf("%u ranks over %s: contexts after %.2f s, all together after %.2f s; "
               "%ld KiB a rank, %.1f KiB more for each peer in use\n",
               size, telpher_context_transport(ctx, 1), made - begin, stood - begin,
               unused, (double)used / (double)(size - 1));
    }
    if (is_exact) {
        must(unused < 1024 + (long)size * UNUSED_MAX, "too much memory at the start");
        must(used < (long)size * PEER_MAX, "too much memory for peers");
    }
    telpher_context_destroy(ctx);
    return 0;
}
