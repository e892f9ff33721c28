/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins host memory for discrete devices. The driver of a discrete device copies pageable
 * memory through its own staging, several times slower than its link (on an H200: 6
 * instead of 36 GB/s for chunks). A buffer created with CL_MEM_USE_HOST_PTR pins its memory
 * for direct copies while the buffer lives; the buffer has no other use. The executor pins,
 * once per context, the slabs of staging and the memory that the client shares. Memory that
 * cannot be pinned is merely slower.
 *
 * A pin ends with its context or with its region, on different threads. So each pin holds a
 * reference to the mapping, and the last one unmaps the region.
 */
#include "daemon/executor/pinned.h"

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/transfer/shared_memory.h"

/* Pinned memory cannot be swapped, and pinning allocates all pages of a sparse file. */
#define SHARED_MAX (UINT64_C(1) << 30) /* [bytes] of the client's memory */

/** One piece of memory, pinned for one context. */
struct pin {
    struct tp_list link; /* pins->all; pins->lock */
    const struct tp_exec_context *context; /* for comparison only, not held */
    struct tp_exec_region *region; /* held mapped; NULL: a slab */
    uint64_t size;
    cl_mem native;
};

void
tp_exec_pins_init(struct tp_exec *x)
{
    tp_list_init(&x->pins.contexts);
    tp_mutex_init(&x->pins.lock);
    tp_list_init(&x->pins.all);
    tp_list_init(&x->pins.dead);
    x->pins.shared.max = SHARED_MAX;
}

/* True if a device of the context is discrete. */
static bool
is_discrete(const struct tp_exec_context *c)
{
    for (uint32_t i = 0; i < c->device_count; i++) {
        cl_bool unified = CL_TRUE;

        (void)c->obj.x->cl.GetDeviceInfo(c->devices[i].native,
                                         CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(unified),
                                         &unified, NULL);
        if (!unified) {
            return true;
        }
    }
    return false;
}

static bool
pin_memory(struct tp_exec_context *c, void *memory, uint64_t size,
           struct tp_exec_region *region)
{
    struct tp_exec *x = c->obj.x;
    struct pin *p = tp_zalloc(sizeof(*p), "pin");
    cl_int error = CL_OUT_OF_HOST_MEMORY;

    if (p != NULL) {
        p->context = c;
        p->region = region;
        p->size = size;
        p->native = x->cl.CreateBuffer(
            c->native, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, memory, &error);
    }
    if (error != CL_SUCCESS) {
        tp_debug("executor", "%llu bytes of host memory are not pinned: %s",
                 (unsigned long long)size, tp_opencl_error_name(error));
        tp_free(p);
        return false;
    }
    if (region != NULL) {
        tp_exec_region_ref_memory(region);
    }
    tp_mutex_lock(&x->pins.lock);
    tp_list_push_back(&x->pins.all, &p->link);
    tp_mutex_unlock(&x->pins.lock);
    return true;
}

/* Pins a region of the client if SHARED_MAX allows it. */
static void
pin_shared(struct tp_exec_context *c, struct tp_exec_region *r)
{
    struct tp_budget *budget = &c->obj.x->pins.shared;
    uint64_t size;
    void *memory = tp_exec_region_memory(r, &size);

    if (tp_budget_take(budget, size) && !pin_memory(c, memory, size, r)) {
        tp_budget_give(budget, size);
    }
}

static void
pin_slab(void *arg, struct tp_host_staging *staging)
{
    size_t size;
    void *slab = tp_host_staging_slab(staging, &size);

    (void)pin_memory(arg, slab, size, NULL);
}

void
tp_exec_pin_context(struct tp_exec_context *c)
{
    struct tp_exec *x = c->obj.x;
    size_t cursor = 0;
    void *region;

    if (c->native == NULL || !is_discrete(c)) {
        return;
    }
    tp_list_push_back(&x->pins.contexts, &c->pin_link);
    pin_slab(c, x->page);
    pin_slab(c, x->staging);
    pin_slab(c, x->middle);
    tp_exec_transfers_each_staging(x->transfers, pin_slab, c);
    while (tp_map_next(&x->regions, &cursor, NULL, &region)) {
        pin_shared(c, region);
    }
}

void
tp_exec_pin_no_more(struct tp_exec_context *c)
{
    tp_list_remove(&c->pin_link);
}

void
tp_exec_pin_region(struct tp_exec *x, struct tp_exec_region *r)
{
    tp_list_for_each(pos, &x->pins.contexts) {
        pin_shared(tp_list_entry(pos, struct tp_exec_context, pin_link), r);
    }
}

static void
unpin_memory(struct tp_exec *x, struct pin *p)
{
    (void)x->cl.ReleaseMemObject(p->native);
    if (p->region != NULL) {
        tp_budget_give(&x->pins.shared, p->size);
        tp_exec_region_unref_memory(p->region);
    }
    tp_free(p);
}

/* Unpins all memory of a context, or of a region; the other is NULL. */
static void
unpin_matching(struct tp_exec *x, const struct tp_exec_context *c,
               const struct tp_exec_region *r)
{
    struct tp_list over, *link;

    tp_list_init(&over);
    tp_mutex_lock(&x->pins.lock);
    tp_list_for_each_entry_safe(struct pin, p, &x->pins.all, link) {
        if (c != NULL ? p->context == c : p->region == r) {
            tp_list_remove(&p->link);
            tp_list_push_back(&over, &p->link);
        }
    }
    tp_mutex_unlock(&x->pins.lock);
    while ((link = tp_list_pop_front(&over)) != NULL) {
        unpin_memory(x, tp_list_entry(link, struct pin, link));
    }
}

void
tp_exec_unpin_context(struct tp_exec_context *c)
{
    unpin_matching(c->obj.x, c, NULL);
}

void
tp_exec_unpin_region(struct tp_exec *x, const struct tp_exec_region *r)
{
    unpin_matching(x, NULL, r);
}
