/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-bench-launch-<mpi>: the program that `telpher-bench launch` becomes. It is parent,
 * worker, and what real spawns start; launch.h.
 */
#include "bench/launch/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/offload.h>
#include <unistd.h>

#include "bench/launch/launch_report.h"
#include "bench/launch/launch_time.h"
#include "bench/launch/launch_ways.h"

static struct launch_options options;
static struct launch_setup setup;
static MPI_Comm parents, inter;
static struct launch_clock *clocks; /* of the workers */
static struct launch_stamp *stamps;
static struct launch_windows windows;

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "telpher-bench: launch: %s%s%s\n", what,
            detail[0] != '\0' ? ": " : "", detail);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(EXIT_FAILURE);
}

/* Ends the program: a worker ran other kernels, or other arguments, than were started. */
static void
fail_check(const struct launch_way *way, int worker, int count)
{
    char text[128];

    snprintf(text, sizeof(text),
             "worker %d ran %.0f of %d kernels, %.0f of them with wrong arguments",
             worker, stamps[worker].kernels, count, stamps[worker].wrong);
    fail(way->title, text);
}

/* ---- clocks ---- */

static void
compare_workers(void)
{
    launch_clocks_begin();
    for (int i = 0; setup.rank == 0 && i < setup.workers; i++) {
        launch_clock_compare(inter, i, &clocks[i]);
        if (clocks[i].round_trip_us > setup.round_trip_us) {
            setup.round_trip_us = clocks[i].round_trip_us;
        }
        if (clocks[i].measured_us * clocks[i].measured_us >
            setup.offset_us * setup.offset_us) {
            setup.offset_us = clocks[i].measured_us;
        }
        setup.one_clock &= clocks[i].offset_us == 0;
    }
}

static void
compare_parents(void)
{
    if (setup.rank != 0) {
        launch_clock_answer(parents);
    }
    for (int i = 1; i < setup.parents; i++) {
        struct launch_clock clock;

        if (setup.rank == 0) {
            launch_clock_compare(parents, i, &clock);
            MPI_Send(&clock.offset_us, 1, MPI_DOUBLE, i, 0, parents);
            setup.one_clock &= clock.offset_us == 0;
        } else if (setup.rank == i) {
            MPI_Recv(&windows.offset_us, 1, MPI_DOUBLE, 0, 0, parents,
                     MPI_STATUS_IGNORE);
        }
    }
}

static void
compare_clocks(void)
{
    setup.one_clock = true;
    compare_parents();
    compare_workers();
    MPI_Bcast(&setup.one_clock, sizeof(setup.one_clock), MPI_BYTE, 0, parents);
}

/* ---- one repetition ---- */

/* At process 0: what the workers noted, on its clock. */
static void
judge(const struct launch_way *way, int count, double from, struct launch_times *t,
      double *ret_end)
{
    t->launch_us = 0;
    t->done_us = 0;
    for (int i = 0; i < setup.workers; i++) {
        double entry = stamps[i].entry_us - clocks[i].offset_us - from;
        double end = stamps[i].exit_us - clocks[i].offset_us - from;

        t->launch_us = entry > t->launch_us ? entry : t->launch_us;
        t->done_us = end > t->done_us ? end : t->done_us;
        if (stamps[i].kernels != count || stamps[i].wrong != 0) {
            fail_check(way, i, count);
        }
    }
    *ret_end = from + t->done_us;
}

/* @return whether it counts */
static bool
repeat(const struct launch_way *way, int count, struct launch_times *t)
{
    double from, begin, end = 0;
    bool late;

    launch_ways_flip(options.flip == way - launch_ways + 1);
    if (way->by_hand != 0) {
        launch_hand_begin(way->by_hand);
    }
    from = launch_windows_await(&windows, &late);
    begin = launch_now_us();
    if (way->by_hand == 0 || setup.rank == 0) {
        way->start(count);
    }
    t->inject_us = launch_now_us() - begin;
    if (way->by_hand != 0 && setup.rank == 0) {
        launch_hand_end();
    }
    launch_fetch(stamps);
    if (setup.rank == 0) {
        judge(way, count, from, t, &end);
    }
    return launch_windows_close(&windows, late, end);
}

/* ---- all of them, in an order that is a dice's ---- */

struct turn {
    int way, count; /* indexes */
};

