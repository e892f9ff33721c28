/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that test and wait for requests. */
#include "ampi/process.h"

/* The request of a handle; *ret_idle: there is nothing to wait for. */
static int
find(MPI_Request handle, struct tp_ampi_request **ret, bool *ret_idle)
{
    *ret = NULL;
    *ret_idle = true;
    if (handle == MPI_REQUEST_NULL || handle == TP_AMPI_REQUEST_DONE) {
        return MPI_SUCCESS;
    }
    *ret = tp_ampi_handle_get(handle, TP_AMPI_REQUEST);
    if (tp_unlikely(*ret == NULL)) {
        return tp_ampi_error(NULL, MPI_ERR_REQUEST, "%#x is no request", handle);
    }
    *ret_idle = (*ret)->persistent && !(*ret)->active;
    return MPI_SUCCESS;
}

/* Ends a request that is complete. @return its error class, not reported yet */
static int
finish(MPI_Request *handle, struct tp_ampi_request *req, MPI_Status *status)
{
    int error;

    if (req == NULL) {
        *handle = MPI_REQUEST_NULL;
        tp_ampi_status_empty(status, MPI_ANY_SOURCE);
        return MPI_SUCCESS;
    }
    error = req->error;
    if (req->kind == TP_AMPI_GENERAL_REQUEST) {
        error = tp_ampi_general_end(req, status);
    } else {
        tp_ampi_request_status(req, status);
    }
    if (req->persistent) {
        if (!req->active) {
            tp_ampi_status_empty(status, MPI_ANY_SOURCE);
        }
        req->active = false;
        return error;
    }
    tp_ampi_request_give(req);
    *handle = MPI_REQUEST_NULL;
    return error;
}

static int
finish_one(MPI_Request *handle, struct tp_ampi_request *req, MPI_Status *status)
{
    struct tp_ampi_comm *comm = req != NULL ? req->comm : NULL;
    int error = req != NULL ? req->error : MPI_SUCCESS;

    if (tp_unlikely(error != MPI_SUCCESS)) {
        error = tp_ampi_request_report(comm, error, req);
    }
    if (req != NULL && req->kind == TP_AMPI_GENERAL_REQUEST) {
        return tp_ampi_error(NULL, finish(handle, req, status),
                             "a function of a generalized request failed");
    }
    (void)finish(handle, req, status);
    return error;
}

int
PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    struct tp_ampi_request *req;
    bool idle;
    int error;

    tp_ampi_enter();
    error = find(*request, &req, &idle);
    if (error == MPI_SUCCESS) {
        if (!idle) {
            tp_ampi_request_await(req);
        }
        error = finish_one(request, req, status);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Wait);

static bool
is_done(const struct tp_ampi_request *req, bool idle)
{
    return idle || req->complete;
}

int
PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct tp_ampi_request *req;
    bool idle;
    int error;

    tp_ampi_enter();
    error = find(*request, &req, &idle);
    *flag = 0;
    if (error == MPI_SUCCESS) {
        if (!is_done(req, idle)) {
            tp_ampi_yield();
        }
        *flag = is_done(req, idle);
        if (*flag) {
            error = finish_one(request, req, status);
        }
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Test);

int
PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    struct tp_ampi_request *req;
    bool idle;
    int error;

    tp_ampi_enter();
    error = find(request, &req, &idle);
    *flag = 0;
    if (error == MPI_SUCCESS) {
        if (!is_done(req, idle)) {
            tp_ampi_yield();
        }
        *flag = is_done(req, idle);
        if (*flag && !idle) {
            tp_ampi_request_status(req, status);
        } else if (*flag) {
            tp_ampi_status_empty(status, MPI_ANY_SOURCE);
        }
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Request_get_status);

/* ---- many ---- */

/* Counts requests: those that may be waited for, and those of them that are complete. */
static int
count_states(int count, const MPI_Request requests[], int *ret_active, int *ret_done)
{
    *ret_active = *ret_done = 0;
    for (int i = 0; i < count; i++) {
        struct tp_ampi_request *req;
        bool idle;
        int error = find(requests[i], &req, &idle);

        if (error != MPI_SUCCESS) {
            return error;
        }
        if (requests[i] == TP_AMPI_REQUEST_DONE) {
            (*ret_active)++;
            (*ret_done)++;
        } else if (!idle) {
            (*ret_active)++;
            *ret_done += req->complete;
        }
    }
    return MPI_SUCCESS;
}

