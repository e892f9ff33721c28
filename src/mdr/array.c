/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of objects: creation, the map from elements to processes, local elements. */
#include "mdr/mdr_int.h"

#include <string.h>

#include "base/alloc.h"

#define TOTAL_MAX ((uint64_t)1 << 40)

uint64_t
tp_mdr_total(const telpher_mdr *mdr, const telpher_mdr_array *array)
{
    uint64_t total = 1;

    if (array->dims == 0) {
        return mdr->size;
    }
    for (uint32_t d = 0; d < array->dims && total != 0; d++) {
        uint64_t extent = array->extent[d] > 0 ? (uint64_t)array->extent[d] : 0;

        total =
            extent == 0 || total <= TOTAL_MAX / extent ? total * extent : TOTAL_MAX + 1;
    }
    return total;
}

bool
tp_mdr_linear(const telpher_mdr_array *array, telpher_mdr_index index,
              uint64_t *ret_linear)
{
    uint32_t dims = array->dims != 0 ? array->dims : 1;
    uint64_t linear = 0;

    for (uint32_t d = 0; d < 3; d++) {
        if (index.at[d] < 0 ||
            (d < dims ? index.at[d] >= array->extent[d] : index.at[d] != 0)) {
            return false;
        }
        if (d < dims) {
            linear = linear * (uint64_t)array->extent[d] + (uint64_t)index.at[d];
        }
    }
    *ret_linear = linear;
    return true;
}

telpher_mdr_index
tp_mdr_index_of(const telpher_mdr_array *array, uint64_t linear)
{
    telpher_mdr_index index = {{0, 0, 0}};

    for (uint32_t d = array->dims != 0 ? array->dims : 1; d-- > 0;) {
        index.at[d] = (int32_t)(linear % (uint64_t)array->extent[d]);
        linear /= (uint64_t)array->extent[d];
    }
    return index;
}

/* Element @c linear of @c total lies in the block of this rank: rank r has the elements from
 * r * total / ranks to (r + 1) * total / ranks. */
static uint32_t
rank_of(uint64_t linear, uint64_t total, uint64_t ranks)
{
    return (uint32_t)(((linear + 1) * ranks - 1) / total);
}

uint32_t
telpher_mdr_home(const telpher_mdr *mdr, const telpher_mdr_array *array,
                 telpher_mdr_index index)
{
    uint64_t linear, total = array->dims <= 3 ? tp_mdr_total(mdr, array) : 0;

    if (total == 0 || total > TOTAL_MAX || !tp_mdr_linear(array, index, &linear) ||
        linear >= total) {
        return UINT32_MAX;
    }
    return rank_of(linear, total, TP_MIN(total, mdr->size));
}

struct tp_mdr_array_state *
tp_mdr_array_of(telpher_mdr *mdr, uint64_t id)
{
    struct tp_mdr_array_state *a = tp_map_get(&mdr->arrays, id);

    if (a != NULL) {
        return a;
    }
    a = tp_zalloc(sizeof(*a), "mdr array");
    if (a == NULL || tp_map_put(&mdr->arrays, id, a) != TELPHER_OK) {
        tp_free(a);
        return NULL;
    }
    tp_list_init(&a->parked);
    tp_list_init(&a->reductions);
    return a;
}

void *
telpher_mdr_local(telpher_mdr *mdr, const telpher_mdr_array *array,
                  telpher_mdr_index index)
{
    struct tp_mdr_array_state *a = tp_map_get(&mdr->arrays, array->id);
    uint64_t linear;

    if (a == NULL || !a->created || !tp_mdr_linear(&a->proxy, index, &linear) ||
        linear < a->first || linear - a->first >= a->count) {
        return NULL;
    }
    return a->objects + (linear - a->first) * a->stride;
}

/* ---- creation ---- */

