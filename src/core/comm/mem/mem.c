/* SPDX-License-Identifier: Apache-2.0 */
/* The memory domains of a job of ranks: creates them, starts copies, progresses
 * them. */
#include "core/comm/mem/mem.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/mapping.h"
#include "base/trace/log.h"
#include "core/comm/mem/mem_int.h"

static bool
is_wanted(const struct tp_mems_settings *settings, const struct tp_device_maker *maker)
{
    const struct tp_config_list *list = &settings->domains;

    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], maker->name) == 0) {
            return true;
        }
    }
    return list->count == 0 || maker->kind == TELPHER_MEM_HOST;
}

/* True for a valid name of a kind, also of one that this build does not contain. */
static bool
is_known(const char *name)
{
    static const char *const kinds[] = {"host", "opencl", "cuda", "sim"};
    bool known = false;

    for (size_t i = 0; i < TP_ARRAY_LEN(kinds); i++) {
        known = known || strcmp(name, kinds[i]) == 0;
    }
    for (size_t i = 0; tp_builtin_devices[i] != NULL; i++) {
        known = known || strcmp(name, tp_builtin_devices[i]->name) == 0;
    }
    return known;
}

static telpher_status
check_names(const struct tp_mems_settings *settings, struct tp_error *err)
{
    for (size_t i = 0; i < settings->domains.count; i++) {
        if (!is_known(settings->domains.items[i])) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "TELPHER_DOMAINS: there is no kind of memory \"%s\"",
                                settings->domains.items[i]);
        }
    }
    return TELPHER_OK;
}

/* ---- create and destroy -------------------------------------------------------------- */

static telpher_status
make_domain(struct tp_mems *mems, const struct tp_device_maker *maker,
            const struct tp_device_params *params, struct tp_error *err)
{
    struct tp_device *device;
    struct tp_error why = {0};
    telpher_status status = maker->create(params, &device, &why);

    tp_assert(maker->kind < TELPHER_MEM_KINDS && mems->domains[maker->kind] == NULL);
    if (status == TELPHER_ERR_UNSUPPORTED) {
        tp_debug("mem", "no %s memory: %s", maker->name, tp_error_text(&why));
        return TELPHER_OK;
    }
    if (status != TELPHER_OK) {
        return tp_error_set(err, status, "%s", tp_error_text(&why));
    }
    mems->domains[maker->kind] = device;
    if (device->ops->find != NULL) {
        mems->finders[mems->finder_count++] = device;
    }
    return TELPHER_OK;
}

static telpher_status
make_domains(struct tp_mems *mems, const struct tp_mems_params *params,
             struct tp_error *err)
{
    static const struct tp_mems_settings defaults;
    const struct tp_mems_settings *settings =
        params->settings != NULL ? params->settings : &defaults;
    struct tp_device_params device = {.local_rank = params->local_rank,
                                      .local_size = params->local_size};
    telpher_status status = check_names(settings, err);

    if (status == TELPHER_OK) {
        status = tp_mapping_read(settings->mapping, params->local_rank, &device.ordinal,
                                 err);
    }
    mems->chunk_bytes = (settings->chunk + 4095) & ~(uint64_t)4095;
    mems->chunk_count = (unsigned)settings->chunks;
    for (size_t i = 0; status == TELPHER_OK && tp_builtin_devices[i] != NULL; i++) {
        const struct tp_device_maker *maker = tp_builtin_devices[i];
        bool is_sim = maker->kind == TELPHER_MEM_SIM && settings->sim != NULL;

        device.options = is_sim ? settings->sim : "";
        if (is_wanted(settings, maker)) {
            status = make_domain(mems, maker, &device, err);
        }
    }
    return status;
}

telpher_status
tp_mems_create(const struct tp_mems_params *params, struct tp_mems **ret_mems,
               struct tp_error *err)
{
    static const struct tp_mems_params defaults;
    struct tp_mems *mems = tp_zalloc(sizeof(*mems), "memory domains");
    telpher_status status;

    if (mems == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the kinds of memory");
    }
    tp_list_init(&mems->rings);
    tp_list_init(&mems->idle_imports);
    status = make_domains(mems, params != NULL ? params : &defaults, err);
    if (status != TELPHER_OK) {
        tp_mems_destroy(mems);
        return status;
    }
    *ret_mems = mems;
    return TELPHER_OK;
}

