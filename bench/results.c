/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what has been measured; see results.h. */
#include "bench/results.h"

#include <stdlib.h>
#include <string.h>

const struct bench_series *
bench_results_find(const struct bench_results *results,
                   const struct bench_target *target, const struct bench_case *c,
                   size_t bytes)
{
    for (size_t i = 0; i < results->series_count; i++) {
        const struct bench_series *s = &results->series[i];

        if (s->target == target && s->c == c && s->bytes == bytes) {
            return s;
        }
    }
    return NULL;
}

struct bench_series *
bench_results_get(struct bench_results *results, const struct bench_target *target,
                  const struct bench_case *c, size_t bytes)
{
    const struct bench_series *found = bench_results_find(results, target, c, bytes);
    struct bench_series *grown;

    if (found != NULL) {
        return &results->series[found - results->series];
    }
    grown = realloc(results->series, (results->series_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return NULL;
    }
    results->series = grown;
    grown += results->series_count++;
    memset(grown, 0, sizeof(*grown));
    grown->target = target;
    grown->c = c;
    grown->bytes = bytes;
    return grown;
}

bool
bench_series_add(struct bench_series *series, double us)
{
    if (series->count == series->room) {
        const size_t room = series->room == 0 ? 64 : 2 * series->room;
        double *grown = realloc(series->samples, room * sizeof(*grown));

        if (grown == NULL) {
            return bench_fail("out of memory");
        }
        series->samples = grown;
        series->room = room;
    }
    series->samples[series->count++] = us;
    return true;
}

void
bench_results_sum_up(struct bench_results *results)
{
    for (size_t i = 0; i < results->series_count; i++) {
        struct bench_series *s = &results->series[i];

        s->stats = bench_stats_of(s->samples, s->count);
    }
}

void
bench_results_destroy(struct bench_results *results)
{
    for (size_t i = 0; i < results->series_count; i++) {
        free(results->series[i].samples);
    }
    free(results->series);
    results->series = NULL;
    results->series_count = 0;
}

double
bench_floor_us(const struct bench_results *results, const struct bench_series *series)
{
    const struct bench_series *floor;

    if (!results->has_floor || series->c->floor == NULL) {
        return 0;
    }
    floor = bench_results_find(results, &results->floor,
                               bench_find_case(&bench_floor, series->c->floor),
                               series->bytes);
    return floor == NULL ? 0
                         : floor->stats.median * series->c->trips /
                               bench_operations(series->c, results->settings);
}
