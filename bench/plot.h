/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of pictures of `telpher-bench plot` share. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Reads a value of a JSON object on one line: @p key is all of "\"name\": ", and for texts
 *  one quote more. */
bool bench_plot_text(const char *line, const char *key, char *ret_text, size_t size);
/** 0 when it is not there. */
double bench_plot_number(const char *line, const char *key);

/** Calls @p take for each line of a file, while it returns true; of none if it cannot be read. */
void bench_plot_lines(const char *path, bool (*take)(const char *line, void *user),
                      void *user);

/** Has gnuplot draw what @p put writes, behind the terminal and the picture's name.
 *  @return an exit status */
int bench_plot_draw(void (*put)(FILE *out, const void *what), const void *what,
                    const char *picture);

/** Is this a file of scripts/bench-offload? */
bool bench_plot_is_launch(const char *path);
/** The paper's figures 3 and 4 of it, for each MPI. @return an exit status */
int bench_plot_launch(const char *path, const char *picture);

/** Is this a file of scripts/bench-studies? It is then what the next call draws. */
bool bench_plot_is_studies(const char *path);
/** Each study's times over its devices. @return an exit status */
int bench_plot_studies(const char *picture);

/** Is this what telpher-bench notified prints as JSON? It is then what the next call draws. */
bool bench_plot_is_notified(const char *path);
/** A figure for each of dCUDA's tables. @return an exit status */
int bench_plot_notified(const char *picture);

#endif
