/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of ranks that may move. Each rank of the world has a range of addresses that all
 * processes reserve, for its heap and its stack, and a copy of the program that all processes
 * load at the same addresses, because none has randomized ones.
 */
#include "ampi/move/move.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "ampi/process.h"
#include "base/alloc.h"

#define WHY "telpher-ampi: ranks cannot move: "

enum { PAGE = 4096, GUARD = 128 << 10 };
/* Below the addresses that Linux gives libraries and stacks, above those of programs that are
 * not position-independent. */
#define BASE UINT64_C(0x100000000000)
#define END UINT64_C(0x500000000000)

/* A rank's copy of the program. The ranges are its variables, without those that the loader makes
 * read-only after relocation (RELRO). */
struct copy {
    tp_ampi_main main_fn;
    struct tp_ampi_range ranges[8];
    size_t count;
};

static struct copy *copies; /* by rank of the world */

/* ---- start ---- */

static size_t
stack_room(void)
{
    return (tp_ampi.settings.stack_bytes + GUARD + PAGE - 1) / PAGE * PAGE;
}

static bool
find_heap_library(char *dst, size_t size)
{
    Dl_info self;
    const char *slash;

    if (dladdr((const void *)(uintptr_t)tp_ampi_memory_start, &self) == 0) {
        return false;
    }
    slash = strrchr(self.dli_fname, '/');
    (void)snprintf(dst, size, "%.*slibtelpher-ampi-heap.so",
                   slash != NULL ? (int)(slash + 1 - self.dli_fname) : 0,
                   self.dli_fname);
    return access(dst, R_OK) == 0;
}

/* Starts the program again. Returns if that fails. */
static void
start_again(int persona, char **argv)
{
    const char *preload = getenv("LD_PRELOAD");
    char library[1024], program[1024], list[3072];
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (!find_heap_library(library, sizeof(library)) || len <= 0) {
        (void)fprintf(stderr,
                      WHY "libtelpher-ampi-heap.so is not beside the library\n");
        return;
    }
    program[len] = '\0';
    if ((persona & ADDR_NO_RANDOMIZE) != 0 && preload != NULL &&
        strstr(preload, library) != NULL) {
        (void)fprintf(stderr, WHY "the loader does not preload %s\n", library);
        return;
    }
    if (personality((unsigned long)persona | ADDR_NO_RANDOMIZE) < 0 ||
        (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0) {
        (void)fprintf(stderr,
                      WHY "the system does not switch address space randomization off: "
                          "%s; a container needs permission for personality(2)\n",
                      strerror(errno));
        return;
    }
    (void)snprintf(list, sizeof(list), "%s%s%s", library, preload != NULL ? ":" : "",
                   preload != NULL ? preload : "");
    if (setenv("LD_PRELOAD", list, 1) == 0) {
        execv(program, argv);
    }
    (void)fprintf(stderr, WHY "cannot start %s again: %s\n", program, strerror(errno));
}

/* Programs that this one starts need no heaps of ranks. */
static void
restore_preload(void)
{
    const char *list = getenv("LD_PRELOAD");
    const char *rest = list != NULL ? strchr(list, ':') : NULL;

    if (rest != NULL) {
        (void)setenv("LD_PRELOAD", rest + 1, 1);
    } else {
        (void)unsetenv("LD_PRELOAD");
    }
}

static bool
reserve(uint32_t ranks)
{
    size_t each = tp_ampi.settings.rank_memory / PAGE * PAGE;
    uint64_t room = (END - BASE) / ranks / PAGE * PAGE;
    void *at;

    each = TP_MIN(each, (size_t)room);
    if (each < 2 * stack_room()) {
        (void)fprintf(
            stderr,
            WHY "TELPHER_AMPI_RANK_MEMORY, %zu bytes, is less than two stacks\n", each);
        return false;
    }
    at = mmap((void *)(uintptr_t)BASE, each * ranks, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (void *)(uintptr_t)BASE) {
        (void)fprintf(stderr,
                      WHY
                      "cannot reserve %zu bytes of addresses for each of %u ranks: %s; "
                      "set TELPHER_AMPI_RANK_MEMORY to less\n",
                      each, ranks, strerror(errno));
        return false;
    }
    tp_ampi.heaps->base = BASE;
    tp_ampi.heaps->each = each;
    tp_ampi.heaps->count = ranks;
    return true;
}

/* The C library takes memory for these once, in whichever rank is the first. */
static void
settle_libc(void)
{
    static char in[BUFSIZ], out[BUFSIZ];

    (void)setvbuf(stdin, in, isatty(0) ? _IOLBF : _IOFBF, sizeof(in));
    (void)setvbuf(stdout, out, isatty(1) ? _IOLBF : _IOFBF, sizeof(out));
    tzset();
}

/* ---- the loader's list ---- */

/* Libraries whose allocations belong to the process, even if a rank calls them. */
static bool
is_other(const char *name)
{
    return strstr(name, "/ld-linux") != NULL || strstr(name, "/libgfortran.") != NULL ||
           strstr(name, "/libgomp.") != NULL;
}

static int
add_other(struct dl_phdr_info *info, size_t size, void *user)
{
    struct tp_ampi_heaps *heaps = user;

    (void)size;
    for (unsigned i = 0; is_other(info->dlpi_name) && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 &&
            heaps->other_count < TP_ARRAY_LEN(heaps->others)) {
            heaps->others[heaps->other_count++] =
                (struct tp_ampi_range){info->dlpi_addr + part->p_vaddr, part->p_memsz};
        }
    }
    return 0;
}

