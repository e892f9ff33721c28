/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pi by a broadcast and a reduction: each element of an array throws darts at the unit square;
 * the sum of those within the quarter circle gives pi.
 *
 *     telpher launch -n 4 -- 10_pi 16
 */
#include <stdio.h>

#include "tutorial.h"

enum { PI_THROW, DARTS = 200000 };

static double
random_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

/* Of the darts of element @p seed those within the circle. */
static int64_t
throw_darts(int32_t seed)
{
    uint64_t state = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    int64_t hits = 0;

    for (int i = 0; i < DARTS; i++) {
        double x = random_number(&state), y = random_number(&state);

        hits += x * x + y * y <= 1;
    }
    return hits;
}

/* [reduction] */
static void throw(telpher_mdr_call * call)
{
    int64_t hits = throw_darts(call->index.at[0]);

    MUST(telpher_mdr_contribute(call, &hits, sizeof(hits), TELPHER_MDR_SUM_I64,
                                TELPHER_MDR_PARAMS(call, telpher_mdr_target)));
}
/* [end of reduction] */

static const telpher_mdr_entry entries[] = {
    [PI_THROW] = TELPHER_MDR_ENTRY(throw, telpher_mdr_target),
};
static const telpher_mdr_class thrower = {
    sizeof(thrower), 1, "thrower", 0, NULL, NULL, entries, NULL};

static void
run(telpher_mdr_call *call)
{
    const int32_t count = tutorial_argument(call, 16);
    telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    telpher_mdr_array throwers;
    int64_t hits = 0, alone = 0;

    MUST(telpher_mdr_array_create(call->mdr, 0, 1, &count, NULL, 0, &throwers));
    MUST(telpher_mdr_future_create(call->mdr, &target.future));
    MUST(
        telpher_mdr_broadcast(call->mdr, &throwers, PI_THROW, &target, sizeof(target)));
    MUST(telpher_mdr_await(call->mdr, target.future, &hits, sizeof(hits), NULL));
    for (int32_t i = 0; i < count; i++) {
        alone += throw_darts(i);
    }
    printf("pi is about %.6f: %s\n", 4.0 * (double)hits / count / DARTS,
           hits == alone ? "equal" : "DIFFERENT");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    return tutorial_main(argc, argv, &thrower, run);
}
