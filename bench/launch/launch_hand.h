/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between telpher-bench launch's parents and kernels that are not the library's. */
#ifndef BENCH_LAUNCH_HAND_H
#define BENCH_LAUNCH_HAND_H

#include <stdint.h>

enum { LAUNCH_HAND_TAG = 5, LAUNCH_STAMP_TAG = 6 };
enum { LAUNCH_HAND_END = 0, LAUNCH_HAND_FIVE = 1 };

/** One kernel as a protocol by hand has it. */
struct launch_hand_kernel {
    int32_t number; /**< of a switch */
    int32_t count; /**< of all in the message */
    double values[5];
};

#endif