static int
hash_library(struct dl_phdr_info *info, size_t size, void *user)
{
    uint64_t *hash = user;

    (void)size;
    if (strstr(info->dlpi_name, "vdso") == NULL) {
        *hash = (*hash ^ info->dlpi_addr ^ info->dlpi_phnum) * UINT64_C(0x100000001b3);
    }
    return 0;
}

static uint64_t layout;

uint64_t
tp_ampi_memory_layout(void)
{
    return layout;
}

/* ---- copies of the program ---- */

struct search {
    uintptr_t address;
    struct copy *copy;
};

static void
add_range(struct copy *copy, uintptr_t from, uintptr_t to)
{
    if (from < to && copy->count < TP_ARRAY_LEN(copy->ranges)) {
        copy->ranges[copy->count++] = (struct tp_ampi_range){from, to - from};
    }
}

/* Variables are in the writable parts, without what is read-only after relocation. */
static void
add_variables(struct copy *copy, const struct dl_phdr_info *info)
{
    uintptr_t fixed = 0, fixed_end = 0;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_GNU_RELRO) {
            fixed = (info->dlpi_addr + part->p_vaddr) & ~(uintptr_t)(PAGE - 1);
            fixed_end = (info->dlpi_addr + part->p_vaddr + part->p_memsz) &
                        ~(uintptr_t)(PAGE - 1);
        }
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + part->p_vaddr, end = at + part->p_memsz;

        if (part->p_type != PT_LOAD || (part->p_flags & PF_W) == 0) {
            continue;
        }
        add_range(copy, at, TP_MIN(end, TP_MAX(fixed, at)));
        add_range(copy, TP_MAX(at, TP_MIN(fixed_end, end)), end);
    }
}

static int
find_copy(struct dl_phdr_info *info, size_t size, void *user)
{
    const struct search *search = user;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD &&
            search->address - info->dlpi_addr - part->p_vaddr < part->p_memsz) {
            add_variables(search->copy, info);
            return 1;
        }
    }
    return 0;
}

/* Constructors of the copy take memory from its rank's heap. */
static bool
load_copy(uint32_t rank)
{
    struct search search = {.copy = &copies[rank]};
    struct tp_ampi_heap *heap =
        tp_ampi_heap_create((void *)(uintptr_t)(BASE + rank * tp_ampi.heaps->each),
                            tp_ampi.heaps->each - stack_room());

    (void)tp_ampi_heap_use(heap);
    copies[rank].main_fn = tp_ampi_private_copy(rank);
    (void)tp_ampi_heap_use(NULL);
    search.address = (uintptr_t)copies[rank].main_fn;
    return copies[rank].main_fn != NULL && dl_iterate_phdr(find_copy, &search) != 0;
}

