/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared virtual memory: clSVMAlloc, clSVMFree and the list of allocations.
 *
 * An allocation is a buffer whose host memory is mapped at the address that it has in the
 * executors of the context. Its content moves as that of any buffer: at map, unmap and
 * commands, and between servers. Where all executors can share memory with this process,
 * its pages are one file and nothing moves: that is fine-grained.
 */
#include "icd/objects/svm.h"
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/migration/host_view.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/svm_place.h"
#include "icd/session/session_int.h"

#include <CL/cl_ext.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/memfd.h"
#include "base/trace/log.h"

/** Allocations by address, under tp_icd.lock. */
static struct {
    struct _cl_mem **list;
    size_t count, room;
    uint64_t changes;
} allocations;

/* ---- the list ---------------------------------------------------------------------------- */

/** @return number of allocations at or below an address. Under the lock. */
static size_t
count_up_to(const void *ptr)
{
    size_t low = 0, high = allocations.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (allocations.list[middle]->svm <= (const uint8_t *)ptr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct _cl_mem *
tp_icd_svm_find_locked(const struct _cl_context *ctx, const void *ptr, size_t size,
                       size_t *ret_offset)
{
    struct _cl_mem *found = NULL;
    size_t i = count_up_to(ptr), offset = 0;

    if (i != 0) {
        found = allocations.list[i - 1];
        offset = (size_t)((const uint8_t *)ptr - found->svm);
        if (found->ctx != ctx || offset > found->size || size > found->size - offset) {
            found = NULL;
        }
    }
    if (ret_offset != NULL) {
        *ret_offset = offset;
    }
    return found;
}

struct _cl_mem *
tp_icd_svm_find(const struct _cl_context *ctx, const void *ptr, size_t size,
                size_t *ret_offset)
{
    struct _cl_mem *found;

    tp_icd_lock();
    found = tp_icd_svm_find_locked(ctx, ptr, size, ret_offset);
    tp_icd_unlock();
    return found;
}

static bool
enter(struct _cl_mem *mem)
{
    bool fits = true;
    size_t i;

    tp_icd_lock();
    if (allocations.count == allocations.room) {
        size_t room = allocations.room * 2 + 16;
        struct _cl_mem **list =
            tp_realloc_array(allocations.list, room, sizeof(struct _cl_mem *), "svm");

        fits = list != NULL;
        allocations.list = fits ? list : allocations.list;
        allocations.room = fits ? room : allocations.room;
    }
    if (fits) {
        i = count_up_to(mem->svm);
        memmove(&allocations.list[i + 1], &allocations.list[i],
                (allocations.count - i) * sizeof(allocations.list[0]));
        allocations.list[i] = mem;
        allocations.count++;
        allocations.changes++;
    }
    tp_icd_unlock();
    return fits;
}

/** Takes the allocation that begins at @p ptr from the list. @return NULL: none */
static struct _cl_mem *
take(const struct _cl_context *ctx, const void *ptr, bool is_usm)
{
    struct _cl_mem *mem = NULL;
    size_t i;

    tp_icd_lock();
    i = count_up_to(ptr);
    if (i != 0 && allocations.list[i - 1]->svm == ptr &&
        allocations.list[i - 1]->ctx == ctx &&
        (allocations.list[i - 1]->usm != 0) == is_usm) {
        mem = allocations.list[i - 1];
        allocations.count--;
        allocations.changes++;
        memmove(&allocations.list[i - 1], &allocations.list[i],
                (allocations.count - (i - 1)) * sizeof(allocations.list[0]));
    }
    tp_icd_unlock();
    return mem;
}

static bool
is_of(const struct _cl_mem *mem, const struct _cl_context *ctx, uint8_t kinds)
{
    return mem->ctx == ctx && (tp_icd_usm_bit(mem->usm) & kinds) != 0;
}

cl_int
tp_icd_svm_hold_all(const struct _cl_context *ctx, uint8_t kinds,
                    struct _cl_mem ***ret_list, size_t *ret_count)
{
    struct _cl_mem **list = NULL;
    size_t count = 0;
    bool fits;

    tp_icd_lock();
    if (allocations.count != 0) {
        list = tp_alloc_array(allocations.count, sizeof(struct _cl_mem *), "svm");
    }
    for (size_t i = 0; list != NULL && i < allocations.count; i++) {
        struct _cl_mem *mem = allocations.list[i];

        if (is_of(mem, ctx, kinds) && !mem->coherent) {
            tp_icd_hold(&mem->obj);
            list[count++] = mem;
        }
    }
    *ret_list = list;
    *ret_count = count;
    fits = list != NULL || allocations.count == 0;
    tp_icd_unlock();
    return fits ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

uint16_t
tp_icd_svm_ids(const struct _cl_context *ctx, uint8_t kinds, uint64_t *ids,
               uint16_t room)
{
    uint16_t count = 0;

    for (size_t i = 0; i < allocations.count && count < room; i++) {
        if (is_of(allocations.list[i], ctx, kinds)) {
            ids[count++] = allocations.list[i]->obj.id;
        }
    }
    return count;
}

uint64_t
tp_icd_svm_changes(void)
{
    return allocations.changes;
}

/* ---- what the context can do ---------------------------------------------------------------- */

/** An allocation being made. */
struct plan {
    struct _cl_context *ctx;
    const struct tp_icd_svm_want *want;
    size_t size; /**< [bytes] */
    uint32_t sessions; /**< mask of those that have shared virtual memory */
    int chooser; /**< index of the session whose driver chooses the address; -1: none */
    unsigned choosers; /**< number of such sessions */
    bool fine; /**< all devices have fine-grained buffers */
    bool coherent; /**< all sessions share memory with this process */
    bool viewed; /**< program and servers take turns */
    int fd; /**< that memory, or the program's; -1: none */
};

/** Memory of one device needs no other session, where two drivers choose addresses. */
static void
plan_one_session(struct plan *plan, const struct _cl_device_id *dev)
{
    int session = tp_icd_context_device_session(plan->ctx, dev);

    plan->sessions &= session < 0 ? 0 : 1U << session;
    plan->chooser = tp_icd_device_takes_addresses(dev) ? -1 : session;
    plan->choosers = plan->chooser >= 0;
}

static void
plan_sessions(struct plan *plan)
{
    const struct _cl_context *ctx = plan->ctx;

    plan->fine = true;
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        const struct _cl_device_id *dev = ctx->devices[i];
        cl_device_svm_capabilities can = tp_icd_device_svm(dev);
        int session = tp_icd_context_device_session(ctx, dev);
        uint32_t bit = session < 0 ? 0 : 1U << session;

        plan->fine = plan->fine && (can & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
        if (can == 0 || (plan->sessions & bit) != 0) {
            continue;
        }
        plan->sessions |= bit;
        if (!tp_icd_device_takes_addresses(dev)) {
            plan->chooser = session;
            plan->choosers++;
        }
    }
    plan->coherent = plan->fine;
    for (uint32_t i = 0; i < ctx->session_count; i++) {
        plan->coherent = plan->coherent && tp_icd_session_shares(ctx->sessions[i]);
    }
    if (plan->want->usm == CL_MEM_TYPE_DEVICE_INTEL && plan->choosers > 1) {
        plan_one_session(plan, plan->want->device);
    }
}

bool
tp_icd_context_has_svm(const struct _cl_context *ctx)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (tp_icd_device_svm(ctx->devices[i]) != 0) {
            return true;
        }
    }
    return false;
}

static bool
flags_are_valid(cl_svm_mem_flags flags)
{
    const cl_svm_mem_flags access =
        flags & (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY);
    const cl_svm_mem_flags grain =
        flags & (CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS);

    return flags == (access | grain) && (access & (access - 1)) == 0 &&
           grain != CL_MEM_SVM_ATOMICS;
}

static bool
size_is_valid(const struct _cl_context *ctx, size_t size, cl_uint alignment)
{
    if (size == 0 || (alignment & (alignment - 1)) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        const struct _cl_device_id *dev = ctx->devices[i];

        if (size > dev->max_alloc_bytes ||
            alignment >
                tp_icd_device_number(dev, CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, 128)) {
            return false;
        }
    }
    return true;
}

/* ---- one attempt -------------------------------------------------------------------------------- */

/** One SVM_ALLOC request in progress. */
struct ask {
    struct tp_icd_ask base;
    uint64_t address;
};

static void
take_address(struct tp_icd_ask *ask, const void *reply)
{
    const struct tp_wire_svm_alloc_reply *msg = reply;

    tp_container_of(ask, struct ask, base)->address = msg->address;
}

/**
 * Allocates in one session, at *address if that is not 0.
 * @return CL_INVALID_HOST_PTR: that address is taken there
 */
static cl_int
allocate(const struct plan *plan, struct _cl_mem *mem, uint32_t session_index,
         uint64_t *address)
{
    struct ask ask = {.base = {.session = plan->ctx->sessions[session_index],
                               .type = TP_WIRE_SVM_ALLOC,
                               .reply_type = TP_WIRE_SVM_ALLOC_REPLY,
                               .take = take_address}};
    struct tp_wire_svm_alloc msg = {.request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
                                    .mem = mem->obj.id,
                                    .context = plan->ctx->obj.id,
                                    .flags = tp_icd_mem_wire_flags(mem),
                                    .size = plan->size,
                                    .address = *address,
                                    .shared = plan->coherent};
    cl_int err = tp_icd_ask(&ask.base, &msg, plan->coherent ? plan->fd : -1);

    if (err != CL_SUCCESS && err != CL_INVALID_HOST_PTR) {
        tp_info("icd", "server %s allocates no shared virtual memory: CL error %d",
                ask.base.session->server->address, err);
    }
    if (err == CL_SUCCESS) {
        mem->created |= 1U << session_index;
        if (ask.address == 0 || (*address != 0 && ask.address != *address)) {
            err = CL_INVALID_HOST_PTR;
        }
        *address = ask.address;
    }
    return err;
}

/** Allocates in all sessions and here. @return CL_INVALID_HOST_PTR: another address may do */
static cl_int
attempt(const struct plan *plan, struct _cl_mem *mem, unsigned try)
{
    uint64_t address = 0;
    cl_int err = CL_SUCCESS;

    if (plan->chooser >= 0) {
        err = allocate(plan, mem, (uint32_t)plan->chooser, &address);
        if (err == CL_SUCCESS) {
            mem->svm =
                tp_icd_svm_place_at((void *)(uintptr_t)address, plan->size, plan->fd);
        }
    } else {
        mem->svm = tp_icd_svm_place(plan->size, try, plan->fd);
        address = (uintptr_t)mem->svm;
    }
    if (err == CL_SUCCESS && mem->svm == NULL) {
        err = CL_INVALID_HOST_PTR;
    }
    mem->shadow = mem->svm;
    for (uint32_t i = 0; i < plan->ctx->session_count && err == CL_SUCCESS; i++) {
        if ((plan->sessions & 1U << i) != 0 && (int)i != plan->chooser) {
            err = allocate(plan, mem, i, &address);
        }
    }
    return err;
}

/* ---- allocations ----------------------------------------------------------------------------------- */

/** Tries addresses; what was refused is kept until the end, so that none comes twice. */
static struct _cl_mem *
try_addresses(const struct plan *plan)
{
    struct _cl_mem *tried[TP_ICD_SVM_TRIES], *mem = NULL;
    unsigned count = 0;
    cl_int err = CL_INVALID_HOST_PTR;

    while (count < TP_ICD_SVM_TRIES && err == CL_INVALID_HOST_PTR) {
        mem = tp_icd_mem_create(plan->ctx, plan->want->flags, plan->size);
        if (mem == NULL) {
            break;
        }
        mem->usm = plan->want->usm;
        mem->usm_device = plan->want->device;
        tried[count] = mem;
        err = attempt(plan, mem, count++);
    }
    if (err != CL_SUCCESS) {
        tp_info("icd", "no shared virtual memory of %zu bytes: %s", plan->size,
                err == CL_INVALID_HOST_PTR ? "no address is free on all sides"
                                           : "a server refused it");
        mem = NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        if (tried[i] != mem) {
            tp_icd_release(&tried[i]->obj);
        }
    }
    return mem;
}

/** Completes an allocation. @return false: no memory */
static bool
complete(const struct plan *plan, struct _cl_mem *mem)
{
    mem->coherent = plan->coherent;
    if (plan->viewed) {
        if (tp_icd_view_create(mem, plan->fd) != TELPHER_OK) {
            return false;
        }
    } else if (tp_icd_usm_is_remote(mem)) {
        (void)mprotect(mem->svm, mem->size, PROT_NONE); /* the range stays taken */
    }
    if (mem->coherent) {
        atomic_store(&mem->ctx->has_coherent, true);
    }
    if (tp_icd_context_spans(mem->ctx) && !mem->coherent) {
        mem->directory = tp_icd_directory_create(mem->ctx, mem->size);
        if (mem->directory == NULL) {
            return false;
        }
    }
    return enter(mem);
}

struct _cl_mem *
tp_icd_svm_create(struct _cl_context *ctx, const struct tp_icd_svm_want *want)
{
    struct plan plan = {
        .ctx = ctx, .want = want, .size = want->size, .chooser = -1, .fd = -1};
    struct _cl_mem *mem;

    plan_sessions(&plan);
    plan.viewed = want->coherent && !plan.coherent && want->usm != 0 &&
                  tp_icd_settings.usm_shared;
    if (plan.sessions == 0 || plan.choosers > 1 ||
        (want->coherent && !plan.coherent && !plan.viewed) ||
        ((plan.coherent || plan.viewed) &&
         tp_memfd_create("telpher-svm", want->size, &plan.fd) != TELPHER_OK)) {
        return NULL;
    }
    mem = try_addresses(&plan);
    if (mem != NULL && !complete(&plan, mem)) {
        tp_icd_release(&mem->obj);
        mem = NULL;
    }
    if (plan.fd >= 0) {
        close(plan.fd);
    }
    return mem;
}

bool
tp_icd_svm_free(const struct _cl_context *ctx, const void *ptr, bool is_usm)
{
    struct _cl_mem *mem = ctx != NULL ? take(ctx, ptr, is_usm) : NULL;

    if (mem != NULL) {
        tp_icd_release(&mem->obj);
    }
    return mem != NULL;
}

void *CL_API_CALL
tp_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size,
              cl_uint alignment)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    const struct tp_icd_svm_want want = {
        .flags = flags,
        .size = size,
        .coherent = (flags & CL_MEM_SVM_FINE_GRAIN_BUFFER) != 0};
    struct _cl_mem *mem = NULL;

    if (ctx != NULL && flags_are_valid(flags) && size_is_valid(ctx, size, alignment)) {
        mem = tp_icd_svm_create(ctx, &want);
    }
    return mem != NULL ? mem->svm : NULL;
}

void CL_API_CALL
tp_clSVMFree(cl_context context, void *ptr)
{
    (void)tp_icd_svm_free(tp_icd_check(context, TP_ICD_CONTEXT), ptr, false);
}
