/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated device memory, so that every path is tested without a device: the processor
 * gets a fault when it touches it, copies take the time that was set, and fail on demand.
 */
#ifndef TELPHER_DEVICE_SIM_SIM_H
#define TELPHER_DEVICE_SIM_SIM_H

#include "base/os/clock.h"
#include "waist/device.h"

/**
 * The domain. Options: "latency=5us,bandwidth=1G,fail=3", in any order; what is not named
 * costs nothing. There is one engine for each direction and one for copies inside: copies
 * of an engine take turns for their bytes, their latencies overlap. fail: that copy, counted
 * from 1, ends with TELPHER_ERR_DEVICE and moves nothing.
 */
extern const struct tp_device_maker tp_sim_maker;

/** Sets the speed of what is started from now on; 0 bytes/s = no limit. */
void tp_sim_set(struct tp_device *d, tp_ns latency, uint64_t bytes_per_s);

/** The @p nth copy started from now on (1 = the next) fails; 0 = none. */
void tp_sim_fail_nth(struct tp_device *d, uint64_t nth);

/** For tests: where the content of a memory really lies. */
void *tp_sim_content(void *mem);

/** For tests: a user's queue. A copy given it starts at busy_until, not before. */
struct tp_sim_queue {
    tp_ns busy_until;
};

#endif