/* No request names a waiter any more. */
static void
unwatch(int count, const MPI_Request requests[])
{
    struct tp_ampi_request *req;
    bool idle;

    for (int i = 0; i < count; i++) {
        if (find(requests[i], &req, &idle) == MPI_SUCCESS && req != NULL) {
            req->waiter = NULL;
        }
    }
}

/* Lets the requests that are not complete count down, and counts them. */
static int
watch(int count, const MPI_Request requests[], struct tp_ampi_waiter *waiter)
{
    for (int i = 0; i < count; i++) {
        struct tp_ampi_request *req;
        bool idle;
        int error = find(requests[i], &req, &idle);

        if (tp_unlikely(error != MPI_SUCCESS)) {
            unwatch(i, requests);
            return error;
        }
        if (!idle && !req->complete) {
            req->waiter = waiter;
            waiter->needed++;
        }
    }
    return MPI_SUCCESS;
}

/* Waits until one more of the requests, which were counted, is complete. */
static void
await_one(int count, const MPI_Request requests[])
{
    struct tp_ampi_waiter waiter = {.light = tp_ampi.lights.current};

    (void)watch(count, requests, &waiter);
    waiter.needed = 1;
    tp_ampi_block(&waiter);
    unwatch(count, requests);
}

/* Ends all requests. Errors are reported once, and are in the statuses. */
static int
finish_all(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS;
    struct tp_ampi_comm *comm = NULL;
    char text[TP_AMPI_EXPLAIN_MAX] = ""; /* of the first error */

    for (int i = 0; i < count; i++) {
        MPI_Status *status = statuses != MPI_STATUSES_IGNORE ? &statuses[i] : NULL;
        struct tp_ampi_request *req;
        bool idle;
        int error = find(requests[i], &req, &idle);

        if (error == MPI_SUCCESS) {
            error = req != NULL ? req->error : MPI_SUCCESS;
            if (error != MPI_SUCCESS && result == MPI_SUCCESS) {
                comm = req->comm;
                result = MPI_ERR_IN_STATUS;
                tp_ampi_request_explain(req, error, text, sizeof(text));
            }
            (void)finish(&requests[i], req, status);
        }
        if (status != NULL) {
            status->MPI_ERROR = error;
        }
    }
    return result == MPI_SUCCESS ? result : tp_ampi_error(comm, result, "%s", text);
}

int
PMPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct tp_ampi_waiter waiter = {0};
    int error;

    tp_ampi_enter();
    waiter.light = tp_ampi.lights.current;
    error = watch(count, requests, &waiter);
    if (error == MPI_SUCCESS) {
        if (waiter.needed != 0) {
            tp_ampi_block(&waiter);
        }
        error = finish_all(count, requests, statuses);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Waitall);

int
PMPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    int active, done, error;

    tp_ampi_enter();
    error = count_states(count, requests, &active, &done);
    if (error == MPI_SUCCESS && active != done) {
        tp_ampi_yield();
        error = count_states(count, requests, &active, &done);
    }
    *flag = error == MPI_SUCCESS && active == done;
    if (*flag) {
        error = finish_all(count, requests, statuses);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Testall);

/* Ends the first request that is complete. @return its error class */
static int
finish_any(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    for (int i = 0; i < count; i++) {
        struct tp_ampi_request *req;
        bool idle;

        if (requests[i] != MPI_REQUEST_NULL &&
            find(requests[i], &req, &idle) == MPI_SUCCESS &&
            (req == NULL || (!idle && req->complete))) {
            *index = i;
            return finish_one(&requests[i], req, status);
        }
    }
    *index = MPI_UNDEFINED;
    tp_ampi_status_empty(status, MPI_ANY_SOURCE);
    return MPI_SUCCESS;
}

int
PMPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    int active, done, error;

    tp_ampi_enter();
    error = count_states(count, requests, &active, &done);
    if (error == MPI_SUCCESS) {
        if (done == 0 && active != 0) {
            await_one(count, requests);
        }
        error = finish_any(count, requests, index, status);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Waitany);

