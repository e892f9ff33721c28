/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_checkpoint TRANSPORT
 *
 * A job saves arrays, a sparse array, a section, a group and full channels; jobs of other numbers
 * of processes go on from there. What cannot be saved or read is refused with its reason.
 */
#include "../comm/memory.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <telpher/mdr_dynamic.h>

enum { BLOCKS = 30, SPOTS = 17, PROCESSES = 3, BYTES = 5000 };

static const char *transport;
static char folder[64];
static enum telpher_mem_kind kind;

/* State that the main function saves. */
struct plan {
    telpher_mdr_array blocks, spots, group;
    telpher_mdr_section section;
    telpher_mdr_future done, members;
    uint32_t round;
};

enum { SEND, TAKE, COUNT, WAIT, ENTRIES };

struct block {
    uint8_t *memory; /* BYTES of `kind` */
    int64_t rounds, got;
};

static telpher_mdr_channel
channel_to(const telpher_mdr_call *call, int32_t hop)
{
    telpher_mdr_channel c = {.array = call->array};

    c.index.at[0] = (call->index.at[0] + hop + BLOCKS) % BLOCKS;
    return c;
}

static void
block_create(telpher_mdr_call *call)
{
    struct block *b = call->self;

    b->memory = memory_alloc_filled(telpher_mdr_context(call->mdr), kind, BYTES,
                                    (uint32_t)call->index.at[0]);
}

static void
block_destroy(telpher_mdr_call *call)
{
    OK(telpher_mem_free(telpher_mdr_context(call->mdr),
                        ((struct block *)call->self)->memory));
}

static void
block_pup(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    struct block *b = call->self;
    uint8_t *memory = b->memory;

    telpher_mdr_pup_bytes(p, b, sizeof(*b));
    if (telpher_mdr_pup_mode(p) == TELPHER_MDR_UNPACK) {
        memory = memory_alloc(telpher_mdr_context(call->mdr), kind, BYTES);
    }
    b->memory = memory;
    telpher_mdr_pup_bytes(p, b->memory, BYTES);
}

/* Two messages to the right, which are in the channel when the job is saved. */
static void
block_send(telpher_mdr_call *call)
{
    const telpher_mdr_channel right = channel_to(call, 1);

    for (int64_t i = 0; i < 2; i++) {
        int64_t number = TELPHER_MDR_SELF(call, struct block)->rounds * 2 + i;

        OK(telpher_mdr_channel_send(call, &right, &number, sizeof(number), NULL, 0,
                                    NULL));
    }
}

static void
block_take(telpher_mdr_call *call)
{
    struct block *b = call->self;

    MUST(*TELPHER_MDR_PARAMS(call, int64_t) == b->got++);
}

/* Receives them, and contributes to the array, and to the section. */
static void
block_count(telpher_mdr_call *call)
{
    const struct plan *p = TELPHER_MDR_PARAMS(call, struct plan);
    telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE, .future = p->done};
    const telpher_mdr_channel left = channel_to(call, -1);
    const int64_t values[2] = {1, call->index.at[0]};
    struct block *b = call->self;

    MUST(b->rounds++ == p->round);
    OK(telpher_mdr_contribute(call, values, sizeof(values), TELPHER_MDR_SUM_I64,
                              &target));
    if (call->array.id != p->blocks.id) {
        return;
    }
    memory_check(telpher_mdr_context(call->mdr), b->memory, BYTES,
                 (uint32_t)call->index.at[0]);
    OK(telpher_mdr_channel_recv(call, &left, TAKE));
    OK(telpher_mdr_channel_recv(call, &left, TAKE));
    target.future = p->members;
    if (call->index.at[0] % 2 == 0) {
        OK(telpher_mdr_section_contribute(call, &p->section, values, sizeof(values),
                                          TELPHER_MDR_SUM_I64, &target));
    }
}

static void
block_wait(telpher_mdr_call *call)
{
    telpher_mdr_future never;

    OK(telpher_mdr_future_create(call->mdr, &never));
    IS(telpher_mdr_await(call->mdr, never, NULL, 0, NULL), TELPHER_ERR_CANCELED);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [SEND] = TELPHER_MDR_ENTRY_VOID(block_send),
    [TAKE] = TELPHER_MDR_ENTRY(block_take, int64_t),
    [COUNT] = TELPHER_MDR_ENTRY(block_count, struct plan),
    [WAIT] = {"block_wait", block_wait, NULL, 0, TELPHER_MDR_WAITS, NULL},
};
static const telpher_mdr_class blocks = {.struct_size = sizeof(blocks),
                                         .entry_count = ENTRIES,
                                         .name = "block",
                                         .object_size = sizeof(struct block),
                                         .create = block_create,
                                         .destroy = block_destroy,
                                         .entries = entries,
                                         .pup = block_pup};
static const telpher_mdr_class stones = {.struct_size = sizeof(stones),
                                         .entry_count = ENTRIES,
                                         .name = "stone",
                                         .object_size = sizeof(struct block),
                                         .entries = entries};

