/* SPDX-License-Identifier: Apache-2.0 */
/* The parents' side of arrays that stay in the workers. All parents have the same
 * table of arrays. */
#include <string.h>

#include "base/alloc.h"
#include "offload/offload_int.h"

/* A program's handle is a number that is never reused. It is not an address, which
 * malloc() could reuse. */
struct array {
    struct tp_list link; /* in tp_offload_group.arrays */
    uintptr_t number;
    struct tp_offload_array is;
};

static uintptr_t last_number;

static telpher_array *
handle_of(const struct array *array)
{
    return (telpher_array *)array->number;
}

/* With the lock held: finds the array of @p handle and its group; NULL if there is
 * none. */
static struct array *
look_up(const telpher_array *handle, struct tp_offload_group **ret_group)
{
    tp_list_for_each_entry(struct tp_offload_group, g, &tp_offload_groups, link) {
        tp_list_for_each_entry(struct array, array, &g->arrays, link) {
            if (handle_of(array) == handle) {
                *ret_group = g;
                return array;
            }
        }
    }
    return NULL;
}

static void
drop(struct array *array)
{
    tp_list_remove(&array->link);
    tp_free(array);
}

void
tp_offload_array_drop_all(struct tp_offload_group *g)
{
    tp_list_for_each_safe(link, &g->arrays) {
        drop(tp_list_entry(link, struct array, link));
    }
}

telpher_status
tp_offload_array_args(const struct tp_offload_group *g, const telpher_launch *l,
                      const struct tp_offload_signature *sig, void **args,
                      uint64_t *ids, struct tp_error *err)
{
    for (uint32_t i = 0; i < sig->count; i++) {
        const telpher_array *handle;
        const struct array *array;
        struct tp_offload_group *owner;

        args[i] = l->args[i];
        if (sig->args[i].code != 'A') {
            continue;
        }
        memcpy(&handle, l->args[i], sizeof(handle));
        array = look_up(handle, &owner);
        if (array == NULL || owner != g) {
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
        return tp_error_set(
            err, TELPHER_ERR_RANGE,
            "an array of %llu rows of %llu bytes is too large: %llu bytes at most",
            (unsigned long long)rows, (unsigned long long)row_bytes,
            (unsigned long long)TP_OFFLOAD_ARRAY_MAX);
    }
    return TELPHER_OK;
}

/* With the lock held: all parents record the call, the root sends it. */
static telpher_status
order(struct tp_offload_group *g, int root, uint32_t flags,
      const struct tp_offload_array *is, MPIX_Kernel_request *ret_request,
      struct tp_error *err)
{
    return tp_offload_order(g, root, flags, is, sizeof(*is), ret_request, err);
}

/* Agrees with all parents whether the call can be made: memory is allocated and
 * workers live. */
static telpher_status
prepare(struct tp_offload_group *g, int root, uint32_t flags,
        const struct tp_offload_array *is, struct tp_error *err)
{
    const struct tp_offload_agreement call = {flags, root, is->rows ^ is->id << 32,
                                              is->row_bytes};

    tp_mutex_lock(&tp_offload_lock);
    (void)tp_offload_order_prepare(g, sizeof(*is), (flags & TP_OFFLOAD_DONE) != 0, err);
    tp_mutex_unlock(&tp_offload_lock);
    return tp_offload_group_agree(g, &call, err);
}

/* Waits until all workers have allocated their rows, or one has failed. */
static telpher_status
await_rows(struct tp_offload_group *g, const struct tp_offload_array *is,
           MPIX_Kernel_request request, struct tp_error *err)
{
    MPIX_Kernel_status result = {0};
    telpher_status status = tp_offload_request_await(&request, &result);

    if (status != TELPHER_OK) {
        return tp_error_set(
            err, status,
            "%llu rows of %llu bytes could not be allocated by the workers: %s",
            (unsigned long long)is->rows, (unsigned long long)is->row_bytes,
            telpher_status_text(status));
    }
    if (result.result == 0) {
        return TELPHER_OK;
    }
    tp_mutex_lock(&tp_offload_lock);
    (void)order(g, 0, TP_OFFLOAD_FREE, is, NULL,
                err); /* workers that have allocated their rows */
    tp_mutex_unlock(&tp_offload_lock);
    return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "worker %d: %s", result.rank,
                        result.text);
}

/* Lets the workers allocate the rows of @p is and assigns its number. */
static telpher_status
make_rows(struct tp_offload_group *g, int root, struct tp_offload_array *is,
          struct tp_error *err)
{
    const uint32_t flags = TP_OFFLOAD_CREATE | TP_OFFLOAD_DONE;
    MPIX_Kernel_request request = NULL;
    telpher_status status = prepare(g, root, flags, is, err);

    if (status != TELPHER_OK) {
        return status;
    }
    tp_mutex_lock(&tp_offload_lock);
    is->id = g->next;
    status = order(g, root, flags, is, &request, err);
    tp_mutex_unlock(&tp_offload_lock);
    return status == TELPHER_OK ? await_rows(g, is, request, err) : status;
}

