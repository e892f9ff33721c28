/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses addresses for shared virtual memory. They must be free here and in the executors,
 * so they lie where neither programs, libraries nor allocators place memory, and are not
 * used again soon: an executor may still hold what was freed. Nothing is reserved; a
 * collision is noticed when the memory is mapped, on either side.
 */
#include "icd/objects/svm_place.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/os/random.h"
#include "icd/icd_int.h"

enum {
    TRIES_PER_RANGE = 6, /**< addresses that servers are asked for */
    TRIES_HERE = 32 /**< tried in this process for each of them, by a system call */
};

/** [bytes] Steps between allocations: whole pages on every machine. */
#define STEP ((uint64_t)64 << 10)
#define HUGE_STEP ((uint64_t)2 << 20) /**< of large ones, for huge pages */

/** Where allocations go. Later ranges serve if the earlier ones are taken. */
struct range {
    uint64_t from, len; /**< [bytes] */
    uint64_t next; /**< address to try; 0: not chosen yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[] = {
    {(uint64_t)32 << 40, (uint64_t)16 << 40, 0},
    {(uint64_t)128 << 30, (uint64_t)64 << 30, 0}, /* 39-bit addresses */
    {(uint64_t)1 << 40, (uint64_t)80 << 40, 0},
};

void *
tp_icd_svm_place_at(void *address, size_t size, int fd)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(address, size, PROT_READ | PROT_WRITE,
                        flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);

    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (memory != address) { /* Linux before 4.17 takes it as a hint */
        munmap(memory, size);
        return NULL;
    }
    return memory;
}

/** The range of TELPHER_SVM_ADDRESS. @return NULL: not set */
static struct range *
chosen_range(void)
{
    static struct range chosen;

    if (chosen.from == 0 && tp_icd_settings.svm_address[0] != '\0') {
        chosen.from = strtoull(tp_icd_settings.svm_address, NULL, 0) / STEP * STEP;
        chosen.len = (uint64_t)1 << 40;
        chosen.next = chosen.from;
    }
    return chosen.from != 0 ? &chosen : NULL;
}

/** Chooses a random first address in a range. */
static uint64_t
start_in(const struct range *range)
{
    uint64_t any;

    if (tp_random_bytes(&any, sizeof(any)) != TELPHER_OK) {
        any = 0;
    }
    return range->from + any % (range->len / 2) / HUGE_STEP * HUGE_STEP;
}

/** @return the next address of a range, aligned for @p size. */
static uint64_t
next_in(struct range *range, uint64_t size, bool moves)
{
    const uint64_t step = size >= HUGE_STEP ? HUGE_STEP : STEP;
    uint64_t address;

    if (range->next == 0 || moves) {
        range->next = start_in(range);
    }
    address = (range->next + step - 1) / step * step;
    if (size > range->len || address - range->from > range->len - size) {
        address = range->from;
    }
    range->next = address + (size + STEP - 1) / STEP * STEP;
    return address;
}

/** ThreadSanitizer's, in processes that have it. It ends them if memory is mapped where it
 *  has no shadow: only the second range and the kernel's choice are left. */
void __tsan_init(void) __attribute__((weak));

/** Chooses a range for an attempt. @return NULL: where the kernel chooses */
static struct range *
range_of(unsigned try)
{
    unsigned i = try / TRIES_PER_RANGE;

    if (__tsan_init != NULL) {
        i = i == 0 ? 1 : TP_ARRAY_LEN(ranges);
    }
    return i < TP_ARRAY_LEN(ranges) ? &ranges[i] : NULL;
}

/** Maps memory in a range, where it is free in this process. Under the lock. */
static void *
place_in(struct range *range, size_t size, bool moves, int fd)
{
    void *memory = NULL;

    for (int i = 0; i < TRIES_HERE && memory == NULL; i++) {
        uint64_t address = next_in(range, size, moves || i != 0);

        memory = tp_icd_svm_place_at((void *)(uintptr_t)address, size, fd);
    }
    return memory;
}

/** Maps memory where the kernel chooses. */
static void *
place_anywhere(size_t size, int fd)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

void *
tp_icd_svm_place(size_t size, unsigned try, int fd)
{
    struct range *range;
    void *memory;

    pthread_mutex_lock(&lock);
    range = chosen_range();
    if (range != NULL) {
        uint64_t address = next_in(range, size, false);

        memory = tp_icd_svm_place_at((void *)(uintptr_t)address, size, fd);
    } else if ((range = range_of(try)) != NULL) {
        memory = place_in(range, size, try % TRIES_PER_RANGE != 0, fd);
    } else {
        memory = place_anywhere(size, fd);
    }
    pthread_mutex_unlock(&lock);
    return memory;
}
