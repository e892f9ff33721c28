/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of Rinke, Prabhakaran and Wolf with figures of scripts/bench-offload. 3: starting
 * kernels by a spawn each, or by one spawn and calls; a point was measured, a broken line
 * is a model. 4: the calls alone, single and in a batch, beside protocols by hand. One
 * row for each MPI, of the job with most workers, and of these with fewest parents.
 */
#include "plot.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096, MPIS = 2 };

struct row {
    char test[16], launcher[16], mpi[64], mode[8], way[24];
    int parents, workers, kernels;
    double launch_us, done_us, start_us;
};

static struct row rows[ROWS_MAX];
static int row_count;

static bool
parse(const char *line, struct row *r)
{
    memset(r, 0, sizeof(*r));
    r->parents = (int)bench_plot_number(line, "\"parents\": ");
    r->workers = (int)bench_plot_number(line, "\"workers\": ");
    r->kernels = (int)bench_plot_number(line, "\"kernels\": ");
    r->launch_us = bench_plot_number(line, "\"launch_us\": ");
    r->done_us = bench_plot_number(line, "\"done_us\": ");
    r->start_us = bench_plot_number(line, "\"start_us\": ");
    bench_plot_text(line, "\"way\": \"", r->way, sizeof(r->way));
    return bench_plot_text(line, "\"test\": \"", r->test, sizeof(r->test)) &&
           bench_plot_text(line, "\"launcher\": \"", r->launcher,
                           sizeof(r->launcher)) &&
           bench_plot_text(line, "\"mpi\": \"", r->mpi, sizeof(r->mpi)) &&
           bench_plot_text(line, "\"mode\": \"", r->mode, sizeof(r->mode));
}

static bool
take_row(const char *line, void *user)
{
    (void)user;
    row_count += parse(line, &rows[row_count]);
    return row_count < ROWS_MAX;
}

static void
read_rows(const char *path)
{
    row_count = 0;
    bench_plot_lines(path, take_row, NULL);
}

