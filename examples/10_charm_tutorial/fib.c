/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibonacci numbers by chares and futures: the entry of fib(n) inserts chares for n - 1 and n - 2,
 * waits for their futures while other entries run, sets its own future and ends its object. The
 * index is made of the path in the tree, so each chare of the sparse array has its own. With more
 * chares that wait in a process than TELPHER_MDR_THREADS (256) none goes on: 17 is the most here.
 *
 *     telpher launch -n 3 -- 10_fib 15
 */
#include <stdio.h>

#include "tutorial.h"

enum { FIB_RUN, ALONE_BELOW = 8 };

struct job {
    telpher_mdr_future result;
    int64_t n;
};

static int64_t
fib_alone(int64_t n)
{
    return n < 2 ? n : fib_alone(n - 1) + fib_alone(n - 2);
}

/* Inserts the chare at @p path and has it compute fib(n). */
static void
start(telpher_mdr_call *call, const telpher_mdr_array *chares, int32_t path,
      struct job *job)
{
    const telpher_mdr_index index = {{path, 0, 0}};

    MUST(telpher_mdr_future_create(call->mdr, &job->result));
    MUST(telpher_mdr_insert(call, chares, index, TELPHER_MDR_ANY_PROCESS, NULL, 0));
    MUST(TELPHER_MDR_INVOKE(call->mdr, chares, index, FIB_RUN, struct job, job));
}

/* [futures] */
static void
run_fib(telpher_mdr_call *call)
{
    const struct job *mine = TELPHER_MDR_PARAMS(call, struct job);
    int64_t value = 0;

    if (mine->n < ALONE_BELOW) {
        value = fib_alone(mine->n);
    } else {
        struct job parts[2];

        for (int32_t i = 0; i < 2; i++) {
            parts[i].n = mine->n - 1 - i;
            start(call, &call->array, call->index.at[0] * 2 + i, &parts[i]);
        }
        for (int32_t i = 0; i < 2; i++) {
            int64_t part = 0;

            MUST(telpher_mdr_await(call->mdr, parts[i].result, &part, sizeof(part),
                                   NULL));
            value += part;
        }
    }
    MUST(telpher_mdr_future_set(call->mdr, mine->result, &value, sizeof(value)));
    MUST(telpher_mdr_remove(call));
}
/* [end of futures] */

static const telpher_mdr_entry entries[] = {
    [FIB_RUN] = TELPHER_MDR_ENTRY_WAITS(run_fib, struct job),
};
static const telpher_mdr_class fib = {sizeof(fib), 1,    "fib",   0,
                                      NULL,        NULL, entries, NULL};

static void
run(telpher_mdr_call *call)
{
    struct job job = {.n = tutorial_argument(call, 15)};
    telpher_mdr_array chares;
    int64_t value = 0;

    MUST(telpher_mdr_sparse_create(call->mdr, 0, 1, &chares));
    start(call, &chares, 1, &job);
    MUST(telpher_mdr_await(call->mdr, job.result, &value, sizeof(value), NULL));
    printf("fib(%lld) is %lld: %s\n", (long long)job.n, (long long)value,
           value == fib_alone(job.n) ? "equal" : "DIFFERENT");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    return tutorial_main(argc, argv, &fib, run);
}
