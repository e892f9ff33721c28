/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of legal steps, on launches of every shape: each result is right, and no
 * check reports an error. TELPHER_TEST_SEED and TELPHER_TEST_RUNS test more; so does
 * telpher launch -n 2 -- rma_random_test, with ranks in several processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <telpher/rma/host.h>

#include "rma/test/test_launch.h"
#include "rma/test/test_random.h"

enum { STEPS = 40 };

static uint64_t
number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static void
run(uint64_t seed)
{
    static const uint32_t ranks[] = {1, 2, 3, 5, 8, 13, 40}, lanes[] = {1, 1, 2, 7};
    struct chance_data data = {seed, STEPS};
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    telpher_status status;

    p.ranks = ranks[seed % 7];
    p.block[0] = lanes[seed / 7 % 4];
    p.workers = 1 + (uint32_t)(seed / 28 % 3);
    p.check = possible_checks(&kernel_random, (uint32_t)(seed / 3 % 4));
    p.devices = p.ranks > 2 ? 1 + (uint32_t)(seed / 5 % 3) : 1;
    p.seed = seed + 1;
    status = telpher_rma_create(&p, &job, NULL);
    if (status == TELPHER_ERR_UNSUPPORTED) { /* in several processes */
        p.check &= ~(uint32_t)TELPHER_RMA_CHECK_RACES;
        status = telpher_rma_create(&p, &job, NULL);
    }
    assert_int_equal(status, TELPHER_OK);
    if (telpher_rma_run(job, &kernel_random, &data, NULL) != TELPHER_OK) {
        fail_msg("seed %llu, %u ranks of %u lanes, %u workers, check %u:\n%s",
                 (unsigned long long)seed, p.ranks, p.block[0], p.workers, p.check,
                 telpher_rma_report(job));
    }
    telpher_rma_destroy(job);
}

static void
steps_by_chance_are_right(void **state)
{
    uint64_t first = number_of("TELPHER_TEST_SEED", 1);
    uint64_t count = number_of("TELPHER_TEST_RUNS", 56);

    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        run(first + i);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_by_chance_are_right),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
