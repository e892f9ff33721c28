/* SPDX-License-Identifier: Apache-2.0 */
/* `telpher-bench plot`: latencies as bars and bandwidths as lines, drawn by gnuplot
 * from the JSON files this program writes. */
#include "plot.h"
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FILES = 8, LINE_BYTES = 4096 };

static const char usage[] =
    "Usage: telpher-bench plot FILE.json... -o OUT.png\n"
    "Draws the medians of one or more results of telpher-bench, with gnuplot; of "
    "scripts/bench-offload,\nwhat kernels over MPI cost to start; of "
    "scripts/bench-studies the case studies;\nof notified -f json its tables.\n\n"
    "  -o, --out FILE  the picture: .png or .svg\n"
    "  -h, --help      this text\n";

/* One line of "results" in a file: what put_json_series() in report.c writes. */
struct point {
    char target[32], test[64];
    double bytes, us, mb_per_s;
    bool sized, good;
};

/* --- reading -------------------------------------------------------------------- */

bool
bench_plot_text(const char *line, const char *key, char *ret_text, size_t size)
{
    const char *at = strstr(line, key);
    size_t length;

    if (at == NULL) {
        return false;
    }
    at += strlen(key);
    length = strcspn(at, "\"");
    snprintf(ret_text, size, "%.*s", (int)length, at);
    return true;
}

double
bench_plot_number(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at != NULL ? strtod(at + strlen(key), NULL) : 0;
}

void
bench_plot_lines(const char *path, bool (*take)(const char *line, void *user),
                 void *user)
{
    FILE *file = fopen(path, "r");
    char line[LINE_BYTES];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL &&
           take(line, user)) {
    }
    if (file != NULL) {
        fclose(file);
    }
}

static bool
parse_point(const char *line, struct point *ret_point)
{
    struct point p = {.sized = strstr(line, "\"pattern\": \"bandwidth\"") != NULL,
                      .good = strstr(line, "\"validated\": true") != NULL};

    if (!bench_plot_text(line, "\"target\": \"", p.target, sizeof(p.target)) ||
        !bench_plot_text(line, "\"test\": \"", p.test, sizeof(p.test))) {
        return false;
    }
    p.bytes = bench_plot_number(line, "\"bytes\": ");
    p.us = bench_plot_number(line, "\"median_us\": ");
    p.mb_per_s = bench_plot_number(line, "\"median_mb_per_s\": ");
    *ret_point = p;
    return true;
}

/* --- data blocks of gnuplot ------------------------------------------------------- */

struct putting {
    void (*put)(FILE *out, const struct point *p, void *argument);
    FILE *out;
    void *argument;
    int count;
};

static bool
put_point(const char *line, void *user)
{
    struct putting *to = user;
    struct point p;

    if (parse_point(line, &p) && p.good) {
        to->put(to->out, &p, to->argument);
        to->count++;
    }
    return true;
}

/* Calls `put` for each good point; returns how many there were. */
static int
each_point(const char *path,
           void (*put)(FILE *out, const struct point *p, void *argument), FILE *out,
           void *argument)
{
    struct putting to = {put, out, argument, 0};

    bench_plot_lines(path, put_point, &to);
    return to.count;
}

static void
put_latency(FILE *out, const struct point *p, void *argument)
{
    const char *target = argument;

    if (!p->sized && strcmp(p->target, target) == 0) {
        fprintf(out, "\"%s\" %g\n", p->test, p->us);
    }
}

struct choice {
    const char *target, *test;
    int count;
};

static void
put_bandwidth(FILE *out, const struct point *p, void *argument)
{
    struct choice *choice = argument;

    if (p->sized && strcmp(p->target, choice->target) == 0 &&
        strcmp(p->test, choice->test) == 0) {
        fprintf(out, "%g %g\n", p->bytes, p->mb_per_s);
        choice->count++;
    }
}

static void
count_target(FILE *out, const struct point *p, void *argument)
{
    struct choice *choice = argument;

    (void)out;
    choice->count += !p->sized && strcmp(p->target, choice->target) == 0;
}

/* --- the script ------------------------------------------------------------------- */

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Bars: one cluster a test, one bar a target and file. */
static void
put_latency_plot(FILE *out, char **files, int count)
{
    static const char *const targets[] = {"Subject", "Native", "Peer"};
    char list[LINE_BYTES] = "";
    int block = 0;

    for (int f = 0; f < count; f++) {
        for (int t = 0; t < 3; t++) {
            struct choice choice = {targets[t], NULL, 0};
            const size_t used = strlen(list);

            each_point(files[f], count_target, out, &choice);
            if (choice.count == 0) {
                continue;
            }
            fprintf(out, "$lat%d << EOD\n", block);
            each_point(files[f], put_latency, out, (void *)targets[t]);
            fputs("EOD\n", out);
            snprintf(list + used, sizeof(list) - used,
                     "%s$lat%d using 2:xtic(1) title \"%s, %s\"", block > 0 ? ", " : "",
                     block, base_name(files[f]), targets[t]);
            block++;
        }
    }
    if (block > 0) {
        fprintf(out,
                "set title 'Latency (median)'\nset key top left\nset ylabel 'us'\nset "
                "logscale y\n"
                "set style data histogram\nset style fill solid 0.8 noborder\n"
                "set boxwidth 0.9\nset xtics rotate by -35\nplot %s\n"
                "unset logscale y\nset xtics norotate\n",
                list);
    }
}

