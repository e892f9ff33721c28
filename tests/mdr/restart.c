/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n N --restart R [--shrink] -- mdr_restart [KILLS [SEED [PAUSE_MS]]]
 *
 * Objects exchange values through channels, move, and are saved every few steps. An object kills
 * its process once, another one while it is saved; a timer kills a random rank at a random
 * moment, KILLS times; with 0 none is killed. The job starts again each time. The result is compared with that of a loop.
 */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <telpher/mdr_dynamic.h>

#define OK(call)                                                                       \
    do {                                                                               \
        telpher_status ok_ = (call);                                                   \
        if (ok_ != TELPHER_OK) {                                                       \
            fprintf(stderr, "%s:%d: %s is %s\n", __FILE__, __LINE__, #call,            \
                    telpher_status_name(ok_));                                         \
            _Exit(1);                                                                  \
        }                                                                              \
    } while (0)

enum { CELLS = 24, EPOCHS = 40, STEPS = 5, KILL_EPOCH = 7, LATEST_US = 250000 };
enum { RUN, TAKE, ENTRIES };

static uint32_t kills = 3, seed = 1, pause_ms = 0;

/* ---- deaths ---- */

static void
die(int sig)
{
    (void)sig;
    kill(getpid(), SIGKILL);
}

static const char *
file_name(char *dst, size_t cap)
{
    const char *folder = getenv("TELPHER_MDR_CHECKPOINT");

    (void)snprintf(dst, cap, "%s/deaths", folder != NULL ? folder : ".");
    return dst;
}

/* Deaths of this job so far: bytes of a file. */
static uint32_t
deaths(int add)
{
    char name[256];
    FILE *f = fopen(file_name(name, sizeof(name)), "ab");
    long count = 0;

    if (f != NULL) {
        if (add) {
            (void)fputc('x', f);
        }
        (void)fflush(f);
        (void)fseek(f, 0, SEEK_END);
        count = ftell(f);
        (void)fclose(f);
    }
    return (uint32_t)count;
}

static uint64_t
mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* One rank of each attempt dies at a moment that only the seed knows. */
static void
arm(void)
{
    uint32_t rank = (uint32_t)atoi(getenv("TELPHER_RANK"));
    uint32_t size = (uint32_t)atoi(getenv("TELPHER_SIZE")), count = deaths(0);
    uint64_t random = mix(seed * UINT64_C(1000003) + count);
    struct itimerval when = {
        .it_value = {0, 1 + (suseconds_t)(random >> 32) % LATEST_US}};

    if (count != 0 && count <= kills && random % size == rank) {
        (void)deaths(1);
        signal(SIGALRM, die);
        (void)setitimer(ITIMER_REAL, &when, NULL);
    }
}

/* Whether this process has begun to write its part of a checkpoint. */
static bool
is_saving(const telpher_mdr *mdr)
{
    const char *folder = getenv("TELPHER_MDR_CHECKPOINT");
    glob_t found = {.gl_pathc = 0};
    char pattern[256];
    bool saving;

    (void)snprintf(pattern, sizeof(pattern), "%s/*-%u-of-%u.new",
                   folder != NULL ? folder : ".", telpher_mdr_rank(mdr),
                   telpher_mdr_size(mdr));
    saving = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return saving;
}

/* Dies within the first checkpoint that has this object, after others were written. */
static void
die_saving(const telpher_mdr_call *call)
{
    char name[256], mark[300];
    int fd;

    if (kills == 0 || call->index.at[0] != CELLS / 3 || !is_saving(call->mdr)) {
        return;
    }
    (void)snprintf(mark, sizeof(mark), "%s-saving", file_name(name, sizeof(name)));
    fd = open(mark, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        fprintf(stderr, "dies while it saves\n");
        die(0);
    }
}

/* ---- cells ---- */

struct run {
    telpher_mdr_future done;
    uint32_t epoch;
};

struct cell {
    struct run run;
    uint64_t value, sum;
    uint32_t step, taken;
    uint64_t *history; /* what it has seen: STEPS values */
};

static uint64_t
first_value(int32_t i)
{
    return mix((uint64_t)i + 1);
}

static telpher_mdr_channel
channel_to(const telpher_mdr_call *call, int32_t hop)
{
    telpher_mdr_channel c = {.array = call->array};

    c.index.at[0] = (call->index.at[0] + hop + CELLS) % CELLS;
    return c;
}

static void
cell_create(telpher_mdr_call *call)
{
    struct cell *c = call->self;

    c->value = first_value(call->index.at[0]);
    c->history = calloc(STEPS, sizeof(*c->history));
}

static void
cell_destroy(telpher_mdr_call *call)
{
    free(((struct cell *)call->self)->history);
}

static void
cell_pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    struct cell *c = call->self;
    uint64_t *history = c->history;

    if (telpher_mdr_pup_mode(p) == TELPHER_MDR_PACK) {
        die_saving(call);
    }
    telpher_mdr_pup_bytes(p, c, sizeof(*c));
    if (telpher_mdr_pup_mode(p) == TELPHER_MDR_UNPACK) {
        history = calloc(STEPS, sizeof(*history));
    }
    c->history = history;
    telpher_mdr_pup_bytes(p, c->history, STEPS * sizeof(*history));
}

