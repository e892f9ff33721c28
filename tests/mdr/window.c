/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_window TRANSPORT
 *
 * Large messages of a channel, many at once, whose receives are there before them: each goes
 * straight to the memory that its receive names, none waits in host memory, and their order holds.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

#include "mdr/mdr_int.h"

enum { MESSAGES = 16, ROUNDS = 4, BYTES = 1 << 20 };
enum { BEGIN, SEND, TAKE, ENTRIES };

static const char *transport;

struct end {
    telpher_mdr_future done;
    uint8_t *memory; /* of all messages of a round */
    uint32_t round, posted, taken;
    bool ahead; /* messages were under way at once */
};

static telpher_mdr_channel
other(const telpher_mdr_call *call)
{
    return (telpher_mdr_channel){.array = call->array,
                                 .index = {{!call->index.at[0], 0, 0}}};
}

static uint8_t *
place_of(const struct end *e, uint32_t number)
{
    return e->memory + (size_t)(number % MESSAGES) * BYTES;
}

/* Element 1: has all receives of a round ready, then asks for the messages. */
static void
receive(telpher_mdr_call *call)
{
    const telpher_mdr_channel channel = other(call);

    for (int i = 0; i < MESSAGES; i++) {
        OK(telpher_mdr_channel_recv(call, &channel, TAKE));
    }
    OK(telpher_mdr_invoke(call->mdr, &call->array, channel.index, SEND, NULL, 0, NULL,
                          0, NULL));
}

static void
begin(telpher_mdr_call *call)
{
    ((struct end *)call->self)->done = *TELPHER_MDR_PARAMS(call, telpher_mdr_future);
    receive(call);
}

static void
send(telpher_mdr_call *call)
{
    struct end *e = call->self;
    const telpher_mdr_channel channel = other(call);

    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t number = e->posted++;
        const telpher_msg_buffer buffer = {place_of(e, number), BYTES};

        memset(buffer.data, (int)number + 1, BYTES);
        OK(telpher_mdr_channel_send(call, &channel, &number, sizeof(number), &buffer, 1,
                                    NULL));
    }
}

static void
post(telpher_mdr_call *call)
{
    struct end *e = call->self;

    MUST(*TELPHER_MDR_PARAMS(call, uint32_t) == e->posted);
    call->buffers[0].data = place_of(e, e->posted++);
    e->ahead |= e->posted > e->taken + 1;
}

static void
take(telpher_mdr_call *call)
{
    struct end *e = call->self;
    uint32_t number = *TELPHER_MDR_PARAMS(call, uint32_t);
    const uint8_t *bytes = place_of(e, number);

    OK(call->status);
    MUST(number == e->taken++ && call->buffers[0].data == bytes);
    MUST(bytes[0] == (uint8_t)(number + 1) && bytes[BYTES - 1] == bytes[0]);
    MUST(call->mdr->kept_bytes < BYTES); /* no content waits in host memory */
    if (e->taken % MESSAGES != 0) {
        return;
    }
    if (++e->round < ROUNDS) {
        receive(call);
    } else {
        MUST(e->ahead);
        OK(telpher_mdr_future_set(call->mdr, e->done, NULL, 0));
    }
}

static void
create(telpher_mdr_call *call)
{
    struct end *e = call->self;

    e->memory = malloc((size_t)MESSAGES * BYTES);
    MUST(e->memory != NULL);
}

static void
destroy(telpher_mdr_call *call)
{
    free(((struct end *)call->self)->memory);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [BEGIN] = TELPHER_MDR_ENTRY(begin, telpher_mdr_future),
    [SEND] = TELPHER_MDR_ENTRY_VOID(send),
    [TAKE] = TELPHER_MDR_ENTRY_POST(take, post, uint32_t),
};
static const telpher_mdr_class ends = {.struct_size = sizeof(ends),
                                       .entry_count = ENTRIES,
                                       .name = "end",
                                       .object_size = sizeof(struct end),
                                       .create = create,
                                       .destroy = destroy,
                                       .entries = entries};

static void
run_main(telpher_mdr_call *call)
{
    const telpher_mdr_index one = {{1, 0, 0}};
    telpher_mdr_future done;
    telpher_mdr_array group;

    OK(telpher_mdr_future_create(call->mdr, &done));
    OK(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &group));
    OK(telpher_mdr_invoke(call->mdr, &group, one, BEGIN, &done, sizeof(done), NULL, 0,
                          NULL));
    OK(telpher_mdr_await(call->mdr, done, NULL, 0, NULL));
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &ends, &number));
    OK(telpher_mdr_run(mdr, run_main, NULL));
    telpher_mdr_destroy(mdr);
}

static void
test_window(void **state)
{
    (void)state;
    assert_true(ranks_run(2, transport, UINT32_MAX, rank_of_job));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_window)};

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
