/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_errors TRANSPORT
 *
 * Errors of users: each error names object, entry and the entry in which it happened; the
 * processes go on, or the run ends with the status.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

enum { USERS = 4, LEN = 10000 };

static const char *transport;

enum { TRY, TAKE, RECEIVE, UNEQUAL, SPARE, ENTRIES };

struct item {
    int32_t a, b;
};

struct other {
    int32_t a, b;
};

static void
says(telpher_mdr *mdr, const char *text)
{
    if (strstr(telpher_mdr_last_error(mdr), text) == NULL) {
        fprintf(stderr, "not \"%s\" in \"%s\"\n", text, telpher_mdr_last_error(mdr));
        _Exit(1);
    }
}

static telpher_mdr_index
at(int32_t i)
{
    return (telpher_mdr_index){{i, 0, 0}};
}

/* Wrong calls in an entry of element 3. */
static void
user_try(telpher_mdr_call *call)
{
    const struct item item = {1, 2};
    const struct other other = {1, 2};
    telpher_mdr *mdr = call->mdr;
    const telpher_mdr_array *users = &call->array;

    IS(telpher_mdr_invoke(mdr, users, at(0), 99, NULL, 0, NULL, 0, NULL),
       TELPHER_ERR_RANGE);
    says(mdr, "in user(3, 0, 0).user_try: class user has no entry 99, only 5");
    IS(TELPHER_MDR_INVOKE(mdr, users, at(0), TAKE, struct other, &other),
       TELPHER_ERR_INVALID);
    says(mdr, "in user(3, 0, 0).user_try: user.user_take takes struct item, not struct "
              "other");
    OK(TELPHER_MDR_INVOKE(mdr, users, at(0), TAKE, struct item, &item));
    IS(telpher_mdr_invoke(mdr, users, at(0), TAKE, &item, 5, NULL, 0, NULL),
       TELPHER_ERR_INVALID);
    says(mdr, "in user(3, 0, 0).user_try: user.user_take takes 8 bytes of parameters, "
              "not 5");
    IS(telpher_mdr_invoke(mdr, users, at(USERS), TAKE, &item, sizeof(item), NULL, 0,
                          NULL),
       TELPHER_ERR_RANGE);
    says(mdr, "in user(3, 0, 0).user_try: the array of class user has no "
              "element (4, 0, 0)");
    IS(telpher_mdr_insert(call, users, at(USERS), 0, NULL, 0), TELPHER_ERR_INVALID);
    IS(telpher_mdr_remove(call), TELPHER_ERR_INVALID);
    says(mdr, "in user(3, 0, 0).user_try: only elements of sparse arrays end");
    OK(telpher_mdr_future_set(mdr, *TELPHER_MDR_PARAMS(call, telpher_mdr_future), NULL,
                              0));
}

static void
user_take(telpher_mdr_call *call)
{
    MUST(TELPHER_MDR_PARAMS(call, struct item)->b == 2);
}

/* ---- a post entry with too little room ---- */

static char room[LEN];

static void
user_post(telpher_mdr_call *call)
{
    MUST(call->buffers[0].len == LEN);
    call->buffers[0].data = room;
    call->buffers[0].len = 5;
}

static void
user_receive(telpher_mdr_call *call)
{
    IS(call->status, TELPHER_ERR_TRUNCATED);
    MUST(call->buffers[0].data == NULL && room[0] == 0);
    says(call->mdr, "user_receive: the post entry has room for 5 bytes of buffer 0, "
                    "which has 10000");
    OK(telpher_mdr_future_set(call->mdr, *TELPHER_MDR_PARAMS(call, telpher_mdr_future),
                              NULL, 0));
}

static void
user_unequal(telpher_mdr_call *call)
{
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE};
    const int64_t values[2] = {0, 0};

    (void)telpher_mdr_contribute(call, values, call->index.at[0] == 1 ? 8 : 16,
                                 TELPHER_MDR_SUM_I64, &target);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [TRY] = TELPHER_MDR_ENTRY(user_try, telpher_mdr_future),
    [TAKE] = TELPHER_MDR_ENTRY(user_take, struct item),
    [RECEIVE] = TELPHER_MDR_ENTRY_POST(user_receive, user_post, telpher_mdr_future),
    [SPARE] = TELPHER_MDR_ENTRY_VOID(user_unequal),
    [UNEQUAL] = TELPHER_MDR_ENTRY_VOID(user_unequal),
};
static const telpher_mdr_class users = {.struct_size = sizeof(users),
                                        .entry_count = ENTRIES,
                                        .name = "user",
                                        .object_size = 8,
                                        .entries = entries};

