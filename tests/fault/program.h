/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the programs of the fault tests: a wrong value goes to standard output, and ends them with 1. */
#ifndef TELPHER_TESTS_FAULT_PROGRAM_H
#define TELPHER_TESTS_FAULT_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void
must(bool ok, const char *what, long value)
{
    if (!ok) {
        (void)printf("wrong: %s: %ld\n", what, value);
        (void)fflush(stdout);
        exit(1);
    }
}

static inline double
now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#endif
