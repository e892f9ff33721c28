/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that stay with the workers, as their parents have them. All parents know the same. */
#include <string.h>

#include "base/alloc.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

struct telpher_array {
    struct tp_list link; /* in tp_group.arrays */
    struct tp_offload_array is;
};

/* With the lock held: the group whose workers have @p array, or NULL. What was freed is no
 * longer looked at. */
static struct tp_group *
owner(const telpher_array *array)
{
    tp_list_for_each(link, &tp_groups)
    {
        struct tp_group *g = tp_list_entry(link, struct tp_group, link);

        tp_list_for_each(at, &g->arrays)
        {
            if (tp_list_entry(at, struct telpher_array, link) == array) {
                return g;
            }
        }
    }
    return NULL;
}

static void
drop(telpher_array *array)
{
    tp_list_remove(&array->link);
    tp_free(array);
}

void
tp_array_drop_all(struct tp_group *g)
{
    tp_list_for_each_safe(link, &g->arrays)
    {
        drop(tp_list_entry(link, struct telpher_array, link));
    }
}

telpher_status
tp_array_args(const struct tp_group *g, const telpher_launch *l,
              const struct tp_offload_signature *sig, void **args, uint64_t *ids,
              struct tp_error *err)
{
    for (uint32_t i = 0; i < sig->count; i++) {
        const telpher_array *array;

        args[i] = l->args[i];
        if (sig->args[i].code != 'A') {
            continue;
        }
        memcpy(&array, l->args[i], sizeof(array));
        if (owner(array) != g) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "kernel %s: argument %u is no array of these workers: "
                                "freed, or made for others",
                                l->name, i + 1);
        }
        ids[i] = array->is.id;
        args[i] = &ids[i];
    }
    return TELPHER_OK;
}

static telpher_status
check_size(uint64_t rows, uint64_t row_bytes, struct tp_error *err)
{
    if (row_bytes != 0 && rows > TP_OFFLOAD_ARRAY_MAX / row_bytes) {
        return tp_error_set(err, TELPHER_ERR_RANGE,
                            "no array has %llu rows of %llu bytes",
                            (unsigned long long)rows, (unsigned long long)row_bytes);
    }
    return TELPHER_OK;
}

/* With the lock held: all parents do, the root sends. */
static telpher_status
order(struct tp_group *g, int root, uint32_t flags, const telpher_array *array,
      MPIX_Kernel_request *ret_request, struct tp_error *err)
{
    return tp_order(g, root, flags, &array->is, sizeof(array->is), ret_request, err);
}

/* Rows go only to workers that are there: all parents find out alike. */
static telpher_status
check_there(struct tp_group *g, struct tp_error *err)
{
    return tp_group_ended(g)
               ? tp_error_set(err, TELPHER_ERR_PEER_LOST,
                              "the workers were told to end (kernel \"\")")
               : TELPHER_OK;
}

/* Waits until all workers have their rows, or one has not. */
static telpher_status
await_rows(struct tp_group *g, telpher_array *array, MPIX_Kernel_request request,
           struct tp_error *err)
{
    MPIX_Kernel_status result = {0};
    telpher_status status = tp_request_await(&request, &result);

    if (status != TELPHER_OK) {
        return tp_error_set(err, status, "an array could not be made: %s",
                            telpher_status_text(status));
    }
    if (result.result == 0) {
        return TELPHER_OK;
    }
    tp_mutex_lock(&tp_offload_lock);
    (void)order(g, 0, TP_OFFLOAD_FREE, array, NULL, err); /* those that have theirs */
    tp_mutex_unlock(&tp_offload_lock);
    return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "worker %d: %s", result.rank,
                        result.text);
}

