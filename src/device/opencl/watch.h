/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of events that come soon, also with drivers that are slow to call back. */
#ifndef TELPHER_DEVICE_OPENCL_WATCH_H
#define TELPHER_DEVICE_OPENCL_WATCH_H

#include <stdbool.h>

#include "device/opencl/api.h"

typedef void(CL_CALLBACK *tp_opencl_callback)(cl_event event, cl_int status, void *arg);

/**
 * Replaces SetEventCallback in the table, for a driver whose callbacks come late. The new
 * one takes CL_COMPLETE only and calls back on a thread of its own, which lives as long as
 * the process. Call once, before other threads use the table; @p cl is kept.
 * @return OK; LIMIT: no thread, the driver's own is used
 */
telpher_status tp_opencl_watch_start(struct tp_opencl *cl);

/** @return true if the callbacks are ours */
bool tp_opencl_watches(void);
/**
 * The calling thread will look after the events it asks about, or no longer, whenever it
 * has nothing else to do. After tp_opencl_watch_start(); with drivers that call back in time
 * this and the next two do nothing. It must leave them before it waits for anything else.
 */
void tp_opencl_watch_adopt(bool adopt);
/** Looks at the caller's events and calls back for those that have ended.
 *  @return true if one had */
bool tp_opencl_watch_look(void);
/** Leaves the caller's events to the watching thread: it has something else to do. */
void tp_opencl_watch_leave(void);

#endif
