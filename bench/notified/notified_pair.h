/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes for telpher-bench notified. */
#ifndef BENCH_NOTIFIED_PAIR_H
#define BENCH_NOTIFIED_PAIR_H

#include <stdbool.h>

#include <telpher/context.h>

/** True if libtelpher has @p transport. */
bool notified_has(const char *transport);

/** Runs in both processes; the first one's context has rank 0. */
typedef bool (*notified_pair_fn)(telpher_context *ctx, void *arg);

/** Runs @p fn in this process and in a child, joined by @p transport.
 *  @return false after words, when something failed in either */
bool notified_pair(const char *transport, notified_pair_fn fn, void *arg);

struct notified;

/** Half round trips of the core's telpher_put_notify() of 4 bytes [us], into us. */
bool notified_core(const struct notified *n, telpher_context *ctx);

#endif
