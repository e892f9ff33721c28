/* SPDX-License-Identifier: Apache-2.0 */
/* Checks in a process that a test started: what does not hold is told, and it ends with 1. */
#ifndef TELPHER_TESTS_MUST_H
#define TELPHER_TESTS_MUST_H

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define MUST(condition) must((condition), #condition, __LINE__)
/** An OpenCL call that succeeds. */
#define CHECK(call) MUST((call) == CL_SUCCESS)

static inline void
must(bool held, const char *what, int line)
{
    if (!held) {
        fprintf(stderr, "line %d: not so: %s\n", line, what);
        _exit(1);
    }
}

#endif
