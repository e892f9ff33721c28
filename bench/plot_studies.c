/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case studies of kernels whose ranks communicate, of scripts/bench-studies: the time over
 * the number of devices, of the ranks and of the form of two models, with the intervals of
 * their medians; what computing and sending take alone are broken lines.
 */
#include "plot.h"

#include <string.h>

enum { ROWS_MAX = 256, FORMS = 4 };

static const struct form {
    const char *key, *title, *style;
} forms[FORMS] = {
    {"ours", "ranks", "lw 2 lc rgb '#009e73' pt 7"},
    {"two_model", "two models", "lw 2 lc rgb '#9400d3' pt 4"},
    {"computes", "computing", "lc rgb '#d55e00' dt 2 pt 1"},
    {"sends", "sending", "lc rgb '#0072b2' dt 2 pt 2"},
};

struct row {
    char study[32];
    int ranks, devices;
    double ms[FORMS], low[FORMS], high[FORMS];
};

static struct row rows[ROWS_MAX];
static int row_count;

static double
number_of(const char *line, const char *form, const char *what)
{
    char key[64];

    snprintf(key, sizeof(key), "\"%s_%sms\": ", form, what);
    return bench_plot_number(line, key);
}

static bool
parse(const char *line, struct row *r)
{
    char test[16];

    memset(r, 0, sizeof(*r));
    r->ranks = (int)bench_plot_number(line, "\"ranks\": ");
    r->devices = (int)bench_plot_number(line, "\"devices\": ");
    for (int i = 0; i < FORMS; i++) {
        r->ms[i] = number_of(line, forms[i].key, "");
        r->low[i] = number_of(line, forms[i].key, "low_");
        r->high[i] = number_of(line, forms[i].key, "high_");
    }
    return bench_plot_text(line, "\"test\": \"", test, sizeof(test)) &&
           strcmp(test, "study") == 0 &&
           bench_plot_text(line, "\"study\": \"", r->study, sizeof(r->study));
}

static bool
take_row(const char *line, void *user)
{
    (void)user;
    row_count += parse(line, &rows[row_count]);
    return row_count < ROWS_MAX;
}

bool
bench_plot_is_studies(const char *path)
{
    row_count = 0;
    bench_plot_lines(path, take_row, NULL);
    return row_count > 0;
}

static void
put_form(FILE *out, const char *study, int form)
{
    for (int i = 0; i < row_count; i++) {
        const struct row *r = &rows[i];

        if (strcmp(r->study, study) == 0) {
            fprintf(out, "%g %g %g %g\n", r->devices + 0.05 * (form - 1.5), r->ms[form],
                    r->low[form], r->high[form]); /* side by side */
        }
    }
    fputs("e\n", out);
}

static void
put_study(FILE *out, const struct row *first)
{
    fprintf(out,
            "set title '%s, %d ranks a device'\nset xlabel 'devices'\n"
            "set ylabel 'ms'\nset xtics 1\nset offsets 0.5, 0.5, 0, 0\nset yrange "
            "[0:*]\nset key below maxrows 2\nplot ",
            first->study, first->ranks / (first->devices > 0 ? first->devices : 1));
    for (int i = 0; i < FORMS; i++) {
        fprintf(out, "%s'-' with yerrorlines %s title '%s'", i > 0 ? ", " : "",
                forms[i].style, forms[i].title);
    }
    fputs("\n", out);
    for (int i = 0; i < FORMS; i++) {
        put_form(out, first->study, i);
    }
}

static bool
is_first(int index)
{
    for (int i = 0; i < index; i++) {
        if (strcmp(rows[i].study, rows[index].study) == 0) {
            return false;
        }
    }
    return true;
}

static void
put_figures(FILE *out, const void *what)
{
    int count = 0;

    (void)what;
    for (int i = 0; i < row_count; i++) {
        count += is_first(i);
    }
    fprintf(out, "set multiplot layout %d,2\n", (count + 1) / 2);
    for (int i = 0; i < row_count; i++) {
        if (is_first(i)) {
            put_study(out, &rows[i]);
        }
    }
    fputs("unset multiplot\n", out);
}

int
bench_plot_studies(const char *picture)
{
    return bench_plot_draw(put_figures, NULL, picture);
}
