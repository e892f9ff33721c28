/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_later TRANSPORT
 *
 * Invocations with a priority run when no message waits, the smallest number first; the idle
 * function runs when nothing does. Quiescence waits for the former and not for the latter.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

enum { BOOKS = 3, NOTES = 8, REMOTE = 200, BYTES = 100000, IDLE_CALLS = 50 };
enum { FILL, NOTE, TAKE, LEAVE, CHECK, ENTRIES };

static const char *transport;

struct note {
    int32_t number;
};

/* An object that writes down which invocations ran. */
struct book {
    uint32_t noted, taken;
    int32_t notes[NOTES];
};

static void
pup_book(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    telpher_mdr_pup_bytes(p, call->self, sizeof(struct book));
}

static void
note(telpher_mdr_call *call, const telpher_mdr_array *books, uint32_t to,
     uint32_t entry, int32_t number)
{
    const struct note n = {number};
    const telpher_mdr_index index = {{(int32_t)to, 0, 0}};

    OK(TELPHER_MDR_INVOKE(call->mdr, books, index, entry, struct note, &n));
}

/* All in one entry, so that none can run before the last was invoked. */
static void
book_fill(telpher_mdr_call *call)
{
    uint32_t self = (uint32_t)call->index.at[0];

    note(call, &call->array, self, TELPHER_MDR_LATER(NOTE, 3), 4);
    note(call, &call->array, self, TELPHER_MDR_LATER(NOTE, 255), 6);
    note(call, &call->array, self, TELPHER_MDR_LATER(NOTE, 1), 2);
    note(call, &call->array, self, TELPHER_MDR_LATER(NOTE, 3), 5);
    note(call, &call->array, self, NOTE, 0);
    note(call, &call->array, self, TELPHER_MDR_LATER(NOTE, 2), 3);
    note(call, &call->array, self, NOTE, 1);
    IS(telpher_mdr_broadcast(call->mdr, &call->array, TELPHER_MDR_LATER(CHECK, 1), NULL,
                             0),
       TELPHER_ERR_RANGE);
    IS(telpher_mdr_invoke(call->mdr, &call->array, call->index,
                          TELPHER_MDR_LATER(ENTRIES, 1), NULL, 0, NULL, 0, NULL),
       TELPHER_ERR_RANGE);
}

static void
book_note(telpher_mdr_call *call)
{
    struct book *b = call->self;

    if (b->noted < NOTES) {
        b->notes[b->noted] = TELPHER_MDR_PARAMS(call, struct note)->number;
    }
    b->noted++;
}

static void
post_take(telpher_mdr_call *call)
{
    call->buffers[0].data = malloc(call->buffers[0].len);
}

static void
book_take(telpher_mdr_call *call)
{
    const struct note *n = TELPHER_MDR_PARAMS(call, struct note);
    uint8_t *data = call->buffers[0].data;

    OK(call->status);
    MUST(call->buffers[0].len == BYTES && data[0] == n->number &&
         data[BYTES - 1] == n->number);
    free(data);
    ((struct book *)call->self)->taken++;
}

/* Invocations that wait for their priority follow the object. */
static void
book_leave(telpher_mdr_call *call)
{
    uint32_t next = (telpher_mdr_rank(call->mdr) + 1) % telpher_mdr_size(call->mdr);

    for (uint32_t i = 0; i < NOTES; i++) {
        note(call, &call->array, (uint32_t)call->index.at[0],
             TELPHER_MDR_LATER(NOTE, 1 + i), 7);
    }
    OK(telpher_mdr_migrate(call, next));
}

static void
book_check(telpher_mdr_call *call)
{
    const struct book *b = call->self;

    for (int32_t i = 0; i < 7; i++) {
        MUST(b->notes[i] == i);
    }
    MUST(b->noted == 7 + NOTES + REMOTE && b->taken == REMOTE);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [FILL] = TELPHER_MDR_ENTRY_VOID(book_fill),
    [NOTE] = TELPHER_MDR_ENTRY(book_note, struct note),
    [TAKE] = TELPHER_MDR_ENTRY_POST(book_take, post_take, struct note),
    [LEAVE] = TELPHER_MDR_ENTRY_VOID(book_leave),
    [CHECK] = TELPHER_MDR_ENTRY_VOID(book_check),
};
static const telpher_mdr_class books_class = {.struct_size = sizeof(books_class),
                                              .entry_count = ENTRIES,
                                              .name = "book",
                                              .object_size = sizeof(struct book),
                                              .entries = entries,
                                              .pup = pup_book};