bool
bench_plot_is_launch(const char *path)
{
    read_rows(path);
    for (int i = 0; i < row_count; i++) {
        if (strcmp(rows[i].test, "launch") == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what is shown of an MPI ---- */

struct job {
    const char *launcher, *mpi, *mode;
    int parents, workers;
};

static bool
is_of(const struct row *r, const struct job *job, const char *test)
{
    return strcmp(r->test, test) == 0 && strcmp(r->launcher, job->launcher) == 0 &&
           strcmp(r->mode, job->mode) == 0 && r->parents == job->parents &&
           r->workers == job->workers;
}

static bool
choose_job(const char *launcher, const char *mode, struct job *job)
{
    *job = (struct job){launcher, NULL, mode, 0, 0};
    for (int i = 0; i < row_count; i++) {
        const struct row *r = &rows[i];

        if (strcmp(r->test, "launch") == 0 && strcmp(r->launcher, launcher) == 0 &&
            strcmp(r->mode, mode) == 0 &&
            (r->workers > job->workers ||
             (r->workers == job->workers && r->parents < job->parents))) {
            job->mpi = r->mpi;
            job->parents = r->parents;
            job->workers = r->workers;
        }
    }
    return job->mpi != NULL;
}

static const struct row *
find_first(const struct job *job, const char *test)
{
    for (int i = 0; i < row_count; i++) {
        if (is_of(&rows[i], job, test)) {
            return &rows[i];
        }
    }
    return NULL;
}

/* ---- data and curves ---- */

/* Points of one way, each with @p more_us added; "e" ends them. */
static void
put_way(FILE *out, const struct job *job, const char *way, double more_us)
{
    for (int i = 0; i < row_count; i++) {
        if (is_of(&rows[i], job, "launch") && strcmp(rows[i].way, way) == 0) {
            fprintf(out, "%d %g\n", rows[i].kernels, rows[i].launch_us + more_us);
        }
    }
    fputs("e\n", out);
}

static void
put_spawns(FILE *out, const struct job *job)
{
    for (int i = 0; i < row_count; i++) {
        if (is_of(&rows[i], job, "spawns")) {
            fprintf(out, "%d %g\n", rows[i].kernels, rows[i].done_us);
        }
    }
    fputs("e\n", out);
}

static void
put_axes(FILE *out, const struct job *job, const char *title)
{
    fprintf(out,
            "set title \"%s\\n%s, %s, parents:workers %d:%d\"\n"
            "set xlabel 'kernels'\nset logscale x 2\nset logscale y 10\n"
            "set xrange [0.9:290]\nset key below\n",
            title, job->mpi, job->mode, job->parents, job->workers);
}

static void
put_figure_3(FILE *out, const struct job *job)
{
    const struct row *setup = find_first(job, "setup");
    const struct row *one = find_first(job, "spawns");
    double start = setup != NULL ? setup->start_us : 0;
    const char *what = strcmp(job->mode, "spawn") == 0 ? "1 spawn" : "1 start";

    put_axes(out, job, "Kernels and what starts their workers (figure 3)");
    fputs("set ylabel 's'\nset format y '%g'\nplot ", out);
    if (one != NULL) {
        fputs("'-' using 1:($2/1e6) with linespoints lc 1 pt 7 title 'a spawn for each "
              "kernel, measured', ",
              out);
        fprintf(out,
                "%g * x with lines lc 1 dt 2 title 'model: as many times one spawn', ",
                one->done_us / 1e6);
    }
    fprintf(out,
            "'-' using 1:($2/1e6) with linespoints lc 2 pt 4 title '%s + "
            "MPIX_Kernel_call', "
            "'-' using 1:($2/1e6) with linespoints lc 3 pt 6 title '%s + "
            "MPIX_Kernel_call_multiple'\n",
            what, what);
    if (one != NULL) {
        put_spawns(out, job);
    }
    put_way(out, job, "single", start);
    put_way(out, job, "batch", start);
}

static void
put_figure_4(FILE *out, const struct job *job)
{
    static const char *const ways[][3] = {
        {"single", "MPIX_Kernel_call", "lc 2 pt 4"},
        {"batch", "MPIX_Kernel_call_multiple", "lc 3 pt 6"},
        {"hand_single", "by hand", "lc 4 dt 2 pt 1"},
        {"paper_single", "by hand, two broadcasts", "lc 5 dt 2 pt 2"},
        {"paper_batch", "batch by hand, two broadcasts", "lc 6 dt 2 pt 3"}};
    enum { COUNT = sizeof(ways) / sizeof(ways[0]) };

    put_axes(out, job, "Kernels alone, until the last begins (figure 4)");
    fputs("set ylabel 'us'\nplot ", out);
    for (int i = 0; i < COUNT; i++) {
        fprintf(out, "%s'-' with linespoints %s title '%s'", i > 0 ? ", " : "",
                ways[i][2], ways[i][1]);
    }
    fputs("\n", out);
    for (int i = 0; i < COUNT; i++) {
        put_way(out, job, ways[i][0], 0);
    }
}

static void
put_figures(FILE *out, const void *what)
{
    static const char *const launchers[MPIS] = {"openmpi", "mpich"};
    struct job jobs[MPIS][2];
    bool there[MPIS];
    int count = 0;

    (void)what;
    for (int i = 0; i < MPIS; i++) {
        there[i] = choose_job(launchers[i], "split", &jobs[i][1]);
        if (!choose_job(launchers[i], "spawn", &jobs[i][0])) {
            jobs[i][0] = jobs[i][1];
        } else if (!there[i]) {
            jobs[i][1] = jobs[i][0];
            there[i] = true;
        }
        count += there[i];
    }
    fprintf(out, "set multiplot layout %d,2\n", count);
    for (int i = 0; i < MPIS; i++) {
        if (there[i]) {
            put_figure_3(out, &jobs[i][0]);
            put_figure_4(out, &jobs[i][1]);
        }
    }
    fputs("unset multiplot\n", out);
}

int
bench_plot_launch(const char *path, const char *picture)
{
    read_rows(path);
    return bench_plot_draw(put_figures, NULL, picture);
}