/* ---- runs ---- */

static telpher_mdr_array
make_users(telpher_mdr_call *call, telpher_mdr_future *ret_future)
{
    static const int32_t extent[] = {USERS};
    telpher_mdr_array array;

    OK(telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_future_create(call->mdr, ret_future));
    return array;
}

static void
main_goes_on(telpher_mdr_call *call)
{
    static char data[LEN];
    const telpher_msg_buffer buffer = {data, LEN};
    telpher_mdr_future done;
    telpher_mdr_array array = make_users(call, &done);

    IS(telpher_mdr_invoke(call->mdr, &array, at(0), 99, NULL, 0, NULL, 0, NULL),
       TELPHER_ERR_RANGE);
    says(call->mdr, "in the main function: class user has no entry 99");
    OK(telpher_mdr_invoke(call->mdr, &array, at(3), TRY, &done, sizeof(done), NULL, 0,
                          NULL));
    OK(telpher_mdr_await(call->mdr, done, NULL, 0, NULL));
    memset(data, 1, LEN);
    for (int32_t i = 0; i < USERS; i++) {
        OK(telpher_mdr_future_create(call->mdr, &done));
        OK(telpher_mdr_invoke(call->mdr, &array, at(i), RECEIVE, &done, sizeof(done),
                              &buffer, 1, NULL));
        OK(telpher_mdr_await(call->mdr, done, NULL, 0, NULL));
    }
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static void
await_end(telpher_mdr_call *call, telpher_mdr_future never)
{
    IS(telpher_mdr_await(call->mdr, never, NULL, 0, NULL), TELPHER_ERR_CANCELED);
}

static void
main_unequal(telpher_mdr_call *call)
{
    telpher_mdr_future never;
    telpher_mdr_array array = make_users(call, &never);

    OK(telpher_mdr_broadcast(call->mdr, &array, UNEQUAL, NULL, 0));
    await_end(call, never);
}

static void
main_not_inserted(telpher_mdr_call *call)
{
    const struct item item = {1, 2};
    telpher_mdr_future never;
    telpher_mdr_array array;

    OK(telpher_mdr_sparse_create(call->mdr, 0, 1, &array));
    OK(telpher_mdr_insert(call, &array, at(5), TELPHER_MDR_ANY_PROCESS, NULL, 0));
    OK(telpher_mdr_invoke(call->mdr, &array, at(5), TAKE, &item, sizeof(item), NULL, 0,
                          NULL));
    OK(telpher_mdr_invoke(call->mdr, &array, at(7), TAKE, &item, sizeof(item), NULL, 0,
                          NULL));
    OK(telpher_mdr_future_create(call->mdr, &never));
    OK(telpher_mdr_quiescence(call->mdr, never));
    await_end(call, never);
}

static void
main_twice(telpher_mdr_call *call)
{
    telpher_mdr_future never;
    telpher_mdr_array array;

    OK(telpher_mdr_sparse_create(call->mdr, 0, 1, &array));
    OK(telpher_mdr_insert(call, &array, at(5), TELPHER_MDR_ANY_PROCESS, NULL, 0));
    OK(telpher_mdr_insert(call, &array, at(5), TELPHER_MDR_ANY_PROCESS, NULL, 0));
    OK(telpher_mdr_future_create(call->mdr, &never));
    await_end(call, never);
}

static telpher_mdr_entry_fn main_fn;
static telpher_status expected;
static const char *expected_text; /* in the process that noticed it */

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &users, &number));
    IS(telpher_mdr_run(mdr, main_fn, NULL), expected);
    if (expected_text != NULL && telpher_mdr_size(mdr) == 1) {
        says(mdr, expected_text);
    }
    telpher_mdr_destroy(mdr);
}

static void
run(telpher_mdr_entry_fn fn, telpher_status status, const char *text)
{
    main_fn = fn;
    expected = status;
    expected_text = text;
    for (uint32_t size = 1; size <= 2; size++) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
    }
}

static void
test_errors(void **state)
{
    (void)state;
    run(main_goes_on, TELPHER_OK, NULL);
    run(main_unequal, TELPHER_ERR_INVALID,
        "in user(1, 0, 0).user_unequal: class user: contributions to reduction 0 "
        "differ in operation, length (16 and 8 bytes)");
    run(main_not_inserted, TELPHER_ERR_NOT_FOUND,
        "a message for user(7, 0, 0).user_take, which was not inserted");
    run(main_twice, TELPHER_ERR_EXISTS,
        "class user: element (5, 0, 0) is inserted twice");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors)};

    setenv("TELPHER_LOG", "none", 1);
    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
