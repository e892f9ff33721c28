/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are no kernels, each in its turn between them. */
#include <string.h>

#include "offload/offload_int.h"
#include "offload/pmpi.h"

/* At the root: the record, with arguments up to the next multiple of 16. */
static telpher_status
send_order(struct tp_group *g, uint64_t number, uint32_t flags, const void *args,
           uint64_t len, struct tp_error *err)
{
    uint64_t padded =
        (len + TP_OFFLOAD_ALIGN - 1) / TP_OFFLOAD_ALIGN * TP_OFFLOAD_ALIGN;
    struct tp_offload_record r = {TP_OFFLOAD_NO_KERNEL, (uint16_t)flags, 0, padded};
    uint8_t *tail;

    if (tp_buf_reserve(&g->scratch, sizeof(r) + padded, &tail) != TELPHER_OK) {
        tp_send_nothing(g, number, (flags & TP_OFFLOAD_DONE) != 0 && g->parents > 1);
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "no room for a call");
    }
    memcpy(tail, &r, sizeof(r));
    memset(tail + sizeof(r), 0, padded);
    memcpy(tail + sizeof(r), args, len);
    tp_buf_commit(&g->scratch, sizeof(r) + padded);
    return tp_send_records(g, number, err);
}

telpher_status
tp_order(struct tp_group *g, int root, uint32_t flags, const void *args, uint64_t len,
         MPIX_Kernel_request *ret_request, struct tp_error *err)
{
    uint64_t number = g->next++;
    MPIX_Kernel_request request = NULL;
    telpher_status status = TELPHER_OK;

    if (g->lost) {
        return tp_error_set(err, g->status, "the workers are lost");
    }
    if (ret_request != NULL) {
        request = tp_request_make(g, number, err);
        status = err->code;
    }
    if (g->rank == root && status == TELPHER_OK) {
        status = send_order(g, number, flags, args, len, err);
    } else if (g->rank == root) {
        tp_send_nothing(g, number, g->parents > 1);
    }
    if (status != TELPHER_OK) {
        tp_request_drop(request);
        return status;
    }
    if (ret_request != NULL) {
        *ret_request = request;
    }
    return TELPHER_OK;
}

telpher_status
tp_request_await(MPIX_Kernel_request *request, MPIX_Kernel_status *ret_status)
{
    struct tp_idle idle = TP_IDLE_INIT;
    telpher_status status;

    while ((status = telpher_offload_test(request, ret_status)) ==
           TELPHER_IN_PROGRESS) {
        tp_idle_round(&idle);
    }
    return status;
}

telpher_status
telpher_offload_load(const char *path, int root, MPI_Comm comm, MPI_Comm intercomm,
                     telpher_error *err)
{
    struct tp_error why = {0};
    struct tp_group *g = tp_group_lock(intercomm, root, comm, &why);
    MPIX_Kernel_request request = NULL;
    MPIX_Kernel_status result = {0};
    telpher_status status;

    if (g == NULL) {
        return tp_public_error(err, &why);
    }
    status = tp_order(g, root, TP_OFFLOAD_LOAD | TP_OFFLOAD_DONE, path,
                      strlen(path) + 1, &request, &why);
    tp_mutex_unlock(&tp_offload_lock);
    if (status == TELPHER_OK) {
        status = tp_request_await(&request, &result);
    }
    if (status == TELPHER_OK) {
        status = tp_group_names(g, root, tp_comm(comm), &why);
    }
    if (status == TELPHER_OK && result.result != 0) {
        status = tp_error_set(&why, TELPHER_ERR_NOT_FOUND, "worker %d: %s", result.rank,
                              result.text);
    }
    if (status != TELPHER_OK && why.code == TELPHER_OK) {
        (void)tp_error_set(&why, status, "the workers are lost");
    }
    return tp_public_error(err, &why);
}
