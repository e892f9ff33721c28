/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers: stacks, the context switch, and annotations for sanitizers and valgrind. */
#include "base/os/fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#endif
/* A process has 65530 mappings, and a guard takes two. A guard exceeds most arrays
 * that are too large for a stack, because an access beyond it would hit another
 * stack. */
enum { GUARDS_MAX = 8192, GUARD_BYTES = 128 << 10 };

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif

/* ---- annotations for tools ---- */

#ifdef FIBER_ASAN
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);

static void
asan_leave(struct tp_fiber *from, const struct tp_fiber *to, bool for_ever)
{
    __sanitizer_start_switch_fiber(for_ever ? NULL : &from->asan_fake, to->stack,
                                   to->stack_bytes);
}

/* The first switch comes from the thread's own stack, which the tools know. */
static void
asan_come(struct tp_fiber *self)
{
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(self->asan_fake, &bottom, &size);
    if (self->back != NULL && self->back->stack == NULL) {
        self->back->stack = (char *)(uintptr_t)bottom;
        self->back->stack_bytes = size;
    }
}
#else
static void
asan_leave(struct tp_fiber *from, const struct tp_fiber *to, bool for_ever)
{
}

static void
asan_come(struct tp_fiber *self)
{
}
#endif

#ifdef FIBER_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#else
#define __tsan_get_current_fiber() NULL
#define __tsan_create_fiber(flags) NULL
#define __tsan_destroy_fiber(fiber) ((void)(fiber))
#define __tsan_switch_to_fiber(fiber, flags) ((void)(fiber))
#endif

#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(start, end) ((void)(start), (void)(end), 0u)
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

/* ---- the switch ---- */

static void fiber_main(struct tp_fiber *self);

#if defined(__x86_64__) || defined(__aarch64__)
/*
 * tp_fiber_swap(&from, to) pushes the registers that a call must preserve, stores the
 * stack pointer in *from, and pops the same registers from the stack at `to`.
 */
void tp_fiber_swap(void **from, void *to) __attribute__((visibility("hidden")));
void tp_fiber_enter(void) __attribute__((visibility("hidden")));
void tp_fiber_main(struct tp_fiber *self) __attribute__((visibility("hidden")));

void
tp_fiber_main(struct tp_fiber *self)
{
    fiber_main(self);
}
#endif

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".hidden tp_fiber_swap\n.globl tp_fiber_swap\n.type tp_fiber_swap,@function\n"
    "tp_fiber_swap:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n"
    "  pushq %r15\n  subq $8, %rsp\n  stmxcsr (%rsp)\n  fnstcw 4(%rsp)\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  ldmxcsr (%rsp)\n  fldcw 4(%rsp)\n  addq $8, %rsp\n  popq %r15\n"
    "  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size tp_fiber_swap,.-tp_fiber_swap\n"
    ".hidden tp_fiber_enter\n.globl tp_fiber_enter\n.type tp_fiber_enter,@function\n"
    "tp_fiber_enter:\n"
    "  movq %rbx, %rdi\n  xorl %ebp, %ebp\n  call tp_fiber_main\n  ud2\n"
    ".size tp_fiber_enter,.-tp_fiber_enter\n");

static void
prepare(struct tp_fiber *fiber, char *top)
{
    uint64_t *sp = (uint64_t *)(void *)(top - 16);

    *sp = 0; /* tp_fiber_enter starts with a stack pointer that is a multiple of 16 */
    *--sp = (uint64_t)(uintptr_t)tp_fiber_enter;
    *--sp = 0; /* rbp */
    *--sp = (uint64_t)(uintptr_t)fiber; /* rbx */
    sp -= 4; /* r12 to r15 */
    memset(sp, 0, 32);
    *--sp = 0x0000037f00001f80; /* x87 and SSE control words as at process start */
    fiber->sp = sp;
}

static void
jump(struct tp_fiber *from, struct tp_fiber *to)
{
    tp_fiber_swap(&from->sp, to->sp);
}

#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".hidden tp_fiber_swap\n.globl tp_fiber_swap\n.type tp_fiber_swap,%function\n"
    "tp_fiber_swap:\n"
    "  sub sp, sp, #176\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #176\n  ret\n"
    ".size tp_fiber_swap,.-tp_fiber_swap\n"
    ".hidden tp_fiber_enter\n.globl tp_fiber_enter\n.type tp_fiber_enter,%function\n"
    "tp_fiber_enter:\n  mov x0, x19\n  mov x29, #0\n  bl tp_fiber_main\n  brk #1\n"
    ".size tp_fiber_enter,.-tp_fiber_enter\n");

