/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mem_perf KIND: what one kind of memory costs here, one figure a line: finding an
 * address, one small copy, streams of chunks each way beside one large copy, copies inside.
 * Medians of several runs. TELPHER_SIM counts, and TELPHER_CHUNK in bytes. Run as `… --import BLOB LEN` it is the other process, which reads exported memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/os/clock.h"
#include "base/text/hex.h"
#include "core/comm/mem/mem.h"

enum { BIG = 256 << 20, RUNS = 9, FINDS = 200000, SMALL = 200 };

static const char *const kind_names[TELPHER_MEM_KINDS] = {"host", "opencl", "cuda",
                                                          "sim"};
static struct tp_mems *mems;

#define MUST(call)                                                                     \
    do {                                                                               \
        telpher_status must = (call);                                                  \
                                                                                       \
        if (must != TELPHER_OK) {                                                      \
            printf("%s: %s\n", #call, telpher_status_text(must));                      \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static void
say(const char *what, double value, const char *unit)
{
    printf("%-34s %10.3f %s\n", what, value, unit);
    (void)fflush(stdout);
}

/* ---- finding ------------------------------------------------------------------------- */

static void
measure_find(const char *what, char *const *ptrs, unsigned count)
{
    struct tp_mem_place place;
    double times[RUNS];

    for (unsigned run = 0; run < RUNS; run++) {
        tp_ns begin = tp_clock_ns();

        for (unsigned i = 0; i < FINDS; i++) {
            (void)tp_mems_find(mems, ptrs[i % count], 1, &place);
        }
        times[run] = (double)(tp_clock_ns() - begin) / FINDS;
    }
    say(what, median(times, RUNS), "ns");
}

static void
measure_finds(uint32_t kind)
{
    char *ptrs[16], *plain = malloc(4096);

    for (unsigned i = 0; i < TP_ARRAY_LEN(ptrs); i++) {
        void *ptr;

        MUST(tp_mems_alloc(mems, kind, 4096, &ptr));
        ptrs[i] = ptr;
    }
    measure_find("find, the same memory", ptrs, 1);
    measure_find("find, 8 in turn", ptrs, 8);
    measure_find("find, 16 in turn", ptrs, 16);
    measure_find("find, plain host memory", &plain, 1);
    for (unsigned i = 0; i < TP_ARRAY_LEN(ptrs); i++) {
        MUST(tp_mems_free(mems, ptrs[i]));
    }
    free(plain);
}

/* ---- copies -------------------------------------------------------------------------- */

struct slot {
    struct tp_device_copy copy;
    void *chunk;
    bool busy;
};

static void
ended(struct tp_device_copy *copy, int32_t error)
{
    tp_container_of(copy, struct slot, copy)->busy = false;
    if (error != 0) {
        printf("copy: %s\n", telpher_status_text(error));
        exit(1);
    }
}

static void
wait_for(struct slot *slot)
{
    while (slot->busy) {
        (void)tp_mems_progress(mems);
    }
}

static double
small_copies(const struct tp_mem_place *place, bool write)
{
    double times[SMALL];
    struct slot slot = {.copy.done = ended};
    void *chunk = tp_mems_chunk_take(mems, place->device);

    for (unsigned i = 0; i < SMALL; i++) {
        tp_ns begin = tp_clock_ns();

        slot.busy = true;
        MUST(write ? tp_mems_write(mems, place, 8, chunk, &slot.copy)
                   : tp_mems_read(mems, place, 8, chunk, &slot.copy));
        wait_for(&slot);
        times[i] = (double)(tp_clock_ns() - begin) / 1000;
    }
    tp_mems_chunk_give(mems, place->device, chunk);
    return median(times, SMALL);
}

/* All of the memory through the ring, nothing else. @return GB/s */
static double
stream(struct tp_mem_place place, size_t len, bool write)
{
    struct slot slots[64] = {{.busy = false}};
    unsigned count = tp_mems_chunk_count(mems, place.device);
    size_t bytes = tp_mems_chunk_bytes(mems, place.device);
    tp_ns begin;

    count = TP_MIN(count, TP_ARRAY_LEN(slots));
    for (unsigned i = 0; i < count; i++) {
        slots[i].copy.done = ended;
        slots[i].chunk = tp_mems_chunk_take(mems, place.device);
    }
    begin = tp_clock_ns();
    for (size_t at = 0, i = 0; at < len; at += bytes, i++) {
        struct slot *slot = &slots[i % count];
        size_t piece = TP_MIN(bytes, len - at);

        wait_for(slot);
        slot->busy = true;
        MUST(write ? tp_mems_write(mems, &place, piece, slot->chunk, &slot->copy)
                   : tp_mems_read(mems, &place, piece, slot->chunk, &slot->copy));
        place.offset += piece;
    }
    for (unsigned i = 0; i < count; i++) {
        wait_for(&slots[i]);
        tp_mems_chunk_give(mems, place.device, slots[i].chunk);
    }
    return (double)len / (double)(tp_clock_ns() - begin);
}

/* The floor: one copy of all of it, in memory as good as a chunk. @return GB/s */
static double
at_once(const struct tp_mem_place *place, void *host, size_t len, bool write)
{
    struct slot slot = {.copy.done = ended, .busy = true};
    tp_ns begin = tp_clock_ns();

    MUST(write ? tp_mems_write(mems, place, len, host, &slot.copy)
               : tp_mems_read(mems, place, len, host, &slot.copy));
    wait_for(&slot);
    return (double)len / (double)(tp_clock_ns() - begin);
}

static void
measure_floor(const struct tp_mem_place *place)
{
    const struct tp_device_ops *ops = place->device->ops;
    double rates[2][RUNS];
    void *host = ops->chunk_alloc(place->device, BIG);

    if (host == NULL) {
        return;
    }
    for (unsigned run = 0; run < RUNS; run++) {
        rates[0][run] = at_once(place, host, BIG, false);
        rates[1][run] = at_once(place, host, BIG, true);
    }
    say("read of 256 MiB at once", median(rates[0], RUNS), "GB/s");
    say("write of 256 MiB at once", median(rates[1], RUNS), "GB/s");
    ops->chunk_free(place->device, host, BIG);
}

static double
move(const struct tp_mem_place *to, const struct tp_mem_place *from, size_t len)
{
    struct slot slot = {.copy.done = ended, .busy = true};
    tp_ns begin = tp_clock_ns();

    MUST(tp_mems_move(mems, to, from, len, &slot.copy));
    wait_for(&slot);
    return (double)len / (double)(tp_clock_ns() - begin);
}

static void
measure_copies(uint32_t kind)
{
    double rates[3][RUNS];
    struct tp_mem_place a, b;
    void *from, *to;

    MUST(tp_mems_alloc(mems, kind, BIG, &from));
    MUST(tp_mems_alloc(mems, kind, BIG, &to));
    MUST(tp_mems_find(mems, from, BIG, &a));
    MUST(tp_mems_find(mems, to, BIG, &b));
    say("chunk", (double)tp_mems_chunk_bytes(mems, a.device) / 1024, "KiB");
    say("chunks", tp_mems_chunk_count(mems, a.device), "");
    say("read of 8 bytes", small_copies(&a, false), "us");
    say("write of 8 bytes", small_copies(&a, true), "us");
    for (unsigned run = 0; run < RUNS; run++) {
        rates[0][run] = stream(a, BIG, false);
        rates[1][run] = stream(a, BIG, true);
        rates[2][run] = move(&b, &a, BIG);
    }
    say("read of 256 MiB by chunks", median(rates[0], RUNS), "GB/s");
    say("write of 256 MiB by chunks", median(rates[1], RUNS), "GB/s");
    measure_floor(&a);
    say("copy of 256 MiB inside", median(rates[2], RUNS), "GB/s");
    MUST(tp_mems_free(mems, from));
    MUST(tp_mems_free(mems, to));
}

/* ---- another process ----------------------------------------------------------------- */

static int
run_importer(const char *hex, const char *len_text)
{
    uint8_t blob[TP_MEMS_BLOB_MAX];
    size_t blob_len = strlen(hex) / 2, len = strtoul(len_text, NULL, 10);
    struct tp_mem_place from, to;
    double rates[RUNS];
    tp_ns begin;
    void *own;

    if (blob_len > sizeof(blob) || tp_hex_decode(blob, blob_len, hex) != TELPHER_OK) {
        return 2;
    }
    MUST(tp_mems_alloc(mems, blob[0], len, &own)); /* a blob begins with its kind */
    MUST(tp_mems_find(mems, own, len, &to));
    begin = tp_clock_ns();
    MUST(tp_mems_import(mems, blob, blob_len, len, &from));
    say("import, the first time", (double)(tp_clock_ns() - begin) / 1000, "us");
    tp_mems_close(mems, &from);
    begin = tp_clock_ns();
    MUST(tp_mems_import(mems, blob, blob_len, len, &from));
    say("import, again", (double)(tp_clock_ns() - begin) / 1000, "us");
    if (tp_mems_can_move(&to, &from)) {
        (void)move(&to, &from, len);
        for (unsigned run = 0; run < RUNS; run++) {
            rates[run] = move(&to, &from, len);
        }
        say("copy from another process", median(rates, RUNS), "GB/s");
    }
    tp_mems_close(mems, &from);
    return 0;
}

static void
measure_export(uint32_t kind, const char *program)
{
    char hex[TP_HEX_SIZE(TP_MEMS_BLOB_MAX)], len_text[16];
    uint8_t blob[TP_MEMS_BLOB_MAX];
    struct tp_mem_place place;
    size_t len;
    void *ptr;
    pid_t child;

    MUST(tp_mems_alloc(mems, kind, BIG, &ptr));
    MUST(tp_mems_find(mems, ptr, BIG, &place));
    if (tp_mems_export(mems, &place, blob, &len) == TELPHER_OK) {
        tp_hex_encode(hex, blob, len);
        (void)snprintf(len_text, sizeof(len_text), "%d", BIG);
        child = fork();
        if (child == 0) {
            execl(program, program, "--import", hex, len_text, (char *)NULL);
            _exit(127);
        }
        (void)waitpid(child, NULL, 0);
    }
    MUST(tp_mems_free(mems, ptr));
}

int
main(int argc, char **argv)
{
    const char *chunk = getenv("TELPHER_CHUNK");
    const struct tp_mems_settings settings = {
        .sim = getenv("TELPHER_SIM"),
        .chunk = chunk != NULL ? strtoull(chunk, NULL, 10) : 0,
    };
    const struct tp_mems_params params = {.settings = &settings};
    uint32_t kind = 0;
    tp_ns begin;
    void *ptr;
    int rc = 0;

    MUST(tp_mems_create(&params, &mems, NULL));
    if (argc == 4 && strcmp(argv[1], "--import") == 0) {
        rc = run_importer(argv[2], argv[3]);
        goto end;
    }
    while (kind < TELPHER_MEM_KINDS &&
           (argc != 2 || strcmp(argv[1], kind_names[kind]) != 0)) {
        kind++;
    }
    begin = tp_clock_ns();
    MUST(tp_mems_alloc(mems, kind, 4096, &ptr));
    say("first use, measuring included", (double)(tp_clock_ns() - begin) / 1e6, "ms");
    MUST(tp_mems_free(mems, ptr));
    measure_finds(kind);
    if (kind != TELPHER_MEM_HOST) {
        measure_copies(kind);
    }
    measure_export(kind, argv[0]);
end:
    tp_mems_destroy(mems);
    return rc;
}
