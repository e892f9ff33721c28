/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the program's callbacks on one thread, and maps status codes to OpenCL errors. */
#include "icd/events/callback.h"
#include "icd/icd.h"

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

telpher_status
tp_icd_callbacks_start(void)
{
    telpher_status status = TELPHER_OK;

    pthread_mutex_lock(&making);
    if (tp_icd.callbacks == NULL) {
        status = tp_pool_create("telpher-call", 1, &tp_icd.callbacks);
    }
    pthread_mutex_unlock(&making);
    return status;
}

telpher_status
tp_icd_callback(void (*fn)(void *arg), void *arg)
{
    telpher_status status = tp_icd_callbacks_start();

    return status == TELPHER_OK ? tp_pool_submit(tp_icd.callbacks, fn, arg) : status;
}

void
tp_icd_callback_post(struct tp_pool_job *job, void (*fn)(void *arg), void *arg)
{
    (void)tp_pool_post(tp_icd.callbacks, job, fn, arg); /* never closed */
}

cl_int
tp_icd_cl_error(telpher_status status)
{
    switch (status) {
    case TELPHER_OK:
        return CL_SUCCESS;
    case TELPHER_ERR_NO_MEMORY:
        return CL_OUT_OF_HOST_MEMORY;
    case TELPHER_ERR_PEER_LOST:
    case TELPHER_ERR_UNREACHABLE:
    case TELPHER_ERR_REFUSED:
    case TELPHER_ERR_TIMEOUT:
    case TELPHER_ERR_AUTH:
    case TELPHER_ERR_VERSION:
    case TELPHER_ERR_DEVICE_LOST:
        return CL_DEVICE_NOT_AVAILABLE;
    default:
        return CL_OUT_OF_RESOURCES;
    }
}
