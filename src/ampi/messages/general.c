/* SPDX-License-Identifier: Apache-2.0 */
/* Generalized requests: operations of the program, which says when they are complete. */
#include "ampi/process.h"
#include "base/alloc.h"

struct general {
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *extra;
};

static void
end_general(void *arg)
{
    struct general *general = arg;

    if (general->free != NULL) {
        (void)general->free(general->extra);
    }
    tp_free(general);
}

int
tp_ampi_general_status(const struct tp_ampi_request *req, MPI_Status *status)
{
    const struct general *general = req->arg;
    MPI_Status unused;

    status = status != MPI_STATUS_IGNORE ? status : &unused;
    tp_ampi_status_empty(status, MPI_UNDEFINED);
    return general->query(general->extra, status);
}

int
tp_ampi_general_end(const struct tp_ampi_request *req, MPI_Status *status)
{
    struct general *general = req->arg;
    int error = tp_ampi_general_status(req, status), freed = MPI_SUCCESS;

    if (general->free != NULL) {
        freed = general->free(general->extra);
        general->free = NULL; /* it was called */
    }
    return error != MPI_SUCCESS ? error : freed;
}

int
tp_ampi_general_cancel(const struct tp_ampi_request *req)
{
    const struct general *general = req->arg;

    return general->cancel(general->extra, req->complete);
}

int
PMPI_Grequest_start(MPI_Grequest_query_function *query,
                    MPI_Grequest_free_function *free_fn,
                    MPI_Grequest_cancel_function *cancel, void *extra,
                    MPI_Request *request)
{
    struct general *general = tp_zalloc(sizeof(*general), "MPI request");
    struct tp_ampi_request *req = NULL;

    tp_ampi_enter();
    if (general != NULL) {
        *general = (struct general){query, free_fn, cancel, extra};
        req = tp_ampi_request_take(TP_AMPI_GENERAL_REQUEST);
    }
    if (req != NULL) {
        req->handle = tp_ampi_handle_create(TP_AMPI_REQUEST, req);
    }
    if (req == NULL || req->handle == 0) {
        if (req != NULL) {
            tp_ampi_request_give(req);
        }
        tp_free(general);
        tp_ampi_leave();
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for a request");
    }
    req->owner = tp_ampi_current();
    req->active = true;
    req->arg = general;
    req->destroy = end_general;
    *request = req->handle;
    tp_ampi_leave();
    return MPI_SUCCESS;
}
TP_MPI_NAME(Grequest_start);

int
PMPI_Grequest_complete(MPI_Request request)
{
    struct tp_ampi_request *req;
    int error = MPI_ERR_REQUEST;

    tp_ampi_enter();
    req = tp_ampi_handle_get(request, TP_AMPI_REQUEST);
    if (req == NULL || req->kind != TP_AMPI_GENERAL_REQUEST) {
        (void)tp_ampi_error(NULL, error, "%#x is no generalized request", request);
    } else {
        tp_ampi_request_complete(req, MPI_SUCCESS);
        error = MPI_SUCCESS;
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Grequest_complete);
