/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parallel prefix: element i of an array ends with the sum of the values 0 to i. In step s it sends
 * its sum to element i + 2^s, and adds what comes from i - 2^s: log2(n) steps. The messages of
 * several steps may be there at once, so each has its number.
 *
 *     telpher launch -n 3 -- 10_prefix 100
 */
#include <stdio.h>

#include "tutorial.h"

enum { PREFIX_START, PREFIX_TAKE, STEPS_MAX = 31 };

struct part {
    telpher_mdr_target result;
    int64_t sum, early[STEPS_MAX]; /* sums that came before their step */
    int32_t total, step;
    bool has[STEPS_MAX], started;
};

struct start {
    telpher_mdr_target result;
    int64_t total;
};

struct sum {
    int64_t value, step;
};

static int64_t
value_of(int32_t i)
{
    return i * INT64_C(7) % 11 + 1;
}

static void
send_sum(telpher_mdr_call *call, const struct part *p)
{
    const int64_t to = call->index.at[0] + (INT64_C(1) << p->step);
    const struct sum s = {.value = p->sum, .step = p->step};
    const telpher_mdr_index index = {{(int32_t)to, 0, 0}};

    if (to < p->total) {
        MUST(TELPHER_MDR_INVOKE(call->mdr, &call->array, index, PREFIX_TAKE, struct sum,
                                &s));
    }
}

/* Takes the steps whose sums are there; an element near the start gets none. */
static void
advance(telpher_mdr_call *call)
{
    struct part *p = call->self;
    int64_t weighted;

    while (p->started && (INT64_C(1) << p->step) < p->total &&
           (p->has[p->step] || call->index.at[0] < INT64_C(1) << p->step)) {
        p->sum += p->early[p->step];
        p->step++;
        send_sum(call, p);
    }
    if (p->started && (INT64_C(1) << p->step) >= p->total) {
        p->started = false;
        weighted = p->sum * (call->index.at[0] + 1); /* so that the place counts */
        MUST(telpher_mdr_contribute(call, &weighted, sizeof(weighted),
                                    TELPHER_MDR_SUM_I64, &p->result));
    }
}

static void
start(telpher_mdr_call *call)
{
    const struct start *s = TELPHER_MDR_PARAMS(call, struct start);
    struct part *p = call->self;

    p->result = s->result;
    p->total = (int32_t)s->total;
    p->sum = value_of(call->index.at[0]);
    p->started = true;
    send_sum(call, p);
    advance(call);
}

static void
take(telpher_mdr_call *call)
{
    const struct sum *s = TELPHER_MDR_PARAMS(call, struct sum);
    struct part *p = call->self;

    p->early[s->step] = s->value;
    p->has[s->step] = true;
    advance(call);
}

static const telpher_mdr_entry entries[] = {
    [PREFIX_START] = TELPHER_MDR_ENTRY(start, struct start),
    [PREFIX_TAKE] = TELPHER_MDR_ENTRY(take, struct sum),
};
static const telpher_mdr_class part = {sizeof(part), 2,    "part",  sizeof(struct part),
                                       NULL,         NULL, entries, NULL};

static void
run(telpher_mdr_call *call)
{
    const int32_t total = tutorial_argument(call, 100);
    struct start s = {.result = {.kind = TELPHER_MDR_TO_FUTURE}, .total = total};
    telpher_mdr_array parts;
    int64_t got = 0, sum = 0, alone = 0;

    MUST(telpher_mdr_array_create(call->mdr, 0, 1, &total, NULL, 0, &parts));
    MUST(telpher_mdr_future_create(call->mdr, &s.result.future));
    MUST(telpher_mdr_broadcast(call->mdr, &parts, PREFIX_START, &s, sizeof(s)));
    MUST(telpher_mdr_await(call->mdr, s.result.future, &got, sizeof(got), NULL));
    for (int32_t i = 0; i < total; i++) {
        sum += value_of(i);
        alone += sum * (i + 1);
    }
    printf("prefix sums of %d values, weighted by place: %lld: %s\n", total,
           (long long)got, got == alone ? "equal" : "DIFFERENT");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    return tutorial_main(argc, argv, &part, run);
}