/* Waits with a limit, so that a copy that never ends does not keep the program from
 * ending. */
static void
wait_for_copies(struct tp_mems *mems)
{
    tp_ns deadline = tp_clock_deadline(10 * TP_CLOCK_S);

    while (mems->pending > 0 && !tp_clock_passed(deadline)) {
        (void)tp_mems_progress(mems);
    }
    if (mems->pending > 0) {
        tp_warn("mem",
                "%zu copies of device memory have not ended after 10 s, so their "
                "memory is not freed: does the device hang?",
                mems->pending);
    }
}

void
tp_mems_destroy(struct tp_mems *mems)
{
    if (mems == NULL) {
        return;
    }
    wait_for_copies(mems);
    tp_mems_imports_destroy(mems);
    while (mems->known_count > 0) {
        tp_mems_known_remove(mems, &mems->known[mems->known_count - 1]);
    }
    tp_free(mems->known);
    tp_mems_rings_destroy(mems);
    for (size_t i = 0; i < TELPHER_MEM_KINDS; i++) {
        tp_device_destroy(mems->domains[i]);
    }
    tp_free(mems);
}

struct tp_device *
tp_mems_device(struct tp_mems *mems, uint32_t kind)
{
    return kind < TELPHER_MEM_KINDS ? mems->domains[kind] : NULL;
}

/* ---- copies -------------------------------------------------------------------------- */

static telpher_status
start(struct tp_mems *mems, const struct tp_mem_place *place, size_t len,
      struct tp_device_copy *copy,
      int32_t (*fn)(struct tp_device *, struct tp_device_copy *))
{
    int32_t error;

    copy->mem = place->mem;
    copy->box = tp_device_range(place->offset, len);
    copy->start_ns = 0;
    copy->end_ns = 0;
    error = fn(place->device, copy);
    if (error != 0) {
        return error;
    }
    place->device->ops->flush(place->device);
    mems->pending++;
    mems->stats.copies++;
    mems->stats.copied_bytes += len;
    return TELPHER_OK;
}

telpher_status
tp_mems_read(struct tp_mems *mems, const struct tp_mem_place *place, size_t len,
             void *host, struct tp_device_copy *copy)
{
    copy->host = host;
    copy->from = NULL;
    return start(mems, place, len, copy, place->device->ops->read);
}

telpher_status
tp_mems_write(struct tp_mems *mems, const struct tp_mem_place *place, size_t len,
              const void *host, struct tp_device_copy *copy)
{
    copy->host = (void *)(uintptr_t)host; /* the copy only reads it */
    copy->from = NULL;
    return start(mems, place, len, copy, place->device->ops->write);
}

bool
tp_mems_can_move(const struct tp_mem_place *dst, const struct tp_mem_place *src)
{
    const struct tp_device_ops *ops;

    if (dst->device == NULL || src->device == NULL ||
        dst->device->ops != src->device->ops || dst->device->ops->move == NULL) {
        return false;
    }
    ops = dst->device->ops;
    return ops->can_move == NULL || ops->can_move(dst->device, dst->mem, src->mem);
}

bool
tp_mems_move_takes_turns(const struct tp_mem_place *dst, const struct tp_mem_place *src)
{
    const struct tp_device_ops *ops = dst->device->ops;

    return ops->move_takes_turns != NULL &&
           ops->move_takes_turns(dst->device, dst->mem, src->mem);
}

telpher_status
tp_mems_move(struct tp_mems *mems, const struct tp_mem_place *dst,
             const struct tp_mem_place *src, size_t len, struct tp_device_copy *copy)
{
    copy->host = NULL;
    copy->from = src->mem;
    copy->from_offset = src->offset;
    return start(mems, dst, len, copy, dst->device->ops->move);
}

unsigned
tp_mems_progress(struct tp_mems *mems)
{
    unsigned count = 0;

    if (mems->pending == 0) {
        return 0;
    }
    for (size_t i = 0; i < TELPHER_MEM_KINDS; i++) {
        struct tp_device *device = mems->domains[i];

        if (device != NULL && device->ops->progress != NULL) {
            unsigned ended = device->ops->progress(device);

            mems->pending -= ended;
            count += ended;
        }
    }
    return count;
}

size_t
tp_mems_pending(const struct tp_mems *mems)
{
    return mems->pending;
}

bool
tp_mems_gives_way(const struct tp_mems *mems)
{
    return mems->on_processor && mems->pending != 0;
}