/* ---- the jobs ---- */

/* Runs COUNT in all of an array. */
static void
count_all(telpher_mdr *mdr, struct plan *p, const telpher_mdr_array *array,
          int64_t count, int64_t sum)
{
    int64_t got[2];

    OK(telpher_mdr_future_create(mdr, &p->done));
    OK(telpher_mdr_broadcast(mdr, array, COUNT, p, sizeof(*p)));
    OK(telpher_mdr_await(mdr, p->done, got, sizeof(got), NULL));
    MUST(got[0] == count && got[1] == sum);
}

static void
finish_round(telpher_mdr *mdr, struct plan *p)
{
    int64_t size = telpher_mdr_size(mdr), got[2], members = BLOCKS / 2;

    OK(telpher_mdr_future_create(mdr, &p->members));
    count_all(mdr, p, &p->blocks, BLOCKS, BLOCKS * (BLOCKS - 1) / 2);
    OK(telpher_mdr_await(mdr, p->members, got, sizeof(got), NULL));
    MUST(got[0] == members && got[1] == members * (members - 1));
    count_all(mdr, p, &p->spots, SPOTS, SPOTS * (SPOTS - 1) / 2 * 100);
    count_all(mdr, p, &p->group, size, size * (size - 1) / 2);
    p->round++;
}

/* Channels fill, are saved, and empty. */
static void
play_round(telpher_mdr_call *call, struct plan *p)
{
    OK(telpher_mdr_broadcast(call->mdr, &p->blocks, SEND, NULL, 0));
    OK(telpher_mdr_checkpoint(call, folder, p, sizeof(*p)));
    finish_round(call->mdr, p);
}

static void
make_plan(telpher_mdr_call *call, struct plan *p)
{
    static const int32_t extent[] = {BLOCKS};
    telpher_mdr_index members[BLOCKS / 2];

    OK(telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &p->blocks));
    OK(telpher_mdr_group_create(call->mdr, 0, NULL, 0, &p->group));
    OK(telpher_mdr_sparse_create(call->mdr, 0, 1, &p->spots));
    for (int32_t i = 0; i < SPOTS; i++) {
        OK(telpher_mdr_insert(call, &p->spots, (telpher_mdr_index){{100 * i, 0, 0}},
                              TELPHER_MDR_ANY_PROCESS, NULL, 0));
    }
    for (int32_t i = 0; i < BLOCKS / 2; i++) {
        members[i] = (telpher_mdr_index){{2 * i, 0, 0}};
    }
    OK(telpher_mdr_section_create(call->mdr, &p->blocks, members, BLOCKS / 2,
                                  &p->section));
}

