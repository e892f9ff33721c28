/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: builtin_mem_test KIND: the same tests over each kind of memory (host, opencl, cuda,
 * sim). Exit status 77 where this machine has no such memory. Run as `… --import BLOB LEN`
 * it is the other process, which writes into memory that the first exported.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/hex.h"
#include "core/comm/mem/mem.h"

enum { BIG = (3 << 20) + 5, MANY = 24, PIECE = 70001 };

static const char *const kind_names[TELPHER_MEM_KINDS] = {"host", "opencl", "cuda",
                                                          "sim"};
static uint32_t kind;
static const char *program;
static struct tp_mems *mems;

static uint8_t
pattern(size_t i, unsigned seed)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

static uint8_t *
make_pattern(size_t len, unsigned seed)
{
    uint8_t *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = pattern(i, seed);
    }
    return bytes;
}

static void
check_pattern(const uint8_t *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != pattern(i, seed)) {
            fail_msg("byte %zu of %zu is %u, not %u", i, len, bytes[i],
                     pattern(i, seed));
        }
    }
}

static char *
get(uint32_t of_kind, size_t bytes)
{
    void *ptr = NULL;

    assert_int_equal(tp_mems_alloc(mems, of_kind, bytes, &ptr), TELPHER_OK);
    return ptr;
}

static int
set_up(void **state)
{
    struct tp_error err = {0};

    (void)state;
    return tp_mems_create(NULL, &mems, &err);
}

static int
tear_down(void **state)
{
    (void)state;
    tp_mems_destroy(mems);
    mems = NULL;
    return 0;
}

/* ---- having memory ------------------------------------------------------------------- */

