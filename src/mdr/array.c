/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of objects: creation, the map from elements to processes, local elements. */
#include "mdr/object_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/trace/log.h"

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
tp_mdr_is_mobile(const telpher_mdr *mdr, const telpher_mdr_array *array)
{
    return tp_mdr_is_sparse(array) ||
           (array->dims != 0 && mdr->classes[array->class_id]->pup != NULL);
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
    uint64_t linear, total;

    if (array->dims == 0) {
        return tp_mdr_key(array, index, &linear) && linear < mdr->size
                   ? (uint32_t)linear
                   : UINT32_MAX;
    }
    total = array->dims <= 3 ? tp_mdr_total(mdr, array) : 0;
    if (array->dims <= 3 && tp_mdr_is_sparse(array)) {
        return tp_mdr_key(array, index, &linear)
                   ? (uint32_t)(tp_hash_add(TP_HASH_START, &linear, sizeof(linear)) %
                                mdr->size)
                   : UINT32_MAX;
    }
    if (total == 0 || total > TOTAL_MAX || !tp_mdr_key(array, index, &linear) ||
        linear >= total) {
        return UINT32_MAX;
    }
    return rank_of(linear, total, TP_MIN(total, mdr->size));
}

struct tp_mdr_array_state *
tp_mdr_array_of(telpher_mdr *mdr, uint64_t id)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, id);

    if (a != NULL) {
        return a;
    }
    a = tp_zalloc(sizeof(*a), "mdr array");
    if (a == NULL || tp_map_put(&mdr->arrays, id, a) != TELPHER_OK) {
        tp_free(a);
        return NULL;
    }
    a->proxy.id = id;
    tp_list_init(&a->parked);
    tp_list_init(&a->all);
    tp_list_init(&a->homeless);
    tp_list_init(&a->reductions);
    tp_list_init(&a->history);
    return a;
}

/* ---- creation ---- */

static telpher_status
make_objects(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    uint64_t first = 0, end = 0;

    a->total = tp_mdr_total(mdr, &a->proxy);
    a->ranks = (uint32_t)TP_MIN(a->total, mdr->size);
    a->mobile = tp_mdr_is_mobile(mdr, &a->proxy);
    if (mdr->rank < a->ranks) {
        first = mdr->rank * a->total / a->ranks;
        end = (mdr->rank + 1) * a->total / a->ranks;
    }
    if (tp_map_reserve(&a->elements, end - first) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint64_t i = first; i < end; i++) {
        if (tp_mdr_element_add(mdr, a, tp_mdr_index_of(&a->proxy, i)) == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    return TELPHER_OK;
}

/* Runs an entry of all local elements. */
static void
run_all(telpher_mdr *mdr, struct tp_mdr_array_state *a, telpher_mdr_entry_fn run,
        const void *params, size_t params_len)
{
    tp_list_for_each_entry(struct tp_mdr_element, e, &a->all, link) {
        telpher_mdr_call call = tp_mdr_call_of(mdr, e);

        call.params = params;
        call.params_len = params_len;
        if (run != NULL && !e->moving) {
            run(&call);
        }
    }
}

/* At once: a message that arrives now must not overtake them. */
void
tp_mdr_array_ready(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    a->created = true;
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
                    "process %u registered other classes than this one, or in another "
                    "order: register the same in all",
                    create->array.id != 0 ? (uint32_t)(create->array.id >> 16) - 1 : 0);
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
    tp_mdr_array_ready(mdr, a);
}

static telpher_status
check_array(telpher_mdr *mdr, const telpher_mdr_array *array)
{
    if (array->class_id >= mdr->class_count || !mdr->running) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            mdr->running
                                ? "there is no class %u: %u are registered"
                                : "an array of class %u of %u cannot be created "
                                  "before telpher_mdr_run() or after its end",
                            array->class_id, mdr->class_count);
    }
    if (array->dims > 3) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "an array has 1 to 3 dimensions, not %u", array->dims);
    }
    for (uint32_t d = 0; d < array->dims; d++) {
        if (array->extent[d] < 1 && !tp_mdr_is_sparse(array)) {
            return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                                "dimension %u of an array has %d elements", d,
                                array->extent[d]);
        }
    }
    return tp_mdr_total(mdr, array) <= TOTAL_MAX
               ? TELPHER_OK
               : tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                              "an array of %llu elements is too large: 2^40 at most",
                              (unsigned long long)tp_mdr_total(mdr, array));
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
    if (array.extent[0] == 0) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "dimension 0 of an array has 0 elements");
    }
    status = create_array(mdr, &array, params, params_len);
    if (status == TELPHER_OK) {
        *ret_array = array;
    }
    return status;
}

telpher_status
telpher_mdr_sparse_create(telpher_mdr *mdr, uint32_t class_id, uint32_t dims,
                          telpher_mdr_array *ret_array)
{
    telpher_mdr_array array = {.class_id = class_id, .dims = dims};
    telpher_status status;

    if (dims < 1) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "an array has 1 to 3 dimensions, not 0");
    }
    status = create_array(mdr, &array, NULL, 0);
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

static void
report_homeless(telpher_mdr *mdr, const struct tp_mdr_array_state *a)
{
    const telpher_mdr_class *def = mdr->classes[a->proxy.class_id];

    tp_list_for_each_entry(struct tp_mdr_message, m, &a->homeless, link) {
        (void)tp_mdr_error(mdr, TELPHER_ERR_NOT_FOUND,
                           "a message for %s(%d, %d, %d).%s, which was not inserted",
                           def->name, m->header.at[0], m->header.at[1], m->header.at[2],
                           m->header.kind == TP_MDR_INVOKE &&
                                   (m->header.entry & 255u) < def->entry_count
                               ? def->entries[m->header.entry & 255u].name
                               : "a channel");
        tp_error("mdr", "process %u: %s", mdr->rank, mdr->error);
    }
}

void
tp_mdr_arrays_drop_parked(telpher_mdr *mdr)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        struct tp_mdr_array_state *a = value;

        if (mdr->exit_status == TELPHER_ERR_NOT_FOUND) {
            report_homeless(mdr, a);
        }
        tp_mdr_messages_destroy(&a->parked);
        tp_mdr_messages_destroy(&a->homeless);
        tp_mdr_messages_destroy(&a->history);
    }
}

static void
free_array(struct tp_mdr_array_state *a)
{
    tp_mdr_reductions_fini(a);
    tp_mdr_sections_fini(a);
    tp_list_for_each_entry_safe(struct tp_mdr_element, e, &a->all, link) {
        tp_mdr_element_remove(e);
    }
    tp_map_fini(&a->elements);
    tp_map_fini(&a->places);
    tp_free(a->heard_by);
    tp_free(a->loads);
    tp_free(a);
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
    cursor = 0; /* after all `destroy`, which may use other arrays */
    while (tp_map_next(&mdr->arrays, &cursor, NULL, &value)) {
        free_array(value);
    }
    tp_map_fini(&mdr->arrays);
    mdr->last_array = NULL;
}
