/* SPDX-License-Identifier: Apache-2.0 */
/* Where and when: a figure without its machine says nothing. */
#ifndef BENCH_LAUNCH_MACHINE_H
#define BENCH_LAUNCH_MACHINE_H

struct launch_machine {
    char cpu[128];
    char kernel[128]; /**< "Linux 6.1.0 x86_64" */
    char date[32]; /**< UTC, ISO 8601 */
    int processors; /**< online */
    double load; /**< average of the last minute, -1 if unknown */
};

void launch_machine_fill(struct launch_machine *machine);

#endif