static void
prepare(struct tp_fiber *fiber, char *top)
{
    uint64_t *frame = (uint64_t *)(void *)(top - 176);

    memset(frame, 0, 176);
    frame[0] = (uint64_t)(uintptr_t)fiber; /* x19 */
    frame[11] = (uint64_t)(uintptr_t)tp_fiber_enter; /* x30 */
    fiber->sp = frame;
}

static void
jump(struct tp_fiber *from, struct tp_fiber *to)
{
    tp_fiber_swap(&from->sp, to->sp);
}

#else
#include <ucontext.h>

static void
entry(unsigned high, unsigned low)
{
    fiber_main((struct tp_fiber *)(((uintptr_t)high << 16 << 16) | low));
}

/* The context is stored at the top of its stack. */
static void
prepare(struct tp_fiber *fiber, char *top)
{
    ucontext_t *context =
        (ucontext_t *)((uintptr_t)(top - sizeof(*context)) & ~(uintptr_t)63);
    uintptr_t self = (uintptr_t)fiber;

    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = (size_t)((char *)context - fiber->stack);
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))entry, 2, (unsigned)(self >> 16 >> 16),
                (unsigned)self);
    fiber->sp = context;
}

static void
jump(struct tp_fiber *from, struct tp_fiber *to)
{
    ucontext_t own;

    if (from->back == NULL) {
        from->sp = &own; /* a thread's, until it is switched to again */
    }
    swapcontext(from->sp, to->sp);
}
#endif

/* ---- fibers ---- */

static void
fiber_main(struct tp_fiber *self)
{
    asan_come(self);
    self->run(self->arg);
    asan_leave(self, self->back, true);
    __tsan_switch_to_fiber(self->back->tsan, 0);
    jump(self, self->back);
    tp_assert(false); /* a fiber that has ended is never resumed */
}

void
tp_fiber_switch(struct tp_fiber *from, struct tp_fiber *to)
{
    asan_leave(from, to, false);
    __tsan_switch_to_fiber(to->tsan, 0);
    jump(from, to);
    asan_come(from);
}

void
tp_fiber_init_thread(struct tp_fiber *self)
{
    memset(self, 0, sizeof(*self));
    self->tsan = __tsan_get_current_fiber();
}

void
tp_fiber_init(struct tp_fiber *fiber, const struct tp_stacks *stacks, size_t index,
              void (*run)(void *arg), void *arg)
{
    memset(fiber, 0, sizeof(*fiber));
    fiber->run = run;
    fiber->arg = arg;
    fiber->stack = stacks->base + index * stacks->each + GUARD_BYTES;
    fiber->stack_bytes = stacks->each - GUARD_BYTES;
    fiber->tsan = __tsan_create_fiber(0);
    fiber->valgrind =
        VALGRIND_STACK_REGISTER(fiber->stack, fiber->stack + fiber->stack_bytes);
    prepare(fiber, fiber->stack + fiber->stack_bytes);
}

void
tp_fiber_fini(struct tp_fiber *fiber)
{
    VALGRIND_STACK_DEREGISTER(fiber->valgrind);
    if (fiber->tsan != NULL) {
        __tsan_destroy_fiber(fiber->tsan);
        fiber->tsan = NULL;
    }
}

bool
tp_fiber_owns(const struct tp_fiber *fiber, const void *at)
{
    const char *p = at;

    return p >= fiber->stack && p < fiber->stack + fiber->stack_bytes;
}

bool
tp_fiber_guards(const struct tp_fiber *fiber, const void *at)
{
    uintptr_t p = (uintptr_t)at, stack = (uintptr_t)fiber->stack;

    return p < stack && p >= stack - GUARD_BYTES;
}

/* ---- stacks ---- */

telpher_status
tp_stacks_init(struct tp_stacks *stacks, size_t count, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), total;

    stacks->each = (bytes + page - 1) / page * page + GUARD_BYTES;
    stacks->count = count;
    stacks->base = NULL;
    if (bytes > SIZE_MAX / 2 || __builtin_mul_overflow(stacks->each, count, &total)) {
        return TELPHER_ERR_NO_MEMORY;
    }
    stacks->base = mmap(NULL, total, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks->base == MAP_FAILED) {
        stacks->base = NULL;
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i += count / GUARDS_MAX + 1) {
        if (mprotect(stacks->base + i * stacks->each, GUARD_BYTES, PROT_NONE) != 0) {
            tp_stacks_fini(stacks);
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    return TELPHER_OK;
}

void
tp_stacks_fini(struct tp_stacks *stacks)
{
    if (stacks->base != NULL) {
        munmap(stacks->base, stacks->count * stacks->each);
        stacks->base = NULL;
    }
}