bool
tp_ampi_memory_start(uint32_t ranks, char **argv)
{
    int persona = personality(0xffffffff);

#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) ||                           \
    defined(__SANITIZE_THREAD__)
    (void)fprintf(stderr, WHY "only on x86-64, and not with a sanitizer's malloc()\n");
    return false;
#endif
    tp_ampi.heaps = dlsym(RTLD_DEFAULT, "telpher_ampi_heaps");
    if (persona < 0 || (persona & ADDR_NO_RANDOMIZE) == 0 || tp_ampi.heaps == NULL) {
        start_again(persona, argv);
        return false;
    }
    restore_preload();
    settle_libc();
    tp_ampi.heap_now = tp_ampi.heaps->current();
    (void)dl_iterate_phdr(add_other, tp_ampi.heaps);
    copies = tp_alloc_array(ranks, sizeof(*copies), "copies of the program");
    if (copies == NULL || !reserve(ranks) || !tp_ampi_private_check()) {
        return false;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (!load_copy(rank)) {
            return false;
        }
    }
    layout = tp_ampi.heaps->each;
    (void)dl_iterate_phdr(hash_library, &layout);
    tp_ampi.movable = true;
    return true;
}

/* ---- one rank ---- */

struct tp_ampi_heap *
tp_ampi_memory_heap(uint32_t rank)
{
    return (struct tp_ampi_heap *)(uintptr_t)(BASE + rank * tp_ampi.heaps->each);
}

char *
tp_ampi_memory_stack(uint32_t rank, size_t *ret_bytes)
{
    *ret_bytes = stack_room();
    return (char *)(uintptr_t)(BASE + (rank + 1) * tp_ampi.heaps->each) - stack_room();
}

void
tp_ampi_memory_guard(uint32_t rank)
{
    size_t bytes;

    (void)mprotect(tp_ampi_memory_stack(rank, &bytes), GUARD, PROT_NONE);
}

tp_ampi_main
tp_ampi_memory_main(uint32_t rank)
{
    return copies[rank].main_fn;
}

void
tp_ampi_memory_image(struct tp_ampi_rank *rank, size_t max, struct tp_ampi_image *ret)
{
    const struct tp_fiber *fiber = &rank->light->fiber;
    const struct copy *copy = &copies[rank->world];
    char *end = fiber->stack + fiber->stack_bytes;
    /* calls that have not returned may use 128 bytes below the stack pointer */
    char *sp = (char *)fiber->sp - 128;

    ret->rank = (uintptr_t)rank;
    ret->count = copy->count + 1;
    memcpy(ret->ranges, copy->ranges, copy->count * sizeof(ret->ranges[0]));
    ret->ranges[copy->count] =
        (struct tp_ampi_range){(uintptr_t)sp, (uint64_t)(end - sp)};
    ret->count +=
        tp_ampi_heap_ranges(rank->heap, &ret->ranges[ret->count], max - ret->count);
}

bool
tp_ampi_memory_holds(uint32_t rank, const struct tp_ampi_image *image)
{
    const struct copy *copy = &copies[rank];
    uint64_t each = tp_ampi.heaps->each, base = BASE + rank * each;
    bool sound = image->count <= TP_AMPI_RANGES_MAX && image->rank - base < each;

    for (uint64_t i = 0; sound && i < image->count; i++) {
        const struct tp_ampi_range *r = &image->ranges[i];

        sound = r->at - base < each && r->len <= each - (r->at - base);
        for (size_t k = 0; !sound && k < copy->count; k++) {
            sound = r->at == copy->ranges[k].at && r->len == copy->ranges[k].len;
        }
    }
    return sound;
}

void
tp_ampi_memory_drop(uint32_t rank)
{
    char *base = (char *)(uintptr_t)(BASE + rank * tp_ampi.heaps->each);

    (void)madvise(base, tp_ampi.heaps->each, MADV_DONTNEED);
}