static void
await_quiet(telpher_mdr *mdr)
{
    telpher_mdr_future quiet;

    OK(telpher_mdr_future_create(mdr, &quiet));
    OK(telpher_mdr_quiescence(mdr, quiet));
    OK(telpher_mdr_await(mdr, quiet, NULL, 0, NULL));
}

static void
do_all(telpher_mdr *mdr, const telpher_mdr_array *books, uint32_t entry)
{
    OK(telpher_mdr_broadcast(mdr, books, entry, NULL, 0));
    await_quiet(mdr);
}

static void
free_sent(void *user, telpher_status status, size_t len)
{
    (void)len;
    OK(status);
    free(user);
}

static void
send_many(telpher_mdr_call *call, const telpher_mdr_array *books)
{
    for (int32_t i = 0; i < REMOTE * BOOKS; i++) {
        const telpher_mdr_index to = {{i % BOOKS, 0, 0}};
        const struct note n = {i % 100};
        const telpher_msg_buffer buffer = {malloc(BYTES), BYTES};
        telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
        uint32_t priority = 1 + (uint32_t)i % 255;

        MUST(buffer.data != NULL);
        memset(buffer.data, n.number, BYTES);
        xfer.on_done = free_sent;
        xfer.user = buffer.data;
        OK(telpher_mdr_invoke(call->mdr, books, to, TELPHER_MDR_LATER(TAKE, priority),
                              &n, sizeof(n), &buffer, 1, &xfer));
        note(call, books, (uint32_t)to.at[0], TELPHER_MDR_LATER(NOTE, priority), 7);
    }
}

static void
main_later(telpher_mdr_call *call)
{
    static const int32_t extent[] = {BOOKS};
    telpher_mdr_array books;

    OK(telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &books));
    do_all(call->mdr, &books, FILL);
    do_all(call->mdr, &books, LEAVE);
    send_many(call, &books);
    await_quiet(call->mdr);
    do_all(call->mdr, &books, CHECK);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

/* ---- the idle function ---- */

struct idle {
    telpher_mdr_future done;
    bool begun;
    uint32_t calls;
};

static int
count_idle(telpher_mdr *mdr, void *user)
{
    struct idle *idle = user;

    if (!idle->begun || idle->calls == IDLE_CALLS) {
        return 0;
    }
    if (++idle->calls == IDLE_CALLS) {
        OK(telpher_mdr_future_set(mdr, idle->done, &idle->calls, sizeof(idle->calls)));
    }
    return idle->calls < IDLE_CALLS;
}

static void
main_idle(telpher_mdr_call *call)
{
    struct idle *idle = telpher_mdr_user(call->mdr);
    uint32_t calls = 0;

    OK(telpher_mdr_future_create(call->mdr, &idle->done));
    idle->begun = true;
    OK(telpher_mdr_await(call->mdr, idle->done, &calls, sizeof(calls), NULL));
    MUST(calls == IDLE_CALLS);
    await_quiet(call->mdr);
    telpher_mdr_idle_set(call->mdr, NULL, NULL);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static telpher_mdr_entry_fn main_fn;

static void
rank_of_job(telpher_context *ctx)
{
    struct idle idle = {.calls = 0};
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &books_class, &number));
    if (main_fn == main_idle) {
        telpher_mdr_idle_set(mdr, count_idle, &idle);
    }
    OK(telpher_mdr_run(mdr, main_fn, &idle));
    telpher_mdr_destroy(mdr);
}

static void
run(telpher_mdr_entry_fn fn)
{
    main_fn = fn;
    for (uint32_t size = 1; size <= 3; size++) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
    }
}

static void
test_later(void **state)
{
    (void)state;
    run(main_later);
}

static void
test_idle(void **state)
{
    (void)state;
    run(main_idle);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_later),
                                       cmocka_unit_test(test_idle)};

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