static void
shuffle(struct turn *turns, int count)
{
    srand((unsigned)options.seed + 1);
    for (int i = count - 1; i > 0; i--) {
        int other = rand() % (i + 1);
        struct turn t = turns[i];

        turns[i] = turns[other];
        turns[other] = t;
    }
}

/* Every kind has a turn in every round. */
static void
take_turns(struct launch_results *results, int rounds, bool counts)
{
    struct turn turns[LAUNCH_WAYS * LAUNCH_COUNTS];
    int total = 0;

    for (int w = 0; w < LAUNCH_WAYS; w++) {
        for (int c = 0; c < results->counts; c++) {
            turns[total++] = (struct turn){w, c};
        }
    }
    shuffle(turns, total);
    for (int i = 0; i < rounds * total; i++) {
        const struct turn *turn = &turns[i % total];
        struct launch_times t;
        bool good = false;

        if (!setup.one_clock && i % 64 == 0) {
            compare_clocks(); /* they drift */
        }
        for (int attempt = 0; attempt < 5 && !good; attempt++) {
            good = repeat(&launch_ways[turn->way], 1 << turn->count, &t);
            setup.windows += counts;
            setup.invalid += counts && !good;
        }
        if (counts && good) {
            launch_results_add(results, turn->way, turn->count, &t);
        }
        if (i % total == total - 1) {
            options.seed++;
            shuffle(turns, total);
        }
    }
}

/* ---- the program ---- */

/* The first burst after the start, in one piece with it: what a user waits for. */
static void
start_workers(void)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    telpher_error err = {0};
    static char self[PATH_MAX], flag[] = "--worker", *argv[] = {flag, NULL};
    double before, from;
    struct launch_times t;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
        fail("cannot read the path of this program, /proc/self/exe", strerror(errno));
    }
    params.workers = options.workers;
    params.program = self;
    params.argv = argv;
    params.mode = options.spawn ? TELPHER_OFFLOAD_SPAWN : TELPHER_OFFLOAD_SPLIT;
    before = launch_now_us();
    if (telpher_offload_start(&params, 0, parents, &inter, &err) != TELPHER_OK) {
        fail("cannot start the workers", err.text);
    }
    setup.start_us = launch_now_us() - before;
    MPI_Comm_remote_size(inter, &setup.workers);
    clocks = calloc((size_t)setup.workers, sizeof(*clocks));
    stamps = calloc((size_t)setup.workers, sizeof(*stamps));
    if (clocks == NULL || stamps == NULL) {
        fail("out of memory", "times of all workers");
    }
    launch_ways_init(parents, inter);
    from = before;
    launch_ways[0].start(LAUNCH_WHOLE);
    launch_fetch(stamps);
    compare_clocks();
    if (setup.rank == 0) {
        judge(&launch_ways[0], LAUNCH_WHOLE, from, &t, &before);
        setup.whole_us = t.launch_us;
    }
}

static void
measure(void)
{
    struct launch_results results = {0};

    for (int n = 1; n <= options.most; n *= 2) {
        results.counts++;
    }
    launch_windows_init(&windows, parents);
    start_workers();
    take_turns(&results, options.warmup, false);
    take_turns(&results, options.repetitions, true);
    setup.window_us = windows.length_us;
    if (setup.rank == 0) {
        launch_report(&options, &setup, &results);
    }
    launch_workers_end();
    MPI_Comm_disconnect(&inter);
    launch_results_free(&results);
    free(clocks);
    free(stamps);
}

static int
run(int argc, char **argv)
{
    char number[16];
    int code = launch_parse_options(argc, argv, &options);

    if (code >= 0) {
        return code;
    }
    snprintf(number, sizeof(number), "%d", options.spawn ? 0 : options.workers);
    setenv("TELPHER_OFFLOAD_WORKERS", number, 1); /* the same in all processes */
    setenv("TELPHER_OFFLOAD", options.spawn ? "spawn" : "split", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &parents);
    MPI_Comm_rank(parents, &setup.rank);
    MPI_Comm_size(parents, &setup.parents);
    measure();
    if (options.spawns > 0 && !launch_spawns(&options, parents)) {
        fail("real spawns", "a spawned process got wrong arguments");
    }
    MPI_Comm_free(&parents);
    MPI_Finalize();
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) {
        return telpher_worker_main(1, argv);
    }
    if (argc > 1 && strcmp(argv[1], LAUNCH_ONCE) == 0) {
        return launch_spawned();
    }
    return run(argc, argv);
}