static void
put_bandwidth_plot(FILE *out, char **files, int count)
{
    static const char *const targets[] = {"Subject", "Native", "Peer", "Floor"};
    static const char *const tests[] = {"bw_write", "bw_read", "tcp_write", "tcp_read",
                                        "memcpy"};
    char list[LINE_BYTES] = "";
    int block = 0;

    for (int i = 0; i < count * 4 * 5; i++) {
        const char *file = files[i / 20];
        struct choice choice = {targets[i / 5 % 4], tests[i % 5], 0};
        const size_t used = strlen(list);

        fprintf(out, "$bw%d << EOD\n", i);
        each_point(file, put_bandwidth, out, &choice);
        fputs("EOD\n", out);
        if (choice.count > 0) {
            snprintf(list + used, sizeof(list) - used,
                     "%s$bw%d using 1:2 with linespoints %s title \"%s, %s %s\"",
                     block++ > 0 ? ", " : "", i,
                     strcmp(choice.target, "Floor") == 0 ? "dashtype 2" : "",
                     base_name(file), choice.target, choice.test);
        }
    }
    if (block > 0) {
        fprintf(
            out,
            "set title 'Bandwidth (median)'\nset xlabel 'bytes'\nset ylabel 'MB/s'\n"
            "set logscale y\nset logscale x 4\nset format x '%%.0b%%BB'\n"
            "set key outside right top\nplot %s\n",
            list);
    }
}

struct pictures {
    char **files;
    int count;
};

static void
put_figures(FILE *out, const void *what)
{
    const struct pictures *p = what;

    fputs("set multiplot layout 2,1\n", out);
    put_latency_plot(out, p->files, p->count);
    put_bandwidth_plot(out, p->files, p->count);
    fputs("unset multiplot\n", out);
}

static void
put_head(FILE *out, const char *picture)
{
    const size_t length = strlen(picture);
    const bool svg = length > 4 && strcmp(picture + length - 4, ".svg") == 0;

    fprintf(out, "set terminal %s size 1100,1000 noenhanced\nset output '",
            svg ? "svg" : "pngcairo");
    for (const char *at = picture; *at != '\0'; at++) {
        fputs(*at == '\'' ? "''" : (char[]){*at, '\0'}, out);
    }
    fputs("'\nset grid ytics\n", out);
}

/* Starts gnuplot without a shell; gives the file its script is written to. */
static FILE *
start_gnuplot(pid_t *ret_child)
{
    int ends[2];

    if (pipe(ends) != 0) {
        return NULL;
    }
    *ret_child = fork();
    if (*ret_child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("gnuplot", "gnuplot", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    if (*ret_child < 0) {
        close(ends[1]);
        return NULL;
    }
    return fdopen(ends[1], "w");
}

int
bench_plot_draw(void (*put)(FILE *out, const void *what), const void *what,
                const char *picture)
{
    pid_t child;
    int status = 0;
    FILE *script;

    signal(SIGPIPE, SIG_IGN); /* gnuplot may be missing */
    script = start_gnuplot(&child);
    if (script == NULL) {
        fprintf(stderr, "telpher-bench: no process for gnuplot: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    put_head(script, picture);
    put(script, what);
    fclose(script);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        fputs("telpher-bench: plot needs gnuplot, which is not installed (package "
              "gnuplot-nox)\n",
              stderr);
        return EXIT_FAILURE;
    }
    if (status != 0) {
        fputs("telpher-bench: gnuplot has failed\n", stderr);
        return EXIT_FAILURE;
    }
    printf("Plot: %s\n", picture);
    return EXIT_SUCCESS;
}

static void
put_nothing(FILE *out, const struct point *p, void *argument)
{
    (void)out;
    (void)p;
    (void)argument;
}

static int
check_and_draw(char **files, int count, const char *picture)
{
    for (int i = 0; i < count; i++) {
        if (each_point(files[i], put_nothing, NULL, NULL) == 0) {
            fprintf(stderr, "telpher-bench: %s: no results of telpher-bench in it\n",
                    files[i]);
            return EXIT_FAILURE;
        }
    }
    return bench_plot_draw(put_figures, &(const struct pictures){files, count},
                           picture);
}

int
bench_plot_main(int argc, char **argv)
{
    static const struct option names[] = {{"out", required_argument, NULL, 'o'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *picture = NULL;
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (option != 'o') {
            return 2;
        }
        picture = optarg;
    }
    if (picture == NULL || optind == argc || argc - optind > MAX_FILES) {
        fprintf(stderr, "telpher-bench: 1 to %d files and one picture are wanted\n%s",
                MAX_FILES, usage);
        return 2;
    }
    if (argc - optind == 1 && bench_plot_is_launch(argv[optind])) {
        return bench_plot_launch(argv[optind], picture);
    }
    if (argc - optind == 1 && bench_plot_is_studies(argv[optind])) {
        return bench_plot_studies(picture);
    }
    if (argc - optind == 1 && bench_plot_is_notified(argv[optind])) {
        return bench_plot_notified(picture);
    }
    return check_and_draw(argv + optind, argc - optind, picture);
}