static telpher_status
make_objects(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    const telpher_mdr_class *def = mdr->classes[a->proxy.class_id];

    a->total = tp_mdr_total(mdr, &a->proxy);
    a->ranks = (uint32_t)TP_MIN(a->total, mdr->size);
    if (mdr->rank < a->ranks) {
        a->first = mdr->rank * a->total / a->ranks;
        a->count = (mdr->rank + 1) * a->total / a->ranks - a->first;
    }
    a->stride = (TP_MAX(def->object_size, 1) + 15) & ~(size_t)15;
    if (a->count == 0) {
        return TELPHER_OK;
    }
    a->objects = tp_alloc_array(a->count, a->stride, "mdr objects");
    a->contributed = tp_alloc_array(a->count, sizeof(*a->contributed), "mdr objects");
    if (a->objects == NULL || a->contributed == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memset(a->objects, 0, a->count * a->stride);
    memset(a->contributed, 0, a->count * sizeof(*a->contributed));
    return TELPHER_OK;
}

/* Runs an entry of all local elements. */
static void
run_all(telpher_mdr *mdr, struct tp_mdr_array_state *a, telpher_mdr_entry_fn run,
        const void *params, size_t params_len)
{
    telpher_mdr_call call = {
        .mdr = mdr, .array = a->proxy, .params = params, .params_len = params_len};

    for (uint64_t i = 0; i < a->count && run != NULL; i++) {
        call.self = a->objects + i * a->stride;
        call.index = tp_mdr_index_of(&a->proxy, a->first + i);
        run(&call);
    }
}

/* At once: a message that arrives now must not overtake them. */
static void
deliver_parked(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    tp_list_for_each_entry_safe(struct tp_mdr_message, m, &a->parked, link) {
        if (mdr->exiting) {
            return;
        }
        tp_list_remove(&m->link);
        tp_mdr_deliver(mdr, m);
    }
}

void
tp_mdr_array_receive(telpher_mdr *mdr, const struct tp_mdr_create *create,
                     const void *params, size_t params_len)
{
    struct tp_mdr_array_state *a;

    if (create->classes_hash != mdr->classes_hash) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "the processes registered different classes, or in another order");
        return;
    }
    a = tp_mdr_array_of(mdr, create->array.id);
    if (a != NULL) {
        a->proxy = create->array;
    }
    if (a == NULL || make_objects(mdr, a) != TELPHER_OK) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for objects of class %s",
                    mdr->classes[create->array.class_id]->name);
        return;
    }
    a->created = true;
    run_all(mdr, a, mdr->classes[a->proxy.class_id]->create, params, params_len);
    deliver_parked(mdr, a);
}

static telpher_status
check_array(telpher_mdr *mdr, const telpher_mdr_array *array)
{
    if (array->class_id >= mdr->class_count || !mdr->running) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            mdr->running ? "there is no such class"
                                         : "arrays are created while the runtime runs");
    }
    if (array->dims > 3) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "an array has 1 to 3 dimensions, not %u", array->dims);
    }
    for (uint32_t d = 0; d < array->dims; d++) {
        if (array->extent[d] < 1) {
            return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                                "dimension %u of an array has %d elements", d,
                                array->extent[d]);
        }
    }
    return tp_mdr_total(mdr, array) <= TOTAL_MAX
               ? TELPHER_OK
               : tp_mdr_error(mdr, TELPHER_ERR_INVALID, "more than 2^40 elements");
}

static telpher_status
create_array(telpher_mdr *mdr, telpher_mdr_array *array, const void *params,
             size_t params_len)
{
    struct tp_mdr_header h = {.kind = TP_MDR_CREATE, .root = mdr->rank};
    struct tp_mdr_create head = {.classes_hash = mdr->classes_hash};
    telpher_status status = check_array(mdr, array);

    if (status != TELPHER_OK) {
        return status;
    }
    array->id = (uint64_t)(mdr->rank + 1) << 40 | ++mdr->array_counter;
    h.id = array->id;
    head.array = *array;
    status = tp_mdr_forward(mdr, &h, &head, sizeof(head), params, params_len);
    if (status != TELPHER_OK) {
        return status;
    }
    return tp_mdr_send(mdr, mdr->rank, &h, &head, sizeof(head), params, params_len);
}

telpher_status
telpher_mdr_array_create(telpher_mdr *mdr, uint32_t class_id, uint32_t dims,
                         const int32_t *extent, const void *params, size_t params_len,
                         telpher_mdr_array *ret_array)
{
    telpher_mdr_array array = {.class_id = class_id, .dims = dims};
    telpher_status status;

    if (dims < 1 || dims > 3) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "an array has 1 to 3 dimensions, not %u", dims);
    }
    memcpy(array.extent, extent, dims * sizeof(*extent));
    status = create_array(mdr, &array, params, params_len);
    if (status == TELPHER_OK) {
        *ret_array = array;
    }
    return status;
}

telpher_status
telpher_mdr_group_create(telpher_mdr *mdr, uint32_t class_id, const void *params,
                         size_t params_len, telpher_mdr_array *ret_group)
{
    telpher_mdr_array group = {.class_id = class_id,
                               .extent = {(int32_t)mdr->size, 0, 0}};
    telpher_status status = create_array(mdr, &group, params, params_len);

    if (status == TELPHER_OK) {
        *ret_group = group;
    }
    return status;
}

void
tp_mdr_arrays_drop_parked(telpher_mdr *mdr)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        tp_mdr_messages_destroy(&((struct tp_mdr_array_state *)value)->parked);
    }
}

void
tp_mdr_arrays_fini(telpher_mdr *mdr)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        struct tp_mdr_array_state *a = value;

        if (a->created) {
            run_all(mdr, a, mdr->classes[a->proxy.class_id]->destroy, NULL, 0);
        }
    }
    cursor = 0; /* `destroy` may look at objects of other arrays */
    while (tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        struct tp_mdr_array_state *a = value;

        tp_mdr_reductions_fini(a);
        tp_free(a->objects);
        tp_free(a->contributed);
        tp_free(a);
    }
    tp_map_fini(&mdr->arrays);
}
