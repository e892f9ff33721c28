/* SPDX-License-Identifier: Apache-2.0 */
/* Randomness fit for session ids and cookies, and the comparison of secrets. */
#ifndef TELPHER_BASE_OS_RANDOM_H
#define TELPHER_BASE_OS_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/compiler.h"

/** Fills @p dst from getrandom(2). @return TELPHER_OK, TELPHER_ERR_IO: do not go on. */
telpher_status tp_random_bytes(void *dst, size_t len) TP_MUST_CHECK;

/** Compares in a time that does not depend on where the bytes differ. */
bool tp_random_equal(const void *a, const void *b, size_t len);

#endif
