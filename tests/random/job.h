/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison of random programs on two platforms: its options and findings. */
#ifndef TELPHER_TESTS_RANDOM_JOB_H
#define TELPHER_TESTS_RANDOM_JOB_H

#include "plan.h"
#include "takeover.h"
#include "worker.h"

/** Command-line options of this process, and its findings. */
struct job {
    struct plan_options plan;
    uint64_t first, kept;
    unsigned count, servers, seconds, times;
    const char *native;
    const char *on_hang; /**< command; NULL: none */
    int fault;
    bool twice, print_only, no_shrink, kills;
    bool bisect; /**< says which features a program needs to differ */
    bool lines; /**< prints all results that differ */
    struct worker sides[2]; /**< native, tested */
    struct takeover takeover; /**< if it kills */
    unsigned differ,
        lost; /**< programs; those that the native driver did not survive */
    unsigned long commands;
};

/** Runs a program on both sides. @return true if it differs; why is in @p dst */
bool job_differs(struct job *job, uint64_t seed, uint64_t kept, bool *ret_lost,
                 char *dst, size_t cap);
/** Name of a feature, as --without takes it. @return NULL: there are not so many */
const char *feature_name(unsigned bit);
/** Prints a program that differs, why, and the smallest part of it that does. */
void job_report(struct job *job, uint64_t seed, char *why, size_t cap);

#endif
