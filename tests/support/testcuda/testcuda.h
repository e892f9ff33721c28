/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver for tests, without a GPU: the functions that src/device/cuda uses, over
 * memory that faults when it is touched. Streams run an operation each time somebody asks
 * for an event, so that nothing ends at once. One thread.
 */
#ifndef TELPHER_TESTS_SUPPORT_TESTCUDA_H
#define TELPHER_TESTS_SUPPORT_TESTCUDA_H

#include <stdbool.h>

#include "device/cuda/api.h"

/** Functions that tests find with dlsym(), by these names. */
struct testcuda_hooks {
    /** While it is held a stream runs nothing. */
    void (*hold)(CUstream stream, bool held);
    /** The @p nth call (1 = the next) of a function fails with @p error. For cuEventQuery it
     *  is the first that would have found the event done. */
    void (*fail_nth)(const char *function, unsigned nth, CUresult error);
    /** Objects that were made and not destroyed: memory, streams, events, contexts. */
    unsigned (*live)(void);
    /** How often a function was called. */
    unsigned (*calls)(const char *function);
};
extern const struct testcuda_hooks testcuda_hooks;

#endif
