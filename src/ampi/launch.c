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

#include "ampi/move/move.h"
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

static char **given; /* arguments before any was taken out */
static const char *restart; /* folder of a checkpoint that there must be, NULL: none */
static int worst; /* exit status of all ranks */

/* Takes `+name TEXT` or `+nameTEXT` out of the command line. @return NULL: it is not there */
static const char *
take_option(int *argc, char **argv, const char *name)
{
    for (int i = 1; i < *argc; i++) {
        const char *text = argv[i] + strlen(name);
        int words = 1;

        if (strncmp(argv[i], name, strlen(name)) != 0) {
            continue;
        }
        if (*text == '\0' && i + 1 < *argc) {
            text = argv[i + 1];
            words = 2;
        }
        memmove(&argv[i], &argv[i + words],
                (size_t)(*argc - i - words + 1) * sizeof(argv[0]));
        *argc -= words;
        return text;
    }
    return NULL;
}

/* @return false: the text is no number of ranks */
static bool
read_ranks(const char *text, uint32_t *ret_ranks)
{
    char *end;
    unsigned long ranks;

    errno = 0;
    ranks = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || ranks == 0 || ranks > 1000000) {
        return false;
    }
    *ret_ranks = (uint32_t)ranks;
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
    tp_ampi.live--;
}

static void
run_rank(void *arg)
{
    struct start *start = arg;

    tp_ampi_rank_begin();
    end_rank(start->main_fn(start->argc, start->argv, environ));
}

static tp_ampi_main
copy_of(const struct tp_ampi_rank *rank)
{
    return tp_ampi.movable    ? tp_ampi_memory_main(rank->world)
           : rank->local == 0 ? tp_ampi_private_first()
                              : tp_ampi_private_copy(rank->world);
}

/* The light thread of a rank that may move, in the rank's memory. */
static struct tp_light *
start_own_light(struct tp_ampi_rank *rank, struct start *start)
{
    struct tp_stacks stack = {.count = 1};
    struct tp_light *light = tp_zalloc(sizeof(*light), "virtual rank");

    if (light != NULL) {
        stack.base = tp_ampi_memory_stack(rank->world, &stack.each);
        tp_ampi_memory_guard(rank->world);
        tp_lights_start_own(&tp_ampi.lights, light, &stack, run_rank, start);
    }
    return light;
}

static bool
start_rank(struct tp_ampi_rank *rank, int argc, char **argv)
{
    struct start *start = tp_zalloc(sizeof(*start), "virtual rank");

    if (start == NULL) {
        return false;
    }
    start->main_fn = copy_of(rank);
    start->argc = argc;
    start->argv = copy_arguments(argc, argv);
    if (start->main_fn == NULL || start->argv == NULL) {
        return false;
    }
    rank->main_fn = start->main_fn;
    rank->light = tp_ampi.movable ? start_own_light(rank, start)
                                  : tp_lights_start(&tp_ampi.lights, run_rank, start);
    if (rank->light == NULL) {
        return false;
    }
    rank->light->owner = rank;
    return true;
}

static bool
start_ranks(int argc, char **argv)
{
    bool started = tp_ampi.movable || tp_ampi_private_check();

    for (uint32_t i = 0; started && i < tp_ampi.rank_count; i++) {
        struct tp_ampi_rank *rank = tp_ampi.ranks[i];

        (void)tp_ampi_heap_use(rank->heap);
        started = start_rank(rank, argc, argv);
        (void)tp_ampi_heap_use(NULL);
    }
    return started;
}

/* Starts all ranks: from the checkpoint that the command line names, from one in memory, or anew. */
static bool
begin_ranks(int argc, char **argv)
{
    const char *folder = restart != NULL ? restart : tp_ampi_memory_folder();
    enum tp_ampi_restored restored = TP_AMPI_NONE;

    if (tp_ampi.movable && folder != NULL) {
        restored = tp_ampi_restore(folder);
    }
    if (restored == TP_AMPI_NONE && restart != NULL) {
        (void)fprintf(stderr,
                      "telpher-ampi: cannot restart from %s: there is no complete "
                      "checkpoint\n",
                      restart);
        return false;
    }
    return restored == TP_AMPI_NONE ? start_ranks(argc, argv)
                                    : restored == TP_AMPI_RESTORED;
}

static int
run_ranks(int argc, char **argv)
{
    tp_ampi.live = tp_ampi.rank_count;
    if (!begin_ranks(argc, argv)) {
        return 1;
    }
    while (tp_ampi.live != 0) {
        tp_ampi_turn(tp_ampi.parked != tp_ampi.rank_count);
        if (tp_ampi.parked == tp_ampi.rank_count) {
            tp_ampi_quiet();
        }
    }
    if (tp_ampi.movable && tp_ampi_memory_folder() != NULL) {
        tp_ampi_unsave(
            tp_ampi_memory_folder()); /* the job shall not start again from it */
    }
    return worst;
}

/* Compilers keep a random value in frames of the stack. It must be the same in all processes
 * that a stack may move to; its bytes end a text that overflows. Functions that have begun never
 * return. */
__attribute__((no_stack_protector)) static void
equalize_guards(void)
{
#if defined(__x86_64__)
    __asm__ volatile("movq %0, %%fs:0x28" : : "r"(UINT64_C(0x0d0aff1a5c2e7700)));
#endif
}

static int
run_virtual(uint32_t ranks, int argc, char **argv)
{
    int code;

    if (!tp_ampi_process_start(ranks)) {
        return 1;
    }
    if (!tp_ampi.virtual_ranks) {
        return tp_ampi_private_first()(argc, argv, environ);
    }
    code = run_ranks(argc, argv);
    tp_ampi_process_stop();
    return code;
}

int
__wrap_main(int argc, char **argv, char **envp)
{
    tp_ampi_main main_fn = tp_ampi_private_first();
    uint32_t ranks = 0;
    const char *text;

    if (main_fn == NULL) {
        (void)fprintf(stderr, "telpher-ampi: the program does not export main: link it "
                              "with telpher-mpicc\n");
        return 1;
    }
    given = tp_memdup(argv, ((size_t)argc + 1) * sizeof(*argv), "arguments");
    text = take_option(&argc, argv, "+vp");
    if (text != NULL && !read_ranks(text, &ranks)) {
        (void)fprintf(stderr, "telpher-ampi: +vp wants a number of ranks\n");
        return 1;
    }
    if (ranks == 0) {
        int code = main_fn(argc, argv, envp);

        tp_ampi_end_sessions();
        return code;
    }
    if (!tp_ampi_settings_load(&tp_ampi.settings)) {
        return 1;
    }
    restart = take_option(&argc, argv, "+restart");
    if (restart != NULL && !tp_ampi.settings.migrate) {
        (void)fprintf(stderr,
                      "telpher-ampi: +restart wants TELPHER_AMPI_MIGRATE=yes\n");
        return 1;
    }
    if (tp_ampi.settings.migrate) {
        if (given == NULL || !tp_ampi_memory_start(ranks, given)) {
            return 1;
        }
        equalize_guards();
        tp_ampi_exit(run_virtual(ranks, argc, argv));
    }
    return run_virtual(ranks, argc, argv);
}

void
__wrap_exit(int code)
{
    if (tp_ampi.lights.current == NULL) {
        tp_ampi_end_sessions();
        exit(code);
    }
    end_rank(code);
    for (;;) { /* the other ranks go on */
        tp_lights_suspend(&tp_ampi.lights);
    }
}