static void
main_saves(telpher_mdr_call *call)
{
    struct plan p = {.round = 0};

    IS(telpher_mdr_restore(call, folder, &p, sizeof(p), NULL), TELPHER_ERR_NOT_FOUND);
    make_plan(call, &p);
    play_round(call, &p);
    play_round(call, &p);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static uint32_t saved_round;

static void
main_restores(telpher_mdr_call *call)
{
    struct plan p;
    size_t len = 0;

    IS(telpher_mdr_restore(call, NULL, &p, sizeof(p), NULL), TELPHER_ERR_NOT_FOUND);
    OK(telpher_mdr_restore(call, folder, &p, sizeof(p), &len));
    MUST(len == sizeof(p) && p.round == saved_round);
    IS(telpher_mdr_restore(call, folder, &p, sizeof(p), &len), TELPHER_ERR_BUSY);
    finish_round(call->mdr, &p);
    play_round(call, &p);
    play_round(call, &p);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

/* ---- refusals ---- */

static void
refused(telpher_mdr_call *call, telpher_status status, const char *text)
{
    IS(telpher_mdr_checkpoint(call, folder, NULL, 0), status);
    if (strstr(telpher_mdr_last_error(call->mdr), text) == NULL) {
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text,
                telpher_mdr_last_error(call->mdr));
        _Exit(1);
    }
}

static size_t
count_parts(void)
{
    char pattern[80];
    glob_t found = {.gl_pathc = 0};
    size_t count;

    (void)snprintf(pattern, sizeof(pattern), "%s/*.*", folder);
    (void)glob(pattern, 0, NULL, &found);
    count = found.gl_pathc;
    globfree(&found);
    return count;
}

static void
main_refused(telpher_mdr_call *call)
{
    static const int32_t extent[] = {6};
    telpher_mdr_array array;

    IS(telpher_mdr_checkpoint(call, NULL, NULL, 0), TELPHER_ERR_INVALID);
    IS(telpher_mdr_checkpoint(call, "/no/such/folder", NULL, 0), TELPHER_ERR_IO);
    OK(telpher_mdr_checkpoint(call, folder, NULL, 0)); /* no objects: fine */
    OK(telpher_mdr_array_create(call->mdr, 0, 1, extent, NULL, 0, &array));
    OK(telpher_mdr_invoke(call->mdr, &array, (telpher_mdr_index){{4, 0, 0}}, WAIT, NULL,
                          0, NULL, 0, NULL));
    refused(call, TELPHER_ERR_INVALID,
            "object (4, 0, 0) of class block cannot be saved: an entry of it waits");
    MUST(count_parts() == 2); /* process 0 removed its part, the older ones stay */
    OK(telpher_mdr_array_create(call->mdr, 1, 1, extent, NULL, 0, &array));
    refused(call, TELPHER_ERR_INVALID, "cannot be saved");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static void
main_no_pup(telpher_mdr_call *call)
{
    static const int32_t extent[] = {2};
    telpher_mdr_array array;

    OK(telpher_mdr_array_create(call->mdr, 1, 1, extent, NULL, 0, &array));
    refused(call, TELPHER_ERR_INVALID,
            "objects of class stone cannot be saved: it has no pup function");
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static void
main_damaged(telpher_mdr_call *call)
{
    struct plan p;

    IS(telpher_mdr_restore(call, folder, &p, sizeof(p), NULL), TELPHER_ERR_PROTO);
    MUST(strstr(telpher_mdr_last_error(call->mdr), "is damaged") != NULL);
    /* the job can go on without it */
    OK(telpher_mdr_array_create(call->mdr, 0, 1, (const int32_t[]){6}, NULL, 0,
                                &p.blocks));
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

/* ---- the program ---- */

static telpher_mdr_entry_fn main_fn;

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    if (!ranks_have_memory(ctx, kind)) {
        return;
    }
    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &blocks, &number));
    OK(telpher_mdr_class_register(mdr, &stones, &number));
    OK(telpher_mdr_run(mdr, main_fn, NULL));
    telpher_mdr_destroy(mdr);
}

static void
run(uint32_t size, telpher_mdr_entry_fn fn)
{
    main_fn = fn;
    assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
}

static void
make_folder(void)
{
    strcpy(folder, "/tmp/mdr_checkpoint-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static int
for_each_file(const char *command)
{
    char line[256];

    (void)snprintf(line, sizeof(line), command, folder);
    return system(line); // NOLINT(cert-env33-c): names of this test
}

static void
test_other_numbers(void **state)
{
    static const uint32_t sizes[] = {5, 1, 2, 3};

    kind = *(const enum telpher_mem_kind *)*state;
    make_folder();
    run(PROCESSES, main_saves);
    saved_round = 1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        run(sizes[i], main_restores);
        saved_round += 2;
    }
    assert_int_equal(for_each_file("rm -r %s"), 0);
}

/* Damage to a part of a checkpoint, besides changed bytes. */
static const char *const wrongs[] = {
    "for f in %s/*-1-of-3.mdr; do : >$f; done",
    "for f in %s/*-1-of-3.mdr; do cp $f.good $f; truncate -s -1 $f; done",
    "for f in %s/*-1-of-3.mdr; do head -c 200 $f.good >$f; done",
    "for f in %s/*-1-of-3.mdr; do head -c 20 $f.good >$f; done",
    "for f in %s/*-1-of-3.mdr; do cp $f.good $f; printf x >>$f; done",
    "cd %s && for f in *-1-of-3.mdr; do cp ${f%%-1-of-3.mdr}-0-of-3.mdr $f; done",
    "for f in %s/*-1-of-3.mdr; do head -c 100000 /dev/urandom >$f; done",
};

static void
test_refusals(void **state)
{
    (void)state;
    kind = TELPHER_MEM_HOST;
    setenv("TELPHER_LOG", "none", 1);
    make_folder();
    run(2, main_refused);
    run(2, main_no_pup);
    assert_int_equal(for_each_file("rm -r %s"), 0);
    make_folder();
    run(PROCESSES,
        main_saves); /* one byte of one part is another: of its classes, of others */
    assert_int_equal(
        for_each_file("for f in %s/*-1-of-3.mdr; do cp $f $f.good; printf x | "
                      "dd of=$f bs=1 seek=300 conv=notrunc 2>/dev/null; done"),
        0);
    run(2, main_damaged);
    assert_int_equal(
        for_each_file("for f in %s/*-1-of-3.mdr; do cp $f.good $f; printf x | "
                      "dd of=$f bs=1 seek=20 conv=notrunc 2>/dev/null; done"),
        0);
    run(2, main_damaged);
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
        assert_int_equal(for_each_file(wrongs[i]), 0);
        run(1 + (uint32_t)i % 3, main_damaged);
    }
    assert_int_equal(for_each_file("rm -r %s"), 0);
    unsetenv("TELPHER_LOG");
}

int
main(int argc, char **argv)
{
    static enum telpher_mem_kind kinds[] = {TELPHER_MEM_HOST, TELPHER_MEM_SIM};
    const struct CMUnitTest tests[] = {
        {"host", test_other_numbers, NULL, NULL, &kinds[0]},
        {"sim", test_other_numbers, NULL, NULL, &kinds[1]},
        cmocka_unit_test(test_refusals),
    };

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
