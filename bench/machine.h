/* SPDX-License-Identifier: Apache-2.0 */
/* Where and when: a figure without its machine says nothing. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

struct bench_machine {
    char host[128];
    char cpu[128];
    char kernel[128]; /**< "Linux 6.1.0 x86_64" */
    char date[32]; /**< UTC, ISO 8601 */
    int processors; /**< online */
    double load; /**< average of the last minute, -1 if unknown */
};

void bench_machine_fill(struct bench_machine *machine);

#endif
