/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_sparse TRANSPORT
 *
 * Objects that are inserted, move and end while reductions and broadcasts run, compared with a
 * loop in process 0; and sections of arrays whose objects move or not.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

enum { ROUNDS = 24, MOST = 4000, FIRST = 6 };

static const char *transport;

/* ---- what an object does in a round: a function of its number ---- */

static uint64_t
mix(uint64_t id, uint64_t round, uint64_t salt)
{
    uint64_t x = id * UINT64_C(0x9e3779b97f4a7c15) + round * 977 + salt;

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 27;
}

static bool
inserts(uint64_t id, uint32_t round)
{
    return mix(id, round, 1) % 4 == 0;
}

static bool
ends(uint64_t id, uint32_t round)
{
    return mix(id, round, 2) % 5 == 0;
}

static uint64_t
child_of(uint64_t id, uint32_t round)
{
    return mix(id, round, 3);
}

/* ---- cells ---- */

enum { STEP, PING, ENTRIES };

struct round {
    telpher_mdr_future done;
    telpher_mdr_array all;
    uint32_t number;
};

struct cell {
    uint64_t id;
    uint32_t pings;
};

static telpher_mdr_index
index_of(uint64_t id)
{
    return telpher_mdr_index_of(&id, sizeof(id));
}

static void
act(telpher_mdr_call *call, const struct round *r)
{
    const struct cell *c = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = r->done};
    const uint64_t values[2] = {1, c->id};
    uint32_t to =
        (uint32_t)mix(c->id, r->number, 4) % (telpher_mdr_size(call->mdr) + 1);

    if (inserts(c->id, r->number)) {
        OK(telpher_mdr_insert(
            call, &r->all, index_of(child_of(c->id, r->number)),
            to < telpher_mdr_size(call->mdr) ? to : TELPHER_MDR_ANY_PROCESS, r,
            sizeof(*r)));
    }
    OK(telpher_mdr_contribute(call, values, sizeof(values), TELPHER_MDR_SUM_I64,
                              &target));
    if (ends(c->id, r->number)) {
        OK(telpher_mdr_remove(call));
    } else if (to % 2 != 0) {
        OK(telpher_mdr_migrate(call, to % telpher_mdr_size(call->mdr)));
    }
}

static void
cell_create(telpher_mdr_call *call)
{
    struct cell *c = call->self;

    memcpy(&c->id, call->index.at, sizeof(c->id));
    if (call->params_len == sizeof(struct round)) { /* of a cell: in its round */
        act(call, TELPHER_MDR_PARAMS(call, struct round));
    }
}

static void
cell_step(telpher_mdr_call *call)
{
    act(call, TELPHER_MDR_PARAMS(call, struct round));
}

static void
cell_ping(telpher_mdr_call *call)
{
    const struct cell *c = call->self;

    OK(telpher_mdr_future_set(call->mdr, *TELPHER_MDR_PARAMS(call, telpher_mdr_future),
                              &c->id, sizeof(c->id)));
}

static void
cell_pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    telpher_mdr_pup_bytes(p, call->self, sizeof(struct cell));
}

static const telpher_mdr_entry cell_entries[ENTRIES] = {
    [STEP] = TELPHER_MDR_ENTRY(cell_step, struct round),
    [PING] = TELPHER_MDR_ENTRY(cell_ping, telpher_mdr_future),
};
static const telpher_mdr_class cells = {.struct_size = sizeof(cells),
                                        .entry_count = ENTRIES,
                                        .name = "cell",
                                        .object_size = sizeof(struct cell),
                                        .create = cell_create,
                                        .entries = cell_entries,
                                        .pup = cell_pup};

/* The same in a list. @return objects that acted; those that stay are kept */
static size_t
act_alone(uint64_t *ids, size_t *count, uint32_t round, uint64_t *ret_sum)
{
    size_t acted, kept = 0;

    *ret_sum = 0;
    for (acted = 0; acted < *count; acted++) {
        *ret_sum += ids[acted];
        if (inserts(ids[acted], round)) {
            MUST(*count < MOST);
            ids[(*count)++] = child_of(ids[acted], round);
        }
    }
    for (size_t i = 0; i < acted; i++) {
        if (!ends(ids[i], round)) {
            ids[kept++] = ids[i];
        }
    }
    *count = kept;
    return acted;
}

