/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of these tests: a check that ends the job, and a clock. */
#ifndef TELPHER_TESTS_OFFLOAD_CHECK_H
#define TELPHER_TESTS_OFFLOAD_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <telpher/offload.h>
#include <time.h>

#define check(condition)                                                               \
    ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

static inline void
check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif
