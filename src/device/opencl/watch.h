/* SPDX-License-Identifier: Apache-2.0 */
/* Polls events and calls back early, for drivers whose own callbacks are late. */
#ifndef TELPHER_DEVICE_OPENCL_WATCH_H
#define TELPHER_DEVICE_OPENCL_WATCH_H

#include <stdbool.h>

#include "device/opencl/api.h"

typedef void(CL_CALLBACK *tp_opencl_callback)(cl_event event, cl_int status, void *arg);

/**
 * Replaces SetEventCallback in the table, for a driver whose callbacks are late. The new
 * function supports CL_COMPLETE only and calls back on a separate thread, which lives as
 * long as the process. Of two events that have ended, it calls back first for the one whose
 * callback was set first. Call once, before other threads use the table; @p cl is kept.
 * @return OK; LIMIT: cannot create a thread, the driver's function stays
 */
telpher_status tp_opencl_watch_start(struct tp_opencl *cl);

/** @return true if tp_opencl_watch_start() has replaced the driver's callbacks */
bool tp_opencl_watches(void);
/**
 * Begins or ends polling by the calling thread of the events for which it sets callbacks.
 * Call after tp_opencl_watch_start(); without that, this and the next two do nothing. The
 * thread must call tp_opencl_watch_leave() before it waits for anything else.
 */
void tp_opencl_watch_adopt(bool adopt);
/** Polls the events, unless they are the watching thread's by now, and calls back for those
 *  that have ended. @return true if at least one had */
bool tp_opencl_watch_look(void);
/** Moves the caller's events to the watching thread, because the caller will wait. */
void tp_opencl_watch_leave(void);

#endif
