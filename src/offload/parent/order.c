/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are no kernels, ordered with kernels. */
#include <string.h>

#include "offload/offload_int.h"

static uint64_t
padded(uint64_t len)
{
    return (len + TP_OFFLOAD_ALIGN - 1) / TP_OFFLOAD_ALIGN * TP_OFFLOAD_ALIGN;
}

telpher_status
tp_offload_order_prepare(struct tp_offload_group *g, uint64_t len, bool wants_done,
                         struct tp_error *err)
{
    uint8_t *tail;

    if (tp_buf_reserve(&g->scratch, sizeof(struct tp_offload_record) + padded(len),
                       &tail) == TELPHER_OK &&
        (!wants_done || tp_offload_request_reserve(g) == TELPHER_OK)) {
        return TELPHER_OK;
    }
    return err->code == TELPHER_OK
               ? tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                              "out of memory for a call with %llu bytes of arguments",
                              (unsigned long long)len)
               : TELPHER_ERR_NO_MEMORY;
}

/* At the root: the record, with arguments up to the next multiple of 16. */
static telpher_status
send_order(struct tp_offload_group *g, uint64_t number, uint32_t flags,
           const void *args, uint64_t len, struct tp_error *err)
{
    struct tp_offload_record r = {TP_OFFLOAD_NO_KERNEL, (uint16_t)flags, 0,
                                  padded(len)};
    uint8_t *tail;

    if (tp_buf_reserve(&g->scratch, sizeof(r) + r.len, &tail) != TELPHER_OK) {
        tp_offload_group_lose(
            g, TELPHER_ERR_NO_MEMORY); /* the other parents count on it */
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for call %llu with %llu bytes of arguments; "
                            "its workers are lost",
                            (unsigned long long)number, (unsigned long long)len);
    }
    memcpy(tail, &r, sizeof(r));
    memset(tail + sizeof(r), 0, r.len);
    memcpy(tail + sizeof(r), args, len);
    tp_buf_commit(&g->scratch, sizeof(r) + r.len);
    return tp_offload_send_records(g, number, err);
}

telpher_status
tp_offload_order(struct tp_offload_group *g, int root, uint32_t flags, const void *args,
                 uint64_t len, MPIX_Kernel_request *ret_request, struct tp_error *err)
{
    uint64_t number = g->next++;
    MPIX_Kernel_request request = NULL;
    telpher_status status = TELPHER_OK;

    if (g->lost) {
        return tp_offload_group_error_lost(g, err);
    }
    if (ret_request != NULL) {
        request = tp_offload_request_make(g, number, err);
        status = err->code;
    }
    if (status != TELPHER_OK) {
        tp_offload_group_lose(g, status);
        return status;
    }
    if (g->rank == root) {
        status = send_order(g, number, flags, args, len, err);
    }
    if (status != TELPHER_OK) {
        tp_offload_request_drop(request);
        return status;
    }
    if (ret_request != NULL) {
        *ret_request = request;
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_request_await(MPIX_Kernel_request *request, MPIX_Kernel_status *ret_status)
{
    struct tp_offload_idle idle = TP_OFFLOAD_IDLE_INIT;
    telpher_status status;

    while ((status = telpher_offload_test(request, ret_status)) ==
           TELPHER_IN_PROGRESS) {
        tp_offload_idle_round(&idle);
    }
    return status;
}

/* At the root; only its path is significant. */
static telpher_status
check_path(const struct tp_offload_group *g, const char *path, struct tp_error *err)
{
    if (path == NULL || path[0] == '\0') {
        return tp_error_set(err, TELPHER_ERR_INVALID, "the path of the plugin is %s",
                            path == NULL ? "NULL" : "empty");
    }
    if (strlen(path) >=
        g->limit_bytes - sizeof(struct tp_offload_record) - TP_OFFLOAD_ALIGN) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "the path of the plugin, %.40s..., has %zu bytes, and the "
                            "workers take %llu in one launch (TELPHER_OFFLOAD_LIMIT)",
                            path, strlen(path), (unsigned long long)g->limit_bytes);
    }
    return TELPHER_OK;
}

/* All parents agree whether the workers can be asked to load the plugin. */
static telpher_status
prepare_load(struct tp_offload_group *g, const char *path, int root,
             struct tp_error *err)
{
    uint64_t len = 0;

    if (g->rank == root && check_path(g, path, err) == TELPHER_OK) {
        len = strlen(path) + 1;
    }
    tp_mutex_lock(&tp_offload_lock);
    (void)tp_offload_order_prepare(g, len, true, err);
    tp_mutex_unlock(&tp_offload_lock);
    return tp_offload_group_agree(
        g, &(struct tp_offload_agreement){TP_OFFLOAD_LOAD, root, 0, 0}, err);
}

/* All workers have tried to load; sends the new table of kernels, also after a
 * failure. */
static telpher_status
hear_loaded(struct tp_offload_group *g, MPIX_Kernel_request request, int root,
            struct tp_error *err)
{
    MPIX_Kernel_status result = {0};
    telpher_status status = tp_offload_request_await(&request, &result);

    if (status != TELPHER_OK) {
        (void)tp_offload_group_error_lost(g, err);
    }
    status =
        tp_offload_group_agree(g, &(struct tp_offload_agreement){.root = root}, err);
    if (status == TELPHER_OK) {
        status = tp_offload_group_names(g, root, err);
    }
    if (status == TELPHER_OK && result.result != 0) {
        status = tp_error_set(err, TELPHER_ERR_NOT_FOUND, "worker %d: %s", result.rank,
                              result.text);
    }
    return status;
}

telpher_status
telpher_offload_load(const char *path, int root, MPI_Comm comm, MPI_Comm intercomm,
                     telpher_error *err)
{
    struct tp_error why = {0};
    struct tp_offload_group *g = tp_offload_group_lock(intercomm, root, comm, &why);
    MPIX_Kernel_request request = NULL;
    telpher_status status;

    if (g == NULL) {
        return tp_offload_public_error(err, &why);
    }
    (void)tp_offload_group_check_comm(g, comm, &why);
    tp_mutex_unlock(&tp_offload_lock);
    if (prepare_load(g, path, root, &why) != TELPHER_OK) {
        return tp_offload_public_error(err, &why);
    }
    tp_mutex_lock(&tp_offload_lock);
    status = tp_offload_order(g, root, TP_OFFLOAD_LOAD | TP_OFFLOAD_DONE, path,
                              g->rank == root ? strlen(path) + 1 : 0, &request, &why);
    tp_mutex_unlock(&tp_offload_lock);
    if (status == TELPHER_OK) {
        (void)hear_loaded(g, request, root, &why);
    }
    return tp_offload_public_error(err, &why);
}
