/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL cases that create objects, build programs and look for devices. */
#ifndef BENCH_OCL_CREATE_H
#define BENCH_OCL_CREATE_H

#include <stdbool.h>
#include <stddef.h>

bool ocl_start_creating(void *session, size_t bytes);
bool ocl_check_created(void *session);
bool ocl_run_create_buffer(void *session, double *own_us);
bool ocl_run_create_touched(void *session, double *own_us);
bool ocl_run_create_kernel(void *session, double *own_us);
bool ocl_run_create_user_event(void *session, double *own_us);
bool ocl_run_create_queue(void *session, double *own_us);
bool ocl_run_create_context(void *session, double *own_us);

bool ocl_start_building(void *session, size_t bytes);
bool ocl_check_built(void *session);
void ocl_stop_building(void *session);
bool ocl_run_build_cold(void *session, double *own_us);
bool ocl_run_build_cached(void *session, double *own_us);

/** Runs this program again with `--discover`, which prints the time it took. */
bool ocl_run_discovery(void *session, double *own_us);
/** Main function of that process. Prints "discovered US"; returns an exit status. */
int ocl_discover_main(const char *platform, int device);

#endif