telpher_status
telpher_array_create(uint64_t rows, uint64_t row_bytes, int root, MPI_Comm comm,
                     MPI_Comm intercomm, telpher_array **ret_array, telpher_error *err)
{
    struct tp_offload_array is = {0, rows, row_bytes, 0};
    struct tp_error why = {0};
    struct tp_offload_group *g = tp_offload_group_lock(intercomm, root, comm, &why);
    struct array *array;

    if (g == NULL) {
        return tp_offload_public_error(err, &why);
    }
    (void)tp_offload_group_check_comm(g, comm, &why);
    tp_mutex_unlock(&tp_offload_lock);
    array = tp_zalloc(sizeof(*array), "array");
    if (array == NULL) { /* the other parents learn of it before they allocate */
        (void)tp_error_set(&why, TELPHER_ERR_NO_MEMORY,
                           "out of memory for the handle of an array of %llu rows",
                           (unsigned long long)rows);
    }
    (void)check_size(rows, row_bytes, &why);
    if (make_rows(g, root, &is, &why) != TELPHER_OK) {
        tp_free(array);
        return tp_offload_public_error(err, &why);
    }
    tp_mutex_lock(&tp_offload_lock);
    array->is = is;
    array->number = ++last_number;
    tp_list_push_back(&g->arrays, &array->link);
    tp_mutex_unlock(&tp_offload_lock);
    *ret_array = handle_of(array);
    return TELPHER_OK;
}

/* While rows are transferred: sends queued launches and detects the workers' end. */
static telpher_status
progress(void *arg)
{
    struct tp_offload_group *g = arg;
    telpher_status status;

    tp_mutex_lock(&tp_offload_lock);
    tp_offload_send_progress(g);
    (void)tp_offload_progress_thread_round();
    status = g->lost ? g->status : TELPHER_OK;
    tp_mutex_unlock(&tp_offload_lock);
    return status;
}

/* The group whose workers have, or had, the array of @p handle. NULL: with an error
 * text. */
static struct tp_offload_group *
find(const telpher_array *handle, struct tp_offload_array *ret_is, struct tp_error *err)
{
    struct tp_offload_group *g = NULL;
    struct array *array;

    tp_mutex_lock(&tp_offload_lock);
    array = look_up(handle, &g);
    if (array != NULL) {
        *ret_is = array->is;
    } else {
        (void)tp_error_set(err, TELPHER_ERR_INVALID,
                           "no such array: it was freed, or its workers have ended");
    }
    tp_mutex_unlock(&tp_offload_lock);
    return array != NULL ? g : NULL;
}

/* All parents have prepared; a failure from here on means that the workers are lost. */
static telpher_status
move_rows(struct tp_offload_group *g, uint32_t flags, const struct tp_offload_array *is,
          struct tp_offload_transfer *t, struct tp_error *err)
{
    telpher_status status;

    tp_mutex_lock(&tp_offload_lock);
    status = order(g, 0, flags, is, NULL, err);
    tp_mutex_unlock(&tp_offload_lock);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_offload_transfer_run(t);
    if (status != TELPHER_OK) {
        tp_mutex_lock(&tp_offload_lock);
        tp_offload_group_lose(g, status);
        tp_mutex_unlock(&tp_offload_lock);
        return tp_offload_group_error_lost(g, err);
    }
    return TELPHER_OK;
}

static telpher_status
move(const telpher_array *handle, void *block, uint32_t flags, telpher_error *err)
{
    struct tp_offload_array is;
    struct tp_error why = {0};
    struct tp_offload_group *g = find(handle, &is, &why);
    struct tp_offload_transfer t = {.block = block, .progress = progress, .arg = g};

    if (g == NULL) {
        return tp_offload_public_error(err, &why);
    }
    t.inter = g->control;
    t.sends = flags == TP_OFFLOAD_PUT;
    t.rows = is.rows;
    t.row_bytes = is.row_bytes;
    (void)tp_offload_transfer_prepare(&t, &why);
    if (prepare(g, 0, flags, &is, &why) == TELPHER_OK) {
        (void)move_rows(g, flags, &is, &t, &why);
    }
    tp_offload_transfer_fini(&t);
    return tp_offload_public_error(err, &why);
}

telpher_status
telpher_array_put(const telpher_array *array, const void *block, telpher_error *err)
{
    /* MPI declares buffers that it only reads without const */
    return move(array, (void *)(uintptr_t)block, TP_OFFLOAD_PUT, err);
}

telpher_status
telpher_array_get(const telpher_array *array, void *block, telpher_error *err)
{
    return move(array, block, TP_OFFLOAD_GET, err);
}

/* The parent forgets the array after the workers freed it or were lost. */
static bool
is_gone(telpher_status status)
{
    return status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST;
}

telpher_status
telpher_array_free(telpher_array **array, telpher_error *err)
{
    struct tp_offload_array is;
    struct tp_error why = {0};
    struct tp_offload_group *g = *array != NULL ? find(*array, &is, &why) : NULL;
    telpher_status status;

    if (g == NULL) {
        return tp_offload_public_error(err, &why);
    }
    status = prepare(g, 0, TP_OFFLOAD_FREE, &is, &why);
    tp_mutex_lock(&tp_offload_lock);
    if (status == TELPHER_OK) {
        (void)order(g, 0, TP_OFFLOAD_FREE, &is, NULL, &why);
    }
    if (is_gone(status)) {
        drop(look_up(*array, &g));
        *array = NULL;
    }
    tp_mutex_unlock(&tp_offload_lock);
    return tp_offload_public_error(err, &why);
}
