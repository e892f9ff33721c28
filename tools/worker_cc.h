/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of telpher-worker-cc: run compilers; read debug information. */
#ifndef TELPHER_TOOLS_WORKER_CC_H
#define TELPHER_TOOLS_WORKER_CC_H

#include <stdbool.h>
#include <stdio.h>

/**
 * Writes a C table of the plain functions in the program @p path, by its debug information,
 * for telpher_kernel_register_derived(). With @p verbose it says on standard error which it
 * took, and which not and why.
 * @return how many; -1 when the program cannot be read, which it said
 */
int worker_derive(const char *path, FILE *out, bool verbose);

#endif
