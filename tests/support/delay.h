/* SPDX-License-Identifier: Apache-2.0 */
/* Delays of the machine, which a test of a time limit must subtract. */
#ifndef TESTS_SUPPORT_DELAY_H
#define TESTS_SUPPORT_DELAY_H

#include <stdint.h>
#include <stdio.h>

/** [ns] for which the process's first thread was ready to run and others had the processors;
 *  0 where the kernel does not count that. */
static inline uint64_t
delay_ns(void)
{
    unsigned long long delay = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");

    if (file != NULL) {
        if (fscanf(file, "%*u %llu", &delay) != 1) {
            delay = 0;
        }
        (void)fclose(file);
    }
    return delay;
}

#endif
