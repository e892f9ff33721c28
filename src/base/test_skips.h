/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of a cmocka program that cannot run here. The program then ends as one that is skipped, unless
 * another case fails: CTest shows it with the reason, and tests/allowed-skips.txt must have it.
 * Behind <cmocka.h>.
 */
#ifndef TELPHER_BASE_TEST_SKIPS_H
#define TELPHER_BASE_TEST_SKIPS_H

#include <stdio.h>

enum { SKIPS_EXIT = 77 };

static const char *skips_why;

/** In a test case: skips it. @p why: a static text. */
#define skip_case(why) (skips_why = (why), skip())

/** The exit status of main(). @p failed: number of failed cases */
static inline int
skips_end(int failed)
{
    if (failed == 0 && skips_why != NULL) {
        (void)printf("skipped: one case at least: %s\n", skips_why);
        return SKIPS_EXIT;
    }
    return failed;
}

#endif
