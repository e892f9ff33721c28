/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports random programs that differ: results, the features that a program needs to differ,
 * and its smallest part that does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job.h"

/** In the order of enum plan_feature. */
static const char *const feature_names[] = {
    "images",
    "out-of-order",
    "user-events",
    "failures",
    "parts-in-copies",
    "loose-blocking",
    "failed-waits",
    "failed-callbacks",
    "svm",
    "usm",
    "after-writes",
    "usm-migrations",
    "finishes",
    "structs",
    "markers-past-failures",
    "loose-pitches",
    "types",
    "kept-kernels",
    "passing",
    "wait-errors",
    "migrations",
    "loose-fills",
    "callbacks",
};

const char *
feature_name(unsigned bit)
{
    return bit < sizeof(feature_names) / sizeof(feature_names[0]) ? feature_names[bit]
                                                                  : NULL;
}

/** Prints the lines that differ: which commands and which parts of their content. */
static void
print_differences(const char *a, const char *b)
{
    for (unsigned shown = 0; shown < 40 && (*a != '\0' || *b != '\0');) {
        size_t an = strcspn(a, "\n"), bn = strcspn(b, "\n");

        if (an != bn || memcmp(a, b, an) != 0) {
            printf("  natively %.*s\n  here     %.*s\n", (int)an, a, (int)bn, b);
            shown++;
        }
        a += an + (a[an] == '\n');
        b += bn + (b[bn] == '\n');
    }
}

/* ---- features -------------------------------------------------------------------------------- */

/**
 * Runs a program without each of its features in turn. A program without a feature is another
 * program in part, so a name printed here is a lead and no proof.
 */
static void
print_needed_features(struct job *job, uint64_t seed)
{
    const unsigned features = job->plan.features;
    char why[512];
    bool lost;

    printf("program %" PRIu64 " is equal without:", seed);
    for (unsigned i = 0; feature_name(i) != NULL; i++) {
        job->plan.features = features & ~(1U << i);
        if (job->plan.features != features &&
            !job_differs(job, seed, job->kept, &lost, why, sizeof(why)) && !lost) {
            printf(" %s", feature_name(i));
        }
    }
    job->plan.features = features;
    printf("\n");
}

/* ---- making smaller ------------------------------------------------------------------------- */

/** Drops intents, many at once at first, as long as what is left differs. */
static uint64_t
shrink(struct job *job, uint64_t seed, char *dst, size_t cap)
{
    unsigned intents = plan_intents(seed);
    uint64_t kept = job->kept;
    char why[512];
    bool lost;

    for (unsigned size = intents / 2; size > 0;) {
        bool dropped = false;

        for (unsigned at = 0; at < intents; at += size) {
            uint64_t mask = (size >= 64 ? 0 : UINT64_C(1) << size) - 1;
            uint64_t less = kept & ~(mask << at);

            if (less != kept && job_differs(job, seed, less, &lost, why, sizeof(why))) {
                kept = less;
                dropped = true;
                snprintf(dst, cap, "%s", why);
            }
        }
        size = dropped ? size : size / 2;
    }
    return kept;
}

void
job_report(struct job *job, uint64_t seed, char *why, size_t cap)
{
    static struct plan plan; /* large */
    uint64_t kept;
    bool lost;

    printf("program %" PRIu64 " differs: %s\n", seed, why);
    if (job->lines) {
        print_differences(job->sides[0].text, job->sides[1].text);
    }
    if (job->kills) {
        takeover_print(&job->takeover, stdout);
    }
    if (job->bisect) {
        print_needed_features(job, seed);
    }
    fflush(stdout);
    if (job->no_shrink) {
        return;
    }
    kept = shrink(job, seed, why, cap);
    plan_make(&plan, &job->plan, seed, kept);
    printf("smallest: --first %" PRIu64 " --count 1 --kept %" PRIx64
           " --devices %u: %s\n",
           seed, kept, job->plan.devices, why);
    plan_print(&plan, stdout);
    if (job->lines && job_differs(job, seed, kept, &lost, why, cap)) {
        print_differences(job->sides[0].text, job->sides[1].text);
    }
    fflush(stdout);
}