int
PMPI_Testany(int count, MPI_Request requests[], int *index, int *flag,
             MPI_Status *status)
{
    int active, done, error;

    tp_ampi_enter();
    error = count_states(count, requests, &active, &done);
    if (error == MPI_SUCCESS && done == 0 && active != 0) {
        tp_ampi_yield();
        error = count_states(count, requests, &active, &done);
    }
    *flag = error == MPI_SUCCESS && (done != 0 || active == 0);
    *index = MPI_UNDEFINED;
    if (*flag) {
        error = finish_any(count, requests, index, status);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Testany);

/* Ends all requests that are complete. */
static int
finish_some(int count, MPI_Request requests[], int active, int *outcount, int indices[],
            MPI_Status statuses[])
{
    int result = MPI_SUCCESS;

    *outcount = active == 0 ? MPI_UNDEFINED : 0;
    for (int i = 0; i < count && active != 0; i++) {
        MPI_Status *status =
            statuses != MPI_STATUSES_IGNORE ? &statuses[*outcount] : NULL;
        struct tp_ampi_request *req;
        bool idle;
        int error;

        if (requests[i] == MPI_REQUEST_NULL ||
            find(requests[i], &req, &idle) != MPI_SUCCESS ||
            (req != NULL && (idle || !req->complete))) {
            continue;
        }
        error = finish(&requests[i], req, status);
        if (status != NULL) {
            status->MPI_ERROR = error;
        }
        result = error != MPI_SUCCESS ? MPI_ERR_IN_STATUS : result;
        indices[(*outcount)++] = i;
    }
    return tp_ampi_error(NULL, result, "an operation ended with an error");
}

static int
take_some(bool wait, int incount, MPI_Request requests[], int *outcount, int indices[],
          MPI_Status statuses[])
{
    int active, done, error;

    tp_ampi_enter();
    error = count_states(incount, requests, &active, &done);
    if (error == MPI_SUCCESS) {
        if (done == 0 && active != 0 && wait) {
            await_one(incount, requests);
        } else if (done == 0 && active != 0) {
            tp_ampi_yield();
        }
        error = finish_some(incount, requests, active, outcount, indices, statuses);
    }
    tp_ampi_leave();
    return error;
}

int
PMPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[],
              MPI_Status statuses[])
{
    return take_some(true, incount, requests, outcount, indices, statuses);
}
TP_MPI_NAME(Waitsome);

int
PMPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[],
              MPI_Status statuses[])
{
    return take_some(false, incount, requests, outcount, indices, statuses);
}
TP_MPI_NAME(Testsome);

/* ---- free and cancel ---- */

int
PMPI_Request_free(MPI_Request *request)
{
    struct tp_ampi_request *req;
    bool idle;
    int error;

    tp_ampi_enter();
    error = *request == MPI_REQUEST_NULL
                ? tp_ampi_error(NULL, MPI_ERR_REQUEST, "MPI_REQUEST_NULL is no request")
                : find(*request, &req, &idle);
    if (error == MPI_SUCCESS) {
        if (req != NULL && req->complete) {
            tp_ampi_request_give(req);
        } else if (req != NULL) {
            req->freed = true;
        }
        *request = MPI_REQUEST_NULL;
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Request_free);

int
PMPI_Cancel(MPI_Request *request)
{
    struct tp_ampi_request *req;
    bool idle;
    int error;

    tp_ampi_enter();
    error = find(*request, &req, &idle);
    if (*request == MPI_REQUEST_NULL) {
        error = tp_ampi_error(NULL, MPI_ERR_REQUEST, "the null request cannot end");
    }
    if (error == MPI_SUCCESS && req != NULL && req->kind == TP_AMPI_GENERAL_REQUEST) {
        error = tp_ampi_error(NULL, tp_ampi_general_cancel(req),
                              "a function of a generalized request failed");
    }
    if (error == MPI_SUCCESS && req != NULL && req->kind == TP_AMPI_RECV_REQUEST &&
        tp_list_is_linked(&req->link)) { /* no message has matched it; sends go on */
        tp_list_remove(&req->link);
        req->canceled = true;
        tp_ampi_request_complete(req, MPI_SUCCESS);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Cancel);

int
PMPI_Test_cancelled(const MPI_Status *status, int *flag)
{
    *flag = status->telpher_canceled;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Test_cancelled);

int
PMPI_Status_set_cancelled(MPI_Status *status, int flag)
{
    status->telpher_canceled = flag != 0;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Status_set_cancelled);
