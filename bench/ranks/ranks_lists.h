/* SPDX-License-Identifier: Apache-2.0 */
/* Files of OSU's -D indx and -N graph: two numbers a line with a comma between them. */
#ifndef BENCH_RANKS_LISTS_H
#define BENCH_RANKS_LISTS_H

#include <stdbool.h>

enum { RANKS_LIST_MAX = 4096, RANKS_LIST_BYTES = 1 << 17 };

/** Pairs of numbers from 0 on. */
struct ranks_list {
    int first[RANKS_LIST_MAX], second[RANKS_LIST_MAX];
    int count;
};

/** Reads lines "1, 2"; those that begin with # and empty ones are comments.
 *  @return 0, or the number of the first line that is neither, or that is one too many */
int ranks_list_parse(const char *text, struct ranks_list *ret_list);
/** Reads a file of at least one line. @return NULL, or why it cannot be used */
const char *ranks_list_read(const char *path, struct ranks_list *ret_list);

#endif
