/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a library such as OpenCL's has allocated for the program, reported at any time and by
 * any thread. Each context brings its known memory up to date when it next looks an address up.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/comm/mem/mem_int.h"

struct allocated {
    void *context, *device, *ptr;
    size_t bytes;
    uint64_t birth; /**< number of its change */
    uint32_t kind;
};

_Atomic uint64_t tp_mems_allocated_changes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tp_map all; /* by address; lock */

static uint64_t
count_change(void)
{
    return atomic_fetch_add_explicit(&tp_mems_allocated_changes, 1,
                                     memory_order_relaxed) +
           1;
}

telpher_status
tp_mems_allocated_add(uint32_t kind, void *context, void *device, void *ptr,
                      size_t bytes)
{
    struct allocated *memory;
    telpher_status status;

    if (ptr == NULL || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)ptr) {
        return TELPHER_ERR_INVALID;
    }
    memory = tp_malloc(sizeof(*memory), "allocated memory");
    if (memory == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *memory = (struct allocated){context, device, ptr, bytes, 0, kind};
    (void)pthread_mutex_lock(&lock);
    status = tp_map_put(&all, (uintptr_t)ptr, memory);
    if (status == TELPHER_OK) {
        memory->birth = count_change();
    }
    (void)pthread_mutex_unlock(&lock);
    if (status != TELPHER_OK) {
        tp_free(memory);
    }
    return status;
}

telpher_status
tp_mems_allocated_remove(void *ptr)
{
    struct allocated *memory;

    (void)pthread_mutex_lock(&lock);
    memory = tp_map_remove(&all, (uintptr_t)ptr);
    if (memory != NULL) {
        (void)count_change();
    }
    if (tp_map_count(&all) == 0) {
        tp_map_fini(&all);
        tp_map_init(&all);
    }
    (void)pthread_mutex_unlock(&lock);
    tp_free(memory);
    return memory != NULL ? TELPHER_OK : TELPHER_ERR_NOT_FOUND;
}

/* ---- in a context: the lock is held, so that no driver frees what is adopted ---- */

static void
forget_freed(struct tp_mems *mems)
{
    for (size_t i = mems->known_count; i-- > 0;) {
        struct tp_mems_known *known = &mems->known[i];
        const struct allocated *memory =
            known->birth != 0 ? tp_map_get(&all, (uintptr_t)known->memory.base) : NULL;

        if (known->birth != 0 && (memory == NULL || memory->birth != known->birth)) {
            tp_mems_known_remove(mems, known);
        }
    }
}

static telpher_status
learn(struct tp_mems *mems, const struct allocated *memory)
{
    struct tp_device *device = tp_mems_device(mems, memory->kind);
    struct tp_device_memory adopted;
    telpher_status status;

    if (device == NULL || device->ops->adopt_allocated == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status = device->ops->adopt_allocated(device, memory->context, memory->device,
                                          memory->ptr, memory->bytes, &adopted);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_mems_known_add(mems, &adopted, false);
    if (status != TELPHER_OK) {
        device->ops->release(device, adopted.mem);
        return status;
    }
    tp_mems_known_at(mems, memory->ptr)->birth = memory->birth;
    return TELPHER_OK;
}

void
tp_mems_allocated_apply(struct tp_mems *mems)
{
    size_t cursor = 0;
    void *value;

    (void)pthread_mutex_lock(&lock);
    forget_freed(mems);
    while (tp_map_next(&all, &cursor, NULL, &value)) {
        const struct allocated *memory = value;
        telpher_status status =
            memory->birth > mems->seen ? learn(mems, memory) : TELPHER_OK;

        /* the program may have registered it before it was reported */
        if (status != TELPHER_OK && status != TELPHER_ERR_EXISTS) {
            tp_warn("mem",
                    "%zu bytes of a device at %p cannot be used in transfers: %s. They "
                    "are taken for host memory",
                    memory->bytes, memory->ptr, telpher_status_text(status));
        }
    }
    mems->seen = atomic_load_explicit(&tp_mems_allocated_changes, memory_order_relaxed);
    (void)pthread_mutex_unlock(&lock);
}