/* A message that is sent before its element is inserted. */
static void
ping(telpher_mdr_call *call, const telpher_mdr_array *all, uint64_t id, bool insert)
{
    telpher_mdr_future f;
    uint64_t answer = 0;

    OK(telpher_mdr_future_create(call->mdr, &f));
    OK(telpher_mdr_invoke(call->mdr, all, index_of(id), PING, &f, sizeof(f), NULL, 0,
                          NULL));
    if (insert) {
        OK(telpher_mdr_insert(call, all, index_of(id), TELPHER_MDR_ANY_PROCESS, NULL,
                              0));
    }
    OK(telpher_mdr_await(call->mdr, f, &answer, sizeof(answer), NULL));
    MUST(answer == id);
}

static void
main_cells(telpher_mdr_call *call)
{
    static uint64_t ids[MOST];
    size_t count = 0;
    struct round r = {.number = 0};
    uint64_t expected, got[2];

    OK(telpher_mdr_sparse_create(call->mdr, 0, 2, &r.all));
    for (; r.number < ROUNDS; r.number++) {
        for (int i = 0; i < FIRST || count == 0; i++) { /* from outside of the array */
            ids[count] = mix((uint64_t)i, r.number, 5);
            ping(call, &r.all, ids[count++], true);
        }
        OK(telpher_mdr_future_create(call->mdr, &r.done));
        OK(telpher_mdr_broadcast(call->mdr, &r.all, STEP, &r, sizeof(r)));
        OK(telpher_mdr_await(call->mdr, r.done, got, sizeof(got), NULL));
        MUST(got[0] == act_alone(ids, &count, r.number, &expected));
        MUST(got[1] == expected);
        for (size_t i = 0; i < count; i += 7) {
            ping(call, &r.all, ids[i], false);
        }
    }
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

/* ---- sections ---- */

enum { MEMBERS = 3, POKES = 20, EXTENT = 41 };
enum { POKE, EVERYONE, SECTION_ENTRIES };

struct poke {
    telpher_mdr_section sections[MEMBERS];
    telpher_mdr_future done[MEMBERS], all;
    uint32_t round, section;
};

struct block {
    uint32_t pokes[MEMBERS];
};

/* Section s has every (s + 2)th element. */
static bool
is_in(int32_t i, uint32_t s)
{
    return i % (int32_t)(s + 2) == 0;
}

static void
wander(telpher_mdr_call *call, uint32_t round)
{
    telpher_status status =
        telpher_mdr_migrate(call, (uint32_t)mix((uint64_t)call->index.at[0], round, 6) %
                                      telpher_mdr_size(call->mdr));

    MUST(status == TELPHER_OK || status == TELPHER_ERR_INVALID);
}

static void
block_poke(telpher_mdr_call *call)
{
    const struct poke *p = TELPHER_MDR_PARAMS(call, struct poke);
    struct block *b = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = p->done[p->section]};
    const int64_t values[2] = {1, call->index.at[0]};

    MUST(is_in(call->index.at[0], p->section));
    MUST(b->pokes[p->section]++ == p->round);
    OK(telpher_mdr_section_contribute(call, &p->sections[p->section], values,
                                      sizeof(values), TELPHER_MDR_SUM_I64, &target));
    for (uint32_t s = 0; s < MEMBERS; s++) {
        if (!is_in(call->index.at[0], s)) {
            IS(telpher_mdr_section_contribute(call, &p->sections[s], values, 8,
                                              TELPHER_MDR_SUM_I64, &target),
               TELPHER_ERR_NOT_FOUND);
        }
    }
    wander(call, p->round * MEMBERS + p->section);
}

static void
block_everyone(telpher_mdr_call *call)
{
    const struct poke *p = TELPHER_MDR_PARAMS(call, struct poke);
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE, .future = p->all};
    const int64_t one = 1;

    OK(telpher_mdr_contribute(call, &one, sizeof(one), TELPHER_MDR_SUM_I64, &target));
    wander(call, p->round + 1000);
}

static void
block_pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    telpher_mdr_pup_bytes(p, call->self, sizeof(struct block));
}

