/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the patterns that put and get, for a runtime whose file defines
 * put(work, count) and get(work, count), which do so many and wait for them, before it
 * includes this one.
 */
#ifndef BENCH_RANKS_ONE_SIDED_H
#define BENCH_RANKS_ONE_SIDED_H

#define START(name, does, operation, count)                                            \
    static bool start_##name(struct bench_work *w)                                     \
    {                                                                                  \
        return !(does) || operation(w, count);                                         \
    }
START(put, w->first, put, 1)
START(put_bw, w->first, put, w->window)
START(put_bibw, true, put, w->window)
START(get, w->first, get, 1)
START(get_bw, w->first, get, w->window)

/** The end of a table of calls. */
#define RANKS_ONE_SIDED(open_in, open_out, close)                                      \
    {"put_latency", open_in, start_put, NULL, NULL, close},                            \
        {"put_bw", open_in, start_put_bw, NULL, NULL, close},                          \
        {"put_bibw", open_in, start_put_bibw, NULL, NULL, close},                      \
        {"get_latency", open_out, start_get, NULL, NULL, close},                       \
        {"get_bw", open_out, start_get_bw, NULL, NULL, close},                         \
        {"get_multi_lat", open_out, start_get, NULL, NULL, close},                     \
        {"get_mbw", open_out, start_get_bw, NULL, NULL, close},                        \
    {                                                                                  \
        .name = NULL                                                                   \
    }

#endif