static void
exchange(telpher_mdr_call *call)
{
    struct cell *c = call->self;

    for (int32_t hop = -1; hop <= 1; hop += 2) {
        const telpher_mdr_channel to = channel_to(call, hop);

        OK(telpher_mdr_channel_send(call, &to, &c->value, sizeof(c->value), NULL, 0,
                                    NULL));
        OK(telpher_mdr_channel_recv(call, &to, TAKE));
    }
}

static uint64_t
next_value(uint64_t own, uint64_t neighbours)
{
    return mix(own * 3 + neighbours);
}

static void
cell_take(telpher_mdr_call *call)
{
    struct cell *c = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = c->run.done};

    c->sum += *TELPHER_MDR_PARAMS(call, uint64_t);
    if (++c->taken % 2 != 0) {
        return;
    }
    c->value = next_value(c->value, c->sum);
    c->sum = 0;
    c->history[c->step % STEPS] = c->value;
    if (++c->step % STEPS != 0) {
        exchange(call);
        return;
    }
    OK(telpher_mdr_contribute(call, &c->history[STEPS - 1], sizeof(uint64_t),
                              TELPHER_MDR_SUM_I64, &target));
    OK(telpher_mdr_migrate(call,
                           (uint32_t)(mix(c->value) % telpher_mdr_size(call->mdr))));
}

static void
cell_run(telpher_mdr_call *call)
{
    struct cell *c = call->self;

    c->run = *TELPHER_MDR_PARAMS(call, struct run);
    if (kills != 0 && c->run.epoch == KILL_EPOCH && call->index.at[0] == CELLS / 2 &&
        deaths(0) == 0) {
        (void)deaths(1);
        die(0);
    }
    exchange(call);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [RUN] = TELPHER_MDR_ENTRY(cell_run, struct run),
    [TAKE] = TELPHER_MDR_ENTRY(cell_take, uint64_t),
};
static const telpher_mdr_class cells = {.struct_size = sizeof(cells),
                                        .entry_count = ENTRIES,
                                        .name = "cell",
                                        .object_size = sizeof(struct cell),
                                        .create = cell_create,
                                        .destroy = cell_destroy,
                                        .entries = entries,
                                        .pup = cell_pup};

/* ---- the program ---- */

static uint64_t
compute_alone(void)
{
    uint64_t value[CELLS], next[CELLS], sum = 0;

    for (int32_t i = 0; i < CELLS; i++) {
        value[i] = first_value(i);
    }
    for (uint32_t s = 1; s <= EPOCHS * STEPS; s++) {
        for (int i = 0; i < CELLS; i++) {
            next[i] = next_value(value[i], value[(i + 1) % CELLS] +
                                               value[(i + CELLS - 1) % CELLS]);
            sum += s % STEPS == 0 ? next[i] : 0;
        }
        memcpy(value, next, sizeof(value));
    }
    return sum;
}

struct progress {
    telpher_mdr_array array;
    uint64_t sum;
    uint32_t epoch;
};

static void
run_main(telpher_mdr_call *call)
{
    static const int32_t extent[] = {CELLS};
    struct progress at = {.epoch = 0};
    telpher_status status = telpher_mdr_restore(call, NULL, &at, sizeof(at), NULL);

    if (status == TELPHER_ERR_NOT_FOUND) {
        OK(telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &at.array));
    } else {
        OK(status);
        fprintf(stderr, "%u processes go on from epoch %u\n",
                telpher_mdr_size(call->mdr), at.epoch);
    }
    while (at.epoch < EPOCHS) {
        (void)usleep(pause_ms * 1000);
        struct run run = {.epoch = at.epoch};
        uint64_t sum = 0;

        OK(telpher_mdr_future_create(call->mdr, &run.done));
        OK(telpher_mdr_broadcast(call->mdr, &at.array, RUN, &run, sizeof(run)));
        status = telpher_mdr_await(call->mdr, run.done, &sum, sizeof(sum), NULL);
        if (status == TELPHER_OK) {
            at.sum += sum;
            at.epoch++;
            status = telpher_mdr_checkpoint(call, NULL, &at, sizeof(at));
        }
        if (status !=
            TELPHER_OK) { /* a process died, which ends the run, or saving failed */
            fprintf(stderr, "%s\n", telpher_mdr_last_error(call->mdr));
            if (status == TELPHER_ERR_IO) {
                telpher_mdr_exit(call->mdr, status);
            }
            return;
        }
    }
    printf("%u deaths, result %s\n", deaths(0),
           at.sum == compute_alone() ? "exact" : "WRONG");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    telpher_mdr *mdr = NULL;
    telpher_error err;
    telpher_status status;
    uint32_t number;

    kills = argc > 1 ? (uint32_t)atoi(argv[1]) : kills;
    seed = argc > 2 ? (uint32_t)atoi(argv[2]) : seed;
    pause_ms = argc > 3 ? (uint32_t)atoi(argv[3]) : pause_ms;
    arm();
    if (telpher_mdr_create(NULL, &mdr, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    OK(telpher_mdr_class_register(mdr, &cells, &number));
    status = telpher_mdr_run(mdr, run_main, NULL);
    telpher_mdr_destroy(mdr);
    return status == TELPHER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