static const telpher_mdr_entry block_entries[SECTION_ENTRIES] = {
    [POKE] = TELPHER_MDR_ENTRY(block_poke, struct poke),
    [EVERYONE] = TELPHER_MDR_ENTRY(block_everyone, struct poke),
};
static const telpher_mdr_class fixed = {.struct_size = sizeof(fixed),
                                        .entry_count = SECTION_ENTRIES,
                                        .name = "fixed",
                                        .object_size = sizeof(struct block),
                                        .entries = block_entries};
static const telpher_mdr_class mobile = {.struct_size = sizeof(mobile),
                                         .entry_count = SECTION_ENTRIES,
                                         .name = "mobile",
                                         .object_size = sizeof(struct block),
                                         .entries = block_entries,
                                         .pup = block_pup};

static void
make_sections(telpher_mdr *mdr, const telpher_mdr_array *array, struct poke *p)
{
    for (uint32_t s = 0; s < MEMBERS; s++) {
        telpher_mdr_index members[2 * EXTENT];
        size_t count = 0;

        for (int32_t i = 0; i < 2 * EXTENT; i++) { /* each twice */
            if (is_in(i % EXTENT, s)) {
                members[count++] = (telpher_mdr_index){{i % EXTENT, 0, 0}};
            }
        }
        OK(telpher_mdr_section_create(mdr, array, members, count, &p->sections[s]));
    }
}

static void
await_sections(telpher_mdr *mdr, const struct poke *p)
{
    int64_t all = 0;

    for (uint32_t s = 0; s < MEMBERS; s++) {
        int64_t got[2], expected[2] = {0, 0};

        OK(telpher_mdr_await(mdr, p->done[s], got, sizeof(got), NULL));
        for (int32_t i = 0; i < EXTENT; i++) {
            expected[0] += is_in(i, s);
            expected[1] += is_in(i, s) ? i : 0;
        }
        MUST(got[0] == expected[0] && got[1] == expected[1]);
    }
    OK(telpher_mdr_await(mdr, p->all, &all, sizeof(all), NULL));
    MUST(all == EXTENT);
}

static void
main_sections(telpher_mdr_call *call)
{
    static const int32_t extent[] = {EXTENT};
    telpher_mdr *mdr = call->mdr;

    for (uint32_t class_id = 1; class_id <= 2; class_id++) {
        telpher_mdr_array array;
        struct poke p = {.round = 0};

        OK(telpher_mdr_array_create(mdr, class_id, 1, extent, NULL, 0, &array));
        IS(telpher_mdr_section_create(mdr, &array, NULL, 0, &p.sections[0]),
           TELPHER_ERR_RANGE);
        make_sections(mdr, &array, &p);
        for (; p.round < POKES; p.round++) {
            OK(telpher_mdr_future_create(mdr, &p.all));
            for (uint32_t s = 0; s < MEMBERS; s++) {
                OK(telpher_mdr_future_create(mdr, &p.done[s]));
            }
            for (p.section = 0; p.section < MEMBERS; p.section++) {
                OK(telpher_mdr_section_broadcast(mdr, &p.sections[p.section], POKE, &p,
                                                 sizeof(p)));
            }
            OK(telpher_mdr_broadcast(mdr, &array, EVERYONE, &p, sizeof(p)));
            await_sections(mdr, &p);
        }
    }
    telpher_mdr_exit(mdr, TELPHER_OK);
}

/* ---- the program ---- */

static telpher_mdr_entry_fn main_fn;

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &cells, &number));
    OK(telpher_mdr_class_register(mdr, &fixed, &number));
    OK(telpher_mdr_class_register(mdr, &mobile, &number));
    OK(telpher_mdr_run(mdr, main_fn, NULL));
    telpher_mdr_destroy(mdr);
}

static void
test_sparse(void **state)
{
    (void)state;
    main_fn = main_cells;
    for (uint32_t size = 1; size <= 4; size += 3) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
    }
}

static void
test_sections(void **state)
{
    (void)state;
    main_fn = main_sections;
    for (uint32_t size = 1; size <= 4; size += 3) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sparse),
                                       cmocka_unit_test(test_sections)};

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
