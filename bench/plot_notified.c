/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of telpher-bench notified --format json: a figure for each, in which every row is
 * a bar, and a diamond the figure of dCUDA's thesis where it has one. */
#include "plot.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 128 };

struct row {
    char table[8], test[64], unit[8], thesis[48];
    double median;
};

static struct row rows[ROWS_MAX];
static int row_count;

static bool
take_row(const char *line, void *user)
{
    struct row *r = &rows[row_count];

    (void)user;
    memset(r, 0, sizeof(*r));
    r->median = bench_plot_number(line, "\"median\": ");
    row_count += bench_plot_text(line, "\"table\": \"", r->table, sizeof(r->table)) &&
                 bench_plot_text(line, "\"test\": \"", r->test, sizeof(r->test)) &&
                 bench_plot_text(line, "\"unit\": \"", r->unit, sizeof(r->unit)) &&
                 bench_plot_text(line, "\"thesis\": \"", r->thesis, sizeof(r->thesis));
    return row_count < ROWS_MAX;
}

bool
bench_plot_is_notified(const char *path)
{
    row_count = 0;
    bench_plot_lines(path, take_row, NULL);
    return row_count > 0;
}

/* Text in gnuplot's single quotes. */
static void
put_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        fputs(*text == '\'' ? "''" : (char[]){*text, '\0'}, out);
    }
    fputc('\'', out);
}

/* From the first row downwards; a bar begins left of the picture. */
static void
put_bars(FILE *out, const char *table, bool thesis)
{
    int at = 0;

    for (int i = 0; i < row_count; i++) {
        double value = thesis ? strtod(rows[i].thesis, NULL) : rows[i].median;

        at -= strcmp(rows[i].table, table) == 0;
        if (strcmp(rows[i].table, table) == 0 && value > 0) {
            fprintf(out, thesis ? "%g %d\n" : "%g %d 1e-9 %g %g %g\n", value, at, value,
                    at - 0.35, at + 0.35);
        }
    }
    fputs("e\n", out);
}

static void
put_table(FILE *out, const char *table, const char *what)
{
    const char *unit = "";
    int at = 0;

    fputs("set ytics (", out);
    for (int i = 0; i < row_count; i++) {
        if (strcmp(rows[i].table, table) == 0) {
            fputs(at != 0 ? ", " : "", out);
            put_quoted(out, rows[i].test);
            fprintf(out, " %d", --at);
            unit = rows[i].unit;
        }
    }
    if (at == 0) {
        fputs(") \nset multiplot next\n", out);
        return;
    }
    fprintf(out,
            ") font ',8'\nset title 'Table %s: %s; diamonds: dCUDA, K80' offset -10,0 "
            "font ',10'\nset xlabel '%s'\nset yrange [%g:0]\n"
            "plot '-' with boxxyerror fs solid 0.6 lc rgb '#009e73' notitle, "
            "'-' with points pt 13 ps 1.5 lc rgb '#9400d3' notitle\n",
            table, what, unit, at - 0.6);
    put_bars(out, table, false);
    put_bars(out, table, true);
}

static void
put_figures(FILE *out, const void *what)
{
    (void)what;
    fputs("set multiplot layout 2,2\nset lmargin 33\nset logscale x\nset xrange "
          "[0.01:*]\nset grid xtics\nset xtics font ',9'\nset format x '%g'\n",
          out);
    put_table(out, "5.1", "half a round trip");
    put_table(out, "5.2", "host and device");
    put_table(out, "5.3", "network alone");
    put_table(out, "5.4", "bandwidth");
    fputs("unset multiplot\n", out);
}

int
bench_plot_notified(const char *picture)
{
    return bench_plot_draw(put_figures, NULL, picture);
}
