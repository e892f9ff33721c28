/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hello in a ring: each element of an array greets, and passes the number of greetings on to the
 * next; the last one sets the future that the main function waits for.
 *
 *     telpher launch -n 3 -- 10_hello 12
 */
#include <stdio.h>

#include "tutorial.h"

enum { HELLO_SAY };

struct hello {
    telpher_mdr_future done;
    int32_t total, said;
};

static void
say(telpher_mdr_call *call)
{
    struct hello h = *TELPHER_MDR_PARAMS(call, struct hello);
    const telpher_mdr_index next = {{call->index.at[0] + 1, 0, 0}};

    h.said++;
    printf("element %d says hello in process %u\n", call->index.at[0],
           telpher_mdr_rank(call->mdr));
    fflush(stdout);
    if (next.at[0] < h.total) {
        MUST(TELPHER_MDR_INVOKE(call->mdr, &call->array, next, HELLO_SAY, struct hello,
                                &h));
    } else {
        MUST(telpher_mdr_future_set(call->mdr, h.done, &h.said, sizeof(h.said)));
    }
}

static const telpher_mdr_entry entries[] = {
    [HELLO_SAY] = TELPHER_MDR_ENTRY(say, struct hello),
};
static const telpher_mdr_class hello = {sizeof(hello), 1,    "hello", 0,
                                        NULL,          NULL, entries, NULL};

static void
run(telpher_mdr_call *call)
{
    const int32_t total = tutorial_argument(call, 12);
    const telpher_mdr_index first = {{0, 0, 0}};
    struct hello h = {.total = total};
    telpher_mdr_array ring;
    int32_t said = 0;

    MUST(telpher_mdr_array_create(call->mdr, 0, 1, &total, NULL, 0, &ring));
    MUST(telpher_mdr_future_create(call->mdr, &h.done));
    MUST(TELPHER_MDR_INVOKE(call->mdr, &ring, first, HELLO_SAY, struct hello, &h));
    MUST(telpher_mdr_await(call->mdr, h.done, &said, sizeof(said), NULL));
    printf("%d of %d elements said hello: %s\n", said, total,
           said == total ? "equal" : "DIFFERENT");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

int
main(int argc, char **argv)
{
    return tutorial_main(argc, argv, &hello, run);
}