static void
test_alloc_and_find(void **state)
{
    telpher_mem_info info = {.struct_size = sizeof(info)};
    struct tp_mem_place place;
    char *a = get(kind, BIG), *b = get(kind, 1);

    (void)state;
    assert_int_equal((uintptr_t)a % 256, 0);
    assert_int_equal(tp_mems_find(mems, a + 100, BIG - 100, &place), TELPHER_OK);
    assert_int_equal(place.kind, kind);
    assert_int_equal(place.offset, 100);
    assert_int_equal(place.device == NULL, kind == TELPHER_MEM_HOST);
    if (kind == TELPHER_MEM_HOST) {
        assert_ptr_equal(place.host, a + 100);
    }
    assert_int_equal(tp_mems_find(mems, a + 100, BIG - 99, &place), TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_query(mems, a + BIG - 1, &info), TELPHER_OK);
    assert_ptr_equal(info.base, a);
    assert_true(info.bytes >= BIG);
    assert_int_equal(info.kind, kind);
    assert_int_equal(tp_mems_query(mems, &info, &info), TELPHER_OK);
    assert_int_equal(info.kind, TELPHER_MEM_HOST);
    assert_int_equal(info.bytes, 0);
    assert_int_equal(tp_mems_free(mems, a + 1), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_mems_unregister(mems, a), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
    assert_int_equal(tp_mems_free(mems, a), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_mems_free(mems, NULL), TELPHER_OK);
    assert_int_equal(tp_mems_free(mems, b), TELPHER_OK);
}

static void
test_wrong_calls(void **state)
{
    void *ptr;
    int here;

    (void)state;
    assert_int_equal(tp_mems_alloc(mems, kind, 0, &ptr), TELPHER_ERR_INVALID);
    assert_int_equal(tp_mems_alloc(mems, TELPHER_MEM_KINDS, 1, &ptr),
                     TELPHER_ERR_INVALID);
    assert_int_equal(
        tp_mems_register(mems, TELPHER_MEM_KINDS, &here, sizeof(here), NULL, NULL),
        TELPHER_ERR_INVALID);
    assert_int_equal(tp_mems_register(mems, kind, NULL, 1, NULL, NULL),
                     TELPHER_ERR_INVALID);
    assert_int_equal(tp_mems_unregister(mems, &here), TELPHER_ERR_NOT_FOUND);
    ptr = get(kind, 4096);
    assert_int_equal(
        tp_mems_register(mems, TELPHER_MEM_HOST, (char *)ptr + 8, 8, NULL, NULL),
        TELPHER_ERR_EXISTS);
    assert_int_equal(tp_mems_free(mems, ptr), TELPHER_OK);
}

/* ---- copies -------------------------------------------------------------------------- */

static const size_t sizes[] = {1, 7, 255, 4096, 65537, 1 << 20, BIG};

static void
test_round_trips(void **state)
{
    char *a = get(kind, BIG + 64), *b = get(kind, BIG + 64);
    uint8_t *out = make_pattern(BIG, 1), *in = malloc(BIG);

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(sizes); i++) {
        size_t len = sizes[i], odd = i * 3;

        memset(in, 0, BIG);
        assert_int_equal(tp_mems_copy(mems, a + odd, out, len), TELPHER_OK);
        assert_int_equal(tp_mems_copy(mems, b + 64 - odd, a + odd, len), TELPHER_OK);
        assert_int_equal(tp_mems_copy(mems, in, b + 64 - odd, len), TELPHER_OK);
        check_pattern(in, len, 1);
    }
    assert_int_equal(tp_mems_copy(mems, a, out, 0), TELPHER_OK);
    assert_int_equal(tp_mems_copy(mems, a + 60, out, BIG + 5), TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_copy(mems, out, b + 60, BIG + 5), TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
    assert_int_equal(tp_mems_free(mems, b), TELPHER_OK);
    free(in);
    free(out);
}

static void
test_between_kinds(void **state)
{
    uint8_t *out = make_pattern(BIG, 5), *in = malloc(BIG);
    char *a = get(kind, BIG);

    (void)state;
    assert_int_equal(tp_mems_copy(mems, a, out, BIG), TELPHER_OK);
    for (uint32_t other = 0; other < TELPHER_MEM_KINDS; other++) {
        void *b;

        if (tp_mems_alloc(mems, other, BIG, &b) != TELPHER_OK) {
            continue;
        }
        memset(in, 0, BIG);
        assert_int_equal(tp_mems_copy(mems, b, a, BIG), TELPHER_OK);
        assert_int_equal(tp_mems_copy(mems, a, in, BIG), TELPHER_OK);
        assert_int_equal(tp_mems_copy(mems, a, b, BIG), TELPHER_OK);
        assert_int_equal(tp_mems_copy(mems, in, a, BIG), TELPHER_OK);
        check_pattern(in, BIG, 5);
        assert_int_equal(tp_mems_free(mems, b), TELPHER_OK);
    }
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
    free(in);
    free(out);
}

/* A piece that is written, and read again as soon as that is done. */
struct piece {
    struct tp_device_copy copy;
    struct tp_mem_place place;
    uint8_t *out, *in;
    unsigned ended;
    telpher_status status;
};
static bool in_progress;

static void
piece_read(struct tp_device_copy *copy, int32_t error)
{
    struct piece *p = tp_container_of(copy, struct piece, copy);

    assert_true(in_progress);
    p->ended++;
    p->status = error;
}

static void
piece_written(struct tp_device_copy *copy, int32_t error)
{
    struct piece *p = tp_container_of(copy, struct piece, copy);

    assert_true(in_progress);
    assert_int_equal(error, 0);
    p->ended++;
    copy->done = piece_read;
    copy->queue = NULL;
    assert_int_equal(tp_mems_read(mems, &p->place, PIECE, p->in, copy), TELPHER_OK);
}

static void
test_many_at_once(void **state)
{
    struct piece *pieces = calloc(MANY, sizeof(*pieces));
    char *a = get(kind, (size_t)MANY * PIECE);
    unsigned ended = 0;

    (void)state;
    if (kind == TELPHER_MEM_HOST) { /* host memory: an address suffices to copy */
        goto end;
    }
    for (unsigned i = 0; i < MANY; i++) {
        struct piece *p = &pieces[i];

        p->out = make_pattern(PIECE, i);
        p->in = calloc(1, PIECE);
        p->copy.done = piece_written;
        assert_int_equal(tp_mems_find(mems, a + (size_t)i * PIECE, PIECE, &p->place),
                         TELPHER_OK);
        assert_int_equal(tp_mems_write(mems, &p->place, PIECE, p->out, &p->copy),
                         TELPHER_OK);
    }
    in_progress = true;
    while (tp_mems_pending(mems) > 0) {
        ended += tp_mems_progress(mems);
    }
    assert_int_equal(tp_mems_progress(mems), 0);
    in_progress = false;
    assert_int_equal(ended, 2 * MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(pieces[i].ended, 2);
        assert_int_equal(pieces[i].status, 0);
        check_pattern(pieces[i].in, PIECE, i);
        free(pieces[i].in);
        free(pieces[i].out);
    }
end:
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
    free(pieces);
}

/* ---- chunks -------------------------------------------------------------------------- */

static void
test_chunks(void **state)
{
    char *a = get(kind, 8 << 20);
    struct tp_mem_place place;
    telpher_mem_stats stats = {.struct_size = sizeof(stats)};
    void *chunks[64];
    unsigned count;
    size_t bytes;

    (void)state;
    assert_int_equal(tp_mems_find(mems, a, 1, &place), TELPHER_OK);
    bytes = tp_mems_chunk_bytes(mems, place.device);
    count = tp_mems_chunk_count(mems, place.device);
    assert_true(bytes >= 4096 && bytes % 4096 == 0);
    assert_in_range(count, 2, 64);
    for (unsigned i = 0; i < count; i++) {
        chunks[i] = tp_mems_chunk_take(mems, place.device);
        assert_non_null(chunks[i]);
        memset(chunks[i], (int)i, bytes);
    }
    assert_null(tp_mems_chunk_take(mems, place.device));
    tp_mems_stats(mems, &stats);
    assert_int_equal(stats.chunks_refused, 1);
    for (unsigned i = 0; i < count; i++) {
        size_t len = TP_MIN(bytes, 8 << 20);

        assert_int_equal(((uint8_t *)chunks[i])[bytes - 1], i);
        assert_int_equal(tp_mems_copy(mems, a, chunks[i], len), TELPHER_OK);
        memset(chunks[i], 0xee, bytes);
        assert_int_equal(tp_mems_copy(mems, chunks[i], a, len), TELPHER_OK);
        assert_int_equal(((uint8_t *)chunks[i])[len - 1], i);
        tp_mems_chunk_give(mems, place.device, chunks[i]);
    }
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
}

/* Chunks and ways of simulated memory of some speed. */
static void
measure(char *speed, uint64_t chunk, uint64_t chunks, size_t *ret_bytes,
        unsigned *ret_count, bool *ret_short)
{
    const struct tp_mems_settings settings = {
        .sim = speed, .chunk = chunk, .chunks = chunks};
    const struct tp_mems_params params = {.settings = &settings};
    struct tp_error err = {0};
    struct tp_mem_place place;
    struct tp_mems *m;
    void *ptr;

    assert_int_equal(tp_mems_create(&params, &m, &err), TELPHER_OK);
    assert_int_equal(tp_mems_alloc(m, TELPHER_MEM_SIM, 4096, &ptr), TELPHER_OK);
    assert_int_equal(tp_mems_find(m, ptr, 1, &place), TELPHER_OK);
    *ret_bytes = tp_mems_chunk_bytes(m, place.device);
    *ret_count = tp_mems_chunk_count(m, place.device);
    *ret_short = tp_mems_move_is_short(m, place.device);
    assert_int_equal(tp_mems_free(m, ptr), TELPHER_OK);
    tp_mems_destroy(m);
}

/* A latency that larger chunks hide makes them larger, and more; slow bytes do not. */
static void
test_measured(void **state)
{
    static char far_away[] = "latency=500us,bandwidth=10G", slow[] = "bandwidth=20M";
    size_t bytes;
    unsigned count;
    bool is_short;

    (void)state;
    do { /* a busy machine measures its load: repeated until the test's time limit */
        measure(far_away, 0, 0, &bytes, &count, &is_short);
    } while (bytes <= 64 << 10 || !is_short);
    measure(slow, 0, 0, &bytes, &count, &is_short);
    assert_int_equal(bytes, 64 << 10);
    assert_in_range(count, 8, 16);
    measure(far_away, 16 << 10, 5, &bytes, &count, &is_short);
    assert_int_equal(bytes, 16 << 10);
    assert_int_equal(count, 5);
}

/* ---- another process ----------------------------------------------------------------- */

/* The other process: reads what is there, answers with another pattern. */
static int
run_importer(const char *hex, const char *len_text)
{
    uint8_t blob[TP_MEMS_BLOB_MAX];
    size_t blob_len = strlen(hex) / 2, len = strtoul(len_text, NULL, 10);
    uint8_t *out = make_pattern(len, 9), *in = malloc(len);
    struct tp_mem_place place, again;

    assert_int_equal(set_up(NULL), 0);
    assert_true(blob_len <= sizeof(blob));
    assert_int_equal(tp_hex_decode(blob, blob_len, hex), TELPHER_OK);
    assert_int_equal(tp_mems_import(mems, blob, blob_len, len + 1, &place),
                     TELPHER_ERR_RANGE);
    assert_int_equal(tp_mems_import(mems, blob, blob_len, len, &place), TELPHER_OK);
    assert_int_equal(tp_mems_import(mems, blob, blob_len, len, &again), TELPHER_OK);
    assert_ptr_equal(place.mem, again.mem);
    tp_mems_close(mems, &again);
    if (place.device == NULL) {
        check_pattern(place.host, len, 8);
        memcpy(place.host, out, len);
    } else {
        struct piece p = {.copy.done = piece_read};

        in_progress = true;
        assert_int_equal(tp_mems_read(mems, &place, len, in, &p.copy), TELPHER_OK);
        while (p.ended == 0) {
            (void)tp_mems_progress(mems);
        }
        check_pattern(in, len, 8);
        assert_int_equal(tp_mems_write(mems, &place, len, out, &p.copy), TELPHER_OK);
        while (p.ended == 1) {
            (void)tp_mems_progress(mems);
        }
    }
    tp_mems_close(mems, &place);
    tear_down(NULL);
    free(in);
    free(out);
    return 0;
}

static void
test_export(void **state)
{
    enum { LEN = 1 << 20, OFFSET = 777 };
    char hex[TP_HEX_SIZE(TP_MEMS_BLOB_MAX)], len_text[16];
    char *a = get(kind, LEN + OFFSET);
    uint8_t *bytes = make_pattern(LEN, 8), blob[TP_MEMS_BLOB_MAX];
    struct tp_mem_place place;
    telpher_status status;
    size_t len;
    pid_t child;
    int ended;

    (void)state;
    assert_int_equal(tp_mems_copy(mems, a + OFFSET, bytes, LEN), TELPHER_OK);
    assert_int_equal(tp_mems_find(mems, a + OFFSET, LEN, &place), TELPHER_OK);
    status = tp_mems_export(mems, &place, blob, &len);
    if (kind == TELPHER_MEM_OPENCL) { /* it has no such thing */
        assert_int_equal(status, TELPHER_ERR_UNSUPPORTED);
        goto end;
    }
    assert_int_equal(status, TELPHER_OK);
    assert_in_range(len, 1, TP_MEMS_BLOB_MAX);
    tp_hex_encode(hex, blob, len);
    (void)snprintf(len_text, sizeof(len_text), "%d", LEN);
    child = fork();
    if (child == 0) {
        execl(program, program, "--import", hex, len_text, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(tp_mems_copy(mems, bytes, a + OFFSET, LEN), TELPHER_OK);
    check_pattern(bytes, LEN, 9);
end:
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
    free(bytes);
}

static void
test_blobs_that_lie(void **state)
{
    char *a = get(kind, 4096);
    uint8_t blob[TP_MEMS_BLOB_MAX] = {0}, good[TP_MEMS_BLOB_MAX];
    struct tp_mem_place place;
    size_t len;

    (void)state;
    assert_int_equal(tp_mems_import(mems, blob, 0, 1, &place), TELPHER_ERR_INVALID);
    assert_int_equal(tp_mems_import(mems, blob, sizeof(blob), 1, &place),
                     TELPHER_ERR_INVALID);
    assert_int_equal(tp_mems_find(mems, a, 1, &place), TELPHER_OK);
    if (tp_mems_export(mems, &place, good, &len) == TELPHER_OK) {
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_not_equal(tp_mems_import(mems, good, cut, 1, &place),
                                 TELPHER_OK);
        }
        memcpy(blob, good, sizeof(blob));
        blob[0] = 200; /* no such kind */
        assert_int_not_equal(tp_mems_import(mems, blob, len, 1, &place), TELPHER_OK);
        blob[0] = good[0];
        blob[15] = 0xff; /* an offset beyond everything */
        assert_int_equal(tp_mems_import(mems, blob, len, 1, &place), TELPHER_ERR_RANGE);
    }
    assert_int_equal(tp_mems_free(mems, a), TELPHER_OK);
}

/* ---- want of memory ------------------------------------------------------------------ */

/* Creating, allocating and copying with the nth allocation failing: no crash, no leak. */
static void
test_no_memory(void **state)
{
    uint8_t byte = 1;

    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct tp_mems *m = NULL;
        struct tp_error err = {0};
        void *ptr = NULL, *chunk;
        struct tp_mem_place place;
        uint64_t before = tp_alloc_live();
        bool failed;

        tp_alloc_fail_nth(nth);
        if (tp_mems_create(NULL, &m, &err) == TELPHER_OK &&
            tp_mems_alloc(m, kind, 4096, &ptr) == TELPHER_OK) {
            (void)tp_mems_copy(m, ptr, &byte, 1);
            if (tp_mems_find(m, ptr, 1, &place) == TELPHER_OK) {
                chunk = tp_mems_chunk_take(m, place.device);
                if (chunk != NULL) {
                    tp_mems_chunk_give(m, place.device, chunk);
                }
            }
            assert_int_equal(tp_mems_free(m, ptr), TELPHER_OK);
        }
        failed = tp_alloc_failed();
        tp_alloc_fail_nth(0);
        tp_mems_destroy(m);
        assert_int_equal(tp_alloc_live(), before);
        if (!failed) {
            break;
        }
    }
}

/* ---- main ---------------------------------------------------------------------------- */

static bool
is_here(void)
{
    void *ptr;
    bool here = set_up(NULL) == 0 &&
                tp_mems_alloc(mems, kind, 4096, &ptr) != TELPHER_ERR_UNSUPPORTED;

    tear_down(NULL);
    return here;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alloc_and_find, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_round_trips, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_between_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_chunks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_export, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blobs_that_lie, set_up, tear_down),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_measured),
    };

    program = argv[0];
    if (argc == 4 && strcmp(argv[1], "--import") == 0) {
        return run_importer(argv[2], argv[3]);
    }
    while (kind < TELPHER_MEM_KINDS &&
           (argc != 2 || strcmp(argv[1], kind_names[kind]) != 0)) {
        kind++;
    }
    if (kind == TELPHER_MEM_KINDS) {
        (void)fprintf(stderr, "usage: %s host|opencl|cuda|sim\n", argv[0]);
        return 2;
    }
    if (!is_here()) {
        printf("skipped: no %s memory on this machine\n", kind_names[kind]);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
