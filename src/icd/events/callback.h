/* SPDX-License-Identifier: Apache-2.0 */
/* The one thread that runs the program's callbacks. */
#ifndef TELPHER_ICD_OBJECTS_CALLBACK_H
#define TELPHER_ICD_OBJECTS_CALLBACK_H

#include "base/container/pool.h"
#include "icd/cl.h"

/* ---- callbacks ----------------------------------------------------------------------- */

/** Queues fn(arg) for the callback thread, in order. Any thread, lock held or not. */
telpher_status tp_icd_callback(void (*fn)(void *arg), void *arg);
/** Starts that thread; required before the first post. @return OK, NO_MEMORY, LIMIT. */
telpher_status tp_icd_callbacks_start(void);
/** As tp_icd_callback, but the caller provides the memory, so it cannot fail. */
void tp_icd_callback_post(struct tp_pool_job *job, void (*fn)(void *arg), void *arg);
/** telpher_status → the nearest OpenCL error. */
cl_int tp_icd_cl_error(telpher_status status);

#endif
