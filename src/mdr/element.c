/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of arrays in this process, and the numbers that stand for their indices. */
#include "mdr/object_int.h"

#include <string.h>

#include "base/alloc.h"

/* Bits of a dimension in the key of a sparse array. */
static uint32_t
bits_of(const telpher_mdr_array *array)
{
    return array->dims == 3 ? 21 : 32;
}

static bool
sparse_key(const telpher_mdr_array *array, telpher_mdr_index index, uint64_t *ret_key)
{
    uint32_t bits = bits_of(array);
    int64_t limit = (int64_t)1 << (bits - 1);
    uint64_t key = 0;

    for (uint32_t d = 0; d < 3; d++) {
        int64_t at = index.at[d];

        if (d >= array->dims) {
            if (at != 0) {
                return false;
            }
            continue;
        }
        if (at < -limit || at >= limit) {
            return false;
        }
        key = key << bits | ((uint64_t)at & (((uint64_t)1 << bits) - 1));
    }
    *ret_key = key;
    return true;
}

bool
tp_mdr_key(const telpher_mdr_array *array, telpher_mdr_index index, uint64_t *ret_key)
{
    uint32_t dims = array->dims != 0 ? array->dims : 1;
    uint64_t key = 0;

    if (array->dims == 0) { /* a group of another number of processes, perhaps */
        *ret_key = (uint64_t)index.at[0];
        return index.at[0] >= 0 && index.at[1] == 0 && index.at[2] == 0;
    }
    if (tp_mdr_is_sparse(array)) {
        return sparse_key(array, index, ret_key);
    }
    for (uint32_t d = 0; d < 3; d++) {
        if (index.at[d] < 0 ||
            (d < dims ? index.at[d] >= array->extent[d] : index.at[d] != 0)) {
            return false;
        }
        if (d < dims) {
            key = key * (uint64_t)array->extent[d] + (uint64_t)index.at[d];
        }
    }
    *ret_key = key;
    return true;
}

telpher_mdr_index
tp_mdr_index_of(const telpher_mdr_array *array, uint64_t key)
{
    telpher_mdr_index index = {{0, 0, 0}};

    for (uint32_t d = array->dims != 0 ? array->dims : 1; d-- > 0;) {
        index.at[d] = (int32_t)(key % (uint64_t)array->extent[d]);
        key /= (uint64_t)array->extent[d];
    }
    return index;
}

void *
telpher_mdr_local(telpher_mdr *mdr, const telpher_mdr_array *array,
                  telpher_mdr_index index)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, array->id);
    struct tp_mdr_element *e = a != NULL && a->created ? tp_mdr_find(a, index) : NULL;

    return e != NULL && !e->moving ? tp_mdr_self(e) : NULL;
}

struct tp_mdr_element *
tp_mdr_element_of_call(telpher_mdr_call *call)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(call->mdr, call->array.id);
    struct tp_mdr_element *e =
        call->self != NULL && a != NULL ? tp_mdr_find(a, call->index) : NULL;

    if (e == NULL || tp_mdr_self(e) != call->self) {
        (void)tp_mdr_error(call->mdr, TELPHER_ERR_INVALID,
                           "the call has no object of an array");
        return NULL;
    }
    return e;
}

struct tp_mdr_element *
tp_mdr_element_add(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                   telpher_mdr_index index)
{
    size_t head = (sizeof(struct tp_mdr_element) + 15) & ~(size_t)15;
    size_t bytes = head + mdr->classes[a->proxy.class_id]->object_size;
    struct tp_mdr_element *e = tp_alloc_aligned(16, bytes, "mdr object");
    uint64_t key = 0;

    if (e == NULL || !tp_mdr_key(&a->proxy, index, &key) ||
        tp_map_put(&a->elements, key, e) != TELPHER_OK) {
        tp_free(e);
        return NULL;
    }
    memset(e, 0, bytes);
    e->array = a;
    e->index = index;
    tp_list_init(&e->leaving);
    tp_list_init(&e->channels);
    tp_list_init(&e->turns);
    tp_list_init(&e->link);
    tp_list_push_back(&a->all, &e->link);
    return e;
}

void
tp_mdr_element_remove(struct tp_mdr_element *e)
{
    uint64_t key = 0;

    (void)tp_mdr_key(&e->array->proxy, e->index, &key);
    (void)tp_map_remove(&e->array->elements, key);
    tp_list_remove(&e->link);
    tp_list_remove(&e->leaving);
    tp_mdr_channels_fini(e);
    tp_mdr_turns_fini(e);
    tp_free(e);
}
