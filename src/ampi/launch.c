/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's beginning and end. telpher-mpicc links main() and exit() to the functions here,
 * which start virtual ranks if the command line has `+vp N`, or the program as it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ampi/private.h"
#include "ampi/process.h"
#include "base/alloc.h"

/* The linker's names for what its option --wrap replaces. */
TELPHER_CALL int __wrap_main(int argc, char **argv, char **envp);
TELPHER_CALL void __wrap_exit(int code);

/** Start of a rank's main(). */
struct start {
    tp_ampi_main main_fn;
    int argc;
    char **argv;
};

static int worst; /* exit status of all ranks */
static uint32_t live; /* ranks whose main() has not returned */

/* Takes `+vp N` or `+vpN` out of the command line. @return false: N is no number of ranks */
static bool
take_option(int *argc, char **argv, uint32_t *ret_ranks)
{
    for (int i = 1; i < *argc; i++) {
        const char *text = argv[i] + 3;
        int words = 1;
        char *end;
        unsigned long ranks;

        if (strncmp(argv[i], "+vp", 3) != 0) {
            continue;
        }
        if (*text == '\0' && i + 1 < *argc) {
            text = argv[i + 1];
            words = 2;
        }
        errno = 0;
        ranks = strtoul(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0' || ranks == 0 ||
            ranks > 1000000) {
            return false;
        }
        *ret_ranks = (uint32_t)ranks;
        memmove(&argv[i], &argv[i + words],
                (size_t)(*argc - i - words + 1) * sizeof(argv[0]));
        *argc -= words;
        return true;
    }
    return true;
}

/* A program may change its arguments. */
static char **
copy_arguments(int argc, char **argv)
{
    char **copy = tp_alloc_array((size_t)argc + 1, sizeof(*copy), "arguments");

    for (int i = 0; copy != NULL && i < argc; i++) {
        copy[i] = tp_strdup(argv[i], "arguments");
        if (copy[i] == NULL) {
            return NULL;
        }
    }
    return copy;
}

static void
end_rank(int code)
{
    const struct tp_ampi_rank *rank = tp_ampi_current();

    if (rank->initialized && !rank->finalized) {
        (void)fprintf(stderr,
                      "telpher-ampi: rank %u ended with exit status %d before "
                      "MPI_Finalize\n",
                      rank->world, code);
        tp_ampi_abort(code);
    }
    worst = TP_MAX(worst, code & 0xff);
    live--;
}

static void
run_rank(void *arg)
{
    struct start *start = arg;

    tp_ampi_rank_begin();
    end_rank(start->main_fn(start->argc, start->argv, environ));
}

static bool
start_rank(struct tp_ampi_rank *rank, int argc, char **argv)
{
    struct start *start = tp_zalloc(sizeof(*start), "virtual rank");

    if (start == NULL) {
        return false;
    }
    start->main_fn =
        rank->local == 0 ? tp_ampi_private_first() : tp_ampi_private_copy(rank->world);
    start->argc = argc;
    start->argv = copy_arguments(argc, argv);
    if (start->main_fn == NULL || start->argv == NULL) {
        return false;
    }
    rank->main_fn = start->main_fn;
    rank->light = tp_lights_start(&tp_ampi.lights, run_rank, start);
    rank->light->owner = rank;
    live++;
    return true;
}

static int
run_ranks(int argc, char **argv)
{
    if (!tp_ampi_private_check()) {
        return 1;
    }
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        if (!start_rank(&tp_ampi.ranks[i], argc, argv)) {
            return 1;
        }
    }
    while (live != 0) {
        tp_ampi_turn(true);
    }
    return worst;
}

int
__wrap_main(int argc, char **argv, char **envp)
{
    tp_ampi_main main_fn = tp_ampi_private_first();
    uint32_t ranks = 0;
    int code;

    if (main_fn == NULL) {
        (void)fprintf(stderr, "telpher-ampi: the program does not export main: link it "
                              "with telpher-mpicc\n");
        return 1;
    }
    if (!take_option(&argc, argv, &ranks)) {
        (void)fprintf(stderr, "telpher-ampi: +vp wants a number of ranks\n");
        return 1;
    }
    if (ranks == 0) {
        return main_fn(argc, argv, envp);
    }
    if (!tp_ampi_process_start(ranks)) {
        return 1;
    }
    if (!tp_ampi.virtual_ranks) {
        return main_fn(argc, argv, envp);
    }
    code = run_ranks(argc, argv);
    tp_ampi_process_stop();
    return code;
}

void
__wrap_exit(int code)
{
    if (tp_ampi.lights.current == NULL) {
        exit(code);
    }
    end_rank(code);
    for (;;) { /* the other ranks go on */
        tp_lights_suspend(&tp_ampi.lights);
    }
}
