/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the ranks that telpher launch starts to processor cores. */
#ifndef TELPHER_TOOLS_BIND_H
#define TELPHER_TOOLS_BIND_H

/** Counts the cores that this process may run on. */
int bind_count_cores(void);
/** Lets the calling process run on one of them only, with all its hardware threads.
 *  @return 0, or -1 with errno */
int bind_to_core(int core);

#endif