telpher_status
telpher_array_create(uint64_t rows, uint64_t row_bytes, int root, MPI_Comm comm,
                     MPI_Comm intercomm, telpher_array **ret_array, telpher_error *err)
{
    struct tp_error why = {0};
    MPIX_Kernel_request request = NULL;
    telpher_status status = check_size(rows, row_bytes, &why);
    struct tp_group *g =
        status == TELPHER_OK ? tp_group_lock(intercomm, root, comm, &why) : NULL;
    telpher_array *array;

    if (g == NULL) {
        return tp_public_error(err, &why);
    }
    tp_mutex_unlock(&tp_offload_lock);
    if (check_there(g, &why) != TELPHER_OK) {
        return tp_public_error(err, &why);
    }
    array = tp_zalloc(sizeof(*array), "array");
    if (array == NULL) {
        tp_world_abort("out of memory"); /* the other parents would have it */
    }
    tp_mutex_lock(&tp_offload_lock);
    array->is = (struct tp_offload_array){g->next, rows, row_bytes, 0};
    tp_list_push_back(&g->arrays, &array->link);
    status = order(g, root, TP_OFFLOAD_CREATE | TP_OFFLOAD_DONE, array, &request, &why);
    tp_mutex_unlock(&tp_offload_lock);
    if (status == TELPHER_OK) {
        status = await_rows(g, array, request, &why);
    }
    if (status != TELPHER_OK) {
        tp_mutex_lock(&tp_offload_lock);
        drop(array);
        tp_mutex_unlock(&tp_offload_lock);
        return tp_public_error(err, &why);
    }
    *ret_array = array;
    return TELPHER_OK;
}

/* While rows travel: what is queued before them leaves, and an end is noticed. */
static telpher_status
progress(void *arg)
{
    struct tp_group *g = arg;
    telpher_status status;

    tp_mutex_lock(&tp_offload_lock);
    tp_send_progress(g);
    status = g->lost ? g->status : TELPHER_OK;
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}

/* The group whose workers have @p array, and still are there. NULL: with words. */
static struct tp_group *
find(const telpher_array *array, struct tp_error *err)
{
    struct tp_group *g;

    tp_mutex_lock(&tp_offload_lock);
    g = owner(array);
    tp_mutex_unlock(&tp_offload_lock);
    if (g == NULL) {
        (void)tp_error_set(err, TELPHER_ERR_INVALID,
                           "no such array: it was freed, or its workers have ended");
        return NULL;
    }
    return check_there(g, err) == TELPHER_OK ? g : NULL;
}

static telpher_status
move(const telpher_array *array, void *block, bool puts, telpher_error *err)
{
    struct tp_error why = {0};
    struct tp_group *g = find(array, &why);
    struct tp_transfer t = {
        .block = block, .sends = puts, .progress = progress, .arg = g};
    telpher_status status;

    if (g == NULL) {
        return tp_public_error(err, &why);
    }
    t.inter = g->control;
    t.rows = array->is.rows;
    t.row_bytes = array->is.row_bytes;
    tp_mutex_lock(&tp_offload_lock);
    status = order(g, 0, puts ? TP_OFFLOAD_PUT : TP_OFFLOAD_GET, array, NULL, &why);
    tp_mutex_unlock(&tp_offload_lock);
    if (status == TELPHER_OK) {
        status = tp_transfer(&t);
        if (status != TELPHER_OK) {
            (void)tp_error_set(&why, status, "the workers are lost");
        }
    }
    return tp_public_error(err, &why);
}

telpher_status
telpher_array_put(const telpher_array *array, const void *block, telpher_error *err)
{
    /* MPI takes what is not const where it only reads */
    return move(array, (void *)(uintptr_t)block, true, err);
}

telpher_status
telpher_array_get(const telpher_array *array, void *block, telpher_error *err)
{
    return move(array, block, false, err);
}

telpher_status
telpher_array_free(telpher_array **array, telpher_error *err)
{
    struct tp_error why = {0};
    struct tp_group *g = *array != NULL ? find(*array, &why) : NULL;
    telpher_status status = why.code;

    tp_mutex_lock(&tp_offload_lock);
    if (g != NULL) {
        status = order(g, 0, TP_OFFLOAD_FREE, *array, NULL, &why);
    }
    if (*array != NULL && status != TELPHER_ERR_INVALID) { /* else somebody else's */
        drop(*array);
        *array = NULL;
    }
    tp_mutex_unlock(&tp_offload_lock);
    return tp_public_error(err, &why);
}
